//! Building the programs of tests, and running one.

use super::said::{self, Outcome, Said, Test};
use cargo_metadata::{Artifact, Message};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// What takes longer has hung.
pub const LONGEST: Duration = Duration::from_secs(40 * 60);

/// One program of tests.
pub struct Program {
    pub name: String,
    path: PathBuf,
    /// Where cargo runs it: its package's folder.
    folder: PathBuf,
    /// As cargo names it.
    pub title: String,
    /// Its source, within the workspace: `crates/machine/tests/kill.rs`.
    pub source: String,
    /// Which of its tests are run, by their whole names; empty: all.
    pub only: Vec<String>,
    /// The module of these tests, for a file of a suite: their names lack it here.
    module: Option<String>,
}

/// A program of all the files of its folder, each a module of it. Each module runs as a program of its own.
const SUITE: &str = "suite";

/// How it ended.
pub struct Ended {
    pub title: String,
    pub took: Duration,
    /// Why it is not well.
    pub wrong: Option<String>,
    pub tests: Vec<Test>,
}

/// What all programs of a run are given.
#[derive(Clone, Copy)]
pub struct ProgramOptions<'a> {
    pub environment: &'a [(&'a str, String)],
    /// When none is begun any more, and what runs is ended. Without one each has [`LONGEST`].
    pub deadline: Option<Instant>,
}

impl ProgramOptions<'_> {
    pub fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    fn longest(&self) -> Duration {
        self.deadline.map_or(LONGEST, |deadline| deadline.saturating_duration_since(Instant::now()))
    }
}

fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["test", "--release", "--locked"]);
    command
}

/// Builds programs of tests: those of these names in a folder `tests`, or all without a name.
pub fn build(names: &[&str]) -> Result<Vec<Program>, Box<dyn Error>> {
    let mut command = cargo();
    command.args(["--workspace", "--no-run", "--message-format=json-render-diagnostics"]);
    let mut targets = BTreeSet::new();
    for name in names {
        targets.extend(targets_of(name)?);
    }
    for target in targets {
        command.args(["--test", &target]);
    }
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let output = child.stdout.take().ok_or("a pipe that was asked for is there")?;
    let mut programs = Vec::new();
    for message in Message::parse_stream(BufReader::new(output)) {
        if let Message::CompilerArtifact(artifact) = message? {
            programs.extend(program(artifact));
        }
    }
    let status = child.wait()?;
    if !status.success() {
        return Err(format!("cannot build the tests: {status}").into());
    }
    let mut parts = Vec::new();
    for program in programs {
        parts.extend(if program.name == SUITE { program.modules()? } else { vec![program] });
    }
    parts.retain(|program| names.is_empty() || names.contains(&program.name.as_str()));
    Ok(parts)
}

/// The targets that have the tests of a file of this name: its own, or its folder's suite. Two crates may
/// have files of one name. Cargo says which names there are where there is none.
fn targets_of(name: &str) -> Result<BTreeSet<String>, Box<dyn Error>> {
    let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates");
    let mut targets = BTreeSet::new();
    for entry in fs::read_dir(crates)? {
        let tests = entry?.path().join("tests");
        let has = |name: &str| tests.join(name).with_extension("rs").exists();
        if has(name) {
            targets.insert(if has(SUITE) { SUITE } else { name }.to_owned());
        }
    }
    if targets.is_empty() {
        targets.insert(name.to_owned());
    }
    Ok(targets)
}

fn program(artifact: Artifact) -> Option<Program> {
    let path = artifact.executable.filter(|_| artifact.profile.test)?;
    let folder = artifact.manifest_path.parent()?;
    let full = &artifact.target.src_path;
    let source = full.strip_prefix(folder).unwrap_or(full);
    let kind = if artifact.target.is_test() { "" } else { "unittests " };
    let title = format!("{kind}{source} ({path})");
    // A crate lies in `crates`, but for this one.
    let workspace = folder.ancestors().find(|above| above.join("Cargo.lock").exists())?;
    let source = full.strip_prefix(workspace).unwrap_or(full).to_string();
    let (path, folder) = (path.into(), folder.into());
    Some(Program { name: artifact.target.name, path, folder, title, source, only: Vec::new(), module: None })
}

impl Program {
    /// The modules of a suite, each as a program; what is in no module stays one of the suite's name.
    fn modules(self) -> Result<Vec<Program>, Box<dyn Error>> {
        let output = Command::new(&self.path).args(["--list", "--format=terse"]).output()?;
        if !output.status.success() {
            return Err(format!("cannot list the tests of {}: {}", self.title, output.status).into());
        }
        let mut parts: BTreeMap<Option<&str>, Vec<String>> = BTreeMap::new();
        let text = String::from_utf8(output.stdout)?;
        for test in text.lines().filter_map(|line| line.strip_suffix(": test")) {
            let (module, name) =
                test.split_once("::").map_or((None, test), |(module, name)| (Some(module), name));
            parts.entry(module).or_default().push(name.to_owned());
        }
        let part = |(module, only): (Option<&str>, Vec<String>)| {
            let name = module.unwrap_or(SUITE);
            let of_module = |text: &str| text.replace(&format!("{SUITE}.rs"), &format!("{name}.rs"));
            Program {
                name: name.to_owned(),
                path: self.path.clone(),
                folder: self.folder.clone(),
                title: of_module(&self.title),
                source: of_module(&self.source),
                only,
                module: module.map(str::to_owned),
            }
        };
        Ok(parts.into_iter().map(part).collect())
    }

    /// The name of one of its tests, as its program knows it.
    fn full_name(&self, test: &str) -> String {
        self.module.as_ref().map_or_else(|| test.to_owned(), |module| format!("{module}::{test}"))
    }

    /// Runs it, and shows all that it said at once: lines of two are never mixed.
    pub fn run(&self, order: ProgramOptions<'_>) -> Ended {
        let begun = Instant::now();
        let (said, wrong) = self
            .said(order)
            .unwrap_or_else(|error| (Said::default(), Some(format!("it could not be run: {error}"))));
        let wrong = wrong.or_else(|| said.miscounted.clone());
        let ended = Ended { title: self.title.clone(), took: begun.elapsed(), wrong, tests: said.tests };
        // Whoever reads this is told of everything else at the end.
        let _ = show(&ended, &said.loose);
        ended
    }

    fn said(&self, order: ProgramOptions<'_>) -> Result<(Said, Option<String>), Box<dyn Error>> {
        let path = self.path.with_extension(format!("{}.said", self.name));
        let file = File::create(&path)?;
        let mut command = in_own_mounts(&self.path);
        if !self.only.is_empty() {
            command.args(self.only.iter().map(|test| self.full_name(test))).arg("--exact");
        }
        command
            // One word each: a harness of its own takes any other word for a test's name.
            .args(["-Zunstable-options", "--format=json", "--report-time", "--show-output"])
            // This is what lets libtest give JSON. Nothing is compiled with it.
            .env("RUSTC_BOOTSTRAP", "1")
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .env("RUST_BACKTRACE", "0")
            .envs(order.environment.iter().map(|(name, value)| (*name, value.as_str())))
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            // What it started ends with it where it hangs.
            .process_group(0);
        let ending = wait(&mut command.spawn()?, order.longest())?;
        let text = String::from_utf8_lossy(&fs::read(&path)?).into_owned();
        fs::remove_file(path)?;
        let mut said = said::read(&text);
        if let Some(module) = &self.module {
            said.without_module(module);
        }
        match ending {
            Ending::Well => Ok((said, None)),
            Ending::Wrong(why) => Ok((said, Some(why))),
            Ending::OutOfTime(why) => {
                said.cut();
                Ok((said, Some(why)))
            }
        }
    }
}

/// A program of tests with mounts of its own, where that is allowed: what one mounts beside another would
/// disturb a trial of the other's, as a change of this machine (unshare(1)).
fn in_own_mounts(program: &Path) -> Command {
    const UNSHARE: [&str; 3] = ["--mount", "--propagation", "private"];
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    let is_allowed = || {
        let mut tried = Command::new("unshare");
        tried.args(UNSHARE).arg("true").stdin(Stdio::null()).stderr(Stdio::null());
        tried.status().is_ok_and(|status| status.success())
    };
    if !*ALLOWED.get_or_init(is_allowed) {
        return Command::new(program);
    }
    let mut command = Command::new("unshare");
    command.args(UNSHARE).arg(program);
    command
}

impl Ended {
    /// What its failed tests said, and a line where it failed as a whole.
    pub fn failures(&self) -> String {
        let failed = self.tests.iter().filter(|test| test.outcome == Outcome::Failed);
        failed.map(|test| format!("---- {} ----\n{}", test.name, shortened(&test.output))).collect()
    }

    /// What is wrong, in a few lines: for whoever keeps only the last of a run.
    pub fn problem(&self) -> Option<String> {
        let failed = self.tests.iter().filter(|test| test.outcome == Outcome::Failed);
        let tests = failed.map(|test| format!("\n  {}\n{}", test.name, panicked(&test.output)));
        Some(format!("{}: {}{}", self.title, self.wrong.as_ref()?, tests.collect::<String>()))
    }

    /// Whether something is wrong of which no test's result tells.
    pub fn is_wrong_as_a_whole(&self) -> bool {
        self.wrong.is_some() && self.tests.iter().all(|test| test.outcome != Outcome::Failed)
    }
}

fn show(ended: &Ended, loose: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "\n     Running {}", ended.title)?;
    out.write_all(loose.as_bytes())?;
    for test in &ended.tests {
        let told = match &test.outcome {
            Outcome::Passed => "ok",
            Outcome::Failed => "FAILED",
            Outcome::Skipped(_) => "skipped",
        };
        writeln!(out, "test {} ... {told} ({:.1} s)", test.name, test.took.as_secs_f64())?;
        out.write_all(test.output.as_bytes())?;
    }
    out.flush()
}

/// How much of a test's failure is told again: of more, the first and the last.
const TOLD_LINES: usize = 120;

fn shortened(text: &str) -> String {
    let told: Vec<&str> = text.lines().collect();
    let half = TOLD_LINES / 2;
    let lines = if told.len() <= TOLD_LINES {
        told
    } else {
        [&told[..half], &["[…]"], &told[told.len() - half..]].concat()
    };
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

/// How many lines, and how much of each, are told of how a test panicked.
const PANIC_LINES: usize = 12;
const PANIC_WIDTH: usize = 200;

/// How a test panicked: the first lines from there on, indented. Of one that did not panic, the last lines.
fn panicked(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let begin = lines
        .iter()
        .position(|line| line.starts_with("thread '") && line.contains(" panicked at "))
        .unwrap_or(lines.len().saturating_sub(PANIC_LINES));
    let told = lines[begin..]
        .iter()
        .filter(|line| !line.starts_with("note: run with `RUST_BACKTRACE"))
        .take(PANIC_LINES);
    told.map(|line| format!("    {}\n", line.chars().take(PANIC_WIDTH).collect::<String>())).collect()
}

/// How a process of tests ended.
enum Ending {
    Well,
    Wrong(String),
    /// It was killed.
    OutOfTime(String),
}

fn wait(child: &mut Child, longest: Duration) -> Result<Ending, Box<dyn Error>> {
    let begun = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(Ending::Well),
            Some(status) => return Ok(Ending::Wrong(status.to_string())),
            None if begun.elapsed() > longest => {
                if let Some(group) = rustix::process::Pid::from_raw(child.id() as i32) {
                    rustix::process::kill_process_group(group, rustix::process::Signal::KILL)?;
                }
                child.wait()?;
                let why = format!("not done after {} minutes: killed", longest.as_secs() / 60);
                return Ok(Ending::OutOfTime(why));
            }
            None => thread::sleep(Duration::from_millis(50)),
        }
    }
}

/// Clippy, of everything; as long as others want a CPU it has next to nothing of it. A failure is told as one
/// of a test is.
pub fn lints() -> Ended {
    let begun = Instant::now();
    let mut command = Command::new("nice");
    command.arg("--adjustment=19").arg(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["clippy", "--release", "--locked", "--workspace", "--all-targets", "--quiet"]);
    let output = command.args(["--", "-D", "warnings"]).stdin(Stdio::null()).output();
    let (wrong, said) = match output {
        Ok(output) if output.status.success() => (None, String::new()),
        Ok(output) => (Some(output.status.to_string()), String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => (Some("it could not be run".to_owned()), error.to_string()),
    };
    let outcome = if wrong.is_some() { Outcome::Failed } else { Outcome::Passed };
    let test =
        Test { name: "clippy".to_owned(), outcome, took: begun.elapsed(), output: said, is_cut: false };
    let ended = Ended { title: "lints".to_owned(), took: begun.elapsed(), wrong, tests: vec![test] };
    // Whoever reads this is told of it at the end too.
    let _ = show(&ended, "");
    ended
}

/// The examples in the documentation of those crates that have any; `None` where none has: without one,
/// cargo would build and read all of them for nothing, which takes a minute.
pub fn documentation() -> Result<Option<Ended>, Box<dyn Error>> {
    let begun = Instant::now();
    let mut arguments = vec!["--doc".to_owned()];
    for folder in fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../crates"))? {
        let folder = folder?;
        if has_examples(&folder.path().join("src"))? {
            arguments.extend(["--package".to_owned(), folder.file_name().to_string_lossy().into_owned()]);
        }
    }
    if arguments.len() == 1 {
        return Ok(None);
    }
    let output = cargo().args(arguments).stderr(Stdio::inherit()).output()?;
    let said = said::read(&String::from_utf8_lossy(&output.stdout));
    let wrong = (!output.status.success()).then(|| output.status.to_string());
    let title = "examples in the documentation".into();
    let ended = Ended { title, took: begun.elapsed(), wrong, tests: said.tests };
    show(&ended, &said.loose)?;
    Ok(Some(ended))
}

/// Whether a comment in a file of this folder, or below, shows code.
fn has_examples(folder: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let has = if path.is_dir() {
            has_examples(&path)?
        } else {
            path.extension().is_some_and(|end| end == "rs") && shows_code(&fs::read_to_string(&path)?)
        };
        if has {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a comment has code that rustdoc would run: between fences of which the first does not say `text`,
/// which is all that there is in this workspace so far.
fn shows_code(source: &str) -> bool {
    let fences = source.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///").or_else(|| line.strip_prefix("//!"))?.trim_start().strip_prefix("```")
    });
    fences.step_by(2).any(|language| language.trim() != "text")
}

#[cfg(test)]
mod tests {
    use super::{PANIC_LINES, TOLD_LINES, panicked, shortened, shows_code};

    #[test]
    fn examples_in_comments_are_told_from_drawings() {
        assert!(!shows_code("let a = 1; // ```\n"));
        assert!(!shows_code("//! ```text\n//! a -> b\n//! ```\n/// ```text\n/// b\n/// ```\n"));
        assert!(shows_code(
            "//! ```text\n//! a -> b\n//! ```\n    /// ```\n    /// assert!(true);\n    /// ```\n"
        ));
        assert!(shows_code("/// ```no_run\n/// run();\n/// ```\n"));
    }

    #[test]
    fn of_a_panic_the_first_lines_are_told_whatever_was_said_before() {
        let said: String = (0..1000).map(|n| format!("{n}\n")).collect();
        let panic = "thread 'a::b' (7) panicked at tests/a.rs:1:2:\nassertion failed\nnote: run with \
            `RUST_BACKTRACE=1` environment variable to display a backtrace\n";
        let told = "    thread 'a::b' (7) panicked at tests/a.rs:1:2:\n    assertion failed\n";
        assert_eq!(panicked(&format!("{said}{panic}")), told);
        assert_eq!(panicked(&said).lines().count(), PANIC_LINES);
        assert!(panicked(&said).ends_with("    999\n"));
        assert_eq!(panicked(""), "");
    }

    #[test]
    fn of_a_long_failure_the_first_and_the_last_are_told() {
        assert_eq!(shortened("2 is not 3\n"), "2 is not 3\n");
        let many: String = (0..1000).map(|n| format!("{n}\n")).collect();
        let told = shortened(&many);
        assert_eq!(told.lines().count(), TOLD_LINES + 1);
        assert!(told.starts_with("0\n") && told.ends_with("\n999\n"), "{told}");
    }
}
