//! What a kind of layer says of itself, so that nothing else has to tell layers apart.

use super::values::Values;
use super::{Part, StackError};
use crate::time::Nanos;
use std::fmt;

/// What reading a study has to know of a kind of layer.
pub(super) struct Kind {
    /// The value of its key `kind`.
    pub(super) name: &'static str,
    /// With those that every kind has.
    pub(super) keys: &'static [&'static str],
    pub(super) read: fn(&Values<'_>) -> Result<Part, StackError>,
}

/// The key of a layer that does not fit on what is below it, and why.
pub(super) type Misfit = (&'static str, String);

pub(super) fn misfit(key: &'static str, reason: impl Into<String>) -> Result<(), Misfit> {
    Err((key, reason.into()))
}

/// A layer, as the stack around it sees it. Its text is what people are told of it.
pub(super) trait Described: fmt::Display {
    /// How many devices it gives, where so many are below it.
    fn gives(&self, below: u32) -> u32;

    /// What can be known of how it fits on so many devices.
    ///
    /// # Errors
    /// The key that is to blame, and why.
    fn fits(&self, _below: u32) -> Result<(), Misfit> {
        Ok(())
    }

    /// Whether it is a source of devices.
    fn stands_on_nothing(&self) -> bool {
        false
    }

    /// Whether it gives a folder, on which nothing stands.
    fn is_folder(&self) -> bool {
        false
    }

    /// A layer that it uses beside those that it stands on, and the key that names it.
    fn beside(&self) -> Option<(&'static str, &String)> {
        None
    }

    /// The name that [`Described::beside`] gives.
    fn beside_mut(&mut self) -> Option<&mut String> {
        None
    }

    /// Whether it is to be synchronised while workloads run.
    fn resyncs_in_background(&self) -> bool {
        false
    }

    /// The timers of the kernel's that it sets, each with the kernel's own value.
    fn timers(&mut self) -> Vec<(&mut Option<Nanos>, Nanos)> {
        Vec::new()
    }
}
