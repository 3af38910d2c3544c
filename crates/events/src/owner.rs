//! Whose a process is.

use domain::trace::Role;
use parse::proc::role::kernel_role;

/// Whose a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Owner {
    /// The workload's root or a descendant of it.
    Workload = 0,
    /// Flyball or a descendant of it that is not the workload.
    Flyball = 1,
    /// The kernel's: the name tells the role.
    Kernel = 2,
    /// Anybody else's.
    Other = 3,
    /// The root of a load beside the workload, or a descendant of one.
    Beside = 4,
}

impl Owner {
    /// From its byte in a file.
    pub fn from_byte(byte: u8) -> Option<Self> {
        [Owner::Workload, Owner::Flyball, Owner::Kernel, Owner::Other, Owner::Beside]
            .into_iter()
            .find(|owner| *owner as u8 == byte)
    }

    /// The role of a process of this name.
    pub fn role(self, name: &str) -> Role {
        match self {
            Owner::Workload => Role::Workload,
            Owner::Flyball => Role::Flyball,
            Owner::Kernel => kernel_role(name),
            Owner::Other => Role::Other,
            Owner::Beside => Role::Beside,
        }
    }
}
