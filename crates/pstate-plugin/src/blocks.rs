//! Where instructions are executed: a count for each block of the guest's kernel, and one for all programs.
//!
//! With `blocks=FILE`, each translated block of the kernel has a count a virtual CPU, by the address at which
//! it begins. A block ends at a jump, a call or a return, so that it is of one function, and the guest's
//! `/proc/kallsyms` tells of which. It is the truth that samples of call stacks are held against. Without the
//! option a block costs what it cost before.
//!
//! At each mark, a write of 2 or more to the control port, what was counted since the start of the machine is
//! appended to the file:
//!
//! ```text
//! flyball-blocks 1
//! mark ns=4711 value=2               ns is the host's CLOCK_MONOTONIC; then for each CPU
//! user cpu=0 instructions=5          of programs
//! other cpu=0 instructions=0         of the kernel's blocks that found no room
//! block cpu=0 address=ffffffff81000000 instructions=3
//! end
//! ```
//! Blocks that executed nothing are left out. A block that an exception or an interrupt of the processor ends
//! early counts whole, as in the plugin's own counts.

use crate::record::line;
use std::collections::BTreeMap;

/// Kernel blocks with a count of their own: two mebibytes a virtual CPU. A guest that has run a workload has
/// some 100,000.
const MAX_BLOCKS: usize = (1 << 18) - FIRST_BLOCK;

/// The counts that are not of one block.
const USER: usize = 0;
const OTHER: usize = 1;
const FIRST_BLOCK: usize = 2;

/// How many counts there are at most.
pub const COUNTS: usize = FIRST_BLOCK + MAX_BLOCKS;

/// The addresses of programs are below.
const KERNEL: u64 = 1 << 63;

/// Which count a block has.
#[derive(Debug, Default)]
pub struct Table {
    blocks: BTreeMap<u64, usize>,
}

impl Table {
    /// That of the block that begins at this address: the same one however often the block is translated.
    pub fn count_of(&mut self, address: u64) -> usize {
        if address < KERNEL {
            return USER;
        }
        let free = FIRST_BLOCK + self.blocks.len();
        match self.blocks.get(&address) {
            Some(count) => *count,
            None if free < COUNTS => *self.blocks.entry(address).or_insert(free),
            None => OTHER,
        }
    }

    /// Appends what a CPU has executed; `executed` gives it by the number of the count.
    pub fn cpu(&self, text: &mut String, cpu: usize, executed: impl Fn(usize) -> u64) {
        let (user, other) = (executed(USER), executed(OTHER));
        line(text, format_args!("user cpu={cpu} instructions={user}"));
        line(text, format_args!("other cpu={cpu} instructions={other}"));
        let blocks = self.blocks.iter().map(|(address, count)| (address, executed(*count)));
        for (address, instructions) in blocks.filter(|(_, instructions)| *instructions > 0) {
            line(text, format_args!("block cpu={cpu} address={address:x} instructions={instructions}"));
        }
    }
}

/// The first line of the file.
pub const HEADER: &str = "flyball-blocks 1\n";

/// In QEMU's environment, the file, where the option names none.
pub const FILE: &str = "FLYBALL_PLUGIN_BLOCKS";

/// The head of a mark.
pub fn mark(text: &mut String, ns: u64, value: u8) {
    line(text, format_args!("mark ns={ns} value={value}"));
}

/// The last line of a mark.
pub use crate::record::end;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_keeps_its_count_and_programs_share_one() {
        let mut table = Table::default();
        let of = |table: &mut Table, addresses: [u64; 5]| addresses.map(|address| table.count_of(address));
        let addresses = [KERNEL + 16, 0x40_1000, KERNEL, KERNEL - 1, KERNEL + 16];
        let counts = [FIRST_BLOCK, USER, FIRST_BLOCK + 1, USER, FIRST_BLOCK];
        assert_eq!(of(&mut table, addresses), counts);
        assert_eq!(of(&mut table, addresses), counts, "translated again");
    }

    #[test]
    fn blocks_beyond_the_bound_share_one_count() {
        let mut table = Table::default();
        let counts: Vec<usize> = (0..COUNTS as u64).map(|at| table.count_of(KERNEL + at)).collect();
        assert_eq!(counts[..MAX_BLOCKS], (FIRST_BLOCK..COUNTS).collect::<Vec<_>>());
        assert_eq!(counts[MAX_BLOCKS..], [OTHER, OTHER]);
        assert_eq!(table.count_of(KERNEL), FIRST_BLOCK);
    }

    #[test]
    fn a_mark_is_written_as_documented() {
        let mut table = Table::default();
        let first = table.count_of(0xffff_ffff_8100_0040);
        table.count_of(0xffff_ffff_8100_0010);
        let last = table.count_of(0xffff_ffff_8100_0000);
        let mut text = HEADER.to_owned();
        mark(&mut text, 4_711, 2);
        let executed = BTreeMap::from([(USER, 5), (OTHER, 1), (first, 7), (last, 3)]);
        table.cpu(&mut text, 1, |count| executed.get(&count).copied().unwrap_or(0));
        end(&mut text);
        assert_eq!(
            text,
            "flyball-blocks 1\n\
             mark ns=4711 value=2\n\
             user cpu=1 instructions=5\n\
             other cpu=1 instructions=1\n\
             block cpu=1 address=ffffffff81000000 instructions=3\n\
             block cpu=1 address=ffffffff81000040 instructions=7\n\
             end\n"
        );
    }
}
