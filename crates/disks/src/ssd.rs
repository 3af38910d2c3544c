//! A flash disk: dies on channels, a write buffer before them, a translation layer that collects garbage.
//!
//! Modelled: pages spread over the dies by their number; a die does one thing at a time, reads before
//! programs until the buffer fills; a channel carries one page at a time; writes are answered from the buffer
//! and programmed page by page; garbage collection (see `ftl`) makes each program cost that much more;
//! erasures; discard; flush. Left out: a faster region of the flash (pseudo-SLC), reading ahead, suspending a
//! program for a read, wear, reads answered from the write buffer, and that units which were never written
//! need no flash to be read.

pub(crate) mod ftl;

use crate::Op;
use crate::disk_set::Shared;
use crate::drive::Front;
use crate::events::Event;
use crate::link::span_of;
use crate::spec::{SsdSpec, SsdState};
use domain::rng::Rng;
use domain::units::Bytes;
use event_queue::{LineId, Slab, Time};
use ftl::Ftl;
use std::collections::VecDeque;

/// The end of a list.
const NONE: u32 = u32::MAX;

/// A page, or a part of one, on its way from the flash to the host.
#[derive(Clone, Copy, Debug)]
struct PageRead {
    slot: u32,
    die: u32,
    bytes: u32,
    next: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DieWork {
    Nothing,
    Read(u32),
    Program,
}

#[derive(Clone, Debug)]
struct Die {
    work: DieWork,
    /// Reads that wait, first to last.
    first: u32,
    last: u32,
    read_last: bool,
    /// Units of the page that is being programmed.
    units: u64,
    /// Pages programmed since the last erasure, and what collection owes, in pages.
    programmed: u32,
    owed: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct Ssd {
    spec: SsdSpec,
    page: u64,
    unit: u64,
    dies: Vec<Die>,
    /// All reads of a page take as long, so they are done in the order in which they begin.
    reads: LineId,
    channel_free: Vec<Time>,
    pages: Slab<PageRead>,
    ftl: Ftl,
    buffer: Buffer,
    /// The die at which the search for an idle one begins.
    turn: usize,
    throttled: VecDeque<u32>,
    /// Commands that wait until what was taken before them is programmed, in that order.
    barriers: VecDeque<u32>,
}

/// The write buffer, in mapped units, counted from the beginning of time.
#[derive(Clone, Copy, Debug)]
struct Buffer {
    most: u64,
    units_per_page: u64,
    /// Units promised to commands whose data is still on the link.
    promised: u64,
    taken: u64,
    /// Units handed to dies, and those that are programmed.
    begun: u64,
    programmed: u64,
    /// Up to here incomplete pages are programmed too.
    forced: u64,
}

impl Buffer {
    const fn held(&self) -> u64 {
        self.taken - self.programmed + self.promised
    }

    /// One command that is larger than the buffer has it alone.
    fn promise(&mut self, units: u64) -> bool {
        if self.held() > 0 && self.held() + units > self.most {
            return false;
        }
        self.promised += units;
        true
    }

    /// The units of the next page to program: a whole page, or what is forced.
    fn next_page(&self) -> u64 {
        let waiting = self.taken - self.begun;
        match waiting >= self.units_per_page {
            true => self.units_per_page,
            false => self.forced.saturating_sub(self.begun).min(waiting),
        }
    }

    const fn presses(&self) -> bool {
        self.held() * 2 > self.most
    }
}

impl Ssd {
    pub(crate) fn new(spec: &SsdSpec, capacity: Bytes, mut rng: Rng, reads: LineId) -> Self {
        let (page, unit) = (spec.page.get(), spec.map_unit.get());
        let mut ftl = Ftl::new(capacity.get().div_ceil(unit), spec.over_provisioning.get());
        match spec.state {
            SsdState::Fresh => {}
            SsdState::Filled => ftl.fill(),
            SsdState::Steady => ftl.wear_in(&mut rng),
        }
        let dies = (spec.channels * spec.dies_per_channel) as usize;
        let die = Die {
            work: DieWork::Nothing,
            first: NONE,
            last: NONE,
            read_last: false,
            units: 0,
            programmed: 0,
            owed: 0.0,
        };
        Self {
            page,
            unit,
            dies: vec![die; dies],
            reads,
            channel_free: vec![0; spec.channels as usize],
            pages: Slab::default(),
            ftl,
            buffer: Buffer {
                most: spec.write_buffer.get() / unit,
                units_per_page: page / unit,
                promised: 0,
                taken: 0,
                begun: 0,
                programmed: 0,
                forced: 0,
            },
            turn: 0,
            throttled: VecDeque::new(),
            barriers: VecDeque::new(),
            spec: spec.clone(),
        }
    }

    pub(crate) fn handle(&mut self, now: Time, event: Event, front: &mut Front, shared: &mut Shared) {
        match event {
            Event::Understood(slot) => self.begin(now, slot, front, shared),
            Event::Die(die) => self.die_done(now, die, front, shared),
            Event::PageRead(page) => self.page_read(now, page, front, shared),
            Event::PageAcross(slot) => self.page_across(now, slot, front, shared),
            Event::Across(slot) => self.across(now, slot, front, shared),
            Event::Flushed(slot) => front.complete(now, slot, shared),
            other => unreachable!("a flash disk has no {other:?}"),
        }
    }

    fn begin(&mut self, now: Time, slot: u32, front: &mut Front, shared: &mut Shared) {
        let command = front.commands[slot];
        match command.op {
            Op::Read => self.begin_read(now, slot, front, shared),
            Op::Write => self.begin_write(now, slot, front, shared),
            Op::Flush => self.wait_for_programs(now, slot, front, shared),
            Op::Discard => {
                // Only units that are wholly in the range.
                let first = command.start.div_ceil(self.unit);
                let count = (command.end() / self.unit).saturating_sub(first);
                self.ftl.discard(first, count);
                front.complete(now, slot, shared);
            }
        }
    }

    fn begin_read(&mut self, now: Time, slot: u32, front: &mut Front, shared: &mut Shared) {
        let command = front.commands[slot];
        let (first, last) = (command.start / self.page, (command.end() - 1) / self.page);
        front.commands[slot].pages = (last - first + 1) as u32;
        for page in first..=last {
            let start = command.start.max(page * self.page);
            let end = command.end().min((page + 1) * self.page);
            // Whole units are read: a map unit has one check sum.
            let bytes = end.next_multiple_of(self.unit) - start / self.unit * self.unit;
            let die = (page % self.dies.len() as u64) as u32;
            let read = PageRead { slot, die, bytes: bytes.min(self.page) as u32, next: NONE };
            let read = self.pages.put(read);
            self.queue_read(die, read);
            self.go_on(now, die, front, shared);
        }
    }

    fn queue_read(&mut self, die: u32, read: u32) {
        let last = std::mem::replace(&mut self.dies[die as usize].last, read);
        match last {
            NONE => self.dies[die as usize].first = read,
            last => self.pages[last].next = read,
        }
    }

    fn take_read(&mut self, die: u32) -> Option<u32> {
        let first = self.dies[die as usize].first;
        if first == NONE {
            return None;
        }
        let next = self.pages[first].next;
        self.dies[die as usize].first = next;
        if next == NONE {
            self.dies[die as usize].last = NONE;
        }
        Some(first)
    }

    fn begin_write(&mut self, now: Time, slot: u32, front: &mut Front, shared: &mut Shared) {
        let units = self.units(front, slot);
        if self.throttled.is_empty() && self.buffer.promise(units) {
            return front.transfer(now, slot, shared);
        }
        self.throttled.push_back(slot);
        self.wake_dies(now, front, shared);
    }

    /// How many units a command touches.
    fn units(&self, front: &Front, slot: u32) -> u64 {
        let command = front.commands[slot];
        command.end().div_ceil(self.unit) - command.start / self.unit
    }

    /// A write's data is in the buffer.
    fn across(&mut self, now: Time, slot: u32, front: &mut Front, shared: &mut Shared) {
        let command = front.commands[slot];
        let units = self.units(front, slot);
        self.buffer.promised -= units;
        self.buffer.taken += units;
        self.ftl.write(command.start / self.unit, units);
        match command.fua {
            true => self.wait_for_programs(now, slot, front, shared),
            false => front.complete(now, slot, shared),
        }
        self.wake_dies(now, front, shared);
    }

    /// A flush, or a write that must not be lost: done when all that was taken until now is programmed, or at
    /// once where a power cut does not lose the buffer.
    fn wait_for_programs(&mut self, now: Time, slot: u32, front: &mut Front, shared: &mut Shared) {
        if self.spec.power_loss_protection {
            front.commands[slot].until = 0;
        } else {
            front.commands[slot].until = self.buffer.taken;
            self.buffer.forced = self.buffer.taken;
        }
        self.barriers.push_back(slot);
        self.wake_dies(now, front, shared);
        self.pass_barriers(now, front, shared);
    }

    fn pass_barriers(&mut self, now: Time, front: &Front, shared: &mut Shared) {
        while let Some(slot) = self.barriers.front().copied() {
            if front.commands[slot].until > self.buffer.programmed {
                return;
            }
            self.barriers.pop_front();
            let after = match front.commands[slot].op {
                Op::Flush => self.spec.flush_time.get(),
                _ => 0,
            };
            shared.events.plan(now + after, (front.index, Event::Flushed(slot)));
        }
    }

    /// Gives pages that wait to dies that do nothing.
    fn wake_dies(&mut self, now: Time, front: &Front, shared: &mut Shared) {
        self.make_room(front);
        let mut tried = 0;
        while self.buffer.next_page() > 0 && tried < self.dies.len() {
            self.turn = (self.turn + 1) % self.dies.len();
            tried += 1;
            self.go_on(now, self.turn as u32, front, shared);
        }
    }

    /// A write that waits for all of the buffer has incomplete pages programmed too: it would wait for them
    /// forever.
    fn make_room(&mut self, front: &Front) {
        let Some(slot) = self.throttled.front().copied() else { return };
        if self.units(front, slot) + self.buffer.units_per_page > self.buffer.most {
            self.buffer.forced = self.buffer.taken;
        }
    }

    /// Gives a die something to do, where it has nothing and there is something.
    fn go_on(&mut self, now: Time, die: u32, front: &Front, shared: &mut Shared) {
        let state = &self.dies[die as usize];
        if state.work != DieWork::Nothing {
            return;
        }
        let programs = self.buffer.next_page() > 0;
        let program_first = state.first == NONE || (state.read_last && self.buffer.presses());
        if programs && program_first {
            return self.program(now, die, front, shared);
        }
        if let Some(read) = self.take_read(die) {
            let state = &mut self.dies[die as usize];
            (state.work, state.read_last) = (DieWork::Read(read), true);
            shared.events.append(self.reads, now + self.spec.page_read.get(), (front.index, Event::Die(die)));
        }
    }

    fn program(&mut self, now: Time, die: u32, front: &Front, shared: &mut Shared) {
        let units = self.buffer.next_page();
        self.buffer.begun += units;
        let arrived = self.over_channel(now, die, self.page);
        let collection = self.collection(die, units);
        let state = &mut self.dies[die as usize];
        (state.work, state.read_last) = (DieWork::Program, false);
        let done = arrived + self.spec.page_program.get() + collection;
        self.dies[die as usize].units = units;
        shared.events.plan(done, (front.index, Event::Die(die)));
    }

    /// What garbage collection and erasures cost this die beside a page of so many units.
    fn collection(&mut self, die: u32, units: u64) -> Time {
        let spec = &self.spec;
        let state = &mut self.dies[die as usize];
        state.owed += self.ftl.moves() * units as f64 / self.buffer.units_per_page as f64;
        let moved = state.owed as u32;
        state.owed -= f64::from(moved);
        state.programmed += 1 + moved;
        let mut cost = u64::from(moved) * (spec.page_read.get() + spec.page_program.get());
        if state.programmed >= spec.pages_per_block {
            state.programmed -= spec.pages_per_block;
            cost += spec.block_erase.get();
        }
        cost
    }

    fn over_channel(&mut self, now: Time, die: u32, bytes: u64) -> Time {
        let channel = die as usize % self.channel_free.len();
        let end = self.channel_free[channel].max(now) + span_of(bytes, self.spec.channel_rate);
        self.channel_free[channel] = end;
        end
    }

    fn die_done(&mut self, now: Time, die: u32, front: &mut Front, shared: &mut Shared) {
        match self.dies[die as usize].work {
            DieWork::Read(read) => {
                // The register keeps the page until the channel has it; the die waits for that.
                let bytes = u64::from(self.pages[read].bytes);
                let end = self.over_channel(now, die, bytes);
                shared.events.plan(end, (front.index, Event::PageRead(read)));
            }
            DieWork::Program => self.programmed(now, die, front, shared),
            DieWork::Nothing => {}
        }
    }

    fn programmed(&mut self, now: Time, die: u32, front: &mut Front, shared: &mut Shared) {
        self.dies[die as usize].work = DieWork::Nothing;
        self.buffer.programmed += self.dies[die as usize].units;
        while let Some(slot) = self.throttled.front().copied() {
            if !self.buffer.promise(self.units(front, slot)) {
                break;
            }
            self.throttled.pop_front();
            front.transfer(now, slot, shared);
        }
        self.make_room(front);
        self.pass_barriers(now, front, shared);
        self.go_on(now, die, front, shared);
    }

    fn page_read(&mut self, now: Time, read: u32, front: &mut Front, shared: &mut Shared) {
        let page = self.pages.remove(read);
        self.dies[page.die as usize].work = DieWork::Nothing;
        front.carry(now, u64::from(page.bytes), Event::PageAcross(page.slot), shared);
        self.go_on(now, page.die, front, shared);
    }

    fn page_across(&mut self, now: Time, slot: u32, front: &mut Front, shared: &mut Shared) {
        let command = &mut front.commands[slot];
        command.pages -= 1;
        if command.pages == 0 {
            front.complete(now, slot, shared);
        }
    }
}
