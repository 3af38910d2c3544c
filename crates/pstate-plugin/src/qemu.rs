//! QEMU's plugin interface, as far as it is used here, and the two calls of GLib that reading a register
//! needs.
//!
//! Declared from QEMU 10.0's `include/qemu/qemu-plugin.h` and `docs/devel/tcg-plugins.rst`, and for version 7
//! from `include/plugins/qemu-plugin.h` after 11.0 and what 11.1.3 does. Interface version 3 (QEMU 9.1) is
//! the lowest that has all of it: conditional callbacks, register access, and `qemu_plugin_insn_data` that
//! copies. QEMU 11.1 takes none below 7, where callbacks get a pointer of the plugin's choice and no id.
//! [`Version`] says which is spoken.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// A version of the interface that this plugin speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// QEMU 9.1 to 11.0.
    Three,
    /// QEMU 11.1 and later.
    Seven,
}

impl Version {
    /// The variable of QEMU's environment that names it. The plugin cannot tell by itself: QEMU compares
    /// `qemu_plugin_version` before it calls anything.
    pub const VARIABLE: &CStr = c"FLYBALL_PLUGIN_API";

    /// As [`Self::VARIABLE`] has it: `7`, or nothing for version 3.
    pub fn named(value: Option<&CStr>) -> Self {
        if value == Some(c"7") { Self::Seven } else { Self::Three }
    }

    /// As QEMU has it.
    pub const fn number(self) -> c_int {
        match self {
            Self::Three => 3,
            Self::Seven => 7,
        }
    }
}

/// What QEMU tells a plugin about the guest (`qemu_info_t`).
#[repr(C)]
pub struct Info {
    /// The architecture.
    pub target_name: *const c_char,
    /// The lowest version of the interface that this QEMU speaks.
    pub version_min: c_int,
    /// The highest.
    pub version_cur: c_int,
    /// Whether a whole machine is emulated, and not one process.
    pub system_emulation: bool,
    /// Virtual CPUs at start.
    pub smp_vcpus: c_int,
    /// Virtual CPUs at most.
    pub max_vcpus: c_int,
}

/// A translation block.
#[repr(C)]
pub struct Block {
    _opaque: [u8; 0],
}

/// An instruction of a translation block.
#[repr(C)]
pub struct Instruction {
    _opaque: [u8; 0],
}

/// An array with one entry a virtual CPU.
#[repr(C)]
pub struct Scoreboard {
    _opaque: [u8; 0],
}

/// A 64-bit member of a scoreboard's entries (`qemu_plugin_u64`).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Counter {
    /// The scoreboard.
    pub score: *mut Scoreboard,
    /// Where in the entry.
    pub offset: usize,
}

/// One register of the guest: how `qemu_plugin_reg_descriptor` begins. In QEMU 11.1 another member follows.
#[repr(C)]
pub struct Register {
    /// For [`qemu_plugin_read_register`].
    pub handle: *mut c_void,
    /// `rax`, `rdx`, …
    pub name: *const c_char,
    /// The group of registers that it belongs to.
    pub feature: *const c_char,
}

/// GLib's `GArray`, and `GByteArray`, whose visible parts are alike.
#[repr(C)]
pub struct Array {
    /// The elements.
    pub data: *mut c_char,
    /// How many.
    pub len: c_uint,
}

/// `QEMU_PLUGIN_CB_NO_REGS`.
pub const NO_REGISTERS: c_int = 0;
/// `QEMU_PLUGIN_CB_R_REGS`.
pub const READ_REGISTERS: c_int = 1;
/// `QEMU_PLUGIN_COND_GE`.
pub const GREATER_OR_EQUAL: c_int = 7;
/// `QEMU_PLUGIN_INLINE_ADD_U64`.
pub const ADD: c_int = 0;

/// Called with a virtual CPU's number and what was given at registration.
pub type ExecCallback = extern "C" fn(c_uint, *mut c_void);

/// What is called with the number of a virtual CPU: by version 3 after the plugin's id, by version 7 before
/// what was given at registration.
#[repr(C)]
pub union CpuCallback {
    pub three: extern "C" fn(u64, c_uint),
    pub seven: extern "C" fn(c_uint, *mut c_void),
}

/// What is called with a block that is being translated: by version 3 after the plugin's id, by version 7
/// before what was given at registration.
#[repr(C)]
pub union BlockCallback {
    pub three: extern "C" fn(u64, *mut Block),
    pub seven: extern "C" fn(*mut Block, *mut c_void),
}

// The last argument of the first four is version 7's. Version 3 does not read it: on x86-64 it is in a
// register of its own.
unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_init_cb(id: u64, callback: CpuCallback, data: *mut c_void);
    pub fn qemu_plugin_register_vcpu_idle_cb(id: u64, callback: CpuCallback, data: *mut c_void);
    pub fn qemu_plugin_register_vcpu_resume_cb(id: u64, callback: CpuCallback, data: *mut c_void);
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: BlockCallback, data: *mut c_void);
    pub fn qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
        block: *mut Block,
        operation: c_int,
        counter: Counter,
        operand: u64,
    );
    pub fn qemu_plugin_register_vcpu_tb_exec_cond_cb(
        block: *mut Block,
        callback: ExecCallback,
        registers: c_int,
        condition: c_int,
        counter: Counter,
        operand: u64,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        callback: ExecCallback,
        registers: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    pub fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    pub fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    pub fn qemu_plugin_insn_data(instruction: *const Instruction, into: *mut c_void, len: usize) -> usize;
    pub fn qemu_plugin_scoreboard_new(entry_bytes: usize) -> *mut Scoreboard;
    pub fn qemu_plugin_u64_get(counter: Counter, cpu: c_uint) -> u64;
    pub fn qemu_plugin_u64_set(counter: Counter, cpu: c_uint, value: u64);
    pub fn qemu_plugin_get_registers() -> *mut Array;
    // What it returns is the length up to version 5, and a bool from 6 on; the array tells as much.
    pub fn qemu_plugin_read_register(handle: *mut c_void, into: *mut Array);

    pub fn g_byte_array_new() -> *mut Array;
    pub fn g_byte_array_set_size(array: *mut Array, len: c_uint) -> *mut Array;
    pub fn g_array_get_element_size(array: *mut Array) -> c_uint;
    pub fn g_array_free(array: *mut Array, free_segment: c_int) -> *mut c_char;
}
