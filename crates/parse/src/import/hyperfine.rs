//! hyperfine's JSON (`--export-json`): a result a command, with the time of each run.
//!
//! Each run becomes a trial, so that two exports are compared by their runs and not by two means. Source:
//! hyperfine's `src/export/json.rs` and `src/benchmark/benchmark_result.rs`.

use super::error::Error;
use super::{Imported, Part, small_json};
use domain::outcome::{Better, Metric, Outcome};
use domain::units::Unit;
use std::collections::BTreeMap;

const TOOL: &str = "hyperfine";

#[derive(serde::Deserialize)]
struct Export {
    results: Vec<Benchmark>,
}

#[derive(serde::Deserialize)]
struct Benchmark {
    command: String,
    mean: f64,
    #[serde(default)]
    user: Option<f64>,
    #[serde(default)]
    system: Option<f64>,
    #[serde(default)]
    times: Option<Vec<f64>>,
    #[serde(default)]
    exit_codes: Vec<Option<i32>>,
    #[serde(default)]
    parameters: BTreeMap<String, serde_json::Value>,
}

pub(super) fn read(text: &str) -> Result<Imported, Error> {
    let export: Export = small_json(TOOL, text)?;
    let mut imported = Imported::default();
    for benchmark in export.results {
        let failed = benchmark.exit_codes.iter().filter(|code| **code != Some(0)).count();
        if failed > 0 {
            imported
                .notes
                .push(format!("`{}`: {failed} runs ended with an exit code other than 0", benchmark.command));
        }
        imported.parts.extend(runs(&benchmark));
    }
    Ok(imported)
}

fn runs(benchmark: &Benchmark) -> Vec<Part> {
    let mean = [benchmark.mean];
    let times = benchmark.times.as_deref().filter(|times| !times.is_empty()).unwrap_or(&mean);
    let part = |time: &f64| {
        let mut metrics = BTreeMap::from([("elapsed".to_owned(), seconds(*time))]);
        // CPU times are means over all runs, so they are figures of a run only where there is one.
        if times.len() == 1 {
            let cpu = [("cpu_user_time", benchmark.user), ("cpu_system_time", benchmark.system)];
            metrics
                .extend(cpu.into_iter().filter_map(|(name, value)| Some((name.to_owned(), seconds(value?)))));
        }
        let outcome = Outcome { metrics, tool: TOOL.to_owned(), warnings: Vec::new() };
        let mut part = Part::new(&benchmark.command, outcome);
        part.command = Some(vec!["sh".to_owned(), "-c".to_owned(), benchmark.command.clone()]);
        part.facts.extend(benchmark.parameters.iter().map(|(name, value)| (name.clone(), shown(value))));
        part
    };
    times.iter().filter(|time| time.is_finite()).map(part).collect()
}

fn seconds(value: f64) -> Metric {
    Metric { value, unit: Unit::Seconds, better: Better::Lower }
}

fn shown(value: &serde_json::Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
