//! The arguments of `flyball rm`.

use clap::Args;

#[derive(Args, Debug)]
pub struct Rm {
    /// Runs: an id, or so much of its beginning that no other begins so; STUDY~1
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
}
