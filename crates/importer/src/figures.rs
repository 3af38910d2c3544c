//! What the rows of a trace say where no tool reports anything: the figures that a recording has.

use crate::Read;
use crate::error::{Importing, Result};
use analysis::recorded::Ends;
use domain::Nanos;
use domain::bench::DiscardTrace;

/// Computes them from the rows that the confined process hands over.
pub(crate) fn compute(read: &mut Read) -> Result<()> {
    let Read { source, imported } = read;
    for part in &mut imported.parts {
        let Some(samples) = part.samples else { continue };
        let mut nowhere = DiscardTrace;
        let mut ends = Ends::before(&mut nowhere);
        source
            .stream(imported.kind, samples.part, &mut ends)
            .importing(|| format!("the samples of `{}`", source.name))?;
        part.outcome.metrics.extend(ends.metrics());
        part.roles = ends.roles();
        if let Some(profile) = part.profile.as_ref().filter(|_| part.roles.is_empty()) {
            for ((role, _), count) in &profile.samples {
                let time = part.roles.entry(*role).or_default();
                *time = Nanos::new(time.get().saturating_add(profile.time(*count).get()));
            }
        }
    }
    Ok(())
}
