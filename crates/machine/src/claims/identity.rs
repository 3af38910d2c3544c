//! Which disk it is: what tells it from every other one, whatever name the kernel gives it next time.

use super::error::ClaimError;
use super::node::{self, Node};
use domain::units::Bytes;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// Which disk it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskIdentity {
    /// The serial number, as the kernel has it from the disk.
    pub serial: Option<String>,
    /// The worldwide name: NVMe's `wwid`, SCSI's identifier from page 0x83.
    pub wwn: Option<String>,
    /// The UUID of an array or a mapping that is claimed as a disk.
    pub uuid: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// How long it is.
    pub size: Bytes,
    /// The kernel's number of this appearance of the disk, which it gives once in a boot (since 5.15).
    pub diskseq: Option<u64>,
    /// The boot in which that was: `/proc/sys/kernel/random/boot_id`.
    pub boot: String,
    /// Device and inode of a loop device's file.
    pub backing: Option<(u64, u64)>,
}

impl DiskIdentity {
    pub(crate) fn read(node: &Node) -> Result<Self, ClaimError> {
        let first = |files: &[&str]| files.iter().find_map(|file| node.text(file));
        let backing = crate::loopdev::backing_of(&node.file)
            .map_err(|source| node::device_error("find the file behind", &node.path, source))?;
        Ok(Self {
            serial: first(&["serial", "device/serial"]).or_else(|| unit_serial(&node.sys)),
            wwn: first(&["wwid", "device/wwid"]),
            uuid: first(&["dm/uuid", "md/uuid"]),
            model: first(&["device/model"]),
            size: node.size,
            diskseq: first(&["diskseq"]).and_then(|text| text.parse().ok()),
            boot: boot_id()?,
            backing: backing.map(|backing| backing.file),
        })
    }

    /// Whether it can be told after a restart of the machine which disk this is.
    pub fn outlives_a_restart(&self) -> bool {
        self.serial.is_some() || self.wwn.is_some() || self.uuid.is_some()
    }

    /// Why this is not the disk that `claimed` tells of, in words; `None` where it is.
    pub fn difference_from(&self, claimed: &Self) -> Option<String> {
        if !claimed.outlives_a_restart() && claimed.boot != self.boot {
            return Some("it was claimed before a restart, and has neither serial number nor WWN".to_owned());
        }
        let mut different = Vec::new();
        for (what, was, is) in [
            ("serial number", &claimed.serial, &self.serial),
            ("WWN", &claimed.wwn, &self.wwn),
            ("UUID", &claimed.uuid, &self.uuid),
            ("model", &claimed.model, &self.model),
        ] {
            // What was not known then may have been found by a newer kernel since.
            if let Some(was) = was
                && Some(was) != is.as_ref()
            {
                let is = is.as_deref().map_or("none".to_owned(), |is| format!("`{is}`"));
                different.push(format!("its {what} is {is}, that of the claimed one `{was}`"));
            }
        }
        if self.size != claimed.size {
            different.push(format!(
                "its size is {} bytes, that of the claimed one {}",
                self.size.get(),
                claimed.size.get()
            ));
        }
        if self.boot == claimed.boot {
            if self.diskseq != claimed.diskseq {
                different.push("it was plugged in or set up anew since (another diskseq)".to_owned());
            }
            if self.backing != claimed.backing {
                different.push("another file is behind the loop device".to_owned());
            }
        }
        (!different.is_empty()).then(|| different.join(", "))
    }

    /// The words that name it for people.
    pub fn in_words(&self) -> String {
        let said = [("serial", &self.serial), ("WWN", &self.wwn), ("UUID", &self.uuid)];
        let words: Vec<String> =
            said.iter().filter_map(|(what, value)| Some(format!("{what} {}", value.as_ref()?))).collect();
        if words.is_empty() {
            "no serial number or WWN: a claim holds until the next restart".to_owned()
        } else {
            words.join(", ")
        }
    }
}

/// Every whole disk of this machine that is the one that `claimed` tells of: its node in `/dev`. Two disks
/// may well tell the same serial number.
///
/// # Errors
/// [`ClaimError::Device`] where the disks cannot be listed.
pub(crate) fn find(claimed: &DiskIdentity) -> Result<Vec<Node>, ClaimError> {
    let mut found = Vec::new();
    for name in node::names(Path::new("/sys/block"))? {
        // Disks that cannot be opened, without medium or size, are none that could be written to either.
        let Ok(node) = Node::open(super::Doing::Examine, &node::node_path(&name)) else { continue };
        if node.name == name && DiskIdentity::read(&node)?.difference_from(claimed).is_none() {
            found.push(node);
        }
    }
    Ok(found)
}

/// The serial number from SCSI's page 0x80: four bytes of header, the last two of which are the length
/// (SPC-4, 7.8.15).
fn unit_serial(sys: &Path) -> Option<String> {
    let page = fs::read(sys.join("device/vpd_pg80")).ok()?;
    let length = usize::from(u16::from_be_bytes([*page.get(2)?, *page.get(3)?]));
    let text = page.get(4..4 + length)?;
    let text = String::from_utf8_lossy(text);
    let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!text.is_empty()).then(|| text.to_owned())
}

pub(crate) fn boot_id() -> Result<String, ClaimError> {
    let path = Path::new("/proc/sys/kernel/random/boot_id");
    let text = fs::read_to_string(path).map_err(|source| node::device_error("read", path, source))?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> DiskIdentity {
        DiskIdentity {
            serial: Some("S1".into()),
            wwn: Some("naa.1".into()),
            uuid: None,
            model: None,
            size: Bytes::from_mib(64),
            diskseq: Some(7),
            boot: "b1".into(),
            backing: None,
        }
    }

    fn differs(claimed: &DiskIdentity, change: impl FnOnce(&mut DiskIdentity)) -> Option<String> {
        let mut now = claimed.clone();
        change(&mut now);
        now.difference_from(claimed)
    }

    #[test]
    fn a_disk_is_the_claimed_one_only_while_everything_known_agrees() {
        assert_eq!(differs(&disk(), |_| ()), None);
        assert!(differs(&disk(), |d| d.serial = Some("S2".into())).unwrap().contains("serial"));
        assert!(differs(&disk(), |d| d.serial = None).unwrap().contains("none"));
        assert!(differs(&disk(), |d| d.wwn = Some("naa.2".into())).unwrap().contains("WWN"));
        assert!(differs(&disk(), |d| d.size = Bytes::from_mib(65)).unwrap().contains("size"));
        assert!(differs(&disk(), |d| d.diskseq = Some(8)).unwrap().contains("anew"));
    }

    #[test]
    fn after_a_restart_a_serial_number_counts_and_a_diskseq_does_not() {
        let restart = |d: &mut DiskIdentity| (d.boot, d.diskseq) = ("b2".into(), Some(3));
        assert_eq!(differs(&disk(), restart), None);
        let nameless = DiskIdentity { serial: None, wwn: None, ..disk() };
        assert_eq!(differs(&nameless, |_| ()), None);
        assert!(differs(&nameless, restart).unwrap().contains("restart"));
        let by_file = DiskIdentity { backing: Some((1, 2)), ..nameless };
        assert!(differs(&by_file, |d| d.backing = Some((1, 3))).unwrap().contains("file"));
    }
}
