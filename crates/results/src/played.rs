//! A stored trial with all that a view of it shows.

use crate::{Error, Result, Results, Warn};
use domain::finding::Finding;
use domain::ids::{RunId, TrialKey};
use domain::inventory::Inventory;
use domain::order;
use domain::setting::SettingRecord;
use domain::trace::Trace;
use domain::trial::Trial;
use notebook::Notebook;
use std::collections::BTreeSet;

/// A trial that can be played.
pub struct Playable {
    /// The trial.
    pub trial: Trial,
    /// What was sampled, thinned where it is long.
    pub trace: Trace,
    /// The machine, with the governors of the trial; `None` where it is not known.
    pub machine: Option<Inventory>,
    /// What was found in its run.
    pub findings: Vec<Finding>,
}

impl Playable {
    /// Reads a trial, or without a key the first of the run that has a trace.
    ///
    /// # Errors
    /// [`Error::Play`] where there is no such trial, or it has no trace; those of reading the run.
    pub fn open(notebook: &Notebook, id: &RunId, key: Option<&TrialKey>, warn: Warn) -> Result<Self> {
        let results = Results::load(notebook, id, None, warn)?;
        let refused = |trial: String, why: &str| {
            let why = format!("{why}; `flyball export {id}` lists the trials of the run");
            Error::Play { trial, why }
        };
        let trials = &results.data.trials;
        let mut wanted: Vec<&Trial> =
            trials.iter().filter(|trial| key.is_none_or(|key| trial.key == *key)).collect();
        if let (Some(key), true) = (key, wanted.is_empty()) {
            return Err(refused(key.to_string(), &format!("the run `{id}` has no such trial")));
        }
        // One that counts before one that was disturbed.
        order::by_key(&mut wanted, |trial| !trial.validity.is_valid());
        for trial in wanted {
            if let Some(mut reader) = notebook.trace(id, &trial.key)? {
                let rows = watch::most_rows(reader.head().series.len());
                let trace = reader.read(rows, |_| true)?;
                let mut machine = results.machine().cloned();
                machine.iter_mut().for_each(|machine| set_governors(machine, &trial.settings));
                return Ok(Self { trial: trial.clone(), trace, machine, findings: results.findings });
            }
        }
        let (what, why) = match key {
            Some(key) => (key.to_string(), "nothing was sampled in it, so it has no trace"),
            None => (id.to_string(), "none of its trials has a trace"),
        };
        Err(refused(what, why))
    }

    /// What was changed for the trial, a few words each.
    pub fn changed(&self) -> Vec<String> {
        let own = |record: &SettingRecord| {
            format!("{} was {} (before {})", record.setting, record.got, record.before)
        };
        let all: BTreeSet<String> = self.trial.settings.iter().map(own).collect();
        all.into_iter().collect()
    }
}

/// A trial's own governors: the machine was looked at before its run.
fn set_governors(machine: &mut Inventory, settings: &[SettingRecord]) {
    let Some(cpufreq) = &mut machine.cpufreq else { return };
    for record in settings.iter().filter(|record| record.setting.name == "governor") {
        for policy in &mut cpufreq.policies {
            if record.path.contains(&format!("/policy{}/", policy.id)) {
                policy.governor = Some(record.got.clone());
            }
        }
    }
}
