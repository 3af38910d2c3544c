//! A server's own client program: how it is started, what it is asked, what it answers.

use super::error::hint;
use super::password::Password;
use super::{Error, Login, process};
use crate::{CommandOutput, Machine};
use domain::database::{Address, Kind, is_own_name};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How long a question may take; a server under load answers late.
const QUESTION: Duration = Duration::from_secs(60);
/// How long making or dropping a database may take: PostgreSQL writes a checkpoint for it.
const CHANGE: Duration = Duration::from_secs(300);
/// How long a client waits for a connection, in seconds.
const CONNECT: u32 = 10;
/// How long what a killed client has asked for may go on in the server, in seconds.
const LAST_STATEMENT: u32 = 60;
const POLL: Duration = Duration::from_millis(50);

/// A path that leads nowhere (Debian's policy, 9.2.3).
const NO_FILE: &str = "/nonexistent";

/// What a client prints: rows of fields.
pub type Rows = Vec<Vec<String>>;

/// A client of one server.
#[derive(Debug)]
pub struct Client {
    pub(super) login: Login,
    password: Option<Password>,
}

impl Client {
    /// Makes ready to ask; nothing is connected yet.
    ///
    /// # Errors
    /// [`Error::Password`].
    pub fn open(login: Login) -> Result<Self, Error> {
        let read = |path: &String| Password::read(path, login.kind);
        let password = login.password_file.as_ref().map(read).transpose()?;
        Ok(Self { login, password })
    }

    /// Who it comes as, and where.
    pub fn login(&self) -> &Login {
        &self.login
    }

    /// What pgbench, sysbench and psql are to find in their environment.
    pub fn environment(&self) -> Vec<(String, String)> {
        let password = self.password.as_ref().map_or_else(|| NO_FILE.into(), Password::for_client);
        let mut all = vec![
            // No file of the user's is read: `.pgpass`, `.my.cnf`, certificates.
            ("HOME".to_owned(), NO_FILE.to_owned()),
            ("PGCONNECT_TIMEOUT".into(), CONNECT.to_string()),
        ];
        if self.login.kind == Kind::PostgreSql {
            all.push(("PGPASSFILE".into(), password.display().to_string()));
        }
        all
    }

    /// The file that tells sysbench the password, where its environment does not.
    ///
    /// # Errors
    /// [`Error::Password`] where sysbench cannot be told it.
    pub fn options_file(&self) -> Result<Option<PathBuf>, Error> {
        let path = || self.login.password_file.clone().unwrap_or_default();
        let given = self.password.as_ref().map_or(Ok(None), Password::for_sysbench);
        given.map_err(|why| Error::Password { path: path(), why })
    }

    /// What tells this server's data from another's; `None` where it does not say it.
    pub fn identity(&self, machine: &dyn Machine) -> Option<String> {
        let statement = match self.login.kind {
            Kind::PostgreSql => "SELECT system_identifier FROM pg_control_system()",
            Kind::MariaDb => {
                "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_VARIABLES WHERE VARIABLE_NAME = 'SERVER_UID'"
            }
        };
        let rows = self.ask(machine, &[statement]).ok()?;
        rows.into_iter().next()?.into_iter().next().filter(|text| !text.is_empty())
    }

    /// Whether there is a database of this name.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn has(&self, machine: &dyn Machine, name: &str) -> Result<bool, Error> {
        let (name, table, column) = match self.login.kind {
            Kind::PostgreSql => (own(name), "pg_database", "datname"),
            Kind::MariaDb => (own(name), "information_schema.SCHEMATA", "SCHEMA_NAME"),
        };
        let statement = format!("SELECT count(*) FROM {table} WHERE {column} = '{name}'");
        let rows = self.ask(machine, &[&statement])?;
        Ok(rows.first().and_then(|row| row.first()).is_some_and(|count| count != "0"))
    }

    /// Makes a database under one of Flyball's names. While it is made its client is known to the server by
    /// that name, so that [`Client::drop_database`] can wait for it.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn create(&self, machine: &dyn Machine, name: &str) -> Result<(), Error> {
        let name = own(name);
        let attempt = format!("make the database `{name}` in");
        match self.login.kind {
            // Nobody has to have left it alone, as with template1.
            Kind::PostgreSql => {
                let create = format!("CREATE DATABASE {name} TEMPLATE template0");
                self.run(machine, &attempt, name, &[&create], CHANGE)
            }
            Kind::MariaDb => {
                let (lock, create) =
                    (format!("SELECT GET_LOCK('{name}', 0)"), format!("CREATE DATABASE {name}"));
                self.run(machine, &attempt, name, &[&lock, &create], CHANGE)
            }
        }
        .map(drop)
    }

    /// Drops it, with the connections that it still has: those of clients that were killed. What such a
    /// client has begun to make is waited for first.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub fn drop_database(&self, machine: &dyn Machine, name: &str) -> Result<(), Error> {
        let name = own(name);
        let attempt = format!("drop the database `{name}` of");
        match self.login.kind {
            Kind::PostgreSql => {
                self.wait_for_maker(machine, name)?;
                let drop = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
                self.run(machine, &attempt, APPLICATION, &[&drop], CHANGE).map(std::mem::drop)
            }
            Kind::MariaDb => {
                let statements = [
                    format!("SELECT GET_LOCK('{name}', {LAST_STATEMENT})"),
                    format!("SET SESSION lock_wait_timeout = {LAST_STATEMENT}"),
                    format!("DROP DATABASE IF EXISTS {name}"),
                ];
                let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
                self.run(machine, &attempt, APPLICATION, &statements, CHANGE).map(std::mem::drop)
            }
        }
    }

    /// PostgreSQL goes on with what a client has asked for that was killed since.
    fn wait_for_maker(&self, machine: &dyn Machine, name: &str) -> Result<(), Error> {
        let end = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}' AND pid <> pg_backend_pid()"
        );
        let deadline = Instant::now() + Duration::from_secs(LAST_STATEMENT.into());
        while !self.ask(machine, &[&end])?.is_empty() && Instant::now() < deadline {
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Asks the server something.
    ///
    /// # Errors
    /// [`Error::Refused`]; [`Error::Missing`] where its client is not installed.
    pub fn ask(&self, machine: &dyn Machine, statements: &[&str]) -> Result<Rows, Error> {
        self.run(machine, "ask", APPLICATION, statements, QUESTION)
    }

    fn run(
        &self,
        machine: &dyn Machine,
        attempt: &str,
        application: &str,
        statements: &[&str],
        limit: Duration,
    ) -> Result<Rows, Error> {
        let argv = self.argv(application, statements);
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        let (program, package) = self.program();
        let refused = |said: String| self.refused(attempt, said);
        /// `env` ends with it where there is no such program (env(1)).
        const NOT_FOUND: i32 = 127;
        match machine.run(&argv, limit) {
            Ok(CommandOutput { code: Some(0), stdout, .. }) => Ok(rows(&String::from_utf8_lossy(&stdout))),
            Ok(CommandOutput { code: Some(NOT_FOUND), .. }) => Err(Error::Missing { program, package }),
            Ok(output) => Err(refused(output.last_words())),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                Err(refused(format!("it did not answer within {} s", limit.as_secs())))
            }
            Err(source) => Err(Error::Client { program, source }),
        }
    }

    /// Its program, and Debian's package of it.
    pub(super) const fn program(&self) -> (&'static str, &'static str) {
        match self.login.kind {
            Kind::PostgreSql => ("psql", "postgresql-client"),
            Kind::MariaDb => ("mariadb", "mariadb-client-core"),
        }
    }

    /// That the server said no, with what to do.
    pub(super) fn refused(&self, attempt: &str, said: String) -> Error {
        let hint = hint(&self.login, &said);
        Error::Refused { attempt: attempt.to_owned(), server: self.login.to_string(), said, hint }
    }

    /// The client with its statements.
    fn argv(&self, application: &str, statements: &[&str]) -> Vec<String> {
        let mut argv = self.connecting(application);
        match self.login.kind {
            Kind::PostgreSql => {
                argv.extend(statements.iter().map(|statement| format!("--command={statement}")));
            }
            Kind::MariaDb => argv.push(format!("--execute={}", statements.join("; "))),
        }
        argv
    }

    /// The client, which asks what it reads. It begins with an empty environment, for what is set there is
    /// for servers of the user's.
    pub(super) fn connecting(&self, application: &str) -> Vec<String> {
        let mut argv = vec!["env".to_owned(), "-i".into(), "LC_ALL=C".into()];
        argv.push(format!("PATH={}", crate::access::path().to_string_lossy()));
        argv.extend(self.environment().into_iter().map(|(name, value)| format!("{name}={value}")));
        let Login { kind, address, user, database, .. } = &self.login;
        match kind {
            Kind::PostgreSql => {
                let (host, port) = address.for_postgresql();
                argv.extend([
                    format!("PGAPPNAME={application}"),
                    "psql".into(),
                    "--no-psqlrc".into(),
                    "--no-password".into(),
                    "--quiet".into(),
                    "--tuples-only".into(),
                    "--no-align".into(),
                    "--field-separator=\t".into(),
                    "--set=ON_ERROR_STOP=1".into(),
                    format!("--host={host}"),
                    format!("--port={port}"),
                    format!("--username={user}"),
                    format!("--dbname={database}"),
                ]);
            }
            Kind::MariaDb => {
                argv.push("mariadb".into());
                argv.push(match &self.password {
                    Some(password) => format!("--defaults-file={}", password.for_client().display()),
                    None => "--no-defaults".into(),
                });
                argv.extend(["--batch".to_owned(), "--skip-column-names".into()]);
                argv.push(format!("--connect-timeout={CONNECT}"));
                argv.extend(match address {
                    Address::Socket(path) => vec!["--protocol=socket".to_owned(), format!("--socket={path}")],
                    Address::Tcp { host, port } => {
                        vec!["--protocol=tcp".to_owned(), format!("--host={host}"), format!("--port={port}")]
                    }
                });
                argv.push(format!("--user={user}"));
            }
        }
        argv
    }

    /// The process that serves, where it is on this machine and visible.
    pub fn process(&self) -> Option<process::ServerProcess> {
        process::find(self.login.kind, &self.login.address)
    }
}

/// As PostgreSQL knows Flyball among its clients.
pub(super) const APPLICATION: &str = "flyball";

/// A name that stands in a statement without quotes.
fn own(name: &str) -> &str {
    assert!(is_own_name(name), "`{name}` is no name that Flyball gives, and would stand in a statement");
    name
}

fn rows(text: &str) -> Rows {
    text.lines().filter(|line| !line.is_empty()).map(row).collect()
}

/// The fields of a line.
pub(super) fn row(line: &str) -> Vec<String> {
    line.split('\t').map(str::to_owned).collect()
}
