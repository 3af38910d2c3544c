//! What goes wrong around a lab machine: a clear message, finished trials kept, and no process, socket or
//! file left.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support;
use crate::support::{Place, lab, stderr, wait_until};
use domain::rng::Seed;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

const KERNEL: &str = lab::KERNELS[0];

/// A seed with which the cell that does something to its guest is not the first.
const SEED: &str = "3";

/// A place for lab machines; `None`, told, where there can be none.
fn place() -> Option<Place> {
    let place = Place::new();
    match lab::missing(&place, KERNEL) {
        None => Some(place),
        Some(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

/// The same for a test that boots machines, in its turn: a run has one of three parts.
fn place_in_turn(part: u64) -> Option<Place> {
    testing::is_in_turn(part, 3).then(place).flatten()
}

/// `flyball lab exec` of one shell line.
fn exec(script: &str) -> Vec<&str> {
    vec!["lab", "exec", "--kernel", KERNEL, "--", "bash", "-c", script]
}

/// The folder of kernels and images that all tests share.
fn cache() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("FLYBALL_CACHE").unwrap_or_else(|| {
        let xdg = set("XDG_CACHE_HOME").filter(|p| p.is_absolute());
        xdg.unwrap_or_else(|| set("HOME").unwrap().join(".cache")).join("flyball")
    })
}

/// What machines and builds may have left in a cache: folders aside, and sockets.
fn left_in(cache: &Path) -> Vec<PathBuf> {
    let below = |name: &str| std::fs::read_dir(cache.join(name)).into_iter().flatten().flatten();
    let all = ["kernels", "images", "sockets"].into_iter().flat_map(below).map(|entry| entry.path());
    all.filter(|path| path.components().any(|part| part.as_os_str().to_string_lossy().starts_with(".aside")))
        .collect()
}

/// A study of three cells, of which one does something to its guest.
fn study(script: &str) -> String {
    format!(
        "flyball = 1\nname = \"fault\"\nquestion = \"Q?\"\n[workload.do]\ntool = \"command\"\n\
         argv = [\"bash\", \"-c\", \"case {{x}} in bad) {script};; esac\"]\n[factor.x]\n\
         levels = [\"good\", \"fine\", \"bad\"]\n[measure]\nmetric = \"elapsed\"\nrepeats = 2\nsettle = \"1s\"\n\
         timeout = \"15s\"\nretries = 0\n"
    )
}

#[test]
fn a_qemu_that_is_missing_too_old_or_none_is_told() {
    let Some(place) = place() else { return };
    let old = place.path("old-qemu");
    std::fs::write(&old, "#!/bin/sh\necho 'QEMU emulator version 7.2.22 (Debian)'\n").unwrap();
    std::fs::set_permissions(&old, std::fs::Permissions::from_mode(0o755)).unwrap();
    for (qemu, why) in [
        ("/nowhere", "`/nowhere` is not there; install Debian's package `qemu-system-x86`"),
        (old.to_str().unwrap(), "is version 7.2.22, and at least 9.1 is needed"),
        ("/bin/true", "`/bin/true` tells none, but says: `true (GNU coreutils)"),
    ] {
        let output = place.flyball(&exec("true")).env("FLYBALL_QEMU", qemu).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
}

#[test]
fn a_machine_that_qemus_own_assertion_ends_is_started_again() {
    let Some(place) = place_in_turn(0) else { return };
    // The first start of a machine says what QEMU says, and ends as it does.
    let qemu = place.path("qemu");
    let (real, once) = ("/usr/bin/qemu-system-x86_64", place.path("once"));
    let text = format!(
        "#!/bin/sh\ncase \"$*\" in *-kernel*) ;; *) exec {real} \"$@\" ;; esac\n\
        if mkdir {} 2> /dev/null; then\n\
            echo 'physmem.c:2678: iotlb_to_section: Assertion failed.' >&2; kill -ABRT $$\nfi\n\
        exec {real} \"$@\"\n",
        once.display()
    );
    std::fs::write(&qemu, text).unwrap();
    std::fs::set_permissions(&qemu, std::fs::Permissions::from_mode(0o755)).unwrap();
    let output = place.flyball(&exec("echo alive")).env("FLYBALL_QEMU", &qemu).output().unwrap();
    let told = stderr(&output);
    assert!(output.status.success() && told.contains("starting it again"), "{told}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("alive"));
}

#[test]
fn what_no_machine_can_be_made_of_is_told() {
    let Some(place) = place() else { return };
    std::fs::write(place.path("text"), "no kernel").unwrap();
    for (code, options, why) in [
        (1, &["--kernel", "./text"][..], "it is no bzImage: the signature `HdrS` is missing"),
        (1, &["--kernel", "./nothing"], "there is no such file"),
        (1, &["--kernel", "2.4"], "no apt source of this machine offers it; `flyball lab kernels` lists"),
        (2, &["--pstates", "laptop-6"], "`laptop-5`, `pentium-4-clockmod`"),
        (
            2,
            &["--disk", "plian-7200"],
            "shipped are maxtor-5400-120gb, maxtor-5400-120gb-2002, nvme, plain-7200",
        ),
        (2, &["--disk", "plain-7200:5GX"], "cannot read the size `5GX` of `plain-7200:5GX`; write 1GiB"),
        (2, &["--disk", ":"], "cannot read the size `` of `:`"),
        (1, &["--disk", "plain-7200:0"], "0 B is not at least 1 MiB"),
        (1, &["--disk", "plain-7200:100TiB"], "is more than the model's"),
        (2, &["--memory", "0"], "a guest has from 128 MiB to 64 GiB"),
        (2, &["--memory", "127MiB"], "a guest has from 128 MiB to 64 GiB"),
        (2, &["--memory", "much"], "write a size with its unit"),
        (2, &["--vcpus", "0"], "is not in 1..=64"),
        (2, &["--vcpus", "1000000000000"], "is not in 1..=64"),
        (2, &["--study", "nothing.toml"], "nothing.toml"),
    ] {
        let arguments = [&["lab", "exec"], options, &["--", "true"]].concat();
        let error = place.fails(code, &arguments);
        assert!(error.contains(why), "{options:?}: {error}");
    }
}

#[test]
fn a_study_that_names_what_is_not_there_is_told_before_anything_is_made() {
    let Some(place) = place() else { return };
    for (lab, why) in [
        ("pstates = \"laptop-6\"", "`laptop-6`"),
        ("[[lab.disk]]\nname = \"a\"\nmodel = \"plian-7200\"", "plain-7200"),
        ("[[lab.disk]]\nname = \"a\"\nmodel = \"plain-7200\"\nsize = \"0\"", "size"),
        ("memory = \"1MiB\"", "memory"),
        ("vcpus = 1000", "vcpus"),
    ] {
        let text = format!("{}[lab]\n{lab}\n", study("true"));
        let error = place.fails(2, &["lab", "run", &place.study("fault", &text), "--kernel", KERNEL]);
        assert!(error.contains(why), "{lab}: {error}");
        assert!(place.trials().is_empty());
    }
}

#[test]
fn a_preparation_that_fails_is_quoted() {
    let Some(place) = place_in_turn(1) else { return };
    for (lab, why) in [
        (
            "prepare = [\"true\", \"echo some words; ls /nothing\"]",
            &["`echo some words; ls /nothing` ended with exit status: 1", "some words", "/nothing: No such"]
                [..],
        ),
        ("modules = [\"floppy_of_mine\"]", &["cannot load the module `floppy_of_mine`", "not found"]),
    ] {
        let text = format!("{}[lab]\n{lab}\n", study("true"));
        let error = place.fails(1, &["lab", "run", &place.study("fault", &text), "--kernel", KERNEL]);
        assert!(why.iter().all(|why| error.contains(why)), "{lab}: {error}");
        assert!(place.trials().is_empty());
    }
}

#[test]
fn a_setting_that_a_paced_machine_does_not_take_is_told_and_the_run_goes_on() {
    if let Some(why) = lab::without_plugin() {
        return testing::skip(why);
    }
    let Some(place) = place_in_turn(0) else { return };
    // Between two states of the table, of which the driver takes the lower.
    let table = lab::slow_pstates(&place);
    let text = format!("{}[settings]\nmax_freq = \"1500MHz\"\n[lab]\npstates = {table:?}\n", study("true"));
    let study = place.study("fault", &text);
    let output = place.output(&["lab", "run", &study, "--kernel", KERNEL, "--seed", SEED]);
    let error = stderr(&output);
    let told = "`max_freq@policy0` did not take `1500000`";
    assert_eq!(error.matches(told).count(), 6, "{error}");
    assert!(!error.contains("no paced span"), "{error}");
    assert_eq!(place.trials().len(), 6);
}

#[test]
fn the_smallest_memory_and_many_cpus_boot() {
    let Some(place) = place_in_turn(2) else { return };
    let out =
        place.ok(&["lab", "exec", "--kernel", KERNEL, "--memory", "128MiB", "--vcpus", "8", "--", "nproc"]);
    assert_eq!(out.trim(), "8");
}

#[test]
fn a_guest_that_ends_under_a_command_is_told_with_the_end_of_its_log() {
    let Some(place) = place_in_turn(0) else { return };
    for (script, why) in [
        (
            "echo c > /proc/sysrq-trigger",
            &["the guest's kernel panicked while it ran the command", "sysrq triggered crash"][..],
        ),
        ("kill -9 $PPID; sleep 9", &["powered off while it ran the command", "ended by signal 9"]),
        ("kill -STOP $PPID", &["the guest said nothing for 60 s while it ran the command"]),
    ] {
        let error = place.fails(1, &exec(script));
        assert!(why.iter().all(|why| error.contains(why)), "{script}: {error}");
        assert!(left_in(&cache()).is_empty());
    }
}

#[test]
fn a_guest_that_panics_under_a_trial_leaves_the_trials_before_and_the_run_goes_on() {
    let Some(place) = place_in_turn(1) else { return };
    let file = place.study("fault", &study("echo c > /proc/sysrq-trigger"));
    let run = ["lab", "run", &file, "--kernel", KERNEL, "--seed", SEED];
    let error = place.fails(1, &run);
    assert!(error.contains("the guest's kernel panicked while it measured"), "{error}");
    assert!(error.contains("its last lines were") && error.contains("sysrq triggered crash"), "{error}");
    assert!(error.contains("what was measured is kept"), "{error}");
    let kept = place.trials();
    assert!(!kept.is_empty());
    assert_eq!(place.left_over(), [""; 0].map(PathBuf::from));
    let error = place.fails(1, &run);
    assert!(error.contains(&format!("{} trials are there already", kept.len())), "{error}");
    assert_eq!(place.trials(), kept, "the cell that ends its guest is the next one again");
    assert!(left_in(&cache()).is_empty());
}

#[test]
fn a_guest_that_hangs_under_a_trial_is_given_up_and_the_trials_before_are_kept() {
    let Some(place) = place_in_turn(2) else { return };
    // The agent stands still; so nobody ends the workload that is over its time.
    let file = place.study("fault", &study("kill -STOP $(pidof flyball)"));
    let error = place.fails(1, &["lab", "run", &file, "--kernel", KERNEL, "--seed", SEED]);
    assert!(error.contains("the guest said nothing for 76 s while it measured"), "{error}");
    assert!(error.contains("what was measured is kept"), "{error}");
    assert!(!place.trials().is_empty());
    assert_eq!(place.left_over(), [""; 0].map(PathBuf::from));
    assert!(left_in(&cache()).is_empty());
}

#[test]
fn a_cache_without_space_is_told_and_nothing_is_left_in_it() {
    if !support::is_root() {
        eprintln!("skipped: needs root, to mount a small filesystem");
        return;
    }
    let Some(place) = place() else { return };
    let small = place.path("cache");
    std::fs::create_dir(&small).unwrap();
    let mount =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=20m,mode=0755", "tmpfs"]).arg(&small).status();
    assert!(mount.unwrap().success());
    symlink(cache().join("kernels"), small.join("kernels")).unwrap();
    let output = place.flyball(&exec("true")).env("FLYBALL_CACHE", &small).output();
    let left = left_in(&small);
    assert!(Command::new("umount").arg(&small).status().unwrap().success());
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("No space left on device"), "{}", stderr(&output));
    assert!(left.is_empty(), "{left:?}");
}

/// Starts `lab exec` of something that takes long, with a disk, and waits for its machine.
fn long(place: &Place) -> (std::process::Child, u32) {
    let arguments = [
        "lab",
        "exec",
        "--kernel",
        KERNEL,
        "--disk",
        "plain-7200:64MiB",
        "--",
        "sh",
        "-c",
        "echo up; sleep 600",
    ];
    let mut child = place.spawn(&arguments);
    // What it prints first shows that the guest works.
    let mut first = [0; 3];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    assert_eq!(&first, b"up\n");
    let machines = lab::machines_of(child.id());
    assert_eq!(machines.len(), 1);
    (child, machines[0])
}

fn kill(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), signal).unwrap();
}

fn is_gone(pid: u32) -> bool {
    // A zombie whose parent is slow to look is gone as well.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with('Z'))
}

#[test]
fn a_killed_flyball_takes_its_machine_with_it() {
    let Some(place) = place_in_turn(0) else { return };
    let extent = testing::Extent::of(1, 20);
    let mut delays = Seed(extent.seed).stream("delays");
    for _ in 0..extent.count {
        let (mut child, machine) = long(&place);
        std::thread::sleep(Duration::from_millis(delays.below(300) as u64));
        child.kill().unwrap();
        child.wait().unwrap();
        wait_until("QEMU is gone", || is_gone(machine));
        assert!(left_in(&cache()).is_empty());
        assert_eq!(std::fs::read_dir(place.folder.path()).unwrap().count(), 0);
    }
    testing::promise("lab-ends", extent.count, "its QEMU was gone each time, and no file was left");
}

#[test]
fn a_killed_qemu_is_told() {
    let Some(place) = place_in_turn(1) else { return };
    let (child, machine) = long(&place);
    kill(machine, Signal::KILL);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output);
    assert!(error.contains("QEMU ended with signal: 9 (SIGKILL) while it ran the command"), "{error}");
    assert!(left_in(&cache()).is_empty());
}

#[test]
fn ctrl_c_ends_a_command_and_a_run_whose_trials_are_kept() {
    let Some(place) = place_in_turn(2) else { return };
    let (child, machine) = long(&place);
    kill(child.id(), Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(is_gone(machine));
    let text = study("true").replace("repeats = 2", "repeats = 60");
    let file = place.study("fault", &text);
    let child = place.spawn(&["lab", "run", &file, "--kernel", KERNEL]);
    wait_until("a trial is there", || !place.trials().is_empty());
    let machines = lab::machines_of(child.id());
    kill(child.id(), Signal::INT);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(!machines.is_empty() && machines.into_iter().all(is_gone));
    assert!(!place.trials().is_empty());
    assert_eq!(place.left_over(), [""; 0].map(PathBuf::from));
    assert!(left_in(&cache()).is_empty());
}

#[test]
fn an_ordinary_user_has_lab_machines_too() {
    if !support::is_root() {
        // Then every other test here is that user's.
        return;
    }
    let Some(place) = place() else { return };
    let folder = place.folder.path();
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
    let own = folder.join("cache");
    std::fs::create_dir(&own).unwrap();
    let copied = Command::new("cp").arg("-a").arg(cache().join("kernels")).arg(&own).status().unwrap();
    assert!(copied.success());
    let program = folder.join("flyball");
    std::fs::copy(env!("CARGO_BIN_EXE_flyball"), &program).unwrap();
    let chown = Command::new("chown").args(["-R", "65534:65534"]).arg(&own).status().unwrap();
    assert!(chown.success());
    let run = |arguments: &[&str]| -> Output {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program).args(arguments);
        command.current_dir(folder).env("HOME", folder).env("FLYBALL_CACHE", &own);
        command.env("FLYBALL_NOTEBOOK", folder.join("notebook")).output().unwrap()
    };
    let output = run(&["lab", "exec", "--kernel", KERNEL, "--disk", "plain-7200:64MiB", "--", "id", "-u"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "0\n", "in the guest everybody is root");
    let output = run(&["lab", "run", &place.study("fault", &study("true")), "--kernel", KERNEL]);
    assert!([Some(0), Some(3)].contains(&output.status.code()), "{}", stderr(&output));
    assert_eq!(place.trials().len(), 6);
    assert!(left_in(&own).is_empty());
}
