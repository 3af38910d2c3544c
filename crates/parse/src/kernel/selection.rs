//! Files that list all choices and mark the one in force: `none [mq-deadline] kyber`, `none (full)`.

/// All choices, and which of them is in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// In force. A lone word without brackets is: there is nothing else to choose.
    pub chosen: Option<String>,
    /// All, in the file's order.
    pub choices: Vec<String>,
}

/// Reads such a file.
pub fn parse(text: &str) -> Selection {
    let mut selection = Selection::default();
    for word in text.split_whitespace() {
        let within = |open, close| word.strip_prefix::<char>(open)?.strip_suffix::<char>(close);
        let chosen = within('[', ']').or_else(|| within('(', ')'));
        if let Some(chosen) = chosen {
            selection.chosen = Some(chosen.to_owned());
        }
        selection.choices.push(chosen.unwrap_or(word).to_owned());
    }
    if let [only] = &selection.choices[..] {
        selection.chosen = Some(only.clone());
    }
    selection
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bracketed_word_is_chosen_and_a_lone_one_too() {
        let disk = parse("none [mq-deadline] kyber\n");
        assert_eq!(disk.chosen.as_deref(), Some("mq-deadline"));
        assert_eq!(disk.choices, ["none", "mq-deadline", "kyber"]);
        assert_eq!(parse("none voluntary (full) lazy\n").chosen.as_deref(), Some("full"));
        assert_eq!(parse("none\n").chosen.as_deref(), Some("none"));
        assert_eq!(parse("a b"), Selection { chosen: None, choices: vec!["a".into(), "b".into()] });
    }
}
