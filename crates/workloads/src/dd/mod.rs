//! dd of the GNU coreutils.

mod command;
pub mod options;
pub mod report;

use crate::options::{Options, Refusal};
use crate::report::SHARED_METRICS;
use crate::tool::{Needs, Program, STDERR, VERSION};
use crate::{Cache, Direction, Error, Invocation, Job, Metrics, Profile, Tool};
use domain::outcome::Outcome;
use domain::study::{self, Workload};
use domain::units::Bytes;
use std::io::BufRead;

/// dd.
pub(crate) struct Dd;

impl Tool for Dd {
    fn name(&self) -> &'static str {
        "dd"
    }

    fn in_study(&self) -> Option<study::Tool> {
        Some(study::Tool::Dd)
    }

    fn program<'t>(&self, _: &'t study::Tool) -> Result<Program<'t>, Error> {
        Ok(Program::Known { name: "dd", version: VERSION, package: "coreutils" })
    }

    fn needs(&self) -> Needs {
        Needs::Target
    }

    fn options(&self) -> Vec<&'static str> {
        options::NAMES.to_vec()
    }

    fn check(&self, option: &str, value: &str) -> Result<(), Refusal> {
        options::check(option, value)
    }

    fn only_reads(&self, options: &Options) -> Result<(), String> {
        options::only_reads(options)
    }

    fn reaches_beyond(&self, options: &Options, target: Bytes) -> Option<String> {
        options::reaches_beyond(options, target)
    }

    fn metrics(&self) -> Metrics {
        let is_its_own = |(name, ..): &(&str, _, _)| report::METRICS.contains(name);
        Metrics::Known(SHARED_METRICS.into_iter().filter(is_its_own).collect())
    }

    fn command(&self, job: &Job<'_>) -> Result<Invocation, Error> {
        command::invocation(job)
    }

    fn outcome(&self, job: &Job<'_>, version: &str, report: &mut dyn BufRead) -> Result<Outcome, Error> {
        command::outcome(job, version, report)
    }

    fn report_files(&self) -> &'static [&'static str] {
        &[STDERR]
    }

    fn complaints(&self) -> &'static [&'static str] {
        &[STDERR]
    }

    fn profile(&self, workload: &Workload) -> Profile {
        let given = |name: &str| workload.options.get(name).map(String::as_str);
        let has_direct =
            |name: &str| given(name).is_some_and(|flags| flags.split(',').any(|f| f == "direct"));
        let is_direct = has_direct("iflag") || has_direct("oflag");
        let writes = given("direction") == Some("write");
        Profile {
            cache: if is_direct { Cache::Direct } else { Cache::Buffered },
            direction: if writes { Direction::Writes } else { Direction::ReadsInOrder },
            depth: Some(1),
        }
    }
}
