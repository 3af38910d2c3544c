//! Whose rights a process has: nobody's, and no way to get others.

use rustix::process::{Gid, Uid, getgid, getuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, set_capabilities,
    set_no_new_privs, set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

/// The user and group that own nothing: `nobody` and `nogroup`, by the number that the kernel itself gives to
/// what has no owner (`overflowuid`).
const NOBODY: u32 = 65_534;

pub fn drop_all() -> Result<(), String> {
    set_no_new_privs(true).map_err(|error| format!("cannot give up new privileges: {error}"))?;
    let identity = if holds_any() { become_nobody() } else { Ok(()) };
    // Also where the user could not be changed, as in a container that knows no other.
    let _ = clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
        .map_err(|error| format!("cannot drop capabilities: {error}"))?;
    identity
}

/// Keeps the user, and of its capabilities those that open others' files.
pub fn keep_to_files() -> Result<(), String> {
    set_no_new_privs(true).map_err(|error| format!("cannot give up new privileges: {error}"))?;
    let _ = clear_ambient_capability_set();
    let of_files = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    let present = capabilities(None).map_err(|error| format!("cannot tell capabilities: {error}"))?;
    let kept = CapabilitySets {
        effective: present.effective & of_files,
        permitted: present.permitted & of_files,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, kept).map_err(|error| format!("cannot drop capabilities: {error}"))
}

fn holds_any() -> bool {
    let held = |sets: CapabilitySets| !(sets.permitted | sets.effective).is_empty();
    getuid().is_root() || rustix::process::geteuid().is_root() || capabilities(None).is_ok_and(held)
}

fn become_nobody() -> Result<(), String> {
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: rustix::io::Errno| format!("cannot {what}: {error}")
    };
    // Each is tried: a container may allow the one and not the other.
    let groups = set_thread_groups(&[]).map_err(failed("leave its groups"));
    let group = set_thread_res_gid(group, group, group).map_err(failed("become group nobody"));
    let user = set_thread_res_uid(user, user, user).map_err(failed("become user nobody"));
    user.and(group).and(groups)?;
    if getuid().is_root() || getgid().as_raw() != NOBODY {
        return Err("the system says that it is nobody now, and it is not".to_owned());
    }
    Ok(())
}
