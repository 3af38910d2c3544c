//! Marks of somebody in a recording that goes on: names of what begins, as lines that are written to a named
//! pipe beside the recording, or to a descriptor that a recorded command inherits.
//!
//! A mark's time is when its line was read. Its reader sleeps until a line comes, so that it is late by what
//! a thread waits for a CPU.

use domain::Nanos;
use domain::phase::Mark;
use files::fifo::{self, Fifo};
use machine::workload;
use recorder::{Recorder, monotonic};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, read};
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::JoinHandle;

/// The variable that has the pipe's name, for a recorded command.
pub const PATH_VARIABLE: &str = "FLYBALL_MARKS";

/// The variable that has the number of a descriptor that writes to it: for who may not open the pipe.
pub const DESCRIPTOR_VARIABLE: &str = "FLYBALL_MARK_FD";

/// The pipe's name in the folder of what a recording keeps besides its trace.
const NAME: &str = "marks";

/// A line is no longer; of a longer one the begin counts.
const MAX_LINE: usize = 4096;

/// What was marked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// In the order of time; at most [`Mark::MAX`].
    pub marks: Vec<Mark>,
    /// How many more there were.
    pub left_out: usize,
}

impl Marked {
    /// What is missing, in words.
    pub fn is_cut(&self) -> Option<String> {
        let (more, most) = (self.left_out, Mark::MAX);
        (more > 0).then(|| format!("{more} marks: a recording keeps the first {most}"))
    }
}

/// Reads marks until it is told to end.
#[derive(Debug)]
pub struct Marks {
    path: PathBuf,
    /// Of the pipe, for a recorded command.
    writing_end: OwnedFd,
    /// Closed, it tells the thread to end.
    end: OwnedFd,
    thread: JoinHandle<Marked>,
}

impl Marks {
    /// Begins to read what is written to a pipe in this folder.
    ///
    /// # Errors
    /// Where the pipe cannot be made, or no thread started.
    pub fn listen(folder: &Path, recorder: &Recorder) -> io::Result<Self> {
        let pipe = Fifo::make(&folder.join(NAME))?;
        let path = pipe.path().to_owned();
        let writing_end =
            fifo::open_for_writing(&path)?.ok_or_else(|| io::Error::other("its name was removed"))?.into();
        let (ending, end) = pipe_with(PipeFlags::CLOEXEC)?;
        let origin = recorder.origin();
        let thread = std::thread::Builder::new()
            .name("flyball-marks".to_owned())
            .spawn(move || Reader::new(origin).read_until(&ending, &pipe))?;
        Ok(Self { path, writing_end, end, thread })
    }

    /// Tells a command where it marks: by the pipe's name, and by a descriptor that it inherits.
    pub fn tell(&self, command: &mut Command) {
        command.env(PATH_VARIABLE, &self.path);
        command.env(DESCRIPTOR_VARIABLE, self.writing_end.as_raw_fd().to_string());
        workload::inherits(command, &self.writing_end);
    }

    /// Reads what was written until now, and ends.
    pub fn stop(self) -> Marked {
        drop(self.end);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// What was read so far.
struct Reader {
    origin: Nanos,
    line: Vec<u8>,
    marked: Marked,
}

impl Reader {
    fn new(origin: Nanos) -> Self {
        Self { origin, line: Vec::new(), marked: Marked::default() }
    }

    fn read_until(mut self, ending: &OwnedFd, pipe: &Fifo) -> Marked {
        loop {
            let mut both =
                [PollFd::new(pipe.reading_end(), PollFlags::IN), PollFd::new(ending, PollFlags::IN)];
            // Whatever it says, reading is tried.
            let _ = poll(&mut both, None);
            let is_over = !both[1].revents().is_empty();
            self.drain(pipe.reading_end());
            if is_over {
                // The last line may have no end.
                self.take_line();
                return self.marked;
            }
        }
    }

    fn drain(&mut self, from: &OwnedFd) {
        let mut bytes = [0; 4096];
        loop {
            match read(from, &mut bytes) {
                Ok(0) => return,
                Ok(count) => self.take(&bytes[..count]),
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' => self.take_line(),
                _ if self.line.len() < MAX_LINE => self.line.push(*byte),
                _ => {}
            }
        }
    }

    fn take_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let Some(name) = Mark::name_of(&String::from_utf8_lossy(&line)) else { return };
        if self.marked.marks.len() < Mark::MAX {
            let at = monotonic().saturating_sub(self.origin);
            self.marked.marks.push(Mark { at, name });
        } else {
            self.marked.left_out += 1;
        }
    }
}

/// The pipe of a recording that keeps what is not its trace in this folder; `None` where nobody reads it.
///
/// # Errors
/// As open(2) gives them.
pub fn of_recording(folder: &Path) -> io::Result<Option<File>> {
    open(&folder.join(NAME))
}

/// A pipe by its name; `None` where nobody reads it.
///
/// # Errors
/// As open(2) gives them; [`io::ErrorKind::InvalidInput`] where it is no pipe.
pub fn open(pipe: &Path) -> io::Result<Option<File>> {
    fifo::open_for_writing(pipe)
}

/// Marks by a pipe: in one write, which is not mixed with another's (pipe(7), `PIPE_BUF`).
///
/// # Errors
/// Where nobody reads any more.
pub fn mark(mut pipe: File, name: &str) -> io::Result<()> {
    pipe.write_all(format!("{name}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(bytes: &[&[u8]]) -> Vec<String> {
        let mut reader = Reader::new(Nanos::ZERO);
        bytes.iter().for_each(|bytes| reader.take(bytes));
        reader.take_line();
        reader.marked.marks.into_iter().map(|mark| mark.name).collect()
    }

    #[test]
    fn each_line_is_a_mark_however_it_is_cut() {
        assert_eq!(names(&[b"warm", b" up\nload\n", b"\n  \nthe end"]), ["warm up", "load", "the end"]);
        assert_eq!(names(&[]), [""; 0]);
        let long = vec![b'x'; 1 << 20];
        assert_eq!(names(&[&long, b"\nnext\n"]), [&"x".repeat(Mark::MAX_NAME), "next"]);
    }

    #[test]
    fn there_are_so_many_marks_and_the_rest_is_counted() {
        let mut reader = Reader::new(Nanos::ZERO);
        reader.take("again\n".repeat(Mark::MAX + 3).as_bytes());
        assert_eq!((reader.marked.marks.len(), reader.marked.left_out), (Mark::MAX, 3));
    }
}
