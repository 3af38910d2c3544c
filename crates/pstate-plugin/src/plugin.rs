//! The plugin as QEMU calls it: what is translated, what runs, what is written to the ports.
//!
//! Each virtual CPU has a thread of its own, and its account a lock of its own: that thread takes it at each
//! check, and another only when it writes this CPU's state or the control port. Nothing sleeps while it holds
//! one.

use crate::blocks;
use crate::opcode::{self, Kind};
use crate::options::{Options, ProcessorOptions, Vendor};
use crate::package::Package;
use crate::processor::{self, Processor};
use crate::qemu::{self, BlockCallback, Counter, CpuCallback, Version};
use crate::requests::Requests;
use crate::residency::{self, Shown};
use crate::vcpu::Vcpu;
use crate::{hooks, host, interpose, record};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// Which version of the interface this plugin speaks; QEMU reads it, an `int`, before it calls anything.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name is QEMU's")]
pub static qemu_plugin_version: AtomicI32 = AtomicI32::new(Version::Three.number());

/// Run by the loader, before QEMU looks at the version.
#[used]
#[unsafe(link_section = ".init_array")]
static CHOOSE_VERSION: extern "C" fn() = {
    extern "C" fn choose() {
        qemu_plugin_version.store(version().number(), Ordering::Relaxed);
    }
    choose
};

/// The version that this QEMU speaks.
fn version() -> Version {
    // SAFETY: the name ends in a zero. What it gives is valid until the environment changes, which nothing
    // does while a library is loaded.
    let value = unsafe {
        let value = libc::getenv(Version::VARIABLE.as_ptr());
        (!value.is_null()).then(|| CStr::from_ptr(value))
    };
    Version::named(value)
}

/// How long a CPU in the slowest state may run between two looks at the clock, in nanoseconds of its pace and
/// of the host's time: an interrupt that comes while it sleeps is seen that much later at most.
const CHECK_NS: f64 = 200_000.0;

/// Bounds on the instructions between two looks: fewer cost more than the work itself, and more than this are
/// late to notice the beginning of pacing.
const CHECK_RANGE: (f64, f64) = (64.0, 20_000.0);

/// Where a thread's copy of a register is read to, and the handles of `rax` and `rdx`.
#[derive(Clone, Copy)]
struct Registers {
    buffer: *mut qemu::Array,
    rax: *mut c_void,
    rdx: *mut c_void,
}

thread_local! {
    /// Of the virtual CPU whose thread this is.
    static REGISTERS: Cell<Option<Registers>> = const { Cell::new(None) };
    /// The number of the virtual CPU whose thread this is.
    static CPU: Cell<Option<usize>> = const { Cell::new(None) };
}

struct Cpu {
    account: Mutex<Account>,
}

struct Account {
    vcpu: Vcpu,
    /// Its registers, where it has any of its own.
    processor: Option<Processor>,
    requests: Requests,
    /// Whether its thread has started.
    present: bool,
    /// How many times slower its clock is than the host's while it is paced.
    slow: f64,
    /// Instructions that were taken out of the counter.
    taken: u64,
    /// Its thread, in the host's numbers.
    thread: i32,
    schedstat: Option<File>,
    /// What `schedstat` said when it went idle, and when the present span began.
    queued_at_rest_ns: u64,
    queued_at_begin_ns: u64,
}

struct Plugin {
    options: Options,
    pace: Vec<f64>,
    /// When all CPUs' TSCs are at zero.
    epoch_ns: u64,
    check_every: u64,
    /// Instructions since the last check.
    counter: Counter,
    cpus: Vec<Cpu>,
    /// Where a CPU's ratio depends on the others. Locked before any CPU's account, never after one.
    package: Option<Mutex<Package>>,
    /// Where the package's C-states are counted. Locked alone.
    residency: Option<Mutex<residency::Package>>,
    record: Mutex<Record>,
    /// Where instructions are counted by block.
    blocks: Option<Blocks>,
}

struct Blocks {
    counts: *mut qemu::Scoreboard,
    table: Mutex<blocks::Table>,
    file: File,
}

struct Record {
    file: File,
    /// When the present span began.
    began_ns: Option<u64>,
}

// SAFETY: the only members that are not Send and Sync by themselves are the scoreboards' addresses, which are
// only ever handed to QEMU's functions, and these may be called from any virtual CPU's thread.
unsafe impl Send for Plugin {}
// SAFETY: as above.
unsafe impl Sync for Plugin {}

static PLUGIN: OnceLock<Plugin> = OnceLock::new();

fn plugin() -> &'static Plugin {
    PLUGIN.get().expect("callbacks are registered after the plugin is set up")
}

/// Called by QEMU once, when it loads the plugin; 0 for success.
///
/// # Safety
/// QEMU passes a valid `info` and `argc` valid strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const qemu::Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: as documented on this function.
    let set_up = unsafe { arguments(argc, argv).and_then(|arguments| Plugin::new(&*info, &arguments)) };
    match set_up {
        Ok(plugin) => {
            let fresh = PLUGIN.set(plugin).is_ok();
            assert!(fresh, "QEMU installs a plugin once");
            register(id);
            0
        }
        Err(error) => {
            // QEMU itself only says that loading failed. Where stderr is gone too, nobody is there to be
            // told.
            let _ = writeln!(std::io::stderr(), "pstate-plugin: {error}");
            1
        }
    }
}

/// # Safety
/// `argv` holds `argc` valid strings.
unsafe fn arguments(argc: c_int, argv: *const *const c_char) -> Result<Vec<String>, String> {
    (0..usize::try_from(argc).unwrap_or(0))
        // SAFETY: as documented on this function.
        .map(|index| unsafe { CStr::from_ptr(*argv.add(index)) })
        .map(|text| text.to_str().map(str::to_owned).map_err(|_| format!("argument {text:?} is no UTF-8")))
        .collect()
}

/// A function of one argument as the callback that the present version calls.
macro_rules! callback {
    ($kind:ident, $argument:ty, $function:ident) => {{
        extern "C" fn three(_id: u64, argument: $argument) {
            $function(argument);
        }
        extern "C" fn seven(argument: $argument, _data: *mut c_void) {
            $function(argument);
        }
        match version() {
            Version::Three => $kind { three },
            Version::Seven => $kind { seven },
        }
    }};
}

fn register(id: u64) {
    let none = ptr::null_mut();
    // SAFETY: `id` is the one that QEMU gave, and the callbacks have the types that it calls them with.
    unsafe {
        qemu::qemu_plugin_register_vcpu_init_cb(id, callback!(CpuCallback, c_uint, on_start), none);
        qemu::qemu_plugin_register_vcpu_idle_cb(id, callback!(CpuCallback, c_uint, on_idle), none);
        qemu::qemu_plugin_register_vcpu_resume_cb(id, callback!(CpuCallback, c_uint, on_resume), none);
        let on_block = callback!(BlockCallback, *mut qemu::Block, on_translate);
        qemu::qemu_plugin_register_vcpu_tb_trans_cb(id, on_block, none);
    }
}

impl Plugin {
    fn new(info: &qemu::Info, arguments: &[String]) -> Result<Self, String> {
        if !info.system_emulation {
            return Err("it paces the CPUs of a whole machine, not of one process".to_owned());
        }
        let options = Options::parse(arguments.iter().map(String::as_str))?;
        let file = begin_file(&options.record, &record::header(&options))?;
        let blocks = options.blocks.clone().or_else(|| std::env::var_os(blocks::FILE).map(Into::into));
        let blocks = blocks.as_deref().map(Blocks::new).transpose()?;
        if options.processor.is_some() {
            hooks::install()?;
        }
        if options.slow > 1.0 {
            if !interpose::is_in_force() {
                return Err(
                    "argument `slow` needs that this file is loaded before QEMU too: name it in LD_PRELOAD"
                        .to_owned(),
                );
            }
            if options.processor.is_none() {
                hooks::install_time_stamp()?;
            }
        }
        let cpus = usize::try_from(info.max_vcpus.max(info.smp_vcpus)).unwrap_or(0);
        let package = options.processor.as_ref().filter(|processor| processor.is_package_wide());
        Ok(Self {
            package: package.map(|processor| Mutex::new(Package::new(processor, cpus))),
            residency: counts_residency(&options, cpus).map(Mutex::new),
            pace: options.ns_per_instruction(),
            epoch_ns: interpose::now_ns(),
            check_every: check_every(&options),
            // SAFETY: one 64-bit counter for each CPU; it is never freed.
            counter: Counter { score: unsafe { qemu::qemu_plugin_scoreboard_new(8) }, offset: 0 },
            cpus: (0..cpus).map(|_| Cpu::new(&options)).collect(),
            record: Mutex::new(Record { file, began_ns: None }),
            blocks,
            options,
        })
    }

    fn lock(&self, cpu: usize) -> MutexGuard<'_, Account> {
        self.cpus[cpu].account.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All instructions of a CPU whose lock is held.
    fn count(&self, cpu: usize, account: &Account) -> u64 {
        // SAFETY: the counter lives for ever, and the CPU exists.
        let since = unsafe { qemu::qemu_plugin_u64_get(self.counter, cpu as c_uint) };
        account.taken.wrapping_add(since)
    }

    /// Moves what the counter holds into the account, so that the next check comes an interval later.
    fn take(&self, cpu: usize, account: &mut Account) -> u64 {
        account.taken = self.count(cpu, account);
        // SAFETY: as in `count`; only the CPU's own thread comes here, so no addition is lost.
        unsafe { qemu::qemu_plugin_u64_set(self.counter, cpu as c_uint, 0) };
        account.taken
    }

    /// Lets the CPU's next block of instructions begin with a look at the clock. Only for its own thread.
    fn check_soon(&self, cpu: usize, account: &mut Account) {
        let counted = self.take(cpu, account);
        account.taken = counted.wrapping_sub(self.check_every);
        // SAFETY: as in `take`.
        unsafe { qemu::qemu_plugin_u64_set(self.counter, cpu as c_uint, self.check_every) };
    }

    fn write_state(&self, written: usize, state: usize) {
        let all = if self.options.shared { 0..self.cpus.len() } else { written..written + 1 };
        let now_ns = interpose::now_ns();
        for cpu in all {
            let mut account = self.lock(cpu);
            let count = self.count(cpu, &account);
            account.vcpu.set_state(state, now_ns, count, &self.pace);
        }
    }

    fn write_control(&self, value: u8) {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        if value <= 1 {
            interpose::slow_down(if value == 1 { self.options.slow } else { 1.0 });
        }
        let now_ns = interpose::now_ns();
        let mut text = String::new();
        record::control(&mut text, now_ns, value);
        if value <= 1 {
            self.end_span(&mut text, record.began_ns.take(), now_ns);
        }
        if value == 1 {
            record.began_ns = Some(now_ns);
        }
        self.each_present(|cpu, account, count| {
            account.follow(now_ns, count, &self.pace);
            if value <= 1 && self.leaves_a_cpu() {
                host::come_first(account.thread, value == 1);
            }
            if value == 1 {
                account.queued_at_begin_ns = account.queued_ns();
                account.vcpu.begin(now_ns, count, &self.pace);
                account.requests.begin(account.processor.as_ref());
            } else {
                account.vcpu.account(now_ns, count, &self.pace);
            }
            record::count(&mut text, cpu, &account.vcpu);
        });
        append(&record.file, &text);
        if value > 1
            && let Some(blocks) = &self.blocks
        {
            blocks.mark(now_ns, value, self.present());
        }
    }

    fn present(&self) -> impl Iterator<Item = usize> {
        (0..self.cpus.len()).filter(|cpu| self.lock(*cpu).present)
    }

    /// A CPU whose wish or activity may be another one than before: where the package has a part in ratios,
    /// all CPUs get those that follow. The caller holds no CPU's lock.
    fn coordinate(&self, cpu: usize) {
        let Some(package) = &self.package else { return };
        let mut package = package.lock().unwrap_or_else(PoisonError::into_inner);
        let (wish, is_busy) = {
            let account = self.lock(cpu);
            let Some(processor) = &account.processor else { return };
            (processor.wish(), !account.vcpu.is_idle())
        };
        if !package.set(cpu, wish, is_busy) {
            return;
        }
        let now_ns = interpose::now_ns();
        self.each_present(|other, account, count| {
            account.follow(now_ns, count, &self.pace);
            let Account { vcpu, processor: Some(processor), .. } = account else { return };
            processor.grant(package.ratio(other));
            processor::adopt(processor, vcpu, now_ns, count, &self.pace);
        });
    }

    /// A CPU is in this C-state from now on. The caller holds no lock.
    fn enter(&self, cpu: usize, c_state: u8, now_ns: u64) {
        if let Some(residency) = &self.residency {
            residency.lock().unwrap_or_else(PoisonError::into_inner).set(cpu, c_state, now_ns);
        }
    }

    /// Whether CPUs that come first while they are paced leave one of the host's to everybody else: a pace
    /// that the emulator cannot keep makes them work without a pause.
    fn leaves_a_cpu(&self) -> bool {
        self.cpus.len() < host::cpus()
    }

    /// Ends the present span on all CPUs and writes what they did in it.
    fn end_span(&self, text: &mut String, began_ns: Option<u64>, now_ns: u64) {
        let Some(began_ns) = began_ns else { return };
        record::span(text, began_ns, now_ns);
        self.each_present(|cpu, account, count| {
            account.follow(now_ns, count, &self.pace);
            let queued_ns = account.queued_ns().saturating_sub(account.queued_at_begin_ns);
            let known = record::Known::of(&account.vcpu, account.processor.as_ref(), queued_ns);
            if let Some(span) = account.vcpu.end(now_ns, count, &self.pace) {
                record::vcpu(text, cpu, span, known);
                record::requests(text, cpu, &account.requests);
            }
        });
        record::end(text);
    }

    fn each_present(&self, mut visit: impl FnMut(usize, &mut Account, u64)) {
        for cpu in 0..self.cpus.len() {
            let mut account = self.lock(cpu);
            if account.present {
                let count = self.count(cpu, &account);
                visit(cpu, &mut account, count);
            }
        }
    }
}

/// The package whose C-states are counted, where its CPUs have any.
fn counts_residency(options: &Options, cpus: usize) -> Option<residency::Package> {
    let is_intel = options.processor.as_ref().is_some_and(|processor| processor.vendor == Vendor::Intel);
    let deepest = options.idle.iter().map(|state| state.c_state).max().filter(|_| is_intel)?;
    Some(residency::Package::new(deepest, cpus))
}

/// Opens a file that is appended to, and writes its first line.
fn begin_file(path: &Path, header: &str) -> Result<File, String> {
    let opened = OpenOptions::new().create(true).append(true).open(path);
    let begun = opened.and_then(|mut file| file.write_all(header.as_bytes()).map(|()| file));
    begun.map_err(|error| format!("cannot write the record `{}`: {error}", path.display()))
}

fn append(mut file: &File, text: &str) {
    if let Err(error) = file.write_all(text.as_bytes()) {
        let _ = writeln!(std::io::stderr(), "pstate-plugin: cannot write the record: {error}");
    }
}

impl Blocks {
    fn new(path: &Path) -> Result<Self, String> {
        let file = begin_file(path, blocks::HEADER)?;
        // SAFETY: so many 64-bit counters for each CPU, all zero; they are never freed.
        let counts = unsafe { qemu::qemu_plugin_scoreboard_new(8 * blocks::COUNTS) };
        Ok(Self { counts, table: Mutex::default(), file })
    }

    fn table(&self) -> MutexGuard<'_, blocks::Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counter(&self, count: usize) -> Counter {
        Counter { score: self.counts, offset: 8 * count }
    }

    /// Appends what these CPUs have executed since the machine started.
    fn mark(&self, now_ns: u64, value: u8, cpus: impl Iterator<Item = usize>) {
        let mut text = String::new();
        blocks::mark(&mut text, now_ns, value);
        for cpu in cpus {
            // SAFETY: the counters live for ever, and the CPU exists.
            let executed = |count| unsafe { qemu::qemu_plugin_u64_get(self.counter(count), cpu as c_uint) };
            self.table().cpu(&mut text, cpu, executed);
        }
        blocks::end(&mut text);
        append(&self.file, &text);
    }
}

impl Cpu {
    fn new(options: &Options) -> Self {
        Self {
            account: Mutex::new(Account {
                vcpu: Vcpu::new(options, interpose::now_ns()),
                processor: None,
                requests: Requests::default(),
                present: false,
                slow: options.slow,
                taken: 0,
                thread: 0,
                schedstat: None,
                queued_at_rest_ns: 0,
                queued_at_begin_ns: 0,
            }),
        }
    }
}

impl Account {
    /// For how long the CPU's thread has waited for a host CPU in all, on a clock that is always as slow as
    /// that of a paced machine; 0 where the host does not say.
    fn queued_ns(&self) -> u64 {
        (self.schedstat.as_ref().and_then(host::queued_ns).unwrap_or(0) as f64 / self.slow) as u64
    }

    /// Brings the processor up to now, where it has one.
    fn follow(&mut self, now_ns: u64, count: u64, pace: &[f64]) {
        if let Some(processor) = &mut self.processor {
            processor::follow(processor, &mut self.vcpu, now_ns, count, pace);
        }
    }
}

/// Instructions between two looks at the clock.
fn check_every(options: &Options) -> u64 {
    let slowest = options.speeds.iter().copied().fold(f64::INFINITY, f64::min);
    let instructions = options.pace * slowest * CHECK_NS / options.slow / 1e9;
    instructions.clamp(CHECK_RANGE.0, CHECK_RANGE.1) as u64
}

/// A CPU's thread has started.
fn on_start(cpu: c_uint) {
    host::sleep_precisely();
    REGISTERS.set(find_registers());
    CPU.set(Some(cpu as usize));
    let plugin = plugin();
    if let Some(cell) = plugin.cpus.get(cpu as usize) {
        let mut account = cell.account.lock().unwrap_or_else(PoisonError::into_inner);
        let now_ns = interpose::now_ns();
        account.vcpu = Vcpu::new(&plugin.options, now_ns);
        let processor = plugin.options.processor.as_ref();
        account.processor = processor.map(|options| Processor::new(options, plugin.epoch_ns, now_ns));
        account.present = true;
        account.thread = host::thread();
        account.schedstat = host::open_schedstat();
        drop(account);
        plugin.enter(cpu as usize, 0, now_ns);
    }
}

/// A CPU waits for an interrupt. QEMU's big lock is held: nothing may wait here.
fn on_idle(cpu: c_uint) {
    let (plugin, cpu) = (plugin(), cpu as usize);
    let mut account = plugin.lock(cpu);
    account.queued_at_rest_ns = account.queued_ns();
    let (now_ns, count) = (interpose::now_ns(), plugin.count(cpu, &account));
    account.follow(now_ns, count, &plugin.pace);
    account.vcpu.rest(now_ns, count, &plugin.pace);
    let c_state = account.vcpu.resting().map_or(0, |state| state.c_state);
    drop(account);
    plugin.enter(cpu, c_state, now_ns);
    plugin.coordinate(cpu);
}

/// It runs again. QEMU's big lock is held: the time that leaving an idle state takes is waited off at the
/// next block of instructions.
fn on_resume(cpu: c_uint) {
    let (plugin, cpu) = (plugin(), cpu as usize);
    let mut account = plugin.lock(cpu);
    let queued_ns = account.queued_ns().saturating_sub(account.queued_at_rest_ns);
    let (now_ns, count) = (interpose::now_ns(), account.vcpu.instructions());
    account.follow(now_ns, count, &plugin.pace);
    if account.vcpu.resume(now_ns, queued_ns, &plugin.pace) {
        plugin.check_soon(cpu, &mut account);
    }
    drop(account);
    plugin.enter(cpu, 0, now_ns);
    plugin.coordinate(cpu);
}

/// A block is translated: count its instructions, look at the clock every so many of them, and watch the
/// instructions that matter.
fn on_translate(block: *mut qemu::Block) {
    let plugin = plugin();
    // SAFETY: the block is valid during this call, the counter for ever, and the callbacks have the types
    // that they are called with.
    unsafe {
        let instructions = qemu::qemu_plugin_tb_n_insns(block);
        qemu::qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
            block,
            qemu::ADD,
            plugin.counter,
            instructions as u64,
        );
        qemu::qemu_plugin_register_vcpu_tb_exec_cond_cb(
            block,
            on_check,
            qemu::NO_REGISTERS,
            qemu::GREATER_OR_EQUAL,
            plugin.counter,
            plugin.check_every,
            ptr::null_mut(),
        );
        if let Some(blocks) = &plugin.blocks {
            let address = qemu::qemu_plugin_insn_vaddr(qemu::qemu_plugin_tb_get_insn(block, 0));
            let counter = blocks.counter(blocks.table().count_of(address));
            qemu::qemu_plugin_register_vcpu_tb_exec_inline_per_vcpu(
                block,
                qemu::ADD,
                counter,
                instructions as u64,
            );
        }
        for index in 0..instructions {
            watch(qemu::qemu_plugin_tb_get_insn(block, index));
        }
    }
}

/// # Safety
/// `instruction` belongs to the block that is being translated.
unsafe fn watch(instruction: *mut qemu::Instruction) {
    /// The longest x86 instruction.
    const LONGEST: usize = 15;
    let mut bytes = [0_u8; LONGEST];
    // SAFETY: `bytes` takes as much as is asked for; the callbacks have the type that they are called with.
    unsafe {
        let len = qemu::qemu_plugin_insn_data(instruction, bytes.as_mut_ptr().cast(), LONGEST);
        let (callback, registers): (qemu::ExecCallback, _) = match opcode::kind(&bytes[..len.min(LONGEST)]) {
            Some(Kind::Out) => (on_out, qemu::READ_REGISTERS),
            Some(Kind::In) if !plugin().options.idle.is_empty() => (on_in, qemu::NO_REGISTERS),
            Some(Kind::Halt) => (on_halt, qemu::NO_REGISTERS),
            Some(Kind::In) | None => return,
        };
        let address = qemu::qemu_plugin_insn_vaddr(instruction);
        let data = ptr::without_provenance_mut(address as usize);
        qemu::qemu_plugin_register_vcpu_insn_exec_cb(instruction, callback, registers, data);
    }
}

/// So many instructions have run since the last look at the clock.
extern "C" fn on_check(cpu: c_uint, _data: *mut c_void) {
    pause(cpu as usize, Vcpu::check);
}

/// A CPU is about to read a port; `data` is where the instruction stands.
extern "C" fn on_in(_cpu: c_uint, data: *mut c_void) {
    hooks::note_in(data.addr() as u64);
}

/// A CPU is about to halt.
extern "C" fn on_halt(cpu: c_uint, _data: *mut c_void) {
    pause(cpu as usize, Vcpu::halt);
}

/// Brings a CPU's account up to now and sleeps for as long as it must wait.
fn pause(cpu: usize, until: impl Fn(&mut Vcpu, u64, u64, &[f64]) -> Option<u64>) {
    let plugin = plugin();
    let mut account = plugin.lock(cpu);
    let count = plugin.take(cpu, &mut account);
    if account.processor.is_none() && !account.vcpu.is_paced() {
        return;
    }
    let now_ns = interpose::now_ns();
    account.follow(now_ns, count, &plugin.pace);
    let wake_ns = until(&mut account.vcpu, now_ns, count, &plugin.pace);
    drop(account);
    plugin.coordinate(cpu);
    if let Some(wake_ns) = wake_ns {
        host::sleep_until(wake_ns);
    }
}

/// A CPU writes to a port.
extern "C" fn on_out(_cpu: c_uint, _data: *mut c_void) {
    let Some(registers) = REGISTERS.get() else { return };
    let plugin = plugin();
    let Some(port) = read_register(registers.buffer, registers.rdx).map(|rdx| rdx as u16) else { return };
    let value = || read_register(registers.buffer, registers.rax).map(|rax| rax as u8);
    if port == plugin.options.control_port {
        if let Some(value) = value() {
            plugin.write_control(value);
        }
    } else if let Some(cpu) = plugin.options.cpu_of_port(port, plugin.cpus.len())
        && let Some(value) = value()
    {
        plugin.write_state(cpu, usize::from(value));
    }
}

/// The processor that guests have, where the machine's table has one.
pub fn processor_options() -> Option<&'static ProcessorOptions> {
    PLUGIN.get()?.options.processor.as_ref()
}

/// The idle state that reading this port enters, where the machine has one there.
pub fn idle_state_of_port(port: u16) -> Option<usize> {
    plugin().options.idle_state_of_port(port)
}

/// The CPU whose thread this is will be in this idle state once it has done what it is due to have done.
pub fn enter_idle_state(state: usize) {
    let Some(cpu) = CPU.get() else { return };
    pause(cpu, Vcpu::halt);
    plugin().lock(cpu).vcpu.choose_idle_state(Some(state));
}

/// It runs on.
pub fn leave_idle_state() {
    if let Some(cpu) = CPU.get() {
        plugin().lock(cpu).vcpu.choose_idle_state(None);
    }
}

/// What the time-stamp counter of the CPU whose thread this is stands at: a machine without a processor's
/// registers has one that counts nanoseconds of its clock, where that is not the host's.
pub fn time_stamp() -> Option<u64> {
    let (plugin, now_ns) = (plugin(), interpose::now_ns());
    let account = plugin.lock(CPU.get()?);
    match &account.processor {
        Some(processor) => Some(processor.tsc(now_ns)),
        None => (plugin.options.slow > 1.0).then(|| now_ns - plugin.epoch_ns),
    }
}

/// A register of the CPU whose thread this is; `None` for QEMU's.
pub fn read_processor(register: u32) -> Option<u64> {
    let (plugin, cpu) = (plugin(), CPU.get()?);
    let now_ns = interpose::now_ns();
    if let Some(residency) = &plugin.residency {
        let shown = residency.lock().unwrap_or_else(PoisonError::into_inner).read(register, now_ns);
        match (shown, &plugin.options.processor) {
            (Some(Shown::Bits(bits)), _) => return Some(bits),
            (Some(Shown::Nanoseconds(ns)), Some(processor)) => return Some(processor.base_cycles(ns)),
            _ => {}
        }
    }
    let mut joules = 0.0;
    if processor::is_of_package(register) {
        plugin.each_present(|_, account, count| {
            account.follow(now_ns, count, &plugin.pace);
            joules += account.processor.as_ref().map_or(0.0, Processor::joules);
        });
    }
    let mut account = plugin.lock(cpu);
    let count = plugin.count(cpu, &account);
    account.follow(now_ns, count, &plugin.pace);
    account.processor.as_ref()?.read(register, joules)
}

/// Writes a register of the CPU whose thread this is, and gives whether it is one: others are QEMU's.
pub fn write_processor(register: u32, value: u64) -> bool {
    let (plugin, Some(own)) = (plugin(), CPU.get()) else { return false };
    let now_ns = interpose::now_ns();
    let is_ours = plugin.write_register(own, now_ns, register, value);
    if is_ours && processor::is_written_for_all(register) {
        for other in (0..plugin.cpus.len()).filter(|cpu| *cpu != own) {
            plugin.write_register(other, now_ns, register, value);
            plugin.coordinate(other);
        }
    }
    plugin.coordinate(own);
    is_ours
}

impl Plugin {
    fn write_register(&self, cpu: usize, now_ns: u64, register: u32, value: u64) -> bool {
        let mut guard = self.lock(cpu);
        let account = &mut *guard;
        let count = self.count(cpu, account);
        account.follow(now_ns, count, &self.pace);
        let Some(processor) = &mut account.processor else { return false };
        if !processor.write(register, value) {
            return false;
        }
        processor::adopt(processor, &mut account.vcpu, now_ns, count, &self.pace);
        account.requests.note(account.vcpu.paced_for_ns(), register, value);
        true
    }
}

/// The handles of the registers that an `out` instruction names; `None` where this guest has none of that
/// name.
fn find_registers() -> Option<Registers> {
    // SAFETY: called on a virtual CPU's thread, as QEMU asks; the list is freed after its last use, and the
    // names in it live for ever.
    unsafe {
        let list = qemu::qemu_plugin_get_registers();
        let (count, bytes) = ((*list).len as usize, qemu::g_array_get_element_size(list) as usize);
        let register = |index: usize| &*(*list).data.add(index * bytes).cast::<qemu::Register>();
        let find = |name: &CStr| {
            (0..count).map(register).find(|one| CStr::from_ptr(one.name) == name).map(|found| found.handle)
        };
        let handles = find(c"rax").zip(find(c"rdx"));
        qemu::g_array_free(list, 1);
        handles.map(|(rax, rdx)| Registers { buffer: qemu::g_byte_array_new(), rax, rdx })
    }
}

/// The low bytes of a register of the CPU whose thread this is.
fn read_register(buffer: *mut qemu::Array, handle: *mut c_void) -> Option<u64> {
    // SAFETY: the buffer is this thread's own, and the callback was registered with access to registers.
    unsafe {
        qemu::g_byte_array_set_size(buffer, 0);
        qemu::qemu_plugin_read_register(handle, buffer);
        ((*buffer).len >= 8).then(|| (*buffer).data.cast::<u64>().read_unaligned())
    }
}
