//! The programs that do the work: one file a tool, one list (`driver`).
//!
//! A driver turns a workload into a literal command and reads the tool's report. It refuses every option that
//! would write anywhere but to the target and the trial's own folder, or run another program: a study file is
//! somebody's text, and it runs as root.

mod bonnie;
mod command;
mod dd;
pub(crate) mod fio;
mod imported;
mod pgbench;
mod sysbench;

use crate::Error;
use crate::child::{Ended, How};
use crate::server::Access;
use domain::outcome::Outcome;
use domain::study::{Tool, Workload};
use domain::units::Bytes;
use machine::Machine;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;
use workloads::fio::steady_state::Conditioning;

/// What a workload runs on and where its report goes.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// What to run.
    pub workload: &'a Workload,
    /// The target and its size, where the study has one.
    pub target: Option<(&'a Path, Bytes)>,
    /// The trial's own folder for raw output; absolute.
    pub raw: &'a Path,
    /// The server that it asks, once that runs; none in a plan.
    pub server: Option<&'a Access>,
    /// An empty folder for files of its own, once it is made; none in a plan.
    pub folder: Option<&'a Path>,
}

/// A literal command, and where it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invocation {
    /// Program and arguments.
    pub argv: Vec<String>,
    /// The folder it runs in; `None` for that of Flyball.
    pub folder: Option<PathBuf>,
}

/// What one tool's file offers.
struct Driver {
    /// The program to ask for its version, and Debian's package that has it.
    program: Option<(&'static str, &'static str)>,
    invocation: fn(&Job<'_>) -> Result<Invocation, Error>,
    outcome: fn(&Job<'_>, version: &str) -> Result<Outcome, Error>,
    /// The files of the trial's folder in which the tool says why it failed, the most telling first.
    complaints: &'static [&'static str],
}

/// The list of tools.
fn driver(tool: &Tool) -> &'static Driver {
    match tool {
        Tool::Fio => &fio::DRIVER,
        Tool::Dd => &dd::DRIVER,
        Tool::Sysbench => &sysbench::DRIVER,
        Tool::Pgbench => &pgbench::DRIVER,
        Tool::Bonnie => &bonnie::DRIVER,
        Tool::Imported => &imported::DRIVER,
        Tool::Command { .. } => &command::DRIVER,
    }
}

/// How long a tool may take to say its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// The name of the file that holds a tool's standard output.
pub const STDOUT: &str = "stdout.txt";
/// The name of the file that holds a tool's standard error.
pub const STDERR: &str = "stderr.txt";

/// A bound on the text that patterns are looked for in, of each of standard output and error: the end of it.
const MOST_TEXT: u64 = 4 << 20;

/// How much of a tool's complaint is quoted.
const QUOTED: usize = 600;

/// The version that a workload's tool states: `fio-3.33`, `dd (coreutils) 9.1`; the program's name for a command,
/// which has no way to ask that is the same for all.
///
/// # Errors
/// [`Error::MissingTool`], with Debian's package; [`Error::Tool`] where it does not say.
pub fn detect(machine: &dyn Machine, tool: &Tool) -> Result<String, Error> {
    let Some((program, package)) = driver(tool).program else {
        let Tool::Command { argv, .. } = tool else { return Err(imported::refusal()) };
        return command::found(argv.first().map_or("", String::as_str));
    };
    // bonnie++ has no such option, and states its version in what it says of its usage.
    let argv = match tool {
        Tool::Bonnie => vec![program],
        _ => vec![program, "--version"],
    };
    let output = machine.run(&argv, VERSION_LIMIT).map_err(|e| {
        if e.kind() != std::io::ErrorKind::NotFound {
            return Error::child("start", program, e);
        }
        Error::MissingTool {
            tool: program.into(),
            hint: format!("on Debian, install it with `apt install {package}`"),
        }
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let stated = match tool {
        Tool::Bonnie => errors.lines().chain(text.lines()).find_map(|line| line.strip_prefix("Version:")),
        _ => text.lines().next().filter(|_| output.code == Some(0)),
    };
    let stated = stated.map(str::trim).filter(|line| !line.is_empty()).ok_or_else(|| {
        Error::Tool(format!("`{}` does not state a version; is it the real {program}?", argv.join(" ")))
    })?;
    match tool {
        Tool::Bonnie => Ok(format!("{program} {stated}")),
        Tool::Sysbench if !stated.starts_with("sysbench 1.") => Err(Error::Unsupported(format!(
            "`{stated}` is not sysbench 1, whose options a study has; install that"
        ))),
        _ => Ok(stated.to_owned()),
    }
}

/// The literal command of a workload.
///
/// # Errors
/// [`Error::Option`] for an option that is refused, [`Error::NoTarget`] where one is needed.
pub fn invocation(job: &Job<'_>) -> Result<Invocation, Error> {
    (driver(&job.workload.tool).invocation)(job)
}

/// What is done to the target before a workload is measured.
///
/// # Errors
/// [`Error::Option`].
pub(crate) fn conditioning(job: &Job<'_>) -> Result<Option<Conditioning>, Error> {
    match job.workload.tool {
        Tool::Fio => fio::conditioning(job),
        _ => Ok(None),
    }
}

/// What the tool reported, once it has ended by itself with success.
///
/// # Errors
/// [`Error::Tool`] where the report is missing or cannot be understood.
pub fn outcome(job: &Job<'_>, version: &str) -> Result<Outcome, Error> {
    (driver(&job.workload.tool).outcome)(job, version)
}

/// Why a run that ended like this is a failure; `None` for success.
pub fn failure(job: &Job<'_>, program: &str, ended: &Ended) -> Option<String> {
    let what = match ended.how {
        How::Exited(0) => return None,
        How::Exited(code) => format!("failed with exit code {code}"),
        How::Killed(signal) => format!("was killed by {}, and not by flyball", signal_name(signal)),
        How::TimedOut => {
            format!("was still running after {} and was ended; raise `timeout` in [measure]", ended.elapsed)
        }
        How::PrintedTooMuch => {
            format!("printed more than {} and was ended", crate::child::MOST_PRINTED)
        }
        How::Interrupted => "was ended because flyball was asked to stop".into(),
    };
    let driver = driver(&job.workload.tool);
    let said = driver.complaints.iter().find_map(|name| complaint(&job.raw.join(name)));
    let said = match said {
        Some(text) => format!("; it said: {text}"),
        // fio may say nothing but an error number in its report.
        None if matches!(ended.how, How::Exited(_)) => {
            (driver.outcome)(job, "").err().map(|e| format!("; its report: {e}")).unwrap_or_default()
        }
        None => String::new(),
    };
    Some(format!("workload `{}`: `{program}` {what}{said}", job.workload.name))
}

/// The last words in a file, on one line.
pub(crate) fn complaint(path: &Path) -> Option<String> {
    let text = read_end(path, 64 << 10).ok()?;
    let text = text.split('{').next().expect("a split has a first part");
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let line = domain::inert::one_line(&lines.join(" | ")).into_owned();
    let start = line.char_indices().rev().take(QUOTED).last()?.0;
    Some(line[start..].to_owned())
}

/// The end of a file as text, at most `most` bytes.
fn read_end(path: &Path, most: u64) -> Result<String, Error> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|e| Error::file("read", path, e))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        libc::SIGKILL => "SIGKILL",
        libc::SIGTERM => "SIGTERM",
        libc::SIGINT => "SIGINT",
        libc::SIGSEGV => "SIGSEGV",
        libc::SIGABRT => "SIGABRT",
        libc::SIGBUS => "SIGBUS",
        libc::SIGHUP => "SIGHUP",
        _ => return format!("signal {signal}"),
    };
    format!("{name} (signal {signal})")
}

/// The target, where the workload needs one.
pub(crate) fn needed_target<'a>(job: &Job<'a>) -> Result<(&'a Path, Bytes), Error> {
    job.target.ok_or_else(|| Error::NoTarget { workload: job.workload.name.clone() })
}

/// Options that make no load.
fn refused(tool: &'static str, job: &Job<'_>, error: &workloads::options::OptionError) -> Error {
    let value = job.workload.options.get(&error.option).cloned().unwrap_or_default();
    Error::Option { tool, key: error.option.clone(), value, why: format!("it {}", error.problem) }
}

/// A report that its parser could not use.
fn unusable(job: &Job<'_>, error: &workloads::report::ToolError) -> Error {
    Error::Tool(format!("workload `{}`: {error}", job.workload.name))
}

/// A path as an argument; ours are text, for they are made of it.
pub(crate) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::Timestamp;
    use machine::CommandOutput;
    use std::io;

    /// A machine on which every program prints this, or on which there is none.
    struct Prints(Option<&'static str>);

    impl Machine for Prints {
        fn read(&self, _: &Path) -> io::Result<Vec<u8>> {
            Err(io::ErrorKind::NotFound.into())
        }
        fn write(&self, _: &Path, _: &[u8]) -> io::Result<()> {
            Err(io::ErrorKind::NotFound.into())
        }
        fn list(&self, _: &Path) -> io::Result<Vec<String>> {
            Err(io::ErrorKind::NotFound.into())
        }
        fn link(&self, _: &Path) -> io::Result<PathBuf> {
            Err(io::ErrorKind::NotFound.into())
        }
        fn run(&self, _: &[&str], _: Duration) -> io::Result<CommandOutput> {
            let stdout = self.0.ok_or(io::ErrorKind::NotFound)?.into();
            Ok(CommandOutput { code: Some(0), stdout, stderr: Vec::new() })
        }
        fn now(&self) -> Timestamp {
            Timestamp::default()
        }
    }

    #[test]
    fn a_missing_tool_is_named_with_its_package() {
        let error = |tool| detect(&Prints(None), &tool).unwrap_err().to_string();
        assert_eq!(
            error(Tool::Fio),
            "cannot run `fio`: there is no such program in PATH; on Debian, install it with `apt install fio`"
        );
        assert!(error(Tool::Dd).ends_with("`apt install coreutils`"));
    }

    #[test]
    fn a_tool_states_its_version_in_its_first_line() {
        let printed = "dd (coreutils) 9.1\nCopyright (C) 2022 Free Software Foundation, Inc.\n";
        assert_eq!(detect(&Prints(Some(printed)), &Tool::Dd).unwrap(), "dd (coreutils) 9.1");
        let error = detect(&Prints(Some("\n")), &Tool::Fio).unwrap_err().to_string();
        assert_eq!(error, "`fio --version` does not state a version; is it the real fio?");
    }

    #[test]
    fn versions_are_looked_at() {
        let usage = "usage: bonnie++ [-d scratch-dir]\n\nVersion: 2.00a\n";
        assert_eq!(detect(&Prints(Some(usage)), &Tool::Bonnie).unwrap(), "bonnie++ 2.00a");
        let old = detect(&Prints(Some("sysbench 0.4.12\n")), &Tool::Sysbench).unwrap_err().to_string();
        assert!(old.starts_with("`sysbench 0.4.12` is not sysbench 1"), "{old}");
        let new = detect(&Prints(Some("sysbench 1.0.20\n")), &Tool::Sysbench).unwrap();
        assert_eq!(new, "sysbench 1.0.20");
    }

    #[test]
    fn a_complaint_is_one_short_line_without_control_characters() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stderr.txt");
        std::fs::write(&path, format!("first\x1b[31m\n\n{}\n{{json", "é".repeat(1000))).unwrap();
        let text = complaint(&path).unwrap();
        assert_eq!(text, "é".repeat(QUOTED));
        std::fs::write(&path, "a\x07\nb\n").unwrap();
        assert_eq!(complaint(&path).as_deref(), Some("a\\x07 | b"));
    }
}
