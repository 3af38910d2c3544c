//! Markdown (GitHub's) for an issue or a wiki: the same order as the page, tables without plots.

use crate::document::{Block, in_markdown};
use crate::{ComparisonReport, Report, sections};
use domain::inert;
use std::fmt::Write;

/// A run as Markdown.
pub fn markdown(report: &Report) -> String {
    rendered(&sections::run(report, "flyball"))
}

/// A comparison as Markdown.
pub fn comparison_markdown(report: &ComparisonReport) -> String {
    rendered(&sections::comparison(report))
}

fn rendered(blocks: &[Block]) -> String {
    let mut out = String::new();
    in_markdown(blocks, &mut out);
    finished(&out)
}

/// A document of which no text acts: what the fields' own functions have left is shown.
pub(crate) fn finished(document: &str) -> String {
    inert::lines(document).into_owned()
}

pub(crate) fn line(out: &mut String, text: &str) {
    if !out.is_empty() {
        out.push('\n');
    }
    writeln!(out, "{text}").expect(NEVER);
}

pub(crate) fn list(out: &mut String, items: impl Iterator<Item = String>) {
    let items: Vec<String> = items.map(|item| format!("- {item}")).collect();
    if !items.is_empty() {
        line(out, &items.join("\n"));
    }
}

/// A table whose fields are Markdown.
pub(crate) fn marked_table(out: &mut String, head: &[String], rows: Vec<Vec<String>>) {
    let row = |fields: &[String]| format!("| {} |", fields.join(" | "));
    let mut lines = vec![row(head), format!("|{}", "---|".repeat(head.len()))];
    lines.extend(rows.iter().map(|fields| row(fields)));
    line(out, &lines.join("\n"));
}

/// A block whose fence is longer than any that the text holds, so that the text cannot end it.
pub(crate) fn fenced(out: &mut String, language: &str, text: &str) {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    line(out, &format!("{fence}{language}\n{}\n{fence}", text.trim_end()));
}

pub(crate) fn code(text: &str) -> String {
    let text = inert::one_line(text.trim()).replace('|', "\\|");
    if text.contains('`') { plain_part(&text) } else { format!("`{text}`") }
}

/// Markdown that stands for itself as a paragraph: what would begin a quotation, a list or a rule does not.
pub(crate) fn paragraph(text: &str) -> String {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = text.split_at(digits);
    let begins = |marks: &[&str]| marks.iter().any(|mark| rest.starts_with(mark) || rest == mark.trim_end());
    let is_mark = match digits {
        0 => begins(&[">", "- ", "--", "+ "]),
        _ => begins(&[". ", ") "]),
    };
    if is_mark { format!("{number}\\{rest}") } else { text.to_owned() }
}

/// A stretch of text that Markdown shows as it is, on one line; blanks at its ends count.
pub(crate) fn plain_part(text: &str) -> String {
    let text = text.replace(['\n', '\r', '\t'], " ");
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    let text = inert::one_line(&text);
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        // Within a word it is no mark: `read_ahead_kb`.
        let in_word = before.is_alphanumeric() && rest.peek().is_some_and(|next| next.is_alphanumeric());
        match c {
            '<' => out.push_str("&lt;"),
            '&' => out.push_str("&amp;"),
            '_' if in_word => out.push(c),
            '\\' | '`' | '~' | '*' | '_' | '[' | ']' | '|' | '#' => out.extend(['\\', c]),
            c => out.push(c),
        }
        before = c;
    }
    out
}

const NEVER: &str = "a String takes all that is written to it";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_markup() {
        for (text, shown) in [
            ("read_ahead_kb is 3.5, +4% - a", "read_ahead_kb is 3.5, +4% - a"),
            (
                "a|b `c` <i>&amp; _d_ *e* ![f](g) \x1b[1m\n# h",
                "a\\|b \\`c\\` &lt;i>&amp;amp; \\_d\\_ \\*e\\* !\\[f\\](g) \\\\x1b\\[1m \\# h",
            ),
            ("\u{202e}", "\\\\u{202e}"),
        ] {
            assert_eq!(plain_part(text), shown);
        }
        for (text, shown) in [
            ("> a", "\\> a"),
            ("- a", "\\- a"),
            ("---", "\\---"),
            ("12. a", "12\\. a"),
            ("3.5 a", "3.5 a"),
            ("-3", "-3"),
        ] {
            assert_eq!(paragraph(&plain_part(text)), shown);
        }
    }
}
