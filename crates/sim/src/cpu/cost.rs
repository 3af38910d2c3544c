//! Costs of work, in cycles and in time that no frequency shortens.

/// What work costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Cycles of the CPU's clock.
    pub cycles: u64,
    /// Time that no frequency shortens, in nanoseconds: waiting for memory.
    pub stall_ns: u64,
}

impl Cost {
    /// Nothing.
    pub const NONE: Self = Self { cycles: 0, stall_ns: 0 };

    /// Cycles alone.
    pub const fn cycles(cycles: u64) -> Self {
        Self { cycles, stall_ns: 0 }
    }

    /// Whether it is nothing.
    pub const fn is_nothing(self) -> bool {
        self.cycles == 0 && self.stall_ns == 0
    }

    /// Both together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { cycles: self.cycles + other.cycles, stall_ns: self.stall_ns + other.stall_ns }
    }

    /// So many times.
    #[must_use]
    pub const fn times(self, count: u64) -> Self {
        Self { cycles: self.cycles * count, stall_ns: self.stall_ns * count }
    }

    /// The first of so many parts, each as large as it at least.
    #[must_use]
    pub const fn divided(self, parts: u64) -> Self {
        Self { cycles: self.cycles / parts, stall_ns: self.stall_ns / parts }
    }

    /// What remains without a part of it.
    #[must_use]
    pub const fn less(self, part: Self) -> Self {
        Self { cycles: self.cycles - part.cycles, stall_ns: self.stall_ns - part.stall_ns }
    }

    pub(super) fn at(self, khz: u64) -> u64 {
        self.stall_ns + (self.cycles * 1_000_000).div_ceil(khz)
    }

    /// What is left after `done` of `whole` nanoseconds.
    pub(super) fn rest(self, done: u64, whole: u64) -> Self {
        let left = whole - done;
        let whole = whole.max(1);
        let share = |all: u64| match all.checked_mul(left) {
            Some(product) => product.div_ceil(whole),
            None => (u128::from(all) * u128::from(left)).div_ceil(u128::from(whole)) as u64,
        };
        Self { cycles: share(self.cycles), stall_ns: share(self.stall_ns) }
    }
}
