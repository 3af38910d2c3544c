//! The arguments of `flyball list`.

use super::values::{Moment, moment, provenance};
use clap::Args;
use domain::trial::Provenance;

#[derive(Args, Debug)]
pub struct List {
    /// Only runs of this study
    #[arg(value_name = "STUDY")]
    pub study: Option<String>,
    /// List the studies that ship with Flyball instead, by the names that `run` and `new --from` take
    #[arg(long, conflicts_with_all = [
        "study", "of_study", "since", "until", "provenance", "machine", "unfinished", "finished", "last",
    ])]
    pub studies: bool,
    #[command(flatten)]
    pub filter: Filter,
}

/// Which runs are meant; all conditions have to hold.
#[derive(Args, Debug)]
pub struct Filter {
    /// Only runs of this study, as the argument
    #[arg(long = "study", value_name = "STUDY", conflicts_with = "study")]
    pub of_study: Option<String>,
    /// Only runs that began then or later: `2026-11-20`, `2026-11-20T14:05`, or `7d` for the last seven days
    /// (UTC)
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub since: Option<Moment>,
    /// Only runs that began earlier than that
    #[arg(long, value_name = "TIME", value_parser = moment)]
    pub until: Option<Moment>,
    /// Only runs of this kind of machine: `host`, `lab`, `simulation`, `imported`
    #[arg(long, value_name = "KIND", value_parser = provenance)]
    pub provenance: Option<Provenance>,
    /// Only runs of the machine whose id begins so, as --json shows it
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<String>,
    /// Only runs that are not finished
    #[arg(long, conflicts_with = "finished")]
    pub unfinished: bool,
    /// Only runs that are finished
    #[arg(long)]
    pub finished: bool,
    /// Only the newest N of these
    #[arg(long, short = 'n', value_name = "N")]
    pub last: Option<usize>,
}
