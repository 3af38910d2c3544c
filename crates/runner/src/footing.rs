//! What workloads stand on: the study's own target, made once; or a stack of storage, which each cell may want another
//! one of, with the target on its top.

use crate::{Devices, Error, Target};
use domain::plan::Cell;
use domain::rng::Seed;
use domain::stack::Stack;
use domain::study;
use machine::Ledger;
use machine::stack::{Builder, Ground};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// What the workloads of a run stand on. What it makes is taken down by [`Ledger::finish`].
#[derive(Debug)]
pub struct Footing {
    target: Option<Target>,
    stacks: Option<Stacks>,
}

/// Stacks, built as cells want them.
#[derive(Debug)]
struct Stacks {
    builder: Builder,
    kind: study::Target,
    seed: Seed,
    /// The one that stands.
    standing: Option<Stack>,
}

impl Footing {
    /// Makes what is the same for all cells: the target of a study without stacks. `state` is where claims of disks are.
    ///
    /// # Errors
    /// Those of [`Target::make`]; [`Error::Stack`].
    pub fn make(
        ledger: &mut Ledger<'_>,
        work: &Path,
        study: &study::Study,
        devices: Devices,
        seed: Seed,
        state: &Path,
        interrupt: &AtomicBool,
    ) -> Result<Self, Error> {
        let kind = &study.target;
        if study.stack.is_none() {
            return Ok(Self::fixed(Target::make(ledger, work, kind, devices, seed, interrupt)?));
        }
        let ground = Ground {
            work: crate::target::own_folder(work)?,
            lab_disks: devices == Devices::OfTheGuest,
            state: state.to_owned(),
        };
        let stacks = Stacks { builder: Builder::new(ground)?, kind: kind.clone(), seed, standing: None };
        Ok(Self { target: None, stacks: Some(stacks) })
    }

    /// A target that is there already, or none.
    pub fn fixed(target: Option<Target>) -> Self {
        Self { target, stacks: None }
    }

    /// The target as it is now.
    pub fn target(&self) -> Option<&Target> {
        self.target.as_ref()
    }

    /// Sees to it that the target is the one that a cell wants. A stack is built anew only as far as it differs.
    ///
    /// # Errors
    /// [`Error::Stack`]; those of [`Target::on_stack`].
    pub(crate) fn ready(
        &mut self,
        ledger: &mut Ledger<'_>,
        cell: &Cell,
        interrupt: &AtomicBool,
    ) -> Result<Option<&Target>, Error> {
        let (Some(stacks), Some(stack)) = (&mut self.stacks, &cell.stack) else {
            return Ok(self.target.as_ref());
        };
        if stacks.standing.as_ref() != Some(stack) || self.target.is_none() {
            self.target = None;
            stacks.standing = None;
            let standing = stacks.builder.stand(ledger, stack, interrupt)?;
            let about = stack.to_string();
            self.target = Some(Target::on_stack(standing, about, &stacks.kind, stacks.seed, interrupt)?);
            stacks.standing = Some(stack.clone());
        }
        Ok(self.target.as_ref())
    }

    /// Whether the target is still the one that was made.
    ///
    /// # Errors
    /// [`Error::TargetChanged`].
    pub fn verify(&self) -> Result<(), Error> {
        self.target.as_ref().map_or(Ok(()), Target::verify)
    }
}
