//! A place of its own for each test: notebook, state and work folders, and the program started in them.
#![allow(dead_code)]

pub mod bounded;
pub mod database_server;
pub mod lab;
pub mod picture;
pub mod terminal;

use assert_cmd::assert::OutputAssertExt;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Folders that nobody else uses, removed at the end. Tests that have one run one after the other: each
/// measures, and would disturb the others.
pub struct Place {
    pub folder: TempDir,
    _alone: MutexGuard<'static, ()>,
}

static ALONE: Mutex<()> = Mutex::new(());

impl Place {
    pub fn new() -> Self {
        let begun = Instant::now();
        // A test that failed leaves nothing that another would see.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        testing::waited(begun.elapsed());
        Self { folder: tempfile::tempdir().unwrap(), _alone: alone }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with these arguments, in this place.
    pub fn flyball(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_flyball"));
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env("FLYBALL_NOTEBOOK", self.path("notebook"))
            .env("FLYBALL_STATE", self.path("state"))
            .env("FLYBALL_RUN", self.folder.path())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }

    pub fn output(&self, arguments: &[&str]) -> Output {
        self.flyball(arguments).output().unwrap()
    }

    /// Runs it and wants exit code 0; gives its standard output.
    pub fn ok(&self, arguments: &[&str]) -> String {
        let assert = self.flyball(arguments).assert().success();
        String::from_utf8(assert.get_output().stdout.clone()).unwrap()
    }

    /// Runs a study to its end. On a busy machine all trials of a cell may have been disturbed: exit code 3.
    pub fn measure(&self, arguments: &[&str]) -> String {
        let assert = self.flyball(arguments).assert().code([0, 3].as_slice());
        String::from_utf8(assert.get_output().stdout.clone()).unwrap()
    }

    /// Runs it and wants this exit code; gives its standard error.
    pub fn fails(&self, code: i32, arguments: &[&str]) -> String {
        stderr(self.flyball(arguments).assert().code(code).get_output())
    }

    pub fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.flyball(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Writes a study file and gives its name.
    pub fn study(&self, name: &str, text: &str) -> String {
        let path = self.path(&format!("{name}.toml"));
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// The names of all trial folders of the notebook, sorted.
    pub fn trials(&self) -> Vec<String> {
        let mut names = Vec::new();
        for run in folders(&self.path("notebook/runs")) {
            names.extend(folders(&run.join("trials")).iter().map(|t| name_of(t)));
        }
        names.sort();
        names
    }

    /// The text of every stored trial.
    pub fn trial_files(&self) -> Vec<String> {
        let runs = folders(&self.path("notebook/runs"));
        let trials = runs.iter().flat_map(|run| folders(&run.join("trials")));
        trials.filter_map(|trial| fs::read_to_string(trial.join("trial.json")).ok()).collect()
    }

    /// Everything that lies in the work folder.
    pub fn work_files(&self) -> Vec<PathBuf> {
        files(&self.path("notebook/work"))
    }

    /// The loop devices over files of this place: others are somebody else's.
    pub fn loops(&self) -> BTreeSet<String> {
        let folder = self.folder.path().to_str().unwrap();
        let names = fs::read_dir("/sys/block").unwrap().map(|entry| entry.unwrap().file_name());
        let file = |name: &String| fs::read_to_string(format!("/sys/block/{name}/loop/backing_file"));
        let is_here = |name: &String| file(name).is_ok_and(|file| file.contains(folder));
        names.map(|name| name.into_string().unwrap()).filter(is_here).collect()
    }

    /// Everything that a run may have left: work files, and trials half written. The lock of the staging
    /// folder stays.
    pub fn left_over(&self) -> Vec<PathBuf> {
        let staged =
            files(&self.path("notebook/staging")).into_iter().filter(|path| !path.ends_with(".lock"));
        self.work_files().into_iter().chain(staged).collect()
    }
}

/// A small study over dd: four cells of a few milliseconds each.
pub const SMALL: &str = r#"
flyball = 1
name = "small"
question = "Does the block size decide how fast a small file is read?"

[target]
file = "4MiB"

[workload.read]
tool = "dd"
options = { direction = "read" }

[workload.write]
tool = "dd"
options = { direction = "write" }

[factor.block]
option = "bs"
levels = ["4k", "256k"]

[measure]
repeats = [3, 3]
# A busy host fails no test: its trials count.
under_load = true
settle = "1s"
"#;

/// Two levels on a simulated machine, in a moment.
pub const SIMULATED: &str = r#"
flyball = 1
name = "small"
question = "Does the block size decide how fast a file is read?"

[target]
file = "8MiB"

[workload.read]
tool = "fio"
options = { rw = "read", direct = true, size = "8m" }

[factor.block]
option = "bs"
levels = ["4k", "64k"]

[measure]
repeats = [6, 6]
"#;

/// Of a study: a target on two loop devices that mirror each other. Further keys of the array may follow.
pub const MIRROR: &str = r#"
[target]
file = "1MiB"

[stack.disks]
kind = "devices"
count = 2
loop = "16MiB"

[stack.array]
kind = "md"
on = "disks"
level = 1
"#;

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Every process.
pub fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The child of a process that is the program with this first argument.
pub fn child_of(parent: u32, command: &str) -> Option<u32> {
    pids().find(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let ppid = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        ppid == Some(parent) && arguments.split(|byte| *byte == 0).nth(1) == Some(command.as_bytes())
    })
}

/// Waits for something to become true, two minutes at the most: a lab machine boots for half a minute on a
/// busy host.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Why nothing can be made in a folder of somebody's here: its filesystem is too full.
pub fn without_space(folder: &Path) -> Option<String> {
    let checked = runner::ExistingFolder::check(folder, domain::units::Bytes::from_mib(1));
    checked.err().map(|error| format!("needs a filesystem with space: {error}"))
}

pub fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().map(|e| e.unwrap().path());
    entries.filter(|p| p.is_dir()).collect()
}

pub fn files(path: &Path) -> Vec<PathBuf> {
    fs::read_dir(path).into_iter().flatten().map(|e| e.unwrap().path()).collect()
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}
