//! Dying at every operation, and at every operation of the recovery after it: everything is as before.

#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod tree;

use domain::rng::{Rng, Seed};
use domain::setting::{SettingName, SettingRequest};
use machine::Machine;
use machine::failing::{Counted, Dead, Death, FailingMachine, Manner, Moment};
use machine::ledger::{Ledger, RestoreReport};
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use testing::Extent;
use tree::{CPUFREQ, QUEUE, Tree, Tunables};

/// One thing that a run does.
#[derive(Clone, Copy, Debug)]
enum Step {
    Apply(&'static [(&'static str, &'static str)]),
    Restore,
}

use Step::{Apply, Restore};

/// Sets of requests; the last ones are refused half-way, by rounding, by being ignored, and by an error.
const SETS: &[&[(&str, &str)]] = &[
    &[("governor", "ondemand"), ("ondemand.up_threshold", "60"), ("vm.swappiness", "10")],
    &[("governor", "performance"), ("max_freq", "max")],
    &[("governor@policy1", "schedutil"), ("epp@policy1", "power")],
    &[("max_freq", "1GHz"), ("min_freq", "min")],
    &[("scheduler", "mq-deadline"), ("nr_requests", "64"), ("iosched.read_expire", "100")],
    &[("scheduler", "bfq"), ("read_ahead_kb", "4096")],
    &[("vm.dirty_bytes", "1048576"), ("turbo", "off"), ("idle.C6.disable", "1"), ("cpu_dma_latency", "20us")],
    &[("vm.dirty_ratio", "5"), ("read_ahead_kb", "512")],
    &[("governor", "conservative"), ("read_ahead_kb", "4097")],
    &[("vm.swappiness", "20"), ("max_freq", "2345678")],
    &[("scheduler", "mq-deadline"), ("rq_affinity", "2")],
    &[("governor", "schedutil"), ("epb", "0")],
];

/// Nearly everything in one run: two sets on top of each other, a restore, a refused set.
const LONG: &[Step] = &[
    Apply(SETS[0]),
    Apply(SETS[4]),
    Apply(SETS[1]),
    Apply(SETS[6]),
    Apply(SETS[8]),
    Restore,
    Apply(SETS[9]),
    Apply(SETS[5]),
];

/// Each kind of change once, for the runs that die twice.
const SHORT: &[Step] = &[Apply(SETS[0]), Apply(SETS[4]), Apply(SETS[7]), Apply(SETS[1]), Apply(SETS[8])];

/// Runs a script; errors of a step are part of it.
fn run(script: &[Step], state: &Path, machine: &dyn Machine) {
    let Ok((mut ledger, _)) = Ledger::open(state, machine) else { return };
    for step in script {
        match step {
            Apply(set) => {
                let request = |(name, value): &(&str, &str)| SettingRequest {
                    setting: SettingName::parse(name),
                    value: (*value).to_owned(),
                };
                let requests: Vec<_> = set.iter().map(request).collect();
                let _ = ledger.apply(&requests, Some("sda"));
            }
            Restore => {
                ledger.restore();
            }
        }
    }
}

/// Acts on a machine that may die, and says whether it did.
fn until_death(tree: &Tree, death: Death, act: impl FnOnce(&dyn Machine)) -> bool {
    let machine = FailingMachine::new(tree, death);
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| act(&machine))) {
        assert!(panic.is::<Dead>(), "it died of something else than the planned death");
    }
    machine.is_dead()
}

fn recover(state: &Path, tree: &Tree) -> RestoreReport {
    Ledger::open(state, &tree).unwrap().1
}

/// In memory where there is such a place, for thousands of runs sync their ledger.
fn state() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn deaths(counted: Counted, after: u64) -> impl Iterator<Item = Death> {
    [Manner::Error, Manner::Unwind].into_iter().flat_map(move |manner| {
        [Moment::Before, Moment::After].map(|moment| Death { after, counted, moment, manner })
    })
}

fn assert_as_before(before: &Tree, tree: &Tree, report: &RestoreReport, case: &dyn std::fmt::Debug) {
    assert_eq!(tree.snapshot(), before.snapshot(), "{case:?}");
    assert!(report.failed().next().is_none() && report.foreign().next().is_none(), "{case:?}: {report:?}");
}

#[test]
fn dying_at_any_operation_leaves_nothing_changed() {
    for tunables in [Tunables::Global, Tunables::PerPolicy] {
        let before = Tree::new(tunables, "ondemand");
        let mut n = 0;
        let mut alive = false;
        while !alive {
            for death in deaths(Counted::All, n) {
                let (tree, state) = (Tree::new(tunables, "ondemand"), state());
                alive = !until_death(&tree, death, |machine| run(LONG, state.path(), machine));
                let report = recover(state.path(), &tree);
                assert_as_before(&before, &tree, &report, &death);
                let again = recover(state.path(), &tree);
                assert!(again.undone.is_empty(), "{death:?}: {again:?}");
            }
            n += 1;
        }
        let words = format!("at each operation of a run with {tunables:?} tunables");
        testing::promise("modelled-kills", 4 * (n - 1), words);
        assert!(n > 300, "the script has only {n} operations");
    }
}

#[test]
fn dying_again_at_any_operation_of_the_recovery_leaves_nothing_changed() {
    let before = Tree::new(Tunables::Global, "ondemand");
    let mut cases = 0;
    let mut alive = false;
    let mut n = 0;
    while !alive {
        for first in deaths(Counted::Writes, n).filter(|d| d.manner == Manner::Unwind) {
            let mut recovered = false;
            let mut m = 0;
            while !recovered {
                for second in deaths(Counted::All, m) {
                    let (tree, state) = (Tree::new(Tunables::Global, "ondemand"), state());
                    alive = !until_death(&tree, first, |machine| run(SHORT, state.path(), machine));
                    recovered = !until_death(&tree, second, |machine| {
                        let _ = Ledger::open(state.path(), machine);
                    });
                    let report = recover(state.path(), &tree);
                    assert_as_before(&before, &tree, &report, &(first, second));
                    cases += 1;
                }
                m += 1;
            }
        }
        n += 1;
    }
    testing::promise("modelled-kills-in-recovery", cases, "at each operation of a recovery from each death");
    assert!(cases > 1000, "only {cases} pairs of deaths");
}

/// A machine whose every value is drawn.
fn random_tree(choice: &mut Rng) -> Tree {
    let tunables = if choice.below(2) == 0 { Tunables::Global } else { Tunables::PerPolicy };
    let governors = ["ondemand", "conservative", "powersave", "performance", "schedutil", "userspace"];
    let tree = Tree::new(tunables, governors[choice.below(governors.len())]);
    let machine = &tree;
    let write = |path: &str, value: &str| {
        // What the kernel refuses is not how a machine is found.
        let _ = machine.write(Path::new(path), value.as_bytes());
    };
    write(&format!("{CPUFREQ}/policy1/scaling_governor"), governors[choice.below(governors.len())]);
    for policy in 0..2 {
        for file in ["scaling_min_freq", "scaling_max_freq"] {
            write(
                &format!("{CPUFREQ}/policy{policy}/{file}"),
                &(800_000 + 100_000 * choice.below(28)).to_string(),
            );
        }
        let preference = ["power", "balance_power", "default"][choice.below(3)];
        write(&format!("{CPUFREQ}/policy{policy}/energy_performance_preference"), preference);
    }
    write(&format!("{QUEUE}/scheduler"), ["none", "mq-deadline", "bfq"][choice.below(3)]);
    for (file, step, most) in
        [("nr_requests", 1, 1000), ("read_ahead_kb", 4, 500), ("wbt_lat_usec", 100, 900)]
    {
        write(&format!("{QUEUE}/{file}"), &(step * (1 + choice.below(most))).to_string());
    }
    write("/proc/sys/vm/swappiness", &choice.below(200).to_string());
    let dirty =
        if choice.below(2) == 0 { ("dirty_ratio", 1 + choice.below(99)) } else { ("dirty_bytes", 1 << 20) };
    write(&format!("/proc/sys/vm/{}", dirty.0), &dirty.1.to_string());
    let tuned: Vec<String> =
        tree.snapshot().into_keys().filter(|path| path.ends_with("_threshold")).collect();
    tuned.iter().for_each(|path| write(path, &(1 + choice.below(99)).to_string()));
    if choice.below(3) == 0 { tree.with_intel_pstate() } else { tree }
}

/// A few sets of a few settings with drawn values, some of which are refused.
fn random_sets(choice: &mut Rng) -> Vec<Vec<(String, String)>> {
    let number =
        |choice: &mut Rng, least: usize, most: usize| (least + choice.below(most - least)).to_string();
    let mut sets = Vec::new();
    for _ in 0..=choice.below(3) {
        let mut set = Vec::new();
        for _ in 0..=choice.below(4) {
            let object = ["", "@policy0", "@policy1"][choice.below(3)];
            let governor = ["ondemand", "conservative", "performance", "schedutil"][choice.below(4)];
            let (name, value) = match choice.below(11) {
                0 | 1 => (format!("governor{object}"), governor.to_owned()),
                2 => ("ondemand.up_threshold".into(), number(choice, 1, 100)),
                3 => (format!("min_freq{object}"), number(choice, 700_000, 3_600_000)),
                4 => (format!("max_freq{object}"), (100_000 * (8 + choice.below(28))).to_string()),
                5 => ("scheduler".into(), ["none", "mq-deadline", "bfq", "cfq"][choice.below(4)].into()),
                6 => ("nr_requests".into(), number(choice, 1, 1000)),
                7 => ("read_ahead_kb".into(), number(choice, 4, 2000)),
                8 => (["vm.dirty_ratio", "vm.dirty_bytes"][choice.below(2)].into(), number(choice, 1, 100)),
                9 => ("vm.swappiness".into(), number(choice, 0, 200)),
                _ => (format!("epp{object}"), "balance_power".into()),
            };
            set.push((name, value));
        }
        sets.push(set);
    }
    sets
}

#[test]
fn random_machines_with_random_settings_are_as_before_wherever_the_program_dies() {
    let extent = Extent::of(24, 72);
    let (mut died, mut most) = (0, 0);
    for seed in (0..extent.count).map(|n| extent.seed.wrapping_add(n)) {
        let sets = random_sets(&mut Seed(seed).stream("sets"));
        let fresh = || random_tree(&mut Seed(seed).stream("tree"));
        let before = fresh();
        let mut alive = false;
        let mut n = 0;
        while !alive {
            for death in deaths(Counted::All, n) {
                let (tree, state) = (fresh(), state());
                alive = !until_death(&tree, death, |machine| apply_all(&sets, state.path(), machine));
                died += u32::from(!alive);
                let report = recover(state.path(), &tree);
                assert_as_before(&before, &tree, &report, &(seed, death, &sets));
            }
            n += 1;
        }
        most = most.max(n);
    }
    let words = format!("at each of up to {most} operations, on {} random machines", extent.count);
    testing::promise("modelled-kills", died, words);
    assert!(u64::from(died) > 20 * extent.count, "only {died} deaths");
}

/// One set after the other; errors are part of it.
fn apply_all(sets: &[Vec<(String, String)>], state: &Path, machine: &dyn Machine) {
    let Ok((mut ledger, _)) = Ledger::open(state, machine) else { return };
    for set in sets {
        let request = |(name, value): &(String, String)| SettingRequest {
            setting: SettingName::parse(name),
            value: value.clone(),
        };
        let requests: Vec<_> = set.iter().map(request).collect();
        let _ = ledger.apply(&requests, Some("sda"));
    }
}

fn script() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..SETS.len()).prop_map(|set| Apply(SETS[set])),
        1 => Just(Restore),
    ];
    prop::collection::vec(step, 1..6)
}

fn death() -> impl Strategy<Value = Death> {
    (0_u64..400, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(after, writes, late, unwinds)| {
        Death {
            after: if writes { after / 10 } else { after },
            counted: if writes { Counted::Writes } else { Counted::All },
            moment: if late { Moment::After } else { Moment::Before },
            manner: if unwinds { Manner::Unwind } else { Manner::Error },
        }
    })
}

fn start() -> impl Strategy<Value = (Tunables, &'static str)> {
    let tunables = prop_oneof![Just(Tunables::Global), Just(Tunables::PerPolicy)];
    (tunables, prop::sample::select(vec!["ondemand", "conservative", "powersave", "performance"]))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_script_with_any_deaths_leaves_nothing_changed(
        (tunables, governor) in start(),
        script in script(),
        deaths in prop::collection::vec(death(), 1..4),
    ) {
        let before = Tree::new(tunables, governor);
        let (tree, state) = (Tree::new(tunables, governor), state());
        for death in &deaths {
            until_death(&tree, *death, |machine| run(&script, state.path(), machine));
        }
        let report = recover(state.path(), &tree);
        assert_as_before(&before, &tree, &report, &"see the inputs below");
    }

    #[test]
    fn a_foreign_write_after_any_death_is_left_and_everything_else_is_put_back(
        (tunables, governor) in start(),
        script in script(),
        death in death(),
    ) {
        let before = Tree::new(tunables, governor);
        let (tree, state) = (Tree::new(tunables, governor), state());
        until_death(&tree, death, |machine| run(&script, state.path(), machine));
        let was_changed = tree.get("/proc/sys/vm/swappiness").as_deref() != Some("60");
        before.set("/proc/sys/vm/swappiness", "199");
        tree.set("/proc/sys/vm/swappiness", "199");
        let report = recover(state.path(), &tree);
        prop_assert_eq!(tree.snapshot(), before.snapshot());
        if was_changed {
            prop_assert_eq!(report.foreign().count(), 1, "{:?}", report);
        }
    }
}
