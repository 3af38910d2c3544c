//! What changed between two readings of one file, in words of eight bytes.
//!
//! Counters mostly change in their last digits, so a sample of `/proc/diskstats` shrinks to a few words: less
//! is written to the disk that is being measured. A patch is the new length (u32) and then runs: first word
//! (u16), number of words (u16), their bytes (the last word of the text may be short). Little-endian.

const WORD: usize = 8;

/// Texts up to here can be patched: word numbers are 16 bits.
pub const LONGEST: usize = WORD * u16::MAX as usize;

/// Writes into `patch` what turns `old` into `new`, which is at most [`LONGEST`] long.
pub fn diff(old: &[u8], new: &[u8], patch: &mut Vec<u8>) {
    patch.clear();
    patch.extend((new.len() as u32).to_le_bytes());
    let words = new.len().div_ceil(WORD);
    let differs = |word: usize| old.get(span(word, old.len())) != new.get(span(word, new.len()));
    let mut at = 0;
    while at < words {
        if !differs(at) {
            at += 1;
            continue;
        }
        let first = at;
        while at < words && differs(at) {
            at += 1;
        }
        patch.extend((first as u16).to_le_bytes());
        patch.extend(((at - first) as u16).to_le_bytes());
        patch.extend(&new[first * WORD..new.len().min(at * WORD)]);
    }
}

/// Turns `text` into what it became; `None` where the patch is not one of such a text.
pub fn apply(text: &mut Vec<u8>, patch: &[u8]) -> Option<()> {
    let (length, mut rest) = patch.split_at_checked(4)?;
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    if length > LONGEST {
        return None;
    }
    text.resize(length, 0);
    while !rest.is_empty() {
        let (run, tail) = rest.split_at_checked(4)?;
        let first = u16::from_le_bytes([run[0], run[1]]) as usize * WORD;
        let end = length.min(first + u16::from_le_bytes([run[2], run[3]]) as usize * WORD);
        let (bytes, tail) = tail.split_at_checked(end.checked_sub(first)?)?;
        text.get_mut(first..end)?.copy_from_slice(bytes);
        rest = tail;
    }
    Some(())
}

/// Where a word stands in a text of this length; an empty span at the end where the text is shorter.
fn span(word: usize, length: usize) -> std::ops::Range<usize> {
    length.min(word * WORD)..length.min((word + 1) * WORD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_digit_costs_one_word() {
        let mut patch = Vec::new();
        diff(b"cpu0 1558 0 519 151651 46 0 63 0", b"cpu0 1559 0 519 151651 46 0 63 0", &mut patch);
        assert_eq!(patch.len(), 4 + 4 + 8);
    }

    #[test]
    fn a_cut_patch_is_refused() {
        let mut patch = Vec::new();
        diff(b"", b"0123456789", &mut patch);
        assert_eq!(apply(&mut Vec::new(), &patch[..patch.len() - 1]), None);
    }

    proptest! {
        #[test]
        fn a_patched_text_is_the_new_text(old in "[0-3 \n]{0,60}", new in "[0-3 \n]{0,60}") {
            let (mut patch, mut text) = (Vec::new(), old.clone().into_bytes());
            diff(old.as_bytes(), new.as_bytes(), &mut patch);
            prop_assert_eq!(apply(&mut text, &patch), Some(()));
            prop_assert_eq!(text, new.into_bytes());
        }

        #[test]
        fn garbage_never_panics(patch: Vec<u8>) {
            let _ = apply(&mut b"some text".to_vec(), &patch);
        }
    }
}
