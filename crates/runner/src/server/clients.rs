//! Making a data set, and warming it, by the clients' own programs.

use super::steps::Steps;
use super::{Access, DataSet, Wanted, mariadb, postgresql, script_name};
use crate::Error;
use workloads::server::Kind;
use workloads::sysbench::options::Test;

pub(crate) use postgresql::DATABASE;

/// How sysbench reaches a server.
pub(crate) fn sysbench(access: &Access, kind: Kind) -> Vec<String> {
    let mut words = match kind {
        Kind::MariaDb => {
            vec![
                "--db-driver=mysql".to_owned(),
                "--mysql-user=root".into(),
                format!("--mysql-db={}", mariadb::DATABASE),
            ]
        }
        Kind::PostgreSql => vec![
            "--db-driver=pgsql".to_owned(),
            format!("--pgsql-user={}", postgresql::USER),
            format!("--pgsql-db={}", postgresql::DATABASE),
            format!("--pgsql-port={}", postgresql::PORT),
        ],
    };
    match (kind, &access.address) {
        (Kind::MariaDb, Some(address)) => {
            words.extend([format!("--mysql-host={address}"), format!("--mysql-port={}", mariadb::PORT)]);
        }
        (Kind::MariaDb, None) => words.push(format!("--mysql-socket={}", access.socket().display())),
        (Kind::PostgreSql, Some(address)) => words.push(format!("--pgsql-host={address}")),
        (Kind::PostgreSql, None) => words.push(format!("--pgsql-host={}", access.folder.display())),
    }
    words
}

/// How programs of PostgreSQL's reach a server.
pub(crate) fn libpq(access: &Access) -> Vec<String> {
    let host = access.address.clone().unwrap_or_else(|| access.folder.display().to_string());
    vec![
        format!("--host={host}"),
        format!("--port={}", postgresql::PORT),
        format!("--username={}", postgresql::USER),
    ]
}

/// As many tables at a time as this machine has CPUs.
pub(crate) fn hands(tables: u32) -> u32 {
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    tables.min(u32::try_from(cpus).unwrap_or(u32::MAX)).max(1)
}

fn sysbench_step(access: &Access, wanted: &Wanted, command: &str) -> Option<Vec<String>> {
    let DataSet::Sysbench { tables, rows } = wanted.data else { return None };
    let mut argv = access.prefix.clone();
    let script = access.folder.join(script_name(Test::ReadWrite));
    argv.extend(["sysbench".to_owned(), script.display().to_string()]);
    argv.extend(sysbench(access, wanted.server.kind));
    argv.extend([
        format!("--tables={tables}"),
        format!("--table-size={rows}"),
        format!("--threads={}", hands(tables)),
        command.to_owned(),
    ]);
    Some(argv)
}

/// Fills the tables.
pub(super) fn fill(steps: &mut Steps<'_>, access: &Access, wanted: &Wanted) -> Result<(), Error> {
    let argv = sysbench_step(access, wanted, "prepare").unwrap_or_else(|| {
        let DataSet::Pgbench { scale } = wanted.data else { unreachable!("the other one is sysbench's") };
        let words = ["--initialize".to_owned(), "--quiet".into(), format!("--scale={scale}")];
        pgbench_command(access, "pgbench", words)
    });
    steps.run("make the data set", "prepare", argv)
}

/// Reads all tables once, so that the server has in its memory what fits into it.
pub(super) fn warm(steps: &mut Steps<'_>, access: &Access, wanted: &Wanted) -> Result<(), Error> {
    let argv = sysbench_step(access, wanted, "warm").unwrap_or_else(|| {
        let mut words =
            vec!["--no-psqlrc".to_owned(), "--command=CREATE EXTENSION IF NOT EXISTS pg_prewarm".into()];
        for name in ["accounts", "accounts_pkey", "branches", "branches_pkey", "tellers", "tellers_pkey"] {
            words.push(format!("--command=SELECT pg_prewarm('pgbench_{name}')"));
        }
        pgbench_command(access, "psql", words)
    });
    steps.run("warm the data set", "warm", argv)
}

fn pgbench_command(access: &Access, program: &str, words: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut argv = access.prefix.clone();
    argv.push(access.program(program));
    argv.extend(libpq(access));
    argv.extend(words);
    argv.push(postgresql::DATABASE.to_owned());
    argv
}
