//! Idle states: `cpuidle/stateN/time` and `usage` of each CPU (kernel
//! `Documentation/admin-guide/pm/cpuidle.rst`).

use super::{Format, Group, Take, counter, is_number};
use crate::recorder::Roots;
use crate::texts::{Sources, every, numbered};
use domain::Nanos;
use domain::trace::{Series, SeriesUnit};
use parse::proc::{Error, number};

pub const GROUP: Group = Group { formats: &[&TIME, &USAGE], open };

/// They are read no more often than this: their files are many, and residencies are looked at over longer
/// spans than frequencies.
const PERIOD: Nanos = Nanos::from_millis(100);

/// One of a state's two files; what is behind its name in a spool are CPU and state.
struct StateFile {
    name: &'static str,
    file: &'static str,
    column: &'static str,
    unit: SeriesUnit,
}

const TIME: StateFile = StateFile { name: "idle-time", file: "time", column: "us", unit: SeriesUnit::Micros };

const USAGE: StateFile =
    StateFile { name: "idle-usage", file: "usage", column: "entries", unit: SeriesUnit::Count };

fn open(sources: &mut Sources, roots: &Roots, interval: Nanos) -> crate::Result<()> {
    let cpus = roots.sys.join("devices/system/cpu");
    let states: Vec<(u32, u32)> = numbered(&cpus, "cpu")
        .into_iter()
        .flat_map(|cpu| {
            let states = numbered(&cpus.join(format!("cpu{cpu}/cpuidle")), "state");
            states.into_iter().map(move |state| (cpu, state))
        })
        .collect();
    if states.is_empty() {
        sources.absent.push("no idle states: no cpuidle driver".to_owned());
    }
    let turn = every(2 * states.len(), interval, PERIOD);
    for (cpu, state) in states {
        let folder = cpus.join(format!("cpu{cpu}/cpuidle/state{state}"));
        for format in [&TIME, &USAGE] {
            let file = format.file;
            if let Err(error) = sources.add(format, format!("{cpu} {state}"), &folder.join(file), turn) {
                sources.absent.push(format!("no cpu{cpu} idle state{state} {file}: {error}"));
            }
        }
    }
    Ok(())
}

impl Format for StateFile {
    fn name(&self) -> &'static str {
        self.name
    }

    fn takes(&self, argument: &str) -> bool {
        argument.split_once(' ').is_some_and(|(cpu, state)| is_number(cpu) && is_number(state))
    }

    fn series(&self, argument: &str, _: &str) -> Vec<Series> {
        let (cpu, state) = argument.split_once(' ').unwrap_or((argument, ""));
        vec![counter(format!("idle.cpu{cpu}.state{state}.{}", self.column), self.unit, None)]
    }

    fn values(&self, _: &str, bytes: &[u8], take: &mut Take<'_>) -> Result<(), Error> {
        take("", 0, number(self.name, &String::from_utf8_lossy(bytes))?);
        Ok(())
    }
}
