//! The last of what a command prints, for whom its output would disturb on a screen.
//!
//! Invariant: the command never waits for whoever looks at it, and memory is bounded.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::{Errno, read};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// How many bytes are kept: more than any screen shows.
const KEPT: usize = 64 << 10;

/// How much is read of what others go on printing when the command has ended.
const AFTERWARDS: usize = 1 << 20;

/// How often the end is looked for, where nothing is printed.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// The last bytes of a command's standard output and standard error.
#[derive(Debug, Default)]
pub struct Tail(Mutex<Vec<u8>>);

impl Tail {
    /// Its last lines, at most so many, the newest last. A line that was drawn over, as a progress bar's is,
    /// counts as one for each time.
    pub fn lines(&self, most: usize) -> Vec<String> {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = bytes.rsplit(|byte| matches!(byte, b'\n' | b'\r')).filter(|line| !line.is_empty());
        let mut lines: Vec<String> =
            all.take(most).map(|line| String::from_utf8_lossy(line).into_owned()).collect();
        lines.reverse();
        lines
    }

    /// Reads what is printed until nobody prints any more, or until it is `over` and all of it is read.
    pub(crate) fn keep(&self, from: &OwnedFd, over: &AtomicBool) {
        // One that blocks would be read too, but its end could be missed.
        let _ = fcntl_setfl(from, OFlags::NONBLOCK);
        let mut bytes = [0; 16 << 10];
        let mut afterwards = 0;
        loop {
            let is_over = over.load(Ordering::Acquire);
            match read(from, &mut bytes) {
                Ok(0) => return,
                Ok(count) => {
                    self.add(&bytes[..count]);
                    afterwards += if is_over { count } else { 0 };
                    if afterwards > AFTERWARDS {
                        return;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if !is_over => {
                    // Whatever it says, reading is tried again.
                    let _ = poll(&mut [PollFd::new(from, PollFlags::IN)], Some(&LOOK));
                }
                Err(_) => return,
            }
        }
    }

    fn add(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        if kept.len() > 2 * KEPT {
            let surplus = kept.len() - KEPT;
            kept.drain(..surplus);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_however_much_is_printed() {
        let tail = Tail::default();
        for number in 0..100_000 {
            tail.add(format!("line {number}\n").as_bytes());
        }
        assert_eq!(tail.lines(2), ["line 99998", "line 99999"]);
        assert!(tail.0.lock().unwrap().len() <= 2 * KEPT);
        tail.add(b"10%\r20%\rno end");
        assert_eq!(tail.lines(3), ["10%", "20%", "no end"]);
        assert_eq!(Tail::default().lines(3), [""; 0]);
    }
}
