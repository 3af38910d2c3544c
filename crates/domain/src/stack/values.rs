//! Reading the values of one layer, strictly: a key that is not read is an error.

use super::{LayerSpec, StackError};
use crate::time::Nanos;
use crate::units::Bytes;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

type Result<T> = std::result::Result<T, StackError>;

/// What goes to one member of an array or of a volume before the next. mdadm(8): a power of two, and a page
/// at least.
pub(super) const CHUNKS: RangeInclusive<Bytes> = Bytes::from_kib(4)..=Bytes::from_mib(64);

/// The values of a layer, and which of them were looked at.
pub(super) struct Values<'a> {
    layer: &'a LayerSpec,
    read: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Values<'a> {
    pub(super) fn of(layer: &'a LayerSpec) -> Self {
        Self { layer, read: RefCell::default() }
    }

    /// Something wrong with one key.
    pub(super) fn refuse<T>(&self, key: &str, reason: impl Into<String>) -> Result<T> {
        Err(StackError { layer: self.layer.name.clone(), key: Some(key.into()), reason: reason.into() })
    }

    /// The value as it is written.
    pub(super) fn text(&self, key: &'static str) -> Option<&'a str> {
        self.read.borrow_mut().insert(key);
        self.layer.values.get(key).map(String::as_str)
    }

    /// A list's entries; none where the key is not there.
    pub(super) fn words(&self, key: &'static str) -> Vec<String> {
        self.text(key).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    }

    /// One of these, or `usual` where the key is not there.
    pub(super) fn one_of<T: Copy>(&self, key: &'static str, all: &[(&str, T)], usual: T) -> Result<T> {
        let Some(text) = self.text(key) else { return Ok(usual) };
        if let Some((_, value)) = all.iter().find(|(name, _)| *name == text) {
            return Ok(*value);
        }
        let names: Vec<String> = all.iter().map(|(name, _)| format!("`{name}`")).collect();
        self.refuse(key, format!("is `{text}`, and has to be one of {}", names.join(", ")))
    }

    /// `true` or `false`, or `usual`.
    pub(super) fn switch(&self, key: &'static str, usual: bool) -> Result<bool> {
        self.one_of(key, &[("true", true), ("false", false), ("1", true), ("0", false)], usual)
    }

    /// A whole number.
    pub(super) fn count(&self, key: &'static str, range: RangeInclusive<u32>) -> Result<Option<u32>> {
        let Some(text) = self.text(key) else { return Ok(None) };
        match text.parse() {
            Ok(number) if range.contains(&number) => Ok(Some(number)),
            _ => self.refuse(
                key,
                format!("is `{text}`, and has to be a number from {} to {}", range.start(), range.end()),
            ),
        }
    }

    /// A time.
    pub(super) fn time(&self, key: &'static str, range: RangeInclusive<Nanos>) -> Result<Option<Nanos>> {
        let Some(text) = self.text(key) else { return Ok(None) };
        match Nanos::parse(text) {
            Some(time) if range.contains(&time) => Ok(Some(time)),
            _ => self.refuse(
                key,
                format!(
                    "is `{text}`, and has to be a time from {} to {}, such as `200ms`",
                    range.start(),
                    range.end()
                ),
            ),
        }
    }

    /// A size.
    pub(super) fn size(&self, key: &'static str, range: RangeInclusive<Bytes>) -> Result<Option<Bytes>> {
        let Some(text) = self.text(key) else { return Ok(None) };
        match Bytes::parse(text) {
            Some(size) if range.contains(&size) => Ok(Some(size)),
            _ => self.refuse(
                key,
                format!(
                    "is `{text}`, and has to be a size from {} to {}, such as `64KiB`",
                    range.start(),
                    range.end()
                ),
            ),
        }
    }

    /// A word of these characters, which a tool takes as it stands.
    pub(super) fn word(&self, key: &'static str, also: &str) -> Result<Option<String>> {
        let Some(text) = self.text(key) else { return Ok(None) };
        let allowed = |c: char| c.is_ascii_alphanumeric() || also.contains(c);
        if text.is_empty() || text.starts_with('-') || !text.chars().all(allowed) {
            return self
                .refuse(key, format!("is `{text}`, and has to be one word of letters, digits and `{also}`"));
        }
        Ok(Some(text.to_owned()))
    }

    /// Refuses what nobody has looked at.
    pub(super) fn all_read(&self, kind: &str) -> Result<()> {
        let read = self.read.borrow();
        let Some(key) = self.layer.values.keys().find(|key| !read.contains(key.as_str())) else {
            return Ok(());
        };
        let known: Vec<String> = read.iter().map(|key| format!("`{key}`")).collect();
        self.refuse(key, format!("is no key of a layer of the kind `{kind}`, which has {}", known.join(", ")))
    }
}
