//! sysbench 1.0's OLTP tests.

pub mod bursts;
mod command;
pub mod histogram;
pub mod options;
pub mod report;
pub mod script;

use crate::options::{OptionError, Options, Refusal};
use crate::server::{DataSet, Load};
use crate::tool::{Needs, Program, Readiness, Said, VERSION};
use crate::{Cache, Error, Invocation, Job, Metrics, Profile, Tool};
use domain::outcome::Outcome;
use domain::study::{self, Workload};
use domain::time::Nanos;
use options::{Oltp, START_DELAY};
use std::io::BufRead;

/// sysbench.
pub(crate) struct Sysbench;

/// What its clients wait, in the guest's time: the last has to sleep before the first wakes up, and an
/// emulated CPU connects some twenty of them in a second.
const CLIENT_DELAY: Nanos = Nanos::from_secs(1);
const DELAY_FOR_EACH_CLIENT: Nanos = Nanos::from_millis(50);

impl Tool for Sysbench {
    fn name(&self) -> &'static str {
        "sysbench"
    }

    fn in_study(&self) -> Option<study::Tool> {
        Some(study::Tool::Sysbench)
    }

    fn program<'t>(&self, _: &'t study::Tool) -> Result<Program<'t>, Error> {
        Ok(Program::Known { name: "sysbench", version: VERSION, package: "sysbench" })
    }

    fn version(&self, said: &Said<'_>) -> Result<Option<String>, Error> {
        let first = said.stdout.lines().next().filter(|_| said.code == Some(0));
        let Some(stated) = first.map(str::trim).filter(|line| !line.is_empty()) else { return Ok(None) };
        if !stated.starts_with("sysbench 1.") {
            return Err(Error::Unsupported(format!(
                "`{stated}` is not sysbench 1, whose options a study has; install that"
            )));
        }
        Ok(Some(stated.to_owned()))
    }

    fn needs(&self) -> Needs {
        Needs::Server
    }

    fn options(&self) -> Vec<&'static str> {
        options::OPTIONS.to_vec()
    }

    fn check(&self, option: &str, value: &str) -> Result<(), Refusal> {
        options::check(option, value).map_err(|error| error.into_refusal("sysbench"))
    }

    fn check_all(&self, options: &Options) -> Result<(), OptionError> {
        Oltp::parse(options).map(drop)
    }

    fn metrics(&self) -> Metrics {
        Metrics::Known(options::METRICS.to_vec())
    }

    fn command(&self, job: &Job<'_>) -> Result<Invocation, Error> {
        command::invocation(job)
    }

    fn outcome(&self, job: &Job<'_>, version: &str, report: &mut dyn BufRead) -> Result<Outcome, Error> {
        command::outcome(job, version, report)
    }

    /// The log goes past the page cache where the block size is known (`innodb_log_file_buffering`, MariaDB
    /// 10.8).
    fn profile(&self, _: &Workload) -> Profile {
        Profile { cache: Cache::ServersOwn, ..Profile::default() }
    }

    fn stretch(&self, options: &mut Options, d: f64) {
        // Whoever runs options that make no load says what is wrong.
        if let Ok(load) = Oltp::parse(options) {
            crate::stretch::database(options, load.time, load.network, d);
        }
    }

    fn make_wait(&self, options: &mut Options) -> Readiness {
        let Ok(load) = Oltp::parse(options) else { return Readiness::Unknown };
        let delay = CLIENT_DELAY.get() + DELAY_FOR_EACH_CLIENT.get() * u64::from(load.threads);
        let told = options
            .entry(START_DELAY.to_owned())
            .or_insert_with(|| format!("{}us", (delay / 1000).min(60_000_000)));
        Readiness::ThreadsSleep(load.threads as usize, Nanos::parse(told).unwrap_or(Nanos::new(delay)))
    }

    fn server(&self, options: &Options) -> Option<Result<Load, OptionError>> {
        Some(Oltp::parse(options).map(|load| {
            let data = DataSet::Sysbench { tables: load.tables, rows: load.table_size };
            Load { server: load.server, data, network: load.network, clients: load.threads }
        }))
    }
}
