//! A hard disk: one mechanism that seeks, waits for the platter and moves data, a read buffer, a write
//! buffer.
//!
//! Modelled: the seek curve; rotation, whose angle follows from the time; zones; reading ahead into segments;
//! a write buffer that is written in the order of positioning time and throttles writers when it is full; a
//! command queue served in the order of shortest positioning time, weighed by waiting (WSTF of Seltzer, Chen
//! and Ousterhout, "Disk scheduling revisited", USENIX Winter 1990); flush; forced unit access; data that
//! goes to the link while the medium is still being read. Left out: defects, thermal recalibration, head
//! switches apart from their share in the sustained rate, spin-down, and partial physical blocks (a 4 KiB
//! sector written in part).

pub(crate) mod dirty;
pub(crate) mod geometry;
pub(crate) mod seek;
pub(crate) mod segments;

use crate::Op;
use crate::disk_set::Shared;
use crate::drive::Front;
use crate::events::Event;
use crate::link::span_of;
use crate::spec::HddSpec;
use dirty::Dirty;
use domain::rng::Rng;
use domain::units::Bytes;
use event_queue::Time;
use geometry::{Geometry, Place};
use seek::SeekCurve;
use segments::{Found, Segments};
use std::collections::VecDeque;

/// The buffer is written in pieces of at most this, so that room comes free while a long extent is written.
const DESTAGE_PIECE: u64 = 128 << 10;

/// A place that passed by less than this ago is still under the head: what integer nanoseconds round away.
const ROUNDING: Time = 2_000;

/// A command that waits for the mechanism.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    slot: u32,
    since: Time,
    start: u64,
    end: u64,
    place: Place,
    writes: bool,
}

/// What the mechanism is at.
#[derive(Clone, Copy, Debug)]
enum Work {
    Read { start: u64, end: u64, per_byte: f64 },
    ReadOn,
    WriteThrough { slot: u32, end: u64 },
    Destage { bytes: u64, end: u64 },
}

/// A time, and how far the platter has turned then.
#[derive(Clone, Copy, Debug)]
struct Moment {
    now: Time,
    turned: Time,
}

/// What the mechanism could do next.
#[derive(Clone, Copy, Debug)]
enum Choice {
    Command(usize),
    Extent(usize),
}

#[derive(Clone, Debug)]
pub(crate) struct Hdd {
    geometry: Geometry,
    seek: SeekCurve,
    write_settle: Time,
    destage_idle: Time,
    per_patience: f64,
    segments: Segments,
    dirty: Dirty,
    queue: Vec<Waiting>,
    /// Writes that wait for room in the buffer.
    throttled: VecDeque<u32>,
    flush: Option<u32>,
    work: Option<Work>,
    /// The cylinder, the byte that follows the last access, and when that ended.
    arm: f64,
    next_byte: u64,
    next_at: Time,
    /// Angle at time zero.
    phase: Time,
    /// When a command or the mechanism last did something, and whether an idle time is being waited for.
    active_at: Time,
    idle_planned: bool,
    destaging: bool,
}

impl Hdd {
    pub(crate) fn new(spec: &HddSpec, capacity: Bytes, mut rng: Rng) -> Self {
        let geometry = Geometry::new(spec, capacity);
        let phase = rng.below(geometry.revolution as usize) as Time;
        Self {
            seek: SeekCurve::through(spec, capacity).unwrap_or_else(|_| SeekCurve::flat(spec.seek_average)),
            geometry,
            write_settle: spec.write_settle.get(),
            destage_idle: spec.destage_idle.get(),
            per_patience: 1.0 / spec.patience.get().max(1) as f64,
            segments: Segments::new(spec.read_segments, spec.read_ahead.get(), capacity.get()),
            dirty: Dirty::new(spec.write_buffer.get(), spec.write_extents),
            queue: Vec::new(),
            throttled: VecDeque::new(),
            flush: None,
            work: None,
            arm: 0.0,
            next_byte: 0,
            next_at: 0,
            phase,
            active_at: 0,
            idle_planned: false,
            destaging: false,
        }
    }

    pub(crate) fn handle(&mut self, now: Time, event: Event, front: &mut Front, shared: &mut Shared) {
        match event {
            Event::Understood(slot) => self.begin(now, slot, front, shared),
            Event::Transfer(slot) => front.transfer(now, slot, shared),
            Event::Across(slot) => self.across(now, slot, front, shared),
            Event::Mechanism => self.worked(now, front, shared),
            Event::Idle => self.idle(now, front, shared),
            other => unreachable!("a hard disk has no {other:?}"),
        }
    }

    fn begin(&mut self, now: Time, slot: u32, front: &mut Front, shared: &mut Shared) {
        self.active_at = now;
        match front.commands[slot].op {
            Op::Read => self.begin_read(now, slot, front, shared),
            Op::Write => self.begin_write(now, slot, front, shared),
            Op::Flush => self.begin_flush(now, slot, front, shared),
            Op::Discard => front.complete(now, slot, shared),
        }
    }

    fn begin_read(&mut self, now: Time, slot: u32, front: &mut Front, shared: &mut Shared) {
        let command = front.commands[slot];
        let (start, end) = (command.start, command.end());
        if self.dirty.holds(start, end) {
            return front.transfer(now, slot, shared);
        }
        if self.segments.find(now, start, end) == Found::All {
            self.segments.consumed(now, end);
            front.transfer(now, slot, shared);
            return self.read_on(now, end, front, shared);
        }
        self.enqueue(now, slot, start, end, false);
        self.go_on(now, front, shared);
    }

    /// Reads on in the background, where a stopped stream is nearly used up and nothing else is to do.
    fn read_on(&mut self, now: Time, consumed: u64, front: &Front, shared: &mut Shared) {
        if self.work.is_some() || !self.queue.is_empty() || self.dirty.presses() {
            return;
        }
        let Some(from) = self.segments.wants_more(now, consumed) else { return };
        self.segments.leave(now);
        let place = self.geometry.place(from);
        let at = now + self.position(now, &place, from, 0);
        self.arm = place.cylinder;
        self.next_byte = from;
        self.start(at, Work::ReadOn, front, shared);
    }

    fn begin_write(&mut self, now: Time, slot: u32, front: &mut Front, shared: &mut Shared) {
        let command = front.commands[slot];
        if command.fua || !self.dirty.is_on() {
            return front.transfer(now, slot, shared);
        }
        if self.throttled.is_empty() && self.dirty.promise(command.len) {
            return front.transfer(now, slot, shared);
        }
        self.throttled.push_back(slot);
        self.go_on(now, front, shared);
    }

    fn begin_flush(&mut self, now: Time, slot: u32, front: &mut Front, shared: &mut Shared) {
        if self.dirty.is_empty() {
            return front.complete(now, slot, shared);
        }
        self.flush = Some(slot);
        self.go_on(now, front, shared);
    }

    /// A command's data is across the link: a read's to the host, a write's to the buffer.
    fn across(&mut self, now: Time, slot: u32, front: &mut Front, shared: &mut Shared) {
        let command = front.commands[slot];
        if command.op == Op::Read {
            return front.complete(now, slot, shared);
        }
        let (start, end) = (command.start, command.end());
        self.segments.invalidate(now, start, end);
        if command.fua || !self.dirty.is_on() {
            self.enqueue(now, slot, start, end, true);
        } else {
            self.dirty.insert(start, end, &self.geometry);
            front.complete(now, slot, shared);
        }
        self.go_on(now, front, shared);
    }

    fn enqueue(&mut self, now: Time, slot: u32, start: u64, end: u64, writes: bool) {
        let place = self.geometry.place(start);
        self.queue.push(Waiting { slot, since: now, start, end, place, writes });
    }

    /// The mechanism is done with something.
    fn worked(&mut self, now: Time, front: &mut Front, shared: &mut Shared) {
        (self.next_at, self.active_at) = (now, now);
        match self.work.take() {
            Some(Work::Read { start, end, per_byte }) => {
                self.segments.read(now, start, end, per_byte);
            }
            Some(Work::ReadOn) => {
                let per_byte = self.geometry.place(self.next_byte).per_byte;
                self.segments.read(now, self.next_byte, self.next_byte, per_byte);
            }
            Some(Work::WriteThrough { slot, end }) => {
                self.next_byte = end;
                front.complete(now, slot, shared);
            }
            Some(Work::Destage { bytes, end }) => {
                self.next_byte = end;
                self.dirty.written(bytes);
                self.admit_throttled(now, front, shared);
                self.finish_flush(now, front, shared);
            }
            None => {}
        }
        self.go_on(now, front, shared);
    }

    fn admit_throttled(&mut self, now: Time, front: &mut Front, shared: &mut Shared) {
        while let Some(slot) = self.throttled.front().copied() {
            if !self.dirty.promise(front.commands[slot].len) {
                return;
            }
            self.throttled.pop_front();
            front.transfer(now, slot, shared);
        }
    }

    fn finish_flush(&mut self, now: Time, front: &mut Front, shared: &mut Shared) {
        if !self.dirty.is_empty() {
            return;
        }
        if let Some(slot) = self.flush.take() {
            front.complete(now, slot, shared);
        }
    }

    fn idle(&mut self, now: Time, front: &mut Front, shared: &mut Shared) {
        self.idle_planned = false;
        let was_idle = now >= self.active_at + self.destage_idle;
        self.destaging |= was_idle && self.work.is_none() && self.queue.is_empty();
        self.go_on(now, front, shared);
    }

    /// Gives the mechanism something to do, where it has nothing and there is something.
    fn go_on(&mut self, now: Time, front: &mut Front, shared: &mut Shared) {
        if self.work.is_some() {
            return;
        }
        if !self.queue.is_empty() {
            self.destaging = false;
        }
        match self.choose(now) {
            Some(Choice::Command(index)) => self.serve(now, index, front, shared),
            Some(Choice::Extent(index)) => self.destage(now, index, front, shared),
            None => self.wait_idle(now, front, shared),
        }
    }

    /// After a while with nothing to do, what the buffer holds is written.
    fn wait_idle(&mut self, now: Time, front: &Front, shared: &mut Shared) {
        if self.dirty.extents().is_empty() {
            self.destaging = false;
            return;
        }
        if !self.idle_planned {
            self.idle_planned = true;
            shared.events.plan(now.max(self.active_at + self.destage_idle), (front.index, Event::Idle));
        }
    }

    fn must_destage(&self) -> bool {
        self.dirty.presses() || !self.throttled.is_empty() || self.flush.is_some()
    }

    /// What is reached first, among the commands, and the buffer's extents where those are due.
    fn choose(&mut self, now: Time) -> Option<Choice> {
        let mut best: Option<(Time, Choice)> = None;
        let moment = Moment { now, turned: self.geometry.turned(now + self.phase) };
        let streamed = self.segments.within_reach(now);
        for (index, waiting) in self.queue.iter().enumerate() {
            let bound = best.map_or(Time::MAX, |(least, _)| least);
            let weight = self.weight(now, waiting);
            let time = match !waiting.writes && streamed.contains(&waiting.start) {
                true => 0,
                false => self.weighed(moment, waiting, weight, bound),
            };
            if time < bound {
                best = Some((time, Choice::Command(index)));
            }
        }
        if self.must_destage() || (self.destaging && best.is_none()) {
            for (index, extent) in self.dirty.extents().iter().enumerate() {
                let bound = best.map_or(Time::MAX, |(least, _)| least);
                let time = self.positioning(moment, &extent.place, extent.start, self.write_settle, bound);
                if time < bound {
                    best = Some((time, Choice::Extent(index)));
                }
            }
        }
        best.map(|(_, choice)| choice)
    }

    /// What a positioning time counts for: less the longer a command has waited, nothing once that is its
    /// patience.
    fn weight(&self, now: Time, waiting: &Waiting) -> f64 {
        (1.0 - (now - waiting.since) as f64 * self.per_patience).max(0.0)
    }

    /// A command's positioning time, weighed; where it cannot be below the bound, some time that is not.
    fn weighed(&self, moment: Moment, waiting: &Waiting, weight: f64, bound: Time) -> Time {
        let settle = if waiting.writes { self.write_settle } else { 0 };
        // The bound is raised instead of each part lowered; rounding up keeps it a bound.
        let bound = if weight > 0.0 { (bound as f64 / weight).ceil() as Time } else { Time::MAX };
        let time = self.positioning(moment, &waiting.place, waiting.start, settle, bound);
        (time as f64 * weight) as Time
    }

    /// Seek, settle and rotation from where the head is.
    fn position(&self, now: Time, place: &Place, byte: u64, settle: Time) -> Time {
        let moment = Moment { now, turned: self.geometry.turned(now + self.phase) };
        self.positioning(moment, place, byte, settle, Time::MAX)
    }

    /// The same, over many candidates: where the seek alone is not below the bound, the seek alone.
    fn positioning(&self, moment: Moment, place: &Place, byte: u64, settle: Time, bound: Time) -> Time {
        if byte == self.next_byte && moment.now == self.next_at {
            return 0;
        }
        let distance = (place.cylinder - self.arm).abs();
        let moved = self.seek.time(distance) + settle;
        if moved >= bound {
            return moved;
        }
        let wait = self.geometry.until(place.angle, moment.turned, moved);
        match moved == 0 && wait + ROUNDING > self.geometry.revolution {
            true => 0,
            false => moved + wait,
        }
    }

    fn serve(&mut self, now: Time, index: usize, front: &mut Front, shared: &mut Shared) {
        let waiting = self.queue.swap_remove(index);
        if waiting.writes {
            return self.write_through(now, &waiting, front, shared);
        }
        match self.segments.find(now, waiting.start, waiting.end) {
            Found::All => {
                self.segments.consumed(now, waiting.end);
                front.transfer(now, waiting.slot, shared);
                self.go_on(now, front, shared);
            }
            Found::Coming => self.read_along(now, &waiting, front, shared),
            Found::Until(start) => self.read(now, &waiting, start, front, shared),
            Found::Nothing => self.read(now, &waiting, waiting.start, front, shared),
        }
    }

    /// The stream comes to the command's end: no positioning.
    fn read_along(&mut self, now: Time, waiting: &Waiting, front: &Front, shared: &mut Shared) {
        let stream = self.segments.extend(waiting.end).expect("a read that is coming has a stream");
        let done = stream.passes(waiting.end).max(now);
        self.give(now, done, waiting, front, shared);
        let end = self.geometry.place(waiting.end);
        self.arm = end.cylinder;
        self.next_byte = waiting.end;
        let work = Work::Read { start: waiting.start, end: waiting.end, per_byte: end.per_byte };
        self.start(done, work, front, shared);
    }

    fn read(&mut self, now: Time, waiting: &Waiting, start: u64, front: &Front, shared: &mut Shared) {
        let place = if start == waiting.start { waiting.place } else { self.geometry.place(start) };
        let positioned = now + self.position(now, &place, start, 0);
        let done = positioned + media_time(&place, waiting.end - start);
        self.segments.leave(now);
        self.give(now, done, waiting, front, shared);
        let end = self.geometry.place(waiting.end);
        self.arm = end.cylinder;
        self.next_byte = waiting.end;
        let work = Work::Read { start, end: waiting.end, per_byte: end.per_byte };
        self.start(done, work, front, shared);
    }

    /// Data goes to the link as it comes off the medium, so that only its end is left when the medium is
    /// done.
    fn give(&self, now: Time, done: Time, waiting: &Waiting, front: &Front, shared: &mut Shared) {
        let transfer = span_of(waiting.end - waiting.start, front.port.rate);
        let at = done.saturating_sub(transfer).max(now);
        shared.events.plan(at, (front.index, Event::Transfer(waiting.slot)));
    }

    fn write_through(&mut self, now: Time, waiting: &Waiting, front: &Front, shared: &mut Shared) {
        let place = waiting.place;
        let positioned = now + self.position(now, &place, waiting.start, self.write_settle);
        self.segments.leave(now);
        self.arm = self.geometry.place(waiting.end).cylinder;
        let done = positioned + media_time(&place, waiting.end - waiting.start);
        self.start(done, Work::WriteThrough { slot: waiting.slot, end: waiting.end }, front, shared);
    }

    fn destage(&mut self, now: Time, index: usize, front: &Front, shared: &mut Shared) {
        let extent = self.dirty.begin(index, DESTAGE_PIECE, &self.geometry);
        let positioned = now + self.position(now, &extent.place, extent.start, self.write_settle);
        self.segments.leave(now);
        self.arm = self.geometry.place(extent.end).cylinder;
        let bytes = extent.end - extent.start;
        let done = positioned + media_time(&extent.place, bytes);
        self.start(done, Work::Destage { bytes, end: extent.end }, front, shared);
    }

    fn start(&mut self, done: Time, work: Work, front: &Front, shared: &mut Shared) {
        self.work = Some(work);
        shared.events.plan(done, (front.index, Event::Mechanism));
    }
}

fn media_time(place: &Place, bytes: u64) -> Time {
    (bytes as f64 * place.per_byte).ceil() as Time
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::spec::ZoneSpec;
    use domain::time::Nanos;
    use domain::units::Ratio;

    pub(crate) fn spec() -> HddSpec {
        HddSpec {
            rpm: 7_200,
            heads: 4,
            seek_track_to_track: Nanos::from_millis(1),
            seek_average: Nanos::from_micros(8_500),
            seek_full_stroke: Nanos::from_millis(18),
            seek_short_share: Ratio::new(0.2).unwrap(),
            write_settle: Nanos::from_micros(500),
            zones: vec![ZoneSpec { share: Ratio::new(1.0).unwrap(), rate: Bytes::new(100_000_000) }],
            read_ahead: Bytes::from_kib(512),
            read_segments: 8,
            write_buffer: Bytes::from_mib(8),
            write_extents: 64,
            destage_idle: Nanos::from_millis(20),
            patience: Nanos::from_secs(1),
        }
    }
}
