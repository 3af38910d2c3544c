//! The arguments of `flyball settings`.

use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct Settings {
    /// Only settings with this in their name or meaning, sysctls too: `governor`, `raid`, `vm.dirty`; after
    /// an `@` the object: `read_ahead_kb@sda`, `@policy0` [default: all that have a name of Flyball's]
    #[arg(value_name = "PATTERN")]
    pub pattern: Option<String>,
    /// Look at a recorded machine instead: a directory with its /proc and /sys
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,
}
