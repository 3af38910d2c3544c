//! The arguments of `flyball record`.

use super::values::{interval, span};
use clap::Args;
use domain::Nanos;
use std::path::PathBuf;

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
