//! What `flyball record` watched: Flyball shows and compares it, and cannot measure it again.

use crate::tool::Program;
use crate::{Error, Invocation, Job, Metrics, Tool};
use domain::outcome::Outcome;
use domain::study;
use std::io::BufRead;

/// The machine, a process or a command, recorded while it did whatever it did.
pub(crate) struct Recorded;

impl Tool for Recorded {
    fn name(&self) -> &'static str {
        "recorded"
    }

    fn in_study(&self) -> Option<study::Tool> {
        Some(study::Tool::Recorded)
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
        "a recording says what happened, and not how to make it again; `flyball record -- COMMAND` records once more"
            .into(),
    )
}
