//! How long devices take, summed up by BPF programs in the kernel: of every request of every device, at any
//! rate, without a record of any. Of each device and operation there are the requests, their sectors, and the
//! times in the queue and in the device, with their distribution.
//!
//! Goals: nothing stays attached, whatever ends this process: programs, maps and what attaches them are
//! descriptors of it, and nothing is pinned. Memory is bounded, and what finds no room is counted. Neither a
//! compiler for BPF nor BTF is needed: programs are emitted, by where the running kernel says that the fields
//! of its tracepoints lie.
//!
//! Not here: what needs the order of requests, which is [`crate::event_rings`]'.

mod instructions;
mod kernel;
mod programs;

use crate::event_rings::{Tracefs, attachable, why_refused};
use crate::recorder::Roots;
use domain::Nanos;
use domain::request::{Op, Served};
use domain::took::Took;
use kernel::{Map, MapKind};
use parse::kernel::tracepoint::Format;
use perf_event_open_sys as perf;
use programs::{BIO, BUCKETS, FIRST_BUCKET, Maps, OF, OF_BIOS, PLACES, REQUEST, SUMS, TIMES, TRACEPOINTS};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The most pairs of a device and an operation.
const MOST_SUMS: usize = 1024;

/// The most memory that all sums take.
const MOST_BYTES: usize = 64 << 20;

/// The most partitions whose disk is known.
const MOST_PARTITIONS: usize = 4096;

/// One key of a map that has but one.
const ONLY: [u8; 4] = [0; 4];

/// Programs that are attached, and what they sum up once [`RequestSums::begin`] was called.
#[derive(Debug)]
pub struct RequestSums {
    /// First, so that they go before what they use.
    _attached: Vec<File>,
    _programs: Vec<OwnedFd>,
    maps: AllMaps,
}

#[derive(Debug)]
struct AllMaps {
    is_on: Map,
    disks: Map,
    bios: Map,
    requests: Map,
    sums: Map,
    nothing: Map,
    without_room: Map,
}

/// What was summed up.
#[derive(Debug, Default)]
pub struct Summed {
    /// By number of the disk and operation.
    pub served: BTreeMap<(u32, Op), Served>,
    /// Requests and bios of devices and operations beyond those that there was room for.
    pub without_room: u64,
}

/// The machine.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// The numbers of partitions, each with that of its disk.
    pub partitions: &'a [(u32, u32)],
    /// Pairs of device and operation that there is to be room for, as [`room`] says.
    pub room: u32,
    /// At least how many CPUs there can be.
    pub cpus: usize,
    /// One that is online.
    pub online: u16,
    pub roots: &'a Roots,
}

impl RequestSums {
    /// Loads the programs and attaches them; nothing is summed up yet. The text says why that cannot be.
    pub fn open(machine: Machine<'_>) -> Result<Self, String> {
        let tracefs = Tracefs::find(&machine.roots.sys)?;
        let mut formats = Vec::new();
        for (tracepoint, called) in TRACEPOINTS {
            let described = tracefs.describe(tracepoint)?;
            let format =
                Format::parse(&described.format).map_err(|error| format!("{tracepoint}: {error}"))?;
            formats.push((tracepoint, called, described.id, format));
        }
        let maps = AllMaps::new(&machine).map_err(|(what, error)| {
            format!("cannot make the map `{what}`: {}", why_not_allowed(&error, machine.roots))
        })?;
        let (mut attached, mut loaded) = (Vec::new(), Vec::new());
        for (tracepoint, called, id, format) in formats {
            let code = programs::program(tracepoint, &format, maps.numbers());
            let code = code.ok_or_else(|| format!("the format of {tracepoint} lacks a field"))?;
            let program = kernel::load(called, &code).map_err(|error| {
                format!("cannot load the program `{called}`: {}", why_not_allowed(&error, machine.roots))
            })?;
            let event = attach(id, &program, machine.online).map_err(|error| {
                format!("cannot attach to {tracepoint}: {}", why_refused(&error, machine.roots))
            })?;
            attached.push(event);
            loaded.push(program);
        }
        Ok(Self { _attached: attached, _programs: loaded, maps })
    }

    /// From here on all is summed up.
    pub fn begin(&self) -> io::Result<()> {
        self.maps.is_on.put(&ONLY, &1_u32.to_ne_bytes())
    }

    /// Nothing is summed up any more, once the programs that run at this moment have ended.
    pub fn end(&self) -> io::Result<()> {
        self.maps.is_on.put(&ONLY, &0_u32.to_ne_bytes())
    }

    /// What was summed up, some microseconds after the end.
    pub fn read(&self) -> io::Result<Summed> {
        let mut summed = Summed::default();
        let mut key: Option<Vec<u8>> = None;
        while let Some(next) = self.maps.sums.next(key.as_deref())? {
            let [disk, number] = [0, 1].map(|at| word(&next, at));
            let op = Op::ALL.get((number % OF_BIOS) as usize);
            let op = *op.ok_or_else(|| io::Error::other("a program counted an operation that is none"))?;
            let all = self.maps.sums.get(&next)?;
            let served = summed.served.entry((disk, op)).or_default();
            all.chunks_exact(SUMS).for_each(|of_cpu| served.add(&served_of(of_cpu, number >= OF_BIOS)));
            key = Some(next);
        }
        let of_cpus = self.maps.without_room.get(&ONLY)?;
        summed.without_room = (0..of_cpus.len() / 8).map(|cpu| double(&of_cpus, cpu)).sum();
        Ok(summed)
    }
}

impl AllMaps {
    fn new(machine: &Machine<'_>) -> Result<Self, (&'static str, io::Error)> {
        let map = |kind, called, sizes, entries| {
            Map::new(kind, called, sizes, entries, machine.cpus).map_err(|error| (called, error))
        };
        let partitions = &machine.partitions[..machine.partitions.len().min(MOST_PARTITIONS)];
        let maps = Self {
            is_on: map(MapKind::Array, "flyball_on", [4, 4], 1)?,
            disks: map(MapKind::Hash, "flyball_disks", [4, 4], partitions.len().max(1) as u32)?,
            bios: map(MapKind::Array, "flyball_bios", [4, BIO], PLACES)?,
            requests: map(MapKind::Array, "flyball_request", [4, REQUEST], PLACES)?,
            sums: map(MapKind::HashOfEachCpu, "flyball_sums", [OF, SUMS], machine.room)?,
            nothing: map(MapKind::Array, "flyball_nothing", [4, SUMS], 1)?,
            without_room: map(MapKind::ArrayOfEachCpu, "flyball_no_room", [4, 8], 1)?,
        };
        for (partition, disk) in partitions {
            let put = maps.disks.put(&partition.to_ne_bytes(), &disk.to_ne_bytes());
            put.map_err(|error| ("flyball_disks", error))?;
        }
        Ok(maps)
    }

    fn numbers(&self) -> Maps {
        Maps {
            is_on: self.is_on.number(),
            disks: self.disks.number(),
            bios: self.bios.number(),
            requests: self.requests.number(),
            sums: self.sums.number(),
            nothing: self.nothing.number(),
            without_room: self.without_room.number(),
        }
    }
}

/// Pairs of device and operation that there is room for where there are so many devices, and so many CPUs at
/// the most: of each device four, and some that come.
pub fn room(disks: usize, cpus: usize) -> u32 {
    const THAT_COME: usize = 32;
    let in_memory = MOST_BYTES / (SUMS * cpus.max(1));
    (4 * disks + THAT_COME).min(MOST_SUMS).min(in_memory).max(1) as u32
}

/// A program runs on every CPU, though the event that attaches it is of one and is never enabled itself; it
/// goes with the event.
fn attach(tracepoint: u64, program: &OwnedFd, cpu: u16) -> io::Result<File> {
    let event = attachable(tracepoint, cpu)?;
    // SAFETY: descriptors of a perf event and of a program.
    let set = unsafe { perf::ioctls::SET_BPF(event.as_raw_fd(), program.as_raw_fd().cast_unsigned()) };
    if set < 0 { Err(io::Error::last_os_error()) } else { Ok(event) }
}

/// What one CPU has of a device and operation.
fn served_of(bytes: &[u8], is_bios: bool) -> Served {
    let [first, second] = [0, 1].map(|which| took_of(&bytes[16 + which * TIMES..][..TIMES]));
    let (count, sectors) = (double(bytes, 0), double(bytes, 1));
    let served = Served { count, sectors, ..Served::default() };
    if is_bios {
        Served { whole: second, ..served }
    } else {
        Served { queue: first, service: second, ..served }
    }
}

fn took_of(bytes: &[u8]) -> Took {
    let sums = Took::sums(double(bytes, 0), Nanos::new(double(bytes, 1)), Nanos::new(double(bytes, 2)));
    let buckets = (0..BUCKETS).map(|at| (FIRST_BUCKET + at as u16, double(bytes, 3 + at)));
    sums.with_buckets(buckets.filter(|(_, count)| *count > 0)).expect("all of these are buckets")
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(
        *bytes[4 * at..].first_chunk().expect("the kernel gave as many bytes as were asked for"),
    )
}

fn double(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(
        *bytes[8 * at..].first_chunk().expect("the kernel gave as many bytes as were asked for"),
    )
}

/// What refuses BPF, by its value, and what would allow it.
fn why_not_allowed(error: &io::Error, roots: &Roots) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM) => {
            let read =
                |path: std::path::PathBuf| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
            let value = read(roots.proc.join("sys/kernel/unprivileged_bpf_disabled"));
            let value = value.unwrap_or_else(|| "not readable".to_owned());
            let lockdown = read(roots.sys.join("kernel/security/lockdown"));
            let lockdown = lockdown.map(|mode| format!(" and lockdown is {mode}")).unwrap_or_default();
            format!(
                "{error}; kernel.unprivileged_bpf_disabled is {value}{lockdown}: run as root, or give CAP_BPF and CAP_PERFMON (before Linux 5.8 CAP_SYS_ADMIN)"
            )
        }
        Some(libc::ENOSYS) => format!("{error}: this kernel has no BPF (CONFIG_BPF_SYSCALL)"),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn room_is_for_what_is_there_and_bounded_in_number_and_memory() {
        assert_eq!(room(2, 4), 40);
        assert_eq!(room(10_000, 2), MOST_SUMS as u32);
        let large = room(10_000, 512) as usize;
        assert!((1..100).contains(&large) && large * SUMS * 512 <= MOST_BYTES, "{large}");
    }

    /// What is summed up of reads and writes of a file beside this one, and the number of its filesystem's
    /// device; says where nothing can be.
    fn of_a_file(partitions: impl FnOnce(u32) -> Vec<(u32, u32)>, room: u32) -> Option<(Summed, u32)> {
        let roots = Roots::default();
        let possible = fs::read_to_string("/sys/devices/system/cpu/possible").unwrap();
        let cpus = parse::kernel::cpu_list::parse(possible.trim()).unwrap().iter().count();
        let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let device = fs::metadata(folder.path()).unwrap().dev();
        let device = libc::major(device) << 20 | libc::minor(device);
        let partitions = partitions(device);
        let machine = Machine { partitions: &partitions, room, cpus, online: 0, roots: &roots };
        let sums = match RequestSums::open(machine) {
            Ok(sums) => sums,
            Err(why) => {
                testing::skip(why);
                return None;
            }
        };
        sums.begin().unwrap();
        let path = folder.path().join("file");
        for _ in 0..20 {
            fs::write(&path, vec![1; 1 << 20]).unwrap();
            let file = File::open(&path).unwrap();
            file.sync_all().unwrap();
            // SAFETY: a descriptor and numbers; what is in the page cache is read anew.
            unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
            assert_eq!(fs::read(&path).unwrap().len(), 1 << 20);
        }
        sums.end().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(2));
        let summed = sums.read().unwrap();
        if summed.served.is_empty() {
            testing::skip("this file is on no disk");
            return None;
        }
        Some((summed, device))
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let Some((summed, _)) = of_a_file(|_| Vec::new(), 1) else { return };
        assert_eq!(summed.served.len(), 1, "{:?}", summed.served);
        assert!(summed.without_room >= 20, "{}", summed.without_room);
    }

    #[test]
    fn a_bio_of_a_partition_is_one_of_its_disk() {
        let Some((as_it_is, device)) = of_a_file(|_| Vec::new(), 64) else { return };
        let write = |summed: &Summed| summed.served.get(&(device, Op::Write)).cloned();
        let Some(queued) = write(&as_it_is).filter(|writes| writes.queue.count >= 20) else {
            return testing::skip("this file's filesystem is on no disk with requests of its own");
        };
        // As if it were a part of another disk, which has no request where the bio was queued.
        let Some((moved, _)) = of_a_file(|device| vec![(device, device + 1)], 64) else { return };
        let writes = write(&moved).unwrap();
        assert!(writes.service.count >= 20 && writes.queue.count == 0, "{writes:?}, and {queued:?}");
    }

    #[test]
    fn who_is_refused_reads_the_value_and_the_capability() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("sys/kernel")).unwrap();
        fs::write(root.path().join("sys/kernel/unprivileged_bpf_disabled"), "2\n").unwrap();
        let roots = Roots { proc: root.path().into(), sys: root.path().into() };
        let why = why_not_allowed(&io::Error::from_raw_os_error(libc::EPERM), &roots);
        assert!(why.contains("unprivileged_bpf_disabled is 2") && why.contains("CAP_BPF"), "{why}");
        let why = why_not_allowed(&io::Error::from_raw_os_error(libc::ENOSYS), &roots);
        assert!(why.contains("CONFIG_BPF_SYSCALL"), "{why}");
    }
}
