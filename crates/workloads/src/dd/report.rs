//! dd's report: what GNU dd writes to its standard error, in the C locale; of a record, also what BSD's and
//! busybox's do.
//!
//! The rate is computed from the bytes and the seconds that dd states, never taken from its rounded figure.
//! All its forms are read: `…copied, 1.14821 s, 57.1 MB/s`, `…copied, 8.64089 seconds, 7.6 MB/s`, and of 2004
//! `10485760 bytes transferred in 0.028418 seconds (368981986 bytes/sec)`, which is BSD's with `secs`.
//!
//! Not a goal: other locales (run dd with `LC_ALL=C`).

use crate::report::{Metrics, ToolError, tail};
use domain::Outcome;
use regex::Regex;
use std::sync::LazyLock;

const TOOL: &str = "dd";

/// The metrics that dd gives.
pub const METRICS: [&str; 3] = ["throughput", "iops", "elapsed"];

/// The summary; with `status=progress` also what comes before it.
static SUMMARY: LazyLock<Regex> = LazyLock::new(|| {
    let pattern =
        r"(?<bytes>\d+) bytes?(?: \([^)]*\))? (?:copied,|transferred in) (?<seconds>[\d.]+(?:e[-+]?\d+)?) s";
    Regex::new(pattern).expect("a constant pattern that the tests compile")
});

/// Whole and partial blocks that were read.
static RECORDS_IN: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?m)^(?<whole>\d+)\+(?<partial>\d+) records in")
        .expect("a constant pattern that the tests compile")
});

/// What dd says when it stops early; its other messages are warnings.
const FAILURES: [&str; 5] = ["error ", "failed to ", "fsync failed", "fdatasync failed", "closing "];

/// Reads what dd wrote to its standard error.
///
/// `iops` counts blocks read, whole and partial, as dd does.
///
/// # Errors
/// Where dd says that it failed, copied nothing, or wrote no summary.
pub fn parse(stderr: &str) -> Result<Outcome, ToolError> {
    let messages: Vec<&str> = stderr.lines().filter_map(message).collect();
    if let Some(failure) = messages.iter().find(|m| FAILURES.iter().any(|start| m.starts_with(start))) {
        return Err(ToolError::Failed { tool: TOOL, message: (*failure).to_owned() });
    }
    let Some(summary) = SUMMARY.captures_iter(stderr).last() else {
        return Err(no_summary(stderr, &messages));
    };
    let bytes = number(&summary["bytes"], stderr)?;
    let seconds = number(&summary["seconds"], stderr)?;
    if bytes == 0.0 {
        return Err(match messages.first() {
            Some(message) => ToolError::Failed { tool: TOOL, message: (*message).to_owned() },
            None => ToolError::NothingDone { tool: TOOL },
        });
    }
    if seconds == 0.0 {
        return Err(ToolError::TooShort { tool: TOOL });
    }
    let mut metrics = Metrics::default();
    metrics.put("throughput", bytes / seconds);
    metrics.put("elapsed", seconds);
    if let Some(records) = RECORDS_IN.captures_iter(stderr).last() {
        let blocks = number(&records["whole"], stderr)? + number(&records["partial"], stderr)?;
        metrics.put("iops", blocks / seconds);
    }
    let warnings = messages.into_iter().map(|m| m.trim_start_matches("warning: ").to_owned()).collect();
    Ok(Outcome { metrics: metrics.0, tool: TOOL.to_owned(), warnings })
}

/// The text of a line that dd wrote about itself, `dd: …` or `/usr/bin/dd: …`.
fn message(line: &str) -> Option<&str> {
    let (program, text) = line.split_once(": ")?;
    (program == TOOL || program.ends_with("/dd")).then_some(text.trim())
}

fn no_summary(stderr: &str, messages: &[&str]) -> ToolError {
    if let Some(message) = messages.first() {
        return ToolError::Failed { tool: TOOL, message: (*message).to_owned() };
    }
    if stderr.trim().is_empty() {
        return ToolError::Empty { tool: TOOL };
    }
    ToolError::NoReport { tool: TOOL, wanted: "line `… bytes … copied, … s`", tail: tail(stderr) }
}

fn number(text: &str, stderr: &str) -> Result<f64, ToolError> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
    value.ok_or_else(|| ToolError::NoReport { tool: TOOL, wanted: "readable numbers", tail: tail(stderr) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing::shown;
    use expect_test::{Expect, expect};
    use proptest::prelude::*;

    fn check(stderr: &str, expected: Expect) {
        expected.assert_eq(&shown(parse(stderr)));
    }

    macro_rules! fixture {
        ($name:literal) => {
            include_str!(concat!("../../../../fixtures/tools/dd/", $name))
        };
    }

    #[test]
    fn the_rate_comes_from_bytes_and_seconds() {
        check(
            fixture!("read.txt"),
            expect![[r#"
            dd
            elapsed = 9.46 ms
            iops = 27.1 k/s
            throughput = 1.77 GB/s
        "#]],
        );
    }

    #[test]
    fn a_rate_of_the_old_form_is_read() {
        check(
            "1000+0 records in\n1000+0 records out\n65536000 bytes (66 MB) copied, 8.64089 seconds, 7.6 MB/s\n",
            expect![[r#"
                dd
                elapsed = 8.64 s
                iops = 116 /s
                throughput = 7.58 MB/s
            "#]],
        );
    }

    #[test]
    fn seconds_with_an_exponent_are_read() {
        check(
            fixture!("tiny.txt"),
            expect![[r#"
            dd
            elapsed = 20.3 µs
            iops = 49.2 k/s
            throughput = 202 MB/s
        "#]],
        );
    }

    #[test]
    fn the_form_of_2004_and_bsds_are_read() {
        for (text, throughput) in [
            (
                "10+0 records out\n10485760 bytes transferred in 0.028418 seconds (368981986 bytes/sec)\n",
                368_983_038.0,
            ),
            (
                "974+1 records out\n1021592274 bytes transferred in 480.752682 secs (2124985 bytes/sec)\n",
                2_124_985.0,
            ),
            (
                "10+0 records out\n10485760 bytes (10.0MB) copied, 0.013231 seconds, 755.8MB/s\n",
                792_514_549.0,
            ),
        ] {
            let value = parse(text).unwrap().metrics["throughput"].value;
            assert!((value / throughput - 1.0).abs() < 1e-5, "{value}");
        }
    }

    #[test]
    fn one_byte_is_copied_in_the_singular() {
        assert!(parse(fixture!("one-byte.txt")).unwrap().metrics["throughput"].value > 1e4);
    }

    #[test]
    fn the_last_line_of_a_progress_display_counts() {
        assert_eq!(parse(fixture!("progress.txt")).unwrap().metrics["elapsed"].value, 1.40285);
    }

    #[test]
    fn a_warning_is_kept_beside_the_figures() {
        check(
            fixture!("partial.txt"),
            expect![[r#"
                dd
                elapsed = 101 ms
                iops = 19.9 /s
                throughput = 59.7 B/s
                warning: partial read (3 bytes); suggest iflag=fullblock
            "#]],
        );
    }

    #[test]
    fn a_full_disk_is_a_failure_although_dd_sums_up() {
        check(
            fixture!("no-space.txt"),
            expect![[r#"
            dd failed: error writing 'small/x': No space left on device
        "#]],
        );
    }

    #[test]
    fn a_missing_file_is_a_failure_in_dds_own_words() {
        check(
            fixture!("missing.txt"),
            expect![[r#"
            dd failed: failed to open 'nope': No such file or directory
        "#]],
        );
    }

    #[test]
    fn nothing_copied_is_no_rate() {
        check(
            fixture!("nothing.txt"),
            expect![[r#"
            dd neither read nor wrote anything; check its size, count and runtime options, and that it is a reading or writing workload
        "#]],
        );
        check(
            fixture!("skip-past-end.txt"),
            expect![[r#"
            dd failed: f: cannot skip to specified offset
        "#]],
        );
    }

    #[test]
    fn other_text_and_no_text_are_told_apart() {
        check(
            "Segmentation fault\n",
            expect![[r#"
            cannot read the report of dd: it holds no line `… bytes … copied, … s`; the text ends with `Segmentation fault`; see what dd wrote to its standard error
        "#]],
        );
        check(
            " \n",
            expect![[r#"
            cannot read the report of dd: it is empty; see what dd wrote to its standard error
        "#]],
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[0-9+a-z(),. \n]{0,80}( bytes copied, [0-9.e+-]{1,400} s)?") {
            let _ = parse(&text);
        }
    }
}
