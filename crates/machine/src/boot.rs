//! The service that puts everything back at boot, where neither supervisor nor next start could: after a
//! power cut, after a crash of the kernel, after a shutdown in the middle of a run.
//!
//! It is two things in `/etc/systemd/system`: the unit, and the link that enables it. No systemctl is needed,
//! so that it can be installed into an image too.

use crate::lasting::{Files, LocalFiles, Roots};
use std::fmt::Write;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// The unit.
const UNIT: &str = "flyball-recover.service";

/// The target that wants it: everything that uses the devices comes after it.
const TARGET: &str = "sysinit.target.wants";

/// Folders of which nothing outlasts a restart, or that anybody may write.
const TEMPORARY: [&str; 5] = ["/tmp", "/var/tmp", "/dev", "/run", "/proc"];

/// Why the service cannot be installed or removed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program lies where it should not be started from by root.
    #[error(
        "cannot have `{}` started at boot: {reason}; install it into /usr/local/bin, and run that one", program.display()
    )]
    Program {
        /// The program.
        program: PathBuf,
        /// Why not.
        reason: String,
    },
    /// A path that a unit cannot say.
    #[error("cannot write `{}` into a unit: it holds a character that is not plain text; use another folder", path.display())]
    Path {
        /// The path.
        path: PathBuf,
    },
    /// A unit that is not ours.
    #[error("cannot write `{}`: a file is there that Flyball did not write; move it away", path.display())]
    NotOurs {
        /// The file.
        path: PathBuf,
    },
    /// A file.
    #[error("cannot {what} `{}`: {source}; run as root", path.display())]
    File {
        /// What was attempted.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// Writes the unit and enables it, and says what was written. Installing it again, after the program was
/// moved, is fine.
///
/// # Errors
/// See [`Error`].
pub fn install(roots: &Roots, program: &Path, state: &Path) -> Result<Vec<PathBuf>, Error> {
    let program = fs::canonicalize(program).map_err(|source| Error::File {
        what: "find",
        path: program.to_owned(),
        source,
    })?;
    check_program(&program)?;
    let text = unit(HEADER, &program, state)?;
    let (unit, link) = paths(roots);
    match LocalFiles.read(&unit) {
        Ok(None) => LocalFiles.make(&unit, &text),
        Ok(Some(now)) if is_ours(&now) => LocalFiles.replace(&unit, &text),
        Ok(Some(_)) => return Err(Error::NotOurs { path: unit }),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            return Err(Error::NotOurs { path: unit });
        }
        Err(error) => Err(error),
    }
    .map_err(|source| Error::File { what: "write", path: unit.clone(), source })?;
    enable(&link).map_err(|source| Error::File { what: "make the link", path: link.clone(), source })?;
    Ok(vec![unit, link])
}

/// Removes what [`install`] wrote, and says what that was.
///
/// # Errors
/// [`Error::NotOurs`], [`Error::File`].
pub fn uninstall(roots: &Roots) -> Result<Vec<PathBuf>, Error> {
    let (unit, link) = paths(roots);
    let failed = |what, path: &Path| {
        let path = path.to_owned();
        move |source| Error::File { what, path, source }
    };
    let mut removed = Vec::new();
    let ours = match LocalFiles.read(&unit) {
        Ok(text) => text.as_deref().is_none_or(is_ours),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => false,
        Err(error) => return Err(failed("look at", &unit)(error)),
    };
    if !ours {
        return Err(Error::NotOurs { path: unit });
    }
    for path in [link, unit] {
        if fs::symlink_metadata(&path).is_ok() {
            LocalFiles.remove(&path).map_err(failed("remove", &path))?;
            removed.push(path);
        }
    }
    Ok(removed)
}

fn paths(roots: &Roots) -> (PathBuf, PathBuf) {
    let folder = roots.etc.join("systemd/system");
    (folder.join(UNIT), folder.join(TARGET).join(UNIT))
}

fn enable(link: &Path) -> io::Result<()> {
    if let Some(folder) = link.parent() {
        fs::create_dir_all(folder)?;
    }
    match symlink(format!("../{UNIT}"), link) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

const HEADER: &str = "# Written by `flyball restore --install`; `flyball restore --uninstall` removes it.";

const PACKAGED: &str =
    "# Written by `flyball restore --print-unit`, for a package; systemctl enables and disables it.";

fn is_ours(text: &str) -> bool {
    text.starts_with(HEADER)
}

/// The unit as a package ships it: of a program that may not be there yet, and enabled by the package's own
/// means.
///
/// # Errors
/// [`Error::Path`].
pub fn packaged(program: &Path, state: &Path) -> Result<String, Error> {
    unit(PACKAGED, program, state)
}

/// The unit's text below its first line.
///
/// It needs the file systems of program and state and nothing else, so that it also runs where another file
/// system cannot be mounted for what was left changed; services come after it, for they come after
/// `sysinit.target`. At a shutdown it is stopped after them, and so after any run, and before the file
/// systems go.
fn unit(header: &str, program: &Path, state: &Path) -> Result<String, Error> {
    let (program, state) = (quoted(program)?, quoted(state)?);
    let mut text = String::new();
    let _ = write!(
        text,
        "{header}
[Unit]
Description=Put back what Flyball changed on this machine
Documentation=man:flyball(1)
DefaultDependencies=no
RequiresMountsFor={program} {state}
ConditionFileIsExecutable={program}
After=systemd-remount-fs.service systemd-udev-trigger.service
Before=local-fs.target sysinit.target shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
Environment=\"FLYBALL_STATE={state}\"
ExecStart={program} restore
ExecStop={program} restore
# 5: something was changed by somebody else since, and left alone.
SuccessExitStatus=5
TimeoutSec=60

[Install]
WantedBy=sysinit.target
"
    );
    Ok(text)
}

/// A path as a unit takes it everywhere without quotes: only characters that mean nothing there.
fn quoted(path: &Path) -> Result<String, Error> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._+-@:,=~".contains(c);
    match path.to_str().filter(|text| text.starts_with('/') && text.chars().all(plain)) {
        Some(text) => Ok(text.to_owned()),
        None => Err(Error::Path { path: path.to_owned() }),
    }
}

/// Refuses a program that somebody else could replace, or that is not there at the next boot.
fn check_program(program: &Path) -> Result<(), Error> {
    let refuse = |reason: String| Err(Error::Program { program: program.to_owned(), reason });
    if let Some(folder) = TEMPORARY.iter().find(|folder| program.starts_with(folder)) {
        return refuse(format!("`{folder}` does not outlast a restart"));
    }
    for path in program.ancestors() {
        let metadata = fs::metadata(path).map_err(|source| Error::File {
            what: "look at",
            path: path.to_owned(),
            source,
        })?;
        if metadata.mode() & 0o002 != 0 {
            return refuse(format!("everybody may write `{}`", path.display()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_unit_waits_for_its_file_systems_and_runs_at_both_ends() {
        let text = unit(HEADER, Path::new("/usr/local/bin/flyball"), Path::new("/var/lib/flyball")).unwrap();
        expect![[r##"
            # Written by `flyball restore --install`; `flyball restore --uninstall` removes it.
            [Unit]
            Description=Put back what Flyball changed on this machine
            Documentation=man:flyball(1)
            DefaultDependencies=no
            RequiresMountsFor=/usr/local/bin/flyball /var/lib/flyball
            ConditionFileIsExecutable=/usr/local/bin/flyball
            After=systemd-remount-fs.service systemd-udev-trigger.service
            Before=local-fs.target sysinit.target shutdown.target
            Conflicts=shutdown.target

            [Service]
            Type=oneshot
            RemainAfterExit=yes
            Environment="FLYBALL_STATE=/var/lib/flyball"
            ExecStart=/usr/local/bin/flyball restore
            ExecStop=/usr/local/bin/flyball restore
            # 5: something was changed by somebody else since, and left alone.
            SuccessExitStatus=5
            TimeoutSec=60

            [Install]
            WantedBy=sysinit.target
        "##]]
        .assert_eq(&text);
    }

    #[test]
    fn a_packaged_unit_differs_by_its_first_line_alone() {
        let (program, state) = (Path::new("/usr/bin/flyball"), Path::new("/var/lib/flyball"));
        let (installed, shipped) = (unit(HEADER, program, state).unwrap(), packaged(program, state).unwrap());
        assert_eq!(installed.split_once('\n').unwrap().1, shipped.split_once('\n').unwrap().1);
        assert!(is_ours(&installed) && !is_ours(&shipped));
    }

    #[test]
    fn a_program_in_a_temporary_folder_is_refused() {
        for path in ["/tmp/flyball", "/dev/shm/x/flyball", "/run/flyball"] {
            let error = check_program(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains("/usr/local/bin"), "{error}");
        }
    }

    #[test]
    fn a_path_that_a_unit_would_take_apart_is_refused() {
        for path in ["/opt/my tools/flyball", "/opt/%n/flyball", "/opt/\"x", "relative"] {
            assert!(quoted(Path::new(path)).is_err(), "{path}");
        }
    }
}
