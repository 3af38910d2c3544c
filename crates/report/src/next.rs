//! What to type next: each command with what it is for, and where it stands on a screen.

use crate::Report;
use crate::inventory::page::Page;

/// A command to type next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// What it is for, in a few words.
    pub what: &'static str,
    /// The command.
    pub command: String,
}

impl Step {
    pub(crate) fn new(what: &'static str, command: String) -> Self {
        Self { what, command }
    }
}

/// A command of a finding as it is typed where `program` finds its run.
pub(crate) fn typed(command: &str, program: &str) -> String {
    match command.strip_prefix("flyball ") {
        Some(rest) => format!("{program} {rest}"),
        None => command.to_owned(),
    }
}

/// The command that follows from what was found, the reasons, all that was measured, and the page.
pub(crate) fn steps(report: &Report, program: &str) -> Vec<Step> {
    let run = &report.data.run.id;
    // What has no command of its own shows the run again, which the screen does.
    let leads_on = |next: &str| !next.is_empty() && next != format!("flyball show {run}");
    let remedy = report.findings.iter().find(|finding| finding.remedy.is_some() && leads_on(&finding.next));
    let why = (!report.findings.is_empty()).then(|| Step::new(WHY, format!("{program} explain {run}")));
    [
        remedy.map(|finding| Step::new(REMEDY, typed(&finding.next, program))),
        why,
        Some(Step::new(ALL, format!("{program} show --full {run}"))),
        Some(Step::new(PAGE, format!("{program} report {run}"))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

pub(crate) const REMEDY: &str = "what to try";
pub(crate) const WHY: &str = "why";
pub(crate) const ALL: &str = "all of it";
pub(crate) const PAGE: &str = "a page";

/// The section of a screen that names them: what they are for on one line, each command below it.
pub(crate) fn section(steps: &[Step], page: &mut Page) {
    let what: Vec<&str> = steps.iter().map(|step| step.what).collect();
    page.section("Next");
    page.line(what.join("; "));
    steps.iter().for_each(|step| page.command(&step.command));
}
