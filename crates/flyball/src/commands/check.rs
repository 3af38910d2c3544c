//! `flyball check`: what this machine is, what it gives, what holds it back.

use crate::commands::run::end;
use crate::commands::run::on_this_machine;
use crate::exit::{End, Usage};
use crate::interrupt::Interrupt;
use crate::shown::{self, Length};
use crate::{places, typed};
use anyhow::Result;
use command_line::{Check, Global};
use machine::LocalMachine;
use report::Checked;
use report::inventory::{Style, text_within};
use results::Results;
use session::{Begin, Request};
use std::path::Path;
use std::time::Duration;

/// A check takes at most 90 s, whatever has to be repeated: what is left is for making the file and for the
/// last trial.
const LIMIT: Duration = Duration::from_secs(72);

/// Measures on a file in the given folder, and writes the page there.
pub fn check(global: &Global, arguments: &Check) -> Result<End> {
    let folder = places::absolute(&arguments.dir)?;
    let inventory = machine::inventory::take(&LocalMachine)?;
    if arguments.full && !global.json {
        terminal::document(&text_within(&inventory, Style::Brief, terminal::width()))?;
    }
    let text = session::check::study(&inventory, places::is_root());
    let study = parse::study::parse(&text)
        .map_err(|e| Usage(format!("the study of `flyball check` is wrong:\n{e}")))?;
    files::output::make_folder(&folder)?;
    let notebook = places::absolute(&places::notebook(global)?)?;
    let interrupt = Interrupt::catch()?;
    let request = Request {
        study: &study,
        text: &text,
        home: None,
        notebook: &notebook,
        seed: arguments.seed,
        begin: Begin::Anew,
        limit: Some(LIMIT),
        command: typed(),
        interrupt: interrupt.flag(),
    };
    let measured = on_this_machine(&request, folder.join("work"), None)?;
    let results = shown::load(&measured.notebook, &measured.run, None)?.with_traces(&measured.notebook);
    let page = folder.join("report.html");
    files::output::write(&page, report::html(&results.report()).as_bytes())?;
    show(global, arguments, &results, &page)?;
    Ok(end(&measured, &results))
}

/// Prints one screen, or all of it.
fn show(global: &Global, arguments: &Check, results: &Results, page: &Path) -> Result<()> {
    let (program, place) = (places::this_program(global), page.display().to_string());
    let report = results.report();
    let known = results.machine().map(|inventory| Checked {
        report: &report,
        inventory,
        page: &place,
        program: &program,
    });
    let Some(checked) = known.filter(|_| !global.json && !arguments.full) else {
        shown::print(global, results, Length::Full)?;
        let sources = known.iter().flat_map(report::usual_sources).filter(|_| !global.json);
        let sources: Vec<String> = sources.map(|source| format!("   {source}")).collect();
        if !sources.is_empty() {
            terminal::document(&format!("\nWhat is usual for such a device\n{}", sources.join("\n")))?;
        }
        terminal::say("");
        terminal::say(format_args!("The same again: `{program} show {}`", results.data.run.id));
        terminal::say(format_args!("The report: {place}"));
        return Ok(());
    };
    Ok(terminal::screen(&report::checked_text(&checked, terminal::screen_width()))?)
}
