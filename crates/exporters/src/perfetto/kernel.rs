//! Recorded events. Switches, wake-ups, frequencies, idle states, interrupts and work are written as those of
//! ftrace, which Perfetto draws by itself; requests become slices below their device.
//!
//! What has a begin and an end is written once its end was seen. What was under way when events were lost is
//! not: it may have ended in what was lost. Each loss is an instant of the track `recording`, a mark of its
//! CPU's bundle, and in the statistics at the end.

use super::fields::{ftrace, interned, packet, stats, system, tree};
use super::message::Message;
use super::tracks::{Packets, Track};
use domain::time::Nanos;
use events::{Comm, Ended, Event, InFlight, Losses, Op, Owner, Span, Tables, What, decode};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, Read, Seek};

/// Perfetto refuses a trace with a CPU of this number (`ftrace_tokenizer.cc`, `kMaxCpuCount`).
const CPUS: u32 = 1024;

/// How many bytes of events wait for their CPU's bundle to be written.
const MAX_WAITING: usize = 1 << 20;

/// Tracks of requests, all devices together, and kworkers that are followed at once. A stranger's file could
/// have any number.
const MAX_LANES: usize = 1 << 16;
const MAX_WORKERS: usize = 1 << 16;

/// Processes of one packet.
const PROCESSES: usize = 512;

/// Writes what is known before the first event: the kernel, its functions, who was there.
pub(super) fn declare(tables: &Tables, packets: &mut Packets<'_>) -> io::Result<()> {
    let name = Message::default().text(system::SYSNAME, "Linux").text(system::RELEASE, &tables.head.kernel);
    let system = Message::default().message(system::UTSNAME, &name).number(system::CPUS, tables.head.cpus);
    packets.put(Message::default().message(packet::SYSTEM_INFO, &system))?;
    let symbol = |all: Message, (id, name): (u64, &String)| {
        let symbol = Message::default().number(interned::ID, id).text(interned::TEXT, name);
        all.message(interned::KERNEL_SYMBOLS, &symbol)
    };
    let symbols = (1..).zip(tables.symbols.values()).fold(Message::default(), symbol);
    packets.put(Message::default().message(packet::INTERNED_DATA, &symbols))?;
    let threads: BTreeSet<u32> = tables.tasks.keys().copied().collect();
    let threads: Vec<u32> = threads.into_iter().collect();
    for some in threads.chunks(PROCESSES) {
        let tree = some.iter().fold(Message::default(), |tree, tid| with_thread(tree, tables, *tid));
        let at = Message::default().number(packet::TIMESTAMP, tables.head.origin.get());
        packets.put(at.message(packet::PROCESS_TREE, &tree))?;
    }
    let zeros = (0..tables.head.cpus.min(CPUS)).map(|cpu| (cpu, 0, 0));
    packets.put(statistics(stats::START, zeros))
}

/// A thread, or the process that it is the first of. A kernel's process is a child of kthreadd.
fn with_thread(tree: Message, tables: &Tables, tid: u32) -> Message {
    let Some(known) = tables.tasks.get(&tid) else { return tree };
    if known.pid != tid {
        let thread = Message::default().number(tree::TID, tid).number(tree::THREAD_GROUP, known.pid);
        return tree.message(tree::THREADS, &thread);
    }
    const KTHREADD: u32 = 2;
    let is_kernel = known.owner == Owner::Kernel;
    let mut process = Message::default()
        .number(tree::PID, tid)
        .text(tree::COMMAND_LINE, &known.name)
        .number(tree::IS_COMM, 1_u32)
        .number(tree::IS_KERNEL, u32::from(is_kernel));
    if is_kernel && tid != KTHREADD {
        process = process.number(tree::PARENT, KTHREADD);
    }
    tree.message(tree::PROCESSES, &process)
}

/// By CPU: how many events were lost, how many were read.
fn statistics(phase: u32, cpus: impl Iterator<Item = (u32, u64, u64)>) -> Message {
    let cpu = |all: Message, (cpu, lost, read): (u32, u64, u64)| {
        let of_cpu = Message::default().number(stats::CPU, cpu).number(stats::OVERRUN, lost);
        all.message(stats::CPU_STATS, &of_cpu.number(stats::READ_EVENTS, read))
    };
    let all = cpus.fold(Message::default().number(stats::PHASE, phase), cpu);
    Message::default().message(packet::FTRACE_STATS, &all)
}

/// Writes all events of a file; the inner error is the file's.
pub(super) fn write<R: Read + Seek>(
    input: R,
    tables: &Tables,
    packets: &mut Packets<'_>,
) -> io::Result<events::Result<()>> {
    let mut kernel = Kernel::new(tables, packets)?;
    let mut written = Ok(());
    let decoded = decode(input, tables, |event| {
        if written.is_ok() {
            written = kernel.take(event);
        }
    });
    written?;
    match decoded {
        Ok(losses) => kernel.finish(&losses).map(Ok),
        Err(error) => Ok(Err(error)),
    }
}

/// What is known while events are written.
struct Kernel<'e, 'o> {
    tables: &'e Tables,
    packets: &'e mut Packets<'o>,
    /// The numbers of functions, by address.
    symbols: BTreeMap<u64, u64>,
    bundles: BTreeMap<u16, Message>,
    waiting: usize,
    /// By CPU: when it began, and its number or vector.
    irqs: BTreeMap<u16, (Nanos, u32)>,
    softirqs: BTreeMap<u16, (Nanos, u32)>,
    /// By thread: when it began and where, and the function.
    work: HashMap<u32, (Nanos, u16, u64)>,
    in_flight: InFlight<'e>,
    /// By device, and whether they are of requests.
    lanes: BTreeMap<(u32, bool), Lanes>,
    lane_count: usize,
    /// What is said of the recording itself.
    recording: Track,
    last: Nanos,
    /// Requests and bios whose begin was not seen.
    without_begin: u64,
    /// What does not fit: CPUs, lanes.
    left_out: u64,
}

impl<'e, 'o> Kernel<'e, 'o> {
    fn new(tables: &'e Tables, packets: &'e mut Packets<'o>) -> io::Result<Self> {
        let group = packets.group("recording of events")?;
        let recording = packets.below(group, "what is not in it")?;
        let begin = tables.begin.unwrap_or(tables.head.origin);
        for absent in &tables.absent {
            packets.instant(begin, recording, &format!("not recorded: {absent}"), &[])?;
        }
        Ok(Self {
            tables,
            packets,
            symbols: tables.symbols.keys().copied().zip(1..).collect(),
            bundles: BTreeMap::new(),
            waiting: 0,
            irqs: BTreeMap::new(),
            softirqs: BTreeMap::new(),
            work: HashMap::new(),
            in_flight: InFlight::new(tables),
            lanes: BTreeMap::new(),
            lane_count: 0,
            recording,
            last: begin,
            without_begin: 0,
            left_out: 0,
        })
    }

    fn take(&mut self, event: &Event) -> io::Result<()> {
        let Event { time, cpu, tid, what, .. } = *event;
        self.last = self.last.max(time);
        match what {
            What::IrqBegin { irq, .. } => drop(self.irqs.insert(cpu, (time, irq))),
            What::SoftirqBegin { vector } => drop(self.softirqs.insert(cpu, (time, vector))),
            What::WorkBegin { function, .. } => {
                if self.work.len() >= MAX_WORKERS {
                    self.work.clear();
                }
                self.work.insert(tid, (time, cpu, function));
            }
            What::IrqEnd => return self.end_irq(time, cpu, tid),
            What::SoftirqEnd => return self.end_softirq(time, cpu, tid),
            What::WorkEnd => return self.end_work(time, cpu, tid),
            What::BioQueue { span, .. } => self.in_flight.queue(time, &span),
            What::Issue { span, .. } => drop(self.in_flight.issue(time, &span)),
            What::Complete { span, op, failed } => {
                if let Some(ended) = self.in_flight.complete(&span) {
                    return self.request(&ended, time, op, failed);
                }
            }
            What::BioComplete { span, op, failed } => {
                let ended = self.in_flight.complete_bio(&span);
                return self.request(&ended, time, op, failed);
            }
            What::Lost { count } => return self.lose(time, cpu, count),
            _ => {
                if let Some((kind, body)) = of_ftrace(&what) {
                    let flags = u32::from(event.context.flags());
                    let stamped = stamped(time, tid).message(kind, &body);
                    return self.push(cpu, &stamped.number(ftrace::FLAGS, flags));
                }
            }
        }
        Ok(())
    }

    fn end_irq(&mut self, time: Nanos, cpu: u16, tid: u32) -> io::Result<()> {
        let Some((began, irq)) = self.irqs.remove(&cpu) else { return Ok(()) };
        let number = Message::default().number(1, irq);
        let named = number.clone().text(2, &irq.to_string());
        self.push(cpu, &stamped(began, tid).message(ftrace::IRQ_ENTRY, &named))?;
        self.push(cpu, &stamped(time, tid).message(ftrace::IRQ_EXIT, &number))
    }

    fn end_softirq(&mut self, time: Nanos, cpu: u16, tid: u32) -> io::Result<()> {
        let Some((began, vector)) = self.softirqs.remove(&cpu) else { return Ok(()) };
        let vector = Message::default().number(1, vector);
        self.push(cpu, &stamped(began, tid).message(ftrace::SOFTIRQ_ENTRY, &vector))?;
        self.push(cpu, &stamped(time, tid).message(ftrace::SOFTIRQ_EXIT, &vector))
    }

    /// Perfetto names the slice by the interned function, or by its address.
    fn end_work(&mut self, time: Nanos, cpu: u16, tid: u32) -> io::Result<()> {
        let Some((began, at, function)) = self.work.remove(&tid) else { return Ok(()) };
        let function = self.symbols.get(&function).copied().unwrap_or(function);
        let function = Message::default().number(2, function);
        self.push(at, &stamped(began, tid).message(ftrace::WORK_BEGIN, &function))?;
        self.push(cpu, &stamped(time, tid).message(ftrace::WORK_END, &Message::default()))
    }

    /// A slice, and within it the time in the device's queue and that in the driver.
    fn request(&mut self, ended: &Ended, end: Nanos, op: Op, failed: bool) -> io::Result<()> {
        let Some(begin) = ended.queued.or(ended.issued).map(|begin| begin.min(end)) else {
            self.without_begin += 1;
            return Ok(());
        };
        let Span { device, sector, sectors } = ended.span;
        let Some(lane) = self.lane(device, ended.issued.is_some(), begin, end)? else {
            self.left_out += 1;
            return Ok(());
        };
        let notes = [("sector", sector), ("bytes", u64::from(sectors) * 512), ("failed", 1)];
        let notes = if failed { &notes[..] } else { &notes[..2] };
        self.packets.begin(begin, lane, op.name(), notes)?;
        if let Some(issued) = ended.issued.map(|issued| issued.clamp(begin, end)) {
            if ended.queued.is_some() {
                self.packets.begin(begin, lane, "queue", &[])?;
                self.packets.end(issued, lane)?;
            }
            self.packets.begin(issued, lane, "service", &[])?;
            self.packets.end(end, lane)?;
        }
        self.packets.end(end, lane)
    }

    /// A track below the device on which nothing is drawn from `begin` on; `None` where there are too many.
    fn lane(&mut self, device: u32, is_request: bool, begin: Nanos, end: Nanos) -> io::Result<Option<Track>> {
        let free = self.lanes.get_mut(&(device, is_request)).and_then(|lanes| lanes.free_at(begin));
        let track = match free {
            Some(track) => track,
            None if self.lane_count >= MAX_LANES => return Ok(None),
            None => {
                self.lane_count += 1;
                let group = self.packets.group(&format!("disk {}", self.tables.device_name(device)))?;
                self.packets.below(group, if is_request { "requests" } else { "bios" })?
            }
        };
        self.lanes.entry((device, is_request)).or_default().0.insert((end, track));
        Ok(Some(track))
    }

    fn lose(&mut self, time: Nanos, cpu: u16, count: u64) -> io::Result<()> {
        self.irqs.remove(&cpu);
        self.softirqs.remove(&cpu);
        self.work.clear();
        self.in_flight.lose();
        self.mark(cpu)?;
        let notes = [("cpu", cpu.into()), ("events", count)];
        self.packets.instant(time, self.recording, &format!("lost on CPU {cpu}"), &notes)
    }

    /// Marks a CPU's bundle as one that lacks events.
    fn mark(&mut self, cpu: u16) -> io::Result<()> {
        self.bundle(cpu, |bundle| bundle.number(ftrace::LOST_EVENTS, 1_u32))
    }

    /// Puts an event into its CPU's bundle.
    fn push(&mut self, cpu: u16, event: &Message) -> io::Result<()> {
        self.bundle(cpu, |bundle| bundle.message(ftrace::EVENT, event))
    }

    fn bundle(&mut self, cpu: u16, add: impl FnOnce(Message) -> Message) -> io::Result<()> {
        if u32::from(cpu) >= CPUS {
            self.left_out += 1;
            return Ok(());
        }
        let bundle = self.bundles.entry(cpu).or_insert_with(|| Message::default().number(ftrace::CPU, cpu));
        let before = bundle.as_bytes().len();
        *bundle = add(std::mem::take(bundle));
        self.waiting += bundle.as_bytes().len() - before;
        if self.waiting < MAX_WAITING { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.waiting = 0;
        for bundle in std::mem::take(&mut self.bundles).into_values() {
            let flags = Message::default().number(packet::SEQUENCE_FLAGS, packet::NEEDS_INCREMENTAL_STATE);
            self.packets.put(flags.message(packet::FTRACE_EVENTS, &bundle))?;
        }
        Ok(())
    }

    fn finish(mut self, losses: &Losses) -> io::Result<()> {
        let lost = losses.by_cpu(self.tables);
        for (cpu, lost) in &lost {
            let announced = losses.announced.get(cpu).copied().unwrap_or(0);
            let text = format!("CPU {cpu} has events that fired and have no record");
            self.say(&text, lost.saturating_sub(announced))?;
            self.mark(*cpu)?;
        }
        self.flush()?;
        self.say("records that cannot be read", losses.unread)?;
        self.say("requests whose begin was not seen", self.without_begin)?;
        self.say("requests that were not followed to their end", self.in_flight.forgotten)?;
        self.say("events that do not fit into Perfetto's form", self.left_out)?;
        let is_ended = self.tables.end.is_some();
        self.say("the recording was not ended, and what it lost is not known", u64::from(!is_ended))?;
        let read = |cpu: u32| {
            let of_cpu = losses.recorded.iter().filter(|((_, of), _)| u32::from(*of) == cpu);
            of_cpu.fold(0_u64, |all, (_, count)| all.saturating_add(*count))
        };
        let lost = |cpu: u32| u16::try_from(cpu).ok().and_then(|cpu| lost.get(&cpu).copied()).unwrap_or(0);
        let cpus = (0..self.tables.head.cpus.min(CPUS)).map(|cpu| (cpu, lost(cpu), read(cpu)));
        self.packets.put(statistics(stats::END, cpus))
    }

    /// Says at the end how many there were, if any.
    fn say(&mut self, text: &str, count: u64) -> io::Result<()> {
        if count == 0 {
            return Ok(());
        }
        let end = self.tables.end.unwrap_or(self.last);
        self.packets.instant(end, self.recording, text, &[("count", count)])
    }
}

/// Tracks of one device, by when their last slice ended. On none of them two slices overlap.
#[derive(Default)]
struct Lanes(BTreeSet<(Nanos, Track)>);

impl Lanes {
    /// Takes the one that has been free for the shortest time, so that few are needed.
    fn free_at(&mut self, begin: Nanos) -> Option<Track> {
        let found = self.0.range(..=(begin, Track::LAST)).next_back().copied()?;
        self.0.remove(&found);
        Some(found.1)
    }
}

/// An event's time and thread: Perfetto reads them the fastest in this order.
fn stamped(time: Nanos, tid: u32) -> Message {
    Message::default().number(ftrace::TIMESTAMP, time.get()).number(ftrace::PID, tid)
}

/// The field of an event that Perfetto knows, and its message: its fields are numbered as the kernel's event
/// lists them.
fn of_ftrace(what: &What) -> Option<(u32, Message)> {
    Some(match what {
        What::Switch { prev, prev_comm, prev_prio, state, next, next_comm, next_prio, .. } => {
            let left = thread(Message::default(), 1, prev_comm, *prev, *prev_prio).number(4, *state);
            (ftrace::SCHED_SWITCH, thread(left, 5, next_comm, *next, *next_prio))
        }
        What::Waking { tid, comm, prio, target } => {
            let woken = thread(Message::default(), 1, comm, *tid, *prio);
            (ftrace::SCHED_WAKING, woken.number(5, *target))
        }
        What::Fork { parent, child } => {
            (ftrace::SCHED_FORK, Message::default().number(2, *parent).number(4, *child))
        }
        What::Exit { tid } => (ftrace::SCHED_EXIT, Message::default().number(2, *tid)),
        What::Frequency { cpu, khz } => {
            (ftrace::CPU_FREQUENCY, Message::default().number(1, *khz).number(2, *cpu))
        }
        // PWR_EVENT_EXIT of include/trace/events/power.h.
        What::Idle { cpu, state } => {
            (ftrace::CPU_IDLE, Message::default().number(1, state.unwrap_or(u32::MAX)).number(2, *cpu))
        }
        _ => return None,
    })
}

/// A thread's name, number and priority, from this field on.
fn thread(message: Message, field: u32, comm: &Comm, tid: u32, prio: i16) -> Message {
    message.text(field, &comm.text()).number(field + 1, tid).signed(field + 2, prio)
}
