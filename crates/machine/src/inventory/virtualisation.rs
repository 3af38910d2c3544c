//! What stands between this kernel and the hardware.

use super::Error;
use super::identity::digest;
use super::reader::Reader;
use domain::inventory::{Dmi, Virtualisation};
use parse::kernel::cpuinfo::Processor;
use parse::proc::stat::steal_ticks;

/// What firmware vendors of virtual machines call themselves, and the names by which systemd-detect-virt(1)
/// knows them.
const VENDORS: [(&str, &str); 8] = [
    ("QEMU", "qemu"),
    ("VMware", "vmware"),
    ("Microsoft", "microsoft"),
    ("Amazon EC2", "amazon"),
    ("Google", "google"),
    ("innotek", "oracle"),
    ("Xen", "xen"),
    ("Parallels", "parallels"),
];

pub(super) fn take(reader: &Reader, processors: &[Processor]) -> Result<Virtualisation, Error> {
    let flag = processors.first().and_then(|p| p.has_flag("hypervisor"));
    let dmi = dmi(reader);
    let steal = reader.parsed("/proc/stat", steal_ticks)?.flatten();
    Ok(Virtualisation {
        hypervisor_flag: flag,
        hypervisor: if flag == Some(false) { None } else { hypervisor(reader, dmi.as_ref()) },
        steal_seen: steal.map(|ticks| ticks > 0),
        container: container(reader),
        dmi,
        machine_id_digest: reader.text("/etc/machine-id").map(|id| digest(&id)),
    })
}

fn hypervisor(reader: &Reader, dmi: Option<&Dmi>) -> Option<String> {
    let detected = reader.output(&["systemd-detect-virt", "--vm"]).map(|name| name.trim().to_owned());
    let by_vendor = || {
        let vendor = dmi?.vendor.as_ref()?;
        VENDORS.iter().find(|(name, _)| vendor.contains(name)).map(|(_, name)| (*name).to_owned())
    };
    detected
        .filter(|name| !name.is_empty() && name != "none")
        .or_else(|| reader.text("/sys/hypervisor/type"))
        .or_else(by_vendor)
}

fn container(reader: &Reader) -> Option<String> {
    const MARKS: [(&str, &str); 2] = [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")];
    let marked = || MARKS.iter().find(|(path, _)| reader.exists(path)).map(|(_, name)| (*name).to_owned());
    reader.text("/run/systemd/container").or_else(marked)
}

fn dmi(reader: &Reader) -> Option<Dmi> {
    let text = |file| reader.text(&format!("/sys/class/dmi/id/{file}"));
    let dmi = Dmi {
        vendor: text("sys_vendor"),
        product: text("product_name"),
        board: text("board_name"),
        firmware: text("bios_version"),
    };
    (dmi != Dmi::default()).then_some(dmi)
}
