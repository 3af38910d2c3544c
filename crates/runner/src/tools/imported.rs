//! What was imported: another tool's results, which Flyball shows and compares, and cannot measure again.

use super::{Driver, Invocation, Job};
use crate::Error;
use domain::outcome::Outcome;

pub(super) const DRIVER: Driver = Driver { program: None, invocation, outcome, complaints: &[] };

/// Why nothing is run.
pub(super) fn refusal() -> Error {
    Error::Unsupported(
        "its results were imported, and nothing tells how they were made; write a study with `tool = \"fio\"`, `dd` or `command`"
            .into(),
    )
}

fn invocation(_: &Job<'_>) -> Result<Invocation, Error> {
    Err(refusal())
}

fn outcome(_: &Job<'_>, _: &str) -> Result<Outcome, Error> {
    Err(refusal())
}
