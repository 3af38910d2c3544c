//! The registers of an Intel processor.
//!
//! Sources: Intel SDM volume 4 (registers), volume 3 chapters 15.3 (P-states), 15.4 (HWP), 15.10 (RAPL);
//! what Linux reads of them: `drivers/cpufreq/intel_pstate.c`, `arch/x86/kernel/tsc.c`,
//! `drivers/powercap/intel_rapl_common.c`.

use super::{Asked, ENERGY_AND_OTHER_UNITS, Meter, Written};
use crate::hwp::Request;
use crate::options::ProcessorOptions;

const PLATFORM_INFO: u32 = 0xce;
const PERF_STATUS: u32 = 0x198;
/// IA32_PERF_CTL: the ratio in bits 15 to 8, bit 32 keeps the CPU from turbo.
pub const PERF_CTL: u32 = 0x199;
const THERM_STATUS: u32 = 0x19c;
const MISC_ENABLE: u32 = 0x1a0;
const TEMPERATURE_TARGET: u32 = 0x1a2;
const TURBO_RATIO_LIMIT: u32 = 0x1ad;
const TURBO_RATIO_LIMIT1: u32 = 0x1ae;
const TURBO_RATIO_LIMIT2: u32 = 0x1af;
const ENERGY_PERF_BIAS: u32 = 0x1b0;
const PACKAGE_THERM_STATUS: u32 = 0x1b1;
const POWER_CTL: u32 = 0x1fc;
const RAPL_POWER_UNIT: u32 = 0x606;
const PKG_POWER_LIMIT: u32 = 0x610;
pub const PKG_ENERGY_STATUS: u32 = 0x611;
const PKG_POWER_INFO: u32 = 0x614;
const PP0_POWER_LIMIT: u32 = 0x638;
pub const PP0_ENERGY_STATUS: u32 = 0x639;
const CONFIG_TDP_LEVELS: std::ops::RangeInclusive<u32> = 0x648..=0x64c;
const ATOM_CORE_RATIOS: u32 = 0x66a;
const ATOM_CORE_TURBO_RATIOS: u32 = 0x66c;
const PM_ENABLE: u32 = 0x770;
const HWP_CAPABILITIES: u32 = 0x771;
const HWP_INTERRUPT: u32 = 0x773;
/// IA32_HWP_REQUEST.
pub const HWP_REQUEST: u32 = 0x774;
const HWP_STATUS: u32 = 0x777;

/// Of IA32_MISC_ENABLE: enhanced SpeedStep, and no turbo.
const SPEEDSTEP: u64 = 1 << 16;
const NO_TURBO: u64 = 1 << 38;

/// What was written to one CPU's registers, or stands there at the start.
#[derive(Debug)]
pub struct Registers {
    perf_ctl: u64,
    misc_enable: u64,
    bias: u64,
    has_hwp: bool,
    hwp_enabled: bool,
    hwp_request: u64,
}

impl Registers {
    /// A CPU that begins at its highest ratio.
    pub fn new(options: &ProcessorOptions) -> Self {
        let (least, turbo) = (u64::from(options.least), u64::from(options.turbo()));
        Self {
            perf_ctl: turbo << 8,
            misc_enable: SPEEDSTEP | 1,
            bias: 6,
            has_hwp: options.hwp.is_some(),
            hwp_enabled: false,
            hwp_request: 0x8000_0000 | turbo << 8 | least,
        }
    }

    /// What is asked for at present.
    pub fn asked(&self) -> Asked {
        if self.hwp_enabled {
            Asked::Within(Request::of(self.hwp_request))
        } else {
            Asked::Ratio((self.perf_ctl >> 8) as u8)
        }
    }

    /// Whether the CPU may go above its base ratio.
    pub const fn has_turbo(&self) -> bool {
        self.misc_enable & NO_TURBO == 0 && (self.hwp_enabled || self.perf_ctl >> 32 & 1 == 0)
    }

    /// The register by which the guest asks at present, and what stands in it.
    pub const fn request(&self) -> (u32, u64) {
        if self.hwp_enabled { (HWP_REQUEST, self.hwp_request) } else { (PERF_CTL, self.perf_ctl) }
    }

    /// A register; `None` for those that QEMU answers.
    pub fn read(&self, register: u32, options: &ProcessorOptions, meter: &Meter) -> Option<u64> {
        let (low, base) = (u64::from(options.least), u64::from(options.base));
        Some(match register {
            PLATFORM_INFO => low << 40 | 3 << 28 | base << 8,
            PERF_STATUS => u64::from(meter.ratio) << 8,
            PERF_CTL => self.perf_ctl,
            // Valid readings, 60 degrees below the limit.
            THERM_STATUS => 0x883c_0000,
            PACKAGE_THERM_STATUS => 0x803c_0000,
            MISC_ENABLE => self.misc_enable,
            TEMPERATURE_TARGET => 100 << 16,
            // For one to eight busy cores, from the lowest byte.
            TURBO_RATIO_LIMIT => u64::from_le_bytes(std::array::from_fn(|busy| options.limit(busy + 1))),
            TURBO_RATIO_LIMIT1 | TURBO_RATIO_LIMIT2 | POWER_CTL => 0,
            ENERGY_PERF_BIAS => self.bias,
            RAPL_POWER_UNIT => ENERGY_AND_OTHER_UNITS,
            PKG_ENERGY_STATUS | PP0_ENERGY_STATUS => meter.package_energy,
            PKG_POWER_LIMIT | PKG_POWER_INFO | PP0_POWER_LIMIT => 0,
            _ if CONFIG_TDP_LEVELS.contains(&register) => 0,
            _ if self.has_hwp => return self.read_hwp(register, low, base, options.turbo().into()),
            _ => return None,
        })
    }

    fn read_hwp(&self, register: u32, low: u64, base: u64, turbo: u64) -> Option<u64> {
        Some(match register {
            PM_ENABLE => self.hwp_enabled.into(),
            HWP_CAPABILITIES => low << 24 | (low + 4).min(base) << 16 | base << 8 | turbo,
            HWP_REQUEST => self.hwp_request,
            HWP_INTERRUPT | HWP_STATUS => 0,
            _ => return None,
        })
    }

    /// Writes a register. Bits that are reserved are kept as written where Linux never sets them.
    pub fn write(&mut self, register: u32, value: u64) -> Written {
        match register {
            PERF_CTL => {
                self.perf_ctl = value;
                return Written::Asks { counts: !self.hwp_enabled };
            }
            MISC_ENABLE => self.misc_enable = value | SPEEDSTEP,
            ENERGY_PERF_BIAS => {
                self.bias = value & 0xf;
                return Written::Kept;
            }
            // Enabled until the next reset.
            PM_ENABLE if self.has_hwp => self.hwp_enabled |= value & 1 != 0,
            HWP_REQUEST if self.has_hwp => {
                self.hwp_request = value;
                return Written::Asks { counts: self.hwp_enabled };
            }
            _ => return Written::ReadOnly,
        }
        Written::Asks { counts: false }
    }

    /// Whether the processor chooses by itself.
    pub const fn is_autonomous(&self) -> bool {
        self.hwp_enabled
    }
}

/// What one leaf of `cpuid` becomes: `registers` are EAX, EBX, ECX and EDX as QEMU has them.
pub fn cpuid(options: &ProcessorOptions, leaf: u32, registers: &mut [u32; 4]) {
    /// EAX of leaf 6: temperature sensor, turbo, and a timer that never stops.
    const THERMAL: u32 = 0b111;
    /// HWP, its activity window, and its preference.
    const HWP: u32 = 1 << 7 | 1 << 9 | 1 << 10;
    let (base, turbo) = (u32::from(options.base), u32::from(options.turbo()));
    match leaf {
        // APERF and MPERF, and the energy performance bias.
        6 => *registers = [THERMAL | if options.hwp.is_some() { HWP } else { 0 }, 0, 1 | 1 << 3, 0],
        // The TSC is this multiple of a crystal of 1 GHz, which is also QEMU's APIC timer.
        0x15 => *registers = [10, base, 1_000_000_000, 0],
        0x16 => *registers = [base * 100, turbo * 100, 100, 0],
        // The TSC does not depend on the frequency.
        0x8000_0007 => registers[3] |= 1 << 8,
        _ => {}
    }
}

/// Whether a register is one of those of Atom alone by which Linux finds out the highest frequency
/// (`slv_set_max_freq_ratio` of `arch/x86/kernel/cpu/aperfmperf.c`). Where they can be read it looks no
/// further, and finding zero there it would not scale utilisation by frequency.
pub const fn is_missing(register: u32) -> bool {
    matches!(register, ATOM_CORE_RATIOS | ATOM_CORE_TURBO_RATIOS)
}

/// Whether a register counts for all CPUs together.
pub const fn is_of_package(register: u32) -> bool {
    matches!(register, PKG_ENERGY_STATUS | PP0_ENERGY_STATUS)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{options, processor};
    use super::*;
    use crate::options::Vendor;

    #[test]
    fn a_requested_ratio_is_taken_within_what_the_processor_has() {
        let mut cpu = processor(Vendor::Intel, false);
        assert_eq!((cpu.wish(), cpu.was_requested()), (42, false));
        for (value, ratio) in [(30 << 8, 30), (0, 8), (0xff00, 42), (1 << 32 | 42 << 8, 40), (u64::MAX, 40)] {
            assert!(cpu.write(PERF_CTL, value));
            assert_eq!((cpu.wish(), cpu.read(PERF_CTL, 0.0)), (ratio, Some(value)), "{value:#x}");
        }
        assert!(cpu.was_requested());
    }

    #[test]
    fn without_turbo_the_base_is_the_highest_ratio_of_all_ways_to_ask() {
        for hwp in [false, true] {
            let mut cpu = processor(Vendor::Intel, hwp);
            cpu.write(PM_ENABLE, 1);
            cpu.write(MISC_ENABLE, NO_TURBO);
            assert_eq!(cpu.wish(), 40, "hwp {hwp}");
            cpu.write(MISC_ENABLE, 0);
            cpu.write(PERF_CTL, 42 << 8);
            cpu.write(HWP_REQUEST, 42 << 8 | 42);
            assert_eq!(cpu.wish(), 42, "hwp {hwp}");
        }
    }

    #[test]
    fn once_hwp_is_enabled_it_stays_so_and_perf_ctl_is_ignored() {
        let mut cpu = processor(Vendor::Intel, true);
        cpu.write(PM_ENABLE, 1);
        cpu.write(PM_ENABLE, 0);
        assert_eq!(cpu.read(PM_ENABLE, 0.0), Some(1));
        cpu.write(PERF_CTL, 8 << 8);
        assert_eq!((cpu.wish(), cpu.was_requested()), (42, false));
        cpu.write(HWP_REQUEST, 0x0808);
        assert_eq!((cpu.wish(), cpu.was_requested()), (8, true));
        assert_eq!(cpu.read(HWP_CAPABILITIES, 0.0), Some(0x080c_282a));
    }

    #[test]
    fn registers_of_hwp_are_qemus_where_the_processor_has_none() {
        let mut cpu = processor(Vendor::Intel, false);
        for register in [PM_ENABLE, HWP_CAPABILITIES, HWP_REQUEST, HWP_STATUS, 0xc000_0080, 0x1b] {
            assert_eq!(cpu.read(register, 0.0), None, "{register:#x}");
            assert!(!cpu.write(register, u64::MAX), "{register:#x}");
        }
        assert!(cpu.write(PLATFORM_INFO, u64::MAX), "it is ours, and read-only");
        assert_eq!(cpu.read(PLATFORM_INFO, 0.0), Some(8 << 40 | 3 << 28 | 40 << 8));
    }

    #[test]
    fn registers_of_atom_are_missing_and_no_others() {
        let missing: Vec<u32> = (0..0x1000).filter(|register| is_missing(*register)).collect();
        assert_eq!(missing, [0x66a, 0x66c]);
        let cpu = processor(Vendor::Intel, true);
        assert!(missing.iter().all(|register| cpu.read(*register, 0.0).is_none()));
    }

    #[test]
    fn turbo_limits_are_given_for_each_number_of_busy_cores() {
        let cpu = processor(Vendor::Intel, false);
        assert_eq!(cpu.read(TURBO_RATIO_LIMIT, 0.0), Some(0x2929_2929_2929_292a));
    }

    #[test]
    fn cpuid_names_hwp_only_where_there_is_some() {
        for (hwp, eax) in [(false, 0x7), (true, 0x687)] {
            let mut registers = [9; 4];
            let options = options(Vendor::Intel, hwp);
            cpuid(&options, 6, &mut registers);
            assert_eq!(registers, [eax, 0, 9, 0]);
            cpuid(&options, 0x15, &mut registers);
            assert_eq!(registers, [10, 40, 1_000_000_000, 0]);
            cpuid(&options, 1, &mut registers);
            assert_eq!(registers, [10, 40, 1_000_000_000, 0], "as QEMU has it");
        }
    }
}
