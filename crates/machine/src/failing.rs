//! A machine that dies at its n-th operation, to show that it does not matter where.

use crate::{CommandOutput, Held, Machine};
use domain::Timestamp;
use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Which operations count towards the death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Reads, lists and links.
    Reads,
    /// Writes and commands.
    Writes,
    /// All of them.
    All,
}

/// Whether the operation of the death takes place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// It does not.
    Before,
    /// It does, and nobody learns that it did.
    After,
}

/// What the caller sees of the death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// This and every later operation is an error, so that the caller's own handling of errors runs.
    Error,
    /// Unwinding with [`Dead`], as if the process had been killed there; catch it with `catch_unwind`.
    Unwind,
}

/// What a machine unwinds with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dead;

/// When and how a machine dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    /// How many counted operations succeed before.
    pub after: u64,
    /// Which operations count.
    pub counted: Counted,
    /// Whether the next one still takes place.
    pub moment: Moment,
    /// What the caller sees.
    pub manner: Manner,
}

/// A machine around another one that dies as it is told.
#[derive(Debug)]
pub struct FailingMachine<M> {
    inner: M,
    death: Death,
    seen: Cell<u64>,
}

impl<M> FailingMachine<M> {
    /// A machine that is alive until `death`.
    pub const fn new(inner: M, death: Death) -> Self {
        Self { inner, death, seen: Cell::new(0) }
    }

    /// Whether it has died.
    pub fn is_dead(&self) -> bool {
        self.seen.get() > self.death.after
    }

    fn operation<T>(&self, kind: Counted, act: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        if self.is_dead() {
            return self.die();
        }
        if self.death.counted == Counted::All || self.death.counted == kind {
            self.seen.set(self.seen.get() + 1);
        }
        if !self.is_dead() {
            return act();
        }
        if self.death.moment == Moment::After {
            // Its result is what nobody learns.
            let _ = act();
        }
        self.die()
    }

    fn die<T>(&self) -> io::Result<T> {
        match self.death.manner {
            Manner::Error => Err(io::Error::other("the machine is dead")),
            // Not `panic!`: the hook would print a message for each of thousands of planned deaths.
            Manner::Unwind => std::panic::resume_unwind(Box::new(Dead)),
        }
    }
}

impl<M: Machine> Machine for FailingMachine<M> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.operation(Counted::Reads, || self.inner.read(path))
    }

    fn write(&self, path: &Path, value: &[u8]) -> io::Result<()> {
        self.operation(Counted::Writes, || self.inner.write(path, value))
    }

    fn hold(&self, path: &Path, value: &[u8]) -> io::Result<Held> {
        self.operation(Counted::Writes, || self.inner.hold(path, value))
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.operation(Counted::Reads, || self.inner.list(folder))
    }

    fn link(&self, path: &Path) -> io::Result<PathBuf> {
        self.operation(Counted::Reads, || self.inner.link(path))
    }

    fn run(&self, argv: &[&str], limit: Duration) -> io::Result<CommandOutput> {
        self.operation(Counted::Writes, || self.inner.run(argv, limit))
    }

    fn now(&self) -> Timestamp {
        self.inner.now()
    }
}
