//! `flyball complete`: what may stand at a shell's cursor. The scripts of `flyball completions` call it.
//!
//! It says nothing on errors, takes no lock and writes nothing: the notebook's folder of runs is listed, and
//! nothing in it opened. What names there are says [`session::candidates`].

use crate::exit::End;
use crate::places;
use command_line::{Global, cursor};
use domain::inert::Lines;
use session::candidates::names;
use std::collections::BTreeSet;
use std::ffi::OsString;

/// A bound on names that are offered.
const MAX_OFFERED: usize = 2_000;

/// Prints what begins with the last of these words, each on a line; the words are those behind the program's
/// name, up to the cursor.
pub fn complete(global: &Global, words: &[OsString]) -> End {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let Some((begun, before)) = words.split_last() else { return End::Done };
    let before = without_equals(before);
    let begun = if begun == "=" { "" } else { begun };
    let global = &Global { notebook: notebook_of(&before).or_else(|| global.notebook.clone()), json: false };
    let notebook = places::notebook(global).ok();
    let names = cursor::named(&before).map_or_else(BTreeSet::new, |named| names(named, notebook.as_deref()));
    let lines: Lines = names.iter().filter(|name| name.starts_with(begun)).take(MAX_OFFERED).collect();
    // Whoever asked may be gone.
    let _ = terminal::lines(&lines);
    End::Done
}

/// bash divides `--set=governor` into three words.
fn without_equals(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).filter(|word| *word != "=").collect()
}

/// The notebook that was typed.
fn notebook_of(words: &[&str]) -> Option<std::path::PathBuf> {
    let at = words.iter().position(|word| *word == "--notebook")?;
    words.get(at + 1).map(Into::into)
}
