//! What CPU time was spent in: a table of the kernel's parts and of roles.

use super::{paragraph, table};
use crate::document::Block;
use domain::profile::{Interrupts, Profile, Subsystem};
use domain::trace::Role;
use domain::{Nanos, order};

/// Roles that have a column of their own.
const MAX_ROLES: usize = 2;

/// Functions that are named.
const MAX_FUNCTIONS: usize = 4;

/// Handlers that are named.
const MAX_HANDLERS: usize = 2;

/// Of shares that may be off by what interrupts of devices took.
pub(super) const NOT_RECORDED: &str = "Interrupts of devices were not recorded (hardirq of --events): a clock that they hold off counts what they execute to what they interrupt, so that a share may be off by their time.";

/// The table, and what it is of. *Self* is what ran, *inclusive* also what was called on its behalf.
pub(crate) fn profile(profile: &Profile) -> Vec<Block> {
    let all = profile.all();
    if all == 0 {
        return Vec::new();
    }
    let roles = roles(profile);
    let time = |count: u64| if count == 0 { "–".to_owned() } else { profile.time(count).to_string() };
    let row = |label: &str, inclusive: u64, is_wanted: &dyn Fn(Subsystem) -> bool| {
        let whole = profile.count(|_, subsystem| is_wanted(subsystem));
        let of_role = |role: &Role| profile.count(|other, part| other == *role && is_wanted(part));
        let others = profile.count(|role, part| !roles.contains(&role) && is_wanted(part));
        let fixed = [label.to_owned(), time(whole), share(whole, all), share(inclusive, all)];
        let counts = roles.iter().map(of_role).chain([others]);
        fixed.into_iter().chain(counts.map(time)).collect::<Vec<String>>()
    };
    let inclusive = |subsystem| profile.inclusive.get(&subsystem).copied().unwrap_or(0);
    let present = Subsystem::ALL.into_iter().filter(|part| profile.count(|_, other| other == *part) > 0);
    let mut rows: Vec<_> =
        present.map(|part| row(part.name(), inclusive(part), &|other| other == part)).collect();
    rows.push(row("all", all, &|_| true));
    let names = roles.iter().map(|role| role.name());
    let head: Vec<&str> =
        ["CPU time", "time", "self", "inclusive"].into_iter().chain(names).chain(["others"]).collect();
    let numbers: Vec<usize> = (1..head.len()).collect();
    let lost = if profile.lost > 0 { format!("; {} found no room", profile.lost) } else { String::new() };
    let mut told = format!(
        "{all} call stacks, one each {} of a busy CPU{lost}: shares are within {:.1} points at 95%.",
        profile.period,
        profile.margin()
    );
    if !profile.functions.is_empty() {
        told.push_str(&format!(" Busiest in the kernel: {}.", busiest(profile, all)));
    }
    told.push(' ');
    told.push_str(
        &profile.interrupts.as_ref().map_or(NOT_RECORDED.to_owned(), |some| interrupts(some, profile)),
    );
    vec![Block::Table(table(&head, &numbers, rows)), paragraph(told)]
}

/// What was put right for them, and by how much.
fn interrupts(of: &Interrupts, profile: &Profile) -> String {
    let all = profile.all();
    let mut told = match of.all_held_off() {
        0 => "Interrupts of devices held off none of them".to_owned(),
        held_off => {
            let share = share(held_off, all);
            format!("Interrupts of devices held off {held_off} of them ({share}), which count to interrupt")
        }
    };
    // What runs behind a handler may be of an interrupt as well.
    let from = of.held_off.iter().filter(|(part, _)| **part != Subsystem::Interrupt);
    let from = busiest_of(from.map(|(part, count)| (part.name(), *count)), all);
    if !from.is_empty() {
        told.push_str(&format!(" and not to {from}"));
    }
    if of.unsampled > 0 {
        let time = profile.time(of.unsampled);
        told.push_str(&format!(
            "; interrupt has {time} more, measured where there is no call stack (on idle CPUs, or beyond a period)"
        ));
    }
    let mut handlers: Vec<(&String, &Nanos)> = of.handlers.iter().collect();
    order::by_key(&mut handlers, |(name, time)| (std::cmp::Reverse(**time), *name));
    let longest = handlers.into_iter().take(MAX_HANDLERS).map(|(name, time)| format!("{name} {time}"));
    let longest: Vec<String> = longest.collect();
    if longest.is_empty() { format!("{told}.") } else { format!("{told}. Handlers: {}.", longest.join(", ")) }
}

/// The workload, which was asked for, then the busiest.
fn roles(profile: &Profile) -> Vec<Role> {
    let count = |role: Role| profile.count(|other, _| other == role);
    let mut roles: Vec<Role> = Role::ALL.into_iter().filter(|role| count(*role) > 0).collect();
    order::by_key(&mut roles, |role| (*role != Role::Workload, std::cmp::Reverse(count(*role))));
    roles.truncate(MAX_ROLES);
    roles
}

fn busiest(profile: &Profile, all: u64) -> String {
    busiest_of(profile.functions.iter().map(|(name, count)| (name.as_str(), *count)), all)
}

/// `memcpy 2.0%, aio_read 1.1%`: the most first.
fn busiest_of<'a>(counts: impl Iterator<Item = (&'a str, u64)>, all: u64) -> String {
    let mut counts: Vec<(&str, u64)> = counts.collect();
    order::by_key(&mut counts, |(name, count)| (std::cmp::Reverse(*count), *name));
    let told = counts.into_iter().take(MAX_FUNCTIONS);
    told.map(|(name, count)| format!("{name} {}", share(count, all))).collect::<Vec<_>>().join(", ")
}

fn share(count: u64, all: u64) -> String {
    format!("{:.1}%", 100.0 * count as f64 / all as f64)
}
