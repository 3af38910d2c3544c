//! `flyball sim`: what is done with simulated machines beside running studies on them.

use crate::args::{Fidelity, Global, Sim};
use crate::exit::{End, Usage};
use crate::{places, shown, terminal};
use analysis::fidelity::{self, Errors, Half};
use analysis::summary::RunData;
use anyhow::Result;
use domain::inert::{Lines, one_line};
use domain::trial::Provenance;
use notebook::Notebook;
use serde_json::json;
use session::simulation;

/// The version of the JSON form.
const SCHEMA: u32 = 1;

pub fn dispatch(global: &Global, command: &Sim) -> Result<End> {
    match command {
        Sim::Machines => list(global),
        Sim::Fidelity(arguments) => judge(global, arguments),
        Sim::Calibrate(arguments) => super::calibrate::calibrate(global, arguments),
    }
}

/// The machines that ship with the program.
fn list(global: &Global) -> Result<End> {
    let mut rows = Vec::new();
    for (name, _) in simulation::SHIPPED {
        let spec = simulation::load(name, std::path::Path::new("/"))?.spec;
        rows.push((spec.name, spec.about));
    }
    if global.json {
        let machines: Vec<_> =
            rows.iter().map(|(name, about)| json!({ "name": name, "about": about })).collect();
        terminal::json(&format!("{:#}\n", json!({ "schema": SCHEMA, "machines": machines })))?;
    } else {
        terminal::lines(&rows.iter().map(|(name, about)| format!("{name:<16} {about}")).collect())?;
    }
    Ok(End::Done)
}

/// How well a model agrees with what was measured.
fn judge(global: &Global, arguments: &Fidelity) -> Result<End> {
    let notebook = Notebook::open(&places::notebook(global)?)?;
    let load = |names: &[String]| -> Result<Vec<RunData>> {
        names.iter().map(|name| shown::data(&notebook, &notebook.find(name)?)).collect()
    };
    let (measured, modelled) = (load(&arguments.measured)?, load(&arguments.modelled)?);
    for (runs, is_model) in [(&measured, false), (&modelled, true)] {
        if let Some(odd) = runs.iter().find(|run| (run.run.provenance == Provenance::Simulation) != is_model)
        {
            let what = odd.run.provenance.name();
            return Err(Usage(format!(
                "the run `{}` is of the {what}; give measured runs, and simulated ones with --model",
                odd.run.id
            ))
            .into());
        }
    }
    let metric = arguments.metric.clone().unwrap_or_else(|| measured[0].study.measure.metric.clone());
    let found = fidelity::fidelity(&measured, &modelled, &metric);
    if global.json {
        terminal::json(&as_json(&found, &metric))?;
    } else {
        terminal::lines(&as_text(&found, &metric))?;
    }
    Ok(End::Done)
}

fn as_text(found: &fidelity::Fidelity, metric: &str) -> Lines {
    let width =
        found.pairs.iter().map(|pair| one_line(pair.cell.as_str()).chars().count()).max().unwrap_or(4);
    let mut text = Lines::default();
    text.line(format_args!(
        "{:<width$}  {:<8}  {:>12}  {:>12}  {:>7}",
        "cell", "half", "measured", "model", "error"
    ));
    for pair in &found.pairs {
        text.line(format_args!(
            "{:<width$}  {:<8}  {:>12}  {:>12}  {:>7}{}",
            one_line(pair.cell.as_str()),
            pair.half.name(),
            domain::units::significant(pair.measured),
            domain::units::significant(pair.modelled),
            pair.error().map_or_else(|| "–".to_owned(), |error| format!("{:+.1}%", error * 100.0)),
            if pair.disturbed { "  (disturbed trials only)" } else { "" }
        ));
    }
    text.blank();
    text.line(format_args!("{metric}: model / measured - 1, of medians"));
    for (name, half) in
        [("test set", Some(Half::Test)), ("training set", Some(Half::Training)), ("all", None)]
    {
        if let Some(Errors { cells, mean, worst }) = found.errors(half) {
            text.line(format_args!(
                "  {name}: {cells} cells, mean error {:.1}%, worst {:.1}%",
                mean * 100.0,
                worst * 100.0
            ));
        }
    }
    if !found.missing.is_empty() {
        let names: Vec<&str> = found.missing.iter().map(|cell| cell.as_str()).collect();
        text.line(format_args!("  not in both: {} cells: {}", names.len(), names.join(", ")));
    }
    text
}

fn as_json(found: &fidelity::Fidelity, metric: &str) -> String {
    let pairs: Vec<_> = found
        .pairs
        .iter()
        .map(|pair| {
            json!({
                "cell": pair.cell.as_str(), "half": pair.half.name(), "measured": pair.measured, "n": pair.n,
                "disturbed": pair.disturbed, "model": pair.modelled, "error": pair.error(),
            })
        })
        .collect();
    let errors =
        |half| found.errors(half).map(|e| json!({ "cells": e.cells, "mean": e.mean, "worst": e.worst }));
    let missing: Vec<&str> = found.missing.iter().map(|cell| cell.as_str()).collect();
    let value = json!({
        "schema": SCHEMA, "metric": metric, "pairs": pairs, "missing": missing,
        "test": errors(Some(Half::Test)), "training": errors(Some(Half::Training)), "all": errors(None),
    });
    format!("{value:#}\n")
}
