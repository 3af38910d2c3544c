//! What is on a device, by the signatures that wipefs(8) finds through an open descriptor.
//!
//! libblkid's list of signatures is the field's own and is kept up with it; a second one here would be older
//! each year. `--no-act` reads only. What it cannot name still shows as bytes that are not zero:
//! [`is_blank`].

use super::integrity;
use domain::order;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How much of the beginning is looked at, backed up and erased: superblocks of every kind that libblkid
/// knows are within it, both headers of LUKS2 and an array's superblock of format 1.1 and 1.2 too.
pub const HEAD: u64 = 8 << 20;
/// How much of the end: the second GPT, two of the four labels of ZFS, array superblocks of format 0.90 and
/// 1.0.
pub const TAIL: u64 = 1 << 20;

/// The word for what has no signature and is not zero either.
pub const UNKNOWN_DATA: &str = "data";

/// wipefs reads some hundred KiB; a disk that takes longer than this is not to be measured on.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(2);
/// A signature is a line of a hundred bytes; ZFS has the most, some 150 of them.
const MAX_OUTPUT: u64 = 1 << 20;
const BLOCK: usize = 1 << 20;
/// The descriptor that wipefs is started with; `/dev/stdin` is a link to it that udev makes.
const STANDARD_INPUT: &str = "/proc/self/fd/0";

/// One signature on a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Signature {
    /// What it is, in libblkid's words: `xfs`, `gpt`, `linux_raid_member`, `LVM2_member`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Where it is, in bytes from the beginning.
    pub offset: u64,
    /// Its UUID, where it has one.
    pub uuid: Option<String>,
    /// Its label, where it has one.
    pub label: Option<String>,
}

impl Signature {
    /// Whether one of these words names it. A protective MBR is a part of the GPT that it protects.
    pub fn is_named_in(&self, kinds: &BTreeSet<String>) -> bool {
        let named = |kind: &str| kinds.iter().any(|word| word.eq_ignore_ascii_case(kind));
        named(&self.kind) || self.kind == "PMBR" && named("gpt")
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` at byte {}", self.kind, self.offset)?;
        let label = self.label.iter().map(|label| format!("label {label:?}"));
        let uuid = self.uuid.iter().map(|uuid| format!("UUID {uuid}"));
        let more: Vec<String> = label.chain(uuid).collect();
        if more.is_empty() { Ok(()) } else { write!(f, " ({})", more.join(", ")) }
    }
}

#[derive(Deserialize)]
struct Report {
    signatures: Vec<Line>,
}

#[derive(Deserialize)]
struct Line {
    offset: String,
    #[serde(rename = "type")]
    kind: String,
    uuid: Option<String>,
    label: Option<String>,
}

/// Every signature on the device behind this descriptor.
///
/// # Errors
/// As text: wipefs is not there, does not end, fails, or says what cannot be understood.
pub(crate) fn signatures(device: &File) -> Result<Vec<Signature>, String> {
    let output = run_wipefs(device)?;
    let mut found = parse(&output)?;
    // libblkid knows none of dm-integrity's.
    for superblock in found.iter_mut().filter(|found| found.kind == integrity::KIND && found.offset == 0) {
        superblock.uuid = integrity::marked(device).map_err(|error| error.to_string())?;
    }
    Ok(found)
}

/// Nothing at all is what it prints for an empty device in some versions (2.38 and before print an empty
/// list).
fn parse(output: &[u8]) -> Result<Vec<Signature>, String> {
    if output.iter().all(u8::is_ascii_whitespace) {
        return Ok(Vec::new());
    }
    let report: Report =
        serde_json::from_slice(output).map_err(|error| format!("its report cannot be read: {error}"))?;
    let signature = |line: Line| {
        let digits = line.offset.strip_prefix("0x");
        let offset = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        let offset = offset.ok_or_else(|| format!("`{}` is no offset", line.offset))?;
        Ok(Signature { kind: line.kind, offset, uuid: line.uuid, label: line.label })
    };
    let mut found = report.signatures.into_iter().map(signature).collect::<Result<Vec<_>, String>>()?;
    order::by_key(&mut found, |signature| signature.offset);
    Ok(found)
}

/// It gets the descriptor itself, so that a path which leads elsewhere by now does not matter.
fn run_wipefs(device: &File) -> Result<Vec<u8>, String> {
    let failed = |error: io::Error| error.to_string();
    let mut child = Command::new("wipefs")
        .args(["--json", "--no-act", "--output", "OFFSET,TYPE,UUID,LABEL", STANDARD_INPUT])
        .env_clear()
        // Root's own folders may be missing in the path of one who became root by `su`.
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("LC_ALL", "C")
        .stdin(Stdio::from(device.try_clone().map_err(failed)?))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let output = drain(child.stdout.take());
    let complaint = drain(child.stderr.take());
    let deadline = Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = child.try_wait().map_err(failed)? {
            break status;
        }
        if Instant::now() >= deadline {
            // It may be stuck in the kernel; nothing is gained by waiting for its end.
            let _ = child.kill();
            return Err(format!("it did not end within {PATIENCE:?}"));
        }
        std::thread::sleep(POLL);
    };
    let (output, complaint) = (output.join().unwrap_or_default(), complaint.join().unwrap_or_default());
    // What it could not read it says in passing, and ends with success.
    if status.success() && complaint.is_empty() {
        return Ok(output);
    }
    Err(format!("{status}: {}", String::from_utf8_lossy(&complaint).trim()))
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            // What was read before an error is judged by whether it is whole.
            let _ = pipe.take(MAX_OUTPUT).read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Where head and tail of a device of this size begin, and how long they are. They never overlap.
pub(crate) fn ends(size: u64) -> [(u64, u64); 2] {
    let head = size.min(HEAD);
    let tail = (size - head).min(TAIL);
    [(0, head), (size - tail, tail)]
}

/// Whether head and tail are all zero.
///
/// # Errors
/// As the kernel gives them.
pub(crate) fn is_blank(device: &File, size: u64) -> io::Result<bool> {
    let (mut block, zeros) = (vec![0; BLOCK], vec![0; BLOCK]);
    for (start, length) in ends(size) {
        let mut done = 0;
        while done < length {
            let wanted = usize::try_from(length - done).unwrap_or(BLOCK).min(BLOCK);
            device.read_exact_at(&mut block[..wanted], start + done)?;
            if block[..wanted] != zeros[..wanted] {
                return Ok(false);
            }
            done += wanted as u64;
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_wipefs_is_understood() {
        // util-linux 2.38.1, a GPT on a loop device.
        let text = br#"{
   "signatures": [
      {
         "offset": "0x200",
         "type": "gpt",
         "uuid": null,
         "label": null
      },{
         "offset": "0x1fe",
         "type": "PMBR",
         "uuid": null,
         "label": null
      }
   ]
}"#;
        let kinds: Vec<(String, u64)> =
            parse(text).unwrap().into_iter().map(|s| (s.kind, s.offset)).collect();
        assert_eq!(kinds, [("PMBR".to_owned(), 0x1fe), ("gpt".to_owned(), 0x200)]);
        assert_eq!(parse(b"\n"), Ok(vec![]));
    }

    #[test]
    fn a_report_that_is_not_whole_is_no_empty_device() {
        for text in [
            "{",
            "{}",
            r#"{"signatures": [{"type": "xfs"}]}"#,
            r#"{"signatures":[{"offset":"9","type":"x"}]}"#,
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_protective_mbr_is_named_with_its_gpt() {
        let pmbr = Signature { kind: "PMBR".into(), offset: 510, uuid: None, label: None };
        assert!(pmbr.is_named_in(&["gpt".to_owned()].into()));
        assert!(!pmbr.is_named_in(&["dos".to_owned()].into()));
        let xfs = Signature { kind: "xfs".into(), ..pmbr };
        assert!(xfs.is_named_in(&["XFS".to_owned()].into()) && !xfs.is_named_in(&["gpt".to_owned()].into()));
    }

    #[test]
    fn head_and_tail_of_a_small_device_do_not_overlap() {
        assert_eq!(ends(0), [(0, 0), (0, 0)]);
        assert_eq!(ends(HEAD - 512), [(0, HEAD - 512), (HEAD - 512, 0)]);
        assert_eq!(ends(HEAD + 512), [(0, HEAD), (HEAD, 512)]);
        assert_eq!(ends(1 << 30), [(0, HEAD), ((1 << 30) - TAIL, TAIL)]);
    }
}
