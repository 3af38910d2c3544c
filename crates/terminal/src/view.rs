//! The whole terminal as a screen that is drawn many times a second, and its keys.
//!
//! The terminal is put back however this ends: dropped, or by a panic's hook before its message is printed.
//! What is drawn is inert: each piece of text becomes so here.

use crate::style;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, poll, read};
use crossterm::style::{Attribute, Color, Print, ResetColor, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, queue};
use domain::inert;
use ratatui_core::buffer::{Buffer, Cell};
use ratatui_core::layout::Rect;
use ratatui_core::style::{Color as BufferColor, Modifier, Style as BufferStyle};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::stdio::stdin;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use watch::{Key, Line, Size, Style};

/// Whether the terminal is ours at the moment.
static OPEN: AtomicBool = AtomicBool::new(false);

/// Room for a frame in bytes; a larger one grows once.
const FRAME_BYTES: usize = 16 << 10;

/// The terminal as one screen.
pub struct View {
    has_styles: bool,
    size: Size,
    rows: Vec<Row>,
    bytes: Vec<u8>,
    /// Those that were pressed and not asked for yet.
    keys: VecDeque<Key>,
}

/// A row of the screen, as it was drawn.
struct Row {
    line: Line,
    cells: Buffer,
}

impl View {
    /// Takes the terminal.
    ///
    /// # Errors
    /// Where it cannot be set.
    pub fn open() -> io::Result<Self> {
        enable_raw_mode()?;
        OPEN.store(true, Ordering::Release);
        let (size, bytes) = (Size { columns: 0, rows: 0 }, Vec::with_capacity(FRAME_BYTES));
        let mut view =
            Self { has_styles: style::are_wanted(), size, rows: Vec::new(), bytes, keys: VecDeque::new() };
        queue!(view.bytes, EnterAlternateScreen, cursor::Hide)?;
        view.flush()?;
        Ok(view)
    }

    /// How large it is now.
    ///
    /// # Errors
    /// Where the terminal does not say.
    pub fn size() -> io::Result<Size> {
        let size = rustix::termios::tcgetwinsize(io::stdout())?;
        // A serial line knows of no size.
        let or = |length: u16, usual: usize| if length > 0 { usize::from(length) } else { usual };
        Ok(Size { columns: or(size.ws_col, 80), rows: or(size.ws_row, 24) })
    }

    /// Draws lines from the top; what has not changed is not written again.
    ///
    /// # Errors
    /// Where the terminal cannot be written.
    pub fn draw(&mut self, lines: &[Line], size: Size) -> io::Result<()> {
        if self.size != size {
            // A terminal that was resized shows anything.
            let side = |length: usize| u16::try_from(length).unwrap_or(u16::MAX);
            let area = |row| Rect::new(0, row, side(size.columns), 1);
            let blank = |row| Row { line: Line::default(), cells: Buffer::empty(area(row)) };
            self.rows = (0..side(size.rows)).map(blank).collect();
            self.size = size;
            queue!(self.bytes, ResetColor, Clear(ClearType::All))?;
        }
        let nothing = Line::default();
        let lines = lines.iter().chain(std::iter::repeat(&nothing));
        for (row, line) in self.rows.iter_mut().zip(lines).filter(|(row, line)| row.line != **line) {
            let next = cells(line, row.cells.area, self.has_styles);
            put(&mut self.bytes, &row.cells.diff(&next))?;
            *row = Row { line: line.clone(), cells: next };
        }
        self.flush()
    }

    /// The next key within this time; `None` where none was pressed.
    ///
    /// # Errors
    /// Where the terminal cannot be read, or has hung up.
    pub fn key(&mut self, within: Duration) -> io::Result<Option<Key>> {
        if let Some(key) = self.keys.pop_front() {
            return Ok(Some(key));
        }
        // Waited for here: the library reads a terminal that has hung up again and again, and never returns.
        if is_readable(within)? {
            while poll(Duration::ZERO)? {
                if let Event::Key(key) = read()?
                    && key.kind != KeyEventKind::Release
                {
                    self.keys.extend(key_of(key));
                }
            }
        }
        Ok(self.keys.pop_front())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        let written = out.write_all(&self.bytes).and_then(|()| out.flush());
        self.bytes.clear();
        written
    }
}

impl Drop for View {
    fn drop(&mut self) {
        restore();
    }
}

/// Gives the terminal back, where it is ours.
pub fn restore() {
    if OPEN.swap(false, Ordering::AcqRel) {
        let mut bytes = Vec::new();
        // A terminal that is gone needs nothing put back, and bytes in memory can be written.
        let _ = queue!(bytes, ResetColor, SetAttribute(Attribute::Reset), LeaveAlternateScreen, cursor::Show);
        let mut out = io::stdout().lock();
        let _ = out.write_all(&bytes).and_then(|()| out.flush());
        let _ = disable_raw_mode();
    }
}

/// A line, inert, as the cells of its row.
fn cells(line: &Line, area: Rect, has_styles: bool) -> Buffer {
    let mut cells = Buffer::empty(area);
    let mut column = 0;
    for span in &line.0 {
        if column >= area.width {
            break;
        }
        let text = inert::one_line(&span.text);
        let room = usize::from(area.width - column);
        let style = if has_styles { styled(span.style) } else { BufferStyle::new() };
        (column, _) = cells.set_stringn(column, area.y, text, room, style);
    }
    cells
}

fn styled(style: Style) -> BufferStyle {
    let plain = BufferStyle::new();
    match style {
        Style::Plain => plain,
        Style::Heading | Style::Strong => plain.add_modifier(Modifier::BOLD),
        Style::Faint => plain.add_modifier(Modifier::DIM),
        Style::Command => plain.fg(BufferColor::Cyan),
    }
}

/// Writes the cells that changed; the cursor moves only where they do not follow each other.
fn put(bytes: &mut Vec<u8>, changed: &[(u16, u16, &Cell)]) -> io::Result<()> {
    let mut after = None;
    let mut style = (Modifier::empty(), BufferColor::Reset);
    for (column, row, cell) in changed {
        if after != Some((*column, *row)) {
            queue!(bytes, cursor::MoveTo(*column, *row))?;
        }
        if style != (cell.modifier, cell.fg) {
            style = (cell.modifier, cell.fg);
            queue!(bytes, SetAttribute(Attribute::Reset))?;
            if cell.modifier.contains(Modifier::BOLD) {
                queue!(bytes, SetAttribute(Attribute::Bold))?;
            }
            if cell.modifier.contains(Modifier::DIM) {
                queue!(bytes, SetAttribute(Attribute::Dim))?;
            }
            if cell.fg == BufferColor::Cyan {
                queue!(bytes, SetForegroundColor(Color::DarkCyan))?;
            }
        }
        queue!(bytes, Print(cell.symbol()))?;
        // What is wider than a cell has moved the cursor further.
        after = cell.symbol().is_ascii().then_some((*column + 1, *row));
    }
    if style != (Modifier::empty(), BufferColor::Reset) {
        queue!(bytes, SetAttribute(Attribute::Reset))?;
    }
    Ok(())
}

/// Whether something was typed within this time.
fn is_readable(within: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(within).map_err(io::Error::other)?;
    let typing = stdin();
    let mut fds = [PollFd::new(&typing, PollFlags::IN)];
    match rustix::event::poll(&mut fds, Some(&timeout)) {
        Ok(_) => {}
        // A signal: the caller looks whether it was one to end.
        Err(Errno::INTR) => return Ok(false),
        Err(error) => return Err(error.into()),
    }
    let came = fds[0].revents();
    if came.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the terminal has hung up"));
    }
    Ok(came.contains(PollFlags::IN))
}

fn key_of(key: KeyEvent) -> Option<Key> {
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return (key.code == KeyCode::Char('c')).then_some(Key::Escape);
    }
    Some(match key.code {
        KeyCode::Char(c) => Key::Char(c),
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::Left => Key::Left,
        KeyCode::Right => Key::Right,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        KeyCode::Esc => Key::Escape,
        _ => return None,
    })
}
