//! A terminal that a program is started on: what it shows is read by an emulator, and its keys are pressed.
#![allow(unsafe_code, reason = "a pair of terminals has no safe constructor in the standard library")]

use super::bounded;
use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZero;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long a screen may take to show what is waited for: long, for the machine may be busy.
const MOST: Duration = Duration::from_secs(60);

/// A terminal, and the program on it. Dropped, it ends the program.
pub struct Terminal {
    keys: File,
    /// The program's own side, so that its settings can be asked for when it has ended.
    own: OwnedFd,
    written: Receiver<Vec<u8>>,
    emulator: vt100::Parser,
    child: Child,
}

impl Terminal {
    /// Starts a program on a terminal of so many rows and columns.
    pub fn start(command: &mut Command, rows: u16, columns: u16) -> Self {
        let (mut master, mut slave) = (0, 0);
        // SAFETY: both numbers are valid and writable; no name, settings or size are asked for.
        let opened = unsafe {
            libc::openpty(
                &raw mut master,
                &raw mut slave,
                std::ptr::null_mut(),
                std::ptr::null(),
                std::ptr::null(),
            )
        };
        assert_eq!(opened, 0, "openpty: {}", std::io::Error::last_os_error());
        // SAFETY: openpty has given us two descriptors that nobody else has.
        let (keys, own) = unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) };
        resize(&keys, rows, columns);
        let stream = || own.try_clone().unwrap();
        let child = command.stdin(stream()).stdout(stream()).stderr(stream()).spawn().unwrap();
        let (sender, written) = channel();
        let mut screen = keys.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // A terminal whose program and test have left cannot be read any more.
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                if sender.send(bytes[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { keys, own, written, emulator: vt100::Parser::new(side(rows), side(columns), 0), child }
    }

    /// What is on the screen.
    pub fn text(&self) -> String {
        self.emulator.screen().contents()
    }

    /// The same with the escape sequences of its styles, and no others.
    pub fn formatted(&self) -> String {
        let screen = self.emulator.screen();
        let (rows, columns) = screen.size();
        let line = |row| {
            let (mut line, mut style) = (String::new(), String::new());
            for cell in (0..columns.get()).filter_map(|column| screen.cell(row, column)) {
                let codes = codes(cell);
                if codes != style {
                    line += "\u{1b}[0m";
                    line += &codes;
                    style = codes;
                }
                line += if cell.has_contents() { cell.contents() } else { " " };
            }
            let end = if style.is_empty() { "" } else { "\u{1b}[0m" };
            format!("{}{end}\n", line.trim_end())
        };
        (0..rows.get()).map(line).collect()
    }

    /// The screen once it is as it is wanted.
    pub fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        assert!(self.becomes(is_so), "no {what} within {MOST:?}; the screen:\n{}", self.text());
        self.text()
    }

    /// Whether the screen becomes as it is wanted, before the program ends or it takes too long.
    pub fn becomes(&mut self, is_so: impl Fn(&str) -> bool) -> bool {
        let deadline = Instant::now() + MOST;
        while !is_so(&self.text()) {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(bytes) = self.written.recv_timeout(left) else { return false };
            self.emulator.process(&bytes);
        }
        true
    }

    /// The screen once it has this text.
    pub fn shows(&mut self, text: &str) -> String {
        self.until(text, |screen| screen.contains(text))
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Makes the terminal larger or smaller.
    pub fn resize(&mut self, rows: u16, columns: u16) {
        self.emulator.screen_mut().set_size(side(rows), side(columns));
        resize(&self.keys, rows, columns);
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the program's end, and sees that it has given the terminal back: how it ended, and what it
    /// left on the screen.
    pub fn ended(mut self) -> (ExitStatus, String) {
        let status = bounded::wait(&mut self.child);
        while let Ok(bytes) = self.written.recv_timeout(Duration::from_millis(500)) {
            self.emulator.process(&bytes);
        }
        let screen = self.emulator.screen();
        assert!(!screen.alternate_screen() && !screen.hide_cursor(), "the terminal was not given back");
        assert!(is_cooked(&self.own), "the terminal was left raw");
        (status, self.text())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The sequences of a cell's style.
fn codes(cell: &vt100::Cell) -> String {
    let codes = [
        (cell.bold(), "\u{1b}[1m"),
        (cell.dim(), "\u{1b}[2m"),
        (cell.fgcolor() == vt100::Color::Idx(6), "\u{1b}[36m"),
    ];
    codes.iter().filter(|(is_so, _)| *is_so).map(|(_, code)| *code).collect()
}

fn side(length: u16) -> NonZero<u16> {
    NonZero::new(length).unwrap()
}

fn resize(terminal: &File, rows: u16, columns: u16) {
    let size = libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the descriptor is open, and the size is valid for the call.
    assert_eq!(unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) }, 0);
}

/// Whether lines are edited and echoed, as a shell wants it.
fn is_cooked(terminal: &OwnedFd) -> bool {
    // SAFETY: termios is plain numbers, for which zeros are valid.
    let mut settings: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, and the settings are writable.
    assert_eq!(unsafe { libc::tcgetattr(terminal.as_raw_fd(), &raw mut settings) }, 0);
    let wanted = libc::ICANON | libc::ECHO | libc::ISIG;
    settings.c_lflag & wanted == wanted
}
