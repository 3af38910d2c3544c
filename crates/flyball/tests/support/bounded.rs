//! Running the program over what is broken or hostile: it has to end, by itself, in time and within a bound
//! of memory.

use rustix::process::{Pid, Signal, kill_process_group};
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Longer than any of these commands takes on the busiest host; what takes longer has hung.
const FOR_EVER: Duration = Duration::from_secs(120);

/// KiB of addresses. No command of these tests needs a tenth of it.
const MAX_MEMORY: &str = "6291456";

/// How a command ended.
pub struct Ended {
    pub status: Option<ExitStatus>,
    pub out: String,
    pub err: String,
    pub took: Duration,
}

impl Ended {
    /// What no command may do, whatever it is given.
    pub fn fault(&self) -> Option<String> {
        let Some(status) = self.status else { return Some("it hangs".into()) };
        let last = self.err.lines().last().unwrap_or_default();
        let crashed = self.err.contains("panicked at") || status.signal().is_some();
        let is_known = matches!(status.code(), Some(0..=6));
        (crashed || !is_known).then(|| format!("{status}: {last}"))
    }

    /// Whether it has complained.
    pub fn complains(&self) -> bool {
        self.status.is_none_or(|status| !status.success()) || !self.err.is_empty()
    }
}

/// Waits for the end of a program.
///
/// # Panics
/// Where it does not end.
pub fn wait(child: &mut Child) -> ExitStatus {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        assert!(begun.elapsed() < FOR_EVER, "process {} does not end", child.id());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Runs a command to its end, with what it says in files of a folder. What is not done in time is killed with
/// all its children.
pub fn run(command: &Command, folder: &Path) -> Ended {
    let mut bounded = Command::new("sh");
    bounded.args(["-c", "ulimit -v \"$0\"; exec \"$@\"", MAX_MEMORY]);
    bounded.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => bounded.env(name, value),
            None => bounded.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        bounded.current_dir(folder);
    }
    let [out, err] = ["said.out", "said.err"].map(|name| folder.join(name));
    bounded.stdin(Stdio::null()).stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
    let mut child = bounded.process_group(0).spawn().unwrap();
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if begun.elapsed() > FOR_EVER {
            kill_process_group(Pid::from_child(&child), Signal::KILL).unwrap();
            child.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let text = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
    Ended { status, out: text(&out), err: text(&err), took: begun.elapsed() }
}
