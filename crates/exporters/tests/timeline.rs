//! What the page of a timeline has of a trace and its events, unpacked by a reader of this test's own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod with_events;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::Nanos;
use events::facts::Wait;
use events::{Op, Owner};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::io::Read;
use with_events::made::File;
use with_events::{ORIGIN, Stored, file};

/// A page, unpacked.
struct Page {
    text: String,
    head: Value,
    bytes: Vec<u8>,
}

/// A span: when it began and ended, its name and its class.
type Span = (u64, u64, String, String);

impl Page {
    fn of(stored: &Stored) -> Self {
        let text = String::from_utf8(stored.exported("timeline").unwrap()).unwrap();
        let packed = text.split("id=\"packed\" type=\"application/octet-stream\">").nth(1).unwrap();
        let packed = STANDARD.decode(packed.split("</script>").next().unwrap()).unwrap();
        let mut all = Vec::new();
        GzDecoder::new(&packed[..]).read_to_end(&mut all).unwrap();
        let length = u32::from_le_bytes(all[..4].try_into().unwrap()) as usize;
        let head = serde_json::from_slice(&all[4..4 + length]).unwrap();
        Self { text, head, bytes: all[4 + length..].to_vec() }
    }

    fn groups(&self) -> Vec<&str> {
        let groups = self.head["groups"].as_array().unwrap();
        groups.iter().map(|group| group["name"].as_str().unwrap()).collect()
    }

    fn track(&self, group: &str, name: &str) -> &Value {
        let group = self.head["groups"].as_array().unwrap().iter().find(|one| one["name"] == group);
        let group = group.unwrap_or_else(|| panic!("no group {name}: {:?}", self.groups()));
        let track = group["tracks"].as_array().unwrap().iter().find(|track| track["name"] == name);
        track.unwrap_or_else(|| panic!("no track {name}: {group}"))
    }

    /// Numbers of a track, in the order in which they stand.
    fn numbers(&self, track: &Value, count: usize) -> Vec<u64> {
        let mut at = track["at"].as_u64().unwrap() as usize;
        let mut number = || {
            let length = self.bytes[at..].iter().position(|byte| byte & 128 == 0).unwrap() + 1;
            let bytes = &self.bytes[at..at + length];
            at += length;
            bytes.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 127))
        };
        (0..count).map(|_| number()).collect()
    }

    fn spans(&self, group: &str, name: &str) -> Vec<Span> {
        let track = self.track(group, name);
        let numbers = self.numbers(track, 3 * track["count"].as_u64().unwrap() as usize);
        let mut time = 0;
        let mut span = |numbers: &[u64]| {
            let begin = time + numbers[0];
            time = begin + numbers[1];
            let label = &self.head["labels"][numbers[2] as usize];
            let class = &self.head["classes"][label[1].as_u64().unwrap() as usize]["name"];
            (begin, time, label[0].as_str().unwrap().to_owned(), class.as_str().unwrap().to_owned())
        };
        numbers.chunks(3).map(&mut span).collect()
    }
}

impl Page {
    /// When each value begins, and the value.
    fn steps(&self, group: &str, name: &str) -> Vec<(u64, f32)> {
        let track = self.track(group, name);
        let (mut at, mut time) = (track["at"].as_u64().unwrap() as usize, 0);
        let step = |_| {
            let length = self.bytes[at..].iter().position(|byte| byte & 128 == 0).unwrap() + 1;
            let number = self.bytes[at..at + length].iter().rev();
            time += number.fold(0, |value, byte| value << 7 | u64::from(byte & 127));
            let value = f32::from_le_bytes(self.bytes[at + length..at + length + 4].try_into().unwrap());
            at += length + 4;
            (time, value)
        };
        (0..track["count"].as_u64().unwrap()).map(step).collect()
    }
}

fn span(begin: u64, end: u64, name: &str, class: &str) -> Span {
    (begin, end, name.into(), class.into())
}

#[test]
fn requests_lie_beside_each_other_in_the_queue_and_then_with_the_driver() {
    let page = Page::of(&Stored::with(Some(&file().bytes)));
    let (queue, service) = ("read: queue", "read: service");
    assert_eq!(page.spans("disk sda", "request 1"), {
        [span(20, 30, "read 4 KiB", queue), span(30, 60, "read 4 KiB", service)]
    });
    assert_eq!(page.spans("disk sda", "request 2"), {
        [
            span(25, 35, "read 8 KiB", queue),
            span(35, 70, "read 8 KiB", service),
            span(70, 75, "write 4 KiB", "write: queue"),
            span(75, 90, "write 4 KiB", "write: service"),
        ]
    });
    assert_eq!(page.spans("disk md0", "request 1"), [span(40, 95, "write 4 KiB", "write")]);
}

#[test]
fn a_cpus_track_and_the_threads_are_the_time_of_the_facts() {
    let file = file();
    let (page, facts) = (Page::of(&Stored::with(Some(&file.bytes))), file.facts());
    let sum = |spans: &[Span]| spans.iter().map(|(begin, end, ..)| end - begin).sum::<u64>();
    for (number, cpu) in facts.cpus.iter().filter(|(_, cpu)| cpu.busy_ns > 0) {
        // The file begins at zero on the monotonic clock; what was before the trace's own zero is not drawn.
        let before = if *number == 1 { ORIGIN } else { 0 };
        assert_eq!(sum(&page.spans(&format!("CPU {number}"), "runs")) + before, cpu.busy_ns, "CPU {number}");
    }
    let fio = facts.threads.iter().find(|thread| thread.tid == 100).unwrap();
    let spans = page.spans("workload threads", "100");
    let of = |class: &str| sum(&spans.iter().filter(|span| span.3 == class).cloned().collect::<Vec<_>>());
    assert_eq!(of("workload"), fio.spent.cpu_ns);
    assert_eq!(of("ready"), fio.spent.ready_ns);
    assert_eq!(of("waits, by whom it is woken is not known") + ORIGIN, fio.spent.waited(Wait::Unknown).get());
    let reads = &facts.devices[&("sda".to_owned(), Op::Read)];
    let services = ["request 1", "request 2"].map(|track| page.spans("disk sda", track)).concat();
    let services: Vec<Span> = services.into_iter().filter(|span| span.3 == "read: service").collect();
    assert_eq!(sum(&services), reads.service.sum.get());
    assert_eq!(page.spans("CPU 1", "interrupts"), [span(100, 103, "irq 24", "interrupt")]);
    assert_eq!(page.spans("CPU 1", "lost events"), [span(160, 160, "5 events lost", "events were lost")]);
}

const MS: u64 = 1_000_000;

/// A program has CPU 0 for 30 of the first hundred milliseconds and for 80 of the second; ondemand takes a
/// sample after each, and the frequency is changed then.
fn governed() -> File {
    const HANDLER: u64 = 0xffff_1000;
    let mut file = File::since(Nanos::new(ORIGIN));
    file.task(300, Owner::Kernel, "kworker/0:1");
    file.symbol(HANDLER, "dbs_work_handler");
    let t = |ms: u64| ORIGIN + ms * MS;
    file.switch(1, t(0), 0, 0, 0);
    for (begin, runs) in [(0, 0), (100, 30), (200, 80)] {
        if begin > 0 {
            file.switch(0, t(begin - 90), 0, 0, 100);
            file.switch(0, t(begin - 90 + runs), 100, 1, 0);
        }
        let work = [("common_pid", 300), ("function", HANDLER)];
        file.switch(0, t(begin), 0, 0, 300);
        file.event(0, t(begin), "workqueue/workqueue_execute_start", &work);
        for cpu in [0, 1] {
            let fields = [("common_pid", 300), ("state", 800_000 + begin), ("cpu_id", cpu)];
            file.event(0, t(begin) + MS / 20, "power/cpu_frequency", &fields);
        }
        file.event(0, t(begin) + MS / 10, "workqueue/workqueue_execute_end", &work[..1]);
        file.switch(0, t(begin) + MS / 10, 300, 1, 0);
    }
    file
}

/// The notebook and page of that recording, ended, where the machine has policy 0 of these CPUs.
fn governed_page(mut file: File, cpus: &str, governor: &str) -> Page {
    file.end(ORIGIN + 300 * MS);
    let stored = Stored::with(Some(&file.bytes));
    stored.put_policy(cpus, governor);
    Page::of(&stored)
}

/// What is drawn as a group's load, and the line in it.
fn check_load(page: &Page, group: &str, track: &str, mark: Option<f64>) {
    assert_eq!(page.track(group, track).get("mark").and_then(Value::as_f64), mark);
    let steps = page.steps(group, track);
    let [(first_at, first), (begin, second), (end, last)] = steps[..] else { panic!("{steps:?}") };
    assert_eq!((begin - first_at, end - begin), (100 * MS, 100 * MS));
    // The governor's own tenth of a millisecond counts as well.
    assert!((first - 30.1).abs() < 0.01 && (second - 80.1).abs() < 0.01 && last.is_nan(), "{steps:?}");
}

#[test]
fn how_busy_a_cpu_was_between_two_samples_of_ondemand_is_drawn() {
    let mut file = governed();
    file.end(ORIGIN + 300 * MS);
    let unknown = Page::of(&Stored::with(Some(&file.bytes)));
    assert!(!unknown.head.to_string().contains("of the governor"), "nothing is known of the policies");
    let page = governed_page(governed(), "0", "ondemand");
    check_load(&page, "CPU 0", "busy between samples of the governor", Some(95.0));
    assert!(page.head["notes"].to_string().contains("io_is_busy"));
}

#[test]
fn the_windows_of_a_policy_of_several_cpus_have_a_group_of_their_own_where_the_recording_has_the_policy() {
    let page = governed_page(governed(), "0-1", "ondemand");
    assert!(!page.head["groups"].to_string().contains("of the governor"));
    assert!(page.head["notes"].to_string().contains("several CPUs at once"));
    let mut file = governed();
    file.policy(0, &[0, 1]);
    let page = governed_page(file, "0-1", "ondemand");
    check_load(&page, "policy 0 (CPUs 0-1)", "busiest CPU between samples of the governor", Some(95.0));
    assert_eq!(page.groups()[..2], ["policy 0 (CPUs 0-1)", "CPU 0"]);
    let count = page.head["groups"].to_string().matches("of the governor").count();
    assert_eq!(count, 1, "no CPU has a track of its own");
}

#[test]
fn windows_of_a_policy_of_one_cpu_are_that_cpus_whatever_the_policys_number() {
    let mut file = governed();
    file.policy(1, &[0]);
    let page = governed_page(file, "0", "ondemand");
    check_load(&page, "CPU 0", "busy between samples of the governor", Some(95.0));
}

#[test]
fn windows_of_schedutil_lie_between_its_requests_and_it_is_said_that_its_utilisation_is_not_seen() {
    let page = governed_page(governed(), "0", "schedutil");
    check_load(&page, "CPU 0", "busy between requests of the governor", None);
    assert!(page.head["notes"].to_string().contains("PELT"));
    assert!(!page.head["groups"].to_string().contains("between samples"));
}

#[test]
fn what_is_not_drawn_is_said() {
    let page = Page::of(&Stored::with(Some(&file().bytes)));
    let notes: Vec<&str> =
        page.head["notes"].as_array().unwrap().iter().map(|note| note.as_str().unwrap()).collect();
    assert!(notes.contains(&"not recorded: power/pstate_sample: this kernel lacks it"), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("requests, of which the begin was not seen")), "{notes:?}");
    assert!(notes.iter().any(|note| note.starts_with("CPU 1: 5 events")), "{notes:?}");
    let without = Page::of(&Stored::with(None));
    assert!(without.head["notes"][0].as_str().unwrap().contains("`flyball record --events` does"));
    assert!(without.groups().contains(&"CPU 0"), "{:?}", without.groups());
}

#[test]
fn no_text_of_a_recording_is_markup() {
    let mut file = file();
    file.device(11 << 20, "</script><script>alert(1)</script>");
    file.block(7_000_000_200, "block/block_bio_queue", 11 << 20, 0, 8, 'R');
    file.block(7_000_000_210, "block/block_bio_complete", 11 << 20, 0, 8, 'R');
    let page = Page::of(&Stored::with(Some(&file.bytes)));
    assert!(page.groups().iter().any(|name| name.contains("alert(1)")), "{:?}", page.groups());
    assert!(!page.text.contains("alert(1)"));
    assert_eq!(page.text.matches("</script>").count(), 2);
}

#[test]
fn a_damaged_file_is_named_with_what_cannot_be_read() {
    let bytes = file().bytes;
    let error = Stored::with(Some(&bytes[..20])).exported("timeline").map(|_| ()).unwrap_err();
    assert!(error.to_string().contains("cannot draw the events"), "{error}");
}
