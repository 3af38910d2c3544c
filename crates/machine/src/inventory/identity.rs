//! Which machine it is.

use domain::inventory::{BlockKind, Inventory};
use sha2::{Digest, Sha256};

/// How much of a digest is kept: 64 bits tell any number of machines that one person will compare.
const DIGEST_BYTES: usize = 8;

/// A digest of what identifies a machine: processor model and CPUs, memory in GiB, built-in disks, what the
/// firmware says, and the machine id. It stays when the kernel, the frequency policy or the filesystems
/// change, when CPUs go offline and when a stick is plugged in; it changes with the hardware.
pub fn identity(inventory: &Inventory) -> String {
    let model = &inventory.cpus.model;
    let cpus = inventory.cpus.present.as_ref().unwrap_or(&inventory.cpus.online);
    let mut facts = vec![
        format!(
            "cpu {:?} {:?} {:?} {:?} {:?}",
            model.vendor, model.name, model.family, model.model, model.stepping
        ),
        format!("cpus {cpus}"),
        format!(
            "memory {:?} GiB",
            inventory.memory.total.map(|bytes| bytes.get().saturating_add(1 << 29) >> 30)
        ),
        format!("id {:?}", inventory.virtualisation.machine_id_digest),
    ];
    if let Some(dmi) = &inventory.virtualisation.dmi {
        facts.push(format!("dmi {:?} {:?} {:?}", dmi.vendor, dmi.product, dmi.board));
    }
    let disks = inventory.devices.iter().filter(|d| d.kind == BlockKind::Disk);
    let mut disks: Vec<String> = disks
        .filter(|d| d.removable != Some(true) && d.transport.as_deref() != Some("usb"))
        .map(|d| format!("disk {:?} {:?} {:?} {:?}", d.model, d.serial, d.wwn, d.size))
        .collect();
    // Names of disks change from boot to boot, and with them their order.
    disks.sort();
    facts.extend(disks);
    digest(&facts.join("\n"))
}

/// A short digest of a text, in hexadecimal.
pub(super) fn digest(text: &str) -> String {
    let hash = Sha256::digest(text);
    hash[..DIGEST_BYTES].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_digest_is_the_beginning_of_sha_256() {
        // FIPS 180-2, appendix B.1.
        assert_eq!(super::digest("abc"), "ba7816bf8f01cfea");
    }
}
