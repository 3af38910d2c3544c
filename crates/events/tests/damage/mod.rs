//! Damage to files of other tools, for tests that none of it makes a reader panic.

use proptest::prelude::*;
use proptest::sample::Index;

/// Which of several files, what bytes of it are others, and where it is cut.
#[derive(Clone, Debug)]
pub struct Damage {
    pub which: usize,
    changes: Vec<(Index, u8)>,
    cut: Index,
}

/// Damage to one of so many files.
pub fn damage(files: usize) -> impl Strategy<Value = Damage> {
    let changes = prop::collection::vec((any::<Index>(), any::<u8>()), 1..12);
    (0..files, changes, any::<Index>()).prop_map(|(which, changes, cut)| Damage { which, changes, cut })
}

impl Damage {
    /// The damaged file, whole and cut.
    pub fn to(&self, files: &[&[u8]]) -> [Vec<u8>; 2] {
        let mut bytes = files[self.which].to_vec();
        for (at, byte) in &self.changes {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        let cut = bytes[..self.cut.index(bytes.len())].to_vec();
        [bytes, cut]
    }
}
