//! Workloads that a study describes and that cannot be run: results of other tools, which were imported, and
//! what `flyball record` watched. Flyball shows and compares them, and cannot measure them again.

use crate::tool::Program;
use crate::{Error, Invocation, Job, Metrics, Tool};
use domain::outcome::Outcome;
use domain::study;
use std::io::BufRead;

/// A workload that is described.
pub(crate) struct Described {
    /// As a study has it.
    tool: study::Tool,
    /// Why nothing is run, and what to do instead.
    refusal: &'static str,
}

/// Whatever wrote the results that were imported.
pub(crate) static IMPORTED: Described = Described {
    tool: study::Tool::Imported,
    refusal: "its results were imported, and nothing tells how they were made; write a study with `tool = \"fio\"`, `dd` or `command`",
};

/// The machine, a process or a command, recorded while it did whatever it did.
pub(crate) static RECORDED: Described = Described {
    tool: study::Tool::Recorded,
    refusal: "a recording says what happened, and not how to make it again; `flyball record -- COMMAND` records once more",
};

impl Described {
    fn refuse<T>(&self) -> Result<T, Error> {
        Err(Error::Unsupported(self.refusal.into()))
    }
}

impl Tool for Described {
    fn name(&self) -> &'static str {
        self.tool.name()
    }

    fn in_study(&self) -> Option<study::Tool> {
        Some(self.tool.clone())
    }

    fn program<'t>(&self, _: &'t study::Tool) -> Result<Program<'t>, Error> {
        self.refuse()
    }

    /// Its trials say what they have.
    fn metrics(&self) -> Metrics {
        Metrics::Any
    }

    fn command(&self, _: &Job<'_>) -> Result<Invocation, Error> {
        self.refuse()
    }

    fn outcome(&self, _: &Job<'_>, _: &str, _: &mut dyn BufRead) -> Result<Outcome, Error> {
        self.refuse()
    }

    fn complaints(&self) -> &'static [&'static str] {
        &[]
    }
}
