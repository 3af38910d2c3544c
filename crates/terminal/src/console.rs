//! The terminal as another machine's, as with ssh.

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::stdio::stdin;
use rustix::termios::{OptionalActions, Termios, isatty, tcgetattr, tcsetattr};
use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

/// Passes each key to another machine's console and prints what it prints, until `control` can be read: how
/// the shell ended is there.
///
/// # Errors
/// Where the terminal or the console cannot be read, written or set.
pub fn relay(console: &mut UnixStream, control: BorrowedFd<'_>) -> Result<()> {
    let _raw = Raw::enter()?;
    let mut buffer = [0; 4096];
    let mut typed = true;
    loop {
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
            let count = console.read(&mut buffer).context("cannot read the console")?;
            let mut out = super::verbatim();
            out.write_all(&buffer[..count])
                .and_then(|()| out.flush())
                .context("cannot write to the terminal")?;
        }
        if came.get(2) == Some(&true) {
            let count = std::io::stdin().read(&mut buffer).context("cannot read the terminal")?;
            // At the end of what is typed the shell is told so, as by Ctrl-D at the beginning of a line.
            typed = count > 0;
            let bytes = if typed { &buffer[..count] } else { b"\x04".as_slice() };
            console.write_all(bytes).context("cannot write to the console")?;
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
        if !isatty(stdin()) || !super::is_terminal() {
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
