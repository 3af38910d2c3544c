//! A page for other programs. Values are in base units; what is not known is `null`, and a kind of machine
//! without a run is absent.

use super::PageReport;
use crate::json::{
    ComparisonView, EstimateView, RunHeadView, SCHEMA, WindowsView, comparison_view, ends, estimate_view,
    printed, run_view, shares_of_profile, written,
};
use crate::published::agrees_word;
use analysis::page::{AnswerFound, Held, Line, Measured, Row, Says, Seen, Standing};
use domain::ids::CellId;
use domain::page::Column;
use domain::page::YesIf;
use domain::trial::Provenance;
use domain::units::Unit;
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct PageView<'a> {
    schema: u32,
    kind: &'static str,
    title: &'a str,
    question: &'a str,
    source: &'a str,
    published: &'a [String],
    parts: Vec<PartView<'a>>,
    questions: Vec<QuestionView<'a>>,
    not_reproduced: &'a [String],
}

#[derive(Serialize)]
struct PartView<'a> {
    study: &'a str,
    file: &'a str,
    about: &'a str,
    /// Why it is not run on a kind of machine.
    not_run: BTreeMap<&'static str, &'a str>,
    runs: Vec<KnownRun<'a>>,
    rows: Vec<RowView<'a>>,
}

#[derive(Serialize)]
struct KnownRun<'a> {
    #[serde(flatten)]
    run: RunHeadView<'a>,
    /// The machine in one line.
    in_words: Option<&'a str>,
    trials: usize,
    counted: usize,
    /// What of the study was not as it is now.
    differs: &'a [&'static str],
}

#[derive(Serialize)]
struct RowView<'a> {
    what: &'a str,
    cell: &'a str,
    /// The cell that it is divided by; figures are plain ratios then.
    over: Option<&'a str>,
    source: &'a str,
    metric: &'a str,
    /// `null` for a relation.
    unit: Option<&'a Unit>,
    /// As printed; `null` where a bound was.
    value: Option<f64>,
    /// The least and the most that agree with it; `null` where there is no such end.
    accepted: (Option<f64>, Option<f64>),
    note: Option<&'a str>,
    /// By kind of machine.
    ours: BTreeMap<&'static str, HeldView<'a>>,
}

#[derive(Serialize)]
struct HeldView<'a> {
    ours: Option<EstimateView>,
    /// Trials that count, of the cell and of the one that it is divided by.
    trials: Option<(usize, Option<usize>)>,
    /// Ours over the published value or bound.
    ratio: Option<EstimateView>,
    agrees: &'static str,
    /// Why there is no figure.
    why: Option<&'a str>,
}

#[derive(Serialize)]
struct QuestionView<'a> {
    asked: &'a str,
    note: Option<&'a str>,
    /// What the report itself answers.
    known: Option<&'a str>,
    /// How it stands, by kind of machine.
    stands: BTreeMap<&'static str, StandingView>,
    answers: Vec<AnswerView<'a>>,
}

#[derive(Serialize)]
struct StandingView {
    /// `answered`, `known`, `needs`, `not_run` or `open`.
    is: &'static str,
    /// Claims with a figure, of all.
    claims: Option<(usize, usize)>,
    /// What an answer needs, or why its studies are not run there.
    why: Option<String>,
}

#[derive(Serialize)]
struct AnswerView<'a> {
    claim: &'a str,
    study: &'a str,
    metric: Option<&'a str>,
    yes_if: Option<&'static str>,
    lines: Vec<LineView<'a>>,
}

#[derive(Serialize)]
struct LineView<'a> {
    what: &'a str,
    seen: BTreeMap<&'static str, SeenView<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum SeenView<'a> {
    Compared {
        says: &'static str,
        comparison: Box<ComparisonView<'a>>,
    },
    /// The median of its trials.
    Figure(MeasuredView<'a>),
    /// From where to where its trials go.
    Spread(MeasuredView<'a>),
    /// How many cores each role kept busy.
    Cores(BTreeMap<&'static str, f64>),
    /// The shares of programs and parts of the kernel in its CPU time.
    Shares(BTreeMap<&'static str, f64>),
    /// How busy its busiest CPU was between two samples of its governor.
    Windows(Option<WindowsView>),
    /// Nothing, and why where trials say it.
    Nothing(Option<&'a str>),
}

#[derive(Serialize)]
struct MeasuredView<'a> {
    unit: &'a Unit,
    median: EstimateView,
    range: (f64, f64),
    trials: usize,
}

pub(super) fn json(report: &PageReport) -> String {
    let page = report.page;
    let questions =
        page.questions.iter().zip(&report.found.questions).map(|(question, found)| QuestionView {
            asked: &question.asked,
            note: question.note.as_deref(),
            known: question.known.as_deref(),
            stands: Provenance::MACHINES
                .into_iter()
                .map(|machine| (machine.name(), standing_view(report.standing(question, found, machine))))
                .collect(),
            answers: found.answers.iter().map(answer_view).collect(),
        });
    written(&PageView {
        schema: SCHEMA,
        kind: "page",
        title: &page.title,
        question: &report.study.question,
        source: &page.source,
        published: &page.published,
        parts: (0..page.parts.len()).map(|index| part_view(report, index)).collect(),
        questions: questions.collect(),
        not_reproduced: &page.not_reproduced,
    })
}

fn part_view<'a>(report: &PageReport<'a>, index: usize) -> PartView<'a> {
    let (part, runs, found) = (&report.page.parts[index], &report.parts[index], &report.found.parts[index]);
    let run = |(column, data): (&Column, &'a analysis::summary::RunData)| KnownRun {
        run: run_view(&data.run),
        in_words: report.machines.get(&data.run.id).map(String::as_str),
        trials: data.trials.len(),
        counted: data.trials.iter().filter(|trial| trial.validity.is_valid()).count(),
        differs: found.differs.get(column).map_or(&[], Vec::as_slice),
    };
    PartView {
        study: &runs.study.name,
        file: &report.files[index],
        about: &part.about,
        not_run: part.not_run.iter().map(|(provenance, why)| (provenance.name(), why.as_str())).collect(),
        runs: runs.runs.iter().map(run).collect(),
        rows: found.rows.iter().map(row_view).collect(),
    }
}

fn row_view(row: &Row) -> RowView<'_> {
    let published = &row.published;
    RowView {
        what: &published.what,
        cell: published.cell.as_str(),
        over: published.over.as_ref().map(CellId::as_str),
        source: &published.source,
        metric: &published.metric,
        unit: published.over.is_none().then_some(&published.unit),
        value: printed(published),
        accepted: ends(published),
        note: published.note.as_deref(),
        ours: row.ours.iter().map(|(column, held)| (column.name(), held_view(held))).collect(),
    }
}

fn held_view(held: &Held) -> HeldView<'_> {
    HeldView {
        ours: held.beside.ours.map(|ours| estimate_view(ours.figure)),
        trials: held.beside.ours.map(|ours| ours.trials),
        ratio: held.beside.ratio.map(estimate_view),
        agrees: agrees_word(held.beside.agrees),
        why: held.why.as_deref(),
    }
}

fn standing_view(standing: Standing) -> StandingView {
    match standing {
        Standing::Answered { claims, of, needs } => {
            StandingView { is: "answered", claims: Some((claims, of)), why: needs }
        }
        Standing::Known => StandingView { is: "known", claims: None, why: None },
        Standing::Needs(why) => StandingView { is: "needs", claims: None, why: Some(why) },
        Standing::NotRun(why) => StandingView { is: "not_run", claims: None, why: Some(why) },
        Standing::Open => StandingView { is: "open", claims: None, why: None },
    }
}

fn measured_view(measured: &Measured) -> MeasuredView<'_> {
    MeasuredView {
        unit: &measured.unit,
        median: estimate_view(measured.median),
        range: measured.range,
        trials: measured.trials,
    }
}

fn answer_view(answer: &AnswerFound) -> AnswerView<'_> {
    AnswerView {
        claim: &answer.claim,
        study: &answer.study,
        metric: answer.metric.as_deref(),
        yes_if: answer.yes_if.map(YesIf::name),
        lines: answer.lines.iter().map(line_view).collect(),
    }
}

fn line_view(line: &Line) -> LineView<'_> {
    LineView {
        what: &line.what,
        seen: line.seen.iter().map(|(column, seen)| (column.name(), seen_view(seen))).collect(),
    }
}

fn seen_view(seen: &Seen) -> SeenView<'_> {
    match seen {
        Seen::Compared(comparison, says) => SeenView::Compared {
            says: match says {
                Says::Yes => "yes",
                Says::No => "no",
                Says::Undecided => "undecided",
            },
            comparison: Box::new(comparison_view(comparison)),
        },
        Seen::Figure(measured) => SeenView::Figure(measured_view(measured)),
        Seen::Spread(measured) => SeenView::Spread(measured_view(measured)),
        Seen::Cpu(roles) => {
            SeenView::Cores(roles.iter().map(|(role, cores)| (role.name(), *cores)).collect())
        }
        Seen::Spent(profile) => SeenView::Shares(shares_of_profile(profile)),
        Seen::Windows(all) => {
            SeenView::Windows(all.busiest().map(|(cpu, windows)| WindowsView::of(all, cpu, windows)))
        }
        Seen::Nothing(why) => SeenView::Nothing(why.as_deref()),
    }
}
