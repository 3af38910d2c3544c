//! The remedy of a finding, for whoever tries it.

use crate::{Error, Result, Results};
use domain::plan::{Cell, Plan};
use domain::rng::Seed;
use domain::setting::SettingRequest;
use domain::trial::Provenance;

/// A remedy that is one of settings.
pub struct Remedy<'a> {
    /// The settings to write.
    pub settings: &'a [SettingRequest],
    /// The cell to measure them in, as the run did; `None` where the finding compares no trials of this
    /// machine.
    pub cell: Option<Cell>,
}

/// The remedy of the finding with this number, counted from 1, as `explain` shows them.
///
/// # Errors
/// Where there is no such finding, or its remedy is nothing that can be written.
pub fn remedy(results: &Results, number: usize) -> Result<Remedy<'_>> {
    let (run, count) = (&results.data.run.id, results.findings.len());
    let found = number.checked_sub(1).and_then(|at| results.findings.get(at)).ok_or_else(|| {
        let has = match count {
            0 => "no finding".to_owned(),
            1 => "one finding, number 1".to_owned(),
            _ => format!("findings 1 to {count}"),
        };
        Error::Finding(format!(
            "`{run}` has {has}, and none of number {number}; `flyball explain {run}` shows all"
        ))
    })?;
    let settings = found.remedy.as_ref().map_or(&[][..], |remedy| &remedy.settings);
    if settings.is_empty() {
        return Err(Error::Finding(format!(
            "the remedy of finding {number} is no setting that can be written; `flyball explain {run}` says what it is"
        )));
    }
    let compared = found.compared.first().filter(|_| results.data.run.provenance == Provenance::Host);
    let cell = compared.and_then(|(before, _)| {
        let plan = Plan::new(results.data.study.clone(), Seed(0)).ok()?;
        plan.cells.into_iter().find(|cell| cell.id == *before)
    });
    Ok(Remedy { settings, cell })
}
