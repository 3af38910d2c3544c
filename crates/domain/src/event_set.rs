//! Which tracepoints are recorded: named sets of them.

use crate::calls::Call;
use std::fmt;
use std::str::FromStr;

/// A named set of tracepoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Set {
    /// Frequencies, idle states and decisions of intel_pstate.
    Power,
    /// Which thread runs, who wakes whom, threads that begin and end.
    Sched,
    /// Requests and bios of every block device.
    Block,
    /// What kworkers execute.
    Work,
    /// Timers that expire, by which waits for time are known.
    Timer,
    /// Locks of the kernel that are contended.
    Lock,
    /// Interrupts and softirqs.
    Irq,
    /// Interrupts of devices alone, which the profile's clock cannot see. All of it is in [`Set::Irq`].
    HardIrq,
    /// The bios that are given to devices: how these are used. All of it is in [`Set::Block`].
    Bios,
    /// System calls that read, write and sync.
    Calls,
    /// No tracepoints: the kernel's call stack of whoever runs, many times a second.
    Profile,
}

impl Set {
    /// All of them.
    pub const ALL: [Set; 11] = [
        Set::Power,
        Set::Sched,
        Set::Block,
        Set::Work,
        Set::Timer,
        Set::Lock,
        Set::Irq,
        Set::HardIrq,
        Set::Bios,
        Set::Calls,
        Set::Profile,
    ];

    /// As it is typed.
    pub const fn name(self) -> &'static str {
        match self {
            Set::Power => "power",
            Set::Sched => "sched",
            Set::Block => "block",
            Set::Work => "work",
            Set::Timer => "timer",
            Set::Lock => "lock",
            Set::Irq => "irq",
            Set::HardIrq => "hardirq",
            Set::Bios => "bios",
            Set::Calls => "calls",
            Set::Profile => "profile",
        }
    }

    /// Its tracepoints, as `group/name`.
    pub const fn tracepoints(self) -> &'static [&'static str] {
        match self {
            Set::Power => &["power/cpu_frequency", "power/cpu_idle", "power/pstate_sample"],
            Set::Sched => &[
                "sched/sched_switch",
                "sched/sched_waking",
                "sched/sched_process_fork",
                "sched/sched_process_exit",
            ],
            Set::Block => &[
                "block/block_bio_queue",
                "block/block_bio_remap",
                "block/block_bio_complete",
                "block/block_rq_issue",
                "block/block_rq_complete",
            ],
            Set::Work => &["workqueue/workqueue_execute_start", "workqueue/workqueue_execute_end"],
            Set::Timer => &["timer/hrtimer_expire_entry", "timer/timer_expire_entry"],
            Set::Lock => &["lock/contention_begin", "lock/contention_end"],
            Set::Irq => {
                &["irq/irq_handler_entry", "irq/irq_handler_exit", "irq/softirq_entry", "irq/softirq_exit"]
            }
            Set::HardIrq => &["irq/irq_handler_entry", "irq/irq_handler_exit"],
            Set::Bios => &["block/block_bio_queue"],
            Set::Calls => Call::TRACEPOINTS,
            Set::Profile => &[],
        }
    }
}

/// The sets that are recorded, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sets(Vec<Set>);

impl Sets {
    /// The sets of `--events` without a value: all but softirqs, which are many, name no wait that the others
    /// do not, and are seen by the profile; and but system calls, for with any of their tracepoints each call
    /// of every thread enters and leaves the kernel by the slow way (`SYSCALL_WORK_SYSCALL_TRACEPOINT`,
    /// include/linux/thread_info.h).
    pub fn usual() -> Self {
        Self(Set::ALL.into_iter().filter(|set| !matches!(set, Set::Irq | Set::Calls)).collect())
    }

    /// What every recording has, of which the sums are kept alone: how devices are used, and the profile.
    pub fn in_passing() -> Self {
        Self(vec![Set::Bios, Set::Profile])
    }

    /// Whether it is one of them.
    pub fn contains(&self, set: Set) -> bool {
        self.0.contains(&set)
    }

    /// The tracepoints of all of them, each once.
    pub fn tracepoints(&self) -> impl Iterator<Item = &'static str> + '_ {
        let (has_bios, has_handlers) = (self.contains(Set::Block), self.contains(Set::Irq));
        let is_within = move |set: Set| match set {
            Set::Bios => has_bios,
            Set::HardIrq => has_handlers,
            _ => false,
        };
        let sets = self.0.iter().filter(move |set| !is_within(**set));
        sets.flat_map(|set| set.tracepoints().iter().copied())
    }
}

impl FromStr for Sets {
    type Err = String;

    /// `default`, `all`, or names with commas between.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut sets = Vec::new();
        for name in text.split(',') {
            match name {
                "default" => sets.extend(Self::usual().0),
                "all" => sets.extend(Set::ALL),
                _ => sets.push(Set::ALL.into_iter().find(|set| set.name() == name).ok_or_else(|| {
                    let names: Vec<&str> = Set::ALL.iter().map(|set| set.name()).collect();
                    format!(
                        "there is no set of events `{name}`; there are default, all, {}",
                        names.join(", ")
                    )
                })?),
            }
        }
        sets.sort_unstable();
        sets.dedup();
        Ok(Self(sets))
    }
}

impl fmt::Display for Sets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|set| set.name()).collect();
        f.write_str(&names.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn sets_are_named_with_commas_and_each_is_there_once() {
        let sets: Sets = "block,power,block".parse().unwrap();
        assert_eq!(sets.to_string(), "power,block");
        assert_eq!("default".parse::<Sets>().unwrap(), Sets::usual());
        assert_eq!("all".parse::<Sets>().unwrap().0, Set::ALL);
        let error = "tea".parse::<Sets>().unwrap_err();
        assert!(error.contains("`tea`") && error.contains("power, sched"), "{error}");
    }

    #[test]
    fn each_tracepoint_is_there_once() {
        for sets in [Sets(Set::ALL.to_vec()), Sets::usual(), Sets::in_passing()] {
            let all: Vec<&str> = sets.tracepoints().collect();
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{sets}");
        }
    }

    #[test]
    fn interrupts_of_devices_are_among_what_is_usual_and_softirqs_are_not() {
        let usual: Vec<&str> = Sets::usual().tracepoints().collect();
        assert!(usual.contains(&"irq/irq_handler_entry") && usual.contains(&"irq/irq_handler_exit"));
        assert!(!usual.iter().any(|name| name.contains("softirq")), "{usual:?}");
        assert!(Sets::in_passing().tracepoints().all(|name| !name.starts_with("irq/")));
    }

    #[test]
    fn system_calls_are_recorded_where_they_are_asked_for_and_nowhere_else() {
        let has_calls = |sets: &Sets| sets.tracepoints().any(|name| name.starts_with("syscalls/"));
        assert!(!has_calls(&Sets::usual()) && !has_calls(&Sets::in_passing()));
        for asked in ["default,calls", "all"] {
            assert!(has_calls(&asked.parse().unwrap()), "{asked}");
        }
    }
}
