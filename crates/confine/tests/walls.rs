//! Each wall by itself: a process that raises it alone tries what it forbids, and is refused. The same
//! process without a wall gets through, so that it is the wall that refuses and nothing else.
//!
//! It starts itself again as `try`. What this kernel lacks counts as skipped, and is said.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use confine::{Calls, Limits, Reading};
use std::collections::HashMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};

const MIB: u64 = 1 << 20;

const LIMITS: Limits = Limits { memory: 512 * MIB, cpu_s: 1, descriptors: 8, processes: Some(0) };

/// What another process might look for in our memory.
static SECRET: [u8; 16] = *b"nobody sees this";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["try", walls, what, target] => child(walls, what, target),
        ["unpack", program, argument] => unpack(Path::new(program), argument),
        _ => tests(),
    }
}

fn child(walls: &str, what: &str, target: &str) {
    // Opened before, as a descriptor that a process was given.
    let mut own = Some(target).filter(|_| what == "grow").map(|path| File::create(path).unwrap());
    for wall in walls.split(',') {
        let raised = match wall {
            "none" => Ok(()),
            "privileges" => confine::drop_privileges(),
            "limits" => confine::raise_limits(&LIMITS),
            "files" => confine::close_files(),
            "calls" => confine::allow_calls(Calls::Reader),
            "looker" => confine::looker(&[Path::new(target).parent().unwrap()])
                .first()
                .map_or(Ok(()), |gap| Err(gap.why.clone())),
            "reading" => only_read(Path::new(target)),
            "looking" => confine::allow_calls(Calls::Looker),
            "reader" => confine::reader(&LIMITS).first().map_or(Ok(()), |gap| Err(gap.why.clone())),
            other => panic!("no wall `{other}`"),
        };
        if let Err(why) = raised {
            return println!("gap: {why}");
        }
    }
    match attempt(what, target, own.as_mut()) {
        Ok(()) => println!("got through"),
        Err(error) => println!("refused: {}", error.raw_os_error().unwrap_or(0)),
    }
}

/// Reports go to a folder beside what is read.
fn only_read(given: &Path) -> Result<(), String> {
    let file = File::open(given).unwrap();
    let wall = Reading::prepare(file.as_fd(), &given.with_file_name("report"))?;
    wall.raise().unwrap();
    // Its number stays taken, for it is opened anew by that.
    std::mem::forget(file);
    Reading::gap().map_or(Ok(()), |gap| Err(gap.to_owned()))
}

fn attempt(what: &str, target: &str, own: Option<&mut File>) -> std::io::Result<()> {
    let last = |answer: i64| {
        if answer < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
    };
    match what {
        "open" => File::open(target).map(drop),
        "write" => fs::write(target, "x"),
        "write-anew" => {
            let file = File::open(target)?;
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            File::options().write(true).open(path).map(drop)
        }
        "shorten" => {
            let path = CString::new(target).unwrap();
            // SAFETY: a string that ends in zero.
            last(unsafe { libc::truncate(path.as_ptr(), 0) }.into())
        }
        "remove" => fs::remove_file(target),
        "rename" => fs::rename(target, Path::new(target).with_file_name("report/stolen")),
        "link" => fs::hard_link(target, Path::new(target).with_file_name("report/linked")),
        "report" => fs::write(Path::new(target).with_file_name("report/out"), "x"),
        "nowhere" => fs::write("/dev/null", "x"),
        "raw-commands" => {
            // SAFETY: takes numbers. `CAP_SYS_RAWIO`.
            let answer = unsafe { libc::prctl(libc::PR_CAPBSET_READ, 17, 0, 0, 0) };
            if answer == 1 { Ok(()) } else { Err(std::io::Error::from_raw_os_error(libc::EPERM)) }
        }
        "grow" => own.unwrap().write_all(&[1; 4096]),
        "open-passwd" => File::open("/etc/passwd").map(drop),
        "open-mode" => fs::set_permissions(target, fs::Permissions::from_mode(0o777)),
        "list" => fs::read_dir(target).map(drop),
        "connect" => TcpStream::connect(target).map(drop),
        "connect-abstract" => UnixStream::connect_addr(&SocketAddr::from_abstract_name(target)?).map(drop),
        "execute" => Err(Command::new(target).exec()),
        // SAFETY: the child ends at once.
        "fork" => match unsafe { libc::fork() } {
            // SAFETY: as above.
            0 => unsafe { libc::_exit(0) },
            other => last(other.into()),
        },
        "thread" => std::thread::Builder::new().spawn(|| ()).map(drop),
        "read-memory" => read_memory(target),
        // SAFETY: signal 0 asks whether a signal could be sent, and does nothing.
        "signal" => last(unsafe { libc::kill(target.parse().unwrap(), 0) }.into()),
        // SAFETY: strings that end in zero, and no data.
        "mount" => last(
            unsafe {
                libc::mount(c"none".as_ptr(), c"/proc".as_ptr(), c"tmpfs".as_ptr(), 0, std::ptr::null())
            }
            .into(),
        ),
        "executable-memory" => executable_memory(),
        "allocate" => Vec::<u8>::new().try_reserve_exact(600 << 20).map_err(|_| std::io::Error::other("")),
        "spin" => loop {
            std::hint::black_box(());
        },
        "given-descriptor" => {
            // SAFETY: asks for the place in a file, which may be closed.
            last(unsafe { libc::lseek(target.parse().unwrap(), 0, libc::SEEK_CUR) })
        }
        "work" => work(),
        "abort" => std::process::abort(),
        other => panic!("no attempt `{other}`"),
    }
}

/// Of the process and at the address that are named: `4711:140737488355328`.
fn read_memory(target: &str) -> std::io::Result<()> {
    let (pid, address) = target.split_once(':').unwrap();
    let mut found = [0_u8; 16];
    let ours = libc::iovec { iov_base: found.as_mut_ptr().cast(), iov_len: found.len() };
    let address = address.parse::<usize>().unwrap();
    let theirs = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: found.len() };
    // SAFETY: ours is as long as it says, and the kernel checks theirs.
    let count =
        unsafe { libc::process_vm_readv(pid.parse().unwrap(), &raw const ours, 1, &raw const theirs, 1, 0) };
    if count < 0 {
        return Err(std::io::Error::last_os_error());
    }
    assert_eq!(found, SECRET);
    Ok(())
}

fn executable_memory() -> std::io::Result<()> {
    let rights = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: new memory, which nobody uses.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), 4096, rights, flags, -1, 0) };
    if memory == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// What a reader of files does: it reads what it was given, and needs memory, hash tables, and now and then a
/// panic that is caught.
fn work() -> std::io::Result<()> {
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for word in text.split(' ') {
        *counts.entry(word).or_default() += 1;
    }
    assert_eq!(counts["three"], 3);
    let mut memory = vec![1_u8; 100 << 20];
    memory.resize(200 << 20, 2);
    memory.shrink_to(1 << 20);
    std::panic::set_hook(Box::new(|_| ()));
    assert!(std::panic::catch_unwind(|| panic!("{}", memory.len())).is_err());
    Ok(())
}

fn unpack(program: &Path, argument: &str) {
    let gaps = confine::unpacker(program, &Limits { memory: 4096 * MIB, processes: None, ..LIMITS });
    if let Some(gap) = gaps.first() {
        return println!("gap: {}", gap.why);
    }
    let error = Command::new(program).args(argument.split('\n')).exec();
    println!("refused: {}", error.raw_os_error().unwrap_or(0));
}

fn started(arguments: &[&str], input: Stdio) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(arguments).stdin(input).stderr(Stdio::null()).output().unwrap()
}

/// What became of an attempt: what it printed, or the signal that ended it.
fn outcome(walls: &str, what: &str, target: &str) -> String {
    let output = started(&["try", walls, what, target], Stdio::null());
    let text = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let signal = output.status.signal().map(|signal| format!("signal {signal}"));
    if let Some(why) = text.strip_prefix("gap: ") {
        // What every kernel has, or an identity that cannot be given up, is no reason to skip.
        assert!(why.starts_with("this kernel") || why.starts_with("there is no filter"), "{walls}: {why}");
        println!("skipped: {what} behind {walls}: {why}");
    }
    signal.unwrap_or(text)
}

#[track_caller]
fn refused(walls: &str, what: &str, target: &str, wanted: &str) {
    let outcome = outcome(walls, what, target);
    assert!(outcome.starts_with("gap: ") || outcome == wanted, "{what} behind {walls}: {outcome}");
}

#[track_caller]
fn gets_through(walls: &str, what: &str, target: &str) {
    let outcome = outcome(walls, what, target);
    assert!(outcome.starts_with("gap: ") || outcome == "got through", "{what} behind {walls}: {outcome}");
}

const NO_PERMISSION: &str = "refused: 13";
const NOT_PERMITTED: &str = "refused: 1";
const AGAIN: &str = "refused: 11";
/// SIGSYS: killed for its system call.
const KILLED: &str = "signal 31";

fn tests() {
    let tests: [(&str, fn()); 11] = [
        ("no_path_can_be_opened", no_path_can_be_opened),
        ("nothing_can_be_connected_to", nothing_can_be_connected_to),
        ("no_program_and_no_process_can_be_started", no_program_and_no_process_can_be_started),
        ("no_other_process_can_be_read_or_signalled", no_other_process_can_be_read_or_signalled),
        ("root_is_given_up_and_does_not_come_back", root_is_given_up_and_does_not_come_back),
        ("what_it_may_use_is_bounded", what_it_may_use_is_bounded),
        ("nothing_written_can_be_executed", nothing_written_can_be_executed),
        ("a_reader_behind_all_walls_does_its_work", a_reader_behind_all_walls_does_its_work),
        ("a_looker_has_its_folder_and_nothing_else", a_looker_has_its_folder_and_nothing_else),
        (
            "what_only_reads_writes_its_report_and_nothing_else",
            what_only_reads_writes_its_report_and_nothing_else,
        ),
        ("an_unpacker_unpacks_and_does_nothing_else", an_unpacker_unpacks_and_does_nothing_else),
    ];
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
}

fn what_only_reads_writes_its_report_and_nothing_else() {
    for (what, wanted) in [
        ("write", NO_PERMISSION),
        ("write-anew", NO_PERMISSION),
        ("shorten", NO_PERMISSION),
        ("remove", NO_PERMISSION),
        ("rename", NO_PERMISSION),
        // Into another folder: the kernel says that these are two filesystems (EXDEV).
        ("link", "refused: 18"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("report")).unwrap();
        let given = folder.path().join("given");
        fs::write(&given, "precious").unwrap();
        refused("reading", what, given.to_str().unwrap(), wanted);
        assert_eq!(fs::read_to_string(&given).unwrap(), "precious", "{what}");
        for what in ["open", "report", "nowhere"] {
            gets_through("reading", what, given.to_str().unwrap());
        }
        if is_root() {
            refused("reading", "raw-commands", given.to_str().unwrap(), NOT_PERMITTED);
            gets_through("none", "raw-commands", "");
        }
        gets_through("none", what, given.to_str().unwrap());
    }
}

fn is_root() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::geteuid() == 0 }
}

fn no_path_can_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    gets_through("none", "open", "/etc/passwd");
    gets_through("none", "write", &path("free"));
    gets_through("none", "list", "/etc");
    for wall in ["files", "calls"] {
        refused(wall, "open", "/etc/passwd", NO_PERMISSION);
        refused(wall, "open", "/proc/self/mem", NO_PERMISSION);
        refused(wall, "write", &path(wall), NO_PERMISSION);
        refused(wall, "list", "/etc", NO_PERMISSION);
        assert!(!Path::new(&path(wall)).exists());
    }
}

fn nothing_can_be_connected_to() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    gets_through("none", "connect", &address);
    refused("files", "connect", &address, NO_PERMISSION);
    refused("calls", "connect", &address, KILLED);
    let name = format!("flyball-walls-{}", std::process::id());
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    gets_through("none", "connect-abstract", &name);
    refused("files", "connect-abstract", &name, NOT_PERMITTED);
    refused("calls", "connect-abstract", &name, KILLED);
}

fn no_program_and_no_process_can_be_started() {
    // It prints nothing, and is no longer the one that would say that it was refused.
    assert_eq!(outcome("none", "execute", "/bin/true"), "");
    refused("files", "execute", "/bin/true", NO_PERMISSION);
    refused("calls", "execute", "/bin/true", KILLED);
    for what in ["fork", "thread"] {
        gets_through("none", what, "");
        refused("calls", what, "", KILLED);
        if is_root() {
            // Of root's processes there is no bound, whatever the limit.
            refused("privileges,limits", what, "", AGAIN);
        } else {
            refused("limits", what, "", AGAIN);
        }
    }
}

fn no_other_process_can_be_read_or_signalled() {
    let pid = std::process::id();
    let memory = format!("{pid}:{}", SECRET.as_ptr().addr());
    let own = pid.to_string();
    if is_root() {
        gets_through("none", "read-memory", &memory);
        refused("privileges", "read-memory", &memory, NOT_PERMITTED);
        refused("privileges", "signal", &own, NOT_PERMITTED);
        refused("privileges", "open", &format!("/proc/{pid}/mem"), NO_PERMISSION);
    } else {
        println!("skipped: reading another's memory behind privileges needs root, who may do it without");
    }
    gets_through("none", "signal", &own);
    refused("files", "read-memory", &memory, NOT_PERMITTED);
    refused("files", "signal", &own, NOT_PERMITTED);
    refused("calls", "read-memory", &memory, KILLED);
    refused("calls", "signal", &own, KILLED);
}

fn root_is_given_up_and_does_not_come_back() {
    if !is_root() {
        return println!("skipped: giving up root needs root");
    }
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, "root's").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    gets_through("none", "open", secret.to_str().unwrap());
    refused("privileges", "open", secret.to_str().unwrap(), NO_PERMISSION);
    refused("privileges", "write", "/etc/flyball-walls", NO_PERMISSION);
    refused("privileges", "mount", "", NOT_PERMITTED);
    // A program that makes who executes it root, were new privileges to be had.
    let program = folder.path().join("id");
    fs::copy("/usr/bin/id", &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let told = outcome("privileges", "execute", program.to_str().unwrap());
    assert!(told.starts_with("uid=65534") && !told.contains("root"), "{told}");
}

fn what_it_may_use_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    gets_through("none", "grow", file.to_str().unwrap());
    refused("limits", "grow", file.to_str().unwrap(), "signal 25");
    assert_eq!(fs::metadata(&file).unwrap().len(), 0);
    gets_through("none", "allocate", "");
    refused("limits", "allocate", "", "refused: 0");
    refused("limits", "spin", "", "signal 24");
    let given = File::open("/dev/null").unwrap();
    let copy = left_open(&given);
    let number = copy.to_string();
    gets_through("none", "given-descriptor", &number);
    let outcome = outcome("reader", "given-descriptor", &number);
    assert_ne!(outcome, "got through", "a descriptor that was not meant for it is open");
    // SAFETY: ours, and used by nobody any more.
    unsafe { libc::close(copy) };
}

/// A descriptor as somebody may have forgotten to close it.
fn left_open(file: &File) -> i32 {
    // SAFETY: makes a new descriptor of one that is open.
    unsafe { libc::dup(file.as_raw_fd()) }
}

fn nothing_written_can_be_executed() {
    gets_through("none", "executable-memory", "");
    refused("calls", "executable-memory", "", KILLED);
}

fn a_reader_behind_all_walls_does_its_work() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("given");
    // Root's alone, and given as a descriptor.
    fs::write(&file, "one two two three three three").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    let output = started(&["try", "reader", "work", ""], File::open(&file).unwrap().into());
    assert_eq!(String::from_utf8_lossy(&output.stdout), "got through\n", "{:?}", output.status);
    let aborted = started(&["try", "reader", "abort", ""], Stdio::null());
    assert_eq!(aborted.status.signal(), Some(6), "whoever reads for it must see that it gave up by itself");
    for (what, target) in
        [("open", "/etc/passwd"), ("write", "/tmp/flyball-walls"), ("fork", ""), ("spin", "")]
    {
        assert_ne!(outcome("reader", what, target), "got through");
    }
}

fn a_looker_has_its_folder_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    let file = file.to_str().unwrap();
    for what in ["write", "open", "thread"] {
        gets_through("looker", what, file);
    }
    gets_through("looker", "list", &format!("{}/", folder.path().display()));
    refused("looker", "open-passwd", file, NO_PERMISSION);
    gets_through("none", "open-mode", file);
    for what in ["open-mode", "execute", "fork", "mount"] {
        refused("looking", what, file, NOT_PERMITTED);
        refused("looker", what, file, NOT_PERMITTED);
    }
    refused("looking", "connect", "127.0.0.1:1", NOT_PERMITTED);
    let pid = std::process::id();
    refused("looking", "signal", &pid.to_string(), NOT_PERMITTED);
    refused("looking", "read-memory", &format!("{pid}:{}", SECRET.as_ptr().addr()), NOT_PERMITTED);
}

fn an_unpacker_unpacks_and_does_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let file = folder.path().join("given");
    fs::write(&file, "what is packed\n".repeat(10_000)).unwrap();
    let shell = |script: &str| {
        let output =
            started(&["unpack", "/bin/sh", &format!("-c\n{script}")], File::open(&file).unwrap().into());
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    if let Some(gap) = shell("echo whole").strip_prefix("gap: ") {
        return println!("skipped: an unpacker without {gap}");
    }
    assert_eq!(shell("echo whole"), "whole");
    let written = folder.path().join("written");
    for script in [
        "read line < /etc/passwd && echo broken",
        &format!("echo x > {} && echo broken", written.display()),
        "(echo in another process) && echo broken",
        "read line < /proc/1/environ && echo broken",
        "kill -0 $PPID && echo broken",
    ] {
        assert_eq!(shell(script), "", "{script}");
    }
    assert!(!written.exists());
    if is_root() {
        assert_eq!(shell("exec id -u"), "65534");
    }
    for (program, package) in [("xz", "xz-utils"), ("zstd", "zstd")] {
        let Some(path) =
            ["/usr/bin", "/bin"].map(|f| Path::new(f).join(program)).into_iter().find(|p| p.exists())
        else {
            println!("skipped: {program} is not installed ({package})");
            continue;
        };
        let packed = folder.path().join(program);
        let to = File::create(&packed).unwrap();
        assert!(Command::new(&path).arg("-c").arg(&file).stdout(to).status().unwrap().success());
        let output = started(&["unpack", path.to_str().unwrap(), "-dc"], File::open(&packed).unwrap().into());
        assert!(output.status.success(), "{program}: {:?}", output.status);
        assert_eq!(output.stdout, fs::read(&file).unwrap(), "{program}");
    }
}
