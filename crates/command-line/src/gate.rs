//! The arguments of `flyball gate`.

use clap::Args;
use domain::gate::Condition;
use std::path::PathBuf;

/// What makes a run fail, and who is told.
#[derive(Args, Debug)]
pub struct Gate {
    /// Exit with code 6 where a cell meets this condition: `throughput < 500 MB/s`, `latency_p99 > 5 ms where
    /// governor=ondemand`, `worse than RUN by 5%`; may be given more than once
    #[arg(long, value_name = "CONDITION")]
    pub fail_if: Vec<Condition>,
    /// Write the cells, or these conditions of the cells, as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}
