//! The ACPI table that gives virtual CPUs their P-states and idle states.
//!
//! A second table (SSDT) beside QEMU's own, for `-acpitable file=…`. To each CPU it adds what the table of
//! P-states needs:
//! - `_PCT`, `_PSS`, `_PPC` and `_PSD` for the kernel's stock `acpi-cpufreq`. The control register is an I/O
//!   port that no device answers; the plugin sees the guest's `out` instruction. Source: ACPI 6.5, 8.4.5.
//! - `_CPC` for `amd_pstate`, with the registers of an AMD processor. Source: ACPI 6.5, 8.4.6.1.
//! - `_CST` for `acpi_idle`. The first state is `hlt`; each further one is entered by reading a port, which
//!   the plugin answers. Source: ACPI 6.5, 8.4.1.

use acpi_tables::aml::{Method, Name, Package, Path, ResourceTemplate, Return, Scope};
use acpi_tables::gas::{AccessSize, AddressSpace, GAS};
use acpi_tables::sdt::Sdt;
use acpi_tables::{Aml, AmlSink};
use domain::lab::{IdleState, PState, PStateDomains, PStateDriver, PStateTable, Ratios};

/// The P-state port of CPU 0; that of CPU n is `2n` above it, and its status port one more.
///
/// In QEMU's q35 machine nothing answers between here and `0xa000`, where SeaBIOS places devices from
/// `0xc000` on; below 0x600 only 32 CPUs would fit before the power management block.
pub const FIRST_PORT: u16 = 0x9000;

/// The port that enters idle state 1; that of state n is n - 1 above.
pub const IDLE_PORT: u16 = 0x8f00;

/// The port by which the guest begins and ends pacing, through `/dev/port`: 0 runs unpaced, 1 paces all CPUs
/// from then on, higher values are marks in the record.
pub const CONTROL_PORT: u16 = 0x5be;

/// The most virtual CPUs of a lab machine: what q35 takes without an emulated IOMMU. The table then is some
/// 31 KiB long, and QEMU takes at most 64 KiB.
pub const MAX_VCPUS: u32 = 255;

/// `SW_ANY` of `_PSD`: a request by any CPU of the domain is enough.
const ANY_CPU_REQUESTS: u8 = 0xfd;

/// The table for that many virtual CPUs, ready for a file; `None` where there is nothing to tell. Idle states
/// take `dilation` times as long to leave.
///
/// # Panics
/// Where `vcpus` is 0 or above [`MAX_VCPUS`], or the table has no state or more than 255: a caller's mistake.
pub fn ssdt(table: &PStateTable, vcpus: u32, dilation: f64) -> Option<Vec<u8>> {
    assert!((1..=MAX_VCPUS).contains(&vcpus), "{vcpus} virtual CPUs");
    assert!((1..=255).contains(&table.states.len()), "{} P-states", table.states.len());
    if matches!(table.driver, PStateDriver::Intel(_)) && table.idle.is_empty() {
        return None;
    }
    let mut ssdt = Sdt::new(*b"SSDT", 36, 2, *b"FLYBAL", *b"PSTATES ", 1);
    for cpu in 0..vcpus {
        let mut bytes = Vec::new();
        scope(table, cpu, vcpus, dilation).to_aml_bytes(&mut bytes);
        ssdt.append_slice(&bytes);
    }
    ssdt.update_checksum();
    Some(ssdt.as_slice().to_vec())
}

/// What QEMU names a CPU (`CPU_NAME_FMT` of `hw/acpi/cpu.c`: three hexadecimal digits).
fn cpu_path(cpu: u32) -> String {
    format!("\\_SB_.CPUS.C{cpu:03X}")
}

/// AML that is already bytes.
#[derive(Clone)]
struct Bytes(Vec<u8>);

impl Aml for Bytes {
    fn to_aml_bytes(&self, sink: &mut dyn AmlSink) {
        sink.vec(&self.0);
    }
}

fn bytes(aml: &dyn Aml) -> Bytes {
    let mut bytes = Vec::new();
    aml.to_aml_bytes(&mut bytes);
    Bytes(bytes)
}

fn scope(table: &PStateTable, cpu: u32, vcpus: u32, dilation: f64) -> Bytes {
    let mut children = match &table.driver {
        PStateDriver::Acpi => {
            vec![control(cpu), states(table, cpu), limit(), dependency(table.domains, cpu, vcpus)]
        }
        PStateDriver::Intel(_) => Vec::new(),
        PStateDriver::Amd(ratios) => vec![performance(ratios)],
    };
    if !table.idle.is_empty() {
        children.push(idle_states(&table.idle, cpu, dilation));
    }
    bytes(&Scope::new(Path::new(&cpu_path(cpu)), children.iter().map(|child| child as &dyn Aml).collect()))
}

/// `_CPC` of an AMD processor: performance levels are ratios, and registers are the processor's own
/// (functional fixed hardware: the address is the register's number). What is not there is a register of
/// width 0 in the machine's memory.
fn performance(ratios: &Ratios) -> Bytes {
    /// CPPC_CAPABILITY_1, CPPC_ENABLE, CPPC_REQUEST; MPERF and APERF.
    const CAPABILITY: u64 = 0xc001_02b0;
    const ENABLE: u64 = 0xc001_02b1;
    const REQUEST: u64 = 0xc001_02b3;
    const REFERENCE: u64 = 0xe7;
    const DELIVERED: u64 = 0xe8;
    const REVISION: u8 = 3;
    const MHZ: u32 = 100;
    let level = |offset| register(AddressSpace::FunctionalFixedHardware, 8, offset, CAPABILITY);
    let asked = |offset| register(AddressSpace::FunctionalFixedHardware, 8, offset, REQUEST);
    let counter = |address| register(AddressSpace::FunctionalFixedHardware, 64, 0, address);
    let absent = || register(AddressSpace::SystemMemory, 0, 0, 0);
    // Highest, nominal, lowest nonlinear, lowest, guaranteed; desired, minimum, maximum; tolerance, window,
    // wraparound; reference and delivered counter, limited; enable; autonomous selection, activity window,
    // preference; reference performance.
    let registers = [
        [level(24), level(16), level(8), level(0), absent()].as_slice(),
        &[asked(16), asked(8), asked(0)],
        &[absent(), absent(), absent()],
        &[counter(REFERENCE), counter(DELIVERED), absent()],
        &[register(AddressSpace::FunctionalFixedHardware, 1, 0, ENABLE)],
        &[absent(), absent(), asked(24), absent()],
    ]
    .concat();
    let lowest = u32::from(ratios.least) * MHZ;
    let nominal = u32::from(ratios.base) * MHZ;
    let entries = u8::try_from(registers.len() + 4).expect("they are 23");
    let mut all: Vec<&dyn Aml> = vec![&entries, &REVISION];
    all.extend(registers.iter().map(|register| register as &dyn Aml));
    all.extend([&lowest as &dyn Aml, &nominal]);
    bytes(&Name::new("_CPC".into(), &Package::new(all)))
}

/// `_CST`: all states on CPU 0, and a reference to them on all others.
fn idle_states(states: &[IdleState], cpu: u32, dilation: f64) -> Bytes {
    if cpu > 0 {
        let shared = Path::new(&format!("{}._CST", cpu_path(0)));
        return bytes(&Method::new("_CST".into(), 0, false, vec![&Return::new(&shared)]));
    }
    let count = u8::try_from(states.len()).expect("a table has a few");
    let packages: Vec<Bytes> = (0_u16..).zip(states).map(|(i, s)| idle_state(i, s, dilation)).collect();
    let mut all: Vec<&dyn Aml> = vec![&count];
    all.extend(packages.iter().map(|package| package as &dyn Aml));
    bytes(&Name::new("_CST".into(), &Package::new(all)))
}

/// One `_CST` entry: how it is entered, its type, µs to leave it, mW. All but the first are of type 2: those
/// of type 3 would make the kernel stop bus masters.
fn idle_state(index: u16, state: &IdleState, dilation: f64) -> Bytes {
    let (entry, kind) = match index {
        0 => (register(AddressSpace::FunctionalFixedHardware, 0, 0, 0), 1_u8),
        _ => (register(AddressSpace::SystemIo, 8, 0, u64::from(IDLE_PORT + index - 1)), 2),
    };
    let latency_us = (state.latency.get() as f64 * dilation / 1e3).ceil() as u32;
    let milliwatts = state.watts.map_or(0, |watts| (watts * 1e3).round() as u32);
    bytes(&Package::new(vec![&entry, &kind, &latency_us, &milliwatts]))
}

/// `_PCT`: the control register and the status register.
fn control(cpu: u32) -> Bytes {
    let port = u64::from(FIRST_PORT) + 2 * u64::from(cpu);
    let (control, status) = (port_register(port), port_register(port + 1));
    bytes(&Name::new("_PCT".into(), &Package::new(vec![&control, &status])))
}

/// One byte at an I/O port.
fn port_register(port: u64) -> Bytes {
    register(AddressSpace::SystemIo, 8, 0, port)
}

/// A register as a resource buffer: a generic register descriptor (ACPI 6.5, 6.4.3.7). That of `acpi_tables`
/// 0.2.1 gives a length of 0x12 where the descriptor's is 0x0c, which `iasl` does not take for one.
fn register(space: AddressSpace, width: u8, offset: u8, address: u64) -> Bytes {
    let mut descriptor = vec![0x82, 0x0c, 0x00];
    GAS::new(space, width, offset, AccessSize::Undefined, address).to_aml_bytes(&mut descriptor);
    bytes(&ResourceTemplate::new(vec![&Bytes(descriptor)]))
}

/// `_PSS`: the states themselves on CPU 0, and a reference to them on all others, so that the table stays
/// small.
fn states(table: &PStateTable, cpu: u32) -> Bytes {
    if cpu > 0 {
        let shared = Path::new(&format!("{}._PSS", cpu_path(0)));
        return bytes(&Method::new("_PSS".into(), 0, false, vec![&Return::new(&shared)]));
    }
    let latency_us = u32::try_from(table.latency.get().div_ceil(1_000)).unwrap_or(u32::MAX);
    let packages: Vec<Bytes> = (0_u8..).zip(&table.states).map(|(i, s)| state(i, s, latency_us)).collect();
    let all = Package::new(packages.iter().map(|package| package as &dyn Aml).collect());
    bytes(&Name::new("_PSS".into(), &all))
}

/// One `_PSS` entry: MHz, mW, transition latency and bus master latency in µs, what to write, what is read
/// back.
fn state(index: u8, state: &PState, latency_us: u32) -> Bytes {
    let mhz = u32::try_from(state.frequency.hz() / 1_000_000).unwrap_or(u32::MAX);
    let milliwatts = state.busy_watts.map_or(0, |watts| (watts * 1e3).round() as u32);
    bytes(&Package::new(vec![&mhz, &milliwatts, &latency_us, &latency_us, &index, &index]))
}

/// `_PPC`: no state is forbidden.
fn limit() -> Bytes {
    bytes(&Name::new("_PPC".into(), &0_u8))
}

/// `_PSD`: which CPUs change together.
fn dependency(domains: PStateDomains, cpu: u32, vcpus: u32) -> Bytes {
    let (domain, members) = match domains {
        PStateDomains::PerCpu => (cpu, 1),
        PStateDomains::Shared => (0, vcpus),
    };
    // Five entries, revision 0.
    let entry = Package::new(vec![&5_u8, &0_u8, &domain, &ANY_CPU_REQUESTS, &members]);
    bytes(&Name::new("_PSD".into(), &Package::new(vec![&entry])))
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::lab::PStateDriver;
    use domain::time::Nanos;
    use domain::units::Hertz;
    use std::process::Command;

    fn table(states: u64, domains: PStateDomains) -> PStateTable {
        let state = |index: u64| PState {
            frequency: Hertz::from_mhz(2800 - index * 100),
            speed: (28 - index) as f64 / 28.0,
            busy_watts: Some(20.5 - index as f64),
            idle_watts: None,
        };
        PStateTable {
            name: "test".to_owned(),
            driver: PStateDriver::Acpi,
            processor: None,
            states: (0..states).map(state).collect(),
            latency: Nanos::from_micros(10),
            domains,
            idle: Vec::new(),
            pace: 20e6,
            stands_for: None,
        }
    }

    /// The source that iasl finds in the table, after it has compiled that source again without an error.
    fn disassembled(aml: &[u8]) -> Option<String> {
        if Command::new("iasl").arg("-v").output().is_err() {
            println!("skipped: `iasl` is not installed (acpica-tools)");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("t.aml"), aml).unwrap();
        for arguments in [&["-d", "t.aml"][..], &["-p", "again", "t.dsl"]] {
            let output = Command::new("iasl").args(arguments).current_dir(&folder).output().unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned()
                + &String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "iasl {arguments:?}: {text}");
            assert!(!text.contains("Checksum"), "{text}");
        }
        assert!(folder.path().join("again.aml").exists());
        Some(std::fs::read_to_string(folder.path().join("t.dsl")).unwrap())
    }

    fn dense(source: &str) -> String {
        let code = source.lines().map(|line| line.split("//").next().unwrap_or(""));
        code.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect()
    }

    #[test]
    fn iasl_takes_the_table_apart_and_compiles_it_again() {
        for (vcpus, states, domains) in [
            (1, 1, PStateDomains::PerCpu),
            (4, 5, PStateDomains::Shared),
            (MAX_VCPUS, 16, PStateDomains::PerCpu),
        ] {
            let aml = ssdt(&table(states, domains), vcpus, 1.0).unwrap();
            assert!(aml.len() < 64 << 10, "{} bytes", aml.len());
            let Some(source) = disassembled(&aml) else { return };
            let last = format!("\\_SB.CPUS.C{:03X}", vcpus - 1);
            assert!(source.contains(&format!("Scope ({last})")), "{last} is not in\n{source}");
        }
    }

    #[test]
    fn a_state_has_megahertz_milliwatts_latencies_and_its_index() {
        let Some(source) = disassembled(&ssdt(&table(2, PStateDomains::PerCpu), 2, 1.0).unwrap()) else {
            return;
        };
        let source = dense(&source);
        assert!(
            source.contains(
                "{0x0AF0,0x5014,0x0A,0x0A,Zero,Zero},Package(0x06){0x0A8C,0x4C2C,0x0A,0x0A,One,One}"
            ),
            "{source}"
        );
        assert!(source.contains("0x0000000000009002"), "the port of CPU 1: {source}");
    }

    #[test]
    fn domains_are_one_a_cpu_or_one_for_all() {
        let shared = ssdt(&table(2, PStateDomains::Shared), 3, 1.0).unwrap();
        let Some(source) = disassembled(&shared) else { return };
        assert_eq!(dense(&source).matches("{0x05,Zero,Zero,0xFD,0x03}").count(), 3);
        let own = disassembled(&ssdt(&table(2, PStateDomains::PerCpu), 3, 1.0).unwrap()).unwrap();
        assert!(dense(&own).contains("{0x05,Zero,0x02,0xFD,One}"), "{own}");
    }

    #[test]
    fn idle_states_have_a_port_each_but_the_first_and_latencies_of_the_guests_time() {
        let state = |name: &str, micros, watts| IdleState {
            name: name.to_owned(),
            latency: Nanos::from_micros(micros),
            watts,
        };
        let idle = vec![state("C1", 2, None), state("C3", 50, Some(0.5)), state("C6", 85, Some(0.1))];
        let ratios = Ratios { least: 8, base: 28, turbo: vec![28], hwp: None };
        let mut table = PStateTable { idle, ..table(2, PStateDomains::PerCpu) };
        table.driver = PStateDriver::Intel(ratios);
        let Some(source) = disassembled(&ssdt(&table, 2, 4.0).unwrap()) else { return };
        let source = dense(&source);
        assert!(!source.contains("_PSS"), "{source}");
        assert!(source.contains("},One,0x08,Zero}"), "hlt: {source}");
        assert!(source.contains("0x0000000000008F00,,)},0x02,0xC8,0x01F4}"), "C3: {source}");
        assert!(source.contains("0x0000000000008F01,,)},0x02,0x0154,0x64}"), "C6: {source}");
        assert!(source.contains("Return(\\_SB.CPUS.C000._CST)"), "CPU 1: {source}");
        table.idle.clear();
        assert_eq!(ssdt(&table, 2, 1.0), None, "intel_pstate asks ACPI for nothing");
    }

    #[test]
    fn an_amd_processor_has_levels_and_registers_of_its_own() {
        let ratios = Ratios { least: 8, base: 35, turbo: vec![49], hwp: None };
        let table = PStateTable { driver: PStateDriver::Amd(ratios), ..table(2, PStateDomains::PerCpu) };
        let Some(source) = disassembled(&ssdt(&table, 1, 1.0).unwrap()) else { return };
        let source = dense(&source);
        assert!(source.contains("_CPC,Package(0x17){0x17,0x03,"), "{source}");
        assert!(source.contains("0x0320,0x0DAC})"), "800 and 3500 MHz: {source}");
        assert_eq!(source.matches("0x00000000C00102B0").count(), 4, "{source}");
        assert_eq!(source.matches("0x00000000C00102B3").count(), 4, "{source}");
    }
}
