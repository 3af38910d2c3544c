//! JUnit's XML: each cell a test case, or each condition of each cell.

use crate::{Exporter, JudgedRun, Result, Sink, Writer};
use analysis::gate::{Judged, Ruling, not_measured};
use analysis::summary::{CellSummary, Lack, RunData, RunSummary};
use domain::ids::CellId;
use domain::inert;
use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};
use std::time::Duration;

/// What the failures are of, as tools group them.
const CONDITION: &str = "flyball.condition";
const NOT_MEASURED: &str = "flyball.not-measured";

/// A run as a test suite.
pub(crate) struct Junit;

impl Exporter for Junit {
    fn name(&self) -> &'static str {
        "junit"
    }

    fn about(&self) -> &'static str {
        "Test cases, for continuous integration"
    }

    fn writers(&self) -> &'static [Writer] {
        &[Writer::Judged(write)]
    }
}

fn write(run: &JudgedRun<'_>, out: &mut dyn Sink) -> Result<()> {
    Ok(out.write_all(junit(run).as_bytes())?)
}

/// The run as one test suite. Without conditions each cell is a test case, which is skipped where its machine
/// cannot run it, and otherwise an error where it has no valid trial.
pub fn junit(run: &JudgedRun<'_>) -> String {
    let JudgedRun { data, summary, judged } = *run;
    let mut suite = TestSuite::new(text(&data.study.name));
    let (run, revision) = (&data.run, data.run.revision.clone());
    let known = [
        ("run", Some(run.id.to_string())),
        ("provenance", Some(run.provenance.name().to_owned())),
        ("machine", Some(run.machine.clone())),
        ("seed", Some(run.seed.to_string())),
        ("started", Some(run.started.iso())),
        ("revision", revision),
    ];
    for (name, value) in known.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        suite.add_property((name, text(&value).as_str()));
    }
    if judged.is_empty() {
        suite.add_test_cases(summary.cells.iter().map(|cell| measured(data, summary, cell)));
    }
    suite.add_test_cases(judged.iter().map(|judged| case_of(data, judged)));
    let mut report = Report::new("flyball");
    report.add_test_suite(suite);
    report.to_string().expect("text without control characters is always XML")
}

fn case(data: &RunData, name: String, workload: &str, cell: &CellId, status: TestCaseStatus) -> TestCase {
    let mut case = TestCase::new(text(&name), status);
    case.set_classname(text(&format!("{}.{workload}", data.study.name)));
    let of_cell = data.trials.iter().filter(|trial| trial.key.cell == *cell);
    let spans = of_cell.filter_map(|trial| trial.measurement.as_ref()).map(|m| m.duration.get());
    case.set_time(Duration::from_nanos(spans.sum()));
    case
}

fn measured(data: &RunData, summary: &RunSummary, cell: &CellSummary) -> TestCase {
    let status = match cell.median {
        Some(_) => TestCaseStatus::success(),
        None if matches!(cell.lack, Some(Lack::NotPossible(_))) => {
            let mut status = TestCaseStatus::skipped();
            status.set_type(NOT_MEASURED).set_message(text(&not_measured(cell)));
            status
        }
        None => failing(NonSuccessKind::Error, NOT_MEASURED, &not_measured(cell)),
    };
    let mut case = case(data, cell.cell.to_string(), &cell.workload, &cell.cell, status);
    if let Some(median) = cell.median {
        let value = summary.unit.show(median);
        let out = format!("{} {value}, median of {} trials", summary.metric, cell.points.len());
        case.set_system_out(text(&out));
    }
    case
}

fn case_of(data: &RunData, judged: &Judged) -> TestCase {
    let status = match judged.ruling {
        Ruling::Met => failing(NonSuccessKind::Failure, CONDITION, &judged.why),
        Ruling::NotMeasured => failing(NonSuccessKind::Error, NOT_MEASURED, &judged.why),
        Ruling::NotMet | Ruling::Undecided => TestCaseStatus::success(),
    };
    let name = format!("{}: {}", judged.cell, judged.condition);
    let mut case = case(data, name, &judged.workload, &judged.cell, status);
    let undecided = if judged.ruling == Ruling::Undecided { "undecided: " } else { "" };
    case.set_system_out(text(&format!("{undecided}{}", judged.why)));
    case
}

/// A text for the library, which would take out what XML 1.0 does not allow, and leave the rest of what acts.
fn text(text: &str) -> String {
    inert::one_line(text).into_owned()
}

fn failing(kind: NonSuccessKind, what: &str, why: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::non_success(kind);
    status.set_type(what).set_message(text(why));
    status
}
