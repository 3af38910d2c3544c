//! The program as root in folders that belong to somebody else, and over files that are no files: nothing is
//! written through a link, nothing waits for ever, and two Flyballs never change one machine at once.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support;
use crate::support::{Place, SMALL, is_root, stderr, wait_until};
use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longer than any of these commands takes on the busiest host; what takes longer waits for ever.
const FOR_EVER: Duration = Duration::from_secs(120);

/// A recording of another tool.
const SAR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/tools/sar/12.6-am.txt");

/// A user that is neither root nor anybody here.
const STRANGER: u32 = 4242;

fn needs_root() -> bool {
    if !is_root() {
        testing::skip("needs root, to give folders to somebody else");
    }
    is_root()
}

/// A file of root's alone, in a folder of its own.
fn victim(place: &Place) -> PathBuf {
    let folder = place.path("precious");
    fs::create_dir(&folder).unwrap();
    let path = folder.join("victim");
    fs::write(&path, "precious").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn as_it_was(victim: &Path) {
    assert_eq!(fs::read_to_string(victim).unwrap(), "precious");
}

/// A folder of the stranger's, with a folder `name` of root's in it.
fn strangers(place: &Place, name: &str) -> PathBuf {
    let home = place.path("home");
    fs::create_dir(&home).unwrap();
    fs::create_dir(home.join(name)).unwrap();
    chown(&home, Some(STRANGER), Some(STRANGER)).unwrap();
    fs::set_permissions(place.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    home
}

#[test]
fn root_measures_nowhere_below_a_strangers_folder() {
    if !needs_root() {
        return;
    }
    let place = Place::new();
    let study = place.study("small", SMALL);
    let home = strangers(&place, "book");
    let inside = home.join("book").display().to_string();
    let cases: [(&[&str], &str); 6] = [
        (&["--notebook", &inside, "run", &study], "the work folder"),
        (&["run", &study, "--work", &inside], "the work folder"),
        (&["check", "--dir", &inside], "as root"),
        (&["--notebook", &inside, "record", "--duration", "1s"], "as root"),
        (&["record", "--duration", "1s", "--out", &inside], "as root"),
        (&["--notebook", &inside, "run", &study, "--on", "sim", "--machine", "lab"], "as root"),
    ];
    for (arguments, what) in cases {
        let error = place.fails(1, arguments);
        assert!(error.contains(what) && error.contains("belongs to user 4242"), "{arguments:?}: {error}");
        assert_eq!(fs::read_dir(home.join("book")).unwrap().count(), 0, "{arguments:?} wrote there");
    }
    for (variable, command) in
        [("FLYBALL_STATE", "status"), ("FLYBALL_STATE", "restore"), ("FLYBALL_CACHE", "lab")]
    {
        let arguments: &[&str] = if command == "lab" { &["lab", "images"] } else { &[command] };
        let output = place.flyball(arguments).env(variable, home.join("book")).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{command}: {}", stderr(&output));
        assert!(stderr(&output).contains("belongs to user 4242"), "{command}: {}", stderr(&output));
    }
}

#[test]
fn a_folder_that_is_exchanged_for_a_link_during_a_run_leads_nothing_elsewhere() {
    if !needs_root() {
        return;
    }
    let extent = testing::Extent::of(1_000, 100_000);
    let place = Place::new();
    let study = place.study("small", SMALL);
    let home = strangers(&place, "book");
    // What a run would write to, were it led here.
    let precious = place.path("precious");
    let files = ["target", "work/target", "index.sqlite", "runs/kept", "staging/kept"];
    for file in files {
        fs::create_dir_all(precious.join(file).parent().unwrap()).unwrap();
        fs::write(precious.join(file), "precious").unwrap();
    }
    fs::set_permissions(&precious, fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&precious, home.join("link")).unwrap();
    let before = tree(&precious);
    let inside = home.join("book").display().to_string();
    let commands: [&[&str]; 4] = [
        &["--notebook", &inside, "run", &study],
        &["run", &study, "--work", &inside],
        &["--notebook", &inside, "import", SAR, "--name", "sar"],
        &["record", "--duration", "1s", "--out", &inside],
    ];
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut tries = 0;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let (book, link) = (home.join("book"), home.join("link"));
                renameat_with(CWD, &book, CWD, &link, RenameFlags::EXCHANGE).unwrap();
                count.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_micros(200));
            }
        });
        while count.load(Ordering::Relaxed) < extent.count {
            for arguments in commands {
                let output = place.output(arguments);
                assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", stderr(&output));
                tries += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(tree(&precious), before);
    let is_folder = |path: &PathBuf| fs::symlink_metadata(path).unwrap().is_dir();
    let own = [home.join("book"), home.join("link")].into_iter().find(is_folder).unwrap();
    assert_eq!(fs::read_dir(own).unwrap().count(), 0, "something was written into the stranger's folder");
    testing::promise("swapped-folders", count.into_inner(), format!("under {tries} commands, each refused"));
}

/// Each path below a folder, with its bytes where it is a file.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut all = BTreeMap::new();
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                left.push(path.clone());
            }
            all.insert(path.clone(), fs::read(&path).ok());
        }
    }
    all
}

#[test]
fn root_reads_a_strangers_notebook_and_writes_nothing_into_it() {
    if !needs_root() {
        return;
    }
    let place = Place::new();
    place.measure(&["run", &place.study("small", SMALL)]);
    let victim = victim(&place);
    let home = strangers(&place, "unused");
    let notebook = home.join("notebook");
    fs::rename(place.path("notebook"), &notebook).unwrap();
    // What root would write, sweep or empty leads elsewhere.
    for name in ["index.sqlite", ".index.lock", "staging/.lock"] {
        let _ = fs::remove_file(notebook.join(name));
        symlink(&victim, notebook.join(name)).unwrap();
    }
    let left = notebook.join("staging/trial-1-0.part");
    fs::create_dir(&left).unwrap();
    let notebook = notebook.display().to_string();
    let listed = place.ok(&["--notebook", &notebook, "list"]);
    assert!(listed.contains("small-"), "{listed}");
    place.ok(&["--notebook", &notebook, "show", "small"]);
    as_it_was(&victim);
    assert!(left.exists(), "root has swept a stranger's folder");
}

#[test]
fn a_page_is_never_written_through_a_link() {
    let place = Place::new();
    place.measure(&["run", &place.study("small", SMALL)]);
    let victim = victim(&place);
    for (name, arguments) in [
        ("page.html", &["report", "small", "--out"][..]),
        ("table.csv", &["export", "small", "--format", "csv", "--out"]),
        ("small.xml", &["export", "small", "--format", "junit", "--out"]),
    ] {
        let path = place.path(name);
        symlink(&victim, &path).unwrap();
        place.ok(&[arguments, &[path.to_str().unwrap()]].concat());
        as_it_was(&victim);
        assert!(fs::symlink_metadata(&path).unwrap().is_file(), "{name}");
    }
}

/// Puts something else into the place of a file.
fn put(kind: &str, path: &Path) -> Option<UnixListener> {
    let _ = fs::remove_file(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    match kind {
        "pipe" => mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap(),
        "socket" => return UnixListener::bind(path).ok(),
        "device" => symlink("/dev/zero", path).unwrap(),
        "folder" => fs::create_dir(path).unwrap(),
        other => panic!("{other}"),
    }
    None
}

/// How a command ends; it is killed where it never would.
fn ends(mut command: Command) -> Option<ExitStatus> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + FOR_EVER;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

#[test]
fn a_pipe_a_socket_or_a_device_in_the_place_of_any_file_holds_nothing_up() {
    let place = Place::new();
    let study = place.study("small", SMALL);
    place.measure(&["run", &study]);
    let run = support::folders(&place.path("notebook/runs")).remove(0);
    let trial = support::folders(&run.join("trials")).remove(0);
    let of_the_notebook = [
        place.path("notebook/notebook.json"),
        place.path("notebook/index.sqlite"),
        place.path("notebook/.index.lock"),
        place.path("notebook/staging/.lock"),
        run.join("run.json"),
        run.join("study.toml"),
        run.join("machine.json"),
        run.join("skipped.json"),
        run.join(".lock"),
        trial.join("trial.json"),
        trial.join("trace.parquet"),
    ];
    let of_the_state = ["ledger", "lock", "lasting.json", "claims/a.json", "claims/lock"];
    let of_the_state = of_the_state.map(|name| place.path("state").join(name));
    let machine_lock = place.path("flyball.lock");
    let reading: [&[&str]; 4] =
        [&["list"], &["show", "small"], &["report", "small", "--out", "-"], &["explain", "small"]];
    let changing: [&[&str]; 4] = [&["status"], &["restore"], &["claim"], &["tune", "--undo"]];
    let mut tried = 0;
    let mut attempt = |path: &Path, commands: &[&[&str]]| {
        for kind in ["pipe", "socket", "device", "folder"] {
            let kept = fs::read(path).ok();
            let _listener = put(kind, path);
            for arguments in commands {
                let ended = ends(place.flyball(arguments));
                assert!(
                    ended.is_some(),
                    "{arguments:?} waits for ever with a {kind} as `{}`",
                    path.display()
                );
                tried += 1;
            }
            let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
            kept.into_iter().for_each(|bytes| fs::write(path, bytes).unwrap());
        }
    };
    of_the_notebook.iter().for_each(|path| attempt(path, &reading));
    of_the_state.iter().for_each(|path| attempt(path, &changing));
    attempt(&machine_lock, &[&["restore"], &["tune", "--undo"]]);
    attempt(Path::new(&study), &[&["run", &study], &["run", &study, "--dry-run"]]);
    testing::promise(
        "nothing-hangs",
        tried,
        "commands over pipes, sockets, devices and folders in the place of files",
    );
}

#[test]
fn a_state_folder_full_of_links_empties_nothing() {
    let place = Place::new();
    let victim = victim(&place);
    let study = place.study("small", SMALL);
    fs::create_dir(place.path("state")).unwrap();
    for name in ["lock", "ledger", "ledger.new", "lasting.json"] {
        let link = place.path("state").join(name);
        symlink(&victim, &link).unwrap();
        for arguments in [&["restore"][..], &["status"], &["run", &study]] {
            let _ = place.output(arguments);
            as_it_was(&victim);
        }
        fs::remove_file(&link).unwrap();
    }
    let _ = fs::remove_file(place.path("flyball.lock"));
    symlink(&victim, place.path("flyball.lock")).unwrap();
    let error = place.fails(1, &["run", &study]);
    assert!(error.contains("symbolic link"), "{error}");
    as_it_was(&victim);
}

#[test]
fn a_notebook_whose_folders_are_links_is_not_written_through_them() {
    let place = Place::new();
    let study = place.study("small", SMALL);
    let elsewhere = place.path("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    for name in ["runs", "staging"] {
        place.measure(&["run", &study, "--new"]);
        let folder = place.path("notebook").join(name);
        fs::remove_dir_all(&folder).unwrap();
        symlink(&elsewhere, &folder).unwrap();
        place.fails(1, &["run", &study, "--new"]);
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0, "written through `{name}`");
        fs::remove_file(&folder).unwrap();
    }
}

/// A study whose only trial takes until it is ended.
const LONG: &str = r#"
flyball = 1
name = "long"
question = "Does it end?"

[target]
file = "1MiB"

[workload.wait]
tool = "command"
argv = ["sleep", "600"]

[[workload.wait.metric]]
name = "rate"
pattern = '^rate (?<value>[0-9]+)$'
unit = "count"
better = "higher"

[measure]
metric = "rate"
repeats = [1, 1]
settle = "0s"
"#;

/// Starts a run that lasts, and waits until its workload runs.
fn lasting_run(place: &Place, study: &str) -> std::process::Child {
    let child = place.spawn(&["run", study]);
    wait_until("the target is there", || place.path("notebook/work/target").exists());
    child
}

fn stop(mut child: std::process::Child, signal: Signal) -> (ExitStatus, String) {
    kill_process(Pid::from_child(&child), signal).unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (child.wait().unwrap(), said)
}

#[test]
fn two_flyballs_with_different_states_refuse_each_other_and_the_second_leaves_nothing_running() {
    let place = Place::new();
    let study = place.study("long", LONG);
    let mut first = lasting_run(&place, &study);
    for (arguments, state) in
        [(&["run", &study][..], "other"), (&["restore"], "state"), (&["tune", "--undo"], "state")]
    {
        let mut second = place.flyball(arguments);
        second.env("FLYBALL_STATE", place.path(state)).env("FLYBALL_NOTEBOOK", place.path("second"));
        // Its streams end with it: nothing that it started holds them open.
        let output = second.output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(&format!("process {}", first.id())), "{}", stderr(&output));
        assert!(first.try_wait().unwrap().is_none(), "the first ended before the second's streams did");
    }
    let (status, said) = stop(first, Signal::TERM);
    assert_eq!(status.code(), Some(130), "{said}");
}

#[test]
fn every_signal_that_asks_for_an_end_leaves_everything_as_it_was() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let place = Place::new();
        let child = lasting_run(&place, &place.study("long", LONG));
        let (status, said) = stop(child, signal);
        assert_eq!(status.code(), Some(130), "{signal:?}: {said}");
        assert_eq!(place.left_over(), Vec::<PathBuf>::new(), "{signal:?}");
    }
}

#[test]
fn a_notebook_that_is_moved_away_in_mid_run_takes_no_target_with_it() {
    let place = Place::new();
    let child = lasting_run(&place, &place.study("long", LONG));
    let moved = place.path("moved");
    fs::rename(place.path("notebook"), &moved).unwrap();
    let (_, said) = stop(child, Signal::TERM);
    assert!(!moved.join("work/target").exists(), "the target is left: {said}");
}
