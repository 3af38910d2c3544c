//! Deep idle states: a CPU that sleeps while it waits for requests needs time to wake up, and that time is
//! part of a request's latency.
//!
//! Source: `Documentation/admin-guide/pm/cpuidle.rst` (`latency`, `disable`).

use super::Rule;
use super::next_step::{UNTUNE, tune_command};
use super::{idle_policy, varied_setting};
use crate::facts::case::{Case, CaseCell, evidence};
use crate::facts::cpu_share;
use crate::facts::usage::Idling;
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::IdleState;
use domain::outcome::Better;
use domain::setting::{SettingName, SettingRequest};
use domain::time::Nanos;
use domain::units::Unit;

pub(super) const RULE: Rule = Rule {
    name: "idle-exit-latency",
    doc: "Waking up from a deep idle state is a good part of the latency of a request.",
    needs: "latency of cells with one request in flight, or with several and a recording's trace of idle states; idle states in the inventory",
    source: "Documentation/admin-guide/pm/cpuidle.rst (`latency`, `disable`)",
    yields_to: &[],
    run,
};

/// Exit latencies below this share of the measured latency are lost in it.
const MIN_SHARE: f64 = 0.1;

/// States that are left within this time are those that any wait enters.
const MIN_EXIT: Nanos = Nanos::from_micros(5);

fn run(case: &Case<'_>) -> Vec<Finding> {
    let states =
        case.inventory.and_then(|i| i.cpuidle.as_ref()).map_or(&[][..], |idle| idle.states.as_slice());
    // Where a study varied which states are entered, what they cost was measured.
    let is_measured = varied_setting::is_varied(case, &idle_policy::WORDS);
    let Some((deepest, exit)) = deepest(states).filter(|_| !is_measured) else { return Vec::new() };
    let cells = case.cells();
    // A rate that is reached is none the higher where its requests take less time.
    let is_paced = |cell: &CaseCell<'_>| cell.keeps_its_pace() && case.summary.better == Better::Higher;
    // What the page cache answers is not waited for; with fsync it is not the request that waits.
    let waits = |cell: &CaseCell<'_>| {
        let asks_for_more = !cell.is_at_its_limit() && !is_paced(cell);
        cell.profile().is_direct() && asks_for_more && !cpu_share::disks_decide(case, cell)
    };
    // With several in flight a CPU sleeps only where none of them is done: a trace tells how often.
    let is_seen = entries(case, deepest).is_some();
    let single = cells.iter().filter(|cell| waits(cell) && (is_seen || cell.profile().depth == Some(1)));
    let latencies = single
        .filter_map(|cell| Some((cell, cell.metric("latency_p50").or_else(|| cell.metric("latency_mean"))?)));
    // Of several, the one where waking up counts most.
    let shortest = latencies.filter(|(_, latency)| *latency > 0.0).min_by(|(_, a), (_, b)| a.total_cmp(b));
    let found = shortest
        .filter(|(cell, latency)| exit >= MIN_EXIT && is_entered(case, cell, (deepest, exit), *latency));
    found.and_then(|(cell, latency)| finding(deepest, exit, cell, latency)).into_iter().collect()
}

/// How often a state was entered, by all CPUs, a second; the most of several traces.
fn entries(case: &Case<'_>, state: &IdleState) -> Option<f64> {
    let entries = case.usages.iter().flat_map(|(_, usage)| &usage.idle);
    let of_state = entries.filter(|(number, _)| *number == state.index).map(|(_, idling)| idling.entries);
    of_state.max_by(f64::total_cmp)
}

/// Whether the state was left so often that it can have cost what counts. A thread of the load does not wait
/// while it works: no more than the rest of its time can be wake-ups. Where no trace tells, a CPU that sleeps
/// no longer than it takes to be worth it does not choose that state.
fn is_entered(
    case: &Case<'_>,
    cell: &CaseCell<'_>,
    (state, exit): (&IdleState, Nanos),
    latency: f64,
) -> bool {
    match entries(case, state) {
        Some(entries) => {
            let counts = (entries * exit.secs()).min(1.0 - cell.busiest_of_load()) >= MIN_SHARE;
            counts && !are_of_others(case, cell, (state, entries))
        }
        None => state.residency.is_none_or(|residency| residency.secs() <= latency),
    }
}

/// Whether those who sleep deeply are none that wait for a request. A load of one request at a time sleeps
/// once for each: where other states were left as often as it asked, and this one less often, it was left by
/// others, such as a resync.
fn are_of_others(case: &Case<'_>, cell: &CaseCell<'_>, (state, entries): (&IdleState, f64)) -> bool {
    let of_others = |idle: &[(u32, Idling)]| {
        idle.iter().filter(|(number, _)| *number != state.index).map(|(_, it)| it.entries).sum::<f64>()
    };
    let left = case.usages.iter().map(|(_, usage)| of_others(&usage.idle)).fold(f64::INFINITY, f64::min);
    let asked = cell.metric("iops").filter(|asked| *asked > 0.0 && cell.profile().depth == Some(1));
    asked.is_some_and(|asked| left >= asked && entries < asked)
}

/// The state with the longest exit latency that is switched off on not all of its CPUs.
fn deepest(states: &[IdleState]) -> Option<(&IdleState, Nanos)> {
    let enabled = states.iter().filter(|state| state.disabled.len() < state.cpus.len());
    enabled.filter_map(|state| Some((state, state.latency?))).max_by_key(|(_, latency)| *latency)
}

fn finding(state: &IdleState, exit: Nanos, cell: &CaseCell<'_>, latency: f64) -> Option<Finding> {
    let share = exit.secs() / latency;
    if share < MIN_SHARE {
        return None;
    }
    let name = &state.name;
    let off =
        SettingRequest { setting: SettingName::parse(&format!("idle.{name}.disable")), value: "1".into() };
    let shown = Unit::Seconds.show(latency);
    Some(Finding {
        rule: RULE.name,
        title: format!(
            "waking up from idle state {name} may take {exit} of the {shown} that a request takes in {}; it was not measured with and without",
            cell.named()
        ),
        reason: "While all its requests are in flight the CPU has nothing to do until one completes, enters an idle state, and must \
leave it before the completion is handled. Deep states save energy and take longer to leave; the kernel chooses by how long it \
expects to wait, and does not know that somebody waits for it."
            .into(),
        evidence: vec![
            evidence(
                format!("exit latency of {name}, at worst"),
                exit.to_string(),
                format!("/sys/devices/system/cpu/cpu0/cpuidle/state{}/latency", state.index),
            ),
            evidence("latency of a request, median", shown, cell.source()),
            evidence("share of it, at most", percent(share.min(1.0)), "the quotient of these"),
        ],
        confidence: Confidence::Possible,
        gain: None,
        remedy: Some(Remedy {
            what: format!("switch {name} off while latency counts, and measure what it gains and costs in energy"),
            settings: vec![off.clone()],
            undo: UNTUNE.into(),
        }),
        next: tune_command(&off),
        compared: vec![],
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{about, bare_machine, findings, fio_run, with_depth};
    use super::*;
    use domain::inventory::{CpuList, Cpuidle, Inventory};

    fn machine(latency_us: u64, disabled: &str) -> Inventory {
        let state = IdleState {
            index: 3,
            name: "C6".into(),
            description: None,
            latency: Some(Nanos::from_micros(latency_us)),
            residency: None,
            cpus: CpuList::parse("0-1").unwrap(),
            disabled: CpuList::parse(disabled).unwrap(),
        };
        let idle = Cpuidle { driver: None, governor: None, available_governors: vec![], states: vec![state] };
        Inventory { cpuidle: Some(idle), ..bare_machine() }
    }

    fn latency(depth: &str, seconds: f64) -> crate::summary::RunData {
        fio_run(&[&with_depth(depth)], move |cell, block| vec![("latency_mean", about(seconds, cell, block))])
    }

    #[test]
    fn an_exit_latency_like_the_requests_own_is_found() {
        let found = findings(RULE, &latency("1", 250e-6), Some(&machine(133, "")), None).swap_remove(0);
        assert_eq!(found.confidence, Confidence::Possible);
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "idle.C6.disable = 1");
        assert_eq!(found.next, "flyball tune --set idle.C6.disable=1 --persist");
    }

    #[test]
    fn a_slow_device_a_deep_queue_or_a_disabled_state_is_no_finding() {
        assert!(findings(RULE, &latency("1", 8e-3), Some(&machine(133, "")), None).is_empty());
        assert!(findings(RULE, &latency("32", 250e-6), Some(&machine(133, "")), None).is_empty());
        assert!(findings(RULE, &latency("1", 250e-6), Some(&machine(133, "0-1")), None).is_empty());
    }

    #[test]
    fn with_several_in_flight_a_trace_tells_how_often_a_cpu_slept() {
        use crate::facts::usage::{Idling, Usage};
        let of = |entries: f64, extra: &str| {
            let options = format!("{}{extra}", with_depth("4"));
            let data = fio_run(&[&options], |_, _| vec![("latency_mean", 250e-6), ("iops", 400.0)]);
            let idle = vec![(3, Idling { entries, cpus: 0.5 })];
            let usages = [(data.trials[0].key.clone(), Usage { idle, ..Usage::default() })];
            let summary = crate::summarise::summarise(&data, None);
            let machine = machine(133, "");
            (RULE.run)(&Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) })
                .len()
        };
        assert_eq!([of(1000.0, ""), of(500.0, ""), of(1000.0, " rate_iops=400")], [1, 0, 0]);
    }

    #[test]
    fn a_load_whose_every_request_sleeps_lightly_leaves_the_deep_state_to_others() {
        use crate::facts::usage::{Idling, Usage};
        let of = |depth: &str, shallow: f64, deep: f64| {
            let options = with_depth(depth);
            let data = fio_run(&[&options], |_, _| vec![("latency_mean", 150e-6), ("iops", 6500.0)]);
            let idling = |entries| Idling { entries, cpus: 0.5 };
            let idle = vec![(0, idling(shallow)), (3, idling(deep))];
            let usages = [(data.trials[0].key.clone(), Usage { idle, ..Usage::default() })];
            let summary = crate::summarise::summarise(&data, None);
            let machine = machine(133, "");
            (RULE.run)(&Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) })
                .len()
        };
        assert_eq!([of("1", 7600.0, 1000.0), of("1", 5000.0, 1000.0)], [0, 1]);
        assert_eq!([of("1", 7600.0, 6600.0), of("4", 7600.0, 1000.0)], [1, 1]);
    }

    #[test]
    fn a_load_whose_thread_works_nearly_always_waits_for_few_wake_ups() {
        use crate::facts::usage::{Idling, Usage};
        let of = |used_ms| {
            let mut data = fio_run(&[&with_depth("4")], |_, _| vec![("latency_mean", 250e-6)]);
            super::super::testing::with_thread(&mut data, "fio", domain::trace::Role::Workload, used_ms);
            let idle = vec![(3, Idling { entries: 1000.0, cpus: 0.5 })];
            let usages = [(data.trials[0].key.clone(), Usage { idle, ..Usage::default() })];
            let summary = crate::summarise::summarise(&data, None);
            let machine = machine(133, "");
            (RULE.run)(&Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) })
                .len()
        };
        assert_eq!([of(880), of(920)], [1, 0]);
    }

    #[test]
    fn a_study_that_varied_idle_states_has_measured_them() {
        use super::super::testing::setting_run;
        let mut data = setting_run("idle.C6.disable", &["0", "1"], |level, block| about(1e8, level, block));
        data.study.workloads[0].options = super::super::testing::options(&with_depth("1"));
        for trial in &mut data.trials {
            let latency = domain::outcome::Metric {
                value: 250e-6,
                unit: Unit::Seconds,
                better: domain::outcome::Better::Lower,
            };
            trial.measurement.as_mut().unwrap().outcome.metrics.insert("latency_mean".into(), latency);
        }
        assert!(findings(RULE, &data, Some(&machine(133, "")), None).is_empty());
        data.study.factors[0].levels.iter_mut().for_each(|level| level.settings.clear());
        assert_eq!(findings(RULE, &data, Some(&machine(133, "")), None).len(), 1);
    }

    #[test]
    fn without_idle_states_or_a_latency_nothing_is_said() {
        assert!(findings(RULE, &latency("1", 250e-6), Some(&bare_machine()), None).is_empty());
        assert!(findings(RULE, &latency("1", 250e-6), None, None).is_empty());
        let none = fio_run(&[&with_depth("1")], |cell, block| vec![("throughput", about(1e8, cell, block))]);
        assert!(findings(RULE, &none, Some(&machine(133, "")), None).is_empty());
    }
}
