//! `flyball lab exec -- COMMAND`.

use super::start;
use crate::exit::End;
use crate::interrupt::Interrupt;
use ::lab::Awake;
use ::lab::guest::{Reply, Request, Stream};
use anyhow::{Result, bail};
use command_line::LabExec;
use session::guests::{Console, RunningGuest};
use std::io::Write;
use std::time::{Duration, Instant};
use terminal::{self, Watching};

/// How long a command may print nothing: it may run for a day. A guest that is dead is noticed much earlier.
const PATIENCE: Duration = Duration::from_secs(86_400);

/// The exit code where the power was cut: a shell's for a command that SIGKILL ended, as this one was with
/// its machine.
const POWER_CUT: i32 = 128 + 9;

/// Runs a command in a machine of its own, and ends as it ended.
pub fn exec(arguments: &LabExec) -> Result<End> {
    let interrupt = Interrupt::catch()?;
    let mut watching = Watching::default();
    let mut spec = start::spec(&arguments.shell)?;
    let image = spec.image(arguments.shell.kernel.as_deref(), &mut watching)?;
    let _awake = Awake::keep();
    spec.calibrate(&image, interrupt.flag(), &mut watching)?;
    let mut running = spec.start(&image, Console::None, interrupt.flag(), &mut watching)?;
    let vm = &mut running.vm;
    let request = Request::Exec { argv: arguments.command.clone(), columns: terminal::width() };
    vm.ask(&request, "while it ran the command")?;
    let end = arguments.cut_power_after.map(|span| Instant::now() + Duration::from(span));
    loop {
        let Some((reply, bytes)) = vm.receive_until(end, PATIENCE, interrupt.flag())? else {
            return Ok(cut_power(running));
        };
        match reply {
            Reply::Output { stream: Stream::Out } => {
                let mut out = terminal::verbatim();
                out.write_all(&bytes).and_then(|()| out.flush())?;
            }
            Reply::Output { stream: Stream::Error } => terminal::verbatim_errors().write_all(&bytes)?,
            Reply::Exited { code } => {
                start::tell_lateness(&spec, &running);
                spec.power_off(running, interrupt.flag())?;
                return Ok(End::Child(code));
            }
            Reply::Failed { why } => bail!("cannot run the command in the lab: {why}"),
            other => bail!("the guest answered a command with {other:?}; please report this"),
        }
    }
}

/// The machine first, then its disks: what it sent at the last moment they may still get, and lose.
fn cut_power(running: RunningGuest) -> End {
    let RunningGuest { vm, disks } = running;
    vm.cut_power();
    drop(disks);
    terminal::say("the power was cut");
    End::Child(POWER_CUT)
}
