//! What block devices did in the trials of a cell, and the arrays that they make up.
//!
//! Sources: `Documentation/admin-guide/iostats.rst`; `Documentation/admin-guide/md.rst`.

use super::case::{Case, CaseCell};
use crate::facts::rates::SECTOR_BYTES;
use crate::stats::quantile::median;
use domain::inventory::{BlockDevice, BlockKind, Crypt, Inventory, Md};
use domain::stack::{Bitmap, MdLevel};
use domain::trace::Role;
use domain::trial::{DiskTotals, Measurement};
use domain::units::Bytes;

/// A thread that is busy for so much of a trial waits for nothing but its CPU.
const NO_TIME_LEFT: f64 = 0.95;

/// Somebody waits for an array that has requests in flight for so much of the time ([`Array::waited_for`]).
/// Its disks may be idle for most of that: where each request waits for the one before, so do they.
pub(crate) const MIN_WAITED: f64 = 0.5;

/// What one device did in the trials of a cell, medians over them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Did {
    /// The share of the load's time in which it had requests in flight.
    pub busy: f64,
    /// Reads a second.
    pub reads: f64,
    /// Writes a second.
    pub writes: f64,
    /// Bytes read a second.
    pub read: f64,
    /// Bytes written a second.
    pub written: f64,
}

impl Did {
    /// Requests a second, both ways.
    pub(crate) fn requests(&self) -> f64 {
        self.reads + self.writes
    }
}

impl CaseCell<'_> {
    /// Whether a thread of the load itself had no time left: what its devices do beside decides nothing then.
    pub(crate) fn is_at_its_limit(&self) -> bool {
        self.busiest_of_load() >= NO_TIME_LEFT
    }

    /// The share of a core that the busiest thread of the load itself used, median; 0 where none was
    /// recorded.
    pub(crate) fn busiest_of_load(&self) -> f64 {
        let busiest = self.median_of(|m| {
            let own = m.threads.iter().filter(|thread| thread.role == Role::Workload);
            Some(own.map(|thread| self.thread_while_loaded(m, thread)).fold(0.0, f64::max) / self.loaded(m)?)
        });
        busiest.unwrap_or(0.0)
    }

    /// CPU time of these roles by the time in which a trial's load ran, median; `None` where no roles were
    /// recorded.
    pub(crate) fn cores(&self, roles: &[Role]) -> Option<f64> {
        self.median_of(|m| {
            let used = roles.iter().map(|role| self.role_while_loaded(m, *role)).sum::<f64>();
            Some(used / self.loaded(m)?).filter(|_| !m.roles.is_empty())
        })
    }

    /// What a device did; `None` where no trial's disks were recorded. Recorded are those that did anything,
    /// so that one which is not among them did nothing.
    pub(crate) fn did(&self, device: &str) -> Option<Did> {
        let of = |figure: fn(&DiskTotals) -> f64| {
            self.median_of(|m| {
                Some(self.a_second(m)? * m.disks.iter().find(|d| d.device == device).map_or(0.0, figure))
            })
        };
        Some(Did {
            busy: of(|d| d.busy.secs())?.min(1.0),
            reads: of(|d| d.read_ios as f64)?,
            writes: of(|d| d.write_ios as f64)?,
            read: of(|d| d.read_sectors as f64 * SECTOR_BYTES)?,
            written: of(|d| d.write_sectors as f64 * SECTOR_BYTES)?,
        })
    }

    /// One by the time in which a trial's load ran, where its disks were recorded.
    fn a_second(&self, measurement: &Measurement) -> Option<f64> {
        Some(1.0 / self.loaded(measurement)?).filter(|_| !measurement.disks.is_empty())
    }
}

/// What an array handles at once: a page of each member (drivers/md/raid5.h, `STRIPE_SIZE`).
pub(crate) const PAGE: f64 = 4096.0;

/// A bound on the layers between a device and its disks.
const MAX_LAYERS: usize = 16;

/// The devices that carry this one and are built on none; empty where it is not known.
pub(crate) fn disks_below<'a>(inventory: &'a Inventory, device: &str) -> Vec<&'a BlockDevice> {
    let mut level: Vec<&BlockDevice> = inventory.device(device).into_iter().collect();
    for _ in 0..MAX_LAYERS {
        let (done, built): (Vec<&BlockDevice>, Vec<&BlockDevice>) =
            level.into_iter().partition(|device| device.built_of.is_empty());
        let below =
            built.iter().flat_map(|device| &device.built_of).filter_map(|name| inventory.device(name));
        level = done.iter().copied().chain(below).collect();
        if built.is_empty() {
            break;
        }
    }
    level
}

/// A device that encrypts, as the machine's inventory has it, and what it did in a cell.
pub(crate) struct Encrypted<'a> {
    pub device: &'a BlockDevice,
    /// The name that cryptsetup knows it by.
    pub name: &'a str,
    pub crypt: &'a Crypt,
    pub disks: Vec<&'a BlockDevice>,
    pub did: Did,
    /// CPU time of encryption's own threads, in cores, median.
    pub cores: f64,
    /// That of all threads but those of loads beside it: where dm-crypt's queues are passed by, whoever asks
    /// encrypts.
    pub all_cores: f64,
}

/// The devices that encrypt and did something in a cell.
pub(crate) fn encrypted<'a>(case: &Case<'a>, cell: &CaseCell<'_>) -> Vec<Encrypted<'a>> {
    let Some(inventory) = case.inventory else { return Vec::new() };
    let of = |device: &'a BlockDevice| {
        let BlockKind::DeviceMapper(mapping) = &device.kind else { return None };
        let did = cell.did(&device.name).filter(|did| did.requests() > 0.0)?;
        Some(Encrypted {
            name: mapping.name.as_deref().unwrap_or("NAME"),
            crypt: mapping.crypt.as_ref()?,
            disks: disks_below(inventory, &device.name),
            cores: cell.cores(&[Role::Crypt])?,
            all_cores: cell.cores(&Role::columns(false).collect::<Vec<Role>>())?,
            device,
            did,
        })
    };
    inventory.devices.iter().filter_map(of).collect()
}

/// An array that a cell may have worked on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Array {
    /// `md127`.
    pub name: String,
    pub level: MdLevel,
    pub chunk: Option<Bytes>,
    pub has_bitmap: Option<bool>,
    /// What a bit of its bitmap stands for.
    pub bitmap_chunk: Option<Bytes>,
    pub stripe_cache_size: Option<u32>,
    /// Copies of each block, of RAID1 and RAID10; `None` where that is not known.
    pub copies: Option<u32>,
    /// How many members are missing.
    pub missing: u32,
    /// The devices that it is made of, and whose data are in step.
    pub members: Vec<String>,
    /// Where that was read.
    pub source: String,
}

impl Array {
    /// What its members did, with their names; `None` where their disks were not recorded.
    pub(crate) fn members_did<'s>(&'s self, cell: &CaseCell<'_>) -> Option<Vec<(&'s str, Did)>> {
        self.members.iter().map(|name| Some((name.as_str(), cell.did(name)?))).collect()
    }

    /// Bytes of data that a stripe cache of this size, in pages a member, holds.
    pub(crate) fn cached(&self, size: u32) -> f64 {
        f64::from(size) * PAGE * self.data_members() as f64
    }

    /// Bytes of data across all members, a chunk of each.
    pub(crate) fn stripe(&self) -> Option<f64> {
        Some(self.chunk?.get() as f64 * self.data_members() as f64)
    }

    /// How many of its members hold data in each stripe.
    pub(crate) fn data_members(&self) -> usize {
        let parities = if self.level == MdLevel::Raid6 { 2 } else { 1 };
        (self.members.len() + self.missing as usize).saturating_sub(parities)
    }

    /// The share of its core that the thread uses which handles its stripes, median over trials.
    pub(crate) fn thread_share(&self, cell: &CaseCell<'_>) -> Option<f64> {
        let name = format!("{}_raid{}", self.name, self.level.name());
        cell.median_of(|m| {
            let used = m.threads.iter().filter(|thread| thread.name == name).map(|thread| thread.cpu.secs());
            Some(used.sum::<f64>() / cell.loaded(m)?)
        })
    }

    /// How busy its members were, mean.
    pub(crate) fn mean_busy(&self, cell: &CaseCell<'_>) -> Option<f64> {
        let members = self.members_did(cell).filter(|all| !all.is_empty())?;
        Some(members.iter().map(|(_, did)| did.busy).sum::<f64>() / members.len() as f64)
    }

    /// Its busiest member, and what that did; `None` where its disks were not recorded or it has none.
    pub(crate) fn busiest<'s>(&'s self, cell: &CaseCell<'_>) -> Option<(&'s str, Did)> {
        self.members_did(cell)?.into_iter().max_by(|(_, a), (_, b)| a.busy.total_cmp(&b.busy))
    }

    /// The share of the time in which somebody waited for it: it had requests in flight, and no thread of
    /// the load was at its core's limit nor at the rate asked for, so that it would have asked for more.
    /// Before Linux 5.14 some arrays do not count that; then it is as busy as its busiest member. `None`
    /// where its disks were not recorded.
    pub(crate) fn waited_for(&self, cell: &CaseCell<'_>) -> Option<f64> {
        let (own, (_, busiest)) = (cell.did(&self.name)?, self.busiest(cell)?);
        let in_flight = if own.busy > 0.0 { own.busy } else { busiest.busy };
        let wants_no_more = cell.is_at_its_limit() || cell.keeps_its_pace();
        Some(if wants_no_more { 0.0 } else { in_flight })
    }

    /// Whether its members' counters have to be its own requests alone: none is missing, and no thread
    /// synchronised it.
    pub(crate) fn is_whole(&self, cell: &CaseCell<'_>) -> bool {
        self.missing == 0 && synchronising(cell, &self.name).is_none()
    }
}

/// How many requests of a device were in flight in the trials of a cell, mean; the median of its traces.
pub(crate) fn in_flight(case: &Case<'_>, cell: &CaseCell<'_>, device: &str) -> Option<f64> {
    let own = case.usages.iter().filter(|(key, _)| key.cell == cell.cell.id);
    let depths = own.filter_map(|(_, usage)| usage.disks.iter().find(|disk| disk.device == device)?.depth);
    median(&depths.collect::<Vec<f64>>())
}

/// The thread that synchronised, rebuilt or checked an array while a cell's trials ran: its name, and its CPU
/// time in seconds, median. The threads are those of trials that count.
pub(crate) fn synchronising(cell: &CaseCell<'_>, array: &str) -> Option<(String, f64)> {
    const KINDS: [&str; 3] = ["_resync", "_recovery", "_reshape"];
    let is_one = |name: &str| {
        let kind = name.strip_prefix(array).filter(|kind| kind.len() >= "_res".len());
        // Older kernels cut names at 15 characters.
        kind.is_some_and(|kind| KINDS.iter().any(|known| known.starts_with(kind)))
    };
    let threads = cell.trials.iter().filter_map(|t| t.measurement.as_ref()).flat_map(|m| &m.threads);
    let name = threads.map(|thread| thread.name.as_str()).find(|name| is_one(name))?.to_owned();
    let cpu_s =
        cell.median_of(|m| Some(m.threads.iter().filter(|t| t.name == name).map(|t| t.cpu.secs()).sum()))?;
    Some((name, cpu_s))
}

/// Whether a disk below is known to rotate. Flash has no heads to move: parts of a request are as good as the
/// whole.
pub(crate) fn rotates(case: &Case<'_>, array: &Array) -> bool {
    let below = |member: &String| case.inventory.map(|inventory| disks_below(inventory, member));
    let mut disks = array.members.iter().filter_map(below).flatten();
    disks.any(|disk| disk.queue.as_ref().and_then(|queue| queue.rotational) == Some(true))
}

/// The arrays of a cell: that which its study builds, and those that the machine had.
pub(crate) fn arrays(case: &Case<'_>, cell: &CaseCell<'_>) -> Vec<Array> {
    let found = of_machine(case, cell);
    // What was read of an array knows more than what its study asked for.
    let built = of_study(cell).filter(|built| found.iter().all(|array| array.name != built.name));
    built.into_iter().chain(found).collect()
}

/// Those that the machine had, as its inventory has them.
pub(crate) fn of_machine(case: &Case<'_>, cell: &CaseCell<'_>) -> Vec<Array> {
    let devices = case.inventory.map_or(&[][..], |inventory| inventory.devices.as_slice());
    let found = devices.iter().filter_map(inspected).filter(|array| {
        // One that did nothing is not what the cell worked on.
        cell.did(&array.name).is_some_and(|did| did.requests() > 0.0)
    });
    found.collect()
}

fn inspected(device: &BlockDevice) -> Option<Array> {
    let BlockKind::Md(md) = &device.kind else { return None };
    let level = level(md.level.as_deref()?)?;
    let in_step = |state: &[String]| state.iter().any(|word| word == "in_sync");
    Some(Array {
        name: device.name.clone(),
        level,
        chunk: md.chunk,
        has_bitmap: md.bitmap.as_ref().map(|place| place != "none"),
        bitmap_chunk: md.bitmap_chunk,
        stripe_cache_size: md.stripe_cache_size,
        copies: copies(level, md),
        missing: md.degraded.unwrap_or(0),
        members: md.members.iter().filter(|m| in_step(&m.state)).map(|m| m.device.clone()).collect(),
        source: format!("/sys/block/{}/md", device.name),
    })
}

fn copies(level: MdLevel, md: &Md) -> Option<u32> {
    match level {
        MdLevel::Raid1 => md.raid_disks,
        // `near=2 far=2` has both, which nobody multiplies here.
        MdLevel::Raid10 => md.layout.as_deref()?.split_once('=')?.1.parse().ok(),
        _ => None,
    }
}

/// A level by the kernel's name: `raid5`.
fn level(name: &str) -> Option<MdLevel> {
    let own = name.strip_prefix("raid").unwrap_or(name);
    MdLevel::ALL.into_iter().find(|level| level.name() == own)
}

/// The array that a study builds, where it builds exactly one: its name and members are those that its trials
/// found below the target, which are named from the top downwards.
fn of_study(cell: &CaseCell<'_>) -> Option<Array> {
    let stack = cell.cell.stack.as_ref()?;
    let mut arrays = stack.layers.iter().filter_map(|layer| Some((layer, layer.array()?)));
    let (layer, md) = arrays.next().filter(|_| arrays.next().is_none())?;
    let below = cell.trials.iter().find_map(|trial| trial.environment.get("devices"))?;
    let mut names = below.split(" > ").skip_while(|name| !name.starts_with("md"));
    let name = names.next()?.to_owned();
    let count = stack.below(layer).saturating_sub(md.missing + md.spares) as usize;
    let members: Vec<String> = names.take(count).map(str::to_owned).collect();
    let copies = match md.level {
        MdLevel::Raid1 => u32::try_from(count).ok(),
        MdLevel::Raid10 => md.layout.as_deref().map_or(Some(2), |layout| layout.get(1..)?.parse().ok()),
        _ => None,
    };
    // A spare may stand anywhere among them.
    let known = members.len() == count && md.spares == 0 && !layer.resyncs_in_background();
    known.then(|| Array {
        name,
        level: md.level,
        chunk: md.chunk,
        has_bitmap: Some(md.bitmap != Bitmap::None),
        bitmap_chunk: md.bitmap_chunk,
        stripe_cache_size: md.stripe_cache_size,
        copies,
        missing: md.missing,
        members,
        source: "the study's storage".into(),
    })
}
