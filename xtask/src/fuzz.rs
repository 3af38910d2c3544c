//! `cargo xtask fuzz PARSER`: the readers of other tools' files, against damaged ones, on the stable
//! compiler.
//!
//! Inputs are mutated from the fixtures and from what earlier runs kept. A stable compiler gives no coverage,
//! so what is interesting is told by what the reader says: an input that leads to a new kind of error, or to
//! a new number of results, metrics and samples, is bred from, and kept where it is small. A panic, an input
//! that takes longer than [`SLOW`], and samples that differ between two readings are faults; their input goes
//! to `fuzz/faults`. Same seed and corpus: the same inputs.
//!
//! Not a goal: what coverage-guided fuzzers find by comparing operands; the tokens of the fixtures make up
//! for some of it.

use domain::Nanos;
use domain::bench::{Sink, SinkError};
use domain::rng::{Rng, Seed};
use domain::trace::TraceHead;
use events::Facts;
use events::foreign::{Converted, Error as ForeignError, converter, converter_naming};
use parse::import::{Kind, Pace, read, recognise, stream};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// An input that takes longer, of CPU time, is a fault: all are smaller than [`MAX_INPUT`].
const SLOW: Duration = Duration::from_secs(2);

/// A bound on inputs.
const MAX_INPUT: usize = 64 << 10;

/// A bound on what is bred from.
const MAX_POOL: usize = 2000;

/// What is kept in the repository: files not larger than this, and at most so many a parser.
const KEPT_BYTES: usize = 2048;
const MAX_KEPT: usize = 24;

/// The parsers, by the names of `flyball import --as`; `any` asks the recogniser.
pub fn parsers() -> Vec<&'static str> {
    [vec!["any"], Kind::names()].concat()
}

/// Runs one parser, or all, each for so long of wall time, as many at once as there are CPUs; what is wrong
/// comes back as lines. Without a seed it is one that no run before had.
pub fn run(parser: &str, span: Duration, seed: Option<u64>) -> Result<Vec<String>, Box<dyn Error>> {
    let known = parsers();
    let chosen: Vec<&str> = known.iter().copied().filter(|name| parser == "all" || parser == *name).collect();
    if chosen.is_empty() {
        return Err(format!("there is no parser `{parser}`; there are all, {}", known.join(", ")).into());
    }
    let account = Account::read()?;
    let seed = seed.unwrap_or_else(|| account.inputs());
    let (account, left) = (Mutex::new(account), Mutex::new(chosen.into_iter()));
    let next = || left.lock().ok()?.next();
    let one_thread = || -> Result<Vec<String>, String> {
        let mut problems = Vec::new();
        while let Some(name) = next() {
            problems.extend(fuzzed(name, span, seed, &account).map_err(|error| format!("{name}: {error}"))?);
        }
        Ok(problems)
    };
    // What is caught is reported here, and not by the usual hook a thousand times.
    std::panic::set_hook(Box::new(|_| {}));
    let threads = cpus();
    let ended: Vec<Result<Vec<String>, String>> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(one_thread)).collect();
        running
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|_| Err("the fuzzer panicked".to_owned())))
            .collect()
    });
    drop(std::panic::take_hook());
    let problems: Result<Vec<Vec<String>>, String> = ended.into_iter().collect();
    Ok(problems?.concat())
}

/// Runs one parser, and adds what it had to the account.
fn fuzzed(
    name: &str,
    span: Duration,
    seed: u64,
    account: &Mutex<Account>,
) -> Result<Vec<String>, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().ok_or("xtask lies in the workspace")?;
    let mut target = Target::new(root, name, seed)?;
    let problems = target.run(span)?;
    account.lock().map_err(|_| "another thread panicked")?.add(name, &target)?;
    Ok(problems)
}

/// How many parsers run at once.
fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1))
}

/// Runs all parsers for so long together, from a seed that no run before had.
pub fn run_all_for(span: Duration) -> Result<Vec<String>, Box<dyn Error>> {
    let rounds = u32::try_from(parsers().len())?.div_ceil(cpus());
    run("all", span / rounds, None)
}

/// `fuzz/account.json`: what all runs together have had of CPU time, by parser.
#[derive(Default, Serialize, Deserialize)]
pub struct Account {
    parsers: BTreeMap<String, Entry>,
}

#[derive(Default, Serialize, Deserialize)]
struct Entry {
    cpu_seconds: f64,
    inputs: u64,
}

impl Account {
    fn path() -> PathBuf {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/account.json"))
    }

    pub fn read() -> Result<Self, Box<dyn Error>> {
        match fs::read_to_string(Self::path()) {
            Ok(text) => Ok(serde_json::from_str(&text)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error.into()),
        }
    }

    fn add(&mut self, name: &str, target: &Target) -> Result<(), Box<dyn Error>> {
        let entry = self.parsers.entry(name.to_owned()).or_default();
        entry.cpu_seconds = ((entry.cpu_seconds + target.cpu.as_secs_f64()) * 10.0).round() / 10.0;
        entry.inputs += target.inputs;
        fs::write(Self::path(), serde_json::to_string_pretty(self)? + "\n")?;
        Ok(())
    }

    pub fn cpu_seconds(&self) -> u64 {
        self.parsers.values().map(|entry| entry.cpu_seconds).sum::<f64>() as u64
    }

    fn inputs(&self) -> u64 {
        self.parsers.values().map(|entry| entry.inputs).sum()
    }

    pub fn in_words(&self) -> String {
        let least = self.parsers.values().map(|entry| entry.cpu_seconds).fold(f64::INFINITY, f64::min);
        let (count, inputs) = (self.parsers.len(), self.inputs());
        format!("{inputs} inputs to {count} readers in all runs, each at least {least:.0} s of CPU time")
    }
}

/// What this thread has had of a CPU: others on the machine make no input slow.
fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

struct Target {
    name: &'static str,
    folder: PathBuf,
    faults: PathBuf,
    rng: Rng,
    pool: Vec<Vec<u8>>,
    signatures: BTreeSet<String>,
    kept: usize,
    inputs: u64,
    cpu: Duration,
}

impl Target {
    fn new(root: &Path, name: &str, seed: u64) -> Result<Self, Box<dyn Error>> {
        let name = parsers().into_iter().find(|n| *n == name).ok_or("it was looked up")?;
        let folder = root.join("fuzz/corpus").join(name);
        let mut pool = files(&root.join("fixtures/tools"))?;
        // What is not of its kind is refused at its first bytes, and nothing is learnt of the rest.
        pool.retain(|seed| understood(name, seed));
        pool.extend(files(&folder)?);
        let kept = if folder.is_dir() { fs::read_dir(&folder)?.count() } else { 0 };
        let rng = Seed(seed).stream(name);
        let faults = root.join("fuzz/faults");
        let signatures = BTreeSet::new();
        Ok(Self { name, folder, faults, rng, pool, signatures, kept, inputs: 0, cpu: Duration::ZERO })
    }

    fn run(&mut self, span: Duration) -> Result<Vec<String>, Box<dyn Error>> {
        let (begun, cpu_before) = (Instant::now(), cpu_time());
        let seeds = self.pool.clone();
        let (mut inputs, mut bytes, mut problems) = (0_u64, 0_u64, Vec::new());
        for input in &seeds {
            problems.extend(self.one(input)?);
        }
        let before = self.signatures.len();
        while begun.elapsed() < span && problems.len() < 10 {
            let input = self.mutated();
            inputs += 1;
            bytes += input.len() as u64;
            problems.extend(self.one(&input)?);
        }
        (self.inputs, self.cpu) = (inputs, cpu_time() - cpu_before);
        println!(
            "{}: {inputs} inputs, {} MB in {:.0} s, {} seeds, {} kinds of answer of which {} new, {} faults",
            self.name,
            bytes >> 20,
            begun.elapsed().as_secs_f64(),
            seeds.len(),
            self.signatures.len(),
            self.signatures.len() - before,
            problems.len()
        );
        Ok(problems)
    }

    fn one(&mut self, input: &[u8]) -> Result<Option<String>, Box<dyn Error>> {
        let begun = cpu_time();
        let answer = catch_unwind(AssertUnwindSafe(|| answer(self.name, input)));
        let fault = match answer {
            Err(_) => "it panics".to_owned(),
            Ok(Err(fault)) => fault,
            Ok(Ok(_)) if cpu_time() - begun > SLOW => {
                format!("it takes {:.1} s of CPU time", (cpu_time() - begun).as_secs_f64())
            }
            Ok(Ok(signature)) => {
                if self.signatures.insert(signature) && self.pool.len() < MAX_POOL {
                    self.pool.push(input.to_vec());
                    self.keep(input)?;
                }
                return Ok(None);
            }
        };
        fs::create_dir_all(&self.faults)?;
        let path = self.faults.join(format!("{}-{:016x}", self.name, digest(input)));
        fs::write(&path, input)?;
        Ok(Some(format!("{}: {fault}: {}", self.name, path.display())))
    }

    /// Keeps a small input that led to something new; the fixtures are kept already.
    fn keep(&mut self, input: &[u8]) -> Result<(), Box<dyn Error>> {
        let is_new = self.pool.iter().filter(|known| known.as_slice() == input).count() == 1;
        if input.len() > KEPT_BYTES || self.kept >= MAX_KEPT || !is_new {
            return Ok(());
        }
        fs::create_dir_all(&self.folder)?;
        fs::write(self.folder.join(format!("{:016x}", digest(input))), input)?;
        self.kept += 1;
        Ok(())
    }

    fn below(&mut self, count: usize) -> usize {
        (self.rng.bits() % count.max(1) as u64) as usize
    }

    fn picked(&mut self) -> Vec<u8> {
        // What was found last is tried more often.
        let count = self.pool.len();
        let index =
            if self.below(3) == 0 { count - 1 - self.below(count.min(50)) } else { self.below(count) };
        self.pool[index].clone()
    }

    /// One to eight changes of an input.
    fn mutated(&mut self) -> Vec<u8> {
        let mut input = self.picked();
        for _ in 0..=self.below(8) {
            self.change(&mut input);
        }
        input.truncate(MAX_INPUT);
        input
    }

    fn change(&mut self, input: &mut Vec<u8>) {
        const TOKENS: [&str; 24] = [
            "0",
            "-1",
            "1e308",
            "18446744073709551616",
            "NaN",
            "inf",
            "9999999999999999",
            "{",
            "}",
            "[",
            "]",
            "\"",
            "\\u0000",
            ",",
            ";",
            ":",
            "\n",
            "\r\n",
            "> ",
            "12:20:42",
            "all",
            "100.00",
            "\u{fffd}",
            "%",
        ];
        let at = self.below(input.len() + 1);
        match self.below(9) {
            0 if !input.is_empty() => {
                let at = at.min(input.len() - 1);
                input[at] = self.below(256) as u8;
            }
            1 if !input.is_empty() => {
                let at = at.min(input.len() - 1);
                input[at] ^= 1 << self.below(8);
            }
            2 => input.truncate(at),
            3 => {
                let end = (at + self.below(200)).min(input.len());
                input.drain(at.min(end)..end);
            }
            4 => {
                let end = (at + self.below(400)).min(input.len());
                let part = input[at.min(end)..end].to_vec();
                let to = self.below(input.len() + 1);
                input.splice(to..to, part);
            }
            5 => {
                let token = TOKENS[self.below(TOKENS.len())];
                input.splice(at..at, token.bytes());
            }
            6 => {
                let other = self.picked();
                let from = self.below(other.len() + 1);
                let end = (from + self.below(600)).min(other.len());
                input.splice(at..at, other[from..end].iter().copied());
            }
            7 => self.change_number(input, at),
            _ => self.change_line(input, at),
        }
        input.truncate(4 * MAX_INPUT);
    }

    /// Another number in the place of the next one.
    fn change_number(&mut self, input: &mut Vec<u8>, at: usize) {
        let Some(start) = input[at..].iter().position(u8::is_ascii_digit).map(|n| at + n) else { return };
        let end = input[start..].iter().position(|b| !b.is_ascii_digit()).map_or(input.len(), |n| start + n);
        let number = match self.below(4) {
            0 => "0".to_owned(),
            1 => self.rng.bits().to_string(),
            2 => format!("{}", self.below(1000)),
            _ => "9".repeat(self.below(400)),
        };
        input.splice(start..end, number.bytes());
    }

    /// A line moved or said twice.
    fn change_line(&mut self, input: &mut Vec<u8>, at: usize) {
        let start = input[..at].iter().rposition(|b| *b == b'\n').map_or(0, |n| n + 1);
        let end = input[at..].iter().position(|b| *b == b'\n').map_or(input.len(), |n| at + n + 1);
        let line = input[start..end].to_vec();
        if self.below(2) == 0 {
            input.drain(start..end);
        }
        let to = self.below(input.len() + 1);
        let to = input[..to].iter().rposition(|b| *b == b'\n').map_or(0, |n| n + 1);
        input.splice(to..to, line);
    }
}

/// The functions of the kernel of a fixture.
const KALLSYMS: &[u8] = include_bytes!("../../fixtures/tools/perf/stacks-6.1.kallsyms");

/// What a reader makes of an input, without its figures.
fn answer(name: &str, input: &[u8]) -> Result<String, String> {
    let kind = if name == "any" { recognise(input) } else { Kind::from_name(name) };
    let Some(kind) = kind else { return Ok("unknown".to_owned()) };
    if let Some(convert) = converter(kind) {
        // With names the same call stacks are read another way; what comes out is read below.
        if let Some(naming) = converter_naming(kind) {
            answer_of_events(|input, output| naming(input, KALLSYMS, output), input)?;
        }
        return answer_of_events(convert, input);
    }
    let imported = match read(kind, &mut std::io::Cursor::new(input), Pace::default()) {
        Ok(imported) => imported,
        Err(error) => return Ok(without_figures(&error.to_string())),
    };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for part in &imported.parts {
        *counts.entry("parts").or_default() += 1;
        *counts.entry("metrics").or_default() += part.outcome.metrics.len();
        if let Some(metric) = part.outcome.metrics.iter().find(|(_, m)| !m.value.is_finite()) {
            return Err(format!("the metric {} is no number", metric.0));
        }
        let Some(series) = &part.series else { continue };
        let mut rows = Rows::default();
        stream(kind, &mut std::io::Cursor::new(input), Pace::default(), series, &mut rows)
            .map_err(|error| format!("it is read, and then not: {error}"))?;
        if rows.backwards {
            return Err("its rows go back in time".to_owned());
        }
        *counts.entry("rows").or_default() += rows.count;
    }
    let rough = |count: usize| count.checked_ilog2().map_or(0, |n| n + 1);
    let shown: Vec<String> =
        counts.iter().map(|(what, count)| format!("{what} 2^{}", rough(*count))).collect();
    Ok(format!(
        "{} {} facts {} notes {}",
        kind.name(),
        shown.join(" "),
        imported.facts.len(),
        imported.notes.len()
    ))
}

/// The same of another tool's recording: it is converted, and then read as a recording of ours.
fn answer_of_events(
    convert: impl Fn(&[u8], &mut Vec<u8>) -> Result<Converted, ForeignError>,
    input: &[u8],
) -> Result<String, String> {
    let mut bytes = Vec::new();
    let converted = match convert(input, &mut bytes) {
        Ok(converted) => converted,
        Err(error) => return Ok(without_figures(&error.to_string())),
    };
    let rough = |count: u64| count.checked_ilog2().map_or(0, |n| n + 1);
    match Facts::read(|| Ok(std::io::Cursor::new(&bytes))) {
        Ok(facts) => Ok(format!(
            "events 2^{} stacks 2^{} others 2^{} unread 2^{} kinds {} devices {} layers {}",
            rough(converted.events),
            rough(converted.stacks),
            rough(converted.others),
            rough(facts.unread),
            facts.kinds.len(),
            facts.devices.len(),
            facts.profile.map_or(0, |profile| profile.samples.len())
        )),
        Err(error) => Ok(without_figures(&error.to_string())),
    }
}

#[derive(Default)]
struct Rows {
    count: usize,
    columns: usize,
    last: Option<Nanos>,
    backwards: bool,
}

impl Sink for Rows {
    fn begin(&mut self, head: &TraceHead) -> Result<(), SinkError> {
        self.columns = head.series.len();
        let names: BTreeSet<&str> = head.series.iter().map(|s| s.name.as_str()).collect();
        if names.len() == self.columns { Ok(()) } else { Err(SinkError("two columns have one name".into())) }
    }
    fn row(&mut self, time: Nanos, values: &[Option<u64>]) -> Result<(), SinkError> {
        self.backwards |= self.last.is_some_and(|last| last > time);
        self.last = Some(time);
        self.count += 1;
        if values.len() == self.columns { Ok(()) } else { Err(SinkError("a row has another length".into())) }
    }
}

/// Whether a parser makes something of a file.
fn understood(name: &str, input: &[u8]) -> bool {
    let kind = if name == "any" { recognise(input) } else { Kind::from_name(name) };
    if let Some(convert) = kind.and_then(converter) {
        return convert(input, &mut Vec::new()).is_ok();
    }
    kind.is_some_and(|kind| read(kind, &mut std::io::Cursor::new(input), Pace::default()).is_ok())
}

/// An error as one of its kind: what comes before anything that is quoted of the input, without digits.
fn without_figures(text: &str) -> String {
    let own = text.split('`').next().unwrap_or(text);
    own.chars().filter(|c| !c.is_ascii_digit()).take(160).collect()
}

/// FNV-1a.
fn digest(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

fn files(folder: &Path) -> Result<Vec<Vec<u8>>, Box<dyn Error>> {
    let mut found = Vec::new();
    if !folder.is_dir() {
        return Ok(found);
    }
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            let mut bytes = fs::read(&path)?;
            bytes.truncate(MAX_INPUT);
            found.push(bytes);
        }
    }
    Ok(found)
}
