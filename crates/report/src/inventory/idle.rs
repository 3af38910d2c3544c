//! Idle states, as a table.

use super::Style;
use super::page::Page;
use domain::Nanos;
use domain::inventory::{Cpuidle, IdleState, Inventory};

pub(super) fn show(inventory: &Inventory, style: Style, page: &mut Page) {
    let Some(idle) = &inventory.cpuidle else { return };
    page.section("Idle");
    page.parts([
        idle.driver.clone(),
        idle.governor.as_ref().map(|governor| format!("governor {governor}")),
        others(idle).filter(|_| style == Style::Full),
    ]);
    let width = idle.states.iter().map(|s| s.name.chars().count()).max().unwrap_or(0).max("state".len());
    page.line(format!("{:width$}  to leave  worth it from", "state"));
    for state in &idle.states {
        let (latency, residency) = (micros(state.latency), micros(state.residency));
        let row = format!("{:width$}  {latency:>8}  {residency:>13}", state.name);
        page.hanging(width + 27, format!("{row}  {}", remark(state, inventory)).trim_end());
    }
}

fn others(idle: &Cpuidle) -> Option<String> {
    let others = idle.available_governors.iter().filter(|g| Some(*g) != idle.governor.as_ref());
    let others: Vec<&str> = others.map(String::as_str).collect();
    (!others.is_empty()).then(|| format!("also {}", others.join(" ")))
}

/// Always in the same unit, so that a column can be compared by eye.
fn micros(span: Option<Nanos>) -> String {
    span.map_or_else(|| "unknown".to_owned(), |span| format!("{} µs", span.get() / 1_000))
}

/// Where a state is not the same everywhere.
fn remark(state: &IdleState, inventory: &Inventory) -> String {
    let everywhere = state.cpus == inventory.cpus.online;
    let on = if everywhere { String::new() } else { format!("CPUs {}", state.cpus) };
    let off = match &state.disabled {
        disabled if disabled.is_empty() => String::new(),
        disabled if *disabled == state.cpus => "switched off".to_owned(),
        disabled => format!("switched off on CPUs {disabled}"),
    };
    let comma = if on.is_empty() || off.is_empty() { "" } else { ", " };
    format!("{on}{comma}{off}")
}
