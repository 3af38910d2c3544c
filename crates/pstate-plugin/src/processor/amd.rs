//! The registers of an AMD processor with CPPC (collaborative processor performance control).
//!
//! Performance levels are in the units of the table's ratios, so that `_CPC`'s frequencies are levels times
//! 100 MHz.
//!
//! Sources: AMD's processor programming reference for family 19h, model 21h (MSRC001_02B0 to 02B4,
//! MSRC001_0015, RAPL), AMD64 architecture manual volume 2, 17.6 (CPPC); what Linux reads of them:
//! `drivers/cpufreq/amd-pstate.c`, `drivers/powercap/intel_rapl_msr.c`.

use super::{Asked, ENERGY_AND_OTHER_UNITS, Meter, Written};
use crate::hwp::Request;
use crate::options::ProcessorOptions;

const HWCR: u32 = 0xc001_0015;
const RAPL_POWER_UNIT: u32 = 0xc001_0299;
const CORE_ENERGY_STATUS: u32 = 0xc001_029a;
const PKG_ENERGY_STATUS: u32 = 0xc001_029b;
const CPPC_CAPABILITY_1: u32 = 0xc001_02b0;
/// CPPC_ENABLE: one for the whole package.
const CPPC_ENABLE: u32 = 0xc001_02b1;
const CPPC_CAPABILITY_2: u32 = 0xc001_02b2;
/// CPPC_REQUEST: highest, lowest and desired performance, and EPP.
pub const CPPC_REQUEST: u32 = 0xc001_02b3;
const CPPC_STATUS: u32 = 0xc001_02b4;

/// Of HWCR: the TSC counts at the frequency of the highest P-state, and no boost.
const TSC_FREQUENCY: u64 = 1 << 24;
const NO_BOOST: u64 = 1 << 25;

/// What was written to one CPU's registers, or stands there at the start.
#[derive(Debug)]
pub struct Registers {
    hwcr: u64,
    enabled: bool,
    request: u64,
}

impl Registers {
    /// A CPU that begins at its highest ratio.
    pub fn new(options: &ProcessorOptions) -> Self {
        let (least, turbo) = (u64::from(options.least), u64::from(options.turbo()));
        Self { hwcr: TSC_FREQUENCY, enabled: false, request: 0x8000_0000 | least << 8 | turbo }
    }

    /// What is asked for at present. Before CPPC is enabled, P-states of the firmware hold: the highest.
    pub const fn asked(&self) -> Asked {
        if self.enabled { Asked::Within(request_of(self.request)) } else { Asked::Ratio(u8::MAX) }
    }

    /// Whether the CPU may go above its base ratio.
    pub const fn has_turbo(&self) -> bool {
        self.hwcr & NO_BOOST == 0
    }

    /// The register by which the guest asks, and what stands in it.
    pub const fn request(&self) -> (u32, u64) {
        (CPPC_REQUEST, self.request)
    }

    /// A register; `None` for those that QEMU answers.
    pub fn read(&self, register: u32, options: &ProcessorOptions, meter: &Meter) -> Option<u64> {
        let (low, base) = (u64::from(options.least), u64::from(options.base));
        let turbo = u64::from(options.turbo());
        Some(match register {
            HWCR => self.hwcr,
            RAPL_POWER_UNIT => ENERGY_AND_OTHER_UNITS,
            CORE_ENERGY_STATUS => meter.core_energy,
            PKG_ENERGY_STATUS => meter.package_energy,
            CPPC_CAPABILITY_1 => turbo << 24 | base << 16 | (low + 4).min(base) << 8 | low,
            CPPC_ENABLE => self.enabled.into(),
            CPPC_REQUEST => self.request,
            CPPC_CAPABILITY_2 | CPPC_STATUS => 0,
            _ => return None,
        })
    }

    /// Writes a register.
    pub fn write(&mut self, register: u32, value: u64) -> Written {
        match register {
            HWCR => self.hwcr = value | TSC_FREQUENCY,
            // Enabled until the next reset.
            CPPC_ENABLE => self.enabled |= value & 1 != 0,
            CPPC_REQUEST => {
                self.request = value;
                return Written::Asks { counts: self.enabled };
            }
            _ => return Written::ReadOnly,
        }
        Written::Asks { counts: false }
    }

    /// Whether the processor chooses by itself.
    pub const fn is_autonomous(&self) -> bool {
        self.enabled
    }
}

/// The register's bytes lie otherwise than those of IA32_HWP_REQUEST: the highest performance comes first.
const fn request_of(register: u64) -> Request {
    let bytes = register.to_le_bytes();
    Request { most: bytes[0], least: bytes[1], desired: bytes[2], preference: bytes[3] }
}

/// What one leaf of `cpuid` becomes: `registers` are EAX, EBX, ECX and EDX as QEMU has them.
pub const fn cpuid(leaf: u32, registers: &mut [u32; 4]) {
    match leaf {
        // A timer that never stops; APERF and MPERF.
        6 => *registers = [1 << 2, 0, 1, 0],
        // A TSC that does not depend on the frequency, boost, RAPL.
        0x8000_0007 => registers[3] |= 1 << 8 | 1 << 9 | 1 << 14,
        // CPPC by registers.
        0x8000_0008 => registers[1] |= 1 << 27,
        _ => {}
    }
}

/// Whether a register counts for all CPUs together.
pub const fn is_of_package(register: u32) -> bool {
    matches!(register, PKG_ENERGY_STATUS)
}

/// Whether a register that one CPU writes is every CPU's.
pub const fn is_written_for_all(register: u32) -> bool {
    matches!(register, CPPC_ENABLE)
}

#[cfg(test)]
mod tests {
    use super::super::tests::processor;
    use super::*;
    use crate::options::Vendor;

    #[test]
    fn a_request_is_obeyed_once_cppc_is_enabled() {
        let mut cpu = processor(Vendor::Amd, true);
        cpu.write(CPPC_REQUEST, 0x0014_0808);
        assert_eq!((cpu.wish(), cpu.was_requested()), (42, false), "not enabled yet");
        cpu.write(CPPC_ENABLE, 1);
        cpu.write(CPPC_ENABLE, 0);
        assert_eq!((cpu.read(CPPC_ENABLE, 0.0), cpu.wish()), (Some(1), 8));
        // Highest 30, lowest 10, desired 20; a desired level holds without any work.
        cpu.write(CPPC_REQUEST, 0x0014_0a1e);
        cpu.pass(10_000_000, 0, None);
        cpu.decide();
        assert_eq!((cpu.wish(), cpu.was_requested()), (20, true));
    }

    #[test]
    fn without_boost_the_base_is_the_highest_ratio() {
        let mut cpu = processor(Vendor::Amd, true);
        cpu.write(CPPC_ENABLE, 1);
        cpu.write(CPPC_REQUEST, 0x002a_082a);
        cpu.write(HWCR, NO_BOOST);
        assert_eq!(cpu.read(HWCR, 0.0), Some(NO_BOOST | TSC_FREQUENCY));
        assert_eq!(cpu.wish(), 40);
    }

    #[test]
    fn capabilities_and_cpuid_are_as_documented() {
        let cpu = processor(Vendor::Amd, true);
        assert_eq!(cpu.read(CPPC_CAPABILITY_1, 0.0), Some(0x2a28_0c08));
        assert_eq!([0x199, 0x774, 0x1ad, 0xc001_0062].map(|register| cpu.read(register, 0.0)), [None; 4]);
        let mut registers = [1; 4];
        cpuid(6, &mut registers);
        assert_eq!(registers, [4, 0, 1, 0]);
        cpuid(0x8000_0008, &mut registers);
        assert_eq!(registers, [4, 1 << 27, 1, 0]);
    }
}
