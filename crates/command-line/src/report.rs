//! The arguments of `flyball report`.

use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct Report {
    /// A study, STUDY~1, STUDY@REVISION, or a run; with --published a study that has a `[page]`
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<String>,
    /// The format of the report
    #[arg(long, value_enum, default_value_t = ReportFormat::Html)]
    pub format: ReportFormat,
    /// The file to write; `-` is standard output [default: RUN.html; other formats to standard output]
    #[arg(long, short, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Compare this metric [default: the study's]
    #[arg(long, value_name = "NAME", conflicts_with = "published")]
    pub metric: Option<String>,
    /// Draw the trace of this trial; may be given more than once [default: one of each cell first, 40 at
    /// most]
    #[arg(long, value_name = "TRIAL", conflicts_with = "published")]
    pub trial: Vec<String>,
    /// Compare published figures with the newest runs in lab, simulation and on hosts, side by side
    #[arg(long, alias = "beside")]
    pub published: bool,
    /// With --published: use this run, not the newest of its study and kind of machine; may be given more
    /// than once
    #[arg(long, alias = "of", value_name = "RUN", requires = "published", conflicts_with = "pages")]
    pub use_run: Vec<String>,
    /// With --published: write a page for each study file and an index to this directory, from the runs kept
    /// in its `runs`
    #[arg(long, alias = "book", value_name = "DIR", requires = "published", conflicts_with_all = ["format", "out"])]
    pub pages: Option<PathBuf>,
    /// With --pages: update the kept runs from the notebook first
    #[arg(long, alias = "renew", requires = "pages")]
    pub update: bool,
    /// With --pages: write nothing, and fail where a page differs from what would be written
    #[arg(long, requires = "pages", conflicts_with = "update")]
    pub check: bool,
}

/// The formats of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    Html,
    Markdown,
    Text,
    Csv,
    Json,
}
