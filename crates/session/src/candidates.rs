//! What a shell offers at its cursor: the names of runs, studies, simulated machines and settings. Folders
//! are listed, and nothing in them is opened.

use domain::ids::{Named, RunId};
use machine::settings::{KNOWN, SYSCTL_ROOTS};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// A bound on entries of a folder that are looked at: a shell waits for them.
const MAX_ENTRIES: usize = 20_000;

/// The names of one kind, each of which a shell takes as one word that means itself: nothing hostile in a
/// notebook or a folder reaches a command line. None where a folder cannot be read.
pub fn names(kind: Named, notebook: Option<&Path>) -> BTreeSet<String> {
    let mut names = all(kind, notebook);
    names.retain(|name| is_plain(name));
    names
}

fn all(kind: Named, notebook: Option<&Path>) -> BTreeSet<String> {
    match kind {
        Named::Runs => notebook.map(runs).unwrap_or_default(),
        Named::Studies => {
            let shipped = crate::studies::SHIPPED.iter().map(|study| study.name.to_owned());
            shipped.chain(entries(Path::new(".")).filter(|name| name.ends_with(".toml"))).collect()
        }
        Named::Machines => crate::simulation::SHIPPED.iter().map(|(name, _)| (*name).to_owned()).collect(),
        Named::Settings => KNOWN.iter().map(|known| known.name.to_owned()).chain(sysctls()).collect(),
    }
}

/// The runs, and the studies of which they are: these stand for the last run of each.
fn runs(notebook: &Path) -> BTreeSet<String> {
    let runs: Vec<RunId> = entries(&notebook.join("runs")).map(RunId).collect();
    let studies: Vec<String> = runs.iter().filter_map(RunId::study).map(str::to_owned).collect();
    runs.into_iter().map(|run| run.0).chain(studies).collect()
}

fn sysctls() -> impl Iterator<Item = String> {
    SYSCTL_ROOTS.iter().flat_map(|root| {
        let folder = Path::new("/proc/sys").join(root.trim_end_matches('.').replace('.', "/"));
        entries(&folder).map(move |name| format!("{root}{name}"))
    })
}

/// The names in a folder; none where it cannot be read.
fn entries(folder: &Path) -> impl Iterator<Item = String> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().take(MAX_ENTRIES);
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

/// Whether a shell takes the name as one word that means itself.
fn is_plain(name: &str) -> bool {
    let is_of_a_name = |c: char| c.is_ascii_alphanumeric() || "-_./@+".contains(c);
    name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_of_a_name)
}

#[cfg(test)]
mod tests {
    use super::is_plain;

    #[test]
    fn only_a_word_that_means_itself_is_offered() {
        assert!(
            ["quick-20261120-140502-7f3a", "published/raid10", "read_ahead_kb@sda"].into_iter().all(is_plain)
        );
        for name in
            ["", "a b", "$(id)", "`id`", "a;b", "-rf", "--yes", "*", "a\u{1b}[2J", "~x", "a'b", "a\nb", "é"]
        {
            assert!(!is_plain(name), "{name}");
        }
    }
}
