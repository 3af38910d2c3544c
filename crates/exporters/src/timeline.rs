//! A trace with its events as a page that one zooms into, for a browser. The crate `timeline` draws it; here
//! it gets the samples and the events.

use crate::counters::{self, Counter};
use crate::{Content, Error, Exporter, Result, Sink, StoredTrace, Writer};
use analysis::facts::rates::Step;
use domain::inventory::Cpufreq;
use domain::time::Nanos;
use domain::windows::{Boundary, GovernorWindows, Untold};
use events::Tables;
use serde_json::Value;
use timeline::About;

/// A trace as a timeline.
pub(crate) struct Timeline;

impl Exporter for Timeline {
    fn name(&self) -> &'static str {
        "timeline"
    }

    fn about(&self) -> &'static str {
        "A trace with its events as a page to zoom into, for a browser"
    }

    fn writers(&self) -> &'static [Writer] {
        &[Writer::Trace(write)]
    }

    fn content(&self) -> Content {
        // A page, most of which is packed: nothing for a terminal.
        Content::Binary
    }
}

fn write(trace: &mut StoredTrace<'_>, out: &mut dyn Sink) -> Result<()> {
    trace.warn_of_dilation(out)?;
    let trial = trace.key.folder();
    let damaged =
        |error: events::Error| Error::Unsuitable(format!("cannot draw the events of `{trial}`: {error}"));
    let tables = trace.events()?.map(Tables::read).transpose().map_err(damaged)?;
    let origin = tables.as_ref().map_or(Nanos::ZERO, |tables| tables.head.origin);
    let mut timeline = timeline::Timeline::new(origin);
    let measured = trace.trial()?.measurement;
    if let Some(tables) = &tables {
        let windows = measured.as_ref().and_then(|measured| measured.windows.as_ref());
        draw_windows(&mut timeline, windows, cpufreq(trace)?.as_ref(), tables);
    }
    match (&tables, trace.events()?) {
        (Some(tables), Some(events)) => drop(timeline.events(events, tables).map_err(damaged)?),
        _ => timeline.note("no events were recorded: `flyball record --events` does"),
    }
    for phase in measured.iter().flat_map(|measured| &measured.phases) {
        timeline.phase(phase.shown_name(), phase.begin, phase.end);
    }
    counters::each(&mut trace.rows, &mut |counter| {
        let Counter { group, name, unit, steps } = counter;
        timeline.sampled(group, name, unit, steps_of(&steps));
        Ok(())
    })?;
    let run = trace.run()?;
    let kernel = tables.as_ref().map(|tables| tables.head.kernel.as_str()).filter(|name| !name.is_empty());
    let kernel = kernel.map(|name| format!(", Linux {name}")).unwrap_or_default();
    let line = format!("{}{kernel}", run.command.join(" "));
    let title = format!("{} {trial}", run.id);
    Ok(timeline::write(timeline, About { title: &title, line: &line }, out)?)
}

/// What is to be said of windows where a governor saw more than is drawn.
const COUNTS_WAITING: &str = "waits for I/O raise the load that the governor goes by (io_is_busy, or the boost of intel_pstate): it saw more than what is drawn";

/// What is to be said of windows between requests.
const REQUESTS: &str = "schedutil's windows lie between two of its requests for a frequency; the utilisation by which it decides (PELT) is in no event";

/// What the machine's frequency policies were when the recording began; `None` where nothing is known of
/// them: of what was imported, and of what another version wrote.
fn cpufreq(trace: &StoredTrace<'_>) -> Result<Option<Cpufreq>> {
    let text = trace.notebook.machine_json(trace.run)?;
    let cpufreq =
        serde_json::from_str::<Value>(&text).ok().and_then(|mut all| Some(all.get_mut("cpufreq")?.take()));
    Ok(cpufreq.and_then(|cpufreq| serde_json::from_value(cpufreq).ok()))
}

/// Draws the windows of the governor that the trial had, or else of that which the machine had when its run
/// began: a study may have changed it since.
fn draw_windows(
    timeline: &mut timeline::Timeline,
    of_trial: Option<&GovernorWindows>,
    cpufreq: Option<&Cpufreq>,
    tables: &Tables,
) {
    let of_machine = cpufreq.map(|cpufreq| GovernorWindows::governor(&tables.policies, cpufreq));
    let governor = match (of_trial, of_machine) {
        // Trials of earlier versions do not tell decisions of intel_pstate from samples.
        (Some(windows), Some(Ok(GovernorWindows { boundary: boundary @ Boundary::Decision, .. }))) => {
            Ok(GovernorWindows { boundary, ..windows.clone() })
        }
        (Some(windows), _) => Ok(windows.clone()),
        (None, Some(of_machine)) => of_machine,
        (None, None) => return,
    };
    match governor {
        Ok(governor) => {
            timeline.windows_of(&governor);
            if governor.counts_waiting {
                timeline.note(COUNTS_WAITING);
            }
            if governor.boundary == Boundary::Request {
                timeline.note(REQUESTS);
            }
        }
        Err(Untold::PoliciesUnknown) => timeline.note(
            "the governor's windows are not drawn: it decides for several CPUs at once, and which was not recorded",
        ),
        Err(Untold::AsksForPerformance) => timeline.note(
            "the governor's windows are not drawn: schedutil asks this driver for performance, and for no frequency that an event tells",
        ),
    }
}

/// Each value until the next; where samples are missing between two, none.
fn steps_of(steps: &[Step]) -> impl Iterator<Item = timeline::Step> + '_ {
    let next = steps.iter().skip(1).map(|step| Some(step.from)).chain([None]);
    steps.iter().zip(next).flat_map(|(step, next)| {
        let value = timeline::Step { at: step.from, value: Some(step.value) };
        // A gauge has no end of its own.
        let ends = step.to > step.from && next.is_none_or(|next| next > step.to);
        let gap = ends.then_some(timeline::Step { at: step.to, value: None });
        [Some(value), gap].into_iter().flatten()
    })
}
