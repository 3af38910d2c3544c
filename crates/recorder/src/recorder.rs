//! Starting and ending a recording.

use crate::buffers::Written;
use crate::event_rings::Events;
use crate::sampler::{Ended, Orders, Sampler};
use crate::spool::Writing;
use crate::{Error, Recording, Result};
use domain::Nanos;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

/// The shortest interval: beneath it the sampler would be half of what it measures.
pub const MIN_INTERVAL: Nanos = Nanos::from_micros(500);

/// The longest interval: a row an hour.
pub const MAX_INTERVAL: Nanos = Nanos::from_secs(3600);

/// From one sample to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interval {
    /// This one, whatever it costs.
    Exactly(Nanos),
    /// This one, or a longer one: that at which the sampler takes at most two hundredths of a CPU. What a
    /// sample costs is measured before the recording begins; it grows with processes, CPUs and disks.
    AtLeast(Nanos),
}

impl Interval {
    /// The shortest that it may be.
    pub fn shortest(self) -> Nanos {
        match self {
            Self::Exactly(interval) | Self::AtLeast(interval) => interval,
        }
    }
}

impl From<Nanos> for Interval {
    fn from(interval: Nanos) -> Self {
        Self::Exactly(interval)
    }
}

/// What to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecorderConfig {
    /// From one sample to the next.
    pub interval: Interval,
    /// The file for the raw samples; an existing one is overwritten. Best not on the disk that is measured:
    /// at 100 Hz some 30 KiB a second are written to it.
    pub spool: PathBuf,
    /// Whether CPU time is told apart by role.
    pub threads: ThreadScope,
    /// When samples are written.
    pub writing: Writing,
    /// Which events are recorded beside the samples; `None` for none.
    pub events: Option<Events>,
    /// The first processes of loads that run beside the workload. They and their descendants, and whatever is
    /// in the process group or session that one of them leads, have the role of such loads.
    pub beside: Vec<u32>,
    /// Where the kernel's files are.
    pub roots: Roots,
}

impl RecorderConfig {
    /// Everything there is on this machine.
    pub fn new(interval: impl Into<Interval>, spool: PathBuf) -> Self {
        Self {
            interval: interval.into(),
            spool,
            threads: ThreadScope::All,
            writing: Writing::WhenFull,
            events: None,
            beside: Vec::new(),
            roots: Roots::default(),
        }
    }
}

/// Whose CPU time is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadScope {
    /// That of every process and thread of the machine, the kernel's included.
    All,
    /// Nobody's: the system's sources alone.
    None,
}

/// Where the kernel's files are; other folders than the kernel's are for tests. CPU time by role needs the
/// running kernel, for clocks of processes are no files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
}

impl Default for Roots {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into() }
    }
}

/// A recording that is going on. Dropping it ends it and leaves the spool where it is.
#[derive(Debug)]
pub struct Recorder {
    spool: PathBuf,
    origin: Nanos,
    orders: Arc<Orders>,
    thread: Option<JoinHandle<Result<Ended>>>,
}

impl Recorder {
    /// Opens everything, takes the first sample, and goes on in a thread of its own: what is started after
    /// this returns is recorded from its beginning.
    ///
    /// # Errors
    /// Where the interval is out of bounds, the spool cannot be made, or there is no `/proc/stat`.
    pub fn start(config: RecorderConfig) -> Result<Self> {
        let shortest = config.interval.shortest();
        if !(MIN_INTERVAL..=MAX_INTERVAL).contains(&shortest) {
            return Err(Error::Interval(shortest));
        }
        let spool = config.spool.clone();
        let orders = Arc::new(Orders::default());
        let (ready, is_ready) = sync_channel(1);
        let theirs = Arc::clone(&orders);
        let body = move || match Sampler::open(&config) {
            Ok(sampler) => {
                // Nobody waits any more only where the starting thread died.
                let _ = ready.send(Ok(sampler.origin()));
                sampler.run(&theirs)
            }
            Err(error) => {
                let _ = ready.send(Err(error));
                Ok(Ended { samples: Written { cpu: Nanos::ZERO, result: Ok(()) }, events: None })
            }
        };
        let thread = std::thread::Builder::new()
            .name("flyball-sample".to_owned())
            .spawn(body)
            .map_err(|error| Error::Thread(error.to_string()))?;
        let origin = is_ready.recv();
        let origin =
            origin.map_err(|_| Error::Thread("it panicked while it opened its files".to_owned()))??;
        Ok(Self { spool, origin, orders, thread: Some(thread) })
    }

    /// The monotonic clock when the trace's time was zero.
    pub fn origin(&self) -> Nanos {
        self.origin
    }

    /// Names the workload's first process. It and its descendants, and whatever is in the process group or
    /// session that it leads, have the role of the workload, also for what they did before this call.
    pub fn follow(&self, pid: u32) {
        self.orders.root.store(pid, Ordering::Release);
        self.wake();
    }

    /// Names the first process of a server that the workload asks: it counts as the workload, in the same
    /// way, from the recording's start on.
    pub fn follow_server(&self, pid: u32) {
        self.orders.server.store(pid, Ordering::Release);
        self.wake();
    }

    /// Takes a last sample, ends, and reads the recording for its totals. Where the disk did not take all of
    /// it, what it took is used, and [`Recording::report`] says so.
    ///
    /// # Errors
    /// Where the thread panicked, or the spool cannot be read.
    pub fn stop(mut self) -> Result<Recording> {
        let Ended { samples, events } =
            self.end().expect("only this ends the thread, and it takes the recorder")?;
        let mut recording = Recording::open(self.spool.clone())?;
        recording.add_own_cpu(samples.cpu);
        if let Err(error) = samples.result {
            recording
                .note(format!("the recording ends early: cannot write `{}`: {error}", self.spool.display()));
        }
        if let Some((written, absent)) = events {
            recording.add_own_cpu(written.cpu);
            absent.into_iter().for_each(|note| recording.note(note));
            if let Err(error) = written.result {
                recording.note(format!("the events end early: cannot write their file: {error}"));
            }
        }
        Ok(recording)
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    fn end(&mut self) -> Option<Result<Ended>> {
        self.orders.stop.store(true, Ordering::Release);
        self.wake();
        let joined = self.thread.take()?.join();
        Some(joined.unwrap_or_else(|_| Err(Error::Thread("it panicked while it sampled".to_owned()))))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Whoever drops it does not want the recording.
        let _ = self.end();
    }
}
