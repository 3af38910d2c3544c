//! MariaDB (10.4 or newer; mariadbd(8), mariadb-install-db(1)).
//!
//! It reads no option file, and knows no users: whoever reaches its socket is somebody who may enter its
//! folder, and whoever reaches its address is in its network namespace.

use super::steps::{Steps, find, version};
use super::{DATA, Programs, Wanted, write_readable};
use crate::Error;
use files::own;
use machine::serving::{Link, Room};
use std::fs;
use std::os::unix::net::UnixStream;
use workloads::server::SOCKET;
use workloads::server::mariadb::{DATABASE, PORT};

/// Every client prepares its statements for every table: sysbench soon has more than the server's default of
/// 16,382.
const PREPARED_STATEMENTS: u32 = 1_048_576;

const TEMPORARY: &str = "tmp";
const INIT: &str = "init.sql";
const PACKAGE: &str = "mariadb-server-core";

pub(super) fn programs() -> Result<Programs, Error> {
    let server = find("mariadbd", PACKAGE)?;
    find("mariadb-install-db", PACKAGE)?;
    let version = version(&server)?;
    Ok(Programs { server, folder: None, version })
}

/// Makes its own tables.
pub(super) fn create(steps: &mut Steps<'_>, room: &Room, wanted: &Wanted) -> Result<(), Error> {
    let init = room.place.join(INIT);
    let text = format!("CREATE DATABASE IF NOT EXISTS {DATABASE};\n");
    write_readable(&init, &text)?;
    let temporary = room.place.join(TEMPORARY);
    let made = match room.user {
        Some(user) => own::make_folder_for(&temporary, user),
        None => fs::create_dir(&temporary),
    };
    made.map_err(|e| Error::file("make", &temporary, e))?;
    let mut argv = vec!["mariadb-install-db".to_owned(), "--no-defaults".into()];
    argv.extend(places(room));
    let quiet = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"];
    argv.extend(quiet.map(str::to_owned));
    // The data files are made with these.
    argv.extend(wanted.load.server.data_settings().iter().map(setting));
    steps.run_as_server("make MariaDB's own tables", "create", argv)
}

fn places(room: &Room) -> [String; 2] {
    let at = |name: &str| room.path.join(name).display().to_string();
    [format!("--datadir={}", at(DATA)), format!("--tmpdir={}", at(TEMPORARY))]
}

fn setting((name, value): (&String, &String)) -> String {
    format!("--{}={value}", name.replace('_', "-"))
}

pub(super) fn command(programs: &Programs, room: &Room, wanted: &Wanted, link: Option<&Link>) -> Vec<String> {
    let at = |name: &str| room.path.join(name).display().to_string();
    let mut argv = vec![programs.server.display().to_string(), "--no-defaults".into()];
    argv.extend(places(room));
    argv.extend([
        format!("--socket={}", at(SOCKET)),
        format!("--pid-file={}", at("pid")),
        format!("--init-file={}", at(INIT)),
        format!("--secure-file-priv={}", at(TEMPORARY)),
        "--skip-grant-tables".into(),
        "--skip-log-bin".into(),
        "--skip-name-resolve".into(),
        format!("--max-prepared-stmt-count={PREPARED_STATEMENTS}"),
        format!("--max-connections={}", wanted.connections()),
    ]);
    match link {
        Some(_) => argv.extend([format!("--bind-address={}", Link::ADDRESS), format!("--port={PORT}")]),
        None => argv.push("--skip-networking".into()),
    }
    // The last one counts, so that a study's word does.
    argv.extend(wanted.load.server.settings.iter().map(setting));
    argv
}

/// It makes its socket when it has read its log.
pub(super) fn is_ready(room: &Room) -> bool {
    UnixStream::connect(room.path.join(SOCKET)).is_ok()
}
