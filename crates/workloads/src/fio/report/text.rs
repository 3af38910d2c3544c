//! fio's normal output, read line by line: the jobs of a run with what each did.
//!
//! The sizes of what was read and written are there as fio prints them, with three or four digits; requests,
//! times and latencies are whole. Percentiles are those that fio prints, so that several jobs of one name
//! have none.
//!
//! Not a goal: trims, intervals of bandwidth and IOPS, disk statistics, the form of fio 2 (`io=…, runt=…`).
//!
//! Source: `show_thread_status_normal` in fio's stat.c.

use super::super::version;
use super::jobs::{Direction, Job, Latency, Options, Syncs, Totals};
use std::collections::BTreeMap;

/// A bound on the jobs of one run that are kept apart.
const MAX_JOBS: usize = 10_000;

/// A bound on the percentiles of one distribution; fio prints seventeen, and takes twenty.
const MAX_PERCENTILES: usize = 64;

/// What one name of a run did.
pub struct Named {
    /// The jobs' name.
    pub name: String,
    /// What they did together.
    pub totals: Totals,
    /// What the output says of them: `rw`, `bs`, `ioengine`, `iodepth`, `ended`.
    pub facts: BTreeMap<String, String>,
}

/// Which lines follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    #[default]
    Other,
    Read,
    Write,
    Mixed,
    Sync,
}

/// A job whose lines are read.
#[derive(Default)]
struct Open {
    name: String,
    pid: u64,
    jobs: u64,
    error: i32,
    ended: String,
    read: Option<Direction>,
    write: Option<Direction>,
    mixed: Option<Direction>,
    sync: Option<Latency>,
    cpu: Option<(f64, f64, u64)>,
}

/// Reads the normal output of runs of fio.
#[derive(Default)]
pub struct Reader {
    version: Option<String>,
    /// What the lines before the results say of each job.
    defined: BTreeMap<String, BTreeMap<String, String>>,
    jobs: Vec<Open>,
    part: Part,
    /// The distribution whose percentiles follow, and how many nanoseconds its unit has.
    percentiles: Option<(Part, f64)>,
    /// Whether the summary of a report was seen: what follows is of a later one, or of another run.
    is_summed_up: bool,
    /// How many reports of jobs were replaced by later ones of the same run.
    replaced: usize,
}

/// What a line was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Nothing of fio's.
    Foreign,
    /// One of this run.
    Taken,
    /// The first of another run: the one before has to be taken out with [`Reader::finish`], and the line
    /// given again.
    Other,
}

impl Reader {
    /// Takes a line.
    pub fn line(&mut self, text: &str) -> Line {
        let text = text.trim();
        if text.starts_with("fio-") && text.len() < 40 && text[4..].starts_with(|c: char| c.is_ascii_digit())
        {
            return self.begin(|reader| reader.version = Some(text.to_owned()));
        }
        if let Some((name, facts)) = definition(text) {
            return self.begin(|reader| {
                if reader.defined.len() < MAX_JOBS {
                    reader.defined.insert(name, facts);
                }
            });
        }
        if let Some(job) = header(text) {
            return self.header(job);
        }
        if self.jobs.is_empty() {
            return Line::Foreign;
        }
        self.within(text)
    }

    /// A line that stands before the results: of this run where there are none yet.
    fn begin(&mut self, take: impl FnOnce(&mut Self)) -> Line {
        if !self.jobs.is_empty() {
            return Line::Other;
        }
        take(self);
        Line::Taken
    }

    fn header(&mut self, job: Open) -> Line {
        let known = self.jobs.iter().position(|known| known.pid == job.pid && known.name == job.name);
        self.part = Part::Other;
        self.percentiles = None;
        match known {
            // With `--status-interval` each job is reported again and again; the last one counts.
            Some(index) => {
                self.replaced += 1;
                self.jobs.remove(index);
            }
            None if self.is_summed_up => return Line::Other,
            None if self.jobs.len() >= MAX_JOBS => return Line::Taken,
            None => {}
        }
        self.jobs.push(job);
        Line::Taken
    }

    fn within(&mut self, text: &str) -> Line {
        let Some(job) = self.jobs.last_mut() else { return Line::Foreign };
        if let Some((part, direction)) = direction(text) {
            self.part = part;
            self.percentiles = None;
            match part {
                Part::Read => job.read = Some(direction),
                Part::Write => job.write = Some(direction),
                Part::Mixed => job.mixed = Some(direction),
                Part::Sync | Part::Other => {}
            }
            return Line::Taken;
        }
        if text.starts_with('|') {
            if let Some((part, unit_ns)) = self.percentiles
                && let Some(latency) = job.latency(part)
                && latency.percentile.len() < MAX_PERCENTILES
            {
                latency.percentile.extend(percentiles(text, unit_ns));
            }
            return Line::Taken;
        }
        self.percentiles = None;
        if text.starts_with("fsync/") {
            self.part = Part::Sync;
            job.sync = Some(Latency::default());
        } else if let Some(unit_ns) = unit_of(text, "clat percentiles").filter(|_| self.part != Part::Sync) {
            self.percentiles = Some((self.part, unit_ns));
        } else if let Some(unit_ns) = unit_of(text, "sync percentiles").filter(|_| self.part == Part::Sync) {
            self.percentiles = Some((Part::Sync, unit_ns));
        } else if let Some(mean) = mean_ns(text, "clat").filter(|_| self.part != Part::Sync) {
            let part = self.part;
            job.latency(part).into_iter().for_each(|latency| latency.mean = mean);
        } else if let Some(mean) = mean_ns(text, "sync").filter(|_| self.part == Part::Sync) {
            job.latency(Part::Sync).into_iter().for_each(|latency| latency.mean = mean);
        } else if let Some(cpu) = cpu(text) {
            job.cpu = Some(cpu);
        } else if let Some(issued) = issued(text) {
            job.count(&issued);
        } else if text.starts_with("Run status group") || text.starts_with("Disk stats (") {
            self.is_summed_up = true;
        } else if !is_of_fio(text) {
            return Line::Foreign;
        }
        Line::Taken
    }

    /// The jobs of the run by name, in the order of the output, and how many reports later ones replaced.
    pub fn finish(&mut self) -> (Vec<Named>, String, usize) {
        let run = std::mem::take(self);
        let version = run.version.unwrap_or_else(|| "fio".to_owned());
        // Up to 3.11 it does not say of how much time a group's CPU is a share.
        let counts_cpu = version::parse(&version).is_some_and(|version| version >= (3, 12));
        let mut all: Vec<Named> = Vec::new();
        for job in run.jobs {
            let index = all.iter().position(|named| named.name == job.name).unwrap_or_else(|| {
                let mut facts = run.defined.get(&job.name).cloned().unwrap_or_default();
                facts.insert("ended".into(), job.ended.clone());
                all.push(Named { name: job.name.clone(), totals: Totals::default(), facts });
                all.len() - 1
            });
            let ioengine = all[index].facts.get("ioengine").cloned();
            all[index].totals.add(Job { options: Options { ioengine }, ..job.into_job(counts_cpu) });
        }
        (all, version, run.replaced)
    }

    /// Whether a run is being read that has results.
    pub fn is_open(&self) -> bool {
        !self.jobs.is_empty()
    }
}

impl Open {
    fn latency(&mut self, part: Part) -> Option<&mut Latency> {
        match part {
            Part::Read => self.read.as_mut().map(|way| &mut way.clat_ns),
            Part::Write => self.write.as_mut().map(|way| &mut way.clat_ns),
            Part::Mixed => self.mixed.as_mut().map(|way| &mut way.clat_ns),
            Part::Sync => self.sync.as_mut(),
            Part::Other => None,
        }
    }

    /// `total=9471,4254,0,116`: reads, writes, trims, syncs; of a mix, all in the first.
    fn count(&mut self, issued: &[u64]) {
        let of = |index: usize| issued.get(index).copied().unwrap_or(0);
        let ways = [(&mut self.read, of(0)), (&mut self.write, of(1)), (&mut self.mixed, of(0))];
        for (way, count) in ways {
            if let Some(way) = way {
                way.total_ios = count;
                way.clat_ns.samples = if way.clat_ns.mean > 0.0 { count } else { 0 };
            }
        }
        if let Some(sync) = &mut self.sync {
            sync.samples = of(3);
        }
    }

    fn into_job(self, counts_cpu: bool) -> Job {
        let ways = [&self.read, &self.write, &self.mixed];
        let runtime_ms = ways.into_iter().flatten().map(|way| way.runtime).max().unwrap_or(0);
        let cpu = self.cpu.filter(|_| counts_cpu || self.jobs == 1);
        Job {
            jobname: self.name,
            error: self.error,
            // CPU is a share of the time of all jobs of a group together.
            job_runtime: runtime_ms.saturating_mul(self.jobs),
            usr_cpu: cpu.map(|(user, ..)| user),
            sys_cpu: cpu.map(|(_, system, _)| system),
            ctx: self.cpu.map(|(.., ctx)| ctx),
            read: self.read,
            write: self.write,
            mixed: self.mixed,
            sync: self.sync.map(|lat_ns| Syncs { lat_ns }),
            ..Job::default()
        }
    }
}

/// Lines of a report that say nothing that is kept.
fn is_of_fio(text: &str) -> bool {
    const BEGIN: [&str; 17] = [
        "slat (",
        "clat (",
        "lat (",
        "lat percentiles",
        "bw (",
        "iops ",
        "IO depths",
        "submit ",
        "complete ",
        "latency ",
        "sync (",
        "READ: bw=",
        "WRITE: bw=",
        "TRIM: bw=",
        "MIXED: bw=",
        "trim: IOPS=",
        "clat prio",
    ];
    BEGIN.iter().any(|begin| text.starts_with(begin))
}

/// `mixed: (g=0): rw=randrw, bs=(R) 4096B-4096B, (W) …, ioengine=libaio, iodepth=8`.
fn definition(text: &str) -> Option<(String, BTreeMap<String, String>)> {
    let (name, rest) = text.split_once(": (g=")?;
    let (_, rest) = rest.split_once("): ")?;
    rest.strip_prefix("rw=")?;
    let value = |key: &str| {
        let (_, value) = rest.split_once(&format!("{key}="))?;
        Some(value.split(',').next()?.trim().to_owned())
    };
    let facts =
        ["rw", "ioengine", "iodepth"].into_iter().filter_map(|key| Some((key.to_owned(), value(key)?)));
    let block = value("bs").map(|bs| bs.trim_start_matches("(R) ").to_owned());
    Some((name.to_owned(), facts.chain(block.map(|bs| ("bs".to_owned(), bs))).collect()))
}

/// `mixed: (groupid=0, jobs=4): err= 0: pid=12170: Tue Nov 24 22:06:15 2026`.
fn header(text: &str) -> Option<Open> {
    let (name, rest) = text.split_once(": (groupid=")?;
    let (_, rest) = rest.split_once("jobs=")?;
    let (jobs, rest) = rest.split_once("): err=")?;
    let (error, rest) = rest.split_once("pid=")?;
    let (pid, ended) = rest.split_once(": ").unwrap_or((rest, ""));
    let error = error.trim().split(|c: char| !c.is_ascii_digit() && c != '-').next()?;
    Some(Open {
        name: name.to_owned(),
        pid: pid.trim().parse().ok()?,
        jobs: jobs.trim().parse().ok()?,
        error: error.parse().ok()?,
        ended: ended.trim().to_owned(),
        ..Open::default()
    })
}

/// `read: IOPS=47.1k, BW=184MiB/s (193MB/s)(37.0MiB/201msec); 0 zone resets`.
fn direction(text: &str) -> Option<(Part, Direction)> {
    let (way, rest) = text.split_once(": IOPS=")?;
    let part = match way.trim() {
        "read" => Part::Read,
        "write" => Part::Write,
        "mixed" => Part::Mixed,
        _ => return None,
    };
    let rest = rest.split(';').next()?.trim_end();
    let (_, last) = rest.strip_suffix("msec)")?.rsplit_once('(')?;
    let (size, ms) = last.split_once('/')?;
    let direction =
        Direction { io_bytes: bytes(size)?, runtime: ms.trim().parse().ok()?, ..Direction::default() };
    Some((part, direction))
}

/// `37.0MiB`, `1856KiB`, `4096B`, `66MB`.
fn bytes(text: &str) -> Option<u64> {
    let split = text.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = text.split_at(split);
    let number: f64 = number.trim().parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0)?;
    let (letter, base) = match unit.strip_suffix("iB") {
        Some(letter) => (letter, 1024_f64),
        None => (unit.strip_suffix('B')?, 1000.0),
    };
    let power = match letter.to_ascii_uppercase().as_str() {
        "" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        "P" => 5,
        _ => return None,
    };
    Some((number * base.powi(power)).round() as u64)
}

/// Of `clat percentiles (usec):` how many nanoseconds the unit has.
fn unit_of(text: &str, title: &str) -> Option<f64> {
    let unit = text.strip_prefix(title)?.trim_start().strip_prefix('(')?;
    nanoseconds(unit.split(')').next()?)
}

fn nanoseconds(unit: &str) -> Option<f64> {
    Some(match unit {
        "nsec" => 1.0,
        "usec" => 1e3,
        "msec" => 1e6,
        "sec" => 1e9,
        _ => return None,
    })
}

/// `clat (usec): min=24, max=4668, avg=435.98, stdev=258.87`: the mean.
fn mean_ns(text: &str, title: &str) -> Option<f64> {
    let rest = text.strip_prefix(title)?.trim_start().strip_prefix('(')?;
    let (unit, rest) = rest.split_once("):")?;
    let (_, mean) = rest.split_once("avg=")?;
    let mean: f64 = number(mean.split(',').next()?.trim())?;
    Some(mean * nanoseconds(unit)?)
}

/// `435.98`, `11206k`.
fn number(text: &str) -> Option<f64> {
    let (digits, scale) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1e3),
        None => text.strip_suffix('M').map_or((text, 1.0), |digits| (digits, 1e6)),
    };
    digits.parse().ok().filter(|n: &f64| n.is_finite() && *n >= 0.0).map(|n: f64| n * scale)
}

/// `|  1.00th=[  145],  5.00th=[  245],`: shares as the JSON has them, and nanoseconds.
fn percentiles(text: &str, unit_ns: f64) -> impl Iterator<Item = (String, u64)> {
    text.trim_start_matches('|').split("],").filter_map(move |one| {
        let (share, value) = one.split_once("th=[")?;
        let share: f64 = share.trim().parse().ok().filter(|s| (0.0..=100.0).contains(s))?;
        let value: u64 = value.trim().trim_end_matches(']').trim().parse().ok()?;
        Some((format!("{share:.6}"), (value as f64 * unit_ns) as u64))
    })
}

/// `cpu          : usr=1.38%, sys=10.25%, ctx=3911, majf=0, minf=55`.
fn cpu(text: &str) -> Option<(f64, f64, u64)> {
    let rest = text.strip_prefix("cpu")?.trim_start().strip_prefix(':')?;
    let value = |key: &str| {
        let (_, value) = rest.split_once(key)?;
        Some(value.split(',').next()?.trim().trim_end_matches('%').to_owned())
    };
    Some((number(&value("usr=")?)?, number(&value("sys=")?)?, value("ctx=")?.parse().ok()?))
}

/// `issued rwts: total=9471,4254,0,0 short=0,0,0,0 dropped=0,0,0,0`.
fn issued(text: &str) -> Option<Vec<u64>> {
    let (_, rest) = text.strip_prefix("issued rwt")?.split_once("total=")?;
    rest.split_whitespace().next()?.split(',').map(|count| count.parse().ok()).collect()
}
