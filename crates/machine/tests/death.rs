//! Dying at every operation, and at every operation of the recovery after it: everything is as before.

#![allow(clippy::unwrap_used)]

mod tree;

use domain::setting::{SettingName, SettingRequest};
use machine::Machine;
use machine::failing::{Counted, Dead, Death, FailingMachine, Manner, Moment};
use machine::ledger::{Ledger, RestoreReport};
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use tree::{Tree, Tunables};

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
    &[("vm.dirty_bytes", "1048576"), ("turbo", "off"), ("idle.C6.disable", "1")],
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
    assert!(cases > 1000, "only {cases} pairs of deaths");
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
