//! What is known of a machine from the rows that have come.

use crate::figures::Figures;
use crate::index::Index;
use crate::window::{SPAN, Window};
use domain::bench::{Sink, SinkError};
use domain::inventory::Inventory;
use domain::time::Nanos;
use domain::trace::TraceHead;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many seconds of each CPU are kept to be drawn: as many as a wide screen has columns for.
pub const HISTORY: usize = 120;

/// How often the figures change: nobody reads digits that change faster.
const REFRESH: Nanos = Nanos::from_millis(250);

/// The last seconds of a CPU, the newest last.
#[derive(Clone, Debug, Default)]
pub struct Track {
    /// The share in which it was busy.
    pub busy: VecDeque<Option<f64>>,
    /// Its frequency in Hz.
    pub hertz: VecDeque<Option<f64>>,
}

impl Track {
    fn push(&mut self, busy: Option<f64>, hertz: Option<f64>) {
        for (track, value) in [(&mut self.busy, busy), (&mut self.hertz, hertz)] {
            if track.len() == HISTORY {
                track.pop_front();
            }
            track.push_back(value);
        }
    }

    /// The mean of what is known of it being busy.
    pub fn mean_busy(&self) -> f64 {
        let known = || self.busy.iter().flatten();
        known().sum::<f64>() / known().count().max(1) as f64
    }
}

/// The view's model. Rows go in as into any sink; [`State::figures`] comes out.
#[derive(Clone, Debug, Default)]
pub struct State {
    inventory: Option<Inventory>,
    head: Option<TraceHead>,
    index: Index,
    window: Window,
    figures: Figures,
    /// When the figures were made.
    shown: Option<Nanos>,
    /// When the last second of history ended.
    stepped: Nanos,
    time: Option<Nanos>,
    /// Each CPU's last seconds, and those of all together under `None`.
    tracks: BTreeMap<Option<u32>, Track>,
    /// The devices that have done something.
    active: BTreeSet<String>,
}

impl State {
    /// Of a machine, where it is known.
    pub fn of(inventory: Option<Inventory>) -> Self {
        Self { inventory, ..Self::default() }
    }

    /// The machine.
    pub fn inventory(&self) -> Option<&Inventory> {
        self.inventory.as_ref()
    }

    /// The machine as it is now: its frequency policy may have changed.
    pub fn inventory_mut(&mut self) -> Option<&mut Inventory> {
        self.inventory.as_mut()
    }

    /// What the columns are of; `None` before the first row.
    pub fn head(&self) -> Option<&TraceHead> {
        self.head.as_ref()
    }

    /// The time of the newest row; `None` before the first.
    pub fn time(&self) -> Option<Nanos> {
        self.time
    }

    /// The figures of now.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    /// A CPU's last seconds, or those of all together.
    pub fn track(&self, cpu: Option<u32>) -> Option<&Track> {
        self.tracks.get(&cpu)
    }

    /// Whether a device has done anything since the first row.
    pub fn was_active(&self, device: &str) -> bool {
        self.active.contains(device)
    }

    fn refresh(&mut self, now: Nanos) {
        self.figures = Figures::of(&self.index, &self.window, self.inventory.as_ref());
        self.shown = Some(now);
        for disk in self.figures.disks.iter().filter(|disk| disk.is_active()) {
            if !self.active.contains(&disk.device) {
                self.active.insert(disk.device.clone());
            }
        }
    }

    fn step(&mut self, now: Nanos) {
        self.stepped = now;
        let all = self.figures.machine.map(|usage| usage.busy());
        self.tracks.entry(None).or_default().push(all, None);
        for cpu in &self.figures.cpus {
            let busy = cpu.usage.map(|usage| usage.busy());
            self.tracks.entry(Some(cpu.number)).or_default().push(busy, cpu.hertz);
        }
    }
}

impl Sink for State {
    fn begin(&mut self, head: &TraceHead) -> Result<(), SinkError> {
        self.index = Index::of(&head.series);
        self.window.begin(&head.series);
        self.head = Some(head.clone());
        Ok(())
    }

    fn row(&mut self, time: Nanos, values: &[Option<u64>]) -> Result<(), SinkError> {
        self.window.push(time, values);
        if self.time.is_none() {
            self.stepped = time;
        }
        self.time = Some(time);
        let is_step = self.stepped + SPAN <= time;
        if is_step || self.shown.is_none_or(|shown| shown + REFRESH <= time) {
            self.refresh(time);
        }
        if is_step {
            self.step(time);
        }
        Ok(())
    }
}
