//! The arguments of `flyball replay`.

use super::values::{levels, request};
use clap::Args;
use domain::setting::SettingRequest;

#[derive(Args, Debug)]
pub struct Replay {
    /// A study (its last run), STUDY~1 (the one before), STUDY@REVISION, or a run
    #[arg(value_name = "RUN")]
    pub run: String,
    /// One of its trials [default: the first that counts]
    #[arg(value_name = "TRIAL")]
    pub trial: Option<String>,
    /// The machine that it was recorded on, where the run does not hold it: what `flyball inspect --json`
    /// said there, or a simulated machine whose CPUs are like it
    #[arg(long, value_name = "MACHINE")]
    pub machine: Option<String>,
    /// What was in force while it was recorded, where the machine has something else: `governor=ondemand`
    #[arg(long, value_name = "SETTING=VALUE", value_parser = request)]
    pub in_force: Vec<SettingRequest>,
    /// Predict this governor; may be given more than once
    #[arg(long, value_name = "NAME")]
    pub governor: Vec<String>,
    /// Predict with this setting: `ondemand.up_threshold=40`; several hold together
    #[arg(long, value_name = "SETTING=VALUE", value_parser = request)]
    pub set: Vec<SettingRequest>,
    /// Predict each of these values: `ondemand.up_threshold=20,40,60`
    #[arg(long, value_name = "SETTING=VALUE,VALUE", value_parser = levels)]
    pub sweep: Vec<(String, Vec<String>)>,
    /// Print all predictions instead of those of one screen
    #[arg(long)]
    pub all: bool,
    /// Predict what the run measured under other policies, and hold it against that
    #[arg(long, conflicts_with_all = ["governor", "set", "sweep", "all"])]
    pub check: bool,
}
