//! How far a machine has moved away from its lasting changes. Reads only.

use super::error::Error;
use super::record::{self, Entry, OwnText, PersistMethod, Phase};
use super::{LastingContext, command_line, sysctl, tuned, udev};
use crate::Machine;
use crate::settings::{identity, read, same};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One way in which a lasting change is not as it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drift {
    /// The value is another one now.
    Value {
        /// What was made to last.
        from: String,
        /// What is there.
        to: String,
    },
    /// The value cannot be read.
    Unreadable(String),
    /// The object is not there, or another one has its name.
    ObjectGone(String),
    /// The device has another name now.
    Renamed(String),
    /// A later file of another hand sets the same.
    Overridden {
        /// That file.
        by: PathBuf,
        /// What it sets.
        value: String,
    },
    /// tuned has another profile.
    NotChosen(Option<String>),
    /// The kernel was started without the word.
    NotOnCommandLine(String),
    /// The next boot brings it.
    NextBoot,
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value { from, to } => write!(f, "it was made `{from}`, and is `{to}` now"),
            Self::Unreadable(reason) | Self::ObjectGone(reason) => f.write_str(reason),
            Self::Renamed(name) => write!(f, "the device is called `{name}` now"),
            Self::Overridden { by, value } => {
                write!(f, "`{}` comes later and sets it to `{value}`", by.display())
            }
            Self::NotChosen(profile) => write!(
                f,
                "tuned has {}; the value does not outlast a restart until `tuned-adm profile {}`",
                profile.as_ref().map_or("no profile".to_owned(), |p| format!("the profile `{p}`")),
                tuned::PROFILE
            ),
            Self::NotOnCommandLine(word) => {
                write!(f, "the kernel was started without `{word}`; add it to its command line")
            }
            Self::NextBoot => f.write_str("the next start of the machine brings it"),
        }
    }
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileState {
    /// As it was written.
    AsWritten,
    /// Not there.
    Gone,
    /// There, and not as it was written.
    Edited,
}

/// All lasting changes of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastingStatus {
    /// Each with how it has drifted.
    pub entries: Vec<(Entry, Vec<Drift>)>,
    /// The files, likewise.
    pub files: Vec<(OwnText, FileState)>,
    /// Whether making or taking back was cut short.
    pub unfinished: bool,
}

/// Compares the record with the machine. Nothing is changed.
///
/// # Errors
/// [`Error::File`], [`Error::Damaged`].
pub fn status(context: &LastingContext) -> Result<LastingStatus, Error> {
    let record = record::load(context.files, context.state)?;
    let state = |file: &OwnText| match context.files.read(&file.path) {
        Ok(Some(text)) if Some(&text) == file.content.as_ref() => Ok(FileState::AsWritten),
        Ok(None) => Ok(FileState::Gone),
        Ok(Some(_)) => Ok(FileState::Edited),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(FileState::Edited),
        Err(source) => {
            Err(Error::File { what: "look at", path: file.path.clone(), source, hint: "; run as root" })
        }
    };
    let files = record.files.iter().map(|f| Ok((f.clone(), state(f)?))).collect::<Result<_, Error>>()?;
    let look = Look::new(context);
    let entries = record.current().into_iter().map(|entry| (entry.clone(), look.drifts(entry))).collect();
    Ok(LastingStatus { entries, files, unfinished: record.phase != Phase::Done })
}

/// An entry as it is to be judged during this start of the machine: what tells objects apart within one start
/// alone counts no longer.
pub(super) fn as_of_now(entry: &Entry, boot: &str) -> Entry {
    let mut entry = entry.clone();
    if entry.boot != boot {
        entry.identity = entry.identity.lasting();
    }
    entry
}

struct Look<'a> {
    context: &'a LastingContext<'a>,
    boot: String,
    command_line: String,
    profile: Option<String>,
}

impl<'a> Look<'a> {
    fn new(context: &'a LastingContext) -> Self {
        let text = |path: &str| context.machine.text(path).unwrap_or_default();
        Self {
            context,
            boot: text("/proc/sys/kernel/random/boot_id"),
            command_line: text("/proc/cmdline"),
            profile: context.machine.text("/etc/tuned/active_profile").filter(|p| !p.is_empty()),
        }
    }

    fn drifts(&self, entry: &Entry) -> Vec<Drift> {
        let mut drifts: Vec<Drift> = self.value(entry).into_iter().collect();
        let same_boot = entry.boot == self.boot;
        match entry.method {
            PersistMethod::Sysctl => drifts.extend(overridden(self.context, entry)),
            PersistMethod::Tuned if self.profile.as_deref() != Some(tuned::PROFILE) => {
                drifts.push(Drift::NotChosen(self.profile.clone()));
            }
            PersistMethod::CommandLine if !same_boot && !command_line::has(&self.command_line, entry) => {
                drifts.extend(command_line::word(entry).map(Drift::NotOnCommandLine));
            }
            _ => {}
        }
        drifts
    }

    fn value(&self, entry: &Entry) -> Option<Drift> {
        let entry = as_of_now(entry, &self.boot);
        if entry.only_at_boot && entry.boot == self.boot {
            return Some(Drift::NextBoot);
        }
        let now = match read(self.context.machine, &entry.path) {
            Ok(now) => now,
            Err(error) => return Some(Drift::Unreadable(format!("cannot read `{}`: {error}", entry.path))),
        };
        let is_other = !entry.identity.agrees_with(&identity(self.context.machine, &entry.path));
        if is_other || now.is_none() {
            let renamed = found_again(self.context.machine, &entry).map(Drift::Renamed);
            let reason = if is_other {
                format!("`{}` belongs to another object now", entry.path)
            } else {
                format!("there is no `{}` now", entry.path)
            };
            return renamed.or(Some(Drift::ObjectGone(reason)));
        }
        let now = now?;
        (!same(&now, &entry.new)).then(|| Drift::Value { from: entry.new.clone(), to: now })
    }
}

/// The name that a device has now.
fn found_again(machine: &dyn Machine, entry: &Entry) -> Option<String> {
    let (name, file) = udev::split(&entry.path)?;
    let wanted = entry.identity.lasting();
    if wanted.is_empty() {
        return None;
    }
    let names = machine.list(Path::new("/sys/block")).ok()?;
    names.into_iter().filter(|other| other != name).find(|other| {
        let found = identity(machine, &format!("/sys/block/{other}/{file}")).lasting();
        !found.is_empty() && wanted == found
    })
}

/// The file that has the last word on a sysctl, where it is not ours and says something else.
///
/// `sysctl.d(5)`: files in the order of their names, whatever their folder; of two with one name the one in
/// `/etc` or else `/run` counts. Patterns as keys are not resolved.
fn overridden(context: &LastingContext, entry: &Entry) -> Option<Drift> {
    let key = sysctl::key(&entry.path);
    let own = Path::new(sysctl::FILE).file_name()?.to_owned();
    let mut by_name = BTreeMap::new();
    for root in [&context.roots.lib, &context.roots.run, &context.roots.etc] {
        let entries = fs::read_dir(root.join("sysctl.d")).into_iter().flatten().flatten();
        let files = entries.map(|e| (e.file_name(), e.path()));
        by_name.extend(files.filter(|(name, _)| name.to_string_lossy().ends_with(".conf")));
    }
    let later = by_name.into_iter().filter(|(name, _)| *name > own);
    let sets = |path: PathBuf| {
        let value = sysctl::value_in(&fs::read_to_string(&path).ok()?, &key)?;
        Some((path, value))
    };
    let (by, value) = later.filter_map(|(_, path)| sets(path)).next_back()?;
    (!same(&value, &entry.new)).then_some(Drift::Overridden { by, value })
}
