//! What the lab makes for its caches: made in a staging folder, and renamed to where it belongs.

use crate::{Error, Result};
use files::staging::{StagingDir, sweep};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Within a cache; it holds what is being made.
const STAGING: &str = ".staging";

/// A folder to make something in for this cache, which is made where it is missing. What killed programs left
/// there goes.
///
/// # Errors
/// Where it cannot be made.
pub(crate) fn begin(cache: &Path) -> Result<StagingDir> {
    fs::create_dir_all(cache).map_err(|e| Error::file("make", cache, e))?;
    let staging = cache.join(STAGING);
    sweep(&staging)?;
    Ok(StagingDir::begin(&staging, "lab")?)
}

/// Gives what was staged under this name its place. What is there already stays where it is as good, for
/// somebody else has made the same meanwhile, and goes where it is not.
///
/// # Errors
/// Where it cannot be renamed.
pub(crate) fn publish(
    staged: &StagingDir,
    name: &str,
    to: &Path,
    is_good: impl Fn(&Path) -> bool,
) -> Result<()> {
    if to.exists() && !is_good(to) {
        // It goes with the staged folder.
        match fs::rename(to, staged.folder().join("damaged")) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(Error::file("replace", to, e)),
            _ => {}
        }
    }
    match fs::rename(staged.folder().join(name), to) {
        Err(e) if !to.exists() => Err(Error::file("make", to, e)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_stays_where_it_is_good_and_goes_where_it_is_not() {
        let cache = tempfile::tempdir().unwrap();
        let place = cache.path().join("image");
        for (text, is_good, kept) in [("1", true, "1"), ("2", true, "1"), ("3", false, "3")] {
            let staged = begin(cache.path()).unwrap();
            fs::create_dir(staged.folder().join("new")).unwrap();
            fs::write(staged.folder().join("new/a"), text).unwrap();
            publish(&staged, "new", &place, |_| is_good).unwrap();
            drop(staged);
            assert_eq!(fs::read_to_string(place.join("a")).unwrap(), kept);
        }
        let left = fs::read_dir(cache.path().join(STAGING)).unwrap().flatten();
        assert_eq!(left.filter(|entry| entry.file_name() != ".lock").count(), 0);
    }
}
