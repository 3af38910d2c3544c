//! How well a model agrees with what was measured, as text and JSON.

use analysis::fidelity::{Errors, Fidelity, Half, NOTABLE, Signs, Spread};
use domain::inert::{Lines, one_line};
use serde_json::json;

/// The version of the JSON form.
const SCHEMA: u32 = 1;

/// The halves as they are shown.
const HALVES: [(&str, Option<Half>); 3] =
    [("test set", Some(Half::Test)), ("training set", Some(Half::Training)), ("all", None)];

/// A line for each cell, and the errors of each half of them.
pub fn fidelity_text(found: &Fidelity, metric: &str) -> Lines {
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
    for (name, half) in HALVES {
        if let Some(Errors { cells, mean, worst }) = found.errors(half) {
            text.line(format_args!(
                "  {name}: {cells} cells, mean error {:.1}%, worst {:.1}%",
                mean * 100.0,
                worst * 100.0
            ));
        }
    }
    if let Some(signs) = found.signs(None) {
        text.blank();
        text.line(format_args!(
            "effects: each level of the primary factor over its first, {} in all; {} differ by {:.0}% or more",
            found.effects.len(),
            signs.notable,
            NOTABLE * 100.0
        ));
        for (name, half) in HALVES {
            if let Some(Signs { notable, wrong, mean, worst }) = found.signs(half) {
                text.line(format_args!(
                    "  {name}: {wrong} of {notable} with the wrong sign; off by {:.1} points in the mean, {:.1} at worst",
                    mean * 100.0,
                    worst * 100.0
                ));
            }
        }
    }
    if found.states(None).is_some() {
        text.blank();
        text.line("time in P-states: the share of the state that is furthest off, in points");
        for (name, half) in HALVES {
            if let Some(Errors { cells, mean, worst }) = found.states(half) {
                text.line(format_args!(
                    "  {name}: {cells} cells, {:.1} in the mean, {:.1} at worst",
                    mean * 100.0,
                    worst * 100.0
                ));
            }
        }
    }
    if found.spread(None).is_some() {
        text.blank();
        text.line("spread of a cell's trials: standard deviation over mean, pooled over cells");
        for (name, half) in HALVES {
            if let Some(Spread { cells, measured, modelled }) = found.spread(half) {
                text.line(format_args!(
                    "  {name}: {cells} cells, measured {:.2}%, model {:.2}%",
                    measured * 100.0,
                    modelled * 100.0
                ));
            }
        }
    }
    if !found.missing.is_empty() {
        let names: Vec<&str> = found.missing.iter().map(|cell| cell.as_str()).collect();
        text.line(format_args!("  not in both: {} cells: {}", names.len(), names.join(", ")));
    }
    text
}

/// The same as JSON.
pub fn fidelity_json(found: &Fidelity, metric: &str) -> String {
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
    let as_json = |e: Errors| json!({ "cells": e.cells, "mean": e.mean, "worst": e.worst });
    let (errors, states) = (|half| found.errors(half).map(as_json), |half| found.states(half).map(as_json));
    let furthest: Vec<_> = found
        .states
        .iter()
        .map(|states| json!({ "cell": states.cell.as_str(), "half": states.half.name(), "off": states.off }))
        .collect();
    let signs = |half| {
        found
            .signs(half)
            .map(|s| json!({ "notable": s.notable, "wrong_sign": s.wrong, "mean": s.mean, "worst": s.worst }))
    };
    let spread = |half| {
        found.spread(half).map(|s| json!({ "cells": s.cells, "measured": s.measured, "model": s.modelled }))
    };
    let effects: Vec<_> = found
        .effects
        .iter()
        .map(|effect| {
            json!({
                "cell": effect.cell.as_str(), "half": effect.half.name(), "measured": effect.measured,
                "model": effect.modelled, "wrong_sign": effect.has_wrong_sign(),
            })
        })
        .collect();
    let missing: Vec<&str> = found.missing.iter().map(|cell| cell.as_str()).collect();
    let value = json!({
        "schema": SCHEMA, "metric": metric, "pairs": pairs, "missing": missing,
        "test": errors(Some(Half::Test)), "training": errors(Some(Half::Training)), "all": errors(None),
        "effects": effects,
        "states": {
            "cells": furthest, "test": states(Some(Half::Test)), "training": states(Some(Half::Training)),
            "all": states(None),
        },
        "spread": { "test": spread(Some(Half::Test)), "training": spread(Some(Half::Training)), "all": spread(None) },
        "signs": { "test": signs(Some(Half::Test)), "training": signs(Some(Half::Training)), "all": signs(None) },
    });
    format!("{value:#}\n")
}
