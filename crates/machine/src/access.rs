//! The seam to a machine's kernel files and commands.
//!
//! Three implementations: [`LocalMachine`], a recorded one (a folder of `/proc` and `/sys`), and a failing
//! one for tests. A virtual machine, an ssh host and a cluster node are not further ones: they run this same
//! binary there.

use crate::workload::{self, Mark};
use domain::Timestamp;
use rustix::fs::{major, minor};
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

/// What a command left behind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    /// Its exit code; `None` where a signal ended it.
    pub code: Option<i32>,
    /// Its standard output, whole.
    pub stdout: Vec<u8>,
    /// Its standard error, likewise.
    pub stderr: Vec<u8>,
}

impl CommandOutput {
    /// The last lines that it printed as errors, else as output, on one line; for messages.
    pub fn last_words(&self) -> String {
        const LINES: usize = 3;
        let errors = String::from_utf8_lossy(&self.stderr);
        let output = String::from_utf8_lossy(&self.stdout);
        let said = if errors.trim().is_empty() { output } else { errors };
        // What is wrong stands before the help that some programs print after it.
        let before_help = |line: &&str| !line.to_ascii_lowercase().starts_with("usage");
        let lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
        let lines: Vec<&str> = lines.take_while(before_help).collect();
        match &lines[lines.len().saturating_sub(LINES)..] {
            [] => "nothing".to_owned(),
            last => domain::inert::one_line(&last.join("; ")).into_owned(),
        }
    }
}

/// What keeps a value in force; dropping it lets the value go.
pub type Held = Box<dyn std::fmt::Debug>;

/// A machine as its kernel shows it. Paths are absolute, as on the machine itself.
pub trait Machine {
    /// The whole of a file.
    ///
    /// # Errors
    /// As the kernel gives them; `NotFound` where the machine does not have it; `FileTooLarge` where it holds
    /// more than [`MAX_OUTPUT`] bytes.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Writes an existing file of the kernel's below `/sys` or `/proc/sys` in one `write` call; never creates
    /// or truncates one.
    ///
    /// # Errors
    /// As the kernel gives them; `PermissionDenied` where the path leads to any other file.
    fn write(&self, path: &Path, value: &[u8]) -> io::Result<()>;

    /// Writes a value into a device that keeps it in force for as long as it is open: the kernel takes it
    /// back when what this returns is dropped, or this process ends. No program that this process starts
    /// inherits it.
    ///
    /// # Errors
    /// As the kernel gives them; `PermissionDenied` where the path leads to anything else; `Unsupported` on a
    /// machine that is only looked at.
    fn hold(&self, _path: &Path, _value: &[u8]) -> io::Result<Held> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether this process may write a file of the kernel's; nothing is opened.
    ///
    /// # Errors
    /// Why it may not: `Unsupported` where nobody may, `PermissionDenied`, `ReadOnlyFilesystem`; as the
    /// kernel gives them.
    fn writable(&self, _path: &Path) -> io::Result<()> {
        Err(io::Error::other("this machine is only looked at"))
    }

    /// The names in a folder, sorted.
    ///
    /// # Errors
    /// As the kernel gives them.
    fn list(&self, folder: &Path) -> io::Result<Vec<String>>;

    /// Where a symbolic link points, as it is written there.
    ///
    /// # Errors
    /// As the kernel gives them.
    fn link(&self, path: &Path) -> io::Result<PathBuf>;

    /// Runs a program, without a shell or standard input, for `limit` at most. It dies with this process.
    ///
    /// # Errors
    /// `NotFound` where there is no such program, `TimedOut` where it had to be killed.
    fn run(&self, argv: &[&str], limit: Duration) -> io::Result<CommandOutput>;

    /// The civil time there.
    fn now(&self) -> Timestamp;

    /// A file's text with the white space at its ends removed. `None` where the file does not exist, or is
    /// there but the kernel says that it has no value (`ENODEV`, `EOPNOTSUPP`, `EINVAL`, `EIO`, `EBUSY`):
    /// many sysfs files do.
    fn text(&self, path: &str) -> Option<String> {
        let bytes = self.read(Path::new(path)).ok()?;
        Some(String::from_utf8_lossy(&bytes).trim().to_owned())
    }
}

/// A bound on what is read from one file or command: the largest `/proc/stat` known is under 1 MiB.
pub const MAX_OUTPUT: u64 = 16 << 20;

/// How often a running command is looked at.
const POLL: Duration = Duration::from_millis(2);

/// The machine that this program runs on.
#[derive(Clone, Copy, Debug, Default)]
pub struct LocalMachine;

impl Machine for LocalMachine {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        read_whole(fs::File::open(path)?, MAX_OUTPUT)
    }

    fn write(&self, path: &Path, value: &[u8]) -> io::Result<()> {
        let mut file = fs::OpenOptions::new().write(true).open(path)?;
        check_is_of_the_kernel(&file)?;
        let written = file.write(value)?;
        if written == value.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    fn hold(&self, path: &Path, value: &[u8]) -> io::Result<Held> {
        let mut device = fs::OpenOptions::new().read(true).write(true).open(path)?;
        check_holds_values(path, &device)?;
        let written = device.write(value)?;
        if written == value.len() { Ok(Box::new(device)) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    fn writable(&self, path: &Path) -> io::Result<()> {
        /// Write permission of anybody, in a file's mode.
        const WRITE_OF_ANYBODY: u32 = 0o222;
        // access(2) tells root that it may write what has no write permission at all; the kernel then
        // refuses.
        if fs::metadata(path)?.mode() & WRITE_OF_ANYBODY == 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        Ok(rustix::fs::access(path, rustix::fs::Access::WRITE_OK)?)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let entries =
            fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
        let mut names = entries.collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn link(&self, path: &Path) -> io::Result<PathBuf> {
        fs::read_link(path)
    }

    fn run(&self, argv: &[&str], limit: Duration) -> io::Result<CommandOutput> {
        let (program, arguments) = argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        // What is half done when this process is killed must be over before anybody undoes it: the kernel
        // ends the program with the thread that started it, and the mark lets the supervisor wait for that.
        workload::dies_with_us(&mut command, Signal::KILL);
        let mut child = command
            .args(arguments)
            .env(workload::VARIABLE, Mark::new().as_str())
            .env("LC_ALL", "C")
            .env("PATH", path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdout = drain(child.stdout.take());
        let stderr = drain(child.stderr.take());
        let deadline = Instant::now() + limit;
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            if Instant::now() >= deadline {
                child.kill()?;
                child.wait()?;
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("`{program}` ran longer than {limit:?}"),
                ));
            }
            std::thread::sleep(POLL);
        };
        let collect = |reader: Reader| {
            let read = reader.join().unwrap_or_else(|_| Err(io::Error::other("the thread panicked")));
            read.map_err(|e| io::Error::new(e.kind(), format!("cannot read what `{program}` printed: {e}")))
        };
        Ok(CommandOutput { code: status.code(), stdout: collect(stdout)?, stderr: collect(stderr)? })
    }

    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_unix_nanos(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
    }
}

/// The path of whoever runs this, and the folders of root's own programs, which are missing in that of one
/// who became root by `su`, and of cron: what builds and takes down is there.
pub(crate) fn path() -> OsString {
    const SYSTEM: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
    let own = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let missing = |folder: &&&str| !std::env::split_paths(&own).any(|known| known == Path::new(**folder));
    let mut all = own.clone();
    for folder in SYSTEM.iter().filter(missing) {
        all.push(":");
        all.push(folder);
    }
    all
}

/// A thread that reads what a program prints.
type Reader = std::thread::JoinHandle<io::Result<Vec<u8>>>;

fn drain(pipe: Option<impl Read + Send + 'static>) -> Reader {
    std::thread::spawn(move || pipe.map_or_else(|| Ok(Vec::new()), |pipe| read_whole(pipe, MAX_OUTPUT)))
}

/// All that there is to read. What is longer than `most` bytes is an error: a part of it would be taken for
/// the whole.
pub(crate) fn read_whole(from: impl Read, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("it is longer than {most} bytes")));
    }
    Ok(bytes)
}

/// Where the files lie that are settings, and those by which the kernel makes devices.
const OF_THE_KERNEL: [&str; 2] = ["/sys/", "/proc/sys/"];

/// Refuses a file to which a link has led out of the kernel's. Asked of the open file, so that nobody can
/// change it between this look and the write.
fn check_is_of_the_kernel(file: &fs::File) -> io::Result<()> {
    let place = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    if OF_THE_KERNEL.iter().any(|root| place.starts_with(root)) {
        return Ok(());
    }
    let why = format!("it leads to `{}`, and settings live under /sys and /proc/sys", place.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

/// Refuses all but the device of PM QoS itself, which the kernel makes and numbers.
fn check_holds_values(path: &Path, device: &fs::File) -> io::Result<()> {
    let about = device.metadata()?;
    let number = format!("{}:{}", major(about.rdev()), minor(about.rdev()));
    let expected = fs::read_to_string("/sys/class/misc/cpu_dma_latency/dev")?;
    if about.file_type().is_char_device() && number == expected.trim() {
        return Ok(());
    }
    let why = format!("`{}` is not the kernel's device of that name", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn what_is_longer_than_the_bound_is_an_error_and_not_cut() {
        assert_eq!(read_whole(&b"1234"[..], 4).unwrap(), b"1234");
        assert_eq!(read_whole(&b"12345"[..], 4).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }

    #[test]
    fn a_command_that_prints_more_than_the_bound_is_an_error() {
        let count = (MAX_OUTPUT + 1).to_string();
        let error =
            LocalMachine.run(&["head", "-c", &count, "/dev/zero"], Duration::from_secs(60)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("cannot read what `head` printed"), "{error}");
    }

    #[test]
    fn nothing_but_the_kernels_files_is_written_whatever_a_path_says() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        fs::write(&file, "old").unwrap();
        symlink(&file, &link).unwrap();
        let around = Path::new("/sys/..").join(file.strip_prefix("/").unwrap());
        for path in [&file, &link, &around] {
            let error = LocalMachine.write(path, b"new").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "{}", path.display());
            assert!(error.to_string().contains("settings live under"), "{error}");
        }
        assert_eq!(fs::read(&file).unwrap(), b"old");
    }

    #[test]
    fn a_link_within_sys_is_followed() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let all = fs::read_dir("/sys/class/block").into_iter().flatten().flatten();
        // Which leads to /sys/devices.
        let Some(path) = all.map(|disk| disk.path().join("queue/read_ahead_kb")).find(|path| path.exists())
        else {
            return;
        };
        let now = fs::read(&path).unwrap();
        LocalMachine.write(&path, now.trim_ascii()).unwrap();
        assert_eq!(fs::read(&path).unwrap(), now);
    }

    #[test]
    fn no_other_device_or_file_is_held() {
        let file = tempfile::NamedTempFile::new().unwrap();
        for path in [Path::new("/dev/null"), file.path()] {
            assert!(LocalMachine.hold(path, b"0000").is_err(), "{}", path.display());
        }
        assert_eq!(fs::read(file.path()).unwrap(), b"");
    }
}
