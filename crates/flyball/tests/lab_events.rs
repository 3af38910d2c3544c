//! Events in a study's trials in the lab: what ondemand saw in its windows is kept with each trial and shown,
//! and it is what the plugin's record of the virtual CPU allows.
//!
//! Where QEMU, a kernel or the plugin is missing, or the host stayed too busy to pace in time, a line
//! `skipped:` says so.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use crate::support;
use crate::support::Place;
use crate::support::lab::{TOO_BUSY, kernels, lateness, missing, pacing, without_plugin};
use domain::lab::Pacing;
use domain::trial::Validity;
use domain::units::Hertz;
use domain::windows::Windows;
use notebook::Notebook;

/// By how much of its time a virtual CPU may be late here.
const MOST_LATE: f64 = 0.1;

/// The published case, short: small reads of an encrypted device that answers after 10 ms.
const STUDY: &str = r#"
flyball = 1
name = "seen"
question = "What does the governor see of small encrypted reads?"
[stack.disk]
kind = "devices"
null_blk = "64MiB"
attributes = "irqmode=2 completion_nsec=10000000"
[stack.vault]
kind = "crypt"
on = "disk"
type = "plain"
cipher = "aes-cbc-essiv:sha256"
key_size = 256
[lab]
vcpus = 1
pstates = "laptop-5"
[workload.small]
tool = "fio"
options = { rw = "read", bs = "4k", ioengine = "psync", direct = true, number_ios = 200 }
[factor.governor]
[[factor.governor.level]]
name = "ondemand"
settings = { governor = "ondemand", "ondemand.sampling_rate" = 100000, "ondemand.up_threshold" = 95 }
[[factor.governor.level]]
name = "performance"
settings = { governor = "performance" }
[measure]
metric = "throughput"
repeats = 2
retries = 2
settle = "1s"
interval = "1s"
events = "power,sched,work"
timeout = "120s"
"#;

#[test]
fn what_the_governor_saw_is_kept_with_each_trial_and_shown_against_its_threshold() {
    if !testing::is_measured_in_turn(8) {
        return;
    }
    let place = Place::new();
    if let Some(reason) = without_plugin() {
        return testing::skip(reason);
    }
    let kernel = kernels()[0];
    if let Some(reason) = missing(&place, kernel) {
        return testing::skip(reason);
    }
    let file = place.study("seen", STUDY);
    let output = place.output(&["lab", "run", "--seed", "1", "--kernel", kernel, &file]);
    let said = support::stderr(&output);
    if TOO_BUSY.iter().any(|reason| said.contains(reason)) {
        return testing::skip(said.trim());
    }
    assert!(matches!(output.status.code(), Some(0 | 3)), "{:?}: {said}", output.status);
    let notebook = Notebook::open(&place.path("notebook")).unwrap();
    let run = notebook.runs().unwrap().0.first().unwrap().run.id.clone();
    let (trials, _) = notebook.trials(&run).unwrap();
    for trial in &trials {
        assert!(!matches!(trial.validity, Validity::Failed(_)), "{}: {:?}", trial.key, trial.validity);
        let kept = notebook.events_file(&run, &trial.key).unwrap().is_some();
        assert_eq!(kept, trial.key.block == 0, "the events of {}", trial.key);
        let windows = &trial.measurement.as_ref().unwrap().windows;
        let is_ondemand = trial.levels["governor"] == "ondemand";
        assert_eq!(windows.is_some(), is_ondemand, "{}: {windows:?}", trial.key);
    }
    let of_ondemand = trials.iter().filter(|trial| trial.levels["governor"] == "ondemand");
    let best = of_ondemand.min_by(|a, b| lateness(a).total_cmp(&lateness(b))).unwrap();
    if lateness(best) > MOST_LATE {
        return testing::skip(format!("the host was too busy: {:.1}% late at best", 100.0 * lateness(best)));
    }
    let measured = best.measurement.as_ref().unwrap();
    let all = measured.windows.as_ref().unwrap();
    assert_eq!((all.threshold, all.cpus.len()), (Some(95.0), 1));
    judge(&all.cpus[&0], pacing(best), measured.duration.secs());

    let shown = place.ok(&["show", &run.0, "--full"]);
    assert!(shown.contains("Load between samples of the governor"), "{shown}");
    let shown = place.ok(&["show", &run.0, &best.key.folder()]);
    assert!(shown.contains("where the governor goes up"), "{shown}");
    let page = place.path("seen.html");
    place.ok(&["report", &run.0, "--out", page.to_str().unwrap()]);
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("id=\"windows\"") && page.contains("goes up above 95%"));
    let first = trials.iter().find(|trial| trial.key.block == 0 && trial.levels["governor"] == "ondemand");
    let timeline = place.path("timeline.html");
    let first = first.unwrap().key.folder();
    let out = timeline.to_str().unwrap();
    place.ok(&["export", &run.0, "--trace", &first, "--format", "timeline", "--out", out]);
}

/// The windows fill the trial, are of the length that was asked for, are seldom above the threshold, and
/// were at frequencies that the plugin recorded; the CPU was as busy as it says.
fn judge(windows: &Windows, pacing: &Pacing, secs: f64) {
    let length = windows.mean_length().unwrap().secs();
    let above = windows.above(95.0) as f64 / windows.all() as f64;
    println!(
        "{} windows of {:.0} ms in {secs:.1} s, busy for {:.0}%; {:.0}% above the threshold",
        windows.all(),
        length * 1e3,
        windows.load().unwrap() * 100.0,
        above * 100.0
    );
    assert!((0.09..0.15).contains(&length), "windows of {length} s");
    assert!(windows.time.secs() > 0.6 * secs, "windows of {} s in {secs} s", windows.time.secs());
    // Those in which fio starts: it keeps the CPU busy for two seconds.
    assert!(above < 0.4, "{above} of the windows were above the threshold");
    let known: Vec<Hertz> = pacing.states().iter().map(|state| state.frequency).collect();
    for khz in windows.frequencies().into_iter().flatten() {
        let at = Hertz::from_khz(u64::from(khz));
        assert!(known.contains(&at), "{at} is none of {known:?}");
    }
    let states = pacing.states();
    let busy: f64 = states.iter().map(|state| state.busy.secs()).sum();
    let share = busy / states.iter().map(|state| state.time.secs()).sum::<f64>();
    let load = windows.load().unwrap();
    assert!((share - load).abs() < 0.15, "busy for {load} by events, {share} by the plugin");
}
