//! How well a model agrees with what was measured, cell by cell, on two sets of cells that never change.
//!
//! A cell belongs to the *test set* or to the *training set* by its name alone, so that the halves are fixed
//! before any tuning and stay so: whoever fits a model looks at the training set, and the test set says how
//! good the fit is. The error of a cell is model / measured − 1, of medians; that of a set is the mean of its
//! cells' absolute errors, and the largest of them. How long CPUs were in each P-state is held against the
//! model's in points: the share of the state that is furthest off.

use crate::facts::residency::PStates;
use crate::stats::quantile::{median, relative_deviation, root_mean_square};
use crate::summary::RunData;
use domain::ids::CellId;
use domain::lab::StateRecord;
use domain::plan::{Cell, Plan};
use domain::trial::{Trial, Validity};
use domain::units::Hertz;
use std::collections::{BTreeMap, BTreeSet};

/// To which half a cell belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Half {
    /// May be looked at while a model is fitted.
    Training,
    /// Judges it.
    Test,
}

impl Half {
    /// Of a cell, by its name: the lowest bit of its FNV-1a hash.
    pub fn of(cell: &CellId) -> Self {
        let hash = cell.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        // The lowest bit of FNV-1a is the parity of the bytes' lowest bits: a higher one mixes.
        if hash >> 32 & 1 == 1 { Self::Test } else { Self::Training }
    }

    /// As it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Training => "training",
            Self::Test => "test",
        }
    }
}

/// One cell in both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// Which.
    pub cell: CellId,
    /// Its half.
    pub half: Half,
    /// Median of what was measured, in the metric's base unit.
    pub measured: f64,
    /// Trials that this rests on.
    pub n: usize,
    /// Whether all of them were disturbed: no valid one is there.
    pub disturbed: bool,
    /// Median of what the model says.
    pub modelled: f64,
    /// The relative standard deviation of its trials, as measured and as modelled; `None` where one of both
    /// has fewer than two.
    pub deviations: Option<(f64, f64)>,
}

impl Pair {
    /// Model over measured, minus one; `None` where 0 was measured and the model says something else.
    pub fn error(&self) -> Option<f64> {
        if self.modelled == self.measured {
            return Some(0.0);
        }
        Some(self.modelled / self.measured - 1.0).filter(|error| error.is_finite())
    }
}

/// The errors of a set of cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Errors {
    /// How many cells that have one.
    pub cells: usize,
    /// Mean of the absolute errors.
    pub mean: f64,
    /// The largest absolute error.
    pub worst: f64,
}

/// By how much the trials of one cell differ: standard deviations relative to the mean, pooled over a set of
/// cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// How many cells have two trials or more in both runs.
    pub cells: usize,
    /// As measured.
    pub measured: f64,
    /// As modelled.
    pub modelled: f64,
}

/// What a level of the study's primary factor changes against its first level, everything else alike, in both
/// runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Effect {
    /// The cell of that level.
    pub cell: CellId,
    /// Its half.
    pub half: Half,
    /// The cell over that of the first level, as measured.
    pub measured: f64,
    /// As the model says.
    pub modelled: f64,
}

/// A measured effect of less is too small for its sign to say anything.
pub const NOTABLE: f64 = 0.05;

impl Effect {
    /// Whether it is measured to be as large as [`NOTABLE`].
    pub fn is_notable(&self) -> bool {
        (self.measured - 1.0).abs() >= NOTABLE
    }

    /// Whether it is notable, and the model says the opposite, or that there is none.
    pub fn has_wrong_sign(&self) -> bool {
        self.is_notable() && (self.measured - 1.0) * (self.modelled - 1.0) <= 0.0
    }
}

/// The share of time in each P-state, idle time included.
pub type Shares = BTreeMap<Hertz, f64>;

/// A cell's P-states in both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct States {
    /// Which.
    pub cell: CellId,
    /// Its half.
    pub half: Half,
    /// |model − measured| of the share of the state that is furthest off, of the means of trials.
    pub off: f64,
}

/// The share of time that a trial was in each P-state: by the record of the lab's plugin where there is one,
/// else by the `policies` of its trace, all alike. `None` where nothing counted it.
pub fn shares(trial: &Trial, policies: &[PStates]) -> Option<Shares> {
    if let Some(pacing) = trial.lab.as_ref().and_then(|lab| lab.pacing.as_ref()) {
        let states = pacing.states();
        let whole: f64 = states.iter().map(|state| state.time.secs()).sum();
        let share = |state: &StateRecord| (state.frequency, state.time.secs() / whole);
        return (whole > 0.0).then(|| states.iter().map(share).collect());
    }
    let mut shares = Shares::new();
    for (frequency, share) in policies.iter().flat_map(|policy| &policy.shares) {
        *shares.entry(*frequency).or_default() += share / policies.len() as f64;
    }
    (!shares.is_empty()).then_some(shares)
}

/// The cells that both runs have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fidelity {
    /// In the order of the measured run's study.
    pub pairs: Vec<Pair>,
    /// Of the primary factor; empty where the study has none or several.
    pub effects: Vec<Effect>,
    /// P-states of the cells where both runs counted them and one of both was in more than one.
    pub states: Vec<States>,
    /// Cells that one of them lacks.
    pub missing: Vec<CellId>,
}

/// How well the effects of a set of cells agree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Signs {
    /// Effects that are notable.
    pub notable: usize,
    /// Those of them that the model has the other way round.
    pub wrong: usize,
    /// Mean of |model − measured| of all effects, notable or not, as a share.
    pub mean: f64,
    /// The largest.
    pub worst: f64,
}

impl Fidelity {
    /// How well the effects of one half, or of all, agree; `None` where there are none.
    pub fn signs(&self, half: Option<Half>) -> Option<Signs> {
        let of: Vec<&Effect> =
            self.effects.iter().filter(|effect| half.is_none_or(|half| effect.half == half)).collect();
        let off = of.iter().map(|effect| (effect.modelled - effect.measured).abs());
        (!of.is_empty()).then(|| Signs {
            notable: of.iter().filter(|effect| effect.is_notable()).count(),
            wrong: of.iter().filter(|effect| effect.has_wrong_sign()).count(),
            mean: off.clone().sum::<f64>() / of.len() as f64,
            worst: off.fold(0.0, f64::max),
        })
    }

    /// The errors of one half, or of all; `None` where it has no cell.
    pub fn errors(&self, half: Option<Half>) -> Option<Errors> {
        let of = self.pairs.iter().filter(|pair| half.is_none_or(|half| pair.half == half));
        errors(&of.filter_map(|pair| Some(pair.error()?.abs())).collect::<Vec<_>>())
    }

    /// Holds P-states against each other, by cell the shares of each trial.
    #[must_use]
    pub fn with_states(
        self,
        measured: &BTreeMap<CellId, Vec<Shares>>,
        modelled: &BTreeMap<CellId, Vec<Shares>>,
    ) -> Self {
        let of = |(cell, trials): (&CellId, &Vec<Shares>)| {
            let (own, model) = (mean_shares(trials), mean_shares(modelled.get(cell)?));
            let states: BTreeSet<Hertz> = own.keys().chain(model.keys()).copied().collect();
            let share = |shares: &Shares, state| shares.get(state).copied().unwrap_or(0.0);
            let off = states.iter().map(|state| (share(&model, state) - share(&own, state)).abs());
            let off = off.fold(0.0, f64::max);
            let varies =
                [&own, &model].iter().any(|shares| shares.values().filter(|s| **s > 0.0).count() > 1);
            (varies || off > 0.0).then(|| States { cell: cell.clone(), half: Half::of(cell), off })
        };
        Self { states: measured.iter().filter_map(of).collect(), ..self }
    }

    /// How far P-states are off in one half, or in all; `None` where it has no cell.
    pub fn states(&self, half: Option<Half>) -> Option<Errors> {
        let of = self.states.iter().filter(|states| half.is_none_or(|half| states.half == half));
        errors(&of.map(|states| states.off).collect::<Vec<_>>())
    }

    /// By how much trials of one cell differ, in one half or in all; `None` where no cell has enough trials.
    pub fn spread(&self, half: Option<Half>) -> Option<Spread> {
        let of = self.pairs.iter().filter(|pair| half.is_none_or(|half| pair.half == half));
        let (measured, modelled): (Vec<f64>, Vec<f64>) = of.filter_map(|pair| pair.deviations).unzip();
        Some(Spread {
            cells: measured.len(),
            measured: root_mean_square(&measured)?,
            modelled: root_mean_square(&modelled)?,
        })
    }
}

/// Of absolute errors; `None` of none.
fn errors(all: &[f64]) -> Option<Errors> {
    (!all.is_empty()).then(|| Errors {
        cells: all.len(),
        mean: all.iter().sum::<f64>() / all.len() as f64,
        worst: all.iter().copied().fold(0.0, f64::max),
    })
}

fn mean_shares(trials: &[Shares]) -> Shares {
    let mut mean = Shares::new();
    for (state, share) in trials.iter().flatten() {
        *mean.entry(*state).or_default() += share / trials.len() as f64;
    }
    mean
}

/// Holds a model's runs against measured ones by a metric. Of a cell's trials the valid ones count; where
/// there is none, the disturbed ones do, and the pair says so.
pub fn fidelity(measured: &[RunData], modelled: &[RunData], metric: &str) -> Fidelity {
    let references = references(measured);
    let (measured, modelled) = (values(measured, metric), values(modelled, metric));
    let mut fidelity = Fidelity::default();
    for (cell, (valid, disturbed)) in &measured {
        let model = modelled.get(cell).map_or(&[][..], |(valid, _)| valid);
        let other = median(model);
        let own = median(valid).or_else(|| median(disturbed));
        let (Some(modelled), Some(own)) = (other, own) else {
            fidelity.missing.push(cell.clone());
            continue;
        };
        let n = if valid.is_empty() { disturbed.len() } else { valid.len() };
        fidelity.pairs.push(Pair {
            cell: cell.clone(),
            half: Half::of(cell),
            measured: own,
            n,
            disturbed: valid.is_empty(),
            modelled,
            deviations: relative_deviation(valid).zip(relative_deviation(model)),
        });
    }
    let pair = |cell: &CellId| fidelity.pairs.iter().find(|pair| pair.cell == *cell);
    let effect = |(cell, reference): (&CellId, &CellId)| {
        let (own, other) = (pair(cell)?, pair(reference)?);
        let (measured, modelled) = (own.measured / other.measured, own.modelled / other.modelled);
        let is_ratio = measured.is_finite() && modelled.is_finite();
        is_ratio.then(|| Effect { cell: cell.clone(), half: own.half, measured, modelled })
    };
    fidelity.effects = references.iter().filter_map(effect).collect();
    fidelity
}

/// By how much the trials of one cell of a run differ that count: the standard deviation of the study's
/// metric relative to the mean, pooled over all cells with two trials or more. `None` where there is no such
/// cell.
pub fn deviation_within_cells(run: &RunData) -> Option<f64> {
    let values = values(std::slice::from_ref(run), &run.study.measure.metric);
    let deviations: Vec<f64> = values.values().filter_map(|(valid, _)| relative_deviation(valid)).collect();
    root_mean_square(&deviations)
}

/// By cell: the one that differs from it in the primary factor alone, and has that factor's first level.
fn references(runs: &[RunData]) -> BTreeMap<CellId, CellId> {
    let mut references = BTreeMap::new();
    for run in runs {
        let [primary] = &run.study.primary[..] else { continue };
        let factor = run.study.factors.iter().find(|factor| factor.name == *primary);
        let Some(first) = factor.and_then(|factor| factor.levels.first()) else { continue };
        let Ok(plan) = Plan::new(run.study.clone(), run.run.seed) else { continue };
        let without = |cell: &Cell| {
            let others = cell.levels.iter().filter(|(name, _)| *name != primary);
            let others: Vec<_> = others.map(|(name, level)| (name.clone(), level.clone())).collect();
            (cell.workload.name.clone(), others)
        };
        let is_first = |cell: &&Cell| cell.levels.get(primary) == Some(&first.name);
        let firsts: BTreeMap<_, _> =
            plan.cells.iter().filter(is_first).map(|cell| (without(cell), cell.id.clone())).collect();
        let others = plan.cells.iter().filter(|cell| !is_first(cell));
        references
            .extend(others.filter_map(|cell| Some((cell.id.clone(), firsts.get(&without(cell))?.clone()))));
    }
    references
}

type Values = BTreeMap<CellId, (Vec<f64>, Vec<f64>)>;

/// By cell: the values of valid trials, and those of disturbed ones.
fn values(runs: &[RunData], metric: &str) -> Values {
    let mut values = Values::new();
    let trials = runs.iter().flat_map(|run| &run.trials).filter(|trial| trial.validity != Validity::Traced);
    let mut put = |trial: &Trial, value: f64| {
        let (valid, disturbed) = values.entry(trial.key.cell.clone()).or_default();
        if trial.validity.is_valid() { valid } else { disturbed }.push(value);
    };
    for trial in trials {
        if let Some(value) = trial.metric(metric) {
            put(trial, value);
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{run, study};

    fn pair(cell: &str, measured: f64, modelled: f64) -> Pair {
        let cell = CellId::from_stored(cell);
        Pair { half: Half::of(&cell), cell, measured, n: 1, disturbed: false, modelled, deviations: None }
    }

    #[test]
    fn errors_are_relative_to_what_was_measured() {
        let pairs = vec![pair("a", 100.0, 110.0), pair("b", 200.0, 150.0)];
        let errors = Fidelity { pairs, ..Fidelity::default() }.errors(None).unwrap();
        assert_eq!(errors.cells, 2);
        assert!((errors.mean - 0.175).abs() < 1e-12 && (errors.worst - 0.25).abs() < 1e-12, "{errors:?}");
        assert_eq!(Fidelity::default().errors(None), None);
    }

    #[test]
    fn effects_are_those_of_the_primary_factor_against_its_first_level() {
        let mut study =
            study(&[("bs", &["4k", "64k"]), ("governor", &["performance", "powersave", "ondemand"])]);
        study.primary = vec!["governor".into()];
        let of = |levels: &BTreeMap<String, String>, powersave: f64, ondemand: f64| {
            let governor = match levels["governor"].as_str() {
                "powersave" => powersave,
                "ondemand" => ondemand,
                _ => 100.0,
            };
            vec![("throughput", if levels["bs"] == "64k" { 2.0 * governor } else { governor })]
        };
        let lab = run(study.clone(), 1, |levels, _| of(levels, 50.0, 97.0));
        let model = run(study, 1, |levels, _| of(levels, 110.0, 99.0));
        let found = fidelity(&[lab], &[model], "throughput");
        assert_eq!(found.effects.len(), 4, "{:?}", found.effects);
        let signs = found.signs(None).unwrap();
        assert_eq!((signs.notable, signs.wrong), (2, 2));
        assert!((signs.worst - 0.6).abs() < 1e-9 && (signs.mean - 0.31).abs() < 1e-9, "{signs:?}");
        assert_eq!(Fidelity::default().signs(None), None);
    }

    #[test]
    fn the_spread_of_cells_is_pooled_over_those_that_have_two_trials_in_both_runs() {
        let of = |deviations| Pair { deviations, ..pair("a", 1.0, 1.0) };
        let pairs = vec![of(Some((0.03, 0.0))), of(Some((0.04, 0.01))), of(None)];
        let found = Fidelity { pairs, ..Fidelity::default() }.spread(None).unwrap();
        assert_eq!(found.cells, 2);
        assert!((found.measured - 0.035_355).abs() < 1e-6 && (found.modelled - 0.007_071).abs() < 1e-6);
        assert_eq!(Fidelity::default().spread(None), None);
        let study = study(&[("bs", &["4k"])]);
        let run =
            |step: f64| run(study.clone(), 3, move |_, n| vec![("throughput", 100.0 + step * f64::from(n))]);
        let found = fidelity(&[run(1.0)], &[run(0.0)], "throughput").spread(None).unwrap();
        assert!((found.measured - 0.01).abs() < 1e-3 && found.modelled == 0.0, "{found:?}");
    }

    #[test]
    fn p_states_are_off_by_the_share_of_the_one_that_is_furthest_off() {
        let shares = |of: &[(u64, f64)]| -> Shares {
            of.iter().map(|(mhz, share)| (Hertz::from_khz(mhz * 1000), *share)).collect()
        };
        let cells = |trials: Vec<Shares>| BTreeMap::from([(CellId::from_stored("a"), trials)]);
        let measured = cells(vec![shares(&[(2000, 0.5), (1000, 0.5)]), shares(&[(2000, 0.7), (1000, 0.3)])]);
        let modelled = cells(vec![shares(&[(2000, 0.5), (1500, 0.3), (1000, 0.2)])]);
        let found = Fidelity::default().with_states(&measured, &modelled);
        let off = found.states(None).unwrap();
        assert!(
            off.cells == 1 && (off.worst - 0.3).abs() < 1e-12 && (off.mean - 0.3).abs() < 1e-12,
            "{off:?}"
        );
        // One that stays where it is and has no other state says nothing.
        let fixed = cells(vec![shares(&[(2000, 1.0)])]);
        assert_eq!(Fidelity::default().with_states(&fixed, &fixed).states(None), None);
        assert_eq!(Fidelity::default().with_states(&fixed, &BTreeMap::new()).states(None), None);
    }

    #[test]
    fn a_trials_p_states_are_those_of_all_of_its_policies() {
        let trial = run(study(&[("bs", &["4k"])]), 1, |_, _| vec![("throughput", 1.0)]).trials.remove(0);
        let policy = |name: &str, low: f64| PStates {
            policy: name.to_owned(),
            shares: vec![(Hertz::from_khz(2_000_000), 1.0 - low), (Hertz::from_khz(1_000_000), low)],
        };
        let found = shares(&trial, &[policy("policy0", 0.5), policy("policy1", 0.1)]).unwrap();
        assert!((found[&Hertz::from_khz(1_000_000)] - 0.3).abs() < 1e-12, "{found:?}");
        assert_eq!(shares(&trial, &[]), None);
    }

    #[test]
    fn the_halves_are_alike_in_size_and_never_change() {
        let cells = (0..1000).map(|n| CellId::from_stored(&format!("io_raid{n}_4k_1")));
        let tests = cells.filter(|cell| Half::of(cell) == Half::Test).count();
        assert!((450..550).contains(&tests), "{tests}");
        let known =
            ["io_raid0_32KiB_randread_4k_1", "io_raid5_32KiB_randwrite_4k_8", "io_raid6_512KiB_randrw_1m_32"];
        let halves = known.map(|cell| Half::of(&CellId::from_stored(cell)).name());
        expect_test::expect![[r#"["training", "test", "test"]"#]].assert_eq(&format!("{halves:?}"));
    }
}
