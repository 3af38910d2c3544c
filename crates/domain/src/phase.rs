//! Phases of a recording: what somebody marked while it went on, and what the machine did from each mark to
//! the next.

use crate::inert;
use crate::outcome::Metric;
use crate::time::Nanos;
use std::collections::BTreeMap;

/// A moment with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// Since the trace's time zero.
    pub at: Nanos,
    /// What begins then, in one line: `load`, `64 threads`.
    pub name: String,
}

impl Mark {
    /// The longest name, in characters.
    pub const MAX_NAME: usize = 64;

    /// How many marks a recording keeps.
    pub const MAX: usize = 1000;

    /// The name that a line of text gives: one line, without control characters, cut at [`Mark::MAX_NAME`];
    /// `None` where nothing is left.
    pub fn name_of(text: &str) -> Option<String> {
        let inert = inert::one_line(text.trim());
        let name: String = inert.trim().chars().take(Self::MAX_NAME).collect();
        let name = name.trim_end();
        (!name.is_empty()).then(|| name.to_owned())
    }
}

/// The time from one mark to the next, or to an end of the recording.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// That of the mark that it begins with; `None` of what was before the first.
    pub name: Option<String>,
    /// When the mark was made, since the trace's time zero.
    pub begin: Nanos,
    /// When the next was made, or the last sample taken.
    pub end: Nanos,
    /// What the machine did and took, from the sample at or behind its begin to the one at or behind its end;
    /// of sources that are read less often, by their last readings before. Empty where there are no two
    /// samples.
    pub metrics: BTreeMap<String, Metric>,
}

impl Phase {
    /// Its name as it is shown.
    pub fn shown_name(&self) -> &str {
        self.name.as_deref().unwrap_or("(before the first)")
    }

    /// How long it took.
    pub fn duration(&self) -> Nanos {
        self.end.saturating_sub(self.begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_and_not_long() {
        assert_eq!(Mark::name_of("  warm up\n").as_deref(), Some("warm up"));
        assert_eq!(Mark::name_of(" \t\r\n"), None);
        let name = Mark::name_of(&"ä".repeat(200)).unwrap();
        assert_eq!(name.chars().count(), Mark::MAX_NAME);
        assert!(!Mark::name_of("a\u{1b}[31mb").unwrap().contains('\u{1b}'));
    }
}
