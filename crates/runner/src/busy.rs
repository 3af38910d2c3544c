//! How busy a machine is before anything is measured on it, and by what: `/proc` for a second, in one
//! sentence.
//!
//! An idle machine is told by a fifth of a second, and is not waited for any longer. Nothing is judged here:
//! a trial is, by [`crate::guards`].

use crate::guards::other_bound;
use crate::settle::LOOK;
use crate::snapshot::{clock, cpu_totals};
use domain::inert::one_line;
use domain::order;
use domain::time::Nanos;
use machine::Machine;
use parse::proc::{diskstats, pid_stat, pressure, stat};
use rustix::time::ClockId;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// For how long a machine is looked at that has other work.
const SECOND: Duration = Duration::from_secs(1);

/// From this share of the time on a disk, or waiting for I/O, is worth a word.
const MIN_SHARE: f64 = 0.2;

/// How many processes and disks are named.
const MAX_NAMED: usize = 3;

/// A process with less of one CPU is not worth a word.
const MIN_PROCESS: f64 = 0.05;

/// A tick of `/proc`: `USER_HZ` is 100 on every machine that Flyball runs on.
pub(crate) const TICK: Nanos = Nanos::from_millis(10);

/// Where `io_ms` is in [`diskstats::FIELDS`].
const IO_MS: usize = 7;

/// What is read at one moment.
#[derive(Clone, Debug, Default)]
struct Moment {
    at: Nanos,
    cpus: u32,
    /// CPU time of all threads and interrupts; `None` where it cannot be read.
    used: Option<Nanos>,
    steal: Nanos,
    /// Name and ticks of each process, by its id.
    processes: BTreeMap<u32, (String, u64)>,
    /// For how long some task waited for I/O; `None` where the kernel does not count it.
    waited: Option<Nanos>,
    /// For how long each whole device had a request, in milliseconds.
    disks: BTreeMap<String, u64>,
}

/// Looks at the machine; the sentence where it is busy. Takes a fifth of a second, a second where it is.
pub fn look(machine: &dyn Machine) -> Option<String> {
    let first = read(machine);
    std::thread::sleep(LOOK);
    sentence(&first, &read(machine))?;
    std::thread::sleep(SECOND.saturating_sub(LOOK));
    sentence(&first, &read(machine))
}

fn read(machine: &dyn Machine) -> Moment {
    let text = machine.text("/proc/stat").unwrap_or_default();
    let totals = cpu_totals(&text);
    let waited = machine.text("/proc/pressure/io").and_then(|text| pressure::pressure(&text).ok()?.some_us);
    Moment {
        at: clock(ClockId::Monotonic),
        cpus: stat::cpu_lines(&text).flatten().skip(1).count() as u32,
        used: totals.map(|totals| totals.threads + totals.interrupts),
        steal: totals.map_or(Nanos::ZERO, |totals| totals.steal),
        processes: processes(machine),
        waited: waited.map(|us| Nanos::new(us.saturating_mul(1000))),
        disks: disks(machine),
    }
}

fn processes(machine: &dyn Machine) -> BTreeMap<u32, (String, u64)> {
    let own = std::process::id();
    let names = machine.list(Path::new("/proc")).unwrap_or_default();
    let ids = names.iter().filter_map(|name| name.parse::<u32>().ok()).filter(|id| *id != own);
    let process = |id: u32| {
        let text = machine.text(&format!("/proc/{id}/stat"))?;
        let stat = pid_stat::pid_stat(&text).ok()?;
        Some((id, (stat.name.to_owned(), stat.user_ticks.saturating_add(stat.system_ticks))))
    };
    ids.filter_map(process).collect()
}

fn disks(machine: &dyn Machine) -> BTreeMap<String, u64> {
    let whole = machine.list(Path::new("/sys/block")).unwrap_or_default();
    let text = machine.text("/proc/diskstats").unwrap_or_default();
    let all = diskstats::disks(&text).flatten();
    let whole = all.filter(|disk| whole.iter().any(|name| name == disk.name));
    whole.map(|disk| (disk.name.to_owned(), disk.values[IO_MS])).collect()
}

/// `1.62 of 2 CPUs in use (rustc 97%, cargo 40% of one), vda busy 43%, …`; `None` where nothing of it is
/// beyond what an idle server does.
fn sentence(before: &Moment, after: &Moment) -> Option<String> {
    let span = after.at.saturating_sub(before.at).max(Nanos::new(1)).secs();
    let share = |time: Nanos| time.secs() / span;
    let used = after.used.zip(before.used).map(|(after, before)| share(after.saturating_sub(before)));
    let used = used.filter(|cpus| *cpus > other_bound(after.cpus));
    let steal = share(after.steal.saturating_sub(before.steal)) / f64::from(after.cpus.max(1));
    let waited = after.waited.zip(before.waited).map(|(after, before)| share(after.saturating_sub(before)));
    let parts = [
        used.map(|cpus| format!("{cpus:.1} of {} CPUs in use{}", after.cpus, by_whom(before, after, span))),
        (steal > MIN_SHARE).then(|| format!("other guests took {} of the CPU time", percent(steal))),
        busy_disks(before, after, span),
        waited
            .filter(|waited| *waited > MIN_SHARE)
            .map(|waited| format!("tasks waited for I/O {} of the time", percent(waited))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The processes that used most CPU time.
fn by_whom(before: &Moment, after: &Moment, span: f64) -> String {
    let grown = after.processes.iter().map(|(id, (name, ticks))| {
        let earlier = before.processes.get(id).map_or(0, |(_, ticks)| *ticks);
        (name, TICK.secs() * ticks.saturating_sub(earlier) as f64 / span)
    });
    let mut grown: Vec<(&String, f64)> = grown.filter(|(_, share)| *share >= MIN_PROCESS).collect();
    order::by(&mut grown, |a, b| b.1.total_cmp(&a.1));
    let named: Vec<String> = grown
        .iter()
        .take(MAX_NAMED)
        .map(|(name, share)| format!("{} {}", one_line(name), percent(*share)))
        .collect();
    if named.is_empty() { String::new() } else { format!(" ({} of one CPU)", named.join(", ")) }
}

fn busy_disks(before: &Moment, after: &Moment, span: f64) -> Option<String> {
    let grown = after.disks.iter().filter_map(|(name, ms)| {
        let busy = Nanos::from_millis(ms.saturating_sub(*before.disks.get(name)?)).secs() / span;
        (busy > MIN_SHARE).then_some((name, busy.min(1.0)))
    });
    let mut grown: Vec<(&String, f64)> = grown.collect();
    order::by(&mut grown, |a, b| b.1.total_cmp(&a.1));
    let named = grown
        .iter()
        .take(MAX_NAMED)
        .map(|(name, busy)| format!("{} busy {}", one_line(name), percent(*busy)));
    let named: Vec<String> = named.collect();
    (!named.is_empty()).then(|| named.join(", "))
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment() -> Moment {
        Moment {
            at: Nanos::from_secs(100),
            cpus: 2,
            used: Some(Nanos::from_secs(50)),
            steal: Nanos::ZERO,
            processes: [(7, ("postgres".to_owned(), 1000)), (9, ("cron".to_owned(), 10))].into(),
            waited: Some(Nanos::ZERO),
            disks: [("vda".to_owned(), 5000)].into(),
        }
    }

    fn later(change: impl FnOnce(&mut Moment)) -> Option<String> {
        let mut after = moment();
        after.at = after.at + Nanos::from_secs(1);
        change(&mut after);
        sentence(&moment(), &after)
    }

    #[test]
    fn an_idle_machine_is_no_sentence() {
        assert_eq!(later(|after| after.used = Some(Nanos::from_millis(50_100))), None);
        assert_eq!(later(|after| after.used = None), None);
    }

    #[test]
    fn a_busy_one_says_by_what() {
        let said = later(|after| {
            after.used = Some(Nanos::from_millis(51_620));
            after.processes.insert(7, ("postgres".to_owned(), 1097));
            after.processes.insert(11, ("a\\x1b[2J".to_owned(), 40));
            after.disks.insert("vda".to_owned(), 5430);
            after.waited = Some(Nanos::from_millis(310));
        });
        let expected = "1.6 of 2 CPUs in use (postgres 97%, a\\x1b[2J 40% of one CPU), vda busy 43%, tasks waited for \
                        I/O 31% of the time";
        assert_eq!(said.as_deref(), Some(expected));
    }

    #[test]
    fn this_machine_is_read() {
        let now = read(&machine::LocalMachine);
        assert!(now.cpus > 0 && !now.processes.is_empty());
    }
}
