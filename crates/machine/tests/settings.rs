//! Where settings live, by name.

#![allow(clippy::unwrap_used)]

mod tree;

use domain::setting::SettingName;
use expect_test::{Expect, expect};
use machine::settings::resolve;
use tree::{Tree, Tunables};

fn check(tree: &Tree, name: &str, value: &str, expected: &Expect) {
    let machine = &tree;
    let text = match resolve(machine, &SettingName::parse(name), Some("sda")) {
        Ok(places) => places
            .iter()
            .map(|p| match p.encode(machine, value) {
                Ok(value) => format!("{} {} = {value}\n", p.setting, p.path),
                Err(error) => format!("{error}\n"),
            })
            .collect(),
        Err(error) => format!("{error}\n"),
    };
    expected.assert_eq(&text);
}

#[test]
fn a_policy_setting_means_every_policy_or_the_one_named() {
    let tree = Tree::new(Tunables::Global, "powersave");
    check(
        &tree,
        "max_freq",
        "2.8GHz",
        &expect![[r#"
        max_freq@policy0 /sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq = 2800000
        max_freq@policy1 /sys/devices/system/cpu/cpufreq/policy1/scaling_max_freq = 2800000
    "#]],
    );
    check(
        &tree,
        "min_freq@policy1",
        "min",
        &expect![[r#"
        min_freq@policy1 /sys/devices/system/cpu/cpufreq/policy1/scaling_min_freq = 800000
    "#]],
    );
    check(
        &tree,
        "governor@policy7",
        "powersave",
        &expect![[r#"
        cannot use the setting `governor@policy7` here: there is no cpufreq policy `policy7`
    "#]],
    );
}

#[test]
fn a_governors_tunable_is_found_where_the_driver_keeps_it() {
    check(
        &Tree::new(Tunables::Global, "ondemand"),
        "ondemand.up_threshold",
        "60",
        &expect![[r#"
        ondemand.up_threshold /sys/devices/system/cpu/cpufreq/ondemand/up_threshold = 60
    "#]],
    );
    check(
        &Tree::new(Tunables::PerPolicy, "ondemand"),
        "ondemand.up_threshold",
        "60",
        &expect![[r#"
        ondemand.up_threshold@policy0 /sys/devices/system/cpu/cpufreq/policy0/ondemand/up_threshold = 60
        ondemand.up_threshold@policy1 /sys/devices/system/cpu/cpufreq/policy1/ondemand/up_threshold = 60
    "#]],
    );
    check(
        &Tree::new(Tunables::PerPolicy, "ondemand"),
        "ondemand.threshold",
        "60",
        &expect![[r#"
        cannot use the setting `ondemand.threshold` here: there is no `/sys/devices/system/cpu/cpufreq/policy0/ondemand/threshold`
    "#]],
    );
}

#[test]
fn turbo_off_is_what_each_driver_calls_it() {
    check(
        &Tree::new(Tunables::Global, "powersave"),
        "turbo",
        "off",
        &expect![[r#"
        turbo /sys/devices/system/cpu/cpufreq/boost = 0
    "#]],
    );
    check(
        &Tree::new(Tunables::Global, "powersave").with_intel_pstate(),
        "turbo",
        "off",
        &expect![[r#"
        turbo /sys/devices/system/cpu/intel_pstate/no_turbo = 1
    "#]],
    );
    check(
        &Tree::new(Tunables::Global, "powersave"),
        "turbo",
        "2",
        &expect![[r#"
        cannot set `turbo` to `2`: it takes on or off
    "#]],
    );
}

#[test]
fn an_idle_state_goes_by_its_name_or_number() {
    let tree = Tree::new(Tunables::Global, "powersave");
    check(
        &tree,
        "idle.c6.disable",
        "on",
        &expect![[r#"
        idle.c6.disable@cpu0 /sys/devices/system/cpu/cpu0/cpuidle/state1/disable = 1
        idle.c6.disable@cpu1 /sys/devices/system/cpu/cpu1/cpuidle/state1/disable = 1
    "#]],
    );
    check(
        &tree,
        "idle.state1.disable@cpu1",
        "1",
        &expect![[r#"
        idle.state1.disable@cpu1 /sys/devices/system/cpu/cpu1/cpuidle/state1/disable = 1
    "#]],
    );
    check(
        &tree,
        "idle.C9.disable",
        "1",
        &expect![[r#"
        cannot use the setting `idle.C9.disable` here: no CPU has an idle state `C9`
    "#]],
    );
}

#[test]
fn sysctls_and_paths_are_their_own_names() {
    let tree = Tree::new(Tunables::Global, "powersave");
    check(
        &tree,
        "vm.swappiness",
        "5",
        &expect![[r#"
        vm.swappiness /proc/sys/vm/swappiness = 5
    "#]],
    );
    check(
        &tree,
        "/sys/block/sda/queue/nr_requests",
        "5",
        &expect![[r#"
        /sys/block/sda/queue/nr_requests /sys/block/sda/queue/nr_requests = 5
    "#]],
    );
    check(
        &tree,
        "vm.swapiness",
        "5",
        &expect![[r#"
        cannot use the setting `vm.swapiness` here: there is no `/proc/sys/vm/swapiness`; did you mean `vm.swappiness`?
    "#]],
    );
    check(
        &tree,
        "/etc/passwd",
        "5",
        &expect![[r#"
        `/etc/passwd` is not a setting: settings live under /sys and /proc/sys; Flyball writes only what it can put back
    "#]],
    );
}
