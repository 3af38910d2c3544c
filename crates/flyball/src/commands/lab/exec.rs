//! `flyball lab exec -- COMMAND`.

use super::start::{self, Running};
use crate::args::LabExec;
use crate::exit::End;
use crate::interrupt::Interrupt;
use ::lab::guest::{Reply, Request, Stream};
use anyhow::{Result, bail};
use domain::rng::Seed;
use std::io::Write;
use std::time::Duration;

/// How long a command may print nothing: it may run for a day. A guest that is dead is noticed much earlier.
const PATIENCE: Duration = Duration::from_secs(86_400);

/// Runs a command in a machine of its own, and ends as it ended.
pub fn exec(arguments: &LabExec) -> Result<End> {
    let interrupt = Interrupt::catch()?;
    let mut workshop = start::workshop(&arguments.shell)?;
    let image = workshop.image(arguments.shell.kernel.as_deref())?;
    workshop.calibrate(&image, interrupt.flag())?;
    let Running { mut vm, disks: _disks } = workshop.start(&image, false, Seed(0), interrupt.flag())?;
    vm.ask(&Request::Exec { argv: arguments.command.clone() }, "while it ran the command")?;
    loop {
        match vm.receive(PATIENCE, interrupt.flag())? {
            (Reply::Output { stream: Stream::Out }, bytes) => {
                std::io::stdout().write_all(&bytes)?;
                std::io::stdout().flush()?;
            }
            (Reply::Output { stream: Stream::Error }, bytes) => std::io::stderr().write_all(&bytes)?,
            (Reply::Exited { code }, _) => {
                vm.power_off();
                return Ok(End::Child(code));
            }
            (Reply::Failed { why }, _) => bail!("cannot run the command in the lab: {why}"),
            (other, _) => bail!("the guest answered a command with {other:?}; please report this"),
        }
    }
}
