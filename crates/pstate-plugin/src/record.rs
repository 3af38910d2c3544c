//! The text of the record: lines that are only ever appended, one block of them for each write to the control
//! port.
//!
//! ```text
//! flyball-pacing 2 pace=20000000 speeds=1:0.75:0.5
//! control ns=4711 value=1            a write to the control port; ns is the host's CLOCK_MONOTONIC
//! count cpu=0 instructions=1 busy=2  for each CPU at each control write, since the start of the machine
//! span began=4711 ended=9000         at the end of pacing; then for each CPU
//! vcpu cpu=0 late=0 worst=0 at=0 changes=2 queued=0 written=1 rejected=0
//! state cpu=0 index=0 time=4000 busy=10 instructions=1 own_watts=0
//! idle cpu=0 index=0 entries=1 time=4000       where the machine has idle states
//! change cpu=0 ns=0 index=0          from the beginning of pacing
//! request cpu=0 ns=0 register=1908 value=2147494408   what the guest asked a processor for
//! end
//! ```
//! All times are nanoseconds. `late` is defined in `vcpu.rs`, `worst` is the most of it that came at once,
//! `at` when; `queued` is how long the CPU's thread waited for a host CPU in the span (it tells a loaded host
//! from an emulator that is too slow); `written` is 0 while the guest has never written a P-state, so that
//! the fastest is only assumed; `own_watts` is the time of a P-state in idle states that have watts of their
//! own; `rejected` counts writes of states that are not in the table. A file may hold
//! the records of several machines, one after the other.

use crate::options::Options;
use crate::processor::Processor;
use crate::requests::Requests;
use crate::vcpu::{Span, Vcpu};
use std::fmt::Write;

/// The first line of a machine's record.
pub fn header(options: &Options) -> String {
    let speeds: Vec<String> = options.speeds.iter().map(f64::to_string).collect();
    format!("flyball-pacing 2 pace={} speeds={}\n", options.pace, speeds.join(":"))
}

/// A write to the control port.
pub fn control(text: &mut String, ns: u64, value: u8) {
    line(text, format_args!("control ns={ns} value={value}"));
}

/// What a CPU has done since the start of the machine.
pub fn count(text: &mut String, cpu: usize, vcpu: &Vcpu) {
    let (instructions, busy) = (vcpu.instructions(), vcpu.busy_ns());
    line(text, format_args!("count cpu={cpu} instructions={instructions} busy={busy}"));
}

/// The head of a finished span.
pub fn span(text: &mut String, began_ns: u64, ended_ns: u64) {
    line(text, format_args!("span began={began_ns} ended={ended_ns}"));
}

/// What stands beside a CPU's span.
#[derive(Clone, Copy)]
pub struct Known {
    queued_ns: u64,
    written: u8,
    rejected: u64,
}

impl Known {
    /// Of this CPU, whose thread waited that long for a host CPU.
    pub fn of(vcpu: &Vcpu, processor: Option<&Processor>, queued_ns: u64) -> Self {
        let written = processor.map_or(vcpu.was_written(), Processor::was_requested);
        Self { queued_ns, written: written.into(), rejected: vcpu.rejected() }
    }
}

/// One CPU of a finished span.
pub fn vcpu(text: &mut String, cpu: usize, span: &Span, known: Known) {
    let (late, worst, at) = (span.late_ns as u64, span.worst_ns as u64, span.worst_at_ns);
    let changes = span.changes_total;
    let Known { queued_ns: queued, written, rejected } = known;
    line(
        text,
        format_args!(
            "vcpu cpu={cpu} late={late} worst={worst} at={at} changes={changes} queued={queued} written={written} rejected={rejected}"
        ),
    );
    for (index, sum) in span.sums.iter().enumerate() {
        let (time, busy, instructions) = (sum.time_ns, sum.busy_ns, sum.instructions);
        let own_watts = sum.own_watts_ns;
        line(
            text,
            format_args!(
                "state cpu={cpu} index={index} time={time} busy={busy} instructions={instructions} own_watts={own_watts}"
            ),
        );
    }
    for (index, idle) in span.idle.iter().enumerate() {
        let (entries, time) = (idle.entries, idle.time_ns);
        line(text, format_args!("idle cpu={cpu} index={index} entries={entries} time={time}"));
    }
    for (ns, index) in &span.changes {
        line(text, format_args!("change cpu={cpu} ns={ns} index={index}"));
    }
}

/// What a CPU's guest asked its registers for in a finished span.
pub fn requests(text: &mut String, cpu: usize, requests: &Requests) {
    for (ns, register, value) in requests.kept() {
        line(text, format_args!("request cpu={cpu} ns={ns} register={register} value={value}"));
    }
}

/// The last line of a finished span, or of a mark.
pub fn end(text: &mut String) {
    line(text, format_args!("end"));
}

/// Appends a line.
pub fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    text.write_fmt(words).expect("a string takes all text");
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_written_as_documented() {
        let pace = [50.0, 100.0];
        let arguments = "table=1:0.5,pace=2e7,record=r,ratios=1:1:2,idle=5";
        let mut cpu = Vcpu::new(&Options::parse(arguments.split(',')).unwrap(), 0);
        cpu.begin(4_711, 10, &pace);
        cpu.set_state(1, 5_000, 20, &pace);
        let mut text = String::new();
        control(&mut text, 4_711, 1);
        count(&mut text, 0, &cpu);
        let known = Known::of(&cpu, None, 17);
        span(&mut text, 4_711, 9_000);
        vcpu(&mut text, 0, cpu.end(9_000, 30, &pace).unwrap(), known);
        let mut asked = Requests::default();
        asked.note(Some(289), 0x199, 0x2a00);
        requests(&mut text, 0, &asked);
        end(&mut text);
        assert_eq!(
            text,
            "control ns=4711 value=1\n\
             count cpu=0 instructions=20 busy=5000\n\
             span began=4711 ended=9000\n\
             vcpu cpu=0 late=2578 worst=2578 at=4289 changes=2 queued=17 written=1 rejected=0\n\
             state cpu=0 index=0 time=289 busy=289 instructions=10 own_watts=0\n\
             state cpu=0 index=1 time=4000 busy=4000 instructions=10 own_watts=0\n\
             idle cpu=0 index=0 entries=0 time=0\n\
             change cpu=0 ns=0 index=0\n\
             change cpu=0 ns=289 index=1\n\
             request cpu=0 ns=289 register=409 value=10752\n\
             end\n"
        );
    }
}
