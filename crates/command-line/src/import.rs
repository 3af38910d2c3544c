//! The arguments of `flyball import`.

use super::values::span;
use clap::Args;
use domain::Nanos;
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct Import {
    /// Output of a tool, unedited or with text around it, or a trace that Flyball exported as Parquet; `-` is
    /// standard input. Its format is detected
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The name of the run; imports of one name can be compared [default: from the file's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The format, where it cannot be detected: `fio-bw-log`, `text`, `sar`
    #[arg(long = "as", value_name = "KIND")]
    pub kind: Option<String>,
    /// The files belong to one measurement and become one run; samples become its trace
    #[arg(long)]
    pub together: bool,
    /// A copy of /proc/kallsyms of the machine that made a perf.data, read there as root in the same boot:
    /// the functions on its call stacks
    #[arg(long, value_name = "FILE")]
    pub kallsyms: Option<PathBuf>,
    /// Import a file that was imported before
    #[arg(long)]
    pub again: bool,
    /// The interval between the samples of a file without timestamps
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub interval: Option<Nanos>,
    /// Show what would be imported; store nothing
    #[arg(long)]
    pub dry_run: bool,
}
