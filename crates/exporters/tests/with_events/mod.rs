//! A stored trial with a trace and with events that a test makes up, and what a format writes of it.
#![allow(dead_code, reason = "each test uses a part of it")]

#[path = "../../../events/tests/made/mod.rs"]
pub mod made;

use domain::Nanos;
use domain::ids::{RunId, TrialKey};
use domain::inventory::{CpuList, Cpufreq, Policy};
use events::Owner;
use exporters::{Sink, StoredTrace, Writer, named};
use made::File;
use notebook::Notebook;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

pub const RUN: &str = "stored-20261120-145516-7f3a";
pub const TRIAL: &str = "b00.randread_4k.a0";

/// The monotonic clock when the trace's time was zero.
pub const ORIGIN: u64 = 7_000_000_000;

/// A notebook of one trial with a trace, and with these events.
pub struct Stored(pub tempfile::TempDir);

impl Stored {
    pub fn with(events: Option<&[u8]>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/notebooks/v1");
        testing::copy_folder(&fixture, root.path());
        let stored = Self(root);
        if let Some(events) = events {
            stored.put(events);
        }
        stored
    }

    pub fn put(&self, events: &[u8]) {
        let trial = self.0.path().join("runs").join(RUN).join("trials").join(TRIAL);
        fs::write(trial.join("events.bin"), events).unwrap();
    }

    /// The machine has policy 0 of these CPUs, under this governor.
    pub fn put_policy(&self, cpus: &str, governor: &str) {
        let policy = Policy {
            cpus: CpuList::parse(cpus).unwrap(),
            governor: Some(governor.into()),
            ..Policy::default()
        };
        let tunables =
            [("up_threshold", "95"), ("io_is_busy", "1")].map(|(name, value)| (name.into(), value.into()));
        let cpufreq = Cpufreq {
            policies: vec![policy],
            intel_pstate: None,
            amd_pstate: None,
            boost: None,
            frequency_invariant: None,
            tunables: [("ondemand".to_owned(), tunables.into())].into(),
        };
        let machine = serde_json::json!({ "schema": 1, "cpufreq": cpufreq });
        fs::write(self.0.path().join("runs").join(RUN).join("machine.json"), machine.to_string()).unwrap();
    }

    pub fn exported(&self, format: &str) -> exporters::Result<Vec<u8>> {
        let notebook = Notebook::open(self.0.path()).unwrap();
        let run = RunId(RUN.into());
        let key: TrialKey = TRIAL.parse().unwrap();
        let rows = notebook.trace(&run, &key).unwrap().unwrap();
        let mut trace = StoredTrace { notebook: &notebook, run: &run, key: &key, rows };
        let mut out = Bytes(Vec::new());
        let Writer::Trace(write) = named(format).unwrap().writers()[0] else { panic!("it is of a trace") };
        write(&mut trace, &mut out).map(|()| out.0)
    }
}

pub struct Bytes(pub Vec<u8>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Bytes {
    fn warn(&mut self, warning: &str) {
        panic!("warned: {warning}");
    }
}

/// Two CPUs: switches, a wake-up in an interrupt, a kworker's work, and requests of a disk and an array.
pub fn file() -> File {
    let mut file = File::since(Nanos::new(ORIGIN));
    file.task(2, Owner::Kernel, "kthreadd");
    file.task(100, Owner::Workload, "fio");
    file.task(300, Owner::Kernel, "kworker/0:1");
    file.frame(events::Kind::Thread, 0, &[101_u32.to_le_bytes(), 100_u32.to_le_bytes()].concat());
    file.device(8 << 20, "sda");
    file.device(9 << 20, "md0");
    file.symbol(0xffff_0000, "kcryptd_crypt [dm_crypt]");
    file.frame(events::Kind::Absent, 0, b"power/pstate_sample: this kernel lacks it");
    let (sda, md) = (8 << 20, 9 << 20);
    let t = |ns: u64| ORIGIN + ns;
    file.switch(0, t(10), 0, 0, 100);
    file.event(0, t(12), "power/cpu_frequency", &[("state", 2_400_000), ("cpu_id", 1)]);
    file.event(1, t(14), "power/cpu_idle", &[("state", u64::from(u32::MAX)), ("cpu_id", 1)]);
    // Two reads at once, and one that is done in parts.
    file.block(t(20), "block/block_bio_queue", sda, 0, 8, 'R');
    file.block(t(25), "block/block_bio_queue", sda, 64, 16, 'R');
    file.block(t(30), "block/block_rq_issue", sda, 0, 8, 'R');
    file.block(t(35), "block/block_rq_issue", sda, 64, 16, 'R');
    file.block(t(50), "block/block_rq_complete", sda, 64, 8, 'R');
    file.block(t(60), "block/block_rq_complete", sda, 0, 8, 'R');
    file.block(t(70), "block/block_rq_complete", sda, 72, 8, 'R');
    // Begins when one of them has ended: the lane is free.
    file.block(t(70), "block/block_bio_queue", sda, 0, 8, 'W');
    file.block(t(75), "block/block_rq_issue", sda, 0, 8, 'W');
    file.block(t(90), "block/block_rq_complete", sda, 0, 8, 'W');
    file.block(t(40), "block/block_bio_queue", md, 0, 8, 'W');
    file.block(t(95), "block/block_bio_complete", md, 0, 8, 'W');
    file.event(1, t(100), "irq/irq_handler_entry", &[("irq", 24), ("common_pid", 7)]);
    let waking =
        [("pid", 300), ("prio", 120), ("target_cpu", 1), ("common_flags", made::HARDIRQ), ("common_pid", 7)];
    file.event(1, t(101), "sched/sched_waking", &waking);
    file.event(1, t(103), "irq/irq_handler_exit", &[("irq", 24), ("common_pid", 7)]);
    let work = [("common_pid", 300), ("function", 0xffff_0000)];
    file.event(0, t(110), "workqueue/workqueue_execute_start", &work);
    file.event(1, t(130), "workqueue/workqueue_execute_end", &work[..1]);
    file.switch(0, t(140), 100, 1, 300);
    // What is under way when events are lost is not known to its end.
    file.block(t(150), "block/block_bio_queue", sda, 128, 8, 'R');
    file.block(t(151), "block/block_rq_issue", sda, 128, 8, 'R');
    file.event(1, t(152), "irq/softirq_entry", &[("vec", 4)]);
    file.lost(1, t(160), 5);
    file.event(1, t(170), "irq/softirq_exit", &[("vec", 4)]);
    file.block(t(171), "block/block_rq_complete", sda, 128, 8, 'R');
    file.end(t(1_000));
    file
}
