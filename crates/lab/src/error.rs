//! What can go wrong around a lab machine.

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};

/// The result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why there is no lab machine, or none any more.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program that the lab needs is not on this machine.
    #[error(
        "cannot {doing}: `{program}` is not there; install Debian's package `{package}` (`make demo` does), then start again"
    )]
    MissingProgram {
        /// What was attempted.
        doing: String,
        /// Which program.
        program: String,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// QEMU is older than what its plugin interface needs.
    #[error(
        "cannot start a lab machine: `{program}` is version {found}, and at least {needed} is needed; on Debian 12 it comes from the backports suite (`make demo` installs it)"
    )]
    OldQemu {
        /// Which program.
        program: String,
        /// Its version.
        found: String,
        /// What is needed.
        needed: &'static str,
    },
    /// A program that was run said no.
    #[error("cannot {doing}: `{program}` {how}: {said}")]
    Program {
        /// What was attempted.
        doing: String,
        /// Which program.
        program: String,
        /// How it ended.
        how: String,
        /// The end of what it printed.
        said: String,
    },
    /// A file could not be used.
    #[error("cannot {doing} `{path}`: {source}")]
    File {
        /// What was attempted.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A folder in which something is made.
    #[error(transparent)]
    Staging(#[from] files::Error),
    /// The system refused something that is no file.
    #[error("cannot {doing}: {source}")]
    System {
        /// What was attempted.
        doing: &'static str,
        /// Why it failed.
        source: io::Error,
    },
    /// There is no such kernel.
    #[error(
        "no kernel `{wanted}`: {why}; `flyball lab kernels` lists those that can be had, and `--kernel FILE` takes a vmlinuz or a Debian package"
    )]
    NoKernel {
        /// What was asked for.
        wanted: String,
        /// Why it cannot be had.
        why: String,
    },
    /// A file is no kernel that can be started.
    #[error("cannot start the kernel `{path}`: {why}")]
    BadKernel {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A kernel lacks something that the guest cannot do without.
    #[error("the kernel {release} has no module `{module}`, and the guest {purpose}")]
    NoModule {
        /// Which kernel.
        release: String,
        /// Which module.
        module: String,
        /// What the guest needs it for.
        purpose: &'static str,
    },
    /// Another version of this program keeps disks there, in a way of its own.
    #[error(
        "cannot open the lab machine's disks that `{mark}` marks: {why}; this is Flyball {this}; nothing was touched, use \
         {needed}, or name another folder"
    )]
    NewerDisks {
        /// The file that says so.
        mark: PathBuf,
        /// The version of this program.
        this: &'static str,
        /// What is not known.
        why: String,
        /// Which version knows it, in words.
        needed: String,
    },
    /// What a lab machine is asked to be cannot be.
    #[error("{0}")]
    Machine(String),
    /// Another machine has the kept disks.
    #[error(
        "cannot use the kept disks in `{folder}`: another lab machine has them; wait for its end, or name another folder"
    )]
    DisksInUse {
        /// Where they are.
        folder: PathBuf,
    },
    /// The guest came to an end, or said nothing any more.
    #[error("{what}{}", tail(.log))]
    Guest {
        /// What happened, to whom, while what.
        what: String,
        /// The last lines of its kernel log.
        log: String,
    },
    /// Somebody asked us to stop.
    #[error("interrupted")]
    Interrupted,
}

/// What QEMU 10.0 says, now and then, where one virtual CPU maps a device while another fills its TLB
/// (`system/physmem.c`).
const MISTAKE: &str = "iotlb_to_section: Assertion";

impl Error {
    /// Whether QEMU came to an end by a mistake of its own that the next start need not meet.
    pub fn is_mistake_of_qemu(&self) -> bool {
        matches!(self, Self::Guest { log, .. } if log.contains(MISTAKE))
    }

    /// A file that could not be used.
    pub fn file(doing: &'static str, path: &Path, source: impl Into<io::Error>) -> Self {
        Self::File { doing, path: path.to_owned(), source: source.into() }
    }

    /// A refusal of the system.
    pub fn system(doing: &'static str, source: impl Into<io::Error>) -> Self {
        Self::System { doing, source: source.into() }
    }

    /// What a lab machine is asked to be cannot be.
    pub fn machine(why: impl Display) -> Self {
        Self::Machine(why.to_string())
    }
}

fn tail(log: &str) -> String {
    if log.is_empty() {
        return "; its kernel had printed nothing".into();
    }
    format!("; its last lines were:\n{log}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assertion_of_qemus_is_its_own_mistake_and_a_panic_is_not() {
        let ended = |log: &str| Error::Guest { what: "QEMU ended while it started".into(), log: log.into() };
        let said = "qemu-system-x86_64: system/physmem.c:2678: iotlb_to_section: Assertion `section_index < d->map.sections_nb' failed.";
        assert!(ended(said).is_mistake_of_qemu());
        assert!(!ended("Kernel panic - not syncing").is_mistake_of_qemu());
        assert!(!Error::Interrupted.is_mistake_of_qemu());
    }
}
