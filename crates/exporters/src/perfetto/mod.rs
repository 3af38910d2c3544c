//! A trace as Perfetto's packets (<https://perfetto.dev/docs/reference/trace-packet-proto>), for
//! <https://ui.perfetto.dev>: samples as counters, and events, where they were recorded, as those of ftrace
//! and as slices.
//!
//! All times are those of the recording's monotonic clock. Perfetto takes a kernel's event to be of
//! CLOCK_BOOTTIME, which is ahead of it by the time that the machine was suspended; that is not recorded, and
//! so both are said to be equal. Without events, time begins at zero.
//!
//! Packets are written as they come. In memory are one column of the trace, what `events` holds while it
//! decodes, and what is in flight.
//!
//! Not here: sampled call stacks.

mod fields;
mod kernel;
mod message;
mod tracks;

use crate::counters::{self, Counter};
use crate::{Content, Error, Exporter, Result, Sink, StoredTrace, Writer};
use domain::phase::Phase;
use domain::time::{Nanos, Timestamp};
use events::Tables;
use fields::{clock, packet};
use message::Message;
use tracks::Packets;

/// A trace for Perfetto.
pub(crate) struct Perfetto;

impl Exporter for Perfetto {
    fn name(&self) -> &'static str {
        "perfetto"
    }

    fn about(&self) -> &'static str {
        "A trace with its events, for ui.perfetto.dev"
    }

    fn writers(&self) -> &'static [Writer] {
        &[Writer::Trace(write)]
    }

    fn content(&self) -> Content {
        Content::Binary
    }
}

fn write(trace: &mut StoredTrace<'_>, out: &mut dyn Sink) -> Result<()> {
    trace.warn_of_dilation(out)?;
    let trial = trace.key.folder();
    let damaged =
        |error: events::Error| Error::Unsuitable(format!("cannot write the events of `{trial}`: {error}"));
    let tables = trace.events()?.map(Tables::read).transpose().map_err(damaged)?;
    let origin = tables.as_ref().map_or(Nanos::ZERO, |tables| tables.head.origin);
    let mut packets = Packets::new(out);
    packets.put(clocks(origin, trace.rows.head().start))?;
    let measured = trace.trial()?.measurement;
    phases(&measured.map(|measured| measured.phases).unwrap_or_default(), origin, &mut packets)?;
    counters::each(&mut trace.rows, &mut |counter| count(&counter, origin, &mut packets))?;
    let (Some(tables), Some(events)) = (tables, trace.events()?) else { return Ok(()) };
    kernel::declare(&tables, &mut packets)?;
    kernel::write(events, &tables, &mut packets)?.map_err(damaged)
}

/// A track with the time from mark to mark.
fn phases(all: &[Phase], origin: Nanos, packets: &mut Packets<'_>) -> Result<()> {
    if all.is_empty() {
        return Ok(());
    }
    let group = packets.group("marks")?;
    let track = packets.below(group, "from mark to mark")?;
    for phase in all {
        packets.begin(origin.saturating_add(phase.begin), track, phase.shown_name(), &[])?;
        packets.end(origin.saturating_add(phase.end), track)?;
    }
    Ok(())
}

/// A track with these values. Where there is none, Perfetto draws the one before on.
fn count(counter: &Counter<'_>, origin: Nanos, packets: &mut Packets<'_>) -> Result<()> {
    let group = packets.group(counter.group)?;
    let track = packets.counter(group, counter.name, counter.unit)?;
    for step in &counter.steps {
        let at = Nanos::new(origin.get().saturating_add(step.from.get()));
        packets.value(at, track, step.value)?;
    }
    Ok(())
}

/// What the clocks showed when the trace's time was zero. It is the first packet.
fn clocks(origin: Nanos, start: Timestamp) -> Message {
    let shown = |id: u32, ns: u64| Message::default().number(clock::ID, id).number(clock::TIMESTAMP, ns);
    let mut snapshot = Message::default()
        .message(clock::CLOCKS, &shown(clock::BOOTTIME, origin.get()))
        .message(clock::CLOCKS, &shown(clock::MONOTONIC, origin.get()))
        .number(clock::PRIMARY, clock::BOOTTIME);
    // An imported trace may not say when it was.
    if let Some(start) = u64::try_from(start.unix_nanos()).ok().filter(|ns| *ns > 0) {
        snapshot = snapshot.message(clock::CLOCKS, &shown(clock::REALTIME, start));
    }
    Message::default()
        .message(packet::CLOCK_SNAPSHOT, &snapshot)
        .number(packet::SEQUENCE_FLAGS, packet::INCREMENTAL_STATE_CLEARED)
}
