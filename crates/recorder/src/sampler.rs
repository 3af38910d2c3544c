//! The sampling thread: deadlines, and one sample at each.

use crate::buffers::Written;
use crate::clock;
use crate::event_rings::Rings;
use crate::recorder::{Interval, RecorderConfig, ThreadScope};
use crate::spool::{Kind, Writer, Writing};
use crate::task::Owner;
use crate::tasks::Tasks;
use crate::texts::Sources;
use domain::{Nanos, Timestamp};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// What the recorder tells its sampler; it is woken afterwards.
#[derive(Debug, Default)]
pub struct Orders {
    /// Take a last sample and end.
    pub stop: AtomicBool,
    /// The workload's first process; 0 for none yet.
    pub root: AtomicU32,
    /// The first process of a server that the workload asks, once it is known; zero before.
    pub server: AtomicU32,
}

/// What the sampler may take of one CPU, as one over: two hundredths.
const MAX_SHARE: u64 = 50;

/// A longer interval is not chosen: a recording of some seconds would have no rows.
const MAX_CHOSEN: Nanos = Nanos::from_secs(1);

/// How many samples tell what one costs. Sources take turns, and every few samples all have had theirs.
const PROBED: u64 = 8;

/// What came of a recording.
#[derive(Debug)]
pub struct Ended {
    /// Of the samples.
    pub samples: Written,
    /// Of the events, where they were wanted, and what is not recorded of them.
    pub events: Option<(Written, Vec<String>)>,
}

/// Everything that the loop uses.
#[derive(Debug)]
pub struct Sampler {
    interval: Nanos,
    writing: Writing,
    spool: Writer,
    sources: Sources,
    tasks: Option<Tasks>,
    rings: Option<Rings>,
    proc: PathBuf,
    /// That of a server and that of the workload, as far as they were taken up.
    roots: [u32; 2],
    origin: Instant,
    /// The monotonic clock at that time.
    began: Nanos,
    ticks: u64,
    missed: u64,
}

impl Sampler {
    /// Opens everything, writes the head and takes the first sample.
    ///
    /// # Errors
    /// Where there is no `/proc/stat`, or no spool can be made.
    pub fn open(config: &RecorderConfig) -> crate::Result<Self> {
        match config.interval {
            Interval::Exactly(interval) => Self::open_at(config, interval),
            Interval::AtLeast(shortest) => {
                let samples = RecorderConfig { events: None, ..config.clone() };
                let cost = Self::open_at(&samples, shortest)?.cost()?;
                let interval = affordable(shortest, cost);
                let mut sampler = Self::open_at(config, interval)?;
                if interval > shortest {
                    let note = format!(
                        "what happens within {interval}: a sample takes {cost} of CPU time, so that none is taken \
                         every {shortest}"
                    );
                    sampler.spool.frame(Kind::Absent, 0, &[note.as_bytes()]);
                }
                Ok(sampler)
            }
        }
    }

    /// The CPU time of a sample. What was sampled is for nothing: the spool is written anew.
    fn cost(mut self) -> crate::Result<Nanos> {
        let before = clock::own_thread();
        for _ in 0..PROBED {
            self.sample();
        }
        let cost = (clock::own_thread() - before).get() / PROBED;
        // What the disk refuses is told by the recording that follows.
        let _ = self.close()?.result;
        Ok(Nanos::new(cost))
    }

    fn open_at(config: &RecorderConfig, interval: Nanos) -> crate::Result<Self> {
        let mut sources = Sources::open(&config.roots, interval)?;
        let open = |events| Rings::open(events, &config.roots, interval);
        let rings = config.events.as_ref().map(open).transpose()?;
        let mut spool = Writer::create(&config.spool, sources.sample_bytes())?;
        let start = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let start = Timestamp::from_unix_nanos(i64::try_from(start.as_nanos()).unwrap_or(i64::MAX));
        spool.frame(
            Kind::Head,
            0,
            &[
                &interval.get().to_le_bytes(),
                &start.unix_nanos().to_le_bytes(),
                sources.frequency.name().as_bytes(),
            ],
        );
        sources.declare(&mut spool);
        let mut tasks = match config.threads {
            ThreadScope::None => None,
            ThreadScope::All => match Tasks::open(&config.roots, interval, &mut spool) {
                Ok(tasks) => Some(tasks),
                Err(error) => {
                    sources.absent.push(format!("no CPU time by role: {error}"));
                    None
                }
            },
        };
        if let Some(tasks) = &mut tasks {
            config.beside.iter().for_each(|root| tasks.follow(*root, Owner::Beside, &mut spool));
        }
        // First, so that a recording that ends early has them too.
        for note in &sources.absent {
            spool.frame(Kind::Absent, 0, &[note.as_bytes()]);
        }
        let mut sampler = Self {
            interval,
            writing: config.writing,
            spool,
            sources,
            tasks,
            rings,
            proc: config.roots.proc.clone(),
            roots: [0; 2],
            origin: Instant::now(),
            began: clock::monotonic(),
            ticks: 0,
            missed: 0,
        };
        sampler.sample_all();
        if let Some(rings) = &mut sampler.rings {
            rings.begin(sampler.began, start, sampler.tasks.as_ref(), &sampler.proc);
        }
        Ok(sampler)
    }

    /// The monotonic clock when the trace's time was zero.
    pub fn origin(&self) -> Nanos {
        self.began
    }

    /// Samples at each deadline until it is told to stop.
    ///
    /// # Errors
    /// Where the spool's thread panicked; what the disk refused is told by the inner result.
    pub fn run(mut self, orders: &Orders) -> crate::Result<Ended> {
        let interval = Duration::from(self.interval);
        let mut deadline = self.origin + interval;
        loop {
            let stop = wait_until(deadline, || self.obey(orders));
            if stop {
                break;
            }
            self.sample();
            deadline += interval;
            let late = Instant::now().saturating_duration_since(deadline);
            if late >= interval {
                let missed = late.as_nanos() / interval.as_nanos();
                self.missed += missed as u64;
                deadline += interval * u32::try_from(missed).unwrap_or(u32::MAX);
            }
        }
        // First: to end the events takes a while, in which nothing is recorded any more.
        self.sample_all();
        let events = self.rings.take().map(|rings| rings.finish(&self.proc)).transpose()?;
        Ok(Ended { samples: self.close()?, events })
    }

    /// Takes up what was ordered since the last look; whether to stop.
    fn obey(&mut self, orders: &Orders) -> bool {
        for (order, known) in [&orders.server, &orders.root].into_iter().zip(&mut self.roots) {
            let root = order.load(Ordering::Acquire);
            if root != *known {
                *known = root;
                if let Some(tasks) = &mut self.tasks {
                    tasks.follow(root, Owner::Workload, &mut self.spool);
                    if let Some(rings) = &mut self.rings {
                        rings.follow(root, tasks);
                    }
                }
            }
        }
        orders.stop.load(Ordering::Acquire)
    }

    fn sample(&mut self) {
        // Also where the spool has no room: what stays in the rings is lost sooner.
        if let Some(rings) = &mut self.rings {
            rings.drain();
        }
        let bytes = self.sources.sample_bytes() + self.tasks.as_ref().map_or(0, Tasks::sample_bytes);
        if !self.spool.has_room(bytes) {
            self.missed += 1;
            return;
        }
        let now = self.tick(0);
        self.sources.sample(self.ticks, &mut self.spool);
        if let Some(tasks) = &mut self.tasks {
            tasks.sample(self.ticks, now, &mut self.spool);
        }
        self.spool.end_sample(self.writing);
        self.ticks += 1;
    }

    fn sample_all(&mut self) {
        self.tick(1);
        self.sources.sample_all(&mut self.spool);
        if let Some(tasks) = &mut self.tasks {
            tasks.sample_all(&mut self.spool);
        }
        self.spool.end_sample(self.writing);
        self.ticks += 1;
    }

    fn tick(&mut self, complete: u8) -> Nanos {
        let now = Nanos::new(self.origin.elapsed().as_nanos() as u64);
        let (own, missed) = (clock::own_thread().get().to_le_bytes(), self.missed.to_le_bytes());
        self.spool.frame(Kind::Tick, 0, &[&now.get().to_le_bytes(), &own, &missed, &[complete]]);
        now
    }

    fn close(mut self) -> crate::Result<Written> {
        if let Some(count) = self.tasks.as_ref().map(Tasks::unfollowed_threads).filter(|count| *count > 0) {
            let note = format!(
                "{count} threads are missing among the busiest: no descriptor was left for them; raise `ulimit -Hn`"
            );
            self.spool.frame(Kind::Absent, 0, &[note.as_bytes()]);
        }
        self.spool.frame(Kind::End, 0, &[&clock::own_thread().get().to_le_bytes()]);
        self.spool.finish()
    }
}

/// Sleeps until the deadline and asks at each wake-up whether to stop; whether it was told so. The deadline
/// is absolute, so that no delay adds up; the sleep can be ended by `unpark`, which `clock_nanosleep` cannot.
fn wait_until(deadline: Instant, mut stop: impl FnMut() -> bool) -> bool {
    loop {
        if stop() {
            return true;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        std::thread::park_timeout(left);
    }
}

/// The shortest interval, of 1, 2, 5, 10, …, at which samples of this cost are within [`MAX_SHARE`] of a CPU,
/// and no shorter than that one.
fn affordable(shortest: Nanos, cost: Nanos) -> Nanos {
    let needed = Nanos::new(cost.get().saturating_mul(MAX_SHARE));
    if needed <= shortest {
        return shortest;
    }
    let decade = Nanos::new(10u64.pow(needed.get().ilog10()));
    let steps = [1, 2, 5, 10].map(|step| Nanos::new(decade.get().saturating_mul(step)));
    let round = steps.into_iter().find(|step| *step >= needed).unwrap_or(MAX_CHOSEN);
    round.min(MAX_CHOSEN).max(shortest)
}

#[cfg(test)]
mod tests {
    use super::affordable;
    use domain::Nanos;

    fn chosen(shortest_us: u64, cost_us: u64) -> Nanos {
        affordable(Nanos::from_micros(shortest_us), Nanos::from_micros(cost_us))
    }

    #[test]
    fn an_interval_grows_until_samples_take_two_hundredths_of_a_cpu() {
        assert_eq!(chosen(10_000, 0), Nanos::from_millis(10));
        assert_eq!(chosen(10_000, 200), Nanos::from_millis(10));
        assert_eq!(chosen(10_000, 201), Nanos::from_millis(20));
        assert_eq!(chosen(10_000, 3_300), Nanos::from_millis(200));
        assert_eq!(chosen(10_000, 10_000), Nanos::from_millis(500));
        assert_eq!(chosen(1_000, 25), Nanos::from_millis(2));
    }

    #[test]
    fn it_never_grows_so_long_that_nothing_is_seen() {
        assert_eq!(chosen(10_000, 1_000_000), Nanos::from_secs(1));
        assert_eq!(chosen(5_000_000, 1_000_000), Nanos::from_secs(5));
        assert_eq!(affordable(Nanos::from_millis(10), Nanos::new(u64::MAX)), Nanos::from_secs(1));
    }
}
