//! Things that keep their number while they are there; freed numbers are used again.

use std::ops::{Index, IndexMut};

/// Slots.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { items: Vec::new(), free: Vec::new() }
    }
}

impl<T: Copy> Slab<T> {
    /// Puts something in; its number.
    pub fn put(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(slot) => {
                self.items[slot as usize] = item;
                slot
            }
            None => {
                self.items.push(item);
                (self.items.len() - 1) as u32
            }
        }
    }

    /// Takes it out; its number may be given again.
    pub fn remove(&mut self, slot: u32) -> T {
        debug_assert!(
            self.free.len() > MAX_CHECKED || !self.free.contains(&slot),
            "slot {slot} is freed twice"
        );
        self.free.push(slot);
        self.items[slot as usize]
    }

    /// How many are in.
    pub fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    /// Whether none is in.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Up to so many free slots, a second freeing is looked for.
const MAX_CHECKED: usize = 8;

impl<T> Index<u32> for Slab<T> {
    type Output = T;
    fn index(&self, slot: u32) -> &T {
        &self.items[slot as usize]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, slot: u32) -> &mut T {
        &mut self.items[slot as usize]
    }
}
