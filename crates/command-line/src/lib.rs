//! What was typed: the one definition of the arguments, from which help, man pages and completions come. A
//! command's arguments are a file of its name; values that several commands take are read in `values`.
//!
//! Invariant: nothing here reads, writes or prints. Words become values, and definitions become texts.
#![allow(missing_docs, reason = "a doc comment here is help text, and belongs to the variant or the option")]

mod check;
mod claim;
mod compare;
pub mod completions;
pub mod cursor;
mod diagnose;
mod explain;
mod export;
mod gate;
mod gc;
mod import;
mod inspect;
mod lab;
mod list;
mod mark;
mod new;
mod record;
mod replay;
mod report;
mod restore;
mod rm;
mod run;
mod settings;
mod show;
mod sim;
mod tune;
mod values;
mod watch;

pub use check::Check;
pub use claim::Claim;
pub use compare::Compare;
pub use diagnose::Diagnose;
pub use explain::Explain;
pub use export::Export;
pub use gate::Gate;
pub use gc::Gc;
pub use import::Import;
pub use inspect::Inspect;
pub use lab::{Lab, LabExec, LabKernels, LabMachine, LabRun, LabShell};
pub use list::{Filter, List};
pub use mark::Mark;
pub use new::New;
pub use record::{Events, Record, Server, StudyEvents};
pub use replay::Replay;
pub use report::{Report, ReportFormat};
pub use restore::Restore;
pub use rm::Rm;
pub use run::{On, Run};
pub use settings::Settings;
pub use show::Show;
pub use sim::{Calibrate, Fidelity, Sim};
pub use tune::Tune;
pub use watch::Watch;

use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::LazyLock;

/// Finds out how fast a storage or database workload really runs here, how much of that the CPU's frequency
/// policy and the storage layout decide, why, and what to change.
#[derive(Debug, Parser)]
#[command(name = "flyball", version, long_version = VERSION.as_str(), max_term_width = 100, after_help = AFTER_HELP)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// What `--version` says: the version, and the commit where the program was built from one.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let version = env!("CARGO_PKG_VERSION");
    option_env!("FLYBALL_COMMIT").map_or_else(|| version.to_owned(), |commit| format!("{version} ({commit})"))
});

/// Lines of at most 80 columns: they are not broken anew.
const AFTER_HELP: &str = "\
Results go to standard output; messages, progress and errors to standard error.
An error is text with --json too: standard output is empty then, and the exit
code says what kind it is.

Exit codes:
  0    done
  1    failed; the message names what failed and what to do
  2    the command line or the study is wrong, and nothing was changed; or a
       --fail-if names a metric that no workload reported, and what was
       measured is kept
  3    done, but at least one cell has no valid trial
  4    another Flyball is measuring on this machine, or has this run open
  5    done, but another program has changed a setting that Flyball had
       changed; it was not restored
  6    done, but a cell meets a condition of `--fail-if`, or was not measured
  130  interrupted; what was measured is kept, and every setting is restored
`flyball record`, `flyball watch` and `flyball lab exec` of a command exit with
its own code, or with 128 plus the number of the signal that ended it; `lab
exec` exits with 137 where it cut the machine's power.";

/// Options of every command.
#[derive(Args, Debug)]
pub struct Global {
    /// The directory of results [default: $FLYBALL_NOTEBOOK, else `flyball` in the XDG data home]
    #[arg(long, global = true, value_name = "DIR")]
    pub notebook: Option<PathBuf>,
    /// Print JSON with a schema version instead of text
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Measure this machine for about a minute: what frequency policy and storage layout cost, and why
    Check(Check),
    /// Show the machine: CPUs, frequency policies, idle states, arrays, filesystems, devices
    Inspect(Inspect),
    /// List the settings of this machine: what each means, holds and takes, and whether it can be written
    Settings(Settings),
    /// Watch this machine and its load, and say what limits it; nothing is changed
    Diagnose(Diagnose),
    /// Run a study, on this host or in a simulation
    Run(Run),
    /// Write a study to begin with: from what you name here, or from one that ships with Flyball
    New(New),
    /// Record this machine, a running process or a command; the recording is a run like others
    Record(Record),
    /// Mark what begins now in a recording or a trial that goes on
    ///
    /// Within a command that is recorded, it marks that recording; elsewhere, the recordings that go on into
    /// the notebook, and the trial of a study that runs on this host. What the machine did from mark to mark
    /// is shown with the recording. A command can also write a line to the pipe that FLYBALL_MARKS names, or
    /// to the descriptor whose number is in FLYBALL_MARK_FD.
    Mark(Mark),
    /// See this machine, a running process or a command at work in the terminal; or play a trial again
    Watch(Watch),
    /// Run studies in a virtual machine: a real kernel, virtual P-states, modelled disks
    #[command(subcommand)]
    Lab(Lab),
    /// Import results of other tools: fio, bonnie++, sysbench, dd, sysstat, turbostat, perf and more
    Import(Import),
    /// List simulated machines, compare them with measured ones, and fit them
    #[command(subcommand)]
    Sim(Sim),
    /// List the runs in the notebook, each with its verdict; or the studies that ship with Flyball
    List(List),
    /// Remove runs from the notebook
    Rm(Rm),
    /// Show which runs could be removed and what they take, and remove them with --yes
    Gc(Gc),
    /// Show a run, or one of its trials
    Show(Show),
    /// Compare two runs, the levels of a factor, or all runs of a study over time
    Compare(Compare),
    /// Explain a run: findings with evidence, cause and remedy
    Explain(Explain),
    /// Predict what other governors, tunables and limits would have given a trial or recording
    Replay(Replay),
    /// Write a run as one HTML page, Markdown, text, CSV or JSON
    Report(Report),
    /// Export trials or a trace to the formats of other programs
    Export(Export),
    /// Show what is on a disk and claim it for overwriting, or list the claims
    Claim(Claim),
    /// Show what Flyball has changed on this machine and not yet restored
    Status,
    /// Restore everything that Flyball has changed
    Restore(Restore),
    /// Measure a change of settings before it is kept, make settings persist over restarts, or undo that
    Tune(Tune),
    /// Print a completion script for a shell
    ///
    /// It completes commands and options, and the names of runs, studies, simulated machines and settings,
    /// for which it asks this program. `make install` installs the scripts of bash, zsh and fish. For one
    /// shell: `source <(flyball completions bash)`.
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Print what may stand at a shell's cursor, for the completion scripts
    #[command(hide = true)]
    Complete {
        /// The words behind the program's name, up to the cursor
        #[arg(last = true, value_name = "WORD")]
        words: Vec<OsString>,
    },
    /// Write the man pages
    Man {
        /// The folder to write them to
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Serve the host from inside a lab machine
    #[command(hide = true)]
    LabGuest,
    /// Read files that others wrote, as somebody who can do nothing else
    #[command(hide = true)]
    ReadForeign,
    /// Unpack a file that others wrote with a program of others, which can do nothing else
    #[command(hide = true)]
    UnpackForeign {
        /// The program
        program: PathBuf,
        /// Its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Watch over a recording, and end what it records when it dies
    #[command(hide = true)]
    WatchRecording {
        /// Where the recording goes [default: the notebook]
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Watch over a worker, and put its changes back when it dies
    #[command(hide = true)]
    Supervise {
        /// The state folder
        state: PathBuf,
    },
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn what_stands_behind_the_help_fits_eighty_columns() {
        assert!(AFTER_HELP.lines().all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn the_definition_of_the_arguments_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn the_older_words_mean_the_same_until_the_next_version() {
        let same = |older: &str, newer: &str| {
            let read = |line: &str| format!("{:?}", Cli::try_parse_from(line.split(' ')).unwrap().command);
            assert_eq!(read(older), read(newer));
        };
        same("flyball report --beside x.toml --of a", "flyball report --published x.toml --use-run a");
        same("flyball report --beside x --book d --renew", "flyball report --published x --pages d --update");
        same(
            "flyball tune --set a=1 --persist --why w --beside-rivals",
            "flyball tune --set a=1 --persist --comment w --ignore-rivals",
        );
    }
}
