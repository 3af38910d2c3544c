//! JSON: whole trials as the notebook stores them, in one document.

use crate::{Error, Exporter, Result, Sink, Writer};
use domain::inert;
use domain::trial::Trial;
use notebook::record;

/// Whole trials in one document.
pub(crate) struct Json;

impl Exporter for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn about(&self) -> &'static str {
        "Whole trials, as the notebook keeps them"
    }

    fn writers(&self) -> &'static [Writer] {
        &[Writer::Trials(trials)]
    }
}

/// `{"schema": 1, "flyball": VERSION, "trials": [...]}`; each trial is as in its `trial.json`.
fn trials(trials: &[Trial], out: &mut dyn Sink) -> Result<()> {
    write!(out, "{{\"schema\":{},\"flyball\":\"{}\",\"trials\":[", record::SCHEMA, record::PROGRAM)?;
    for (i, trial) in trials.iter().enumerate() {
        out.write_all(if i == 0 { b"\n" } else { b",\n" })?;
        let mut text = Vec::new();
        record::write_trial(trial, &mut text).map_err(Error::write)?;
        // It means the same, and no terminal obeys it.
        out.write_all(inert::json(&String::from_utf8_lossy(&text)).as_bytes())?;
    }
    Ok(out.write_all(b"\n]}\n")?)
}
