//! A page of the book: what was published, the lab and the simulation side by side, and what they say to the
//! questions that a report left open.
//!
//! A page is put together once, as headings, paragraphs and tables ([`document`]), and written in each form
//! from that: so all forms say the same in the same order. What is not there is said in words: a cell without
//! a run says "not run".

mod cells;
mod index;
mod json;

pub use index::{IndexEntry, index_markdown};

use analysis::page::{
    AnswerFound, CellTally, Found, PartFound, PartRuns, QuestionFound, Seen, Standing, Tally,
};
use cells::{answer_cell, compared, held_cell, run_line};
use domain::ids::RunId;
use domain::page::Column;
use domain::page::{Look, Page, Part, Question, YesIf};
use domain::study::Study;
use domain::trial::Provenance;
use std::collections::{BTreeMap, BTreeSet};

use crate::document::{Block, Document, Rich, Table};
use crate::published;
use crate::wording::{counted, quoted};
use analysis::words::{listed, ratio_words};

/// Everything that a page shows.
#[derive(Clone, Copy, Debug)]
pub struct PageReport<'a> {
    /// The page.
    pub page: &'a Page,
    /// The study that holds it.
    pub study: &'a Study,
    /// The file of each part's study, as commands name it; in the order of the page.
    pub files: &'a [String],
    /// The studies with their runs, in the same order.
    pub parts: &'a [PartRuns],
    /// What the runs say.
    pub found: &'a Found,
    /// The machine of each run in one line.
    pub machines: &'a BTreeMap<RunId, String>,
    /// Where the runs were taken from, and by which command the page was written.
    pub made: &'a PageOrigin,
}

impl PageReport<'_> {
    /// How a question of the page stands on one kind of machine.
    fn standing(&self, question: &Question, found: &QuestionFound, machine: Provenance) -> Standing {
        found.standing(self.page, question, self.parts, machine)
    }
}

/// How a page was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageOrigin {
    /// Where its runs are: a notebook, or a folder of kept runs.
    pub from: String,
    /// The command that writes it.
    pub command: String,
}

/// A page as text for a terminal.
pub fn page_text(report: &PageReport) -> String {
    document(report).text()
}

/// A page as Markdown.
pub fn page_markdown(report: &PageReport) -> String {
    document(report).markdown()
}

/// A page as one HTML file.
pub fn page_html(report: &PageReport) -> String {
    document(report).html()
}

/// A page as JSON, indented, with a newline at its end.
pub fn page_json(report: &PageReport) -> String {
    json::json(report)
}

fn document(report: &PageReport) -> Document {
    let mut blocks = vec![Block::Paragraph(Rich::marked(&report.study.question))];
    blocks.extend(in_short(report));
    blocks.extend(what_was_published(report));
    blocks.extend(side_by_side(report));
    blocks.extend(questions(report));
    blocks.extend(not_reproduced(report));
    blocks.extend(runs(report));
    blocks.extend(anew(report));
    let overline = format!("Flyball, a published report and its study `{}`", report.study.name);
    let footer = format!(
        "Written by `{}` from {}. Not typed: changes are lost.",
        report.made.command, report.made.from
    );
    Document {
        overline: Rich::marked(overline),
        title: report.page.title.clone(),
        blocks,
        footer: Rich::marked(footer),
    }
}

fn heading(level: u8, text: impl AsRef<str>) -> Block {
    Block::Heading(level, Rich::marked(text))
}

fn table(head: impl IntoIterator<Item = String>, rows: impl IntoIterator<Item = Vec<String>>) -> Block {
    let fields = |row: Vec<String>| row.iter().map(Rich::marked).collect();
    Block::Table(Table {
        head: head.into_iter().map(Rich::marked).collect(),
        rows: rows.into_iter().map(fields).collect(),
        numbers: Vec::new(),
    })
}

/// The columns of this page: two that are always there, and those of its runs.
fn columns(report: &PageReport) -> Vec<Column> {
    let there: BTreeSet<Column> = report.parts.iter().flat_map(|part| part.runs.keys().copied()).collect();
    let always = [Column::Lab, Column::Simulation];
    Column::ALL.into_iter().filter(|column| always.contains(column) || there.contains(column)).collect()
}

/// As a column and a sentence name it.
const fn name(column: Column) -> &'static str {
    match column {
        Column::Host => "Host",
        Column::Lab => "Lab",
        Column::LabModel => "Model of the lab",
        Column::Simulation => "Simulation",
        Column::Imported => "Imported",
    }
}

fn in_short(report: &PageReport) -> Vec<Block> {
    let figures = columns(report).into_iter().map(|column| {
        let words = if is_never_run(report, column) {
            "not run.".to_owned()
        } else {
            agreement_words(report.found.agreement(column))
        };
        format!("**{}:** {words}", name(column))
    });
    let asked = report.page.questions.iter().zip(&report.found.questions);
    let questions = asked.map(|(question, found)| {
        let answers =
            found.answers.iter().map(|answer| format!("{}: {}", answer.claim, answer_words(report, answer)));
        let answers: Vec<Rich> = answers.map(Rich::marked).collect();
        let answers = match (&answers[..], question.known.as_ref().or(question.note.as_ref())) {
            ([], Some(text)) => vec![Rich::marked(text.clone())],
            ([], None) => vec![Rich::plain("Not answered here; see below.")],
            _ => answers,
        };
        (Rich::marked(format!("**{}**", question.asked)), answers)
    });
    vec![
        heading(2, "In short"),
        Block::List(figures.map(Rich::marked).collect()),
        Block::Outline(questions.collect()),
    ]
}

/// Whether no part of a page was run on such machines, and each says why.
fn is_never_run(report: &PageReport, column: Column) -> bool {
    let mut parts = report.page.parts.iter().zip(report.parts);
    parts.all(|(told, runs)| is_left_out(told, runs, column))
}

/// Whether a part has no run in a column, and needs none: it says why, or the column is one that is there
/// where a run is.
fn is_left_out(told: &Part, runs: &PartRuns, column: Column) -> bool {
    let needs_none = column == Column::LabModel || told.not_run.contains_key(&column.kind());
    needs_none && !runs.runs.contains_key(&column)
}

/// `of 12 rows beside published figures, 9 agree and 3 do not agree.`
pub(crate) fn agreement_words(tally: Tally) -> String {
    let Tally { all, yes, no, undecided } = tally;
    if tally.measured() == 0 {
        return format!("none of {} beside published figures has a trial that counts.", counted(all, "row"));
    }
    let part = |count: usize, one: &str, more: &str| match count {
        0 => None,
        1 => Some(format!("1 {one}")),
        n => Some(format!("{n} {more}")),
    };
    let parts: Vec<String> = [
        part(yes, "agrees", "agree"),
        part(no, "does not agree", "do not agree"),
        part(undecided, "is undecided", "are undecided"),
        part(
            all - tally.measured(),
            "was not run or has no trial that counts",
            "were not run or have no trial that counts",
        ),
    ]
    .into_iter()
    .flatten()
    .collect();
    format!("of {} beside published figures, {}.", counted(all, "row"), listed(&parts))
}

/// `lab: yes, ×0.83; simulation: not run.` A kind of machine on which the study is not run is left out.
fn answer_words(report: &PageReport, answer: &AnswerFound) -> String {
    if answer.yes_if.is_none() {
        return "see the table below.".to_owned();
    }
    let part = report.parts.iter().position(|part| part.study.name == answer.study);
    let is_never_run = |column: &Column| {
        part.is_some_and(|index| is_left_out(&report.page.parts[index], &report.parts[index], *column))
    };
    let words = columns(report).into_iter().filter(|column| !is_never_run(column)).map(|column| {
        let tally = answer.says(column);
        let had_trials =
            |line: &analysis::page::Line| matches!(line.seen.get(&column), Some(Seen::Nothing(Some(_))));
        let words = match tally.measured() {
            0 if answer.lines.iter().any(had_trials) => "no figure".to_owned(),
            _ => tally_words(tally),
        };
        format!("{} **{words}**{}", name(column).to_lowercase(), ratios(answer, column))
    });
    let words: Vec<String> = words.collect();
    if words.is_empty() { "not run.".to_owned() } else { format!("{}.", words.join("; ")) }
}

/// From which ratio to which an answer's comparisons go: ` (×0.26 to ×0.28)`.
fn ratios(answer: &AnswerFound, column: Column) -> String {
    let compared = answer.lines.iter().filter_map(|line| match line.seen.get(&column) {
        Some(Seen::Compared(comparison, _)) => comparison.ratio,
        _ => None,
    });
    let ratios: Vec<f64> = compared.collect();
    let ends = ratios.iter().copied().reduce(f64::min).zip(ratios.iter().copied().reduce(f64::max));
    let Some((low, high)) = ends.filter(|_| answer.says(column).measured() > 0) else { return String::new() };
    match (ratio_words(low), ratio_words(high)) {
        (low, high) if low == high => format!(" (×{low})"),
        (low, high) => format!(" (×{low} to ×{high})"),
    }
}

fn tally_words(tally: Tally) -> String {
    let Tally { all, yes, no, undecided } = tally;
    let measured = tally.measured();
    if measured == 0 {
        return "not run".to_owned();
    }
    let comparisons = counted(measured, "comparison");
    let words = match (yes, no, undecided) {
        (1, 0, 0) => "yes".to_owned(),
        (_, 0, 0) => format!("yes, in all {comparisons}"),
        (0, 1, 0) => "no".to_owned(),
        (0, _, 0) => format!("no, in all {comparisons}"),
        (0, 0, _) => "cannot tell yet".to_owned(),
        _ => {
            let parts = [(yes, "yes"), (no, "no"), (undecided, "cannot tell")];
            let parts: Vec<String> = parts
                .into_iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, word)| format!("{word} in {count}"))
                .collect();
            format!("{} of {comparisons}", listed(&parts))
        }
    };
    match all - measured {
        0 => words,
        missing => format!("{words}; {missing} more not run"),
    }
}

fn what_was_published(report: &PageReport) -> Vec<Block> {
    let mut blocks = vec![heading(2, "What was published")];
    blocks.extend(report.page.published.iter().map(Rich::marked).map(Block::Paragraph));
    blocks.push(Block::Note(Rich::marked(format!("Source: {}", report.page.source))));
    blocks
}

const LEGEND: &str = "✓ the whole interval agrees with what was published, ✗ none of it does, ? a part of it does or there are too \
     few trials for an interval. A simulation's trials differ by their seeds, and by the sources of variation in the machine's file: its intervals are over these, say nothing of \
     how far the model is from a machine, and where they are too few for one all of them have to agree. In brackets after a published value: from where to where a figure agrees with it; after one of \
     ours: its interval, and the number of trials that count, of both cells where one is divided by another. \"absolute\" is a figure in its unit, \"ratio\" one cell over \
     another, \"bound\" and \"order\" are the same where only a bound was published. Columns are never compared with one \
     another, each is held against what was published.";

const OF_THE_LABS_MODEL: &str = "The model of the lab simulates the lab's own machine and no other: by how much it differs from the lab, it is wrong.";

fn side_by_side(report: &PageReport) -> Vec<Block> {
    let columns = columns(report);
    let names: Vec<String> = columns.iter().map(|column| name(*column).to_lowercase()).collect();
    let mut blocks = vec![
        heading(2, format!("Published, {} side by side", listed(&names))),
        Block::Note(Rich::marked(LEGEND)),
    ];
    if columns.contains(&Column::LabModel) {
        blocks.push(Block::Note(Rich::marked(OF_THE_LABS_MODEL)));
    }
    for (((part, runs), found), file) in
        report.page.parts.iter().zip(report.parts).zip(&report.found.parts).zip(report.files)
    {
        blocks.push(heading(3, format!("`{}`", runs.study.name)));
        blocks.push(Block::Paragraph(Rich::marked(format!("{} Study: `{file}`.", part.about))));
        blocks.extend(rows(found, &columns));
        blocks.extend(by_cell(part, found, &columns));
        let lines = what_was_run(part, runs, found, &columns);
        blocks.push(Block::List(lines.iter().map(Rich::marked).collect()));
    }
    blocks
}

fn rows(found: &PartFound, columns: &[Column]) -> Option<Block> {
    let head = ["what", "compared", "published"].into_iter().map(str::to_owned);
    let head = head.chain(columns.iter().map(|column| name(*column).to_lowercase()));
    let row = |row: &analysis::page::Row| -> Vec<String> {
        let beside = &row.published;
        let what = format!("{} of {}", beside.metric, beside.what);
        let ours = columns.iter().map(|column| held_cell(row.ours.get(column)));
        [what, compared(beside).to_owned(), published::published(beside)].into_iter().chain(ours).collect()
    };
    let rows: Vec<Vec<String>> = found.rows.iter().map(row).collect();
    (!rows.is_empty()).then(|| table(head, rows))
}

/// How many of the rows agree for each cell, where not all cells are shown.
fn by_cell(part: &Part, found: &PartFound, columns: &[Column]) -> Vec<Block> {
    let Some(first) = found.by_cell.first() else { return Vec::new() };
    let columns: Vec<Column> =
        columns.iter().copied().filter(|column| first.tally.contains_key(column)).collect();
    let head = ["rows that agree".to_owned()].into_iter();
    let head = head.chain(columns.iter().map(|column| name(*column).to_lowercase()));
    let row = |cell: &CellTally| -> Vec<String> {
        let tallies = columns.iter().map(|column| cell.tally.get(column).copied().unwrap_or_default());
        let counts = tallies.map(|tally| format!("{} of {}", tally.yes, tally.all));
        [cell.what.clone()].into_iter().chain(counts).collect()
    };
    let only: Vec<String> = part.only.iter().map(|(factor, level)| format!("{factor} {level}")).collect();
    vec![
        Block::Paragraph(Rich::marked(format!(
            "The table shows {}. Of the same rows agree, cell by cell:",
            listed(&only)
        ))),
        table(head, found.by_cell.iter().map(row)),
    ]
}

/// Which runs the columns are, why one is missing, and what rows say besides.
fn what_was_run(part: &Part, runs: &PartRuns, found: &PartFound, columns: &[Column]) -> Vec<String> {
    let mut lines = Vec::new();
    for column in columns {
        let name = name(*column);
        match (runs.runs.get(column), part.not_run.get(&column.kind())) {
            (Some(run), _) => lines.push(format!("{name}: {}", run_line(run))),
            (None, _) if *column == Column::LabModel => {}
            (None, Some(why)) => lines.push(format!("{name}: not run: {why}")),
            (None, None) => lines.push(format!("{name}: not run yet")),
        }
        if let Some(what) = found.differs.get(column) {
            let what: Vec<String> = what.iter().map(|what| (*what).to_owned()).collect();
            lines.push(format!(
                "**{name}: measured with an earlier version of this study, in which {} differed; run it again.**",
                listed(&what)
            ));
        }
    }
    lines.extend(notes(found));
    lines
}

fn notes(found: &PartFound) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for beside in found.rows.iter().map(|row| &row.published) {
        let Some(note) = &beside.note else { continue };
        let note = format!("{}: {note}", beside.what);
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

const VERDICTS: &str = "Each question is taken as claims, and each claim as comparisons of two cells within one run, by the ratio of the \
     one to the other (×0.83 is 17% less). Better and worse are claimed where the interval of the ratio clears the study's \
     practical threshold (2% unless it says otherwise) and a permutation test agrees; \"not different\" where the whole interval \
     lies within the threshold; else nothing can be told yet.";

fn questions(report: &PageReport) -> Vec<Block> {
    if report.page.questions.is_empty() {
        return Vec::new();
    }
    let mut blocks =
        vec![heading(2, "What the figures say to the open questions"), Block::Note(Rich::marked(VERDICTS))];
    for (question, found) in report.page.questions.iter().zip(&report.found.questions) {
        blocks.push(heading(3, &question.asked));
        for answer in &found.answers {
            let words = answer_words(report, answer);
            let (claim, study) = (&answer.claim, &answer.study);
            blocks.push(Block::Paragraph(Rich::marked(format!(
                "**{claim}.** In the study `{study}`: {words}"
            ))));
            blocks.push(lines(report, answer));
        }
        blocks.extend(question.known.as_ref().map(Rich::marked).map(Block::Paragraph));
        blocks.extend(question.note.as_ref().map(Rich::marked).map(Block::Paragraph));
        blocks.extend(unanswered(report, question, found));
    }
    blocks
}

/// On which kinds of machine a question is not answered, or not wholly, and what that needs.
fn unanswered(report: &PageReport, question: &Question, found: &QuestionFound) -> Option<Block> {
    let line = |machine: Provenance| {
        let words = match report.standing(question, found, machine) {
            Standing::Answered { needs: None, .. } | Standing::Known | Standing::Open => return None,
            Standing::Answered { needs: Some(needs), .. } => format!("the rest needs {needs}."),
            standing => format!("{}.", standing_words(&standing)),
        };
        Some(Rich::marked(format!("**{}:** {words}", name(Column::of_kind(machine)))))
    };
    let lines: Vec<Rich> = Provenance::MACHINES.into_iter().filter_map(line).collect();
    (!lines.is_empty()).then_some(Block::List(lines))
}

/// `answered, 2 of 3 claims`; `not answered: needs two further disks`.
fn standing_words(standing: &Standing) -> String {
    match standing {
        Standing::Answered { claims, of, needs } => {
            let part =
                if claims < of { format!(", {claims} of {}", counted(*of, "claim")) } else { String::new() };
            let needs = needs.as_ref().map(|needs| format!("; the rest needs {needs}"));
            format!("answered{part}{}", needs.unwrap_or_default())
        }
        Standing::Known => "answered by its source".to_owned(),
        Standing::Needs(needs) => format!("not answered: needs {needs}"),
        Standing::NotRun(why) => format!("not run: {why}"),
        Standing::Open => "not answered".to_owned(),
    }
}

fn lines(report: &PageReport, answer: &AnswerFound) -> Block {
    let columns = columns(report);
    let first = match (&answer.metric, answer.yes_if, &answer.look) {
        (Some(metric), Some(yes_if), _) => format!("{metric}; yes where {}", yes_words(yes_if)),
        (.., Look::Spent) => "shares of CPU time, by what it was spent in".to_owned(),
        (.., Look::Windows) => "load between samples of the governor, busiest CPU".to_owned(),
        (Some(metric), _, Look::Figure { .. }) => format!("{metric}; median"),
        (Some(metric), _, Look::Spread { .. }) => format!("{metric}; from the least trial to the most"),
        (.., Look::Cpu | Look::Figure { .. } | Look::Spread { .. } | Look::Against { .. }) => {
            "cores kept busy, by role".to_owned()
        }
    };
    let head = [first].into_iter().chain(columns.iter().map(|column| name(*column).to_lowercase()));
    let row = |line: &analysis::page::Line| -> Vec<String> {
        let seen = columns.iter().map(|column| answer_cell(line.seen.get(column)));
        [line.what.clone()].into_iter().chain(seen).collect()
    };
    table(head, answer.lines.iter().map(row))
}

const fn yes_words(yes_if: YesIf) -> &'static str {
    match yes_if {
        YesIf::Better => "better",
        YesIf::Worse => "worse",
        YesIf::Differs => "different",
        YesIf::Same => "not different",
    }
}

/// What a person wrote of it, then what does not agree, column by column.
fn not_reproduced(report: &PageReport) -> Vec<Block> {
    let mut items = report.page.not_reproduced.clone();
    for column in columns(report) {
        let rows = report.found.parts.iter().flat_map(|part| &part.rows);
        let apart = rows.filter_map(|row| published::disagreement(&row.ours.get(&column)?.beside));
        items.extend(apart.map(|sentence| format!("**{}:** {sentence}", name(column))));
    }
    if items.is_empty() {
        return Vec::new();
    }
    vec![heading(2, "What could not be reproduced"), Block::List(items.iter().map(Rich::marked).collect())]
}

fn runs(report: &PageReport) -> Vec<Block> {
    let head = ["study", "on", "run", "machine", "kernel", "date", "trials that count"].map(str::to_owned);
    let mut rows = Vec::new();
    for part in report.parts {
        for column in Column::ALL {
            let Some(run) = part.runs.get(&column) else { continue };
            let counted = run.trials.iter().filter(|trial| trial.validity.is_valid()).count();
            let machine = report.machines.get(&run.run.id).cloned().unwrap_or_else(|| "not known".into());
            rows.push(vec![
                format!("`{}`", run.run.study),
                column.name().to_owned(),
                run.run.id.to_string(),
                machine,
                cells::kernels(run),
                cells::date(run),
                format!("{counted} of {}", run.trials.len() - cells::traced(run)),
            ]);
        }
    }
    let body = match rows.is_empty() {
        true => Block::Paragraph(Rich::plain("None yet.")),
        false => table(head, rows),
    };
    let model = "Figures of a simulation are computed by a model and not measured.";
    vec![heading(2, "The runs"), body, Block::Note(Rich::plain(model))]
}

/// The commands with which a reader makes the runs and the page anew.
fn anew(report: &PageReport) -> Vec<Block> {
    let mut commands = Vec::new();
    for ((part, runs), file) in report.page.parts.iter().zip(report.parts).zip(report.files) {
        for column in columns(report) {
            let run = runs.runs.get(&column);
            if is_left_out(part, runs, column) {
                continue;
            }
            let seed = run.map(|run| format!(" --seed {}", run.run.seed)).unwrap_or_default();
            let file = quoted(file);
            match column {
                Column::Lab => commands.push(format!("flyball lab run {file}{seed}")),
                Column::LabModel => {
                    commands.push(format!("flyball run {file} --on sim --machine lab{seed}"));
                }
                Column::Simulation => commands.push(format!("flyball run {file} --on sim{seed}")),
                Column::Host => commands.push(format!("flyball run {file}{seed}")),
                Column::Imported => {}
            }
        }
    }
    if let Some(file) = own_file(report) {
        commands.push(format!("flyball report --published {} --format text", quoted(file)));
    }
    vec![
        heading(2, "Make it anew"),
        Block::Paragraph(Rich::plain(
            "From the folder of the repository. Simulations give the same figures again for the same seed; in the lab the seed decides \
             the order of the trials.",
        )),
        Block::Code("sh", commands.join("\n")),
    ]
}

/// The file of the study that holds the page.
fn own_file<'a>(report: &PageReport<'a>) -> Option<&'a String> {
    let own = report.page.parts.iter().position(|part| part.study.is_none())?;
    report.files.get(own)
}
