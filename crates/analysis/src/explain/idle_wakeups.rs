//! CPUs left a deep idle state so often that waking up took a good part of a CPU's time, while tasks waited.
//!
//! Source: `Documentation/admin-guide/pm/cpuidle.rst` (`usage`, `latency`: the longest time to leave a
//! state).

use super::Rule;
use super::next_step::{UNTUNE, tune_command};
use crate::facts::case::{Case, CaseCell, evidence};
use crate::facts::usage::Usage;
use crate::words::percent;
use domain::finding::{Confidence, Finding, Remedy};
use domain::inventory::IdleState;
use domain::setting::{SettingName, SettingRequest};
use domain::time::Nanos;
use domain::units::Unit;

pub(super) const RULE: Rule = Rule {
    name: "idle-wakeups",
    doc: "CPUs leave a slow idle state very often while tasks wait for I/O.",
    needs: "a recording's trace: idle states, and pressure or CPUs; the states' exit latencies in the inventory",
    source: "Documentation/admin-guide/pm/cpuidle.rst (`usage`, `latency`)",
    yields_to: &["idle-exit-latency", "idle-policy"],
    run,
};

/// Waking up takes at most this share of one CPU's time before it is said.
const MIN_WAKING: f64 = 0.1;

/// Tasks that wait less have nothing to gain by it.
const MIN_WAITING: f64 = 0.1;

/// States that are left within this time are shallow.
const MIN_LATENCY: Nanos = Nanos::from_micros(20);

fn run(case: &Case<'_>) -> Vec<Finding> {
    // Nobody waits for a single request where the page cache takes all writes, nor where a rate is kept.
    let cells = case.cells();
    if !cells.is_empty() && cells.iter().all(|cell| cell.writes_behind() || cell.keeps_its_pace()) {
        return Vec::new();
    }
    let states = case.inventory.and_then(|i| i.cpuidle.as_ref()).map_or(&[][..], |idle| &idle.states);
    let most = case.worst_usage(|usage| Some(worst(states, usage)?.waking));
    let found = most.filter(|(_, usage, waking)| {
        let is_waited_for = waiting(usage) >= Some(MIN_WAITING) && !are_of_others(&cells, states, usage);
        *waking >= MIN_WAKING && is_waited_for
    });
    found.and_then(|(source, usage, _)| finding(worst(states, usage)?, usage, &source)).into_iter().collect()
}

/// Whether those who sleep deeply are none that wait for a request. A load of one request at a time sleeps
/// once for each: where shallow states were left as often as it asked, the deep ones were left by others,
/// such as a resync or the writing back.
fn are_of_others(cells: &[CaseCell<'_>], states: &[IdleState], usage: &Usage) -> bool {
    let is_deep = |number: u32| {
        let state = states.iter().find(|state| state.index == number);
        state.and_then(|state| state.latency).is_some_and(|latency| latency >= MIN_LATENCY)
    };
    let shallow = usage.idle.iter().filter(|(number, _)| !is_deep(*number));
    let left: f64 = shallow.map(|(_, idling)| idling.entries).sum();
    let sleeps_there = |cell: &CaseCell<'_>| {
        cell.profile().depth == Some(1)
            && cell.metric("iops").is_some_and(|asked| asked > 0.0 && left >= asked)
    };
    !cells.is_empty() && cells.iter().all(sleeps_there)
}

/// The state whose leaving takes most time.
struct Worst<'s> {
    state: &'s IdleState,
    latency: Nanos,
    /// How often it was left, by all CPUs, a second.
    left: f64,
    /// The most of one CPU's time that leaving it can have taken.
    waking: f64,
}

fn worst<'s>(states: &'s [IdleState], usage: &Usage) -> Option<Worst<'s>> {
    let of = |(number, idling): &(u32, crate::facts::usage::Idling)| {
        let state = states.iter().find(|state| state.index == *number)?;
        let latency = state.latency.filter(|latency| *latency >= MIN_LATENCY)?;
        let waking = idling.entries * latency.secs();
        Some(Worst { state, latency, left: idling.entries, waking })
    };
    usage.idle.iter().filter_map(of).max_by(|a, b| a.waking.total_cmp(&b.waking))
}

/// The share of the time in which a task waited for I/O.
fn waiting(usage: &Usage) -> Option<f64> {
    usage.pressure.io.or(usage.machine.map(|cpu| cpu.iowait))
}

fn finding(worst: Worst<'_>, usage: &Usage, source: &str) -> Option<Finding> {
    let Worst { state, latency, left, waking } = worst;
    let name = &state.name;
    let waited = percent(waiting(usage)?);
    let off =
        SettingRequest { setting: SettingName::parse(&format!("idle.{name}.disable")), value: "1".into() };
    Some(Finding {
        rule: RULE.name,
        title: format!(
            "CPUs left idle state {name} {}, which takes up to {latency} each time, while tasks waited for I/O in {waited} of the time",
            Unit::PerSecond.show(left)
        ),
        reason: "A CPU that waits for a request enters an idle state, and has to leave it before it handles the completion. The time \
to leave it is part of what is waited for. The kernel tells the longest time; how long it really took was not measured."
            .into(),
        evidence: vec![
            evidence(format!("entries into {name}, all CPUs together"), Unit::PerSecond.show(left), source),
            evidence(
                format!("exit latency of {name}, at worst"),
                latency.to_string(),
                format!("/sys/devices/system/cpu/cpu0/cpuidle/state{}/latency", state.index),
            ),
            evidence("the most of one CPU's time that took", percent(waking), "the product of these"),
            evidence("time in which a task waited for I/O", waited, source),
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
    use super::super::testing::*;
    use super::*;
    use crate::facts::usage::{Idling, Pressure};
    use domain::inventory::{CpuList, Cpuidle, Inventory};

    fn machine(latency_us: Option<u64>) -> Inventory {
        let state = IdleState {
            index: 3,
            name: "C6".into(),
            description: None,
            latency: latency_us.map(Nanos::from_micros),
            residency: None,
            cpus: CpuList::parse("0-1").unwrap(),
            disabled: CpuList::default(),
        };
        let idle = Cpuidle { driver: None, governor: None, available_governors: vec![], states: vec![state] };
        Inventory { cpuidle: Some(idle), ..bare_machine() }
    }

    fn usage(entries: f64, waited: Option<f64>) -> Usage {
        let pressure = Pressure { io: waited, ..Pressure::default() };
        Usage { idle: vec![(3, Idling { entries, cpus: 1.5 })], pressure, ..Usage::default() }
    }

    #[test]
    fn a_slow_state_that_is_left_often_while_tasks_wait_is_found() {
        let found =
            findings_of_usage(RULE, &usage(4100.0, Some(0.43)), Some(&machine(Some(133)))).swap_remove(0);
        assert!(
            found.title.starts_with("CPUs left idle state C6 4.10 k/s, which takes up to 133 µs"),
            "{}",
            found.title
        );
        assert_eq!(found.evidence[2].figure, "54.5%");
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "idle.C6.disable = 1");
    }

    #[test]
    fn writes_that_wait_for_no_request_wait_for_no_cpu() {
        let of = |options: &str| {
            let data = fio_run(&[options], |_, _| vec![("throughput", 1e8)]);
            let usages = [(data.trials[0].key.clone(), usage(1500.0, Some(0.4)))];
            let summary = crate::summarise::summarise(&data, None);
            let machine = machine(Some(133));
            (RULE.run)(&Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) })
                .len()
        };
        assert_eq!([of("rw=write bs=1m direct=1"), of("rw=write bs=1m")], [1, 0]);
    }

    #[test]
    fn a_load_whose_every_request_sleeps_lightly_leaves_no_deep_state() {
        let of = |shallow: f64| {
            let data = fio_run(&["rw=randread bs=4k direct=1"], |_, _| vec![("iops", 6000.0)]);
            let mut usage = usage(1500.0, Some(0.4));
            usage.idle.push((0, Idling { entries: shallow, cpus: 1.0 }));
            let usages = [(data.trials[0].key.clone(), usage)];
            let summary = crate::summarise::summarise(&data, None);
            let machine = machine(Some(133));
            (RULE.run)(&Case { inventory: Some(&machine), usages: &usages, ..Case::new(&data, &summary) })
                .len()
        };
        assert_eq!([of(5000.0), of(6100.0)], [1, 0]);
    }

    #[test]
    fn a_state_that_is_rarely_left_a_shallow_one_and_nobody_who_waits_are_no_finding() {
        assert!(findings_of_usage(RULE, &usage(100.0, Some(0.43)), Some(&machine(Some(133)))).is_empty());
        assert!(findings_of_usage(RULE, &usage(90_000.0, Some(0.43)), Some(&machine(Some(2)))).is_empty());
        assert!(findings_of_usage(RULE, &usage(4100.0, Some(0.01)), Some(&machine(Some(133)))).is_empty());
    }

    #[test]
    fn unknown_waits_states_or_latencies_are_no_evidence() {
        assert!(findings_of_usage(RULE, &usage(4100.0, None), Some(&machine(Some(133)))).is_empty());
        assert!(findings_of_usage(RULE, &usage(4100.0, Some(0.43)), Some(&machine(None))).is_empty());
        assert!(findings_of_usage(RULE, &usage(4100.0, Some(0.43)), None).is_empty());
        assert!(findings_of_usage(RULE, &Usage::default(), Some(&machine(Some(133)))).is_empty());
    }
}
