//! `flyball list --studies`: the studies that ship with the program.

use crate::exit::End;
use anyhow::{Result, anyhow};
use command_line::Global;
use domain::plan::Plan;
use domain::rng::Seed;
use domain::study::Study;
use parse::study::StudyErrors;
use report::Columns;
use serde_json::json;
use session::studies::{SHIPPED, ShippedStudy};
use session::{Error, preflight};

/// The version of the JSON form.
const SCHEMA: u32 = 1;

/// A shipped study with what a reader chooses by.
struct Row {
    name: &'static str,
    study: Study,
    on: Vec<&'static str>,
}

/// Lists the studies that ship with the program.
pub fn list(global: &Global) -> Result<End> {
    let rows: Vec<Row> = SHIPPED.iter().map(row).collect::<Result<_>>()?;
    if global.json {
        terminal::json(&as_json(&rows))?;
        return Ok(End::Done);
    }
    let mut table = Columns::new(&["STUDY", "ON", "QUESTION"]);
    for row in &rows {
        table.row([row.name.to_owned(), row.on.join(","), row.study.question.clone()]);
    }
    terminal::lines(&table.lines(terminal::width()))?;
    terminal::say(
        "host: `flyball run STUDY`; lab: `flyball lab run STUDY`; sim: `flyball run STUDY --on sim`",
    );
    terminal::say(
        "--dry-run shows what a study does; `flyball new --from STUDY` writes it to a file to edit",
    );
    Ok(End::Done)
}

fn row(shipped: &ShippedStudy) -> Result<Row> {
    let wrong = |error: StudyErrors| anyhow!("the shipped study `{}` is wrong: {error}", shipped.name);
    let study = parse::study::parse(shipped.text).map_err(wrong)?;
    let in_lab = parse::study::parse_for_lab(shipped.text).map_err(wrong)?;
    let (plan, in_lab) = (Plan::new(study, Seed(0))?, Plan::new(in_lab, Seed(0))?);
    Ok(Row { name: shipped.name, on: on(&plan, &in_lab), study: plan.study })
}

/// The kinds of machine that can run a study, as far as that is known without looking at this one.
fn on(plan: &Plan, in_lab: &Plan) -> Vec<&'static str> {
    let is_possible = |checked: session::Result<()>| !matches!(checked, Err(Error::Usage(_)));
    let host = is_possible(preflight::for_tools(plan)) && is_possible(preflight::on_a_host(&plan.study));
    let lab = is_possible(preflight::for_tools(in_lab)) && is_possible(preflight::in_the_lab(in_lab));
    let sim = plan.cells.iter().any(|cell| cell.machine.is_some());
    let all = [("host", host), ("lab", lab), ("sim", sim)];
    all.into_iter().filter(|(_, is_possible)| *is_possible).map(|(name, _)| name).collect()
}

fn as_json(rows: &[Row]) -> String {
    let row = |row: &Row| json!({ "name": row.name, "study": row.study.name, "question": row.study.question, "on": row.on });
    format!("{:#}", json!({ "schema": SCHEMA, "studies": rows.iter().map(row).collect::<Vec<_>>() }))
}
