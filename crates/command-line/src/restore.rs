//! The arguments of `flyball restore`.

use clap::Args;
use std::path::PathBuf;

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
