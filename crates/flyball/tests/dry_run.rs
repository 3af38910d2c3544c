//! A dry run writes nothing: strace(1) sees every call by which it, or a process that it starts, could.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking, and says why it skips and what it found"
)]

use crate::support;
use crate::support::{MIRROR, Place, SMALL};
use std::fs;
use std::process::Command;

/// Calls that change something wherever they succeed.
const CHANGING: &str = "creat,mkdir,mkdirat,mknod,mknodat,rename,renameat,renameat2,unlink,unlinkat,rmdir,link,linkat,symlink,\
                        symlinkat,truncate,ftruncate,fallocate,chmod,fchmod,fchmodat,chown,fchown,lchown,fchownat,setxattr,\
                        lsetxattr,fsetxattr,removexattr,utimensat,mount,umount2,swapon,swapoff,sethostname,settimeofday,reboot";

/// Calls that do where they open something for writing.
const OPENING: &str = "open,openat,openat2";

/// What may be opened for writing: it keeps nothing.
const NOTHING: [&str; 2] = ["\"/dev/null\"", "\"/dev/tty\""];

/// Fio on what is there already: something to read, or a folder.
fn there_already(target: &str) -> String {
    format!(
        "flyball = 1\nname = \"mine\"\nquestion = \"How fast is it?\"\n[target]\n{target}\n[workload.w]\ntool = \"fio\"\n\
         options = {{ rw = \"randread\", bs = \"4k\", runtime = \"1s\", time_based = true }}\n"
    )
}

#[test]
fn a_dry_run_shows_what_would_run_beside_the_workload_and_a_missing_program() {
    let place = Place::new();
    let burner =
        "[beside.burner]\ntool = \"fio\"\noptions = { ioengine = \"cpuio\", cpuload = 50 }\nlead = \"2s\"\n";
    let study = place.study("beside", &format!("{SMALL}{burner}"));
    let told = place.ok(&["run", &study, "--dry-run"]);
    assert!(
        told.contains("  beside fio --output-format=json+ --output=RAW/beside-burner/fio.json"),
        "{told}"
    );
    assert!(
        told.contains("--ioengine=cpuio --cpuload=50") && told.contains("(burner, started 2.0 s before)"),
        "{told}"
    );
    let plan: serde_json::Value =
        serde_json::from_str(&place.ok(&["run", &study, "--dry-run", "--json"])).unwrap();
    assert_eq!(
        (&plan["cells"][0]["beside"][0]["name"], &plan["cells"][0]["beside"][0]["lead_seconds"]),
        (&"burner".into(), &2.0.into())
    );
    let missing = "[beside.it]\ntool = \"command\"\nargv = [\"no-such-program\"]\n";
    let output = place.output(&["run", &place.study("missing", &format!("{SMALL}{missing}")), "--dry-run"]);
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(told.contains("not possible: cannot run `no-such-program`"), "{told}");
}

#[test]
fn a_dry_run_names_what_is_there_already_and_what_becomes_of_it() {
    let place = Place::new();
    let data = place.path("data");
    fs::write(&data, vec![1; 1 << 20]).unwrap();
    let read = place.study("read", &there_already(&format!("read_only = \"{}\"", data.display())));
    let told = place.ok(&["run", &read, "--dry-run"]);
    let reads = format!("reads {}, a file of 1 MiB, and writes nothing to it", data.display());
    assert!(told.contains(&reads) && told.contains("--readonly"), "{told}");
    let folder = place.path("mine");
    fs::create_dir(&folder).unwrap();
    if let Some(reason) = support::without_space(&folder) {
        testing::skip_in_part(reason);
    } else {
        let text = format!("folder = \"{}\"\nsize = \"1MiB\"", folder.display());
        let told = place.ok(&["run", &place.study("made", &there_already(&text)), "--dry-run"]);
        assert!(told.contains("makes a folder of its own in") && told.contains("stay free"), "{told}");
    }
    // What a run would refuse, a dry run refuses as well.
    for (target, why) in [
        ("read_only = \"/dev/null\"", "it is a character device"),
        ("read_only = \"/dev/nothing\"", "No such file"),
        ("folder = \"/nothing\"\nsize = \"1MiB\"", "No such file"),
        ("folder = \"/tmp\"\nsize = \"1TiB\"", "must stay free"),
    ] {
        let study = place.study("refused", &there_already(target));
        for arguments in [&["run", &study, "--dry-run"][..], &["run", &study]] {
            let output = place.flyball(arguments).output().unwrap();
            let told = support::stderr(&output);
            assert!(!output.status.success() && told.contains(why), "{arguments:?}: {told}");
        }
    }
}

#[test]
fn a_setting_of_a_file_is_that_of_the_disk_below_it() {
    let place = Place::new();
    let text = there_already("file = \"1MiB\"") + "[settings]\nread_ahead_kb = 256\n";
    let study = place.study("file", &text);
    let output = place.flyball(&["run", &study, "--dry-run"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let below = runner::environment::devices_below(&machine::LocalMachine, place.folder.path());
    match below.first() {
        Some(disk) => assert!(told.contains(&format!("read_ahead_kb@{disk} = 256")), "{told}"),
        // On tmpfs there is none, and the run would refuse the cell.
        None => assert_eq!(output.status.code(), Some(3), "{told}"),
    }
    assert!(!told.contains("loopN"), "{told}");
    let text = text.replace("file =", "loop =");
    assert!(
        place.measure(&["run", &place.study("loop", &text), "--dry-run"]).contains("read_ahead_kb@loopN")
    );
}

/// A stack, and settings of all kinds.
fn stack() -> String {
    format!(
        r#"
flyball = 1
name = "stack"
question = "What would be written?"
{MIRROR}
[stack.files]
kind = "filesystem"
on = "array"
type = "ext4"

[workload.write]
tool = "command"
argv = ["dd", "if=/dev/zero", "of={{target}}", "bs=64k", "count=4", "conv=notrunc,fsync"]

[settings]
"vm.swappiness" = 11
read_ahead_kb = 512

[measure]
metric = "elapsed"
repeats = [2, 2]
"#
    )
}

#[test]
fn a_dry_run_writes_nothing_but_its_output() {
    if Command::new("strace").arg("-V").output().is_err() {
        return testing::skip("needs strace, to see system calls");
    }
    let place = Place::new();
    let (small, stack) = (place.study("small", SMALL), place.study("stack", &stack()));
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/tools/fio");
    let import = fs::read_dir(fixture).unwrap().map(|e| e.unwrap().path()).find(|p| p.is_file()).unwrap();
    let disk = place.path("disk");
    fs::write(&disk, "").unwrap();
    let commands: [&[&str]; 6] = [
        &["run", &small, "--dry-run"],
        &["run", &stack, "--dry-run"],
        &["run", &small, "--on", "sim", "--dry-run"],
        &["tune", "--set", "vm.swappiness=11", "--persist", "--dry-run"],
        &["import", import.to_str().unwrap(), "--dry-run"],
        &["claim", disk.to_str().unwrap(), "--dry-run"],
    ];
    let before = all_files(&place);
    let mut seen = 0;
    for arguments in commands {
        let (calls, output) = traced(&place, arguments);
        let told = support::stderr(&output);
        assert!(output.status.code().is_some_and(|code| code <= 3), "{arguments:?}: {told}");
        seen += calls.len();
        let writes: Vec<&String> = calls.iter().filter(|call| writes(call)).collect();
        assert!(writes.is_empty(), "{arguments:?}: {writes:#?}\n{told}");
        assert_eq!(all_files(&place), before, "{arguments:?}");
    }
    assert!(seen > 100, "strace has seen only {seen} calls");
    testing::promise(
        "dry-run",
        commands.len(),
        format!("{seen} calls that could have written, with those of all children"),
    );
}

/// Everything in the place but what strace writes.
fn all_files(place: &Place) -> Vec<String> {
    let output =
        Command::new("find").arg(place.folder.path()).args(["-not", "-name", "calls"]).output().unwrap();
    let mut all: Vec<String> = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    all.sort();
    all
}

fn traced(place: &Place, arguments: &[&str]) -> (Vec<String>, std::process::Output) {
    let (log, program) = (place.path("calls"), place.flyball(arguments));
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o"]).arg(&log).args(["-e", &format!("trace={OPENING},{CHANGING}")]);
    command.arg(program.get_program()).args(arguments).current_dir(place.folder.path());
    command.envs(program.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output().unwrap();
    let calls = fs::read_to_string(&log).unwrap().lines().map(str::to_owned).collect();
    (calls, output)
}

/// Whether a line of strace's tells of something that was written, made, moved or removed.
fn writes(line: &str) -> bool {
    // After the number of the process; signals and ends of processes are no calls.
    let call = line.trim_start().split_once(' ').map_or("", |(_, call)| call.trim_start());
    let has_failed = call.contains(") = -1 ") || call.contains(" = -1 E");
    let Some((name, _)) = call.split_once('(').filter(|_| !has_failed) else { return false };
    if !OPENING.split(',').any(|opening| opening == name) {
        return CHANGING.split(',').any(|changing| changing.trim() == name);
    }
    let flags = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND", "O_TMPFILE"];
    flags.iter().any(|flag| call.contains(flag)) && !NOTHING.iter().any(|path| call.contains(path))
}

#[test]
fn what_strace_tells_of_writing_is_understood() {
    assert!(writes(r#"12 openat(AT_FDCWD, "/a", O_WRONLY|O_CREAT, 0666) = 3"#));
    assert!(writes(r#"12 openat2(AT_FDCWD, "/a", {flags=O_RDWR, resolve=0}, 24) = 3"#));
    assert!(writes(r#"12 mkdir("/a", 0777) = 0"#) && writes(r#"12 rename("/a", "/b") = 0"#));
    assert!(!writes(r#"12 openat(AT_FDCWD, "/a", O_RDONLY|O_CLOEXEC) = 3"#));
    assert!(!writes(r#"12 openat(AT_FDCWD, "/dev/null", O_RDWR) = 3"#));
    assert!(!writes(r#"12 mkdir("/a", 0777) = -1 EEXIST (File exists)"#));
    assert!(!writes("12 +++ exited with 0 +++"));
}
