//! The disks and links that ship with the program, by name.

use crate::{DiskSpec, LinkSpec};

macro_rules! shipped {
    ($($name:literal),*) => {
        &[$(($name, include_str!(concat!("../shipped/", $name, ".toml")))),*]
    };
}

/// The disks: name and file.
pub const DISKS: &[(&str, &str)] = shipped![
    "maxtor-5400-120gb",
    "maxtor-5400-120gb-2002",
    "nvme",
    "plain-7200",
    "pm9a3-3840gb",
    "samsung-850-evo",
    "san-lun",
    "wd-green-1tb"
];

/// The links: name and file.
pub const LINKS: &[(&str, &str)] =
    shipped!["ide-ata100", "ide-ata133", "ide-ata66", "pci-33", "sata-2", "sata-3"];

impl DiskSpec {
    /// The shipped disk of this name.
    pub fn shipped(name: &str) -> Option<Self> {
        Some(Self::parse(text_of(DISKS, name)?).expect("a test reads each shipped disk"))
    }
}

impl LinkSpec {
    /// The shipped link of this name.
    pub fn shipped(name: &str) -> Option<Self> {
        Some(Self::parse(text_of(LINKS, name)?).expect("a test reads each shipped link"))
    }
}

fn text_of(shipped: &[(&str, &'static str)], wanted: &str) -> Option<&'static str> {
    shipped.iter().find(|(name, _)| *name == wanted).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_shipped_file_has_the_name_that_it_is_found_by() {
        for (name, _) in DISKS {
            assert_eq!(DiskSpec::shipped(name).unwrap().name, *name);
        }
        for (name, _) in LINKS {
            assert_eq!(LinkSpec::shipped(name).unwrap().name, *name);
        }
        assert_eq!(DiskSpec::shipped("floppy"), None);
        assert_eq!(LinkSpec::shipped("nvme"), None, "a disk is no link");
    }

    #[test]
    fn each_file_of_the_folder_is_in_a_list() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/shipped")).unwrap();
        let files: BTreeSet<String> =
            folder.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        let listed: BTreeSet<String> =
            DISKS.iter().chain(LINKS).map(|(name, _)| format!("{name}.toml")).collect();
        assert_eq!(files, listed);
    }
}
