//! `/proc/stat`, its CPU lines.

use super::{Format, Group, Take, counter, each};
use crate::recorder::Roots;
use crate::texts::Sources;
use domain::Nanos;
use domain::trace::{Series, SeriesUnit};
use parse::proc::{Error, stat};

pub const GROUP: Group = Group { formats: &[&Stat], open };

struct Stat;

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
        let column = |field| counter(format!("{item}.{field}"), SeriesUnit::Ticks, None);
        stat::FIELDS.iter().map(column).collect()
    }

    fn values(&self, _: &str, bytes: &[u8], take: &mut Take<'_>) -> Result<(), Error> {
        for line in stat::cpu_lines(&String::from_utf8_lossy(bytes)) {
            let line = line?;
            each(line.name, line.ticks, take);
        }
        Ok(())
    }

    /// Where the CPU lines end: every other line begins with another letter, and `intr`, which follows them,
    /// is as long as all the rest. Looks at one byte a line.
    fn end(&self, text: &[u8]) -> Option<usize> {
        let mut start = 0;
        while text.get(start)? == &b'c' && text.get(start + 1)? == &b'p' {
            start += text[start..].iter().position(|byte| *byte == b'\n')? + 1;
        }
        Some(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_cpu_lines_are_kept() {
        let text = b"cpu  1 2\ncpu0 1 2\nintr 5 6 7\n";
        assert_eq!(Stat.end(text), Some(18));
        assert_eq!(Stat.end(b"cpu  1 2\ncpu0 1"), None);
    }
}
