//! Changes that outlast the program and the next restart of the machine.
//!
//! A value is written through the ledger, which reads it back; then it is written down in a record of its
//! own, beside the ledger; then the files are written that bring it back at each boot; and only then the
//! ledger forgets it. The record's rename decides: killed before it, the next start undoes everything; killed
//! after it, the next start writes the files that are missing. Taking back is the same in reverse: the ledger
//! gets the changes back and undoes them as any other, three-way, and files are removed where they are byte
//! for byte as they were written.
//!
//! The files are generated whole from the record. One that exists and is not ours is never overwritten.
//!
//! One *method* for each setting:
//!
//! | what | method | why |
//! |---|---|---|
//! | sysctls | `/etc/sysctl.d/90-flyball.conf` | read by systemd and by `sysctl --system` alike |
//! | a block device's | `/etc/udev/rules.d/90-flyball.rules` | devices come late and change their names |
//! | other files of sysfs, tuned is active | `/etc/tuned/flyball/tuned.conf` | tuned would write over anything else |
//! | the same without tuned | `/etc/tmpfiles.d/flyball.conf` | needs nothing but systemd |
//! | parameters of modules | the kernel's command line, printed | they are read when the module is loaded |

mod command_line;
mod drift;
mod error;
mod files;
mod lines;
mod make;
mod record;
mod rivals;
mod sysctl;
mod text;
mod tmpfiles;
mod tuned;
mod udev;

pub use command_line::word as command_line_word;
pub use drift::{Drift, FileState, LastingStatus, status};
pub use error::Error;
pub use files::{Files, LocalFiles};
pub use make::{LastingChanges, Undone, make, plan, undo};
pub use record::{Entry, OwnText, PersistMethod};
pub use text::Written;

pub(crate) use make::{resume, understand};
pub(crate) use record::{Inverse, Keep, OldValue};

use crate::Machine;
use domain::setting::SettingRequest;
use std::path::{Path, PathBuf};

/// Where the configuration of a system lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// `/etc`.
    pub etc: PathBuf,
    /// `/run`.
    pub run: PathBuf,
    /// `/usr/lib`.
    pub lib: PathBuf,
}

impl Roots {
    /// Those of the system whose root is this folder.
    pub fn below(root: &Path) -> Self {
        Self { etc: root.join("etc"), run: root.join("run"), lib: root.join("usr/lib") }
    }
}

/// What lasting changes are made on.
#[derive(Clone, Copy)]
pub struct LastingContext<'a> {
    /// The machine whose settings they are.
    pub machine: &'a dyn Machine,
    /// How files are written.
    pub files: &'a dyn Files,
    /// Where they are written.
    pub roots: &'a Roots,
    /// The state folder, in which the ledger is too.
    pub state: &'a Path,
}

/// What is to last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastingRequest {
    /// The settings.
    pub requests: Vec<SettingRequest>,
    /// The reason, for the reader of the file.
    pub reason: String,
    /// Write them even where another active program sets them too.
    pub ignore_rivals: bool,
}

impl PersistMethod {
    /// Where its file lies below `/etc`; `None` where it has none.
    const fn file(self) -> Option<&'static str> {
        match self {
            Self::Sysctl => Some(sysctl::FILE),
            Self::Udev => Some(udev::FILE),
            Self::Tuned => Some(tuned::FILE),
            Self::Tmpfiles => Some(tmpfiles::FILE),
            Self::CommandLine => None,
        }
    }

    /// What carries the value of this file.
    fn of(path: &str, tuned_is_active: bool) -> Self {
        if sysctl::takes(path) {
            Self::Sysctl
        } else if udev::split(path).is_some() {
            Self::Udev
        } else if command_line::parameter(path).is_some() {
            Self::CommandLine
        } else if tuned_is_active {
            Self::Tuned
        } else {
            Self::Tmpfiles
        }
    }

    fn text(self, entries: &[&Entry], base_profile: Option<&str>) -> String {
        match self {
            Self::Sysctl => sysctl::text(entries),
            Self::Udev => udev::text(entries),
            Self::Tuned => tuned::text(entries, base_profile),
            Self::Tmpfiles => tmpfiles::text(entries),
            Self::CommandLine => String::new(),
        }
    }

    fn unfit(self, entry: &Entry) -> Option<String> {
        if crate::settings::is_held(&entry.path) {
            return Some(
                "it is in force only while a process holds the device open, and nothing of Flyball's runs on"
                    .to_owned(),
            );
        }
        match self {
            Self::Sysctl => lines::forbidden(&entry.new, &[]),
            Self::Udev => udev::unfit(entry),
            Self::Tuned => tuned::unfit(entry),
            Self::Tmpfiles => tmpfiles::unfit(entry),
            Self::CommandLine => command_line::unfit(entry),
        }
    }
}
