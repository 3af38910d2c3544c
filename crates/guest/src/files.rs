//! A folder, sent to the host.

use super::agent::reply;
use crate::error::{Doing, Result};
use lab::guest::Reply;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

pub(super) use lab::guest::PIECE;

/// Sends every file below a folder, in pieces, the names relative to it.
pub(super) fn send_folder(port: &mut File, folder: &Path) -> Result<()> {
    send_below(port, folder, folder)
}

fn send_below(port: &mut File, root: &Path, folder: &Path) -> Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)
        .and_then(Iterator::collect::<std::io::Result<_>>)
        .doing(|| format!("list `{}`", folder.display()))?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if path.is_dir() {
            send_below(port, root, &path)?;
        } else {
            send_file(port, root, &path)?;
        }
    }
    Ok(())
}

fn send_file(port: &mut File, root: &Path, path: &Path) -> Result<()> {
    let shown = path.display();
    let name = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
    let mut file = File::open(path).doing(|| format!("open `{shown}`"))?;
    let mut buffer = vec![0; PIECE];
    let mut sent = false;
    loop {
        let count = file.read(&mut buffer).doing(|| format!("read `{shown}`"))?;
        // An empty file is a piece of no bytes.
        if count == 0 && sent {
            return Ok(());
        }
        reply(port, &Reply::File { path: name.clone() }, &buffer[..count])?;
        sent = true;
    }
}
