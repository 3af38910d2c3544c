//! Why a server could not be asked.

use super::Login;
use domain::database::Kind;

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
    #[error("cannot tell this user's name: /etc/passwd has none for the user {id}; name one with {user}")]
    NoUser {
        /// This user's number.
        id: u32,
        /// What takes a name.
        user: &'static str,
    },
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
pub(super) fn hint(login: &Login, said: &str) -> String {
    let Login { kind, address, user, named_by, .. } = login;
    let (as_user, password_file) = (named_by.user(), named_by.password_file());
    let has = |text: &str| said.contains(text);
    let is_down =
        ["Connection refused", "No such file or directory", "Can't connect to", "Connection timed out"];
    let hint = match *kind {
        Kind::PostgreSql if has("Peer authentication failed") => {
            format!(
                "this server lets a user in whose name is `{user}`; take {as_user} out, or write {password_file} and an address such as `127.0.0.1:5432`"
            )
        }
        Kind::PostgreSql if has("role \"") && has("does not exist") => {
            format!("make it once with `sudo -u postgres createuser --createdb {user}`, or write {as_user}")
        }
        Kind::PostgreSql if has("permission denied to create database") => {
            format!("allow it once with `sudo -u postgres psql -c 'ALTER ROLE \"{user}\" CREATEDB'`")
        }
        Kind::PostgreSql if has("no password supplied") || has("password authentication failed") => {
            format!(
                "write {password_file}, a file of yours that nobody else reads, whose first line is the password"
            )
        }
        Kind::PostgreSql if has("database \"") && has("does not exist") => {
            format!("write {}, one that this user may connect to", named_by.database())
        }
        Kind::MariaDb if has("1044") => {
            format!("allow it once with ``GRANT ALL ON `flyball\\_%`.* TO `{user}`@`…` ``")
        }
        Kind::MariaDb if has("1045") || has("1698") => {
            format!(
                "write {as_user} and {password_file}, a file of yours that nobody else reads, whose first line is the password"
            )
        }
        _ if has("received invalid response to SSL") || has("Lost connection to server at 'handshake") => {
            format!(
                "another kind of server may listen there; if it is PostgreSQL, {}, and if it is MariaDB, {}",
                named_by.postgresql(),
                named_by.mariadb()
            )
        }
        _ if is_down.iter().any(|text| said.contains(text)) => {
            format!(
                "start that server, or write with {} where it listens instead of `{address}`",
                named_by.address()
            )
        }
        _ if has("Permission denied") => "run it as a user who may use that socket".into(),
        _ => return String::new(),
    };
    format!("; {hint}")
}

#[cfg(test)]
mod tests {
    use super::super::NamedBy;
    use super::*;
    use domain::database::Address;

    #[test]
    fn the_usual_answers_say_what_to_do() {
        let told = |kind, said| {
            let login = Login {
                kind,
                address: Address::parse("/run/postgresql").unwrap(),
                user: "root".into(),
                password_file: None,
                database: "postgres".into(),
                named_by: NamedBy::Study,
            };
            let of_study = hint(&login, said);
            let of_options = hint(&Login { named_by: NamedBy::Options, ..login }, said);
            assert!(
                !of_options.contains("`password_file`") && !of_options.contains("`user`"),
                "{of_options}"
            );
            of_study
        };
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
