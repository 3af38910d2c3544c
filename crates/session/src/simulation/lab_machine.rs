//! The lab's own machine as a model: the one that a study's `[lab]` asks for, with the CPUs of its table of
//! P-states.

use super::machines::{Named, load};
use crate::error::Result;
use crate::guests::tables;
use domain::lab::{Dilation, PStateDomains, PStateDriver, PStateTable};
use domain::plan::Cell;
use domain::study::Study;
use domain::time::Nanos;
use domain::units::Hertz;
use governors::KernelVersion;
use governors::autonomous::{AutonomousSpec, Permille};
use sim::cpu::{Begins, IdleState};
use sim::machine::{CpuSpec, Driver, PState};
use std::path::Path;

/// The name that stands for the lab's own machine.
pub(super) const LAB: &str = "lab";

/// The same without a table of P-states.
const LAB_UNPACED: &str = "lab-unpaced";

/// The lab's machine as a study has it: its table of P-states, CPUs and memory, in the time of the machine
/// that is stood for.
pub(super) fn of_lab(study: &Study, cell: &Cell, folder: &Path) -> Result<Named> {
    let mut named = load(if cell.pstates.is_some() { LAB } else { LAB_UNPACED }, folder)?;
    let (lab, spec) = (&study.lab, &mut named.spec);
    if let Some(kernel) = cell.kernel.as_deref().and_then(|given| kernel_of(given, spec.kernel)) {
        spec.kernel = kernel;
    }
    spec.memory = lab.memory;
    spec.cpu.count = lab.vcpus as usize;
    let dilation = match lab.dilation {
        Dilation::Fixed(dilation) => Some(dilation),
        Dilation::Auto => None,
    };
    match &cell.pstates {
        Some(name) => {
            let table = tables::of_lab(lab, name, folder)?;
            let rate = dilation.map_or(table.stands_for.unwrap_or(table.pace), |d| table.pace * d);
            cpus_of(&table, spec.kernel, &mut spec.cpu);
            spec.cpu.work_per_cycle = rate / (table.clock(0).hz() as f64);
            let dilated = lab.clock().divide(rate / table.pace);
            spec.dilation = dilated.stretched;
            if dilated.slowed == 1.0 {
                let delay = workloads::fio::START_DELAY.1.get() as f64 / spec.dilation;
                spec.start_delay = Nanos::new(delay as u64);
            } else {
                // Where the guest's clock is slowed, fio's jobs have been made before it is, and wait: so
                // long that governors have seen idle CPUs.
                spec.costs.given.remove("fio_start");
                spec.cpu.begins = Begins::Idle;
            }
        }
        // Its costs are times of the guest's.
        None => {
            spec.cpu.work_per_cycle = dilation.unwrap_or(1.0);
            spec.dilation = dilation.unwrap_or(1.0);
            spec.slice_dilation = spec.dilation;
        }
    }
    spec.costs.work_per_cycle = spec.cpu.work_per_cycle;
    spec.about = format!("{}, as the study has it", spec.about);
    named.text = format!("{}\n{lab:?} {:?} {:?}", named.text, cell.kernel, cell.pstates);
    Ok(named)
}

/// The release that a study asks for. A series alone, as `6.12`, is its newest release: the machine's own
/// where it has one of that series, for which `None` stands.
fn kernel_of(given: &str, machine: KernelVersion) -> Option<KernelVersion> {
    let release = KernelVersion::parse(given)?;
    let is_series = given.split('.').count() == 2;
    let is_machine = (release.major, release.minor) == (machine.major, machine.minor);
    (!(is_series && is_machine)).then_some(release)
}

/// The CPUs of a guest with this table: its driver, P-states, turbo, idle states, and what its processor
/// chooses by itself as the lab's plugin has it.
fn cpus_of(table: &PStateTable, kernel: KernelVersion, cpu: &mut CpuSpec) {
    cpu.states = table.states.iter().rev().map(pstate).collect();
    cpu.shared = table.domains == PStateDomains::Shared;
    // The plugin's CPUs change at once, whatever the table tells the kernel.
    cpu.transition = Nanos::ZERO;
    cpu.transition_latency = table.latency;
    cpu.processor = table.processor;
    cpu.base = table.states[usize::from(table.names_turbo())].frequency;
    // acpi-cpufreq's limit is in its table; a guest's CPUs go as far however many are busy.
    cpu.turbo = table.names_turbo().then(|| table.clock(0)).into_iter().collect();
    let idle_watts = table.states.iter().filter_map(|state| state.idle_watts).next().unwrap_or(0.0);
    // acpi_idle has a state besides in which the CPU loops.
    let poll = domain::lab::IdleState { name: "POLL".to_owned(), latency: Nanos::ZERO, watts: None };
    let states = table.idle.first().map(|_| &poll).into_iter().chain(&table.idle);
    cpu.idle = states.map(|state| idle_state(state, idle_watts)).collect();
    let Some(ratios) = table.driver.ratios() else { return };
    let mhz = |ratio: u8| Hertz::from_mhz(u64::from(ratio) * 100);
    cpu.driver = match (&table.driver, ratios.hwp) {
        // The active mode came with 6.3; before there is the passive one alone.
        (PStateDriver::Amd(_), _) if kernel < KernelVersion::new(6, 3, 0) => Driver::AmdPstate,
        (PStateDriver::Amd(_), _) => Driver::AmdPstateEpp,
        (_, Some(_)) => Driver::IntelPstateHwp,
        (_, None) => Driver::IntelPstate,
    };
    cpu.governor = cpu.driver.first_governor().to_owned();
    cpu.base = mhz(ratios.base);
    cpu.turbo = ratios.turbo.iter().map(|ratio| mhz(*ratio)).collect();
    cpu.frequency_invariant = true;
    if let Some(hwp) = ratios.hwp {
        let permille =
            |share: f64| Permille::new((share * 1000.0).round() as u16).expect("a share is at most 1");
        let aims = (permille(hwp.setpoint.0), permille(hwp.setpoint.1));
        cpu.hardware = AutonomousSpec::averaging(hwp.window, hwp.period, aims);
    }
}

/// The kernel takes twice the latency that `_CST` tells as the time for which a state is worth it
/// (`acpi_processor_setup_cstates`).
fn idle_state(state: &domain::lab::IdleState, idle_watts: f64) -> IdleState {
    IdleState {
        name: state.name.clone(),
        exit_latency_ns: state.latency.get(),
        target_residency_ns: 2 * state.latency.get(),
        watts: state.watts.unwrap_or(idle_watts),
    }
}

fn pstate(state: &domain::lab::PState) -> PState {
    PState { frequency: state.frequency, busy_watts: state.busy_watts, idle_watts: state.idle_watts }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::plan::Plan;
    use domain::rng::Seed;
    use sim::machine::MachineSpec;

    const STUDY: &str = "flyball = 1\nname = \"a\"\nquestion = \"?\"\n[stack.disk]\nkind = \"devices\"\nloop = \"64MiB\"\n\
                         [workload.read]\ntool = \"fio\"\noptions = { rw = \"read\" }\n[lab]\n";

    fn machine(lab: &str) -> MachineSpec {
        let study = parse::study::parse(&format!("{STUDY}{lab}")).unwrap();
        let plan = Plan::new(study, Seed(1)).unwrap();
        of_lab(&plan.study, &plan.cells[0], Path::new("/nonexistent")).unwrap().spec
    }

    #[test]
    fn fio_waits_on_a_paced_lab_machine_for_a_second_of_the_guest() {
        let delay = |lab: &str| machine(lab).start_delay;
        assert_eq!(
            delay("pstates = \"server-8\"\ndilation = 160\nclock = \"host\"\n"),
            Nanos::from_micros(6_250)
        );
        assert_eq!(delay("dilation = 4\n"), Nanos::ZERO);
        let slowed = delay("pstates = \"server-8\"\ndilation = 160\n");
        assert_eq!(slowed, Nanos::ZERO, "it has waited before its clock is slow");
    }

    #[test]
    fn a_release_that_is_asked_for_is_kept_and_a_series_is_the_machines_own() {
        let own = KernelVersion::parse("6.12.94").unwrap();
        assert_eq!(kernel_of("6.12", own), None);
        assert_eq!(kernel_of("6.12.1", own), KernelVersion::parse("6.12.1"));
        assert_eq!(kernel_of("6.1", own), KernelVersion::parse("6.1"));
    }

    #[test]
    fn a_table_gives_the_model_its_driver_turbo_idle_states_and_the_processors_own_choice() {
        let cpu = machine("pstates = \"i7-6700k-hwp\"\npace = 1e7\ndilation = 210\n").cpu;
        assert_eq!(
            (cpu.driver, cpu.governor.as_str(), cpu.shared),
            (Driver::IntelPstateHwp, "powersave", true)
        );
        assert_eq!(
            (cpu.base, &cpu.turbo[..]),
            (Hertz::from_mhz(4000), &[4200, 4000].map(Hertz::from_mhz)[..])
        );
        assert_eq!((cpu.states[0].frequency, cpu.states.len()), (Hertz::from_mhz(800), 35));
        assert_eq!((cpu.hardware.period, cpu.hardware.periods), (Nanos::from_millis(1), 4));
        assert!((cpu.work_per_cycle - 0.5).abs() < 1e-9, "{}", cpu.work_per_cycle);
        let idle = cpu.idle.last().unwrap();
        assert_eq!(
            (idle.name.as_str(), idle.exit_latency_ns, idle.target_residency_ns),
            ("C8", 200_000, 400_000)
        );
        let driver = |table: &str| machine(&format!("pstates = \"{table}\"\n")).cpu.driver;
        assert_eq!(driver("i7-6700k-pstate"), Driver::IntelPstate);
        let acpi = machine("pstates = \"i7-6700k-acpi\"\n").cpu;
        assert_eq!(acpi.driver, Driver::AcpiCpufreq);
        assert_eq!(
            [acpi.states.last().unwrap().frequency, acpi.base, acpi.turbo[0]],
            [4001, 4000, 4200].map(Hertz::from_mhz)
        );
        assert_eq!(driver("zen3-server"), Driver::AmdPstateEpp);
        let old = machine("pstates = \"zen3-server\"\nkernel = \"6.1\"\n").cpu;
        assert_eq!((old.driver, old.governor.as_str()), (Driver::AmdPstate, "schedutil"));
    }
}
