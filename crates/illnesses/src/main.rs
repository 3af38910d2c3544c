//! Simulated machines with none, one or two planted illnesses, and whether the rules of `explain` find them.
//!
//! A machine, its storage and its load are drawn by a seed, and simulated as they are. What ails it is not
//! what was planted, but what makes it faster when it is cured: each illness that the machine has is cured
//! alone, and the load is simulated again. The rules see a trial, its trace and the inventory, and nothing
//! else. [`exam`] does that; [`table`] counts.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod draw;
mod exam;
mod illness;
mod recipe;
mod table;

use domain::rng::Seed;
use exam::Examined;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

const USAGE: &str = "usage: illnesses [--machines N] [--seed N]... [--only NUMBER] [--details]";

struct Options {
    /// Of each seed.
    machines: u32,
    seeds: Vec<u64>,
    only: Option<u32>,
    details: bool,
}

fn options() -> Option<Options> {
    let mut options = Options { machines: 300, seeds: Vec::new(), only: None, details: false };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--machines" => options.machines = words.next()?.parse().ok()?,
            "--seed" => options.seeds.push(words.next()?.parse().ok()?),
            "--only" => options.only = Some(words.next()?.parse().ok()?),
            "--details" => options.details = true,
            _ => return None,
        }
    }
    if options.seeds.is_empty() {
        options.seeds.push(1);
    }
    Some(options)
}

fn main() -> ExitCode {
    let Some(options) = options() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let numbers: Vec<u32> = options.only.map_or((0..options.machines).collect(), |number| vec![number]);
    let of_seed = |seed: &u64| numbers.iter().map(|number| (Seed(*seed), *number)).collect::<Vec<_>>();
    let machines: Vec<(Seed, u32)> = options.seeds.iter().flat_map(of_seed).collect();
    for (seed, number) in machines.iter().copied().filter(|_| options.only.is_some()) {
        let (recipe, planted) = draw::machine(seed, number);
        println!("{}\n{}\nplanted: {planted:?}\n", recipe.machine(), recipe.study());
        match exam::shown(&recipe) {
            Ok(text) => println!("{text}"),
            Err(error) => eprintln!("error: {error}"),
        }
    }
    match all(&machines) {
        Ok(examined) => {
            if options.details || options.only.is_some() {
                examined.iter().for_each(|one| print!("{}", table::details(one)));
            }
            print!("{}", table::of(&options.seeds, &examined));
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Examines machines on all cores; in their order.
fn all(machines: &[(Seed, u32)]) -> Result<Vec<Examined>, String> {
    let next = AtomicU32::new(0);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((seed, number)) = machines.get(at as usize) else { return Ok(done) };
            let (recipe, planted) = draw::machine(*seed, *number);
            done.push((at, exam::examine(&recipe, &planted)?));
        }
    };
    let parts: Vec<Result<Vec<(u32, Examined)>, String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("an examination does not panic")).collect()
    });
    let mut all = Vec::new();
    for part in parts {
        all.extend(part?);
    }
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, examined)| examined).collect())
}
