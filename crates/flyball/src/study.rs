//! A study as the commands that take one name it.

use crate::exit::Faults;
use anyhow::Result;
use domain::Study;
use domain::trial::is_of_the_lab;
use parse::study::StudyErrors;
use session::preflight;
use session::studies::StudySource;
use std::path::Path;

/// A study: what it means, and its text.
pub struct ReadStudy {
    pub study: Study,
    pub source: StudySource,
}

/// Reads a study: a file, or one that ships with the program.
pub fn read_study(named: &Path) -> Result<ReadStudy> {
    let source = source(named)?;
    Ok(ReadStudy { study: parsed(&source)?, source })
}

/// What a study's text means.
pub fn parsed(source: &StudySource) -> Result<Study> {
    understood(parse::study::parse(&source.text), &source.shown)
}

/// What a study's text means that this program wrote itself.
pub fn parsed_text(text: &str, name: &str) -> Result<Study> {
    understood(parse::study::parse(text), name)
}

/// Reads a study as the machine has it that is simulated, the study's own or this one: the lab's own machine
/// does what the lab does.
pub fn read_study_on(named: &Path, machine: Option<&str>) -> Result<ReadStudy> {
    let read = read_study(named)?;
    let machine = machine.or(read.study.sim.machine.as_deref());
    if machine.is_some_and(is_of_the_lab) { read_study_for_lab(named) } else { Ok(read) }
}

/// Reads a study as the lab has it.
pub fn read_study_for_lab(named: &Path) -> Result<ReadStudy> {
    let source = source(named)?;
    Ok(ReadStudy { study: parse_study_for_lab(&source.text, &source.shown)?, source })
}

/// What a study's text means in the lab; `shown` is the file's name in messages.
pub fn parse_study_for_lab(text: &str, shown: &str) -> Result<Study> {
    understood(parse::study::parse_for_lab(text), shown)
}

fn source(named: &Path) -> Result<StudySource> {
    let source = StudySource::find(named)?;
    if source.hides_a_shipped_one() {
        terminal::note(format_args!(
            "`{}` is the file of that name here, and not the study that ships with flyball",
            source.shown
        ));
    }
    Ok(source)
}

fn understood(parsed: Result<Study, StudyErrors>, shown: &str) -> Result<Study> {
    parsed.map_err(|errors| {
        let what = format!("the study `{shown}` is wrong; nothing was run");
        Faults { what, faults: errors.with_settings(preflight::no_such_setting).show(shown) }.into()
    })
}
