//! What could not be answered here, why, and what it would need.

use crate::facts::case::Case;
use crate::facts::usage::{AT_LIMIT, DiskUsage};
use crate::server;
use crate::summary::{CellSummary, Lack};
use crate::words::{by_reason, listed};
use domain::finding::NotMeasured;
use domain::inventory::{BlockDevice, BlockKind, Inventory};
use domain::lab::ENERGY_MODELLED;
use domain::trace::FrequencySource;
use domain::trial::Provenance;
use std::collections::BTreeSet;

/// Every question that this run leaves open for want of something the machine or the recorder did not have.
/// What the inventory and the recorder both lack is said once.
pub fn not_measured(case: &Case<'_>) -> Vec<NotMeasured> {
    if case.data.run.provenance == Provenance::Imported {
        return vec![of_imported(case)];
    }
    let mut open = Vec::new();
    match case.inventory {
        Some(inventory) if case.data.run.provenance == Provenance::Lab => open.extend(of_lab(inventory)),
        Some(inventory) if case.data.run.provenance == Provenance::Simulation => {
            open.extend(of_model(case, inventory))
        }
        Some(inventory) => open.extend(of_machine(inventory)),
        None => open.push(NotMeasured {
            what: "what the machine's configuration costs".into(),
            why: "the machine was not inspected with this run; `flyball inspect` shows it".into(),
        }),
    }
    open.extend(of_device(case));
    open.extend(of_encryption(case));
    open.extend(of_recorder(case));
    open.extend(of_courses(case));
    open.extend(case.data.trials.iter().flat_map(|trial| server::not_measured(&trial.environment)));
    open.extend(of_syncs(case));
    open.extend(of_trials(case));
    open
}

/// Of an imported run nothing is known but what the file says.
fn of_imported(case: &Case<'_>) -> NotMeasured {
    let tools = case.data.trials.iter().filter_map(|trial| trial.origin.as_ref());
    let tools: BTreeSet<&str> = tools.map(|origin| origin.tool.as_str()).collect();
    let tools: Vec<&str> = tools.into_iter().collect();
    NotMeasured {
        what: "settings, machine and whatever else went on".into(),
        why: format!("{} measured this elsewhere, and the file does not say", tools.join(", ")),
    }
}

/// A lab machine has what its study asks for: what is missing is missing there.
fn of_lab(inventory: &Inventory) -> Option<NotMeasured> {
    inventory.cpufreq.is_none().then(|| NotMeasured {
        what: "what the CPU frequency policy costs".into(),
        why: "this lab machine has no P-states: name a table of them with `pstates` under [lab]".into(),
    })
}

/// A model has what its machine file says.
fn of_model(case: &Case<'_>, inventory: &Inventory) -> Vec<NotMeasured> {
    let idle = inventory.cpuidle.as_ref().is_some_and(|idle| !idle.states.is_empty());
    let has_watts = case.data.trials.iter().any(|trial| trial.metric(ENERGY_MODELLED).is_some());
    let lacks = [
        (
            inventory.cpufreq.is_none(),
            "what the CPU frequency policy costs",
            "no driver and policies (`driver`)",
        ),
        (!idle, "what leaving idle states costs", "no idle states (`[[cpu.idle]]`)"),
        (!has_watts, "power and energy", "no watts (`busy_watts`, `idle_watts`)"),
    ];
    let lacking = lacks.into_iter().filter(|(lacks, ..)| *lacks);
    let told = lacking.map(|(_, what, part)| NotMeasured {
        what: what.into(),
        why: format!("the machine file gives this machine {part}"),
    });
    told.collect()
}

fn of_machine(inventory: &Inventory) -> Vec<NotMeasured> {
    let is_virtual = inventory.is_virtual() == Some(true);
    let hidden = |what: &str| {
        if is_virtual {
            format!(
                "{what}: the hypervisor keeps it for itself; run on the host, or in the lab with virtual P-states"
            )
        } else {
            format!(
                "{what}: no driver for it is loaded; see the firmware's settings and the kernel's command line"
            )
        }
    };
    let mut open = Vec::new();
    let mut add = |what: &str, why: String| open.push(NotMeasured { what: what.into(), why });
    if inventory.cpufreq.is_none() {
        add("what the CPU frequency policy costs", hidden("this kernel has no cpufreq policy"));
    }
    if inventory.cpuidle.as_ref().is_none_or(|idle| idle.states.is_empty()) {
        add("what leaving idle states costs", hidden("this kernel shows no idle states"));
    }
    if inventory.frequency_sources.is_empty() {
        add("at which frequency the CPUs ran", hidden("nothing here shows a frequency"));
    }
    if !inventory.power.is_measurable() {
        let unreadable = !inventory.power.rapl.is_empty();
        let why = if unreadable {
            "the energy counters (RAPL) are readable by root alone; run as root".to_owned()
        } else {
            let others = inventory.power.why_no_other();
            match others.is_empty() {
                true => hidden("there is no energy counter (RAPL)"),
                false => format!("there is no energy counter (RAPL), and {}", listed(&others)),
            }
        };
        add("power and energy", why);
    }
    if is_virtual {
        add("what other guests did meanwhile", "the hypervisor shows no more of it than steal time".into());
    }
    open
}

fn of_device(case: &Case<'_>) -> Option<NotMeasured> {
    let counted = |device: &str| {
        let disks = case.data.trials.iter().filter_map(|t| t.measurement.as_ref()).flat_map(|m| &m.disks);
        disks.into_iter().any(|disk| disk.device == device)
    };
    let why = match case.target_device {
        // A recording has no target.
        None if case.data.study.is_recording() => return None,
        // A model has no device under another name than its parts have.
        None if case.data.run.provenance == Provenance::Simulation => return None,
        None => {
            "the target lies on no block device that was found (tmpfs, a network filesystem, or hidden by a container)"
                .to_owned()
        }
        Some(device) if !counted(device) => format!("no trial saw a request of `{device}` in /proc/diskstats"),
        Some(_) => return None,
    };
    Some(NotMeasured { what: "how busy the device below the target was".into(), why })
}

/// Encryption whose table only root may read: without it the rules about dm-crypt are silent.
fn of_encryption(case: &Case<'_>) -> Option<NotMeasured> {
    let unread = |device: &&BlockDevice| match &device.kind {
        BlockKind::DeviceMapper(it) => {
            it.targets.is_empty() && it.owner.as_ref().is_some_and(|owner| owner.starts_with("CRYPT"))
        }
        _ => false,
    };
    let devices = case.inventory?.devices.iter().filter(unread);
    let names: Vec<String> = devices.map(|device| format!("`{}`", device.name)).collect();
    (!names.is_empty()).then(|| NotMeasured {
        what: "what encryption costs".into(),
        why: format!(
            "the tables of {} are readable by root alone (`dmsetup table`); run as root",
            listed(&names)
        ),
    })
}

/// Devices that wrote all of the time, in recordings that are too short to see how they go on.
fn of_courses(case: &Case<'_>) -> Option<NotMeasured> {
    let disks = case.usages.iter().flat_map(|(_, usage)| &usage.disks);
    let is_open =
        |disk: &&DiskUsage| disk.busy >= AT_LIMIT && disk.write.bytes > 0.0 && disk.course.is_none();
    let disk = disks.into_iter().find(is_open)?;
    Some(NotMeasured {
        what: format!("whether {} becomes slower once its cache for writes is full", disk.device),
        why: "the recording is shorter than 8 s; record for as long as the writes last".into(),
    })
}

/// What is missing by a note of the recorder, which says it before its reason: `no idle states: …`.
fn series(note: &str) -> String {
    let what = note.split_once(": ").map_or("a series of the trace", |(what, _)| what);
    what.strip_prefix("no ").unwrap_or(what).to_owned()
}

/// What the recorder says that it could not sample, and trials that ran without it.
fn of_recorder(case: &Case<'_>) -> Vec<NotMeasured> {
    let measurements = || case.data.trials.iter().filter_map(|t| t.measurement.as_ref());
    let absent: BTreeSet<&String> =
        measurements().filter_map(|m| m.recorder.as_ref()).flat_map(|r| &r.absent).collect();
    let known = |text: &str| {
        // By another source, which comes first.
        text.ends_with("shows the energy")
            || case.inventory.is_some()
                && ["cpufreq", "RAPL", "cpuidle", "by hwmon: ", "of a battery: the machine"]
                    .iter()
                    .any(|name| text.contains(name))
    };
    let mut open: Vec<NotMeasured> = absent
        .into_iter()
        .filter(|text| !known(text))
        .map(|text| NotMeasured { what: series(text), why: format!("the recorder says: {text}") })
        .collect();
    let requested_only = |m: &domain::trial::Measurement| {
        m.recorder.as_ref().is_some_and(|r| r.frequency == FrequencySource::ScalingCurFreq)
    };
    // The lab knows it from outside.
    let paced = case.data.trials.iter().any(|t| t.lab.as_ref().is_some_and(|lab| lab.pacing.is_some()));
    if measurements().any(requested_only) && !paced {
        open.push(NotMeasured {
            what: "the frequency that the CPUs really ran at".into(),
            why: "only scaling_cur_freq could be read, which may be what was asked for; counters (perf msr events) need root".into(),
        });
    }
    if measurements().next().is_some() && measurements().all(|m| m.recorder.is_none()) {
        open.push(NotMeasured {
            what: "CPU time, disks and frequency during the trials".into(),
            why: "nothing was recorded".into(),
        });
    }
    open
}

/// Cells with calls that sync, of which nobody knows how long they take: the rules about them are silent.
fn of_syncs(case: &Case<'_>) -> Vec<NotMeasured> {
    const WHY: &str = "the tool does not tell it; fio does with `ioengine = psync` or `io_uring`, and from 3.41 on with libaio";
    let cells = case.cells();
    let untold = cells.iter().filter(|cell| {
        cell.metric("syncs").is_some_and(|rate| rate > 0.0) && cell.metric("sync_latency_mean").is_none()
    });
    let told = |(why, cells, count): (&str, Vec<String>, usize)| NotMeasured {
        what: format!("how long calls of fsync take in {}", some_of(cells, count)),
        why: why.to_owned(),
    };
    by_reason(untold.map(|cell| (cell.named().to_owned(), WHY)), MAX_NAMED).into_iter().map(told).collect()
}

/// Cells without a valid trial.
fn of_trials(case: &Case<'_>) -> Vec<NotMeasured> {
    let not_possible = |cell: &CellSummary| matches!(cell.lack, Some(Lack::NotPossible(_)));
    let empty = case.summary.cells.iter().filter(|cell| cell.points.is_empty());
    let each = empty.filter(|cell| !not_possible(cell));
    let each = each.map(|cell| {
        let why = cell.excluded.last().map_or_else(
            || not_reported(case, cell),
            |last| match &last.validity {
                domain::trial::Validity::Failed(text) => format!("its last trial failed: {text}"),
                _ => "all of its trials were disturbed".to_owned(),
            },
        );
        NotMeasured { what: format!("cell {}", cell.cell), why }
    });
    not_possible_here(case).into_iter().chain(each).collect()
}

/// That no trial of a cell has the metric, with what its tool says of it.
fn not_reported(case: &Case<'_>, cell: &CellSummary) -> String {
    let metric = &case.summary.metric;
    let own = case.data.trials.iter().filter(|trial| trial.key.cell == cell.cell);
    let warnings = own.filter_map(|trial| Some(&trial.measurement.as_ref()?.outcome.warnings)).flatten();
    let said = warnings.into_iter().find(|warning| warning.contains(metric.as_str()));
    let said = said.map_or_else(String::new, |warning| format!(" ({warning})"));
    format!("no trial of it reports `{metric}`{said}")
}

/// So many cells are named of those that have one reason in common.
const MAX_NAMED: usize = 4;

/// The names of some of so many cells.
fn some_of(mut cells: Vec<String>, count: usize) -> String {
    let left = count - cells.len();
    cells.extend((left > 0).then(|| format!("{left} more")));
    listed(&cells)
}

/// Cells that this machine could not run, those with one reason together.
fn not_possible_here(case: &Case<'_>) -> Vec<NotMeasured> {
    let cells = case.summary.cells.iter().filter_map(|cell| match &cell.lack {
        Some(Lack::NotPossible(why)) => Some((cell.cell.to_string(), why.as_str())),
        _ => None,
    });
    let told = |(why, cells, count): (&str, Vec<String>, usize)| {
        let named = some_of(cells, count);
        let what = if count == 1 { format!("cell {named}") } else { format!("{count} cells ({named})") };
        NotMeasured { what, why: format!("not possible on this machine: {why}") }
    };
    by_reason(cells, MAX_NAMED).into_iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{about, bare_machine, fio_run, with_device_reads};
    use super::*;
    use crate::summarise::summarise;
    use domain::Nanos;
    use domain::inventory::{RaplDomain, Virtualisation};

    fn open(
        data: &crate::summary::RunData,
        inventory: Option<&Inventory>,
        target_device: Option<&str>,
    ) -> Vec<NotMeasured> {
        let summary = summarise(data, None);
        not_measured(&Case { inventory, target_device, ..Case::new(data, &summary) })
    }

    fn quiet() -> crate::summary::RunData {
        fio_run(&["rw=read"], |cell, block| vec![("throughput", about(1e8, cell, block))])
    }

    fn why(open: &[NotMeasured], what: &str) -> Option<String> {
        open.iter().find(|n| n.what == what).map(|n| n.why.clone())
    }

    #[test]
    fn cells_that_could_not_be_run_are_told_by_their_reasons() {
        use crate::testing::{run, study};
        use domain::ids::CellId;
        let levels = ["1", "2", "3", "4", "5", "6", "7"];
        let mut data = run(study(&[("depth", &levels)]), 0, |_, _| vec![]);
        let cell = |level: &str| CellId::new(["w", level]);
        data.skipped =
            levels[1..].iter().map(|level| (cell(level), "there is no array".to_owned())).collect();
        data.skipped.insert(cell("1"), "there is no fio".into());
        let open = open(&data, None, None);
        assert_eq!(why(&open, "cell w_1").unwrap(), "not possible on this machine: there is no fio");
        assert_eq!(
            why(&open, "6 cells (w_2, w_3, w_4, w_5 and 2 more)").unwrap(),
            "not possible on this machine: there is no array"
        );
    }

    #[test]
    fn calls_of_fsync_whose_time_nobody_tells_are_named() {
        let of = |latency: bool| {
            let data = fio_run(&["rw=randwrite fsync=1 ioengine=libaio"], |_, _| {
                let told = latency.then_some(("sync_latency_mean", 8e-3));
                [("throughput", 4e5), ("syncs", 100.0)].into_iter().chain(told).collect()
            });
            why(&open(&data, None, None), "how long calls of fsync take in w0")
        };
        assert!(of(false).unwrap().contains("psync"));
        assert_eq!(of(true), None);
    }

    #[test]
    fn a_virtual_machine_without_cpufreq_says_what_that_hides_and_where_to_find_it() {
        let virtualisation = Virtualisation { hypervisor_flag: Some(true), ..Virtualisation::default() };
        let machine = Inventory { virtualisation, ..bare_machine() };
        let open = open(&quiet(), Some(&machine), Some("vda"));
        assert!(
            why(&open, "what the CPU frequency policy costs")
                .unwrap()
                .contains("in the lab with virtual P-states")
        );
        assert!(why(&open, "what other guests did meanwhile").is_some());
    }

    #[test]
    fn a_lab_machine_is_told_what_its_study_could_ask_for_and_nothing_of_hypervisors() {
        let mut data = quiet();
        data.run.provenance = Provenance::Lab;
        let virtualisation = Virtualisation { hypervisor_flag: Some(true), ..Virtualisation::default() };
        let machine = Inventory { virtualisation, ..bare_machine() };
        let open = open(&data, Some(&machine), Some("vda"));
        assert!(why(&open, "what the CPU frequency policy costs").unwrap().contains("`pstates`"));
        assert!(why(&open, "what other guests did meanwhile").is_none());
        assert!(why(&open, "power and energy").is_none());
    }

    #[test]
    fn a_model_is_told_what_its_file_could_say_and_nothing_of_drivers() {
        let mut data = quiet();
        data.run.provenance = Provenance::Simulation;
        let told = open(&data, Some(&bare_machine()), None);
        assert!(why(&told, "how busy the device below the target was").is_none());
        assert!(why(&told, "power and energy").unwrap().contains("`busy_watts`"));
        assert!(why(&told, "what leaving idle states costs").unwrap().contains("`[[cpu.idle]]`"));
        assert!(told.iter().all(|each| !each.why.contains("firmware")), "{told:?}");
    }

    #[test]
    fn a_device_that_no_trial_saw_busy_is_told_and_one_that_was_is_not() {
        let what = "how busy the device below the target was";
        let mut data = quiet();
        assert!(why(&open(&data, None, Some("loop0")), what).unwrap().contains("`loop0`"));
        with_device_reads(&mut data, "loop0", 1 << 20, Nanos::from_millis(5));
        assert_eq!(why(&open(&data, None, Some("loop0")), what), None);
        assert!(why(&open(&data, None, None), what).unwrap().contains("no block device"));
    }

    #[test]
    fn energy_that_only_root_may_read_is_told_apart_from_none() {
        let mut machine = bare_machine();
        machine.power.rapl = vec![RaplDomain {
            name: "package-0".into(),
            zone: "intel-rapl:0".into(),
            max_energy: None,
            readable: false,
        }];
        assert!(
            why(&open(&quiet(), Some(&machine), None), "power and energy").unwrap().ends_with("run as root")
        );
    }

    #[test]
    fn a_machine_that_has_it_all_leaves_nothing_of_it_open() {
        let mut machine = super::super::testing::machine_with(domain::inventory::Policy::default());
        machine.frequency_sources = vec![FrequencySource::AperfMperf];
        machine.power.perf_events = vec!["energy-pkg".into()];
        let open = open(&quiet(), Some(&machine), Some("vda"));
        assert_eq!(why(&open, "what the CPU frequency policy costs"), None);
        assert_eq!(why(&open, "power and energy"), None);
        assert_eq!(why(&open, "at which frequency the CPUs ran"), None);
    }

    #[test]
    fn encryption_whose_table_nobody_could_read_is_named() {
        let mut machine = super::super::testing::with_crypt(false, "aes-xts-plain64", 512, &[]);
        assert_eq!(why(&open(&quiet(), Some(&machine), None), "what encryption costs"), None);
        let BlockKind::DeviceMapper(mapping) = &mut machine.devices[0].kind else { panic!() };
        mapping.targets.clear();
        mapping.crypt = None;
        let told = why(&open(&quiet(), Some(&machine), None), "what encryption costs").unwrap();
        assert!(told.starts_with("the tables of `dm-0` are readable by root alone"), "{told}");
    }

    #[test]
    fn a_recording_that_is_too_short_for_a_devices_cache_is_told() {
        use crate::facts::usage::{Transfers, Usage};
        let told = |busy: f64, bytes: f64| {
            let write = Transfers { bytes, ..Transfers::default() };
            let disk = DiskUsage { device: "sda".into(), busy, write, ..DiskUsage::default() };
            let data = quiet();
            let usages = [(data.trials[0].key.clone(), Usage { disks: vec![disk], ..Usage::default() })];
            let summary = summarise(&data, None);
            let open = not_measured(&Case { usages: &usages, ..Case::new(&data, &summary) });
            why(&open, "whether sda becomes slower once its cache for writes is full")
        };
        assert!(told(0.98, 4e8).unwrap().contains("shorter than 8 s"));
        assert_eq!(told(0.2, 4e8), None);
        assert_eq!(told(0.98, 0.0), None);
    }

    #[test]
    fn a_cell_without_a_valid_trial_is_named_with_its_reason() {
        let mut data = quiet();
        data.trials = data.trials.into_iter().map(|t| crate::testing::failed(t.key)).collect();
        assert_eq!(
            why(&open(&data, None, None), "cell w0").unwrap(),
            "its last trial failed: fio ended with code 1"
        );
    }
}
