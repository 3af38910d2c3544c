//! How a client reaches a server, and as whom.

use super::{Kind, mariadb, postgresql};
use crate::sysbench::options::Network;
use domain::database::{Address, ExistingServer, OWN_PREFIX};
use std::path::{Path, PathBuf};

/// How a client reaches a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connection {
    /// Where Flyball's scripts are.
    pub scripts: PathBuf,
    /// Where the server listens.
    pub address: Address,
    /// As whom.
    pub user: String,
    /// In which database the tables are.
    pub database: String,
    /// What a client's command begins with: it runs at its own end of the network.
    pub prefix: Vec<String>,
    /// The folder of the server's programs, where they are not in the path.
    pub programs: Option<PathBuf>,
    /// What a client finds in its environment besides.
    pub environment: Vec<(String, String)>,
    /// A file that gives sysbench a password for MariaDB.
    pub options_file: Option<PathBuf>,
}

/// The name of MariaDB's socket.
pub const SOCKET: &str = "socket";

/// The server's address, where there is a network.
pub const ADDRESS: &str = "198.18.0.1";

/// By which sysbench is told a file with the password.
pub const PASSWORD_OPTION: &str = "--config-file=";

impl Connection {
    /// A server of Flyball's own: its socket and the scripts are in `folder`, or it listens at `address`.
    pub fn to_own(kind: Kind, folder: &Path, address: Option<&str>) -> Self {
        let (port, user, database) = match kind {
            Kind::MariaDb => (mariadb::PORT, mariadb::USER, mariadb::DATABASE),
            Kind::PostgreSql => (postgresql::PORT, postgresql::USER, postgresql::DATABASE),
        };
        let socket = match kind {
            Kind::MariaDb => folder.join(SOCKET),
            Kind::PostgreSql => folder.to_owned(),
        };
        let address = match address {
            Some(host) => Address::Tcp { host: host.to_owned(), port },
            None => Address::Socket(socket.display().to_string()),
        };
        let (user, database) = (user.to_owned(), database.to_owned());
        let scripts = folder.to_owned();
        Self {
            scripts,
            address,
            user,
            database,
            prefix: Vec::new(),
            programs: None,
            environment: Vec::new(),
            options_file: None,
        }
    }

    /// Stands for a server that will be made: the words in capitals are known only then.
    pub fn planned(kind: Kind, network: Option<Network>) -> Self {
        let prefix = ["nsenter", "--net=CLIENT", "--"].map(str::to_owned);
        Self {
            prefix: network.map_or(Vec::new(), |_| prefix.to_vec()),
            ..Self::to_own(kind, Path::new("SERVER"), network.map(|_| ADDRESS))
        }
    }

    /// Stands for the database that will be made in a server that is there: its name is drawn only then.
    pub fn planned_in(server: &ExistingServer, user: &str) -> Self {
        Self {
            scripts: PathBuf::from("SCRIPTS"),
            address: server.address.clone(),
            user: user.to_owned(),
            database: format!("{OWN_PREFIX}…"),
            prefix: Vec::new(),
            programs: None,
            environment: Vec::new(),
            options_file: None,
        }
    }

    /// A program of the server's.
    pub fn program(&self, name: &str) -> String {
        let path = self.programs.as_ref().map(|folder| folder.join(name));
        path.map_or_else(|| name.to_owned(), |path| path.to_string_lossy().into_owned())
    }

    /// How sysbench reaches a server.
    pub fn sysbench(&self, kind: Kind) -> Vec<String> {
        let Self { user, database, .. } = self;
        match kind {
            Kind::MariaDb => {
                let mut words = vec!["--db-driver=mysql".to_owned()];
                words.extend(
                    self.options_file.iter().map(|path| format!("{PASSWORD_OPTION}{}", path.display())),
                );
                words.extend([format!("--mysql-user={user}"), format!("--mysql-db={database}")]);
                words.extend(match &self.address {
                    Address::Tcp { host, port } => {
                        vec![format!("--mysql-host={host}"), format!("--mysql-port={port}")]
                    }
                    Address::Socket(path) => vec![format!("--mysql-socket={path}")],
                });
                words
            }
            Kind::PostgreSql => {
                let (host, port) = self.address.for_postgresql();
                vec![
                    "--db-driver=pgsql".to_owned(),
                    format!("--pgsql-user={user}"),
                    format!("--pgsql-db={database}"),
                    format!("--pgsql-port={port}"),
                    format!("--pgsql-host={host}"),
                ]
            }
        }
    }

    /// How programs of PostgreSQL's reach a server.
    pub fn libpq(&self) -> Vec<String> {
        let (host, port) = self.address.for_postgresql();
        vec![format!("--host={host}"), format!("--port={port}"), format!("--username={}", self.user)]
    }
}
