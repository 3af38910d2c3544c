//! Bonnie's load as a study says it: files that are written, rewritten and read from end to end, then read
//! here and there.
//!
//! Two programs of that name do nearly the same in another order. `bonnie-1` is Bonnie 1.x (T. Bray; A.
//! Garloff's 1.2 with several files, "volumes"); `bonnie++` is bonnie++ 2.00 (R. Coker), whose options these
//! are by meaning. It stands here, and not with the readers of studies, because three read it: whoever checks
//! a study, whoever runs bonnie++, and the simulation.
//!
//! | | `bonnie-1` | `bonnie++` |
//! |---|---|---|
//! | phases in order | characters, rewrite, blocks; then reads of both kinds, seeks | characters, blocks, rewrite; then the same |
//! | a character | one of stdio, which writes and reads 4 KiB | one system call |
//! | characters in all | the whole set | 3 MiB |
//! | a file is flushed when it is closed | no | yes, and that counts |
//! | a seek reads | 4 KiB of the first file | a chunk of the set |

use crate::options::{OptionError, truth};
use domain::outcome::Better;
use domain::units::{Bytes, Unit};
use std::collections::BTreeMap;

/// The options that a study may set.
pub const OPTIONS: [&str; 8] =
    ["size", "file_size", "ram", "chunk", "seeks", "seekers", "per_char", "flavour"];

/// What a run reports: name, unit, which way is good.
///
/// A phase's `cpu_…` is the CPU time of bonnie's own processes (user and system, `getrusage(2)`) over the
/// phase's time: a share of one CPU. `elapsed` is all of the run.
pub const METRICS: [(&str, Unit, Better); 13] = [
    ("per_char_write", Unit::BytesPerSecond, Better::Higher),
    ("block_write", Unit::BytesPerSecond, Better::Higher),
    ("rewrite", Unit::BytesPerSecond, Better::Higher),
    ("per_char_read", Unit::BytesPerSecond, Better::Higher),
    ("block_read", Unit::BytesPerSecond, Better::Higher),
    ("seeks", Unit::PerSecond, Better::Higher),
    ("cpu_per_char_write", Unit::Share, Better::Lower),
    ("cpu_block_write", Unit::Share, Better::Lower),
    ("cpu_rewrite", Unit::Share, Better::Lower),
    ("cpu_per_char_read", Unit::Share, Better::Lower),
    ("cpu_block_read", Unit::Share, Better::Lower),
    ("cpu_seeks", Unit::Share, Better::Lower),
    ("elapsed", Unit::Seconds, Better::Lower),
];

/// One phase; all of them but the last move bytes from end to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Writes new files a character at a time.
    PerCharWrite,
    /// Reads each block, goes back, and writes it.
    Rewrite,
    /// Writes new files a block at a time.
    BlockWrite,
    /// Reads a character at a time.
    PerCharRead,
    /// Reads a block at a time.
    BlockRead,
    /// Several processes read blocks at random, and write one in ten of them back.
    Seeks,
}

impl Phase {
    /// The name of what it reports; with `cpu_` before it, of its CPU time.
    pub const fn metric(self) -> &'static str {
        match self {
            Self::PerCharWrite => "per_char_write",
            Self::Rewrite => "rewrite",
            Self::BlockWrite => "block_write",
            Self::PerCharRead => "per_char_read",
            Self::BlockRead => "block_read",
            Self::Seeks => "seeks",
        }
    }
}

/// Which program is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// Bonnie 1.x.
    Bonnie1,
    /// bonnie++ 2.00.
    BonniePlusPlus,
}

impl Flavour {
    /// As a study has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bonnie1 => "bonnie-1",
            Self::BonniePlusPlus => "bonnie++",
        }
    }

    /// Both.
    pub const ALL: [Self; 2] = [Self::BonniePlusPlus, Self::Bonnie1];
}

/// A whole load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bonnie {
    /// Which program.
    pub flavour: Flavour,
    /// All files together; none: twice the memory, as bonnie++ has it.
    pub size: Option<Bytes>,
    /// Each file at most; none: one file.
    pub file_size: Option<Bytes>,
    /// The memory that the program takes the machine to have; none: what it has. Zero: it does not look.
    pub ram: Option<Bytes>,
    /// What is read or written at a time.
    pub chunk: Bytes,
    /// How many seeks, over all processes.
    pub seeks: u32,
    /// How many processes seek.
    pub seekers: u32,
    /// Whether characters are written and read one at a time too.
    pub per_char: bool,
}

/// Bounds. A chunk is as bonnie++ bounds it; a file set larger than any disk of today takes days.
const MIN_CHUNK: Bytes = Bytes::new(256);
const MAX_CHUNK: Bytes = Bytes::from_mib(1);
const MAX_SIZE: Bytes = Bytes::from_mib(1 << 24);
const MAX_SEEKS: u64 = 10_000_000;
const MAX_SEEKERS: u64 = 256;
/// bonnie++ counts in MiB.
const UNIT: Bytes = Bytes::from_mib(1);

/// Says what is wrong with one option alone.
///
/// # Errors
/// [`OptionError`], whose problem reads on from the option's name.
pub fn check(option: &str, value: &str) -> Result<(), OptionError> {
    let checked = match option {
        "size" | "file_size" => size(value, UNIT).map(drop),
        "ram" => size(value, Bytes::new(0)).map(drop),
        "chunk" => chunk(value).map(drop),
        "seeks" => number(value, MAX_SEEKS).map(drop),
        "seekers" => number(value, MAX_SEEKERS).map(drop),
        "per_char" => truth(value).map(drop),
        "flavour" => flavour(value).map(drop),
        _ => return Err(OptionError::unknown(option, "bonnie")),
    };
    checked.map_err(|problem| OptionError::wrong(option, problem))
}

impl Bonnie {
    /// Reads a workload's options.
    ///
    /// # Errors
    /// As [`check`]; and where the set is smaller than twice the memory that was named, as bonnie++ refuses
    /// it, or a file is larger than the set.
    pub fn parse(options: &BTreeMap<String, String>) -> Result<Self, OptionError> {
        for (option, value) in options {
            check(option, value)?;
        }
        let given = |option: &str| options.get(option).map(String::as_str);
        let flavour = given("flavour").and_then(|f| flavour(f).ok()).unwrap_or(Flavour::BonniePlusPlus);
        let bytes = |option: &str| given(option).and_then(Bytes::parse);
        let count = |option: &str, default: u32| {
            given(option).and_then(|text| text.parse::<u32>().ok()).unwrap_or(default)
        };
        let (kib, seeks, seekers) = match flavour {
            Flavour::Bonnie1 => (16, 4_000, 3),
            Flavour::BonniePlusPlus => (8, 8_192, 5),
        };
        let load = Self {
            flavour,
            size: bytes("size"),
            file_size: bytes("file_size"),
            ram: bytes("ram"),
            chunk: bytes("chunk").unwrap_or(Bytes::from_kib(kib)),
            seeks: count("seeks", seeks),
            seekers: count("seekers", seekers),
            per_char: given("per_char").is_none_or(|text| truth(text) == Ok(true)),
        };
        load.checked()
    }

    fn checked(self) -> Result<Self, OptionError> {
        let Some(size) = self.size else {
            let alone = self.file_size.map(|_| "needs a `size` that it is a part of; add one");
            return alone.map_or(Ok(self), |problem| Err(OptionError::wrong("file_size", problem)));
        };
        if let Some(ram) = self.ram.filter(|ram| size.get() < 2 * ram.get()) {
            let problem = format!(
                "is {size}, less than twice the memory of {ram}, so that much of it would stay in memory; make it larger, or `ram` \
                 smaller (0: it is not looked at)"
            );
            return Err(OptionError::wrong("size", problem));
        }
        if let Some(file) = self.file_size.filter(|file| file.get() > size.get()) {
            let problem = format!("is {file}, more than the {size} of all files together");
            return Err(OptionError::wrong("file_size", problem));
        }
        Ok(self)
    }

    /// All files together on a machine of so much memory.
    pub fn total(&self, memory: Bytes) -> Bytes {
        self.size.unwrap_or_else(|| {
            let twice = self.ram.filter(|ram| ram.get() > 0).unwrap_or(memory).get() * 2;
            Bytes::new(twice.next_multiple_of(UNIT.get()))
        })
    }

    /// What is done, in order. Without characters, blocks are written first: there would be nothing to
    /// rewrite.
    pub fn phases(&self) -> Vec<Phase> {
        use Phase::{BlockRead, BlockWrite, PerCharRead, PerCharWrite, Rewrite, Seeks};
        let all = match self.flavour {
            Flavour::Bonnie1 if self.per_char => {
                [PerCharWrite, Rewrite, BlockWrite, PerCharRead, BlockRead, Seeks]
            }
            _ => [PerCharWrite, BlockWrite, Rewrite, PerCharRead, BlockRead, Seeks],
        };
        let by_char = |phase: &Phase| matches!(phase, PerCharWrite | PerCharRead);
        all.into_iter().filter(|phase| self.per_char || !by_char(phase)).collect()
    }
}

fn size(text: &str, least: Bytes) -> Result<Bytes, String> {
    let size = Bytes::parse(text).filter(|size| (least..=MAX_SIZE).contains(size));
    size.filter(|size| size.get().is_multiple_of(UNIT.get())).ok_or_else(|| {
        format!("is `{text}`; write whole MiB, such as `\"1000MiB\"`, from {least} to {MAX_SIZE}")
    })
}

fn chunk(text: &str) -> Result<Bytes, String> {
    let chunk = Bytes::parse(text).filter(|chunk| (MIN_CHUNK..=MAX_CHUNK).contains(chunk));
    chunk.filter(|chunk| chunk.get().is_power_of_two()).ok_or_else(|| {
        format!("is `{text}`; write a power of two such as `\"8k\"`, from {MIN_CHUNK} to {MAX_CHUNK}")
    })
}

fn number(text: &str, most: u64) -> Result<u64, String> {
    let number = text.parse::<u64>().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| format!("is `{text}`; write a whole number from 1 to {most}"))
}

fn flavour(text: &str) -> Result<Flavour, String> {
    let names = || Flavour::ALL.map(Flavour::name).join("`, `");
    let known = Flavour::ALL.into_iter().find(|flavour| flavour.name() == text);
    known.ok_or_else(|| format!("is `{text}`; write one of `{}`", names()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(options: &[(&str, &str)]) -> Result<Bonnie, String> {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Bonnie::parse(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_left_out_is_as_each_program_has_it() {
        let load = parsed(&[]).unwrap();
        let expected = Bonnie {
            flavour: Flavour::BonniePlusPlus,
            size: None,
            file_size: None,
            ram: None,
            chunk: Bytes::from_kib(8),
            seeks: 8192,
            seekers: 5,
            per_char: true,
        };
        assert_eq!(load, expected);
        assert_eq!(load.total(Bytes::from_mib(512)), Bytes::from_mib(1024));
        let old = parsed(&[("flavour", "bonnie-1"), ("size", "10000MiB"), ("file_size", "1000MiB")]).unwrap();
        assert_eq!((old.chunk, old.seeks, old.seekers), (Bytes::from_kib(16), 4000, 3));
        assert_eq!(old.total(Bytes::from_mib(512)), Bytes::from_mib(10_000));
    }

    #[test]
    fn the_programs_differ_in_what_comes_second() {
        let of = |flavour| parsed(&[("flavour", flavour)]).unwrap().phases();
        assert_eq!(of("bonnie-1")[1..3], [Phase::Rewrite, Phase::BlockWrite]);
        assert_eq!(of("bonnie++")[1..3], [Phase::BlockWrite, Phase::Rewrite]);
        let fast = parsed(&[("per_char", "false")]).unwrap().phases();
        assert_eq!(fast, [Phase::BlockWrite, Phase::Rewrite, Phase::BlockRead, Phase::Seeks]);
    }

    #[test]
    fn each_phase_has_its_metrics() {
        for phase in parsed(&[]).unwrap().phases() {
            let names = [phase.metric().to_owned(), format!("cpu_{}", phase.metric())];
            assert!(names.iter().all(|name| METRICS.iter().any(|(known, ..)| known == name)), "{names:?}");
        }
    }

    #[test]
    fn each_option_is_known_and_odd_values_are_told() {
        for option in OPTIONS {
            let error = check(option, "?").unwrap_err();
            assert!(!error.unknown && error.problem.starts_with("is `?`; write "), "{error}");
        }
        assert!(check("user", "root").unwrap_err().unknown);
        for (option, value) in [
            ("size", "0"),
            ("size", "1500k"),
            ("chunk", "12k"),
            ("chunk", "128"),
            ("seeks", "0"),
            ("seekers", "1000"),
            ("per_char", "yes"),
            ("flavour", "bonnie"),
        ] {
            assert!(check(option, value).is_err(), "{option} = {value}");
        }
    }

    #[test]
    fn a_set_that_stays_in_memory_is_refused_where_the_memory_is_named() {
        let told = |options: &[(&str, &str)]| parsed(options).unwrap_err();
        assert!(
            told(&[("size", "1000MiB"), ("ram", "512MiB")])
                .starts_with("`size` is 1000 MiB, less than twice")
        );
        assert!(parsed(&[("size", "1000MiB"), ("ram", "0")]).is_ok());
        assert!(told(&[("file_size", "1000MiB")]).starts_with("`file_size` needs a `size`"));
        assert!(told(&[("size", "8MiB"), ("file_size", "16MiB")]).starts_with("`file_size` is 16"));
    }
}
