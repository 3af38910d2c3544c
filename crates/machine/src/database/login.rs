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
}

/// Where PostgreSQL's clients connect where nobody says it: initdb makes it.
const MAINTENANCE: &str = "postgres";

impl Login {
    /// That of a study; its user is this one where the study says none.
    ///
    /// # Errors
    /// [`Error::NoUser`]; [`Error::WrongAddress`] where another kind of server is at the address.
    pub fn of(kind: Kind, server: &ExistingServer) -> Result<Self, Error> {
        let user = match &server.user {
            Some(user) => user.clone(),
            None => own_name().ok_or_else(|| Error::NoUser(rustix::process::geteuid().as_raw()))?,
        };
        let address = server.address.clone();
        check_address(kind, &address)?;
        let database = server.database.clone().unwrap_or_else(|| MAINTENANCE.to_owned());
        Ok(Self { kind, address, user, password_file: server.password_file.clone(), database })
    }
}

impl fmt::Display for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at {} as `{}`", self.kind.title(), self.address, self.user)
    }
}

/// A socket says of itself which kind of server has it, and a folder is none.
fn check_address(kind: Kind, address: &Address) -> Result<(), Error> {
    let Address::Socket(path) = address else { return Ok(()) };
    let is_folder = Path::new(path).is_dir();
    let why = match kind {
        Kind::MariaDb if is_folder || path.contains("/.s.PGSQL.") => {
            "that is where PostgreSQL's sockets are; write `server = \"postgresql\"` in the workload's `options`, or name MariaDB's socket, such as `/run/mysqld/mysqld.sock`"
        }
        Kind::PostgreSql if !is_folder && !path.contains("/.s.PGSQL.") && Path::new(path).exists() => {
            "that is no socket of PostgreSQL's; name the folder of its sockets, such as `/run/postgresql`, or take sysbench for MariaDB"
        }
        _ => return Ok(()),
    };
    Err(Error::WrongAddress { kind: kind.title(), address: address.to_string(), why: why.to_owned() })
}

/// The name of the user that this process has the rights of (passwd(5)).
fn own_name() -> Option<String> {
    let id = rustix::process::geteuid().as_raw().to_string();
    let users = LocalMachine.text("/etc/passwd")?;
    let mut entries = users.lines().map(|line| line.split(':').collect::<Vec<&str>>());
    let name = entries.find(|fields| fields.get(2) == Some(&id.as_str()))?.first()?.to_string();
    check_name(&name).ok().map(|()| name)
}
