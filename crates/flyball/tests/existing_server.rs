//! `[target] server`: real servers that run before Flyball comes, with a password and data of somebody's.
//! Whatever happens to a run, they hold afterwards what they held before.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support::{Place, is_root, stderr, wait_until};
use domain::database::{Address, Kind};
use machine::database::{Client, Error, Login};
use machine::{Ledger, LocalMachine};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// With what the clients' files have to escape.
const PASSWORD: &str = "sec:ret\\ #\"word";

/// Debian's `nobody`: no server runs as root.
const NOBODY: u32 = 65534;

/// A server that is somebody's: it is stopped when this is dropped.
struct Server {
    kind: Kind,
    folder: tempfile::TempDir,
    process: Option<Child>,
}

/// The folder of the programs of the newest PostgreSQL.
fn postgresql_programs() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions.map(|version| version.path().join("bin")).filter(|bin| bin.join("postgres").exists()).max()
}

impl Server {
    /// Makes and starts one, with a user of Flyball's who may make databases, and a table of somebody's.
    fn start(kind: Kind) -> Option<Self> {
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
        let mut server = Self { kind, folder, process: None };
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
                server.sql(&format!("CREATE ROLE bench LOGIN CREATEDB PASSWORD '{PASSWORD}'"));
                server.sql("CREATE TABLE precious AS SELECT generate_series(1, 1000) AS n");
            }
            Kind::MariaDb => {
                let password = PASSWORD.replace('\\', "\\\\");
                server.sql(&format!("CREATE USER bench@localhost IDENTIFIED BY '{password}'"));
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

    fn at(&self, name: &str) -> String {
        self.folder.path().join("server").join(name).display().to_string()
    }

    /// Starts it on the data that it has.
    fn resume(&mut self) {
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
        self.process = Some(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        wait_until("the server answers", || self.client("SELECT 1").output().unwrap().status.success());
    }

    fn stop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        let pid = rustix::process::Pid::from_child(&process);
        // PostgreSQL's "fast"; MariaDB ends by SIGTERM alone.
        for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
            let _ = rustix::process::kill_process(pid, signal);
        }
        process.wait().unwrap();
    }

    /// As a study names it.
    fn address(&self) -> String {
        match self.kind {
            Kind::PostgreSql => self.folder.path().join("server").display().to_string(),
            Kind::MariaDb => self.at("socket"),
        }
    }

    /// Its administrator's client.
    fn client(&self, statement: &str) -> Command {
        let mut command = match self.kind {
            Kind::PostgreSql => {
                let mut psql = Command::new("psql");
                psql.args([
                    "-XqAtw",
                    "-h",
                    &self.address(),
                    "-U",
                    "admin",
                    "-d",
                    "postgres",
                    "-c",
                    statement,
                ]);
                psql
            }
            Kind::MariaDb => {
                let mut mariadb = Command::new("mariadb");
                let socket = format!("--socket={}", self.address());
                mariadb.args([
                    "--no-defaults",
                    &socket,
                    "--user=root",
                    "--batch",
                    "--skip-column-names",
                    "-e",
                    statement,
                ]);
                mariadb
            }
        };
        command.stdin(Stdio::null());
        command
    }

    fn sql(&self, statement: &str) -> String {
        let output = self.client(statement).output().unwrap();
        assert!(output.status.success(), "{statement}: {}", stderr(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn databases(&self) -> String {
        match self.kind {
            Kind::PostgreSql => self.sql("SELECT datname FROM pg_database ORDER BY 1"),
            Kind::MariaDb => self.sql("SHOW DATABASES"),
        }
    }

    /// Everything of somebody's in it: what it holds, and who may come.
    fn dump(&self) -> String {
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
    fn study(&self, place: &Place, seconds: u32, rest: &str) -> String {
        let file = place.path("password");
        fs::write(&file, format!("{PASSWORD}\n")).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
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
            file.display()
        );
        place.study("mine", &text)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Whether any process of this machine has the password among its arguments.
fn is_in_arguments() -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut arguments = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    arguments.any(|text| String::from_utf8_lossy(&text).contains("sec:ret"))
}

/// The files below a folder in which the password's beginning stands.
fn with_password(folder: &Path) -> Vec<PathBuf> {
    let output = Command::new("grep").args(["-rlF", "sec:ret"]).arg(folder).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(PathBuf::from).collect()
}

/// A run, seen while it works and afterwards.
fn measures(kind: Kind) {
    // One test at a time: the administrator of another one's server names the password.
    let place = Place::new();
    let Some(server) = Server::start(kind) else { return };
    let study = server.study(&place, 1, "");
    let before = server.dump();
    let (target, password) = (format!("server:{}", server.address()), place.path("password"));
    let password = password.to_str().unwrap();
    place.ok(&["new", "drafted", "--target", &target, "--user", "bench", "--password-file", password]);
    let drafted = place.ok(&["run", "drafted.toml", "--dry-run"]);
    assert!(drafted.contains("makes a database of its own in"), "{drafted}");
    let plan = place.ok(&["run", &study, "--dry-run"]);
    assert!(
        plan.contains("makes a database of its own in") && plan.contains("drops it at the end"),
        "{plan}"
    );
    assert!(plan.contains(&format!("its data are in {}", server.at("data"))), "{plan}");
    assert_eq!(server.dump(), before, "a plan makes nothing");
    let mut run = place.spawn(&["run", &study]);
    let mut seen = false;
    while run.try_wait().unwrap().is_none() {
        seen |= server.databases().contains("flyball_");
        assert!(!is_in_arguments());
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success() && seen, "{seen} {}", stderr(&output));
    assert_eq!(server.dump(), before);
    let trials: Vec<Value> =
        place.trial_files().iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    assert_eq!(trials.len(), 2);
    for trial in &trials {
        assert!(
            trial["measurement"]["metrics"]["transactions"]["value"].as_f64().unwrap() > 0.0,
            "{trial:#}"
        );
        let environment = |name: &str| trial["environment"][name].as_str().unwrap_or_default();
        assert!(environment("server").contains(kind.title()), "{trial:#}");
        assert_eq!(environment("server data"), server.at("data"));
        assert!(!environment("filesystem").is_empty(), "{trial:#}");
        let durable = match kind {
            Kind::PostgreSql => ("server.synchronous_commit", "off"),
            Kind::MariaDb => ("server.innodb_flush_log_at_trx_commit", "2"),
        };
        assert_eq!(environment(durable.0), durable.1);
        assert!(
            trial["measurement"]["warnings"].to_string().contains("commits wait for no disk"),
            "{trial:#}"
        );
        assert_eq!(environment("caches"), "kept, as the study asks", "the cache is everybody's");
    }
    let full = place.ok(&["show", "mine", "--full"]);
    let setting = match kind {
        Kind::PostgreSql => "server.synchronous_commit",
        Kind::MariaDb => "server.innodb_flush_log_at_trx_commit",
    };
    for name in [setting, "server data"] {
        let is_of = |line: &str| line.trim_start().starts_with(name);
        assert!(full.lines().any(is_of), "{name}: {full}");
    }
    place.ok(&["report", "mine", "--out", place.path("page.html").to_str().unwrap()]);
    assert_eq!(with_password(place.folder.path()), [place.path("password")]);
    assert_eq!(place.ok(&["status"]).trim(), "nothing is changed");
}

#[test]
fn postgresql_is_measured_in_a_database_of_its_own() {
    measures(Kind::PostgreSql);
}

#[test]
fn mariadb_is_measured_in_a_database_of_its_own() {
    measures(Kind::MariaDb);
}

/// Kills at moments from the first connection to the workload, with and without the supervisor.
fn is_killed(kind: Kind) {
    // One test at a time: the administrator of another one's server names the password.
    let place = Place::new();
    let Some(server) = Server::start(kind) else { return };
    let study = server.study(&place, 60, "");
    let before = server.dump();
    for (pause_ms, alone) in [(0, true), (40, false), (150, true), (1000, false)] {
        let mut run = place
            .flyball(&["run", &study, "--new"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("the database is announced", || {
            let ledger = fs::read_to_string(place.path("state/ledger")).unwrap_or_default();
            ledger.contains("\"part\":\"database\"") || run.try_wait().unwrap().is_some()
        });
        std::thread::sleep(Duration::from_millis(pause_ms));
        if alone {
            // The supervisor dies with it; the next start finds what is left.
            let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", run.id())).unwrap();
            for pid in children
                .split_whitespace()
                .filter_map(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?))
            {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        run.kill().unwrap();
        run.wait().unwrap();
        wait_until("nothing is left", || {
            // A supervisor that is at work refuses a second one.
            let restored = place.output(&["restore"]);
            restored.status.success() && place.ok(&["status"]).trim() == "nothing is changed"
        });
        assert_eq!(server.dump(), before, "{pause_ms} ms after its record, alone: {alone}");
        assert!(place.work_files().is_empty(), "{:?}", place.work_files());
    }
}

#[test]
fn a_killed_run_leaves_no_database_in_postgresql() {
    is_killed(Kind::PostgreSql);
}

#[test]
fn a_killed_run_leaves_no_database_in_mariadb() {
    is_killed(Kind::MariaDb);
}

#[test]
fn a_database_of_somebody_elses_is_not_taken_and_what_is_wrong_is_told() {
    let place = Place::new();
    let Some(mut server) = Server::start(Kind::PostgreSql) else { return };
    server.sql("CREATE DATABASE flyball_0badcafe");
    let before = server.dump();
    let login = Login {
        kind: Kind::PostgreSql,
        address: Address::parse(&server.address()).unwrap(),
        user: "admin".into(),
        password_file: None,
        database: "postgres".into(),
    };
    let client = Client::open(login).unwrap();
    let (mut ledger, _) = Ledger::open(&place.path("state"), &LocalMachine).unwrap();
    let refused = ledger.make_database(&client, "flyball_0badcafe").unwrap_err();
    assert!(matches!(refused, Error::Exists { .. }), "{refused}");
    ledger.make_database(&client, "flyball_0badcaff").unwrap();
    assert!(ledger.finish().failed().next().is_none());
    assert_eq!(server.dump(), before);

    let study = server.study(&place, 20, "");
    let text = fs::read_to_string(&study).unwrap();
    let told = |from: &str, to: &str| {
        let study = place.study("wrong", &text.replace(from, to));
        stderr(&place.output(&["run", &study]))
    };
    for (from, to, wanted) in [
        ("user = \"bench\"", "user = \"nobody\"", "authentication failed"),
        ("password_file = \"", "password_file = \"/none", "cannot use the password file `/none"),
        ("scale = 1", "scale = 100000", "are missing; make room"),
        (
            "tool = \"pgbench\"",
            "tool = \"sysbench\"",
            "`workload.w.options.client`: is no option of sysbench",
        ),
        ("scale = 1", "scale = 1, \"server.fsync\" = \"off\"", "is for a server of Flyball's own"),
        ("/server\"", "/nowhere\"", "start that server"),
    ] {
        let told = told(from, to);
        assert!(told.contains(wanted), "{to}: {told}");
    }
    assert_eq!(server.dump(), before);

    // It goes away under the load: what cannot be dropped is said, and is dropped once it is back.
    let run = place.spawn(&["run", &study, "--new"]);
    wait_until("the load runs", || {
        server.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgbench' AND datname LIKE 'flyball%'").trim() == "2"
    });
    server.stop();
    let output = run.wait_with_output().unwrap();
    let said = stderr(&output);
    assert!(
        !output.status.success() && said.contains("once that server answers again, run `flyball restore`"),
        "{said}"
    );
    assert!(place.ok(&["status"]).contains("database flyball_"));
    server.resume();
    let restored = place.ok(&["restore"]);
    assert!(restored.contains("database flyball_") && restored.contains("removed"), "{restored}");
    assert_eq!(server.dump(), before);
}
