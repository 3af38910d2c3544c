//! How many tracepoints are recorded where nobody asked for events: a part of each second, which is enough
//! to see how devices are used, and costs little however busy they are.

use domain::Nanos;

/// The bytes of records that are taken within a second, of all CPUs: some five thousand bios.
const A_SECOND: u64 = 512 << 10;

/// All that are taken: two minutes of very busy devices.
const ALL: u64 = 64 << 20;

/// After so long the next ones are taken.
const WINDOW: Nanos = Nanos::from_secs(1);

/// What is to be done with the tracepoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Nothing.
    Nothing,
    /// They are to be disabled until further notice.
    Pause,
    /// They are to be enabled again.
    GoOn,
    /// They are to be disabled for good.
    End,
}

/// What has been taken of it.
#[derive(Debug, Default)]
pub struct Allowance {
    window: Nanos,
    before: u64,
    is_paused: bool,
    is_over: bool,
}

impl Allowance {
    /// Whether tracepoints are disabled now.
    pub fn pauses(&self) -> bool {
        self.is_paused || self.is_over
    }

    /// What follows from so many bytes that were taken so far.
    pub fn next(&mut self, now: Nanos, taken: u64) -> Order {
        if self.is_over {
            return Order::Nothing;
        }
        if taken >= ALL {
            self.is_over = true;
            return Order::End;
        }
        if now.saturating_sub(self.window) >= WINDOW {
            (self.window, self.before) = (now, taken);
            return if std::mem::take(&mut self.is_paused) { Order::GoOn } else { Order::Nothing };
        }
        if !self.is_paused && taken - self.before >= A_SECOND {
            self.is_paused = true;
            return Order::Pause;
        }
        Order::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_each_second_is_taken_until_it_is_enough() {
        let (mut allowance, mut taken, mut is_on) = (Allowance::default(), 0, true);
        let (mut on, mut end) = (0, None);
        for tick in 1..1_000_000_u64 {
            // A hundred megabytes a second.
            taken += if is_on { 1 << 20 } else { 0 };
            on += u64::from(is_on);
            match allowance.next(Nanos::from_millis(10 * tick), taken) {
                Order::Nothing => {}
                Order::Pause => is_on = false,
                Order::GoOn => is_on = true,
                Order::End => {
                    end = Some(tick);
                    break;
                }
            }
        }
        // A tick of each second, and the one in which it was noticed.
        assert_eq!((on, taken), (64, ALL));
        assert!(end.is_some_and(|end| (6_000..7_000).contains(&end)), "{end:?}");
        assert_eq!(allowance.next(Nanos::from_secs(1_000_000), taken), Order::Nothing);
    }

    #[test]
    fn what_takes_little_is_never_paused() {
        let mut allowance = Allowance::default();
        let orders = (1..10_000_u64).map(|tick| allowance.next(Nanos::from_millis(10 * tick), tick * 4_096));
        assert!(orders.into_iter().all(|order| order == Order::Nothing));
    }
}
