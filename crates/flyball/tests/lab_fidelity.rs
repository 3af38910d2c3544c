//! The lab's machine does what it is said to do: CPUs run at the speed of their P-state, the guest's own
//! accounts agree with the plugin's, governors behave as their documents say, disks as their model, and
//! joules follow from the table.
//!
//! Everything goes through `flyball lab run`, in as few boots as possible. Each test prints its figures
//! (`--nocapture`). Where QEMU or a kernel is missing, or the host stayed too busy to pace in time, a line
//! `skipped:` says so.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use crate::support;
use crate::support::Place;
use disks::DiskSpec;
use disks::closed_loop::{AccessOrder, Pattern, predict, time_for};
use domain::ids::RunId;
use domain::lab::{ENERGY_MODELLED, PStateTable, Pacing, VcpuRecord};
use domain::rng::Seed;
use domain::time::Nanos;
use domain::trial::{Disturbance, Trial, Validity};
use domain::units::{Bytes, Hertz, Ratio};
use lab::{pacing, pstates};
use notebook::Notebook;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

/// What a host says that cannot run the lab at all.
const MISSING: [&str; 3] = ["no kernel `", "install Debian's package", "no QEMU plugin"];

/// What a host says that is too slow, or too busy, for a table's pace.
const TOO_FAST: &str = "is too fast for this host";

/// What it says where other load kept the calibration from its CPUs.
const NOT_CALIBRATED: &str = "this host is too busy with other things";

/// A run of a study in the lab, read back from its notebook.
struct Lab {
    notebook: Notebook,
    run: RunId,
    trials: Vec<Trial>,
    printed: String,
}

/// Runs a study; `Err` with the reason of a skip.
fn measure(place: &Place, name: &str, kernel: &str, study: &str) -> Result<Lab, String> {
    let file = place.study(name, study);
    let output = place.flyball(&lab_run(kernel, &file)).output().unwrap();
    read_back(place, &output)
}

fn lab_run<'a>(kernel: &'a str, file: &'a str) -> [&'a str; 8] {
    ["lab", "run", "--new", "--seed", "1", "--kernel", kernel, file]
}

fn read_back(place: &Place, output: &Output) -> Result<Lab, String> {
    let said = support::stderr(output);
    if MISSING.iter().any(|reason| said.contains(reason))
        || [TOO_FAST, NOT_CALIBRATED].iter().any(|reason| said.contains(reason))
    {
        return Err(said.trim().to_owned());
    }
    assert!(matches!(output.status.code(), Some(0 | 3)), "{:?}: {said}", output.status);
    let notebook = Notebook::open(&place.path("notebook")).unwrap();
    let (runs, _) = notebook.runs().unwrap();
    let run = runs.first().unwrap().run.id.clone();
    let (trials, problems) = notebook.trials(&run).unwrap();
    assert!(problems.is_empty(), "{problems:?}");
    for trial in &trials {
        assert!(!matches!(trial.validity, Validity::Failed(_)), "{:?}: {:?}", trial.key, trial.validity);
    }
    Ok(Lab { notebook, run, trials, printed: String::from_utf8_lossy(&output.stdout).into_owned() })
}

impl Lab {
    /// The trials at one level of a factor.
    fn at(&self, factor: &str, level: &str) -> Vec<&Trial> {
        self.trials.iter().filter(|t| t.levels.get(factor).is_some_and(|l| l == level)).collect()
    }

    /// The trial at this level that ran least late; `None`, counted and told, where even that one is of no
    /// use.
    fn in_time(&self, factor: &str, level: &str, most_late: f64) -> Option<&Trial> {
        let all = self.at(factor, level).into_iter();
        let best = all.min_by(|a, b| lateness(a).total_cmp(&lateness(b))).unwrap();
        if lateness(best) <= most_late {
            return Some(best);
        }
        testing::skip_in_part(format!(
            "{level}: the host was too busy each time: {:.1}% late at best",
            100.0 * lateness(best)
        ));
        None
    }

    fn output(&self, trial: &Trial) -> String {
        let folder = self.notebook.trial_folder(&self.run, &trial.key);
        std::fs::read_to_string(folder.join("raw/stdout.txt")).unwrap()
    }
}

fn skip(reason: &str) {
    println!("skipped: {reason}");
}

fn pacing_of(trial: &Trial) -> &Pacing {
    trial.lab.as_ref().unwrap().pacing.as_ref().unwrap()
}

fn lateness(trial: &Trial) -> f64 {
    pacing_of(trial).lateness().unwrap()
}

fn disturbances(trial: &Trial) -> &[Disturbance] {
    match &trial.validity {
        Validity::Disturbed(all) => all,
        Validity::Valid | Validity::Traced | Validity::Failed(_) => &[],
    }
}

fn share(part: Nanos, whole: Nanos) -> f64 {
    part.secs() / whole.secs()
}

// --------------------------------------------------------------------------------------------------------
// speed

/// States close together, so that the kernel's tick (some 3,000 instructions, 250 times a second) weighs
/// about as much in each of them.
fn loop_table(pace: f64) -> String {
    let states = [(2000, 1.0), (1750, 0.875), (1500, 0.75), (1250, 0.625), (1000, 0.5)];
    let state = |(mhz, speed)| format!("[[state]]\nmhz = {mhz}\nspeed = {speed:?}\n");
    let states: String = states.into_iter().map(state).collect();
    format!("latency = \"10us\"\ndomains = \"per-cpu\"\npace = {pace:e}\n{states}")
}

fn loop_study(table: &str, states: &[u64], turns: u64) -> String {
    let level = |mhz: &u64| {
        format!(
            "[[factor.state.level]]\nname = {mhz}\nsettings = {{ governor = \"userspace\", setspeed = \"{mhz}MHz\" }}\n"
        )
    };
    let levels: String = states.iter().map(level).collect();
    format!(
        "flyball = 1\nname = \"loop\"\nquestion = \"Does a loop take time inversely to speed?\"\n\
         [lab]\npstates = \"{table}\"\n\
         [workload.loop]\ntool = \"command\"\nargv = [\"bash\", \"-c\", \"for ((i = 0; i < {turns}; i++)); do :; done\"]\n\
         [factor.state]\n{levels}\
         [measure]\nmetric = \"elapsed\"\nrepeats = 2\nretries = 0\nsettle = \"1s\"\ninterval = \"10s\"\ntimeout = \"60s\"\n"
    )
}

/// What is printed of one state: its speed, and the seconds that the loop took, with and without what it was
/// late by.
struct Looped {
    mhz: u64,
    speed: f64,
    raw: f64,
    seconds: f64,
    instructions: f64,
}

fn looped(lab: &Lab, table: &PStateTable) -> Vec<Looped> {
    let one = |mhz: u64| {
        let trial = lab.in_time("state", &mhz.to_string(), 0.05)?;
        let pacing = pacing_of(trial);
        let cpu = &pacing.vcpus[0];
        let [state] = cpu.states[..] else { panic!("{mhz} MHz: not one state alone: {:?}", cpu.states) };
        assert_eq!(state.frequency, Hertz::from_mhz(mhz));
        let speed = table.states.iter().find(|s| s.frequency == state.frequency).unwrap().speed;
        let raw = state.busy.secs();
        // What it is late by is time in which it lacked the host, and no work of its own.
        let seconds = raw - cpu.late.secs();
        Some(Looped { mhz, speed, raw, seconds, instructions: state.instructions as f64 })
    };
    table.states.iter().filter_map(|state| one(state.frequency.khz() / 1000)).collect()
}

#[test]
fn a_fixed_loop_takes_time_inversely_to_the_speed_of_its_state() {
    if !testing::is_measured_in_turn(6) {
        return;
    }
    let place = Place::new();
    let (lab, table) = {
        let paces = [60e6, 40e6, 30e6, 20e6];
        let mut last = None;
        for pace in paces {
            let text = loop_table(pace);
            std::fs::write(place.path("loop.toml"), &text).unwrap();
            let table = pstates::parse("loop", &text).unwrap();
            let turns = (pace / 16_000.0) as u64;
            match measure(
                &place,
                "fast",
                "6.1",
                &loop_study("./loop.toml", &[2000, 1750, 1500, 1250, 1000], turns),
            ) {
                Ok(lab) => {
                    last = Some((lab, table));
                    break;
                }
                Err(reason) if reason.contains(TOO_FAST) => {
                    println!("pace {:.0} M/s: more than this host has to give now", pace / 1e6);
                }
                Err(reason) => return skip(&reason),
            }
        }
        match last {
            Some(found) => found,
            None => return skip("this host paces no virtual CPU at 20 million instructions a second now"),
        }
    };
    let seen = looped(&lab, &table);
    // Against the mean, for no state is the true one.
    let mean = seen.iter().map(|l| l.seconds * l.speed).sum::<f64>() / seen.len() as f64;
    let mut worst: f64 = 0.0;
    for l in &seen {
        let off = l.seconds * l.speed / mean - 1.0;
        println!(
            "(a) pace {:.0} M/s, {} MHz, speed {:.3}: {:.3} s ({:.3} s with what it was late by), {:.2} M instructions at {:.2} M/s; \
             time x speed {:+.2}%",
            table.pace / 1e6,
            l.mhz,
            l.speed,
            l.seconds,
            l.raw,
            l.instructions / 1e6,
            l.instructions / l.seconds / 1e6,
            100.0 * off,
        );
        worst = worst.max(off.abs());
        // What the plugin promises, whatever the loop: instructions at the state's own rate.
        let rate = l.instructions / l.seconds / (table.pace * l.speed);
        assert!((rate - 1.0).abs() < 0.03, "{} MHz ran at {rate:.4} of its pace", l.mhz);
    }
    assert!(worst <= 0.03, "time x speed differs from its mean by {:.2}%", 100.0 * worst);
}

// --------------------------------------------------------------------------------------- governors, their
// time, power

/// Four times busy for 0.4 s and idle for 0.4 s, without starting any program; it prints when, and before and
/// after it what the kernel says of the time in each state.
const WAVE: &str = "exec 9<>/run/quiet; f=/sys/devices/system/cpu/cpufreq/policy0/stats/time_in_state; \
    mapfile -t s < $f; echo states $EPOCHREALTIME ${s[*]}; \
    for k in 1 2 3 4; do echo busy $EPOCHREALTIME; \
    end=$(( ${EPOCHREALTIME/./} + 400000 )); while (( ${EPOCHREALTIME/./} < end )); do :; done; \
    echo idle $EPOCHREALTIME; read -t 0.4 -u 9; done; echo end $EPOCHREALTIME; \
    mapfile -t s < $f; echo states $EPOCHREALTIME ${s[*]}";

const GOVERNORS: [&str; 6] =
    ["performance", "powersave", "userspace", "ondemand", "conservative", "schedutil"];

fn wave_study(table: &str, vcpus: u32) -> String {
    let level = |governor: &str| {
        let speed = if governor == "userspace" { ", setspeed = \"1400MHz\"" } else { "" };
        format!(
            "[[factor.governor.level]]\nname = \"{governor}\"\nsettings = {{ governor = \"{governor}\"{speed} }}\n"
        )
    };
    let levels: String = GOVERNORS.iter().copied().map(level).collect();
    format!(
        "flyball = 1\nname = \"wave\"\nquestion = \"What does each governor do under a square wave?\"\n\
         [lab]\nvcpus = {vcpus}\npstates = \"{table}\"\nprepare = [\"mkfifo /run/quiet\"]\n\
         [workload.wave]\ntool = \"command\"\nargv = [\"bash\", \"-c\", '{WAVE}']\n\
         [factor.governor]\n{levels}\
         [measure]\nmetric = \"energy_modelled\"\nrepeats = 1\nretries = 2\nsettle = \"1s\"\ninterval = \"250ms\"\ntimeout = \"60s\"\n"
    )
}

#[test]
fn governors_do_what_they_should_on_one_cpu() {
    if !testing::is_measured_in_turn(7) {
        return;
    }
    let place = Place::new();
    let table = pstates::load("laptop-5", Path::new("")).unwrap();
    if let Some(lab) = measure_wave(&place, "wave", "6.1", &wave_study("laptop-5", 1), &table, &GOVERNORS) {
        check_energy(&lab, &table);
        let page = place.ok(&["report", &lab.run.0, "--format", "markdown"]);
        assert!(page.contains("energy_modelled"), "{page}");
    }
}

/// A study of the square wave whose governors do what they should; `None` where it is skipped. A governor's
/// sample is 10 ms, and a host that looks away for one makes a busy CPU look idle: what is wrong once is
/// measured again.
fn measure_wave(
    place: &Place,
    name: &str,
    kernel: &str,
    study: &str,
    table: &PStateTable,
    governors: &[&str],
) -> Option<Lab> {
    let mut wrong = Vec::new();
    for _ in 0..3 {
        match measure(place, name, kernel, study) {
            Ok(lab) => {
                wrong = wrong_in_wave(&lab, table, governors);
                if wrong.is_empty() {
                    return Some(lab);
                }
                println!("(c) not what they should do: {}", wrong.join("; "));
            }
            Err(reason) => {
                skip(&reason);
                return None;
            }
        }
    }
    panic!("three times: {}", wrong.join("\n"));
}

#[test]
fn governors_do_what_they_should_where_four_cpus_share_a_policy() {
    if !testing::is_measured_in_turn(8) {
        return;
    }
    let place = Place::new();
    let (_, text) = pstates::shipped().find(|(name, _)| *name == "laptop-5").unwrap();
    // Four CPUs on two cores are paced at 8 million instructions a second. At an eighth of that, laptop-5's
    // lowest state, the tick alone (1.25 million a second) would take all of a CPU, and ondemand's own work
    // would wait behind the loop that it is to notice. So the states differ in frequency as they do there,
    // and in speed down to a half.
    let mut shared = text.replace("\"per-cpu\"", "\"shared\"").replace("pace = 20e6", "pace = 8e6");
    for (speed, instead) in [("0.75", "0.88"), ("0.5", "0.75"), ("0.25", "0.62"), ("0.125", "0.5")] {
        shared = shared.replace(&format!("speed = {speed}\n"), &format!("speed = {instead} \n"));
    }
    std::fs::write(place.path("shared.toml"), &shared).unwrap();
    let table = pstates::parse("shared", &shared).unwrap();
    // At 8 million instructions a second, conservative's steps do not reach the top within a busy half.
    let governors = ["performance", "powersave", "userspace", "ondemand"];
    let study = wave_study("./shared.toml", 4);
    if let Some(lab) = measure_wave(&place, "wave4", "6.12", &study, &table, &governors) {
        for trial in &lab.trials {
            let cpus = &pacing_of(trial).vcpus;
            assert_eq!(cpus.len(), 4);
            assert!(cpus.iter().all(|cpu| same_course(cpu, &cpus[0])), "{cpus:?}");
        }
    }
}

/// Whether two CPUs of a policy went through the same states. A change of state reaches the CPUs one after
/// the other, and the record may end in between: the last one may be missing on either.
fn same_course(a: &VcpuRecord, b: &VcpuRecord) -> bool {
    let states = |cpu: &VcpuRecord| cpu.transitions.iter().map(|(_, f)| *f).collect::<Vec<_>>();
    let (a, b) = (states(a), states(b));
    let common = a.len().min(b.len());
    a[..common] == b[..common] && a.len().abs_diff(b.len()) <= 1
}

/// What the governors did otherwise than they should.
fn wrong_in_wave(lab: &Lab, table: &PStateTable, governors: &[&str]) -> Vec<String> {
    let mut wrong = Vec::new();
    for trial in &lab.trials {
        check_time_in_state(lab, trial, table);
    }
    for governor in governors {
        let Some(trial) = lab.in_time("governor", governor, 0.1) else { continue };
        let wave = Wave::of(lab, trial);
        println!(
            "(c) {governor}: at the top for {:.0}% of the busy halves' second part, {:.0}% of the idle halves; {} transitions; {:.1}% late",
            100.0 * wave.at_top(&wave.busy, 0.5, table),
            100.0 * wave.at_top(&wave.idle, 0.0, table),
            pacing_of(trial).vcpus[0].transitions_total,
            100.0 * lateness(trial),
        );
        wrong.extend(wave.wrong(governor, table));
    }
    wrong
}

/// (b) The kernel's account, as the workload reads it at its beginning and end, against the plugin's for the
/// time between. The kernel shows ticks of 10 ms (`USER_HZ`). (The trace has the same file, but a sample's
/// time is that of its beginning, and on the slowest CPU it takes some 50 ms.)
fn check_time_in_state(lab: &Lab, trial: &Trial, table: &PStateTable) {
    let cpu = &pacing_of(trial).vcpus[0];
    let text = lab.output(trial);
    let zero = zero(lab, trial);
    let reads: Vec<(Nanos, Vec<u64>)> =
        text.lines().filter_map(|line| states_read(line.strip_prefix("states ")?, zero)).collect();
    let [(from, before), (to, after)] = &reads[..] else { panic!("{text}") };
    let span = to.saturating_sub(*from);
    let mut worst: f64 = 0.0;
    for (state, (before, after)) in table.states.iter().zip(before.iter().zip(after)) {
        let kernel = Nanos::from_millis(10 * (after - before));
        let plugin = time_at(cpu, (*from, *to), |f| f == state.frequency);
        worst = worst.max((share(kernel, span) - share(plugin, span)).abs());
    }
    println!(
        "(b) {}: time_in_state and the plugin's record differ by {:.2}% of {span} at most; {:.1}% late",
        trial.levels["governor"],
        100.0 * worst,
        100.0 * lateness(trial),
    );
    assert!(worst <= 0.02, "{:?}: {:.2}% of {span}: {text} {cpu:?}", trial.key, 100.0 * worst);
}

/// `SECONDS KHZ TICKS KHZ TICKS …`, the fastest state first.
fn states_read(line: &str, zero: i64) -> Option<(Nanos, Vec<u64>)> {
    let mut words = line.split(' ');
    let at = moment(words.next()?, zero);
    Some((at, words.skip(1).step_by(2).map(|ticks| ticks.parse().unwrap()).collect()))
}

/// When pacing began, on the guest's wall clock.
fn zero(lab: &Lab, trial: &Trial) -> i64 {
    let trace = lab.notebook.trace(&lab.run, &trial.key).unwrap().unwrap();
    let began = pacing_of(trial).began.unwrap();
    trace.head().start.unix_nanos() + i64::try_from(began.get()).unwrap()
}

/// From bash's `EPOCHREALTIME` to the time since pacing began.
fn moment(seconds: &str, zero: i64) -> Nanos {
    let (whole, micros) = seconds.split_once('.').unwrap();
    let nanos = whole.parse::<i64>().unwrap() * 1_000_000_000 + micros.parse::<i64>().unwrap() * 1000;
    Nanos::new(u64::try_from(nanos - zero).unwrap())
}

/// The time between two moments of the paced part at frequencies of this kind.
fn time_at(cpu: &VcpuRecord, (from, to): (Nanos, Nanos), is: impl Fn(Hertz) -> bool) -> Nanos {
    assert_eq!(cpu.transitions.len() as u64, cpu.transitions_total, "some transitions were not kept");
    let ends = cpu.transitions.iter().skip(1).map(|(at, _)| *at).chain([Nanos::new(u64::MAX)]);
    let each = cpu.transitions.iter().zip(ends).filter(|((_, f), _)| is(*f));
    let within = |at: &Nanos, end: Nanos| end.min(to).saturating_sub((*at).max(from));
    each.fold(Nanos::ZERO, |sum, ((at, _), end)| sum + within(at, end))
}

/// The halves of a trial's square wave, from the beginning of pacing.
struct Wave<'a> {
    cpu: &'a VcpuRecord,
    busy: Vec<(Nanos, Nanos)>,
    idle: Vec<(Nanos, Nanos)>,
}

impl<'a> Wave<'a> {
    fn of(lab: &Lab, trial: &'a Trial) -> Self {
        let (text, zero) = (lab.output(trial), zero(lab, trial));
        let mark = |line: &str| {
            let (word, seconds) = line.split_once(' ').unwrap();
            (word != "states").then(|| (word == "busy", moment(seconds, zero)))
        };
        let marks: Vec<(bool, Nanos)> = text.lines().filter_map(mark).collect();
        let halves = |busy| {
            let pairs = marks.windows(2).filter(move |pair| pair[0].0 == busy);
            pairs.map(|pair| (pair[0].1, pair[1].1)).collect()
        };
        Self { cpu: &pacing_of(trial).vcpus[0], busy: halves(true), idle: halves(false) }
    }

    /// The share of these halves, without their beginning, that was spent in the fastest state.
    fn at_top(&self, halves: &[(Nanos, Nanos)], without: f64, table: &PStateTable) -> f64 {
        self.share_of(halves, without, |f| f == table.states[0].frequency)
    }

    fn share_of(&self, halves: &[(Nanos, Nanos)], without: f64, is: impl Fn(Hertz) -> bool) -> f64 {
        let cut = |(from, to): (Nanos, Nanos)| {
            let length = to.saturating_sub(from).get() as f64;
            (from + Nanos::new((length * without) as u64), to)
        };
        let windows: Vec<_> = halves.iter().copied().map(cut).collect();
        let all: f64 = windows.iter().map(|(from, to)| to.saturating_sub(*from).secs()).sum();
        windows.iter().map(|window| time_at(self.cpu, *window, &is).secs()).sum::<f64>() / all
    }

    /// Whether it left the fastest state after a busy half, at the latest at the sample with which the next
    /// begins: an idle CPU is not sampled. One such half is enough. Where the last sample before the CPU went
    /// idle saw it busy, the first one after a long idle time takes that load once more (`dbs_update`,
    /// `prev_load`), and the governor rightly stays.
    fn falls(&self, table: &PStateTable) -> bool {
        let grace = Nanos::from_millis(100);
        let slow = |(from, to): &(Nanos, Nanos)| {
            time_at(self.cpu, (*from, *to + grace), |f| f != table.states[0].frequency) > Nanos::ZERO
        };
        self.idle.iter().take(3).any(slow)
    }

    /// The largest step up, in states.
    fn largest_step_up(&self, table: &PStateTable) -> usize {
        let index = |f: Hertz| table.states.iter().position(|s| s.frequency == f).unwrap();
        let pairs = self.cpu.transitions.windows(2);
        pairs.map(|pair| index(pair[0].1).saturating_sub(index(pair[1].1))).max().unwrap_or(0)
    }

    fn wrong(&self, governor: &str, table: &PStateTable) -> Option<String> {
        let frequencies: Vec<Hertz> = self.cpu.states.iter().map(|s| s.frequency).collect();
        let (top, bottom) = (table.states[0].frequency, table.states[table.states.len() - 1].frequency);
        let stays_at = |f: Hertz| frequencies == [f];
        // The first busy half begins with a program's start.
        let top_after = |part: f64| self.at_top(&self.busy[1..], part, table);
        let step = self.largest_step_up(table);
        let moves = top_after(0.75) > 0.9 && self.falls(table);
        let right = match governor {
            "performance" => stays_at(top),
            "powersave" => stays_at(bottom),
            "userspace" => stays_at(Hertz::from_mhz(1400)),
            // Above its threshold it goes to the top at once, at the second sample at the latest.
            "ondemand" => moves && top_after(0.25) > 0.9 && step > 1,
            "conservative" => moves && step == 1,
            "schedutil" => moves && self.share_of(&self.busy, 0.0, |f| f != top && f != bottom) > 0.0,
            _ => false,
        };
        (!right).then(|| {
            format!(
                "{governor}: at the top for {:.2} of the busy halves' last quarter, {:.2} of their last three; steps of {step}; {:?}",
                top_after(0.75),
                top_after(0.25),
                self.cpu.transitions,
            )
        })
    }
}

/// (e) Joules are the table's watts over the record.
fn check_energy(lab: &Lab, table: &PStateTable) {
    assert!(lab.printed.contains("energy_modelled"), "{}", lab.printed);
    let mut watts = Vec::new();
    for trial in &lab.trials {
        let pacing = pacing_of(trial);
        let mut joules = 0.0;
        for state in pacing.vcpus.iter().flat_map(|cpu| &cpu.states) {
            let row = table.states.iter().find(|row| row.frequency == state.frequency).unwrap();
            let idle = state.time.saturating_sub(state.busy).secs();
            joules += state.busy.secs() * row.busy_watts.unwrap() + idle * row.idle_watts.unwrap();
        }
        let kept = trial.metric(ENERGY_MODELLED).unwrap();
        assert!((kept - joules).abs() < 1e-5, "{kept} J kept, {joules} J from the record");
        watts.push((trial.levels["governor"].as_str(), kept, kept / pacing.span.secs()));
    }
    let of = |governor: &str| watts.iter().find(|(name, ..)| *name == governor).unwrap();
    for (governor, joules, mean) in &watts {
        println!("(e) {governor}: {joules:.2} J, {mean:.2} W in the mean");
    }
    // The wave is of a fixed time; powersave's trial is longer by what bash takes to start at an eighth of
    // the speed.
    assert!(of("performance").1 > of("powersave").1, "{watts:?}");
    assert!(of("performance").2 > 2.0 * of("powersave").2, "{watts:?}");
}

// --------------------------------------------------------------------------------------------------------
// disks

/// A load, as fio and the model are told it.
struct Load {
    rw: &'static str,
    block: u64,
    depth: u32,
}

const fn load(rw: &'static str, block: u64, depth: u32) -> Load {
    Load { rw, block, depth }
}

const LOADS: [Load; 8] = [
    load("read", 128 << 10, 1),
    load("read", 128 << 10, 32),
    load("write", 128 << 10, 1),
    load("write", 128 << 10, 32),
    load("randread", 4 << 10, 1),
    load("randread", 4 << 10, 32),
    load("randwrite", 4 << 10, 1),
    load("randwrite", 4 << 10, 32),
];

/// By how much fio may differ from the prediction.
const DISK_TOLERANCE: f64 = 0.05;

/// A disk, the dilation that it is served with, and how long each kind of load runs, in its own time.
struct Disk {
    model: &'static str,
    dilation: f64,
    sequential_ms: u64,
    random_ms: u64,
}

impl Load {
    fn name(&self) -> String {
        format!("{}-{}", self.rw, self.depth)
    }

    fn is_random(&self) -> bool {
        self.rw.starts_with("rand")
    }
}

impl Disk {
    fn runtime_ms(&self, load: &Load) -> u64 {
        if load.is_random() { self.random_ms } else { self.sequential_ms }
    }

    fn study(&self, loads: &[&Load]) -> String {
        let level = |load: &Load| {
            format!(
                "[[factor.load.level]]\nname = \"{}\"\noptions = {{ rw = \"{}\", bs = {}, iodepth = {}, runtime = \"{}ms\" }}\n",
                load.name(),
                load.rw,
                load.block,
                load.depth,
                self.runtime_ms(load),
            )
        };
        let levels: String = loads.iter().copied().map(level).collect();
        let (settle, interval) = (1_000_000.0 / self.dilation, 250_000.0 / self.dilation);
        format!(
            "flyball = 1\nname = \"disk\"\nquestion = \"Does fio see what the model predicts?\"\n\
             [target]\ndevice = \"/dev/sda\"\n\
             [lab]\ndilation = {}\n[[lab.disk]]\nname = \"disk\"\nmodel = \"{}\"\n\
             [workload.disk]\ntool = \"fio\"\noptions = {{ ioengine = \"libaio\", direct = 1, time_based = 1, norandommap = 1, randrepeat = 0 }}\n\
             [settings]\nscheduler = \"none\"\n[factor.load]\n{levels}\
             [measure]\nmetric = \"iops\"\nrepeats = 1\nretries = 2\nsettle = \"{settle:.0}us\"\ninterval = \"{:.0}us\"\n",
            self.dilation,
            self.model,
            f64::max(interval, 1000.0),
        )
    }

    /// The mean over a few seeds, for fio meets sectors of its own.
    fn predicted(&self, load: &Load) -> f64 {
        const SEEDS: u64 = 8;
        let spec = DiskSpec::shipped(self.model).unwrap();
        let pattern = Pattern {
            order: if load.is_random() { AccessOrder::Random } else { AccessOrder::Sequential },
            reads: Ratio::new(if load.rw.ends_with("read") { 1.0 } else { 0.0 }).unwrap(),
            block: Bytes::new(load.block),
            depth: load.depth,
            offset: Bytes::new(0),
            range: spec.capacity,
            warm_up: Nanos::ZERO,
            duration: Nanos::from_millis(self.runtime_ms(load)),
        };
        let requests = predict(&spec, None, &pattern, Seed(1)).unwrap().requests;
        let seconds = |seed| time_for(&spec, None, &pattern, requests, Seed(seed)).unwrap().secs();
        requests as f64 * SEEDS as f64 / (1..=SEEDS).map(seconds).sum::<f64>()
    }
}

#[test]
fn fio_in_the_guest_sees_what_the_disk_model_predicts() {
    if !testing::is_measured_in_turn(6) {
        return;
    }
    // A request costs the guest 0.7 to 1.1 ms of its own under this emulator, and the prediction knows of
    // none: the dilation makes that a small part of the shortest request, 8 ms of a disk that turns and 25 us
    // of a cached write.
    let disks = [
        Disk { model: "plain-7200", dilation: 4.0, sequential_ms: 800, random_ms: 3_000 },
        Disk { model: "samsung-850-evo", dilation: 1500.0, sequential_ms: 4, random_ms: 4 },
    ];
    let extent = testing::Extent::of(1, disks.len() as u64);
    let first = extent.seed as usize % disks.len();
    for disk in disks.iter().cycle().skip(first).take(disks.len().min(extent.count as usize)) {
        let mut open: Vec<&Load> = LOADS.iter().collect();
        let mut wrong = Vec::new();
        // Some two hundred random requests have a mean that differs by 2% from run to run, each on sectors of
        // its own.
        for _ in 0..3 {
            let place = Place::new();
            let contention = Contention::begin();
            let lab = match measure(&place, "disk", "6.1", &disk.study(&open)) {
                Ok(lab) => lab,
                Err(reason) => return skip(&reason),
            };
            let waited = contention.share();
            println!(
                "(d) {}: something on this host waited for a CPU for {:.0}% of the time",
                disk.model,
                100.0 * waited
            );
            (open, wrong) =
                open.into_iter().filter_map(|load| Some((load, compare(&lab, disk, load, waited)?))).unzip();
            // A study has two levels at least.
            if open.is_empty() {
                break;
            }
            if open.len() == 1 {
                let other = LOADS.iter().find(|load| load.name() != open[0].name());
                open.extend(other);
            }
        }
        assert!(wrong.is_empty(), "beyond {DISK_TOLERANCE}, three times:\n{}", wrong.join("\n"));
    }
}

/// For what share of a time something on the host waited for a CPU, by the kernel's pressure accounting.
struct Contention(Instant, Option<u64>);

/// Beyond this share the guest's own part of each request, which no model has, is that of a busy host.
const MAX_WAITED: f64 = 0.15;

impl Contention {
    fn begin() -> Self {
        Self(Instant::now(), Self::total_us())
    }

    fn total_us() -> Option<u64> {
        let text = std::fs::read_to_string("/proc/pressure/cpu").ok()?;
        text.lines().next()?.rsplit_once("total=")?.1.parse().ok()
    }

    /// 0 where the kernel does not say: then nothing is excused.
    fn share(&self) -> f64 {
        let waited = Self::total_us().zip(self.1).map_or(0, |(now, then)| now - then);
        waited as f64 / 1e6 / self.0.elapsed().as_secs_f64()
    }
}

/// What is wrong, if anything: the trial that agrees best counts, and one on a busy host proves nothing.
fn compare(lab: &Lab, disk: &Disk, load: &Load, waited: f64) -> Option<String> {
    let predicted = disk.predicted(load);
    let name = load.name();
    let off = |trial: &Trial| trial.metric("iops").unwrap() / predicted - 1.0;
    let trial =
        lab.at("load", &name).into_iter().min_by(|a, b| off(a).abs().total_cmp(&off(b).abs())).unwrap();
    let served = &trial.lab.as_ref().unwrap().disks[0];
    // By Little's law; the account is in the guest's time.
    let seconds = disk.runtime_ms(load) as f64 / 1e3 * disk.dilation;
    let text = format!(
        "(d) {:<16} D {:>3} {:<12}: fio {:>8.1} IOPS, predicted {:>8.1}, {:>+5.1}%; {:>4.1} in flight in the model; \
         answers {:.1}% late, {} in the mean",
        disk.model,
        disk.dilation,
        name,
        off(trial).mul_add(predicted, predicted),
        predicted,
        100.0 * off(trial),
        served.modelled.secs() / seconds,
        100.0 * served.late.secs() / served.modelled.secs(),
        Nanos::new(served.late.get() / served.requests.max(1)),
    );
    println!("{text}");
    if off(trial).abs() <= DISK_TOLERANCE {
        return None;
    }
    if trial.validity != Validity::Valid || waited > MAX_WAITED {
        let told = disturbances(trial);
        testing::skip_in_part(format!(
            "the host was too busy ({:.0}%) for {name} on {}: {told:?}",
            100.0 * waited,
            disk.model
        ));
        return None;
    }
    Some(text)
}

// --------------------------------------------------------------------------------------------------------
// lateness

#[test]
fn a_host_with_other_load_makes_trials_disturbed() {
    if !testing::is_measured_in_turn(8) {
        return;
    }
    let place = Place::new();
    let study = loop_study("laptop-5", &[2800, 2100], 2_000);
    let file = place.study("late", &study);
    let mut run = place.spawn(&lab_run("6.1", &file));
    // Not before it is calibrated: a host that was loaded then has no pace to give, and says so.
    let mut said = String::new();
    let mut burners = Vec::new();
    for line in BufReader::new(run.stderr.take().unwrap()).lines() {
        let line = line.unwrap();
        if line.starts_with("run ") {
            burners = Burners::start();
        }
        said += &line;
        said.push('\n');
    }
    let mut output = run.wait_with_output().unwrap();
    drop(burners);
    output.stderr = said.into_bytes();
    let lab = match read_back(&place, &output) {
        Ok(lab) => lab,
        Err(reason) => return skip(&reason),
    };
    for trial in &lab.trials {
        let late = lateness(trial);
        let is_told = disturbances(trial).iter().any(|d| d.kind == "late-vcpu");
        println!(
            "(f) {:.1}% late: {}",
            100.0 * late,
            if is_told { "disturbed" } else { "not disturbed by it" }
        );
        assert_eq!(is_told, late > pacing::MAX_LATE, "{:?}", trial.validity);
    }
    assert!(
        lab.trials.iter().any(|t| t.validity != Validity::Valid),
        "no trial was disturbed by a loaded host"
    );
}

/// A process that computes and comes before the lab's own on a CPU; it ends when this is dropped, and by
/// itself after [`BURNS`].
struct Burners(Child);

/// Long enough for a few trials, and no burden on the host where the test was killed.
const BURNS: &str = "60";

/// Before what is paced, whose threads are of real time where they may be; a quarter of the time is left for
/// all else: the machine would come to a halt.
const FIRST: &str = "while :; do chrt --rr 2 timeout 0.15 sh -c 'while :; do :; done'; sleep 0.05; done";

/// Where nobody may be of real time, two for each CPU leave a virtual one a third of it, but let it wait for
/// longer than it can catch up with.
const ORDINARY: &str = "while :; do :; done";

impl Burners {
    fn start() -> Vec<Self> {
        let cpus = std::thread::available_parallelism().unwrap().get();
        let may = Command::new("chrt").args(["--rr", "2", "true"]).stderr(Stdio::null()).status();
        let (script, number) = match may {
            Ok(status) if status.success() => (FIRST, cpus),
            _ => (ORDINARY, 2 * cpus),
        };
        let burner = |_| {
            let mut command = Command::new("timeout");
            command.args([BURNS, "sh", "-c", script]).stdin(Stdio::null());
            Self(command.spawn().unwrap())
        };
        (0..number).map(burner).collect()
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        // `timeout` passes it on, as it could not a SIGKILL. It is gone already only where its time was over.
        let _ = rustix::process::kill_process(
            rustix::process::Pid::from_child(&self.0),
            rustix::process::Signal::TERM,
        );
        let _ = self.0.wait();
    }
}
