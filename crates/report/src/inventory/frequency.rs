//! Frequency policy: what is equal on many policies stands in one line.

use super::Style;
use super::page::{Page, list_of, on_off};
use domain::inventory::{AmdPstate, CpuList, Cpufreq, IntelPstate, Inventory, Policy};
use domain::units::{Hertz, Ratio};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn show(inventory: &Inventory, style: Style, page: &mut Page) {
    let Some(cpufreq) = &inventory.cpufreq else { return };
    page.section("Frequency");
    for group in groups(&cpufreq.policies) {
        group.show(style, page);
    }
    page.parts([cpufreq.intel_pstate.as_ref().map(intel_pstate)]);
    page.parts([cpufreq.amd_pstate.as_ref().map(amd_pstate)]);
    // Where each policy has its own switch, that one is shown with it.
    let shared = cpufreq.boost.filter(|_| cpufreq.policies.iter().all(|p| p.boost.is_none()));
    page.parts([shared.map(|boost| format!("boost {}", on_off(boost)))]);
    tunables(cpufreq, style, page);
    if !inventory.frequency_sources.is_empty() {
        let names: Vec<&str> = inventory.frequency_sources.iter().map(|s| s.name()).collect();
        page.line(format!("what runs can be read from {}", names.join(", or else from ")));
    }
}

/// One line for each group of policies: what decides their frequency.
pub(crate) fn policies(cpufreq: &Cpufreq) -> Vec<String> {
    groups(&cpufreq.policies).iter().map(Group::heading).collect()
}

/// Policies that differ in nothing but their CPUs and what they did.
struct Group<'a> {
    policies: Vec<&'a Policy>,
}

fn groups(policies: &[Policy]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group> = Vec::new();
    for policy in policies {
        match groups.iter_mut().find(|g| settings(g.first()) == settings(policy)) {
            Some(group) => group.policies.push(policy),
            None => groups.push(Group { policies: vec![policy] }),
        }
    }
    groups
}

/// All of a policy that somebody decided.
fn settings(policy: &Policy) -> Policy {
    let plain = Policy { id: 0, cpus: CpuList::default(), current: None, ..policy.clone() };
    Policy { time_in_state: Vec::new(), transitions: None, ..plain }
}

impl<'a> Group<'a> {
    fn first(&self) -> &'a Policy {
        self.policies[0]
    }

    fn heading(&self) -> String {
        format!("{}: {}", self.name(), list_of(facts(self.first())))
    }

    fn show(&self, style: Style, page: &mut Page) {
        page.line(self.heading());
        if let Some(seen) = self.seen() {
            page.line(format!("  last seen at {seen}"));
        }
        if let Some(time) = self.time_in_state() {
            page.line(format!("  time spent at {time}"));
        }
        if style == Style::Full {
            choices(self.first(), page);
        }
    }

    /// `policies 0-3`; with the CPUs where they are not the policies' numbers.
    fn name(&self) -> String {
        let ids: CpuList = self.policies.iter().map(|p| p.id).collect();
        let cpus: CpuList = self.policies.iter().flat_map(|p| p.cpus.iter()).collect();
        let word = if ids.len() == 1 { "policy" } else { "policies" };
        if ids == cpus { format!("{word} {ids}") } else { format!("{word} {ids} (CPUs {cpus})") }
    }

    fn seen(&self) -> Option<String> {
        let seen = || self.policies.iter().filter_map(|p| p.current);
        let (low, high) = (seen().min()?, seen().max()?);
        Some(if low == high { low.to_string() } else { range(low, high) })
    }

    /// Shares of all policies' time together, slowest first.
    fn time_in_state(&self) -> Option<String> {
        let mut times: BTreeMap<Hertz, u64> = BTreeMap::new();
        for state in self.policies.iter().flat_map(|p| &p.time_in_state) {
            let time = times.entry(state.frequency).or_default();
            *time = time.saturating_add(state.time.get());
        }
        let all = times.values().fold(0_u64, |sum, time| sum.saturating_add(*time));
        let share =
            |(frequency, time): (&Hertz, &u64)| Some(format!("{frequency} {}", Ratio::of(*time, all)?));
        let shares: Vec<String> = times.iter().filter_map(share).collect();
        (!shares.is_empty()).then(|| shares.join(", "))
    }
}

fn facts(policy: &Policy) -> Vec<String> {
    let parts = [
        policy.driver.clone(),
        policy.governor.as_ref().map(|governor| format!("governor {governor}")),
        limits(policy),
        policy.base.map(|base| format!("base {base}")),
        policy.boost.map(|boost| format!("boost {}", on_off(boost))),
        policy.epp.as_ref().map(|epp| format!("EPP {epp}")),
        epb(&policy.epb),
        policy.transition_latency.map(|latency| format!("{latency} to switch")),
    ];
    parts.into_iter().flatten().collect()
}

/// What is allowed, and what the hardware could do besides.
fn limits(policy: &Policy) -> Option<String> {
    let mut text = range(policy.min?, policy.max?);
    if let Some(least) = policy.hardware_min.filter(|least| Some(*least) < policy.min) {
        text += &format!(", held above the hardware's {least}");
    }
    match policy.hardware_max.filter(|most| Some(*most) > policy.max) {
        Some(most) if policy.is_capped() == Some(true) => {
            text += &format!(", CAPPED below the hardware's {most}")
        }
        Some(most) => text += &format!(" and boost up to {most}"),
        None => {}
    }
    if let Some(limit) = policy.bios_limit.filter(|_| policy.is_capped() == Some(true)) {
        text += &format!(", firmware limit {limit}");
    }
    Some(text)
}

fn range(low: Hertz, high: Hertz) -> String {
    if low == high { format!("fixed at {low}") } else { format!("{low} – {high}") }
}

fn epb(values: &[u8]) -> Option<String> {
    match values {
        [] => None,
        values => Some(format!("EPB {}", values.iter().map(u8::to_string).collect::<Vec<_>>().join("/"))),
    }
}

fn choices(policy: &Policy, page: &mut Page) {
    if !policy.available_governors.is_empty() {
        page.line(format!("  governors to choose from: {}", policy.available_governors.join(" ")));
    }
    if !policy.available_epp.is_empty() {
        page.line(format!("  EPP to choose from: {}", policy.available_epp.join(" ")));
    }
    if !policy.available.is_empty() {
        let steps: Vec<String> = policy.available.iter().map(Hertz::to_string).collect();
        page.line(format!("  steps: {}", steps.join(", ")));
    }
}

fn intel_pstate(pstate: &IntelPstate) -> String {
    let mut parts: Vec<String> = pstate.status.iter().cloned().collect();
    parts.extend(pstate.hwp.map(|hwp| {
        let who = if hwp { "the processor chooses (HWP)" } else { "the kernel chooses (no HWP)" };
        who.to_owned()
    }));
    parts.extend(pstate.no_turbo.map(|no| format!("turbo {}", on_off(!no))));
    if let (Some(min), Some(max)) = (pstate.min_perf, pstate.max_perf) {
        parts.push(format!("performance {:.0}–{:.0}%", min.get() * 100.0, max.get() * 100.0));
    }
    parts.extend(pstate.hwp_dynamic_boost.map(|boost| format!("dynamic boost {}", on_off(boost))));
    format!("intel_pstate: {}", list_of(parts))
}

fn amd_pstate(pstate: &AmdPstate) -> String {
    let prefcore = pstate.prefcore.as_ref().map(|p| format!(", preferred cores {p}")).unwrap_or_default();
    format!("amd_pstate: {}{prefcore}", pstate.status.as_deref().unwrap_or("mode unknown"))
}

/// Those of governors in force; all of them where everything is wanted.
fn tunables(cpufreq: &Cpufreq, style: Style, page: &mut Page) {
    let in_force: BTreeSet<&String> = cpufreq.policies.iter().filter_map(|p| p.governor.as_ref()).collect();
    let shared = cpufreq.tunables.iter().filter(|(g, _)| style == Style::Full || in_force.contains(g));
    for (governor, values) in shared {
        page.line(format!("{governor}: {}", list(values)));
    }
    // Policies with tunables of their own are grouped by them already; each set is shown once.
    let own: BTreeSet<(&String, String)> = cpufreq
        .policies
        .iter()
        .filter(|p| !p.tunables.is_empty())
        .filter_map(|p| Some((p.governor.as_ref()?, list(&p.tunables))))
        .collect();
    for (governor, values) in own {
        page.line(format!("{governor}: {values}"));
    }
}

fn list(values: &BTreeMap<String, String>) -> String {
    values.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
}
