//! What a machine lacks, and what that means for its user.

use domain::inventory::{Absent, BlockKind, Inventory};

/// In the order in which it matters.
pub(super) fn of(inventory: &Inventory) -> Vec<Absent> {
    let found = [cpufreq(inventory), frequency(inventory), cpuidle(inventory), energy(inventory)];
    let more = [devices(inventory), models(inventory), config(inventory)];
    found.into_iter().chain(more).flatten().collect()
}

fn absent(what: &str, means: impl Into<String>) -> Option<Absent> {
    Some(Absent { what: what.to_owned(), means: means.into() })
}

fn cpufreq(inventory: &Inventory) -> Option<Absent> {
    match inventory.cpufreq {
        Some(_) => None,
        None if inventory.is_virtual() == Some(true) => absent(
            "cpufreq",
            "frequency policy can be neither read nor changed here: the hypervisor's host decides how fast these CPUs run",
        ),
        None => absent(
            "cpufreq",
            "frequency policy can be neither read nor changed here: no driver is bound, so the firmware decides; \
             look for a setting that gives the operating system control, and for the module acpi-cpufreq",
        ),
    }
}

fn frequency(inventory: &Inventory) -> Option<Absent> {
    if !inventory.frequency_sources.is_empty() {
        return None;
    }
    absent(
        "frequency counters",
        "nothing shows how fast the CPUs really run, so a slow result cannot be told from a slow clock",
    )
}

fn cpuidle(inventory: &Inventory) -> Option<Absent> {
    match inventory.cpuidle {
        Some(_) => None,
        None => absent(
            "cpuidle",
            "idle states can be neither seen nor switched off here: what waking up costs at low queue depth stays unknown",
        ),
    }
}

fn energy(inventory: &Inventory) -> Option<Absent> {
    match &inventory.power {
        power if power.is_measurable() => None,
        power if power.rapl.is_empty() => {
            let others: String = power.why_no_other().into_iter().map(|why| format!("; {why}")).collect();
            absent("energy counters", format!("power and energy cannot be measured here{others}"))
        }
        _ => absent(
            "energy counters",
            "they are there, but only root may read them: run as root to measure power",
        ),
    }
}

fn devices(inventory: &Inventory) -> Option<Absent> {
    if !inventory.devices.is_empty() {
        return None;
    }
    absent("block devices", "nothing is known of disks, arrays and their settings here")
}

fn models(inventory: &Inventory) -> Option<Absent> {
    let nameless = |d: &&domain::inventory::BlockDevice| d.kind == BlockKind::Disk && d.model.is_none();
    let names: Vec<&str> = inventory.devices.iter().filter(nameless).map(|d| d.name.as_str()).collect();
    if names.is_empty() {
        return None;
    }
    let means = format!(
        "nothing says what is behind {}: whether it spins, what caches it and who else uses it can only be told \
         from measurements",
        names.join(", ")
    );
    absent("disk model", means)
}

fn config(inventory: &Inventory) -> Option<Absent> {
    if inventory.kernel.config.is_some() {
        return None;
    }
    absent(
        "kernel configuration",
        "HZ and the tickless mode are unknown: neither /boot/config-* nor /proc/config.gz can be read",
    )
}
