//! Residency counters of Intel's processors: for how long a core, and its package, was in each C-state, in
//! cycles of the TSC. Pure: it is told the time.
//!
//! An idle state is counted as the C-state whose number the machine's table gives it. Time in C1 has no
//! register: tools take it to be the rest (turbostat(8), CPU%c1).
//!
//! **Modelled, not known.** A package is in the state of that core of it which is least deep, at once, and it
//! takes neither time nor energy of its own to enter or leave one. A real one waits for devices and memory,
//! and passes through C2.
//!
//! Sources: Intel SDM volume 4 (MSR_CORE_C3_RESIDENCY to MSR_CORE_C7_RESIDENCY, MSR_PKG_C2_RESIDENCY to
//! MSR_PKG_C10_RESIDENCY, MSR_PKG_CST_CONFIG_CONTROL); what is read of them:
//! `arch/x86/events/intel/cstate.c`, `tools/power/x86/turbostat/turbostat.c`.

use std::ops::RangeInclusive;

/// The deepest C-state that has a register.
pub const DEEPEST: u8 = 10;

/// Time in each C-state, in nanoseconds, by its number.
pub type Times = [u64; DEEPEST as usize + 1];

/// MSR_PKG_CST_CONFIG_CONTROL: the deepest package state that firmware allows.
const PKG_CST_CONFIG_CONTROL: u32 = 0xe2;

/// Of it: firmware has locked the register.
const LOCKED: u64 = 1 << 15;

/// The C-states that a core's counter counts: cores go no deeper than C7, whatever their package does.
const fn of_core(register: u32) -> Option<RangeInclusive<u8>> {
    match register {
        0x3fc => Some(3..=3),
        0x3fd => Some(6..=6),
        0x3fe => Some(7..=DEEPEST),
        _ => None,
    }
}

/// The C-state that a package's counter counts.
const fn of_package(register: u32) -> Option<u8> {
    match register {
        0x60d => Some(2),
        0x3f8 => Some(3),
        0x3f9 => Some(6),
        0x3fa => Some(7),
        0x630 => Some(8),
        0x631 => Some(9),
        0x632 => Some(10),
        _ => None,
    }
}

/// What a core's counter stands at, in nanoseconds; `None` where the register is none of them.
pub fn core_ns(register: u32, times: &Times) -> Option<u64> {
    of_core(register).map(|states| states.map(|state| times[usize::from(state)]).sum())
}

/// The limit of package states by which tools decide which of them there are, as Haswell and its successors
/// for desktops have it (turbostat's `hsw_pkg_cstate_limits`).
const fn limit(deepest: u8) -> u64 {
    match deepest {
        0..3 => 0,
        3..6 => 2,
        6 => 3,
        7 => 4,
        8 => 6,
        9 => 7,
        _ => 8,
    }
}

/// What a register of the package shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Bits(u64),
    Nanoseconds(u64),
}

/// The cores of a package.
#[derive(Debug)]
pub struct Package {
    /// The deepest C-state that the machine has.
    deepest: u8,
    /// The C-state of each core, 0 while it executes; `None`: it has not started.
    cores: Vec<Option<u8>>,
    /// Since when the package is in its present state.
    since_ns: u64,
    times: Times,
}

impl Package {
    /// So many cores, none of which has started.
    pub fn new(deepest: u8, cores: usize) -> Self {
        Self { deepest, cores: vec![None; cores], since_ns: 0, times: Times::default() }
    }

    /// The C-state of the package; `None` while no core has started.
    fn state(&self) -> Option<u8> {
        self.cores.iter().flatten().min().copied()
    }

    /// A core is in this C-state from now on.
    pub fn set(&mut self, core: usize, state: u8, now_ns: u64) {
        if let Some(held) = self.state() {
            self.times[usize::from(held)] += now_ns.saturating_sub(self.since_ns);
        }
        self.since_ns = self.since_ns.max(now_ns);
        self.cores[core] = Some(state);
    }

    /// A register; `None` for those of others.
    pub fn read(&self, register: u32, now_ns: u64) -> Option<Shown> {
        if register == PKG_CST_CONFIG_CONTROL {
            return Some(Shown::Bits(LOCKED | limit(self.deepest)));
        }
        let state = of_package(register)?;
        let open_ns = if self.state() == Some(state) { now_ns.saturating_sub(self.since_ns) } else { 0 };
        Some(Shown::Nanoseconds(self.times[usize::from(state)] + open_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_go_no_deeper_than_c7() {
        let mut times = Times::default();
        for (state, time) in (0..).zip(&mut times) {
            *time = 1 << state;
        }
        let counted = [0x3fc, 0x3fd, 0x3fe, 0x3fa, 0x660].map(|register| core_ns(register, &times));
        assert_eq!(counted, [Some(1 << 3), Some(1 << 6), Some(0b1111 << 7), None, None]);
    }

    #[test]
    fn a_package_is_in_the_state_of_the_core_that_is_least_deep() {
        let mut package = Package::new(8, 3);
        let time = |package: &Package, register, now_ns| package.read(register, now_ns);
        assert_eq!(time(&package, 0x630, 100), Some(Shown::Nanoseconds(0)), "none has started");
        package.set(0, 8, 100);
        package.set(1, 0, 200);
        package.set(1, 6, 300);
        package.set(1, 8, 350);
        assert_eq!(time(&package, 0x3f9, 400), Some(Shown::Nanoseconds(50)));
        assert_eq!(time(&package, 0x630, 400), Some(Shown::Nanoseconds(100 + 50)), "and it goes on");
        package.set(0, 0, 400);
        assert_eq!(time(&package, 0x630, 900), Some(Shown::Nanoseconds(150)));
        // Another thread's clock was read before.
        package.set(1, 0, 390);
        assert_eq!(time(&package, 0x630, 900), Some(Shown::Nanoseconds(150)));
        let others = [0x60d, 0x3f8, 0x3fa, 0x631, 0x632].map(|register| package.read(register, 900));
        assert_eq!(others, [Some(Shown::Nanoseconds(0)); 5]);
        assert_eq!(package.read(0x3fe, 900), None, "a core's");
    }

    #[test]
    fn the_limit_names_the_deepest_state_of_the_machine() {
        let limits = [1, 3, 6, 7, 8, 9, 10].map(|deepest| Package::new(deepest, 1).read(0xe2, 0));
        let expected = [0, 2, 3, 4, 6, 7, 8].map(|limit| Some(Shown::Bits(LOCKED | limit)));
        assert_eq!(limits, expected);
    }
}
