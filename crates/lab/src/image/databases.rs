//! What a guest needs to be asked a database: this host's servers, their clients, and the files that they
//! read.
//!
//! It is some 90 MiB that most studies never look at, so only an image of
//! [`Flavour::Databases`](super::Flavour) has it. Each file has the path that it has on this host, for
//! servers know their own by it.

use super::{Contents, Tool, merged, tool};
use crate::programs;
use crate::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};
use workloads::server::Kind;

/// What starts a server and its clients, whichever it is.
const OF_BOTH: [Tool; 2] = [tool("setpriv", "util-linux"), tool("sysbench", "sysbench")];

const OF_MARIADB: [Tool; 4] = [
    tool("mariadbd", "mariadb-server-core"),
    tool("mariadb-install-db", "mariadb-server-core"),
    tool("resolveip", "mariadb-server-core"),
    tool("my_print_defaults", "mariadb-client-core"),
];

/// A network between client and server.
const OF_A_NETWORK: [Tool; 3] =
    [tool("nsenter", "util-linux"), tool("ip", "iproute2"), tool("tc", "iproute2")];

/// Where Debian has PostgreSQL's programs and libraries, in a folder for each version, and what they read.
const POSTGRESQL: &str = "/usr/lib/postgresql";
const POSTGRESQL_SHARE: &str = "/usr/share/postgresql";
const POSTGRESQL_PROGRAMS: [&str; 4] = ["postgres", "initdb", "psql", "pgbench"];

/// Folders of files that servers and clients read: messages and tables of MariaDB's own, sysbench's tests.
const READ: [&str; 2] = ["/usr/share/mysql", "/usr/share/sysbench"];

/// PostgreSQL asks for the zone that it runs in, and there is no other in a guest.
const ZONES: [&str; 2] = ["/usr/share/zoneinfo/Etc/UTC", "/usr/share/zoneinfo/UTC"];

/// The programs that this host lacks for a server of this kind in a guest, each with Debian's package.
pub fn missing(kind: Kind, has_network: bool) -> Vec<String> {
    let is_there = |program: &str| programs::find(program).is_some();
    lacking(kind, has_network, &is_there, versions(Path::new(POSTGRESQL)).is_empty())
}

fn lacking(
    kind: Kind,
    has_network: bool,
    is_there: &dyn Fn(&str) -> bool,
    no_postgresql: bool,
) -> Vec<String> {
    let of_the_server: &[Tool] = match kind {
        Kind::MariaDb => &OF_MARIADB,
        Kind::PostgreSql => &[],
    };
    let of_the_network: &[Tool] = if has_network { &OF_A_NETWORK } else { &[] };
    let wanted = OF_BOTH.iter().chain(of_the_server).chain(of_the_network);
    let absent = wanted.filter(|tool| !is_there(tool.program)).map(Tool::told);
    let postgres = (kind == Kind::PostgreSql && no_postgresql).then(|| tool("postgres", "postgresql").told());
    absent.chain(postgres).collect()
}

/// The folders of PostgreSQL's versions, the newest last.
fn versions(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let version = |path: PathBuf| Some((path.file_name()?.to_str()?.parse::<u32>().ok()?, path));
    let is_whole = |path: &Path| POSTGRESQL_PROGRAMS.iter().all(|name| path.join("bin").join(name).is_file());
    let mut all: Vec<(u32, PathBuf)> = entries.filter_map(|entry| version(entry.path())).collect();
    all.retain(|(_, path)| is_whole(path));
    all.sort();
    all.into_iter().map(|(_, path)| path).collect()
}

/// Adds what this host has of it.
pub(super) fn add(all: &mut Contents) -> Result<()> {
    for tool in OF_BOTH.iter().chain(&OF_MARIADB).chain(&OF_A_NETWORK) {
        match programs::find(tool.program) {
            Some(found) => all.add(&found, &merged(&found))?,
            None => all.missing.push(tool.told()),
        }
    }
    for folder in READ.map(Path::new).into_iter().filter(|folder| folder.is_dir()) {
        add_tree(all, folder)?;
    }
    for zone in ZONES.map(Path::new).into_iter().filter(|zone| zone.is_file()) {
        all.files.insert(zone.to_owned(), real(zone)?);
    }
    let versions = versions(Path::new(POSTGRESQL));
    if versions.is_empty() {
        all.missing.push(tool("postgres", "postgresql").told());
    }
    versions.iter().try_for_each(|version| add_postgresql(all, version))
}

fn add_postgresql(all: &mut Contents, version: &Path) -> Result<()> {
    for program in POSTGRESQL_PROGRAMS {
        let file = version.join("bin").join(program);
        all.add(&file, &file)?;
    }
    // What Debian has in the path is a script that looks for a machine's own servers. The newest version
    // comes last.
    all.links.insert("/usr/bin/pgbench".into(), version.join("bin/pgbench"));
    // Their own libraries are the server's too. Compiling queries takes a compiler of 100 MiB; without it
    // they are interpreted.
    let libraries = files_of(&version.join("lib"))?;
    let name =
        |file: &Path| file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let is_wanted = |file: &&PathBuf| name(file).ends_with(".so") && !name(file).starts_with("llvmjit");
    for file in libraries.iter().filter(is_wanted) {
        all.files.insert(file.clone(), real(file)?);
    }
    let share = Path::new(POSTGRESQL_SHARE).join(version.file_name().unwrap_or_default());
    add_tree(all, &share)
}

/// Adds a folder with all that is below it. Links become what they lead to; those that lead nowhere are left
/// out.
fn add_tree(all: &mut Contents, folder: &Path) -> Result<()> {
    for entry in files_of(folder)? {
        if entry.is_dir() {
            add_tree(all, &entry)?;
        } else if entry.is_file() {
            let file = real(&entry)?;
            all.files.insert(entry, file);
        }
    }
    Ok(())
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|e| Error::file("list", folder, e))?;
    entries.map(|entry| Ok(entry.map_err(|e| Error::file("list", folder, e))?.path())).collect()
}

fn real(file: &Path) -> Result<PathBuf> {
    fs::canonicalize(file).map_err(|e| Error::file("find", file, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_package() {
        let without = |absent: &'static [&'static str]| move |program: &str| !absent.contains(&program);
        assert_eq!(lacking(Kind::MariaDb, true, &without(&[]), true), [""; 0]);
        assert_eq!(
            lacking(Kind::MariaDb, false, &without(&["mariadbd", "tc"]), false),
            ["`mariadbd` (Debian's mariadb-server-core)"]
        );
        assert_eq!(
            lacking(Kind::PostgreSql, true, &without(&["mariadbd", "tc"]), true),
            ["`tc` (Debian's iproute2)", "`postgres` (Debian's postgresql)"]
        );
    }

    #[test]
    fn postgresql_is_taken_whole_and_the_newest_last() {
        let folder = tempfile::tempdir().unwrap();
        for (version, programs) in
            [("15", &POSTGRESQL_PROGRAMS[..]), ("9", &POSTGRESQL_PROGRAMS), ("17", &["psql"])]
        {
            let bin = folder.path().join(version).join("bin");
            fs::create_dir_all(&bin).unwrap();
            programs.iter().for_each(|name| fs::write(bin.join(name), "").unwrap());
        }
        let found = versions(folder.path());
        let names: Vec<_> = found.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["9", "15"]);
        assert!(versions(&folder.path().join("none")).is_empty());
    }
}
