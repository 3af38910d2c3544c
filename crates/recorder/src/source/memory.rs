//! `/proc/vmstat`: how much data waits to be written, how much may, and how much was (kernel
//! `mm/vmstat.c`, `mm/page-writeback.c`). Writers are slowed down once the dirty pages come near the
//! threshold.

use super::{Format, Group, Take, counter, gauge};
use crate::recorder::Roots;
use crate::texts::{Sources, every};
use domain::Nanos;
use domain::trace::{Series, SeriesUnit};
use parse::proc::{Error, number};

pub const GROUP: Group = Group { formats: &[&Memory], open };

struct Memory;

/// It is read no more often than this: the kernel brings the counts of its CPUs together once a second or at
/// each reading, and its text has some 170 lines. Write-back wakes up every 5 s.
const PERIOD: Nanos = Nanos::from_millis(100);

/// The lines that become columns, in the order of the file, and what a column is called.
const LINES: [(&str, &str, bool); 6] = [
    ("nr_dirty", "memory.dirty_pages", false),
    ("nr_writeback", "memory.writeback_pages", false),
    ("nr_dirtied", "memory.dirtied_pages", true),
    ("nr_written", "memory.written_pages", true),
    ("nr_dirty_threshold", "memory.dirty_threshold_pages", false),
    ("nr_dirty_background_threshold", "memory.background_threshold_pages", false),
];

fn open(sources: &mut Sources, roots: &Roots, interval: Nanos) -> crate::Result<()> {
    let path = roots.proc.join("vmstat");
    if let Err(error) = sources.add(&Memory, "", &path, every(1, interval, PERIOD)) {
        sources.absent.push(format!("no dirty and written pages: `{}`: {error}", path.display()));
    }
    Ok(())
}

impl Format for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn series(&self, _: &str, _: &str) -> Vec<Series> {
        let column = |(_, name, grows): &(&str, &str, bool)| match grows {
            true => counter((*name).to_owned(), SeriesUnit::Count, None),
            false => gauge((*name).to_owned(), SeriesUnit::Count),
        };
        LINES.iter().map(column).collect()
    }

    fn values(&self, _: &str, bytes: &[u8], take: &mut Take<'_>) -> Result<(), Error> {
        for line in String::from_utf8_lossy(bytes).lines() {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            let field = LINES.iter().position(|(wanted, ..)| *wanted == name);
            if let Some(field) = field {
                take("", field, number("/proc/vmstat", value)?);
            }
        }
        Ok(())
    }

    /// The events that follow the counts of pages change with every fault, and no column is made of them.
    fn end(&self, text: &mut [u8]) -> Option<usize> {
        const FIRST_EVENT: &[u8] = b"\npgpgin ";
        text.windows(FIRST_EVENT.len()).position(|at| at == FIRST_EVENT).map(|at| at + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::values;
    use super::*;

    const TEXT: &[u8] = b"nr_free_pages 5\nnr_dirty 70\nnr_writeback 3\nnr_dirtied 900\nnr_written 800\n\
        nr_dirty_threshold 300\nnr_dirty_background_threshold 150\npgpgin 7\npgpgout 8\n";

    #[test]
    fn pages_are_read_by_their_names() {
        let read: Vec<u64> = values(&Memory, "", TEXT).into_iter().map(|(.., value)| value).collect();
        assert_eq!(read, [70, 3, 900, 800, 300, 150]);
        assert_eq!(Memory.series("", "").len(), read.len());
    }

    #[test]
    fn what_an_older_kernel_lacks_has_no_value() {
        assert_eq!(
            values(&Memory, "", b"nr_dirty 1\nnr_written 2\n"),
            [("".into(), 0, 1), ("".into(), 3, 2)]
        );
    }

    #[test]
    fn events_are_not_kept() {
        let end = Memory.end(&mut TEXT.to_vec()).unwrap();
        assert!(TEXT[..end].ends_with(b"nr_dirty_background_threshold 150\n"));
        assert_eq!(Memory.end(&mut b"nr_dirty 1\n".to_vec()), None);
    }

    #[test]
    fn a_line_without_a_number_is_an_error() {
        assert!(Memory.values("", b"nr_dirty x\n", &mut |_, _, _| {}).is_err());
    }
}
