//! This program inside a lab machine: its first process, and the agent that does what the host asks for.
//!
//! Everything here may be blunt: a guest's disks and memory are made anew for each start, and nothing in it
//! is anybody's. Disks that somebody asked to keep are touched by that somebody's commands alone.

mod agent;
mod cpus;
mod disks;
mod error;
mod files;
mod pacer;
mod timers;
mod trials;

use crate::error::Doing;
use domain::cpufreq::GOVERNORS;
pub use error::{Error, Result};
use rustix::mount::MountFlags;
use rustix::process::{WaitOptions, getpid, wait};
use rustix::system::{RebootCommand, reboot};
use std::ffi::CString;
use std::fmt::Display;
use std::process::Command;

/// Shows a line to whoever reads the machine's console.
pub type Say = fn(&dyn Display);

/// File systems of a running system, in the order in which they are mounted: what, where, and its options.
const MOUNTS: [(&str, &str, &str); 8] = [
    ("proc", "/proc", ""),
    ("sysfs", "/sys", ""),
    ("devpts", "/dev/pts", "mode=620,ptmxmode=666"),
    ("tmpfs", "/dev/shm", ""),
    ("tmpfs", "/run", ""),
    ("tmpfs", "/tmp", ""),
    ("tracefs", "/sys/kernel/tracing", ""),
    ("debugfs", "/sys/kernel/debug", ""),
];

/// Modules of the modelled disks, and what they stand on.
const SCSI: &str = "scsi_mod";
const DISK_MODULES: [&str; 2] = ["virtio_scsi", "sd_mod"];

/// The port to the host and the console.
const CONSOLE: &str = "virtio_console";

/// The driver of P-states in ACPI's tables, beside which every guest has the governors; `intel_pstate` is
/// part of the kernel.
const CPUFREQ_MODULE: &str = "acpi-cpufreq";

/// The energy counters, for CPUs that have them.
const ENERGY_MODULES: [&str; 2] = ["intel_rapl_msr", "rapl"];

/// Modules that storage is built of. One that a kernel lacks is passed over; what needs it then says so.
const MODULES: [&str; 4] = ["dm_mod", "md_mod", "loop", "configfs"];

/// `flyball lab-guest`: as the first process of a machine it becomes its init, else its agent.
///
/// # Errors
/// Where the host is gone, or the machine cannot be powered off.
pub fn main(say: Say) -> Result<()> {
    if !getpid().is_init() {
        return agent::serve();
    }
    // An init that ends is a kernel panic; whatever failed, the host reads it in the log, and the machine
    // goes off.
    if let Err(error) = boot(say) {
        say(&format_args!("flyball: the guest cannot start: {error}"));
    }
    rustix::fs::sync();
    reboot(RebootCommand::PowerOff).doing(|| "power off".into())
}

fn boot(say: Say) -> Result<()> {
    for (kind, at, options) in MOUNTS {
        // Not every kernel has every one of them.
        if !mount(kind, at, options) && kind == "proc" {
            return Err(Error::Refused("cannot mount /proc".into()));
        }
    }
    load_all([SCSI]);
    disks::name_in_order(|| load_all(DISK_MODULES))?;
    load_all([CONSOLE]);
    // All that QEMU maps is mapped.
    cpus::start_all()?;
    let governors = GOVERNORS.iter().filter_map(|governor| governor.module);
    load_all([CPUFREQ_MODULE].into_iter().chain(governors).chain(ENERGY_MODULES).chain(MODULES));
    // Its folder comes with its module. Hosts have it mounted by systemd.
    mount("configfs", "/sys/kernel/config", "");
    rustix::system::sethostname(b"lab").doing(|| "set the host's name".into())?;
    // Programs that talk to themselves over the network need it, and no other does.
    let _ = Command::new("/usr/bin/busybox").args(["ifconfig", "lo", "up"]).status();
    let program = std::env::current_exe().doing(|| "find this program's own file".into())?;
    let mut agent = Command::new(program);
    agent.arg("lab-guest").env_clear().envs(ENVIRONMENT).current_dir("/root");
    let agent = agent.spawn().doing(|| "start the agent".into())?;
    // Orphans become children of the first process, which has to wait for them.
    while let Ok(ended) = wait(WaitOptions::empty()) {
        let Some((pid, status)) = ended else { continue };
        if pid.as_raw_nonzero().get().unsigned_abs() != agent.id() {
            continue;
        }
        if let Some(signal) = status.terminating_signal() {
            say(&format_args!("flyball: the agent in the guest was ended by signal {signal}"));
        }
        break;
    }
    Ok(())
}

/// Whether it could be mounted.
fn mount(kind: &str, at: &str, options: &str) -> bool {
    let _ = std::fs::create_dir_all(at);
    let options = CString::new(options).ok();
    rustix::mount::mount(kind, at, kind, MountFlags::empty(), options.as_deref()).is_ok()
}

/// What programs in the guest find in their environment. There is no udev, and those that would wait for it
/// are told.
const ENVIRONMENT: [(&str, &str); 6] = [
    ("PATH", "/usr/bin:/usr/sbin:/bin:/sbin"),
    ("HOME", "/root"),
    ("TERM", "linux"),
    ("LC_ALL", "C"),
    ("MDADM_NO_UDEV", "1"),
    ("DM_DISABLE_UDEV", "1"),
];

/// Loads modules, in this order. One that a kernel lacks is missed by whoever needs it, who then says so.
fn load_all<'m>(modules: impl IntoIterator<Item = &'m str>) {
    // One program for all: to start one takes an emulated CPU a tenth of a second.
    let _ = Command::new("/usr/sbin/modprobe").args(["--all", "--quiet"]).args(modules).output();
}

/// Loads a module with its parameters.
fn load(module: &str) -> Result<()> {
    let output = Command::new("/usr/sbin/modprobe").args(module.split_whitespace()).output();
    let output = output.doing(|| "run modprobe in the guest".into())?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(Error::Refused(format!("cannot load the module `{module}`: {said}")));
    }
    Ok(())
}
