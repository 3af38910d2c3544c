//! `flyball tune FINDING` and `flyball tune …` with a load: a change is measured before it is kept.

use super::run::{end, on_this_machine, show_plan};
use super::tune::{keep, plan};
use crate::exit::End;
use crate::interrupt::Interrupt;
use crate::shown::{self, Length};
use crate::study::parsed_text;
use crate::{places, typed};
use analysis::summary::Verdict;
use anyhow::{Context, Result, anyhow};
use command_line::{Global, Tune};
use domain::rng::Seed;
use domain::setting::SettingRequest;
use domain::study::Study;
use machine::lasting::Written;
use notebook::Notebook;
use report::{MeasuredOn, not_kept};
use results::{Replayable, Results};
use session::dry_run::DryRun;
use session::tuning::{
    Changes, Decides, Load, SEARCH, STUDY, combinations, finding_of, found, study_of_cell, study_of_load,
    study_of_search,
};
use session::{Begin, Request};

/// Measures the remedy of a finding, by the command if there is one, else as the finding's run measured.
pub fn finding(global: &Global, arguments: &Tune, named: &str) -> Result<End> {
    let (run, number) = finding_of(named)?;
    let notebook = Notebook::open(&places::notebook(global)?)?;
    let id = notebook.find(run)?;
    if arguments.search {
        return search(global, arguments, &Replayable::open(&notebook, &id, terminal::warn)?.promising()?);
    }
    let results = shown::load(&notebook, &id, None)?;
    let remedy = results::remedy(&results, number)?;
    let named_load = load_of(arguments);
    if !named_load.is_none() {
        return load(global, arguments, remedy.settings);
    }
    let cell = remedy.cell.with_context(|| {
        format!("`{named}` compares no trials of this machine; say what the change is for: `flyball tune {named} -- COMMAND`, or `--pid N`")
    })?;
    let changes = Changes::One(remedy.settings);
    let text = study_of_cell(changes, &results.data.run.study_text, &cell, named_load.decides.as_ref());
    let text = text.map_err(|why| anyhow!("cannot measure `{named}` as `{run}` did: {why}"))?;
    measured(global, arguments, remedy.settings, &text)
}

/// Measures a change by the command, or on the load that runs already.
pub fn load(global: &Global, arguments: &Tune, settings: &[SettingRequest]) -> Result<End> {
    measured(global, arguments, settings, &study_of_load(Changes::One(settings), &load_of(arguments))?)
}

/// Looks for the best combination of the values that are listed.
pub fn search_listed(global: &Global, arguments: &Tune) -> Result<End> {
    search(global, arguments, &combinations(&arguments.set, Seed(arguments.seed.unwrap_or_default()))?)
}

/// Looks for the best of these changes, and measures it as any other change, by trials of its own.
fn search(global: &Global, arguments: &Tune, all: &[Vec<SettingRequest>]) -> Result<End> {
    let text = study_of_search(all, &load_of(arguments))?;
    let study = parsed_text(&text, SEARCH)?;
    if arguments.dry_run {
        return dry_run(global, arguments, study);
    }
    let (results, ended) = trials(global, arguments, &study, &text)?;
    if matches!(ended, End::Interrupted | End::LeftAlone) {
        return Ok(ended);
    }
    let (settings, said) = found(&results.data, &results.summary);
    if !global.json || settings.is_empty() {
        shown::print(global, &results, Length::Screen)?;
    }
    terminal::say(said);
    if settings.is_empty() { Ok(ended) } else { load(global, arguments, settings) }
}

/// What a change is measured on.
pub fn load_of(arguments: &Tune) -> Load {
    let decides = Decides::named(arguments.metric.as_deref(), arguments.goal.as_deref());
    Load { command: arguments.command.clone(), running: arguments.running(), decides }
}

/// Measures a change by this study, and keeps it where that is asked for and it is better.
fn measured(global: &Global, arguments: &Tune, settings: &[SettingRequest], text: &str) -> Result<End> {
    let study = parsed_text(text, STUDY)?;
    if arguments.persist {
        // What could not be kept is not measured first.
        plan(arguments, settings)?;
    }
    if arguments.dry_run {
        return dry_run(global, arguments, study);
    }
    let (results, ended) = trials(global, arguments, &study, text)?;
    shown::print(global, &results, Length::Screen)?;
    conclude(global, arguments, settings, &results, ended)
}

fn dry_run(global: &Global, arguments: &Tune, study: Study) -> Result<End> {
    let work = places::absolute(&places::notebook(global)?)?.join("work");
    show_plan(global, &DryRun::on_a_host(study, arguments.seed, &work)?)
}

/// Makes the trials of a study on this machine.
fn trials(global: &Global, arguments: &Tune, study: &Study, text: &str) -> Result<(Results, End)> {
    let notebook = places::absolute(&places::notebook(global)?)?;
    let interrupt = Interrupt::catch()?;
    let request = Request {
        study,
        text,
        home: None,
        notebook: &notebook,
        seed: arguments.seed,
        begin: Begin::Anew,
        limit: None,
        command: typed(),
        interrupt: interrupt.flag(),
    };
    let measured = on_this_machine(&request, notebook.join("work"), None)?;
    let results = shown::load(&measured.notebook, &measured.run, None)?;
    let ended = end(&measured, &results);
    Ok((results, ended))
}

/// Keeps what is better, where that is asked for, and says what became of it.
fn conclude(
    global: &Global,
    arguments: &Tune,
    settings: &[SettingRequest],
    results: &Results,
    ended: End,
) -> Result<End> {
    let compared = results.summary.effects.iter().flat_map(|effect| &effect.comparisons).next();
    let is_better = compared.is_some_and(|comparison| comparison.verdict == Verdict::Better);
    if is_better && arguments.persist && ended == End::Done {
        let kept = keep(arguments, settings)?;
        terminal::say("better, so it is kept; `flyball tune --undo` takes it back");
        if !global.json {
            terminal::lines(&kept.as_text(Written::Yes))?;
        }
        kept.notes.iter().for_each(terminal::note);
        return Ok(ended);
    }
    let obstacle = plan(arguments, settings).err().map(|error| error.to_string());
    let on = if arguments.running().is_empty() { MeasuredOn::Anew } else { MeasuredOn::Running };
    terminal::say(not_kept(compared, settings, on, obstacle.as_deref(), &places::this_program(global)));
    Ok(ended)
}
