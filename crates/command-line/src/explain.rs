//! The arguments of `flyball explain`.

use clap::Args;

#[derive(Args, Debug)]
pub struct Explain {
    /// A study, STUDY~1, STUDY@REVISION, or a run
    #[arg(value_name = "RUN", required_unless_present = "rule")]
    pub run: Option<String>,
    /// Judge this cell by itself, by the traces of all its trials and the storage that it stood on; a run of
    /// several cells is else judged by how they differ and by one trial of each
    #[arg(long, value_name = "CELL", conflicts_with = "rule")]
    pub cell: Option<String>,
    /// Show what this rule finds, what it rests on and its source, instead of findings; `all` lists them
    #[arg(long, value_name = "RULE", conflicts_with = "run")]
    pub rule: Option<String>,
}
