//! The processes that read files of others: what they may do, and what becomes of an import when they die.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support;
use crate::support::{Place, is_root, wait_until};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

const SAR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/tools/sar/12.6-am.txt");

/// An import that waits for the rest of a pipe.
struct Waiting {
    import: Child,
    pipe: File,
    reader: u32,
}

impl Waiting {
    fn begin(place: &Place, arguments: &[&str]) -> Self {
        let path = place.path("pipe");
        mknodat(CWD, &path, FileType::Fifo, 0o600.into(), 0).unwrap();
        let import = place.spawn(&[&["import"], arguments, &[path.to_str().unwrap()]].concat());
        let mut pipe = File::options().write(true).open(&path).unwrap();
        pipe.write_all(b"Linux 6.1 (h)").unwrap();
        let mut reader = None;
        wait_until("its reader stands behind its walls", || {
            reader = support::child_of(import.id(), "read-foreign");
            reader.is_some_and(|reader| {
                status(reader, "NoNewPrivs") == "1" && status(reader, "State").starts_with('S')
            })
        });
        Self { import, pipe, reader: reader.unwrap() }
    }

    fn ends(mut self) -> (i32, String) {
        self.pipe.write_all(&fs::read(SAR).unwrap()[13..]).unwrap();
        drop(self.pipe);
        let output = self.import.wait_with_output().unwrap();
        (output.status.code().unwrap(), support::stderr(&output))
    }
}

/// A line of `/proc/PID/status` (proc_pid_status(5)); empty for the dead.
fn status(pid: u32, name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

#[test]
fn who_reads_a_file_is_nobody_and_has_nothing_but_the_file() {
    let place = Place::new();
    let waiting = Waiting::begin(&place, &["--dry-run"]);
    let of_reader = |name: &str| status(waiting.reader, name);
    if is_root() {
        assert_eq!(of_reader("Uid").split_whitespace().collect::<Vec<_>>(), ["65534"; 4]);
        assert_eq!(of_reader("Gid").split_whitespace().collect::<Vec<_>>(), ["65534"; 4]);
        assert_eq!(of_reader("Groups"), "");
    } else {
        eprintln!("skipped: giving up root needs root");
    }
    for sets in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
        assert_eq!(of_reader(sets), "0000000000000000", "{sets}");
    }
    if Path::new("/proc/sys/kernel/seccomp").exists() {
        assert_eq!(of_reader("Seccomp"), "2");
    } else {
        eprintln!("skipped: this kernel has no filters of system calls");
    }
    if is_root() {
        // The socket, the pipe, and where its complaints go.
        assert_eq!(fs::read_dir(format!("/proc/{}/fd", waiting.reader)).unwrap().count(), 3);
        assert_eq!(fs::read(format!("/proc/{}/environ", waiting.reader)).unwrap_or_default(), b"");
    }
    let reader = waiting.reader;
    assert_eq!(waiting.ends().0, 0);
    assert_eq!(status(reader, "State"), "", "it outlives its import");
}

#[test]
fn a_reader_that_dies_is_an_error_that_says_why_and_nothing_is_stored() {
    for (signal, wanted) in [
        (Signal::SYS, "made a system call that reading a file does not need"),
        (Signal::XCPU, "more than an hour of CPU time"),
        (Signal::ABORT, "more than the 2 GiB of memory"),
        (Signal::KILL, "ended before it had answered (signal: 9 (SIGKILL))"),
    ] {
        let place = Place::new();
        let waiting = Waiting::begin(&place, &["--as", "text"]);
        kill_process(Pid::from_raw(waiting.reader.cast_signed()).unwrap(), signal).unwrap();
        wait_until("it is dead", || {
            matches!(status(waiting.reader, "State").chars().next(), None | Some('Z'))
        });
        let (code, told) = waiting.ends();
        assert_eq!(code, 1, "{told}");
        assert!(told.contains("cannot import") && told.contains(wanted), "{told}");
        assert!(!place.path("notebook").exists(), "a notebook was made for nothing");
    }
}

#[test]
fn an_import_that_is_killed_takes_its_reader_along_and_leaves_no_copy() {
    let place = Place::new();
    let mut waiting = Waiting::begin(&place, &[]);
    let of_it = format!("flyball-import-{}-", waiting.import.id());
    waiting.import.kill().unwrap();
    waiting.import.wait().unwrap();
    wait_until("its reader is dead", || {
        matches!(status(waiting.reader, "State").chars().next(), None | Some('Z'))
    });
    let mut left = fs::read_dir(std::env::temp_dir()).unwrap().map(|entry| entry.unwrap().file_name());
    let copy = left.find(|name| name.to_str().is_some_and(|name| name.starts_with(&of_it)));
    assert_eq!(copy, None);
}

#[test]
fn who_makes_a_page_of_a_notebook_has_the_notebook_and_the_page() {
    let place = Place::new();
    place.ok(&["import", "--name", "sar", SAR]);
    let page = place.path("page");
    mknodat(CWD, &page, FileType::Fifo, 0o600.into(), 0).unwrap();
    // It is written until the pipe is full, and then waits for somebody who reads it.
    let pipe = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let mut pipe = fs::File::from(rustix::fs::open(&page, pipe, Mode::empty()).unwrap());
    rustix::pipe::fcntl_setpipe_size(&pipe, 4096).unwrap();
    let mut report = place.spawn(&["report", "sar", "--out", page.to_str().unwrap()]);
    let of_report = |name: &str| status(report.id(), name);
    wait_until("it stands behind its walls", || of_report("NoNewPrivs") == "1");
    wait_until("it writes", || rustix::io::ioctl_fionread(&pipe).unwrap() > 0);
    let capabilities = u64::from_str_radix(&of_report("CapPrm"), 16).unwrap();
    const OF_FILES: u64 = 0b110;
    assert_eq!(capabilities & !OF_FILES, 0, "{capabilities:x}");
    if Path::new("/proc/sys/kernel/seccomp").exists() {
        assert_eq!(of_report("Seccomp"), "2");
    } else {
        eprintln!("skipped: this kernel has no filters of system calls");
    }
    rustix::fs::fcntl_setfl(&pipe, OFlags::empty()).unwrap();
    let mut text = String::new();
    pipe.read_to_string(&mut text).unwrap();
    assert!(text.contains("</html>"));
    assert!(report.wait().unwrap().success());
    // A page that lies elsewhere, and one that is a link into another folder.
    let elsewhere = tempfile::tempdir().unwrap();
    let there = elsewhere.path().join("there.html");
    for _ in ["made", "written again"] {
        place.ok(&["report", "sar", "--out", there.to_str().unwrap()]);
    }
    std::os::unix::fs::symlink(&there, place.path("link.html")).unwrap();
    place.ok(&["report", "sar", "--out", "link.html"]);
    place.ok(&["report", "sar"]);
}

#[test]
fn a_file_of_a_terabyte_of_nothing_is_refused_at_once() {
    let place = Place::new();
    let path = place.path("sparse.json");
    fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
    for arguments in [&["import", "--dry-run"][..], &["import"], &["import", "--as", "fio-json"]] {
        let error = place.fails(1, &[arguments, &[path.to_str().unwrap()]].concat());
        assert!(error.contains("more than 64 GiB"), "{error}");
    }
}

/// A program that does something else first, found before the real one.
fn impostor(place: &Place, name: &str, script: &str) -> String {
    let folder = place.path("bin");
    fs::create_dir_all(&folder).unwrap();
    // Somebody who is nobody has to come to it.
    for path in [place.folder.path(), &folder] {
        fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    }
    let program = folder.join(name);
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    format!("{}:{}", folder.display(), std::env::var("PATH").unwrap())
}

fn packed(place: &Place) -> Option<PathBuf> {
    let path = place.path("sar.xz");
    let packed = Command::new("xz").arg("-c").stdin(File::open(SAR).unwrap()).output();
    let Ok(packed) = packed else {
        eprintln!("skipped: xz is not installed");
        return None;
    };
    fs::write(&path, packed.stdout).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    Some(path)
}

#[test]
fn a_program_that_unpacks_reaches_nothing_either() {
    let place = Place::new();
    let Some(file) = packed(&place) else { return };
    let trace = place.path("trace");
    let script = format!(
        "echo x > {trace}\nread line < /etc/passwd && echo leaked >&2 && exit 7\n(echo another) >&2\nexec /usr/bin/xz \"$@\"",
        trace = trace.display()
    );
    let path = impostor(&place, "xz", &script.replace("(echo another) >&2\n", ""));
    let import = |path: &str| {
        let mut command = place.flyball(&["import", "--dry-run", file.to_str().unwrap()]);
        command.env("PATH", path).output().unwrap()
    };
    let output = import(&path);
    assert!(output.status.success(), "{}", support::stderr(&output));
    assert!(!trace.exists());
    // It may not start another process.
    let output = import(&impostor(&place, "xz", &script));
    assert!(support::stderr(&output).contains("`xz` could not read it"), "{}", support::stderr(&output));
}

#[test]
fn a_program_that_fails_after_all_that_it_printed_is_an_error() {
    let place = Place::new();
    let Some(file) = packed(&place) else { return };
    let path = impostor(&place, "xz", "/usr/bin/xz \"$@\"\n");
    // A shell that would have to start xz as another process: it fails, and says so.
    let fails = |path: &str| {
        let mut command = place.flyball(&["import", file.to_str().unwrap()]);
        let output = command.env("PATH", path).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        support::stderr(&output)
    };
    assert!(fails(&path).contains("`xz` could not read it"));
    let sar = fs::read_to_string(SAR).unwrap().replace('\'', "");
    let path = impostor(&place, "xz", &format!("echo '{sar}'\necho it was cut short >&2\nexit 3"));
    let told = fails(&path);
    assert!(told.contains("`xz` could not read it (exit status: 3): it was cut short"), "{told}");
    assert!(!place.path("notebook").exists());
}
