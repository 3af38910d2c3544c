//! Landlock: which files a process may open, and that it talks to nobody.

use crate::standard_input;
use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use std::path::Path;

/// What is asked for; a kernel that knows less gives what it has.
pub(crate) const WANTED: ABI = ABI::V6;

/// Where the system's programs and libraries are. What is not there here is left out.
const PROGRAMS: [&str; 9] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/gnu/store", "/run/current-system"];

/// What programs read when they start, of no use to a stranger: where libraries are, the time zone, how many
/// CPUs there are.
const READ: [&str; 7] = [
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/etc/locale.alias",
    "/sys/devices/system/cpu",
    "/proc/cpuinfo",
    "/proc/meminfo",
];

pub fn close() -> Result<(), String> {
    restrict(Ok)
}

/// But for the system's programs, one more, and the file on standard input, which a program may open by its
/// descriptor's path.
pub fn close_but_for(program: &Path) -> Result<(), String> {
    restrict(|rules| {
        let execute = AccessFs::Execute | AccessFs::ReadFile | AccessFs::ReadDir;
        let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
        rules
            .add_rules(path_beneath_rules(PROGRAMS, execute))?
            .add_rules(path_beneath_rules([program], execute))?
            .add_rules(path_beneath_rules(READ, read))?
            .add_rule(PathBeneath::new(standard_input(), AccessFs::ReadFile))
    })
}

/// But for these, in which files may be made, read and written; no devices and no programs.
pub fn close_but_for_paths(paths: &[&Path]) -> Result<(), String> {
    let never = AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::MakeSock;
    restrict(|rules| rules.add_rules(path_beneath_rules(paths, AccessFs::from_all(WANTED) & !never)))
}

/// The answer of a raw system call.
pub(crate) fn told(answer: libc::c_long) -> std::io::Result<()> {
    if answer < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

fn restrict(
    exceptions: impl FnOnce(RulesetCreated) -> Result<RulesetCreated, RulesetError>,
) -> Result<(), String> {
    let rules = || {
        let wanted = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(WANTED))?
            .handle_access(AccessNet::from_all(WANTED))?
            .scope(Scope::from_all(WANTED))?
            .create()?;
        exceptions(wanted)?.restrict_self()
    };
    match rules().map_err(|error: RulesetError| format!("Landlock failed: {error}"))?.ruleset {
        RulesetStatus::FullyEnforced => Ok(()),
        RulesetStatus::PartiallyEnforced => Err("this kernel's Landlock knows a part of it".to_owned()),
        RulesetStatus::NotEnforced => Err("this kernel has no Landlock".to_owned()),
    }
}
