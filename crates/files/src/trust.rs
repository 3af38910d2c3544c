//! Who else may change what a path means.
//!
//! Whoever may write to any folder on the way to a file can put another one in its place, at any moment
//! between two looks. So before Flyball writes below a folder, each folder on the way to it, links resolved,
//! has to belong to root or to this user, and to be writable by nobody else; a user other than root may share
//! folders with a group of his choice. A folder with the sticky bit (`/tmp`) may be on the way, for in it
//! names belong to their owners (unlink(2)), but Flyball's own folder may not be such a one. Where all of
//! that holds, nobody else can undo it afterwards, so that looking once is enough.

use crate::durable;
use rustix::fs::FileType;
use rustix::process::geteuid;
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

/// The kernel's own bound on links in one path (path_resolution(7)).
const MAX_LINKS: usize = 40;
/// The sticky bit of a folder.
const STICKY: u32 = 0o1000;

/// Why a folder is not to be relied on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Untrusted {
    /// It, or a folder or link on the way to it, belongs to somebody else.
    #[error(
        "`{}` belongs to user {owner}, who could put something else in its place at any moment; name a folder below which \
         everything belongs to root or to you",
        path.display()
    )]
    Owner {
        /// The folder or link.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
    },
    /// Others may write to it, or to a folder on the way to it.
    #[error(
        "others may write to `{}`, and could put something else in its place at any moment; `chmod go-w` it, or name \
         another folder",
        path.display()
    )]
    Writable {
        /// The folder.
        path: PathBuf,
    },
    /// Something on the way is no folder.
    #[error("`{}` is no folder; name another", path.display())]
    NoFolder {
        /// What.
        path: PathBuf,
    },
    /// It cannot be looked at, or made.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// What.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
}

impl Untrusted {
    /// What it is about.
    pub fn path(&self) -> &Path {
        match self {
            Self::Owner { path, .. }
            | Self::Writable { path }
            | Self::NoFolder { path }
            | Self::Io { path, .. } => path,
        }
    }
}

/// Looks at every folder on the way to `folder`, and at itself, as far as they are there; returns the path
/// with its links resolved. What is missing is still to be made, by this user.
///
/// # Errors
/// [`Untrusted`], with the folder that it is about.
pub fn check(folder: &Path) -> Result<PathBuf, Untrusted> {
    let absolute = std::path::absolute(folder).map_err(unreadable(folder))?;
    let mut walk = Walk::new(&absolute);
    while let Some(name) = walk.left.pop_front() {
        walk.step(&name)?;
    }
    let reached = walk.reached;
    if fs::symlink_metadata(&reached).is_ok_and(|metadata| is_open_to_others(&metadata)) {
        return Err(Untrusted::Writable { path: reached });
    }
    Ok(reached)
}

/// The same for the folder of a file that is written by [`crate::durable::replace`] or made anew: it may be
/// `/tmp`, for neither follows a link.
///
/// # Errors
/// [`Untrusted`], with the folder that it is about.
pub fn check_folder_of(file: &Path) -> Result<(), Untrusted> {
    let absolute = std::path::absolute(file).map_err(unreadable(file))?;
    let mut walk = Walk::new(durable::parent(&absolute));
    while let Some(name) = walk.left.pop_front() {
        walk.step(&name)?;
    }
    Ok(())
}

/// Makes a folder and those above it where they are missing, with these permissions, and looks at all of them
/// before and after.
///
/// # Errors
/// [`Untrusted`]; [`Untrusted::Io`] where it cannot be made.
pub fn make(folder: &Path, mode: u32) -> Result<PathBuf, Untrusted> {
    let path = check(folder)?;
    DirBuilder::new().recursive(true).mode(mode).create(&path).map_err(|source| Untrusted::Io {
        action: "make the folder",
        path: path.clone(),
        source,
    })?;
    // Somebody may have been faster in a folder with the sticky bit.
    check(&path)
}

struct Walk {
    /// So far, without links.
    reached: PathBuf,
    left: VecDeque<OsString>,
    links: usize,
}

impl Walk {
    fn new(path: &Path) -> Self {
        let mut walk = Self { reached: "/".into(), left: VecDeque::new(), links: 0 };
        walk.put_first(path);
        walk
    }

    /// Begins anew at the root where `path` is absolute.
    fn put_first(&mut self, path: &Path) {
        if path.is_absolute() {
            self.reached = "/".into();
        }
        for component in path.components().rev() {
            match component {
                Component::Normal(name) => self.left.push_front(name.to_owned()),
                Component::ParentDir => self.left.push_front("..".into()),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
    }

    fn step(&mut self, name: &OsStr) -> Result<(), Untrusted> {
        if name == ".." {
            // A link was resolved before, so that this is the folder above as the kernel sees it.
            self.reached.pop();
            return Ok(());
        }
        let path = self.reached.join(name);
        let metadata = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.check_parent()?;
                self.reached = path;
                return Ok(());
            }
            Err(error) => return Err(unreadable(&path)(error)),
        };
        check_owner(&path, &metadata)?;
        match FileType::from_raw_mode(metadata.mode()) {
            FileType::Symlink => self.follow(&path),
            FileType::Directory => {
                check_writable(&path, &metadata)?;
                self.reached = path;
                Ok(())
            }
            _ => Err(Untrusted::NoFolder { path }),
        }
    }

    /// What is missing must not be made by somebody else meanwhile, as it could be in `/tmp`; made by us it
    /// is ours, and making it fails where somebody was faster.
    fn check_parent(&self) -> Result<(), Untrusted> {
        match fs::symlink_metadata(&self.reached) {
            Ok(metadata) => check_writable(&self.reached, &metadata),
            Err(_) => Ok(()),
        }
    }

    fn follow(&mut self, link: &Path) -> Result<(), Untrusted> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(unreadable(link)(io::Error::other("too many links lead to one another")));
        }
        let target = fs::read_link(link).map_err(unreadable(link))?;
        self.put_first(&target);
        Ok(())
    }
}

fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), Untrusted> {
    match metadata.uid() {
        0 => Ok(()),
        owner if owner == geteuid().as_raw() => Ok(()),
        owner => Err(Untrusted::Owner { path: path.to_owned(), owner }),
    }
}

fn is_open_to_others(metadata: &Metadata) -> bool {
    let (group, everybody) = (0o020, 0o002);
    let others = if geteuid().is_root() { group | everybody } else { everybody };
    metadata.mode() & others != 0
}

fn check_writable(path: &Path, metadata: &Metadata) -> Result<(), Untrusted> {
    if is_open_to_others(metadata) && metadata.mode() & STICKY == 0 {
        return Err(Untrusted::Writable { path: path.to_owned() });
    }
    Ok(())
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Untrusted {
    let path = path.to_owned();
    move |source| Untrusted::Io { action: "look at", path, source }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    fn folder_in(parent: &Path, name: &str, mode: u32) -> PathBuf {
        let path = parent.join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_folder_of_ones_own_is_relied_on_also_before_it_is_made() {
        let root = tempfile::tempdir().unwrap();
        let plain = fs::canonicalize(root.path()).unwrap();
        assert_eq!(check(root.path()).unwrap(), plain);
        assert_eq!(check(&root.path().join("a/b")).unwrap(), plain.join("a/b"));
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused_anywhere_on_the_way() {
        let root = tempfile::tempdir().unwrap();
        let open = folder_in(root.path(), "open", 0o777);
        let inside = folder_in(&open, "inside", 0o755);
        for path in [&open, &inside, &inside.join("missing")] {
            let error = check(path).unwrap_err();
            assert!(matches!(&error, Untrusted::Writable { path } if path.ends_with("open")), "{error}");
        }
        let group = folder_in(root.path(), "group", 0o775);
        assert_eq!(check(&group).is_err(), geteuid().is_root());
    }

    #[test]
    fn a_sticky_folder_is_good_on_the_way_and_not_as_ones_own() {
        let root = tempfile::tempdir().unwrap();
        let sticky = folder_in(root.path(), "sticky", 0o1777);
        let inside = folder_in(&sticky, "inside", 0o755);
        assert!(check(&inside).is_ok());
        assert!(matches!(check(&sticky), Err(Untrusted::Writable { .. })));
        assert!(check_folder_of(&sticky.join("page.html")).is_ok());
        assert!(check_folder_of(&folder_in(root.path(), "open", 0o777).join("page.html")).is_err());
    }

    #[test]
    fn a_link_is_judged_by_where_it_leads() {
        let root = tempfile::tempdir().unwrap();
        let open = folder_in(root.path(), "open", 0o777);
        let shut = folder_in(root.path(), "shut", 0o755);
        symlink(&open, root.path().join("to-open")).unwrap();
        symlink("shut", root.path().join("to-shut")).unwrap();
        symlink(root.path().join("loop"), root.path().join("loop")).unwrap();
        assert_eq!(check(&root.path().join("to-shut")).unwrap(), fs::canonicalize(&shut).unwrap());
        assert!(matches!(check(&root.path().join("to-open/x")), Err(Untrusted::Writable { .. })));
        assert!(check(&root.path().join("loop")).is_err());
    }

    #[test]
    fn a_folder_or_link_of_somebody_else_is_refused() {
        if !geteuid().is_root() {
            testing::skip("giving a folder to somebody else needs root");
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let theirs = folder_in(root.path(), "theirs", 0o755);
        let inside = folder_in(&theirs, "inside", 0o755);
        chown(&theirs, Some(4242), Some(4242)).unwrap();
        assert!(matches!(check(&inside), Err(Untrusted::Owner { owner: 4242, .. })));
        let link = root.path().join("link");
        symlink(root.path(), &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(4242), Some(4242)).unwrap();
        assert!(matches!(check(&link), Err(Untrusted::Owner { owner: 4242, .. })));
    }

    #[test]
    fn a_file_on_the_way_is_no_folder() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        assert!(matches!(check(&root.path().join("file/x")), Err(Untrusted::NoFolder { .. })));
    }
}
