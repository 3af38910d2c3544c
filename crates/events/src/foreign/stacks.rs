//! Call stacks that another tool sampled, as those of this program's own profile ([`crate::profile`]).
//!
//! One event of a file is the clock: of those that count CPU time or cycles the first of [`Clock`]'s. A
//! sample of it stands for the time between two, whatever the event counted meanwhile: shares are of CPU
//! time, as Flyball's own are, and not of cycles.
//!
//! The idle task is left out, as it is by Flyball's own clock, but for what an interrupt executes in it.

use super::{Converted, Writer};
use crate::file::MAX_SYMBOLS;
use crate::owner::Owner;
use crate::subsystem::is_in_interrupt;
use parse::import::perf_script::Clock;
use parse::kernel::kallsyms;
use parse::proc::role::is_kernel_name;
use std::collections::{BTreeMap, HashMap};

/// So many distances between samples are looked at.
const MAX_GAPS: usize = 1 << 16;

/// A bound on functions, which leaves room for those that work queues execute.
const MAX_NAMES: usize = MAX_SYMBOLS / 2;

/// A sample of the clock.
#[derive(Clone, Copy, Debug)]
pub struct Sampled<'s> {
    /// Where it was taken; `None` where the file does not say.
    pub cpu: Option<u32>,
    pub time: u64,
    pub pid: u32,
    pub tid: u32,
    /// The functions of the kernel, from the one that ran on, by name where that is known; `None` of a
    /// program.
    pub functions: Option<&'s [Option<&'s str>]>,
}

impl Sampled<'_> {
    /// Whether the CPU had nothing to do.
    fn is_idle(&self) -> bool {
        let named = self.functions.unwrap_or_default().iter().flatten().copied();
        self.tid == 0 && !is_in_interrupt(named)
    }

    /// Writes it.
    pub fn write(&self, names: &mut Names, writer: &mut Writer<'_>, converted: &mut Converted) {
        if self.is_idle() {
            return;
        }
        let addresses: Option<Vec<u64>> = self
            .functions
            .map(|functions| functions.iter().map(|function| names.address(*function)).collect());
        writer.stack(self.cpu.unwrap_or(0), self.time, (self.pid, self.tid), addresses.as_deref());
        converted.stacks += 1;
    }
}

/// Functions by name. Each has an address of ours, where no code is.
#[derive(Debug, Default)]
pub struct Names {
    addresses: HashMap<String, u64>,
}

impl Names {
    /// Behind what stands for the functions of work queues.
    const BEGIN: u64 = 1 << 24;
    const STEP: u64 = 16;
    /// Of a function without a name: no symbol is near.
    const UNNAMED: u64 = 1 << 62;

    /// An address in the function.
    fn address(&mut self, name: Option<&str>) -> u64 {
        let Some(name) = name else { return Self::UNNAMED };
        // Of all but the first function the byte before is looked up.
        const WITHIN: u64 = 4;
        if let Some(begin) = self.addresses.get(name) {
            return begin + WITHIN;
        }
        if self.addresses.len() >= MAX_NAMES {
            return Self::UNNAMED;
        }
        let begin = Self::BEGIN + Self::STEP * self.addresses.len() as u64;
        self.addresses.insert(name.to_owned(), begin);
        begin + WITHIN
    }

    /// Writes which address is whose.
    pub fn write(&self, writer: &mut Writer<'_>) {
        let by_address: BTreeMap<u64, &String> =
            self.addresses.iter().map(|(name, address)| (*address, name)).collect();
        by_address.into_iter().for_each(|(address, name)| writer.symbol(address, name));
    }
}

/// How far samples are apart, where the file does not say it.
#[derive(Debug, Default)]
pub struct Gaps {
    last: HashMap<u32, u64>,
    all: Vec<u64>,
}

impl Gaps {
    /// The next sample of a CPU, or of a thread where the CPU is not known.
    pub fn take(&mut self, of: u32, time: u64) {
        if self.all.len() >= MAX_GAPS {
            return;
        }
        let before = self.last.insert(of, time);
        self.all.extend(before.and_then(|before| time.checked_sub(before)).filter(|gap| *gap > 0));
    }

    /// The median: a CPU that has work is sampled again and again.
    pub fn median(mut self) -> Option<u64> {
        self.all.sort_unstable();
        self.all.get(self.all.len() / 2).copied()
    }
}

/// What is said of a profile of this event of perf's.
pub fn notes_of_clock(event: &str, clock: Clock, with_stacks: bool, is_measured: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if clock == Clock::Cycles {
        notes.push("the profile is of samples of `cycles`; each counts as the time between two".to_owned());
    }
    if is_measured {
        notes.push(
            "how much CPU time a sample stands for is not stated: the median distance of two on one CPU is taken"
                .to_owned(),
        );
    }
    if !with_stacks {
        notes.push(
            "the samples have no call stacks: what helpers such as memcpy or locks took counts to no layer; `perf record \
             -g` records them"
                .to_owned(),
        );
    }
    let modifiers = event.rsplit_once([':', '/']).map_or("", |(_, modifiers)| modifiers);
    match (modifiers.contains('u'), modifiers.contains('k')) {
        (true, false) => notes.push(format!("the samples are of programs alone (`{event}`)")),
        (false, true) => notes.push(format!("the samples are of the kernel alone (`{event}`)")),
        _ => {}
    }
    notes
}

/// A bound on threads.
const MAX_THREADS: usize = 1 << 20;

/// The function that runs a kernel thread's own (kernel/kthread.c).
const MAIN: &str = "kthread";

/// Whose the sampled threads are, as far as nothing else in the file tells.
#[derive(Debug, Default)]
pub struct Threads {
    by_tid: BTreeMap<u32, (u32, String, bool)>,
}

impl Threads {
    /// A sample of a thread, with the name that it has.
    pub fn take(&mut self, pid: u32, tid: u32, name: &str, is_kernel: impl FnOnce() -> bool) {
        if self.by_tid.len() >= MAX_THREADS && !self.by_tid.contains_key(&tid) {
            return;
        }
        let (_, _, known) = self.by_tid.entry(tid).or_insert_with(|| (pid, name.to_owned(), false));
        *known = *known || is_kernel();
    }

    /// Whether one with this name, or with these functions on its stack, is the kernel's.
    pub fn is_kernel<'f>(tid: u32, name: &str, functions: impl IntoIterator<Item = &'f str>) -> bool {
        tid == 0 || is_kernel_name(name) || functions.into_iter().any(|function| function == MAIN)
    }

    /// Writes names, and whose they are; `is_workload` says it of a name.
    pub fn write(&self, writer: &mut Writer<'_>, is_workload: impl Fn(&str) -> bool) {
        for (tid, (pid, name, is_kernel)) in &self.by_tid {
            writer.named(*pid, *tid, name);
            if *is_kernel {
                writer.owner(*pid, Owner::Kernel);
            } else if is_workload(name) {
                writer.owner(*pid, Owner::Workload);
            }
        }
    }
}

/// What the command that perf was given is called as a thread, where it stands behind `--`.
pub fn thread_name(command: &[String]) -> Option<&str> {
    const LONGEST: usize = 15;
    let at = command.iter().position(|word| word == "--")?;
    let name = command.get(at + 1)?.rsplit('/').next()?;
    Some(name.get(..LONGEST).unwrap_or(name))
}

/// The functions of a kernel, by where they begin.
#[derive(Debug, Default)]
pub struct Kernel<'k> {
    functions: BTreeMap<u64, (&'k str, Option<&'k str>)>,
    /// Where its text begins, where it is named.
    pub text: Option<u64>,
}

/// A function is no longer: behind the last known one, code is of nobody.
const LONGEST_FUNCTION: u64 = 256 << 10;

/// A bound on functions of a kernel: one with all modules has some 300,000.
const MAX_FUNCTIONS: usize = 4 << 20;

impl<'k> Kernel<'k> {
    /// By a copy of `/proc/kallsyms`.
    pub fn read(text: &'k [u8]) -> Self {
        let mut kernel = Self::default();
        let lines = text.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok());
        for function in lines.filter_map(kallsyms::function).take(MAX_FUNCTIONS) {
            if function.name == "_text" {
                kernel.text = Some(function.address);
            }
            // Of several names the first that is no mark.
            if !matches!(function.name, "_text" | "_stext") {
                kernel.functions.entry(function.address).or_insert((function.name, function.module));
            }
        }
        kernel
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// The function at an address, as a symbol: `name`, or `name [module]`.
    pub fn name(&self, address: u64) -> Option<String> {
        let (begin, (name, module)) = self.functions.range(..=address).next_back()?;
        let in_module = || module.map_or_else(|| (*name).to_owned(), |module| format!("{name} [{module}]"));
        (address - begin < LONGEST_FUNCTION).then(in_module)
    }
}
