//! A governor's tunables: the files of its folder in sysfs, named and bounded as the kernel does.
//!
//! Follows the `…_store` functions of the governors' files, 6.1 and 6.12, and their `sscanf(buf, "%u")`.

use thiserror::Error;

/// Why a tunable cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TunableError {
    /// There is no governor of this name.
    #[error("no governor `{name}` has a model; there are models of {}", crate::governor::NAMES.join(", "))]
    Governor {
        /// As it was given.
        name: String,
    },
    /// The governor has no file of this name.
    #[error("governor `{governor}` has no tunable `{name}`; it has {known}")]
    Unknown {
        /// The governor.
        governor: &'static str,
        /// As it was given.
        name: String,
        /// Those that there are.
        known: String,
    },
    /// The kernel would answer "invalid argument".
    #[error("`{governor}/{name}` cannot be `{value}`: {want}")]
    Value {
        /// The governor.
        governor: &'static str,
        /// The tunable.
        name: &'static str,
        /// As it was given.
        value: String,
        /// What it may be.
        want: String,
    },
}

/// A governor's name and the tunables that it has.
pub(crate) struct Tunables {
    pub(crate) governor: &'static str,
    pub(crate) names: &'static [&'static str],
}

impl Tunables {
    /// The tunable's own name, if there is one of this name.
    pub(crate) fn find(&self, name: &str) -> Result<&'static str, TunableError> {
        let found = self.names.iter().copied().find(|known| *known == name);
        found.ok_or_else(|| TunableError::Unknown {
            governor: self.governor,
            name: name.to_owned(),
            known: if self.names.is_empty() { "none".into() } else { self.names.join(", ") },
        })
    }

    pub(crate) fn refuse(&self, name: &'static str, value: &str, want: impl Into<String>) -> TunableError {
        TunableError::Value { governor: self.governor, name, value: value.to_owned(), want: want.into() }
    }

    /// A whole number within bounds.
    pub(crate) fn number(
        &self,
        name: &'static str,
        value: &str,
        least: u32,
        most: u32,
    ) -> Result<u32, TunableError> {
        let number = value.trim().parse().ok().filter(|n| (least..=most).contains(n));
        number.ok_or_else(|| self.refuse(name, value, bounds(least, most)))
    }

    /// A whole number that the kernel lowers to a bound where it is above it.
    pub(crate) fn capped(&self, name: &'static str, value: &str, most: u32) -> Result<u32, TunableError> {
        Ok(self.number(name, value, 0, u32::MAX)?.min(most))
    }
}

fn bounds(least: u32, most: u32) -> String {
    match (least, most) {
        (0, u32::MAX) => "it must be a whole number".into(),
        (_, u32::MAX) => format!("it must be a whole number of at least {least}"),
        _ => format!("it must be a whole number from {least} to {most}"),
    }
}
