//! What recorded events say of a cell: of all its valid trials together, or of those that recorded events and
//! count for nothing else.

use crate::summary::RunData;
use domain::calls::Calls;
use domain::ids::CellId;
use domain::passage::Passage;
use domain::profile::Profile;
use domain::request::{Op, Served};
use domain::spent::Spent;
use domain::time::Nanos;
use domain::trace::Role;
use domain::trial::Measurement;
use domain::windows::GovernorWindows;
use std::collections::BTreeMap;

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
    for windows in of_trials {
        for (cpu, windows) in &windows.cpus {
            all.cpus.entry(*cpu).or_default().add_all(windows);
        }
        all.shared.extend(windows.shared.clone());
    }
    Some(all)
}

/// What its threads spent their time on, by role; empty where no switches were recorded.
pub fn spent(data: &RunData, cell: &CellId) -> BTreeMap<Role, Spent> {
    let mut all: BTreeMap<Role, Spent> = BTreeMap::new();
    for (role, spent) in measurements(data, cell).flat_map(|measured| &measured.spent) {
        all.entry(*role).or_default().add(spent);
    }
    all
}

/// The system calls of its threads, and how long the trials took of which they are known; `None` where they
/// were not recorded.
pub fn calls(data: &RunData, cell: &CellId) -> Option<(Calls, Nanos)> {
    let mut of_trials = measurements(data, cell).filter_map(calls_of);
    let (mut all, mut time) = of_trials.next()?;
    for (calls, more) in of_trials {
        all.add(&calls);
        time = time.saturating_add(more);
    }
    Some((all, time))
}

/// The same of one trial.
pub fn calls_of(measured: &Measurement) -> Option<(Calls, Nanos)> {
    Some((measured.calls.clone()?, measured.duration))
}

/// What one block device did of one operation, a second.
#[derive(Clone, Debug, PartialEq)]
pub struct OfDevice {
    /// Its name.
    pub device: String,
    /// The operation.
    pub op: Op,
    /// Of all trials in which anything was served.
    pub served: Served,
    /// How long these trials took.
    pub time: Nanos,
}

/// How long took what its block devices were asked for, by device in the order in which trials name them;
/// empty where no requests were recorded.
pub fn served(data: &RunData, cell: &CellId) -> Vec<OfDevice> {
    let mut all: Vec<OfDevice> = Vec::new();
    for one in measurements(data, cell).flat_map(served_of) {
        match all.iter_mut().find(|known| known.device == one.device && known.op == one.op) {
            Some(known) => {
                known.served.add(&one.served);
                known.time = known.time.saturating_add(one.time);
            }
            None => all.push(one),
        }
    }
    all
}

/// The same of one trial.
pub fn served_of(measured: &Measurement) -> impl Iterator<Item = OfDevice> {
    let time = measured.duration;
    measured.disks.iter().flat_map(move |disk| {
        disk.served.iter().map(move |(op, served)| OfDevice {
            device: disk.device.clone(),
            op: *op,
            served: served.clone(),
            time,
        })
    })
}

/// What one block device that stands on others made of what it was given.
#[derive(Clone, Debug, PartialEq)]
pub struct OfLayer {
    /// Its name.
    pub device: String,
    /// Of all trials in which it passed anything on.
    pub passage: Passage,
    /// How long these trials took.
    pub time: Nanos,
}

/// What layers made of what they were given, in the order in which trials name them; empty where no requests
/// were recorded, and where no block device stands on another.
pub fn layers(data: &RunData, cell: &CellId) -> Vec<OfLayer> {
    let mut all: Vec<OfLayer> = Vec::new();
    for one in measurements(data, cell).flat_map(layers_of) {
        match all.iter_mut().find(|known| known.device == one.device) {
            Some(known) => {
                known.passage.add(&one.passage);
                known.time = known.time.saturating_add(one.time);
            }
            None => all.push(one),
        }
    }
    all
}

/// The same of one trial.
pub fn layers_of(measured: &Measurement) -> impl Iterator<Item = OfLayer> {
    measured.disks.iter().filter_map(|disk| {
        let (device, passage) = (disk.device.clone(), disk.passage.clone()?);
        Some(OfLayer { device, passage, time: measured.duration })
    })
}

fn measurements<'a>(data: &'a RunData, cell: &'a CellId) -> impl Iterator<Item = &'a Measurement> {
    let own = data.trials.iter().filter(move |trial| trial.key.cell == *cell && !trial.validity.is_spoilt());
    own.filter_map(|trial| trial.measurement.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{failed, run, study};
    use domain::calls::{Call, Called};
    use domain::passage::{Bios, Given, Passed};
    use domain::profile::{Interrupts, Subsystem};
    use domain::took::Took;
    use domain::trial::{DiskTotals, Validity};
    use domain::windows::Windows;

    fn disk(name: &str) -> DiskTotals {
        DiskTotals {
            device: name.to_owned(),
            read_ios: 4,
            read_sectors: 32,
            write_ios: 0,
            write_sectors: 0,
            busy: Nanos::ZERO,
            accesses: None,
            served: BTreeMap::new(),
            passage: None,
        }
    }

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
            measured.duration = Nanos::from_secs(2);
            measured.spent = [(Role::Workload, Spent { cpu_ns: 3, ..Spent::default() })].into();
            let called = Called { count: 3, ..Called::default() };
            measured.calls =
                Some(Calls { of: [((Role::Workload, Call::Fsync), called)].into(), queued: None });
            let took = Took::sums(4, Nanos::new(40), Nanos::new(30));
            measured.disks = vec![DiskTotals {
                served: [(Op::Read, Served { count: 4, service: took, ..Served::default() })].into(),
                passage: Some(Passage {
                    given: [(Op::Read, Given { bios: Bios::one(8), followed: 1, ..Given::default() })].into(),
                    passed: [(("sda".to_owned(), Op::Read), Passed { bios: Bios::one(8), requests: 2 })]
                        .into(),
                }),
                ..disk("vda")
            }];
            measured.profile = Some(Profile {
                period: Nanos::from_millis(1),
                samples: [((Role::Workload, Subsystem::User), 5)].into(),
                lost: 1,
                interrupts: Some(Interrupts {
                    held_off: [(Subsystem::User, 1)].into(),
                    unsampled: 2,
                    handlers: [("36 nvme0q1".to_owned(), Nanos::from_millis(4))].into(),
                }),
                ..Profile::default()
            });
        }
        let own: Vec<_> = data.trials.iter_mut().filter(|trial| trial.key.cell == cell).collect();
        let [traced, _, last] = <[_; 3]>::try_from(own).unwrap();
        traced.validity = Validity::Traced;
        *last = failed(last.key.clone());
        let (profile, windows) = (profile(&data, &cell).unwrap(), windows(&data, &cell).unwrap());
        assert_eq!(
            (profile.all(), profile.lost, profile.time(profile.all())),
            (10, 2, Nanos::from_millis(10))
        );
        let interrupts = Interrupts {
            held_off: [(Subsystem::User, 2)].into(),
            unsampled: 4,
            handlers: [("36 nvme0q1".to_owned(), Nanos::from_millis(8))].into(),
        };
        assert_eq!(profile.interrupts, Some(interrupts));
        let mut with_one_of_which_nothing_is_known = profile.clone();
        with_one_of_which_nothing_is_known.add(&Profile::default());
        assert_eq!(with_one_of_which_nothing_is_known.interrupts, None);
        assert_eq!((windows.threshold, windows.cpus[&1].all()), (Some(95.0), 2));
        assert_eq!(spent(&data, &cell)[&Role::Workload].cpu_ns, 6);
        let (calls, time) = calls(&data, &cell).unwrap();
        assert_eq!((calls.of[&(Role::Workload, Call::Fsync)].count, time), (6, Nanos::from_secs(4)));
        let served = served(&data, &cell);
        assert_eq!((served.len(), served[0].served.count, served[0].time), (1, 8, Nanos::from_secs(4)));
        assert_eq!(served[0].served.mean(), Some(Nanos::new(10)));
        let layers = layers(&data, &cell);
        assert_eq!((layers.len(), layers[0].time), (1, Nanos::from_secs(4)));
        assert_eq!((layers[0].passage.given(Op::Read).followed, layers[0].passage.amplification()), {
            (2, Some(2.0))
        });
    }
}
