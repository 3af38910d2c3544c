//! What was typed: the one definition of the arguments, from which help, man pages and completions come.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use domain::Nanos;
use domain::gate::Condition;
use domain::lab::MEMORY;
use domain::setting::{SettingName, SettingRequest};
use domain::time::Timestamp;
use domain::trial::Provenance;
use domain::units::Bytes;
use exporters::Exporter;
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

const AFTER_HELP: &str = "\
Results go to standard output, messages and progress to standard error.

Exit codes:
  0    done
  1    failed; the message names what failed and what to do
  2    the command line or the study is wrong, and nothing was changed; or a --fail-if names a metric
       that no workload reported, and what was measured is kept
  3    done, but at least one cell has no valid trial
  4    another Flyball is measuring on this machine, or has this run open
  5    done, but another program has changed a setting that Flyball had changed; it was not restored
  6    done, but a cell meets a condition of `--fail-if`, or was not measured
  130  interrupted; what was measured is kept, and every setting is restored
`flyball record -- COMMAND` and `flyball lab exec` exit with the command's own code, or with 128 plus
the number of the signal that ended it; `lab exec` exits with 137 where it cut the machine's power.";

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
    /// Compare two runs, or the levels of a factor
    Compare(Compare),
    /// Explain a run: findings with evidence, cause and remedy
    Explain(Explain),
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
    /// Make settings persist over restarts of the machine, or undo that
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

#[derive(Args, Debug)]
pub struct Restore {
    /// Install a service that restores everything at boot, after a power failure or a kernel crash
    #[arg(long, conflicts_with = "uninstall")]
    pub install: bool,
    /// Remove that service
    #[arg(long)]
    pub uninstall: bool,
    /// Print that service's unit for a program at this path, as packages ship it; write nothing
    #[arg(long, value_name = "PROGRAM", conflicts_with_all = ["install", "uninstall"])]
    pub print_unit: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Tune {
    /// A finding of `flyball explain`, to measure before and after; not implemented yet
    #[arg(value_name = "FINDING", conflicts_with_all = ["set", "undo"])]
    pub finding: Option<String>,
    /// Write this setting: `vm.dirty_ratio=5`, `read_ahead_kb@sda=512`; may be given more than once
    #[arg(long, value_name = "SETTING=VALUE", value_parser = request, conflicts_with = "undo")]
    pub set: Vec<SettingRequest>,
    /// Keep the value after this program ends and over restarts of the machine
    #[arg(long, conflicts_with = "undo")]
    pub persist: bool,
    /// Undo every persistent change
    #[arg(long)]
    pub undo: bool,
    /// Show what would be written and where; do nothing
    #[arg(long, conflicts_with = "undo")]
    pub dry_run: bool,
    /// A comment that is kept with the setting: the reason for it
    #[arg(long, alias = "why", value_name = "TEXT", conflicts_with = "undo")]
    pub comment: Option<String>,
    /// Write the value even where another active program (tuned, TLP and others) sets it too
    #[arg(long, alias = "beside-rivals", conflicts_with = "undo")]
    pub ignore_rivals: bool,
}

#[derive(Args, Debug)]
pub struct Check {
    /// Measure on a file in this directory, which is created; the file is removed afterwards
    #[arg(long, value_name = "DIR", default_value = "flyball-check")]
    pub dir: PathBuf,
    /// The seed of everything that is random [default: from the clock, printed first]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Print all of it instead of one screen
    #[arg(long)]
    pub full: bool,
}

#[derive(Args, Debug)]
pub struct Inspect {
    /// Inspect a recorded machine instead: a directory with its /proc and /sys
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Settings {
    /// Only settings with this in their name or meaning, sysctls too: `governor`, `raid`, `vm.dirty`; after
    /// an `@` the object: `read_ahead_kb@sda`, `@policy0` [default: all that have a name of Flyball's]
    #[arg(value_name = "PATTERN")]
    pub pattern: Option<String>,
    /// Look at a recorded machine instead: a directory with its /proc and /sys
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Run {
    /// A study file, or a study that ships with Flyball by its name (`quick`); `flyball list --studies`
    #[arg(value_name = "STUDY")]
    pub study: PathBuf,
    /// Show the plan, its expected time, every command and every write; do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The seed of the plan [default: from the clock, printed first]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Begin a new run even where the last one is unfinished
    #[arg(long)]
    pub new: bool,
    /// Count trials beside which other work ran, and say so in the results
    #[arg(long)]
    pub under_load: bool,
    /// Create the study's files in this directory [default: `work` in the notebook]
    #[arg(long, value_name = "DIR")]
    pub work: Option<PathBuf>,
    /// Run on this host, or on a simulated machine
    #[arg(long, value_enum, default_value_t = On::Host)]
    pub on: On,
    /// The simulated machine: a name (`lab`) or a file [default: the study's]
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<String>,
    /// Print all of it instead of one screen
    #[arg(long)]
    pub full: bool,
    #[command(flatten)]
    pub gate: Gate,
}

#[derive(Args, Debug)]
pub struct New {
    /// The study's name; it is written to NAME.toml, which must not be there [default: my-TOOL]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Begin with this study, that ships with Flyball (`raid-levels`) or is a file
    #[arg(long, value_name = "STUDY", conflicts_with_all = ["tool", "governors", "levels", "target", "command"])]
    pub from: Option<PathBuf>,
    /// The workload: `fio`, `dd`, `sysbench`, `pgbench`, `bonnie`, `hdparm` [default: fio]
    #[arg(long, value_name = "TOOL")]
    pub tool: Option<String>,
    /// Vary the CPU frequency governor: `powersave,performance`
    #[arg(long, value_name = "GOVERNOR,…", value_delimiter = ',')]
    pub governors: Vec<String>,
    /// Vary an option of the tool, a setting, or a placeholder of the command: `bs=4k,64k`,
    /// `read_ahead_kb=128,4096`, `jobs=1,4`; may be given more than once
    #[arg(long, value_name = "FACTOR=LEVEL,…", value_parser = levels)]
    pub levels: Vec<(String, Vec<String>)>,
    /// What it works on: a file of a size (`256MiB`), a loop device (`loop:256MiB`), a file in a folder
    /// (`/srv/data:1GiB`), or a disk or file that is only read (`/dev/sda`) [default: what the tool needs]
    #[arg(long, value_name = "TARGET")]
    pub target: Option<String>,
    /// The file to write; `-` is standard output [default: NAME.toml]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// A command to measure instead of a tool; `{NAME}` in it is the level of the factor NAME
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

/// What makes a run fail, and who is told.
#[derive(Args, Debug)]
pub struct Gate {
    /// Exit with code 6 where a cell meets this condition: `throughput < 500 MB/s`, `latency_p99 > 5 ms where
    /// governor=ondemand`, `worse than RUN by 5%`; may be given more than once
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<Condition>,
    /// Write the cells, or these conditions of the cells, as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

/// On what kind of machine a study runs; lab machines have commands of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum On {
    /// This host
    Host,
    /// A simulated machine
    Sim,
}

#[derive(Debug, Subcommand)]
pub enum Sim {
    /// List the machines that ship with Flyball; for a study, those that fit it first
    Machines {
        /// A study: a file, or one that ships by its name
        #[arg(value_name = "STUDY")]
        study: Option<PathBuf>,
    },
    /// Compare simulated runs with measured ones, cell by cell
    Fidelity(Fidelity),
    /// Fit a machine's unknown parameters to published values, and judge the fit by held-out rows
    Calibrate(Calibrate),
}

#[derive(Args, Debug)]
pub struct Calibrate {
    /// A study with `[[published]]` values: a file, or a name (`published/raid10`)
    #[arg(value_name = "STUDY")]
    pub study: PathBuf,
    /// The machine to fit: a name or a file [default: the study's]
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<String>,
    /// Hold out the rows of this level, or with `metric=NAME` of this metric: they are not fitted to and
    /// judge the fit; may be given more than once [default: every second row]
    #[arg(long, value_name = "FACTOR=LEVEL", value_parser = level)]
    pub hold_out: Vec<(String, String)>,
    /// The seed of the search and of the simulation
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// The most evaluations of the model in the search
    #[arg(long, value_name = "N", default_value_t = 400)]
    pub budget: u32,
}

fn level(text: &str) -> Result<(String, String), String> {
    let (factor, level) = text.split_once('=').ok_or("write it as FACTOR=LEVEL, such as `block=1m`")?;
    Ok((factor.to_owned(), level.to_owned()))
}

/// `FACTOR=LEVEL,LEVEL`.
fn levels(text: &str) -> Result<(String, Vec<String>), String> {
    let (factor, levels) =
        text.split_once('=').ok_or("write it as FACTOR=LEVEL,LEVEL, such as `bs=4k,64k`")?;
    let levels: Vec<String> = levels.split(',').map(|level| level.trim().to_owned()).collect();
    if factor.trim().is_empty() || levels.iter().any(String::is_empty) {
        return Err("write it as FACTOR=LEVEL,LEVEL, such as `bs=4k,64k`".into());
    }
    Ok((factor.trim().to_owned(), levels))
}

#[derive(Args, Debug)]
pub struct Fidelity {
    /// Measured runs, of this host or the lab, as in `show`
    #[arg(required = true, value_name = "RUN")]
    pub measured: Vec<String>,
    /// A simulated run of the same study; may be given more than once
    #[arg(long = "model", required = true, value_name = "RUN")]
    pub modelled: Vec<String>,
    /// The metric [default: the study's]
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum Lab {
    /// Run a study in a lab machine
    Run(LabRun),
    /// Open a shell in a lab machine
    Shell(LabShell),
    /// Run a command in a lab machine, and exit with its code
    Exec(LabExec),
    /// List the kernels in the cache and those that can be downloaded
    Kernels(LabKernels),
    /// List the guest images in the cache
    Images,
    /// Remove kernels and guest images from the cache
    Clean,
}

/// What a lab machine is, where a study does not say it or something else is wanted.
#[derive(Args, Debug)]
pub struct LabMachine {
    /// The table of virtual P-states: a name (`laptop-5`) or a file
    #[arg(long, value_name = "TABLE")]
    pub pstates: Option<String>,
    /// A modelled disk: a model's name or file, with a size if it is to be smaller; may be given more than
    /// once
    #[arg(long = "disk", value_name = "MODEL[:SIZE]")]
    pub disks: Vec<String>,
    /// Virtual CPUs
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub vcpus: Option<u32>,
    /// Memory
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub memory: Option<Bytes>,
}

#[derive(Args, Debug)]
pub struct LabRun {
    /// A study file, or a study that ships with Flyball by its name; `flyball list --studies`
    #[arg(value_name = "STUDY")]
    pub study: PathBuf,
    /// The kernel: a series (`6.1`), a release, or a file; given more than once, it is a factor of the study
    #[arg(long = "kernel", value_name = "KERNEL")]
    pub kernels: Vec<String>,
    #[command(flatten)]
    pub machine: LabMachine,
    /// Show the plan, the machine and every command; start nothing
    #[arg(long)]
    pub dry_run: bool,
    /// The seed of the plan [default: from the clock, printed first]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Begin a new run even where the last one is unfinished
    #[arg(long)]
    pub new: bool,
    /// Print all of it instead of one screen
    #[arg(long)]
    pub full: bool,
    #[command(flatten)]
    pub gate: Gate,
}

#[derive(Args, Debug)]
pub struct LabShell {
    /// Use the machine of this study, prepared as for its trials
    #[arg(long, value_name = "STUDY")]
    pub study: Option<PathBuf>,
    /// The kernel: a series (`6.1`), a release, or a file
    #[arg(long, value_name = "KERNEL")]
    pub kernel: Option<String>,
    #[command(flatten)]
    pub machine: LabMachine,
    /// Keep the disks in this directory for the next start [default: they are deleted with the machine]
    #[arg(long, value_name = "DIR")]
    pub keep_disks: Option<PathBuf>,
    /// The seed that decides what a power cut leaves on kept disks [default: from the clock, printed first]
    #[arg(long, value_name = "N", requires = "keep_disks")]
    pub seed: Option<u64>,
}

#[derive(Args, Debug)]
pub struct LabExec {
    #[command(flatten)]
    pub shell: LabShell,
    /// Cut the machine's power this long after the command has started, and exit with code 137
    #[arg(long, value_name = "TIME", value_parser = span, requires = "keep_disks")]
    pub cut_power_after: Option<Nanos>,
    /// The command to run in the machine
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Args, Debug)]
pub struct LabKernels {
    /// Download and unpack this one: a series (`6.1`) or a release
    #[arg(long, value_name = "KERNEL")]
    pub get: Vec<String>,
}

#[derive(Args, Debug)]
pub struct Record {
    /// The sampling interval
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = interval, allow_hyphen_values = true)]
    pub interval: Nanos,
    /// Write the recording to this directory, outside any notebook [default: a run in the notebook]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Stop after this time [default: when what is recorded ends, or at Ctrl-C]
    #[arg(long = "for", alias = "duration", value_name = "TIME", value_parser = span)]
    pub duration: Option<Nanos>,
    /// Follow this running process and all that it starts; nothing is done to it
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<u32>,
    /// The command to run and record
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Args, Debug)]
pub struct Diagnose {
    /// Watch for this time; a command is watched until it ends [default: 20s, a command: until it ends]
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    pub duration: Option<Nanos>,
    /// Follow this running process and all that it starts; nothing is done to it
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<u32>,
    /// The command to run and watch [default: what is running]
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

#[derive(Args, Debug)]
pub struct Import {
    /// Output of a tool, unedited or with text around it; `-` is standard input. Its format is detected
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The name of the run; imports of one name can be compared [default: from the file's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The format, where it cannot be detected: `fio-bw-log`, `text`, `sar`
    #[arg(long = "as", value_name = "KIND")]
    pub kind: Option<String>,
    /// The files belong to one measurement and become one run; samples become its trace
    #[arg(long)]
    pub together: bool,
    /// Import a file that was imported before
    #[arg(long)]
    pub again: bool,
    /// The interval between the samples of a file without timestamps
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub interval: Option<Nanos>,
    /// Show what would be imported; store nothing
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Args, Debug)]
pub struct List {
    /// Only runs of this study
    #[arg(value_name = "STUDY")]
    pub study: Option<String>,
    /// List the studies that ship with Flyball instead, by the names that `run` and `new --from` take
    #[arg(long, conflicts_with_all = [
        "study", "of_study", "since", "until", "provenance", "machine", "unfinished", "finished", "last",
    ])]
    pub studies: bool,
    #[command(flatten)]
    pub filter: Filter,
}

/// Which runs are meant; all conditions have to hold.
#[derive(Args, Debug)]
pub struct Filter {
    /// Only runs of this study, as the argument
    #[arg(long = "study", value_name = "STUDY", conflicts_with = "study")]
    pub of_study: Option<String>,
    /// Only runs that began then or later: `2026-11-20`, `2026-11-20T14:05`, or `7d` for the last seven days
    /// (UTC)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub since: Option<Moment>,
    /// Only runs that began earlier than that
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub until: Option<Moment>,
    /// Only runs of this kind of machine: `host`, `lab`, `simulation`, `imported`
    #[arg(long, value_name = "KIND", value_parser = provenance)]
    pub provenance: Option<Provenance>,
    /// Only runs of the machine whose id begins so, as --json shows it
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<String>,
    /// Only runs that are not finished
    #[arg(long, conflicts_with = "finished")]
    pub unfinished: bool,
    /// Only runs that are finished
    #[arg(long)]
    pub finished: bool,
    /// Only the newest N of these
    #[arg(long, short = 'n', value_name = "N")]
    pub last: Option<usize>,
}

#[derive(Args, Debug)]
pub struct Rm {
    /// Runs: an id, or so much of its beginning that no other begins so; STUDY~1
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}

#[derive(Args, Debug)]
pub struct Gc {
    /// Also finished runs that began longer ago than this: `90d`
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub older_than: Option<Nanos>,
    /// Also all but the newest N runs of each study; with --older-than, keep these whatever their age
    #[arg(long, value_name = "N")]
    pub keep: Option<usize>,
    /// Remove them, which cannot be undone [default: show them]
    #[arg(long, short)]
    pub yes: bool,
}

/// A point of time as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// On the calendar.
    At(Timestamp),
    /// Before now.
    Ago(Nanos),
}

impl Moment {
    /// When it is.
    pub fn from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::Ago(span) => {
                let span = i64::try_from(span.get()).unwrap_or(i64::MAX);
                Timestamp::from_unix_nanos(now.unix_nanos().saturating_sub(span))
            }
        }
    }
}

#[derive(Args, Debug)]
pub struct Show {
    /// A study (its last run), STUDY~1 (the one before), STUDY@REVISION, or a run
    #[arg(value_name = "RUN")]
    pub run: String,
    /// One of its trials
    #[arg(value_name = "TRIAL")]
    pub trial: Option<String>,
    /// Print all of it instead of one screen
    #[arg(long)]
    pub full: bool,
}

#[derive(Args, Debug)]
pub struct Compare {
    /// The first run: a study, STUDY~1, STUDY@REVISION, or a run; alone, it is compared with the run of its
    /// study before it
    #[arg(value_name = "A")]
    pub a: String,
    /// The second
    #[arg(value_name = "B", conflicts_with = "factor")]
    pub b: Option<String>,
    /// Compare the levels of this factor within A instead
    #[arg(long, value_name = "NAME")]
    pub factor: Option<String>,
    /// Compare this metric [default: the study's]
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
    /// Compare runs of different kinds of machines: host, lab, simulation
    #[arg(long)]
    pub across: bool,
}

#[derive(Args, Debug)]
pub struct Explain {
    /// A study, STUDY~1, STUDY@REVISION, or a run
    #[arg(value_name = "RUN")]
    pub run: String,
}

#[derive(Args, Debug)]
pub struct Report {
    /// A study, STUDY~1, STUDY@REVISION, or a run; with --published a study that has a `[page]`
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<String>,
    /// The format of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Html)]
    pub format: ReportFormat,
    /// The file to write; `-` is standard output [default: RUN.html; other formats to standard output]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Compare this metric [default: the study's]
    #[arg(long, value_name = "NAME", conflicts_with = "published")]
    pub metric: Option<String>,
    /// Draw the trace of this trial; may be given more than once [default: one of each cell first, 40 at
    /// most]
    #[arg(long, value_name = "TRIAL", conflicts_with = "published")]
    pub trial: Vec<String>,
    /// Compare published figures with the newest runs in lab, simulation and on hosts, side by side
    #[arg(long, alias = "beside")]
    pub published: bool,
    /// With --published: use this run, not the newest of its study and kind of machine; may be given more
    /// than once
    #[arg(long, alias = "of", value_name = "RUN", requires = "published", conflicts_with = "pages")]
    pub use_run: Vec<String>,
    /// With --published: write a page for each study file and an index to this directory, from the runs kept
    /// in its `runs`
    #[arg(long, alias = "book", value_name = "DIR", requires = "published", conflicts_with_all = ["format", "out"])]
    pub pages: Option<PathBuf>,
    /// With --pages: update the kept runs from the notebook first
    #[arg(long, alias = "renew", requires = "pages")]
    pub update: bool,
    /// With --pages: write nothing, and fail where a page differs from what would be written
    #[arg(long, requires = "pages", conflicts_with = "update")]
    pub check: bool,
}

/// The formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    Html,
    Markdown,
    Text,
    Csv,
    Json,
}

#[derive(Args, Debug)]
pub struct Export {
    /// A study, STUDY~1, STUDY@REVISION, or a run
    #[arg(value_name = "RUN")]
    pub run: String,
    /// As `exporters::ALL` lists them
    #[arg(long, value_parser = export_formats(), default_value = "csv", help = EXPORT_FORMATS.as_str())]
    pub format: &'static dyn Exporter,
    /// The trace of this trial instead of the table of trials
    #[arg(long, value_name = "TRIAL")]
    pub trace: Option<String>,
    /// The file to write; for fio-plot, the folder [default: standard output]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// This metric, for otava [default: the study's]
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
    /// The condition that a cell must not meet, for junit; see `flyball run --help`
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<Condition>,
}

/// The help of `--format`: which format is of what.
static EXPORT_FORMATS: LazyLock<String> = LazyLock::new(|| {
    let mut things: Vec<(&str, Vec<&str>)> = Vec::new();
    for exporter in exporters::ALL {
        for of in exporter.writers().iter().map(|writer| writer.of()) {
            match things.iter_mut().find(|(thing, _)| *thing == of) {
                Some((_, names)) => names.push(exporter.name()),
                None => things.push((of, vec![exporter.name()])),
            }
        }
    }
    let things: Vec<String> = things.iter().map(|(of, names)| format!("{of} {}", names.join(", "))).collect();
    format!("The form: {}", things.join("; "))
});

/// Understands the names of all formats, and offers them with a line of help each.
fn export_formats() -> impl TypedValueParser<Value = &'static dyn Exporter> {
    let values = exporters::ALL.iter().map(|one| PossibleValue::new(one.name()).help(one.about()));
    PossibleValuesParser::new(values)
        .try_map(|name| exporters::named(&name).ok_or_else(|| format!("no format is called `{name}`")))
}

#[derive(Args, Debug)]
pub struct Claim {
    /// A whole disk that may be overwritten [default: list the claims]
    #[arg(value_name = "DEVICE")]
    pub device: Option<PathBuf>,
    /// What may be lost, by the names that are shown: `xfs,gpt`, or `data` for unknown data
    #[arg(long, value_name = "TYPE", value_delimiter = ',', requires = "device", conflicts_with_all = ["check", "forget"])]
    pub overwrite: Vec<String>,
    /// Make all checks that precede overwriting, and overwrite nothing
    #[arg(long, requires = "device", conflicts_with_all = ["give_back", "forget"])]
    pub check: bool,
    /// Write the saved first 8 MiB and last MiB back, and release the claim
    #[arg(long, requires = "device", conflicts_with = "forget")]
    pub give_back: bool,
    /// Release the claim, delete its backup, and leave the disk as it is
    #[arg(long, requires = "device")]
    pub forget: bool,
    /// Show what would be done; do nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// The recorder's interval: at 100 µs already its own wake-ups are the load.
fn interval(text: &str) -> Result<Nanos, String> {
    let interval = span(text)?;
    if (Nanos::from_micros(100)..=Nanos::from_secs(60)).contains(&interval) {
        Ok(interval)
    } else {
        Err("an interval lies between 100us and 60s".into())
    }
}

/// `SETTING=VALUE`, at the first `=`.
fn request(text: &str) -> Result<SettingRequest, String> {
    match text.split_once('=') {
        Some((setting, value)) if !setting.trim().is_empty() && !value.trim().is_empty() => {
            let setting = SettingName::parse(setting.trim());
            Ok(SettingRequest { setting, value: value.trim().to_owned() })
        }
        _ => Err("write a setting and its value: vm.dirty_ratio=5, read_ahead_kb@sda=512".into()),
    }
}

fn moment(text: &str) -> Result<Moment, String> {
    let wrong = "write a day, `2026-11-20`, with a time, `2026-11-20T14:05`, or how long ago, `7d`, `12h`";
    let civil = civil(text).map(Moment::At);
    civil.or_else(|| age(text).ok().map(Moment::Ago)).ok_or_else(|| wrong.to_owned())
}

/// `2026-11-20`, or with a time of day, as `list` shows it.
fn civil(text: &str) -> Option<Timestamp> {
    let (day, time) = text.trim_end_matches('Z').split_once(['T', ' ']).unwrap_or((text, "0:0"));
    let numbers = |text: &str, between: char| -> Option<Vec<i64>> {
        text.split(between).map(|part| part.parse::<u16>().ok().map(i64::from)).collect()
    };
    let (day, time) = (numbers(day, '-')?, numbers(time, ':')?);
    let (&[year, month, day], &[hour, minute, ref rest @ ..]) = (&day[..], &time[..]) else { return None };
    let second = match rest {
        [] => 0,
        [second] => *second,
        _ => return None,
    };
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Timestamp::from_civil(year, month, day, hour * 3600 + minute * 60 + second)
}

/// A span that may be days or weeks.
fn age(text: &str) -> Result<Nanos, String> {
    const DAY: u64 = 24 * 3600;
    let days = |count: &str, days: u64| count.trim().parse::<u32>().ok().map(|n| u64::from(n) * days * DAY);
    let long = text
        .strip_suffix('d')
        .and_then(|count| days(count, 1))
        .or_else(|| text.strip_suffix('w').and_then(|count| days(count, 7)));
    let long = long.and_then(|secs| secs.checked_mul(1_000_000_000)).map(Nanos::new);
    long.or_else(|| Nanos::parse(text)).ok_or_else(|| "write a time with its unit: 90d, 2w, 12h".into())
}

fn provenance(text: &str) -> Result<Provenance, String> {
    let name = if text == "sim" { "simulation" } else { text };
    Provenance::from_name(name).ok_or_else(|| "there are `host`, `lab`, `simulation` and `imported`".into())
}

fn memory(text: &str) -> Result<Bytes, String> {
    let size = Bytes::parse(text).ok_or("write a size with its unit: 512MiB, 1GiB")?;
    if !MEMORY.contains(&size) {
        return Err(format!("a guest has from {} to {}", MEMORY.start(), MEMORY.end()));
    }
    Ok(size)
}

fn span(text: &str) -> Result<Nanos, String> {
    Nanos::parse(text).ok_or_else(|| "write a time with its unit: 10ms, 2s, 1m".into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_of_the_arguments_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_moment_is_a_day_a_time_or_how_long_ago() {
        let at = |text: &str| match moment(text) {
            Ok(Moment::At(time)) => time.iso(),
            other => format!("{other:?}"),
        };
        assert_eq!(at("2026-11-20"), "2026-11-20T00:00:00Z");
        assert_eq!(at("2026-11-20T14:05"), "2026-11-20T14:05:00Z");
        assert_eq!(at("2026-11-20 14:05:02"), "2026-11-20T14:05:02Z");
        assert_eq!(at("2026-11-20T14:05:02Z"), "2026-11-20T14:05:02Z");
        assert_eq!(moment("7d"), Ok(Moment::Ago(Nanos::from_secs(7 * 86_400))));
        assert_eq!(moment("12h"), Ok(Moment::Ago(Nanos::from_secs(12 * 3_600))));
        for text in ["yesterday", "2026-13-01", "2026-11-20T25:00", "7", "-7d", "99999999999999d", ""] {
            assert!(moment(text).is_err(), "{text}");
        }
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
