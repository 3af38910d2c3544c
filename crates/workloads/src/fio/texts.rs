//! fio's options whose values are texts of their own: words, splits of block sizes, distributions, bounds.
//!
//! A value is refused only where every fio of version 3 refuses it, and as fio refuses it: fio takes `4k/foo`
//! for a size without a share, and so is it taken here. A word that only a later fio knows is taken.
//!
//! Source: fio's `options.c` (`split_parse_ddir`, `bssplit_ddir`, `zone_split_ddir`,
//! `str_random_distribution_cb`, `str_steadystate_cb`, `str_ignore_error_cb`) and `parse.c` (`opt_len`,
//! `str_to_decimal`, `str_to_float`). `tests/fio_values.rs` holds this against the fio that is installed.

/// Options that take one of several words. What follows a colon or comma is not read here.
const WORDS: [(&str, &[&str]); 25] = [
    ("clocksource", &["gettimeofday", "clock_gettime", "cpu"]),
    ("continue_on_error", &["none", "read", "write", "io", "verify", "all", "0", "1"]),
    ("cpumode", &["noop", "qsort"]),
    ("cpus_allowed_policy", &["shared", "split"]),
    ("dedupe_mode", &["repeat", "working_set"]),
    ("fadvise_hint", &["0", "1", "random", "sequential", "noreuse"]),
    ("io_submit_mode", &["inline", "offload"]),
    ("iomem", MEMORY),
    ("kb_base", &["1024", "1000"]),
    ("mem", MEMORY),
    ("random_distribution", &["random", "zipf", "pareto", "normal", "zoned", "zoned_abs", "sequence"]),
    ("random_generator", &["tausworthe", "lfsr", "tausworthe64"]),
    ("rate_process", &["linear", "poisson"]),
    ("rw_sequencer", &["sequential", "identical"]),
    ("steadystate", &["iops", "iops_slope", "bw", "bw_slope", "lat", "lat_slope"]),
    ("sync", &["none", "0", "sync", "1", "dsync"]),
    ("sync_file_range", &["wait_before", "write", "wait_after"]),
    ("thinktime_blocks_type", &["complete", "issue"]),
    ("unified_rw_reporting", &["none", "mixed", "both", "0", "1", "2"]),
    ("unit_base", &["0", "8", "1"]),
    ("verify", CHECKSUMS),
    ("write_hint", &["none", "short", "medium", "long", "extreme"]),
    ("zonemode", &["none", "strided", "zbd"]),
    // They have no words, and are here so that one list names all options of this file.
    ("bssplit", &[]),
    ("ignore_error", &[]),
];

const MEMORY: &[&str] = &["malloc", "shm", "shmhuge", "mmap", "mmapshared", "mmaphuge", "cudamalloc"];

const CHECKSUMS: &[&str] = &[
    "0",
    "md5",
    "crc64",
    "crc32",
    "crc32c-intel",
    "crc32c",
    "crc16",
    "crc7",
    "sha1",
    "sha256",
    "sha512",
    "sha3-224",
    "sha3-256",
    "sha3-384",
    "sha3-512",
    "xxhash",
    "meta",
    "pattern",
    "pattern_hdr",
    "null",
];

/// The most entries that fio reads of a split (`BSSPLIT_MAX`). It leaves out what follows.
const MOST_SIZES: usize = 64;
/// The most entries that fio reads of a zoned distribution (`ZONESPLIT_MAX`).
const MOST_ZONES: usize = 256;

/// What to write instead, where every fio refuses this value; `None` where it may be taken, and for an option
/// whose values are no such text.
pub(super) fn problem(option: &str, value: &str) -> Option<String> {
    if matches!(option, "percentile_list" | "latency_percentile") {
        return (!is_percentile(value)).then(|| "write percentages such as `50:99:99.9`".to_owned());
    }
    let (_, words) = WORDS.iter().find(|(name, _)| *name == option)?;
    let word = &value[..value.find([':', ',']).unwrap_or(value.len())];
    if !words.is_empty() && !words.contains(&word) {
        return Some(format!("write one of `{}`", words.join("`, `")));
    }
    let rest = value.split_once(':').map(|(_, rest)| rest.trim());
    match option {
        "bssplit" => block_sizes(value),
        "ignore_error" => errors(value),
        "random_distribution" => distribution(word, rest),
        "steadystate" => threshold(word, rest),
        _ => None,
    }
}

/// `4k/60:8k/40`, once or for reads, writes and trims.
fn block_sizes(value: &str) -> Option<String> {
    const EXAMPLE: &str = "write sizes and their percentages such as `4k/60:8k/40`";
    if value.is_empty() {
        return Some(EXAMPLE.to_owned());
    }
    for direction in directions(value) {
        let mut known = 0;
        let mut unknown = 0;
        for (size, share) in entries(direction, MOST_SIZES) {
            if !reads_as_number(size) {
                return Some(EXAMPLE.to_owned());
            }
            match percentage(share) {
                Some(percent) => known += percent,
                None => unknown += 1,
            }
        }
        // A single size without a share gets what is left, also where that is nothing.
        if known > 100 && unknown > 1 {
            return Some(format!("write percentages of at most 100 together; these are {known}"));
        }
    }
    None
}

fn distribution(word: &str, rest: Option<&str>) -> Option<String> {
    match word {
        "zipf" => skewed(word, rest, "a theta other than 1, as in `zipf:1.2`", |theta| theta != 1.0),
        "pareto" => skewed(word, rest, "a number between 0 and 1, as in `pareto:0.2`", |power| {
            power > 0.0 && power < 1.0
        }),
        "normal" => skewed(word, rest, "a deviation from 0 to below 100, as in `normal:20`", |deviation| {
            (0.0..100.0).contains(&deviation)
        }),
        "zoned" => zones(word, rest, |share| Some(percentage(share).unwrap_or(0))),
        "zoned_abs" => zones(word, rest, |size| size.is_none_or(reads_as_number).then_some(0)),
        "sequence" => {
            let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            let is_right = rest.is_some_and(|rest| rest.split(',').all(|part| is_number(part.trim())));
            (!is_right).then(|| "write numbers, as in `sequence:0,8,4`".to_owned())
        }
        _ => None,
    }
}

/// A distribution with one number and, optionally, its centre.
fn skewed(word: &str, rest: Option<&str>, takes: &str, is_right: fn(f64) -> bool) -> Option<String> {
    let rest = rest?;
    let (number, centre) = match rest.split_once(':') {
        Some((number, centre)) => (number, Some(centre)),
        None => (rest, None),
    };
    if !leading_float(number).is_some_and(is_right) {
        return Some(format!("write {takes}"));
    }
    let is_in_range = |centre: f64| centre == -1.0 || (0.0..=1.0).contains(&centre);
    (!centre.is_none_or(|centre| leading_float(centre).is_some_and(is_in_range)))
        .then(|| format!("write a centre from 0 to 1 behind the second colon, as in `{word}:{number}:0.5`"))
}

/// `60/10:30/20:10/70`: shares of the requests, and how much of the target each of them goes to. `extent`
/// gives that as a percentage that counts; `None` where it is not read.
fn zones(word: &str, rest: Option<&str>, extent: fn(Option<&str>) -> Option<u32>) -> Option<String> {
    let example = match word {
        "zoned" => "zoned:60/10:30/20:10/70",
        _ => "zoned_abs:60/1g:40/9g",
    };
    let Some(rest) = rest else {
        return Some(format!("write shares of the requests and of the target, as in `{example}`"));
    };
    for direction in directions(rest) {
        let mut requests = 0;
        let mut target = 0;
        let mut is_clear = true;
        let mut is_empty = true;
        for (share, part) in entries(direction, MOST_ZONES) {
            is_empty = false;
            // A share with a unit is multiplied by it, and then cut to a byte.
            is_clear &= share.trim().parse::<i64>().is_ok();
            let read = leading_integer(share).zip(extent(part));
            let Some((share, percent)) = read else {
                return Some(format!("write shares of the requests and of the target, as in `{example}`"));
            };
            // fio keeps a share in a byte, in which all ones mean that none is given.
            let share = share as u8;
            requests += if share == u8::MAX { 0 } else { u32::from(share) };
            target += percent;
        }
        if is_clear && !is_empty && (requests != 100 || target > 100) {
            return Some(format!(
                "write shares of the requests that are 100 together, and of the target at most 100, as in `{example}`"
            ));
        }
    }
    None
}

/// What of a steady state lies behind the colon.
fn threshold(word: &str, rest: Option<&str>) -> Option<String> {
    let is_right = rest.is_some_and(|rest| match rest.split_once('%') {
        Some((percent, _)) => leading_float(percent).is_some(),
        None if word.starts_with("iops") => leading_float(rest).is_some(),
        None => reads_as_number(rest),
    });
    (!is_right).then(|| format!("write a bound behind a colon, as in `{word}:1%`"))
}

/// `EIO:28,ENOSPC`: for reads, writes and verification, names or numbers.
fn errors(value: &str) -> Option<String> {
    let mut types = value.split(',').map(str::trim);
    let is_error = |text: &str| match text.starts_with('E') {
        // fio's list of names grows with its versions; a name is a word in capitals.
        true => text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit()),
        false => leading_integer(text).is_some_and(|number| number != 0),
    };
    let is_right = |list: &str| list.split(':').take_while(|text| !text.is_empty()).all(is_error);
    let example = "as in `EIO:ENOSPC,28`";
    if types.clone().count() > 3 {
        return Some(format!("write at most three lists, for reads, writes and verification, {example}"));
    }
    (!types.all(is_right)).then(|| format!("write names of errors or their numbers, {example}"))
}

/// fio reads the first percentage with care, and says no more than a word about a later one.
fn is_percentile(value: &str) -> bool {
    leading_float(value).is_some_and(|percent| (0.0..=100.0).contains(&percent))
}

/// A text for each direction: split at the first two commas; what is behind `;` or `#` is a comment.
fn directions(value: &str) -> impl Iterator<Item = &str> {
    value.split([';', '#']).next().unwrap_or_default().trim().splitn(3, ',')
}

/// The entries of a split up to the first empty one, as far as fio reads them.
fn entries(direction: &str, most: usize) -> impl Iterator<Item = (&str, Option<&str>)> {
    direction.split(':').take_while(|entry| !entry.is_empty()).take(most).map(|entry| {
        match entry.split_once('/') {
            Some((size, share)) => (size, Some(share)),
            None => (entry, None),
        }
    })
}

/// A share in percent as fio reads it with `atoi(3)`: `None` where nothing or 0 is given.
fn percentage(share: Option<&str>) -> Option<u32> {
    match leading_integer(share?).unwrap_or(0) {
        0 => None,
        // fio keeps it in an unsigned number.
        number => Some(u32::try_from(number).unwrap_or(100).min(100)),
    }
}

/// Whether fio finds a number at the beginning; an expression in parentheses is fio's to read.
fn reads_as_number(text: &str) -> bool {
    text.starts_with('(') || leading_integer(text).is_some()
}

/// The number at the beginning, with k, m, g, t or p behind it, as of `str_to_decimal`. What fio makes of the
/// rest does not matter here.
fn leading_integer(text: &str) -> Option<i64> {
    let text = text.trim_start();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (radix, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(rest) => (16, rest),
        None => (10, digits),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    // `0x` alone is the number 0 and an `x`.
    if end == 0 {
        return (radix == 16).then_some(0);
    }
    Some(sign * i64::from_str_radix(&digits[..end], radix).unwrap_or(i64::MAX))
}

/// The number at the beginning, as `sscanf(3)` reads it.
fn leading_float(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let ends = text.char_indices().map(|(at, c)| at + c.len_utf8());
    ends.rev().find_map(|end| text[..end].parse().ok())
}

#[cfg(test)]
mod tests {
    use super::super::options;
    use super::*;

    #[test]
    fn each_option_of_the_list_may_be_set_and_is_there_once() {
        for (name, _) in WORDS {
            assert!(options::names().any(|known| known == name), "{name}");
            assert_eq!(WORDS.iter().filter(|(other, _)| *other == name).count(), 1, "{name}");
        }
    }

    #[test]
    fn a_refusal_says_what_to_write() {
        for (option, value, said) in [
            ("zonemode", "stride", "one of `none`, `strided`, `zbd`"),
            ("bssplit", "foo/40", "`4k/60:8k/40`"),
            ("bssplit", "4k/90:8k/90:1k:2k", "at most 100 together; these are 180"),
            ("random_distribution", "zipf:1", "a theta other than 1"),
            ("random_distribution", "zipf:1.2:5", "`zipf:1.2:0.5`"),
            ("random_distribution", "zoned:60/10:30/20", "100 together"),
            ("steadystate", "iops", "`iops:1%`"),
            ("ignore_error", "EIO,x", "`EIO:ENOSPC,28`"),
            ("percentile_list", "101", "`50:99:99.9`"),
        ] {
            let problem = problem(option, value).unwrap_or_else(|| panic!("{option} = {value} is taken"));
            assert!(problem.contains(said), "{problem}");
        }
    }

    #[test]
    fn no_text_makes_it_panic() {
        for option in WORDS.iter().map(|(name, _)| *name).chain(["percentile_list"]) {
            for value in [
                "",
                ":",
                ",",
                ",,",
                "ä:ä/ä,ä",
                "zipf:ä",
                "zoned:99999999999999999999/1",
                "-",
                "0x",
                "zoned:-1",
            ] {
                let _ = problem(option, value);
            }
        }
    }
}
