//! A governor that hardly ever sees enough load to choose the highest frequency, although the workload waits
//! for the CPU: shown where other levels of the same study keep the CPUs faster and are faster themselves.
//!
//! What the CPUs ran at comes from the lab's record; trials of a host keep it in their traces alone, which
//! rules do not see, so there this rule is silent.
//!
//! Sources: drivers/cpufreq/cpufreq_ondemand.c and cpufreq_conservative.c of Linux 6.1 (`load >
//! up_threshold`, strictly; below it ondemand chooses in proportion to the load, and conservative does not go
//! up).

use super::Rule;
use super::governor::windows_seen;
use super::next_step::UNTUNE;
use super::pair::{Pair, modest};
use crate::facts::case::{Case, CaseCell, evidence, gain, goodness};
use crate::facts::cell_events;
use crate::facts::frequency_policy::is_frequency_policy;
use crate::stats::quantile::median;
use crate::summary::{Comparison, Verdict};
use crate::words::{bracketed_certainty, difference, gives, percent};
use domain::finding::{Confidence, Evidence, Finding, Remedy};
use domain::setting::SettingRequest;
use domain::units::Hertz;
use std::collections::BTreeMap;

pub(super) const RULE: Rule = Rule {
    name: "governor-stays-low",
    doc: "The governor hardly ever sees enough load to choose the highest frequency, and the workload waits for it.",
    needs: "the lab's record of the frequencies at which CPUs ran, in cells that differ in the frequency policy alone",
    source: "drivers/cpufreq/cpufreq_ondemand.c, cpufreq_conservative.c",
    yields_to: &[],
    run,
};

/// Governors that go up where the load of a sampling window exceeds `up_threshold`.
const BY_THRESHOLD: &[&str] = &["ondemand", "conservative"];

/// A CPU that works below its highest frequency for less of its time cannot lose much by it.
const NOTABLE: f64 = 0.1;

/// How its CPUs ran in one cell, medians over its trials.
struct Ran {
    /// Share of the time not idle that was spent below the highest frequency.
    below: f64,
    /// Share of the time not idle.
    busy: f64,
}

fn run(case: &Case<'_>) -> Vec<Finding> {
    let cells = case.cells();
    let Some(top) = highest(&cells) else { return Vec::new() };
    // Each level of each governor is told once, where it costs most.
    let mut found: BTreeMap<String, (f64, Finding)> = BTreeMap::new();
    for slow in &cells {
        let Some(governor) = governor(slow).filter(|name| BY_THRESHOLD.contains(name)) else { continue };
        let Some((size, finding)) = worst(case, &cells, slow, governor, top) else { continue };
        let key = requests(slow).iter().map(|r| format!("{r};")).collect::<String>();
        if found.get(&key).is_none_or(|(known, _)| *known < size) {
            found.insert(key, (size, finding));
        }
    }
    found.into_values().map(|(_, finding)| finding).collect()
}

/// The levels in which a cell differs from another.
fn level_name(of: &CaseCell<'_>, from: &CaseCell<'_>) -> String {
    let levels = &of.cell.levels;
    let own = levels.iter().filter(|(factor, level)| from.cell.levels.get(*factor) != Some(*level));
    let names: Vec<&str> = own.map(|(_, level)| level.as_str()).collect();
    if names.is_empty() { of.cell.id.as_str().to_owned() } else { names.join(", ") }
}

/// The highest frequency that any CPU of the run was at.
fn highest(cells: &[CaseCell<'_>]) -> Option<Hertz> {
    let pacings = cells.iter().flat_map(|c| &c.trials).filter_map(|t| t.lab.as_ref()?.pacing.as_ref());
    pacings.flat_map(|pacing| pacing.states()).map(|state| state.frequency).max()
}

fn governor<'c>(cell: &'c CaseCell<'_>) -> Option<&'c str> {
    let set = cell.cell.settings.iter().find(|s| s.setting.name == "governor");
    // A study that leaves the governor alone runs with the one that it found.
    let found = || cell.trials.first()?.environment.get("governor").map(String::as_str);
    set.map(|s| s.value.as_str()).or_else(found)
}

/// The settings of a cell that belong to the choice of a frequency.
fn requests(cell: &CaseCell<'_>) -> Vec<SettingRequest> {
    let of_governors = |s: &&SettingRequest| is_frequency_policy(&s.setting.name);
    cell.cell.settings.iter().filter(of_governors).cloned().collect()
}

/// The cell that shows most of what this one loses: same workload, one other level, faster CPUs, and faster.
fn worst(
    case: &Case<'_>,
    cells: &[CaseCell<'_>],
    slow: &CaseCell<'_>,
    name: &str,
    top: Hertz,
) -> Option<(f64, Finding)> {
    let ran = how_it_ran(slow, top).filter(|ran| ran.below >= NOTABLE)?;
    let better = cells.iter().filter_map(|fast| {
        let pair = Pair::of(slow, fast, |part| part.is_setting(is_frequency_policy))?;
        let other = how_it_ran(fast, top).filter(|other| ran.below - other.below >= NOTABLE)?;
        let comparison = pair.compare(case, (&level_name(slow, fast), &level_name(fast, slow)))?;
        (comparison.verdict == Verdict::Better).then_some((pair, other, comparison))
    });
    let better: Vec<(Pair<'_, '_>, Ran, Comparison)> = better.collect();
    let faster: Vec<&CaseCell<'_>> = better.iter().map(|(pair, ..)| pair.b()).collect();
    let chosen = modest(case, slow, &faster)?;
    let best = better.into_iter().find(|(pair, ..)| pair.b().cell.id == chosen.cell.id)?;
    Some((goodness(&best.2), finding(case, name, (&best.0, &ran, &best.1), &best.2)))
}

fn how_it_ran(cell: &CaseCell<'_>, top: Hertz) -> Option<Ran> {
    let mut below = Vec::new();
    let mut busy = Vec::new();
    for pacing in cell.trials.iter().filter_map(|t| t.lab.as_ref()?.pacing.as_ref()) {
        let states = pacing.states();
        let worked: f64 = states.iter().map(|s| s.busy.secs()).sum();
        let low: f64 = states.iter().filter(|s| s.frequency < top).map(|s| s.busy.secs()).sum();
        let all: f64 = states.iter().map(|s| s.time.secs()).sum();
        if worked > 0.0 && all > 0.0 {
            below.push(low / worked);
            busy.push(worked / all);
        }
    }
    Some(Ran { below: median(&below)?, busy: median(&busy)? })
}

fn finding(
    case: &Case<'_>,
    name: &str,
    (pair, ran, other): (&Pair<'_, '_>, &Ran, &Ran),
    comparison: &Comparison,
) -> Finding {
    let (slow, fast) = (pair.a(), pair.b());
    let Comparison { a, b, .. } = comparison;
    let record = "the lab's record of the virtual CPUs";
    let mut figures = vec![
        evidence(format!("time at work below the highest frequency, {a}"), percent(ran.below), record),
        evidence(format!("the same, {b}"), percent(other.below), record),
        evidence(format!("time at work, over all CPUs, {a}"), percent(ran.busy), record),
        evidence(
            format!("{b} against {a}"),
            format!("{}{}", difference(comparison), bracketed_certainty(comparison)),
            format!("{}; {}", slow.source(), fast.source()),
        ),
    ];
    figures.extend(threshold(case, slow, name));
    let seen = cell_events::windows(case.data, &slow.cell.id);
    figures.extend(seen.and_then(|all| windows_seen(&all, &slow.source())));
    figures.extend(pair.costs(case, "it"));
    Finding {
        rule: RULE.name,
        title: format!(
            "{name} keeps the CPUs below their highest frequency for {} of the time in which they work; {}",
            percent(ran.below),
            gives("gives", comparison)
        ),
        reason: format!(
            "{name} goes up only where a CPU was busy for more than `up_threshold` of a sampling window. This workload works \
in bursts with waits between, so that few windows are that full, although each request waits for the CPU's part of it; \
{}.",
            if name == "ondemand" {
                "below the threshold the frequency is chosen in proportion to the load, and stays in the middle"
            } else {
                "below the threshold the frequency does not rise"
            }
        ),
        evidence: figures,
        confidence: Confidence::Shown,
        gain: gain(comparison),
        remedy: Some(remedy(slow, fast, name, b)),
        next: format!("flyball show {}", case.data.run.id),
        compared: vec![pair.cells()],
    }
}

/// The threshold in force: as a trial read it back, else as the machine was found.
fn threshold(case: &Case<'_>, cell: &CaseCell<'_>, governor: &str) -> Option<Evidence> {
    let setting = format!("{governor}.up_threshold");
    let record = cell.trials.iter().flat_map(|t| &t.settings).find(|s| s.setting.name == setting);
    let read = record.map(|record| (record.got.clone(), record.path.clone()));
    let found = || {
        let tunables = &case.inventory?.cpufreq.as_ref()?.tunables;
        let value = tunables.get(governor)?.get("up_threshold")?.clone();
        Some((value, format!("/sys/devices/system/cpu/cpufreq/{governor}")))
    };
    let (value, source) = read.or_else(found)?;
    Some(evidence("`up_threshold`, percent of a sampling window", value, source))
}

fn remedy(slow: &CaseCell<'_>, fast: &CaseCell<'_>, name: &str, level: &str) -> Remedy {
    let old = requests(slow);
    let settings: Vec<SettingRequest> = requests(fast).into_iter().filter(|r| !old.contains(r)).collect();
    let by_governor = settings.iter().any(|s| s.setting.name == "governor");
    let what = match by_governor {
        true => format!(
            "keep the level `{level}`, or lower `{name}.up_threshold` to below the load that the governor sees, and measure"
        ),
        false => format!("keep the level `{level}`"),
    };
    Remedy { what, settings, undo: UNTUNE.into() }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{about, account, findings, setting_run};
    use super::*;
    use crate::summary::RunData;
    use domain::setting::{SettingName, SettingRecord};
    use domain::trial::Provenance;

    /// Each level's share of the time below the highest frequency, and its throughput.
    fn lab_run(setting: &str, levels: &[(&str, f64, f64)]) -> RunData {
        let names: Vec<&str> = levels.iter().map(|(name, ..)| *name).collect();
        let mut data = setting_run(setting, &names, |level, block| about(levels[level].2, level, block));
        for trial in &mut data.trials {
            let (_, below, _) = levels.iter().find(|(name, ..)| *name == trial.levels["f"]).unwrap();
            trial.provenance = Provenance::Lab;
            trial.lab = Some(account(*below));
        }
        data
    }

    #[test]
    fn ondemand_that_stays_low_is_shown_with_its_share_and_what_it_costs() {
        let data = lab_run(
            "governor",
            &[("performance", 0.0, 226e3), ("ondemand", 0.64, 183e3), ("schedutil", 0.8, 164e3)],
        );
        let found = findings(RULE, &data, None, None);
        assert_eq!(found.len(), 1, "{found:#?}");
        let it = &found[0];
        assert_eq!(it.confidence, Confidence::Shown);
        assert!(
            it.title.starts_with("ondemand keeps the CPUs below their highest frequency for 64%"),
            "{}",
            it.title
        );
        let gain = it.gain.as_ref().unwrap();
        assert!((gain.ratio - 226.0 / 183.0).abs() < 0.03 && gain.low > 1.0, "{gain:?}");
        assert_eq!(it.evidence[2].figure, "80%");
        assert_eq!(it.remedy.as_ref().unwrap().settings[0].to_string(), "governor = performance");
    }

    #[test]
    fn a_lower_threshold_that_helps_is_the_remedy_and_the_one_in_force_is_told() {
        let mut data = lab_run("ondemand.up_threshold", &[("95", 0.64, 183e3), ("40", 0.2, 203e3)]);
        for trial in &mut data.trials {
            trial.environment.insert("governor".into(), "ondemand".into());
            let value = trial.levels["f"].clone();
            trial.settings = vec![SettingRecord {
                setting: SettingName::parse("ondemand.up_threshold"),
                path: "/sys/devices/system/cpu/cpufreq/ondemand/up_threshold".into(),
                before: "95".into(),
                asked: value.clone(),
                got: value,
                after: None,
            }];
        }
        let found = findings(RULE, &data, None, None);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].evidence.last().unwrap().figure, "95");
        let remedy = found[0].remedy.as_ref().unwrap();
        assert_eq!(remedy.settings[0].to_string(), "ondemand.up_threshold = 40");
        assert_eq!(remedy.undo, "flyball tune --undo");
    }

    #[test]
    fn of_equal_remedies_the_one_that_changes_least_is_named() {
        let mut data = lab_run("governor", &[("performance", 0.0, 226e3), ("ondemand", 0.64, 183e3)]);
        let mut lower = data.study.factors[0].levels[1].clone();
        lower.name = "ondemand-40".into();
        lower.settings.push(SettingRequest {
            setting: SettingName::parse("ondemand.up_threshold"),
            value: "40".into(),
        });
        data.study.factors[0].levels.push(lower);
        let fast: Vec<_> = data.trials.iter().filter(|t| t.levels["f"] == "performance").cloned().collect();
        for mut trial in fast {
            trial.levels.insert("f".into(), "ondemand-40".into());
            trial.key.cell = domain::ids::CellId::new(["w", "ondemand-40"]);
            trial.lab = Some(account(0.1));
            // It is a little slower than `performance`, by less than the threshold.
            let metric = trial.measurement.as_mut().unwrap().outcome.metrics.get_mut("throughput").unwrap();
            metric.value *= 0.995;
            data.trials.push(trial);
        }
        let found = findings(RULE, &data, None, None);
        assert_eq!(found.len(), 1, "{found:#?}");
        let remedy = found[0].remedy.as_ref().unwrap();
        let settings: Vec<String> = remedy.settings.iter().map(ToString::to_string).collect();
        assert_eq!(settings, ["ondemand.up_threshold = 40"]);
    }

    #[test]
    fn no_finding_where_it_costs_nothing_or_the_cpus_ran_fast_or_nothing_is_known_of_them() {
        let same = lab_run("governor", &[("performance", 0.0, 2e5), ("ondemand", 0.64, 2e5)]);
        assert!(findings(RULE, &same, None, None).is_empty());
        let fast = lab_run("governor", &[("performance", 0.0, 2.3e5), ("ondemand", 0.05, 2e5)]);
        assert!(findings(RULE, &fast, None, None).is_empty());
        let mut host = lab_run("governor", &[("performance", 0.0, 2.3e5), ("ondemand", 0.64, 2e5)]);
        host.trials.iter_mut().for_each(|trial| trial.lab = None);
        assert!(findings(RULE, &host, None, None).is_empty());
    }

    #[test]
    fn conservative_is_judged_too_and_schedutil_goes_by_another_rule() {
        let data = lab_run(
            "governor",
            &[("performance", 0.0, 2e5), ("conservative", 0.9, 1e5), ("schedutil", 0.9, 1e5)],
        );
        let found = findings(RULE, &data, None, None);
        assert_eq!(found.len(), 1);
        assert!(found[0].title.starts_with("conservative keeps"), "{}", found[0].title);
    }
}
