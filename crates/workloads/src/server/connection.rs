//! How a client reaches a server.

use super::{Kind, mariadb, postgresql};
use crate::sysbench::options::Network;
use std::path::PathBuf;

/// How a client reaches a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Where its socket and Flyball's scripts are.
    pub folder: PathBuf,
    /// Its address; none: its socket.
    pub address: Option<String>,
    /// What a client's command begins with: it runs at its own end of the network.
    pub prefix: Vec<String>,
    /// The folder of the server's programs, where they are not in the path.
    pub programs: Option<PathBuf>,
}

/// The name of MariaDB's socket.
pub const SOCKET: &str = "socket";

/// The server's address, where there is a network.
pub const ADDRESS: &str = "198.18.0.1";

impl Connection {
    /// Stands for a server that will be made: the words in capitals are known only then.
    pub fn planned(network: Option<Network>) -> Self {
        let prefix = ["nsenter", "--net=CLIENT", "--"].map(str::to_owned);
        Self {
            folder: PathBuf::from("SERVER"),
            address: network.map(|_| ADDRESS.to_owned()),
            prefix: network.map_or(Vec::new(), |_| prefix.to_vec()),
            programs: None,
        }
    }

    /// A program of the server's.
    pub fn program(&self, name: &str) -> String {
        let path = self.programs.as_ref().map(|folder| folder.join(name));
        path.map_or_else(|| name.to_owned(), |path| path.to_string_lossy().into_owned())
    }

    /// Its socket, which the client finds by itself where it is PostgreSQL's.
    pub fn socket(&self) -> PathBuf {
        self.folder.join(SOCKET)
    }

    /// How sysbench reaches a server.
    pub fn sysbench(&self, kind: Kind) -> Vec<String> {
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
        match (kind, &self.address) {
            (Kind::MariaDb, Some(address)) => {
                words.extend([format!("--mysql-host={address}"), format!("--mysql-port={}", mariadb::PORT)]);
            }
            (Kind::MariaDb, None) => words.push(format!("--mysql-socket={}", self.socket().display())),
            (Kind::PostgreSql, Some(address)) => words.push(format!("--pgsql-host={address}")),
            (Kind::PostgreSql, None) => words.push(format!("--pgsql-host={}", self.folder.display())),
        }
        words
    }

    /// How programs of PostgreSQL's reach a server.
    pub fn libpq(&self) -> Vec<String> {
        let host = self.address.clone().unwrap_or_else(|| self.folder.display().to_string());
        vec![
            format!("--host={host}"),
            format!("--port={}", postgresql::PORT),
            format!("--username={}", postgresql::USER),
        ]
    }
}
