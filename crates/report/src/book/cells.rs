//! What stands in a field of a page's tables.

use crate::cpu_share::{notable, shown};
use crate::published::{figures, trials, without_unit};
use crate::sections::median;
use crate::wording::range;
use analysis::fidelity::deviation_within_cells;
use analysis::page::{Held, Measured, Says, Seen};
use analysis::published::{Agreement, Beside};
use analysis::summary::{Comparison, RunData};
use analysis::words::{counted, difference, percent, ratio_words};
use domain::order;
use domain::profile::{Profile, Subsystem};
use domain::published::Figure;
use domain::trial::{Provenance, Validity};
use domain::windows::GovernorWindows;
use std::collections::BTreeSet;

/// What of a row is compared.
pub(super) const fn compared(beside: &Beside) -> &'static str {
    match (beside.published, beside.over.is_some()) {
        (Figure::Value { .. }, false) => "absolute",
        (Figure::Value { .. }, true) => "ratio",
        (_, false) => "bound",
        (_, true) => "order",
    }
}

/// `✓ 642 MB/s (640 to 650, n 6)`; `not run`, or why nothing counts.
pub(super) fn held_cell(held: Option<&Held>) -> String {
    let Some(held) = held else { return "not run".to_owned() };
    let Some(ours) = held.beside.ours else { return nothing(held.why.as_deref()) };
    let sign = match held.beside.agrees {
        Agreement::Yes => "✓",
        Agreement::No => "✗",
        Agreement::Undecided | Agreement::NotMeasured => "?",
    };
    let trials = trials(&held.beside);
    format!("{sign} {}, n {trials})", figures(&held.beside, ours.figure))
}

fn nothing(why: Option<&str>) -> String {
    why.map_or_else(|| "not run".to_owned(), |why| format!("no figure: {why}"))
}

/// `✓ yes: 0.79 (0.78 to 0.80, n 5, 5)`; for CPU time, cores by role.
pub(super) fn answer_cell(seen: Option<&Seen>) -> String {
    match seen {
        None => "not run".to_owned(),
        Some(Seen::Nothing(why)) => nothing(why.as_deref()),
        Some(Seen::Figure(measured)) => figure(measured),
        Some(Seen::Spread(measured)) => spread(measured),
        Some(Seen::Cpu(roles)) => {
            let roles: Vec<String> =
                notable(roles).map(|(role, cores)| format!("{} {}", role.name(), shown(*cores))).collect();
            if roles.is_empty() { "none that took time".to_owned() } else { roles.join(", ") }
        }
        Some(Seen::Spent(profile)) => spent(profile),
        Some(Seen::Windows(windows)) => loads(windows),
        Some(Seen::Compared(comparison, says)) => {
            let word = match says {
                Says::Yes => "✓ yes",
                Says::No => "✗ no",
                Says::Undecided => "? cannot tell",
            };
            format!("{word}: {}", ratio(comparison))
        }
    }
}

/// `20.1 ms (20.0 to 20.4, n 6)`.
fn figure(measured: &Measured) -> String {
    let value = measured.unit.show(measured.median.value);
    let interval = match &measured.median.interval {
        Some(interval) if interval.has_width() => range(&measured.unit, interval.low, interval.high),
        Some(_) => "all trials alike".to_owned(),
        None if measured.provenance == Provenance::Simulation => "model".to_owned(),
        None => "n too small".to_owned(),
    };
    format!("{value} ({}, n {})", without_unit(&value, &interval), measured.trials)
}

/// `642 to 650 MB/s, 1.2% of the median, n 6`.
fn spread(measured: &Measured) -> String {
    let (low, high) = measured.range;
    let share = (high - low) / measured.median.value;
    format!("{}, {} of the median, n {}", range(&measured.unit, low, high), percent(share), measured.trials)
}

/// Parts with less than this share are named together.
const LEAST_SHARE: f64 = 0.05;

/// `dm-crypt 41%, user space 13%, others 9%`.
fn spent(profile: &Profile) -> String {
    let share = |part: Subsystem| profile.count(|_, other| other == part) as f64 / profile.all() as f64;
    let mut parts: Vec<(Subsystem, f64)> = Subsystem::ALL.map(|part| (part, share(part))).to_vec();
    parts.retain(|(_, share)| *share >= LEAST_SHARE);
    order::by(&mut parts, |a, b| b.1.total_cmp(&a.1));
    let others = (1.0 - parts.iter().map(|(_, share)| share).sum::<f64>()).max(0.0);
    let words = |name: &str, share: f64| format!("{name} {:.0}%", share * 100.0);
    let named = parts.iter().map(|(part, share)| words(part.name(), *share));
    named.chain((others >= 0.005).then(|| words("others", others))).collect::<Vec<_>>().join(", ")
}

/// `17% of 199 windows of 102 ms above 95%; median load 77%`.
fn loads(all: &GovernorWindows) -> String {
    let Some((_, windows)) = all.busiest() else { return "no windows".to_owned() };
    let length = windows.mean_length().map_or_else(String::new, |length| format!(" of {length}"));
    let count = windows.all();
    let above = all.threshold.zip(all.above(windows)).map_or_else(
        || format!("{count} windows{length}"),
        |(threshold, above)| {
            let least = if all.counts_waiting { "at least " } else { "" };
            let share = 100.0 * above as f64 / count.max(1) as f64;
            format!("{least}{share:.0}% of {count} windows{length} above {threshold:.0}%")
        },
    );
    format!("{above}; median load {}", median(&windows.by_load(|_| true)))
}

fn ratio(comparison: &Comparison) -> String {
    let Some(ratio) = comparison.ratio else { return difference(comparison) };
    let interval = match comparison.interval {
        Some(i) => format!("{} to {}", ratio_words(i.low), ratio_words(i.high)),
        None if comparison.seeds.is_some() => "model".to_owned(),
        None => "too few trials for an interval".to_owned(),
    };
    let (a, b) = comparison.trials;
    format!("×{} ({interval}, n {b}, {a})", ratio_words(ratio))
}

/// `run quick-…, 2026-11-22, 6 valid trials of 6, intervals at 95%`.
pub(super) fn run_line(run: &RunData) -> String {
    let valid = run.trials.iter().filter(|trial| trial.validity.is_valid()).count();
    let traced = traced(run);
    let trials = counted(run.trials.len() - traced, "trial");
    let confidence = percent(run.study.measure.confidence);
    let traced = if traced > 0 { format!(", {traced} for events alone") } else { String::new() };
    let differ = deviation_within_cells(run).map_or_else(String::new, |deviation| {
        format!("; trials of one cell differ by {:.2}% (standard deviation, pooled)", deviation * 100.0)
    });
    format!(
        "{}, {}, {valid} of {trials} count{traced}, {confidence} intervals{differ}",
        run.run.id,
        date(run)
    )
}

/// How many trials recorded events and are counted for nothing else.
pub(super) fn traced(run: &RunData) -> usize {
    run.trials.iter().filter(|trial| trial.validity == Validity::Traced).count()
}

/// The day on which a run was begun.
pub(super) fn date(run: &RunData) -> String {
    run.run.started.iso().chars().take_while(|c| *c != 'T').collect()
}

/// The kernels that a run's trials name.
pub(super) fn kernels(run: &RunData) -> String {
    let kernels: BTreeSet<&str> =
        run.trials.iter().filter_map(|t| t.environment.get("kernel")).map(String::as_str).collect();
    let kernels: Vec<&str> = kernels.into_iter().collect();
    if kernels.is_empty() { "not known".to_owned() } else { kernels.join(", ") }
}
