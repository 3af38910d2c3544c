//! What an import says of what it read.

use crate::{Import, Item, Read};
use domain::ids::RunId;
use domain::inert::Lines;
use serde_json::json;

impl Import {
    /// Says what was read, and as which run it was stored; `None` where it was not.
    pub fn describe(&self, run: Option<&RunId>, text: &mut Lines) {
        match run {
            Some(run) => text.line(run),
            None => text.line(format_args!("{} (nothing was stored)", self.name)),
        }
        for file in &self.files {
            text.line(format_args!("  {}: {}", file.source.name, file.imported.kind.name()));
            for (name, value) in &file.imported.facts {
                text.line(format_args!("    {name}: {value}"));
            }
            for note in &file.imported.notes {
                text.line(format_args!("    note: {note}"));
            }
        }
        for item in &self.items {
            text.line(format_args!("  {}: {}", item.key.folder(), summary(item, &self.metric)));
        }
    }

    /// The same for other programs.
    pub fn as_json(&self, run: Option<&RunId>) -> serde_json::Value {
        let trial = |item: &Item| {
            let metrics = &item.part.outcome.metrics;
            let values: serde_json::Map<String, serde_json::Value> = metrics
                .iter()
                .map(|(name, m)| (name.clone(), json!({ "value": m.value, "unit": m.unit })))
                .collect();
            json!({
                "trial": item.key.folder(),
                "tool": item.part.outcome.tool,
                "command": item.part.command,
                "metrics": values,
                "facts": item.part.facts,
                "samples": item.part.samples.map(|samples| samples.count),
            })
        };
        let file = |read: &Read| {
            json!({
                "file": read.source.name,
                "kind": read.imported.kind.name(),
                "sha256": read.source.sha256,
                "facts": read.imported.facts,
                "notes": read.imported.notes,
            })
        };
        json!({
            "run": run.map(|run| run.0.clone()),
            "study": self.name,
            "metric": self.metric,
            "files": self.files.iter().map(file).collect::<Vec<_>>(),
            "trials": self.items.iter().map(trial).collect::<Vec<_>>(),
        })
    }
}

/// What a trial has, in one line: its deciding figures, or how many.
fn summary(item: &Item, deciding: &str) -> String {
    const SHOWN: usize = 6;
    let metrics = &item.part.outcome.metrics;
    let mut parts = vec![item.part.outcome.tool.clone()];
    let others = metrics.iter().filter(|(name, _)| *name != deciding);
    let all = metrics.get_key_value(deciding).into_iter().chain(others);
    parts.extend(all.take(SHOWN).map(|(name, m)| format!("{name} {}", m.unit.show(m.value))));
    if metrics.len() > SHOWN {
        parts.push(format!("{} more metrics", metrics.len() - SHOWN));
    }
    if let Some(series) = &item.part.samples {
        parts.push(format!("{} samples over {}", series.count, series.span));
    }
    parts.join(", ")
}
/// The version of the JSON form.
const SCHEMA: u32 = 1;

/// What was imported, each with its run where it was stored, as JSON.
pub fn as_json(imports: &[(Option<RunId>, &Import)]) -> String {
    let runs: Vec<_> = imports.iter().map(|(run, import)| import.as_json(run.as_ref())).collect();
    format!("{:#}", json!({ "schema": SCHEMA, "runs": runs }))
}
