//! The characters that a terminal has: all of them, or ASCII alone.

/// Which characters may be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// Those of Unicode.
    Unicode,
    /// Those of ASCII, for terminals and locales without UTF-8.
    Ascii,
}

/// An eighth and more of a cell each.
const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The same by how dark they are.
const STEPS: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

impl Charset {
    /// A share of one as a character; a blank where it is not known.
    pub fn bar(self, share: Option<f64>) -> char {
        let Some(share) = share.filter(|share| share.is_finite()) else { return ' ' };
        let level = (share.clamp(0.0, 1.0) * 8.0).ceil() as usize;
        let bars = if self == Self::Ascii { STEPS } else { BLOCKS };
        bars[level.clamp(1, 8) - 1]
    }

    /// A text in these characters. What ASCII lacks becomes what is usual for it, or a question mark.
    pub fn text(self, text: String) -> String {
        if self == Self::Unicode || text.is_ascii() {
            return text;
        }
        let known = |c| match c {
            'µ' => 'u',
            '–' | '—' => '-',
            '×' => 'x',
            '\u{a0}' => ' ',
            c if c.is_ascii() => c,
            _ => '?',
        };
        text.chars().map(known).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_a_step_of_its_own_and_nothing_has_none() {
        let all = |charset: Charset| -> String {
            [None, Some(0.0), Some(0.05), Some(0.5), Some(0.51), Some(1.0), Some(7.0), Some(f64::NAN)]
                .map(|share| charset.bar(share))
                .iter()
                .collect()
        };
        assert_eq!(all(Charset::Unicode), " ▁▁▄▅██ ");
        assert_eq!(all(Charset::Ascii), " __-=## ");
    }

    #[test]
    fn what_ascii_lacks_is_written_as_people_do() {
        assert_eq!(Charset::Ascii.text("120 µs ×2 größer".into()), "120 us x2 gr??er");
        assert_eq!(Charset::Unicode.text("µ".into()), "µ");
    }
}
