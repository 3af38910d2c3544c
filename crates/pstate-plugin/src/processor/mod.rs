//! A processor's registers as one virtual CPU has them: what `rdmsr`, `wrmsr`, `cpuid` and `rdtsc` answer,
//! and which ratio (in units of 100 MHz) its requests lead to. Pure: it is told the time.
//!
//! What is common to all vendors is here; a vendor's own registers are in a file of its name. A register that
//! is in neither is QEMU's.

mod amd;
mod intel;

use crate::hwp::{Model, Request};
use crate::options::{IdleOptions, ProcessorOptions, Vendor};
use crate::residency::{self, Times};
use crate::vcpu::Vcpu;

const TSC: u32 = 0x10;
const MPERF: u32 = 0xe7;
const APERF: u32 = 0xe8;
/// The same, read-only (AMD64 architecture manual volume 2, 17.2).
const AMD_MPERF: u32 = 0xc000_00e7;
const AMD_APERF: u32 = 0xc000_00e8;

/// RAPL's units, of both vendors: 2⁻³ W, 2⁻¹⁴ J, 2⁻¹⁰ s.
const ENERGY_AND_OTHER_UNITS: u64 = 0x000a_0e03;
const ENERGY_UNITS_PER_JOULE: f64 = 16384.0;

/// What the CPU's registers count.
#[derive(Clone, Copy, Debug, Default)]
struct Meters {
    busy_ns: u64,
    /// Ratio times time not idle.
    cycles: f64,
    joules: f64,
    /// Time idle, by C-state.
    idle: Times,
}

/// What a vendor's registers show of the present.
struct Meter {
    ratio: u8,
    /// In RAPL's units.
    core_energy: u64,
    package_energy: u64,
}

/// What the guest asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    /// This ratio, or the nearest that there is.
    Ratio(u8),
    /// The processor's own choice, within this.
    Within(Request),
}

/// What became of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Written {
    /// The register keeps it, and nothing else follows.
    Kept,
    /// What is asked for may be another ratio now; `counts`: this was the guest's request for one.
    Asks { counts: bool },
    /// There is nothing to write, or no such register.
    ReadOnly,
}

#[derive(Debug)]
enum Registers {
    Intel(intel::Registers),
    Amd(amd::Registers),
}

/// Calls a method of either vendor's registers.
macro_rules! each_vendor {
    ($registers:expr, $each:ident => $call:expr) => {
        match $registers {
            Registers::Intel($each) => $call,
            Registers::Amd($each) => $call,
        }
    };
}

/// One CPU.
#[derive(Debug)]
pub struct Processor {
    options: ProcessorOptions,
    epoch_ns: u64,
    /// Up to when everything is counted.
    now_ns: u64,
    meters: Meters,
    /// The ratio that follows from what is asked for, and from what the CPU does.
    wish: u8,
    /// The ratio that it has: its wish, unless the package's other CPUs have a part in it.
    ratio: u8,
    registers: Registers,
    tsc_offset: u64,
    model: Option<Model>,
    /// Whether the guest has ever asked for a ratio.
    requested: bool,
}

impl Processor {
    /// A CPU that begins at its highest ratio, with a TSC that was 0 at `epoch_ns`.
    pub fn new(options: &ProcessorOptions, epoch_ns: u64, now_ns: u64) -> Self {
        Self {
            epoch_ns,
            now_ns,
            meters: Meters::default(),
            wish: options.turbo(),
            ratio: options.turbo(),
            registers: match options.vendor {
                Vendor::Intel => Registers::Intel(intel::Registers::new(options)),
                Vendor::Amd => Registers::Amd(amd::Registers::new(options)),
            },
            tsc_offset: 0,
            model: options.hwp.map(|hwp| Model::new(hwp, now_ns)),
            requested: false,
            options: options.clone(),
        }
    }

    /// The P-state that it is in: an index from the fastest.
    pub fn state(&self) -> usize {
        usize::from(self.options.turbo() - self.ratio)
    }

    /// The ratio that it would have by itself.
    pub const fn wish(&self) -> u8 {
        self.wish
    }

    /// The package gives it this ratio.
    pub fn grant(&mut self, ratio: u8) {
        self.ratio = ratio;
    }

    /// Whether the guest has ever asked for a ratio.
    pub const fn was_requested(&self) -> bool {
        self.requested
    }

    /// When the hardware decides next by itself; `None` where it does not.
    pub fn due_ns(&self) -> Option<u64> {
        self.model.as_ref().filter(|_| self.is_autonomous()).map(|model| model.due_ns)
    }

    fn is_autonomous(&self) -> bool {
        each_vendor!(&self.registers, registers => registers.is_autonomous())
    }

    /// Time has passed, `busy_ns` of all time since the start not idle. While idle, the CPU takes the watts
    /// of its `idle` state, or where there are none what the table says for its ratio.
    pub fn pass(&mut self, now_ns: u64, busy_ns: u64, idle: Option<IdleOptions>) {
        let time_ns = now_ns.saturating_sub(self.now_ns);
        let busy_ns = busy_ns.saturating_sub(self.meters.busy_ns).min(time_ns);
        let (busy_watts, halted_watts) = self.options.watts[self.state()];
        let idle_watts = idle.and_then(|state| state.watts).unwrap_or(halted_watts);
        self.now_ns += time_ns;
        self.meters.busy_ns += busy_ns;
        self.meters.cycles += busy_ns as f64 * f64::from(self.ratio);
        self.meters.idle[idle.map_or(0, |state| usize::from(state.c_state))] += time_ns - busy_ns;
        self.meters.joules += (busy_ns as f64 * busy_watts + (time_ns - busy_ns) as f64 * idle_watts) / 1e9;
        if let Some(model) = &mut self.model {
            model.worked(busy_ns, self.ratio);
        }
    }

    /// The hardware decides, where its time has come. A CPU that has been idle for longer than its window
    /// has nothing more to decide until it works.
    pub fn decide(&mut self) {
        let (least, most, asked) = (self.options.least, self.most(), self.asked());
        let (Some(model), Asked::Within(request)) = (&mut self.model, asked) else { return };
        if model.due_ns <= self.now_ns {
            self.wish = model.decide(self.now_ns, request, least, most);
            self.take_wish();
        }
    }

    /// Whether an idle CPU's further decisions are all alike.
    pub fn is_at_rest(&self) -> bool {
        self.model.as_ref().is_none_or(Model::is_at_rest)
    }

    fn asked(&self) -> Asked {
        each_vendor!(&self.registers, registers => registers.asked())
    }

    /// The highest ratio that is allowed at present.
    fn most(&self) -> u8 {
        let has_turbo = each_vendor!(&self.registers, registers => registers.has_turbo());
        if has_turbo { self.options.turbo() } else { self.options.base }
    }

    /// A request takes effect at once: the limits of one that leaves the choice to the processor, all of
    /// another.
    fn obey(&mut self) {
        let (least, most) = (self.options.least, self.most());
        self.wish = match self.asked() {
            Asked::Within(request) => request.bound(self.wish, least, most),
            Asked::Ratio(ratio) => ratio.clamp(least, most),
        };
        self.take_wish();
    }

    fn take_wish(&mut self) {
        if !self.options.is_package_wide() {
            self.ratio = self.wish;
        }
    }

    /// What `rdtsc` gives.
    pub fn tsc(&self, now_ns: u64) -> u64 {
        self.options.base_cycles(now_ns.saturating_sub(self.epoch_ns)).wrapping_add(self.tsc_offset)
    }

    /// A register of this CPU; `None` for those that QEMU answers. `package_joules` is the energy of all
    /// CPUs.
    pub fn read(&self, register: u32, package_joules: f64) -> Option<u64> {
        if self.options.vendor == Vendor::Intel
            && let Some(ns) = residency::core_ns(register, &self.meters.idle)
        {
            return Some(self.options.base_cycles(ns));
        }
        Some(match register {
            TSC => self.tsc(self.now_ns),
            MPERF => self.options.base_cycles(self.meters.busy_ns),
            APERF => (self.meters.cycles / 10.0) as u64,
            AMD_MPERF if self.options.vendor == Vendor::Amd => return self.read(MPERF, package_joules),
            AMD_APERF if self.options.vendor == Vendor::Amd => return self.read(APERF, package_joules),
            _ => {
                let units = |joules: f64| (joules * ENERGY_UNITS_PER_JOULE) as u64 & u64::from(u32::MAX);
                let meter = Meter {
                    ratio: self.ratio,
                    core_energy: units(self.meters.joules),
                    package_energy: units(package_joules),
                };
                let options = &self.options;
                return each_vendor!(&self.registers, registers => registers.read(register, options, &meter));
            }
        })
    }

    /// Writes a register of this CPU, and gives whether it is one: those of others are QEMU's. Read-only
    /// registers stay as they are.
    pub fn write(&mut self, register: u32, value: u64) -> bool {
        if register == TSC {
            self.tsc_offset = value.wrapping_sub(self.tsc(self.now_ns).wrapping_sub(self.tsc_offset));
            return true;
        }
        match each_vendor!(&mut self.registers, registers => registers.write(register, value)) {
            Written::Kept => {}
            Written::Asks { counts } => {
                self.requested |= counts;
                self.obey();
            }
            Written::ReadOnly => return self.read(register, 0.0).is_some(),
        }
        true
    }

    /// The register by which the guest asks at present, and what stands in it.
    pub const fn request(&self) -> (u32, u64) {
        each_vendor!(&self.registers, registers => registers.request())
    }

    /// Energy of this CPU since its start, in joules, by the table's watts.
    pub const fn joules(&self) -> f64 {
        self.meters.joules
    }
}

/// Whether a register is one by which a guest asks for a ratio.
pub const fn is_request(register: u32) -> bool {
    matches!(register, intel::PERF_CTL | intel::HWP_REQUEST | amd::CPPC_REQUEST)
}

/// Whether the processor lacks a register whose absence the guest has to see: reading it is an exception.
pub const fn is_missing(options: &ProcessorOptions, register: u32) -> bool {
    matches!(options.vendor, Vendor::Intel) && intel::is_missing(register)
}

/// Whether a register counts for all CPUs together.
pub const fn is_of_package(register: u32) -> bool {
    intel::is_of_package(register) || amd::is_of_package(register)
}

/// Whether a register that one CPU writes is every CPU's.
pub const fn is_written_for_all(register: u32) -> bool {
    amd::is_written_for_all(register)
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
    processor.pass(now_ns, vcpu.busy_ns(), vcpu.resting());
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
    match options.vendor {
        Vendor::Intel => intel::cpuid(options, leaf, registers),
        Vendor::Amd => amd::cpuid(leaf, registers),
    }
}

#[cfg(test)]
mod tests {
    use super::intel::{HWP_REQUEST, PERF_CTL, PKG_ENERGY_STATUS};
    use super::*;
    use crate::options::HwpOptions;

    const MS: u64 = 1_000_000;
    const PM_ENABLE: u32 = 0x770;
    const PERF_STATUS: u32 = 0x198;

    /// 0.8 to 4.0 GHz, turbo 4.2 for one core and 4.1 for more; each CPU has its own ratio.
    pub(super) fn options(vendor: Vendor, hwp: bool) -> ProcessorOptions {
        let model = HwpOptions { window_ns: 4 * MS, period_ns: MS, setpoint: (0.30, 0.95) };
        let watts = (8..=42).rev().map(|ratio| (f64::from(ratio), 1.0)).collect();
        ProcessorOptions {
            vendor,
            least: 8,
            base: 40,
            limits: vec![42, 41],
            is_shared: false,
            hwp: hwp.then_some(model),
            watts,
        }
    }

    /// One whose ratio is its own wish.
    pub(super) fn processor(vendor: Vendor, hwp: bool) -> Processor {
        Processor::new(&options(vendor, hwp), 0, 0)
    }

    /// The same, alone in its package.
    fn alone(hwp: bool) -> Processor {
        Processor::new(&ProcessorOptions { limits: vec![42], ..options(Vendor::Intel, hwp) }, 0, 0)
    }

    #[test]
    fn aperf_over_mperf_is_the_frequency_and_neither_counts_idle_time() {
        let mut cpu = alone(false);
        cpu.write(PERF_CTL, 20 << 8);
        cpu.pass(MS, MS, None);
        cpu.pass(3 * MS, MS, None);
        assert_eq!(cpu.read(MPERF, 0.0), Some(4_000_000));
        assert_eq!(cpu.read(APERF, 0.0), Some(2_000_000));
        assert_eq!(cpu.read(TSC, 0.0), Some(12_000_000));
        assert_eq!(cpu.read(PERF_STATUS, 0.0), Some(20 << 8));
    }

    #[test]
    fn energy_is_the_tables_watts_and_its_counter_wraps() {
        let mut cpu = alone(false);
        cpu.write(PERF_CTL, 10 << 8);
        cpu.pass(2_000 * MS, 500 * MS, None);
        assert!((cpu.joules() - 6.5).abs() < 1e-9, "0.5 s at 10 W, 1.5 s at 1 W: {}", cpu.joules());
        assert_eq!(cpu.read(PKG_ENERGY_STATUS, 1.0), Some(16384));
        assert_eq!(cpu.read(PKG_ENERGY_STATUS, 262_144.0), Some(0));
    }

    #[test]
    fn the_hardware_follows_the_load_and_rests_when_idle() {
        let mut cpu = alone(true);
        cpu.write(PM_ENABLE, 1);
        cpu.write(HWP_REQUEST, 0x8000_2a08);
        for step in 1..=20 {
            cpu.pass(step * MS, 0, None);
            cpu.decide();
        }
        assert_eq!((cpu.state(), cpu.is_at_rest()), (34, true));
        for step in 21..=200 {
            cpu.pass(step * MS, (step - 20) * MS, None);
            cpu.decide();
        }
        assert_eq!((cpu.state(), cpu.is_at_rest()), (0, false));
    }

    #[test]
    fn an_idle_cpu_comes_down_at_the_times_of_its_decisions_and_not_when_it_is_looked_at() {
        let pace = [50.0; 35];
        let arguments = format!("table={},pace=1,record=r", ["1"; 35].join(":"));
        let mut vcpu = Vcpu::new(&crate::options::Options::parse(arguments.split(',')).unwrap(), 0);
        let mut cpu = alone(true);
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
        let mut cpu = alone(false);
        cpu.pass(MS, 0, None);
        cpu.write(TSC, 100);
        assert_eq!((cpu.tsc(MS), cpu.tsc(2 * MS)), (100, 4_000_100));
    }

    #[test]
    fn where_the_package_has_a_part_a_wish_becomes_the_ratio_when_it_is_granted() {
        let mut cpu = processor(Vendor::Intel, false);
        cpu.write(PERF_CTL, 20 << 8);
        assert_eq!((cpu.wish(), cpu.state()), (20, 0));
        cpu.grant(30);
        assert_eq!((cpu.state(), cpu.read(PERF_STATUS, 0.0)), (12, Some(30 << 8)));
    }

    #[test]
    fn residency_counts_cycles_of_the_tsc_and_is_not_written() {
        let state = |c_state| Some(IdleOptions { exit_ns: 0, watts: None, c_state });
        let mut cpu = alone(false);
        cpu.pass(MS, 0, state(3));
        cpu.pass(3 * MS, MS / 2, state(6));
        cpu.pass(7 * MS, MS / 2, state(8));
        cpu.pass(8 * MS, MS / 2, state(1));
        assert!(cpu.write(0x3fd, 0));
        let counted = [0x3fc, 0x3fd, 0x3fe].map(|register| cpu.read(register, 0.0));
        assert_eq!(counted, [4_000_000, 6_000_000, 16_000_000].map(Some));
        assert_eq!(processor(Vendor::Amd, true).read(0x3fd, 0.0), None);
    }

    #[test]
    fn an_idle_state_takes_its_own_watts() {
        let mut cpu = alone(false);
        cpu.pass(1_000 * MS, 0, Some(IdleOptions { exit_ns: 0, watts: Some(0.25), c_state: 6 }));
        cpu.pass(2_000 * MS, 0, None);
        assert!((cpu.joules() - 1.25).abs() < 1e-9, "{}", cpu.joules());
    }
}
