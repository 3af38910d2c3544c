//! `flyball lab kernels`, `images` and `clean`: what the lab keeps.

use crate::exit::End;
use crate::places;
use ::lab::image::{self, Stored};
use ::lab::kernel::{self, Kernels, Listed};
use anyhow::{Context, Result};
use command_line::{Global, LabKernels};

/// Lists kernels, after those that are asked for were downloaded.
pub fn kernels(global: &Global, arguments: &LabKernels) -> Result<End> {
    let kernels = Kernels::new(&places::cache()?.join("kernels"));
    for wanted in &arguments.get {
        kernels.get(wanted, &mut |text| terminal::say(text))?;
    }
    let all = kernels.list()?;
    if global.json {
        terminal::json(&kernel::as_json(&all))?;
        return Ok(End::Done);
    }
    if all.is_empty() {
        terminal::say(
            "no kernel is unpacked here, and apt offers none; `--kernel FILE` takes a vmlinuz or a Debian package",
        );
    }
    terminal::lines(&all.iter().map(Listed::in_words).collect())?;
    Ok(End::Done)
}

/// Lists guest images.
pub fn images(global: &Global) -> Result<End> {
    let all = image::list(&places::cache()?.join("images"));
    if global.json {
        terminal::json(&image::as_json(&all))?;
        return Ok(End::Done);
    }
    if all.is_empty() {
        terminal::say("there is no guest image yet; `flyball lab run` builds what it needs");
    }
    terminal::lines(&all.iter().map(Stored::in_words).collect())?;
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
