//! What a recording says without any tool's report: how busy CPUs and disks were, and what the machine took,
//! from the first row of its trace to the last; and the answer to its study's question, which is what
//! happened.

use crate::facts::meters::{Meters, PARTS, Reading};
use crate::words::listed;
use domain::bench::{Sink, SinkError};
use domain::database::Kind;
use domain::database::counters::{QUERIES, TRANSACTIONS, WATCHED, WRITE_TRANSACTIONS};
use domain::energy::EnergyAccount;
use domain::outcome::{Better, CPU_BUSY, Metric};
use domain::per_work::{self, BUSY_FREQUENCY, SWITCHES, WAKEUPS};
use domain::phase::{Mark, Phase};
use domain::shell;
use domain::time::Nanos;
use domain::trace::{Role, TraceHead};
use domain::trial::{Measurement, PROCESS, Trial};
use domain::units::Unit;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The name of the metric that is the CPU time of what was followed: a command, or a process.
pub const CPU_TIME: &str = "cpu_time";

/// Bytes of a sector, in which `/proc/diskstats` counts.
const SECTOR: f64 = 512.0;

/// Devices that pass requests on to others, or keep them in memory: what they did is counted below them, or
/// was done by no disk.
const LAYERS: [&str; 8] = ["dm-", "md", "loop", "zram", "ram", "drbd", "bcache", "fd"];

/// The options by which `flyball tune` finds the server or the process that was recorded, with a space before
/// them; `None` of a command, and of a server of a kind that is not known.
pub fn running_load(trial: &Trial) -> Option<String> {
    if let Some((title, address)) = trial.environment.get(WATCHED).and_then(|name| name.split_once(" at ")) {
        let kind = Kind::ALL.into_iter().find(|kind| kind.title() == title)?;
        let named = format!(" --server {}", kind.name());
        let is_usual = kind.usual_address().to_string() == address;
        return Some(if is_usual {
            named
        } else {
            format!("{named} --server-address {}", shell::quoted(address))
        });
    }
    let process = trial.environment.get(PROCESS)?;
    let pid: u32 = process.split(' ').next()?.parse().ok()?;
    Some(format!(" --pid {pid}"))
}

/// The first row of a trace and its last, as it passes on its way to another sink; and the rows next to
/// marks.
pub struct Ends<'a> {
    to: &'a mut dyn Sink,
    all: Stretch,
    marks: VecDeque<Mark>,
    phases: Vec<(Option<Mark>, Stretch)>,
    /// The last value of each column: sources that are read less often than others have none in most rows.
    known: Vec<Option<u64>>,
}

/// Two rows of a trace, and what the meters counted between them.
#[derive(Default)]
struct Stretch {
    head: Option<TraceHead>,
    first: Option<Row>,
    last: Option<Row>,
    meters: Meters,
    /// The columns of single CPUs' idle time, each with whether it was there at first.
    cpus: Vec<(usize, bool)>,
    /// Whether a CPU went offline or came online.
    has_other_cpus: bool,
    rows: u64,
}

struct Row {
    time: Nanos,
    values: Vec<Option<u64>>,
}

impl<'a> Ends<'a> {
    /// In front of a sink.
    pub fn before(to: &'a mut dyn Sink) -> Self {
        Self::with_marks(to, Vec::new())
    }

    /// In front of a sink, where this was marked, in order.
    pub fn with_marks(to: &'a mut dyn Sink, marks: Vec<Mark>) -> Self {
        Self { to, all: Stretch::default(), marks: marks.into(), phases: Vec::new(), known: Vec::new() }
    }

    /// How many rows have passed.
    pub fn rows(&self) -> u64 {
        self.all.rows
    }

    /// What the columns mean; `None` before the trace has begun.
    pub fn head(&self) -> Option<&TraceHead> {
        self.all.head.as_ref()
    }

    /// From the first row to the last.
    pub fn span(&self) -> Nanos {
        self.all.span()
    }

    /// CPU time by role, zeros left out.
    pub fn roles(&self) -> BTreeMap<Role, Nanos> {
        let grown = |role: Role| self.all.grown(&format!("role.{role}.ns")).filter(|ns| *ns > 0);
        Role::ALL.into_iter().filter_map(|role| Some((role, Nanos::new(grown(role)?)))).collect()
    }

    /// What the machine took, whatever ran on it: energy and watts, context switches and wake-ups, by the
    /// names of [`per_work`]. What has no counter in both rows is left out, as by [`Ends::metrics`].
    pub fn of_machine(&self) -> BTreeMap<String, Metric> {
        self.all.of_machine()
    }

    /// By what the energy was measured; `None` where it is not known.
    pub fn energy(&self) -> Option<EnergyAccount> {
        self.all.meters.account().filter(|_| self.all.span() > Nanos::ZERO)
    }

    /// Why the energy is not known although there is a source of it, as the recorder says what it lacks.
    pub fn lack_of_energy(&self) -> Option<String> {
        self.all.meters.lack()
    }

    /// How busy the CPUs were, what the disks read and wrote, what the machine took, and what of that a unit
    /// of the disks' work took. What was not in both rows, or has begun again between them, is left out; so
    /// is all where there is no time between them.
    pub fn metrics(&self) -> BTreeMap<String, Metric> {
        self.all.metrics()
    }

    /// The same of what was between two marks; none where nothing was marked.
    pub fn phases(&self) -> Vec<Phase> {
        let begin = |mark: &Option<Mark>| mark.as_ref().map_or(Nanos::ZERO, |mark| mark.at);
        let last = self.all.last.as_ref().map_or(Nanos::ZERO, |row| row.time);
        // A mark behind the last row begins a phase of which nothing is known.
        let behind = self.marks.iter().map(|mark| (Some(mark.clone()), BTreeMap::new()));
        let known = self.phases.iter().map(|(mark, stretch)| (mark.clone(), stretch.metrics()));
        let all: Vec<_> = known.chain(behind).collect();
        if all.iter().all(|(mark, _)| mark.is_none()) {
            return Vec::new();
        }
        let ends = all.iter().skip(1).map(|(mark, _)| begin(mark)).chain([last]);
        let phase = |((mark, metrics), end): (&(Option<Mark>, BTreeMap<String, Metric>), Nanos)| {
            let begin = begin(mark);
            let name = mark.as_ref().map(|mark| mark.name.clone());
            Phase { name, begin, end: end.max(begin), metrics: metrics.clone() }
        };
        all.iter().zip(ends).map(phase).collect()
    }

    /// Adds a row to the phase that it is in. The first behind a mark ends a phase and begins the next.
    fn phase_row(&mut self, time: Nanos, values: &[Option<u64>]) {
        if self.marks.is_empty() && self.phases.is_empty() {
            return;
        }
        self.known.resize(values.len(), None);
        self.known.iter_mut().zip(values).for_each(|(known, value)| *known = value.or(*known));
        if self.phases.is_empty() {
            self.phases.push((None, self.all.begun_again()));
        }
        let known = &self.known;
        // A phase ends and begins with what was known then, also of what was not read just then.
        let is_end = self.marks.front().is_some_and(|mark| mark.at <= time);
        if let Some((_, current)) = self.phases.last_mut() {
            current.row(Reading { time, known, read: if is_end { known } else { values } });
        }
        while self.marks.front().is_some_and(|mark| mark.at <= time) {
            let mut next = self.all.begun_again();
            next.row(Reading { time, known, read: known });
            self.phases.push((self.marks.pop_front(), next));
        }
    }
}

impl Stretch {
    fn begin(head: &TraceHead) -> Self {
        let of_cpu = |name: &str| name.strip_prefix("cpu")?.strip_suffix(".idle")?.parse::<u32>().ok();
        let series = head.series.iter().enumerate();
        let cpus = series.filter(|(_, series)| of_cpu(&series.name).is_some());
        let cpus = cpus.map(|(column, _)| (column, false)).collect();
        Self { head: Some(head.clone()), meters: Meters::of(head), cpus, ..Self::default() }
    }

    /// One of the same columns, without a row.
    fn begun_again(&self) -> Self {
        self.head.as_ref().map(Self::begin).unwrap_or_default()
    }

    fn row(&mut self, reading: Reading<'_>) {
        self.meters.row(reading);
        let Reading { time, known: values, .. } = reading;
        // A row without any of them has not read the file.
        let is_there = |column: usize| values.get(column).is_some_and(Option::is_some);
        if self.cpus.iter().any(|(column, _)| is_there(*column)) {
            if self.first.is_none() {
                self.cpus.iter_mut().for_each(|(column, at_first)| *at_first = is_there(*column));
            }
            self.has_other_cpus |= self.cpus.iter().any(|(column, at_first)| is_there(*column) != *at_first);
        }
        let row = self.last.get_or_insert_with(|| Row { time, values: Vec::new() });
        row.time = time;
        row.values.clear();
        row.values.extend_from_slice(values);
        if self.first.is_none() {
            self.first = Some(Row { time, values: values.to_vec() });
        }
        self.rows += 1;
    }

    /// From the first row to the last.
    fn span(&self) -> Nanos {
        let ends = self.first.as_ref().zip(self.last.as_ref());
        ends.map_or(Nanos::ZERO, |(first, last)| last.time.saturating_sub(first.time))
    }

    fn of_machine(&self) -> BTreeMap<String, Metric> {
        let seconds = self.span().secs();
        if seconds == 0.0 {
            return BTreeMap::new();
        }
        let energy = PARTS.into_iter().flat_map(|(part, energy, power)| {
            let joules = self.meters.counted(part).map(|counted| counted.joules());
            joules.into_iter().flat_map(move |joules| [(energy, joules), (power, joules / seconds)])
        });
        let counts = [(SWITCHES, self.grown("system.context_switches")), (WAKEUPS, self.wakeups())];
        let rates = counts.into_iter().filter_map(|(name, count)| Some((name, count? as f64 / seconds)));
        let frequency = self.busy_frequency(seconds).map(|hertz| (BUSY_FREQUENCY, hertz));
        let all = energy.chain(rates).chain(frequency);
        all.filter_map(|(name, value)| Some((name.to_owned(), per_work::metric(name, value)?))).collect()
    }

    /// The frequency of the CPUs while they were not idle; `None` where the counters of a CPU were not in
    /// both rows, or none was ever busy.
    fn busy_frequency(&self, seconds: f64) -> Option<f64> {
        let names = self.head.iter().flat_map(|head| &head.series).map(|series| series.name.as_str());
        let cpus = names.filter_map(|name| name.strip_prefix("freq.cpu")?.strip_suffix(".mperf"));
        let of_cpu = |cpu: &str| {
            let grown = |what: &str| Some(self.grown(&format!("freq.cpu{cpu}.{what}"))? as f64);
            let (aperf, mperf, tsc) = (grown("aperf")?, grown("mperf")?, grown("tsc")?);
            // APERF over MPERF times the TSC's rate is the frequency; MPERF is how long it was busy.
            Some((aperf * tsc / seconds, mperf))
        };
        let all: Vec<(f64, f64)> = cpus.map(of_cpu).collect::<Option<_>>()?;
        let (weighed, busy) = all.iter().fold((0.0, 0.0), |sum, cpu| (sum.0 + cpu.0, sum.1 + cpu.1));
        (busy > 0.0).then(|| weighed / busy)
    }

    /// How often CPUs left an idle state; `None` where one of the counters was not in both rows.
    fn wakeups(&self) -> Option<u64> {
        let names = self.head.iter().flat_map(|head| &head.series).map(|series| series.name.as_str());
        let mut entries =
            names.filter(|name| name.starts_with("idle.cpu") && name.ends_with(".entries")).peekable();
        entries.peek()?;
        entries.map(|name| self.grown(name)).sum()
    }

    fn metrics(&self) -> BTreeMap<String, Metric> {
        let seconds = self.span().secs();
        if seconds == 0.0 {
            return BTreeMap::new();
        }
        let busy = self.cpu_busy().map(|value| (CPU_BUSY, value, Unit::Share, Better::Lower));
        let rate = |name, field, scale, unit| {
            Some((name, self.of_disks(field)? as f64 * scale / seconds, unit, Better::Higher))
        };
        let disks = [
            rate("read_throughput", "read_sectors", SECTOR, Unit::BytesPerSecond),
            rate("write_throughput", "write_sectors", SECTOR, Unit::BytesPerSecond),
            rate("read_iops", "read_ios", 1.0, Unit::PerSecond),
            rate("write_iops", "write_ios", 1.0, Unit::PerSecond),
        ];
        let all = busy.into_iter().chain(disks.into_iter().flatten());
        let all = all.map(|(name, value, unit, better)| (name.to_owned(), Metric { value, unit, better }));
        let mut all: BTreeMap<String, Metric> = all.chain(self.of_machine()).collect();
        per_work::add(&mut all);
        all
    }

    /// The share of the CPUs' time in which they were not idle. `guest` and `guest_nice` are part of `user`
    /// and `nice` (proc_stat(5)) and have no column; time that the hypervisor took is nobody's here. `None`
    /// where a CPU went or came: the kernel sums idle time of CPUs that are online by another clock than that
    /// of those which are not (fs/proc/stat.c, `get_idle_time`), so that the sum jumps.
    fn cpu_busy(&self) -> Option<f64> {
        if self.has_other_cpus {
            return None;
        }
        let of = |fields: &[&str]| {
            fields.iter().map(|field| self.grown(&format!("cpu.{field}"))).sum::<Option<u64>>()
        };
        let busy = of(&["user", "nice", "system", "irq", "softirq"])?;
        let idle = of(&["idle", "iowait"])?;
        (busy + idle > 0).then(|| busy as f64 / (busy + idle) as f64)
    }

    /// What all disks together have done, each once; `None` where no disk has this column.
    fn of_disks(&self, field: &str) -> Option<u64> {
        let names: BTreeSet<&str> =
            self.head.iter().flat_map(|head| &head.series).filter_map(|s| disk(&s.name)).collect();
        let disks = names.iter().filter(|name| is_disk(name, &names));
        let grown: Vec<u64> = disks.filter_map(|name| self.grown(&format!("disk.{name}.{field}"))).collect();
        (!grown.is_empty()).then(|| grown.iter().sum())
    }

    /// By how much a counter grew.
    fn grown(&self, name: &str) -> Option<u64> {
        let column = self.head.as_ref()?.series.iter().position(|series| series.name == name)?;
        let value = |row: &Option<Row>| *row.as_ref()?.values.get(column)?;
        value(&self.last)?.checked_sub(value(&self.first)?)
    }
}

impl Sink for Ends<'_> {
    fn begin(&mut self, head: &TraceHead) -> Result<(), SinkError> {
        self.to.begin(head)?;
        self.all = Stretch::begin(head);
        Ok(())
    }

    fn row(&mut self, time: Nanos, values: &[Option<u64>]) -> Result<(), SinkError> {
        self.to.row(time, values)?;
        self.all.row(Reading { time, known: values, read: values });
        self.phase_row(time, values);
        Ok(())
    }
}

/// By these names a trial's environment says how the recorded command ended, where that was no success.
pub const EXIT_CODE: &str = "exit_code";
/// The number of the signal that ended it.
pub const SIGNAL: &str = "signal";

/// What happened, in one sentence: `it took 1.31 s, used 0.42 s of CPU time and ended with code 3; the CPUs
/// were 27% busy, and the disks read 0 B/s and wrote 229 MB/s`.
pub(crate) fn sentence(trial: &Trial) -> Option<String> {
    let measurement = trial.measurement.as_ref()?;
    let figure = |name: &str| {
        let metric = measurement.outcome.metrics.get(name)?;
        Some(metric.unit.show(metric.value))
    };
    let by_itself = [
        Some(duration(measurement, figure("elapsed"))),
        figure(CPU_TIME).map(|time| format!("used {time} of CPU time")),
        ending(trial),
    ];
    let disks = [("read", "read_throughput"), ("wrote", "write_throughput")];
    let disks = disks.into_iter().filter_map(|(did, name)| Some(format!("{did} {}", figure(name)?)));
    let disks: Vec<String> = disks.collect();
    let of_machine = [
        figure(CPU_BUSY).map(|share| format!("the CPUs were {share} busy")),
        (!disks.is_empty()).then(|| format!("the disks {}", listed(&disks))),
    ];
    let of_server = [
        figure(TRANSACTIONS).map(|rate| format!("{rate} transactions")),
        // Where not all are counted.
        figure(WRITE_TRANSACTIONS)
            .filter(|_| figure(TRANSACTIONS).is_none())
            .map(|rate| format!("{rate} transactions that wrote")),
        figure(QUERIES).map(|rate| format!("{rate} queries")),
    ];
    let of_server = listed(&of_server.into_iter().flatten().collect::<Vec<_>>());
    let of_server = (!of_server.is_empty()).then(|| format!("the server did {of_server}"));
    let joined = |parts: &[Option<String>]| listed(&parts.iter().flatten().cloned().collect::<Vec<_>>());
    let sentences = [joined(&by_itself), joined(&[of_server]), joined(&of_machine)];
    Some(sentences.into_iter().filter(|sentence| !sentence.is_empty()).collect::<Vec<_>>().join("; "))
}

/// A command that was stopped has no time of its own.
fn duration(measurement: &Measurement, elapsed: Option<String>) -> String {
    match elapsed {
        Some(elapsed) => format!("it took {elapsed}"),
        None => format!("it was recorded for {}", Unit::Seconds.show(measurement.duration.secs())),
    }
}

fn ending(trial: &Trial) -> Option<String> {
    let code = trial.environment.get(EXIT_CODE).map(|code| format!("ended with code {code}"));
    code.or_else(|| Some(format!("was ended by signal {}", trial.environment.get(SIGNAL)?)))
}

/// The disk that a column is of.
fn disk(column: &str) -> Option<&str> {
    Some(column.strip_prefix("disk.")?.rsplit_once('.')?.0)
}

/// Whether a device is a whole disk, and no layer above one. The kernel puts a `p` between the name of a disk
/// that ends in a digit and the number of its partition.
fn is_disk(name: &str, all: &BTreeSet<&str>) -> bool {
    let without_number = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_numbered = without_number.len() < name.len();
    let by_p = without_number.strip_suffix('p').filter(|disk| disk.ends_with(|c: char| c.is_ascii_digit()));
    let is_partition = is_numbered && (all.contains(without_number) || by_p.is_some_and(|d| all.contains(d)));
    !is_partition && !LAYERS.iter().any(|layer| name.starts_with(layer))
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::Timestamp;
    use domain::bench::DiscardTrace;
    use domain::trace::{FrequencySource, Series, SeriesKind, SeriesUnit};

    fn ends(columns: &[(&str, Option<u64>, Option<u64>)], seconds: u64) -> Ends<'static> {
        let series = |(name, ..): &(&str, Option<u64>, Option<u64>)| Series {
            name: (*name).to_owned(),
            unit: SeriesUnit::Count,
            kind: SeriesKind::Counter { wraps_at: None },
        };
        let head = TraceHead {
            series: columns.iter().map(series).collect(),
            interval: Nanos::from_millis(10),
            start: Timestamp::from_unix_nanos(0),
            frequency: FrequencySource::None,
        };
        let mut ends = Ends::before(Box::leak(Box::new(DiscardTrace)));
        ends.begin(&head).unwrap();
        ends.row(Nanos::ZERO, &columns.iter().map(|(_, first, _)| *first).collect::<Vec<_>>()).unwrap();
        let last: Vec<_> = columns.iter().map(|(.., last)| *last).collect();
        ends.row(Nanos::from_secs(seconds), &last).unwrap();
        ends
    }

    fn value(ends: &Ends<'static>, name: &str) -> Option<f64> {
        ends.metrics().get(name).map(|metric| metric.value)
    }

    #[test]
    fn each_byte_is_counted_once_however_many_layers_it_went_through() {
        let of = |name: &'static str| (name, Some(10), Some(4106));
        let ends = ends(
            &[
                of("disk.nvme0n1.write_sectors"),
                of("disk.nvme0n1p2.write_sectors"),
                of("disk.sda.write_sectors"),
                of("disk.sda1.write_sectors"),
                of("disk.dm-0.write_sectors"),
                of("disk.md127.write_sectors"),
                of("disk.loop3.write_sectors"),
            ],
            2,
        );
        assert_eq!(value(&ends, "write_throughput"), Some(2.0 * 4096.0 * 512.0 / 2.0));
        assert_eq!(value(&ends, "read_throughput"), None, "what has no column is no zero");
    }

    #[test]
    fn cpus_are_as_busy_as_their_ticks_say_and_waiting_for_a_disk_is_idle() {
        let ticks = |name: &'static str, grown: u64| (name, Some(100), Some(100 + grown));
        let mut columns = vec![
            ticks("cpu.user", 20),
            ticks("cpu.nice", 0),
            ticks("cpu.system", 5),
            ticks("cpu.irq", 0),
            ticks("cpu.softirq", 0),
            ticks("cpu.idle", 50),
            ticks("cpu.iowait", 25),
        ];
        assert_eq!(value(&ends(&columns, 1), CPU_BUSY), Some(0.25));
        columns[0].2 = None;
        assert_eq!(value(&ends(&columns, 1), CPU_BUSY), None);
    }

    #[test]
    fn how_busy_all_cpus_were_is_not_known_where_one_was_away_for_a_while() {
        let fields = ["user", "nice", "system", "irq", "softirq", "idle", "iowait"];
        let of_all = fields.map(|field| format!("cpu.{field}"));
        let names = of_all.iter().map(String::as_str).chain(["cpu0.idle", "cpu1.idle"]);
        let series = names.map(|name| Series {
            name: name.to_owned(),
            unit: SeriesUnit::Ticks,
            kind: SeriesKind::Counter { wraps_at: None },
        });
        let head = TraceHead {
            series: series.collect(),
            interval: Nanos::from_secs(1),
            start: Timestamp::from_unix_nanos(0),
            frequency: FrequencySource::None,
        };
        let busy = |second_cpu: [Option<u64>; 3]| {
            let mut ends = Ends::before(Box::leak(Box::new(DiscardTrace)));
            ends.begin(&head).unwrap();
            for (row, of_second) in second_cpu.into_iter().enumerate() {
                let ticks = Some(10 * row as u64);
                let values = [[ticks; 7].as_slice(), &[ticks, of_second]].concat();
                ends.row(Nanos::from_secs(row as u64), &values).unwrap();
            }
            value(&ends, CPU_BUSY)
        };
        assert_eq!(busy([Some(0), Some(10), Some(20)]), Some(5.0 / 7.0));
        assert_eq!(busy([Some(0), None, Some(20)]), None);
        assert_eq!(busy([None, None, Some(20)]), None);
        assert_eq!(busy([None; 3]), Some(5.0 / 7.0), "one that was never there");
    }

    #[test]
    fn a_phase_is_from_the_row_at_its_mark_to_that_at_the_next() {
        let series = |name: &str| Series {
            name: name.to_owned(),
            unit: SeriesUnit::Count,
            kind: SeriesKind::Counter { wraps_at: None },
        };
        let head = TraceHead {
            series: vec![series("disk.sda.write_sectors"), series("rapl.package-0.uj")],
            interval: Nanos::from_secs(1),
            start: Timestamp::from_unix_nanos(0),
            frequency: FrequencySource::None,
        };
        let mark = |millis, name: &str| Mark { at: Nanos::from_millis(millis), name: name.to_owned() };
        let marks = [mark(1500, "load"), mark(1600, "more"), mark(4000, "none"), mark(9000, "late")];
        let mut ends = Ends::with_marks(Box::leak(Box::new(DiscardTrace)), marks.to_vec());
        ends.begin(&head).unwrap();
        // The counter of energy is read at every other sample.
        for (second, sectors) in [0, 10, 30, 50, 150, 150].into_iter().enumerate() {
            let joules = second.is_multiple_of(2).then_some(second as u64 * 1_000_000);
            ends.row(Nanos::from_secs(second as u64), &[Some(sectors), joules]).unwrap();
        }
        let written = |phase: &Phase| Some(phase.metrics.get("write_throughput")?.value / 512.0);
        let phases = ends.phases();
        let names: Vec<_> = phases.iter().map(|phase| phase.name.as_deref()).collect();
        assert_eq!(names, [None, Some("load"), Some("more"), Some("none"), Some("late")]);
        // Two marks between two rows leave no time between them.
        let rates: Vec<_> = phases.iter().map(written).collect();
        assert_eq!(rates, [Some(15.0), None, Some(60.0), Some(0.0), None]);
        assert_eq!(phases[2].metrics["energy"].value, 2.0);
        assert_eq!(phases[2].duration(), Nanos::from_millis(2400));
        assert_eq!((phases[3].end, phases[4].duration()), (Nanos::from_secs(9), Nanos::ZERO));
        let without = self::ends(&[("disk.sda.write_sectors", Some(0), Some(1))], 1);
        assert!(without.phases().is_empty());
    }

    #[test]
    fn cpus_ran_as_fast_as_their_counters_say_while_they_were_busy() {
        let of = |name: &'static str, grown: u64| (name, Some(7), Some(7 + grown));
        let ghz = 1_000_000_000;
        // One CPU at 3 GHz for a quarter of the time, one at 1 GHz for half of it; the TSC has 2 GHz.
        let mut columns = vec![
            of("freq.cpu0.aperf", 3 * ghz / 4),
            of("freq.cpu0.mperf", 2 * ghz / 4),
            of("freq.cpu0.tsc", 2 * ghz),
            of("freq.cpu1.aperf", ghz / 2),
            of("freq.cpu1.mperf", ghz),
            of("freq.cpu1.tsc", 2 * ghz),
        ];
        let found = value(&ends(&columns, 1), BUSY_FREQUENCY).unwrap();
        assert!((found - 5.0 / 3.0 * ghz as f64).abs() < 1.0, "{found}");
        columns[1].2 = None;
        assert_eq!(value(&ends(&columns, 1), BUSY_FREQUENCY), None);
    }

    #[test]
    fn what_began_again_or_took_no_time_is_left_out() {
        let fell =
            ends(&[("disk.sda.read_ios", Some(9), Some(3)), ("disk.sdb.read_ios", Some(0), Some(6))], 3);
        assert_eq!(value(&fell, "read_iops"), Some(2.0));
        assert!(ends(&[("disk.sda.read_ios", Some(0), Some(6))], 0).metrics().is_empty());
    }

    #[test]
    fn what_the_machine_took_is_told_over_time_and_over_the_work_of_its_disks() {
        let of = |name: &'static str, grown: u64| (name, Some(100), Some(100 + grown));
        let mut columns = vec![
            of("rapl.package-0.uj", 30_000_000),
            of("rapl.package-0.dram.uj", 5_000_000),
            of("system.context_switches", 8_000),
            of("idle.cpu0.state0.entries", 100),
            of("idle.cpu0.state1.entries", 500),
            of("idle.cpu1.state1.entries", 200),
            of("disk.sda.read_ios", 4_000),
            of("disk.sda.read_sectors", 2_000_000),
        ];
        let ends_of = |columns: &[_]| ends(columns, 2);
        let all = ends_of(&columns);
        for (name, expected) in [
            ("energy", 30.0),
            ("power", 15.0),
            ("energy_dram", 5.0),
            ("power_dram", 2.5),
            ("switches", 4_000.0),
            ("switches_per_io", 2.0),
            ("wakeups", 400.0),
            ("wakeups_per_io", 0.2),
            ("energy_per_io", 0.0075),
            ("energy_per_gb", 15.0 / 0.512),
        ] {
            let value = value(&all, name).unwrap_or_else(|| panic!("{name}"));
            assert!((value / expected - 1.0).abs() < 1e-12, "{name}: {value} is not {expected}");
        }
        assert_eq!(value(&all, "energy_core"), None);
        columns[4].2 = None;
        assert_eq!(value(&ends_of(&columns), "wakeups"), None, "a CPU went offline");
        columns.truncate(0);
        assert!(ends_of(&columns).of_machine().is_empty());
        assert!(ends(&[of("rapl.package-0.uj", 1)], 0).of_machine().is_empty(), "no time passed");
    }

    #[test]
    fn roles_are_what_their_clocks_grew_by() {
        let roles =
            ends(&[("role.workload.ns", Some(5), Some(12)), ("role.other.ns", Some(1), Some(1))], 1).roles();
        assert_eq!(roles, [(Role::Workload, Nanos::new(7))].into());
    }
}
