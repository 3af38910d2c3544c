//! Markdown (GitHub's) for an issue or a wiki: the same order as the page, tables without plots.

use crate::document::in_markdown;
use crate::wording::{
    CONTEXT_TITLE, MAX_LEFT_OUT, aa_floor, asked_and_context, capitalised, cell_interval, cell_median,
    comparison_row, comparison_table, counted, direction, expected, headline, how_to_see_more, joined,
    left_out, left_out_kinds, levels, load_note, machine, names, one_line, percent, question, relative,
    run_again, standing, tools, trial_count, trial_name, why_not_counted, workloads,
};
use crate::{ComparisonReport, Report, published, sections, simulation};
use analysis::summary::FactorEffect;
use domain::inert;
use std::fmt::Write;

/// A run as Markdown.
pub fn markdown(report: &Report) -> String {
    let mut out = String::new();
    line(&mut out, &format!("# {}", plain(question(report))));
    line(&mut out, &format!("**{}**", plain(&headline(report))));
    if let Some(note) = simulation::note(report) {
        line(&mut out, &format!("> **{note}**"));
    }
    line(&mut out, &paragraph(&machine(report)));
    line(&mut out, &paragraph(&facts(report)));
    if report.data.study.is_recording() {
        in_markdown(&sections::recorded(report), &mut out);
    } else {
        results(report, &mut out);
        in_markdown(&sections::costs(report), &mut out);
        beside_published(report, &mut out);
        effects(report, &mut out);
    }
    in_markdown(&sections::virtual_machine(report), &mut out);
    findings(report, &mut out);
    in_markdown(&sections::not_measured(report), &mut out);
    not_counted(report, &mut out);
    reproduce(report, &mut out);
    finished(&out)
}

/// Which run it is. Nothing of a recording was planned, so it has no seed.
fn facts(report: &Report) -> String {
    let run = &report.data.run;
    let run_on = format!("{} on {}", run.id, run.provenance.name());
    if report.data.study.is_recording() {
        return run_on;
    }
    format!("{run_on}: {}, seed {}", trial_count(report), run.seed)
}

/// A comparison as Markdown.
pub fn comparison_markdown(report: &ComparisonReport) -> String {
    let mut out = String::new();
    line(&mut out, &format!("# {}", plain(&report.title)));
    line(&mut out, &format!("**{}**", plain(&report.sentence)));
    let rows = report.comparisons.iter().map(|(context, c)| comparison_row(context, c));
    comparisons(rows.collect(), &[], &mut out);
    list(
        &mut out,
        report.comparisons.iter().map(|(context, c)| plain(&format!("{context}: {}", c.sentence))),
    );
    if !report.notes.is_empty() {
        line(&mut out, "## To know besides");
    }
    list(&mut out, report.notes.iter().map(|n| plain(n)));
    finished(&out)
}

/// A document of which no text acts: what the fields' own functions have left is shown.
pub(crate) fn finished(document: &str) -> String {
    inert::lines(document).into_owned()
}

fn results(report: &Report, out: &mut String) {
    let s = report.summary;
    for workload in workloads(&s.cells) {
        line(out, &format!("## {}: {}, {}", plain(workload), plain(&s.metric), direction(s.better)));
        let cells = s.cells.iter().filter(|c| c.workload == workload);
        let row = |c| -> Vec<String> {
            let c: &analysis::summary::CellSummary = c;
            let counts = format!(
                "{}{}",
                c.points.len(),
                if c.excluded.is_empty() {
                    String::new()
                } else {
                    format!(" (+{} not counted)", c.excluded.len())
                }
            );
            vec![
                levels(report, c),
                counts,
                cell_median(report, c),
                cell_interval(report, c),
                relative(c.relative),
                percent(c.spread),
            ]
        };
        table(out, &["cell", "n", "median", "interval", "of best", "spread"], cells.map(row).collect());
    }
    if !s.cells.is_empty() {
        line(out, &aa_floor(report));
    }
    load_note(report).into_iter().for_each(|note| line(out, &paragraph(&note)));
}

const COMPARISON_HEAD: [&str; 6] = ["in", "against", "ratio", "interval", "p", "verdict"];

fn effects(report: &Report, out: &mut String) {
    let (asked, context) = asked_and_context(report);
    if !asked.is_empty() {
        line(out, "## What each factor changes");
        effect_table(&asked, &[], out);
    }
    if !context.is_empty() {
        line(out, &format!("## {CONTEXT_TITLE}"));
        effect_table(&context, &["p", "verdict"], out);
    }
    let attribution = &report.summary.attribution;
    if !attribution.is_empty() {
        line(out, "## What decides");
        let row = |a: &analysis::summary::Attribution| {
            vec![a.workload.clone(), a.source.clone(), percent(Some(a.share))]
        };
        table(out, &["workload", "by", "share of the variance"], attribution.iter().map(row).collect());
    }
}

fn effect_table(effects: &[&FactorEffect], left_out: &[&str], out: &mut String) {
    let rows_of = |e: &&FactorEffect| -> Vec<Vec<String>> {
        let context = joined([e.factor.as_str(), &e.context]);
        e.comparisons.iter().map(|c| comparison_row(&context, c)).collect()
    };
    comparisons(effects.iter().flat_map(rows_of).collect(), left_out, out);
}

fn comparisons(rows: Vec<Vec<String>>, left_out: &[&str], out: &mut String) {
    let (head, rows) = comparison_table(COMPARISON_HEAD, rows, left_out);
    table(out, &head, rows);
}

/// The run beside what was published; nothing where the study has none of that.
fn beside_published(report: &Report, out: &mut String) {
    let rows = &report.summary.published;
    if rows.is_empty() {
        return;
    }
    line(out, &format!("## {}", published::TITLE));
    line(out, &paragraph(&format!("{} {}", published::sentence(report), published::provenance(report))));
    let head = published::head(report);
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    table(out, &head, rows.iter().map(|row| published::row(report, row)).collect());
    line(out, published::LEGEND);
    let apart =
        published::disagreements(report).into_iter().map(|s| format!("**Does not agree:** {}", plain(&s)));
    list(out, apart.chain(published::notes(report).iter().map(|note| plain(note))));
    list(out, (1..).zip(published::sources(report)).map(|(n, source)| plain(&format!("[{n}] {source}"))));
}

fn findings(report: &Report, out: &mut String) {
    if !report.findings.is_empty() {
        line(out, "## Findings");
    }
    let names = names(report);
    for f in report.findings {
        let title = capitalised(&f.title, &names);
        line(out, &format!("### {} ({})", plain(&title), f.confidence.name()));
        line(out, &paragraph(&f.reason));
        list(out, f.evidence.iter().map(|e| plain(&format!("{}: {} ({})", e.what, e.figure, e.source))));
        if let Some(gain) = &f.gain {
            line(out, &format!("Expected: {}", plain(&expected(gain))));
        }
        if let Some(remedy) = &f.remedy {
            line(out, &format!("Remedy: {}", plain(&remedy.what)));
            list(out, remedy.settings.iter().map(|s| code(&s.to_string())));
            line(out, &format!("Undo: {}", plain(&remedy.undo)));
        }
        if !f.next.is_empty() {
            fenced(out, "sh", &f.next);
        }
    }
}

fn not_counted(report: &Report, out: &mut String) {
    let left_out = left_out(report);
    if left_out.is_empty() {
        return;
    }
    line(out, &format!("## {} not counted", counted(left_out.len(), "trial")));
    line(out, &paragraph(&left_out_kinds(&left_out)));
    let row = |t: &&domain::Trial| {
        let name = format!("{}, {}", t.key.cell, trial_name(&t.key));
        vec![name, standing(&t.validity).to_owned(), why_not_counted(&t.validity)]
    };
    table(out, &["trial", "standing", "why"], left_out.iter().take(MAX_LEFT_OUT).map(row).collect());
    if let Some((more, command)) = how_to_see_more(report, &left_out) {
        line(out, &paragraph(&more));
        fenced(out, "sh", &command);
    }
}

fn reproduce(report: &Report, out: &mut String) {
    let run = &report.data.run;
    line(out, "## How to reproduce it");
    let mut versions = vec![format!("Flyball {}", run.flyball)];
    versions.extend(tools(report));
    line(out, &paragraph(&versions.join(", ")));
    fenced(out, "sh", &run_again(report));
    fenced(out, "toml", &run.study_text);
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

fn table(out: &mut String, head: &[&str], rows: Vec<Vec<String>>) {
    let head: Vec<String> = head.iter().map(|name| plain(name)).collect();
    let rows = rows.iter().map(|row| row.iter().map(|field| plain(field)).collect());
    marked_table(out, &head, rows.collect());
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
    if text.contains('`') { plain(&text) } else { format!("`{text}`") }
}

/// Text that Markdown shows as it is, on one line, which stands for itself.
fn paragraph(text: &str) -> String {
    let text = plain(text);
    // What would begin a quotation, a list or a rule.
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, rest) = text.split_at(digits);
    let begins = |marks: &[&str]| marks.iter().any(|mark| rest.starts_with(mark) || rest == mark.trim_end());
    let is_mark = match digits {
        0 => begins(&[">", "- ", "--", "+ "]),
        _ => begins(&[". ", ") "]),
    };
    if is_mark { format!("{number}\\{rest}") } else { text }
}

/// Text that Markdown shows as it is, on one line.
fn plain(text: &str) -> String {
    plain_part(&one_line(text))
}

/// A stretch of such a line, whose blanks at the ends count.
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
            assert_eq!(plain(text), shown);
        }
        for (text, shown) in [
            ("> a", "\\> a"),
            ("- a", "\\- a"),
            ("---", "\\---"),
            ("12. a", "12\\. a"),
            ("3.5 a", "3.5 a"),
            ("-3", "-3"),
        ] {
            assert_eq!(paragraph(text), shown);
        }
    }
}
