//! A database server of Debian's that is somebody's: it runs before Flyball comes, with a password and data.
#![allow(clippy::print_stderr, reason = "a test says why it skips")]

use super::{Place, is_root, stderr, wait_until};
use domain::database::Kind;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// With what the clients' files have to escape.
pub const PASSWORD: &str = "sec:ret\\ #\"word";

/// Debian's `nobody`: no server runs as root.
const NOBODY: u32 = 65534;

/// A server that is somebody's: it is stopped when this is dropped.
pub struct Server {
    pub kind: Kind,
    folder: tempfile::TempDir,
    process: Option<Child>,
    options: Vec<String>,
}

/// The folder of the programs of the newest PostgreSQL.
fn postgresql_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions.map(|version| version.path().join("bin")).filter(|bin| bin.join("postgres").exists()).max()
}

impl Server {
    /// Makes and starts one, with a user of Flyball's who may make databases, and a table of somebody's.
    pub fn start(kind: Kind) -> Option<Self> {
        Self::start_with(kind, &[])
    }

    /// The same with options of its program.
    pub fn start_with(kind: Kind, options: &[&str]) -> Option<Self> {
        let has =
            |name: &str| ["/usr/bin", "/usr/sbin"].iter().any(|folder| Path::new(folder).join(name).exists());
        let is_here = match kind {
            Kind::PostgreSql => postgresql_programs().is_some() && has("pgbench"),
            Kind::MariaDb => {
                ["mariadbd", "mariadb-install-db", "mariadb", "sysbench"].iter().all(|name| has(name))
            }
        };
        if !is_here {
            eprintln!("skipped: {} could not be installed", kind.title());
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let data = folder.path().join("server");
        fs::create_dir(&data).unwrap();
        if is_root() {
            std::os::unix::fs::chown(&data, Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        let mut server = Self { kind, folder, process: None, options };
        let at = |name: &str| data.join(name).display().to_string();
        let mut made = match kind {
            Kind::PostgreSql => server.as_server(
                &postgresql_programs().unwrap().join("initdb"),
                &[&format!("--pgdata={}", at("data")), "--username=admin", "--auth=trust", "--no-sync"],
            ),
            Kind::MariaDb => server.as_server(
                Path::new("mariadb-install-db"),
                &[
                    "--no-defaults",
                    &format!("--datadir={}", at("data")),
                    "--auth-root-authentication-method=normal",
                ],
            ),
        };
        assert!(made.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap().success());
        if kind == Kind::PostgreSql {
            // Whoever is not its administrator needs a password.
            let rules = "local all admin trust\nlocal all all scram-sha-256\n";
            fs::write(data.join("data/pg_hba.conf"), rules).unwrap();
        }
        server.resume();
        match kind {
            Kind::PostgreSql => {
                server.secret_sql(&format!("CREATE ROLE bench LOGIN CREATEDB PASSWORD '{PASSWORD}'"));
                server.sql("CREATE TABLE precious AS SELECT generate_series(1, 1000) AS n");
            }
            Kind::MariaDb => {
                let password = PASSWORD.replace('\\', "\\\\");
                server.secret_sql(&format!("CREATE USER bench@localhost IDENTIFIED BY '{password}'"));
                server.sql("GRANT ALL ON `flyball\\_%`.* TO bench@localhost");
                server.sql(
                    "CREATE DATABASE precious; USE precious; CREATE TABLE t AS SELECT seq FROM seq_1_to_1000",
                );
            }
        }
        Some(server)
    }

    fn as_server(&self, program: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(words).current_dir(self.folder.path()).env("LC_ALL", "C").stdin(Stdio::null());
        if is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    pub fn at(&self, name: &str) -> String {
        self.folder.path().join("server").join(name).display().to_string()
    }

    /// Starts it on the data that it has.
    pub fn resume(&mut self) {
        let (data, folder) = (self.at("data"), self.at(""));
        let mut command = match self.kind {
            Kind::PostgreSql => self.as_server(
                &postgresql_programs().unwrap().join("postgres"),
                &[
                    "-D",
                    &data,
                    "-c",
                    "listen_addresses=",
                    "-c",
                    &format!("unix_socket_directories={folder}"),
                    "-c",
                    "synchronous_commit=off",
                ],
            ),
            Kind::MariaDb => self.as_server(
                Path::new("mariadbd"),
                &[
                    "--no-defaults",
                    &format!("--datadir={data}"),
                    &format!("--socket={}", self.address()),
                    "--skip-networking",
                    "--innodb-flush-log-at-trx-commit=2",
                ],
            ),
        };
        command.args(&self.options);
        self.process = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        wait_until("the server answers", || self.client("SELECT 1").output().unwrap().status.success());
    }

    pub fn stop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let pid = rustix::process::Pid::from_child(&process);
        // PostgreSQL's "fast"; MariaDB ends by SIGTERM alone.
        for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
            let _ = rustix::process::kill_process(pid, signal);
        }
        process.wait().unwrap();
    }

    /// As a study names it.
    pub fn address(&self) -> String {
        match self.kind {
            Kind::PostgreSql => self.folder.path().join("server").display().to_string(),
            Kind::MariaDb => self.at("socket"),
        }
    }

    /// Its administrator's client, which reads statements from its standard input.
    fn administrator(&self) -> Command {
        match self.kind {
            Kind::PostgreSql => {
                let mut psql = Command::new("psql");
                psql.args(["-XqAtw", "-h", &self.address(), "-U", "admin", "-d", "postgres"]);
                psql
            }
            Kind::MariaDb => {
                let mut mariadb = Command::new("mariadb");
                let socket = format!("--socket={}", self.address());
                mariadb.args(["--no-defaults", &socket, "--user=root", "--batch", "--skip-column-names"]);
                mariadb
            }
        }
    }

    /// Its administrator's client with a statement.
    pub fn client(&self, statement: &str) -> Command {
        let mut command = self.administrator();
        let option = match self.kind {
            Kind::PostgreSql => "-c",
            Kind::MariaDb => "-e",
        };
        command.args([option, statement]).stdin(Stdio::null());
        command
    }

    /// A statement with a password in it, which no process has among its arguments: tests of other programs
    /// look for it there.
    fn secret_sql(&self, statement: &str) {
        let quiet = || Stdio::null();
        let mut client =
            self.administrator().stdin(Stdio::piped()).stdout(quiet()).stderr(quiet()).spawn().unwrap();
        writeln!(client.stdin.take().unwrap(), "{statement};").unwrap();
        assert!(client.wait().unwrap().success());
    }

    pub fn sql(&self, statement: &str) -> String {
        let output = self.client(statement).output().unwrap();
        assert!(output.status.success(), "{statement}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn databases(&self) -> String {
        match self.kind {
            Kind::PostgreSql => self.sql("SELECT datname FROM pg_database ORDER BY 1"),
            Kind::MariaDb => self.sql("SHOW DATABASES"),
        }
    }

    /// Everything of somebody's in it: what it holds, and who may come.
    pub fn dump(&self) -> String {
        if self.kind == Kind::MariaDb {
            let all = "SHOW DATABASES; SELECT * FROM precious.t; SELECT * FROM mysql.global_priv ORDER BY Host, User; \
                       SELECT * FROM mysql.db; SHOW TABLE STATUS FROM precious";
            return self.sql(all);
        }
        let dumped = Command::new("pg_dumpall").args(["-w", "-h", &self.address(), "-U", "admin"]).output();
        let output = dumped.unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let text = String::from_utf8(output.stdout).unwrap();
        // pg_dump draws a word of its own each time.
        let is_drawn = |line: &&str| line.starts_with("\\restrict") || line.starts_with("\\unrestrict");
        let lines: Vec<&str> = text.lines().filter(|line| !is_drawn(line)).collect();
        format!("{}{}", self.databases(), lines.join("\n"))
    }

    /// A study of its transactions, as its user of Flyball's.
    pub fn study(&self, place: &Place, seconds: u32, rest: &str) -> String {
        let file = password_file(place);
        let (tool, options) = match self.kind {
            Kind::PostgreSql => ("pgbench", format!("scale = 1, client = 2, time = {seconds}")),
            Kind::MariaDb => (
                "sysbench",
                format!(
                    "test = \"oltp_read_write\", tables = 1, table_size = 5000, threads = 2, time = {seconds}"
                ),
            ),
        };
        let text = format!(
            "flyball = 1\nname = \"mine\"\nquestion = \"How many transactions?\"\n[target]\nserver = \"{}\"\nuser = \"bench\"\n\
             password_file = \"{}\"\n[workload.w]\ntool = \"{tool}\"\noptions = {{ {options} }}\n[measure]\nmetric = \"transactions\"\n\
             repeats = [2, 2]\nsettle = \"0s\"\nunder_load = true\n{rest}",
            self.address(),
            file
        );
        place.study("mine", &text)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A file with its user's password.
pub fn password_file(place: &Place) -> String {
    let file = place.path("password");
    fs::write(&file, format!("{PASSWORD}\n")).unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    file.display().to_string()
}

/// Whether any process of this machine has the password among its arguments.
pub fn is_in_arguments() -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut arguments = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    arguments.any(|text| String::from_utf8_lossy(&text).contains("sec:ret"))
}

/// The files below a folder in which the password's beginning stands.
pub fn with_password(folder: &Path) -> Vec<PathBuf> {
    let output = Command::new("grep").args(["-rlF", "sec:ret"]).arg(folder).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(PathBuf::from).collect()
}
