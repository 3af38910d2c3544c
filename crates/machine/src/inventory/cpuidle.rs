//! Idle states: `/sys/devices/system/cpu/cpuidle`, `…/cpuN/cpuidle`.

use super::Error;
use super::reader::Reader;
use domain::Nanos;
use domain::inventory::{CpuList, Cpuidle, IdleState};
use domain::order;

const CPUS: &str = "/sys/devices/system/cpu";

pub(super) fn take(reader: &Reader, online: &CpuList) -> Result<Option<Cpuidle>, Error> {
    let at = |file: &str| format!("{CPUS}/cpuidle/{file}");
    let governor = match reader.text(&at("current_governor")) {
        Some(governor) => Some(governor),
        None => reader.text(&at("current_governor_ro")),
    };
    let states = states(reader, online)?;
    if states.is_empty() {
        return Ok(None);
    }
    Ok(Some(Cpuidle {
        driver: reader.text(&at("current_driver")).filter(|driver| driver != "none"),
        governor,
        available_governors: reader.words(&at("available_governors")),
        states,
    }))
}

/// All states of all CPUs; those that are the same on several CPUs, once.
fn states(reader: &Reader, online: &CpuList) -> Result<Vec<IdleState>, Error> {
    let mut states: Vec<IdleState> = Vec::new();
    for cpu in online.iter() {
        let folder = format!("{CPUS}/cpu{cpu}/cpuidle");
        for index in reader.numbered(&folder, "state") {
            let one = state(reader, &format!("{folder}/state{index}"), index, cpu)?;
            match states.iter_mut().find(|s| is_same(s, &one)) {
                Some(same) => {
                    same.cpus.insert(cpu);
                    same.disabled.extend(one.disabled.iter());
                }
                None => states.push(one),
            }
        }
    }
    order::by_key(&mut states, |s| (s.index, s.cpus.first()));
    Ok(states)
}

fn state(reader: &Reader, folder: &str, index: u32, cpu: u32) -> Result<IdleState, Error> {
    let at = |file: &str| format!("{folder}/{file}");
    let micros = |file: &str| -> Result<Option<Nanos>, Error> {
        Ok(reader.number::<u32>(&at(file))?.map(|us| Nanos::from_micros(us.into())))
    };
    // Bit 0: switched off by the user; bit 1: by the driver (`drivers/cpuidle/sysfs.c`).
    let disabled = reader.number::<u32>(&at("disable"))?.is_some_and(|bits| bits > 0);
    Ok(IdleState {
        index,
        name: reader.text(&at("name")).unwrap_or_else(|| format!("state{index}")),
        description: reader.text(&at("desc")),
        latency: micros("latency")?,
        residency: micros("residency")?,
        cpus: [cpu].into_iter().collect(),
        disabled: disabled.then_some(cpu).into_iter().collect(),
    })
}

fn is_same(a: &IdleState, b: &IdleState) -> bool {
    (a.index, &a.name, &a.description, a.latency, a.residency)
        == (b.index, &b.name, &b.description, b.latency, b.residency)
}
