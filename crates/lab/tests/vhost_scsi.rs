//! The disk server as QEMU and its guest meet it: a driver of virtio-scsi, here without either. What it
//! stores is there, what it does wrong stops its queue alone.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use disks::{DiskSpec, LinkSpec};
use domain::rng::Seed;
use domain::units::Bytes;
use lab::disk_server::{Backing, DiskServer, Reach, ServedDisk, ServedLink};
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vhost::vhost_user::message::VhostUserProtocolFeatures;
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes as _, FileOffset, GuestAddress, GuestMemoryMmap, GuestRegionMmap, MmapRegion};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

const SIZE: u64 = 64 << 20;
const MEMORY: usize = 8 << 20;

/// Where things are in the driver's memory.
const DESCRIPTORS: u64 = 0x1000;
const AVAILABLE: u64 = 0x2000;
const USED: u64 = 0x3000;
const HEADER: u64 = 0x4000;
const RESPONSE: u64 = 0x5000;
const DATA: u64 = 0x10_0000;

const QUEUE: u16 = 64;
const COMMANDS: usize = 2;

const NEXT: u16 = 1;
const FOR_DEVICE_TO_WRITE: u16 = 2;

/// What a guest's driver of one disk has.
struct Driver {
    frontend: Frontend,
    memory: GuestMemoryMmap,
    kick: EventFd,
    call: EventFd,
    offered: u16,
}

/// A command's end: response, status, sense key with its additional code, bytes that were not moved.
#[derive(Debug, PartialEq, Eq)]
struct End {
    response: u8,
    status: u8,
    sense: (u8, u8),
    unused: u32,
}

const GOOD: End = End { response: 0, status: 0, sense: (0, 0), unused: 0 };

impl Driver {
    fn new(server: &mut DiskServer, name: &str) -> Self {
        let file = File::from(memfd_create("guest", MemfdFlags::CLOEXEC).unwrap());
        ftruncate(&file, MEMORY as u64).unwrap();
        let region = MmapRegion::from_file(FileOffset::from_arc(Arc::new(file), 0), MEMORY).unwrap();
        let region = GuestRegionMmap::new(region, GuestAddress(0)).unwrap();
        let start = region.as_ptr() as u64;
        let info = VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: MEMORY as u64,
            userspace_addr: start,
            mmap_offset: 0,
            mmap_handle: region.file_offset().unwrap().file().as_raw_fd(),
        };
        let mut frontend = Frontend::from_stream(UnixStream::from(server.take_end(name).unwrap()), 8);
        let features = frontend.get_features().unwrap();
        frontend.set_owner().unwrap();
        frontend.get_protocol_features().unwrap();
        frontend.set_protocol_features(VhostUserProtocolFeatures::MQ).unwrap();
        // All but the index of events: each answer is told.
        assert_eq!(features & (1 << 29), 0, "VIRTIO_F_EVENT_IDX needs barriers that a guest may lack");
        frontend.set_features(features).unwrap();
        frontend.set_mem_table(&[info]).unwrap();
        let (kick, call) = (EventFd::new(EFD_NONBLOCK).unwrap(), EventFd::new(EFD_NONBLOCK).unwrap());
        frontend.set_vring_num(COMMANDS, QUEUE).unwrap();
        frontend.set_vring_base(COMMANDS, 0).unwrap();
        let ring = VringConfigData {
            queue_max_size: QUEUE,
            queue_size: QUEUE,
            flags: 0,
            desc_table_addr: start + DESCRIPTORS,
            used_ring_addr: start + USED,
            avail_ring_addr: start + AVAILABLE,
            log_addr: None,
        };
        frontend.set_vring_addr(COMMANDS, &ring).unwrap();
        frontend.set_vring_call(COMMANDS, &call).unwrap();
        frontend.set_vring_kick(COMMANDS, &kick).unwrap();
        frontend.set_vring_enable(COMMANDS, true).unwrap();
        let memory = GuestMemoryMmap::from_regions(vec![region]).unwrap();
        Self { frontend, memory, kick, call, offered: 0 }
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(at)).unwrap();
    }

    fn get(&self, at: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.memory.read_slice(&mut bytes, GuestAddress(at)).unwrap();
        bytes
    }

    fn describe(&self, index: u64, address: u64, len: u32, flags: u16, next: u16) {
        let mut bytes = address.to_le_bytes().to_vec();
        bytes.extend(len.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(next.to_le_bytes());
        self.put(DESCRIPTORS + 16 * index, &bytes);
    }

    /// Offers the chain that begins with a descriptor.
    fn offer(&mut self, head: u16) {
        self.put(AVAILABLE + 4 + 2 * u64::from(self.offered % QUEUE), &head.to_le_bytes());
        self.offered = self.offered.wrapping_add(1);
        self.put(AVAILABLE + 2, &self.offered.to_le_bytes());
        self.kick.write(1).unwrap();
    }

    fn answered(&self) -> u16 {
        u16::from_le_bytes(self.get(USED + 2, 2).try_into().unwrap())
    }

    /// Waits for the next answer; whether there was one.
    fn is_called(&self, patience: Duration) -> bool {
        let timeout = Timespec::try_from(patience).unwrap();
        // SAFETY: the eventfd is open as long as `self`.
        let call = unsafe { BorrowedFd::borrow_raw(self.call.as_raw_fd()) };
        let woken = poll(&mut [PollFd::new(&call, PollFlags::IN)], Some(&timeout)).unwrap();
        let _ = self.call.read();
        woken > 0
    }

    /// One command, to the disk at a target: its data to the disk, or the room for what comes from there.
    fn run(&mut self, target: u8, cdb: &[u8], data: Result<&[u8], usize>) -> (End, Vec<u8>) {
        let mut header = vec![1, target, 0x40, 0];
        header.resize(19, 0);
        header.extend(cdb);
        header.resize(51, 0);
        self.put(HEADER, &header);
        self.put(RESPONSE, &[0xee; 108]);
        let room = match data {
            Ok(bytes) => {
                self.put(DATA, bytes);
                self.describe(0, HEADER, 51, NEXT, 1);
                self.describe(1, DATA, bytes.len() as u32, NEXT, 2);
                self.describe(2, RESPONSE, 108, FOR_DEVICE_TO_WRITE, 0);
                0
            }
            Err(room) => {
                self.describe(0, HEADER, 51, NEXT, 1);
                self.describe(1, RESPONSE, 108, FOR_DEVICE_TO_WRITE | NEXT, 2);
                self.describe(2, DATA, room as u32, FOR_DEVICE_TO_WRITE, 0);
                room
            }
        };
        let before = self.answered();
        self.offer(0);
        assert!(self.is_called(Duration::from_secs(10)), "no answer");
        assert_eq!(self.answered(), before.wrapping_add(1));
        let response = self.get(RESPONSE, 108);
        let unused = u32::from_le_bytes(response[4..8].try_into().unwrap());
        let sense = (response[14], response[24]);
        (End { response: response[11], status: response[10], sense, unused }, self.get(DATA, room))
    }

    fn read(&mut self, block: u32, blocks: u16) -> Vec<u8> {
        let (end, bytes) = self.run(0, &extent(0x28, 0, block, blocks), Err(usize::from(blocks) * 512));
        assert_eq!(end, GOOD);
        bytes
    }
}

/// A command of ten bytes for some blocks.
fn extent(code: u8, flags: u8, block: u32, blocks: u16) -> Vec<u8> {
    let mut cdb = vec![code, flags];
    cdb.extend(block.to_be_bytes());
    cdb.push(0);
    cdb.extend(blocks.to_be_bytes());
    cdb
}

fn served(name: &str, link: Option<&str>) -> ServedDisk {
    ServedDisk {
        name: name.to_owned(),
        spec: DiskSpec::shipped("nvme").unwrap(),
        size: Some(Bytes::new(SIZE)),
        link: link.map(str::to_owned),
        backing: Backing::Memory(Bytes::new(SIZE / 2)),
    }
}

fn serve(disk: ServedDisk, dilation: f64) -> DiskServer {
    DiskServer::start(vec![disk], Vec::new(), Reach::VhostUser, dilation, Seed(1)).unwrap()
}

#[test]
fn what_is_written_is_read() {
    let mut server = serve(served("a", None), 1.0);
    let mut disk = Driver::new(&mut server, "a");
    let data: Vec<u8> = (0..300 * 512_u32).map(|i| (i * 7 / 3) as u8).collect();
    assert_eq!(disk.run(0, &extent(0x2a, 8, 9, 300), Ok(&data)).0, GOOD);
    assert_eq!(disk.run(0, &[0x35], Err(0)).0, GOOD);
    assert!(disk.read(9, 300) == data);
    assert_eq!(disk.run(0, &extent(0x41, 0, 9, 8), Ok(&[0; 512])).0, GOOD);
    let mut unmap = vec![0; 24];
    (unmap[1], unmap[3], unmap[15], unmap[19]) = (22, 16, 32, 8);
    assert_eq!(disk.run(0, &[0x42, 0, 0, 0, 0, 0, 0, 0, 24], Ok(&unmap)).0, GOOD);
    let mut wanted = data;
    wanted[..8 * 512].fill(0);
    wanted[23 * 512..31 * 512].fill(0);
    assert!(disk.read(9, 300) == wanted);
    let account = server.take_account().remove(0);
    assert_eq!((account.disk.as_str(), account.requests), ("a", 6));
    assert_eq!(server.take_complaints(), Vec::<String>::new());
}

#[test]
fn what_the_disk_does_not_do_comes_back_with_its_reason() {
    let mut server = serve(served("a", None), 1.0);
    let mut disk = Driver::new(&mut server, "a");
    let failed = |key, code, unused| End { response: 0, status: 2, sense: (key, code), unused };
    assert_eq!(disk.run(1, &[0x12, 0, 0, 0, 36], Err(36)).0, End { response: 3, unused: 36, ..GOOD });
    assert_eq!(disk.run(0, &[0xff], Err(0)).0, failed(5, 0x20, 0));
    let end = (SIZE / 512) as u32;
    assert_eq!(disk.run(0, &extent(0x28, 0, end, 1), Err(512)).0, failed(5, 0x21, 512));
    // Data in the wrong direction, and too little of it.
    assert_eq!(disk.run(0, &extent(0x28, 0, 0, 1), Ok(&[1; 512])).0, failed(5, 0x24, 512));
    assert_eq!(disk.run(0, &extent(0x2a, 0, 0, 1), Err(512)).0, failed(5, 0x24, 512));
    assert_eq!(disk.run(0, &extent(0x2a, 0, 0, 2), Ok(&[1; 512])).0, failed(5, 0x24, 512));
    assert_eq!(disk.run(0, &[0x12, 0, 0, 0, 255], Err(255)).0, End { unused: 219, ..GOOD });
    assert_eq!(server.take_complaints(), Vec::<String>::new());
    // The disk has a place for half of what it could hold.
    let mut full = None;
    for block in (0..end).step_by(8192) {
        full = Some(disk.run(0, &extent(0x2a, 0, block, 8192), Ok(&[1; 8192 * 512])).0);
    }
    assert_eq!(full, Some(failed(7, 0x27, 8192 * 512)));
    assert!(server.take_complaints()[0].contains("has no place"));
}

#[test]
fn a_kept_disk_holds_what_was_flushed_and_a_driver_that_leaves_is_no_complaint() {
    let folder = tempfile::tempdir().unwrap();
    let kept = || ServedDisk { backing: Backing::Kept(folder.path().join("kept")), ..served("a", None) };
    let mut server = serve(kept(), 1.0);
    let mut disk = Driver::new(&mut server, "a");
    assert_eq!(disk.run(0, &extent(0x2a, 0, 0, 8), Ok(&[1; 4096])).0, GOOD);
    assert_eq!(disk.run(0, &[0x35], Err(0)).0, GOOD);
    assert_eq!(disk.run(0, &extent(0x2a, 8, 8, 8), Ok(&[2; 4096])).0, GOOD);
    drop(disk);
    assert_eq!(server.take_complaints(), Vec::<String>::new());
    drop(server);
    let bytes = std::fs::read(folder.path().join("kept")).unwrap();
    assert!(bytes[..4096] == [1; 4096] && bytes[4096..8192] == [2; 4096]);
}

/// What sending and waking cost, for the constant that the server sends ahead by.
#[test]
fn an_answer_is_there_when_the_model_says_so() {
    const DILATION: f64 = 20.0;
    let mut server = serve(served("a", None), DILATION);
    let mut disk = Driver::new(&mut server, "a");
    disk.read(0, 8);
    server.take_account();
    let mut beyond: Vec<f64> = (0..400)
        .map(|_| {
            let began = Instant::now();
            disk.read(0, 8);
            let took = began.elapsed().as_secs_f64();
            took - server.take_account()[0].modelled.secs() * DILATION
        })
        .collect();
    beyond.sort_by(f64::total_cmp);
    let at = |share: f64| 1e6 * beyond[(share * 399.0) as usize];
    println!(
        "beyond the model: {:.0} us at least, {:.0} us at the quarter, {:.0} us in the median",
        at(0.0),
        at(0.25),
        at(0.5)
    );
    assert!(at(0.0) > -100.0, "answers come before they are due");
}

#[test]
fn a_chain_that_makes_no_sense_stops_its_queue_until_it_is_begun_anew() {
    let mut server = serve(served("a", None), 1.0);
    let mut disk = Driver::new(&mut server, "a");
    for (address, len, flags) in
        [(HEADER, 51, 0), (u64::MAX - 9, 51, NEXT), (HEADER, u32::MAX, NEXT), (HEADER, 51, NEXT)]
    {
        // The last of them goes round in a circle.
        disk.describe(0, address, len, flags, 0);
        disk.offer(0);
        assert!(!disk.is_called(Duration::from_millis(100)));
        let complaints = server.take_complaints();
        assert!(
            complaints.len() == 1 && complaints[0].contains("queue 2 of the disk `a` is served no more"),
            "{complaints:?}"
        );
        disk.frontend.get_vring_base(COMMANDS).unwrap();
        disk.frontend.set_vring_base(COMMANDS, disk.offered).unwrap();
        disk.frontend.set_vring_call(COMMANDS, &disk.call).unwrap();
        disk.frontend.set_vring_kick(COMMANDS, &disk.kick).unwrap();
    }
    assert_eq!(disk.read(0, 1), [0; 512]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn no_queue_stops_the_other_disks(
        chains in prop::collection::vec(
            (prop::sample::select(vec![0, HEADER, RESPONSE, DATA, DESCRIPTORS, MEMORY as u64 - 20, u64::MAX]),
             prop::sample::select(vec![0, 1, 16, 51, 108, 4096, 1 << 20, u32::MAX]), 0..8_u16, 0..QUEUE + 2),
            QUEUE as usize),
        offers in prop::collection::vec(any::<u16>(), 0..8),
        garbage in prop::collection::vec(any::<u8>(), 0..200),
        index in prop::option::of(any::<u16>()),
    ) {
        let bus = ServedLink { name: "bus".to_owned(), spec: LinkSpec::shipped("sata-3").unwrap() };
        let disks = vec![served("a", Some("bus")), served("b", Some("bus"))];
        let mut server = DiskServer::start(disks, vec![bus], Reach::VhostUser, 1.0, Seed(1)).unwrap();
        let (mut a, mut b) = (Driver::new(&mut server, "a"), Driver::new(&mut server, "b"));
        a.put(HEADER, &garbage);
        for (number, (address, len, flags, next)) in chains.into_iter().enumerate() {
            a.describe(number as u64, address, len, flags, next);
        }
        for head in offers {
            a.offer(head % (QUEUE + 2));
        }
        if let Some(index) = index {
            a.put(AVAILABLE + 2, &index.to_le_bytes());
            a.kick.write(1).unwrap();
        }
        prop_assert_eq!(b.read(0, 1), [0; 512]);
    }
}

#[test]
fn what_is_no_vhost_user_closes_its_connection_and_is_told() {
    use std::io::{Read, Write};
    let mut server = serve(served("a", None), 1.0);
    let mut stream = UnixStream::from(server.take_end("a").unwrap());
    stream.write_all(&[0xff; 64]).unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    let complaints = server.take_complaints();
    assert!(complaints[0].contains("closed QEMU's connection to the disk `a`"), "{complaints:?}");
    assert!(server.take_end("a").is_none() && server.socket("a").is_none());
}
