//! Spans and steps as bytes, written as they come.
//!
//! A span is three numbers of variable length (LEB128): how long after the end of the one before it begins,
//! how long it lasts, and its label. Spans of a track do not overlap. A step is such a number, how long after
//! the one before, and a value as `f32`, least byte first; not-a-number is none.
//!
//! Beside the spans of a track are its *levels*, for a view that shows more of them than it has pixels:
//! sixteen spans that follow on one another are one node, sixteen nodes one of the next level, and so on. Of
//! a node are known the class that has most of its time, and the share of its time that any has: two bytes.
//! From when to when it lasts, its first and last span say.

use crate::classes;

/// How many spans, or nodes, are one node of the level above. `FAN` of view.js.
pub(crate) const FAN: usize = 16;

/// Time by class.
type Times = [u64; classes::ALL.len()];

/// One level that is being made.
#[derive(Clone, Debug)]
struct Level {
    nodes: Vec<u8>,
    /// Of the node that is not full: members, when it began, time by class.
    members: usize,
    begin: u64,
    times: Box<Times>,
}

impl Level {
    fn new() -> Self {
        Self { nodes: Vec::new(), members: 0, begin: 0, times: Box::new([0; classes::ALL.len()]) }
    }

    /// Takes a member up; gives what the node has, where it is full with it.
    fn take(&mut self, begin: u64, end: u64, add: impl FnOnce(&mut Times)) -> Option<(u64, Box<Times>)> {
        if self.members == 0 {
            self.begin = begin;
        }
        self.members += 1;
        add(&mut self.times);
        (self.members == FAN).then(|| self.close(end))
    }

    fn close(&mut self, end: u64) -> (u64, Box<Times>) {
        let times = std::mem::replace(&mut self.times, Box::new([0; classes::ALL.len()]));
        let most = times.iter().enumerate().max_by_key(|(_, time)| **time).map_or(0, |(class, _)| class);
        let all: u64 = times.iter().fold(0, |all, time| all.saturating_add(*time));
        let wide = end.saturating_sub(self.begin).max(1);
        let share = (u128::from(all) * 255).div_ceil(u128::from(wide)).min(255);
        self.nodes.extend([most as u8, share as u8]);
        self.members = 0;
        (self.begin, times)
    }
}

/// The spans of one track.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spans {
    pub bytes: Vec<u8>,
    pub count: usize,
    levels: Vec<Level>,
    /// When the last one ended.
    last: u64,
}

impl Spans {
    /// Adds a span; what it shares with the one before is left out.
    pub fn push(&mut self, begin: u64, end: u64, label: u32, class: u8) {
        let begin = begin.max(self.last);
        let end = end.max(begin);
        number(&mut self.bytes, begin - self.last);
        number(&mut self.bytes, end - begin);
        number(&mut self.bytes, label.into());
        self.last = end;
        self.count += 1;
        let full = self.level(0).take(begin, end, |times| times[usize::from(class)] += end - begin);
        self.carry(1, full, true);
    }

    /// Takes a node that is full up into the levels from this one on; makes those that are not there yet if
    /// they may grow.
    fn carry(&mut self, mut level: usize, mut full: Option<(u64, Box<Times>)>, may_grow: bool) {
        let last = self.last;
        while let Some((begin, times)) = full.filter(|_| may_grow || level < self.levels.len()) {
            let add = |all: &mut Times| all.iter_mut().zip(*times).for_each(|(sum, more)| *sum += more);
            full = self.level(level).take(begin, last, add);
            level += 1;
        }
    }

    fn level(&mut self, level: usize) -> &mut Level {
        if self.levels.len() <= level {
            self.levels.resize_with(level + 1, Level::new);
        }
        &mut self.levels[level]
    }

    /// The bytes, and the nodes of each level, the lowest first. Each node is of as many spans as its level
    /// says, but for the last.
    pub fn finish(mut self) -> (Vec<u8>, Vec<Vec<u8>>) {
        for level in 0..self.levels.len() {
            if self.levels[level].members > 0 {
                let node = self.levels[level].close(self.last);
                self.carry(level + 1, Some(node), false);
            }
        }
        (self.bytes, self.levels.into_iter().map(|level| level.nodes).collect())
    }
}

/// The steps of one track.
#[derive(Clone, Debug, Default)]
pub(crate) struct Steps {
    pub bytes: Vec<u8>,
    pub count: usize,
    last: u64,
}

impl Steps {
    /// A value that holds from here on.
    pub fn push(&mut self, at: u64, value: Option<f64>) {
        let at = at.max(self.last);
        number(&mut self.bytes, at - self.last);
        self.bytes.extend(value.map_or(f32::NAN, |value| value as f32).to_le_bytes());
        self.last = at;
        self.count += 1;
    }
}

fn number(bytes: &mut Vec<u8>, mut value: u64) {
    while value > 127 {
        bytes.push((value & 127) as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn numbers(bytes: &[u8]) -> Vec<u64> {
        let mut all = Vec::new();
        let (mut value, mut shift) = (0, 0);
        for byte in bytes {
            value |= u64::from(byte & 127) << shift;
            shift += 7;
            if byte & 128 == 0 {
                all.push(std::mem::take(&mut value));
                shift = 0;
            }
        }
        all
    }

    #[test]
    fn a_node_has_the_class_of_most_of_its_time_and_the_share_that_is_busy() {
        let mut spans = Spans::default();
        for at in 0..16 {
            // A quarter of the time class 3, a sixteenth class 1, the rest nothing.
            spans.push(at * 160, at * 160 + 40, 7, 3);
            spans.push(at * 160 + 40, at * 160 + 50, 8, 1);
        }
        let (_, levels) = spans.finish();
        assert_eq!(levels.iter().map(|nodes| nodes.len() / 2).collect::<Vec<_>>(), [2, 1]);
        assert!(levels.iter().flat_map(|nodes| nodes.chunks(2)).all(|node| node[0] == 3));
        // Fifty of 160, but for the last pair's rest.
        assert!((82..=90).contains(&levels[1][1]), "{levels:?}");
    }

    proptest! {
        #[test]
        fn spans_come_back_and_each_level_has_a_node_for_each_sixteen(
            all in prop::collection::vec((0..1_000_000_u64, 0..1_000_000_u64, 0..500_u32, 0..classes::ALL.len() as u8), 0..1200),
        ) {
            let mut spans = Spans::default();
            let mut now = 0;
            let mut pushed = Vec::new();
            for (gap, long, label, class) in all {
                spans.push(now + gap, now + gap + long, label, class);
                pushed.extend([gap, long, label.into()]);
                now += gap + long;
            }
            let count = spans.count;
            let (bytes, levels) = spans.finish();
            prop_assert_eq!(numbers(&bytes), pushed);
            let mut below = count;
            for nodes in &levels {
                prop_assert_eq!(nodes.len() / 2, below.div_ceil(FAN));
                below = nodes.len() / 2;
            }
            prop_assert!(below <= FAN, "{} of {count}", levels.len());
        }
    }
}
