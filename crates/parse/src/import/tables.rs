//! Tables of figures over time in text: those of sar, mpstat, pidstat, iostat, vmstat, turbostat and `sadf
//! -d`, with whatever prose stands between them.
//!
//! A table is known by its header, and a row by having as many fields of the right kind. What is neither ends
//! it. So a column that a version adds or leaves out is read by its name, and text that only looks similar is
//! passed over.
//!
//! Not a goal: averages that tools print at their end, which are computed here; other locales than C and
//! English.

use super::clock::{self, Day};
use super::error::{Error, Place};
use super::lines::Line;
use super::meaning;
use super::series::{Pace, Samples, Series};
use domain::time::Nanos;
use std::collections::BTreeMap;

/// The tools whose tables are known.
const TOOLS: [&str; 7] = ["sar", "mpstat", "pidstat", "iostat", "vmstat", "turbostat", "sadf"];

/// Columns whose value says of what a row is.
const KEYS: [&str; 10] = ["CPU", "DEV", "IFACE", "INTR", "FAN", "TEMP", "IN", "BUS", "TTY", "FCHOST"];

/// What a row belongs to.
#[derive(Clone, Debug)]
enum Table {
    /// Rows begin with the time: sar, mpstat, pidstat.
    Timed {
        tool: &'static str,
        header: Vec<String>,
        times: Times,
    },
    /// The line after `avg-cpu:`.
    IostatCpu {
        header: Vec<String>,
    },
    /// A row a device.
    IostatDevices {
        header: Vec<String>,
        fresh: bool,
    },
    Vmstat {
        header: Vec<String>,
    },
    Turbostat {
        header: Vec<String>,
        fresh: bool,
    },
    Sadf {
        header: Vec<String>,
        key: Option<usize>,
    },
}

/// When the sample before and this one were taken.
#[derive(Clone, Copy, Debug, Default)]
struct Times {
    before: Option<i64>,
    now: Option<i64>,
}

impl Times {
    /// With a row of this time; the rows of one time share an interval.
    fn row(self, at: i64) -> Self {
        if self.now == Some(at) { self } else { Self { before: self.now.or(self.before), now: Some(at) } }
    }

    fn interval(self) -> Option<Nanos> {
        let (now, before) = self.now.zip(self.before)?;
        (now > before).then(|| Nanos::new(now.abs_diff(before)))
    }
}

/// Reads lines into samples, each tool's apart.
pub struct Tables {
    pace: Pace,
    only: Option<&'static str>,
    table: Option<Table>,
    samples: BTreeMap<&'static str, Samples<'static>>,
    /// What sysstat's first line and turbostat's said of the machine.
    pub facts: BTreeMap<String, String>,
    cpus: Option<u32>,
    day: Day,
    /// When iostat and vmstat said that their samples were taken.
    stated: Times,
    /// Whether iostat's sample was begun by its CPUs.
    cpu_seen: bool,
    turbostat_interval: Option<Nanos>,
}

impl Tables {
    /// Of all tools, or of one.
    pub fn new(pace: Pace, only: Option<&'static str>) -> Self {
        Self {
            pace,
            only,
            table: None,
            samples: BTreeMap::new(),
            facts: BTreeMap::new(),
            cpus: None,
            day: Day::default(),
            stated: Times::default(),
            cpu_seen: false,
            turbostat_interval: None,
        }
    }

    /// Takes a line.
    ///
    /// # Errors
    /// Where a bound is exceeded.
    pub fn line(&mut self, line: &Line<'_>) -> Result<(), Error> {
        let text = line.text.trim();
        if text.is_empty() {
            // vmstat and turbostat print none within a table; sysstat ends one with it.
            self.table =
                self.table.take().filter(|t| matches!(t, Table::Turbostat { .. } | Table::Vmstat { .. }));
            return Ok(());
        }
        if text.contains(';') {
            return self.sadf(line.place, text);
        }
        let words: Vec<&str> = text.split_whitespace().collect();
        if self.banner(text, &words) {
            return Ok(());
        }
        if let Some(table) = self.header(&words) {
            self.table = Some(table);
            return Ok(());
        }
        let Some(table) = self.table.take() else { return self.stated(text) };
        self.table = match table {
            Table::Timed { tool, header, times } => self.timed(line.place, tool, header, times, &words)?,
            Table::IostatCpu { header } => self.iostat_cpu(line.place, &header, &words)?,
            Table::IostatDevices { header, fresh } => {
                self.iostat_device(line.place, header, fresh, &words)?
            }
            Table::Vmstat { header } => self.vmstat(line.place, header, &words)?,
            Table::Turbostat { header, fresh } => self.turbostat(line.place, header, fresh, &words)?,
            Table::Sadf { .. } => None,
        };
        Ok(())
    }

    /// All that was sampled, by tool.
    ///
    /// # Errors
    /// Never in fact: what is joined in memory has nowhere to fail.
    pub fn finish(self) -> Result<Vec<(&'static str, Series)>, Error> {
        let mut all = Vec::new();
        for (tool, samples) in self.samples {
            all.extend(samples.finish()?.map(|series| (tool, series)));
        }
        Ok(all)
    }

    /// Whether any sample was seen.
    pub fn count(&self) -> u64 {
        self.samples.values().map(Samples::count).sum()
    }

    fn of(&mut self, tool: &'static str) -> &mut Samples<'static> {
        let pace = self.pace;
        self.samples.entry(tool).or_insert_with(|| {
            let mut samples = Samples::joined(tool, pace);
            if matches!(tool, "iostat" | "vmstat") {
                samples.first_is_since_boot();
            }
            samples
        })
    }

    /// `Linux 6.1.0-18-amd64 (db1) 11/21/26 _x86_64_ (2 CPU)`, and what turbostat says before its table.
    fn banner(&mut self, text: &str, words: &[&str]) -> bool {
        if let Some(rest) = text.strip_prefix("turbostat version ") {
            let version = rest.split_whitespace().next().unwrap_or(rest);
            self.facts.insert("turbostat".to_owned(), version.to_owned());
            return true;
        }
        if let ["Measurement", "interval:", seconds, ..] = words {
            let span = seconds.parse::<f64>().ok().filter(|s| (0.0..1e6).contains(s));
            self.turbostat_interval = span.map(|s| Nanos::new((s * 1e9) as u64)).filter(|s| *s > Nanos::ZERO);
            return true;
        }
        let ["Linux", release, host, date, rest @ ..] = words else { return false };
        let Some(host) = host.strip_prefix('(').and_then(|h| h.strip_suffix(')')) else { return false };
        let mut fact = |name: &str, value: &str| drop(self.facts.insert(name.to_owned(), value.to_owned()));
        fact("kernel", release);
        fact("host", host);
        fact("date", date);
        if let Some(machine) = rest.first() {
            fact("architecture", machine.trim_matches('_'));
        }
        if let Some(count) = rest.get(1).and_then(|c| c.trim_start_matches('(').parse::<u32>().ok()) {
            fact("cpus", &count.to_string());
            self.cpus = Some(count);
        }
        self.day = Day::of(clock::date(date).unwrap_or(0));
        true
    }

    fn header(&mut self, words: &[&str]) -> Option<Table> {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let wanted = |tool: &str| self.only.is_none_or(|only| only == tool);
        match words {
            ["avg-cpu:", rest @ ..] if wanted("iostat") => {
                return Some(Table::IostatCpu { header: owned(rest) });
            }
            ["Device" | "Device:", rest @ ..]
                if wanted("iostat") && rest.iter().any(|w| *w == "tps" || w.ends_with("/s")) =>
            {
                let fresh = !std::mem::take(&mut self.cpu_seen);
                return Some(Table::IostatDevices { header: owned(rest), fresh });
            }
            ["r", "b", "swpd", ..] | ["r", "b", "w", "swpd", ..] if wanted("vmstat") => {
                return Some(Table::Vmstat { header: owned(words) });
            }
            _ => {}
        }
        let turbostat =
            |w: &&str| matches!(*w, "Avg_MHz" | "Bzy_MHz" | "PkgWatt" | "Busy%" | "%Busy" | "%c0");
        if words.len() >= 2
            && words.iter().any(turbostat)
            && words.iter().all(|w| !is_figure(w))
            && wanted("turbostat")
        {
            return Some(Table::Turbostat { header: owned(words), fresh: true });
        }
        let words = words.strip_prefix(&["#"]).unwrap_or(words);
        let (seconds, rest) =
            if words.first() == Some(&"Time") { (None, &words[1..]) } else { timed(words)? };
        let is_name =
            |w: &&str| w.starts_with('%') || w.ends_with("/s") || KNOWN.contains(w) || KEYS.contains(w);
        if rest.len() < 2
            || !rest.iter().any(is_name)
            || rest.iter().any(|w| is_figure(w))
            || rest.contains(&"RESTART")
        {
            return None;
        }
        let place = |name: &str| rest.iter().position(|w| *w == name);
        let tool = match () {
            () if rest.contains(&"PID") || rest.contains(&"TGID") => "pidstat",
            () if rest[0] == "CPU"
                && place("%irq").zip(place("%steal")).is_some_and(|(irq, steal)| irq < steal) =>
            {
                "mpstat"
            }
            () if rest[0] == "CPU" && rest.contains(&"intr/s") => "mpstat",
            () => "sar",
        };
        if !wanted(tool) {
            return None;
        }
        // A table of the same activity goes on; another one begins on the first day.
        if !matches!(&self.table, Some(Table::Timed { header, .. }) if *header == owned(rest))
            && tool == "sar"
        {
            self.day.anew();
        }
        let before = seconds.map(|seconds| self.day.moment(seconds));
        Some(Table::Timed { tool, header: owned(rest), times: Times { before, now: None } })
    }

    fn timed(
        &mut self,
        place: Place,
        tool: &'static str,
        header: Vec<String>,
        times: Times,
        words: &[&str],
    ) -> Result<Option<Table>, Error> {
        let stated = words.first().and_then(|word| word.parse::<i64>().ok()).filter(|s| *s > 1_000_000_000);
        let (at, fields) = match (timed(words), stated) {
            (Some((Some(seconds), fields)), _) => (self.day.moment(seconds), fields),
            (_, Some(epoch)) => (epoch.saturating_mul(1_000_000_000), &words[1..]),
            _ => return Ok(None),
        };
        let Some(row) = Row::of(&header, fields) else { return Ok(None) };
        let times = times.row(at);
        let cpus = self.cpus;
        let samples = self.of(tool);
        samples.begin(place, Some(at), times.interval())?;
        for (name, value) in row.values(&header) {
            let shape = || row.shape(tool, name, cpus);
            samples.put(place, &row.object, name, value, &shape)?;
        }
        Ok(Some(Table::Timed { tool, header, times }))
    }

    /// The line that iostat's `-t` prints before a sample.
    fn stated(&mut self, text: &str) -> Result<(), Error> {
        if let Some(at) = clock::moment(text).filter(|_| text.contains(':')) {
            self.stated = self.stated.row(at);
        }
        Ok(())
    }

    fn begin_iostat(&mut self, place: Place) -> Result<(), Error> {
        let Times { now, .. } = self.stated;
        let interval = self.stated.interval();
        self.of("iostat").begin(place, now, interval)
    }

    fn iostat_cpu(
        &mut self,
        place: Place,
        header: &[String],
        words: &[&str],
    ) -> Result<Option<Table>, Error> {
        let Some(values) = figures(words).filter(|values| values.len() == header.len()) else {
            return Ok(None);
        };
        self.begin_iostat(place)?;
        self.cpu_seen = true;
        let cpus = self.cpus;
        for (name, value) in header.iter().zip(values) {
            self.of("iostat")
                .put(place, "all", name, value, &|| meaning::cpu("iostat", "all", name, cpus))?;
        }
        Ok(None)
    }

    fn iostat_device(
        &mut self,
        place: Place,
        header: Vec<String>,
        fresh: bool,
        words: &[&str],
    ) -> Result<Option<Table>, Error> {
        let Some((device, fields)) = words.split_first() else { return Ok(None) };
        let Some(values) = figures(fields).filter(|values| values.len() == header.len()) else {
            return Ok(None);
        };
        if fresh {
            self.begin_iostat(place)?;
        }
        for (name, value) in header.iter().zip(values) {
            // Sums since the sample before say what the rates say.
            if !matches!(name.as_str(), "kB_read" | "kB_wrtn" | "kB_dscd" | "MB_read" | "MB_wrtn" | "MB_dscd")
            {
                self.of("iostat")
                    .put(place, device, name, value, &|| meaning::disk("iostat", device, name))?;
            }
        }
        Ok(Some(Table::IostatDevices { header, fresh: false }))
    }

    fn vmstat(&mut self, place: Place, header: Vec<String>, words: &[&str]) -> Result<Option<Table>, Error> {
        let count = header.iter().take_while(|name| !is_zone(name)).count();
        if words.len() < count {
            return Ok(None);
        }
        let Some(values) = figures(&words[..count]) else { return Ok(None) };
        let at = clock::moment(&words[count..].join(" "));
        self.stated = at.map_or(self.stated, |at| self.stated.row(at));
        let interval = at.and(self.stated.interval());
        let samples = self.of("vmstat");
        samples.begin(place, at, interval)?;
        for (name, value) in header.iter().zip(values) {
            let shape = || match name.as_str() {
                "us" | "sy" | "id" | "wa" | "st" | "gu" => meaning::cpu("vmstat", "all", name, None),
                "bi" | "bo" | "si" | "so" => meaning::other("vmstat", "", &format!("{name}_kB/s"), true),
                "in" | "cs" => meaning::other("vmstat", "", &format!("{name}/s"), true),
                _ => meaning::other("vmstat", "", name, true),
            };
            samples.put(place, "", name, value, &shape)?;
        }
        Ok(Some(Table::Vmstat { header }))
    }

    fn turbostat(
        &mut self,
        place: Place,
        header: Vec<String>,
        fresh: bool,
        words: &[&str],
    ) -> Result<Option<Table>, Error> {
        const PLACES: [&str; 10] =
            ["Package", "Die", "Node", "Core", "CPU", "APIC", "X2APIC", "pk", "cor", "cr"];
        let is_place = |name: &str| PLACES.contains(&name);
        // In its oldest form the sum of all stands first, with blanks for its places.
        let places = header.iter().filter(|name| is_place(name)).count();
        let is_sum = fresh && header.iter().any(|name| name == "%c0") && words.len() + places == header.len();
        let full: Vec<&str> =
            std::iter::repeat_n("-", if is_sum { places } else { 0 }).chain(words.iter().copied()).collect();
        let words = full.as_slice();
        let fits = words.len() <= header.len() && words.len() >= 2;
        let field = |name: &str| header.iter().position(|h| h == name).and_then(|i| words.get(i)).copied();
        let readable = words.iter().all(|w| is_figure(w) || matches!(*w, "-" | "–"));
        if !fits || !readable {
            return Ok(None);
        }
        let cpu = field("CPU").unwrap_or("-");
        let number = |name: &str| field(name).and_then(|text| text.parse::<f64>().ok());
        if fresh || matches!(cpu, "-" | "–") {
            let at = number("Time_Of_Day_Seconds").map(|s| (s * 1e9) as i64).filter(|at| *at > 0);
            let interval = self.turbostat_interval;
            self.of("turbostat").begin(place, at, interval)?;
        }
        let all = matches!(cpu, "-" | "–");
        let object = if all { "all".to_owned() } else { format!("cpu{cpu}") };
        let package = field("Package").or(field("pk")).filter(|p| is_figure(p) && !all).map(str::to_owned);
        let samples = self.of("turbostat");
        for (name, text) in header.iter().zip(words) {
            let Some(value) = text.parse::<f64>().ok().filter(|v| v.is_finite()) else { continue };
            if is_place(name) || name == "Time_Of_Day_Seconds" || name == "usec" {
                continue;
            }
            let (name, scale) = as_turbostat_calls_it(name);
            let value = value * scale;
            let shape = || match name {
                "Bzy_MHz" => meaning::frequency(cpu),
                "PkgWatt" | "CorWatt" | "GFXWatt" | "RAMWatt" | "SysWatt" => {
                    meaning::watts("turbostat", name, if all { None } else { package.as_deref() })
                }
                _ => meaning::other("turbostat", if all { "" } else { &object }, name, all),
            };
            samples.put(place, &object, name, value, &shape)?;
        }
        Ok(Some(Table::Turbostat { header, fresh: false }))
    }

    /// A line of `sadf -d`, its header or a row.
    fn sadf(&mut self, place: Place, text: &str) -> Result<(), Error> {
        if self.only.is_some_and(|only| only != "sadf") {
            return Ok(());
        }
        let fields: Vec<&str> = text.split(';').map(str::trim).collect();
        if let ["# hostname" | "#hostname", "interval", "timestamp", names @ ..] = fields.as_slice() {
            let header: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let key = names.iter().position(|name| KEYS.contains(name));
            self.table = Some(Table::Sadf { header, key });
            return Ok(());
        }
        let Some(Table::Sadf { header, key }) = self.table.take() else { return Ok(()) };
        let [host, interval, time, values @ ..] = fields.as_slice() else { return Ok(()) };
        let (Some(at), true) = (clock::moment(time), values.len() == header.len()) else {
            return Ok(());
        };
        let interval =
            interval.parse::<u64>().ok().filter(|s| (1..1_000_000).contains(s)).map(Nanos::from_secs);
        self.facts.insert("host".to_owned(), (*host).to_owned());
        let samples = self.of("sadf");
        samples.begin(place, Some(at), interval)?;
        let object = key.and_then(|key| values.get(key)).copied().unwrap_or("");
        let row = Row {
            object: object.to_owned(),
            kind: key.map_or("", |key| header[key].as_str()).to_owned(),
            fields: values,
            key,
        };
        for (name, value) in row.values(&header) {
            let shape = || row.shape("sadf", name, None);
            samples.put(place, &row.object, name, value, &shape)?;
        }
        self.table = Some(Table::Sadf { header, key });
        Ok(())
    }
}

/// Names in headers that neither begin nor end with a sign of their own.
const KNOWN: [&str; 6] = ["MHz", "wghMHz", "kbmemfree", "runq-sz", "dentunusd", "totsck"];

/// One row of a table.
struct Row<'a> {
    /// Of what: a CPU, a device, a process; empty for the whole machine.
    object: String,
    /// The name of the column that says so.
    kind: String,
    fields: &'a [&'a str],
    key: Option<usize>,
}

impl<'a> Row<'a> {
    fn of(header: &[String], fields: &'a [&'a str]) -> Option<Self> {
        let place = |name: &str| header.iter().position(|h| h == name);
        if let Some(command) = place("Command") {
            // A command may hold blanks, and stands last.
            if fields.len() <= command {
                return None;
            }
            // With `-t` a row is of a process, or of one of its threads, whose name is drawn as a branch.
            let stated = |column: &str| {
                place(column).and_then(|at| fields.get(at).copied()).filter(|text| is_figure(text))
            };
            let name = fields[command].trim_start_matches("|__");
            let object = match (stated("PID").or_else(|| stated("TGID")), stated("TID")) {
                (Some(process), _) => format!("{process}.{name}"),
                (None, Some(thread)) => format!("thread.{thread}.{name}"),
                (None, None) => return None,
            };
            return Some(Self { object, kind: "PID".to_owned(), fields: &fields[..command], key: None });
        }
        let key = header.iter().position(|name| KEYS.contains(&name.as_str()) || name == "FILESYSTEM");
        let figures_fit =
            fields.iter().enumerate().all(|(index, text)| Some(index) == key || is_figure(text));
        if fields.len() != header.len() || !figures_fit {
            return None;
        }
        let object = key.map_or(String::new(), |key| fields[key].to_owned());
        Some(Self { object, kind: key.map_or(String::new(), |key| header[key].clone()), fields, key })
    }

    /// The figures with their columns' names.
    fn values<'h>(&self, header: &'h [String]) -> impl Iterator<Item = (&'h str, f64)> {
        let key = self.key;
        let all = header.iter().zip(self.fields).enumerate();
        all.filter_map(move |(index, (name, text))| {
            let is_name = Some(index) == key
                || matches!(name.as_str(), "UID" | "PID" | "TGID" | "TID" | "CPU" | "USER");
            let value = text.parse::<f64>().ok().filter(|v| v.is_finite() && !is_name)?;
            Some((name.as_str(), value))
        })
    }

    fn shape(&self, tool: &str, name: &str, cpus: Option<u32>) -> super::series::Shape {
        match self.kind.as_str() {
            "CPU" if name == "MHz" => {
                meaning::frequency(if self.object == "-1" { "all" } else { &self.object })
            }
            "CPU" => meaning::cpu(tool, &self.object, name, cpus),
            "DEV" if name != "rxkB/s" => meaning::disk(tool, &self.object, name),
            "PID" => meaning::other(tool, &self.object, name, false),
            "IFACE" => meaning::other(tool, &format!("net.{}", self.object), name, true),
            _ => meaning::other(tool, &self.object, name, true),
        }
    }
}

/// The time at the beginning of a row, and what follows it.
fn timed<'a, 'w>(words: &'a [&'w str]) -> Option<(Option<i64>, &'a [&'w str])> {
    let (first, rest) = words.split_first()?;
    let half = rest.first().copied().filter(|word| matches!(*word, "AM" | "PM"));
    let seconds = clock::time_of_day(first, half)?;
    Some((Some(seconds), if half.is_some() { &rest[1..] } else { rest }))
}

fn is_figure(text: &str) -> bool {
    text.parse::<f64>().is_ok_and(f64::is_finite) && text.bytes().any(|b| b.is_ascii_digit())
}

fn figures(words: &[&str]) -> Option<Vec<f64>> {
    words.iter().map(|word| word.parse::<f64>().ok().filter(|v| v.is_finite())).collect()
}

/// vmstat heads the time of its `-t` with the time zone.
fn is_zone(name: &str) -> bool {
    name.len() >= 3 && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'+' || b == b'-')
}

/// The tools that these tables are of.
pub fn tools() -> impl Iterator<Item = &'static str> {
    TOOLS.into_iter()
}

/// The present name of a column of turbostat's oldest form, and what its figure is multiplied by to be of the
/// unit in it.
fn as_turbostat_calls_it(name: &str) -> (&str, f64) {
    match name {
        "%c0" => ("Busy%", 1.0),
        "GHz" => ("Bzy_MHz", 1e3),
        "TSC" => ("TSC_MHz", 1e3),
        "Pkg_W" => ("PkgWatt", 1.0),
        "Cor_W" => ("CorWatt", 1.0),
        "GFX_W" => ("GFXWatt", 1.0),
        "RAM_W" => ("RAMWatt", 1.0),
        other => (other, 1.0),
    }
}
