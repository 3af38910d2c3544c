//! How fields of a line are encoded as a record, and the formats that say so.
//!
//! Every record begins as the kernel's do: number of the tracepoint u16, flags u8, 0 u8, thread u32. All
//! numbers behind are u64, all texts of 16 bytes.

use std::fmt::Write as _;

/// A tracepoint that is encoded.
#[derive(Debug)]
pub struct Shape {
    /// `group/name`.
    pub name: &'static str,
    numbers: &'static [&'static str],
    texts: &'static [&'static str],
    read: fn(&str, &mut Values<'_>) -> Option<()>,
}

/// All of them. Their numbers are their places, from one.
pub const SHAPES: [Shape; 22] = [
    Shape {
        name: "sched/sched_switch",
        numbers: &["prev_pid", "prev_prio", "prev_state", "next_pid", "next_prio"],
        texts: &["prev_comm", "next_comm"],
        read: switch,
    },
    Shape {
        name: "sched/sched_waking",
        numbers: &["pid", "prio", "target_cpu"],
        texts: &["comm"],
        read: waking,
    },
    Shape { name: "sched/sched_process_fork", numbers: &["parent_pid", "child_pid"], texts: &[], read: fork },
    Shape { name: "sched/sched_process_exit", numbers: &["pid"], texts: &[], read: exit },
    Shape { name: "power/cpu_frequency", numbers: &["state", "cpu_id"], texts: &[], read: power },
    Shape { name: "power/cpu_idle", numbers: &["state", "cpu_id"], texts: &[], read: power },
    Shape {
        name: "power/pstate_sample",
        numbers: &PSTATE,
        texts: &[],
        read: |text, to| PSTATE.iter().try_for_each(|name| to.number(of_key(text, name)?)),
    },
    Shape { name: "block/block_bio_queue", numbers: &SPAN, texts: &["rwbs"], read: bio },
    Shape {
        name: "block/block_bio_remap",
        numbers: &["dev", "sector", "nr_sector", "old_dev", "old_sector"],
        texts: &["rwbs"],
        read: remap,
    },
    Shape { name: "block/block_bio_complete", numbers: &ENDED, texts: &["rwbs"], read: completion },
    Shape { name: "block/block_rq_issue", numbers: &SPAN, texts: &["rwbs"], read: bio },
    Shape { name: "block/block_rq_complete", numbers: &ENDED, texts: &["rwbs"], read: completion },
    Shape { name: "workqueue/workqueue_execute_start", numbers: &["function"], texts: &[], read: work },
    Shape { name: "workqueue/workqueue_execute_end", numbers: &[], texts: &[], read: nothing },
    Shape { name: "timer/hrtimer_expire_entry", numbers: &[], texts: &[], read: nothing },
    Shape { name: "timer/timer_expire_entry", numbers: &[], texts: &[], read: nothing },
    Shape { name: "lock/contention_begin", numbers: &[], texts: &[], read: nothing },
    Shape { name: "lock/contention_end", numbers: &[], texts: &[], read: nothing },
    Shape { name: "irq/irq_handler_entry", numbers: &["irq"], texts: &[], read: irq },
    Shape { name: "irq/irq_handler_exit", numbers: &[], texts: &[], read: nothing },
    Shape { name: "irq/softirq_entry", numbers: &["vec"], texts: &[], read: softirq },
    Shape { name: "irq/softirq_exit", numbers: &[], texts: &[], read: nothing },
];

const PSTATE: [&str; 6] = ["core_busy", "from", "to", "aperf", "mperf", "tsc"];
const SPAN: [&str; 3] = ["dev", "sector", "nr_sector"];
const ENDED: [&str; 4] = ["dev", "sector", "nr_sector", "error"];

/// The letters of a thread's state, and their bits, as Linux has them since 4.14
/// (`include/trace/events/sched.h`, `__trace_sched_switch_state`).
const STATES: [(u64, char); 9] = [
    (0x01, 'S'),
    (0x02, 'D'),
    (0x04, 'T'),
    (0x08, 't'),
    (0x10, 'X'),
    (0x20, 'Z'),
    (0x40, 'P'),
    (0x80, 'I'),
    (OTHER, '?'),
];

/// The bit of a letter that is none of these: the thread waits.
const OTHER: u64 = 0x200;

/// The bit of one that was preempted: `R+`.
const PREEMPTED: u64 = 0x100;

/// Bytes of a text.
const TEXT: usize = 16;

/// What stands in front of the fields.
const COMMON: usize = 8;

/// Flags of a record: a handler of an interrupt, or a softirq, was running
/// (`include/linux/trace_events.h`, `trace_flag_type`).
pub const HARDIRQ: u8 = 0x08;
pub const SOFTIRQ: u8 = 0x10;

/// The shape of perf's `group:name`, and its number.
pub fn shape_of(event: &str) -> Option<(u16, &'static Shape)> {
    let (group, name) = event.split_once(':')?;
    let of = |shape: &&Shape| shape.name.split_once('/') == Some((group, name));
    (1..).zip(&SHAPES).find(|(_, shape)| of(shape))
}

/// `group/name`, a line break, and the format as tracefs would have it.
pub fn format(number: u16, shape: &Shape) -> String {
    let (_, name) = shape.name.split_once('/').unwrap_or_default();
    let mut text = format!("{}\nname: {name}\nID: {number}\nformat:\n", shape.name);
    let mut field = |kind: &str, name: &str, offset: usize, size: usize| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "\tfield:{kind} {name};\toffset:{offset};\tsize:{size};\tsigned:0;");
    };
    field("unsigned short", "common_type", 0, 2);
    field("unsigned char", "common_flags", 2, 1);
    field("int", "common_pid", 4, 4);
    let mut offset = COMMON;
    for name in shape.numbers {
        field("u64", name, offset, 8);
        offset += 8;
    }
    for name in shape.texts {
        field("char", &format!("{name}[{TEXT}]"), offset, TEXT);
        offset += TEXT;
    }
    let states = STATES.map(|(bit, letter)| format!("{{ 0x{bit:02x}, \"{letter}\" }}"));
    if shape.texts.contains(&"prev_comm") {
        let _ = writeln!(text, "\nprint fmt: {}", states.join(", "));
    }
    text
}

/// The record of a line with these fields; `None` where they cannot be read. `address` gives a function's.
pub fn encoded(
    (number, shape): (u16, &Shape),
    fields: &str,
    tid: u32,
    flags: u8,
    address: &mut dyn FnMut(&str) -> u64,
) -> Option<Vec<u8>> {
    let mut values = Values { numbers: Vec::new(), texts: Vec::new(), address };
    (shape.read)(fields, &mut values)?;
    let mut raw = number.to_ne_bytes().to_vec();
    raw.extend([flags, 0]);
    raw.extend(tid.to_ne_bytes());
    raw.extend(values.numbers.iter().flat_map(|number| number.to_ne_bytes()));
    raw.extend(values.texts.iter().flatten());
    Some(raw)
}

/// What was read of a line, in the order of its shape.
struct Values<'a> {
    numbers: Vec<u64>,
    texts: Vec<[u8; TEXT]>,
    address: &'a mut dyn FnMut(&str) -> u64,
}

impl Values<'_> {
    fn number(&mut self, value: u64) -> Option<()> {
        self.numbers.push(value);
        Some(())
    }

    fn text(&mut self, text: &str) {
        let mut bytes = [0; TEXT];
        for (to, byte) in bytes.iter_mut().zip(text.bytes()) {
            *to = byte;
        }
        self.texts.push(bytes);
    }
}

/// A number, which may be below zero.
fn number(text: &str) -> Option<u64> {
    text.parse::<u64>().ok().or_else(|| text.parse::<i64>().ok().map(i64::cast_unsigned))
}

/// The number behind `key=`.
fn of_key(text: &str, key: &str) -> Option<u64> {
    let words = text.split_whitespace();
    words.filter_map(|word| word.split_once('=')).find(|(name, _)| *name == key).and_then(|(_, v)| number(v))
}

/// `comm=NAME pid=N …`, where the name may hold anything: the name and what follows the last such key.
fn named<'t>(text: &'t str, comm: &str, pid: &str) -> Option<(&'t str, &'t str)> {
    text.trim().strip_prefix(comm)?.rsplit_once(pid)
}

/// `prev_comm=A prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=B next_pid=2 next_prio=120`; with the
/// plug-ins of perf's library `A:1 [120] S ==> B:2 [120]`.
fn switch(text: &str, to: &mut Values<'_>) -> Option<()> {
    let (prev, next) = text.rsplit_once(" ==> ")?;
    let ((prev_comm, prev_pid, prev_prio, state), (next_comm, next_pid, next_prio)) =
        match named(prev, "prev_comm=", " prev_pid=") {
            Some((comm, rest)) => {
                let mut words = rest.split_whitespace();
                let pid = number(words.next()?)?;
                let prio = number(words.next()?.strip_prefix("prev_prio=")?)?;
                let state = words.next()?.strip_prefix("prev_state=")?;
                let (next_comm, rest) = named(next, "next_comm=", " next_pid=")?;
                let (next_pid, rest) = rest.split_once(' ')?;
                let next_prio = number(rest.trim().strip_prefix("next_prio=")?)?;
                ((comm, pid, prio, state), (next_comm, number(next_pid)?, next_prio))
            }
            None => {
                let (thread, state) = prev.rsplit_once(' ')?;
                let (comm, pid, prio) = in_short(thread)?;
                ((comm, pid, prio, state), in_short(next)?)
            }
        };
    to.number(prev_pid)?;
    to.number(prev_prio)?;
    to.number(state_of(state)?)?;
    to.number(next_pid)?;
    to.number(next_prio)?;
    to.text(prev_comm);
    to.text(next_comm);
    Some(())
}

/// `NAME:PID [PRIO]`.
fn in_short(text: &str) -> Option<(&str, u64, u64)> {
    let (thread, prio) = text.trim().strip_suffix(']')?.rsplit_once(" [")?;
    let (comm, pid) = thread.rsplit_once(':')?;
    Some((comm, number(pid)?, number(prio)?))
}

/// `S`, `D|W`, `R+`.
fn state_of(text: &str) -> Option<u64> {
    let (letters, preempted) = text.strip_suffix('+').map_or((text, 0), |letters| (letters, PREEMPTED));
    let mut state = preempted;
    for letter in letters.split('|').filter(|letter| *letter != "R") {
        let mut letters = letter.chars();
        let (letter, None) = (letters.next()?, letters.next()) else { return None };
        // One that older kernels have for an end.
        let letter = if letter == 'x' { 'X' } else { letter };
        state |= STATES.iter().find(|(_, known)| *known == letter).map_or(OTHER, |(bit, _)| *bit);
    }
    Some(state)
}

/// `comm=A pid=1 prio=120 target_cpu=001`.
fn waking(text: &str, to: &mut Values<'_>) -> Option<()> {
    let (comm, rest) = named(text, "comm=", " pid=")?;
    to.number(number(rest.split_whitespace().next()?)?)?;
    to.number(of_key(rest, "prio")?)?;
    to.number(of_key(rest, "target_cpu")?)?;
    to.text(comm);
    Some(())
}

/// `comm=A pid=1 child_comm=B child_pid=2`.
fn fork(text: &str, to: &mut Values<'_>) -> Option<()> {
    let (rest, child) = text.rsplit_once(" child_pid=")?;
    let (parent, _) = rest.split_once(" child_comm=")?;
    let (_, parent) = named(parent, "comm=", " pid=")?;
    to.number(number(parent.trim())?)?;
    to.number(number(child.trim())?)
}

/// `comm=A pid=1 prio=120`, and with newer kernels more.
fn exit(text: &str, to: &mut Values<'_>) -> Option<()> {
    let (_, rest) = named(text, "comm=", " pid=")?;
    to.number(number(rest.split_whitespace().next()?)?)
}

/// `state=4294967295 cpu_id=0`.
fn power(text: &str, to: &mut Values<'_>) -> Option<()> {
    to.number(of_key(text, "state")?)?;
    to.number(of_key(text, "cpu_id")?)
}

/// `254,0 RS 65536 () 350642176 + 128 …`, of bios without bytes and command; what follows comes back.
fn span<'t>(text: &'t str, to: &mut Values<'_>) -> Option<&'t str> {
    let (device, rest) = text.trim().split_once(' ')?;
    let (rwbs, rest) = rest.trim_start().split_once(' ')?;
    let (before, rest) = rest.split_once(" + ")?;
    let sector = before.split_whitespace().next_back()?;
    let (sectors, behind) = rest.split_once(' ').unwrap_or((rest, ""));
    to.number(device_of(device)?)?;
    to.number(number(sector)?)?;
    to.number(number(sectors)?)?;
    to.text(rwbs);
    Some(behind)
}

/// `254,0`: twelve bits of major, twenty of minor (`include/linux/kdev_t.h`).
fn device_of(text: &str) -> Option<u64> {
    let (major, minor) = text.split_once(',')?;
    let (major, minor): (u64, u64) = (major.parse().ok()?, minor.parse().ok()?);
    (major < 1 << 12 && minor < 1 << 20).then_some(major << 20 | minor)
}

fn bio(text: &str, to: &mut Values<'_>) -> Option<()> {
    span(text, to).map(drop)
}

/// `… + 8 <- (254,1) 99`.
fn remap(text: &str, to: &mut Values<'_>) -> Option<()> {
    let behind = span(text, to)?;
    let (_, from) = behind.split_once('(')?;
    let (from, sector) = from.split_once(')')?;
    to.number(device_of(from.trim())?)?;
    to.number(number(sector.trim())?)
}

/// `… + 8 [-5]`: zero, or why it failed.
fn completion(text: &str, to: &mut Values<'_>) -> Option<()> {
    let behind = span(text, to)?;
    let (_, error) = behind.trim().strip_suffix(']')?.rsplit_once('[')?;
    to.number(number(error)?)
}

/// `work struct 0xffff…: function NAME`.
fn work(text: &str, to: &mut Values<'_>) -> Option<()> {
    let (_, function) = text.rsplit_once("function ")?;
    let function = function.trim();
    let address = match function.strip_prefix("0x") {
        Some(address) => u64::from_str_radix(address, 16).ok()?,
        None => (to.address)(function),
    };
    to.number(address)
}

/// `irq=24 name=virtio0`.
fn irq(text: &str, to: &mut Values<'_>) -> Option<()> {
    to.number(of_key(text, "irq")?)
}

/// `vec=1 [action=TIMER]`.
fn softirq(text: &str, to: &mut Values<'_>) -> Option<()> {
    to.number(of_key(text, "vec")?)
}

#[expect(clippy::unnecessary_wraps, reason = "as its siblings have it")]
fn nothing(_: &str, _: &mut Values<'_>) -> Option<()> {
    Some(())
}
