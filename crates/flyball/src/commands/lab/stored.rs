//! `flyball lab kernels`, `images` and `clean`: what the lab keeps.

use crate::exit::End;
use crate::places;
use ::lab::image;
use ::lab::kernel::Kernels;
use anyhow::{Context, Result};
use command_line::{Global, LabKernels};
use domain::inert::Lines;
use domain::units::Bytes;
use serde_json::json;

/// The version of the JSON that these commands print.
const SCHEMA: u32 = 1;

/// Lists kernels, after those that are asked for were downloaded.
pub fn kernels(global: &Global, arguments: &LabKernels) -> Result<End> {
    let kernels = Kernels::new(&places::cache()?.join("kernels"));
    for wanted in &arguments.get {
        kernels.get(wanted, &mut |text| terminal::say(text))?;
    }
    let all = kernels.list()?;
    if global.json {
        let rows = all.iter().map(|k| json!({ "release": k.release, "unpacked": k.unpacked }));
        terminal::json(&json!({ "schema": SCHEMA, "kernels": rows.collect::<Vec<_>>() }).to_string())?;
        return Ok(End::Done);
    }
    let mut text = Lines::default();
    for kernel in &all {
        let state = if kernel.unpacked { "unpacked" } else { "can be downloaded" };
        text.line(format_args!("{:32} {state}", kernel.release));
    }
    if all.is_empty() {
        terminal::say(
            "no kernel is unpacked here, and apt offers none; `--kernel FILE` takes a vmlinuz or a Debian package",
        );
    }
    terminal::lines(&text)?;
    Ok(End::Done)
}

/// Lists guest images.
pub fn images(global: &Global) -> Result<End> {
    let all = image::list(&places::cache()?.join("images"));
    if global.json {
        let rows = all.iter().map(|i| json!({ "digest": i.digest, "kernel": i.kernel, "bytes": i.size }));
        terminal::json(&json!({ "schema": SCHEMA, "images": rows.collect::<Vec<_>>() }).to_string())?;
        return Ok(End::Done);
    }
    let mut text = Lines::default();
    for image in &all {
        text.line(format_args!("{}  {:32} {}", image.digest, image.kernel, Bytes::new(image.size)));
    }
    if all.is_empty() {
        terminal::say("there is no guest image yet; `flyball lab run` builds what it needs");
    }
    terminal::lines(&text)?;
    Ok(End::Done)
}

/// Removes all of them. What a running machine has open stays until that ends.
pub fn clean() -> Result<End> {
    let cache = places::cache()?;
    for name in ["kernels", "images"] {
        let folder = cache.join(name);
        match std::fs::remove_dir_all(&folder) {
            Ok(()) => terminal::say(format_args!("removed `{}`", folder.display())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(e).with_context(|| format!("cannot remove `{}`", folder.display())),
        }
    }
    Ok(End::Done)
}
