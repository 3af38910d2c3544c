//! The tables and models that a lab machine names, read; and its disks, served.

use super::spec::LabPlaces;
use super::tables;
use crate::disk_files;
use crate::error::{Error, Result};
use disks::{DiskSpec, LinkSpec};
use domain::lab::{
    Dilated, Dilation, DiskService, ENERGY_MODELLED, Lab, LabAccount, LabDisk, LabLink, PStateTable,
};
use domain::outcome::Metric;
use domain::per_work::{self, POWER};
use domain::rng::Seed;
use domain::units::Bytes;
use domain::{Nanos, Trial};
use lab::KeptDisks;
use lab::calibrate::{self, Fit};
use lab::disk_server::{self, Backing, DiskServer, Reach, ServedDisk, ServedLink};
use lab::pacing;
use lab::vm::Disk;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// How much of a modelled disk can be written: what is written is in this host's memory.
const MAX_WRITTEN: Bytes = Bytes::from_mib(4096);

/// What a lab machine names, read.
#[derive(Debug)]
pub struct LabModels {
    /// The tables of virtual P-states, by what the study calls them.
    tables: BTreeMap<String, PStateTable>,
    /// The one that the next machine has.
    chosen: Option<String>,
    /// Pace and dilation, once they have been calibrated.
    pub fit: Option<Fit>,
    /// The plugin; an empty path where there are no P-states.
    pub plugin: PathBuf,
    disks: BTreeMap<String, DiskSpec>,
    links: BTreeMap<String, LinkSpec>,
}

impl LabModels {
    /// Reads everything, so that what is missing is told before anything is started: the tables of the
    /// machine and those that levels name.
    ///
    /// # Errors
    /// [`Error::Usage`] where something is not there or wrong.
    pub fn read(lab: &Lab, levels: &BTreeSet<String>, home: &Path, places: &LabPlaces) -> Result<Self> {
        let names = lab.pstates.iter().chain(levels).cloned();
        let table = |name: String| tables::of_lab(lab, &name, home).map(|table| (name, table));
        let tables = names.map(table).collect::<Result<BTreeMap<_, _>>>()?;
        let plugin = match tables.is_empty() {
            false => pacing::find_plugin(places.plugin.as_deref(), &places.program)?,
            true => PathBuf::new(),
        };
        let disk =
            |disk: &LabDisk| Ok((disk.name.clone(), disk_files::disk(&disk.model, home).map_err(usage)?));
        let link =
            |link: &LabLink| Ok((link.name.clone(), disk_files::link(&link.model, home).map_err(usage)?));
        Ok(Self {
            chosen: lab.pstates.clone(),
            tables,
            fit: None,
            plugin,
            disks: lab.disks.iter().map(disk).collect::<Result<_>>()?,
            links: lab.links.iter().map(link).collect::<Result<_>>()?,
        })
    }

    /// The next machine has the table of this name, of those that were read.
    pub fn choose(&mut self, table: Option<&str>) {
        self.chosen = table.map(str::to_owned);
    }

    /// The virtual P-states of the next machine.
    pub fn table(&self) -> Option<&PStateTable> {
        self.tables.get(self.chosen.as_ref()?)
    }

    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = &PStateTable> {
        self.tables.values()
    }

    /// Takes what calibration has found: one dilation for all tables, the largest, and the pace of each.
    ///
    /// # Errors
    /// Those of [`calibrate::fit`].
    pub fn fit(
        &mut self,
        dilation: Dilation,
        rates: &[f64],
    ) -> std::result::Result<Option<Fit>, calibrate::Error> {
        let each = |table: &PStateTable| calibrate::fit(table, dilation, rates);
        let fits = self.tables.values().map(each).collect::<std::result::Result<Vec<_>, _>>()?;
        let Some(slowest) = fits.iter().copied().max_by(|a, b| a.dilation.total_cmp(&b.dilation)) else {
            return Ok(None);
        };
        for (table, fit) in self.tables.values_mut().zip(&fits) {
            // As far as one is dilated more than it has to be, its CPUs are slower too.
            table.pace = fit.pace * fit.dilation / slowest.dilation;
        }
        self.fit = Some(slowest);
        Ok(self.fit)
    }

    /// Everything that decides what the machine is, as text.
    pub fn describe(&self, lab: &Lab, dilation: f64) -> String {
        let Lab { vcpus, memory, modules, prepare, work, .. } = lab;
        let clock = if lab.clock().divide(dilation).slowed > 1.0 { " slowed" } else { "" };
        let Self { disks, links, .. } = self;
        let tables: Vec<&PStateTable> = self.tables().collect();
        format!(
            "{vcpus} {memory} {dilation}{clock} {tables:?} {disks:?} {links:?} {modules:?} {prepare:?} {work:?} {:?}",
            lab.disks
        )
    }

    /// Serves the machine's disks, each with nothing on it, or as it was kept.
    pub fn attach(&self, lab: &Lab, kept: Option<&KeptDisks>, dilation: f64, seed: Seed) -> Result<Attached> {
        if lab.disks.is_empty() {
            return Ok(Attached { server: None, ends: Vec::new() });
        }
        let served = lab.disks.iter().map(|disk| ServedDisk {
            name: disk.name.clone(),
            spec: self.disks[&disk.name].clone(),
            size: disk.size,
            link: disk.link.clone(),
            backing: match kept {
                Some(kept) => Backing::Kept(kept.file(&disk.name)),
                None => Backing::Memory(MAX_WRITTEN),
            },
        });
        let links = lab
            .links
            .iter()
            .map(|link| ServedLink { name: link.name.clone(), spec: self.links[&link.name].clone() });
        let reach = Reach::VhostUser;
        let mut server = DiskServer::start(served.collect(), links.collect(), reach, dilation, seed)?;
        let mut end = |disk: &LabDisk| {
            let end = server.take_end(&disk.name);
            let unserved = || Error::Refused(format!("the disk `{}` is not served", disk.name));
            Ok(Disk { server: end.ok_or_else(unserved)? })
        };
        let ends = lab.disks.iter().map(&mut end).collect::<Result<_>>()?;
        Ok(Attached { server: Some(server), ends })
    }

    /// Adds to a trial what is known from outside its guest: the plugin's record, what the disks did, the
    /// energy that the table makes of it; and marks it where CPUs or disks were late.
    pub fn account(
        &self,
        record: &str,
        disks: Vec<DiskService>,
        dilated: Dilated,
        began: Option<Nanos>,
        trial: &mut Trial,
    ) -> Result<()> {
        let Dilated { stretched, slowed } = dilated;
        let mut account = LabAccount { dilation: stretched, slowed, pacing: None, disks };
        account.disks.retain(|disk| disk.requests > 0);
        // The server counts in the time of its model.
        for disk in &mut account.disks {
            for time in [&mut disk.modelled, &mut disk.late, &mut disk.latest] {
                *time = Nanos::new((time.get() as f64 * stretched).round() as u64);
            }
        }
        if let Some(table) = self.table() {
            let record = pacing::parse(record)?;
            match record.last_span() {
                Some(span) => {
                    let pacing = span.pacing(table, record.pace)?;
                    account.pacing = Some(domain::lab::Pacing { began, ..pacing });
                }
                // It failed before its workload began, and says why.
                None if trial.measurement.is_none() => {}
                None => return Err(no_span()),
            }
        }
        let late = account.pacing.as_ref().and_then(pacing::judge);
        let late_disks = disk_server::judge_all(&account.disks, slowed);
        late.into_iter().chain(late_disks).for_each(|disturbance| trial.disturb(disturbance));
        if let Some(measurement) = &mut trial.measurement {
            let metrics = &mut measurement.outcome.metrics;
            add_energy(&account, metrics);
            per_work::set_frequency(&account, metrics);
            let is_modelled = measurement.outcome.metrics.contains_key(ENERGY_MODELLED);
            // What the guest counted is in its trace, and in no metric.
            if let Some(recorder) = measurement.recorder.as_mut().filter(|_| is_modelled) {
                recorder.energy = None;
            }
        }
        trial.lab = Some(account);
        Ok(())
    }
}

/// A machine's disks, while it runs.
#[derive(Debug)]
pub struct Attached {
    server: Option<DiskServer>,
    ends: Vec<Disk>,
}

impl Attached {
    /// QEMU's ends of the connections, once.
    pub fn take_ends(&mut self) -> Vec<Disk> {
        std::mem::take(&mut self.ends)
    }

    /// What the disks did since this was last asked.
    pub fn take_account(&self) -> Vec<DiskService> {
        self.server.as_ref().map(DiskServer::take_account).unwrap_or_default()
    }

    /// What went wrong with the connections since this was last asked.
    pub fn take_complaints(&self) -> Vec<String> {
        self.server.as_ref().map(DiskServer::take_complaints).unwrap_or_default()
    }
}

/// Adds the energy by the plugin's record, its watts, and what a unit of work took of it. It replaces what
/// the guest's own counters say, which the same table of watts makes: those are in the trace.
fn add_energy(account: &LabAccount, metrics: &mut BTreeMap<String, Metric>) {
    let (Some(energy), Some(pacing)) = (domain::lab::energy_metric(account), &account.pacing) else { return };
    let watts = pacing.energy.map(|energy| energy.joules() / pacing.span.secs());
    metrics.remove(per_work::ENERGY);
    metrics.insert(ENERGY_MODELLED.to_owned(), energy);
    let power = watts.filter(|watts| watts.is_finite()).and_then(|w| per_work::metric(POWER, w));
    metrics.extend(power.map(|power| (POWER.to_owned(), power)));
    per_work::add(metrics);
}

/// What is named in a study or on the command line, and is not there or wrong.
fn usage(error: impl Display) -> Error {
    Error::Usage(error.to_string())
}

fn no_span() -> Error {
    Error::Refused("the plugin recorded no paced span of the trial".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::lab::Pacing;
    use domain::outcome::Better;
    use domain::units::{Microjoules, Unit};

    #[test]
    fn the_plugins_energy_stands_instead_of_the_guests_own_and_is_told_over_the_work() {
        let pacing = Pacing {
            pace: 2e7,
            began: None,
            span: Nanos::from_secs(40),
            vcpus: Vec::new(),
            energy: Some(Microjoules::new(600_000_000)),
        };
        let account = LabAccount { dilation: 20.0, slowed: 1.0, pacing: Some(pacing), disks: Vec::new() };
        let rate = Metric { value: 3000.0, unit: Unit::PerSecond, better: Better::Higher };
        let guests = [(per_work::ENERGY, 29.0), (POWER, 14.5)];
        let guests = guests.map(|(name, value)| (name.to_owned(), per_work::metric(name, value).unwrap()));
        let mut metrics: BTreeMap<String, Metric> = guests.into();
        metrics.insert("iops".into(), rate);
        add_energy(&account, &mut metrics);
        let values: Vec<(&str, f64)> = metrics.iter().map(|(name, m)| (name.as_str(), m.value)).collect();
        // The guest takes 15 W for 40 s, which are 2 s of the machine.
        let expected = [(ENERGY_MODELLED, 30.0), ("energy_per_io", 0.005), ("iops", 3000.0), (POWER, 15.0)];
        assert_eq!(values, expected);
        let unpaced = LabAccount { pacing: None, ..account };
        let mut none = BTreeMap::new();
        add_energy(&unpaced, &mut none);
        assert!(none.is_empty());
    }
}
