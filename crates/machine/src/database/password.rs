//! A password in the forms that clients read it in.
//!
//! It is read from its owner's file, and given to clients as a file in memory (memfd_create(2)) that only
//! this user can open by its path below `/proc`: so it is on no command line, in no variable and on no disk,
//! and is gone with this process.

use super::Error;
use domain::database::Kind;
use rustix::fs::{MemfdFlags, Mode, fchmod, memfd_create};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A bound on such a file.
const LONGEST: u64 = 4096;

/// What anybody but the owner may do with a file, in its mode.
const OF_OTHERS: u32 = 0o077;

/// A password that clients can read.
#[derive(Debug)]
pub(super) struct Password {
    /// As the server's own clients read it: a password file of libpq's, an option file of MariaDB's.
    client: File,
    /// As sysbench reads it, for MariaDB alone; `Err` says why it cannot.
    sysbench: Option<Result<File, String>>,
}

impl Password {
    /// Reads the first line of a file that nobody but its owner reads, who is this user or root.
    pub fn read(path: &str, kind: Kind) -> Result<Self, Error> {
        let refused = |why: String| Error::Password { path: path.to_owned(), why };
        let failed = |error: io::Error| refused(error.to_string());
        let file = files::regular::open(Path::new(path)).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.mode() & OF_OTHERS != 0 {
            return Err(refused(format!("others may use it; type `chmod 600 {path}`")));
        }
        let owner = metadata.uid();
        if ![0, rustix::process::geteuid().as_raw()].contains(&owner) {
            return Err(refused("it belongs to somebody else; name one of your own".into()));
        }
        let text = files::regular::read_all(file, LONGEST).map_err(failed)?;
        let text = String::from_utf8(text).map_err(|_| refused("it is not UTF-8".into()))?;
        let password = text.lines().next().unwrap_or_default();
        if password.is_empty() || password.contains(char::is_control) {
            return Err(refused("its first line is no password; write it there, and nothing else".into()));
        }
        let in_memory = |text: &str| in_memory(text).map_err(failed);
        Ok(match kind {
            Kind::PostgreSql => Self { client: in_memory(&libpq(password))?, sysbench: None },
            Kind::MariaDb => {
                let sysbench = match sysbench(password) {
                    Ok(text) => Ok(in_memory(&text)?),
                    Err(why) => Err(format!("cannot use the password file `{path}`: {why}")),
                };
                Self { client: in_memory(&mariadb(password))?, sysbench: Some(sysbench) }
            }
        })
    }

    /// What the server's own clients read.
    pub fn for_client(&self) -> PathBuf {
        path_of(&self.client)
    }

    /// What sysbench reads, where it is no variable that says it.
    pub fn for_sysbench(&self) -> Result<Option<PathBuf>, String> {
        match &self.sysbench {
            None => Ok(None),
            Some(Ok(file)) => Ok(Some(path_of(file))),
            Some(Err(why)) => Err(why.clone()),
        }
    }
}

/// libpq takes only a file that has a mode of its owner alone.
fn in_memory(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create("flyball-password", MemfdFlags::CLOEXEC)?);
    fchmod(&file, Mode::RUSR | Mode::WUSR)?;
    file.write_all(text.as_bytes())?;
    Ok(file)
}

fn path_of(file: &File) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

/// PostgreSQL's documentation, "The Password File": a colon and a backslash are escaped.
fn libpq(password: &str) -> String {
    format!("*:*:*:*:{}\n", password.replace('\\', "\\\\").replace(':', "\\:"))
}

/// MariaDB's documentation, "Option File Syntax".
fn mariadb(password: &str) -> String {
    format!("[client]\npassword=\"{}\"\n", password.replace('\\', "\\\\").replace('"', "\\\""))
}

/// sysbench 1.0 takes what is between quotes as it stands (`read_config_file` of its `sb_options.c`).
fn sysbench(password: &str) -> Result<String, String> {
    if password.contains('\'') {
        return Err("sysbench's option file takes no password with `'`; give that user another one".into());
    }
    Ok(format!("mysql-password='{password}'\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, String) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let path = path.to_str().unwrap().to_owned();
        (folder, path)
    }

    #[test]
    fn each_client_reads_its_own_form() {
        let (_folder, path) = file("a:b\\c\"d\nnot this\n", 0o600);
        let password = Password::read(&path, Kind::PostgreSql).unwrap();
        assert_eq!(fs::read_to_string(password.for_client()).unwrap(), "*:*:*:*:a\\:b\\\\c\"d\n");
        assert_eq!(password.for_sysbench(), Ok(None));
        let password = Password::read(&path, Kind::MariaDb).unwrap();
        assert_eq!(
            fs::read_to_string(password.for_client()).unwrap(),
            "[client]\npassword=\"a:b\\\\c\\\"d\"\n"
        );
        let given = password.for_sysbench().unwrap().unwrap();
        assert_eq!(fs::read_to_string(&given).unwrap(), "mysql-password='a:b\\c\"d'\n");
        assert_eq!(fs::metadata(&given).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_that_others_read_or_that_holds_none_is_refused() {
        for (text, mode, wanted) in
            [("x", 0o640, "chmod 600"), ("", 0o600, "is no password"), ("\nx", 0o600, "is no password")]
        {
            let (_folder, path) = file(text, mode);
            let told = Password::read(&path, Kind::MariaDb).unwrap_err().to_string();
            assert!(told.contains(wanted) && told.contains(&path), "{told}");
        }
        let (_folder, path) = file("it's", 0o600);
        assert!(
            Password::read(&path, Kind::MariaDb)
                .unwrap()
                .for_sysbench()
                .unwrap_err()
                .contains("no password with")
        );
        assert!(Password::read("/dev/null", Kind::MariaDb).is_err());
    }
}
