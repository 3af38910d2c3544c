//! How fast the CPUs ran and in which states they were, as tables that text and page share.

use crate::document::Table;
use crate::sections::table;
use crate::wording::percent;
use analysis::facts::residency::{IdleStates, Residency};
use domain::units::Hertz;
use serde::Serialize;
use std::collections::BTreeSet;

/// The tables that a trace has something for, each with its title.
pub(crate) fn tables(residency: &Residency) -> Vec<(&'static str, Table)> {
    let all = [
        ("Mean frequency", frequencies(residency)),
        ("Time in each P-state", pstates(residency)),
        ("Time in each idle state", idle(residency)),
    ];
    all.into_iter().filter_map(|(title, table)| Some((title, table?))).collect()
}

fn frequencies(residency: &Residency) -> Option<Table> {
    let rows: Vec<Vec<String>> = residency
        .frequencies
        .iter()
        .map(|mean| vec![mean.object.clone(), mean.frequency.to_string(), mean.over.name().to_owned()])
        .collect();
    (!rows.is_empty()).then(|| table(&["of", "frequency", "mean"], &[1], rows))
}

/// A row a policy and a frequency at which it was.
fn pstates(residency: &Residency) -> Option<Table> {
    let rows: Vec<Vec<String>> = residency
        .pstates
        .iter()
        .flat_map(|states| {
            let held = states.shares.iter().filter(|(_, share)| *share > 0.0);
            held.map(|(at, share)| vec![states.policy.clone(), exact(*at), percent(Some(*share))])
        })
        .collect();
    (!rows.is_empty()).then(|| table(&["policy", "frequency", "share"], &[1, 2], rows))
}

/// ACPI's turbo is a state of 1 MHz more than the base frequency, so that frequencies are not rounded.
fn exact(frequency: Hertz) -> String {
    format!("{:.0} MHz", frequency.mhz())
}

/// A row a CPU, a column a state; what is left of the time it was not idle.
fn idle(residency: &Residency) -> Option<Table> {
    let all = residency.idle.iter().flat_map(|cpu| &cpu.states).map(|state| state.state);
    let numbers: Vec<u32> = all.collect::<BTreeSet<_>>().into_iter().collect();
    let names: Vec<String> = numbers.iter().map(|number| format!("state{number}")).collect();
    let head: Vec<&str> =
        std::iter::once("CPU").chain(names.iter().map(String::as_str)).chain(["entries"]).collect();
    let row = |cpu: &IdleStates| {
        let state = |number: &u32| cpu.states.iter().find(|state| state.state == *number);
        let shares = numbers.iter().map(|number| percent(state(number).map(|state| state.share)));
        let entries: Option<u64> = cpu.states.iter().map(|state| state.entries).sum();
        let entries = entries.map_or_else(|| "–".to_owned(), |entries| entries.to_string());
        std::iter::once(cpu.cpu.to_string()).chain(shares).chain([entries]).collect()
    };
    let rows: Vec<Vec<String>> = residency.idle.iter().map(row).collect();
    let figures: Vec<usize> = (0..head.len()).collect();
    (!rows.is_empty()).then(|| table(&head, &figures, rows))
}

/// The same for other programs.
#[derive(Serialize)]
pub(crate) struct ResidencyView<'a> {
    frequencies: Vec<FrequencyView<'a>>,
    pstates: Vec<PStatesView<'a>>,
    idle: Vec<IdleView>,
}

#[derive(Serialize)]
struct FrequencyView<'a> {
    of: &'a str,
    hertz: u64,
    mean: &'static str,
}

#[derive(Serialize)]
struct PStatesView<'a> {
    policy: &'a str,
    /// Pairs of a frequency in hertz and its share of the time.
    shares: Vec<(u64, f64)>,
}

#[derive(Serialize)]
struct IdleView {
    cpu: u32,
    states: Vec<IdleStateView>,
}

#[derive(Serialize)]
struct IdleStateView {
    state: u32,
    share: f64,
    entries: Option<u64>,
}

/// Of a trace.
pub(crate) fn view(residency: &Residency) -> ResidencyView<'_> {
    let frequencies = residency.frequencies.iter().map(|mean| FrequencyView {
        of: &mean.object,
        hertz: mean.frequency.hz(),
        mean: mean.over.name(),
    });
    let pstates = residency.pstates.iter().map(|states| PStatesView {
        policy: &states.policy,
        shares: states.shares.iter().map(|(at, share)| (at.hz(), *share)).collect(),
    });
    let idle = residency.idle.iter().map(|cpu| IdleView {
        cpu: cpu.cpu,
        states: (cpu.states.iter())
            .map(|s| IdleStateView { state: s.state, share: s.share, entries: s.entries })
            .collect(),
    });
    ResidencyView { frequencies: frequencies.collect(), pstates: pstates.collect(), idle: idle.collect() }
}
