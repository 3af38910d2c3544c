//! bonnie, which only the simulation knows so far.

use super::{Driver, Invocation, Job};
use crate::Error;
use domain::outcome::Outcome;

pub(super) const DRIVER: Driver =
    Driver { program: Some(("bonnie++", "bonnie++")), invocation, outcome, complaints: &[super::STDERR] };

fn invocation(_: &Job<'_>) -> Result<Invocation, Error> {
    Err(Error::Unsupported("only the simulation knows the tool `bonnie` so far; add `--on sim`".into()))
}

fn outcome(job: &Job<'_>, _: &str) -> Result<Outcome, Error> {
    invocation(job).map(|_| unreachable!("there is no command to report of"))
}
