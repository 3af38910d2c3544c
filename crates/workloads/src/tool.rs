//! What a workload tool answers: one trait, one implementation a tool.

use crate::fio::steady_state::Conditioning;
use crate::job::{Invocation, Job};
use crate::options::{OptionError, Options, Refusal};
use crate::profile::Profile;
use crate::report::MetricRow;
use crate::{Error, server};
use domain::outcome::Outcome;
use domain::study::{self, Workload};
use domain::time::Nanos;
use domain::units::Bytes;
use std::io::BufRead;

/// The name of the file that holds a tool's standard output.
pub const STDOUT: &str = "stdout.txt";
/// The name of the file that holds a tool's standard error.
pub const STDERR: &str = "stderr.txt";

/// A tool. What it does not answer itself is answered as for a program of which nothing is known.
pub trait Tool: Sync {
    /// As a study names it; [`study::Tool::name`] is the same.
    fn name(&self) -> &'static str;

    /// As a study has it; `None` where a study has to say more than the name.
    fn in_study(&self) -> Option<study::Tool>;

    /// The program that does the work.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where there is none.
    fn program<'t>(&self, tool: &'t study::Tool) -> Result<Program<'t>, Error>;

    /// The version that the program stated, as it stands in a trial; `None` where it stated none.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a version whose options a study does not have.
    fn version(&self, said: &Said<'_>) -> Result<Option<String>, Error> {
        let first = said.stdout.lines().next().filter(|_| said.code == Some(0));
        Ok(first.map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned))
    }

    /// What it works on.
    fn needs(&self) -> Needs {
        Needs::Nothing
    }

    /// Whose clock `elapsed` is of.
    fn elapsed(&self) -> Elapsed {
        Elapsed::OfTheTool
    }

    /// The options that a study may set.
    fn options(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Whether it may be given this option with this value. A study's reader asks early, and each command
    /// asks again.
    ///
    /// # Errors
    /// Why it may not.
    fn check(&self, _option: &str, _value: &str) -> Result<(), Refusal> {
        Ok(())
    }

    /// Whether the options together make a load: one may need another.
    ///
    /// # Errors
    /// Which one is wrong, and why.
    fn check_all(&self, _options: &Options) -> Result<(), OptionError> {
        Ok(())
    }

    /// Whether this load does nothing to the target but read it, so that it may run on a disk that is
    /// somebody's. What is not known to do so is refused, as is each option.
    ///
    /// # Errors
    /// Why not, and what to do.
    fn only_reads(&self, _options: &Options) -> Result<(), String> {
        Err(format!("{} may write; fio, dd and hdparm can be held to reading", self.name()))
    }

    /// Why this load would write beyond a target of this size; `None` where it would not, or is not clear.
    fn reaches_beyond(&self, _options: &Options, _target: Bytes) -> Option<String> {
        None
    }

    /// What it reports.
    fn metrics(&self) -> Metrics;

    /// The metrics that it has of itself, whatever a study says.
    fn metric_rows(&self) -> Vec<MetricRow> {
        match self.metrics() {
            Metrics::Known(rows) => rows,
            Metrics::ByPattern | Metrics::Any => Vec::new(),
        }
    }

    /// The literal command.
    ///
    /// # Errors
    /// [`Error::Option`] for an option that is refused, [`Error::NoTarget`] where one is needed,
    /// [`Error::Unsupported`].
    fn command(&self, job: &Job<'_>) -> Result<Invocation, Error>;

    /// What is done to the target before the workload is measured.
    ///
    /// # Errors
    /// [`Error::Option`].
    fn conditioning(&self, _job: &Job<'_>) -> Result<Option<Conditioning>, Error> {
        Ok(None)
    }

    /// The files of the trial's folder that are its report, one after another.
    fn report_files(&self) -> &'static [&'static str] {
        &[STDOUT]
    }

    /// Whether all of each of these files is the report, however long; else its end is enough.
    fn report_length(&self) -> ReportLength {
        ReportLength::End
    }

    /// What it reported, once it has ended by itself with success.
    ///
    /// # Errors
    /// [`Error::Tool`] where the report cannot be understood.
    fn outcome(&self, job: &Job<'_>, version: &str, report: &mut dyn BufRead) -> Result<Outcome, Error>;

    /// The files of the trial's folder in which it says why it failed, the most telling first.
    fn complaints(&self) -> &'static [&'static str] {
        &[STDERR, STDOUT]
    }

    /// What I/O it does.
    fn profile(&self, _workload: &Workload) -> Profile {
        Profile::default()
    }

    /// Turns what the options say of time into the time of a machine that is `d` times slower.
    fn stretch(&self, _options: &mut Options, _d: f64) {}

    /// An option whose span no stretching reaches, so that the lab cannot run it.
    fn not_stretched(&self, _options: &Options) -> Option<&'static str> {
        None
    }

    /// An option that only the simulation knows.
    fn simulated_only(&self, _options: &Options) -> Option<&'static str> {
        None
    }

    /// Has the load go on until it is ended, so that it can run beside a workload; `None` where it ends by
    /// itself, or may. The error names an option by which it would end, or that it lacks.
    fn without_end(&self, _options: &mut Options) -> Option<Result<(), OptionError>> {
        None
    }

    /// Whether a load of these options keeps CPUs busy and does nothing else: it has no target.
    fn is_of_the_cpu(&self, _options: &Options) -> bool {
        false
    }

    /// Has the tool wait between its preparation and its work, where it can, and says how that is seen.
    fn make_wait(&self, _options: &mut Options) -> Readiness {
        Readiness::Unknown
    }

    /// The server that it asks, and the data there.
    fn server(&self, _options: &Options) -> Option<Result<server::Load, OptionError>> {
        None
    }

    /// What its own files take, on a machine with so much memory; `None` where it has none, or works on the
    /// target.
    fn own_files(&self, _workload: &Workload, _memory: Bytes) -> Option<Result<OwnFiles, OptionError>> {
        None
    }
}

/// How a program is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program<'t> {
    /// By its name; it states a version.
    Known {
        /// The program.
        name: &'static str,
        /// What it is given so that it states its version.
        version: &'static [&'static str],
        /// Debian's package that has it.
        package: &'static str,
    },
    /// The study names it, and nothing else is known.
    Named(&'t str),
    /// Flyball, which watches.
    Flyball,
}

/// What asking for a version is, for most programs.
pub const VERSION: &[&str] = &["--version"];

/// What a program said when it was asked for its version.
#[derive(Clone, Copy, Debug)]
pub struct Said<'s> {
    /// Its exit code; `None` where a signal ended it.
    pub code: Option<i32>,
    /// Its standard output.
    pub stdout: &'s str,
    /// Its standard error.
    pub stderr: &'s str,
}

/// What a tool works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// What it names itself.
    Nothing,
    /// The target.
    Target,
    /// The target, which has to be a block device.
    Device,
    /// A folder for files of its own.
    Folder,
    /// A server, whose data are in a folder.
    Server,
    /// What runs already, of which only figures are taken.
    RunningLoad,
}

/// Whose clock `elapsed` is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Elapsed {
    /// The tool's own, if it has one.
    OfTheTool,
    /// Flyball's, where the tool says nothing.
    OfFlyball,
}

/// What a tool reports.
#[derive(Clone, Debug, PartialEq)]
pub enum Metrics {
    /// These.
    Known(Vec<MetricRow>),
    /// What the study says, by pattern.
    ByPattern,
    /// What its trials say.
    Any,
}

/// How much of a file is a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportLength {
    /// All of it.
    Whole,
    /// Its end.
    End,
}

/// How it is seen that a program has prepared itself and begins to work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It sleeps before it makes its job processes, which wait for it to let them begin; the work is done
    /// when they are.
    JobsSleep,
    /// It sleeps for so long before its jobs begin, which are threads of its own.
    JobThreadsSleep(Nanos),
    /// So many of its threads sleep for so long before they begin.
    ThreadsSleep(usize, Nanos),
    /// Nothing is known of it but its own begin and end.
    Unknown,
}

/// What files of its own a load makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnFiles {
    /// As much as it likes.
    AsItLikes,
    /// So much.
    Bytes(Bytes),
}
