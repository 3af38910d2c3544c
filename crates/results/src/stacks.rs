//! What CPU time was spent in, by sampled stacks: a table of the kernel's parts and of roles.

use domain::inert::Lines;
use domain::trace::Role;
use events::{Stacks, Subsystem};
use serde_json::{Value, json};

/// Roles that have a column of their own.
const MAX_ROLES: usize = 2;

/// As many functions of the kernel are named as fit into a line.
const COLUMNS: usize = 80;

/// Appends the table, 77 columns wide.
pub fn tell(stacks: &Stacks, text: &mut Lines) {
    let all = stacks.all();
    text.blank();
    text.line(format_args!("CPU time by stacks: {all} sampled, one each {} of a busy CPU", stacks.period));
    if stacks.lost > 0 {
        text.line(format_args!("  {} found no room in their ring and are missing", stacks.lost));
    }
    if all == 0 {
        return;
    }
    text.line(format_args!("  a share is known within {:.1} points, nineteen times in twenty", margin(all)));
    let table = Table::of(stacks, all);
    text.line(table.head());
    for subsystem in Subsystem::ALL {
        if table.count(|_, other| other == subsystem) > 0 {
            let inclusive = stacks.inclusive.get(&subsystem).copied().unwrap_or(0);
            text.line(table.row(subsystem.name(), inclusive, |other| other == subsystem));
        }
    }
    text.line(table.row("all", all, |_| true));
    let mut functions: Vec<(&String, &u64)> = stacks.functions.iter().collect();
    functions.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
    let mut busiest = "  busiest in the kernel:".to_owned();
    for (name, count) in functions {
        let one = format!(" {name} {}", share(*count, all));
        if busiest.len() + one.len() >= COLUMNS {
            break;
        }
        busiest.push_str(&one);
        busiest.push(',');
    }
    if let Some(told) = busiest.strip_suffix(',') {
        text.line(told);
    }
}

/// Half the width of the 95% interval of a share of so many samples, in percentage points: that of one half,
/// which is the widest (the normal approximation of the binomial distribution).
fn margin(samples: u64) -> f64 {
    196.0 * (0.25 / samples as f64).sqrt()
}

fn share(count: u64, all: u64) -> String {
    format!("{:.1}%", 100.0 * count as f64 / all as f64)
}

struct Table<'s> {
    stacks: &'s Stacks,
    all: u64,
    /// Those with a column: the workload, which was asked for, then the busiest.
    roles: Vec<Role>,
}

impl<'s> Table<'s> {
    fn of(stacks: &'s Stacks, all: u64) -> Self {
        let mut table = Self { stacks, all, roles: Vec::new() };
        let count = |role: Role| table.count(|other, _| other == role);
        let mut roles: Vec<Role> = Role::ALL.into_iter().filter(|role| count(*role) > 0).collect();
        roles.sort_by_key(|role| (*role != Role::Workload, std::cmp::Reverse(count(*role))));
        roles.truncate(MAX_ROLES);
        table.roles = roles;
        table
    }

    fn count(&self, is_wanted: impl Fn(Role, Subsystem) -> bool) -> u64 {
        let samples = self.stacks.samples.iter();
        samples.filter(|((role, subsystem), _)| is_wanted(*role, *subsystem)).map(|(_, count)| count).sum()
    }

    fn head(&self) -> String {
        let roles = self.roles.iter().map(|role| role.name());
        line("", ["time", "self", "inclusive"].into_iter().chain(roles).chain(["others"]).map(str::to_owned))
    }

    fn row(&self, label: &str, inclusive: u64, is_wanted: impl Fn(Subsystem) -> bool) -> String {
        let time = |count: u64| if count == 0 { "-".to_owned() } else { self.stacks.time(count).to_string() };
        let whole = self.count(|_, subsystem| is_wanted(subsystem));
        let of_role =
            |role: &Role| time(self.count(|other, subsystem| other == *role && is_wanted(subsystem)));
        let others = self.count(|role, subsystem| !self.roles.contains(&role) && is_wanted(subsystem));
        let cells = [time(whole), share(whole, self.all), share(inclusive, self.all)].into_iter();
        line(label, cells.chain(self.roles.iter().map(of_role)).chain([time(others)]))
    }
}

fn line(label: &str, cells: impl Iterator<Item = String>) -> String {
    let cells: String = cells.map(|cell| format!(" {cell:>9}")).collect();
    format!("  {label:15.15}{cells}")
}

/// The samples as JSON.
pub fn json(stacks: &Stacks) -> Value {
    let samples = stacks.samples.iter().map(|((role, subsystem), count)| {
        json!({ "role": role.name(), "subsystem": subsystem.name(), "samples": count })
    });
    let inclusive =
        stacks.inclusive.iter().map(|(subsystem, count)| (subsystem.name().to_owned(), json!(count)));
    let functions = stacks.functions.iter().map(|(name, count)| (name.clone(), json!(count)));
    json!({
        "period_ns": stacks.period.get(),
        "lost": stacks.lost,
        "inclusive": inclusive.collect::<serde_json::Map<_, _>>(),
        "samples": samples.collect::<Vec<_>>(),
        "functions": functions.collect::<serde_json::Map<_, _>>(),
    })
}
