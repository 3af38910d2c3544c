//! What only the boot can set: a word of the kernel's command line, to be printed. Pure.

use super::record::Entry;

/// Module and parameter of a file under `/sys/module/MODULE/parameters`.
pub(super) fn parameter(path: &str) -> Option<(&str, &str)> {
    let (module, parameter) = path.strip_prefix("/sys/module/")?.split_once("/parameters/")?;
    (!module.contains('/') && !parameter.contains('/')).then_some((module, parameter))
}

/// `loop.max_part=8`. A module that is loaded later takes it as well: `modprobe` reads the command line.
pub fn word(entry: &Entry) -> Option<String> {
    let (module, parameter) = parameter(&entry.path)?;
    let value = &entry.new;
    // The kernel takes quotes around the value; modprobe does as well.
    let value = if value.contains(' ') { format!("\"{value}\"") } else { value.clone() };
    Some(format!("{module}.{parameter}={value}"))
}

/// Why an entry does not fit; `None` where it does.
pub(super) fn unfit(entry: &Entry) -> Option<String> {
    super::lines::forbidden(&entry.new, &['"'])
}

/// Whether a command line says it, and says nothing else of the same parameter after it. Dashes and
/// underscores are one to the kernel.
pub(super) fn has(command_line: &str, entry: &Entry) -> bool {
    let Some(word) = word(entry) else { return false };
    let plain = |word: &str| match word.split_once('=') {
        Some((name, value)) => (name.replace('-', "_"), value.to_owned()),
        None => (word.replace('-', "_"), String::new()),
    };
    let (name, value) = plain(&word);
    let last = words(command_line).into_iter().map(|w| plain(&w)).rfind(|(n, _)| *n == name);
    last.is_some_and(|(_, found)| found == value)
}

/// Its words; a space between quotes separates nothing.
fn words(command_line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in command_line.trim().chars() {
        quoted ^= c == '"';
        match words.last_mut() {
            Some(word) if quoted || !c.is_whitespace() => word.push(c),
            _ => words.push(String::new()),
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::lines::tests::entry;
    use super::super::record::PersistMethod::CommandLine;
    use super::*;

    #[test]
    fn a_modules_parameter_is_a_word() {
        let e = entry(CommandLine, "x", "/sys/module/nvme_core/parameters/io_timeout", "30", "60");
        assert_eq!(word(&e).as_deref(), Some("nvme_core.io_timeout=60"));
        assert!(has("ro quiet nvme-core.io_timeout=60", &e));
        assert!(has("nvme_core.io_timeout=30 nvme_core.io_timeout=60 quiet", &e));
        assert!(!has("nvme_core.io_timeout=60 nvme_core.io_timeout=30", &e));
        assert!(!has("nvme_core.io_timeout=600", &e));
        let spaced = entry(CommandLine, "x", "/sys/module/a/parameters/b", "1", "c d");
        assert_eq!(word(&spaced).as_deref(), Some("a.b=\"c d\""));
        assert!(has("x a.b=\"c d\" y", &spaced));
    }

    #[test]
    fn other_paths_are_no_parameters() {
        assert_eq!(parameter("/sys/module/a/holders/b"), None);
        assert_eq!(parameter("/sys/kernel/mm/ksm/run"), None);
    }
}
