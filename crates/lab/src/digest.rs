//! Digests of what the cache holds: short names of contents, and sums by which a file that was damaged since
//! is told.
//!
//! The sums of a folder lie in it, as `sha256sum -c` reads them. SHA-256 takes 0.2 s for an image of 235 MiB
//! where the CPU has instructions for it, and a second where it has not; a guest takes several to boot.

use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The file of a folder's sums.
const SUMS: &str = "SHA256SUMS";

/// How many bytes of a SHA-256 make a name: two different contents share one with a chance of one in 2^64.
const BYTES: usize = 8;

/// The name of a text.
pub fn of_text(text: &str) -> String {
    let digest = Sha256::digest(text.as_bytes());
    hexadecimal(&digest[..BYTES])
}

/// How much of a file is read at once: enough that the calls cost nothing beside the sum.
const BUFFER: usize = 64 << 10;

/// What a folder's files are, held against their sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// As they were when the sums were written.
    Whole,
    /// There are no sums.
    NoSums,
    /// They are not, and why.
    Damaged(String),
}

/// Writes the sums of all files below a folder into it.
///
/// # Errors
/// As the system gives them.
pub(crate) fn write_sums(folder: &Path) -> io::Result<()> {
    let mut text = String::new();
    for file in files_below(folder)? {
        let name = file.strip_prefix(folder).expect("it is below").display().to_string();
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}  {name}", sum(&file)?);
    }
    fs::write(folder.join(SUMS), text)
}

/// Reads all files that a folder has sums of; `needed` have to be among them.
pub(crate) fn check_sums(folder: &Path, needed: &[&str]) -> Checked {
    let text = match fs::read_to_string(folder.join(SUMS)) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Checked::NoSums,
        Err(error) => return Checked::Damaged(format!("cannot read its sums: {error}")),
    };
    let lines: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once("  ")).collect();
    let has = |name: &&&str| !lines.iter().any(|(_, known)| known == *name);
    if let Some(name) = needed.iter().find(has) {
        return Checked::Damaged(format!("its sums say nothing of `{name}`"));
    }
    let wrong = lines.into_iter().find_map(|(expected, name)| match sum(&folder.join(name)) {
        Ok(found) if found == expected => None,
        Ok(_) => Some(format!("`{name}` is not what it was when it was made")),
        Err(error) => Some(format!("cannot read `{name}`: {error}")),
    });
    wrong.map_or(Checked::Whole, Checked::Damaged)
}

fn sum(file: &Path) -> io::Result<String> {
    let (mut hasher, mut file) = (Sha256::new(), File::open(file)?);
    let mut buffer = vec![0; BUFFER];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hexadecimal(&hasher.finalize())),
            read => hasher.update(&buffer[..read]),
        }
    }
}

/// Links are left out: what they lead to is a file of its own.
fn files_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            files.extend(files_below(&entry.path())?);
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    files.sort();
    Ok(files)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("deep")).unwrap();
        fs::write(folder.path().join("deep/file"), "abc").unwrap();
        fs::write(folder.path().join("root"), "def").unwrap();
        folder
    }

    #[test]
    fn sums_are_what_sha256sum_reads() {
        let folder = folder();
        write_sums(folder.path()).unwrap();
        assert_eq!(
            fs::read_to_string(folder.path().join(SUMS)).unwrap(),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  deep/file\n\
             cb8379ac2098aa165029e3938a51da0bcecfc008fd6795f401178647f96c5b34  root\n"
        );
        assert_eq!(check_sums(folder.path(), &["root"]), Checked::Whole);
    }

    #[test]
    fn what_was_changed_cut_or_lost_since_is_damaged() {
        let folder = folder();
        assert_eq!(check_sums(folder.path(), &[]), Checked::NoSums);
        write_sums(folder.path()).unwrap();
        let file = folder.path().join("deep/file");
        for bytes in ["abd", "ab", "abcd", ""] {
            fs::write(&file, bytes).unwrap();
            let checked = check_sums(folder.path(), &[]);
            assert!(matches!(&checked, Checked::Damaged(why) if why.contains("deep/file")), "{checked:?}");
        }
        fs::remove_file(&file).unwrap();
        assert!(matches!(check_sums(folder.path(), &[]), Checked::Damaged(_)));
        fs::write(folder.path().join(SUMS), "").unwrap();
        assert!(matches!(check_sums(folder.path(), &["root"]), Checked::Damaged(_)));
    }
}
