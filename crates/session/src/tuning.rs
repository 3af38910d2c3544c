//! A change of settings measured before and after: the study that decides whether it is worth keeping.
//!
//! Blocks of one trial before and one after, in random order, go on until it is clear whether the change
//! gains more than the threshold (`until = "decided"`), twenty at the most. Each side errs once in twenty: a
//! change that does nothing is called better less often than that, however often one looks.
//!
//! Of many changes, a study looks for the best first (`until = "best"`), by successive halving; or for those
//! that no other beats in speed and watts together (`until = "front"`), among which the user chooses.

use crate::draft::quoted;
use crate::error::{Error, Result};
use crate::recordings::short_command;
use crate::study_text::plain_text;
use analysis::answer::ranked;
use analysis::summary::{CellSummary, RunData, RunSummary};
use domain::database::counters::{QUERIES, TRANSACTIONS, WRITE_TRANSACTIONS};
use domain::plan::Cell;
use domain::rng::Seed;
use domain::setting::{SettingName, SettingRequest};
use domain::study::Until;
use runner::WatchedLoad;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};
use workloads::running::DEVICE_THROUGHPUT;
use workloads::{Needs, Options};

/// The name of the study that decides.
pub const STUDY: &str = "tune";

/// The name of the study that looks for the best of many changes.
pub const SEARCH: &str = "tune-search";

/// What it varies, and the levels: the machine as it is, and with the change.
const FACTOR: &str = "change";
const BEFORE: &str = "before";
const AFTER: &str = "after";

/// How long blocks go on, and what they are to tell.
const UNTIL: [(&str, &str); 4] =
    [("repeats", "[5, 20]"), ("until", "\"decided\""), ("confidence", "0.9"), ("threshold", "\"2%\"")];

/// How long a search goes on.
const UNTIL_BEST: [(&str, &str); 4] =
    [("repeats", "[1, 15]"), ("until", "\"best\""), ("confidence", "0.9"), ("threshold", "\"2%\"")];

/// How long a search for the trade-off of speed and watts goes on: two trials of each at least, for watts
/// differ less than speed does.
const UNTIL_FRONT: [(&str, &str); 4] =
    [("repeats", "[2, 6]"), ("until", "\"front\""), ("confidence", "0.9"), ("threshold", "\"2%\"")];

/// How many changes a search holds against each other: as many levels as a factor has, with the machine as it
/// is.
const MAX_CHANGES: usize = 99;

/// The settings that a search varies, at the most.
const MAX_SEARCHED: usize = 8;

/// Of so many combinations a search draws its changes, at the most.
const MAX_COMBINATIONS: usize = 100_000;

/// A level's name has no more characters.
const MAX_NAME: usize = 64;

/// How a load is measured besides: caches stay, and other work counts, for the machine is the one that the
/// change is for.
const AS_IT_IS: [(&str, &str); 3] = [("drop_caches", "false"), ("settle", "\"0s\""), ("under_load", "true")];

/// What tells best how fast a database goes: the first of these that it counts.
const OF_A_SERVER: [&str; 3] = [TRANSACTIONS, WRITE_TRANSACTIONS, QUERIES];

/// What a change is measured on, where that is not what a finding's run measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// A command, which is run once a trial; none where it has no word.
    pub command: Vec<String>,
    /// What runs already, as the options of a workload `running` name it; none where they are empty.
    pub running: Options,
    /// What decides; `None` for what tells best how fast the load goes.
    pub decides: Option<Decides>,
}

/// The changes that a study measures beside the machine as it is.
#[derive(Clone, Copy, Debug)]
pub enum Changes<'a> {
    /// Whether this one helps.
    One(&'a [SettingRequest]),
    /// Which of these is best.
    Best(&'a [Vec<SettingRequest>]),
    /// Which of these no other beats in speed and watts together.
    Front(&'a [Vec<SettingRequest>]),
}

impl Changes<'_> {
    /// The name of such a study.
    pub const fn study(self) -> &'static str {
        match self {
            Self::One(_) => STUDY,
            Self::Best(_) | Self::Front(_) => SEARCH,
        }
    }

    const fn until(self) -> &'static [(&'static str, &'static str); 4] {
        match self {
            Self::One(_) => &UNTIL,
            Self::Best(_) => &UNTIL_BEST,
            Self::Front(_) => &UNTIL_FRONT,
        }
    }

    /// Whether any of them writes this setting.
    fn writes(self, setting: &SettingName) -> bool {
        let has = |settings: &[SettingRequest]| settings.iter().any(|one| one.setting == *setting);
        match self {
            Self::One(settings) => has(settings),
            Self::Best(all) | Self::Front(all) => all.iter().any(|settings| has(settings)),
        }
    }

    fn question(self, what: &str) -> String {
        match self {
            Self::One(settings) => {
                let changes: Vec<String> = settings.iter().map(ToString::to_string).collect();
                format!("Is `{what}` faster with {}?", changes.join(" and "))
            }
            Self::Front(all) => {
                format!(
                    "Which of {} changes does no other beat in the speed of `{what}` and watts?",
                    all.len()
                )
            }
            Self::Best(all) => format!("With which of {} changes is `{what}` fastest?", all.len()),
        }
    }

    /// Its levels: a name, and the settings.
    fn levels(self) -> Vec<(String, Vec<SettingRequest>)> {
        match self {
            Self::One(settings) => vec![(AFTER.to_owned(), settings.to_vec())],
            Self::Best(all) | Self::Front(all) => {
                let named = |(number, settings): (usize, &Vec<SettingRequest>)| {
                    (level_name(settings, number + 1), settings.clone())
                };
                all.iter().enumerate().map(named).collect()
            }
        }
    }
}

/// `up_threshold=40 sampling_rate=10000`; the values alone where that is too long; else its number.
fn level_name(settings: &[SettingRequest], number: usize) -> String {
    let short = |one: &SettingRequest| {
        let name = one.setting.name.rsplit('.').next().unwrap_or_default();
        format!("{name}={}", one.value)
    };
    let of =
        |words: &dyn Fn(&SettingRequest) -> String| settings.iter().map(words).collect::<Vec<_>>().join(" ");
    let names = [of(&short), of(&|one| one.value.clone())];
    let fits = names.into_iter().find(|name| name.chars().count() <= MAX_NAME);
    fits.unwrap_or_else(|| format!("change {number}"))
}

/// Each combination of the values that are listed for settings, `a=1,2` and `b=x,y`. Of more than a study
/// has room for, as many as it has, which the seed draws.
///
/// # Errors
/// [`Error::Usage`] where there is nothing to choose between, or too much is to be varied.
pub fn combinations(listed: &[SettingRequest], seed: Seed) -> Result<Vec<Vec<SettingRequest>>> {
    let mut all: Vec<Vec<SettingRequest>> = vec![vec![]];
    if listed.len() > MAX_SEARCHED {
        return Err(Error::Usage(format!(
            "a search varies {MAX_SEARCHED} settings at the most, and these are {}; leave some out",
            listed.len()
        )));
    }
    for (number, SettingRequest { setting, value }) in listed.iter().enumerate() {
        if listed[..number].iter().any(|one| one.setting == *setting) {
            return Err(Error::Usage(format!(
                "`{setting}` is listed twice; write its values at commas, once"
            )));
        }
        let values: BTreeSet<&str> = value.split(',').map(str::trim).filter(|one| !one.is_empty()).collect();
        let with = |before: &Vec<SettingRequest>, value: &&str| {
            let one = SettingRequest { setting: setting.clone(), value: (*value).to_owned() };
            before.iter().cloned().chain([one]).collect::<Vec<_>>()
        };
        // Sixteen values of each of eight settings are more than a machine has room for.
        if all.len().saturating_mul(values.len()) > MAX_COMBINATIONS {
            return Err(Error::Usage(format!(
                "the values listed have more than {MAX_COMBINATIONS} combinations; list fewer, or search twice"
            )));
        }
        all = all.iter().flat_map(|before| values.iter().map(move |value| with(before, value))).collect();
    }
    if all.len() < 2 {
        return Err(Error::Usage(
            "a search needs values to choose between, at commas: `flyball tune --search --set NAME=VALUE,VALUE -- COMMAND`".into(),
        ));
    }
    if all.len() > MAX_CHANGES {
        seed.stream("search").shuffle(&mut all);
        all.truncate(MAX_CHANGES);
    }
    Ok(all)
}

/// What decides whether a change is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decides {
    /// The metric of this name.
    Metric(String),
    /// The first metric that the load has for this goal.
    Goal(Goal),
}

/// What a change is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// More work in the same time.
    Throughput,
    /// The latency that one in a hundred exceeds.
    P99,
    /// Less energy for the same work. That of a command is all that the machine took meanwhile.
    JoulesPerOp,
    /// More work, and fewer watts: what no other change beats in both.
    Pareto,
}

impl Decides {
    /// As it is named on the command line; `None` where nothing is.
    pub fn named(metric: Option<&str>, goal: Option<&str>) -> Option<Self> {
        let goal = goal.and_then(|name| Goal::ALL.into_iter().find(|goal| goal.name() == name));
        metric.map(|metric| Self::Metric(metric.to_owned())).or(goal.map(Self::Goal))
    }

    /// The metric by which a study of this text is to decide; `None` for the one that it has.
    ///
    /// # Errors
    /// [`Error::Usage`] with what its workload has, where none of that is the goal's.
    fn metric(&self, text: &str) -> Result<Option<String>> {
        let goal = match self {
            Self::Metric(metric) => return Ok(Some(metric.clone())),
            Self::Goal(goal) => *goal,
        };
        let study = parse::study::parse(text).map_err(|errors| Error::Usage(errors.to_string()))?;
        let workload = study.workloads.first().expect("a study has a workload");
        let is_running = workloads::of(&workload.tool).needs() == Needs::RunningLoad;
        if matches!(goal, Goal::Throughput | Goal::Pareto) && is_running {
            // It was asked for what tells best how fast it goes.
            return Ok(None);
        }
        let reported: Vec<&str> =
            workloads::report::reported(&study, workload).into_iter().map(|(name, _)| name).collect();
        // Its server alone counts what a running load does: joules of a fixed span are none of an operation.
        let is_counted = |metric: &str| {
            !is_running || metric.ends_with("_per_transaction") && workload.options.contains_key("server")
        };
        let found = goal.metrics().iter().find(|metric| reported.contains(metric) && is_counted(metric));
        let found = found.ok_or_else(|| {
            Error::Usage(format!(
                "no metric of this load tells of the goal `{}`; name one with --metric: {}",
                goal.name(),
                reported.join(", ")
            ))
        })?;
        Ok(Some((*found).to_owned()))
    }
}

impl Goal {
    /// All of them.
    const ALL: [Self; 4] = [Self::Throughput, Self::P99, Self::JoulesPerOp, Self::Pareto];

    /// As it is typed.
    const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::P99 => "p99",
            Self::JoulesPerOp => "joules-per-op",
            Self::Pareto => "pareto",
        }
    }

    /// The metrics that tell of it, the most telling first.
    const fn metrics(self) -> &'static [&'static str] {
        match self {
            Self::Throughput | Self::Pareto => &["transactions", "iops", "throughput", "elapsed"],
            Self::P99 => &["latency_p99", "sync_latency_p99"],
            Self::JoulesPerOp => &["energy_per_transaction", "energy_per_io", "energy_per_gb", "energy"],
        }
    }
}

impl Load {
    /// Whether what is wanted is a choice between speed and watts.
    fn is_for_a_front(&self) -> bool {
        self.decides == Some(Decides::Goal(Goal::Pareto))
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        self.command.is_empty() && self.running.is_empty()
    }
}

/// The text of a study that measures a load with and without these changes. A load that runs already is
/// looked for, and asked what it tells.
///
/// # Errors
/// [`Error::Usage`] where options name no load; where that is not there.
pub fn study_of_load(changes: Changes<'_>, load: &Load) -> Result<String> {
    if load.is_for_a_front() && matches!(changes, Changes::One(_)) {
        return Err(Error::Usage(ONE_IS_NO_CHOICE.into()));
    }
    decided_by(load.decides.as_ref(), |metric| study_by(changes, load, metric))
}

const ONE_IS_NO_CHOICE: &str = "a choice between speed and watts takes several changes; list values: `flyball tune --search \
--goal pareto --set NAME=VALUE,VALUE -- COMMAND`";

/// The text of a study that looks for the best of these changes on a load.
///
/// # Errors
/// [`Error::Usage`] where there is no load, or nothing to try; those of [`study_of_load`].
pub fn study_of_search(all: &[Vec<SettingRequest>], load: &Load) -> Result<String> {
    if load.is_none() {
        return Err(Error::Usage(
            "nothing to measure the changes by; name a load: `-- COMMAND`, --pid, --server or --metric-command".into(),
        ));
    }
    if all.is_empty() {
        return Err(Error::Usage(
            "the replay predicts nothing that is faster; list values: `flyball tune --search --set NAME=VALUE,VALUE -- COMMAND`".into(),
        ));
    }
    let changes = if load.is_for_a_front() { Changes::Front(all) } else { Changes::Best(all) };
    study_of_load(changes, load)
}

/// A study whose text depends on the metric that decides: first as it would be, then by the metric.
fn decided_by(decides: Option<&Decides>, text: impl Fn(Option<&str>) -> Result<String>) -> Result<String> {
    let usual = text(None)?;
    let metric = decides.map(|decides| decides.metric(&usual)).transpose()?.flatten();
    metric.map_or(Ok(usual), |metric| text(Some(&metric)))
}

/// The study by this metric, or by the one that tells best how fast the load goes.
fn study_by(changes: Changes<'_>, load: &Load, metric: Option<&str>) -> Result<String> {
    if load.running.is_empty() {
        let words: Vec<String> = load.command.iter().map(|word| quoted(word)).collect();
        let workload = format!("[workload.command]\ntool = \"command\"\nargv = [{}]\n", words.join(", "));
        let head = head(&short_command(&load.command), changes);
        return Ok(as_it_is(&head, &workload, changes, metric.unwrap_or("elapsed")));
    }
    if !["pid", "server", "metric_command"].iter().any(|name| load.running.contains_key(*name)) {
        return Err(Error::Usage(
            "--for and --wash-out are of a load that runs already; name one with --pid, --server or --metric-command".into(),
        ));
    }
    let named = workloads::running::RunningLoad::parse(&load.running)
        .map_err(|error| Error::Usage(format!("cannot measure the change: {error}")))?;
    let found = WatchedLoad::find(&load.running)?;
    let of_command = named.metric_command.as_ref().map(|command| command.number.metric());
    let of_server = || named.server.as_ref().and_then(|_| found.first_of(&OF_A_SERVER));
    let best = of_command.or_else(of_server).unwrap_or(DEVICE_THROUGHPUT);
    let options: Vec<String> =
        named.options().iter().map(|(name, value)| format!("{name} = {}", quoted(value))).collect();
    let workload = format!("[workload.load]\ntool = \"running\"\noptions = {{ {} }}\n", options.join(", "));
    Ok(as_it_is(&head(&found.name(), changes), &workload, changes, metric.unwrap_or(best)))
}

fn as_it_is(head: &str, workload: &str, changes: Changes<'_>, metric: &str) -> String {
    let measure: String =
        AS_IT_IS.iter().chain(changes.until()).map(|(key, value)| format!("{key} = {value}\n")).collect();
    let metric = quoted(metric);
    format!("{head}\n{workload}\n{}\n[measure]\nmetric = {metric}\n{measure}", factor(changes))
}

const CHOOSE: &str = "nothing is changed: choose between speed and watts. A command above keeps its setting (`flyball tune --undo` \
takes it back); what it gains is measured by `flyball tune --set NAME=VALUE --goal joules-per-op -- COMMAND`";

/// The settings of the change that a search found, and what is to be said of them; none where the machine as
/// it is was best.
pub fn found<'a>(data: &'a RunData, summary: &RunSummary) -> (&'a [SettingRequest], String) {
    if data.study.measure.until == Until::Front {
        return (&[], CHOOSE.to_owned());
    }
    let name = ranked(summary).first().and_then(|best| best.levels.get(FACTOR));
    let levels = data.study.factors.iter().filter(|factor| factor.name == FACTOR).flat_map(|one| &one.levels);
    let level = levels.into_iter().find(|level| Some(&level.name) == name);
    let settings = level.map_or(&[][..], |level| &level.settings);
    let words: Vec<String> = settings.iter().map(ToString::to_string).collect();
    let is_change = |cell: &&CellSummary| cell.levels.get(FACTOR).is_some_and(|level| level != BEFORE);
    let said = if !settings.is_empty() {
        format!("now measured by trials of its own: {}", words.join(", "))
    } else if ranked(summary).iter().any(is_change) {
        "none of them is better than the machine as it is; nothing is changed".to_owned()
    } else {
        "none of them could be measured here; nothing is changed".to_owned()
    };
    (settings, said)
}

/// A finding's run and number, from `RUN:NUMBER`.
///
/// # Errors
/// [`Error::Usage`] where it is no such name.
pub fn finding_of(named: &str) -> Result<(&str, usize)> {
    let parts = named.rsplit_once(':').and_then(|(run, number)| Some((run, number.parse().ok()?)));
    parts.ok_or_else(|| {
        Error::Usage(format!(
            "`{named}` is no finding; write `RUN:NUMBER`, as `flyball explain RUN` counts them"
        ))
    })
}

/// The text of a study that measures one cell of another, whose text this is, with these changes and
/// without: on the same target, with the same options and settings, and by the same metric, if no other is
/// named.
///
/// # Errors
/// [`Error::Usage`] where the cell differs from what a study without factors can say; the text says in what.
pub fn study_of_cell(
    changes: Changes<'_>,
    text: &str,
    cell: &Cell,
    decides: Option<&Decides>,
) -> Result<String> {
    if decides == Some(&Decides::Goal(Goal::Pareto)) && matches!(changes, Changes::One(_)) {
        return Err(Error::Usage(ONE_IS_NO_CHOICE.into()));
    }
    decided_by(decides, |metric| cell_by(changes, text, cell, metric))
}

fn cell_by(changes: Changes<'_>, text: &str, cell: &Cell, metric: Option<&str>) -> Result<String> {
    let wrong = |why: &str| Error::Usage(why.to_owned());
    let mut study: Table =
        text.parse().map_err(|error| Error::Usage(format!("its study cannot be read: {error}")))?;
    if cell.kernel.is_some() || study.get("factor").is_some_and(changes_the_stack) {
        return Err(wrong(
            "its study varies the stack or the kernel: vary the setting in a study of its own",
        ));
    }
    for key in ["flyball", "name", "question", "primary", "factor", "published", "page", "lab", "sim"] {
        study.remove(key);
    }
    let workload = of_cell(&mut study, cell).ok_or_else(|| wrong("its study has no such workload"))?;
    study.insert("workload".into(), Table::from_iter([(cell.workload.name.clone(), workload)]).into());
    keep_beside(&mut study, cell);
    let kept = cell.settings.iter().filter(|one| !changes.writes(&one.setting));
    let kept = kept.map(|one| (one.setting.to_string(), Value::from(one.value.clone())));
    study.insert("settings".into(), Table::from_iter(kept).into());
    let mut measure =
        study.remove("measure").and_then(|value| value.try_into::<Table>().ok()).unwrap_or_default();
    measure.remove("precision");
    if let Some(metric) = metric {
        measure.insert("metric".into(), metric.into());
    }
    changes.until().iter().for_each(|(key, _)| drop(measure.remove(*key)));
    let measure: String =
        measure.iter().map(|(key, value)| format!("{} = {}\n", quoted(key), inline(value))).collect();
    let until: String = changes.until().iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    let tables: String =
        study.iter().map(|(key, value)| format!("{} = {}\n", quoted(key), inline(value))).collect();
    let head = head(cell.id.as_str(), changes);
    Ok(format!("{head}{tables}\n{}\n[measure]\n{measure}{until}", factor(changes)))
}

/// The cell's workload, with its levels' options, as the study's text has it.
fn of_cell(study: &mut Table, cell: &Cell) -> Option<Value> {
    let workloads = study.get_mut("workload")?.as_table_mut()?;
    let mut workload = workloads.remove(&cell.workload.name)?;
    let table = workload.as_table_mut()?;
    let options: &BTreeMap<String, String> = &cell.workload.options;
    if !options.is_empty() {
        let options = options.iter().map(|(key, value)| (key.clone(), Value::from(value.clone())));
        table.insert("options".into(), Table::from_iter(options).into());
    }
    if let Some((argv, _)) = cell.workload.tool.command() {
        table.insert("argv".into(), Value::Array(argv.iter().cloned().map(Value::from).collect()));
    }
    Some(workload)
}

/// The loads that run beside the cell's workload, and no others, with its levels in their commands.
fn keep_beside(study: &mut Table, cell: &Cell) {
    let Some(mut beside) = study.remove("beside").and_then(|value| value.try_into::<Table>().ok()) else {
        return;
    };
    let named = |name: &str| cell.beside.iter().find(|companion| companion.load.name == name);
    beside.retain(|name, _| named(name).is_some());
    for (name, load) in &mut beside {
        let argv = named(name).and_then(|companion| companion.load.tool.command()).map(|(argv, _)| argv);
        if let (Some(argv), Some(load)) = (argv, load.as_table_mut()) {
            load.insert("argv".into(), Value::Array(argv.iter().cloned().map(Value::from).collect()));
        }
    }
    if !beside.is_empty() {
        study.insert("beside".into(), beside.into());
    }
}

fn changes_the_stack(factors: &Value) -> bool {
    let has = |table: &Value| table.get("stack").is_some();
    let any_level = |factor: &Value| {
        let levels = factor.get("level").and_then(Value::as_array);
        levels.is_some_and(|levels| levels.iter().any(has))
    };
    factors.as_table().is_some_and(|all| all.values().any(|factor| has(factor) || any_level(factor)))
}

/// A value on one line.
fn inline(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Integer(number) => number.to_string(),
        Value::Float(number) => format!("{number:?}"),
        Value::Boolean(flag) => flag.to_string(),
        Value::Datetime(time) => time.to_string(),
        Value::Array(items) => format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", ")),
        Value::Table(table) => {
            let pair = |(key, value): (&String, &Value)| format!("{} = {}", quoted(key), inline(value));
            format!("{{ {} }}", table.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
}

fn head(what: &str, changes: Changes<'_>) -> String {
    format!(
        "flyball = 1\nname = {}\nquestion = {}\nprimary = {}\n",
        quoted(changes.study()),
        quoted(&plain_text(&changes.question(what))),
        quoted(FACTOR)
    )
}

fn factor(changes: Changes<'_>) -> String {
    let pair = |request: &SettingRequest| {
        format!("{} = {}", quoted(&request.setting.to_string()), quoted(&request.value))
    };
    let begin = format!("[[factor.{FACTOR}.level]]\nname = ");
    let level = |(name, settings): (String, Vec<SettingRequest>)| {
        let pairs: Vec<String> = settings.iter().map(pair).collect();
        format!("{begin}{}\nsettings = {{ {} }}\n", quoted(&name), pairs.join(", "))
    };
    let levels: String = changes.levels().into_iter().map(level).collect();
    format!("[factor.{FACTOR}]\n{begin}{}\n{levels}", quoted(BEFORE))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use domain::plan::Plan;
    use domain::study::Until;

    fn requests() -> Vec<SettingRequest> {
        let request = |name: &str, value: &str| SettingRequest {
            setting: SettingName::parse(name),
            value: value.to_owned(),
        };
        vec![request("read_ahead_kb@sda", "4096"), request("vm.dirty_ratio", "5")]
    }

    #[test]
    fn the_study_has_the_command_before_and_after_all_changes() {
        let argv = ["sh", "-c", "echo \"a\" | cat > /dev/null"].map(str::to_owned);
        let load = Load { command: argv.to_vec(), ..Load::default() };
        let study = parse::study::parse(&study_of_load(Changes::One(&requests()), &load).unwrap()).unwrap();
        assert_eq!(study.workloads[0].tool.command().unwrap().0, argv);
        assert_eq!(study.measure.until, Until::Decided);
        let [before, after] = &study.factors[0].levels[..] else { panic!("two levels") };
        assert_eq!((before.name.as_str(), after.name.as_str()), (BEFORE, AFTER));
        assert!(before.settings.is_empty());
        assert_eq!(after.settings, requests());
        assert!(
            study.question.contains("read_ahead_kb@sda = 4096 and vm.dirty_ratio = 5"),
            "{}",
            study.question
        );
    }

    #[test]
    fn a_running_load_is_measured_by_what_tells_best_how_fast_it_goes() {
        let pid = std::process::id().to_string();
        // This process is not followed by itself.
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get().to_string();
        let study = |options: &[(&str, &str)], metric: Option<&str>| {
            let running = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let decides = metric.map(|metric| Decides::Metric(metric.to_owned()));
            let load = Load { running, decides, command: vec![] };
            let text = study_of_load(Changes::One(&requests()), &load).map_err(|error| error.to_string())?;
            parse::study::parse(&text).map_err(|errors| errors.to_string())
        };
        let by = |options: &[(&str, &str)], metric| study(options, metric).unwrap().measure.metric;
        assert_eq!(by(&[("pid", &parent)], None), "device_throughput");
        assert_eq!(by(&[("pid", &parent)], Some("io_calls")), "io_calls");
        let latency = [("metric_command", "echo 1"), ("metric_is", "latency")];
        assert_eq!(by(&latency, None), "load_latency");
        let measured = study(&[("metric_command", "echo '1' \"2\""), ("for", "5s")], None).unwrap();
        assert_eq!(measured.workloads[0].options["metric_command"], "echo '1' \"2\"");
        assert!(measured.measure.under_load && !measured.measure.drop_caches);
        assert!(study(&[("pid", &pid)], None).unwrap_err().contains("this recording itself"));
        assert!(study(&[("pid", &parent)], Some("speed")).unwrap_err().contains("is not reported"));
        let command =
            Load { command: vec!["true".into()], decides: Some(Decides::Goal(Goal::P99)), ..Load::default() };
        let lacking = study_of_load(Changes::One(&requests()), &command).unwrap_err().to_string();
        assert!(lacking.contains("goal `p99`; name one with --metric: elapsed"), "{lacking}");
        let saved = Load {
            running: [("pid".to_owned(), parent.clone())].into(),
            decides: Some(Decides::Goal(Goal::JoulesPerOp)),
            ..Load::default()
        };
        assert!(
            study_of_load(Changes::One(&requests()), &saved)
                .unwrap_err()
                .to_string()
                .contains("goal `joules-per-op`")
        );
        assert!(study(&[("for", "5s")], None).unwrap_err().contains("name one with --pid"));
    }

    /// Two factors, one of them of the setting that is to change.
    const VARIED: &str = "\
flyball = 1
name = \"mine\"
question = \"?\"
[target]
file = \"64MiB\"
[workload.read]
tool = \"fio\"
options = { rw = \"read\", time_based = true, runtime = \"1s\" }
[workload.write]
tool = \"fio\"
options = { rw = \"write\" }
[factor.depth]
option = \"iodepth\"
levels = [1, 8]
workloads = [\"read\"]
[factor.policy]
[[factor.policy.level]]
name = \"slow\"
settings = { \"vm.dirty_ratio\" = 50, \"vm.swappiness\" = 1 }
[[factor.policy.level]]
name = \"fast\"
settings = { \"vm.dirty_ratio\" = 10 }
[measure]
metric = \"iops\"
repeats = 3
timeout = \"1min\"
";

    #[test]
    fn a_cell_of_another_study_is_measured_as_it_was_but_for_the_change() {
        let was = parse::study::parse(VARIED).unwrap();
        let plan = Plan::new(was.clone(), Seed(1)).unwrap();
        let cell = plan.cells.iter().find(|cell| cell.id.as_str() == "read_8_slow").unwrap();
        let study =
            parse::study::parse(&study_of_cell(Changes::One(&requests()), VARIED, cell, None).unwrap())
                .unwrap();
        assert_eq!((study.workloads.len(), &study.target), (1, &was.target));
        assert_eq!(study.workloads[0].options, cell.workload.options);
        let settings: Vec<String> = study.settings.iter().map(ToString::to_string).collect();
        assert_eq!(settings, ["vm.swappiness = 1"]);
        assert_eq!(study.factors[0].levels[1].settings, requests());
        let measure = &study.measure;
        assert_eq!((measure.metric.as_str(), measure.timeout), ("iops", was.measure.timeout));
        assert_eq!((measure.until, measure.repeats_min, measure.repeats_max), (Until::Decided, 5, 20));
        assert_eq!((measure.confidence, measure.threshold), (0.9, 0.02), "as benches/deciding measures it");
        let by = |decides| {
            let text = study_of_cell(Changes::One(&requests()), VARIED, cell, Some(&decides)).unwrap();
            parse::study::parse(&text).unwrap().measure.metric
        };
        assert_eq!(by(Decides::Metric("latency_p50".into())), "latency_p50");
        assert_eq!(by(Decides::Goal(Goal::P99)), "latency_p99");
        assert_eq!(by(Decides::Goal(Goal::JoulesPerOp)), "energy_per_io");
    }

    fn listed(values: &[(&str, &str)]) -> Vec<SettingRequest> {
        let one = |(name, value): &(&str, &str)| SettingRequest {
            setting: SettingName::parse(name),
            value: (*value).to_owned(),
        };
        values.iter().map(one).collect()
    }

    #[test]
    fn a_search_has_each_combination_of_values_as_a_level_beside_the_machine_as_it_is() {
        let values = listed(&[("ondemand.up_threshold", "40, 80,"), ("read_ahead_kb@sda", "128,4096")]);
        let all = combinations(&values, Seed(1)).unwrap();
        let load = Load { command: vec!["true".into()], ..Load::default() };
        let study = parse::study::parse(&study_of_load(Changes::Best(&all), &load).unwrap()).unwrap();
        let names: Vec<&str> = study.factors[0].levels.iter().map(|level| level.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "before",
                "up_threshold=40 read_ahead_kb=128",
                "up_threshold=40 read_ahead_kb=4096",
                "up_threshold=80 read_ahead_kb=128",
                "up_threshold=80 read_ahead_kb=4096"
            ]
        );
        assert_eq!(study.factors[0].levels[2].settings, all[1]);
        assert_eq!((study.name.as_str(), study.measure.until), (SEARCH, Until::Best));
        assert!(study.question.contains("With which of 4 changes is `true` fastest?"), "{}", study.question);
    }

    #[test]
    fn a_search_for_the_trade_off_measures_speed_until_the_front_is_known_and_takes_several_changes() {
        let values = listed(&[("governor", "performance,powersave")]);
        let all = combinations(&values, Seed(1)).unwrap();
        let decides = Decides::named(None, Some("pareto"));
        assert_eq!(decides, Some(Decides::Goal(Goal::Pareto)));
        let load = Load { command: vec!["true".into()], decides, ..Load::default() };
        let study = parse::study::parse(&study_of_search(&all, &load).unwrap()).unwrap();
        assert_eq!((study.measure.until, study.measure.metric.as_str()), (Until::Front, "elapsed"));
        assert!(study.question.contains("Which of 2 changes does no other beat"), "{}", study.question);
        let one = study_of_load(Changes::One(&requests()), &load).unwrap_err().to_string();
        assert!(one.contains("takes several changes"), "{one}");
        let plan = Plan::new(parse::study::parse(VARIED).unwrap(), Seed(1)).unwrap();
        let cell = study_of_cell(Changes::One(&requests()), VARIED, &plan.cells[0], load.decides.as_ref());
        assert!(cell.unwrap_err().to_string().contains("takes several changes"));
    }

    #[test]
    fn of_more_combinations_than_a_study_has_levels_the_seed_draws_some() {
        let eight: Vec<(String, &str)> =
            (0..8).map(|n| (format!("vm.key_of_a_long_name_{n}"), "1,2")).collect();
        let eight: Vec<(&str, &str)> = eight.iter().map(|(name, values)| (name.as_str(), *values)).collect();
        let drawn = |seed| combinations(&listed(&eight), Seed(seed)).unwrap();
        assert_eq!((drawn(1).len(), drawn(1) == drawn(1), drawn(1) == drawn(2)), (99, true, false));
        let load = Load { command: vec!["true".into()], ..Load::default() };
        let study = study_of_load(Changes::Best(&drawn(1)), &load).unwrap();
        assert_eq!(parse::study::parse(&study).unwrap().factors[0].levels.len(), 100);
    }

    #[test]
    fn a_search_without_a_choice_or_with_too_much_of_it_is_refused() {
        let refused =
            |values: &[(&str, &str)]| combinations(&listed(values), Seed(1)).unwrap_err().to_string();
        assert!(refused(&[("governor", "performance")]).contains("needs values to choose between"));
        assert!(refused(&[]).contains("needs values to choose between"));
        assert!(refused(&[("vm.swappiness", "1,2"); 2]).contains("`vm.swappiness` is listed twice"));
        assert!(refused(&[("vm.swappiness", "1,2"); 9]).contains("8 settings at the most"));
        let many: Vec<String> = (0..200).map(|value| value.to_string()).collect();
        let many = many.join(",");
        assert!(refused(&[("vm.a", &many), ("vm.b", &many), ("vm.c", &many)]).contains("combinations"));
    }

    #[test]
    fn a_study_that_varies_the_stack_is_refused() {
        let stack = "flyball = 1\n[factor.level]\nstack = \"array.level\"\nlevels = [0, 1]\n";
        let plan = Plan::new(parse::study::parse(VARIED).unwrap(), Seed(1)).unwrap();
        let refused =
            study_of_cell(Changes::One(&requests()), stack, &plan.cells[0], None).unwrap_err().to_string();
        assert!(refused.contains("varies the stack"), "{refused}");
    }
}
