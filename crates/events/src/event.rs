//! Typed events.

use domain::Nanos;
use domain::calls::Call;
use domain::request::Op;
use std::borrow::Cow;

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// On the monotonic clock.
    pub time: Nanos,
    /// The CPU that it happened on.
    pub cpu: u16,
    /// The thread that ran there, interrupted or not; 0 is an idle CPU.
    pub tid: u32,
    /// In which context.
    pub context: Context,
    /// What happened.
    pub what: What,
}

/// What interrupted the thread, by `common_flags` (kernel `include/linux/trace_events.h`, `trace_flag_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context(u8);

impl Context {
    const HARDIRQ: u8 = 0x08;
    const SOFTIRQ: u8 = 0x10;
    const NMI: u8 = 0x40;

    /// From the record's flags.
    pub const fn of_flags(flags: u8) -> Self {
        Self(flags & (Self::HARDIRQ | Self::SOFTIRQ | Self::NMI))
    }

    /// Whether it was an interrupt of any kind, and not the thread.
    pub const fn is_interrupt(self) -> bool {
        self.0 != 0
    }

    /// The flags as they were recorded, those of interrupts alone.
    pub const fn flags(self) -> u8 {
        self.0
    }
}

/// The name of a thread, or of a handler: 16 bytes, cut or filled with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Comm(pub [u8; 16]);

impl Comm {
    /// A name, cut where it is longer.
    pub fn of(name: &str) -> Self {
        let mut comm = Self::default();
        let length = name.len().min(comm.0.len());
        comm.0[..length].copy_from_slice(&name.as_bytes()[..length]);
        comm
    }

    /// As text.
    pub fn text(&self) -> Cow<'_, str> {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        String::from_utf8_lossy(&self.0[..end])
    }
}

/// How a thread left its CPU, by `prev_state` of sched_switch (kernel `include/trace/events/sched.h`,
/// `__trace_sched_switch_state`; the letters are those of the recorded format).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It could go on, and another was preferred.
    Runnable,
    /// `S`, `D`, `I` and whatever else is no end: it waits.
    Waiting,
    /// `X`, `Z`: it never runs again.
    Dead,
    /// The format of this kernel does not say.
    Unknown,
}

/// What a request does, by `rwbs` (kernel `kernel/trace/blktrace.c`, `blk_fill_rwbs`): an `F` in front of
/// another letter asks for a flush before it.
pub fn op_of_rwbs(rwbs: &[u8]) -> Op {
    let rest = match rwbs {
        [b'F', rest @ ..] if matches!(rest.first(), Some(b'R' | b'W' | b'D' | b'F' | b'N')) => rest,
        all => all,
    };
    match rest.first() {
        Some(b'R') => Op::Read,
        Some(b'W') => Op::Write,
        Some(b'D') => Op::Discard,
        Some(b'F') => Op::Flush,
        _ => Op::Other,
    }
}

/// For whom a bio is submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Purpose {
    /// Read-ahead asks for it (`REQ_RAHEAD`).
    pub ahead: bool,
    /// Somebody waits for it (`REQ_SYNC`).
    pub synchronous: bool,
}

impl Purpose {
    /// By `rwbs`: an `A` and an `S` behind the operation.
    pub fn of_rwbs(rwbs: &[u8]) -> Self {
        let has = |wanted: u8| rwbs.iter().skip(1).take_while(|letter| **letter != 0).any(|l| *l == wanted);
        Self { ahead: has(b'A'), synchronous: has(b'S') }
    }
}

/// Sectors of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The kernel's number of the device: twelve bits of major, twenty of minor.
    pub device: u32,
    /// The first sector of 512 bytes.
    pub sector: u64,
    /// How many.
    pub sectors: u32,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A CPU goes from one thread to another.
    Switch {
        /// Who ran.
        prev: u32,
        /// Its name.
        prev_comm: Comm,
        /// Its priority: 0 to 99 is real-time, 120 is nice 0, and below zero is a deadline.
        prev_prio: i16,
        /// `prev_state` as it was recorded; its bits differ between kernels.
        state: u16,
        /// How it left.
        left: Left,
        /// Who runs now.
        next: u32,
        /// Its name.
        next_comm: Comm,
        /// Its priority.
        next_prio: i16,
    },
    /// The running thread, or an interrupt, wakes one.
    Waking {
        /// Whom.
        tid: u32,
        /// Its name.
        comm: Comm,
        /// Its priority.
        prio: i16,
        /// The CPU that it last ran on.
        target: u16,
    },
    /// A thread begins.
    Fork {
        /// Who made it.
        parent: u32,
        /// It.
        child: u32,
    },
    /// A thread ends.
    Exit {
        /// Which.
        tid: u32,
    },
    /// A frequency was set.
    Frequency {
        /// Of which CPU.
        cpu: u32,
        /// Kilohertz.
        khz: u32,
    },
    /// A CPU goes into an idle state, or leaves it.
    Idle {
        /// Which.
        cpu: u32,
        /// The state's number; `None` when it leaves.
        state: Option<u32>,
    },
    /// A decision of intel_pstate.
    Pstate {
        /// `core_busy`: how fast the CPU ran while it was busy, APERF in percent of MPERF. It is no load.
        busy: u32,
        /// From this P-state.
        from: u32,
        /// To that.
        to: u32,
        /// Counters since the decision before.
        aperf: u64,
        /// As above.
        mperf: u64,
        /// As above.
        tsc: u64,
    },
    /// A bio is given to a device.
    BioQueue {
        /// Where.
        span: Span,
        /// What it does.
        op: Op,
        /// For whom.
        purpose: Purpose,
    },
    /// A layer passes a bio to the one below.
    BioRemap {
        /// Where it goes.
        span: Span,
        /// The device that it comes from.
        from: u32,
        /// The first sector there.
        from_sector: u64,
        /// What it does.
        op: Op,
    },
    /// A bio of a layer without requests has ended.
    BioComplete {
        /// Where.
        span: Span,
        /// What it did.
        op: Op,
        /// Whether it failed.
        failed: bool,
    },
    /// A request is given to the driver.
    Issue {
        /// Where.
        span: Span,
        /// What it does.
        op: Op,
    },
    /// The driver has done a request, or a part of it.
    Complete {
        /// What was done.
        span: Span,
        /// What it did.
        op: Op,
        /// Whether it failed.
        failed: bool,
    },
    /// A kworker begins to execute work.
    WorkBegin {
        /// The function's address.
        function: u64,
        /// The address of what was queued (`struct work_struct`), where it was recorded.
        work: Option<u64>,
    },
    /// It has executed it.
    WorkEnd,
    /// A timer expires.
    Timer,
    /// A lock of the kernel is held by another.
    LockBegin,
    /// It is ours, or not wanted any more.
    LockEnd,
    /// A handler of a device's interrupt begins.
    IrqBegin {
        /// Its number.
        irq: u32,
        /// What the handler is called, cut to fit: `virtio1-req.0`.
        name: Comm,
    },
    /// It ends.
    IrqEnd,
    /// A softirq begins.
    SoftirqBegin {
        /// Its vector.
        vector: u32,
    },
    /// It ends.
    SoftirqEnd,
    /// The running thread begins a system call.
    CallBegin {
        /// Which.
        call: Call,
    },
    /// It ends.
    CallEnd {
        /// Which.
        call: Call,
        /// What it returns: below zero an error.
        returned: i64,
    },
    /// Events of this CPU were lost before this one.
    Lost {
        /// How many.
        count: u64,
    },
    /// One that was recorded and has no type here.
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_whom_a_bio_is_stands_behind_what_it_does() {
        let of = |text: &str| {
            let Purpose { ahead, synchronous } = Purpose::of_rwbs(text.as_bytes());
            (ahead, synchronous)
        };
        assert_eq!(["R", "RA", "FRA", "A", ""].map(of).map(|of| of.0), [false, true, true, false, false]);
        assert_eq!(["W", "WS", "WSM", "WFS", "W\0S", "S"].map(of).map(|of| of.1), {
            [false, true, true, true, false, false]
        });
    }

    #[test]
    fn what_a_request_does_is_read_behind_the_flush_in_front_of_it() {
        let of = |text: &str| op_of_rwbs(text.as_bytes());
        assert_eq!([of("R"), of("RA"), of("WS"), of("WFS"), of("FWS")], {
            [Op::Read, Op::Read, Op::Write, Op::Write, Op::Write]
        });
        assert_eq!([of("FF"), of("F"), of("FN"), of("D"), of("DS"), of("N"), of("")], {
            [Op::Flush, Op::Flush, Op::Other, Op::Discard, Op::Discard, Op::Other, Op::Other]
        });
    }

    #[test]
    fn a_name_ends_at_its_first_zero() {
        assert_eq!(Comm(*b"fio\0rest of old ").text(), "fio");
        assert_eq!(Comm(*b"0123456789abcdef").text(), "0123456789abcdef");
    }
}
