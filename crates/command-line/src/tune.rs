//! The arguments of `flyball tune`.

use super::record::Server;
use super::values::{request, span};
use clap::Args;
use domain::Nanos;
use domain::database::{ExistingServer, Kind};
use domain::setting::SettingRequest;
use std::collections::BTreeMap;

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
    /// Measure this running process, and all that it starts; nothing is done to it
    #[arg(long, value_name = "PID", conflicts_with_all = ["undo", "command"])]
    pub pid: Option<u32>,
    #[command(flatten)]
    pub server: Server,
    /// Measure by the number that this command for the shell prints
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["undo", "command"])]
    pub metric_command: Option<String>,
    /// What that number is [default: counter]
    #[arg(long, value_name = "WHAT", requires = "metric_command", value_parser = ["counter", "level", "latency"])]
    pub metric_is: Option<String>,
    /// The metric that decides, of those that the load has [default: what tells best how fast it goes]
    #[arg(long, value_name = "NAME", conflicts_with = "undo")]
    pub metric: Option<String>,
    /// What the change is for: the metric that tells of it decides. With --search, `pareto` looks for the
    /// changes that no other beats in throughput and watts together, and leaves the choice
    #[arg(long, value_name = "GOAL", value_parser = ["throughput", "p99", "joules-per-op", "pareto"], conflicts_with_all = ["undo", "metric"])]
    pub goal: Option<String>,
    /// Look for the best of many changes first: each combination of the values that `--set NAME=VALUE,VALUE`
    /// lists, or what a recording's replay predicts to be faster
    #[arg(long, conflicts_with = "undo")]
    pub search: bool,
    /// How long a running load is watched before and after [default: 10s]
    #[arg(long = "for", value_name = "TIME", value_parser = span, conflicts_with_all = ["undo", "command"])]
    pub duration: Option<Nanos>,
    /// How long a running load is left alone after each change [default: 2s]
    #[arg(long, value_name = "TIME", value_parser = span, conflicts_with_all = ["undo", "command"])]
    pub wash_out: Option<Nanos>,
    /// Measure this command with the change and without it, in turns, until it is clear whether it is faster
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "undo")]
    pub command: Vec<String>,
}

impl Tune {
    /// The running load to measure on, as a study's workload `running` has it; empty where none is named.
    pub fn running(&self) -> BTreeMap<String, String> {
        let server = self.server.named();
        let of_server = |part: fn(&(Kind, ExistingServer)) -> Option<String>| server.as_ref().and_then(part);
        let named = [
            ("pid", self.pid.map(|pid| pid.to_string())),
            ("server", of_server(|(kind, _)| Some(kind.name().to_owned()))),
            ("server_address", of_server(|(_, server)| Some(server.address.to_string()))),
            ("server_user", of_server(|(_, server)| server.user.clone())),
            ("server_password_file", of_server(|(_, server)| server.password_file.clone())),
            ("server_database", of_server(|(_, server)| server.database.clone())),
            ("metric_command", self.metric_command.clone()),
            ("metric_is", self.metric_is.clone()),
            ("for", self.duration.map(|span| span.to_string())),
            ("wash_out", self.wash_out.map(|span| span.to_string())),
        ];
        named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
    }
}
