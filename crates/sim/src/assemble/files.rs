//! The page cache and filesystems of a simulated machine.

use super::{BlockSettings, SimRequest};
use crate::cpu::Cost;
use crate::engine::PartId;
use crate::fs::{FsCosts, FsSpec, JournalCosts};
use crate::machine::Costs;
use crate::page_cache::{CacheCosts, FileSpec, MemorySpec};
use domain::bench::BenchError;
use domain::stack::Filesystem;
use domain::units::Bytes;
use governors::KernelVersion;

/// The part of memory that pages of one file may take: what the kernel and programs need is left out.
const FOR_PAGES: f64 = 0.75;
/// Before 2.6, dirty buffers are written by so many at a time (`fs/buffer.c: NRSYNC`), from 40% of memory on,
/// and whoever writes waits from 60% on (`bdf_prm`).
const SINCE_2_6: KernelVersion = KernelVersion::new(2, 6, 0);
const BUFFERS: u64 = 32;
const OLD_BACKGROUND: u64 = 40;
const OLD_LIMIT: u64 = 60;
/// The largest journal that mke2fs made by itself then. Assumed.
const OLD_JOURNAL: u64 = 32 << 20;

/// A file's pages, of so much that is there before.
pub(super) fn pages(
    order: &SimRequest<'_>,
    settings: &BlockSettings,
    name: &str,
    size: u64,
    read_ahead: u64,
) -> FileSpec {
    let machine = order.machine;
    let memory = Bytes::new((machine.memory.get() as f64 * FOR_PAGES) as u64);
    let kernel = (machine.kernel.major, machine.kernel.minor);
    let mut spec = FileSpec::new(name, Bytes::new(size), memory, kernel);
    spec.read_ahead = Bytes::new(settings.read_ahead.unwrap_or(read_ahead));
    if let Some(most) = settings.most_bytes {
        spec.most_request = Bytes::new(most);
    }
    if machine.kernel < SINCE_2_6 {
        spec.flush_pages = Some(BUFFERS);
        spec.memory = MemorySpec {
            background_bytes: spec.memory.bytes / 100 * OLD_BACKGROUND,
            dirty_bytes: spec.memory.bytes / 100 * OLD_LIMIT,
            ..spec.memory
        };
    }
    spec.memory = dirty(settings, spec.memory);
    spec.costs = cache_costs(&machine.costs);
    spec
}

fn dirty(settings: &BlockSettings, memory: MemorySpec) -> MemorySpec {
    let percent = |ratio: Option<u32>, otherwise: u64| {
        ratio.map_or(otherwise, |percent| memory.bytes / 100 * u64::from(percent.min(100)))
    };
    let span = |centisecs: Option<u32>, otherwise: u64| {
        centisecs.map_or(otherwise, |centisecs| u64::from(centisecs) * 10_000_000)
    };
    let [dirty, background] = settings.dirty;
    let [expire, writeback] = settings.centisecs;
    MemorySpec {
        dirty_bytes: percent(dirty, memory.dirty_bytes),
        background_bytes: percent(background, memory.background_bytes),
        expire_ns: span(expire, memory.expire_ns),
        writeback_ns: span(writeback, memory.writeback_ns).max(10_000_000),
        ..memory
    }
}

/// A filesystem on a device of this size.
pub(super) fn filesystem(
    order: &SimRequest<'_>,
    layer: &str,
    options: &Filesystem,
    device: u64,
    journal: Option<PartId>,
) -> Result<FsSpec, BenchError> {
    let mut spec = FsSpec::new(options, device, journal)
        .map_err(|why| BenchError::Unsupported(format!("`stack.{layer}`: {why}")))?;
    if order.machine.kernel < SINCE_2_6 {
        spec.journal_bytes = spec.journal_bytes.min(OLD_JOURNAL);
    }
    spec.costs = fs_costs(&order.machine.costs);
    Ok(spec)
}

/// What the page cache costs on a machine: `copy_byte` and `page` are its own, the rest is assumed alike
/// everywhere.
fn cache_costs(costs: &Costs) -> CacheCosts {
    let usual = CacheCosts::default();
    let scaled = |cost: Cost| costs.scaled(cost);
    CacheCosts {
        request: scaled(usual.request),
        find: scaled(usual.find),
        copy_kib: costs.of_bytes("copy_byte", 1024),
        insert: costs.once("page"),
        evict: scaled(usual.evict),
        dirty: scaled(usual.dirty),
        write: scaled(usual.write),
        bio: scaled(usual.bio),
        end: scaled(usual.end),
        pin: scaled(usual.pin),
        wake: scaled(usual.wake),
    }
}

fn fs_costs(costs: &Costs) -> FsCosts {
    let usual = FsCosts::default();
    let scaled = |cost: Cost| costs.scaled(cost);
    FsCosts {
        allocate: costs.once("allocate"),
        map: scaled(usual.map),
        convert: scaled(usual.convert),
        journal: JournalCosts {
            handle: scaled(usual.journal.handle),
            commit: scaled(usual.journal.commit),
            block: costs.once("journal_block"),
            record: scaled(usual.journal.record),
            checkpoint: scaled(usual.journal.checkpoint),
        },
    }
}
