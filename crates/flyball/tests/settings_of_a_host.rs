//! Settings as factors, on this machine's own loop devices and sysctls: written, seen by the workload, put
//! back.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support;
use crate::support::{Place, is_root, wait_until};
use domain::rng::Seed;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

const SYSCTL: &str = "/proc/sys/vm/dirty_expire_centisecs";

/// A study that varies a sysctl and the read-ahead of a loop device of its own.
fn study() -> String {
    let before = value();
    let other = if before == "2900" { "2800" } else { "2900" };
    format!(
        r#"
flyball = 1
name = "settings"
question = "Does read-ahead decide how fast this loop device is read?"

[target]
loop = "16MiB"

[workload.read]
tool = "dd"
options = {{ direction = "read", bs = "16k" }}

[factor.readahead]
setting = "read_ahead_kb"
levels = [16, 512]

[settings]
"vm.dirty_expire_centisecs" = {other}

[measure]
repeats = [3, 3]
settle = "1s"
"#
    )
}

fn value() -> String {
    fs::read_to_string(SYSCTL).unwrap().trim().to_owned()
}

fn skipped() -> bool {
    if !is_root() {
        eprintln!("skipped: settings and loop devices need root");
    }
    !is_root()
}

#[test]
fn settings_are_written_stored_and_put_back() {
    if skipped() {
        return;
    }
    let place = Place::new();
    let before = value();
    place.measure(&["run", &place.study("settings", &study())]);
    assert_eq!(value(), before);
    assert_eq!(place.loops(), BTreeSet::new());
    let trial = place.ok(&["show", "settings", "b00.read_512.a0"]);
    assert!(trial.contains("read_ahead_kb@loop") && trial.contains("512"), "{trial}");
    assert!(trial.contains("vm.dirty_expire_centisecs"), "{trial}");
}

#[test]
fn a_dry_run_lists_every_write() {
    if skipped() {
        return;
    }
    let place = Place::new();
    let before = value();
    let text = place.ok(&["run", &place.study("settings", &study()), "--dry-run"]);
    assert!(text.contains("read_ahead_kb") && text.contains("= 512"), "{text}");
    assert!(text.contains(SYSCTL) && text.contains(&format!("now {before}")), "{text}");
    assert_eq!(value(), before);
}

#[test]
fn kill_9_leaves_no_setting_changed_and_no_device() {
    if skipped() {
        return;
    }
    let place = Place::new();
    let before = value();
    let study = place.study("settings", &study());
    for _ in 0..3 {
        let mut child = place.spawn(&["run", &study]);
        wait_until("a setting is changed", || value() != before || child.try_wait().unwrap().is_some());
        if let Some(status) = child.try_wait().unwrap() {
            let output = child.wait_with_output().unwrap();
            panic!("the run ended before it was killed ({status}): {}", support::stderr(&output));
        }
        kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::KILL).unwrap();
        child.wait().unwrap();
        wait_until("the supervisor has put it back", || value() == before && place.loops().is_empty());
    }
    wait_until("the supervisor has removed the file", || place.work_files().is_empty());
    assert!(place.ok(&["restore"]).contains("nothing is changed"));
}

/// Less than any other limit but zero, so that it shows beside others.
const LIMIT_US: i32 = 3;

fn latency_in_force() -> Option<i32> {
    let bytes = fs::read("/dev/cpu_dma_latency").ok()?;
    Some(i32::from_ne_bytes(bytes.try_into().unwrap()))
}

#[test]
fn a_limit_on_latency_is_in_force_during_a_trial_and_gone_with_a_killed_run() {
    match latency_in_force() {
        Some(limit_us) if limit_us > LIMIT_US => {}
        _ => {
            return testing::skip(
                "this needs root, /dev/cpu_dma_latency, and nobody who holds a stricter limit",
            );
        }
    }
    let place = Place::new();
    let study = place.study(
        "latency",
        r#"
flyball = 1
name = "latency"
question = "Is a limit on latency in force while a workload runs?"

[workload.wait]
tool = "command"
argv = ["sh", "-c", "sleep 0.3; od -A n -t d4 /dev/cpu_dma_latency"]

[[workload.wait.metric]]
name = "limit"
pattern = '^ *(?<value>[0-9]+)$'
unit = "count"
better = "lower"

[factor.limit]
setting = "cpu_dma_latency"
levels = ["3us", "2us"]

[measure]
metric = "limit"
repeats = [3, 3]
drop_caches = false
settle = "0s"
"#,
    );
    place.measure(&["run", &study]);
    assert!(latency_in_force().unwrap() > LIMIT_US, "the limit outlives the run");
    let trial = place.ok(&["show", "latency", "b00.wait_3us.a0"]);
    assert!(trial.contains("cpu_dma_latency") && trial.contains("limit") && trial.contains('3'), "{trial}");

    let mut child = place.spawn(&["run", &study, "--new"]);
    let is_held = || latency_in_force().unwrap() <= LIMIT_US;
    wait_until("the limit is held", || is_held() || child.try_wait().unwrap().is_some());
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::KILL).unwrap();
    child.wait().unwrap();
    wait_until("the kernel has taken it back", || !is_held());
    assert!(place.ok(&["restore"]).contains("nothing is changed"));
}

#[test]
fn restore_puts_back_what_a_killed_run_and_its_killed_supervisor_left() {
    if skipped() {
        return;
    }
    let place = Place::new();
    let before = value();
    let mut child = place.spawn(&["run", &place.study("settings", &study())]);
    wait_until("a setting is changed", || value() != before || child.try_wait().unwrap().is_some());
    for supervisor in children_of(child.id(), "supervise") {
        kill_process(supervisor, Signal::KILL).unwrap();
    }
    kill_process(Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap(), Signal::KILL).unwrap();
    child.wait().unwrap();
    let status = place.ok(&["status"]);
    assert!(status.contains("vm.dirty_expire_centisecs") || value() == before, "{status}");
    place.ok(&["restore"]);
    assert_eq!(value(), before);
    assert_eq!(place.loops(), BTreeSet::new());
}

#[test]
fn a_foreign_write_during_a_run_is_left_alone_and_reported() {
    if skipped() {
        return;
    }
    let place = Place::new();
    let before = value();
    let mut child = place.spawn(&["run", &place.study("settings", &study())]);
    wait_until("a setting is changed", || value() != before || child.try_wait().unwrap().is_some());
    fs::write(SYSCTL, "2718").unwrap();
    let output = child.wait_with_output().unwrap();
    let after = value();
    fs::write(SYSCTL, &before).unwrap();
    let told = support::stderr(&output);
    assert_eq!(after, "2718", "somebody else's value was overwritten");
    assert_eq!(output.status.code(), Some(5), "{told}");
    assert!(told.contains("somebody else"), "{told}");
}

/// Of no weight: how hard the kernel tries before it compacts memory.
const WEIGHTLESS: &str = "/proc/sys/vm/extfrag_threshold";

/// Put back whatever happens.
struct Back(String);

impl Drop for Back {
    fn drop(&mut self) {
        let _ = fs::write(WEIGHTLESS, &self.0);
    }
}

#[test]
fn a_foreign_write_at_any_moment_of_a_trial_is_left_reported_and_marks_the_trial() {
    // One trial of each run is written into: its workload takes as long, after a moment of settling.
    const SPAN: f64 = 0.5;
    if skipped() {
        return;
    }
    let place = Place::new();
    let now = || fs::read_to_string(WEIGHTLESS).unwrap().trim().to_owned();
    let before = Back(now());
    let study = place.study(
        "foreign",
        r#"
flyball = 1
name = "foreign"
question = "Is a value that somebody else writes in the middle of a trial left alone?"

[workload.wait]
tool = "command"
argv = ["sh", "-c", "sleep 0.5; echo 1 done"]

[[workload.wait.metric]]
name = "done"
pattern = '^(?<value>[0-9]+) done$'
unit = "count"
better = "higher"

[settings]
"vm.extfrag_threshold" = 510

[measure]
metric = "done"
repeats = [3, 3]
drop_caches = false
settle = "0s"
"#,
    );
    let extent = testing::Extent::of(20, 50);
    let writes = u32::try_from(extent.count).unwrap();
    let mut moments = Seed(extent.seed).stream("moments");
    let (mut left, mut reported, mut marked) = (0, 0, 0);
    for round in 0..writes {
        fs::write(WEIGHTLESS, &before.0).unwrap();
        let child = place.spawn(&["run", &study, "--new"]);
        // No pause in the waiting: the moments right after the write are wanted too. On a busy machine a
        // sleep may be longer than the trial; then it is tried again in the next one.
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            while now() != "510" {
                assert!(Instant::now() < deadline, "round {round}: no trial was met");
            }
            std::thread::sleep(Duration::from_secs_f64(SPAN * moments.unit()));
            if now() == "510" {
                break;
            }
        }
        // Another value than that of before, which a killed run of this test may have left.
        let foreign = (600 + round).to_string();
        let foreign = if foreign == before.0 { "599".to_owned() } else { foreign };
        fs::write(WEIGHTLESS, &foreign).unwrap();
        let output = child.wait_with_output().unwrap();
        let told = support::stderr(&output);
        left += u32::from(now() == foreign);
        let left_alone = format!("`{WEIGHTLESS}` is `{foreign}` now");
        reported += u32::from(output.status.code() == Some(5) && told.contains(&left_alone));
        let is_marked =
            |text: &String| text.contains("setting-changed") && text.contains(&format!("`{foreign}`"));
        marked += place.trial_files().iter().filter(|text| is_marked(text)).count();
        if !told.contains(&left_alone) {
            eprintln!("round {round}: {told}");
        }
    }
    println!("{writes} foreign writes: {left} left, {reported} reported, {marked} trials marked");
    assert_eq!((left, reported, marked), (writes, writes, writes as usize));
}

/// The children of a process whose command line names this word.
fn children_of(parent: u32, word: &str) -> Vec<Pid> {
    let pids =
        fs::read_dir("/proc").unwrap().filter_map(|e| e.unwrap().file_name().to_str()?.parse::<i32>().ok());
    let is_child = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        after_name.split_whitespace().nth(1) == Some(parent.to_string().as_str())
    };
    let names =
        |pid: &i32| fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(word));
    pids.filter(is_child).filter(names).filter_map(Pid::from_raw).collect()
}

/// As `su` without `-` and cron have it.
const BARE_PATH: &str = "/usr/bin:/bin";

#[test]
fn a_stack_is_built_and_taken_down_where_the_path_lacks_roots_own_folders() {
    if skipped() {
        return;
    }
    let place = Place::new();
    let study = place.study(
        "bare",
        "flyball = 1\nname = \"bare\"\nquestion = \"?\"\n[target]\nfile = \"1MiB\"\n\
         [stack.disk]\nkind = \"devices\"\nloop = \"16MiB\"\n\
         [stack.files]\nkind = \"filesystem\"\non = \"disk\"\ntype = \"ext4\"\n\
         [workload.read]\ntool = \"command\"\nargv = [\"cat\", \"{target}\"]\n\
         [measure]\nmetric = \"elapsed\"\nrepeats = 1\nretries = 0\ndrop_caches = false\nsettle = \"0s\"\n",
    );
    let output = place.flyball(&["run", &study]).env("PATH", BARE_PATH).output().unwrap();
    let said = support::stderr(&output);
    assert!(!said.contains("skipped") && !said.contains("failed"), "{said}");
    assert_eq!(place.trials(), ["b00.read.a0"]);
    assert_eq!(place.work_files(), [""; 0].map(std::path::PathBuf::from));
    assert!(place.ok(&["status"]).contains("nothing is changed"));
}
