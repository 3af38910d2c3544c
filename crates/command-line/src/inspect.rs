//! The arguments of `flyball inspect`.

use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct Inspect {
    /// Inspect a recorded machine instead: a directory with its /proc and /sys
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}
