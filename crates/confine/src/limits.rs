//! How much a process may use.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Bounds. A file can never grow by a confined process, and it leaves no core.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of address space.
    pub memory: u64,
    /// Seconds of CPU time.
    pub cpu_s: u64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Processes and threads of its user, itself not counted; `None` where that is not for this process to
    /// say.
    pub processes: Option<u64>,
}

/// How long a process has to end after [`Limits::cpu_s`], before it is killed without its doing.
const GRACE_S: u64 = 5;

impl Limits {
    pub(crate) fn raise(&self) -> Result<(), String> {
        let both = |value| (value, value);
        let all = [
            ("memory", Resource::As, Some(both(self.memory))),
            ("CPU time", Resource::Cpu, Some((self.cpu_s, self.cpu_s + GRACE_S))),
            ("descriptors", Resource::Nofile, Some(both(self.descriptors))),
            ("processes", Resource::Nproc, self.processes.map(both)),
            ("the size of files", Resource::Fsize, Some(both(0))),
            ("cores", Resource::Core, Some(both(0))),
            ("locked memory", Resource::Memlock, Some(both(0))),
            ("message queues", Resource::Msgqueue, Some(both(0))),
        ];
        for (what, resource, limit) in all {
            let Some((soft, hard)) = limit else { continue };
            // One that somebody has set lower stays.
            let lower = |value: u64, present: Option<u64>| Some(present.map_or(value, |p| p.min(value)));
            let present = getrlimit(resource);
            let limit = Rlimit {
                current: lower(soft, present.current.or(present.maximum)),
                maximum: lower(hard, present.maximum),
            };
            setrlimit(resource, limit).map_err(|error| format!("cannot bound {what}: {error}"))?;
        }
        Ok(())
    }
}
