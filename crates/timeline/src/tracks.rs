//! Groups of tracks: each CPU, policies of several CPUs, each device, threads by role, and what was sampled.

use crate::classes::{self, Part};
use crate::packed::{Spans, Steps};
use domain::inert;
use domain::inventory::CpuList;
use domain::order;
use domain::time::Nanos;
use domain::trace::Role;
use domain::windows::{Boundary, GovernorWindows};
use events::facts::{Between, Did, Interval, SAMPLES_LOAD, Thread, intervals};
use events::{Ended, Losses, Op, Tables};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{Read, Seek};

/// Spans beyond these are not drawn: a page of so many has 30 to 60 MB.
const MAX_SPANS: usize = 12_000_000;

/// Tracks of one device: so many requests are drawn at once.
const MAX_LANES: usize = 64;
/// Devices, CPUs and labels that a stranger's file can make.
const MAX_DEVICES: usize = 1024;
const MAX_CPUS: usize = 4096;
const MAX_LABELS: usize = 1 << 20;

/// Threads with a track of their own, the busiest; and how many are followed until it is known which these
/// are.
const SHOWN_THREADS: usize = 200;
const MAX_THREADS: usize = 2048;

/// A sampled value, from one time until the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// Since the recording's origin.
    pub at: Nanos,
    /// `None` where it is not known.
    pub value: Option<f64>,
}

/// All that is drawn, as it is put together.
#[derive(Debug, Default)]
pub struct Timeline {
    /// What time is zero.
    origin: Nanos,
    /// The last end.
    pub(crate) span: u64,
    labels: Labels,
    phases: Spans,
    cpus: BTreeMap<u16, Cpu>,
    /// Policies of several CPUs, by their numbers.
    policies: BTreeMap<u16, Policy>,
    devices: BTreeMap<String, Device>,
    threads: HashMap<u32, Own>,
    sampled: Vec<Sampled>,
    pub(crate) notes: Vec<String>,
    spans: usize,
    left_out: LeftOut,
    /// The governor whose windows are drawn: what bounds them, and above which load, in percent, it goes up.
    governor: Option<(Boundary, Option<f64>)>,
}

/// What is not drawn: it is said in notes.
#[derive(Debug, Default)]
struct LeftOut {
    /// Since when, because of its count.
    since: Option<Nanos>,
    without_begin: u64,
    without_lane: u64,
    threads: usize,
}

#[derive(Debug, Default)]
struct Cpu {
    runs: Spans,
    idle: Spans,
    irqs: Spans,
    softirqs: Spans,
    frequency: Steps,
    lost: Spans,
    load: Load,
}

/// A policy of several CPUs.
#[derive(Debug)]
struct Policy {
    /// Its CPUs: `0-3`.
    cpus: CpuList,
    /// Of the busiest of them.
    load: Load,
}

/// How busy a CPU was in each window of its governor.
#[derive(Debug, Default)]
struct Load {
    steps: Steps,
    /// When the last window ended.
    until: Option<u64>,
}

impl Load {
    /// Adds a window; where one before it is missing, there is a gap.
    fn add(&mut self, begin: u64, end: u64, busy: Nanos) {
        if let Some(until) = self.until.filter(|until| *until < begin) {
            self.steps.push(until, None);
        }
        self.steps.push(begin, Some(busy.get() as f64 * 100.0 / (end - begin).max(1) as f64));
        self.until = Some(end);
    }

    /// Of the governor whose windows they are.
    fn track(mut self, whose: &str, governor: Option<(Boundary, Option<f64>)>) -> Option<Track> {
        let (boundary, threshold) = governor?;
        if let Some(until) = self.until {
            self.steps.push(until, None);
        }
        let name = format!("{whose} between {} of the governor", boundary.plural());
        Some(Track::steps(&name, "%", self.steps)?.marked(threshold))
    }
}

#[derive(Debug, Default)]
struct Device {
    lanes: Vec<Spans>,
    /// When the last request of each ended.
    free: BTreeSet<(u64, usize)>,
}

/// A thread's track.
#[derive(Debug)]
struct Own {
    thread: Thread,
    spans: Spans,
    cpu_ns: u64,
}

#[derive(Debug)]
struct Sampled {
    group: String,
    name: String,
    unit: String,
    steps: Steps,
}

/// What spans are called, each once.
#[derive(Debug, Default)]
struct Labels {
    all: Vec<(String, u8)>,
    by_text: HashMap<(String, u8), u32>,
    /// Of threads on a CPU, by who and what: they are asked for each time that one runs.
    of_threads: HashMap<(Thread, Option<u64>), (u32, u8)>,
}

impl Labels {
    fn named(&mut self, name: String, class: u8) -> u32 {
        if let Some(known) = self.by_text.get(&(name.clone(), class)) {
            return *known;
        }
        if self.all.len() >= MAX_LABELS {
            return 0;
        }
        let number = self.all.len() as u32;
        self.all.push((inert::one_line(&name).into_owned(), class));
        self.by_text.insert((name, class), number);
        number
    }

    /// A thread on a CPU: its label there, and its class.
    fn thread(&mut self, tables: &Tables, thread: Thread, function: Option<u64>) -> (u32, u8) {
        if let Some(known) = self.of_threads.get(&(thread, function)) {
            return *known;
        }
        let executed = function.map(|address| function_name(tables, address));
        let class = classes::of_role(thread.role(executed.as_deref()));
        let mut name = thread_name(tables, &thread);
        if let Some(executed) = executed {
            name = format!("{name} · {executed}");
        }
        let found = (self.named(name, class), class);
        if self.of_threads.len() < MAX_LABELS {
            self.of_threads.insert((thread, function), found);
        }
        found
    }
}

fn function_name(tables: &Tables, address: u64) -> String {
    tables.function(address).map_or_else(|| format!("{address:#x}"), str::to_owned)
}

/// `fio 1234`.
fn thread_name(tables: &Tables, thread: &Thread) -> String {
    let seen = thread.name.text();
    let name = match tables.tasks.get(&thread.tid) {
        Some(known) if seen.is_empty() => known.name.as_str(),
        _ => &seen,
    };
    format!("{name} {}", thread.tid).trim_start().to_owned()
}

impl Timeline {
    /// Nothing yet; `origin` is the monotonic clock when the recording's time was zero.
    pub fn new(origin: Nanos) -> Self {
        let mut timeline = Self { origin, ..Self::default() };
        // What there are too many of is called this.
        timeline.labels.named("…".into(), classes::of_role(Role::Other));
        timeline
    }

    /// Draws how busy each CPU was in each window of this governor, or the busiest of a policy of several,
    /// with the load above which the governor goes up. It is called before events are added.
    pub fn windows_of(&mut self, governor: &GovernorWindows) {
        self.governor = Some((governor.boundary, governor.threshold));
    }

    /// Adds what somebody called the time between two marks; times are since the recording's origin.
    pub fn phase(&mut self, name: &str, begin: Nanos, end: Nanos) {
        let label = self.labels.named(name.to_owned(), classes::PHASE);
        self.phases.push(begin.get(), end.get(), label, classes::PHASE);
        self.span = self.span.max(end.get());
    }

    /// Says something that whoever looks has to know.
    pub fn note(&mut self, text: &str) {
        self.notes.push(inert::one_line(text).into_owned());
    }

    /// Adds a track of sampled values; none where there is no value but zero.
    pub fn sampled(&mut self, group: &str, name: &str, unit: &str, all: impl IntoIterator<Item = Step>) {
        let mut steps = Steps::default();
        let mut has_any = false;
        for Step { at, value } in all {
            has_any |= value.is_some_and(|value| value != 0.0);
            steps.push(at.get(), value);
            self.span = self.span.max(at.get());
        }
        if has_any {
            let [group, name, unit] = [group, name, unit].map(|text| inert::one_line(text).into_owned());
            self.sampled.push(Sampled { group, name, unit, steps });
        }
    }

    /// Adds what recorded events say; gives what was lost of them.
    ///
    /// # Errors
    /// Where the file cannot be read, or is damaged.
    pub fn events<R: Read + Seek>(&mut self, input: R, tables: &Tables) -> events::Result<Losses> {
        for absent in &tables.absent {
            self.note(&format!("not recorded: {absent}"));
        }
        let losses = intervals(input, tables, |interval| self.take(tables, interval))?;
        for (cpu, lost) in losses.by_cpu(tables) {
            self.note(&format!("CPU {cpu}: {lost} events fired and are not here"));
        }
        if tables.end.is_none() {
            self.note("the recording of events was not ended: what it lost at last is not known");
        }
        Ok(losses)
    }

    fn take(&mut self, tables: &Tables, interval: &Interval) {
        if matches!(interval.what, Did::Window { between, .. } if !self.is_governors(tables, between)) {
            return;
        }
        let since = |time: Nanos| time.get().saturating_sub(self.origin.get());
        let (begin, end) = (since(interval.begin), since(interval.end));
        if self.spans >= MAX_SPANS {
            self.left_out.since = self.left_out.since.or(Some(Nanos::new(begin)));
            return;
        }
        self.spans += 1;
        self.span = self.span.max(end);
        match interval.what {
            Did::Ran { cpu, thread, function } => {
                let (label, class) = self.labels.thread(tables, thread, function);
                self.spans += 1;
                if let Some(cpu) = self.cpu(cpu) {
                    cpu.runs.push(begin, end, label, class);
                }
                let on = self.labels.named(format!("CPU {cpu}"), class);
                self.own(thread, begin, end, (on, class)).cpu_ns += end.saturating_sub(begin);
            }
            Did::Window { cpu, busy, .. } => {
                if let Some(load) = self.load(tables, cpu) {
                    load.add(begin, end, busy);
                }
            }
            Did::WasReady(thread) => self.stood(thread, begin, end, classes::ready()),
            Did::Waited(thread, wait) => self.stood(thread, begin, end, classes::of_wait(wait)),
            Did::Idled { cpu, state } => {
                let named = (format!("state {state}"), classes::of_idle(state));
                self.of_cpu(cpu, begin, end, named, |cpu| &mut cpu.idle);
            }
            Did::RanAt { cpu, khz } => {
                if let Some(cpu) = self.cpu(cpu) {
                    cpu.frequency.push(begin, Some(f64::from(khz) * 1e3));
                }
            }
            Did::Irq { cpu, irq } => {
                self.of_cpu(cpu, begin, end, (format!("irq {irq}"), classes::IRQ), |cpu| &mut cpu.irqs);
            }
            Did::Softirq { cpu, vector } => {
                let named = (softirq(vector), classes::SOFTIRQ);
                self.of_cpu(cpu, begin, end, named, |cpu| &mut cpu.softirqs);
            }
            Did::Request { ended, op, failed } => self.request(tables, &ended, (begin, end), op, failed),
            Did::Lost { cpu, count } => {
                let named = (format!("{count} events lost"), classes::LOST);
                self.of_cpu(cpu, begin, end, named, |cpu| &mut cpu.lost);
            }
        }
    }

    /// Whether a window is one of the governor's: of functions of kworkers its own alone has a track.
    fn is_governors(&self, tables: &Tables, between: Between) -> bool {
        let boundary = match between {
            Between::Executions(function) if tables.function(function) != Some(SAMPLES_LOAD) => return false,
            Between::Executions(_) => Boundary::Sample,
            Between::Decisions => Boundary::Decision,
            Between::Requests => Boundary::Request,
        };
        self.governor.is_some_and(|(governor, _)| governor == boundary)
    }

    /// Where the windows of a CPU or a policy are drawn.
    fn load(&mut self, tables: &Tables, number: u16) -> Option<&mut Load> {
        let cpus = match tables.policies.get(&number).map(Vec::as_slice) {
            None => return self.cpu(number).map(|cpu| &mut cpu.load),
            Some([only]) => return self.cpu(*only).map(|cpu| &mut cpu.load),
            Some(cpus) => cpus,
        };
        let policy = || {
            let mut list = CpuList::default();
            cpus.iter().for_each(|cpu| list.insert(u32::from(*cpu)));
            Policy { cpus: list, load: Load::default() }
        };
        Some(&mut self.policies.entry(number).or_insert_with(policy).load)
    }

    fn cpu(&mut self, cpu: u16) -> Option<&mut Cpu> {
        let has_room = self.cpus.len() < MAX_CPUS || self.cpus.contains_key(&cpu);
        has_room.then(|| self.cpus.entry(cpu).or_default())
    }

    fn of_cpu(
        &mut self,
        cpu: u16,
        begin: u64,
        end: u64,
        (name, class): (String, u8),
        track: fn(&mut Cpu) -> &mut Spans,
    ) {
        let label = self.labels.named(name, class);
        if let Some(cpu) = self.cpu(cpu) {
            track(cpu).push(begin, end, label, class);
        }
    }

    fn stood(&mut self, thread: Thread, begin: u64, end: u64, class: u8) {
        let label = self.labels.named(classes::ALL[usize::from(class)].name.into(), class);
        self.own(thread, begin, end, (label, class));
    }

    /// Adds to the thread's own track.
    fn own(&mut self, thread: Thread, begin: u64, end: u64, (label, class): (u32, u8)) -> &mut Own {
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&thread.tid) {
            let most = keep_busiest(&mut self.threads, MAX_THREADS / 2);
            self.left_out.threads += most;
        }
        let own = self.threads.entry(thread.tid).or_insert_with(|| Own {
            thread,
            spans: Spans::default(),
            cpu_ns: 0,
        });
        // A program that was begun gives its thread another name.
        own.thread = thread;
        own.spans.push(begin, end, label, class);
        own
    }

    fn request(&mut self, tables: &Tables, ended: &Ended, (begin, end): (u64, u64), op: Op, failed: bool) {
        let since = |time: Nanos| time.get().saturating_sub(self.origin.get()).clamp(begin, end);
        let issued = ended.issued.map(since);
        if ended.queued.is_none() && issued.is_none() {
            self.left_out.without_begin += 1;
            return;
        }
        let mut name = format!("{} {}", op.name(), size(u64::from(ended.span.sectors) * 512));
        if failed {
            name.push_str(", failed");
        }
        let parts = match issued {
            None => vec![(begin, end, Part::Whole)],
            Some(issued) if ended.queued.is_some() => {
                vec![(begin, issued, Part::Queue), (issued, end, Part::Service)]
            }
            Some(issued) => vec![(issued, end, Part::Service)],
        };
        let device = tables.device_name(ended.span.device);
        if self.devices.len() >= MAX_DEVICES && !self.devices.contains_key(&device) {
            self.left_out.without_lane += 1;
            return;
        }
        let Some(lane) = self.devices.entry(device.clone()).or_default().lane(begin, end) else {
            self.left_out.without_lane += 1;
            return;
        };
        for (begin, end, part) in parts {
            let class = classes::of_request(op, part);
            let label = self.labels.named(name.clone(), class);
            if let Some(device) = self.devices.get_mut(&device) {
                device.lanes[lane].push(begin, end, label, class);
            }
        }
    }

    /// All groups, in the order in which they are drawn, and what labels are called.
    pub(crate) fn finish(mut self) -> Finished {
        self.left_out.threads += keep_busiest(&mut self.threads, SHOWN_THREADS);
        let notes = self.left_out.notes();
        self.notes.extend(notes);
        let mut groups: BTreeMap<Place, Vec<Track>> = BTreeMap::new();
        groups.insert(
            Place::Marks,
            Track::spans("from mark to mark", "phase", std::mem::take(&mut self.phases))
                .into_iter()
                .collect(),
        );
        let cpus_with_states: BTreeSet<u16> = self.with(|cpu| cpu.idle.count > 0);
        let cpus_with_frequency: BTreeSet<u16> = self.with(|cpu| cpu.frequency.count > 0);
        let cpus_with_runs: BTreeSet<u16> = self.with(|cpu| cpu.runs.count > 0);
        for (number, cpu) in self.cpus {
            let Cpu { runs, idle, irqs, softirqs, frequency, lost, load } = cpu;
            let tracks = [
                Track::spans("runs", "cpu", runs),
                Track::steps("frequency", "Hz", frequency),
                load.track("busy", self.governor),
                Track::spans("idle state", "idle", idle),
                Track::spans("interrupts", "irq", irqs),
                Track::spans("softirqs", "softirq", softirqs),
                Track::spans("lost events", "lost", lost),
            ];
            groups.insert(Place::Cpu(number), tracks.into_iter().flatten().collect());
        }
        for (number, Policy { cpus, load }) in self.policies {
            let track = load.track("busiest CPU", self.governor);
            groups.insert(Place::Policy(number, cpus.to_string()), track.into_iter().collect());
        }
        for (name, device) in self.devices {
            let lanes = device.lanes.into_iter().enumerate();
            let track = |(lane, spans)| Track::spans(&format!("request {}", lane + 1), "request", spans);
            groups.insert(Place::Device(name), lanes.filter_map(track).collect());
        }
        let mut threads: Vec<(u32, Own)> = self.threads.into_iter().collect();
        order::by_key(&mut threads, |(tid, own)| (std::cmp::Reverse(own.cpu_ns), *tid));
        for (tid, own) in threads {
            let name = match own.thread.name.text() {
                name if name.is_empty() => tid.to_string(),
                name => format!("{} {tid}", inert::one_line(&name)),
            };
            let place = Place::Threads(own.thread.role(None) as u8);
            groups.entry(place).or_default().extend(Track::spans(&name, "thread", own.spans));
        }
        for Sampled { group, name, unit, steps } in self.sampled {
            let place = Place::of(&group);
            // Events have it to the nanosecond.
            let is_known = match &place {
                Place::Cpu(cpu) if name == "frequency" => cpus_with_frequency.contains(cpu),
                Place::Cpu(cpu) if name == "busy" => cpus_with_runs.contains(cpu),
                Place::Cpu(cpu) if name.starts_with("idle ") => cpus_with_states.contains(cpu),
                _ => false,
            };
            if !is_known {
                groups.entry(place).or_default().extend(Track::steps(&name, &unit, steps));
            }
        }
        groups.retain(|_, tracks| !tracks.is_empty());
        Finished { groups, labels: self.labels.all, notes: self.notes, span: self.span }
    }

    fn with(&self, has: fn(&Cpu) -> bool) -> BTreeSet<u16> {
        self.cpus.iter().filter(|(_, cpu)| has(cpu)).map(|(number, _)| *number).collect()
    }
}

impl LeftOut {
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(since) = self.since {
            notes.push(format!("from {since} on nothing is drawn: it would be more than {MAX_SPANS} spans"));
        }
        for (count, what) in [
            (self.without_begin, "requests, of which the begin was not seen, are not drawn"),
            (self.without_lane, "requests are not drawn, for too many were on their way at once"),
            (self.threads as u64, "threads have no track of their own; they are on those of the CPUs"),
        ] {
            if count > 0 {
                notes.push(format!("{count} {what}"));
            }
        }
        notes
    }
}

impl Device {
    /// A track on which nothing is drawn from `begin` on: that which has been free for the shortest time, so
    /// that few are needed.
    fn lane(&mut self, begin: u64, end: u64) -> Option<usize> {
        let free = self.free.range(..=(begin, usize::MAX)).next_back().copied();
        let lane = match free {
            Some(found) => {
                self.free.remove(&found);
                found.1
            }
            None if self.lanes.len() >= MAX_LANES => return None,
            None => {
                self.lanes.push(Spans::default());
                self.lanes.len() - 1
            }
        };
        self.free.insert((end, lane));
        Some(lane)
    }
}

/// Keeps the threads with the most CPU time; gives how many went.
fn keep_busiest(threads: &mut HashMap<u32, Own>, most: usize) -> usize {
    let Some(over) = threads.len().checked_sub(most).filter(|over| *over > 0) else { return 0 };
    let mut order: Vec<(u64, u32)> = threads.iter().map(|(tid, own)| (own.cpu_ns, *tid)).collect();
    order.sort_unstable();
    for (_, tid) in &order[..over] {
        threads.remove(tid);
    }
    over
}

/// `4 KiB`.
fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 && bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}

/// The name of a softirq's vector (kernel `include/linux/interrupt.h`).
fn softirq(vector: u32) -> String {
    const NAMES: [&str; 10] =
        ["hi", "timer", "net tx", "net rx", "block", "irq poll", "tasklet", "sched", "hrtimer", "rcu"];
    let name = usize::try_from(vector).ok().and_then(|vector| NAMES.get(vector));
    name.map_or_else(|| format!("softirq {vector}"), |name| (*name).to_owned())
}

/// Where a group stands among the others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    Marks,
    /// Of several CPUs, with their list.
    Policy(u16, String),
    Cpu(u16),
    Device(String),
    /// By the number of the role.
    Threads(u8),
    Other(String),
}

impl Place {
    fn of(group: &str) -> Self {
        let cpu = group.strip_prefix("CPU ").and_then(|number| number.parse().ok());
        match (cpu, group.strip_prefix("disk ")) {
            (Some(cpu), _) => Self::Cpu(cpu),
            (None, Some(device)) => Self::Device(device.to_owned()),
            (None, None) => Self::Other(group.to_owned()),
        }
    }

    pub fn name(&self) -> String {
        match self {
            Self::Marks => "marks".to_owned(),
            Self::Policy(number, cpus) => format!("policy {number} (CPUs {cpus})"),
            Self::Cpu(number) => format!("CPU {number}"),
            Self::Device(name) => format!("disk {}", inert::one_line(name)),
            Self::Threads(role) => {
                format!("{} threads", classes::ALL[usize::from(*role)].name.trim_end_matches(" thread"))
            }
            Self::Other(name) => name.clone(),
        }
    }
}

/// What is drawn, whole.
#[derive(Debug)]
pub(crate) struct Finished {
    pub groups: BTreeMap<Place, Vec<Track>>,
    pub labels: Vec<(String, u8)>,
    pub notes: Vec<String>,
    pub span: u64,
}

/// One track.
#[derive(Debug)]
pub(crate) struct Track {
    pub name: String,
    pub lines: Lines,
}

#[derive(Debug)]
pub(crate) enum Lines {
    Spans {
        kind: &'static str,
        spans: Spans,
    },
    /// With a value that is marked, where there is one.
    Steps {
        unit: String,
        steps: Steps,
        mark: Option<f64>,
    },
}

impl Track {
    fn spans(name: &str, kind: &'static str, spans: Spans) -> Option<Self> {
        (spans.count > 0).then(|| Self { name: name.into(), lines: Lines::Spans { kind, spans } })
    }

    fn steps(name: &str, unit: &str, steps: Steps) -> Option<Self> {
        let lines = |steps| Lines::Steps { unit: unit.into(), steps, mark: None };
        (steps.count > 0).then(|| Self { name: name.into(), lines: lines(steps) })
    }

    fn marked(mut self, value: Option<f64>) -> Self {
        if let Lines::Steps { mark, .. } = &mut self.lines {
            *mark = value;
        }
        self
    }
}
