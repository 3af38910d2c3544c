//! Where things are: the notebook, the state folder, the work folder. The environment is read
//! here, and in the crate `terminal` for what is printed.

use anyhow::{Context, Result};
use command_line::Global;
use machine::lasting::Roots;
use std::env;
use std::path::{Path, PathBuf};

/// Where root's ledger of changes is, where `FLYBALL_STATE` names no other folder.
pub const STATE_OF_ROOT: &str = "/var/lib/flyball";

/// How this program is typed so that it finds the same notebook: `flyball`, or `flyball --notebook DIR`.
pub fn this_program(global: &Global) -> String {
    match &global.notebook {
        Some(folder) => format!("flyball --notebook {}", report::shell_quoted(&folder.to_string_lossy())),
        None => "flyball".to_owned(),
    }
}

/// The notebook: `--notebook`, else `FLYBALL_NOTEBOOK`, else `flyball` in the XDG data home.
pub fn notebook(global: &Global) -> Result<PathBuf> {
    if let Some(folder) = &global.notebook {
        return Ok(folder.clone());
    }
    match variable("FLYBALL_NOTEBOOK") {
        Some(folder) => Ok(folder),
        None => Ok(xdg("XDG_DATA_HOME", ".local/share", "results", "--notebook")?.join("flyball")),
    }
}

/// Where the ledger of changes is: `FLYBALL_STATE`, else `/var/lib/flyball` for root, else `flyball` in the
/// XDG state home. Two users have two ledgers, for what one may change the other may not undo.
pub fn state() -> Result<PathBuf> {
    let folder = match variable("FLYBALL_STATE") {
        Some(folder) => folder,
        None if is_root() => STATE_OF_ROOT.into(),
        None => {
            xdg("XDG_STATE_HOME", ".local/state", "the ledger of changes", "FLYBALL_STATE")?.join("flyball")
        }
    };
    trusted(folder).context("cannot use the folder of the ledger (FLYBALL_STATE)")
}

/// The file whose lock is this machine's: `flyball.lock` in the folder that `FLYBALL_RUN` names, else in
/// `/run` for root, else in the user's runtime folder (`XDG_RUNTIME_DIR`). `None` where there is none of
/// these: then the state folder's lock is all.
pub fn machine_lock() -> Option<PathBuf> {
    let by_default = || if is_root() { Some("/run".into()) } else { variable("XDG_RUNTIME_DIR") };
    let folder = variable("FLYBALL_RUN").or_else(by_default)?;
    folder.is_dir().then(|| folder.join("flyball.lock"))
}

/// Where the system's configuration is: below `FLYBALL_ROOT`, else `/`.
pub fn roots() -> Roots {
    Roots::below(&variable("FLYBALL_ROOT").unwrap_or_else(|| "/".into()))
}

/// Where kernels and guest images of the lab are kept: `FLYBALL_CACHE`, else `flyball` in the XDG cache home.
pub fn cache() -> Result<PathBuf> {
    let folder = match variable("FLYBALL_CACHE") {
        Some(folder) => folder,
        None => {
            xdg("XDG_CACHE_HOME", ".cache", "the lab's kernels and images", "FLYBALL_CACHE")?.join("flyball")
        }
    };
    trusted(folder).context("cannot use the folder of the lab's kernels and images (FLYBALL_CACHE)")
}

/// Root uses no folder that somebody else could put another one in the place of.
fn trusted(folder: PathBuf) -> Result<PathBuf> {
    if is_root() { Ok(files::trust::check(&folder)?) } else { Ok(folder) }
}

/// The pipe into which a command marks that is recorded: `FLYBALL_MARKS`.
pub fn marks() -> Option<PathBuf> {
    variable(runner::marks::PATH_VARIABLE)
}

/// The QEMU of the lab, where it is not the one in the usual folders: `FLYBALL_QEMU`.
pub fn qemu() -> Option<PathBuf> {
    variable("FLYBALL_QEMU")
}

/// The lab's QEMU plugin, where it is not beside this program: `FLYBALL_PSTATE_PLUGIN`.
pub fn pstate_plugin() -> Option<PathBuf> {
    variable("FLYBALL_PSTATE_PLUGIN")
}

/// A program of this name, in the folders that PATH names.
pub fn program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let is_program =
        |path: &PathBuf| rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() && path.is_file();
    env::split_paths(&path).map(|folder| folder.join(name)).find(is_program)
}

/// The time zone that programs are to print in, where it is not the machine's: `TZ`.
pub fn time_zone() -> Option<std::ffi::OsString> {
    env::var_os("TZ")
}

/// Whether this is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A path as the user could type it from anywhere.
pub fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).with_context(|| format!("cannot make `{}` absolute", path.display()))
}

fn xdg(name: &str, fallback: &str, purpose: &str, instead: &str) -> Result<PathBuf> {
    if let Some(folder) = variable(name).filter(|f| f.is_absolute()) {
        return Ok(folder);
    }
    let home = variable("HOME").with_context(|| {
        format!("cannot find a folder for {purpose}: HOME is not set; set it, or name one with {instead}")
    })?;
    Ok(home.join(fallback))
}

fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from)
}
