//! Texts of `perf script`, converted.

#![allow(clippy::unwrap_used, reason = "it is a test")]

mod damage;

use damage::damage;
use domain::trace::Role;
use events::foreign::{Converted, Error};
use events::perf_script::convert;
use events::{Context, Event, Facts, Op, Tables, What, decode};
use proptest::prelude::*;
use std::io::Cursor;

/// A file of `perf record`, and what perf 6.1 prints of it (fixtures/tools/PROVENANCE.md): as it does by
/// default, and with `--ns --show-task-events`.
const DATA: &[u8] = include_bytes!("../../../fixtures/tools/perf/record-6.1.data");
const TEXT: &[u8] = include_bytes!("../../../fixtures/tools/perf/script-6.1.txt");
const TASKS: &[u8] = include_bytes!("../../../fixtures/tools/perf/script-tasks-6.1.txt");

/// Of more tracepoints, with `--ns`: dd reads a loop device.
const MANY: &[u8] = include_bytes!("../../../fixtures/tools/perf/script-many-6.1.txt");

fn converted(bytes: &[u8]) -> Result<(Converted, Vec<u8>), Error> {
    let mut output = Vec::new();
    convert(bytes, &mut output).map(|converted| (converted, output))
}

fn facts(file: &[u8]) -> Facts {
    Facts::read(|| Ok(Cursor::new(file))).unwrap()
}

fn of_data() -> (Converted, Vec<u8>) {
    let mut output = Vec::new();
    let converted = events::perf_data::convert(DATA, &mut output).unwrap();
    (converted, output)
}

fn events_of(file: &[u8]) -> Vec<Event> {
    let tables = Tables::read(Cursor::new(file)).unwrap();
    let mut events = Vec::new();
    decode(Cursor::new(file), &tables, |event| events.push(*event)).unwrap();
    events
}

/// What the text does not have is whether an interrupt was going on.
fn without_context(mut event: Event) -> Event {
    event.context = Context::of_flags(0);
    event
}

#[test]
fn with_nanoseconds_and_processes_the_events_and_facts_are_those_of_the_file() {
    let (of_data, data) = of_data();
    let (of_text, text) = converted(TASKS).unwrap();
    assert_eq!((of_text.events, of_text.others, of_text.span), (of_data.events, 0, of_data.span));
    let both =
        [&data, &text].map(|file| events_of(file).into_iter().map(without_context).collect::<Vec<_>>());
    assert_eq!(both[0].len(), 106);
    assert_eq!(both[0], both[1]);
    let (from_data, from_text) = (facts(&data), facts(&text));
    assert_eq!(from_text.cpus, from_data.cpus);
    assert_eq!(from_text.devices, from_data.devices);
    assert_eq!(from_text.accesses, from_data.accesses);
    // Waits are told apart by what was not said.
    let spent = |facts: &Facts| -> Vec<_> {
        let of = |one: &events::facts::ThreadSpent| {
            let waited: u64 = one.spent.wait_ns.iter().sum();
            (one.tid, one.name.clone(), one.role, one.spent.cpu_ns, one.spent.ready_ns, waited)
        };
        facts.threads.iter().map(of).collect()
    };
    assert_eq!(spent(&from_text), spent(&from_data));
}

#[test]
fn as_perf_prints_by_default_the_facts_are_those_of_the_file_to_the_microsecond() {
    let (of_data, data) = of_data();
    let (of_text, text) = converted(TEXT).unwrap();
    let named = |of: &Converted| (of.kernel.clone(), of.host.clone(), of.version.clone(), of.command.clone());
    assert_eq!(named(&of_text), named(&of_data));
    let (from_data, from_text) = (facts(&data), facts(&text));
    let counts = |facts: &Facts| -> Vec<_> {
        facts.kinds.iter().filter(|(_, kind)| kind.recorded > 0).map(|(n, k)| (n.clone(), *k)).collect()
    };
    assert_eq!(counts(&from_text), counts(&from_data));
    for (key, done) in &from_data.devices {
        let of_text = &from_text.devices[key];
        assert_eq!((of_text.count, of_text.sectors), (done.count, done.sectors), "{key:?}");
    }
    let thread = |facts: &Facts, name: &str| {
        let found = facts.threads.iter().find(|thread| thread.name == name).unwrap();
        (found.role, found.spent.switches, found.spent.cpu_ns)
    };
    for name in ["dd", "migration/0", "rcu_preempt"] {
        let ((role, switches, ns), (wanted, wanted_switches, wanted_ns)) =
            (thread(&from_text, name), thread(&from_data, name));
        assert_eq!((role, switches), (wanted, wanted_switches), "{name}");
        assert!(ns.abs_diff(wanted_ns) <= 1000 * (switches + 1), "{name}: {ns} and {wanted_ns}");
    }
    assert_eq!(thread(&from_text, "dd").0, Role::Workload);
}

#[test]
fn bios_work_interrupts_and_processes_are_read_and_other_events_counted() {
    let (converted, file) = converted(MANY).unwrap();
    let facts = facts(&file);
    let counted = |name: &str| facts.kinds[name].recorded;
    let names = [
        "sched/sched_switch",
        "sched/sched_waking",
        "sched/sched_process_fork",
        "sched/sched_process_exit",
        "block/block_bio_queue",
        "block/block_rq_issue",
        "block/block_rq_complete",
        "workqueue/workqueue_execute_start",
        "workqueue/workqueue_execute_end",
        "irq/irq_handler_entry",
        "irq/softirq_exit",
        "timer/hrtimer_expire_entry",
    ];
    assert_eq!(names.map(counted), [81, 48, 1, 1, 13, 13, 14, 7, 7, 7, 17, 31]);
    // block_rq_insert.
    assert_eq!((converted.others, facts.unread, facts.all_lost()), (7, 0, 0));
    assert_eq!(facts.work["loop_rootcg_workfn"].0, 7);
    let kworker = facts.threads.iter().find(|thread| thread.name.starts_with("kworker/u8:5")).unwrap();
    assert_eq!(kworker.role, Role::Kworker);
    assert!(facts.devices.contains_key(&("7:0".to_owned(), Op::Read)));
    let events = events_of(&file);
    // What happens between a softirq's begin and its end happens in it.
    let completions = events.iter().filter(|event| matches!(event.what, What::Complete { .. }));
    assert!(completions.clone().any(|event| event.context.is_interrupt()));
    let (mut softirq, mut seen) = ([false; 2], 0);
    for event in &events {
        let inside = &mut softirq[usize::from(event.cpu)];
        match event.what {
            What::SoftirqBegin { .. } => *inside = true,
            What::SoftirqEnd => *inside = false,
            What::Switch { .. } => assert!(!*inside),
            _ if *inside => {
                assert!(event.context.is_interrupt(), "{event:?}");
                seen += 1;
            }
            _ => {}
        }
    }
    assert!(seen > 0);
}

/// One event by its line.
fn one(event: &str, fields: &str) -> What {
    let text = format!("a b 7 [001] 5.000001: {event}: {fields}\n");
    let (converted, file) = converted(text.as_bytes()).unwrap();
    assert_eq!(converted.events, 1, "{text}");
    let events = events_of(&file);
    assert_eq!((events[0].time.get(), events[0].cpu, events[0].tid), (5_000_001_000, 1, 7));
    events[0].what
}

#[test]
fn older_and_newer_kernels_print_the_same_event_in_other_words() {
    let issue = one("block:block_rq_issue", "8,16 WS 4096 () 2048 + 8 [kworker/0:1]");
    assert_eq!(issue, one("block:block_rq_issue", "8,16 WS 4096 () 2048 + 8 none,0,0 [kworker/0:1]"));
    let What::Issue { span, op } = issue else { panic!("{issue:?}") };
    assert_eq!((span.device, span.sector, span.sectors, op), (8 << 20 | 16, 2048, 8, Op::Write));
    let switch = one(
        "sched:sched_switch",
        "prev_comm=a ==> b prev_pid=7 prev_prio=-1 prev_state=D|K ==> next_comm=c d next_pid=8 next_prio=120",
    );
    assert!(matches!(switch, What::Switch { .. }));
    let long =
        "prev_comm=a b prev_pid=7 prev_prio=120 prev_state=R+ ==> next_comm=c d next_pid=8 next_prio=19";
    assert_eq!(one("sched:sched_switch", long), one("sched:sched_switch", "a b:7 [120] R+ ==> c d:8 [19]"));
    let remap = one("block:block_bio_remap", "253,1 RA 4096 + 8 <- (9,127) 2048");
    assert!(
        matches!(remap, What::BioRemap { from, from_sector: 2048, .. } if from == 9 << 20 | 127),
        "{remap:?}"
    );
    let failed = one("block:block_bio_complete", "9,127 FWS 0 + 0 [-5]");
    assert!(matches!(failed, What::BioComplete { failed: true, op: Op::Write, .. }), "{failed:?}");
    assert_eq!(one("power:cpu_idle", "state=4294967295 cpu_id=1"), What::Idle { cpu: 1, state: None });
    assert_eq!(one("power:cpu_frequency", "state=800000 cpu_id=3"), What::Frequency { cpu: 3, khz: 800_000 });
    let work = one("workqueue:workqueue_execute_start", "work struct 0xff: function 0xffffffff81234560");
    assert_eq!(work, What::WorkBegin { function: 0xffff_ffff_8123_4560, work: None });
    let decided = "core_busy=80 scaled=70 from=8 to=30 mperf=200 aperf=160 tsc=400 freq=800000 io_boost=0";
    let pstate = What::Pstate { busy: 80, from: 8, to: 30, aperf: 160, mperf: 200, tsc: 400 };
    assert_eq!(one("power:pstate_sample", decided), pstate);
}

#[test]
fn what_perf_says_that_it_lost_is_counted_and_what_cannot_be_read_is_said() {
    let text = "a 7 [001] 5.000001: sched:sched_waking: comm=b pid=8 prio=120 target_cpu=000\n\
                a 7 [001] 5.000002: PERF_RECORD_LOST lost 12\n\
                a 7 [001] 5.000002: PERF_RECORD_LOST_SAMPLES lost 3\n\
                a 7 [001] 5.000003: sched:sched_waking: comm=b pid=tea\n\
                a 7 [001] 5.000004: syscalls:sys_enter_read: fd: 0x3\n\
                \tffffffff8117f5e0 ksys_read+0x70 ([kernel.kallsyms])\n";
    let (converted, file) = converted(text.as_bytes()).unwrap();
    assert_eq!((converted.events, converted.others, facts(&file).lost[&1]), (1, 1, 15));
    assert!(converted.notes[0].starts_with("1 lines of known events"), "{:?}", converted.notes);
}

#[test]
fn a_text_without_events_says_what_has_some() {
    let why = |text: &str| converted(text.as_bytes()).unwrap_err().to_string();
    for text in ["", "dear all,\n", "dd 7 [000] 1.000001: 100 cycles: ffff memcpy\n"] {
        assert!(why(text).contains("`perf script` of a `perf record"), "{}", why(text));
    }
}

proptest! {
    #[test]
    fn no_damage_makes_it_panic(damage in damage(3)) {
        for bytes in damage.to(&[TEXT, TASKS, MANY]) {
            if let Ok((_, output)) = converted(&bytes) {
                let _ = Facts::read(|| Ok(Cursor::new(&output)));
            }
        }
    }
}
