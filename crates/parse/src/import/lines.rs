//! Lines of a text, one at a time and bounded, with their places. The marks of a mail that quotes them are
//! taken off.

use super::error::{Error, Place};
use std::borrow::Cow;
use std::io::{BufRead, Read};

/// A bound on one line. The longest line of any tool here, sadf's with all CPUs of a large machine, has some
/// kilobytes.
pub const MAX_LINE: usize = 1 << 20;

/// One line.
#[derive(Debug)]
pub struct Line<'a> {
    /// Its text, without its end. Bytes that are no UTF-8 are replaced.
    pub text: Cow<'a, str>,
    /// Where it begins.
    pub place: Place,
}

/// Reads lines.
#[derive(Debug)]
pub struct Lines<R> {
    input: R,
    what: &'static str,
    line: Vec<u8>,
    next: Place,
}

impl<R: BufRead> Lines<R> {
    /// Of a file of this kind.
    pub fn new(input: R, what: &'static str) -> Self {
        Self { input, what, line: Vec::new(), next: Place { offset: 0, line: 1 } }
    }

    /// Where the next line begins.
    pub fn place(&self) -> Place {
        self.next
    }

    /// The next line; `None` at the end.
    ///
    /// # Errors
    /// Where a line is longer than [`MAX_LINE`], or reading fails.
    pub fn line(&mut self) -> Result<Option<Line<'_>>, Error> {
        self.line.clear();
        let read = (&mut self.input).take(MAX_LINE as u64 + 1).read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(None);
        }
        let place = self.next;
        if read > MAX_LINE {
            let reason = format!("a line is longer than {} KiB, which no tool's is", MAX_LINE >> 10);
            return Err(Error::at(self.what, place, reason));
        }
        self.next = Place { offset: place.offset + read as u64, line: place.line + 1 };
        let mut bytes = self.line.as_slice();
        while let [rest @ .., b'\n' | b'\r'] = bytes {
            bytes = rest;
        }
        while let [b'>', rest @ ..] = bytes {
            bytes = rest.strip_prefix(b" ").unwrap_or(rest);
        }
        Ok(Some(Line { text: String::from_utf8_lossy(bytes), place }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_with_their_places_and_without_marks_of_mails() {
        let mut lines = Lines::new(&b"a\r\n> > b\n\nc"[..], "text");
        let mut seen = Vec::new();
        while let Some(line) = lines.line().unwrap() {
            seen.push((line.text.into_owned(), line.place.offset, line.place.line));
        }
        let expected = [("a", 0, 1), ("b", 3, 2), ("", 9, 3), ("c", 10, 4)];
        assert_eq!(seen, expected.map(|(text, offset, line)| (text.to_owned(), offset, line)));
    }

    #[test]
    fn a_line_that_never_ends_is_refused_where_it_begins() {
        let mut text = b"short\n".to_vec();
        text.resize(MAX_LINE + 100, b'x');
        let mut lines = Lines::new(&text[..], "text");
        assert!(lines.line().unwrap().is_some());
        let error = lines.line().unwrap_err().to_string();
        assert!(error.contains("byte 6 (line 2)") && error.contains("1024 KiB"), "{error}");
    }
}
