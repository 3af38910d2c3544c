//! Disks and links as a study or machine names them: shipped ones, by name, and a user's own files, by path.

use disks::{DiskSpec, LinkSpec, shipped};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A bound on a disk's or link's file; the largest that is shipped has 6 KiB.
const MAX_FILE: u64 = 1 << 20;

/// Why there is no such disk or link.
#[derive(Debug, Error)]
pub enum LoadError {
    /// Neither a shipped name nor a file.
    #[error("cannot read the {kind} `{path}`: {error}; shipped are {shipped}")]
    Missing {
        /// `disk` or `link`.
        kind: &'static str,
        /// The file that it would have been.
        path: PathBuf,
        /// Why it cannot be read.
        error: std::io::Error,
        /// The shipped names.
        shipped: String,
    },
    /// A file that is no disk or link.
    #[error("{path}:{error}")]
    Spec {
        /// The file, as it was named.
        path: String,
        /// What is wrong with it.
        error: strict_toml::Error,
    },
}

/// A disk by the name of a shipped one, or by a path from this folder.
///
/// # Errors
/// [`LoadError`].
pub fn disk(name_or_path: &str, folder: &Path) -> Result<DiskSpec, LoadError> {
    if let Some(disk) = DiskSpec::shipped(name_or_path) {
        return Ok(disk);
    }
    let text = text_of("disk", shipped::DISKS, name_or_path, folder)?;
    DiskSpec::parse(&text).map_err(|error| LoadError::Spec { path: name_or_path.to_owned(), error })
}

/// A link by the name of a shipped one, or by a path from this folder.
///
/// # Errors
/// [`LoadError`].
pub fn link(name_or_path: &str, folder: &Path) -> Result<LinkSpec, LoadError> {
    if let Some(link) = LinkSpec::shipped(name_or_path) {
        return Ok(link);
    }
    let text = text_of("link", shipped::LINKS, name_or_path, folder)?;
    LinkSpec::parse(&text).map_err(|error| LoadError::Spec { path: name_or_path.to_owned(), error })
}

/// The text of a user's file; `shipped` names what could have been meant.
fn text_of(
    kind: &'static str,
    shipped: &[(&str, &str)],
    name_or_path: &str,
    folder: &Path,
) -> Result<String, LoadError> {
    let path = folder.join(name_or_path);
    files::regular::text(&path, MAX_FILE).map_err(|error| {
        let names: Vec<&str> = shipped.iter().map(|(name, _)| *name).collect();
        LoadError::Missing { kind, path, error, shipped: names.join(", ") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_nothing_names_those_that_are() {
        let error = disk("floppy", Path::new("/nowhere")).unwrap_err().to_string();
        assert!(error.contains("the disk `/nowhere/floppy`") && error.contains("wd-green-1tb"), "{error}");
        let error = link("string", Path::new("/nowhere")).unwrap_err().to_string();
        assert!(error.contains("the link `/nowhere/string`") && error.contains("sata-3"), "{error}");
    }

    #[test]
    fn a_file_is_read_from_the_folder_and_what_is_wrong_with_it_has_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let write = |text: &str| std::fs::write(folder.path().join("mine.toml"), text).unwrap();
        let (_, nvme) = shipped::DISKS.iter().find(|(name, _)| *name == "nvme").unwrap();
        write(nvme);
        assert_eq!(disk("mine.toml", folder.path()).unwrap(), DiskSpec::shipped("nvme").unwrap());
        write("flyball_disk = 1\ncolour = 1\n");
        let error = disk("mine.toml", folder.path()).unwrap_err().to_string();
        assert!(error.starts_with("mine.toml:2:1: unknown field `colour`"), "{error}");
    }
}
