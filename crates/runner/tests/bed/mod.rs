//! What the tests of whole trials stand on.

use domain::bench::{Sink, SinkError};
use domain::outcome::Better;
use domain::plan::{Cell, CellId};
use domain::rng::Seed;
use domain::setting::{SettingName, SettingRequest};
use domain::study::{self, Measure, MetricPattern, Tool, Workload};
use domain::time::Nanos;
use domain::trace::TraceHead;
use domain::trial::{Provenance, RunId, TrialKey, Validity};
use domain::units::{Bytes, Unit};
use machine::{Ledger, LocalMachine};
use runner::environment::Environment;
use runner::testing::ScriptedBench;
use runner::{BetweenTrials, Devices, Done, Error, Host, Site, Stop, StorageSetup, Target};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

pub const SMALL: Bytes = Bytes::from_mib(8);
pub const FILE: study::Target = study::Target::File(SMALL);
pub const LOOP: study::Target = study::Target::Loop(SMALL);

/// Whether this is root; says that the test is skipped where it is not.
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        testing::skip("needs root");
    }
    root
}

struct Forget;

impl Sink for Forget {
    fn begin(&mut self, _: &TraceHead) -> Result<(), SinkError> {
        Ok(())
    }
    fn row(&mut self, _: Nanos, _: &[Option<u64>]) -> Result<(), SinkError> {
        Ok(())
    }
}

/// A recorder takes nearly all descriptors that its process may have, and there is one a process in real runs.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A folder of its own for the ledger, the target and the trial's raw output.
pub struct Bed {
    pub folder: tempfile::TempDir,
    pub measure: Measure,
    pub interrupt: AtomicBool,
}

impl Bed {
    pub fn new() -> Self {
        Self::within(Path::new(env!("CARGO_TARGET_TMPDIR")))
    }

    pub fn within(folder: &Path) -> Self {
        let measure = Measure {
            settle: Nanos::from_millis(300),
            timeout: Nanos::from_secs(60),
            drop_caches: false,
            ..Measure::default()
        };
        let folder = tempfile::tempdir_in(folder).unwrap();
        fs::create_dir(folder.path().join("raw")).unwrap();
        Self { folder, measure, interrupt: AtomicBool::new(false) }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn ledger(&self) -> Ledger<'static> {
        Ledger::open(&self.path("state"), &LocalMachine).unwrap().0
    }

    pub fn target(&self, ledger: &mut Ledger<'_>, kind: study::Target) -> Result<Option<Target>, Error> {
        Target::make(ledger, &self.path("work"), &kind, Devices::Refused, Seed(1), &self.interrupt)
    }

    /// Runs one cell between a ledger's opening and its end.
    pub fn trial(&self, kind: study::Target, cell: &Cell) -> Result<Done, Stop> {
        let mut ledger = self.ledger();
        let target = self.target(&mut ledger, kind).unwrap();
        let result = self.trial_on(&mut ledger, target.as_ref(), cell, None);
        let report = ledger.finish();
        assert!(report.failed().next().is_none(), "{report:?}");
        assert!(!self.path("work/target").exists());
        result
    }

    /// Runs one cell, for real or by a script.
    pub fn trial_on(
        &self,
        ledger: &mut Ledger<'_>,
        target: Option<&Target>,
        cell: &Cell,
        script: Option<&mut ScriptedBench>,
    ) -> Result<Done, Stop> {
        let begun = Instant::now();
        let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        testing::waited(begun.elapsed());
        let fixed = Environment::new();
        let run = RunId("test".into());
        let mut site = Site {
            machine: &LocalMachine,
            ledger,
            target: target.cloned(),
            measure: &self.measure,
            fixed: &fixed,
            interrupt: &self.interrupt,
            run: &run,
            study: "study",
            provenance: Provenance::Host,
            identity: "machine",
        };
        let key = TrialKey { block: 0, cell: cell.id.clone(), attempt: 0 };
        match script {
            Some(bench) => site.trial(bench, cell, &key, &mut Forget),
            None => {
                Host::new(site, &mut BetweenTrials::new(StorageSetup::fixed(target.cloned())), &mut |_, _| ())
                    .trial(cell, &key, &self.path("raw"), &mut Forget)
            }
        }
    }
}

/// A test that failed leaves nothing on the machine either.
impl Drop for Bed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = Ledger::open(&self.path("state"), &LocalMachine);
        }
    }
}

/// A cell with these options and settings.
pub fn cell(tool: Tool, options: &[(&str, &str)], settings: &[(&str, &str)]) -> Cell {
    let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let request = |(name, value): &(&str, &str)| SettingRequest {
        setting: SettingName::parse(name),
        value: (*value).to_owned(),
    };
    Cell {
        id: CellId::new(["cell"]),
        workload: Workload { name: "w".into(), tool, options },
        levels: BTreeMap::new(),
        settings: settings.iter().map(request).collect(),
        stack: None,
        kernel: None,
        machine: None,
    }
}

/// A shell script whose metric is what follows `answer`.
pub fn command(script: &str) -> Tool {
    let metric = MetricPattern {
        name: "answer".into(),
        pattern: "answer ([0-9]+)".into(),
        unit: Unit::Count,
        better: Better::Higher,
    };
    Tool::Command { argv: ["sh", "-c", script].map(str::to_owned).to_vec(), metrics: vec![metric] }
}

/// How a failed trial failed.
pub fn failed(result: Result<Done, Stop>) -> String {
    match result {
        Ok(Done { trial, .. }) => match trial.validity {
            Validity::Failed(text) => text,
            other => panic!("{other:?}"),
        },
        Err(stop) => panic!("{stop:?}"),
    }
}

/// A tmpfs, unmounted when it goes out of scope.
pub struct Tmpfs<'a>(&'a Path);

impl<'a> Tmpfs<'a> {
    pub fn mount(folder: &'a Path, options: &str) -> Self {
        fs::create_dir_all(folder).unwrap();
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", options, "none"]).arg(folder).status();
        assert!(status.unwrap().success());
        Self(folder)
    }
}

impl Drop for Tmpfs<'_> {
    fn drop(&mut self) {
        let status = Command::new("umount").arg(self.0).status();
        assert!(status.is_ok_and(|s| s.success()), "`{}` stays mounted", self.0.display());
    }
}
