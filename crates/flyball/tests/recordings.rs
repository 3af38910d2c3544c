//! `flyball record`: a recording is a run, which every command takes; killed, what it recorded dies with it,
//! and nothing half written stays.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support;
use crate::support::{Place, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A job in a session of its own, as fio's are, and one in the foreground.
const COMMAND: [&str; 3] = ["sh", "-c", "setsid sleep 1234.5 & sleep 1234.5; :"];

/// Its fields from the state on (proc_pid_stat(5)); `None` for the dead.
fn stat(pid: u32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<String> = stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect();
    (fields[0] != "Z").then_some(fields)
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
}

struct Recording {
    place: Place,
    process: Child,
}

impl Recording {
    /// Begins one, and waits until its two sleeps are there.
    fn begin(arguments: &[&str], command: &[&str]) -> Self {
        let place = Place::new();
        let mut flyball = place.flyball(&[&["record"], arguments, &["--"], command].concat());
        flyball.env("RECORDED_IN", place.folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let recording = Self { process: flyball.spawn().unwrap(), place };
        wait_until("the command runs", || recording.running("1234.5").len() == 2);
        recording
    }

    /// The processes of this test whose arguments have this word.
    fn running(&self, word: &str) -> Vec<u32> {
        let has = |pid: u32, file: &str, word: &str| {
            let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            bytes.split(|byte| *byte == 0).any(|part| part == word.as_bytes())
        };
        let of_this_test = format!("RECORDED_IN={}", self.place.folder.path().display());
        let pids =
            fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
        let is_ours = |pid: &u32| {
            stat(*pid).is_some() && has(*pid, "environ", &of_this_test) && has(*pid, "cmdline", word)
        };
        pids.filter(is_ours).collect()
    }

    /// What is in the folder in which recordings are half written, but for its lock.
    fn half_written(&self, staging: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.place.path(staging)).into_iter().flatten().map(|e| e.unwrap().path());
        entries.filter(|path| !path.ends_with(".lock")).collect()
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
fn a_killed_recording_takes_its_command_and_what_it_has_half_written_with_it() {
    for (arguments, staging) in [(&["--out", "here"][..], "here.staging"), (&[], "notebook/staging")] {
        let mut recording = Recording::begin(arguments, &COMMAND);
        assert!(!recording.half_written(staging).is_empty());
        recording.kill();
        wait_until("its command is dead", || recording.running("1234.5").is_empty());
        wait_until("its watcher has ended", || recording.running("watch-recording").is_empty());
        assert_eq!(recording.half_written(staging), Vec::<PathBuf>::new(), "{staging}");
        assert!(!recording.place.path("here").exists() && !recording.place.path("here.staging").exists());
    }
}

#[test]
fn killed_with_its_watcher_it_still_ends_its_command_and_the_next_recording_sweeps() {
    let mut recording =
        Recording::begin(&["--out", "here"], &["sh", "-c", "sleep 1234.5 & exec sleep 1234.5"]);
    let of_recording = |pid: &u32| stat(*pid).is_some_and(|s| s[1] == recording.process.id().to_string());
    let command = recording.running("1234.5").into_iter().find(of_recording).unwrap();
    recording.running("watch-recording").into_iter().for_each(kill);
    recording.kill();
    wait_until("the command is dead", || stat(command).is_none());
    // What it had started itself is left: nobody is there any more who knows it.
    recording.running("1234.5").into_iter().for_each(kill);
    assert!(!recording.half_written("here.staging").is_empty());
    recording.place.ok(&["record", "--for", "100ms", "--out", "here"]);
    assert!(!recording.place.path("here.staging").exists());
    assert!(recording.place.path("here/recording.json").exists());
}

#[test]
fn a_recorded_command_is_in_the_foreground_and_its_time_ends_all_that_it_started() {
    let mut recording = Recording::begin(&["--out", "here", "--for", "2s"], &COMMAND);
    let group = |pid: u32| stat(pid).unwrap()[2].clone();
    let shell = recording.running("-c")[0];
    assert_eq!(
        group(shell),
        group(recording.process.id()),
        "a background process may not read from the terminal"
    );
    recording.process.wait().unwrap();
    assert_eq!(recording.running("1234.5"), Vec::<u32>::new());
    assert_eq!(recording.running("watch-recording"), Vec::<u32>::new());
    assert!(
        recording.place.path("here/recording.json").exists()
            && !recording.place.path("here.staging").exists()
    );
}

#[test]
fn what_a_command_leaves_running_when_it_ends_is_left_alone() {
    let command = ["sh", "-c", "setsid sleep 1234.5 & setsid sleep 1234.5 & sleep 1"];
    let mut recording = Recording::begin(&["--out", "here"], &command);
    assert!(recording.process.wait().unwrap().success());
    recording.place.ok(&["record", "--for", "100ms", "--out", "again"]);
    recording.place.output(&["restore"]);
    let left = recording.running("1234.5");
    left.iter().copied().for_each(kill);
    assert_eq!(left.len(), 2);
}

#[test]
fn a_recording_within_a_recording_is_watched_over_by_its_own() {
    let inner = [env!("CARGO_BIN_EXE_flyball"), "record", "--out", "inner", "--"];
    let mut recording = Recording::begin(&["--out", "here"], &[&inner[..], &COMMAND].concat());
    let watchers = recording.running("watch-recording");
    assert_eq!(watchers.len(), 2);
    for watcher in &watchers {
        // What ends the outer's command must not end the one who watches over the inner.
        let environment = fs::read(format!("/proc/{watcher}/environ")).unwrap();
        assert!(!String::from_utf8_lossy(&environment).contains("FLYBALL_WORKLOAD="));
    }
    recording.kill();
    wait_until("the command of the inner is dead", || recording.running("1234.5").is_empty());
    wait_until("both watchers have ended", || recording.running("watch-recording").is_empty());
    assert!(recording.place.path("inner/recording.json").exists(), "the inner was asked to end, and did");
    assert!(!recording.place.path("here.staging").exists());
}

/// The run that a recording says it is.
fn recorded(place: &Place, arguments: &[&str], code: i32) -> String {
    let output = place.output(&[&["record", "--json"], arguments].concat());
    assert_eq!(output.status.code(), Some(code), "{}", support::stderr(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    json["run"].as_str().unwrap().to_owned()
}

#[test]
fn a_recording_is_a_run_that_every_command_takes() {
    let place = Place::new();
    let run = recorded(&place, &["--", "sh", "-c", "sleep 0.2; exit 7"], 7);
    assert!(run.starts_with("recording-sh-"), "{run}");
    assert!(place.ok(&["list"]).contains(&run));
    for arguments in
        [&["show"][..], &["explain"], &["report", "--format", "text"], &["report", "--format", "markdown"]]
    {
        let text = place.ok(&[arguments, &[run.as_str()]].concat());
        assert!(text.contains("exit 7") && text.contains("ended with code 7"), "{arguments:?}: {text}");
        // Not `seed` alone: the busiest threads of the host are named there, whatever they are called.
        let shows_a_seed = text.contains(", seed ") || text.contains("--seed");
        assert!(!shows_a_seed && !text.contains("too few trials"), "{arguments:?}: {text}");
    }
    assert!(place.ok(&["show", &run]).contains("flyball record --json -- sh -c 'sleep 0.2; exit 7'"));
    place.ok(&["report", &run, "-o", "page.html"]);
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    assert!(page.contains("What was recorded") && page.contains("Over time") && !page.contains("Seed"));
    assert!(place.ok(&["export", &run]).contains("metric.elapsed.seconds"));
    assert!(place.ok(&["export", &run, "--trace", "b00.recorded.a0"]).contains("role.workload.ns"));
    assert!(place.ok(&["show", &run, "b00.recorded.a0"]).contains("exit_code: 7"));
}

#[test]
fn two_recordings_are_compared_by_what_they_have_in_common() {
    let place = Place::new();
    let first = recorded(&place, &["--", "sleep", "0.3"], 0);
    let second = recorded(&place, &["--", "sleep", "0.3"], 0);
    let watched = recorded(&place, &["--for", "300ms"], 0);
    assert!(place.ok(&["compare", &first, &second]).contains("elapsed"));
    assert!(place.ok(&["compare", "recording-sleep"]).contains(&second));
    assert!(place.ok(&["compare", &first, &watched]).contains("cpu busy"));
}

#[test]
fn a_command_that_was_stopped_has_no_time_of_its_own() {
    let place = Place::new();
    let run = recorded(&place, &["--for", "200ms", "--", "sleep", "1234.5"], 143);
    let trial = place.ok(&["show", "--json", &run, "b00.recorded.a0"]);
    assert!(trial.contains("\"cpu_busy\"") && !trial.contains("\"elapsed\""), "{trial}");
    assert!(place.ok(&["show", &run]).contains("It was recorded for"));
}

#[test]
fn a_process_is_followed_to_its_end_and_nothing_is_done_to_it() {
    let place = Place::new();
    let waits = "until [ -e go ]; do sleep 0.05; done; exit 5";
    let mut process = std::process::Command::new("sh")
        .args(["-c", waits])
        .current_dir(place.folder.path())
        .spawn()
        .unwrap();
    let arguments = ["record", "--pid", &process.id().to_string()];
    let mut recording = place.flyball(&arguments).stdout(Stdio::null()).spawn().unwrap();
    let trial = "trials/b00.recorded.a0/raw/samples.spool";
    wait_until("it is recorded", || {
        support::folders(&place.path("notebook/staging")).iter().any(|run| run.join(trial).exists())
    });
    fs::write(place.path("go"), "").unwrap();
    assert!(recording.wait().unwrap().success());
    assert_eq!(process.wait().unwrap().code(), Some(5));
    let shown = place.ok(&["show", "recording-sh"]);
    assert!(shown.contains(&format!("process {} sh", process.id())), "{shown}");
    assert!(place.ok(&["show", "recording-sh", "b00.recorded.a0"]).contains("ended: by itself"));

    let mut sleeping = std::process::Command::new("sleep").arg("1234.5").spawn().unwrap();
    let run = recorded(&place, &["--pid", &sleeping.id().to_string(), "--for", "200ms"], 0);
    assert!(sleeping.try_wait().unwrap().is_none(), "it was ended");
    sleeping.kill().unwrap();
    sleeping.wait().unwrap();
    assert!(!place.ok(&["show", &run, "b00.recorded.a0"]).contains("by itself"));
}

#[test]
fn a_process_that_cannot_be_followed_is_refused_with_its_reason_and_nothing_is_kept() {
    let place = Place::new();
    let mut gone = std::process::Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let mut cases = vec![(gone.id().to_string(), "there is none"), ("0".to_owned(), "there is none")];
    let is_kernel =
        |pid: u32| stat(pid).is_some_and(|fields| fields[6].parse::<u32>().unwrap() & 0x20_0000 != 0);
    cases.extend(is_kernel(2).then(|| ("2".to_owned(), "a thread of the kernel")));
    for (pid, why) in cases {
        let error = place.fails(2, &["record", "--for", "1s", "--pid", &pid]);
        assert!(error.contains(why), "{pid}: {error}");
    }
    assert!(!place.path("notebook").exists());
}

#[test]
fn the_word_of_before_is_understood_until_0_2() {
    let place = Place::new();
    place.ok(&["record", "--duration", "100ms"]);
    assert!(!place.ok(&["record", "--help"]).contains("--duration"));
}

#[test]
fn events_are_kept_beside_the_trace_and_shown() {
    let place = Place::new();
    let load = "dd if=/dev/zero of=file bs=64k count=20 conv=fsync status=none; sleep 0.1";
    let printed = place.ok(&["record", "--events", "--", "sh", "-c", load]);
    let events = place.path("notebook/runs");
    let run = support::folders(&events).remove(0);
    assert!(run.join("trials/b00.recorded.a0/events.bin").exists());
    let shown = place.ok(&["show", "recording-sh"]);
    let stored = place.ok(&["show", "--json", "recording-sh", "b00.recorded.a0"]);
    assert!(stored.contains("\"recorded\""));
    if printed.contains("not recorded: no events") {
        eprintln!("skipped: this machine records no events: {printed}");
        return;
    }
    for text in [&printed, &shown] {
        assert!(text.contains("events in ") && text.contains("sched_switch "), "{text}");
        assert!(text.contains("by events") && text.contains("workload "), "{text}");
        assert!(text.contains("call stacks, one each") && text.contains("user space "), "{text}");
    }
}

/// The most memory that a process has had, in KiB (proc_pid_status(5)); `None` once it has ended.
fn peak_kib(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok())
}

/// Records five seconds in which one short process follows another, as many as fit: a minute of 30,000 would
/// have two thousand. Gives what was printed, the most memory in KiB, and how many processes there were.
fn recorded_beside_short_processes(place: &Place) -> (Output, u64, u32) {
    let mut recording = place.flyball(&["record", "--events=sched", "--json", "--for", "5s"]);
    let recording = recording.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = recording.id();
    let peak = std::thread::spawn(move || {
        let mut most = 0;
        while let Some(peak) = peak_kib(pid) {
            most = most.max(peak);
            std::thread::sleep(Duration::from_millis(5));
        }
        most
    });
    let (begun, mut short) = (Instant::now(), 0);
    while begun.elapsed() < Duration::from_secs(5) {
        assert!(Command::new("true").status().unwrap().success());
        short += 1;
    }
    (recording.wait_with_output().unwrap(), peak.join().unwrap(), short)
}

#[test]
fn ten_thousand_threads_and_thousands_of_short_processes_take_bounded_memory() {
    const THREADS: usize = 10_000;
    /// Each thread has some hundred bytes in a table or two; the rest is the program and the events' rings.
    const MOST_KIB: u64 = 64 << 10;
    let place = Place::new();
    let done = AtomicBool::new(false);
    let recorded = std::thread::scope(|scope| {
        let crowd: Vec<_> = (0..THREADS)
            .map_while(|_| {
                let waits = || {
                    while !done.load(Ordering::Relaxed) {
                        std::thread::park();
                    }
                };
                std::thread::Builder::new().stack_size(16 << 10).spawn_scoped(scope, waits).ok()
            })
            .collect();
        let is_whole = crowd.len() == THREADS;
        let recorded = is_whole.then(|| recorded_beside_short_processes(&place));
        done.store(true, Ordering::Relaxed);
        crowd.iter().for_each(|thread| thread.thread().unpark());
        recorded.ok_or(crowd.len())
    });
    let (output, peak, short) = match recorded {
        Ok(recorded) => recorded,
        Err(there) => {
            let reason = format!("this machine lets a user have {there} threads, and not {THREADS}");
            return testing::skip(reason);
        }
    };
    assert!(output.status.success(), "{}", support::stderr(&output));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    // Where a sample of that many threads takes long, the recorder takes one a second and no fewer.
    assert!(json["samples"].as_u64().unwrap() >= 4, "{json:#}");
    assert!(json["role_cpu_ns"]["other"].as_u64().unwrap() > 0, "{json:#}");
    println!("{THREADS} threads, {short} short processes, {peak} KiB, {} missed", json["missed"]);
    assert!(peak > 0 && peak < MOST_KIB, "{peak} KiB");
}

#[test]
fn a_recording_without_events_has_no_file_of_them_and_says_nothing_of_them() {
    let place = Place::new();
    place.ok(&["record", "--events=sched", "--out", "with", "--for", "100ms"]);
    assert!(place.path("with/events.bin").exists());
    let printed = place.ok(&["record", "--out", "without", "--for", "100ms"]);
    assert!(!place.path("without/events.bin").exists() && !printed.contains("events in"), "{printed}");
}

#[test]
fn every_recording_says_what_cpu_time_was_spent_in_and_its_page_too() {
    let place = Place::new();
    let printed =
        place.ok(&["record", "--", "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"]);
    if printed.contains("not recorded: no profile") {
        eprintln!("skipped: this machine samples no call stacks: {printed}");
        return;
    }
    place.ok(&["report", "recording-sh", "--out", "page.html"]);
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    for text in [&printed, &place.ok(&["show", "--full", "recording-sh"]), &page] {
        assert!(text.contains("call stacks, one each") && text.contains("user space"), "{text}");
    }
    let run = support::folders(&place.path("notebook/runs")).remove(0);
    let raw = run.join("trials/b00.recorded.a0/raw");
    assert!(support::files(&raw).is_empty(), "the sums are kept alone");
}

/// A loop device over memory, released when dropped.
struct Loop(String);

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_recording_says_how_long_each_device_took_and_so_do_its_run_and_page() {
    let place = Place::new();
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = memory.path().join("disk");
    fs::File::create(&file).unwrap().set_len(16 << 20).unwrap();
    let made = Command::new("losetup").args(["--find", "--show"]).arg(&file).output();
    let Some(made) = made.ok().filter(|made| made.status.success()) else {
        return testing::skip("no loop device can be made");
    };
    let disk = Loop(String::from_utf8(made.stdout).unwrap().trim().to_owned());
    let read = format!("dd if={} of=/dev/null bs=4k count=2000 iflag=direct 2> /dev/null", disk.0);
    let printed = place.ok(&["record", "--", "sh", "-c", &read]);
    if printed.contains("BPF cannot sum it up") {
        return testing::skip(printed);
    }
    assert!(printed.contains("times of devices from: BPF, summed up in the kernel"), "{printed}");
    assert!(printed.contains("read: queue") && printed.contains("; service"), "{printed}");
    let json: serde_json::Value =
        serde_json::from_str(&place.ok(&["record", "--json", "--", "sh", "-c", &read])).unwrap();
    let mut disks = json["disks"].as_array().unwrap().iter();
    let own = disks.find(|own| disk.0.ends_with(own["device"].as_str().unwrap())).unwrap();
    let service = &own["served"][0]["service"];
    let [half, most] = ["p50_ns", "p99_ns"].map(|name| service[name].as_u64().unwrap());
    assert!(service["count"].as_u64().unwrap() >= 1900 && 0 < half && half <= most, "{service}");
    let run = json["run"].as_str().unwrap();
    place.ok(&["report", run, "--out", "page.html"]);
    let page = fs::read_to_string(place.path("page.html")).unwrap();
    for text in [&place.ok(&["show", "--full", run]), &page] {
        assert!(text.contains("How long block devices took") && text.contains("99% within"), "{text}");
    }
}

#[test]
fn a_set_of_events_that_there_is_not_is_refused_with_those_that_there_are() {
    let place = Place::new();
    let error = place.fails(2, &["record", "--events=tea", "--for", "1s"]);
    assert!(error.contains("`tea`") && error.contains("power, sched, block"), "{error}");
    assert!(!place.path("notebook").exists());
}

#[test]
fn damaged_events_are_told_and_the_recording_is_shown() {
    let place = Place::new();
    place.ok(&["record", "--events=sched", "--for", "100ms"]);
    let run = support::folders(&place.path("notebook/runs")).remove(0);
    fs::write(run.join("trials/b00.recorded.a0/events.bin"), "FLYEVT01 and no more").unwrap();
    let output = place.output(&["show", "recording"]);
    assert!(output.status.success());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("cannot read the events of"), "{error}");
}

/// A command keeps a CPU busy; at two levels.
const BUSY: &str = r#"
flyball = 1
name = "busy"
question = "What is a shell's CPU time spent in?"
[workload.count]
tool = "command"
argv = ["sh", "-c", "i=0; while [ $i -lt {n} ]; do i=$((i+1)); done"]
[factor.n]
levels = [100000, 200000]
[measure]
metric = "elapsed"
repeats = 2
settle = "0s"
under_load = true
"#;

#[test]
fn a_studys_trials_record_events_too_and_its_cells_say_what_cpu_time_was_spent_in() {
    let place = Place::new();
    let study = place.study("busy", BUSY);
    place.measure(&["run", &study, "--events=sched,profile"]);
    let run = place.ok(&["list", "--json"]);
    let run: serde_json::Value = serde_json::from_str(&run).unwrap();
    let run = run["runs"][0]["run"].as_str().unwrap().to_owned();
    let full = place.ok(&["show", &run, "--full"]);
    if full.contains("no profile") || place.ok(&["show", &run, "b00.count_100000.a0"]).contains("no profile")
    {
        return testing::skip("this machine samples no call stacks");
    }
    assert!(full.contains("What CPU time was spent in"), "{full}");
    assert!(!full.contains("Load between samples of the governor"), "this machine has no governor: {full}");
    place.ok(&["report", &run, "--out", "page.html"]);
    assert!(fs::read_to_string(place.path("page.html")).unwrap().contains("id=\"spent\""));
    let json: serde_json::Value = serde_json::from_str(&place.ok(&["show", &run, "--json"])).unwrap();
    let cells = json["cells"].as_array().unwrap_or_else(|| panic!("{json:#}"));
    for cell in cells {
        let shares = cell["spent"].as_object().unwrap_or_else(|| panic!("{cell:#}")).values();
        let all: f64 = shares.map(|share| share.as_f64().unwrap()).sum();
        assert!((all - 1.0).abs() < 1e-9, "{cell:#}");
    }
    // The file is kept of each cell's first trial, which shows what its events say.
    let of_run = place.path("notebook/runs").join(&run).join("trials");
    for trial in support::folders(&of_run) {
        let name = trial.file_name().unwrap().to_str().unwrap().to_owned();
        let is_kept = trial.join("events.bin").exists();
        assert_eq!(is_kept, name.starts_with("b00."), "{name}");
        let shown = place.ok(&["show", &run, &name]);
        assert_eq!(shown.contains("events in "), is_kept, "{name}: {shown}");
    }
}

#[test]
fn a_model_has_no_events_to_record_and_says_so() {
    let place = Place::new();
    let study = place.study("small", support::SIMULATED);
    let error = place.fails(2, &["run", &study, "--on", "sim", "--events"]);
    assert!(error.contains("leave `--events` out"), "{error}");
    assert!(!place.path("notebook").exists());
}
