//! What Perfetto gets of a trace and its events, read back by a decoder of this test's own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod with_events;

use domain::ids::{RunId, TrialKey};
use domain::trace::growth;
use events::Op;
use notebook::Notebook;
use std::collections::BTreeMap;
use with_events::{ORIGIN, RUN, Stored, TRIAL, file};

/// Numbers of fields, as perfetto_trace.proto has them.
const FTRACE_EVENTS: u32 = 1;
const PROCESS_TREE: u32 = 2;
const CLOCK_SNAPSHOT: u32 = 6;
const TRACK_EVENT: u32 = 11;
const INTERNED_DATA: u32 = 12;
const FTRACE_STATS: u32 = 34;
const TRACK_DESCRIPTOR: u32 = 60;

/// A field's value.
#[derive(Clone, Debug)]
enum Value {
    Number(u64),
    Double(f64),
    Bytes(Vec<u8>),
}

/// The fields of a message, in their order.
#[derive(Clone, Debug)]
struct Fields(Vec<(u32, Value)>);

impl Fields {
    fn read(mut bytes: &[u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let value = match tag & 7 {
                0 => Value::Number(varint(&mut bytes)),
                1 => {
                    let (double, rest) = bytes.split_first_chunk().unwrap();
                    bytes = rest;
                    Value::Double(f64::from_le_bytes(*double))
                }
                2 => {
                    let length = varint(&mut bytes) as usize;
                    let (inner, rest) = bytes.split_at(length);
                    bytes = rest;
                    Value::Bytes(inner.to_vec())
                }
                other => panic!("wire type {other}"),
            };
            fields.push(((tag >> 3) as u32, value));
        }
        Self(fields)
    }

    fn all(&self, field: u32) -> impl Iterator<Item = &Value> {
        self.0.iter().filter(move |(number, _)| *number == field).map(|(_, value)| value)
    }

    fn number(&self, field: u32) -> Option<u64> {
        self.all(field).find_map(|value| if let Value::Number(number) = value { Some(*number) } else { None })
    }

    fn double(&self, field: u32) -> Option<f64> {
        self.all(field).find_map(|value| if let Value::Double(double) = value { Some(*double) } else { None })
    }

    fn messages(&self, field: u32) -> impl Iterator<Item = Fields> {
        self.all(field)
            .filter_map(|value| if let Value::Bytes(b) = value { Some(Self::read(b)) } else { None })
    }

    fn message(&self, field: u32) -> Option<Fields> {
        self.messages(field).next()
    }

    fn text(&self, field: u32) -> Option<String> {
        let text = |value: &Value| {
            if let Value::Bytes(b) = value { Some(String::from_utf8(b.clone()).unwrap()) } else { None }
        };
        self.all(field).find_map(text)
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let end = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap();
    let (number, rest) = bytes.split_at(end + 1);
    *bytes = rest;
    number.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f))
}

/// A whole trace, read.
struct Read {
    packets: Vec<Fields>,
    /// By number: the parent's name and the own.
    tracks: BTreeMap<u64, (String, String)>,
}

/// One that was drawn.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Slice {
    track: (String, String),
    depth: usize,
    name: String,
    from: u64,
    to: u64,
}

impl Read {
    fn of(bytes: &[u8]) -> Self {
        let packets: Vec<Fields> = Fields::read(bytes).messages(1).collect();
        let mut names: BTreeMap<u64, (u64, String)> = BTreeMap::new();
        for track in packets.iter().filter_map(|packet| packet.message(TRACK_DESCRIPTOR)) {
            let own = (track.number(5).unwrap_or(0), track.text(2).unwrap());
            assert!(names.insert(track.number(1).unwrap(), own).is_none(), "a track's number is there twice");
        }
        let name = |of: &u64| names.get(of).map_or_else(String::new, |(_, name)| name.clone());
        let tracks = names.iter().map(|(uuid, (parent, own))| (*uuid, (name(parent), own.clone())));
        Self { tracks: tracks.collect(), packets }
    }

    /// Time, track and event, in the order of time; of one time, as they stand.
    fn events(&self) -> Vec<(u64, u64, Fields)> {
        let of = |packet: &Fields| {
            let event = packet.message(TRACK_EVENT)?;
            Some((packet.number(8).unwrap(), event.number(11).unwrap(), event))
        };
        let mut events: Vec<_> = self.packets.iter().filter_map(of).collect();
        events.sort_by_key(|(time, _, _)| *time);
        events
    }

    /// Slices, as a reader draws them: an end ends what began last on its track.
    fn slices(&self) -> Vec<Slice> {
        let mut open: BTreeMap<u64, Vec<(u64, String)>> = BTreeMap::new();
        let mut slices = Vec::new();
        for (time, track, event) in self.events() {
            let stack = open.entry(track).or_default();
            match event.number(9).unwrap() {
                1 => stack.push((time, event.text(23).unwrap())),
                2 => {
                    let (from, name) = stack.pop().expect("an end has a begin");
                    let (track, depth) = (self.tracks[&track].clone(), stack.len());
                    slices.push(Slice { track, depth, name, from, to: time });
                }
                _ => {}
            }
        }
        assert!(open.values().all(Vec::is_empty), "a slice has no end: {open:?}");
        slices.sort();
        slices
    }

    fn instants(&self) -> Vec<(u64, String)> {
        let is_instant = |event: &Fields| event.number(9) == Some(3);
        let instants = self.events().into_iter().filter(|(_, _, event)| is_instant(event));
        instants.map(|(time, _, event)| (time, event.text(23).unwrap())).collect()
    }

    /// A counter's times and values.
    fn counter(&self, parent: &str, name: &str) -> Vec<(u64, f64)> {
        let is_meant = |track: &u64| self.tracks[track] == (parent.to_owned(), name.to_owned());
        let of_it = self.events().into_iter().filter(|(_, track, _)| is_meant(track));
        of_it.map(|(time, _, event)| (time, event.double(44).unwrap())).collect()
    }

    /// Events of ftrace of one kind: CPU, time, thread and what it says.
    fn ftrace(&self, kind: u32) -> Vec<(u64, u64, u64, Fields)> {
        let mut all = Vec::new();
        for bundle in self.packets.iter().filter_map(|packet| packet.message(FTRACE_EVENTS)) {
            let cpu = bundle.number(1).unwrap();
            for event in bundle.messages(2) {
                if let Some(body) = event.message(kind) {
                    all.push((cpu, event.number(1).unwrap(), event.number(2).unwrap(), body));
                }
            }
        }
        all
    }
}

#[test]
fn requests_are_slices_that_nest_and_lie_beside_each_other() {
    let file = file();
    let read = Read::of(&Stored::with(Some(&file.bytes)).exported("perfetto").unwrap());
    let slice = |track: (&str, &str), depth: usize, name: &str, from: u64, to: u64| Slice {
        track: (track.0.into(), track.1.into()),
        depth,
        name: name.into(),
        from: ORIGIN + from,
        to: ORIGIN + to,
    };
    let (sda, md) = (("disk sda", "requests"), ("disk md0", "bios"));
    let expected = [
        slice(md, 0, "write", 40, 95),
        slice(sda, 0, "read", 20, 60),
        slice(sda, 0, "read", 25, 70),
        slice(sda, 0, "write", 70, 90),
        slice(sda, 1, "queue", 20, 30),
        slice(sda, 1, "queue", 25, 35),
        slice(sda, 1, "queue", 70, 75),
        slice(sda, 1, "service", 30, 60),
        slice(sda, 1, "service", 35, 70),
        slice(sda, 1, "service", 75, 90),
    ];
    assert_eq!(read.slices(), expected);
    let lanes = read.tracks.values().filter(|(_, name)| name == "requests").count();
    assert_eq!(lanes, 2, "as many as requests at once");
}

#[test]
fn times_of_requests_are_those_of_the_facts() {
    let file = file();
    let read = Read::of(&Stored::with(Some(&file.bytes)).exported("perfetto").unwrap());
    let facts = file.facts();
    let sum = |name: &str| {
        let of_name = read.slices().into_iter().filter(|slice| slice.name == name);
        of_name.map(|slice| slice.to - slice.from).sum::<u64>()
    };
    let of_sda = || Op::ALL.into_iter().filter_map(|op| facts.devices.get(&("sda".to_owned(), op)));
    assert_eq!(sum("service"), of_sda().map(|done| done.service.sum.get()).sum::<u64>());
    // The read that was lost was issued: its queue is in the facts and has no slice.
    assert_eq!(sum("queue") + 1, of_sda().map(|done| done.queue.sum.get()).sum::<u64>());
    assert_eq!(facts.all_recorded(), recorded(&read), "each recorded event is counted");
}

/// What the statistics at the end say was read.
fn recorded(read: &Read) -> u64 {
    let end = read.packets.iter().rev().find_map(|packet| packet.message(FTRACE_STATS)).unwrap();
    end.messages(2).map(|cpu| cpu.number(9).unwrap()).sum()
}

#[test]
fn events_of_the_kernel_keep_their_time_cpu_and_thread() {
    let read = Read::of(&Stored::with(Some(&file().bytes)).exported("perfetto").unwrap());
    let at = |kind: u32| {
        let all = read.ftrace(kind).into_iter();
        all.map(|(cpu, time, pid, _)| (cpu, time - ORIGIN, pid)).collect::<Vec<_>>()
    };
    const SWITCH: u32 = 4;
    assert_eq!(at(SWITCH), [(0, 10, 0), (0, 140, 100)]);
    let (_, _, _, switch) = &read.ftrace(SWITCH)[1];
    let numbers = [2, 3, 4, 6, 7].map(|field| switch.number(field));
    assert_eq!(numbers, [Some(100), Some(0), Some(1), Some(300), Some(0)], "previous, its state, next");
    let (_, _, _, frequency) = &read.ftrace(11)[0];
    assert_eq!((frequency.number(1), frequency.number(2)), (Some(2_400_000), Some(1)));
    let (_, _, _, idle) = &read.ftrace(13)[0];
    assert_eq!(idle.number(1), Some(u64::from(u32::MAX)), "it leaves its idle state");
    assert_eq!(at(20), [(1, 101, 7)], "a wake-up");
    let (_, _, _, waking) = &read.ftrace(20)[0];
    assert_eq!([2, 3, 5].map(|field| waking.number(field)), [Some(300), Some(120), Some(1)]);
    assert_eq!((at(36), at(37)), (vec![(1, 100, 7)], vec![(1, 103, 7)]), "an interrupt");
    assert_eq!((at(58), at(57)), (vec![(0, 110, 300)], vec![(1, 130, 300)]), "work that moved");
    let (_, _, _, work) = &read.ftrace(58)[0];
    let interned = read.packets.iter().find_map(|packet| packet.message(INTERNED_DATA)).unwrap();
    let named = interned.messages(26).find(|symbol| symbol.number(1) == work.number(2)).unwrap();
    assert_eq!(named.text(2).as_deref(), Some("kcryptd_crypt [dm_crypt]"));
}

#[test]
fn who_was_there_is_a_tree_and_kernel_threads_are_below_kthreadd() {
    let read = Read::of(&Stored::with(Some(&file().bytes)).exported("perfetto").unwrap());
    let tree = read.packets.iter().find_map(|packet| packet.message(PROCESS_TREE)).unwrap();
    let process = |process: Fields| (process.number(1).unwrap(), process.number(2), process.text(3).unwrap());
    let processes: Vec<_> = tree.messages(1).map(process).collect();
    let expected = [(2, None, "kthreadd"), (100, None, "fio"), (300, Some(2), "kworker/0:1")];
    assert_eq!(processes, expected.map(|(pid, parent, name)| (pid, parent, name.to_owned())));
    let threads: Vec<_> = tree.messages(2).map(|one| (one.number(1), one.number(3))).collect();
    assert_eq!(threads, [(Some(101), Some(100))]);
}

#[test]
fn a_loss_is_marked_and_what_was_under_way_is_not_drawn() {
    let read = Read::of(&Stored::with(Some(&file().bytes)).exported("perfetto").unwrap());
    assert!(read.ftrace(24).is_empty() && read.ftrace(25).is_empty(), "a softirq around the loss");
    assert!(!read.slices().iter().any(|slice| slice.from >= ORIGIN + 150), "a request around the loss");
    let told: Vec<(u64, String)> = read.instants();
    let at = |text: &str| told.iter().find(|(_, one)| one == text).map(|(time, _)| time - ORIGIN);
    assert_eq!(at("lost on CPU 1"), Some(160), "{told:?}");
    assert_eq!(at("requests whose begin was not seen"), Some(1_000), "{told:?}");
    assert_eq!(told[0].1, "not recorded: power/pstate_sample: this kernel lacks it");
    let bundles = read.packets.iter().filter_map(|packet| packet.message(FTRACE_EVENTS));
    let marked: Vec<_> = bundles.filter(|bundle| bundle.number(3) == Some(1)).collect();
    assert_eq!(marked.iter().map(|bundle| bundle.number(1)).collect::<Vec<_>>(), [Some(1)]);
    let phases = read.packets.iter().filter_map(|packet| packet.message(FTRACE_STATS));
    let lost = phases.map(|phase| {
        (phase.number(1).unwrap(), phase.messages(2).map(|cpu| cpu.number(3).unwrap()).collect::<Vec<_>>())
    });
    assert_eq!(lost.collect::<Vec<_>>(), [(1, vec![0, 0]), (2, vec![0, 5])]);
}

#[test]
fn samples_are_on_the_clock_of_events_and_their_sums_are_those_of_the_counters() {
    let stored = Stored::with(Some(&file().bytes));
    let read = Read::of(&stored.exported("perfetto").unwrap());
    let notebook = Notebook::open(stored.0.path()).unwrap();
    let key: TrialKey = TRIAL.parse().unwrap();
    let mut rows = notebook.trace(&RunId(RUN.into()), &key).unwrap().unwrap();
    let trace = rows.read(usize::MAX, |series| series.name == "disk.vda.read_sectors").unwrap();
    let column = &trace.columns[0];
    let values = read.counter("disk vda", "read throughput");
    assert_eq!(values[0].0, ORIGIN + trace.times[0].get());
    let last = ORIGIN + trace.times.last().unwrap().get();
    let until = values.iter().skip(1).map(|(time, _)| *time).chain([last]);
    let bytes: f64 = values.iter().zip(until).map(|((from, rate), to)| rate * (to - from) as f64 / 1e9).sum();
    let grown = growth(column[0].unwrap(), column.last().unwrap().unwrap(), None).unwrap() * 512;
    assert!(grown > 0 && (bytes - grown as f64).abs() < 1e-6 * grown as f64, "{bytes} and {grown}");
    let busy = read.counter("CPU 1", "busy");
    assert!(!busy.is_empty() && busy.iter().all(|(_, share)| (0.0..=115.0).contains(share)), "{busy:?}");
    assert!(!read.counter("disk vda", "read latency").is_empty());
    // This machine counted no energy: there is no track of it, and none of zeros.
    assert!(!read.tracks.values().any(|(parent, _)| parent == "power"));
}

#[test]
fn clocks_come_first_and_every_packet_is_of_one_sequence() {
    for (events, origin) in [(Some(file().bytes), ORIGIN), (None, 0)] {
        let read = Read::of(&Stored::with(events.as_deref()).exported("perfetto").unwrap());
        let clocks = read.packets[0].message(CLOCK_SNAPSHOT).unwrap();
        let shown: BTreeMap<_, _> = clocks.messages(1).map(|one| (one.number(1), one.number(2))).collect();
        assert_eq!((shown[&Some(3)], shown[&Some(6)]), (Some(origin), Some(origin)));
        assert!(shown[&Some(1)].unwrap() > 1_700_000_000_000_000_000, "{shown:?}");
        assert_eq!(read.packets[0].number(13), Some(1), "nothing was interned before");
        assert!(read.packets.iter().all(|packet| packet.number(10) == Some(1)));
    }
}

#[test]
fn damaged_events_are_an_error_and_no_bytes_make_it_panic() {
    let whole = file().bytes;
    let stored = Stored::with(Some(b"FLYEVT01 and no more"));
    let error = stored.exported("perfetto").unwrap_err().to_string();
    assert!(error.starts_with("cannot write the events of `b00.randread_4k.a0`: "), "{error}");
    let mut refused = 0;
    // Each byte behind the formats of the tracepoints, which are the most of the file.
    let from = whole.len() - 3_000;
    for at in (from..whole.len()).step_by(31) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        for bytes in [&bytes[..], &whole[..at]] {
            stored.put(bytes);
            match stored.exported("perfetto") {
                Ok(exported) => drop(Read::of(&exported).slices()),
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > 5, "{refused}");
}
