//! The format of a tracepoint's record: `events/GROUP/NAME/format` of tracefs (kernel
//! `Documentation/trace/events.rst`, section 2.2). Where a field lies differs between kernels.

use super::Error;

/// A bound on the fields of one format: the largest of Linux 6.18 has 27.
const MAX_FIELDS: usize = 128;

/// A bound on a record: perf gives the size of one in 16 bits.
const MAX_RECORD: u32 = u16::MAX as u32;

/// Where the fields of a record lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// The event's name, without its group.
    pub name: String,
    /// What `common_type` of its records is.
    pub id: u16,
    /// Its fields, the common ones first.
    pub fields: Vec<Field>,
    /// The letters of a mask that the print format names: `(0x2, 'D')` of `prev_state`.
    pub letters: Vec<(u64, char)>,
}

/// One field of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// As C declares it, without an array's length.
    pub name: String,
    /// From the record's first byte.
    pub offset: u32,
    /// In bytes; that of a `__data_loc` is of what points to the text.
    pub size: u32,
    /// Whether the number has a sign.
    pub is_signed: bool,
}

impl Format {
    /// Reads a format.
    ///
    /// # Errors
    /// Where the number is missing, a field's place is no number, or a field ends behind the largest record.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let (mut name, mut id) = (String::new(), None);
        let (mut fields, mut letters) = (Vec::new(), Vec::new());
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(value) = line.strip_prefix("name:") {
                value.trim().clone_into(&mut name);
            } else if let Some(value) = line.strip_prefix("ID:") {
                let parsed = value.trim().parse().ok();
                id = Some(parsed.ok_or_else(|| Error::value(number, value, "the number of a tracepoint"))?);
            } else if let Some(field) = line.trim_start().strip_prefix("field:") {
                if fields.len() == MAX_FIELDS {
                    return Err(Error::value(number, field, "one of at most 128 fields"));
                }
                let read = Field::parse(field);
                fields.push(read.ok_or_else(|| Error::value(number, field, "a field with offset and size"))?);
            } else if let Some(print) = line.strip_prefix("print fmt:") {
                letters = letters_of(print);
            }
        }
        let first = text.lines().next().unwrap_or_default();
        let id = id.ok_or_else(|| Error::value(1, first, "a format with an `ID:`"))?;
        Ok(Self { name, id, fields, letters })
    }

    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }
}

impl Field {
    /// `pid_t prev_pid; offset:24; size:4; signed:1;`
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(';');
        let declared = parts.next()?.trim();
        let name = declared.rsplit([' ', '*']).next()?.split('[').next()?.to_owned();
        let (mut offset, mut size, mut is_signed) = (None, None, false);
        for part in parts {
            match part.trim().split_once(':') {
                Some(("offset", value)) => offset = value.parse::<u32>().ok(),
                Some(("size", value)) => size = value.parse::<u32>().ok(),
                Some(("signed", value)) => is_signed = value == "1",
                _ => {}
            }
        }
        let (offset, size) = (offset?, size?);
        let fits = offset.checked_add(size).is_some_and(|end| end <= MAX_RECORD);
        (fits && !name.is_empty()).then_some(Self { name, offset, size, is_signed })
    }
}

/// The pairs `{ 0x00000002, "D" }` of one letter in a print format.
fn letters_of(print: &str) -> Vec<(u64, char)> {
    let pairs = print.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let pair = |text: &str| {
        let (mask, name) = text.split_once(',')?;
        let mask = u64::from_str_radix(mask.trim().strip_prefix("0x")?, 16).ok()?;
        let mut letters = name.trim().strip_prefix('"')?.strip_suffix('"')?.chars();
        let letter = letters.next()?;
        letters.next().is_none().then_some((mask, letter))
    };
    pairs.filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;
    use proptest::prelude::*;

    /// From Linux 6.18 on x86-64.
    const SWITCH: &str = include_str!("../../fixtures/tracepoints/sched_switch");

    #[test]
    fn a_switch_has_its_fields_and_the_letters_of_its_states() {
        let format = Format::parse(SWITCH).unwrap();
        assert_eq!((format.name.as_str(), format.id), ("sched_switch", 372));
        let field = |name: &str| {
            let field = format.field(name).unwrap();
            (field.offset, field.size, field.is_signed)
        };
        assert_eq!(field("common_flags"), (2, 1, false));
        assert_eq!(field("prev_comm"), (8, 16, false));
        assert_eq!(field("prev_state"), (32, 8, true));
        assert_eq!(field("next_pid"), (56, 4, true));
        let letters: String = format.letters.iter().map(|(_, letter)| letter).collect();
        assert_eq!(letters, "SDTtXZPI");
        assert_eq!(format.letters[1], (2, 'D'));
    }

    #[test]
    fn pointers_and_texts_elsewhere_have_their_names() {
        let text = "ID: 7\nformat:\n\tfield:void * work;\toffset:8;\tsize:8;\tsigned:0;\n\
                    \tfield:__data_loc char[] cmd;\toffset:16;\tsize:4;\tsigned:0;\n";
        let format = Format::parse(text).unwrap();
        assert_eq!(format.fields.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["work", "cmd"]);
    }

    #[test]
    fn what_is_no_format_says_where() {
        let check = |text: &str, expected: expect_test::Expect| {
            expected.assert_eq(&Format::parse(text).unwrap_err().to_string());
        };
        check("name: x\n", expect!["line 1: `name: x` is not a format with an `ID:`"]);
        check("ID: 70000\n", expect!["line 1: ` 70000` is not the number of a tracepoint"]);
        let beyond = "ID: 1\n\tfield:int a;\toffset:65535;\tsize:4;\tsigned:1;\n";
        assert!(Format::parse(beyond).is_err(), "it ends behind the largest record");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC*|((ID:|name:|\tfield:|print fmt:)[ -~]{0,40}\n){0,20}") {
            let _ = Format::parse(&text);
        }

        #[test]
        fn no_damage_to_a_format_makes_it_panic(at in 0..SWITCH.len(), with in "\\PC{0,3}") {
            let at = (0..=at).rev().find(|at| SWITCH.is_char_boundary(*at)).unwrap_or(0);
            let _ = Format::parse(&format!("{}{with}{}", &SWITCH[..at], &SWITCH[at..]));
        }
    }
}
