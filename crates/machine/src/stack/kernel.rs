//! What this kernel can build, before anything is made: arrays, mappings, filesystems. A module that is there
//! is loaded, as the tools would have the kernel do; where one only wants to know, it is looked for.

use super::{Error, construction};
use crate::{CommandOutput, LocalMachine, Machine};
use domain::stack::{Layer, Stack};
use std::io;
use std::path::Path;
use std::time::Duration;

/// A module's own start may scan for hardware.
pub(super) const LIMIT: Duration = Duration::from_secs(60);

/// What is done about a module that is not loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Modules {
    Load,
    /// Nothing is changed.
    LookFor,
}

/// Whether the kernel has all that a stack needs.
///
/// # Errors
/// [`Error::Unsupported`], naming the first layer that it has not.
pub(super) fn check(stack: &Stack, modules: Modules) -> Result<(), Error> {
    stack.layers.iter().try_for_each(|layer| construction(&layer.part).needs(layer, modules))
}

/// Whether the kernel has `what`, of which `module` is the module, for a layer.
///
/// # Errors
/// [`Error::Unsupported`].
pub(super) fn needs(
    layer: &Layer,
    what: &str,
    module: &str,
    modules: Modules,
    is_there: &dyn Fn() -> bool,
) -> Result<(), Error> {
    if is_there() {
        return Ok(());
    }
    let argv = match modules {
        Modules::Load => &["modprobe", "--quiet", module][..],
        Modules::LookFor => &["modprobe", "--quiet", "--dry-run", module],
    };
    if !says_no(&LocalMachine.run(argv, LIMIT)) || is_there() {
        return Ok(());
    }
    Err(Error::Unsupported(format!(
        "the layer `{}` needs {what}, and this kernel has no such (its module is `{module}`); the lab has: `flyball lab run`",
        layer.name
    )))
}

/// Whether an answer of modprobe means that there is no such module. What is built into the kernel counts as
/// loaded. A modprobe that was killed, by us as well, says nothing about the kernel: the tools will say what
/// they lack.
fn says_no(answer: &io::Result<CommandOutput>) -> bool {
    match answer {
        Ok(output) => !matches!(output.code, Some(0) | None),
        Err(error) => error.kind() != io::ErrorKind::TimedOut,
    }
}

pub(super) fn shows(path: &str, what: &str) -> bool {
    LocalMachine.text(path).is_some_and(|text| text.contains(what))
}

pub(super) fn is_loaded(module: &str) -> bool {
    Path::new(&format!("/sys/module/{module}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modprobe_that_had_no_time_says_nothing_about_the_kernel() {
        let ended = |code| Ok(CommandOutput { code, stdout: vec![], stderr: vec![] });
        let failed = |kind: io::ErrorKind| Err(kind.into());
        assert!(says_no(&ended(Some(1))) && says_no(&failed(io::ErrorKind::NotFound)));
        assert!(!says_no(&ended(Some(0))) && !says_no(&ended(None)));
        assert!(!says_no(&failed(io::ErrorKind::TimedOut)));
    }
}
