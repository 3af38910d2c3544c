//! Any command; its metrics are taken from its output by pattern.

mod argv;
pub mod pattern;

use crate::options::{OptionError, Options};
use crate::tool::{Elapsed, OwnFiles, Program, STDERR, STDOUT};
use crate::{Cache, Error, Invocation, Job, Metrics, Profile, Tool};
use domain::outcome::Outcome;
use domain::study::{self, Workload};
use domain::units::Bytes;
use std::io::BufRead;

/// Any command.
pub(crate) struct Command;

impl Tool for Command {
    fn name(&self) -> &'static str {
        "command"
    }

    fn in_study(&self) -> Option<study::Tool> {
        None
    }

    fn program<'t>(&self, tool: &'t study::Tool) -> Result<Program<'t>, Error> {
        let argv = tool.command().map_or(&[][..], |(argv, _)| argv);
        Ok(Program::Named(argv.first().map_or("", String::as_str)))
    }

    /// A command that takes no time of its own is timed by Flyball; other tools know better.
    fn elapsed(&self) -> Elapsed {
        Elapsed::OfFlyball
    }

    fn metrics(&self) -> Metrics {
        Metrics::ByPattern
    }

    /// Whether it goes on is its author's business; where it ends, its trial has failed.
    fn without_end(&self, _: &mut Options) -> Option<Result<(), OptionError>> {
        Some(Ok(()))
    }

    fn command(&self, job: &Job<'_>) -> Result<Invocation, Error> {
        argv::invocation(job)
    }

    fn report_files(&self) -> &'static [&'static str] {
        &[STDOUT, STDERR]
    }

    fn outcome(&self, job: &Job<'_>, version: &str, report: &mut dyn BufRead) -> Result<Outcome, Error> {
        argv::outcome(job, version, report)
    }

    /// What dd's `iflag=direct` and `oflag=direct` are, whoever runs dd.
    fn profile(&self, workload: &Workload) -> Profile {
        let argv = workload.tool.command().map_or(&[][..], |(argv, _)| argv);
        let is_direct = argv.iter().any(|word| word.contains("flag=") && word.contains("direct"));
        Profile { cache: if is_direct { Cache::Direct } else { Cache::Buffered }, ..Profile::default() }
    }

    /// A command that is not given the target makes files of its own.
    fn own_files(&self, workload: &Workload, _: Bytes) -> Option<Result<OwnFiles, OptionError>> {
        let (argv, _) = workload.tool.command()?;
        let is_given_it = argv.iter().any(|word| word.contains(argv::TARGET));
        (!is_given_it).then_some(Ok(OwnFiles::AsItLikes))
    }
}
