//! The studies that ship, as a list to choose from.

use crate::studies::{SHIPPED, ShippedStudy};
use crate::{Error, Result, preflight};
use domain::plan::Plan;
use domain::rng::Seed;
use domain::study::Study;
use parse::study::StudyErrors;
use serde_json::json;

/// The version of the JSON form.
const SCHEMA: u32 = 1;

/// A shipped study with what a reader chooses by.
pub struct Row {
    /// As a command line names it.
    pub name: &'static str,
    /// What it is.
    pub study: Study,
    /// The kinds of machine that can run it, as far as that is known without looking at this one.
    pub on: Vec<&'static str>,
}

/// All of them.
///
/// # Errors
/// Where one is wrong.
pub fn overview() -> Result<Vec<Row>> {
    SHIPPED.iter().map(row).collect()
}

fn row(shipped: &ShippedStudy) -> Result<Row> {
    let wrong =
        |error: StudyErrors| Error::Usage(format!("the shipped study `{}` is wrong: {error}", shipped.name));
    let study = parse::study::parse(shipped.text).map_err(wrong)?;
    let in_lab = parse::study::parse_for_lab(shipped.text).map_err(wrong)?;
    let (plan, in_lab) = (Plan::new(study, Seed(0))?, Plan::new(in_lab, Seed(0))?);
    Ok(Row { name: shipped.name, on: on(&plan, &in_lab), study: plan.study })
}

/// The kinds of machine that can run a study, as far as that is known without looking at this one.
fn on(plan: &Plan, in_lab: &Plan) -> Vec<&'static str> {
    let is_possible = |checked: Result<()>| !matches!(checked, Err(Error::Usage(_)));
    let host = is_possible(preflight::for_tools(plan)) && is_possible(preflight::on_a_host(&plan.study));
    let lab = is_possible(preflight::for_tools(in_lab)) && is_possible(preflight::in_the_lab(in_lab));
    let sim = plan.cells.iter().any(|cell| cell.machine.is_some());
    let all = [("host", host), ("lab", lab), ("sim", sim)];
    all.into_iter().filter(|(_, is_possible)| *is_possible).map(|(name, _)| name).collect()
}

/// The list as JSON.
pub fn as_json(rows: &[Row]) -> String {
    let row = |row: &Row| json!({ "name": row.name, "study": row.study.name, "question": row.study.question, "on": row.on });
    format!("{:#}", json!({ "schema": SCHEMA, "studies": rows.iter().map(row).collect::<Vec<_>>() }))
}
