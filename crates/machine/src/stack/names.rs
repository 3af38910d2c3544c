//! Names and UUIDs of what Flyball builds: random, and to be told from everybody else's.

use std::fs;
use std::io;

/// Every UUID that Flyball gives begins with these digits.
const OWN: &str = "f17ba110";

/// A fresh UUID that is told to be Flyball's.
pub(super) fn own_uuid() -> io::Result<String> {
    Ok(format!("{OWN}{}", &random()?[OWN.len()..]))
}

/// A fresh UUID in LVM's own form (lib/uuid/uuid.c: 32 of 64 characters, in groups).
pub(super) fn own_pv_uuid() -> io::Result<String> {
    let digits: String = random()?.chars().filter(char::is_ascii_hexdigit).collect();
    let all = format!("FLYBAL{digits}");
    let groups = [0..6, 6..10, 10..14, 14..18, 18..22, 22..26, 26..32];
    Ok(groups.map(|range| all[range].to_owned()).join("-"))
}

/// Eight digits that nobody else has at the time.
pub(super) fn token() -> io::Result<String> {
    Ok(random()?[..8].to_owned())
}

/// Whether a UUID is one of Flyball's, in whichever way it is written.
pub fn is_own_uuid(uuid: &str) -> bool {
    let plain: String = uuid.chars().filter(char::is_ascii_alphanumeric).collect();
    plain.to_ascii_lowercase().starts_with(OWN) || plain.starts_with("FLYBAL")
}

fn random() -> io::Result<String> {
    let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
    Ok(uuid.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_uuids_are_told_from_others_in_every_form() {
        let uuid = own_uuid().unwrap();
        assert_eq!((uuid.len(), uuid.matches('-').count()), (36, 4));
        assert!(is_own_uuid(&uuid) && is_own_uuid("F17BA110:11111111:22222222:33333333"));
        let pv = own_pv_uuid().unwrap();
        assert_eq!(pv.split('-').map(str::len).collect::<Vec<_>>(), [6, 4, 4, 4, 4, 4, 6]);
        assert!(is_own_uuid(&pv));
        assert!(!is_own_uuid("0f17ba11-0000-0000-0000-000000000000") && !is_own_uuid(""));
        assert_ne!(own_uuid().unwrap(), uuid);
    }
}
