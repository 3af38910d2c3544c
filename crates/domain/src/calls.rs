//! System calls that read, write and sync, as events show: how long each took and what its thread did
//! meanwhile, and which bios filesystems made of them.
//!
//! The call is the layer above all devices, whatever filesystem is below. What a descriptor stands for is in
//! no event: `read` and `write` are those of pipes and sockets too, and `pread64` and its kin of files alone.

use crate::passage::Bios;
use crate::request::Op;
use crate::spent::{Spent, Wait};
use crate::time::Nanos;
use crate::took::Took;
use crate::trace::Role;
use crate::units::Bytes;
use std::collections::BTreeMap;

macro_rules! calls {
    ($($(#[$doc:meta])* $call:ident $name:literal,)+) => {
        /// A system call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Call {
            $($(#[$doc])* $call,)+
        }

        impl Call {
            /// All of them.
            pub const ALL: &'static [Call] = &[$(Call::$call),+];

            /// The begin and the end of each, as `group/name` of their tracepoints.
            pub const TRACEPOINTS: &'static [&'static str] = &[
                $(concat!("syscalls/sys_enter_", $name), concat!("syscalls/sys_exit_", $name)),+
            ];

            /// As the kernel calls it (`kernel/trace/trace_syscalls.c`), and as it is stored and shown.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Call::$call => $name,)+
                }
            }
        }
    };
}

calls! {
    /// read(2).
    Read "read",
    /// pread(2).
    Pread "pread64",
    /// readv(2).
    Readv "readv",
    /// preadv(2).
    Preadv "preadv",
    /// preadv2(2).
    Preadv2 "preadv2",
    /// write(2).
    Write "write",
    /// pwrite(2).
    Pwrite "pwrite64",
    /// writev(2).
    Writev "writev",
    /// pwritev(2).
    Pwritev "pwritev",
    /// pwritev2(2).
    Pwritev2 "pwritev2",
    /// fsync(2).
    Fsync "fsync",
    /// fdatasync(2).
    Fdatasync "fdatasync",
    /// sync_file_range(2).
    SyncFileRange "sync_file_range",
    /// syncfs(2).
    Syncfs "syncfs",
    /// sync(2).
    Sync "sync",
    /// msync(2).
    Msync "msync",
    /// io_submit(2): it returns before what it submits has ended.
    IoSubmit "io_submit",
    /// io_getevents(2): it waits for what was submitted.
    IoGetevents "io_getevents",
    /// io_pgetevents(2).
    IoPgetevents "io_pgetevents",
    /// io_uring_enter(2): it submits, or waits, or both.
    IoUringEnter "io_uring_enter",
}

impl Call {
    /// The call of such a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|call| call.name() == name)
    }

    /// Of one that returns how many bytes it moved, in which direction.
    pub const fn moves(self) -> Option<Op> {
        match self {
            Call::Read | Call::Pread | Call::Readv | Call::Preadv | Call::Preadv2 => Some(Op::Read),
            Call::Write | Call::Pwrite | Call::Writev | Call::Pwritev | Call::Pwritev2 => Some(Op::Write),
            _ => None,
        }
    }
}

/// The calls of one kind by threads of one role.
///
/// A call is followed where its begin and end were seen and no loss between them. The time of those followed
/// is that of `spent`, to the nanosecond.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Called {
    /// How many returned.
    pub count: u64,
    /// How many of them returned an error.
    pub failed: u64,
    /// How many bytes they moved, by what they returned.
    pub bytes: Bytes,
    /// How long those followed took.
    pub took: Took,
    /// What the thread did meanwhile.
    pub spent: Spent,
    /// Of its waits for a thread: whose thread woke it.
    pub woken_by: BTreeMap<Role, Nanos>,
    /// Of those followed, those whose thread queued bios meanwhile.
    pub with_bios: WithBios,
}

/// Calls whose own thread queued bios: what other threads queue for them, as the journal's does, is a wait
/// for these threads.
///
/// One is followed where the end of each of its bios was seen, or its own before that. Its time is `before`,
/// `below`, `between` and `after`, to the nanosecond.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WithBios {
    /// How many.
    pub count: u64,
    /// Their bios, those that ask for a flush alone included.
    pub bios: Bios,
    /// How many of them were followed.
    pub followed: u64,
    /// Of those followed, from the begin to the first bio: what the filesystem and the page cache do first.
    pub before: Nanos,
    /// Of those followed, while any of their bios was on its way.
    pub below: Nanos,
    /// Of those followed, from the end of one bio to the next.
    pub between: Nanos,
    /// Of those followed, from the end of the last to the call's.
    pub after: Nanos,
}

impl WithBios {
    /// Adds those of another time.
    pub fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.bios.add(other.bios);
        self.followed = self.followed.saturating_add(other.followed);
        for (own, other) in self.times_mut().into_iter().zip(other.times()) {
            *own = own.saturating_add(other);
        }
    }

    /// Before, below, between and after: sums over those followed.
    pub const fn times(&self) -> [Nanos; 4] {
        [self.before, self.below, self.between, self.after]
    }

    /// The same, to be changed.
    pub const fn times_mut(&mut self) -> [&mut Nanos; 4] {
        [&mut self.before, &mut self.below, &mut self.between, &mut self.after]
    }

    /// The mean of each of [`Self::times`]; `None` where none was followed.
    pub fn means(&self) -> Option<[Nanos; 4]> {
        (self.followed > 0).then(|| self.times().map(|sum| Nanos::new(sum.get() / self.followed)))
    }

    /// The share that was followed; `None` of none.
    pub fn share_followed(&self) -> Option<f64> {
        (self.count > 0).then(|| self.followed as f64 / self.count as f64)
    }
}

impl Called {
    /// Adds those of another time.
    pub fn add(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.failed = self.failed.saturating_add(other.failed);
        self.bytes = Bytes::new(self.bytes.get().saturating_add(other.bytes.get()));
        self.took.merge(&other.took);
        self.spent.add(&other.spent);
        for (role, time) in &other.woken_by {
            let own = self.woken_by.entry(*role).or_default();
            *own = own.saturating_add(*time);
        }
        self.with_bios.add(&other.with_bios);
    }

    /// What the threads of those followed did in them; `None` where nobody saw who ran (without switches): no
    /// call returns without a moment on a CPU.
    pub fn parts(&self) -> Option<&Spent> {
        (self.spent.cpu_ns > 0).then_some(&self.spent)
    }

    /// How long they waited for a thread of this role.
    pub fn waited_for(&self, role: Role) -> Nanos {
        self.woken_by.get(&role).copied().unwrap_or_default()
    }

    /// The mean of a sum over those followed; `None` of none.
    pub fn mean(&self, sum: Nanos) -> Option<Nanos> {
        sum.get().checked_div(self.took.count).map(Nanos::new)
    }

    /// The share of those followed that queued no bio: the page cache served them, or another thread; `None`
    /// of none.
    pub fn share_without_bios(&self) -> Option<f64> {
        let without = self.took.count.saturating_sub(self.with_bios.count);
        (self.took.count > 0).then(|| without as f64 / self.took.count as f64)
    }

    /// What is in no column of its own where journal and devices have one: sums of all waits but `io` and
    /// those that the journal ended.
    pub fn waited_otherwise(&self) -> Nanos {
        let spent = self.spent;
        let all = Wait::ALL.into_iter().filter(|wait| *wait != Wait::Io).map(|wait| spent.waited(wait));
        let all = all.fold(Nanos::ZERO, Nanos::saturating_add);
        all.saturating_sub(self.waited_for(Role::Journal))
    }
}

/// Bios by the device that they were queued to, the role of the thread that did, and what they do.
pub type Queued = BTreeMap<(String, Role, Op), Bios>;

/// System calls, and the bios that filesystems queued.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// By the role of the thread and the call.
    pub of: BTreeMap<(Role, Call), Called>,
    /// What was queued to devices and is not what a layer passed on (md, dm): reads and writes with data.
    /// `None` where bios were not recorded; then nothing is known of calls with bios either.
    pub queued: Option<Queued>,
}

impl Calls {
    /// Adds those of another time. What was queued is known where it is known of both.
    pub fn add(&mut self, other: &Self) {
        for (key, called) in &other.of {
            self.of.entry(*key).or_default().add(called);
        }
        let Some(others) = &other.queued else {
            self.queued = None;
            return;
        };
        for (key, bios) in others {
            if let Some(own) = &mut self.queued {
                own.entry(key.clone()).or_default().add(*bios);
            }
        }
    }

    /// Whose calls bios are held against: the workload's, and where there is none everybody's but Flyball's.
    pub fn askers(&self) -> impl Iterator<Item = (Role, Call, &Called)> {
        let has_workload = self.of.keys().any(|(role, _)| *role == Role::Workload);
        let asks =
            move |role: Role| if has_workload { role == Role::Workload } else { role != Role::Flyball };
        self.of.iter().filter(move |((role, _), _)| asks(*role)).map(|((role, call), of)| (*role, *call, of))
    }

    /// How many calls of these read or wrote ([`Self::askers`]), and how many bytes.
    pub fn asked(&self, op: Op) -> (u64, Bytes) {
        let moving = self.askers().filter(|(_, call, _)| call.moves() == Some(op));
        moving.fold((0, Bytes::new(0)), |(count, bytes), (_, _, of)| {
            (count.saturating_add(of.count), Bytes::new(bytes.get().saturating_add(of.bytes.get())))
        })
    }

    /// How many bytes of these bios there are for each byte that calls moved ([`Self::asked`]); `None` where
    /// they moved none.
    pub fn amplification(&self, op: Op, bios: Bios) -> Option<f64> {
        let (_, asked) = self.asked(op);
        (asked.get() > 0).then(|| Bytes::from_sectors(bios.sectors).get() as f64 / asked.get() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_a_name_of_its_own_and_two_tracepoints() {
        for call in Call::ALL {
            assert_eq!(Call::from_name(call.name()), Some(*call));
        }
        assert_eq!(Call::TRACEPOINTS.len(), 2 * Call::ALL.len());
        assert_eq!(Call::TRACEPOINTS[2..4], ["syscalls/sys_enter_pread64", "syscalls/sys_exit_pread64"]);
    }

    fn called(count: u64, bytes: u64) -> Called {
        Called { count, bytes: Bytes::new(bytes), ..Called::default() }
    }

    fn journalled() -> Calls {
        let queued = |role, sectors| (("sda".to_owned(), role, Op::Write), Bios { count: 1, sectors });
        Calls {
            of: [
                ((Role::Workload, Call::Pwrite), called(4, 4096)),
                ((Role::Workload, Call::Fsync), called(4, 0)),
                ((Role::Other, Call::Write), called(9, 9000)),
            ]
            .into(),
            queued: Some([queued(Role::Workload, 8), queued(Role::Journal, 24)].into()),
        }
    }

    #[test]
    fn bios_are_held_against_the_calls_of_the_workload_and_else_of_everybody() {
        let mut calls = journalled();
        assert_eq!(calls.asked(Op::Write), (4, Bytes::new(4096)));
        let of_the_journal = calls.queued.as_ref().unwrap()[&("sda".to_owned(), Role::Journal, Op::Write)];
        assert_eq!(calls.amplification(Op::Write, of_the_journal), Some(3.0));
        assert_eq!(calls.amplification(Op::Read, of_the_journal), None);
        calls.of.retain(|(role, _), _| *role != Role::Workload);
        calls.of.insert((Role::Flyball, Call::Write), called(1, 1));
        assert_eq!(calls.asked(Op::Write), (9, Bytes::new(9000)));
    }

    #[test]
    fn what_was_queued_is_known_of_two_trials_where_it_is_known_of_both() {
        let (mut both, mut unknown) = (journalled(), journalled());
        both.add(&journalled());
        assert_eq!(both.of[&(Role::Workload, Call::Pwrite)].count, 8);
        assert_eq!(both.queued.as_ref().unwrap().values().map(|bios| bios.sectors).sum::<u64>(), 64);
        unknown.queued = None;
        both.add(&unknown);
        assert_eq!(both.queued, None);
        unknown.add(&journalled());
        assert_eq!(unknown.queued, None);
    }

    #[test]
    fn waits_that_have_no_column_are_those_for_neither_a_device_nor_the_journal() {
        let mut of = called(2, 0);
        of.took.add(100);
        of.spent.wait_ns[Wait::Io as usize] = 40;
        of.spent.wait_ns[Wait::Thread as usize] = 30;
        of.spent.wait_ns[Wait::Lock as usize] = 5;
        of.woken_by = [(Role::Journal, Nanos::new(20)), (Role::Kworker, Nanos::new(10))].into();
        assert_eq!((of.waited_otherwise(), of.share_without_bios()), (Nanos::new(15), Some(1.0)));
    }
}
