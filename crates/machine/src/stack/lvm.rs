//! Striped logical volumes: lvm(8), lvmraid(7).

use super::commands::{self, Argv, argv};
use super::kernel::{self, Modules};
use super::layer::{Construction, Made, Plan, Program, Site};
use super::verify::{Check, Shown};
use super::{Builder, Device, Error, has_udev, random};
use crate::ledger::Built;
use crate::{LocalMachine, Machine};
use domain::stack::{Layer, Lvm};
use std::time::Duration;

/// lvm(8) does what the name says by which it is called.
const NAMES: &[&str] = &["pvcreate", "pvs", "vgcreate", "vgchange", "vgremove", "vgs", "lvcreate", "lvs"];

pub(super) const PROGRAMS: &[Program] =
    &[Program { name: "lvm", also: NAMES, package: "lvm2" }, Program::of("dmsetup", "dmsetup")];

impl Construction for Lvm {
    fn needs(&self, layer: &Layer, modules: Modules) -> Result<(), Error> {
        kernel::needs(layer, "the device mapper", "dm-mod", modules, &|| kernel::is_loaded("dm_mod"))
    }

    fn plan(&self, plan: &Plan<'_>, all: &mut Vec<Argv>) -> Vec<String> {
        let group = plan.name().replace('-', "_");
        let uuids = vec!["FLYBAL-…".to_owned(); plan.below.len()];
        all.push(commands::wipe(plan.below));
        all.extend(create(self, &group, plan.below, &uuids, has_udev()));
        vec![format!("/dev/mapper/{}", mapping(&group))]
    }

    fn build(&self, builder: &mut Builder, site: &mut Site<'_, '_>) -> Result<Made, Error> {
        let group = builder.name(site.layer).replace('-', "_");
        let mapping = mapping(&group);
        let paths = site.below.iter().map(Device::node).collect::<Result<Vec<String>, Error>>()?;
        let built = Built::Volume { group: group.clone(), mapping: mapping.clone(), below: paths.clone() };
        site.ledger.announce_built(built)?;
        builder.run("clear the devices for LVM", &commands::wipe(&paths))?;
        let secret = builder.secret()?;
        let uuids = paths.iter().map(|_| random(secret.pv_uuid())).collect::<Result<Vec<_>, _>>()?;
        for command in create(self, &group, &paths, &uuids, has_udev()) {
            builder.run("make the striped volume", &command)?;
        }
        let shown = verify(&LocalMachine, &site.layer.name, self, &mapping, paths.len())?;
        Ok(Made::devices(vec![Device::at(&format!("/dev/mapper/{mapping}"))?], shown))
    }
}

/// LVM keeps nothing of ours in /etc/lvm, asks no daemon, and looks at no device but ours. Without udev it
/// makes its own links.
fn lvm_config(has_udev: bool) -> String {
    let udev = if has_udev { "" } else { " udev_sync=0 udev_rules=0" };
    format!(
        "global{{event_activation=0 use_lvmpolld=0}} devices{{hints=\"none\" use_devicesfile=0}} \
         backup{{backup=0 archive=0}} activation{{monitoring=0{udev}}}"
    )
}

/// One word of lvm's, with what every one of them is told.
fn lvm_word(word: &str, has_udev: bool, devices: &[String]) -> Argv {
    argv(["lvm", word, "--config"], [lvm_config(has_udev), "--devices".into(), devices.join(",")])
}

/// The volume's name in its group.
const VOLUME: &str = "data";

/// The device-mapper name of a group's volume.
fn mapping(group: &str) -> String {
    format!("{group}-{VOLUME}")
}

/// `pv_uuids` are those of the devices.
fn create(lvm: &Lvm, group: &str, devices: &[String], pv_uuids: &[String], has_udev: bool) -> Vec<Argv> {
    let word = |word: &str| lvm_word(word, has_udev, devices);
    let mut all = Vec::new();
    for (device, uuid) in devices.iter().zip(pv_uuids) {
        let mut label = word("pvcreate");
        label.extend(["--yes", "--norestorefile", "--uuid", uuid, device].map(str::to_owned));
        all.push(label);
    }
    let mut create = word("vgcreate");
    create.extend(["--yes".to_owned(), group.to_owned()]);
    create.extend(devices.iter().cloned());
    let mut volume = word("lvcreate");
    let stripes = lvm.stripes.unwrap_or(devices.len() as u32);
    let size = format!("{}k", lvm.stripe_size.get() >> 10);
    let striped = ["--yes", "--wipesignatures", "n", "--extents", "100%FREE", "--stripes"].map(str::to_owned);
    volume.extend(striped);
    volume.push(stripes.to_string());
    if stripes > 1 {
        volume.extend(["--stripesize".to_owned(), size]);
    }
    volume.extend(["--name", VOLUME, group].map(str::to_owned));
    all.extend([create, volume]);
    all
}

/// Switches a group's volume off.
pub(crate) fn deactivate(group: &str, devices: &[String]) -> Argv {
    let mut all = lvm_word("vgchange", has_udev(), devices);
    all.extend(["--activate", "n", group].map(str::to_owned));
    all
}

fn verify(machine: &dyn Machine, layer: &str, lvm: &Lvm, name: &str, below: usize) -> Result<Shown, Error> {
    let stripes = lvm.stripes.map_or(below, |stripes| stripes as usize);
    let output = machine
        .run(&["dmsetup", "table", name], Duration::from_secs(30))
        .map_err(|source| Error::File { what: "read back", path: name.to_owned(), source })?;
    let table = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let words: Vec<&str> = table.split_whitespace().collect();
    let asked = if stripes > 1 {
        format!("striped {stripes} {}", lvm.stripe_size.get() >> 9)
    } else {
        "linear".to_owned()
    };
    let count = asked.split(' ').count();
    let got = words.get(2..2 + count).map(|words| words.join(" "));
    Check { layer }.same("table", &asked, got.as_deref())?;
    Ok(asked)
}
