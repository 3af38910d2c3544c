//! The names of runs, cells and trials: how each is made, read, shown and ordered.
//!
//! Each of them names a folder or a file of the notebook, so each has one text form: what [`fmt::Display`]
//! writes is what is stored, and the same text read again gives an equal value.

use crate::rng::Seed;
use crate::time::Timestamp;
use std::fmt;
use std::str::FromStr;

/// Which run of a study: `quick-20261120-140502-7f3a`. A run is what one seed plans; it may take several
/// starts of the program to finish. Names of one study's runs are ordered by the time of their begin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub String);

impl RunId {
    /// The name of a run that begins now: different where two begin within one second.
    pub fn begun(study: &str, now: Timestamp) -> Self {
        let digits: String = now.iso().chars().filter(char::is_ascii_digit).collect();
        let (day, time) = digits.split_at(8);
        let mark = Seed(now.unix_nanos() as u64).stream("run id").bits() & 0xffff;
        Self(format!("{study}-{day}-{time}-{mark:04x}"))
    }

    /// The study in a name that [`RunId::begun`] made; `None` in another one.
    pub fn study(&self) -> Option<&str> {
        let mut parts = self.0.rsplitn(4, '-');
        let (_, time, day, study) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let is_number = |text: &str, len| text.len() == len && text.bytes().all(|b| b.is_ascii_digit());
        (is_number(time, 6) && is_number(day, 8)).then_some(study)
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A cell's name within its study, stable over runs and safe as a file name: `randread_4k_performance`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellId(String);

impl CellId {
    /// From the names it is made of. Characters that do not belong in a file name become `-`.
    pub fn new<'a>(parts: impl IntoIterator<Item = &'a str>) -> Self {
        let clean = |c: char| if c.is_ascii_alphanumeric() || "-.".contains(c) { c } else { '-' };
        let parts: Vec<String> = parts.into_iter().map(|p| p.chars().map(clean).collect()).collect();
        Self(parts.join("_"))
    }

    /// From what [`CellId::as_str`] gave.
    pub fn from_stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CellId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which trial of a run: the block, the cell and the attempt, by which trials are ordered. It is also the
/// name of the trial's folder, so a trial is there once or not at all: `b03.randread_4k.a0`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TrialKey {
    /// From zero.
    pub block: u32,
    /// Which cell.
    pub cell: CellId,
    /// From zero; above it where earlier attempts were disturbed or failed.
    pub attempt: u32,
}

impl TrialKey {
    /// The first trial of a cell.
    pub fn first(cell: CellId) -> Self {
        Self { block: 0, cell, attempt: 0 }
    }

    /// The name of its folder: its text form.
    pub fn folder(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for TrialKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b{:02}.{}.a{}", self.block, self.cell, self.attempt)
    }
}

/// A text that names no trial.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no trial's name; they look like `b00.randread_4k.a0`, and `flyball export RUN` lists them")]
pub struct NoTrialKey(String);

impl FromStr for TrialKey {
    type Err = NoTrialKey;

    /// The key of such a folder. A name that would not be written so, such as `b3.x.a0`, is refused: two
    /// folders never name one trial.
    fn from_str(name: &str) -> Result<Self, NoTrialKey> {
        let parts = || {
            let (block, rest) = name.strip_prefix('b')?.split_once('.')?;
            let (cell, attempt) = rest.rsplit_once(".a")?;
            let (block, attempt) = (block.parse().ok()?, attempt.parse().ok()?);
            let key = Self { block, cell: CellId::from_stored(cell), attempt };
            (key.folder() == name).then_some(key)
        };
        parts().ok_or_else(|| NoTrialKey(name.to_owned()))
    }
}

/// What a word on a command line may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// The runs of a notebook, and their studies.
    Runs,
    /// Studies that ship, and files of the folder that one is in.
    Studies,
    /// Simulated machines that ship.
    Machines,
    /// Settings and sysctls of this machine.
    Settings,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_names_one_trial_and_a_foreign_one_none() {
        let key = TrialKey { block: 3, cell: CellId::new(["rand.read", "4k"]), attempt: 1 };
        assert_eq!(key.folder(), "b03.rand.read_4k.a1");
        assert_eq!(key.folder().parse(), Ok(key));
        for name in ["", "b3.x.a0", "b03.x.a00", "b03x.a0", "notes", "b03.x"] {
            assert_eq!(name.parse::<TrialKey>(), Err(NoTrialKey(name.to_owned())), "{name}");
        }
    }

    #[test]
    fn the_names_of_runs_differ_within_a_second_and_follow_time_from_second_to_second() {
        let begun = |nanos| RunId::begun("quick", Timestamp::from_unix_nanos(nanos));
        let (one, other, later) = (
            begun(1_795_186_516_000_000_000),
            begun(1_795_186_516_000_000_001),
            begun(1_795_186_517_000_000_000),
        );
        assert!(
            one.0.starts_with("quick-20261120-145516-") && one.0.len() == "quick-20261120-145516-7f3a".len()
        );
        assert_ne!(one, other);
        assert_eq!(one.study(), Some("quick"));
        assert_eq!(RunId::begun("a-b", Timestamp::default()).study(), Some("a-b"));
        assert_eq!(RunId("a-b".into()).study(), None);
        assert!(one.max(other) < later);
    }
}
