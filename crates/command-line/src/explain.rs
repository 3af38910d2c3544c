//! The arguments of `flyball explain`.

use clap::Args;

#[derive(Args, Debug)]
pub struct Explain {
    /// A study, STUDY~1, STUDY@REVISION, or a run
    #[arg(value_name = "RUN")]
    pub run: String,
}
