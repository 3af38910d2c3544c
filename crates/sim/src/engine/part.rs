//! What a part of a machine is.

use super::{Bio, BioId, Core};

/// A part of a machine. Every method has a default that is a mistake of ours: a part implements those that it
/// causes.
pub trait Part {
    /// A request has come.
    fn submit(&mut self, core: &mut Core, bio: BioId) {
        unreachable!("{:?} was submitted to a part that takes none", core.bios[bio.0]);
    }

    /// A request that this part owns is done. It is gone after this call.
    fn done(&mut self, core: &mut Core, bio: &Bio) {
        let _ = core;
        unreachable!("{bio:?} is done, and its owner wants none");
    }

    /// A thread has executed what this part asked for.
    fn worked(&mut self, core: &mut Core, token: u64) {
        let _ = core;
        unreachable!("work {token} was done that nobody asked for");
    }

    /// It is the time that this part asked for.
    fn timer(&mut self, core: &mut Core, token: u64) {
        let _ = core;
        unreachable!("a timer {token} that nobody set");
    }

    /// A plug under which this part was submitted to has been let go.
    fn unplug(&mut self, core: &mut Core) {
        let _ = core;
    }

    /// How large it is, in bytes; 0 for what has no size.
    fn size(&self) -> u64 {
        0
    }

    /// Which of the machine's devices it is, where it is one.
    fn device(&self) -> Option<usize> {
        None
    }

    /// Gauges and counters of this part for the trace, by name; called at the beginning and at each sample,
    /// with the same names in the same order. Those of a device get its name before them.
    fn counters(&self, out: &mut dyn FnMut(&str, u64)) {
        let _ = out;
    }
}
