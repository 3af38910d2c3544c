//! Standard output and standard error: everything that this program prints leaves through here, and is inert.
//!
//! Names and messages come from files, tools, disks and guests that may be hostile. [`domain::inert`] makes
//! of every character that a terminal would obey a visible escape. What is a line stays one line: a name with
//! a line break in it cannot forge a message. Colours are clap's, in its help and its messages,
//! and those of screens ([`screen`]), which are put on once the text is inert.
//!
//! What is printed, and how:
//! - what commands list, line by line ([`lines`], [`line`]); documents of the report crate ([`document`]),
//!   whose fields are inert already, and here once more as a whole; JSON ([`json`]), where live characters
//!   become `\u` escapes, so that it means the same;
//! - talk on standard error ([`say`], [`note`], [`warning`], [`error`]), progress, and panics;
//! - exports as text ([`data`]), filtered as they pass, and the files and folders of others ([`Out`]);
//! - the view of a machine at work ([`Looking`], [`play`]), which has the whole terminal while it is drawn.
//!
//! Verbatim by purpose ([`verbatim`], [`verbatim_errors`]) are four: Parquet, which is refused on a terminal;
//! what a command prints in `lab exec`, and the console of `lab shell`, as with ssh: whoever looks into a
//! guest has its terminal; and the answers of supervisors and of confined readers, which go into a pipe of
//! this program's own. The command of `flyball record` is no text of this program's either: it inherits both
//! streams and prints by itself.
//!
//! `xtask tidy` refuses any other way to print in the program.
//!
//! Invariant: no other crate of the program prints. Of the environment it reads `COLUMNS`, `NO_COLOR` and
//! `TERM`, and for which characters a view has `LC_ALL`, `LC_CTYPE` and `LANG`.

mod console;
mod exported;
mod looking;
mod progress;
mod style;
mod view;
mod watching;
mod width;

pub use console::relay;
pub use exported::{Folder, Out};
pub use looking::{Changed, Looking, Recorded, charset, play};
pub use progress::Progress;
pub use watching::{Watching, damaged, restored};
use width::stderr_width;
pub use width::{screen_width, size, width};

use clap::Parser;
use clap::error::{ContextKind, ContextValue};
use domain::inert::{self, Lines};
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::Display;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

/// Begins each line of an error but its first, so that none looks like a message of its own.
const CONTINUED: &str = "  | ";

/// A bound on what is read of an answer to a question.
const MAX_ANSWER: u64 = 64;

/// What was typed; after a message, the code to exit with.
pub fn arguments<T: Parser>() -> Result<T, ExitCode> {
    let mut error = match T::try_parse() {
        Ok(arguments) => return Ok(arguments),
        Err(error) => error,
    };
    without_dead_ends(&mut error);
    let code = ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
    let typed: Vec<String> = std::env::args_os().map(|word| inert::of_bytes(word.as_bytes())).collect();
    if std::env::args_os().zip(&typed).all(|(word, shown)| word.as_bytes() == shown.as_bytes()) {
        // A message that nobody reads is none that matters.
        let _ = error.print();
    } else {
        // The message repeats what was typed, and a shell's `*` may have typed the name of anybody's file.
        let mut error = T::try_parse_from(typed).err().unwrap_or(error);
        without_dead_ends(&mut error);
        to_stderr(&error.render().to_string());
    }
    Err(code)
}

/// Takes out clap's advice to write an unknown option after `--`, where it would be another command's or
/// none.
fn without_dead_ends(error: &mut clap::Error) {
    if let Some(ContextValue::StyledStrs(mut advice)) = error.remove(ContextKind::Suggested) {
        advice.retain(|text| !text.to_string().contains("as a value, use"));
        if !advice.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(advice));
        }
    }
}

/// The exit code of a program that panicked, as the standard library has it (`library/std/src/rt.rs`).
const PANICKED: i32 = 101;

/// Sees to it that a panic's message is inert too, and is seen; and that a program of which panics do not
/// unwind ends as others do, and not by a signal that has its memory written to the disk.
pub fn watch_panics() {
    std::panic::set_hook(Box::new(|info| {
        // A message on a screen that is taken away would be seen by nobody.
        view::restore();
        let thread = std::thread::current();
        let trace = Backtrace::capture();
        let trace = match trace.status() {
            BacktraceStatus::Captured => trace.to_string(),
            _ => "RUST_BACKTRACE=1 shows where it came from".to_owned(),
        };
        to_stderr(&format!("thread `{}` {info}\n{trace}\n", thread.name().unwrap_or("without a name")));
        if cfg!(panic = "abort") {
            std::process::exit(PANICKED);
        }
    }));
}

/// Prints lines.
pub fn lines(lines: &Lines) -> io::Result<()> {
    to_stdout(lines.as_str())
}

/// Prints one line.
pub fn line(line: impl Display) -> io::Result<()> {
    lines(&[line].into_iter().collect())
}

/// Prints a text of several lines whose fields are inert.
pub fn document(text: &str) -> io::Result<()> {
    to_stdout(&inert::lines(text))
}

/// Prints a screen of sections, with styles where standard output is a terminal that has them.
pub fn screen(text: &str) -> io::Result<()> {
    let text = inert::lines(text);
    to_stdout(&if io::stdout().is_terminal() && style::are_wanted() {
        style::styled(&text)
    } else {
        text.into()
    })
}

/// Prints a text that is JSON.
pub fn json(text: &str) -> io::Result<()> {
    to_stdout(&inert::json(text))
}

/// Standard output for a text that is made piece by piece.
pub fn data() -> impl Write + Send {
    Filter { to: io::stdout(), begun: Vec::new() }
}

/// Standard output for bytes that are no text of this program's: see the module's head for which.
pub fn verbatim() -> impl Write + Send {
    io::stdout()
}

/// The same without the standard library's buffer of lines.
pub fn verbatim_unbuffered() -> impl Write + Send {
    Unbuffered
}

/// Standard error for the same.
pub fn verbatim_errors() -> impl Write + Send {
    io::stderr()
}

struct Unbuffered;

impl Write for Unbuffered {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::io::write(rustix::stdio::stdout(), bytes)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether standard output is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Whether somebody sees a screen and can press keys.
pub fn is_for_keys() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Asks the user to confirm, where there is one: standard input and standard error are a terminal. `None`
/// where there is nobody to ask.
pub fn confirmed(question: impl Display) -> io::Result<Option<bool>> {
    if !(io::stdin().is_terminal() && io::stderr().is_terminal()) {
        return Ok(None);
    }
    to_stderr(&format!("{} [y/N] ", inert::one_line(&question.to_string())));
    let mut answer = String::new();
    io::stdin().lock().take(MAX_ANSWER).read_line(&mut answer)?;
    Ok(Some(["y", "yes"].contains(&answer.trim().to_lowercase().as_str())))
}

/// A line of talk on standard error; on a terminal it is broken between words.
pub fn say(line: impl Display) {
    to_stderr(&format!("{}\n", laid_out(&inert::one_line(&line.to_string()))));
}

/// Whether there is a terminal for what is said.
pub fn is_terminal_for_talk() -> bool {
    io::stderr().is_terminal()
}

/// A line as the terminal for talk has room for it; as it is where there is no terminal.
pub fn laid_out(line: &str) -> String {
    match stderr_width().filter(|_| is_terminal_for_talk()) {
        Some(width) => report::broken(line, width).join("\n"),
        None => line.to_owned(),
    }
}

/// Something to know.
pub fn note(note: impl Display) {
    say(format_args!("note: {note}"));
}

/// Something that is wrong, and no reason to end.
pub fn warning(warning: impl Display) {
    say(format_args!("warning: {warning}"));
}

/// The same for crates that warn and do not print.
pub fn warn(warning: &dyn Display) {
    self::warning(warning);
}

/// The error with which the program ends. Only the faults of a study, which are inert line by line, stand at
/// the margin: an editor finds them there.
pub fn error(error: &anyhow::Error, is_of_study: bool) {
    let text = chain(error);
    let mut lines = text.lines();
    let mut shown =
        format!("{}\n", laid_out(&format!("error: {}", inert::one_line(lines.next().unwrap_or_default()))));
    for line in lines.map(inert::one_line) {
        shown += &if is_of_study { format!("{line}\n") } else { continued(&line) };
    }
    to_stderr(&shown);
}

/// A line of an error but its first. A command in it stands without the margin, so that it can be copied.
fn continued(line: &str) -> String {
    let Some(width) = stderr_width().filter(|_| is_terminal_for_talk()) else {
        return format!("{CONTINUED}{line}\n");
    };
    let margin =
        |line: &str| if line.starts_with(&" ".repeat(report::COMMAND_INDENT)) { "" } else { CONTINUED };
    let lines = report::broken(line, width.saturating_sub(CONTINUED.len()));
    lines.iter().map(|line| format!("{}{line}\n", margin(line))).collect()
}

/// The error and its causes, leaving out a cause that the text before it already says.
fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Unlike `print!` it returns the error of a closed pipe.
fn to_stdout(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let end: &[u8] = if text.is_empty() || text.ends_with('\n') { b"" } else { b"\n" };
    let written = out.write_all(text.as_bytes()).and_then(|()| out.write_all(end)).and_then(|()| out.flush());
    written.map_err(|e| io::Error::new(e.kind(), format!("cannot write to standard output: {e}")))
}

/// Where standard error is closed nobody listens, and that is no reason to stop.
fn to_stderr(text: &str) {
    let _ = io::stderr().lock().write_all(inert::lines(text).as_bytes());
}

/// Passes a text on, inert.
struct Filter<W: Write> {
    to: W,
    /// The beginning of a character whose end has not come yet.
    begun: Vec<u8>,
}

impl<W: Write> Write for Filter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let mut rest = all.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.to.write_all(inert::lines(text).as_bytes())?;
                    return Ok(bytes.len());
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    self.to.write_all(inert::lines(&String::from_utf8_lossy(valid)).as_bytes())?;
                    let Some(length) = error.error_len() else {
                        self.begun = after.to_owned();
                        return Ok(bytes.len());
                    };
                    let (wrong, after) = after.split_at(length);
                    self.to.write_all(inert::of_bytes(wrong).as_bytes())?;
                    rest = after;
                }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl<W: Write> Drop for Filter<W> {
    fn drop(&mut self) {
        // A character that was never ended; who has left does not miss it.
        let _ = self.to.write_all(inert::of_bytes(&self.begun).as_bytes()).and_then(|()| self.to.flush());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(pieces: &[&[u8]]) -> String {
        let mut out = Vec::new();
        let mut filter = Filter { to: &mut out, begun: Vec::new() };
        pieces.iter().for_each(|piece| filter.write_all(piece).unwrap());
        drop(filter);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_stream_is_inert_wherever_it_is_divided() {
        let text = "a\x1b[2Jé\u{202e},\u{9b}1\nx\t".as_bytes();
        let whole = filtered(&[text]);
        assert_eq!(whole, "a\\x1b[2Jé\\u{202e},\\x9b1\nx\t");
        for at in 0..text.len() {
            assert_eq!(filtered(&[&text[..at], &text[at..]]), whole);
        }
        assert_eq!(filtered(&[b"\xff\xc3", b"(", b"\xe2\x80"]), "\\xff\\xc3(\\xe2\\x80");
    }

    #[test]
    fn a_cause_that_was_said_is_not_said_again() {
        let cause =
            anyhow::anyhow!("no such file").context("cannot read `a`: no such file").context("cannot go on");
        assert_eq!(chain(&cause), "cannot go on: cannot read `a`: no such file");
    }
}
