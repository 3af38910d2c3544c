//! bonnie++'s reports: its CSV (formats 1.96, 1.97 and 1.98, which 2.00 writes, and the one before 1.90), its
//! table of 1.03 to 2.00, and the table of Bonnie 1.2. Also with prose around them, as in a mail.
//!
//! bonnie++ counts in KiB and rounds its table to whole KiB, MiB or GiB (`126m`), so the CSV is the exact
//! one. What took less than half a second it prints as `+++++`: not measured, and absent here. CPU time is a
//! share of one CPU. Sources: bon_csv2html(1) for the fields of format 1.98; `bonnie++.cpp` prints the table.
//! That 1.98 came with two fields more (how many seeks, by how many processes), and that 1.96 leaves one out
//! where no data is measured (`-s 0`), is in `debian/changelog`.

use crate::report::{Metrics, ToolError, tail};
use domain::units::Unit;
use domain::{Better, Outcome};

const TOOL: &str = "bonnie++";

/// The measurements of data, in the order of the table and the CSV.
const DATA: [&str; 6] = ["per_char_write", "block_write", "rewrite", "per_char_read", "block_read", "seeks"];

/// Those of files, likewise: in the order of their creation, then in random order.
const FILES: [&str; 6] =
    ["create_seq", "stat_seq", "delete_seq", "create_random", "stat_random", "delete_random"];

/// Pairs of a rate and a CPU share in one half of the table.
const PAIRS: usize = 6;

/// Fields of the CSV from 1.90 on: of 1.98, without latencies and with them; of 1.97 and 1.96; of 1.96 where
/// no data was measured.
const FIELDS: [usize; 4] = [38, 50, 48, 47];
/// Those of the latencies.
const LATENCIES: usize = 12;
/// Between the figures of data and those of files: what the files are like.
const BETWEEN: usize = 5;
/// Fields of the CSV before 1.90.
const OLD_FIELDS: usize = 27;

/// A report, with what it says of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Rates in bytes a second (`per_char_write`, `block_write`, `rewrite`, `per_char_read`, `block_read`),
    /// `seeks` and file operations a second; `cpu_…` as a share of one CPU, `latency_…` the longest one
    /// operation took.
    pub outcome: Outcome,
    /// The machine's name as bonnie++ was told it, or as the host has it.
    pub label: Option<String>,
    /// The size of the files, as it is printed: `768M`.
    pub size: Option<String>,
}

/// Whether a line is one of bonnie++'s CSV.
pub fn is_csv(line: &str) -> bool {
    let fields: Vec<&str> = line.trim().split(',').collect();
    match fields.len() {
        n if FIELDS.contains(&n) => is_version(fields[0]),
        OLD_FIELDS => {
            fields[2..].iter().all(|field| rate(field).is_some() || field.trim_matches('+').is_empty())
        }
        _ => false,
    }
}

fn is_version(field: &str) -> bool {
    field.split_once('.').is_some_and(|(major, minor)| {
        !major.is_empty() && !minor.is_empty() && field.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    })
}

/// Reads one line of CSV.
///
/// # Errors
/// Where it is none, or nothing in it was measured.
pub fn csv(line: &str) -> Result<Report, ToolError> {
    if !is_csv(line) {
        return Err(missing(
            "line of bonnie++'s CSV: 38, 47, 48 or 50 fields that begin with a version, or 27",
            line,
        ));
    }
    let fields: Vec<&str> = line.trim().split(',').collect();
    let old = fields.len() == OLD_FIELDS;
    let (label, size, data, files) = if old {
        (fields[0], fields[1], 2, 15)
    } else {
        // What is before the figures of data has grown, and what is behind them has not.
        let latencies = if fields.len() == FIELDS[0] { 0 } else { LATENCIES };
        let files = fields.len() - latencies - 2 * PAIRS;
        (fields[2], fields[5], files - BETWEEN - 2 * PAIRS, files)
    };
    let mut metrics = Metrics::default();
    put_half(&mut metrics, &DATA, &fields[data..data + 2 * PAIRS], KIB);
    put_half(&mut metrics, &FILES, &fields[files..files + 2 * PAIRS], 1.0);
    for (name, field) in DATA.iter().chain(&FILES).zip(fields.get(files + 2 * PAIRS..).unwrap_or(&[])) {
        put_latency(&mut metrics, name, field);
    }
    let version = if old { None } else { Some(fields[1]) };
    let mut report = report(metrics, version, Some(label), Some(size), line)?;
    let short: Vec<&str> = [(&DATA, data), (&FILES, files)]
        .into_iter()
        .flat_map(|(names, at)| names.iter().zip(fields[at..at + 2 * PAIRS].chunks_exact(2)))
        .filter(|(_, pair)| pair[0].starts_with("+++"))
        .map(|(name, _)| *name)
        .collect();
    if !short.is_empty() {
        report.outcome.warnings.push(format!(
            "took less than the half second from which bonnie++ gives a rate: {}",
            short.join(", ")
        ));
    }
    Ok(report)
}

/// KiB, in which rates of data are printed where no letter says otherwise.
const KIB: f64 = 1024.0;

/// Reads the last table in a text.
///
/// # Errors
/// Where there is none, or nothing in it was measured.
pub fn text(text: &str) -> Result<Report, ToolError> {
    let lines: Vec<&str> = text.lines().map(unquoted).collect();
    let mut metrics = Metrics::default();
    let (mut version, mut label, mut size) = (None, None, None);
    let mut warnings = Vec::new();
    let mut half: Option<(&[&str], f64)> = None;
    let mut last: &[&str] = &DATA;
    for (index, line) in lines.iter().enumerate() {
        if let Some(rest) = line.trim_start().strip_prefix("Version ") {
            version = rest.split_whitespace().next().map(str::to_owned).or(version);
        } else if let Some(rest) = line.strip_prefix("Bonnie ") {
            version = rest.split_once(':').map(|(version, _)| version.to_owned()).or(version);
        }
        put_done(&mut metrics, line);
        if line.contains("-Per Ch") {
            half = Some((&DATA, KIB));
        } else if line.contains("-Create--") {
            half = Some((&FILES, 1.0));
        }
        let Some((names, scale)) = half else { continue };
        let following = lines.get(index + 1).copied().unwrap_or("");
        if line.trim_start().starts_with("Latency") {
            last.iter().zip(latencies(line)).for_each(|(name, field)| put_latency(&mut metrics, name, field));
        } else if let Some(row) = Row::of(line, following) {
            put_half(&mut metrics, names, &row.fields(), scale);
            if names[0] == FILES[0] && states_a_count(&metrics, row.files) {
                FILES.iter().for_each(|name| drop(metrics.0.remove(*name)));
                warnings.push("left out the rates of file operations: bonnie++ prints how many files there were in their place; its CSV has them".to_owned());
            }
            if names[0] == DATA[0] {
                (label, size) = (Some(row.label.to_owned()), row.size.map(str::to_owned));
            }
            (last, half) = (names, Some((names, scale)));
        }
    }
    let mut report = report(metrics, version.as_deref(), label.as_deref(), size.as_deref(), text)?;
    report.outcome.warnings = warnings;
    Ok(report)
}

/// Whether the rates of file operations are all the number of files: 2.00a prints it in their place.
fn states_a_count(metrics: &Metrics, files: Option<f64>) -> bool {
    let rates: Vec<f64> = FILES.iter().filter_map(|name| Some(metrics.0.get(*name)?.value)).collect();
    !rates.is_empty() && rates.iter().all(|rate| files.is_some_and(|files| *rate == files * 1024.0))
}

/// A line without the marks of a mail that quotes it.
fn unquoted(line: &str) -> &str {
    let mut line = line.trim_end();
    while let Some(rest) = line.strip_prefix('>') {
        line = rest.strip_prefix(' ').unwrap_or(rest);
    }
    line
}

/// What Bonnie 1.2 says as it goes: `Rewriting... done: 22288 kB/s 13.4 %CPU`. Only of what no table says.
fn put_done(metrics: &mut Metrics, line: &str) {
    const PHASES: [(&str, &str); 5] = [
        ("Writing with putc()", DATA[0]),
        ("Writing intelligently", DATA[1]),
        ("Rewriting", DATA[2]),
        ("Reading with getc()", DATA[3]),
        ("Reading intelligently", DATA[4]),
    ];
    let Some((phase, figures)) = line.split_once("done:") else { return };
    let known = PHASES.iter().find(|(start, _)| phase.trim_start().starts_with(start));
    let words: Vec<&str> = figures.split_whitespace().collect();
    if let (Some((_, name)), [value, "kB/s", share, "%CPU"]) = (known, words.as_slice()) {
        put_half(metrics, &[name], &[value, share], KIB);
    }
}

/// One row of the table.
struct Row<'a> {
    label: &'a str,
    /// Of the files' half: how many there were, in units of 1024.
    files: Option<f64>,
    size: Option<&'a str>,
    line: &'a str,
    words: Vec<&'a str>,
}

/// Characters before the first pair of bonnie++'s table, and those of each pair.
const MARGIN: usize = 19;
const PAIR: usize = 10;

impl<'a> Row<'a> {
    /// The row in a line, if it is one: a label, a size or number of files, and figures. A mail may have
    /// broken it, so that the last pair stands on the line that follows.
    fn of(line: &'a str, following: &'a str) -> Option<Self> {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        let is_figure = |word: &&str| rate(word).is_some() || word.trim_matches('+').is_empty();
        let figures = words.iter().rev().take_while(|word| is_figure(word)).count();
        let named = words.len() - figures;
        // The files' half has no label in its row, and its first figure is how many files there were.
        let is_row = figures >= 2 && named <= 2 && line.trim_start().len() > MARGIN;
        if !is_row {
            return None;
        }
        if named == 0 {
            let files = rate(words.remove(0));
            return (words.len() == 2 * PAIRS).then_some(Self { label: "", files, size: None, line, words });
        }
        let label = words[0];
        words.drain(..named);
        let mut size = (named == 2).then(|| line.split_whitespace().nth(1)).flatten();
        if size.is_none() && words.len() % 2 == 1 {
            size = Some(words.remove(0));
        }
        let broken: Vec<&str> = following.split_whitespace().collect();
        if words.len() == 2 * PAIRS - 2 && broken.len() == 2 && broken.iter().all(is_figure) {
            words.extend(broken);
        }
        Some(Self { label, files: None, size, line, words })
    }

    /// The figures, by pairs. Where phases were left out (`-f`), a pair is blank, and its place decides.
    fn fields(&self) -> Vec<&'a str> {
        let complete = self.words.len() >= 2 * PAIRS - 2;
        if complete || !self.line.is_ascii() {
            return self.words.clone();
        }
        let mut fields = Vec::new();
        for place in places(self.line) {
            let mut words = place.split_whitespace();
            fields.push(words.next().unwrap_or(""));
            fields.push(words.next().unwrap_or(""));
        }
        fields
    }
}

/// The places of the pairs in a line of single bytes.
fn places(line: &str) -> impl Iterator<Item = &str> {
    (0..PAIRS).map(move |n| line.get(MARGIN + n * PAIR..).map_or("", |rest| &rest[..rest.len().min(PAIR)]))
}

/// The fields of a line of latencies; one is blank where its phase was left out.
fn latencies(line: &str) -> Vec<&str> {
    let words: Vec<&str> = line.split_whitespace().skip(1).collect();
    if words.len() >= PAIRS || !line.is_ascii() { words } else { places(line).map(str::trim).collect() }
}

fn put_half(metrics: &mut Metrics, names: &[&str], fields: &[&str], scale: f64) {
    for (name, pair) in names.iter().zip(fields.chunks_exact(2)) {
        let is_rate_of_data = scale == KIB && *name != DATA[5];
        let (unit, scale) =
            if is_rate_of_data { (Unit::BytesPerSecond, scale) } else { (Unit::PerSecond, 1.0) };
        // bon_csv2txt prints `0k` for what bonnie++ leaves as `+++++`.
        if let Some(value) = rate(pair[0]).filter(|rate| *rate > 0.0) {
            let scale = if pair[0].ends_with(|c: char| c.is_ascii_alphabetic()) { 1.0 } else { scale };
            metrics.put_as(name, value * scale, unit, Better::Higher);
        }
        if let Ok(percent) = pair[1].parse::<f64>()
            && percent.is_finite()
        {
            metrics.put_as(&format!("cpu_{name}"), percent / 100.0, Unit::Share, Better::Lower);
        }
    }
}

/// `14810`, `579k`, `126m`, `1.2g`.
fn rate(field: &str) -> Option<f64> {
    let (number, scale) = match field.as_bytes().last()? {
        b'k' | b'K' => (&field[..field.len() - 1], KIB),
        b'm' | b'M' => (&field[..field.len() - 1], KIB * KIB),
        b'g' | b'G' => (&field[..field.len() - 1], KIB * KIB * KIB),
        _ => (field, 1.0),
    };
    let plain = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    number.parse::<f64>().ok().filter(|value| plain && value.is_finite()).map(|value| value * scale)
}

/// `60920us`, `255ms`, `3s`.
fn put_latency(metrics: &mut Metrics, name: &str, field: &str) {
    let digits = field.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(field.len());
    let (number, unit) = field.split_at(digits);
    let scale = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return,
    };
    if let Ok(value) = number.parse::<f64>()
        && value.is_finite()
    {
        metrics.put_as(&format!("latency_{name}"), value * scale, Unit::Seconds, Better::Lower);
    }
}

fn report(
    metrics: Metrics,
    version: Option<&str>,
    label: Option<&str>,
    size: Option<&str>,
    text: &str,
) -> Result<Report, ToolError> {
    if metrics.0.is_empty() {
        return Err(missing("figure: every phase is missing, or took too little time (`+++++`)", text));
    }
    let given = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::to_owned);
    // Bonnie without the `++` ended at 1.2; bonnie++'s versions have two digits after the point.
    let name = if version == Some("1.2") { "bonnie" } else { TOOL };
    let tool = version.map_or_else(|| name.to_owned(), |version| format!("{name}-{version}"));
    let outcome = Outcome { metrics: metrics.0, tool, warnings: Vec::new() };
    Ok(Report { outcome, label: given(label), size: given(size) })
}

fn missing(wanted: &'static str, text: &str) -> ToolError {
    match text.trim() {
        "" => ToolError::Empty { tool: TOOL },
        _ => ToolError::NoReport { tool: TOOL, wanted, tail: tail(text) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::shown;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    macro_rules! fixture {
        ($name:literal) => {
            include_str!(concat!("../../../../fixtures/tools/bonnie/", $name))
        };
    }

    fn check(report: Result<Report, ToolError>, expected: Expect) {
        let head = report.as_ref().map_or(String::new(), |r| format!("{:?} {:?}\n", r.label, r.size));
        expected.assert_eq(&format!("{head}{}", shown(report.map(|r| r.outcome))));
    }

    #[test]
    fn a_line_of_csv_is_read() {
        check(
            csv(fixture!("2.00a.csv")),
            expect![[r#"
                Some("testhost") Some("768M")
                bonnie++-2.00a
                block_write = 132 MB/s
                cpu_block_write = 33.0%
                cpu_create_random = 32.0%
                cpu_create_seq = 30.0%
                cpu_per_char_read = 30.0%
                cpu_per_char_write = 27.0%
                cpu_rewrite = 39.0%
                create_random = 737 /s
                create_seq = 20.6 k/s
                latency_block_read = 8.49 ms
                latency_block_write = 40.1 ms
                latency_create_random = 283 ms
                latency_create_seq = 41.8 ms
                latency_delete_random = 10.2 ms
                latency_delete_seq = 12.1 ms
                latency_per_char_read = 58.4 ms
                latency_per_char_write = 255 ms
                latency_rewrite = 11.8 ms
                latency_seeks = 21.8 ms
                latency_stat_random = 13.1 ms
                latency_stat_seq = 16.1 ms
                per_char_read = 849 kB/s
                per_char_write = 506 kB/s
                rewrite = 969 MB/s
                warning: took less than the half second from which bonnie++ gives a rate: block_read, seeks, stat_seq, delete_seq, stat_random, delete_random
            "#]],
        );
    }

    #[test]
    fn the_csv_of_1_96_and_1_97_has_two_fields_fewer_and_without_data_three() {
        check(
            csv(fixture!("1.96.csv")),
            expect![[r#"
                Some("corei7") Some("32080M")
                bonnie++-1.96
                block_read = 235 MB/s
                block_write = 130 MB/s
                cpu_block_read = 15.0%
                cpu_block_write = 11.0%
                cpu_create_seq = 22.0%
                cpu_delete_seq = 16.0%
                cpu_per_char_read = 100%
                cpu_per_char_write = 98.0%
                cpu_rewrite = 9.00%
                cpu_seeks = 160%
                create_seq = 23.3 k/s
                delete_seq = 24.0 k/s
                latency_block_read = 434 ms
                latency_block_write = 554 ms
                latency_create_random = 633 µs
                latency_create_seq = 1.34 ms
                latency_delete_random = 625 µs
                latency_delete_seq = 603 µs
                latency_per_char_read = 4.47 ms
                latency_per_char_write = 15.9 ms
                latency_rewrite = 483 ms
                latency_seeks = 2.48 ms
                latency_stat_random = 102 µs
                latency_stat_seq = 924 µs
                per_char_read = 5.46 MB/s
                per_char_write = 1.18 MB/s
                rewrite = 76.1 MB/s
                seeks = 13.1 k/s
                warning: took less than the half second from which bonnie++ gives a rate: stat_seq, create_random, stat_random, delete_random
            "#]],
        );
        check(
            csv(fixture!("1.96-no-files.csv")),
            expect![[r#"
            Some("ako") Some("4018M")
            bonnie++-1.96
            block_read = 91.0 MB/s
            block_write = 57.9 MB/s
            cpu_block_read = 16.0%
            cpu_block_write = 10.0%
            cpu_rewrite = 12.0%
            cpu_seeks = 3.00%
            latency_block_read = 43.1 ms
            latency_block_write = 5.55 s
            latency_rewrite = 228 ms
            latency_seeks = 430 ms
            rewrite = 33.2 MB/s
            seeks = 110 /s
        "#]],
        );
        let mail = fixture!("1.96-no-data-in-a-mail.txt");
        let line =
            mail.lines().find_map(|line| line.strip_prefix("> >").filter(|line| line.starts_with("1.96,")));
        check(
            csv(line.unwrap()),
            expect![[r#"
            Some("fslab3") None
            bonnie++-1.96
            cpu_create_random = 16.0%
            cpu_create_seq = 14.0%
            cpu_delete_random = 3.00%
            cpu_delete_seq = 4.00%
            cpu_stat_random = 13.0%
            cpu_stat_seq = 12.0%
            create_random = 1.87 k/s
            create_seq = 1.70 k/s
            delete_random = 1.27 k/s
            delete_seq = 1.33 k/s
            latency_create_random = 505 ms
            latency_create_seq = 3.87 s
            latency_delete_random = 9.63 s
            latency_delete_seq = 8.66 s
            latency_stat_random = 7.26 s
            latency_stat_seq = 6.65 s
            stat_random = 2.05 k/s
            stat_seq = 2.02 k/s
        "#]],
        );
        let all = fixture!("1.97.txt");
        let (table, line) = all.trim_end().rsplit_once('\n').unwrap();
        assert_eq!(csv(line).unwrap().outcome.metrics, text(table).unwrap().outcome.metrics);
    }

    #[test]
    fn the_table_says_what_the_csv_says_rounded() {
        check(
            text(fixture!("2.00a.txt")),
            expect![[r#"
            Some("testhost") Some("768M")
            bonnie++-2.00a
            block_write = 132 MB/s
            cpu_block_write = 33.0%
            cpu_create_random = 32.0%
            cpu_create_seq = 30.0%
            cpu_per_char_read = 30.0%
            cpu_per_char_write = 27.0%
            cpu_rewrite = 39.0%
            latency_block_read = 8.49 ms
            latency_block_write = 40.1 ms
            latency_create_random = 283 ms
            latency_create_seq = 41.8 ms
            latency_delete_random = 10.2 ms
            latency_delete_seq = 12.1 ms
            latency_per_char_read = 58.4 ms
            latency_per_char_write = 255 ms
            latency_rewrite = 11.8 ms
            latency_seeks = 21.8 ms
            latency_stat_random = 13.1 ms
            latency_stat_seq = 16.1 ms
            per_char_read = 849 kB/s
            per_char_write = 506 kB/s
            rewrite = 969 MB/s
            warning: left out the rates of file operations: bonnie++ prints how many files there were in their place; its CSV has them
        "#]],
        );
    }

    #[test]
    fn phases_that_were_left_out_are_absent_and_the_others_keep_their_places() {
        check(
            text(fixture!("2.00a-fast.txt")),
            expect![[r#"
            Some("testhost") Some("64M")
            bonnie++-2.00a
            latency_block_read = 24.1 ms
            latency_block_write = 19.7 ms
            latency_rewrite = 12.2 ms
            latency_seeks = 23.2 ms
        "#]],
        );
    }

    #[test]
    fn the_table_of_bonnie_1_2_is_found_in_a_mail_that_broke_its_lines() {
        check(
            text(fixture!("1.2-in-a-mail.txt")),
            expect![[r#"
            Some("raid05") Some("10*1000")
            bonnie-1.2
            block_read = 95.6 MB/s
            block_write = 27.1 MB/s
            cpu_block_read = 32.2%
            cpu_block_write = 21.7%
            cpu_per_char_read = 97.9%
            cpu_per_char_write = 88.9%
            cpu_rewrite = 13.4%
            per_char_read = 17.5 MB/s
            per_char_write = 15.2 MB/s
            rewrite = 22.8 MB/s
        "#]],
        );
    }

    #[test]
    fn a_line_of_the_old_csv_is_read() {
        let line = "box,4G,10000,50,20000,10,9000,5,12000,60,90000,9,210.5,1,16,1500,9,+++++,+++,2500,8,1400,8,+++++,+++,2300,7";
        check(
            csv(line),
            expect![[r#"
                Some("box") Some("4G")
                bonnie++
                block_read = 92.2 MB/s
                block_write = 20.5 MB/s
                cpu_block_read = 9.00%
                cpu_block_write = 10.0%
                cpu_create_random = 8.00%
                cpu_create_seq = 9.00%
                cpu_delete_random = 7.00%
                cpu_delete_seq = 8.00%
                cpu_per_char_read = 60.0%
                cpu_per_char_write = 50.0%
                cpu_rewrite = 5.00%
                cpu_seeks = 1.00%
                create_random = 1.40 k/s
                create_seq = 1.50 k/s
                delete_random = 2.30 k/s
                delete_seq = 2.50 k/s
                per_char_read = 12.3 MB/s
                per_char_write = 10.2 MB/s
                rewrite = 9.22 MB/s
                seeks = 210 /s
                warning: took less than the half second from which bonnie++ gives a rate: stat_seq, stat_random
            "#]],
        );
    }

    #[test]
    fn nothing_measured_and_other_text_are_errors() {
        check(
            text("Writing a byte at a time...done\n"),
            expect![[r#"
            cannot read the report of bonnie++: it holds no figure: every phase is missing, or took too little time (`+++++`); the text ends with `Writing a byte at a time...done`; see what bonnie++ wrote to its standard error
        "#]],
        );
        let of_csv2txt = include_str!("../../../../fixtures/tools/bonnie/2.00a-csv2txt.txt");
        check(
            text(of_csv2txt),
            expect![[r#"
            Some("vm") Some("64M::8192:5")
            bonnie++-2.00a
            cpu_per_char_read = 96.0%
            cpu_per_char_write = 94.0%
            latency_block_read = 73.0 µs
            latency_block_write = 2.75 ms
            latency_per_char_read = 9.40 ms
            latency_per_char_write = 19.8 ms
            latency_rewrite = 7.05 ms
            latency_seeks = 14.8 ms
            per_char_read = 1.54 MB/s
            per_char_write = 961 kB/s
        "#]],
        );
        check(
            csv(&"1.98,2.00a,h,1,1,64M,,8192,5".replace(' ', "")),
            expect![[r#"
                cannot read the report of bonnie++: it holds no line of bonnie++'s CSV: 38, 47, 48 or 50 fields that begin with a version, or 27; the text ends with `1.98,2.00a,h,1,1,64M,,8192,5`; see what bonnie++ wrote to its standard error
            "#]],
        );
        check(
            text(""),
            expect![[r#"
            cannot read the report of bonnie++: it is empty; see what bonnie++ wrote to its standard error
        "#]],
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text_ in "(-Per Chr-|-Create--|Latency|Version|[0-9a-z+.,> µ]{0,40}|\n){0,20}") {
            let _ = text(&text_);
            let _ = csv(&text_);
        }
    }
}
