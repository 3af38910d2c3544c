//! Whose CPU time a cell took: the sums of what its valid trials recorded.

use crate::Report;
use analysis::summary::CellSummary;
use domain::time::Nanos;
use domain::trace::Role;
use domain::trial::Trial;
use domain::units::significant;
use std::collections::BTreeMap;

/// The mean number of cores that each role kept busy over the valid trials of a cell, in the order of
/// [`Role::ALL`]. `None` where no valid trial recorded any, or none took time.
pub(crate) fn cores_by_role(report: &Report, cell: &CellSummary) -> Option<Vec<(Role, f64)>> {
    let mine = |t: &&Trial| t.key.cell == cell.cell && t.validity.is_valid();
    let measured = report.data.trials.iter().filter(mine).filter_map(|t| t.measurement.as_ref());
    let mut span = Nanos::ZERO;
    let mut sums: BTreeMap<Role, Nanos> = BTreeMap::new();
    for m in measured.filter(|m| !m.roles.is_empty()) {
        span = span + m.duration;
        for (role, cpu) in &m.roles {
            let sum = sums.entry(*role).or_default();
            *sum = *sum + *cpu;
        }
    }
    let known = span > Nanos::ZERO;
    known.then(|| sums.into_iter().map(|(role, cpu)| (role, cpu.secs() / span.secs())).collect())
}

/// The roles that took a hundredth of a core or more: what is less decides nothing, and hides what does.
pub(crate) fn notable(roles: &[(Role, f64)]) -> impl Iterator<Item = &(Role, f64)> {
    roles.iter().filter(|(_, cores)| cores.is_finite() && *cores >= LEAST_CORES)
}

const LEAST_CORES: f64 = 0.01;

/// Cores to a hundredth; what is less is still not nothing.
pub(crate) fn shown(cores: f64) -> String {
    match cores {
        c if c > 0.0 && c < 0.005 => "< 0.01".to_owned(),
        c if c < 10.0 => format!("{c:.2}"),
        c => significant(c),
    }
}
