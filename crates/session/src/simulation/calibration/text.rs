//! A fit in words and as JSON.

use super::{Calibration, Row, errors};
use domain::inert::Lines;
use serde_json::json;
use sim::calibrate::Fit;

/// The version of the JSON form.
const SCHEMA: u32 = 1;

impl Calibration<'_> {
    /// As lines.
    pub fn as_text(&self) -> Lines {
        as_text(&self.rows, &self.fit, &self.before, &self.after)
    }

    /// As JSON, with a schema version.
    pub fn as_json(&self) -> String {
        as_json(&self.rows, &self.fit, &self.before, &self.after)
    }
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
