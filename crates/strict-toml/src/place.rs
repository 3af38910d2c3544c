//! Lines and columns.

use std::fmt;

/// Begins a file of some editors, and is seen in none.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl Place {
    /// Where a byte of a text is. A byte behind its end stands for the end, one within a character for that
    /// character.
    pub fn of(text: &str, byte: usize) -> Self {
        let boundary = (0..=byte.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
        let before = &text[..boundary.unwrap_or(0)];
        let line_start = before.rfind('\n').map_or(0, |index| index + 1);
        let column = before[line_start..].trim_start_matches(BYTE_ORDER_MARK).chars().count() + 1;
        Self { line: before.matches('\n').count() + 1, column }
    }
}

/// `line:column`, as compilers write it.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_from_1_and_in_characters() {
        let text = "a = 1\nü = 'é', b\n";
        for (what, expected) in [("a", "1:1"), ("\n", "1:6"), ("ü", "2:1"), ("b", "2:10")] {
            assert_eq!(Place::of(text, text.find(what).unwrap()).to_string(), expected, "{what:?}");
        }
        assert_eq!(Place::of(text, text.len()).to_string(), "3:1");
    }

    #[test]
    fn a_byte_within_a_character_or_behind_the_end_has_a_place() {
        assert_eq!(Place::of("ü", 1).to_string(), "1:1");
        assert_eq!(Place::of("ü", 99).to_string(), "1:2");
        assert_eq!(Place::of("", 0).to_string(), "1:1");
        assert_eq!(Place::of("\u{feff}a", 3).to_string(), "1:1");
    }
}
