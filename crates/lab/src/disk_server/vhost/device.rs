//! What QEMU has said of the device: its guest's memory and its queues.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vhost::VhostUserMemoryRegionBase;
use vhost::vhost_user::message::{
    VhostTransferStateDirection, VhostTransferStatePhase, VhostUserConfigFlags, VhostUserInflight,
    VhostUserLog, VhostUserMemoryRegion, VhostUserProtocolFeatures, VhostUserShMemConfig, VhostUserSharedMsg,
    VhostUserSingleMemoryRegion, VhostUserVirtioFeatures, VhostUserVringAddrFlags, VhostUserVringState,
};
use vhost::vhost_user::{Error, GpuBackend, Result, VhostUserBackendReqHandlerMut};
use virtio_queue::{Queue, QueueT};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};

/// A guest's memory, mapped here.
pub(super) type Memory = Arc<GuestMemoryMmap>;

/// Queues of a disk at most: one for each CPU of its machine, and the two that every controller has.
const MAX_QUEUES: usize = 256;

/// Requests that a queue holds at most.
const MAX_REQUESTS: u16 = 1024;

/// Bits of the features that are offered: indirect descriptors, virtio 1.
///
/// Not bit 29, by which each side says from where on it wants to be told (`VIRTIO_F_EVENT_IDX`): it takes a
/// memory barrier between what a side writes and what it then reads. With a single virtual CPU, TCG runs the
/// guest's `lock addl` as a plain addition (without `CF_PARALLEL`), and the host's CPU may read before it
/// writes. Of some 38 guests with eight readers three waited for ever; that this was the cause is inferred
/// from TCG's behaviour, and from the next 33, none of which did. Without the bit each side is told of all.
const INDIRECT: u64 = 1 << 28;
const VERSION_1: u64 = 1 << 32;

/// The device, as far as QEMU has said what it is.
#[derive(Default)]
pub(super) struct Device {
    memory: Option<Memory>,
    /// Where each part of the memory is for QEMU, how long it is, and where it is for the guest.
    places: Vec<(u64, u64, u64)>,
    rings: Vec<Ring>,
}

/// A queue.
pub(super) struct Ring {
    pub(super) queue: Queue,
    /// How often it was begun anew.
    pub(super) generation: u64,
    /// Requests that were taken and are not answered.
    pub(super) in_flight: u16,
    kick: Option<Arc<File>>,
    call: Option<File>,
    is_enabled: bool,
}

/// What the guest's requests on a queue are told by.
pub(super) struct Kick {
    pub(super) ring: usize,
    pub(super) event: Arc<File>,
}

impl Device {
    /// The kicks of all queues that run.
    pub(super) fn kicks(&self) -> Vec<Kick> {
        let kick = |(ring, it): (usize, &Ring)| {
            let event = it.kick.clone().filter(|_| it.is_running())?;
            Some(Kick { ring, event })
        };
        self.rings.iter().enumerate().filter_map(kick).collect()
    }

    /// A queue that runs, and the memory that it is in.
    pub(super) fn running(&mut self, index: usize) -> Option<(&mut Ring, Memory)> {
        let memory = self.memory.clone()?;
        let ring = self.rings.get_mut(index).filter(|ring| ring.is_running())?;
        Some((ring, memory))
    }

    fn ring(&mut self, index: usize) -> Result<&mut Ring> {
        if index >= MAX_QUEUES {
            return Err(Error::InvalidParam);
        }
        while self.rings.len() <= index {
            self.rings.push(Ring::new()?);
        }
        Ok(&mut self.rings[index])
    }

    fn guest_address(&self, qemu: u64) -> Result<GuestAddress> {
        let place = self.places.iter().find(|(start, len, _)| qemu >= *start && qemu - start < *len);
        let (start, _, guest) = place.ok_or(Error::InvalidParam)?;
        Ok(GuestAddress(guest + (qemu - start)))
    }
}

impl Ring {
    fn new() -> Result<Self> {
        let queue = Queue::new(MAX_REQUESTS).map_err(|_| Error::BackendInternalError)?;
        Ok(Self { queue, generation: 0, in_flight: 0, kick: None, call: None, is_enabled: false })
    }

    fn is_running(&self) -> bool {
        self.is_enabled && self.queue.ready() && self.kick.is_some()
    }

    /// Serves it no more, until QEMU begins it anew.
    pub(super) fn stop(&mut self) {
        self.queue.set_ready(false);
        self.generation += 1;
        self.in_flight = 0;
    }

    /// Gives a request back to the guest.
    pub(super) fn give(
        &mut self,
        head: u16,
        written: u32,
        memory: &Memory,
    ) -> std::result::Result<(), String> {
        self.queue.add_used(&**memory, head, written).map_err(|error| error.to_string())
    }

    /// Tells the guest that there are answers, where it wants to know.
    pub(super) fn call(&mut self, memory: &Memory) -> std::result::Result<(), String> {
        if !self.queue.needs_notification(&**memory).map_err(|error| error.to_string())? {
            return Ok(());
        }
        if let Some(call) = &self.call {
            signal(call);
        }
        Ok(())
    }

    /// As if the guest had told again that there are requests.
    pub(super) fn kick_again(&self) {
        if let Some(kick) = &self.kick {
            signal(kick);
        }
    }
}

fn signal(event: &File) {
    // A full eventfd tells already.
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}

/// A mapping of a part of the guest's memory.
fn region(region: &VhostUserMemoryRegion, file: File) -> Result<GuestRegionMmap> {
    let wrong = |error: vm_memory::mmap::MmapRegionError| Error::ReqHandlerError(io::Error::other(error));
    let len = usize::try_from(region.memory_size).map_err(|_| Error::InvalidParam)?;
    let mapping = MmapRegion::from_file(FileOffset::new(file, region.mmap_offset), len).map_err(wrong)?;
    GuestRegionMmap::new(mapping, GuestAddress(region.guest_phys_addr)).ok_or(Error::InvalidParam)
}

/// What QEMU says. It asks for nothing that was not offered.
impl VhostUserBackendReqHandlerMut for Device {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.rings.iter_mut().for_each(Ring::stop);
        Ok(())
    }

    fn reset_device(&mut self) -> Result<()> {
        self.reset_owner()
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(INDIRECT | VERSION_1 | VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        let is_enabled = features & VhostUserVirtioFeatures::PROTOCOL_FEATURES.bits() == 0;
        for ring in &mut self.rings {
            ring.is_enabled |= is_enabled;
        }
        Ok(())
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(VhostUserProtocolFeatures::MQ)
    }

    fn set_protocol_features(&mut self, _: u64) -> Result<()> {
        Ok(())
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(MAX_QUEUES as u64)
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<VhostUserMemoryRegionBase>>> {
        let mapped =
            regions.iter().zip(files).map(|(it, file)| region(it, file)).collect::<Result<Vec<_>>>()?;
        let memory = GuestMemoryMmap::from_regions(mapped);
        self.memory =
            Some(Arc::new(memory.map_err(|error| Error::ReqHandlerError(io::Error::other(error)))?));
        self.places = regions.iter().map(|it| (it.user_addr, it.memory_size, it.guest_phys_addr)).collect();
        Ok(None)
    }

    fn set_vring_num(&mut self, index: u32, num: u32) -> Result<()> {
        let size = u16::try_from(num).map_err(|_| Error::InvalidParam)?;
        let ring = self.ring(index as usize)?;
        ring.queue.try_set_size(size).map_err(|_| Error::InvalidParam)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _: VhostUserVringAddrFlags,
        descriptor: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Result<()> {
        let descriptor = self.guest_address(descriptor)?;
        let (used, available) = (self.guest_address(used)?, self.guest_address(available)?);
        let memory = self.memory.clone().ok_or(Error::InvalidParam)?;
        let queue = &mut self.ring(index as usize)?.queue;
        let set = queue
            .try_set_desc_table_address(descriptor)
            .and_then(|()| queue.try_set_used_ring_address(used))
            .and_then(|()| queue.try_set_avail_ring_address(available));
        set.map_err(|_| Error::InvalidParam)?;
        // What was answered before is told by the ring itself.
        let next = queue.used_idx(&*memory, Ordering::Relaxed).map_err(|_| Error::InvalidParam)?;
        queue.set_next_used(next.0);
        Ok(())
    }

    fn set_vring_base(&mut self, index: u32, base: u32) -> Result<()> {
        let base = u16::try_from(base).map_err(|_| Error::InvalidParam)?;
        let queue = &mut self.ring(index as usize)?.queue;
        queue.set_next_avail(base);
        Ok(())
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        let ring = self.ring(index as usize)?;
        ring.stop();
        ring.kick = None;
        ring.call = None;
        Ok(VhostUserVringState::new(index, u32::from(ring.queue.next_avail())))
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        let ring = self.ring(usize::from(index))?;
        ring.kick = file.map(Arc::new);
        // What came before this was set is not told again.
        ring.kick_again();
        ring.queue.set_ready(true);
        Ok(())
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        self.ring(usize::from(index))?.call = file;
        Ok(())
    }

    fn set_vring_err(&mut self, _: u8, _: Option<File>) -> Result<()> {
        Ok(())
    }

    fn set_vring_enable(&mut self, index: u32, enable: bool) -> Result<()> {
        self.ring(index as usize)?.is_enabled = enable;
        Ok(())
    }

    fn get_config(&mut self, _: u32, _: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        Err(NOT_OFFERED)
    }

    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        Err(NOT_OFFERED)
    }

    fn get_inflight_fd(&mut self, _: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        Err(NOT_OFFERED)
    }

    fn set_inflight_fd(&mut self, _: &VhostUserInflight, _: File) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Err(NOT_OFFERED)
    }

    fn add_mem_region(
        &mut self,
        _: &VhostUserSingleMemoryRegion,
        _: File,
        _: Option<bool>,
    ) -> Result<Option<VhostUserMemoryRegionBase>> {
        Err(NOT_OFFERED)
    }

    fn remove_mem_region(&mut self, _: &VhostUserSingleMemoryRegion) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        Err(NOT_OFFERED)
    }

    fn check_device_state(&mut self) -> Result<()> {
        Err(NOT_OFFERED)
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        Err(NOT_OFFERED)
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        Err(NOT_OFFERED)
    }
}

const NOT_OFFERED: Error = Error::InvalidOperation("it was not offered");
