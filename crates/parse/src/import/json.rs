//! JSON as a stream of tokens, whatever its length: memory is one buffer and one byte a level of nesting.
//!
//! It is strict in structure, and takes what tools print: a number is what Rust reads as one. Bytes that are no UTF-8 are
//! refused. Source: RFC 8259.

use super::error::{Error, Place};
use std::io::Read;

/// A bound on nesting. sadf's deepest has 9 levels, fio's json+ 7.
pub const MOST_DEPTH: usize = 64;

/// A bound on one text or number.
pub const MOST_TOKEN: usize = 1 << 20;

/// What is read at once: so much that a buffered reader's own buffer is passed by, even where a token is left over.
const CHUNK: usize = 512 << 10;

/// One step through a document.
#[derive(Debug, PartialEq)]
pub enum Token<'a> {
    /// `{`
    Object,
    /// `[`
    Array,
    /// `}` or `]`
    End,
    /// A key of an object; its value follows.
    Key(&'a str),
    /// A text.
    Text(&'a str),
    /// A number.
    Number(f64),
    /// `true`, `false` or `null`.
    Word,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Want {
    Value,
    ValueOrEnd,
    Key,
    KeyOrEnd,
    Colon,
    CommaOrEnd,
    Nothing,
}

/// Reads tokens of one document.
#[derive(Debug)]
pub struct Tokens<R> {
    input: R,
    what: &'static str,
    buffer: Vec<u8>,
    at: usize,
    end: usize,
    /// Bytes and lines before the buffer.
    before: Place,
    open: Vec<u8>,
    want: Want,
    scratch: String,
}

impl<R: Read> Tokens<R> {
    /// Of a file of this kind.
    pub fn new(input: R, what: &'static str) -> Self {
        Self {
            input,
            what,
            buffer: vec![0; CHUNK],
            at: 0,
            end: 0,
            before: Place::default(),
            open: Vec::new(),
            want: Want::Value,
            scratch: String::new(),
        }
    }

    /// Where the next token begins, or nearly.
    pub fn place(&self) -> Place {
        let lines = memchr::memchr_iter(b'\n', &self.buffer[..self.at]).count() as u64;
        Place { offset: self.before.offset + self.at as u64, line: self.before.line + lines + 1 }
    }

    /// How deep the last token stands; 1 inside the outermost object.
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// A fault here.
    pub fn fault(&self, reason: impl Into<String>) -> Error {
        Error::at(self.what, self.place(), reason)
    }

    /// The next token; `None` after the document's end. What follows that is left alone.
    ///
    /// # Errors
    /// Where the document is cut short or malformed, exceeds a bound, or reading fails.
    pub fn token(&mut self) -> Result<Option<Token<'_>>, Error> {
        loop {
            if self.want == Want::Nothing {
                return Ok(None);
            }
            let byte = self.peek()?;
            match (self.want, byte) {
                (Want::Colon, b':') => {
                    self.at += 1;
                    self.want = Want::Value;
                }
                (Want::CommaOrEnd, b',') => {
                    self.at += 1;
                    self.want = if self.open.last() == Some(&b'{') { Want::Key } else { Want::Value };
                }
                (Want::CommaOrEnd | Want::KeyOrEnd, b'}') | (Want::CommaOrEnd | Want::ValueOrEnd, b']') => {
                    // `{` is two below `}`, and `[` two below `]`.
                    if self.open.pop() != Some(byte - 2) {
                        return Err(self.unexpected("the end of what was opened last"));
                    }
                    self.at += 1;
                    self.after_value();
                    return Ok(Some(Token::End));
                }
                (Want::Key | Want::KeyOrEnd, b'"') => {
                    self.want = Want::Colon;
                    return self.text().map(|text| Some(Token::Key(text)));
                }
                (Want::Value | Want::ValueOrEnd, _) => return self.value(byte).map(Some),
                (Want::Colon, _) => return Err(self.unexpected("`:`")),
                (Want::CommaOrEnd, _) => return Err(self.unexpected("`,` or the end of the list or object")),
                _ => return Err(self.unexpected("a key in quotes")),
            }
        }
    }

    fn value(&mut self, byte: u8) -> Result<Token<'_>, Error> {
        match byte {
            b'{' | b'[' => {
                if self.open.len() >= MOST_DEPTH {
                    return Err(self
                        .fault(format!("it is nested deeper than {MOST_DEPTH} levels, which no tool's is")));
                }
                self.open.push(byte);
                self.at += 1;
                self.want = if byte == b'{' { Want::KeyOrEnd } else { Want::ValueOrEnd };
                Ok(if byte == b'{' { Token::Object } else { Token::Array })
            }
            b'"' => {
                self.want = if self.open.is_empty() { Want::Nothing } else { Want::CommaOrEnd };
                self.text().map(Token::Text)
            }
            b'-' | b'0'..=b'9' => {
                if let Some((value, length)) = short_number(&self.buffer[self.at..self.end]) {
                    self.at += length;
                    self.after_value();
                    return Ok(Token::Number(value));
                }
                let end =
                    self.extent(|b| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e' | b'E'))?;
                match number(&self.buffer[self.at..end]) {
                    Some(value) => {
                        self.at = end;
                        self.after_value();
                        Ok(Token::Number(value))
                    }
                    None => Err(self.unexpected("a number")),
                }
            }
            b'a'..=b'z' => {
                let end = self.extent(|b| b.is_ascii_lowercase())?;
                if !matches!(&self.buffer[self.at..end], b"true" | b"false" | b"null") {
                    return Err(self.unexpected("a value"));
                }
                self.at = end;
                self.after_value();
                Ok(Token::Word)
            }
            _ => Err(self.unexpected("a value")),
        }
    }

    /// Passes over the value that follows a key, or is the next of a list.
    ///
    /// # Errors
    /// As [`Tokens::token`].
    pub fn skip(&mut self) -> Result<(), Error> {
        let depth = self.open.len();
        loop {
            let ended = self.token()?.is_none();
            if self.open.len() > depth {
                self.numbers(|_, _| Ok(()))?;
            }
            if ended || self.open.len() <= depth {
                return Ok(());
            }
        }
    }

    /// The number that follows a key; `None` where something else does, which is passed over.
    ///
    /// # Errors
    /// As [`Tokens::token`].
    pub fn number(&mut self) -> Result<Option<f64>, Error> {
        let depth = self.open.len();
        match self.token()? {
            Some(Token::Number(value)) => Ok(Some(value)),
            Some(Token::Object | Token::Array) => {
                while self.open.len() > depth {
                    self.token()?;
                }
                Ok(None)
            }
            _ => Ok(None),
        }
    }

    /// Takes the members `"key": number` that come next in the object that is open, as far as they stand whole in the buffer. It
    /// is the fast way through what makes up nearly all of a large file; everything else comes from [`Tokens::token`], so a caller
    /// asks that afterwards.
    ///
    /// # Errors
    /// Those of `take`.
    pub fn numbers(&mut self, mut take: impl FnMut(&[u8], f64) -> Result<(), Error>) -> Result<(), Error> {
        while matches!(self.want, Want::Key | Want::KeyOrEnd) {
            let bytes = &self.buffer[self.at..self.end];
            let start = blanks(bytes, 0);
            if bytes.get(start) != Some(&b'"') {
                return Ok(());
            }
            let Some(length) = quote_or_escape(&bytes[start + 1..]) else { return Ok(()) };
            let end = start + 1 + length;
            // What may be no UTF-8 goes the long way, which checks it.
            if bytes[start + 1..end].iter().any(|byte| *byte >= 128) {
                return Ok(());
            }
            let colon = blanks(bytes, end + 1);
            if bytes[end] != b'"' || bytes.get(colon) != Some(&b':') {
                return Ok(());
            }
            let from = blanks(bytes, colon + 1);
            let Some((value, digits)) = bytes.get(from..).and_then(short_number) else { return Ok(()) };
            take(&bytes[start + 1..end], value)?;
            self.at += from + digits;
            self.after_value();
        }
        Ok(())
    }

    fn after_value(&mut self) {
        self.want = match self.open.last() {
            None => Want::Nothing,
            // The comma of most values stands right behind them.
            Some(open) if self.at < self.end && self.buffer[self.at] == b',' => {
                self.at += 1;
                if *open == b'{' { Want::Key } else { Want::Value }
            }
            Some(_) => Want::CommaOrEnd,
        };
    }

    /// The next byte that is no blank.
    fn peek(&mut self) -> Result<u8, Error> {
        loop {
            while self.at < self.end {
                match self.buffer[self.at] {
                    b' ' | b'\t' | b'\n' | b'\r' => self.at += 1,
                    byte => return Ok(byte),
                }
            }
            if !self.fill()? {
                return Err(self.fault("it ends here, unfinished"));
            }
        }
    }

    /// Where what begins here and is made of such bytes ends.
    fn extent(&mut self, is_part: impl Fn(u8) -> bool) -> Result<usize, Error> {
        let mut length = 0;
        loop {
            let found = self.buffer[self.at + length..self.end].iter().position(|byte| !is_part(*byte));
            if let Some(more) = found {
                return Ok(self.at + length + more);
            }
            length = self.end - self.at;
            if !self.fill()? {
                return Ok(self.end);
            }
        }
    }

    /// The text whose opening quote is next.
    fn text(&mut self) -> Result<&str, Error> {
        let mut length = 1;
        let mut escaped = false;
        let end = loop {
            match quote_or_escape(&self.buffer[self.at + length..self.end]) {
                Some(more) if self.buffer[self.at + length + more] == b'"' => break self.at + length + more,
                Some(more) => {
                    escaped = true;
                    length += more + 2;
                    while self.at + length > self.end {
                        if !self.fill()? {
                            return Err(self.fault("it ends here, within a text"));
                        }
                    }
                }
                None => {
                    length = self.end - self.at;
                    if !self.fill()? {
                        return Err(self.fault("it ends here, within a text"));
                    }
                }
            }
        };
        let start = self.at + 1;
        self.at = end + 1;
        let Ok(text) = std::str::from_utf8(&self.buffer[start..end]) else {
            return Err(Error::at(self.what, self.place(), "a text holds bytes that are no UTF-8"));
        };
        if !escaped {
            return Ok(text);
        }
        // A quoted text is a document of its own, which serde_json reads.
        let whole = std::str::from_utf8(&self.buffer[start - 1..=end]).unwrap_or_default();
        match serde_json::from_str(whole) {
            Ok(text) => self.scratch = text,
            Err(_) => {
                return Err(Error::at(
                    self.what,
                    self.place(),
                    "a text has an escape that JSON does not know",
                ));
            }
        }
        Ok(&self.scratch)
    }

    /// Reads more behind what is there; false at the end.
    fn fill(&mut self) -> Result<bool, Error> {
        if self.at > 0 {
            self.before = Place { line: self.place().line - 1, offset: self.before.offset + self.at as u64 };
            self.buffer.copy_within(self.at..self.end, 0);
            self.end -= self.at;
            self.at = 0;
        }
        if self.end == self.buffer.len() {
            if self.end > MOST_TOKEN {
                return Err(self.fault(format!("a text or number is longer than {} KiB", MOST_TOKEN >> 10)));
            }
            self.buffer.resize(self.end + CHUNK, 0);
        }
        loop {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn unexpected(&self, wanted: &str) -> Error {
        let rest = &self.buffer[self.at..self.end.min(self.at + 20)];
        let found = String::from_utf8_lossy(rest).replace(char::is_control, " ");
        self.fault(format!("expected {wanted}, found `{found}`"))
    }
}

/// Where the first byte stands from `at` on that is no blank; at most the end.
fn blanks(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or(&[]);
    at + rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count()
}

/// Where a text ends, or has an escape. Most texts are short, and found before a search of many bytes at once has begun.
fn quote_or_escape(bytes: &[u8]) -> Option<usize> {
    const SHORT: usize = 16;
    let short = bytes.iter().take(SHORT).position(|byte| matches!(byte, b'"' | b'\\'));
    short.or_else(|| memchr::memchr2(b'"', b'\\', bytes.get(SHORT..)?).map(|at| at + SHORT))
}

/// Powers of ten that are exact.
const TENTHS: [f64; 16] =
    [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

/// The number at the beginning of these bytes, and its length, where it has up to 15 digits and no exponent, and something
/// follows it: then one exact division rounds as the correct reading does. `None` sends it the long way.
#[inline]
fn short_number(bytes: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(bytes.first() == Some(&b'-'));
    let (mut mantissa, whole) = digits(bytes.get(sign..)?, 0);
    let mut end = sign + whole;
    let mut tenths = 0;
    if bytes.get(end) == Some(&b'.') {
        (mantissa, tenths) = digits(&bytes[end + 1..], mantissa);
        end += 1 + tenths;
    }
    let ends = !matches!(bytes.get(end)?, b'.' | b'e' | b'E' | b'+' | b'-');
    let mantissa = mantissa as f64;
    let value = if tenths == 0 { mantissa } else { mantissa / TENTHS.get(tenths)? };
    (ends && whole > 0 && whole + tenths <= 15).then_some((if sign == 1 { -value } else { value }, end))
}

/// `value`, with the decimal digits that come first appended, and how many they are. Beyond 19 of them it means nothing.
#[inline]
fn digits(bytes: &[u8], mut value: u64) -> (u64, usize) {
    for (at, byte) in bytes.iter().enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return (value, at);
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    (value, bytes.len())
}

/// A whole number of up to 19 digits, and nothing else.
pub fn whole(bytes: &[u8]) -> Option<u64> {
    let (value, length) = digits(bytes, 0);
    (length == bytes.len() && (1..=19).contains(&length)).then_some(value)
}

/// A number as tools print it.
pub fn number(bytes: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.parse::<f64>().ok().filter(|value| value.is_finite() && bytes.iter().any(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives at most so many bytes at once.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
            let count = self.1.min(to.len()).min(self.0.len());
            to[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn walked(text: &[u8], piece: usize) -> Result<Vec<String>, String> {
        let mut tokens = Tokens::new(Drops(text, piece), "JSON");
        let mut seen = Vec::new();
        loop {
            match tokens.token() {
                Ok(Some(token)) => seen.push(format!("{token:?}")),
                Ok(None) => return Ok(seen),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    #[test]
    fn a_document_is_walked_in_whatever_pieces_it_comes() {
        let text = r#" {"a": [1, -2.5e3, "x\n\u00b5"], "b": {}, "c": null} left alone"#.as_bytes();
        let whole = walked(text, 1000).unwrap();
        assert_eq!(
            whole.join(" "),
            r#"Object Key("a") Array Number(1.0) Number(-2500.0) Text("x\nµ") End Key("b") Object End Key("c") Word End"#
        );
        for piece in 1..8 {
            assert_eq!(walked(text, piece).as_ref(), Ok(&whole));
        }
    }

    #[test]
    fn faults_name_the_place_what_was_expected_and_what_was_found() {
        for (text, wanted) in [
            ("{\n\"a\" 1}", "byte 6 (line 2): expected `:`, found `1}`"),
            ("[1 2]", "byte 3 (line 1): expected `,` or the end"),
            ("[1}", "byte 2 (line 1): expected the end of what was opened last"),
            ("{1}", "byte 1 (line 1): expected a key in quotes"),
            ("[tru]", "byte 1 (line 1): expected a value"),
            ("[1", "byte 2 (line 1): it ends here, unfinished"),
            ("[\"abc", "it ends here, within a text"),
            ("[\"\\q\"]", "an escape that JSON does not know"),
            ("[--1]", "expected a number"),
        ] {
            let error = walked(text.as_bytes(), 3).unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let error = walked(&b"[".repeat(MOST_DEPTH + 1), 100).unwrap_err();
        assert!(error.contains("deeper than 64 levels") && error.contains("byte 64"), "{error}");
        let mut long = b"[\"".to_vec();
        long.resize(3 << 20, b'x');
        let error = walked(&long, 1 << 20).unwrap_err();
        assert!(error.contains("longer than 1024 KiB"), "{error}");
    }

    proptest! {
        #[test]
        fn what_serde_json_takes_is_taken_and_numbers_are_the_same(
            numbers in prop::collection::vec(any::<f64>().prop_filter("finite", |v| v.is_finite()), 0..20),
            cents in prop::collection::vec(-99_999_999_i64..99_999_999, 0..20),
            texts in prop::collection::vec(any::<String>(), 0..5),
        ) {
            let cents: Vec<f64> = cents.into_iter().map(|c| c as f64 / 100.0).collect();
            let text = serde_json::json!([numbers, cents, texts]).to_string();
            let seen = walked(text.as_bytes(), 7).unwrap();
            let wanted = numbers.iter().chain(&cents).map(|n| format!("{:?}", Token::Number(*n)));
            let texts = texts.iter().map(|t| format!("{:?}", Token::Text(t)));
            let wanted: Vec<String> = wanted.chain(texts).collect();
            let seen: Vec<String> = seen.into_iter().filter(|t| t.contains('(')).collect();
            prop_assert_eq!(seen, wanted);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'"'), Just(b'{'), Just(b'['), Just(b'}'), Just(b'\\'), Just(b'1'), Just(b',')], 0..60)) {
            let _ = walked(&bytes, 5);
        }
    }
}
