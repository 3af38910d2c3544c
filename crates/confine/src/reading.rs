//! The wall around a program that only reads what it is given: whatever it tries, it writes nothing but its
//! report.
//!
//! It is raised between fork and exec, where nothing may be allocated: all that can be made before is made in
//! the parent. Landlock is asked when a file is opened and never again, so that what is measured stays what
//! it is. Of a kernel without Landlock the capabilities remain.

use crate::files::{WANTED, told};
use landlock::{
    AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError,
};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// Raw commands to a disk (`CAP_SYS_RAWIO`: with it SG_IO asks for no right to write), and nodes of any
/// device (`CAP_MKNOD`), as `linux/capability.h` numbers them.
const NEVER: [libc::c_ulong; 2] = [17, 27];

/// Where a program throws away what it has read.
const NOWHERE: &str = "/dev/null";

/// The wall, ready to be raised.
#[derive(Debug)]
pub struct Reading {
    ruleset: Option<OwnedFd>,
}

impl Reading {
    /// Makes it for a program that reads `given` and reports into the folder `report`. Files elsewhere are
    /// not written, made, shortened, renamed or removed; no device but `given` takes an ioctl(2).
    ///
    /// # Errors
    /// Where the folder cannot be opened, or Landlock fails otherwise than by being absent.
    pub fn prepare(given: BorrowedFd<'_>, report: &Path) -> Result<Self, String> {
        let ruleset = ruleset(given, report).map_err(|error| format!("Landlock failed: {error}"))?;
        Ok(Self { ruleset })
    }

    /// What of it this kernel cannot raise.
    pub fn gap() -> Option<&'static str> {
        if !knows(AccessFs::WriteFile) {
            return Some("this kernel has no Landlock");
        }
        let shortens = "this kernel's Landlock cannot forbid that a file is shortened by its name";
        (!knows(AccessFs::Truncate)).then_some(shortens)
    }

    /// Raises it around this thread, for good. It makes system calls and nothing else, so that it may be
    /// called between fork and exec.
    ///
    /// # Errors
    /// As the kernel gives them.
    pub fn raise(&self) -> io::Result<()> {
        for capability in NEVER {
            // SAFETY: takes numbers. Who may not drop it has none of it.
            let _ = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
        }
        let Some(ruleset) = &self.ruleset else { return Ok(()) };
        let (on, none): (libc::c_ulong, libc::c_ulong) = (1, 0);
        // SAFETY: takes numbers.
        told(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, on, none, none, none) }.into())?;
        // SAFETY: takes a descriptor that is open, and no flags.
        told(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) })
    }
}

fn ruleset(given: BorrowedFd<'_>, report: &Path) -> Result<Option<OwnedFd>, RulesetError> {
    let writing = AccessFs::from_write(WANTED);
    let own = AccessFs::WriteFile | AccessFs::Truncate | AccessFs::MakeReg | AccessFs::RemoveFile;
    let nowhere: BitFlags<AccessFs> = AccessFs::WriteFile | AccessFs::Truncate;
    let mut created =
        Ruleset::default().set_compatibility(CompatLevel::BestEffort).handle_access(writing)?.create()?;
    // A folder that cannot be opened is no exception, and the program says that it cannot report.
    if let Ok(folder) = PathFd::new(report) {
        created = created.add_rule(PathBeneath::new(folder, own))?;
    }
    if let Ok(file) = PathFd::new(NOWHERE) {
        created = created.add_rule(PathBeneath::new(file, nowhere))?;
    }
    Ok(created.add_rule(PathBeneath::new(given, AccessFs::IoctlDev))?.into())
}

/// Whether this kernel's Landlock handles an access.
fn knows(access: AccessFs) -> bool {
    let asked = Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(access);
    asked.and_then(Ruleset::create).is_ok()
}
