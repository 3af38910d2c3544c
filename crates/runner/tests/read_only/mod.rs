//! Targets that are there already and are only read: what is on them stays as it is, whoever asks for what.

use crate::fixture::{Fixture, cell, command, failed, is_root};
use domain::Nanos;
use domain::study::{self, Tool};
use domain::trial::{Trial, Validity};
use machine::LocalMachine;
use runner::child::{self, Ended, How, Task};
use runner::{Done, Error, Readable, Stop, Target};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::{Resource, getrlimit};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

const MIB: usize = 1 << 20;

/// A file of 8 MiB that is somebody's.
fn somebodys_file(fixture: &Fixture, name: &str) -> PathBuf {
    let path = fixture.path(name);
    let bytes: Vec<u8> = (0..8 * MIB).map(|at| (at % 251) as u8).collect();
    fs::write(&path, bytes).unwrap();
    path
}

fn only_read(path: &Path) -> study::Target {
    study::Target::ReadOnly(path.to_str().unwrap().to_owned())
}

fn ran(path: &str, arguments: &[&str]) -> String {
    let output = Command::new(path).args(arguments).output().unwrap();
    assert!(output.status.success(), "{path} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A loop device over a file, with a filesystem that is mounted and has a file.
struct Mounted {
    image: PathBuf,
    device: PathBuf,
    folder: PathBuf,
}

impl Mounted {
    fn make(fixture: &Fixture) -> Self {
        let (image, folder) = (fixture.path("image"), fixture.path("mounted"));
        fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        ran("mkfs.ext4", &["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", &text(&image)]);
        let device = PathBuf::from(ran("losetup", &["--find", "--show", &text(&image)]));
        fs::create_dir(&folder).unwrap();
        let mounted = Self { image, device, folder };
        ran("mount", &["-o", "noatime", &text(&mounted.device), &text(&mounted.folder)]);
        fs::write(mounted.folder.join("data"), vec![7; 16 * MIB]).unwrap();
        mounted
    }

    /// All but the superblock, in which a mounted ext4 notes the time.
    fn bytes(&self) -> Vec<u8> {
        rustix::fs::sync();
        fs::read(&self.image).unwrap().split_off(4096)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.folder).status();
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

fn valid(result: Result<Done, Stop>) -> Trial {
    let trial = result.unwrap().trial;
    assert!(!matches!(trial.validity, Validity::Failed(_)), "{:?}", trial.validity);
    assert!(trial.measurement.as_ref().unwrap().outcome.metrics["throughput"].value > 0.0);
    trial
}

#[test]
fn a_mounted_device_is_measured_and_stays_as_it_is() {
    if !is_root() {
        return;
    }
    let fixture = Fixture::new();
    let mounted = Mounted::make(&fixture);
    let before = mounted.bytes();
    let name = mounted.device.file_name().unwrap().to_str().unwrap();
    let fio = [("rw", "randread"), ("bs", "4k"), ("direct", "1"), ("runtime", "200ms"), ("time_based", "1")];
    let reads = [
        cell(Tool::Fio, &[&fio[..], &[("numjobs", "2"), ("ioengine", "io_uring")]].concat(), &[]),
        cell(Tool::Fio, &[("rw", "read"), ("bs", "64k"), ("ioengine", "mmap")], &[("read_ahead_kb", "64")]),
        cell(Tool::Dd, &[("bs", "1M"), ("iflag", "direct")], &[]),
    ];
    for read in &reads {
        let trial = valid(fixture.trial(only_read(&mounted.device), read));
        let told = &trial.environment["target"];
        assert!(told.contains(name) && told.contains("64 MiB"), "{told}");
        assert!(trial.environment["read_only"].starts_with("the load can only read"));
        assert_eq!(trial.environment["device"], name);
        let commands = &trial.measurement.unwrap().commands[0];
        assert!(read.workload.tool != Tool::Fio || commands.contains(&"--readonly".to_owned()));
        assert!(commands.iter().any(|word| word.contains("/proc/self/fd/")), "{commands:?}");
    }
    assert!(before == mounted.bytes(), "something was written");
    let told: Vec<String> =
        Readable::open(&mounted.device).unwrap().uses().unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(told, [format!("`{name}` is mounted on `{}`", mounted.folder.display())]);
}

#[test]
fn a_file_is_measured_as_one() {
    let fixture = Fixture::new();
    let path = somebodys_file(&fixture, "data");
    let before = (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap());
    for read in [
        cell(Tool::Fio, &[("rw", "randread"), ("bs", "4k"), ("size", "4m")], &[]),
        cell(Tool::Dd, &[("bs", "64k")], &[]),
    ] {
        let trial = valid(fixture.trial(only_read(&path), &read));
        assert_eq!(trial.environment["target"], format!("{}: a file of 8 MiB", path.display()));
        assert!(trial.environment.contains_key("filesystem"), "{:?}", trial.environment);
    }
    assert!(before == (fs::read(&path).unwrap(), fs::metadata(&path).unwrap().modified().unwrap()));
}

/// Runs what a study could never ask for as the tools are run.
fn held(fixture: &Fixture, readable: &Readable, script: &str) -> Ended {
    let argv = ["sh", "-c", script].map(str::to_owned);
    let task = Task {
        argv: &argv,
        folder: Some(&fixture.path("raw")),
        stdout: fixture.path("raw/stdout"),
        stderr: fixture.path("raw/stderr"),
        descriptors: getrlimit(Resource::Nofile),
        environment: &[],
        interval: Nanos::from_millis(10),
        timeout: Nanos::from_secs(30),
        interrupt: &AtomicBool::new(false),
        beside: &Default::default(),
        only_reads: Some(readable),
        marks: None,
    };
    child::run(&task, &mut |_| {}).unwrap()
}

/// Ways to write to `$GIVEN`, `$NAMED` or around them.
const WRITES: [&str; 7] = [
    "dd if=/dev/zero of=$GIVEN bs=1M count=1 conv=notrunc",
    "dd if=/dev/zero of=$NAMED bs=1M count=1 conv=notrunc",
    "echo x 1<> $GIVEN >&1",
    "truncate --size 0 $NAMED",
    "fio --name=w --filename=$GIVEN --rw=write --bs=64k --size=1m --allow_mounted_write=1",
    "fio --name=w --filename=$NAMED --rw=randwrite --ioengine=io_uring --bs=64k --size=1m --allow_mounted_write=1",
    "python3 -c 'import os; os.pwrite(int(\"'$GIVEN'\".split(\"/\")[-1]), b\"x\", 0)'",
];

fn attempt(readable: &Readable, script: &str) -> String {
    let (given, named) = (readable.given(), readable.path().to_owned());
    format!("GIVEN={} NAMED={}; {script}", given.display(), named.display())
}

#[test]
fn a_tool_that_is_made_to_write_cannot() {
    if let Some(why) = confine::Reading::gap() {
        testing::skip(why);
        return;
    }
    let fixture = Fixture::new();
    let path = somebodys_file(&fixture, "data");
    let before = fs::read(&path).unwrap();
    let readable = Readable::open(&path).unwrap();
    let around = [
        format!("rm {}", path.display()),
        format!("mv {} {}", path.display(), fixture.path("raw/stolen").display()),
        format!("echo x > {}", fixture.path("beside").display()),
    ];
    for script in WRITES.iter().map(|script| (*script).to_owned()).chain(around) {
        let ended = held(&fixture, &readable, &attempt(&readable, &script));
        assert!(matches!(ended.how, How::Exited(code) if code != 0), "{script}: {ended:?}");
        assert!(before == fs::read(&path).unwrap(), "{script}");
    }
    assert!(!fixture.path("beside").exists());
    // It is the wall that refuses, and nothing else.
    assert_eq!(held(&fixture, &readable, "echo x > report").how, How::Exited(0));
    let free = attempt(&readable, WRITES[1]);
    assert!(Command::new("sh").args(["-c", &free]).output().unwrap().status.success());
    assert!(before != fs::read(&path).unwrap());
}

#[test]
fn a_mounted_device_cannot_be_written_by_a_tool_that_is_made_to() {
    if !is_root() {
        return;
    }
    if let Some(why) = confine::Reading::gap() {
        testing::skip(why);
        return;
    }
    let fixture = Fixture::new();
    let mounted = Mounted::make(&fixture);
    let before = mounted.bytes();
    let readable = Readable::open(&mounted.device).unwrap();
    let node = fixture.path("raw/node").display().to_string();
    let others = [
        "blkdiscard --force $NAMED".to_owned(),
        "blkdiscard --force $GIVEN".to_owned(),
        "wipefs --all --force $NAMED".to_owned(),
        format!("mknod {node} b $(stat -c '0x%t 0x%T' $NAMED) && dd if=/dev/zero of={node} bs=1M count=1"),
        format!("ln -s $NAMED {node}-link && dd if=/dev/zero of={node}-link bs=1M count=1"),
    ];
    for script in WRITES.iter().filter(|s| !s.starts_with("truncate")).map(|s| (*s).to_owned()).chain(others)
    {
        let ended = held(&fixture, &readable, &attempt(&readable, &script));
        assert!(matches!(ended.how, How::Exited(code) if code != 0), "{script}: {ended:?}");
        assert!(before == mounted.bytes(), "{script}");
    }
}

#[test]
fn what_may_write_is_not_run() {
    let fixture = Fixture::new();
    let path = somebodys_file(&fixture, "data");
    let before = fs::read(&path).unwrap();
    let destroys = command("dd if=/dev/zero of={target} bs=1M count=1 conv=notrunc; echo answer 1");
    for write in [
        cell(destroys, &[], &[]),
        cell(Tool::Fio, &[("rw", "randwrite")], &[]),
        cell(Tool::Fio, &[("rw", "randread"), ("rwmixwrite", "50")], &[]),
        cell(Tool::Fio, &[("rw", "read"), ("precondition", "1")], &[]),
        cell(Tool::Fio, &[("rw", "read"), ("verify", "crc32c")], &[]),
        cell(Tool::Dd, &[("direction", "write")], &[]),
        cell(Tool::Bonnie, &[], &[]),
    ] {
        let workload = write.workload.clone();
        match fixture.trial(only_read(&path), &write) {
            Err(Stop::Unsupported(text)) => {
                assert!(
                    text.contains("on a target that is only read") || workload.tool == Tool::Bonnie,
                    "{text}"
                );
            }
            other => panic!("{workload:?}: {other:?}"),
        }
        assert!(before == fs::read(&path).unwrap());
    }
}

#[test]
fn only_a_block_device_or_a_file_with_something_in_it_is_read() {
    let fixture = Fixture::new();
    let fifo = fixture.path("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fs::write(fixture.path("empty"), "").unwrap();
    symlink(&fifo, fixture.path("link")).unwrap();
    let told = |path: &Path| fixture.target(&mut fixture.ledger(), only_read(path)).unwrap_err().to_string();
    assert_eq!(
        told(&fifo),
        format!(
            "cannot read `{}` as the target: it is a pipe (FIFO); name a block device or a regular file",
            fifo.display()
        )
    );
    assert!(told(&fixture.path("link")).contains("it is a pipe (FIFO)"));
    assert!(told(Path::new("/dev/null")).contains("it is a character device"));
    assert!(told(fixture.folder.path()).contains("it is a folder"));
    assert!(told(Path::new("/proc/self/maps")).contains("the kernel makes it up"));
    assert!(told(&fixture.path("empty")).contains("its size is 0"));
    assert!(told(&fixture.path("none")).contains("No such file"));
}

#[test]
fn a_link_that_is_turned_after_it_was_opened_leads_nowhere_else() {
    let fixture = Fixture::new();
    let (first, second) = (somebodys_file(&fixture, "first"), fixture.path("second"));
    fs::write(&second, "short").unwrap();
    let link = fixture.path("link");
    symlink(&first, &link).unwrap();
    let mut ledger = fixture.ledger();
    let target = fixture.target(&mut ledger, only_read(&link)).unwrap().unwrap();
    fs::remove_file(&link).unwrap();
    symlink(&second, &link).unwrap();
    let read = cell(Tool::Fio, &[("rw", "read"), ("bs", "64k"), ("size", "8m")], &[]);
    let trial = valid(fixture.trial_on(&mut ledger, Some(&target), &read, None));
    assert_eq!(
        trial.measurement.unwrap().outcome.metrics["throughput"].unit,
        domain::units::Unit::BytesPerSecond
    );
    assert_eq!(fs::read_to_string(&second).unwrap(), "short");
    ledger.finish();
    assert!(first.exists() && link.exists(), "what was there is not ours to remove");
}

#[test]
fn a_file_that_is_cut_is_not_read_any_more() {
    let fixture = Fixture::new();
    let path = somebodys_file(&fixture, "data");
    let mut ledger = fixture.ledger();
    let target = fixture.target(&mut ledger, only_read(&path)).unwrap().unwrap();
    target.verify().unwrap();
    fs::File::options().append(true).open(&path).unwrap().set_len(9 << 20).unwrap();
    target.verify().unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_len(1 << 20).unwrap();
    match target.verify() {
        Err(Error::TargetChanged { path: told, why }) => {
            assert_eq!(told, path);
            assert_eq!(why, "it has 1 MiB, and had 8 MiB");
        }
        other => panic!("{other:?}"),
    }
    let text = failed(fixture.trial_on(&mut ledger, Some(&target), &cell(Tool::Fio, &[], &[]), None));
    assert!(text.contains("is not the one that was made"), "{text}");
    ledger.finish();
}

#[test]
fn the_settings_of_a_file_are_those_of_its_disk() {
    let fixture = Fixture::new();
    let path = somebodys_file(&fixture, "data");
    let readable = Readable::open(&path).unwrap();
    let below = runner::environment::devices_below(&LocalMachine, &path);
    assert_eq!(readable.device(), below.first().map(String::as_str));
    let target: Option<Target> = fixture.target(&mut fixture.ledger(), only_read(&path)).unwrap();
    assert_eq!(target.unwrap().device(), readable.device());
}
