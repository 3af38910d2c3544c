//! Lasting changes in words and as JSON.

use super::{Drift, Entry, FileState, LastingChanges, LastingStatus, OwnText, Undone, command_line};
use domain::inert::Lines;
use serde_json::{Value, json};

/// The version of the JSON forms.
const SCHEMA: u32 = 1;

/// Whether changes were made, or are a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// They were made.
    Yes,
    /// They were planned.
    No,
}

impl LastingChanges {
    /// What was written, or would be.
    pub fn as_text(&self, written: Written) -> Lines {
        let is_planned = written == Written::No;
        let written = if is_planned { "would write" } else { "written" };
        let entry = |e: &Entry| {
            let old = e.old().map_or_else(|| "it is that already".to_owned(), |old| format!("was `{old}`"));
            let old = if e.only_at_boot { "the kernel takes it at boot alone".to_owned() } else { old };
            format!("{} = {} ({old}), kept by: {}", e.setting, e.new, e.method)
        };
        let mut lines: Lines = self.entries.iter().map(entry).collect();
        for file in &self.files {
            match &file.content {
                Some(content) if is_planned => {
                    lines.line(format_args!("{written} {}:", file.path.display()));
                    lines.extend(content.lines());
                }
                Some(_) => lines.line(format_args!("{written} {}", file.path.display())),
                None => lines.line(format_args!("not needed any more: {}", file.path.display())),
            }
        }
        lines
    }

    /// The same as JSON, with a schema version.
    pub fn as_json(&self, written: Written) -> String {
        let files =
            self.files.iter().map(|f| json!({ "path": f.path, "vehicle": f.method, "content": f.content }));
        let value = json!({
            "schema": SCHEMA,
            "dry_run": written == Written::No,
            "settings": self.entries.iter().map(entry_as_json).collect::<Vec<_>>(),
            "files": files.collect::<Vec<_>>(),
            "notes": self.notes,
        });
        format!("{value:#}")
    }
}

impl Undone {
    /// What was undone.
    pub fn as_text(&self) -> Lines {
        if self.removed.is_empty() && self.report.undone.is_empty() && self.files_left == 0 {
            return ["nothing lasts that Flyball changed"].into_iter().collect();
        }
        let restored = self.report.restored().map(ToString::to_string);
        self.removed.iter().map(|path| format!("removed {path}")).chain(restored).collect()
    }

    /// The same as JSON, with a schema version.
    pub fn as_json(&self) -> String {
        let texts = |all: &mut dyn Iterator<Item = &crate::ledger::Undone>| {
            all.map(ToString::to_string).collect::<Vec<String>>()
        };
        let value = json!({
            "schema": SCHEMA,
            "removed": self.removed,
            "restored": texts(&mut self.report.restored()),
            "left_alone": texts(&mut self.report.foreign()),
            "failed": texts(&mut self.report.failed()),
            "notes": self.notes,
        });
        format!("{value:#}")
    }
}

impl LastingStatus {
    /// What lasts, and how it differs by now; empty where nothing lasts.
    pub fn as_text(&self) -> Lines {
        let mut lines = Lines::default();
        for (entry, drifts) in &self.entries {
            let why = if entry.reason.is_empty() { String::new() } else { format!(" ({})", entry.reason) };
            lines.line(format_args!("lasting: {} = {}, by {}{why}", entry.setting, entry.new, entry.method));
            lines.extend(drifts.iter().map(|drift| format!("  drift: {drift}")));
        }
        for (file, state) in &self.files {
            let path = file.path.display();
            match state {
                FileState::AsWritten => {}
                FileState::Gone => {
                    lines.line(format_args!(
                        "drift: `{path}` is gone: nothing brings its values back at boot"
                    ));
                }
                FileState::Edited => lines.line(format_args!("drift: `{path}` is not as Flyball wrote it")),
            }
        }
        if self.unfinished {
            lines.line("note: a lasting change was cut short; `flyball restore` completes it");
        }
        lines
    }

    /// The same as JSON.
    pub fn as_json(&self) -> Value {
        let entry = |(entry, drifts): &(Entry, Vec<Drift>)| {
            let mut value = entry_as_json(entry);
            value["drift"] = drifts.iter().map(ToString::to_string).collect();
            value
        };
        let file = |(file, state): &(OwnText, FileState)| {
            let state = match state {
                FileState::AsWritten => "as_written",
                FileState::Gone => "gone",
                FileState::Edited => "edited",
            };
            json!({ "path": file.path, "vehicle": file.method, "state": state })
        };
        json!({
            "settings": self.entries.iter().map(entry).collect::<Vec<_>>(),
            "files": self.files.iter().map(file).collect::<Vec<_>>(),
            "unfinished": self.unfinished,
        })
    }
}

fn entry_as_json(entry: &Entry) -> Value {
    json!({
        "setting": entry.setting,
        "path": entry.path,
        "before": entry.old(),
        "value": entry.new,
        "vehicle": entry.method,
        "only_at_boot": entry.only_at_boot,
        "command_line": command_line::word(entry),
        "why": entry.reason,
        "when_ns": entry.when_ns,
    })
}
