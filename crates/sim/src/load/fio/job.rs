//! A fio workload's options as a typed load (fio(1), 3.33), strictly: what is not modelled is an error.
//!
//! Options that change only what is written, reported or logged are on a list and have no effect. Options
//! that change the CPU time of a request (`registerfiles`, `fixedbufs`, `hipri`, `gtod_reduce` …), that
//! choose CPUs or priorities, or that search for a depth are refused: a simulation that passed them over
//! would answer another question.

use super::draws::Seeding;
use super::offsets;
use super::offsets::{Access, BlockSizes, Coverage, Distribution, Mix, PatternSpec, RunOf, Span, Zone};
use super::stream::writes;
use crate::load::LoadError;
use crate::load::options::{MICROSECONDS, Options, SECONDS, Units, Value};
use domain::order;
use domain::time::Nanos;
use domain::units::Bytes;
use std::collections::BTreeMap;

/// A value for reads and one for writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerDirection<T> {
    /// For reads.
    pub read: T,
    /// For writes.
    pub write: T,
}

impl<T> From<[T; 2]> for PerDirection<T> {
    fn from([read, write]: [T; 2]) -> Self {
        Self { read, write }
    }
}

/// How requests are submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// A system call for each request, which waits for it: `psync`, `sync`, `pvsync`, `pvsync2`.
    Synchronous,
    /// `libaio`; submitting waits where the page cache is used.
    Libaio,
    /// `io_uring`.
    IoUring,
}

/// Whether the page cache is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// `O_DIRECT`.
    Direct,
    /// It is.
    Buffered,
}

/// Requests in flight of each job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// At most (`iodepth`); 1 with synchronous engines.
    pub most: u32,
    /// Filled up again where so many are left (`iodepth_low`).
    pub low: u32,
    /// Submitted with one call (`iodepth_batch_submit`).
    pub submit_batch: u32,
    /// Waited for with one call, at least; 0: not waited for while the queue has room.
    pub complete_min: u32,
    /// Taken with one call, at most.
    pub complete_max: u32,
}

/// Writes that are on the device when they return (`sync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncedWrites {
    /// They need not be.
    No,
    /// Their data is (`O_DSYNC`).
    Data,
    /// All of the file is (`O_SYNC`).
    All,
}

/// Explicit syncs, of jobs that write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Syncs {
    /// An `fsync` after so many writes.
    pub fsync_every: Option<u64>,
    /// An `fdatasync` after so many writes.
    pub fdatasync_every: Option<u64>,
    /// An `fsync` at the end.
    pub end_fsync: bool,
    /// An `fsync` when the file is closed.
    pub fsync_on_close: bool,
}

/// How a rate is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// With equal distances, adjusted to catch up.
    Even,
    /// With distances as independent users have them.
    Poisson,
}

/// The highest rates of each job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Bytes a second (`rate`).
    pub bytes_per_second: PerDirection<Option<Bytes>>,
    /// Requests a second (`rate_iops`).
    pub iops: PerDirection<Option<u64>>,
    /// How.
    pub pace: Pace,
    /// Time spent in pauses is not caught up (`rate_ignore_thinktime`).
    pub ignores_pauses: bool,
}

/// What counts towards a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThinkAfter {
    /// Requests that were done.
    Completed,
    /// Requests that were submitted.
    Issued,
}

/// Pauses between requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Think {
    /// How long (`thinktime`).
    pub pause: Nanos,
    /// How much of it is spent working (`thinktime_spin`).
    pub spin: Nanos,
    /// After so many requests.
    pub blocks: u64,
    /// Which count.
    pub after: ThinkAfter,
    /// Also after so much time with requests (`thinktime_iotime`).
    pub io_time: Option<Nanos>,
}

/// What the kernel is told about the order of requests (`fadvise_hint`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// What the job does: sequential or random.
    ByWorkload,
    /// Nothing.
    None,
    /// Sequential.
    Sequential,
    /// Random.
    Random,
}

/// When a job is over: whatever of it comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// After so much data in each loop (`io_size`, or `size`); `None` with `time_based`.
    pub bytes: Option<u64>,
    /// Whether it passes over the span again until then (`io_size`).
    pub passes: bool,
    /// After so many requests (`number_ios`).
    pub requests: Option<u64>,
    /// After so many repetitions (`loops`); at least 1.
    pub loops: u64,
    /// After so much time, which begins after [`FioJob::ramp`] (`runtime`).
    pub runtime: Option<Nanos>,
}

/// What a fio workload asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct FioJob {
    /// The requests of the first job; see [`FioJob::span_of`].
    pub pattern: PatternSpec,
    /// How far apart the jobs' spans begin (`offset_increment`).
    pub offset_step: Bytes,
    /// When a job is over.
    pub ending: Ending,
    /// Jobs at the same time (`numjobs`).
    pub jobs: u32,
    /// They are threads of one process, not processes (`thread`).
    pub threads: bool,
    /// How requests are submitted.
    pub engine: Engine,
    /// Requests in flight.
    pub depth: Depth,
    /// Whether the page cache is used.
    pub caching: Caching,
    /// Whether each write waits for the device.
    pub synced_writes: SyncedWrites,
    /// Explicit syncs.
    pub syncs: Syncs,
    /// The highest rates.
    pub rate: Rate,
    /// Pauses, where there are any.
    pub think: Option<Think>,
    /// What the kernel is told.
    pub advice: Advice,
    /// The target's cached pages are dropped before the job (`invalidate`).
    pub invalidate: bool,
    /// How long each job waits before it begins: any time between these (`startdelay`).
    pub start_delay: (Nanos, Nanos),
    /// How long it runs before anything counts (`ramp_time`).
    pub ramp: Nanos,
    /// What random numbers grow from.
    pub seeding: Seeding,
    /// A recorded trace that is replayed in place of all that says what to ask for.
    pub replay: Option<Replay>,
}

/// How a recorded trace is replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replay {
    /// Where it is (`read_iolog`), from the study's folder.
    pub file: String,
    /// Whether requests wait for their times (without `replay_no_stall`).
    pub stalls: bool,
    /// Their distances, in percent of those in the trace (`replay_time_scale`).
    pub scale_percent: u64,
}

/// Options that change only what is written, reported or logged. What is written matters to devices that
/// compress, and none of the models does.
const WITHOUT_EFFECT: [&str; 58] = [
    "block_error_percentiles",
    "buffer_compress_chunk",
    "buffer_compress_percentage",
    "buffer_pattern",
    "bwavgtime",
    "clat_percentiles",
    "continue_on_error",
    "create_fsync",
    "create_serialize",
    "dedupe_global",
    "dedupe_mode",
    "dedupe_percentage",
    "dedupe_working_set_percentage",
    "description",
    "disk_util",
    "do_verify",
    "error_dump",
    "exit_on_io_done",
    "exitall",
    "exitall_on_error",
    "group_reporting",
    "ignore_error",
    "iopsavgtime",
    "lat_percentiles",
    "log_alternate_epoch",
    "log_alternate_epoch_clock_id",
    "log_avg_msec",
    "log_compression",
    "log_entries",
    "log_hist_coarseness",
    "log_hist_msec",
    "log_max_value",
    "log_offset",
    "log_prio",
    "log_store_compressed",
    "log_unix_epoch",
    "name",
    "new_group",
    "overwrite",
    "per_job_logs",
    "percentile_list",
    "random_generator",
    "refill_buffers",
    "scramble_buffers",
    "significant_figures",
    "slat_percentiles",
    "stats",
    "stonewall",
    "unified_rw_reporting",
    "unit_base",
    "verify_fatal",
    "wait_for_previous",
    "write_bw_log",
    "write_hist_log",
    "write_iolog",
    "write_iops_log",
    "write_lat_log",
    "zero_buffers",
];

/// Jobs that a workload may have: as many as fio allows by default (`--max-jobs`).
const MAX_JOBS: u32 = 4096;

impl FioJob {
    /// From a workload's options, by fio's names and in its units, on a target of this size.
    ///
    /// # Errors
    /// Where an option is not modelled, its value is none, or the job would leave the target.
    pub fn parse(options: &BTreeMap<String, String>, target: Bytes) -> Result<Self, LoadError> {
        let mut options = Options::new("fio", options);
        let units = options.or(&["kb_base"], Units::Compatible, |value| match value.text {
            "1024" => Ok(Units::Compatible),
            "1000" => Ok(Units::International),
            _ => Err(value.refuse("1024 or 1000 is wanted")),
        })?;
        options.or(&["verify"], (), |value| match value.text {
            "0" => Ok(()),
            _ => Err(value.refuse("the simulation does not model verification")),
        })?;
        let job = parse_job(&mut options, units, target)?;
        options.finish(&WITHOUT_EFFECT, |option| match option {
            "filename" | "directory" | "nrfiles" | "openfiles" => {
                "a simulated load has one target, which the study names".to_owned()
            }
            _ => "the simulation does not model this option".to_owned(),
        })?;
        Ok(job)
    }

    /// The span of the job with this number, from 0 to `numjobs` − 1.
    pub fn span_of(&self, number: u32) -> Span {
        let first = self.pattern.span;
        let start = first.start.get() + u64::from(number) * self.offset_step.get();
        Span { start: Bytes::new(start), ..first }
    }

    /// Whether a job writes.
    pub fn writes(&self) -> bool {
        writes(self.pattern.mix)
    }
}

fn parse_job(options: &mut Options<'_>, units: Units, target: Bytes) -> Result<FioJob, LoadError> {
    let (kind, access_suffix) = rw(options, units)?;
    let sizes = block_sizes(options, units)?;
    let mix = mix(options, &kind)?;
    let (engine, depth) = engine_and_depth(options)?;
    let jobs = options.or(&["numjobs"], 1, |value| match value.whole::<u32>()? {
        jobs @ 1..=MAX_JOBS => Ok(jobs),
        _ => Err(value.refuse(format!("1 to {MAX_JOBS} jobs are wanted"))),
    })?;
    let access = access(options, units, &kind, access_suffix, target, &sizes)?;
    let runtime = options.or(&["runtime", "timeout"], Nanos::ZERO, |value| value.time(SECONDS))?;
    let time_based = options.or(&["time_based"], false, |value| match value.flag()? {
        true if runtime == Nanos::ZERO => Err(value.refuse("it needs `runtime`")),
        flag => Ok(flag),
    })?;
    let span = Span { start: Bytes::default(), len: target, target };
    let mut pattern = PatternSpec { mix, sizes, span, access, endless: time_based };
    check_sizes(options, &pattern)?;
    let (offset_step, limit) = place(options, units, target, jobs, &mut pattern)?;
    let ending = Ending {
        bytes: (!time_based).then_some(limit.bytes),
        passes: limit.passes,
        requests: options
            .take(&["number_ios"])?
            .map(|value| value.whole())
            .transpose()?
            // It ends a pass, and after that fio goes on while there is time.
            .filter(|count| *count > 0 && !time_based),
        loops: options.or(&["loops"], 1, |value| value.whole::<u64>())?.max(1),
        runtime: (runtime > Nanos::ZERO).then_some(runtime),
    };
    Ok(FioJob {
        pattern,
        offset_step,
        ending,
        jobs,
        threads: options.or(&["thread"], false, Value::flag)?,
        engine,
        depth,
        caching: caching(options)?,
        synced_writes: options.or(&["sync"], SyncedWrites::No, |value| match value.text {
            "0" | "none" => Ok(SyncedWrites::No),
            "1" | "sync" | "" => Ok(SyncedWrites::All),
            "dsync" => Ok(SyncedWrites::Data),
            _ => Err(value.refuse("none, sync or dsync is wanted")),
        })?,
        syncs: syncs(options)?,
        rate: rate(options, units)?,
        think: think(options)?,
        advice: options.or(&["fadvise_hint"], Advice::ByWorkload, |value| match value.text {
            "1" | "" => Ok(Advice::ByWorkload),
            "0" => Ok(Advice::None),
            "sequential" => Ok(Advice::Sequential),
            "random" => Ok(Advice::Random),
            _ => Err(value.refuse("0, 1, sequential or random is wanted")),
        })?,
        invalidate: options.or(&["invalidate"], true, Value::flag)?,
        start_delay: options.or(&["startdelay"], (Nanos::ZERO, Nanos::ZERO), |value| {
            let (from, to) = value.text.split_once(['-', ':']).unwrap_or((value.text, value.text));
            let (from, to) = (value.part(from).time(SECONDS)?, value.part(to).time(SECONDS)?);
            Ok((from.min(to), from.max(to)))
        })?,
        ramp: options.or(&["ramp_time"], Nanos::ZERO, |value| value.time(SECONDS))?,
        seeding: seeding(options)?,
        replay: replay(options)?,
    })
}

fn replay(options: &mut Options<'_>) -> Result<Option<Replay>, LoadError> {
    let Some(file) = options.take(&["read_iolog"])? else { return Ok(None) };
    let stalls = !options.or(&["replay_no_stall"], false, Value::flag)?;
    let scale_percent = options.or(&["replay_time_scale"], 100, |value| match value.whole::<u64>()? {
        scale @ 1..=10_000 => Ok(scale),
        _ => Err(value.refuse("1 to 10000 percent are wanted")),
    })?;
    Ok(Some(Replay { file: file.text.to_owned(), stalls, scale_percent }))
}

/// What `rw` says before its colon.
struct Kind {
    random: bool,
    reads: bool,
    writes: bool,
}

/// Directions, whether offsets are random, and what follows the colon: a count, or bytes.
fn rw(options: &mut Options<'_>, units: Units) -> Result<(Kind, Option<u64>), LoadError> {
    let read = Kind { random: false, reads: true, writes: false };
    options.or(&["rw", "readwrite"], (read, None), |value| {
        let (name, suffix) = value.text.split_once(':').map_or((value.text, None), |(n, s)| (n, Some(s)));
        let kind = |random, reads, writes| Ok(Kind { random, reads, writes });
        let kind = match name {
            "read" => kind(false, true, false),
            "write" => kind(false, false, true),
            "rw" | "readwrite" => kind(false, true, true),
            "randread" => kind(true, true, false),
            "randwrite" => kind(true, false, true),
            "randrw" => kind(true, true, true),
            _ if name.contains("trim") => Err(value.refuse("the simulation does not model trims")),
            _ => Err(value.refuse("read, write, rw, randread, randwrite or randrw is wanted")),
        }?;
        let backwards = suffix.is_some_and(|suffix| suffix.trim().starts_with('-'));
        if backwards {
            return Err(value.refuse("the simulation does not model going backwards"));
        }
        Ok((kind, suffix.map(|suffix| value.part(suffix).bytes(units)).transpose()?))
    })
}

fn mix(options: &mut Options<'_>, kind: &Kind) -> Result<Mix, LoadError> {
    let reads = options.take(&["rwmixread"])?.map(|value| value.percent()).transpose()?;
    let writes = options.take(&["rwmixwrite"])?.map(|value| value.percent()).transpose()?;
    // fio(1): where both are given and do not add up, the latter overrides the first.
    let reads = writes.map(|writes| 100 - writes).or(reads).unwrap_or(50);
    Ok(match (kind.reads, kind.writes) {
        (true, true) => Mix::Both(reads),
        (false, _) => Mix::Writes,
        (true, false) => Mix::Reads,
    })
}

fn block_sizes(options: &mut Options<'_>, units: Units) -> Result<[BlockSizes; 2], LoadError> {
    const DEFAULT: BlockSizes = BlockSizes::Fixed(Bytes::new(4096));
    let fixed = options.take(&["bs", "blocksize"])?;
    let range = options.take(&["bsrange", "blocksize_range"])?;
    let split = options.take(&["bssplit"])?;
    let given: Vec<&Value<'_>> = [&fixed, &range, &split].into_iter().flatten().collect();
    if given.len() > 1 {
        return Err(given[1].refuse("one of bs, bsrange and bssplit is wanted"));
    }
    if let Some(value) = fixed {
        return value.by_direction(DEFAULT, |part| Ok(BlockSizes::Fixed(length(part, units)?)));
    }
    if let Some(value) = range {
        return value.by_direction(DEFAULT, |part| {
            let (from, to) = part
                .text
                .split_once(['-', ':'])
                .ok_or_else(|| part.refuse("a range such as 4k-16k is wanted"))?;
            let (from, to) = (length(&part.part(from), units)?, length(&part.part(to), units)?);
            Ok(BlockSizes::Range(from.min(to), from.max(to)))
        });
    }
    if let Some(value) = split {
        return value.by_direction(DEFAULT, |part| {
            let shares = shares(part, |size| length(size, units))?;
            let mut shares: Vec<_> = shares.into_iter().filter(|(_, share)| *share > 0).collect();
            order::by_key(&mut shares, |(_, share)| *share);
            Ok(BlockSizes::Split(shares))
        });
    }
    Ok([DEFAULT, DEFAULT])
}

fn length(value: &Value<'_>, units: Units) -> Result<Bytes, LoadError> {
    match value.bytes(units)? {
        // fio's own bound is 2^32 − 1; a request that long is a mistake.
        bytes @ 1..=0x4000_0000 => Ok(Bytes::new(bytes)),
        _ => Err(value.refuse("a request is 1 byte to 1 GiB long")),
    }
}

/// `SIZE/PERCENT:SIZE/PERCENT…`, where percentages that are left out share what is left.
fn shares<T>(
    value: &Value<'_>,
    read: impl Fn(&Value<'_>) -> Result<T, LoadError>,
) -> Result<Vec<(T, u8)>, LoadError> {
    let mut entries = Vec::new();
    for entry in value.text.split(':') {
        let (size, percent) = entry.split_once('/').unwrap_or((entry, ""));
        let percent = if percent.trim().is_empty() { None } else { Some(value.part(percent).percent()?) };
        entries.push((read(&value.part(size))?, percent));
    }
    let named: u32 = entries.iter().filter_map(|(_, percent)| percent.map(u32::from)).sum();
    let open = entries.iter().filter(|(_, percent)| percent.is_none()).count() as u32;
    if named > 100 || (open == 0 && named < 100) {
        return Err(value.refuse("the percentages have to add up to 100"));
    }
    let mut left = 100 - named;
    let mut open_left = open;
    let filled = entries.into_iter().map(|(size, percent)| {
        let percent = percent.unwrap_or_else(|| {
            let part = left / open_left;
            left -= part;
            open_left -= 1;
            part as u8
        });
        (size, percent)
    });
    Ok(filled.collect())
}

fn access(
    options: &mut Options<'_>,
    units: Units,
    kind: &Kind,
    suffix: Option<u64>,
    target: Bytes,
    sizes: &[BlockSizes; 2],
) -> Result<Access, LoadError> {
    let same = options.or(&["rw_sequencer"], false, |value| match value.text {
        "sequential" => Ok(false),
        "identical" => Ok(true),
        _ => Err(value.refuse("sequential or identical is wanted")),
    })?;
    let distribution = options
        .or(&["random_distribution"], Distribution::Uniform, |value| distribution(value, units, target))?;
    let map = !options.or(&["norandommap"], false, Value::flag)?;
    options.or(&["softrandommap"], (), |_| Ok(()))?;
    let share = options
        .or(&["percentage_random"], [100; 2], |value| value.by_direction(100, |part| part.percent()))?;
    let align = options.or(&["blockalign", "ba"], [None; 2], |value| {
        value.by_direction(None, |part| Ok(Some(length(part, units)?)))
    })?;
    if !kind.random {
        return Ok(Access::Sequential { hole: Bytes::new(suffix.unwrap_or(0)) });
    }
    let length = u32::try_from(suffix.unwrap_or(1)).unwrap_or(u32::MAX).max(1);
    let uniform = distribution == Distribution::Uniform;
    // Any other alignment than to the shortest length turns fio's map off.
    let is_usual =
        |(align, sizes): (&Option<Bytes>, &BlockSizes)| align.is_none_or(|a| a.get() == sizes.shortest());
    let each_once = map && uniform && align.iter().zip(sizes).all(is_usual);
    Ok(Access::Random {
        distribution,
        coverage: if each_once { Coverage::EachOnce } else { Coverage::AsDrawn },
        share,
        run: if same { RunOf::Same(length) } else { RunOf::Following(length) },
        align,
    })
}

fn distribution(value: &Value<'_>, units: Units, target: Bytes) -> Result<Distribution, LoadError> {
    let (name, rest) = value.text.split_once(':').unwrap_or((value.text, ""));
    let numbers = || -> Result<(f64, Option<f64>), LoadError> {
        let (first, middle) = rest.split_once(':').map_or((rest, None), |(f, m)| (f, Some(m)));
        let middle = middle.map(|middle| value.part(middle).real()).transpose()?;
        if middle.is_some_and(|middle| !(0.0..=1.0).contains(&middle)) {
            return Err(value.refuse("the middle lies from 0 to 1"));
        }
        Ok((value.part(first).real()?, middle))
    };
    match name {
        "random" => Ok(Distribution::Uniform),
        "zipf" => match numbers()? {
            (theta, middle) if theta > 0.0 && theta != 1.0 => Ok(Distribution::Zipf(theta, middle)),
            _ => Err(value.refuse("zipf's theta is above 0 and not 1")),
        },
        "pareto" => match numbers()? {
            (share, middle) if share > 0.0 && share < 1.0 => Ok(Distribution::Pareto(share, middle)),
            _ => Err(value.refuse("pareto's power lies between 0 and 1")),
        },
        "normal" => match numbers()? {
            (percent, middle) if (0.0..=100.0).contains(&percent) => {
                Ok(Distribution::Normal(percent, middle))
            }
            _ => Err(value.refuse("a deviation from 0 to 100 is wanted")),
        },
        "zoned" => zones(&value.part(rest), |part, length| {
            let percent = part.part(length).percent()?;
            Ok(Bytes::new((u128::from(target.get()) * u128::from(percent) / 100) as u64))
        }),
        "zoned_abs" => {
            zones(&value.part(rest), |part, length| Ok(Bytes::new(part.part(length).bytes(units)?)))
        }
        _ => Err(value.refuse("random, zipf, pareto, normal, zoned or zoned_abs is wanted")),
    }
}

/// `ACCESSES/LENGTH:…`, for reads and for writes.
fn zones<'a>(
    value: &Value<'a>,
    length: impl Fn(&Value<'a>, &'a str) -> Result<Bytes, LoadError>,
) -> Result<Distribution, LoadError> {
    /// fio's own bound.
    const MOST: usize = 256;
    let one = |part: &Value<'a>| -> Result<Vec<Zone>, LoadError> {
        let mut zones = Vec::new();
        for entry in part.text.split(':') {
            let (accesses, len) =
                entry.split_once('/').ok_or_else(|| part.refuse("zones such as 60/10:40/90 are wanted"))?;
            zones.push(Zone { accesses: part.part(accesses).percent()?, len: length(part, len)? });
        }
        let sum: u32 = zones.iter().map(|zone| u32::from(zone.accesses)).sum();
        if sum != 100 || zones.len() > MOST {
            return Err(part.refuse(format!("the accesses of at most {MOST} zones have to add up to 100")));
        }
        Ok(zones)
    };
    Ok(Distribution::Zoned(value.by_direction(Vec::new(), one)?))
}

fn check_sizes(options: &mut Options<'_>, pattern: &PatternSpec) -> Result<(), LoadError> {
    let unaligned = options.take(&["bs_unaligned", "blocksize_unaligned"])?;
    if let Some(value) = unaligned
        && value.flag()?
    {
        return Err(value.refuse("the simulation does not model lengths that are no multiples"));
    }
    if pattern.shortest() > pattern.span.target.get() {
        return Err(LoadError {
            tool: "fio",
            option: "bs".into(),
            value: pattern.shortest().to_string(),
            why: format!("a request does not fit into the target of {}", pattern.span.target),
        });
    }
    Ok(())
}

/// How much a job does.
struct Limit {
    bytes: u64,
    passes: bool,
}

/// An amount, or a percentage of something.
enum Extent {
    Bytes(u64),
    Percent(u8),
}

impl Extent {
    fn read(value: &Value<'_>, units: Units) -> Result<Self, LoadError> {
        if value.text.ends_with('%') {
            return Ok(Self::Percent(value.percent()?));
        }
        value.bytes(units).map(Self::Bytes)
    }

    fn of(&self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => *bytes,
            Self::Percent(percent) => (u128::from(whole) * u128::from(*percent) / 100) as u64,
        }
    }
}

/// Where the first job works, how far apart the jobs are, and how much each does.
fn place(
    options: &mut Options<'_>,
    units: Units,
    target: Bytes,
    jobs: u32,
    pattern: &mut PatternSpec,
) -> Result<(Bytes, Limit), LoadError> {
    let extent = |value: &Value<'_>| Extent::read(value, units);
    let offset = options.take(&["offset", "fileoffset"])?;
    let step = options.take(&["offset_increment"])?;
    let size = options.take(&["size"])?;
    let filesize = options.take(&["filesize"])?;
    let io_size = options.take(&["io_size", "io_limit"])?;
    let align = options.or(&["offset_align"], 0, |value| value.bytes(units))?;
    let unit = if align > 0 { align } else { pattern.shortest() };
    let from = |value: &Option<Value<'_>>| -> Result<u64, LoadError> {
        Ok(match value.as_ref().map(extent).transpose()? {
            None => 0,
            Some(Extent::Bytes(bytes)) => bytes,
            Some(percent) => percent.of(target.get()).next_multiple_of(unit),
        })
    };
    let (start, step_bytes) = (from(&offset)?, from(&step)?);
    let room = target.get().saturating_sub(start);
    let asked = |value: &Option<Value<'_>>| -> Result<Option<u64>, LoadError> {
        let extent = value.as_ref().map(extent).transpose()?;
        Ok(extent.map(|extent| match extent {
            Extent::Bytes(bytes) => bytes,
            percent => percent.of(target.get()) / pattern.shortest() * pattern.shortest(),
        }))
        .map(|bytes| bytes.filter(|bytes| *bytes > 0))
    };
    let (size_bytes, file_bytes) = (asked(&size)?, asked(&filesize)?);
    let len = file_bytes.or(size_bytes).unwrap_or(room);
    let last_start = start.saturating_add(step_bytes.saturating_mul(u64::from(jobs) - 1));
    if last_start.saturating_add(len) > target.get() {
        let to_blame = [&step, &filesize, &size, &offset].into_iter().flatten().next();
        let why = format!("with all jobs and offsets it reaches beyond the target of {target}");
        return Err(to_blame.map_or_else(
            || LoadError { tool: "fio", option: "size".into(), value: len.to_string(), why: why.clone() },
            |value| value.refuse(&*why),
        ));
    }
    if len < pattern.shortest() {
        let to_blame = [&size, &filesize, &offset].into_iter().flatten().next();
        let why = "less is left than a request takes";
        return Err(to_blame.map_or_else(
            || LoadError { tool: "fio", option: "size".into(), value: len.to_string(), why: why.into() },
            |value| value.refuse(why),
        ));
    }
    pattern.span = offsets::Span { start: Bytes::new(start), len: Bytes::new(len), target };
    let size_done = size_bytes.unwrap_or(len);
    let io_bytes = io_size.as_ref().map(extent).transpose()?.map(|extent| extent.of(size_done));
    let io_bytes = io_bytes.filter(|bytes| *bytes > 0);
    let limit = Limit { bytes: io_bytes.unwrap_or(size_done), passes: io_bytes.is_some() };
    Ok((Bytes::new(step_bytes), limit))
}

fn engine_and_depth(options: &mut Options<'_>) -> Result<(Engine, Depth), LoadError> {
    let engine = options.or(&["ioengine"], Engine::Synchronous, |value| match value.text {
        "psync" | "sync" | "pvsync" | "pvsync2" => Ok(Engine::Synchronous),
        "libaio" => Ok(Engine::Libaio),
        "io_uring" => Ok(Engine::IoUring),
        _ => Err(value.refuse("the simulation models psync, sync, pvsync, pvsync2, libaio and io_uring")),
    })?;
    let most = options.or(&["iodepth"], 1, |value| match value.whole::<u32>()? {
        0 => Err(value.refuse("at least 1 is wanted")),
        depth => Ok(depth),
    })?;
    let mut number = |names: &[&'static str], default: u32| options.or(names, default, Value::whole::<u32>);
    let low = number(&["iodepth_low"], most)?;
    let submit_batch = number(&["iodepth_batch", "iodepth_batch_submit"], 1)?;
    let complete_min = number(&["iodepth_batch_complete", "iodepth_batch_complete_min"], 1)?;
    let complete_max = number(&["iodepth_batch_complete_max"], complete_min)?;
    if engine == Engine::Synchronous {
        return Ok((engine, Depth { most: 1, low: 1, submit_batch: 1, complete_min: 1, complete_max: 1 }));
    }
    // fio(1): a submit batch of 0 means the depth; more than the depth is the depth.
    let submit_batch = if submit_batch == 0 { most } else { submit_batch.min(most) };
    let complete_min = complete_min.min(most);
    let depth = Depth {
        most,
        low: if low == 0 { most } else { low.min(most) },
        submit_batch,
        complete_min,
        complete_max: complete_max.clamp(complete_min.max(1), most),
    };
    Ok((engine, depth))
}

fn caching(options: &mut Options<'_>) -> Result<Caching, LoadError> {
    let direct = options.take(&["direct"])?.map(|value| value.flag()).transpose()?;
    let buffered = options.take(&["buffered"])?;
    let direct = match (direct, buffered) {
        (direct, None) => direct.unwrap_or(false),
        (direct, Some(value)) => {
            let buffered = value.flag()?;
            if direct == Some(buffered) {
                return Err(value.refuse("it contradicts `direct`"));
            }
            !buffered
        }
    };
    Ok(if direct { Caching::Direct } else { Caching::Buffered })
}

fn syncs(options: &mut Options<'_>) -> Result<Syncs, LoadError> {
    let mut every = |name| -> Result<Option<u64>, LoadError> {
        let every = options.take(&[name])?.map(|value| value.whole::<u64>()).transpose()?;
        Ok(every.filter(|every| *every > 0))
    };
    let (fsync_every, fdatasync_every) = (every("fsync")?, every("fdatasync")?);
    Ok(Syncs {
        fsync_every,
        fdatasync_every,
        end_fsync: options.or(&["end_fsync"], false, Value::flag)?,
        fsync_on_close: options.or(&["fsync_on_close"], false, Value::flag)?,
    })
}

fn rate(options: &mut Options<'_>, units: Units) -> Result<Rate, LoadError> {
    let none = [None; 2];
    let bytes = options.or(&["rate"], none, |value| {
        value.by_direction(None, |part| Ok(Some(part.bytes(units)?).filter(|rate| *rate > 0)))
    })?;
    let iops = options.or(&["rate_iops"], none, |value| {
        value.by_direction(None, |part| Ok(Some(part.bytes(units)?).filter(|rate| *rate > 0)))
    })?;
    Ok(Rate {
        bytes_per_second: bytes.map(|rate| rate.map(Bytes::new)).into(),
        iops: iops.into(),
        pace: options.or(&["rate_process"], Pace::Even, |value| match value.text {
            "linear" => Ok(Pace::Even),
            "poisson" => Ok(Pace::Poisson),
            _ => Err(value.refuse("linear or poisson is wanted")),
        })?,
        ignores_pauses: options.or(&["rate_ignore_thinktime"], false, Value::flag)?,
    })
}

fn think(options: &mut Options<'_>) -> Result<Option<Think>, LoadError> {
    let mut time = |name, unit| options.or(&[name], Nanos::ZERO, |value| value.time(unit));
    let pause = time("thinktime", MICROSECONDS)?;
    let spin = time("thinktime_spin", MICROSECONDS)?;
    let io_time = time("thinktime_iotime", SECONDS)?;
    let blocks = options.or(&["thinktime_blocks"], 1, Value::whole::<u64>)?.max(1);
    let after = options.or(&["thinktime_blocks_type"], ThinkAfter::Completed, |value| match value.text {
        "complete" => Ok(ThinkAfter::Completed),
        "issue" => Ok(ThinkAfter::Issued),
        _ => Err(value.refuse("complete or issue is wanted")),
    })?;
    let think = Think {
        pause,
        spin: spin.min(pause),
        blocks,
        after,
        io_time: (io_time > Nanos::ZERO).then_some(io_time),
    };
    Ok((pause > Nanos::ZERO).then_some(think))
}

fn seeding(options: &mut Options<'_>) -> Result<Seeding, LoadError> {
    let repeat = options.or(&["randrepeat"], true, Value::flag)?;
    let all = options.or(&["allrandrepeat"], false, Value::flag)?;
    let seed = options.take(&["randseed"])?.map(|value| value.whole::<u64>()).transpose()?;
    Ok(match seed {
        _ if all => Seeding::AllRepeated,
        Some(seed) if repeat => Seeding::AllButPlacesOf(seed),
        Some(seed) => Seeding::Of(seed),
        None if repeat => Seeding::Repeated,
        None => Seeding::OfTrial,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    fn parse(options: &[(&str, &str)]) -> Result<FioJob, String> {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        FioJob::parse(&options, Bytes::from_mib(64)).map_err(|error| error.to_string())
    }

    fn check_refused(options: &[(&str, &str)], expected: Expect) {
        expected.assert_eq(&parse(options).unwrap_err());
    }

    #[test]
    fn without_options_it_reads_the_whole_target_once() {
        let job = parse(&[]).unwrap();
        assert_eq!(job.pattern.mix, Mix::Reads);
        assert_eq!(job.pattern.access, Access::Sequential { hole: Bytes::new(0) });
        assert_eq!(job.pattern.sizes[0], BlockSizes::Fixed(Bytes::from_kib(4)));
        assert_eq!(job.pattern.span.len, Bytes::from_mib(64));
        let ending = Ending { bytes: Some(64 << 20), passes: false, requests: None, loops: 1, runtime: None };
        assert_eq!(job.ending, ending);
        assert_eq!((job.caching, job.depth.most, job.jobs), (Caching::Buffered, 1, 1));
        assert!(job.invalidate && !job.threads && !job.writes());
    }

    #[test]
    fn a_usual_job_is_read() {
        let job = parse(&[
            ("rw", "randrw"),
            ("rwmixread", "70"),
            ("bs", "8k,16k"),
            ("ioengine", "libaio"),
            ("iodepth", "32"),
            ("direct", "1"),
            ("numjobs", "4"),
            ("size", "50%"),
            ("runtime", "30"),
            ("time_based", ""),
            ("ramp_time", "5"),
            ("group_reporting", "1"),
        ])
        .unwrap();
        assert_eq!(job.pattern.mix, Mix::Both(70));
        assert_eq!(job.pattern.sizes, [8, 16].map(|kib| BlockSizes::Fixed(Bytes::from_kib(kib))));
        assert_eq!((job.pattern.span.len, job.jobs), (Bytes::from_mib(32), 4));
        assert_eq!((job.ending.bytes, job.ending.runtime), (None, Some(Nanos::from_secs(30))));
        let depth = Depth { most: 32, low: 32, submit_batch: 1, complete_min: 1, complete_max: 1 };
        assert_eq!((job.engine, job.depth, job.caching), (Engine::Libaio, depth, Caching::Direct));
        assert_eq!(job.ramp, Nanos::from_secs(5));
    }

    #[test]
    fn a_synchronous_engine_has_one_request_whatever_the_depth() {
        assert_eq!(parse(&[("iodepth", "32")]).unwrap().depth.most, 1);
    }

    #[test]
    fn batches_are_cut_at_the_depth_and_zero_means_it() {
        let job = parse(&[
            ("ioengine", "io_uring"),
            ("iodepth", "16"),
            ("iodepth_batch", "0"),
            ("iodepth_batch_complete_min", "4"),
            ("iodepth_batch_complete_max", "99"),
            ("iodepth_low", "8"),
        ])
        .unwrap();
        let depth = Depth { most: 16, low: 8, submit_batch: 16, complete_min: 4, complete_max: 16 };
        assert_eq!(job.depth, depth);
    }

    #[test]
    fn percentages_of_the_target_are_aligned_to_requests() {
        // fio 3.33 on 96 KiB with size=50% offset=30% bs=4k: 48 KiB from 32 KiB on.
        let options = [("size", "50%"), ("offset", "30%")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        let job = FioJob::parse(&options.into(), Bytes::from_kib(96)).unwrap();
        assert_eq!(
            (job.pattern.span.start, job.pattern.span.len),
            (Bytes::from_kib(32), Bytes::from_kib(48))
        );
    }

    #[test]
    fn an_amount_is_a_part_of_the_size_or_a_multiple_of_it() {
        let half = parse(&[("size", "32m"), ("io_size", "50%")]).unwrap();
        assert_eq!((half.ending.bytes, half.ending.passes), (Some(16 << 20), true));
        let more = parse(&[("size", "32m"), ("io_size", "1g")]).unwrap();
        assert_eq!((more.ending.bytes, more.pattern.span.len), (Some(1 << 30), Bytes::from_mib(32)));
    }

    #[test]
    fn what_follows_the_colon_is_a_hole_or_a_run() {
        let hole = parse(&[("rw", "write:4k")]).unwrap();
        assert_eq!(hole.pattern.access, Access::Sequential { hole: Bytes::from_kib(4) });
        for (sequencer, expected) in [("sequential", RunOf::Following(8)), ("identical", RunOf::Same(8))] {
            let job = parse(&[("rw", "randread:8"), ("rw_sequencer", sequencer)]).unwrap();
            let Access::Random { run, .. } = job.pattern.access else { panic!("not random") };
            assert_eq!(run, expected);
        }
    }

    #[test]
    fn a_map_is_kept_only_for_uniform_offsets() {
        for (options, expected) in [
            (&[("rw", "randread")][..], Coverage::EachOnce),
            (&[("rw", "randread"), ("norandommap", "")], Coverage::AsDrawn),
            (&[("rw", "randread"), ("random_distribution", "zipf:1.2")], Coverage::AsDrawn),
            (&[("rw", "randread"), ("ba", "8k")], Coverage::AsDrawn),
            (&[("rw", "randread"), ("ba", "8k"), ("bs", "8k")], Coverage::EachOnce),
        ] {
            let Access::Random { coverage, .. } = parse(options).unwrap().pattern.access else {
                panic!("not random")
            };
            assert_eq!(coverage, expected, "{options:?}");
        }
    }

    #[test]
    fn shares_that_are_left_out_take_what_is_left() {
        let job = parse(&[("bssplit", "4k/50:1k/:32k/")]).unwrap();
        let sizes = [(1, 25), (32, 25), (4, 50)].map(|(kib, share)| (Bytes::from_kib(kib), share));
        assert_eq!(job.pattern.sizes[0], BlockSizes::Split(sizes.to_vec()));
        let both = parse(&[("bssplit", "2k/50:4k/50,4k/90:8k/10"), ("rw", "rw")]).unwrap();
        assert_eq!(both.pattern.sizes[1].longest(), 8192);
    }

    #[test]
    fn distributions_are_read() {
        for (text, expected) in [
            ("zipf:1.2:0.25", Distribution::Zipf(1.2, Some(0.25))),
            ("pareto:0.2", Distribution::Pareto(0.2, None)),
            ("normal:10", Distribution::Normal(10.0, None)),
        ] {
            let job = parse(&[("rw", "randread"), ("random_distribution", text)]).unwrap();
            let Access::Random { distribution, .. } = job.pattern.access else { panic!("not random") };
            assert_eq!(distribution, expected);
        }
        let job = parse(&[("rw", "randread"), ("random_distribution", "zoned:60/10:40/90")]).unwrap();
        let Access::Random { distribution: Distribution::Zoned([zones, _]), .. } = job.pattern.access else {
            panic!("not zoned")
        };
        assert_eq!(zones[0], Zone { accesses: 60, len: Bytes::new((64 << 20) / 10) });
    }

    #[test]
    fn rates_and_pauses_have_their_units() {
        let job = parse(&[("rate", "1m,500k"), ("rate_iops", ",1000"), ("thinktime", "50")]).unwrap();
        assert_eq!(job.rate.bytes_per_second.read, Some(Bytes::from_mib(1)));
        assert_eq!(job.rate.bytes_per_second.write, Some(Bytes::from_kib(500)));
        assert_eq!((job.rate.iops.read, job.rate.iops.write), (None, Some(1000)));
        assert_eq!(job.think.unwrap().pause, Nanos::from_micros(50));
        assert_eq!(parse(&[]).unwrap().think, None);
    }

    #[test]
    fn seeds_repeat_unless_it_is_switched_off() {
        let seeding = |options| parse(options).unwrap().seeding;
        assert_eq!(seeding(&[("randseed", "7"), ("randrepeat", "0")]), Seeding::Of(7));
        assert_eq!(seeding(&[("randrepeat", "0")]), Seeding::OfTrial);
        assert_eq!(seeding(&[("randseed", "7")]), Seeding::AllButPlacesOf(7));
        assert_eq!(seeding(&[]), Seeding::Repeated);
        assert_eq!(seeding(&[("randseed", "7"), ("allrandrepeat", "1")]), Seeding::AllRepeated);
    }

    #[test]
    fn what_is_not_modelled_is_an_error_that_names_it() {
        check_refused(
            &[("registerfiles", "1")],
            expect!["cannot simulate `registerfiles = 1` of fio: the simulation does not model this option"],
        );
        check_refused(
            &[("rw", "randtrim")],
            expect!["cannot simulate `rw = randtrim` of fio: the simulation does not model trims"],
        );
        check_refused(
            &[("ioengine", "mmap")],
            expect![
                "cannot simulate `ioengine = mmap` of fio: the simulation models psync, sync, pvsync, pvsync2, libaio and io_uring"
            ],
        );
        check_refused(
            &[("verify", "crc32c")],
            expect!["cannot simulate `verify = crc32c` of fio: the simulation does not model verification"],
        );
        check_refused(
            &[("size", "60m"), ("offset_increment", "2m"), ("numjobs", "4")],
            expect![
                "cannot simulate `offset_increment = 2m` of fio: with all jobs and offsets it reaches beyond the target of 64 MiB"
            ],
        );
        check_refused(
            &[("bs", "4k"), ("blocksize", "8k")],
            expect!["cannot simulate `blocksize = 8k` of fio: `bs` is the same option"],
        );
        for options in [
            &[("rw", "sideways")][..],
            &[("rw", "read:-4k")],
            &[("bs", "0")],
            &[("bs", "128m")],
            &[("bs", "4k"), ("bsrange", "4k-8k")],
            &[("bssplit", "4k/50:8k/60")],
            &[("bssplit", "4k/50:8k/40")],
            &[("random_distribution", "zipf:1"), ("rw", "randread")],
            &[("random_distribution", "zoned:60/10:30/90"), ("rw", "randread")],
            &[("time_based", "1")],
            &[("direct", "1"), ("buffered", "1")],
            &[("offset", "64m")],
            &[("numjobs", "0")],
            &[("iodepth", "0")],
            &[("thinktime", "1.5s")],
            &[("rwmixread", "101")],
            &[("runtime", "soon")],
            &[("filenam", "x")],
        ] {
            assert!(parse(options).is_err(), "{options:?}");
        }
    }

    #[test]
    fn options_without_effect_are_passed_over() {
        for name in WITHOUT_EFFECT {
            assert!(parse(&[(name, "1")]).is_ok(), "{name}");
        }
    }
}
