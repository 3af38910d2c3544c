//! The disks of one group: their data, their model, and the requests that the model has. It knows no
//! transport.
//!
//! A request's data is read or stored when it arrives ([`Drives::perform`]), the model then says when it is
//! done ([`Drives::submit`], [`Drives::advance`]), and whoever brought it answers. What an answer promises is
//! kept at that moment and not before: until then power may fail.

use super::clock::{self, Scale};
use super::store::{Promise, Store};
use super::{Complaints, MAX_COMPLAINTS, lock};
use disks::{Completed, DiskSet, DiskSpec, Op, Request};
use domain::lab::DiskService;
use domain::time::Nanos;
use domain::units::Bytes;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};

/// The most bytes of one read or write.
pub(super) const MAX_BYTES: u32 = 32 << 20;

/// What is asked of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DiskRequest {
    pub(super) act: Act,
    /// A write is on the medium when it is answered.
    pub(super) fua: bool,
    /// In bytes; without meaning for a flush.
    pub(super) offset: u64,
    pub(super) len: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Read,
    Write,
    /// Writes zeros.
    Zero,
    Discard,
    Flush,
}

/// A request's data.
pub(super) enum Data<'a> {
    None,
    /// Where to read to, as long as the request is.
    To(&'a mut [u8]),
    /// What to write, as long as the request is.
    From(&'a [u8]),
}

/// Why a disk does not do what is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Nothing is asked for, or too much at once, or parts of blocks.
    Invalid,
    BeyondEnd,
    /// The host has no place for the data.
    NoSpace,
    Io,
}

/// What is asked of the data's place alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Geometry {
    /// In bytes.
    pub(super) size: u64,
    pub(super) logical_block: u32,
    pub(super) has_write_cache: bool,
}

impl Geometry {
    pub(super) fn new(spec: &DiskSpec) -> Self {
        Self {
            size: spec.capacity.get(),
            logical_block: spec.logical_block.get() as u32,
            has_write_cache: spec.has_write_cache(),
        }
    }

    /// Refuses what the disk has no such blocks for.
    fn check(&self, ask: &DiskRequest) -> Result<(), Refusal> {
        let block = u64::from(self.logical_block);
        let moves = matches!(ask.act, Act::Read | Act::Write);
        match ask.offset.checked_add(ask.len) {
            _ if ask.act == Act::Flush => Ok(()),
            _ if ask.len == 0 || (moves && ask.len > u64::from(MAX_BYTES)) => Err(Refusal::Invalid),
            Some(end) if end <= self.size => {
                let aligned = ask.offset.is_multiple_of(block) && ask.len.is_multiple_of(block);
                if aligned { Ok(()) } else { Err(Refusal::Invalid) }
            }
            _ => Err(Refusal::BeyondEnd),
        }
    }
}

/// A disk of a group, as the model side has it.
#[derive(Debug)]
pub(super) struct Drive {
    pub(super) name: String,
    pub(super) geometry: Geometry,
    pub(super) store: Store,
    pub(super) account: Arc<Mutex<DiskService>>,
}

/// A request that the model has.
#[derive(Debug)]
struct Pending<T> {
    ticket: T,
    promise: Promise,
}

/// A request that is done: its answer is due.
#[derive(Debug)]
pub(super) struct Due<T> {
    /// Which disk of the group.
    pub(super) drive: usize,
    /// What its bringer gave with it.
    pub(super) ticket: T,
    /// What went wrong at the last moment.
    pub(super) refusal: Option<Refusal>,
    deadline: Nanos,
}

/// The disks of a group.
#[derive(Debug)]
pub(super) struct Drives<T> {
    disks: DiskSet,
    drives: Vec<Drive>,
    scale: Scale,
    complaints: Complaints,
    /// By the request's number in the model.
    pending: Vec<Option<Pending<T>>>,
    free: Vec<usize>,
    done: Vec<Completed>,
}

impl<T> Drives<T> {
    /// Disks in the order in which the disks has them.
    pub(super) const fn new(
        disks: DiskSet,
        drives: Vec<Drive>,
        scale: Scale,
        complaints: Complaints,
    ) -> Self {
        Self { disks, drives, scale, complaints, pending: Vec::new(), free: Vec::new(), done: Vec::new() }
    }

    /// Does to the data what is asked; what the answer then promises.
    ///
    /// # Errors
    /// Where there are no such blocks, or no place for the data.
    pub(super) fn perform(
        &mut self,
        drive: usize,
        ask: &DiskRequest,
        data: Data<'_>,
    ) -> Result<Promise, Refusal> {
        let Drive { geometry, store, .. } = &mut self.drives[drive];
        geometry.check(ask)?;
        let DiskRequest { offset, len, .. } = *ask;
        let performed = match (ask.act, data) {
            (Act::Read, Data::To(to)) => store.read(offset, to),
            (Act::Write, Data::From(from)) => store.write(offset, from),
            (Act::Zero | Act::Discard, _) => store.zero(offset, len),
            (Act::Flush, _) => Ok(()),
            (Act::Read | Act::Write, _) => unreachable!("a read or a write without its data"),
        };
        let promise = match ask.act {
            Act::Flush => store.receive_flush(),
            Act::Write if ask.fua || !geometry.has_write_cache => Promise::Range { offset, len },
            _ => Promise::Nothing,
        };
        performed.map(|()| promise).map_err(|error| self.failed(drive, &error))
    }

    /// Hands to the model what was performed. The ticket comes back when it is done.
    ///
    /// # Errors
    /// Where the model has no such blocks.
    pub(super) fn submit(
        &mut self,
        drive: usize,
        arrived: Nanos,
        ask: &DiskRequest,
        promise: Promise,
        ticket: T,
    ) -> Result<(), Refusal> {
        let index = self.free.pop().unwrap_or_else(|| {
            self.pending.push(None);
            self.pending.len() - 1
        });
        let at = self.scale.model(arrived);
        if self.disks.submit(at, drive, model_request(index as u64, ask)).is_err() {
            self.free.push(index);
            return Err(Refusal::Invalid);
        }
        self.pending[index] = Some(Pending { ticket, promise });
        Ok(())
    }

    /// When the model wants to be asked again.
    pub(super) fn next_event(&mut self) -> Option<Nanos> {
        self.disks.next_event().map(|at| self.scale.host(at))
    }

    /// Adds what is done by a moment. What each answer promises is kept now.
    pub(super) fn advance(&mut self, until: Nanos, due: &mut Vec<Due<T>>) {
        let mut done = std::mem::take(&mut self.done);
        self.disks.advance(self.scale.model(until), &mut done);
        due.extend(done.drain(..).map(|completed| self.end(&completed)));
        self.done = done;
    }

    fn end(&mut self, completed: &Completed) -> Due<T> {
        let (index, drive) = (completed.id as usize, completed.disk);
        let Some(Pending { ticket, promise }) = self.pending[index].take() else {
            unreachable!("the model finished request {index} twice");
        };
        self.free.push(index);
        self.count(completed);
        let refusal = match self.drives[drive].store.keep(promise) {
            Ok(()) => None,
            Err(error) => Some(self.failed(drive, &error)),
        };
        Due { drive, ticket, refusal, deadline: self.scale.host(completed.at) }
    }

    /// Before the answer is sent: who has it may ask for the account.
    fn count(&self, completed: &Completed) {
        let mut account = lock(&self.drives[completed.disk].account);
        account.requests += 1;
        account.modelled = account.modelled + completed.at.saturating_sub(completed.submitted);
    }

    /// After the answer was sent, for sending is a part of it.
    pub(super) fn count_lateness(&self, drive: usize, deadline: Nanos) {
        let late = self.scale.span(clock::now().saturating_sub(deadline));
        let mut account = lock(&self.drives[drive].account);
        account.late = account.late + late;
        account.latest = account.latest.max(late);
    }

    /// Power fails.
    pub(super) fn cut_power(&mut self) {
        self.drives.iter_mut().for_each(|drive| drive.store.cut_power());
    }

    fn failed(&self, drive: usize, error: &std::io::Error) -> Refusal {
        self.complain(format!("the data of the disk `{}` has no place: {error}", self.name(drive)));
        match error.kind() {
            ErrorKind::StorageFull => Refusal::NoSpace,
            _ => Refusal::Io,
        }
    }

    pub(super) fn name(&self, drive: usize) -> &str {
        &self.drives[drive].name
    }

    pub(super) fn complain(&self, text: String) {
        let mut complaints = lock(&self.complaints);
        if complaints.len() == MAX_COMPLAINTS {
            complaints.pop_front();
        }
        complaints.push_back(text);
    }
}

impl<T> Due<T> {
    /// When its answer is to be with who asked, on this host's clock.
    pub(super) const fn deadline(&self) -> Nanos {
        self.deadline
    }
}

fn model_request(id: u64, ask: &DiskRequest) -> Request {
    let op = match ask.act {
        Act::Read => Op::Read,
        Act::Write | Act::Zero => Op::Write,
        Act::Discard => Op::Discard,
        Act::Flush => Op::Flush,
    };
    Request { id, op, fua: ask.fua, offset: Bytes::new(ask.offset), len: Bytes::new(ask.len) }
}
