//! `[target] server`: real servers that run before Flyball comes, with a password and data of somebody's.
//! Whatever happens to a run, they hold afterwards what they held before.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support::database_server::{Server, is_in_arguments, with_password};
use crate::support::{Place, stderr, wait_until};
use domain::database::{Address, Kind};
use machine::database::{Client, Error, Login, NamedBy};
use machine::{Ledger, LocalMachine};
use serde_json::Value;
use std::fs;
use std::process::Stdio;
use std::time::Duration;

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
    let (mut seen, mut is_told) = (false, false);
    while run.try_wait().unwrap().is_none() {
        seen |= server.databases().contains("flyball_");
        if seen && !is_told {
            let status = place.output(&["status"]);
            is_told = String::from_utf8_lossy(&status.stdout).contains(&format!("`kill -INT {}`", run.id()));
        }
        assert!(!is_in_arguments());
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = run.wait_with_output().unwrap();
    assert!(output.status.success() && seen, "{seen} {}", stderr(&output));
    assert!(is_told, "`status` names no next step while a run works");
    assert_eq!(server.dump(), before);
    let trials: Vec<Value> =
        place.trial_files().iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    // One in which somebody else mounted something does not count, and is repeated.
    assert_eq!(trials.iter().filter(|trial| trial["validity"] == "valid").count(), 2, "{trials:#?}");
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
    testing::promise("foreign-databases", 1, format_args!("a run at a {}", kind.title()));
    testing::promise("passwords", 1, format_args!("a run at a {}", kind.title()));
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
    let kills = [(0, true), (40, false), (150, true), (1000, false)];
    for (pause_ms, alone) in kills {
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
    let words = format!("killed runs at a {}, with their supervisor or without", kind.title());
    testing::promise("foreign-databases", kills.len(), words);
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
        named_by: NamedBy::Study,
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
