//! Changes that last: which file carries which, what is refused, what drifts, and dying at every operation.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod tree;

use domain::rng::Seed;
use domain::setting::{SettingName, SettingRequest};
use machine::Machine;
use machine::failing::{Counted, Dead, Death, FailingMachine, Manner, Moment};
use machine::lasting::{
    self, Drift, Error, FileState, Files, LastingContext, LastingRequest, LocalFiles, PersistMethod, Roots,
};
use machine::ledger::{Ledger, RestoreReport, UndoOutcome};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use testing::Extent;
use tree::{CPUFREQ, QUEUE, Tree, Tunables};

/// A machine in memory, and folders for its configuration and its state.
struct Host {
    tree: Tree,
    folder: tempfile::TempDir,
    roots: Roots,
}

impl Host {
    fn new() -> Self {
        Self::with(Tree::new(Tunables::Global, "ondemand"))
    }

    fn with(tree: Tree) -> Self {
        let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let roots = Roots::below(folder.path());
        tree.set("/sys/module/nvme_core/parameters/io_timeout", "30");
        tree.set("/proc/cmdline", "ro quiet");
        Self { tree, folder, roots }
    }

    fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    fn etc(&self, file: &str) -> PathBuf {
        self.roots.etc.join(file)
    }

    /// Every file below `/etc`, with its text.
    fn files(&self) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.roots.etc.clone()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.insert(path.clone(), fs::read_to_string(path).unwrap());
                }
            }
        }
        files
    }

    fn on<R>(&self, machine: &dyn Machine, files: &dyn Files, act: impl FnOnce(&LastingContext) -> R) -> R {
        act(&LastingContext { machine, files, roots: &self.roots, state: &self.state() })
    }

    fn make(&self, order: &LastingRequest) -> Result<lasting::LastingChanges, Error> {
        let machine = &self.tree;
        self.on(&machine, &LocalFiles, |site| make_on(site, order))
    }

    fn undo(&self) -> lasting::Undone {
        let machine = &self.tree;
        self.on(&machine, &LocalFiles, |site| undo_on(site).unwrap())
    }

    fn status(&self) -> lasting::LastingStatus {
        let machine = &self.tree;
        self.on(&machine, &LocalFiles, |site| lasting::status(site).unwrap())
    }

    /// What the next start does.
    fn recover(&self) -> RestoreReport {
        let machine = &self.tree;
        Ledger::open(&self.state(), &machine).unwrap().1
    }

    fn drifts(&self) -> Vec<Drift> {
        self.status().entries.into_iter().flat_map(|(_, drifts)| drifts).collect()
    }
}

fn make_on(site: &LastingContext, order: &LastingRequest) -> Result<lasting::LastingChanges, Error> {
    let (ledger, _) = Ledger::open(site.state, site.machine)?;
    lasting::make(ledger, site, order)
}

fn undo_on(site: &LastingContext) -> Result<lasting::Undone, Error> {
    let (ledger, _) = Ledger::open(site.state, site.machine)?;
    lasting::undo(ledger, site)
}

fn order(pairs: &[(&str, &str)]) -> LastingRequest {
    let request = |(name, value): &(&str, &str)| SettingRequest {
        setting: SettingName::parse(name),
        value: (*value).to_owned(),
    };
    LastingRequest {
        requests: pairs.iter().map(request).collect(),
        reason: "a test".into(),
        ignore_rivals: false,
    }
}

/// One of each method.
const EACH: &[(&str, &str)] = &[
    ("governor", "conservative"),
    ("conservative.up_threshold", "70"),
    ("vm.swappiness", "10"),
    ("vm.dirty_bytes", "1048576"),
    ("scheduler@sda", "mq-deadline"),
    ("nr_requests@sda", "64"),
    ("/sys/module/nvme_core/parameters/io_timeout", "60"),
];

#[test]
fn each_setting_goes_to_its_method_and_is_not_undone_by_the_next_start() {
    let host = Host::new();
    let made = host.make(&order(EACH)).unwrap();
    let of = |name: &str| made.entries.iter().find(|e| e.asked == name).unwrap().method;
    assert_eq!(of("governor"), PersistMethod::Tmpfiles);
    assert_eq!(of("conservative.up_threshold"), PersistMethod::Tmpfiles);
    assert_eq!(of("vm.swappiness"), PersistMethod::Sysctl);
    assert_eq!(of("scheduler@sda"), PersistMethod::Udev);
    assert_eq!(of("/sys/module/nvme_core/parameters/io_timeout"), PersistMethod::CommandLine);
    assert!(made.notes.iter().any(|n| n.contains("nvme_core.io_timeout=60")), "{:?}", made.notes);
    assert!(made.notes.iter().any(|n| n.contains("goes by the name")), "{:?}", made.notes);
    assert_eq!(host.files().len(), 3);
    let now = host.tree.snapshot();
    assert!(host.recover().undone.is_empty());
    assert_eq!(host.tree.snapshot(), now);
    assert_eq!(host.drifts(), []);
}

#[test]
fn taking_back_leaves_everything_as_it_was() {
    for tunables in [Tunables::Global, Tunables::PerPolicy] {
        let host = Host::with(Tree::new(tunables, "ondemand"));
        let before = host.tree.snapshot();
        host.make(&order(EACH)).unwrap();
        host.make(&order(&[("vm.swappiness", "20"), ("governor@policy1", "performance")])).unwrap();
        let undone = host.undo();
        assert!(undone.report.is_clean(), "{undone:?}");
        assert_eq!(undone.removed.len(), 3);
        assert_eq!(host.tree.snapshot(), before);
        assert_eq!(host.files(), BTreeMap::new());
        assert_eq!(host.status().entries, []);
        assert_eq!(host.undo(), lasting::Undone::default());
    }
}

#[test]
fn taking_back_after_a_restart_of_the_machine_undoes_what_the_files_brought_back() {
    let host = Host::new();
    let before = host.tree.snapshot();
    host.make(&order(&[("vm.swappiness", "10"), ("read_ahead_kb@sda", "512")])).unwrap();
    host.tree.set("/proc/sys/kernel/random/boot_id", "boot-2");
    host.tree.set("/sys/block/sda/diskseq", "1");
    assert_eq!(host.drifts(), []);
    assert!(host.undo().report.is_clean());
    host.tree.set("/proc/sys/kernel/random/boot_id", "boot-1");
    host.tree.set("/sys/block/sda/diskseq", "9");
    assert_eq!(host.tree.snapshot(), before);
}

#[test]
fn what_somebody_else_changed_since_is_left_and_reported() {
    let host = Host::new();
    host.make(&order(&[("vm.swappiness", "10"), ("read_ahead_kb@sda", "512")])).unwrap();
    host.tree.set("/proc/sys/vm/swappiness", "33");
    let rules = host.etc("udev/rules.d/90-flyball.rules");
    fs::write(&rules, "# mine now\n").unwrap();
    let undone = host.undo();
    assert_eq!(host.tree.get("/proc/sys/vm/swappiness").as_deref(), Some("33"));
    assert_eq!(undone.report.foreign().count(), 1);
    assert_eq!(undone.files_left, 1);
    assert_eq!(fs::read_to_string(&rules).unwrap(), "# mine now\n");
    assert_eq!(host.tree.get(&format!("{QUEUE}/read_ahead_kb")).as_deref(), Some("128"));
}

#[test]
fn a_file_that_is_not_ours_is_never_overwritten_and_nothing_is_changed() {
    let host = Host::new();
    let before = host.tree.snapshot();
    let path = host.etc("sysctl.d/90-flyball.conf");
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "vm.swappiness = 1\n").unwrap();
    let error = host.make(&order(EACH)).unwrap_err();
    assert!(
        matches!(error, Error::NotOurs { .. }) && error.to_string().contains("90-flyball.conf"),
        "{error}"
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "vm.swappiness = 1\n");
    assert!(host.tree.writes.borrow().is_empty());
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/dev/null", &path).unwrap();
    assert!(matches!(host.make(&order(EACH)), Err(Error::NotOurs { .. })));
    assert_eq!(host.tree.snapshot(), before);
}

#[test]
fn a_value_that_the_kernel_rounds_refuses_or_ignores_does_not_last() {
    for (name, value) in [("read_ahead_kb@sda", "4097"), ("epb", "0"), ("rq_affinity@sda", "2")] {
        let host = Host::new();
        let before = host.tree.snapshot();
        let error = host.make(&order(&[("vm.swappiness", "10"), (name, value)])).unwrap_err();
        assert!(matches!(error, Error::Setting(_)), "{error}");
        assert_eq!(host.tree.snapshot(), before);
        assert_eq!(host.files(), BTreeMap::new());
        assert_eq!(host.status().entries, []);
    }
}

#[test]
fn where_tuned_is_active_its_profile_carries_cpu_settings_over_the_one_in_use() {
    let host = Host::new();
    host.tree.set("/proc/77/comm", "tuned");
    host.tree.set("/etc/tuned/active_profile", "throughput-performance");
    let made = host.make(&order(&[("governor", "performance"), ("vm.swappiness", "10")])).unwrap();
    assert!(made.notes.iter().any(|n| n.contains("tuned-adm profile flyball")), "{:?}", made.notes);
    let profile = fs::read_to_string(host.etc("tuned/flyball/tuned.conf")).unwrap();
    assert!(profile.contains("include=throughput-performance\n"), "{profile}");
    assert_eq!(host.drifts()[0], Drift::NotChosen(Some("throughput-performance".into())));
    host.tree.set("/etc/tuned/active_profile", "flyball");
    assert_eq!(host.drifts(), []);
    host.make(&order(&[("turbo", "off")])).unwrap();
    let profile = fs::read_to_string(host.etc("tuned/flyball/tuned.conf")).unwrap();
    assert!(profile.contains("include=throughput-performance\n") && profile.contains("boost=0"), "{profile}");
}

#[test]
fn an_active_rival_is_named_and_only_gone_beside_on_demand() {
    let host = Host::new();
    host.tree.set("/proc/77/comm", "power-profiles-");
    let mut order = order(&[("governor", "performance")]);
    let error = host.make(&order).unwrap_err().to_string();
    assert!(error.contains("power-profiles-daemon") && error.contains("--ignore-rivals"), "{error}");
    assert!(host.tree.writes.borrow().is_empty());
    order.ignore_rivals = true;
    host.make(&order).unwrap();
}

#[test]
fn two_sysctls_that_zero_each_other_do_not_both_last() {
    let host = Host::new();
    host.make(&order(&[("vm.dirty_bytes", "1048576")])).unwrap();
    assert!(matches!(host.make(&order(&[("vm.dirty_ratio", "5")])), Err(Error::Unfit { .. })));
}

#[test]
fn what_only_an_open_device_keeps_in_force_does_not_last() {
    let host = Host::new();
    let error = host.make(&order(&[("cpu_dma_latency", "20us")])).unwrap_err();
    assert!(matches!(error, Error::Unfit { .. }), "{error}");
    assert!(host.files().is_empty() && !host.tree.snapshot().contains_key("/dev/cpu_dma_latency"));
}

#[test]
fn every_way_to_drift_is_told() {
    let host = Host::new();
    host.make(&order(EACH)).unwrap();
    host.tree.set("/proc/sys/vm/swappiness", "33");
    host.tree.remove("/sys/block/sda");
    host.tree.set("/proc/sys/kernel/random/boot_id", "boot-2");
    fs::remove_file(host.etc("tmpfiles.d/flyball.conf")).unwrap();
    fs::write(host.etc("udev/rules.d/90-flyball.rules"), "edited").unwrap();
    fs::write(host.etc("sysctl.d/99-other.conf"), "vm/swappiness=1\n").unwrap();
    fs::write(host.etc("sysctl.d/10-before.conf"), "vm.dirty_bytes=1\n").unwrap();
    let told: Vec<String> = host
        .drifts()
        .iter()
        .map(|d| d.to_string().replace(host.folder.path().to_str().unwrap(), ""))
        .collect();
    expect_test::expect![[r#"
        there is no `/sys/block/sda/queue/scheduler` now
        it was made `10`, and is `33` now
        `/etc/sysctl.d/99-other.conf` comes later and sets it to `1`
        there is no `/sys/block/sda/queue/nr_requests` now
        the kernel was started without `nvme_core.io_timeout=60`; add it to its command line
    "#]]
    .assert_eq(&format!("{}\n", told.join("\n")));
    let files: Vec<FileState> = host.status().files.into_iter().map(|(_, state)| state).collect();
    assert_eq!(files, [FileState::AsWritten, FileState::Edited, FileState::Gone]);
}

#[test]
fn a_device_under_another_name_is_found_again_by_what_it_is() {
    let host = Host::new();
    host.tree.set("/sys/block/sda/device/wwid", "naa.5");
    host.make(&order(&[("read_ahead_kb@sda", "512")])).unwrap();
    let rules = fs::read_to_string(host.etc("udev/rules.d/90-flyball.rules")).unwrap();
    assert!(rules.contains("ATTRS{wwid}==\"naa.5\""), "{rules}");
    host.tree.set("/proc/sys/kernel/random/boot_id", "boot-2");
    host.tree.set("/sys/block/sda/device/wwid", "naa.6");
    host.tree.set("/sys/block/sdb/device/wwid", "naa.5");
    assert_eq!(host.drifts(), [Drift::Renamed("sdb".into())]);
}

/// Files that die as they are told.
struct FailingFiles {
    death: Death,
    seen: Cell<u64>,
}

impl FailingFiles {
    fn dead(&self) -> bool {
        self.seen.get() > self.death.after
    }

    fn step<T>(&self, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let was_dead = self.dead();
        self.seen.set(self.seen.get() + 1);
        if !self.dead() {
            return act();
        }
        if !was_dead && self.death.moment == Moment::After {
            let _ = act();
        }
        match self.death.manner {
            Manner::Error => Err(io::Error::other("the disk is dead")),
            Manner::Unwind => std::panic::resume_unwind(Box::new(Dead)),
        }
    }
}

impl Files for FailingFiles {
    fn read(&self, path: &Path) -> io::Result<Option<String>> {
        self.step(|| LocalFiles.read(path))
    }
    fn make(&self, path: &Path, content: &str) -> io::Result<()> {
        self.step(|| LocalFiles.make(path, content))
    }
    fn replace(&self, path: &Path, content: &str) -> io::Result<()> {
        self.step(|| LocalFiles.replace(path, content))
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step(|| LocalFiles.remove(path))
    }
}

/// Acts until it dies of the machine, and then until it dies of the files; says how many deaths there were.
fn every_death(mut one: impl FnMut(&dyn Fn(&Host, &dyn Fn(&LastingContext)) -> bool, &str)) -> u32 {
    let mut deaths = 0;
    for (on_files, counted) in [(false, Counted::All), (true, Counted::All)] {
        for after in 0.. {
            let alive = Cell::new(true);
            for manner in [Manner::Error, Manner::Unwind] {
                for moment in [Moment::Before, Moment::After] {
                    let death = Death { after, counted, moment, manner };
                    let act = |host: &Host, act: &dyn Fn(&LastingContext)| {
                        let never = Death { after: u64::MAX, ..death };
                        let machine = FailingMachine::new(&host.tree, if on_files { never } else { death });
                        let files =
                            FailingFiles { death: if on_files { death } else { never }, seen: Cell::new(0) };
                        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| host.on(&machine, &files, act)))
                        {
                            assert!(panic.is::<Dead>(), "it died of something else: {death:?}");
                        }
                        let died = machine.is_dead() || files.dead();
                        alive.set(!died);
                        died
                    };
                    one(&act, &format!("files: {on_files}, {death:?}"));
                    deaths += u32::from(!alive.get());
                }
            }
            if alive.get() {
                break;
            }
        }
    }
    deaths
}

#[test]
fn dying_at_any_operation_leaves_nothing_or_a_complete_lasting_change() {
    let complete = Host::new();
    complete.make(&order(EACH)).unwrap();
    let after = (complete.tree.snapshot(), texts(&complete));
    let (mut none, mut whole) = (0, 0);
    let deaths = every_death(|act, case| {
        let host = Host::new();
        let before = (host.tree.snapshot(), texts(&host));
        act(&host, &|site| drop(make_on(site, &order(EACH))));
        let report = host.recover();
        assert!(report.failed().next().is_none() && report.foreign().next().is_none(), "{case}: {report:?}");
        let now = (host.tree.snapshot(), texts(&host));
        let entries = host.status().entries.len();
        if entries == 0 {
            assert_eq!(now, before, "{case}");
            none += 1;
        } else {
            assert_eq!(now, after, "{case}");
            assert_eq!(host.drifts(), [], "{case}");
            whole += 1;
        }
        assert!(!host.status().unfinished, "{case}");
        assert!(host.recover().undone.is_empty(), "{case}");
        assert!(host.undo().report.is_clean(), "{case}");
        assert_eq!((host.tree.snapshot(), texts(&host)), before, "{case}");
    });
    let words = format!("while changes were made to last: {none} left nothing, {whole} all of it");
    testing::promise("modelled-kills", deaths, words);
    assert!(none > 100 && whole > 8);
}

/// The files' texts by their names: the folders differ from host to host.
fn texts(host: &Host) -> Vec<(String, String)> {
    let name = |path: &Path| path.strip_prefix(&host.roots.etc).unwrap().display().to_string();
    host.files().iter().map(|(path, text)| (name(path), text.clone())).collect()
}

#[test]
fn dying_at_any_operation_of_a_second_order_leaves_the_first_or_both() {
    const SECOND: &[(&str, &str)] =
        &[("vm.swappiness", "20"), ("governor@policy1", "performance"), ("turbo", "off")];
    let both = Host::new();
    both.make(&order(EACH)).unwrap();
    let first = (both.tree.snapshot(), texts(&both));
    both.make(&order(SECOND)).unwrap();
    let second = (both.tree.snapshot(), texts(&both));
    let mut ends = [0, 0];
    let deaths = every_death(|act, case| {
        let host = Host::new();
        let before = host.tree.snapshot();
        host.make(&order(EACH)).unwrap();
        act(&host, &|site| drop(make_on(site, &order(SECOND))));
        let report = host.recover();
        assert!(report.failed().next().is_none() && report.foreign().next().is_none(), "{case}: {report:?}");
        let now = (host.tree.snapshot(), texts(&host));
        let expected = if host.drifts().is_empty() && now.1 == second.1 { &second } else { &first };
        assert_eq!(&now, expected, "{case}");
        ends[usize::from(now == second)] += 1;
        assert_eq!(host.drifts(), [], "{case}");
        assert!(host.undo().report.is_clean(), "{case}");
        assert_eq!(host.tree.snapshot(), before, "{case}");
    });
    let words = format!("in a second lasting order: {} left the first, {} both", ends[0], ends[1]);
    testing::promise("modelled-kills", deaths, words);
}

#[test]
fn dying_at_any_operation_of_taking_back_leaves_all_or_nothing_of_it() {
    let mut ends = [0, 0];
    let deaths = every_death(|act, case| {
        let host = Host::new();
        let before = host.tree.snapshot();
        host.make(&order(EACH)).unwrap();
        act(&host, &|site| drop(undo_on(site)));
        let report = host.recover();
        assert!(report.failed().next().is_none() && report.foreign().next().is_none(), "{case}: {report:?}");
        let gone = host.status().entries.is_empty();
        ends[usize::from(gone)] += 1;
        if gone {
            assert_eq!(host.tree.snapshot(), before, "{case}");
            assert_eq!(host.files(), BTreeMap::new(), "{case}");
        } else {
            assert_eq!(host.drifts(), [], "{case}");
        }
    });
    let words = format!("while taking back: {} left all in place, {} nothing", ends[0], ends[1]);
    testing::promise("modelled-kills", deaths, words);
    assert!(ends[0] > 0 && ends[1] > 0);
}

/// Random orders, one after the other, each dying somewhere; then all is taken back.
#[test]
fn random_orders_that_die_anywhere_are_taken_back_whole() {
    const SETTINGS: &[(&str, &[&str])] = &[
        ("governor", &["conservative", "schedutil", "performance"]),
        ("governor@policy1", &["powersave", "ondemand"]),
        ("vm.swappiness", &["10", "20", "60"]),
        ("vm.dirty_bytes", &["1048576", "2097152"]),
        ("scheduler@sda", &["mq-deadline", "bfq"]),
        ("read_ahead_kb@sda", &["512", "128", "4097"]),
        ("turbo", &["on", "off"]),
        ("idle.C6.disable", &["0", "1"]),
        ("max_freq", &["1500MHz", "max", "2345678"]),
    ];
    let extent = Extent::of(300, 3000);
    let (mut deaths, mut orders) = (0, 0);
    for seed in (0..extent.count).map(|n| extent.seed.wrapping_add(n)) {
        let mut choice = Seed(seed).stream("orders");
        let tunables = if choice.below(2) == 0 { Tunables::Global } else { Tunables::PerPolicy };
        let governor = ["ondemand", "conservative", "powersave"][choice.below(3)];
        let host = Host::with(Tree::new(tunables, governor));
        let before = host.tree.snapshot();
        for _ in 0..=choice.below(3) {
            let mut pairs: Vec<(&str, &str)> = Vec::new();
            for _ in 0..=choice.below(3) {
                let (name, values) = SETTINGS[choice.below(SETTINGS.len())];
                pairs.push((name, values[choice.below(values.len())]));
            }
            let death = Death {
                after: choice.below(120) as u64,
                counted: Counted::All,
                moment: if choice.below(2) == 0 { Moment::Before } else { Moment::After },
                manner: if choice.below(2) == 0 { Manner::Error } else { Manner::Unwind },
            };
            let machine = FailingMachine::new(&host.tree, death);
            let short = Death { after: death.after / 4, ..death };
            let files = FailingFiles { death: short, seen: Cell::new(0) };
            let _ = catch_unwind(AssertUnwindSafe(|| {
                host.on(&machine, &files, |site| drop(make_on(site, &order(&pairs))));
            }));
            deaths += u32::from(machine.is_dead() || files.dead());
            orders += 1;
            let report = host.recover();
            assert!(
                report.failed().next().is_none() && report.foreign().next().is_none(),
                "seed {seed}: {report:?}"
            );
            assert!(!host.status().unfinished, "seed {seed}");
        }
        let undone = host.undo();
        assert!(undone.report.is_clean(), "seed {seed}: {undone:?}");
        assert_eq!(host.tree.snapshot(), before, "seed {seed}");
        assert_eq!(host.files(), BTreeMap::new(), "seed {seed}");
    }
    testing::promise("modelled-kills", deaths, format!("in {orders} random lasting orders: all taken back"));
}

#[test]
fn a_change_that_was_there_already_lasts_and_is_not_undone() {
    let host = Host::new();
    let made = host.make(&order(&[("vm.swappiness", "60")])).unwrap();
    assert_eq!(made.entries[0].old(), None);
    assert!(host.etc("sysctl.d/90-flyball.conf").exists());
    let undone = host.undo();
    assert_eq!(undone.report.undone.iter().filter(|u| u.outcome != UndoOutcome::Untouched).count(), 0);
    assert_eq!(host.tree.get("/proc/sys/vm/swappiness").as_deref(), Some("60"));
    assert_eq!(host.files(), BTreeMap::new());
}

#[test]
fn a_trial_on_top_of_a_lasting_change_goes_back_to_it() {
    let host = Host::new();
    host.make(&order(&[("vm.swappiness", "10")])).unwrap();
    let machine = &host.tree;
    let (mut ledger, _) = Ledger::open(&host.state(), &machine).unwrap();
    ledger.apply(&order(&[("vm.swappiness", "5")]).requests, None).unwrap();
    drop(ledger);
    assert_eq!(host.recover().restored().count(), 1);
    assert_eq!(host.tree.get("/proc/sys/vm/swappiness").as_deref(), Some("10"));
    assert_eq!(host.drifts(), []);
}

#[test]
fn a_power_cut_leaves_no_file_or_all_of_them() {
    let (mut none, mut whole) = (0, 0);
    let cuts = every_death(|act, case| {
        let mut host = Host::new();
        act(&host, &|site| drop(make_on(site, &order(EACH))));
        // The machine starts again, with the values that it begins with.
        host.tree = Tree::new(Tunables::Global, "ondemand");
        host.tree.set("/proc/sys/kernel/random/boot_id", "boot-2");
        let fresh = host.tree.snapshot();
        let report = host.recover();
        assert!(report.failed().next().is_none() && report.foreign().next().is_none(), "{case}: {report:?}");
        assert_eq!(host.tree.snapshot(), fresh, "{case}");
        let status = host.status();
        assert!(!status.unfinished, "{case}");
        assert!(status.files.iter().all(|(_, state)| *state == FileState::AsWritten), "{case}");
        if status.entries.is_empty() {
            assert_eq!(host.files(), BTreeMap::new(), "{case}");
            none += 1;
        } else {
            assert_eq!(host.files().len(), 3, "{case}");
            whole += 1;
        }
    });
    println!(
        "{} runs, {cuts} power cuts while making changes last: {none} left no file, {whole} all",
        none + whole
    );
    assert!(none > 0 && whole > 0);
}

#[test]
fn a_plan_changes_nothing_and_says_what_would_be_made() {
    let host = Host::new();
    let machine = &host.tree;
    let planned = host.on(&machine, &LocalFiles, |site| lasting::plan(site, &order(EACH)).unwrap());
    assert!(host.tree.writes.borrow().is_empty() && host.files().is_empty() && !host.state().exists());
    let made = host.make(&order(EACH)).unwrap();
    // What comes with another setting shows what it was before only then.
    let plain = |text: &str| text.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect();
    let shown = |made: &lasting::LastingChanges| -> Vec<Vec<String>> {
        made.files.iter().map(|f| plain(f.content.as_deref().unwrap())).collect()
    };
    assert_eq!(shown(&planned), shown(&made));
    assert!(
        made.files[2]
            .content
            .as_deref()
            .unwrap()
            .contains(&format!("{CPUFREQ}/policy[0-9]*/scaling_governor"))
    );
}

#[test]
fn systemd_tmpfiles_writes_what_the_file_says_in_its_order() {
    let host = Host::with(Tree::new(Tunables::PerPolicy, "ondemand"));
    let set = [
        ("governor", "conservative"),
        ("conservative.up_threshold", "70"),
        ("governor@policy1", "performance"),
        ("idle.C6.disable", "1"),
        ("turbo", "off"),
    ];
    host.make(&order(&set)).unwrap();
    let wanted = host.tree.snapshot();
    // The files as they are at boot: with the values of before, all there is of them.
    let fresh = Tree::new(Tunables::PerPolicy, "ondemand").snapshot();
    for (path, now) in &wanted {
        let path_there = host.folder.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path_there.parent().unwrap()).unwrap();
        fs::write(path_there, fresh.get(path).unwrap_or(now)).unwrap();
    }
    let root = format!("--root={}", host.folder.path().display());
    let mut command = std::process::Command::new("systemd-tmpfiles");
    let output = match command.args(["--create", "--boot", &root, "flyball.conf"]).output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: systemd-tmpfiles cannot be run: {error}");
            return;
        }
    };
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.is_empty(), "{told}");
    let mut checked = 0;
    for file in ["scaling_governor", "up_threshold", "disable", "boost"] {
        for (path, value) in wanted.iter().filter(|(path, _)| path.ends_with(&format!("/{file}"))) {
            let there = fs::read_to_string(host.folder.path().join(path.trim_start_matches('/'))).unwrap();
            // A plain file is not shortened by a write, as a file of sysfs is: the end of a longer value
            // stays.
            assert!(there.starts_with(value), "{path}: {there}");
            checked += 1;
        }
    }
    println!("systemd-tmpfiles wrote {checked} values as they were tuned");
    assert!(checked >= 5);
}
