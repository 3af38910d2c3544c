//! The ACPI table that gives virtual CPUs their P-states.
