//! What work costs on a machine.

use super::{Figure, Origin};
use crate::cpu::Cost;
use std::collections::BTreeMap;

/// A cost by its name, with what holds where a machine file does not say it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostName {
    /// The key in `[cost]`.
    pub name: &'static str,
    /// Cycles, or for a stall nanoseconds, where the file says nothing.
    pub default: f64,
    /// What costs that, and of what the default is the order.
    pub about: &'static str,
}

const fn cost(name: &'static str, default: f64, about: &'static str) -> CostName {
    CostName { name, default, about }
}

/// All costs. The defaults are assumed: orders of magnitude of a current kernel on a current CPU, to be
/// fitted.
pub const COSTS: &[CostName] = &[
    cost("switch", 2_000.0, "a CPU begins to run a thread: switch, caches"),
    cost("idle_exit", 0.0, "a CPU leaves the idle loop, and enters it again"),
    cost("tick", 0.0, "the scheduler's tick of a CPU that is not idle"),
    cost("governor_sample", 0.0, "a sample of a governor that decides in a kworker"),
    cost("rcu", 0.0, "a wake-up of RCU's thread: two for what fio's main thread frees at each look"),
    cost("recorder_sample", 0.0, "a sample of Flyball's own recorder, at each `interval` of a study"),
    cost("fio_start", 0.0, "a job of fio before its times begin: its process is made, and sets itself up"),
    cost("fio_end", 0.0, "a job of fio from its last completion until its process is gone"),
    cost("fio_look", 0.0, "a look of fio's main thread at its jobs, each 10 ms"),
    cost("fio_helper", 0.0, "a wake-up of fio's helper thread, each 100 ms"),
    cost("fio_pause", 0.0, "a pause of a job (`thinktime`): the sleep, and the timer that ends it"),
    cost("interrupt", 3_000.0, "the interrupt at the end of a disk's request"),
    cost(
        "dispatch",
        0.0,
        "a request that a disk's driver gets, where `submit` does not have it: I/O scheduler, SCSI, driver",
    ),
    cost(
        "dispatch_page",
        0.0,
        "a page of such a request, where `direct_page` does not have it: mapped for the driver",
    ),
    cost(
        "memory_request",
        0.0,
        "a request that null_blk's driver gets, where `submit` does not have it: block layer, driver, timer",
    ),
    cost("memory_byte", 0.0, "each byte of such a request: its page is looked up"),
    cost("memory_copy_byte", 0.0, "each byte that it copies: what is written, and what is read that was"),
    cost("memory_page", 0.0, "a page that null_blk gets when it is written for the first time"),
    cost(
        "disk_step",
        0.0,
        "a step of a disk that is emulated on the CPU's own host, where it works at the time",
    ),
    cost("submit", 6_000.0, "a program's request on its way down: system call, block layer, driver"),
    cost("complete", 3_000.0, "the way back up to the program that waited"),
    cost(
        "direct_page",
        0.0,
        "a page of a request past the page cache, where `submit` does not have it: held",
    ),
    cost(
        "direct_page_end",
        0.0,
        "such a page when its request is done: let go, marked dirty where it was read",
    ),
    cost("touch_byte", 0.0, "each byte that the program itself makes or looks at"),
    cost("copy_byte", 0.25, "each byte between the page cache and the program"),
    cost("zero_byte", 0.06, "each byte that a program reads from /dev/zero"),
    cost("random_byte", 7.0, "each byte that a program reads from /dev/urandom: ChaCha20 in C"),
    cost("page", 900.0, "each page that is got and put into the page cache"),
    cost("putc", 10.0, "a character that a program writes through stdio (`putc`)"),
    cost("getc", 10.0, "a character that a program reads through stdio (`getc`)"),
    cost("byte_call", 500.0, "a system call that writes or reads one byte in the page cache"),
    cost("md_map", 800.0, "a bio that an array sends on to a member"),
    cost("md_thread", 1_500.0, "a bio that an array's thread handles"),
    cost("md_wake", 0.0, "a wake-up of a thread of RAID 4, 5 or 6, where `switch` does not have it"),
    cost("stripe", 4_000.0, "a stripe of 4 KiB a member that RAID 4, 5 or 6 looks at once"),
    cost("stripe_member", 0.0, "a member's block in such a look, where `stripe` does not have it"),
    cost(
        "stripe_io",
        0.0,
        "a block of a stripe that is read from a member or written to it: bio, merge, completion",
    ),
    cost("stripe_seek", 0.0, "a page of a request that is passed on the way to the one that a stripe copies"),
    cost("xor_byte", 0.12, "each byte that goes into a parity"),
    cost("syndrome_byte", 0.0, "what such a byte costs more where the parities are RAID 6's"),
    cost("crypt_byte", 1.3, "each byte encrypted or decrypted (AES-XTS with the CPU's instructions)"),
    cost("crypt_sector", 250.0, "each sector encrypted or decrypted: its vector"),
    cost("crypt_bio", 4_000.0, "a bio through dm-crypt's queues"),
    cost("crypt_write", 1_200.0, "a write sorted in and submitted by dm-crypt's thread for that"),
    cost("journal_block", 3_000.0, "a block that the journal writes"),
    cost("allocate", 5_000.0, "a block or extent that a filesystem allocates"),
    cost(
        "transaction",
        2_000_000.0,
        "sysbench's read-only transaction of 16 statements in a database's server",
    ),
    cost("client", 30_000.0, "a statement in sysbench itself, where it runs on the same machine"),
    cost(
        "packet",
        8_000.0,
        "a message that comes to a database's server or leaves it: interrupt, TCP, system call",
    ),
];

/// Waits that no frequency shortens, in nanoseconds.
pub const STALLS: &[CostName] = &[cost(
    "transaction_stall_ns",
    170_000.0,
    "what of such a transaction waits for memory: a fifth of its time at 3 GHz",
)];

/// A machine's costs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    /// Those that its file gives.
    pub given: BTreeMap<&'static str, Figure>,
    /// What a clock cycle executes in the unit of the figures.
    pub work_per_cycle: f64,
    /// By what the figures are multiplied: 1, but in a trial of a machine whose costs vary.
    pub factor: f64,
}

impl Costs {
    /// A cost in cycles of the clock.
    ///
    /// # Panics
    /// Where there is no cost of this name: see [`COSTS`].
    pub fn cycles(&self, name: &str) -> f64 {
        let known =
            COSTS.iter().find(|c| c.name == name).unwrap_or_else(|| panic!("no cost is named {name}"));
        self.given.get(name).map_or(known.default, |figure| figure.is) * self.factor / self.work_per_cycle
    }

    /// A wait that no frequency shortens, in nanoseconds.
    ///
    /// # Panics
    /// Where there is none of this name: see [`STALLS`].
    pub fn stall_ns(&self, name: &str) -> u64 {
        let known =
            STALLS.iter().find(|c| c.name == name).unwrap_or_else(|| panic!("no stall is named {name}"));
        (self.given.get(name).map_or(known.default, |figure| figure.is) * self.factor).round() as u64
    }

    /// That of doing it once.
    pub fn once(&self, name: &str) -> Cost {
        Cost::cycles(self.cycles(name).round() as u64)
    }

    /// A cost that is assumed to be alike on all machines, in this machine's cycles.
    pub fn scaled(&self, cost: Cost) -> Cost {
        Cost { cycles: (cost.cycles as f64 * self.factor / self.work_per_cycle).round() as u64, ..cost }
    }

    /// That of so many bytes.
    pub fn of_bytes(&self, name: &str, bytes: u64) -> Cost {
        Cost::cycles((self.cycles(name) * bytes as f64).round() as u64)
    }

    /// That of each byte, in 1/1024 of a cycle.
    pub fn byte_1024(&self, name: &str) -> u64 {
        (self.cycles(name) * 1024.0).round() as u64
    }

    /// Each cost, with its origin.
    pub fn all(&self) -> impl Iterator<Item = (&'static str, Figure)> {
        COSTS.iter().chain(STALLS).map(|cost| {
            let assumed = || Figure { is: cost.default, origin: Origin::Assumed(cost.about.to_owned()) };
            (cost.name, self.given.get(cost.name).cloned().unwrap_or_else(assumed))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manual_has_every_cost_with_its_default() {
        let manual = include_str!("../../../../docs/MACHINE-FORMAT.md");
        for CostName { name, default, .. } in COSTS.iter().chain(STALLS) {
            let of_it = |line: &&str| line.starts_with('|') && line.contains(&format!("`{name}`"));
            let row = manual.lines().find(of_it).unwrap_or_else(|| panic!("no row has `{name}`"));
            assert_eq!(row.split('|').nth(2).unwrap().trim(), default.to_string(), "{name}");
        }
    }
}
