//! Conditions under which a run counts as failed: what `flyball run --fail-if` takes.
//!
//! ```text
//! METRIC < VALUE [where FACTOR=LEVEL,…]     throughput < 500 MB/s where governor=ondemand
//! METRIC > VALUE [where FACTOR=LEVEL,…]     latency_p99 > 5 ms
//! [METRIC] worse than RUN [by SHARE] [where FACTOR=LEVEL,…]     worse than nightly~1 by 5%
//! ```

use crate::units::Unit;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A condition that no cell may meet.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// As it was written.
    pub text: String,
    /// The metric; `None` for the study's own.
    pub metric: Option<String>,
    /// What it must not be.
    pub rule: Rule,
    /// Factor to level: only cells with all of these are judged.
    pub levels: BTreeMap<String, String>,
}

/// What a cell's metric must not be.
#[derive(Clone, Debug, PartialEq)]
pub enum Rule {
    /// Below this value, which is written with its unit.
    Below(String),
    /// Above it.
    Above(String),
    /// Worse than the same cell of another run.
    WorseThan {
        /// The run, as commands name runs: a study, `STUDY~1`, `STUDY@REVISION`, or a run.
        run: String,
        /// By at least this share; `None` for the study's practical threshold.
        by: Option<f64>,
    },
}

/// Why a text is no condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{why}; write `throughput < 500 MB/s`, `latency_p99 > 5 ms where governor=ondemand`, or `worse than RUN by 5%`"
)]
pub struct ConditionError {
    why: String,
}

impl FromStr for Condition {
    type Err = ConditionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refuse = |why: String| Err(ConditionError { why });
        let (what, levels) = match text.split_once(" where ") {
            Some((what, levels)) => (what, Some(levels)),
            None => (text, None),
        };
        let (metric, rule) = if let Some((metric, run)) = split_words(what, "worse than") {
            let (run, by) = match run.split_once(" by ") {
                Some((run, by)) => match Unit::Share.parse(by).filter(|by| (0.0..1.0).contains(by)) {
                    Some(by) => (run, Some(by)),
                    None => return refuse(format!("`{}` is no share such as `5%`", by.trim())),
                },
                None => (run, None),
            };
            if run.trim().is_empty() || run.trim().contains(char::is_whitespace) {
                return refuse(format!("after `worse than` stands one run, and not `{}`", run.trim()));
            }
            (metric.trim(), Rule::WorseThan { run: run.trim().to_owned(), by })
        } else if let Some((metric, value)) = what.split_once('<') {
            (metric.trim(), Rule::Below(value.trim().to_owned()))
        } else if let Some((metric, value)) = what.split_once('>') {
            (metric.trim(), Rule::Above(value.trim().to_owned()))
        } else {
            return refuse(format!("`{}` has none of `<`, `>` and `worse than`", what.trim()));
        };
        if let Rule::Below(value) | Rule::Above(value) = &rule {
            if metric.is_empty() {
                return refuse(format!("before `{value}` no metric is named"));
            }
            // The unit is known only with the metric; what no unit makes a number of is refused at once.
            if !value.starts_with(|c: char| c.is_ascii_digit()) {
                return refuse(format!("`{value}` is no value of at least 0"));
            }
        }
        if metric.contains(char::is_whitespace) {
            return refuse(format!("`{metric}` is no metric's name"));
        }
        let metric = (!metric.is_empty()).then(|| metric.to_owned());
        let levels = levels.map_or(Ok(BTreeMap::new()), |levels| levels.split(',').map(level).collect())?;
        Ok(Self { text: text.trim().to_owned(), metric, rule, levels })
    }
}

/// What stands before and after some words that stand by themselves.
fn split_words<'t>(text: &'t str, words: &str) -> Option<(&'t str, &'t str)> {
    let (before, after) = text.split_once(words)?;
    let alone = (before.is_empty() || before.ends_with(char::is_whitespace))
        && (after.is_empty() || after.starts_with(char::is_whitespace));
    alone.then_some((before, after))
}

fn level(text: &str) -> Result<(String, String), ConditionError> {
    match text.split_once('=') {
        Some((factor, level)) if !factor.trim().is_empty() && !level.trim().is_empty() => {
            Ok((factor.trim().to_owned(), level.trim().to_owned()))
        }
        _ => Err(ConditionError { why: format!("`{}` is not FACTOR=LEVEL", text.trim()) }),
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Condition {
        text.parse().unwrap()
    }

    #[test]
    fn conditions_are_read_as_they_are_written() {
        let bound = read(" throughput < 500 MB/s where governor=ondemand, jobs=4 ");
        assert_eq!(bound.metric.as_deref(), Some("throughput"));
        assert_eq!(bound.rule, Rule::Below("500 MB/s".into()));
        assert_eq!(bound.levels["jobs"], "4");
        assert_eq!(bound.to_string(), "throughput < 500 MB/s where governor=ondemand, jobs=4");
        assert_eq!(read("latency_p99>5ms").rule, Rule::Above("5ms".into()));
        let worse = read("worse than nightly~1 by 5%");
        assert_eq!(
            (worse.metric, worse.rule),
            (None, Rule::WorseThan { run: "nightly~1".into(), by: Some(0.05) })
        );
        let named = read("iops worse than base where layout=f2");
        assert_eq!(named.metric.as_deref(), Some("iops"));
        assert_eq!(named.rule, Rule::WorseThan { run: "base".into(), by: None });
    }

    #[test]
    fn what_is_none_is_told_with_what_one_is() {
        for (text, why) in [
            ("", "`` has none of"),
            ("throughput", "`throughput` has none of"),
            ("< 5 ms", "no metric is named"),
            ("two words < 5 ms", "`two words` is no metric's name"),
            ("throughput < fast", "`fast` is no value"),
            ("throughput < -5 MB/s", "`-5 MB/s` is no value"),
            ("worse than", "one run, and not ``"),
            ("worse than a b", "one run, and not `a b`"),
            ("worse than a by much", "`much` is no share"),
            ("worse than a by 100%", "`100%` is no share"),
            ("iops < 5 /s where governor", "`governor` is not FACTOR=LEVEL"),
            ("iops < 5 /s where =x", "`=x` is not FACTOR=LEVEL"),
        ] {
            let error = text.parse::<Condition>().unwrap_err().to_string();
            assert!(
                error.contains(why) && error.contains("write `throughput < 500 MB/s`"),
                "{text}: {error}"
            );
        }
    }
}
