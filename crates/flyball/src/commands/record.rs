//! `flyball record`: a trace of this machine, or of a command, without a study.

use crate::args::{Global, Record};
use crate::exit::{End, Usage};
use crate::interrupt::Interrupt;
use crate::{places, terminal};
use anyhow::{Context, Result};
use domain::inert::Lines;
use domain::trace::Role;
use domain::units::Bytes;
use domain::{Nanos, Timestamp};
use machine::supervise::{Supervisor, watch_main};
use machine::workload::{self, Mark};
use machine::{LocalMachine, Machine};
use notebook::{Notebook, Recording, RecordingFolder};
use recorder::{Recorder, RecorderConfig};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::json;
use std::io::{self, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// The version of the JSON form of a recording.
const SCHEMA: u32 = 1;

/// How often the end of the command is looked for: ten wake-ups a second are below what an idle kernel does.
const LOOK: Duration = Duration::from_millis(100);

/// How long an interrupted command may take to end before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Records until the command ends, the time is over, or somebody asks us to stop.
pub fn record(global: &Global, arguments: &Record) -> Result<End> {
    let interrupt = Interrupt::catch()?;
    let now = LocalMachine.now();
    let name = name(now);
    let mut folder = match &arguments.out {
        Some(folder) => RecordingFolder::at(folder)?,
        None => Notebook::create(&places::notebook(global)?)?.begin_recording(&name)?,
    };
    let watcher = watcher(global, arguments)?;
    let inventory = machine::inventory::take(&LocalMachine)?;
    let spool = folder.raw_dir().join("samples.spool");
    let recorder = Recorder::start(RecorderConfig::new(arguments.interval, spool.clone()))?;
    let children_before = recorder::children_cpu();
    let begun = Instant::now();
    let status = follow(arguments, &recorder, &interrupt);
    let duration = Nanos::new(begun.elapsed().as_nanos() as u64);
    let mut recorded = recorder.stop()?;
    let status = status?;
    recorded.set_workload_cpu(recorder::children_cpu() - children_before);
    recorded.decode(folder.sink())?;
    std::fs::remove_file(&spool).with_context(|| format!("cannot remove `{}`", spool.display()))?;
    let recording = Recording {
        name,
        machine: machine::inventory::identity(&inventory),
        started: now,
        command: (!arguments.command.is_empty()).then(|| arguments.command.clone()),
        exit_code: status.and_then(|s| s.code()),
        environment: runner::environment::fixed(&LocalMachine),
        duration,
        roles: recorded.roles().clone(),
        threads: recorded.threads().to_vec(),
        disks: recorded.disks().to_vec(),
        recorder: recorded.report().clone(),
    };
    let kept = folder.commit(&recording)?;
    watcher.done()?;
    if global.json {
        terminal::json(&as_json(&recording, &kept))?;
    } else {
        terminal::lines(&as_text(&recording, &kept))?;
    }
    match status {
        Some(status) if !status.success() => Ok(End::Child(code_of(status))),
        _ => Ok(End::Done),
    }
}

/// The code that a shell gives to it: 128 and the number of the signal where one ended it.
fn code_of(status: ExitStatus) -> i32 {
    status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1)
}

/// This program once more, to end what is recorded should this process be killed, and to remove what was half
/// written. Dropped before it was told that all is done, it takes us for dead: what an error leaves running
/// is ended too.
fn watcher(global: &Global, arguments: &Record) -> Result<Supervisor> {
    let program = std::env::current_exe()
        .context("cannot find this program's own file, to watch over the recording")?;
    let mut command = Command::new(program);
    match &arguments.out {
        Some(folder) => command.arg("watch-recording").arg("--out").arg(places::absolute(folder)?),
        None => command
            .arg("--notebook")
            .arg(places::absolute(&places::notebook(global)?)?)
            .arg("watch-recording"),
    };
    Ok(Supervisor::start(command)?)
}

/// The watcher's own half.
pub fn watch(global: &Global, out: Option<&Path>) -> Result<End> {
    let Some(ended) = watch_main(BufReader::new(io::stdin()), terminal::verbatim())? else {
        return Ok(End::Done);
    };
    if ended > 0 {
        // Standard error is still the terminal of the one that died.
        terminal::note(format_args!(
            "flyball was killed while it recorded; ended what it recorded: {ended} processes"
        ));
    }
    match out {
        Some(folder) => RecordingFolder::sweep(folder)?,
        // Opening a notebook sweeps it.
        None => drop(Notebook::open(&places::notebook(global)?)?),
    }
    Ok(End::Done)
}

/// Runs the command, or waits; `None` where there was no command.
fn follow(arguments: &Record, recorder: &Recorder, interrupt: &Interrupt) -> Result<Option<ExitStatus>> {
    let deadline = arguments.duration.map(|d| Instant::now() + Duration::from(d));
    let over = || interrupt.came() || deadline.is_some_and(|d| Instant::now() >= d);
    let Some((program, rest)) = arguments.command.split_first() else {
        while !over() {
            std::thread::sleep(LOOK.min(left(deadline)));
        }
        return Ok(None);
    };
    let mark = Mark::of_recorded_command();
    let mut command = Command::new(program);
    // It stays in our process group: one in the background may not read from the terminal.
    command.args(rest).env(workload::VARIABLE, mark.as_str());
    // Where the watcher is killed as well.
    workload::dies_with_us(&mut command, Signal::TERM);
    let mut child =
        command.spawn().map_err(|e| Usage(format!("cannot run `{program}`: {e}; nothing was recorded")))?;
    recorder.follow(child.id());
    while !over() {
        if ends_within(&child, LOOK.min(left(deadline)))? {
            return Ok(Some(child.wait()?));
        }
    }
    Ok(Some(stop(&mut child, &mark)?))
}

/// Asks a command and all that it started to end, and kills what does not.
fn stop(child: &mut Child, mark: &Mark) -> Result<ExitStatus> {
    // One that has cleared its environment, or runs as somebody else.
    if !mark.is_carried_by(child.id()) {
        kill_process(Pid::from_child(child), Signal::TERM).context("cannot end the command")?;
    }
    workload::ask_to_end(mark, GRACE);
    if !ends_within(child, GRACE)? {
        child.kill()?;
    }
    Ok(child.wait()?)
}

/// Waits for the end of a child, without a wake-up until it comes or the span is over.
fn ends_within(child: &Child, span: Duration) -> Result<bool> {
    let pidfd =
        pidfd_open(Pid::from_child(child), PidfdFlags::empty()).context("cannot watch the command")?;
    let timeout = Timespec::try_from(span).expect("spans are seconds");
    match poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        // A signal to us: the caller looks whether it was the interruption.
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error).context("cannot wait for the command"),
    }
}

fn left(deadline: Option<Instant>) -> Duration {
    deadline.map_or(Duration::MAX, |d| d.saturating_duration_since(Instant::now()))
}

/// `20261120-140502-7f3a`.
fn name(now: Timestamp) -> String {
    let digits: String = now.iso().chars().filter(char::is_ascii_digit).collect();
    format!("{}-{}-{:04x}", &digits[..8], &digits[8..], now.unix_nanos() & 0xffff)
}

fn as_text(recording: &Recording, kept: &Path) -> Lines {
    let mut text = Lines::default();
    let Recording { duration, recorder, .. } = recording;
    text.line(format_args!("recorded {duration}: {} samples, {} missed", recorder.samples, recorder.missed));
    let each = recorder.cpu.get() as f64 / recorder.samples.max(1) as f64 / 1e3;
    text.line(format_args!("the recorder itself used {} of CPU time, {each:.0} µs a sample", recorder.cpu));
    text.line(format_args!("frequency from: {}", recorder.frequency.name()));
    for reason in &recorder.absent {
        text.line(format_args!("not recorded: {reason}"));
    }
    text.blank();
    text.line("CPU time by role");
    for role in Role::ALL {
        if let Some(cpu) = recording.roles.get(&role) {
            let share = cpu.get() as f64 / duration.get().max(1) as f64;
            text.line(format_args!("  {:10} {:>9}  {share:.2} CPUs", role.name(), cpu.to_string()));
        }
    }
    text.blank();
    text.line("busiest threads");
    for thread in recording.threads.iter().take(8) {
        text.line(format_args!(
            "  {:20} {:>9}  {} ({})",
            thread.name,
            thread.cpu.to_string(),
            thread.role,
            thread.tid
        ));
    }
    if !recording.disks.is_empty() {
        text.blank();
        text.line("disks");
    }
    for disk in &recording.disks {
        let (read, written) =
            (Bytes::from_sectors(disk.read_sectors), Bytes::from_sectors(disk.write_sectors));
        text.line(format_args!(
            "  {:10} read {read} in {}, wrote {written} in {}, busy {}",
            disk.device, disk.read_ios, disk.write_ios, disk.busy
        ));
    }
    text.blank();
    text.line(kept.display());
    text
}

fn as_json(recording: &Recording, kept: &Path) -> String {
    let roles: serde_json::Map<_, _> =
        recording.roles.iter().map(|(role, cpu)| (role.name().to_owned(), json!(cpu.get()))).collect();
    let value = json!({
        "schema": SCHEMA,
        "folder": kept,
        "started": recording.started.iso(),
        "duration_ns": recording.duration.get(),
        "command": recording.command,
        "exit_code": recording.exit_code,
        "samples": recording.recorder.samples,
        "missed": recording.recorder.missed,
        "recorder_cpu_ns": recording.recorder.cpu.get(),
        "frequency_source": recording.recorder.frequency.name(),
        "absent": recording.recorder.absent,
        "role_cpu_ns": roles,
    });
    format!("{value:#}")
}
