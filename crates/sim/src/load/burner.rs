//! Threads that keep CPUs busy for a share of the time and ask for nothing: fio's engine `cpuio`.
//!
//! A job spins until `cpuchunks` microseconds have passed, whether it had a CPU all the while or not, and
//! sleeps for so long that it is busy for `cpuload` percent of the time (fio 3.33, engines/cpu.c,
//! `fio_cpuio_init` and `fio_cpuio_queue`; lib/gettime.c, `usec_spin`). Not modelled: what it computes
//! (`cpumode`), and priorities.

use super::LoadError;
use super::options::{MICROSECONDS, Options, Value};
use crate::cpu::{Cost, ThreadId};
use crate::engine::{Core, Part, PartId};
use domain::time::Nanos;
use event_queue::Time;
use std::collections::BTreeMap;

/// How busy the threads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurnerSpec {
    /// How many threads.
    pub threads: u32,
    /// How long each spins.
    pub busy: Time,
    /// And sleeps.
    pub idle: Time,
}

/// A thread looks at the clock after so much CPU time. The real one looks all the time.
const LOOK: Time = 1_000_000;

/// More jobs than any machine has CPUs.
const MOST_THREADS: u32 = 1024;

/// Options that say when a load begins, ends and reports, which one that goes on until it is ended has
/// without effect.
const WITHOUT_EFFECT: [&str; 6] =
    ["ioengine", "time_based", "runtime", "exitall_on_error", "thread", "group_reporting"];

impl BurnerSpec {
    /// From the options of a fio job.
    ///
    /// # Errors
    /// Where an option is not modelled, or its value is none.
    pub fn parse(options: &BTreeMap<String, String>) -> Result<Self, LoadError> {
        let mut options = Options::new("fio", options);
        let share = options.or(&["cpuload"], 100, |value| match value.percent()? {
            0 => Err(value.refuse("1 to 100 percent are wanted")),
            share => Ok(u64::from(share)),
        })?;
        let busy = options.or(&["cpuchunks"], Nanos::from_millis(50), |value| {
            match value.time(MICROSECONDS)? {
                Nanos::ZERO => Err(value.refuse("more than nothing is wanted")),
                span => Ok(span),
            }
        })?;
        let threads = options.or(&["numjobs"], 1, |value: &Value<'_>| match value.whole::<u32>()? {
            threads @ 1..=MOST_THREADS => Ok(threads),
            _ => Err(value.refuse(format!("1 to {MOST_THREADS} jobs are wanted"))),
        })?;
        options
            .finish(&WITHOUT_EFFECT, |_| "the simulation does not model this option of `cpuio`".to_owned())?;
        let idle = (u128::from(busy.get()) * u128::from(100 - share) / u128::from(share)) as Time;
        Ok(Self { threads, busy: busy.get(), idle })
    }
}

/// The threads.
pub struct Burner {
    me: PartId,
    spec: BurnerSpec,
    /// Each with the time until which it spins.
    threads: Vec<(ThreadId, Time)>,
}

impl Burner {
    /// Threads that begin at once, as the part `me`. Before the machine runs.
    pub fn new(core: &mut Core, me: PartId, spec: BurnerSpec, threads: Vec<ThreadId>) -> Self {
        for index in 0..threads.len() as u64 {
            core.at(core.now, me, index);
        }
        threads.iter().for_each(|thread| core.cpus.only_computes(*thread));
        Self { me, spec, threads: threads.into_iter().map(|thread| (thread, 0)).collect() }
    }

    fn spin(&self, core: &mut Core, index: usize) {
        let (thread, until) = self.threads[index];
        let left = until.saturating_sub(core.now).min(LOOK);
        core.run(thread, Cost { cycles: 0, stall_ns: left }, self.me, index as u64);
    }
}

impl Part for Burner {
    fn worked(&mut self, core: &mut Core, token: u64) {
        let index = token as usize;
        if core.now < self.threads[index].1 {
            return self.spin(core, index);
        }
        if self.spec.idle > 0 {
            return core.at(core.now + self.spec.idle, self.me, token);
        }
        self.timer(core, token);
    }

    fn timer(&mut self, core: &mut Core, token: u64) {
        let index = token as usize;
        self.threads[index].1 = core.now + self.spec.busy;
        self.spin(core, index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(options: &[(&str, &str)]) -> Result<BurnerSpec, String> {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        BurnerSpec::parse(&options).map_err(|error| error.to_string())
    }

    #[test]
    fn a_share_is_a_chunk_and_a_pause() {
        let spec =
            parsed(&[("ioengine", "cpuio"), ("cpuload", "20"), ("cpuchunks", "10000"), ("numjobs", "2")]);
        assert_eq!(spec.unwrap(), BurnerSpec { threads: 2, busy: 10_000_000, idle: 40_000_000 });
        assert_eq!(parsed(&[("cpuload", "100")]).unwrap().idle, 0);
    }

    #[test]
    fn what_is_not_modelled_is_named() {
        let told = parsed(&[("cpuload", "100"), ("nice", "5")]).unwrap_err();
        assert_eq!(
            told,
            "cannot simulate `nice = 5` of fio: the simulation does not model this option of `cpuio`"
        );
    }
}
