//! A device of memory that answers after a fixed time: the kernel's null_blk
//! (`drivers/block/null_blk/main.c`).

use crate::cpu::Cost;
use crate::engine::{BioId, Core, Part, PartId};
use domain::units::Bytes;
use event_queue::Time;
use std::collections::VecDeque;

/// How it answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemorySpec {
    /// Its size.
    pub size: Bytes,
    /// From a request's begin to its end (`completion_nsec` with `irqmode=2`).
    pub latency_ns: Time,
    /// Requests at a time (`hw_queue_depth`).
    pub depth: u32,
    /// What the interrupt at a request's end costs.
    pub interrupt: Cost,
}

/// The device.
pub struct Memory {
    me: PartId,
    device: usize,
    spec: MemorySpec,
    in_flight: u32,
    waiting: VecDeque<BioId>,
}

/// Set in the token of a request whose interrupt is being handled.
const HANDLED: u64 = 1 << 63;

impl Memory {
    /// The part `me`, which counts as `device`.
    pub const fn new(me: PartId, device: usize, spec: MemorySpec) -> Self {
        Self { me, device, spec, in_flight: 0, waiting: VecDeque::new() }
    }

    fn begin(&mut self, core: &mut Core) {
        while self.in_flight < self.spec.depth {
            let Some(bio) = self.waiting.pop_front() else { return };
            self.in_flight += 1;
            core.at(core.now + self.spec.latency_ns, self.me, u64::from(bio.0));
        }
    }
}

impl Part for Memory {
    fn submit(&mut self, core: &mut Core, bio: BioId) {
        core.count_start(self.device);
        self.waiting.push_back(bio);
        self.begin(core);
    }

    fn timer(&mut self, core: &mut Core, token: u64) {
        self.in_flight -= 1;
        let thread = core.bios[token as u32].thread;
        let cpu = thread.map_or(0, |thread| core.cpus.cpu_of(thread));
        core.interrupt(cpu, self.spec.interrupt, self.me, token | HANDLED);
        self.begin(core);
    }

    fn worked(&mut self, core: &mut Core, token: u64) {
        let id = BioId((token & !HANDLED) as u32);
        let bio = core.bios[id.0];
        core.count_end(self.device, bio.op, bio.len, bio.submitted, 0);
        core.complete(id);
    }

    fn size(&self) -> u64 {
        self.spec.size.get()
    }
}
