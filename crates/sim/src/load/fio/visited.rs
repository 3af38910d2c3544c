//! Which blocks of a target a random order has met: a bit each, in pages that are made when the first of
//! their blocks is met.

/// Blocks of a page.
const PAGE: u64 = 4096;
const WORDS: usize = (PAGE / 64) as usize;

/// A set of block numbers below a bound.
#[derive(Clone, Debug)]
pub(super) struct Visited {
    count: u64,
    pages: Vec<Page>,
}

#[derive(Clone, Debug)]
enum Page {
    Clear,
    Some(Box<[u64; WORDS]>),
    Full,
}

impl Page {
    /// The first block at or behind one that has not been met.
    fn free_from(&self, block: u64) -> Option<u64> {
        let words = match self {
            Self::Clear => return Some(block),
            Self::Full => return None,
            Self::Some(words) => words,
        };
        let (first, bit) = ((block / 64) as usize, block % 64);
        let free = |index: usize| {
            let behind = if index == first { !0 << bit } else { !0 };
            !words[index] & behind
        };
        let found = (first..WORDS).find(|index| free(*index) != 0)?;
        Some(found as u64 * 64 + u64::from(free(found).trailing_zeros()))
    }

    fn has(&self, block: u64) -> bool {
        match self {
            Self::Clear => false,
            Self::Full => true,
            Self::Some(words) => words[(block / 64) as usize] >> (block % 64) & 1 == 1,
        }
    }

    fn take(&mut self, block: u64) {
        if let Self::Clear = self {
            *self = Self::Some(Box::new([0; WORDS]));
        }
        let Self::Some(words) = self else { return };
        let word = &mut words[(block / 64) as usize];
        *word |= 1 << (block % 64);
        if *word == !0 && words.iter().all(|word| *word == !0) {
            *self = Self::Full;
        }
    }
}

impl Visited {
    /// Without any of `count` blocks.
    pub(super) fn new(count: u64) -> Self {
        let mut made = Self { count, pages: Vec::new() };
        made.clear();
        made
    }

    pub(super) fn clear(&mut self) {
        self.pages.clear();
        self.pages.resize(self.count.div_ceil(PAGE) as usize, Page::Clear);
    }

    /// Takes blocks from one on, up to the first that has been met; says how many.
    pub(super) fn take(&mut self, first: u64, most: u64) -> u64 {
        let free = (first..first.saturating_add(most)).take_while(|block| !self.has(*block)).count() as u64;
        for block in first..first + free {
            if let Some(page) = self.pages.get_mut((block / PAGE) as usize) {
                page.take(block % PAGE);
            }
        }
        free
    }

    /// Whether it has been met.
    pub(super) fn has(&self, block: u64) -> bool {
        self.pages.get((block / PAGE) as usize).is_some_and(|page| page.has(block % PAGE))
    }

    /// The first one behind a block that has not been met, from the beginning again where there is none up to
    /// the end.
    pub(super) fn free_behind(&self, block: u64) -> Option<u64> {
        let next = if block + 1 < self.count { block + 1 } else { 0 };
        self.free_from(next).or_else(|| self.free_from(0))
    }

    fn free_from(&self, block: u64) -> Option<u64> {
        let first = block / PAGE;
        let pages = self.pages.iter().enumerate().skip(first as usize);
        let found = pages.map(|(number, page)| (number as u64, page)).find_map(|(number, page)| {
            let from = if number == first { block % PAGE } else { 0 };
            Some(number * PAGE + page.free_from(from)?)
        });
        found.filter(|block| *block < self.count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set_that_knows_its_next_gap(
            count in 1_u64..9000,
            asked in prop::collection::vec((0_u64..9000, 1_u64..200), 1..200),
        ) {
            let (mut visited, mut model) = (Visited::new(count), BTreeSet::new());
            for (block, most) in asked {
                let block = block % count;
                let most = most.min(count - block);
                prop_assert_eq!(visited.has(block), model.contains(&block));
                let next = (1..=count).map(|step| (block + step) % count).find(|next| !model.contains(next));
                prop_assert_eq!(visited.free_behind(block), next);
                let free = (block..block + most).take_while(|block| !model.contains(block)).count() as u64;
                prop_assert_eq!(visited.take(block, most), free);
                model.extend(block..block + free);
            }
            let all = (0..count).filter(|block| visited.has(*block)).count();
            prop_assert_eq!(all, model.len());
        }
    }
}
