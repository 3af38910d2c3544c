//! PostgreSQL (13 or newer; initdb(1), postgres(1)).
//!
//! Its own configuration file is the one that initdb makes, in our folder. It trusts whoever reaches its
//! socket, which takes entering its folder, and whoever is in its network namespace.

use super::steps::{Steps, missing, version};
use super::{DATA, Programs, Wanted};
use crate::Error;
use machine::serving::{Link, Room};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use workloads::server::postgresql::{PORT, USER};

/// Where Debian has one folder for each version.
const DEBIAN: &str = "/usr/lib/postgresql";
const PACKAGE: &str = "postgresql";

pub(super) fn programs() -> Result<Programs, Error> {
    let folder =
        newest(Path::new(DEBIAN)).or_else(in_the_path).ok_or_else(|| missing("postgres", PACKAGE))?;
    let at = |name: &str| fs::canonicalize(folder.join(name)).map_err(|_| missing(name, PACKAGE));
    let server = at("postgres")?;
    at("initdb")?;
    at("pgbench")?;
    let version = version(&server)?;
    Ok(Programs { server, folder: Some(folder), version })
}

fn newest(folder: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let of_version = |path: PathBuf| Some((version(&path)?, path.join("bin")));
    let all = entries.filter_map(|entry| of_version(entry.path()));
    all.filter(|(_, bin)| bin.join("postgres").exists()).max().map(|(_, bin)| bin)
}

fn in_the_path() -> Option<PathBuf> {
    let server = super::steps::find("postgres", PACKAGE).ok()?;
    server.parent().map(Path::to_owned)
}

/// Makes its own tables.
pub(super) fn create(steps: &mut Steps<'_>, programs: &Programs, room: &Room) -> Result<(), Error> {
    let data = room.path.join(DATA);
    let folder = programs.folder.as_deref().unwrap_or(Path::new(""));
    let argv = vec![
        folder.join("initdb").display().to_string(),
        format!("--pgdata={}", data.display()),
        format!("--username={USER}"),
        "--auth=trust".into(),
        "--no-locale".into(),
        "--encoding=UTF8".into(),
        "--no-sync".into(),
    ];
    steps.run_as_server("make PostgreSQL's own tables", "create", argv)?;
    let path = room.place.join(DATA).join("pg_hba.conf");
    let line = format!("host all all {} trust\n", Link::NETWORK);
    let opened = files::own::append_to_anothers(&path);
    let written = opened.and_then(|mut file| file.write_all(line.as_bytes()));
    written.map_err(|e| Error::file("write", &path, e))
}

pub(super) fn command(programs: &Programs, room: &Room, wanted: &Wanted, link: Option<&Link>) -> Vec<String> {
    let listen = link.map_or("", |_| Link::ADDRESS);
    let mut argv =
        vec![programs.server.display().to_string(), "-D".into(), room.path.join(DATA).display().to_string()];
    let ours = [
        format!("unix_socket_directories={}", room.path.display()),
        format!("listen_addresses={listen}"),
        format!("port={PORT}"),
        // Not in /dev/shm, where files would outlive a kill.
        "dynamic_shared_memory_type=mmap".into(),
        format!("max_connections={}", wanted.connections()),
    ];
    let settings = wanted.load.server.settings.iter().map(|(name, value)| format!("{name}={value}"));
    argv.extend(ours.into_iter().chain(settings).flat_map(|word| ["-c".to_owned(), word]));
    argv
}

/// It says so in the last line of its file (`PM_STATUS_READY` of its `miscadmin.h`).
pub(super) fn is_ready(room: &Room) -> bool {
    let file = fs::read_to_string(room.place.join(DATA).join("postmaster.pid"));
    file.is_ok_and(|text| text.lines().last().is_some_and(|line| line.trim() == "ready"))
}
