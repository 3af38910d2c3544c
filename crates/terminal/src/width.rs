//! How wide the terminal is.

use std::{env, io};

/// How wide standard error is, as [`width`] says it of standard output.
pub fn stderr_width() -> Option<usize> {
    let of_terminal = || {
        let size = rustix::termios::tcgetwinsize(io::stderr()).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    };
    columns().or_else(of_terminal)
}

/// How wide standard output is: what `COLUMNS` says, else the terminal; `None` where it is neither.
pub fn width() -> Option<usize> {
    let of_terminal = || {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    };
    columns().or_else(of_terminal)
}

/// The width of a screen where standard output is no terminal, and the least that is laid out.
const SCREEN: usize = 80;
const MIN_SCREEN: usize = 40;

/// How wide a page of one screen is.
pub fn screen_width() -> usize {
    width().unwrap_or(SCREEN).max(MIN_SCREEN)
}

/// How wide the user says that the terminal is: `COLUMNS`, which shells set and people override.
fn columns() -> Option<usize> {
    let text = env::var("COLUMNS").ok()?;
    text.trim().parse().ok().filter(|columns| *columns > 0)
}

/// Rows and columns of the terminal that standard output is; 24 and 80 where it is none.
pub fn size() -> (u16, u16) {
    rustix::termios::tcgetwinsize(io::stdout()).map_or((24, 80), |size| (size.ws_row, size.ws_col))
}
