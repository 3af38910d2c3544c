//! The ledger on a machine in memory: what it writes, in which order, and what it puts back.

#![allow(clippy::unwrap_used)]

mod tree;

use domain::setting::{SettingName, SettingRequest};
use machine::failing::{Counted, Death, FailingMachine, Manner, Moment};
use machine::ledger::{Ledger, UndoOutcome, preview, status};
use machine::settings::{Error, without_latency_device};
use machine::{LocalMachine, Machine, RecordedMachine};
use std::path::Path;
use tree::{CPUFREQ, QUEUE, Tree, Tunables};

fn requests(pairs: &[(&str, &str)]) -> Vec<SettingRequest> {
    let request = |(name, value): &(&str, &str)| SettingRequest {
        setting: SettingName::parse(name),
        value: (*value).to_owned(),
    };
    pairs.iter().map(request).collect()
}

fn state() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn applying_and_restoring_leaves_everything_as_it_was() {
    let sets: &[&[(&str, &str)]] = &[
        &[("governor", "ondemand"), ("ondemand.up_threshold", "60")],
        &[("governor", "performance")],
        &[("governor", "schedutil"), ("min_freq", "min"), ("max_freq", "3.5GHz")],
        &[("max_freq", "1000MHz"), ("min_freq", "800000")],
        &[("min_freq", "3GHz"), ("max_freq", "max")],
        &[("scheduler@sda", "mq-deadline"), ("iosched.read_expire@sda", "100"), ("nr_requests@sda", "64")],
        &[("scheduler", "bfq"), ("read_ahead_kb", "4096")],
        &[("vm.dirty_bytes", "1048576"), ("vm.swappiness", "10")],
        &[("vm.dirty_ratio", "5"), ("turbo", "off"), ("idle.C6.disable", "1")],
        &[("/sys/block/sda/queue/read_ahead_kb", "512"), ("epp@policy1", "power")],
        &[("cpu_dma_latency", "20us"), ("vm.swappiness", "10")],
    ];
    for tunables in [Tunables::Global, Tunables::PerPolicy] {
        for governor in ["ondemand", "conservative", "powersave"] {
            for set in sets {
                let tree = Tree::new(tunables, governor);
                let before = tree.snapshot();
                let state = state();
                let machine = &tree;
                let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
                let records =
                    ledger.apply(&requests(set), Some("sda")).unwrap_or_else(|e| panic!("{set:?}: {e}"));
                assert!(records.iter().all(|r| r.got == r.asked), "{set:?}");
                assert_ne!(tree.snapshot(), before, "{set:?} changed nothing");
                let report = ledger.restore();
                assert!(report.is_clean(), "{set:?}: {report:?}");
                assert_eq!(tree.snapshot(), before, "{set:?} from {governor}, {tunables:?}");
            }
        }
    }
}

#[test]
fn tunables_that_a_switch_dropped_come_back_with_their_governor() {
    let tree = Tree::new(Tunables::Global, "ondemand");
    let (state, machine) = (state(), &tree);
    let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
    ledger.apply(&requests(&[("governor", "performance")]), None).unwrap();
    assert_eq!(tree.get(&format!("{CPUFREQ}/ondemand/up_threshold")), None);
    ledger.restore();
    assert_eq!(tree.get(&format!("{CPUFREQ}/ondemand/up_threshold")).as_deref(), Some("40"));
}

#[test]
fn what_a_change_of_driver_resets_comes_back_with_the_old_driver() {
    for set in [
        &[("intel_pstate.status", "passive")][..],
        &[
            ("governor", "performance"),
            ("intel_pstate.status", "passive"),
            ("turbo", "on"),
            ("max_perf_pct", "50"),
        ],
    ] {
        let tree = Tree::new(Tunables::PerPolicy, "conservative").with_intel_pstate();
        let before = tree.snapshot();
        let (state, machine) = (state(), &tree);
        let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
        let records = ledger.apply(&requests(set), None).unwrap();
        assert_eq!(records[0].setting.name, "intel_pstate.status");
        assert!(ledger.restore().is_clean());
        assert_eq!(tree.snapshot(), before, "{set:?}");
    }
}

#[test]
fn one_policy_switched_by_name_leaves_the_other_and_the_shared_tunables() {
    let tree = Tree::new(Tunables::Global, "ondemand");
    let before = tree.snapshot();
    let (state, machine) = (state(), &tree);
    let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
    let asked = requests(&[("governor@policy1", "powersave"), ("governor", "schedutil")]);
    let records = ledger.apply(&asked, None).unwrap();
    assert_eq!(records.len(), 2);
    assert_eq!(tree.get(&format!("{CPUFREQ}/policy0/scaling_governor")).as_deref(), Some("schedutil"));
    assert_eq!(tree.get(&format!("{CPUFREQ}/policy1/scaling_governor")).as_deref(), Some("powersave"));
    assert!(ledger.restore().is_clean());
    assert_eq!(tree.snapshot(), before);
}

#[test]
fn a_value_that_is_there_already_is_not_written() {
    let tree = Tree::new(Tunables::Global, "ondemand");
    let (state, machine) = (state(), &tree);
    let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
    let records = ledger.apply(&requests(&[("read_ahead_kb", "0128")]), Some("/dev/sda")).unwrap();
    assert_eq!((records[0].before.as_str(), records[0].got.as_str()), ("128", "128"));
    assert!(tree.writes.borrow().is_empty());
}

#[test]
fn a_rounded_value_is_noticed_and_everything_of_the_call_is_put_back() {
    let tree = Tree::new(Tunables::Global, "ondemand");
    let before = tree.snapshot();
    let (state, machine) = (state(), &tree);
    let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
    let asked = requests(&[("governor", "schedutil"), ("vm.swappiness", "1"), ("read_ahead_kb", "4097")]);
    let error = ledger.apply(&asked, Some("sda")).unwrap_err();
    assert!(
        matches!(&error, Error::NotTaken { asked, got, .. } if asked == "4097" && got == "4096"),
        "{error}"
    );
    assert_eq!(tree.snapshot(), before);
    assert!(
        status(state.path(), &machine).unwrap().changes.iter().all(|c| c.outcome == UndoOutcome::Untouched)
    );
}

#[test]
fn ignored_and_refused_values_are_errors_that_name_what_is_taken() {
    let tree = Tree::new(Tunables::Global, "ondemand");
    let before = tree.snapshot();
    let (state, machine) = (state(), &tree);
    let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
    let mut error =
        |name, value| ledger.apply(&requests(&[(name, value)]), Some("sda")).unwrap_err().to_string();
    let told = expect_test::expect![[r#"
        `rq_affinity@sda` did not take `2`: `/sys/block/sda/queue/rq_affinity` reads `1`; it was put back, ask for a value that this machine has
        cannot set `governor@policy0` to `fast`: `/sys/devices/system/cpu/cpufreq/policy0/scaling_governor`: Invalid argument (os error 22); it takes one of: conservative ondemand userspace powersave performance schedutil
        cannot set `scheduler@sda` to `cfq`: `/sys/block/sda/queue/scheduler`: Invalid argument (os error 22); it takes one of: none mq-deadline bfq
        cannot set `epb@cpu0` to `0`: `/sys/devices/system/cpu/cpu0/power/energy_perf_bias`: Invalid argument (os error 22)
        there is no setting `governer`; did you mean `governor`? `flyball settings` lists them, and a whole path under /sys or /proc/sys is one too
        cannot use the setting `schedutil.rate_limit_us` here: no policy runs the governor `schedutil` now; set it together with `governor`
        cannot use the setting `stripe_cache_size` here: there is no `/sys/block/sda/md/stripe_cache_size`
        cannot use the setting `read_ahead_kb@sdz` here: there is no block device `sdz`
        `/proc/sys/vm/drop_caches` is not a setting: writing it drops the page cache once; Flyball writes only what it can put back
        cannot set `max_freq@policy0` to `fast`: it takes a frequency (2800MHz, 2.8GHz, 2800000 for kHz), min or max
    "#]];
    let mut text = String::new();
    for (name, value) in [
        ("rq_affinity", "2"),
        ("governor", "fast"),
        ("scheduler", "cfq"),
        ("epb", "0"),
        ("governer", "performance"),
        ("schedutil.rate_limit_us", "1"),
        ("stripe_cache_size", "512"),
        ("read_ahead_kb@sdz", "1"),
        ("vm.drop_caches", "3"),
        ("max_freq", "fast"),
    ] {
        text += &format!("{}\n", error(name, value));
    }
    told.assert_eq(&text);
    assert_eq!(tree.snapshot(), before);
}

#[test]
fn two_settings_that_zero_each_other_are_refused_together() {
    let tree = Tree::new(Tunables::Global, "ondemand");
    let (state, machine) = (state(), &tree);
    let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
    let asked = requests(&[("vm.dirty_bytes", "1048576"), ("vm.dirty_ratio", "5")]);
    assert!(matches!(ledger.apply(&asked, None), Err(Error::BadValue { .. })));
    assert!(tree.writes.borrow().is_empty());
}

#[test]
fn a_foreign_write_is_reread_left_and_reported() {
    let tree = Tree::new(Tunables::Global, "ondemand");
    let (state, machine) = (state(), &tree);
    let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
    let asked = requests(&[("vm.swappiness", "10"), ("read_ahead_kb", "4096")]);
    let mut records = ledger.apply(&asked, Some("sda")).unwrap();
    tree.set("/proc/sys/vm/swappiness", "33");
    let changed = ledger.reread(&mut records);
    assert_eq!(changed, [SettingName::parse("vm.swappiness")]);
    assert_eq!(records[0].after.as_deref(), Some("33"));
    let report = ledger.restore();
    let foreign: Vec<_> = report.foreign().map(|u| u.what.as_str()).collect();
    assert_eq!(foreign, ["vm.swappiness"]);
    assert_eq!(tree.get("/proc/sys/vm/swappiness").as_deref(), Some("33"));
    assert_eq!(tree.get(&format!("{QUEUE}/read_ahead_kb")).as_deref(), Some("128"));
}

#[test]
fn a_foreign_write_to_what_came_with_a_change_is_left_and_reported() {
    let tree = Tree::new(Tunables::Global, "powersave");
    let (state, machine) = (state(), &tree);
    let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
    ledger.apply(&requests(&[("scheduler", "mq-deadline")]), Some("sda")).unwrap();
    tree.set(&format!("{QUEUE}/wbt_lat_usec"), "1234");
    let report = ledger.restore();
    assert_eq!(
        report.foreign().map(|u| u.path.as_str()).collect::<Vec<_>>(),
        [format!("{QUEUE}/wbt_lat_usec")]
    );
    assert_eq!(tree.get(&format!("{QUEUE}/nr_requests")).as_deref(), Some("100"));
}

#[test]
fn a_device_that_took_the_name_of_ours_is_not_written() {
    let tree = Tree::new(Tunables::Global, "ondemand");
    let (state, machine) = (state(), &tree);
    let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
    ledger.apply(&requests(&[("read_ahead_kb", "4096")]), Some("sda")).unwrap();
    tree.set("/sys/block/sda/diskseq", "10");
    let report = ledger.restore();
    assert!(matches!(report.undone[0].outcome, UndoOutcome::Gone(_)), "{report:?}");
    assert_eq!(tree.get(&format!("{QUEUE}/read_ahead_kb")).as_deref(), Some("4096"));
}

#[test]
fn an_object_that_is_gone_does_not_stop_the_rest() {
    let tree = Tree::new(Tunables::Global, "ondemand");
    let (state, machine) = (state(), &tree);
    let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
    let asked = requests(&[("vm.swappiness", "10"), ("read_ahead_kb", "4096")]);
    ledger.apply(&asked, Some("sda")).unwrap();
    tree.remove("/sys/block/sda");
    let report = ledger.restore();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(tree.get("/proc/sys/vm/swappiness").as_deref(), Some("60"));
}

#[test]
fn after_a_restart_the_records_of_settings_are_void_and_files_are_removed() {
    let tree = Tree::new(Tunables::Global, "ondemand");
    let (state, machine) = (state(), &tree);
    let path = state.path().join("data");
    let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
    ledger.create_file(&path, domain::units::Bytes::from_kib(64)).unwrap();
    ledger.apply(&requests(&[("vm.swappiness", "10")]), None).unwrap();
    drop(ledger);
    tree.set("/proc/sys/kernel/random/boot_id", "boot-2");
    let (_ledger, report) = Ledger::open(state.path(), &machine).unwrap();
    let outcomes: Vec<_> = report.undone.iter().map(|u| u.outcome.clone()).collect();
    assert_eq!(outcomes, [UndoOutcome::Rebooted, UndoOutcome::Removed]);
    assert_eq!(tree.get("/proc/sys/vm/swappiness").as_deref(), Some("10"));
    assert!(!path.exists());
}

#[test]
fn a_file_that_took_the_name_of_ours_is_not_removed() {
    let tree = Tree::new(Tunables::Global, "ondemand");
    let (state, machine) = (state(), &tree);
    let path = state.path().join("data");
    let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
    let own = ledger.create_file(&path, domain::units::Bytes::from_kib(64)).unwrap();
    assert!(matches!(ledger.create_file(&path, domain::units::Bytes::new(0)), Err(Error::Own { .. })));
    std::fs::rename(&path, state.path().join("moved")).unwrap();
    std::fs::write(&path, "precious").unwrap();
    let report = ledger.finish();
    assert_eq!(report.foreign().count(), 1, "{report:?}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    assert_eq!(own.file.metadata().unwrap().len(), 65536);
}

#[test]
fn the_kernel_shows_our_file_by_its_name_and_not_as_deleted() {
    let tree = Tree::new(Tunables::Global, "ondemand");
    let (state, machine) = (state(), &tree);
    let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
    let own = ledger.create_file(&state.path().join("data"), domain::units::Bytes::from_kib(64)).unwrap();
    let shown =
        std::fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&own.file))).unwrap();
    assert_eq!(shown, own.path);
}

#[test]
fn a_file_that_finds_no_room_is_not_left_behind() {
    let tree = Tree::new(Tunables::Global, "ondemand");
    let (state, machine) = (state(), &tree);
    let path = state.path().join("data");
    let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
    let error = ledger.create_file(&path, domain::units::Bytes::new(1 << 60)).unwrap_err();
    assert!(matches!(error, Error::Own { what: "reserve the space of", .. }), "{error}");
    assert!(!path.exists());
    assert_eq!(ledger.finish().undone, []);
}

#[test]
fn a_second_ledger_is_refused_by_the_name_of_the_first() {
    let tree = Tree::new(Tunables::Global, "ondemand");
    let (state, machine) = (state(), &tree);
    let _first = Ledger::open(state.path(), &machine).unwrap();
    let second = Ledger::open_within(std::time::Duration::ZERO, state.path(), &machine);
    assert!(matches!(second, Err(Error::Busy { pid: Some(pid), .. }) if pid == std::process::id()));
}

#[test]
fn the_plan_lists_every_write_in_order_and_writes_nothing() {
    let tree = Tree::new(Tunables::Global, "powersave");
    let machine = &tree;
    let asked = requests(&[
        ("ondemand.up_threshold", "60"),
        ("max_freq", "1GHz"),
        ("min_freq", "min"),
        ("governor", "ondemand"),
    ]);
    let plan = preview(&machine, &asked, None).unwrap();
    let text: String = plan
        .iter()
        .map(|w| format!("{} {} -> {}\n", w.path, w.now.as_deref().unwrap_or("?"), w.new))
        .collect();
    expect_test::expect![[r#"
        /sys/devices/system/cpu/cpufreq/policy0/scaling_governor powersave -> ondemand
        /sys/devices/system/cpu/cpufreq/policy1/scaling_governor powersave -> ondemand
        /sys/devices/system/cpu/cpufreq/policy0/scaling_min_freq 1200000 -> 800000
        /sys/devices/system/cpu/cpufreq/policy1/scaling_min_freq 1200000 -> 800000
        /sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq 2800000 -> 1000000
        /sys/devices/system/cpu/cpufreq/policy1/scaling_max_freq 2800000 -> 1000000
        /sys/devices/system/cpu/cpufreq/ondemand/up_threshold ? -> 60
    "#]]
    .assert_eq(&text);
    assert!(tree.writes.borrow().is_empty());
}

#[test]
fn status_says_what_is_changed_and_what_restoring_would_do() {
    let tree = Tree::new(Tunables::Global, "ondemand");
    let (state, machine) = (state(), &tree);
    assert_eq!(status(state.path(), &machine).unwrap().changes, []);
    let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
    ledger.apply(&requests(&[("vm.swappiness", "10"), ("read_ahead_kb", "256")]), Some("sda")).unwrap();
    tree.set(&format!("{QUEUE}/read_ahead_kb"), "64");
    let status = status(state.path(), &machine).unwrap();
    assert_eq!(status.holder.unwrap().pid, std::process::id());
    let outcomes: Vec<_> = status.changes.iter().map(|c| c.outcome.clone()).collect();
    assert_eq!(
        outcomes,
        [
            UndoOutcome::Restored { from: "10".into(), to: "60".into() },
            UndoOutcome::Foreign { now: "64".into(), before: "128".into() }
        ]
    );
}

#[test]
fn a_limit_on_latency_is_held_until_the_settings_are_put_back() {
    let (tree, state) = (Tree::new(Tunables::Global, "ondemand"), state());
    let machine = &tree;
    let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
    let mut records = ledger.apply(&requests(&[("cpu_dma_latency", "1ms")]), None).unwrap();
    let record = &records[0];
    assert_eq!((record.before.as_str(), record.got.as_str()), ("2000000000", "1000"));
    assert_eq!((record.path.as_str(), record.asked.as_str()), ("/dev/cpu_dma_latency", "1000"));
    assert_eq!(ledger.reread(&mut records), []);

    // A stricter one that comes while the workload runs is somebody else's write.
    let theirs = tree.limit(10);
    assert_eq!(ledger.reread(&mut records), [SettingName::parse("cpu_dma_latency")]);
    assert_eq!(records[0].after.as_deref(), Some("10"));
    drop(theirs);

    assert_eq!(status(state.path(), &machine).unwrap().changes.len(), 0, "there is nothing to undo");
    assert!(ledger.restore().undone.is_empty());
    assert!(!tree.snapshot().contains_key("/dev/cpu_dma_latency"));
}

#[test]
fn a_limit_that_somebody_holds_already_is_held_by_us_too() {
    let (tree, state) = (Tree::new(Tunables::Global, "ondemand"), state());
    let machine = &tree;
    let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
    let theirs = tree.limit(20);
    let mut records = ledger.apply(&requests(&[("cpu_dma_latency", "20us")]), None).unwrap();
    drop(theirs);
    assert_eq!(ledger.reread(&mut records), [], "ours went with theirs");
}

#[test]
fn a_stricter_limit_of_somebody_else_is_an_error_and_leaves_none_of_ours() {
    let (tree, state) = (Tree::new(Tunables::Global, "ondemand"), state());
    let machine = &tree;
    let theirs = tree.limit(5);
    let before = tree.snapshot();
    for asked in ["20us", "none"] {
        let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
        let set = requests(&[("vm.swappiness", "10"), ("cpu_dma_latency", asked)]);
        let error = ledger.apply(&set, None).unwrap_err();
        assert!(matches!(&error, Error::HeldStricter { got, .. } if got == "5"), "{error}");
        assert_eq!(tree.snapshot(), before);
    }
    drop(theirs);
    assert!(!tree.snapshot().contains_key("/dev/cpu_dma_latency"));
}

#[test]
fn a_limit_goes_when_another_setting_is_refused() {
    let (tree, state) = (Tree::new(Tunables::Global, "ondemand"), state());
    let before = tree.snapshot();
    for after in 0..4 {
        let death = Death { after, counted: Counted::Writes, moment: Moment::Before, manner: Manner::Error };
        let machine = FailingMachine::new(&tree, death);
        let Ok((mut ledger, _)) = Ledger::open(state.path(), &machine) else {
            panic!("nothing is written yet")
        };
        let set =
            requests(&[("governor", "powersave"), ("cpu_dma_latency", "0us"), ("cpu_dma_latency@x", "1")]);
        assert!(ledger.apply(&set, None).is_err());
        assert!(!tree.snapshot().contains_key("/dev/cpu_dma_latency"), "{after}");
        drop(ledger);
        let (_, report) = Ledger::open(state.path(), &&tree).unwrap();
        assert!(report.failed().next().is_none());
        assert_eq!(tree.snapshot(), before, "{after}");
    }
}

#[test]
fn values_that_are_no_limit_on_latency_are_refused() {
    let (tree, state) = (Tree::new(Tunables::Global, "ondemand"), state());
    let machine = &tree;
    let (mut ledger, _) = Ledger::open(state.path(), &machine).unwrap();
    for value in ["20ns", "fast", "-1", "3000s"] {
        let error = ledger.apply(&requests(&[("cpu_dma_latency", value)]), None).unwrap_err();
        assert!(matches!(error, Error::BadValue { .. }), "{error}");
    }
    let error = ledger.apply(&requests(&[("cpu_dma_latency@cpu0", "20us")]), None).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[test]
fn a_recorded_machine_without_the_device_says_that_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("sys")).unwrap();
    std::fs::write(folder.path().join("sys/inlinefiles.txt"), "ro|/sys/a|1\n").unwrap();
    let machine = RecordedMachine::open(folder.path()).unwrap();
    let setting = SettingName::parse("cpu_dma_latency");
    let error = without_latency_device(&machine, &setting).unwrap().to_string();
    assert!(error.contains("there is no `/dev/cpu_dma_latency`"), "{error}");
    assert!(without_latency_device(&machine, &SettingName::parse("governor")).is_none());
}

/// The kernel's own device, where this is root on a machine that has one.
#[test]
fn this_kernel_takes_a_limit_and_takes_it_back() {
    if without_latency_device(&LocalMachine, &SettingName::parse("cpu_dma_latency")).is_some()
        || !rustix::process::geteuid().is_root()
    {
        return testing::skip(
            "holding a limit on latency needs root, and a kernel with /dev/cpu_dma_latency",
        );
    }
    let state = state();
    let in_force = || {
        i32::from_ne_bytes(LocalMachine.read(Path::new("/dev/cpu_dma_latency")).unwrap().try_into().unwrap())
    };
    let (mut ledger, _) = Ledger::open(state.path(), &LocalMachine).unwrap();
    // Stricter than any but zero, which somebody may hold.
    let before = in_force();
    match ledger.apply(&requests(&[("cpu_dma_latency", "3us")]), None) {
        Ok(records) => assert_eq!((records[0].got.as_str(), in_force()), ("3", 3)),
        Err(Error::HeldStricter { .. }) => assert!(before < 3),
        Err(error) => panic!("{error}"),
    }
    ledger.restore();
    assert_ne!(in_force(), 3, "the limit outlives its ledger");
}
