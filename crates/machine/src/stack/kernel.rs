//! What this kernel can build, before anything is made: arrays, mappings, filesystems. A module that is there
//! is loaded, as the tools would have the kernel do; where one only wants to know, it is looked for.

use super::Error;
use super::mapping::target;
use crate::{LocalMachine, Machine};
use domain::stack::{Bitmap, Layer, MdLevel, Part, Stack};
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
            needs(layer, &what, module, &|| shows("/proc/mdstat", &format!("[{name}]")))?;
            if md.bitmap == Bitmap::Lockless { has_llbitmap(layer) } else { Ok(()) }
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

/// A bitmap without a lock shows nowhere before an array has one, so that versions have to stand for it: of
/// the kernel, and of mdadm, which takes another word for the name of a file.
fn has_llbitmap(layer: &Layer) -> Result<(), Error> {
    let kernel = LocalMachine.text("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mdadm = LocalMachine.run(&["mdadm", "--version"], LIMIT).map(|output| output.last_words());
    let mdadm = mdadm.unwrap_or_else(|error| error.to_string());
    for (what, least, said) in [("Linux", (6, 18), kernel), ("mdadm", (4, 5), mdadm)] {
        if version(&said).is_none_or(|version| version < least) {
            let (major, minor) = least;
            return Err(Error::Unsupported(format!(
                "the layer `{}` has `bitmap = \"llbitmap\"`, which needs {what} {major}.{minor} or newer; this one says `{said}`; write \
                 `bitmap = \"internal\"`, or use a machine that has it",
                layer.name
            )));
        }
    }
    Ok(())
}

/// `6.12.9-amd64`, or `mdadm - v4.2 - 2021-12-30`.
fn version(text: &str) -> Option<(u32, u32)> {
    let is_number = |word: &&str| word.starts_with(|c: char| c.is_ascii_digit());
    let number = text.split_whitespace().map(|word| word.trim_start_matches('v')).find(is_number)?;
    let mut parts = number.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
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
    // What is built into the kernel counts as loaded. A modprobe that was killed says nothing about the
    // kernel: then the tools will say what they lack.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_kernel_and_mdadm_say_them() {
        assert_eq!(version("6.1.0-37-amd64"), Some((6, 1)));
        assert_eq!(version("6.18-rc3"), Some((6, 18)));
        assert_eq!(version("mdadm - v4.2 - 2021-12-30 - Debian 4.2-5"), Some((4, 2)));
        assert_eq!(version("mdadm - v4.5 - 2025-11-14"), Some((4, 5)));
        assert_eq!((version("mdadm"), version("")), (None, None));
    }
}
