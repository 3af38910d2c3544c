//! Lines of a screen as data.

/// How a piece of a line looks. Nothing is said by it alone: a terminal may have no styles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// As usual.
    #[default]
    Plain,
    /// A heading.
    Heading,
    /// What is not certain, or matters least.
    Faint,
    /// What is to be seen first.
    Strong,
    /// A command to type.
    Command,
}

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its text, which is not inert yet.
    pub text: String,
    /// How it looks.
    pub style: Style,
}

/// A line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line(pub Vec<Span>);

impl Line {
    /// A line of one piece.
    pub fn plain(text: impl Into<String>) -> Self {
        Self::default().and(text, Style::Plain)
    }

    /// The same line with one more piece.
    #[must_use]
    pub fn and(mut self, text: impl Into<String>, style: Style) -> Self {
        self.0.push(Span { text: text.into(), style });
        self
    }
}

/// The text of lines, without styles.
pub fn text_of(lines: &[Line]) -> String {
    let text = |line: &Line| line.0.iter().map(|span| span.text.as_str()).collect::<String>();
    lines.iter().map(|line| text(line).trim_end().to_owned() + "\n").collect()
}

/// A text cut to a number of columns, with a mark where it was.
pub fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let kept = columns.saturating_sub(2);
    text.chars().take(kept).chain("..".chars()).take(columns).collect()
}

/// A text broken between words into at most `most` lines; the last is cut.
pub fn broken(text: &str, columns: usize, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let has_room = lines.last().is_some_and(|line| {
            line.is_empty() || line.chars().count() + 1 + word.chars().count() <= columns
        });
        if !has_room && lines.len() < most {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.iter().map(|line| cut(line, columns)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_broken_between_words_and_its_end_is_cut() {
        assert_eq!(broken("the CPU is at its limit", 11, 2), ["the CPU is", "at its li.."]);
        assert_eq!(broken("short", 11, 2), ["short"]);
        assert_eq!(broken("", 11, 2), [""]);
        assert_eq!(cut("ünïcode", 5), "ünï..");
        assert_eq!(cut("x", 0), "");
    }
}
