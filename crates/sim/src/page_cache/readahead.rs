//! How much of a file is read ahead.
//!
//! Follows `mm/readahead.c` of 6.1 (`ondemand_readahead`) and 6.12 (`page_cache_sync_ra`,
//! `page_cache_async_ra`). Left out: huge pages and larger folios, control groups, `MADV_*`. All numbers are
//! pages.

use super::pages::Pages;

/// What the program said about how it will read (`posix_fadvise(2)`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Advice {
    /// Nothing.
    #[default]
    Normal,
    /// In order: twice the window.
    Sequential,
    /// At random: what is asked for and no more.
    Random,
}

/// Which kernel's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAheadKind {
    /// As in 6.1.
    OnDemand,
    /// As in 6.12: a window is made smaller at its beginning, and only by a miss.
    SyncAndAsync,
}

impl ReadAheadKind {
    /// That of a kernel. (6.1 and 6.12 were read; that it changed with 6.11 is from memory.)
    pub const fn of_kernel(major: u16, minor: u16) -> Self {
        if major > 6 || (major == 6 && minor >= 11) { Self::SyncAndAsync } else { Self::OnDemand }
    }
}

/// Bounds of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) kind: ReadAheadKind,
    pub(crate) advice: Advice,
    /// `read_ahead_kb`.
    pub(crate) window: u64,
    /// The device's largest request (`max_sectors_kb`).
    pub(crate) request: u64,
    /// Of the file.
    pub(crate) size: u64,
}

/// What is to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) start: u64,
    pub(crate) count: u64,
    /// So many from the end, a page is marked: when it is read, the next window is due.
    pub(crate) mark_from_end: u64,
}

/// What an open file remembers (`struct file_ra_state`).
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    start: u64,
    size: u64,
    from_end: u64,
    /// The last page that was read; none before the first read.
    pub(crate) previous: Option<u64>,
}

impl State {
    pub(crate) const fn new() -> Self {
        Self { start: 0, size: 0, from_end: 0, previous: None }
    }

    /// Page `index` is missing, and `wanted` pages from there are asked for.
    pub(crate) fn missing(
        &mut self,
        pages: &Pages,
        bounds: &Bounds,
        index: u64,
        wanted: u64,
    ) -> Option<Window> {
        if bounds.window == 0 {
            return plain(bounds, index, 1);
        }
        if bounds.advice == Advice::Random {
            return plain(bounds, index, wanted.min(bounds.most(wanted)));
        }
        let most = bounds.most(wanted);
        let follows = self.previous.is_some_and(|previous| index.wrapping_sub(previous) <= 1);
        let continues = bounds.kind == ReadAheadKind::OnDemand
            && self.size > 0
            && (index == self.start + self.size - self.from_end || index == self.start + self.size);
        if index > 0 && continues {
            self.next(most);
        } else if index == 0 || wanted > most || follows {
            self.start = index;
            self.size = first(wanted, most);
            self.from_end = match bounds.kind {
                _ if self.size > wanted => self.size - wanted,
                ReadAheadKind::OnDemand => self.size,
                ReadAheadKind::SyncAndAsync => self.size / 2,
            };
        } else {
            let before = cached_before(pages, index, most);
            if before <= wanted {
                return plain(bounds, index, wanted);
            }
            let run = if before >= index { before * 2 } else { before };
            self.start = index;
            self.size = (run + wanted).min(most);
            self.from_end = 1;
        }
        if bounds.kind == ReadAheadKind::OnDemand {
            self.take_own_mark(index, most);
        }
        self.window(bounds)
    }

    /// The marked page `index` is read, and `wanted` pages from there are asked for.
    pub(crate) fn marked(
        &mut self,
        pages: &Pages,
        bounds: &Bounds,
        index: u64,
        wanted: u64,
    ) -> Option<Window> {
        if bounds.window == 0 {
            return None;
        }
        let most = bounds.most(wanted);
        if index == self.start + self.size - self.from_end {
            self.next(most);
        } else {
            let end = index + 1 + most;
            let start = (index + 1..end).find(|page| !pages.is_present(*page))?;
            self.start = start;
            self.size = start - index + wanted;
            self.size = next_size(self.size, most);
            self.from_end = self.size;
        }
        if bounds.kind == ReadAheadKind::OnDemand {
            self.take_own_mark(index, most);
        }
        self.window(bounds)
    }

    fn next(&mut self, most: u64) {
        self.start += self.size;
        self.size = self.size.max(next_size(self.size, most));
        self.from_end = self.size;
    }

    /// A read that would hit the mark of the very window that it causes takes the next one with it.
    fn take_own_mark(&mut self, index: u64, most: u64) {
        if index != self.start || self.size != self.from_end {
            return;
        }
        let more = next_size(self.size, most);
        if self.size + more <= most {
            self.from_end = more;
            self.size += more;
        } else {
            self.size = most;
            self.from_end = most / 2;
        }
    }

    fn window(&self, bounds: &Bounds) -> Option<Window> {
        let count = bounds.clip(self.start, self.size)?;
        // The kernel counts from the end of what is left of the window where the file ends within it.
        let mark_from_end = if self.from_end <= count { self.from_end } else { 0 };
        Some(Window { start: self.start, count, mark_from_end })
    }
}

impl Bounds {
    /// The largest window for a request of so much (`ractl_max_pages`).
    fn most(&self, wanted: u64) -> u64 {
        let window = if self.advice == Advice::Sequential { self.window * 2 } else { self.window };
        if wanted > window && self.request > window { wanted.min(self.request) } else { window }
    }

    /// Not beyond the end of the file; `None` where nothing is left.
    fn clip(&self, start: u64, count: u64) -> Option<u64> {
        let count = count.min(self.size.saturating_sub(start));
        (count > 0).then_some(count)
    }
}

fn plain(bounds: &Bounds, start: u64, count: u64) -> Option<Window> {
    let count = bounds.clip(start, count)?;
    Some(Window { start, count, mark_from_end: 0 })
}

/// `get_init_ra_size`.
fn first(wanted: u64, most: u64) -> u64 {
    let size = wanted.next_power_of_two();
    if size <= most / 32 {
        size * 4
    } else if size <= most / 4 {
        size * 2
    } else {
        most
    }
}

/// `get_next_ra_size`.
fn next_size(size: u64, most: u64) -> u64 {
    if size < most / 16 {
        4 * size
    } else if size <= most / 2 {
        2 * size
    } else {
        most
    }
}

/// How many pages right before `index` are in memory, up to `most`.
fn cached_before(pages: &Pages, index: u64, most: u64) -> u64 {
    let bound = most.min(index);
    (1..=bound).find(|back| !pages.is_present(index - back)).map_or(bound, |back| back - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        kind: ReadAheadKind::SyncAndAsync,
        advice: Advice::Normal,
        window: 32,
        request: 320,
        size: 1 << 20,
    };

    const fn window(start: u64, count: u64, mark_from_end: u64) -> Option<Window> {
        Some(Window { start, count, mark_from_end })
    }

    #[test]
    fn the_first_read_of_a_file_opens_a_window_four_times_its_size() {
        // The table in the kernel's comment: 1 page makes 4, 4 make 8, 8 make 16, more than 8 make 32.
        let sizes = [(1, 4), (3, 8), (8, 16), (9, 32), (32, 32)];
        for (wanted, size) in sizes {
            let seen = State::new().missing(&Pages::new(1000), &BOUNDS, 0, wanted).unwrap();
            assert_eq!(seen.count, size, "{wanted}");
        }
    }

    #[test]
    fn windows_double_up_to_the_largest() {
        let mut state = State::new();
        let pages = Pages::new(1000);
        assert_eq!(state.missing(&pages, &BOUNDS, 0, 1), window(0, 4, 3));
        assert_eq!(state.marked(&pages, &BOUNDS, 1, 1), window(4, 8, 8));
        assert_eq!(state.marked(&pages, &BOUNDS, 4, 1), window(12, 16, 16));
        assert_eq!(state.marked(&pages, &BOUNDS, 12, 1), window(28, 32, 32));
        assert_eq!(state.marked(&pages, &BOUNDS, 28, 1), window(60, 32, 32));
    }

    #[test]
    fn a_random_read_reads_what_is_asked_for() {
        let mut state = State::new();
        state.previous = Some(5);
        assert_eq!(state.missing(&Pages::new(1000), &BOUNDS, 777, 1), window(777, 1, 0));
        assert_eq!(state.missing(&Pages::new(1000), &BOUNDS, 100, 16), window(100, 16, 0));
    }

    #[test]
    fn a_program_that_says_random_never_gets_a_window() {
        let bounds = Bounds { advice: Advice::Random, ..BOUNDS };
        assert_eq!(State::new().missing(&Pages::new(1000), &bounds, 0, 2), window(0, 2, 0));
    }

    #[test]
    fn without_read_ahead_each_page_is_read_alone() {
        let bounds = Bounds { window: 0, ..BOUNDS };
        assert_eq!(State::new().missing(&Pages::new(1000), &bounds, 0, 8), window(0, 1, 0));
    }

    #[test]
    fn a_request_beyond_the_window_may_be_as_large_as_the_device_takes() {
        let seen = State::new().missing(&Pages::new(1000), &BOUNDS, 0, 256);
        assert_eq!(seen, window(0, 256, 128));
        let seen = State::new().missing(&Pages::new(1000), &BOUNDS, 0, 1000);
        assert_eq!(seen, window(0, 320, 160));
    }

    #[test]
    fn a_miss_behind_a_long_run_in_memory_opens_a_window_from_history() {
        let mut pages = Pages::new(1000);
        for page in 90..100 {
            pages.insert(page);
        }
        assert_eq!(State::new().missing(&pages, &BOUNDS, 100, 2), window(100, 12, 1));
    }

    #[test]
    fn a_window_ends_with_the_file() {
        let bounds = Bounds { size: 2, ..BOUNDS };
        assert_eq!(State::new().missing(&Pages::new(1000), &bounds, 0, 1), window(0, 2, 0));
        assert_eq!(State::new().missing(&Pages::new(1000), &bounds, 2, 1), None);
    }

    #[test]
    fn the_older_way_takes_the_next_window_with_the_first() {
        let bounds = Bounds { kind: ReadAheadKind::OnDemand, ..BOUNDS };
        let mut state = State::new();
        // 32 pages asked for, of 32 allowed: a window whose own mark would be hit at once.
        assert_eq!(state.missing(&Pages::new(1000), &bounds, 0, 32), window(0, 32, 16));
        assert_eq!(state.marked(&Pages::new(1000), &bounds, 16, 16), window(32, 32, 32));
    }
}
