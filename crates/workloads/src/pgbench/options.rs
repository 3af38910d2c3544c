//! pgbench's load as a study says it (PostgreSQL 15, its documentation, `pgbench`), on a server that Flyball
//! starts. Options that a load leaves out have pgbench's own defaults, but `jobs`, which is as many as
//! clients or CPUs.

use crate::options::OptionError;
use crate::server::{self, Kind, Server};
use crate::sysbench::options::{Network, number};
use domain::outcome::Better;
use domain::time::Nanos;
use domain::units::Unit;
use std::collections::BTreeMap;

/// The options that a study may set, besides `server.…`.
pub const OPTIONS: [&str; 11] = [
    "builtin",
    "client",
    "jobs",
    "scale",
    "time",
    "transactions",
    "rate",
    "protocol",
    "rebuild",
    "network_delay",
    "network_bandwidth",
];

/// What pgbench reports: name, unit, which way is good. `transactions` and `errors` are rates, without the
/// time that it takes to connect; latencies are those of whole transactions.
pub const METRICS: [(&str, Unit, Better); 5] = [
    ("transactions", Unit::PerSecond, Better::Higher),
    ("latency_mean", Unit::Seconds, Better::Lower),
    ("latency_stddev", Unit::Seconds, Better::Lower),
    ("elapsed", Unit::Seconds, Better::Lower),
    ("errors", Unit::PerSecond, Better::Lower),
];

/// pgbench's own scripts.
pub const BUILTINS: [&str; 3] = ["tpcb-like", "simple-update", "select-only"];
/// How statements are sent (`--protocol`).
pub const PROTOCOLS: [&str; 3] = ["simple", "extended", "prepared"];

/// Bounds: more than any server serves.
const MAX_CLIENTS: u64 = 4096;
const MAX_SCALE: u64 = 100_000;
const MAX_SECONDS: u64 = 86_400;
const MAX_TRANSACTIONS: u64 = 1_000_000_000;
const MAX_RATE: u64 = 1_000_000;

/// Flyball's own: pgbench would do ten transactions.
const DEFAULT_SECONDS: u64 = 10;

/// A whole load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pgbench {
    /// One of [`BUILTINS`].
    pub builtin: String,
    /// How many connections.
    pub clients: u32,
    /// How many threads have them; none: one each, as far as there are CPUs.
    pub jobs: Option<u32>,
    /// Hundred thousands of accounts: some 15 MiB each.
    pub scale: u32,
    /// How long it takes.
    pub time: Option<Nanos>,
    /// How many transactions each client does.
    pub transactions: Option<u64>,
    /// Transactions a second that come whether a client is free or not.
    pub rate: Option<u32>,
    /// One of [`PROTOCOLS`].
    pub protocol: String,
    /// The server.
    pub server: Server,
    /// Where clients are on another machine.
    pub network: Option<Network>,
}

/// Looks at one option by itself.
///
/// # Errors
/// Where it is none, or its value is not of its kind.
pub fn check(option: &str, value: &str) -> Result<(), OptionError> {
    let whole = |least, most| number(value, least, most).map(drop);
    let one_of = |all: &[&str]| {
        let told = || format!("is `{value}`; write one of `{}`", all.join("`, `"));
        if all.contains(&value) { Ok(()) } else { Err(told()) }
    };
    let checked = match option {
        "builtin" => one_of(&BUILTINS),
        "protocol" => one_of(&PROTOCOLS),
        "client" | "jobs" => whole(1, MAX_CLIENTS),
        "scale" => whole(1, MAX_SCALE),
        "time" => whole(1, MAX_SECONDS),
        "transactions" => whole(1, MAX_TRANSACTIONS),
        "rate" => whole(1, MAX_RATE),
        "network_delay" | "network_bandwidth" => Network::check(option, value),
        // There is one server for it.
        "server" => return Err(OptionError::unknown(option, "pgbench")),
        _ => match server::check(option, value) {
            Some(checked) => checked,
            None => return Err(OptionError::unknown(option, "pgbench")),
        },
    };
    checked.map_err(|problem| OptionError::wrong(option, problem))
}

impl Pgbench {
    /// Reads a workload's options.
    ///
    /// # Errors
    /// As [`check`]; and where two of them exclude each other.
    pub fn parse(options: &BTreeMap<String, String>) -> Result<Self, OptionError> {
        for (option, value) in options {
            check(option, value)?;
        }
        let given = |option: &str| options.get(option).map(String::as_str);
        let whole = |option: &str| given(option).and_then(|text| text.parse::<u64>().ok());
        let (time, transactions) = (whole("time"), whole("transactions"));
        if time.is_some() && transactions.is_some() {
            return Err(OptionError::wrong(
                "transactions",
                "cannot stand beside `time`; take one of them out",
            ));
        }
        let clients = whole("client").unwrap_or(1);
        if whole("jobs").is_some_and(|jobs| jobs > clients) {
            let problem =
                format!("is more than the {clients} of `client`; a thread without a connection does nothing");
            return Err(OptionError::wrong("jobs", problem));
        }
        let time = time.or(transactions.is_none().then_some(DEFAULT_SECONDS));
        Ok(Self {
            builtin: given("builtin").unwrap_or(BUILTINS[0]).to_owned(),
            clients: clients as u32,
            jobs: whole("jobs").map(|jobs| jobs as u32),
            scale: whole("scale").unwrap_or(1) as u32,
            time: time.map(Nanos::from_secs),
            transactions,
            rate: whole("rate").map(|rate| rate as u32),
            protocol: given("protocol").unwrap_or(PROTOCOLS[0]).to_owned(),
            server: Server::parse(Kind::PostgreSql, options)?,
            network: Network::parse(options),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(options: &[(&str, &str)]) -> Result<Pgbench, String> {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Pgbench::parse(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_left_out_is_as_pgbench_has_it() {
        let load = parsed(&[]).unwrap();
        assert_eq!((load.builtin.as_str(), load.clients, load.scale), ("tpcb-like", 1, 1));
        assert_eq!((load.time, load.transactions), (Some(Nanos::from_secs(10)), None));
        assert_eq!(parsed(&[("transactions", "5")]).unwrap().time, None);
    }

    #[test]
    fn each_option_is_known_and_odd_values_are_told() {
        for option in OPTIONS {
            let error = check(option, "?").unwrap_err();
            assert!(!error.unknown && error.problem.starts_with("is `?`; write "), "{error}");
        }
        for option in ["file", "host", "dbname", "server"] {
            assert!(check(option, "x").unwrap_err().unknown, "{option}");
        }
        assert!(parsed(&[("time", "1"), ("transactions", "1")]).unwrap_err().contains("beside `time`"));
        assert!(parsed(&[("client", "2"), ("jobs", "3")]).unwrap_err().starts_with("`jobs` is more"));
        let error = parsed(&[("server.innodb_buffer_pool_size", "1G")]).unwrap_err();
        assert!(error.contains("is no setting of postgresql"), "{error}");
    }
}
