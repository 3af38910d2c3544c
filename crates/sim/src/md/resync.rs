//! What an array does by itself: the first resync, and the rebuilding of a member; how fast it may.
//!
//! Follows `drivers/md/md.c: md_do_sync, is_mddev_idle` (6.1, 6.12): after each 128 KiB the speed since about
//! thirty seconds ago is looked at. Above the maximum it sleeps for half a second; above the minimum, where
//! others used the members meanwhile, it waits until all of its own requests are done.
//!
//! Left out: the barriers that keep requests of others out of the 64 MiB in which a mirror's resync is at the
//! moment, checkpoints in the superblock, reshaping, and `check` and `repair`.

use domain::units::Bytes;
use event_queue::Time;

/// What is to be repaired, and how fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResyncSpec {
    /// What.
    pub repair: Repair,
    /// Where it begins: what lies before is in order.
    pub from: Bytes,
    /// `sync_speed_min`, a second: 1000 KiB.
    pub speed_min: Bytes,
    /// `sync_speed_max`, a second: 200,000 KiB.
    pub speed_max: Bytes,
}

/// The gauge of an array that is synchronised: bytes that are not yet in order.
pub const LEFT: &str = "resync_left";

/// What is to be repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// All members are made to agree: mirrors are copied from the first, parities are computed and, where the
    /// content differs, written. Of disks that were empty, parities and RAID10's copies agree already.
    Resync(Content),
    /// A member that replaces a missing one gets its content: after a failure, and first of all in a new
    /// RAID5 (mdadm(8): its last member begins as a spare).
    Rebuild(u32),
}

/// What members have before a resync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// They agree, as empty ones do.
    Agrees,
    /// They do not.
    Differs,
}

impl ResyncSpec {
    /// With the kernel's usual speeds.
    pub const fn new(repair: Repair) -> Self {
        Self {
            repair,
            from: Bytes::new(0),
            speed_min: Bytes::from_kib(1000),
            speed_max: Bytes::from_kib(200_000),
        }
    }
}

/// After so much the speed is looked at: 32 pages.
const WINDOW: u64 = 32 * 4096;
/// How old the oldest mark is at most: ten, three seconds apart.
const MARKS: usize = 10;
const MARK_STEP: Time = 3_000_000_000;
/// How long it sleeps where it is too fast.
const SLEEP: Time = 500_000_000;
/// Others count where they moved more than 64 sectors.
const NOT_IDLE: u64 = 64 * 512;

/// How far it is.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    pub(super) spec: ResyncSpec,
    /// Where the next request begins, and where all ends.
    pub(super) position: u64,
    end: u64,
    /// Bytes of requests that are begun and not done.
    active: u64,
    /// Bytes of those that are begun.
    begun: u64,
    checked: u64,
    marks: [(Time, u64); MARKS],
    last_mark: usize,
    /// The oldest mark.
    since: (Time, u64),
    others: u64,
    drains: bool,
}

/// What it may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Go {
    Now,
    /// It is to be asked again then.
    At(Time),
    /// It is to be asked again when its requests are done.
    WhenDone,
    Finished,
}

impl Progress {
    pub(super) fn new(spec: ResyncSpec, end: u64, now: Time) -> Self {
        let position = spec.from.get().min(end);
        Self {
            spec,
            position,
            end,
            active: 0,
            begun: 0,
            checked: 0,
            marks: [(now, 0); MARKS],
            last_mark: 0,
            since: (now, 0),
            others: 0,
            drains: false,
        }
    }

    /// Up to where all is in order, where requests are done in their order.
    pub(super) const fn repaired(&self) -> u64 {
        self.position - self.active
    }

    /// How much is not yet in order.
    pub(super) const fn left(&self) -> u64 {
        self.end - self.repaired()
    }

    /// What it may do; `others`: the bytes that others have moved on the members until now.
    pub(super) fn go(&mut self, now: Time, others: u64) -> Go {
        if self.position >= self.end {
            return if self.active == 0 { Go::Finished } else { Go::WhenDone };
        }
        if self.drains && self.active > 0 {
            return Go::WhenDone;
        }
        self.drains = false;
        if self.begun < self.checked + WINDOW {
            return Go::Now;
        }
        let done = self.begun - self.active;
        if now >= self.marks[self.last_mark].0 + MARK_STEP {
            self.last_mark = (self.last_mark + 1) % MARKS;
            self.since = self.marks[self.last_mark];
            self.marks[self.last_mark] = (now, done);
        }
        let seconds = (now - self.since.0) / 1_000_000_000 + 1;
        let speed = (done - self.since.1.min(done)) / seconds + 1;
        if speed > self.spec.speed_min.get() {
            if speed > self.spec.speed_max.get() {
                return Go::At(now + SLEEP);
            }
            if others - self.others > NOT_IDLE {
                self.others = others;
                if self.active > 0 {
                    self.drains = true;
                    self.checked = self.begun;
                    return Go::WhenDone;
                }
            }
        }
        self.checked = self.begun;
        Go::Now
    }

    /// A request begins where it is: gives from where, and how long it is at most.
    pub(super) fn begin(&mut self, most: u64) -> (u64, u64) {
        let at = self.position;
        let len = most.min(self.end - at);
        self.position += len;
        self.active += len;
        self.begun += len;
        (at, len)
    }

    /// It is done.
    pub(super) fn done(&mut self, len: u64) {
        self.active -= len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn progress() -> Progress {
        Progress::new(ResyncSpec::new(Repair::Rebuild(1)), 10_000 * MIB, 0)
    }

    #[test]
    fn it_sleeps_above_the_maximum() {
        let mut progress = progress();
        let mut slept = 0;
        let mut now = 0;
        while progress.begun < 1000 * MIB {
            match progress.go(now, 0) {
                Go::Now => {
                    let (_, len) = progress.begin(64 << 10);
                    progress.done(len);
                }
                Go::At(then) => {
                    slept += 1;
                    now = then;
                }
                other => panic!("{other:?}"),
            }
        }
        let speed = 1000 * MIB / (now / 1_000_000_000).max(1);
        assert!(slept > 0 && speed.abs_diff(200_000 << 10) < 60_000 << 10, "{speed} after {now}");
    }

    #[test]
    fn it_lets_others_go_first_but_not_below_the_minimum() {
        let mut progress = progress();
        progress.begin(WINDOW);
        assert_eq!(progress.go(0, 1 << 30), Go::Now, "it is slow yet");
        progress.begin(2 * MIB);
        progress.done(2 * MIB);
        assert_eq!(progress.go(0, 2 << 30), Go::WhenDone);
        assert_eq!(progress.go(0, 2 << 30), Go::WhenDone);
        progress.done(WINDOW);
        assert_eq!(progress.go(0, 3 << 30), Go::Now);
    }
}
