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
    /// Ratio times time not idle in each of the last periods, oldest first.
    work: VecDeque<f64>,
    /// The same in the present one.
    open: f64,
}

impl Model {
    pub fn new(options: HwpOptions, now_ns: u64) -> Self {
        let periods = options.window_ns.div_ceil(options.period_ns).max(1) as usize;
        Self {
            options,
            due_ns: now_ns + options.period_ns,
            work: VecDeque::from(vec![0.0; periods]),
            open: 0.0,
        }
    }

    /// The CPU was not idle for so long at this ratio.
    pub fn worked(&mut self, busy_ns: u64, ratio: u8) {
        self.open += busy_ns as f64 * f64::from(ratio);
    }

    /// Whether no more decision can come out differently while the CPU stays idle.
    pub fn is_at_rest(&self) -> bool {
        self.open == 0.0 && self.work.iter().all(|work| *work == 0.0)
    }

    /// Decides; the next decision is due a period after `now_ns`.
    pub fn decide(&mut self, now_ns: u64, request: Request, least: u8, most: u8) -> u8 {
        self.work.pop_front();
        self.work.push_back(std::mem::take(&mut self.open));
        self.due_ns = now_ns + self.options.period_ns;
        if request.desired != 0 {
            return request.bound(request.desired, least, most);
        }
        let window_ns = self.options.period_ns as f64 * self.work.len() as f64;
        let wanted = self.work.iter().sum::<f64>() / window_ns / self.setpoint(request.preference);
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
