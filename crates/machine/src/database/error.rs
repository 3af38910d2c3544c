//! Why a server could not be asked.

use domain::database::{Address, Kind};

/// Why a server could not be asked, or did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The server or its client said no.
    #[error("cannot {attempt} {server}: {said}{hint}")]
    Refused {
        /// What was attempted: `ask`, `make a database in`.
        attempt: String,
        /// Which server, and as whom.
        server: String,
        /// The client's last words.
        said: String,
        /// What to do, after `; `, or nothing.
        hint: String,
    },
    /// The client is not installed.
    #[error(
        "cannot ask a server: there is no program `{program}`; on Debian, install it with `apt install {package}`"
    )]
    Missing {
        /// The program.
        program: &'static str,
        /// What has it.
        package: &'static str,
    },
    /// The client could not be run.
    #[error("cannot run `{program}`: {source}")]
    Client {
        /// The program.
        program: &'static str,
        /// As the kernel gave it.
        source: std::io::Error,
    },
    /// The file of the password cannot be used.
    #[error("cannot use the password file `{path}`: {why}")]
    Password {
        /// Which.
        path: String,
        /// Why, and what to do.
        why: String,
    },
    /// The address is that of another kind of server.
    #[error("cannot ask {kind} at `{address}`: {why}")]
    WrongAddress {
        /// What is asked.
        kind: &'static str,
        /// Where.
        address: String,
        /// What is there, and what to do.
        why: String,
    },
    /// Nobody knows as whom to come.
    #[error(
        "cannot tell this user's name: /etc/passwd has none for the user {0}; write `user = \"…\"` under `[target]`"
    )]
    NoUser(u32),
    /// A database of that name is there, and this run has not made it.
    #[error(
        "cannot make the database `{name}` in {server}: there is one of that name, which is not this run's; nothing was touched; run it again, for another name"
    )]
    Exists {
        /// Its name.
        name: String,
        /// Where.
        server: String,
    },
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] crate::settings::Error),
}

/// What can be done about the usual answers of a server.
pub(super) fn hint(kind: Kind, address: &Address, user: &str, said: &str) -> String {
    let has = |text: &str| said.contains(text);
    let is_down =
        ["Connection refused", "No such file or directory", "Can't connect to", "Connection timed out"];
    let hint = match kind {
        Kind::PostgreSql if has("Peer authentication failed") => {
            format!("this server lets a user in whose name is `{user}`; take `user` out, or write `password_file` and an address such as `127.0.0.1:5432`")
        }
        Kind::PostgreSql if has("role \"") && has("does not exist") => {
            format!("make it once with `sudo -u postgres createuser --createdb {user}`, or write `user`")
        }
        Kind::PostgreSql if has("permission denied to create database") => {
            format!("allow it once with `sudo -u postgres psql -c 'ALTER ROLE \"{user}\" CREATEDB'`")
        }
        Kind::PostgreSql if has("no password supplied") || has("password authentication failed") => {
            "write `password_file`, a file of yours that nobody else reads, whose first line is the password".into()
        }
        Kind::PostgreSql if has("database \"") && has("does not exist") => {
            "write `database`, one that this user may connect to".into()
        }
        Kind::MariaDb if has("1044") => format!(
            "allow it once with ``GRANT ALL ON `flyball\\_%`.* TO `{user}`@`…` ``"
        ),
        Kind::MariaDb if has("1045") || has("1698") => {
            "write `user` and `password_file`, a file of yours that nobody else reads, whose first line is the password".into()
        }
        _ if has("received invalid response to SSL") || has("Lost connection to server at 'handshake") => {
            "another kind of server may listen there; sysbench asks MariaDB, or PostgreSQL with `server = \"postgresql\"` in its `options`".into()
        }
        _ if is_down.iter().any(|text| said.contains(text)) => {
            format!("start that server, or write where it listens instead of `{address}`")
        }
        _ if has("Permission denied") => "run it as a user who may use that socket".into(),
        _ => return String::new(),
    };
    format!("; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_answers_say_what_to_do() {
        let at = Address::parse("/run/postgresql").unwrap();
        let told = |kind, said| hint(kind, &at, "root", said);
        for (kind, said, wanted) in [
            (Kind::PostgreSql, "FATAL:  role \"root\" does not exist", "createuser --createdb root"),
            (Kind::PostgreSql, "ERROR:  permission denied to create database", "CREATEDB"),
            (Kind::PostgreSql, "failed: fe_sendauth: no password supplied", "`password_file`"),
            (Kind::PostgreSql, "FATAL:  database \"x\" does not exist", "`database`"),
            (Kind::MariaDb, "ERROR 1045 (28000): Access denied for user", "`password_file`"),
            (Kind::MariaDb, "ERROR 1044 (42000): Access denied for user", "GRANT ALL ON"),
            (Kind::MariaDb, "ERROR 2002 (HY000): Can't connect to local server", "start that server"),
        ] {
            assert!(told(kind, said).contains(wanted), "{said}: {}", told(kind, said));
        }
        assert_eq!(told(Kind::MariaDb, "ERROR 9999"), "");
    }
}
