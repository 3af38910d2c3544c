//! The read buffer: segments, each with what one sequential stream read, and the one that is being read into.

use event_queue::Time;
use std::ops::Range;

/// Bytes of the disk that the buffer holds.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    end: u64,
    used: u64,
}

/// The head reads on into a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    segment: usize,
    from: u64,
    since: Time,
    per_byte: f64,
    /// Where it stops: a buffer's worth beyond what was asked for.
    limit: u64,
}

impl Stream {
    /// How far the head has come.
    pub(super) fn position(&self, now: Time) -> u64 {
        let passed = (now.saturating_sub(self.since)) as f64 / self.per_byte;
        self.limit.min(self.from.saturating_add(passed as u64))
    }

    /// When the head has passed this byte.
    pub(super) fn passes(&self, byte: u64) -> Time {
        self.since + (byte.saturating_sub(self.from) as f64 * self.per_byte).ceil() as Time
    }
}

/// How a read stands to the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// All of it is there.
    All,
    /// The head is reading it, or will without a further seek.
    Coming,
    /// Its first bytes are there; the rest begins at this byte.
    Until(u64),
    /// Nothing of use.
    Nothing,
}

#[derive(Clone, Debug)]
pub(super) struct Segments {
    segments: Vec<Segment>,
    /// A segment's most bytes.
    size: u64,
    read_ahead: u64,
    disk_end: u64,
    clock: u64,
    pub(super) stream: Option<Stream>,
}

impl Segments {
    pub(super) fn new(count: u32, read_ahead: u64, disk_end: u64) -> Self {
        let empty = Segment { start: 0, end: 0, used: 0 };
        // A segment keeps as much behind the stream as it reads ahead of it.
        let size = read_ahead.max(1) * 2;
        Self { segments: vec![empty; count as usize], size, read_ahead, disk_end, clock: 0, stream: None }
    }

    pub(super) fn find(&mut self, now: Time, start: u64, end: u64) -> Found {
        if let Some(stream) = self.stream {
            let segment = &self.segments[stream.segment];
            let position = stream.position(now);
            if segment.start <= start && end <= position {
                self.touch(stream.segment);
                return Found::All;
            }
            if self.coming(now, start) {
                return Found::Coming;
            }
        }
        let held = self.segments.iter().position(|s| s.start <= start && start < s.end);
        let Some(index) = held else { return Found::Nothing };
        self.touch(index);
        let held_end = self.segments[index].end;
        if end <= held_end { Found::All } else { Found::Until(held_end) }
    }

    /// Whether the head is at this byte or has read it just now, and still reads on.
    fn coming(&self, now: Time, start: u64) -> bool {
        self.within_reach(now).contains(&start)
    }

    /// Where a read may begin that the stream serves without a seek; empty where there is none.
    pub(super) fn within_reach(&self, now: Time) -> Range<u64> {
        let Some(stream) = self.stream else { return 0..0 };
        let position = stream.position(now);
        match position < stream.limit {
            true => self.segments[stream.segment].start..position + 1,
            false => 0..0,
        }
    }

    /// A read was served up to here: the stream may go on that much further.
    pub(super) fn consumed(&mut self, now: Time, end: u64) {
        let wanted = end.saturating_add(self.read_ahead).min(self.disk_end);
        if let Some(stream) = &mut self.stream {
            let moving = stream.position(now) < stream.limit;
            if moving && end <= stream.limit {
                stream.limit = stream.limit.max(wanted);
            }
        }
    }

    /// The stream as it goes on to this byte, whatever its limit was: a command asks for it.
    pub(super) fn extend(&mut self, end: u64) -> Option<Stream> {
        let stream = self.stream.as_mut()?;
        stream.limit = stream.limit.max(end);
        Some(*stream)
    }

    /// The head leaves; what it has read stays.
    pub(super) fn leave(&mut self, now: Time) {
        let Some(stream) = self.stream.take() else { return };
        let position = stream.position(now);
        self.grow(stream.segment, position);
    }

    /// The head has read `start..end` and is at its end now: it is in the buffer, and the head reads on.
    pub(super) fn read(&mut self, now: Time, start: u64, end: u64, per_byte: f64) {
        self.leave(now);
        let index = self.segment_for(start, end);
        self.grow(index, end);
        self.touch(index);
        if self.read_ahead > 0 {
            let limit = end.saturating_add(self.read_ahead).min(self.disk_end);
            self.stream = Some(Stream { segment: index, from: end, since: now, per_byte, limit });
        }
    }

    /// Where the buffer ought to be filled further while nothing else is to do: the stream has stopped, and
    /// the reader has come to less than half a buffer before its end.
    pub(super) fn wants_more(&self, now: Time, consumed: u64) -> Option<u64> {
        let stream = self.stream?;
        let stopped = stream.position(now) == stream.limit && stream.limit < self.disk_end;
        let near = consumed <= stream.limit && stream.limit - consumed < self.read_ahead / 2;
        (stopped && near).then_some(stream.limit)
    }

    /// A write makes what the buffer holds of its range stale.
    pub(super) fn invalidate(&mut self, now: Time, start: u64, end: u64) {
        if let Some(stream) = self.stream {
            let reaches = self.segments[stream.segment].start < end && start < stream.limit;
            if reaches {
                self.leave(now);
            }
        }
        for segment in self.segments.iter_mut().filter(|s| s.start < end && start < s.end) {
            segment.end = start.max(segment.start);
        }
    }

    fn segment_for(&mut self, start: u64, end: u64) -> usize {
        if let Some(index) =
            self.segments.iter().position(|s| s.start < s.end && s.start <= start && start <= s.end)
        {
            return index;
        }
        let oldest = (0..self.segments.len()).min_by_key(|i| self.segments[*i].used);
        let index = oldest.expect("a disk has at least one segment");
        self.segments[index] = Segment { start, end, used: 0 };
        index
    }

    fn grow(&mut self, index: usize, end: u64) {
        let segment = &mut self.segments[index];
        segment.end = segment.end.max(end);
        segment.start = segment.start.max(segment.end.saturating_sub(self.size));
    }

    fn touch(&mut self, index: usize) {
        self.clock += 1;
        self.segments[index].used = self.clock;
    }
}
