//! What to type next: each command with what it is for, and where it stands on a screen.

use crate::Report;
use crate::inventory::page::Page;
use crate::wording::{capitalised, names, quoted};
use analysis::summary::CellSummary;
use domain::finding::Finding;
use domain::study::Target;
use domain::trial::{Provenance, Run};

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

/// The command that leads on from a run, and a sentence that says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lead {
    pub why: String,
    pub step: Step,
}

/// Whether a finding of this run has a command of its own. What has none shows the run again, or explains a
/// cell of it, which every screen leads to; and a command that is to be filled in is none to copy.
pub(crate) fn leads_on(finding: &Finding, run: &str) -> bool {
    let next = &finding.next;
    let again =
        *next == format!("flyball show {run}") || next.starts_with(&format!("flyball explain {run} --cell"));
    !next.is_empty() && !again && !next.ends_with("COMMAND")
}

/// What a run leads on to: the same beside the load that spoilt it, else the remedy of what was found,
/// else what another finding asks for; of a model's run the same study in the lab, else the factor that the
/// verdict does not tell of. `None` where nothing does.
pub(crate) fn lead(report: &Report) -> Option<Lead> {
    let found = || report.findings.iter().filter(|finding| leads_on(finding, &report.data.run.id.0));
    let finding = found().find(|finding| finding.remedy.is_some()).or_else(|| found().next());
    let of_finding = finding.map(|finding| Lead {
        why: format!("{}.", capitalised(&finding.title, &names(report))),
        step: Step::new(TRY, finding.next.clone()),
    });
    let is_model = report.data.run.provenance == Provenance::Simulation;
    beside_load(report)
        .or(of_finding)
        .or_else(|| is_model.then(|| in_the_lab(report).or_else(|| other_factor(report))).flatten())
}

/// The same study in the lab, where it is about no simulated machine, replays no trace, and its target is one
/// that a guest has.
fn in_the_lab(report: &Report) -> Option<Lead> {
    let study = &report.data.study;
    let has_machines = study.factors.iter().flat_map(|factor| &factor.levels).any(|l| l.machine.is_some());
    let is_elsewhere = matches!(study.target, Target::ReadOnly(_) | Target::Folder { .. });
    let is_of_a_machine = study.sim.machine.as_deref().is_some_and(|machine| !machine.starts_with("lab"));
    let replays = study.workloads.iter().any(|workload| workload.options.contains_key("read_iolog"));
    if has_machines || is_elsewhere || is_of_a_machine || replays {
        return None;
    }
    let file = study_as_typed(&report.data.run)?;
    Some(Lead {
        why: "These figures are a model's; the lab measures the same study on a real kernel.".to_owned(),
        step: Step::new(IN_THE_LAB, format!("flyball lab run {}", quoted(file))),
    })
}

/// The study as the command that began a run names it: by its name, or by its file.
fn study_as_typed(run: &Run) -> Option<&String> {
    let is_study = |word: &&String| {
        let last = word.rsplit('/').next().unwrap_or(word);
        last.strip_suffix(".toml").is_some() || last == run.study
    };
    run.command.iter().skip(1).find(is_study)
}

/// The levels of the first factor that the verdict does not tell of.
fn other_factor(report: &Report) -> Option<Lead> {
    let told = analysis::answer::about(report.data, report.summary).map(|about| about.factor);
    let is_judged = |name: &str| report.summary.effects.iter().any(|effect| effect.factor == name);
    let names = report.data.study.factors.iter().map(|factor| factor.name.as_str());
    let other = names.filter(|name| is_judged(name)).find(|name| told != Some(*name))?;
    let command = format!("flyball compare {} --factor {}", report.data.run.id, quoted(other));
    Some(Lead {
        why: format!("The verdict is about one factor; this compares the levels of {other}."),
        step: Step::new("the next factor", command),
    })
}

/// What was typed, as a new run that counts trials beside other work.
pub fn under_load_command(typed: &[String]) -> String {
    let is_new = typed.iter().any(|word| word == "--new");
    let words = typed.iter().map(String::as_str).chain(["--under-load"]).chain((!is_new).then_some("--new"));
    std::iter::once("flyball".to_owned()).chain(words.map(quoted)).collect::<Vec<_>>().join(" ")
}

/// The same run beside the load of others, where nothing but that load kept a cell from counting.
fn beside_load(report: &Report) -> Option<Lead> {
    let run = &report.data.run;
    let is_lost = |cell: &CellSummary| {
        let mut trials = report.data.trials.iter().filter(|trial| trial.key.cell == cell.cell).peekable();
        trials.peek().is_some() && trials.all(|trial| trial.validity.is_disturbed_by_load())
    };
    let is_host = run.provenance == Provenance::Host && run.command.iter().any(|word| word == "run");
    (is_host && report.summary.cells.iter().any(is_lost)).then(|| Lead {
        why: "Other work disturbed all trials of a cell; beside it they count, and say so.".to_owned(),
        step: Step::new(
            "the same beside the machine's load",
            under_load_command(&without_notebook(&run.command)),
        ),
    })
}

/// What was typed, without the notebook: each step names the one that the run is in.
fn without_notebook(typed: &[String]) -> Vec<String> {
    let mut words = typed.iter();
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        if word == "--notebook" {
            words.next();
        } else if !word.starts_with("--notebook=") {
            kept.push(word.clone());
        }
    }
    kept
}

/// What leads on from a run, the reasons, all that was measured, and the page.
pub(crate) fn steps(report: &Report, program: &str) -> Vec<Step> {
    let run = &report.data.run.id;
    let lead = lead(report).map(|lead| Step::new(lead.step.what, typed(&lead.step.command, program)));
    // A run in the lab may take hours: the reasons, which are there at once, come before it.
    let (first, later) = lead.map_or((None, None), |lead| match lead.what {
        IN_THE_LAB => (None, Some(lead)),
        _ => (Some(lead), None),
    });
    let why = (!report.findings.is_empty()).then(|| Step::new(WHY, format!("{program} explain {run}")));
    [
        first,
        why,
        later,
        Some(Step::new(ALL, format!("{program} show --full {run}"))),
        Some(Step::new(PAGE, format!("{program} report {run}"))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The same, with a notebook that `program` names named once before them all.
pub(crate) fn steps_of_one_notebook(report: &Report, program: &str) -> Vec<Step> {
    let Some(folder) = program.strip_prefix("flyball --notebook ") else { return steps(report, program) };
    let notebook = Step::new("the notebook", format!("export FLYBALL_NOTEBOOK={folder}"));
    std::iter::once(notebook).chain(steps(report, "flyball")).collect()
}

pub(crate) const IN_THE_LAB: &str = "the same in the lab";
pub(crate) const TRY: &str = "what to try";
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
