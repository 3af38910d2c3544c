//! Whose CPU time a cell took, as reports show it.

use crate::Report;
use analysis::summary::CellSummary;
use domain::trace::Role;
use domain::units::significant;

/// The mean number of cores that each role kept busy; `None` where nothing was recorded.
pub(crate) fn cores_by_role(report: &Report, cell: &CellSummary) -> Option<Vec<(Role, f64)>> {
    analysis::facts::roles::cores_by_role(&report.data.trials, &cell.cell)
}

/// The roles that took a hundredth of a core or more: what is less decides nothing, and hides what does.
pub(crate) fn notable(roles: &[(Role, f64)]) -> impl Iterator<Item = &(Role, f64)> {
    roles.iter().filter(|(_, cores)| cores.is_finite() && *cores >= MIN_CORES)
}

const MIN_CORES: f64 = 0.01;

/// Cores to a hundredth; what is less is still not nothing.
pub(crate) fn shown(cores: f64) -> String {
    match cores {
        c if c > 0.0 && c < 0.005 => "< 0.01".to_owned(),
        c if c < 10.0 => format!("{c:.2}"),
        c => significant(c),
    }
}
