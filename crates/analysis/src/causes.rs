//! What may have caused a change between two runs: what differs between them, in the order of how much of the
//! change each difference explains.
//!
//! Runs of a history are observed, not randomised: whatever differs between the last run before a change and
//! the first one after it may be its cause, and several things mostly differ at once. Two kinds of evidence
//! are there without a further measurement. A *replay* takes a trial of after and undoes one difference at a
//! time; how much of the change that brings back, as a share of the logarithms, is predicted. A *rule* finds
//! something in one of the two runs and not in the other. And other runs of the two levels may have had a
//! thing the other way without the change, which clears it. What none of these tells of is not known: it is
//! listed as a difference, and never as a cause. Nothing here is shown; that takes an experiment in which one
//! thing is changed ([`Standing`] has no such value).
//!
//! Shares of several differences need not add up to 1: each is undone alone, and they may act together.

use crate::compare_runs::Difference;
use crate::history::CellChange;
use domain::finding::Finding;
use domain::ids::{CellId, RunId};
use domain::order;

/// How much of a change is brought back, as shares of the change: 1 is all of it, above 1 more than it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The least.
    pub low: f64,
    /// The most likely.
    pub value: f64,
    /// The most.
    pub high: f64,
}

impl Share {
    /// Of the change of a cell, where undoing a difference is predicted to give so many times the metric:
    /// least, most likely, most. Both intervals count: the ends are the extremes over all of their ends.
    /// `None` where a figure is not positive, or the interval of the change holds 1.
    pub fn of(predicted: (f64, f64, f64), change: &CellChange) -> Option<Self> {
        let (low, value, high) = predicted;
        let (first, last) = change.interval.map_or((change.ratio, change.ratio), |i| (i.low, i.high));
        let is_clear = (first > 1.0 && last > 1.0) || (first < 1.0 && last < 1.0);
        if [low, value, high, first].iter().any(|figure| *figure <= 0.0) || !is_clear {
            return None;
        }
        let shares = [low, high].map(|of| [first, last].map(|ratio| -of.ln() / ratio.ln()));
        let all = shares.as_flattened();
        Some(Self {
            low: all.iter().copied().fold(f64::INFINITY, f64::min),
            value: -value.ln() / change.ratio.ln(),
            high: all.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        })
    }
}

/// One difference undone in the replay of a trial of after.
#[derive(Clone, Debug, PartialEq)]
pub struct Undone {
    /// Which difference, as [`Difference::what`].
    pub what: String,
    /// Of which cell the trial is.
    pub cell: CellId,
    /// How much of the cell's change it brings back; or why that cannot be predicted.
    pub share: Result<Share, String>,
}

/// A run that had something the other way, and the level all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cleared {
    /// Which difference, as [`Difference::what`].
    pub what: String,
    /// The run: of before with what after has, or of after with what before has.
    pub by: RunId,
}

/// What replays tell of a difference.
#[derive(Clone, Debug, PartialEq)]
pub enum Replayed {
    /// No replay can undo it: it is no setting of frequency policy or idle states.
    No,
    /// None could here; the first reason.
    Not(String),
    /// It brings back so much of the change of this cell, of which least is open: the one with the highest
    /// lower end. How much CPU time waits, and how much of it passes beside the disks, is not seen, and in
    /// some cells that decides all.
    Share(Share, CellId),
}

/// A finding of one of the two runs that the other has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The rule.
    pub rule: &'static str,
    /// Its diagnosis, in one sentence.
    pub title: String,
    /// Which run has it.
    pub of: Side,
}

/// A side of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The run before it.
    Before,
    /// The run after it.
    After,
}

/// How a difference stands as a cause. None of it is more than a prediction or a diagnosis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// A replay predicts that undoing it brings a part of the change back, with its whole interval.
    Predicted,
    /// A rule finds something about it on one side alone.
    Diagnosed,
    /// Neither tells.
    NotKnown,
    /// It explains little: a replay predicts less than half of the change, with its whole interval; or a run
    /// had it the other way without the change.
    Little,
}

/// A difference, and what speaks for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    /// What differs.
    pub difference: Difference,
    /// What undoing it gives.
    pub replayed: Replayed,
    /// What rules say about it.
    pub told: Vec<Told>,
    /// A run that clears it.
    pub cleared_by: Option<RunId>,
    /// How it stands.
    pub standing: Standing,
}

/// The commands that tell causes apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Experiment {
    /// What they do, in a sentence.
    pub what: String,
    /// To be typed one after the other.
    pub commands: Vec<String>,
    /// What their result means, and what it leaves open.
    pub reading: String,
}

/// Names of one thing, by the first of which it is told: the others change with it.
const TOGETHER: [(&str, &[&str]); 3] = [
    ("kernel", &["kernel_version"]),
    ("turbo", &["no_turbo", "boost"]),
    (
        DRIVER,
        &[
            "cpufreq_driver",
            "driver",
            "pstate_status",
            "governor",
            "epp",
            "min_freq",
            "max_freq",
            "turbo",
            "no_turbo",
            "boost",
        ],
    ),
];

/// The difference of the driver of frequencies, with the governor and limits that it has: those of one driver
/// are not those of another.
pub const DRIVER: &str = "frequency driver";

/// Which rules tell of a difference besides those that are named like it.
const RULES_OF: [(&str, &[&str]); 6] = [
    (
        "governor",
        &["governor-stays-low", "threshold-not-reached", "low-frequency", "io-is-busy", "sampling-window"],
    ),
    (
        DRIVER,
        &["governor", "governor-stays-low", "threshold-not-reached", "low-frequency", "hwp-dynamic-boost"],
    ),
    ("max_freq", &["frequency-capped", "frequency-limit", "low-frequency"]),
    ("cpuidle_governor", &["idle-exit-latency", "idle-policy"]),
    ("power_source", &["on-battery"]),
    ("clocksource", &["slow-clock"]),
];

/// What is of this program or its study, and not of the machine: told last among what is not known.
const OF_THE_STUDY: [&str; 6] = ["provenance", "machine", "flyball", "study", "revision", "study file"];

/// The evidence for and against differences.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evidence<'a> {
    /// What replays give with one of them undone.
    pub undone: &'a [Undone],
    /// Which other runs clear.
    pub cleared: &'a [Cleared],
    /// The findings of the run before.
    pub before: &'a [Finding],
    /// The findings of the run after.
    pub after: &'a [Finding],
}

/// The differences, those that explain most first.
pub fn ranked(differences: Vec<Difference>, evidence: &Evidence<'_>) -> Vec<Cause> {
    let names: Vec<String> = differences.iter().map(|one| one.what.clone()).collect();
    let has = |name: &str| names.iter().any(|known| known == name);
    let goes_with = |name: &str| {
        TOGETHER.iter().any(|(first, others)| *first != name && has(first) && others.contains(&name))
    };
    let told = told(evidence.before, evidence.after);
    let cause = |difference: Difference| {
        let replayed = replayed(&difference.what, evidence.undone);
        let cleared = evidence.cleared.iter().find(|cleared| cleared.what == difference.what);
        let cleared_by = cleared.map(|cleared| cleared.by.clone());
        let told: Vec<Told> = told
            .iter()
            .filter(|(found, _)| concerns(found, &difference.what))
            .map(|(_, told)| told.clone())
            .collect();
        let standing = match &replayed {
            _ if cleared_by.is_some() => Standing::Little,
            Replayed::Share(share, _) if share.low > 0.0 => Standing::Predicted,
            Replayed::Share(share, _) if share.high < 0.5 => Standing::Little,
            _ if !told.is_empty() => Standing::Diagnosed,
            _ => Standing::NotKnown,
        };
        Cause { difference, replayed, told, cleared_by, standing }
    };
    let mut causes: Vec<Cause> =
        differences.into_iter().filter(|one| !goes_with(&one.what)).map(cause).collect();
    let share = |cause: &Cause| match &cause.replayed {
        Replayed::Share(share, _) => share.value,
        Replayed::No | Replayed::Not(_) => 0.0,
    };
    let is_of_the_study = |cause: &Cause| OF_THE_STUDY.contains(&cause.difference.what.as_str());
    order::by(&mut causes, |a, b| {
        let by_share = share(b).total_cmp(&share(a));
        let by_study = is_of_the_study(a).cmp(&is_of_the_study(b));
        a.standing.cmp(&b.standing).then(by_share).then(by_study)
    });
    causes
}

fn replayed(what: &str, undone: &[Undone]) -> Replayed {
    let of: Vec<&Undone> = undone.iter().filter(|one| one.what == what).collect();
    let shares = of.iter().filter_map(|one| Some((one.share.clone().ok()?, one.cell.clone())));
    let surest = shares.max_by(|(a, _), (b, _)| a.low.total_cmp(&b.low));
    match (surest, of.iter().find_map(|one| one.share.clone().err())) {
        (Some((share, cell)), _) => Replayed::Share(share, cell),
        (None, Some(why)) => Replayed::Not(why),
        (None, None) => Replayed::No,
    }
}

/// The findings that one side has and the other not.
fn told<'f>(before: &'f [Finding], after: &'f [Finding]) -> Vec<(&'f Finding, Told)> {
    let only = |of: &'f [Finding], other: &'f [Finding], side| {
        let is_new = move |found: &&Finding| other.iter().all(|known| known.rule != found.rule);
        let told = move |found: &'f Finding| {
            (found, Told { rule: found.rule, title: found.title.clone(), of: side })
        };
        let mut seen: Vec<&str> = Vec::new();
        let first = move |found: &&Finding| {
            let is_first = !seen.contains(&found.rule);
            seen.push(found.rule);
            is_first
        };
        of.iter().filter(is_new).filter(first).map(told)
    };
    only(after, before, Side::After).chain(only(before, after, Side::Before)).collect()
}

/// Whether a finding is about what differs: by its rule, or by the setting that it would change.
fn concerns(found: &Finding, what: &str) -> bool {
    let is_named = found.rule == what.replace('_', "-");
    let rules = RULES_OF.iter().filter(|(name, _)| *name == what).flat_map(|(_, rules)| *rules);
    let settings = found.remedy.iter().flat_map(|remedy| &remedy.settings);
    is_named
        || rules.into_iter().any(|rule| *rule == found.rule)
        || settings.into_iter().any(|one| one.setting.name == what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::RULES;
    use crate::stats::interval::Interval;
    use domain::finding::Confidence;

    fn change(ratio: f64) -> CellChange {
        let interval = Some(Interval { low: ratio * 0.98, high: ratio * 1.02, confidence: 0.95 });
        let cell = CellId::from_stored("w_4k");
        CellChange { cell, levels: (1.0, ratio), runs: (4, 4), ratio, interval, p: Some(0.001) }
    }

    fn differs(what: &str) -> Difference {
        Difference { what: what.into(), a: Some("old".into()), b: Some("new".into()) }
    }

    fn finding(rule: &'static str) -> Finding {
        Finding {
            rule,
            title: format!("{rule} is found"),
            reason: String::new(),
            evidence: vec![],
            confidence: Confidence::Likely,
            gain: None,
            remedy: None,
            next: String::new(),
            compared: vec![],
        }
    }

    fn undone(what: &str, share: Result<(f64, f64, f64), &str>) -> Undone {
        let share = share.map(|(low, value, high)| Share { low, value, high }).map_err(str::to_owned);
        Undone { what: what.into(), cell: CellId::from_stored("w_4k"), share }
    }

    fn of_findings(what: &str, before: &[Finding], after: &[Finding]) -> Cause {
        ranked(vec![differs(what)], &Evidence { before, after, ..Evidence::default() }).remove(0)
    }

    fn order(causes: &[Cause]) -> Vec<(&str, Standing)> {
        causes.iter().map(|cause| (cause.difference.what.as_str(), cause.standing)).collect()
    }

    #[test]
    fn a_share_is_one_where_the_old_level_is_back_and_none_where_nothing_is() {
        let of = |predicted: f64| Share::of((predicted, predicted, predicted), &change(0.5)).unwrap().value;
        assert!((of(2.0) - 1.0).abs() < 1e-12 && of(1.0).abs() < 1e-12);
        assert!((of(2.0_f64.sqrt()) - 0.5).abs() < 1e-12 && of(0.9) < 0.0);
        // What became larger is brought back by what is smaller.
        let larger = Share::of((0.45, 0.5, 0.55), &change(2.0)).unwrap();
        assert!((larger.value - 1.0).abs() < 1e-12 && larger.low < 0.9 && larger.high > 1.1, "{larger:?}");
        assert!(larger.low < larger.value && larger.value < larger.high);
    }

    #[test]
    fn what_may_be_no_change_at_all_has_no_shares() {
        assert_eq!(Share::of((1.0, 1.1, 1.2), &change(1.01)), None);
        assert_eq!(Share::of((0.0, 1.1, 1.2), &change(0.5)), None);
    }

    #[test]
    fn what_brings_most_back_is_first_and_what_nothing_tells_of_is_not_known() {
        let differences =
            ["revision", "microcode", "min_freq", "governor", "kernel", "max_freq", "scheduler"];
        let replays = [
            undone("min_freq", Ok((-0.2, 0.1, 0.3))),
            undone("governor", Ok((0.6, 0.9, 1.2))),
            undone("max_freq", Ok((-0.1, 0.4, 0.9))),
        ];
        let after = [finding("scheduler")];
        let evidence = Evidence { undone: &replays, after: &after, ..Evidence::default() };
        let causes = ranked(differences.map(differs).into(), &evidence);
        use Standing::{Diagnosed, Little, NotKnown, Predicted};
        assert_eq!(
            order(&causes),
            [
                ("governor", Predicted),
                ("scheduler", Diagnosed),
                ("max_freq", NotKnown),
                ("microcode", NotKnown),
                ("kernel", NotKnown),
                ("revision", NotKnown),
                ("min_freq", Little),
            ]
        );
    }

    #[test]
    fn of_several_cells_the_surest_prediction_counts() {
        let wide = Undone { cell: CellId::from_stored("wide"), ..undone("governor", Ok((-1.0, 2.0, 5.0))) };
        let close = undone("governor", Ok((0.5, 0.9, 1.3)));
        let none = undone("governor", Err("no model"));
        let undone = [none, wide, close];
        let causes = ranked(vec![differs("governor")], &Evidence { undone: &undone, ..Evidence::default() });
        assert_eq!(causes[0].standing, Standing::Predicted);
        let Replayed::Share(share, cell) = &causes[0].replayed else { panic!("{causes:?}") };
        assert_eq!((share.value, cell.as_str()), (0.9, "w_4k"));
    }

    #[test]
    fn a_finding_counts_where_one_side_alone_has_it() {
        let of = |before: &[&'static str], after: &[&'static str]| {
            let [before, after] =
                [before, after].map(|rules| rules.iter().map(|rule| finding(rule)).collect::<Vec<_>>());
            of_findings("governor", &before, &after)
        };
        let after = of(&["noise"], &["noise", "governor-stays-low", "governor-stays-low"]);
        assert_eq!(after.told.len(), 1);
        assert_eq!((after.told[0].of, after.standing), (Side::After, Standing::Diagnosed));
        let both = of(&["governor-stays-low"], &["governor-stays-low"]);
        assert_eq!((both.told.len(), both.standing), (0, Standing::NotKnown));
        assert_eq!(of(&["governor-stays-low"], &[]).told[0].of, Side::Before);
    }

    #[test]
    fn what_a_run_had_the_other_way_without_the_change_is_cleared_whatever_a_replay_predicts() {
        let cleared = [Cleared { what: "governor".into(), by: RunId("s-3".into()) }];
        let undone = [undone("governor", Ok((0.6, 0.9, 1.2)))];
        let evidence = Evidence { undone: &undone, cleared: &cleared, ..Evidence::default() };
        let causes = ranked(["governor", "kernel"].map(differs).into(), &evidence);
        assert_eq!(order(&causes), [("kernel", Standing::NotKnown), ("governor", Standing::Little)]);
        assert_eq!(causes[1].cleared_by, Some(RunId("s-3".into())));
    }

    #[test]
    fn names_of_one_thing_are_told_once() {
        let causes = ranked(["kernel", "kernel_version"].map(differs).into(), &Evidence::default());
        assert_eq!(order(&causes).len(), 1);
        let alone = ranked(["kernel_version"].map(differs).into(), &Evidence::default());
        assert_eq!(alone[0].difference.what, "kernel_version");
        let driver =
            ranked([DRIVER, "governor", "epp", "cpufreq_driver"].map(differs).into(), &Evidence::default());
        assert_eq!(order(&driver), [(DRIVER, Standing::NotKnown)]);
    }

    #[test]
    fn a_replay_that_was_not_possible_says_why() {
        let undone = [undone("governor", Err("no model"))];
        let causes = ranked(vec![differs("governor")], &Evidence { undone: &undone, ..Evidence::default() });
        assert_eq!(causes[0].replayed, Replayed::Not("no model".into()));
        assert_eq!(causes[0].standing, Standing::NotKnown);
    }

    #[test]
    fn each_rule_that_is_named_here_is_there() {
        let named = RULES_OF.iter().flat_map(|(_, rules)| *rules);
        for rule in named {
            assert!(RULES.iter().any(|known| known.name == *rule), "{rule}");
        }
    }
}
