//! The record of lasting changes: `lasting.json` in the state folder, written aside and renamed.

use super::error::Error;
use super::files::Files;
use super::udev::Match;
use crate::settings::{Identity, check_path};
use crate::strict::{self, shortened};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;
use std::path::{Path, PathBuf};

const NAME: &str = "lasting.json";

/// The version of the form. A record of a later one is an error, never a guess, and so is a field that is not
/// known.
const VERSION: u32 = 1;

/// The Flyball that this is.
const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// What carries a value over a restart of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PersistMethod {
    /// `sysctl.d(5)`.
    Sysctl,
    /// A udev rule.
    Udev,
    /// A profile of tuned.
    Tuned,
    /// `tmpfiles.d(5)`.
    Tmpfiles,
    /// The kernel's command line: printed, never written.
    CommandLine,
}

impl fmt::Display for PersistMethod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sysctl => "sysctl.d",
            Self::Udev => "udev rule",
            Self::Tuned => "tuned profile",
            Self::Tmpfiles => "tmpfiles.d",
            Self::CommandLine => "kernel command line",
        })
    }
}

/// One file's value that lasts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The setting with its object: `governor@policy0`.
    pub setting: String,
    /// The setting as it was asked for: `governor` where every policy was meant.
    pub asked: String,
    /// The file that was written.
    pub path: String,
    /// Which object the file belongs to.
    pub(crate) identity: Identity,
    /// How a udev rule finds the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) device: Option<Match>,
    /// What was there before; `None` where the new value was there already, or only the next boot brings it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inverse: Option<Inverse>,
    /// The value that lasts.
    pub new: String,
    /// What carries it.
    #[serde(rename = "vehicle")]
    pub method: PersistMethod,
    /// The kernel reads it at boot alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only_at_boot: bool,
    /// Why, in the words of who asked for it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// When, in nanoseconds since 1970.
    pub when_ns: i64,
    /// During which start of the machine.
    pub boot: String,
}

impl Entry {
    /// What was there before; `None` where the value was there already.
    pub fn old(&self) -> Option<&str> {
        self.inverse.as_ref().map(|inverse| inverse.old.as_str())
    }

    /// Whether every object of its kind was meant.
    pub(crate) fn means_all(&self) -> bool {
        !self.asked.contains('@')
    }
}

/// How a value is put back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inverse {
    /// What was there before.
    pub old: String,
    /// Where that cannot be written back itself: what to write instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instead: Option<OldValue>,
    /// What the kernel dropped with the change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keeps: Vec<Keep>,
}

/// A file and what it held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OldValue {
    pub path: String,
    pub value: String,
}

/// A file whose value goes with another, before and after the change of that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Keep {
    pub path: String,
    pub value: String,
    pub after: Option<String>,
}

/// A file of ours among the system's configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnText {
    /// What it is for.
    #[serde(rename = "vehicle")]
    pub method: PersistMethod,
    /// Where it is.
    pub path: PathBuf,
    /// What it holds, byte for byte; `None` where it is to go.
    pub content: Option<String>,
    /// What of ours was there before, while it is being written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replaces: Option<String>,
}

/// How far it has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    /// Everything is in its place.
    #[default]
    Done,
    /// The changes are decided; their files are not all written, and the ledger may still hold these ids.
    Making { ledger: Vec<u64> },
    /// They are being taken back.
    Undoing,
}

/// All lasting changes of this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub version: u32,
    /// The Flyball that wrote it; the first one did not say so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    pub phase: Phase,
    /// The profile of tuned that ours includes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_profile: Option<String>,
    /// In the order in which they were made; a file may have several.
    pub entries: Vec<Entry>,
    pub files: Vec<OwnText>,
}

impl Record {
    /// What lasts: of several entries for one file the last.
    pub fn current(&self) -> Vec<&Entry> {
        let overtaken =
            |at: usize, e: &Entry| self.entries[at + 1..].iter().any(|later| later.path == e.path);
        let current = self.entries.iter().enumerate().filter(|(at, e)| !overtaken(*at, e));
        current.map(|(_, entry)| entry).collect()
    }
}

impl Default for Record {
    fn default() -> Self {
        Self {
            version: VERSION,
            by: Some(PROGRAM.to_owned()),
            phase: Phase::Done,
            base_profile: None,
            entries: vec![],
            files: vec![],
        }
    }
}

/// Where the record is.
pub(crate) fn path(state: &Path) -> PathBuf {
    state.join(NAME)
}

/// The record in this folder; an empty one where there is none.
pub(crate) fn load(files: &dyn Files, state: &Path) -> Result<Record, Error> {
    let path = path(state);
    let text = match files.read(&path) {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(Record::default()),
        Err(source) => {
            let hint = "; nothing of it was changed";
            return Err(Error::File { what: "read the record of lasting changes", path, source, hint });
        }
    };
    let value: Value = serde_json::from_str(&text)
        .map_err(|error| Error::Damaged { path: path.clone(), reason: error.to_string() })?;
    // Whatever is written of it from here on, this program writes.
    understand(&value).map(|record| Record { by: Some(PROGRAM.to_owned()), ..record }).map_err(|why| {
        let by = value.get("by").and_then(Value::as_str).map(shortened);
        let wrote = by.as_ref().map(|by| format!(", which Flyball {by} wrote")).unwrap_or_default();
        let why = shortened(&why);
        let what = format!(
            "the record of lasting changes `{}`{wrote}: this one ({PROGRAM}) does not understand it: {why}",
            path.display()
        );
        Error::NotUnderstood { what, by }
    })
}

fn understand(value: &Value) -> Result<Record, String> {
    match value.get("version").and_then(Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => return Err(format!("it is of version {version}, and version {VERSION} is known")),
        None => return Err("it says no version".to_owned()),
    }
    let record: Record = strict::from_json(value)?;
    record.entries.iter().try_for_each(check_entry)?;
    record.files.iter().try_for_each(check_file)?;
    Ok(record)
}

/// Root writes there.
fn check_entry(entry: &Entry) -> Result<(), String> {
    let inverse = entry.inverse.iter();
    let more = inverse.flat_map(|i| {
        let keeps = i.keeps.iter().map(|keep| &keep.path);
        i.instead.iter().map(|instead| &instead.path).chain(keeps)
    });
    more.chain([&entry.path]).try_for_each(|path| check_path(path).map_err(|error| error.to_string()))
}

fn check_file(file: &OwnText) -> Result<(), String> {
    match file.method.file() {
        Some(own) if file.path.is_absolute() && file.path.ends_with(own) => Ok(()),
        _ => Err(format!("`{}` is no file that it writes", file.path.display())),
    }
}

/// Writes the record; an empty one is removed.
pub(crate) fn store(files: &dyn Files, state: &Path, record: &Record) -> Result<(), Error> {
    let path = path(state);
    let written = if record.entries.is_empty() && record.files.is_empty() {
        files.remove(&path)
    } else {
        let text = serde_json::to_string_pretty(record).expect("these types hold nothing that JSON cannot");
        files.replace(&path, &format!("{text}\n"))
    };
    let what = "write the record of lasting changes";
    written.map_err(|source| Error::File { what, path, source, hint: "; see whether its disk is full" })
}
