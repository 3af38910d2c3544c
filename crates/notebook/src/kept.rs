//! A run in one small file: enough to make a page of it again, without traces, raw reports and settings.
//!
//! Pages of the book are made of such files, so that anybody can make them again from the repository alone.
//! It is no substitute for the run: what was measured stays in its notebook.

use crate::error::Result;
use crate::record;
use domain::trial::{Run, Trial};
use files::durable::{self, Permissions};
use std::collections::BTreeSet;
use std::path::Path;

/// A run as it is kept. Of its trials only identity, validity, some metrics and, where asked for, CPU time by
/// role are there; all begin when the run did, and have the environment of the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The run, with its study's text.
    pub run: Run,
    /// The machine in one line.
    pub machine: String,
    /// The trials, in their order.
    pub trials: Vec<Trial>,
}

/// What of each trial is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keep {
    /// These metrics.
    pub metrics: BTreeSet<String>,
    /// CPU time by role.
    pub roles: bool,
    /// What CPU time was spent in.
    pub profile: bool,
    /// How busy CPUs were between two samples of their governor.
    pub windows: bool,
}

impl Kept {
    /// Writes it to a file, in the place of one that is there.
    ///
    /// # Errors
    /// Where the file cannot be written, or a metric is not a finite number.
    pub fn write(&self, path: &Path, keep: &Keep) -> Result<()> {
        Ok(durable::replace(path, record::kept_text(self, keep)?.as_bytes(), Permissions::Plain)?)
    }

    /// Reads such a file.
    ///
    /// # Errors
    /// Where it cannot be read, or is none.
    pub fn read(path: &Path) -> Result<Self> {
        record::read_kept(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::ids::{CellId, RunId, TrialKey};
    use domain::outcome::{Better, Metric, Outcome};
    use domain::rng::Seed;
    use domain::time::{Nanos, Timestamp};
    use domain::trace::Role;
    use domain::trial::{Measurement, Provenance, Validity};
    use domain::units::Unit;

    fn a_trial() -> Trial {
        let metric = |value| Metric { value, unit: Unit::BytesPerSecond, better: Better::Higher };
        let metrics = [("read".to_owned(), metric(0.1 + 0.2)), ("write".to_owned(), metric(7e6))].into();
        let measurement = Measurement {
            outcome: Outcome { metrics, tool: String::new(), warnings: vec![] },
            commands: vec![vec!["fio".into()]],
            duration: Nanos::from_secs(2),
            roles: [(Role::Workload, Nanos::from_secs(1))].into(),
            threads: vec![],
            disks: vec![],
            recorder: None,
            profile: None,
            windows: None,
            phases: Vec::new(),
            spent: Default::default(),
            calls: None,
            disturbances: vec![],
        };
        Trial {
            run: RunId("s-1".into()),
            key: TrialKey { block: 0, cell: CellId::from_stored("w_a"), attempt: 0 },
            study: "s".into(),
            workload: "w".into(),
            levels: [("f".to_owned(), "a".to_owned())].into(),
            provenance: Provenance::Lab,
            machine: "m".into(),
            started: Timestamp::from_unix_nanos(9),
            settings: vec![],
            environment: [("kernel".to_owned(), "6.12".to_owned())].into(),
            validity: Validity::Valid,
            measurement: Some(measurement),
            lab: None,
            origin: None,
        }
    }

    fn kept() -> Kept {
        let run = Run {
            id: RunId("s-1".into()),
            study: "s".into(),
            study_text: "flyball = 1\n".into(),
            seed: Seed(3),
            started: Timestamp::from_unix_nanos(5),
            finished: None,
            provenance: Provenance::Lab,
            machine: "m".into(),
            flyball: "0.1.0".into(),
            revision: None,
            command: Vec::new(),
        };
        let mut failed = a_trial();
        failed.key.block += 1;
        (failed.validity, failed.measurement) = (Validity::Failed("no room".into()), None);
        Kept { run, machine: "lab: 1 virtual CPU".into(), trials: vec![a_trial(), failed] }
    }

    #[test]
    fn what_a_page_needs_comes_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.lab.json");
        let kept = kept();
        let keep = Keep { metrics: ["read".to_owned()].into(), roles: true, profile: true, windows: true };
        kept.write(&path, &keep).unwrap();
        let back = Kept::read(&path).unwrap();
        assert_eq!((&back.run, &back.machine), (&kept.run, &kept.machine));
        for (was, is) in kept.trials.iter().zip(&back.trials) {
            assert_eq!((&is.key, &is.levels, &is.validity), (&was.key, &was.levels, &was.validity));
            assert_eq!((is.metric("read"), is.metric("write")), (was.metric("read"), None));
            let roles = |trial: &Trial| trial.measurement.as_ref().map(|m| (m.duration, m.roles.clone()));
            assert_eq!(roles(is), roles(was));
        }
        assert_eq!(back.trials[0].environment["kernel"], "6.12");
        // Written again it is the same file.
        let text = std::fs::read_to_string(&path).unwrap();
        back.write(&path, &keep).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }

    #[test]
    fn what_is_no_kept_run_is_refused_with_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        for text in ["", "{}", r#"{"kept":{"schema":1},"trials":[]}"#, r#"{"kept":{"schema":9},"trials":[]}"#]
        {
            std::fs::write(&path, text).unwrap();
            let error = Kept::read(&path).unwrap_err().to_string();
            assert!(error.contains("x.json"), "{error}");
        }
    }
}
