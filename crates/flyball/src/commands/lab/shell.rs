//! `flyball lab shell`.

use super::start;
use crate::exit::End;
use crate::interrupt::Interrupt;
use ::lab::guest::{Reply, Request};
use anyhow::{Context, Result, bail};
use command_line::LabShell;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr};
use session::guests::Console;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use terminal::{self, Watching};

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
    let (rows, columns) =
        tcgetwinsize(terminal::descriptor()?).map_or((24, 80), |size| (size.ws_row, size.ws_col));
    vm.ask(&Request::Shell { rows, columns }, "while its shell ran")?;
    let raw = Raw::enter()?;
    relay(&mut console, vm)?;
    drop(raw);
    let (reply, _) = vm.receive(Duration::from_secs(5), interrupt.flag())?;
    spec.power_off(running, interrupt.flag())?;
    match reply {
        Reply::Exited { code } => Ok(End::Child(code)),
        Reply::Failed { why } => bail!("cannot open a shell in the lab: {why}"),
        other => bail!("the guest answered a shell with {other:?}; please report this"),
    }
}

/// Passes on what is typed and what is printed, until the guest says how the shell ended.
fn relay(console: &mut UnixStream, vm: &::lab::vm::Vm) -> Result<()> {
    let mut buffer = [0; 4096];
    let mut typed = true;
    loop {
        let control = vm.control();
        let typing = stdin();
        let mut fds =
            vec![PollFd::new(console, PollFlags::IN), PollFd::from_borrowed_fd(control, PollFlags::IN)];
        if typed {
            fds.push(PollFd::from_borrowed_fd(typing, PollFlags::IN));
        }
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e).context("cannot wait for the terminal"),
        }
        let came: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        if came[0] {
            let count = console.read(&mut buffer).context("cannot read the guest's console")?;
            let mut out = terminal::verbatim();
            out.write_all(&buffer[..count])
                .and_then(|()| out.flush())
                .context("cannot write to the terminal")?;
        }
        if came.get(2) == Some(&true) {
            let count = std::io::stdin().read(&mut buffer).context("cannot read the terminal")?;
            // At the end of what is typed the shell is told so, as by Ctrl-D at the beginning of a line.
            typed = count > 0;
            let bytes = if typed { &buffer[..count] } else { b"\x04".as_slice() };
            console.write_all(bytes).context("cannot write to the guest's console")?;
        }
        if came[1] && !came[0] {
            return Ok(());
        }
    }
}

/// The terminal, passing on each key as it is; put back when dropped.
struct Raw(Option<Termios>);

impl Raw {
    fn enter() -> Result<Self> {
        if !isatty(stdin()) || !terminal::is_terminal() {
            return Ok(Self(None));
        }
        let before = tcgetattr(stdin()).context("cannot read the terminal's settings")?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Flush, &raw).context("cannot set the terminal")?;
        Ok(Self(Some(before)))
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // A terminal that is gone needs nothing put back.
            let _ = tcsetattr(stdin(), OptionalActions::Flush, before);
        }
    }
}
