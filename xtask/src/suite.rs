//! `cargo xtask test`: every test of the workspace, as `cargo test --workspace` would run them, but programs that only ask whether
//! something works run two at a time. What measures runs alone, at the end.
//!
//! Most of the lab's tests wait for a machine whose CPUs are emulated by one thread at a time, or for a disk that is slow on purpose: one
//! after the other they leave half of a small host idle.

use cargo_metadata::{Artifact, Message};
use std::collections::VecDeque;
use std::error::Error;
use std::fs::File;
use std::io::{BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Programs beside which nothing else runs: they measure, or hold figures of the host against bounds.
const ALONE: &[&str] = &["databases", "lab_databases", "lab_fidelity", "lab_governors", "modelled_disks"];

/// Programs whose tests run in machines of their own, for long: they begin at once, beside the others. The longest first.
const APART: &[&str] =
    &["lab_claims", "lab_kills", "lab_faults", "lab_stacks", "lab_power", "lab_storage", "lab_md_maps"];

/// What takes longer has hung.
const LONGEST: Duration = Duration::from_secs(40 * 60);

/// One program of tests.
struct Program {
    name: String,
    path: PathBuf,
    /// Where cargo runs it: its package's folder.
    folder: PathBuf,
    /// As cargo names it.
    title: String,
}

/// How it ended.
struct Ended {
    title: String,
    took: Duration,
    /// Why it is not well.
    wrong: Option<String>,
    /// What its failed tests said.
    failures: String,
}

/// Builds and runs all; what failed comes back as lines.
///
/// # Errors
/// Where nothing could be built or started.
pub fn run() -> Result<Vec<String>, Box<dyn Error>> {
    let begun = Instant::now();
    let programs = build()?;
    println!("{} programs of tests, built in {:.0} s", programs.len(), begun.elapsed().as_secs_f64());
    let of = |list: &[&str], program: &Program| list.contains(&program.name.as_str());
    let (alone, others): (VecDeque<_>, VecDeque<_>) = programs.into_iter().partition(|p| of(ALONE, p));
    let (mut apart, common): (VecDeque<_>, VecDeque<_>) = others.into_iter().partition(|p| of(APART, p));
    apart.make_contiguous().sort_by_key(|program| APART.iter().position(|name| *name == program.name));
    let ended = Mutex::new(Vec::new());
    let (apart, common, alone) = (Mutex::new(apart), Mutex::new(common), Mutex::new(alone));
    thread::scope(|scope| {
        // Whoever has done its own helps the other.
        scope.spawn(|| one_by_one([&apart, &common], &ended));
        scope.spawn(|| one_by_one([&common, &apart], &ended));
    });
    one_by_one([&alone], &ended);
    let mut ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    ended.push(documentation()?);
    ended.sort_by_key(|program| std::cmp::Reverse(program.took));
    println!("\nThe longest of {} programs, after {:.0} s:", ended.len(), begun.elapsed().as_secs_f64());
    for program in ended.iter().take(12) {
        println!("{:7.1} s  {}", program.took.as_secs_f64(), program.title);
    }
    // At the end, where whoever keeps only the last of it finds them.
    for program in ended.iter().filter(|program| !program.failures.is_empty()) {
        println!("\n     What failed in {}\n\n{}", program.title, program.failures);
    }
    Ok(ended.into_iter().filter_map(|p| Some(format!("{}: {}", p.title, p.wrong?))).collect())
}

fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["test", "--release", "--locked", "--workspace"]).args(arguments);
    command
}

/// Builds all programs of tests.
fn build() -> Result<VecDeque<Program>, Box<dyn Error>> {
    let format = "--message-format=json-render-diagnostics";
    let mut child = cargo(&["--no-run", format]).stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().ok_or("a pipe that was asked for is there")?;
    let mut programs = VecDeque::new();
    for message in Message::parse_stream(BufReader::new(output)) {
        if let Message::CompilerArtifact(artifact) = message? {
            programs.extend(program(artifact));
        }
    }
    match child.wait()? {
        status if status.success() => Ok(programs),
        status => Err(format!("cannot build the tests: {status}").into()),
    }
}

fn program(artifact: Artifact) -> Option<Program> {
    let path = artifact.executable.filter(|_| artifact.profile.test)?;
    let folder = artifact.manifest_path.parent()?;
    let source = artifact.target.src_path.strip_prefix(folder).unwrap_or(&artifact.target.src_path);
    let kind = if artifact.target.is_test() { "" } else { "unittests " };
    let title = format!("{kind}{source} ({path})");
    Some(Program { name: artifact.target.name, path: path.into(), folder: folder.into(), title })
}

/// Runs what is in the first of these lists, then what is left in the next.
fn one_by_one<const N: usize>(lists: [&Mutex<VecDeque<Program>>; N], ended: &Mutex<Vec<Ended>>) {
    let next = || lists.iter().find_map(|list| locked(list).pop_front());
    while let Some(program) = next() {
        let begun = Instant::now();
        let (wrong, failures) =
            run_one(&program).unwrap_or_else(|error| (Some(error.to_string()), String::new()));
        let one = Ended { title: program.title, took: begun.elapsed(), wrong, failures };
        locked(ended).push(one);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a program, and shows all that it said at once: lines of two are never mixed. Why it is not well comes back, and what its failed
/// tests said.
fn run_one(program: &Program) -> Result<(Option<String>, String), Box<dyn Error>> {
    let said = program.path.with_extension("said");
    let file = File::create(&said)?;
    let mut child = Command::new(&program.path)
        .arg("--show-output")
        .current_dir(&program.folder)
        .env("CARGO_MANIFEST_DIR", &program.folder)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        // What it started ends with it where it hangs.
        .process_group(0)
        .spawn()?;
    let wrong = wait(&mut child)?;
    let text = String::from_utf8_lossy(&std::fs::read(&said)?).into_owned();
    std::fs::remove_file(said)?;
    show(&program.title, &text)?;
    let failures = if wrong.is_some() { failures(&text) } else { String::new() };
    Ok((wrong, failures))
}

fn show(title: &str, text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    write!(out, "\n     Running {title}\n{text}")?;
    out.flush()
}

/// How much of a program's failures is told again: of more, the first and the last.
const TOLD_LINES: usize = 120;

/// What the failed tests of a program said, as libtest prints it between its two lines `failures:`; without those, the end of all.
fn failures(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let is_title = |line: &&str| *line == "failures:";
    let first = lines.iter().position(is_title).map_or(lines.len().saturating_sub(TOLD_LINES), |n| n + 1);
    let last = lines.iter().rposition(is_title).filter(|n| *n >= first).unwrap_or(lines.len());
    let told = &lines[first..last];
    let half = TOLD_LINES / 2;
    if told.len() <= TOLD_LINES {
        return told.join("\n");
    }
    [&told[..half], &["[…]"], &told[told.len() - half..]].concat().join("\n")
}

fn wait(child: &mut Child) -> Result<Option<String>, Box<dyn Error>> {
    let begun = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(None),
            Some(status) => return Ok(Some(status.to_string())),
            None if begun.elapsed() > LONGEST => {
                if let Some(group) = rustix::process::Pid::from_raw(child.id() as i32) {
                    rustix::process::kill_process_group(group, rustix::process::Signal::KILL)?;
                }
                child.wait()?;
                return Ok(Some(format!("not done after {} minutes: killed", LONGEST.as_secs() / 60)));
            }
            None => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// The examples in the documentation.
fn documentation() -> Result<Ended, Box<dyn Error>> {
    let begun = Instant::now();
    let status = cargo(&["--doc"]).status()?;
    let wrong = (!status.success()).then(|| status.to_string());
    let title = "examples in the documentation".into();
    Ok(Ended { title, took: begun.elapsed(), wrong, failures: String::new() })
}

#[cfg(test)]
mod tests {
    use super::{TOLD_LINES, failures};

    #[test]
    fn what_failed_tests_said_is_told_again_and_not_what_others_said() {
        let text = "running 2 tests\nsuccesses:\n\n---- a stdout ----\nfine\n\nfailures:\n\n---- b stdout ----\n2 is not 3\n\n\n\
                    failures:\n    b\n\ntest result: FAILED\n";
        assert_eq!(failures(text).trim(), "---- b stdout ----\n2 is not 3");
        assert_eq!(failures("it was\nkilled"), "it was\nkilled");
        let many: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        let told = failures(&format!("failures:\n{}\nfailures:\n", many.join("\n")));
        assert_eq!(told.lines().count(), TOLD_LINES + 1);
        assert!(told.starts_with("0\n") && told.ends_with("\n999"), "{told}");
    }
}
