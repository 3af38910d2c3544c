//! What CPU time was spent in: a table of the kernel's parts and of roles.

use super::{paragraph, table};
use crate::document::Block;
use domain::order;
use domain::profile::{Profile, Subsystem};
use domain::trace::Role;

/// Roles that have a column of their own.
const MAX_ROLES: usize = 2;

/// Functions that are named.
const MAX_FUNCTIONS: usize = 4;

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
    vec![Block::Table(table(&head, &numbers, rows)), paragraph(told)]
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
    let mut functions: Vec<(&String, &u64)> = profile.functions.iter().collect();
    order::by_key(&mut functions, |(name, count)| (std::cmp::Reverse(**count), *name));
    let told = functions.into_iter().take(MAX_FUNCTIONS);
    told.map(|(name, count)| format!("{name} {}", share(*count, all))).collect::<Vec<_>>().join(", ")
}

fn share(count: u64, all: u64) -> String {
    format!("{:.1}%", 100.0 * count as f64 / all as f64)
}
