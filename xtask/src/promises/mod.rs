//! `cargo xtask promises`: runs the tests that show what Flyball promises, the whole of each, and writes
//! `docs/PROMISES.md`.

mod document;
mod kept;
mod table;

use crate::fuzz;
use crate::suite;
use crate::suite::program::{self, ProgramOptions};
use crate::suite::said::{Outcome, Test, after};
use kept::{Figure, Here, Kept};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use table::{PROMISES, Promise, Shown};

/// How long a run may take without a word: an hour and a half.
const HOURS: f64 = 1.5;
/// Which part of that fuzzing gets; it comes last, and has what others leave.
const FUZZING: f64 = 0.15;

/// Runs these promises, or all without an id, and begins nothing more once so many hours have passed. What is
/// broken comes back as lines.
///
/// # Errors
/// Where an id is unknown, or nothing could be built or written.
pub fn run(ids: &[&str], hours: Option<f64>) -> Result<Vec<String>, Box<dyn Error>> {
    if let Some(unknown) = ids.iter().find(|id| !PROMISES.iter().any(|promise| promise.id == **id)) {
        let known: Vec<&str> = PROMISES.iter().map(|promise| promise.id).collect();
        return Err(format!("there is no promise `{unknown}`; there are {}", known.join(", ")).into());
    }
    let span = Duration::try_from_secs_f64(hours.unwrap_or(HOURS) * 3600.0)?;
    let chosen: Vec<&Promise> =
        PROMISES.iter().filter(|promise| ids.is_empty() || ids.contains(&promise.id)).collect();
    let (mut kept, here, begun) = (Kept::read()?, Here::look()?, Instant::now());
    let has_fuzzing = chosen.iter().any(|promise| matches!(promise.shown_by, Shown::Fuzzing));
    let of_fuzzing = if has_fuzzing { span.mul_f64(FUZZING) } else { Duration::ZERO };
    let ended = run_tests(&chosen, begun + span.saturating_sub(of_fuzzing))?;
    let mut problems = Vec::new();
    for promise in chosen {
        let figure = match promise.shown_by {
            Shown::Tests(tests) => of_tests(promise, tests, &ended, &here),
            Shown::Fuzzing => of_fuzzing_for(span.saturating_sub(begun.elapsed()), &here)?,
        };
        match figure {
            Some(figure) => {
                problems.extend(figure.failed.iter().map(|failed| format!("{}: {failed}", promise.id)));
                kept.figures.insert(promise.id.to_owned(), figure);
            }
            None => println!("{}: not run; what is known of it stays", promise.id),
        }
        // What was reached is kept, whatever becomes of the rest.
        kept.write()?;
        fs::write(kept::path("docs/PROMISES.md"), document::text(&kept))?;
    }
    println!("docs/PROMISES.md is written, after {:.0} min", begun.elapsed().as_secs_f64() / 60.0);
    Ok(problems)
}

/// Each test that has ended, by its file and name.
type Results = BTreeMap<(String, String), Test>;

/// Runs the tests of these promises, two programs at a time; none is begun after the deadline, and none goes
/// on after it.
fn run_tests(chosen: &[&Promise], deadline: Instant) -> Result<Results, Box<dyn Error>> {
    let mut wanted: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for promise in chosen {
        if let Shown::Tests(tests) = promise.shown_by {
            for (file, test) in tests {
                wanted.entry(file).or_default().insert(test);
            }
        }
    }
    if wanted.is_empty() {
        return Ok(Results::new());
    }
    let names: BTreeSet<&str> =
        wanted.keys().filter_map(|file| Path::new(file).file_stem()?.to_str()).collect();
    let mut programs = program::build(&names.into_iter().collect::<Vec<_>>())?;
    // Two crates may have programs of one name.
    programs.retain_mut(|program| {
        let tests = wanted.get(program.source.as_str());
        program.only = tests.into_iter().flatten().map(|&test| test.to_owned()).collect();
        !program.only.is_empty()
    });
    let sources: BTreeMap<String, String> =
        programs.iter().map(|program| (program.title.clone(), program.source.clone())).collect();
    let seed = testing::Extent::of_environment(0, 0).seed;
    let environment = [(testing::SEED, seed.to_string()), (testing::WHOLE, "1".to_owned())];
    let order = ProgramOptions { environment: &environment, deadline: Some(deadline) };
    let ended = suite::run_all(programs, None, order);
    let mut results = Results::new();
    for one in ended {
        let source = &sources[&one.title];
        results.extend(one.tests.into_iter().map(|test| ((source.clone(), test.name.clone()), test)));
    }
    Ok(results)
}

/// The figure of a promise from its tests; `None` where one of them was skipped, cut short or not begun.
fn of_tests(promise: &Promise, tests: &[(&str, &str)], ended: &Results, here: &Here) -> Option<Figure> {
    let mut figure = Figure {
        tried: 0,
        broken: 0,
        words: Vec::new(),
        failed: Vec::new(),
        date: here.date.clone(),
        machine: here.machine.clone(),
        command: format!("cargo xtask promises --only {}", promise.id),
        seconds: 0,
    };
    let mut took = Duration::ZERO;
    for (file, name) in tests {
        let test = ended.get(&((*file).to_owned(), (*name).to_owned()))?;
        took += test.took;
        match &test.outcome {
            Outcome::Skipped(reason) => {
                println!("{}: `{name}` was skipped: {reason}", promise.id);
                return None;
            }
            // Its time was up, or it was ended from outside: that breaks nothing, and shows nothing.
            Outcome::Failed if test.is_cut => return None,
            Outcome::Failed => figure.failed.push(format!("`{name}` failed")),
            Outcome::Passed => {}
        }
        for line in lines_of(promise.id, &test.output) {
            figure.tried += line.tried;
            figure.broken += line.broken;
            figure.words.extend((!line.words.is_empty()).then_some(line.words));
        }
    }
    figure.seconds = took.as_secs();
    // A test that says no figure shows nothing yet.
    (figure.tried > 0 || !figure.failed.is_empty()).then_some(figure)
}

struct Line {
    tried: u64,
    broken: u64,
    words: String,
}

/// The figures that a test printed of a promise.
fn lines_of(id: &str, output: &str) -> Vec<Line> {
    let prefix = format!("promise {id}: ");
    let read = |text: &str| {
        let (counts, words) = text.split_once(';').unwrap_or((text, ""));
        let (tried, broken) = counts.split_once(" tried, ")?;
        let broken = broken.strip_suffix(" broken")?.parse().ok()?;
        Some(Line { tried: tried.parse().ok()?, broken, words: words.trim().to_owned() })
    };
    after(output, &prefix).filter_map(read).collect()
}

fn of_fuzzing_for(span: Duration, here: &Here) -> Result<Option<Figure>, Box<dyn Error>> {
    if span.is_zero() {
        return Ok(None);
    }
    let failed = fuzz::run_all_for(span)?;
    let account = fuzz::Account::read()?;
    Ok(Some(Figure {
        tried: account.cpu_seconds(),
        broken: 0,
        words: vec![account.in_words()],
        failed,
        date: here.date.clone(),
        machine: here.machine.clone(),
        command: "cargo xtask promises --only fuzzing".into(),
        seconds: account.cpu_seconds(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_promise_has_a_section_and_tests_that_are_there_and_say_its_figure() {
        let mut problems = Vec::new();
        for promise in PROMISES {
            assert!(table::SECTIONS.iter().any(|(section, _)| *section == promise.section), "{}", promise.id);
            let Shown::Tests(tests) = promise.shown_by else { continue };
            for (file, test) in tests {
                let text = fs::read_to_string(kept::path(file)).unwrap_or_default();
                if !text.contains(&format!("fn {test}(")) {
                    problems.push(format!("{}: there is no `{test}` in {file}", promise.id));
                }
                let plain: String = text.split_whitespace().collect();
                if !plain.contains(&format!("promise(\"{}\"", promise.id)) {
                    problems.push(format!("{}: nothing in {file} says its figure", promise.id));
                }
            }
        }
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn the_document_is_what_the_table_and_the_kept_figures_give() {
        let kept = Kept::read().unwrap();
        let written = fs::read_to_string(kept::path("docs/PROMISES.md")).unwrap();
        assert!(written == document::text(&kept), "write it again: `cargo xtask promises --hours 0`");
        let known: BTreeSet<&str> = PROMISES.iter().map(|promise| promise.id).collect();
        assert_eq!(known.len(), PROMISES.len(), "an id is there twice");
        assert!(kept.figures.keys().all(|id| known.contains(id.as_str())), "a figure of no promise is kept");
    }

    #[test]
    fn figures_are_read_from_what_tests_print_and_added_up() {
        let output = "promise a: 5 tried, 0 broken; at once\nsays promise a: 7 tried, 0 broken\npromise ab: 1 tried, 0 broken\n\
                      promise a: 6 tried, 1 broken\npromise a: many\n";
        let lines = lines_of("a", output);
        let all: Vec<(u64, u64, &str)> =
            lines.iter().map(|line| (line.tried, line.broken, line.words.as_str())).collect();
        assert_eq!(all, [(5, 0, "at once"), (6, 1, "")]);
    }

    #[test]
    fn a_test_that_was_skipped_or_not_begun_gives_no_figure_and_one_that_failed_breaks_the_promise() {
        let promise = &PROMISES[0];
        let here = Here { machine: "2 CPUs".into(), date: "today".into() };
        let tests = [("f.rs", "t"), ("f.rs", "u")];
        let test = |name: &str, outcome: Outcome, is_cut| {
            let output = format!("promise {}: 5 tried, 0 broken; x\n", promise.id);
            let key = ("f.rs".to_owned(), name.to_owned());
            (key, Test { name: name.into(), outcome, took: Duration::from_secs(2), output, is_cut })
        };
        let figure = |second: Option<(Outcome, bool)>| {
            let mut ended: Results = [test("t", Outcome::Passed, false)].into();
            ended.extend(second.map(|(outcome, is_cut)| test("u", outcome, is_cut)));
            of_tests(promise, &tests, &ended, &here)
        };
        let both = figure(Some((Outcome::Passed, false))).unwrap();
        assert_eq!((both.tried, both.seconds, both.failed.len()), (10, 4, 0));
        assert_eq!(figure(Some((Outcome::Failed, false))).unwrap().failed, ["`u` failed"]);
        assert!(figure(Some((Outcome::Failed, true))).is_none());
        assert!(figure(Some((Outcome::Skipped("why".into()), false))).is_none());
        assert!(figure(None).is_none());
    }
}
