//! An OLTP load as sysbench's options say it (sysbench 1.0: `sysbench --help`, `src/lua/oltp_common.lua`),
//! and Flyball's own for what sysbench has none: load in bursts, a network, a pause of each client.
//!
//! It stands here, and not with the readers of studies, because three read it: whoever checks a study,
//! whoever runs sysbench, and the simulation, which sees nothing but this crate. Options that a load leaves
//! out have sysbench's own defaults.

use crate::options::OptionError;
use crate::server::{self, Kind, Server};
use domain::outcome::Better;
use domain::time::Nanos;
use domain::units::{Bytes, Unit};
use std::collections::BTreeMap;

/// The options that a study may set, by the first of their names.
pub const OPTIONS: [&str; 17] = [
    "test",
    "threads",
    "time",
    "events",
    "tables",
    "table_size",
    "table-size",
    "rate",
    "rand-type",
    "duty_cycle",
    "period",
    "think_time",
    START_DELAY,
    "network_delay",
    "network_bandwidth",
    "server",
    "rebuild",
];

/// The option by which clients that have connected wait before they begin. The lab sets it where nobody else
/// does.
pub const START_DELAY: &str = "start_delay";

/// What sysbench reports: name, unit, which way is good.
///
/// `transactions`, `queries` and `errors` are rates over the time that is measured: with bursts, over the
/// bursts alone. Latencies are those of whole transactions. `elapsed` is all of the load's time, gaps
/// included.
pub const METRICS: [(&str, Unit, Better); 7] = [
    ("transactions", Unit::PerSecond, Better::Higher),
    ("queries", Unit::PerSecond, Better::Higher),
    ("latency_mean", Unit::Seconds, Better::Lower),
    ("latency_p95", Unit::Seconds, Better::Lower),
    ("latency_p99", Unit::Seconds, Better::Lower),
    ("elapsed", Unit::Seconds, Better::Lower),
    ("errors", Unit::PerSecond, Better::Lower),
];

/// Bounds: more than any server serves, and small enough that sums do not overflow.
const MAX_THREADS: u64 = 4096;
const MAX_SECONDS: u64 = 86_400;
const MAX_EVENTS: u64 = 1_000_000_000;
const MAX_TABLES: u64 = 1000;
const MAX_ROWS: u64 = 1_000_000_000;
const MAX_RATE: u64 = 1_000_000;
/// A burst that is shorter than a transaction measures none.
const SHORTEST_PERIOD: Nanos = Nanos::from_millis(10);
const LONGEST_SPAN: Nanos = Nanos::from_secs(60);

/// sysbench's own defaults.
const DEFAULT_SECONDS: u64 = 10;
const DEFAULT_ROWS: u64 = 10_000;
/// Flyball's own.
const DEFAULT_PERIOD: Nanos = Nanos::from_secs(1);

/// Which of sysbench's tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// Ten reads of a row, four of ranges of a hundred rows, between `BEGIN` and `COMMIT`.
    ReadOnly,
    /// The same, and four statements that write.
    ReadWrite,
    /// One read of a row, without a transaction around it.
    PointSelect,
}

impl Test {
    /// As sysbench calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "oltp_read_only",
            Self::ReadWrite => "oltp_read_write",
            Self::PointSelect => "oltp_point_select",
        }
    }

    /// All of them.
    pub const ALL: [Self; 3] = [Self::ReadOnly, Self::ReadWrite, Self::PointSelect];
}

/// How rows are chosen (`--rand-type` of sysbench 1.0).
pub const RAND_TYPES: [&str; 5] = ["uniform", "gaussian", "special", "pareto", "zipfian"];

/// A load that comes in bursts: at the beginning of each period, for a share of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bursts {
    /// From one burst's beginning to the next one's.
    pub period: Nanos,
    /// How long each lasts; less than the period.
    pub on: Nanos,
}

/// The options by which a load comes in bursts.
pub const BURST_OPTIONS: [&str; 2] = ["duty_cycle", "period"];

impl Bursts {
    /// Looks at one of its two options.
    pub(crate) fn check(option: &str, value: &str) -> Result<(), String> {
        match option {
            "duty_cycle" => share(value).map(drop),
            _ => span(value, SHORTEST_PERIOD).map(drop),
        }
    }

    /// The bursts of a workload's options, none where it has no `duty_cycle`.
    ///
    /// # Errors
    /// Where a value is not of its kind, or `period` stands alone.
    pub fn parse(options: &BTreeMap<String, String>) -> Result<Option<Self>, OptionError> {
        for option in BURST_OPTIONS {
            if let Some(Err(problem)) = options.get(option).map(|value| Self::check(option, value)) {
                return Err(OptionError::wrong(option, problem));
            }
        }
        let duty = options.get("duty_cycle").and_then(|text| share(text).ok());
        let period = options.get("period").and_then(|text| Nanos::parse(text));
        if period.is_some() && duty.is_none() {
            let problem = "is that of bursts; add `duty_cycle = \"20%\"`, or take it out";
            return Err(OptionError::wrong("period", problem));
        }
        let period = period.unwrap_or(DEFAULT_PERIOD);
        Ok(duty.map(|duty| Self { period, on: Nanos::new((period.get() as f64 * duty).round() as u64) }))
    }

    /// How much of a span had a burst on, where the first began with it.
    pub fn within(&self, span: Nanos) -> Nanos {
        let (whole, rest) = (span.get() / self.period.get(), span.get() % self.period.get());
        Nanos::new(whole * self.on.get() + rest.min(self.on.get()))
    }
}

/// A network between the clients and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    /// From one end to the other, each way.
    pub delay: Nanos,
    /// Bytes a second, each way; none: as much as there is.
    pub bandwidth: Option<Bytes>,
}

impl Network {
    /// Looks at one of its two options.
    pub(crate) fn check(option: &str, value: &str) -> Result<(), String> {
        match option {
            "network_delay" => span(value, Nanos::ZERO).map(drop),
            _ => bandwidth(value).map(drop),
        }
    }

    /// The network of options that were looked at; none where neither is there.
    pub(crate) fn parse(options: &BTreeMap<String, String>) -> Option<Self> {
        let delay = options.get("network_delay").and_then(|text| Nanos::parse(text));
        let bandwidth = options.get("network_bandwidth").and_then(|text| bandwidth(text).ok());
        (delay.is_some() || bandwidth.is_some())
            .then(|| Self { delay: delay.unwrap_or(Nanos::ZERO), bandwidth })
    }
}

/// A whole load.
#[derive(Clone, Debug, PartialEq)]
pub struct Oltp {
    /// What each transaction does.
    pub test: Test,
    /// How many clients, each with a connection of its own.
    pub threads: u32,
    /// No transaction begins after this.
    pub time: Option<Nanos>,
    /// Nor after so many have begun.
    pub events: Option<u64>,
    /// How many tables.
    pub tables: u32,
    /// Rows of each.
    pub table_size: u64,
    /// Transactions a second that come whether a client is free or not; none: each client begins one when its
    /// last is done.
    pub rate: Option<u32>,
    /// One of [`RAND_TYPES`].
    pub rand_type: String,
    /// Where the load comes in bursts.
    pub bursts: Option<Bursts>,
    /// A client's pause after each transaction.
    pub think: Nanos,
    /// How long a client that has connected and prepared itself waits before its first transaction.
    pub start_delay: Nanos,
    /// Where clients are on another machine; none: they run on the server's, behind a socket.
    pub network: Option<Network>,
    /// The server; the simulation has one of its own.
    pub server: Server,
}

/// Looks at one option by itself.
///
/// # Errors
/// Where it is none, or its value is not of its kind.
pub fn check(option: &str, value: &str) -> Result<(), OptionError> {
    let wrong = |problem: String| OptionError::wrong(option, problem);
    let whole = |least, most| number(value, least, most).map(drop).map_err(wrong);
    match option {
        "test" => test(value).map(drop).map_err(wrong),
        "threads" => whole(1, MAX_THREADS),
        "time" => whole(1, MAX_SECONDS),
        "events" => whole(1, MAX_EVENTS),
        "tables" => whole(1, MAX_TABLES),
        "table_size" | "table-size" => whole(100, MAX_ROWS),
        "rate" => whole(1, MAX_RATE),
        "rand-type" if RAND_TYPES.contains(&value) => Ok(()),
        "rand-type" => Err(wrong(format!("is `{value}`; write one of `{}`", RAND_TYPES.join("`, `")))),
        "duty_cycle" | "period" => Bursts::check(option, value).map_err(wrong),
        "think_time" | START_DELAY => span(value, Nanos::ZERO).map(drop).map_err(wrong),
        "network_delay" | "network_bandwidth" => Network::check(option, value).map_err(wrong),
        _ => match server::check(option, value) {
            Some(checked) => checked.map_err(wrong),
            None => Err(OptionError::unknown(option, "sysbench")),
        },
    }
}

impl Oltp {
    /// Reads a workload's options.
    ///
    /// # Errors
    /// As [`check`]; and where `test` is missing, two options are the same one, or one needs another.
    pub fn parse(options: &BTreeMap<String, String>) -> Result<Self, OptionError> {
        for (option, value) in options {
            check(option, value)?;
        }
        let wrong = |option: &str, problem: &str| Err(OptionError::wrong(option, problem));
        let given = |option: &str| options.get(option).map(String::as_str);
        let whole = |option: &str| given(option).and_then(|text| text.parse::<u64>().ok());
        let Some(test) = given("test").and_then(|text| test(text).ok()) else {
            return wrong("test", "is missing; write `test = \"oltp_read_only\"`");
        };
        if given("table_size").is_some() && given("table-size").is_some() {
            return wrong("table-size", "is `table_size` once more; take one out");
        }
        let bursts = Bursts::parse(options)?;
        let (events, seconds) = (whole("events"), whole("time"));
        if bursts.is_some() && seconds.is_none() && events.is_some() {
            return wrong("duty_cycle", "needs a `time` to be a share of; add `time = 10`");
        }
        let seconds = seconds.or(events.is_none().then_some(DEFAULT_SECONDS));
        let time_of = |option: &str| given(option).and_then(Nanos::parse);
        let kind = given("server").and_then(|text| server::kind(text).ok()).unwrap_or(Kind::MariaDb);
        Ok(Self {
            test,
            threads: whole("threads").unwrap_or(1) as u32,
            time: seconds.map(Nanos::from_secs),
            events,
            tables: whole("tables").unwrap_or(1) as u32,
            table_size: whole("table_size").or(whole("table-size")).unwrap_or(DEFAULT_ROWS),
            rate: whole("rate").map(|rate| rate as u32),
            rand_type: given("rand-type").unwrap_or("special").to_owned(),
            bursts,
            think: time_of("think_time").unwrap_or(Nanos::ZERO),
            start_delay: time_of(START_DELAY).unwrap_or(Nanos::ZERO),
            network: Network::parse(options),
            server: Server::parse(kind, options)?,
        })
    }
}

fn test(text: &str) -> Result<Test, String> {
    Test::ALL
        .into_iter()
        .find(|test| test.name() == text)
        .ok_or_else(|| format!("is `{text}`; write one of `{}`", Test::ALL.map(Test::name).join("`, `")))
}

/// A whole number within bounds.
pub(crate) fn number(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number = text.parse::<u64>().ok().filter(|number| (least..=most).contains(number));
    number.ok_or_else(|| format!("is `{text}`; write a whole number from {least} to {most}"))
}

/// A share above 0 and below 1.
fn share(text: &str) -> Result<f64, String> {
    let share = Unit::Share.parse(text).filter(|share| (0.001..1.0).contains(share));
    share.ok_or_else(|| {
        format!(
            "is `{text}`; write the share of a period that is a burst, from `\"0.1%\"` to below `\"100%\"`"
        )
    })
}

fn span(text: &str, least: Nanos) -> Result<Nanos, String> {
    let span = Nanos::parse(text).filter(|span| (least..=LONGEST_SPAN).contains(span));
    span.ok_or_else(|| {
        format!("is `{text}`; write a span of time with its unit, such as `\"100us\"`, from {least} to {LONGEST_SPAN}")
    })
}

/// `"10 Gbit/s"`, or bytes: `"1.25 GB/s"`.
fn bandwidth(text: &str) -> Result<Bytes, String> {
    let bits = |text: &str| {
        let number = text.trim().strip_suffix("bit/s")?.trim();
        let scales = [("G", 1e9), ("M", 1e6), ("k", 1e3)];
        let (number, scale) = scales
            .into_iter()
            .find_map(|(letter, scale)| Some((number.strip_suffix(letter)?, scale)))
            .unwrap_or((number, 1.0));
        let bytes = number.trim().parse::<f64>().ok()? * scale / 8.0;
        (1000.0..=1e12).contains(&bytes).then(|| Bytes::new(bytes as u64))
    };
    // A small b would be bits to one and bytes to another.
    let bytes = |text: &str| Bytes::parse(text.trim().strip_suffix("/s").filter(|size| size.ends_with('B'))?);
    let read = bits(text).or_else(|| bytes(text)).filter(|rate| (1000..=1 << 40).contains(&rate.get()));
    read.ok_or_else(|| {
        format!("is `{text}`; write a rate from 1 kB/s on, such as `\"10 Gbit/s\"` or `\"125 MB/s\"`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(options: &[(&str, &str)]) -> Result<Oltp, String> {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Oltp::parse(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_left_out_is_as_sysbench_has_it() {
        let least = parsed(&[("test", "oltp_read_only")]).unwrap();
        let expected = Oltp {
            test: Test::ReadOnly,
            threads: 1,
            time: Some(Nanos::from_secs(10)),
            events: None,
            tables: 1,
            table_size: 10_000,
            rate: None,
            rand_type: "special".into(),
            bursts: None,
            think: Nanos::ZERO,
            start_delay: Nanos::ZERO,
            network: None,
            server: Server { kind: Kind::MariaDb, settings: BTreeMap::new(), rebuild: false },
        };
        assert_eq!(least, expected);
    }

    #[test]
    fn a_number_of_events_takes_as_long_as_it_takes() {
        let load = parsed(&[("test", "oltp_point_select"), ("events", "1000")]).unwrap();
        assert_eq!((load.time, load.events), (None, Some(1000)));
    }

    #[test]
    fn bursts_and_a_network_are_read() {
        let load = parsed(&[
            ("test", "oltp_read_write"),
            ("duty_cycle", "20%"),
            ("period", "500ms"),
            ("network_delay", "25us"),
            ("network_bandwidth", "10 Gbit/s"),
        ])
        .unwrap();
        assert_eq!(
            load.bursts,
            Some(Bursts { period: Nanos::from_millis(500), on: Nanos::from_millis(100) })
        );
        let network = load.network.unwrap();
        assert_eq!(
            (network.delay, network.bandwidth),
            (Nanos::from_micros(25), Some(Bytes::new(1_250_000_000)))
        );
        let load = parsed(&[("test", "oltp_read_only"), ("network_bandwidth", "125 MB/s")]).unwrap();
        assert_eq!(load.network.unwrap().bandwidth, Some(Bytes::new(125_000_000)));
        assert_eq!(
            parsed(&[("test", "oltp_read_only"), ("duty_cycle", "0.5")]).unwrap().bursts.unwrap().on,
            Nanos::from_millis(500)
        );
    }

    #[test]
    fn the_time_of_bursts_is_their_own() {
        let bursts = Bursts { period: Nanos::from_millis(100), on: Nanos::from_millis(20) };
        for (span_ms, on_ms) in [(0, 0), (10, 10), (50, 20), (100, 20), (110, 30), (1000, 200), (3805, 765)] {
            assert_eq!(bursts.within(Nanos::from_millis(span_ms)), Nanos::from_millis(on_ms), "{span_ms}");
        }
    }

    #[test]
    fn each_option_is_known_and_odd_values_are_told() {
        for option in OPTIONS {
            let error = check(option, "?").unwrap_err();
            assert!(!error.unknown && error.problem.starts_with("is `?`; write "), "{error}");
        }
        assert!(check("mysql-host", "example.org").unwrap_err().unknown);
        for (option, value) in [
            ("threads", "0"),
            ("time", "10s"),
            ("time", "0"),
            ("rate", "1.5"),
            ("duty_cycle", "100%"),
            ("duty_cycle", "0"),
            ("period", "1"),
            ("network_bandwidth", "10 Gb/s"),
            ("network_bandwidth", "0 bit/s"),
            ("test", "oltp_delete"),
        ] {
            assert!(check(option, value).is_err(), "{option} = {value}");
        }
    }

    #[test]
    fn what_needs_another_option_says_so() {
        let told = |options: &[(&str, &str)]| parsed(options).unwrap_err();
        assert_eq!(told(&[]), "`test` is missing; write `test = \"oltp_read_only\"`");
        let test = ("test", "oltp_read_only");
        assert!(told(&[test, ("period", "1s")]).starts_with("`period` is that of bursts"));
        assert!(told(&[test, ("table_size", "1000"), ("table-size", "1000")]).contains("once more"));
        assert!(
            told(&[test, ("events", "9"), ("duty_cycle", "20%")]).starts_with("`duty_cycle` needs a `time`")
        );
    }
}
