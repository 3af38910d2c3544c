//! What a disk or a link is: the parameters of its model, as its file gives them.
//!
//! The files are strict: an unknown key, a value without its unit or outside its range is an error that names
//! line and value. `docs/DISK-FORMAT.md` is the reference; each field here says what it does in the model.

use crate::hdd::seek::SeekCurve;
use domain::time::Nanos;
use domain::units::{Bytes, Ratio};
use serde::Deserialize;
use strict_toml::Error;
use strict_toml::quantity::{Rate, Share, Size, Span};

/// A disk's model.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskSpec {
    /// The name of its file.
    pub name: String,
    /// What the disk calls itself (SCSI INQUIRY, ATA IDENTIFY); at most 40 characters.
    pub model: String,
    /// Its size.
    pub capacity: Bytes,
    /// The smallest addressable unit; a power of two from 512 B to 4 KiB.
    pub logical_block: Bytes,
    /// The unit that the medium writes; a power of two, at least the logical block.
    pub physical_block: Bytes,
    /// How it takes commands.
    pub interface: InterfaceSpec,
    /// What is behind the interface.
    pub medium: MediumSpec,
}

impl DiskSpec {
    /// Reads a disk file.
    ///
    /// # Errors
    /// Where the text is not a disk: see [`Error`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let file: DiskFile = strict_toml::read(text)?;
        file.check()
    }

    /// The same disk with another size. Its zones or its flash keep their shares of it.
    ///
    /// # Errors
    /// Where the size is not a positive multiple of the logical block, or larger than the model's own.
    pub fn with_size(mut self, size: Bytes) -> Result<Self, Error> {
        if size > self.capacity {
            return Err(value("size", format!("{size} is more than the model's {}", self.capacity)));
        }
        check_capacity("size", size, self.logical_block)?;
        self.capacity = size;
        Ok(self)
    }

    /// Multiplies all times of a flash disk by this factor: those of the flash, of the controller and of its
    /// transfers. A hard disk stays as it is.
    pub fn slow_flash(&mut self, factor: f64) {
        let MediumSpec::Ssd(ssd) = &mut self.medium else { return };
        let InterfaceSpec { rate, command_time, command_latency, .. } = &mut self.interface;
        for rate in [&mut ssd.channel_rate, rate] {
            *rate = Bytes::new((rate.get() as f64 / factor).round() as u64);
        }
        let flash = [&mut ssd.page_read, &mut ssd.page_program, &mut ssd.block_erase, &mut ssd.flush_time];
        for time in flash.into_iter().chain([command_time, command_latency]) {
            *time = Nanos::new((time.get() as f64 * factor).round() as u64);
        }
    }

    /// As SCSI's block device characteristics tell it (VPD page B1h): revolutions a minute, or 1 for a medium
    /// that does not rotate.
    pub fn rotation_rate(&self) -> u16 {
        match &self.medium {
            MediumSpec::Hdd(hdd) => hdd.rpm,
            MediumSpec::Ssd(_) => 1,
        }
    }

    /// Whether it answers writes before they are on the medium, and takes flushes.
    pub fn has_write_cache(&self) -> bool {
        match &self.medium {
            MediumSpec::Hdd(hdd) => hdd.write_buffer > Bytes::new(0),
            MediumSpec::Ssd(_) => true,
        }
    }
}

/// How a disk takes commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceSpec {
    /// What its port moves in a second, protocol overhead taken off.
    pub rate: Bytes,
    /// How many commands it holds at a time (NCQ: 32; without a queue: 1). It may choose among them.
    pub queue_depth: u32,
    /// What each command costs its controller, during which it begins no other: the bound on its IOPS.
    pub command_time: Nanos,
    /// What each command takes longer still, while others go on.
    pub command_latency: Nanos,
}

/// What is behind the interface.
#[derive(Clone, Debug, PartialEq)]
pub enum MediumSpec {
    /// Rotating platters.
    Hdd(HddSpec),
    /// Flash.
    Ssd(SsdSpec),
}

/// A hard disk's mechanics and its buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct HddSpec {
    /// Revolutions a minute.
    pub rpm: u16,
    /// Surfaces: tracks a cylinder.
    pub heads: u32,
    /// Seek to the next cylinder.
    pub seek_track_to_track: Nanos,
    /// Mean over seeks between random cylinders.
    pub seek_average: Nanos,
    /// Seek over the whole stroke.
    pub seek_full_stroke: Nanos,
    /// The share of the full stroke at which the seek curve goes from a square root (acceleration) to a line
    /// (coast).
    pub seek_short_share: Ratio,
    /// By how much a write settles longer than a read after a seek.
    pub write_settle: Nanos,
    /// Zones from the outer edge to the inner; each is constant in rate.
    pub zones: Vec<ZoneSpec>,
    /// How far the disk reads on after a read; 0 turns reading ahead off.
    pub read_ahead: Bytes,
    /// Segments of the read buffer, each with one sequential stream.
    pub read_segments: u32,
    /// Bytes of writes that it holds; 0 turns the write cache off.
    pub write_buffer: Bytes,
    /// Separate extents of writes that it holds: its destage chooses among them.
    pub write_extents: u32,
    /// How long it is idle before it writes what it holds, while that is less than half of what it can hold.
    pub destage_idle: Nanos,
    /// How long a command waits at most before it is next wherever it lies; until then its positioning time
    /// counts for the less the longer it has waited.
    pub patience: Nanos,
}

/// A zone of a hard disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ZoneSpec {
    /// Its share of the disk's tracks.
    pub share: Ratio,
    /// Sustained rate: head and track switches taken off.
    pub rate: Bytes,
}

/// A flash disk.
#[derive(Clone, Debug, PartialEq)]
pub struct SsdSpec {
    /// Independent buses to the flash.
    pub channels: u32,
    /// Dies on each; one does one thing at a time.
    pub dies_per_channel: u32,
    /// What a die reads or programs at a time (all planes together); a power of two.
    pub page: Bytes,
    /// Pages that are erased together.
    pub pages_per_block: u32,
    /// A page from the cells to the die's register.
    pub page_read: Nanos,
    /// A page from the register to the cells.
    pub page_program: Nanos,
    /// A block's erasure.
    pub block_erase: Nanos,
    /// What a channel moves in a second.
    pub channel_rate: Bytes,
    /// What the map translates; at most a page, a power of two.
    pub map_unit: Bytes,
    /// Bytes of writes held in DRAM until they are programmed.
    pub write_buffer: Bytes,
    /// Flash beyond the capacity, as a share of the capacity.
    pub over_provisioning: Ratio,
    /// What a flush costs beyond programming the buffer: the map's own writes.
    pub flush_time: Nanos,
    /// Whether capacitors program the buffer when the power fails: flushes and forced writes do not wait for
    /// the flash.
    pub power_loss_protection: bool,
    /// What it went through before.
    pub state: SsdState,
}

/// What a flash disk went through before the first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SsdState {
    /// Erased: no garbage is collected until the flash has been written once.
    Fresh,
    /// Filled once, in order: collection begins when the spare blocks are used up.
    Filled,
    /// Filled, then overwritten at random until garbage collection costs what it will cost for ever.
    Steady,
}

/// A link that several disks share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// The name of its file.
    pub name: String,
    /// What it moves in a second, protocol overhead taken off.
    pub rate: Bytes,
    /// What each transfer costs it beyond its bytes (arbitration, set-up).
    pub transfer_time: Nanos,
    /// One command at a time over all disks on it, from its start to its end: an IDE cable with master and
    /// slave.
    pub one_command: bool,
}

impl LinkSpec {
    /// Reads a link file.
    ///
    /// # Errors
    /// Where the text is not a link: see [`Error`].
    pub fn parse(text: &str) -> Result<Self, Error> {
        let file: LinkFile = strict_toml::read(text)?;
        check_version(file.flyball_link)?;
        Ok(Self {
            name: file.name,
            rate: file.rate.0,
            transfer_time: file.transfer_time.0,
            one_command: file.one_command,
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkFile {
    flyball_link: u32,
    name: String,
    rate: Rate,
    transfer_time: Span,
    one_command: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DiskFile {
    flyball_disk: u32,
    name: String,
    model: String,
    capacity: Size,
    logical_block: Size,
    physical_block: Size,
    interface: InterfaceTable,
    hdd: Option<HddTable>,
    ssd: Option<SsdTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct InterfaceTable {
    rate: Rate,
    queue_depth: u32,
    command_time: Span,
    command_latency: Span,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HddTable {
    rpm: u16,
    heads: u32,
    seek_track_to_track: Span,
    seek_average: Span,
    seek_full_stroke: Span,
    seek_short_share: Share,
    write_settle: Span,
    zones: Zones,
    read_ahead: Size,
    read_segments: u32,
    write_buffer: Size,
    write_extents: u32,
    destage_idle: Span,
    patience: Span,
}

/// Either the edges' rates and a count, or a list.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "expected `{ outer = \"111 MB/s\", inner = \"52 MB/s\", count = 16 }`, or a list of \
                               `{ share = \"10%\", rate = \"111 MB/s\" }`"
)]
enum Zones {
    Edges(Edges),
    List(Vec<ZoneTable>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edges {
    outer: Rate,
    inner: Rate,
    count: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ZoneTable {
    share: Share,
    rate: Rate,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SsdTable {
    channels: u32,
    dies_per_channel: u32,
    page: Size,
    pages_per_block: u32,
    page_read: Span,
    page_program: Span,
    block_erase: Span,
    channel_rate: Rate,
    map_unit: Size,
    write_buffer: Size,
    over_provisioning: Share,
    flush_time: Span,
    #[serde(default)]
    power_loss_protection: bool,
    state: SsdState,
}

/// More zones than any disk has.
const MAX_ZONES: u32 = 64;
/// NVMe allows 64 Ki; nothing that asks a modelled disk holds more in flight.
const MAX_QUEUED: u32 = 1024;
/// Enough for any drive; the state of all of them is kept.
const MAX_DIES: u32 = 1024;

impl DiskFile {
    fn check(self) -> Result<DiskSpec, Error> {
        check_version(self.flyball_disk)?;
        let (logical, physical) = (self.logical_block.0, self.physical_block.0);
        check_power("logical_block", logical, 512, 4096)?;
        check_power("physical_block", physical, logical.get(), 65536)?;
        check_capacity("capacity", self.capacity.0, logical)?;
        if self.model.is_empty() || self.model.len() > 40 || !self.model.is_ascii() {
            return Err(value("model", format!("`{}` is not 1 to 40 ASCII characters", self.model)));
        }
        let medium = match (self.hdd, self.ssd) {
            (Some(hdd), None) => MediumSpec::Hdd(hdd.check(self.capacity.0)?),
            (None, Some(ssd)) => MediumSpec::Ssd(ssd.check(self.capacity.0)?),
            _ => return Err(value("hdd", "a disk has either a table `[hdd]` or a table `[ssd]`".to_owned())),
        };
        Ok(DiskSpec {
            name: self.name,
            model: self.model,
            capacity: self.capacity.0,
            logical_block: logical,
            physical_block: physical,
            interface: self.interface.check()?,
            medium,
        })
    }
}

impl InterfaceTable {
    fn check(self) -> Result<InterfaceSpec, Error> {
        check_count("interface.queue_depth", self.queue_depth, 1, MAX_QUEUED)?;
        Ok(InterfaceSpec {
            rate: self.rate.0,
            queue_depth: self.queue_depth,
            command_time: self.command_time.0,
            command_latency: self.command_latency.0,
        })
    }
}

impl HddTable {
    fn check(self, capacity: Bytes) -> Result<HddSpec, Error> {
        check_count("hdd.rpm", u32::from(self.rpm), 1_000, 30_000)?;
        check_count("hdd.heads", self.heads, 1, 64)?;
        check_count("hdd.read_segments", self.read_segments, 1, 256)?;
        check_count("hdd.write_extents", self.write_extents, 1, 4096)?;
        let spec = HddSpec {
            rpm: self.rpm,
            heads: self.heads,
            seek_track_to_track: self.seek_track_to_track.0,
            seek_average: self.seek_average.0,
            seek_full_stroke: self.seek_full_stroke.0,
            seek_short_share: ratio(self.seek_short_share),
            write_settle: self.write_settle.0,
            zones: self.zones.check()?,
            read_ahead: self.read_ahead.0,
            read_segments: self.read_segments,
            write_buffer: self.write_buffer.0,
            write_extents: self.write_extents,
            destage_idle: self.destage_idle.0,
            patience: self.patience.0,
        };
        SeekCurve::through(&spec, capacity).map_err(|message| value("hdd.seek_average", message))?;
        Ok(spec)
    }
}

impl Zones {
    fn check(self) -> Result<Vec<ZoneSpec>, Error> {
        match self {
            Self::Edges(edges) => edges.check(),
            Self::List(zones) => check_list(&zones),
        }
    }
}

impl Edges {
    /// Zones of equally many tracks whose rates fall in a line from the outer edge to the inner: bits lie
    /// equally dense along a track, so a track's rate goes with its radius.
    fn check(self) -> Result<Vec<ZoneSpec>, Error> {
        check_count("hdd.zones.count", self.count, 1, MAX_ZONES)?;
        let (outer, inner) = (self.outer.0.get() as f64, self.inner.0.get() as f64);
        if inner > outer {
            return Err(value("hdd.zones.inner", "the inner rate is above the outer".to_owned()));
        }
        let zone = |index: u32| {
            let middle = (f64::from(index) + 0.5) / f64::from(self.count);
            let rate = Bytes::new((outer + (inner - outer) * middle).round() as u64);
            ZoneSpec { share: ratio(Share(1.0 / f64::from(self.count))), rate }
        };
        Ok((0..self.count).map(zone).collect())
    }
}

fn check_list(zones: &[ZoneTable]) -> Result<Vec<ZoneSpec>, Error> {
    check_count("hdd.zones", zones.len() as u32, 1, MAX_ZONES)?;
    let sum: f64 = zones.iter().map(|zone| zone.share.0).sum();
    if (sum - 1.0).abs() > 1e-6 || zones.iter().any(|zone| zone.share.0 <= 0.0) {
        return Err(value("hdd.zones", format!("the shares sum to {:.4}%, not to 100%", sum * 100.0)));
    }
    Ok(zones.iter().map(|zone| ZoneSpec { share: ratio(zone.share), rate: zone.rate.0 }).collect())
}

impl SsdTable {
    fn check(self, capacity: Bytes) -> Result<SsdSpec, Error> {
        check_count("ssd.channels", self.channels, 1, 64)?;
        check_count("ssd.dies_per_channel", self.dies_per_channel, 1, MAX_DIES / self.channels)?;
        check_count("ssd.pages_per_block", self.pages_per_block, 1, 65536)?;
        check_power("ssd.page", self.page.0, 512, 1 << 20)?;
        check_power("ssd.map_unit", self.map_unit.0, 512, self.page.0.get())?;
        if self.write_buffer.0 < self.page.0 {
            return Err(value("ssd.write_buffer", "is less than a page".to_owned()));
        }
        if capacity.get() < self.page.0.get() * 64 {
            return Err(value("capacity", "is less than 64 pages".to_owned()));
        }
        if !(0.01..=1.0).contains(&self.over_provisioning.0) {
            return Err(value("ssd.over_provisioning", "is not from 1% to 100%".to_owned()));
        }
        Ok(SsdSpec {
            channels: self.channels,
            dies_per_channel: self.dies_per_channel,
            page: self.page.0,
            pages_per_block: self.pages_per_block,
            page_read: self.page_read.0,
            page_program: self.page_program.0,
            block_erase: self.block_erase.0,
            channel_rate: self.channel_rate.0,
            map_unit: self.map_unit.0,
            write_buffer: self.write_buffer.0,
            over_provisioning: ratio(self.over_provisioning),
            flush_time: self.flush_time.0,
            power_loss_protection: self.power_loss_protection,
            state: self.state,
        })
    }
}

fn value(key: &'static str, message: String) -> Error {
    Error::of(key, message)
}

fn ratio(share: Share) -> Ratio {
    Ratio::new(share.0).expect("a share was read as 0 to 1")
}

fn check_version(version: u32) -> Result<(), Error> {
    match version {
        1 => Ok(()),
        other => Err(value("flyball_disk", format!("version {other} is not known here; this is version 1"))),
    }
}

fn check_count(key: &'static str, count: u32, least: u32, most: u32) -> Result<(), Error> {
    if (least..=most).contains(&count) {
        return Ok(());
    }
    Err(value(key, format!("{count} is not from {least} to {most}")))
}

fn check_power(key: &'static str, size: Bytes, least: u64, most: u64) -> Result<(), Error> {
    if size.get().is_power_of_two() && (least..=most).contains(&size.get()) {
        return Ok(());
    }
    Err(value(key, format!("{size} is no power of two from {} to {}", Bytes::new(least), Bytes::new(most))))
}

fn check_capacity(key: &'static str, size: Bytes, block: Bytes) -> Result<(), Error> {
    if size.get() >= 1 << 20 && size.get().is_multiple_of(block.get()) {
        return Ok(());
    }
    Err(value(key, format!("{} B is not at least 1 MiB and a multiple of {block}", size.get())))
}
