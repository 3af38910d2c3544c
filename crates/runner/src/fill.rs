//! The bytes of a target: incompressible, and the same for the same seed.

use crate::Error;
use domain::rng::{Rng, Seed};
use domain::units::Bytes;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// What is written at once, and the grain of an interruption.
const BLOCK: usize = 1 << 20;

/// What must stay free on the target's filesystem: room for the trials' own records, and for everybody else.
pub const RESERVE: Bytes = Bytes::from_mib(64);

/// Fills an open file from its beginning with pseudo-random bytes of `seed`, and waits until they are on the
/// device.
///
/// # Errors
/// [`Error::File`] where the disk does not take them, [`Error::Interrupted`] once `interrupt` is set.
pub fn fill(
    file: &mut File,
    path: &Path,
    size: Bytes,
    seed: Seed,
    interrupt: &AtomicBool,
) -> Result<(), Error> {
    let failed = |e| Error::file("fill", path, e);
    let mut rng = seed.stream("target");
    let mut block = vec![0; BLOCK];
    let mut left = size.get();
    while left > 0 {
        if interrupt.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        randomise(&mut block, &mut rng);
        let length = left.min(BLOCK as u64) as usize;
        file.write_all(&block[..length]).map_err(failed)?;
        left -= length as u64;
    }
    file.sync_all().map_err(failed)
}

/// Says how much space is missing for a target of `wanted` in `folder`, if any is.
///
/// # Errors
/// [`Error::NoSpace`], or [`Error::File`] where the folder cannot be looked at.
pub fn check_space(folder: &Path, wanted: Bytes) -> Result<(), Error> {
    check_room(folder, wanted, RESERVE)
}

/// The same where so much has to stay free: on a filesystem of our own nothing has.
///
/// # Errors
/// As [`check_space`].
pub(crate) fn check_room(folder: &Path, wanted: Bytes, reserve: Bytes) -> Result<(), Error> {
    let space =
        rustix::fs::statvfs(folder).map_err(|e| Error::file("look for space in", folder, e.into()))?;
    let free = Bytes::new(space.f_bavail.saturating_mul(space.f_frsize));
    let needed = wanted.get().saturating_add(reserve.get());
    let missing = Bytes::new(needed.saturating_sub(free.get()));
    if missing.get() == 0 {
        return Ok(());
    }
    Err(Error::NoSpace { folder: folder.to_owned(), wanted, free, reserve, missing })
}

fn randomise(block: &mut [u8], rng: &mut Rng) {
    for word in block.chunks_exact_mut(8) {
        word.copy_from_slice(&rng.bits().to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(size: Bytes, seed: Seed) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("target");
        let mut file = File::create(&path).unwrap();
        fill(&mut file, &path, size, seed, &AtomicBool::new(false)).unwrap();
        std::fs::read(path).unwrap()
    }

    #[test]
    fn one_seed_gives_the_same_bytes_and_no_other_does() {
        let size = Bytes::new((3 << 20) + 5);
        let bytes = filled(size, Seed(1));
        assert_eq!(bytes.len() as u64, size.get());
        assert!(bytes == filled(size, Seed(1)));
        assert!(bytes != filled(size, Seed(2)));
    }

    #[test]
    fn the_bytes_do_not_compress() {
        let bytes = filled(Bytes::from_mib(2), Seed(3));
        let mut counts = [0_u32; 256];
        bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
        let entropy: f64 = counts
            .iter()
            .map(|n| f64::from(*n) / bytes.len() as f64)
            .map(|share| -share * share.log2())
            .sum();
        assert!(entropy > 7.999, "{entropy} bits a byte");
        assert!(bytes[..1 << 20] != bytes[1 << 20..], "blocks repeat");
    }

    #[test]
    fn space_that_is_missing_is_said_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        check_space(folder.path(), Bytes::from_kib(1)).unwrap();
        let error = check_space(folder.path(), Bytes::from_mib(1 << 40)).unwrap_err().to_string();
        assert!(
            error.contains(&folder.path().display().to_string()) && error.contains("are missing"),
            "{error}"
        );
    }

    #[test]
    fn filling_stops_when_asked_to() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("target");
        let mut file = File::create(&path).unwrap();
        let result = fill(&mut file, &path, Bytes::from_mib(64), Seed(1), &AtomicBool::new(true));
        assert!(matches!(result, Err(Error::Interrupted)));
        assert_eq!(path.metadata().unwrap().len(), 0);
    }
}
