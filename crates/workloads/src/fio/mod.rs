//! fio 3, reported as json+.

mod command;
mod endless;
pub mod options;
mod profile;
mod reading;
pub mod report;
pub mod steady_state;
pub mod stretch;
mod texts;
mod values;
mod version;

use crate::options::{OptionError, Options, Refusal};
use crate::report::SHARED_METRICS;
use crate::tool::{Needs, Program, Readiness, ReportLength, STDERR, VERSION};
use crate::{Error, Invocation, Job, Metrics, Profile, Tool};
use domain::outcome::Outcome;
use domain::study::{self, Workload};
use domain::time::Nanos;
use domain::units::Bytes;
use std::io::BufRead;
use steady_state::Conditioning;

pub use command::{precondition, round, round_name};
pub use profile::access;

/// fio.
pub(crate) struct Fio;

/// The report's name in the trial's folder.
pub const REPORT: &str = "fio.json";

/// How long fio waits in a paced guest between its preparation and its jobs, in the guest's time: the option.
pub const START_DELAY: (&str, Nanos) = ("startdelay", Nanos::from_secs(1));

/// Options of Flyball's own that are spans of a machine's own time, which the lab would have to stretch.
const OF_A_HOST: [&str; 2] = ["duty_cycle", "steady_state"];

/// The option by which a recorded trace is replayed.
const REPLAY: &str = "read_iolog";

/// Whether a workload is a fio job.
pub fn is_job(workload: &Workload) -> bool {
    workload.tool == study::Tool::Fio
}

impl Tool for Fio {
    fn name(&self) -> &'static str {
        "fio"
    }

    fn in_study(&self) -> Option<study::Tool> {
        Some(study::Tool::Fio)
    }

    fn program<'t>(&self, _: &'t study::Tool) -> Result<Program<'t>, Error> {
        Ok(Program::Known { name: "fio", version: VERSION, package: "fio" })
    }

    fn needs(&self) -> Needs {
        Needs::Target
    }

    fn options(&self) -> Vec<&'static str> {
        options::names().chain(options::OURS).collect()
    }

    fn check(&self, option: &str, value: &str) -> Result<(), Refusal> {
        options::check_ours(option, value).unwrap_or_else(|| options::check(option, value))
    }

    fn only_reads(&self, options: &Options) -> Result<(), String> {
        reading::check(options)
    }

    fn reaches_beyond(&self, options: &Options, target: Bytes) -> Option<String> {
        options::reaches_beyond(options, target)
    }

    fn metrics(&self) -> Metrics {
        Metrics::Known(SHARED_METRICS.to_vec())
    }

    fn command(&self, job: &Job<'_>) -> Result<Invocation, Error> {
        command::invocation(job)
    }

    fn conditioning(&self, job: &Job<'_>) -> Result<Option<Conditioning>, Error> {
        command::conditioning(job)
    }

    fn report_files(&self) -> &'static [&'static str] {
        &[REPORT]
    }

    fn report_length(&self) -> ReportLength {
        ReportLength::Whole
    }

    fn outcome(&self, job: &Job<'_>, _: &str, report: &mut dyn BufRead) -> Result<Outcome, Error> {
        command::outcome(job, report)
    }

    /// With `--output`, fio's messages go to that file, before the JSON.
    fn complaints(&self) -> &'static [&'static str] {
        &[STDERR, REPORT]
    }

    fn profile(&self, workload: &Workload) -> Profile {
        profile::of(&workload.options)
    }

    fn stretch(&self, options: &mut Options, d: f64) {
        stretch::stretch(options, d);
    }

    fn not_stretched(&self, options: &Options) -> Option<&'static str> {
        OF_A_HOST.into_iter().find(|option| options.contains_key(*option))
    }

    fn simulated_only(&self, options: &Options) -> Option<&'static str> {
        options.contains_key(REPLAY).then_some(REPLAY)
    }

    fn without_end(&self, options: &mut Options) -> Option<Result<(), OptionError>> {
        Some(endless::make(options))
    }

    fn is_of_the_cpu(&self, options: &Options) -> bool {
        endless::is_of_the_cpu(options)
    }

    fn make_wait(&self, options: &mut Options) -> Readiness {
        let (name, delay) = START_DELAY;
        let told = options.entry(name.to_owned()).or_insert_with(|| format!("{}s", delay.secs()));
        let delay = Nanos::parse(told).unwrap_or(delay);
        let threads = options.get("thread").is_some_and(|value| !["0", "false"].contains(&value.as_str()));
        if threads { Readiness::JobThreadsSleep(delay) } else { Readiness::JobsSleep }
    }
}
