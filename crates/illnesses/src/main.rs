//! Machines with none, one or two planted illnesses, and whether the rules of `explain` find them.
//!
//! A machine, its storage and its load are drawn by a seed, and run as they are, in the simulator or in the
//! lab. What ails it is not what was planted, but what makes it faster when it is cured: each illness that
//! the machine has is cured alone, and the load runs again. The rules see a trial, its trace and the
//! inventory, and nothing else. [`exam`] does that; [`table`] counts.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod draw;
mod exam;
mod illness;
mod lab;
mod recipe;
mod simulated;
mod table;

use domain::rng::Seed;
use exam::Examined;
use simulated::Simulator;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

const USAGE: &str = "usage: illnesses [--machines N] [--seed N]... [--only NUMBER] [--details]
       illnesses --lab [--kept FOLDER] [--machines N] [--seed N]... [--only NUMBER] [--details]";

/// Of each seed, where nothing else is asked for.
const SIMULATED: u32 = 300;
const IN_THE_LAB: u32 = 40;

struct Options {
    machines: Option<u32>,
    seeds: Vec<u64>,
    only: Option<u32>,
    details: bool,
    lab: bool,
    /// Where runs of the lab are kept.
    kept: PathBuf,
}

fn options() -> Option<Options> {
    let kept = PathBuf::from("target/illnesses");
    let mut options =
        Options { machines: None, seeds: Vec::new(), only: None, details: false, lab: false, kept };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--machines" => options.machines = Some(words.next()?.parse().ok()?),
            "--seed" => options.seeds.push(words.next()?.parse().ok()?),
            "--only" => options.only = Some(words.next()?.parse().ok()?),
            "--details" => options.details = true,
            "--lab" => options.lab = true,
            "--kept" => options.kept = words.next()?.into(),
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
    let count = options.machines.unwrap_or(if options.lab { IN_THE_LAB } else { SIMULATED });
    let numbers: Vec<u32> = options.only.map_or((0..count).collect(), |number| vec![number]);
    let of_seed = |seed: &u64| numbers.iter().map(|number| (Seed(*seed), *number)).collect::<Vec<_>>();
    let machines: Vec<(Seed, u32)> = options.seeds.iter().flat_map(of_seed).collect();
    let examined = if options.lab { in_the_lab(&options, &machines) } else { simulated(&options, &machines) };
    match examined {
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

/// Examines machines of the lab, one guest after the other. One that cannot be run is told, and not counted.
fn in_the_lab(options: &Options, machines: &[(Seed, u32)]) -> Result<Vec<Examined>, String> {
    let folder = &options.kept;
    std::fs::create_dir_all(folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let own = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let flyball = own.with_file_name("flyball");
    if !flyball.exists() {
        return Err(format!("there is no {}: build it with `make build`", flyball.display()));
    }
    let lab = lab::Lab { flyball, folder: folder.clone() };
    let mut all = Vec::new();
    for (seed, number) in machines.iter().copied() {
        let (recipe, planted) = draw::lab_machine(seed, number);
        if options.only.is_some() {
            println!("{}\nplanted: {planted:?}\n", lab::study(&recipe));
        }
        match exam::examine(&lab, &recipe, &planted) {
            Ok(examined) => {
                eprint!("{}", table::details(&examined));
                all.push(examined);
            }
            Err(error) => eprintln!("{}: not judged: {error}", recipe.name),
        }
    }
    Ok(all)
}

/// Examines simulated machines on all cores; in their order.
fn simulated(options: &Options, machines: &[(Seed, u32)]) -> Result<Vec<Examined>, String> {
    for (seed, number) in machines.iter().copied().filter(|_| options.only.is_some()) {
        let (recipe, planted) = draw::machine(seed, number);
        println!("{}\n{}\nplanted: {planted:?}\n", recipe.machine(), recipe.study());
        match simulated::shown(&recipe) {
            Ok(text) => println!("{text}"),
            Err(error) => eprintln!("error: {error}"),
        }
    }
    let next = AtomicU32::new(0);
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((seed, number)) = machines.get(at as usize) else { return Ok(done) };
            let (recipe, planted) = draw::machine(*seed, *number);
            done.push((at, exam::examine(&Simulator, &recipe, &planted)?));
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
