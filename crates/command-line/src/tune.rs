//! The arguments of `flyball tune`.

use super::values::request;
use clap::Args;
use domain::setting::SettingRequest;

#[derive(Args, Debug)]
pub struct Tune {
    /// A finding, `RUN:NUMBER` as `flyball explain RUN` counts them: its remedy is measured before and after
    #[arg(value_name = "FINDING", conflicts_with_all = ["set", "undo"])]
    pub finding: Option<String>,
    /// Write this setting: `vm.dirty_ratio=5`, `read_ahead_kb@sda=512`; may be given more than once
    #[arg(long, value_name = "SETTING=VALUE", value_parser = request, conflicts_with = "undo")]
    pub set: Vec<SettingRequest>,
    /// Keep the value after this program ends and over restarts of the machine; after a measurement, only
    /// where it is better
    #[arg(long, conflicts_with = "undo")]
    pub persist: bool,
    /// Undo every persistent change
    #[arg(long)]
    pub undo: bool,
    /// Show what would be written and where; do nothing
    #[arg(long, conflicts_with = "undo")]
    pub dry_run: bool,
    /// A comment that is kept with the setting: the reason for it
    #[arg(long, alias = "why", value_name = "TEXT", conflicts_with = "undo")]
    pub comment: Option<String>,
    /// Write the value even where another active program (tuned, TLP and others) sets it too
    #[arg(long, alias = "beside-rivals", conflicts_with = "undo")]
    pub ignore_rivals: bool,
    /// The seed of a measurement's order [default: from the clock, printed first]
    #[arg(long, value_name = "N", conflicts_with = "undo")]
    pub seed: Option<u64>,
    /// Measure this command with the change and without it, in turns, until it is clear whether it is faster
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "undo")]
    pub command: Vec<String>,
}
