//! Notebooks that are damaged, and files that are hostile: every verb that reads them ends by itself, in
//! time, without a crash and within a bound of memory, and leaves what it has read as it was.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says what it found"
)]

use crate::support::Place;
use crate::support::bounded::{self, Ended};
use domain::rng::Seed;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const STUDY: &str = r#"
flyball = 1
name = "small"
question = "Is it read?"

[target]
file = "1MiB"

[workload.read]
tool = "dd"
options = { direction = "read" }

[factor.block]
option = "bs"
levels = ["4k", "64k"]

[measure]
repeats = [1, 1]
settle = "0s"
interval = "50ms"
retries = 0
drop_caches = false
"#;

/// What takes longer is told: it fails nothing, for the host may be busy.
const SLOW: Duration = Duration::from_secs(3);

/// What is done to a file.
#[derive(Clone, Copy)]
enum Damage {
    Gone,
    /// The first half.
    Torn,
    Text(&'static [u8]),
    /// So many times.
    Repeated(&'static [u8], usize),
    /// A hole of so many bytes behind it.
    Hole(u64),
    /// The first of these words becomes the second.
    Word(&'static str, &'static str),
    Folder,
    LinkToNothing,
    LinkToItself,
    LinkTo(&'static str),
    Pipe,
    Socket,
}

/// Which files of a notebook.
#[derive(Clone, Copy)]
enum Where {
    /// This one of each trial.
    Trial(&'static str),
    /// This one of the run.
    Run(&'static str),
    /// This one of the notebook.
    Notebook(&'static str),
}

use Damage::{
    Folder, Gone, Hole, LinkTo, LinkToItself, LinkToNothing, Pipe, Repeated, Socket, Text, Torn, Word,
};
use Where::{Notebook, Run, Trial};

const NEST: &[u8] = b"[";

/// Where, how, and whether a verb has to say something of it.
const BROKEN: &[(Where, Damage, bool)] = &[
    (Trial("trial.json"), Gone, true),
    (Trial("trial.json"), Torn, true),
    (Trial("trial.json"), Text(b""), true),
    (Trial("trial.json"), Text(b"[]"), true),
    (Trial("trial.json"), Text(b"\0\xff\xfe\x80"), true),
    (Trial("trial.json"), Word("\"schema\": 1", "\"schema\": 999"), true),
    (Trial("trial.json"), Word("\"value\": ", "\"value\": 1e999"), true),
    (Trial("trial.json"), Repeated(NEST, 200_000), true),
    (Trial("trial.json"), Hole(1 << 40), true),
    (Trial("trial.json"), Folder, true),
    (Trial("trial.json"), LinkToNothing, true),
    (Trial("trial.json"), LinkToItself, true),
    (Trial("trial.json"), LinkTo("/dev/zero"), true),
    (Trial("trial.json"), Pipe, true),
    (Trial("trial.json"), Socket, true),
    (Trial("trace.parquet"), Gone, false),
    (Trial("trace.parquet"), Torn, true),
    (Trial("trace.parquet"), Text(b"PAR1\xff\xff\xff\xffPAR1"), true),
    (Trial("trace.parquet"), LinkTo("/dev/urandom"), true),
    (Trial("trace.parquet"), Pipe, true),
    (Trial("storage.json"), Text(b"{\"devices\": 1}"), false),
    (Trial("storage.json"), LinkTo("/dev/zero"), false),
    (Trial("storage.json"), Pipe, false),
    (Trial("reproduce.sh"), Gone, false),
    (Run("run.json"), Gone, true),
    (Run("run.json"), Torn, true),
    (Run("run.json"), Word("\"seed\": ", "\"seed\": -"), true),
    (Run("run.json"), Pipe, true),
    (Run("machine.json"), Text(b"{\"cpus\": 1e308}"), false),
    (Run("machine.json"), Repeated(NEST, 200_000), false),
    (Run("study.toml"), Gone, true),
    (Run("study.toml"), Text(b"flyball = 99\n"), true),
    (Run("trials"), Text(b"a file"), true),
    (Run("trials"), LinkToItself, true),
    (Notebook("notebook.json"), Torn, true),
    (Notebook("notebook.json"), Word("1", "999"), true),
    (Notebook("notebook.json"), Folder, true),
    (Notebook("index.sqlite"), Text(b"SQLite format 3\0 and nothing"), false),
    (Notebook("index.sqlite"), Folder, false),
    (Notebook("staging"), Text(b"a file"), false),
    (Notebook("runs"), Text(b"a file"), true),
    (Notebook("runs"), LinkToItself, true),
];

impl Damage {
    fn does(self, path: &Path) {
        match self {
            Torn => {
                let text = fs::read(path).unwrap();
                return fs::write(path, &text[..text.len() / 2]).unwrap();
            }
            Hole(size) => return File::options().write(true).open(path).unwrap().set_len(size).unwrap(),
            Word(from, to) => {
                let text = fs::read_to_string(path).unwrap();
                assert!(text.contains(from), "{}: {text}", path.display());
                return fs::write(path, text.replacen(from, to, 1)).unwrap();
            }
            _ => {}
        }
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        match self {
            Gone | Torn | Hole(_) | Word(..) => {}
            Text(text) => fs::write(path, text).unwrap(),
            Repeated(text, count) => fs::write(path, text.repeat(count)).unwrap(),
            Folder => fs::create_dir(path).unwrap(),
            LinkToNothing => symlink("nothing", path).unwrap(),
            LinkToItself => symlink(path.file_name().unwrap(), path).unwrap(),
            LinkTo(target) => symlink(target, path).unwrap(),
            Pipe => mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o644), 0).unwrap(),
            Socket => drop(UnixListener::bind(path).unwrap()),
        }
    }
}

impl Where {
    fn files(self, notebook: &Path) -> Vec<PathBuf> {
        let only =
            |folder: &Path| fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect::<Vec<_>>();
        let run = only(&notebook.join("runs")).remove(0);
        match self {
            Trial(name) => only(&run.join("trials")).into_iter().map(|trial| trial.join(name)).collect(),
            Run(name) => vec![run.join(name)],
            Notebook(name) => vec![notebook.join(name)],
        }
    }

    fn name(self) -> &'static str {
        match self {
            Trial(name) | Run(name) | Notebook(name) => name,
        }
    }
}

/// Every file below a folder with what it is; what is no regular file by its kind.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for path in entries.map(|entry| entry.unwrap().path()) {
        let data = fs::symlink_metadata(&path).unwrap();
        if data.is_dir() {
            found.extend(contents(&path));
        } else if data.is_file() && data.len() < 1 << 24 {
            found.insert(path.clone(), fs::read(&path).unwrap());
        } else {
            found.insert(path, format!("{:?} of {} bytes", data.file_type(), data.len()).into_bytes());
        }
    }
    found
}

fn copied(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    assert!(Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

#[test]
fn a_broken_notebook_is_told_and_harms_nothing_else() {
    let place = Place::new();
    let study = place.study("small", STUDY);
    place.measure(&["run", &study]);
    // Indexed, as a notebook is that was looked at.
    place.ok(&["list"]);
    let key = place.trials().remove(0);
    let page = place.path("page.html");
    let verbs: [&[&str]; 12] = [
        &["list"],
        &["list", "--json"],
        &["show", "small"],
        &["show", "small", &key],
        &["explain", "small"],
        &["replay", "small", &key],
        &["compare", "small", "--factor", "block"],
        &["report", "small", "--out", page.to_str().unwrap()],
        &["export", "small", "--format", "csv"],
        &["export", "small", "--format", "json"],
        &["export", "small", "--trace", &key, "--format", "csv"],
        // Last: it goes on with the run, or begins another.
        &["run", &study],
    ];
    let whole = place.path("whole");
    fs::rename(place.path("notebook"), &whole).unwrap();
    let mut wrong = Vec::new();
    let extent = testing::Extent::of(16, BROKEN.len() as u64);
    let mut chosen: Vec<_> = BROKEN.iter().enumerate().collect();
    Seed(extent.seed).stream("broken notebooks").shuffle(&mut chosen);
    chosen.truncate(usize::try_from(extent.count).unwrap());
    for (index, (at, damage, has_to_be_told)) in &chosen {
        let notebook = place.path("notebook");
        copied(&whole, &notebook);
        at.files(&notebook).iter().for_each(|path| damage.does(path));
        let before = contents(&notebook.join("runs"));
        let mut is_told = false;
        for arguments in verbs {
            let ended = bounded::run(&place.flyball(arguments), place.folder.path());
            is_told |= ended.complains();
            let case = format!("{index}, {}: {}", at.name(), arguments.join(" "));
            wrong.extend(ended.fault().map(|fault| format!("{case}: {fault}")));
            let now = contents(&notebook.join("runs"));
            let is_changed =
                |path: &&PathBuf| now.get(*path) != before.get(*path) && !path.ends_with(".lock");
            let goes_on = |path: &&PathBuf| arguments[0] == "run" && path.ends_with("run.json");
            let changed = before.keys().filter(is_changed).find(|path| !goes_on(path));
            wrong.extend(changed.map(|path| format!("{case}: {} is changed", path.display())));
        }
        if *has_to_be_told && !is_told {
            wrong.push(format!("{index}, {}: nobody is told", at.name()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    testing::promise("broken-notebooks", chosen.len(), format!("each met by {} verbs", verbs.len()));
}

/// A file of somebody who means harm: its name, and what makes it.
type Hostile = (&'static str, fn(&Path));

fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).unwrap();
}

/// A study with other lines in the place of its options.
fn study(path: &Path, from: &str, to: &str) {
    assert!(STUDY.contains(from));
    write(path, STUDY.replace(from, to).as_bytes());
}

/// What gzip makes of so many bytes of nothing.
fn bomb(path: &Path, mebibytes: usize) {
    let gzip =
        Command::new("gzip").arg("-9").stdin(Stdio::piped()).stdout(File::create(path).unwrap()).spawn();
    let mut gzip = gzip.unwrap();
    let mut input = gzip.stdin.take().unwrap();
    (0..mebibytes).for_each(|_| input.write_all(&[b'0'; 1 << 20]).unwrap());
    drop(input);
    assert!(gzip.wait().unwrap().success());
}

const HOSTILE: &[Hostile] = &[
    ("empty", |p| write(p, b"")),
    ("a byte", |p| write(p, b"{")),
    ("nothing but zeros", |p| write(p, &[0; 4096])),
    ("all bytes", |p| write(p, &(0..=255).cycle().take(65536).collect::<Vec<u8>>())),
    ("utf-16", |p| write(p, b"\xff\xfef\0l\0y\0b\0a\0l\0l\0=\x001\0\n\0")),
    ("deep arrays", |p| write(p, &b"[".repeat(1_000_000))),
    ("deep objects", |p| write(p, &b"{\"a\":".repeat(300_000))),
    ("deep tables", |p| write(p, format!("x = {}{}", "[".repeat(100_000), "]".repeat(100_000)).as_bytes())),
    ("a dotted key", |p| write(p, format!("{}a = 1\n", "a.".repeat(100_000)).as_bytes())),
    ("one line of 16 MiB", |p| write(p, &vec![b'a'; 16 << 20])),
    ("four million lines", |p| write(p, &b"\n".repeat(4_000_000))),
    ("a hole of a terabyte", |p| File::create(p).unwrap().set_len(1 << 40).unwrap()),
    ("a bomb", |p| bomb(p, 1024)),
    ("a torn archive", |p| write(p, b"\x1f\x8b\x08\0\0\0\0\0\0\x03\x4b\x4c")),
    ("a program", |p| assert!(fs::copy("/bin/sh", p).unwrap() > 0)),
    ("a pipe", |p| Pipe.does(p)),
    ("a socket", |p| Socket.does(p)),
    ("a folder", |p| Folder.does(p)),
    ("a link to itself", |p| LinkToItself.does(p)),
    ("a link to nothing", |p| LinkToNothing.does(p)),
    ("a device without end", |p| LinkTo("/dev/zero").does(p)),
    ("memory", |p| LinkTo("/proc/self/mem").does(p)),
    ("huge numbers", |p| {
        write(p, br#"{"fio version":"fio-3.33","jobs":[{"jobname":"a","read":{"iops":1e999,"bw":-1e308,"runtime":18446744073709551616}}]}"#)
    }),
    ("fio without an end", |p| {
        write(p, br#"{"fio version":"fio-3.33","jobs":[{"jobname":"a","read":{"iops":"#)
    }),
    ("names with escapes", |p| study(p, "name = \"small\"", "name = \"\\u001b]0;x\\u0007\\u202e\"")),
    ("a name that is a path", |p| study(p, "name = \"small\"", "name = \"../../../tmp/x\"")),
    ("a target that is a path", |p| study(p, "file = \"1MiB\"", "file = \"16EiB\"")),
    ("more cells than atoms", |p| {
        let factor = |n| {
            format!("[factor.f{n}]\nsetting = \"vm.swappiness\"\nlevels = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n")
        };
        write(p, format!("{STUDY}{}", (0..60).map(factor).collect::<String>()).as_bytes());
    }),
    ("a number beyond all", |p| study(p, "repeats = [1, 1]", "repeats = [99999999999999999999, 1]")),
    ("time without end", |p| study(p, "settle = \"0s\"", "settle = \"18446744073709551615h\"")),
    ("an option that is a command", |p| {
        study(p, "direction = \"read\"", "direction = \"read; touch /tmp/flyball-was-here\"")
    }),
    ("a million lines of sar", |p| write(p, &b"12:00:01 AM     all      0.10      0.00\n".repeat(300_000))),
    ("commas", |p| write(p, &b",".repeat(4 << 20))),
];

#[test]
fn a_hostile_file_is_refused_or_read_and_leaves_nothing() {
    let place = Place::new();
    let good = place.study("good", STUDY);
    let (file, mut wrong, mut refused) = (place.path("hostile"), Vec::new(), 0);
    let path = file.to_str().unwrap();
    // A name for what would otherwise be asked of the file's.
    let verbs: [&[&str]; 8] = [
        &["import", path],
        &["import", path, "--as", "fio"],
        &["import", path, "--dry-run"],
        &["run", path, "--dry-run"],
        &["run", path, "--on", "sim"],
        &["run", &good, "--on", "sim", "--machine", path],
        &["inspect", "--root", path],
        &["report", path],
    ];
    for (name, make) in HOSTILE {
        make(&file);
        // `import` takes a pipe by its name, and reads what has no end to its end, as it is told.
        let has_no_end = ["a pipe", "a hole of a terabyte"].contains(name);
        for arguments in verbs.into_iter().filter(|verb| !has_no_end || verb[0] != "import") {
            let ended: Ended = bounded::run(&place.flyball(arguments), place.folder.path());
            let case = format!("{name}: {}", arguments.join(" ").replace(path, "FILE"));
            if ended.took > SLOW {
                println!("{case}: {:.1} s", ended.took.as_secs_f64());
            }
            wrong.extend(ended.fault().map(|fault| format!("{case}: {fault}")));
            refused += u32::from(ended.status.is_some_and(|status| !status.success()));
            let said = [ended.out.as_bytes(), ended.err.as_bytes()].concat();
            if said.iter().any(|byte| *byte == 0x1b || *byte == 0x07) {
                wrong.push(format!("{case}: an escape sequence reaches the terminal"));
            }
            let staged = place.left_over();
            if !staged.is_empty() {
                wrong.push(format!("{case}: {staged:?} is left"));
            }
        }
        let _ = if file.is_dir() && !file.is_symlink() {
            fs::remove_dir_all(&file)
        } else {
            fs::remove_file(&file)
        };
    }
    assert!(!Path::new("/tmp/flyball-was-here").exists() && !Path::new("/tmp/x").join("runs").exists());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(refused as usize > HOSTILE.len() * verbs.len() / 2, "only {refused} were refused");
    let figure = format!("each met by {} verbs, {refused} refusals", verbs.len());
    testing::promise("hostile-files", HOSTILE.len(), figure);
}

/// A name that is no text, where a notebook lists its folders.
#[test]
fn a_name_that_is_no_text_is_told_and_the_rest_is_read() {
    let place = Place::new();
    place.measure(&["run", &place.study("small", STUDY)]);
    let name = std::ffi::OsStr::from_bytes(b"\xff\x1b[2J");
    fs::create_dir(place.path("notebook/runs").join(name)).unwrap();
    let ended = bounded::run(&place.flyball(&["list"]), place.folder.path());
    assert!(ended.fault().is_none() && ended.out.contains("small"), "{}{}", ended.out, ended.err);
    assert!(!ended.out.contains('\x1b') && !ended.err.contains('\x1b'), "{}", ended.err);
}
