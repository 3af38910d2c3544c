//! What a load asks of a server: which one, which data; and making and warming these by the clients' own
//! programs.

use super::{Connection, Server};
use crate::Host;
use crate::sysbench::options::{Network, Test};
use crate::sysbench::script;

/// What a load asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Which server, with which settings.
    pub server: Server,
    /// What is in its tables.
    pub data: DataSet,
    /// What is between clients and server.
    pub network: Option<Network>,
    /// How many connect.
    pub clients: u32,
}

/// What is in the tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataSet {
    /// sysbench's.
    Sysbench {
        /// How many tables.
        tables: u32,
        /// Rows of each.
        rows: u64,
    },
    /// pgbench's.
    Pgbench {
        /// Its `--scale`.
        scale: u32,
    },
}

impl DataSet {
    /// What it takes on a disk with its indexes, about: 10 million rows of sysbench are 2.4 GB in InnoDB and
    /// 2.7 GB in PostgreSQL; pgbench's documentation has 15 MiB for each of its scale.
    pub fn size(&self) -> u64 {
        match self {
            Self::Sysbench { tables, rows } => u64::from(*tables) * rows * 270,
            Self::Pgbench { scale } => u64::from(*scale) * (15 << 20),
        }
    }
}

impl Load {
    /// The command that fills the tables.
    pub fn fill(&self, server: &Connection, host: &Host) -> Vec<String> {
        match self.data {
            DataSet::Sysbench { tables, rows } => self.sysbench(server, (tables, rows), host, "prepare"),
            DataSet::Pgbench { scale } => {
                let words = ["--initialize".to_owned(), "--quiet".into(), format!("--scale={scale}")];
                libpq(server, "pgbench", words)
            }
        }
    }

    /// The command that reads all tables once, so that the server has in its memory what fits into it.
    pub fn warm(&self, server: &Connection, host: &Host) -> Vec<String> {
        match self.data {
            DataSet::Sysbench { tables, rows } => self.sysbench(server, (tables, rows), host, "warm"),
            DataSet::Pgbench { .. } => libpq(server, "psql", prewarm()),
        }
    }

    fn sysbench(&self, server: &Connection, data: (u32, u64), host: &Host, command: &str) -> Vec<String> {
        let (tables, rows) = data;
        let mut argv = server.prefix.clone();
        let script = server.scripts.join(script::name(Test::ReadWrite));
        argv.extend(["sysbench".to_owned(), script.display().to_string()]);
        argv.extend(server.sysbench(self.server.kind));
        argv.extend([
            format!("--tables={tables}"),
            format!("--table-size={rows}"),
            format!("--threads={}", host.at_a_time(tables)),
            command.to_owned(),
        ]);
        argv
    }
}

/// psql's words that read pgbench's tables and indexes.
fn prewarm() -> Vec<String> {
    let tables = ["accounts", "accounts_pkey", "branches", "branches_pkey", "tellers", "tellers_pkey"];
    let mut words =
        vec!["--no-psqlrc".to_owned(), "--command=CREATE EXTENSION IF NOT EXISTS pg_prewarm".into()];
    words.extend(tables.map(|name| format!("--command=SELECT pg_prewarm('pgbench_{name}')")));
    words
}

fn libpq(server: &Connection, program: &str, words: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut argv = server.prefix.clone();
    argv.push(server.program(program));
    argv.extend(server.libpq());
    argv.extend(words);
    argv.push(server.database.clone());
    argv
}
