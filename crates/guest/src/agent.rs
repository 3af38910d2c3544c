//! What the host asks for, done.

use super::{files, load, pacer, timers, trials};
use crate::error::{Doing, Error, Result};
use lab::guest::{BEAT, PORT, Reply, Request, SHELL, Stream, VERSION, receive, send};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{self, File, OpenOptions};
use std::io::{PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the port may take to appear: its driver has been loaded by then.
const PORT_PATIENCE: Duration = Duration::from_secs(10);

/// The end of what a failed preparation printed that goes into its message.
const MAX_SAID: usize = 2_000;

/// Serves the host until it asks for the end, or is gone.
pub(super) fn serve() -> Result<()> {
    let mut port = open_port()?;
    let uptime_ms = uptime_ms();
    reply(&mut port, &Reply::Hello { version: VERSION, uptime_ms }, &[])?;
    loop {
        let (request, _) = receive::<Request>(&mut port).map_err(Error::HostGone)?;
        let replied = match request {
            Request::PowerOff => return Ok(()),
            // What a study needs is opened once; its trials are asked for in there, until something else is.
            Request::Open(opening) => trials::serve(&mut port, &opening),
            other => answer(&mut port, other),
        };
        if let Err(error) = replied {
            reply(&mut port, &Reply::Failed { why: error.to_string() }, &[])?;
        }
    }
}

/// Answers the host.
pub(super) fn reply(port: &mut File, what: &Reply, bytes: &[u8]) -> Result<()> {
    send(port, what, bytes).map_err(Error::HostGone)
}

fn answer(port: &mut File, request: Request) -> Result<()> {
    match request {
        Request::Prepare { modules, lines, paced, stretched } => {
            let prepare = || {
                timers::stretch(stretched)?;
                if paced {
                    pacer::tell_states()?;
                }
                prepare(&modules, &lines)
            };
            beating(port, prepare)?;
            reply(port, &Reply::Done, &[])
        }
        Request::Exec { argv, columns } => exec(port, &argv, columns),
        Request::Calibrate { span_ms } => {
            pacer::calibrate(Duration::from_millis(span_ms))?;
            reply(port, &Reply::Done, &[])
        }
        Request::Inspect => inspect(port),
        Request::Shell { rows, columns } => shell(port, rows, columns),
        Request::Trial { .. } => {
            Err(Error::Refused("a trial was asked for before its study was opened".into()))
        }
        Request::Open(_) | Request::PowerOff => unreachable!("the loop has taken them"),
    }
}

/// The port by its name: which `/dev/vportNpM` it is depends on what else the machine has.
fn open_port() -> Result<File> {
    let deadline = Instant::now() + PORT_PATIENCE;
    loop {
        if let Some(node) = port_node() {
            let opened = OpenOptions::new().read(true).write(true).open(&node);
            return opened.doing(|| format!("open `{}`", node.display()));
        }
        if Instant::now() > deadline {
            return Err(Error::Refused(format!("the port `{PORT}` did not appear")));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn port_node() -> Option<PathBuf> {
    let ports = fs::read_dir("/sys/class/virtio-ports").ok()?;
    let named = |folder: &PathBuf| fs::read_to_string(folder.join("name")).is_ok_and(|n| n.trim() == PORT);
    let folder = ports.filter_map(|p| Some(p.ok()?.path())).find(named)?;
    let node = PathBuf::from("/dev").join(folder.file_name()?);
    node.exists().then_some(node)
}

fn uptime_ms() -> u64 {
    let text = fs::read_to_string("/proc/uptime").unwrap_or_default();
    let seconds: f64 = text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0);
    (seconds * 1e3) as u64
}

/// Does something, and says every few seconds that it goes on.
pub(super) fn beating<T>(port: &mut File, work: impl FnOnce() -> T) -> T {
    beating_on(&Mutex::new(port), work)
}

fn beating_on<T>(port: &Mutex<&mut File>, work: impl FnOnce() -> T) -> T {
    let (done, is_done) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || beat(port, &is_done));
        let result = work();
        drop(done);
        result
    })
}

/// Says every few seconds that it goes on, until the other end of `is_done` is dropped.
pub(super) fn beat(port: &Mutex<&mut File>, is_done: &Receiver<()>) {
    while is_done.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
        let mut port = port.lock().unwrap_or_else(PoisonError::into_inner);
        // A host that is gone is noticed by whoever sends next.
        let _ = send(&mut **port, &Reply::Alive, &[]);
    }
}

fn prepare(modules: &[String], lines: &[String]) -> Result<()> {
    for module in modules {
        load(module)?;
    }
    for line in lines {
        let output = Command::new("/bin/bash").args(["-ec", line]).stdin(Stdio::null()).output();
        let output = output.doing(|| "run /bin/bash in the guest".into())?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned();
            let from = said.char_indices().rev().nth(MAX_SAID).map_or(0, |(at, _)| at);
            return Err(Error::Refused(format!(
                "the preparation `{line}` ended with {}; it said: {}",
                output.status,
                &said[from..]
            )));
        }
    }
    Ok(())
}

fn inspect(port: &mut File) -> Result<()> {
    let inventory = beating(port, || machine::inventory::take(&machine::LocalMachine))?;
    let identity = machine::inventory::identity(&inventory);
    let inventory =
        serde_json::to_string_pretty(&inventory).doing(|| "write the inventory as JSON".into())?;
    reply(port, &Reply::Inspected { inventory, identity }, &[])
}

fn exec(port: &mut File, argv: &[String], columns: Option<usize>) -> Result<()> {
    let (program, arguments) =
        argv.split_first().ok_or_else(|| Error::Refused("no command was given".into()))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.envs(columns.map(|columns| ("COLUMNS", columns.to_string()))).envs(pacer::variable());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            let text = format!("cannot run `{program}` in the guest: {error}\n");
            reply(port, &Reply::Output { stream: Stream::Error }, text.as_bytes())?;
            let code = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
            return reply(port, &Reply::Exited { code }, &[]);
        }
    };
    let (mut out, mut error) = (child.stdout.take(), child.stderr.take());
    let (is_over, end) = std::io::pipe().doing(|| "make a pipe".into())?;
    let shared = Mutex::new(port);
    let status = beating_on(&shared, || {
        std::thread::scope(|scope| {
            scope.spawn(|| pass_on(out.as_mut(), Stream::Out, &shared, &is_over));
            scope.spawn(|| pass_on(error.as_mut(), Stream::Error, &shared, &is_over));
            let status = child.wait().doing(|| "wait for the command".into());
            drop(end);
            status
        })
    })?;
    let port = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
    reply(port, &Reply::Exited { code: code_of(status) }, &[])
}

/// For so long is passed on what others go on to write after the command has ended.
const AFTER_THE_END: Duration = Duration::from_secs(1);

/// Passes on what a command writes, until that is closed, or the command has ended and nothing more is there:
/// what it leaves running in the background has its output open for as long as it runs. The other end of
/// `is_over` is closed where the command has ended. A host that takes no more is noticed by whoever sends
/// next.
fn pass_on(
    from: Option<&mut (impl Read + AsFd)>,
    stream: Stream,
    port: &Mutex<&mut File>,
    is_over: &PipeReader,
) {
    let Some(from) = from else { return };
    let mut buffer = vec![0; files::PIECE];
    let mut end: Option<Instant> = None;
    while end.is_none_or(|end| end.elapsed() < AFTER_THE_END) {
        let mut both = [PollFd::new(&*from, PollFlags::IN), PollFd::new(is_over, PollFlags::IN)];
        match poll(&mut both, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return,
        }
        let [has_more, has_ended] = both.map(|one| !one.revents().is_empty());
        if has_ended && !has_more {
            return;
        }
        end = end.or_else(|| has_ended.then(Instant::now));
        let Ok(count @ 1..) = from.read(&mut buffer) else { return };
        let mut port = port.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = send(&mut **port, &Reply::Output { stream }, &buffer[..count]);
    }
}

fn code_of(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// A shell that leads a session of its own on the console, so that Ctrl-C reaches what runs in it.
fn shell(port: &mut File, rows: u16, columns: u16) -> Result<()> {
    let console =
        || OpenOptions::new().read(true).write(true).open(SHELL).doing(|| format!("open `{SHELL}`"));
    let mut greeting = console()?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let text =
        format!("Flyball lab, Linux {}; `exit` ends it, and all but kept disks is gone\r\n", kernel.trim());
    greeting.write_all(text.as_bytes()).doing(|| format!("write to `{SHELL}`"))?;
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&greeting, size).doing(|| "set the console's size".into())?;
    let mut command = Command::new("/bin/bash");
    command.arg("-i").env("PS1", "lab:\\w# ").envs(pacer::variable());
    command.stdin(console()?).stdout(console()?).stderr(console()?);
    let lead = || {
        rustix::process::setsid()?;
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        Ok(())
    };
    // SAFETY: between fork and exec only system calls are made, which is safe in any program.
    unsafe { command.pre_exec(lead) };
    let status = command.status().doing(|| "run /bin/bash in the guest".into())?;
    reply(port, &Reply::Exited { code: code_of(status) }, &[])
}
