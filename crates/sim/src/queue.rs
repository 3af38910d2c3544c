//! What happens when: events in the order of their time, and of those of one time in the order in which they were planned.
//!
//! A 4-ary heap: half as deep as a binary one, and its four children share a cache line or two.

/// A point in virtual time, in nanoseconds.
pub type Time = u64;

#[derive(Clone, Copy, Debug)]
struct Planned<T> {
    at: Time,
    order: u64,
    what: T,
}

impl<T> Planned<T> {
    /// One number to compare, without a branch.
    const fn key(&self) -> u128 {
        (self.at as u128) << 64 | self.order as u128
    }
}

/// The queue. Its memory grows to the most events that were ever planned at once, and stays.
#[derive(Clone, Debug)]
pub struct Queue<T> {
    heap: Vec<Planned<T>>,
    order: u64,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { heap: Vec::new(), order: 0 }
    }
}

/// Children of a node.
const ARITY: usize = 4;

impl<T: Copy> Queue<T> {
    /// Plans something.
    pub fn plan(&mut self, at: Time, what: T) {
        self.order += 1;
        let new = Planned { at, order: self.order, what };
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

    /// When the next one is due.
    pub fn next_at(&self) -> Option<Time> {
        self.heap.first().map(|planned| planned.at)
    }

    /// How many have ever been planned.
    pub fn planned(&self) -> u64 {
        self.order
    }

    /// Takes the next one where it is not later than `now`.
    pub fn take_until(&mut self, now: Time) -> Option<(Time, T)> {
        if self.next_at()? > now {
            return None;
        }
        self.take()
    }

    /// Takes the next one.
    pub fn take(&mut self) -> Option<(Time, T)> {
        let last = self.heap.pop()?;
        let Some(first) = self.heap.first().copied() else {
            return Some((last.at, last.what));
        };
        let (mut hole, key) = (0, last.key());
        loop {
            let from = hole * ARITY + 1;
            let Some(children) = self.heap.get(from..(from + ARITY).min(self.heap.len())) else { break };
            let mut least = (u128::MAX, 0);
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
        fn taking_and_planning_may_be_mixed(steps in prop::collection::vec((0_u64..50, any::<bool>()), 0..300)) {
            let mut queue = Queue::default();
            let mut model = std::collections::BTreeSet::new();
            for (order, (at, take)) in steps.into_iter().enumerate() {
                if take {
                    prop_assert_eq!(queue.take(), model.pop_first());
                } else {
                    queue.plan(at, order);
                    model.insert((at, order));
                }
            }
        }
    }
}
