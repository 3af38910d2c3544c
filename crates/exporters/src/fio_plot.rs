//! fio's trials in folders as fio-plot reads them: `CELL/BLOCK/` with fio's own report, and logs.
//!
//! Where fio wrote no logs, a trial's device stands in as fio's own logs have a job:
//! `randread-iodepth-8-numjobs-1_bw.1.log`. Its figures are those of the kernel's counters of the device, not
//! of fio's clocks: so there is no latency.

use crate::{Error, Exporter, FolderSink, Result, StoredRun, Writer};
use analysis::facts::rates::{SECTOR_BYTES, rates};
use domain::plan::{Cell, Plan};
use domain::time::Nanos;
use domain::trace::{Trace, TraceHead};
use domain::trial::Trial;
use report::trace_view::grid::Grid;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::PathBuf;
use workloads::fio;

/// The kinds of logs that fio writes, as its files' names end: `_bw.1.log`.
const KINDS: [&str; 5] = ["bw", "iops", "lat", "clat", "slat"];

/// A row of a log is at least this long: what the kernel counts in a shorter span is a request or two.
const ROW: Nanos = Nanos::from_millis(100);

/// A folder for each valid trial of fio.
pub(crate) struct FioPlot;

impl Exporter for FioPlot {
    fn name(&self) -> &'static str {
        "fio-plot"
    }

    fn about(&self) -> &'static str {
        "fio's reports, and logs of the device, in folders for fio-plot"
    }

    fn writers(&self) -> &'static [Writer] {
        &[Writer::Folder(write)]
    }
}

fn write(run: &StoredRun<'_>, to: &mut dyn FolderSink) -> Result<()> {
    let plan = Plan::new(run.data.study.clone(), run.data.run.seed);
    let plan = plan.map_err(|e| Error::Unsuitable(e.to_string()))?;
    let cell_of = |trial: &Trial| plan.cells.iter().find(|cell| cell.id == trial.key.cell);
    let mut written = 0;
    for trial in run.data.trials.iter().filter(|trial| trial.validity.is_valid()) {
        if let Some(cell) = cell_of(trial).filter(|cell| fio::is_job(&cell.workload)) {
            Job::of(trial, cell).write(run, trial, to)?;
            written += 1;
        }
    }
    if written == 0 {
        let run = &run.data.run.id;
        return Err(Error::Unsuitable(format!(
            "cannot write `{run}` for fio-plot: it has no valid trial of fio"
        )));
    }
    let place = to.place().display().to_string();
    to.say(&format!("{written} trials in `{place}`; fio-plot -i {place}/CELL/BLOCK"));
    Ok(())
}

/// A trial of fio as its files' names say it.
struct Job {
    /// `CELL/BLOCK`.
    folder: PathBuf,
    pattern: String,
    depth: String,
    jobs: String,
}

impl Job {
    fn of(trial: &Trial, cell: &Cell) -> Self {
        let option = |name: &str, default: &'static str| {
            name_part(cell.workload.options.get(name).map_or(default, String::as_str))
        };
        Self {
            folder: PathBuf::from(cell.id.as_str()).join(trial.key.block.to_string()),
            pattern: option("rw", "read"),
            depth: option("iodepth", "1"),
            jobs: option("numjobs", "1"),
        }
    }

    fn write(&self, run: &StoredRun<'_>, trial: &Trial, to: &mut dyn FolderSink) -> Result<()> {
        let of_fio = self.copy_files_of_fio(run, trial, to)?;
        let Some(mut rows) = run.notebook.trace(&run.data.run.id, &trial.key)? else { return Ok(()) };
        let Some(device) = device(trial, rows.head()) else {
            let trial = trial.key.folder();
            to.warn(&format!("no logs of {trial}: which of its devices the load was on is not known"));
            return Ok(());
        };
        let prefix = format!("disk.{device}.");
        let trace = rows.read(usize::MAX, |series| series.name.starts_with(&prefix))?;
        // What fio wrote itself is better than what the device's counters say.
        for (kind, text) in logs(&trace, &device).into_iter().filter(|(kind, _)| !of_fio.contains(*kind)) {
            to.file(&self.folder.join(self.log_name(kind, "1")), &mut text.as_bytes())?;
        }
        Ok(())
    }

    /// Copies fio's report and its logs, and says of which kinds these are.
    fn copy_files_of_fio(
        &self,
        run: &StoredRun<'_>,
        trial: &Trial,
        to: &mut dyn FolderSink,
    ) -> Result<BTreeSet<String>> {
        let id = &run.data.run.id;
        let mut kinds = BTreeSet::new();
        for name in run.notebook.raw_names(id, &trial.key)? {
            let copy = if name == fio::REPORT {
                format!("{}-{}-{}.json", self.pattern, self.depth, self.jobs)
            } else if let Some((kind, number)) = kind_of(&name) {
                kinds.insert(kind.to_owned());
                self.log_name(kind, number)
            } else {
                continue;
            };
            to.file(&self.folder.join(copy), &mut run.notebook.raw_file(id, &trial.key, &name)?)?;
        }
        Ok(kinds)
    }

    fn log_name(&self, kind: &str, number: &str) -> String {
        format!("{}-iodepth-{}-numjobs-{}_{kind}.{number}.log", self.pattern, self.depth, self.jobs)
    }
}

/// An option's value as part of a file's name: what it leads to is in the folder, whatever a study says.
fn name_part(value: &str) -> String {
    value.replace(|c: char| !c.is_ascii_alphanumeric() && !"-_:%".contains(c), "_")
}

/// The device that the load was on: as the trial noted it, or the only one of the trace, as a simulation's
/// may be.
fn device(trial: &Trial, head: &TraceHead) -> Option<String> {
    let noted = trial.environment.get("device").cloned();
    let names = head.series.iter().filter_map(|s| s.name.strip_prefix("disk.")?.strip_suffix(".read_ios"));
    let names: Vec<&str> = names.collect();
    noted.or_else(|| if let [only] = names[..] { Some(only.to_owned()) } else { None })
}

/// `x_bw.1.log` as `("bw", "1")`.
fn kind_of(name: &str) -> Option<(&str, &str)> {
    let (rest, number) = name.strip_suffix(".log")?.rsplit_once('.')?;
    let kind = rest.rsplit_once('_')?.1;
    (KINDS.contains(&kind) && number.parse::<u32>().is_ok()).then_some((kind, number))
}

/// Bandwidth in KiB/s and requests a second of a device over the trace, by kind. Nothing where the trace does
/// not have it.
fn logs(trace: &Trace, device: &str) -> Vec<(&'static str, String)> {
    let grid = Grid::every(trace, trace.head.interval.max(ROW));
    let log = |quantity: &str, scale: f64| {
        let ways = ["read", "write"].map(|way| {
            let column = format!("disk.{device}.{way}_{quantity}");
            grid.line(way, rates(trace, &column, scale)).buckets
        });
        // Milliseconds, value, 0 for reads and 1 for writes, 0, 0 (fio(1), "log file formats").
        let mut text = String::new();
        for i in 0..grid.count {
            for (number, way) in ways.iter().enumerate() {
                let Some(value) = way[i].map(|bucket| bucket.mean).filter(|mean| *mean > 0.0) else {
                    continue;
                };
                let ms = (i as u64 + 1) * grid.width_ns / 1_000_000;
                let _ = writeln!(text, "{ms}, {value:.0}, {number}, 0, 0");
            }
        }
        text
    };
    let logs = [("bw", log("sectors", SECTOR_BYTES / 1024.0)), ("iops", log("ios", 1.0))];
    logs.into_iter().filter(|(_, text)| !text.is_empty()).collect()
}
