//! What the parts of a simulated machine share: virtual time, what happens when, requests on their way, and
//! threads that do work on CPUs.
//!
//! `core` is what parts are given, `part` what they implement, `world` the loop that lets time pass; `bio`,
//! `event` and `ids` are what these speak of. The queue of events is the crate `event-queue`.
//!
//! A machine is a list of [`Part`]s: loads at the top, filesystems, encryption, arrays, disks at the bottom.
//! Parts know one another by number alone and speak through the [`Core`]:
//!
//! - a part hands a request down with [`Core::submit`]; the part below gets [`Part::submit`], and answers
//!   with [`Core::complete`] at any later time; then whoever submitted it gets [`Part::done`];
//! - a part has work done by a thread with [`Core::run`]; when the thread has executed it on a CPU, however
//!   long that took at the frequencies that the CPU had, the part gets [`Part::worked`];
//! - [`Core::at`] asks for [`Part::timer`].
//!
//! Calls never nest: what a part asks for in a call comes after that call has returned, in the order in which
//! it was asked, at the same virtual time. So no part is ever entered twice, as the kernel's
//! `submit_bio_noacct` sees to with its list.
//!
//! **Context.** Each call runs in the context of a thread, as code of the kernel does: a submission in that
//! of whoever submits, a completion in that of an interrupt. [`Core::run_here`] charges that thread, before
//! anything else that it has to do. Requests submitted in one context wait on the submitter's plug, where it
//! has one ([`Bio::plugged`], `blk_start_plug`); the plug is flushed when the context ends or the thread
//! blocks. A thread that works in several steps under one plug holds it ([`Core::hold_plug`]) and releases it
//! ([`Core::release_plug`]).
//!
//! Goals: integer nanoseconds; the same seed gives the same course; no allocation per request once everything
//! has grown. Not goals: the data itself, errors.

mod bio;
mod core;
mod event;
mod ids;
mod part;
mod world;

pub use self::core::Core;
pub use bio::Bio;
pub(crate) use event::{Call, Event};
pub use ids::{BioId, PartId};
pub use part::Part;
pub use world::{Observer, Stopped, World};
