//! Styles of a screen on a terminal: headings and the verdict in bold, commands to type in a colour of their
//! own, what is not certain fainter. Without a terminal, with `NO_COLOR` (<https://no-color.org>) or on a
//! terminal that is `dumb`, the text is as it is.

use std::env;

const RESET: &str = "\u{1b}[0m";
const BOLD: &str = "\u{1b}[1m";
const FAINT: &str = "\u{1b}[2m";
const GREEN: &str = "\u{1b}[32m";
const COMMAND: &str = "\u{1b}[36m";

/// Whether the user's terminal takes styles: not where `NO_COLOR` is set, or `TERM` is `dumb`.
pub fn are_wanted() -> bool {
    let is_set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

/// Where the text of a section begins, in columns.
const MARGIN: usize = 13;

/// How certain a finding is, at its end.
const CERTAINTIES: [(&str, &str); 3] = [("(shown)", GREEN), ("(likely)", ""), ("(possible)", FAINT)];

/// A screen of sections with styles. It is inert already: what looks like a style in it is none.
pub fn styled(screen: &str) -> String {
    let (mut text, mut section) = (String::new(), "");
    for line in screen.lines() {
        let (heading, body) = divided(line);
        if !heading.is_empty() {
            section = heading.trim_end();
            text += &format!("{BOLD}{heading}{RESET}");
        }
        text += &of_body(section, body);
        text.push('\n');
    }
    text
}

/// The heading of a section and the rest of its first line; no heading on other lines.
fn divided(line: &str) -> (&str, &str) {
    let is_heading = line.starts_with(|c: char| c.is_ascii_uppercase());
    let at = line
        .char_indices()
        .nth(MARGIN)
        .map(|(at, _)| at)
        .filter(|at| is_heading && line[..*at].ends_with(' '));
    line.split_at(at.unwrap_or_default())
}

fn of_body(section: &str, body: &str) -> String {
    let styled = |style: &str| format!("{style}{body}{RESET}");
    let is_command = body.starts_with("    ") && !body.starts_with(&" ".repeat(MARGIN));
    match section {
        "Next" if is_command => styled(COMMAND),
        "Verdict" if !body.trim().is_empty() => styled(BOLD),
        _ => {
            let certainty =
                CERTAINTIES.iter().find(|(word, style)| !style.is_empty() && body.ends_with(word));
            certainty.map_or_else(
                || body.to_owned(),
                |(word, style)| format!("{}{style}{word}{RESET}", &body[..body.len() - word.len()]),
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BOLD, COMMAND, RESET, styled};

    const SCREEN: &str = "Question     Is it so?\nFound        it is (shown)\nVerdict      yes\n             and no\n\
                          Next         why\n    flyball explain x \\\n      --json\n";

    fn plain(text: &str) -> String {
        let mut pieces = text.split('\u{1b}');
        let first = pieces.next().unwrap().to_owned();
        pieces.fold(first, |text, piece| text + piece.split_once('m').unwrap().1)
    }

    #[test]
    fn styles_leave_the_text_as_it_is() {
        let text = styled(SCREEN);
        assert_eq!(plain(&text), SCREEN);
        assert!(text.contains(&format!("{BOLD}Verdict      {RESET}{BOLD}yes{RESET}")), "{text}");
        assert!(text.contains(&format!("{BOLD}             and no{RESET}")), "{text}");
        assert!(text.contains(&format!("{COMMAND}    flyball explain x \\{RESET}")), "{text}");
        assert_eq!(plain(&styled("Ünïcode ohne Ende und weiter\n")), "Ünïcode ohne Ende und weiter\n");
    }
}
