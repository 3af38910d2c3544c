//! A table of P-states made from a machine that was inspected, so that its drivers can be had in a guest.
//!
//! What the machine shows is taken as it is: driver, frequencies, idle states. What it does not show is
//! assumed, and the text says so: the pace, and what the processor does by itself. Watts are left out.

use domain::inventory::{Cpufreq, Inventory, Policy};
use domain::units::Hertz;
use std::fmt::Write;

/// Instructions a second that an ordinary host can keep up with, as in `laptop-5`.
const PACE: f64 = 20e6;

/// What a processor does under HWP or CPPC, as in `i7-6700k-hwp`.
const CHOICE: &str = "# Modelled, and all three values are assumed: see i7-6700k-hwp.\n[SECTION]\nwindow = \"4ms\"\n\
    period = \"1ms\"\nsetpoint = [0.30, 0.95]\n";

/// The most idle states that a table has.
const MAX_IDLE: usize = 7;

/// The text of a table like this machine, with comments.
///
/// Of processors with several kinds of cores it is the fastest kind.
///
/// # Errors
/// A text that says what the machine lacks.
pub fn table_of(inventory: &Inventory) -> Result<String, String> {
    let cpufreq = inventory.cpufreq.as_ref().ok_or("the machine has no cpufreq policy")?;
    let fastest = cpufreq.policies.iter().max_by_key(|policy| policy.hardware_max);
    let policy = fastest.ok_or("the machine has no cpufreq policy")?;
    let (least, most) =
        policy.hardware_min.zip(policy.hardware_max).ok_or("its frequencies are not shown")?;
    let driver = policy.driver.as_deref().unwrap_or("unknown");
    let mut text = String::new();
    let name = inventory.cpus.model.name.as_deref().unwrap_or("a processor of no name");
    line(&mut text, format_args!("# Made from an inspected machine: {}, {driver}.", plain(name)));
    let driver = match driver {
        "intel_pstate" | "intel_cpufreq" if has_hwp(cpufreq) => "intel-hwp",
        "intel_pstate" | "intel_cpufreq" => "intel",
        "amd-pstate" | "amd-pstate-epp" => "amd",
        "acpi-cpufreq" => "acpi",
        other => return Err(format!("no table gives a guest its driver `{}`", plain(other))),
    };
    line(&mut text, format_args!("driver = \"{driver}\""));
    line(&mut text, format_args!("{}", processor(inventory, driver)?));
    line(&mut text, format_args!("domains = \"{}\"", domains(inventory, policy)));
    line(&mut text, format_args!("# Assumed: what an ordinary host can keep up with."));
    line(&mut text, format_args!("pace = {PACE:e}"));
    line(&mut text, format_args!("# Assumed: one instruction a cycle at the highest frequency."));
    line(&mut text, format_args!("stands_for = {:e}", most.hz() as f64));
    if driver == "acpi" {
        states(&mut text, policy, most)?;
        return Ok(text);
    }
    ratios(&mut text, inventory, policy, (least, most));
    match driver {
        "intel-hwp" => text += &CHOICE.replace("SECTION", "hwp"),
        "amd" => text += &CHOICE.replace("SECTION", "cppc"),
        _ => {}
    }
    idle(&mut text, inventory);
    Ok(text)
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    writeln!(text, "{words}").expect("a string takes all text");
}

/// A name as it can stand in a comment or an error.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(80).collect()
}

fn has_hwp(cpufreq: &Cpufreq) -> bool {
    cpufreq.intel_pstate.as_ref().is_some_and(|driver| driver.hwp == Some(true))
}

fn processor(inventory: &Inventory, driver: &str) -> Result<String, String> {
    let model = &inventory.cpus.model;
    let vendor = match model.vendor.as_deref() {
        Some("GenuineIntel") => "intel",
        // ACPI asks for no vendor, and without registers only Intel's have a constant TSC in a guest.
        _ if driver == "acpi" => {
            return Ok("# Its processor is one that no guest with acpi-cpufreq can have.".to_owned());
        }
        Some("AuthenticAMD") => "amd",
        other => {
            return Err(format!("its processor is of the vendor `{}`", plain(other.unwrap_or("unknown"))));
        }
    };
    let number = |value: Option<u32>, what| {
        let number = value.and_then(|number| u8::try_from(number).ok());
        number.ok_or_else(|| format!("the processor's {what} is not shown, or not one of x86"))
    };
    let (family, number_of_model) = (number(model.family, "family")?, number(model.model, "model")?);
    let stepping = number(model.stepping, "stepping")?;
    Ok(format!(
        "processor = {{ vendor = \"{vendor}\", family = {family}, model = {number_of_model}, stepping = {stepping} }}"
    ))
}

fn domains(inventory: &Inventory, policy: &Policy) -> &'static str {
    let online = &inventory.cpus.online;
    if online.len() > 1 && policy.cpus.len() == online.len() { "shared" } else { "per-cpu" }
}

/// `_PSS` of acpi-cpufreq: the listed frequencies, and turbo as a state 1 MHz above the highest of them.
fn states(text: &mut String, policy: &Policy, most: Hertz) -> Result<(), String> {
    let Some(highest) = policy.available.last() else {
        return Err("acpi-cpufreq lists no frequencies".to_owned());
    };
    let latency = policy.transition_latency.map(|latency| latency.get());
    match latency.filter(|latency| (1..=10_000_000).contains(latency)) {
        Some(nanos) => line(text, format_args!("latency = \"{nanos}ns\"")),
        None => line(text, format_args!("# Assumed: the machine does not say it.\nlatency = \"10us\"")),
    }
    let mut all: Vec<(u64, Hertz)> = policy.available.iter().map(|step| (mhz(*step), *step)).collect();
    if most > *highest {
        line(text, format_args!("# Turbo, as ACPI names it: 1 MHz above the highest state."));
        all.push((mhz(*highest) + 1, most));
    }
    let fastest = most.max(*highest).hz() as f64;
    for (name, runs_at) in all.into_iter().rev() {
        let speed = runs_at.hz() as f64 / fastest;
        line(text, format_args!("[[state]]\nmhz = {name}\nspeed = {speed:?}"));
    }
    Ok(())
}

fn mhz(frequency: Hertz) -> u64 {
    (frequency.hz() + 500_000) / 1_000_000
}

fn ratios(text: &mut String, inventory: &Inventory, policy: &Policy, (least, most): (Hertz, Hertz)) {
    let ratio = |frequency: Hertz| (frequency.hz() + 50_000_000) / 100_000_000;
    let shown = policy.base.or(inventory.cpus.base);
    let named = inventory.cpus.model.name.as_deref().and_then(base_in_name);
    let (base, source) = match (shown, named) {
        (Some(base), _) => (base, "as the kernel shows it"),
        (None, Some(base)) => (base, "as the processor's name has it"),
        (None, None) => (most, "assumed: the machine does not say it, so there is no turbo"),
    };
    let base = ratio(base).clamp(ratio(least), ratio(most));
    line(
        text,
        format_args!(
            "# In units of 100 MHz. The base is {source}. How turbo falls with busy cores is not shown."
        ),
    );
    line(
        text,
        format_args!("[ratios]\nmin = {}\nbase = {base}\nturbo = {}", ratio(least).max(1), ratio(most)),
    );
}

/// `Intel(R) Xeon(R) CPU E5-2697 v3 @ 2.60GHz`.
fn base_in_name(name: &str) -> Option<Hertz> {
    let gigahertz: f64 = name.rsplit_once("@ ")?.1.trim().strip_suffix("GHz")?.parse().ok()?;
    (0.1..10.0).contains(&gigahertz).then(|| Hertz::from_hz((gigahertz * 1e9) as u64))
}

fn idle(text: &mut String, inventory: &Inventory) {
    let states = inventory.cpuidle.iter().flat_map(|cpuidle| &cpuidle.states);
    let mut known: Vec<(String, u64)> = Vec::new();
    // The first is polling, which every kernel has; several kinds of cores have several of one index.
    for state in states.filter(|state| state.index > 0 && state.name != "POLL") {
        let name: String = state.name.chars().filter(char::is_ascii_alphanumeric).take(16).collect();
        let Some(latency) = state.latency.map(|latency| latency.get()).filter(|ns| *ns <= 10_000_000) else {
            continue;
        };
        let is_next = known.last().is_none_or(|(_, before)| *before <= latency);
        if is_next && !name.is_empty() && known.iter().all(|(other, _)| *other != name) {
            known.push((name, latency));
        }
    }
    if known.len() > MAX_IDLE {
        line(text, format_args!("# Of {} idle states a table has the first {MAX_IDLE}.", known.len()));
    }
    for (name, latency) in known.into_iter().take(MAX_IDLE) {
        line(text, format_args!("[[idle]]\nname = \"{name}\"\nlatency = \"{latency}ns\""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_base_frequency_stands_in_many_a_name() {
        let base = |name| base_in_name(name).map(|base| base.hz() / 1_000_000);
        assert_eq!(base("Intel(R) Xeon(R) CPU E5-2697 v3 @ 2.60GHz"), Some(2600));
        for other in ["AMD EPYC 7543 32-Core Processor", "@ fastGHz", "X @ -1GHz", "X @ 2.6 GHz or so"] {
            assert_eq!(base(other), None, "{other}");
        }
    }
}
