//! The book's first page: which reports there are, and how each stands.

use super::{PageReport, agreement_words, is_never_run, standing_words};
use crate::document::Rich;
use crate::markdown;
use domain::page::{Column, Question};
use domain::trial::Provenance;

/// A page of the book.
#[derive(Clone, Copy, Debug)]
pub struct IndexEntry<'a> {
    /// The page.
    pub report: PageReport<'a>,
    /// Its file, from the book's folder.
    pub file: &'a str,
}

/// The first page, as Markdown.
pub fn index_markdown(entries: &[IndexEntry]) -> String {
    let mut out = String::new();
    markdown::line(&mut out, "# Published reports, measured again");
    markdown::line(
        &mut out,
        "Each of these reports has figures of a Linux storage or database workload. Each is a study here: the same question to a \
         real kernel in the lab, to a model of the report's machine, or to both. A page puts what came out beside what was \
         published, and says what it answers.",
    );
    let head = ["report", "question", "lab", "simulation"].map(str::to_owned);
    let row = |entry: &IndexEntry| {
        let stands = |column| {
            if is_never_run(&entry.report, column) {
                return "not run".to_owned();
            }
            let words = agreement_words(entry.report.found.agreement(column));
            markdown::plain_part(words.trim_end_matches('.'))
        };
        vec![
            format!("[{}]({})", markdown::plain_part(&entry.report.page.title), entry.file),
            markdown::plain_part(&entry.report.study.question),
            stands(Column::Lab),
            stands(Column::Simulation),
        ]
    };
    markdown::marked_table(&mut out, &head, entries.iter().map(row).collect());
    every_question(&mut out, entries);
    if let Some(first) = entries.first() {
        markdown::line(&mut out, "---");
        let made = first.report.made;
        let footer =
            format!("Written by `{}` from {}. Not typed: changes are lost.", made.command, made.from);
        markdown::line(&mut out, &Rich::marked(footer).in_markdown());
    }
    markdown::finished(&out)
}

/// The questions of all pages, a line each: where it is answered, and on which kinds of machine. A page whose
/// questions have notes alone is left out.
fn every_question(out: &mut String, entries: &[IndexEntry]) {
    let has_more = |question: &Question| {
        !question.answers.is_empty() || question.known.is_some() || !question.needs.is_empty()
    };
    let asked = |entry: &&IndexEntry| entry.report.page.questions.iter().any(has_more);
    for (index, entry) in entries.iter().filter(asked).enumerate() {
        if index == 0 {
            markdown::line(out, "## Every question");
            markdown::line(
                out,
                "What each report, its readers and its comments ask, wish or suppose. \"Answered\" means that cells of a kept run \
                 have figures, which may well be no clear answer; each question leads to them.",
            );
        }
        markdown::line(out, &format!("### {}", markdown::plain_part(&entry.report.page.title)));
        let head = ["question", "host", "lab", "simulation"].map(str::to_owned);
        let questions = entry.report.page.questions.iter().zip(&entry.report.found.questions);
        let rows = questions.map(|(question, found)| {
            let words = Provenance::MACHINES.map(|machine| {
                let standing = entry.report.standing(question, found, machine);
                Rich::marked(standing_words(&standing)).in_markdown()
            });
            let link = format!(
                "[{}]({}#{})",
                markdown::plain_part(&question.asked),
                entry.file,
                anchor(&question.asked)
            );
            [link].into_iter().chain(words).collect()
        });
        markdown::marked_table(out, &head, rows.collect());
    }
}

/// The name by which GitHub and other readers of Markdown link to a heading: its letters, digits, hyphens and
/// underscores in lower case, with a hyphen for each space.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}
