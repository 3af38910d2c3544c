//! What a command line is made of, and the command line.

use crate::options::OptionError;
use crate::report::ToolError;
use crate::server::Connection;
use domain::study::{self, Workload};
use domain::units::Bytes;
use std::io::BufRead;
use std::path::{Path, PathBuf};

/// What a workload runs on and where its report goes.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// What to run.
    pub workload: &'a Workload,
    /// The target and its size, where the study has one.
    pub target: Option<(&'a Path, Bytes)>,
    /// The trial's own folder for raw output; absolute.
    pub raw: &'a Path,
    /// How to reach the server that it asks, once that runs; none in a plan.
    pub server: Option<&'a Connection>,
    /// An empty folder for files of its own, once it is made; none in a plan.
    pub folder: Option<&'a Path>,
    /// What may be done to the target.
    pub access: TargetAccess,
    /// The machine that it runs on.
    pub host: Host,
}

/// What a workload may do to its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TargetAccess {
    /// Read and write it: it is Flyball's own.
    #[default]
    ReadWrite,
    /// Read it: it is somebody's, and in use.
    ReadOnly,
}

impl From<&study::Target> for TargetAccess {
    fn from(target: &study::Target) -> Self {
        if matches!(target, study::Target::ReadOnly(_)) { Self::ReadOnly } else { Self::ReadWrite }
    }
}

/// What a command line depends on of the machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// How many CPUs there are; 0 where it is not known.
    pub cpus: u32,
    /// How much memory there is; `None` where the kernel does not say.
    pub memory: Option<Bytes>,
    /// Who runs the tool.
    pub user: User,
}

/// Who runs a tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum User {
    /// root.
    Root,
    /// Anybody else.
    #[default]
    Other,
}

impl Host {
    /// How many of so many tables or clients are served at a time: one a CPU.
    pub fn at_a_time(&self, all: u32) -> u32 {
        all.min(self.cpus).max(1)
    }
}

/// A literal command, and where it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The folder it runs in; `None` for that of Flyball.
    pub folder: Option<PathBuf>,
}

/// Why there is no command, or no outcome.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An option that a study gives to a tool is refused.
    #[error("cannot give `{key} = {value}` to {tool}: {why}")]
    Option {
        /// The tool.
        tool: &'static str,
        /// The option's name.
        key: String,
        /// The option's value.
        value: String,
        /// Why, and what to do.
        why: String,
    },
    /// A workload that reads or writes a target is in a study that has none.
    #[error(
        "workload `{workload}` needs a target, and the study has none; add `[target]` with `file = \"256MiB\"`"
    )]
    NoTarget {
        /// The workload's name.
        workload: String,
    },
    /// A workload that may write is to run on a target that is only read.
    #[error("cannot run the workload `{workload}` on a target that is only read: {why}")]
    Writes {
        /// The workload's name.
        workload: String,
        /// What of it may write, and what to do.
        why: String,
    },
    /// Not possible with this tool.
    #[error("{0}")]
    Unsupported(String),
    /// The tool gave nothing that can be used. The text says all.
    #[error("{0}")]
    Tool(String),
}

impl<'a> Job<'a> {
    /// A job of a plan: what runs it is not there yet.
    pub const fn planned(workload: &'a Workload, target: Option<(&'a Path, Bytes)>, raw: &'a Path) -> Self {
        let host = Host { cpus: 0, memory: None, user: User::Other };
        let access = TargetAccess::ReadWrite;
        Self { workload, target, raw, server: None, folder: None, access, host }
    }

    /// The job of a load that runs beside this one's workload, with its raw output in a folder of its own.
    pub fn beside<'b>(&'b self, load: &'b Workload, raw: &'b Path) -> Job<'b> {
        let job = Job { workload: load, raw, server: None, ..*self };
        if crate::of(&load.tool).is_of_the_cpu(&load.options) {
            return Job { target: None, access: TargetAccess::ReadWrite, ..job };
        }
        job
    }

    /// Whether the workload does no more to the target than it may.
    ///
    /// # Errors
    /// [`Error::Writes`].
    pub(crate) fn check_access(&self) -> Result<(), Error> {
        match self.access {
            TargetAccess::ReadWrite => Ok(()),
            TargetAccess::ReadOnly => crate::of(&self.workload.tool)
                .only_reads(&self.workload.options)
                .map_err(|why| Error::Writes { workload: self.workload.name.clone(), why }),
        }
    }

    /// The target, where the workload needs one.
    ///
    /// # Errors
    /// [`Error::NoTarget`].
    pub fn needed_target(&self) -> Result<(&'a Path, Bytes), Error> {
        self.target.ok_or_else(|| Error::NoTarget { workload: self.workload.name.clone() })
    }

    /// Options that make no load.
    pub(crate) fn refused(&self, tool: &'static str, error: &OptionError) -> Error {
        let value = self.workload.options.get(&error.option).cloned().unwrap_or_default();
        Error::Option { tool, key: error.option.clone(), value, why: format!("it {}", error.problem) }
    }

    /// A report that its parser could not use.
    pub(crate) fn unusable(&self, error: &ToolError) -> Error {
        Error::Tool(format!("workload `{}`: {error}", self.workload.name))
    }

    /// A report as text.
    pub(crate) fn text(&self, tool: &'static str, report: &mut dyn BufRead) -> Result<String, Error> {
        let mut bytes = Vec::new();
        let read = report.read_to_end(&mut bytes);
        read.map_err(|source| self.unusable(&ToolError::Read { tool, source }))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// A path as an argument; ours are text, for they are made of it.
pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
