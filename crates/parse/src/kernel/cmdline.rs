//! `/proc/cmdline`: `Documentation/admin-guide/kernel-parameters.rst`.

/// Splits at white space outside double quotes; the quotes stay.
pub fn parse(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in text.trim().chars() {
        quoted ^= c == '"';
        match words.last_mut() {
            Some(word) if !c.is_whitespace() || quoted => word.push(c),
            _ => words.push(String::new()),
        }
    }
    words.retain(|w| !w.is_empty());
    words
}

/// The value of `key=value`; of the last one, as the kernel takes it. Everything after `--` is for init.
pub fn value<'a>(words: &'a [String], key: &str) -> Option<&'a str> {
    let ours = words.iter().take_while(|w| *w != "--");
    ours.filter_map(|w| w.split_once('=')).filter(|(k, _)| *k == key).map(|(_, v)| v).last()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_values_stay_one_word_and_the_last_value_wins() {
        let words = parse("ro  dyndbg=\"file a.c +p\" preempt=full preempt=none -- preempt=init\n");
        assert_eq!(words[1], "dyndbg=\"file a.c +p\"");
        assert_eq!(value(&words, "preempt"), Some("none"));
        assert_eq!(value(&words, "ro"), None);
    }
}
