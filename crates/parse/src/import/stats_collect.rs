//! `info.yml` of a result of stats-collect: which tool, version, command and day. The statistics beside it
//! are text files of their tools (`stats/turbostat.raw.txt`), which are imported as such, best with this one
//! and `--together`.
//!
//! Of YAML only what stands at the beginning of a line as `key: value` is read. Source: result files of
//! stats-collect 1.3.

use super::error::Error;
use super::{Imported, Part};
use domain::outcome::Outcome;

pub(super) fn read(text: &str) -> Result<Imported, Error> {
    let mut imported = Imported::default();
    let mut outcome = Outcome { tool: "stats-collect".to_owned(), ..Outcome::default() };
    let mut part = Part::new("stats-collect", Outcome::default());
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim().trim_matches(['\'', '"']);
        match (key, value) {
            (_, "") => {}
            ("toolver", version) => outcome.tool = format!("stats-collect-{version}"),
            ("reportid" | "date", value) => drop(imported.facts.insert(key.to_owned(), value.to_owned())),
            // No shell's words are guessed: the command is one text.
            ("cmd", value) => part.command = Some(vec!["sh".to_owned(), "-c".to_owned(), value.to_owned()]),
            _ => {}
        }
    }
    imported.parts.push(Part { outcome, ..part });
    Ok(imported)
}
