//! A summary and its findings for other programs: a view of its own, so that our types may change while the
//! schema does not. Values are in base units; what is not known is `null`.

mod calls;

use crate::front::{self, Choice};
use crate::published::agrees_word;
use crate::states::{self, ResidencyView};
use crate::wording::{standing, verdict, verdict_word, why_not_counted};
use crate::{ComparisonReport, Report, lab, simulation};
use analysis::costs::{self, Cost};
use analysis::facts::cell_events;
use analysis::published::{Beside, Estimate};
use analysis::stats::interval::Interval;
use analysis::summary::{CellSummary, Comparison, Excluded, Point};
use calls::CallsView;
use domain::finding::{Finding, Gain, NotMeasured};
use domain::ids::{CellId, TrialKey};
use domain::inert;
use domain::outcome::Better;
use domain::passage::{Given, Passed};
use domain::profile::{Profile, Subsystem};
use domain::published::Figure;
use domain::request::Op;
use domain::spent::Wait;
use domain::time::Nanos;
use domain::took::Took;
use domain::trace::Role;
use domain::trial::{Run, Trial};
use domain::units::{Bytes, Unit};
use domain::windows::{GovernorWindows, Windows};
use serde::Serialize;
use std::collections::BTreeMap;

/// The version of these views. It grows when a field goes or changes its meaning, not when one is added.
pub const SCHEMA: u32 = 1;

/// A run as JSON, indented, with a newline at its end.
pub fn json(report: &Report) -> String {
    let s = report.summary;
    let effects = s.effects.iter().map(|e| EffectView {
        factor: &e.factor,
        context: &e.context,
        asked: report.data.study.asks_about(&e.factor),
        comparisons: e.comparisons.iter().map(comparison_view).collect(),
    });
    written(&RunView {
        schema: SCHEMA,
        kind: "run",
        run: run_view(&report.data.run),
        question: &report.data.study.question,
        metric: &s.metric,
        unit: &s.unit,
        better: better(s.better),
        verdict: verdict(report),
        trials: report.data.trials.len(),
        aa_floor: s.aa_floor,
        energy_by: costs::energy_by(report.data),
        cpu_changes: report.data.trials.iter().flat_map(cpu_changes).collect(),
        cells: s.cells.iter().map(|cell| cell_view(report, cell)).collect(),
        effects: effects.collect(),
        attribution: (s.attribution.iter())
            .map(|a| AttributionView { workload: &a.workload, source: &a.source, share: a.share })
            .collect(),
        findings: report.findings.iter().map(finding_view).collect(),
        not_measured: report.not_measured.iter().map(not_measured_view).collect(),
        lab: lab_view(report),
        simulation: simulation::note(report),
        front: front::choices(report).into_iter().map(|choice| choice_view(report, &choice)).collect(),
        published: s.published.iter().map(|row| published_view(report, row)).collect(),
        traces: (report.traces.iter())
            .map(|(key, view)| TraceStatesView { trial: key.folder(), states: states::view(&view.residency) })
            .collect(),
    })
}

/// A comparison as JSON, indented, with a newline at its end.
pub fn comparison_json(report: &ComparisonReport) -> String {
    let comparisons = report.comparisons.iter();
    written(&ComparisonsView {
        schema: SCHEMA,
        kind: "comparison",
        title: &report.title,
        verdict: &report.sentence,
        notes: &report.notes,
        comparisons: comparisons
            .map(|(context, c)| InContext { context, comparison: comparison_view(c) })
            .collect(),
    })
}

pub(crate) fn written(view: &impl Serialize) -> String {
    let mut text = serde_json::to_string_pretty(view).expect("views have text as keys and write to a String");
    text.push('\n');
    inert::json(&text).into_owned()
}

#[derive(Serialize)]
struct RunView<'a> {
    schema: u32,
    kind: &'static str,
    run: RunHeadView<'a>,
    question: &'a str,
    metric: &'a str,
    unit: &'a Unit,
    better: &'static str,
    verdict: &'a str,
    trials: usize,
    aa_floor: Option<f64>,
    /// By what energy was measured, with the number of valid trials; absent where no trial says it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    energy_by: BTreeMap<String, usize>,
    /// CPUs that went offline or came online during trials; absent where none did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cpu_changes: Vec<CpuChangeView>,
    cells: Vec<CellView<'a>>,
    effects: Vec<EffectView<'a>>,
    attribution: Vec<AttributionView<'a>>,
    findings: Vec<FindingView<'a>>,
    not_measured: Vec<NotMeasuredView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lab: Option<LabView<'a>>,
    /// That the figures are a model's; absent where they were measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    simulation: Option<&'static str>,
    /// Of a search for the trade-off of speed and watts: the cells that no other beats in both, the fastest
    /// first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    front: Vec<ChoiceView<'a>>,
    /// The cells beside what was published; absent where the study has none of that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    published: Vec<PublishedView<'a>>,
    /// What traces say of frequencies and states; absent where none was read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    traces: Vec<TraceStatesView<'a>>,
}

/// A cell of the trade-off of speed and watts.
#[derive(Serialize)]
struct ChoiceView<'a> {
    cell: &'a str,
    levels: &'a BTreeMap<String, String>,
    /// In the run's unit.
    median: f64,
    watts: f64,
    /// Of what the metric counts one of, or of the whole; `null` where it counts nothing.
    joules: Option<f64>,
    settings: BTreeMap<String, &'a str>,
    /// The command that keeps it; `null` of the machine as it is, and of a model.
    keep: Option<String>,
}

fn choice_view<'a>(report: &Report, choice: &Choice<'a>) -> ChoiceView<'a> {
    let keep = choice.keep(report, "flyball");
    let written = choice.settings.iter().map(|one| (one.setting.to_string(), one.value.as_str()));
    ChoiceView {
        cell: choice.place.cell.cell.as_str(),
        levels: &choice.place.cell.levels,
        median: choice.place.figure,
        watts: choice.place.watts,
        joules: choice.joules,
        settings: written.collect(),
        keep,
    }
}

/// How fast the CPUs of a trial ran, and in which states they were.
#[derive(Serialize)]
struct TraceStatesView<'a> {
    trial: String,
    #[serde(flatten)]
    states: ResidencyView<'a>,
}

/// One published row beside one cell, or one relation of two.
#[derive(Serialize)]
struct PublishedView<'a> {
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
    provenance: &'static str,
    ours: Option<EstimateView>,
    /// Valid trials of the cell, and of the one that it is divided by.
    trials: Option<(usize, Option<usize>)>,
    /// Ours over the published value or bound.
    ratio: Option<EstimateView>,
    agrees: &'static str,
    note: Option<&'a str>,
}

#[derive(Serialize)]
pub(crate) struct EstimateView {
    value: f64,
    interval: Option<IntervalView>,
}

/// What is known of a lab machine; absent for any other.
#[derive(Serialize)]
struct LabView<'a> {
    machine: String,
    /// The worst virtual CPU's lateness over the paced time: median and most over the trials.
    cpu_late: Option<(f64, f64)>,
    /// Seconds of the guest: mean and most over the answers.
    disk_late: Option<(f64, f64)>,
    time_in_state: Vec<StatesView<'a>>,
    unscaled: Vec<&'static str>,
}

#[derive(Serialize)]
struct StatesView<'a> {
    cell: &'a str,
    /// Pairs of a frequency in hertz and its share of the time.
    states: Vec<(u64, f64)>,
    not_idle: f64,
}

#[derive(Serialize)]
pub(crate) struct RunHeadView<'a> {
    id: &'a str,
    study: &'a str,
    seed: u64,
    started: String,
    finished: Option<String>,
    provenance: &'static str,
    machine: &'a str,
    flyball: &'a str,
    revision: Option<&'a str>,
}

#[derive(Serialize)]
struct CellView<'a> {
    cell: &'a str,
    workload: &'a str,
    levels: &'a BTreeMap<String, String>,
    median: Option<f64>,
    interval: Option<IntervalView>,
    range: Option<(f64, f64)>,
    spread: Option<f64>,
    relative: Option<f64>,
    /// Medians of latency, energy and CPU time, and of what a unit of work took, where trials report them.
    beside: BTreeMap<&'static str, CostView>,
    /// So many of its valid trials ran beside other work.
    under_load: usize,
    /// The shares of programs and parts of the kernel in its CPU time, where call stacks were sampled.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    spent: BTreeMap<&'static str, f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    governor_windows: Option<WindowsView>,
    /// What the workload's threads spent their time on, as shares, where switches were recorded.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    threads: BTreeMap<&'static str, f64>,
    /// How long block devices took, where requests were recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    requests: Vec<ServedView>,
    /// What devices that stand on others made of what they were given, where requests were recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    layers: Vec<LayerView>,
    /// What threads did in system calls, and what filesystems made of these, where they were recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    calls: Option<CallsView>,
    trials: Vec<TrialView>,
}

/// How busy the busiest CPU was between two samples of its governor, two decisions or two requests.
#[derive(Serialize)]
pub(crate) struct WindowsView {
    cpu: u16,
    /// Of a policy of several CPUs, whose number `cpu` is then, which these are.
    #[serde(skip_serializing_if = "Option::is_none")]
    policy_cpus: Option<String>,
    /// What windows lie between: `samples` of ondemand and conservative, `decisions` of intel_pstate,
    /// `requests` of schedutil, whose utilisation nobody sees.
    between: &'static str,
    /// Of schedutil, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_limit_seconds: Option<f64>,
    windows: u64,
    mean_seconds: Option<f64>,
    busy: Option<f64>,
    /// The load above which the governor goes up, as a share, and how many windows were above it; where the
    /// governor counts waiting for I/O too, at least.
    threshold: Option<f64>,
    above: Option<u64>,
    counts_waiting: bool,
}

/// What a device did of one operation, in all valid trials of the cell.
#[derive(Serialize)]
struct ServedView {
    device: String,
    operation: &'static str,
    per_second: f64,
    /// Means, and the times within which half and 99% were; null of a layer without requests.
    queue_seconds: Option<f64>,
    device_seconds: Option<f64>,
    device_p50_seconds: Option<f64>,
    device_p99_seconds: Option<f64>,
    /// Of a layer without requests.
    whole_seconds: Option<f64>,
    whole_p50_seconds: Option<f64>,
    whole_p99_seconds: Option<f64>,
}

/// What a device that stands on others made of what it was given, in all valid trials of the cell.
#[derive(Serialize)]
struct LayerView {
    device: String,
    /// How many reads and writes below one of them became, and bytes.
    amplification: Option<f64>,
    amplification_of_bytes: Option<f64>,
    /// The share of those below that is known to be of one that was followed.
    linked: Option<f64>,
    /// By operation.
    given: BTreeMap<&'static str, GivenView>,
    passed: Vec<PassedView>,
}

#[derive(Serialize)]
struct GivenView {
    per_second: f64,
    bytes_per_second: f64,
    /// The share that was followed from queueing to end.
    followed: Option<f64>,
    /// Means of these: they sum up to the whole time.
    before_seconds: Option<f64>,
    below_seconds: Option<f64>,
    between_seconds: Option<f64>,
    after_seconds: Option<f64>,
}

#[derive(Serialize)]
struct PassedView {
    to: String,
    operation: &'static str,
    /// Before the block layer merges it.
    per_second: f64,
    /// The requests of a disk that it became; null of a layer without requests.
    requests_per_second: Option<f64>,
    bytes_per_second: f64,
}

#[derive(Serialize)]
struct CostView {
    median: f64,
    unit: Unit,
}

#[derive(Serialize)]
struct TrialView {
    trial: String,
    block: u32,
    attempt: u32,
    value: Option<f64>,
    validity: &'static str,
    why: Option<String>,
}

#[derive(Serialize)]
struct CpuChangeView {
    trial: String,
    cpu: u32,
    online: bool,
    at_seconds: f64,
}

#[derive(Serialize)]
struct IntervalView {
    low: f64,
    high: f64,
    confidence: f64,
}

#[derive(Serialize)]
struct EffectView<'a> {
    factor: &'a str,
    context: &'a str,
    /// Whether the question is about this factor; else it is context, and the run's `verdict` rests on none
    /// of it.
    asked: bool,
    comparisons: Vec<ComparisonView<'a>>,
}

#[derive(Serialize)]
pub(crate) struct ComparisonView<'a> {
    a: &'a str,
    b: &'a str,
    metric: &'a str,
    unit: &'a Unit,
    better: &'static str,
    trials: (usize, usize),
    medians: (f64, f64),
    /// `null` where a median is not above zero.
    ratio: Option<f64>,
    interval: Option<IntervalView>,
    bootstrap: Option<IntervalView>,
    p: Option<f64>,
    threshold: f64,
    verdict: &'static str,
    sentence: &'a str,
}

#[derive(Serialize)]
struct AttributionView<'a> {
    workload: &'a str,
    source: &'a str,
    share: f64,
}

#[derive(Serialize)]
struct FindingView<'a> {
    rule: &'a str,
    title: &'a str,
    reason: &'a str,
    confidence: &'static str,
    evidence: Vec<EvidenceView<'a>>,
    gain: Option<GainView<'a>>,
    remedy: Option<RemedyView<'a>>,
    next: &'a str,
}

#[derive(Serialize)]
struct EvidenceView<'a> {
    what: &'a str,
    figure: &'a str,
    source: &'a str,
}

#[derive(Serialize)]
struct GainView<'a> {
    metric: &'a str,
    low: f64,
    ratio: f64,
    high: f64,
}

#[derive(Serialize)]
struct RemedyView<'a> {
    what: &'a str,
    settings: Vec<String>,
    undo: &'a str,
}

#[derive(Serialize)]
struct NotMeasuredView<'a> {
    what: &'a str,
    why: &'a str,
}

#[derive(Serialize)]
struct ComparisonsView<'a> {
    schema: u32,
    kind: &'static str,
    title: &'a str,
    verdict: &'a str,
    notes: &'a [String],
    comparisons: Vec<InContext<'a>>,
}

#[derive(Serialize)]
struct InContext<'a> {
    context: &'a str,
    #[serde(flatten)]
    comparison: ComparisonView<'a>,
}

fn lab_view<'a>(report: &Report<'a>) -> Option<LabView<'a>> {
    let late = lab::lateness(report);
    let states = lab::states(report);
    let row = |states: lab::States<'a>| -> Vec<StatesView<'a>> {
        let hertz: Vec<u64> = states.frequencies.iter().map(|f| f.hz()).collect();
        let view = |(cell, shares, not_idle): (&'a CellSummary, Vec<f64>, f64)| StatesView {
            cell: cell.cell.as_str(),
            states: hertz.iter().copied().zip(shares).collect(),
            not_idle,
        };
        states.rows.into_iter().map(view).collect()
    };
    Some(LabView {
        machine: lab::machine(report)?,
        cpu_late: late.cpus,
        disk_late: late.disks.map(|(mean, latest)| (mean.secs(), latest.secs())),
        time_in_state: states.map(row).unwrap_or_default(),
        unscaled: lab::unscaled(report).map(|(_, what)| what).unwrap_or_default(),
    })
}

fn published_view<'a>(report: &Report<'a>, row: &'a Beside) -> PublishedView<'a> {
    PublishedView {
        what: &row.what,
        cell: row.cell.as_str(),
        over: row.over.as_ref().map(CellId::as_str),
        source: &row.source,
        metric: &row.metric,
        unit: row.over.is_none().then_some(&row.unit),
        value: printed(row),
        accepted: ends(row),
        provenance: report.data.run.provenance.name(),
        ours: row.ours.map(|ours| estimate_view(ours.figure)),
        trials: row.ours.map(|ours| ours.trials),
        ratio: row.ratio.map(estimate_view),
        agrees: agrees_word(row.agrees),
        note: row.note.as_deref(),
    }
}

/// What was printed, where it was no bound.
pub(crate) const fn printed(row: &Beside) -> Option<f64> {
    match row.published {
        Figure::Value { value, .. } => Some(value),
        Figure::AtLeast(_) | Figure::AtMost(_) | Figure::Between { .. } => None,
    }
}

/// The least and the most that agree with it, where there are such ends.
pub(crate) fn ends(row: &Beside) -> (Option<f64>, Option<f64>) {
    let (low, high) = row.published.accepted();
    let end = |end: f64| Some(end).filter(|end| end.is_finite());
    (end(low), end(high))
}

pub(crate) fn estimate_view(estimate: Estimate) -> EstimateView {
    let interval = estimate.interval.as_ref().filter(|interval| interval.has_width());
    EstimateView { value: estimate.value, interval: interval.map(interval_view) }
}

pub(crate) fn run_view(run: &Run) -> RunHeadView<'_> {
    RunHeadView {
        id: &run.id.0,
        study: &run.study,
        seed: run.seed.0,
        started: run.started.iso(),
        finished: run.finished.map(|t| t.iso()),
        provenance: run.provenance.name(),
        machine: &run.machine,
        flyball: &run.flyball,
        revision: run.revision.as_deref(),
    }
}

/// The interval of a cell's median; a model whose seeds all give the same has none.
fn cell_interval(report: &Report, cell: &CellSummary) -> Option<IntervalView> {
    let is_model = simulation::note(report).is_some();
    cell.interval.as_ref().filter(|interval| !is_model || interval.has_width()).map(interval_view)
}

fn cost_view(cost: Cost) -> (&'static str, CostView) {
    (cost.metric, CostView { median: cost.median, unit: cost.unit })
}

fn cell_view<'a>(report: &Report, cell: &'a CellSummary) -> CellView<'a> {
    let counted = |p: &Point| trial_view(&p.key, Some(p.value), "valid", None);
    let left_out =
        |e: &Excluded| trial_view(&e.key, e.value, standing(&e.validity), Some(why_not_counted(&e.validity)));
    CellView {
        cell: cell.cell.as_str(),
        workload: &cell.workload,
        levels: &cell.levels,
        median: cell.median,
        interval: cell_interval(report, cell),
        range: cell.range,
        spread: cell.spread,
        relative: cell.relative,
        beside: costs::of_cell(report.data, &cell.cell)
            .into_iter()
            .chain(costs::of_work(report.data, &cell.cell))
            .chain(costs::derived(report.data, &cell.cell))
            .map(cost_view)
            .collect(),
        under_load: costs::under_load(report.data, &cell.cell),
        spent: spent(report, cell),
        governor_windows: windows_view(report, cell),
        threads: threads(report, cell),
        requests: cell_events::served(report.data, &cell.cell).into_iter().map(served_view).collect(),
        layers: cell_events::layers(report.data, &cell.cell).into_iter().map(layer_view).collect(),
        calls: cell_events::calls(report.data, &cell.cell).map(CallsView::of),
        trials: cell.points.iter().map(counted).chain(cell.excluded.iter().map(left_out)).collect(),
    }
}

fn spent(report: &Report, cell: &CellSummary) -> BTreeMap<&'static str, f64> {
    cell_events::profile(report.data, &cell.cell)
        .map(|profile| shares_of_profile(&profile))
        .unwrap_or_default()
}

/// The share of each part that has any.
pub(crate) fn shares_of_profile(profile: &Profile) -> BTreeMap<&'static str, f64> {
    let counts = Subsystem::ALL.map(|part| (part.name(), profile.count(|_, other| other == part)));
    let present = counts.into_iter().filter(|(_, count)| *count > 0);
    present.map(|(name, count)| (name, count as f64 / profile.all() as f64)).collect()
}

fn threads(report: &Report, cell: &CellSummary) -> BTreeMap<&'static str, f64> {
    let all = cell_events::spent(report.data, &cell.cell);
    let Some(spent) = all.get(&Role::Workload) else { return BTreeMap::new() };
    let waits = Wait::ALL.into_iter().map(|wait| (wait.name(), spent.waited(wait).get()));
    let parts = [("cpu", spent.cpu_ns), ("ready", spent.ready_ns)].into_iter().chain(waits);
    parts.map(|(name, ns)| (name, ns as f64 / spent.all().get().max(1) as f64)).collect()
}

fn served_view(one: cell_events::OfDevice) -> ServedView {
    let seconds = |took: &Took| took.mean().map(Nanos::secs);
    let within = |took: &Took, share: f64| took.quantile(share).map(Nanos::secs);
    ServedView {
        operation: one.op.name(),
        per_second: one.served.count as f64 / one.time.secs(),
        queue_seconds: seconds(&one.served.queue),
        device_seconds: seconds(&one.served.service),
        device_p50_seconds: within(&one.served.service, 0.5),
        device_p99_seconds: within(&one.served.service, 0.99),
        whole_seconds: seconds(&one.served.whole),
        whole_p50_seconds: within(&one.served.whole, 0.5),
        whole_p99_seconds: within(&one.served.whole, 0.99),
        device: one.device,
    }
}

fn layer_view(layer: cell_events::OfLayer) -> LayerView {
    let cell_events::OfLayer { device, passage, time } = layer;
    let rate = |count: u64| count as f64 / time.secs();
    let bytes = |sectors: u64| Bytes::from_sectors(sectors).get() as f64 / time.secs();
    let given = |given: &Given| {
        let [before, below, between, after] =
            given.means().map_or([None; 4], |means| means.map(|mean| Some(mean.secs())));
        GivenView {
            per_second: rate(given.bios.count),
            bytes_per_second: bytes(given.bios.sectors),
            followed: given.share_followed(),
            before_seconds: before,
            below_seconds: below,
            between_seconds: between,
            after_seconds: after,
        }
    };
    let passed = |((to, op), passed): (&(String, Op), &Passed)| PassedView {
        to: to.clone(),
        operation: op.name(),
        per_second: rate(passed.bios.count),
        requests_per_second: (passed.requests > 0).then(|| rate(passed.requests)),
        bytes_per_second: bytes(passed.bios.sectors),
    };
    LayerView {
        device,
        amplification: passage.amplification(),
        amplification_of_bytes: passage.amplification_of_bytes(),
        linked: passage.share_linked(),
        given: passage.given.iter().map(|(op, of)| (op.name(), given(of))).collect(),
        passed: passage.passed.iter().map(passed).collect(),
    }
}

fn windows_view(report: &Report, cell: &CellSummary) -> Option<WindowsView> {
    let all = cell_events::windows(report.data, &cell.cell)?;
    all.busiest().map(|(cpu, windows)| WindowsView::of(&all, cpu, windows))
}

impl WindowsView {
    pub(crate) fn of(all: &GovernorWindows, cpu: u16, windows: &Windows) -> Self {
        Self {
            cpu,
            policy_cpus: all.shared.get(&cpu).map(ToString::to_string),
            between: all.boundary.plural(),
            rate_limit_seconds: all.rate_limit.map(|limit| limit.secs()),
            windows: windows.all(),
            mean_seconds: windows.mean_length().map(|length| length.secs()),
            busy: windows.load(),
            threshold: all.threshold.map(|percent| percent / 100.0),
            above: all.above(windows),
            counts_waiting: all.counts_waiting,
        }
    }
}

fn cpu_changes(trial: &Trial) -> impl Iterator<Item = CpuChangeView> {
    let recorder = trial.measurement.iter().filter_map(|measurement| measurement.recorder.as_ref());
    recorder.flat_map(|recorder| &recorder.cpu_changes).map(|change| CpuChangeView {
        trial: trial.key.folder(),
        cpu: change.cpu,
        online: change.online,
        at_seconds: change.at.secs(),
    })
}

fn trial_view(key: &TrialKey, value: Option<f64>, validity: &'static str, why: Option<String>) -> TrialView {
    TrialView { trial: key.folder(), block: key.block, attempt: key.attempt, value, validity, why }
}

fn interval_view(interval: &Interval) -> IntervalView {
    IntervalView { low: interval.low, high: interval.high, confidence: interval.confidence }
}

pub(crate) fn comparison_view(c: &Comparison) -> ComparisonView<'_> {
    ComparisonView {
        a: &c.a,
        b: &c.b,
        metric: &c.metric,
        unit: &c.unit,
        better: better(c.better),
        trials: c.trials,
        medians: c.medians,
        ratio: c.ratio,
        interval: c.interval.as_ref().map(interval_view),
        bootstrap: c.bootstrap.as_ref().map(interval_view),
        p: c.p,
        threshold: c.threshold,
        verdict: verdict_word(c.verdict),
        sentence: &c.sentence,
    }
}

fn finding_view(finding: &Finding) -> FindingView<'_> {
    FindingView {
        rule: finding.rule,
        title: &finding.title,
        reason: &finding.reason,
        confidence: finding.confidence.name(),
        evidence: (finding.evidence.iter())
            .map(|e| EvidenceView { what: &e.what, figure: &e.figure, source: &e.source })
            .collect(),
        gain: finding.gain.as_ref().map(gain_view),
        remedy: finding.remedy.as_ref().map(|r| RemedyView {
            what: &r.what,
            settings: r.settings.iter().map(ToString::to_string).collect(),
            undo: &r.undo,
        }),
        next: &finding.next,
    }
}

fn gain_view(gain: &Gain) -> GainView<'_> {
    GainView { metric: &gain.metric, low: gain.low, ratio: gain.ratio, high: gain.high }
}

fn not_measured_view(n: &NotMeasured) -> NotMeasuredView<'_> {
    NotMeasuredView { what: &n.what, why: &n.why }
}

const fn better(better: Better) -> &'static str {
    match better {
        Better::Higher => "higher",
        Better::Lower => "lower",
    }
}
