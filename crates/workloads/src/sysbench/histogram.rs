//! sysbench's histogram of latencies (`--histogram=on`), for the percentiles that its summary has not: that
//! has one.
//!
//! Its buckets are 1.9% wide (1024 of them over eight decades, `sb_histogram.c`), and so is what a percentile
//! is off by at the most. The last histogram in a text counts.

/// Where one begins.
const HEAD: &str = "Latency histogram (values are in milliseconds)";

/// The latencies below which these shares of all events lie, in seconds, as sysbench's own percentile is: the
/// first bucket at which the share is reached. `None` where a text holds no histogram, or an empty one.
pub fn percentiles<const N: usize>(text: &str, shares: [f64; N]) -> Option<[f64; N]> {
    let (_, histogram) = text.rsplit_once(HEAD)?;
    let rows: Vec<(f64, u64)> = histogram.lines().skip(2).map_while(row).collect();
    let all: u64 = rows.iter().map(|(_, count)| count).sum();
    if all == 0 {
        return None;
    }
    let at = |share: f64| {
        let wanted = (all as f64 * share).ceil() as u64;
        let mut sum = 0;
        let reaches = |(_, count): &&(f64, u64)| {
            sum += count;
            sum >= wanted
        };
        let (milliseconds, _) = rows.iter().find(reaches).or(rows.last()).expect("there are events in it");
        milliseconds / 1000.0
    };
    Some(shares.map(at))
}

/// `       0.597 |****        5`.
fn row(line: &str) -> Option<(f64, u64)> {
    let (value, bar) = line.split_once('|')?;
    let count = bar.trim_start_matches('*').trim().parse().ok()?;
    Some((value.trim().parse().ok()?, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    const REAL: &str = include_str!("../../../../fixtures/tools/sysbench/oltp-histogram-1.0.20.txt");

    #[test]
    fn percentiles_of_a_real_run_are_sysbenchs_own() {
        let [p50, p95, p99] = percentiles(REAL, [0.5, 0.95, 0.99]).unwrap();
        let own = super::super::report::report(REAL).unwrap().metrics["latency_p95"].value;
        assert!((p95 / own - 1.0).abs() < 0.02, "{p95} and {own}");
        assert!(p50 < p95 && p95 < p99, "{p50} {p95} {p99}");
    }

    #[test]
    fn a_text_without_events_has_none() {
        assert_eq!(percentiles("", [0.5]), None);
        assert_eq!(percentiles(HEAD, [0.5]), None);
        assert_eq!(percentiles(&format!("{HEAD}\n head\n 1.000 |* 0\n"), [0.5]), None);
        let two = format!("{HEAD}\n value distribution count\n 1.000 |* 1\n 2.000 |* 1\n\nSQL statistics:\n");
        assert_eq!(percentiles(&two, [0.5, 0.51, 1.0]), Some([0.001, 0.002, 0.002]));
    }
}
