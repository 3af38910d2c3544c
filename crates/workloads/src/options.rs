//! A workload's options, and what is wrong with one. Each tool's `options.rs` says which there are.

use std::collections::BTreeMap;

/// Options by name, as the tool takes them.
pub type Options = BTreeMap<String, String>;

/// Why options are no load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionError {
    /// The option.
    pub option: String,
    /// What is wrong with it, to be read on from its name, and what to write.
    pub problem: String,
    /// Whether it is no option of such a load at all.
    pub unknown: bool,
}

impl OptionError {
    /// A value, or a combination, that makes no load.
    pub fn wrong(option: &str, problem: impl Into<String>) -> Self {
        Self { option: option.to_owned(), problem: problem.into(), unknown: false }
    }

    /// No option of this tool.
    pub fn unknown(option: &str, tool: &str) -> Self {
        let problem = format!("is no option of {tool} that a study can set");
        Self { option: option.to_owned(), problem, unknown: true }
    }
}

impl std::fmt::Display for OptionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` {}", self.option, self.problem)
    }
}

impl std::error::Error for OptionError {}

/// Why an option is not given to a tool: a study file is somebody's text, and it runs as root. Reads on from
/// the option's name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is Flyball's own business, or would leave the target.
    #[error("cannot be set here: {0}")]
    Forbidden(&'static str),
    /// It is not among those that are known to stay on the target.
    #[error("is no option of {tool} that a study can set")]
    Unknown {
        /// Which tool.
        tool: &'static str,
    },
    /// The option may be set, but not to this.
    #[error("{0}")]
    Value(String),
}

impl OptionError {
    /// As a refusal of the option alone.
    pub(crate) fn into_refusal(self, tool: &'static str) -> Refusal {
        if self.unknown { Refusal::Unknown { tool } } else { Refusal::Value(self.problem) }
    }
}

/// Whether an option that is a switch is on: the one notion of *true* for what a tool was told.
pub fn is_on(text: &str) -> bool {
    matches!(text.trim(), "1" | "true" | "yes" | "on")
}

/// `true` or `false`, or what a study's reader makes of them.
pub(crate) fn truth(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err(format!("is `{text}`; write true or false")),
    }
}
