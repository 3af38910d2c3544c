//! Recordings of a kernel's governors (`fixtures/governors/README.md`), and their replay: the model is told
//! what the kernel's governor was told, when it was told, and has to decide the same, and the model of the
//! driver has to write the same into the processor's register.

#![allow(dead_code, reason = "each test that includes this uses a part")]
#![allow(clippy::unwrap_used, reason = "of tests")]

pub mod idle;
pub mod pstate;

use domain::time::Nanos;
use domain::units::Hertz;
use governors::amd_pstate::AmdLevels;
use governors::driver::{AmdMode, AmdPassive, Control, Driver, IntelCpufreq, Performance, Written};
use governors::intel_pstate::{GlobalLimits, Ratios};
use governors::{FrequencyTable, Governor, Hook, KernelVersion, Policy, Readings, Update};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;

/// What a governor read of a CPU's times, in the kernel's units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    pub idle_us: u64,
    pub wall_us: u64,
    pub nice_ns: u64,
}

/// What schedutil read, and its boost and the time of its last request then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Read {
    pub utilisation: u64,
    pub boost: u64,
    pub least: u64,
    pub idle_calls: u64,
    pub last_ns: u64,
    pub wanted: Wanted,
}

/// What schedutil wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// The raw frequency, in kHz.
    Frequency(u64),
    /// Performance, of 1024, and the policy's frequency after it, in kHz.
    Performance { least: u64, target: u64, current_khz: u64 },
}

impl Default for Wanted {
    fn default() -> Self {
        Self::Frequency(0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The governor's start returned.
    Start(Times),
    /// New limits have reached it: minimum, maximum, and the frequency that was current before, in kHz.
    Limits(u64, u64, u64),
    /// The scheduler's hook was called.
    Update(Update),
    /// ondemand or conservative computed a load.
    Sample(Times, u32),
    /// Their work ended: the update that had queued it, and the delay until the next in µs.
    Work(Nanos, u64),
    /// schedutil's thread ran.
    Thread,
    /// schedutil's hook looked at the utilisation.
    Read(Read),
    /// The driver wrote into the register of requests.
    Register(u64),
    /// A frequency was set, in kHz.
    Frequency(u64),
    /// A tunable was written.
    Tunable(String, String, Times),
}

#[derive(Clone, Debug)]
pub struct Recording {
    pub name: String,
    pub kernel: KernelVersion,
    pub hz: u32,
    pub governor: String,
    pub policy: Policy,
    pub events: Vec<Event>,
    /// Nothing says what came first (`straddled`): of no use.
    pub straddled: bool,
}

/// The lines of a text of recordings, without comments.
pub struct Lines<'a> {
    lines: Vec<&'a str>,
    at: usize,
}

/// What each recording begins with.
pub struct Head {
    pub name: String,
    pub kernel: KernelVersion,
    pub hz: u32,
}

impl<'a> Lines<'a> {
    pub fn of(text: &'a str) -> Self {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self { lines: lines.collect(), at: 0 }
    }

    fn next(&mut self) -> Option<&'a str> {
        let line = self.lines.get(self.at).copied();
        self.at += 1;
        line
    }

    /// The beginning of the next recording.
    pub fn head(&mut self) -> Option<Head> {
        let name = loop {
            if let Some(name) = self.next()?.strip_prefix("recording ") {
                break name.to_owned();
            }
        };
        let kernel = KernelVersion::parse(self.field("kernel")).unwrap();
        Some(Head { name, kernel, hz: self.field("hz").parse().unwrap() })
    }

    /// The value of the field that has to be next.
    pub fn field(&mut self, name: &str) -> &'a str {
        self.field_if(name).unwrap_or_else(|| panic!("`{:?}` is no `{name}`", self.lines.get(self.at)))
    }

    /// The value of a field where it is next.
    pub fn field_if(&mut self, name: &str) -> Option<&'a str> {
        let value = self.lines.get(self.at)?.strip_prefix(name)?;
        self.at += 1;
        Some(value.trim())
    }

    /// The texts of the events up to the recording's end, and whether it is straddled.
    pub fn events(&mut self) -> (Vec<&'a str>, bool) {
        let mut all = Vec::new();
        let mut straddled = false;
        while let Some(line) = self.next().filter(|line| *line != "end") {
            match line {
                "straddled" => straddled = true,
                _ => all.extend(line.split(';')),
            }
        }
        (all, straddled)
    }
}

/// All recordings of a text.
pub fn parse(text: &str) -> Vec<Recording> {
    let mut all = Vec::new();
    let mut lines = Lines::of(text);
    while let Some(Head { name, kernel, hz }) = lines.head() {
        let governor = lines.field("governor").to_owned();
        let fast_switch = lines.field("fast_switch") == "1";
        let transition_latency_ns = lines.field("latency_ns").parse().unwrap();
        let policy = match lines.field_if("table_khz") {
            Some(table) => policy_of_table(table),
            None => policy_of_driver(&mut lines, kernel),
        };
        let policy = Policy { transition_latency_ns, fast_switch, ..policy };
        let mut decoder = Decoder::default();
        let (events, straddled) = lines.events();
        let events = events.into_iter().map(|text| decoder.event(text)).collect();
        all.push(Recording { name, kernel, hz, governor, policy, events, straddled });
    }
    all
}

/// Of `acpi-cpufreq` in a virtual machine that shows itself as one.
fn policy_of_table(text: &str) -> Policy {
    let table = text.split_whitespace().map(|khz| Hertz::from_khz(khz.parse().unwrap())).collect();
    let table = FrequencyTable::new(table).unwrap();
    Policy { table: Some(table.clone()), ..policy(table.lowest(), table.highest(), Driver::Frequencies) }
}

fn policy_of_driver(lines: &mut Lines<'_>, kernel: KernelVersion) -> Policy {
    let name = lines.field("driver");
    let frequency_invariant = lines.field("invariant") == "1";
    let numbers = |text: &str| -> Vec<u32> { text.split_whitespace().map(|n| n.parse().unwrap()).collect() };
    let policy = match name {
        "intel_cpufreq" => {
            let (ratios, control) = lines.field("ratios").rsplit_once(' ').unwrap();
            let ratios = numbers(ratios);
            let ratios = Ratios::core(ratios[0], ratios[1], ratios[2]);
            let control = if control == "hwp" { Control::Hwp } else { Control::PState };
            let ends = [ratios.lowest, ratios.turbo].map(|ratio| ratios.frequency(ratio));
            let driver = IntelCpufreq { ratios, global: GlobalLimits::new(&ratios), control };
            policy(ends[0], ends[1], Driver::Intel(driver))
        }
        "amd-pstate" => {
            let mode = match lines.field_if("mode") {
                Some("guided") => AmdMode::Guided,
                _ => AmdMode::Passive,
            };
            let all = numbers(lines.field("levels"));
            let level = |at: usize| u8::try_from(all[at]).unwrap();
            let levels = AmdLevels {
                lowest: level(0),
                lowest_nonlinear: level(1),
                nominal: level(2),
                highest: level(3),
                nominal_frequency: Hertz::from_mhz(all[4].into()),
                lowest_frequency: Hertz::from_mhz(all[5].into()),
            };
            let driver = Driver::Amd(AmdPassive { levels, kernel, mode });
            policy(levels.lowest_frequency, levels.highest_frequency(), driver)
        }
        _ => panic!("`{name}` is no driver that is recorded"),
    };
    Policy { frequency_invariant, ..policy }
}

fn policy(lowest: Hertz, highest: Hertz, driver: Driver) -> Policy {
    Policy {
        cpus: 1,
        table: None,
        hardware_min: lowest,
        hardware_max: highest,
        min: lowest,
        max: highest,
        current: highest,
        transition_latency_ns: 0,
        fast_switch: false,
        frequency_invariant: false,
        driver,
    }
}

/// What an event's text is relative to.
#[derive(Default)]
struct Decoder {
    now_ns: u64,
    read: Read,
}

impl Decoder {
    fn event(&mut self, text: &str) -> Event {
        let (letter, rest) = text.split_at(1);
        let words: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap_or_else(|_| panic!("`{text}`"));
        let times = |at| Times { idle_us: number(at), wall_us: number(at + 1), nice_ns: number(at + 2) };
        match letter {
            "s" if words.is_empty() => Event::Start(Times::default()),
            "s" => Event::Start(times(0)),
            "l" => Event::Limits(number(0), number(1), number(2)),
            "u" => {
                let span = words[0].trim_end_matches('!');
                self.now_ns = self.now_ns.wrapping_add_signed(span.parse().unwrap());
                let iowait = words[0].ends_with('!');
                Event::Update(Update { now: Nanos::new(self.now_ns), cpu: 0, iowait })
            }
            "d" => Event::Sample(times(0), u32::try_from(number(3)).unwrap()),
            "w" if words.is_empty() => Event::Thread,
            "w" => Event::Work(self.before(words[0]), number(1)),
            "m" => Event::Register(u64::from_str_radix(words[0], 16).unwrap_or_else(|_| panic!("`{text}`"))),
            "f" => Event::Frequency(number(0)),
            "t" => Event::Tunable(words[0].to_owned(), words[1].to_owned(), times(2)),
            "r" => {
                let last = words.get(5).copied();
                self.read(&words, last, Wanted::Frequency(number(4)))
            }
            "q" => {
                let wanted =
                    Wanted::Performance { least: number(4), target: number(5), current_khz: number(6) };
                self.read(&words, Some(words.get(7).copied().unwrap_or("0")), wanted)
            }
            _ => panic!("`{text}` is no event"),
        }
    }

    fn before(&self, span_ns: &str) -> Nanos {
        Nanos::new(self.now_ns.wrapping_add_signed(span_ns.parse().unwrap()))
    }

    fn read(&mut self, words: &[&str], last: Option<&str>, wanted: Wanted) -> Event {
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        let read = Read {
            utilisation: number(0),
            boost: number(1),
            least: number(2),
            idle_calls: if words[3] == "." { self.read.idle_calls } else { number(3) },
            last_ns: last.map_or(self.read.last_ns, |last| self.before(last).get()),
            wanted,
        };
        self.read = read;
        Event::Read(read)
    }
}

/// What a replay found.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    /// Updates of the scheduler's hook.
    pub updates: usize,
    /// Those that the model was not told of.
    pub skipped: usize,
    /// Samples of ondemand and conservative, looks at the utilisation by schedutil, new limits.
    pub decisions: usize,
    /// Those that were the kernel's own: request, and when the next is due.
    pub equal: usize,
    /// Frequencies that the kernel set.
    pub requests: usize,
    pub time: Nanos,
    pub time_in_same_state: Nanos,
    /// What was not equal.
    pub differences: Vec<String>,
}

impl Replayed {
    pub fn same_state(&self) -> f64 {
        if self.time == Nanos::ZERO { 1.0 } else { self.time_in_same_state.secs() / self.time.secs() }
    }

    pub fn add(&mut self, other: &Self) {
        self.updates += other.updates;
        self.skipped += other.skipped;
        self.decisions += other.decisions;
        self.equal += other.equal;
        self.requests += other.requests;
        self.time = self.time + other.time;
        self.time_in_same_state = self.time_in_same_state + other.time_in_same_state;
        self.differences.extend(other.differences.iter().cloned());
    }
}

impl fmt::Display for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (updates, skipped) = (self.updates, self.skipped);
        let (decisions, equal, requests) = (self.decisions, self.equal, self.requests);
        let (same, time) = (100.0 * self.same_state(), self.time);
        write!(
            f,
            "{updates} updates ({skipped} passed over), {equal} of {decisions} decisions equal, {requests} frequencies set, in the same state for \
             {same:.3}% of {time}"
        )
    }
}

/// What the model reads.
#[derive(Default)]
struct Told {
    times: Times,
    read: Read,
    aperf: u64,
    mperf: u64,
    tsc: u64,
    /// The model looked at the utilisation.
    asked: Cell<bool>,
}

impl Readings for Told {
    /// The kernel adds what is waited for disks, or leaves it away, before it is recorded.
    fn idle(&self, _: usize) -> Nanos {
        Nanos::from_micros(self.times.idle_us)
    }
    fn iowait(&self, _: usize) -> Nanos {
        Nanos::ZERO
    }
    fn nice(&self, _: usize) -> Nanos {
        Nanos::new(self.times.nice_ns)
    }
    fn utilisation(&self, _: usize) -> u64 {
        self.asked.set(true);
        self.read.utilisation
    }
    fn least_utilisation(&self, _: usize) -> u64 {
        self.read.least
    }
    /// Not recorded by itself. It is the least utilisation where no interrupts are counted, which the guest's
    /// are not, and no real-time task is there, with which that is all of a CPU.
    fn deadline_bandwidth(&self, _: usize) -> u64 {
        if self.read.least >= 1024 { 0 } else { self.read.least }
    }
    fn idle_calls(&self, _: usize) -> u64 {
        self.read.idle_calls
    }
    fn aperf(&self, _: usize) -> u64 {
        self.aperf
    }
    fn mperf(&self, _: usize) -> u64 {
        self.mperf
    }
    fn tsc(&self, _: usize) -> u64 {
        self.tsc
    }
}

/// Which updates the model is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Updates {
    All,
    /// Those that can matter, by [`Governor::due`].
    WhenDue,
}

/// Tells the model what the kernel was told.
pub fn replay(recording: &Recording, updates: Updates) -> Replayed {
    let mut replay = Replay::new(recording, updates);
    let mut events = recording.events.iter().peekable();
    while let Some(event) = events.next() {
        if let Event::Update(update) = event {
            let mut next = events.clone();
            let register = next.next_if(|e| matches!(e, Event::Register(_)));
            let request = next.next_if(|e| matches!(e, Event::Frequency(_)));
            match next.peek() {
                Some(Event::Read(read)) => {
                    next.next();
                    events = next;
                    if let Some(register) = register {
                        replay.other(register);
                    }
                    replay.looked(*update, frequency(request), *read);
                }
                _ => replay.update(*update),
            }
            continue;
        }
        replay.other(event);
    }
    replay.done
}

fn frequency(event: Option<&Event>) -> Option<u64> {
    match event {
        Some(Event::Frequency(khz)) => Some(*khz),
        _ => None,
    }
}

struct Replay {
    governor: Governor,
    policy: Policy,
    told: Told,
    /// `None` before the first limits, with which it starts.
    started: bool,
    /// The update that queued the model's work.
    queued: Option<Nanos>,
    /// What the kernel set since the last decision.
    kernel_set: Option<u64>,
    /// What it wrote into its register of requests since the last decision.
    kernel_wrote: Option<u64>,
    /// What stands there, once it has written.
    kernel_register: Option<u64>,
    /// What stands in the model's.
    register: Option<Written>,
    kernel_khz: u64,
    now: Option<Nanos>,
    read_seen: Read,
    rate_limit_ns: u64,
    updates: Updates,
    done: Replayed,
}

impl Replay {
    fn new(recording: &Recording, updates: Updates) -> Self {
        let (kernel, hz) = (recording.kernel, recording.hz);
        let governor =
            Governor::new(&recording.governor, &BTreeMap::new(), kernel, hz, &recording.policy).unwrap();
        let rate_limit_us = governors::default_rate_limit_us(kernel, &recording.policy);
        Self {
            governor,
            policy: recording.policy.clone(),
            told: Told::default(),
            started: false,
            queued: None,
            kernel_set: None,
            kernel_wrote: None,
            kernel_register: None,
            register: None,
            kernel_khz: recording.policy.current.khz(),
            now: None,
            read_seen: Read::default(),
            rate_limit_ns: u64::from(rate_limit_us) * 1000,
            updates,
            done: Replayed::default(),
        }
    }

    fn take(&mut self, request: Option<Hertz>) -> Option<u64> {
        if let Some(request) = request {
            self.policy.current = request;
            self.register = self.policy.driver.written(&self.policy, request);
        }
        request.map(Hertz::khz)
    }

    /// What differs between the model's register and the kernel's, as soon as both have written there.
    fn registers_differ(&self) -> Option<String> {
        let (model, kernel) = (self.register?, self.kernel_register?);
        let bits = |from: u32| (kernel >> from) as u8;
        let kernel = match (&self.policy.driver, model) {
            (_, Written::PState(_)) => Written::PState(bits(8)),
            (Driver::Amd(_), _) => Written::Levels { max: bits(0), min: bits(8), desired: bits(16) },
            (_, _) => Written::Levels { min: bits(0), max: bits(8), desired: bits(16) },
        };
        (model != kernel).then(|| format!("the model has written {model:?}, the kernel {kernel:?}"))
    }

    /// What the kernel set with this decision. Its frequency counts from here, as the model's does.
    fn kernel_took(&mut self) -> Option<u64> {
        let set = self.kernel_set.take();
        self.kernel_khz = set.unwrap_or(self.kernel_khz);
        set
    }

    fn differs(&mut self, what: String) {
        let at = self.now.map_or(0.0, Nanos::secs);
        self.done.differences.push(format!("at {at:.6} s: {what}"));
    }

    fn decided(&mut self, mut differences: Vec<String>) {
        self.kernel_register = self.kernel_wrote.take().or(self.kernel_register);
        differences.extend(self.registers_differ());
        self.done.decisions += 1;
        if differences.is_empty() {
            self.done.equal += 1;
        }
        for difference in differences {
            self.differs(difference);
        }
    }

    fn advance(&mut self, now: Nanos) {
        if let Some(before) = self.now {
            let span = now.saturating_sub(before);
            self.done.time = self.done.time + span;
            if self.kernel_khz == self.policy.current.khz() && self.registers_differ().is_none() {
                self.done.time_in_same_state = self.done.time_in_same_state + span;
            }
        }
        self.now = Some(now);
        self.done.updates += 1;
    }

    fn hook(&mut self, update: Update) -> Hook {
        let due = self.governor.due().is_some_and(|due| due <= update.now)
            || update.iowait
            || self.told.read.least > self.read_seen.least;
        if self.updates == Updates::WhenDue && !due {
            self.done.skipped += 1;
            return Hook::Nothing;
        }
        self.governor.hook(update, &self.policy, &self.told)
    }

    /// An update that brought no look at the utilisation.
    fn update(&mut self, update: Update) {
        self.advance(update.now);
        if !self.started {
            return;
        }
        self.told.asked.set(false);
        // Unchanged, so that nothing overrides the rate limit.
        self.told.read.least = self.read_seen.least;
        match self.hook(update) {
            Hook::Work => self.queued = Some(update.now),
            Hook::Nothing => {}
            Hook::Request(request) => self.differs(format!("the model alone asks for {request}")),
            Hook::Perform(asked) => self.differs(format!("the model alone asks for {asked:?}")),
        }
        if self.told.asked.get() {
            self.decided(vec!["the model looked at the utilisation, the kernel did not".into()]);
        }
    }

    /// An update with which the kernel's schedutil looked at the utilisation.
    fn looked(&mut self, update: Update, kernel: Option<u64>, read: Read) {
        self.advance(update.now);
        self.told.asked.set(false);
        self.told.read = read;
        let hook = self.hook(update);
        let mut differences = Vec::new();
        if !self.told.asked.get() {
            differences.push("the kernel looked at the utilisation, the model did not".into());
        }
        let asked = match hook {
            Hook::Perform(asked) => Some(asked),
            Hook::Nothing | Hook::Request(_) | Hook::Work => None,
        };
        let request = match hook {
            Hook::Nothing | Hook::Perform(_) => None,
            Hook::Request(request) => self.take(Some(request)),
            Hook::Work => {
                self.queued = Some(update.now);
                kernel
            }
        };
        if request != kernel {
            differences.push(format!("the model asks for {request:?}, the kernel for {kernel:?} kHz"));
        }
        let due_ns = if read.boost == 0 { read.last_ns + self.rate_limit_ns } else { 0 };
        if self.governor.due().map(Nanos::get) != Some(due_ns) {
            differences
                .push(format!("the model is due at {:?}, the kernel at {due_ns} ns", self.governor.due()));
        }
        match read.wanted {
            Wanted::Frequency(raw_khz) => {
                let wanted = self.governor.wanted().map(Hertz::khz);
                if wanted != Some(raw_khz) || asked.is_some() {
                    differences.push(format!("the model wants {wanted:?} kHz, the kernel {raw_khz}"));
                }
            }
            Wanted::Performance { least, target, current_khz } => {
                let kernel = Performance { least, target, capacity: 1024 };
                differences.extend(self.performed(asked, kernel, current_khz));
            }
        }
        self.kernel_khz = kernel.unwrap_or(self.kernel_khz);
        self.done.requests += usize::from(kernel.is_some());
        self.read_seen = read;
        self.decided(differences);
    }

    /// The kernel asked its driver for performance.
    fn performed(
        &mut self,
        asked: Option<Performance>,
        kernel: Performance,
        current_khz: u64,
    ) -> Vec<String> {
        let mut differences = Vec::new();
        if asked != Some(kernel) {
            differences.push(format!("the model asks for {asked:?}, the kernel for {kernel:?}"));
        }
        let performed = asked.and_then(|asked| self.policy.driver.perform(&self.policy, asked));
        let Some((frequency, written)) = performed else { return differences };
        let is_new = self.register.replace(written) != Some(written);
        self.done.requests += usize::from(is_new);
        // Intel's leaves the policy's frequency as it is.
        if matches!(self.policy.driver, Driver::Amd(_)) {
            self.policy.current = frequency;
            self.kernel_khz = current_khz;
        }
        if self.policy.current.khz() != current_khz {
            let current = self.policy.current;
            differences.push(format!("the model is at {current}, the kernel at {current_khz} kHz"));
        }
        differences
    }

    fn other(&mut self, event: &Event) {
        match event {
            Event::Register(value) => self.kernel_wrote = Some(*value),
            Event::Start(times) => self.told.times = *times,
            Event::Limits(min, max, current) => self.new_limits(*min, *max, *current),
            Event::Sample(times, _) => self.told.times = *times,
            Event::Work(last, delay_us) => self.worked(*last, *delay_us),
            Event::Thread => {
                self.queued = None;
                let request = self.governor.work(Nanos::ZERO, &self.policy, &self.told);
                self.take(request);
            }
            Event::Frequency(khz) => {
                self.kernel_set = Some(*khz);
                self.done.requests += 1;
            }
            Event::Tunable(name, value, times) => {
                self.told.times = *times;
                let now = Nanos::from_micros(times.wall_us);
                self.governor.set(name, value, now, &self.told).unwrap();
                if name == "rate_limit_us" {
                    self.rate_limit_ns = value.parse::<u64>().unwrap() * 1000;
                }
            }
            Event::Update(_) | Event::Read(_) => {
                unreachable!("an update is told with what it brought: {event:?}")
            }
        }
    }

    fn new_limits(&mut self, min: u64, max: u64, current: u64) {
        (self.policy.min, self.policy.max) = (Hertz::from_khz(min), Hertz::from_khz(max));
        let now = Nanos::from_micros(self.told.times.wall_us);
        let mut differences = Vec::new();
        let request = if self.started {
            if self.policy.current.khz() != current {
                differences.push(format!(
                    "{} before new limits, and the kernel's {current} kHz",
                    self.policy.current
                ));
            }
            self.governor.limits_changed(now, &self.policy, &self.told)
        } else {
            self.started = true;
            self.policy.current = Hertz::from_khz(current);
            self.kernel_khz = current;
            self.governor.start(now, &self.policy, &self.told)
        };
        let (model, kernel) = (self.take(request), self.kernel_took());
        if model != kernel {
            differences
                .push(format!("with new limits the model asks for {model:?}, the kernel for {kernel:?} kHz"));
        }
        self.decided(differences);
    }

    fn worked(&mut self, last: Nanos, delay_us: u64) {
        let mut differences = Vec::new();
        match self.queued.take() {
            Some(queued) if queued == last => {}
            queued => {
                differences.push(format!("the model queued work at {queued:?}, the kernel at {last:?}"))
            }
        }
        let now = Nanos::from_micros(self.told.times.wall_us);
        let request = self.governor.work(now, &self.policy, &self.told);
        let (model, kernel) = (self.take(request), self.kernel_took());
        if model != kernel {
            differences.push(format!("the model asks for {model:?}, the kernel for {kernel:?} kHz"));
        }
        let due = last + Nanos::from_micros(delay_us);
        if self.governor.due() != Some(due) {
            differences.push(format!("the model is due at {:?}, the kernel at {due:?}", self.governor.due()));
        }
        self.decided(differences);
    }
}
