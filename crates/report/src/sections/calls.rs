//! How long system calls took, what their threads did meanwhile, and what filesystems made of them.

use super::{heading, paragraph, table};
use crate::Report;
use crate::document::{Block, Table};
use crate::wording::{cell_label, percent};
use analysis::facts::cell_events;
use domain::calls::{Call, Called, Calls};
use domain::order;
use domain::passage::Bios;
use domain::request::Op;
use domain::spent::{Spent, Wait};
use domain::time::Nanos;
use domain::trace::Role;
use domain::units::{Bytes, Unit};
use std::collections::BTreeMap;

/// Calls of one cell: those that took most time.
const MAX_CALLS: usize = 8;

/// Devices of one cell, each with who queued bios to it: those with most bytes.
const MAX_QUEUED: usize = 8;

/// A table: its title and note, its columns behind that of the cell, those of them that are text, and its
/// rows of calls that were recorded for so long.
pub(crate) struct CallsTable {
    /// What stands above it.
    pub(crate) title: &'static str,
    /// What its figures are.
    pub(crate) note: &'static str,
    head: &'static [&'static str],
    texts: usize,
    rows: fn(&Calls, Nanos) -> Vec<Vec<String>>,
}

/// How long calls took.
pub(crate) const TOOK: CallsTable = CallsTable {
    title: "How long system calls took",
    note: "Calls of the workload that read, write and sync, and where there is no workload of everybody. The mean, which is the sum of what stands behind 99% in: on a CPU; ready for one; waiting for a device; for the filesystem's journal; and for anything else (another thread, a lock, a timer). Reads and writes are those of pipes and sockets too; pread64 and pwrite64 are of files alone.",
    head: &["call", "mean", "99% in", "CPU", "ready", "I/O", "journal", "other"],
    texts: 1,
    rows: took,
};

/// Where the time of those went that queued bios.
pub(crate) const WAY: CallsTable = CallsTable {
    title: "Where calls spent their time around devices",
    note: "Cached: the share of calls whose thread queued no bio; the page cache served them, or other threads did the work. Behind that means of the others. Before: until the first bio was queued, which is the filesystem's own work. Below: while any of its bios was on its way. Between: from one of them to the next. After: from the end of the last to its own; of a sync that is the journal.",
    head: &["call", "a second", "cached", "before", "below", "between", "after", "followed"],
    texts: 1,
    rows: way,
};

/// What came of calls.
pub(crate) const MADE: CallsTable = CallsTable {
    title: "What filesystems made of calls",
    note: "Bytes that calls moved, and below them the bios that were queued to each device and are not what md or dm passed on, by whose thread queued them. Times: bytes of bios for each byte that calls moved. Pages of programs and mapped files are read by faults, which are no calls.",
    head: &["device", "for", "reads", "read", "times", "writes", "written", "times"],
    texts: 2,
    rows: made,
};

/// All of them, in the order in which they are shown.
pub(crate) const ALL: [CallsTable; 3] = [TOOK, WAY, MADE];

impl CallsTable {
    /// Of each cell; `None` where it has no row.
    pub(crate) fn of_cells(&self, report: &Report) -> Option<Table> {
        let of_cell = |cell: &analysis::summary::CellSummary| {
            let (calls, time) = cell_events::calls(report.data, &cell.cell)?;
            let label = cell_label(report, cell);
            let rows = (self.rows)(&calls, time).into_iter();
            Some(rows.map(|row| [vec![label.clone()], row].concat()).collect::<Vec<_>>())
        };
        let rows: Vec<Vec<String>> = report.summary.cells.iter().filter_map(of_cell).flatten().collect();
        let head = [&["cell"], self.head].concat();
        let numbers: Vec<usize> = (1 + self.texts..head.len()).collect();
        (!rows.is_empty()).then(|| table(&head, &numbers, rows))
    }

    /// Of calls that were recorded for so long.
    pub(crate) fn of(&self, calls: &Calls, time: Nanos) -> Option<Table> {
        let rows = (self.rows)(calls, time);
        let numbers: Vec<usize> = (self.texts..self.head.len()).collect();
        (!rows.is_empty()).then(|| table(self.head, &numbers, rows))
    }
}

/// The tables of cells with their titles.
pub(super) fn calls(report: &Report) -> Vec<Block> {
    let titled =
        |of: CallsTable| Some([heading(of.title), Block::Table(of.of_cells(report)?), paragraph(of.note)]);
    ALL.into_iter().filter_map(titled).flatten().collect()
}

/// The tables of one trial or recording with their titles.
pub(crate) fn calls_of(calls: &Calls, time: Nanos) -> Vec<(&'static str, Vec<Block>)> {
    let titled =
        |of: CallsTable| Some((of.title, vec![Block::Table(of.of(calls, time)?), paragraph(of.note)]));
    ALL.into_iter().filter_map(titled).collect()
}

/// Those that took most time, of the same roles that bios are held against.
fn longest(calls: &Calls) -> Vec<(String, &Called)> {
    let mut all: Vec<(Role, Call, &Called)> = calls.askers().collect();
    order::by_key(&mut all, |(_, _, of)| std::cmp::Reverse((of.took.sum, of.count)));
    all.truncate(MAX_CALLS);
    let named = |(role, call, of): (Role, Call, _)| match role {
        Role::Workload => (call.name().to_owned(), of),
        _ => (format!("{} ({role})", call.name()), of),
    };
    all.into_iter().map(named).collect()
}

fn took(calls: &Calls, _: Nanos) -> Vec<Vec<String>> {
    let row = |(name, of): (String, &Called)| {
        let of_parts = |spent: &Spent| {
            [
                Nanos::new(spent.cpu_ns),
                Nanos::new(spent.ready_ns),
                spent.waited(Wait::Io),
                of.waited_for(Role::Journal),
                of.waited_otherwise(),
            ]
        };
        let whole = [of.took.mean(), of.took.quantile(0.99)].map(shown);
        let parts = of.parts().map_or([None; 5], |spent| of_parts(spent).map(|sum| of.mean(sum)));
        let parts = parts.map(shown);
        [name].into_iter().chain(whole).chain(parts).collect()
    };
    longest(calls).into_iter().map(row).collect()
}

fn way(calls: &Calls, time: Nanos) -> Vec<Vec<String>> {
    let row = |(name, of): (String, &Called)| {
        let with = &of.with_bios;
        let rate = Unit::PerSecond.show(of.count as f64 / time.secs());
        let cached = of.share_without_bios().filter(|_| calls.queued.is_some());
        let means = with.means().map_or([None; 4], |means| means.map(Some));
        let names = [name, rate, percent(cached)];
        let times = means.into_iter().map(shown).chain([percent(with.share_followed())]);
        names.into_iter().chain(times).collect()
    };
    longest(calls).into_iter().map(row).collect()
}

fn made(calls: &Calls, time: Nanos) -> Vec<Vec<String>> {
    let Some(queued) = calls.queued.as_ref().filter(|queued| !queued.is_empty()) else { return Vec::new() };
    let mut by_role: BTreeMap<(&str, Role), [Bios; 2]> = BTreeMap::new();
    for ((device, role, op), bios) in queued {
        let [reads, writes] = by_role.entry((device, *role)).or_default();
        match op {
            Op::Read => reads.add(*bios),
            _ => writes.add(*bios),
        }
    }
    let mut by_role: Vec<_> = by_role.into_iter().collect();
    order::by_key(&mut by_role, |(_, [reads, writes])| std::cmp::Reverse(reads.sectors + writes.sectors));
    by_role.truncate(MAX_QUEUED);
    order::by_key(&mut by_role, |((device, _), _)| *device);
    let figures = |count: u64, bytes: Bytes, times: Option<f64>| {
        let [count, bytes] = [count, bytes.get()].map(|all| all as f64 / time.secs());
        [Unit::PerSecond.show(count), Unit::BytesPerSecond.show(bytes), ratio(times)]
    };
    let asked = [Op::Read, Op::Write].map(|op| {
        let (count, bytes) = calls.asked(op);
        figures(count, bytes, (bytes.get() > 0).then_some(1.0))
    });
    let has_workload = calls.askers().any(|(role, ..)| role == Role::Workload);
    let askers = if has_workload { Role::Workload.name() } else { "everybody" };
    let first = ["calls".to_owned(), askers.to_owned()].into_iter().chain(asked.into_iter().flatten());
    let row = |((device, role), [reads, writes]): ((&str, Role), [Bios; 2])| {
        let of = |op, bios: Bios| {
            figures(bios.count, Bytes::from_sectors(bios.sectors), times(calls, role, op, bios))
        };
        let names = [device.to_owned(), role.name().to_owned()];
        names.into_iter().chain(of(Op::Read, reads)).chain(of(Op::Write, writes)).collect()
    };
    [first.collect()].into_iter().chain(by_role.into_iter().map(row)).collect()
}

/// How many bytes of bios that threads of a role queued there are for each byte that calls moved. Programs
/// that are not among those that called queued theirs for calls of their own.
pub(crate) fn times(calls: &Calls, role: Role, op: Op, bios: Bios) -> Option<f64> {
    let is_programs = matches!(role, Role::Workload | Role::Flyball | Role::Other | Role::Beside);
    let is_asker = calls.askers().any(|(asker, ..)| asker == role);
    calls.amplification(op, bios).filter(|_| is_asker || !is_programs)
}

fn shown(time: Option<Nanos>) -> String {
    time.map_or_else(|| "–".to_owned(), |time| Unit::Seconds.show(time.secs()))
}

fn ratio(times: Option<f64>) -> String {
    times.map_or_else(|| "–".to_owned(), |times| format!("{times:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_nobody_saw_who_ran_nothing_is_said_of_what_threads_did() {
        let row = |cpu_ns| {
            let mut of = Called { count: 1, ..Called::default() };
            of.took.add(1000);
            (of.spent.cpu_ns, of.spent.wait_ns[Wait::Unknown as usize]) = (cpu_ns, 1000 - cpu_ns);
            let calls = Calls { of: [((Role::Workload, Call::Read), of)].into(), queued: None };
            took(&calls, Nanos::from_secs(1)).remove(0)[3..].join(" ")
        };
        assert_eq!(row(0), "– – – – –");
        assert_eq!(row(400), "400 ns 0 ns 0 ns 0 ns 600 ns");
    }
}
