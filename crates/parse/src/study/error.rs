//! What is wrong with a study file: all of it, each with its place.

use domain::inert::{Lines, one_line, prose};
use domain::order;
use domain::setting::SettingName;
use std::cell::{Cell, RefCell};
use std::fmt;
use strict_toml::Place;

/// How many errors are kept: more than anybody corrects before the next try.
const MAX_ERRORS: usize = 50;

/// How many settings are kept, to be looked up where a study is wrong.
const MAX_SETTINGS: usize = 1000;

/// How much of a text is shown: a mistake may be a megabyte long, its message not.
const MAX_SHOWN_CHARS: usize = 800;

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StudyError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The path of the key, such as `workload.seqread.options.bs`; empty where the text is not TOML there.
    pub key: String,
    /// What is wrong, and what to do.
    pub problem: String,
}

impl fmt::Display for StudyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { line, column, key, problem } = self;
        match key.as_str() {
            "" => write!(f, "line {line}, column {column}: {problem}"),
            key => write!(f, "line {line}, column {column}: `{key}`: {problem}"),
        }
    }
}

/// Everything that is wrong with a study file, in the order of the file; never empty.
///
/// Where the text is not TOML these are the places where it is not; what the study means is looked at once it
/// is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StudyErrors {
    errors: Vec<StudyError>,
    left_out: usize,
    settings: Vec<NamedSetting>,
}

/// A setting that a study names, or a value of one, and where: line, column and path as in [`StudyError`].
#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedSetting {
    line: usize,
    column: usize,
    key: String,
    setting: SettingName,
    value: Option<String>,
}

impl StudyErrors {
    /// The errors, at most 50 of them.
    pub fn list(&self) -> &[StudyError] {
        &self.errors
    }

    /// The same, with what is wrong with the settings that the file names: only a machine knows which there
    /// are. `problem` says what is wrong with a name, or with one value of it.
    #[must_use]
    pub fn with_settings(mut self, problem: impl Fn(&SettingName, Option<&str>) -> Option<String>) -> Self {
        for NamedSetting { line, column, key, setting, value } in std::mem::take(&mut self.settings) {
            let Some(problem) = problem(&setting, value.as_deref()).map(shortened) else { continue };
            let error = StudyError { line, column, key, problem };
            match self.errors.len() < MAX_ERRORS {
                _ if self.errors.contains(&error) => {}
                true => self.errors.push(error),
                false => self.left_out += 1,
            }
        }
        order::by_key(&mut self.errors, |error| (error.line, error.column));
        self
    }

    /// One line an error, as compilers write them: `studies/quick.toml:12:3: …`, so that editors can follow.
    /// Each is inert.
    pub fn show(&self, file: &str) -> String {
        let line = |e: &StudyError| match e.key.as_str() {
            "" => format!("{file}:{}:{}: {}", e.line, e.column, prose(&e.problem)),
            key => format!("{file}:{}:{}: `{key}`: {}", e.line, e.column, prose(&e.problem)),
        };
        let mut lines: Lines = self.errors.iter().map(line).collect();
        if self.left_out > 0 {
            lines.line(format_args!("{file}: and {} more errors; correct these first", self.left_out));
        }
        lines.as_str().to_owned()
    }
}

impl fmt::Display for StudyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.errors.iter().map(|e| one_line(&e.to_string()).into_owned()).collect();
        f.write_str(&lines.join("\n"))?;
        match self.left_out {
            0 => Ok(()),
            more => write!(f, "\nand {more} more errors; correct these first"),
        }
    }
}

impl std::error::Error for StudyErrors {}

/// Collects errors while a study is read. Readers share it, so that each can go on after an error.
pub(super) struct Problems<'t> {
    text: &'t str,
    found: RefCell<Vec<(usize, String, String)>>,
    left_out: Cell<usize>,
    settings: RefCell<Vec<(usize, NamedSetting)>>,
}

impl<'t> Problems<'t> {
    pub(super) fn of(text: &'t str) -> Self {
        Self { text, found: RefCell::default(), left_out: Cell::default(), settings: RefCell::default() }
    }

    /// Notes that a setting is named at a byte of the text, or is to be set to a value.
    pub(super) fn note_setting(
        &self,
        offset: usize,
        key: String,
        setting: SettingName,
        value: Option<String>,
    ) {
        let mut settings = self.settings.borrow_mut();
        if settings.len() < MAX_SETTINGS {
            // Its line is counted only where the study is wrong.
            let named = NamedSetting { line: 0, column: 0, key: shortened(key), setting, value };
            settings.push((offset, named));
        }
    }

    /// Notes a problem at a byte of the text.
    pub(super) fn add(&self, offset: usize, key: impl Into<String>, problem: impl Into<String>) {
        let mut found = self.found.borrow_mut();
        if found.len() < MAX_ERRORS {
            found.push((offset, shortened(key.into()), shortened(problem.into())));
        } else {
            self.left_out.set(self.left_out.get() + 1);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// Whether a problem has this path, or one below it.
    pub(super) fn is_any_below(&self, path: &str) -> bool {
        let is_below = |key: &str| {
            key.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        self.found.borrow().iter().any(|(_, key, _)| is_below(key))
    }

    /// Whether there is no line break between two bytes.
    pub(super) fn share_a_line(&self, one: usize, other: usize) -> bool {
        let between = self.text.as_bytes().get(one.min(other)..one.max(other));
        between.is_some_and(|bytes| !bytes.contains(&b'\n'))
    }

    /// What was read, or everything that is wrong with it.
    ///
    /// A reader that gives nothing has said why; otherwise it is at fault itself.
    pub(super) fn settle<T>(self, read: Option<T>) -> Result<T, StudyErrors> {
        if let (true, Some(value)) = (self.is_empty(), read) {
            return Ok(value);
        }
        assert!(!self.is_empty(), "a part of the study was not read, and nobody said why");
        let mut found = self.found.take();
        order::by_key(&mut found, |(offset, ..)| *offset);
        let error = |(offset, key, problem): (usize, String, String)| {
            let Place { line, column } = Place::of(self.text, offset);
            StudyError { line, column, key, problem }
        };
        let errors = found.into_iter().map(error).collect();
        let setting = |(offset, named): (usize, NamedSetting)| {
            let Place { line, column } = Place::of(self.text, offset);
            NamedSetting { line, column, ..named }
        };
        let settings = self.settings.take().into_iter().map(setting).collect();
        Err(StudyErrors { errors, left_out: self.left_out.get(), settings })
    }
}

fn shortened(text: String) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
