//! Names of what ships with the program, as commands and studies give them, and what is said of a wrong one.

/// The fewest letters in common, by Jaro and Winkler's measure, of a name that may have been meant. Below,
/// the suggestions begin to look random.
const NEAR: f64 = 0.8;

/// One letter in so many may be wrong.
const MOST_WRONG: usize = 3;

/// A bound on the names whose nearest is looked for: no shipped one is near a longer.
const MAX_NEAR_CHARS: usize = 64;

/// Whether a word can only mean a file: it contains `/`, or ends in `.toml`.
pub fn is_path(word: &str) -> bool {
    word.contains('/') || word.ends_with(".toml")
}

/// The name that is written most like this one, where one is near enough to be meant: a few letters are wrong
/// or changed places, or the names begin alike.
pub fn nearest<'n>(wanted: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    if wanted.chars().count() > MAX_NEAR_CHARS {
        return None;
    }
    let names: Vec<&str> = names.into_iter().collect();
    let wrong = |name: &str| strsim::osa_distance(wanted, name);
    let typo = names.iter().min_by_key(|name| wrong(name)).filter(|name| {
        let letters = name.chars().count();
        letters > 1 && wrong(name) <= letters.div_ceil(MOST_WRONG)
    });
    let scored = names.iter().map(|&name| (strsim::jaro_winkler(wanted, name), name));
    let alike = scored.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(score, _)| *score >= NEAR);
    typo.copied().or(alike.map(|(_, name)| name))
}

/// What to do about a name that is nothing: the nearest, and the command that lists all.
pub fn hint<'n>(wanted: &str, names: impl IntoIterator<Item = &'n str>, list: &str) -> String {
    match nearest(wanted, names) {
        Some(near) => format!("did you mean `{near}`? `{list}` lists what ships with flyball"),
        None => format!("`{list}` lists what ships with flyball"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_one_that_may_have_been_meant() {
        let names = ["quick", "raid-levels", "published/raid-levels"];
        assert_eq!(nearest("raid-level", names), Some("raid-levels"));
        assert_eq!(nearest("qiuck", names), Some("quick"));
        assert_eq!(nearest("foi", ["dd", "fio", "T"]), Some("fio"));
        assert_eq!(nearest("m", ["t", "T", "bs"]), None);
        assert_eq!(nearest("published/raid-lvels", names), Some("published/raid-levels"));
        assert_eq!(nearest("database", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest(&"quick".repeat(1000), names), None);
    }

    #[test]
    fn a_word_with_a_slash_or_the_ending_of_a_study_is_a_path() {
        assert!(is_path("./quick") && is_path("quick.toml") && is_path("published/dmcrypt"));
        assert!(!is_path("quick"));
    }
}
