//! The ring of one CPU, and the perf events that write into it (perf_event_open(2)).

use crate::buffers::Buffers;
use domain::Nanos;
use events::{HEADER, Kind, header};
use perf::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_RAW, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
    PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT, perf_event_attr, perf_event_mmap_page,
};
use perf_event_open_sys as perf;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

/// The pages that the kernel writes records into. Mapped for reading and writing: so it overwrites nothing
/// that was not read, and counts what found no room.
#[derive(Debug)]
struct Mapped {
    start: NonNull<u8>,
    page: usize,
    /// A power of two.
    data: usize,
}

// SAFETY: the mapping is this process's, and whoever owns it alone reads it and moves its tail.
unsafe impl Send for Mapped {}

impl Mapped {
    fn new(event: &File, data: usize) -> io::Result<Self> {
        // SAFETY: it takes a number alone.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).map_err(io::Error::other)?;
        let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
        // SAFETY: a new mapping of a descriptor of ours, at an address that the kernel chooses.
        let start =
            unsafe { libc::mmap(ptr::null_mut(), page + data, protection, flags, event.as_raw_fd(), 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or_else(|| io::Error::other("it is mapped at zero"))?;
        Ok(Self { start, page, data })
    }

    fn control(&self) -> *mut perf_event_mmap_page {
        self.start.as_ptr().cast()
    }

    fn head(&self) -> &AtomicU64 {
        // SAFETY: the control page is mapped as long as this lives, and aligned.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.control()).data_head) }
    }

    fn tail(&self) -> &AtomicU64 {
        // SAFETY: as above.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.control()).data_tail) }
    }

    /// So many bytes from a position on, in two pieces where they go over the end.
    ///
    /// The kernel writes none of them until the tail is moved behind them.
    fn bytes(&self, from: u64, length: usize) -> [&[u8]; 2] {
        assert!(length <= self.data, "{length} bytes of a ring of {}", self.data);
        let from = from as usize & (self.data - 1);
        let first = length.min(self.data - from);
        // SAFETY: both pieces are within the data pages, which follow the control page.
        unsafe {
            let data = self.start.as_ptr().add(self.page);
            [
                std::slice::from_raw_parts(data.add(from), first),
                std::slice::from_raw_parts(data, length - first),
            ]
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody has a piece of it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.page + self.data) };
    }
}

/// One CPU: its ring, and the events that share it.
#[derive(Debug)]
pub struct Ring {
    /// Which CPU.
    pub cpu: u16,
    mapped: Mapped,
    /// What its frames hold.
    kind: Kind,
    /// With the numbers of their tracepoints; a clock has none.
    events: Vec<(Option<u16>, File)>,
}

impl Ring {
    /// Opens tracepoints on a CPU, not enabled yet. Those that cannot be opened are told to `refused`;
    /// without any there is no ring. A ring for which memory may not be locked becomes smaller.
    ///
    /// # Errors
    /// Where no event can be opened, or none mapped.
    pub fn open(
        cpu: u16,
        tracepoints: &[u64],
        bytes: usize,
        mut refused: impl FnMut(u64, &io::Error),
    ) -> io::Result<Self> {
        let mut events: Vec<(Option<u16>, File)> = Vec::with_capacity(tracepoints.len());
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for id in tracepoints {
            match tracepoint(*id, cpu) {
                Ok(event) => events.push((Some(*id as u16), event)),
                Err(error) => {
                    refused(*id, &error);
                    last = error;
                }
            }
        }
        let Some((_, first)) = events.first() else { return Err(last) };
        let mapped = map(first, bytes)?;
        for (_, other) in &events[1..] {
            // SAFETY: two descriptors of perf events on one CPU.
            if unsafe { perf::ioctls::SET_OUTPUT(other.as_raw_fd(), first.as_raw_fd()) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(Self { cpu, mapped, kind: Kind::Data, events })
    }

    /// Opens the clock that samples the call stack of whoever runs on a CPU, not enabled yet.
    ///
    /// # Errors
    /// Where it cannot be opened or mapped.
    pub fn open_clock(cpu: u16, period: Nanos, bytes: usize) -> io::Result<Self> {
        let clock = clock(period, cpu)?;
        let mapped = map(&clock, bytes)?;
        Ok(Self { cpu, mapped, kind: Kind::Profile, events: vec![(None, clock)] })
    }

    /// The bytes of the ring.
    pub fn bytes(&self) -> usize {
        self.mapped.data
    }

    /// From here on they are recorded.
    pub fn enable(&self) -> io::Result<()> {
        // SAFETY: descriptors of perf events.
        self.each(|event| unsafe { perf::ioctls::ENABLE(event.as_raw_fd(), 0) })
    }

    /// They are recorded no more.
    pub fn disable(&self) -> io::Result<()> {
        // SAFETY: descriptors of perf events.
        self.each(|event| unsafe { perf::ioctls::DISABLE(event.as_raw_fd(), 0) })
    }

    fn each(&self, order: impl Fn(&File) -> libc::c_int) -> io::Result<()> {
        let failed = self.events.iter().any(|(_, event)| order(event) < 0);
        if failed { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Appends what the ring has to the buffers, as far as they have room; whether that was all.
    pub fn drain(&self, to: &mut Buffers) -> bool {
        let head = self.mapped.head().load(Ordering::Acquire);
        // Nobody but us moves the tail.
        let mut tail = self.mapped.tail().load(Ordering::Relaxed);
        let most = to.capacity() - HEADER;
        while tail < head {
            let length = usize::try_from(head - tail).unwrap_or(most).min(most);
            if !to.has_room(HEADER + length) {
                return false;
            }
            to.reserve(HEADER + length);
            to.put(&header(self.kind, self.cpu, length));
            self.mapped.bytes(tail, length).into_iter().for_each(|piece| to.put(piece));
            tail += length as u64;
            self.mapped.tail().store(tail, Ordering::Release);
        }
        true
    }

    /// Whether it is of the clock that samples call stacks.
    pub fn is_clock(&self) -> bool {
        self.kind == Kind::Profile
    }

    /// The bytes that were taken from it.
    pub fn drained(&self) -> u64 {
        self.mapped.tail().load(Ordering::Relaxed)
    }

    /// How often each tracepoint fired here, lost or not.
    pub fn fired(&mut self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.events.iter_mut().filter_map(|(id, event)| {
            let id = (*id)?;
            let mut count = [0; 8];
            event.read_exact(&mut count).ok()?;
            Some((id, u64::from_ne_bytes(count)))
        })
    }
}

/// Maps a ring, or half of it where so much memory may not be locked (`perf_event_mlock_kb`), and so on.
fn map(event: &File, bytes: usize) -> io::Result<Mapped> {
    const LEAST: usize = 16 << 10;
    let mut bytes = bytes.next_power_of_two();
    loop {
        match Mapped::new(event, bytes) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && bytes > LEAST => bytes /= 2,
            other => return other,
        }
    }
}

/// One tracepoint on one CPU, of all processes. The time of the monotonic clock and the raw record are all
/// that is asked for: CPU and event are the ring's and the record's, and the thread is in its common fields,
/// so that two words a record are saved.
pub fn tracepoint(id: u64, cpu: u16) -> io::Result<File> {
    let mut attributes = perf_event_attr {
        type_: PERF_TYPE_TRACEPOINT,
        config: id,
        sample_type: u64::from(PERF_SAMPLE_TIME | PERF_SAMPLE_RAW),
        ..Default::default()
    };
    attributes.__bindgen_anon_1.sample_period = 1;
    open(attributes, cpu)
}

/// A clock of one CPU that runs while a thread does, and not while the CPU is idle: with the kernel's part of
/// the call stack, and with the names and the children that threads get.
fn clock(period: Nanos, cpu: u16) -> io::Result<File> {
    let mut attributes = perf_event_attr {
        type_: PERF_TYPE_SOFTWARE,
        config: PERF_COUNT_SW_CPU_CLOCK.into(),
        sample_type: u64::from(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CALLCHAIN),
        ..Default::default()
    };
    attributes.__bindgen_anon_1.sample_period = period.get();
    attributes.set_exclude_idle(1);
    attributes.set_exclude_callchain_user(1);
    attributes.set_task(1);
    attributes.set_comm(1);
    open(attributes, cpu)
}

/// Opens an event of all processes on one CPU, not enabled yet, whose records have the monotonic clock's
/// time. The watermark is beyond any ring: no wake-up comes.
fn open(mut attributes: perf_event_attr, cpu: u16) -> io::Result<File> {
    attributes.size = size_of::<perf_event_attr>() as u32;
    attributes.clockid = libc::CLOCK_MONOTONIC;
    attributes.__bindgen_anon_2.wakeup_watermark = u32::MAX;
    attributes.set_disabled(1);
    attributes.set_watermark(1);
    attributes.set_sample_id_all(1);
    attributes.set_use_clockid(1);
    let flags = perf::bindings::PERF_FLAG_FD_CLOEXEC.into();
    // SAFETY: the attributes are valid for the length that they name; all processes (-1) on one CPU.
    let descriptor = unsafe { perf::perf_event_open(&raw mut attributes, -1, cpu.into(), -1, flags) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for us, and nobody else owns it.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}
