//! Walls around a process that reads what strangers wrote: what it cannot do, no fault in a reader can make
//! it do.
//!
//! A process raises them around itself, once, before it reads its first byte, and never comes out again. Each
//! wall stands alone: a kernel that lacks one leaves the others. There are three kinds of confined process. A
//! [`reader`] has the descriptors that it was given and nothing else. An [`unpacker`] becomes another
//! program, which has to be loaded: it may read and execute the system's programs and libraries, and write to
//! the pipe that it was given. A [`looker`] stays who it is: it reads a folder that somebody else may have
//! filled, and writes what it makes of it. Beside them stands [`Reading`], which a parent raises around a
//! program that it starts: that reads what it may, and writes its report alone.
//!
//! Not a goal: hiding what any process may see without a file, such as the time or the CPU's model.
//! Sources: capabilities(7), credentials(7), landlock(7), seccomp(2), getrlimit(2), `PR_SET_*` in prctl(2).

mod calls;
mod files;
mod limits;
mod privileges;
mod reading;

pub use calls::Calls;
pub use limits::Limits;
pub use reading::Reading;

use rustix::process::{DumpableBehavior, Signal, set_dumpable_behavior, set_parent_process_death_signal};
use std::os::fd::BorrowedFd;
use std::path::Path;

/// One wall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wall {
    /// Nobody's user and group, no capability, and none to be had by executing a program.
    Privileges,
    /// Bounds on memory, CPU time, descriptors and processes; no file can be written to.
    Limits,
    /// Landlock: no path can be opened, nothing connected to, no process outside signalled.
    Files,
    /// Seccomp: no system call but those that are needed.
    Calls,
}

impl Wall {
    /// All of them, in the order in which they are raised: each needs what the next forbids.
    pub const ALL: [Self; 4] = [Self::Privileges, Self::Limits, Self::Files, Self::Calls];
}

/// A wall that does not stand whole, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Which.
    pub wall: Wall,
    /// What is missing, and what the system says to it.
    pub why: String,
}

/// Confines this process to its standard descriptors, and to those that come to it later over one of them. It
/// may not have started a thread: most walls are a thread's. Returns what could not be raised here.
pub fn reader(limits: &Limits) -> Vec<Gap> {
    let alone = alone();
    close_all_but_standard_descriptors();
    let walls = [
        (Wall::Privileges, drop_privileges()),
        (Wall::Limits, raise_limits(&Limits { processes: Some(0), ..limits.clone() })),
        (Wall::Files, close_files()),
        (Wall::Calls, allow_calls(Calls::Reader).and(alone)),
    ];
    gaps(walls)
}

/// Confines this process, which will execute `program` next, with the file on its standard input. It may not
/// have started a thread. Returns what could not be raised here.
pub fn unpacker(program: &Path, limits: &Limits) -> Vec<Gap> {
    let alone = alone();
    close_all_but_standard_descriptors();
    let walls = [
        (Wall::Privileges, drop_privileges()),
        (Wall::Limits, raise_limits(limits)),
        (Wall::Files, files::close_but_for(program)),
        (Wall::Calls, allow_calls(Calls::Unpacker).and(alone)),
    ];
    gaps(walls)
}

/// Confines this process to these folders and files, and keeps its user: a notebook may be root's alone. It
/// starts no program and no process, talks to nobody, changes no owner and no mode, and has no capability but
/// those that open files. It may not have started a thread. Returns what could not be raised here.
pub fn looker(paths: &[&Path]) -> Vec<Gap> {
    let alone = alone();
    let walls = [
        (Wall::Privileges, privileges::keep_to_files()),
        // It is the caller's own command, with the caller's own limits.
        (Wall::Limits, Ok(())),
        (Wall::Files, files::close_but_for_paths(paths)),
        (Wall::Calls, allow_calls(Calls::Looker).and(alone)),
    ];
    gaps(walls)
}

/// Raises [`Wall::Privileges`] around this thread. Where it is root it becomes nobody.
///
/// # Errors
/// What could not be given up.
pub fn drop_privileges() -> Result<(), String> {
    privileges::drop_all()?;
    // After the change of the user, which takes both back.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| format!("cannot ask to die with the parent: {error}"))?;
    // Other processes of nobody may not look into it.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| format!("cannot close its memory to others: {error}"))
}

/// Raises [`Wall::Limits`] around this process.
///
/// # Errors
/// Which limit could not be set.
pub fn raise_limits(limits: &Limits) -> Result<(), String> {
    limits.raise()
}

/// Raises [`Wall::Files`] around this thread, without any exception.
///
/// # Errors
/// Where the kernel has no Landlock, or one that knows less than this program.
pub fn close_files() -> Result<(), String> {
    files::close()
}

/// Raises [`Wall::Calls`] around this thread.
///
/// # Errors
/// Where the kernel has no seccomp filters, or this program knows none for the architecture.
pub fn allow_calls(calls: Calls) -> Result<(), String> {
    calls.allow()
}

fn gaps(walls: [(Wall, Result<(), String>); 4]) -> Vec<Gap> {
    walls.into_iter().filter_map(|(wall, raised)| Some(Gap { wall, why: raised.err()? })).collect()
}

/// Most walls are a thread's. An emulator of another processor (qemu-user) has a thread of its own, which
/// stays outside.
fn alone() -> Result<(), String> {
    // Without /proc nobody can say; the callers start none.
    let threads = std::fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads == 1 { Ok(()) } else { Err(format!("of {threads} threads this one alone is confined")) }
}

/// What a parent has forgotten to close would be a way out.
fn close_all_but_standard_descriptors() {
    let first = 3_u32;
    // SAFETY: no descriptor above is used by anything any more; a kernel before 5.9 answers ENOSYS, which the
    // loop makes up for.
    if unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) } == 0 {
        return;
    }
    let names = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<i32> = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor >= 3) {
        // SAFETY: as above; the one that listed the others is closed already, which is an error and no harm.
        let _ = unsafe { libc::close(descriptor) };
    }
}

/// Standard input, whatever it is.
fn standard_input() -> BorrowedFd<'static> {
    rustix::stdio::stdin()
}
