//! `docs/PROMISES.md`, written from the table of promises and the figures that are kept. The same two give
//! the same text.

use super::kept::{Figure, Kept};
use super::table::{NOT_PROMISED, PROMISES, Promise, SECTIONS, Shown};
use std::fmt::Write;

const HEAD: &str = "# Promises

What Flyball promises, the tests that show it, and how often each was tried. This file is written by `make promises`; the sentences
stand in `xtask/src/promises/table.rs`, the figures in `promises.json`. `make test` runs a part of each test, chosen by a seed.
A figure is of the machine and the day named with it.
";

/// The whole document.
pub fn text(kept: &Kept) -> String {
    let mut text = HEAD.to_owned();
    text.push_str(&short_of_the_aim(kept));
    for (section, words) in SECTIONS {
        let _ = write!(text, "\n## {section}\n\n{words}\n");
        for promise in PROMISES.iter().filter(|promise| promise.section == section) {
            text.push_str(&one(promise, kept.figures.get(promise.id)));
        }
    }
    text.push_str("\n## What is not promised\n\n");
    NOT_PROMISED.iter().for_each(|words| text.extend(["- ", words, "\n"]));
    text
}

/// What a reader has to know first.
fn short_of_the_aim(kept: &Kept) -> String {
    let is_short = |promise: &&Promise| state(promise, kept.figures.get(promise.id)) != State::Reached;
    let short: Vec<String> =
        PROMISES.iter().filter(is_short).map(|promise| format!("`{}`", promise.id)).collect();
    if short.is_empty() {
        return "\nEach figure reaches its aim, and none is broken.\n".to_owned();
    }
    format!(
        "\nBroken, short of their aim or not run, {} of {}: {}.\n",
        short.len(),
        PROMISES.len(),
        short.join(", ")
    )
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    NotRun,
    Broken,
    Short,
    Reached,
}

fn state(promise: &Promise, figure: Option<&Figure>) -> State {
    match figure {
        None => State::NotRun,
        Some(figure) if figure.broken > 0 || !figure.failed.is_empty() => State::Broken,
        Some(figure) if figure.tried < promise.wanted => State::Short,
        Some(_) => State::Reached,
    }
}

fn one(promise: &Promise, figure: Option<&Figure>) -> String {
    let mut text = format!("\n### {}\n\n{}\n\n", promise.id, promise.sentence);
    match promise.shown_by {
        Shown::Tests(tests) => tests.iter().for_each(|(file, test)| {
            let _ = writeln!(text, "- Shown by `{test}` in `{file}`.");
        }),
        Shown::Fuzzing => {
            text.push_str("- Shown by `cargo xtask fuzz all`; its account is `fuzz/account.json`.\n")
        }
    }
    let (wanted, unit) = (grouped(promise.wanted), promise.unit);
    let _ = match (state(promise, figure), figure) {
        (_, None) => writeln!(text, "- **Not run.** Wanted: {wanted} {unit}."),
        (State::Broken, Some(it)) => {
            let (tried, broken) = (grouped(it.tried), it.broken.max(it.failed.len() as u64));
            writeln!(text, "- **Broken**: {broken} of {tried} {unit}; {}.", it.failed.join(", "))
        }
        (State::Short, Some(it)) => {
            writeln!(text, "- **Short of its aim**: {} of {wanted} {unit}; 0 broken.", grouped(it.tried))
        }
        (_, Some(it)) => writeln!(text, "- {} {unit}, 0 broken. Wanted: {wanted}.", grouped(it.tried)),
    };
    if let Some(it) = figure {
        text.extend(it.words.iter().map(|words| format!("  - {words}\n")));
        let _ =
            writeln!(text, "- {}, {}, in {}: `{}`.", it.date, it.machine, lasting(it.seconds), it.command);
    }
    text
}

fn lasting(seconds: u64) -> String {
    if seconds < 120 { format!("{seconds} s") } else { format!("{} min", (seconds + 30) / 60) }
}

/// With commas at the thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn figure(tried: u64, failed: &[&str]) -> Figure {
        Figure {
            tried,
            broken: 0,
            words: vec!["in words".into()],
            failed: failed.iter().map(|&f| f.to_owned()).collect(),
            date: "2026-11-23".into(),
            machine: "2 CPUs".into(),
            command: "it".into(),
            seconds: 90,
        }
    }

    fn of(figure: Option<Figure>) -> String {
        let figures: BTreeMap<String, Figure> =
            figure.map(|figure| ("foreign-writes".to_owned(), figure)).into_iter().collect();
        let text = text(&Kept { figures });
        let section = text.split("### ").find(|section| section.starts_with("foreign-writes\n")).unwrap();
        section.to_owned()
    }

    #[test]
    fn what_falls_short_is_broken_or_was_not_run_is_said() {
        assert!(of(None).contains("- **Not run.** Wanted: 1,000 foreign writes."), "{}", of(None));
        let short = of(Some(figure(999, &[])));
        assert!(short.contains("**Short of its aim**: 999 of 1,000 foreign writes; 0 broken."), "{short}");
        let broken = of(Some(figure(5000, &["the_test"])));
        assert!(broken.contains("**Broken**: 1 of 5,000 foreign writes; the_test."), "{broken}");
        let reached = of(Some(figure(1000, &[])));
        assert!(
            reached.contains("- 1,000 foreign writes, 0 broken. Wanted: 1,000.\n  - in words\n"),
            "{reached}"
        );
        assert!(reached.contains("- 2026-11-23, 2 CPUs, in 90 s: `it`."), "{reached}");
    }

    #[test]
    fn the_head_names_all_that_is_not_reached() {
        let head = text(&Kept::default());
        assert!(head.contains(&format!("{0} of {0}: `modelled-kills`, ", PROMISES.len())), "{head}");
    }
}
