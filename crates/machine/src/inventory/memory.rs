//! Memory.

use super::Error;
use super::reader::Reader;
use domain::inventory::Memory;
use parse::kernel::{meminfo, selection};

pub(super) fn take(reader: &Reader) -> Result<Memory, Error> {
    let info = reader.parsed("/proc/meminfo", meminfo::parse)?.unwrap_or_default();
    let huge = reader.text("/sys/kernel/mm/transparent_hugepage/enabled");
    Ok(Memory {
        total: info.total,
        available: info.available,
        swap: info.swap,
        transparent_huge_pages: huge.and_then(|text| selection::parse(&text).chosen),
    })
}
