//! Whole trials on this machine: real fio, real loop devices, a real ledger, and everything that can go
//! wrong.
//!
//! What needs root is skipped without it, with a line that says so.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that panics says where, and one that is skipped, why"
)]

mod beside;
mod existing_folder;
mod fixture;
mod read_only;

use domain::bench::{BenchError, SinkError};
use domain::rng::Seed;
use domain::study::{self, Tool};
use domain::time::Nanos;
use domain::trial::{Measurement, Validity};
use fixture::{FILE, Fixture, LOOP, SMALL, Tmpfs, cell, command, failed, is_root};
use machine::{Ledger, LocalMachine};
use runner::testing::ScriptedBench;
use runner::{Devices, Done, Error, Stop, Target};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

#[test]
fn a_fio_trial_on_a_file_is_whole_and_leaves_nothing() {
    let fixture = Fixture::new();
    let options = [("rw", "randread"), ("bs", "4k"), ("runtime", "200ms"), ("time_based", "1")];
    let Done { trial, commands, .. } = fixture.trial(FILE, &cell(Tool::Fio, &options, &[])).unwrap();
    let measurement = trial.measurement.as_ref().unwrap();
    assert!(trial.metric("iops").unwrap() > 0.0);
    assert_eq!(measurement.commands, commands);
    for name in ["caches", "settled", "filesystem", "mount_options", "tool", "cpus_online"] {
        assert!(trial.environment.contains_key(name), "{name}: {:?}", trial.environment);
    }
}

#[test]
fn hdparm_times_a_loop_device_and_leaves_nothing() {
    if !is_root() {
        return;
    }
    if let Err(missing) = runner::tools::detect(&LocalMachine, &Tool::Hdparm) {
        return testing::skip(missing);
    }
    let options = [("T", "1")];
    let Done { trial, .. } = Fixture::new().trial(LOOP, &cell(Tool::Hdparm, &options, &[])).unwrap();
    for metric in ["read_throughput", "cached_read_throughput"] {
        assert!(trial.metric(metric).is_some_and(|value| value > 0.0), "{metric}: {trial:?}");
    }
    assert!(trial.environment["tool"].starts_with("hdparm"), "{:?}", trial.environment);
}

#[test]
fn the_target_is_ours_alone() {
    let fixture = Fixture::new();
    let mut ledger = fixture.ledger();
    let target = fixture.target(&mut ledger, FILE).unwrap().unwrap();
    assert_eq!(fs::metadata(fixture.path("work")).unwrap().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(target.path()).unwrap().mode() & 0o077, 0);
    assert_eq!(fs::metadata(target.path()).unwrap().len(), SMALL.get());
    let again = fixture.target(&mut ledger, FILE).unwrap_err().to_string();
    assert!(again.contains("exists"), "{again}");
    ledger.finish();
    assert!(!target.path().exists());
}

#[test]
fn a_device_that_is_there_is_no_target_of_a_host() {
    let fixture = Fixture::new();
    let device = study::Target::LabDevice("/dev/null".into());
    let error = fixture.target(&mut fixture.ledger(), device).unwrap_err().to_string();
    assert!(error.contains("`/dev/null`") && error.contains("flyball lab run"), "{error}");
}

/// Opens a device as a lab's guest does.
fn as_in_the_guest(fixture: &Fixture, ledger: &mut Ledger<'_>, path: &Path) -> Result<Option<Target>, Error> {
    let kind = study::Target::LabDevice(path.to_str().unwrap().into());
    Target::make(ledger, &fixture.path("work"), &kind, Devices::OfTheGuest, Seed(1), &fixture.interrupt)
}

#[test]
fn a_guest_uses_only_what_is_a_block_device() {
    let fixture = Fixture::new();
    let mut ledger = fixture.ledger();
    let mut error = |path: &Path| as_in_the_guest(&fixture, &mut ledger, path).unwrap_err().to_string();
    let none = error(Path::new("/dev/none"));
    assert!(none.contains("No such file") && none.contains("prepare"), "{none}");
    assert!(error(Path::new("/dev/null")).contains("it is no block device"));
}

#[test]
fn a_guest_uses_a_device_as_it_is_and_notices_another() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    let mut ledger = fixture.ledger();
    let made = fixture.target(&mut ledger, LOOP).unwrap().unwrap();
    let before = fs::read(made.file().unwrap()).unwrap();
    let target = as_in_the_guest(&fixture, &mut ledger, made.path()).unwrap().unwrap();
    assert_eq!((target.path(), target.size(), target.device()), (made.path(), SMALL, made.device()));
    target.verify().unwrap();
    let cell = cell(Tool::Dd, &[("bs", "64k")], &[("read_ahead_kb", "64")]);
    let done = fixture.trial_on(&mut ledger, Some(&target), &cell, None).unwrap();
    assert!(done.trial.measurement.is_some(), "{:?}", done.trial.validity);
    assert_eq!(done.trial.settings[0].setting.object.as_deref(), made.device());
    assert_eq!(done.trial.environment["device"], made.device().unwrap());
    assert!(!done.trial.environment.contains_key("filesystem"), "{:?}", done.trial.environment);
    assert_eq!(fs::read(made.file().unwrap()).unwrap(), before);
    ledger.finish();
    let error = target.verify().unwrap_err().to_string();
    assert!(error.contains("is not the one that was made"), "{error}");
}

#[test]
fn a_setting_of_the_loop_device_holds_for_its_trial_and_no_longer() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    let mut ledger = fixture.ledger();
    let target = fixture.target(&mut ledger, LOOP).unwrap().unwrap();
    let device = target.device().unwrap().to_owned();
    let file = format!("/sys/block/{device}/queue/read_ahead_kb");
    let before = fs::read_to_string(&file).unwrap();
    let cell = cell(command(&format!("echo answer $(cat {file})")), &[], &[("read_ahead_kb", "52")]);
    let done = fixture.trial_on(&mut ledger, Some(&target), &cell, None).unwrap();
    assert_eq!(done.trial.metric("answer"), Some(52.0));
    assert_eq!(done.trial.settings[0].got, "52");
    assert_eq!(done.trial.settings[0].after.as_deref(), Some("52"));
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
    assert!(done.trial.environment["devices"].starts_with(&format!("{device} > ")));
    ledger.finish();
    assert!(!Path::new(&format!("/sys/block/{device}")).exists());
}

#[test]
fn a_setting_that_somebody_else_writes_meanwhile_disturbs_the_trial() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    let mut ledger = fixture.ledger();
    let target = fixture.target(&mut ledger, LOOP).unwrap().unwrap();
    let file = format!("/sys/block/{}/queue/read_ahead_kb", target.device().unwrap());
    let cell = cell(command(&format!("echo 64 > {file}; echo answer 1")), &[], &[("read_ahead_kb", "52")]);
    let done = fixture.trial_on(&mut ledger, Some(&target), &cell, None).unwrap();
    let Validity::Disturbed(told) = &done.trial.validity else { panic!("{:?}", done.trial.validity) };
    assert!(told.iter().any(|d| d.kind == "setting-changed" && d.detail.contains("`64`")), "{told:?}");
    assert_eq!(done.restored.foreign().count(), 1);
    ledger.finish();
}

#[test]
fn settings_are_back_whatever_the_bench_says() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    let mut ledger = fixture.ledger();
    let target = fixture.target(&mut ledger, LOOP).unwrap().unwrap();
    let file = format!("/sys/block/{}/queue/read_ahead_kb", target.device().unwrap());
    let before = fs::read_to_string(&file).unwrap();
    let cell = cell(Tool::Fio, &[], &[("read_ahead_kb", "52")]);
    let empty = Measurement {
        outcome: Default::default(),
        commands: vec![],
        duration: Nanos::from_secs(1),
        roles: BTreeMap::new(),
        threads: vec![],
        disks: vec![],
        recorder: None,
        profile: None,
        windows: None,
        phases: vec![],
        spent: Default::default(),
        calls: None,
        disturbances: vec![],
    };
    let mut bench = ScriptedBench::new([
        Ok(empty),
        Err(BenchError::Failed("it broke".into())),
        Err(BenchError::Unsupported("no such thing".into())),
        Err(BenchError::Interrupted),
        Err(BenchError::Sink(SinkError("full".into()))),
    ]);
    let mut run = || {
        let result = fixture.trial_on(&mut ledger, Some(&target), &cell, Some(&mut bench));
        assert_eq!(fs::read_to_string(&file).unwrap(), before);
        result
    };
    assert!(run().unwrap().trial.measurement.is_some());
    assert_eq!(failed(run()), "it broke");
    assert!(matches!(run(), Err(Stop::Unsupported(text)) if text == "no such thing"));
    assert!(matches!(run(), Err(Stop::Interrupted)));
    assert!(matches!(run(), Err(Stop::Sink(_))));
    assert_eq!(bench.ran.len(), 5);
    ledger.finish();
}

#[test]
fn an_unknown_setting_a_refused_option_and_a_missing_program_skip_the_cell() {
    let fixture = Fixture::new();
    let result = fixture.trial(FILE, &cell(Tool::Dd, &[], &[("read_ahead_kib", "52")]));
    assert!(matches!(&result, Err(Stop::Unsupported(text)) if text.contains("read_ahead_kb")), "{result:?}");
    let result = fixture.trial(FILE, &cell(Tool::Fio, &[("filename", "/dev/sda")], &[]));
    assert!(matches!(&result, Err(Stop::Unsupported(_))), "{result:?}");
    let missing = Tool::Command { argv: vec!["no-such-program".into()], metrics: vec![] };
    let result = fixture.trial(FILE, &cell(missing, &[], &[]));
    assert!(
        matches!(&result, Err(Stop::Unsupported(text)) if text.contains("no such program")),
        "{result:?}"
    );
}

#[test]
fn an_interruption_in_the_middle_ends_the_workload() {
    let fixture = Fixture::new();
    let result = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(900));
            fixture.interrupt.store(true, Ordering::Relaxed);
        });
        fixture.trial(FILE, &cell(command("sleep 1000"), &[], &[]))
    });
    assert!(matches!(result, Err(Stop::Interrupted)), "{result:?}");
}

#[test]
fn a_disk_that_is_too_small_is_told_before_anything_is_written() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    let work = fixture.path("work");
    let _small = Tmpfs::mount(&work, "size=16m,mode=700");
    let mut ledger = fixture.ledger();
    let error = fixture.target(&mut ledger, FILE).unwrap_err().to_string();
    assert!(error.contains("16 MiB are free there") && error.contains("56 MiB are missing"), "{error}");
    assert_eq!(fs::read_dir(&work).unwrap().count(), 0);
    ledger.finish();
}

#[test]
fn a_read_only_work_folder_is_told() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    let work = fixture.path("work");
    let _frozen = Tmpfs::mount(&work, "ro,size=128m,mode=700");
    let mut ledger = fixture.ledger();
    let error = fixture.target(&mut ledger, FILE).unwrap_err().to_string();
    assert!(error.to_lowercase().contains("read-only file"), "{error}");
    ledger.finish();
}

#[test]
fn a_work_folder_that_others_can_write_to_is_refused() {
    let fixture = Fixture::new();
    let work = fixture.path("work");
    fs::create_dir(&work).unwrap();
    fs::set_permissions(&work, fs::Permissions::from_mode(0o777)).unwrap();
    let error = fixture.target(&mut fixture.ledger(), FILE).unwrap_err();
    assert!(matches!(error, Error::Untrusted(_)), "{error}");
}

#[test]
fn a_full_disk_under_the_raw_output_fails_the_trial_with_a_reason() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    let raw = fixture.path("raw");
    let _small = Tmpfs::mount(&raw, "size=16k");
    fs::write(raw.join("filler"), vec![0; 16384]).unwrap();
    let text = failed(fixture.trial(FILE, &cell(Tool::Fio, &[("rw", "read")], &[])));
    assert!(text.starts_with("workload `w`: ") && text.contains("fio"), "{text}");
}

/// Not a test by itself: the process that is killed by the one below.
#[test]
fn a_run_to_be_killed() {
    let Some(folder) = std::env::var_os("FLYBALL_KILLED_RUN").map(PathBuf::from) else { return };
    let fixture = Fixture::within(&folder);
    let mut ledger = Ledger::open(&folder.join("state"), &LocalMachine).unwrap().0;
    let root = is_root();
    let (kind, settings) = if root { (LOOP, &[("read_ahead_kb", "52")][..]) } else { (FILE, &[][..]) };
    let target =
        Target::make(&mut ledger, &folder.join("work"), &kind, Devices::Refused, Seed(1), &fixture.interrupt)
            .unwrap();
    let seconds = std::env::var("FLYBALL_KILLED_SLEEP").unwrap();
    let sleep = Tool::Command { argv: vec!["sleep".into(), seconds], metrics: vec![] };
    let _ = fixture.trial_on(&mut ledger, target.as_ref(), &cell(sleep, &[], settings), None);
}

#[test]
fn a_killed_run_leaves_no_workload_and_the_next_start_cleans_up() {
    let fixture = Fixture::new();
    // By this its workload is found.
    let seconds = (1_000_000 + std::process::id()).to_string();
    let mut worker = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_run_to_be_killed"])
        .env("FLYBALL_KILLED_RUN", fixture.folder.path())
        .env("FLYBALL_KILLED_SLEEP", &seconds)
        .spawn()
        .unwrap();
    let wait_for = |count: usize| {
        (0..1000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            sleeping(&seconds) == count
        })
    };
    assert!(wait_for(1), "the workload never ran");
    worker.kill().unwrap();
    worker.wait().unwrap();
    assert!(wait_for(0), "the workload outlived the run");
    assert!(fixture.path("work/target").exists());
    let (ledger, report) = Ledger::open(&fixture.path("state"), &LocalMachine).unwrap();
    assert!(report.failed().next().is_none(), "{report:?}");
    assert!(!fixture.path("work/target").exists());
    ledger.finish();
}

/// How many processes sleep for this long.
fn sleeping(seconds: &str) -> usize {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|p| fs::read(p.path().join("cmdline")).ok());
    lines.filter(|line| *line == format!("sleep\0{seconds}\0").into_bytes()).count()
}
