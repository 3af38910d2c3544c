//! What a replay predicts, and how predictions agree with what was measured, as text and JSON.

use crate::inventory::page::{Page, Spacing};
use crate::wording::{percent, quoted};
use analysis::recorded::running_load;
use analysis::words::counted;
use domain::inert::{Lines, one_line};
use domain::order;
use domain::setting::SettingRequest;
use domain::trial::{Provenance, Trial};
use domain::units::{Hertz, Unit, significant};
use replay::{
    Direction, Fit, Load, MOST_STALLED, Machine, NotRecorded, Prediction, Replay, UNSEEN_INTERRUPTS,
};
use serde_json::json;

/// The version of both JSON forms.
const SCHEMA: u32 = 1;

/// Predictions of one screen.
const ON_A_SCREEN: usize = 5;

/// Settings and what they would give.
#[derive(Clone, Debug)]
pub struct Predicted {
    /// What is set.
    pub settings: Vec<SettingRequest>,
    /// What that gives.
    pub prediction: Prediction,
}

impl Predicted {
    fn name(&self) -> String {
        let governor =
            self.settings.iter().find(|one| one.setting.name == "governor").map(|one| one.value.as_str());
        // The governor's own tunables need not say whose they are.
        let word = |one: &SettingRequest| match (governor, one.setting.name.split_once('.')) {
            _ if one.setting.name == "governor" => one.value.clone(),
            (Some(governor), Some((of, tunable))) if of == governor => format!("{tunable}={}", one.value),
            _ => format!("{}={}", one.setting, one.value),
        };
        self.settings.iter().map(word).collect::<Vec<_>>().join(", ")
    }

    /// How much it changes: whether the governor, and how many settings.
    fn changes(&self) -> (bool, usize) {
        (self.settings.iter().any(|one| one.setting.name == "governor"), self.settings.len())
    }
}

/// A trial and what is predicted of it.
#[derive(Clone, Debug)]
pub struct Replayed<'a> {
    /// What was recorded.
    pub trial: &'a Trial,
    /// The model of it.
    pub replay: &'a Replay,
    /// In any order.
    pub predicted: Vec<Predicted>,
    /// How the run was begun, as it was typed.
    pub command: &'a [String],
    /// The machine as it was named, where the run does not hold it.
    pub told_machine: Option<&'a str>,
    /// Whether the run measured the same load under other policies.
    pub others: bool,
    /// All are shown, and not those of one screen.
    pub is_whole: bool,
}

/// From this share of the best rate on a prediction is as good: the model tells no smaller difference.
const AS_GOOD: f64 = 0.98;

impl Replayed<'_> {
    /// Those that are as good as the best first, of them that which changes least, else as they are given;
    /// then the others, the most first.
    fn ordered(&self) -> Vec<&Predicted> {
        let rate = |one: &Predicted| one.prediction.rate.value;
        let most = self.predicted.iter().map(rate).fold(0.0, f64::max);
        let (mut best, mut others): (Vec<&Predicted>, Vec<&Predicted>) =
            self.predicted.iter().partition(|one| rate(one) >= AS_GOOD * most);
        order::by_key(&mut best, |one| one.changes());
        order::by(&mut others, |a, b| rate(b).total_cmp(&rate(a)));
        best.into_iter().chain(others).collect()
    }
}

/// A screen of this width; `program` is how this program is typed.
pub fn text(replayed: &Replayed<'_>, program: &str, width: usize) -> String {
    let Replayed { trial, replay, .. } = replayed;
    let (load, fit) = (replay.load(), replay.fit());
    let mut page = Page::new(width, Spacing::None);
    page.section("Recorded");
    page.line(format!("{} of {}", trial.key, trial.run));
    let in_flight = match (load.in_flight, load.in_flight_known) {
        (1, _) => "one request at a time".to_owned(),
        (n, true) => format!("{n} requests in flight"),
        (n, false) => format!("about {n} requests in flight"),
    };
    page.line(format!("{} {} a second, {in_flight}", significant(load.rate), load.counted));
    if let Some(name) = replayed.told_machine {
        page.section("Machine");
        page.line(machine_line(name, replay.machine()));
    }
    page.section("Policy");
    let in_force = replay.in_force().iter().map(|one| format!("{}={}", one.setting, one.value));
    page.line(in_force.collect::<Vec<_>>().join(", "));
    page.section("A request");
    let of_cpu = Unit::Seconds.show(load.cpu_seconds());
    // Less than that is what a fit leaves of no wait.
    let wait = if fit.wait < 1e-9 { 0.0 } else { fit.wait };
    page.line(format!("{of_cpu} of CPU time; {} of waiting for its device", Unit::Seconds.show(wait)));
    let ordered = replayed.ordered();
    let shown = if replayed.is_whole { ordered.len() } else { ordered.len().min(ON_A_SCREEN) };
    table(&ordered[..shown], ordered.len() - shown, &mut page);
    page.section("Model");
    how_sure(fit, load).into_iter().for_each(|line| page.line(line));
    page.section("Next");
    match next(replayed, &ordered, program) {
        Next::Nothing(why) => page.line(why),
        Next::Command(what, command) => {
            page.line(what);
            page.command(&command);
        }
    }
    page.finish()
}

/// Of a prediction whose interval has both a gain and a loss.
const UNKNOWN: &str = "unknown";

fn table(shown: &[&Predicted], more: usize, page: &mut Page) {
    let row = |one: &&Predicted| {
        let Prediction { rate, latency, frequency, .. } = one.prediction;
        let interval = format!("{} to {}", significant(rate.low), significant(rate.high));
        let frequency = Hertz::from_hz(frequency as u64).to_string();
        // A figure of either side of 1 would be read as a gain or a loss, and latency follows from it.
        let [times, latency] = match rate.direction() {
            Some(_) => [significant(rate.value), Unit::Seconds.show(latency)],
            None => [UNKNOWN.to_owned(), String::new()],
        };
        [times, interval, latency, frequency, one.name()]
    };
    let head = ["times", "interval", "latency", "frequency", ""].map(str::to_owned);
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(shown.iter().map(row)).collect();
    let widths: Vec<usize> =
        (0..4).map(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0)).collect();
    page.section("Predicted");
    for row in &rows {
        let cells = row[..4].iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        page.line(format!("{}  {}", cells.collect::<Vec<_>>().join("  "), row[4]));
    }
    let is_unknown = shown.iter().any(|one| one.prediction.rate.direction().is_none());
    match (is_unknown, more) {
        (false, 0) => {}
        (true, 0) => page.line(format!("{UNKNOWN}: gain or loss, which this recording cannot tell")),
        (false, _) => page.line(format!("and {more} more, with --all")),
        (true, _) => page.line(format!("{UNKNOWN}: gain or loss; and {more} more, with --all")),
    }
}

/// A machine that was told, so that it is seen whether it is the one that was meant.
fn machine_line(name: &str, machine: &Machine) -> String {
    let cpu = &machine.spec.cpu;
    let ends = cpu.states.first().zip(cpu.states.last());
    let frequencies = ends.map(|(low, high)| format!(", {} to {}", low.frequency, high.frequency));
    format!(
        "as given, {}: {} under {}{}, Linux {}",
        quoted(&one_line(name)),
        counted(cpu.count, "CPU"),
        cpu.driver.name(),
        frequencies.unwrap_or_default(),
        machine.spec.kernel
    )
}

/// What a recording does not hold, and which ends of it are run.
fn not_recorded(load: &Load) -> Option<String> {
    let word = |what: &NotRecorded| match what {
        NotRecorded::Interrupts => {
            format!("interrupts of idle CPUs (up to {} more CPU time)", percent(Some(UNSEEN_INTERRUPTS)))
        }
        NotRecorded::WaitsForIo => "whether idle CPUs waited for I/O".to_owned(),
        NotRecorded::Roles => "whose CPU time it is (all of it counts to the requests)".to_owned(),
    };
    let all: Vec<String> = load.not_recorded.iter().map(word).collect();
    (!all.is_empty())
        .then(|| format!("Not recorded, so that both ends are in the interval: {}.", all.join("; ")))
}

fn how_sure(fit: Fit, load: &Load) -> Vec<String> {
    let several = load.in_flight > 1;
    let mut said = Vec::new();
    if !fit.is_good() {
        said.push(format!(
            "It does not fit: under the recorded policy it gives {} times the recorded rate, {} times the CPU time{}. Do not \
rely on these figures.",
            significant(fit.rate),
            significant(fit.cpu),
            fit.frequency.map_or(String::new(), |ratio| format!(" and {} times the frequency", significant(ratio))),
        ));
    }
    said.push(match fit.frequency {
        Some(ratio) => {
            format!(
                "Frequency under the recorded policy, not fitted: {} of what was recorded.",
                significant(ratio)
            )
        }
        None => "No frequency was recorded that it could be held against.".to_owned(),
    });
    said.extend(not_recorded(load));
    said.push(format!(
        "Interval: up to {} of CPU time may wait for memory{} (assumed); the model's error in the lab. A load at a rate of its \
own gains latency alone.",
        percent(Some(MOST_STALLED)),
        if several { ", the device may be at its limit" } else { "" }
    ));
    said
}

/// A lower prediction is not worth a measurement.
const WORTH_MEASURING: f64 = 1.05;
const NO_GAIN: &str = "no policy is predicted to gain 5%";
const MAY_GAIN: &str = "it may gain, which this recording cannot tell: measure it";

/// What to type next, or why there is nothing.
enum Next {
    Nothing(&'static str),
    Command(&'static str, String),
}

/// The command that measures the best prediction, where the load can be run here; what holds predictions
/// against measurements, where they are there.
fn next(replayed: &Replayed<'_>, ordered: &[&Predicted], program: &str) -> Next {
    let (trial, fit) = (replayed.trial, replayed.replay.fit());
    let against = || {
        let command = format!("{program} replay {} {} --check", trial.run, trial.key);
        Next::Command("predictions beside what the run measured", command)
    };
    let Some(best) = ordered.first().filter(|_| fit.is_good()) else {
        return Next::Nothing("nothing can be told from this recording; record for longer");
    };
    let words = best.settings.iter().map(|one| format!("{}={}", one.setting, one.value));
    let words: Vec<String> = words.map(|word| format!(" --set {}", quoted(&word))).collect();
    let is_worth = ordered.iter().any(|one| one.prediction.rate.value >= WORTH_MEASURING);
    if trial.provenance == Provenance::Imported {
        let command = format!("flyball tune{} --persist --dry-run", words.concat());
        return match is_worth {
            true => Next::Command("on the machine that was recorded: what it would write", command),
            false => Next::Nothing(NO_GAIN),
        };
    }
    if trial.provenance != Provenance::Host {
        return if replayed.others {
            against()
        } else {
            Next::Nothing("nothing here: the recording is of another machine")
        };
    }
    if !is_worth {
        return if replayed.others { against() } else { Next::Nothing(NO_GAIN) };
    }
    let tells = ordered.iter().any(|one| one.prediction.rate.direction() == Some(Direction::Gain));
    let measure = if tells { "measure it" } else { MAY_GAIN };
    let typed = replayed.command.iter().skip_while(|word| *word != "--");
    let load: String = typed.map(|word| format!(" {}", quoted(word))).collect();
    let load = running_load(trial).unwrap_or(load);
    match load.is_empty() {
        false => Next::Command(measure, format!("{program} tune{}{load}", words.concat())),
        true => Next::Command(
            "what it would write",
            format!("{program} tune{} --persist --dry-run", words.concat()),
        ),
    }
}

/// The same, all of it, as JSON.
pub fn json(replayed: &Replayed<'_>) -> String {
    let (load, fit) = (replayed.replay.load(), replayed.replay.fit());
    let setting = |one: &SettingRequest| json!({ "setting": one.setting.to_string(), "value": one.value });
    let predictions: Vec<serde_json::Value> = replayed
        .ordered()
        .into_iter()
        .map(|one| {
            let prediction = prediction_json(&one.prediction);
            json!({ "settings": one.settings.iter().map(setting).collect::<Vec<_>>(), "prediction": prediction })
        })
        .collect();
    let value = json!({
        "schema": SCHEMA,
        "run": replayed.trial.run.to_string(),
        "trial": replayed.trial.key.to_string(),
        "in_force": replayed.replay.in_force().iter().map(setting).collect::<Vec<_>>(),
        "load": {
            "counted": load.counted,
            "rate_per_second": load.rate,
            "in_flight": load.in_flight,
            "in_flight_known": load.in_flight_known,
            "cpu_seconds_per_request": load.cpu_seconds(),
            "wait_seconds": fit.wait,
            "not_recorded": load.not_recorded.iter().map(|what| what.name()).collect::<Vec<_>>(),
        },
        "machine_given": replayed.told_machine,
        "fit": fit_json(fit),
        "predictions": predictions,
    });
    format!("{value:#}")
}

fn prediction_json(prediction: &Prediction) -> serde_json::Value {
    json!({
        "rate_ratio": prediction.rate.value,
        "rate_ratio_low": prediction.rate.low,
        "rate_ratio_high": prediction.rate.high,
        "direction": prediction.rate.direction().map(Direction::name),
        "latency_seconds": prediction.latency,
        "frequency_hz": prediction.frequency,
        "cpu_busy_share": prediction.busy,
    })
}

fn fit_json(fit: Fit) -> serde_json::Value {
    json!({ "rate": fit.rate, "cpu": fit.cpu, "frequency": fit.frequency })
}

/// A prediction and what was measured.
#[derive(Clone, Debug)]
pub struct Pair {
    /// The cell that was replayed.
    pub from: String,
    /// The cell that was predicted.
    pub to: String,
    /// What was predicted.
    pub prediction: Prediction,
    /// How the model fits what was replayed.
    pub fit: Fit,
    /// What was measured, of what was recorded: medians.
    pub measured: f64,
}

impl Pair {
    /// Predicted of measured, less 1.
    pub fn error(&self) -> f64 {
        self.prediction.rate.value / self.measured - 1.0
    }

    /// Whether the interval holds what was measured.
    pub fn is_covered(&self) -> bool {
        (self.prediction.rate.low..=self.prediction.rate.high).contains(&self.measured)
    }

    /// Whether the figure is on the other side of 1 than what was measured, where that is so far from 1.
    pub fn is_wrong_sign(&self) -> bool {
        (self.measured - 1.0).abs() > SIGN && (self.measured - 1.0) * (self.prediction.rate.value - 1.0) < 0.0
    }

    /// Whether it says gain or loss.
    pub fn is_claimed(&self) -> bool {
        self.prediction.rate.direction().is_some()
    }
}

/// A difference that a sign is asked of.
const SIGN: f64 = 0.05;

/// Of all pairs.
struct Totals {
    pairs: usize,
    median: f64,
    worst: f64,
    covered: usize,
    /// Those that say gain or loss.
    claimed: usize,
    /// The figures of the wrong sign, and of them those that say gain or loss.
    wrong: (usize, usize),
}

fn totals(all: &[Pair]) -> Totals {
    let all: Vec<&Pair> = all.iter().filter(|one| one.fit.is_good()).collect();
    let mut errors: Vec<f64> = all.iter().map(|one| one.error().abs()).collect();
    errors.sort_by(f64::total_cmp);
    Totals {
        pairs: all.len(),
        median: errors.get(errors.len() / 2).copied().unwrap_or_default(),
        worst: errors.last().copied().unwrap_or_default(),
        covered: all.iter().filter(|one| one.is_covered()).count(),
        claimed: all.iter().filter(|one| one.is_claimed()).count(),
        wrong: (
            all.iter().filter(|one| one.is_wrong_sign()).count(),
            all.iter().filter(|one| one.is_wrong_sign() && one.is_claimed()).count(),
        ),
    }
}

/// A line for each pair, and what they come to.
pub fn checked_text(all: &[Pair]) -> Lines {
    let mut text = Lines::default();
    let width = |of: &dyn Fn(&Pair) -> usize| all.iter().map(of).max().unwrap_or(4).max(9);
    let (from, to) = (width(&|one| one.from.chars().count()), width(&|one| one.to.chars().count()));
    text.line(format_args!(
        "{:<from$}  {:<to$}  {:>8}  {:>9}  {:>7}  interval",
        "recorded", "predicted", "measured", "predicted", "error"
    ));
    for one in all {
        text.line(format_args!(
            "{:<from$}  {:<to$}  {:>8}  {:>9}  {:>7}  {} to {}{}",
            one_line(&one.from),
            one_line(&one.to),
            significant(one.measured),
            significant(one.prediction.rate.value),
            format!("{:+.1}%", one.error() * 100.0),
            significant(one.prediction.rate.low),
            significant(one.prediction.rate.high),
            match (one.fit.is_good(), one.is_covered()) {
                (false, _) => " (no fit)",
                (true, false) => " (missed)",
                (true, true) => "",
            },
        ));
    }
    let Totals { pairs, median, worst, covered, claimed, wrong: (of_figures, of_claimed) } = totals(all);
    text.blank();
    text.line(format_args!(
        "{pairs} pairs: median error {:.1}%, worst {:.1}%, {covered} within their interval",
        median * 100.0,
        worst * 100.0
    ));
    text.line(format_args!(
        "of the wrong sign: {of_claimed} of {claimed} that say gain or loss; of the figures, {of_figures}"
    ));
    if pairs < all.len() {
        text.line(format_args!(
            "{} more of recordings that the model does not fit, which it says",
            all.len() - pairs
        ));
    }
    text
}

/// The same as JSON.
pub fn checked_json(all: &[Pair]) -> String {
    let pairs: Vec<serde_json::Value> = all
        .iter()
        .map(|one| {
            json!({
                "recorded": one.from,
                "predicted": one.to,
                "measured_ratio": one.measured,
                "prediction": prediction_json(&one.prediction),
                "fit": fit_json(one.fit),
                "error": one.error(),
                "fits": one.fit.is_good(),
                "covered": one.is_covered(),
            })
        })
        .collect();
    let Totals { pairs: counted, median, worst, covered, claimed, wrong: (of_figures, of_claimed) } =
        totals(all);
    let value = json!({
        "schema": SCHEMA,
        "pairs": pairs,
        "pairs_of_a_fit": counted,
        "median_error": median,
        "worst_error": worst,
        "covered": covered,
        "claimed": claimed,
        "wrong_sign": of_figures,
        "wrong_sign_claimed": of_claimed,
    });
    format!("{value:#}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use domain::ids::RunId;
    use domain::setting::SettingName;
    use domain::time::Timestamp;
    use domain::trace::Role;
    use domain::trial::{PROCESS, Validity};
    use replay::{Demand, Estimate};
    use sim::machine::MachineSpec;
    use std::collections::BTreeMap;

    fn trial(provenance: Provenance) -> Trial {
        Trial {
            run: RunId("recording-1".into()),
            key: "b00.load.a0".parse().unwrap(),
            study: "recording".into(),
            workload: "load".into(),
            levels: BTreeMap::new(),
            provenance,
            machine: "m".into(),
            started: Timestamp::from_unix_nanos(0),
            settings: vec![],
            environment: BTreeMap::new(),
            validity: Validity::Valid,
            measurement: None,
            lab: None,
            origin: None,
        }
    }

    /// One request at a time, of 8 ms of CPU time at 1.4 GHz and 10 ms of waiting, under ondemand.
    fn replay() -> Replay {
        let spec = MachineSpec::parse(include_str!("../../../studies/machines/lab.toml")).unwrap();
        let mut machine = Machine::of(&spec.inventory(), &[]).unwrap();
        machine.in_force.push(setting("ondemand.up_threshold", "95"));
        machine.in_force.push(setting("ondemand.sampling_rate", "100000"));
        let load = Load {
            rate: 55.5,
            counted: "iops".into(),
            in_flight: 1,
            in_flight_known: true,
            demands: vec![Demand { role: Role::Workload, seconds: 0.008, threads: 1 }],
            overlap: 0.0,
            disk_latency: Some(0.01),
            interrupts: 0.0,
            waits_for_io: true,
            frequency: None,
            beside: 0.0,
            tick: 0.0,
            not_recorded: Default::default(),
        };
        Replay::new(machine, load).unwrap()
    }

    fn setting(name: &str, value: &str) -> SettingRequest {
        SettingRequest { setting: SettingName::parse(name), value: value.into() }
    }

    fn screen(provenance: Provenance, command: &[&str], what_ifs: &[&[SettingRequest]]) -> String {
        screen_of(&trial(provenance), command, what_ifs)
    }

    fn screen_of(trial: &Trial, command: &[&str], what_ifs: &[&[SettingRequest]]) -> String {
        let replay = replay();
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        let predicted = what_ifs.iter().map(|settings| Predicted {
            settings: settings.to_vec(),
            prediction: replay.predict(settings).unwrap(),
        });
        let replayed = Replayed {
            trial,
            replay: &replay,
            predicted: predicted.collect(),
            command: &command,
            told_machine: None,
            others: false,
            is_whole: false,
        };
        text(&replayed, "flyball", 80)
    }

    #[test]
    fn an_import_names_its_machine_what_it_lacks_and_what_to_type_there() {
        let mut load = replay().load().clone();
        load.not_recorded = [NotRecorded::Interrupts, NotRecorded::WaitsForIo].into();
        let replay = Replay::new(replay().machine().clone(), load).unwrap();
        let settings = vec![setting("ondemand.up_threshold", "20")];
        let predicted = vec![Predicted { prediction: replay.predict(&settings).unwrap(), settings }];
        let trial = trial(Provenance::Imported);
        let replayed = Replayed {
            trial: &trial,
            replay: &replay,
            predicted,
            command: &[],
            told_machine: Some("mach\u{1b}ine.json"),
            others: false,
            is_whole: false,
        };
        let text = text(&replayed, "flyball --notebook nb", 80);
        let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "1 CPU under acpi-cpufreq",
            "Not recorded, so that both ends are in the interval: interrupts of idle CPUs (up to 25",
            "on the machine that was recorded: what it would write flyball tune --set ondemand.up_threshold=20 --persist --dry-run",
        ] {
            assert!(one_line.contains(part), "{part}: {text}");
        }
        assert!(!text.contains('\u{1b}'), "{text}");
        let value: serde_json::Value = serde_json::from_str(&json(&replayed)).unwrap();
        assert_eq!(value["load"]["not_recorded"][0], "interrupts_of_idle_cpus");
    }

    #[test]
    fn of_equal_predictions_the_one_that_changes_least_is_measured_with_the_recorded_command() {
        let what_ifs: [&[SettingRequest]; 3] = [
            &[setting("governor", "performance")],
            &[setting("ondemand.up_threshold", "20")],
            &[setting("governor", "powersave")],
        ];
        let text = screen(Provenance::Host, &["record", "--", "fio", "my job.fio"], &what_ifs);
        let next = "    flyball tune --set ondemand.up_threshold=20 -- fio 'my job.fio'";
        assert!(text.ends_with(&format!("Next         measure it\n{next}\n")), "{text}");
        let order: Vec<usize> =
            ["performance\n", "powersave\n"].iter().map(|name| text.find(name).unwrap()).collect();
        assert!(order[0] < order[1], "the most is first: {text}");
        let watched = screen(Provenance::Host, &["record", "--for", "5s"], &what_ifs);
        assert!(watched.contains("tune --set ondemand.up_threshold=20 --persist --dry-run"), "{watched}");
        let mut process = trial(Provenance::Host);
        process.environment.insert(PROCESS.into(), "17 mariadbd".into());
        let text = screen_of(&process, &["record", "--pid", "17"], &what_ifs);
        assert!(text.contains("    flyball tune --set ondemand.up_threshold=20 --pid 17\n"), "{text}");
    }

    /// Predictions of these intervals, under settings that are told apart by a number.
    fn estimated(rates: &[(f64, f64, f64)]) -> Vec<Predicted> {
        let replay = replay();
        let each = |(at, (low, value, high)): (usize, &(f64, f64, f64))| {
            let settings = vec![setting("ondemand.up_threshold", &(20 + at).to_string())];
            let mut prediction = replay.predict(&settings).unwrap();
            prediction.rate = Estimate { low: *low, value: *value, high: *high };
            Predicted { settings, prediction }
        };
        rates.iter().enumerate().map(each).collect()
    }

    #[test]
    fn what_may_be_a_gain_or_a_loss_is_shown_as_neither() {
        let (replay, trial) = (replay(), trial(Provenance::Host));
        let command = ["record", "--", "fio"].map(str::to_owned);
        let shown = |rates: &[(f64, f64, f64)]| {
            let replayed = Replayed {
                trial: &trial,
                replay: &replay,
                predicted: estimated(rates),
                command: &command,
                told_machine: None,
                others: false,
                is_whole: true,
            };
            (text(&replayed, "flyball", 100), json(&replayed))
        };
        let (open, json) = shown(&[(0.93, 1.0812, 1.26)]);
        assert!(
            open.contains("unknown") && open.contains("0.930 to 1.26") && !open.contains("1.08"),
            "{open}"
        );
        assert!(open.contains("cannot tell") && open.contains("it may gain"), "{open}");
        assert!(json.contains("\"direction\": null"), "{json}");
        let (told, json) = shown(&[(1.02, 1.0812, 1.26), (0.5, 0.6, 0.9)]);
        assert!(!told.contains("unknown") && told.contains("1.08"), "{told}");
        assert!(told.contains("Next         measure it"), "{told}");
        assert!(json.contains("\"gain\"") && json.contains("\"loss\""), "{json}");
    }

    #[test]
    fn a_wrong_sign_is_counted_of_all_figures_and_of_those_that_say_gain_or_loss() {
        let rates = [(0.9, 1.02, 1.2), (1.1, 1.3, 1.4), (0.7, 0.8, 0.95), (1.1, 1.2, 1.3)];
        let measured = [0.8, 0.9, 0.9, 0.97];
        let pair = |(one, measured): (Predicted, f64)| Pair {
            from: "a".into(),
            to: "b".into(),
            prediction: one.prediction,
            fit: Fit { rate: 1.0, cpu: 1.0, frequency: None, wait: 0.0 },
            measured,
        };
        let pairs: Vec<Pair> = estimated(&rates).into_iter().zip(measured).map(pair).collect();
        // The last was measured to differ by less than a sign is asked of.
        let text = checked_text(&pairs).as_str().to_owned();
        assert!(
            text.contains("of the wrong sign: 1 of 3 that say gain or loss; of the figures, 2"),
            "{text}"
        );
        let value: serde_json::Value = serde_json::from_str(&checked_json(&pairs)).unwrap();
        let counts =
            ["claimed", "wrong_sign", "wrong_sign_claimed"].map(|name| value[name].as_u64().unwrap());
        assert_eq!(counts, [3, 2, 1]);
    }

    #[test]
    fn predictions_that_no_model_can_tell_apart_stay_as_they_are_given() {
        let replay = replay();
        let names = ["performance", "conservative", "schedutil", "powersave"];
        let rates = [55.0, 54.9, 55.3, 54.0];
        let of = |(name, rate): (&str, f64)| {
            let settings = vec![setting("governor", name)];
            let mut prediction = replay.predict(&settings).unwrap();
            prediction.rate.value = rate;
            Predicted { settings, prediction }
        };
        let trial = trial(Provenance::Host);
        let predicted = names.into_iter().zip(rates).map(of).collect();
        let replayed = Replayed {
            trial: &trial,
            replay: &replay,
            predicted,
            command: &[],
            told_machine: None,
            others: false,
            is_whole: false,
        };
        let ordered = replayed.ordered().into_iter().map(Predicted::name).collect::<Vec<_>>();
        assert_eq!(ordered, names);
    }

    #[test]
    fn what_is_no_gain_here_or_of_another_machine_names_no_command() {
        let slower: [&[SettingRequest]; 1] = [&[setting("governor", "powersave")]];
        let text = screen(Provenance::Host, &["record", "--", "fio"], &slower);
        assert!(text.contains("no policy is predicted to gain") && !text.contains("flyball"), "{text}");
        let text = screen(Provenance::Simulation, &["run"], &[&[setting("governor", "performance")]]);
        assert!(text.contains("of another machine") && !text.contains("tune"), "{text}");
    }
}
