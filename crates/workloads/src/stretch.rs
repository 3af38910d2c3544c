//! Time dilation of options: from the time of the machine that is stood for to that of one that is `d` times
//! slower.

use crate::options::Options;
use crate::sysbench::options::{Network, START_DELAY};
use domain::time::Nanos;

/// A count as text; `None` where it is too large to be one.
pub fn whole(value: f64) -> Option<String> {
    (value.is_finite() && value < 9e18).then(|| format!("{}", value.round() as u64))
}

/// A span that is `factor` times as long.
pub fn longer(span: Nanos, factor: f64) -> Nanos {
    // A float that is too large becomes the largest span.
    Nanos::new((span.get() as f64 * factor).round() as u64)
}

/// Options of loads on a database that are spans with a unit.
const SPANS: [&str; 4] = ["period", "think_time", START_DELAY, "network_delay"];

/// The slowest network that a study may have: 1 kB/s.
const SLOWEST_BITS: f64 = 8000.0;

/// Stretches the times and rates of a load on a database: those of clients and of the network between. What a
/// server does by its own clock (checkpoints, flushing in the background) nothing stretches. What the load
/// does not say, the tool's own default of how long it takes, is said then.
pub(crate) fn database(options: &mut Options, time: Option<Nanos>, network: Option<Network>, d: f64) {
    if d == 1.0 {
        return;
    }
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

fn change(options: &mut Options, name: &str, change: impl Fn(&str) -> Option<String>) {
    if let Some(value) = options.get_mut(name)
        && let Some(changed) = change(value)
    {
        *value = changed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sysbench::options::Oltp;
    use domain::study::Tool;

    fn stretched(tool: Tool, options: &[(&str, &str)]) -> String {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut options = options;
        crate::of(&tool).stretch(&mut options, 20.0);
        let words = options.iter().map(|(name, value)| format!("{name}={value}"));
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
        let mut options = options;
        crate::of(&Tool::Sysbench).stretch(&mut options, 7.3);
        let load = Oltp::parse(&options).unwrap();
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
