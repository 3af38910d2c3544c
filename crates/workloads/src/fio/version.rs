//! What differs between versions of fio.

/// A version's first two numbers, of `fio-3.33`, `fio-3.33-12-gabc`; `None` where that is not understood.
pub(super) fn parse(text: &str) -> Option<(u32, u32)> {
    let (major, rest) = text.strip_prefix("fio-")?.split_once('.')?;
    let minor = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Whether this version tells how long calls of fsync and its like take under this engine. From 3.31 to 3.40
/// libaio calls fsync(2) itself, and does not note when: `sync` then has the time since the request that had
/// the same `io_u` before was issued (`fio_libaio_queue` in engines/libaio.c, `FIO_ASYNCIO_SETS_ISSUE_TIME`
/// in ioengines.c). A version that is not understood is taken for a new one.
pub(super) fn tells_sync_latency(version: &str, engine: Option<&str>) -> bool {
    let is_wrong = parse(version).is_some_and(|version| ((3, 31)..=(3, 40)).contains(&version));
    !is_wrong || engine != Some("libaio")
}

/// Whether this version has a first burst of thinktime and burst together. A version that is not understood
/// is taken for a new one.
pub(super) fn first_burst_is_a_period(version: &str) -> bool {
    parse(version).is_some_and(|version| version < (3, 35))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_two_numbers_count() {
        assert_eq!(parse("fio-3.33"), Some((3, 33)));
        assert_eq!(parse("fio-2.2.10"), Some((2, 2)));
        assert_eq!(parse("fio-3.39-12-g1a2b"), Some((3, 39)));
        assert_eq!([parse("fio-"), parse("fio"), parse("3.33")], [None; 3]);
    }

    #[test]
    fn bursts_begin_with_a_whole_period_before_3_35() {
        let old = ["fio-3.28", "fio-3.34-12-g1a2b"].map(first_burst_is_a_period);
        let new = ["fio-3.35", "fio-3.39", "fio-4.0", "fio-x"].map(first_burst_is_a_period);
        assert_eq!((old, new), ([true; 2], [false; 4]));
    }

    #[test]
    fn libaio_of_some_versions_does_not_tell_what_a_sync_takes() {
        let told = |version| tells_sync_latency(version, Some("libaio"));
        assert_eq!(["fio-3.30", "fio-3.31", "fio-3.40", "fio-3.41"].map(told), [true, false, false, true]);
        assert!(told("fio-git") && tells_sync_latency("fio-3.33", Some("io_uring")));
        assert!(tells_sync_latency("fio-3.33", None));
    }
}
