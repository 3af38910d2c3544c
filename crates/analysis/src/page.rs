//! Runs of several kinds of machine beside a published report, and what they say to its open questions.
//!
//! This is where provenances are held beside each other because somebody asked for it; they are never
//! compared with one another, but each with what was published ([`crate::published`]). A question is answered
//! by comparisons within one run ([`crate::compare`]); those of one answer are one family.
//!
//! Cells, rows and questions are those of the study as it is now; trials are found by the names of their
//! cells. Where a run was measured with another version of the study, what differs is said.

use crate::compare::{Blocks, Conditions, Group, Yardstick, compare_family};
use crate::facts::cell_events;
use crate::facts::roles::cores_by_role;
use crate::published::{Agreement, Beside, Estimate, beside, unmeasured, what};
use crate::summarise::{cells_by, metric_kind};
use crate::summary::{CellSummary, Comparison, Point, RunData, Verdict};
use crate::words::{counted, listed};
use domain::ids::CellId;
use domain::page::{Answer, Column, Look, Page, Part, Question, YesIf};
use domain::plan::Plan;
use domain::profile::Profile;
use domain::published::{Selection, Subject, SubjectError, subjects};
use domain::rng::Seed;
use domain::study::Study;
use domain::trace::Role;
use domain::trial::{Provenance, Validity};
use domain::units::Unit;
use domain::windows::GovernorWindows;
use std::collections::{BTreeMap, BTreeSet};

/// A study of the page with its runs: at most one in each column.
#[derive(Clone, Debug)]
pub struct PartRuns {
    /// The study as it is now.
    pub study: Study,
    /// The runs, each with the study as it was then.
    pub runs: BTreeMap<Column, RunData>,
}

/// What runs say to a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// One for each part of the page.
    pub parts: Vec<PartFound>,
    /// One for each question.
    pub questions: Vec<QuestionFound>,
}

/// A study's published rows beside its runs.
#[derive(Clone, Debug, PartialEq)]
pub struct PartFound {
    /// The rows that are shown, in the order of the study and of its plan.
    pub rows: Vec<Row>,
    /// Where rows are left out: how many agree of each cell's.
    pub by_cell: Vec<CellTally>,
    /// What is not the same in a run's own study: `factors`, `workloads`; empty where nothing is.
    pub differs: BTreeMap<Column, Vec<&'static str>>,
}

/// One published row beside the runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What was published; nothing of ours.
    pub published: Beside,
    /// By column; absent where there is no run.
    pub ours: BTreeMap<Column, Held>,
}

/// What one run gives for a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    /// The row beside the run.
    pub beside: Beside,
    /// Why there is no figure, where trials say it.
    pub why: Option<String>,
}

/// All rows about one cell.
#[derive(Clone, Debug, PartialEq)]
pub struct CellTally {
    /// Which.
    pub what: String,
    /// How they stand; absent where there is no run.
    pub tally: BTreeMap<Column, Tally>,
}

/// What runs say to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct QuestionFound {
    /// One for each of its answers.
    pub answers: Vec<AnswerFound>,
}

/// What runs say to a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerFound {
    /// The claim.
    pub claim: String,
    /// The study's name.
    pub study: String,
    /// What is looked at.
    pub look: Look,
    /// The metric of its comparisons and figures; `None` where these are none.
    pub metric: Option<String>,
    /// What makes the claim true; `None` where nothing is compared.
    pub yes_if: Option<YesIf>,
    /// A line for each cell that tells.
    pub lines: Vec<Line>,
}

/// One cell that tells something of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// What is looked at: `small, governor ondemand over governor performance`.
    pub what: String,
    /// By column; absent where there is no run.
    pub seen: BTreeMap<Column, Seen>,
}

/// What one run shows of a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// How it compares, and what that says to the claim.
    Compared(Box<Comparison>, Says),
    /// Its median.
    Figure(Measured),
    /// From where to where its trials go.
    Spread(Measured),
    /// How many cores each role kept busy.
    Cpu(Vec<(Role, f64)>),
    /// What its CPU time was spent in.
    Spent(Profile),
    /// How busy CPUs were between two samples of their governor.
    Windows(GovernorWindows),
    /// Nothing, and why, where trials say it.
    Nothing(Option<String>),
}

/// What the trials of a cell give that count.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The unit of all figures.
    pub unit: Unit,
    /// The median with its order-statistic interval.
    pub median: Estimate,
    /// The least and the most of a trial.
    pub range: (f64, f64),
    /// How many trials; at least one.
    pub trials: usize,
    /// Where they come from: those of a simulation differ by what is drawn from their seeds.
    pub provenance: Provenance,
}

/// How a question stands on one kind of machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Cells have figures.
    Answered {
        /// Claims with a figure.
        claims: usize,
        /// All claims.
        of: usize,
        /// What the question needs besides, on this kind of machine.
        needs: Option<String>,
    },
    /// The report itself answers it, or a source that is named.
    Known,
    /// It is not answered, and an answer needs this.
    Needs(String),
    /// It is not answered, since its studies are not run there, for this reason; of several studies their
    /// reasons, each once.
    NotRun(String),
    /// It is not answered, and nobody says why.
    Open,
}

/// What a comparison says to a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Says {
    /// Yes.
    Yes,
    /// No.
    No,
    /// Too little to say.
    Undecided,
}

/// Why a page cannot be made of its studies.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// An answer is about a study that is no part of the page.
    #[error(
        "an answer to \"{asked}\" is about the study `{study}`, which is no part of the page; there are {known}"
    )]
    NoSuchStudy {
        /// The question.
        asked: String,
        /// The study.
        study: String,
        /// Those of the page.
        known: String,
    },
    /// An answer is about no cell of its study.
    #[error("an answer to \"{asked}\", of the study `{study}`: {reason}")]
    Subject {
        /// The question.
        asked: String,
        /// The study.
        study: String,
        /// What is wrong.
        reason: SubjectError,
    },
}

/// Holds runs beside what was published, and answers what was asked. `parts` are those of the page, in its
/// order.
///
/// # Errors
/// Where an answer is about a study or a cell that is not there.
pub fn hold(page: &Page, own: &str, parts: &[PartRuns]) -> Result<Found, PageError> {
    let questions: Result<Vec<QuestionFound>, PageError> =
        page.questions.iter().map(|question| answered(question, own, parts)).collect();
    let parts = parts.iter().zip(&page.parts).map(|(runs, part)| held(runs, part)).collect();
    Ok(Found { parts, questions: questions? })
}

/// Every metric that rows and questions of a page look at in this study.
pub fn metrics_of(page: &Page, own: &str, study: &Study) -> BTreeSet<String> {
    let answers = page.questions.iter().flat_map(|question| &question.answers);
    let mine = answers.filter(|answer| answer.study.as_deref().unwrap_or(own) == study.name);
    let asked = mine.filter_map(|answer| answer.look.metric().cloned());
    let rows = study.published.iter().map(|row| row.metric.clone());
    rows.chain(asked).chain([study.measure.metric.clone()]).collect()
}

fn held(part: &PartRuns, told: &Part) -> PartFound {
    let rows = unmeasured(&part.study);
    let mut rows: Vec<Row> =
        rows.into_iter().map(|published| Row { published, ours: BTreeMap::new() }).collect();
    for (column, run) in &part.runs {
        let run = as_now(run, &part.study);
        for (row, beside) in rows.iter_mut().zip(beside(&run)) {
            let cells = [Some(&beside.cell), beside.over.as_ref()];
            let why = beside.ours.is_none().then(|| why_nothing(&run, cells, &beside.metric)).flatten();
            row.ours.insert(*column, Held { beside, why });
        }
    }
    let differs = part.runs.iter().map(|(column, run)| (*column, differs(&run.study, &part.study)));
    let differs = differs.filter(|(_, what)| !what.is_empty()).collect();
    if told.only.is_empty() {
        return PartFound { rows, by_cell: Vec::new(), differs };
    }
    let by_cell = by_cell(&rows, part);
    let shown = Selection { workload: None, levels: told.only.clone() };
    let cells = Plan::new(part.study.clone(), Seed(0)).map(|plan| plan.cells).unwrap_or_default();
    let shown: BTreeSet<&CellId> =
        cells.iter().filter(|cell| shown.holds(cell)).map(|cell| &cell.id).collect();
    rows.retain(|row| shown.contains(&row.published.cell));
    PartFound { rows, by_cell, differs }
}

/// How many rows agree of each cell's, in the order of the rows.
fn by_cell(rows: &[Row], part: &PartRuns) -> Vec<CellTally> {
    let mut cells: Vec<&Beside> = Vec::new();
    for row in rows {
        if !cells.iter().any(|known| known.what == row.published.what) {
            cells.push(&row.published);
        }
    }
    let tally =
        |what: &str, column: Column| Tally::of(rows.iter().filter(|row| row.published.what == what), column);
    let cell = |known: &&Beside| CellTally {
        what: known.what.clone(),
        tally: part.runs.keys().map(|column| (*column, tally(&known.what, *column))).collect(),
    };
    cells.iter().map(cell).collect()
}

/// A run with the cells and rows of the study as it is now, and measured as it was then.
fn as_now(run: &RunData, now: &Study) -> RunData {
    let study = Study { measure: run.study.measure.clone(), ..now.clone() };
    RunData { run: run.run.clone(), study, trials: run.trials.clone(), skipped: run.skipped.clone() }
}

/// What decides figures and is not the same in two versions of a study.
fn differs(then: &Study, now: &Study) -> Vec<&'static str> {
    let same = [
        ("the target", then.target == now.target),
        ("the stack", then.stack == now.stack),
        ("the workloads", then.workloads == now.workloads),
        ("the loads beside them", then.beside == now.beside),
        ("the factors", then.factors == now.factors),
        ("the settings", then.settings == now.settings),
        ("the lab machine", then.lab == now.lab),
        ("the simulated machine", then.sim == now.sim),
    ];
    same.into_iter().filter(|(_, same)| !same).map(|(what, _)| what).collect()
}

/// Why cells have no figure: `3 trials, none counted: late-vcpu`. `None` where one of them has no trial at
/// all.
fn why_nothing(run: &RunData, cells: [Option<&CellId>; 2], metric: &str) -> Option<String> {
    let lacking = |cell: &&CellId| {
        let mut trials = run.trials.iter().filter(|t| t.key.cell == **cell && t.validity.is_valid());
        !trials.any(|t| t.metric(metric).is_some())
    };
    let cell = cells.into_iter().flatten().find(lacking)?;
    let trials: Vec<_> = run.trials.iter().filter(|t| t.key.cell == *cell).collect();
    if trials.is_empty() {
        return None;
    }
    if trials.iter().any(|t| t.validity.is_valid()) {
        return Some(format!("its trials do not report `{metric}`"));
    }
    let reasons: BTreeSet<&str> = trials.iter().flat_map(|t| reasons(&t.validity)).collect();
    let reasons: Vec<String> = reasons.into_iter().map(str::to_owned).collect();
    Some(format!("{}, none counted: {}", counted(trials.len(), "trial"), listed(&reasons)))
}

fn reasons(validity: &Validity) -> Vec<&str> {
    match validity {
        Validity::Valid => vec![],
        Validity::Traced => vec!["events were recorded"],
        Validity::Disturbed(all) => all.iter().map(|disturbance| disturbance.kind.as_str()).collect(),
        Validity::Failed(reason) => vec![reason],
    }
}

fn answered(question: &Question, own: &str, parts: &[PartRuns]) -> Result<QuestionFound, PageError> {
    let answers = question.answers.iter().map(|answer| {
        let name = answer.study.as_deref().unwrap_or(own);
        let part = parts.iter().find(|part| part.study.name == name).ok_or_else(|| {
            let known: Vec<String> = parts.iter().map(|part| format!("`{}`", part.study.name)).collect();
            let (asked, study) = (question.asked.clone(), name.to_owned());
            PageError::NoSuchStudy { asked, study, known: listed(&known) }
        })?;
        told(answer, part).map_err(|reason| PageError::Subject {
            asked: question.asked.clone(),
            study: name.to_owned(),
            reason,
        })
    });
    Ok(QuestionFound { answers: answers.collect::<Result<_, _>>()? })
}

fn told(answer: &Answer, part: &PartRuns) -> Result<AnswerFound, SubjectError> {
    let study = &part.study;
    let cells = Plan::new(study.clone(), Seed(0)).map(|plan| plan.cells).unwrap_or_default();
    let (over, yes_if) = match &answer.look {
        Look::Against { over, yes_if, .. } => (Some(over), Some(*yes_if)),
        Look::Figure { .. } | Look::Spread { .. } | Look::Cpu | Look::Spent | Look::Windows => (None, None),
    };
    let metric = answer
        .look
        .is_by_metric()
        .then(|| answer.look.metric().cloned().unwrap_or_else(|| study.measure.metric.clone()));
    let subjects = subjects(&answer.of, over, &cells)?;
    let line = |subject: &Subject<'_>| Line { what: what(study, *subject), seen: BTreeMap::new() };
    let mut lines: Vec<Line> = subjects.iter().map(line).collect();
    for (column, run) in &part.runs {
        let run = as_now(run, study);
        let seen = match (&metric, yes_if) {
            (Some(metric), Some(yes_if)) => compared(&run, &subjects, metric, yes_if),
            (Some(metric), None) => measured(&run, &subjects, metric, &answer.look),
            _ => subjects.iter().map(|subject| looked_at(&run, *subject, &answer.look)).collect(),
        };
        for (line, seen) in lines.iter_mut().zip(seen) {
            line.seen.insert(*column, seen);
        }
    }
    let (claim, study, look) = (answer.claim.clone(), study.name.clone(), answer.look.clone());
    Ok(AnswerFound { claim, study, look, metric, yes_if, lines })
}

fn looked_at(run: &RunData, subject: Subject<'_>, look: &Look) -> Seen {
    let cell = &subject.cell.id;
    let seen = match look {
        Look::Spent => cell_events::profile(run, cell).map(Seen::Spent),
        Look::Windows => cell_events::windows(run, cell).map(Seen::Windows),
        Look::Cpu | Look::Figure { .. } | Look::Spread { .. } | Look::Against { .. } => {
            cores_by_role(&run.trials, cell).map(Seen::Cpu)
        }
    };
    seen.unwrap_or_else(|| {
        let was_run = run.trials.iter().any(|trial| trial.key.cell == *cell);
        let lacks = was_run && matches!(look, Look::Spent | Look::Windows);
        Seen::Nothing(lacks.then(|| "its trials recorded no such events".to_owned()))
    })
}

/// What the trials of each cell give in one run.
fn measured(run: &RunData, subjects: &[Subject<'_>], metric: &str, look: &Look) -> Vec<Seen> {
    let kind = metric_kind(run, metric);
    let cells = cells_by(run, &kind);
    let seen = |subject: &Subject<'_>| {
        let id = &subject.cell.id;
        let cell = cells.iter().find(|cell| cell.cell == *id);
        let figures = cell.and_then(|cell| {
            let median = Estimate { value: cell.median?, interval: cell.interval };
            Some(Measured {
                unit: kind.unit.clone(),
                median,
                range: cell.range?,
                trials: cell.points.len(),
                provenance: run.run.provenance,
            })
        });
        match (figures, look) {
            (Some(figures), Look::Spread { .. }) => Seen::Spread(figures),
            (Some(figures), _) => Seen::Figure(figures),
            (None, _) => Seen::Nothing(why_nothing(run, [Some(id), None], metric)),
        }
    };
    subjects.iter().map(seen).collect()
}

/// The comparisons of one answer in one run, as one family.
fn compared(run: &RunData, subjects: &[Subject<'_>], metric: &str, yes_if: YesIf) -> Vec<Seen> {
    let kind = metric_kind(run, metric);
    let cells = cells_by(run, &kind);
    let points = |id: &CellId| -> &[Point] {
        cells.iter().find(|cell: &&CellSummary| cell.cell == *id).map_or(&[], |cell| &cell.points)
    };
    let names: Vec<(String, String)> = subjects.iter().map(|subject| sides(&run.study, *subject)).collect();
    let pairs: Vec<(Group<'_>, Group<'_>)> = subjects
        .iter()
        .zip(&names)
        .map(|(subject, (a, b))| {
            let over = subject.over.map_or(&[][..], |over| points(&over.id));
            (Group { name: a, points: over }, Group { name: b, points: points(&subject.cell.id) })
        })
        .collect();
    let by = Yardstick {
        metric: &kind.name,
        unit: kind.unit.clone(),
        better: kind.better,
        confidence: run.study.measure.confidence,
        threshold: run.study.measure.threshold,
        blocks: Blocks::Shared,
        under: Conditions::of(run),
    };
    let compared = compare_family(&pairs, &by).into_iter().zip(subjects);
    compared
        .map(|(comparison, subject)| match comparison {
            Some(comparison) => {
                let says = says(comparison.verdict, yes_if);
                Seen::Compared(Box::new(comparison), says)
            }
            None => {
                let cells = [Some(&subject.cell.id), subject.over.map(|over| &over.id)];
                Seen::Nothing(why_nothing(run, cells, metric))
            }
        })
        .collect()
}

/// What the two sides are called: the levels and workloads in which they differ, of the other and of the cell
/// itself.
fn sides(study: &Study, subject: Subject<'_>) -> (String, String) {
    let Some(over) = subject.over else { return (String::new(), String::new()) };
    let cell = subject.cell;
    let mut names = (Vec::new(), Vec::new());
    if over.workload.name != cell.workload.name {
        names.0.push(over.workload.name.clone());
        names.1.push(cell.workload.name.clone());
    }
    for factor in &study.factors {
        let (a, b) = (over.levels.get(&factor.name), cell.levels.get(&factor.name));
        if a != b {
            names.0.extend(a.cloned());
            names.1.extend(b.cloned());
        }
    }
    (names.0.join(", "), names.1.join(", "))
}

const fn says(verdict: Verdict, yes_if: YesIf) -> Says {
    match (verdict, yes_if) {
        (Verdict::Undecided, _) => Says::Undecided,
        (Verdict::Better, YesIf::Better | YesIf::Differs)
        | (Verdict::Worse, YesIf::Worse | YesIf::Differs)
        | (Verdict::Same, YesIf::Same) => Says::Yes,
        _ => Says::No,
    }
}

/// How many rows agree and do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Rows, or comparisons.
    pub all: usize,
    /// That agree, or say yes.
    pub yes: usize,
    /// That do not, or say no.
    pub no: usize,
    /// That are undecided.
    pub undecided: usize,
}

impl Tally {
    /// How many have a figure.
    pub const fn measured(&self) -> usize {
        self.yes + self.no + self.undecided
    }

    /// Of rows, in one column.
    fn of<'r>(rows: impl Iterator<Item = &'r Row>, column: Column) -> Self {
        let mut tally = Self::default();
        for row in rows {
            tally.all += 1;
            match row.ours.get(&column).map(|held| held.beside.agrees) {
                Some(Agreement::Yes) => tally.yes += 1,
                Some(Agreement::No) => tally.no += 1,
                Some(Agreement::Undecided) => tally.undecided += 1,
                Some(Agreement::NotMeasured) | None => {}
            }
        }
        tally
    }
}

impl Found {
    /// How the page's rows stand in one column.
    pub fn agreement(&self, column: Column) -> Tally {
        Tally::of(self.parts.iter().flat_map(|part| &part.rows), column)
    }
}

impl QuestionFound {
    /// How the question stands on one kind of machine. `parts` are the page's studies with their runs, in the
    /// page's order.
    pub fn standing(
        &self,
        page: &Page,
        question: &Question,
        parts: &[PartRuns],
        provenance: Provenance,
    ) -> Standing {
        let of = self.answers.len();
        let claims =
            self.answers.iter().filter(|answer| answer.has_figure(Column::of_kind(provenance))).count();
        let needs = question.needs.get(&provenance).cloned();
        if claims > 0 {
            return Standing::Answered { claims, of, needs };
        }
        if let Some(needs) = needs {
            return Standing::Needs(needs);
        }
        if question.known.is_some() {
            return Standing::Known;
        }
        let told = |answer: &AnswerFound| {
            let part = parts.iter().position(|part| part.study.name == answer.study)?;
            page.parts.get(part)?.not_run.get(&provenance).map(String::as_str)
        };
        let reasons: Option<BTreeSet<&str>> = self.answers.iter().map(told).collect();
        match (reasons.filter(|all| !all.is_empty()), page.needs.get(&provenance)) {
            (Some(all), _) => Standing::NotRun(all.into_iter().collect::<Vec<_>>().join("; ")),
            (None, Some(needs)) => Standing::Needs(needs.clone()),
            (None, None) => Standing::Open,
        }
    }
}

impl AnswerFound {
    /// Whether a cell shows anything in one column.
    pub fn has_figure(&self, column: Column) -> bool {
        let mut seen = self.lines.iter().filter_map(|line| line.seen.get(&column));
        seen.any(|seen| !matches!(seen, Seen::Nothing(_)))
    }

    /// What the comparisons of one column say to it.
    pub fn says(&self, column: Column) -> Tally {
        let mut tally = Tally { all: self.lines.len(), ..Tally::default() };
        for line in &self.lines {
            match line.seen.get(&column) {
                Some(Seen::Compared(_, Says::Yes)) => tally.yes += 1,
                Some(Seen::Compared(_, Says::No)) => tally.no += 1,
                Some(Seen::Compared(_, Says::Undecided)) => tally.undecided += 1,
                Some(
                    Seen::Figure(_)
                    | Seen::Spread(_)
                    | Seen::Cpu(_)
                    | Seen::Spent(_)
                    | Seen::Windows(_)
                    | Seen::Nothing(_),
                )
                | None => {}
            }
        }
        tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run, study};
    use domain::published::{Figure, Published};
    use domain::trial::Disturbance;
    use domain::units::Unit;

    fn selection(governor: &str) -> Selection {
        Selection { workload: None, levels: [("governor".to_owned(), governor.to_owned())].into() }
    }

    /// A study with one relation: ondemand gives a fifth of what performance gives.
    fn governors() -> Study {
        let published = vec![Published {
            source: "a paper".into(),
            of: selection("ondemand"),
            over: Some(selection("performance")),
            metric: "throughput".into(),
            unit: Unit::BytesPerSecond,
            figure: Figure::within(0.2, 0.1),
            note: None,
        }];
        Study { published, ..study(&[("governor", &["performance", "ondemand"])]) }
    }

    fn page(study: Option<&str>, yes_if: YesIf) -> Page {
        let look = Look::Against { over: selection("performance"), metric: None, yes_if };
        let answer = Answer {
            claim: "ondemand is slower".into(),
            study: study.map(str::to_owned),
            of: selection("ondemand"),
            look,
        };
        Page {
            title: "t".into(),
            source: "s".into(),
            published: vec![],
            parts: vec![Part {
                study: None,
                about: "a".into(),
                only: BTreeMap::new(),
                not_run: BTreeMap::new(),
            }],
            questions: vec![Question {
                asked: "Is it slow?".into(),
                answers: vec![answer],
                known: None,
                needs: BTreeMap::new(),
                note: None,
            }],
            not_reproduced: vec![],
            needs: BTreeMap::new(),
        }
    }

    /// Six blocks, in which ondemand gives this share of performance's 50 MB/s.
    fn measured(share: f64) -> RunData {
        run(governors(), 6, |levels, block| {
            let middle = if levels["governor"] == "performance" { 50e6 } else { 50e6 * share };
            vec![("throughput", middle * (0.99 + 0.004 * f64::from(block)))]
        })
    }

    fn found_in(runs: &[(Column, RunData)], yes_if: YesIf) -> Found {
        let part = PartRuns { study: governors(), runs: runs.iter().cloned().collect() };
        let own = part.study.name.clone();
        hold(&page(None, yes_if), &own, &[part]).unwrap()
    }

    #[test]
    fn each_provenance_has_its_own_column_and_one_without_a_run_has_none() {
        let runs = [(Column::Lab, measured(0.2)), (Column::Simulation, measured(0.9))];
        let found = found_in(&runs, YesIf::Worse);
        let (lab, model) = (found.agreement(Column::Lab), found.agreement(Column::Simulation));
        assert_eq!(
            (lab, model),
            (Tally { all: 1, yes: 1, ..Tally::default() }, Tally { all: 1, no: 1, ..Tally::default() })
        );
        assert_eq!(found.agreement(Column::Host), Tally { all: 1, ..Tally::default() });
        let row = &found.parts[0].rows[0];
        assert_eq!(row.published.ours, None);
        assert!((row.ours[&Column::Lab].beside.ours.unwrap().figure.value - 0.2).abs() < 0.01);
    }

    #[test]
    fn a_question_is_answered_by_the_comparison_that_it_names() {
        let says = |share, yes_if| {
            found_in(&[(Column::Lab, measured(share))], yes_if).questions[0].answers[0].says(Column::Lab)
        };
        assert_eq!(says(0.2, YesIf::Worse).yes, 1);
        assert_eq!(says(0.2, YesIf::Better).no, 1);
        assert_eq!(says(1.0, YesIf::Worse).no, 1);
        assert_eq!(says(1.0, YesIf::Same).yes, 1);
        assert_eq!(says(2.0, YesIf::Differs).yes, 1);
        let none = found_in(&[], YesIf::Worse).questions[0].answers[0].says(Column::Lab);
        assert_eq!((none.all, none.measured()), (1, 0));
    }

    #[test]
    fn figures_and_their_spread_are_those_of_the_trials_that_count() {
        let mut page = page(None, YesIf::Worse);
        let seen = |page: &Page| {
            let part = PartRuns { study: governors(), runs: [(Column::Lab, measured(0.2))].into() };
            let own = part.study.name.clone();
            let found = hold(page, &own, &[part]).unwrap();
            found.questions[0].answers[0].lines[0].seen[&Column::Lab].clone()
        };
        page.questions[0].answers[0].look = Look::Figure { metric: Some("throughput".into()) };
        let Seen::Figure(figure) = seen(&page) else { panic!() };
        assert_eq!((figure.trials, figure.unit), (6, Unit::BytesPerSecond));
        assert!((figure.median.value - 10e6 * 1.0).abs() < 0.01 * 10e6, "{:?}", figure.median);
        page.questions[0].answers[0].look = Look::Spread { metric: None };
        let Seen::Spread(spread) = seen(&page) else { panic!() };
        assert!((spread.range.0 - 9.9e6).abs() < 1.0 && (spread.range.1 - 10.1e6).abs() < 1.0, "{spread:?}");
        page.questions[0].answers[0].look = Look::Figure { metric: Some("power".into()) };
        assert_eq!(seen(&page), Seen::Nothing(Some("its trials do not report `power`".into())));
    }

    #[test]
    fn a_question_stands_as_its_runs_its_needs_and_its_studies_say() {
        let mut page = page(None, YesIf::Worse);
        let part = PartRuns { study: governors(), runs: [(Column::Lab, measured(0.2))].into() };
        let (own, parts) = (part.study.name.clone(), vec![part]);
        let standing = |page: &Page, provenance| {
            let found = hold(page, &own, &parts).unwrap();
            found.questions[0].standing(page, &page.questions[0], &parts, provenance)
        };
        let answered = |needs| Standing::Answered { claims: 1, of: 1, needs };
        assert_eq!(standing(&page, Provenance::Lab), answered(None));
        assert_eq!(standing(&page, Provenance::Host), Standing::Open);
        page.needs.insert(Provenance::Host, "disks".into());
        assert_eq!(standing(&page, Provenance::Host), Standing::Needs("disks".into()));
        page.parts[0].not_run.insert(Provenance::Host, "it is slow".into());
        assert_eq!(standing(&page, Provenance::Host), Standing::NotRun("it is slow".into()));
        page.questions[0].known = Some("The log says so.".into());
        assert_eq!(standing(&page, Provenance::Host), Standing::Known);
        assert_eq!(standing(&page, Provenance::Lab), answered(None));
        page.questions[0].needs.insert(Provenance::Host, "time".into());
        page.questions[0].needs.insert(Provenance::Lab, "more".into());
        assert_eq!(standing(&page, Provenance::Host), Standing::Needs("time".into()));
        assert_eq!(standing(&page, Provenance::Lab), answered(Some("more".into())));
    }

    #[test]
    fn a_question_of_several_studies_says_why_each_is_not_run() {
        let mut page = page(None, YesIf::Worse);
        let other = |name: &str| Study { name: name.into(), ..governors() };
        let own = governors().name;
        let studies = [governors(), other("second"), other("third")];
        let parts: Vec<PartRuns> =
            studies.into_iter().map(|study| PartRuns { study, runs: BTreeMap::new() }).collect();
        let (part, answer) = (page.parts[0].clone(), page.questions[0].answers[0].clone());
        page.parts = vec![part; 3];
        page.questions[0].answers = [None, Some("second"), Some("third")]
            .map(|study| Answer { study: study.map(str::to_owned), ..answer.clone() })
            .to_vec();
        let reasons = ["it is slow", "guests have no such clock", "it is slow"];
        for (part, reason) in page.parts.iter_mut().zip(reasons) {
            part.not_run.insert(Provenance::Lab, reason.into());
        }
        let found = hold(&page, &own, &parts).unwrap();
        assert_eq!(
            found.questions[0].standing(&page, &page.questions[0], &parts, Provenance::Lab),
            Standing::NotRun("guests have no such clock; it is slow".into())
        );
    }

    #[test]
    fn too_few_trials_answer_nothing() {
        let mut run = measured(0.2);
        run.trials.retain(|trial| trial.key.block < 2);
        let found = found_in(&[(Column::Lab, run)], YesIf::Worse);
        assert_eq!(found.questions[0].answers[0].says(Column::Lab).undecided, 1);
        assert_eq!(found.agreement(Column::Lab).undecided, 1);
    }

    #[test]
    fn a_cell_whose_trials_do_not_count_says_why_and_one_without_trials_nothing() {
        let mut run = measured(0.2);
        for trial in run.trials.iter_mut().filter(|trial| trial.levels["governor"] == "ondemand") {
            trial.disturb(Disturbance { kind: "late-vcpu".into(), detail: "7%".into() });
        }
        let found = found_in(&[(Column::Lab, run.clone())], YesIf::Worse);
        let held_row = &found.parts[0].rows[0].ours[&Column::Lab];
        assert_eq!(held_row.why.as_deref(), Some("6 trials, none counted: late-vcpu"));
        assert_eq!(
            found.questions[0].answers[0].lines[0].seen[&Column::Lab],
            Seen::Nothing(Some("6 trials, none counted: late-vcpu".into()))
        );
        run.trials.clear();
        let found = found_in(&[(Column::Lab, run)], YesIf::Worse);
        assert_eq!(found.parts[0].rows[0].ours[&Column::Lab].why, None);
    }

    #[test]
    fn rows_that_are_not_shown_are_counted_by_cell() {
        let each = Published {
            of: Selection::default(),
            over: None,
            figure: Figure::within(50e6, 0.1),
            ..governors().published.remove(0)
        };
        let study = Study { published: vec![each], ..governors() };
        let mut page = page(None, YesIf::Worse);
        page.parts[0].only = selection("performance").levels;
        let part = PartRuns { study, runs: [(Column::Lab, measured(0.2))].into() };
        let found = hold(&page, &part.study.name.clone(), &[part]).unwrap().parts.remove(0);
        assert_eq!(found.rows.len(), 1);
        let of_cell = |cell: &CellTally| (cell.what.clone(), cell.tally[&Column::Lab]);
        let agrees = Tally { all: 1, yes: 1, ..Tally::default() };
        let not = Tally { all: 1, no: 1, ..Tally::default() };
        assert_eq!(
            found.by_cell.iter().map(of_cell).collect::<Vec<_>>(),
            [("w, governor performance".to_owned(), agrees), ("w, governor ondemand".to_owned(), not)]
        );
    }

    #[test]
    fn a_run_of_another_version_of_the_study_is_said_to_be_one() {
        let mut run = measured(0.2);
        run.study.lab.vcpus = 7;
        let found = found_in(&[(Column::Lab, run)], YesIf::Worse);
        assert_eq!(found.parts[0].differs[&Column::Lab], ["the lab machine"]);
        assert!(found_in(&[(Column::Lab, measured(0.2))], YesIf::Worse).parts[0].differs.is_empty());
    }

    #[test]
    fn an_answer_of_a_study_that_is_not_there_is_an_error() {
        let part = PartRuns { study: governors(), runs: BTreeMap::new() };
        let error = hold(&page(Some("other"), YesIf::Worse), "x", &[part]).unwrap_err();
        assert!(error.to_string().contains("`other`, which is no part of the page"), "{error}");
    }
}
