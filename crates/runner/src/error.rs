//! Why a trial could not be run, or gave no measurement.

use domain::BenchError;
use domain::units::Bytes;
use machine::stack::Error as StackError;
use std::io;
use std::path::{Path, PathBuf};

/// What this crate's functions fail with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A tool is not installed.
    #[error("cannot run `{tool}`: there is no such program in PATH; {hint}")]
    MissingTool {
        /// The program's name.
        tool: String,
        /// What to do: `install it with "apt install fio"`.
        hint: String,
    },
    /// There is no such command: an option is refused, or a target is needed.
    #[error(transparent)]
    Workload(workloads::Error),
    /// The tool ran, and failed or gave nothing that can be used. The text says all.
    #[error("{0}")]
    Tool(String),
    /// A child process could not be started, watched or ended.
    #[error("cannot {attempt} `{program}`: {source}{hint}")]
    Child {
        /// `start`, `wait for`.
        attempt: &'static str,
        /// The program.
        program: String,
        /// As the kernel gave it.
        source: io::Error,
        /// What to do, after `; `, or nothing.
        hint: &'static str,
    },
    /// A file or folder of our own could not be made, read or written.
    #[error("cannot {attempt} `{}`: {source}{hint}", path.display())]
    File {
        /// `create`, `fill`, `read`.
        attempt: &'static str,
        /// Which.
        path: PathBuf,
        /// As the kernel gave it.
        source: io::Error,
        /// What to do, after `; `, or nothing.
        hint: &'static str,
    },
    /// Recorded events could not be read, or completed.
    #[error("cannot read the events in `{}`: {source}", path.display())]
    Events {
        /// Their file.
        path: PathBuf,
        /// What failed.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// There is not enough space for the target.
    #[error(
        "cannot make a target of {wanted} in `{}`: {free} are free there and {reserve} must stay free, so {missing} are missing; \
         make room, choose a smaller target, or another folder",
        folder.display()
    )]
    NoSpace {
        /// The work folder.
        folder: PathBuf,
        /// The target's size.
        wanted: Bytes,
        /// What is free for this user.
        free: Bytes,
        /// What has to remain.
        reserve: Bytes,
        /// What is missing.
        missing: Bytes,
    },
    /// The work folder could be changed by others.
    #[error(
        "cannot use the work folder `{}`: it has to be a folder of this user that nobody else can write to; choose another",
        .0.display()
    )]
    OpenFolder(PathBuf),
    /// Somebody else decides what the work folder's name leads to.
    #[error("cannot use the work folder: {0}")]
    Untrusted(#[from] files::trust::Untrusted),
    /// The target is not what was made: replaced, shortened or gone.
    #[error("the target `{}` is not the one that was made: {why}; nothing more is run on it", path.display())]
    TargetChanged {
        /// Its path.
        path: PathBuf,
        /// What is different.
        why: String,
    },
    /// A study names a device, and this machine could lose something.
    #[error(
        "cannot use `{}` as a target: it is there already and may hold something, and only a lab machine's devices never do; \
         run the study with `flyball lab run`, or write `file`, `loop` or `read_only` under `[target]`",
        path.display()
    )]
    NotInTheLab {
        /// The device.
        path: PathBuf,
    },
    /// What a study wants to read cannot be, or is nothing that is read.
    #[error("cannot read `{}` as the target: {why}", path.display())]
    NotReadable {
        /// As the study names it.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// The device that a lab's study names is not one.
    #[error(
        "cannot use `{}` as the target: {why}; see what `prepare` under `[lab]` makes, and its output",
        path.display()
    )]
    NoDevice {
        /// Its path.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Not possible on this machine; a cell that needs it is skipped.
    #[error("{0}")]
    Unsupported(String),
    /// A setting, the target or the ledger itself.
    #[error(transparent)]
    Ledger(#[from] machine::settings::Error),
    /// The virtual CPUs of a lab machine cannot be paced.
    #[error(transparent)]
    Recorder(#[from] recorder::Error),
    /// The stack that a cell stands on.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// A server that is somebody's.
    #[error(transparent)]
    Database(#[from] machine::database::Error),
    /// A server that is somebody's has ended, or begun anew.
    #[error("the server at `{}` is not the one that was found: {why}; nothing more is asked of it", address.display())]
    ServerChanged {
        /// Where it listened.
        address: PathBuf,
        /// What is different.
        why: String,
    },
    /// Somebody asked us to stop.
    #[error("interrupted")]
    Interrupted,
    /// The trace could not be stored.
    #[error(transparent)]
    Sink(#[from] domain::bench::SinkError),
}

impl From<workloads::Error> for Error {
    fn from(error: workloads::Error) -> Self {
        match error {
            workloads::Error::Unsupported(why) => Self::Unsupported(why),
            workloads::Error::Tool(why) => Self::Tool(why),
            workloads::Error::Option { .. }
            | workloads::Error::NoTarget { .. }
            | workloads::Error::Writes { .. } => Self::Workload(error),
        }
    }
}

impl From<Error> for BenchError {
    fn from(error: Error) -> Self {
        match error {
            Error::MissingTool { .. }
            | Error::Workload(_)
            | Error::Unsupported(_)
            | Error::Database(machine::database::Error::Missing { .. }) => {
                Self::Unsupported(error.to_string())
            }
            Error::Interrupted => Self::Interrupted,
            Error::Sink(error) => Self::Sink(error),
            Error::Stack(StackError::Interrupted) => Self::Interrupted,
            Error::Stack(error @ (StackError::Unsupported(_) | StackError::Missing { .. })) => {
                Self::Unsupported(error.to_string())
            }
            Error::Ledger(error) if is_not_here(&error) => Self::Unsupported(error.to_string()),
            _ => Self::Failed(error.to_string()),
        }
    }
}

impl Error {
    /// A failure on a file of our own, with what can be done about the usual reasons.
    pub(crate) fn file(attempt: &'static str, path: &Path, source: io::Error) -> Self {
        let hint = hint(&source);
        Self::File { attempt, path: path.to_owned(), source, hint }
    }

    /// A device of a lab's study that is none.
    pub(crate) fn no_device(path: &Path, why: String) -> Self {
        Self::NoDevice { path: path.to_owned(), why }
    }

    /// A command of a study that is not there.
    pub(crate) fn missing(program: &str) -> Self {
        let hint = "install it, or give its whole path in the study".into();
        Self::MissingTool { tool: program.to_owned(), hint }
    }

    /// A failure on a child process.
    pub(crate) fn child(attempt: &'static str, program: &str, source: io::Error) -> Self {
        let hint = match source.kind() {
            io::ErrorKind::PermissionDenied => "; this user has to be allowed to execute it",
            _ => "",
        };
        Self::Child { attempt, program: program.to_owned(), source, hint }
    }
}

/// Whether a setting is not possible on this machine, as a study means it, whenever it is tried.
fn is_not_here(error: &machine::settings::Error) -> bool {
    use machine::settings::Error::{BadValue, NeedsDevice, NotASetting, UnknownSetting, Unsupported};
    matches!(
        error,
        UnknownSetting { .. }
            | Unsupported { .. }
            | NeedsDevice { .. }
            | BadValue { .. }
            | NotASetting { .. }
    )
}

/// What to do about the usual reasons.
fn hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; make room there, or choose another folder"
        }
        io::ErrorKind::ReadOnlyFilesystem => "; choose a folder on a filesystem that can be written",
        io::ErrorKind::PermissionDenied => "; run as root, or choose a folder of your own",
        _ => "",
    }
}
