//! How the program ends: the exit codes that `flyball --help` lists.

use domain::inert;
use std::process::ExitCode;
use thiserror::Error;

/// How a command ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Done.
    Done,
    /// Done, but at least one cell has no valid trial.
    Incomplete,
    /// Done, but something was changed by somebody else and left alone.
    LeftAlone,
    /// Done, but a cell meets a condition that it must not meet.
    Failed,
    /// Somebody asked us to stop.
    Interrupted,
    /// The recorded command ended with this code, which is passed on.
    Child(i32),
}

impl From<End> for ExitCode {
    fn from(end: End) -> Self {
        Self::from(match end {
            End::Done => 0,
            End::Incomplete => 3,
            End::LeftAlone => 5,
            End::Failed => 6,
            End::Interrupted => 130,
            End::Child(code) => u8::try_from(code).unwrap_or(1),
        })
    }
}

/// The command line or the study is wrong: exit code 2.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// A study file is wrong: exit code 2. Each of its faults has a line, which is inert.
#[derive(Debug, Error)]
#[error("{}\n{}", inert::one_line(.what), .faults.trim_end())]
pub struct Faults {
    /// What was read, and what follows from its being wrong.
    pub what: String,
    /// `FILE:LINE:COLUMN: …` each.
    pub faults: String,
}

/// Another Flyball has what we need: exit code 4.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct Busy(pub String);

/// The exit code of an error.
pub fn code_of(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(match error {
        e if e.is::<Usage>()
            || e.is::<Faults>()
            || e.downcast_ref().is_some_and(|e| {
                matches!(
                    e,
                    results::Error::Page { .. } | results::Error::Condition(_) | results::Error::Removal(_)
                )
            })
            || is_of_session(e, is_usage) =>
        {
            2
        }
        e if e.is::<Busy>() || is_of_session(e, |e| matches!(e, session::Error::Busy(_))) => 4,
        e if is_interrupt(e) => 130,
        _ => 1,
    })
}

/// Whether what was typed is wrong.
fn is_usage(error: &session::Error) -> bool {
    use runner::following::Error::Refused;
    matches!(error, session::Error::Usage(_) | session::Error::Following(Refused(_)))
}

/// Whether somebody asked a lab machine to stop.
fn is_interrupt(error: &anyhow::Error) -> bool {
    is_of_session(error, session::Error::is_interrupt)
        || error.downcast_ref().is_some_and(|e| matches!(e, lab::Error::Interrupted))
}

fn is_of_session(error: &anyhow::Error, is_meant: impl Fn(&session::Error) -> bool) -> bool {
    error.downcast_ref().is_some_and(is_meant)
}
