//! From a raw record to a typed event, by the format that was recorded with it.

use crate::event::{Comm, Context, Event, Left, Purpose, Span, What, op_of_rwbs};
use crate::file::{Tables, Tracepoint};
use domain::Nanos;
use domain::calls::Call;
use domain::request::Op;

/// Where a number lies in a record.
#[derive(Clone, Copy, Debug)]
struct Number {
    offset: usize,
    size: usize,
}

impl Number {
    fn get(self, raw: &[u8]) -> Option<u64> {
        let bytes = raw.get(self.offset..)?;
        Some(match self.size {
            1 => u64::from(*bytes.first()?),
            2 => u64::from(u16::from_ne_bytes(*bytes.first_chunk()?)),
            4 => u64::from(u32::from_ne_bytes(*bytes.first_chunk()?)),
            8 => u64::from_ne_bytes(*bytes.first_chunk()?),
            _ => return None,
        })
    }

    fn u32(self, raw: &[u8]) -> Option<u32> {
        // A thread's number is signed in the format, and never negative.
        Some(self.get(raw)? as u32)
    }

    /// A `long`, which a kernel of 32 bits has four bytes for.
    fn signed(self, raw: &[u8]) -> Option<i64> {
        let value = self.get(raw)?;
        Some(if self.size == 4 { i64::from((value as u32).cast_signed()) } else { value.cast_signed() })
    }

    /// The low bits of what is wider in the format: a priority, a CPU, the bits of a state.
    fn u16(self, raw: &[u8]) -> Option<u16> {
        Some(self.get(raw)? as u16)
    }
}

/// The places of a span: device, sector, count.
#[derive(Clone, Copy, Debug)]
struct SpanAt(Number, Number, Number);

impl SpanAt {
    fn get(self, raw: &[u8]) -> Option<Span> {
        Some(Span { device: self.0.u32(raw)?, sector: self.1.get(raw)?, sectors: self.2.u32(raw)? })
    }
}

/// The places of a thread: number, name, priority.
#[derive(Clone, Copy, Debug)]
struct ThreadAt(Number, Text, Number);

impl ThreadAt {
    fn get(self, raw: &[u8]) -> Option<(u32, Comm, i16)> {
        Some((self.0.u32(raw)?, self.1.comm(raw)?, self.2.u16(raw)?.cast_signed()))
    }
}

/// Where a text of fixed length lies.
#[derive(Clone, Copy, Debug)]
struct Text {
    offset: usize,
    size: usize,
}

impl Text {
    fn bytes(self, raw: &[u8]) -> Option<&[u8]> {
        raw.get(self.offset..self.offset + self.size)
    }

    fn op(self, raw: &[u8]) -> Option<Op> {
        Some(op_of_rwbs(self.bytes(raw)?))
    }

    fn comm(self, raw: &[u8]) -> Option<Comm> {
        let bytes = self.bytes(raw)?;
        let mut comm = Comm::default();
        let length = bytes.len().min(comm.0.len());
        comm.0[..length].copy_from_slice(&bytes[..length]);
        Some(comm)
    }
}

/// How the records of one tracepoint are read.
#[derive(Clone, Debug)]
enum Layout {
    Switch { prev: ThreadAt, state: Number, next: ThreadAt, states: States },
    Waking(ThreadAt, Number),
    Fork(Number, Number),
    Exit(Number),
    Frequency(Number, Number),
    Idle(Number, Number),
    Pstate([Number; 6]),
    BioQueue(SpanAt, Text),
    BioRemap(SpanAt, [Number; 2], Text),
    BioComplete(SpanAt, Text, Number),
    Issue(SpanAt, Text),
    Complete(SpanAt, Text, Number),
    WorkBegin(Number, Option<Number>),
    WorkEnd,
    Timer,
    LockBegin,
    LockEnd,
    Irq(Number, Option<Number>),
    IrqEnd,
    Softirq(Number),
    SoftirqEnd,
    CallBegin(Call),
    CallEnd(Call, Number),
    Other,
}

/// What the bits of `prev_state` mean.
#[derive(Clone, Copy, Debug)]
struct States {
    dead: u64,
    waiting: u64,
}

impl States {
    fn of(letters: &[(u64, char)]) -> Self {
        let masks = |wanted: fn(char) -> bool| {
            letters.iter().filter(|(_, letter)| wanted(*letter)).fold(0, |all, (mask, _)| all | mask)
        };
        Self {
            dead: masks(|letter| "XZx".contains(letter)),
            waiting: masks(|letter| !"XZxR".contains(letter)),
        }
    }

    /// No bit, and one that is none of the letters' (`+`: preempted), is a thread that could go on.
    fn left(self, state: u64) -> Left {
        if self.dead | self.waiting == 0 {
            Left::Unknown
        } else if state & self.dead != 0 {
            Left::Dead
        } else if state & self.waiting != 0 {
            Left::Waiting
        } else {
            Left::Runnable
        }
    }
}

/// A text whose place and length are told by the record itself: `__data_loc`, the place in the low half.
fn named(raw: &[u8], place: u32) -> Option<Comm> {
    let (offset, size) = ((place & 0xffff) as usize, (place >> 16) as usize);
    Text { offset, size }.comm(raw)
}

impl Layout {
    /// `None` where the format lacks a field that is needed.
    fn of(point: &Tracepoint) -> Option<Self> {
        let format = &point.format;
        let number = |name: &str| {
            let field = format.field(name)?;
            let fits = matches!(field.size, 1 | 2 | 4 | 8);
            fits.then_some(Number { offset: field.offset as usize, size: field.size as usize })
        };
        let text = |name: &str| {
            let field = format.field(name)?;
            Some(Text { offset: field.offset as usize, size: field.size as usize })
        };
        let span = || Some(SpanAt(number("dev")?, number("sector")?, number("nr_sector")?));
        let thread = |[tid, comm, prio]: [&str; 3]| Some(ThreadAt(number(tid)?, text(comm)?, number(prio)?));
        // The name for failures is newer than the one that was there before.
        let error = || number("error").or_else(|| number("errors"));
        Some(match point.name.as_str() {
            "sched/sched_switch" => Self::Switch {
                prev: thread(["prev_pid", "prev_comm", "prev_prio"])?,
                state: number("prev_state")?,
                next: thread(["next_pid", "next_comm", "next_prio"])?,
                states: States::of(&format.letters),
            },
            "sched/sched_waking" => Self::Waking(thread(["pid", "comm", "prio"])?, number("target_cpu")?),
            "sched/sched_process_fork" => Self::Fork(number("parent_pid")?, number("child_pid")?),
            "sched/sched_process_exit" => Self::Exit(number("pid")?),
            "power/cpu_frequency" => Self::Frequency(number("cpu_id")?, number("state")?),
            "power/cpu_idle" => Self::Idle(number("cpu_id")?, number("state")?),
            "power/pstate_sample" => Self::Pstate([
                number("core_busy")?,
                number("from")?,
                number("to")?,
                number("aperf")?,
                number("mperf")?,
                number("tsc")?,
            ]),
            "block/block_bio_queue" => Self::BioQueue(span()?, text("rwbs")?),
            "block/block_bio_remap" => {
                Self::BioRemap(span()?, [number("old_dev")?, number("old_sector")?], text("rwbs")?)
            }
            "block/block_bio_complete" => Self::BioComplete(span()?, text("rwbs")?, error()?),
            "block/block_rq_issue" => Self::Issue(span()?, text("rwbs")?),
            "block/block_rq_complete" => Self::Complete(span()?, text("rwbs")?, error()?),
            "workqueue/workqueue_execute_start" => Self::WorkBegin(number("function")?, number("work")),
            "workqueue/workqueue_execute_end" => Self::WorkEnd,
            "timer/hrtimer_expire_entry" | "timer/timer_expire_entry" => Self::Timer,
            "lock/contention_begin" => Self::LockBegin,
            "lock/contention_end" => Self::LockEnd,
            "irq/irq_handler_entry" => Self::Irq(number("irq")?, number("name")),
            "irq/irq_handler_exit" => Self::IrqEnd,
            "irq/softirq_entry" => Self::Softirq(number("vec")?),
            "irq/softirq_exit" => Self::SoftirqEnd,
            name => Self::of_call(name, number).unwrap_or(Self::Other),
        })
    }

    /// The begin or the end of a system call; `None` where it is none of those that are followed.
    fn of_call(name: &str, number: impl Fn(&str) -> Option<Number>) -> Option<Self> {
        let name = name.strip_prefix("syscalls/sys_")?;
        match name.strip_prefix("enter_") {
            Some(begun) => Call::from_name(begun).map(Self::CallBegin),
            None => Some(Self::CallEnd(Call::from_name(name.strip_prefix("exit_")?)?, number("ret")?)),
        }
    }

    fn read(&self, raw: &[u8]) -> Option<What> {
        Some(match self {
            Self::Switch { prev, state, next, states } => {
                let (prev, prev_comm, prev_prio) = prev.get(raw)?;
                let (next, next_comm, next_prio) = next.get(raw)?;
                let (left, state) = (states.left(state.get(raw)?), state.u16(raw)?);
                What::Switch { prev, prev_comm, prev_prio, state, left, next, next_comm, next_prio }
            }
            Self::Waking(thread, target) => {
                let (tid, comm, prio) = thread.get(raw)?;
                What::Waking { tid, comm, prio, target: target.u16(raw)? }
            }
            Self::Fork(parent, child) => What::Fork { parent: parent.u32(raw)?, child: child.u32(raw)? },
            Self::Exit(tid) => What::Exit { tid: tid.u32(raw)? },
            Self::Frequency(cpu, khz) => What::Frequency { cpu: cpu.u32(raw)?, khz: khz.u32(raw)? },
            Self::Idle(cpu, state) => {
                // PWR_EVENT_EXIT of include/trace/events/power.h.
                let state = Some(state.u32(raw)?).filter(|state| *state != u32::MAX);
                What::Idle { cpu: cpu.u32(raw)?, state }
            }
            Self::Pstate([busy, from, to, aperf, mperf, tsc]) => What::Pstate {
                busy: busy.u32(raw)?,
                from: from.u32(raw)?,
                to: to.u32(raw)?,
                aperf: aperf.get(raw)?,
                mperf: mperf.get(raw)?,
                tsc: tsc.get(raw)?,
            },
            Self::BioQueue(span, rwbs) => {
                let purpose = Purpose::of_rwbs(rwbs.bytes(raw)?);
                What::BioQueue { span: span.get(raw)?, op: rwbs.op(raw)?, purpose }
            }
            Self::BioRemap(span, [from, sector], rwbs) => What::BioRemap {
                span: span.get(raw)?,
                from: from.u32(raw)?,
                from_sector: sector.get(raw)?,
                op: rwbs.op(raw)?,
            },
            Self::BioComplete(span, rwbs, error) => {
                let failed = error.get(raw)? != 0;
                What::BioComplete { span: span.get(raw)?, op: rwbs.op(raw)?, failed }
            }
            Self::Issue(span, rwbs) => What::Issue { span: span.get(raw)?, op: rwbs.op(raw)? },
            Self::Complete(span, rwbs, error) => {
                let failed = error.get(raw)? != 0;
                What::Complete { span: span.get(raw)?, op: rwbs.op(raw)?, failed }
            }
            Self::WorkBegin(function, work) => {
                What::WorkBegin { function: function.get(raw)?, work: work.and_then(|work| work.get(raw)) }
            }
            Self::WorkEnd => What::WorkEnd,
            Self::Timer => What::Timer,
            Self::LockBegin => What::LockBegin,
            Self::LockEnd => What::LockEnd,
            Self::Irq(irq, name) => {
                let name = name.and_then(|name| named(raw, name.u32(raw)?)).unwrap_or_default();
                What::IrqBegin { irq: irq.u32(raw)?, name }
            }
            Self::IrqEnd => What::IrqEnd,
            Self::Softirq(vector) => What::SoftirqBegin { vector: vector.u32(raw)? },
            Self::SoftirqEnd => What::SoftirqEnd,
            Self::CallBegin(call) => What::CallBegin { call: *call },
            Self::CallEnd(call, returned) => What::CallEnd { call: *call, returned: returned.signed(raw)? },
            Self::Other => What::Other,
        })
    }
}

/// The layouts of all tracepoints of a recording.
#[derive(Debug)]
pub struct Layouts {
    by_id: Vec<Option<(usize, Layout)>>,
    kind: Number,
    flags: Number,
    tid: Number,
}

impl Layouts {
    /// By the formats of a file. The common fields are where the first format has them: they are the same for
    /// all (kernel `kernel/trace/trace_events.c`, `trace_define_common_fields`).
    pub fn new(tables: &Tables) -> Self {
        let first = tables.tracepoints.values().next();
        let common = |name: &str, offset: usize, size: usize| {
            let field = first.and_then(|point| point.format.field(name));
            field.map_or(Number { offset, size }, |field| Number {
                offset: field.offset as usize,
                size: field.size as usize,
            })
        };
        let last = tables.tracepoints.last_key_value().map_or(0, |(id, _)| usize::from(*id) + 1);
        let mut by_id = Vec::new();
        by_id.resize_with(last, || None);
        for (place, (id, point)) in tables.tracepoints.iter().enumerate() {
            // One whose format lacks a field is counted, and says nothing.
            by_id[usize::from(*id)] = Some((place, Layout::of(point).unwrap_or(Layout::Other)));
        }
        Self {
            by_id,
            kind: common("common_type", 0, 2),
            flags: common("common_flags", 2, 1),
            tid: common("common_pid", 4, 4),
        }
    }

    /// Reads a record, with the place of its tracepoint among those of the file; `None` where it is too
    /// short, or of one that the file does not declare.
    pub fn read(&self, time: Nanos, cpu: u16, raw: &[u8]) -> Option<(usize, Event)> {
        let (place, layout) = self.by_id.get(self.kind.get(raw)? as usize)?.as_ref()?;
        let context = Context::of_flags(self.flags.get(raw)? as u8);
        let (tid, what) = (self.tid.u32(raw)?, layout.read(raw)?);
        Some((*place, Event { time, cpu, tid, context, what }))
    }
}
