//! Where tracefs is, and the formats of tracepoints in it.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

/// A tracepoint as tracefs describes it.
#[derive(Debug)]
pub struct Described {
    /// Its number for perf.
    pub id: u64,
    /// The text of its format.
    pub format: String,
}

/// tracefs, mounted by somebody or by us.
#[derive(Debug)]
pub struct Tracefs {
    events: PathBuf,
    /// Ours: attached nowhere, so that nobody else sees it and it ends with this process.
    _own: Option<OwnedFd>,
}

impl Tracefs {
    /// Finds it below `/sys`, else makes a mount of it that is attached nowhere; the text says why there is
    /// none. Folders of tests have no kernel that could be asked for one.
    pub fn find(sys: &Path) -> Result<Self, String> {
        let usual = ["kernel/tracing", "kernel/debug/tracing"].map(|place| sys.join(place).join("events"));
        let mut why = io::ErrorKind::NotFound.into();
        for events in usual {
            match fs::read_dir(&events) {
                Ok(_) => return Ok(Self { events, _own: None }),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => why = error,
            }
        }
        let place = sys.join("kernel/tracing");
        let told = |error: io::Error| {
            format!(
                "no tracefs: `{}`: {error}; mount -t tracefs tracefs {}",
                place.display(),
                place.display()
            )
        };
        if why.kind() != io::ErrorKind::NotFound {
            return Err(format!(
                "no tracefs: `{}`: {why}; run as root, or give CAP_PERFMON and CAP_DAC_READ_SEARCH",
                place.display()
            ));
        }
        if sys != Path::new("/sys") {
            return Err(told(why));
        }
        let own = detached().map_err(told)?;
        let events = PathBuf::from(format!("/proc/self/fd/{}/events", own.as_raw_fd()));
        Ok(Self { events, _own: Some(own) })
    }

    /// Whether this kernel has a tracepoint, or a group of them. Where nobody may see that, reading says why.
    pub fn has(&self, name: &str) -> bool {
        self.events.join(name).try_exists().unwrap_or(true)
    }

    /// That this kernel lacks these: one line for all of a group.
    pub fn lacks(&self, missing: &[&str]) -> Vec<String> {
        let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for name in missing {
            groups.entry(name.split_once('/').map_or(*name, |(group, _)| group)).or_default().push(name);
        }
        let said = |(group, names): (&str, Vec<&str>)| match names[..] {
            _ if group == "syscalls" && !self.has(group) => {
                "no events of system calls: this kernel was built without CONFIG_FTRACE_SYSCALLS".to_owned()
            }
            [name] => format!("no event {name}: this kernel has none"),
            _ => format!("no events {}: this kernel has none", names.join(", ")),
        };
        groups.into_iter().map(said).collect()
    }

    /// A tracepoint by its name, `group/name`; the text says why it cannot be recorded.
    pub fn describe(&self, name: &str) -> Result<Described, String> {
        let read = |file: &str| {
            fs::read_to_string(self.events.join(name).join(file)).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => format!("no event {name}: this kernel has none"),
                _ => format!("no event {name}: `{file}`: {error}"),
            })
        };
        let id = read("id")?;
        let id = id.trim().parse().map_err(|_| format!("no event {name}: its id is `{}`", id.trim()))?;
        Ok(Described { id, format: read("format")? })
    }
}

/// A mount of tracefs that is in nobody's tree (fsopen(2), fsmount(2); Linux 5.2 and newer, CAP_SYS_ADMIN).
fn detached() -> io::Result<OwnedFd> {
    const CLOEXEC: libc::c_long = 1;
    const CREATE: libc::c_long = 6;
    const RDONLY_NOSUID_NODEV_NOEXEC: libc::c_long = 1 | 2 | 4 | 8;
    let name = CString::new("tracefs").expect("it has no zero byte");
    // SAFETY: the name is a C string; the kernel checks all else.
    let context = unsafe { libc::syscall(libc::SYS_fsopen, name.as_ptr(), CLOEXEC) };
    let context = descriptor(context)?;
    let raw = libc::c_long::from(context.as_raw_fd());
    let null = std::ptr::null::<libc::c_char>();
    // SAFETY: this command takes neither key nor value.
    let created = unsafe { libc::syscall(libc::SYS_fsconfig, raw, CREATE, null, null, 0 as libc::c_long) };
    if created < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: numbers alone.
    descriptor(unsafe { libc::syscall(libc::SYS_fsmount, raw, CLOEXEC, RDONLY_NOSUID_NODEV_NOEXEC) })
}

fn descriptor(raw: libc::c_long) -> io::Result<OwnedFd> {
    let raw = i32::try_from(raw).map_err(io::Error::other)?;
    if raw < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just opened it for us, and nobody else owns it.
    Ok(unsafe { File::from_raw_fd(raw) }.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_tracefs_is_told_how_to_mount_it() {
        let sys = tempfile::tempdir().unwrap();
        let why = Tracefs::find(sys.path()).unwrap_err();
        assert!(why.contains("mount -t tracefs") && why.contains("kernel/tracing"), "{why}");
    }

    #[test]
    fn an_event_that_this_kernel_lacks_is_said() {
        let sys = tempfile::tempdir().unwrap();
        let events = sys.path().join("kernel/tracing/events/power/cpu_idle");
        fs::create_dir_all(&events).unwrap();
        fs::write(events.join("id"), "568\n").unwrap();
        fs::write(events.join("format"), "ID: 568\n").unwrap();
        let tracefs = Tracefs::find(sys.path()).unwrap();
        assert_eq!(tracefs.describe("power/cpu_idle").unwrap().id, 568);
        let why = tracefs.describe("power/pstate_sample").unwrap_err();
        assert_eq!(why, "no event power/pstate_sample: this kernel has none");
    }

    #[test]
    fn a_kernel_without_tracepoints_of_system_calls_says_so_in_one_line() {
        let sys = tempfile::tempdir().unwrap();
        let events = sys.path().join("kernel/tracing/events");
        fs::create_dir_all(events.join("lock")).unwrap();
        let tracefs = Tracefs::find(sys.path()).unwrap();
        let missing = ["syscalls/sys_enter_read", "syscalls/sys_exit_read", "lock/contention_begin"];
        let lock = "no event lock/contention_begin: this kernel has none";
        assert_eq!(
            tracefs.lacks(&missing),
            [lock, { "no events of system calls: this kernel was built without CONFIG_FTRACE_SYSCALLS" }]
        );
        // It has others.
        fs::create_dir_all(events.join("syscalls")).unwrap();
        assert_eq!(
            tracefs.lacks(&missing),
            [lock, { "no events syscalls/sys_enter_read, syscalls/sys_exit_read: this kernel has none" }]
        );
    }
}
