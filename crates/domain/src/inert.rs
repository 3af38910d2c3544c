//! Text of others, made inert: what a terminal, a page or a reader's eye would obey becomes a visible escape.
//!
//! Names of files, cells, metrics and hosts, the words of tools, disks and guests, all come from outside. A
//! byte 0x1b in one of them moves the cursor, U+202E turns the rest of a line around, a line break forges a
//! line of its own. Here such a character becomes `\x1b` or `\u{202e}`: the reader sees that it was there,
//! and nothing obeys it. All texts that leave this program for people pass through one of these functions;
//! what is for programs (JSON, CSV) has the two at the end.
//!
//! What is live: the controls C0, DEL and C1, controls and marks of the bidirectional algorithm (Unicode
//! Standard Annex 9), and everything that has no glyph of its own: separators of lines and paragraphs,
//! zero-width characters, tags, fillers and noncharacters (`Default_Ignorable_Code_Point` of Unicode 16
//! without the variation selectors 1 to 16, on which emoji depend).
//!
//! Non-goals: letters that look like others, letters that are written from right to left, and stacks of
//! combining marks.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character acts instead of being seen. Line feed and tab are live too.
pub const fn is_live(c: char) -> bool {
    let code = c as u32;
    if code < 0x7f {
        return code < 0x20;
    }
    matches!(c,
        '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fdd0}'..='\u{fdef}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
        // The last two of each plane are no characters.
        || code & 0xfffe == 0xfffe
}

/// A name or a message on one line: line breaks and tabs become visible too.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_live)
}

/// A text of several lines: line feeds and tabs stay, and the carriage returns of a DOS file go.
pub fn lines(text: &str) -> Cow<'_, str> {
    let is_live = |c| is_live(c) && c != '\n' && c != '\t';
    if text.contains("\r\n") {
        return Cow::Owned(escaped(&text.replace("\r\n", "\n"), is_live).into_owned());
    }
    escaped(text, is_live)
}

/// Sentences on one line: line breaks, tabs and the blanks around them become one blank, as in a paragraph.
pub fn prose(text: &str) -> Cow<'_, str> {
    let is_break = |c: char| matches!(c, '\n' | '\r' | '\t');
    if !text.contains(is_break) {
        return one_line(text);
    }
    let parts = text.split(is_break).map(str::trim).filter(|part| !part.is_empty());
    Cow::Owned(parts.map(one_line).collect::<Vec<_>>().join(" "))
}

/// Bytes that may be no text, such as a file's name, on one line.
pub fn of_bytes(bytes: &[u8]) -> String {
    let mut shown = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        shown.push_str(&one_line(chunk.valid()));
        chunk.invalid().iter().for_each(|byte| escape_byte(&mut shown, *byte));
    }
    shown
}

/// A text in JSON that means the same: live characters in its strings become `\u` escapes, those between its
/// values blanks.
///
/// JSON itself demands that only of C0 (RFC 8259, section 7).
pub fn json(text: &str) -> Cow<'_, str> {
    let is_live = |c: char| is_live(c) && c != '\n' && c != '\t';
    replaced(text, is_live, |out, c| match c {
        // Within a string it can only be escaped.
        '\r' => out.push(' '),
        c => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| {
            // Writing to a String cannot fail.
            let _ = write!(out, "\\u{unit:04x}");
        }),
    })
}

/// What a cell of a spreadsheet must not begin with, lest it be computed (OWASP, "CSV Injection"); the wide
/// ones are the same to a Japanese Excel.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// A cell of a table for spreadsheets: on one line, and no formula. A number stays one; other text that
/// begins like a formula gets an apostrophe before it, also behind a semicolon, at which a spreadsheet of
/// some countries divides cells.
pub fn csv_cell(text: &str) -> Cow<'_, str> {
    let text = one_line(text);
    if is_number(&text) || !text.contains(FORMULA) {
        return text;
    }
    let mut cell = String::with_capacity(text.len() + 1);
    let mut at_start = true;
    for c in text.chars() {
        if at_start && FORMULA.contains(&c) {
            cell.push('\'');
        }
        at_start = c == ';' || at_start && matches!(c, ' ' | '\u{a0}' | '"');
        cell.push(c);
    }
    Cow::Owned(cell)
}

fn is_number(text: &str) -> bool {
    text.parse::<f64>().is_ok() && text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b))
}

fn escaped(text: &str, is_live: impl Fn(char) -> bool) -> Cow<'_, str> {
    replaced(text, is_live, |out, c| match c {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        c if (c as u32) < 0x100 => escape_byte(out, c as u8),
        // Writing to a String cannot fail.
        c => drop(write!(out, "\\u{{{:x}}}", c as u32)),
    })
}

fn escape_byte(out: &mut String, byte: u8) {
    // Writing to a String cannot fail.
    let _ = write!(out, "\\x{byte:02x}");
}

fn replaced(text: &str, is_live: impl Fn(char) -> bool, put: impl Fn(&mut String, char)) -> Cow<'_, str> {
    let Some(first) = text.find(&is_live) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len() + 16);
    out.push_str(&text[..first]);
    for c in text[first..].chars() {
        if is_live(c) { put(&mut out, c) } else { out.push(c) }
    }
    Cow::Owned(out)
}

/// A text that grows by whole lines: what is put in as one line stays one, whatever names are in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines(String);

impl Lines {
    /// Adds a line.
    pub fn line(&mut self, line: impl std::fmt::Display) {
        self.0.push_str(one_line(&line.to_string()).trim_end_matches(' '));
        self.0.push('\n');
    }

    /// Adds an empty line.
    pub fn blank(&mut self) {
        self.0.push('\n');
    }

    /// Adds lines.
    pub fn extend<L: std::fmt::Display>(&mut self, lines: impl IntoIterator<Item = L>) {
        lines.into_iter().for_each(|line| self.line(line));
    }

    /// Adds all lines of another.
    pub fn append(&mut self, other: &Self) {
        self.0.push_str(&other.0);
    }

    /// All of it, with a line feed at the end of each line.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<L: std::fmt::Display> FromIterator<L> for Lines {
    fn from_iter<I: IntoIterator<Item = L>>(lines: I) -> Self {
        let mut all = Self::default();
        all.extend(lines);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_is_shown_and_what_is_seen_stays() {
        for (text, shown) in [
            ("plain, ünïcödé, 漢字, עברית, ❤\u{fe0f}", "plain, ünïcödé, 漢字, עברית, ❤\u{fe0f}"),
            ("a\x1b[31mb", "a\\x1b[31mb"),
            ("\u{9b}31m", "\\x9b31m"),
            ("a\u{202e}b\u{2066}c", "a\\u{202e}b\\u{2066}c"),
            ("a\nerror: b\tc\r", "a\\nerror: b\\tc\\r"),
            ("\0\x7f\u{feff}\u{e0041}\u{2028}", "\\x00\\x7f\\u{feff}\\u{e0041}\\u{2028}"),
        ] {
            assert_eq!(one_line(text), shown);
        }
        assert_eq!(lines("a\n\tb\x07\r\nc\rd"), "a\n\tb\\x07\nc\\rd");
        assert_eq!(prose(" two\r\n  lines\x1b "), "two lines\\x1b");
        assert_eq!(of_bytes(b"a\xff\xc0\xafb\n"), "a\\xff\\xc0\\xafb\\n");
    }

    #[test]
    fn every_ignorable_and_control_character_is_live() {
        let live = (0..=0x0010_ffff).filter_map(char::from_u32).filter(|c| is_live(*c)).count();
        // C0 and C1 with DEL 65; noncharacters 66; the tags' block 4096; the others are counted by hand.
        assert_eq!(live, 32 + 33 + 66 + 4096 + 7 + 5 + 5 + 7 + 16 + 3 + 12 + 4 + 8);
        assert!((0..=0x0010_ffff).filter_map(char::from_u32).all(|c| !c.is_control() || is_live(c)));
    }

    #[test]
    fn json_means_the_same() {
        let text = "{\"a\u{9b}\":\r\n\"\\u001b \u{202e}\u{e0041}\u{7f}é\"}";
        assert_eq!(json(text), "{\"a\\u009b\": \n\"\\u001b \\u202e\\udb40\\udc41\\u007fé\"}");
        assert_eq!(json("[1,\n\t2]"), "[1,\n\t2]");
    }

    #[test]
    fn a_cell_is_no_formula_and_a_number_stays_one() {
        for (text, cell) in [
            ("-3.5", "-3.5"),
            ("+1e-9", "+1e-9"),
            ("a=b", "a=b"),
            ("=1+1", "'=1+1"),
            ("-3.5x", "'-3.5x"),
            ("@SUM(A1)", "'@SUM(A1)"),
            ("-inf", "'-inf"),
            ("＝1", "'＝1"),
            (" \"=1", " \"'=1"),
            ("\t=1", "\\t=1"),
            ("a;=1;-2;b", "a;'=1;'-2;b"),
        ] {
            assert_eq!(csv_cell(text), cell);
        }
    }

    #[test]
    fn a_line_stays_one_line() {
        let mut all: Lines = ["a\nb", "c  "].into_iter().collect();
        all.blank();
        assert_eq!(all.as_str(), "a\\nb\nc\n\n");
    }
}
