//! TOML files that are read strictly: where in the text something is wrong, and quantities that carry their
//! unit.
//!
//! A format is a structure of its own with `#[serde(deny_unknown_fields)]`, read by [`read`]; what its values
//! must be together is for its crate to check, which says with [`Error::at`] where a check fails. So each
//! format has the same errors.
//!
//! Not a goal: to find more than the first error. Studies, which people write most, are read by
//! `parse::study`, which goes on after an error; it takes its places from here.

mod place;
pub mod quantity;

pub use place::Place;

use serde::de::DeserializeOwned;
use thiserror::Error as ThisError;

/// Why a file was not understood.
#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum Error {
    /// The text is no TOML, has an unknown or missing key, or a value of the wrong form.
    #[error("{place}: {message}")]
    Text {
        /// Where.
        place: Place,
        /// What is wrong, with the value.
        message: String,
    },
    /// Values that are each well formed and do not go together.
    #[error("`{key}`: {message}")]
    Value {
        /// The key, with its table.
        key: &'static str,
        /// What is wrong, with the value.
        message: String,
    },
}

impl Error {
    /// An error at a byte of a text.
    pub fn at(text: &str, byte: usize, message: String) -> Self {
        Self::Text { place: Place::of(text, byte), message }
    }

    /// An error of the value of a key.
    pub const fn of(key: &'static str, message: String) -> Self {
        Self::Value { key, message }
    }
}

/// Reads a text as what its format says.
///
/// # Errors
/// [`Error::Text`]: the first thing that is wrong, and where.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    toml::from_str(text).map_err(|error| {
        let byte = error.span().map_or(0, |span| span.start);
        Error::at(text, byte, error.message().trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::quantity::Size;
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        size: Size,
    }

    fn told(text: &str) -> String {
        read::<File>(text).unwrap_err().to_string()
    }

    #[test]
    fn an_unknown_key_a_missing_one_and_a_wrong_value_are_told_with_their_places() {
        assert_eq!(told("size = '1 MiB'\ncolour = 1\n"), "2:1: unknown field `colour`, expected `size`");
        assert_eq!(told("# Nothing.\n"), "1:1: missing field `size`");
        assert_eq!(told("size = 'big'"), "1:8: `big` is no size; write it as `\"32 MiB\"` or `\"1000 GB\"`");
        assert!(told("size = ").starts_with("1:8: "), "no TOML");
    }

    #[test]
    fn what_is_right_is_read() {
        assert_eq!(read::<File>("size = '1 MiB'").unwrap().size.0.get(), 1 << 20);
    }
}
