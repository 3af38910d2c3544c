//! The arguments of `flyball run`.

use super::{Gate, StudyEvents};
use clap::Args;
use std::path::PathBuf;

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
    #[command(flatten)]
    pub events: StudyEvents,
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

/// On what kind of machine a study runs; lab machines have commands of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum On {
    /// This host
    Host,
    /// A simulated machine
    Sim,
}
