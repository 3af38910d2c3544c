//! Files of `perf record`, converted.

#![allow(clippy::unwrap_used, reason = "it is a test")]

mod damage;

use damage::damage;
use domain::trace::Role;
use events::foreign::{Converted, Error};
use events::perf_data::convert;
use events::{Facts, Op, Tables};
use proptest::prelude::*;
use std::io::Cursor;

/// What `perf record` 6.1 wrote of dd, which read sixteen times 64 KiB (fixtures/tools/PROVENANCE.md).
const DD: &[u8] = include_bytes!("../../../fixtures/tools/perf/record-6.1.data");

fn converted(bytes: &[u8]) -> Result<(Converted, Vec<u8>), Error> {
    let mut output = Vec::new();
    convert(bytes, &mut output).map(|converted| (converted, output))
}

#[test]
fn all_that_perf_counted_is_there() {
    let (converted, bytes) = converted(DD).unwrap();
    // As `perf report --stats` counts them.
    assert_eq!((converted.events, converted.others), (106, 0));
    assert_eq!(converted.kernel.as_deref(), Some("6.18.44-fc-v782"));
    assert!(converted.version.as_deref().unwrap().starts_with("6.1."), "{converted:?}");
    assert_eq!(converted.command.last().map(String::as_str), Some("iflag=direct"));
    let facts = Facts::read(|| Ok(Cursor::new(&bytes))).unwrap();
    let counts =
        ["sched/sched_switch", "sched/sched_waking", "block/block_rq_issue", "block/block_rq_complete"];
    assert_eq!(counts.map(|name| facts.kinds[name].recorded), [48, 26, 16, 16]);
    assert_eq!((facts.all_lost(), facts.unread), (0, 0));
    assert_eq!(facts.span, converted.span);
}

#[test]
fn requests_and_threads_are_those_of_the_command() {
    let (_, bytes) = converted(DD).unwrap();
    let facts = Facts::read(|| Ok(Cursor::new(&bytes))).unwrap();
    let reads: Vec<_> = facts.devices.iter().filter(|((_, op), _)| *op == Op::Read).collect();
    let [(_, reads)] = &reads[..] else { panic!("{reads:?}") };
    assert_eq!((reads.count, reads.sectors, reads.service.count), (16, 16 * 128, 16));
    let dd = facts.threads.iter().find(|thread| thread.name == "dd").unwrap();
    assert_eq!(dd.role, Role::Workload);
    let kernel = facts.threads.iter().find(|thread| thread.name.starts_with("migration/")).unwrap();
    assert_eq!(kernel.role, Role::Kernel);
    let tables = Tables::read(Cursor::new(&bytes)).unwrap();
    assert_eq!(tables.begin.unwrap(), tables.head.origin);
}

fn why(bytes: &[u8]) -> String {
    converted(bytes).unwrap_err().to_string()
}

#[test]
fn what_is_no_such_file_says_what_it_is() {
    assert_eq!(why(b"{\"fio version\": 3}"), "it does not begin as a file of perf record's");
    assert_eq!(why(b""), "the magic at byte 0 cannot be read");
    let mut swapped = DD.to_vec();
    swapped[..8].reverse();
    assert!(why(&swapped).contains("another byte order"));
    let mut piped = DD.to_vec();
    piped[8..16].copy_from_slice(&16_u64.to_ne_bytes());
    assert!(why(&piped).contains("`perf record -o FILE`"));
    // The bit of the feature `COMPRESSED`: its section is one more.
    let mut packed = DD.to_vec();
    packed[72 + 3] |= 1 << 3;
    let why = why(&packed);
    assert!(why.contains("without `-z`") || why.contains("section of a feature"), "{why}");
    let cut = &DD[..DD.len() / 2];
    assert!(self::why(cut).ends_with("cannot be read"), "{}", self::why(cut));
}

proptest! {
    #[test]
    fn no_damage_makes_it_panic(damage in damage(1)) {
        for bytes in damage.to(&[DD]) {
            if let Ok((_, output)) = converted(&bytes) {
                // What comes out is read or refused.
                let _ = Facts::read(|| Ok(Cursor::new(&output)));
            }
        }
    }
}
