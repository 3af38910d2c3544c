//! `flyball sim calibrate STUDY`: the unknown figures of a study's machines, fitted to what was published of
//! some of its cells, and judged by the others.

use crate::exit::End;
use crate::study::{ReadStudy, read_study_on};
use anyhow::Result;
use command_line::{Calibrate, Global};
use domain::plan::Plan;
use domain::rng::Seed;
use session::simulation::{Machines, calibrate as fit};

/// Fits, and shows what came of it.
pub fn calibrate(global: &Global, arguments: &Calibrate) -> Result<End> {
    let ReadStudy { study, source } = read_study_on(&arguments.study, arguments.machine.as_deref())?;
    let plan = Plan::new(study, Seed(0))?;
    let machines = Machines::of(&plan, arguments.machine.as_deref(), &source.folder()?)?;
    let fitted = fit(&plan, &machines, &arguments.hold_out, Seed(arguments.seed), arguments.budget)?;
    if global.json {
        terminal::json(&fitted.as_json())?;
    } else {
        terminal::lines(&fitted.as_text())?;
    }
    Ok(End::Done)
}
