//! A recorded machine: a folder of `/proc` and `/sys`, written to in memory alone.
//!
//! # The folder
//! | name | what |
//! |---|---|
//! | `sys/inlinefiles.txt` | the files of `/sys`, a line `ro\|rw` `\|` path `\|` value for each of their lines, paths absolute |
//! | `sys/links.txt` | its symbolic links, a line path `\|` target each; optional |
//! | `commands/*.txt` | what commands printed: a line `$ dmsetup table`, a line `exit 0`, then their output; optional |
//! | any other folder, `proc/`, `etc/` | whole files: `proc/cpuinfo` is `/proc/cpuinfo` |
//!
//! Lines of one path that follow each other are the lines of one file; where the path comes again further
//! down, that is a second look at the file, and holds. Lines that begin with `#` are comments. A path is a
//! folder when others lie below it. The format is that of the recordings of the project pepc; links and
//! commands are ours.
//!
//! Whole files are read from the folder when they are asked for, so that a recording costs no memory that
//! nobody uses. A recording has no clock: [`Machine::now`] is the epoch.

use crate::access::{CommandOutput, MAX_OUTPUT, Machine, read_whole};
use domain::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::ops::Bound;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// How many symbolic links one path may lead through; the kernel's own bound (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// How long a recorded list of files may be: four times the largest machine known (5 MB for 320 CPUs).
const LONGEST_LIST: u64 = 64 << 20;

/// A machine in a folder.
#[derive(Debug)]
pub struct RecordedMachine {
    folder: PathBuf,
    files: Mutex<BTreeMap<PathBuf, File>>,
    links: BTreeMap<PathBuf, PathBuf>,
    commands: BTreeMap<String, CommandOutput>,
}

#[derive(Clone, Debug)]
struct File {
    writable: bool,
    text: Vec<u8>,
}

/// Why a folder is no recorded machine.
#[derive(Debug, thiserror::Error)]
pub enum RecordedError {
    /// The folder holds neither of what every recording has.
    #[error(
        "cannot open the recorded machine: `{0}` holds neither `sys/inlinefiles.txt` nor `proc/`; \
         name a folder that `cargo xtask record-machine` made"
    )]
    NotRecorded(PathBuf),
    /// A file of the recording cannot be read.
    #[error("cannot open the recorded machine: `{path}`: {source}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line that is not as the format says.
    #[error("cannot open the recorded machine: `{path}`, line {line}: expected {expected}")]
    Line {
        /// In which file.
        path: PathBuf,
        /// From one.
        line: usize,
        /// What should be there.
        expected: &'static str,
    },
}

impl RecordedMachine {
    /// Opens such a folder.
    ///
    /// # Errors
    /// Where it holds neither `sys/inlinefiles.txt` nor `proc/`, or a list in it is malformed.
    pub fn open(folder: impl Into<PathBuf>) -> Result<Self, RecordedError> {
        let folder = folder.into();
        if !folder.is_dir() {
            return Err(RecordedError::NotRecorded(folder));
        }
        let list = folder.join("sys/inlinefiles.txt");
        let files = match optional(&list)? {
            Some(text) => parse_files(&list, &text)?,
            None if folder.join("proc").is_dir() => BTreeMap::new(),
            None => return Err(RecordedError::NotRecorded(folder)),
        };
        let links = folder.join("sys/links.txt");
        let links = match optional(&links)? {
            Some(text) => parse_links(&links, &text)?,
            None => BTreeMap::new(),
        };
        let commands = read_commands(&folder.join("commands"))?;
        Ok(Self { folder, files: Mutex::new(files), links, commands })
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<PathBuf, File>> {
        self.files.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The path with all links in its folders followed; those in its last part too.
    fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let mut path = normal(path);
        for _ in 0..MAX_LINKS {
            let Some((link, target)) = path.ancestors().find_map(|a| self.links.get_key_value(a)) else {
                return Ok(path);
            };
            let rest = path.strip_prefix(link).expect("an ancestor is a prefix");
            let folder = link.parent().unwrap_or(Path::new("/"));
            path = normal(&folder.join(target).join(rest));
        }
        Err(io::Error::other("too many levels of symbolic links"))
    }

    /// Where a whole file would be; `None` for `/sys` and what is no path into the machine.
    fn whole_file(&self, path: &Path) -> Option<PathBuf> {
        let inside = path.strip_prefix("/").ok()?;
        let top = inside.components().next()?.as_os_str();
        (top != "sys" && top != "commands").then(|| self.folder.join(inside))
    }

    /// What lies directly in a folder of the lists.
    fn listed_below(&self, folder: &Path) -> BTreeSet<String> {
        let child = |path: &Path| {
            let below = path.strip_prefix(folder).ok()?;
            Some(below.components().next()?.as_os_str().to_string_lossy().into_owned())
        };
        let files = self.files();
        let range = (Bound::Excluded(folder), Bound::Unbounded);
        let in_files = files.range::<Path, _>(range).map_while(|(path, _)| child(path));
        let in_links = self.links.range::<Path, _>(range).map_while(|(path, _)| child(path));
        in_files.chain(in_links).collect()
    }
}

impl Machine for RecordedMachine {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let path = self.resolve(path)?;
        if let Some(file) = self.files().get(&path) {
            return Ok(file.text.clone());
        }
        match self.whole_file(&path) {
            Some(file) => bounded(&file, MAX_OUTPUT),
            None if self.listed_below(&path).is_empty() => Err(io::ErrorKind::NotFound.into()),
            None => Err(io::ErrorKind::IsADirectory.into()),
        }
    }

    fn write(&self, path: &Path, value: &[u8]) -> io::Result<()> {
        let path = self.resolve(path)?;
        if let Some(file) = self.files().get_mut(&path) {
            return if file.writable { file.set(value) } else { Err(io::ErrorKind::PermissionDenied.into()) };
        }
        // A whole file becomes one of the list when it is first written: the recording itself stays as it is.
        let mut file = File { writable: true, text: self.read(&path)? };
        file.set(value)?;
        self.files().insert(path, file);
        Ok(())
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        let folder = self.resolve(folder)?;
        let mut names = self.listed_below(&folder);
        if let Some(Ok(entries)) = self.whole_file(&folder).map(fs::read_dir) {
            for entry in entries {
                names.insert(entry?.file_name().to_string_lossy().into_owned());
            }
        }
        if names.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { Ok(names.into_iter().collect()) }
    }

    fn link(&self, path: &Path) -> io::Result<PathBuf> {
        let path = normal(path);
        let (folder, name) = (path.parent(), path.file_name());
        let (Some(folder), Some(name)) = (folder, name) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let at = self.resolve(folder)?.join(name);
        match self.links.get(&at) {
            Some(target) => Ok(target.clone()),
            None if self.read(&at).is_ok() => Err(io::ErrorKind::InvalidInput.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn run(&self, argv: &[&str], _limit: Duration) -> io::Result<CommandOutput> {
        self.commands.get(&argv.join(" ")).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn now(&self) -> Timestamp {
        Timestamp::default()
    }
}

impl File {
    /// Takes a value as the kernel would: in a file of choices it moves the brackets, and is refused where it
    /// is none of them.
    fn set(&mut self, value: &[u8]) -> io::Result<()> {
        let now = String::from_utf8_lossy(&self.text);
        let value = String::from_utf8_lossy(value).trim().to_owned();
        let choices = parse::kernel::selection::parse(&now).choices;
        let text = if !now.contains('[') {
            value
        } else if choices.contains(&value) {
            let mark = |c: &String| if *c == value { format!("[{c}]") } else { c.clone() };
            choices.iter().map(mark).collect::<Vec<_>>().join(" ")
        } else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        self.text = format!("{text}\n").into_bytes();
        Ok(())
    }
}

fn parse_files(list: &Path, text: &str) -> Result<BTreeMap<PathBuf, File>, RecordedError> {
    let mut files: BTreeMap<PathBuf, File> = BTreeMap::new();
    let mut before = None;
    for (index, line) in text.lines().enumerate().filter(|(_, l)| !l.is_empty() && !l.starts_with('#')) {
        let wrong = |expected| RecordedError::Line { path: list.to_owned(), line: index + 1, expected };
        let mut fields = line.splitn(3, '|');
        let writable = match fields.next() {
            Some("rw") => true,
            Some("ro") => false,
            _ => return Err(wrong("`ro` or `rw` before the first `|`")),
        };
        let path = fields.next().filter(|p| p.starts_with('/')).map(|p| normal(Path::new(p)));
        let path = path.ok_or_else(|| wrong("an absolute path between the first and the second `|`"))?;
        let value = fields.next().ok_or_else(|| wrong("a value after a second `|`"))?;
        let here = Some((writable, path.clone()));
        let file = files.entry(path).or_insert(File { writable, text: Vec::new() });
        if before != here {
            *file = File { writable, text: Vec::new() };
            before = here;
        }
        file.text.extend_from_slice(value.as_bytes());
        file.text.push(b'\n');
    }
    Ok(files)
}

fn parse_links(list: &Path, text: &str) -> Result<BTreeMap<PathBuf, PathBuf>, RecordedError> {
    let lines = text.lines().enumerate().filter(|(_, l)| !l.is_empty() && !l.starts_with('#'));
    lines
        .map(|(index, line)| match line.split_once('|') {
            Some((path, target)) if path.starts_with('/') && !target.is_empty() => {
                Ok((normal(Path::new(path)), PathBuf::from(target)))
            }
            _ => Err(RecordedError::Line {
                path: list.to_owned(),
                line: index + 1,
                expected: "an absolute path, `|`, and where it points",
            }),
        })
        .collect()
}

fn read_commands(folder: &Path) -> Result<BTreeMap<String, CommandOutput>, RecordedError> {
    let mut commands = BTreeMap::new();
    let Ok(entries) = fs::read_dir(folder) else { return Ok(commands) };
    for entry in entries {
        let path = entry.map_err(|source| RecordedError::Read { path: folder.to_owned(), source })?.path();
        let text = read_list(&path).map_err(|source| RecordedError::Read { path: path.clone(), source })?;
        let wrong = |line, expected| RecordedError::Line { path: path.clone(), line, expected };
        let mut lines = text.splitn(3, '\n');
        let command = lines.next().and_then(|l| l.strip_prefix("$ "));
        let command = command.ok_or_else(|| wrong(1, "`$ ` and a command"))?;
        let code = lines.next().and_then(|l| l.strip_prefix("exit ")?.parse().ok());
        let code = code.ok_or_else(|| wrong(2, "`exit ` and its code"))?;
        let stdout = lines.next().unwrap_or_default().as_bytes().to_vec();
        commands.insert(command.to_owned(), CommandOutput { code: Some(code), stdout, stderr: Vec::new() });
    }
    Ok(commands)
}

fn optional(path: &Path) -> Result<Option<String>, RecordedError> {
    match read_list(path) {
        Ok(text) => Ok(Some(text)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(RecordedError::Read { path: path.to_owned(), source }),
    }
}

fn read_list(path: &Path) -> io::Result<String> {
    let bytes = bounded(path, LONGEST_LIST)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "is not text"))
}

fn bounded(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    read_whole(fs::File::open(path)?, most)
}

/// Without `.` and `..`, by their text alone; nothing leads above the root.
fn normal(path: &Path) -> PathBuf {
    let mut parts = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::ParentDir => _ = parts.pop(),
            Component::Normal(name) => parts.push(name),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        folder
    }

    const LIST: &str = "# comment\nrw|/sys/devices/vda/queue/scheduler|[none] kyber\nro|/sys/devices/vda/size|8\nrw|/sys/a|one\nrw|/sys/a|two\nrw|/sys/b|x|y\nro|/sys/a|later\n";
    const LINKS: &str = "/sys/block/vda|../devices/vda\n/sys/devices/vda/subsystem|../../class/block\n";

    fn machine() -> (tempfile::TempDir, RecordedMachine) {
        let folder = record(&[
            ("sys/inlinefiles.txt", LIST),
            ("sys/links.txt", LINKS),
            ("proc/sys/vm/dirty_ratio", "20\n"),
            ("commands/1.txt", "$ dmsetup table\nexit 0\nNo devices found\n"),
        ]);
        let machine = RecordedMachine::open(folder.path()).unwrap();
        (folder, machine)
    }

    #[test]
    fn links_lead_to_files_and_folders() {
        let (_folder, machine) = machine();
        assert_eq!(machine.text("/sys/block/vda/size").as_deref(), Some("8"));
        assert_eq!(machine.list(Path::new("/sys/block")).unwrap(), ["vda"]);
        assert_eq!(machine.list(Path::new("/sys/block/vda")).unwrap(), ["queue", "size", "subsystem"]);
        assert_eq!(machine.link(Path::new("/sys/block/vda")).unwrap(), Path::new("../devices/vda"));
        assert_eq!(
            machine.link(Path::new("/sys/block/vda/subsystem")).unwrap(),
            Path::new("../../class/block")
        );
    }

    #[test]
    fn a_later_look_at_a_file_replaces_the_earlier_one() {
        let (_folder, machine) = machine();
        assert_eq!(machine.text("/sys/a").as_deref(), Some("later"));
        assert_eq!(machine.text("/sys/b").as_deref(), Some("x|y"));
        assert_eq!(machine.text("/sys/none"), None);
    }

    #[test]
    fn writes_stay_in_memory_and_are_refused_as_the_kernel_would() {
        let (folder, machine) = machine();
        let kind = |path, value: &str| machine.write(Path::new(path), value.as_bytes()).map_err(|e| e.kind());
        assert_eq!(kind("/sys/block/vda/queue/scheduler", "kyber"), Ok(()));
        assert_eq!(machine.text("/sys/devices/vda/queue/scheduler").as_deref(), Some("none [kyber]"));
        assert_eq!(kind("/sys/block/vda/queue/scheduler", "bfq"), Err(io::ErrorKind::InvalidInput));
        assert_eq!(kind("/sys/a", "1"), Err(io::ErrorKind::PermissionDenied));
        assert_eq!(kind("/sys/none", "1"), Err(io::ErrorKind::NotFound));
        assert_eq!(kind("/proc/sys/vm/dirty_ratio", "5"), Ok(()));
        assert_eq!(machine.text("/proc/sys/vm/dirty_ratio").as_deref(), Some("5"));
        assert_eq!(fs::read_to_string(folder.path().join("proc/sys/vm/dirty_ratio")).unwrap(), "20\n");
    }

    #[test]
    fn recorded_commands_run_and_others_are_not_installed() {
        let (_folder, machine) = machine();
        let limit = Duration::from_secs(1);
        let output = machine.run(&["dmsetup", "table"], limit).unwrap();
        assert_eq!((output.code, &output.stdout[..]), (Some(0), &b"No devices found\n"[..]));
        assert_eq!(machine.run(&["ls"], limit).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_link_in_a_circle_is_an_error() {
        let folder = record(&[("sys/inlinefiles.txt", ""), ("sys/links.txt", "/sys/a|b\n/sys/b|a\n")]);
        let machine = RecordedMachine::open(folder.path()).unwrap();
        assert!(machine.read(Path::new("/sys/a")).unwrap_err().to_string().contains("symbolic links"));
    }

    #[test]
    fn a_malformed_list_names_file_and_line() {
        for (list, message) in [
            ("rw|/sys/a|1\nxx|/sys/b|1\n", "inlinefiles.txt`, line 2: expected `ro` or `rw`"),
            ("rw|sys/a|1\n", "line 1: expected an absolute path"),
            ("rw|/sys/a\n", "line 1: expected a value"),
        ] {
            let folder = record(&[("sys/inlinefiles.txt", list)]);
            let error = RecordedMachine::open(folder.path()).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let empty = record(&[]);
        assert!(RecordedMachine::open(empty.path()).unwrap_err().to_string().contains("inlinefiles.txt"));
    }
}
