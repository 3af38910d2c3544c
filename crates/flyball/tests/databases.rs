//! Databases and bonnie++ as workloads, on this machine: real servers, small data sets. Whatever happens to a
//! run, no server, folder, mount, segment of shared memory or network is left.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support;
use crate::support::{Place, is_root, wait_until};
use domain::rng::{Rng, Seed};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Whether the set-up could install all of these; says which it could not.
fn has(programs: &[&str]) -> bool {
    let folders = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"].map(PathBuf::from);
    let is_there = |program: &&&str| folders.iter().any(|folder| folder.join(program).exists());
    let missing: Vec<&&str> = programs.iter().filter(|program| !is_there(program)).collect();
    if !missing.is_empty() {
        eprintln!("skipped: {missing:?} could not be installed");
    }
    missing.is_empty()
}

const MARIADB: [&str; 3] = ["sysbench", "mariadbd", "mariadb-install-db"];
const POSTGRESQL: [&str; 2] = ["sysbench", "pgbench"];

/// What servers of ours leave if they are forgotten.
#[derive(Debug, PartialEq, Eq)]
struct Left {
    servers: BTreeSet<String>,
    rooms: BTreeSet<String>,
    mounts: BTreeSet<String>,
    segments: BTreeSet<String>,
    links: BTreeSet<String>,
}

fn left(place: &Place) -> Left {
    let folder = place.folder.path().to_str().unwrap().to_owned();
    let of_ours = |text: &str| text.contains(&folder) || text.contains("/run/flyball-");
    let names = |path: &str| {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect::<BTreeSet<String>>()
    };
    let is_server = |pid: &String| {
        let at = |name: &str| fs::read_link(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let program = at("exe").to_string_lossy().into_owned();
        ["mariadbd", "postgres", "sysbench", "pgbench", "bonnie++"].iter().any(|name| program.ends_with(name))
            && of_ours(&at("cwd").to_string_lossy())
    };
    let work = place.path("notebook/work");
    let rooms = names("/run").into_iter().chain(names(work.to_str().unwrap()));
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let segments = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    Left {
        servers: names("/proc").into_iter().filter(is_server).collect(),
        rooms: rooms.filter(|name| name.starts_with("flyball-")).collect(),
        mounts: mounts.lines().filter(|line| of_ours(line)).map(str::to_owned).collect(),
        // Of PostgreSQL's size, that nobody has any more.
        segments: segments.lines().skip(1).filter(|line| is_lost(line)).map(str::to_owned).collect(),
        links: names("/sys/class/net").into_iter().filter(|name| name.starts_with("server0")).collect(),
    }
}

fn is_lost(line: &str) -> bool {
    let fields: Vec<&str> = line.split_whitespace().collect();
    fields.get(3) == Some(&"56") && fields.get(6) == Some(&"0")
}

fn nothing() -> Left {
    let none = BTreeSet::new;
    Left { servers: none(), rooms: none(), mounts: none(), segments: none(), links: none() }
}

fn trials(place: &Place) -> Vec<Value> {
    place.trial_files().iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

/// A metric of a trial that has one.
fn metric(trial: &Value, name: &str) -> f64 {
    let value = &trial["measurement"]["metrics"][name]["value"];
    value.as_f64().unwrap_or_else(|| panic!("no `{name}` in {trial:#}"))
}

fn environment<'t>(trial: &'t Value, name: &str) -> &'t str {
    trial["environment"][name].as_str().unwrap_or_else(|| panic!("no `{name}` in {trial:#}"))
}

fn sysbench(options: &str, rest: &str) -> String {
    format!(
        "flyball = 1\nname = \"oltp\"\nquestion = \"How many transactions?\"\n[workload.oltp]\ntool = \"sysbench\"\n\
         options = {{ {options} }}\n{rest}\n[measure]\nmetric = \"transactions\"\nrepeats = [1, 1]\nsettle = \"0s\"\nretries = 0\n"
    )
}

const SMALL: &str = "tables = 2, table_size = 1000, time = 1";

#[test]
fn a_sweep_of_threads_on_mariadb_has_sysbenchs_metrics() {
    if !has(&MARIADB) {
        return;
    }
    let place = Place::new();
    let levels = "[factor.threads]\noption = \"threads\"\nlevels = [1, 4]\n[factor.test]\noption = \"test\"\n\
                  levels = [\"oltp_read_only\", \"oltp_read_write\", \"oltp_point_select\"]";
    let study = place.study("oltp", &sysbench(&SMALL.replace("time = 1", "time = 2"), levels));
    let begun = Instant::now();
    place.measure(&["run", &study]);
    let trials = trials(&place);
    assert_eq!(trials.len(), 6);
    for trial in &trials {
        let transactions = metric(trial, "transactions");
        let (mean, p95, p99) =
            (metric(trial, "latency_mean"), metric(trial, "latency_p95"), metric(trial, "latency_p99"));
        eprintln!(
            "{}: {transactions:.0} transactions/s, mean {:.2} ms, p95 {:.2} ms, p99 {:.2} ms",
            trial["levels"],
            mean * 1e3,
            p95 * 1e3,
            p99 * 1e3
        );
        assert!(transactions > 10.0 && mean > 0.0 && p95 <= p99, "{trial:#}");
        assert!(metric(trial, "queries") >= transactions && metric(trial, "elapsed") >= 0.9);
        assert!(environment(trial, "server").contains("MariaDB"), "{trial:#}");
        // The server's work is the workload's, and not somebody else's.
        let cpu = trial["measurement"]["roles_ns"]["workload"].as_u64().unwrap_or(0);
        assert!(cpu > 0, "{trial:#}");
        let disturbed = trial["validity"].to_string();
        assert!(!disturbed.contains("`mariadbd`"), "{disturbed}");
    }
    let progress = raw_files(&place, "stdout.txt");
    assert_eq!(progress.len(), 6);
    assert!(progress.iter().all(|text| text.contains("[ 1s ] thds: ")), "{progress:?}");
    // The data set was made once.
    assert_eq!(raw_files(&place, "server-prepare.out.txt").len(), 1);
    assert_eq!(left(&place), nothing());
    eprintln!("six trials and their server took {:?}", begun.elapsed());
}

/// The text of each trial's raw file of this name.
fn raw_files(place: &Place, name: &str) -> Vec<String> {
    fn walk(folder: &Path, name: &str, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                walk(&entry.path(), name, found);
            } else if entry.file_name() == name {
                found.push(fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    let mut found = Vec::new();
    walk(&place.path("notebook/runs"), name, &mut found);
    found
}

#[test]
fn bursts_are_measured_alone() {
    const ATTEMPTS: usize = 4;
    if !has(&MARIADB) {
        return;
    }
    let mut figures = String::new();
    for _ in 0..ATTEMPTS {
        let (steady, bursts, is_disturbed) = steady_and_in_bursts();
        figures =
            format!("steady {steady:.0}/s, in bursts of a fifth of the time {bursts:.0}/s of the bursts");
        eprintln!("{figures}{}", if is_disturbed { ", disturbed" } else { "" });
        // A fifth of the work in a fifth of the time: were gaps counted, it would be a fifth of the rate.
        if bursts > steady * 0.4 && bursts < steady * 2.5 {
            return;
        }
        assert!(is_disturbed, "{figures}, and nothing disturbed it");
    }
    testing::skip(format!("not measured, for other load disturbed each of {ATTEMPTS} attempts: {figures}"));
}

/// Transactions a second without bursts and in them, and whether Flyball found either trial disturbed.
fn steady_and_in_bursts() -> (f64, f64, bool) {
    let place = Place::new();
    let options = "test = \"oltp_point_select\", tables = 1, table_size = 1000, time = 2, threads = 2";
    let text = sysbench(
        options,
        "[workload.bursts]\ntool = \"sysbench\"\noptions = { test = \"oltp_point_select\", tables = 1, table_size = 1000, time = 2, threads = 2, duty_cycle = \"20%\", period = \"100ms\" }",
    );
    place.measure(&["run", &place.study("bursts", &text)]);
    let trials = trials(&place);
    let of = |workload: &str| trials.iter().find(|trial| trial["workload"] == workload).unwrap();
    let rate = |workload: &str| metric(of(workload), "transactions");
    let is_disturbed = |workload: &str| of(workload)["validity"] != "valid";
    assert_eq!(left(&place), nothing());
    (rate("oltp"), rate("bursts"), is_disturbed("oltp") || is_disturbed("bursts"))
}

#[test]
fn sysbench_and_pgbench_on_postgresql() {
    if !has(&POSTGRESQL) {
        return;
    }
    let place = Place::new();
    let text = sysbench(
        &format!("{SMALL}, test = \"oltp_read_only\", server = \"postgresql\""),
        "[workload.pg]\ntool = \"pgbench\"\noptions = { scale = 1, time = 1, client = 2, \"server.synchronous_commit\" = \"off\" }\n\
         [factor.builtin]\noption = \"builtin\"\nlevels = [\"select-only\", \"tpcb-like\", \"simple-update\"]\nworkloads = [\"pg\"]",
    );
    place.measure(&["run", &place.study("pg", &text)]);
    let trials = trials(&place);
    assert_eq!(trials.len(), 4);
    for trial in &trials {
        eprintln!(
            "{} {}: {:.0} transactions/s, {:.3} ms",
            trial["workload"],
            trial["levels"],
            metric(trial, "transactions"),
            metric(trial, "latency_mean") * 1e3
        );
        assert!(environment(trial, "server").contains("PostgreSQL"));
        if trial["workload"] == "pg" {
            assert_eq!(environment(trial, "server.synchronous_commit"), "off");
            assert!(metric(trial, "latency_stddev") > 0.0 && metric(trial, "errors") == 0.0);
        }
    }
    assert_eq!(left(&place), nothing());
}

#[test]
fn a_client_behind_a_slow_network_waits_for_it() {
    if !has(&MARIADB) {
        return;
    }
    if !is_root() {
        eprintln!("skipped: a network between client and server needs root");
        return;
    }
    let place = Place::new();
    // A range's answer is 13 kB: at 1 MB/s a transaction of four takes 50 ms and more.
    let options = "test = \"oltp_read_only\", tables = 1, table_size = 1000, time = 3";
    let network = format!(
        "[workload.far]\ntool = \"sysbench\"\noptions = {{ {options}, network_bandwidth = \"1 MB/s\" }}"
    );
    let told = place.study("network", &sysbench(options, &network));
    place.measure(&["run", &told]);
    let trials = trials(&place);
    let of = |workload: &str| trials.iter().find(|trial| trial["workload"] == workload).unwrap();
    let (near, far) = (metric(of("oltp"), "latency_mean"), metric(of("far"), "latency_mean"));
    eprintln!("a transaction takes {:.2} ms, and {:.2} ms over 1 MB/s", near * 1e3, far * 1e3);
    assert!(far > near + 0.005 && far < 1.0, "{near} {far}");
    assert!(environment(of("far"), "server network").contains("veth"));
    assert_eq!(left(&place), nothing());
    delayed(&place, options, near);
}

/// Where the kernel can delay packets, they come so much later; else the cell is skipped, and says what it
/// needs. That a delay is what it is said to be, the lab's test sees, whose kernels can (`lab_databases.rs`).
fn delayed(place: &Place, options: &str, near: f64) {
    let text = sysbench(&format!("{options}, network_delay = \"2ms\""), "").replace("\"oltp\"", "\"delay\"");
    let study = place.study("delay", &text);
    let output = place.output(&["run", &study]);
    let told = support::stderr(&output);
    if told.contains("CONFIG_NET_SCH_NETEM") {
        testing::skip_in_part("this kernel cannot delay packets (CONFIG_NET_SCH_NETEM)");
        assert!(told.contains("skipped: oltp: this kernel cannot delay packets"), "{told}");
    } else {
        let trials = trials(place);
        let late = trials.iter().find(|trial| trial["study"] == "delay").unwrap();
        // Sixteen statements, each there and back.
        assert!(metric(late, "latency_mean") > near + 16.0 * 0.004, "{late:#}");
    }
    assert_eq!(left(place), nothing());
}

#[test]
fn bonnie_reports_its_phases() {
    if !has(&["bonnie++"]) {
        return;
    }
    let place = Place::new();
    let text = "flyball = 1\nname = \"b\"\nquestion = \"q\"\n[target]\nfile = \"1MiB\"\n[workload.files]\ntool = \"bonnie\"\n\
                options = { size = \"64MiB\", ram = \"0\" }\n[workload.large]\ntool = \"bonnie\"\noptions = { size = \"64MiB\" }\n\
                [measure]\nmetric = \"block_read\"\nrepeats = [1, 1]\nsettle = \"0s\"\nretries = 0\n";
    let output = place.output(&["run", &place.study("bonnie", text)]);
    let told = support::stderr(&output);
    assert!(told.contains("skipped: large: ") && told.contains("less than twice the memory"), "{told}");
    let trials = trials(&place);
    assert_eq!(trials.len(), 1, "{told}");
    for name in ["per_char_write", "block_write", "rewrite"] {
        let measured = &trials[0]["measurement"]["metrics"];
        // What takes less than half a second it does not measure.
        let value = measured[name]["value"].as_f64();
        let cpu = measured[format!("cpu_{name}")]["value"].as_f64();
        eprintln!("{name}: {value:?} B/s, {cpu:?} of a CPU");
        assert_eq!(value.is_some(), cpu.is_some());
    }
    assert!(!trials[0]["measurement"]["metrics"].as_object().unwrap().is_empty());
    assert_eq!(raw_files(&place, "stdout.txt").len(), 1);
    assert_eq!(left(&place), nothing());
}

/// A study of fio over a small file.
fn fio(options: &str, rest: &str) -> String {
    format!(
        "flyball = 1\nname = \"f\"\nquestion = \"q\"\n[target]\nfile = \"16MiB\"\n[workload.f]\ntool = \"fio\"\n\
         options = {{ {options} }}\n{rest}\n[measure]\nmetric = \"iops\"\nrepeats = [1, 1]\nsettle = \"0s\"\nretries = 0\n"
    )
}

#[test]
fn iometers_patterns_run_by_their_names() {
    // In memory no file takes direct I/O.
    let rest = "[factor.pattern]\noption = \"pattern\"\nlevels = [\"4 KiB; 75% Read; 0% random\", \"File server\", \"Workstation\"]";
    let place = Place::new();
    place.measure(&[
        "run",
        &place.study("iometer", &fio("runtime = 1, time_based = true, direct = false", rest)),
    ]);
    let trials = trials(&place);
    assert_eq!(trials.len(), 3);
    for trial in &trials {
        let (reads, writes) = (metric(trial, "read_iops"), metric(trial, "write_iops"));
        let share = reads / (reads + writes);
        eprintln!("{}: {:.1}% of {:.0} a second are reads", trial["levels"], share * 100.0, reads + writes);
        let wanted = if trial["levels"]["pattern"].as_str().unwrap().starts_with('4') { 0.75 } else { 0.80 };
        assert!((share - wanted).abs() < 0.03, "{trial:#}");
    }
}

#[test]
fn bursts_of_fio_are_measured_alone() {
    let place = Place::new();
    let bursts = "[workload.b]\ntool = \"fio\"\noptions = { rw = \"randread\", rate_iops = 2000, runtime = 3, time_based = true, duty_cycle = \"25%\", period = \"400ms\", rate_ignore_thinktime = true }";
    let text = fio("rw = \"randread\", rate_iops = 2000, runtime = 3, time_based = true", bursts);
    place.measure(&["run", &place.study("bursts", &text)]);
    let trials = trials(&place);
    let rate =
        |workload: &str| metric(trials.iter().find(|trial| trial["workload"] == workload).unwrap(), "iops");
    let (steady, bursts) = (rate("f"), rate("b"));
    eprintln!("at 2000 a second: {steady:.0}, in bursts of a quarter of the time {bursts:.0} of the bursts");
    assert!(bursts > steady * 0.5 && bursts < steady * 3.0, "{steady} {bursts}");
}

#[test]
fn rounds_are_run_until_they_are_steady() {
    let place = Place::new();
    let options = "rw = \"randread\", rate_iops = 500, runtime = 1, time_based = true, precondition = true, steady_state = \"iops\", round = \"1s\"";
    place.measure(&["run", &place.study("steady", &fio(options, ""))]);
    let course = raw_files(&place, "steady-state.txt");
    let [course] = &course[..] else { panic!("{course:?}") };
    eprintln!("{course}");
    let rounds = course.lines().count();
    assert!((5..=25).contains(&rounds), "{course}");
    assert!(
        course.lines().last().unwrap().contains("excursion") && course.contains("round 5 iops "),
        "{course}"
    );
    assert_eq!(raw_files(&place, "precondition.json").len(), 1);
    assert_eq!(raw_files(&place, "round-05.json").len(), 1);
}

#[test]
fn what_cannot_be_is_told_before_anything_is_made() {
    let place = Place::new();
    for (options, wanted) in [
        ("test = \"oltp_delete\"", "write one of `oltp_read_only`"),
        (
            "test = \"oltp_read_only\", \"server.datadir\" = \"x\"",
            "is a setting of no server that a study can set",
        ),
        (
            "test = \"oltp_read_only\", \"server.innodb_io_capacity\" = \"/etc\"",
            "write a number, a size such as",
        ),
        ("test = \"oltp_read_only\", \"server.shared_buffers\" = \"1GB\"", "is no setting of mariadb"),
        ("test = \"oltp_read_only\", network_delay = \"2\"", "write a span of time"),
        (
            "test = \"oltp_read_only\", rate = 10, time = 1, duty_cycle = \"10%\"",
            "take `rate` or `duty_cycle` out",
        ),
    ] {
        let told = place.fails(2, &["run", &place.study("wrong", &sysbench(options, ""))]);
        assert!(told.contains(wanted), "{options}: {told}");
    }
    let pgbench = |options: &str| {
        sysbench("test = \"oltp_read_only\"", "").replace(
            "tool = \"sysbench\"\noptions = { test = \"oltp_read_only\" }",
            &format!("tool = \"pgbench\"\noptions = {{ {options} }}"),
        )
    };
    for (options, wanted) in [
        ("builtin = \"tpch\"", "write one of `tpcb-like`"),
        ("file = \"x.sql\"", "is no option of pgbench that a study can set"),
        ("client = 1, jobs = 2", "is more than the 1 of `client`"),
    ] {
        let told = place.fails(2, &["run", &place.study("wrong", &pgbench(options))]);
        assert!(told.contains(wanted), "{options}: {told}");
    }
    assert_eq!(left(&place), nothing());
}

#[test]
fn a_missing_server_and_a_full_disk_are_told() {
    if !has(&MARIADB) {
        return;
    }
    let place = Place::new();
    let study = place.study("missing", &sysbench(&format!("test = \"oltp_read_only\", {SMALL}"), ""));
    // A path in which there is nothing but what a test needs.
    let bin = place.path("bin");
    fs::create_dir(&bin).unwrap();
    let output = place.flyball(&["run", &study]).env("PATH", &bin).output().unwrap();
    let told = support::stderr(&output);
    assert!(told.contains("cannot run `sysbench`: there is no such program in PATH; on Debian, install it with `apt install sysbench`"), "{told}");
    // More rows than any disk of today holds.
    let huge = "test = \"oltp_read_only\", tables = 1000, table_size = 1000000000, time = 1";
    let output = place.output(&["run", &place.study("huge", &sysbench(huge, ""))]);
    let told = support::stderr(&output);
    assert!(told.contains("are missing; make room"), "{told}");
    assert_eq!(left(&place), nothing());
}

#[test]
fn a_run_that_is_killed_leaves_no_server() {
    if !testing::is_measured_in_turn(8) {
        return;
    }
    let extent = testing::Extent::of(5, 12);
    if !has(&MARIADB) || !has(&POSTGRESQL) {
        return;
    }
    let mut place = Place::new();
    if let Ok(folder) = tempfile::tempdir_in("/dev/shm") {
        place.folder = folder;
    }
    let network = if is_root() { ", network_bandwidth = \"100 MB/s\"" } else { "" };
    let text = sysbench(
        &format!("{SMALL}, test = \"oltp_read_write\"{network}"),
        "[workload.pg]\ntool = \"pgbench\"\noptions = { scale = 1, time = 1, client = 4 }",
    )
    .replace("repeats = [1, 1]", "repeats = [2, 2]");
    let study = place.study("killed", &text);
    let begun = Instant::now();
    place.measure(&["run", &study]);
    let life = begun.elapsed();
    fs::remove_dir_all(place.path("notebook")).unwrap();
    let mut points: Rng = Seed(extent.seed).stream("kill points");
    let (mut with_server, mut kills) = (0, 0);
    while kills < extent.count {
        let mut run = place
            .flyball(&["run", &study, "--new"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(life.mul_f64(points.unit() * 0.9));
        with_server += u64::from(!left(&place).servers.is_empty());
        let alone = points.unit() < 0.3;
        let supervisor = if alone { support::child_of(run.id(), "supervise") } else { None };
        if let Some(pid) =
            supervisor.and_then(|pid| rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()))
        {
            // With its supervisor; the next start finds what is left.
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        run.kill().unwrap();
        run.wait().unwrap();
        if alone {
            place.ok(&["restore"]);
        }
        kills += 1;
        let deadline = Instant::now() + Duration::from_secs(120);
        while left(&place) != nothing() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(left(&place), nothing(), "after kill {kills}");
        wait_until("the ledger is free", || {
            let status: Value = serde_json::from_str(&place.ok(&["status", "--json"])).unwrap();
            status["changed"].as_array().is_some_and(Vec::is_empty)
        });
    }
    eprintln!("{kills} kills over {life:?}, {with_server} of them with a server at work: nothing left");
    assert!(with_server >= extent.count / 4, "only {with_server}");
}
