//! A cell's storage, from disks up.

use super::{BlockSettings, Caching, SimRequest, files, found};
use crate::block::DeviceStats;
use crate::block::null_blk::{Memory, MemorySpec};
use crate::block::{Disk, QueueSpec};
use crate::dm::crypt::{self, AesInstructions, CryptCosts, CryptSpec, Limits, WorkQueue};
use crate::engine::PartId;
use crate::engine::World;
use crate::machine::DiskEntry;
use crate::md::geometry::chunk_of;
use crate::md::{
    ArraySpec, BitmapSpec, Content, Geometry, MdCosts, Member, Mirror, Parity, ParitySpec, Repair,
    ResyncSpec, Striped, logical_volume,
};
use crate::page_cache::File;
use disks::spec::{MediumSpec, SsdState};
use domain::bench::BenchError;
use domain::inventory::{BlockDevice, Mount};
use domain::lab::Dilation;
use domain::stack::{
    Bitmap, Crypt, Devices, Features, Filesystem, FilesystemKind, Journal, Layer, Lvm, Md, MdLevel,
    Part as Kind, Resync, SAFE_MODE_DELAY, Stack, VirtualDevice,
};
use domain::study::Target;
use domain::time::Nanos;
use domain::units::Bytes;
use governors::KernelVersion;
use std::collections::BTreeMap;
use workloads::{Needs, OwnFiles};

/// What a load works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadTarget {
    /// The part that takes its requests.
    pub part: PartId,
    /// How large what it works on is, in bytes.
    pub size: u64,
    /// What it is.
    pub kind: TargetKind,
}

/// What a load's target is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetKind {
    /// A block device, past the page cache.
    Device,
    /// A block device whose pages are cached unless a load asks past them.
    CachedDevice,
    /// A file on a filesystem, whose pages are cached likewise.
    File,
}

impl LoadTarget {
    /// A machine without storage.
    pub(crate) const NONE: Self = Self { part: PartId::NOBODY, size: 0, kind: TargetKind::Device };
}

/// A block device of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) part: PartId,
    /// Its number among those of the trace ([`crate::engine::Core::devices`]).
    device: usize,
    pub(super) size: u64,
    /// Whether a disk below rotates.
    pub(super) rotates: bool,
    /// How far it is read ahead, in bytes, where no setting says it.
    pub(super) read_ahead: u64,
}

/// `read_ahead_kb` of a device that knows no better size (`VM_READAHEAD_PAGES`).
const READ_AHEAD: u64 = 128 << 10;

/// From here on arrays mark their superblocks (Documentation/admin-guide/md.rst, "safe_mode"): of the first
/// kernel of 2.6.
const MARKS_CLEAN: KernelVersion = KernelVersion::new(2, 6, 0);

/// What layers have been built, and what the machine has left.
struct Builder<'o> {
    order: &'o SimRequest<'o>,
    settings: &'o BlockSettings,
    world: World,
    layers: BTreeMap<String, Vec<Block>>,
    /// Links of the bank by their name.
    links: BTreeMap<String, usize>,
    free: Vec<DiskEntry>,
    disks: usize,
    numbers: BTreeMap<&'static str, usize>,
    found: Vec<BlockDevice>,
    mounts: Vec<Mount>,
}

/// A machine with its storage.
pub(super) struct Built {
    pub(super) world: World,
    pub(super) target: LoadTarget,
    /// The block devices as an inventory has them, in the order in which they were made.
    pub(super) devices: Vec<BlockDevice>,
    pub(super) mounts: Vec<Mount>,
    /// The device below the load's target, by its name.
    pub(super) device: Option<String>,
}

/// Builds a cell's storage.
pub(super) fn build(
    order: &SimRequest<'_>,
    world: World,
    settings: &BlockSettings,
    caching: Caching,
) -> Result<Built, BenchError> {
    let mut builder = Builder {
        order,
        settings,
        world,
        layers: BTreeMap::new(),
        links: BTreeMap::new(),
        free: disks_of(order)?,
        disks: 0,
        numbers: BTreeMap::new(),
        found: Vec::new(),
        mounts: Vec::new(),
    };
    let top = match &order.cell.stack {
        Some(stack) => builder.stack(stack)?,
        // A database that fits into memory needs none, unless it writes.
        None if asks_a_server(order) && builder.free.is_empty() => {
            return Ok(builder.built(LoadTarget::NONE, None));
        }
        None => builder.take("the target", 1, &[])?[0],
    };
    builder.has_what_is_set()?;
    let target = builder.target(top, caching)?;
    Ok(builder.built(target, Some(top)))
}

fn asks_a_server(order: &SimRequest<'_>) -> bool {
    workloads::of(&order.cell.workload.tool).needs() == Needs::Server
}

/// The machine's own disks, or where it has none those of the study's lab machine: one entry a disk.
fn disks_of(order: &SimRequest<'_>) -> Result<Vec<DiskEntry>, BenchError> {
    let mut all = Vec::new();
    for entry in &order.machine.disks {
        for number in 0..entry.count {
            let name = if entry.count == 1 { entry.name.clone() } else { format!("{}{number}", entry.name) };
            all.push(DiskEntry { name, count: 1, ..entry.clone() });
        }
    }
    if all.is_empty() {
        let link = |name: &String| {
            let links = &order.study.lab.links;
            links.iter().find(|link| link.name == *name).map(|link| link.model.clone())
        };
        all.extend(order.study.lab.disks.iter().map(|disk| DiskEntry {
            name: disk.name.clone(),
            model: disk.model.clone(),
            count: 1,
            size: disk.size,
            link: disk.link.as_ref().and_then(link),
            delay: delay(&order.study.lab.dilation),
            ..DiskEntry::of_lab()
        }));
    }
    Ok(all)
}

/// An array's members, how many of them are there, and what it does by itself beside the workload: a member
/// that is missing is rebuilt on the first spare, in a new RAID4 or 5 the last one (mdadm's `Create.c`: that
/// is faster than parities for all), and other arrays' members are made to agree, which they do: where the
/// array wrote, and where nothing was.
fn members(md: &Md, below: &[Block]) -> (Vec<Block>, usize, Option<ResyncSpec>) {
    let (active, spares) = below.split_at(below.len().saturating_sub(md.spares as usize));
    let (mut members, there) = (active.to_vec(), active.len().saturating_sub(md.missing as usize));
    if md.resync != Resync::Background {
        return (members, there, None);
    }
    let repair = match (md.missing, spares.first(), md.level) {
        (1.., Some(spare), _) => {
            members[there] = *spare;
            Repair::Rebuild(there as u32)
        }
        (_, _, MdLevel::Raid4 | MdLevel::Raid5) => Repair::Rebuild(there as u32 - 1),
        _ => Repair::Resync(Content::Agrees),
    };
    let all = members.len();
    (members, all, Some(ResyncSpec::new(repair)))
}

/// What a lab's guest adds to a request ([`DiskEntry::of_lab`]), in the time of the machine that it stands
/// for. A dilation that is found on the host is not known here; it is one of hundreds.
fn delay(dilation: &Dilation) -> Nanos {
    match dilation {
        Dilation::Fixed(factor) => Nanos::new((DiskEntry::of_lab().delay.get() as f64 / factor) as u64),
        Dilation::Auto => Nanos::new(0),
    }
}

fn unsupported(why: String) -> BenchError {
    BenchError::Unsupported(why)
}

fn not_modelled(layer: &Layer, what: &str) -> BenchError {
    unsupported(format!(
        "`stack.{}`: {what} is not modelled; run it on a host, or in the lab: `flyball lab run`",
        layer.name
    ))
}

impl Builder<'_> {
    fn built(mut self, target: LoadTarget, top: Option<Block>) -> Built {
        let device = top.map(|top| self.name(top).to_owned());
        let below_target = self.found.iter_mut().find(|found| Some(&found.name) == device.as_ref());
        if let (Some(queue), Some(bytes)) =
            (below_target.and_then(|found| found.queue.as_mut()), self.settings.read_ahead)
        {
            queue.read_ahead = Some(Bytes::new(bytes));
        }
        Built { world: self.world, target, devices: self.found, mounts: self.mounts, device }
    }

    /// What is set of an array with parity needs one.
    fn has_what_is_set(&self) -> Result<(), BenchError> {
        let set = [
            ("stripe_cache_size", self.settings.stripe_cache_size),
            ("group_thread_cnt", self.settings.group_thread_cnt),
        ];
        let stack = self.order.cell.stack.as_ref();
        let arrays = stack.into_iter().flat_map(|stack| &stack.layers).filter_map(Layer::array);
        if arrays.into_iter().any(|md| md.level.has_parity()) {
            return Ok(());
        }
        set.into_iter().find(|(_, value)| value.is_some()).map_or(Ok(()), |(name, _)| {
            Err(unsupported(format!(
                "`{name}` cannot be set in the simulation: the cell has no array of level 4, 5 or 6"
            )))
        })
    }

    fn name(&self, block: Block) -> &str {
        &self.world.core.devices[block.device].name
    }

    fn names(&self, blocks: &[Block]) -> Vec<String> {
        blocks.iter().map(|block| self.name(*block).to_owned()).collect()
    }

    fn stack(&mut self, stack: &Stack) -> Result<Block, BenchError> {
        for layer in &stack.layers {
            let blocks = self.layer(layer)?;
            self.layers.insert(layer.name.clone(), blocks);
        }
        let top = stack.layers.last().and_then(|layer| self.layers.get(&layer.name));
        top.and_then(|blocks| blocks.first())
            .copied()
            .ok_or_else(|| unsupported("a stack without a layer".into()))
    }

    fn layer(&mut self, layer: &Layer) -> Result<Vec<Block>, BenchError> {
        let below: Vec<Block> =
            layer.on.iter().filter_map(|name| self.layers.get(name)).flatten().copied().collect();
        match &layer.part {
            Kind::Devices(devices) => self.devices(&layer.name, devices),
            Kind::Crypt(crypt) => {
                below.into_iter().map(|block| self.crypt(&layer.name, crypt, block)).collect()
            }
            Kind::Integrity(_) => Err(not_modelled(layer, "dm-integrity")),
            Kind::Loop(_) => Err(not_modelled(layer, "a loop device")),
            Kind::Md(md) => Ok(vec![self.array(&layer.name, md, &below)?]),
            Kind::Lvm(lvm) => Ok(vec![self.volume(&layer.name, lvm, &below)?]),
            // Its file is made for the load, see `target`.
            Kind::Filesystem(_) => Ok(below),
        }
    }

    /// Devices of a layer: the machine's disks of those names, any disks of it, then what is made of memory.
    fn devices(&mut self, name: &str, devices: &Devices) -> Result<Vec<Block>, BenchError> {
        let has_disks = self.free.len() >= devices.count as usize;
        match &devices.made {
            Some((VirtualDevice::NullBlk(attributes), size))
                if self.order.machine.disks.is_empty() || !has_disks =>
            {
                (0..devices.count).map(|_| self.memory(name, attributes, *size)).collect()
            }
            _ => self.take(&format!("`stack.{name}`"), devices.count, &devices.lab),
        }
    }

    /// Disks of the machine, those of the given names first.
    fn take(&mut self, whose: &str, count: u32, names: &[String]) -> Result<Vec<Block>, BenchError> {
        let mut blocks = Vec::new();
        for _ in 0..count {
            let named = self.free.iter().position(|disk| names.contains(&disk.name));
            if self.free.is_empty() {
                return Err(unsupported(format!(
                    "{whose} wants {count} disks, and the machine `{}` has not so many; add a [[disk]] to it, or a [[lab.disk]] to the study",
                    self.order.machine.name
                )));
            }
            let entry = self.free.remove(named.unwrap_or(0));
            blocks.push(self.disk(&entry)?);
        }
        Ok(blocks)
    }

    fn disk(&mut self, entry: &DiskEntry) -> Result<Block, BenchError> {
        let mut spec = self.order.models.disk(&entry.model).map_err(unsupported)?;
        if let Some(size) = entry.size {
            spec = spec
                .with_size(size)
                .map_err(|error| unsupported(format!("disk `{}`: {error}", entry.name)))?;
        }
        if let MediumSpec::Ssd(ssd) = &mut spec.medium
            && entry.written
            && ssd.state == SsdState::Fresh
        {
            ssd.state = SsdState::Filled;
        }
        spec.slow_flash(self.order.machine.variation.media_factor(self.order.seed, self.disks));
        let interface = &mut spec.interface;
        interface.queue_depth =
            entry.window.map_or(interface.queue_depth, |most| most.min(interface.queue_depth));
        interface.command_latency = interface.command_latency + entry.delay;
        let link = entry.link.as_ref().map(|name| self.link(name)).transpose()?;
        let number = self.world.core.bank.add_disk(&spec, link);
        assert_eq!(number, self.disks, "disks are numbered as they come");
        self.disks += 1;
        let device = self.device(&letters("sd", number));
        let me = self.world.next_part();
        let queue = QueueSpec {
            scheduler: self.settings.scheduler.unwrap_or(entry.scheduler),
            tags: entry.tags,
            most_bytes: self.settings.most_bytes.unwrap_or(entry.most_bytes.get()),
            most_segments: entry.most_segments,
            dispatch: self.order.machine.costs.once("dispatch"),
            dispatch_page: self.order.machine.costs.once("dispatch_page"),
            interrupt: self.order.machine.costs.once("interrupt"),
            interrupts: self.order.machine.cpu.interrupts,
            kernel: self.order.machine.kernel,
        };
        self.world.add(Box::new(Disk::new(me, number, device, spec.capacity, queue.clone())));
        self.world.attach(number, me);
        let rotates = matches!(spec.medium, MediumSpec::Hdd(_));
        let block = Block { part: me, device, size: spec.capacity.get(), rotates, read_ahead: READ_AHEAD };
        self.found.push(found::disk(self.name(block), &spec, &queue, Bytes::new(READ_AHEAD)));
        Ok(block)
    }

    fn link(&mut self, name: &String) -> Result<usize, BenchError> {
        if let Some(known) = self.links.get(name) {
            return Ok(*known);
        }
        let (model, on) = match self.order.machine.links.get(name) {
            Some(entry) => (&entry.model, entry.on.as_ref()),
            None => (name, None),
        };
        let next = on.map(|on| self.link(on)).transpose()?;
        let spec = self.order.models.link(model).map_err(unsupported)?;
        let number = self.world.core.bank.add_link_behind(&spec, next);
        self.links.insert(name.clone(), number);
        Ok(number)
    }

    fn memory(
        &mut self,
        name: &str,
        attributes: &BTreeMap<String, String>,
        size: Bytes,
    ) -> Result<Block, BenchError> {
        let attribute = |key: &str, default: u64| match attributes.get(key) {
            None => Ok(default),
            Some(text) => text.parse::<u64>().map_err(|_| {
                unsupported(format!("`stack.{name}.attributes`: `{key}={text}` is no whole number"))
            }),
        };
        // By default a request is done in the softirq that its submission raises, at once.
        let latency_ns = match attribute("irqmode", 1)? {
            2 => attribute("completion_nsec", 10_000)?,
            _ => 0,
        };
        let spec = MemorySpec {
            size,
            latency_ns,
            depth: attribute("hw_queue_depth", 64)?.clamp(1, 1024) as u32,
            interrupt: self.order.machine.costs.once("interrupt"),
            request: self.order.machine.costs.once("memory_request"),
            byte_1024: self.order.machine.costs.byte_1024("memory_byte"),
            copy_byte_1024: self.order.machine.costs.byte_1024("memory_copy_byte"),
            page: self.order.machine.costs.once("memory_page"),
            kernel: self.order.machine.kernel,
        };
        let device = self.numbered("nullb");
        let me = self.world.next_part();
        self.world.add(Box::new(Memory::new(me, device, spec)));
        let block = Block { part: me, device, size: size.get(), rotates: false, read_ahead: READ_AHEAD };
        self.found.push(found::memory(self.name(block), size, Bytes::new(READ_AHEAD)));
        Ok(block)
    }

    fn crypt(&mut self, layer: &str, options: &Crypt, below: Block) -> Result<Block, BenchError> {
        let (machine, costs) = (self.order.machine, &self.order.machine.costs);
        let name = format!("dm-{}", self.count("dm-"));
        let device = self.device(&name);
        let mut crypt = CryptCosts::of_cipher(&options.cipher, options.key_size, AesInstructions::Present);
        crypt.kib = costs.of_bytes("crypt_byte", 1024);
        crypt.sector = costs.once("crypt_sector");
        crypt.item = costs.once("crypt_bio");
        crypt.submit = costs.once("crypt_write");
        let spec = CryptSpec {
            name: name.clone(),
            options: options.clone(),
            limits: Limits::of_kernel(machine.kernel.major, machine.kernel.minor),
            queue: WorkQueue::of_kernel(machine.kernel),
            costs: crypt,
        };
        let size = below.size - spec.data_offset().get().min(below.size);
        let me = self.world.next_part();
        let core = &mut self.world.core;
        let part = crypt::Crypt::new(core, me, below.part, device, Bytes::new(below.size), spec);
        self.world.add(Box::new(part));
        let block = Block { part: me, device, size, rotates: below.rotates, read_ahead: READ_AHEAD };
        let of = self.names(&[below]);
        let ahead = Bytes::new(READ_AHEAD);
        self.found.push(found::crypt(self.name(block), layer, options, of, Bytes::new(size), ahead));
        Ok(block)
    }

    /// In whole ticks; the kernel's own, with one tick more (`md.c`: `DEFAULT_SAFEMODE_DELAY`,
    /// `safe_delay_store`).
    fn safe_mode_delay(&self, md: &Md) -> Option<u64> {
        let machine = self.order.machine;
        let ticks = |time: Nanos| (u128::from(time.get()) * u128::from(machine.hz) / 1_000_000_000) as u64;
        let ticks = match md.safe_mode_delay {
            Some(Nanos::ZERO) => 0,
            Some(time) => ticks(time).max(1),
            None => ticks(SAFE_MODE_DELAY) + 1,
        };
        (machine.kernel >= MARKS_CLEAN).then_some(ticks * 1_000_000_000 / machine.hz)
    }

    /// An array over all devices but its spares, which nothing asks of unless one takes a missing member's
    /// place.
    fn array(&mut self, layer: &str, md: &Md, below: &[Block]) -> Result<Block, BenchError> {
        let wrong = |why: String| unsupported(format!("`stack.{layer}`: {why}"));
        let (below, there, resync) = members(md, below);
        let active = below.len();
        let least = below.iter().map(|block| block.size).min().unwrap_or(0);
        let offset = data_offset(least, chunk_of(md));
        let sizes: Vec<Bytes> =
            below.iter().map(|block| Bytes::new(block.size.saturating_sub(offset))).collect();
        let geometry = Geometry::new(md, &sizes).map_err(|error| wrong(error.to_string()))?;
        let name = format!("md{}", self.count("md"));
        let device = self.device(&name);
        let spec = ArraySpec {
            name,
            geometry,
            members: below
                .iter()
                .enumerate()
                .map(|(at, block)| {
                    let write_mostly = at + md.write_mostly as usize >= there;
                    (at < there).then(|| Member { write_mostly, ..block.member() })
                })
                .collect(),
            data_offset: Bytes::new(offset),
            kernel: self.order.machine.kernel,
            costs: MdCosts::of(&self.order.machine.costs),
            safe_mode_delay: self.safe_mode_delay(md),
        };
        let size = spec.geometry.size().get();
        let read_ahead = read_ahead(&spec.geometry);
        if md.bitmap == Bitmap::Lockless {
            return Err(wrong("a bitmap without a lock (llbitmap) is not modelled".into()));
        }
        let bitmap = BitmapSpec::of(md);
        let me = self.world.next_part();
        let core = &mut self.world.core;
        let mut parity_spec = None;
        match md.level {
            MdLevel::Linear | MdLevel::Raid0 if there < active => {
                return Err(wrong("it does not run without a member".into()));
            }
            MdLevel::Linear | MdLevel::Raid0 => self.world.add(Box::new(Striped::new(me, device, &spec))),
            MdLevel::Raid1 | MdLevel::Raid10 => {
                let mirror = Mirror::new(core, me, device, &spec, bitmap, resync);
                self.world.add(Box::new(mirror))
            }
            MdLevel::Raid4 | MdLevel::Raid5 | MdLevel::Raid6 => {
                let parities = (spec.geometry.members() - spec.geometry.data_members()) as usize;
                if active - there > parities {
                    return Err(wrong(format!("it does not run without {} members", active - there)));
                }
                let usual = ParitySpec { resync, ..ParitySpec::of(md) };
                let own = ParitySpec {
                    stripe_cache_size: self.settings.stripe_cache_size.unwrap_or(usual.stripe_cache_size),
                    group_threads: self.settings.group_thread_cnt.unwrap_or(usual.group_threads),
                    ..usual
                };
                parity_spec = Some(own);
                let parity = Parity::new(core, me, device, &spec, own);
                self.world.add(Box::new(parity))
            }
        };
        let rotates = below.iter().any(|block| block.rotates);
        let ahead = Bytes::new(read_ahead);
        self.found.push(found::array(&spec, md, self.names(&below), parity_spec.as_ref(), ahead));
        Ok(Block { part: me, device, size, rotates, read_ahead })
    }

    fn volume(&mut self, layer: &str, lvm: &Lvm, below: &[Block]) -> Result<Block, BenchError> {
        /// Where LVM's data begins on a device.
        const START: u64 = 1 << 20;
        let name = format!("dm-{}", self.count("dm-"));
        let device = self.device(&name);
        let members: Vec<Member> = below.iter().map(|block| block.member()).collect();
        let sizes: Vec<Bytes> =
            below.iter().map(|block| Bytes::new(block.size.saturating_sub(START))).collect();
        let costs = MdCosts::of(&self.order.machine.costs);
        let spec = logical_volume(&name, lvm, &members, &sizes, costs, self.order.machine.kernel)
            .map_err(|error| unsupported(format!("`stack.{layer}`: {error}")))?;
        let size = spec.geometry.size().get();
        let read_ahead = read_ahead(&spec.geometry);
        let me = self.world.next_part();
        self.world.add(Box::new(Striped::new(me, device, &spec)));
        let rotates = below.iter().any(|block| block.rotates);
        self.found.push(found::volume(&name, layer, self.names(below), Bytes::new(size)));
        Ok(Block { part: me, device, size, rotates, read_ahead })
    }

    /// What the load works on: a file where the top is a filesystem or the study wants a file, else the top
    /// itself.
    fn target(&mut self, top: Block, caching: Caching) -> Result<LoadTarget, BenchError> {
        let stack = self.order.cell.stack.as_ref();
        let highest = stack.and_then(|stack| stack.layers.last());
        let target = &self.order.study.target;
        match (highest.map(|layer| (&layer.part, layer)), target) {
            (Some((Kind::Filesystem(options), layer)), _) => self.file(&layer.name, &options.clone(), top),
            (_, Target::File(_) | Target::Folder { .. }) => self.file("", &plain_ext4(), top),
            _ if caching == Caching::Direct => {
                Ok(LoadTarget { part: top.part, size: top.size, kind: TargetKind::Device })
            }
            _ => {
                let spec = files::pages(self.order, self.settings, "device", top.size, top.read_ahead);
                let me = self.world.next_part();
                let file = File::on_device(&mut self.world.core, me, top.part, spec);
                self.world.add(Box::new(file));
                Ok(LoadTarget { part: me, size: top.size, kind: TargetKind::CachedDevice })
            }
        }
    }

    /// A file on a filesystem: the study's target, which is there before, or a new one that takes what the
    /// filesystem holds.
    fn file(&mut self, layer: &str, options: &Filesystem, below: Block) -> Result<LoadTarget, BenchError> {
        /// What a filesystem keeps for itself, at least.
        const OWN: u64 = 16;
        let journal = match &options.journal {
            Journal::External(name) => {
                self.layers.get(name).and_then(|blocks| blocks.first()).map(|b| b.part)
            }
            Journal::Internal | Journal::None => None,
        };
        let fs = files::filesystem(self.order, layer, options, below.size, journal)?;
        let room = below.size - below.size / OWN - fs.journal_bytes.min(below.size / 2);
        let (size, laid_out) = match (&self.order.study.target, writes_anew(self.order)?) {
            (_, Some(OwnFiles::Bytes(total))) => (total.get(), 0),
            (Target::File(size) | Target::Folder { size, .. }, None) => (size.get(), size.get()),
            _ => (room / 4096 * 4096, 0),
        };
        if size > room {
            return Err(unsupported(format!(
                "what the load works on is {}, and the filesystem has room for {}",
                Bytes::new(size),
                Bytes::new(room)
            )));
        }
        let mut spec = files::pages(self.order, self.settings, "target", size, below.read_ahead);
        spec.laid_out = Bytes::new(laid_out);
        self.mounts.push(found::mount(self.name(below), options));
        let me = self.world.next_part();
        let core = &mut self.world.core;
        let file = File::on_filesystem(core, me, below.part, Bytes::new(below.size), spec, fs);
        self.world.add(Box::new(file));
        Ok(LoadTarget { part: me, size, kind: TargetKind::File })
    }

    /// A block device of this name, in the trace from now on.
    fn device(&mut self, name: &str) -> usize {
        self.world.core.devices.push(DeviceStats::new(name));
        self.world.core.devices.len() - 1
    }

    fn numbered(&mut self, prefix: &'static str) -> usize {
        let name = format!("{prefix}{}", self.count(prefix));
        self.device(&name)
    }

    fn count(&mut self, prefix: &'static str) -> usize {
        let number = self.numbers.entry(prefix).or_insert(0);
        *number += 1;
        *number - 1
    }
}

/// What files of its own a load makes; `None` where it works on the target.
fn writes_anew(order: &SimRequest<'_>) -> Result<Option<OwnFiles>, BenchError> {
    let workload = &order.cell.workload;
    let files = workloads::of(&workload.tool).own_files(workload, order.machine.memory);
    files.transpose().map_err(|error| unsupported(error.to_string()))
}

/// The filesystem of a machine's own disk, where a study has a file and builds nothing.
fn plain_ext4() -> Filesystem {
    Filesystem {
        kind: FilesystemKind::Ext4,
        features: Features::Own,
        data: None,
        journal: Journal::Internal,
        mkfs: Vec::new(),
        mount: Vec::new(),
    }
}

impl Block {
    const fn member(self) -> Member {
        Member { part: self.part, rotational: self.rotates, write_mostly: false }
    }
}

/// How far an array is read ahead: two stripes of data, as the kernel derives it from the best size of a
/// request (`blk_apply_bdi_limits`, `disk_update_readahead`).
fn read_ahead(geometry: &Geometry) -> u64 {
    let stripe = geometry.chunk().map_or(0, |chunk| chunk.get() * u64::from(geometry.data_members()));
    (2 * stripe).max(READ_AHEAD)
}

/// Where mdadm puts the data on a member of this size, in an array of these chunks, with metadata 1.2 (mdadm
/// 4.2, super1.c, `validate_geometry1`): behind the superblock, room for a bitmap, and headroom for a
/// reshape, which is 128 MiB where that is no more than a thousandth, and less down to two chunks.
fn data_offset(size: u64, chunk: Option<Bytes>) -> u64 {
    const SECTOR: u64 = 512;
    const GIB: u64 = 1 << 30;
    const MIB: u64 = 1 << 20;
    let bitmap = match size {
        ..0x1_0000 => 0,
        small if small <= 8 * GIB + 4096 => 8,
        middling if middling < 200 * GIB + 65_536 => 128,
        _ => 256,
    };
    let least = chunk.map_or(0, |chunk| 2 * chunk.get());
    let mut headroom = 128 * MIB;
    while headroom << 10 > size && headroom / 2 >= least {
        headroom /= 2;
    }
    ((24 + bitmap) * SECTOR + headroom).next_multiple_of(MIB)
}

/// `sda` to `sdz`, `sdaa` and on.
fn letters(prefix: &str, mut number: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(b'a' + (number % 26) as u8);
        if number < 26 {
            break;
        }
        number = number / 26 - 1;
    }
    letters.reverse();
    format!("{prefix}{}", String::from_utf8_lossy(&letters))
}

#[cfg(test)]
mod tests {
    use domain::lab::Dilation;
    use domain::units::Bytes;

    #[test]
    fn data_begins_where_mdadm_begins_it() {
        // mdadm 4.2 in the lab: MiB of a member, KiB of a chunk (none of a mirror's), sectors up to the data
        // (`mdadm --examine`).
        for (member, chunk, sectors) in [
            (128, 0, 2048),
            (128, 64, 2048),
            (128, 512, 4096),
            (128, 4096, 18_432),
            (256, 0, 2048),
            (256, 32, 2048),
            (256, 512, 4096),
            (256, 1024, 6144),
            (1 << 10, 32, 4096),
            (1 << 10, 512, 4096),
            (1 << 10, 1024, 6144),
            (3 << 10, 512, 6144),
            (3 << 10, 4096, 18_432),
            (10 << 10, 512, 18_432),
            (50 << 10, 64, 67_584),
            (100 << 10, 512, 133_120),
            (150 << 10, 512, 264_192),
            (300 << 10, 0, 264_192),
            (300 << 10, 4096, 264_192),
        ] {
            let chunk = (chunk > 0).then(|| Bytes::from_kib(chunk));
            let offset = super::data_offset(Bytes::from_mib(member).get(), chunk);
            assert_eq!(offset, sectors * 512, "{member} MiB, chunk {chunk:?}");
        }
    }

    #[test]
    fn a_guest_s_own_time_shrinks_with_the_dilation() {
        let of = |dilation| super::delay(&dilation).get();
        assert_eq!(
            [of(Dilation::Fixed(1.0)), of(Dilation::Fixed(20.0)), of(Dilation::Auto)],
            [150_000, 7_500, 0]
        );
    }

    #[test]
    fn disks_have_the_kernel_s_letters() {
        let names = [0, 25, 26, 27, 701, 702].map(|n| super::letters("sd", n));
        assert_eq!(names, ["sda", "sdz", "sdaa", "sdab", "sdzz", "sdaaa"]);
    }
}
