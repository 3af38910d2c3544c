//! Writing settings: announced, written, read back, verified; all of them or none.

use super::record::{Act, Change, Got, Pending, Record, Value};
use super::report::RestoreReport;
use super::undo::Scope;
use super::{Ledger, bytes};
use crate::Machine;
use crate::settings::{
    Error, Place, RANKS, check_name, check_path, choices, identity, is_held, kept_paths, order_limits, rank,
    read, read_late, resolve, same, twin,
};
use domain::setting::{SettingRecord, SettingRequest};
use std::io;
use std::path::Path;

impl Ledger<'_> {
    /// Writes settings, and returns what each file held, was asked to hold and then held. `target` is the
    /// block device that a block setting without an object means. A value that is there already is not
    /// written.
    ///
    /// Drivers go first, then turbo, then governors and schedulers, then the rest, for each of these
    /// re-creates or resets the later ones. A setting with an object wins over the same one without.
    ///
    /// # Errors
    /// Those of [`resolve`]; [`Error::BadValue`], [`Error::Read`], [`Error::Write`], [`Error::NotTaken`],
    /// [`Error::State`]. What was written by this call is put back before; [`Error::NotUndone`] where it
    /// could not be.
    pub fn apply(
        &mut self,
        requests: &[SettingRequest],
        target: Option<&str>,
    ) -> Result<Vec<SettingRecord>, Error> {
        let (mark, limits) = (self.pending.len(), self.limits.len());
        let cause = match self.apply_all(requests, target) {
            Ok(records) => return Ok(records),
            Err(cause) => cause,
        };
        self.limits.truncate(limits);
        let report = self.undo(mark, &Scope::Settings);
        Err(with_what_is_left(cause, &report))
    }

    fn apply_all(
        &mut self,
        requests: &[SettingRequest],
        target: Option<&str>,
    ) -> Result<Vec<SettingRecord>, Error> {
        for request in requests {
            check_name(&request.setting)?;
        }
        let mut records = Vec::new();
        for now in 0..RANKS {
            // Resolved only now: the ranks before may have made the files of this one.
            let writes = writes_of_rank(self.machine, requests, target, now)?;
            let (limits, mut writes): (Vec<_>, Vec<_>) =
                writes.into_iter().partition(|(place, _)| is_held(&place.path));
            order_limits(self.machine, &mut writes);
            self.apply_rank(writes, &mut records)?;
            for (place, limit_us) in limits {
                records.push(self.hold(place, limit_us)?);
            }
        }
        Ok(records)
    }

    fn apply_rank(
        &mut self,
        writes: Vec<(Place, String)>,
        records: &mut Vec<SettingRecord>,
    ) -> Result<(), Error> {
        let mut changes = Vec::new();
        for (place, new) in writes {
            let old = value_before(self.machine, &place)?;
            if same(&old, &new) {
                let (asked, got) = (new, old.clone());
                records.push(SettingRecord {
                    setting: place.setting,
                    path: place.path,
                    before: old,
                    asked,
                    got,
                    after: None,
                });
                continue;
            }
            let change = self.change(&place, old, new)?;
            changes.push((place, change));
        }
        let entries: Vec<Pending> =
            changes.iter().map(|(_, change)| Pending::new(Act::Setting(change.clone()))).collect();
        if entries.is_empty() {
            return Ok(());
        }
        let lines: Vec<Record> = entries.iter().flat_map(Pending::records).collect();
        self.journal.announce(&lines)?;
        let first = self.pending.len();
        self.pending.extend(entries);
        for (index, (place, change)) in changes.into_iter().enumerate() {
            let got = self.write(&place, &change, first + index)?;
            let taken = same(&got, &change.new);
            let (setting, path) = (place.setting, place.path);
            if !taken {
                self.cancel(&change, &got);
                let setting = setting.to_string();
                return Err(Error::NotTaken { setting, path, asked: change.new, got });
            }
            let (before, asked) = (change.old, change.new);
            records.push(SettingRecord { setting, path, before, asked, got, after: None });
        }
        Ok(())
    }

    fn change(&mut self, place: &Place, old: String, new: String) -> Result<Change, Error> {
        let unreadable = |path: &str| {
            let (setting, path) = (place.setting.to_string(), path.to_owned());
            move |source| Error::Read { setting, path, source }
        };
        let mut keeps = Vec::new();
        // What has no inverse cannot be put back either.
        for path in kept_paths(self.machine, &place.path).into_iter().filter(|path| check_path(path).is_ok())
        {
            match read(self.machine, &path) {
                // A value in angle brackets is the kernel's word for none (`<unsupported>`).
                Ok(Some(value)) if !value.starts_with('<') => keeps.push(Value { path, value }),
                Ok(_) => {}
                // A table, or a file that root may only write: not a value that the kernel could drop.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::InvalidData | io::ErrorKind::PermissionDenied
                    ) => {}
                Err(error) => return Err(unreadable(&path)(error)),
            }
        }
        let instead = match twin(&place.path) {
            Some(other) if same(&old, "0") => {
                let value = read(self.machine, other).map_err(unreadable(other))?;
                value.filter(|v| !same(v, "0")).map(|value| Value { path: other.to_owned(), value })
            }
            _ => None,
        };
        Ok(Change {
            id: self.next_id(),
            boot: self.boot.clone(),
            setting: place.setting.to_string(),
            path: place.path.clone(),
            identity: identity(self.machine, &place.path),
            old,
            new,
            instead,
            keeps,
        })
    }

    /// Writes, reads back, and notes what was read. `index` is the change's place among the pending ones.
    fn write(&mut self, place: &Place, change: &Change, index: usize) -> Result<String, Error> {
        let (setting, path) = (place.setting.to_string(), place.path.clone());
        if let Err(source) = self.machine.write(Path::new(&path), &bytes(&change.new)) {
            let hint = hint(self.machine, &path, &source);
            return Err(Error::Write { setting, value: change.new.clone(), path, source, hint });
        }
        let at_once = value_before(self.machine, place)?;
        if same(&at_once, &change.old) {
            // It may be on its way.
            let waits = |now: &str| same(now, &change.old);
            let late = shown(place, read_late(self.machine, &path, waits))?;
            if !same(&late, &change.old) && !same(&late, &change.new) {
                // Made of ours by the kernel, or somebody else's: not noted, so that it is judged with care.
                return Ok(late);
            }
            return self.taken(place, change, index, late);
        }
        self.taken(place, change, index, at_once)
    }

    /// Notes what was read, with what came with it.
    fn taken(
        &mut self,
        place: &Place,
        change: &Change,
        index: usize,
        value: String,
    ) -> Result<String, Error> {
        let setting = place.setting.to_string();
        let mut kept = Vec::new();
        for keep in &change.keeps {
            let read = read(self.machine, &keep.path);
            kept.push(read.map_err(|source| Error::Read {
                setting: setting.clone(),
                path: keep.path.clone(),
                source,
            })?);
        }
        let got = Got { id: change.id, value: value.clone(), kept };
        self.journal.note(&Record::Got(got.clone()))?;
        self.pending[index].got = Some(got);
        Ok(value)
    }
}

impl Ledger<'_> {
    /// Takes back a write that has shown no effect, for it may show one later, when nobody looks any more:
    /// the last value written is what a slow driver ends with.
    fn cancel(&self, change: &Change, got: &str) {
        if same(got, &change.old) && change.instead.is_none() {
            // Where even that is refused, there is nothing else to try.
            let _ = self.machine.write(Path::new(&change.path), &bytes(&change.old));
        }
    }
}

/// A write that a set of requests would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedWrite {
    /// The setting, with its object.
    pub setting: String,
    /// The file. A governor's tunables lie in one folder of the machine or in one of each policy, by the
    /// driver's choice, which only shows once the governor is in use; until then this is the former.
    pub path: String,
    /// What it holds now; `None` where it appears only with an earlier write of the same set.
    pub now: Option<String>,
    /// What would be written.
    pub new: String,
}

/// What [`Ledger::apply`] would write, in its order. Nothing is written, no lock is taken, no ledger is
/// needed.
///
/// # Errors
/// As [`Ledger::apply`], as far as they can be known without writing.
pub fn preview(
    machine: &dyn Machine,
    requests: &[SettingRequest],
    target: Option<&str>,
) -> Result<Vec<PlannedWrite>, Error> {
    let mut planned = Vec::new();
    for request in requests {
        check_name(&request.setting)?;
    }
    for now in 0..RANKS {
        let (later, present): (Vec<_>, Vec<_>) =
            requests.iter().cloned().partition(|request| appears_with(request, requests, machine, target));
        let mut writes = writes_of_rank(machine, &present, target, now)?;
        order_limits(machine, &mut writes);
        for (place, new) in writes {
            let now = Some(value_before(machine, &place)?);
            planned.push(PlannedWrite { setting: place.setting.to_string(), path: place.path, now, new });
        }
        for request in later.into_iter().filter(|r| rank(&r.setting.name) == now) {
            let path = path_to_come(&request, target);
            let setting = request.setting.to_string();
            planned.push(PlannedWrite { setting, path, now: None, new: request.value });
        }
    }
    Ok(planned)
}

/// Whether a setting is absent now, and comes with a governor or scheduler that is asked for as well.
fn appears_with(
    request: &SettingRequest,
    all: &[SettingRequest],
    machine: &dyn Machine,
    target: Option<&str>,
) -> bool {
    let Some((head, _)) = request.setting.name.split_once('.') else { return false };
    let governor = domain::cpufreq::has_tunables(head)
        && all.iter().any(|r| r.setting.name == "governor" && r.value == head);
    let scheduler = head == "iosched" && all.iter().any(|r| r.setting.name == "scheduler");
    let absent = || matches!(resolve(machine, &request.setting, target), Err(Error::Unsupported { .. }));
    (governor || scheduler) && absent()
}

fn path_to_come(request: &SettingRequest, target: Option<&str>) -> String {
    let (head, tail) = request.setting.name.split_once('.').expect("only dotted names come later");
    if head == "iosched" {
        let disk = request.setting.object.as_deref().or(target).unwrap_or("?");
        return format!("/sys/block/{}/queue/iosched/{tail}", disk.trim_start_matches("/dev/"));
    }
    format!("{}/{head}/{tail}", crate::settings::CPUFREQ)
}

/// The files to write for the requests of one rank, each once, with their values as the kernel takes them.
fn writes_of_rank(
    machine: &dyn Machine,
    requests: &[SettingRequest],
    target: Option<&str>,
    now: u8,
) -> Result<Vec<(Place, String)>, Error> {
    let of_rank = |r: &&SettingRequest| rank(&r.setting.name) == now;
    let (general, particular): (Vec<_>, Vec<_>) =
        requests.iter().filter(of_rank).partition(|r| r.setting.object.is_none());
    let mut writes: Vec<(Place, String)> = Vec::new();
    for request in general.into_iter().chain(particular) {
        for place in resolve(machine, &request.setting, target)? {
            let value = place.encode(machine, &request.value)?;
            if let Some(other) = twin(&place.path)
                && writes.iter().any(|(p, _)| p.path == other)
            {
                let reason =
                    format!("the kernel sets it to zero when `{other}` is written; ask for one of them");
                let setting = place.setting.to_string();
                return Err(Error::BadValue { setting, value, reason });
            }
            writes.retain(|(earlier, _)| earlier.path != place.path);
            writes.push((place, value));
        }
    }
    Ok(writes)
}

pub(super) fn value_before(machine: &dyn Machine, place: &Place) -> Result<String, Error> {
    shown(place, read(machine, &place.path))
}

/// A value as it was read; what is absent or unsupported is an error.
fn shown(place: &Place, value: io::Result<Option<String>>) -> Result<String, Error> {
    let (setting, path) = (place.setting.to_string(), place.path.clone());
    match value {
        Ok(Some(value)) if !value.starts_with('<') => Ok(value),
        Ok(Some(value)) => {
            Err(Error::Unsupported { setting, reason: format!("`{path}` reads `{value}` now") })
        }
        Ok(None) => Err(Error::Unsupported { setting, reason: format!("there is no `{path}`") }),
        Err(source) => Err(Error::Read { setting, path, source }),
    }
}

pub(super) fn hint(machine: &dyn Machine, path: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; run as root, or see the plan with --dry-run".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "; it cannot be written inside this container".to_owned(),
        _ => choices(machine, path).map(|words| format!("; it takes one of: {words}")).unwrap_or_default(),
    }
}

fn with_what_is_left(cause: Error, report: &RestoreReport) -> Error {
    let left: Vec<String> = report.failed().map(ToString::to_string).collect();
    if left.is_empty() {
        return cause;
    }
    Error::NotUndone { cause: Box::new(cause), left: left.join("; ") }
}
