//! The arguments of `flyball claim`.

use clap::Args;
use std::path::PathBuf;

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
