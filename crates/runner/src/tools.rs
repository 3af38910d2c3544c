//! The programs that do the work: found, asked for their version, their reports opened. What is known of each
//! is in the crate `workloads`.

use crate::Error;
use crate::child::{Ended, How};
use domain::outcome::Outcome;
use domain::study::Tool;
use machine::Machine;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;
use workloads::{Program, ReportLength, Said, User};

pub use workloads::{Host, Invocation, Job, STDERR, STDOUT};

/// How long a tool may take to say its version.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// A bound on the text that patterns are looked for in, of each of standard output and error: the end of it.
const MAX_TEXT: u64 = 4 << 20;

/// How much of a tool's complaint is quoted.
const QUOTED: usize = 600;

/// What command lines depend on of this machine.
pub fn host() -> Host {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let meminfo = std::fs::read_to_string("/proc/meminfo").ok();
    let memory = meminfo.and_then(|text| parse::kernel::meminfo::parse(&text).ok()?.total);
    let user = if rustix::process::geteuid().is_root() { User::Root } else { User::Other };
    Host { cpus: u32::try_from(cpus).unwrap_or(u32::MAX), memory, user }
}

/// The version that a workload's tool states: `fio-3.33`, `dd (coreutils) 9.1`; the program's name for a
/// command, which has no way to ask that is the same for all.
///
/// # Errors
/// [`Error::MissingTool`], with Debian's package; [`Error::Tool`] where it does not say;
/// [`Error::Unsupported`] for what nobody runs.
pub fn detect(machine: &dyn Machine, tool: &Tool) -> Result<String, Error> {
    let known = workloads::of(tool);
    let (program, version, package) = match known.program(tool)? {
        Program::Named(program) => return found(program),
        Program::Flyball => return Ok(concat!("flyball ", env!("CARGO_PKG_VERSION")).to_owned()),
        Program::Known { name, version, package } => (name, version, package),
    };
    let argv: Vec<&str> = [program].into_iter().chain(version.iter().copied()).collect();
    let output = machine.run(&argv, VERSION_LIMIT).map_err(|e| {
        if e.kind() != std::io::ErrorKind::NotFound {
            return Error::child("start", program, e);
        }
        Error::MissingTool {
            tool: program.into(),
            hint: format!("on Debian, install it with `apt install {package}`"),
        }
    })?;
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let said = Said { code: output.code, stdout: &stdout, stderr: &stderr };
    known.version(&said)?.ok_or_else(|| {
        Error::Tool(format!("`{}` does not state a version; is it the real {program}?", argv.join(" ")))
    })
}

/// The program's name, if it is there. execvp(3) by itself would tell "permission denied" where one folder of
/// PATH cannot be looked into.
fn found(program: &str) -> Result<String, Error> {
    let there = |path: &Path| path.is_file();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = match program {
        "" => false,
        _ if program.contains('/') => there(Path::new(program)),
        _ => std::env::split_paths(&path).any(|folder| there(&folder.join(program))),
    };
    if found { Ok(program.to_owned()) } else { Err(Error::missing(program)) }
}

/// The literal command of a workload.
///
/// # Errors
/// [`Error::Workload`] for an option that is refused, or where a target is needed; [`Error::Unsupported`].
pub fn invocation(job: &Job<'_>) -> Result<Invocation, Error> {
    Ok(workloads::invocation(job)?)
}

/// What the tool reported, once it has ended by itself with success.
///
/// # Errors
/// [`Error::Tool`] where the report cannot be understood, [`Error::File`] where it is missing.
pub fn outcome(job: &Job<'_>, version: &str) -> Result<Outcome, Error> {
    report(job, version, workloads::of(&job.workload.tool).report_files())
}

/// What the tool reported in these files of the trial's folder.
pub(crate) fn report(job: &Job<'_>, version: &str, files: &[&str]) -> Result<Outcome, Error> {
    let tool = workloads::of(&job.workload.tool);
    let most = match tool.report_length() {
        ReportLength::Whole => u64::MAX,
        ReportLength::End => MAX_TEXT,
    };
    let mut all: Box<dyn BufRead> = Box::new(std::io::empty());
    for (index, name) in files.iter().enumerate() {
        let path = job.raw.join(name);
        let end = open_end(&path, most).map_err(|e| Error::file("read", &path, e))?;
        let between: &[u8] = if index == 0 { b"" } else { b"\n" };
        all = Box::new(all.chain(between).chain(BufReader::new(end)));
    }
    Ok(tool.outcome(job, version, &mut *all)?)
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
            format!("printed more than {} and was ended", crate::child::MAX_PRINTED)
        }
        How::Interrupted => "was ended because flyball was asked to stop".into(),
        How::Abandoned => "was ended because a load beside it did not run any more".into(),
    };
    let tool = workloads::of(&job.workload.tool);
    let said = tool.complaints().iter().find_map(|name| complaint(&job.raw.join(name)));
    let said = match said {
        Some(text) => format!("; it said: {text}"),
        // fio may say nothing but an error number in its report.
        None if matches!(ended.how, How::Exited(_)) => {
            outcome(job, "").err().map(|e| format!("; its report: {e}")).unwrap_or_default()
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
fn read_end(path: &Path, most: u64) -> std::io::Result<String> {
    let mut bytes = Vec::new();
    open_end(path, most)?.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The end of a file, at most `most` bytes.
fn open_end(path: &Path, most: u64) -> std::io::Result<impl Read + use<>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    Ok(file.take(most))
}

pub(crate) fn signal_name(signal: i32) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use domain::Timestamp;
    use machine::CommandOutput;
    use std::io;
    use std::path::PathBuf;

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
