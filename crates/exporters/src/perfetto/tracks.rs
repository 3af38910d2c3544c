//! Packets of one sequence, and the tracks that they are about: groups, counters, slices and instants
//! (<https://perfetto.dev/docs/reference/synthetic-track-event>).

use super::fields::{event, packet, trace, track};
use super::message::Message;
use crate::Sink;
use domain::time::Nanos;
use std::collections::BTreeMap;
use std::io;

/// The one sequence of packets; zero is none.
const SEQUENCE: u32 = 1;

/// A track's number, unlike that of all others; zero is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Track(u64);

impl Track {
    /// None is behind it.
    pub const LAST: Self = Self(u64::MAX);
}

/// Writes packets as they come, and knows which tracks there are.
pub(super) struct Packets<'o> {
    out: &'o mut dyn Sink,
    last: u64,
    groups: BTreeMap<String, Track>,
}

impl<'o> Packets<'o> {
    pub fn new(out: &'o mut dyn Sink) -> Self {
        Self { out, last: 0, groups: BTreeMap::new() }
    }

    /// Writes a packet.
    pub fn put(&mut self, packet: Message) -> io::Result<()> {
        let packet = packet.number(packet::SEQUENCE, SEQUENCE);
        self.out.write_all(Message::default().message(trace::PACKET, &packet).as_bytes())
    }

    /// The track of this name that has no parent; the first time, it is made.
    pub fn group(&mut self, name: &str) -> io::Result<Track> {
        if let Some(group) = self.groups.get(name) {
            return Ok(*group);
        }
        let ordered = Message::default().number(track::CHILD_ORDERING, track::EXPLICIT);
        let group = self.describe(ordered, name)?;
        self.groups.insert(name.to_owned(), group);
        Ok(group)
    }

    /// A track of slices or instants below a group. The UI draws those of one name as one.
    pub fn below(&mut self, group: Track, name: &str) -> io::Result<Track> {
        self.describe(self.child(group), name)
    }

    /// A track of a counter in this unit below a group; without one it is a plain number.
    pub fn counter(&mut self, group: Track, name: &str, unit: &str) -> io::Result<Track> {
        let counter = match unit {
            "" => Message::default(),
            unit => Message::default().text(track::UNIT_NAME, unit),
        };
        self.describe(self.child(group).message(track::COUNTER, &counter), name)
    }

    /// Children stand in the order in which they were made.
    fn child(&self, group: Track) -> Message {
        Message::default().number(track::PARENT, group.0).number(track::RANK, self.last)
    }

    fn describe(&mut self, descriptor: Message, name: &str) -> io::Result<Track> {
        self.last += 1;
        let descriptor = descriptor.number(track::UUID, self.last).text(track::NAME, name);
        self.put(Message::default().message(packet::TRACK_DESCRIPTOR, &descriptor))?;
        Ok(Track(self.last))
    }

    /// A counter's value, which holds until its next one.
    pub fn value(&mut self, at: Nanos, track: Track, value: f64) -> io::Result<()> {
        self.event(at, track, event::COUNTER, Message::default().double(event::DOUBLE_VALUE, value))
    }

    /// A slice begins.
    pub fn begin(&mut self, at: Nanos, track: Track, name: &str, notes: &[(&str, u64)]) -> io::Result<()> {
        self.event(at, track, event::SLICE_BEGIN, noted(name, notes))
    }

    /// The slice that began last and goes on, ends.
    pub fn end(&mut self, at: Nanos, track: Track) -> io::Result<()> {
        self.event(at, track, event::SLICE_END, Message::default())
    }

    /// Something without length.
    pub fn instant(&mut self, at: Nanos, track: Track, name: &str, notes: &[(&str, u64)]) -> io::Result<()> {
        self.event(at, track, event::INSTANT, noted(name, notes))
    }

    fn event(&mut self, at: Nanos, track: Track, kind: u32, event: Message) -> io::Result<()> {
        let event = event.number(event::TYPE, kind).number(event::TRACK, track.0);
        let timed = Message::default().number(packet::TIMESTAMP, at.get());
        self.put(timed.message(packet::TRACK_EVENT, &event))
    }
}

/// A name with numbers that the UI shows beside it.
fn noted(name: &str, notes: &[(&str, u64)]) -> Message {
    let note = |message: Message, (name, value): &(&str, u64)| {
        let note = Message::default().text(event::ANNOTATION_NAME, name);
        message.message(event::ANNOTATION, &note.number(event::ANNOTATION_UINT, *value))
    };
    notes.iter().fold(Message::default().text(event::NAME, name), note)
}
