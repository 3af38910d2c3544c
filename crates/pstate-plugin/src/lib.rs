//! A QEMU TCG plugin that runs each virtual CPU at the pace of its virtual P-state.
//!
//! QEMU loads it with `-plugin libpstate_plugin.so,table=1:0.75:0.5,pace=20000000,port=0x9000,control=0x5be,
//! domains=percpu,record=FILE` (see `options.rs`); it speaks interface version 3 (QEMU 9.1 to 11.0)
//! and, where `FLYBALL_PLUGIN_API=7` is in QEMU's environment, version 7 (QEMU 11.1 and later), and needs
//! `-accel tcg,thread=multi`. The guest's `acpi-cpufreq` writes the index of a P-state to a CPU's port; the
//! guest's agent writes to the control port, through `/dev/port`: 0 runs unpaced (as the machine starts), 1
//! paces all CPUs from now on, 2 to 255 are marks. What each CPU did is appended to the record at each such
//! write (`record.rs`); what *due*, *ahead*, *behind* and *late* mean is said in `vcpu.rs`.
//!
//! **Invariant.** A CPU runs ahead of its pace by no more than 0.1 ms and one interval between checks (0.2 ms
//! of its pace in the slowest state), and not at all in the mean; what it falls behind by and does not catch
//! up with is told.
//!
//! # What is paced, and what is not
//! - Instructions are, all alike: a division, a cache miss and a `nop` take the same time, and a `rep movsb`
//!   counts once however long it is. Speed that does not follow the frequency (memory) is the table's
//!   business.
//! - A transition itself costs nothing but the instructions that request it; the table's latency is only told
//!   to the kernel.
//! - The guest's timer tick comes 250 times a second whatever the pace, and costs some 3,000 instructions: 4%
//!   of a CPU at 20 million instructions a second, and 30% of it at an eighth of that. That is how a machine
//!   this slow would behave; of a faster one that it stands for, it is a distortion. A fixed loop takes time
//!   inversely to speed within 3% where the slowest state runs some 30 million instructions a second or more,
//!   or where the kernel stops its tick (`nohz_full`).
//! - What devices and QEMU's own threads do runs at the host's speed.
//!
//! # What the guest's CPU must be
//! One whose TSC the kernel takes to be constant: otherwise it rescales its clock at each frequency change
//! (`arch/x86/kernel/tsc.c`, `time_cpufreq_notifier`), falls back to the HPET with more than one CPU, and
//! refuses fast frequency switching. QEMU's TCG offers no `invtsc`, but Linux also trusts certain models by
//! their name: `-cpu max,vendor=CentaurHauls,family=6,model=15,-monitor` (`arch/x86/kernel/cpu/centaur.c`),
//! or `vendor=GenuineIntel,family=6,model=85`. With the latter, ondemand's `io_is_busy` is 1 from the start
//! (`drivers/cpufreq/cpufreq_ondemand.c`, `should_io_be_busy`), as on Intel's machines. Without `-monitor` a
//! kernel may idle with `mwait`, which TCG runs as a busy loop on all machines of more than one CPU.
//!
//! # Processors with registers
//! With `vendor=intel,ratios=8:40:42` (lowest, base, turbo; in 100 MHz) and `-cpu max,vendor=GenuineIntel,…`
//! the guest has no ports but the registers of an Intel processor, so that the stock `intel_pstate` binds;
//! with `vendor=amd` and `-cpu max,vendor=AuthenticAMD,…` those of an AMD processor with CPPC, for
//! `amd_pstate`. `hooks.rs` replaces QEMU's helpers of `rdmsr`, `wrmsr`, `cpuid` and `rdtsc`, and
//! `processor/` says what they answer. With `hwp=…` the processor chooses ratios by itself, as `hwp.rs`
//! models it; with `watts=…` RAPL counts energy. A guest without `ratios` runs QEMU's own helpers.
//!
//! With `turbo=42:40` the highest ratio depends on how many CPUs are busy, and with `domains=shared` all CPUs
//! have one ratio (`package.rs`). The TSC runs at the base ratio, from the host's `CLOCK_MONOTONIC`.
//!
//! # Idle states
//! With `idle=2000/1:85000/0.2` (nanoseconds to leave it, watts) the guest chooses among idle states: `hlt`
//! enters the first, and reading a port each of the others, as `acpi_idle` does by `_CST`. `hooks.rs` says
//! how. The latency is waited off when the CPU resumes, before it executes anything. `mwait` is not offered:
//! TCG does not halt in it with more than one CPU. Without `idle` a halted CPU is woken as fast as the host
//! does it. With `cstates=1:6` an Intel processor counts the time in each as that in this C-state
//! (`residency.rs`).
//!
//! # A clock of its own
//! With `slow=16` all of QEMU's clocks run sixteen times slower than the host's while the CPUs are paced
//! (`clock.rs`), and all times and rates above are of that clock. QEMU has to be started with this file in
//! `LD_PRELOAD` then (`interpose.rs`). The timer tick above then costs what it costs a machine sixteen times
//! as fast.
//!
//! # Where instructions are executed
//! With `blocks=FILE`, or `FLYBALL_PLUGIN_BLOCKS` in QEMU's environment, the kernel's instructions are
//! counted by block, and marks have the counts appended to that file (`blocks.rs`): a test holds samples of
//! call stacks against them.
#![cfg_attr(test, allow(dead_code, reason = "only QEMU can call the part that is left out of the tests"))]

mod blocks;
mod clock;
mod host;
mod hwp;
mod opcode;
mod options;
mod package;
mod processor;
mod record;
mod requests;
mod residency;
mod vcpu;

#[cfg(not(test))]
mod hooks;
#[cfg(not(test))]
mod interpose;
#[cfg(not(test))]
mod plugin;
#[cfg(not(test))]
mod qemu;
