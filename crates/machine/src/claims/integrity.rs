//! A UUID of ours in the superblock of dm-integrity, which has none of its own: without it nobody could tell
//! what a run left on a disk from what somebody else has put there.
//!
//! The kernel keeps the first 4 KiB of a device for the superblock and uses less than 512 bytes of them. The
//! rest it writes back as it was read (`drivers/md/dm-integrity.c`: `struct superblock`, `SB_SECTORS`,
//! `sync_rw_sb`). It takes a device without a superblock only where all of the 4 KiB are zero, so that the
//! UUID is written right after the superblock.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// As libblkid names it.
pub(super) const KIND: &str = "DM_integrity";
const MAGIC: &[u8; 8] = b"integrt\0";
const LENGTH: usize = 4096;
/// Where the UUID lies, and how long it is as text.
const PLACE: usize = 2048;
const UUID: usize = 36;

/// For transfers that pass the page cache by, which wants buffers that lie so.
#[repr(C, align(4096))]
struct Superblock([u8; LENGTH]);

/// Writes this UUID into the superblock of a device that was just formatted. The page cache is passed by:
/// what it holds of the device is older than what the kernel has written there.
///
/// # Errors
/// Where there is no superblock, or another UUID in it; as the kernel gives them.
pub fn mark(device: &Path, uuid: &str) -> io::Result<()> {
    let wrong = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    if !is_uuid(uuid.as_bytes()) {
        return wrong("what was to be written there is no UUID");
    }
    let direct = (OFlags::DIRECT | OFlags::SYNC).bits().cast_signed();
    let file = OpenOptions::new().read(true).write(true).custom_flags(direct).open(device)?;
    let mut superblock = Superblock([0; LENGTH]);
    file.read_exact_at(&mut superblock.0, 0)?;
    if !superblock.0.starts_with(MAGIC) {
        return wrong("it holds no superblock of dm-integrity");
    }
    if superblock.0[PLACE..].iter().any(|byte| *byte != 0) {
        return wrong("its superblock of dm-integrity is used where a UUID was to be written");
    }
    superblock.0[PLACE..PLACE + UUID].copy_from_slice(uuid.as_bytes());
    file.write_all_at(&superblock.0, 0)?;
    file.sync_all()
}

/// The UUID that was written so into the superblock at the beginning of a device; `None` where there is none.
pub(super) fn marked(device: &File) -> io::Result<Option<String>> {
    let mut text = [0; UUID];
    device.read_exact_at(&mut text, PLACE as u64)?;
    Ok(is_uuid(&text).then(|| String::from_utf8_lossy(&text).into_owned()))
}

fn is_uuid(text: &[u8]) -> bool {
    let fits = |(at, byte): (usize, &u8)| match at {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == UUID && text.iter().enumerate().all(fits)
}

#[cfg(test)]
mod tests {
    use super::super::signatures::signatures;
    use super::*;

    const OURS: &str = "f17ba110-4bc9-4bab-abab-6825b5d74984";

    /// A file that begins as a device does after `integritysetup format`: crc32c, journal of one section.
    fn formatted(magic: &[u8]) -> tempfile::NamedTempFile {
        // Beside the sources, for the folder of temporary files may be of memory, which has no transfers past
        // the page cache.
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let rest = [3, 15, 4, 0, 1, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0];
        file.as_file().set_len(1 << 20).unwrap();
        file.as_file().write_all_at(&[magic, &rest].concat(), 0).unwrap();
        file
    }

    #[test]
    fn a_superblock_bears_the_uuid_that_was_written_into_it_and_keeps_the_rest() {
        let file = formatted(MAGIC);
        let found = signatures(file.as_file()).unwrap();
        assert_eq!(found.iter().map(|s| (s.kind.as_str(), s.offset)).collect::<Vec<_>>(), [(KIND, 0)]);
        assert_eq!(found[0].uuid, None, "what others formatted has none");
        mark(file.path(), OURS).unwrap();
        assert_eq!(signatures(file.as_file()).unwrap()[0].uuid.as_deref(), Some(OURS));
        let mut whole = vec![0; 1 << 20];
        file.as_file().read_exact_at(&mut whole, 0).unwrap();
        assert!(whole.starts_with(b"integrt\x00\x03\x0f\x04"));
        assert!(whole[24..PLACE].iter().chain(&whole[PLACE + UUID..]).all(|byte| *byte == 0));
    }

    #[test]
    fn what_is_no_fresh_superblock_is_not_written_to() {
        let (strange, used) = (formatted(b"integrs\0"), formatted(MAGIC));
        used.as_file().write_all_at(b"x", 4095).unwrap();
        for (file, why) in [(strange, "no superblock"), (used, "is used")] {
            let error = mark(file.path(), OURS).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
            assert_eq!(marked(file.as_file()).unwrap(), None);
        }
        let error = mark(formatted(MAGIC).path(), "f17ba110").unwrap_err().to_string();
        assert!(error.contains("no UUID"), "{error}");
    }

    #[test]
    fn what_only_looks_like_a_uuid_is_none() {
        let file = formatted(MAGIC);
        for text in ["f17ba110-4bc9-4bab-abab-6825b5d7498g", "f17ba110.4bc9-4bab-abab-6825b5d74984"] {
            file.as_file().write_all_at(text.as_bytes(), PLACE as u64).unwrap();
            assert_eq!(marked(file.as_file()).unwrap(), None, "{text}");
        }
    }
}
