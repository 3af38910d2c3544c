//! How much may be dirty, and how long a writer pauses for it.
//!
//! Follows `balance_dirty_pages` (`mm/page-writeback.c`, 6.1 and 6.12). Up to the middle between the two
//! limits a writer runs freely; beyond, it pauses so that all writers together dirty as much as the device
//! writes, times a factor that falls from 2 to 0 as the amount nears the limit.
//!
//! An approximation: the kernel finds each writer's share by feedback (`dirty_ratelimit`); here it is the
//! measured rate divided by the number of writers of the last second, which is where that feedback settles.
//! Left out: several devices and their shares, control groups, `strictlimit`.

use super::pages::PAGE;
use crate::cpu::ThreadId;
use event_queue::Time;
use std::collections::BTreeMap;

/// How much memory files may take, and what of it may be dirty (`/proc/sys/vm`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemorySpec {
    /// Memory that pages of files may take, in bytes: what is free or reclaimable.
    pub bytes: u64,
    /// `dirty_background_bytes`, or `dirty_background_ratio` of it: writeback begins.
    pub background_bytes: u64,
    /// `dirty_bytes`, or `dirty_ratio` of it: nobody dirties more.
    pub dirty_bytes: u64,
    /// `dirty_writeback_centisecs`: how often old pages are looked for.
    pub writeback_ns: Time,
    /// `dirty_expire_centisecs`: how old they are then.
    pub expire_ns: Time,
}

impl MemorySpec {
    /// The kernel's defaults for so much memory: 10%, 20%, 5 s, 30 s.
    pub const fn with_defaults(bytes: u64) -> Self {
        Self {
            bytes,
            background_bytes: bytes / 10,
            dirty_bytes: bytes / 5,
            writeback_ns: 5_000_000_000,
            expire_ns: 30_000_000_000,
        }
    }

    pub(crate) const fn background_pages(&self) -> u64 {
        self.background_bytes / PAGE
    }

    pub(crate) const fn dirty_pages(&self) -> u64 {
        self.dirty_bytes / PAGE
    }

    /// Up to here nobody pauses (`dirty_freerun_ceiling`).
    pub(crate) const fn free_pages(&self) -> u64 {
        (self.background_pages() + self.dirty_pages()) / 2
    }
}

/// What a device is taken to write before it was seen writing (`INIT_BW`, 100 MB/s), in pages a second.
const FIRST_RATE: u64 = 100 << (20 - 12);
/// How often the rate is taken (`BANDWIDTH_INTERVAL`), and over how long it is averaged.
const RATE_EVERY: Time = 200_000_000;
const RATE_OVER: Time = 4_096_000_000;
/// The longest pause (`MAX_PAUSE`), and the shortest that is worth it (`wb_min_pause`, without its growth
/// with the number of writers).
const LONGEST: Time = 200_000_000;
const SHORTEST: Time = 10_000_000;
const SECOND: Time = 1_000_000_000;

/// What is known of one writer.
#[derive(Clone, Copy, Debug, Default)]
struct Writer {
    /// Pages since it was last let go or paused.
    pages: u64,
    /// When its last pause was over, moved on by what it was let go with.
    paused: Time,
    seen: Time,
}

/// The device's rate and the writers.
pub(crate) struct Throttle {
    memory: MemorySpec,
    pages_a_second: u64,
    /// Pages written since `since`; `None` while nothing is written.
    since: Option<Time>,
    written: u64,
    writers: BTreeMap<Option<ThreadId>, Writer>,
}

impl Throttle {
    pub(crate) fn new(memory: MemorySpec) -> Self {
        Self { memory, pages_a_second: FIRST_RATE, since: None, written: 0, writers: BTreeMap::new() }
    }

    /// What the device writes, in pages a second.
    pub(crate) fn rate(&self) -> u64 {
        self.pages_a_second
    }

    /// Pages were written.
    pub(crate) fn wrote(&mut self, now: Time, pages: u64) {
        self.written += pages;
        self.measure(now);
    }

    /// Writing begins after nothing was being written: what went before does not count
    /// (`wb_bandwidth_estimate_start`).
    pub(crate) fn begins(&mut self, now: Time) {
        if self.since.is_none_or(|since| now - since > RATE_EVERY) {
            self.restart(now);
        }
    }

    fn restart(&mut self, now: Time) {
        self.since = Some(now);
        self.written = 0;
    }

    fn measure(&mut self, now: Time) {
        let Some(since) = self.since else {
            self.restart(now);
            return;
        };
        let span = now - since;
        if span < RATE_EVERY {
            return;
        }
        let known = u128::from(self.pages_a_second);
        let written = u128::from(self.written) * u128::from(SECOND);
        let rate = if span > RATE_OVER {
            written / u128::from(span)
        } else {
            (written + known * u128::from(RATE_OVER - span)) / u128::from(RATE_OVER)
        };
        self.pages_a_second = (rate as u64).max(1);
        self.restart(now);
    }

    /// How long a writer pauses that has dirtied `pages` more, where `dirty` pages are dirty or being written
    /// by now.
    pub(crate) fn pause(&mut self, now: Time, thread: Option<ThreadId>, pages: u64, dirty: u64) -> Time {
        let writer = self.writers.entry(thread).or_default();
        writer.seen = now;
        writer.pages += pages;
        let free = self.memory.free_pages();
        if dirty <= free {
            *writer = Writer { pages: 0, paused: now, seen: now };
            return 0;
        }
        let limit = self.memory.dirty_pages();
        let longest = LONGEST.min(dirty * (SECOND / 8) / self.pages_a_second).max(SHORTEST);
        let active = self.writers.values().filter(|w| now - w.seen <= SECOND).count() as u64;
        let rate = ratio(free, limit, dirty) * (self.pages_a_second as f64) / active as f64;
        let writer = self.writers.entry(thread).or_default();
        if rate < 1.0 {
            *writer = Writer { pages: 0, paused: now + longest, seen: now };
            return longest;
        }
        let period = (writer.pages as f64 * SECOND as f64 / rate) as Time;
        // Where it was let go before, its next pause counts from the end of what it was let go with.
        let pause = (writer.paused + period).saturating_sub(now);
        if pause < SHORTEST {
            if now > writer.paused + period + SECOND {
                writer.paused = now;
            } else {
                writer.paused += period;
            }
            writer.pages = 0;
            return 0;
        }
        let pause = pause.min(longest);
        *writer = Writer { pages: 0, paused: now + pause, seen: now };
        pause
    }
}

/// `pos_ratio_polynom`: 2 where pausing begins, 1 in the middle, 0 at the limit.
fn ratio(free: u64, limit: u64, dirty: u64) -> f64 {
    let middle = (free + limit) as f64 / 2.0;
    let x = (middle - dirty as f64) / (limit as f64 - middle).max(1.0);
    (1.0 + x.powi(3)).clamp(0.0, 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: MemorySpec = MemorySpec::with_defaults(1 << 30);

    #[test]
    fn the_defaults_are_a_tenth_and_a_fifth() {
        assert_eq!((MEMORY.background_pages(), MEMORY.dirty_pages()), (26_214, 52_428));
    }

    #[test]
    fn nobody_pauses_below_the_middle_and_everybody_at_the_limit() {
        let mut throttle = Throttle::new(MEMORY);
        assert_eq!(throttle.pause(SECOND, None, 32, MEMORY.free_pages()), 0);
        assert!(throttle.pause(2 * SECOND, None, 32, MEMORY.dirty_pages()) >= SHORTEST);
    }

    #[test]
    fn the_factor_is_two_one_and_none() {
        assert_eq!([40, 60, 80].map(|dirty| ratio(40, 80, dirty)), [2.0, 1.0, 0.0]);
    }

    #[test]
    fn in_the_middle_writers_together_dirty_what_the_device_writes() {
        let mut throttle = Throttle::new(MEMORY);
        let middle = (MEMORY.free_pages() + MEMORY.dirty_pages()) / 2;
        let threads = [Some(ThreadId(1)), Some(ThreadId(2))];
        let mut until = [0_u64; 2];
        let mut dirtied = 0_u64;
        for ms in 1..20_000_u64 {
            let now = ms * 1_000_000;
            for (n, thread) in threads.iter().enumerate() {
                if now >= until[n] {
                    until[n] = now + throttle.pause(now, *thread, 32, middle);
                    dirtied += 32;
                }
            }
        }
        let rate = dirtied / 20;
        assert!(rate.abs_diff(FIRST_RATE) < FIRST_RATE / 20, "{rate} of {FIRST_RATE}");
    }

    #[test]
    fn time_in_which_nothing_was_written_does_not_count() {
        let mut throttle = Throttle::new(MEMORY);
        throttle.begins(0);
        throttle.begins(30 * SECOND);
        throttle.wrote(30 * SECOND + 1_000_000_000, 25_600);
        assert_eq!(throttle.rate(), FIRST_RATE);
    }

    #[test]
    fn the_rate_follows_what_is_written() {
        let mut throttle = Throttle::new(MEMORY);
        throttle.begins(0);
        for n in 1..=200_u64 {
            throttle.wrote(n * 100_000_000, 500);
        }
        assert!(throttle.rate().abs_diff(5_000) < 300, "{}", throttle.rate());
    }
}
