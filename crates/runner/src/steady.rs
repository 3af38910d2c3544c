//! What SNIA's Performance Test Specification does to a drive before it measures: all of it written twice,
//! then rounds of the workload until they are steady ([`workloads::fio::steady_state`]). Its purge, which
//! sets a drive back, is not done: it erases more than ours.
//!
//! Each step's report is kept in the trial's folder: `precondition.json`, `round-01.json` and so on.

use crate::beside::Beside;
use crate::child::{self, Ended, How, Task};
use crate::tools::{self, Job};
use crate::{Error, host::HostBench};
use domain::time::Nanos;
use domain::trial::Disturbance;
use domain::units::significant;
use std::fmt::Write;
use workloads::fio;
use workloads::fio::steady_state::{Conditioning, MAX_ROUNDS, Window};

/// How long writing all of a target twice may take: 20 TB at 200 MB/s.
const PRECONDITION: Nanos = Nanos::from_secs(100_000);

/// What a round may take beyond its time: fio ends it when what is in flight is done.
const GRACE: Nanos = Nanos::from_secs(60);

/// Does it, and says where steady state was not reached.
///
/// # Errors
/// [`Error::Tool`] where fio fails; [`Error::Interrupted`].
pub(crate) fn reach(
    bench: &HostBench<'_>,
    job: &Job<'_>,
    beside: &Beside,
    asked: &Conditioning,
) -> Result<Option<Disturbance>, Error> {
    if asked.precondition {
        run(bench, job, beside, "precondition", fio::precondition(job)?, PRECONDITION)?;
    }
    let Some((metric, round)) = &asked.steady_state else { return Ok(None) };
    let (mut values, mut text) = (Vec::new(), String::new());
    let found = loop {
        let name = fio::round_name(values.len());
        let argv = fio::round(job, values.len(), *round)?;
        run(bench, job, beside, &name, argv, *round + GRACE)?;
        let outcome = tools::report(job, "", &[&format!("{name}.json")])?;
        let value = outcome.metrics.get(metric).map(|metric| metric.value);
        let value = value.ok_or_else(|| {
            Error::Tool(format!("workload `{}`: a round has no `{metric}`", job.workload.name))
        })?;
        values.push(value);
        let window = Window::of(&values);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "round {} {metric} {value} {}", values.len(), shown(window));
        if window.is_some_and(|window| window.is_steady()) || values.len() >= MAX_ROUNDS {
            break window;
        }
    };
    let path = job.raw.join("steady-state.txt");
    std::fs::write(&path, text).map_err(|e| Error::file("write", &path, e))?;
    Ok(match found {
        Some(window) if window.is_steady() => None,
        other => Some(Disturbance {
            kind: "not-steady".into(),
            detail: format!(
                "`{metric}` was not steady after {MAX_ROUNDS} rounds of {round}: {}",
                shown(other)
            ),
        }),
    })
}

fn shown(window: Option<Window>) -> String {
    window.map_or_else(String::new, |Window { average, excursion, slope }| {
        let average = significant(average);
        format!("average {average} excursion {:.1}% slope {:.1}%", excursion * 100.0, slope * 100.0)
    })
}

fn run(
    bench: &HostBench<'_>,
    job: &Job<'_>,
    beside: &Beside,
    name: &str,
    argv: Vec<String>,
    timeout: Nanos,
) -> Result<(), Error> {
    let at = |what: &str| job.raw.join(format!("{name}.{what}.txt"));
    let task = Task {
        argv: &argv,
        folder: Some(job.raw),
        stdout: at("out"),
        stderr: at("err"),
        descriptors: bench.descriptors,
        environment: &[],
        interval: bench.interval,
        timeout,
        interrupt: bench.interrupt,
        beside,
        only_reads: bench.target.and_then(crate::Target::to_be_read),
        marks: None,
    };
    let Ended { how, .. } = child::run(&task, &mut |_| {})?;
    match how {
        How::Exited(0) => Ok(()),
        How::Interrupted => Err(Error::Interrupted),
        other => {
            let said = [at("err"), job.raw.join(format!("{name}.json"))]
                .iter()
                .find_map(|path| tools::complaint(path));
            let said = said.unwrap_or_else(|| "nothing".into());
            Err(Error::Tool(format!(
                "workload `{}`: its {name} did not end well ({other:?}); fio said: {said}",
                job.workload.name
            )))
        }
    }
}
