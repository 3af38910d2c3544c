//! What the modelled hardware does under HWP (Intel SDM volume 3, 15.4): which ratio a CPU gets for its
//! request. Pure: it is told the time.
//!
//! **Modelled, not known.** Intel publishes no algorithm. Here the work of the last window, in ratios times
//! time not idle, is divided by the window and by a setpoint: the utilisation that is aimed at. The setpoint
//! rises in a straight line with the energy performance preference (EPP). The ratio is rounded up: rounded to
//! the nearest one, a low ratio that is busy all of the time would stay what it is at a setpoint of 95%. The
//! parameters come from the machine's table.

use crate::options::HwpOptions;
use std::collections::VecDeque;

/// IA32_HWP_REQUEST: minimum, maximum, desired (0: none), and EPP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub least: u8,
    pub most: u8,
    pub desired: u8,
    pub preference: u8,
}

impl Request {
    /// From the register's low 32 bits; the activity window above them is the model's own.
    pub const fn of(register: u64) -> Self {
        let bytes = register.to_le_bytes();
        Self { least: bytes[0], most: bytes[1], desired: bytes[2], preference: bytes[3] }
    }

    /// A ratio within the request, and within what the processor has: where the two limits cross, the
    /// maximum holds.
    pub fn bound(self, ratio: u8, least: u8, most: u8) -> u8 {
        let most = self.most.clamp(least, most);
        ratio.clamp(self.least.clamp(least, most), most)
    }
}

/// What a sum of floats may be above the ratio that it stands for.
const ROUNDING: f64 = 1e-6;

/// One CPU's history.
#[derive(Debug)]
pub struct Model {
    options: HwpOptions,
    /// When the next decision is due.
    pub due_ns: u64,
    /// The last periods, oldest first.
    window: VecDeque<Period>,
    /// Ratio times time not idle in the present one.
    open: f64,
    /// When the present one began.
    since_ns: u64,
}

/// What a CPU did between two decisions.
#[derive(Clone, Copy, Debug, Default)]
struct Period {
    /// Ratio times time not idle.
    work: f64,
    /// Its length: a CPU that works is looked at a little after a decision was due.
    time_ns: u64,
}

impl Model {
    pub fn new(options: HwpOptions, now_ns: u64) -> Self {
        let periods = options.window_ns.div_ceil(options.period_ns).max(1) as usize;
        let idle = Period { work: 0.0, time_ns: options.period_ns };
        Self {
            options,
            due_ns: now_ns + options.period_ns,
            window: VecDeque::from(vec![idle; periods]),
            open: 0.0,
            since_ns: now_ns,
        }
    }

    /// The CPU was not idle for so long at this ratio.
    pub fn worked(&mut self, busy_ns: u64, ratio: u8) {
        self.open += busy_ns as f64 * f64::from(ratio);
    }

    /// Whether no more decision can come out differently while the CPU stays idle.
    pub fn is_at_rest(&self) -> bool {
        self.open == 0.0 && self.window.iter().all(|period| period.work == 0.0)
    }

    /// Decides, at the time that was due or later. The next decision is due a whole number of periods after
    /// this one was: a late look makes its own period longer, and the next one shorter. A CPU at rest
    /// is not looked at, and each of its periods is as long as it should be.
    pub fn decide(&mut self, now_ns: u64, request: Request, least: u8, most: u8) -> u8 {
        let nominal_ns = self.options.period_ns;
        let due_ns = self.due_ns + now_ns.saturating_sub(self.due_ns) / nominal_ns * nominal_ns;
        self.due_ns = due_ns + nominal_ns;
        let (until_ns, most_ns) = if self.open == 0.0 { (due_ns, nominal_ns) } else { (now_ns, u64::MAX) };
        let time_ns = until_ns.saturating_sub(self.since_ns).min(most_ns);
        self.since_ns = until_ns;
        self.window.pop_front();
        self.window.push_back(Period { work: std::mem::take(&mut self.open), time_ns });
        if request.desired != 0 {
            return request.bound(request.desired, least, most);
        }
        let window_ns: u64 = self.window.iter().map(|period| period.time_ns).sum();
        let work: f64 = self.window.iter().map(|period| period.work).sum();
        let wanted = work / window_ns.max(1) as f64 / self.setpoint(request.preference);
        request.bound((wanted - ROUNDING).ceil().clamp(0.0, 255.0) as u8, least, most)
    }

    fn setpoint(&self, preference: u8) -> f64 {
        let (first, last) = self.options.setpoint;
        first + (last - first) * f64::from(preference) / 255.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn model() -> Model {
        Model::new(HwpOptions { window_ns: 4 * MS, period_ns: MS, setpoint: (0.30, 0.95) }, 0)
    }

    /// The ratio after so many periods in which the CPU is busy for this share of its time.
    fn settled(preference: u8, share: f64, periods: u64) -> u8 {
        let (mut model, mut ratio) = (model(), 8);
        let request = Request { least: 8, most: 42, desired: 0, preference };
        for period in 1..=periods {
            model.worked((MS as f64 * share) as u64, ratio);
            ratio = model.decide(period * MS, request, 8, 42);
        }
        ratio
    }

    #[test]
    fn a_busy_cpu_goes_to_the_top_and_an_idle_one_to_the_bottom() {
        assert_eq!([0, 128, 255].map(|preference| settled(preference, 1.0, 200)), [42; 3]);
        assert_eq!(settled(0, 0.0, 10), 8);
    }

    #[test]
    fn the_preference_decides_from_which_utilisation_on_a_cpu_is_raised() {
        assert_eq!(settled(0, 0.5, 200), 42, "50% is above the setpoint of 30%");
        assert_eq!(settled(128, 0.5, 200), 8, "and below that of 63%");
        assert_eq!([settled(128, 0.8, 200), settled(255, 0.8, 200)], [42, 8]);
        assert_eq!([settled(255, 0.94, 400), settled(255, 0.96, 400)], [8, 42]);
    }

    #[test]
    fn a_request_bounds_what_the_processor_does() {
        let request = Request::of(0x80_14_24_10);
        assert_eq!(request, Request { least: 0x10, most: 0x24, desired: 0x14, preference: 0x80 });
        assert_eq!(model().decide(MS, request, 8, 42), 0x14);
        assert_eq!(request.bound(0, 8, 42), 0x10);
        assert_eq!(request.bound(42, 8, 42), 0x24);
        assert_eq!(request.bound(42, 8, 20), 20, "without turbo");
        let crossed = Request { least: 40, most: 10, desired: 0, preference: 0 };
        assert_eq!(crossed.bound(30, 8, 42), 10);
        assert_eq!(Request::of(0).bound(30, 8, 42), 8);
        assert_eq!(Request::of(u64::MAX).bound(30, 8, 42), 42);
    }

    #[test]
    fn a_late_look_counts_the_time_that_it_is_late_by_and_moves_no_later_decision() {
        let (mut model, mut ratio) = (model(), 8);
        let request = Request { least: 8, most: 42, desired: 0, preference: 255 };
        let late_ns = MS / 10;
        let mut before_ns = 0;
        for period in 1..=400 {
            assert_eq!(model.due_ns, period * MS);
            let now_ns = period * MS + late_ns * (period % 2);
            model.worked((0.92 * (now_ns - before_ns) as f64) as u64, ratio);
            ratio = model.decide(now_ns, request, 8, 42);
            before_ns = now_ns;
        }
        assert_eq!(ratio, 8, "92% of the time is below the setpoint of 95%, however late each look is");
        model.decide(403 * MS + late_ns, request, 8, 42);
        assert_eq!(model.due_ns, 404 * MS, "what was missed is not made up for");
    }

    #[test]
    fn a_cpu_that_wakes_up_within_a_period_has_been_idle_in_the_rest_of_it() {
        let mut model = model();
        let request = Request { least: 8, most: 42, desired: 0, preference: 0 };
        model.decide(50 * MS + MS / 2, request, 8, 42);
        assert_eq!(model.due_ns, 51 * MS);
        model.worked(MS / 2, 20);
        // Half of a period of four, at a setpoint of 30%: 20 · 0.125 / 0.3 = 8.3.
        assert_eq!(model.decide(51 * MS, request, 8, 42), 9);
    }

    #[test]
    fn a_model_is_at_rest_once_its_window_is_empty() {
        let mut model = model();
        model.worked(MS, 42);
        let request = Request::of(0xff08);
        for period in 1..=5 {
            assert!(!model.is_at_rest(), "after {period} ms");
            model.decide(period * MS, request, 8, 42);
        }
        assert!(model.is_at_rest());
    }
}
