//! `flyball lab kernels`, `images` and `clean`: what the lab keeps.

use crate::args::{Global, LabKernels};
use crate::exit::End;
use crate::{places, put};
use ::lab::image;
use ::lab::kernel::Kernels;
use anyhow::{Context, Result};
use domain::units::Bytes;
use serde_json::json;
use std::fmt::Write;

/// The version of the JSON that these commands print.
const SCHEMA: u32 = 1;

/// Lists kernels, after those that are asked for were downloaded.
pub fn kernels(global: &Global, arguments: &LabKernels) -> Result<End> {
    let kernels = Kernels::new(&places::cache()?.join("kernels"));
    for wanted in &arguments.get {
        kernels.get(wanted, &mut |text| eprintln!("{text}"))?;
    }
    let all = kernels.list()?;
    if global.json {
        let rows = all.iter().map(|k| json!({ "release": k.release, "unpacked": k.unpacked }));
        put(&json!({ "schema": SCHEMA, "kernels": rows.collect::<Vec<_>>() }).to_string())?;
        return Ok(End::Done);
    }
    let mut text = String::new();
    for kernel in &all {
        let state = if kernel.unpacked { "unpacked" } else { "can be downloaded" };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:32} {state}", kernel.release);
    }
    if all.is_empty() {
        eprintln!(
            "no kernel is unpacked here, and apt offers none; `--kernel FILE` takes a vmlinuz or a Debian package"
        );
    }
    put(&text)?;
    Ok(End::Done)
}

/// Lists guest images.
pub fn images(global: &Global) -> Result<End> {
    let all = image::list(&places::cache()?.join("images"));
    if global.json {
        let rows = all.iter().map(|i| json!({ "digest": i.digest, "kernel": i.kernel, "bytes": i.size }));
        put(&json!({ "schema": SCHEMA, "images": rows.collect::<Vec<_>>() }).to_string())?;
        return Ok(End::Done);
    }
    let mut text = String::new();
    for image in &all {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}  {:32} {}", image.digest, image.kernel, Bytes::new(image.size));
    }
    if all.is_empty() {
        eprintln!("there is no guest image yet; `flyball lab run` builds what it needs");
    }
    put(&text)?;
    Ok(End::Done)
}

/// Removes all of them. What a running machine has open stays until that ends.
pub fn clean() -> Result<End> {
    let cache = places::cache()?;
    for name in ["kernels", "images"] {
        let folder = cache.join(name);
        match std::fs::remove_dir_all(&folder) {
            Ok(()) => eprintln!("removed `{}`", folder.display()),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(e).with_context(|| format!("cannot remove `{}`", folder.display())),
        }
    }
    Ok(End::Done)
}
