//! The governors of crate `governors` decide as the kernels do that are booted here: what they read and
//! decide is recorded afresh in a guest (`fixtures/governors/record.sh`) and replayed.
//!
//! Where QEMU, a kernel or the plugin is missing, a line `skipped:` says so. Nothing here depends on how fast
//! the host is.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

#[path = "../../governors/tests/recording/mod.rs"]
mod recording;
use crate::support;
use crate::support::Place;
use crate::support::lab::{kernels, missing, slow_pstates, slow_table, without_plugin};
use recording::{Replayed, Updates, idle, parse, pstate, replay};

const RECORD: &str = concat!(
    include_str!("../../../fixtures/governors/common.sh"),
    include_str!("../../../fixtures/governors/record.sh")
);

/// Both in one guest.
const RECORD_DRIVER: &str = concat!(
    include_str!("../../../fixtures/governors/common.sh"),
    include_str!("../../../fixtures/governors/record-pstate.sh"),
    "echo \"-- idle --\"\n",
    include_str!("../../../fixtures/governors/record-idle.sh")
);
const BETWEEN: &str = "-- idle --";

/// Of the recordings that there are: each governor, waiting for disks, limits and tunables that change, in
/// half a minute.
const RECORDED: [&str; 6] = [
    "ondemand-disk",
    "ondemand-bias",
    "conservative-steps",
    "conservative-limits",
    "schedutil-rate",
    "schedutil-limits",
];

/// What a host says that is too busy even to boot a guest.
const NOT_BOOTED: &str = "the guest said nothing";

#[test]
fn what_a_kernel_decides_now_the_models_decide() {
    if !testing::is_measured_in_turn(7) {
        return;
    }
    let place = Place::new();
    if let Some(reason) = without_plugin() {
        return println!("skipped: {reason}");
    }
    let table = slow_pstates(&place);
    for kernel in kernels() {
        match missing(&place, kernel) {
            Some(reason) => println!("skipped: {reason}"),
            None => check(&place, kernel, &table, &RECORDED),
        }
    }
}

/// Of the recordings that there are of drivers in passive mode.
const RECORDED_PASSIVE: [&str; 3] = ["ondemand-bounds", "schedutil-disk", "schedutil-bounds"];

#[test]
fn what_a_kernel_decides_now_in_passive_mode_the_models_decide() {
    if !testing::is_measured_in_turn(7) {
        return;
    }
    let place = Place::new();
    if let Some(reason) = without_plugin() {
        return println!("skipped: {reason}");
    }
    for kernel in kernels() {
        if let Some(reason) = missing(&place, kernel) {
            println!("skipped: {reason}");
            continue;
        }
        for table in ["i7-6700k-pstate", "i7-6700k-hwp", "zen3-server"] {
            check(&place, kernel, &slow_table(&place, table), &RECORDED_PASSIVE);
        }
    }
}

/// What a script prints in a guest; `None`, and told, where this host is too busy to boot one.
fn recorded(place: &Place, kernel: &str, table: &str, script: &str, names: &[&str]) -> Option<String> {
    let mut arguments = vec!["lab", "exec", "--kernel", kernel, "--pstates", table, "--"];
    arguments.extend(["bash", "-c", script, "record.sh"]);
    arguments.extend(names);
    let output = place.output(&arguments);
    let said = support::stderr(&output);
    if said.contains(NOT_BOOTED) {
        println!("skipped: the host is too busy to boot kernel {kernel}: {}", said.trim());
        return None;
    }
    assert!(output.status.success(), "{said}");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn check(place: &Place, kernel: &str, table: &str, names: &[&str]) {
    let Some(text) = recorded(place, kernel, table, RECORD, names) else { return };
    let recordings = parse(&text);
    assert_eq!(recordings.len(), names.len());

    let mut all = Replayed::default();
    for recording in recordings {
        // All but acpi-cpufreq, whose tables here are of no processor.
        let has_no_table = recording.policy.table.is_none();
        assert_eq!(recording.policy.frequency_invariant, has_no_table, "{table} {}", recording.name);
        if recording.straddled {
            let what = format!("{} {}", recording.kernel, recording.name);
            testing::skip_in_part(format!("{what}: interrupts came in between each time"));
            continue;
        }
        let replayed = replay(&recording, Updates::All);
        println!("{} {table} {}: {replayed}", recording.kernel, recording.name);
        for difference in &replayed.differences {
            println!("    {difference}");
        }
        assert!(replayed.decisions > 10, "{}: a recording of nothing", recording.name);
        all.add(&replayed);
    }
    println!("kernel {kernel}, {table}: {all}");
    assert_eq!(all.equal, all.decisions, "decisions differ");
    assert!(all.same_state() >= 0.99, "{all}");
}

/// Of `intel_pstate`: loads that wait for disks, and limits that change.
const RECORDED_PSTATE: [&str; 3] = ["powersave-disk", "powersave-limits", "powersave-turbo"];

/// Of menu: loads that wait for disks, and a latency limit.
const RECORDED_IDLE: [&str; 2] = ["menu-mix", "menu-hurried"];

#[test]
fn what_intel_pstate_and_menu_decide_now_the_models_decide() {
    if !testing::is_measured_in_turn(7) {
        return;
    }
    let place = Place::new();
    if let Some(reason) = without_plugin() {
        return println!("skipped: {reason}");
    }
    let kernel = kernels()[0];
    if let Some(reason) = missing(&place, kernel) {
        return println!("skipped: {reason}");
    }
    let names = [&RECORDED_PSTATE[..], &RECORDED_IDLE].concat();
    let table = slow_table(&place, "i7-6700k-pstate");
    let Some(text) = recorded(&place, kernel, &table, RECORD_DRIVER, &names) else { return };
    let is_usable = |name: &str, straddled: bool| {
        if straddled {
            testing::skip_in_part(format!("{kernel} {name}: interrupts came in between each time"));
        }
        !straddled
    };
    let (pstates, idles) = text.split_once(BETWEEN).unwrap();
    let (pstates, idles) = (pstate::parse(pstates), idle::parse(idles));
    assert_eq!((pstates.len(), idles.len()), (RECORDED_PSTATE.len(), RECORDED_IDLE.len()));
    for recording in pstates.iter().filter(|one| is_usable(&one.name, one.straddled)) {
        let replayed = pstate::replay(recording);
        println!("{} {}: {replayed}", recording.kernel, recording.name);
        assert_eq!(replayed.differences, Vec::<String>::new(), "{}", recording.name);
        assert!(replayed.decisions > 10, "{}: a recording of nothing", recording.name);
    }
    for recording in idles.iter().filter(|one| is_usable(&one.name, one.straddled)) {
        let replayed = idle::replay(recording);
        println!("{} {}: {replayed}", recording.kernel, recording.name);
        assert_eq!(replayed.differences, Vec::<String>::new(), "{}", recording.name);
        assert!(replayed.decisions > 10, "{}: a recording of nothing", recording.name);
    }
}
