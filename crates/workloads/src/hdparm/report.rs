//! hdparm's timings: a line ` Timing … = N MB/sec` each, below the device's name. Its MB are MiB
//! (`time_device` in hdparm.c).

use crate::report::{MetricRow, Metrics, ToolError, tail};
use domain::units::Unit;
use domain::{Better, Outcome};

const DEVICE: &str = "read_throughput";
const CACHE: &str = "cached_read_throughput";

/// What a run reports.
pub fn metrics() -> [MetricRow; 2] {
    [DEVICE, CACHE].map(|name| (name, Unit::BytesPerSecond, Better::Higher))
}

/// Which metric a line is of, and its value in bytes a second where there is one; `None` where the line is
/// none of its timings. Old versions have `buffer-cache reads` for `cached reads`; `--direct` has `O_DIRECT`
/// in both.
pub fn line(text: &str) -> Option<(&'static str, Option<f64>)> {
    let rest = text.trim().strip_prefix("Timing ")?;
    let name = match rest {
        _ if rest.contains("cached reads") || rest.contains("buffer-cache reads") => CACHE,
        _ if rest.contains("disk reads") => DEVICE,
        _ => return None,
    };
    let rate = rest.rsplit_once('=').and_then(|(_, rate)| rate.trim().strip_suffix("MB/sec"));
    let rate = rate.and_then(|text| text.trim().parse::<f64>().ok()).filter(|rate| rate.is_finite());
    Some((name, rate.map(|rate| rate * 1_048_576.0)))
}

/// Reads its standard output.
///
/// # Errors
/// Where no timing is in it.
pub fn parse(text: &str) -> Result<Outcome, ToolError> {
    let mut metrics = Metrics::default();
    for (name, value) in text.lines().filter_map(line) {
        if let Some(value) = value {
            metrics.put_as(name, value, Unit::BytesPerSecond, Better::Higher);
        }
    }
    match (metrics.0.is_empty(), text.trim().is_empty()) {
        (false, _) => Ok(Outcome { metrics: metrics.0, tool: String::new(), warnings: Vec::new() }),
        (true, true) => Err(ToolError::Empty { tool: "hdparm" }),
        (true, false) => Err(ToolError::NoReport { tool: "hdparm", wanted: "timing", tail: tail(text) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::shown;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    const REAL: &str = include_str!("../../../../fixtures/tools/hdparm/9.65.txt");

    fn check(text: &str, expected: Expect) {
        expected.assert_eq(&shown(parse(text)));
    }

    #[test]
    fn both_timings_of_a_real_run_are_read() {
        check(
            REAL,
            expect![[r#"

            cached_read_throughput = 10.1 GB/s
            read_throughput = 243 MB/s
        "#]],
        );
        assert_eq!(parse(REAL).unwrap().metrics["read_throughput"].value, 231.60 * 1_048_576.0);
    }

    #[test]
    fn an_offset_and_direct_reads_are_the_same_timing() {
        // The forms of `time_device` and `time_cache` in hdparm.c; the figures are made up.
        let text = " Timing O_DIRECT disk reads (offset 2 GB): 320 MB in  3.00 seconds = 106.67 MB/sec\n";
        assert_eq!(line(text), Some(("read_throughput", Some(106.67 * 1_048_576.0))));
        let text = " Timing O_DIRECT cached reads:   640 MB in  2.00 seconds = 320.00 MB/sec\n";
        assert_eq!(line(text), Some(("cached_read_throughput", Some(320.0 * 1_048_576.0))));
    }

    #[test]
    fn a_run_that_timed_nothing_is_no_outcome() {
        let refused = "/dev/loop0:\n read() failed: Input/output error\n";
        assert!(matches!(parse(refused), Err(ToolError::NoReport { .. })));
        assert!(matches!(
            parse("/dev/loop0:\n Timing buffered disk reads:  64 MB in"),
            Err(ToolError::NoReport { .. })
        ));
        assert!(matches!(parse("\n"), Err(ToolError::Empty { .. })));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "\\PC{0,60}", at in 0..REAL.len()) {
            let _ = parse(&text);
            let _ = parse(&format!("{}{text}", &REAL[..at]));
        }
    }
}
