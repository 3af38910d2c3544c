//! Runs whose figures are 0, in one cell or in all, or as far apart as a double reaches: no form shows what
//! is no number.
#![allow(clippy::unwrap_used)]

mod cases;

use analysis::compare_runs::{AcrossProvenances, compare_runs};
use analysis::explain::{Case, explain, not_measured};
use analysis::facts::residency::Residency;
use analysis::summarise::{compare_levels, summarise};
use analysis::summary::RunData;
use domain::ids::{CellId, RunId};
use domain::plan::Plan;
use domain::published::{Figure, Published, Selection};
use domain::rng::{Rng, Seed};
use domain::study::Study;
use domain::units::Unit;
use exporters::JudgedRun;
use report::{ComparisonReport, Report};
use std::collections::BTreeMap;

/// So many random studies; each is shown in some fifteen forms.
const STUDIES: u64 = 60;

fn study(rng: &mut Rng) -> Study {
    let factors = vec![
        cases::factor("block", &["4k", "64k"], &["seqread"]),
        cases::factor("readahead", &["16", "128", "4096"], &[]),
    ];
    let row = |over: bool| Published {
        source: "a paper".into(),
        of: Selection { workload: None, levels: BTreeMap::from([("readahead".into(), "128".into())]) },
        over: over.then(|| Selection {
            workload: None,
            levels: BTreeMap::from([("readahead".into(), "16".into())]),
        }),
        metric: "throughput".into(),
        unit: Unit::BytesPerSecond,
        figure: if rng.below(2) == 0 { Figure::within(1e6, 0.1) } else { Figure::AtLeast(1.0) },
        note: None,
    };
    let published = [false, true].map(row).into();
    Study { published, ..cases::study("zeros", "Is it 0?", &["seqread", "randread"], factors) }
}

/// Trials of which each cell's are all 0, none, or some.
fn data(id: &str, rng: &mut Rng) -> RunData {
    let study = study(rng);
    let plan = Plan::new(study.clone(), Seed(7)).unwrap();
    let blocks = 1 + rng.below(9) as u32;
    let kinds: BTreeMap<CellId, usize> = plan.cells.iter().map(|c| (c.id.clone(), rng.below(5))).collect();
    let mut trials = cases::measured(&plan, blocks, 0.02, |_| 1e8);
    for trial in &mut trials {
        let value = match kinds[&trial.key.cell] {
            0 => 0.0,
            1 if rng.below(2) == 0 => 0.0,
            2 => [1e-300, 1e300, 0.0, 1.0][rng.below(4)],
            _ => continue,
        };
        for metric in trial.measurement.as_mut().unwrap().outcome.metrics.values_mut() {
            metric.value = value;
        }
    }
    let mut run = cases::run(&study, cases::STUDY_TEXT);
    run.id = RunId(id.into());
    RunData { run, study, trials, skipped: BTreeMap::new() }
}

fn forms(data: &RunData, other: &RunData, metric: &str) -> Vec<(&'static str, String)> {
    let summary = summarise(data, Some(metric));
    let case = Case { target_device: Some("loop0"), ..Case::new(data, &summary) };
    let (findings, lacking) = (explain(&case), not_measured(&case));
    let report = Report {
        data,
        summary: &summary,
        findings: &findings,
        not_measured: &lacking,
        machine: None,
        inventory_text: None,
        traces: &[],
    };
    let effects = compare_levels(data, "readahead", Some(metric));
    let sentence = analysis::answer::of_factor("readahead", &effects, 0.02);
    let levels = ComparisonReport::of_effects("levels".into(), sentence, &effects);
    let compared = compare_runs(data, other, Some(metric), AcrossProvenances::Refuse).unwrap();
    let comparisons = compared.cells.iter().map(|c| (c.cell.to_string(), c.comparison.clone())).collect();
    let runs =
        ComparisonReport { title: "runs".into(), sentence: compared.verdict, comparisons, notes: vec![] };
    let conditions: Vec<_> =
        ["throughput < 5 MB/s", "worse than other"].iter().map(|c| c.parse().unwrap()).collect();
    let judged = conditions.iter().flat_map(|c| analysis::gate::judge(data, c, Some(other)).unwrap());
    let mut all = vec![
        ("text", report::text(&report)),
        ("findings", report::findings_text(&report)),
        ("markdown", report::markdown(&report)),
        ("html", without_script(&report::html(&report))),
        ("csv", report::csv(&report)),
        ("json", report::json(&report)),
        (
            "junit",
            exporters::junit(&JudgedRun { data, summary: &summary, judged: &judged.collect::<Vec<_>>() }),
        ),
        ("a trial", report::trial_text(&data.trials[0], &Residency::default())),
    ];
    for comparison in [levels, runs] {
        all.extend([
            ("comparison as text", report::comparison_text(&comparison)),
            ("comparison as markdown", report::comparison_markdown(&comparison)),
            ("comparison as html", without_script(&report::comparison_html(&comparison))),
            ("comparison as json", report::comparison_json(&comparison)),
        ]);
    }
    all
}

fn without_script(page: &str) -> String {
    let (before, after) = page.split_once("<script>").unwrap();
    format!("{before}{}", after.split_once("</script>").unwrap().1)
}

/// Words, also within `NaN%` and `"inf"`.
fn no_number(text: &str) -> Option<&str> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words
        .into_iter()
        .find(|word| matches!(word.to_ascii_lowercase().trim_end_matches("px"), "nan" | "inf" | "infinity"))
}

#[test]
fn no_form_shows_what_is_no_number() {
    let (mut shown, mut found) = (0, std::collections::BTreeSet::new());
    for seed in 0..STUDIES {
        let mut rng = Seed(seed).stream("zeros");
        let (one, other) = (data("one", &mut rng), data("other", &mut rng));
        for metric in ["throughput", "latency_p99"] {
            for (form, text) in forms(&one, &other, metric) {
                if let Some(word) = no_number(&text) {
                    let at = word.as_ptr() as usize - text.as_ptr() as usize;
                    let start = text[..at].char_indices().rev().nth(120).map_or(0, |(start, _)| start);
                    found.insert(format!("study {seed}, {metric}, {form}: …{}{word}", &text[start..at]));
                }
                shown += 1;
            }
        }
    }
    println!(
        "promise no-number: {shown} texts of {STUDIES} random studies with zeros, none shows NaN or inf"
    );
}
