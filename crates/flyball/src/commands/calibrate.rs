//! `flyball sim calibrate STUDY`: the unknown figures of a study's machines, fitted to what was published of
//! some of its cells, and judged by the others.

use super::run::{ReadStudy, read_study};
use crate::args::{Calibrate, Global};
use crate::exit::{End, Usage};
use crate::terminal;
use anyhow::Result;
use domain::Nanos;
use domain::bench::{BenchError, Sink, SinkError};
use domain::ids::CellId;
use domain::inert::Lines;
use domain::plan::{Cell, Plan};
use domain::published::{Figure, Published};
use domain::rng::Seed;
use domain::trace::TraceHead;
use serde_json::json;
use session::simulation::Machines;
use sim::calibrate::{Fit, Unknown, fit};
use sim::machine::Origin;
use std::collections::BTreeMap;

/// The version of the JSON form.
const SCHEMA: u32 = 1;

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

pub fn calibrate(global: &Global, arguments: &Calibrate) -> Result<End> {
    let ReadStudy { study, source } = read_study(&arguments.study)?;
    let plan = Plan::new(study, Seed(0))?;
    let machines = Machines::of(&plan, arguments.machine.as_deref(), &source.folder()?)?;
    let rows = rows(&plan, &arguments.hold_out)?;
    let unknowns = unknowns(&machines);
    if unknowns.is_empty() {
        return Err(Usage(format!(
            "no machine of the study `{}` has a figure that is to be fitted: write one as `{{ is = …, fitted = \"to what\", \
             range = [least, most] }}`",
            plan.study.name
        ))
        .into());
    }
    let bench = Bench { plan: &plan, machines: &machines, unknowns: &unknowns, seed: Seed(arguments.seed) };
    let start: Vec<f64> = unknowns.iter().map(|unknown| unknown.is).collect();
    let before = bench.judge(&rows, &start)?;
    let mut objective = |figures: &[f64]| bench.error(&rows, figures);
    let fit = fit(&unknowns, Seed(arguments.seed), arguments.budget, &mut objective);
    let values: Vec<f64> = fit.figures.iter().map(|figure| figure.is).collect();
    let after = bench.judge(&rows, &values)?;
    if global.json {
        terminal::json(&as_json(&rows, &fit, &before, &after))?;
    } else {
        terminal::lines(&as_text(&rows, &fit, &before, &after))?;
    }
    Ok(End::Done)
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
            return Err(Usage(format!(
                "the study `{name}` has no factor `{factor}` with a level `{level}`; of a metric, write `{METRIC}=NAME`, where something \
                 was published of it"
            ))
            .into());
        }
    }
    let mut rows = Vec::new();
    for published in &plan.study.published {
        // A bound is no value to fit to.
        let Figure::Value { value, .. } = published.figure else { continue };
        for subject in published.subjects(&plan.cells)? {
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
        return Err(Usage(format!(
            "of the {} published values of the study `{name}`, {held} would be held out: some are needed to fit to, and some to \
             judge by, for a fit is never judged by what it was fitted to; name levels with --hold-out FACTOR=LEVEL, or metrics with --hold-out {METRIC}=NAME",
            rows.len()
        ))
        .into());
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

/// Nobody looks at the traces.
struct Nowhere;

impl Sink for Nowhere {
    fn begin(&mut self, _: &TraceHead) -> Result<(), SinkError> {
        Ok(())
    }
    fn row(&mut self, _: Nanos, _: &[Option<u64>]) -> Result<(), SinkError> {
        Ok(())
    }
}

impl Bench<'_> {
    /// What the model gives for each row.
    fn judge(&self, rows: &[Row<'_>], figures: &[f64]) -> Result<Vec<f64>, BenchError> {
        self.model(rows, figures, |_| true)
    }

    /// The root of the mean squared relative error of the rows that are fitted to.
    fn error(&self, rows: &[Row<'_>], figures: &[f64]) -> f64 {
        let Ok(model) = self.model(rows, figures, |row| !row.held_out) else { return f64::INFINITY };
        root_mean_square(
            rows.iter().zip(&model).filter(|(row, _)| !row.held_out).map(|(row, m)| (m / row.value).ln()),
        )
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
        for (unknown, is) in self.unknowns.iter().zip(figures) {
            let given = machine.costs.given.iter_mut().find(|(name, _)| **name == unknown.name);
            if let Some((_, figure)) = given {
                figure.is = *is;
            }
        }
        let simulated =
            self.machines.simulate_on(&machine, &self.plan.study, cell, self.seed, &mut Nowhere)?;
        let metrics = simulated.measurement.outcome.metrics;
        Ok(metrics.into_iter().map(|(name, metric)| (name, metric.value)).collect())
    }
}

fn root_mean_square(errors: impl Iterator<Item = f64>) -> f64 {
    let squares: Vec<f64> = errors.map(|error| error * error).collect();
    (squares.iter().sum::<f64>() / squares.len().max(1) as f64).sqrt()
}

/// Mean and largest absolute relative error.
fn errors(rows: &[Row<'_>], model: &[f64], held_out: bool) -> (f64, f64) {
    let of = rows.iter().zip(model).filter(|(row, _)| row.held_out == held_out);
    let errors: Vec<f64> = of.map(|(row, model)| (model / row.value - 1.0).abs()).collect();
    (errors.iter().sum::<f64>() / errors.len().max(1) as f64, errors.iter().copied().fold(0.0, f64::max))
}

fn as_text(rows: &[Row<'_>], fit: &Fit, before: &[f64], after: &[f64]) -> Lines {
    let mut text = Lines::default();
    text.line(format_args!("fitted with {} evaluations; a model's figures, not measured", fit.evaluations));
    text.blank();
    text.line(format_args!("{:<16} {:>12} {:>12}  as good a fit between", "figure", "before", "fitted"));
    for figure in &fit.figures {
        let verdict = if figure.is_identified() { "" } else { "  NOT IDENTIFIED by these rows" };
        text.line(format_args!(
            "{:<16} {:>12.4} {:>12.4}  {:.4} and {:.4}{verdict}",
            figure.unknown.name, figure.unknown.is, figure.is, figure.known.0, figure.known.1
        ));
    }
    for (title, held_out) in [("rows that it was fitted to", false), ("rows held out", true)] {
        text.blank();
        text.line(title);
        text.line(format_args!(
            "{:<64} {:>10} {:>10} {:>10} {:>8}",
            "", "published", "before", "fitted", "error"
        ));
        for ((row, before), after) in
            rows.iter().zip(before).zip(after).filter(|((row, _), _)| row.held_out == held_out)
        {
            let show = |value: f64| match row.over {
                Some(_) => format!("{value:.3}"),
                None => row.published.unit.show(value),
            };
            let error = (after / row.value - 1.0) * 100.0;
            text.line(format_args!(
                "{:<64} {:>10} {:>10} {:>10} {error:>+7.1}%",
                row.name(),
                show(row.value),
                show(*before),
                show(*after)
            ));
        }
        let (mean, worst) = errors(rows, after, held_out);
        text.line(format_args!("mean error {:.1}%, worst {:.1}%", mean * 100.0, worst * 100.0));
    }
    text.blank();
    text.line("for the machine file:");
    for figure in &fit.figures {
        let (least, most) = (figure.unknown.least, figure.unknown.most);
        text.line(format_args!("{} = {{ is = {:.4}, fitted = \"the rows above, by flyball sim calibrate\", range = [{least}, {most}] }}",
            figure.unknown.name, figure.is));
    }
    text
}

fn as_json(rows: &[Row<'_>], fit: &Fit, before: &[f64], after: &[f64]) -> String {
    let figures: Vec<_> = fit
        .figures
        .iter()
        .map(|f| {
            json!({
                "figure": f.unknown.name, "before": f.unknown.is, "fitted": f.is, "range": [f.unknown.least, f.unknown.most],
                "as_good_between": [f.known.0, f.known.1], "identified": f.is_identified(),
            })
        })
        .collect();
    let table: Vec<_> = rows
        .iter()
        .zip(before)
        .zip(after)
        .map(|((row, before), after)| {
            json!({
                "row": row.name(), "held_out": row.held_out, "published": row.value, "before": before, "fitted": after,
            })
        })
        .collect();
    let errors = |held_out| {
        let (mean, worst) = errors(rows, after, held_out);
        json!({ "mean": mean, "worst": worst })
    };
    let value = json!({
        "schema": SCHEMA, "evaluations": fit.evaluations, "figures": figures, "rows": table,
        "fitted_to": errors(false), "held_out": errors(true),
    });
    format!("{value:#}\n")
}
