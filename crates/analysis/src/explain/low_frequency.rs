//! A CPU ran well below its base frequency while it was busy, under a policy that chooses frequencies by
//! load.
//!
//! Sources: arch/x86/events/msr.c (APERF, MPERF, TSC); Intel SDM volume 3, "Hardware feedback" of APERF and
//! MPERF; `Documentation/admin-guide/pm/cpufreq.rst`.

use super::Rule;
use super::next_step::{UNTUNE, tune_command};
use crate::facts::case::{Case, evidence};
use crate::facts::cpu_share::{self, Bound};
use crate::facts::frequency_policy::CHOOSING_DRIVERS;
use crate::facts::usage::{Awake, Usage};
use crate::words::percent;
use domain::finding::{Confidence, Evidence, Finding, Remedy};
use domain::inventory::{Inventory, Policy};
use domain::setting::{SettingName, SettingRequest};
use domain::units::Hertz;

pub(super) const RULE: Rule = Rule {
    name: "low-frequency",
    doc: "A busy CPU ran well below its base frequency, and the frequency policy saves energy.",
    needs: "a recording's trace: APERF and MPERF (root, and not in most virtual machines); policies and base frequency in the inventory",
    source: "arch/x86/events/msr.c; Documentation/admin-guide/pm/cpufreq.rst",
    // A cap that somebody set is lifted first.
    yields_to: &["frequency-capped"],
    run,
};

/// A CPU that is idle for longer need not be fast: nobody can tell from its frequency that it is waited for.
const MIN_AWAKE: f64 = 0.5;

/// Below this share of what it may run at.
const MAX_SHARE: f64 = 0.8;

fn run(case: &Case<'_>) -> Vec<Finding> {
    let found = slowest(case, MIN_AWAKE, MAX_SHARE, |policy| !is_held_high(policy));
    found.map(|slow| finding(case, &slow)).into_iter().collect()
}

/// A CPU that was busy and slow.
pub(super) struct Slow<'a> {
    pub cpu: u32,
    pub awake: Awake,
    /// The frequency that it may run at: its base, or a lower limit in force.
    pub allowed: Hertz,
    pub policy: &'a Policy,
    pub source: String,
}

impl Slow<'_> {
    pub(super) fn frequency(&self) -> Hertz {
        Hertz::from_khz((self.awake.hertz / 1e3) as u64)
    }

    pub(super) fn figures(&self) -> Vec<Evidence> {
        let path = format!("/sys/devices/system/cpu/cpufreq/policy{}", self.policy.id);
        let governor = self.policy.governor.clone().unwrap_or_default();
        let mut figures = vec![
            evidence(
                format!("frequency of CPU {} while it was not idle, mean", self.cpu),
                self.frequency().to_string(),
                format!("APERF and MPERF, {}", self.source),
            ),
            evidence(
                "time in which it was not idle",
                percent(self.awake.share),
                format!("MPERF, {}", self.source),
            ),
            evidence("its base frequency, or a lower limit in force", self.allowed.to_string(), path.clone()),
            evidence("governor", governor, format!("{path}/scaling_governor")),
        ];
        figures.extend(
            self.policy.epp.clone().map(|epp| {
                evidence("energy preference", epp, format!("{path}/energy_performance_preference"))
            }),
        );
        figures
    }
}

/// Of all CPUs that were awake for at least this share of the time, and ran at no more than this share of
/// what they may, the slowest under such a policy.
pub(super) fn slowest<'a>(
    case: &Case<'a>,
    min_awake: f64,
    max_share: f64,
    is_meant: fn(&Policy) -> bool,
) -> Option<Slow<'a>> {
    let inventory = case.inventory?;
    let of_usage = |key: &str, usage: &'a Usage| -> Vec<Slow<'a>> {
        let slow =
            usage.awake.iter().filter(|(_, awake)| awake.share >= min_awake).filter_map(|(cpu, awake)| {
                let (policy, allowed) = allowed(inventory, *cpu)?;
                let is_slow = is_meant(policy) && awake.hertz <= allowed.hz() as f64 * max_share;
                is_slow.then(|| Slow { cpu: *cpu, awake: *awake, allowed, policy, source: key.to_owned() })
            });
        slow.collect()
    };
    let all =
        case.usages.iter().flat_map(|(key, usage)| of_usage(&format!("trace of {}", key.folder()), usage));
    let share = |slow: &Slow<'_>| slow.awake.hertz / slow.allowed.hz() as f64;
    all.min_by(|a, b| share(a).total_cmp(&share(b)))
}

/// The policy of a CPU, and the frequency that it may be expected to run at.
fn allowed(inventory: &Inventory, cpu: u32) -> Option<(&Policy, Hertz)> {
    let policy = inventory.cpufreq.as_ref()?.policies.iter().find(|policy| policy.cpus.contains(cpu))?;
    let kind = inventory.cpus.core_types.iter().find(|kind| kind.cpus.contains(cpu));
    let of_kind = match kind {
        Some(kind) => kind.base,
        None => inventory.cpus.base,
    };
    let base = policy.base.or(of_kind)?;
    Some((policy, policy.max.map_or(base, |max| base.min(max))))
}

/// Whether the policy asks for as much as there is.
pub(super) fn is_held_high(policy: &Policy) -> bool {
    let is_fast = |word: &Option<String>| word.as_deref() == Some("performance");
    is_fast(&policy.governor) || is_fast(&policy.epp)
}

fn finding(case: &Case<'_>, slow: &Slow<'_>) -> Finding {
    let Slow { cpu, awake, allowed, policy, .. } = slow;
    let (bound, further) = match cpu_share::bound(case, allowed.hz() as f64 / awake.hertz) {
        Bound::AtMost { times, figures } => (Some(times), figures),
        Bound::Nothing | Bound::Unknown => (None, Vec::new()),
    };
    let by_hardware = policy.driver.as_deref().is_some_and(|driver| CHOOSING_DRIVERS.contains(&driver));
    let name = if by_hardware && policy.epp.is_some() { "epp" } else { "governor" };
    let faster = SettingRequest { setting: SettingName::parse(name), value: "performance".into() };
    Finding {
        rule: RULE.name,
        title: format!(
            "CPU {cpu} ran at {} while it was busy {} of the time; its base is {allowed}",
            slow.frequency(),
            percent(awake.share)
        ),
        reason: "The policy in force chooses a frequency by load or by a preference for saving. A CPU that is busy for so long was \
given a low one. Work on it takes longer in proportion; what of it somebody waited for was not measured."
            .into(),
        evidence: slow.figures().into_iter().chain(further).collect(),
        confidence: Confidence::Likely,
        gain: bound.and_then(|times| cpu_share::expected(case, times)),
        remedy: Some(Remedy {
            what: "run at the highest frequency, and measure what it gains and costs in energy".into(),
            settings: vec![faster.clone()],
            undo: UNTUNE.into(),
        }),
        next: tune_command(&faster),
        compared: vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::*;
    use super::*;
    use domain::inventory::CpuList;

    fn machine(policy: Policy) -> Inventory {
        let policy = Policy { cpus: CpuList::parse("0-1").unwrap(), ..policy };
        machine_with(policy)
    }

    fn policy(governor: &str) -> Policy {
        Policy { governor: Some(governor.into()), base: Some(Hertz::from_mhz(2400)), ..Policy::default() }
    }

    pub fn ran(share: f64, mhz: f64) -> Usage {
        Usage { awake: vec![(1, Awake { share, hertz: mhz * 1e6 })], ..Usage::default() }
    }

    #[test]
    fn a_busy_cpu_below_its_base_is_found() {
        let found =
            findings_of_usage(RULE, &ran(0.93, 1200.0), Some(&machine(policy("schedutil")))).swap_remove(0);
        assert_eq!(
            found.title,
            "CPU 1 ran at 1.20 GHz while it was busy 93% of the time; its base is 2.40 GHz"
        );
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "governor = performance");
        let hwp =
            Policy { driver: Some("intel_pstate".into()), epp: Some("power".into()), ..policy("powersave") };
        let found = findings_of_usage(RULE, &ran(0.93, 1200.0), Some(&machine(hwp))).swap_remove(0);
        assert_eq!(found.remedy.unwrap().settings[0].to_string(), "epp = performance");
    }

    #[test]
    fn a_low_frequency_with_nothing_to_do_is_no_finding() {
        assert!(findings_of_usage(RULE, &ran(0.04, 800.0), Some(&machine(policy("schedutil")))).is_empty());
        assert!(findings_of_usage(RULE, &ran(0.93, 2300.0), Some(&machine(policy("schedutil")))).is_empty());
    }

    #[test]
    fn a_limit_in_force_or_a_policy_that_asks_for_all_is_told_by_other_rules() {
        let limited = Policy { max: Some(Hertz::from_mhz(1200)), ..policy("schedutil") };
        assert!(findings_of_usage(RULE, &ran(0.93, 1190.0), Some(&machine(limited))).is_empty());
        assert!(
            findings_of_usage(RULE, &ran(0.93, 1200.0), Some(&machine(policy("performance")))).is_empty()
        );
    }

    #[test]
    fn without_counters_or_the_base_nothing_is_said() {
        assert!(findings_of_usage(RULE, &Usage::default(), Some(&machine(policy("schedutil")))).is_empty());
        let unknown = Policy { base: None, ..policy("schedutil") };
        assert!(findings_of_usage(RULE, &ran(0.93, 1200.0), Some(&machine(unknown))).is_empty());
        assert!(findings_of_usage(RULE, &ran(0.93, 1200.0), None).is_empty());
    }
}
