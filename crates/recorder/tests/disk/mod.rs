//! A block device for a test.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

/// A loop device over a file in memory, released when dropped.
pub struct Loop(pub String);

impl Loop {
    /// `None` where none can be made.
    pub fn new(folder: &Path) -> Option<Self> {
        let file = folder.join("disk");
        File::create(&file).ok()?.set_len(64 << 20).ok()?;
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().ok()?;
        let name = String::from_utf8(made.stdout).ok()?.trim().to_owned();
        (made.status.success() && !name.is_empty()).then_some(Self(name))
    }

    /// Without its folder.
    pub fn name(&self) -> &str {
        self.0.trim_start_matches("/dev/")
    }

    /// Requests and sectors that it read and wrote.
    pub fn counters(&self) -> [u64; 4] {
        let text = fs::read_to_string("/proc/diskstats").unwrap();
        let line = text.lines().find(|line| line.split_whitespace().nth(2) == Some(self.name())).unwrap();
        let words: Vec<u64> = line.split_whitespace().skip(3).map(|word| word.parse().unwrap()).collect();
        [words[0], words[2], words[4], words[6]]
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}
