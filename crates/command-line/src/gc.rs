//! The arguments of `flyball gc`.

use super::values::age;
use clap::Args;
use domain::Nanos;

#[derive(Args, Debug)]
pub struct Gc {
    /// Also finished runs that began longer ago than this: `90d`
    #[arg(long, value_name = "TIME", value_parser = age)]
    pub older_than: Option<Nanos>,
    /// Also all but the newest N runs of each study; with --older-than, keep these whatever their age
    #[arg(long, value_name = "N")]
    pub keep: Option<usize>,
    /// Remove them, which cannot be undone [default: show them]
    #[arg(long, short)]
    pub yes: bool,
}
