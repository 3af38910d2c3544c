//! Recordings of the idle governor menu (`fixtures/governors/record-idle.sh`), and their replay: the model
//! gets what the kernel's governor read, and has to choose the same states and the same for the tick.

use super::{Head, Lines};
use domain::time::Nanos;
use governors::KernelVersion;
use governors::idle::{IdleEntry, IdleGovernor, IdleState, Tick, Wake};
use std::collections::BTreeSet;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The governor chose; the clock is of no use to menu, and stands at zero.
    Chosen { entry: IdleEntry, state: usize, stopped: bool },
    /// What came of it.
    Woke(Wake),
}

#[derive(Clone, Debug)]
pub struct Recording {
    pub name: String,
    pub kernel: KernelVersion,
    pub hz: u32,
    pub governor: String,
    pub states: Vec<IdleState>,
    pub events: Vec<Event>,
    pub straddled: bool,
}

/// All recordings of a text.
pub fn parse(text: &str) -> Vec<Recording> {
    let mut all = Vec::new();
    let mut lines = Lines::of(text);
    while let Some(Head { name, kernel, hz }) = lines.head() {
        let governor = lines.field("governor").to_owned();
        let states = std::iter::from_fn(|| lines.field_if("state ")).map(state).collect();
        let (events, straddled) = lines.events();
        let events = events.into_iter().map(event).collect();
        all.push(Recording { name, kernel, hz, governor, states, events, straddled });
    }
    all
}

/// `NAME LATENCY RESIDENCY DISABLED`, in µs.
fn state(text: &str) -> IdleState {
    let words: Vec<&str> = text.split_whitespace().collect();
    let micros = |at: usize| Nanos::from_micros(words[at].parse().unwrap());
    IdleState {
        exit_latency: micros(1),
        target_residency: micros(2),
        polling: words[0] == "POLL",
        disabled: words[3] == "1",
    }
}

fn event(text: &str) -> Event {
    let (letter, rest) = text.split_at(1);
    let words: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| words[at].parse::<u64>().unwrap_or_else(|_| panic!("`{text}`"));
    // An overdue timer lies in the past.
    let span = |at: usize| match words[at] {
        "-" => Nanos::ZERO,
        word => Nanos::new(word.parse::<i64>().unwrap_or_else(|_| panic!("`{text}`")).max(0) as u64),
    };
    match letter {
        "c" => Event::Chosen {
            entry: IdleEntry {
                now: Nanos::ZERO,
                latency_limit: (words[0] != "-").then(|| span(0)),
                sleep_length: span(1),
                next_tick: span(2),
                tick_stopped: number(3) == 1,
                iowaiters: number(4) as u32,
            },
            state: number(5) as usize,
            stopped: words[6] == "s",
        },
        "w" => Event::Woke(Wake {
            now: Nanos::ZERO,
            state: number(0) as usize,
            residency: Nanos::new(number(1)),
            tick: number(2) == 1,
            poll_expired: number(3) == 1,
        }),
        _ => panic!("`{text}` is no event"),
    }
}

/// What a replay found.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    pub decisions: usize,
    pub equal: usize,
    /// The states that the kernel chose.
    pub states: BTreeSet<usize>,
    /// How often it stopped the tick, or found it stopped.
    pub stopped: usize,
    pub differences: Vec<String>,
}

impl Replayed {
    pub fn add(&mut self, other: &Self) {
        self.decisions += other.decisions;
        self.equal += other.equal;
        self.stopped += other.stopped;
        self.states.extend(&other.states);
        self.differences.extend(other.differences.iter().cloned());
    }
}

impl fmt::Display for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { decisions, equal, states, stopped, .. } = self;
        write!(
            f,
            "{equal} of {decisions} decisions equal, states {states:?}, the tick stopped {stopped} times"
        )
    }
}

/// Tells the model what the kernel was told.
pub fn replay(recording: &Recording) -> Replayed {
    let tick = Nanos::new(1_000_000_000 / u64::from(recording.hz));
    let mut model = IdleGovernor::new(&recording.governor, recording.kernel, tick).unwrap();
    model.take_over(0, Nanos::new(1));
    let mut done = Replayed::default();
    // A choice after which nothing was reflected was not entered.
    let mut is_open = false;
    for (index, event) in recording.events.iter().enumerate() {
        match event {
            Event::Woke(wake) => {
                model.woke(wake);
                is_open = false;
            }
            Event::Chosen { entry, state, stopped } => {
                if std::mem::replace(&mut is_open, true) {
                    model.refused();
                }
                let choice = model.select(&recording.states, entry);
                done.decisions += 1;
                done.states.insert(*state);
                done.stopped += usize::from(*stopped);
                if (choice.state, choice.tick == Tick::Stop || entry.tick_stopped) == (*state, *stopped) {
                    done.equal += 1;
                } else {
                    done.differences.push(format!("event {index}: {event:?}, the model {choice:?}"));
                }
            }
        }
    }
    done
}
