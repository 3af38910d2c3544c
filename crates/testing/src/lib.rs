//! What tests of all crates share: how much of a long one is run, and the lines that `cargo xtask test`
//! reads.
//!
//! A test that takes long by nature runs a part of its rounds, chosen by a seed, unless it is asked for the
//! whole. The lines, each at the start of a line of a test's output:
//!
//! ```text
//! skipped: REASON                          the test passes, and has shown nothing
//! skipped in part: REASON                  the rest of it was shown
//! promise ID: N tried, M broken; WORDS     a figure for docs/PROMISES.md
//! waited: S s                              so long another test had what this one needs
//! ```
//!
//! Only tests depend on this crate, and what runs them.
#![allow(clippy::print_stdout, reason = "the output of a test is how its figures reach the runner")]

mod crowd;
mod quiet;

pub use crowd::Crowd;
pub use quiet::{HostLoad, on_a_quiet_host, with_load};

use std::fmt::Display;
use std::path::Path;
use std::time::{Duration, SystemTime};
use std::{fs, io};

/// Set to anything but `0`, every test runs the whole of its rounds.
pub const WHOLE: &str = "FLYBALL_TEST_WHOLE";
/// The seed that chooses the part of a test that is run. Without it the date chooses.
pub const SEED: &str = "FLYBALL_TEST_SEED";
/// How many rounds are run, whatever a test's own numbers are. It is meant for a run of one test.
pub const COUNT: &str = "FLYBALL_TEST_COUNT";

/// How much of a long test is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How many rounds.
    pub count: u64,
    /// What chooses them.
    pub seed: u64,
}

impl Extent {
    /// The extent of a test that runs `part` rounds by default, and has `whole` of them. Says both, and the
    /// seed.
    ///
    /// # Panics
    /// Where a variable of the environment is no number.
    pub fn of(part: u64, whole: u64) -> Self {
        let extent = Self::of_environment(part, whole);
        println!("{} of {whole} rounds; this very part again: {SEED}={}", extent.count, extent.seed);
        extent
    }

    /// The same without a word.
    ///
    /// # Panics
    /// Where a variable of the environment is no number.
    pub fn of_environment(part: u64, whole: u64) -> Self {
        let days = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs() / 86_400;
        Self::chosen(part, whole, days, &|name| std::env::var(name).ok())
    }

    fn chosen(part: u64, whole: u64, days: u64, variable: &dyn Fn(&str) -> Option<String>) -> Self {
        let number = |name: &str| {
            let text = variable(name)?;
            Some(text.parse().unwrap_or_else(|error| panic!("cannot read {name} `{text}`: {error}")))
        };
        let is_whole = variable(WHOLE).is_some_and(|value| asks_for_the_whole(&value));
        let count = number(COUNT).unwrap_or(if is_whole { whole } else { part });
        Self { count, seed: number(SEED).unwrap_or(days) }
    }
}

/// Whether a long test that runs beside others has its turn: a run has one of four parts, of six minutes
/// each.
///
/// # Panics
/// Where a variable of the environment is no number.
pub fn is_long_in_turn(part: u64) -> bool {
    is_in_turn(part, 4)
}

/// Whether a long test that measures, and so runs alone, has its turn: a run has one of nine parts, of five
/// minutes each at most. Both numbers of parts have no common divisor, so that each part meets each of the
/// others.
///
/// # Panics
/// Where a variable of the environment is no number.
pub fn is_measured_in_turn(part: u64) -> bool {
    is_in_turn(part, 9)
}

/// Whether it is a test's turn. Of `of` parts, numbered from 0, each run has one: that which follows on the
/// one that the seed before had. Says, as of a skipped test, where another run has its turn.
///
/// # Panics
/// Where a variable of the environment is no number.
pub fn is_in_turn(part: u64, of: u64) -> bool {
    // Rounds are counted for a test that is run by itself.
    let is_asked_for = std::env::var_os(COUNT).is_some();
    let is_in_turn = is_asked_for || has_turn(part, Extent::of_environment(1, of), of);
    if !is_in_turn {
        skip(format!("another run has its turn: 1 of {of} parts in each; {COUNT}=1 runs it now"));
    }
    is_in_turn
}

/// Seeds come in pairs, for [`Extent`]'s other users take a kernel of two by them.
fn has_turn(part: u64, extent: Extent, of: u64) -> bool {
    let first = (extent.seed / 2).wrapping_mul(extent.count) % of;
    (part + of - first) % of < extent.count
}

/// Whether every test is to run the whole of its rounds.
pub fn is_whole() -> bool {
    std::env::var(WHOLE).is_ok_and(|value| asks_for_the_whole(&value))
}

fn asks_for_the_whole(value: &str) -> bool {
    !value.is_empty() && value != "0"
}

/// Copies a folder with all that is in it: opening a notebook makes its index, and a fixture stays as it is.
///
/// # Panics
/// Where anything cannot be read or written.
pub fn copy_folder(from: &Path, to: &Path) {
    let copied = copy_all(from, to);
    copied.unwrap_or_else(|error| panic!("cannot copy {} to {}: {error}", from.display(), to.display()));
}

fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_all(&path, &target)?;
        } else {
            fs::copy(&path, &target)?;
        }
    }
    Ok(())
}

/// Says that a test shows nothing here, and why.
pub fn skip(reason: impl Display) {
    println!("skipped: {reason}");
}

/// Says that a test shows only a part of what it is for, and why.
pub fn skip_in_part(reason: impl Display) {
    println!("skipped in part: {reason}");
}

/// Says a promise's figure. A test that ends here has found none broken: it fails otherwise.
pub fn promise(id: &str, tried: impl Display, words: impl Display) {
    println!("promise {id}: {tried} tried, 0 broken; {words}");
}

/// Says how long a test waited until another had ended: its own time is the shorter by that.
pub fn waited(span: Duration) {
    if span >= Duration::from_millis(10) {
        println!("waited: {:.3} s", span.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::{COUNT, Extent, SEED, WHOLE, has_turn};

    fn chosen(variables: &[(&str, &str)]) -> (u64, u64) {
        let variable =
            |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned());
        let Extent { count, seed } = Extent::chosen(120, 840, 20_000, &variable);
        (count, seed)
    }

    #[test]
    fn a_part_is_run_unless_the_whole_or_a_count_is_asked_for() {
        assert_eq!(chosen(&[]), (120, 20_000));
        assert_eq!(chosen(&[(WHOLE, "0"), (SEED, "7")]), (120, 7));
        assert_eq!(chosen(&[(WHOLE, "1")]), (840, 20_000));
        assert_eq!(chosen(&[(WHOLE, "1"), (COUNT, "5")]), (5, 20_000));
    }

    #[test]
    #[should_panic(expected = "cannot read FLYBALL_TEST_COUNT `many`")]
    fn a_count_that_is_no_number_is_no_count() {
        chosen(&[(COUNT, "many")]);
    }

    #[test]
    fn each_test_has_its_turn_and_as_many_as_asked_for_have_it_at_once() {
        for of in 1..9_u64 {
            for count in 1..=of {
                let turns = |seed| {
                    let extent = Extent { count, seed };
                    (0..of).filter(|number| has_turn(*number, extent, of)).collect::<Vec<u64>>()
                };
                assert!((0..40).all(|seed| turns(seed).len() as u64 == count));
                assert_eq!(turns(6), turns(7));
                let mut all: Vec<u64> = (0..of.div_ceil(count)).flat_map(|pair| turns(2 * pair)).collect();
                all.sort_unstable();
                all.dedup();
                assert_eq!(all.len() as u64, of, "{count} of {of}");
            }
        }
    }
}
