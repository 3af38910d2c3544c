//! The machine as a whole, its kernel, memory, energy counters, rivals, and what it lacks.

use super::Style;
use super::page::Page;
use domain::energy::{self, PowerSensor, Supply, SupplyKind};
use domain::inventory::{
    Absent, Dmi, Inventory, Kernel, Memory, Power, Preemption, Rival, Tickless, Virtualisation,
};

pub(super) fn machine(inventory: &Inventory, page: &mut Page) {
    page.section("Machine");
    let known = inventory.virtualisation.dmi.as_ref();
    page.parts([inventory.host.clone(), known.and_then(product), inventory.os.clone()]);
    page.parts([known.and_then(|dmi| Some(format!("firmware {}", dmi.firmware.as_ref()?)))]);
    page.parts(virtualisation(&inventory.virtualisation));
}

fn product(dmi: &Dmi) -> Option<String> {
    match (&dmi.vendor, &dmi.product) {
        (Some(vendor), Some(product)) => Some(format!("{vendor} {product}")),
        (one, other) => one.clone().or(other.clone()),
    }
}

fn virtualisation(found: &Virtualisation) -> [Option<String>; 3] {
    let kind = match (&found.hypervisor, found.hypervisor_flag) {
        (Some(name), _) => Some(format!("a virtual machine ({name})")),
        (None, Some(true)) => Some("a virtual machine".to_owned()),
        (None, Some(false)) => Some("no hypervisor to be seen".to_owned()),
        (None, None) => None,
    };
    let steal = found.steal_seen.filter(|seen| *seen);
    [
        kind,
        found.container.as_ref().map(|container| format!("inside a container ({container})")),
        steal.map(|_| "other guests have taken CPU time since boot (steal)".to_owned()),
    ]
}

pub(super) fn kernel(kernel: &Kernel, style: Style, page: &mut Page) {
    page.section("Kernel");
    page.parts([
        kernel.release.clone(),
        kernel.hz.map(|hz| format!("{hz} Hz")),
        kernel.tickless.map(tickless),
        kernel.preemption.as_ref().map(preemption),
        kernel.clocksource.as_ref().map(|clock| format!("clock {clock}")),
    ]);
    let lists = [("no tick on", &kernel.nohz_full), ("isolated:", &kernel.isolated)];
    page.parts(lists.map(|(what, cpus)| (!cpus.is_empty()).then(|| format!("{what} CPUs {cpus}"))));
    mitigations(kernel, style, page);
    page.parts(writeback(kernel));
    if style == Style::Full && !kernel.command_line.is_empty() {
        page.line(format!("started with {}", kernel.command_line.join(" ")));
    }
}

fn tickless(mode: Tickless) -> String {
    let text = match mode {
        Tickless::Periodic => "tick never stops",
        Tickless::Idle => "tickless when idle",
        Tickless::Full => "fully tickless",
    };
    text.to_owned()
}

fn preemption(preemption: &Preemption) -> String {
    match (&preemption.mode, preemption.dynamic) {
        (Some(mode), true) => format!("preemption {mode} (dynamic)"),
        (Some(mode), false) => format!("preemption {mode}"),
        (None, _) => "preemption dynamic (mode readable by root in debugfs)".to_owned(),
    }
}

fn mitigations(kernel: &Kernel, style: Style, page: &mut Page) {
    let states = || kernel.mitigations.iter();
    let vulnerable: Vec<&str> =
        states().filter(|(_, state)| state.contains("ulnerable")).map(|(name, _)| name.as_str()).collect();
    let active = states().filter(|(_, state)| state.contains("itigation")).count();
    if kernel.mitigations.is_empty() {
        return;
    }
    let exposed = if vulnerable.is_empty() { "none".to_owned() } else { vulnerable.join(" ") };
    page.line(format!("mitigations: {active} active, vulnerable in full or in part: {exposed}"));
    if style == Style::Full {
        for (name, state) in states().filter(|(_, state)| *state != "Not affected") {
            page.line(format!("  {name}: {state}"));
        }
    }
}

/// The page cache's writeback in words; an amount in bytes holds before a share, where it is set.
fn writeback(kernel: &Kernel) -> [Option<String>; 4] {
    let value = |name: &str| kernel.sysctls.get(&format!("vm.{name}"))?.parse::<u64>().ok();
    let bound = |kind: &str| match value(&format!("{kind}_bytes")) {
        Some(bytes) if bytes > 0 => Some(domain::units::Bytes::new(bytes).to_string()),
        _ => value(&format!("{kind}_ratio")).map(|percent| format!("{percent}%")),
    };
    let seconds = |name: &str| Some(format!("{} s", value(name)? as f64 / 100.0));
    [
        bound("dirty_background").map(|at| format!("writeback begins at {at} dirty")),
        bound("dirty").map(|at| format!("holds writers at {at}")),
        seconds("dirty_expire_centisecs").map(|age| format!("takes pages older than {age}")),
        seconds("dirty_writeback_centisecs").map(|every| format!("looks every {every}")),
    ]
}

pub(super) fn memory(memory: &Memory, page: &mut Page) {
    page.section("Memory");
    page.parts([
        memory.total.map(|total| total.to_string()),
        memory.available.map(|available| format!("{available} available")),
        memory.swap.map(|swap| if swap.get() == 0 { "no swap".to_owned() } else { format!("swap {swap}") }),
        memory.transparent_huge_pages.as_ref().map(|mode| format!("transparent huge pages {mode}")),
    ]);
}

pub(super) fn power(power: &Power, page: &mut Page) {
    page.section("Power");
    let readable: Vec<&str> = power.rapl.iter().filter(|d| d.readable).map(|d| d.name.as_str()).collect();
    if !readable.is_empty() {
        page.line(format!("RAPL domains {}", readable.join(", ")));
    }
    if !power.perf_events.is_empty() {
        page.line(format!("perf events {}", power.perf_events.join(", ")));
    }
    if !power.hwmon.is_empty() {
        let taken = energy::chosen(&power.hwmon).map(|(_, taken)| taken).unwrap_or_default();
        let named = |sensor: &PowerSensor| match taken.contains(&sensor) {
            true => format!("{} (of the machine)", sensor.in_words()),
            false => sensor.in_words(),
        };
        page.line(format!("hwmon {}", power.hwmon.iter().map(named).collect::<Vec<_>>().join(", ")));
    }
    if !power.supplies.is_empty() {
        let state = |supply: &Supply| match &supply.kind {
            SupplyKind::Battery { status, .. } => format!("{} {}", supply.name, status.to_lowercase()),
            SupplyKind::Outside { online: true } => format!("{} online", supply.name),
            SupplyKind::Outside { online: false } => format!("{} offline", supply.name),
        };
        page.line(format!("supplies {}", power.supplies.iter().map(state).collect::<Vec<_>>().join(", ")));
    }
}

pub(super) fn rivals(rivals: &[Rival], page: &mut Page) {
    page.section("Rivals");
    for rival in rivals {
        let state = match (rival.running, rival.enabled) {
            (true, _) => "runs now",
            (false, Some(true)) => "starts at boot",
            (false, _) => "installed, not enabled",
        };
        let profile = rival.profile.as_ref().map(|p| format!(" with profile {p}")).unwrap_or_default();
        page.line(format!("{} {state}{profile}; it changes {}", rival.name, rival.changes));
    }
}

pub(super) fn absent(absent: &[Absent], page: &mut Page) {
    page.section("Not here");
    for one in absent {
        page.line(format!("{}: {}", one.what, one.means));
    }
}
