//! Who comes to which server.

use super::Error;
use crate::{LocalMachine, Machine};
use domain::database::{Address, ExistingServer, Kind, check_name};
use std::fmt;
use std::path::Path;

/// Who comes to which server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Which kind of server.
    pub kind: Kind,
    /// Where it listens.
    pub address: Address,
    /// As whom.
    pub user: String,
    /// A file whose first line is that user's password.
    pub password_file: Option<String>,
    /// The database that PostgreSQL's client connects to.
    pub database: String,
    /// How what is wrong with it is mended.
    pub named_by: NamedBy,
}

/// Where a server is named: what an error says of what to write there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedBy {
    /// A study's keys under `[target]`.
    Study,
    /// The options of `record` and `diagnose`.
    Options,
}

impl NamedBy {
    /// What takes the user's name.
    pub(super) const fn user(self) -> &'static str {
        match self {
            Self::Study => "`user`",
            Self::Options => "`--server-user`",
        }
    }

    /// What takes the file of the password.
    pub(super) const fn password_file(self) -> &'static str {
        match self {
            Self::Study => "`password_file`",
            Self::Options => "`--server-password-file`",
        }
    }

    /// What takes the database that PostgreSQL's client connects to.
    pub(super) const fn database(self) -> &'static str {
        match self {
            Self::Study => "`database`",
            Self::Options => "`--server-database`",
        }
    }

    /// What takes the address.
    pub(super) const fn address(self) -> &'static str {
        match self {
            Self::Study => "`server`",
            Self::Options => "`--server-address`",
        }
    }

    /// What says that it is PostgreSQL.
    pub(super) const fn postgresql(self) -> &'static str {
        match self {
            Self::Study => "write `server = \"postgresql\"` in the workload's `options`",
            Self::Options => "write `--server postgresql`",
        }
    }

    /// What says that it is MariaDB.
    pub(super) const fn mariadb(self) -> &'static str {
        match self {
            Self::Study => "take sysbench for MariaDB",
            Self::Options => "write `--server mariadb`",
        }
    }
}

/// Where PostgreSQL's clients connect where nobody says it: initdb makes it.
const MAINTENANCE: &str = "postgres";

impl Login {
    /// That of a server as it is named; its user is this one where none is.
    ///
    /// # Errors
    /// [`Error::NoUser`]; [`Error::WrongAddress`] where another kind of server is at the address.
    pub fn of(kind: Kind, server: &ExistingServer, named_by: NamedBy) -> Result<Self, Error> {
        let user = match &server.user {
            Some(user) => user.clone(),
            None => own_name().ok_or_else(|| Error::NoUser {
                id: rustix::process::geteuid().as_raw(),
                user: named_by.user(),
            })?,
        };
        let address = server.address.clone();
        check_address(kind, &address, named_by)?;
        let database = server.database.clone().unwrap_or_else(|| MAINTENANCE.to_owned());
        let password_file = server.password_file.clone();
        Ok(Self { kind, address, user, password_file, database, named_by })
    }
}

impl fmt::Display for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} as `{}`", self.kind.title(), self.address, self.user)
    }
}

/// A socket says of itself which kind of server has it, and a folder is none.
fn check_address(kind: Kind, address: &Address, named_by: NamedBy) -> Result<(), Error> {
    let Address::Socket(path) = address else { return Ok(()) };
    let is_folder = Path::new(path).is_dir();
    let why = match kind {
        Kind::MariaDb if is_folder || path.contains("/.s.PGSQL.") => {
            let postgresql = named_by.postgresql();
            format!(
                "that is where PostgreSQL's sockets are; {postgresql}, or name MariaDB's socket, such as `/run/mysqld/mysqld.sock`"
            )
        }
        Kind::PostgreSql if !is_folder && !path.contains("/.s.PGSQL.") && Path::new(path).exists() => {
            let mariadb = named_by.mariadb();
            format!(
                "that is no socket of PostgreSQL's; name the folder of its sockets, such as `/run/postgresql`, or {mariadb}"
            )
        }
        _ => return Ok(()),
    };
    Err(Error::WrongAddress { kind: kind.title(), address: address.to_string(), why })
}

/// The name of the user that this process has the rights of (passwd(5)).
fn own_name() -> Option<String> {
    let id = rustix::process::geteuid().as_raw().to_string();
    let users = LocalMachine.text("/etc/passwd")?;
    let mut entries = users.lines().map(|line| line.split(':').collect::<Vec<&str>>());
    let name = entries.find(|fields| fields.get(2) == Some(&id.as_str()))?.first()?.to_string();
    check_name(&name).ok().map(|()| name)
}
