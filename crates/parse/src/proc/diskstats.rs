//! `/proc/diskstats` (kernel `Documentation/admin-guide/iostats.rst`, `block/genhd.c`).
//!
//! Every layer has its line: disks, partitions, md, device-mapper, loop. Operations and sectors are counted
//! in a `long`, milliseconds in 32 bits: those wrap at [`MILLIS_WRAP_AT`].

use super::Error;

/// The names of the columns that are read, in their order. `in_flight` is a gauge. The columns that follow in
/// newer kernels (merges are skipped too) count discards and flushes.
pub const FIELDS: [&str; 9] = [
    "read_ios",
    "read_sectors",
    "read_ms",
    "write_ios",
    "write_sectors",
    "write_ms",
    "in_flight",
    "io_ms",
    "weighted_ms",
];

/// Milliseconds start again from zero here: `jiffies_to_msecs` gives 32 bits.
pub const MILLIS_WRAP_AT: u64 = 1 << 32;

/// Where the columns of [`FIELDS`] stand after the name.
const COLUMNS: [usize; FIELDS.len()] = [0, 2, 3, 4, 6, 7, 8, 9, 10];

/// One device's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disk<'a> {
    /// `vda`, `md127`, `dm-0`.
    pub name: &'a str,
    /// In the order of [`FIELDS`]: operations, sectors of 512 B, milliseconds.
    pub values: [u64; FIELDS.len()],
}

/// The devices, in the file's order.
///
/// The items are errors where a line has too few columns (partitions before Linux 2.6.25 had four) or one
/// that is not a number.
pub fn disks(text: &str) -> impl Iterator<Item = Result<Disk<'_>, Error>> {
    text.lines().enumerate().filter(|(_, line)| !line.is_empty()).map(|(index, line)| {
        disk(line).ok_or_else(|| Error::new("/proc/diskstats", index + 1, "a device's counters", line))
    })
}

fn disk(line: &str) -> Option<Disk<'_>> {
    let mut words = line.split_ascii_whitespace().skip(2);
    let name = words.next()?;
    let mut values = [0; FIELDS.len()];
    let mut at = 0;
    for (value, column) in values.iter_mut().zip(COLUMNS) {
        *value = words.nth(column - at)?.parse().ok()?;
        at = column + 1;
    }
    Some(Disk { name, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_columns_of_every_layer_are_read() {
        let text = include_str!("../../fixtures/proc/vm-2cpu.diskstats");
        let all: Vec<_> = disks(text).map(|d| d.unwrap()).collect();
        assert_eq!(all.len(), 10);
        let vda = all.iter().find(|d| d.name == "vda").unwrap();
        assert_eq!(vda.values, [56196, 5_594_602, 18870, 26906, 3_307_856, 5344, 0, 9948, 25094]);
    }

    #[test]
    fn a_line_that_is_cut_is_an_error_with_its_number() {
        let error =
            disks(" 8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n 8 1 sda1 1 2 3 4\n").nth(1).unwrap().unwrap_err();
        assert_eq!(error.line, 2);
    }
}
