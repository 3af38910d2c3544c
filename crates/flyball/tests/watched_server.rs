//! `record --server` and `diagnose --server`: what real servers count of themselves, held against loads of
//! known size of somebody else's. Nothing in a server is changed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support::database_server::{Server, is_in_arguments, password_file, with_password};
use crate::support::{Place, stderr, wait_until};
use domain::database::Kind;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// How far a rate may be from a count over a time: the first question and the last take milliseconds.
const NEAR: f64 = 0.1;

/// A server and a place to watch it from.
struct Watch<'a> {
    place: &'a Place,
    server: &'a Server,
    password: String,
}

impl<'a> Watch<'a> {
    fn of(place: &'a Place, server: &'a Server) -> Self {
        Self { place, server, password: password_file(place) }
    }

    /// The arguments that name the server.
    fn named(&self, command: &str) -> Vec<String> {
        let words =
            [command, "--server", self.server.kind.name(), "--server-address", &self.server.address()]
                .map(str::to_owned);
        let user = ["--server-user", "bench", "--server-password-file", &self.password].map(str::to_owned);
        words.into_iter().chain(user).collect()
    }

    fn arguments<'w>(words: &'w [String], rest: &[&'w str]) -> Vec<&'w str> {
        words.iter().map(String::as_str).chain(rest.iter().copied()).collect()
    }

    /// Records, and gives what was recorded, the one trial of its run, and its samples.
    fn record(&self, rest: &[&str]) -> Recorded {
        let mut words = self.named("record");
        words.push("--json".to_owned());
        let said = self.place.ok(&Self::arguments(&words, rest));
        Recorded::read(&said[said.find("{\n").unwrap()..])
    }
}

struct Recorded {
    json: Value,
    trial: Value,
    /// By column: the first and the last value.
    samples: Vec<BTreeMap<String, String>>,
}

impl Recorded {
    fn read(said: &str) -> Self {
        let json: Value = serde_json::from_str(said).unwrap();
        let folder = std::path::Path::new(json["folder"].as_str().unwrap());
        let trial = serde_json::from_str(&fs::read_to_string(folder.join("trial.json")).unwrap()).unwrap();
        let text = fs::read_to_string(folder.join("raw/server-counters.tsv")).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
        let row = |row: &Vec<&str>| {
            rows[0].iter().zip(row).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        Self { json, trial, samples: rows[1..].iter().map(row).collect() }
    }

    fn metric(&self, name: &str) -> Option<f64> {
        let stored = self.trial["measurement"]["metrics"][name]["value"].as_f64();
        assert_eq!(stored, self.json["metrics"][name]["value"].as_f64(), "{name}");
        stored
    }

    /// How often something happened, by its rate.
    fn times(&self, name: &str) -> f64 {
        let rate = self.metric(name).unwrap_or_else(|| panic!("no {name}: {:#}", self.trial));
        rate * self.json["duration_ns"].as_f64().unwrap() / 1e9
    }

    /// By how much a counter grew, without Flyball's own share.
    fn grew(&self, name: &str) -> i64 {
        let value =
            |sample: &BTreeMap<String, String>, name: &str| sample[name].parse::<i64>().unwrap_or_default();
        let (first, last) = (&self.samples[0], self.samples.last().unwrap());
        let own = format!("own_{name}");
        value(last, name) - value(first, name) - (value(last, &own) - value(first, &own))
    }

    fn environment(&self, name: &str) -> &str {
        self.trial["environment"][name].as_str().unwrap_or_default()
    }

    fn warnings(&self) -> String {
        self.trial["measurement"]["warnings"].to_string()
    }

    fn is_near(&self, name: &str, count: f64) {
        let times = self.times(name);
        assert!((times - count).abs() <= count * NEAR, "{name}: {times} and not {count}");
    }
}

const AUTOCOMMITS: usize = 300;
const TRANSACTIONS: usize = 200;
const ROLLBACKS: usize = 50;

/// The client of MariaDB's administrator with a known load: statements that commit by themselves,
/// transactions of four statements, ones that are rolled back.
fn load_of_mariadb(place: &Place, server: &Server) -> Vec<String> {
    server.sql("CREATE DATABASE IF NOT EXISTS load_; CREATE TABLE IF NOT EXISTS load_.t (a INT AUTO_INCREMENT PRIMARY KEY, b INT)");
    let statements = [
        "INSERT INTO t (b) VALUES (1);\n".repeat(AUTOCOMMITS),
        "BEGIN; INSERT INTO t (b) VALUES (2); SELECT b FROM t WHERE a = 7; UPDATE t SET b = b + 1 WHERE a = 7; COMMIT;\n"
            .repeat(TRANSACTIONS),
        "BEGIN; INSERT INTO t (b) VALUES (3); ROLLBACK;\n".repeat(ROLLBACKS),
        // Long enough for a rate, and no transaction.
        "DO SLEEP(1);\n".to_owned(),
    ];
    let file = place.path("load.sql");
    fs::write(&file, statements.concat()).unwrap();
    let client =
        format!("mariadb --no-defaults --socket={} --user=root load_ < {}", server.address(), file.display());
    ["--", "sh", "-c", &format!("{client} > /dev/null")].map(str::to_owned).to_vec()
}

fn each_transaction_of_mariadb_is_counted_once(options: &[&str]) {
    let place = Place::new();
    let Some(server) = Server::start_with(Kind::MariaDb, options) else { return };
    let writes_a_binary_log = options.contains(&"--log-bin");
    server.sql(
        "GRANT PROCESS ON *.* TO bench@localhost; GRANT SELECT ON performance_schema.* TO bench@localhost",
    );
    server.sql("SET GLOBAL innodb_monitor_enable = 'module_trx'");
    let load = load_of_mariadb(&place, &server);
    let load: Vec<&str> = load.iter().map(String::as_str).collect();
    let recorded = Watch::of(&place, &server).record(&load);
    let committed = (AUTOCOMMITS + TRANSACTIONS) as i64;
    let rolled_back = ROLLBACKS as i64;
    // The server itself may write its statistics of a table meanwhile.
    let own_writes = 3;
    let is_about = |counter: &str, count: i64| {
        let grew = recorded.grew(counter);
        assert!((count..=count + own_writes).contains(&grew), "{counter}: {grew} and not {count}");
    };
    is_about("ended", committed + rolled_back);
    assert_eq!(recorded.grew("rolled_back"), rolled_back);
    assert_eq!(recorded.grew("commit_statements"), TRANSACTIONS as i64);
    // Two for each that wrote, also for one that is rolled back then.
    let numbers = recorded.grew("numbers");
    let expected = 2 * (committed + rolled_back);
    assert!((expected..=expected + 2 * own_writes).contains(&numbers), "{numbers}");
    // The client asks nothing besides, but which database it is to use.
    is_about("statements", (AUTOCOMMITS + TRANSACTIONS * 5 + ROLLBACKS * 3 + 1) as i64);
    recorded.is_near("transactions", committed as f64);
    recorded.is_near("write_transactions", (committed + rolled_back) as f64);
    recorded.is_near("rows_written", (AUTOCOMMITS + 2 * TRANSACTIONS + ROLLBACKS) as f64);
    assert_eq!(recorded.environment("server.innodb_flush_log_at_trx_commit"), "2");
    assert!(recorded.warnings().contains("commits wait for no disk"), "{}", recorded.warnings());
    if writes_a_binary_log {
        assert_eq!(recorded.grew("binlog_commits"), committed);
        assert!(recorded.environment("server.log_bin").eq_ignore_ascii_case("on"));
    } else {
        assert_eq!(recorded.metric("binlog_commits"), None);
    }
    let latency = recorded.metric("statement_latency_mean");
    if options.contains(&"--performance-schema=ON") {
        assert!(latency.unwrap() > 0.0 && recorded.times("queries") > 0.0);
        is_about("timed_statements", recorded.grew("statements") - 1);
    } else {
        assert_eq!(latency, None);
        assert!(
            recorded
                .environment("server not measured: statement_latency_mean")
                .contains("performance_schema = ON")
        );
    }
}

#[test]
fn each_transaction_of_mariadb_is_counted_once_without_a_binary_log() {
    each_transaction_of_mariadb_is_counted_once(&["--performance-schema=ON"]);
}

#[test]
fn each_transaction_of_mariadb_is_counted_once_with_a_binary_log() {
    each_transaction_of_mariadb_is_counted_once(&["--log-bin", "--server-id=1"]);
}

#[test]
fn each_transaction_of_pgbench_is_counted_once_by_postgresql() {
    let place = Place::new();
    let Some(server) = Server::start_with(Kind::PostgreSql, &["-c", "autovacuum=off"]) else { return };
    let address = server.address();
    let pgbench = ["pgbench", "-h", &address, "-U", "admin", "postgres"];
    let made = std::process::Command::new("pgbench").args(&pgbench[1..]).args(["-i", "-q"]).output().unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
    // -n: no VACUUM of its own.
    let load = [&["--"], &pgbench[..], &["-n", "-c", "2", "-t", "1500"]].concat();
    let recorded = Watch::of(&place, &server).record(&load);
    // It asks for its scale and its partitions before.
    let (before, transactions) = (5, 3000);
    let ended = recorded.grew("ended");
    assert!((transactions..=transactions + before).contains(&ended), "{ended}");
    assert_eq!(recorded.grew("numbers"), transactions);
    recorded.is_near("transactions", transactions as f64);
    recorded.is_near("write_transactions", transactions as f64);
    // Each inserts one row and updates three.
    recorded.is_near("rows_written", 4.0 * transactions as f64);
    assert_eq!(recorded.environment("server.synchronous_commit"), "off");
    assert_eq!(recorded.environment("server data"), server.at("data"));
    assert!(!recorded.environment("filesystem").is_empty(), "{:#}", recorded.trial);
    let active = recorded.metric("transaction_active_mean").unwrap();
    assert!(active > 0.0 && active < 1.0, "{active}");
    let why = recorded.environment("server not measured: queries");
    assert!(why.contains("CREATE EXTENSION pg_stat_statements"), "{why}");
}

/// Whoever looks at an idle server sees an idle server.
fn what_flyball_asks_does_not_count(kind: Kind, options: &[&str], prepare: &[&str]) {
    let place = Place::new();
    let Some(server) = Server::start_with(kind, options) else { return };
    prepare.iter().for_each(|statement| drop(server.sql(statement)));
    let before = server.dump();
    // What the administrator's client has done is counted once its session has ended.
    std::thread::sleep(Duration::from_millis(500));
    let recorded = Watch::of(&place, &server).record(&["--for", "4s"]);
    assert!(recorded.samples.len() >= 4, "{}", recorded.samples.len());
    for metric in ["transactions", "queries", "rows_read", "rows_written", "rollbacks"] {
        assert_eq!(recorded.metric(metric), Some(0.0), "{metric}: {:#}", recorded.json);
    }
    assert_eq!(recorded.metric("statement_latency_mean"), None);
    assert!(
        recorded.environment("server not measured: statement_latency_mean").contains("no statement ended")
    );
    assert_eq!(server.dump(), before);
    assert!(!is_in_arguments());
    assert_eq!(with_password(place.folder.path()), [place.path("password")]);
    testing::promise("watched-servers", 1, format_args!("a recording of an idle {}", kind.title()));
    testing::promise("passwords", 1, format_args!("a recording of a {}", kind.title()));
}

#[test]
fn what_flyball_asks_of_mariadb_does_not_count() {
    what_flyball_asks_does_not_count(
        Kind::MariaDb,
        &["--performance-schema=ON"],
        &[
            "GRANT PROCESS ON *.* TO bench@localhost; GRANT SELECT ON performance_schema.* TO bench@localhost",
            "SET GLOBAL innodb_monitor_enable = 'module_trx'",
        ],
    );
}

#[test]
fn what_flyball_asks_of_postgresql_does_not_count() {
    what_flyball_asks_does_not_count(
        Kind::PostgreSql,
        &["-c", "autovacuum=off", "-c", "shared_preload_libraries=pg_stat_statements"],
        &["CREATE EXTENSION pg_stat_statements"],
    );
}

/// A server that is started again while it is watched.
fn no_rate_is_computed_across_a_restart(kind: Kind) {
    let place = Place::new();
    let Some(mut server) = Server::start(kind) else { return };
    let words = {
        let watch = Watch::of(&place, &server);
        let mut words = watch.named("record");
        words.extend(["--json", "--for", "12s"].map(str::to_owned));
        words
    };
    let recording = place.spawn(&Watch::arguments(&words, &[]));
    wait_until("it is watched", || {
        let mut find = std::process::Command::new("find");
        let found = find.arg(place.folder.path()).args(["-name", "server-counters.tsv"]).output();
        !found.unwrap().stdout.is_empty()
    });
    std::thread::sleep(Duration::from_millis(2500));
    server.stop();
    server.resume();
    let output = recording.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    let recorded = Recorded::read(&said[said.find("{\n").unwrap()..]);
    let told = recorded.environment("server counters began anew");
    assert!(
        told.contains("restarted") && told.contains("the rates are those from"),
        "{told} {:#}",
        recorded.trial
    );
    assert!(recorded.warnings().contains("restarted"), "{}", recorded.warnings());
    // The longer part is the second one, and nobody did anything in it.
    let rate = recorded.metric("rows_written").unwrap();
    assert!(rate < 100.0, "{rate}");
    let run = recorded.json["run"].as_str().unwrap();
    let shown = place.ok(&["show", run, "--full"]);
    assert!(shown.contains("restarted"), "{shown}");
    testing::promise("server-restarts", 1, format_args!("a restart of a {}", kind.title()));
}

#[test]
fn no_rate_is_computed_across_a_restart_of_mariadb() {
    no_rate_is_computed_across_a_restart(Kind::MariaDb);
}

#[test]
fn no_rate_is_computed_across_a_restart_of_postgresql() {
    no_rate_is_computed_across_a_restart(Kind::PostgreSql);
}

#[test]
fn what_a_server_refuses_is_told_with_what_to_grant() {
    let place = Place::new();
    let Some(server) = Server::start_with(Kind::MariaDb, &["--performance-schema=ON"]) else { return };
    let watch = Watch::of(&place, &server);
    let recorded = watch.record(&["--for", "1s"]);
    for (metric, wanted) in [
        ("transactions", "GRANT PROCESS ON *.* TO 'bench'@'…'"),
        ("statement_latency_mean", "GRANT SELECT ON performance_schema.* TO 'bench'@'…'"),
    ] {
        let why = recorded.environment(&format!("server not measured: {metric}"));
        assert!(why.contains(wanted) && why.contains("denied"), "{metric}: {why}");
        assert_eq!(recorded.metric(metric), None);
    }
    assert!(recorded.metric("queries").is_some(), "what needs no right is measured");
    let run = recorded.json["run"].as_str().unwrap();
    for arguments in [&["show", run, "--full"][..], &["explain", run]] {
        let shown = place.ok(arguments);
        assert!(shown.replace(['\n', ' '], "").contains("GRANTPROCESSON"), "{shown}");
    }
    assert!(place.ok(&["show", run, "--full"]).contains("write_transactions"));
    assert!(place.ok(&["export", run, "--format", "csv"]).contains("write_transactions"));
    let page = place.path("page.html");
    place.ok(&["report", run, "--out", page.to_str().unwrap()]);
    assert!(fs::read_to_string(page).unwrap().contains("write_transactions"));

    let words = watch.named("diagnose");
    let said = place.ok(&Watch::arguments(&words, &["--for", "2s"]));
    let section = |name: &str| said.lines().any(|line| line.starts_with(name));
    assert!(section("Server") && section("Verdict"), "{said}");
    assert!(said.contains("queries 0 /s"), "{said}");
    assert!(said.replace(['\n', ' '], "").contains(&format!("datain{}", server.at("data"))), "{said}");

    for (from, to, wanted) in [
        ("bench", "nobody", "Access denied for user 'nobody'"),
        (watch.password.as_str(), "/none", "cannot use the password file `/none`"),
    ] {
        let words: Vec<String> =
            words.iter().map(|word| if word == from { to.to_owned() } else { word.clone() }).collect();
        let told = stderr(&place.output(&Watch::arguments(&words, &["--for", "1s"])));
        assert!(told.contains(wanted), "{told}");
    }
    let told = stderr(&place.output(&["record", "--server-user", "bench", "--for", "1s"]));
    assert!(told.contains("--server <KIND>"), "{told}");
    let told = stderr(&place.output(&[
        "record",
        "--server",
        "mariadb",
        "--server-address",
        "/nowhere",
        "--for",
        "1s",
    ]));
    assert!(told.contains("/nowhere") && told.contains("--server-address"), "{told}");
}
