//! The frequency governor, or the energy preference where the hardware chooses: shown where a study varied
//! it, else named as possible where it is one that saves energy.
//!
//! Sources: `Documentation/admin-guide/pm/cpufreq.rst` and `intel_pstate.rst`;
//! drivers/cpufreq/cpufreq_ondemand.c.

use super::Rule;
use super::next_step::{UNTUNE, tune_command};
use super::varied_setting::{self, NO_KEYS, NOTHING_BY_HAND, Words};
use crate::facts::case::{Case, evidence};
use crate::facts::cpu_share::{self, Bound};
use crate::facts::frequency_policy::{CHOOSING_DRIVERS, highest, is_frequency_policy};
use crate::words::percent;
use domain::finding::{Confidence, Evidence, Finding, Remedy};
use domain::inventory::{Cpufreq, Policy};
use domain::setting::{SettingName, SettingRecord, SettingRequest};
use domain::trial::Trial;
use domain::windows::GovernorWindows;

pub(super) const RULE: Rule = Rule {
    name: "governor",
    doc: "The frequency governor or energy preference keeps CPUs slow while storage waits for them.",
    needs: "cells that differ in the frequency policy alone; else cpufreq in the inventory",
    source: "Documentation/admin-guide/pm/cpufreq.rst, intel_pstate.rst; drivers/cpufreq/cpufreq_ondemand.c",
    // Where cells are compared, none of these finds anything.
    yields_to: &["threshold-not-reached", "io-is-busy", "sampling-window", "low-frequency"],
    run,
};

/// What a governor saw in its windows, by recorded events.
pub(super) fn windows_seen(all: &GovernorWindows, source: &str) -> Option<Evidence> {
    let (cpu, windows) = all.busiest()?;
    let (length, load) = (windows.mean_length()?, windows.load()?);
    let least = if all.counts_waiting { "at least " } else { "" };
    let above = all.threshold.zip(all.above(windows)).map_or_else(String::new, |(threshold, above)| {
        format!("; {least}{above} of {} above {threshold:.0}%", windows.all())
    });
    let what = format!(
        "load of {} between {} of its governor, {length} apart in the mean, by events",
        all.named(cpu),
        all.boundary.plural()
    );
    Some(evidence(what, format!("{}{above}", percent(load)), source))
}

const REASON: &str = "A storage workload works in short bursts between waits, often on several CPUs in turn, so that each \
CPU looks idle for most of a sampling window; a governor that goes by utilisation then keeps the frequency low, and \
the work on the path of each request (submission, checksums, encryption, completion) takes longer.";

/// Of a frequency that was fixed: lower than the other level's.
const FIXED: &str = "Work of the CPU on the path of each request (submission, checksums, encryption, parity, completion) \
takes longer at a lower frequency. This level holds the frequency and does not raise it for load.";

const WORDS: Words = Words {
    rule: "governor",
    is_about: is_frequency_policy,
    keys: NO_KEYS,
    what: "the frequency policy",
    reason: mechanism,
    by_hand: NOTHING_BY_HAND,
};

/// Where the driver or the hardware chooses, by an algorithm of its own.
const BY_DRIVER: &str = "Work of the CPU on the path of each request (submission, checksums, encryption, parity, completion) \
takes longer at a lower frequency. Here the driver or the hardware chooses the frequency, by how busy a CPU was and by \
the energy preference; a CPU that waits for storage between short bursts looks idle.";

/// Why the slower of two levels is slow: by what it samples, because it holds a frequency, or by what its
/// driver chooses.
fn mechanism(case: &Case<'_>, slower: &[SettingRequest]) -> String {
    let policies = case.inventory.and_then(|inventory| inventory.cpufreq.as_ref()).map(|all| &all.policies);
    let mut drivers = policies.into_iter().flatten().filter_map(|policy| policy.driver.as_deref());
    let is_varied = |level: &domain::study::Level| level.machine.is_some() || level.pstates.is_some();
    let has_one_machine = !case.data.study.factors.iter().flat_map(|f| &f.levels).any(is_varied);
    let chooses = |driver: &str| CHOOSING_DRIVERS.contains(&driver);
    if has_one_machine && drivers.any(chooses) || !has_one_machine && all_under(case, slower, chooses) {
        return BY_DRIVER.to_owned();
    }
    let is_fixed = |request: &SettingRequest| {
        request.setting.name == "governor" && matches!(request.value.as_str(), "powersave" | "userspace")
    };
    let has_preference = slower.iter().any(|request| request.setting.name == "epp");
    let is_held = slower.iter().any(is_fixed) && !has_preference;
    if is_held { FIXED.to_owned() } else { REASON.to_owned() }
}

/// Whether all trials that made these settings ran under such drivers, as their environment has it.
fn all_under(case: &Case<'_>, made: &[SettingRequest], is_meant: impl Fn(&str) -> bool) -> bool {
    let has = |trial: &&Trial, request: &SettingRequest| {
        let same = |record: &&SettingRecord| record.setting.name == request.setting.name;
        trial.settings.iter().find(same).is_some_and(|record| record.asked == request.value)
    };
    let of = case.data.trials.iter().filter(|trial| made.iter().all(|request| has(trial, request)));
    let mut drivers = of.map(|trial| DRIVER.iter().find_map(|name| trial.environment.get(*name))).peekable();
    drivers.peek().is_some() && drivers.all(|driver| driver.is_some_and(|driver| is_meant(driver)))
}

/// What a trial's environment calls its frequency driver: on a host and in the lab, and in a simulation.
const DRIVER: [&str; 2] = ["cpufreq_driver", "driver"];

/// Governors that lower the frequency by utilisation, or always.
const SAVING: &[&str] = &["ondemand", "conservative", "powersave", "schedutil"];

/// Energy preferences that lean to saving: `Documentation/admin-guide/pm/intel_pstate.rst`.
const SAVING_EPP: &[&str] = &["power", "balance_power"];

fn run(case: &Case<'_>) -> Vec<Finding> {
    let varies = |case: &Case<'_>| {
        let settings = case.data.study.factors.iter().flat_map(|f| &f.levels).flat_map(|l| &l.settings);
        settings.into_iter().any(|s| is_frequency_policy(&s.setting.name))
    };
    if varies(case) {
        return varied_setting::findings(case, &WORDS);
    }
    let cpufreq = case.inventory.and_then(|inventory| inventory.cpufreq.as_ref());
    cpufreq.and_then(|cpufreq| configured(case, cpufreq)).into_iter().collect()
}

/// What the configuration alone suggests.
fn configured(case: &Case<'_>, cpufreq: &Cpufreq) -> Option<Finding> {
    let (policy, (setting, value, wanted)) =
        cpufreq.policies.iter().find_map(|policy| Some((policy, saving(policy)?)))?;
    let request = SettingRequest { setting: SettingName::parse(setting), value: wanted.into() };
    let (bound, further) = match faster(case, policy).map_or(Bound::Unknown, |f| cpu_share::bound(case, f)) {
        Bound::Nothing => return None,
        Bound::AtMost { times, figures } => (Some(times), figures),
        Bound::Unknown => (None, Vec::new()),
    };
    Some(Finding {
        rule: RULE.name,
        title: format!(
            "the CPUs run with {setting} `{value}`, which may cost throughput; it was not measured here"
        ),
        reason: if chooses_itself(policy) { BY_DRIVER } else { REASON }.to_owned(),
        evidence: figures(cpufreq, policy, setting, &value).into_iter().chain(further).collect(),
        confidence: Confidence::Possible,
        gain: bound.and_then(|times| cpu_share::expected(case, times)),
        remedy: Some(Remedy {
            what: format!(
                "measure with {setting} `{wanted}`, and keep it where it gains enough for its energy"
            ),
            settings: vec![request.clone()],
            undo: UNTUNE.into(),
        }),
        next: tune_command(&request),
        compared: vec![],
    })
}

/// How many times as fast the busiest CPU could run: the highest frequency that its policy can choose by
/// the one at which it ran in the mean, idle time included, where that was counted; else by the lowest. No
/// governor goes beyond a limit in force, which is a cause of its own.
fn faster(case: &Case<'_>, policy: &Policy) -> Option<f64> {
    let most = highest(case, policy)?;
    let ran_at = cpu_share::ran_at(case).map(|(hertz, _)| hertz);
    let least = ran_at.or_else(|| Some(policy.hardware_min.or(policy.min)?.hz() as f64))?;
    Some(most.hz() as f64 / least.max(1.0))
}

/// Whether the driver or the hardware chooses the frequency, and the governor's name is that of its
/// algorithm.
fn chooses_itself(policy: &Policy) -> bool {
    policy.driver.as_deref().is_some_and(|driver| CHOOSING_DRIVERS.contains(&driver))
}

/// The setting of a policy that saves energy, its value, and the one to try.
fn saving(policy: &Policy) -> Option<(&'static str, String, &'static str)> {
    let governor = policy.governor.as_deref()?;
    // In active mode `powersave` is the driver's own algorithm, and the preference is what counts.
    let hardware = chooses_itself(policy);
    match &policy.epp {
        Some(epp) if hardware && governor != "performance" => {
            SAVING_EPP.contains(&epp.as_str()).then(|| ("epp", epp.clone(), "performance"))
        }
        // Without a preference (no hardware P-states) the driver's own algorithm goes by load.
        None if hardware && governor == "powersave" => Some(("governor", governor.to_owned(), "performance")),
        _ if hardware => None,
        _ => SAVING.contains(&governor).then(|| ("governor", governor.to_owned(), "performance")),
    }
}

fn figures(cpufreq: &Cpufreq, policy: &Policy, setting: &str, value: &str) -> Vec<Evidence> {
    let alike = cpufreq.policies.iter().filter(|p| saving(p).is_some()).count();
    let source = format!("/sys/devices/system/cpu/cpufreq/policy{}", policy.id);
    let mut figures = vec![evidence(
        setting,
        format!("`{value}` on {alike} of {} policies", cpufreq.policies.len()),
        source.clone(),
    )];
    if let (Some(min), Some(max)) = (policy.hardware_min, policy.hardware_max) {
        figures.push(evidence("frequencies it may choose from", format!("{min} to {max}"), source));
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::super::testing::{about, bare_machine, findings, fio_run, machine_with, setting_run};
    use super::*;
    use domain::units::Hertz;

    fn policy(driver: &str, governor: &str, epp: Option<&str>) -> Policy {
        Policy {
            driver: Some(driver.into()),
            governor: Some(governor.into()),
            epp: epp.map(str::to_owned),
            hardware_min: Some(Hertz::from_mhz(800)),
            hardware_max: Some(Hertz::from_mhz(3500)),
            ..Policy::default()
        }
    }

    fn quiet() -> crate::summary::RunData {
        fio_run(&["rw=read"], |cell, block| vec![("throughput", about(1e8, cell, block))])
    }

    #[test]
    fn a_governor_that_was_varied_and_decides_is_shown_with_its_gain() {
        let data = setting_run("governor", &["ondemand", "performance"], |level, block| {
            about([1.0e8, 1.24e8][level], level, block)
        });
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert_eq!(found.confidence, Confidence::Shown);
        assert!((found.gain.unwrap().ratio - 1.24).abs() < 0.02);
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "governor = performance");
        assert!(
            found.title.contains("performance gives 1.24 times the throughput of ondemand"),
            "{}",
            found.title
        );
    }

    #[test]
    fn no_governor_goes_beyond_a_limit_in_force() {
        let data = quiet();
        let summary = crate::summarise::summarise(&data, None);
        let of =
            |max| faster(&Case::new(&data, &summary), &Policy { max, ..policy("acpi", "ondemand", None) });
        assert_eq!([of(None), of(Some(Hertz::from_mhz(1600)))], [Some(4.375), Some(2.0)]);
        // 800 MHz is the highest of the table that a limit of 1600 MHz allows.
        let available = [800, 1800, 3500].map(Hertz::from_mhz).to_vec();
        let max = Some(Hertz::from_mhz(1600));
        let between = Policy { max, available, ..policy("acpi", "ondemand", None) };
        assert_eq!(faster(&Case::new(&data, &summary), &between), Some(1.0));
    }

    #[test]
    fn without_turbo_no_governor_goes_beyond_the_guaranteed_frequency() {
        use domain::inventory::IntelPstate;
        let data = quiet();
        let summary = crate::summarise::summarise(&data, None);
        let of = |no_turbo| {
            let base = Some(Hertz::from_mhz(1600));
            let policy = Policy { base, ..policy("intel_pstate", "powersave", None) };
            let mut machine = machine_with(policy.clone());
            machine.cpufreq.as_mut().unwrap().intel_pstate = Some(IntelPstate {
                status: None,
                no_turbo: Some(no_turbo),
                hwp_dynamic_boost: None,
                min_perf: None,
                max_perf: None,
                hwp: None,
            });
            faster(&Case { inventory: Some(&machine), ..Case::new(&data, &summary) }, &policy)
        };
        assert_eq!([of(true), of(false)], [Some(2.0), Some(4.375)]);
    }

    /// A level by its name, its settings and its throughput.
    type SomeLevel<'t> = (&'t str, &'t [(&'t str, &'t str)], f64);

    /// Levels of the factor `f`.
    fn levels_run(levels: &[SomeLevel<'_>]) -> crate::summary::RunData {
        let names: Vec<&str> = levels.iter().map(|(name, ..)| *name).collect();
        let rates: Vec<f64> = levels.iter().map(|(.., rate)| *rate).collect();
        let mut data = setting_run("governor", &names, move |level, block| about(rates[level], level, block));
        for (level, (_, settings, _)) in data.study.factors[0].levels.iter_mut().zip(levels) {
            let request = |(name, value): &(&str, &str)| SettingRequest {
                setting: SettingName::parse(name),
                value: (*value).into(),
            };
            level.settings = settings.iter().map(request).collect();
        }
        data
    }

    #[test]
    fn the_remedy_is_the_least_change_of_those_that_are_as_good_as_the_best() {
        let data = levels_run(&[
            ("ondemand", &[("governor", "ondemand"), ("ondemand.up_threshold", "80")], 5.0e7),
            ("ondemand-40", &[("governor", "ondemand"), ("ondemand.up_threshold", "40")], 5.55e7),
            ("performance", &[("governor", "performance")], 5.58e7),
            ("powersave", &[("governor", "powersave")], 0.75e7),
        ]);
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert!(found.title.contains("powersave gives 0.15 times"), "{}", found.title);
        assert!(found.reason.contains("holds the frequency"), "{}", found.reason);
        let remedy = found.remedy.unwrap();
        assert_eq!(remedy.what, "keep the level `ondemand-40`");
        assert_eq!(remedy.settings[1].to_string(), "ondemand.up_threshold = 40");
        assert!((found.gain.unwrap().ratio - 1.11).abs() < 0.02);
    }

    #[test]
    fn a_level_of_which_a_model_is_far_from_what_was_published_is_no_remedy() {
        use domain::published::{Figure, Published, Selection};
        let mut data = levels_run(&[
            ("ondemand", &[("governor", "ondemand")], 1.45e8),
            ("schedutil", &[("governor", "schedutil")], 1.73e8),
            ("performance", &[("governor", "performance")], 1.75e8),
        ]);
        let of = |level: &str| Selection { workload: None, levels: [("f".into(), level.into())].into() };
        data.run.provenance = domain::trial::Provenance::Simulation;
        data.study.published = vec![Published {
            source: "a report".into(),
            of: of("performance"),
            over: Some(of("ondemand")),
            metric: "throughput".into(),
            unit: domain::units::Unit::BytesPerSecond,
            figure: Figure::AtLeast(7.0),
            note: None,
        }];
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert!(found.title.contains("schedutil gives 1.19 times"), "{}", found.title);
        assert_eq!(found.remedy.unwrap().what, "keep the level `schedutil`");
        // Where that is the first level, the others are compared with the next.
        data.study.published[0].of = of("ondemand");
        data.study.published[0].over = None;
        data.study.published[0].figure = Figure::AtLeast(1e9);
        let found = findings(RULE, &data, None, None);
        assert_eq!(found.len(), 0, "schedutil and performance are the same: {found:#?}");
        data.trials.iter_mut().filter(|trial| trial.levels["f"] == "performance").for_each(|trial| {
            let measured = trial.measurement.as_mut().unwrap();
            measured.outcome.metrics.get_mut("throughput").unwrap().value *= 2.0;
        });
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert!(found.title.contains("performance gives 2.03 times"), "{}", found.title);
    }

    #[test]
    fn levels_of_two_machines_are_compared_within_each() {
        let mut data = levels_run(&[
            ("acpi-ondemand", &[("governor", "ondemand")], 1.5e8),
            ("hwp-powersave", &[("governor", "powersave")], 1.0e8),
            ("hwp-performance", &[("governor", "performance")], 1.3e8),
        ]);
        for level in data.study.factors[0].levels.iter_mut().skip(1) {
            level.machine = Some("hwp".into());
        }
        for trial in data.trials.iter_mut().filter(|trial| trial.levels["f"] != "acpi-ondemand") {
            trial.environment.insert("driver".into(), "intel_pstate".into());
            let asked = trial.levels["f"].trim_start_matches("hwp-").to_owned();
            let setting = SettingName::parse("governor");
            let (path, before) = (String::new(), "ondemand".to_owned());
            let got = asked.clone();
            trial.settings.push(SettingRecord { setting, path, before, asked, got, after: None });
        }
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert!(found.title.contains("hwp-performance gives 1.30 times"), "{}", found.title);
        assert_eq!(found.remedy.unwrap().what, "keep the level `hwp-performance`");
        assert_eq!(found.reason, BY_DRIVER);
    }

    #[test]
    fn what_the_kept_level_costs_is_told_against_the_worst() {
        let mut data =
            setting_run("governor", &["performance", "powersave"], |l, b| about([2e8, 1e8][l], l, b));
        for trial in &mut data.trials {
            let joules = if trial.levels["f"] == "performance" { 10.0 } else { 4.0 };
            let energy = domain::outcome::Metric {
                value: joules,
                unit: domain::units::Unit::Joules,
                better: domain::outcome::Better::Lower,
            };
            trial.measurement.as_mut().unwrap().outcome.metrics.insert("energy_modelled".into(), energy);
        }
        let found = findings(RULE, &data, None, None).swap_remove(0);
        let cost = found.evidence.iter().find(|e| e.what == "energy modelled with performance").unwrap();
        assert_eq!(cost.figure, "10.0 J instead of 4.00 J (×2.50)");
    }

    #[test]
    fn a_level_that_no_other_beats_is_left_as_it_is() {
        let data = levels_run(&[
            ("ondemand", &[("governor", "ondemand")], 5.55e7),
            ("performance", &[("governor", "performance")], 5.58e7),
            ("powersave", &[("governor", "powersave")], 0.75e7),
        ]);
        let found = findings(RULE, &data, None, None).swap_remove(0);
        assert_eq!(found.remedy.unwrap().what, "keep the level `ondemand`");
        assert_eq!(found.gain, None);
    }

    #[test]
    fn what_makes_a_level_slow_is_told_by_what_chooses_its_frequency() {
        let slow = |governor: &'static str, driver: Option<&str>| {
            let data = setting_run("governor", &["performance", governor], |l, b| about([2e8, 1e8][l], l, b));
            let machine = driver.map(|driver| machine_with(policy(driver, "performance", None)));
            findings(RULE, &data, machine.as_ref(), None).swap_remove(0).reason
        };
        assert!(slow("ondemand", Some("acpi-cpufreq")).contains("sampling window"));
        assert!(slow("powersave", Some("acpi-cpufreq")).contains("holds the frequency"));
        let of_driver = slow("powersave", Some("intel_pstate"));
        assert!(of_driver.contains("the driver or the hardware chooses"), "{of_driver}");
        assert!(!of_driver.contains("holds the frequency") && !of_driver.contains("sampling window"));
    }

    #[test]
    fn one_cause_in_four_contexts_is_one_finding() {
        let mut data =
            setting_run("governor", &["ondemand", "performance"], |l, b| about([1e8, 2e8][l], l, b));
        let first = data.study.workloads[0].clone();
        for name in ["x", "y", "z"] {
            data.study.workloads.push(domain::study::Workload { name: name.into(), ..first.clone() });
            let own: Vec<_> = data.trials.iter().filter(|t| t.workload == "w").cloned().collect();
            for mut trial in own {
                trial.workload = name.into();
                trial.key.cell = domain::ids::CellId::new([name, trial.levels["f"].as_str()]);
                data.trials.push(trial);
            }
        }
        let found = findings(RULE, &data, None, None);
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!(found[0].compared.len(), 4 + 1);
        assert_eq!(found[0].evidence.iter().filter(|e| e.what == "performance against ondemand").count(), 4);
    }

    #[test]
    fn a_governor_that_was_varied_without_effect_is_no_finding_whatever_it_is_called() {
        let data =
            setting_run("governor", &["ondemand", "performance"], |level, block| about(1e8, level, block));
        let machine = machine_with(policy("acpi-cpufreq", "ondemand", None));
        assert!(findings(RULE, &data, Some(&machine), None).is_empty());
    }

    #[test]
    fn ondemand_that_was_not_measured_is_possible() {
        let machine = machine_with(policy("acpi-cpufreq", "ondemand", None));
        let found = findings(RULE, &quiet(), Some(&machine), None).swap_remove(0);
        assert_eq!((found.confidence, found.gain), (Confidence::Possible, None));
        assert_eq!(found.next, "flyball tune --set governor=performance --persist");
    }

    #[test]
    fn powersave_of_intel_pstate_is_judged_by_its_energy_preference() {
        for (epp, expected) in [("balance_power", 1), ("balance_performance", 0)] {
            let machine = machine_with(policy("intel_pstate", "powersave", Some(epp)));
            assert_eq!(findings(RULE, &quiet(), Some(&machine), None).len(), expected, "{epp}");
        }
    }

    #[test]
    fn powersave_of_intel_pstate_without_a_preference_goes_by_load() {
        let machine = machine_with(policy("intel_pstate", "powersave", None));
        let found = findings(RULE, &quiet(), Some(&machine), None).swap_remove(0);
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "governor = performance");
        assert!(found.reason.contains("the driver or the hardware chooses"), "{}", found.reason);
        let machine = machine_with(policy("intel_pstate", "performance", None));
        assert!(findings(RULE, &quiet(), Some(&machine), None).is_empty());
    }

    #[test]
    fn in_passive_mode_the_governor_counts_though_there_is_a_preference() {
        let machine = machine_with(policy("intel_cpufreq", "ondemand", Some("balance_performance")));
        let found = findings(RULE, &quiet(), Some(&machine), None).swap_remove(0);
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "governor = performance");
    }

    #[test]
    fn performance_or_no_cpufreq_is_no_finding() {
        let machine = machine_with(policy("acpi-cpufreq", "performance", None));
        assert!(findings(RULE, &quiet(), Some(&machine), None).is_empty());
        assert!(findings(RULE, &quiet(), Some(&bare_machine()), None).is_empty());
        assert!(findings(RULE, &quiet(), None, None).is_empty());
    }
}
