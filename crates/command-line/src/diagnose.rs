//! The arguments of `flyball diagnose`.

use super::record::Server;
use super::values::span;
use clap::Args;
use domain::Nanos;

#[derive(Args, Debug)]
pub struct Diagnose {
    /// Watch for this time; a command is watched until it ends [default: 20s, a command: until it ends]
    #[arg(long = "for", value_name = "TIME", value_parser = span)]
    pub duration: Option<Nanos>,
    /// Follow this running process and all that it starts; nothing is done to it
    #[arg(long, value_name = "PID", conflicts_with = "command")]
    pub pid: Option<u32>,
    #[command(flatten)]
    pub server: Server,
    /// The command to run and watch [default: what is running]
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
