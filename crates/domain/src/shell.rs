//! Words as a shell reads them, for commands that are shown to be typed.

use crate::inert;

/// An argument as a shell would read it. What a terminal would obey is written as bash, zsh, ksh and
/// busybox's sh read it.
pub fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !argument.is_empty() && argument.chars().all(plain) {
        argument.to_owned()
    } else if argument.contains(inert::is_live) {
        format!("$'{}'", argument.chars().map(in_dollar_quotes).collect::<String>())
    } else {
        format!("'{}'", argument.replace('\'', r"'\''"))
    }
}

/// A character within `$'…'`, byte by byte where a terminal would obey it.
fn in_dollar_quotes(c: char) -> String {
    match c {
        '\'' | '\\' => format!("\\{c}"),
        c if inert::is_live(c) => {
            c.encode_utf8(&mut [0; 4]).bytes().map(|byte| format!("\\{byte:03o}")).collect()
        }
        c => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_with_a_quote_survives_the_shell() {
        assert_eq!(["dd", "if=it's", ""].map(quoted).join(" "), r"dd 'if=it'\''s' ''");
        assert_eq!(quoted("a'\x1b[2J\u{202e}\\é"), r"$'a\'\033[2J\342\200\256\\é'");
    }
}
