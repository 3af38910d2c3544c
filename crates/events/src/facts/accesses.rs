//! How each device is used: sizes, order and read-ahead of the bios that are given to it.

use crate::event::{Purpose, Span};
use domain::access::{AccessPattern, Accesses};
use domain::request::Op;
use std::collections::BTreeMap;

/// Most devices that a hostile file can make.
const MAX_DEVICES: usize = 4096;

/// So many readers or writers of one device are told apart.
const STREAMS: usize = 32;

/// Where the last bios of one direction ended, the one that was continued longest ago first.
#[derive(Debug, Default)]
struct Streams(Vec<u64>);

impl Streams {
    /// Whether these sectors continue a stream; it ends behind them from now on.
    fn continues(&mut self, span: &Span) -> bool {
        let end = span.sector.saturating_add(span.sectors.into());
        let known = self.0.iter().position(|last| *last == span.sector);
        if known.is_some() || self.0.len() == STREAMS {
            self.0.remove(known.unwrap_or(0));
        }
        self.0.push(end);
        known.is_some()
    }
}

/// The patterns of all devices.
#[derive(Debug, Default)]
pub struct Patterns {
    of: BTreeMap<u32, (AccessPattern, [Streams; 2])>,
}

impl Patterns {
    /// A bio is given to a disk, or to a partition of it: its sectors are the disk's by then (kernel
    /// `block/blk-core.c`, `blk_partition_remap`).
    pub fn queued(&mut self, disk: u32, span: &Span, op: Op, purpose: Purpose) {
        let has_room = self.of.len() < MAX_DEVICES || self.of.contains_key(&disk);
        // A flush has no sectors.
        if !has_room || span.sectors == 0 {
            return;
        }
        let (pattern, [reads, writes]) = self.of.entry(disk).or_default();
        let (accesses, streams) = match op {
            Op::Read => (&mut pattern.reads, reads),
            Op::Write => (&mut pattern.writes, writes),
            Op::Discard | Op::Flush | Op::Other => return,
        };
        let Accesses { bios, sectors, in_order, ahead, synchronous } = accesses;
        *bios += 1;
        *sectors = sectors.saturating_add(span.sectors.into());
        if streams.continues(span) {
            *in_order = in_order.saturating_add(span.sectors.into());
        }
        *ahead += u64::from(purpose.ahead);
        *synchronous += u64::from(purpose.synchronous);
    }

    /// Of each disk, by its number.
    pub fn finish(self) -> impl Iterator<Item = (u32, AccessPattern)> {
        self.of.into_iter().map(|(disk, (pattern, _))| (disk, pattern))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(spans: &[(u64, u32, Op, bool)]) -> AccessPattern {
        let mut patterns = Patterns::default();
        for (sector, sectors, op, ahead) in spans {
            let purpose = Purpose { ahead: *ahead, synchronous: *op == Op::Write };
            patterns.queued(7, &Span { device: 8, sector: *sector, sectors: *sectors }, *op, purpose);
        }
        patterns.of.remove(&7).unwrap_or_default().0
    }

    #[test]
    fn several_readers_in_order_are_in_order_and_writes_are_others() {
        let mut spans = Vec::new();
        for step in 0..100 {
            for reader in 0..STREAMS as u64 {
                spans.push((reader * 1_000_000 + step * 8, 8, Op::Read, true));
            }
            spans.push((step * 7_919 % 1_000 * 64, 8, Op::Write, false));
        }
        let AccessPattern { reads, writes } = pattern(&spans);
        let first = STREAMS as u64;
        let (bios, sectors, in_order) = (100 * first, 800 * first, 792 * first);
        assert_eq!(reads, Accesses { bios, sectors, in_order, ahead: bios, synchronous: 0 });
        assert_eq!((writes.bios, writes.in_order, writes.ahead, writes.synchronous), (100, 0, 0, 100));
    }

    #[test]
    fn more_readers_than_are_told_apart_are_not_in_order_and_flushes_are_no_access() {
        let readers = STREAMS as u64 + 1;
        let spans: Vec<_> = (0..100)
            .flat_map(|step| (0..readers).map(move |at| ((at << 20) | (step * 8), 8, Op::Read, false)))
            .collect();
        assert_eq!(pattern(&spans).reads.in_order, 0);
        assert_eq!(pattern(&[(0, 0, Op::Write, false), (0, 8, Op::Flush, false)]), AccessPattern::default());
    }
}
