//! `/proc/mounts` and `/proc/self/mountinfo`: proc_pid_mounts(5), proc_pid_mountinfo(5).

use super::Error;
use std::collections::BTreeMap;

/// A line of `/proc/mounts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountLine {
    /// What is mounted.
    pub source: String,
    /// Where.
    pub mountpoint: String,
    /// The filesystem's type.
    pub filesystem: String,
    /// In the kernel's order.
    pub options: Vec<String>,
}

/// Reads `/proc/mounts`, in its order: a later line covers an earlier one of the same mount point.
///
/// # Errors
/// Where a line has fewer than four fields.
pub fn parse(text: &str) -> Result<Vec<MountLine>, Error> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| {
            let fields: Vec<&str> = line.split(' ').collect();
            let [source, mountpoint, filesystem, options, ..] = fields[..] else {
                return Err(Error::value(index + 1, line, "a mount with at least four fields"));
            };
            Ok(MountLine {
                source: unescape(source),
                mountpoint: unescape(mountpoint),
                filesystem: filesystem.to_owned(),
                options: options.split(',').map(unescape).collect(),
            })
        })
        .collect()
}

/// Reads `/proc/self/mountinfo`: mount point to the `major:minor` of what is mounted there last.
///
/// # Errors
/// Where a line has fewer than five fields.
pub fn parse_device_numbers(text: &str) -> Result<BTreeMap<String, String>, Error> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_id, _parent, number, _root, mountpoint, ..] = fields[..] else {
                return Err(Error::value(index + 1, line, "a mount with at least five fields"));
            };
            Ok((unescape(mountpoint), number.to_owned()))
        })
        .collect()
}

/// Undoes `\040` and its like, by which the kernel writes blanks and backslashes.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..3).filter(|_| *first == b'\\').and_then(octal);
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blanks_in_names_are_unescaped() {
        let found = parse("/dev/sda1 /mnt/my\\040disk ext4 rw,relatime,data=journal 0 0\n").unwrap();
        assert_eq!(found[0].mountpoint, "/mnt/my disk");
        assert_eq!(found[0].options, ["rw", "relatime", "data=journal"]);
        assert_eq!(unescape("a\\x\\04"), "a\\x\\04");
    }

    #[test]
    fn a_short_line_is_an_error_that_names_it() {
        let error = parse("proc /proc proc rw 0 0\n/dev/sda1 /\n").unwrap_err();
        assert_eq!(error.to_string(), "line 2: `/dev/sda1 /` is not a mount with at least four fields");
    }

    #[test]
    fn mountinfo_names_the_device_behind_dev_root() {
        let text =
            "20 1 254:0 / / rw,relatime - ext4 /dev/root rw\n21 20 0:5 / /dev rw - devtmpfs devtmpfs rw\n";
        assert_eq!(parse_device_numbers(text).unwrap()["/"], "254:0");
    }
}
