//! Before a trial: wait until the machine is quiet, for a bounded time, and say what was waited for.
//!
//! Quiet means: little dirty data waits to be written, no array is being synchronised, other processes use
//! little CPU time, and the hottest sensor is not getting hotter.

use crate::Error;
use crate::guards::{other_bound, other_time, span};
use crate::snapshot::Snapshot;
use domain::time::Nanos;
use domain::trial::Disturbance;
use domain::units::Bytes;
use machine::Machine;
use parse::kernel::meminfo;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Dirty pages and pages under writeback that may remain: at 100 MB/s they are gone in a sixth of a second,
/// and a server that is otherwise idle always has some.
pub const MAX_DIRTY: Bytes = Bytes::from_mib(16);

/// How long writing out may take at least, however short a study's `settle`: what a trial would otherwise
/// write for the one before it is no matter of quiet.
pub const WRITE_OUT: Nanos = Nanos::from_secs(30);

/// The span over which load and temperature are looked at: 20 ticks of `/proc/stat`, so that 5% of a CPU
/// shows.
pub const LOOK: Duration = Duration::from_millis(200);

/// How much hotter the machine may get within one look, in degrees Celsius: the grain of most sensors.
pub const MAX_WARMING: f64 = 1.0;

/// What came of settling.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settled {
    /// How long it took.
    pub waited: Nanos,
    /// What had to be waited for, in the order of the alphabet.
    pub waited_for: BTreeSet<Cause>,
    /// What the wait ended without.
    pub remaining: Vec<Disturbance>,
}

/// What keeps a machine from being quiet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// CPU time of other processes. It is judged over the trial itself (see [`crate::guards`]), for it
    /// changes from one moment to the next.
    OtherLoad,
    /// An array that is being synchronised; the guards tell it as well.
    Resync,
    /// A sensor that is getting hotter.
    Temperature,
    /// Dirty data.
    Writeback,
}

impl Cause {
    /// As it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Cause::OtherLoad => "other load",
            Cause::Resync => "resync",
            Cause::Temperature => "temperature",
            Cause::Writeback => "writeback",
        }
    }
}

impl Settled {
    /// As it is stored with a trial: `0.6 s for writeback`, `0.2 s`.
    pub fn summary(&self) -> String {
        let causes: Vec<&str> = self.waited_for.iter().map(|c| c.name()).collect();
        if causes.is_empty() {
            return self.waited.to_string();
        }
        format!("{} for {}", self.waited, causes.join(", "))
    }
}

/// One look at the machine.
#[derive(Clone, Debug)]
struct Look {
    snapshot: Snapshot,
    /// Dirty and under writeback.
    dirty: Option<Bytes>,
    /// The hottest sensor, in degrees Celsius.
    hottest: Option<f64>,
}

impl Look {
    fn take(machine: &dyn Machine) -> Self {
        let dirty = machine.text("/proc/meminfo").and_then(|text| dirty(&text));
        Self { snapshot: Snapshot::read(machine), dirty, hottest: hottest(machine) }
    }
}

/// Waits until the machine is quiet, or `limit` is over. Takes at least one [`LOOK`]. It does not wait for
/// the causes `beside` which the study measures: an array that is synchronised, or the machine's load.
///
/// # Errors
/// [`Error::Interrupted`] once `interrupt` is set.
pub fn settle(
    machine: &dyn Machine,
    limit: Nanos,
    beside: &[Cause],
    interrupt: &AtomicBool,
) -> Result<Settled, Error> {
    let begin = Instant::now();
    let mut settled = Settled::default();
    let mut earlier = Look::take(machine);
    loop {
        if interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        std::thread::sleep(LOOK);
        let now = Look::take(machine);
        let causes = unrest(&earlier, &now);
        settled.waited = Nanos::new(begin.elapsed().as_nanos() as u64);
        let awaited: Vec<Cause> =
            causes.iter().map(|(cause, _)| *cause).filter(|cause| !beside.contains(cause)).collect();
        settled.waited_for.extend(&awaited);
        if awaited.is_empty() || settled.waited >= limit {
            let lasting = |cause: &Cause| matches!(cause, Cause::Writeback | Cause::Temperature);
            settled.remaining = causes.into_iter().filter(|(c, _)| lasting(c)).map(|(_, d)| d).collect();
            return Ok(settled);
        }
        earlier = now;
    }
}

/// What keeps the machine from being quiet, by two looks at it.
fn unrest(earlier: &Look, now: &Look) -> Vec<(Cause, Disturbance)> {
    let mut causes = Vec::new();
    let mut tell = |cause: Cause, detail: String| {
        causes.push((cause, Disturbance { kind: "unsettled".into(), detail }));
    };
    if let Some(dirty) = now.dirty.filter(|d| *d > MAX_DIRTY) {
        let text = format!("{dirty} waited to be written when the trial began; the bound is {MAX_DIRTY}");
        tell(Cause::Writeback, text);
    }
    if !now.snapshot.resyncing.is_empty() {
        tell(
            Cause::Resync,
            format!("arrays were being synchronised ({})", now.snapshot.resyncing.join(", ")),
        );
    }
    let other = other_time(&earlier.snapshot, &now.snapshot, Nanos::ZERO);
    let cpus = other.map(|other| other.secs() / span(&earlier.snapshot, &now.snapshot).secs());
    if let Some(cpus) = cpus.filter(|cpus| *cpus > other_bound(now.snapshot.cpus)) {
        tell(Cause::OtherLoad, format!("other processes used {cpus:.2} CPUs before the trial"));
    }
    let warming = now.hottest.zip(earlier.hottest).map(|(now, earlier)| now - earlier);
    if let Some(degrees) = warming.filter(|degrees| *degrees > MAX_WARMING) {
        let text = format!(
            "the hottest sensor rose by {degrees:.1} °C in {} ms when the trial began; the bound is {MAX_WARMING:.1} °C",
            LOOK.as_millis()
        );
        tell(Cause::Temperature, text);
    }
    causes
}

/// Writes out what is dirty on all filesystems, and what the disks below `target` hold in write caches of
/// their own: else a trial would begin with what the one before it has left there. For at most `limit`; false
/// where that was not enough: the kernel goes on with it by itself.
///
/// # Errors
/// Where no thread can be started, or the target does not take a flush ([`Error::File`]);
/// [`Error::Interrupted`] once `interrupt` is set.
pub fn write_out(target: Option<PathBuf>, limit: Nanos, interrupt: &AtomicBool) -> Result<bool, Error> {
    let (done, wait) = mpsc::sync_channel(1);
    // sync(2) cannot be interrupted, and a filesystem whose server is gone would hold it for ever.
    let thread = std::thread::Builder::new().name("flyball-sync".into()).spawn(move || {
        rustix::fs::sync();
        let flush = |path: PathBuf| {
            File::open(&path).and_then(|open| open.sync_all()).map_err(|e| Error::file("flush", &path, e))
        };
        // Nobody listens any more once the limit is over.
        let _ = done.send(target.map_or(Ok(()), flush));
    });
    thread.map_err(|e| Error::child("start a thread for", "sync", e))?;
    let begin = Instant::now();
    loop {
        if let Ok(flushed) = wait.recv_timeout(LOOK) {
            return flushed.map(|()| true);
        }
        if interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        if begin.elapsed() >= limit.into() {
            return Ok(false);
        }
    }
}

/// Asks the kernel to forget the cached pages of one file; needs no root. Pages that are dirty or mapped
/// stay.
///
/// # Errors
/// [`Error::File`] where the file cannot be opened or the kernel refuses.
pub fn forget_cached(path: &Path) -> Result<(), Error> {
    let forget = || -> std::io::Result<()> {
        let file = File::open(path)?;
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
        Ok(())
    };
    forget().map_err(|e| Error::file("drop the cached pages of", path, e))
}

/// What waits to be written and what is being written.
fn dirty(meminfo: &str) -> Option<Bytes> {
    let info = meminfo::parse(meminfo).ok()?;
    info.dirty?.get().checked_add(info.writeback?.get()).map(Bytes::new)
}

/// The hottest thermal zone; `None` where there is none. hwmon shows the same sensors on most machines, and
/// many besides that say nothing of the CPUs.
fn hottest(machine: &dyn Machine) -> Option<f64> {
    let zones = machine.list(Path::new("/sys/class/thermal")).unwrap_or_default();
    let degrees = |zone: &String| {
        let text = machine.text(&format!("/sys/class/thermal/{zone}/temp"))?;
        Some(text.parse::<i64>().ok()? as f64 / 1000.0)
    };
    zones.iter().filter(|z| z.starts_with("thermal_zone")).filter_map(degrees).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use machine::LocalMachine;

    fn look() -> Look {
        Look { dirty: Some(Bytes::from_mib(1)), hottest: Some(50.0), ..Look::take(&LocalMachine) }
    }

    fn causes(earlier: &Look, now: &Look) -> Vec<Cause> {
        unrest(earlier, now).into_iter().map(|(cause, _)| cause).collect()
    }

    #[test]
    fn a_quiet_machine_needs_one_look() {
        let earlier = look();
        let mut now = earlier.clone();
        now.snapshot.monotonic = now.snapshot.monotonic + Nanos::from_millis(200);
        assert_eq!(causes(&earlier, &now), []);
    }

    #[test]
    fn writeback_resync_load_and_heat_are_waited_for() {
        let earlier = look();
        let mut now = earlier.clone();
        now.snapshot.monotonic = now.snapshot.monotonic + Nanos::from_millis(200);
        now.snapshot.cpus = 2;
        let totals = now.snapshot.cpu.as_mut().unwrap();
        totals.threads = totals.threads + Nanos::from_millis(100);
        now.snapshot.resyncing.push("md0: check".into());
        now.dirty = Some(Bytes::from_mib(40));
        now.hottest = Some(52.0);
        assert_eq!(
            causes(&earlier, &now),
            [Cause::Writeback, Cause::Resync, Cause::OtherLoad, Cause::Temperature]
        );
    }

    #[test]
    fn dirty_data_is_read_from_meminfo_and_never_guessed() {
        // Linux 6.18 on a virtual machine.
        let text = "Dirty:            196236 kB\nWriteback:            84 kB\nWritebackTmp:          0 kB\n";
        assert_eq!(dirty(text), Some(Bytes::from_kib(196_320)));
        assert_eq!(dirty("Dirty: many kB\nWriteback: 0 kB\n"), None);
    }

    #[test]
    fn waiting_ends_at_its_limit_and_at_an_interruption() {
        let settled = settle(&LocalMachine, Nanos::ZERO, &[], &AtomicBool::new(false)).unwrap();
        assert!(settled.waited >= Nanos::from_millis(200), "{settled:?}");
        let error = settle(&LocalMachine, Nanos::from_secs(60), &[], &AtomicBool::new(true)).unwrap_err();
        assert!(matches!(error, Error::Interrupted));
    }

    #[test]
    fn what_a_trial_is_measured_beside_is_not_waited_for() {
        let all = [Cause::OtherLoad, Cause::Resync, Cause::Temperature, Cause::Writeback];
        let settled = settle(&LocalMachine, Nanos::from_secs(3_600), &all, &AtomicBool::new(false)).unwrap();
        assert_eq!(settled.waited_for, BTreeSet::new());
    }

    #[test]
    fn a_target_that_takes_no_flush_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (limit, never) = (Nanos::from_secs(60), AtomicBool::new(false));
        let file = folder.path().join("target");
        let error = write_out(Some(file.clone()), limit, &never).unwrap_err().to_string();
        assert!(error.contains("flush") && error.contains(&file.display().to_string()), "{error}");
        std::fs::write(&file, "bytes").unwrap();
        assert!(write_out(Some(file), limit, &never).unwrap());
    }

    #[test]
    fn what_was_waited_for_is_said() {
        let settled = Settled {
            waited: Nanos::from_millis(600),
            waited_for: [Cause::Writeback, Cause::OtherLoad].into(),
            remaining: vec![],
        };
        assert_eq!(settled.summary(), "600 ms for other load, writeback");
    }
}
