//! The arguments of `flyball new`.

use super::values::levels;
use clap::Args;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct New {
    /// The study's name; it is written to NAME.toml, which must not be there [default: my-TOOL]
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Begin with this study, that ships with Flyball (`raid-levels`) or is a file; --governors and --levels
    /// add settings that it varies
    #[arg(long, value_name = "STUDY", conflicts_with_all = ["tool", "target", "user", "password_file", "command"])]
    pub from: Option<PathBuf>,
    /// The workload: `fio`, `dd`, `sysbench`, `pgbench`, `bonnie`, `hdparm` [default: fio]
    #[arg(long, value_name = "TOOL")]
    pub tool: Option<String>,
    /// Vary the CPU frequency governor: `powersave,performance`
    #[arg(long, value_name = "GOVERNOR,…", value_delimiter = ',')]
    pub governors: Vec<String>,
    /// Vary an option of the tool, a setting, or a placeholder of the command: `bs=4k,64k`,
    /// `read_ahead_kb=128,4096`, `jobs=1,4`; may be given more than once
    #[arg(long, value_name = "FACTOR=LEVEL,…", value_parser = levels)]
    pub levels: Vec<(String, Vec<String>)>,
    /// What it works on: a file of a size (`256MiB`), a loop device (`loop:256MiB`), a file in a folder
    /// (`/srv/data:1GiB`), a disk or file that is only read (`/dev/sda`), or a database server
    /// that runs (`server:/run/mysqld/mysqld.sock`) [default: what the tool needs]
    #[arg(long, value_name = "TARGET")]
    pub target: Option<String>,
    /// Whom the target's server knows Flyball as
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// The file with that user's password
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// The file to write; `-` is standard output [default: NAME.toml]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// A command to measure instead of a tool; `{NAME}` in it is the level of the factor NAME
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}
