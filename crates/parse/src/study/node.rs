//! Reading TOML strictly: a table knows its path and place, and says itself what is wrong with it.
//!
//! Readers return `None` once they have noted a problem, so that the rest of the file is still read.

use super::error::Problems;
use domain::order;
use domain::setting::SettingName;
use domain::time::Nanos;
use domain::units::Bytes;
use std::fmt::Display;
use std::ops::RangeInclusive;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// A value of the file, with its path and place.
#[derive(Clone)]
pub(super) struct Node<'a> {
    problems: &'a Problems<'a>,
    /// As it is shown: `workload.seqread.options.bs`.
    pub(super) path: String,
    /// The last part of the path.
    pub(super) key: &'a str,
    key_at: usize,
    value_at: usize,
    value: &'a DeValue<'a>,
}

/// A table of the file.
#[derive(Clone)]
pub(super) struct Section<'a> {
    problems: &'a Problems<'a>,
    path: String,
    at: usize,
    table: &'a DeTable<'a>,
}

/// A scalar that becomes an option, a setting or a level.
pub(super) struct Scalar {
    /// As it was written.
    pub(super) shown: String,
    /// As tools and kernel files take it: `true` is `1`.
    pub(super) value: String,
}

impl<'a> Section<'a> {
    /// The whole file.
    pub(super) fn root(table: &'a DeTable<'a>, problems: &'a Problems<'a>) -> Self {
        Self { problems, path: String::new(), at: 0, table }
    }

    /// The entries, in the order of the file.
    pub(super) fn entries(&self) -> Vec<Node<'a>> {
        let mut entries: Vec<_> = self.table.iter().collect();
        order::by_key(&mut entries, |(key, _)| key.span().start);
        entries.into_iter().map(|(key, value)| self.node(key, value)).collect()
    }

    /// The value of a key, where it is there.
    pub(super) fn get(&self, key: &str) -> Option<Node<'a>> {
        let (key, value) = self.table.get_key_value(key)?;
        Some(self.node(key, value))
    }

    /// The value of a key that has to be there; `write` shows what to put there.
    pub(super) fn require(&self, key: &str, write: &str) -> Option<Node<'a>> {
        let node = self.get(key);
        if node.is_none() {
            self.problems.add(self.at, self.path_of(key), format!("missing; write `{write}`"));
        }
        node
    }

    /// Refuses every key but these, and names the nearest.
    pub(super) fn only(&self, known: &[&str]) {
        for node in self.entries().iter().filter(|node| !known.contains(&node.key)) {
            let help = match nearest(node.key, known.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known here: {}", listed(known)),
            };
            node.refuse_key(format!("unknown key; {help}"));
        }
    }

    /// Whether nothing wrong was found so far, here or elsewhere.
    pub(super) fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    /// Notes a problem with the table as a whole.
    pub(super) fn refuse(&self, problem: impl Into<String>) {
        self.problems.add(self.at, self.path.clone(), problem);
    }

    fn node(&self, key: &'a Spanned<DeString<'a>>, value: &'a Spanned<DeValue<'a>>) -> Node<'a> {
        Node {
            problems: self.problems,
            path: self.path_of(key.get_ref()),
            key: key.get_ref(),
            key_at: key.span().start,
            value_at: value.span().start,
            value: value.get_ref(),
        }
    }

    fn path_of(&self, key: &str) -> String {
        let bare = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        let key = if bare { key.to_owned() } else { format!("{key:?}") };
        if self.path.is_empty() { key } else { format!("{}.{key}", self.path) }
    }
}

impl<'a> Node<'a> {
    /// Notes a problem with the value.
    pub(super) fn refuse(&self, problem: impl Into<String>) {
        self.problems.add(self.value_at, self.path.clone(), problem);
    }

    /// Notes a problem with the key.
    pub(super) fn refuse_key(&self, problem: impl Into<String>) {
        self.problems.add(self.key_at, self.path.clone(), problem);
    }

    /// Notes that a setting is named here, or is to be set to a value, of which the machine may know more.
    pub(super) fn note_setting(&self, setting: &SettingName, value: Option<&str>) {
        let at = if value.is_some() { self.value_at } else { self.key_at };
        self.problems.note_setting(at, self.path.clone(), setting.clone(), value.map(str::to_owned));
    }

    /// Whether nothing wrong was found so far in it or below it.
    pub(super) fn is_sound(&self) -> bool {
        !self.problems.is_any_below(&self.path)
    }

    /// A table.
    pub(super) fn section(&self) -> Option<Section<'a>> {
        match self.value {
            DeValue::Table(table) => {
                Some(Section { problems: self.problems, path: self.path.clone(), at: self.key_at, table })
            }
            _ => self.wrong_type(&format!("a table, `[{}]`", self.path)),
        }
    }

    /// A table; `None`, unsaid, for any other value.
    pub(super) fn section_if_any(&self) -> Option<Section<'a>> {
        self.value.is_table().then(|| self.section()).flatten()
    }

    /// The items of an array.
    pub(super) fn items(&self) -> Option<Vec<Node<'a>>> {
        let DeValue::Array(array) = self.value else { return self.wrong_type("a list, `[…, …]`") };
        let item = |(index, value): (usize, &'a Spanned<DeValue<'a>>)| Node {
            path: format!("{}[{}]", self.path, index + 1),
            key_at: value.span().start,
            value_at: value.span().start,
            value: value.get_ref(),
            ..self.clone()
        };
        Some(array.iter().enumerate().map(item).collect())
    }

    /// The items of an array; none for any other value.
    pub(super) fn items_if_any(&self) -> Vec<Node<'a>> {
        self.value.is_array().then(|| self.items()).flatten().unwrap_or_default()
    }

    /// A string without control characters.
    pub(super) fn text(&self) -> Option<&'a str> {
        match self.value {
            DeValue::String(text) if text.chars().any(char::is_control) => {
                self.refuse("holds a line break or another control character; take it out");
                None
            }
            DeValue::String(text) => Some(text),
            _ => self.wrong_type("a string, `\"…\"`"),
        }
    }

    /// `true` or `false`.
    pub(super) fn flag(&self) -> Option<bool> {
        let flag = self.value.as_bool();
        flag.or_else(|| self.wrong_type("`true` or `false`"))
    }

    /// A whole number within bounds.
    pub(super) fn count(&self, bounds: RangeInclusive<u32>) -> Option<u32> {
        let DeValue::Integer(_) = self.value else { return self.wrong_type("a whole number") };
        let count = self.integer().and_then(|n| u32::try_from(n).ok()).filter(|n| bounds.contains(n));
        if count.is_none() {
            self.refuse(format!("has to be from {} to {}", bounds.start(), bounds.end()));
        }
        count
    }

    /// Whether it is a whole number, however large.
    pub(super) fn is_integer(&self) -> bool {
        self.value.is_integer()
    }

    /// A whole number; `None`, unsaid, for anything else.
    pub(super) fn integer(&self) -> Option<i64> {
        let integer = self.value.as_integer()?;
        i64::from_str_radix(integer.as_str(), integer.radix()).ok()
    }

    /// Whether it is a string.
    pub(super) fn is_text(&self) -> bool {
        self.value.is_str()
    }

    /// A number, whole or not; `None`, unsaid, for anything else.
    pub(super) fn number(&self) -> Option<f64> {
        match self.value {
            DeValue::Float(float) => float.as_str().parse().ok().filter(|n: &f64| n.is_finite()),
            _ => self.integer().map(|n| n as f64),
        }
    }

    /// A share: `"5%"` or `0.05`.
    pub(super) fn share(&self) -> Option<f64> {
        let share = match self.value {
            DeValue::String(text) => {
                let number = text.trim().strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
                number.map(|percent| percent / 100.0)
            }
            DeValue::Float(float) => float.as_str().parse().ok(),
            DeValue::Integer(_) => self.integer().filter(|n| *n == 0).map(|_| 0.0),
            _ => None,
        };
        let share = share.filter(|share| (0.0..=1.0).contains(share));
        if share.is_none() {
            self.refuse("is not a share; write it as `\"5%\"` or `0.05`");
        }
        share
    }

    /// A span of time within bounds.
    pub(super) fn span(&self, bounds: RangeInclusive<Nanos>) -> Option<Nanos> {
        let Some(span) = self.text_or_number("10ms")?.and_then(|text| Nanos::parse(&text)) else {
            self.refuse("is not a span of time; write a number and its unit, `us`, `ms`, `s`, `min` or `h`: `\"10ms\"`");
            return None;
        };
        self.within(span, bounds)
    }

    /// A size within bounds.
    pub(super) fn size(&self, bounds: RangeInclusive<Bytes>) -> Option<Bytes> {
        let Some(size) = self.text_or_number("256MiB")?.and_then(|text| Bytes::parse(&text)) else {
            self.refuse("is not a size; write a number and its unit, as in `\"256MiB\"` or `\"4k\"`");
            return None;
        };
        self.within(size, bounds)
    }

    fn text_or_number(&self, example: &str) -> Option<Option<String>> {
        match self.value {
            DeValue::String(text) => Some(Some(text.to_string())),
            DeValue::Integer(_) | DeValue::Float(_) => Some(None),
            _ => self.wrong_type(&format!("a string such as `\"{example}\"`")),
        }
    }

    fn within<T: PartialOrd + Display>(&self, value: T, bounds: RangeInclusive<T>) -> Option<T> {
        if bounds.contains(&value) {
            return Some(value);
        }
        self.refuse(format!("is {value}; it has to be from {} to {}", bounds.start(), bounds.end()));
        None
    }

    /// A string, number or boolean, for an option, a setting or a level.
    pub(super) fn scalar(&self) -> Option<Scalar> {
        let same = |text: &str| Scalar { shown: text.to_owned(), value: text.to_owned() };
        match self.value {
            DeValue::String(_) => self.text().map(same),
            DeValue::Boolean(flag) => {
                let value = if *flag { "1" } else { "0" };
                Some(Scalar { shown: flag.to_string(), value: value.into() })
            }
            DeValue::Integer(_) => {
                let number = self.integer();
                if number.is_none() {
                    self.refuse("is too large a number; write it as a string");
                }
                number.map(|n| same(&n.to_string()))
            }
            DeValue::Float(float) if float.as_str().parse::<f64>().is_ok_and(f64::is_finite) => {
                Some(same(float.as_str()))
            }
            _ => self.wrong_type("a string, a number, `true` or `false`"),
        }
    }

    fn wrong_type<T>(&self, wanted: &str) -> Option<T> {
        let article = if self.value.type_str().starts_with(['a', 'i']) { "an" } else { "a" };
        self.refuse(format!("has to be {wanted}; this is {article} {}", self.value.type_str()));
        None
    }
}

/// A bound on the names whose nearest is looked for: no known one is near a longer.
const MAX_NEAR_CHARS: usize = 64;

/// The name that is meant, where one is near: at most a third of its letters wrong.
pub(super) fn nearest<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let distance = |known: &&str| strsim::osa_distance(&name.to_lowercase(), known);
    let near = known.into_iter().filter(|_| name.len() <= MAX_NEAR_CHARS).min_by_key(distance)?;
    (distance(&near) <= near.chars().count().div_ceil(3)).then_some(near)
}

/// `a`, `b` and `c` in backticks.
pub(super) fn listed(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
