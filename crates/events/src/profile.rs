//! What CPU time was spent in, by sampled call stacks.
//!
//! A clock of each CPU fires after every so much CPU time of threads, and perf writes who ran and the
//! kernel's functions on the stack, from the one that ran to the one that was called first
//! (perf_event_open(2), `PERF_COUNT_SW_CPU_CLOCK` with `PERF_SAMPLE_CALLCHAIN`). What the kernel does with
//! interrupts off is seen where they are on again. Of the interrupts of devices that is put right where they
//! were recorded ([`crate::held_off`]).

use crate::file::{Frames, Kind, MAX_CPUS, Tables};
use crate::held_off::{Found, HeldOff};
use crate::owner::Owner;
use crate::records::{COMM, FORK, Fields, LOST, LOST_SAMPLES, Record, Records, SAMPLE};
use crate::subsystem::{of_stack, on_stack, plain};
use crate::{Error, Result};
use domain::profile::{Interrupts, Profile, Subsystem};
use domain::trace::Role;
use parse::proc::role::work_role;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{Read, Seek};

/// The byte of `misc` that tells where the CPU was, and the value for a program.
const CPUMODE: u16 = 7;
const USER: u16 = 2;

/// Addresses from here on are marks between the parts of a stack (`PERF_CONTEXT_MAX`).
const MARKS: u64 = -4095_i64 as u64;

/// A function is no longer: behind the last known one, code is of nobody.
const LONGEST_FUNCTION: u64 = 256 << 10;

/// The function that executes what is queued for kworkers (kernel/workqueue.c).
const EXECUTES: &str = "process_one_work";

/// The function that runs a kernel thread's own (kernel/kthread.c).
const MAIN: &str = "kthread";

/// Bounds on what a stranger's file makes of threads, their forefathers and functions.
const MAX_THREADS: usize = 4 << 20;
const MAX_GENERATIONS: usize = 4096;
const MAX_ADDRESSES: usize = 1 << 20;

/// A bound on the samples whose time is kept: 128 MiB, more than a profile of ours has.
const MAX_TIMES: usize = 16 << 20;

/// The tracepoints without which nothing is known of the interrupts of devices.
const OF_INTERRUPTS: [&str; 2] = ["irq/irq_handler_entry", "irq/irq_handler_exit"];

/// A name or a parent that a thread has from a time on.
type Since<T> = HashMap<u32, Vec<(u64, T)>>;

/// What has to be known before samples can be summed: who made whom, and which functions ran.
#[derive(Debug, Default)]
pub struct Seen {
    /// By the new process, the one that made it.
    parents: Since<u32>,
    names: Since<String>,
    /// Every address on a stack.
    pub addresses: BTreeSet<u64>,
    /// When samples were taken, by CPU.
    times: BTreeMap<u16, Vec<u64>>,
    times_kept: usize,
    /// Records that do not read as their type says.
    pub unread: u64,
}

impl Seen {
    /// Reads a recording's forks, names and addresses.
    ///
    /// # Errors
    /// Where it cannot be read, or is damaged.
    pub fn read<R: Read + Seek>(input: R) -> Result<Self> {
        let mut seen = Self::default();
        each_record(input, |cpu, record| seen.unread += u64::from(seen.take(cpu, record).is_none()))?;
        for changes in seen.parents.values_mut() {
            changes.sort_by_key(|(time, _)| *time);
        }
        for changes in seen.names.values_mut() {
            changes.sort_by_key(|(time, _)| *time);
        }
        Ok(seen)
    }

    /// What tells which samples the interrupts of devices held off, once it has the events; `None` where
    /// these do not have them. It takes the times of samples away.
    pub fn held_off(&mut self, tables: &Tables) -> Option<HeldOff> {
        let is_there = |name: &&str| tables.tracepoints.values().any(|point| point.name == **name);
        let mut times = std::mem::take(&mut self.times);
        let period = tables.period.filter(|_| OF_INTERRUPTS.iter().all(is_there))?;
        times.values_mut().for_each(|of_cpu| of_cpu.sort_unstable());
        Some(HeldOff::new(period, times))
    }

    fn take(&mut self, cpu: u16, record: Record<'_>) -> Option<()> {
        let mut fields = Fields(record.bytes);
        match record.kind {
            FORK if self.parents.len() < MAX_THREADS => {
                let (pid, parent) = (fields.u32()?, fields.u32()?);
                fields.u64()?;
                let time = fields.u64()?;
                // A thread of the same process changes nothing.
                if pid != parent {
                    self.parents.entry(pid).or_default().push((time, parent));
                }
            }
            COMM if self.names.len() < MAX_THREADS => {
                let (_, tid) = (fields.u32()?, fields.u32()?);
                let (name, time) = fields.0.split_last_chunk()?;
                // Behind the name, its end and padding stand the thread's numbers again, then the time.
                let name = name.split(|byte| *byte == 0).next()?;
                let name = String::from_utf8_lossy(name).into_owned();
                self.names.entry(tid).or_default().push((u64::from_ne_bytes(*time), name));
            }
            SAMPLE => {
                let sample = Sample::read(record)?;
                if self.times_kept < MAX_TIMES {
                    self.times.entry(cpu).or_default().push(sample.time);
                    self.times_kept += 1;
                }
                for address in sample.stack() {
                    if self.addresses.len() < MAX_ADDRESSES {
                        self.addresses.insert(address);
                    }
                }
            }
            _ => {}
        }
        Some(())
    }

    fn owner(&self, tables: &Tables, mut pid: u32, mut time: u64) -> Owner {
        // A damaged file could have a ring of them.
        for _ in 0..MAX_GENERATIONS {
            if let Some(owner) = tables.owners.get(&pid) {
                return *owner;
            }
            let Some((born, parent)) = last_before(&self.parents, pid, time) else { break };
            (pid, time) = (*parent, *born);
        }
        tables.owner_of(pid).unwrap_or(Owner::Other)
    }

    fn name<'a>(&'a self, tables: &'a Tables, tid: u32, time: u64) -> &'a str {
        let changed = last_before(&self.names, tid, time).map(|(_, name)| name.as_str());
        changed.or_else(|| tables.tasks.get(&tid).map(|known| known.name.as_str())).unwrap_or_default()
    }
}

/// The last change of a thread that is no later.
fn last_before<T>(changes: &Since<T>, id: u32, time: u64) -> Option<&(u64, T)> {
    let changes = changes.get(&id)?;
    changes[..changes.partition_point(|(at, _)| *at <= time)].last()
}

/// Sums the samples of a recording, whose functions `symbols` names by where they begin. What interrupts of
/// devices held off, where that was `found`, counts to these.
///
/// # Errors
/// Where it cannot be read, or is damaged.
pub fn sum<R: Read + Seek>(
    input: R,
    tables: &Tables,
    seen: &Seen,
    found: Option<Found>,
    symbols: &BTreeMap<u64, String>,
) -> Result<Profile> {
    let mut profile = Profile { period: tables.period.unwrap_or_default(), ..Profile::default() };
    let is_known = found.is_some();
    let Found { samples: held_off, unsampled, handlers } = found.unwrap_or_default();
    let mut interrupts = Interrupts { unsampled, handlers, ..Interrupts::default() };
    let mut names: Vec<&str> = Vec::new();
    each_record(input, |cpu, record| match record.kind {
        SAMPLE => {
            let Some(sample) = Sample::read(record) else { return };
            names.clear();
            names.extend(sample.stack().map(|address| function(symbols, address).unwrap_or_default()));
            let name = seen.name(tables, sample.tid, sample.time);
            let role = match seen.owner(tables, sample.pid, sample.time) {
                Owner::Kernel => thread_role(name, &names),
                owner => owner.role(name),
            };
            let subsystem = if sample.is_user {
                Subsystem::User
            } else if names.iter().all(|name| name.is_empty()) {
                Subsystem::Unnamed
            } else {
                of_stack(names.iter().copied())
            };
            if held_off.contains(&(cpu, sample.time)) {
                *interrupts.held_off.entry(subsystem).or_default() += 1;
                count_interrupts(&mut profile, role, 1);
                return;
            }
            *profile.samples.entry((role, subsystem)).or_default() += 1;
            let worked_for: BTreeSet<Subsystem> =
                on_stack(names.iter().copied()).chain([subsystem]).collect();
            for subsystem in worked_for {
                *profile.inclusive.entry(subsystem).or_default() += 1;
            }
            if let Some(first) = names.first().filter(|name| !name.is_empty()) {
                *profile.functions.entry((*first).to_owned()).or_default() += 1;
            }
        }
        LOST | LOST_SAMPLES => {
            let count = lost(record).unwrap_or(0);
            profile.lost = profile.lost.saturating_add(count);
        }
        _ => {}
    })?;
    if is_known {
        count_interrupts(&mut profile, Role::Interrupt, interrupts.unsampled);
        profile.interrupts = Some(interrupts);
    }
    profile.trim();
    Ok(profile)
}

/// Samples of which no more is known than that they are of interrupts.
fn count_interrupts(profile: &mut Profile, role: Role, count: u64) {
    if count > 0 {
        *profile.samples.entry((role, Subsystem::Interrupt)).or_default() += count;
        *profile.inclusive.entry(Subsystem::Interrupt).or_default() += count;
    }
}

/// The role of a kernel thread: of a kworker by what it executes, of others by their name. One that began
/// within the recording has none (perf tells names of programs alone): then by the function that it is.
fn thread_role(name: &str, stack: &[&str]) -> Role {
    let called_by = |caller: &str| {
        let at = stack.iter().position(|function| plain(function) == caller)?;
        Some(plain(stack[at.checked_sub(1)?]))
    };
    if let Some(function) = called_by(EXECUTES) {
        return work_role(function);
    }
    if !name.is_empty() {
        return Owner::Kernel.role(name);
    }
    match called_by(MAIN) {
        Some("worker_thread" | "rescuer_thread") => Role::Kworker,
        Some("md_thread") => Role::Array,
        Some("dmcrypt_write") => Role::Crypt,
        Some("kjournald2" | "xfsaild" | "transaction_kthread") => Role::Journal,
        _ => Role::Kernel,
    }
}

/// The function that an address is in.
fn function(symbols: &BTreeMap<u64, String>, address: u64) -> Option<&str> {
    let (begin, name) = symbols.range(..=address).next_back()?;
    (address - begin < LONGEST_FUNCTION).then_some(name)
}

fn each_record<R: Read + Seek>(input: R, mut take: impl FnMut(u16, Record<'_>)) -> Result<()> {
    let mut frames = Frames::new(input)?;
    let mut records = Records::default();
    loop {
        let at = frames.at;
        let Some(frame) = frames.next()? else { return Ok(()) };
        if frame.kind != Kind::Profile {
            frames.skip(&frame)?;
            continue;
        }
        if u32::from(frame.cpu) >= MAX_CPUS {
            return Err(Error::Damaged { at, what: "number of the CPU in the frame" });
        }
        let Some(bytes) = frames.bytes(&frame)? else { return Ok(()) };
        records.split(frame.cpu, bytes, at, |record| take(frame.cpu, record))?;
    }
}

/// Which event, how many; or how many alone.
fn lost(record: Record<'_>) -> Option<u64> {
    let mut fields = Fields(record.bytes);
    if record.kind == LOST {
        fields.u64()?;
    }
    fields.u64()
}

/// Thread, time and stack: `PERF_SAMPLE_TID`, `_TIME` and `_CALLCHAIN`.
#[derive(Clone, Copy, Debug)]
struct Sample<'a> {
    pid: u32,
    tid: u32,
    time: u64,
    is_user: bool,
    addresses: &'a [u8],
}

impl<'a> Sample<'a> {
    fn read(record: Record<'a>) -> Option<Self> {
        let mut fields = Fields(record.bytes);
        let (pid, tid, time) = (fields.u32()?, fields.u32()?, fields.u64()?);
        let length = usize::try_from(fields.u64()?).ok()?.checked_mul(8)?;
        let addresses = fields.0.get(..length)?;
        Some(Self { pid, tid, time, is_user: record.misc & CPUMODE == USER, addresses })
    }

    /// The address that ran, then those that were called from, of the kernel.
    ///
    /// A call returns behind itself, which may be in the next function: of all but the first the byte before
    /// is meant.
    fn stack(self) -> impl Iterator<Item = u64> + 'a {
        let words = self.addresses.chunks_exact(8).filter_map(|bytes| bytes.first_chunk().copied());
        let addresses = words.map(u64::from_ne_bytes).filter(|address| *address < MARKS);
        addresses.enumerate().map(|(at, address)| if at == 0 { address } else { address.saturating_sub(1) })
    }
}
