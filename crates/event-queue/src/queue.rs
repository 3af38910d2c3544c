//! What happens when: events in the order of their time, and of those of one time in the order in which they
//! were planned.
//!
//! A 4-ary heap: half as deep as a binary one, and its four children share a cache line or two. Beside it a
//! tournament of groups of four, where a change costs a path of a few comparisons, without a branch that
//! could be mispredicted, and leaves nothing behind. In it stand *alarms*, events of which each is planned at
//! most once at a time, and often for another time before it comes; and the first of each *line*, whose
//! events are planned in the order of their times.

use std::collections::VecDeque;
use std::hint::select_unpredictable;

/// A point in virtual time, in nanoseconds.
pub type Time = u64;

#[derive(Clone, Copy, Debug)]
struct Planned<T> {
    at: Time,
    order: u64,
    what: T,
}

impl<T> Planned<T> {
    const fn key(&self) -> u128 {
        key(self.at, self.order)
    }
}

/// One number to compare, without a branch.
#[inline]
const fn key(at: Time, order: u64) -> u128 {
    (at as u128) << 64 | order as u128
}

/// The queue. Its memory grows to the most events that were ever planned at once, and stays.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    heap: Vec<Planned<T>>,
    /// In steps of [`MAX_PLAYERS`]: below that is a player's number.
    order: u64,
    alarms: Vec<T>,
    lines: Vec<VecDeque<(u128, T)>>,
    tournament: Tournament,
    /// The player that was taken last, where it has no new key yet: what was taken is mostly planned anew
    /// before anybody asks what is next, so that its path is gone once and not twice.
    taken: Option<usize>,
}

/// A line, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineId(u32);

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            heap: Vec::new(),
            order: 0,
            alarms: Vec::new(),
            lines: Vec::new(),
            tournament: Tournament::default(),
            taken: None,
        }
    }
}

/// Children of a node.
const ARITY: usize = 4;

const MAX_PLAYERS: u64 = 1 << 16;
const NEVER: u128 = u128::MAX;

impl<T: Copy> Queue<T> {
    /// An empty queue with these alarms, each with its place in the list as its number.
    ///
    /// # Panics
    /// Where there are more than 65536.
    pub fn with_alarms(alarms: Vec<T>) -> Self {
        let mut queue = Self { alarms, ..Self::default() };
        queue.make_room();
        queue
    }

    /// A new line.
    ///
    /// # Panics
    /// Where there are more than 65536 alarms and lines.
    pub fn line(&mut self) -> LineId {
        self.lines.push(VecDeque::new());
        self.make_room();
        LineId((self.lines.len() - 1) as u32)
    }

    /// Plans something.
    pub fn plan(&mut self, at: Time, what: T) {
        let new = Planned { at, order: self.next_order(), what };
        let mut hole = self.heap.len();
        self.heap.push(new);
        while hole > 0 {
            let parent = (hole - 1) / ARITY;
            if new.key() > self.heap[parent].key() {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = new;
    }

    /// Plans an alarm for this time, and for no other.
    pub fn set_alarm(&mut self, number: usize, at: Time) {
        let order = self.next_order() | number as u64;
        self.put(number, key(at, order));
    }

    /// Plans something at the end of a line.
    ///
    /// # Panics
    /// Where what is before it in the line comes later.
    pub fn append(&mut self, line: LineId, at: Time, what: T) {
        let number = self.alarms.len() + line.0 as usize;
        let new = key(at, self.next_order() | number as u64);
        let line = &mut self.lines[line.0 as usize];
        match line.back() {
            None => self.put(number, new),
            Some((before, _)) => assert!(*before < new, "a line that runs backwards"),
        }
        self.lines[number - self.alarms.len()].push_back((new, what));
    }

    /// When the next one is due.
    pub fn next_at(&mut self) -> Option<Time> {
        let least = self.next_planned().min(self.next_player());
        (least != NEVER).then_some((least >> 64) as Time)
    }

    /// Takes the next one.
    pub fn take(&mut self) -> Option<(Time, T)> {
        self.take_until(Time::MAX)
    }

    /// Takes the next one where it is not later than `now`.
    pub fn take_until(&mut self, now: Time) -> Option<(Time, T)> {
        let (player, planned) = (self.next_player(), self.next_planned());
        let least = player.min(planned);
        let at = (least >> 64) as Time;
        if least == NEVER || at > now {
            return None;
        }
        if player == least {
            return Some((at, self.take_player((player as u64 % MAX_PLAYERS) as usize)?));
        }
        let last = self.heap.pop()?;
        let Some(first) = self.heap.first().copied() else {
            return Some((last.at, last.what));
        };
        let (mut hole, key) = (0, last.key());
        loop {
            let from = hole * ARITY + 1;
            let Some(children) = self.heap.get(from..(from + ARITY).min(self.heap.len())) else { break };
            let mut least = (NEVER, 0);
            for (index, child) in children.iter().enumerate() {
                least = least.min((child.key(), index));
            }
            if least.0 > key {
                break;
            }
            let child = from + least.1;
            self.heap[hole] = self.heap[child];
            hole = child;
        }
        self.heap[hole] = last;
        Some((first.at, first.what))
    }

    const fn next_order(&mut self) -> u64 {
        self.order += MAX_PLAYERS;
        self.order
    }

    fn next_planned(&self) -> u128 {
        self.heap.first().map_or(NEVER, Planned::key)
    }

    /// What the winner of the tournament has; the next of its line takes its place.
    fn take_player(&mut self, number: usize) -> Option<T> {
        self.taken = Some(number);
        if let Some(what) = self.alarms.get(number).copied() {
            return Some(what);
        }
        let line = &mut self.lines[number - self.alarms.len()];
        let (_, what) = line.pop_front()?;
        if let Some((next, _)) = line.front().copied() {
            self.put(number, next);
        }
        Some(what)
    }

    /// Room in the tournament for all players.
    fn make_room(&mut self) {
        let players = self.alarms.len() + self.lines.len();
        assert!(players as u64 <= MAX_PLAYERS, "{players} alarms and lines");
        self.tournament.make_room(players);
    }

    fn next_player(&mut self) -> u128 {
        if let Some(number) = self.taken {
            self.put(number, NEVER);
        }
        self.tournament.least
    }

    fn put(&mut self, number: usize, key: u128) {
        if self.taken == Some(number) {
            self.taken = None;
        }
        self.tournament.put(number, key);
    }
}

/// Which of many keys is the least. Players' keys, those of the alarms before those of the lines, stand in
/// groups of [`ARITY`]; the least of each group stands in a group above, and so on up to one group, the
/// first.
#[derive(Clone, Debug)]
struct Tournament {
    groups: Vec<[u128; ARITY]>,
    /// The first of the players' own groups.
    players: usize,
    levels: u32,
    least: u128,
}

impl Default for Tournament {
    fn default() -> Self {
        Self { groups: vec![[NEVER; ARITY]], players: 0, levels: 1, least: NEVER }
    }
}

impl Tournament {
    /// Room for so many; those that are there keep their keys.
    fn make_room(&mut self, players: usize) {
        let before = self.groups.split_off(self.players);
        while players > ARITY.pow(self.levels) {
            self.players += ARITY.pow(self.levels - 1);
            self.levels += 1;
        }
        self.groups = vec![[NEVER; ARITY]; self.players + ARITY.pow(self.levels - 1)];
        before.into_iter().flatten().enumerate().for_each(|(number, key)| self.put(number, key));
    }

    #[inline]
    fn put(&mut self, number: usize, key: u128) {
        let mut group = self.players + number / ARITY;
        self.groups[group][number % ARITY] = key;
        while group > 0 {
            let above = (group - 1) / ARITY;
            self.groups[above][(group - 1) % ARITY] = least(&self.groups[group]);
            group = above;
        }
        self.least = least(&self.groups[0]);
    }
}

#[inline]
fn least(&[a, b, c, d]: &[u128; ARITY]) -> u128 {
    let lesser = |one: u128, other: u128| select_unpredictable(one < other, one, other);
    lesser(lesser(a, b), lesser(c, d))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is done to a queue.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Take,
        Plan(Time),
        Set(usize, Time),
        /// At the end of one of two lines: so long after the last there.
        Append(usize, Time),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            2 => Just(Step::Take),
            1 => (0_u64..50).prop_map(Step::Plan),
            1 => (0_usize..5, 0_u64..50).prop_map(|(number, at)| Step::Set(number, at)),
            1 => (0_usize..2, 0_u64..9).prop_map(|(line, later)| Step::Append(line, later)),
        ];
        prop::collection::vec(step, 0..300)
    }

    proptest! {
        #[test]
        fn events_come_in_the_order_of_time_and_then_of_planning(times in prop::collection::vec(0_u64..20, 0..200)) {
            let mut queue = Queue::default();
            let mut expected: Vec<(Time, usize)> = times.iter().copied().zip(0..).collect();
            for (at, what) in &expected {
                queue.plan(*at, *what);
            }
            expected.sort();
            let taken: Vec<_> = std::iter::from_fn(|| queue.take()).collect();
            prop_assert_eq!(taken, expected);
        }

        #[test]
        fn taking_planning_alarms_and_lines_may_be_mixed(steps in steps()) {
            // Events are numbers from 1000 on, alarms those below.
            let mut queue = Queue::with_alarms((0..5).collect());
            let lines = [queue.line(), queue.line()];
            let mut ends = [0; 2];
            let mut model = std::collections::BTreeSet::new();
            for (order, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Take => {
                        let expected = model.pop_first().map(|(at, _, what)| (at, what));
                        prop_assert_eq!(queue.next_at(), expected.map(|(at, _)| at));
                        prop_assert_eq!(queue.take(), expected);
                    }
                    Step::Plan(at) => {
                        queue.plan(at, 1000 + order);
                        model.insert((at, order, 1000 + order));
                    }
                    Step::Set(number, at) => {
                        queue.set_alarm(number, at);
                        model.retain(|(_, _, what)| *what != number);
                        model.insert((at, order, number));
                    }
                    Step::Append(line, later) => {
                        ends[line] += later;
                        queue.append(lines[line], ends[line], 1000 + order);
                        model.insert((ends[line], order, 1000 + order));
                    }
                }
            }
        }
    }
}
