//! pgbench of PostgreSQL.

mod command;
pub mod options;
pub mod report;

use crate::options::{OptionError, Options, Refusal};
use crate::server::{DataSet, Load};
use crate::tool::{Needs, Program, STDERR, VERSION};
use crate::{Cache, Error, Invocation, Job, Metrics, Profile, Tool};
use domain::outcome::Outcome;
use domain::study::{self, Workload};
use std::io::BufRead;

/// pgbench.
pub(crate) struct Pgbench;

impl Tool for Pgbench {
    fn name(&self) -> &'static str {
        "pgbench"
    }

    fn in_study(&self) -> Option<study::Tool> {
        Some(study::Tool::Pgbench)
    }

    fn program<'t>(&self, _: &'t study::Tool) -> Result<Program<'t>, Error> {
        Ok(Program::Known { name: "pgbench", version: VERSION, package: "postgresql" })
    }

    fn needs(&self) -> Needs {
        Needs::Server
    }

    fn options(&self) -> Vec<&'static str> {
        options::OPTIONS.to_vec()
    }

    fn check(&self, option: &str, value: &str) -> Result<(), Refusal> {
        options::check(option, value).map_err(|error| error.into_refusal("pgbench"))
    }

    fn check_all(&self, options: &Options) -> Result<(), OptionError> {
        options::Pgbench::parse(options).map(drop)
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
        if let Ok(load) = options::Pgbench::parse(options) {
            crate::stretch::database(options, load.time, load.network, d);
        }
    }

    fn complaints(&self) -> &'static [&'static str] {
        &[STDERR]
    }

    fn server(&self, options: &Options) -> Option<Result<Load, OptionError>> {
        Some(options::Pgbench::parse(options).map(|load| {
            let data = DataSet::Pgbench { scale: load.scale };
            Load { server: load.server, data, network: load.network, clients: load.clients }
        }))
    }
}
