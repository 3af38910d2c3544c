//! The ACPI table that gives virtual CPUs their P-states.
pub const CONTROL_PORT: u16 = 0x5be;
