//! fio's trials in folders as fio-plot reads them: `FOLDER/CELL/BLOCK/`, fio's own report, and logs.

use crate::exit::{End, Usage};
use crate::{results, terminal};
use anyhow::{Context, Result, bail};
use domain::plan::{Cell, Plan};
use domain::trace::TraceHead;
use domain::trial::{RunId, Trial};
use notebook::Notebook;
use report::export::{FioLog, fio_logs};
use std::fs;
use std::io;
use std::path::Path;
use workloads::fio;

/// The kinds of logs that fio writes, as its files' names end: `_bw.1.log`.
const KINDS: [&str; 5] = ["bw", "iops", "lat", "clat", "slat"];

/// Writes a folder for each valid trial of fio.
pub fn write(notebook: &Notebook, id: &RunId, out: Option<&Path>) -> Result<End> {
    let Some(folder) = out else {
        return Err(Usage("fio-plot reads folders; name the one to make with --out DIR".into()).into());
    };
    if fs::symlink_metadata(folder).is_ok() {
        bail!(
            "cannot make the folder `{}`: it is there already; name one that is not there yet",
            folder.display()
        );
    }
    files::output::make_folder(folder)?;
    let data = results::data(notebook, id)?;
    let plan = Plan::new(data.study.clone(), data.run.seed)?;
    let mut written = 0;
    for trial in data.trials.iter().filter(|trial| trial.validity.is_valid()) {
        let Some(cell) = plan.cells.iter().find(|cell| cell.id == trial.key.cell) else { continue };
        if fio::is_job(&cell.workload) {
            let place = folder.join(cell.id.as_str()).join(trial.key.block.to_string());
            fs::create_dir_all(&place)
                .with_context(|| format!("cannot make the folder `{}`", place.display()))?;
            write_trial(notebook, id, trial, cell, &place)?;
            written += 1;
        }
    }
    if written == 0 {
        fs::remove_dir(folder).with_context(|| format!("cannot remove `{}` again", folder.display()))?;
        bail!("cannot write `{id}` for fio-plot: it has no valid trial of fio");
    }
    terminal::say(format_args!(
        "{written} trials in `{}`; fio-plot -i {}/CELL/BLOCK",
        folder.display(),
        folder.display()
    ));
    Ok(End::Done)
}

fn write_trial(notebook: &Notebook, id: &RunId, trial: &Trial, cell: &Cell, place: &Path) -> Result<()> {
    let option =
        |name: &str, default: &'static str| cell.workload.options.get(name).map_or(default, String::as_str);
    let job = [option("rw", "read"), option("iodepth", "1"), option("numjobs", "1")].map(name_part);
    let job = (job[0].as_str(), job[1].as_str(), job[2].as_str());
    let raw = notebook.trial_folder(id, &trial.key).join("raw");
    let mut kinds = Vec::new();
    for name in names(&raw)? {
        let to = if name == fio::REPORT {
            format!("{}-{}-{}.json", job.0, job.1, job.2)
        } else if let Some((kind, number)) = kind_of(&name) {
            kinds.push(kind.to_owned());
            format!("{}-iodepth-{}-numjobs-{}_{kind}.{number}.log", job.0, job.1, job.2)
        } else {
            continue;
        };
        let (from, to) = (raw.join(&name), place.join(to));
        let mut original =
            files::regular::open(&from).with_context(|| format!("cannot copy `{}`", from.display()))?;
        let mut copy = files::output::Output::open(&to)?;
        io::copy(&mut original, &mut copy).with_context(|| format!("cannot copy `{}`", from.display()))?;
        copy.finish()?;
    }
    let Some(mut reader) = notebook.trace(id, &trial.key)? else { return Ok(()) };
    let Some(device) = device(trial, reader.head()) else {
        terminal::warning(format_args!(
            "no logs of {}: which of its devices the load was on is not known",
            trial.key.folder()
        ));
        return Ok(());
    };
    let prefix = format!("disk.{device}.");
    let trace = reader.read(usize::MAX, |series| series.name.starts_with(&prefix))?;
    // What fio wrote itself is better than what the device's counters say.
    let own = |log: &FioLog| kind_of(&log.name).is_some_and(|(kind, _)| kinds.iter().any(|k| k == kind));
    for log in fio_logs(&trace, &device, job).iter().filter(|log| !own(log)) {
        let file = place.join(&log.name);
        files::output::write(&file, log.text.as_bytes())?;
    }
    Ok(())
}

/// An option's value as part of a file's name: what it leads to is in the folder, whatever a study says.
fn name_part(value: &str) -> String {
    value.replace(|c: char| !c.is_ascii_alphanumeric() && !"-_:%".contains(c), "_")
}

/// The device that the load was on: as the trial noted it, or the only one of the trace, as a simulation's may be.
fn device(trial: &Trial, head: &TraceHead) -> Option<String> {
    let noted = trial.environment.get("device").cloned();
    let names = head.series.iter().filter_map(|s| s.name.strip_prefix("disk.")?.strip_suffix(".read_ios"));
    let names: Vec<&str> = names.collect();
    noted.or_else(|| if let [only] = names[..] { Some(only.to_owned()) } else { None })
}

/// The files of a folder; none where it is not there.
fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("cannot read the folder `{}`", folder.display()))?,
    };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// `x_bw.1.log` as `("bw", "1")`.
fn kind_of(name: &str) -> Option<(&str, &str)> {
    let (rest, number) = name.strip_suffix(".log")?.rsplit_once('.')?;
    let kind = rest.rsplit_once('_')?.1;
    (KINDS.contains(&kind) && number.parse::<u32>().is_ok()).then_some((kind, number))
}
