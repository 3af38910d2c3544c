//! JSON: whole trials as the notebook stores them, in one document.

use crate::error::{Error, Result};
use crate::record;
use domain::inert;
use domain::trial::Trial;
use std::io::Write;

/// Writes `{"schema": 1, "flyball": VERSION, "trials": [...]}`; each trial is as in its `trial.json`.
///
/// # Errors
/// Where `out` cannot be written.
pub fn trials_as_json(trials: &[Trial], mut out: impl Write) -> Result<()> {
    let failed = |e: std::io::Error| Error::Export(e.to_string());
    write!(out, "{{\"schema\":{},\"flyball\":\"{}\",\"trials\":[", record::SCHEMA, record::PROGRAM)
        .map_err(failed)?;
    for (i, trial) in trials.iter().enumerate() {
        out.write_all(if i == 0 { b"\n" } else { b",\n" }).map_err(failed)?;
        let mut text = Vec::new();
        record::write_trial(trial, &mut text).map_err(|e| Error::Export(e.to_string()))?;
        // It means the same, and no terminal obeys it.
        out.write_all(inert::json(&String::from_utf8_lossy(&text)).as_bytes()).map_err(failed)?;
    }
    out.write_all(b"\n]}\n").map_err(failed)
}
