//! A CPU that chooses its frequency itself, between limits, from a hint (EPP): an approximation.
//!
//! What Intel's HWP and AMD's CPPC do in hardware is not published. Assumed here, and to be fitted to a
//! machine by measuring it ([`AutonomousSpec`]):
//! - the hardware decides once a period, and in between not at all;
//! - it looks at the last window alone, of one or more periods: at the cycles that the CPU worked in it;
//! - it aims at a share of the time being busy, which the hint names: the lower the hint, the lower the
//!   share, so the higher the level; a share of zero means the upper limit as soon as there is work;
//! - it raises and lowers the level by at most so many levels a period;
//! - a limit that is changed holds at once;
//! - other cores, power, temperature and the energy budget play no part.
//!
//! The defaults are guesses in the order of what has been measured for such parts (about a millisecond), no
//! more.

use crate::intel_pstate::Counters;
use crate::{Policy, Readings};
use domain::time::Nanos;
use domain::units::Hertz;
use std::collections::VecDeque;

/// A share in thousandths, for arithmetic in integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Permille(u16);

impl Permille {
    /// From thousandths; `None` above 1000.
    pub const fn new(thousandths: u16) -> Option<Self> {
        if thousandths <= 1000 { Some(Self(thousandths)) } else { None }
    }

    /// In thousandths.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// The energy performance preference: 0 for performance to 255 for saving power.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epp(pub u8);

/// How the hardware is assumed to decide; a machine's description can give all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AutonomousSpec {
    /// Time between decisions; not zero.
    pub period: Nanos,
    /// Of how many periods the window is that a decision looks at; not zero.
    pub periods: u8,
    /// By how many levels it rises in a period at most; not zero.
    pub rise: u8,
    /// By how many levels it falls in a period at most; not zero.
    pub fall: u8,
    /// The busy share aimed at, by hint, in ascending order of the hint; between two points it is
    /// interpolated, beyond the outer ones it is theirs.
    pub aims: [(Epp, Permille); 4],
}

impl Default for AutonomousSpec {
    /// Windows of one period of 1 ms, up at once, down by 4 levels; aims of 0, 70%, 85% and 95% at hints of
    /// 0, 128, 192 and 255. Guesses.
    fn default() -> Self {
        Self {
            period: Nanos::from_millis(1),
            periods: 1,
            rise: u8::MAX,
            fall: 4,
            aims: [
                (Epp(0), Permille(0)),
                (Epp(128), Permille(700)),
                (Epp(192), Permille(850)),
                (Epp(255), Permille(950)),
            ],
        }
    }
}

impl AutonomousSpec {
    /// Moves to the wanted level at once, which is that of the work of the last `window`, as each `period`
    /// finds it (in whole periods). The share aimed at lies on a straight line between the two given, at
    /// hints of 0 and of 255.
    pub fn averaging(window: Nanos, period: Nanos, aims: (Permille, Permille)) -> Self {
        let periods = window.get().div_ceil(period.get().max(1)).clamp(1, u8::MAX.into());
        let last = (Epp(255), aims.1);
        Self {
            period,
            periods: periods as u8,
            rise: u8::MAX,
            fall: u8::MAX,
            aims: [(Epp(0), aims.0), last, last, last],
        }
    }

    /// The busy share aimed at with this hint.
    pub fn aim(&self, epp: Epp) -> Permille {
        let above = self.aims.iter().position(|(at, _)| *at >= epp);
        match above {
            Some(0) => self.aims[0].1,
            None => self.aims[self.aims.len() - 1].1,
            Some(next) => {
                let ((from, low), (to, high)) = (self.aims[next - 1], self.aims[next]);
                let (span, part) =
                    (i32::from(to.0) - i32::from(from.0), i32::from(epp.0) - i32::from(from.0));
                let between = i32::from(low.0) + (i32::from(high.0) - i32::from(low.0)) * part / span.max(1);
                Permille(between as u16)
            }
        }
    }
}

/// What the kernel has written into the request register: levels, and the hint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The lowest level permitted.
    pub min: u8,
    /// The highest level permitted.
    pub max: u8,
    /// The hint.
    pub epp: Epp,
}

/// The hardware of one CPU.
#[derive(Clone, Debug)]
pub(crate) struct Autonomous {
    spec: AutonomousSpec,
    /// The level at whose frequency MPERF and TSC count.
    base: u8,
    request: Request,
    level: u8,
    /// At the beginnings of the window's periods, oldest first.
    counters: VecDeque<Counters>,
    period_end: Nanos,
}

impl Autonomous {
    pub(crate) fn new(spec: AutonomousSpec, base: u8, request: Request) -> Self {
        let level = request.min;
        Self { spec, base, request, level, counters: VecDeque::new(), period_end: Nanos::ZERO }
    }

    pub(crate) fn start(&mut self, now: Nanos, cpu: usize, readings: &impl Readings) {
        self.counters = VecDeque::from([Counters::read(cpu, readings)]);
        self.period_end = now + self.spec.period;
    }

    pub(crate) fn request(&self) -> Request {
        self.request
    }

    pub(crate) fn level(&self) -> u8 {
        self.level
    }

    /// Writes the request register; the level that results where that changes it.
    pub(crate) fn ask(&mut self, request: Request) -> Option<u8> {
        self.request = request;
        self.move_to(self.level)
    }

    pub(crate) fn due(&self) -> Nanos {
        self.period_end
    }

    /// Decides where the period is over; the level that results where that changes it.
    pub(crate) fn decide(&mut self, now: Nanos, cpu: usize, readings: &impl Readings) -> Option<u8> {
        if now < self.period_end {
            return None;
        }
        let counters = Counters::read(cpu, readings);
        let worked = counters.since(self.counters.front().copied().unwrap_or_default());
        self.counters.push_back(counters);
        if self.counters.len() > usize::from(self.spec.periods) {
            self.counters.pop_front();
        }
        self.period_end = now + self.spec.period;
        if worked.tsc == 0 {
            return None;
        }
        let wanted = self.wanted(worked);
        let least = self.level.saturating_sub(self.spec.fall);
        let most = self.level.saturating_add(self.spec.rise);
        self.move_to(wanted.clamp(least, most))
    }

    /// The lowest level at which the window's cycles would have taken the share of it that is aimed at, or
    /// less: rounded to the nearest one, a low level that is busy all of the time would stay what it is at
    /// 95%.
    fn wanted(&self, worked: Counters) -> u8 {
        let aim = u128::from(self.spec.aim(self.request.epp).get());
        if worked.mperf == 0 {
            return self.request.min;
        }
        if aim == 0 {
            return self.request.max;
        }
        let cycles = u128::from(self.base) * u128::from(worked.aperf) * 1000;
        let aimed_at = u128::from(worked.tsc) * aim;
        let level = cycles.div_ceil(aimed_at);
        u8::try_from(level).unwrap_or(u8::MAX)
    }

    fn move_to(&mut self, level: u8) -> Option<u8> {
        let level = level.min(self.request.max).max(self.request.min);
        let changed = level != self.level;
        self.level = level;
        changed.then_some(level)
    }
}

/// A frequency within a policy's own limits, whatever levels round to.
pub(crate) fn within(policy: &Policy, frequency: Hertz) -> Hertz {
    frequency.min(policy.max).max(policy.min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counted::Fixed;

    fn hardware(epp: u8) -> Autonomous {
        let request = Request { min: 8, max: 35, epp: Epp(epp) };
        let mut hardware = Autonomous::new(AutonomousSpec::default(), 24, request);
        hardware.start(Nanos::ZERO, 0, &Fixed::default());
        hardware
    }

    /// Kilocycles since the beginning; there are 2400 a millisecond at base.
    fn worked(aperf: u64, mperf: u64, ms: u64) -> Fixed {
        Fixed { aperf: aperf * 1000, mperf: mperf * 1000, tsc: ms * 2_400_000 }
    }

    #[test]
    fn the_aim_is_interpolated_between_the_hints() {
        let spec = AutonomousSpec::default();
        let aims = [0, 64, 128, 160, 192, 255].map(|epp| spec.aim(Epp(epp)).get());
        assert_eq!(aims, [0, 350, 700, 775, 850, 950]);
    }

    #[test]
    fn with_a_hint_of_zero_any_work_means_the_upper_limit() {
        let mut hardware = hardware(0);
        assert_eq!(hardware.decide(Nanos::from_millis(1), 0, &worked(1, 1, 1)), Some(35));
    }

    #[test]
    fn the_level_aims_at_a_busy_share() {
        let mut hardware = hardware(128);
        // 1200 of 2400 kilocycles, so half of base, in 70% of the time: 24·0.5/0.7 = 17.1, so 18.
        assert_eq!(hardware.decide(Nanos::from_millis(1), 0, &worked(1200, 1200, 1)), Some(18));
        // A level that is busy all of the time is too low, however near the aim is.
        let mut low =
            Autonomous::new(AutonomousSpec::default(), 24, Request { min: 8, max: 35, epp: Epp(255) });
        low.start(Nanos::ZERO, 0, &Fixed::default());
        assert_eq!(low.decide(Nanos::from_millis(1), 0, &worked(800, 2400, 1)), Some(9));
    }

    #[test]
    fn a_window_of_several_periods_remembers_what_was_worked_in_each() {
        let aims = (Permille(300), Permille(950));
        let spec = AutonomousSpec::averaging(Nanos::from_millis(4), Nanos::from_millis(1), aims);
        assert_eq!([0, 51, 255].map(|epp| spec.aim(Epp(epp)).get()), [300, 430, 950]);
        let mut hardware = Autonomous::new(spec, 24, Request { min: 8, max: 35, epp: Epp(0) });
        hardware.start(Nanos::ZERO, 0, &Fixed::default());
        // Busy at base in the first period alone, and aiming at 30%: 24/0.3 = 80 then, 24·(1/2)/0.3 = 40,
        // 26.7, 20.
        let levels = [1, 2, 3, 4, 5]
            .map(|ms| hardware.decide(Nanos::from_millis(ms), 0, &worked(2400, 2400, ms)).map(u32::from));
        assert_eq!(levels, [Some(35), None, Some(27), Some(20), Some(8)]);
    }

    #[test]
    fn between_periods_nothing_is_decided_and_it_falls_step_by_step() {
        let mut hardware = hardware(0);
        hardware.decide(Nanos::from_millis(1), 0, &worked(1, 1, 1));
        assert_eq!(hardware.decide(Nanos::new(1_999_999), 0, &worked(1, 1, 2)), None);
        assert_eq!(hardware.decide(Nanos::from_millis(2), 0, &worked(1, 1, 2)), Some(31));
        assert_eq!(hardware.decide(Nanos::from_millis(3), 0, &worked(1, 1, 3)), Some(27));
    }

    #[test]
    fn a_new_limit_holds_at_once() {
        let mut hardware = hardware(0);
        assert_eq!(hardware.ask(Request { min: 20, max: 30, epp: Epp(0) }), Some(20));
        assert_eq!(hardware.ask(Request { min: 20, max: 30, epp: Epp(255) }), None);
    }
}
