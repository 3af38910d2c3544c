//! A cell's workload as jobs, as a database's clients, or as Bonnie's phases: fio's, sysbench's and bonnie's
//! options and dd's operands, with what they cost this machine's CPUs.

use crate::assemble::{self, LoadTarget, SimRequest, TargetKind};
use crate::cpu::Cost;
use crate::load::bonnie::{BUFFER, BonnieSpec};
use crate::load::burner::BurnerSpec;
use crate::load::fio::{Engine, FioJob, Pace, Stream};
use crate::load::jobs::{JobSpec, RequestSource};
use crate::load::oltp::{self, OltpSpec};
use crate::load::{Copied, DdLoad, LoadError, ReplayTarget, Replayed};
use domain::bench::BenchError;
use domain::rng::Seed;
use domain::study::{Companion, Tool, Workload};
use domain::time::Nanos;
use domain::units::Bytes;
use event_queue::Time;
use std::collections::BTreeMap;
use workloads::Cache;
use workloads::bonnie::options::{Bonnie, Flavour};
use workloads::server::{self, Kind};
use workloads::sysbench::options::{Oltp, Test};

/// What a load's own tool reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reports {
    /// fio's metrics.
    Fio,
    /// dd's.
    Dd,
    /// How long it took, as of any command.
    Elapsed,
}

/// How a job asks, and for what.
pub(crate) type Job = (JobSpec, Box<dyn RequestSource>);

/// What runs.
pub(crate) enum Load {
    /// Jobs, and what is reported of them.
    Jobs(Vec<Job>, Reports),
    /// A database and its clients.
    Oltp(OltpSpec),
    /// Bonnie's phases.
    Bonnie(BonnieSpec),
}

/// What runs beside the workload, until that is done.
pub(crate) enum Beside {
    /// Jobs on the workload's target.
    Jobs(Vec<Job>),
    /// Threads that only compute.
    Burner(BurnerSpec),
}

/// The loads beside a cell's workload, by name.
pub(crate) fn beside(
    order: &SimRequest<'_>,
    target: LoadTarget,
) -> Result<Vec<(String, Beside)>, BenchError> {
    let of_one = |load: &Workload| {
        let refused = |why: String| {
            BenchError::Unsupported(format!("the load `{}` beside the workload: {why}", load.name))
        };
        if load.tool != Tool::Fio {
            let program = load.tool.command().map_or(&[][..], |(argv, _)| argv).first();
            let program = program.map_or(load.tool.name(), String::as_str);
            return Err(refused(format!(
                "the simulation knows fio, and not what `{program}` would do; a CPU is kept busy by fio with \
                 `ioengine = \"cpuio\"` and `cpuload = 100`"
            )));
        }
        if workloads::of(&load.tool).is_of_the_cpu(&load.options) {
            let spec = BurnerSpec::parse(&load.options).map_err(|error| refused(error.to_string()))?;
            return Ok(Beside::Burner(spec));
        }
        if target.size == 0 {
            return Err(refused("there is nothing that it could read or write".into()));
        }
        let job = FioJob::parse(&load.options, Bytes::new(target.size));
        let job = job.map_err(|error| refused(error.to_string()))?;
        let seed = Seed(order.seed.stream(&format!("beside {}", load.name)).bits());
        fio(&SimRequest { seed, ..*order }, target, &job).map(Beside::Jobs)
    };
    let named = |companion: &Companion| Ok((companion.load.name.clone(), of_one(&companion.load)?));
    order.cell.beside.iter().map(named).collect()
}

/// The load of a cell.
pub(crate) fn of(order: &SimRequest<'_>, target: LoadTarget) -> Result<Load, BenchError> {
    let workload = &order.cell.workload;
    let size = Bytes::new(target.size);
    let unsupported = |error: LoadError| BenchError::Unsupported(error.to_string());
    match &workload.tool {
        Tool::Fio => {
            let mut job = FioJob::parse(&workload.options, size).map_err(unsupported)?;
            if !workload.options.contains_key(workloads::fio::START_DELAY.0) {
                job.start_delay = (order.machine.start_delay, order.machine.start_delay);
            }
            let (begin, end) = (order.machine.costs.once("fio_start"), order.machine.costs.once("fio_end"));
            let jobs = fio(order, target, &job)?.into_iter();
            let jobs = jobs.map(|(spec, asks)| (JobSpec { begin, end, ..spec }, asks));
            Ok(Load::Jobs(jobs.collect(), Reports::Fio))
        }
        Tool::Dd => {
            let dd = DdLoad::parse(&workload.options, size).map_err(unsupported)?;
            Ok(Load::Jobs(vec![copy(order, target, &dd)], Reports::Dd))
        }
        Tool::Sysbench => database(order, target).map(Load::Oltp),
        Tool::Bonnie => bonnie(order, target).map(Load::Bonnie),
        Tool::Pgbench => {
            Err(BenchError::Unsupported("the simulation knows no pgbench; it has sysbench's OLTP".into()))
        }
        Tool::Imported => Err(BenchError::Unsupported(
            "its results were imported, and nothing tells how they were made".into(),
        )),
        Tool::Recorded => Err(BenchError::Unsupported(
            "a recording says what happened, and not how to make it again".into(),
        )),
        Tool::Running => Err(BenchError::Unsupported(
            "a load that runs already runs on one host, and a simulation has none".into(),
        )),
        _ => command(order, target),
    }
}

/// A command that is dd, with whatever clock Flyball has; of no other is it known what it would do.
fn command(order: &SimRequest<'_>, target: LoadTarget) -> Result<Load, BenchError> {
    let tool = &order.cell.workload.tool;
    let argv = tool.command().map_or(&[][..], |(argv, _)| argv);
    let program = argv.first().map_or(tool.name(), String::as_str);
    if program != "dd" {
        return Err(BenchError::Unsupported(format!(
            "the simulation knows fio, dd, sysbench and bonnie, and not what `{program}` would do"
        )));
    }
    let dd = DdLoad::parse(&operands(argv), Bytes::new(target.size))
        .map_err(|error| BenchError::Unsupported(error.to_string()))?;
    Ok(Load::Jobs(vec![copy(order, target, &dd)], Reports::Elapsed))
}

/// Whether a load of a cell goes through the page cache of a device.
pub(crate) fn caching(order: &SimRequest<'_>) -> assemble::Caching {
    let is_buffered = |load: &Workload| workloads::of(&load.tool).profile(load).cache == Cache::Buffered;
    if is_buffered(&order.cell.workload) || beside_on_the_target(order).any(is_buffered) {
        return assemble::Caching::Buffered;
    }
    assemble::Caching::Direct
}

/// The loads beside the workload that use its target.
fn beside_on_the_target<'a>(order: &SimRequest<'a>) -> impl Iterator<Item = &'a Workload> {
    let beside = order.cell.beside.iter().map(|companion| &companion.load);
    beside.filter(|load| !workloads::of(&load.tool).is_of_the_cpu(&load.options))
}

/// Bytes of a row with its index: ten million rows are some 2.4 GB (InnoDB, `sbtest1`).
const ROW_BYTES: u64 = 240;

/// What a client elsewhere takes from an answer to its next statement: as much as sysbench on a CPU of 2 GHz.
/// Assumed.
const CLIENT_NS: Time = 15_000;

fn database(order: &SimRequest<'_>, target: LoadTarget) -> Result<OltpSpec, BenchError> {
    let unsupported = |why: String| BenchError::Unsupported(why);
    let load = Oltp::parse(&order.cell.workload.options).map_err(|error| unsupported(error.to_string()))?;
    if load.server.kind != Kind::MariaDb {
        return Err(unsupported(format!(
            "the simulated server is a MariaDB, and `server` is `{}`; take it out",
            load.server.kind.name()
        )));
    }
    if let Some(setting) = load.server.settings.keys().next() {
        return Err(unsupported(format!(
            "the simulated server has no settings; take `{}{setting}` out",
            server::PREFIX
        )));
    }
    let machine = order.machine;
    let data = Bytes::new(u64::from(load.tables) * load.table_size * ROW_BYTES);
    if data.get() > machine.memory.get() / 2 {
        return Err(unsupported(format!(
            "{} tables of {} rows are about {data}, and of the machine's memory of {} a half is taken to hold them; the simulation \
             knows no database that reads from its disk: make `table_size` smaller",
            load.tables, load.table_size, machine.memory
        )));
    }
    if load.test == Test::ReadWrite && target.size < 1 << 20 {
        return Err(unsupported(format!(
            "`oltp_read_write` flushes a log at each commit, and the machine `{}` has no disk for it; add a [[disk]] to it, or a \
             [[lab.disk]] to the study",
            machine.name
        )));
    }
    let costs = &machine.costs;
    let transaction = Cost { stall_ns: costs.stall_ns("transaction_stall_ns"), ..costs.once("transaction") };
    Ok(OltpSpec {
        clients: load.threads,
        statements: oltp::statements(load.test, transaction),
        spread: 0.5,
        client: costs.once("client"),
        packet: costs.once("packet"),
        client_ns: CLIENT_NS,
        network: load.network,
        think: load.think.get(),
        until: load.time.map(Nanos::get),
        events: load.events,
        rate: load.rate,
        bursts: load.bursts.map(|bursts| (bursts.period.get(), bursts.on.get())),
        log: (target.size > 0).then_some((target.part, target.size)),
    })
}

/// Bonnie on a file that is as large as all of its files.
fn bonnie(order: &SimRequest<'_>, target: LoadTarget) -> Result<BonnieSpec, BenchError> {
    let unsupported = |why: String| BenchError::Unsupported(why);
    let load = Bonnie::parse(&order.cell.workload.options).map_err(|error| unsupported(error.to_string()))?;
    let total = load.total(order.machine.memory);
    if target.kind != TargetKind::File || target.size < total.get() {
        return Err(unsupported("bonnie makes files, and needs a filesystem that holds them".into()));
    }
    let costs = &order.machine.costs;
    let chars = |name| match load.flavour {
        Flavour::Bonnie1 => costs.of_bytes(name, BUFFER),
        Flavour::BonniePlusPlus => costs.of_bytes("byte_call", BUFFER),
    };
    Ok(BonnieSpec {
        total,
        call: costs.once("submit"),
        back: costs.once("complete"),
        chars_written: chars("putc"),
        chars_read: chars("getc"),
        load,
    })
}

/// dd's operands as a command has them, in the words of a workload with the tool dd.
fn operands(argv: &[String]) -> BTreeMap<String, String> {
    let mut operands: BTreeMap<String, String> = argv
        .iter()
        .skip(1)
        .filter_map(|word| word.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    operands.remove("status");
    let input = operands.remove("if").unwrap_or_default();
    let output = operands.remove("of").unwrap_or_default();
    if !["", "/dev/null"].contains(&output.as_str()) {
        operands.insert("direction".into(), "write".into());
        let random = ["/dev/urandom", "/dev/random"].contains(&input.as_str());
        operands.insert("source".into(), if random { "random" } else { "zero" }.into());
    }
    operands
}

fn job(order: &SimRequest<'_>, name: &str) -> JobSpec {
    let costs = &order.machine.costs;
    JobSpec {
        name: name.to_owned(),
        depth: 1,
        sleeps_on_disk: true,
        flushes_in_flight: false,
        start: 0,
        counted_from: 0,
        until: None,
        rate_iops: None,
        rate_bytes: None,
        think: None,
        begin: Cost::NONE,
        end: Cost::NONE,
        submit: costs.once("submit"),
        complete: costs.once("complete"),
        pause: costs.once("fio_pause"),
        page: costs.once("direct_page"),
        page_end: costs.once("direct_page_end"),
        byte_cycles_1024: costs.byte_1024("touch_byte"),
    }
}

fn fio(order: &SimRequest<'_>, target: LoadTarget, fio: &FioJob) -> Result<Vec<Job>, BenchError> {
    let refuse =
        |what: &str| Err(BenchError::Unsupported(format!("the simulation does not model fio's {what}")));
    let depth = &fio.depth;
    if depth.low != depth.most || depth.submit_batch != 1 || depth.complete_min > 1 {
        return refuse("batches (`iodepth_low`, `iodepth_batch…`)");
    }
    if fio.rate.pace == Pace::Poisson {
        return refuse("`rate_process = poisson`");
    }
    let rates = (fio.rate.bytes_per_second, fio.rate.iops);
    if rates.0.read != rates.0.write || rates.1.read != rates.1.write {
        return refuse("rates that differ between reads and writes");
    }
    if fio.think.is_some_and(|think| think.spin.get() > 0 || think.io_time.is_some()) {
        return refuse("`thinktime_spin` and `thinktime_iotime`");
    }
    if fio.start_delay.0 != fio.start_delay.1 {
        return refuse("start delays at random");
    }
    let start = fio.start_delay.0.get();
    let counted_from = start + fio.ramp.get();
    let spec = JobSpec {
        depth: if fio.engine == Engine::Synchronous { 1 } else { depth.most },
        sleeps_on_disk: fio.engine == Engine::Synchronous,
        flushes_in_flight: fio.engine == Engine::IoUring,
        start,
        counted_from,
        until: fio.ending.runtime.map(|runtime| counted_from + runtime.get()),
        rate_iops: rates.1.read,
        rate_bytes: rates.0.read.map(Bytes::get),
        think: fio
            .think
            .map(|think| (think.pause.get() as Time, think.blocks.clamp(1, u64::from(u32::MAX)) as u32)),
        ..job(order, "fio")
    };
    if let Some(replay) = &fio.replay {
        let trace = order.models.trace(&replay.file).map_err(BenchError::Unsupported)?;
        let target = ReplayTarget { size: target.size, is_cached: target.kind != TargetKind::Device };
        let asks = Replayed::new(&trace, replay, fio.manner(), start, target).map_err(|why| {
            BenchError::Unsupported(format!("cannot replay the trace `{}`: {why}", replay.file))
        })?;
        let job = || (spec.clone(), Box::new(asks.clone()) as Box<dyn RequestSource>);
        return Ok((0..fio.jobs).map(|_| job()).collect());
    }
    let jobs = (0..fio.jobs).map(|number| {
        let asks = Stream::new(fio, number, order.seed);
        (spec.clone(), Box::new(asks) as Box<dyn RequestSource>)
    });
    Ok(jobs.collect())
}

fn copy(order: &SimRequest<'_>, target: LoadTarget, dd: &DdLoad) -> Job {
    let made = match dd.copied {
        Copied::FromTarget => 0,
        Copied::ZerosToTarget => order.machine.costs.byte_1024("zero_byte"),
        Copied::RandomToTarget => order.machine.costs.byte_1024("random_byte"),
    };
    let job = job(order, "dd");
    let job = JobSpec { byte_cycles_1024: job.byte_cycles_1024 + made, ..job };
    let is_last = target.kind == TargetKind::CachedDevice && beside_on_the_target(order).next().is_none();
    let closes = is_last.then_some(Bytes::new(target.size));
    (job, Box::new(dd.requests(closes)))
}
