//! The times and rates of loads on a database: those of clients and of the network between. What a server does by its own clock
//! (checkpoints, flushing in the background) nothing stretches.

use super::{longer, whole};
use domain::study::{Tool, Workload};
use domain::time::Nanos;
use std::collections::BTreeMap;
use workloads::pgbench::options::Pgbench;
use workloads::sysbench::options::{Network, Oltp, START_DELAY};

/// Options that are spans with a unit.
const SPANS: [&str; 4] = ["period", "think_time", START_DELAY, "network_delay"];

/// Stretches what a load says of time. What it does not say, the tool's own default of how long it takes, is said then.
/// Options that make no load stay as they are: whoever runs them says what is wrong.
pub(super) fn stretch(workload: &mut Workload, d: f64) {
    let options = &mut workload.options;
    let (time, network) = match workload.tool {
        Tool::Sysbench => match Oltp::parse(options) {
            Ok(Oltp { time, network, .. }) => (time, network),
            Err(_) => return,
        },
        Tool::Pgbench => match Pgbench::parse(options) {
            Ok(Pgbench { time, network, .. }) => (time, network),
            Err(_) => return,
        },
        Tool::Fio | Tool::Dd | Tool::Bonnie | Tool::Imported | Tool::Command { .. } => return,
    };
    if let Some(seconds) = time.and_then(|time| whole((time.secs() * d).ceil())) {
        options.insert("time".into(), seconds);
    }
    for name in SPANS {
        change(options, name, |text| {
            Some(format!("{}us", longer(Nanos::parse(text)?, d).get().div_ceil(1000)))
        });
    }
    change(options, "rate", |text| whole((text.parse::<f64>().ok()? / d).max(1.0)));
    if let Some(Network { bandwidth: Some(rate), .. }) = network {
        change(options, "network_bandwidth", |_| {
            Some(format!("{} bit/s", whole((rate.get() as f64 * 8.0 / d).max(SLOWEST_BITS))?))
        });
    }
}

/// The slowest network that a study may have: 1 kB/s.
const SLOWEST_BITS: f64 = 8000.0;

fn change(options: &mut BTreeMap<String, String>, name: &str, change: impl Fn(&str) -> Option<String>) {
    if let Some(value) = options.get_mut(name)
        && let Some(changed) = change(value)
    {
        *value = changed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stretched(tool: Tool, options: &[(&str, &str)]) -> String {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut workload = Workload { name: "w".into(), tool, options };
        stretch(&mut workload, 20.0);
        let words = workload.options.iter().map(|(name, value)| format!("{name}={value}"));
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn spans_become_longer_and_rates_lower() {
        let options = [
            ("test", "oltp_read_only"),
            ("time", "3"),
            ("duty_cycle", "20%"),
            ("period", "100ms"),
            ("network_delay", "25us"),
            ("network_bandwidth", "10 Gbit/s"),
        ];
        assert_eq!(
            stretched(Tool::Sysbench, &options),
            "duty_cycle=20% network_bandwidth=500000000 bit/s network_delay=500us period=2000000us test=oltp_read_only time=60"
        );
        let options = [("test", "oltp_read_only"), ("rate", "30"), ("think_time", "1ms")];
        assert_eq!(
            stretched(Tool::Sysbench, &options),
            "rate=2 test=oltp_read_only think_time=20000us time=200"
        );
        assert_eq!(stretched(Tool::Pgbench, &[("client", "2")]), "client=2 time=200");
        assert_eq!(stretched(Tool::Pgbench, &[("transactions", "2")]), "transactions=2");
    }

    #[test]
    fn what_is_stretched_can_be_read() {
        let options = [
            ("test", "oltp_read_only"),
            ("network_bandwidth", "1 kB/s"),
            ("period", "1s"),
            ("duty_cycle", "0.1"),
        ];
        let options = options.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let mut workload = Workload { name: "w".into(), tool: Tool::Sysbench, options };
        stretch(&mut workload, 7.3);
        let load = Oltp::parse(&workload.options).unwrap();
        assert_eq!(load.network.unwrap().bandwidth.unwrap().get(), 1000);
        assert_eq!(
            (load.bursts.unwrap().period, load.time.unwrap()),
            (Nanos::from_millis(7300), Nanos::from_secs(73))
        );
    }

    #[test]
    fn no_load_stays_as_it_is() {
        assert_eq!(stretched(Tool::Sysbench, &[("time", "3")]), "time=3");
        assert_eq!(stretched(Tool::Bonnie, &[("time", "3")]), "time=3");
    }
}
