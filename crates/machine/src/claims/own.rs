//! The mark of what Flyball itself has left on a disk: all UUIDs that it gives begin with the same eight digits.
//!
//! A superblock that carries the mark may be overwritten and erased without being asked for; every other one may
//! belong to somebody. Thirty-two bits are no proof, but nobody else begins a UUID with them on purpose, and by
//! chance one in four thousand million does.

use std::fmt::Write;

/// The first eight hexadecimal digits of each UUID.
const MARK: &str = "f17ba110";
/// What LVM's identifiers, which are no UUIDs, begin with.
const PV_MARK: &str = "FLYBAL";
/// The characters that LVM takes (`lib/uuid/uuid.c` of LVM2; `!` and `#`, which only very old ones have, left out).
const PV_LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// How the 32 characters of an LVM identifier are grouped, the first group being the mark.
const PV_GROUPS: [usize; 7] = [6, 4, 4, 4, 4, 4, 6];

/// A UUID for an array, a LUKS header or a filesystem, in its usual form. The first four bytes are not used.
pub fn own_uuid(random: [u8; 16]) -> String {
    let mut bytes = random;
    // Version 4, variant 1 (RFC 9562): mkfs and cryptsetup take any, other programs may be stricter.
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let mut uuid = MARK.to_owned();
    for (index, byte) in bytes.iter().enumerate().skip(4) {
        if [4, 6, 8, 10].contains(&index) {
            uuid.push('-');
        }
        // Writing to a String cannot fail.
        let _ = write!(uuid, "{byte:02x}");
    }
    uuid
}

/// An identifier for an LVM physical volume, as `pvcreate --uuid` takes it. The first six bytes are not used.
pub fn own_pv_uuid(random: [u8; 32]) -> String {
    let mut letters = random.iter().map(|byte| char::from(PV_LETTERS[usize::from(*byte) % PV_LETTERS.len()]));
    letters.by_ref().take(PV_MARK.len()).for_each(drop);
    let mut uuid = PV_MARK.to_owned();
    for length in &PV_GROUPS[1..] {
        uuid.push('-');
        uuid.extend(letters.by_ref().take(*length));
    }
    uuid
}

/// Whether Flyball gave this UUID: with dashes, with mdadm's colons or with neither, in any case; or LVM's.
pub fn is_own_uuid(uuid: &str) -> bool {
    let digits: String = uuid.chars().filter(|c| !matches!(c, '-' | ':')).collect();
    let is_uuid = digits.len() == 32 && digits.chars().all(|c| c.is_ascii_hexdigit());
    let is_pv = digits.len() == 32 && uuid.starts_with(PV_MARK) && uuid[PV_MARK.len()..].starts_with('-');
    is_pv || is_uuid && digits.to_ascii_lowercase().starts_with(MARK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_is_recognised_in_every_form() {
        let uuid = own_uuid([0xab; 16]);
        assert_eq!(uuid, "f17ba110-abab-4bab-abab-abababababab");
        // As `mdadm --detail` writes it.
        assert!(is_own_uuid("f17ba110:abab4bab:abababab:abababab"));
        for form in [uuid.clone(), uuid.to_uppercase(), uuid.replace('-', "")] {
            assert!(is_own_uuid(&form), "{form}");
        }
        let pv = own_pv_uuid([9; 32]);
        assert_eq!(pv, "FLYBAL-9999-9999-9999-9999-9999-999999");
        assert!(is_own_uuid(&pv));
    }

    #[test]
    fn what_others_give_is_not_ours() {
        for other in [
            "",
            "f17ba110",
            "f17ba111-abab-4bab-abab-abababababab",
            "abababab-f17b-a110-abab-abababababab",
            "f17ba110-abab-4bab-abab-ababababababab",
            "f17ba110-abab-4bab-abab-ababababab\u{e9}",
            "FLYBAL9999-9999-9999-9999-9999-999999",
            "flybal-9999-9999-9999-9999-9999-999999",
            "F17B-A110",
        ] {
            assert!(!is_own_uuid(other), "{other}");
        }
    }
}
