//! Disk and link files: those that are shipped, by name, and a user's own, by path.

use sim::disk::{DiskSpec, LinkSpec};
use std::path::{Path, PathBuf};
use thiserror::Error;

macro_rules! shipped {
    ($($name:literal),*) => {
        &[$(($name, include_str!(concat!("../../../../studies/machines/disks/", $name, ".toml")))),*]
    };
}

/// The shipped disks: name and file.
pub const SHIPPED_DISKS: &[(&str, &str)] = shipped![
    "maxtor-5400-120gb",
    "maxtor-5400-120gb-2002",
    "nvme",
    "plain-7200",
    "samsung-850-evo",
    "san-lun",
    "wd-green-1tb"
];

/// The shipped links: name and file.
pub const SHIPPED_LINKS: &[(&str, &str)] =
    shipped!["ide-ata100", "ide-ata133", "ide-ata66", "pci-33", "sata-2", "sata-3"];

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
        /// The file, or the shipped name.
        path: String,
        /// What is wrong with it.
        error: strict_toml::Error,
    },
}

/// A disk by the name of a shipped one, or by a path from this folder.
///
/// # Errors
/// [`LoadError`].
pub fn load(name_or_path: &str, folder: &Path) -> Result<DiskSpec, LoadError> {
    let text = text_of("disk", SHIPPED_DISKS, name_or_path, folder)?;
    DiskSpec::parse(&text).map_err(|error| LoadError::Spec { path: name_or_path.to_owned(), error })
}

/// A link by the name of a shipped one, or by a path from this folder.
///
/// # Errors
/// [`LoadError`].
pub fn load_link(name_or_path: &str, folder: &Path) -> Result<LinkSpec, LoadError> {
    let text = text_of("link", SHIPPED_LINKS, name_or_path, folder)?;
    LinkSpec::parse(&text).map_err(|error| LoadError::Spec { path: name_or_path.to_owned(), error })
}

fn text_of(
    kind: &'static str,
    shipped: &[(&str, &str)],
    name_or_path: &str,
    folder: &Path,
) -> Result<String, LoadError> {
    if let Some((_, text)) = shipped.iter().find(|(name, _)| *name == name_or_path) {
        return Ok((*text).to_owned());
    }
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
    fn each_shipped_file_has_the_name_that_it_is_found_by() {
        for (name, _) in SHIPPED_DISKS {
            assert_eq!(load(name, Path::new("/")).unwrap().name, *name);
        }
        for (name, _) in SHIPPED_LINKS {
            assert_eq!(load_link(name, Path::new("/")).unwrap().name, *name);
        }
    }

    #[test]
    fn a_name_that_is_nothing_names_those_that_are() {
        let error = load("floppy", Path::new("/nowhere")).unwrap_err().to_string();
        assert!(error.contains("`/nowhere/floppy`") && error.contains("wd-green-1tb"), "{error}");
    }
}
