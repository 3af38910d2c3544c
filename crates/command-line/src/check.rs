//! The arguments of `flyball check`.

use clap::Args;
use std::path::PathBuf;

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
