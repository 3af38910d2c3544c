//! What a program of tests said, as results: libtest's JSON, the plain lines of a harness of its own, and
//! rustdoc's.
//!
//! libtest gives JSON, with the time and the output of each test, where `RUSTC_BOOTSTRAP` is set when it
//! runs. Its events are described in `library/test/src/formatters/json.rs` of the Rust sources; they are not
//! stable, so that each program's own count is held against what was read here.

use serde::Deserialize;
use std::time::Duration;

/// How a test ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    /// It passed and says that it has shown nothing, with its reason; or libtest left it out.
    Skipped(String),
}

/// One test.
#[derive(Clone, Debug)]
pub struct Test {
    pub name: String,
    pub outcome: Outcome,
    /// Without the time in which it waited for another test.
    pub took: Duration,
    /// All that it printed.
    pub output: String,
    /// It began, and its program's time was up before it ended.
    pub is_cut: bool,
}

/// All that a program said.
#[derive(Debug, Default)]
pub struct Said {
    pub tests: Vec<Test>,
    /// What belongs to no test: what processes that it started have written.
    pub loose: String,
    /// Where the program's own count differs from its results.
    pub miscounted: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Event {
    Suite(Count),
    Test(Told),
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Count {
    #[serde(default)]
    passed: usize,
    #[serde(default)]
    failed: usize,
    #[serde(default)]
    ignored: usize,
    event: String,
}

#[derive(Deserialize)]
struct Told {
    name: String,
    event: String,
    exec_time: Option<f64>,
    #[serde(default)]
    stdout: String,
    message: Option<String>,
}

/// Reads all that a program wrote to its standard output.
pub fn read(text: &str) -> Said {
    let mut said = Said::default();
    let (mut begun, mut pending, mut counted) = (Vec::new(), String::new(), None);
    for line in text.lines() {
        match parsed(line) {
            Some(Event::Test(told)) if told.event == "started" => begun.push(told.name),
            // More than a minute: its end comes later.
            Some(Event::Test(told)) if told.event == "timeout" => {}
            Some(Event::Test(told)) => {
                begun.retain(|name| *name != told.name);
                said.tests.push(test(told));
            }
            Some(Event::Suite(count)) if count.event != "started" => counted = Some(count),
            Some(Event::Suite(_) | Event::Other) => {}
            None => match plain(line) {
                Some((name, outcome, took)) => {
                    let output = std::mem::take(&mut pending);
                    said.tests.push(ended(name.to_owned(), outcome, took, output));
                }
                None => pending.extend([line, "\n"]),
            },
        }
    }
    let without_end = |name| ended(name, Outcome::Failed, Duration::ZERO, WITHOUT_END.to_owned());
    said.tests.extend(begun.into_iter().map(without_end));
    said.loose = pending;
    said.miscounted = counted.and_then(|count| miscounted(&said.tests, &count));
    said
}

/// What is told of a test that began.
const WITHOUT_END: &str = "it began, and did not end\n";

impl Said {
    /// Names the tests within their module.
    pub fn without_module(&mut self, module: &str) {
        let prefix = format!("{module}::");
        for test in &mut self.tests {
            if let Some(name) = test.name.strip_prefix(&prefix) {
                test.name = name.to_owned();
            }
        }
    }

    /// The program's time was up.
    pub fn cut(&mut self) {
        for test in &mut self.tests {
            test.is_cut = test.output == WITHOUT_END;
        }
    }
}

/// An event in a line. What another process wrote without a newline may stand before it.
fn parsed(line: &str) -> Option<Event> {
    let from = line.find("{ \"type\": ")?;
    serde_json::from_str(&line[from..]).ok()
}

fn test(told: Told) -> Test {
    let outcome = match told.event.as_str() {
        "ok" => Outcome::Passed,
        "ignored" => Outcome::Skipped(told.message.unwrap_or_else(|| "it is marked `ignore`".into())),
        _ => Outcome::Failed,
    };
    let took = Duration::try_from_secs_f64(told.exec_time.unwrap_or_default()).unwrap_or_default();
    ended(told.name, outcome, took, told.stdout)
}

fn ended(name: String, outcome: Outcome, took: Duration, output: String) -> Test {
    let outcome = match (outcome, after(&output, "skipped: ").next()) {
        (Outcome::Passed, Some(reason)) => Outcome::Skipped(reason.to_owned()),
        (outcome, _) => outcome,
    };
    let seconds: f64 =
        after(&output, "waited: ").filter_map(|text| text.strip_suffix(" s")?.parse::<f64>().ok()).sum();
    let waited = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    Test { name, outcome, took: took.saturating_sub(waited), output, is_cut: false }
}

/// What follows a word at the start of a line.
pub fn after<'a>(output: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    output.lines().filter_map(move |line| line.strip_prefix(word))
}

/// A result as people read it: `test NAME ... ok (1.2 s)`. The time is not always there.
fn plain(line: &str) -> Option<(&str, Outcome, Duration)> {
    let (name, end) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let (word, rest) = end.split_once([' ', ',']).unwrap_or((end, ""));
    let outcome = match word {
        "ok" => Outcome::Passed,
        "FAILED" => Outcome::Failed,
        "ignored" => Outcome::Skipped("it is marked `ignore`".into()),
        _ => return None,
    };
    let seconds = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(" s)")?.parse().ok());
    Some((name, outcome, Duration::try_from_secs_f64(seconds.unwrap_or(0.0)).unwrap_or_default()))
}

fn miscounted(tests: &[Test], count: &Count) -> Option<String> {
    let failed = tests.iter().filter(|test| test.outcome == Outcome::Failed).count();
    let (read, its_own) =
        ((tests.len(), failed), (count.passed + count.failed + count.ignored, count.failed));
    (read != its_own).then(|| {
        format!("{} results with {} failed were read of {} with {}", read.0, read.1, its_own.0, its_own.1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> Vec<(String, Outcome, f64)> {
        read(text).tests.into_iter().map(|t| (t.name, t.outcome, t.took.as_secs_f64())).collect()
    }

    const SUITE: &str = r#"{ "type": "suite", "event": "started", "test_count": 3 }
{ "type": "test", "event": "started", "name": "a" }
{ "type": "test", "event": "started", "name": "b" }
{ "type": "test", "name": "a", "event": "ok", "exec_time": 2.5, "stdout": "waited: 1.500 s\nskipped in part: one of two\n" }
a word of a child without an end{ "type": "test", "name": "b", "event": "ok", "exec_time": 0.1, "stdout": "skipped: needs root\n" }
{ "type": "test", "event": "started", "name": "c" }
{ "type": "test", "name": "c", "event": "failed", "exec_time": 0.2, "stdout": "skipped: no\nit panicked\n" }
"#;

    #[test]
    fn each_test_has_its_outcome_and_its_own_time() {
        let end = r#"{ "type": "suite", "event": "failed", "passed": 2, "failed": 1, "ignored": 0 }"#;
        let text = format!("{SUITE}{end}\n");
        let all = [
            ("a".to_owned(), Outcome::Passed, 1.0),
            ("b".to_owned(), Outcome::Skipped("needs root".into()), 0.1),
            ("c".to_owned(), Outcome::Failed, 0.2),
        ];
        assert_eq!(told(&text), all);
        assert_eq!(read(&text).miscounted, None);
    }

    #[test]
    fn a_program_that_counts_otherwise_and_a_test_without_an_end_are_noticed() {
        let end = r#"{ "type": "suite", "event": "ok", "passed": 4, "failed": 0, "ignored": 0 }"#;
        assert!(read(&format!("{SUITE}{end}\n")).miscounted.is_some());
        let cut = r#"{ "type": "test", "event": "started", "name": "d" }"#;
        let last = told(&format!("{SUITE}{cut}\n")).pop().unwrap();
        assert_eq!((last.0.as_str(), last.1), ("d", Outcome::Failed));
        let mut said = read(&format!("{SUITE}{cut}\n"));
        said.cut();
        let cut: Vec<&str> = said.tests.iter().filter(|t| t.is_cut).map(|t| t.name.as_str()).collect();
        assert_eq!(cut, ["d"]);
    }

    /// What is printed of being skipped in another form would count as passed.
    #[test]
    fn every_test_that_skips_says_so_in_the_form_that_is_counted() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates");
        let (mut counted, mut others) = (0, Vec::new());
        for file in crate::tidy::rust_files(std::path::Path::new(root)).unwrap() {
            let text = std::fs::read_to_string(&file).unwrap();
            let prints = text.split("println!(").skip(1).map(str::trim_start);
            let skips: Vec<&str> =
                prints.filter_map(|call| call.strip_prefix('"')?.strip_prefix("skipped")).collect();
            counted += skips.len() + text.matches("testing::skip").count();
            let is_other = |rest: &&&str| !rest.starts_with(": ") && !rest.starts_with(" in part: ");
            others.extend(skips.iter().filter(is_other).map(|_| file.clone()));
        }
        assert!(others.is_empty(), "{others:?}");
        assert!(counted > 40, "only {counted} places were found");
    }

    #[test]
    fn plain_lines_are_results_too() {
        let text = "running 3 tests\ntest src/a.rs - x (line 3) ... ok\nskipped: no loop devices\ntest b ... ok (0.5 s)\n\
                    test c ... ignored\nwhy\ntest d ... FAILED (1.0 s)\ntest result: FAILED. 2 passed\n";
        let all: Vec<Outcome> = read(text).tests.into_iter().map(|test| test.outcome).collect();
        let [passed, failed] = [Outcome::Passed, Outcome::Failed];
        let skipped = |why: &str| Outcome::Skipped(why.into());
        assert_eq!(all, [passed, skipped("no loop devices"), skipped("it is marked `ignore`"), failed]);
    }
}
