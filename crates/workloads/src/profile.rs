//! What I/O a load does, as far as its options tell.

/// What I/O a load does. Of a tool that is not known to that extent nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// Whether it goes through the page cache.
    pub cache: Cache,
    /// Which way it goes.
    pub direction: Direction,
    /// How many requests it keeps in flight; `None` where it is not known.
    pub depth: Option<u32>,
}

/// Whether I/O goes through the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// Through it, or it is not known to pass it by.
    #[default]
    Buffered,
    /// Past it: O_DIRECT.
    Direct,
    /// A database's log goes past it; its data have a cache of the server's own.
    ServersOwn,
}

/// Which way I/O goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// It is not known.
    #[default]
    Unknown,
    /// It reads one byte after another, and nothing else.
    ReadsInOrder,
    /// It reads here and there, or in order with gaps.
    Reads,
    /// It writes, and may read too.
    Writes,
}

impl Profile {
    /// Whether it is known to pass the page cache by.
    pub fn is_direct(&self) -> bool {
        self.cache == Cache::Direct
    }

    /// Whether it reads one byte after another, and nothing else.
    pub fn reads_in_order(&self) -> bool {
        self.direction == Direction::ReadsInOrder
    }

    /// Whether it is known to read, in whatever order.
    pub fn reads(&self) -> bool {
        matches!(self.direction, Direction::Reads | Direction::ReadsInOrder)
    }

    /// Whether it is known to write.
    pub fn writes(&self) -> bool {
        self.direction == Direction::Writes
    }
}
