//! The rings of CPUs that went offline and came back. perf takes the events of a CPU away with it and gives
//! none back (kernel/events/core.c, `perf_event_exit_cpu`), so that they are opened anew.
//!
//! The sampler opens nothing: a thread does that, which lives for it alone. It reads what fired in the old
//! rings, too, and closes them.

use super::ring::Ring;
use super::why_refused;
use crate::recorder::Roots;
use domain::Nanos;
use std::collections::BTreeMap;
use std::io;
use std::thread::JoinHandle;

/// How often rings are opened anew: CPUs come back when a machine wakes from a suspend, or somebody takes
/// them on- and offline by hand. Each time may be all CPUs at once.
const MOST_TIMES: u32 = 64;

/// How the rings of a CPU are opened.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// The numbers of the tracepoints, and the bytes of their ring; no ring where there are none.
    pub tracepoints: Vec<u64>,
    pub bytes: usize,
    /// The time between two call stacks, and the bytes of their ring.
    pub clock: Option<(Nanos, usize)>,
    pub roots: Roots,
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Reopened {
    /// Not enabled yet.
    pub rings: Vec<Ring>,
    /// How often each tracepoint had fired in the rings before, by CPU and tracepoint.
    pub fired: BTreeMap<(u16, u16), u64>,
    /// Of which CPUs there is nothing again, and why.
    pub failed: Vec<(u16, String)>,
}

/// CPUs whose rings are to be opened anew: all that came by then, then all that came meanwhile.
#[derive(Debug, Default)]
pub struct Reopening {
    waiting: Vec<u16>,
    thread: Option<JoinHandle<Reopened>>,
    times: u32,
}

impl Reopening {
    /// CPUs came.
    pub fn wants(&mut self, cpus: &[u16]) {
        let new = |cpu: &u16| !self.waiting.contains(cpu);
        let new: Vec<u16> = cpus.iter().copied().filter(new).collect();
        self.waiting.extend(new);
    }

    /// The CPUs whose rings are to be opened now. An error where they were opened too often before.
    pub fn due(&mut self) -> Option<Result<Vec<u16>, Reopened>> {
        if self.thread.is_some() || self.waiting.is_empty() {
            return None;
        }
        let cpus = std::mem::take(&mut self.waiting);
        if self.times >= MOST_TIMES {
            let why = format!("rings were opened anew {MOST_TIMES} times by then");
            return Some(Err(Reopened::failed(cpus, &why)));
        }
        self.times += 1;
        Some(Ok(cpus))
    }

    /// Opens the rings of these CPUs; `old` are those that they had. What comes of it is said by
    /// [`Self::done`].
    ///
    /// # Errors
    /// Where there can be no thread.
    pub fn begin(&mut self, how: How, cpus: Vec<u16>, old: Vec<Ring>) -> Result<(), Reopened> {
        let refused = cpus.clone();
        let open = move || open(&how, &cpus, old);
        let thread = std::thread::Builder::new().name("flyball-reopen".to_owned()).spawn(open);
        let thread = thread.map_err(|error| Reopened::failed(refused, &format!("no thread: {error}")))?;
        self.thread = Some(thread);
        Ok(())
    }

    /// What was opened, once it is.
    pub fn done(&mut self) -> Option<Reopened> {
        let is_done = self.thread.as_ref().is_some_and(JoinHandle::is_finished);
        if is_done { self.wait() } else { None }
    }

    /// The same, and waits for it.
    pub fn wait(&mut self) -> Option<Reopened> {
        // A panic is told by the thread itself; the CPUs' time stays unknown.
        self.thread.take()?.join().ok()
    }
}

impl Reopened {
    fn failed(cpus: Vec<u16>, why: &str) -> Self {
        let failed = cpus.into_iter().map(|cpu| (cpu, why.to_owned())).collect();
        Self { failed, ..Self::default() }
    }
}

fn open(how: &How, cpus: &[u16], old: Vec<Ring>) -> Reopened {
    let mut reopened = Reopened::default();
    for mut ring in old {
        let cpu = ring.cpu;
        for (id, count) in ring.fired() {
            *reopened.fired.entry((cpu, id)).or_default() += count;
        }
    }
    for cpu in cpus {
        let mut refused = None;
        let mut tracepoints = || {
            let of_one = |_: u64, error: &io::Error| refused = Some(why_refused(error, &how.roots));
            Ring::open(*cpu, &how.tracepoints, how.bytes, of_one)
        };
        let tracepoints = (!how.tracepoints.is_empty()).then(&mut tracepoints);
        let clock = how.clock.map(|(period, bytes)| Ring::open_clock(*cpu, period, bytes));
        for ring in [tracepoints, clock].into_iter().flatten() {
            match ring {
                Ok(ring) => reopened.rings.push(ring),
                Err(error) => refused = Some(why_refused(&error, &how.roots)),
            }
        }
        reopened.failed.extend(refused.map(|why| (*cpu, why)));
    }
    reopened
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_that_come_while_others_are_opened_wait_and_each_is_there_once() {
        let mut reopening = Reopening::default();
        assert!(reopening.due().is_none(), "none came");
        reopening.wants(&[1, 2]);
        reopening.wants(&[2]);
        let cpus = reopening.due().unwrap().unwrap();
        assert_eq!(cpus, [1, 2]);
        reopening.begin(How::default(), cpus, Vec::new()).unwrap();
        reopening.wants(&[3]);
        assert!(reopening.due().is_none(), "one set at a time");
        assert!(reopening.wait().unwrap().rings.is_empty(), "nothing was wanted of them");
        assert_eq!(reopening.due().unwrap().unwrap(), [3]);
    }

    #[test]
    fn cpus_that_come_without_end_are_named_and_not_opened() {
        let mut reopening = Reopening { times: MOST_TIMES, ..Reopening::default() };
        reopening.wants(&[7]);
        let failed = reopening.due().unwrap().unwrap_err().failed;
        assert_eq!(failed[0].0, 7);
        assert!(failed[0].1.contains("64 times"), "{failed:?}");
        assert!(reopening.due().is_none());
    }

    #[test]
    fn what_cannot_be_opened_is_named_with_its_cpu() {
        // No machine has so many.
        let how = How { clock: Some((Nanos::from_millis(1), 4096)), ..How::default() };
        let reopened = open(&how, &[u16::MAX], Vec::new());
        assert!(reopened.rings.is_empty());
        assert_eq!(reopened.failed.iter().map(|(cpu, _)| *cpu).collect::<Vec<_>>(), [u16::MAX]);
    }
}
