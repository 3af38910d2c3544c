//! The arguments of `flyball lab`.

use super::values::{memory, span};
use super::{Gate, StudyEvents};
use clap::{Args, Subcommand};
use domain::Nanos;
use domain::units::Bytes;
use std::path::PathBuf;

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
    /// The table of virtual P-states: a name (`laptop-5`), a file, or a machine to be like (the file of
    /// `flyball inspect --json`, the folder of a recorded one)
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
    #[command(flatten)]
    pub events: StudyEvents,
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
