//! Between this host's monotonic clock and the models' time.

use domain::time::Nanos;
use rustix::time::{ClockId, clock_gettime};

/// Now, on CLOCK_MONOTONIC.
pub(super) fn now() -> Nanos {
    let time = clock_gettime(ClockId::Monotonic);
    // Seconds and nanoseconds of this clock are never negative.
    Nanos::new(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Where model time zero lies on this host's clock, and how many times slower it runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    zero: Nanos,
    dilation: f64,
}

impl Scale {
    /// From now on; `None` for a dilation below 1.
    pub(super) fn new(dilation: f64) -> Option<Self> {
        (dilation >= 1.0 && dilation.is_finite()).then(|| Self { zero: now(), dilation })
    }

    /// The model's time at a moment of this host's.
    pub(super) fn model(&self, host: Nanos) -> Nanos {
        Nanos::new((host.saturating_sub(self.zero).get() as f64 / self.dilation) as u64)
    }

    /// The first moment of this host's at which the model has come to a time.
    pub(super) fn host(&self, model: Nanos) -> Nanos {
        self.zero + Nanos::new((model.get() as f64 * self.dilation).ceil() as u64)
    }

    /// A span of this host's, in the model's time.
    pub(super) fn span(&self, host: Nanos) -> Nanos {
        Nanos::new((host.get() as f64 / self.dilation).round() as u64)
    }
}
