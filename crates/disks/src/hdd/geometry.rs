//! Where a byte lies: its cylinder, and its angle on the track.
//!
//! A zone's rate is its sustained rate, so that a "track" here is what passes the head in one revolution of
//! reading on: head and track switches are folded into it, and reading straight on never loses a revolution.

use crate::spec::HddSpec;
use domain::units::Bytes;
use event_queue::Time;

/// A place on the disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    /// From the outer edge; whole.
    pub(super) cylinder: f64,
    /// In nanoseconds of rotation, below one revolution.
    pub(super) angle: Time,
    /// How long one byte takes to pass, in nanoseconds.
    pub(super) per_byte: f64,
}

#[derive(Clone, Copy, Debug)]
struct Zone {
    start: f64,
    first_track: f64,
    tracks_per_byte: f64,
    per_byte: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    zones: Vec<Zone>,
    heads: f64,
    cylinders: f64,
    /// One revolution, in nanoseconds.
    pub(super) revolution: Time,
}

impl Geometry {
    pub(crate) fn new(spec: &HddSpec, capacity: Bytes) -> Self {
        let revolution = 60_000_000_000 / u64::from(spec.rpm);
        let track_bytes = |rate: Bytes| rate.get() as f64 * revolution as f64 / 1e9;
        let mean: f64 = spec.zones.iter().map(|zone| zone.share.get() * track_bytes(zone.rate)).sum();
        let tracks = capacity.get() as f64 / mean;
        let (mut start, mut first_track) = (0.0, 0.0);
        let mut zones = Vec::with_capacity(spec.zones.len());
        for zone in &spec.zones {
            let bytes = track_bytes(zone.rate);
            zones.push(Zone {
                start,
                first_track,
                tracks_per_byte: 1.0 / bytes,
                per_byte: revolution as f64 / bytes,
            });
            start += zone.share.get() * tracks * bytes;
            first_track += zone.share.get() * tracks;
        }
        let heads = f64::from(spec.heads);
        Self { zones, heads, cylinders: (tracks / heads).ceil(), revolution }
    }

    pub(super) const fn cylinders(&self) -> f64 {
        self.cylinders
    }

    pub(super) fn place(&self, byte: u64) -> Place {
        let byte = byte as f64;
        let index = self.zones.partition_point(|zone| zone.start <= byte).max(1) - 1;
        let zone = &self.zones[index];
        let track = zone.first_track + (byte - zone.start) * zone.tracks_per_byte;
        Place {
            cylinder: (track / self.heads).floor(),
            angle: ((track - track.floor()) * self.revolution as f64) as Time,
            per_byte: zone.per_byte,
        }
    }

    /// How far the platter has turned at a time, in nanoseconds of rotation.
    pub(super) const fn turned(&self, at: Time) -> Time {
        at % self.revolution
    }

    /// How long until an angle is under the head, after a while from the moment at which the platter stood
    /// so.
    pub(super) const fn until(&self, angle: Time, turned: Time, after: Time) -> Time {
        // A seek and less than a revolution: 32 bits, where a division is several times faster.
        let there = ((turned + after) as u32 % self.revolution as u32) as Time;
        if angle >= there { angle - there } else { angle + self.revolution - there }
    }
}
