//! The arguments of `flyball watch`.

use super::values::interval;
use clap::Args;
use domain::Nanos;

#[derive(Args, Debug)]
pub struct Watch {
    /// Play this run instead: a study (its last run), STUDY~1 (the one before), STUDY@REVISION, or a run
    #[arg(value_name = "RUN", conflicts_with_all = ["pid", "command"])]
    pub run: Option<String>,
    /// One of its trials [default: the first that has a trace]
    #[arg(value_name = "TRIAL", requires = "run")]
    pub trial: Option<String>,
    /// Follow this running process and all that it starts; nothing is done to it
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<u32>,
    /// The sampling interval
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = interval, allow_hyphen_values = true)]
    pub interval: Nanos,
    /// Draw with characters of ASCII alone [default: where the locale is not UTF-8]
    #[arg(long)]
    pub ascii: bool,
    /// The command to run and watch; it has no input, and its last lines are shown [default: what is running]
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
