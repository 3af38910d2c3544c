//! Whose CPU time a cell took: the sums of what its valid trials recorded.

use domain::ids::CellId;
use domain::time::Nanos;
use domain::trace::Role;
use domain::trial::Trial;
use std::collections::BTreeMap;

/// The mean number of cores that each role kept busy over the valid trials of a cell, in the order of
/// [`Role::ALL`]. `None` where no valid trial recorded any, or none took time.
pub fn cores_by_role(trials: &[Trial], cell: &CellId) -> Option<Vec<(Role, f64)>> {
    let mine = |t: &&Trial| t.key.cell == *cell && t.validity.is_valid();
    let measured = trials.iter().filter(mine).filter_map(|t| t.measurement.as_ref());
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
