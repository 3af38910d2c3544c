//! `flyball sim`: what is done with simulated machines beside running studies on them.

use crate::exit::{End, Usage};
use crate::study::{ReadStudy, read_study};
use crate::{places, shown};
use analysis::fidelity;
use analysis::summary::RunData;
use anyhow::Result;
use command_line::{Fidelity, Global, Sim};
use domain::plan::Plan;
use domain::rng::Seed;
use domain::trial::Provenance;
use notebook::Notebook;
use report::Columns;
use serde_json::{Value, json};
use session::simulation;
use std::path::Path;

/// The version of the JSON form.
const SCHEMA: u32 = 1;

pub fn dispatch(global: &Global, command: &Sim) -> Result<End> {
    match command {
        Sim::Machines { study: None } => list(global),
        Sim::Machines { study: Some(study) } => list_for(global, study),
        Sim::Fidelity(arguments) => judge(global, arguments),
        Sim::Calibrate(arguments) => super::calibrate::calibrate(global, arguments),
    }
}

/// The machines that ship with the program.
fn list(global: &Global) -> Result<End> {
    let mut machines = Vec::new();
    let mut table = Columns::new(&["MACHINE", "DRIVER", "DISKS", "ABOUT"]);
    for (name, _) in simulation::SHIPPED {
        let spec = simulation::load(name, Path::new("/"))?.spec;
        let (driver, disks) = (spec.cpu.driver.name(), simulation::disk_count(&spec));
        machines.push(json!({ "name": spec.name, "about": spec.about, "driver": driver, "disks": disks }));
        table.row([spec.name, driver.to_owned(), disks.to_string(), spec.about]);
    }
    print(global, &machines, &table)
}

/// The same beside a study: those that fit it first, and why the others do not.
fn list_for(global: &Global, study: &Path) -> Result<End> {
    let ReadStudy { study, source } = read_study(study)?;
    let mut machines = Vec::new();
    let mut table = Columns::new(&["MACHINE", "FITS", "WHY NOT, OR WHAT IT IS"]);
    for fit in simulation::fitting(&Plan::new(study, Seed(0))?, &source.folder()?) {
        machines.push(json!({ "name": fit.name, "about": fit.about, "against": fit.against }));
        let fits = if fit.against.is_none() { "yes" } else { "no" };
        table.row([fit.name.to_owned(), fits.to_owned(), fit.against.unwrap_or(fit.about)]);
    }
    print(global, &machines, &table)
}

fn print(global: &Global, machines: &[Value], table: &Columns) -> Result<End> {
    if global.json {
        terminal::json(&format!("{:#}\n", json!({ "schema": SCHEMA, "machines": machines })))?;
    } else {
        terminal::lines(&table.lines(terminal::width()))?;
    }
    Ok(End::Done)
}

/// How well a model agrees with what was measured.
fn judge(global: &Global, arguments: &Fidelity) -> Result<End> {
    let notebook = Notebook::open(&places::notebook(global)?)?;
    let load = |names: &[String]| -> Result<Vec<RunData>> {
        names.iter().map(|name| shown::data(&notebook, &notebook.find(name)?)).collect()
    };
    let (measured, modelled) = (load(&arguments.measured)?, load(&arguments.modelled)?);
    for (runs, is_model) in [(&measured, false), (&modelled, true)] {
        if let Some(odd) = runs.iter().find(|run| (run.run.provenance == Provenance::Simulation) != is_model)
        {
            let what = odd.run.provenance.name();
            return Err(Usage(format!(
                "the run `{}` is of the {what}; give measured runs, and simulated ones with --model",
                odd.run.id
            ))
            .into());
        }
    }
    let metric = arguments.metric.clone().unwrap_or_else(|| measured[0].study.measure.metric.clone());
    let states = |runs: &[RunData]| results::states_by_cell(&notebook, runs, terminal::warn);
    let found =
        fidelity::fidelity(&measured, &modelled, &metric).with_states(&states(&measured), &states(&modelled));
    if global.json {
        terminal::json(&report::fidelity_json(&found, &metric))?;
    } else {
        terminal::lines(&report::fidelity_text(&found, &metric))?;
    }
    Ok(End::Done)
}
