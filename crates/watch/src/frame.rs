//! The lines of a screen.

use crate::charset::Charset;
use crate::figures::CpuNow;
use crate::layers::{Layer, layers};
use crate::lines::{Line, Style, broken, cut};
use crate::state::{State, Track};
use crate::{About, Found};
use analysis::facts::usage::Transfers;
use analysis::words::{counted, percent};
use domain::inventory::{Inventory, Policy};
use domain::order;
use domain::time::Nanos;
use domain::units::{Unit, significant};
use std::collections::VecDeque;

/// Columns and rows of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub columns: usize,
    /// Rows.
    pub rows: usize,
}

/// What a frame needs.
pub const MIN_SIZE: Size = Size { columns: 60, rows: 16 };

/// What is shown: a machine as it works, or a trial that was recorded.
#[derive(Clone, Debug, PartialEq)]
pub enum Showing {
    /// The rows come as they are sampled.
    Live {
        /// Whether the picture stands still; sampling goes on.
        is_held: bool,
        /// Whether somebody has left, and what was started is given time to end.
        is_ending: bool,
        /// Whether leaving ends a command.
        ends_command: bool,
    },
    /// They are stored.
    Recorded {
        /// How long it took.
        length: Nanos,
        /// Whether it stands still.
        is_held: bool,
        /// How many times as fast as it was.
        pace: f64,
    },
}

/// All that a frame shows.
#[derive(Clone, Debug)]
pub struct Scene<'a> {
    /// What is watched.
    pub about: &'a About,
    /// What is known of it.
    pub state: &'a State,
    /// How.
    pub showing: Showing,
    /// What Flyball has changed, a line each.
    pub changed: &'a [String],
    /// What the rules find.
    pub found: &'a Found,
    /// The last lines of the command, the newest last.
    pub output: &'a [String],
    /// How many CPUs are scrolled past.
    pub scrolled: usize,
}

/// Where the text behind a label begins, in columns.
const MARGIN: usize = 9;

/// How many lines a finding may take.
const MAX_FOUND: usize = 3;

/// How many lines of a command's output are worth their room.
const MAX_OUTPUT: usize = 8;

/// The frame: as many lines as the terminal has rows, none wider than its columns.
pub fn frame(scene: &Scene<'_>, size: Size, charset: Charset) -> Vec<Line> {
    if size.columns < MIN_SIZE.columns || size.rows < MIN_SIZE.rows {
        return too_small(size);
    }
    let draw = Draw { scene, size, charset };
    let (cpu_head, cpu_note, layer_head) = (draw.cpu_head(), draw.cpu_note(), draw.layer_head());
    let sums = [draw.roles(), draw.waits(), draw.power(), draw.changed()].concat();
    let found = draw.found();
    let layers = layers(scene.state);
    let output = scene.output.len().min(MAX_OUTPUT);
    // The header, a heading for each table, what stands below them, and the keys.
    let heads = cpu_head.len() + cpu_note.len() + layer_head.len();
    let taken = 1 + heads + sums.len() + found.len() + 1;
    let needs = [scene.state.figures().cpus.len(), layers.len(), output];
    let [cpu_room, layer_room, output_room] = shared(size.rows.saturating_sub(taken), needs);
    let groups = [
        vec![draw.header()],
        [cpu_head, draw.cpus(cpu_room), cpu_note].concat(),
        [layer_head, draw.layers(&layers, layer_room)].concat(),
        sums,
        found,
        draw.output(output_room),
    ];
    let mut lines = spread(groups, size.rows - 1);
    lines.push(draw.keys());
    lines.into_iter().map(|line| draw.fitted(line)).collect()
}

/// Groups of lines in so many rows, with an empty one between them where there is room for all of these.
fn spread(groups: [Vec<Line>; 6], rows: usize) -> Vec<Line> {
    let taken: usize = groups.iter().map(Vec::len).sum();
    let gaps = groups.iter().filter(|group| !group.is_empty()).count() - 1;
    let has_gaps = taken + gaps <= rows;
    let mut lines: Vec<Line> = Vec::new();
    for group in groups.into_iter().filter(|group| !group.is_empty()) {
        if has_gaps && !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.extend(group);
    }
    lines.resize(rows, Line::default());
    lines
}

fn too_small(size: Size) -> Vec<Line> {
    let text = format!(
        "too small: {}x{}, needs {}x{}; q leaves",
        size.columns, size.rows, MIN_SIZE.columns, MIN_SIZE.rows
    );
    broken(&text, size.columns, size.rows.max(1)).into_iter().map(Line::plain).collect()
}

/// Room shared out a row at a time, so that no need takes all of it.
fn shared<const N: usize>(mut room: usize, needs: [usize; N]) -> [usize; N] {
    let mut given = [0; N];
    while room > 0 && given != needs {
        for (given, need) in given.iter_mut().zip(needs) {
            if *given < need && room > 0 {
                *given += 1;
                room -= 1;
            }
        }
    }
    given
}

struct Draw<'a> {
    scene: &'a Scene<'a>,
    size: Size,
    charset: Charset,
}

impl Draw<'_> {
    fn state(&self) -> &State {
        self.scene.state
    }

    fn inventory(&self) -> Option<&Inventory> {
        self.scene.state.inventory()
    }

    /// A label and what stands behind it.
    fn labelled(&self, label: &str, text: impl Into<String>) -> Line {
        Line::default().and(format!("{label:MARGIN$}"), Style::Heading).and(text, Style::Plain)
    }

    fn room(&self) -> usize {
        self.size.columns - MARGIN
    }

    /// A line of characters that the terminal has, cut where it ends.
    fn fitted(&self, line: Line) -> Line {
        let mut left = self.size.columns;
        let mut fitted = Line::default();
        for span in line.0 {
            let text = cut(&self.charset.text(span.text), left);
            left -= text.chars().count();
            fitted = fitted.and(text, span.style);
        }
        fitted
    }

    fn header(&self) -> Line {
        let time = self.state().time().unwrap_or_default();
        let (state, is_held) = match &self.scene.showing {
            Showing::Live { is_ending: true, .. } => (format!("ENDING {}", clock(time)), false),
            Showing::Live { is_held, .. } => (clock(time), *is_held),
            Showing::Recorded { length, is_held, pace } => {
                let pace = if (*pace - 1.0).abs() < 1e-9 { String::new() } else { format!(" x{pace}") };
                (format!("{} of {}{pace}", clock(time), clock(*length)), *is_held)
            }
        };
        let state = if is_held { format!("HELD {state}") } else { state };
        let room = self.size.columns.saturating_sub(state.chars().count() + 2);
        let what = cut(&format!("flyball watch: {}", self.scene.about.what), room);
        let gap = " ".repeat(self.size.columns - what.chars().count() - state.chars().count());
        Line::default().and(what, Style::Strong).and(gap, Style::Plain).and(state, Style::Strong)
    }

    fn has_frequency(&self) -> bool {
        self.state().figures().cpus.iter().any(|cpu| cpu.hertz.is_some())
    }

    fn has_idle(&self) -> bool {
        self.state().figures().cpus.iter().any(|cpu| cpu.idle.is_some())
    }

    fn policy(&self, cpu: u32) -> Option<&Policy> {
        self.inventory()?.cpufreq.as_ref()?.policies.iter().find(|policy| policy.cpus.contains(cpu))
    }

    fn has_governor(&self) -> bool {
        self.inventory().is_some_and(|inventory| inventory.cpufreq.is_some())
    }

    /// The columns that a history of being busy has, and one of frequency.
    fn history(&self) -> (usize, usize) {
        let fixed = MARGIN
            + 7
            + if self.has_frequency() { 12 } else { 0 }
            + if self.has_governor() { 13 } else { 0 }
            + if self.has_idle() { 11 } else { 0 };
        let room = self.size.columns.saturating_sub(fixed);
        if self.has_frequency() {
            // Each has a blank behind it.
            let half = room.saturating_sub(2) / 2;
            (half.min(60), half.min(60))
        } else {
            (room.saturating_sub(2).min(crate::state::HISTORY), 0)
        }
    }

    fn cpu_head(&self) -> Vec<Line> {
        let (busy, frequency) = self.history();
        let mut text = format!("{:>5}  {:busy$}", "busy", cut(&format!("the last {busy} s"), busy));
        if self.has_frequency() {
            text += &format!("  {:>9} {:frequency$}", "frequency", "");
        }
        if self.has_governor() {
            text += &format!(" {:12}", "governor");
        }
        if self.has_idle() {
            text += " idle";
        }
        vec![Line::default().and(format!("{:MARGIN$}", "CPU"), Style::Heading).and(text, Style::Faint)]
    }

    /// Each CPU. Where not all have room: a line for all together, then the busiest of the last seconds.
    fn cpus(&self, room: usize) -> Vec<Line> {
        let mut cpus: Vec<&CpuNow> = self.state().figures().cpus.iter().collect();
        if cpus.len() <= room {
            return cpus.iter().map(|cpu| self.cpu(cpu)).collect();
        }
        let mean = |cpu: &CpuNow| self.state().track(Some(cpu.number)).map_or(0.0, Track::mean_busy);
        order::by(&mut cpus, |a, b| mean(b).total_cmp(&mean(a)).then(a.number.cmp(&b.number)));
        let shown = room.saturating_sub(1);
        let from = self.scene.scrolled.min(cpus.len() - shown);
        let each = cpus.iter().skip(from).take(shown).map(|cpu| self.cpu(cpu));
        [self.all_cpus(cpus.len(), from)].into_iter().chain(each).take(room).collect()
    }

    /// One line for those that have no room.
    fn all_cpus(&self, count: usize, from: usize) -> Line {
        let busy = self.state().figures().machine.map(|usage| usage.busy());
        let which = if from == 0 { "busiest first" } else { "scrolled" };
        let words = format!("{count} CPUs, {which}");
        let columns = self.history().0.min(self.room().saturating_sub(8 + words.chars().count()));
        let track = self.state().track(None).map_or_else(String::new, |t| self.bars(&t.busy, columns, 1.0));
        Line::plain(format!("{:MARGIN$}", "  all"))
            .and(format!("{:>5}  {track:>columns$} ", share(busy)), Style::Plain)
            .and(words, Style::Faint)
    }

    fn cpu(&self, cpu: &CpuNow) -> Line {
        let (columns, of_frequency) = self.history();
        let track = self.state().track(Some(cpu.number));
        let bars = track.map_or_else(String::new, |track| self.bars(&track.busy, columns, 1.0));
        let mut text = format!("{:>5}  {bars:>columns$}", share(cpu.usage.map(|usage| usage.busy())));
        let policy = self.policy(cpu.number);
        if self.has_frequency() {
            let most = policy.and_then(|policy| Some(policy.hardware_max?.hz() as f64));
            let most = most.or_else(|| track?.hertz.iter().flatten().copied().max_by(f64::total_cmp));
            let bars = track
                .zip(most)
                .map_or_else(String::new, |(track, most)| self.bars(&track.hertz, of_frequency, most));
            text += &format!("  {:>9} {bars:>of_frequency$}", hertz(cpu.hertz));
        }
        if self.has_governor() {
            let governor = policy.and_then(|policy| policy.governor.as_deref()).unwrap_or("-");
            text += &format!(" {:12}", cut(governor, 12));
        }
        if let Some((state, share)) = cpu.idle {
            text += &format!(" {} {}", self.idle_name(state, cpu.number), whole(share));
        }
        Line::plain(format!("{:>5}{:4}", cpu.number, "")).and(text, Style::Plain)
    }

    fn idle_name(&self, state: u32, cpu: u32) -> String {
        let states = self.inventory().and_then(|inventory| inventory.cpuidle.as_ref());
        let named = states.and_then(|idle| {
            idle.states.iter().find(|known| known.index == state && known.cpus.contains(cpu))
        });
        named.map_or_else(|| format!("state{state}"), |known| cut(&known.name, 6))
    }

    fn bars(&self, track: &VecDeque<Option<f64>>, columns: usize, most: f64) -> String {
        let skip = track.len().saturating_sub(columns);
        track.iter().skip(skip).map(|value| self.charset.bar(value.map(|value| value / most))).collect()
    }

    /// What of the CPUs cannot be seen here.
    fn cpu_note(&self) -> Vec<Line> {
        let Some(inventory) = self.inventory() else { return Vec::new() };
        let notes = [
            (inventory.cpufreq.is_none() && !self.has_frequency())
                .then_some("no cpufreq driver: frequency is not scaled by the kernel"),
            inventory.cpuidle.is_none().then_some("no idle states"),
        ];
        let notes: Vec<&str> = notes.into_iter().flatten().collect();
        if notes.is_empty() {
            return Vec::new();
        }
        vec![Line::plain("  ").and(notes.join("; "), Style::Faint)]
    }

    /// CPU time by role, of one CPU.
    fn roles(&self) -> Vec<Line> {
        let mut roles: Vec<_> =
            self.state().figures().roles.iter().filter(|(_, share)| **share >= 0.0005).collect();
        order::by(&mut roles, |a, b| b.1.total_cmp(a.1));
        let all: Vec<String> =
            roles.iter().map(|(role, share)| format!("{role} {}", percent(**share))).collect();
        let text = match (self.state().figures().roles.is_empty(), all.is_empty()) {
            (true, _) => "not known yet".to_owned(),
            (false, true) => "nothing ran".to_owned(),
            (false, false) => format!("of one CPU: {}", all.join(", ")),
        };
        self.paragraph("CPU time", &text, 2)
    }

    fn paragraph(&self, label: &str, text: &str, most: usize) -> Vec<Line> {
        let lines = broken(text, self.room(), most);
        let label = |index| if index == 0 { label } else { "" };
        lines.into_iter().enumerate().map(|(index, line)| self.labelled(label(index), line)).collect()
    }

    fn has_queue(&self) -> bool {
        self.size.columns >= 96
    }

    fn layer_head(&self) -> Vec<Line> {
        let name = format!("{:14}", "Layer");
        let queue = if self.has_queue() { format!(" {:>6}", "queue") } else { String::new() };
        let text = format!("{:>5}{queue}  {:25} {:25} {}", "busy", "reads", "writes", "below");
        let mut lines = vec![Line::default().and(name, Style::Heading).and(text, Style::Faint)];
        if layers(self.state()).is_empty() {
            lines.push(Line::plain(" ".repeat(MARGIN)).and("no block device had a request", Style::Faint));
        }
        lines
    }

    fn layers(&self, layers: &[Layer<'_>], room: usize) -> Vec<Line> {
        if layers.len() <= room {
            return layers.iter().map(|layer| self.layer(layer)).collect();
        }
        let shown = room.saturating_sub(1);
        let more = format!("{:MARGIN$}and {} more", "", counted(layers.len() - shown, "device"));
        let each = layers.iter().take(shown).map(|layer| self.layer(layer));
        each.chain([Line::default().and(more, Style::Faint)]).take(room).collect()
    }

    fn layer(&self, layer: &Layer<'_>) -> Line {
        let disk = layer.disk;
        let name = format!("{}{}", " ".repeat(2 + layer.depth.min(4)), disk.device);
        let queue = disk.depth.map_or_else(|| "-".to_owned(), significant);
        let queue = if self.has_queue() { format!(" {queue:>6}") } else { String::new() };
        let below = layer.write_amplification.map(|ratio| format!("x{ratio:.2}")).unwrap_or_default();
        Line::plain(format!(
            "{:14}{:>5}{queue}  {:25} {:25} {below}",
            cut(&name, 14),
            share(disk.busy),
            transfers(&disk.read),
            transfers(&disk.write)
        ))
    }

    fn waits(&self) -> Vec<Line> {
        let pressure = self.state().figures().pressure;
        let parts = [("CPU", pressure.cpu), ("I/O", pressure.io), ("memory", pressure.memory)];
        let known: Vec<String> = parts
            .into_iter()
            .filter_map(|(what, share)| Some(format!("{what} {}", percent(share?))))
            .collect();
        let stolen = self.state().figures().machine.filter(|usage| usage.steal > 0.0005);
        let stolen = stolen.map(|usage| format!("; the hypervisor took {}", percent(usage.steal)));
        let text = match known.is_empty() {
            true => "not known: this kernel counts no pressure (PSI)".to_owned(),
            false => format!("of tasks for {}{}", known.join(", "), stolen.unwrap_or_default()),
        };
        vec![self.labelled("Waits", text)]
    }

    fn power(&self) -> Vec<Line> {
        let watts = &self.state().figures().watts;
        let each: Vec<String> =
            watts.iter().map(|(domain, watts)| format!("{domain} {}", Unit::Watts.show(*watts))).collect();
        const OF_POWER: [&str; 3] = ["rapl.", "hwmon.", "battery."];
        let is_of_power = |name: &str| OF_POWER.iter().any(|start| name.starts_with(start));
        let has_domain = self
            .state()
            .head()
            .is_some_and(|head| head.series.iter().any(|series| is_of_power(&series.name)));
        let text = match (each.is_empty(), has_domain) {
            (false, _) => each.join(", "),
            (true, true) => "not known yet".to_owned(),
            (true, false) => "not measured: no energy counter (RAPL) can be read here".to_owned(),
        };
        vec![self.labelled("Power", text)]
    }

    fn changed(&self) -> Vec<Line> {
        let text = match self.scene.changed {
            [] => "nothing".to_owned(),
            [one] => one.clone(),
            [first, rest @ ..] => format!("{first}, and {} more", rest.len()),
        };
        vec![self.labelled("Changed", text)]
    }

    fn found(&self) -> Vec<Line> {
        match self.scene.found {
            Found::NotYet => vec![self.labelled("Found", "nothing yet: the rules need a few seconds")],
            Found::Nothing { seen } => vec![self.labelled("Found", format!("nothing in {seen}"))],
            Found::Finding { title, confidence, others, next } => {
                let others = if *others > 0 { format!("; {others} more") } else { String::new() };
                let mut lines =
                    self.paragraph("Found", &format!("{title} ({confidence}{others})"), MAX_FOUND);
                lines.push(
                    Line::default()
                        .and(format!("{:MARGIN$}", "Next"), Style::Heading)
                        .and(next.clone(), Style::Command),
                );
                lines
            }
        }
    }

    fn output(&self, room: usize) -> Vec<Line> {
        let lines = self.scene.output;
        let last = lines.iter().skip(lines.len().saturating_sub(room));
        last.enumerate()
            .map(|(index, line)| self.labelled(if index == 0 { "Output" } else { "" }, line.clone()))
            .collect()
    }

    fn keys(&self) -> Line {
        let text = match &self.scene.showing {
            Showing::Live { ends_command: true, .. } => {
                "q end the command and leave   space hold   up/down CPUs"
            }
            Showing::Live { .. } => "q leave   space hold   up/down CPUs",
            Showing::Recorded { .. } => {
                "q leave  space hold  left/right 1 s  PgUp/PgDn 10 s  Home/End  +/- pace"
            }
        };
        Line::default().and(text, Style::Faint)
    }
}

/// `12.3 s`, `2:05`, `1:02:05`: for a clock that runs.
fn clock(time: Nanos) -> String {
    let seconds = time.get() / 1_000_000_000;
    match seconds {
        0..60 => format!("{:.1} s", time.secs()),
        60..3600 => format!("{}:{:02}", seconds / 60, seconds % 60),
        _ => format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60),
    }
}

/// Whole per cents: what changes all the time is read at a glance.
fn whole(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

fn share(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), whole)
}

fn hertz(hertz: Option<f64>) -> String {
    hertz.map_or_else(|| "-".to_owned(), |hertz| format!("{:.0} MHz", hertz / 1e6))
}

/// `120 /s 492 kB/s 27.0 ms`: requests and bytes a second, and what one takes.
fn transfers(transfers: &Transfers) -> String {
    let Some(latency) = transfers.latency else { return "-".to_owned() };
    let (rate, bytes) = (Unit::PerSecond.show(transfers.rate), Unit::BytesPerSecond.show(transfers.bytes));
    // The kernel counts whole milliseconds of each request.
    let latency = if latency > 0.0 { Unit::Seconds.show(latency) } else { "<1 ms".to_owned() };
    format!("{rate} {bytes} {latency}")
}
