//! What was imported: another tool's results, which Flyball shows and compares, and cannot measure again.

use crate::tool::Program;
use crate::{Error, Invocation, Job, Metrics, Tool};
use domain::outcome::Outcome;
use domain::study;
use std::io::BufRead;

/// Whatever wrote the results that were imported.
pub(crate) struct Imported;

impl Tool for Imported {
    fn name(&self) -> &'static str {
        "imported"
    }

    fn in_study(&self) -> Option<study::Tool> {
        Some(study::Tool::Imported)
    }

    fn program<'t>(&self, _: &'t study::Tool) -> Result<Program<'t>, Error> {
        Err(refusal())
    }

    /// Its trials say what they have.
    fn metrics(&self) -> Metrics {
        Metrics::Any
    }

    fn command(&self, _: &Job<'_>) -> Result<Invocation, Error> {
        Err(refusal())
    }

    fn outcome(&self, _: &Job<'_>, _: &str, _: &mut dyn BufRead) -> Result<Outcome, Error> {
        Err(refusal())
    }

    fn complaints(&self) -> &'static [&'static str] {
        &[]
    }
}

/// Why nothing is run.
fn refusal() -> Error {
    Error::Unsupported(
        "its results were imported, and nothing tells how they were made; write a study with `tool = \"fio\"`, `dd` or `command`"
            .into(),
    )
}
