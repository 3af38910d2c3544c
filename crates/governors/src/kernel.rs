//! Which kernel's behaviour is meant.

use std::fmt;

/// A kernel release's number: governors changed with it, some within a stable series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KernelVersion {
    /// 6 of 6.12.48.
    pub major: u16,
    /// 12 of 6.12.48.
    pub minor: u16,
    /// 48 of 6.12.48.
    pub patch: u16,
}

impl KernelVersion {
    /// A version by its three numbers.
    pub const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }

    /// From `6.12.48+deb13-amd64`, `6.1.0-40-amd64` or `4.4`; what follows the numbers is passed over, a
    /// missing number is zero. `None` where it does not begin with two numbers.
    pub fn parse(text: &str) -> Option<Self> {
        let numbers = text.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        let mut numbers = numbers.split('.').map(str::parse::<u16>);
        let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        let patch = numbers.next().and_then(Result::ok).unwrap_or(0);
        Some(Self { major, minor, patch })
    }

    /// Whether a change that came with `mainline`, and into stable series with the listed releases, is in
    /// this kernel.
    pub(crate) fn has(self, mainline: (u16, u16), stable: &[(u16, u16, u16)]) -> bool {
        let same_series = |(major, minor, _): &&(u16, u16, u16)| (*major, *minor) == (self.major, self.minor);
        match stable.iter().find(same_series) {
            Some((_, _, patch)) => self.patch >= *patch,
            None => (self.major, self.minor) >= mainline,
        }
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_read_as_uname_tells_it() {
        let cases = [
            ("6.12.48+deb13-amd64", Some((6, 12, 48))),
            ("6.1.0-40-amd64", Some((6, 1, 0))),
            ("4.4", Some((4, 4, 0))),
            ("6.", None),
            ("", None),
            ("linux 6.1", None),
        ];
        for (text, expected) in cases {
            let expected = expected.map(|(a, b, c)| KernelVersion::new(a, b, c));
            assert_eq!(KernelVersion::parse(text), expected, "{text}");
        }
        assert!(KernelVersion::new(6, 12, 0) > KernelVersion::new(6, 1, 99));
    }

    #[test]
    fn a_change_is_there_from_its_stable_release_or_from_its_mainline_one() {
        let has = |major, minor, patch| KernelVersion::new(major, minor, patch).has((7, 0), &[(6, 12, 80)]);
        assert_eq!(
            [has(6, 12, 79), has(6, 12, 80), has(6, 18, 99), has(7, 0, 0), has(7, 2, 1)],
            [false, true, false, true, true]
        );
    }
}
