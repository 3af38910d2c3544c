//! Database servers by name: which kinds there are, where one listens that is somebody's, and how a database
//! of Flyball's own is called in it.

pub mod counters;

use std::fmt;

/// Which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// MariaDB's `mariadbd`.
    MariaDb,
    /// PostgreSQL's `postgres`.
    PostgreSql,
}

impl Kind {
    /// As a study has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MariaDb => "mariadb",
            Self::PostgreSql => "postgresql",
        }
    }

    /// As its makers write it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::MariaDb => "MariaDB",
            Self::PostgreSql => "PostgreSQL",
        }
    }

    /// Where it listens in Debian where nobody says another place.
    pub fn usual_address(self) -> Address {
        Address::Socket(match self {
            Self::MariaDb => "/run/mysqld/mysqld.sock".to_owned(),
            Self::PostgreSql => "/run/postgresql".to_owned(),
        })
    }

    /// Both.
    pub const ALL: [Self; 2] = [Self::MariaDb, Self::PostgreSql];

    /// The kind of such a name in a study.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A socket's absolute path, or for PostgreSQL the folder of its sockets.
    Socket(String),
    /// Over TCP.
    Tcp {
        /// A name or an address; one of IPv6 without brackets.
        host: String,
        /// Its port.
        port: u16,
    },
}

/// PostgreSQL's port where nobody says another; it is part of its socket's name too.
pub const POSTGRESQL_PORT: u16 = 5432;

/// What a PostgreSQL socket's name begins with; its port follows (`UNIXSOCK_PATH` of its `pqcomm.h`).
const POSTGRESQL_SOCKET: &str = ".s.PGSQL.";

/// A socket's path is 107 bytes at the most (unix(7)).
const LONGEST_SOCKET: usize = 107;

/// The longest name of a host (RFC 1035).
const LONGEST_HOST: usize = 253;

impl Address {
    /// Reads `/run/postgresql`, `/run/mysqld/mysqld.sock`, `127.0.0.1:5432` or `[::1]:3306`.
    ///
    /// # Errors
    /// What is wrong with it, and what to write.
    pub fn parse(text: &str) -> Result<Self, String> {
        let forms = "write a socket such as `/run/mysqld/mysqld.sock`, the folder of PostgreSQL's such as `/run/postgresql`, \
                     or an address with its port such as `127.0.0.1:5432`";
        if let Some(path) = text.strip_prefix('/') {
            let is_plain = path.split('/').all(|part| !matches!(part, "" | "." | ".."));
            return match is_plain && text.len() <= LONGEST_SOCKET && !text.contains(char::is_control) {
                true => Ok(Self::Socket(text.to_owned())),
                false => Err(format!("is `{text}`, which is no plain path of a socket; {forms}")),
            };
        }
        let wrong = || format!("is `{text}`; {forms}");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port: u16 = port.parse().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
        let bracketed = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let may_have = |c: char| {
            c.is_ascii_alphanumeric()
                || if bracketed.is_some() { c == ':' || c == '.' } else { "-.".contains(c) }
        };
        let host = bracketed.unwrap_or(host);
        if host.is_empty()
            || host.len() > LONGEST_HOST
            || host.starts_with('-')
            || !host.chars().all(may_have)
        {
            return Err(wrong());
        }
        if host.eq_ignore_ascii_case("localhost") {
            // libmariadb: `mysql_real_connect` with this name asks the socket, whatever the port is.
            return Err(format!(
                "is `{text}`, by which MariaDB's clients mean a socket; write `127.0.0.1:{port}`"
            ));
        }
        Ok(Self::Tcp { host: host.to_owned(), port })
    }

    /// As PostgreSQL's clients are told it: `--host` and `--port`.
    pub fn for_postgresql(&self) -> (String, u16) {
        match self {
            Self::Tcp { host, port } => (host.clone(), *port),
            Self::Socket(path) => {
                let named = path.rsplit_once('/').and_then(|(folder, name)| {
                    Some((folder.to_owned(), name.strip_prefix(POSTGRESQL_SOCKET)?.parse().ok()?))
                });
                named.unwrap_or_else(|| (path.clone(), POSTGRESQL_PORT))
            }
        }
    }

    /// The path of the socket itself; `None` over TCP.
    pub fn socket(&self, kind: Kind) -> Option<String> {
        match (self, kind) {
            (Self::Tcp { .. }, _) => None,
            (Self::Socket(path), Kind::MariaDb) => Some(path.clone()),
            (Self::Socket(_), Kind::PostgreSql) => {
                let (folder, port) = self.for_postgresql();
                Some(format!("{folder}/{POSTGRESQL_SOCKET}{port}"))
            }
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{path}"),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

/// A server that is there already, as a study names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExistingServer {
    /// Where it listens.
    pub address: Address,
    /// As whom Flyball comes; none: as the user that it runs as.
    pub user: Option<String>,
    /// A file with that user's password as its first line; none: the server asks for none.
    pub password_file: Option<String>,
    /// The database that PostgreSQL's clients connect to before there is one of Flyball's own; none:
    /// `postgres`. MariaDB's need none.
    pub database: Option<String>,
}

/// What each database begins with that Flyball makes in somebody's server.
pub const OWN_PREFIX: &str = "flyball_";

/// How many hexadecimal digits follow.
const OWN_DIGITS: usize = 8;

/// Whether Flyball gives such a name to a database.
pub fn is_own_name(name: &str) -> bool {
    let is_digit = |c: char| matches!(c, '0'..='9' | 'a'..='f');
    name.strip_prefix(OWN_PREFIX)
        .is_some_and(|token| token.len() == OWN_DIGITS && token.chars().all(is_digit))
}

/// The longest name of a user or database (`NAMEDATALEN` of PostgreSQL; MariaDB's users have up to 128).
const LONGEST_NAME: usize = 63;

/// Whether a user or database may be called so: what a client takes for an option, a connection string or a
/// URL is none, nor is what needs quotes.
///
/// # Errors
/// What to write.
pub fn check_name(name: &str) -> Result<(), String> {
    let may_have = |c: char| c.is_ascii_alphanumeric() || "_.-$@".contains(c);
    let begins = name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    if begins && name.len() <= LONGEST_NAME && name.chars().all(may_have) {
        return Ok(());
    }
    Err(format!(
        "is `{name}`; write 1 to {LONGEST_NAME} letters, digits and `_.-$@`, of which the first is a letter, a digit or `_`"
    ))
}

/// A user or database that may be called so.
///
/// # Errors
/// Those of [`check_name`].
pub fn name_of(text: &str) -> Result<String, String> {
    check_name(text).map(|()| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        Address::parse(text).map_or_else(|why| why, |address| address.to_string())
    }

    #[test]
    fn an_address_is_a_socket_a_folder_or_a_host_with_its_port() {
        for good in
            ["/run/postgresql", "/run/mysqld/mysqld.sock", "127.0.0.1:5432", "[::1]:3306", "db-1.example:1"]
        {
            assert_eq!(told(good), good);
        }
        for bad in [
            "",
            "postgres",
            "127.0.0.1",
            "a:0",
            "a:65536",
            "-h:1",
            "a b:1",
            "/",
            "//x",
            "/run/../x",
            "::1:5432",
        ] {
            assert!(told(bad).starts_with(&format!("is `{bad}`")), "{bad}: {}", told(bad));
        }
        assert!(Address::parse(&format!("/{}", "x".repeat(107))).is_err());
        assert!(told("localhost:3306").ends_with("write `127.0.0.1:3306`"));
    }

    #[test]
    fn the_port_of_postgresql_is_in_the_name_of_its_socket() {
        let of = |text: &str| Address::parse(text).unwrap().for_postgresql();
        assert_eq!(of("/run/postgresql"), ("/run/postgresql".to_owned(), 5432));
        assert_eq!(of("/run/postgresql/.s.PGSQL.5433"), ("/run/postgresql".to_owned(), 5433));
        assert_eq!(of("[::1]:5433"), ("::1".to_owned(), 5433));
        let socket = |text: &str, kind| Address::parse(text).unwrap().socket(kind);
        assert_eq!(socket("/run/x", Kind::PostgreSql).as_deref(), Some("/run/x/.s.PGSQL.5432"));
        assert_eq!(socket("/run/x.sock", Kind::MariaDb).as_deref(), Some("/run/x.sock"));
        assert_eq!(socket("127.0.0.1:1", Kind::MariaDb), None);
    }

    #[test]
    fn only_a_name_with_a_token_is_flyballs_own() {
        assert!(is_own_name("flyball_0123abcd"));
        for other in
            ["flyball", "flyball_", "flyball_0123abcde", "flyball_0123ABCD", "flyball_prod", "x_0123abcd", ""]
        {
            assert!(!is_own_name(other), "{other}");
        }
    }

    #[test]
    fn a_user_is_no_option_and_no_connection_string() {
        for good in ["root", "flyball", "_a", "a@b", "a.b-c"] {
            assert_eq!(check_name(good), Ok(()));
        }
        for bad in ["", "-U", "a=b", "postgres://x", "a b", "a'b", "a\nb", &"x".repeat(64)] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
