//! What our script for sysbench says of its bursts (`crates/runner/src/server/oltp.lua`), a line a thread:
//! `flyball bursts: first 7 last 9 ended 1500 over 1:250 2:90`. Bursts are numbered by the clock; `ended` is
//! from the last one's beginning to the thread's end, `over` how long after a burst the thread's last
//! transaction of it went on, by the burst's number from the first. Times are microseconds.

use crate::report::{ToolError, tail};
use domain::Nanos;
use std::collections::BTreeMap;

const TOOL: &str = "sysbench";
const HEAD: &str = "flyball bursts: ";
/// More bursts than a day has at the shortest period.
const MOST: u64 = 10_000_000;

/// The time that counts: with a burst on, or a transaction of any thread under way.
///
/// # Errors
/// Where the text holds no such line, or one that makes no sense.
pub fn measured(text: &str, period: Nanos, on: Nanos) -> Result<Nanos, ToolError> {
    let (period_us, on_us) = (period.get() / 1000, on.get() / 1000);
    let missing = || ToolError::NoReport { tool: TOOL, wanted: "line about its bursts", tail: tail(text) };
    let threads: Option<Vec<Thread>> =
        text.lines().filter_map(|line| line.trim().strip_prefix(HEAD)).map(thread).collect();
    let threads = threads.filter(|threads| !threads.is_empty()).ok_or_else(missing)?;
    let first = threads.iter().map(|thread| thread.first).min().ok_or_else(missing)?;
    let last = threads.iter().map(|thread| thread.last).max().ok_or_else(missing)?;
    if last - first > MOST {
        return Err(missing());
    }
    let mut total_us = 0;
    for burst in first..=last {
        let over = threads.iter().filter_map(|thread| thread.over.get(&burst)).max().copied().unwrap_or(0);
        let whole = (on_us + over).min(period_us);
        let ended = threads.iter().filter(|thread| thread.last == burst).map(|thread| thread.ended);
        // A test that ends in the middle of a burst ends that.
        let cut = ended.max().filter(|_| burst == last);
        total_us += cut.map_or(whole, |cut| whole.min(cut));
    }
    if total_us == 0 {
        return Err(missing());
    }
    Ok(Nanos::from_micros(total_us))
}

struct Thread {
    first: u64,
    last: u64,
    ended: u64,
    over: BTreeMap<u64, u64>,
}

fn thread(line: &str) -> Option<Thread> {
    let mut words = line.split_whitespace();
    let mut number = |name: &str| {
        let is_it = words.next()? == name;
        words.next()?.parse::<u64>().ok().filter(|_| is_it)
    };
    let (first, last, ended) = (number("first")?, number("last")?, number("ended")?);
    if words.next()? != "over" || last < first {
        return None;
    }
    let pair = |word: &str| {
        let (burst, us) = word.split_once(':')?;
        Some((first.checked_add(burst.parse().ok()?)?, us.parse().ok()?))
    };
    let over = words.map(pair).collect::<Option<_>>()?;
    Some(Thread { first, last, ended, over })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Option<u64> {
        measured(text, Nanos::from_millis(10), Nanos::from_millis(2)).ok().map(|span| span.get() / 1000)
    }

    #[test]
    fn a_burst_lasts_until_its_last_transaction_is_done() {
        assert_eq!(check("flyball bursts: first 7 last 9 ended 5000 over "), Some(6000));
        let two = "x\nflyball bursts: first 7 last 9 ended 5000 over 0:100 1:90\nflyball bursts: first 7 last 9 ended 5000 over 1:300\n";
        assert_eq!(check(two), Some(6400));
        // The next one begins before it is done.
        assert_eq!(check("flyball bursts: first 7 last 8 ended 9000 over 0:20000"), Some(12_000));
    }

    #[test]
    fn the_last_burst_may_be_cut_short() {
        assert_eq!(check("flyball bursts: first 7 last 8 ended 500 over"), Some(2500));
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for text in [
            "",
            "flyball bursts: first 9 last 7 ended 0 over",
            "flyball bursts: first x",
            "flyball bursts: first 0 last 99999999999 ended 0 over",
        ] {
            assert_eq!(check(text), None, "{text}");
        }
    }
}
