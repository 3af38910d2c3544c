//! The book's first page: which reports there are, and how each stands.

use super::{PageReport, agreement_words, is_never_run};
use crate::document::Rich;
use crate::markdown;
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
        let stands = |provenance| {
            if is_never_run(&entry.report, provenance) {
                return "not run".to_owned();
            }
            let words = agreement_words(entry.report.found.agreement(provenance));
            markdown::plain_part(words.trim_end_matches('.'))
        };
        vec![
            format!("[{}]({})", markdown::plain_part(&entry.report.page.title), entry.file),
            markdown::plain_part(&entry.report.study.question),
            stands(Provenance::Lab),
            stands(Provenance::Simulation),
        ]
    };
    markdown::marked_table(&mut out, &head, entries.iter().map(row).collect());
    if let Some(first) = entries.first() {
        markdown::line(&mut out, "---");
        let made = first.report.made;
        let footer =
            format!("Written by `{}` from {}. Not typed: changes are lost.", made.command, made.from);
        markdown::line(&mut out, &Rich::marked(footer).in_markdown());
    }
    markdown::finished(&out)
}
