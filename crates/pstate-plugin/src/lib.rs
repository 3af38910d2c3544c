//! A QEMU TCG plugin that runs each virtual CPU at the pace of its virtual P-state.
#![cfg_attr(test, allow(dead_code, reason = "only QEMU can call the part that is left out of the tests"))]

mod host;
mod opcode;
mod options;
mod record;
mod vcpu;

#[cfg(not(test))]
mod plugin;
#[cfg(not(test))]
mod qemu;
