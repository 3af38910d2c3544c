//! What this kernel can build, before anything is made: arrays, mappings, filesystems. A module that is there is loaded, as
//! the tools would have the kernel do; where one only wants to know, it is looked for.

use super::Error;
use super::mapping::target;
use crate::{LocalMachine, Machine};
use domain::stack::{Layer, MdLevel, Part, Stack};
use std::path::Path;
use std::time::Duration;

/// A module's own start may scan for hardware.
const LIMIT: Duration = Duration::from_secs(60);

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
    let needs = |layer: &Layer, what: &str, module: &str, is_there: &dyn Fn() -> bool| {
        needs(layer, what, module, modules, is_there)
    };
    stack.layers.iter().try_for_each(|layer| match &layer.part {
        Part::Devices(_) => Ok(()),
        Part::Md(md) => {
            let (name, module) = personality(md.level);
            let what = format!("arrays of the kind `{name}`");
            needs(layer, &what, module, &|| shows("/proc/mdstat", &format!("[{name}]")))
        }
        Part::Mapping(mapping) => {
            let module = target(mapping).module();
            needs(layer, module, module, &|| is_loaded(&module.replace('-', "_")))
        }
        Part::Lvm(_) => needs(layer, "the device mapper", "dm-mod", &|| is_loaded("dm_mod")),
        Part::Filesystem(fs) => {
            let name = fs.kind.name();
            needs(layer, &format!("the filesystem {name}"), &format!("fs-{name}"), &|| {
                LocalMachine
                    .text("/proc/filesystems")
                    .is_some_and(|all| all.split_whitespace().any(|n| n == name))
            })
        }
    })
}

/// As `/proc/mdstat` names it, and the module that has it.
fn personality(level: MdLevel) -> (&'static str, &'static str) {
    match level {
        MdLevel::Linear => ("linear", "md-linear"),
        MdLevel::Raid0 => ("raid0", "raid0"),
        MdLevel::Raid1 => ("raid1", "raid1"),
        MdLevel::Raid4 => ("raid4", "raid456"),
        MdLevel::Raid5 => ("raid5", "raid456"),
        MdLevel::Raid6 => ("raid6", "raid456"),
        MdLevel::Raid10 => ("raid10", "raid10"),
    }
}

fn needs(
    layer: &Layer,
    what: &str,
    module: &str,
    modules: Modules,
    is_there: &dyn Fn() -> bool,
) -> Result<(), Error> {
    if is_there() {
        return Ok(());
    }
    // What is built into the kernel counts as loaded. A modprobe that was killed says nothing about the kernel: then the tools
    // will say what they lack.
    let argv = match modules {
        Modules::Load => &["modprobe", "--quiet", module][..],
        Modules::LookFor => &["modprobe", "--quiet", "--dry-run", module],
    };
    let found = LocalMachine.run(argv, LIMIT);
    if found.is_ok_and(|output| matches!(output.code, Some(0) | None)) || is_there() {
        return Ok(());
    }
    Err(Error::Unsupported(format!(
        "the layer `{}` needs {what}, and this kernel has no such (its module is `{module}`); the lab has: `flyball lab run`",
        layer.name
    )))
}

fn shows(path: &str, what: &str) -> bool {
    LocalMachine.text(path).is_some_and(|text| text.contains(what))
}

fn is_loaded(module: &str) -> bool {
    Path::new(&format!("/sys/module/{module}")).exists()
}
