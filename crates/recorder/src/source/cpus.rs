//! `/proc/stat`: its CPU lines, and how often any CPU switched to another task (`ctxt`).

use super::{Format, Group, Take, counter, each};
use crate::recorder::Roots;
use crate::texts::Sources;
use domain::Nanos;
use domain::trace::{Series, SeriesUnit};
use parse::proc::{Error, stat};

pub const GROUP: Group = Group { formats: &[&Stat], open };

struct Stat;

/// The item beside the CPUs.
const SWITCHES: &str = "ctxt";

/// How its line is found.
const NAME: &[u8] = b"\nctxt ";

fn open(sources: &mut Sources, roots: &Roots, _: Nanos) -> crate::Result<()> {
    let path = roots.proc.join("stat");
    sources.add(&Stat, "", &path, 1).map_err(|error| crate::Error::NoProc { path, error })
}

impl Format for Stat {
    fn name(&self) -> &'static str {
        "stat"
    }

    fn names_items(&self) -> bool {
        true
    }

    fn series(&self, _: &str, item: &str) -> Vec<Series> {
        if item == SWITCHES {
            return vec![counter("system.context_switches".to_owned(), SeriesUnit::Count, None)];
        }
        let column = |field| counter(format!("{item}.{field}"), SeriesUnit::Ticks, None);
        stat::FIELDS.iter().map(column).collect()
    }

    fn values(&self, _: &str, bytes: &[u8], take: &mut Take<'_>) -> Result<(), Error> {
        let text = String::from_utf8_lossy(bytes);
        for line in stat::cpu_lines(&text) {
            let line = line?;
            each(line.name, line.ticks, take);
        }
        each(SWITCHES, [stat::context_switches(&text)?], take);
        Ok(())
    }

    /// Where the CPU lines end, with the line `ctxt` moved behind them. Between the two is `intr`, which is
    /// as long as all the rest. Looks at one byte a CPU line, and at the few short lines behind `ctxt`.
    fn end(&self, text: &mut [u8]) -> Option<usize> {
        let mut start = 0;
        while text.get(start)? == &b'c' && text.get(start + 1)? == &b'p' {
            start += text[start..].iter().position(|byte| *byte == b'\n')? + 1;
        }
        let Some(line) = text[start..].windows(NAME.len()).rposition(|window| window == NAME) else {
            return Some(start);
        };
        let line = start + line + 1;
        let Some(length) = text[line..].iter().position(|byte| *byte == b'\n') else { return Some(start) };
        text.copy_within(line..=line + length, start);
        Some(start + length + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::values;
    use super::*;

    #[test]
    fn only_the_cpu_lines_and_the_context_switches_are_kept() {
        let kept = |text: &str| {
            let mut text = text.as_bytes().to_vec();
            let end = Stat.end(&mut text)?;
            Some(String::from_utf8_lossy(&text[..end]).into_owned())
        };
        let cpus = "cpu  1 2\ncpu0 1 2\n";
        let rest = "intr 5 6 7\nctxt 890\nbtime 3\nsoftirq 4 5\n";
        assert_eq!(kept(&format!("{cpus}{rest}")), Some(format!("{cpus}ctxt 890\n")));
        assert_eq!(kept(&format!("{cpus}intr 5 6 7\n")).as_deref(), Some(cpus));
        assert_eq!(kept(&format!("{cpus}intr 5 6 7\nctxt 89")).as_deref(), Some(cpus), "cut short");
        assert_eq!(kept("cpu  1 2\ncpu0 1"), None);
    }

    #[test]
    fn context_switches_are_an_item_of_their_own() {
        let text = b"cpu  1 2\nctxt 890\n";
        let (item, field, value) = values(&Stat, "", text).pop().unwrap();
        assert_eq!((item.as_str(), field, value), (SWITCHES, 0, 890));
        // Spools of earlier versions have CPU lines alone.
        assert!(values(&Stat, "", b"cpu  1 2\n").iter().all(|(item, ..)| item == "cpu"));
    }
}
