//! Where a record may point. The ledger's file is root's own; should somebody else have written to it all the
//! same, it makes root write to nothing but settings, and remove nothing but what is named as Flyball names
//! things.
//!
//! This is asked of each record that is read and of each that is written, so that nothing is written down
//! that would not be understood. That a setting's path leads to no other place by links is looked at when it
//! is opened for writing ([`LocalMachine`](crate::LocalMachine)).

use super::record::{Change, Record};
use crate::settings::check_path;
use std::path::{Component, Path};

/// How everything begins that has a name of its own.
const OWN: &str = "flyball";

/// `Err` says what is wrong.
pub(super) fn check(record: &Record) -> Result<(), String> {
    match record {
        Record::Change(change) => paths(change).try_for_each(setting),
        Record::File(file) => plain(&file.path),
        Record::Loop(device) => plain(&device.file),
        Record::Built(built) => built.part.is_where_it_may_be(),
        Record::Got(_) | Record::Returning { .. } | Record::Disk(_) | Record::Done { .. } => Ok(()),
    }
}

/// Everything that undoing it may write to.
fn paths(change: &Change) -> impl Iterator<Item = &str> {
    let values = change.instead.iter().chain(&change.keeps);
    values.map(|value| value.path.as_str()).chain([change.path.as_str()])
}

fn setting(path: &str) -> Result<(), String> {
    check_path(path).map_err(|error| error.to_string())
}

/// An absolute path that says where it leads.
pub(super) fn plain(path: &str) -> Result<(), String> {
    let is_plain = path.starts_with('/')
        && path.split('/').skip(1).all(|part| !matches!(part, "" | "." | ".."))
        && !path.contains('\0');
    if is_plain { Ok(()) } else { Err(format!("`{path}` is no absolute path in its plain form")) }
}

pub(super) fn own_folder(path: &str) -> Result<(), String> {
    plain(path)?;
    own_name(path.rsplit('/').next().unwrap_or_default())
}

pub(super) fn in_own_folder(path: &str) -> Result<(), String> {
    plain(path)?;
    let is_own = |part: Component| part.as_os_str().to_string_lossy().starts_with(OWN);
    let inside = Path::new(path).components().any(is_own);
    if inside { Ok(()) } else { Err(format!("`{path}` is in no folder of Flyball's")) }
}

/// A name that Flyball gives, which is no path and no option of the program that is given it.
pub(super) fn own_name(name: &str) -> Result<(), String> {
    word(name)?;
    if name.starts_with(OWN) { Ok(()) } else { Err(format!("`{name}` is no name that Flyball gives")) }
}

pub(super) fn word(name: &str) -> Result<(), String> {
    let known = |c: char| c.is_ascii_alphanumeric() || "._-+".contains(c);
    let is_word = name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(known);
    if is_word { Ok(()) } else { Err(format!("`{name}` is no plain name")) }
}

#[cfg(test)]
mod tests {
    use super::super::Built;
    use super::super::record::{BuiltRecord, FileRecord, Value};
    use super::*;
    use crate::settings::Identity;

    fn change(path: &str, instead: Option<&str>, keeps: &[&str]) -> Record {
        let value = |path: &str| Value { path: path.into(), value: "1".into() };
        Record::Change(Change {
            id: 1,
            boot: "b".into(),
            setting: "x".into(),
            path: path.into(),
            identity: Identity::default(),
            old: "1".into(),
            new: "2".into(),
            instead: instead.map(value),
            keeps: keeps.iter().map(|path| value(path)).collect(),
        })
    }

    fn built(part: Built) -> Record {
        Record::Built(BuiltRecord { id: 1, boot: "b".into(), part })
    }

    #[test]
    fn a_setting_is_below_sys_or_proc_sys_and_is_no_act() {
        const GOOD: &str = "/proc/sys/vm/swappiness";
        assert_eq!(check(&change(GOOD, Some("/proc/sys/vm/dirty_ratio"), &["/sys/x"])), Ok(()));
        for bad in [
            "/etc/passwd",
            "/sys/../etc/passwd",
            "/sys//x",
            "/proc/1/oom_adj",
            "/proc/sys/kernel/core_pattern",
            "/sys/x/..",
            "sys/x",
            "",
        ] {
            for record in
                [change(bad, None, &[]), change(GOOD, Some(bad), &[]), change(GOOD, None, &[GOOD, bad])]
            {
                assert!(check(&record).is_err(), "{bad}: {record:?}");
            }
        }
    }

    #[test]
    fn what_is_removed_is_named_as_flyball_names_it() {
        let text = str::to_owned;
        let tree = |path: &str| built(Built::Tree { path: text(path) });
        let folder = |path: &str| built(Built::Folder { path: text(path) });
        let mount = |folder: &str| {
            built(Built::Mount { folder: text(folder), source: "s".into(), number: "1:2".into() })
        };
        let volume = |group: &str| {
            let mapping = "flyball-volume".to_owned();
            built(Built::Volume { group: text(group), mapping, below: vec![] })
        };
        let module = |name: &str| built(Built::Module { name: text(name) });
        let server = |folder: &str| {
            built(Built::Server { program: "/usr/sbin/mariadbd".into(), folder: text(folder) })
        };
        let database = |name: &str, address: &str, user: &str| {
            built(Built::Database(super::super::OwnDatabase {
                name: text(name),
                server: text("postgresql"),
                address: text(address),
                user: text(user),
                password_file: None,
                connect: text("postgres"),
                identity: None,
                data: None,
            }))
        };
        let file =
            |path: &str| Record::File(FileRecord { id: 1, boot: "b".into(), path: text(path), inode: None });
        for good in [
            tree("/work/flyball-1-mariadb"),
            folder("/run/flyball-1-mariadb"),
            mount("/work/flyball-1-files-2"),
            volume("flyball_1_lvm_2"),
            module("null_blk"),
            server("/run/flyball-1-mariadb/data"),
            file("/home/me/notebook/work/target"),
            database("flyball_0123abcd", "/run/postgresql", "root"),
        ] {
            assert_eq!(check(&good), Ok(()), "{good:?}");
        }
        for bad in [
            tree("/etc"),
            tree("/work/flyball-1/../../etc"),
            tree("flyball-1"),
            folder("/home"),
            mount("/"),
            volume("../etc"),
            volume("flyball/../etc"),
            module("--remove"),
            module("a/b"),
            server("/"),
            file("target"),
            file("/work/../etc/shadow"),
            database("customers", "/run/postgresql", "root"),
            database("flyball_0123abcd; DROP DATABASE x", "/run/postgresql", "root"),
            database("flyball_0123abcd", "/run/postgresql", "host=evil"),
            database("flyball_0123abcd", "localhost", "root"),
        ] {
            assert!(check(&bad).is_err(), "{bad:?}");
        }
    }
}
