//! JSON as a stream of tokens, whatever its length: memory is one buffer and one byte a level of nesting.
//!
//! It is strict in structure, and takes what tools print: a number is what Rust reads as one. Bytes that are
//! no UTF-8 are refused. Source: RFC 8259.

use super::error::{Error, Place};
use super::scan;
pub use super::scan::Plain;
use std::io::Read;

/// A bound on nesting. sadf's deepest has 9 levels, fio's json+ 7.
pub const MAX_DEPTH: usize = 64;

/// A bound on one text or number.
pub const MAX_TOKEN: usize = 1 << 20;

/// What is read at once: so much that a buffered reader's own buffer is passed by, even where a token is left
/// over, and so little that it is still in a core's second cache (from 256 KiB on) when it is scanned.
pub(super) const CHUNK: usize = 128 << 10;

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

/// Whether a member was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The next one may come.
    Yes,
    /// It is to come as tokens.
    No,
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
    /// What the buffer grows by.
    chunk: usize,
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
        Self::with_chunk(input, what, CHUNK)
    }

    fn with_chunk(input: R, what: &'static str, chunk: usize) -> Self {
        Self {
            input,
            what,
            chunk,
            buffer: vec![0; chunk],
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

    /// Passes what stands between this document, which is at its end, and a next one: a line that begins with
    /// `{` within so many bytes. Whether there is one; then its tokens come.
    ///
    /// # Errors
    /// Where reading fails.
    pub fn next_document(&mut self, most: u64) -> Result<bool, Error> {
        let bound = self.before.offset + self.at as u64 + most;
        let mut is_in_line = false;
        while self.before.offset + self.at as u64 <= bound {
            let rest = &self.buffer[self.at..self.end];
            self.at += match is_in_line {
                true => memchr::memchr(b'\n', rest).unwrap_or(rest.len()),
                false => scan::blanks(rest, 0),
            };
            is_in_line = match self.buffer[self.at..self.end].first().copied() {
                Some(b'{') if !is_in_line => {
                    self.want = Want::Value;
                    return Ok(true);
                }
                Some(_) => !is_in_line,
                None if self.fill()? => is_in_line,
                None => return Ok(false),
            };
        }
        Ok(false)
    }

    fn value(&mut self, byte: u8) -> Result<Token<'_>, Error> {
        match byte {
            b'{' | b'[' => {
                if self.open.len() >= MAX_DEPTH {
                    return Err(self
                        .fault(format!("it is nested deeper than {MAX_DEPTH} levels, which no tool's is")));
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
                if let Some((value, end)) = scan::short_number(&self.buffer[..self.end], self.at) {
                    self.at = end;
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
                self.members(|_, _| Ok(Taken::Yes))?;
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

    /// Takes the members that come next in the object that is open and are plain, as far as they stand whole
    /// in the buffer. It is the fast way through what makes up nearly all of a large file; everything else
    /// comes from [`Tokens::token`], so a caller asks that afterwards. A member that was not taken is the
    /// next token.
    ///
    /// # Errors
    /// Those of `take`.
    #[inline]
    pub fn members(
        &mut self,
        mut take: impl FnMut(&[u8], Plain<'_>) -> Result<Taken, Error>,
    ) -> Result<(), Error> {
        if !matches!(self.want, Want::Key | Want::KeyOrEnd) {
            return Ok(());
        }
        let bytes = &self.buffer[..self.end];
        while let Some(member) = scan::member(bytes, self.at) {
            if take(member.key, member.value)? == Taken::No {
                break;
            }
            let goes_on = bytes.get(member.end) == Some(&b',');
            self.at = member.end + usize::from(goes_on);
            self.want = if goes_on { Want::Key } else { Want::CommaOrEnd };
            if !goes_on {
                break;
            }
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
                self.bounded(length + more)?;
                return Ok(self.at + length + more);
            }
            length = self.end - self.at;
            if !self.fill()? {
                self.bounded(length)?;
                return Ok(self.end);
            }
        }
    }

    /// The text whose opening quote is next.
    fn text(&mut self) -> Result<&str, Error> {
        if let Some(end) = scan::plain_text(&self.buffer[..self.end], self.at + 1) {
            let start = self.at + 1;
            self.at = end + 1;
            return Ok(std::str::from_utf8(&self.buffer[start..end]).expect("it is of ASCII"));
        }
        let mut length = 1;
        let mut escaped = false;
        let end = loop {
            match memchr::memchr2(b'"', b'\\', &self.buffer[self.at + length..self.end]) {
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
        self.bounded(end - start)?;
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
        // What is left over is an unfinished token, and may have an opening quote.
        self.bounded(self.end.saturating_sub(1))?;
        if self.end == self.buffer.len() {
            self.buffer.resize(self.end + self.chunk, 0);
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

    /// Whether a token of this length may stand here.
    fn bounded(&self, length: usize) -> Result<(), Error> {
        if length > MAX_TOKEN {
            return Err(self.fault(format!("a text or number is longer than {} KiB", MAX_TOKEN >> 10)));
        }
        Ok(())
    }

    fn unexpected(&mut self, wanted: &str) -> Error {
        // What was found is shown whole, wherever the buffer ends.
        while self.end - self.at < 20 && matches!(self.fill(), Ok(true)) {}
        let rest = &self.buffer[self.at..self.end.min(self.at + 20)];
        let found = domain::inert::of_bytes(rest);
        self.fault(format!("expected {wanted}, found `{found}`"))
    }
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

    /// Everything that a document holds up to its end or its fault, by the fast way where `fast`, with a
    /// buffer of so many bytes.
    fn events(text: &[u8], chunk: usize, fast: bool) -> (Vec<String>, Option<String>) {
        let mut tokens = Tokens::with_chunk(text, "JSON", chunk);
        let mut seen = Vec::new();
        loop {
            if fast {
                let taken = tokens.members(|key, value| {
                    if key == b"left" {
                        return Ok(Taken::No);
                    }
                    seen.push(format!("{:?}", Token::Key(std::str::from_utf8(key).unwrap())));
                    seen.push(match value {
                        Plain::Number(number) => format!("{:?}", Token::Number(number)),
                        Plain::Text(text) => format!("{:?}", Token::Text(std::str::from_utf8(text).unwrap())),
                    });
                    Ok(Taken::Yes)
                });
                taken.unwrap();
            }
            match tokens.token() {
                Ok(Some(token)) => seen.push(format!("{token:?}")),
                Ok(None) => return (seen, None),
                Err(error) => return (seen, Some(error.to_string())),
            }
        }
    }

    /// With everything that the fast way takes, and everything that it leaves.
    const ALL_KINDS: &str = "{\n\t\"rd_sec/s\": 0.00, \"left\" : 12345678, \"exact\":123456789012345,\"long\":1234567890123456789,\n        \
         \"tenths\": -1017187.057919, \"fine\": 0.123456789012, \"huge\": 1.5e300, \"a key of more than sixteen bytes\" \t:\r\n \"sda\",\
         \"\": \"\", \"esc\\\"aped\": \"x\\n\\u00b5\", \"f\u{fc}nf\": \"\u{3b1}\u{3b2}\u{3b3}\", \"none\": null, \"list\": [0.00, 1, -2.5, {\"a\": 1,\"b\":\"c\"}, [], {},\n\
         {\"intr\": \"24\", \"all\": 0.00, \"CPU0\": 819.80}, true, \"text\", \"\\\\\"], \"last\": 7}";

    #[test]
    fn neither_way_nor_where_the_buffer_ends_changes_what_is_read() {
        let wanted = events(ALL_KINDS.as_bytes(), 1, false);
        assert_eq!((wanted.0.len(), &wanted.1), (55, &None), "{wanted:?}");
        for chunk in (1..=200).chain([1000, CHUNK]) {
            for fast in [false, true] {
                assert_eq!(events(ALL_KINDS.as_bytes(), chunk, fast), wanted, "{chunk} {fast}");
            }
        }
    }

    #[test]
    fn faults_are_told_alike_wherever_the_buffer_ends() {
        for at in 0..ALL_KINDS.len() {
            let bytes = ALL_KINDS.as_bytes();
            let cut = bytes[..at].to_vec();
            let damaged = [&bytes[..at], b"\x01", &bytes[at + 1..]].concat();
            let more = [&bytes[..at], b"\"", &bytes[at..]].concat();
            for text in [cut, damaged, more] {
                let wanted = events(&text, 1, false);
                for chunk in [2, 7, 8, 9, 31, 64, CHUNK] {
                    assert_eq!(
                        events(&text, chunk, true),
                        wanted,
                        "{chunk} {}",
                        String::from_utf8_lossy(&text)
                    );
                }
            }
        }
    }

    #[test]
    fn depth_is_bounded() {
        let error = walked(&b"[".repeat(MAX_DEPTH + 1), 100).unwrap_err();
        assert!(error.contains("deeper than 64 levels") && error.contains("byte 64"), "{error}");
    }

    #[test]
    fn length_is_bounded_to_the_byte_wherever_the_buffer_ends() {
        let text = |length: usize| ["[1, \"", &"x".repeat(length), "\"]"].concat();
        let escaped = |length: usize| ["[1, \"", &"\\n".repeat(length / 2), "\"]"].concat();
        let key = |length: usize| ["{  \n\"", &"x".repeat(length), "\":1}"].concat();
        let number = |length: usize| ["[1, ", &"0".repeat(length - 1), "1]"].concat();
        for chunk in [1000, 65_536, CHUNK, MAX_TOKEN + 1, MAX_TOKEN + 2, 3 << 20] {
            for make in [&text as &dyn Fn(usize) -> String, &escaped, &key, &number] {
                for fast in [false, true] {
                    assert_eq!(events(make(MAX_TOKEN).as_bytes(), chunk, fast).1, None, "{chunk}");
                    let long = make(MAX_TOKEN + 2);
                    for long in [long.as_bytes(), &long.as_bytes()[..MAX_TOKEN + 6]] {
                        let error = events(long, chunk, fast).1.unwrap();
                        assert!(
                            error.contains("byte 4 (line ") && error.contains("longer than 1024 KiB"),
                            "{error}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn further_documents_are_found_wherever_the_buffer_ends() {
        let text = b"{\"a\":\n{\n}\n}{\"b\":1} tail { of a line\nfio: {\n\n  \t{\"c\":2}\nnothing more {";
        for chunk in (1..=60).chain([CHUNK]) {
            let mut tokens = Tokens::with_chunk(&text[..], "JSON", chunk);
            let mut keys = Vec::new();
            loop {
                while let Some(token) = tokens.token().unwrap() {
                    if let Token::Key(key) = token {
                        keys.push(key.to_owned());
                    }
                }
                if !tokens.next_document(1000).unwrap() {
                    break;
                }
            }
            assert_eq!(keys, ["a", "b", "c"], "{chunk}");
        }
        let far = [b"{}\n".as_slice(), &b"x\n".repeat(100), b"{}"].concat();
        let found = |most| {
            let mut tokens = Tokens::new(&far[..], "JSON");
            while tokens.token().unwrap().is_some() {}
            tokens.next_document(most).unwrap()
        };
        assert!(found(300) && !found(100));
    }

    #[test]
    fn a_text_that_never_ends_is_not_kept_whole() {
        let mut tokens = Tokens::new(Read::chain(&b"[\""[..], std::io::repeat(b'x')), "JSON");
        assert_eq!(tokens.token().unwrap(), Some(Token::Array));
        assert!(tokens.token().unwrap_err().to_string().contains("longer than 1024 KiB"));
        assert!(tokens.buffer.len() <= MAX_TOKEN + 2 * CHUNK);
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
        fn no_bytes_make_it_panic_and_all_ways_end_alike(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'"'), Just(b'{'), Just(b'['), Just(b'}'), Just(b'\\'), Just(b'1'), Just(b',')], 0..60), chunk in 1_usize..70) {
            let _ = walked(&bytes, 5);
            prop_assert_eq!(events(&bytes, chunk, true), events(&bytes, 1, false));
        }

        #[test]
        fn members_are_the_same_by_either_way(
            members in prop::collection::vec(("[a-z/%-]{0,20}", prop_oneof!["-?[0-9]{1,18}(\\.[0-9]{1,9})?", "\"[A-Za-z0-9 ]{0,20}\"", Just("{}".to_owned())], "[ \n\t]{0,12}"), 0..30),
            chunk in 1_usize..300,
        ) {
            let members: Vec<String> = members.iter().map(|(key, value, gap)| format!("{gap}\"{key}\":{gap}{value}{gap}")).collect();
            let text = format!("{{{}}}", members.join(","));
            let wanted = events(text.as_bytes(), 1, false);
            prop_assert_eq!(&wanted.1, &None);
            prop_assert_eq!(events(text.as_bytes(), chunk, true), wanted);
        }
    }
}
