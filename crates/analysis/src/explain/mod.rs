//! Why it is as fast as it is: rules that turn a measured run into findings with evidence.
//!
//! A rule is one file: its documentation, its function and its tests; adding one touches that file and
//! [`RULES`]. A rule is a pure function of a [`Case`] and gives no finding without evidence: where what it
//! needs was not measured, it is silent, and [`not_measured`] says what is missing.

mod array_at_risk;
mod bitmap;
mod by_cell;
mod chunk_size;
mod cipher_without_hardware;
mod cpu_at_limit;
mod crypt_sector;
mod crypt_workqueues;
mod degraded_array;
mod device_at_limit;
mod device_cache;
mod dirty_limit;
mod energy_bias;
mod flushes;
mod frequency_capped;
mod frequency_limit;
mod governor;
mod governor_stays_low;
mod group_threads;
mod guest_halts;
mod hwp_dynamic_boost;
mod idle_exit_latency;
mod idle_policy;
mod idle_wakeups;
mod interrupts_on_one_cpu;
mod io_is_busy;
mod iowait_boost;
mod journal_mode;
mod journal_on_data_disk;
mod link_speed;
mod loop_cache;
mod low_frequency;
mod misaligned_partition;
mod misleading_options;
mod mount_options;
mod next_step;
mod noise;
mod not_measured;
mod on_battery;
mod one_cpu_at_limit;
mod one_thread_at_limit;
mod page_cache;
mod pair;
mod parity_writes;
mod power_limit;
mod queue_depth;
mod read_ahead;
mod read_ahead_too_large;
mod read_modify_write;
mod remote_node;
mod request_slots;
mod resync_beside;
mod sampling_window;
mod scheduler;
mod setting_changed;
mod slow_clock;
mod slow_interrupt_cpu;
mod slowest_member;
mod stripe_cache;
mod stripe_cache_full;
mod sub_block_writes;
mod thermal_throttling;
mod threshold_not_reached;
mod trim_blocked;
mod tunable;
mod varied_setting;
mod waiting;
mod writeback_throttling;

#[cfg(test)]
mod contradictions;
#[cfg(test)]
pub(crate) mod testing;

pub use crate::facts::case::Case;
pub use not_measured::not_measured;

use domain::finding::Finding;
use domain::inventory::BlockKind;
use domain::order;
use domain::trial::Provenance;
use std::collections::BTreeSet;

/// A rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name, as findings carry it: `queue-depth`.
    pub name: &'static str,
    /// What it finds, in a sentence.
    pub doc: &'static str,
    /// What it rests on: without that it is silent.
    pub needs: &'static str,
    /// Which file or document says that it is so.
    pub source: &'static str,
    /// Rules that say the same of one cause by better evidence: where one of them finds something, this one
    /// is silent.
    pub yields_to: &'static [&'static str],
    /// Judges a case.
    pub run: fn(&Case<'_>) -> Vec<Finding>,
}

/// All rules, in the order in which findings of equal confidence are shown.
pub const RULES: &[Rule] = &[
    governor_stays_low::RULE,
    // What all requests wait for costs a multiple: a disk, a call, an update. So do reads before writes.
    slowest_member::RULE,
    flushes::RULE,
    bitmap::RULE,
    read_modify_write::RULE,
    // A core that works for all of them costs less.
    one_thread_at_limit::RULE,
    threshold_not_reached::RULE,
    governor::RULE,
    frequency_capped::RULE,
    parity_writes::RULE,
    queue_depth::RULE,
    read_ahead::RULE,
    scheduler::RULE,
    cpu_at_limit::RULE,
    one_cpu_at_limit::RULE,
    idle_exit_latency::RULE,
    page_cache::RULE,
    misleading_options::RULE,
    noise::RULE,
    stripe_cache::RULE,
    stripe_cache_full::RULE,
    group_threads::RULE,
    degraded_array::RULE,
    resync_beside::RULE,
    chunk_size::RULE,
    crypt_workqueues::RULE,
    crypt_sector::RULE,
    cipher_without_hardware::RULE,
    trim_blocked::RULE,
    request_slots::RULE,
    writeback_throttling::RULE,
    dirty_limit::RULE,
    read_ahead_too_large::RULE,
    loop_cache::RULE,
    journal_on_data_disk::RULE,
    journal_mode::RULE,
    sub_block_writes::RULE,
    io_is_busy::RULE,
    iowait_boost::RULE,
    sampling_window::RULE,
    hwp_dynamic_boost::RULE,
    energy_bias::RULE,
    frequency_limit::RULE,
    idle_policy::RULE,
    low_frequency::RULE,
    power_limit::RULE,
    thermal_throttling::RULE,
    idle_wakeups::RULE,
    interrupts_on_one_cpu::RULE,
    slow_interrupt_cpu::RULE,
    device_cache::RULE,
    guest_halts::RULE,
    slow_clock::RULE,
    on_battery::RULE,
    setting_changed::RULE,
    misaligned_partition::RULE,
    link_speed::RULE,
    remote_node::RULE,
    mount_options::RULE,
    array_at_risk::RULE,
    // What is seen of any cause comes behind the causes.
    device_at_limit::RULE,
    waiting::RULE,
];

/// Every finding of every rule: the surest first, and among equals those with the larger gain. How much
/// trials differ comes last.
pub fn explain(case: &Case<'_>) -> Vec<Finding> {
    explain_with(case, &[])
}

/// The same, with what these cells of the run show each by its own trials and storage, as cases of one cell.
pub fn explain_with(case: &Case<'_>, cells: &[Case<'_>]) -> Vec<Finding> {
    let mut findings = applied(case);
    let of_cells = by_cell::found(case, &findings, cells);
    findings.extend(of_cells);
    if case.data.run.provenance != Provenance::Host {
        findings.iter_mut().for_each(|finding| leave_this_host_alone(finding, case));
    } else if case.data.study.stack.is_some() {
        findings.iter_mut().for_each(|finding| leave_what_is_gone_alone(finding, case));
    }
    // How much trials differ is no cause of their rate.
    let is_noise = |finding: &Finding| finding.rule == noise::RULE.name;
    let surest = |a: &Finding, b: &Finding| b.confidence.cmp(&a.confidence).then(size(b).total_cmp(&size(a)));
    order::by(&mut findings, |a, b| is_noise(a).cmp(&is_noise(b)).then_with(|| surest(a, b)));
    for (finding, number) in findings.iter_mut().zip(1..) {
        if let Some(load) = tunable::load(finding, case) {
            finding.next = format!("flyball tune {}:{number}{load}", case.data.run.id);
        } else if let Some(command) = tunable::measured(finding, case) {
            finding.next = command;
        }
    }
    findings
}

/// What the rules find, in their order.
fn applied(case: &Case<'_>) -> Vec<Finding> {
    without_what_is_said_better(RULES.iter().flat_map(|rule| (rule.run)(case)).collect())
}

/// How large a finding's gain is; 0 where it has none.
fn size(finding: &Finding) -> f64 {
    finding.gain.as_ref().map_or(0.0, |gain| gain.ratio.ln().abs())
}

/// One cause is told once: by the rule that has the better evidence.
fn without_what_is_said_better(findings: Vec<Finding>) -> Vec<Finding> {
    let named = |name: &str| RULES.iter().find(|rule| rule.name == name);
    let mut told: BTreeSet<&str> = findings.iter().map(|finding| finding.rule).collect();
    // One that is not told itself silences nobody. A chain of rules is no longer than there are rules.
    for _ in 0..RULES.len() {
        let yields = |rule: &str| {
            let better = named(rule).map_or(&[][..], |rule| rule.yields_to);
            better.iter().any(|better| told.contains(better))
        };
        let all = findings.iter().map(|finding| finding.rule);
        let next: BTreeSet<&str> = all.filter(|rule| !yields(rule)).collect();
        if next == told {
            break;
        }
        told = next;
    }
    findings.into_iter().filter(|finding| told.contains(finding.rule)).collect()
}

/// Commands that look at this host, or change it.
const OF_THIS_HOST: [&str; 5] =
    ["flyball tune", "flyball inspect", "flyball record", "flyball check", "flyball diagnose"];

/// What was found of a lab machine, a simulation or somewhere else gives no reason to change this host.
fn leave_this_host_alone(finding: &mut Finding, case: &Case<'_>) {
    if OF_THIS_HOST.iter().any(|command| finding.next.starts_with(command)) {
        finding.next = format!("flyball show {}", case.data.run.id);
    }
    if let Some(remedy) = &mut finding.remedy
        && (remedy.undo == next_step::UNTUNE || !remedy.settings.is_empty())
    {
        "nothing was changed on this host".clone_into(&mut remedy.undo);
    }
}

/// A study takes its arrays, mappings and loop devices down at its end: no setting of theirs can be made any
/// more, but in the study itself.
fn leave_what_is_gone_alone(finding: &mut Finding, case: &Case<'_>) {
    let below = case.data.trials.iter().filter_map(|trial| trial.environment.get("devices"));
    let built: Vec<&str> = below.flat_map(|names| names.split(" > ")).collect();
    let is_gone = |name: &str| {
        let device = case.inventory.and_then(|inventory| inventory.device(name));
        built.contains(&name) && device.is_none_or(|device| device.kind != BlockKind::Disk)
    };
    let Some(remedy) = &mut finding.remedy else { return };
    // One that is to be measured first is named by the command alone.
    let is_named = |name: &&str| finding.next.contains(&format!("@{name}="));
    let mut objects = remedy.settings.iter().filter_map(|request| request.setting.object.as_deref());
    let is_gone =
        objects.any(is_gone) || built.iter().filter(|name| is_named(name)).any(|name| is_gone(name));
    if is_gone && finding.next.starts_with("flyball tune") {
        finding.next = format!("flyball show {}", case.data.run.id);
        "nothing to undo: the study took its storage down; write the setting into its `[settings]`"
            .clone_into(&mut remedy.undo);
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{about, fio_run, on_disk, setting_run, watched, with_depth};
    use super::*;
    use domain::finding::{Confidence, Remedy};
    use domain::setting::{SettingName, SettingRequest};
    use domain::study::Until;
    use domain::trace::Role;
    use domain::trial::ThreadTime;

    /// How the page begins; `UPDATE_EXPECT=1` writes the rest of it.
    const PAGE: &str = "\
# The rules of `flyball explain`

A rule is silent where its evidence was not measured, and where the figures look healthy. A finding
is *shown* where trials were compared that differ in its cause alone, *likely* where its cause was
measured, and *possible* where the configuration alone suggests it. What rests on a recording's trace
finds the same in imported trials and in a study of one cell. Files without another name are the
kernel's.

| rule | what it finds | what it rests on | source |
|---|---|---|---|
";

    #[test]
    fn every_rule_has_a_name_of_its_own_and_a_sentence() {
        let names: BTreeSet<_> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(names.len(), RULES.len());
        assert!(RULES.iter().all(|rule| rule.doc.ends_with('.')));
        assert!(RULES.iter().all(|rule| !rule.needs.is_empty() && !rule.source.is_empty()));
        let known = |rule: &&str| names.contains(rule);
        assert!(RULES.iter().all(|rule| rule.yields_to.iter().all(known)));
        // Of two that yield to each other neither would speak.
        let yields =
            |a: &str, b: &str| RULES.iter().any(|rule| rule.name == a && rule.yields_to.contains(&b));
        assert!(names.iter().all(|a| names.iter().all(|b| !(yields(a, b) && yields(b, a)))));
    }

    #[test]
    fn a_finding_that_is_not_told_silences_no_other() {
        let data = setting_run("governor", &["ondemand", "performance"], |level, block| {
            about([1e8, 2e8][level], level, block)
        });
        let found = explain(&Case::new(&data, &crate::summarise::summarise(&data, None))).swap_remove(0);
        let told = |rules: &[&'static str]| -> Vec<&str> {
            let all = rules.iter().map(|rule| Finding { rule, ..found.clone() }).collect();
            without_what_is_said_better(all).into_iter().map(|finding| finding.rule).collect()
        };
        assert_eq!(told(&["read-modify-write", "stripe-cache"]), ["stripe-cache"]);
        let chain = ["read-modify-write", "stripe-cache", "slowest-member"];
        assert_eq!(told(&chain), ["read-modify-write", "slowest-member"]);
        // A cache that is full of what waits for one disk is that disk's fault; a cipher in C hides its
        // sectors.
        assert_eq!(told(&["stripe-cache-full", "slowest-member"]), ["slowest-member"]);
        assert_eq!(told(&["crypt-sector", "cipher-without-hardware"]), ["cipher-without-hardware"]);
        // Two causes of one machine.
        for both in [["resync-beside", "slowest-member"], ["journal-mode", "journal-on-data-disk"]] {
            assert_eq!(told(&both), both);
        }
    }

    #[test]
    fn the_page_of_rules_has_each_of_them() {
        let mut page = PAGE.to_owned();
        for rule in RULES {
            let Rule { name, doc, needs, source, .. } = rule;
            page += &format!("| `{name}` | {doc} | {needs} | {source} |\n");
        }
        expect_test::expect_file!["../../../../docs/RULES.md"].assert_eq(&page);
    }

    #[test]
    fn no_command_changes_a_device_that_the_study_took_down() {
        let mut data = fio_run(&["rw=read bs=128k"], |_, _| vec![]);
        let mut machine = on_disk(true);
        machine.devices[0].kind = BlockKind::Md(Box::default());
        data.study.stack = Some(domain::stack::StackSpec { layers: vec![] });
        data.trials[0].environment.insert("devices".into(), "md0 > sda".into());
        let summary = crate::summarise::summarise(&data, None);
        let case = Case { inventory: Some(&machine), ..Case::new(&data, &summary) };
        let next = |device: &str, command: fn(&SettingRequest) -> String| {
            let request = SettingRequest {
                setting: SettingName { name: "read_ahead_kb".into(), object: Some(device.into()) },
                value: "4096".into(),
            };
            let mut finding = Finding {
                rule: "read-ahead",
                title: String::new(),
                reason: String::new(),
                evidence: vec![],
                confidence: Confidence::Likely,
                gain: None,
                remedy: Some(Remedy {
                    what: String::new(),
                    settings: vec![request.clone()],
                    undo: next_step::UNTUNE.into(),
                }),
                next: command(&request),
                compared: vec![],
            };
            if finding.next.ends_with("COMMAND") {
                finding.remedy.as_mut().unwrap().settings.clear();
            }
            leave_what_is_gone_alone(&mut finding, &case);
            finding.next
        };
        assert_eq!(next("md0", next_step::tune_command), format!("flyball show {}", data.run.id));
        assert_eq!(next("md0", next_step::measure_command), format!("flyball show {}", data.run.id));
        // The disk below is there still.
        assert_eq!(
            next("sda", next_step::tune_command),
            "flyball tune --set read_ahead_kb@sda=4096 --persist"
        );
    }

    #[test]
    fn a_setting_that_trials_of_this_host_compare_leads_to_tune_by_its_number() {
        let mut data = setting_run("read_ahead_kb", &["16", "4096"], |level, block| {
            about([1e8, 2e8][level], level, block)
        });
        let next = |data: &crate::summary::RunData| -> Vec<String> {
            let summary = crate::summarise::summarise(data, None);
            explain(&Case::new(data, &summary)).into_iter().map(|finding| finding.next).collect()
        };
        let at = next(&data).iter().position(|next| next.starts_with("flyball tune s-1:")).unwrap();
        assert_eq!(next(&data)[at], format!("flyball tune s-1:{}", at + 1));
        let mut tuned = data.clone();
        tuned.study.measure.until = Until::Decided;
        assert!(next(&tuned).iter().all(|next| !next.starts_with("flyball tune s-1:")));
        data.study.factors[0].levels[1].kernel = Some("6.1".into());
        assert!(next(&data).iter().all(|next| !next.starts_with("flyball tune s-1:")));
    }

    #[test]
    fn findings_of_a_model_never_look_at_this_host_nor_write_to_it() {
        let mut data = setting_run("governor", &["ondemand", "performance"], |level, block| {
            about([1e8, 2e8][level], level, block)
        });
        data.run.provenance = Provenance::Simulation;
        for trial in &mut data.trials {
            let cpu = domain::Nanos::from_millis(990);
            let thread = |role| ThreadTime { name: format!("{role}"), tid: 7, role, cpu };
            trial.measurement.as_mut().unwrap().threads = vec![thread(Role::Array)];
        }
        let machine = watched("ondemand");
        let summary = crate::summarise::summarise(&data, None);
        let found = explain(&Case { inventory: Some(&machine), ..Case::new(&data, &summary) });
        assert!(found.iter().any(|f| f.rule == "governor") && found.len() > 1, "{found:#?}");
        for finding in &found {
            assert_eq!(finding.next, "flyball show s-1", "{finding:#?}");
            let undo = finding.remedy.as_ref().map_or("", |remedy| remedy.undo.as_str());
            assert!(!undo.contains("flyball tune") && !undo.contains("write"), "{undo}");
        }
    }

    #[test]
    fn no_rule_proposes_to_write_past_flyball() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/explain");
        for file in std::fs::read_dir(folder).unwrap() {
            let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
            let rules = text.split("#[cfg(test)]").next().unwrap_or_default();
            for word in ["| tee", "tee /", "> /sys", "echo ", "sysctl -w"] {
                assert!(!rules.contains(word), "`{word}`");
            }
        }
    }

    #[test]
    fn findings_carry_their_rules_name_and_evidence_and_the_surest_come_first() {
        let data = fio_run(&[&with_depth("1"), &with_depth("32")], |cell, block| {
            vec![("throughput", if cell == 0 { 1e7 } else { 9e7 } * (1.0 + f64::from(block) / 500.0))]
        });
        let findings = explain(&Case::new(&data, &crate::summarise::summarise(&data, None)));
        assert_eq!(findings[0].rule, "queue-depth");
        assert_eq!(findings[0].confidence, Confidence::Shown);
        assert!(findings.iter().all(|f| !f.evidence.is_empty() && !f.next.is_empty()));
        assert!(findings.windows(2).all(|w| w[0].confidence >= w[1].confidence));
    }
}
