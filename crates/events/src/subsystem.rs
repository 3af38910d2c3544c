//! The part of the kernel that a function belongs to, and the part that a call stack works for.

use domain::profile::Subsystem;

/// That of a function, `name` or `name [module]`; `None` of helpers, which work for their caller.
pub fn of_function(function: &str) -> Option<Subsystem> {
    let (name, module) = split(function);
    let by_module = module.and_then(|module| find(MODULES, module));
    by_module.or_else(|| find(FUNCTIONS, name))
}

/// That of a call stack, from the function that ran to that which was called first: the first that has one,
/// for what it called are helpers.
pub fn of_stack<'a>(functions: impl IntoIterator<Item = &'a str>) -> Subsystem {
    let (mut cipher, mut is_interrupt) = (false, false);
    for subsystem in on_stack(functions) {
        match subsystem {
            // A cipher is a helper too, of dm-crypt alone.
            Subsystem::Crypto => cipher = true,
            Subsystem::Interrupt => is_interrupt = true,
            Subsystem::Crypt => return Subsystem::Crypt,
            other if !cipher => return other,
            _ => {}
        }
    }
    match (cipher, is_interrupt) {
        (true, _) => Subsystem::Crypto,
        (_, true) => Subsystem::Interrupt,
        _ => Subsystem::Other,
    }
}

/// Those of all functions of a call stack that have one, from the function that ran on: each works for those
/// that follow. An interrupt is the last, for whoever it interrupted has no part in it.
pub fn on_stack<'a>(functions: impl IntoIterator<Item = &'a str>) -> impl Iterator<Item = Subsystem> {
    let mut is_over = false;
    let of = move |function: &'a str| {
        if is_over {
            return None;
        }
        is_over = is_interrupt(plain(function));
        Some(of_function(function).or(is_over.then_some(Subsystem::Interrupt)))
    };
    functions.into_iter().map_while(of).flatten()
}

/// Whether an interrupt is on a call stack.
pub fn is_in_interrupt<'a>(mut functions: impl Iterator<Item = &'a str>) -> bool {
    functions.any(|function| is_interrupt(plain(function)))
}

/// A function's name without its module.
pub fn plain(function: &str) -> &str {
    split(function).0
}

/// Name and module.
fn split(function: &str) -> (&str, Option<&str>) {
    match function.split_once(" [") {
        Some((name, module)) => (name, module.strip_suffix(']')),
        None => (function, None),
    }
}

/// Where an interrupt enters the kernel (`arch/x86/include/asm/idtentry.h`, `arch/arm64/kernel/entry.S`).
fn is_interrupt(name: &str) -> bool {
    let is_entry = name.starts_with("asm_sysvec_") || name.starts_with("asm_common_interrupt");
    is_entry
        || matches!(
            name,
            "common_interrupt" | "el1h_64_irq" | "el0t_64_irq" | "handle_softirqs" | "__do_softirq"
        )
}

use Subsystem::{Block, Crypt, Crypto, Dm, Driver, Filesystem, Md, Memory, Network, Scheduler, Vfs};

/// Beginnings of modules' names, as `/proc/modules` has them; the first that fits decides.
const MODULES: &[(&str, Subsystem)] = &[
    ("md_mod", Md),
    ("raid", Md),
    ("linear", Md),
    ("md_", Md),
    ("async_", Md),
    ("xor", Md),
    ("dm_crypt", Crypt),
    ("dm_", Dm),
    ("ext4", Filesystem),
    ("ext2", Filesystem),
    ("jbd2", Filesystem),
    ("mbcache", Filesystem),
    ("xfs", Filesystem),
    ("btrfs", Filesystem),
    ("f2fs", Filesystem),
    ("fat", Filesystem),
    ("vfat", Filesystem),
    ("overlay", Filesystem),
    ("fuse", Filesystem),
    ("nfs", Filesystem),
    ("zfs", Filesystem),
    ("bcachefs", Filesystem),
    ("bfq", Block),
    ("kyber_iosched", Block),
    ("mq_deadline", Block),
    ("nvme", Driver),
    ("virtio_blk", Driver),
    ("virtio_scsi", Driver),
    ("virtio_net", Network),
    ("virtio", Driver),
    ("loop", Driver),
    ("null_blk", Driver),
    ("brd", Driver),
    ("zram", Driver),
    ("nbd", Driver),
    ("scsi", Driver),
    ("sd_mod", Driver),
    ("libata", Driver),
    ("libahci", Driver),
    ("ahci", Driver),
    ("ata_", Driver),
    ("mpt3sas", Driver),
    ("megaraid", Driver),
    ("smartpqi", Driver),
    ("usb_storage", Driver),
    ("uas", Driver),
    ("aesni_intel", Crypto),
    ("aes_", Crypto),
    ("crypto_simd", Crypto),
    ("cryptd", Crypto),
    ("xts", Crypto),
    ("libaes", Crypto),
];

/// Beginnings of the names of functions, for what is built in (Linux 6.18); the first that fits decides.
const FUNCTIONS: &[(&str, Subsystem)] = &[
    // Waiting, waking and switching, whoever asks for it.
    ("io_schedule", Scheduler),
    ("schedule", Scheduler),
    ("__schedule", Scheduler),
    ("try_to_wake_up", Scheduler),
    ("ttwu_", Scheduler),
    ("finish_task_switch", Scheduler),
    ("__switch_to", Scheduler),
    ("psi_", Scheduler),
    ("update_rq_clock", Scheduler),
    ("pick_next_task", Scheduler),
    // Layers of storage, the lowest last.
    ("ext4_", Filesystem),
    ("__ext4_", Filesystem),
    ("jbd2_", Filesystem),
    ("__jbd2_", Filesystem),
    ("mb_cache", Filesystem),
    ("ext2_", Filesystem),
    ("xfs_", Filesystem),
    ("xlog_", Filesystem),
    ("btrfs_", Filesystem),
    ("f2fs_", Filesystem),
    ("fuse_", Filesystem),
    ("ovl_", Filesystem),
    ("nfs_", Filesystem),
    ("shmem_", Filesystem),
    ("crypt_", Crypt),
    ("kcryptd", Crypt),
    ("dmcrypt_", Crypt),
    ("md_", Md),
    ("mddev_", Md),
    ("raid0_", Md),
    ("raid1_", Md),
    ("raid10_", Md),
    ("raid5_", Md),
    ("raid6_", Md),
    ("raid_run_ops", Md),
    ("handle_stripe", Md),
    ("async_xor", Md),
    ("async_gen_syndrome", Md),
    ("xor_blocks", Md),
    ("dm_", Dm),
    ("__dm_", Dm),
    ("__map_bio", Dm),
    ("clone_endio", Dm),
    ("virtblk_", Driver),
    ("virtio_queue_rq", Driver),
    ("virtqueue_", Driver),
    ("vring_", Driver),
    ("vp_notify", Driver),
    ("nvme_", Driver),
    ("loop_", Driver),
    ("lo_", Driver),
    ("null_", Driver),
    ("brd_", Driver),
    ("zram_", Driver),
    ("nbd_", Driver),
    ("scsi_", Driver),
    ("sd_", Driver),
    ("ata_", Driver),
    ("ahci_", Driver),
    ("blk_", Block),
    ("__blk_", Block),
    ("blkdev_", Block),
    ("__blkdev_", Block),
    ("blkg_", Block),
    ("blkcg_", Block),
    ("bio_", Block),
    ("__bio_", Block),
    ("bvec_", Block),
    ("submit_bio", Block),
    ("__submit_bio", Block),
    ("elv_", Block),
    ("dd_", Block),
    ("bfq_", Block),
    ("kyber_", Block),
    ("wbt_", Block),
    ("rq_qos_", Block),
    ("__rq_qos_", Block),
    ("sbitmap_", Block),
    ("__sbitmap_", Block),
    ("disk_", Block),
    ("vfs_", Vfs),
    ("ksys_", Vfs),
    ("filemap_", Vfs),
    ("__filemap_", Vfs),
    ("generic_file_", Vfs),
    ("generic_perform_write", Vfs),
    ("generic_write_", Vfs),
    ("folio_", Vfs),
    ("__folio_", Vfs),
    ("page_cache_", Vfs),
    ("balance_dirty_pages", Vfs),
    ("writeback_", Vfs),
    ("wb_", Vfs),
    ("do_writepages", Vfs),
    ("iomap_", Vfs),
    ("mpage_", Vfs),
    ("block_", Vfs),
    ("__block_", Vfs),
    ("copy_page_", Vfs),
    ("aio_", Vfs),
    ("io_submit", Vfs),
    ("lookup_ioctx", Vfs),
    ("read_events", Vfs),
    ("io_", Vfs),
    ("do_sync_", Vfs),
    ("link_path_walk", Vfs),
    ("path_openat", Vfs),
    ("__x64_sys_io_", Vfs),
    // Others.
    ("crypto_", Crypto),
    ("aesni_", Crypto),
    ("tcp_", Network),
    ("sock_", Network),
    ("unix_stream_", Network),
    ("net_", Network),
    ("do_user_addr_fault", Memory),
    ("handle_mm_fault", Memory),
    ("shrink_", Memory),
];

/// The first beginning that a name has.
fn find(table: &[(&str, Subsystem)], name: &str) -> Option<Subsystem> {
    table.iter().find(|(start, _)| name.starts_with(start)).map(|(_, subsystem)| *subsystem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_of_the_innermost_function_that_is_no_helper() {
        // fio writes to md RAID10 in the context of its own system call.
        let raid10 = [
            "memset_orig",
            "mempool_alloc_noprof",
            "raid10_write_request [raid10]",
            "raid10_make_request [raid10]",
            "md_handle_request [md_mod]",
            "__submit_bio",
            "submit_bio_noacct_nocheck",
            "__blkdev_direct_IO_async",
            "aio_write",
            "io_submit_one",
            "__x64_sys_io_submit",
            "do_syscall_64",
        ];
        assert_eq!(of_stack(raid10), Md);
        assert_eq!(of_stack(raid10[5..].iter().copied()), Block);
        assert_eq!(of_stack(raid10[8..].iter().copied()), Vfs);
        assert_eq!(of_stack(["do_syscall_64"]), Subsystem::Other);
    }

    #[test]
    fn ciphers_that_dm_crypt_calls_are_dm_crypts() {
        let encrypts =
            ["aes_xts_encrypt_aesni [aesni_intel]", "crypto_skcipher_encrypt", "crypt_convert [dm_crypt]"];
        assert_eq!(of_stack(encrypts), Crypt);
        assert_eq!(of_stack(["aesni_enc [aesni_intel]", "cryptd_skcipher_encrypt [cryptd]"]), Crypto);
    }

    #[test]
    fn an_interrupt_is_not_of_whom_it_interrupts() {
        let timer = ["tick_nohz_handler", "asm_sysvec_apic_timer_interrupt", "raid10_make_request [raid10]"];
        assert_eq!(of_stack(timer), Subsystem::Interrupt);
        let completes =
            ["raid10_end_write_request [raid10]", "bio_endio", "nvme_irq [nvme]", "asm_common_interrupt"];
        assert_eq!(of_stack(completes), Md);
        assert_eq!(on_stack(completes).collect::<Vec<_>>(), [Md, Block, Driver, Subsystem::Interrupt]);
        assert_eq!(on_stack(timer).collect::<Vec<_>>(), [Subsystem::Interrupt]);
    }
}
