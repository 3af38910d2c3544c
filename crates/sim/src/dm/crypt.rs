//! dm-crypt over one device.
//!
//! Follows `drivers/md/dm-crypt.c` (6.1, 6.12): a read goes down as it is and is decrypted when it comes
//! back, a write is encrypted into pages of its own and then goes down. Both are done by kcryptd, a work
//! queue that is bound to no CPU and has as many items in work as there are CPUs, one item a request (older
//! kernels: [`WorkQueue`]); finished writes go to one thread (`dmcrypt_write`) that takes all that are there
//! and submits them by place, under one plug. The options change who does it:
//!
//! | option | effect |
//! |---|---|
//! | `no_read_workqueue` | decrypted where the completion is handled: interrupt, or softirq |
//! | `no_write_workqueue` | encrypted and submitted by whoever submits the write; the writing thread is passed by as well |
//! | `same_cpu` | the item is done on the CPU that queued it, one at a time there |
//! | `submit_from_crypt` | a write goes down from where it was encrypted |
//!
//! Flushes and discards pass through. A request that is larger than the kernel's limit is split ([`Limits`]).
//!
//! Left out: the page pool and its limit (2% of memory), asynchronous crypto drivers, integrity tags, zoned
//! devices, the `kcryptd_io` queue (used where memory is short), `high_priority`. Pieces of one request that
//! is encrypted by its submitter go down together when the last is encrypted.

use crate::cpu::{Cost, ThreadId};
use crate::engine::{Bio, BioId, Core, Part, PartId};
use disks::Op;
use domain::stack::{Crypt as Options, CryptKind};
use domain::trace::Role;
use domain::units::Bytes;
use event_queue::{Slab, Time};
use governors::KernelVersion;
use std::collections::{BTreeMap, VecDeque};

/// What LUKS2's header takes at the beginning of the device: `cryptsetup luksFormat` puts the data there.
const LUKS2_HEADER: u64 = 16 << 20;
/// Unit in which a write's own pages are got and given back.
const PAGE: u64 = 4096;

/// The largest requests that the kernel does not split (`get_max_request_sectors`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Reads, in bytes; `None` where nothing splits them.
    pub read: Option<u64>,
    /// Writes, in bytes.
    pub write: u64,
}

impl Limits {
    /// Those of a kernel: until 6.11 a write's pages must fit one bio (`BIO_MAX_VECS`, 1 MiB) and reads are
    /// not split; then `max_read_size` and `max_write_size`, both 128 KiB by default. (6.1 and 6.12 were
    /// read; where between them it changed is taken from memory.)
    pub const fn of_kernel(major: u16, minor: u16) -> Self {
        if major > 6 || (major == 6 && minor >= 12) {
            return Self { read: Some(128 << 10), write: 128 << 10 };
        }
        Self { read: None, write: 1 << 20 }
    }
}

/// Whether the CPU has instructions for AES (AES-NI, ARMv8's).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AesInstructions {
    /// It has.
    Present,
    /// It has not.
    Absent,
}

/// What dm-crypt costs CPUs. Cycles unless said otherwise; where a value is marked assumed, nothing was
/// measured for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CryptCosts {
    /// To take a request and clone it, for whoever submits; once for each piece. Assumed.
    pub map: Cost,
    /// Cipher, for each 1024 bytes.
    pub kib: Cost,
    /// Initialisation vector and set-up of the cipher, for each encryption sector. Assumed.
    pub sector: Cost,
    /// To get and give back a page that a write is encrypted into. Assumed.
    pub page: Cost,
    /// To put an item into the work queue and wake a worker, for whoever queues. Assumed.
    pub queue: Cost,
    /// A worker's own work for an item beside the cipher. Assumed.
    pub item: Cost,
    /// To sort a write in and submit it, for `dmcrypt_write` or whoever submits instead. Assumed.
    pub submit: Cost,
    /// To end a request. Assumed.
    pub end: Cost,
}

impl CryptCosts {
    /// For a cipher as dm-crypt names it (`aes-xts-plain64`) and a key in bits (twice the cipher's own in
    /// XTS).
    ///
    /// Cycles a byte are assumed, of the order that `cryptsetup benchmark` shows on x86-64 of 2008 to 2015:
    /// AES-XTS with AES-NI 1.3 (256-bit key) and 1.7 (512), in C code 22 and 30; AES-CBC as XTS; Serpent 8,
    /// Twofish 12, Adiantum 5. Everything else counts as AES in C code. A machine's own figure belongs into
    /// its file.
    pub fn of_cipher(cipher: &str, key_bits: u32, aes: AesInstructions) -> Self {
        let short = key_bits <= if cipher.contains("xts") { 256 } else { 128 };
        let kib = match (cipher.split('-').next().unwrap_or(""), aes) {
            ("serpent", _) => 8_192,
            ("twofish", _) => 12_288,
            (name, _) if name.starts_with("xchacha") || cipher.contains("adiantum") => 5_120,
            ("aes", AesInstructions::Present) if short => 1_331,
            ("aes", AesInstructions::Present) => 1_741,
            _ if short => 22_528,
            _ => 30_720,
        };
        Self {
            map: Cost::cycles(1_500),
            kib: Cost::cycles(kib),
            sector: Cost::cycles(400),
            page: Cost::cycles(500),
            queue: Cost::cycles(900),
            item: Cost::cycles(1_200),
            submit: Cost::cycles(1_200),
            end: Cost::cycles(600),
        }
    }
}

/// What kcryptd is (`dm-crypt.c: crypt_ctr`, before 2.6.24 `dm_crypt_init`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkQueue {
    /// A thread on each CPU, which does what was queued on that CPU: until 2.6.23 (`create_workqueue`), and
    /// from 2.6.38 to 3.19 (`alloc_workqueue` without `WQ_UNBOUND`, one item at a time).
    EachCpu,
    /// One thread a device: from 2.6.24 to 2.6.37 (`create_singlethread_workqueue`).
    OneThread,
    /// As many items as there are CPUs, anywhere: from 4.0 on (`WQ_UNBOUND`, `num_online_cpus`).
    Unbound,
}

impl WorkQueue {
    /// That of a kernel. In which release each change came is taken from memory, that they came in this order
    /// from the sources.
    pub fn of_kernel(kernel: KernelVersion) -> Self {
        let before = |major, minor, patch| kernel < KernelVersion::new(major, minor, patch);
        match () {
            () if before(2, 6, 24) => Self::EachCpu,
            () if before(2, 6, 38) => Self::OneThread,
            () if before(4, 0, 0) => Self::EachCpu,
            () => Self::Unbound,
        }
    }
}

/// An encrypted volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CryptSpec {
    /// As the kernel calls it: `dm-0`.
    pub name: String,
    /// Header, sector size and the options that say who does the work.
    pub options: Options,
    /// Where requests are split.
    pub limits: Limits,
    /// Who encrypts; with `same_cpu` always a thread on each CPU.
    pub queue: WorkQueue,
    /// What it costs.
    pub costs: CryptCosts,
}

impl CryptSpec {
    /// Where the data begins on the device below.
    pub const fn data_offset(&self) -> Bytes {
        match self.options.kind {
            CryptKind::Plain => Bytes::new(0),
            CryptKind::Luks2 => Bytes::new(LUKS2_HEADER),
        }
    }

    fn limit(&self, op: Op) -> u64 {
        let limit = if op == Op::Read { self.limits.read } else { Some(self.limits.write) };
        let sector = u64::from(self.options.sector_size);
        limit.map_or(u64::MAX, |limit| (limit / sector * sector).max(sector))
    }

    /// What it costs to encrypt or decrypt so much.
    fn cipher(&self, op: Op, len: u64) -> Cost {
        let sectors = self.costs.sector.times(len / u64::from(self.options.sector_size));
        let bytes = Cost {
            cycles: self.costs.kib.cycles * len / 1024,
            stall_ns: self.costs.kib.stall_ns * len / 1024,
        };
        let pages = if op == Op::Write { self.costs.page.times(len.div_ceil(PAGE)) } else { Cost::NONE };
        bytes.and(sectors).and(pages)
    }
}

/// A piece of a request on its way.
#[derive(Clone, Copy, Debug)]
struct Item {
    parent: BioId,
    op: Op,
    offset: u64,
    len: u64,
    fua: bool,
    sync: bool,
    plugged: bool,
    since: Time,
}

/// Who encrypts.
enum Workers {
    /// Any of them; the most recently idle first.
    Unbound { threads: Vec<ThreadId>, idle: Vec<usize>, waiting: VecDeque<u32> },
    /// That of the CPU that asks.
    Bound(Vec<ThreadId>),
}

/// An encrypted volume.
pub struct Crypt {
    me: PartId,
    below: PartId,
    device: usize,
    size: u64,
    spec: CryptSpec,
    workers: Workers,
    writer: ThreadId,
    items: Slab<Item>,
    /// Encrypted writes that wait for `dmcrypt_write`, by place and coming.
    tree: BTreeMap<(u64, u64), u32>,
    coming: u64,
    batch: Vec<u32>,
    in_work: u64,
}

/// What is done when a thread has worked: kind, and above it the number of an item or request.
const KIND_BITS: u32 = 3;
const MAPPED: u64 = 0;
const WRITE_HERE: u64 = 1;
const READ_HERE: u64 = 2;
const BY_WORKER: u64 = 3;
const WRITER_WOKE: u64 = 4;
const WRITER_SUBMITS: u64 = 5;
/// Workers are told apart in the upper half of a token.
const WORKER_SHIFT: u32 = 40;

impl Crypt {
    /// The part `me` over `below`, which is `size_below` large; it counts as `device`. Makes its threads, of
    /// the role [`Role::Crypt`].
    ///
    /// # Panics
    /// Where the device below has no room for the header.
    pub fn new(
        core: &mut Core,
        me: PartId,
        below: PartId,
        device: usize,
        size_below: Bytes,
        spec: CryptSpec,
    ) -> Self {
        let offset = spec.data_offset().get();
        let size = size_below.get();
        assert!(size > offset, "a header of {offset} bytes on a device of {size}");
        let cpus = core.cpus.count();
        let mut thread = |name: String, allowed| core.cpus.thread(&name, Role::Crypt, allowed);
        let name = &spec.name;
        let mut anywhere = |workers: usize| {
            let threads: Vec<_> =
                (0..workers).map(|n| thread(format!("kworker/u{cpus}:{n}+kcryptd/{name}"), 0)).collect();
            let idle = (0..threads.len()).rev().collect();
            Workers::Unbound { threads, idle, waiting: VecDeque::new() }
        };
        let workers = match spec.queue {
            WorkQueue::Unbound if !spec.options.same_cpu => anywhere(cpus),
            WorkQueue::OneThread if !spec.options.same_cpu => anywhere(1),
            _ => Workers::Bound(
                (0..cpus).map(|cpu| thread(format!("kworker/{cpu}:1+kcryptd/{name}"), 1 << cpu)).collect(),
            ),
        };
        let writer = thread(format!("dmcrypt_write/{name}"), 0);
        Self {
            me,
            below,
            device,
            size: (size - offset) / PAGE * PAGE,
            spec,
            workers,
            writer,
            items: Slab::default(),
            tree: BTreeMap::new(),
            coming: 0,
            batch: Vec::new(),
            in_work: 0,
        }
    }

    /// Into how many pieces a request is split.
    fn pieces(&self, bio: &Bio) -> u64 {
        bio.len.div_ceil(self.spec.limit(bio.op))
    }

    /// Takes a request apart; its pieces count as begun.
    fn split(&mut self, core: &mut Core, parent: BioId) -> Vec<u32> {
        let bio = core.bios[parent.0];
        let limit = self.spec.limit(bio.op);
        core.bios[parent.0].scratch = self.pieces(&bio);
        let mut items = Vec::new();
        let mut offset = bio.offset;
        while offset < bio.end() {
            let len = limit.min(bio.end() - offset);
            let Bio { op, fua, sync, plugged, .. } = bio;
            core.count_start(self.device);
            items.push(self.items.put(Item { parent, op, offset, len, fua, sync, plugged, since: core.now }));
            offset += len;
        }
        items
    }

    fn mapped(&mut self, core: &mut Core, parent: BioId) {
        let bio = core.bios[parent.0];
        let here = bio.op == Op::Write && self.spec.options.no_write_workqueue;
        if here {
            let cost = self.spec.cipher(bio.op, bio.len).and(self.spec.costs.submit.times(self.pieces(&bio)));
            core.run_here(cost, self.me, u64::from(parent.0) << KIND_BITS | WRITE_HERE);
            return;
        }
        for item in self.split(core, parent) {
            match bio.op {
                Op::Read => self.submit_below(core, item),
                _ => self.queue(core, item),
            }
        }
    }

    /// Puts an item into the work queue (`kcryptd_queue_crypt`).
    fn queue(&mut self, core: &mut Core, item: u32) {
        core.charge(self.spec.costs.queue);
        match &mut self.workers {
            Workers::Bound(threads) => {
                let thread = core.context().or(core.bios[self.items[item].parent.0].thread);
                let cpu = thread.map_or(0, |thread| core.cpus.cpu_of(thread));
                let thread = threads[cpu];
                self.begin(core, cpu, thread, item);
            }
            Workers::Unbound { threads, idle, waiting } => match idle.pop() {
                Some(worker) => {
                    let thread = threads[worker];
                    self.begin(core, worker, thread, item);
                }
                None => waiting.push_back(item),
            },
        }
    }

    fn begin(&mut self, core: &mut Core, worker: usize, thread: ThreadId, item: u32) {
        let Item { op, len, .. } = self.items[item];
        self.in_work += 1;
        let cost = self.spec.cipher(op, len).and(self.spec.costs.item);
        let token = (worker as u64) << WORKER_SHIFT | u64::from(item) << KIND_BITS | BY_WORKER;
        // Between two sectors others may take the CPU (`crypt_convert`: `cond_resched`).
        let sectors = len / u64::from(self.spec.options.sector_size);
        core.run_in_parts(thread, cost, sectors, self.me, token);
    }

    /// A worker is through with an item.
    fn worker_is_through(&mut self, core: &mut Core, worker: usize, item: u32) {
        self.in_work -= 1;
        match self.items[item].op {
            Op::Read => self.end(core, item),
            _ if self.spec.options.submit_from_crypt => {
                core.charge(self.spec.costs.submit);
                // A work queue has no plug.
                self.items[item].plugged = false;
                self.submit_below(core, item);
            }
            _ => self.hand_to_writer(core, item),
        }
        if let Workers::Unbound { threads, idle, waiting } = &mut self.workers {
            match waiting.pop_front() {
                Some(next) => {
                    let thread = threads[worker];
                    self.begin(core, worker, thread, next);
                }
                None => idle.push(worker),
            }
        }
    }

    fn hand_to_writer(&mut self, core: &mut Core, item: u32) {
        if self.tree.is_empty() {
            core.run(self.writer, Cost::NONE, self.me, WRITER_WOKE);
        }
        self.coming += 1;
        self.tree.insert((self.items[item].offset, self.coming), item);
    }

    /// `dmcrypt_write` takes all that is there.
    fn writer_woke(&mut self, core: &mut Core) {
        let tree = std::mem::take(&mut self.tree);
        let cost = self.spec.costs.submit.times(tree.len() as u64);
        self.batch.extend(tree.into_values());
        core.run_here(cost, self.me, WRITER_SUBMITS);
    }

    fn writer_submits(&mut self, core: &mut Core) {
        let mut batch = std::mem::take(&mut self.batch);
        for item in batch.drain(..) {
            // `dmcrypt_write` has a plug of its own.
            self.items[item].plugged = true;
            self.submit_below(core, item);
        }
        self.batch = batch;
    }

    fn submit_below(&mut self, core: &mut Core, item: u32) {
        let Item { op, offset, len, fua, sync, plugged, .. } = self.items[item];
        let offset = offset + self.spec.data_offset().get();
        let bio = Bio::new(self.me, self.below, op, offset, len, u64::from(item));
        core.submit(Bio { fua, sync, plugged, ..bio });
    }

    /// A piece is done; with the last one its request is.
    fn end(&mut self, core: &mut Core, item: u32) {
        let Item { parent, op, len, since, .. } = self.items.remove(item);
        core.charge(self.spec.costs.end);
        core.count_end(self.device, op, len, since, 0);
        let bio = &mut core.bios[parent.0];
        bio.scratch -= 1;
        if bio.scratch == 0 {
            core.complete(parent);
        }
    }
}

impl Part for Crypt {
    fn submit(&mut self, core: &mut Core, id: BioId) {
        let bio = core.bios[id.0];
        if matches!(bio.op, Op::Flush | Op::Discard) {
            core.charge(self.spec.costs.map);
            core.bios[id.0].scratch = 1;
            core.count_start(self.device);
            let Bio { op, offset, len, fua, sync, plugged, .. } = bio;
            let item =
                self.items.put(Item { parent: id, op, offset, len, fua, sync, plugged, since: core.now });
            self.submit_below(core, item);
            return;
        }
        let sector = u64::from(self.spec.options.sector_size);
        assert!(
            bio.len > 0 && bio.offset.is_multiple_of(sector) && bio.len.is_multiple_of(sector),
            "{bio:?} to a volume encrypted by {sector} bytes: the kernel refuses it"
        );
        let cost = self.spec.costs.map.times(self.pieces(&bio));
        core.run_here(cost, self.me, u64::from(id.0) << KIND_BITS | MAPPED);
    }

    fn done(&mut self, core: &mut Core, bio: &Bio) {
        let item = bio.tag as u32;
        if bio.op != Op::Read {
            self.end(core, item);
        } else if self.spec.options.no_read_workqueue {
            let cost = self.spec.cipher(bio.op, bio.len);
            core.run_here(cost, self.me, u64::from(item) << KIND_BITS | READ_HERE);
        } else {
            self.queue(core, item);
        }
    }

    fn worked(&mut self, core: &mut Core, token: u64) {
        let number = (token >> KIND_BITS) as u32;
        match token & ((1 << KIND_BITS) - 1) {
            MAPPED => self.mapped(core, BioId(number)),
            WRITE_HERE => {
                for item in self.split(core, BioId(number)) {
                    self.submit_below(core, item);
                }
            }
            READ_HERE => self.end(core, number),
            BY_WORKER => self.worker_is_through(core, (token >> WORKER_SHIFT) as usize, number),
            WRITER_WOKE => self.writer_woke(core),
            WRITER_SUBMITS => self.writer_submits(core),
            other => unreachable!("dm-crypt has no work {other}"),
        }
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn device(&self) -> Option<usize> {
        Some(self.device)
    }

    fn counters(&self, out: &mut dyn FnMut(&str, u64)) {
        let waiting = match &self.workers {
            Workers::Unbound { waiting, .. } => waiting.len() as u64,
            Workers::Bound(_) => 0,
        };
        out("kcryptd_in_work", self.in_work);
        out("kcryptd_waiting", waiting);
        out("dmcrypt_write_waiting", self.tree.len() as u64);
    }
}

#[cfg(test)]
mod tests;
