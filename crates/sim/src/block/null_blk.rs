//! A device of memory that answers after a fixed time: the kernel's null_blk
//! (`drivers/block/null_blk/main.c`). Requests wait under their threads' plugs as those to other disks do.
//!
//! Left out: that requests merge there.

use crate::cpu::Cost;
use crate::engine::{Bio, BioId, Core, Part, PartId};
use disks::Op;
use domain::units::Bytes;
use event_queue::Time;
use governors::KernelVersion;
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
    /// What its driver takes of whoever hands it a request, before its time begins.
    pub request: Cost,
    /// And for each byte, whose page it looks up (`null_handle_memory_backed`), in 1/1024 of a cycle.
    pub byte_1024: u64,
    /// For each byte that it copies, likewise: all that is written, and of what is read what was written
    /// before.
    pub copy_byte_1024: u64,
    /// A page that is written for the first time: it is got.
    pub page: Cost,
    /// The kernel that is meant.
    pub kernel: KernelVersion,
}

/// The pages that a device has.
#[derive(Debug, Default)]
struct Pages(Vec<u64>);

impl Pages {
    fn has(&self, page: u64) -> bool {
        self.0.get((page / 64) as usize).is_some_and(|pages| pages >> (page % 64) & 1 == 1)
    }

    /// Whether it was not there.
    fn get(&mut self, page: u64) -> bool {
        let at = (page / 64) as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, 0);
        }
        let is_new = !self.has(page);
        self.0[at] |= 1 << (page % 64);
        is_new
    }
}

/// What is got, looked up and copied at a time.
const PAGE: u64 = 4096;

/// The device.
pub struct Memory {
    me: PartId,
    device: usize,
    spec: MemorySpec,
    in_flight: u32,
    waiting: VecDeque<BioId>,
    pages: Pages,
}

/// Set in the token of a request whose interrupt is being handled.
const HANDLED: u64 = 1 << 63;
/// Likewise of one that is being copied.
const COPIED: u64 = 1 << 62;

impl Memory {
    /// The part `me`, which counts as `device`.
    pub fn new(me: PartId, device: usize, spec: MemorySpec) -> Self {
        Self { me, device, spec, in_flight: 0, waiting: VecDeque::new(), pages: Pages::default() }
    }

    /// What a request takes of whoever hands it on.
    fn cost(&mut self, bio: &Bio) -> Cost {
        let mut pages = 0;
        let mut copied = 0;
        for page in bio.offset / PAGE..(bio.offset + bio.len).div_ceil(PAGE) {
            let within = bio.len.min(PAGE);
            match bio.op {
                Op::Write => {
                    pages += u64::from(self.pages.get(page));
                    copied += within;
                }
                Op::Read if self.pages.has(page) => copied += within,
                _ => {}
            }
        }
        let bytes = bio.len * self.spec.byte_1024 + copied * self.spec.copy_byte_1024;
        self.spec.request.and(Cost::cycles(bytes / 1024)).and(self.spec.page.times(pages))
    }

    fn begin(&mut self, core: &mut Core) {
        while self.in_flight < self.spec.depth {
            let Some(bio) = self.waiting.pop_front() else { return };
            self.in_flight += 1;
            let asked = core.bios[bio.0];
            let cost = self.cost(&asked);
            if cost.is_nothing() || core.is_held_up() {
                core.charge(cost);
                self.answers(core, bio.0);
            } else {
                core.run_here(cost, self.me, u64::from(bio.0) | COPIED);
            }
        }
    }

    fn answers(&self, core: &mut Core, bio: u32) {
        core.at(core.now + self.spec.latency_ns, self.me, u64::from(bio));
    }
}

impl Part for Memory {
    fn submit(&mut self, core: &mut Core, bio: BioId) {
        core.count_start(self.device);
        let Bio { plugged, len, .. } = core.bios[bio.0];
        if plugged && core.plug_request(self.me, bio.0, len, self.spec.kernel) {
            return;
        }
        self.waiting.push_back(bio);
        self.begin(core);
    }

    fn unplug(&mut self, core: &mut Core) {
        self.waiting.extend(core.unplugged(self.me).into_iter().map(BioId));
        self.begin(core);
    }

    fn timer(&mut self, core: &mut Core, token: u64) {
        self.in_flight -= 1;
        let thread = core.bios[token as u32].thread;
        let cpu = thread.map_or(0, |thread| core.cpus.cpu_of(thread));
        core.interrupt(cpu, self.spec.interrupt, self.me, token | HANDLED);
    }

    fn worked(&mut self, core: &mut Core, token: u64) {
        if token & COPIED != 0 {
            self.answers(core, (token & !COPIED) as u32);
            return;
        }
        self.begin(core);
        let id = BioId((token & !HANDLED) as u32);
        let bio = core.bios[id.0];
        core.count_end(self.device, bio.op, bio.len, bio.submitted, 0);
        core.complete(id);
    }

    fn size(&self) -> u64 {
        self.spec.size.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testbed::{Step, Testbed};

    const PAGE: u64 = super::PAGE;

    /// One that costs nothing and answers after 1 ms.
    fn free() -> MemorySpec {
        MemorySpec {
            size: Bytes::from_mib(1),
            latency_ns: 1_000_000,
            depth: 64,
            interrupt: Cost::NONE,
            request: Cost::NONE,
            byte_1024: 0,
            copy_byte_1024: 0,
            page: Cost::NONE,
            kernel: KernelVersion::new(6, 12, 0),
        }
    }

    /// Cycles that a program of these requests takes beside those that cost nothing here, one at a time.
    fn took(steps: Vec<Step>) -> u64 {
        let run = |spec| {
            let mut testbed = Testbed::new(1, 1_000);
            testbed.world.core.devices.push(crate::block::DeviceStats::new("nullb0"));
            let device = testbed.world.core.devices.len() - 1;
            let me = testbed.world.next_part();
            testbed.world.add(Box::new(Memory::new(me, device, spec)));
            testbed.scripts(me, 1, vec![steps.clone()]);
            testbed.finish();
            testbed.world.core.cpus.thread_times().map(|(.., ns)| ns).sum::<u64>()
        };
        let request = Cost::cycles(1_000_000);
        let (byte_1024, copy_byte_1024, page) = (1024, 2048, Cost::cycles(100_000));
        run(MemorySpec { request, byte_1024, copy_byte_1024, page, ..free() }) - run(free())
    }

    #[test]
    fn what_is_there_is_copied_and_what_is_written_first_is_got() {
        let (read, write) =
            (|n| Step::Direct(Op::Read, n, 2 * PAGE), |n| Step::Direct(Op::Write, n, 2 * PAGE));
        let looked_up = 1_000_000 + 2 * PAGE;
        let copied = looked_up + 2 * 2 * PAGE;
        assert_eq!(took(vec![read(0)]), looked_up);
        assert_eq!(took(vec![write(0)]), copied + 200_000);
        assert_eq!(took(vec![write(0), write(0), read(0)]), 3 * copied + 200_000);
        // One page of the two is there.
        assert_eq!(took(vec![write(0), read(PAGE)]), copied + 200_000 + looked_up + 2 * PAGE);
    }

    /// Its thread holds a plug for a while after its request.
    struct Holder {
        me: PartId,
        below: PartId,
        thread: crate::cpu::ThreadId,
        plugged: bool,
    }

    impl Part for Holder {
        fn timer(&mut self, core: &mut Core, token: u64) {
            core.run(self.thread, Cost::cycles(1), self.me, token);
        }

        fn worked(&mut self, core: &mut Core, token: u64) {
            if token == 1 {
                return core.release_plug();
            }
            core.hold_plug();
            let bio = Bio::new(self.me, self.below, Op::Read, 0, PAGE, 0);
            core.submit(Bio { plugged: self.plugged, ..bio });
            core.run(self.thread, Cost::cycles(300_000), self.me, 1);
        }

        fn done(&mut self, core: &mut Core, _: &Bio) {
            core.stop();
        }
    }

    #[test]
    fn a_request_under_a_plug_begins_when_that_ends() {
        let took = |plugged| {
            let mut testbed = Testbed::new(1, 1_000);
            let world = &mut testbed.world;
            world.core.devices.push(crate::block::DeviceStats::new("nullb0"));
            let device = world.core.devices.len() - 1;
            let below = world.next_part();
            world.add(Box::new(Memory::new(below, device, free())));
            let (me, thread) =
                (world.next_part(), world.core.cpus.thread("thread", domain::trace::Role::Array, 0));
            world.add(Box::new(Holder { me, below, thread, plugged }));
            world.core.at(0, me, 0);
            assert_eq!(world.run(100_000_000, None, &mut ()), crate::engine::Stopped::Done);
            world.core.now
        };
        assert_eq!(took(true) - took(false), 300_000);
    }
}
