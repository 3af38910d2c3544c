//! The mark of what Flyball itself has left on a disk: UUIDs that only this machine's Flyball can have given.
//!
//! Each begins with the same digits, for people, and with two bytes that are this machine's, for udev's rule.
//! Neither proves anything. The proof is its end: a truncated HMAC-SHA256 (RFC 2104; truncation: its section
//! 5) of all that comes before, under a secret that never leaves the state folder. So a UUID that begins like
//! ours, be it another machine's Flyball's or made up, is a stranger's.
//!
//! Not a goal: to withstand one who copies a whole superblock of ours. He needs root, and the ledger still
//! says which disk it was written to.

use super::error::ClaimError;
use super::signatures::Signature;
use super::store::{Store, Turn};
use files::durable::{Permissions, replace};
use files::own::{self, Access};
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::fmt::{self, Write};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The first eight hexadecimal digits of each UUID.
const MARK: [u8; 4] = [0xf1, 0x7b, 0xa1, 0x10];
/// What LVM's identifiers, which are no UUIDs, begin with.
const PV_MARK: &str = "FLYBAL";
/// The characters that LVM takes (`lib/uuid/uuid.c` of LVM2; `!` and `#`, which only very old ones have, left
/// out).
const PV_LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// How the 32 characters of an LVM identifier are grouped, the first group being the mark.
const PV_GROUPS: [usize; 7] = [6, 4, 4, 4, 4, 4, 6];
const PV_LENGTH: usize = 32;
/// Where the proof begins: the last 48 bits of a UUID, the last 14 letters (83 bits) of an identifier of
/// LVM's.
const PROOF: usize = 10;
const PV_PROOF: usize = 18;

const LENGTH: usize = 32;

/// What only this machine's Flyball knows.
#[derive(Clone)]
pub struct Secret([u8; LENGTH]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// The secret of the Flyball that keeps its state in this folder; it is made where there is none yet.
    ///
    /// # Errors
    /// [`ClaimError::Secret`]; [`ClaimError::State`].
    pub fn of(state: &Path) -> Result<Self, ClaimError> {
        match Self::load(state)? {
            Some(secret) => Ok(secret),
            None => Self::made_in_turn(state, &Store::at(state).turn()?),
        }
    }

    /// The same for one who has the turn already.
    pub(super) fn made_in_turn(state: &Path, _turn: &Turn) -> Result<Self, ClaimError> {
        if let Some(secret) = Self::load(state)? {
            return Ok(secret);
        }
        let path = file_in(state);
        let failed = |error: io::Error| ClaimError::Secret { path: path.clone(), reason: error.to_string() };
        let bytes = random::<LENGTH>().map_err(failed)?;
        replace(&path, &bytes, Permissions::Private).map_err(|error| failed(error.into()))?;
        Ok(Self(bytes))
    }

    /// `None` where there is none: then nothing can be its own.
    pub(super) fn load(state: &Path) -> Result<Option<Self>, ClaimError> {
        let path = file_in(state);
        match read(&path) {
            Ok(bytes) => Ok(Some(Self(bytes))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ClaimError::Secret { path, reason: error.to_string() }),
        }
    }

    /// A fresh UUID for an array, a LUKS header or a filesystem, in its usual form.
    ///
    /// # Errors
    /// Where the kernel gives no random numbers.
    pub fn uuid(&self) -> io::Result<String> {
        random().map(|random| self.uuid_of(random))
    }

    /// A fresh identifier for an LVM physical volume, as `pvcreate --uuid` takes it.
    ///
    /// # Errors
    /// Where the kernel gives no random numbers.
    pub fn pv_uuid(&self) -> io::Result<String> {
        random().map(|random| self.pv_uuid_of(random))
    }

    fn uuid_of(&self, random: [u8; 16]) -> String {
        let mut bytes = random;
        bytes[..4].copy_from_slice(&MARK);
        bytes[4..6].copy_from_slice(&self.machine()[..2]);
        // Version 4, variant 1 (RFC 9562): mkfs and cryptsetup take any, other programs may be stricter.
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let proof = self.proof(&bytes[..PROOF]);
        bytes[PROOF..].copy_from_slice(&proof[..16 - PROOF]);
        let mut uuid = String::new();
        for (index, byte) in bytes.iter().enumerate() {
            if [4, 6, 8, 10].contains(&index) {
                uuid.push('-');
            }
            // Writing to a String cannot fail.
            let _ = write!(uuid, "{byte:02x}");
        }
        uuid
    }

    fn pv_uuid_of(&self, random: [u8; PV_LENGTH]) -> String {
        let mut letters = PV_MARK.to_owned();
        letters.push_str(&self.pv_machine());
        letters.extend(random[letters.len()..PV_PROOF].iter().map(letter));
        let proof = self.proof(letters.as_bytes());
        letters.extend(proof[..PV_LENGTH - PV_PROOF].iter().map(letter));
        let mut rest = letters.as_str();
        let groups = PV_GROUPS.map(|length| {
            let (group, left) = rest.split_at(length);
            rest = left;
            group
        });
        groups.join("-")
    }

    /// Whether this secret's Flyball gave this UUID: with dashes, with mdadm's colons or with neither, in any
    /// case; or LVM's.
    pub fn gave(&self, uuid: &str) -> bool {
        let digits: Vec<char> = uuid.chars().filter(|c| !matches!(c, '-' | ':')).collect();
        if digits.len() != PV_LENGTH {
            return false;
        }
        if uuid.starts_with(PV_MARK) {
            let letters: String = digits.into_iter().collect();
            let Some((said, proof)) = letters.split_at_checked(PV_PROOF) else { return false };
            let expected: String =
                self.proof(said.as_bytes())[..PV_LENGTH - PV_PROOF].iter().map(letter).collect();
            return *proof == *expected;
        }
        let Some(bytes) = digits.chunks(2).map(byte).collect::<Option<Vec<u8>>>() else { return false };
        let (said, proof) = bytes.split_at(PROOF);
        said.starts_with(&MARK) && self.proof(said).starts_with(proof)
    }

    /// Whether this signature's UUID is one of ours.
    pub(super) fn made(&self, signature: &Signature) -> bool {
        signature.uuid.as_deref().is_some_and(|uuid| self.gave(uuid))
    }

    /// What udev can know our UUIDs by, as alternatives of a pattern.
    pub(super) fn pattern(&self) -> String {
        let [high, low, ..] = self.machine();
        format!("f17ba110-{high:02x}{low:02x}-*|{PV_MARK}-{}-*", self.pv_machine())
    }

    /// What is this machine's in every UUID.
    fn machine(&self) -> [u8; LENGTH] {
        self.proof(b"flyball: this machine")
    }

    fn pv_machine(&self) -> String {
        self.machine()[..PV_GROUPS[1]].iter().map(letter).collect()
    }

    fn proof(&self, said: &[u8]) -> [u8; LENGTH] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("an HMAC takes a key of any length");
        mac.update(said);
        mac.finalize().into_bytes().into()
    }
}

fn letter(byte: &u8) -> char {
    char::from(PV_LETTERS[usize::from(*byte) % PV_LETTERS.len()])
}

fn byte(digits: &[char]) -> Option<u8> {
    let value = digits.iter().try_fold(0, |value, digit| Some(value * 16 + digit.to_digit(16)?))?;
    u8::try_from(value).ok()
}

fn file_in(state: &Path) -> std::path::PathBuf {
    state.join("secret")
}

/// Only a file of our own that nobody else can read is a secret.
fn read(path: &Path) -> io::Result<[u8; LENGTH]> {
    let mut file = own::open(path, Access::Read)?;
    let metadata = file.metadata()?;
    let no = |why: &str| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    if metadata.len() != LENGTH as u64 {
        return no("it is no file of 32 bytes");
    }
    if metadata.mode() & 0o077 != 0 {
        return no("others may read or change it, so that it is no secret");
    }
    let mut bytes = [0; LENGTH];
    file.read_exact(&mut bytes)?;
    Ok(bytes)
}

pub(crate) fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn secret() -> Secret {
        Secret([7; LENGTH])
    }

    #[test]
    fn the_proof_is_the_hmac_of_rfc_4231() {
        // Its test case 1.
        let key = [0x0b; 20];
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        mac.update(b"Hi There");
        let hex: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    }

    #[test]
    fn what_is_given_is_recognised_in_every_form() {
        let uuid = secret().uuid_of([0xab; 16]);
        // Kept for ever: what an earlier version has left is to be known by a later one.
        assert_eq!(uuid, "f17ba110-4bc9-4bab-abab-6825b5d74984");
        let mdadm = uuid.replace('-', "");
        let groups = [&mdadm[..8], &mdadm[8..16], &mdadm[16..24], &mdadm[24..]].join(":");
        for form in [uuid.clone(), uuid.to_uppercase(), mdadm.clone(), groups] {
            assert!(secret().gave(&form), "{form}");
        }
        let pv = secret().pv_uuid_of([9; 32]);
        assert_eq!(pv, "FLYBAL-DFQ6-9999-9999-mzax-UN5P-izemFv");
        assert!(secret().gave(&pv));
    }

    #[test]
    fn what_others_give_is_not_ours() {
        let (uuid, pv) = (secret().uuid().unwrap(), secret().pv_uuid().unwrap());
        for other in [
            "",
            "f17ba110",
            // As every version before had it, and as anybody can make it up.
            "f17ba110-abab-4bab-abab-abababababab",
            "FLYBAL-9999-9999-9999-9999-9999-999999",
            "abababab-f17b-a110-abab-abababababab",
            "f17ba110-abab-4bab-abab-ababababababab",
            "f17ba110-abab-4bab-abab-ababababab\u{e9}",
            "FLYBAL-9999-9999-9999-9999-9999-99999\u{e9}",
            "F17B-A110",
        ] {
            assert!(!secret().gave(other), "{other}");
        }
        let stranger = Secret([8; LENGTH]);
        assert!(!stranger.gave(&uuid) && !stranger.gave(&pv), "another machine's");
        assert!(!secret().gave(&pv.to_lowercase()));
        for (text, last) in [(uuid, 'f'), (pv, 'z')] {
            assert!(secret().gave(&text));
            for at in (0..text.len()).filter(|at| text.as_bytes()[*at] != b'-') {
                let instead = if text[at..].starts_with(last) { "0" } else { &last.to_string() };
                let changed = [&text[..at], instead, &text[at + 1..]].concat();
                assert!(!secret().gave(&changed), "{changed}");
            }
        }
    }

    #[test]
    fn a_secret_is_made_once_and_read_by_nobody_else() {
        let state = tempfile::tempdir().unwrap();
        let path = file_in(state.path());
        assert!(Secret::load(state.path()).unwrap().is_none());
        let secret = Secret::of(state.path()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Secret::of(state.path()).unwrap().0, secret.0);
        assert_ne!(secret.0, [0; LENGTH]);
        assert_eq!(format!("{secret:?}"), "Secret");
    }

    #[test]
    fn what_others_can_read_or_have_put_there_is_no_secret() {
        let state = tempfile::tempdir().unwrap();
        let path = file_in(state.path());
        let refused = |why: &str| {
            let error = Secret::of(state.path()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        fs::write(&path, [1; LENGTH]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        refused("no secret");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        Secret::of(state.path()).unwrap();
        fs::write(&path, [1; LENGTH - 1]).unwrap();
        refused("32 bytes");
        fs::rename(&path, state.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(state.path().join("elsewhere"), &path).unwrap();
        refused("symbolic link");
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        refused("regular file");
    }
}
