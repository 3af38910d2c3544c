//! What I/O a job does (fio(1), `readwrite`, `direct`, `buffered`, `iodepth`).

use crate::options::{Options, is_on};
use crate::{Cache, Direction, Profile};

/// Engines that keep more than one request in flight.
const ASYNCHRONOUS: [&str; 3] = ["libaio", "io_uring", "posixaio"];

/// What a job does: `randread`, `write`, …; it reads where nothing is said.
pub fn access(options: &Options) -> &str {
    given(options, &["rw", "readwrite"]).unwrap_or("read")
}

pub(super) fn of(options: &Options) -> Profile {
    Profile { cache: cache(options), direction: direction(access(options)), depth: depth(options) }
}

fn given<'o>(options: &'o Options, names: &[&str]) -> Option<&'o str> {
    names.iter().find_map(|name| options.get(*name)).map(String::as_str)
}

/// `buffered` is the opposite of `direct`.
fn cache(options: &Options) -> Cache {
    let is_direct = given(options, &["direct"]).is_some_and(is_on)
        || given(options, &["buffered"]).is_some_and(|b| !is_on(b));
    if is_direct { Cache::Direct } else { Cache::Buffered }
}

fn direction(access: &str) -> Direction {
    match access {
        "read" => Direction::ReadsInOrder,
        _ if access.contains("write") || access.contains("rw") => Direction::Writes,
        _ if access.contains("read") => Direction::Reads,
        _ => Direction::Unknown,
    }
}

/// `iodepth` where the engine is asynchronous, else 1, times `numjobs`. `None` where one of them cannot be
/// read.
fn depth(options: &Options) -> Option<u32> {
    let number = |name: &str| options.get(name).map_or(Some(1), |text| text.parse::<u32>().ok());
    let is_asynchronous = given(options, &["ioengine"]).is_some_and(|engine| ASYNCHRONOUS.contains(&engine));
    let depth = if is_asynchronous { number("iodepth")? } else { 1 };
    number("numjobs")?.checked_mul(depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(options: &[(&str, &str)]) -> Profile {
        of(&options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn direct_is_said_in_two_ways() {
        for (options, is_direct) in [
            (&[][..], false),
            (&[("direct", "1")], true),
            (&[("direct", "true")], true),
            (&[("direct", "0")], false),
            (&[("buffered", "0")], true),
            (&[("buffered", "1")], false),
        ] {
            assert_eq!(profile(options).is_direct(), is_direct, "{options:?}");
        }
    }

    #[test]
    fn a_depth_is_that_of_an_asynchronous_engine() {
        assert_eq!(profile(&[("iodepth", "8")]).depth, Some(1));
        assert_eq!(profile(&[("iodepth", "8"), ("ioengine", "libaio"), ("numjobs", "2")]).depth, Some(16));
        assert_eq!(profile(&[("iodepth", "many"), ("ioengine", "libaio")]).depth, None);
    }

    #[test]
    fn a_direction_is_that_of_readwrite() {
        assert!(profile(&[]).reads_in_order());
        assert_eq!(profile(&[("rw", "randread")]).direction, Direction::Reads);
        assert!(profile(&[("readwrite", "randrw")]).writes() && profile(&[("rw", "write")]).writes());
    }
}
