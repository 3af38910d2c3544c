//! Sysctls that are written wrongly.
//!
//! A sysctl is absent for one of three reasons: its folder comes with a module that is not loaded, this
//! kernel was built without it or is of another version, or its name is written wrongly. The first shows by
//! its folder. The others cannot be told apart for sure, for distributions add sysctls of their own: wrongly
//! written is what differs by a letter or two from one that is here, and is none of [`SOMETIMES`].

use super::SYSCTL_ROOTS;
use super::catalogue::{most_alike, slip_of};
use super::error::Error;
use crate::Machine;
use domain::setting::SettingName;
use std::path::Path;

/// Where the kernel shows its sysctls.
pub(super) const SYSCTLS: &str = "/proc/sys/";

/// Sysctls that depend on the kernel's version, configuration or architecture: those that
/// `Documentation/admin-guide/sysctl/{vm,kernel,fs}.rst` has, and others that are known. It is not complete.
const SOMETIMES: &[&str] = &[
    "fs.aio-max-nr",
    "fs.aio-nr",
    "fs.binfmt_misc",
    "fs.dentry-negative",
    "fs.dir-notify-enable",
    "fs.lease-break-time",
    "fs.leases-enable",
    "fs.mount-max",
    "fs.pipe-user-pages-hard",
    "fs.pipe-user-pages-soft",
    "fs.protected_fifos",
    "fs.protected_hardlinks",
    "fs.protected_regular",
    "fs.protected_symlinks",
    "fs.suid_dumpable",
    "kernel.acct",
    "kernel.acpi_video_flags",
    "kernel.apparmor_display_secid_mode",
    "kernel.arch",
    "kernel.auto_msgmni",
    "kernel.bootloader_type",
    "kernel.bootloader_version",
    "kernel.bpf_stats_enabled",
    "kernel.cad_pid",
    "kernel.core_file_note_size_limit",
    "kernel.core_sort_vma",
    "kernel.dmesg_restrict",
    "kernel.ftrace_dump_on_oops",
    "kernel.ftrace_enabled",
    "kernel.hardlockup_all_cpu_backtrace",
    "kernel.hardlockup_panic",
    "kernel.hotplug",
    "kernel.hung_task_all_cpu_backtrace",
    "kernel.hung_task_check_count",
    "kernel.hung_task_check_interval_secs",
    "kernel.hung_task_panic",
    "kernel.hung_task_timeout_secs",
    "kernel.hung_task_warnings",
    "kernel.hyperv_record_panic_msg",
    "kernel.ignore-unaligned-usertrap",
    "kernel.io_delay_type",
    "kernel.io_uring_disabled",
    "kernel.io_uring_group",
    "kernel.kexec_load_disabled",
    "kernel.kexec_load_limit_panic",
    "kernel.kexec_load_limit_reboot",
    "kernel.kptr_restrict",
    "kernel.latencytop",
    "kernel.lock_stat",
    "kernel.max_rcu_stall_to_panic",
    "kernel.modprobe",
    "kernel.modules_disabled",
    "kernel.msg_next_id",
    "kernel.nmi_watchdog",
    "kernel.ns_last_pid",
    "kernel.numa_balancing",
    "kernel.numa_balancing_promote_rate_limit_MBps",
    "kernel.numa_balancing_scan_delay_ms",
    "kernel.numa_balancing_scan_period_max_ms",
    "kernel.numa_balancing_scan_period_min_ms",
    "kernel.numa_balancing_scan_size_mb",
    "kernel.numa_balancing_settle_count",
    "kernel.oops_all_cpu_backtrace",
    "kernel.oops_limit",
    "kernel.panic_on_io_nmi",
    "kernel.panic_on_rcu_stall",
    "kernel.panic_on_stackoverflow",
    "kernel.panic_on_unrecovered_nmi",
    "kernel.perf_cpu_time_max_percent",
    "kernel.perf_event_max_contexts_per_stack",
    "kernel.perf_event_max_sample_rate",
    "kernel.perf_event_max_stack",
    "kernel.perf_event_mlock_kb",
    "kernel.perf_event_paranoid",
    "kernel.powersave-nap",
    "kernel.prove_locking",
    "kernel.reboot-cmd",
    "kernel.sched_autogroup_enabled",
    "kernel.sched_base_slice_ns",
    "kernel.sched_cfs_bandwidth_slice_us",
    "kernel.sched_child_runs_first",
    "kernel.sched_compat_yield",
    "kernel.sched_deadline_period_max_us",
    "kernel.sched_deadline_period_min_us",
    "kernel.sched_energy_aware",
    "kernel.sched_features",
    "kernel.sched_itmt_enabled",
    "kernel.sched_latency_ns",
    "kernel.sched_migration_cost_ns",
    "kernel.sched_min_granularity_ns",
    "kernel.sched_nr_migrate",
    "kernel.sched_rr_timeslice_ms",
    "kernel.sched_rt_period_us",
    "kernel.sched_rt_runtime_us",
    "kernel.sched_schedstats",
    "kernel.sched_shares_window_ns",
    "kernel.sched_time_avg_ms",
    "kernel.sched_tunable_scaling",
    "kernel.sched_util_clamp_max",
    "kernel.sched_util_clamp_min",
    "kernel.sched_util_clamp_min_rt_default",
    "kernel.sched_wakeup_granularity_ns",
    "kernel.seccomp",
    "kernel.sem_next_id",
    "kernel.sg-big-buff",
    "kernel.shm_next_id",
    "kernel.soft_watchdog",
    "kernel.softlockup_all_cpu_backtrace",
    "kernel.softlockup_panic",
    "kernel.split_lock_mitigate",
    "kernel.stack_erasing",
    "kernel.stack_tracer_enabled",
    "kernel.stop-a",
    "kernel.sysrq",
    "kernel.task_delayacct",
    "kernel.timer_migration",
    "kernel.traceoff_on_warning",
    "kernel.tracepoint_printk",
    "kernel.unaligned-trap",
    "kernel.unknown_nmi_panic",
    "kernel.unprivileged_bpf_disabled",
    "kernel.unprivileged_userns_clone",
    "kernel.warn_limit",
    "kernel.watchdog",
    "kernel.watchdog_cpumask",
    "kernel.watchdog_thresh",
    "vm.admin_reserve_kbytes",
    "vm.block_dump",
    "vm.compact_memory",
    "vm.compact_unevictable_allowed",
    "vm.compaction_proactiveness",
    "vm.defrag_mode",
    "vm.dirtytime_expire_seconds",
    "vm.enable_soft_offline",
    "vm.extfrag_threshold",
    "vm.highmem_is_dirtyable",
    "vm.hugepages_treat_as_movable",
    "vm.hugetlb_optimize_vmemmap",
    "vm.hugetlb_shm_group",
    "vm.laptop_mode",
    "vm.legacy_va_layout",
    "vm.lowmem_reserve_ratio",
    "vm.max_map_count",
    "vm.mem_profiling",
    "vm.memfd_noexec",
    "vm.memory_failure_early_kill",
    "vm.memory_failure_recovery",
    "vm.min_slab_ratio",
    "vm.min_unmapped_ratio",
    "vm.mmap_min_addr",
    "vm.mmap_rnd_bits",
    "vm.mmap_rnd_compat_bits",
    "vm.movable_gigantic_pages",
    "vm.nr_hugepages",
    "vm.nr_hugepages_mempolicy",
    "vm.nr_overcommit_hugepages",
    "vm.nr_pdflush_threads",
    "vm.nr_trim_pages",
    "vm.numa_stat",
    "vm.numa_zonelist_order",
    "vm.overcommit_kbytes",
    "vm.page-cluster",
    "vm.page_lock_unfairness",
    "vm.panic_on_oom",
    "vm.percpu_pagelist_fraction",
    "vm.percpu_pagelist_high_fraction",
    "vm.scan_unevictable_pages",
    "vm.stat_interval",
    "vm.stat_refresh",
    "vm.swappiness",
    "vm.unprivileged_userfaultfd",
    "vm.user_reserve_kbytes",
    "vm.vfs_cache_pressure_denom",
    "vm.watermark_boost_factor",
    "vm.watermark_scale_factor",
    "vm.zone_reclaim_mode",
];

/// The folder and the file of a sysctl; `None` of any other setting.
fn place(name: &str) -> Option<(String, &str)> {
    let below = match name.strip_prefix(SYSCTLS) {
        Some(path) => path.to_owned(),
        None if SYSCTL_ROOTS.iter().any(|root| name.starts_with(root)) => name.replace('.', "/"),
        None => return None,
    };
    let (folder, file) = below.rsplit_once('/')?;
    Some((folder.to_owned(), &name[name.len() - file.len()..]))
}

/// Why a sysctl is written wrongly: its folder is there, the name is not, and one beside it is almost the
/// same. `None` of any other setting, of one of [`SOMETIMES`], and where this machine does not tell.
pub(super) fn misspelt(machine: &dyn Machine, setting: &SettingName) -> Option<Error> {
    let (folder, file) = place(&setting.name)?;
    let dotted = folder.replace('/', ".");
    if SOMETIMES.contains(&format!("{dotted}.{file}").as_str()) {
        return None;
    }
    let there = machine.list(Path::new(&format!("{SYSCTLS}{folder}"))).ok()?;
    if there.is_empty() || there.iter().any(|name| name == file) {
        return None;
    }
    let meant = slip_of(file, there.iter().map(String::as_str))?;
    let nearest = format!("{dotted}.{meant}");
    Some(Error::NoSysctl { name: setting.name.clone(), folder: format!("{SYSCTLS}{folder}"), nearest })
}

/// The sysctl beside this one that may have been meant, as the end of a message; empty where none is near.
pub(super) fn hint(machine: &dyn Machine, path: &str) -> String {
    let Some((folder, file)) = place(path).filter(|_| path.starts_with(SYSCTLS)) else {
        return String::new();
    };
    let there = machine.list(Path::new(&format!("{SYSCTLS}{folder}"))).unwrap_or_default();
    let near = near(&folder.replace('/', "."), file, &there);
    near.map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

fn near(dotted: &str, file: &str, there: &[String]) -> Option<String> {
    let near = most_alike(file, there.iter().map(String::as_str))?;
    Some(format!("{dotted}.{near}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RecordedMachine;

    fn told(name: &str) -> Option<String> {
        let files = tempfile::tempdir().unwrap();
        for file in ["vm/dirty_ratio", "vm/dirty_background_ratio", "vm/swappiness"] {
            let path = files.path().join("proc/sys").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "1\n").unwrap();
        }
        let machine = RecordedMachine::open(files.path()).unwrap();
        misspelt(&machine, &SettingName { name: name.into(), object: None }).map(|error| error.to_string())
    }

    #[test]
    fn a_name_that_is_almost_another_is_told_with_that() {
        for name in ["vm.dirty_ratoi", "/proc/sys/vm/dirty_ratoi"] {
            let error = told(name).unwrap();
            assert!(error.contains("did you mean `vm.dirty_ratio`?"), "{error}");
        }
    }

    #[test]
    fn a_name_that_is_near_none_may_be_another_kernels() {
        for name in ["vm.dirty_ration_limit", "vm.clean_min_ratio"] {
            assert_eq!(told(name), None, "{name}");
        }
    }

    #[test]
    fn what_a_kernel_or_a_module_may_lack_is_no_mistake() {
        for name in
            ["vm.dirty_ratio", "vm.nr_hugepages", "fs.xfs.speculative_prealloc", "dev.raid.speed", "epp"]
        {
            assert_eq!(told(name), None, "{name}");
        }
    }

    #[test]
    fn the_table_is_sorted_by_root_and_has_each_name_once() {
        let unique: std::collections::BTreeSet<_> = SOMETIMES.iter().collect();
        assert_eq!(unique.len(), SOMETIMES.len());
        assert!(SOMETIMES.iter().all(|name| place(name).is_some()));
    }
}
