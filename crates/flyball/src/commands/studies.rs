//! `flyball list --studies`: the studies that ship with the program.

use crate::exit::End;
use anyhow::Result;
use command_line::Global;
use report::Columns;
use session::overview::{as_json, overview};

/// Lists the studies that ship with the program.
pub fn list(global: &Global) -> Result<End> {
    let rows = overview()?;
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
