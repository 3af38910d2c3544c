//! What workloads stand on: the study's own target, made once; or a stack of storage, which each cell may
//! want another one of, with the target on its top.

use crate::{Devices, Error, Target};
use domain::database::Kind;
use domain::plan::Cell;
use domain::rng::Seed;
use domain::stack::Stack;
use domain::study;
use machine::Ledger;
use machine::stack::{BuildContext, Builder};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// What the workloads of a run stand on. What it makes is taken down by [`Ledger::finish`].
#[derive(Debug)]
pub struct StorageSetup {
    target: Option<Target>,
    stacks: Option<Stacks>,
    /// The server that workloads ask, where it is there already.
    server: Option<study::ExistingServer>,
    /// Where files of workloads' own are made, where no stack says it; not made yet.
    work: Option<PathBuf>,
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

impl Stacks {
    /// Whether what stands is this stack, as it is wanted.
    fn stands(&self, stack: &Stack) -> bool {
        self.standing.as_ref() == Some(stack) && !stack.resyncs_in_background()
    }
}

impl StorageSetup {
    /// Makes what is the same for all cells: the target of a study without stacks. `state` is where claims of
    /// disks are.
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
            let target = Target::make(ledger, work, kind, devices, seed, interrupt)?;
            let server = match kind {
                study::Target::Server(server) => Some(server.clone()),
                _ => None,
            };
            return Ok(Self { target, stacks: None, server, work: Some(work.to_owned()) });
        }
        let context = BuildContext {
            work: crate::target::own_folder(work)?,
            lab_disks: devices == Devices::OfTheGuest,
            state: state.to_owned(),
        };
        let stacks = Stacks { builder: Builder::new(context)?, kind: kind.clone(), seed, standing: None };
        Ok(Self { target: None, stacks: Some(stacks), server: None, work: None })
    }

    /// A target that is there already, or none.
    pub fn fixed(target: Option<Target>) -> Self {
        Self { target, stacks: None, server: None, work: None }
    }

    /// The target as it is now.
    pub fn target(&self) -> Option<&Target> {
        self.target.as_ref()
    }

    /// Sees to it that the target is the one that a cell wants. A stack is built anew only as far as it
    /// differs.
    ///
    /// # Errors
    /// [`Error::Stack`], [`Error::Database`]; those of [`Target::on_stack`].
    pub(crate) fn ready(
        &mut self,
        ledger: &mut Ledger<'_>,
        cell: &Cell,
        interrupt: &AtomicBool,
    ) -> Result<Option<&Target>, Error> {
        if let (Some(server), None) = (&self.server, &self.target) {
            self.target = asked(cell).map(|kind| Target::in_server(kind, server)).transpose()?;
        }
        let (Some(stacks), Some(stack)) = (&mut self.stacks, &cell.stack) else {
            return Ok(self.target.as_ref());
        };
        if !stacks.stands(stack) || self.target.is_none() {
            self.target = None;
            stacks.standing = None;
            let standing = stacks.builder.stand(ledger, stack, interrupt)?;
            let about = stack.to_string();
            self.target = Some(Target::on_stack(standing, about, &stacks.kind, stacks.seed, interrupt)?);
            stacks.standing = Some(stack.clone());
        }
        Ok(self.target.as_ref())
    }

    /// Whether what stands is what a cell wants.
    pub(crate) fn stands_for(&self, cell: &Cell) -> bool {
        match (&self.stacks, &cell.stack) {
            (Some(stacks), Some(stack)) => stacks.stands(stack) && self.target.is_some(),
            _ => true,
        }
    }

    /// A folder on what stands, that only this user can write to, for files of a workload's own: that of the
    /// target's file, or the work folder, which is made. `None` where there is only a block device.
    ///
    /// # Errors
    /// [`Error::OpenFolder`], [`Error::File`].
    pub(crate) fn folder(&self) -> Result<Option<PathBuf>, Error> {
        match (&self.target, &self.work) {
            (Some(target), _) if target.server().is_none() => Ok(target.folder().map(Path::to_owned)),
            (_, Some(work)) => crate::target::own_folder(work).map(Some),
            (_, None) => Ok(None),
        }
    }

    /// Whether the target is still the one that was made.
    ///
    /// # Errors
    /// [`Error::TargetChanged`].
    pub fn verify(&self) -> Result<(), Error> {
        self.target.as_ref().map_or(Ok(()), Target::verify)
    }
}

/// The kind of server that a cell's workload asks.
fn asked(cell: &Cell) -> Option<Kind> {
    let workload = &cell.workload;
    Some(workloads::of(&workload.tool).server(&workload.options)?.ok()?.server.kind)
}
