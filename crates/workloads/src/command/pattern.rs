//! The metrics of any command, taken from its output by pattern.

use crate::report::{ToolError, tail};
use domain::study::MetricPattern;
use domain::{Metric, Outcome};
use regex::{Captures, Regex, RegexBuilder};
use std::collections::BTreeMap;

/// A bound on the compiled size of one pattern: far above what a number in a line needs.
const MAX_PATTERN_BYTES: usize = 1 << 18;

/// Takes each metric from a command's output, standard output and then standard error.
///
/// The last match of a pattern counts. The number is in the unit that the metric names, with a point and
/// without separators.
///
/// # Errors
/// Where a pattern is not one, matches nothing, or takes something that is not a number.
pub fn parse(output: &str, metrics: &[MetricPattern]) -> Result<Outcome, ToolError> {
    let found = metrics.iter().map(|metric| Ok((metric.name.clone(), find(output, metric)?)));
    let metrics = found.collect::<Result<BTreeMap<_, _>, ToolError>>()?;
    Ok(Outcome { metrics, tool: String::new(), warnings: Vec::new() })
}

/// Compiles a metric's pattern; `^` and `$` match at each line.
///
/// # Errors
/// Where it is not a regular expression, is too large, or has no group to take the number from. The text says
/// which, and what to do.
pub fn compile(pattern: &str) -> Result<Regex, String> {
    let regex = RegexBuilder::new(pattern)
        .multi_line(true)
        .size_limit(MAX_PATTERN_BYTES)
        .build()
        .map_err(|error| reason(&error))?;
    if regex.captures_len() < 2 {
        return Err("it has no group to take the number from; put it in parentheses, as in `took (?<value>[0-9.]+) s`".into());
    }
    Ok(regex)
}

/// The regex crate draws a picture over several lines; its last one says what is wrong.
fn reason(error: &regex::Error) -> String {
    if matches!(error, regex::Error::CompiledTooBig(_)) {
        return "it repeats too much to be compiled; match less of the line".into();
    }
    let text = error.to_string();
    let last = text.lines().last().unwrap_or_default();
    format!("{}; see the syntax at https://docs.rs/regex", last.trim_start_matches("error: "))
}

fn find(output: &str, metric: &MetricPattern) -> Result<Metric, ToolError> {
    let (name, pattern) = (&metric.name, &metric.pattern);
    let regex = compile(pattern)
        .map_err(|reason| ToolError::BadPattern { metric: name.clone(), reason: reason.to_string() })?;
    let text = regex.captures_iter(output).filter_map(|c| value(&c)).last().ok_or_else(|| {
        ToolError::NoMatch { metric: name.clone(), pattern: pattern.clone(), tail: tail(output) }
    })?;
    let number = text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
    let value = number.ok_or_else(|| ToolError::NotANumber {
        metric: name.clone(),
        pattern: pattern.clone(),
        text: tail(text),
    })?;
    Ok(Metric { value, unit: metric.unit.clone(), better: metric.better })
}

/// The group named `value`, or else the first.
fn value<'t>(captures: &Captures<'t>) -> Option<&'t str> {
    captures.name("value").or_else(|| captures.get(1)).map(|m| m.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::Better;
    use domain::units::Unit;
    use expect_test::{Expect, expect};

    fn metric(pattern: &str) -> MetricPattern {
        let (unit, better) = (Unit::Seconds, Better::Lower);
        MetricPattern { name: "real".into(), pattern: pattern.into(), unit, better }
    }

    fn value_of(output: &str, pattern: &str) -> f64 {
        parse(output, &[metric(pattern)]).unwrap().metrics["real"].value
    }

    fn check_error(output: &str, pattern: &str, expected: Expect) {
        expected.assert_eq(&parse(output, &[metric(pattern)]).unwrap_err().to_string());
    }

    #[test]
    fn the_last_match_counts() {
        assert_eq!(value_of("real 1.5\nreal 2.5\nuser 9\n", r"^real ([\d.]+)$"), 2.5);
    }

    #[test]
    fn a_group_named_value_goes_before_the_first() {
        assert_eq!(value_of("10 runs, 2e-3 each", r"(\d+) runs, (?<value>\S+) each"), 0.002);
    }

    #[test]
    fn a_match_without_its_group_does_not_count() {
        assert_eq!(value_of("t=1 t=", r"t=(\d+)?"), 1.0);
    }

    #[test]
    fn a_pattern_that_matches_nothing_shows_the_end_of_the_output() {
        check_error(
            "one\ncannot open the table\n",
            r"took (\d+)",
            expect![[
                r#"cannot find the metric `real`: pattern `took (\d+)` matches nothing in the output, which ends with `one | cannot open the table`; correct the pattern, or make the command print the number"#
            ]],
        );
    }

    #[test]
    fn a_match_that_is_not_a_number_is_shown() {
        check_error(
            "took 1,5 s",
            r"took (\S+) s",
            expect![[
                r#"cannot read the metric `real`: pattern `took (\S+) s` took `1,5`, which is not a number; make its group take the digits alone"#
            ]],
        );
        check_error(
            "took inf s",
            r"took (\S+) s",
            expect![[
                r#"cannot read the metric `real`: pattern `took (\S+) s` took `inf`, which is not a number; make its group take the digits alone"#
            ]],
        );
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_shown() {
        check_error(
            "\u{1b}[2J\u{7}\u{9b}31mgone\u{8}",
            r"took (\d+)",
            expect![[
                r#"cannot find the metric `real`: pattern `took (\d+)` matches nothing in the output, which ends with `\x1b[2J\x07\x9b31mgone\x08`; correct the pattern, or make the command print the number"#
            ]],
        );
        check_error(
            "took \u{1b}[2J s",
            r"took (\S+) s",
            expect![[
                r#"cannot read the metric `real`: pattern `took (\S+) s` took `\x1b[2J`, which is not a number; make its group take the digits alone"#
            ]],
        );
    }

    #[test]
    fn a_pattern_without_a_group_or_sense_is_refused() {
        check_error(
            "",
            "took",
            expect![
                "cannot use the pattern of metric `real`: it has no group to take the number from; put it in parentheses, as in `took (?<value>[0-9.]+) s`"
            ],
        );
        check_error(
            "",
            "took (",
            expect![
                "cannot use the pattern of metric `real`: unclosed group; see the syntax at https://docs.rs/regex"
            ],
        );
        check_error(
            "",
            r"(\w{1000}{1000})",
            expect![
                "cannot use the pattern of metric `real`: it repeats too much to be compiled; match less of the line"
            ],
        );
    }
}
