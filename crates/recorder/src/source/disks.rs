//! `/proc/diskstats`: every block device, layers above disks included.

use super::{Format, Group, Take, counter, each, gauge};
use crate::recorder::Roots;
use crate::texts::Sources;
use domain::Nanos;
use domain::trace::{Series, SeriesUnit};
use parse::proc::{Error, diskstats};

pub const GROUP: Group = Group { formats: &[&Disks], open };

/// Its name in a spool, by which the totals of disks find it.
pub const NAME: &str = "disks";

struct Disks;

fn open(sources: &mut Sources, roots: &Roots, _: Nanos) -> crate::Result<()> {
    sources.add_or_note(&Disks, "", &roots.proc.join("diskstats"), "disks");
    Ok(())
}

impl Format for Disks {
    fn name(&self) -> &'static str {
        NAME
    }

    fn names_items(&self) -> bool {
        true
    }

    fn series(&self, _: &str, device: &str) -> Vec<Series> {
        diskstats::FIELDS.iter().map(|field| column(device, field)).collect()
    }

    fn values(&self, _: &str, bytes: &[u8], take: &mut Take<'_>) -> Result<(), Error> {
        for disk in diskstats::disks(&String::from_utf8_lossy(bytes)) {
            let disk = disk?;
            each(disk.name, disk.values.map(Some), take);
        }
        Ok(())
    }
}

fn column(device: &str, field: &str) -> Series {
    let name = format!("disk.{device}.{field}");
    match field {
        "in_flight" => gauge(name, SeriesUnit::Count),
        _ if field.ends_with("_ms") => counter(name, SeriesUnit::Millis, Some(diskstats::MILLIS_WRAP_AT)),
        _ if field.ends_with("_sectors") => counter(name, SeriesUnit::Sectors, None),
        _ => counter(name, SeriesUnit::Count, None),
    }
}
