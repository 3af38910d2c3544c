//! Ctrl-C: a flag that everything bounded looks at, so that settings are restored before the program ends.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Set once a signal to stop has come.
#[derive(Clone, Debug)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches SIGINT, SIGTERM, SIGHUP and SIGQUIT from now on. A second one of them changes nothing: putting
    /// things back takes moments, and must not be cut short.
    pub fn catch() -> Result<Self> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP, SIGQUIT] {
            signal_hook::flag::register(signal, Arc::clone(&flag)).context("cannot catch signals")?;
        }
        Ok(Self(flag))
    }

    /// The flag itself, for those who look at it while they wait.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }
}
