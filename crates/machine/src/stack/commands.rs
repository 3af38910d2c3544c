//! Command lines that build layers. Nothing here runs them: the same lists are shown by `--dry-run`.

/// A program and its arguments.
pub type Argv = Vec<String>;

/// What is written to has to be ours before any of these runs. No signature of an earlier layer is left to
/// confuse what probes for one.
pub(super) fn wipe(devices: &[String]) -> Argv {
    argv(["wipefs", "--all", "--quiet"], devices.iter().cloned())
}

pub(super) fn argv<const N: usize>(words: [&str; N], more: impl IntoIterator<Item = String>) -> Argv {
    words.iter().map(|word| (*word).to_owned()).chain(more).collect()
}
