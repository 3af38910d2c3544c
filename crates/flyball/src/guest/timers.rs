//! The kernel's timers, stretched by the time dilation before anything is measured.

use anyhow::{Context, Result};
use lab::dilation::{TIMERS, stretched_value};
use std::fs;
use std::path::{Path, PathBuf};

/// Where timers are that every trial has, whatever it sets itself.
const FOLDERS: [&str; 2] = ["/proc/sys/vm", "/sys/kernel/debug/sched"];

/// Stretches what is set when the machine starts. A governor's own timers appear with the governor; a study sets them.
pub(super) fn stretch(dilation: f64) -> Result<()> {
    let files =
        FOLDERS.iter().flat_map(|folder| TIMERS.iter().map(move |(name, _)| Path::new(folder).join(name)));
    files.filter(|file| file.exists()).try_for_each(|file| stretch_one(&file, dilation))
}

fn stretch_one(file: &PathBuf, dilation: f64) -> Result<()> {
    let shown = file.display();
    let value = fs::read_to_string(file).with_context(|| format!("cannot read `{shown}`"))?;
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    match stretched_value(&name, value.trim(), dilation) {
        Some(stretched) if stretched != value.trim() => {
            fs::write(file, &stretched).with_context(|| format!("cannot write `{stretched}` to `{shown}`"))
        }
        _ => Ok(()),
    }
}
