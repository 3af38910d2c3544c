//! Bonnie, in either of its kinds.

mod command;
pub mod options;
pub mod report;

use crate::options::{OptionError, Options, Refusal};
use crate::tool::{Needs, OwnFiles, Program, Said};
use crate::{Error, Invocation, Job, Metrics, Tool};
use domain::outcome::Outcome;
use domain::study::{self, Workload};
use domain::units::Bytes;
use std::io::BufRead;

/// Bonnie.
pub(crate) struct Bonnie;

impl Tool for Bonnie {
    fn name(&self) -> &'static str {
        "bonnie"
    }

    fn in_study(&self) -> Option<study::Tool> {
        Some(study::Tool::Bonnie)
    }

    fn program<'t>(&self, _: &'t study::Tool) -> Result<Program<'t>, Error> {
        Ok(Program::Known { name: "bonnie++", version: &[], package: "bonnie++" })
    }

    /// It has no option that asks, and states its version in what it says of its usage.
    fn version(&self, said: &Said<'_>) -> Result<Option<String>, Error> {
        let lines = said.stderr.lines().chain(said.stdout.lines());
        let stated = lines.filter_map(|line| line.strip_prefix("Version:")).map(str::trim).next();
        Ok(stated.filter(|version| !version.is_empty()).map(|version| format!("bonnie++ {version}")))
    }

    fn needs(&self) -> Needs {
        Needs::Folder
    }

    fn options(&self) -> Vec<&'static str> {
        options::OPTIONS.to_vec()
    }

    fn check(&self, option: &str, value: &str) -> Result<(), Refusal> {
        options::check(option, value).map_err(|error| error.into_refusal("bonnie"))
    }

    fn check_all(&self, options: &Options) -> Result<(), OptionError> {
        options::Bonnie::parse(options).map(drop)
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

    fn own_files(&self, workload: &Workload, memory: Bytes) -> Option<Result<OwnFiles, OptionError>> {
        let load = options::Bonnie::parse(&workload.options);
        Some(load.map(|load| OwnFiles::Bytes(load.total(memory))))
    }
}
