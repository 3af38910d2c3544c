//! What threads spent their time on: on a CPU, ready for one, and waiting, by what a wait was for.

use crate::time::Nanos;

/// What a wait was for, by what ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// A request or bio completed just before, in the same context.
    Io,
    /// The thread had begun to wait for a lock of the kernel.
    Lock,
    /// A timer expired just before, in the same context.
    Timer,
    /// Another thread woke it: a lock or queue of the program's, a pipe, a worker.
    Thread,
    /// An interrupt woke it, and neither a completion nor a timer was seen in that.
    Interrupt,
    /// Nobody was seen to wake it.
    Unknown,
}

impl Wait {
    /// All of them.
    pub const ALL: [Wait; 6] =
        [Wait::Io, Wait::Lock, Wait::Timer, Wait::Thread, Wait::Interrupt, Wait::Unknown];

    /// As it is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Wait::Io => "io",
            Wait::Lock => "lock",
            Wait::Timer => "timer",
            Wait::Thread => "thread",
            Wait::Interrupt => "interrupt",
            Wait::Unknown => "unknown",
        }
    }

    /// The wait of such a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|wait| wait.name() == name)
    }
}

/// Where the time of a thread went, or of several together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// On a CPU.
    pub cpu_ns: u64,
    /// It could run, and did not.
    pub ready_ns: u64,
    /// Blocked, in the order of [`Wait::ALL`].
    pub wait_ns: [u64; Wait::ALL.len()],
    /// How often it was given a CPU.
    pub switches: u64,
}

impl Spent {
    /// How long it waited for this.
    pub fn waited(&self, wait: Wait) -> Nanos {
        Nanos::new(self.wait_ns[wait as usize])
    }

    /// All of its time, as far as it is known.
    pub fn all(&self) -> Nanos {
        let parts = [self.cpu_ns, self.ready_ns].into_iter().chain(self.wait_ns);
        Nanos::new(parts.fold(0, u64::saturating_add))
    }

    /// Adds the time of another.
    pub fn add(&mut self, other: &Self) {
        self.cpu_ns = self.cpu_ns.saturating_add(other.cpu_ns);
        self.ready_ns = self.ready_ns.saturating_add(other.ready_ns);
        self.switches = self.switches.saturating_add(other.switches);
        for (sum, more) in self.wait_ns.iter_mut().zip(other.wait_ns) {
            *sum = sum.saturating_add(more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_stands_where_its_number_says() {
        for (place, wait) in Wait::ALL.into_iter().enumerate() {
            let mut spent = Spent::default();
            spent.wait_ns[place] = 7;
            assert_eq!((spent.waited(wait), spent.all()), (Nanos::new(7), Nanos::new(7)));
            assert_eq!(Wait::from_name(wait.name()), Some(wait));
        }
    }
}
