//! Facts one at a time: who had a CPU from when to when, what a thread waited for, each request. They are
//! what the sums of [`Facts`](super::Facts) are made of, so that a picture of them and those sums agree.

use super::Collecting;
use crate::Result;
use crate::decode::{Losses, decode};
use crate::event::Comm;
use crate::file::Tables;
use crate::owner::Owner;
use crate::requests::Ended;
use domain::Nanos;
use domain::request::Op;
use domain::spent::Wait;
use domain::trace::Role;
use parse::proc::role::{is_kworker, work_role};
use std::io::{Read, Seek};

/// What somebody or something did from one time to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// On the monotonic clock.
    pub begin: Nanos,
    /// Not before the begin.
    pub end: Nanos,
    /// What was done.
    pub what: Did,
}

/// What was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Did {
    /// A thread had a CPU.
    Ran {
        /// Which CPU.
        cpu: u16,
        /// Who.
        thread: Thread,
        /// The address of the function that a kworker executed.
        function: Option<u64>,
    },
    /// Something was done for a CPU, or for a policy's CPUs, and was done again.
    Window {
        /// Which CPU, or the number of the policy where one is declared.
        cpu: u16,
        /// What was.
        between: Between,
        /// For how long the CPU was busy meanwhile, or the busiest of the policy.
        busy: Nanos,
    },
    /// A thread could run, and did not.
    WasReady(Thread),
    /// A thread was blocked.
    Waited(Thread, Wait),
    /// A CPU was in an idle state of this number.
    Idled {
        /// Which CPU.
        cpu: u16,
        /// The state.
        state: u32,
    },
    /// A CPU had been told to run at a frequency.
    RanAt {
        /// Which CPU.
        cpu: u16,
        /// Kilohertz.
        khz: u32,
    },
    /// A CPU was in the handler of an interrupt.
    Irq {
        /// Which CPU.
        cpu: u16,
        /// The interrupt's number.
        irq: u32,
    },
    /// A CPU was in a softirq.
    Softirq {
        /// Which CPU.
        cpu: u16,
        /// Its vector.
        vector: u32,
    },
    /// A request, or a bio of a layer without requests, was on its way until it completed. One of which
    /// neither queueing nor issue was seen begins where it ends.
    Request {
        /// Where, when it was queued and when issued.
        ended: Ended,
        /// What it did.
        op: Op,
        /// Whether it failed.
        failed: bool,
    },
    /// Events were lost; of no length.
    Lost {
        /// On which CPU.
        cpu: u16,
        /// How many.
        count: u64,
    },
}

/// What was done at the begin and at the end of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// A kworker began to execute the function at this address: a governor's sample, where it is
    /// [`SAMPLES_LOAD`](super::SAMPLES_LOAD).
    Executions(u64),
    /// intel_pstate decided, or was asked by a governor in passive mode.
    Decisions,
    /// The driver was asked for a frequency.
    Requests,
}

/// A thread at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thread {
    /// Its number.
    pub tid: u32,
    /// Its name then; empty where it was not seen yet.
    pub name: Comm,
    /// Whose it is, where that is known.
    pub owner: Option<Owner>,
}

impl Thread {
    /// What it works for: a kworker for what it executes, if that is known.
    pub fn role(&self, function: Option<&str>) -> Role {
        let name = self.name.text();
        let role = role(self.owner, &name);
        match function {
            Some(function) if role == Role::Kworker => work_role(function),
            _ => role,
        }
    }
}

/// The role of a thread of this name: where nobody has seen where it comes from, a kworker's name is the
/// kernel's, and others could be anybody's.
pub(super) fn role(owner: Option<Owner>, name: &str) -> Role {
    match owner {
        Some(owner) => owner.role(name),
        None if is_kworker(name) => Role::Kworker,
        None => Role::Other,
    }
}

/// Gives each interval of a recording, in the order of their ends; what was under way at the recording's end
/// comes last, in no order.
///
/// # Errors
/// Where the file cannot be read, or is damaged.
pub fn intervals<R: Read + Seek>(
    input: R,
    tables: &Tables,
    mut each: impl FnMut(&Interval),
) -> Result<Losses> {
    let mut collecting = Collecting::giving(tables, &mut each);
    let losses = decode(input, tables, |event| collecting.take(event))?;
    collecting.end();
    Ok(losses)
}
