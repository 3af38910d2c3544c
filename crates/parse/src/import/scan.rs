//! What nearly all of a large JSON file is made of, found eight bytes at a time: blanks, short keys, short
//! numbers.
//!
//! Nothing here decides what is right: whatever is unusual, or stands within eight bytes of the end of what
//! was read, is `None`, and goes the long way of [`super::json::Tokens::token`], which reads it or names the
//! fault.
//!
//! Source of the arithmetic on whole words: Lemire, "Quickly parsing eight digits" (2018), and Mycroft's test
//! for a zero byte, as in Anderson, "Bit Twiddling Hacks".

/// What is longer goes the long way, which holds it against its bound.
const SHORT_TEXT: usize = 128;

/// One in each byte of a word.
const ONES: u64 = u64::MAX / 255;

/// The highest bit of each byte.
const TOPS: u64 = ONES << 7;

/// The eight bytes from `at` on, the first of them lowest.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|chunk| u64::from_le_bytes(*chunk))
}

/// The highest bit of each byte of `word` that is `byte`. Above the first such byte others may be marked too.
#[inline(always)]
const fn marks(word: u64, byte: u8) -> u64 {
    let zero = word ^ (ONES * byte as u64);
    zero.wrapping_sub(ONES) & !zero & TOPS
}

/// How many bytes stand below the first mark; 8 where there is none.
#[inline(always)]
const fn before(marks: u64) -> usize {
    (marks.trailing_zeros() / 8) as usize
}

/// Where the first byte stands from `at` on that is no blank of JSON; at most the end. Blanks are alike from
/// member to member, so that a processor foresees each of these steps; one that a count of blanks decides it
/// would have to wait for.
#[inline(always)]
pub fn blanks(bytes: &[u8], mut at: usize) -> usize {
    loop {
        match bytes.get(at) {
            Some(b' ') if word(bytes, at) == Some(ONES * u64::from(b' ')) => at += 8,
            Some(b' ' | b'\n' | b'\t' | b'\r') => at += 1,
            _ => return at.min(bytes.len()),
        }
    }
}

/// Where the text that begins at `at` ends, at its quote: where it is short, of ASCII and has no escape.
#[inline(always)]
pub fn plain_text(bytes: &[u8], mut at: usize) -> Option<usize> {
    for _ in 0..SHORT_TEXT / 8 {
        let word = word(bytes, at)?;
        let found = marks(word, b'"') | marks(word, b'\\') | word & TOPS;
        at += before(found);
        if found != 0 {
            return (bytes.get(at) == Some(&b'"')).then_some(at);
        }
    }
    None
}

/// The digits that come first, as a number, and how many they are; with 8 of them there may be more.
#[inline(always)]
fn eight_digits(word: u64) -> (u64, usize) {
    let digits = word ^ (ONES * u64::from(b'0'));
    let others = (digits.wrapping_add(ONES * 6) | digits) & (ONES * 0xf0);
    let count = before(others);
    if count == 0 {
        return (0, 0);
    }
    // The digits move to the top, zeros before them; then pairs, fours and all of them are put together.
    let digits = digits << (64 - 8 * count);
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    const PAIR: u64 = 0x0000_00ff_0000_00ff;
    let high = (pairs & PAIR).wrapping_mul(100 + (1_000_000 << 32));
    let low = (pairs >> 16 & PAIR).wrapping_mul(1 + (10_000 << 32));
    (high.wrapping_add(low) >> 32, count)
}

/// Two digits before the end of a value, and that they are two.
#[inline(always)]
fn two_digits(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    match bytes.get(at..)?.first_chunk()? {
        [tens @ b'0'..=b'9', ones @ b'0'..=b'9', b',' | b'}'] => {
            Some((u64::from(tens - b'0') * 10 + u64::from(ones - b'0'), 2))
        }
        _ => None,
    }
}

/// Powers of ten that are exact.
const TENS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// The same as what is divided by.
const TENTHS: [f64; 8] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7];

/// The number at `at` and where it ends, where it has up to 15 digits, up to 7 of them behind the point, and
/// no exponent: then one exact division rounds as the correct reading does.
#[inline(always)]
pub fn short_number(bytes: &[u8], at: usize) -> Option<(f64, usize)> {
    // sysstat prints two digits behind the point, and nearly half of what it prints is this. That the next
    // value stands five bytes on is then foreseen, where it would else be known only when all digits were
    // counted.
    if let Some(b"0.00," | b"0.00}") = bytes.get(at..)?.first_chunk::<5>() {
        return Some((0.0, at + 4));
    }
    let is_negative = bytes.get(at) == Some(&b'-');
    let start = at + usize::from(is_negative);
    let (mut mantissa, mut count) = eight_digits(word(bytes, start)?);
    if count == 8 {
        let (more, further) = eight_digits(word(bytes, start + 8)?);
        mantissa = mantissa * TENS[further] + more;
        count += further;
    }
    if count == 0 || count > 15 {
        return None;
    }
    let mut end = start + count;
    let mut tenths = 0;
    if bytes.get(end) == Some(&b'.') {
        let more;
        (more, tenths) = two_digits(bytes, end + 1).or_else(|| Some(eight_digits(word(bytes, end + 1)?)))?;
        if count + tenths > 15 {
            return None;
        }
        mantissa = mantissa * TENS[tenths] + more;
        end += 1 + tenths;
    }
    let goes_on = matches!(bytes.get(end)?, b'.' | b'e' | b'E' | b'+' | b'-');
    // Below 2^53, so it is exact; and quicker than of an unsigned number.
    let mantissa = mantissa as i64 as f64;
    let value = if tenths == 0 { mantissa } else { mantissa / TENTHS.get(tenths)? };
    (!goes_on).then_some((if is_negative { -value } else { value }, end))
}

/// A whole number of up to 19 digits, and nothing else.
#[inline]
pub fn whole(bytes: &[u8]) -> Option<u64> {
    let (first, last) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>());
    if let (4..=8, Some(first), Some(last)) = (bytes.len(), first, last) {
        // Both halves overlap in what both have.
        let high = u64::from(u32::from_le_bytes(*last)) << (8 * (bytes.len() - 4));
        let word = u64::from(u32::from_le_bytes(*first)) | high;
        let (value, count) = eight_digits(word);
        return (count == bytes.len()).then_some(value);
    }
    let digit = |value: u64, byte: &u8| {
        byte.is_ascii_digit().then(|| value.wrapping_mul(10).wrapping_add(u64::from(byte - b'0')))
    };
    if (1..=19).contains(&bytes.len()) { bytes.iter().try_fold(0, digit) } else { None }
}

/// Whether both are the same; most keys have four to eight bytes, for which a call to compare them costs more
/// than comparing.
#[inline(always)]
pub fn same(a: &[u8], b: &[u8]) -> bool {
    let ends = |bytes: &[u8]| Some((*bytes.first_chunk::<4>()?, *bytes.last_chunk::<4>()?));
    match (ends(a), ends(b)) {
        (Some(a_ends), Some(b_ends)) if a.len() <= 8 => a.len() == b.len() && a_ends == b_ends,
        _ => a == b,
    }
}

/// A value without members of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Plain<'a> {
    /// A number.
    Number(f64),
    /// A text of ASCII without escapes.
    Text(&'a [u8]),
}

/// A member of an object, whose value is plain.
#[derive(Debug, PartialEq)]
pub struct Member<'a> {
    /// Its key, which is ASCII and has no escape.
    pub key: &'a [u8],
    /// Its value.
    pub value: Plain<'a>,
    /// Where it ends; there may be nothing behind it yet.
    pub end: usize,
}

/// The member before which nothing but blanks stand from `at` on.
#[inline(always)]
pub fn member(bytes: &[u8], at: usize) -> Option<Member<'_>> {
    let start = blanks(bytes, at);
    if bytes.get(start) != Some(&b'"') {
        return None;
    }
    let quote = plain_text(bytes, start + 1)?;
    let colon = blanks(bytes, quote + 1);
    if bytes.get(colon) != Some(&b':') {
        return None;
    }
    let key = &bytes[start + 1..quote];
    let from = blanks(bytes, colon + 1);
    if bytes.get(from) == Some(&b'"') {
        let end = plain_text(bytes, from + 1)?;
        return Some(Member { key, value: Plain::Text(&bytes[from + 1..end]), end: end + 1 });
    }
    let (value, end) = short_number(bytes, from)?;
    Some(Member { key, value: Plain::Number(value), end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes as such files have them, with more behind so that nothing is too near to the end.
    fn bytes_of_json() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            4 => prop::sample::select(&b" \n\t\r\"\\:,.-+eE{}"[..]),
            4 => b'0'..=b'9',
            2 => b'a'..=b'z',
            1 => any::<u8>(),
        ];
        prop::collection::vec(byte, 0..40).prop_map(|bytes| [bytes, vec![b'}'; 20]].concat())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn blanks_and_texts_end_where_a_search_byte_by_byte_says(bytes in bytes_of_json(), at in 0_usize..60) {
            let rest = bytes.get(at..).unwrap_or(&[]);
            let blank = rest.iter().take_while(|b| b" \n\t\r".contains(b)).count();
            prop_assert_eq!(blanks(&bytes, at), (at + blank).min(bytes.len()));
            let stop = rest.iter().position(|b| matches!(b, b'"' | b'\\' | 128..));
            if let Some(end) = plain_text(&bytes, at) {
                prop_assert_eq!(Some(end - at), stop);
                prop_assert_eq!(bytes[end], b'"');
            } else {
                prop_assert!(stop.is_none_or(|stop| rest[stop] != b'"' || stop + 8 > rest.len()));
            }
        }

        #[test]
        fn a_short_number_is_what_rust_reads(
            sign in prop::sample::select(&["", "-"][..]),
            whole in "[0-9]{0,17}",
            tenths in "(\\.[0-9]{0,9})?",
            follows in prop::sample::select(&[",", "}", " ", "e3", "E-1", "-", "x", "/", ":", "\u{1}", "\u{ff}"][..]),
        ) {
            let text = format!("{sign}{whole}{tenths}");
            let bytes = format!("{text}{follows}             ").into_bytes();
            let taken = short_number(&bytes, 0);
            let fits = !whole.is_empty()
                && whole.len() + tenths.len().saturating_sub(1) <= 15
                && tenths.len() <= 8
                && !matches!(follows, "e3" | "E-1" | "-");
            if let Some((value, end)) = taken {
                let wanted = text.parse::<f64>().unwrap();
                prop_assert_eq!((value.to_bits(), &bytes[..end]), (wanted.to_bits(), text.as_bytes()));
            }
            prop_assert_eq!(taken.is_some(), fits);
        }

        #[test]
        fn a_whole_number_is_what_rust_reads(text in "[0-9]{0,21}", at in 0_usize..21, byte in any::<u8>()) {
            let wanted = text.parse::<u64>().ok().filter(|_| text.len() < 20);
            prop_assert_eq!(whole(text.as_bytes()), wanted);
            let mut bytes = text.into_bytes();
            if let (Some(there), false) = (bytes.get_mut(at), byte.is_ascii_digit()) {
                *there = byte;
                prop_assert_eq!(whole(&bytes), None);
            }
        }

        #[test]
        fn texts_are_the_same_where_all_their_bytes_are(text in prop::collection::vec(any::<u8>(), 0..12), at in 0_usize..12, byte in any::<u8>()) {
            let mut other = text.clone();
            prop_assert!(same(&text, &other));
            if let Some(there) = other.get_mut(at) {
                *there = byte;
            }
            prop_assert_eq!(same(&text, &other), text == other);
            other.truncate(at);
            prop_assert_eq!(same(&text, &other), text == other);
        }

        #[test]
        fn no_bytes_and_no_place_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..40), at in 0_usize..50) {
            blanks(&bytes, at);
            plain_text(&bytes, at);
            short_number(&bytes, at);
            member(&bytes, at);
            whole(&bytes);
        }
    }

    #[test]
    fn a_member_is_taken_with_whatever_blanks_and_nothing_else() {
        let padded = |text: &str| format!("{text}                ").into_bytes();
        for text in
            ["\"rd_sec/s\":-0.25,", " \"rd_sec/s\": -0.25}", "\n\t\r            \"rd_sec/s\"  :  -0.25\n"]
        {
            let bytes = padded(text);
            let taken = member(&bytes, 0).unwrap();
            assert_eq!((taken.key, taken.value), (&b"rd_sec/s"[..], Plain::Number(-0.25)), "{text}");
        }
        for text in [
            "x\"a\": 1,",
            "\"a\" 1,",
            "\"a\": \"\\n\",",
            "\"\\n\": 1,",
            "\"\u{e4}\": 1,",
            "\"a\": {},",
            "\"a\": -,",
        ] {
            assert_eq!(member(&padded(text), 0), None, "{text}");
        }
    }
}
