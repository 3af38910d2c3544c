//! Dying at every operation of taking a stack down: the next one ends it. And what is somebody else's stays.

#![allow(clippy::unwrap_used)]

mod tree;

use domain::rng::{Rng, Seed};
use machine::Machine;
use machine::failing::{Counted, Dead, Death, FailingMachine, Manner, Moment};
use machine::ledger::{Built, Ledger, RestoreReport, UndoOutcome};
use serde_json::json;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use testing::Extent;
use tree::{Tree, Tunables};

const UUID: &str = "f17ba110-2222-3333-4444-555555555555";

/// A stack as a killed Flyball leaves it: parts in the ledger, the last of which may not have appeared.
struct Stack {
    tree: Tree,
    parts: Vec<Built>,
    /// Kernel name, number and node of what the next part stands on.
    top: (String, String, String),
    made: u32,
}

fn bare() -> Tree {
    let tree = Tree::new(Tunables::Global, "ondemand");
    tree.set("/sys/block/loop8/dev", "7:8");
    tree.make_folder("/sys/kernel/config/nullb");
    tree
}

impl Stack {
    fn new() -> Self {
        let top = ("loop8".into(), "7:8".into(), "/dev/loop8".into());
        Self { tree: bare(), parts: Vec::new(), top, made: 0 }
    }

    fn device(&mut self, name: String, number: String, node: String, built: Built, appears: bool) {
        if appears {
            self.tree.set(&format!("/sys/block/{name}/dev"), &number);
            self.tree.stand_on(&name, &[(&self.top.0, &self.top.1)]);
            self.top = (name, number, node);
        }
        self.parts.push(built);
    }

    fn add(&mut self, kind: usize, appears: bool) {
        self.made += 1;
        let n = self.made;
        let below = self.top.1.clone();
        match kind {
            0 => {
                let number = 200 + n;
                let (name, node) = (format!("md{number}"), format!("/dev/md{number}"));
                if appears {
                    self.tree.set(&format!("/sys/block/{name}/md/array_state"), "clean");
                    self.tree.set(&format!("/sys/block/{name}/md/uuid"), UUID);
                }
                let built = Built::Array { number, uuid: UUID.into(), members: vec![below] };
                self.device(name, format!("9:{number}"), node, built, appears);
            }
            1 => {
                let (kernel, name) = (format!("dm-{n}"), format!("flyball-x-vault-{n}"));
                if appears {
                    self.tree.set(&format!("/sys/block/{kernel}/dm/name"), &name);
                }
                let built = Built::Mapping { name: name.clone(), below };
                self.device(kernel, format!("252:{n}"), format!("/dev/mapper/{name}"), built, appears);
            }
            2 => {
                let (kernel, group) = (format!("dm-{n}"), format!("flyball_x_{n}"));
                let mapping = format!("{group}-data");
                if appears {
                    self.tree.set(&format!("/sys/block/{kernel}/dm/name"), &mapping);
                }
                let node = format!("/dev/mapper/{mapping}");
                let built = Built::Volume { group, mapping, below: vec![self.top.2.clone()] };
                self.device(kernel, format!("252:{n}"), node, built, appears);
            }
            3 => {
                let name = format!("flyball-x-{n}");
                self.module(true);
                let folder = format!("/sys/kernel/config/nullb/{name}");
                if appears {
                    self.tree.make_folder(&folder);
                    self.tree.set(&format!("{folder}/power"), "1");
                }
                self.parts.push(Built::NullBlk { name });
            }
            _ => {
                self.filesystem(n, appears);
                if appears {
                    self.server(&format!("/work/flyball-x-files-{n}/flyball-x-mariadb"));
                }
            }
        }
    }

    fn module(&mut self, appears: bool) {
        if self.tree.get("/sys/module/null_blk/refcnt").is_none() {
            if appears {
                self.tree.set("/sys/module/null_blk/refcnt", "0");
                self.tree.set("/sys/module/null_blk/initstate", "live");
            }
            self.parts.push(Built::Module { name: "null_blk".into() });
        }
    }

    fn filesystem(&mut self, n: u32, appears: bool) {
        let folder = format!("/work/flyball-x-files-{n}");
        self.tree.make_folder(&folder);
        self.parts.push(Built::Folder { path: folder.clone() });
        if appears {
            self.tree.mount(&self.top.1, &self.top.2, &folder);
        }
        let (source, number) = (self.top.2.clone(), self.top.1.clone());
        self.parts.push(Built::Mount { folder, source, number });
    }

    /// A server's folder with data in it. No process of this machine works there.
    fn server(&mut self, folder: &str) {
        self.tree.make_folder(folder);
        self.tree.set(&format!("{folder}/data/ibdata1"), "rows");
        self.parts.push(Built::Tree { path: folder.into() });
        self.parts
            .push(Built::Server { program: "/usr/sbin/mariadbd".into(), folder: format!("{folder}/data") });
    }

    /// A stack of up to six layers, of which the last may only be announced.
    fn random(choice: &mut Rng) -> Self {
        let mut stack = Self::new();
        let layers = 1 + choice.below(6);
        for layer in 0..layers {
            let (is_last, kind) = (layer + 1 == layers, choice.below(4));
            stack.add(if is_last { choice.below(5) } else { kind }, !is_last || choice.below(2) == 0);
        }
        stack
    }

    /// Writes the ledger of the one that was killed: each line its length, its CRC-32 and its JSON.
    fn write(&self, state: &Path) {
        let line = |(id, part): (usize, &Built)| {
            let json = json!({ "record": "built", "id": id + 1, "boot": "boot-1", "part": part }).to_string();
            format!("{} {:08x} {json}\n", json.len(), crc32fast::hash(json.as_bytes()))
        };
        let lines: String = self.parts.iter().enumerate().map(line).collect();
        fs::write(state.join("ledger"), lines).unwrap();
    }
}

/// In memory where there is such a place, for thousands of runs sync their ledger.
fn state() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn recover(state: &Path, tree: &Tree) -> RestoreReport {
    Ledger::open(state, &tree).unwrap().1
}

/// Recovers on a machine that may die, and says whether it did.
fn recover_until(tree: &Tree, death: Death, state: &Path) -> bool {
    let machine = FailingMachine::new(tree, death);
    let act = || drop(Ledger::open(state, &machine as &dyn Machine));
    if let Err(panic) = catch_unwind(AssertUnwindSafe(act)) {
        assert!(panic.is::<Dead>(), "it died of something else than the planned death");
    }
    machine.is_dead()
}

fn deaths(after: u64) -> impl Iterator<Item = Death> {
    [Manner::Error, Manner::Unwind].into_iter().flat_map(move |manner| {
        [Moment::Before, Moment::After].map(|moment| Death { after, counted: Counted::All, moment, manner })
    })
}

/// Dies at each operation of a recovery in turn; returns how often.
fn dies_everywhere(make: &dyn Fn() -> Stack, case: &str) -> u32 {
    let before = bare().snapshot();
    let (mut n, mut alive, mut cases) = (0, false, 0);
    while !alive {
        for death in deaths(n) {
            let (stack, state) = (make(), state());
            stack.write(state.path());
            alive = !recover_until(&stack.tree, death, state.path());
            let report = recover(state.path(), &stack.tree);
            let case = format!("{case}, {:?}, {death:?}: {report:?}", stack.parts);
            assert!(report.failed().next().is_none() && report.foreign().next().is_none(), "{case}");
            assert_eq!(stack.tree.snapshot(), before, "{case}");
            assert!(recover(state.path(), &stack.tree).undone.is_empty(), "{case}");
            cases += 1;
        }
        n += 1;
    }
    cases
}

#[test]
fn dying_at_any_operation_of_the_recovery_leaves_nothing_of_any_stack() {
    let extent = Extent::of(60, 120);
    let mut cases = 0;
    for seed in (0..extent.count).map(|n| extent.seed.wrapping_add(n)) {
        let make = || Stack::random(&mut Seed(seed).stream("stack"));
        cases += dies_everywhere(&make, &format!("seed {seed}"));
    }
    let words = format!("at each operation of taking down {} random stacks", extent.count);
    testing::promise("modelled-kills-in-recovery", cases, words);
    assert!(u64::from(cases) > 30 * extent.count, "only {cases} deaths");
}

#[test]
fn a_mount_over_ours_is_left_and_ours_goes_once_it_is_gone() {
    let (mut stack, state) = (Stack::new(), state());
    stack.filesystem(1, true);
    stack.write(state.path());
    stack.tree.mount("0:77", "theirs", "/work/flyball-x-files-1");
    let with_theirs = stack.tree.snapshot();
    let report = recover(state.path(), &stack.tree);
    assert_eq!(stack.tree.snapshot(), with_theirs, "{report:?}");
    assert_eq!(report.failed().count(), 2, "{report:?}");
    assert!(report.failed().all(|undone| undone.to_string().contains("`theirs`")), "{report:?}");
    (&stack.tree).run(&["umount", "/work/flyball-x-files-1"], std::time::Duration::ZERO).unwrap();
    assert_eq!(recover(state.path(), &stack.tree).failed().count(), 0);
    assert_eq!(stack.tree.snapshot(), bare().snapshot());
}

#[test]
fn what_others_took_down_or_put_beside_is_no_failure() {
    let (mut stack, state) = (Stack::new(), state());
    stack.add(0, true);
    stack.add(1, true);
    stack.write(state.path());
    let mapping = "flyball-x-vault-2";
    (&stack.tree).run(&["dmsetup", "remove", "--retry", mapping], std::time::Duration::ZERO).unwrap();
    stack.tree.set("/sys/block/md127/md/array_state", "clean");
    stack.tree.set("/sys/block/loop9/dev", "7:9");
    stack.tree.stand_on("md127", &[("loop9", "7:9")]);
    let report = recover(state.path(), &stack.tree);
    let outcomes: Vec<&UndoOutcome> = report.undone.iter().map(|undone| &undone.outcome).collect();
    assert_eq!(outcomes, [&UndoOutcome::Untouched, &UndoOutcome::Removed]);
    assert_eq!(stack.tree.get("/sys/block/md127/md/array_state").as_deref(), Some("clean"));
}

#[test]
fn an_array_that_others_made_of_a_member_of_ours_is_left_and_reported() {
    let (mut stack, state) = (Stack::new(), state());
    stack.add(0, true);
    stack.write(state.path());
    stack.tree.set("/sys/block/loop9/dev", "7:9");
    stack.tree.stand_on("md201", &[("loop9", "7:9")]);
    let report = recover(state.path(), &stack.tree);
    assert_eq!(report.foreign().count(), 1, "{report:?}");
    assert!(stack.tree.get("/sys/block/md201/md/array_state").is_some());
}

#[test]
fn the_module_stays_while_somebody_else_has_a_device_of_it() {
    let (mut stack, state) = (Stack::new(), state());
    stack.add(3, true);
    stack.write(state.path());
    stack.tree.make_folder("/sys/kernel/config/nullb/theirs");
    stack.tree.set("/sys/module/null_blk/refcnt", "1");
    stack.tree.set("/sys/module/null_blk/initstate", "live");
    let report = recover(state.path(), &stack.tree);
    assert_eq!(report.foreign().map(|u| u.what.as_str()).collect::<Vec<_>>(), ["module null_blk"]);
    assert!(stack.tree.get("/sys/module/null_blk/refcnt").is_some());
    assert_eq!((&stack.tree).list(Path::new("/sys/kernel/config/nullb")).unwrap(), Vec::<String>::new());
    assert!((&stack.tree).list(Path::new("/sys/kernel/config/nullb/theirs")).is_ok());
}
