//! Kernel files as values.

use super::Error;
use crate::Machine;
use domain::inventory::CpuList;
use domain::units::{Bytes, Hertz};
use parse::kernel;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// How long a command that only shows something may take; `dmsetup` waits for a device that is being
/// suspended.
const COMMAND_LIMIT: Duration = Duration::from_secs(5);

/// Reads one machine.
pub(super) struct Reader<'a> {
    machine: &'a dyn Machine,
}

impl<'a> Reader<'a> {
    pub(super) fn new(machine: &'a dyn Machine) -> Self {
        Self { machine }
    }

    /// A file's text. `None` where it is not there, is empty, or holds `<unsupported>` or `<unknown>`, by
    /// which drivers say that they have no value.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        self.machine.text(path).filter(|text| !text.is_empty() && !text.starts_with('<'))
    }

    pub(super) fn bytes_of(&self, path: &str) -> Option<Vec<u8>> {
        self.machine.read(Path::new(path)).ok()
    }

    pub(super) fn exists(&self, path: &str) -> bool {
        self.machine.read(Path::new(path)).is_ok() || self.machine.list(Path::new(path)).is_ok()
    }

    /// The names in a folder; none where there is no such folder.
    pub(super) fn names(&self, folder: &str) -> Vec<String> {
        self.machine.list(Path::new(folder)).unwrap_or_default()
    }

    /// The numbers N of the names `prefixN` in a folder, ascending.
    pub(super) fn numbered(&self, folder: &str, prefix: &str) -> Vec<u32> {
        let number = |name: String| name.strip_prefix(prefix)?.parse().ok();
        let mut numbers: Vec<u32> = self.names(folder).into_iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    pub(super) fn link(&self, path: &str) -> Option<PathBuf> {
        self.machine.link(Path::new(path)).ok()
    }

    /// What a command printed; `None` where it is not installed, failed, or took too long.
    pub(super) fn output(&self, argv: &[&str]) -> Option<String> {
        let output = self.machine.run(argv, COMMAND_LIMIT).ok()?;
        (output.code == Some(0)).then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A file's text, read by a parser.
    pub(super) fn parsed<T, E: Into<kernel::Error>>(
        &self,
        path: &str,
        parser: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Error> {
        self.text(path).map(|text| parsed(path, &text, parser)).transpose()
    }

    pub(super) fn number<N: FromStr>(&self, path: &str) -> Result<Option<N>, Error> {
        self.parsed(path, kernel::number)
    }

    /// `0` or `1`, `N` or `Y`.
    pub(super) fn flag(&self, path: &str) -> Result<Option<bool>, Error> {
        self.parsed(path, kernel::flag)
    }

    pub(super) fn khz(&self, path: &str) -> Result<Option<Hertz>, Error> {
        self.parsed(path, kernel::khz)
    }

    pub(super) fn bytes(&self, path: &str) -> Result<Option<Bytes>, Error> {
        Ok(self.number(path)?.map(Bytes::new))
    }

    pub(super) fn cpus(&self, path: &str) -> Result<Option<CpuList>, Error> {
        self.parsed(path, kernel::cpu_list::parse)
    }

    pub(super) fn words(&self, path: &str) -> Vec<String> {
        let text = self.text(path).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    }
}

/// Text that was read already, through a parser.
pub(super) fn parsed<'t, T, E: Into<kernel::Error>>(
    path: &str,
    text: &'t str,
    parser: impl FnOnce(&'t str) -> Result<T, E>,
) -> Result<T, Error> {
    parser(text).map_err(|e| Error::Parse { path: path.to_owned(), source: e.into() })
}
