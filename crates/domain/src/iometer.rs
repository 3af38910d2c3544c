//! IOMeter's access patterns, as options of fio.
//!
//! Sources: the patterns that IOMeter makes by itself (`InsertDefaultSpecs` of its `AccessSpecList.cpp`, 2004
//! and 2006), whose names say all: `4 KiB; 75% Read; 0% random`. `Default` is the pattern that it begins with
//! (2 KiB, 67% read, all random). `All in one` is the twenty of 512 B, 4, 16 and 32 KiB with 100, 75, 50, 25
//! and 0% read, each as often. `File server`, `Web server`, `Database` and `Workstation` are those that Intel
//! gave out with it and StorageReview's tests made common.
//!
//! IOMeter reads and writes past the cache; so does fio here. One thing differs: where reads and writes are
//! mixed and not random, IOMeter has one position for both, and fio one for each.

use std::collections::BTreeMap;

/// The option of a workload of fio that names a pattern.
pub const OPTION: &str = "pattern";

/// The patterns with a name of their own.
pub const NAMES: [&str; 6] =
    ["Default", "All in one", "Database", "File server", "Web server", "Workstation"];

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// Sizes in bytes, and which share of all each has, in percent.
    sizes: Vec<(u64, u8)>,
    /// Percent of all that are reads.
    read: u8,
    /// Percent of all that are random.
    random: u8,
}

const KIB: u64 = 1024;

impl Pattern {
    /// The pattern of this name.
    pub fn parse(name: &str) -> Option<Self> {
        let of = |sizes: &[(u64, u8)], read, random| Some(Self { sizes: sizes.to_vec(), read, random });
        match name {
            "Default" => of(&[(2 * KIB, 100)], 67, 100),
            "All in one" => of(&[(512, 25), (4 * KIB, 25), (16 * KIB, 25), (32 * KIB, 25)], 50, 0),
            "Database" => of(&[(8 * KIB, 100)], 67, 100),
            "Workstation" => of(&[(8 * KIB, 100)], 80, 80),
            "File server" => of(&FILE_SERVER, 80, 100),
            "Web server" => of(&WEB_SERVER, 100, 100),
            _ => Self::by_its_words(name),
        }
    }

    /// `16 KiB; 100% Read; 0% random`, `4 KiB aligned; 0% Read; 100% random`: fio is always aligned to its
    /// size.
    fn by_its_words(name: &str) -> Option<Self> {
        let mut parts = name.split("; ");
        let (size, read, random) = (parts.next()?, parts.next()?, parts.next()?);
        let size = size.strip_suffix(" aligned").unwrap_or(size);
        let (number, unit) = size.split_once(' ')?;
        let scale = match unit {
            "B" => 1,
            "KiB" => KIB,
            "MiB" => KIB * KIB,
            _ => return None,
        };
        let bytes = number.parse::<u64>().ok()?.checked_mul(scale)?;
        let is_possible = bytes.is_multiple_of(512) && (512..=64 * KIB * KIB).contains(&bytes);
        let percent = |text: &str, word: &str| {
            let number = text.strip_suffix(word)?.parse::<u8>().ok()?;
            (number <= 100).then_some(number)
        };
        let (read, random) = (percent(read, "% Read")?, percent(random, "% random")?);
        (is_possible && parts.next().is_none()).then(|| Self { sizes: vec![(bytes, 100)], read, random })
    }

    /// As fio has it. How many are in flight at a time, and how long it takes, is not part of a pattern.
    pub fn options(&self) -> BTreeMap<String, String> {
        let mut options = BTreeMap::new();
        let mut put = |name: &str, value: String| drop(options.insert(name.to_owned(), value));
        let direction = match self.read {
            100 => "read",
            0 => "write",
            _ => "rw",
        };
        put("rw", if self.random > 0 { format!("rand{direction}") } else { direction.to_owned() });
        if !matches!(self.read, 0 | 100) {
            put("rwmixread", self.read.to_string());
        }
        if !matches!(self.random, 0 | 100) {
            put("percentage_random", self.random.to_string());
        }
        match self.sizes[..] {
            [(size, _)] => put("bs", size.to_string()),
            _ => {
                let each = self.sizes.iter().map(|(size, share)| format!("{size}/{share}"));
                put("bssplit", each.collect::<Vec<String>>().join(":"));
            }
        }
        put("direct", "1".into());
        put("ioengine", "libaio".into());
        options
    }
}

const FILE_SERVER: [(u64, u8); 8] = [
    (512, 10),
    (KIB, 5),
    (2 * KIB, 5),
    (4 * KIB, 60),
    (8 * KIB, 2),
    (16 * KIB, 4),
    (32 * KIB, 4),
    (64 * KIB, 10),
];

const WEB_SERVER: [(u64, u8); 10] = [
    (512, 22),
    (KIB, 15),
    (2 * KIB, 8),
    (4 * KIB, 23),
    (8 * KIB, 15),
    (16 * KIB, 2),
    (32 * KIB, 6),
    (64 * KIB, 7),
    (128 * KIB, 1),
    (512 * KIB, 1),
];

/// Puts a pattern's options in the place of its name; what a workload says itself stays. A name that is none
/// stays too, and is refused by whoever reads the options.
pub fn expand(options: &mut BTreeMap<String, String>) {
    let Some(pattern) = options.get(OPTION).and_then(|name| Pattern::parse(name)) else { return };
    options.remove(OPTION);
    for (name, value) in pattern.options() {
        options.entry(name).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(name: &str) -> String {
        let options = Pattern::parse(name).unwrap().options();
        options.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn patterns_are_fios_options() {
        assert_eq!(shown("512 B; 100% Read; 0% random"), "bs=512 direct=1 ioengine=libaio rw=read");
        assert_eq!(
            shown("4 KiB; 75% Read; 0% random"),
            "bs=4096 direct=1 ioengine=libaio rw=rw rwmixread=75"
        );
        assert_eq!(
            shown("4 KiB aligned; 0% Read; 100% random"),
            "bs=4096 direct=1 ioengine=libaio rw=randwrite"
        );
        assert_eq!(
            shown("Workstation"),
            "bs=8192 direct=1 ioengine=libaio percentage_random=80 rw=randrw rwmixread=80"
        );
        assert_eq!(
            shown("File server"),
            "bssplit=512/10:1024/5:2048/5:4096/60:8192/2:16384/4:32768/4:65536/10 direct=1 ioengine=libaio rw=randrw rwmixread=80"
        );
    }

    #[test]
    fn shares_make_a_whole() {
        for name in NAMES {
            let sum: u32 =
                Pattern::parse(name).unwrap().sizes.iter().map(|(_, share)| u32::from(*share)).sum();
            assert_eq!(sum, 100, "{name}");
        }
    }

    #[test]
    fn other_words_are_no_pattern() {
        for name in
            ["", "database", "4 KiB; 101% Read; 0% random", "5 B; 0% Read; 0% random", "4 KiB; 0% Read"]
        {
            assert_eq!(Pattern::parse(name), None, "{name}");
        }
    }

    #[test]
    fn what_a_workload_says_itself_stays() {
        let mut options =
            BTreeMap::from([(OPTION.to_owned(), "Database".to_owned()), ("direct".into(), "0".into())]);
        expand(&mut options);
        assert_eq!((options["direct"].as_str(), options["bs"].as_str()), ("0", "8192"));
        assert!(!options.contains_key(OPTION));
    }
}
