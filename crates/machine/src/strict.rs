//! Reading our own JSON to the last field: what another version wrote and nobody looks at may matter to
//! undoing.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// A value of this type. Asked of the whole tree, and not of each type by `deny_unknown_fields`, so that no
/// type can be forgotten.
///
/// # Errors
/// What is wrong: it is no such value, or it has a field that would be missing if it were written again.
pub(crate) fn from_json<T: Serialize + DeserializeOwned>(read: &Value) -> Result<T, String> {
    let unlike = |error: serde_json::Error| error.to_string().replace("unknown variant", "unknown kind");
    let value = T::deserialize(read).map_err(unlike)?;
    let written = serde_json::to_value(&value).map_err(|error| error.to_string())?;
    match unknown_field(read, &written) {
        Some(field) => Err(format!("it has the field `{field}`, which is not known")),
        None => Ok(value),
    }
}

fn unknown_field(read: &Value, written: &Value) -> Option<String> {
    match (read, written) {
        (Value::Object(read), Value::Object(written)) => read.iter().find_map(|(name, value)| {
            let Some(known) = written.get(name) else { return Some(name.clone()) };
            unknown_field(value, known).map(|field| format!("{name}.{field}"))
        }),
        (Value::Array(read), Value::Array(written)) => {
            read.iter().zip(written).find_map(|(read, written)| unknown_field(read, written))
        }
        _ => None,
    }
}

/// A text that anybody may have written, for an error's one line.
pub(crate) fn shortened(text: &str) -> String {
    const LONGEST: usize = 200;
    let plain = |c: char| if c.is_control() { '?' } else { c };
    let mut short: String = text.chars().take(LONGEST).map(plain).collect();
    if text.chars().nth(LONGEST).is_some() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
    struct Outer {
        all: Vec<Inner>,
        #[serde(default)]
        later: Option<u8>,
    }

    #[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(tag = "kind", rename_all = "snake_case")]
    enum Inner {
        One { number: u8 },
    }

    fn read(text: &str) -> Result<Outer, String> {
        from_json(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn a_field_that_nobody_knows_is_an_error_however_deep_it_is() {
        let one = r#"{"kind":"one","number":1}"#;
        assert_eq!(
            read(&format!(r#"{{"all":[{one}]}}"#)),
            Ok(Outer { all: vec![Inner::One { number: 1 }], later: None })
        );
        let deep = one.replace('}', r#","of":2}"#);
        let error = read(&format!(r#"{{"all":[{one},{deep}]}}"#)).unwrap_err();
        assert_eq!(error, "it has the field `all.of`, which is not known");
        assert!(read(r#"{"all":[],"new":null}"#).unwrap_err().contains("`new`"));
        assert!(read(r#"{"all":[{"kind":"two"}]}"#).unwrap_err().contains("`two`"));
    }
}
