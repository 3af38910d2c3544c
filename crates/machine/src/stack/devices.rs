//! Where a stack's devices come from on this machine: claimed disks, the lab's, or ones that are made.

use super::commands::Argv;
use super::kernel::Modules;
use super::layer::{Construction, Made, Plan, Program, Site};
use super::planned::TOKEN;
use super::{Builder, Device, Error};
use crate::ledger::{Built, NULL_BLK};
use crate::{Ledger, LocalMachine, LoopIo, Machine, claims, inventory};
use domain::stack::{Devices, Layer, VirtualDevice};
use domain::units::Bytes;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a new device may take to appear: scsi_debug is scanned like a real bus.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// Loop devices are made by the kernel's own calls; modules are loaded by what every machine has.
pub(super) const PROGRAMS: &[Program] = &[];

impl Construction for Devices {
    /// A device that the kernel cannot make says so when it is made.
    fn needs(&self, _layer: &Layer, _modules: Modules) -> Result<(), Error> {
        Ok(())
    }

    fn plan(&self, plan: &Plan<'_>, all: &mut Vec<Argv>) -> Vec<String> {
        planned(self, plan, all)
    }

    fn build(&self, builder: &mut Builder, site: &mut Site<'_, '_>) -> Result<Made, Error> {
        let made = builder.devices(site.ledger, site.layer, self)?;
        let names: Vec<String> = made.iter().map(|device| format!("/dev/{}", device.name)).collect();
        let claimed = if builder.claimed.is_empty() { "" } else { "claimed " };
        Ok(Made::devices(made, format!("{claimed}{}", names.join(" "))))
    }
}

impl Builder {
    fn devices(
        &mut self,
        ledger: &mut Ledger<'_>,
        layer: &Layer,
        devices: &Devices,
    ) -> Result<Vec<Device>, Error> {
        let count = devices.count as usize;
        if self.context.lab_disks && !devices.lab.is_empty() {
            return devices.lab.iter().take(count).map(|name| lab_disk(&layer.name, name)).collect();
        }
        match &devices.made {
            _ if !devices.claimed.is_empty() => self.claimed(ledger, &devices.claimed[..count]),
            Some((VirtualDevice::Loop, size)) => self.loops(ledger, layer, count, *size),
            Some((VirtualDevice::NullBlk(attributes), size)) => {
                (0..count).map(|_| self.null_blk(ledger, attributes, *size)).collect()
            }
            Some((VirtualDevice::ScsiDebug(parameters), size)) => {
                self.scsi_debug(ledger, parameters, count, *size)
            }
            None => Err(Error::Unsupported(format!(
                "the layer `{}` stands on the lab's disks, or on devices that are named with `claimed = \"…\"`",
                layer.name
            ))),
        }
    }

    /// Every disk passes the gate before any is written to.
    fn claimed(&mut self, ledger: &mut Ledger<'_>, paths: &[String]) -> Result<Vec<Device>, Error> {
        let mut open = Vec::new();
        for path in paths {
            open.push(claims::open_claimed(&self.context.state, Path::new(path))?);
        }
        for claimed in open {
            self.claimed.push(ledger.overwrite(claimed)?);
        }
        self.claimed.iter().map(|claimed| Device::at(&claimed.pinned().to_string_lossy())).collect()
    }

    fn loops(
        &mut self,
        ledger: &mut Ledger<'_>,
        layer: &Layer,
        count: usize,
        size: Bytes,
    ) -> Result<Vec<Device>, Error> {
        let mut made = Vec::new();
        for index in 0..count {
            let path = self.context.work.join(format!("{}-{}-{index}", self.token, layer.name));
            let file = ledger.create_file(&path, size)?;
            let device = ledger.attach_loop(&file, LoopIo::Direct)?;
            self.ran.push(
                ["losetup", "--direct-io=on", &device.path.to_string_lossy(), &path.to_string_lossy()]
                    .map(str::to_owned)
                    .to_vec(),
            );
            made.push(Device::at(&device.path.to_string_lossy())?);
        }
        Ok(made)
    }

    /// Through configfs, so that nobody's null_blk is disturbed: `Documentation/block/null_blk.rst`.
    fn null_blk(
        &mut self,
        ledger: &mut Ledger<'_>,
        attributes: &BTreeMap<String, String>,
        size: Bytes,
    ) -> Result<Device, Error> {
        if !Path::new("/sys/module/null_blk").exists() {
            self.load(ledger, "null_blk", &["nr_devices=0".to_owned()])?;
        }
        if !Path::new(NULL_BLK).exists() {
            return Err(Error::Unsupported(format!(
                "null_blk's devices are made in `{NULL_BLK}`, which is not there; mount configfs (`mount -t configfs none /sys/kernel/config`)"
            )));
        }
        self.made += 1;
        let name = format!("flyball-{}-{}", self.token, self.made);
        let folder = format!("{NULL_BLK}/{name}");
        ledger.announce_built(Built::NullBlk { name: name.clone() })?;
        let failed = |path: &str| {
            let path = path.to_owned();
            move |source| Error::File { what: "make the device", path, source }
        };
        fs::create_dir(&folder).map_err(failed(&folder))?;
        let ours = [("size", (size.get() >> 20).to_string()), ("memory_backed", "1".to_owned())];
        let all = ours.iter().map(|(n, v)| (*n, v)).chain(attributes.iter().map(|(n, v)| (n.as_str(), v)));
        for (attribute, value) in all.chain([("power", &"1".to_owned())]) {
            let path = format!("{folder}/{attribute}");
            LocalMachine.write(Path::new(&path), value.as_bytes()).map_err(failed(&path))?;
            self.ran.push(["sh", "-c", &format!("echo {value} > {path}")].map(str::to_owned).to_vec());
        }
        // `nullbN` by its index, and by its folder's name since Linux 6.11.
        let index = LocalMachine.text(&format!("{folder}/index")).unwrap_or_default();
        let kernel = [name, format!("nullb{index}")]
            .into_iter()
            .find(|n| Path::new(&format!("/sys/block/{n}")).exists());
        let kernel =
            kernel.ok_or_else(|| Error::Unsupported(format!("no block device of `{folder}` appeared")))?;
        appear(&format!("/dev/{kernel}"))
    }

    /// A host of its own with memory of its own for each: `drivers/scsi/scsi_debug.c`.
    fn scsi_debug(
        &mut self,
        ledger: &mut Ledger<'_>,
        parameters: &BTreeMap<String, String>,
        count: usize,
        size: Bytes,
    ) -> Result<Vec<Device>, Error> {
        if Path::new("/sys/module/scsi_debug").exists() {
            return Err(Error::Unsupported(
                "scsi_debug is loaded already, and its devices are somebody else's".into(),
            ));
        }
        let mut words = vec![
            format!("dev_size_mb={}", size.get() >> 20),
            "per_host_store=1".to_owned(),
            format!("add_host={count}"),
            "num_tgts=1".to_owned(),
        ];
        words.extend(parameters.iter().map(|(name, value)| format!("{name}={value}")));
        self.load(ledger, "scsi_debug", &words)?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = scsi_debug_disks();
            if found.len() == count {
                return found.iter().map(|name| appear(&format!("/dev/{name}"))).collect();
            }
            if Instant::now() >= deadline {
                return Err(Error::Unsupported(format!("scsi_debug made {} disks of {count}", found.len())));
            }
            std::thread::sleep(POLL);
        }
    }

    fn load(&mut self, ledger: &mut Ledger<'_>, module: &str, parameters: &[String]) -> Result<(), Error> {
        ledger.announce_built(Built::Module { name: module.to_owned() })?;
        let words = ["modprobe", module].map(str::to_owned).into_iter().chain(parameters.iter().cloned());
        let loaded =
            self.run(&format!("load the kernel's module `{module}`"), &words.collect::<Vec<String>>());
        match loaded {
            Err(Error::Command { said, .. }) if said.contains("not found") => Err(Error::Unsupported(
                format!("this kernel has no module `{module}`; the lab has: `flyball lab run`"),
            )),
            other => other,
        }
    }
}

fn planned(devices: &Devices, plan: &Plan<'_>, all: &mut Vec<Argv>) -> Vec<String> {
    let layer = plan.layer;
    let count = devices.count as usize;
    let named = |kind: &str| (0..count).map(|index| format!("/dev/{kind}-{}-{index}", layer.name)).collect();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Argv>();
    if plan.lab_disks && !devices.lab.is_empty() {
        return devices.lab.iter().take(count).map(|name| format!("/dev/lab-{name}")).collect();
    }
    if !devices.claimed.is_empty() {
        return devices.claimed[..count].to_vec();
    }
    match &devices.made {
        None => named("none"),
        Some((VirtualDevice::Loop, size)) => {
            let nodes: Vec<String> = named("loop");
            for (index, node) in nodes.iter().enumerate() {
                let file = format!("WORK/{TOKEN}-{}-{index}", layer.name);
                all.push(words(&["fallocate", "--length", &size.get().to_string(), &file]));
                all.push(words(&["losetup", "--direct-io=on", node, &file]));
            }
            nodes
        }
        Some((made @ VirtualDevice::NullBlk(attributes), size)) => {
            let nodes: Vec<String> = named(made.name());
            for index in 0..count {
                let folder = format!("/sys/kernel/config/nullb/{TOKEN}-{}-{index}", layer.name);
                let mib = (size.get() >> 20).to_string();
                let own = [("size", mib.as_str()), ("memory_backed", "1")];
                let more = attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                let written = own.into_iter().chain(more).chain([("power", "1")]);
                let lines: String =
                    written.map(|(name, value)| format!("; echo {value} > {folder}/{name}")).collect();
                all.push(words(&["sh", "-c", &format!("mkdir {folder}{lines}")]));
            }
            nodes
        }
        Some((made @ VirtualDevice::ScsiDebug(parameters), size)) => {
            let mut load = words(&["modprobe", "scsi_debug", &format!("dev_size_mb={}", size.get() >> 20)]);
            load.extend(words(&["per_host_store=1", &format!("add_host={count}"), "num_tgts=1"]));
            load.extend(parameters.iter().map(|(name, value)| format!("{name}={value}")));
            all.push(load);
            named(made.name())
        }
    }
}

/// The disks of scsi_debug, by their kernel names.
fn scsi_debug_disks() -> Vec<String> {
    const DRIVER: &str = "/sys/bus/pseudo/drivers/scsi_debug";
    let sd = numbered_disks().into_iter();
    sd.filter(|name| {
        let link = LocalMachine.link(Path::new(&format!("/sys/block/{name}")));
        let is_adapter =
            |link: &Path| link.components().any(|c| c.as_os_str().to_string_lossy().starts_with("adapter"));
        Path::new(DRIVER).exists() && link.is_ok_and(|link| is_adapter(&link))
    })
    .collect()
}

fn numbered_disks() -> Vec<String> {
    let names = LocalMachine.list(Path::new("/sys/block")).unwrap_or_default();
    names.into_iter().filter(|name| name.starts_with("sd")).collect()
}

/// A disk of the lab carries its name as its serial number: the order of their nodes is the bus scan's.
fn lab_disk(layer: &str, name: &str) -> Result<Device, Error> {
    let disks = inventory::block_devices(&LocalMachine).map_err(|e| Error::Inventory(e.to_string()))?;
    match disks.iter().find(|disk| disk.serial.as_deref() == Some(name)) {
        Some(disk) => Device::at(&format!("/dev/{}", disk.name)),
        None => Err(Error::Unsupported(format!(
            "the layer `{layer}` stands on the lab's disk `{name}`, and this machine has none of that name; add it as `[[lab.disk]]`"
        ))),
    }
}

/// udev may be changing a new node's owner and mode.
fn appear(path: &str) -> Result<Device, Error> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match Device::at(path) {
            Err(_) if Instant::now() < deadline => std::thread::sleep(POLL),
            result => return result,
        }
    }
}
