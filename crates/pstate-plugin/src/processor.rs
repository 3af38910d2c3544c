//! An Intel processor's registers as one virtual CPU has them: what `rdmsr`, `wrmsr`, `cpuid` and `rdtsc`
//! answer, and which ratio (in units of 100 MHz) its requests lead to. Pure: it is told the time.
//!
//! Sources: Intel SDM volume 4 (registers), volume 3 chapters 15.3 (P-states), 15.4 (HWP), 15.10 (RAPL);
//! what Linux reads of them: `drivers/cpufreq/intel_pstate.c`, `arch/x86/kernel/tsc.c`,
//! `drivers/powercap/intel_rapl_common.c`. A register that is not here is QEMU's.

use crate::hwp::{Model, Request};
use crate::options::ProcessorOptions;
use crate::vcpu::Vcpu;

const TSC: u32 = 0x10;
const PLATFORM_INFO: u32 = 0xce;
const MPERF: u32 = 0xe7;
const APERF: u32 = 0xe8;
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
const PKG_ENERGY_STATUS: u32 = 0x611;
const PKG_POWER_INFO: u32 = 0x614;
const PP0_POWER_LIMIT: u32 = 0x638;
const PP0_ENERGY_STATUS: u32 = 0x639;
const CONFIG_TDP_LEVELS: std::ops::RangeInclusive<u32> = 0x648..=0x64c;
const PM_ENABLE: u32 = 0x770;
const HWP_CAPABILITIES: u32 = 0x771;
const HWP_INTERRUPT: u32 = 0x773;
/// IA32_HWP_REQUEST.
pub const HWP_REQUEST: u32 = 0x774;
const HWP_STATUS: u32 = 0x777;

/// Of IA32_MISC_ENABLE: enhanced SpeedStep, and no turbo.
const SPEEDSTEP: u64 = 1 << 16;
const NO_TURBO: u64 = 1 << 38;

/// RAPL's units: 2⁻³ W, 2⁻¹⁴ J, 2⁻¹⁰ s.
const POWER_UNITS: u64 = 0x000a_0e03;
const ENERGY_UNITS_PER_JOULE: f64 = 16384.0;

/// What the CPU's registers count.
#[derive(Clone, Copy, Debug, Default)]
struct Meters {
    busy_ns: u64,
    /// Ratio times time not idle.
    cycles: f64,
    joules: f64,
}

/// One CPU.
#[derive(Debug)]
pub struct Processor {
    options: ProcessorOptions,
    epoch_ns: u64,
    /// Up to when everything is counted.
    now_ns: u64,
    meters: Meters,
    ratio: u8,
    /// What was written, or stands there at the start.
    perf_ctl: u64,
    misc_enable: u64,
    bias: u64,
    hwp_enabled: bool,
    hwp_request: u64,
    tsc_offset: u64,
    model: Option<Model>,
    /// Whether the guest has ever asked for a ratio.
    requested: bool,
}

impl Processor {
    /// A CPU that begins at its highest ratio, with a TSC that was 0 at `epoch_ns`.
    pub fn new(options: &ProcessorOptions, epoch_ns: u64, now_ns: u64) -> Self {
        let (least, turbo) = (u64::from(options.least), u64::from(options.turbo));
        Self {
            epoch_ns,
            now_ns,
            meters: Meters::default(),
            ratio: options.turbo,
            perf_ctl: turbo << 8,
            misc_enable: SPEEDSTEP | 1,
            bias: 6,
            hwp_enabled: false,
            hwp_request: 0x8000_0000 | turbo << 8 | least,
            tsc_offset: 0,
            model: options.hwp.map(|hwp| Model::new(hwp, now_ns)),
            requested: false,
            options: options.clone(),
        }
    }

    /// The P-state that it is in: an index from the fastest.
    pub fn state(&self) -> usize {
        usize::from(self.options.turbo - self.ratio)
    }

    /// Whether the guest has ever asked for a ratio.
    pub const fn was_requested(&self) -> bool {
        self.requested
    }

    /// When the hardware decides next by itself; `None` where it does not.
    pub fn due_ns(&self) -> Option<u64> {
        self.model.as_ref().filter(|_| self.hwp_enabled).map(|model| model.due_ns)
    }

    /// Time has passed, `busy_ns` of all time since the start not idle.
    pub fn pass(&mut self, now_ns: u64, busy_ns: u64) {
        let time_ns = now_ns.saturating_sub(self.now_ns);
        let busy_ns = busy_ns.saturating_sub(self.meters.busy_ns).min(time_ns);
        let (busy_watts, idle_watts) = self.options.watts[self.state()];
        self.now_ns += time_ns;
        self.meters.busy_ns += busy_ns;
        self.meters.cycles += busy_ns as f64 * f64::from(self.ratio);
        self.meters.joules += (busy_ns as f64 * busy_watts + (time_ns - busy_ns) as f64 * idle_watts) / 1e9;
        if let Some(model) = &mut self.model {
            model.worked(busy_ns, self.ratio);
        }
    }

    /// The hardware decides, where its time has come. A CPU that has been idle for longer than its window
    /// has nothing more to decide until it works.
    pub fn decide(&mut self) {
        let (least, most, request) = (self.options.least, self.most(), Request::of(self.hwp_request));
        let Some(model) = self.model.as_mut().filter(|_| self.hwp_enabled) else { return };
        if model.due_ns <= self.now_ns {
            self.ratio = model.decide(self.now_ns, request, least, most);
        }
    }

    /// Whether an idle CPU's further decisions are all alike.
    pub fn is_at_rest(&self) -> bool {
        self.model.as_ref().is_none_or(Model::is_at_rest)
    }

    /// The highest ratio that is allowed at present.
    fn most(&self) -> u8 {
        let without = self.misc_enable & NO_TURBO != 0 || !self.hwp_enabled && self.perf_ctl >> 32 & 1 != 0;
        if without { self.options.base } else { self.options.turbo }
    }

    /// A request takes effect at once: the limits of HWP's, all of IA32_PERF_CTL's.
    fn obey(&mut self) {
        let (least, most) = (self.options.least, self.most());
        self.ratio = if self.hwp_enabled {
            Request::of(self.hwp_request).bound(self.ratio, least, most)
        } else {
            ((self.perf_ctl >> 8) as u8).clamp(least, most)
        };
    }

    /// What `rdtsc` gives.
    pub fn tsc(&self, now_ns: u64) -> u64 {
        self.cycles_of(now_ns.saturating_sub(self.epoch_ns)).wrapping_add(self.tsc_offset)
    }

    /// Cycles at the base ratio.
    fn cycles_of(&self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from(self.options.base) / 10) as u64
    }

    /// A register of this CPU; `None` for those that QEMU answers. `package_joules` is the energy of all
    /// CPUs.
    pub fn read(&self, register: u32, package_joules: f64) -> Option<u64> {
        let ProcessorOptions { least, base, turbo, .. } = self.options;
        let (low, base, turbo) = (u64::from(least), u64::from(base), u64::from(turbo));
        Some(match register {
            TSC => self.tsc(self.now_ns),
            PLATFORM_INFO => low << 40 | 3 << 28 | base << 8,
            MPERF => self.cycles_of(self.meters.busy_ns),
            APERF => (self.meters.cycles / 10.0) as u64,
            PERF_STATUS => u64::from(self.ratio) << 8,
            PERF_CTL => self.perf_ctl,
            // Valid readings, 60 degrees below the limit.
            THERM_STATUS => 0x883c_0000,
            PACKAGE_THERM_STATUS => 0x803c_0000,
            MISC_ENABLE => self.misc_enable,
            TEMPERATURE_TARGET => 100 << 16,
            TURBO_RATIO_LIMIT => turbo * 0x0101_0101_0101_0101,
            TURBO_RATIO_LIMIT1 | TURBO_RATIO_LIMIT2 | POWER_CTL => 0,
            ENERGY_PERF_BIAS => self.bias,
            RAPL_POWER_UNIT => POWER_UNITS,
            PKG_ENERGY_STATUS | PP0_ENERGY_STATUS => {
                (package_joules * ENERGY_UNITS_PER_JOULE) as u64 & u64::from(u32::MAX)
            }
            PKG_POWER_LIMIT | PKG_POWER_INFO | PP0_POWER_LIMIT => 0,
            _ if CONFIG_TDP_LEVELS.contains(&register) => 0,
            _ => return self.read_hwp(register, low, base, turbo),
        })
    }

    fn read_hwp(&self, register: u32, low: u64, base: u64, turbo: u64) -> Option<u64> {
        self.model.as_ref()?;
        Some(match register {
            PM_ENABLE => self.hwp_enabled.into(),
            HWP_CAPABILITIES => low << 24 | (low + 4).min(base) << 16 | base << 8 | turbo,
            HWP_REQUEST => self.hwp_request,
            HWP_INTERRUPT | HWP_STATUS => 0,
            _ => return None,
        })
    }

    /// Writes a register of this CPU, and gives whether it is one: those of others are QEMU's. Bits that are
    /// reserved are kept as written where Linux never sets them, and read-only registers stay as they are.
    pub fn write(&mut self, register: u32, value: u64) -> bool {
        match register {
            TSC => self.tsc_offset = value.wrapping_sub(self.tsc(self.now_ns).wrapping_sub(self.tsc_offset)),
            PERF_CTL => {
                self.perf_ctl = value;
                self.requested |= !self.hwp_enabled;
                self.obey();
            }
            MISC_ENABLE => {
                self.misc_enable = value | SPEEDSTEP;
                self.obey();
            }
            ENERGY_PERF_BIAS => self.bias = value & 0xf,
            // Enabled until the next reset.
            PM_ENABLE if self.model.is_some() => {
                self.hwp_enabled |= value & 1 != 0;
                self.obey();
            }
            HWP_REQUEST if self.model.is_some() => {
                self.hwp_request = value;
                self.requested |= self.hwp_enabled;
                self.obey();
            }
            _ => return self.read(register, 0.0).is_some(),
        }
        true
    }

    /// The register by which the guest asks at present, and what stands in it.
    pub const fn request(&self) -> (u32, u64) {
        if self.hwp_enabled { (HWP_REQUEST, self.hwp_request) } else { (PERF_CTL, self.perf_ctl) }
    }

    /// Energy of this CPU since its start, in joules, by the table's watts.
    pub const fn joules(&self) -> f64 {
        self.meters.joules
    }
}

/// Whether a register counts for all CPUs together.
pub const fn is_of_package(register: u32) -> bool {
    matches!(register, PKG_ENERGY_STATUS | PP0_ENERGY_STATUS)
}

/// Brings a CPU's account and its processor up to now: the processor sees what the CPU did, decides, and
/// the CPU is in the state that follows. An idle CPU's decisions are made at their times, until there is
/// nothing more to decide; a busy one's, a look at the clock late at most.
pub fn follow(processor: &mut Processor, vcpu: &mut Vcpu, now_ns: u64, count: u64, pace: &[f64]) {
    while let Some(due_ns) = processor.due_ns().filter(|due| *due < now_ns)
        && vcpu.is_idle()
        && !processor.is_at_rest()
    {
        step(processor, vcpu, due_ns, count, pace);
    }
    step(processor, vcpu, now_ns, count, pace);
}

fn step(processor: &mut Processor, vcpu: &mut Vcpu, now_ns: u64, count: u64, pace: &[f64]) {
    vcpu.account(now_ns, count, pace);
    processor.pass(now_ns, vcpu.busy_ns());
    processor.decide();
    adopt(processor, vcpu, now_ns, count, pace);
}

/// Puts a CPU into the state that its processor is in.
pub fn adopt(processor: &Processor, vcpu: &mut Vcpu, now_ns: u64, count: u64, pace: &[f64]) {
    if processor.state() != vcpu.state() {
        vcpu.set_state(processor.state(), now_ns, count, pace);
    }
}

/// What one leaf of `cpuid` becomes: `registers` are EAX, EBX, ECX and EDX as QEMU has them.
pub fn cpuid(options: &ProcessorOptions, leaf: u32, registers: &mut [u32; 4]) {
    /// EAX of leaf 6: temperature sensor, turbo, and a timer that never stops.
    const THERMAL: u32 = 0b111;
    /// HWP, its activity window, and its preference.
    const HWP: u32 = 1 << 7 | 1 << 9 | 1 << 10;
    let (base, turbo) = (u32::from(options.base), u32::from(options.turbo));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::HwpOptions;

    const MS: u64 = 1_000_000;

    fn options(hwp: bool) -> ProcessorOptions {
        let model = HwpOptions { window_ns: 4 * MS, period_ns: MS, setpoint: (0.30, 0.95) };
        let watts = (8..=42).rev().map(|ratio| (f64::from(ratio), 1.0)).collect();
        ProcessorOptions { least: 8, base: 40, turbo: 42, hwp: hwp.then_some(model), watts }
    }

    fn processor(hwp: bool) -> Processor {
        Processor::new(&options(hwp), 0, 0)
    }

    #[test]
    fn a_requested_ratio_is_taken_within_what_the_processor_has() {
        let mut cpu = processor(false);
        assert_eq!((cpu.state(), cpu.was_requested()), (0, false));
        for (value, state) in [(30 << 8, 12), (0, 34), (0xff00, 0), (1 << 32 | 42 << 8, 2), (u64::MAX, 2)] {
            assert!(cpu.write(PERF_CTL, value));
            assert_eq!((cpu.state(), cpu.read(PERF_CTL, 0.0)), (state, Some(value)), "{value:#x}");
        }
        assert!(cpu.was_requested());
    }

    #[test]
    fn without_turbo_the_base_is_the_highest_ratio_of_all_ways_to_ask() {
        for hwp in [false, true] {
            let mut cpu = processor(hwp);
            cpu.write(PM_ENABLE, 1);
            cpu.write(MISC_ENABLE, NO_TURBO);
            assert_eq!(cpu.state(), 2, "hwp {hwp}");
            cpu.write(MISC_ENABLE, 0);
            cpu.write(PERF_CTL, 42 << 8);
            cpu.write(HWP_REQUEST, 42 << 8 | 42);
            assert_eq!(cpu.state(), 0, "hwp {hwp}");
        }
    }

    #[test]
    fn once_hwp_is_enabled_it_stays_so_and_perf_ctl_is_ignored() {
        let mut cpu = processor(true);
        cpu.write(PM_ENABLE, 1);
        cpu.write(PM_ENABLE, 0);
        assert_eq!(cpu.read(PM_ENABLE, 0.0), Some(1));
        cpu.write(PERF_CTL, 8 << 8);
        assert_eq!((cpu.state(), cpu.was_requested()), (0, false));
        cpu.write(HWP_REQUEST, 0x0808);
        assert_eq!((cpu.state(), cpu.was_requested()), (34, true));
        assert_eq!(cpu.read(HWP_CAPABILITIES, 0.0), Some(0x080c_282a));
    }

    #[test]
    fn registers_of_hwp_are_qemus_where_the_processor_has_none() {
        let mut cpu = processor(false);
        for register in [PM_ENABLE, HWP_CAPABILITIES, HWP_REQUEST, HWP_STATUS, 0xc000_0080, 0x1b] {
            assert_eq!(cpu.read(register, 0.0), None, "{register:#x}");
            assert!(!cpu.write(register, u64::MAX), "{register:#x}");
        }
        assert!(cpu.write(PLATFORM_INFO, u64::MAX), "it is ours, and read-only");
        assert_eq!(cpu.read(PLATFORM_INFO, 0.0), Some(8 << 40 | 3 << 28 | 40 << 8));
    }

    #[test]
    fn aperf_over_mperf_is_the_frequency_and_neither_counts_idle_time() {
        let mut cpu = processor(false);
        cpu.write(PERF_CTL, 20 << 8);
        cpu.pass(MS, MS);
        cpu.pass(3 * MS, MS);
        assert_eq!(cpu.read(MPERF, 0.0), Some(4_000_000));
        assert_eq!(cpu.read(APERF, 0.0), Some(2_000_000));
        assert_eq!(cpu.read(TSC, 0.0), Some(12_000_000));
        assert_eq!(cpu.read(PERF_STATUS, 0.0), Some(20 << 8));
    }

    #[test]
    fn energy_is_the_tables_watts_and_its_counter_wraps() {
        let mut cpu = processor(false);
        cpu.write(PERF_CTL, 10 << 8);
        cpu.pass(2_000 * MS, 500 * MS);
        assert!((cpu.joules() - 6.5).abs() < 1e-9, "0.5 s at 10 W, 1.5 s at 1 W: {}", cpu.joules());
        assert_eq!(cpu.read(PKG_ENERGY_STATUS, 1.0), Some(16384));
        assert_eq!(cpu.read(PKG_ENERGY_STATUS, 262_144.0), Some(0));
    }

    #[test]
    fn the_hardware_follows_the_load_and_rests_when_idle() {
        let mut cpu = processor(true);
        cpu.write(PM_ENABLE, 1);
        cpu.write(HWP_REQUEST, 0x8000_2a08);
        for step in 1..=20 {
            cpu.pass(step * MS, 0);
            cpu.decide();
        }
        assert_eq!((cpu.state(), cpu.is_at_rest()), (34, true));
        for step in 21..=200 {
            cpu.pass(step * MS, (step - 20) * MS);
            cpu.decide();
        }
        assert_eq!((cpu.state(), cpu.is_at_rest()), (0, false));
    }

    #[test]
    fn an_idle_cpu_comes_down_at_the_times_of_its_decisions_and_not_when_it_is_looked_at() {
        let pace = [50.0; 35];
        let (mut cpu, mut vcpu) = (processor(true), Vcpu::new(35, 0));
        vcpu.begin(0, 0, &pace);
        cpu.write(PM_ENABLE, 1);
        cpu.write(HWP_REQUEST, 0x2a08);
        for step in 1..=10 {
            follow(&mut cpu, &mut vcpu, step * MS, 0, &pace);
        }
        assert_eq!(vcpu.state(), 0);
        vcpu.rest(10 * MS, 0, &pace);
        follow(&mut cpu, &mut vcpu, 1_000 * MS, 0, &pace);
        assert_eq!((vcpu.state(), cpu.is_at_rest()), (34, true));
        let span = vcpu.end(1_000 * MS, 0, &pace).unwrap();
        assert!(span.changes.last().unwrap().0 <= 16 * MS, "{:?}", span.changes);
        assert!(span.sums[34].time_ns >= 984 * MS, "{:?}", span.sums[34]);
    }

    #[test]
    fn a_written_tsc_goes_on_from_there() {
        let mut cpu = processor(false);
        cpu.pass(MS, 0);
        cpu.write(TSC, 100);
        assert_eq!((cpu.tsc(MS), cpu.tsc(2 * MS)), (100, 4_000_100));
    }

    #[test]
    fn cpuid_names_hwp_only_where_there_is_some() {
        for (hwp, eax) in [(false, 0x7), (true, 0x687)] {
            let mut registers = [9; 4];
            cpuid(&options(hwp), 6, &mut registers);
            assert_eq!(registers, [eax, 0, 9, 0]);
            cpuid(&options(hwp), 0x15, &mut registers);
            assert_eq!(registers, [10, 40, 1_000_000_000, 0]);
            cpuid(&options(hwp), 1, &mut registers);
            assert_eq!(registers, [10, 40, 1_000_000_000, 0], "as QEMU has it");
        }
    }
}
