//! Whose work a kernel thread does, by its name.
//!
//! A kworker's name carries its work queue: `kworker/u8:1+flush-254:0` while it executes (`+`) or after
//! (`-`), as `wq_worker_comm` of `kernel/workqueue.c` writes it; `kworker/R-kblockd` is a queue's rescuer.
//! The name therefore changes with the work, and is worth reading again. Ordinary names are cut at 15
//! characters by older kernels, so the patterns are short.

use domain::trace::Role;

/// How a name is recognised.
enum Pattern {
    /// It begins so.
    Prefix(&'static str),
    /// It begins so and a digit follows.
    Numbered(&'static str),
    /// It begins with the first and holds the second.
    With(&'static str, &'static str),
}
use Pattern::{Numbered, Prefix, With};

/// Names of threads; the first that fits decides.
const THREADS: [(Pattern, Role); 22] = [
    (With("md", "_raid"), Role::Array),
    (With("md", "_resync"), Role::Array),
    (With("md", "_recover"), Role::Array),
    (With("md", "_reshape"), Role::Array),
    (With("md", "_cluster"), Role::Array),
    (Prefix("raid5wq"), Role::Array),
    (Prefix("kcryptd"), Role::Crypt),
    (Prefix("dmcrypt_write"), Role::Crypt),
    (Prefix("jbd2/"), Role::Journal),
    (Prefix("xfsaild"), Role::Journal),
    (Prefix("btrfs-transacti"), Role::Journal),
    (Prefix("flush-"), Role::Writeback),
    (Numbered("loop"), Role::Loop),
    (Prefix("ksoftirqd/"), Role::Interrupt),
    (Prefix("irq/"), Role::Interrupt),
    (Prefix("kblockd"), Role::Block),
    (Prefix("nvme"), Role::Block),
    (Prefix("scsi_"), Role::Block),
    (Prefix("kthrotld"), Role::Block),
    (Prefix("blkcg_"), Role::Block),
    (Prefix("kdmflush"), Role::Block),
    (Prefix("ata_sff"), Role::Block),
];

/// Names of work queues that differ from those of threads; asked first for kworkers.
const QUEUES: [(Pattern, Role); 7] = [
    (Prefix("flush"), Role::Writeback),
    (Prefix("writeback"), Role::Writeback),
    (Prefix("xfs-cil"), Role::Journal),
    (Prefix("xfs-log"), Role::Journal),
    (Prefix("md"), Role::Array),
    (Prefix("raid"), Role::Array),
    (Prefix("dm-"), Role::Block),
];

/// Names of functions that kworkers execute (`INIT_WORK` and its kin in Linux 6.18).
const WORK: [(Pattern, Role); 19] = [
    (Prefix("kcryptd_"), Role::Crypt),
    (Prefix("wb_"), Role::Writeback),
    (Prefix("inode_switch_wbs"), Role::Writeback),
    (Prefix("loop_"), Role::Loop),
    (Prefix("lo_"), Role::Loop),
    (Prefix("raid5_"), Role::Array),
    (Prefix("raid_"), Role::Array),
    (Prefix("md_"), Role::Array),
    (Prefix("submit_flushes"), Role::Array),
    (Prefix("xlog_"), Role::Journal),
    (Prefix("blk_"), Role::Block),
    (Prefix("blkcg_"), Role::Block),
    (Prefix("nvme_"), Role::Block),
    (Prefix("scsi_"), Role::Block),
    (Prefix("dm_"), Role::Block),
    (Prefix("do_submit_bio"), Role::Block),
    (Prefix("bio_"), Role::Block),
    (Prefix("kyber_"), Role::Block),
    (Prefix("bfq_"), Role::Block),
];

/// The role of a kworker while it executes this function; [`Role::Kworker`] where it serves no storage.
pub fn work_role(function: &str) -> Role {
    find(&WORK, function).unwrap_or(Role::Kworker)
}

/// The role of a kernel thread of this name; [`Role::Kernel`] for those that serve no storage.
pub fn kernel_role(name: &str) -> Role {
    match name.strip_prefix("kworker/") {
        Some(rest) => work_queue(rest).map_or(Role::Kworker, queue_role),
        None => find(&THREADS, name).unwrap_or(Role::Kernel),
    }
}

/// Whether a thread of this name changes its work, and so its name and role.
pub fn is_kworker(name: &str) -> bool {
    name.starts_with("kworker/")
}

/// Names that the kernel gives its threads (`kthread_create` and its kin in Linux 6.18), and no program that
/// is known: those of every machine, and those that serve storage.
const OF_THE_KERNEL: [Pattern; 36] = [
    Prefix("kworker/"),
    Prefix("ksoftirqd/"),
    Prefix("migration/"),
    Prefix("cpuhp/"),
    Prefix("idle_inject/"),
    Prefix("irq/"),
    Prefix("irq_work/"),
    Prefix("ktimers/"),
    Prefix("rcu_"),
    Prefix("rcuog/"),
    Prefix("rcuop/"),
    Prefix("rcuos/"),
    Prefix("rcub/"),
    Prefix("rcuc/"),
    Prefix("pool_workqueue_"),
    Prefix("kthreadd"),
    Prefix("kcompactd"),
    Prefix("khugepaged"),
    Prefix("khungtaskd"),
    Prefix("kdevtmpfs"),
    Prefix("kauditd"),
    Numbered("kswapd"),
    Numbered("scsi_eh_"),
    Numbered("loop"),
    Prefix("oom_reaper"),
    Prefix("watchdogd"),
    Prefix("jbd2/"),
    Prefix("xfsaild/"),
    Prefix("btrfs-transacti"),
    Prefix("btrfs-cleaner"),
    Prefix("dmcrypt_write"),
    Prefix("kcryptd"),
    With("md", "_raid"),
    With("md", "_resync"),
    With("md", "_recover"),
    With("md", "_reshape"),
];

/// Whether a thread of this name is the kernel's. A program can give itself any name; those that are here are
/// none that a program is known to have.
pub fn is_kernel_name(name: &str) -> bool {
    OF_THE_KERNEL.iter().any(|pattern| pattern.fits(name))
}

/// The queue in `u8:1+flush-254:0`, `0:1H-kblockd` or `R-kblockd`.
fn work_queue(rest: &str) -> Option<&str> {
    rest.find(['+', '-']).map(|at| &rest[at + 1..])
}

fn queue_role(queue: &str) -> Role {
    find(&QUEUES, queue).or_else(|| find(&THREADS, queue)).unwrap_or(Role::Kworker)
}

fn find(table: &[(Pattern, Role)], name: &str) -> Option<Role> {
    table.iter().find(|(pattern, _)| pattern.fits(name)).map(|(_, role)| *role)
}

impl Pattern {
    fn fits(&self, name: &str) -> bool {
        match self {
            Prefix(start) => name.starts_with(start),
            Numbered(start) => {
                name.strip_prefix(start).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            }
            With(start, part) => name.starts_with(start) && name.contains(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(role: Role, names: &[&str]) {
        for name in names {
            assert_eq!(kernel_role(name), role, "{name}");
        }
    }

    #[test]
    fn an_array_is_known_by_its_threads_and_queues() {
        check(Role::Array, &["md127_raid10", "md0_resync", "md_home_raid1", "kworker/u8:3-raid5wq"]);
        check(Role::Array, &["kworker/0:1-md_misc", "md0_recovery"]);
    }

    #[test]
    fn encryption_is_known_in_old_and_new_kernels() {
        check(Role::Crypt, &["kcryptd/253:0", "kworker/u8:2-kcryptd/253:0", "dmcrypt_write/2"]);
        check(Role::Crypt, &["kworker/u8:2-kcryptd-253:0-1", "kworker/R-kcryptd_io/253:0"]);
    }

    #[test]
    fn journals_and_writeback_are_told_apart() {
        check(Role::Journal, &["jbd2/vda1-8", "jbd2/dm-12-8", "xfsaild/sda1", "btrfs-transaction"]);
        check(Role::Journal, &["btrfs-transacti", "kworker/1:0-xfs-cil/sda1"]);
        check(Role::Writeback, &["kworker/u4:1+flush-254:0", "kworker/u8:1-flush-254:0", "flush-8:0"]);
        check(Role::Writeback, &["kworker/R-writeback"]);
    }

    #[test]
    fn names_of_the_kernel_are_told_from_those_that_programs_have() {
        let of_the_kernel =
            ["kworker/u8:1-kvfree", "migration/0", "rcu_preempt", "kswapd0", "jbd2/vda1-8", "loop0"];
        let of_others = ["dd", "nvme", "Cache2 I/O", "loop", "mdadm", "kswapd", "irqbalance", "xfs_io", ""];
        assert!(of_the_kernel.iter().all(|name| is_kernel_name(name)));
        assert_eq!(of_others.iter().find(|name| is_kernel_name(name)), None);
    }

    #[test]
    fn the_block_layer_loops_and_interrupts_have_their_own_roles() {
        check(Role::Loop, &["loop0", "kworker/u8:3+loop0", "loop12"]);
        check(Role::Block, &["kworker/0:1H-kblockd", "kworker/R-kblockd", "scsi_eh_0", "nvme-wq"]);
        check(Role::Block, &["kworker/u16:2-nvme-wq", "kworker/R-kdmflush/253:0", "kthrotld"]);
        check(Role::Interrupt, &["ksoftirqd/0", "irq/24-ACPI:Ged", "irq/130-nvme0q1"]);
    }

    #[test]
    fn a_kworker_works_for_whom_its_function_is() {
        let roles = |names: [&str; 4]| names.map(work_role);
        assert_eq!(roles(["kcryptd_crypt", "wb_workfn", "loop_workfn", "blk_mq_run_work_fn"]), {
            [Role::Crypt, Role::Writeback, Role::Loop, Role::Block]
        });
        assert_eq!(roles(["raid5_do_work", "md_start_sync", "xlog_cil_push_work", "vmstat_update"]), {
            [Role::Array, Role::Array, Role::Journal, Role::Kworker]
        });
    }

    #[test]
    fn what_serves_no_storage_is_the_kernels() {
        check(
            Role::Kworker,
            &["kworker/u8:2", "kworker/0:1H", "kworker/1:0-virtio_vsock", "kworker/0:2+events"],
        );
        check(Role::Kernel, &["kthreadd", "migration/0", "rcu_preempt", "kswapd0", "loopback", "", "mdns"]);
    }
}
