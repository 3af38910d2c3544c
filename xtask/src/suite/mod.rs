//! `cargo xtask test`: every test of the workspace, as `cargo test --workspace` would run them, but programs
//! that only ask whether something works run two at a time, with a third that waits. What measures runs
//! alone, at the end.
//!
//! Most of the lab's tests wait for a machine whose CPUs are emulated by one thread at a time, or for a disk
//! that is slow on purpose: one after the other they leave half of a small host idle. In a run of all, clippy
//! takes what they leave idle still, and has ended before what measures begins.
//!
//! Last comes `N passed, N failed, N skipped`; before it why each was skipped and all that a failed test
//! said, after it how each failed, in a few lines. A green run of all, of a tree that is committed, leaves
//! that tree's hash in `target/last-green`.

mod green;
pub mod program;
pub mod said;
mod summary;

use program::{Ended, Program, ProgramOptions};
use std::collections::VecDeque;
use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

/// Programs beside which nothing else runs: they measure, or hold figures of the host against bounds.
const ALONE: &[&str] = &[
    "databases",
    "lab_databases",
    "lab_drivers",
    "lab_events",
    "lab_fidelity",
    "lab_governors",
    "lab_shares",
    "lab_tuning",
    "modelled_disks",
];

/// Programs whose tests run in machines of their own, for long: they begin at once, beside the others. The
/// longest first.
const APART: &[&str] =
    &["lab_claims", "lab_kills", "lab_stacks", "lab_power", "lab_storage", "lab_md_maps", "lab_layers"];

/// Programs that wait, most of their time, for something that never answers: they run beside two others.
const WAITING: &[&str] = &["lab_faults"];

/// Programs that change what the whole host has one of, sysctls and loop devices, and look whether all are as
/// before: one at a time.
const ON_THE_HOST: &[&str] = &[
    "machine",
    "kill",
    "kills",
    "failing_calls",
    "hostile_place",
    "lasting",
    "tuning",
    "settings_of_a_host",
    "proofs",
    "claims",
    "storage",
    "life_of_a_run",
    "trials",
];

/// Runs the programs of these names, or all without a name; what failed comes back as lines.
///
/// # Errors
/// Where nothing could be built or started.
pub fn run(names: &[&str]) -> Result<Vec<String>, Box<dyn Error>> {
    let tree = green::tree()?;
    let begun = Instant::now();
    let environment = part();
    let order = ProgramOptions { environment: &environment, deadline: None };
    let programs = program::build(names)?;
    println!("{} programs of tests, built in {:.0} s", programs.len(), begun.elapsed().as_secs_f64());
    let beside = names.is_empty().then_some(program::lints as fn() -> Ended);
    let mut ended = run_all(programs, beside, order);
    if names.is_empty() {
        ended.extend(program::documentation()?);
    }
    ended.sort_by_key(|program| std::cmp::Reverse(program.took));
    println!("\nAll of it took {:.0} s", begun.elapsed().as_secs_f64());
    print!("{}", summary::text(&ended));
    let wrong: Vec<String> = ended.iter().filter_map(Ended::problem).collect();
    if wrong.is_empty() && names.is_empty() {
        green::note(tree)?;
    }
    Ok(wrong)
}

/// Says which part of the long tests is run; that is what all programs are given.
fn part() -> Vec<(&'static str, String)> {
    let testing::Extent { seed, .. } = testing::Extent::of_environment(0, 0);
    if testing::is_whole() {
        println!("The whole of what takes long, from the seed {seed}.");
    } else {
        println!("Of what takes long, a part that the seed {seed} chooses. The same part again:");
        println!("    {}={seed} make test", testing::SEED);
        println!("and the whole: make test-all");
    }
    vec![(testing::SEED, seed.to_string())]
}

/// Runs programs, two at a time and one that waits beside them, but for those that measure; these begin when
/// all others have ended, and what is to run `beside` them.
pub fn run_all(
    programs: Vec<Program>,
    beside: Option<fn() -> Ended>,
    order: ProgramOptions<'_>,
) -> Vec<Ended> {
    let of = |list: &'static [&str]| move |program: &Program| list.contains(&program.name.as_str());
    let (alone, others): (VecDeque<_>, Vec<_>) = split(programs, of(ALONE));
    let (mut apart, others): (VecDeque<_>, Vec<_>) = split(others, of(APART));
    let (waiting, others): (VecDeque<_>, Vec<_>) = split(others, of(WAITING));
    let (on_the_host, common): (VecDeque<_>, VecDeque<_>) = split(others, of(ON_THE_HOST));
    apart.make_contiguous().sort_by_key(|program| APART.iter().position(|name| *name == program.name));
    let ended = Mutex::new(Vec::new());
    let [apart, common, on_the_host, waiting, alone] =
        [apart, common, on_the_host, waiting, alone].map(Mutex::new);
    thread::scope(|scope| {
        // Whoever has done its own helps the other; but what is on the host stays with one of them.
        scope.spawn(|| one_by_one(&[&apart, &common], order, &ended));
        scope.spawn(|| one_by_one(&[&on_the_host, &common, &apart], order, &ended));
        scope.spawn(|| one_by_one(&[&waiting], order, &ended));
        scope.spawn(|| locked(&ended).extend(beside.map(|run| run())));
    });
    one_by_one(&[&alone], order, &ended);
    ended.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn split<A: FromIterator<Program>, B: FromIterator<Program>>(
    all: Vec<Program>,
    is_chosen: impl Fn(&Program) -> bool,
) -> (A, B) {
    let (chosen, others): (Vec<_>, Vec<_>) = all.into_iter().partition(is_chosen);
    (chosen.into_iter().collect(), others.into_iter().collect())
}

/// Runs what is in the first of these lists, then what is left in the next.
fn one_by_one(lists: &[&Mutex<VecDeque<Program>>], order: ProgramOptions<'_>, ended: &Mutex<Vec<Ended>>) {
    let next = || lists.iter().find_map(|list| locked(list).pop_front());
    while let Some(program) = next().filter(|_| !order.is_over()) {
        let one = program.run(order);
        locked(ended).push(one);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
