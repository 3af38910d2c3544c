//! What went on besides the workload: two snapshots in, disturbances out. Pure.
//!
//! A bound has to let pass what an idle server does by itself, or no trial would ever count; and to catch
//! what moves a result by more than the practical threshold of 2%.

use crate::snapshot::{CpuTotals, Snapshot};
use domain::outcome::{Metric, cpu_busy};
use domain::setting::{SettingName, SettingRecord};
use domain::time::Nanos;
use domain::trace::Role;
use domain::trial::{CpuChange, Disturbance, ThreadTime};

/// Share of the wanted CPU time that the hypervisor may give to others: what a guest loses on a host that is
/// not overcommitted stays below 1%, and storage results follow it about one to one.
pub const MAX_STEAL: f64 = 0.05;

/// Steal below this is not judged: it is five of the ticks that it is counted in.
pub const MIN_STEAL: Nanos = Nanos::from_millis(50);

/// CPU time of other processes, in CPUs: an idle Debian server takes 0.01 to 0.05, one busy loop 1.
pub const MAX_OTHER_CPUS: f64 = 0.2;

/// The same as a share of the machine, which counts where it has many CPUs: there one busy thread finds a
/// place of its own.
pub const MAX_OTHER_SHARE: f64 = 0.02;

/// Other load below this is not judged: accounting by ticks is no better than that in a short trial.
pub const MIN_OTHER: Nanos = Nanos::from_millis(100);

/// How far civil time may move against the monotonic clock: adjtimex(2) slews by at most 0.5 ms a second, and
/// reading two clocks apart costs far less than the rest.
pub const MAX_CLOCK_STEP: Nanos = Nanos::from_millis(50);

/// The slew that is allowed for in addition, per second.
const SLEW: f64 = 0.0005;

/// How long a machine must have slept for it to be called so.
const MIN_SLEEP: Nanos = Nanos::from_millis(1);

/// What happened between two snapshots, besides a workload and the loads beside it, which used `study` of CPU
/// time together. `resyncs`: the study has an array synchronised meanwhile.
pub fn judge(before: &Snapshot, after: &Snapshot, study: Nanos, resyncs: bool) -> Vec<Disturbance> {
    let checks = [
        steal(before, after),
        other_load(before, after, study),
        if resyncs { resync_ended(before, after) } else { resync(before, after) },
        throttled(before, after),
        clock_step(before, after),
        suspended(before, after),
        cpus_changed(before, after),
        mounts_changed(before, after),
    ];
    checks.into_iter().flatten().collect()
}

/// Settings that do not read back after the workload as they did before it; `changed` is what
/// [`machine::Ledger::reread`] gave for these records.
pub fn judge_settings(records: &[SettingRecord], changed: &[SettingName]) -> Vec<Disturbance> {
    let describe = |record: &SettingRecord| {
        let after = record.after.as_ref().map_or("not readable".into(), |after| format!("`{after}`"));
        let text = format!(
            "`{}` was `{}` before the workload and is {after} after it: somebody else changed `{}`, or the kernel did not keep the value",
            record.setting, record.got, record.path
        );
        disturbance("setting-changed", text)
    };
    records.iter().filter(|record| changed.contains(&record.setting)).map(describe).collect()
}

/// Adds CPUs that went or came during the recording: one that was back before the end is in no snapshot.
pub fn judge_cpus(disturbances: &mut Vec<Disturbance>, changes: &[CpuChange]) {
    if changes.is_empty() {
        return;
    }
    let told: Vec<String> = changes.iter().take(MAX_TOLD).map(CpuChange::in_words).collect();
    let more = match changes.len().saturating_sub(MAX_TOLD) {
        0 => String::new(),
        more => format!(", and {more} more changes"),
    };
    let told = format!("{}{more}", told.join(", "));
    match disturbances.iter_mut().find(|disturbance| disturbance.kind == CPUS_CHANGED) {
        Some(known) => known.detail.push_str(&format!("; {told}")),
        None => disturbances.push(disturbance(CPUS_CHANGED, format!("{told}; the bound is none"))),
    }
}

/// How many changes of CPUs a disturbance names; the recorder's account has more.
const MAX_TOLD: usize = 8;

/// The kind of a disturbance by CPUs that go or come.
const CPUS_CHANGED: &str = "cpus-changed";

/// Names the threads behind an `other-load`, where a recording knows them.
pub fn name_culprits(disturbances: &mut [Disturbance], threads: &[ThreadTime]) {
    let others = threads.iter().filter(|t| t.role == Role::Other).take(3);
    let named: Vec<String> = others.map(|t| format!("`{}` (thread {}) {}", t.name, t.tid, t.cpu)).collect();
    let Some(load) = disturbances.iter_mut().find(|d| d.kind == "other-load") else { return };
    if !named.is_empty() {
        load.detail.push_str(&format!("; most by {}", named.join(", ")));
    }
}

/// CPU time of processes that are neither the workload, nor Flyball, nor the kernel's own threads. `None`
/// where the kernel's threads cannot be seen, as in a container: their work would pass for somebody else's.
pub(crate) fn other_time(before: &Snapshot, after: &Snapshot, workload: Nanos) -> Option<Nanos> {
    if after.kernel_threads.is_empty() {
        return None;
    }
    let all = after.cpu?.threads.saturating_sub(before.cpu?.threads);
    let kernel = after.kernel_threads.iter().map(|(tid, time)| {
        let earlier = before.kernel_threads.get(tid).copied().unwrap_or(Nanos::ZERO);
        time.saturating_sub(earlier).get()
    });
    let known = Nanos::new(kernel.sum()) + workload + after.flyball.saturating_sub(before.flyball);
    Some(all.saturating_sub(known))
}

/// How busy all CPUs were between two snapshots, whoever used them.
pub(crate) fn busy(before: &Snapshot, after: &Snapshot) -> Option<Metric> {
    cpu_busy(used(before.cpu?, after.cpu?), span(before, after), after.cpus as usize)
}

fn used(before: CpuTotals, after: CpuTotals) -> Nanos {
    after.threads.saturating_sub(before.threads) + after.interrupts.saturating_sub(before.interrupts)
}

fn steal(before: &Snapshot, after: &Snapshot) -> Option<Disturbance> {
    let (before, after) = (before.cpu?, after.cpu?);
    let steal = after.steal.saturating_sub(before.steal);
    let used = used(before, after);
    let share = steal.get() as f64 / (steal + used).get().max(1) as f64;
    (steal >= MIN_STEAL && share > MAX_STEAL).then(|| {
        let text = format!(
            "the hypervisor gave {} of the CPU time that was wanted to other guests ({steal}); the bound is {}",
            percent(share),
            percent(MAX_STEAL)
        );
        disturbance("steal", text)
    })
}

fn other_load(before: &Snapshot, after: &Snapshot, workload: Nanos) -> Option<Disturbance> {
    let other = other_time(before, after, workload)?;
    let cpus = other.secs() / span(before, after).secs();
    let bound = other_bound(after.cpus);
    (other >= MIN_OTHER && cpus > bound).then(|| {
        let text = format!(
            "other processes used {other} of CPU time, {cpus:.2} CPUs of {}; the bound is {bound:.2}",
            after.cpus
        );
        disturbance("other-load", text)
    })
}

/// How many CPUs other processes may use on a machine of this size.
pub(crate) fn other_bound(cpus: u32) -> f64 {
    (f64::from(cpus) * MAX_OTHER_SHARE).max(MAX_OTHER_CPUS)
}

fn resync(before: &Snapshot, after: &Snapshot) -> Option<Disturbance> {
    let mut active: Vec<&str> = before.resyncing.iter().chain(&after.resyncing).map(String::as_str).collect();
    active.sort_unstable();
    active.dedup();
    let text = || format!("arrays were being synchronised ({}); the bound is none", active.join(", "));
    (!active.is_empty()).then(|| disturbance("resync", text()))
}

/// Where a trial is one of a resync, all of it has to be.
fn resync_ended(before: &Snapshot, after: &Snapshot) -> Option<Disturbance> {
    let when = match (before.resyncing.is_empty(), after.resyncing.is_empty()) {
        (false, false) => return None,
        (true, _) => "before the workload began",
        (false, true) => "before the workload ended",
    };
    let text = format!(
        "the array was synchronised {when}; larger devices or a lower `dev.raid.speed_limit_max` make that last longer"
    );
    Some(disturbance("resync-ended", text))
}

fn throttled(before: &Snapshot, after: &Snapshot) -> Option<Disturbance> {
    let times = after.throttles?.saturating_sub(before.throttles?);
    let text = || format!("CPUs were throttled for heat {times} times; the bound is none");
    (times > 0).then(|| disturbance("throttled", text()))
}

fn clock_step(before: &Snapshot, after: &Snapshot) -> Option<Disturbance> {
    let civil_ns = i128::from(after.civil.unix_nanos()) - i128::from(before.civil.unix_nanos());
    let real_ns = i128::from(after.boottime.get()) - i128::from(before.boottime.get());
    let step_ns = civil_ns - real_ns;
    let bound_ns = MAX_CLOCK_STEP.get() as f64 + real_ns as f64 * SLEW;
    (step_ns.unsigned_abs() as f64 > bound_ns).then(|| {
        let text = format!(
            "civil time moved by {:+.3} s against the monotonic clock; the bound is {:.3} s; spans are not affected",
            step_ns as f64 / 1e9,
            bound_ns / 1e9
        );
        disturbance("clock-step", text)
    })
}

fn suspended(before: &Snapshot, after: &Snapshot) -> Option<Disturbance> {
    let slept = (after.boottime.saturating_sub(before.boottime)).saturating_sub(span(before, after));
    let text = || format!("the machine slept for {slept} during the trial; the bound is none");
    (slept > MIN_SLEEP).then(|| disturbance("suspended", text()))
}

fn cpus_changed(before: &Snapshot, after: &Snapshot) -> Option<Disturbance> {
    let (was, is) = (before.online.as_ref()?, after.online.as_ref()?);
    (was != is).then(|| disturbance(CPUS_CHANGED, format!("CPUs {was} were online before and {is} after")))
}

fn mounts_changed(before: &Snapshot, after: &Snapshot) -> Option<Disturbance> {
    let new = after.mounts.difference(&before.mounts).map(|m| format!("+ {m}"));
    let gone = before.mounts.difference(&after.mounts).map(|m| format!("- {m}"));
    let changes: Vec<String> = new.chain(gone).collect();
    let text = || format!("filesystems on block devices were mounted or unmounted: {}", changes.join(", "));
    (!changes.is_empty()).then(|| disturbance("mounts-changed", text()))
}

/// The time awake between two snapshots; never zero, so that it can divide.
pub(crate) fn span(before: &Snapshot, after: &Snapshot) -> Nanos {
    after.monotonic.saturating_sub(before.monotonic).max(Nanos::new(1))
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

fn disturbance(kind: &str, detail: String) -> Disturbance {
    Disturbance { kind: kind.into(), detail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::CpuTotals;
    use domain::time::Timestamp;
    use expect_test::{Expect, expect};

    fn quiet() -> Snapshot {
        let ns = Nanos::from_secs(1000);
        Snapshot {
            civil: Timestamp::from_unix_nanos(1_800_000_000_000_000_000),
            monotonic: ns,
            boottime: ns,
            online: Some("0-1".into()),
            cpus: 2,
            cpu: Some(CpuTotals { threads: Nanos::from_secs(100), interrupts: ns, steal: ns }),
            kernel_threads: [(2, ns), (9, ns)].into(),
            flyball: ns,
            resyncing: vec![],
            throttles: Some(7),
            mounts: ["/dev/vda on /".to_owned()].into(),
        }
    }

    /// Two seconds later: 1 s of CPU time by the workload, 0.5 s by kernel threads, 0.1 s by Flyball.
    fn later() -> Snapshot {
        let mut after = quiet();
        after.civil = Timestamp::from_unix_nanos(after.civil.unix_nanos() + 2_000_000_000);
        after.monotonic = after.monotonic + Nanos::from_secs(2);
        after.boottime = after.boottime + Nanos::from_secs(2);
        after.cpu.as_mut().unwrap().threads = Nanos::from_millis(101_600);
        after.kernel_threads.insert(9, Nanos::from_millis(1_000_200));
        after.kernel_threads.insert(11, Nanos::from_millis(300));
        after.flyball = after.flyball + Nanos::from_millis(100);
        after
    }

    const WORKLOAD: Nanos = Nanos::from_secs(1);

    fn check(change: impl FnOnce(&mut Snapshot), expected: Expect) {
        let mut after = later();
        change(&mut after);
        let lines: Vec<String> = judge(&quiet(), &after, WORKLOAD, false)
            .into_iter()
            .map(|d| format!("{}: {}", d.kind, d.detail))
            .collect();
        expected.assert_eq(&lines.join("\n"));
    }

    #[test]
    fn a_trial_of_a_resync_is_one_from_beginning_to_end() {
        let told = |at_first: bool, at_last: bool| {
            let (mut before, mut after) = (quiet(), later());
            before.resyncing.extend(at_first.then(|| "md0: recover".to_owned()));
            after.resyncing.extend(at_last.then(|| "md0: recover".to_owned()));
            judge(&before, &after, WORKLOAD, true)
                .into_iter()
                .map(|d| d.detail)
                .collect::<Vec<_>>()
                .join("; ")
        };
        assert_eq!(told(true, true), "");
        assert!(told(true, false).contains("before the workload ended"), "{}", told(true, false));
        assert!(told(false, false).contains("before the workload began"), "{}", told(false, false));
    }

    #[test]
    fn a_workload_with_its_kernel_threads_disturbs_nothing() {
        check(|_| (), expect![""]);
    }

    #[test]
    fn a_busy_loop_beside_the_workload_is_other_load() {
        check(
            |after| after.cpu.as_mut().unwrap().threads = Nanos::from_millis(103_500),
            expect!["other-load: other processes used 1.9 s of CPU time, 0.95 CPUs of 2; the bound is 0.20"],
        );
    }

    #[test]
    fn what_an_idle_system_does_passes() {
        check(|after| after.cpu.as_mut().unwrap().threads = Nanos::from_millis(101_900), expect![""]);
        check(|after| after.cpu.as_mut().unwrap().steal = Nanos::from_millis(1_000_060), expect![""]);
        check(
            |after| after.civil = Timestamp::from_unix_nanos(after.civil.unix_nanos() + 1_000_000),
            expect![""],
        );
    }

    #[test]
    fn load_is_not_judged_where_kernel_threads_are_hidden() {
        check(
            |after| {
                after.kernel_threads.clear();
                after.cpu.as_mut().unwrap().threads = Nanos::from_millis(103_500);
            },
            expect![""],
        );
    }

    #[test]
    fn time_taken_by_the_hypervisor_is_steal() {
        check(
            |after| after.cpu.as_mut().unwrap().steal = Nanos::from_millis(1_000_400),
            expect![
                "steal: the hypervisor gave 20.0% of the CPU time that was wanted to other guests (400 ms); the bound is 5.0%"
            ],
        );
    }

    #[test]
    fn arrays_heat_clocks_sleep_cpus_and_mounts_are_told() {
        check(
            |after| {
                after.resyncing.push("md0: resync".into());
                after.throttles = Some(9);
                after.boottime = after.boottime + Nanos::from_secs(3);
                after.online = Some("0".into());
                after.mounts = ["/dev/sdb1 on /mnt".to_owned()].into();
            },
            expect![[r#"
                resync: arrays were being synchronised (md0: resync); the bound is none
                throttled: CPUs were throttled for heat 2 times; the bound is none
                clock-step: civil time moved by -3.000 s against the monotonic clock; the bound is 0.052 s; spans are not affected
                suspended: the machine slept for 3.0 s during the trial; the bound is none
                cpus-changed: CPUs 0-1 were online before and 0 after
                mounts-changed: filesystems on block devices were mounted or unmounted: + /dev/sdb1 on /mnt, - /dev/vda on /"#]],
        );
    }

    #[test]
    fn a_setting_that_somebody_else_wrote_is_told() {
        let record = |after: Option<&str>| SettingRecord {
            setting: SettingName::parse("read_ahead_kb@loop3"),
            path: "/sys/block/loop3/queue/read_ahead_kb".into(),
            before: "128".into(),
            asked: "16".into(),
            got: "16".into(),
            after: after.map(str::to_owned),
        };
        let changed = [SettingName::parse("read_ahead_kb@loop3")];
        assert_eq!(judge_settings(&[record(Some("16"))], &[]), []);
        let told: Vec<_> =
            [Some("64"), None].map(|after| judge_settings(&[record(after)], &changed)).concat();
        expect![[r#"
            `read_ahead_kb@loop3` was `16` before the workload and is `64` after it: somebody else changed `/sys/block/loop3/queue/read_ahead_kb`, or the kernel did not keep the value
            `read_ahead_kb@loop3` was `16` before the workload and is not readable after it: somebody else changed `/sys/block/loop3/queue/read_ahead_kb`, or the kernel did not keep the value"#]]
        .assert_eq(&told.iter().map(|d| d.detail.as_str()).collect::<Vec<_>>().join("\n"));
    }

    #[test]
    fn a_cpu_that_was_away_for_a_while_disturbs_although_it_is_back_at_the_end() {
        let change = |at, online| CpuChange { at: Nanos::from_millis(at), cpu: 3, online };
        let mut told = Vec::new();
        judge_cpus(&mut told, &[]);
        assert!(told.is_empty());
        judge_cpus(&mut told, &[change(1200, false), change(2500, true)]);
        let text = "CPU 3 went offline at 1.20 s, CPU 3 came online at 2.50 s; the bound is none";
        assert_eq!(told, [disturbance("cpus-changed", text.into())]);
        // What the snapshots show is told once, with when it was.
        let mut known = vec![disturbance("cpus-changed", "CPUs 0-3 were online before and 0-2 after".into())];
        judge_cpus(&mut known, &[change(1200, false)]);
        let text = "CPUs 0-3 were online before and 0-2 after; CPU 3 went offline at 1.20 s";
        assert_eq!(known, [disturbance("cpus-changed", text.into())]);
    }

    #[test]
    fn of_many_changes_some_are_named() {
        let change = CpuChange { at: Nanos::ZERO, cpu: 1, online: true };
        let mut told = Vec::new();
        judge_cpus(&mut told, &[change; 20]);
        assert!(told[0].detail.ends_with(", and 12 more changes; the bound is none"), "{}", told[0].detail);
    }
}
