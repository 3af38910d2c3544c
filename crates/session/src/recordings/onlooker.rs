//! Somebody who looks on while it is recorded: a view of the machine at work.
//!
//! Whoever follows the command or process stays the thread that it was; the onlooker and the rules have
//! threads of their own. What they do never holds up the sampler, which writes to its spool as always.

use super::Begun;
use super::so_far::{Judged, judge};
use super::stored::{process_in_words, short_command};
use domain::inventory::Inventory;
use runner::Tail;
use runner::following::{Ending, Error as FollowError, Streams, Watched};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// When the rules are asked for the first time: a trace of two seconds has figures.
const FIRST: Duration = Duration::from_secs(3);

/// How long after that at least.
const AGAIN: Duration = Duration::from_secs(10);

/// They may take this part of the time at the most: what they read is all that was recorded, which grows.
const PART: u32 = 1_000;

/// Looks on.
pub trait Onlooker: Sync {
    /// Looks until [`Underway::is_over`]; what is recorded ends by [`Underway::end`].
    ///
    /// # Errors
    /// Where it can look no more. What is recorded ends then.
    fn look(&self, underway: &Underway<'_>) -> io::Result<()>;
}

/// A recording that is going on.
pub struct Underway<'a> {
    begun: &'a Begun<'a>,
    spool: &'a Path,
    tail: Tail,
    over: AtomicBool,
    judged: Mutex<Option<Arc<Judged>>>,
}

impl Underway<'_> {
    /// Its rows, as they come.
    pub fn rows(&self) -> recorder::Live {
        recorder::Live::of(self.spool.to_owned())
    }

    /// The machine when it began.
    pub fn inventory(&self) -> &Inventory {
        self.begun.inventory
    }

    /// What is watched, in words.
    pub fn in_words(&self) -> String {
        match &self.begun.request.watched {
            Watched::Machine => "this machine".to_owned(),
            Watched::Command(argv) => short_command(argv),
            Watched::Process(process) | Watched::Server(process) => {
                format!("process {}", process_in_words(process.pid, &process.name))
            }
        }
    }

    /// Whether it is of a command, which ends with it.
    pub fn is_of_command(&self) -> bool {
        self.begun.command().is_some()
    }

    /// The last lines that the command printed, at most so many.
    pub fn output(&self, most: usize) -> Vec<String> {
        self.tail.lines(most)
    }

    /// What the rules find in what was recorded so far; `None` before they were asked.
    pub fn judged(&self) -> Option<Arc<Judged>> {
        self.judged.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Ends it, as an interruption does.
    pub fn end(&self) {
        self.begun.request.interrupt.store(true, Ordering::Relaxed);
    }

    /// Whether somebody has asked it to end.
    pub fn is_ending(&self) -> bool {
        self.begun.request.interrupt.load(Ordering::Relaxed)
    }

    /// Asks the rules now and then.
    fn judge(&self) {
        let mut next = Instant::now() + FIRST;
        while !self.is_over() {
            let left = next.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                thread::park_timeout(left);
                continue;
            }
            let asked = Instant::now();
            // A spool that cannot be read yet may be the next time; the end of the recording says why.
            if let Ok(judged) = judge(self.begun, self.spool) {
                *self.judged.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(judged));
            }
            next = Instant::now() + AGAIN.max(asked.elapsed() * PART);
        }
    }
}

/// Ends a recording whose onlooker is gone, whyever.
struct EndsIt<'a>(&'a Underway<'a>);

impl Drop for EndsIt<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Says that it is over, also where following it panics: others wait for that.
struct IsOver<'a>(&'a AtomicBool);

impl Drop for IsOver<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Follows what is recorded while somebody looks on: how it ended, and whether he could look to the end.
pub(super) fn beside(
    onlooker: &dyn Onlooker,
    begun: &Begun<'_>,
    spool: &Path,
    follow: impl FnOnce(Streams<'_>) -> Result<Ending, FollowError>,
) -> (Result<Ending, FollowError>, io::Result<()>) {
    let (over, judged) = (AtomicBool::new(false), Mutex::new(None));
    let underway = Underway { begun, spool, tail: Tail::default(), over, judged };
    thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let _ends_it = EndsIt(&underway);
            onlooker.look(&underway)
        });
        let judging = scope.spawn(|| underway.judge());
        let ending = {
            let _is_over = IsOver(&underway.over);
            follow(Streams::Kept(&underway.tail))
        };
        judging.thread().unpark();
        let looked = looking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        (ending, looked)
    })
}
