//! Programs that make a server, and the server's own process.

use super::Trial;
use crate::beside::Beside;
use crate::child::{self, Ended, How, Task};
use crate::{Error, tools};
use domain::time::Nanos;
use files::durable::Permissions;
use machine::serving::Room;
use machine::workload::{self, Mark};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long one step may take: a thousand million rows at ten thousand a second.
const STEP: Nanos = Nanos::from_secs(100_000);

/// How long a server may take until it answers: it may first have to read a log of gigabytes.
const START: Duration = Duration::from_secs(300);

/// How long it may take to end when it is asked to: it writes out what its memory holds.
const END: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(10);

/// Where a server's own messages go, in its room.
const LOG: &str = "server.log";

/// Steps on the way to a server.
pub(super) struct Steps<'a> {
    pub trial: &'a Trial<'a>,
    /// As whom the server's programs run; none: this user.
    pub user: Option<u32>,
    /// What they find in their environment besides.
    pub environment: &'a [(String, String)],
    /// What was run.
    pub commands: Vec<Vec<String>>,
}

impl Steps<'_> {
    /// Runs a program to its end; `name` is part of the names of the files in the trial's folder that take
    /// its output.
    pub fn run(&mut self, doing: &str, name: &str, argv: Vec<String>) -> Result<(), Error> {
        let at = |what: &str| self.trial.raw.join(format!("server-{name}.{what}.txt"));
        let (stdout, stderr) = (at("out"), at("err"));
        let task = Task {
            argv: &argv,
            folder: Some(Path::new("/")),
            stdout: stdout.clone(),
            stderr: stderr.clone(),
            descriptors: self.trial.descriptors,
            environment: self.environment,
            interval: Nanos::from_millis(100),
            timeout: STEP,
            interrupt: self.trial.interrupt,
            beside: &Beside::default(),
            only_reads: None,
            marks: None,
        };
        let ended = child::run(&task, &mut |_| {})?;
        let command = argv.join(" ");
        self.commands.push(argv);
        let what = match ended {
            Ended { how: How::Exited(0), .. } => return Ok(()),
            Ended { how: How::Interrupted, .. } => return Err(Error::Interrupted),
            Ended { how: How::Exited(code), .. } => format!("failed with exit code {code}"),
            Ended { how, .. } => format!("did not end well ({how:?})"),
        };
        let said = [&stderr, &stdout].into_iter().find_map(|path| tools::complaint(path));
        let said = said.unwrap_or_else(|| "nothing".to_owned());
        Err(Error::Tool(format!("cannot {doing}: `{command}` {what}; it said: {said}")))
    }

    /// The same as the server's user.
    pub fn run_as_server(&mut self, doing: &str, name: &str, argv: Vec<String>) -> Result<(), Error> {
        let argv = self.as_server(argv);
        self.run(doing, name, argv)
    }

    /// A command as the server's user. A change of user forgets that a process dies with its parent, so it is
    /// told again.
    ///
    /// Its segments of shared memory are in a namespace of its own, and gone with it at whichever moment it
    /// is killed.
    fn as_server(&self, argv: Vec<String>) -> Vec<String> {
        let Some(user) = self.user else { return argv };
        let apart = ["unshare", "--ipc", "--"].map(str::to_owned);
        let has_namespaces = Path::new("/proc/self/ns/ipc").exists();
        let words = [
            "setpriv".to_owned(),
            format!("--reuid={user}"),
            format!("--regid={user}"),
            "--clear-groups".into(),
            "--pdeathsig=KILL".into(),
            "--".into(),
        ];
        apart.into_iter().filter(|_| has_namespaces).chain(words).chain(argv).collect()
    }

    /// Starts a server. It dies with this process.
    pub fn spawn(&mut self, at_server: &[String], argv: &[String], room: &Room) -> Result<Process, Error> {
        let argv: Vec<String> = at_server.iter().cloned().chain(self.as_server(argv.to_vec())).collect();
        let path = room.place.join(LOG);
        let log = files::own::append_to_anothers(&path).map_err(|e| Error::file("make", &path, e))?;
        let errors = log.try_clone().map_err(|e| Error::file("open", &path, e))?;
        let (program, arguments) = argv.split_first().expect("a command has at least a program");
        let mark = Mark::new();
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(log).stderr(errors).current_dir("/");
        command.env("LC_ALL", "C").env(workload::VARIABLE, mark.as_str()).process_group(0);
        child::forget_settings(&mut command);
        child::prepare(&mut command, self.trial.descriptors);
        let child = command.spawn().map_err(|e| child::spawn_error(program, e))?;
        self.commands.push(argv);
        Ok(Process { child, mark })
    }

    /// Waits until a server answers.
    pub fn wait_until_ready(
        &self,
        process: &mut Process,
        room: &Room,
        is_ready: fn(&Room) -> bool,
    ) -> Result<(), Error> {
        let deadline = Instant::now() + START;
        while !is_ready(room) {
            if self.trial.interrupt.load(Ordering::Relaxed) {
                return Err(Error::Interrupted);
            }
            let why = if !process.lives() {
                "it ended".to_owned()
            } else if Instant::now() >= deadline {
                format!("it did not answer within {START:?}")
            } else {
                std::thread::sleep(POLL);
                continue;
            };
            let said = tools::complaint(&room.place.join(LOG)).unwrap_or_else(|| "nothing".into());
            return Err(Error::Tool(format!("cannot start the server: {why}; it said: {said}")));
        }
        Ok(())
    }
}

/// Puts what the server has said so far into a trial's folder.
pub(super) fn keep_log(room: &Room, raw: &Path) -> Result<(), Error> {
    let (from, to) = (room.place.join(LOG), raw.join(LOG));
    let copy = || {
        let mut said = files::regular::open_itself(&from)?;
        std::io::copy(&mut said, &mut files::durable::create_new(&to, Permissions::Plain)?)
    };
    copy().map(drop).map_err(|e| Error::file("keep", &from, e))
}

/// The first process of a server; it dies with this value.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    mark: Mark,
}

impl Process {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Asks it to end, so that it has nothing to repair when it is started on the same data again.
    pub fn end(&mut self) {
        if self.lives() {
            // SIGINT is PostgreSQL's "fast", which does not wait for clients; MariaDB ends by SIGTERM alone.
            for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
                let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal);
            }
            let deadline = Instant::now() + END;
            while self.lives() && Instant::now() < deadline {
                std::thread::sleep(POLL);
            }
        }
        self.kill();
    }

    /// Kills it with everything that it started.
    pub fn kill(&mut self) {
        // That it has ended already is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
        workload::end(&self.mark);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A program's file without links, in the path or where Debian has what only root runs.
pub(super) fn find(program: &str, package: &str) -> Result<PathBuf, Error> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let mut folders = std::env::split_paths(&path).chain(system);
    let found = folders.find_map(|folder| std::fs::canonicalize(folder.join(program)).ok());
    found.ok_or_else(|| missing(program, package))
}

pub(super) fn missing(program: &str, package: &str) -> Error {
    let hint = format!("on Debian, install it with `apt install {package}`");
    Error::MissingTool { tool: program.to_owned(), hint }
}

/// The first line that a program prints when it is asked for its version.
pub(super) fn version(program: &Path) -> Result<String, Error> {
    let name = program.display().to_string();
    let output = Command::new(program).arg("--version").env("LC_ALL", "C").stdin(Stdio::null()).output();
    let output = output.map_err(|e| Error::child("start", &name, e))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().next() {
        Some(line) if output.status.success() && !line.trim().is_empty() => Ok(line.trim().to_owned()),
        _ => Err(Error::Tool(format!("`{name} --version` does not state a version"))),
    }
}
