//! The ACPI table that gives virtual CPUs their P-states.
//!
//! A second table (SSDT) beside QEMU's own, for `-acpitable file=…`: it adds `_PCT`, `_PSS`, `_PPC` and
//! `_PSD` to each CPU, and the kernel's stock `acpi-cpufreq` driver binds to them. The control register is an
//! I/O port that no device answers; the plugin sees the guest's `out` instruction. Source: ACPI 6.5, chapter
//! 8.4.5.

use acpi_tables::aml::{Method, Name, Package, Path, ResourceTemplate, Return, Scope};
use acpi_tables::gas::{AccessSize, AddressSpace, GAS};
use acpi_tables::sdt::Sdt;
use acpi_tables::{Aml, AmlSink};
use domain::lab::{PState, PStateDomains, PStateTable};

/// The P-state port of CPU 0; that of CPU n is `2n` above it, and its status port one more.
///
/// In QEMU's q35 machine nothing answers between here and `0xa000`, where SeaBIOS places devices from
/// `0xc000` on; below 0x600 only 32 CPUs would fit before the power management block.
pub const FIRST_PORT: u16 = 0x9000;

/// The port by which the guest begins and ends pacing, through `/dev/port`: 0 runs unpaced, 1 paces all CPUs
/// from then on, higher values are marks in the record.
pub const CONTROL_PORT: u16 = 0x5be;

/// The most virtual CPUs of a lab machine: what q35 takes without an emulated IOMMU. The table then is some
/// 31 KiB long, and QEMU takes at most 64 KiB.
pub const MAX_VCPUS: u32 = 255;

/// `SW_ANY` of `_PSD`: a request by any CPU of the domain is enough.
const ANY_CPU_REQUESTS: u8 = 0xfd;

/// The table for that many virtual CPUs, ready for a file.
///
/// # Panics
/// Where `vcpus` is 0 or above [`MAX_VCPUS`], or the table has no state or more than 255: a caller's mistake.
pub fn ssdt(table: &PStateTable, vcpus: u32) -> Vec<u8> {
    assert!((1..=MAX_VCPUS).contains(&vcpus), "{vcpus} virtual CPUs");
    assert!((1..=255).contains(&table.states.len()), "{} P-states", table.states.len());
    let mut ssdt = Sdt::new(*b"SSDT", 36, 2, *b"FLYBAL", *b"PSTATES ", 1);
    for cpu in 0..vcpus {
        let mut bytes = Vec::new();
        scope(table, cpu, vcpus).to_aml_bytes(&mut bytes);
        ssdt.append_slice(&bytes);
    }
    ssdt.update_checksum();
    ssdt.as_slice().to_vec()
}

/// What QEMU names a CPU (`CPU_NAME_FMT` of `hw/acpi/cpu.c`: three hexadecimal digits).
fn cpu_path(cpu: u32) -> String {
    format!("\\_SB_.CPUS.C{cpu:03X}")
}

/// AML that is already bytes.
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

fn scope(table: &PStateTable, cpu: u32, vcpus: u32) -> Bytes {
    let children = [control(cpu), states(table, cpu), limit(), dependency(table.domains, cpu, vcpus)];
    bytes(&Scope::new(Path::new(&cpu_path(cpu)), children.iter().map(|child| child as &dyn Aml).collect()))
}

/// `_PCT`: the control register and the status register.
fn control(cpu: u32) -> Bytes {
    let port = u64::from(FIRST_PORT) + 2 * u64::from(cpu);
    let (control, status) = (port_register(port), port_register(port + 1));
    bytes(&Name::new("_PCT".into(), &Package::new(vec![&control, &status])))
}

/// One byte at an I/O port, as a resource buffer: a generic register descriptor (ACPI 6.5, 6.4.3.7). That of
/// `acpi_tables` 0.2.1 gives a length of 0x12 where the descriptor's is 0x0c, which `iasl` does not take for
/// one.
fn port_register(port: u64) -> Bytes {
    let mut descriptor = vec![0x82, 0x0c, 0x00];
    GAS::new(AddressSpace::SystemIo, 8, 0, AccessSize::Undefined, port).to_aml_bytes(&mut descriptor);
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
            let aml = ssdt(&table(states, domains), vcpus);
            assert!(aml.len() < 64 << 10, "{} bytes", aml.len());
            let Some(source) = disassembled(&aml) else { return };
            let last = format!("\\_SB.CPUS.C{:03X}", vcpus - 1);
            assert!(source.contains(&format!("Scope ({last})")), "{last} is not in\n{source}");
        }
    }

    #[test]
    fn a_state_has_megahertz_milliwatts_latencies_and_its_index() {
        let Some(source) = disassembled(&ssdt(&table(2, PStateDomains::PerCpu), 2)) else { return };
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
        let shared = ssdt(&table(2, PStateDomains::Shared), 3);
        let Some(source) = disassembled(&shared) else { return };
        assert_eq!(dense(&source).matches("{0x05,Zero,Zero,0xFD,0x03}").count(), 3);
        let own = disassembled(&ssdt(&table(2, PStateDomains::PerCpu), 3)).unwrap();
        assert!(dense(&own).contains("{0x05,Zero,0x02,0xFD,One}"), "{own}");
    }
}
