//! The arguments of `flyball show`.

use clap::Args;

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
