//! Fitting what was not seen of a load: so that its recorded rate and CPU time come out under the policy that
//! was in force.

use crate::flows::{Ran, Unseen, run};
use crate::load::{Load, NotRecorded};
use crate::machine::Machine;
use domain::bench::BenchError;
use domain::setting::SettingRequest;
use domain::time::Nanos;
use governors::autonomous::{AutonomousSpec, Permille};
use sim::cpu::Begins;

/// How well the model gives what was recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    /// Requests a second of the model, of those recorded. Fitted; 1 where it could be.
    pub rate: f64,
    /// CPU time of a request likewise.
    pub cpu: f64,
    /// Mean frequency of the model, of that recorded: not fitted. `None` where none was recorded.
    pub frequency: Option<f64>,
    /// Seconds that a request waits for its device, in the model.
    pub wait: f64,
}

impl Fit {
    /// The largest deviation of what is fitted, as a share.
    pub fn error(&self) -> f64 {
        (self.rate - 1.0).abs().max((self.cpu - 1.0).abs())
    }

    /// Whether the model gives what was recorded, its frequency included, so that its predictions mean
    /// something.
    pub fn is_good(&self) -> bool {
        let off = self.frequency.map_or(0.0, |ratio| (ratio - 1.0).abs());
        self.error() <= FITS_WITHIN && off <= FREQUENCY_WITHIN
    }
}

/// A load that is fitted to a machine, to be run under other policies.
#[derive(Clone, Debug)]
pub struct Replay {
    pub(crate) machine: Machine,
    pub(crate) load: Load,
    /// Fits at the ends of what is not known; the first is the most likely.
    pub(crate) ends: Vec<FittedEnd>,
    fit: Fit,
}

/// Rate and CPU time are fitted this closely, or the model does not fit.
const FITS_WITHIN: f64 = 0.1;
/// The frequency is not fitted, and is recorded in samples.
const FREQUENCY_WITHIN: f64 = 0.2;

/// The share of CPU time that waits for memory at most, where no counter tells: assumed. The kernel's part of
/// storage moves few bytes that are not in a cache, or streams them.
pub const MOST_STALLED: f64 = 0.25;

/// CPU time of interrupts that no event shows, as a share of what is shown of a request's, at most: assumed.
/// An interrupt that comes while a CPU is idle takes none of anybody's time.
pub const UNSEEN_INTERRUPTS: f64 = 0.25;

/// Steps of a fit; each takes a run.
const STEPS: usize = 14;
/// Closer than this is close enough.
const CLOSE: f64 = 0.004;
/// CPU time is counted so closely.
const COUNTED_WITHIN: f64 = 0.06;

impl Replay {
    /// Fits a load.
    ///
    /// # Errors
    /// [`BenchError`] where the models refuse a setting that was in force.
    pub fn new(machine: Machine, load: Load) -> Result<Self, BenchError> {
        let all = ends(&machine, &load);
        let fitted = all.into_iter().map(|end| fitted(&machine, &load, end));
        let mut ends = fitted.collect::<Result<Vec<FittedEnd>, _>>()?;
        // Where the governor was, and how the processor chooses, the recording itself tells.
        let off = |at: &usize| {
            load.frequency.map_or(0.0, |recorded| (ends[*at].ran.frequency / recorded - 1.0).abs())
        };
        let told =
            (1..ends.len()).filter(|at| ends[*at].differs_in_policy(&ends[0]) && ends[*at].fits(&load));
        let nearest = told.min_by(|a, b| off(a).total_cmp(&off(b)));
        if let Some(nearest) = nearest.filter(|nearest| off(nearest) + CLOSE < off(&0)) {
            ends.swap(0, nearest);
        }
        let FittedEnd { unseen, ran, .. } = ends[0];
        let fit = Fit {
            rate: ran.rate / load.rate,
            cpu: ran.cpu_seconds / load.all_cpu_seconds(),
            frequency: load.frequency.map(|recorded| ran.frequency / recorded),
            wait: unseen.wait,
        };
        Ok(Self { machine, load, ends, fit })
    }

    /// How well it gives what was recorded.
    pub fn fit(&self) -> Fit {
        self.fit
    }

    /// What was in force while it was recorded.
    pub fn in_force(&self) -> &[SettingRequest] {
        &self.machine.in_force
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// The load.
    pub fn load(&self) -> &Load {
        &self.load
    }
}

/// An end of what is not known.
#[derive(Clone, Copy)]
struct End {
    in_flight: u32,
    stalled: f64,
    overlap: f64,
    spread: f64,
    /// Seconds of interrupts' CPU time for a request.
    interrupts: f64,
    waits_for_io: bool,
    device_limit: Option<f64>,
    begins: Begins,
    hardware: AutonomousSpec,
    wait: Wait,
    /// How closely rate and CPU time have to come out, as a share.
    within: f64,
}

/// How long a request waits for its device.
#[derive(Clone, Copy)]
enum Wait {
    /// As long as the rate tells, this to begin with at most: where CPUs have no time left, any shorter wait
    /// gives the same rate.
    Fitted(f64),
    /// Not at all: what it waits for is other requests' CPU time.
    None,
}

/// The most likely first, then the ends, each of one unknown alone.
fn ends(machine: &Machine, load: &Load) -> Vec<End> {
    let usual = End {
        in_flight: load.in_flight,
        stalled: 0.0,
        overlap: load.overlap / 2.0,
        spread: SPREAD,
        interrupts: load.interrupts,
        waits_for_io: load.waits_for_io,
        device_limit: None,
        // Any load pauses at times, after which a governor comes up again.
        begins: Begins::Idle,
        hardware: machine.spec.cpu.hardware,
        wait: Wait::Fitted(load.disk_latency.unwrap_or(f64::MAX)),
        within: CLOSE,
    };
    let mut all = vec![
        usual,
        End { begins: Begins::New, ..usual },
        End { stalled: MOST_STALLED, ..usual },
        End { spread: LEAST_SPREAD, ..usual },
        // Where CPUs are nearly full, what is counted of their time does not tell whether they are.
        End { wait: Wait::Fitted(0.0), within: COUNTED_WITHIN, ..usual },
    ];
    let driver = machine.spec.cpu.driver;
    if driver.in_mode("active", machine.spec.kernel).unwrap_or(driver).leaves_it_to_hardware() {
        all.extend([AutonomousSpec::default(), eager(), thrifty()].map(|hardware| End { hardware, ..usual }));
    }
    if load.overlap > 0.0 {
        all.extend([0.0, load.overlap].map(|overlap| End { overlap, ..usual }));
    }
    if !load.in_flight_known {
        let least = ((load.rate * load.cpu_seconds()).ceil() as u32).clamp(1, load.in_flight);
        all.extend([least, 2 * load.in_flight].map(|in_flight| End { in_flight, ..usual }));
        all.push(End { in_flight: least, wait: Wait::None, ..usual });
    }
    if load.not_recorded.contains(&NotRecorded::Interrupts) {
        let interrupts = load.interrupts + UNSEEN_INTERRUPTS * load.cpu_seconds();
        all.push(End { interrupts, ..usual });
    }
    if load.not_recorded.contains(&NotRecorded::WaitsForIo) {
        all.push(End { waits_for_io: !load.waits_for_io, ..usual });
    }
    if load.in_flight > 1 {
        // Whether a device that serves several could serve more, nobody has seen.
        all.push(End { device_limit: Some(load.rate), ..usual });
    }
    all
}

/// A processor that goes to its highest frequency as soon as there is work, whatever it is asked to save.
fn eager() -> AutonomousSpec {
    let nothing = Permille::new(0).expect("below 1000");
    AutonomousSpec::averaging(Nanos::from_millis(1), Nanos::from_millis(1), (nothing, nothing))
}

/// One that, asked to save all it can, stays below its highest frequency unless it is busy all of the time.
fn thrifty() -> AutonomousSpec {
    let [least, all] = [300, 1000].map(|thousandths| Permille::new(thousandths).expect("at most 1000"));
    AutonomousSpec::averaging(Nanos::from_millis(4), Nanos::from_millis(1), (least, all))
}

/// A device's times differ by so much, and by so little at least: requests that all take the same time fall
/// into step with each other and with a governor's windows.
const SPREAD: f64 = 0.5;
const LEAST_SPREAD: f64 = 0.05;

/// An end, and what it gives under the recorded policy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FittedEnd {
    pub(crate) unseen: Unseen,
    pub(crate) ran: Ran,
    is_of_cpus: bool,
    /// CPU time of all that ran, by request, in seconds: recorded, with what was not seen.
    cpu: f64,
}

impl FittedEnd {
    /// Whether what governors had seen, or how the processor chooses, is another there.
    fn differs_in_policy(&self, other: &Self) -> bool {
        (self.unseen.begins, self.unseen.hardware) != (other.unseen.begins, other.unseen.hardware)
    }

    /// Whether it gives what was recorded; one that cannot is no end of anything.
    pub(crate) fn fits(&self, load: &Load) -> bool {
        let of_rate = if self.is_of_cpus { 0.0 } else { (self.ran.rate / load.rate - 1.0).abs() };
        of_rate.max((self.ran.cpu_seconds / self.cpu - 1.0).abs()) <= FITS_WITHIN
    }
}

fn fitted(machine: &Machine, load: &Load, end: End) -> Result<FittedEnd, BenchError> {
    let highest = machine.spec.cpu.states.last().map_or(1e9, |state| state.frequency.hz() as f64);
    let cpu = load.all_cpu_seconds() + end.interrupts - load.interrupts;
    let period = f64::from(end.in_flight) / load.rate;
    let at = load.frequency.unwrap_or(highest).min(highest);
    // Ticks are a part of the CPU time that was recorded, and are executed beside the load here.
    let ticks = load.tick * machine.spec.hz as f64 * highest / at;
    let mut unseen = Unseen {
        hertz: at * (1.0 - ticks).max(0.1),
        wait: match end.wait {
            Wait::Fitted(longest) => (period - cpu * (1.0 - end.overlap)).max(0.0).min(longest),
            Wait::None => 0.0,
        },
        in_flight: end.in_flight,
        stalled: end.stalled,
        overlap: end.overlap,
        interrupts: end.interrupts,
        waits_for_io: end.waits_for_io,
        spread: end.spread,
        device_limit: end.device_limit,
        begins: end.begins,
        hardware: end.hardware,
    };
    let mut best: Option<(f64, Unseen, Ran)> = None;
    for step in 0..STEPS {
        let ran = run(machine, load, &machine.in_force, unseen)?;
        let of_rate = match end.wait {
            Wait::Fitted(_) => (ran.rate / load.rate - 1.0).abs(),
            // The rate follows from the CPU time alone; ratios of it are what counts.
            Wait::None => 0.0,
        };
        let error = of_rate.max((ran.cpu_seconds / cpu - 1.0).abs());
        if best.is_none_or(|(least, ..)| error < least) {
            best = Some((error, unseen, ran));
        }
        if error < end.within || ran.rate <= 0.0 {
            break;
        }
        // Smaller steps later: a governor turns small changes into large ones.
        let damping = if step < 4 { 1.0 } else { 0.5 };
        unseen.hertz *= (cpu / ran.cpu_seconds).powf(damping);
        if matches!(end.wait, Wait::None) {
            continue;
        }
        let longer = f64::from(end.in_flight) / load.rate - f64::from(end.in_flight) / ran.rate;
        unseen.wait = (unseen.wait + damping * longer).max(0.0);
    }
    let (_, unseen, ran) = best.unwrap_or((0.0, unseen, Ran::default()));
    Ok(FittedEnd { unseen, ran, is_of_cpus: matches!(end.wait, Wait::None), cpu })
}
