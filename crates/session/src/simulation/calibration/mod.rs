//! The unknown figures of a study's machines, fitted to what was published of some of its cells, and judged
//! by the others.

mod text;

use super::Machines;
use crate::error::{Error, Result};
use analysis::stats::quantile::root_mean_square;
use domain::bench::{BenchError, DiscardTrace};
use domain::ids::CellId;
use domain::plan::{Cell, Plan};
use domain::published::{Figure, Published};
use domain::rng::Seed;
use sim::calibrate::{Fit, Unknown, fit};
use sim::machine::{Origin, Variation};
use std::collections::BTreeMap;

/// One published value, or relation, of one cell.
struct Row<'a> {
    published: &'a Published,
    value: f64,
    cell: &'a Cell,
    over: Option<&'a Cell>,
    held_out: bool,
}

impl Row<'_> {
    fn name(&self) -> String {
        let metric = &self.published.metric;
        match self.over {
            Some(over) => format!("{metric} of {} over {}", self.cell.id, over.id),
            None => format!("{metric} of {}", self.cell.id),
        }
    }
}

/// What was fitted, to what, and how well.
pub struct Calibration<'a> {
    rows: Vec<Row<'a>>,
    fit: Fit,
    /// What the model gives for each row, with the machine's own figures and with the fitted ones.
    before: Vec<f64>,
    after: Vec<f64>,
}

/// Fits the unknown figures of a plan's machines to what was published of its cells, but for the rows that
/// are held out: of these levels or metrics, or every second one. The search takes at most `budget`
/// evaluations of the model.
///
/// # Errors
/// [`Error::Usage`] where there is nothing to fit or to judge by; where a cell cannot be simulated.
pub fn calibrate<'a>(
    plan: &'a Plan,
    machines: &Machines,
    hold_out: &[(String, String)],
    seed: Seed,
    budget: u32,
) -> Result<Calibration<'a>> {
    let rows = rows(plan, hold_out)?;
    let unknowns = unknowns(machines);
    if unknowns.is_empty() {
        return Err(Error::Usage(format!(
            "no machine of the study `{}` has a figure that is to be fitted: write one as `{{ is = …, fitted = \"to what\", \
             range = [least, most] }}`",
            plan.study.name
        )));
    }
    let cannot = "cannot simulate a cell that the machine is fitted to";
    let bench = Bench { plan, machines, unknowns: &unknowns, seed };
    let start: Vec<f64> = unknowns.iter().map(|unknown| unknown.is).collect();
    let before = bench.judge(&rows, &start).map_err(Error::during(cannot))?;
    let mut objective = |figures: &[f64]| bench.error(&rows, figures);
    let fit = fit(&unknowns, seed, budget, &mut objective);
    let values: Vec<f64> = fit.figures.iter().map(|figure| figure.is).collect();
    let after = bench.judge(&rows, &values).map_err(Error::during(cannot))?;
    Ok(Calibration { rows, fit, before, after })
}

/// What is written in a factor's place to hold out the rows of a metric.
const METRIC: &str = "metric";

/// The published values, and which of them are held out: those of the levels and metrics that were named,
/// else every second one.
fn rows<'a>(plan: &'a Plan, hold_out: &[(String, String)]) -> Result<Vec<Row<'a>>> {
    let name = &plan.study.name;
    for (factor, level) in hold_out {
        let known = plan.study.factors.iter().find(|f| f.name == *factor);
        let is_level = known.is_some_and(|known| known.levels.iter().any(|l| l.name == *level));
        let is_metric = factor == METRIC && plan.study.published.iter().any(|row| row.metric == *level);
        if !is_level && !is_metric {
            return Err(Error::Usage(format!(
                "the study `{name}` has no factor `{factor}` with a level `{level}`; of a metric, write `{METRIC}=NAME`, where something \
                 was published of it"
            )));
        }
    }
    let mut rows = Vec::new();
    for published in &plan.study.published {
        // A bound is no value to fit to.
        let Figure::Value { value, .. } = published.figure else { continue };
        for subject in
            published.subjects(&plan.cells).map_err(Error::during("cannot fit to what was published"))?
        {
            let named = hold_out.iter().any(|(factor, level)| {
                subject.cell.levels.get(factor) == Some(level)
                    || (factor == METRIC && published.metric == *level)
            });
            let held_out = if hold_out.is_empty() { rows.len() % 2 == 1 } else { named };
            rows.push(Row { published, value, cell: subject.cell, over: subject.over, held_out });
        }
    }
    let held = rows.iter().filter(|row| row.held_out).count();
    if held == 0 || held == rows.len() {
        return Err(Error::Usage(format!(
            "of the {} published values of the study `{name}`, {held} would be held out: some are needed to fit to, and some to \
             judge by, for a fit is never judged by what it was fitted to; name levels with --hold-out FACTOR=LEVEL, or metrics with --hold-out {METRIC}=NAME",
            rows.len()
        )));
    }
    Ok(rows)
}

/// The figures that machine files mark as fitted, once each: machines of one study share them.
fn unknowns(machines: &Machines) -> Vec<Unknown> {
    let mut unknowns: Vec<Unknown> = Vec::new();
    for figures in machines.named.values().map(|named| &named.spec.costs.given) {
        for (name, figure) in figures {
            let Origin::Fitted { range: (least, most), .. } = figure.origin else { continue };
            if least > 0.0 && !unknowns.iter().any(|unknown| unknown.name == *name) {
                unknowns.push(Unknown { name: (*name).to_owned(), is: figure.is, least, most });
            }
        }
    }
    unknowns
}

struct Bench<'a> {
    plan: &'a Plan,
    machines: &'a Machines,
    unknowns: &'a [Unknown],
    seed: Seed,
}

impl Bench<'_> {
    /// What the model gives for each row.
    fn judge(&self, rows: &[Row<'_>], figures: &[f64]) -> Result<Vec<f64>, BenchError> {
        self.model(rows, figures, |_| true)
    }

    /// The root of the mean squared relative error of the rows that are fitted to.
    fn error(&self, rows: &[Row<'_>], figures: &[f64]) -> f64 {
        let Ok(model) = self.model(rows, figures, |row| !row.held_out) else { return f64::INFINITY };
        let fitted = rows.iter().zip(&model).filter(|(row, _)| !row.held_out);
        let errors: Vec<f64> = fitted.map(|(row, modelled)| (modelled / row.value).ln()).collect();
        root_mean_square(&errors).unwrap_or(0.0)
    }

    /// What the model gives; nothing (NaN) for rows that are not wanted.
    fn model(
        &self,
        rows: &[Row<'_>],
        figures: &[f64],
        wanted: impl Fn(&Row<'_>) -> bool,
    ) -> Result<Vec<f64>, BenchError> {
        let mut known: BTreeMap<&CellId, BTreeMap<String, f64>> = BTreeMap::new();
        for row in rows.iter().filter(|row| wanted(row)) {
            for cell in [Some(row.cell), row.over].into_iter().flatten() {
                if !known.contains_key(&cell.id) {
                    known.insert(&cell.id, self.metrics(cell, figures)?);
                }
            }
        }
        let value = |cell: &Cell, metric: &str| known.get(&cell.id).and_then(|m| m.get(metric)).copied();
        let of = |row: &Row<'_>| {
            let own = value(row.cell, &row.published.metric)?;
            Some(own / row.over.map_or(Some(1.0), |over| value(over, &row.published.metric))?)
        };
        Ok(rows.iter().map(|row| of(row).unwrap_or(f64::NAN)).collect())
    }

    fn metrics(&self, cell: &Cell, figures: &[f64]) -> Result<BTreeMap<String, f64>, BenchError> {
        let mut machine = self.machines.for_cell(cell).spec.clone();
        // Figures are fitted to the median trial.
        machine.variation = Variation::NONE;
        for (unknown, is) in self.unknowns.iter().zip(figures) {
            let given = machine.costs.given.iter_mut().find(|(name, _)| **name == unknown.name);
            if let Some((_, figure)) = given {
                figure.is = *is;
            }
        }
        let simulated =
            self.machines.simulate_on(&machine, &self.plan.study, cell, self.seed, &mut DiscardTrace)?;
        let metrics = simulated.measurement.outcome.metrics;
        Ok(metrics.into_iter().map(|(name, metric)| (name, metric.value)).collect())
    }
}

/// Mean and largest absolute relative error.
fn errors(rows: &[Row<'_>], model: &[f64], held_out: bool) -> (f64, f64) {
    let of = rows.iter().zip(model).filter(|(row, _)| row.held_out == held_out);
    let errors: Vec<f64> = of.map(|(row, model)| (model / row.value - 1.0).abs()).collect();
    (errors.iter().sum::<f64>() / errors.len().max(1) as f64, errors.iter().copied().fold(0.0, f64::max))
}
