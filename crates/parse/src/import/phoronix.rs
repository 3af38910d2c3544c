//! Result files of the Phoronix Test Suite: `composite.xml`, and the JSON of its `result-file-to-json`.
//!
//! A result is one test with its options on one system; where the file keeps the values of each run (`RawString`), each run
//! becomes a trial. Of XML what the suite writes is read: elements without attributes, and five entities. Source:
//! `pts_result_file.php` (`get_xml`) and `pts_result_file_output.php` (`result_file_to_json`).

use super::error::{Error, Place};
use super::{Imported, Part, small_json};
use domain::outcome::{Better, Metric, Outcome};
use domain::units::Unit;
use std::collections::BTreeMap;

const WHAT: &str = "phoronix";

/// A bound on nesting; the suite's own is 5.
const MAX_DEPTH: usize = 32;

/// One value of one test on one system.
#[derive(Default)]
struct Entry {
    system: String,
    value: String,
    runs: Vec<f64>,
}

/// What a test says of itself.
#[derive(Default)]
struct Test {
    title: String,
    identifier: String,
    description: String,
    scale: String,
    proportion: String,
}

pub(super) fn read(text: &str) -> Result<Imported, Error> {
    if text.trim_start().starts_with('{') { json(text) } else { xml(text) }
}

fn parts(test: &Test, entry: &Entry, many_systems: bool) -> Vec<Part> {
    let single = entry.value.trim().parse::<f64>().ok();
    let runs = if entry.runs.is_empty() { single.into_iter().collect() } else { entry.runs.clone() };
    let mut name = [test.title.as_str(), test.description.as_str()].map(str::trim).join(" ");
    if many_systems {
        name = format!("{name} {}", entry.system);
    }
    let part = |value: &f64| {
        let metrics = BTreeMap::from([metric(test, *value)]);
        let tool = if test.identifier.is_empty() { "phoronix-test-suite" } else { &test.identifier };
        let outcome = Outcome { metrics, tool: tool.to_owned(), warnings: Vec::new() };
        let mut part = Part::new(name.trim(), outcome);
        part.facts.insert("system".to_owned(), entry.system.clone());
        part
    };
    runs.iter().filter(|value| value.is_finite()).map(part).collect()
}

/// The scale as a metric: those that Flyball has are called as it calls them.
fn metric(test: &Test, value: f64) -> (String, Metric) {
    let better = if test.proportion == "LIB" { Better::Lower } else { Better::Higher };
    let (name, unit, factor) = match test.scale.trim() {
        "MB/s" => ("throughput", Unit::BytesPerSecond, 1e6),
        "MiB/s" => ("throughput", Unit::BytesPerSecond, 1_048_576.0),
        "GB/s" => ("throughput", Unit::BytesPerSecond, 1e9),
        "IOPS" => ("iops", Unit::PerSecond, 1.0),
        "Seconds" | "seconds" | "sec" | "s" => ("elapsed", Unit::Seconds, 1.0),
        "ms" => ("latency_mean", Unit::Seconds, 1e-3),
        "Transactions Per Second" | "TPS" => ("transactions", Unit::PerSecond, 1.0),
        other => ("value", Unit::Other(other.to_owned()), 1.0),
    };
    (name.to_owned(), Metric { value: value * factor, unit, better })
}

fn runs_of(raw: &str) -> Vec<f64> {
    raw.split(':').filter_map(|run| run.trim().parse().ok()).collect()
}

fn xml(text: &str) -> Result<Imported, Error> {
    let mut imported = Imported::default();
    let mut path: Vec<&str> = Vec::new();
    let (mut test, mut entry) = (Test::default(), Entry::default());
    let mut found: Vec<(usize, Entry)> = Vec::new();
    let mut tests: Vec<Test> = Vec::new();
    let mut systems = 0;
    let mut at = 0;
    let fault = |at: usize, reason: String, done: usize| {
        let line = text[..at].matches('\n').count() as u64 + 1;
        Error::at(WHAT, Place { offset: at as u64, line }, reason).after(&format!("{done} values"))
    };
    while let Some(open) = text[at..].find('<').map(|n| at + n) {
        let content = text[at..open].trim();
        let Some(close) = text[open..].find('>').map(|n| open + n) else {
            return Err(fault(
                open,
                "expected the end of a tag; it ends here, unfinished".to_owned(),
                found.len(),
            ));
        };
        let tag = &text[open + 1..close];
        at = close + 1;
        if tag.starts_with(['?', '!']) || tag.ends_with('/') {
            continue;
        }
        let Some(name) = tag.strip_prefix('/') else {
            if path.len() >= MAX_DEPTH {
                return Err(fault(open, format!("it is nested deeper than {MAX_DEPTH} levels"), found.len()));
            }
            path.push(tag.split_whitespace().next().unwrap_or(tag));
            continue;
        };
        if path.pop() != Some(name) {
            return Err(fault(
                open,
                format!("expected the end of what was opened last, found `</{name}>`"),
                found.len(),
            ));
        }
        let content = unescaped(content);
        match (path.as_slice(), name) {
            ([_, "Generated"], "TestClient" | "Title") => {
                imported
                    .facts
                    .insert(if name == "Title" { "title" } else { "test client" }.to_owned(), content);
            }
            ([_, "System"], "Hardware" | "Software" | "TimeStamp") => {
                imported.facts.entry(name.to_lowercase()).or_insert(content);
            }
            ([_], "System") => systems += 1,
            ([_, "Result"], "Title") => test.title = content,
            ([_, "Result"], "Identifier") => test.identifier = content,
            ([_, "Result"], "Description") => test.description = content,
            ([_, "Result"], "Scale") => test.scale = content,
            ([_, "Result"], "Proportion") => test.proportion = content,
            ([_, "Result", "Data", "Entry"], "Identifier") => entry.system = content,
            ([_, "Result", "Data", "Entry"], "Value") => entry.value = content,
            ([_, "Result", "Data", "Entry"], "RawString") => entry.runs = runs_of(&content),
            ([_, "Result", "Data"], "Entry") => found.push((tests.len(), std::mem::take(&mut entry))),
            ([_], "Result") => tests.push(std::mem::take(&mut test)),
            _ => {}
        }
    }
    if !path.is_empty() {
        return Err(fault(
            text.len(),
            format!("expected `</{}>`; it ends here, unfinished", path[path.len() - 1]),
            found.len(),
        ));
    }
    for (index, entry) in found {
        if let Some(test) = tests.get(index) {
            imported.parts.extend(parts(test, &entry, systems > 1));
        }
    }
    Ok(imported)
}

fn unescaped(text: &str) -> String {
    let text = text.strip_prefix("<![CDATA[").and_then(|t| t.strip_suffix("]]>")).unwrap_or(text);
    const ENTITIES: [(&str, &str); 5] =
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#039;", "'"), ("&amp;", "&")];
    ENTITIES.iter().fold(text.to_owned(), |text, (entity, meant)| text.replace(entity, meant))
}

fn json(text: &str) -> Result<Imported, Error> {
    #[derive(serde::Deserialize)]
    struct File {
        #[serde(default)]
        title: Option<String>,
        systems: BTreeMap<String, System>,
        results: BTreeMap<String, Result_>,
    }
    #[derive(serde::Deserialize)]
    struct System {
        #[serde(default)]
        timestamp: Option<String>,
        #[serde(default)]
        hardware: BTreeMap<String, serde_json::Value>,
        #[serde(default)]
        software: BTreeMap<String, serde_json::Value>,
    }
    #[derive(serde::Deserialize)]
    struct Result_ {
        #[serde(default)]
        identifier: Option<String>,
        #[serde(default)]
        title: String,
        #[serde(default)]
        description: Option<String>,
        #[serde(default)]
        scale: Option<String>,
        #[serde(default)]
        proportion: Option<String>,
        #[serde(default)]
        results: BTreeMap<String, Value>,
    }
    #[derive(serde::Deserialize)]
    struct Value {
        #[serde(default)]
        value: Option<serde_json::Value>,
        #[serde(default)]
        raw_values: Vec<f64>,
    }
    let file: File = small_json(WHAT, text)?;
    let mut imported = Imported::default();
    imported.facts.extend(file.title.map(|title| ("title".to_owned(), title)));
    if let Some(system) = file.systems.values().next() {
        imported.facts.extend(system.timestamp.clone().map(|t| ("timestamp".to_owned(), t)));
        let all = system.hardware.iter().chain(&system.software);
        imported
            .facts
            .extend(all.filter_map(|(name, v)| Some((name.to_lowercase(), v.as_str()?.to_owned()))));
    }
    for result in file.results.into_values() {
        let test = Test {
            title: result.title,
            identifier: result.identifier.unwrap_or_default(),
            description: result.description.unwrap_or_default(),
            scale: result.scale.unwrap_or_default(),
            proportion: result.proportion.unwrap_or_default(),
        };
        for (system, value) in result.results {
            let shown = value
                .value
                .map_or(String::new(), |v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
            let entry = Entry { system, value: shown, runs: value.raw_values };
            imported.parts.extend(parts(&test, &entry, file.systems.len() > 1));
        }
    }
    Ok(imported)
}
