//! What recorded events say of a cell: of all its valid trials together.

use crate::summary::RunData;
use domain::ids::CellId;
use domain::profile::Profile;
use domain::trial::Measurement;
use domain::windows::GovernorWindows;

/// What the CPU time of its trials was spent in; `None` where no call stacks were sampled.
pub fn profile(data: &RunData, cell: &CellId) -> Option<Profile> {
    let mut of_trials = measurements(data, cell).filter_map(|measured| measured.profile.as_ref());
    let mut all = of_trials.next()?.clone();
    of_trials.for_each(|profile| all.add(profile));
    Some(all)
}

/// How busy its CPUs were between two samples of their governors. The threshold is that of its first trial:
/// a cell's settings are the same in all.
pub fn windows(data: &RunData, cell: &CellId) -> Option<GovernorWindows> {
    let mut of_trials = measurements(data, cell).filter_map(|measured| measured.windows.as_ref());
    let mut all = of_trials.next()?.clone();
    for (cpu, windows) in of_trials.flat_map(|windows| &windows.cpus) {
        all.cpus.entry(*cpu).or_default().add_all(windows);
    }
    Some(all)
}

fn measurements<'a>(data: &'a RunData, cell: &'a CellId) -> impl Iterator<Item = &'a Measurement> {
    let own = data.trials.iter().filter(move |trial| trial.key.cell == *cell && trial.validity.is_valid());
    own.filter_map(|trial| trial.measurement.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{failed, run, study};
    use domain::Nanos;
    use domain::profile::Subsystem;
    use domain::trace::Role;
    use domain::windows::Windows;

    #[test]
    fn a_cells_valid_trials_are_taken_together() {
        let mut data = run(study(&[("f", &["a", "b"])]), 3, |_, _| vec![("throughput", 1e8)]);
        let cell = CellId::new(["w", "a"]);
        assert_eq!((profile(&data, &cell), windows(&data, &cell)), (None, None));
        for trial in data.trials.iter_mut().filter(|trial| trial.key.cell == cell) {
            let measured = trial.measurement.as_mut().unwrap();
            let mut of_cpu = Windows::default();
            of_cpu.add(None, Nanos::from_millis(10), Nanos::from_millis(4));
            measured.windows = Some(GovernorWindows {
                threshold: Some(95.0),
                cpus: [(1, of_cpu)].into(),
                ..Default::default()
            });
            measured.profile = Some(Profile {
                period: Nanos::from_millis(1),
                samples: [((Role::Workload, Subsystem::User), 5)].into(),
                lost: 1,
                ..Profile::default()
            });
        }
        let last = data.trials.iter_mut().rfind(|trial| trial.key.cell == cell).unwrap();
        *last = failed(last.key.clone());
        let (profile, windows) = (profile(&data, &cell).unwrap(), windows(&data, &cell).unwrap());
        assert_eq!(
            (profile.all(), profile.lost, profile.time(profile.all())),
            (10, 2, Nanos::from_millis(10))
        );
        assert_eq!((windows.threshold, windows.cpus[&1].all()), (Some(95.0), 2));
    }
}
