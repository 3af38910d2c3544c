//! dm-integrity, by integritysetup(8).

use super::{Step, Target};
use crate::Machine;
use crate::stack::commands::{Argv, argv};
use crate::stack::layer::Program;
use crate::stack::verify::{Check, Shown};
use crate::stack::{Device, Error};
use domain::stack::{Integrity, IntegrityMode};
use domain::time::Nanos;
use std::collections::BTreeMap;
use std::time::Duration;

pub(in crate::stack) const PROGRAMS: &[Program] = &[
    Program::of("integritysetup", "cryptsetup-bin"),
    Program::of("dmsetup", "dmsetup"),
    Program::of("blkdiscard", "util-linux"),
];

impl Target for Integrity {
    fn module(&self) -> &'static str {
        "dm-integrity"
    }

    /// A sector whose tag was never written cannot be read, so that every sector is written once.
    /// `integritysetup format` would do that itself. It is told not to, for a superblock without our UUID is
    /// nobody's: the whole of a large disk would be written before it could get one. The zeros go past the
    /// journal, so that none of them is left in it for a trial.
    fn steps(&self, device: &str, name: &str, _uuid: &str) -> Vec<Step> {
        let mapped = format!("/dev/mapper/{name}");
        let zeros = argv(["blkdiscard", "--force", "--zeroout", "--step", PIECE], [mapped]);
        let direct = Self { mode: IntegrityMode::Direct, ..self.clone() };
        let mut steps = vec![
            Step::Run("make the superblock of dm-integrity", format(self, device)),
            Step::Mark,
            Step::Run("open the device of dm-integrity", open(&direct, device, name)),
            Step::Run("write the first tags of dm-integrity", zeros),
        ];
        if self.mode != IntegrityMode::Direct {
            let close = argv(["integritysetup", "close", name], []);
            steps.push(Step::Run("close the device of dm-integrity", close));
            steps.push(Step::Run("open the device of dm-integrity", open(self, device, name)));
        }
        steps
    }

    fn verify(&self, machine: &dyn Machine, layer: &str, device: &Device) -> Result<Shown, Error> {
        let output = machine
            .run(&["dmsetup", "table", &device.path], Duration::from_secs(30))
            .map_err(|source| Error::File { what: "read back", path: device.path.clone(), source })?;
        check(self, layer, &String::from_utf8_lossy(&output.stdout))
    }
}

/// How much is written between two looks at whether to go on: older kernels write it all before they let the
/// program be killed.
const PIECE: &str = "67108864";

fn format(integrity: &Integrity, device: &str) -> Argv {
    let Integrity { algorithm, tag_size, sector_size, interleave_sectors, journal_size, .. } = integrity;
    let mut all = argv(
        ["integritysetup", "format", "--batch-mode", "--no-wipe", "--integrity", algorithm.name()],
        ["--tag-size".to_owned(), tag_size.to_string(), "--sector-size".to_owned(), sector_size.to_string()],
    );
    all.extend(options([
        ("--interleave-sectors", interleave_sectors.map(u64::from)),
        ("--journal-size", journal_size.map(|size| size.get())),
    ]));
    all.push(device.to_owned());
    all
}

fn open(integrity: &Integrity, device: &str, name: &str) -> Argv {
    let mut all =
        argv(["integritysetup", "open", "--batch-mode", "--integrity", integrity.algorithm.name()], []);
    match integrity.mode {
        IntegrityMode::Journal => all.extend(options([
            ("--journal-watermark", integrity.journal_watermark.map(u64::from)),
            ("--journal-commit-time", integrity.journal_commit_time.map(millis)),
        ])),
        IntegrityMode::Bitmap => {
            all.push("--integrity-bitmap-mode".into());
            all.extend(options([
                ("--bitmap-sectors-per-bit", integrity.bitmap_sectors_per_bit.map(u64::from)),
                ("--bitmap-flush-time", integrity.bitmap_flush_time.map(millis)),
            ]));
        }
        IntegrityMode::Direct => all.push("--integrity-no-journal".into()),
    }
    all.extend([device.to_owned(), name.to_owned()]);
    all
}

fn options(all: [(&str, Option<u64>); 2]) -> Argv {
    let given = all.into_iter().filter_map(|(option, value)| Some((option, value?)));
    given.flat_map(|(option, value)| [option.to_owned(), value.to_string()]).collect()
}

fn millis(time: Nanos) -> u64 {
    time.get().div_ceil(1_000_000)
}

/// `0 LENGTH integrity DEVICE START TAG-SIZE MODE COUNT NAME:VALUE …` (`dm-integrity.c`:
/// `dm_integrity_status`).
fn check(integrity: &Integrity, layer: &str, table: &str) -> Result<Shown, Error> {
    let words: Vec<&str> = table.split_whitespace().collect();
    let word = |at: usize| words.get(at).copied();
    let check = Check { layer };
    check.same("target", "integrity", word(2))?;
    check.same("tag_size", &integrity.tag_size.to_string(), word(5))?;
    check.same("mode", letter(integrity.mode), word(6))?;
    let shown: BTreeMap<&str, &str> = words.iter().skip(8).filter_map(|word| word.split_once(':')).collect();
    let got = |name: &str| shown.get(name).copied();
    check.same("algorithm", integrity.algorithm.name(), got("internal_hash"))?;
    check.same("sector_size", &integrity.sector_size.to_string(), got("block_size").or(Some("512")))?;
    for (what, asked, name) in [
        ("interleave_sectors", integrity.interleave_sectors.map(u64::from), "interleave_sectors"),
        ("journal_commit_time", integrity.journal_commit_time.map(millis), "commit_time"),
        ("bitmap_sectors_per_bit", integrity.bitmap_sectors_per_bit.map(u64::from), "sectors_per_bit"),
    ] {
        near(&check, what, asked, got(name), 0..=0)?;
    }
    // The kernel keeps a number of entries and shows it in percent; it rounds to ticks, and down to whole
    // sections.
    near(
        &check,
        "journal_watermark",
        integrity.journal_watermark.map(u64::from),
        got("journal_watermark"),
        -1..=1,
    )?;
    let flush_time = integrity.bitmap_flush_time.map(millis);
    near(&check, "bitmap_flush_time", flush_time, got("bitmap_flush_interval"), 0..=LONGEST_TICK_MS)?;
    let sectors = integrity.journal_size.map(|size| size.get() >> 9);
    let section = sectors.map_or(0, |sectors| sectors.cast_signed() / 2);
    near(&check, "journal_size", sectors, got("journal_sectors"), -section..=0)?;
    let Integrity { algorithm, tag_size, sector_size, mode, .. } = integrity;
    let mut all = format!(
        "{} {}, tags of {tag_size} bytes, sectors of {sector_size} bytes",
        mode.name(),
        algorithm.name()
    );
    for name in TOLD {
        got(name).into_iter().for_each(|value| all.push_str(&format!(", {name} {value}")));
    }
    Ok(all)
}

/// What a trial says of its layer besides, as far as its mode has it.
const TOLD: [&str; 6] = [
    "interleave_sectors",
    "journal_sectors",
    "journal_watermark",
    "commit_time",
    "sectors_per_bit",
    "bitmap_flush_interval",
];

/// With 100 ticks a second.
const LONGEST_TICK_MS: i64 = 10;

/// Whether a number is what was asked for, or differs from it by what the kernel rounds.
fn near(
    check: &Check<'_>,
    what: &str,
    asked: Option<u64>,
    got: Option<&str>,
    rounding: std::ops::RangeInclusive<i64>,
) -> Result<(), Error> {
    let Some(asked) = asked else { return Ok(()) };
    let number: Option<u64> = got.and_then(|got| got.parse().ok());
    if number.is_some_and(|number| rounding.contains(&number.wrapping_sub(asked).cast_signed())) {
        return Ok(());
    }
    check.same(what, &asked.to_string(), got)
}

/// As the kernel's table names it.
fn letter(mode: IntegrityMode) -> &'static str {
    match mode {
        IntegrityMode::Journal => "J",
        IntegrityMode::Bitmap => "B",
        IntegrityMode::Direct => "D",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::stack::TagAlgorithm;
    use domain::units::Bytes;

    /// With the keys of its mode, as reading a study leaves them.
    fn layer(mode: IntegrityMode) -> Integrity {
        let (journal, bitmap) = (mode == IntegrityMode::Journal, mode == IntegrityMode::Bitmap);
        Integrity {
            algorithm: TagAlgorithm::Sha256,
            tag_size: 16,
            sector_size: 4096,
            interleave_sectors: Some(1024),
            mode,
            journal_size: Some(Bytes::from_mib(4)),
            journal_watermark: journal.then_some(70),
            journal_commit_time: journal.then_some(Nanos::from_millis(500)),
            bitmap_sectors_per_bit: bitmap.then_some(4096),
            bitmap_flush_time: bitmap.then_some(Nanos::from_millis(250)),
        }
    }

    fn lines(mode: IntegrityMode) -> Vec<String> {
        let line = |step| match step {
            Step::Run(_, argv) => argv.join(" "),
            Step::Mark => "mark".to_owned(),
        };
        layer(mode).steps("/dev/d", "n", "u").into_iter().map(line).collect()
    }

    const FORMAT: &str = "integritysetup format --batch-mode --no-wipe --integrity sha256 --tag-size 16 --sector-size 4096 \
                          --interleave-sectors 1024 --journal-size 4194304 /dev/d";
    const DIRECT: &str =
        "integritysetup open --batch-mode --integrity sha256 --integrity-no-journal /dev/d n";
    const ZEROS: &str = "blkdiscard --force --zeroout --step 67108864 /dev/mapper/n";

    #[test]
    fn tags_are_written_past_the_journal_before_it_is_opened_as_it_was_asked_for() {
        let opened = "integritysetup open --batch-mode --integrity sha256 --journal-watermark 70 --journal-commit-time 500 /dev/d n";
        let all = [FORMAT, "mark", DIRECT, ZEROS, "integritysetup close n", opened];
        assert_eq!(lines(IntegrityMode::Journal), all);
        assert_eq!(lines(IntegrityMode::Direct), all[..4]);
        let bitmap = "integritysetup open --batch-mode --integrity sha256 --integrity-bitmap-mode --bitmap-sectors-per-bit 4096 \
                      --bitmap-flush-time 250 /dev/d n";
        assert_eq!(lines(IntegrityMode::Bitmap)[5], bitmap);
    }

    const TABLE: &str = "0 71480 integrity 7:0 0 16 J 7 block_size:4096 journal_sectors:8008 interleave_sectors:1024 \
                         buffer_sectors:128 journal_watermark:69 commit_time:500 internal_hash:sha256\n";

    #[test]
    fn the_table_is_what_was_asked_for_but_for_what_the_kernel_rounds() {
        let shown = check(&layer(IntegrityMode::Journal), "safe", TABLE).unwrap();
        assert_eq!(
            shown,
            "journal sha256, tags of 16 bytes, sectors of 4096 bytes, interleave_sectors 1024, journal_sectors 8008, \
             journal_watermark 69, commit_time 500"
        );
        for (from, to, what) in [
            ("integrity", "crypt", "target"),
            (" 16 J", " 4 J", "tag_size"),
            (" J ", " D ", "mode"),
            ("hash:sha256", "hash:sha1", "algorithm"),
            ("block_size:4096 ", "", "sector_size"),
            ("interleave_sectors:1024", "interleave_sectors:32768", "interleave_sectors"),
            ("watermark:69", "watermark:50", "journal_watermark"),
            ("commit_time:500 ", "", "journal_commit_time"),
            ("journal_sectors:8008", "journal_sectors:640", "journal_size"),
        ] {
            let error = check(&layer(IntegrityMode::Journal), "safe", &TABLE.replace(from, to)).unwrap_err();
            assert!(error.to_string().contains(&format!(": {what} is")), "{what}: {error}");
        }
        assert!(check(&layer(IntegrityMode::Journal), "safe", "").is_err());
    }
}
