//! Device-mapper: what `dmsetup table` prints, and the UUIDs in sysfs. The key of a crypt target is measured
//! and then forgotten: no value of this module holds it.

use super::{Error, number_at as number};
use domain::inventory::Crypt;
use domain::units::Bytes;
use std::collections::BTreeMap;

/// One target of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `crypt`, `linear`, `striped`, `thin`, …
    pub kind: String,
    /// What a crypt target does.
    pub crypt: Option<Crypt>,
}

/// Reads the output of `dmsetup table`: the targets of each device, by its name.
///
/// # Errors
/// Where a line is no table's, or a crypt target's parameters are not as
/// `Documentation/admin-guide/device-mapper/dm-crypt.rst` says.
pub fn parse(text: &str) -> Result<BTreeMap<String, Vec<Target>>, Error> {
    let mut devices: BTreeMap<String, Vec<Target>> = BTreeMap::new();
    for (index, line) in text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        if line.trim() == "No devices found" {
            continue;
        }
        let wrong = || Error::value(index + 1, without_key(line), "`NAME: START LENGTH TARGET …`");
        let (name, table) = line.rsplit_once(": ").or(line.split_once(':')).ok_or_else(wrong)?;
        let targets = devices.entry(name.to_owned()).or_default();
        let mut words = table.split_whitespace().skip(2);
        // A device without a table prints nothing after its name.
        let Some(kind) = words.next() else { continue };
        let parameters: Vec<&str> = words.collect();
        let crypt = if kind == "crypt" { Some(crypt(index + 1, &parameters)?) } else { None };
        targets.push(Target { kind: kind.to_owned(), crypt });
    }
    Ok(devices)
}

/// `<cipher> <key> <iv_offset> <device> <offset> [<count> <options>]`.
fn crypt(line: usize, parameters: &[&str]) -> Result<Crypt, Error> {
    let [cipher, key, _iv_offset, _device, _offset, options @ ..] = parameters else {
        let shown = parameters.first().copied().unwrap_or_default();
        return Err(Error::value(line, shown, "the parameters of a crypt target"));
    };
    let options = options.get(1..).unwrap_or_default();
    let mut sector = Bytes::new(512);
    let mut flags = Vec::new();
    for option in options {
        match option.strip_prefix("sector_size:") {
            Some(size) => sector = Bytes::new(number(line, size)?),
            None => flags.push((*option).to_owned()),
        }
    }
    Ok(Crypt { cipher: (*cipher).to_owned(), key: key_length(key), sector, flags })
}

/// A key is hexadecimal (zeros, unless somebody asked to see it), or `:LENGTH:TYPE:DESCRIPTION` in a keyring.
fn key_length(key: &str) -> Option<Bytes> {
    match key.strip_prefix(':') {
        Some(ring) => ring.split(':').next()?.parse().ok().map(Bytes::new),
        None if key == "-" => Some(Bytes::new(0)),
        None => key.bytes().all(|b| b.is_ascii_hexdigit()).then(|| Bytes::new(key.len() as u64 / 2)),
    }
}

/// The part of a line that may be repeated in an error: whatever follows the name may hold a key.
fn without_key(line: &str) -> &str {
    line.split([':', ' ']).next().unwrap_or_default()
}

/// Who made a device, from the first words of its UUID: `CRYPT-LUKS2`, `LVM`, `mpath`.
pub fn owner(uuid: &str) -> Option<String> {
    let mut words = uuid.trim().split('-');
    let first = words.next().filter(|w| !w.is_empty())?;
    let second = words.next().filter(|_| first == "CRYPT");
    Some(second.map_or_else(|| first.to_owned(), |second| format!("{first}-{second}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
luks-data: 0 41910272 crypt aes-xts-plain64 :64:logon:cryptsetup:2f144a9d-9f4f-4e0e-8b0c-000000000000-d0 0 8:17 32768 2 sector_size:4096 no_read_workqueue
vg-root: 0 8388608 linear 253:0 2048
vg-root: 8388608 8388608 linear 253:0 20973568
old: 0 2048 crypt aes-cbc-essiv:sha256 00000000000000000000000000000000 0 7:0 0
";

    #[test]
    fn a_crypt_target_tells_everything_but_its_key() {
        let devices = parse(TABLE).unwrap();
        let crypt = devices["luks-data"][0].crypt.as_ref().unwrap();
        assert_eq!(crypt.cipher, "aes-xts-plain64");
        assert_eq!((crypt.key, crypt.sector), (Some(Bytes::new(64)), Bytes::new(4096)));
        assert_eq!(crypt.flags, ["no_read_workqueue"]);
        let old = devices["old"][0].crypt.as_ref().unwrap();
        assert_eq!((old.key, old.sector), (Some(Bytes::new(16)), Bytes::new(512)));
        assert_eq!(old.cipher, "aes-cbc-essiv:sha256");
    }

    #[test]
    fn a_device_has_all_its_targets() {
        assert_eq!(parse(TABLE).unwrap()["vg-root"].len(), 2);
    }

    #[test]
    fn no_devices_is_not_an_error_and_an_error_shows_no_key() {
        assert!(parse("No devices found\n").unwrap().is_empty());
        let error = parse("x: 0 8 crypt aes deadbeef\n").unwrap_err().to_string();
        assert_eq!(error, "line 1: `aes` is not the parameters of a crypt target");
    }

    #[test]
    fn the_owner_is_in_the_uuid() {
        let luks = "CRYPT-LUKS2-2f144a9d9f4f4e0e8b0c000000000000-data";
        for (uuid, who) in [(luks, "CRYPT-LUKS2"), ("LVM-abcXYZ", "LVM"), ("mpath-3600", "mpath")] {
            assert_eq!(owner(uuid).as_deref(), Some(who));
        }
        assert_eq!(owner("\n"), None);
    }
}
