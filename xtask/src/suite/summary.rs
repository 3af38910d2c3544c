//! What stands at the end of a run of tests, where whoever keeps only the last of it finds it.

use super::program::Ended;
use super::said::{Outcome, Test, after};
use std::collections::BTreeMap;
use std::fmt::Write;

/// How many are named as the slowest.
const NAMED: usize = 20;

/// The slowest programs and tests, why tests were skipped, what failed, and the count, alone on the last
/// line. The programs come with the slowest first.
pub fn text(ended: &[Ended]) -> String {
    [slowest_programs(ended), slowest_tests(ended), skips(ended), failures(ended), count(ended)].concat()
}

fn slowest_programs(ended: &[Ended]) -> String {
    let line = |one: &Ended| format!("{:7.1} s  {}\n", one.took.as_secs_f64(), one.title);
    let lines: String = ended.iter().take(NAMED).map(line).collect();
    format!("\nThe slowest of {} programs:\n{lines}", ended.len())
}

fn slowest_tests(ended: &[Ended]) -> String {
    let mut tests: Vec<(&Ended, &Test)> =
        ended.iter().flat_map(|one| one.tests.iter().map(move |test| (one, test))).collect();
    let all: f64 = tests.iter().map(|(_, test)| test.took.as_secs_f64()).sum();
    tests.sort_by_key(|(_, test)| std::cmp::Reverse(test.took));
    let line = |(one, test): &(&Ended, &Test)| {
        let seconds = test.took.as_secs_f64();
        let share = if all > 0.0 { 100.0 * seconds / all } else { 0.0 };
        format!("{seconds:7.1} s  {share:4.1}%  {}  ({})\n", test.name, short(&one.title))
    };
    let lines: String = tests.iter().take(NAMED).map(line).collect();
    format!(
        "\nThe slowest of {} tests, and their share of the {all:.0} s that all took:\n{lines}",
        tests.len()
    )
}

/// A program's title without the path of what was built.
fn short(title: &str) -> &str {
    title.split(" (").next().unwrap_or(title)
}

fn failures(ended: &[Ended]) -> String {
    let wrong = ended.iter().filter(|one| one.wrong.is_some());
    wrong
        .map(|one| {
            let why = one.wrong.as_deref().unwrap_or_default();
            format!("\n     What failed in {}: {why}\n\n{}", one.title, one.failures())
        })
        .collect()
}

fn skips(ended: &[Ended]) -> String {
    let (mut whole, mut part) = (BTreeMap::new(), BTreeMap::new());
    for test in ended.iter().flat_map(|one| &one.tests) {
        if let Outcome::Skipped(reason) = &test.outcome {
            whole.entry(reason.as_str()).or_insert_with(Vec::new).push(test.name.as_str());
        }
        for reason in after(&test.output, "skipped in part: ") {
            part.entry(reason).or_insert_with(Vec::new).push(test.name.as_str());
        }
    }
    grouped("Skipped, and why", &whole) + &grouped("Passed, but for a part that was skipped, and why", &part)
}

fn grouped(title: &str, reasons: &BTreeMap<&str, Vec<&str>>) -> String {
    let mut text = String::new();
    if !reasons.is_empty() {
        let _ = writeln!(text, "\n{title}:");
    }
    for (reason, names) in reasons {
        let _ = writeln!(text, "{:4}  {reason}", names.len());
        text.extend(names.iter().map(|name| format!("          {name}\n")));
    }
    text
}

/// A program that failed without a failed test counts as one.
fn count(ended: &[Ended]) -> String {
    let all = || ended.iter().flat_map(|one| &one.tests);
    let passed = all().filter(|test| test.outcome == Outcome::Passed).count();
    let failed = all().filter(|test| test.outcome == Outcome::Failed).count();
    let skipped = all().filter(|test| matches!(test.outcome, Outcome::Skipped(_))).count();
    let as_a_whole = ended.iter().filter(|one| one.is_wrong_as_a_whole()).count();
    format!("\n{passed} passed, {} failed, {skipped} skipped\n", failed + as_a_whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suite::said;
    use std::time::Duration;

    fn program(title: &str, text: &str, wrong: Option<&str>) -> Ended {
        let tests = said::read(text).tests;
        let title = format!("{title} (target/{title})");
        Ended { title, took: Duration::from_secs(1), wrong: wrong.map(str::to_owned), tests }
    }

    #[test]
    fn the_last_line_counts_tests_and_programs_that_failed_as_a_whole() {
        let ended = [
            program("a", "skipped: needs root\ntest x ... ok (1.0 s)\ntest y ... ok (3.0 s)\n", None),
            program("b", "why\ntest z ... FAILED (0.0 s)\n", Some("exit status: 101")),
            program("c", "skipped: needs root\ntest v ... ok\n", Some("signal: 9")),
        ];
        let told = text(&ended);
        assert_eq!(told.lines().last(), Some("1 passed, 2 failed, 2 skipped"), "{told}");
        assert!(told.contains("   2  needs root\n          x\n          v\n"), "{told}");
        assert!(told.contains("    3.0 s  75.0%  y  (a)\n    1.0 s  25.0%  x  (a)\n"), "{told}");
        assert!(
            told.contains("What failed in b (target/b): exit status: 101\n\n---- z ----\nwhy\n"),
            "{told}"
        );
    }

    #[test]
    fn a_run_of_nothing_is_counted_too() {
        assert!(text(&[]).ends_with("\n0 passed, 0 failed, 0 skipped\n"));
    }
}
