//! Chores of this repository: `cargo xtask test`, `cargo xtask promises`, `cargo xtask tidy`, `cargo xtask
//! licences`, `cargo xtask sbom`, `cargo xtask notices`, `cargo xtask fuzz`, `cargo xtask illnesses`, `cargo
//! xtask replay-truth`, `cargo xtask record-machine`.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod binary_size;
mod documents;
mod fuzz;
mod licences;
mod notices;
mod promises;
mod record;
mod replay_truth;
mod sbom;
mod shipped;
mod suite;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask COMMAND

  test [PROGRAM...]
             every test of the workspace, or those of programs of a folder `tests`; those that do not
             measure two programs at a time. FLYBALL_TEST_WHOLE=1: the whole of what takes long
  promises [--only ID]... [--hours H]
             the whole of the tests that show what Flyball promises, and docs/PROMISES.md from them; an hour
             and a half without a number. What is not run keeps its figure
  tidy       the arrows between crates, the purity of the pure ones, the documents' code map,
             the files and links that documents name
  licences   every dependency's licence is one that this project may ship with
  sbom TARGET TIME [NAME=VERSION=LICENCE]...
             what a release for a platform is made of, in CycloneDX's JSON: of a commit of this time
             (2026-11-25T01:16:00Z), and linked with these, which cargo does not know
  notices TARGET
             the licences of the packages of others in such a release, with their texts
  fuzz PARSER [MINUTES] [SEED]
             damaged files for a reader of `flyball import`, or for `all`, each so long (ten minutes without
             a number), as many readers at once as there are CPUs; without a seed, one that is new
  illnesses [--lab [--kept FOLDER]] [--machines N] [--seed N]... [--only NUMBER] [--details]
             which causes of slowness that are planted in simulated machines the rules of `explain` find,
             miss and falsely name; 300 machines of each seed, about two minutes; in the lab 40 machines,
             an hour and a half on a machine that does nothing else, and a kept FOLDER is gone on with
  replay-truth [--on lab|sim] [STUDY...]
             how `flyball replay` predicts what studies of benches/replay measure: in the lab about ten
             minutes each, on a machine that does nothing else
  record-machine [--root COPY] DIR
             this machine as a folder for `flyball inspect --root DIR`, without serial numbers; or
             another one, of which COPY holds /proc and /sys
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let problems = match words.as_slice() {
        ["test", names @ ..] => suite::run(names),
        ["promises", options @ ..] => match promise_options(options) {
            Some((ids, hours)) => promises::run(&ids, hours),
            None => return usage(),
        },
        ["tidy"] => tidy::check(),
        ["licences"] => licences::check(),
        ["sbom", target, time, linked @ ..] => {
            match linked.iter().map(|text| sbom::Linked::read(text)).collect::<Option<Vec<_>>>() {
                Some(linked) => sbom::of_release(target, time, &linked).map(printed),
                None => return usage(),
            }
        }
        ["notices", target] => notices::of_release(target).map(printed),
        ["fuzz", parser] => fuzz(parser, "10", None),
        ["fuzz", parser, minutes] => fuzz(parser, minutes, None),
        ["fuzz", parser, minutes, seed] => fuzz(parser, minutes, Some(seed)),
        ["illnesses", options @ ..] => illnesses(options),
        ["replay-truth", words @ ..] => match replay_truth::run(words) {
            Ok(Some(problems)) => Ok(problems),
            Ok(None) => return usage(),
            Err(error) => Err(error),
        },
        ["record-machine", out] => record_machine("/", out),
        ["record-machine", "--root", root, out] => record_machine(root, out),
        _ => return usage(),
    };
    match problems {
        Ok(problems) if problems.is_empty() => ExitCode::SUCCESS,
        Ok(problems) => {
            problems.iter().for_each(|p| eprintln!("{p}"));
            eprintln!("{} to mend", problems.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints a text; nothing is to mend then.
fn printed(text: impl std::fmt::Display) -> Vec<String> {
    print!("{text}");
    Vec::new()
}

fn usage() -> ExitCode {
    eprint!("{USAGE}");
    ExitCode::from(2)
}

/// The ids after `--only`, and the number after `--hours`.
fn promise_options<'a>(options: &[&'a str]) -> Option<(Vec<&'a str>, Option<f64>)> {
    let (mut ids, mut hours) = (Vec::new(), None);
    for pair in options.chunks(2) {
        match *pair {
            ["--only", id] => ids.push(id),
            ["--hours", number] => hours = Some(number.parse().ok()?),
            _ => return None,
        }
    }
    Some((ids, hours))
}

fn fuzz(parser: &str, minutes: &str, seed: Option<&str>) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let minutes: f64 = minutes.parse()?;
    let seed = seed.map(str::parse).transpose()?;
    fuzz::run(parser, std::time::Duration::try_from_secs_f64(minutes * 60.0)?, seed)
}

/// Builds and runs the crate of that name: nothing of it is linked into the chores, which are built first of
/// all. Its exit code is told where it failed.
fn illnesses(options: &[&str]) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let run = ["run", "--quiet", "--release", "--locked", "--package", "illnesses", "--"];
    let status = std::process::Command::new(cargo).args(run).args(options).status()?;
    Ok(if status.success() { Vec::new() } else { vec![format!("illnesses: {status}")] })
}

fn record_machine(root: &str, out: &str) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    record::record_machine(Path::new(root), Path::new(out)).map(|()| Vec::new())
}
