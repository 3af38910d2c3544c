//! QEMU's helpers of `rdmsr`, `wrmsr`, `cpuid`, `rdtsc` and `in`, replaced by our own, for guests whose table
//! has a processor of Intel's or AMD's; for others whose clock is their own, that of `rdtsc` alone.
//!
//! QEMU exports each helper, and data that begins with the helper's address and its name
//! (`helper_info_rdmsr`, `TCGHelperInfo` of `include/tcg/helper-info.h`); the translator calls whatever
//! address stands there. This is no interface that QEMU promises, so everything is compared before it is
//! used: the symbols, what they hold, and, at the first call, where the guest's registers are (`CPUX86State`
//! of `target/i386/cpu.h`). Seen to work: QEMU 10.0 and 11.1.
//!
//! # Idle states
//! `acpi_idle` enters a state by reading an I/O port, with interrupts disabled (`acpi_idle_do_entry` of
//! `drivers/acpi/processor_idle.c`). TCG wakes a halted CPU only for an interrupt that it may take. So the
//! `in` enables interrupts and halts, and the instruction that the CPU is at remains the same `in`: the
//! handler of the interrupt that wakes the CPU returns to it, and this time it disables interrupts and goes
//! on. The kernel therefore counts that handler as time in the idle state.
//!
//! A helper of QEMU's may end in `longjmp`, to raise an exception: nothing that has to be dropped is held
//! while one is called.

use crate::{plugin, processor};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The beginning of QEMU's state of a CPU. Behind all general registers follow the instruction pointer and
/// the flags.
#[repr(C)]
pub struct Env {
    registers: [u64; 16],
}

/// How many general registers QEMU's state has: 16, or 32 in QEMU 11.1, which has those of APX.
const COUNTS: [usize; 2] = [16, 32];

/// Which of [`COUNTS`] this QEMU has; 0 until it was found.
static REGISTERS: AtomicUsize = AtomicUsize::new(0);

/// Where the instruction pointer stands.
///
/// # Safety
/// `env` is what QEMU gave a helper, and has so many general registers.
unsafe fn instruction_pointer(env: *mut Env, registers: usize) -> *mut u64 {
    // SAFETY: as documented on this function.
    unsafe { env.cast::<u64>().add(registers) }
}

/// Where the flags stand.
///
/// # Safety
/// As [`instruction_pointer`].
unsafe fn flags(env: *mut Env, registers: usize) -> *mut u64 {
    // SAFETY: as documented on this function.
    unsafe { env.cast::<u64>().add(registers + 1) }
}

/// How a refusal begins, and what is left.
const REFUSED: &str =
    "cannot give the guest a clock of its own, or the registers of a processor of Intel's or AMD's";
const WORKS: &str = "tables whose driver is `acpi`, such as `laptop-5`, work, with `clock = \"host\"` under [lab] where time is dilated";

/// Who makes the processors that guests take theirs for (`cpuid`, leaf 0).
const VENDORS: [&[u8]; 3] = [b"GenuineIntel", b"AuthenticAMD", b"CentaurHauls"];

const RAX: usize = 0;
const RCX: usize = 1;
const RDX: usize = 2;
const RBX: usize = 3;

/// The exception of a register that the processor does not have (`EXCP0D_GPF`).
const GENERAL_PROTECTION: i32 = 13;

/// Of the flags, the bit that is always set.
const ALWAYS: u64 = 1 << 1;

/// Of the flags, the one that lets the CPU take interrupts.
const INTERRUPTS: u64 = 1 << 9;

type Helper = unsafe extern "C-unwind" fn(*mut Env);
type RaiseHelper = unsafe extern "C-unwind" fn(*mut Env, i32);
type InHelper = unsafe extern "C-unwind" fn(*mut Env, u32) -> u64;

/// The beginning of `TCGHelperInfo`.
#[repr(C)]
struct Info {
    helper: *mut c_void,
    name: *const c_char,
}

/// QEMU's own helpers.
struct Originals {
    rdmsr: Helper,
    wrmsr: Helper,
    cpuid: Helper,
    rdtsc: Helper,
    hlt: Helper,
    inb: InHelper,
    raise_exception: RaiseHelper,
}

thread_local! {
    /// Where in the guest the last `in` of this virtual CPU stands.
    static LAST_IN: Cell<u64> = const { Cell::new(0) };
    /// Whether this virtual CPU has halted in an `in`, which it has not left yet.
    static IS_HALTED_IN: Cell<bool> = const { Cell::new(false) };
}

static ORIGINALS: OnceLock<Originals> = OnceLock::new();

fn originals() -> &'static Originals {
    ORIGINALS.get().expect("helpers are replaced after the originals are known")
}

/// Replaces all of them, or none.
pub fn install() -> Result<(), String> {
    let Helpers { rdmsr, wrmsr, cpuid, rdtsc, inb } = Helpers::find()?;
    rdmsr.replace(on_rdmsr as Helper as *mut c_void);
    wrmsr.replace(on_wrmsr as Helper as *mut c_void);
    cpuid.replace(on_cpuid as Helper as *mut c_void);
    rdtsc.replace(on_rdtsc as Helper as *mut c_void);
    inb.replace(on_inb as InHelper as *mut c_void);
    Ok(())
}

/// Replaces that of `rdtsc` alone: for a machine without a processor's registers whose clock is its own.
pub fn install_time_stamp() -> Result<(), String> {
    Helpers::find()?.rdtsc.replace(on_rdtsc as Helper as *mut c_void);
    Ok(())
}

/// The helpers that can be replaced.
struct Helpers {
    rdmsr: Found,
    wrmsr: Found,
    cpuid: Found,
    rdtsc: Found,
    inb: Found,
}

impl Helpers {
    /// Finds them, and keeps the originals.
    fn find() -> Result<Self, String> {
        let [rdmsr, wrmsr, cpuid, rdtsc, hlt, inb, raise] =
            [c"rdmsr", c"wrmsr", c"cpuid", c"rdtsc", c"hlt", c"inb", c"raise_exception"].map(Found::of);
        let (rdmsr, wrmsr, cpuid, rdtsc, hlt, inb, raise) =
            (rdmsr?, wrmsr?, cpuid?, rdtsc?, hlt?, inb?, raise?);
        // SAFETY: these helpers take the CPU's state and give nothing, but for `in`'s, which takes a port too
        // and gives what was read, and that of exceptions, which takes their number and does not return
        // (`target/i386/helper.h`).
        let known = unsafe {
            let plain = |found: &Found| std::mem::transmute::<*mut c_void, Helper>(found.helper);
            Originals {
                rdmsr: plain(&rdmsr),
                wrmsr: plain(&wrmsr),
                cpuid: plain(&cpuid),
                rdtsc: plain(&rdtsc),
                hlt: plain(&hlt),
                inb: std::mem::transmute::<*mut c_void, InHelper>(inb.helper),
                raise_exception: std::mem::transmute::<*mut c_void, RaiseHelper>(raise.helper),
            }
        };
        assert!(ORIGINALS.set(known).is_ok(), "QEMU installs a plugin once");
        Ok(Self { rdmsr, wrmsr, cpuid, rdtsc, inb })
    }
}

/// This virtual CPU is about to execute an `in`, which stands there.
pub fn note_in(address: u64) {
    LAST_IN.set(address);
}

struct Found {
    info: *mut Info,
    helper: *mut c_void,
}

impl Found {
    /// The helper of an instruction; an error names what this QEMU has not, or has otherwise.
    fn of(instruction: &CStr) -> Result<Self, String> {
        let name = instruction.to_string_lossy();
        let refused = |what: String| format!("{REFUSED}: {what}; {WORKS}");
        let (helper_symbol, info_symbol) = (format!("helper_{name}\0"), format!("helper_info_{name}\0"));
        let find = |symbol: &str| {
            // SAFETY: the text ends in a zero; looking a symbol up has no effect.
            let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr().cast()) };
            let shown = symbol.trim_end_matches('\0');
            if address.is_null() { Err(refused(format!("this QEMU has no `{shown}`"))) } else { Ok(address) }
        };
        let (helper, info) = (find(&helper_symbol)?, find(&info_symbol)?.cast::<Info>());
        // SAFETY: QEMU exports it as data of at least this size; the name is only read where the first
        // member is the helper, as in every QEMU that has this structure.
        let is_known = unsafe {
            (*info).helper == helper && !(*info).name.is_null() && CStr::from_ptr((*info).name) == instruction
        };
        if !is_known {
            return Err(refused(format!("`helper_info_{name}` of this QEMU is laid out otherwise")));
        }
        Ok(Self { info, helper })
    }

    /// From now on QEMU calls this instead.
    fn replace(&self, own: *mut c_void) {
        // SAFETY: `of` has compared what stands there, and no CPU runs yet.
        unsafe { (*self.info).helper = own };
    }
}

/// Compares, once, where the CPU's registers are: `cpuid` of leaf 0 has to put the vendor's name into
/// three of them, and flags with the bit that is always set have to stand behind 16 or 32 of them. A QEMU
/// that has them elsewhere is ended, for nothing that it would do from here on could be trusted.
///
/// # Safety
/// `env` is what QEMU gave a helper.
unsafe fn verify(env: *mut Env) {
    if REGISTERS.load(Ordering::Relaxed) > 0 {
        return;
    }
    // SAFETY: as documented on this function; what is changed is put back.
    let (name, count) = unsafe {
        let before = (*env).registers;
        (*env).registers[RAX] = 0;
        (originals().cpuid)(env);
        let name = [RBX, RDX, RCX].map(|register| ((*env).registers[register] as u32).to_le_bytes());
        (*env).registers = before;
        (name, COUNTS.into_iter().find(|count| *flags(env, *count) & ALWAYS != 0))
    };
    let known = match plugin::processor_options() {
        Some(options) => vec![options.vendor.name().as_slice()],
        None => VENDORS.to_vec(),
    };
    let Some(count) = count.filter(|_| known.contains(&name.as_flattened())) else {
        let names: Vec<_> = known.into_iter().map(String::from_utf8_lossy).collect();
        let _ = writeln!(
            std::io::stderr(),
            "pstate-plugin: {REFUSED}: `CPUX86State` of this QEMU is laid out otherwise, or its `-cpu` is not {}; {WORKS}",
            names.join(" or ")
        );
        // SAFETY: it ends this process, and runs nothing of it any more.
        unsafe { libc::_exit(1) };
    };
    REGISTERS.store(count, Ordering::Relaxed);
}

/// Puts a value into EDX and EAX, as these instructions do.
///
/// # Safety
/// `env` is what QEMU gave a helper, and was verified.
unsafe fn give(env: *mut Env, value: u64) {
    // SAFETY: as documented on this function.
    let registers = unsafe { &mut (*env).registers };
    registers[RAX] = value & u64::from(u32::MAX);
    registers[RDX] = value >> 32;
}

unsafe extern "C-unwind" fn on_rdmsr(env: *mut Env) {
    // SAFETY: QEMU calls this as it calls its own helper.
    unsafe {
        verify(env);
        let register = (*env).registers[RCX] as u32;
        // QEMU's own helper gives zero for a register that it does not know.
        if plugin::processor_options().is_some_and(|options| processor::is_missing(options, register)) {
            (originals().raise_exception)(env, GENERAL_PROTECTION);
        }
        match plugin::read_processor(register) {
            Some(value) => give(env, value),
            None => (originals().rdmsr)(env),
        }
    }
}

unsafe extern "C-unwind" fn on_wrmsr(env: *mut Env) {
    // SAFETY: QEMU calls this as it calls its own helper.
    unsafe {
        verify(env);
        let [low, high] = [RAX, RDX].map(|register| (*env).registers[register] & u64::from(u32::MAX));
        if !plugin::write_processor((*env).registers[RCX] as u32, high << 32 | low) {
            (originals().wrmsr)(env);
        }
    }
}

unsafe extern "C-unwind" fn on_cpuid(env: *mut Env) {
    const NAMED: [usize; 4] = [RAX, RBX, RCX, RDX];
    // SAFETY: QEMU calls this as it calls its own helper.
    unsafe {
        verify(env);
        let leaf = (*env).registers[RAX] as u32;
        (originals().cpuid)(env);
        let Some(options) = plugin::processor_options() else { return };
        let mut values = NAMED.map(|register| (*env).registers[register] as u32);
        processor::cpuid(options, leaf, &mut values);
        for (register, value) in NAMED.into_iter().zip(values) {
            (*env).registers[register] = value.into();
        }
    }
}

unsafe extern "C-unwind" fn on_rdtsc(env: *mut Env) {
    // SAFETY: QEMU calls this as it calls its own helper, which raises the exception where a process may not.
    unsafe {
        verify(env);
        (originals().rdtsc)(env);
        if let Some(value) = plugin::time_stamp() {
            give(env, value);
        }
    }
}

unsafe extern "C-unwind" fn on_inb(env: *mut Env, port: u32) -> u64 {
    // SAFETY: QEMU calls this as it calls its own helper. The helper of `hlt` ends in `longjmp`, and nothing
    // that has to be dropped is held then.
    unsafe {
        verify(env);
        let Some(state) = plugin::idle_state_of_port(port as u16) else {
            return (originals().inb)(env, port);
        };
        let registers = REGISTERS.load(Ordering::Relaxed);
        if IS_HALTED_IN.replace(false) {
            plugin::leave_idle_state();
            *flags(env, registers) &= !INTERRUPTS;
            return 0;
        }
        plugin::enter_idle_state(state);
        IS_HALTED_IN.set(true);
        *instruction_pointer(env, registers) = LAST_IN.get();
        *flags(env, registers) |= INTERRUPTS;
        (originals().hlt)(env);
        0
    }
}
