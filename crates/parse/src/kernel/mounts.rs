//! `/proc/mounts` and `/proc/self/mountinfo`: proc_pid_mounts(5), proc_pid_mountinfo(5).

use super::Error;
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

/// A line of `/proc/self/mountinfo`, which also knows the device's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountInfo {
    /// `major:minor` of what is mounted.
    pub number: String,
    /// Where.
    pub mountpoint: String,
    /// The filesystem's type.
    pub filesystem: String,
    /// What is mounted.
    pub source: String,
    /// Those of the mount, then those of the filesystem, each once.
    pub options: Vec<String>,
}

/// The lines of `/proc/self/mountinfo`, in its order: a later one covers an earlier one of the same mount
/// point.
///
/// The items are errors where a line lacks fields.
pub fn mountinfo(text: &str) -> impl Iterator<Item = Result<MountInfo, Error>> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(index, line)| {
        mountinfo_line(line).ok_or_else(|| Error::value(index + 1, line, "a mount of mountinfo's form"))
    })
}

/// Between the options of the mount and the type stand any number of further fields, and a lone `-`.
fn mountinfo_line(line: &str) -> Option<MountInfo> {
    let (head, tail) = line.split_once(" - ")?;
    let (head, tail): (Vec<&str>, Vec<&str>) = (head.split(' ').collect(), tail.split(' ').collect());
    let [_id, _parent, number, _root, mountpoint, of_mount, ..] = head[..] else { return None };
    let [filesystem, source, of_filesystem, ..] = tail[..] else { return None };
    let mut options: Vec<String> = Vec::new();
    for option in of_mount.split(',').chain(of_filesystem.split(',')).filter(|o| !o.is_empty()).map(unescape)
    {
        if !options.contains(&option) {
            options.push(option);
        }
    }
    Some(MountInfo {
        number: number.to_owned(),
        mountpoint: unescape(mountpoint),
        filesystem: filesystem.to_owned(),
        source: unescape(source),
        options,
    })
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
        let text = "20 1 254:0 / / rw,relatime shared:1 master:2 - ext4 /dev/root rw,discard\n";
        let expected = MountInfo {
            number: "254:0".into(),
            mountpoint: "/".into(),
            filesystem: "ext4".into(),
            source: "/dev/root".into(),
            options: ["rw", "relatime", "discard"].map(String::from).into(),
        };
        assert_eq!(mountinfo(text).collect::<Vec<_>>(), [Ok(expected)]);
    }

    #[test]
    fn a_torn_line_of_mountinfo_is_an_error_and_the_others_are_read() {
        let text = "21 20 0:5 / /dev rw - devtmpfs devtmpfs rw\n22 20 0:6 / /run rw";
        let all: Vec<_> = mountinfo(text).collect();
        assert_eq!((all.len(), all[0].is_ok(), all[1].is_err()), (2, true, true));
    }
}
