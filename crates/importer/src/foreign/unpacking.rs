//! Other people's programs that unpack a file, behind walls of their own.

use super::process::this_program;
use crate::error::{Doing, Error, Result, refused};
use confine::Limits;
use std::convert::Infallible;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a program that unpacks may use. xz asks for 4 GiB at the very most and for 65 MiB usually, zstd for
/// 128 MiB; the processes of its user are not its own alone, so their number is no bound for it. It cannot
/// start one all the same.
const LIMITS: Limits = Limits { memory: 5 << 30, cpu_s: 3600, descriptors: 64, processes: None };

/// How much of what it complains of is kept.
const MAX_SAID: u64 = 4096;

/// How long it may take to end once it has closed its output.
const END: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(2);

/// A program that unpacks. Dropped before its end, it is killed.
pub struct Unpacking {
    child: Child,
    program: &'static str,
    complaints: Option<JoinHandle<String>>,
}

impl Unpacking {
    /// Starts a program, which is at `path`, with the file on its standard input; what it prints can be read
    /// from the descriptor.
    ///
    /// # Errors
    /// Where it cannot be started.
    pub fn start(
        program: &'static str,
        path: &Path,
        time_zone: Option<&OsStr>,
        arguments: &[&str],
        input: File,
    ) -> Result<(Self, OwnedFd)> {
        let mut command = this_program("unpack-foreign")?;
        command.arg(path).args(arguments).envs(time_zone.map(|zone| ("TZ", zone)));
        command.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().doing(|| format!("start `{program}`"))?;
        let output = child.stdout.take().ok_or_else(|| Error::Refused("it has no output".into()))?;
        let complaints = child.stderr.take().map(|stderr| std::thread::spawn(|| all_of(stderr)));
        Ok((Self { child, program, complaints }, output.into()))
    }

    /// What became of it, once all that it printed was read. That it failed is an error, so nothing cut short
    /// is taken for the whole.
    ///
    /// # Errors
    /// Where it failed, or does not end.
    pub fn verdict(mut self) -> Result<()> {
        let deadline = Instant::now() + END;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() >= deadline {
                return refused(format!("`{}` has printed all, and does not end", self.program));
            }
            std::thread::sleep(POLL);
        };
        if status.success() {
            return Ok(());
        }
        let said = self.complaints.take().and_then(|thread| thread.join().ok()).unwrap_or_default();
        let said = domain::inert::prose(said.trim());
        refused(format!("`{}` could not read it ({status}): {said}", self.program))
    }
}

impl Drop for Unpacking {
    fn drop(&mut self) {
        // Whoever reads only the head of a file leaves the program behind; it ends here.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The beginning; the rest is read so that it does not wait for us.
fn all_of(mut stderr: ChildStderr) -> String {
    let mut said = Vec::new();
    // What cannot be read was not said.
    let _ = stderr.by_ref().take(MAX_SAID).read_to_end(&mut said);
    let _ = io::copy(&mut stderr, &mut io::sink());
    String::from_utf8_lossy(&said).into_owned()
}

/// `flyball unpack-foreign PROGRAM ARGUMENT…`: raises the walls, and becomes the program.
///
/// # Errors
/// Where it cannot be executed.
pub fn unpack(program: &Path, arguments: &[String]) -> Result<Infallible> {
    // What does not stand here is told by the reader, which has the same walls.
    let _ = confine::unpacker(program, &LIMITS);
    let mut command = Command::new(program);
    // What it complains of begins with its name, not with its place.
    command.arg0(program.file_name().unwrap_or(program.as_os_str())).args(arguments).env("LC_ALL", "C");
    Err(command.exec()).doing(|| format!("start `{}`", program.display()))
}
