//! Recordings of `intel_pstate`'s own `powersave` (`fixtures/governors/record-pstate.sh`), and their replay:
//! the model gets the counters that the kernel read, at the scheduler's updates that the kernel had, and has
//! to choose the same P-states with the same boost.

use super::{Head, Lines, Replayed, Told};
use domain::time::Nanos;
use domain::units::Hertz;
use governors::driver::Driver;
use governors::intel_pstate::{Algorithm, IntelPolicy, IntelPstate, PmProfile, Ratios, Turbo};
use governors::{KernelVersion, Policy, Update};

/// What the kernel's driver read and decided at an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Since the sample before.
    pub mperf: u64,
    pub aperf: u64,
    pub tsc: u64,
    /// Of the largest boost, in percent, rounded down.
    pub boost: i64,
    pub from: u32,
    pub to: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Update(Update),
    Sample(Sample),
    /// New limits have reached the driver: minimum and maximum, in kHz.
    Limits(u64, u64),
    /// A file below `intel_pstate` was written.
    Written(String, u32),
}

#[derive(Clone, Debug)]
pub struct Recording {
    pub name: String,
    pub kernel: KernelVersion,
    pub hz: u32,
    pub ratios: Ratios,
    pub events: Vec<Event>,
    pub straddled: bool,
}

/// All recordings of a text.
pub fn parse(text: &str) -> Vec<Recording> {
    let mut all = Vec::new();
    let mut lines = Lines::of(text);
    while let Some(Head { name, kernel, hz }) = lines.head() {
        let ratios: Vec<u32> =
            lines.field("ratios").split_whitespace().map(|ratio| ratio.parse().unwrap()).collect();
        let mut now_ns = 0;
        let (events, straddled) = lines.events();
        let events = events.into_iter().map(|text| event(text, &mut now_ns)).collect();
        let ratios = Ratios::core(ratios[0], ratios[1], ratios[2]);
        all.push(Recording { name, kernel, hz, ratios, events, straddled });
    }
    all
}

fn event(text: &str, now_ns: &mut u64) -> Event {
    let (letter, rest) = text.split_at(1);
    let words: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap_or_else(|_| panic!("`{text}`"));
    match letter {
        "u" => {
            *now_ns += words[0].trim_end_matches('!').parse::<u64>().unwrap();
            Event::Update(Update { now: Nanos::new(*now_ns), cpu: 0, iowait: words[0].ends_with('!') })
        }
        "p" => Event::Sample(Sample {
            mperf: number(0),
            aperf: number(1),
            tsc: number(2),
            boost: number(3) as i64,
            from: number(4) as u32,
            to: number(5) as u32,
        }),
        "l" => Event::Limits(number(0), number(1)),
        "t" => Event::Written(words[0].to_owned(), number(1) as u32),
        _ => panic!("`{text}` is no event"),
    }
}

/// Tells the model what the kernel's driver was told. A decision is a sample of the kernel's.
pub fn replay(recording: &Recording) -> Replayed {
    let ratios = &recording.ratios;
    let first = recording.events.iter().find_map(|event| match event {
        Event::Sample(sample) => Some(sample.from),
        _ => None,
    });
    let mut policy = Policy {
        cpus: 1,
        hardware_min: ratios.frequency(ratios.lowest),
        hardware_max: ratios.frequency(ratios.turbo),
        min: ratios.frequency(ratios.lowest),
        max: ratios.frequency(ratios.turbo),
        current: ratios.frequency(first.unwrap_or(ratios.turbo)),
        table: None,
        transition_latency_ns: 0,
        fast_switch: false,
        frequency_invariant: false,
        driver: Driver::Frequencies,
    };
    let tick = Nanos::new(1_000_000_000 / u64::from(recording.hz));
    let algorithm = Algorithm::of(recording.kernel, PmProfile::Desktop);
    let mut model = IntelPstate::new(*ratios, IntelPolicy::Powersave, algorithm, recording.kernel, tick);
    let mut told = Told { aperf: 1, mperf: 1, tsc: 1, ..Told::default() };
    model.start(Nanos::ZERO, &policy, &told);

    let mut done = Replayed::default();
    let (mut at, mut kernel) = (None::<Nanos>, policy.current);
    let mut events = recording.events.iter().peekable();
    while let Some(event) = events.next() {
        match event {
            Event::Update(update) => {
                let span = at.map_or(Nanos::ZERO, |at| update.now.saturating_sub(at));
                at = Some(update.now);
                done.updates += 1;
                done.time = done.time + span;
                if kernel == policy.current {
                    done.time_in_same_state = done.time_in_same_state + span;
                }
                let sample = match events.peek() {
                    Some(Event::Sample(sample)) => Some(*sample),
                    _ => None,
                };
                if let Some(sample) = sample {
                    events.next();
                    told.aperf += sample.aperf;
                    told.mperf += sample.mperf;
                    told.tsc += sample.tsc;
                }
                let before = policy.current;
                policy.current = model.update(*update, &policy, &told).unwrap_or(before);
                let differences = differences(sample, ratios, &model, update.now, before, policy.current);
                if let Some(sample) = sample {
                    kernel = ratios.frequency(sample.to);
                    done.requests += usize::from(sample.to != sample.from);
                    done.decisions += 1;
                    done.equal += usize::from(differences.is_empty());
                }
                let seconds = update.now.secs();
                done.differences
                    .extend(differences.into_iter().map(|what| format!("at {seconds:.6} s: {what}")));
            }
            Event::Limits(min, max) => {
                (policy.min, policy.max) = (Hertz::from_khz(*min), Hertz::from_khz(*max));
                model.limits_changed(&policy);
            }
            Event::Written(name, value) => {
                match name.as_str() {
                    "no_turbo" if *value == 0 => model.global_mut().set_turbo(Turbo::On),
                    "no_turbo" => model.global_mut().set_turbo(Turbo::Off),
                    "max_perf_pct" => model.global_mut().set_max_percent(*value),
                    _ => panic!("`{name}` is no file that is written here"),
                }
                model.limits_changed(&policy);
            }
            Event::Sample(sample) => done.differences.push(format!("{sample:?} without an update")),
        }
    }
    done
}

/// What the model did otherwise at an update.
fn differences(
    kernel: Option<Sample>,
    ratios: &Ratios,
    model: &IntelPstate,
    now: Nanos,
    before: Hertz,
    after: Hertz,
) -> Vec<String> {
    let Some(kernel) = kernel else {
        let alone = before != after;
        return alone.then(|| format!("the model alone asks for {after}")).into_iter().collect();
    };
    let mut all = Vec::new();
    if model.sampled_at() != now {
        all.push(format!("the kernel took a sample, the model did not: {kernel:?}"));
    }
    if before != ratios.frequency(kernel.from) {
        all.push(format!("the model was at {before}, the kernel at P-state {}", kernel.from));
    }
    if after != ratios.frequency(kernel.to) {
        all.push(format!("the model asks for {after}: {kernel:?}"));
    }
    if model.boost_percent() != kernel.boost {
        all.push(format!("the model has a boost of {}%: {kernel:?}", model.boost_percent()));
    }
    all
}
