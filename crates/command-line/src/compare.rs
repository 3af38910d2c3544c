//! The arguments of `flyball compare`.

use clap::Args;

#[derive(Args, Debug)]
pub struct Compare {
    /// The first run: a study, STUDY~1, STUDY@REVISION, or a run; alone, it is compared with the run of its
    /// study before it
    #[arg(value_name = "A")]
    pub a: String,
    /// The second
    #[arg(value_name = "B", conflicts_with = "factor")]
    pub b: Option<String>,
    /// Compare the levels of this factor within A instead
    #[arg(long, value_name = "NAME")]
    pub factor: Option<String>,
    /// Find where the metric changed over all runs of A's study up to A, and what differs before and after
    #[arg(long, conflicts_with_all = ["b", "factor", "across"])]
    pub history: bool,
    /// Compare this metric [default: the study's]
    #[arg(long, value_name = "NAME")]
    pub metric: Option<String>,
    /// Compare runs of different kinds of machines: host, lab, simulation
    #[arg(long)]
    pub across: bool,
}
