//! Result files of the Phoronix Test Suite: `composite.xml`, and the JSON of its `result-file-to-json`.
//!
//! A result is one test with its options on one system; where the file keeps the values of each run
//! (`RawString`), each run becomes a trial. Attributes are passed over, and entities that a file defines
//! itself stay as they are written. Source: `pts_result_file.php` (`get_xml`) and
//! `pts_result_file_output.php` (`result_file_to_json`).

use super::error::{Error, Place};
use super::{Imported, Part, small_json};
use domain::outcome::{Better, Metric, Outcome};
use domain::units::Unit;
use quick_xml::errors::SyntaxError;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::Event;
use quick_xml::reader::Reader;
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
    let mut reader = Reader::from_str(text);
    // An ampersand that begins no entity is one.
    reader.config_mut().allow_dangling_amp = true;
    let mut file = ResultFile::default();
    loop {
        let at = reader.buffer_position();
        let event = match reader.read_event() {
            Ok(Event::Eof) => break,
            Ok(event) => event,
            Err(error) => return Err(file.fault(text, reader.error_position(), in_words(&error))),
        };
        file.take(&event).map_err(|reason| file.fault(text, at, reason))?;
    }
    match file.path.last() {
        Some(open) => {
            let reason = format!("expected `</{open}>`; it ends here, unfinished");
            Err(file.fault(text, text.len() as u64, reason))
        }
        None => Ok(file.imported()),
    }
}

fn in_words(error: &quick_xml::Error) -> String {
    match error {
        quick_xml::Error::Syntax(SyntaxError::UnclosedTag) => {
            "expected the end of a tag; it ends here, unfinished".to_owned()
        }
        other => other.to_string(),
    }
}

/// What was understood of a file so far.
#[derive(Default)]
struct ResultFile {
    /// The elements that are open, outermost first.
    path: Vec<String>,
    /// The text since the last tag.
    content: String,
    facts: BTreeMap<String, String>,
    test: Test,
    entry: Entry,
    tests: Vec<Test>,
    /// Each with the number of its test.
    entries: Vec<(usize, Entry)>,
    systems: usize,
}

impl ResultFile {
    fn fault(&self, text: &str, at: u64, reason: String) -> Error {
        let before = usize::try_from(at).ok().and_then(|at| text.as_bytes().get(..at));
        let lines = before.unwrap_or(text.as_bytes()).iter().filter(|byte| **byte == b'\n').count();
        let place = Place { offset: at, line: lines as u64 + 1 };
        Error::at(WHAT, place, reason).after(&format!("{} values", self.entries.len()))
    }

    fn take(&mut self, event: &Event<'_>) -> Result<(), String> {
        let words = |error: quick_xml::encoding::EncodingError| error.to_string();
        match event {
            Event::Start(_) if self.path.len() >= MAX_DEPTH => {
                return Err(format!("it is nested deeper than {MAX_DEPTH} levels"));
            }
            Event::Start(tag) => {
                self.content.clear();
                self.path.push(String::from_utf8_lossy(tag.name().as_ref()).into_owned());
            }
            Event::End(_) => self.close(),
            Event::Text(text) => self.content.push_str(&text.decode().map_err(words)?),
            Event::CData(text) => self.content.push_str(&text.decode().map_err(words)?),
            Event::GeneralRef(entity) => {
                let name = entity.decode().map_err(words)?;
                let character = entity.resolve_char_ref().map_err(|error| error.to_string())?;
                match (character, resolve_predefined_entity(&name)) {
                    (Some(character), _) => self.content.push(character),
                    (None, Some(meant)) => self.content.push_str(meant),
                    // One that the file would have to define: it stays as it is written.
                    (None, None) => self.content.push_str(&format!("&{name};")),
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Keeps what the innermost element holds, and closes it.
    fn close(&mut self) {
        let content = std::mem::take(&mut self.content).trim().to_owned();
        let Some(name) = self.path.pop() else { return };
        let outer: Vec<&str> = self.path.iter().map(String::as_str).collect();
        match (outer.as_slice(), name.as_str()) {
            ([_, "Generated"], "TestClient") => {
                self.facts.insert("test client".to_owned(), content);
            }
            ([_, "Generated"], "Title") => {
                self.facts.insert("title".to_owned(), content);
            }
            ([_, "System"], "Hardware" | "Software" | "TimeStamp") => {
                self.facts.entry(name.to_lowercase()).or_insert(content);
            }
            ([_], "System") => self.systems += 1,
            ([_, "Result"], "Title") => self.test.title = content,
            ([_, "Result"], "Identifier") => self.test.identifier = content,
            ([_, "Result"], "Description") => self.test.description = content,
            ([_, "Result"], "Scale") => self.test.scale = content,
            ([_, "Result"], "Proportion") => self.test.proportion = content,
            ([_, "Result", "Data", "Entry"], "Identifier") => self.entry.system = content,
            ([_, "Result", "Data", "Entry"], "Value") => self.entry.value = content,
            ([_, "Result", "Data", "Entry"], "RawString") => self.entry.runs = runs_of(&content),
            ([_, "Result", "Data"], "Entry") => {
                self.entries.push((self.tests.len(), std::mem::take(&mut self.entry)));
            }
            ([_], "Result") => self.tests.push(std::mem::take(&mut self.test)),
            _ => {}
        }
    }

    fn imported(self) -> Imported {
        let many_systems = self.systems > 1;
        let known = self.entries.iter().filter_map(|(test, entry)| Some((self.tests.get(*test)?, entry)));
        let mut imported = Imported::default();
        imported.parts.extend(known.flat_map(|(test, entry)| parts(test, entry, many_systems)));
        imported.facts.extend(self.facts);
        imported
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn result(title: &str, value: &str) -> String {
        format!(
            "<?xml version=\"1.0\"?>\n<!-- saved -->\n<PhoronixTestSuite>\n<Result note=\"a > b\"><Title>{title}</Title>\
             <Data><Entry><Identifier>x</Identifier><Value>{value}</Value><RawString/></Entry></Data></Result>\n\
             </PhoronixTestSuite>\n"
        )
    }

    #[test]
    fn text_is_read_as_xml_means_it() {
        for (written, meant) in [
            ("a &amp;lt; b", "a &lt; b"),
            ("it&#039;s &quot;1&quot; &gt; 0", "it's \"1\" > 0"),
            ("<![CDATA[1 < 2 & 3]]>", "1 < 2 & 3"),
            ("R & D, &unknown;", "R & D, &unknown;"),
            ("one<!-- two --> three", "one three"),
        ] {
            let imported = read(&result(written, "4.5")).unwrap();
            assert_eq!(imported.parts.len(), 1, "{written}");
            assert_eq!(imported.parts[0].name, meant);
        }
    }

    #[test]
    fn what_is_not_well_formed_names_its_line() {
        let told = |text: &str| read(text).map(|_| ()).unwrap_err().to_string();
        let whole = result("t", "1");
        for (wrong, line, reason) in [
            (whole.replace("</Title>", "</Titel>"), 4, "Titel"),
            (whole.replace("</PhoronixTestSuite>", ""), 6, "expected `</PhoronixTestSuite>`"),
            (whole.replace("<!--", "<!-"), 2, ""),
            (whole.replace("<Value>1", "<Value>&#x110000;"), 4, ""),
            (whole.replace("<Title>", &"<a>".repeat(40)), 4, "nested deeper than 32"),
        ] {
            let error = told(&wrong);
            assert!(error.contains(&format!("(line {line})")) && error.contains(reason), "{error}");
        }
    }
}
