//! Seccomp: which system calls a process may make.
//!
//! A reader that makes a call of another kind is killed at once. There is no honest reason for one, so it is
//! a fault that somebody uses, and the next call might be the one that gets through; its parent sees the
//! signal and says so. Some calls a C library makes beside, in versions to come perhaps: they are refused
//! with an error number, as a call that tells nothing and changes nothing may be.
//!
//! An unpacker is a program of others. It is refused what it does not need with an error number, for programs
//! try things out and go on without them. It cannot start processes, only threads.
//!
//! A looker is Flyball itself with its libraries, SQLite's among them, in a command that someone waits for.
//! It is refused what is listed, not what is not: what it may open is Landlock's to say.

use SeccompAction::{Allow, KillProcess};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};
use std::collections::BTreeMap;

/// Who is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Calls {
    /// A process that reads from, and writes to, descriptors that it was given.
    Reader,
    /// A process that executes a program, which does the same and starts threads.
    Unpacker,
    /// A process that reads and writes files by their names, and does nothing to the machine.
    Looker,
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Memory, time and the end of a process; descriptors that are open.
const OF_ALL: [i64; 35] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_sched_yield,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_ppoll,
    libc::SYS_membarrier,
];

/// What a C library may try beside, and does without.
const REFUSED_TO_READERS: [i64; 14] = [
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_faccessat,
    libc::SYS_readlinkat,
    libc::SYS_getcwd,
    libc::SYS_ioctl,
    libc::SYS_prlimit64,
    libc::SYS_sched_getaffinity,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_fcntl,
];

#[cfg(target_arch = "x86_64")]
const OLD_REFUSED_TO_READERS: [i64; 5] =
    [libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink];
#[cfg(not(target_arch = "x86_64"))]
const OLD_REFUSED_TO_READERS: [i64; 0] = [];

/// What a program needs to be loaded, to look about in what Landlock leaves it, and to start threads.
const OF_UNPACKERS: [i64; 36] = [
    libc::SYS_execve,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_ioctl,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_pselect6,
    libc::SYS_fadvise64,
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_prlimit64,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_umask,
    libc::SYS_getppid,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_restrict_self,
];

#[cfg(target_arch = "x86_64")]
const OLD_OF_UNPACKERS: [i64; 12] = [
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_pipe,
    libc::SYS_dup2,
    libc::SYS_getrlimit,
    libc::SYS_arch_prctl,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_OF_UNPACKERS: [i64; 0] = [];

/// Linux gives its newer calls one number on all processors (include/uapi/asm-generic/unistd.h); libc names
/// this one for x86_64 alone.
const SYS_FCHMODAT2: i64 = 452;

/// What changes the machine, starts something, or reaches other processes; and what Landlock does not see:
/// owners, modes and attributes of files.
const REFUSED_TO_LOOKERS: [i64; 66] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_send_signal,
    libc::SYS_pidfd_getfd,
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_sendto,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    SYS_FCHMODAT2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    libc::SYS_mknodat,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_syslog,
    libc::SYS_personality,
];

#[cfg(target_arch = "x86_64")]
const OLD_REFUSED_TO_LOOKERS: [i64; 11] = [
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_mknod,
    libc::SYS_iopl,
    libc::SYS_ioperm,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_REFUSED_TO_LOOKERS: [i64; 0] = [];

/// The same calls by the numbers of x32, which a kernel may take beside its own: with this bit, and 36 of
/// them by numbers of their own (`arch/x86/entry/syscalls/syscall_64.tbl`). A list of what is allowed has
/// none of them; one of what is refused has to name them.
#[cfg(target_arch = "x86_64")]
fn by_other_numbers(calls: impl Iterator<Item = i64>) -> impl Iterator<Item = i64> {
    const X32: i64 = 0x4000_0000;
    calls.chain(512..548).map(|call| call | X32)
}
#[cfg(not(target_arch = "x86_64"))]
fn by_other_numbers(_: impl Iterator<Item = i64>) -> impl Iterator<Item = i64> {
    std::iter::empty()
}

impl Calls {
    pub(crate) fn allow(self) -> Result<(), String> {
        let failed =
            |error: seccompiler::Error| format!("this kernel takes no filter of system calls: {error}");
        // The one that is installed last is asked for each of the ones before it too; the strictest answer
        // counts.
        for filter in self.filters()? {
            apply_filter(&filter).map_err(failed)?;
        }
        Ok(())
    }

    fn filters(self) -> Result<[BpfProgram; 2], String> {
        match self {
            Self::Reader => of_readers(),
            Self::Unpacker => of_unpackers(),
            Self::Looker => of_lookers(),
        }
    }
}

fn of_readers() -> Result<[BpfProgram; 2], String> {
    let softly = REFUSED_TO_READERS.into_iter().chain(OLD_REFUSED_TO_READERS);
    let mut allowed = rules(OF_ALL.into_iter().chain([libc::SYS_recvmsg]));
    allowed.extend(rules(softly.clone()));
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        // Nothing that it writes can be executed.
        allowed.insert(call, vec![where_(2, masked(libc::PROT_EXEC), 0)?]);
    }
    allowed.insert(libc::SYS_tgkill, vec![where_(0, SeccompCmpOp::Eq, own_id())?]);
    let refusal = refused(libc::EACCES);
    Ok([compiled(rules(softly), Allow, refusal)?, compiled(allowed, KillProcess, Allow)?])
}

fn of_unpackers() -> Result<[BpfProgram; 2], String> {
    let calls = OF_ALL.into_iter().chain(OF_UNPACKERS).chain(OLD_OF_UNPACKERS);
    let mut allowed = rules(calls.chain([libc::SYS_clone3]));
    allowed.insert(libc::SYS_clone, vec![where_(0, masked(libc::CLONE_THREAD), THREAD)?]);
    allowed.insert(libc::SYS_tgkill, vec![where_(0, SeccompCmpOp::Eq, own_id())?]);
    let settings = [libc::PR_SET_NAME, libc::PR_GET_NAME, libc::PR_SET_NO_NEW_PRIVS];
    let of_setting = |setting: i32| where_(0, SeccompCmpOp::Eq, u64::from(setting.unsigned_abs()));
    allowed.insert(libc::SYS_prctl, settings.into_iter().map(of_setting).collect::<Result<_, _>>()?);
    Ok([without_clone3()?, compiled(allowed, refused(libc::EPERM), Allow)?])
}

fn of_lookers() -> Result<[BpfProgram; 2], String> {
    let calls = || REFUSED_TO_LOOKERS.into_iter().chain(OLD_REFUSED_TO_LOOKERS);
    let starting = [libc::SYS_clone, libc::SYS_clone3];
    let mut listed = rules(calls().chain(by_other_numbers(calls().chain(starting))));
    listed.insert(libc::SYS_clone, vec![where_(0, masked(libc::CLONE_THREAD), 0)?]);
    Ok([without_clone3()?, compiled(listed, Allow, refused(libc::EPERM))?])
}

/// Its flags lie in memory, where no filter sees them: as on an older kernel, `clone` is used instead.
fn without_clone3() -> Result<BpfProgram, String> {
    compiled(rules([libc::SYS_clone3]), Allow, refused(libc::ENOSYS))
}

fn refused(error: i32) -> SeccompAction {
    SeccompAction::Errno(error.unsigned_abs())
}

const THREAD: u64 = libc::CLONE_THREAD as u64;

fn masked(bits: i32) -> SeccompCmpOp {
    SeccompCmpOp::MaskedEq(u64::from(bits.unsigned_abs()))
}

/// A process may end itself by a signal, as `abort` does, and no other. Executing a program leaves it its
/// number.
fn own_id() -> u64 {
    u64::from(std::process::id())
}

fn rules(calls: impl IntoIterator<Item = i64>) -> Rules {
    calls.into_iter().map(|call| (call, Vec::new())).collect()
}

fn where_(argument: u8, is: SeccompCmpOp, value: u64) -> Result<SeccompRule, String> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, is, value);
    let rule = condition.and_then(|condition| SeccompRule::new(vec![condition]));
    rule.map_err(|error| format!("cannot write a filter of system calls: {error}"))
}

fn compiled(rules: Rules, mismatch: SeccompAction, matched: SeccompAction) -> Result<BpfProgram, String> {
    let arch = std::env::consts::ARCH;
    let target =
        TargetArch::try_from(arch).map_err(|_| format!("there is no filter of system calls for {arch}"))?;
    let filter = SeccompFilter::new(rules, mismatch, matched, target);
    let program = filter.and_then(BpfProgram::try_from);
    program.map_err(|error| format!("cannot write a filter of system calls: {error}"))
}
