//! QEMU's plugin interface, as far as it is used here, and the two calls of GLib that reading a register
//! needs.
//!
//! Declared from QEMU 10.0's `include/qemu/qemu-plugin.h` and `docs/devel/tcg-plugins.rst`. Interface version
//! 3 (QEMU 9.1) is the lowest that has all of it: conditional callbacks, register access, and
//! `qemu_plugin_insn_data` that copies.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// The version of the interface that this plugin speaks.
pub const VERSION: c_int = 3;

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

/// One register of the guest (`qemu_plugin_reg_descriptor`).
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

/// Called with the plugin's id and a virtual CPU's number.
pub type CpuCallback = extern "C" fn(u64, c_uint);
/// Called with a virtual CPU's number and what was given at registration.
pub type ExecCallback = extern "C" fn(c_uint, *mut c_void);
/// Called with the plugin's id and a block that is being translated.
pub type BlockCallback = extern "C" fn(u64, *mut Block);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_init_cb(id: u64, callback: CpuCallback);
    pub fn qemu_plugin_register_vcpu_idle_cb(id: u64, callback: CpuCallback);
    pub fn qemu_plugin_register_vcpu_resume_cb(id: u64, callback: CpuCallback);
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: u64, callback: BlockCallback);
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
    pub fn qemu_plugin_read_register(handle: *mut c_void, into: *mut Array) -> c_int;

    pub fn g_byte_array_new() -> *mut Array;
    pub fn g_byte_array_set_size(array: *mut Array, len: c_uint) -> *mut Array;
    pub fn g_array_free(array: *mut Array, free_segment: c_int) -> *mut c_char;
}
