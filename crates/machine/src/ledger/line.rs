//! How a line of the ledger says a record, and what a line is that says none.
//!
//! A line is `LENGTH CHECKSUM JSON`: the length of the JSON in bytes, its CRC-32 in hexadecimal. The JSON of
//! a record names the version of its form (`v`) and the Flyball that wrote it (`by`); without `v` it is of
//! version 1, which is all of version 2 but these two names. Version 3 has databases in servers besides.
//!
//! A line that fails length or checksum is broken: nobody knows what it said. A whole one that is not
//! understood to the last field was written by another Flyball, or by nobody's: what it says may matter to
//! undoing, so that nothing may be undone without it. A field, a kind or a meaning that is new takes a new
//! version; what an older version wrote stays readable.

use super::record::Record;
use super::whereabouts;
use crate::strict::{self, shortened};
use serde::Serialize;
use serde_json::{Map, Value};
use std::fmt;

/// The version of the form that is written.
const VERSION: u64 = 3;

/// The Flyball that this is.
pub(super) const PROGRAM: &str = env!("CARGO_PKG_VERSION");

/// How long a line may be: the change of a driver on the 8192 CPUs that Linux can have is some 12 MiB.
pub(super) const MAX_LINE: usize = 64 << 20;

/// What a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Record(Box<Record>),
    /// It fails length or checksum.
    Broken,
    NotUnderstood(NotUnderstood),
}

/// A whole line that this program does not understand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NotUnderstood {
    /// The version of the Flyball that wrote it, where it says one.
    pub by: Option<String>,
    /// Why it is not understood.
    pub why: String,
    /// What can be told of it.
    pub what: String,
}

/// A record's line, with its newline.
pub(super) fn of(record: &Record) -> String {
    #[derive(Serialize)]
    struct Versioned<'a> {
        v: u64,
        by: &'a str,
        #[serde(flatten)]
        record: &'a Record,
    }
    let versioned = Versioned { v: VERSION, by: PROGRAM, record };
    let json = serde_json::to_string(&versioned).expect("these types hold nothing that JSON cannot");
    with_checksum(&json)
}

fn with_checksum(json: &str) -> String {
    format!("{} {:08x} {json}\n", json.len(), crc32fast::hash(json.as_bytes()))
}

/// What a line without its newline is.
pub(super) fn parse(line: &[u8]) -> Line {
    match json_of(line).map(understand) {
        None => Line::Broken,
        Some(Ok(record)) => Line::Record(Box::new(record)),
        Some(Err(not)) => Line::NotUnderstood(not),
    }
}

/// The JSON of a line, where length and checksum say that it is whole.
fn json_of(line: &[u8]) -> Option<&str> {
    let line = std::str::from_utf8(line).ok()?;
    let (length, rest) = line.split_once(' ')?;
    let (checksum, json) = rest.split_once(' ')?;
    let whole = length.parse() == Ok(json.len())
        && u32::from_str_radix(checksum, 16) == Ok(crc32fast::hash(json.as_bytes()));
    whole.then_some(json)
}

fn understand(json: &str) -> Result<Record, NotUnderstood> {
    let mut fields: Map<String, Value> = serde_json::from_str(json).map_err(|error| NotUnderstood {
        by: None,
        why: format!("it is no record: {error}"),
        what: shortened(json),
    })?;
    let version = fields.remove("v").map_or(Some(1), |version| version.as_u64());
    let by = fields.remove("by").and_then(|by| by.as_str().map(shortened));
    let what = in_words(&fields);
    record_of(version, fields).map_err(|why| NotUnderstood { by, why, what })
}

/// `Err` says why the line is not understood.
fn record_of(version: Option<u64>, fields: Map<String, Value>) -> Result<Record, String> {
    match version {
        Some(1..=VERSION) => {}
        Some(other) => return Err(format!("its form is of version {other}, and version {VERSION} is known")),
        None => return Err("the version of its form is no number".to_owned()),
    }
    let record = strict::from_json(&Value::Object(fields)).map_err(|why| shortened(&why))?;
    whereabouts::check(&record)?;
    Ok(record)
}

/// What can be told of a record of any version: the values of the names that have had one meaning so far.
fn in_words(fields: &Map<String, Value>) -> String {
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let kind = text("record").unwrap_or("something without a kind");
    let named = ["setting", "path", "old", "new"].iter().filter_map(|name| {
        let value = text(name)?;
        Some(format!("{name} `{value}`"))
    });
    let named: Vec<String> = named.collect();
    shortened(&if named.is_empty() { kind.to_owned() } else { format!("{kind}: {}", named.join(", ")) })
}

impl fmt::Display for NotUnderstood {
    /// As the end of a sentence that begins with the line's number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.by {
            Some(by) => write!(f, "was written by Flyball {by}")?,
            None => f.write_str("does not say which Flyball wrote it")?,
        }
        write!(f, ", and this one ({PROGRAM}) does not understand it: {}; it says: {}", self.why, self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::{Change, Got};
    use super::*;
    use crate::settings::Identity;
    use expect_test::expect;

    fn change() -> Record {
        Record::Change(Change {
            id: 1,
            boot: "b".into(),
            setting: "governor@policy0".into(),
            path: "/sys/x".into(),
            identity: Identity::default(),
            old: "powersave".into(),
            new: "performance".into(),
            instead: None,
            keeps: vec![],
        })
    }

    fn parsed(json: &str) -> Line {
        parse(with_checksum(json).trim_end().as_bytes())
    }

    fn why_not(json: &str) -> String {
        match parsed(json) {
            Line::NotUnderstood(not) => not.to_string().replace(PROGRAM, "PROGRAM"),
            other => panic!("{json}: {other:?}"),
        }
    }

    #[test]
    fn a_line_is_length_checksum_and_json() {
        let line = of(&change()).replace(&format!(r#""by":"{PROGRAM}""#), r#""by":"PROGRAM""#);
        let (_, json) = line.split_once(" {").unwrap();
        expect![[r#"
            "v":3,"by":"PROGRAM","record":"change","id":1,"boot":"b","setting":"governor@policy0","path":"/sys/x","identity":{},"old":"powersave","new":"performance"}
        "#]]
        .assert_eq(json);
    }

    #[test]
    fn a_line_of_version_1_is_read_as_ever() {
        let line = r#"134 e77476b5 {"record":"change","id":1,"boot":"b","setting":"governor@policy0","path":"/sys/x","identity":{},"old":"powersave","new":"performance"}"#;
        assert_eq!(parse(line.as_bytes()), Line::Record(Box::new(change())));
    }

    #[test]
    fn a_line_that_is_cut_or_changed_anywhere_is_broken() {
        let line = of(&change());
        let line = line.trim_end().as_bytes();
        assert_eq!(parse(line), Line::Record(Box::new(change())));
        for at in 0..line.len() {
            assert_eq!(parse(&line[..at]), Line::Broken, "cut at {at}");
            let mut changed = line.to_vec();
            changed[at] ^= 1;
            assert_eq!(parse(&changed), Line::Broken, "changed at {at}");
        }
    }

    #[test]
    fn every_record_of_ours_is_understood() {
        let got = Got { id: 1, value: "x".into(), kept: vec![None, Some("y".into())] };
        let returning = Record::Returning { id: 1, foreign: vec!["/sys/y".into()] };
        for record in [change(), Record::Got(got), returning, Record::Done { id: 7 }] {
            assert_eq!(parse(of(&record).trim_end().as_bytes()), Line::Record(Box::new(record)));
        }
    }

    #[test]
    fn what_a_newer_version_wrote_is_whole_and_not_understood() {
        expect!["was written by Flyball 0.9.0, and this one (PROGRAM) does not understand it: its form is of version 4, and version 3 is known; it says: done"]
            .assert_eq(&why_not(r#"{"v":4,"by":"0.9.0","record":"done","id":1}"#));
        expect!["was written by Flyball 0.9.0, and this one (PROGRAM) does not understand it: unknown kind `spell`, expected one of `change`, `got`, `returning`, `file`, `loop`, `built`, `disk`, `done`; it says: spell: setting `x`, path `/sys/x`, old `1`"]
            .assert_eq(&why_not(r#"{"v":2,"by":"0.9.0","record":"spell","setting":"x","path":"/sys/x","old":"1"}"#));
        for (json, said) in [
            (r#"{"record":"done","id":1,"then":2}"#, "does not say which Flyball wrote it, and this one"),
            (r#"{"record":"done","id":1,"then":2}"#, "it has the field `then`"),
            (r#"{"v":0,"record":"done","id":1}"#, "version 0"),
            (r#"{"v":"x","record":"done","id":1}"#, "no number"),
            (
                r#"{"record":"built","id":1,"boot":"b","part":{"part":"folder","path":"/a/flyball-1","deep":1}}"#,
                "`part.deep`",
            ),
            (r#"{"record":"built","id":1,"boot":"b","part":{"part":"tent"}}"#, "`tent`"),
            ("[]", "it is no record"),
            ("nothing of ours", "it is no record"),
        ] {
            let told = why_not(json);
            assert!(told.contains(said), "{json}: {told}");
        }
    }

    #[test]
    fn what_a_line_says_is_shown_on_one_line_of_plain_text() {
        let told = why_not(&format!(r#"{{"record":"\u001b[2J{}"}}"#, "x".repeat(1000)));
        assert!(!told.contains('\u{1b}') && told.chars().count() < 700, "{told}");
    }
}
