//! `flyball lab shell`.

use super::start;
use crate::exit::End;
use crate::interrupt::Interrupt;
use ::lab::guest::{Reply, Request};
use anyhow::{Context, Result, bail};
use command_line::LabShell;
use session::guests::Console;
use std::time::Duration;
use terminal::Watching;

/// Opens a shell in a machine of its own. Its end is the machine's.
pub fn shell(arguments: &LabShell) -> Result<End> {
    let interrupt = Interrupt::catch()?;
    let mut watching = Watching::default();
    let mut spec = start::spec(arguments)?;
    let image = spec.image(arguments.kernel.as_deref(), &mut watching)?;
    spec.calibrate(&image, interrupt.flag(), &mut watching)?;
    let mut running = spec.start(&image, Console::Open, interrupt.flag(), &mut watching)?;
    let vm = &mut running.vm;
    let mut console = vm.take_console().context("the machine has no console")?;
    let (rows, columns) = terminal::size();
    vm.ask(&Request::Shell { rows, columns }, "while its shell ran")?;
    terminal::relay(&mut console, vm.control())?;
    let (reply, _) = vm.receive(Duration::from_secs(5), interrupt.flag())?;
    start::tell_lateness(&spec, &running);
    spec.power_off(running, interrupt.flag())?;
    match reply {
        Reply::Exited { code } => Ok(End::Child(code)),
        Reply::Failed { why } => bail!("cannot open a shell in the lab: {why}"),
        other => bail!("the guest answered a shell with {other:?}; please report this"),
    }
}
