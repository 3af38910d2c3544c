//! Making changes last, taking them back, and completing what was cut short.

use super::error::Error;
use super::files::{Files, LocalFiles};
use super::record::{self, Entry, OwnText, PersistMethod, Phase, Record};
use super::{LastingContext, LastingRequest, rivals, tuned, udev};
use crate::Machine;
use crate::inventory;
use crate::ledger::{Ledger, RestoreReport, preview};
use crate::settings::{self, identity, same, twin};
use domain::inventory::Rival;
use domain::setting::{SettingName, SettingRecord, SettingRequest};
use std::io;
use std::path::Path;

/// What was made, or would be.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastingChanges {
    /// The settings of this order.
    pub entries: Vec<Entry>,
    /// The files as they are now, with those of earlier orders.
    pub files: Vec<OwnText>,
    /// What the user has to do or to know.
    pub notes: Vec<String>,
}

/// What became of lasting changes that were taken back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undone {
    /// The files that were removed.
    pub removed: Vec<String>,
    /// How many files were left, because they are not as they were written.
    pub files_left: usize,
    /// The values.
    pub report: RestoreReport,
    /// What the user has to do or to know.
    pub notes: Vec<String>,
}

/// What an order would write, and where. Nothing is changed, no lock is taken.
///
/// # Errors
/// As [`make`], as far as they can be known before.
pub fn plan(context: &LastingContext, order: &LastingRequest) -> Result<LastingChanges, Error> {
    let before = record::load(context.files, context.state)?;
    let scene = Scene::look(context, &before);
    let entries = foreseen(context, order, &scene)?;
    scene.check(context, order, &before, &entries)?;
    let after = scene.merged(context, &before, &entries);
    Ok(LastingChanges { notes: scene.notes(context, &entries), entries, files: after.files })
}

/// Writes the settings, and makes them last.
///
/// # Errors
/// Those of [`Ledger::apply`]; [`Error::NotOurs`], [`Error::Rival`], [`Error::Unfit`], [`Error::File`],
/// [`Error::Damaged`]. Everything is as before then; where it is not, it is [`Error::Unfinished`] or
/// [`Error::NotUndone`].
pub fn make(
    mut ledger: Ledger,
    context: &LastingContext,
    order: &LastingRequest,
) -> Result<LastingChanges, Error> {
    let before = record::load(context.files, context.state)?;
    let scene = Scene::look(context, &before);
    let foreseen = foreseen(context, order, &scene)?;
    scene.check(context, order, &before, &foreseen)?;
    let mark = ledger.mark();
    let attempt = apply(&mut ledger, context, order, &scene, mark).and_then(|entries| {
        // A governor's tunables show where they are only once it runs.
        scene.check(context, order, &before, &entries)?;
        let after = scene.merged(context, &before, &entries);
        commit(&mut ledger, context, &before, &after, mark)?;
        Ok(LastingChanges { notes: scene.notes(context, &entries), entries, files: after.files })
    });
    match attempt {
        Ok(made) => Ok(made),
        // Dropped as it is: what it holds belongs to the record, which the next start completes.
        Err(error @ Error::Unfinished { .. }) => Err(error),
        Err(cause) => {
            let report = ledger.finish();
            let left: Vec<String> =
                report.failed().chain(report.foreign()).map(ToString::to_string).collect();
            if left.is_empty() {
                return Err(cause);
            }
            Err(Error::NotUndone { cause: Box::new(cause), left: left.join("; ") })
        }
    }
}

/// What decides on the methods.
struct Scene {
    rivals: Vec<Rival>,
    /// The profile below ours, where tuned is active.
    tuned: Option<String>,
    ours_is_active: bool,
}

impl Scene {
    fn look(context: &LastingContext, before: &Record) -> Self {
        let rivals = inventory::rivals(context.machine);
        let active = rivals.iter().find(|r| r.name == "tuned" && rivals::is_active(r));
        let profile = active.and_then(|r| r.profile.clone());
        let ours_is_active = profile.as_deref() == Some(tuned::PROFILE);
        let base = if ours_is_active { before.base_profile.clone() } else { profile };
        let tuned = active.map(|_| base.unwrap_or_default());
        Self { rivals, tuned, ours_is_active }
    }

    fn entry(
        &self,
        context: &LastingContext,
        place: (&str, &str, &str),
        new: &str,
        order: &LastingRequest,
        boot: &str,
    ) -> Entry {
        let (setting, asked, path) = place;
        let method = PersistMethod::of(path, self.tuned.is_some());
        let device =
            udev::split(path).map(|(name, _)| udev::identify(context.machine, &context.roots.run, name));
        Entry {
            setting: setting.to_owned(),
            asked: asked.to_owned(),
            path: path.to_owned(),
            identity: identity(context.machine, path),
            device,
            inverse: None,
            new: new.to_owned(),
            method,
            only_at_boot: false,
            reason: order.reason.clone(),
            when_ns: context.machine.now().unix_nanos(),
            boot: boot.to_owned(),
        }
    }

    /// Whether these may last beside what lasts already.
    fn check(
        &self,
        context: &LastingContext,
        order: &LastingRequest,
        before: &Record,
        entries: &[Entry],
    ) -> Result<(), Error> {
        if !order.ignore_rivals
            && let Some(conflict) = rivals::conflict(entries, &self.rivals)
        {
            return Err(conflict);
        }
        for entry in entries {
            let unfit =
                |reason| Error::Unfit { setting: entry.setting.clone(), method: entry.method, reason };
            if let Some(reason) = entry.method.unfit(entry) {
                return Err(unfit(reason));
            }
            if let Some(other) = twin(&entry.path)
                && before.entries.iter().any(|e| e.path == other)
            {
                return Err(unfit(format!(
                    "`{other}` lasts already, and the kernel sets it to zero when this is written; take that back first: `flyball tune --undo`"
                )));
            }
        }
        for file in self.merged(context, before, entries).files {
            is_free(context.files, &file)?;
        }
        Ok(())
    }

    /// The record with these entries in it, and the files that it comes to.
    fn merged(&self, context: &LastingContext, before: &Record, entries: &[Entry]) -> Record {
        let mut after = before.clone();
        for entry in entries {
            add(&mut after.entries, entry.clone());
        }
        if self.tuned.is_some() {
            after.base_profile = self.tuned.clone().filter(|base| !base.is_empty());
        }
        let methods =
            [PersistMethod::Sysctl, PersistMethod::Udev, PersistMethod::Tuned, PersistMethod::Tmpfiles];
        after.files = methods.into_iter().filter_map(|v| own_text(context, before, &after, v)).collect();
        after
    }

    fn notes(&self, context: &LastingContext, entries: &[Entry]) -> Vec<String> {
        let mut notes = Vec::new();
        let has = |method| entries.iter().any(|e| e.method == method);
        if has(PersistMethod::Tuned) {
            let again = if self.ours_is_active { " again" } else { "" };
            notes.push(format!(
                "tuned brings this back at boot once its profile is chosen{again}: `tuned-adm profile {}`",
                tuned::PROFILE
            ));
        } else if self.tuned.is_some() && (has(PersistMethod::Udev) || has(PersistMethod::Sysctl)) {
            notes.push(
                "tuned is active, and its profile may set the same; see `flyball status` after a restart"
                    .into(),
            );
        }
        let words: Vec<String> = entries.iter().filter_map(super::command_line::word).collect();
        if !words.is_empty() {
            notes.push(format!(
                "add this to the kernel's command line, Flyball does not: {}",
                words.join(" ")
            ));
        }
        for entry in entries.iter().filter(|e| matches!(e.device, Some(udev::Match::Name(_)))) {
            let name = udev::split(&entry.path).map_or("", |(name, _)| name);
            let note = format!(
                "nothing tells `{name}` from other devices, so that its rule goes by the name, which another may get"
            );
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        if context.roots.etc != Path::new("/etc") {
            notes.push(format!("the files are below `{}`", context.roots.etc.display()));
        }
        notes
    }
}

/// The entries that an order comes to before anything is written.
fn foreseen(context: &LastingContext, order: &LastingRequest, scene: &Scene) -> Result<Vec<Entry>, Error> {
    let boot = context.machine.text("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let planned = preview(context.machine, &order.requests, None)?;
    let entry = |write: crate::ledger::PlannedWrite| {
        let asked = asked_as(&order.requests, &write.setting);
        let mut entry = scene.entry(context, (&write.setting, &asked, &write.path), &write.new, order, &boot);
        let old = write.now.filter(|now| !same(now, &write.new));
        entry.inverse = old.map(|old| record::Inverse { old, instead: None, keeps: vec![] });
        entry
    };
    Ok(planned.into_iter().map(entry).collect())
}

/// How the request was typed that a setting of one object comes from: the particular one wins.
fn asked_as(requests: &[SettingRequest], setting: &str) -> String {
    let setting = SettingName::parse(setting);
    let exact = requests.iter().find(|r| r.setting == setting);
    let general = || requests.iter().find(|r| r.setting.name == setting.name);
    exact.or_else(general).map_or_else(|| setting.to_string(), |r| r.setting.to_string())
}

/// Writes the values, and says what was there before.
fn apply(
    ledger: &mut Ledger,
    context: &LastingContext,
    order: &LastingRequest,
    scene: &Scene,
    mark: u64,
) -> Result<Vec<Entry>, Error> {
    let of_a_module = |r: &&SettingRequest| super::command_line::parameter(&r.setting.name).is_some();
    let (modules, others): (Vec<_>, Vec<_>) = order.requests.iter().partition(of_a_module);
    let others: Vec<SettingRequest> = others.into_iter().cloned().collect();
    let boot = ledger.boot().to_owned();
    let mut entries = Vec::new();
    let mut add = |records: Vec<SettingRecord>| {
        for record in records {
            let setting = record.setting.to_string();
            let asked = asked_as(&order.requests, &setting);
            entries.push(scene.entry(context, (&setting, &asked, &record.path), &record.got, order, &boot));
        }
    };
    add(ledger.apply(&others, None)?);
    let mut at_boot = Vec::new();
    for request in modules {
        match ledger.apply(std::slice::from_ref(request), None) {
            Ok(records) => add(records),
            // The module made the file without a way to write it.
            Err(settings::Error::Write { source, .. })
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                let name = request.setting.to_string();
                let entry = scene.entry(context, (&name, &name, &name), &request.value, order, &boot);
                at_boot.push(Entry { only_at_boot: true, ..entry });
            }
            Err(error) => return Err(error.into()),
        }
    }
    entries.extend(at_boot);
    for held in ledger.held_since(mark) {
        if let Some(entry) = entries.iter_mut().find(|e| e.path == held.path && !e.only_at_boot) {
            entry.inverse = Some(held.inverse);
        }
    }
    Ok(entries)
}

/// Adds an entry. Earlier ones for the same file stay, for they say what was there before; the last one
/// counts.
fn add(entries: &mut Vec<Entry>, entry: Entry) {
    let known = entries.iter_mut().rfind(|e| e.path == entry.path);
    match known.filter(|known| entry.inverse.is_none() && same(&known.new, &entry.new)) {
        // It lasts already: only the words about it are new.
        Some(known) => *known = Entry { inverse: known.inverse.clone(), ..entry },
        None => entries.push(entry),
    }
}

/// A method's file as the record wants it; `None` where there is none, and none is wanted.
fn own_text(
    context: &LastingContext,
    before: &Record,
    after: &Record,
    method: PersistMethod,
) -> Option<OwnText> {
    let known = before.files.iter().find(|f| f.method == method);
    let path =
        known.map_or_else(|| context.roots.etc.join(method.file().unwrap_or_default()), |f| f.path.clone());
    let entries: Vec<&Entry> = after.current().into_iter().filter(|e| e.method == method).collect();
    let content = (!entries.is_empty()).then(|| method.text(&entries, after.base_profile.as_deref()));
    let replaces = known.and_then(|f| f.content.clone());
    (content.is_some() || replaces.is_some()).then_some(OwnText { method, path, content, replaces })
}

/// Whether a file may be written: it is not there, or is as we wrote it.
fn is_free(files: &dyn Files, file: &OwnText) -> Result<(), Error> {
    let path = file.path.clone();
    match files.read(&file.path) {
        Ok(None) => Ok(()),
        Ok(Some(text)) if Some(&text) == file.replaces.as_ref() || Some(&text) == file.content.as_ref() => {
            Ok(())
        }
        Ok(Some(_)) => Err(Error::NotOurs { path }),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(Error::NotOurs { path }),
        Err(source) => Err(Error::File { what: "look at", path, source, hint: "; nothing was changed" }),
    }
}

/// Writes or removes one file. Done already is done.
fn place(files: &dyn Files, file: &OwnText) -> Result<(), Error> {
    is_free(files, file)?;
    let path = &file.path;
    let now = files.read(path);
    let done = match (&file.content, now.ok().flatten()) {
        (None, _) => files.remove(path),
        (Some(content), Some(now)) if now == *content => Ok(()),
        (Some(content), Some(_)) => files.replace(path, content),
        (Some(content), None) => files.make(path, content),
    };
    let hint = "; see whether its file system is full or read-only";
    done.map_err(|source| Error::File { what: "write", path: path.clone(), source, hint })
}

/// Decides, writes the files, lets the ledger forget, and says that all is done.
fn commit(
    ledger: &mut Ledger,
    context: &LastingContext,
    before: &Record,
    after: &Record,
    mark: u64,
) -> Result<(), Error> {
    let ids = ledger.held_since(mark).iter().map(|held| held.id).collect();
    let decided = Record { phase: Phase::Making { ledger: ids }, ..after.clone() };
    record::store(context.files, context.state, &decided).map_err(|error| doubt(error, context, before))?;
    if let Err(cause) = after.files.iter().try_for_each(|file| place(context.files, file)) {
        return Err(roll_back(cause, context, before, after));
    }
    complete(ledger, context.files, context.state, decided)
        .map_err(|e| Error::Unfinished { cause: Box::new(e) })
}

/// A rename that failed may have happened all the same.
fn doubt(error: Error, context: &LastingContext, before: &Record) -> Error {
    match record::store(context.files, context.state, before) {
        Ok(()) => error,
        Err(_) if record::load(context.files, context.state).is_ok_and(|now| now == *before) => error,
        Err(_) => Error::Unfinished { cause: Box::new(error) },
    }
}

/// Puts the files back as they were, then the record.
fn roll_back(cause: Error, context: &LastingContext, before: &Record, after: &Record) -> Error {
    let back = |file: &OwnText| {
        let reversed =
            OwnText { content: file.replaces.clone(), replaces: file.content.clone(), ..file.clone() };
        // One that is not ours was not written either.
        match is_free(context.files, &reversed) {
            Err(Error::NotOurs { .. }) => Ok(()),
            _ => place(context.files, &reversed),
        }
    };
    let done = after
        .files
        .iter()
        .try_for_each(back)
        .and_then(|()| record::store(context.files, context.state, before));
    match done {
        Ok(()) => cause,
        Err(_) => Error::Unfinished { cause: Box::new(cause) },
    }
}

/// The files are there: the ledger forgets, and the record says so.
fn complete(ledger: &mut Ledger, files: &dyn Files, state: &Path, mut record: Record) -> Result<(), Error> {
    if let Phase::Making { ledger: ids } = &record.phase {
        ledger.give_up(ids)?;
    }
    record.phase = Phase::Done;
    record.files.retain(|file| file.content.is_some());
    record.files.iter_mut().for_each(|file| file.replaces = None);
    record::store(files, state, &record)
}

/// Takes every lasting change back. Values that somebody else has written since, and files that are not as
/// they were written, are left and reported.
///
/// # Errors
/// [`Error::File`], [`Error::Damaged`], [`Error::Setting`]; what was not done then, the next start does.
pub fn undo(mut ledger: Ledger, context: &LastingContext) -> Result<Undone, Error> {
    let mut record = record::load(context.files, context.state)?;
    if record == Record::default() {
        return Ok(Undone::default());
    }
    record.phase = Phase::Undoing;
    record::store(context.files, context.state, &record)?;
    let mut undone = take_back(&mut ledger, context.files, context.state, &record)?;
    undone.report = ledger.undo_everything();
    undone.notes.extend(notes_of_undoing(context.machine, &record));
    Ok(undone)
}

fn notes_of_undoing(machine: &dyn Machine, record: &Record) -> Vec<String> {
    let mut notes = Vec::new();
    let words: Vec<String> = record.current().into_iter().filter_map(super::command_line::word).collect();
    if !words.is_empty() {
        notes.push(format!("take this off the kernel's command line, if you added it: {}", words.join(" ")));
    }
    let had_profile = record.entries.iter().any(|e| e.method == PersistMethod::Tuned);
    if had_profile && machine.text("/etc/tuned/active_profile").as_deref() == Some(tuned::PROFILE) {
        let base = record.base_profile.as_deref().unwrap_or("balanced");
        notes.push(format!(
            "tuned still has the profile that is gone; choose another: `tuned-adm profile {base}`"
        ));
    }
    notes
}

/// The ledger gets the changes, the files go, then the record. Each step may be done already.
fn take_back(ledger: &mut Ledger, files: &dyn Files, state: &Path, record: &Record) -> Result<Undone, Error> {
    let mut undone = Undone::default();
    let boot = ledger.boot().to_owned();
    let entries: Vec<Entry> = record.entries.iter().map(|e| super::drift::as_of_now(e, &boot)).collect();
    ledger.take_back(&entries)?;
    for file in &record.files {
        let gone = OwnText { content: None, replaces: file.content.clone(), ..file.clone() };
        let shown = file.path.display().to_string();
        match place(files, &gone) {
            Ok(()) => undone.removed.push(shown),
            Err(Error::NotOurs { .. }) => {
                undone.files_left += 1;
                let note = format!("`{shown}` was left: it is not as Flyball wrote it; remove it by hand");
                undone.notes.push(note);
            }
            Err(error) => return Err(error),
        }
    }
    record::store(files, state, &Record::default())?;
    Ok(undone)
}

/// Stops where another version of this program has written the record: nothing that it means may be touched.
///
/// # Errors
/// [`settings::Error::NotUnderstood`].
pub(crate) fn understand(state: &Path) -> Result<(), settings::Error> {
    match record::load(&LocalFiles, state) {
        Err(Error::NotUnderstood { what, by }) => {
            Err(settings::Error::NotUnderstood { what, by, undo: "flyball tune --undo" })
        }
        _ => Ok(()),
    }
}

/// What came of completing lasting changes.
#[derive(Debug, Default)]
pub(crate) struct Resumed {
    /// What there is to know.
    pub notes: Vec<String>,
    /// Why lasting changes are not known.
    pub damage: Option<String>,
}

/// Completes what an earlier process did not: called for each ledger that is opened, before it undoes
/// anything.
///
/// # Errors
/// [`settings::Error::State`] where the ledger or the record cannot be written.
pub(crate) fn resume(ledger: &mut Ledger, state: &Path) -> Result<Resumed, settings::Error> {
    let files = &LocalFiles;
    let record = match record::load(files, state) {
        Ok(record) => record,
        // What is in the ledger is undone; what lasts is not known, and is left.
        Err(error) => return Ok(Resumed { damage: Some(error.to_string()), notes: Vec::new() }),
    };
    let notes = match &record.phase {
        Phase::Done => Vec::new(),
        Phase::Undoing => match take_back(ledger, files, state, &record) {
            Ok(undone) => undone.notes,
            Err(error) => vec![format!("{error}; lasting changes are not all taken back")],
        },
        Phase::Making { .. } => {
            let placed = record.files.iter().try_for_each(|file| place(files, file));
            let finished = match &placed {
                Ok(()) => complete(ledger, files, state, record),
                Err(_) => forget_in_ledger(ledger, files, state, record),
            };
            let notes = placed.err().map(|e| format!("{e}; a lasting change is not complete"));
            finished.map_err(|error| as_state(error, state))?;
            notes.into_iter().collect()
        }
    };
    Ok(Resumed { notes, damage: None })
}

/// The files are for the next start to write; the values stay, and their numbers in the ledger are free
/// again.
fn forget_in_ledger(
    ledger: &mut Ledger,
    files: &dyn Files,
    state: &Path,
    mut record: Record,
) -> Result<(), Error> {
    if let Phase::Making { ledger: ids } = &record.phase {
        ledger.give_up(ids)?;
    }
    record.phase = Phase::Making { ledger: Vec::new() };
    record::store(files, state, &record)
}

fn as_state(error: Error, state: &Path) -> settings::Error {
    match error {
        Error::Setting(error) => error,
        Error::File { what, path, source, .. } => settings::Error::State { what, path, source },
        other => settings::Error::State {
            what: "complete the lasting changes of",
            path: record::path(state),
            source: io::Error::other(other.to_string()),
        },
    }
}
