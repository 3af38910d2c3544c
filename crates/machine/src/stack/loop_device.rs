//! Loop devices over the devices below: loop(4), `drivers/block/loop.c`.
//!
//! They are made by the kernel's own calls, as every loop device of ours: the ledger has each with the inode
//! of what is below it. What is below is open exclusively as long as the loop device is bound to it.

use super::commands::{Argv, argv};
use super::kernel::{self, Modules};
use super::layer::{Construction, Made, Plan, Program, Site};
use super::verify::{Check, Shown};
use super::{Builder, Device, Error};
use crate::loopdev::Form;
use crate::{LocalMachine, LoopIo, Machine};
use domain::stack::{Layer, Loop};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::path::Path;

pub(super) const PROGRAMS: &[Program] = &[];

impl Construction for Loop {
    fn needs(&self, layer: &Layer, modules: Modules) -> Result<(), Error> {
        kernel::needs(layer, "loop devices", "loop", modules, &|| kernel::is_loaded("loop"))
    }

    fn plan(&self, plan: &Plan<'_>, all: &mut Vec<Argv>) -> Vec<String> {
        let nodes = (0..plan.below.len()).map(|index| format!("/dev/loop-{}-{index}", plan.layer.name));
        let nodes: Vec<String> = nodes.collect();
        all.extend(
            plan.below
                .iter()
                .zip(&nodes)
                .map(|(below, node)| command(self.direct_io, self.sector_size, node, below)),
        );
        nodes
    }

    fn build(&self, builder: &mut Builder, site: &mut Site<'_, '_>) -> Result<Made, Error> {
        let (mut devices, mut shown) = (Vec::new(), Shown::new());
        for below in site.below {
            let its_sectors = sectors(&LocalMachine, &format!("/sys/dev/block/{}", below.number));
            let size = sector_size(self, &site.layer.name, &below.path, its_sectors)?;
            let file = open(below)?;
            let io = if self.direct_io { LoopIo::Direct } else { LoopIo::Buffered };
            let form = Form { io, sector_size: Some(size) };
            let path = below.node()?;
            let node = site.ledger.attach_loop_over(&file, Path::new(&path), form)?.path;
            let node = node.to_string_lossy();
            builder.ran.push(command(self.direct_io, Some(size), &node, &path));
            let device = Device::at(&node)?;
            let file = |name: &str| LocalMachine.text(&format!("/sys/block/{}/{name}", device.name));
            shown = verify(self, size, &site.layer.name, file)?;
            devices.push(device);
        }
        Ok(Made::devices(devices, shown))
    }
}

/// As losetup(8) would make it.
fn command(direct_io: bool, sector_size: Option<u32>, node: &str, below: &str) -> Argv {
    let mut all = argv(["losetup", if direct_io { "--direct-io=on" } else { "--direct-io=off" }], []);
    all.extend(sector_size.map(|size| format!("--sector-size={size}")));
    all.extend([node.to_owned(), below.to_owned()]);
    all
}

/// The logical sectors of a device by its folder in sysfs, in bytes; a partition has those of its disk.
fn sectors(machine: &dyn Machine, folder: &str) -> Option<u32> {
    ["queue", "../queue"]
        .iter()
        .find_map(|queue| machine.text(&format!("{folder}/{queue}/logical_block_size"))?.parse().ok())
}

/// Its own sectors, over a device of `below`: past the page cache they cannot be smaller than those of what
/// is below. Linux 6.12 and 6.18 then go through the page cache and say nothing (`lo_can_use_dio`); 6.1 fails
/// requests that are smaller.
fn sector_size(asked: &Loop, layer: &str, path: &str, below: Option<u32>) -> Result<u32, Error> {
    let least = if asked.direct_io { below.unwrap_or(512) } else { 512 };
    let size = asked.sector_size.unwrap_or(least);
    if size >= least {
        return Ok(size);
    }
    Err(Error::Unsupported(format!(
        "the layer `{layer}` asks for direct I/O with `sector_size = {size}`, and `{path}` below has sectors of {least} bytes, \
         so that the kernel cannot; write `sector_size = {least}`, or `direct_io = false`"
    )))
}

/// For itself alone: the kernel keeps the file open, and with it the claim.
fn open(below: &Device) -> Result<File, Error> {
    let flags = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
    match rustix::fs::open(below.path.as_str(), flags, Mode::empty()) {
        Ok(file) => Ok(file.into()),
        Err(error) => Err(Error::File {
            what: "open for a loop device, for itself alone,",
            path: below.path.clone(),
            source: error.into(),
        }),
    }
}

/// `file` gives the text of a file of the device's folder in sysfs.
fn verify(
    asked: &Loop,
    size: u32,
    layer: &str,
    file: impl Fn(&str) -> Option<String>,
) -> Result<Shown, Error> {
    let check = Check { layer };
    let direct_io = file("loop/dio").map(|flag| (flag == "1").to_string());
    check.same("direct_io", &asked.direct_io.to_string(), direct_io.as_deref())?;
    check.same("sector_size", &size.to_string(), file("queue/logical_block_size").as_deref())?;
    check.same("offset", "0", file("loop/offset").as_deref())?;
    Ok(format!("direct_io {}, sectors of {size} bytes", asked.direct_io))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::planned;
    use domain::stack::{LayerSpec, StackSpec};

    const DIRECT: Loop = Loop { direct_io: true, sector_size: None };
    const BUFFERED: Loop = Loop { direct_io: false, sector_size: None };

    #[test]
    fn it_is_planned_as_losetup_would_make_it() {
        let layer = |name: &str, values: &[(&str, &str)]| LayerSpec {
            name: name.into(),
            values: values.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
        };
        let disk = layer("disk", &[("kind", "devices"), ("lab", "disk")]);
        let inner = layer("inner", &[("kind", "loop"), ("on", "disk")]);
        let outer = [("kind", "loop"), ("on", "inner"), ("direct_io", "true"), ("sector_size", "4096")];
        let stack = StackSpec { layers: vec![disk, inner, layer("outer", &outer)] }.build().unwrap();
        let lines: Vec<String> = planned(&stack, true).iter().map(|argv| argv.join(" ")).collect();
        assert_eq!(
            lines,
            [
                "losetup --direct-io=off /dev/loop-inner-0 /dev/lab-disk0",
                "losetup --direct-io=on --sector-size=4096 /dev/loop-outer-0 /dev/loop-inner-0",
            ]
        );
    }

    #[test]
    fn sectors_past_the_page_cache_are_not_smaller_than_those_below() {
        let of = |asked: &Loop, below| sector_size(asked, "image", "/dev/x", below);
        assert_eq!(of(&DIRECT, Some(4096)).unwrap(), 4096);
        assert_eq!(of(&BUFFERED, Some(4096)).unwrap(), 512);
        assert_eq!(of(&DIRECT, None).unwrap(), 512);
        let small = |direct_io| Loop { direct_io, sector_size: Some(1024) };
        assert_eq!(of(&small(false), Some(4096)).unwrap(), 1024);
        assert_eq!(of(&small(true), Some(512)).unwrap(), 1024);
        let said = of(&small(true), Some(4096)).unwrap_err().to_string();
        assert!(said.contains("write `sector_size = 4096`, or `direct_io = false`"), "{said}");
    }

    #[test]
    fn what_the_kernel_did_not_take_is_said() {
        let shows = |changed: &str, value: &str| {
            let file = |name: &str| {
                let all = [("loop/dio", "1"), ("queue/logical_block_size", "4096"), ("loop/offset", "0")];
                let shown = all.into_iter().find(|(known, _)| *known == name).map(|(_, shown)| shown);
                if name == changed {
                    (!value.is_empty()).then(|| value.to_owned())
                } else {
                    shown.map(str::to_owned)
                }
            };
            verify(&DIRECT, 4096, "image", file).map_err(|error| error.to_string())
        };
        assert_eq!(shows("", "").unwrap(), "direct_io true, sectors of 4096 bytes");
        for (file, value, what) in [
            ("loop/dio", "0", "direct_io is `false`, asked was `true`"),
            ("loop/dio", "", "direct_io is `nothing`"),
            ("queue/logical_block_size", "512", "sector_size is `512`, asked was `4096`"),
            ("loop/offset", "4096", "offset is `4096`"),
        ] {
            let said = shows(file, value).unwrap_err();
            assert!(said.contains(what), "{said}");
        }
    }
}
