//! Tracepoints and a profile beside the samples: for each CPU a ring that all its tracepoints share, and one
//! of the clock that samples call stacks. They are drained at the sampler's own wake-ups.
//!
//! Draining copies bytes: it parses nothing, allocates nothing and waits for nobody. What finds no room in a
//! ring is counted by the kernel, and what fired is read at the end: so all that is lost is known by CPU and
//! tracepoint.

mod allowance;
mod profile;
mod reopening;
mod ring;
pub mod symbols;
mod tracefs;

use crate::buffers::{Buffers, Written};
use crate::recorder::Roots;
use crate::request_sums::{Machine, RequestSums, room};
use crate::tasks::Tasks;
use crate::texts::numbered;
use crate::{Result, clock};
use allowance::{Allowance, Order};
use domain::event_set::{Set, Sets};
use domain::{Nanos, Timestamp};
use events::{HEADER, Head, Kind, MAGIC, Owner, header};
use parse::kernel::cpu_list;
use reopening::{How, Reopened, Reopening};
use ring::Ring;
pub use ring::tracepoint as attachable;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
pub use tracefs::Tracefs;

/// Events a second of one CPU that a ring of the default size holds from one drain to the next, and twice
/// that. It is the aim; no load of benches/events has come near it yet.
const RATE: u64 = 1_000_000;

/// What a record takes in the mean, in bytes: header, time and size, and 32 to 72 bytes of its own.
const RECORD_BYTES: u64 = 80;

/// No ring is smaller: a wake-up may come late on a busy machine.
const LEAST_RING: u64 = 512 << 10;

/// No ring is larger, and all together are not.
const MOST_RING: u64 = 16 << 20;
const MOST_RINGS: u64 = 256 << 20;

/// Buffers between the sampler and the disk: with the rings they outlast a disk that stalls for a while.
const BUFFER_BYTES: usize = 1 << 20;
const BUFFERS: usize = 32;

/// How long a CPU may take to write the records that it had begun when its events were disabled: it is
/// microseconds, and more where a hypervisor has stopped it.
const LAST_RECORDS: Duration = Duration::from_millis(2);

/// Every so many drains it is looked whether a CPU went or came.
const LOOK_AT_CPUS: u64 = 16;

/// The most text that a list of CPUs has.
const LIST_BYTES: usize = 4096;

/// What is recorded besides samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Events {
    /// Which tracepoints.
    pub sets: Sets,
    /// The file; an existing one is overwritten.
    pub file: PathBuf,
    /// The bytes of one CPU's ring; `None` for what the interval and the number of CPUs ask for.
    pub ring_bytes: Option<u64>,
    /// Whether a part of each second is enough of the tracepoints: nobody asked for events.
    pub is_in_passing: bool,
}

impl Events {
    /// Each event of these sets, in rings of the size that the interval asks for.
    pub fn of(sets: Sets, file: PathBuf) -> Self {
        Self { sets, file, ring_bytes: None, is_in_passing: false }
    }

    /// What every recording has: the profile, and a part of each second of how devices are used.
    pub fn in_passing(file: PathBuf) -> Self {
        Self { is_in_passing: true, ..Self::of(Sets::in_passing(), file) }
    }
}

/// How large the ring of a CPU has to be: what comes at [`RATE`] within two intervals, rounded up to a power
/// of two. With longer intervals than a ring has room for, a high rate loses events, which is counted.
pub fn ring_bytes(interval: Nanos, cpus: usize) -> u64 {
    let wanted = interval.get().saturating_mul(2 * RATE / 1_000_000).saturating_mul(RECORD_BYTES) / 1_000;
    let of_all = 1 << (MOST_RINGS / cpus.max(1) as u64).max(LEAST_RING / 8).ilog2();
    wanted.clamp(LEAST_RING, MOST_RING).next_power_of_two().min(of_all)
}

/// All rings, and the file that they are drained into.
#[derive(Debug)]
pub struct Rings {
    rings: Vec<Ring>,
    out: Buffers,
    formats: Vec<String>,
    cpus: u32,
    online: Option<File>,
    online_then: Vec<u8>,
    online_now: Vec<u8>,
    drains: u64,
    origin: Nanos,
    /// The time between two call stacks, where there are any.
    period: Option<Nanos>,
    devices: BTreeSet<u32>,
    /// Where nobody asked for events.
    allowance: Option<Allowance>,
    /// How long devices take, where nobody asked for events and the kernel can sum that up.
    sums: Option<RequestSums>,
    /// How the rings of a CPU that came back are opened.
    how: How,
    reopening: Reopening,
    /// Of rings that ended with their CPU: how often each tracepoint fired in them, by CPU and tracepoint,
    /// and what was taken from them, of tracepoints and of clocks.
    fired: BTreeMap<(u16, u16), u64>,
    drained: [u64; 2],
    /// What is not recorded, and why.
    pub absent: Vec<String>,
}

impl Rings {
    /// Opens all that can be, not enabled yet. What cannot be is in `absent`; where nothing can, the file
    /// says so and has no events.
    ///
    /// # Errors
    /// Where the file cannot be made.
    pub fn open(wanted: &Events, roots: &Roots, interval: Nanos) -> Result<Self> {
        let out = Buffers::create(&wanted.file, MAGIC, BUFFER_BYTES, BUFFERS)?;
        crate::threads::raise_descriptors();
        let folder = roots.sys.join("devices/system/cpu");
        let list = |file: &str| {
            let text = fs::read_to_string(folder.join(file)).ok()?;
            Some(cpu_list::parse(text.trim()).ok()?.iter().collect::<Vec<u32>>())
        };
        let online = list("online").unwrap_or_default();
        let possible = list("possible").unwrap_or_else(|| online.clone());
        let mut rings = Self {
            rings: Vec::new(),
            out,
            formats: Vec::new(),
            cpus: possible.last().map_or(0, |last| last + 1),
            online: File::open(folder.join("online")).ok(),
            online_then: Vec::with_capacity(LIST_BYTES),
            online_now: vec![0; LIST_BYTES],
            drains: 0,
            origin: Nanos::ZERO,
            period: None,
            devices: BTreeSet::new(),
            allowance: wanted.is_in_passing.then(Allowance::default),
            sums: None,
            how: How { roots: roots.clone(), ..How::default() },
            reopening: Reopening::default(),
            fired: BTreeMap::new(),
            drained: [0; 2],
            absent: Vec::new(),
        };
        let points = rings.describe(&wanted.sets, &roots.sys);
        if !points.is_empty() {
            let bytes = wanted.ring_bytes.unwrap_or_else(|| ring_bytes(interval, online.len()));
            rings.open_all(&online, &points, bytes, roots);
        }
        if wanted.sets.contains(Set::Profile) {
            rings.open_clocks(&online, interval, roots);
        }
        if wanted.is_in_passing {
            rings.open_sums(&online, roots);
        }
        let length = rings.read_online();
        rings.online_then.extend_from_slice(&rings.online_now[..length]);
        Ok(rings)
    }

    /// Of which CPUs there is nothing; all for one reason, mostly, which is said once.
    fn tell_failed(&mut self, what: &str, failed: Vec<(u16, String)>, cpus: usize) {
        if failed.len() < cpus {
            return self
                .absent
                .extend(failed.iter().map(|(cpu, why)| format!("no {what} of CPU {cpu}: {why}")));
        }
        let why = failed.into_iter().next().map_or("no CPU is online".to_owned(), |(_, why)| why);
        self.absent.push(format!("no {what}: {why}"));
    }

    /// What is recorded of tracepoints.
    fn named(&self) -> &'static str {
        if self.allowance.is_some() { "access patterns" } else { "events" }
    }

    /// How long devices take, summed up by the kernel.
    fn open_sums(&mut self, online: &[u32], roots: &Roots) {
        let devices = self.devices(&roots.proc);
        let of_a_disk = devices.iter().filter(|(device, disk, _)| device != disk);
        let partitions: Vec<(u32, u32)> = of_a_disk.map(|(device, disk, _)| (*device, *disk)).collect();
        let cpus = self.cpus as usize;
        let machine = Machine {
            partitions: &partitions,
            room: room(devices.len() - partitions.len(), cpus),
            cpus,
            online: online.first().and_then(|cpu| u16::try_from(*cpu).ok()).unwrap_or(0),
            roots,
        };
        match RequestSums::open(machine) {
            Ok(sums) => self.sums = Some(sums),
            Err(why) => self.absent.push(no_sums(&why)),
        }
    }

    /// The clock of each CPU that samples call stacks.
    fn open_clocks(&mut self, online: &[u32], interval: Nanos, roots: &Roots) {
        let period = profile::period(interval, profile::most_samples(&roots.proc));
        let bytes =
            usize::try_from(profile::ring_bytes(interval, period, online.len())).unwrap_or(usize::MAX / 4);
        let mut failed = Vec::new();
        for cpu in online.iter().filter_map(|cpu| u16::try_from(*cpu).ok()) {
            match Ring::open_clock(cpu, period, bytes) {
                Ok(ring) => {
                    self.rings.push(ring);
                    self.period = Some(period);
                    self.how.clock = Some((period, bytes));
                }
                Err(error) => failed.push((cpu, why_refused(&error, roots))),
            }
        }
        self.tell_failed("profile", failed, online.len());
    }

    /// The tracepoints that there are, by number.
    fn describe(&mut self, sets: &Sets, sys: &Path) -> BTreeMap<u64, &'static str> {
        let mut points = BTreeMap::new();
        if sets.tracepoints().next().is_none() {
            return points;
        }
        let tracefs = match Tracefs::find(sys) {
            Ok(tracefs) => tracefs,
            Err(why) => {
                self.absent.push(format!("no {}: {why}", self.named()));
                return points;
            }
        };
        let (known, missing): (Vec<&'static str>, Vec<&'static str>) =
            sets.tracepoints().partition(|name| tracefs.has(name));
        self.absent.extend(tracefs.lacks(&missing));
        for name in known {
            match tracefs.describe(name) {
                Ok(described) => {
                    self.formats.push(format!("{name}\n{}", described.format));
                    points.insert(described.id, name);
                }
                Err(why) => self.absent.push(why),
            }
        }
        points
    }

    fn open_all(&mut self, online: &[u32], points: &BTreeMap<u64, &str>, bytes: u64, roots: &Roots) {
        let ids: Vec<u64> = points.keys().copied().collect();
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX / 4);
        let mut refused: BTreeMap<u64, String> = BTreeMap::new();
        let (mut smaller, mut failed) = (None, Vec::new());
        for cpu in online.iter().filter_map(|cpu| u16::try_from(*cpu).ok()) {
            let of_cpu = |id, error: &io::Error| {
                refused.entry(id).or_insert_with(|| why_refused(error, roots));
            };
            match Ring::open(cpu, &ids, bytes, of_cpu) {
                Ok(ring) => {
                    smaller = (ring.bytes() < bytes).then_some(ring.bytes()).or(smaller);
                    self.rings.push(ring);
                    (self.how.tracepoints, self.how.bytes) = (ids.clone(), bytes);
                }
                Err(error) => failed.push((cpu, why_refused(&error, roots))),
            }
        }
        self.tell_failed(self.named(), failed, online.len());
        self.absent.extend(refused.iter().map(|(id, why)| format!("no event {}: {why}", points[id])));
        if let Some(bytes) = smaller {
            self.absent.push(format!(
                "events may be lost: rings have {} KiB each, for no more memory may be locked; raise kernel.perf_event_mlock_kb, or give CAP_IPC_LOCK",
                bytes >> 10
            ));
        }
    }

    /// Writes what is there, and enables the events: from here on all is recorded.
    pub fn begin(&mut self, origin: Nanos, start: Timestamp, tasks: Option<&Tasks>, proc: &Path) {
        self.origin = origin;
        let kernel = fs::read_to_string(proc.join("sys/kernel/osrelease")).unwrap_or_default();
        let ring_bytes = self.rings.first().map_or(0, |ring| ring.bytes() as u64);
        let head = Head { origin, start, cpus: self.cpus, ring_bytes, kernel: kernel.trim().to_owned() };
        self.frame(Kind::Head, 0, &[&head.bytes()]);
        if let Some(period) = self.period {
            self.frame(Kind::Period, 0, &[&period.get().to_le_bytes()]);
        }
        for format in std::mem::take(&mut self.formats) {
            self.frame(Kind::Format, 0, &[format.as_bytes()]);
        }
        for note in std::mem::take(&mut self.absent) {
            self.frame(Kind::Absent, 0, &[note.as_bytes()]);
            self.absent.push(note);
        }
        self.declare_policies();
        self.declare_devices(proc);
        if let Some(tasks) = tasks {
            self.declare_tasks(tasks, proc);
        }
        let failed: Vec<String> = self
            .rings
            .iter()
            .filter_map(|ring| Some(format!("no events of CPU {}: {}", ring.cpu, ring.enable().err()?)))
            .collect();
        for note in failed {
            self.frame(Kind::Absent, 0, &[note.as_bytes()]);
            self.absent.push(note);
        }
        if let Some(Err(error)) = self.sums.as_ref().map(RequestSums::begin) {
            self.without_sums(&error.to_string());
        }
        self.frame(Kind::Begin, 0, &[&clock::monotonic().get().to_le_bytes()]);
    }

    fn declare_tasks(&mut self, tasks: &Tasks, proc: &Path) {
        for (pid, owner, name) in tasks.known() {
            self.frame(Kind::Task, 0, &[&pid.to_le_bytes(), &[owner as u8], name.as_bytes()]);
            if owner == Owner::Kernel {
                continue;
            }
            let entries = fs::read_dir(proc.join(pid.to_string()).join("task")).into_iter().flatten();
            let tids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
            for tid in tids.filter(|tid| *tid != pid) {
                self.frame(Kind::Thread, 0, &[&tid.to_le_bytes(), &pid.to_le_bytes()]);
            }
        }
    }

    /// The CPUs of each frequency policy that are online: its governor decides by the busiest of them.
    fn declare_policies(&mut self) {
        for (policy, cpus) in policies(&self.how.roots.sys) {
            let cpus: Vec<u8> = cpus.iter().flat_map(|cpu| cpu.to_le_bytes()).collect();
            self.frame(Kind::Policy, policy, &[&cpus]);
        }
    }

    /// Those that are not in the file yet.
    fn declare_devices(&mut self, proc: &Path) {
        for (device, disk, name) in self.devices(proc) {
            if self.devices.insert(device) {
                self.frame(Kind::Device, 0, &[&device.to_le_bytes(), &disk.to_le_bytes(), name.as_bytes()]);
            }
        }
    }

    /// Each block device with its disk and name, as the kernel numbers them within: twelve bits of major,
    /// twenty of minor (include/linux/kdev_t.h).
    fn devices(&self, proc: &Path) -> Vec<(u32, u32, String)> {
        let text = fs::read_to_string(proc.join("diskstats")).unwrap_or_default();
        let device = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let mut number = || words.next()?.parse::<u32>().ok();
            let device = number()? << 20 | number()?;
            let name = words.next()?.to_owned();
            Some((device, self.disk_of(&name).unwrap_or(device), name))
        };
        text.lines().filter_map(device).collect()
    }

    /// The number of the disk that a partition is of; `None` of what is no partition.
    fn disk_of(&self, name: &str) -> Option<u32> {
        let folder = self.how.roots.sys.join("class/block").join(name);
        let number = fs::read_to_string(folder.join("partition")).and_then(|_| {
            let folder = fs::canonicalize(&folder)?;
            fs::read_to_string(folder.parent().unwrap_or(&folder).join("dev"))
        });
        let number = number.ok()?;
        let (major, minor) = number.trim().split_once(':')?;
        Some(major.parse::<u32>().ok()? << 20 | minor.parse::<u32>().ok()?)
    }

    /// A process and its descendants are the workload, and were from their start on.
    pub fn follow(&mut self, root: u32, tasks: &Tasks) {
        let workload = tasks.known().filter(|(_, owner, _)| *owner == Owner::Workload).map(|(pid, ..)| pid);
        for pid in workload.chain([root]) {
            self.frame(Kind::Owner, 0, &[&pid.to_le_bytes(), &[Owner::Workload as u8]]);
        }
    }

    /// Takes what the rings have. Where the disk does not keep up, it stays in them.
    pub fn drain(&mut self) {
        let began = clock::monotonic();
        let mut all = true;
        for ring in &self.rings {
            all &= ring.drain(&mut self.out);
        }
        if all && self.out.has_room(HEADER + 8) {
            self.frame(Kind::Round, 0, &[&began.get().to_le_bytes()]);
        }
        self.drains += 1;
        if self.drains.is_multiple_of(LOOK_AT_CPUS) {
            self.look_at_cpus(began);
            self.bound_profile(began);
            self.open_anew();
        }
        if let Some(reopened) = self.reopening.done() {
            self.take_up(reopened, began);
        }
        self.keep_to_allowance(began);
    }

    /// Has the rings of CPUs that came back opened anew, where these have nothing left to be taken.
    fn open_anew(&mut self) {
        let failed = match self.reopening.due() {
            None => return,
            Some(Err(failed)) => Err(failed),
            Some(Ok(cpus)) => {
                let Self { rings, out, .. } = self;
                let is_over = |ring: &mut Ring| cpus.contains(&ring.cpu) && ring.drain(out);
                let old: Vec<Ring> = rings.extract_if(.., is_over).collect();
                for ring in &old {
                    self.drained[usize::from(ring.is_clock())] += ring.drained();
                }
                self.reopening.begin(self.how.clone(), cpus, old)
            }
        };
        if let Err(failed) = failed {
            self.take_up(failed, clock::monotonic());
        }
    }

    /// Takes up rings that were opened anew: from here on what their CPUs do is recorded again.
    fn take_up(&mut self, reopened: Reopened, now: Nanos) {
        for (of, count) in reopened.fired {
            *self.fired.entry(of).or_default() += count;
        }
        let since = now.saturating_sub(self.origin);
        let failed = reopened.failed.into_iter();
        let mut notes: Vec<String> = failed
            .map(|(cpu, why)| format!("not all is recorded of CPU {cpu}, which came at {since}: {why}"))
            .collect();
        let pauses = self.allowance.as_ref().is_some_and(Allowance::pauses);
        for ring in reopened.rings {
            if ring.is_clock() && self.how.clock.is_none() {
                continue;
            }
            // One that pauses goes on with the others.
            let goes_on = ring.is_clock() || !pauses;
            match goes_on.then(|| ring.enable()).transpose() {
                Ok(_) => self.rings.push(ring),
                Err(error) => notes.push(format!("no events of CPU {}, which came: {error}", ring.cpu)),
            }
        }
        notes.into_iter().for_each(|note| self.note(note));
    }

    /// What was taken of tracepoints, or of clocks.
    fn taken(&self, of_clocks: bool) -> u64 {
        let rings = self.rings.iter().filter(|ring| ring.is_clock() == of_clocks);
        self.drained[usize::from(of_clocks)] + rings.map(Ring::drained).sum::<u64>()
    }

    /// Takes a part of each second where nobody asked for events.
    fn keep_to_allowance(&mut self, now: Nanos) {
        let taken = self.taken(false);
        let Some(allowance) = &mut self.allowance else { return };
        let order = allowance.next(now, taken);
        for ring in self.rings.iter().filter(|ring| !ring.is_clock()) {
            // One whose CPU is gone is off already.
            let _ = match order {
                Order::Nothing => return,
                Order::GoOn => ring.enable(),
                Order::Pause | Order::End => ring.disable(),
            };
        }
        if order == Order::End {
            let note =
                format!("how devices are used is known until {} alone", now.saturating_sub(self.origin));
            self.note(note);
        }
    }

    /// Ends the profile where it has become large: samples enough, and a disk is finite.
    fn bound_profile(&mut self, now: Nanos) {
        if self.how.clock.is_none() || self.taken(true) < profile::MOST_BYTES {
            return;
        }
        self.how.clock = None;
        for clock in self.rings.extract_if(.., |ring| ring.is_clock()) {
            // One whose CPU is gone is off already.
            let _ = clock.disable();
        }
        let note = format!(
            "the profile ends at {}: call stacks have {} MiB by then",
            now.saturating_sub(self.origin),
            profile::MOST_BYTES >> 20
        );
        self.note(note);
    }

    fn look_at_cpus(&mut self, now: Nanos) {
        if self.how.tracepoints.is_empty() && self.how.clock.is_none() {
            return;
        }
        let length = self.read_online();
        if self.online_now[..length] == self.online_then[..] {
            return;
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        let note = format!(
            "the CPUs that are online changed from {} to {} at {}: of one that is away there are no events",
            text(&self.online_then),
            text(&self.online_now[..length]),
            now.saturating_sub(self.origin)
        );
        for (cpu, online) in changes(&text(&self.online_then), &text(&self.online_now[..length])) {
            self.frame(Kind::Cpu, cpu, &[&now.get().to_le_bytes(), &[online.into()]]);
            if online {
                self.reopening.wants(&[cpu]);
            } else {
                for ring in self.rings.iter().filter(|ring| ring.cpu == cpu) {
                    // They are off already where the CPU took them with it.
                    let _ = ring.disable();
                }
            }
        }
        self.online_then.clear();
        self.online_then.extend_from_slice(&self.online_now[..length]);
        self.note(note);
    }

    /// Reads the list of CPUs that are online, and gives its length.
    fn read_online(&mut self) -> usize {
        let file = self.online.as_ref();
        file.and_then(|file| file.read_at(&mut self.online_now, 0).ok()).unwrap_or(0)
    }

    /// Ends: takes what is left, and what fired.
    ///
    /// # Errors
    /// Where the writing thread panicked.
    pub fn finish(mut self, proc: &Path) -> Result<(Written, Vec<String>)> {
        self.look_at_cpus(clock::monotonic());
        if let Some(reopened) = self.reopening.wait() {
            self.take_up(reopened, clock::monotonic());
        }
        let end = clock::monotonic();
        for ring in &self.rings {
            // One whose CPU is gone is off already.
            let _ = ring.disable();
        }
        let ended = self.sums.as_ref().map(RequestSums::end);
        if let Some(Err(error)) = ended {
            self.without_sums(&error.to_string());
        }
        // The order to a CPU may have interrupted it while it wrote a record, which is there once it goes on.
        std::thread::sleep(LAST_RECORDS);
        self.drain_all();
        for mut ring in std::mem::take(&mut self.rings) {
            let cpu = ring.cpu;
            for (id, count) in ring.fired() {
                *self.fired.entry((cpu, id)).or_default() += count;
            }
        }
        for ((cpu, id), count) in std::mem::take(&mut self.fired) {
            self.frame(Kind::Fired, cpu, &[&id.to_le_bytes(), &count.to_le_bytes()]);
        }
        self.write_sums();
        self.declare_devices(proc);
        self.frame(Kind::End, 0, &[&end.get().to_le_bytes()]);
        Ok((self.out.finish()?, self.absent))
    }

    /// Writes what the kernel summed up.
    fn write_sums(&mut self) {
        let summed = match self.sums.as_ref().map(RequestSums::read) {
            None => return,
            Some(Err(error)) => return self.without_sums(&error.to_string()),
            Some(Ok(summed)) => summed,
        };
        for ((disk, op), served) in &summed.served {
            self.frame(Kind::Served, 0, &[&events::served_bytes(*disk, *op, served)]);
        }
        if summed.without_room > 0 {
            self.note(format!(
                "{} requests are not among the times of devices: there are more devices than were there at the start",
                summed.without_room
            ));
        }
    }

    fn without_sums(&mut self, why: &str) {
        self.sums = None;
        self.note(no_sums(why));
    }

    fn note(&mut self, note: String) {
        self.frame(Kind::Absent, 0, &[note.as_bytes()]);
        self.absent.push(note);
    }

    /// At the end nobody is disturbed by waiting for the disk.
    fn drain_all(&mut self) {
        const LONGEST: Duration = Duration::from_secs(30);
        let begun = Instant::now();
        for ring in &self.rings {
            while !ring.drain(&mut self.out) && begun.elapsed() < LONGEST {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn frame(&mut self, kind: Kind, cpu: u16, parts: &[&[u8]]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        self.out.reserve(HEADER + length);
        self.out.put(&header(kind, cpu, length));
        for part in parts {
            self.out.put(part);
        }
    }
}

/// How long devices take is not summed up by the kernel, and what has it instead.
fn no_sums(why: &str) -> String {
    format!("how long devices took, for BPF cannot sum it up: {why}; `--events=block` has it by events")
}

/// The CPUs that are online of each policy, by its number; one without any is left out.
fn policies(sys: &Path) -> Vec<(u16, Vec<u16>)> {
    let folder = sys.join("devices/system/cpu/cpufreq");
    let policy = |number: u32| {
        let text = fs::read_to_string(folder.join(format!("policy{number}/affected_cpus"))).ok()?;
        let cpus = cpu_list::parse(text.trim()).ok()?;
        let cpus: Vec<u16> = cpus.iter().filter_map(|cpu| u16::try_from(cpu).ok()).collect();
        Some((u16::try_from(number).ok()?, cpus)).filter(|(_, cpus)| !cpus.is_empty())
    };
    numbered(&folder, "policy").into_iter().filter_map(policy).collect()
}

/// The CPUs that are in one of two lists alone, each with whether that is the second.
fn changes(then: &str, now: &str) -> Vec<(u16, bool)> {
    let list = |text: &str| cpu_list::parse(text).unwrap_or_default();
    let (then, now) = (list(then), list(now));
    let gone = then.iter().filter(|cpu| !now.contains(*cpu)).map(|cpu| (cpu, false));
    let come = now.iter().filter(|cpu| !then.contains(*cpu)).map(|cpu| (cpu, true));
    gone.chain(come).filter_map(|(cpu, online)| Some((u16::try_from(cpu).ok()?, online))).collect()
}

/// What refuses, by its value, and what would allow it.
pub fn why_refused(error: &io::Error, roots: &Roots) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            let read = |path: PathBuf| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
            let paranoid = read(roots.proc.join("sys/kernel/perf_event_paranoid"));
            let paranoid = paranoid.unwrap_or_else(|| "not readable".to_owned());
            let lockdown = read(roots.sys.join("kernel/security/lockdown"));
            let lockdown = lockdown.map(|mode| format!(" and lockdown is {mode}")).unwrap_or_default();
            format!(
                "{error}; kernel.perf_event_paranoid is {paranoid}{lockdown}: run as root, or give CAP_PERFMON (before Linux 5.8 CAP_SYS_ADMIN)"
            )
        }
        Some(libc::EMFILE | libc::ENFILE) => format!("{error}; raise `ulimit -Hn`"),
        Some(libc::ENODEV | libc::ENXIO) => format!("{error}; it is offline"),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_hold_two_intervals_and_all_together_are_bounded() {
        let kib = |interval, cpus| ring_bytes(Nanos::from_millis(interval), cpus) >> 10;
        assert_eq!(kib(1, 2), 512);
        assert_eq!(kib(10, 2), 2048);
        assert_eq!(kib(1000, 2), 16 << 10);
        assert_eq!(kib(10, 64), 2048);
        assert_eq!(kib(10, 512), 512);
        assert!(kib(1000, 4096) * 4096 <= 512 << 10);
    }

    #[test]
    fn policies_are_declared_with_the_cpus_that_are_online() {
        let sys = tempfile::tempdir().unwrap();
        for (policy, cpus) in [("policy0", "0 1\n"), ("policy2", "2\n"), ("policy3", "\n"), ("boost", "1\n")]
        {
            let folder = sys.path().join("devices/system/cpu/cpufreq").join(policy);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("affected_cpus"), cpus).unwrap();
        }
        assert_eq!(policies(sys.path()), [(0, vec![0, 1]), (2, vec![2])]);
    }

    #[test]
    fn cpus_that_went_and_came_are_those_of_one_list_alone() {
        assert_eq!(changes("0-3", "0,2-4"), [(1, false), (4, true)]);
        assert_eq!(changes("0-3", "0-3"), []);
    }

    #[test]
    fn who_is_refused_reads_the_value_and_the_capability() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("sys/kernel")).unwrap();
        fs::write(root.path().join("sys/kernel/perf_event_paranoid"), "3\n").unwrap();
        fs::create_dir_all(root.path().join("kernel/security")).unwrap();
        fs::write(root.path().join("kernel/security/lockdown"), "none [integrity] confidentiality\n")
            .unwrap();
        let roots = Roots { proc: root.path().into(), sys: root.path().into() };
        let why = why_refused(&io::Error::from_raw_os_error(libc::EACCES), &roots);
        assert!(why.contains("perf_event_paranoid is 3") && why.contains("CAP_PERFMON"), "{why}");
        assert!(why.contains("lockdown is none [integrity] confidentiality"), "{why}");
    }
}
