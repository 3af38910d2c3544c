//! What parts and requests are known by: their numbers.

/// A part of a machine, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartId(pub u32);

impl PartId {
    /// Who wants to be told nothing.
    pub const NOBODY: Self = Self(u32::MAX);
}

/// A request on its way, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BioId(pub u32);
