//! A load as a closed loop: how many requests are in flight, and what CPU time each takes of whom.

use crate::steady;
use analysis::facts::loaded::paced;
use analysis::facts::residency::PStates;
use analysis::facts::usage::{DiskUsage, Transfers, Usage};
use analysis::stats::quantile::median;
use domain::order;
use domain::outcome::CPU_BUSY;
use domain::request::Op;
use domain::time::Nanos;
use domain::trace::{Role, Trace};
use domain::trial::{DiskTotals, Provenance, Trial, Validity};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Why a trial cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unfit {
    /// The workload failed.
    #[error("its workload failed, so that nothing was measured")]
    Failed,
    /// No work was counted.
    #[error("it counts no requests or transactions, and no block device did anything while it was recorded")]
    NoWork,
    /// The clock of its guest is not that of its machine.
    #[error(
        "its lab machine's time is dilated, so that the kernel's ticks and windows are not those of the machine"
    )]
    Dilated,
    /// It is shorter than what governors decide by.
    #[error("it lasted {0}; record for at least {SHORTEST} s, which is several windows of any governor")]
    Short(Nanos),
    /// Loads ran beside its workload: their CPU time does not follow the frequency as the load's does, and
    /// what they asked of disks is not told from the load's.
    #[error(
        "a load ran beside its workload, which is not told apart in what the CPUs and disks did; replay a trial without one"
    )]
    Beside,
    /// Samples of another tool do not count what was asked for.
    #[error(
        "its samples do not say how many requests there were; import them with the report of the tool that made these, \
         `flyball import --together REPORT SAMPLES`, or record `{RECORD}`"
    )]
    NoReport,
    /// Nobody's CPU time was recorded.
    #[error(
        "it has neither CPU time of threads nor how busy each CPU was (`sar -u -P ALL` shows that); record `{RECORD}`"
    )]
    NoCpuTime,
    /// Events do not say who ran.
    #[error("none of its events says who ran (sched:sched_switch), or these were lost; record `{RECORD}`")]
    NoSwitches,
    /// Events say who ran for a part of the time alone.
    #[error(
        "who ran is not known for more than 5% of the CPUs' time: events were lost, or those of one command alone were recorded; \
         record all CPUs, `{RECORD}`, with larger buffers (`-m 64M`) if it says that it lost events"
    )]
    UnknownTime,
    /// Events do not say when requests were on their way.
    #[error(
        "none of its events says when a request began and when it ended (block:block_rq_issue, block:block_rq_complete), or no \
         block device did anything; record `{RECORD}` while the load runs"
    )]
    NoRequests,
}

/// What another tool has to record.
const RECORD: &str = "perf record -a -e sched:sched_switch,sched:sched_waking,block:block_rq_issue,block:block_rq_complete,\
power:cpu_frequency -- sleep 10";

/// What a recording does not hold, so that both ends of it are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotRecorded {
    /// CPU time of interrupts that came while a CPU was idle.
    Interrupts,
    /// Whether an idle CPU waited for I/O.
    WaitsForIo,
    /// Whose CPU time was whose: all of it is the load's, in as many threads as there are requests.
    Roles,
}

impl NotRecorded {
    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Interrupts => "interrupts_of_idle_cpus",
            Self::WaitsForIo => "waits_for_io",
            Self::Roles => "roles",
        }
    }
}

/// The CPU time of a request in threads of one kind, one after the other with those of the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Whose.
    pub role: Role,
    /// Seconds of CPU time for a request, at the frequencies of the recording.
    pub seconds: f64,
    /// Threads among which requests are spread.
    pub threads: u32,
}

/// A load that was recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Requests, transactions or whatever the workload counts, a second.
    pub rate: f64,
    /// What is counted: `iops`, `transactions`, `requests of vda`.
    pub counted: String,
    /// Requests in flight. One that is on its way through the CPUs counts.
    pub in_flight: u32,
    /// Whether that number is the workload's own, and not estimated by Little's law.
    pub in_flight_known: bool,
    /// CPU time of threads; the load's own programs first.
    pub demands: Vec<Demand>,
    /// The share of CPU time that passes while the request's device works on it, at most. Seen where one
    /// request is in flight alone: its CPU time and its disk's time are more than it took. A disk's time
    /// holds what its interrupt waits for the CPU, so that it may be less.
    pub overlap: f64,
    /// Seconds from a disk's request to its end, mean, of the slowest disk below all layers; `None` where it
    /// was not counted.
    pub disk_latency: Option<f64>,
    /// CPU time of interrupts for a request, in seconds.
    pub interrupts: f64,
    /// Whether a CPU that waits for the device counts as waiting for I/O (`iowait` of `/proc/stat`).
    pub waits_for_io: bool,
    /// Mean frequency in Hz, idle time included, of the policy whose CPU was busiest; where no time at
    /// frequencies was recorded, that CPU's own while it was not idle, by APERF and MPERF; else `None`.
    pub frequency: Option<f64>,
    /// CPU time a second of what runs beside the load, in CPUs.
    pub beside: f64,
    /// What the kernel's tick executes on a CPU that is busy, in seconds at the highest frequency.
    pub tick: f64,
    /// What was not recorded of all this.
    pub not_recorded: BTreeSet<NotRecorded>,
}

/// Instructions of a tick: timekeeping, accounting, RCU. By the plugin's record of two trials of the lab at
/// two speeds: what they execute a second, less what their requests do. A CPU of 14 million instructions a
/// second takes a fifth of them for its 250 ticks; of a CPU of today that is nothing.
const TICK: f64 = 10_500.0;

/// More requests in flight than these tell nothing more, and take memory.
const MOST_IN_FLIGHT: u32 = 4096;

/// Rates that a load may have, a second; others are damage.
const RATES: std::ops::Range<f64> = 1e-3..1e9;

/// A trial that is shorter, in seconds, is not replayed.
const SHORTEST: f64 = 0.5;

/// Metrics that count work, the most fitting first.
const WORK: [&str; 3] = ["iops", "transactions", "queries"];

/// Counters of CPU time are this exact, in cores.
const MEASURED_BY: f64 = 0.03;

/// A thread that used less than this share of what the busiest of its kind used has no part in the work.
const PART: f64 = 0.05;

/// Less CPU time than this share of the whole is no step of a request.
const STEP: f64 = 0.01;

/// Idle CPUs wait for I/O where so much of the idle time is counted so.
const IOWAIT: f64 = 0.2;

/// Threads for which no request waits.
const BESIDE: [Role; 2] = [Role::Flyball, Role::Kernel];

/// A command that lets time pass while all else is recorded is no load: `perf record -a -- sleep 10`.
const SLEEPERS: [&str; 1] = ["sleep"];

/// Programs that record, of other tools.
const RECORDERS: [&str; 2] = ["perf", "trace-cmd"];

impl Load {
    /// The load of a trial, by the part of its trace in which it was under way; `depth`: how many requests
    /// its workload keeps in flight, where its options say.
    ///
    /// # Errors
    /// [`Unfit`].
    pub fn of(trial: &Trial, trace: &Trace, depth: Option<u32>) -> Result<Self, Unfit> {
        let steady = steady::steady(&paced(trace.clone(), trial.lab.as_ref()));
        Self::of_usage(trial, &Usage::of(&steady), steady::roles(&steady), depth)
    }

    /// The same by what a trace shows; `roles`: CPU time by role, in CPUs, where that was sampled.
    ///
    /// # Errors
    /// [`Unfit`].
    pub fn of_usage(
        trial: &Trial,
        usage: &Usage,
        roles: Option<BTreeMap<Role, f64>>,
        depth: Option<u32>,
    ) -> Result<Self, Unfit> {
        let measured = trial.measurement.as_ref().ok_or(Unfit::Failed)?;
        if matches!(trial.validity, Validity::Failed(_)) {
            return Err(Unfit::Failed);
        }
        if trial.lab.as_ref().is_some_and(|lab| (lab.dilation - 1.0).abs() > 1e-6) {
            return Err(Unfit::Dilated);
        }
        let seconds = measured.duration.secs();
        if seconds < SHORTEST {
            return Err(Unfit::Short(measured.duration));
        }
        let is_of_events = is_of_events(trial, usage);
        let of_trial = || measured.roles.iter().map(|(role, used)| (*role, used.secs() / seconds)).collect();
        let mut roles: BTreeMap<Role, f64> = roles.unwrap_or_else(of_trial);
        if roles.contains_key(&Role::Beside) || measured.roles.contains_key(&Role::Beside) {
            return Err(Unfit::Beside);
        }
        let has_roles = !roles.is_empty();
        if is_of_events && !has_roles {
            return Err(Unfit::NoSwitches);
        }
        if is_of_events && trial.metric(CPU_BUSY).is_none() {
            return Err(Unfit::UnknownTime);
        }
        let no_work = match trial.provenance {
            Provenance::Imported if is_of_events => Unfit::NoRequests,
            Provenance::Imported => Unfit::NoReport,
            _ => Unfit::NoWork,
        };
        let (counted, rate) = rate(trial, usage).filter(|(_, rate)| RATES.contains(rate)).ok_or(no_work)?;
        if !has_roles {
            let executed = usage.cpus.iter().map(|(_, cpu)| cpu.user + cpu.system).sum::<f64>();
            roles.extend((executed > 0.0).then_some((Role::Other, executed)));
        }
        // Where no command or process was followed, what the machine's programs did is the load.
        let is_followed =
            roles.contains_key(&Role::Workload) && share_of(trial, Role::Workload, &SLEEPERS) < 1.0;
        let is_beside = |role: &Role| match role {
            Role::Workload => !is_followed,
            Role::Other => is_followed,
            other => BESIDE.contains(other),
        };
        let recorders = match roles.get_mut(&Role::Other).filter(|_| !is_followed) {
            Some(others) => {
                let own = *others * share_of(trial, Role::Other, &RECORDERS);
                *others -= own;
                own
            }
            None => 0.0,
        };
        let of_load = roles.iter().filter(|(role, _)| !is_beside(role) && **role != Role::Interrupt);
        let of_load: BTreeMap<Role, f64> = of_load.map(|(role, used)| (*role, *used)).collect();
        let whole: f64 = of_load.values().sum();
        if whole <= 0.0 {
            return Err(Unfit::NoCpuTime);
        }
        let cpus = usage.cpus.len().max(1) as f64;
        let counted_interrupts = usage.machine.map_or(0.0, |machine| machine.interrupts * cpus);
        let own_threads = roles.get(&Role::Interrupt).copied().unwrap_or(0.0);
        let beside: f64 = roles.iter().filter(|(role, _)| is_beside(role)).map(|(_, used)| used).sum();
        let estimated = depth_below(usage) + whole;
        let iowait = usage.machine.map(|machine| {
            let idle = 1.0 - machine.busy() - machine.steal;
            if idle > 0.0 { machine.iowait / idle } else { 0.0 }
        });
        // The tick sees few interrupts, and no thread's time has those of an idle CPU: the idle time tells.
        let of_threads: f64 = roles.values().sum::<f64>() + recorders;
        let of_idle = usage.executed.filter(|_| has_roles).map_or(0.0, |executed| executed - of_threads);
        let interrupts = counted_interrupts.max(own_threads + of_idle.max(0.0));
        let cores = whole + interrupts;
        // Read-ahead and writeback go on beside the request that a tool waits for.
        let in_flight = depth.unwrap_or(estimated.round() as u32).max((cores - MEASURED_BY).ceil() as u32);
        let in_flight = in_flight.clamp(1, MOST_IN_FLIGHT);
        let demand = |(role, used): (Role, f64)| Demand {
            role,
            seconds: used / rate,
            threads: if has_roles { threads(trial, role) } else { in_flight },
        };
        let mut demands: Vec<Demand> =
            of_load.into_iter().filter(|(_, used)| *used >= STEP * whole).map(demand).collect();
        order::by_key(&mut demands, |demand| !matches!(demand.role, Role::Workload | Role::Other));
        let disk_latency = service(trial).or_else(|| disk_latency(usage));
        let both = disk_latency.map_or(0.0, |latency| cores + latency * rate - 1.0);
        let not_recorded = [
            (NotRecorded::Interrupts, is_of_events),
            (NotRecorded::WaitsForIo, is_of_events),
            (NotRecorded::Roles, !has_roles),
        ];
        Ok(Self {
            overlap: if in_flight == 1 { (both / cores).clamp(0.0, 1.0) } else { 0.0 },
            disk_latency,
            rate,
            counted,
            in_flight,
            in_flight_known: depth == Some(in_flight),
            demands,
            interrupts: interrupts / rate,
            waits_for_io: iowait.map_or(is_of_events, |share| share >= IOWAIT),
            frequency: frequency(usage),
            beside: beside + recorders,
            tick: trial
                .lab
                .as_ref()
                .and_then(|lab| lab.pacing.as_ref())
                .map_or(0.0, |pacing| TICK / pacing.pace),
            not_recorded: not_recorded.into_iter().filter(|(_, is)| *is).map(|(what, _)| what).collect(),
        })
    }

    /// How much work other trials did a second, of that of this load's trial: the median. `None` where they
    /// do not count what it counts.
    pub fn measured_ratio(&self, own: &Trial, others: &[&Trial]) -> Option<f64> {
        let metric = WORK.into_iter().find(|name| **name == self.counted).unwrap_or("throughput");
        let own = own.metric(metric).filter(|rate| *rate > 0.0)?;
        let others: Vec<f64> = others.iter().filter_map(|trial| trial.metric(metric)).collect();
        Some(median(&others)? / own)
    }

    /// CPU time of all that ran, by request: what ran beside the load included.
    pub(crate) fn all_cpu_seconds(&self) -> f64 {
        self.cpu_seconds() + self.beside / self.rate
    }

    /// CPU time of a request, in seconds at the frequencies of the recording.
    pub fn cpu_seconds(&self) -> f64 {
        self.demands.iter().map(|demand| demand.seconds).sum::<f64>() + self.interrupts
    }
}

/// What is counted, and how much of it a second.
fn rate(trial: &Trial, usage: &Usage) -> Option<(String, f64)> {
    let metric = |name: &&str| Some(((*name).to_owned(), trial.metric(name).filter(|rate| *rate > 0.0)?));
    let device = || {
        let disk = usage.disks.first()?;
        let rate = disk.read.rate + disk.write.rate;
        (rate > 0.0).then(|| (format!("requests of {}", disk.device), rate))
    };
    WORK.iter().find_map(metric).or_else(device)
}

/// Whether a device hands its requests to threads, whose time is not the disk's. A file without names has
/// numbers of devices: 7 is loop's, 9 md's (Documentation/admin-guide/devices.txt of the kernel).
fn is_mapping(name: &str) -> bool {
    ["dm-", "loop", "7:"].iter().any(|start| name.starts_with(start))
}

/// Whether the time of its requests is a disk's own.
fn is_disk(name: &str) -> bool {
    !["md", "9:"].iter().any(|start| name.starts_with(start)) && !is_mapping(name)
}

/// Requests in flight below the threads of mappings, mean.
fn depth_below(usage: &Usage) -> f64 {
    let below = usage.disks.iter().filter(|disk| !is_mapping(&disk.device));
    below.filter_map(|disk| disk.depth).fold(0.0, f64::max)
}

/// Seconds from the driver to the completion, mean, where that was recorded: of the slowest disk that did a
/// tenth as much as the busiest. Unlike what the kernel counts, it has no time in which a request waited for
/// a CPU: in a plug, or in a queue.
fn service(trial: &Trial) -> Option<f64> {
    let of_disk = |disk: &DiskTotals| {
        let took = [Op::Read, Op::Write].into_iter().filter_map(|op| disk.served.get(&op));
        took.fold((0, 0.0), |(count, sum), served| {
            (count + served.service.count, sum + served.service.sum.secs())
        })
    };
    let disks = trial.measurement.iter().flat_map(|measured| &measured.disks);
    let disks: Vec<(u64, f64)> = disks.filter(|disk| is_disk(&disk.device)).map(of_disk).collect();
    let most = disks.iter().map(|(count, _)| *count).max().filter(|most| *most > 0)?;
    let means = disks.iter().filter(|(count, _)| *count * 10 >= most).map(|(count, sum)| sum / *count as f64);
    means.max_by(f64::total_cmp)
}

/// By what the kernel counts, of the slowest disk that did a tenth as much as the busiest.
fn disk_latency(usage: &Usage) -> Option<f64> {
    let disks: Vec<&DiskUsage> = usage.disks.iter().filter(|disk| is_disk(&disk.device)).collect();
    let rate = |disk: &DiskUsage| disk.read.rate + disk.write.rate;
    let most = disks.iter().map(|disk| rate(disk)).fold(0.0, f64::max);
    let mean = |disk: &&DiskUsage| {
        let time = |way: &Transfers| way.latency.map_or(0.0, |latency| latency * way.rate);
        (rate(disk) >= 0.1 * most && most > 0.0).then(|| (time(&disk.read) + time(&disk.write)) / rate(disk))
    };
    disks.iter().filter_map(mean).filter(|latency| *latency > 0.0).max_by(f64::total_cmp)
}

/// Whether it is an import of which events alone say what CPUs did.
fn is_of_events(trial: &Trial, usage: &Usage) -> bool {
    let tool = trial.measurement.as_ref().map_or("", |measured| measured.outcome.tool.as_str());
    let is_of_recorder = RECORDERS.iter().any(|name| tool.starts_with(name));
    let has_events = is_of_recorder || !usage.ran.is_empty();
    trial.provenance == Provenance::Imported && usage.machine.is_none() && has_events
}

/// Which share of the CPU time of a role's threads is that of threads of these names. A trial names those
/// that used most.
fn share_of(trial: &Trial, role: Role, names: &[&str]) -> f64 {
    let all = trial.measurement.iter().flat_map(|measured| &measured.threads);
    let of_role: Vec<_> = all.filter(|thread| thread.role == role).collect();
    let whole: f64 = of_role.iter().map(|thread| thread.cpu.secs()).sum();
    let named = of_role.iter().filter(|thread| names.contains(&thread.name.as_str()));
    if whole > 0.0 { named.map(|thread| thread.cpu.secs()).sum::<f64>() / whole } else { 0.0 }
}

/// How many threads of a kind share the work.
fn threads(trial: &Trial, role: Role) -> u32 {
    let all = trial.measurement.iter().flat_map(|measured| &measured.threads);
    let used: Vec<f64> = all.filter(|thread| thread.role == role).map(|thread| thread.cpu.secs()).collect();
    let most = used.iter().copied().fold(0.0, f64::max);
    used.iter().filter(|used| **used > 0.0 && **used >= PART * most).count().max(1) as u32
}

/// Of the policy whose CPU was busiest.
fn frequency(usage: &Usage) -> Option<f64> {
    let mean = |shares: &[(domain::units::Hertz, f64)]| {
        shares.iter().map(|(at, share)| at.hz() as f64 * share).sum::<f64>()
    };
    let busy = usage.cpus.iter().map(|(cpu, used)| (*cpu, used.busy())).chain(usage.ran.iter().copied());
    let (busiest, _) = busy.max_by(|(_, a), (_, b)| a.total_cmp(b))?;
    // Policies are numbered by their first CPU.
    let number = |name: &str| name.strip_prefix("policy")?.parse::<u32>().ok();
    let of_busiest = |states: &&PStates| match number(&states.policy) {
        Some(first) => first <= busiest,
        None => states.policy == format!("cpu{busiest}"),
    };
    let policies = usage.pstates.iter().filter(of_busiest);
    let policy = policies.max_by_key(|states| number(&states.policy));
    let by_policy = policy.map(|policy| mean(&policy.shares)).filter(|hz| *hz > 0.0);
    // Where the processor chooses, its counters alone tell: of the time in which it was not idle.
    by_policy.or_else(|| Some(usage.awake.iter().find(|(cpu, _)| *cpu == busiest)?.1.hertz))
}
