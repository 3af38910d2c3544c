//! Which CPUs are online (`/sys/devices/system/cpu/online`; kernel `Documentation/core-api/cpu_hotplug.rst`).
//!
//! Files and counters of one that goes offline vanish, or stand still. So it is told which went when, and
//! which came.

use super::{Format, Group, Take, gauge};
use crate::recorder::Roots;
use crate::texts::{Sources, every};
use domain::Nanos;
use domain::inventory::CpuList;
use domain::trace::{Series, SeriesUnit};
use domain::trial::{CpuChange, MAX_CPU_CHANGES};
use parse::proc::{Error, cpu_list};

pub const GROUP: Group = Group { formats: &[&Online], open };

/// Its name in a spool, by which the changes are found.
pub const NAME: &str = "cpus-online";

struct Online;

/// It is read no more often than this: a CPU takes some milliseconds to go or to come.
const PERIOD: Nanos = Nanos::from_millis(10);

fn open(sources: &mut Sources, roots: &Roots, interval: Nanos) -> crate::Result<()> {
    let path = roots.sys.join("devices/system/cpu/online");
    if let Err(error) = sources.add(&Online, "", &path, every(1, interval, PERIOD)) {
        sources.absent.push(format!("no CPUs that go or come: `{}`: {error}", path.display()));
    }
    Ok(())
}

impl Format for Online {
    fn name(&self) -> &'static str {
        NAME
    }

    fn series(&self, _: &str, _: &str) -> Vec<Series> {
        vec![gauge("system.cpus_online".to_owned(), SeriesUnit::Count)]
    }

    fn values(&self, _: &str, bytes: &[u8], take: &mut Take<'_>) -> Result<(), Error> {
        take("", 0, read(bytes)?.len() as u64);
        Ok(())
    }
}

fn read(bytes: &[u8]) -> Result<CpuList, Error> {
    cpu_list("/sys/devices/system/cpu/online", &String::from_utf8_lossy(bytes))
}

/// The changes from one text to the next.
#[derive(Debug, Default)]
pub struct Changes {
    before: Option<CpuList>,
    list: Vec<CpuChange>,
    more: u64,
}

impl Changes {
    /// The list as it was read at this time.
    ///
    /// # Errors
    /// Where it is no list of CPUs.
    pub fn take(&mut self, at: Nanos, bytes: &[u8]) -> Result<(), Error> {
        let now = read(bytes)?;
        let Some(before) = self.before.replace(now.clone()) else { return Ok(()) };
        let gone = before.iter().filter(|cpu| !now.contains(*cpu)).map(|cpu| (cpu, false));
        let come = now.iter().filter(|cpu| !before.contains(*cpu)).map(|cpu| (cpu, true));
        for (cpu, online) in gone.chain(come) {
            match self.list.len() < MAX_CPU_CHANGES {
                true => self.list.push(CpuChange { at, cpu, online }),
                false => self.more += 1,
            }
        }
        Ok(())
    }

    /// All of them, and what is to be said of those that are not among them.
    pub fn finish(self) -> (Vec<CpuChange>, Option<String>) {
        let more = (self.more > 0).then(|| format!("{} more changes of CPUs that are online", self.more));
        (self.list, more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(lists: &[&str]) -> (Vec<String>, Option<String>) {
        let mut changes = Changes::default();
        for (second, list) in lists.iter().enumerate() {
            changes.take(Nanos::from_secs(second as u64), format!("{list}\n").as_bytes()).unwrap();
        }
        let (list, more) = changes.finish();
        (list.iter().map(CpuChange::in_words).collect(), more)
    }

    #[test]
    fn each_cpu_that_goes_or_comes_is_told_with_its_time() {
        let (told, more) = changes(&["0-3", "0,3", "0,3", "0,2-3", "0-1,3"]);
        let expected = [
            "CPU 1 went offline at 1.00 s",
            "CPU 2 went offline at 1.00 s",
            "CPU 2 came online at 3.00 s",
            "CPU 2 went offline at 4.00 s",
            "CPU 1 came online at 4.00 s",
        ];
        assert_eq!((&told[..], more), (&expected.map(String::from)[..], None));
        assert!(changes(&["0-1023"]).0.is_empty(), "what was online at first did not come");
    }

    #[test]
    fn changes_without_end_are_bounded_and_counted() {
        let lists = ["0-127", "0"].repeat(3);
        let (told, more) = changes(&lists);
        assert_eq!(told.len(), MAX_CPU_CHANGES);
        assert_eq!(more.as_deref(), Some("379 more changes of CPUs that are online"));
    }
}
