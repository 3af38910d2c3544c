//! Runs to report on, made by hand: an ordinary one, and those that reports tend to break on.
//!
//! The figures are of the size that a small virtual machine gives; none was measured. The summary's medians
//! and intervals are computed here in the plainest way, since `analysis` is not what is tested.
#![allow(dead_code, clippy::unwrap_used)]

pub mod long;
pub mod simulated;
pub mod virtual_machine;

use analysis::stats::interval::Interval;
use analysis::summary::*;
use domain::finding::*;
use domain::ids::{RunId, TrialKey};
use domain::outcome::{Better, Metric, Outcome};
use domain::plan::{Cell, Plan};
use domain::rng::{Rng, Seed};
use domain::setting::{SettingName, SettingRecord, SettingRequest};
use domain::study::{Factor, Level, Measure, Study, Target, Tool, Workload};
use domain::time::{Nanos, Timestamp};
use domain::trace::*;
use domain::trial::*;
use domain::units::{Bytes, Unit};
use report::{ComparisonReport, Report, TraceView};
use std::collections::BTreeMap;

/// Everything a report borrows.
pub struct Case {
    pub data: RunData,
    pub summary: RunSummary,
    pub findings: Vec<Finding>,
    pub not_measured: Vec<NotMeasured>,
    pub inventory: Option<String>,
    pub traces: Vec<(TrialKey, TraceView)>,
}

impl Case {
    pub fn report(&self) -> Report<'_> {
        Report {
            data: &self.data,
            summary: &self.summary,
            findings: &self.findings,
            not_measured: &self.not_measured,
            machine: Some("2 × Intel Xeon at 2.5 GHz, 24 GB, Linux 6.18.5, KVM guest, ext4 on vda"),
            inventory_text: self.inventory.as_deref(),
            traces: &self.traces,
        }
    }
}

pub const STUDY_TEXT: &str = r#"flyball = 1
name = "readahead"
question = "Does read-ahead decide how fast this loop device is read?"

[target]
loop = "256MiB"

[workload.seqread]
tool = "fio"
options = { rw = "read", ioengine = "psync", runtime = "2s", time_based = true }

[workload.randread]
tool = "fio"
options = { rw = "randread", bs = "4k", direct = 1, runtime = "2s", time_based = true }

[factor.block]
option = "bs"
levels = ["4k", "64k"]
workloads = ["seqread"]

[factor.readahead]
setting = "read_ahead_kb"
levels = [16, 128, 4096]
"#;

pub fn factor(name: &str, levels: &[&str], workloads: &[&str]) -> Factor {
    let level = |l: &&str| Level {
        name: (*l).into(),
        options: BTreeMap::from([(name.to_owned(), (*l).to_owned())]),
        settings: vec![],
        stack: domain::stack::Changes::new(),
        beside: Default::default(),
        kernel: None,
        machine: None,
        pstates: None,
    };
    Factor {
        name: name.into(),
        levels: levels.iter().map(level).collect(),
        workloads: workloads.iter().map(|w| (*w).into()).collect(),
    }
}

pub fn study(name: &str, question: &str, workloads: &[&str], factors: Vec<Factor>) -> Study {
    let workload = |n: &&str| Workload { name: (*n).into(), tool: Tool::Fio, options: BTreeMap::new() };
    Study {
        name: name.into(),
        question: question.into(),
        primary: vec![],
        target: Target::Loop(Bytes::from_mib(256)),
        workloads: workloads.iter().map(workload).collect(),
        beside: vec![],
        factors,
        settings: vec![],
        measure: Measure::default(),
        stack: None,
        lab: domain::lab::Lab::default(),
        sim: domain::study::Sim::default(),
        published: vec![],
        page: None,
    }
}

pub fn run(study: &Study, text: &str) -> Run {
    Run {
        id: RunId(format!("{}-20261120-140502-7f3a", study.name)),
        study: study.name.clone(),
        study_text: text.into(),
        seed: Seed(20_261_120),
        started: Timestamp::from_unix_nanos(1_795_183_502_000_000_000),
        finished: Some(Timestamp::from_unix_nanos(1_795_183_640_000_000_000)),
        provenance: Provenance::Host,
        machine: "3f9ab2c41d07".into(),
        flyball: "0.1.0".into(),
        revision: Some("1a2b3c4d+".into()),
        command: Vec::new(),
    }
}

/// One trial of a cell with this throughput.
pub fn trial(study: &Study, cell: &Cell, block: u32, throughput: f64) -> Trial {
    let duration = Nanos::from_millis(2003);
    let share = (throughput / 1.4e9).min(1.0);
    let cpu = |cores: f64| Nanos::new((duration.get() as f64 * cores) as u64);
    let metric = |value, unit, better| Metric { value, unit, better };
    let metrics = BTreeMap::from([
        ("throughput".to_owned(), metric(throughput, Unit::BytesPerSecond, Better::Higher)),
        ("iops".to_owned(), metric(throughput / 4096.0, Unit::PerSecond, Better::Higher)),
        ("latency_p99".to_owned(), metric(4096.0 / throughput.max(1e6) * 3.1, Unit::Seconds, Better::Lower)),
    ]);
    let commands = vec![vec![
        "fio".to_owned(),
        format!("--name={}", cell.workload.name),
        "--filename=/dev/loop0".to_owned(),
        "--output-format=json+".to_owned(),
        "--rw=read".to_owned(),
    ]];
    Trial {
        run: run(study, "").id,
        key: TrialKey { block, cell: cell.id.clone(), attempt: 0 },
        study: study.name.clone(),
        workload: cell.workload.name.clone(),
        levels: cell.levels.clone(),
        provenance: Provenance::Host,
        machine: "3f9ab2c41d07".into(),
        started: Timestamp::from_unix_nanos(1_795_183_502_000_000_000 + i64::from(block) * 30_000_000_000),
        settings: (cell.levels.get("readahead").into_iter())
            .map(|value| SettingRecord {
                setting: SettingName::parse("read_ahead_kb@loop0"),
                path: "/sys/block/loop0/queue/read_ahead_kb".into(),
                before: "128".into(),
                asked: value.clone(),
                got: value.clone(),
                after: Some(value.clone()),
            })
            .collect(),
        environment: BTreeMap::from([
            ("kernel".to_owned(), "6.18.5".to_owned()),
            (
                "mitigations".to_owned(),
                "retbleed: Mitigation: Enhanced IBRS; spectre_v2: Mitigation".to_owned(),
            ),
            ("scheduler".to_owned(), "none".to_owned()),
            ("filesystem".to_owned(), "ext4 rw,relatime,data=ordered".to_owned()),
            ("load before".to_owned(), if block == 2 { "0.41".to_owned() } else { "0.08".to_owned() }),
        ]),
        validity: Validity::Valid,
        measurement: Some(Measurement {
            outcome: Outcome { metrics, tool: "fio-3.33".into(), warnings: vec![] },
            commands,
            duration,
            roles: BTreeMap::from([
                (Role::Workload, cpu(0.24 + 0.55 * share)),
                (Role::Loop, cpu(0.08 + 0.35 * share)),
                (Role::Kworker, cpu(0.03)),
                (Role::Interrupt, cpu(0.012)),
                (Role::Flyball, cpu(0.001)),
                (Role::Other, cpu(0.02)),
            ]),
            threads: vec![],
            disks: vec![],
            recorder: None,
            profile: None,
            windows: None,
            phases: vec![],
            spent: Default::default(),
            calls: None,
            disturbances: vec![],
        }),
        lab: None,
        origin: None,
    }
}

/// Trials of each cell around `middle`, `blocks` of them, in the plan's random order.
pub fn measured(plan: &Plan, blocks: u32, noise: f64, middle: impl Fn(&Cell) -> f64) -> Vec<Trial> {
    let mut rng = plan.seed.stream("noise");
    let mut trials = Vec::new();
    for block in 0..blocks {
        for i in plan.block_order(block) {
            let cell = &plan.cells[i];
            let value = middle(cell) * (1.0 + noise * rng.normal());
            trials.push(trial(&plan.study, cell, block, value));
        }
    }
    trials
}

/// The summary of trials by their throughput.
pub fn summary(plan: &Plan, trials: &[Trial], verdict: &str) -> RunSummary {
    let mut cells: Vec<CellSummary> = plan.cells.iter().map(|c| cell_summary(c, trials)).collect();
    for i in 0..cells.len() {
        let same = cells.iter().filter(|c| c.workload == cells[i].workload);
        let best = same.filter_map(|c| c.median).fold(0.0, f64::max);
        cells[i].relative = cells[i].median.filter(|_| best > 0.0).map(|m| m / best);
    }
    RunSummary {
        metric: "throughput".into(),
        unit: Unit::BytesPerSecond,
        better: Better::Higher,
        cells,
        effects: vec![],
        attribution: vec![],
        aa_floor: None,
        published: vec![],
        verdict: verdict.into(),
    }
}

fn cell_summary(cell: &Cell, trials: &[Trial]) -> CellSummary {
    let mine = || trials.iter().filter(|t| t.key.cell == cell.id);
    let value = |t: &Trial| t.metric("throughput");
    let points: Vec<Point> = mine()
        .filter(|t| t.validity.is_valid())
        .filter_map(|t| Some(Point { key: t.key.clone(), value: value(t)? }))
        .collect();
    let excluded = mine().filter(|t| !t.validity.is_valid());
    let excluded = excluded
        .map(|t| Excluded { key: t.key.clone(), value: value(t), validity: t.validity.clone() })
        .collect();
    let mut sorted: Vec<f64> = points.iter().map(|p| p.value).collect();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let median = (n > 0).then(|| (sorted[n / 2] + sorted[(n - 1) / 2]) / 2.0);
    CellSummary {
        cell: cell.id.clone(),
        workload: cell.workload.name.clone(),
        levels: cell.levels.clone(),
        interval: (n >= 6).then(|| Interval { low: sorted[0], high: sorted[n - 1], confidence: 0.95 }),
        range: (n > 0).then(|| (sorted[0], sorted[n - 1])),
        spread: median
            .filter(|m| n > 1 && *m > 0.0)
            .map(|m| (sorted[3 * (n - 1) / 4] - sorted[(n - 1) / 4]) / m),
        relative: None,
        median,
        points,
        excluded,
        lack: None,
    }
}

pub fn comparison(a: &str, b: &str, ratio: f64, half: f64, verdict: Verdict) -> Comparison {
    Comparison {
        a: a.into(),
        b: b.into(),
        metric: "throughput".into(),
        unit: Unit::BytesPerSecond,
        better: Better::Higher,
        trials: (8, 8),
        medians: (4.2e8, 4.2e8 * ratio),
        ratio: Some(ratio),
        interval: Some(Interval { low: ratio - half, high: ratio + half, confidence: 0.95 }),
        bootstrap: Some(Interval { low: ratio - 1.4 * half, high: ratio + 1.3 * half, confidence: 0.95 }),
        p: Some(if verdict == Verdict::Same || verdict == Verdict::Undecided { 0.41 } else { 0.0004 }),
        threshold: 0.02,
        verdict,
        sentence: format!("{b} is {ratio:.2} times as fast as {a} (8 against 8 trials)"),
        seeds: None,
    }
}

fn effect(factor: &str, context: &str, comparisons: Vec<Comparison>) -> FactorEffect {
    FactorEffect { factor: factor.into(), context: context.into(), comparisons }
}

/// The ordinary run: two workloads, two factors, a disturbed trial and a failed one.
pub fn ordinary() -> Case {
    let study = study(
        "readahead",
        "Does read-ahead decide how fast this loop device is read?",
        &["seqread", "randread"],
        vec![factor("block", &["4k", "64k"], &["seqread"]), factor("readahead", &["16", "128", "4096"], &[])],
    );
    let plan = Plan::new(study.clone(), Seed(20_261_120)).unwrap();
    let mut trials = measured(&plan, 8, 0.025, |cell| {
        if cell.workload.name == "randread" {
            return 5.7e7;
        }
        let block = if cell.levels["block"] == "4k" { 1.0 } else { 1.18 };
        block
            * match cell.levels["readahead"].as_str() {
                "16" => 4.2e8,
                "128" => 9.1e8,
                _ => 1.13e9,
            }
    });
    disturb(&mut trials);
    let mut summary = summary(
        &plan,
        &trials,
        "Yes: with 4096 KiB of read-ahead sequential reads are 2.7 times as fast as with 16 KiB (95% interval 2.59 to 2.79); random reads do not depend on it.",
    );
    use Verdict::*;
    summary.effects = vec![
        effect("block", "seqread, readahead 16", vec![comparison("4k", "64k", 1.17, 0.03, Better)]),
        effect("block", "seqread, readahead 128", vec![comparison("4k", "64k", 1.19, 0.028, Better)]),
        effect("block", "seqread, readahead 4096", vec![comparison("4k", "64k", 1.03, 0.05, Undecided)]),
        effect(
            "readahead",
            "seqread, block 4k",
            vec![comparison("16", "128", 2.16, 0.07, Better), comparison("16", "4096", 2.69, 0.1, Better)],
        ),
        effect(
            "readahead",
            "seqread, block 64k",
            vec![comparison("16", "128", 2.17, 0.06, Better), comparison("16", "4096", 2.66, 0.09, Better)],
        ),
        effect(
            "readahead",
            "randread",
            vec![comparison("16", "128", 1.004, 0.013, Same), comparison("16", "4096", 0.94, 0.02, Worse)],
        ),
    ];
    let part = |workload: &str, source: &str, share| Attribution {
        workload: workload.into(),
        source: source.into(),
        share,
    };
    summary.attribution = vec![
        part("seqread", "readahead", 0.894),
        part("seqread", "block", 0.071),
        part("seqread", "block × readahead", 0.013),
        part("seqread", "residual", 0.022),
        part("randread", "readahead", 0.186),
        part("randread", "residual", 0.814),
    ];
    summary.aa_floor = Some(0.0163);
    let traces =
        trials.iter().step_by(7).take(6).enumerate().map(|(i, t)| (t.key.clone(), view(i as u64))).collect();
    let data = RunData { run: run(&study, STUDY_TEXT), study, trials, skipped: BTreeMap::new() };
    Case {
        data,
        summary,
        findings: findings(),
        not_measured: not_measured(),
        inventory: Some(INVENTORY.into()),
        traces,
    }
}

const INVENTORY: &str = "CPU        2 × Intel Xeon Processor at 2.5 GHz, 1 package\ncpufreq    absent: the hypervisor shows no P-states, so no governor can be chosen here\nvda        64 GB virtio, scheduler none, read-ahead 128 kB\n└─ ext4    / rw,relatime\n";

fn disturb(trials: &mut [Trial]) {
    let at = |i: usize, trials: &mut [Trial], scale: f64| {
        if let Some(m) = &mut trials[i].measurement {
            m.outcome.metrics.get_mut("throughput").unwrap().value *= scale;
        }
    };
    at(11, trials, 0.71);
    trials[11].validity = Validity::Disturbed(vec![Disturbance {
        kind: "steal".into(),
        detail: "the hypervisor took 18.4% of the CPU time, more than the 2% that are let pass".into(),
    }]);
    at(29, trials, 0.9);
    trials[29].validity = Validity::Disturbed(vec![
        Disturbance {
            kind: "other-load".into(),
            detail: "other processes used 0.61 cores, more than 0.1".into(),
        },
        Disturbance { kind: "clock-step".into(), detail: "the civil clock stepped by 1.2 s".into() },
    ]);
    trials[40].validity = Validity::Failed(
        "fio ended with status 1: `fio: io_u error on file /dev/loop0: Input/output error`".into(),
    );
    trials[40].measurement = None;
}

pub fn findings() -> Vec<Finding> {
    let evidence = |what: &str, figure: &str, source: &str| Evidence {
        what: what.into(),
        figure: figure.into(),
        source: source.into(),
    };
    vec![
        Finding {
            rule: "read-ahead",
            title: "The read-ahead of loop0 is too small for sequential reads".into(),
            reason: "A buffered reader waits for each read-ahead window. With 16 KiB every window is a request of its own \
                     and the device idles between two of them; from about 1 MiB on the next window is always under way."
                .into(),
            evidence: vec![
                evidence("throughput with 4096 KiB against 16 KiB, block 4k", "×2.69 (2.59 to 2.79)", "16 trials of this run"),
                evidence("share of its time in which loop0 was busy with 16 KiB", "41.3%", "/proc/diskstats, b03.seqread_4k_16.a0"),
            ],
            confidence: Confidence::Shown,
            gain: Some(Gain { metric: "throughput".into(), low: 2.59, ratio: 2.69, high: 2.79 }),
            remedy: Some(Remedy {
                what: "Set the read-ahead of loop0 to 4096 KiB.".into(),
                settings: vec![SettingRequest { setting: SettingName::parse("read_ahead_kb@loop0"), value: "4096".into() }],
                undo: "It was 128; Flyball's ledger puts it back with `flyball restore`.".into(),
            }),
            next: "flyball run studies/readahead.toml --seed 20261120".into(),
            compared: vec![],
        },
        Finding {
            rule: "noise",
            title: "Steal time makes single trials unreliable here".into(),
            reason: "The hypervisor gave the CPUs to other guests during 1 of 72 trials.".into(),
            evidence: vec![evidence("steal", "18.4%", "/proc/stat, b01.seqread_4k_16.a0")],
            confidence: Confidence::Likely,
            gain: None,
            remedy: None,
            next: "flyball record --duration 60s".into(),
            compared: vec![],
        },
    ]
}

pub fn not_measured() -> Vec<NotMeasured> {
    let n = |what: &str, why: &str| NotMeasured { what: what.into(), why: why.into() };
    vec![
        n(
            "Frequency and governor",
            "this machine has no cpufreq: the hypervisor decides the frequency; measure on the host itself",
        ),
        n("Energy", "no RAPL domain is shown to this guest"),
    ]
}

/// A trace of about two seconds with 12 ms of nothing in its middle.
pub fn view(seed: u64) -> TraceView {
    TraceView::from_trace(&trace(seed, 2_000, FrequencySource::None))
}

/// A trace of so many rows of 10 ms.
pub fn trace(seed: u64, rows: usize, frequency: FrequencySource) -> Trace {
    let mut names: Vec<(String, SeriesUnit, SeriesKind)> = Vec::new();
    let counter = SeriesKind::Counter { wraps_at: None };
    let mut add = |name: String, unit, kind| names.push((name, unit, kind));
    for cpu in ["cpu", "cpu0", "cpu1"] {
        for state in ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"] {
            add(format!("{cpu}.{state}"), SeriesUnit::Ticks, counter);
        }
    }
    for disk in ["vda", "loop0"] {
        for quantity in ["read_sectors", "write_sectors", "io_ms"] {
            add(format!("disk.{disk}.{quantity}"), SeriesUnit::Sectors, counter);
        }
    }
    for role in ["workload", "loop", "kworker", "interrupt"] {
        add(format!("role.{role}.ns"), SeriesUnit::Nanos, counter);
    }
    if frequency == FrequencySource::ScalingCurFreq {
        add("freq.cpu0.khz".into(), SeriesUnit::Kilohertz, SeriesKind::Gauge);
        add("freq.cpu1.khz".into(), SeriesUnit::Kilohertz, SeriesKind::Gauge);
    }
    let series = names.into_iter().map(|(name, unit, kind)| Series { name, unit, kind }).collect();
    let head = TraceHead { series, interval: Nanos::from_millis(10), start: Timestamp::default(), frequency };
    let mut trace = Trace::new(head);
    let mut rng = Seed(seed).stream("trace");
    let mut sums = vec![0.0; trace.columns.len()];
    for row in 0..rows {
        trace.times.push(Nanos::from_millis(10 * row as u64));
        let gap = row > rows / 2 && row < rows / 2 + rows / 16;
        let load = if row < rows / 10 { 0.05 } else { 0.8 + 0.15 * ((row as f64) / 90.0).sin() };
        for (i, series) in trace.head.series.iter().enumerate() {
            sums[i] += step(&series.name, load, &mut rng);
            let value =
                if series.name.ends_with("khz") { step(&series.name, load, &mut rng) } else { sums[i] };
            trace.columns[i].push((!gap).then_some(value as u64));
        }
    }
    trace
}

/// What a series grows by in 10 ms under this load.
fn step(name: &str, load: f64, rng: &mut Rng) -> f64 {
    let noise = 1.0 + 0.2 * rng.normal();
    let size = match name {
        "cpu.user" => 0.24,
        "cpu.system" => 0.81,
        "cpu.iowait" => 0.31,
        "cpu.softirq" => 0.07,
        "cpu.steal" => 0.05,
        "cpu.idle" => 0.5,
        "disk.vda.read_sectors" => 11_000.0,
        "disk.loop0.read_sectors" => 17_000.0,
        "disk.vda.io_ms" => 6.3,
        "disk.loop0.io_ms" => 8.1,
        "disk.vda.write_sectors" => 40.0,
        "role.workload.ns" => 6.1e6,
        "role.loop.ns" => 3.4e6,
        "role.kworker.ns" => 0.6e6,
        "role.interrupt.ns" => 0.2e6,
        n if n.ends_with("khz") => return 900_000.0 + load * 1_500_000.0 * noise,
        _ => 0.0,
    };
    (size * load * noise).max(0.0)
}

fn bare(study: Study, plan: &Plan, trials: Vec<Trial>, verdict: &str) -> Case {
    let summary = summary(plan, &trials, verdict);
    let data = RunData { run: run(&study, "flyball = 1\n"), study, trials, skipped: BTreeMap::new() };
    Case { data, summary, findings: vec![], not_measured: vec![], inventory: None, traces: vec![] }
}

/// Sixty cells over three factors, values over three decades.
pub fn sixty() -> Case {
    let factors = vec![
        factor("block", &["4k", "64k", "1M"], &[]),
        factor("depth", &["1", "4", "16", "64"], &[]),
        factor("governor", &["performance", "powersave", "ondemand", "schedutil", "conservative"], &[]),
    ];
    let study = study("grid", "What decides random reads?", &["randread"], factors);
    let plan = Plan::new(study.clone(), Seed(5)).unwrap();
    let trials = measured(&plan, 6, 0.04, |c| {
        let depth: f64 = c.levels["depth"].parse().unwrap();
        let block = match c.levels["block"].as_str() {
            "4k" => 1.0,
            "64k" => 9.0,
            _ => 40.0,
        };
        2e6 * block * depth.powf(0.7) * if c.levels["governor"] == "powersave" { 0.7 } else { 1.0 }
    });
    let mut case = bare(study, &plan, trials, "Block size and depth decide; powersave costs 30%.");
    case.traces = (0..4)
        .map(|i| {
            let view = TraceView::from_trace(&trace(i, 900, FrequencySource::ScalingCurFreq));
            (case.data.trials[i as usize].key.clone(), view)
        })
        .collect();
    for block in ["4k", "64k", "1M"] {
        for depth in ["1", "4", "16", "64"] {
            let c = |b: &str, r, v| comparison("performance", b, r, 0.04, v);
            case.summary.effects.push(effect(
                "governor",
                &format!("randread, block {block}, depth {depth}"),
                vec![c("powersave", 0.7, Verdict::Worse), c("ondemand", 1.01, Verdict::Undecided)],
            ));
        }
    }
    case
}

/// One cell, one trial: no interval, no spread, nothing to compare.
pub fn lonely() -> Case {
    let study = study("one", "", &["seqread"], vec![]);
    let plan = Plan::new(study.clone(), Seed(1)).unwrap();
    let trials = measured(&plan, 1, 0.0, |_| 4.2e8);
    bare(study, &plan, trials, "")
}

/// A run that was interrupted before its first trial, of a study whose cells therefore have nothing.
pub fn empty() -> Case {
    let study = study("none", "Is anything here?", &["seqread"], vec![factor("block", &["4k", "64k"], &[])]);
    let plan = Plan::new(study.clone(), Seed(1)).unwrap();
    let mut case = bare(study, &plan, vec![], "");
    case.data.run.finished = None;
    case
}

/// Values of zero, and a cell whose every trial failed.
pub fn zeros() -> Case {
    let study = study("zeros", "Does it move at all?", &["w"], vec![factor("path", &["a", "b"], &[])]);
    let plan = Plan::new(study.clone(), Seed(1)).unwrap();
    let mut trials = measured(&plan, 3, 0.0, |_| 0.0);
    for t in trials.iter_mut().filter(|t| t.levels["path"] == "b") {
        t.validity = Validity::Failed("no such device".into());
        t.measurement = None;
    }
    bare(study, &plan, trials, "No difference can be told.")
}

/// Two runs, cell by cell, with each verdict once and a cell that has too few trials.
pub fn compared() -> ComparisonReport {
    use Verdict::*;
    let side = |ratio, half, verdict| comparison("1a2b3c", "9f8e7d", ratio, half, verdict);
    let mut few = side(1.07, 0.0, Undecided);
    (few.interval, few.p, few.trials) = (None, None, (1, 2));
    ComparisonReport {
        title: "readahead@1a2b3c against readahead@9f8e7d".into(),
        sentence: "B is better in 1 of 4 cells and worse in 1; in the others no difference was found or none could be told.".into(),
        comparisons: vec![
            ("seqread, block 4k".into(), side(1.124, 0.021, Better)),
            ("seqread, block 64k".into(), side(0.93, 0.017, Worse)),
            ("randread".into(), side(1.003, 0.009, Same)),
            ("seqwrite".into(), few),
        ],
        notes: vec![
            "The kernel differs: 6.12.3 against 6.18.5.".into(),
            "`randwrite` exists in B only.".into(),
        ],
    }
}
