//! One disk's front: it takes commands into its queue, and hands them to what is behind.

use crate::disk_set::Shared;
use crate::events::{Event, Events};
use crate::hdd::Hdd;
use crate::link::{self, Port};
use crate::spec::{DiskSpec, MediumSpec};
use crate::ssd::Ssd;
use crate::{Completed, Op, Refused, Request};
use domain::rng::Rng;
use domain::time::Nanos;
use event_queue::{LineId, Slab, Time};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(crate) struct Drive {
    front: Front,
    medium: Medium,
}

#[derive(Clone, Debug)]
enum Medium {
    Hdd(Box<Hdd>),
    Ssd(Box<Ssd>),
}

impl Drive {
    pub(crate) fn new(
        index: u32,
        spec: &DiskSpec,
        link: Option<usize>,
        rng: Rng,
        events: &mut Events,
    ) -> Self {
        let medium = match &spec.medium {
            MediumSpec::Hdd(hdd) => Medium::Hdd(Box::new(Hdd::new(hdd, spec.capacity, rng))),
            MediumSpec::Ssd(ssd) => Medium::Ssd(Box::new(Ssd::new(ssd, spec.capacity, rng, events.line()))),
        };
        Self { front: Front::new(index, spec, link, events), medium }
    }

    pub(crate) fn submit(&mut self, now: Time, request: Request, shared: &mut Shared) -> Result<(), Refused> {
        self.front.check(&request)?;
        let command = Command::new(now, &request);
        let slot = self.front.commands.put(command);
        self.front.waiting.push_back(slot);
        self.front.admit(now, shared);
        Ok(())
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.front.waiting.len() + self.front.inside as usize
    }

    pub(crate) fn handle(&mut self, now: Time, event: Event, shared: &mut Shared) {
        match (&mut self.medium, event) {
            (_, Event::Admit) => self.front.admit(now, shared),
            (Medium::Hdd(hdd), event) => hdd.handle(now, event, &mut self.front, shared),
            (Medium::Ssd(ssd), event) => ssd.handle(now, event, &mut self.front, shared),
        }
    }
}

/// A command from its submission to its completion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Command {
    id: u64,
    submitted: Time,
    pub(crate) op: Op,
    pub(crate) fua: bool,
    pub(crate) start: u64,
    pub(crate) len: u64,
    /// Pages that are not yet across (SSD).
    pub(crate) pages: u32,
    /// The medium's own number for how far it must come before this is done (SSD).
    pub(crate) until: u64,
}

impl Command {
    const fn new(now: Time, request: &Request) -> Self {
        Self {
            id: request.id,
            submitted: now,
            op: request.op,
            fua: request.fua,
            start: request.offset.get(),
            len: request.len.get(),
            pages: 0,
            until: 0,
        }
    }

    pub(crate) const fn end(&self) -> u64 {
        self.start + self.len
    }
}

/// The electronics that every disk has: queue, controller, port.
#[derive(Clone, Debug)]
pub(crate) struct Front {
    pub(crate) index: u32,
    size: u64,
    block: u64,
    depth: u32,
    command_time: Time,
    command_latency: Time,
    /// A flush runs alone: ATA's FLUSH CACHE is not a queued command.
    flush_alone: bool,
    flushing: bool,
    controller_free: Time,
    /// Commands are understood, and their data is across, in the order in which they begin.
    understood: LineId,
    across: LineId,
    pub(crate) port: Port,
    pub(crate) commands: Slab<Command>,
    waiting: VecDeque<u32>,
    inside: u32,
}

impl Front {
    fn new(index: u32, spec: &DiskSpec, link: Option<usize>, events: &mut Events) -> Self {
        Self {
            index,
            size: spec.capacity.get(),
            block: spec.logical_block.get(),
            depth: spec.interface.queue_depth,
            command_time: spec.interface.command_time.get(),
            command_latency: spec.interface.command_latency.get(),
            flush_alone: matches!(spec.medium, MediumSpec::Hdd(_)),
            flushing: false,
            controller_free: 0,
            understood: events.line(),
            across: events.line(),
            port: Port::new(spec.interface.rate, link),
            commands: Slab::default(),
            waiting: VecDeque::new(),
            inside: 0,
        }
    }

    fn check(&self, request: &Request) -> Result<(), Refused> {
        if request.op == Op::Flush {
            return Ok(());
        }
        let (offset, len, size) = (request.offset.get(), request.len.get(), self.size);
        if len == 0 {
            return Err(Refused::Empty);
        }
        if offset.checked_add(len).is_none_or(|end| end > size) {
            return Err(Refused::BeyondEnd { offset, len, size });
        }
        let block = self.block;
        match offset.is_multiple_of(block) && len.is_multiple_of(block) {
            true => Ok(()),
            false => Err(Refused::Unaligned { offset, len, block }),
        }
    }

    /// Takes waiting commands in while there is room, in the order of their arrival.
    fn admit(&mut self, now: Time, shared: &mut Shared) {
        while let Some(slot) = self.waiting.front().copied() {
            if !self.may_enter(slot, shared) {
                return;
            }
            self.waiting.pop_front();
            self.inside += 1;
            self.flushing = self.flush_alone && self.commands[slot].op == Op::Flush;
            self.controller_free = self.controller_free.max(now) + self.command_time;
            let understood = self.controller_free + self.command_latency;
            shared.events.append(self.understood, understood, (self.index, Event::Understood(slot)));
        }
    }

    fn may_enter(&self, slot: u32, shared: &mut Shared) -> bool {
        let is_flush = self.commands[slot].op == Op::Flush;
        if self.inside >= self.depth || self.flushing || (is_flush && self.flush_alone && self.inside > 0) {
            return false;
        }
        self.port.link.is_none_or(|first| link::take(&mut shared.links, first, self.index))
    }

    /// Puts a command's data on the link now; [`Event::Across`] follows.
    pub(crate) fn transfer(&mut self, now: Time, slot: u32, shared: &mut Shared) {
        self.carry(now, self.commands[slot].len, Event::Across(slot), shared);
    }

    /// Puts bytes on the link now; when they are across, there is this event.
    pub(crate) fn carry(&mut self, now: Time, bytes: u64, event: Event, shared: &mut Shared) {
        let end = self.port.transfer(now, bytes, &mut shared.links);
        shared.events.append(self.across, end, (self.index, event));
    }

    /// Answers a command; one that waited may enter.
    pub(crate) fn complete(&mut self, now: Time, slot: u32, shared: &mut Shared) {
        let command = self.commands.remove(slot);
        shared.done.push(Completed {
            disk: self.index as usize,
            id: command.id,
            submitted: Nanos::new(command.submitted),
            at: Nanos::new(now),
        });
        self.inside -= 1;
        self.flushing &= command.op != Op::Flush;
        if let Some(first) = self.port.link {
            link::release(&mut shared.links, first, now, self.index, &mut shared.events);
        }
        self.admit(now, shared);
    }
}
