//! hdparm's timings (hdparm(8), `-t` and `-T`): how fast a device is read from its beginning, and how fast
//! the page cache is.
//!
//! It is given nothing but its timings: whatever else it can do changes the device.

mod command;
pub mod options;
pub mod report;

use crate::options::{OptionError, Options, Refusal};
use crate::report::MetricRow;
use crate::tool::{Needs, Program, STDERR, STDOUT, Said};
use crate::{Cache, Direction, Error, Invocation, Job, Metrics, Profile, Tool};
use domain::outcome::Outcome;
use domain::study::{self, Workload};
use options::Timings;
use std::io::BufRead;

/// hdparm.
pub(crate) struct Hdparm;

impl Tool for Hdparm {
    fn name(&self) -> &'static str {
        "hdparm"
    }

    fn in_study(&self) -> Option<study::Tool> {
        Some(study::Tool::Hdparm)
    }

    fn program<'t>(&self, _: &'t study::Tool) -> Result<Program<'t>, Error> {
        Ok(Program::Known { name: "hdparm", version: &["-V"], package: "hdparm" })
    }

    /// `hdparm v9.65`.
    fn version(&self, said: &Said<'_>) -> Result<Option<String>, Error> {
        let mut lines = said.stdout.lines().map(str::trim);
        Ok(lines.find(|line| line.starts_with("hdparm")).map(str::to_owned))
    }

    fn needs(&self) -> Needs {
        Needs::Device
    }

    fn options(&self) -> Vec<&'static str> {
        options::NAMES.to_vec()
    }

    fn check(&self, option: &str, value: &str) -> Result<(), Refusal> {
        options::check(option, value).map_err(|error| error.into_refusal("hdparm"))
    }

    fn check_all(&self, options: &Options) -> Result<(), OptionError> {
        Timings::parse(options).map(drop)
    }

    /// Its timings read, and nothing else is passed on.
    fn only_reads(&self, options: &Options) -> Result<(), String> {
        Timings::parse(options).map(drop).map_err(|error| error.to_string())
    }

    fn metrics(&self) -> Metrics {
        let rows: [MetricRow; 2] = report::metrics();
        Metrics::Known(rows.to_vec())
    }

    fn command(&self, job: &Job<'_>) -> Result<Invocation, Error> {
        command::invocation(job)
    }

    fn outcome(&self, job: &Job<'_>, version: &str, report: &mut dyn BufRead) -> Result<Outcome, Error> {
        let text = job.text("hdparm", report)?;
        let outcome = report::parse(&text).map_err(|error| job.unusable(&error))?;
        Ok(Outcome { tool: version.to_owned(), ..outcome })
    }

    fn complaints(&self) -> &'static [&'static str] {
        &[STDERR, STDOUT]
    }

    /// 2 MiB at a time, from the device's beginning or an offset on.
    fn profile(&self, workload: &Workload) -> Profile {
        let is_direct = Timings::parse(&workload.options).is_ok_and(|timings| timings.direct);
        Profile {
            cache: if is_direct { Cache::Direct } else { Cache::Buffered },
            direction: Direction::ReadsInOrder,
            depth: Some(1),
        }
    }
}
