//! Values on the command line: times, sizes, settings, days.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use domain::Nanos;
use domain::database::Kind;
use domain::lab::MEMORY;
use domain::setting::{SettingName, SettingRequest};
use domain::time::Timestamp;
use domain::trial::Provenance;
use domain::units::Bytes;

/// `FACTOR=LEVEL`.
pub(super) fn level(text: &str) -> Result<(String, String), String> {
    let (factor, level) = text.split_once('=').ok_or("write it as FACTOR=LEVEL, such as `block=1m`")?;
    Ok((factor.to_owned(), level.to_owned()))
}

/// `FACTOR=LEVEL,LEVEL`.
pub(super) fn levels(text: &str) -> Result<(String, Vec<String>), String> {
    let (factor, levels) =
        text.split_once('=').ok_or("write it as FACTOR=LEVEL,LEVEL, such as `bs=4k,64k`")?;
    let levels: Vec<String> = levels.split(',').map(|level| level.trim().to_owned()).collect();
    if factor.trim().is_empty() || levels.iter().any(String::is_empty) {
        return Err("write it as FACTOR=LEVEL,LEVEL, such as `bs=4k,64k`".into());
    }
    Ok((factor.trim().to_owned(), levels))
}

/// A point of time as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// On the calendar.
    At(Timestamp),
    /// Before now.
    Ago(Nanos),
}

impl Moment {
    /// When it is.
    pub fn from(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::Ago(span) => {
                let span = i64::try_from(span.get()).unwrap_or(i64::MAX);
                Timestamp::from_unix_nanos(now.unix_nanos().saturating_sub(span))
            }
        }
    }
}

/// `mariadb` or `postgresql`.
pub(super) fn server_kind() -> impl TypedValueParser<Value = Kind> {
    let kind = |name: String| Kind::of_name(&name).expect("clap takes no other name");
    PossibleValuesParser::new(Kind::ALL.map(Kind::name)).map(kind)
}

/// The recorder's interval: beneath it the sampler would be half of what it measures.
pub(super) fn interval(text: &str) -> Result<Nanos, String> {
    let interval = span(text)?;
    if (Nanos::from_micros(500)..=Nanos::from_secs(60)).contains(&interval) {
        Ok(interval)
    } else {
        Err("an interval lies between 500us and 60s".into())
    }
}

/// `SETTING=VALUE`, at the first `=`.
pub(super) fn request(text: &str) -> Result<SettingRequest, String> {
    match text.split_once('=') {
        Some((setting, value)) if !setting.trim().is_empty() && !value.trim().is_empty() => {
            let setting = SettingName::parse(setting.trim());
            Ok(SettingRequest { setting, value: value.trim().to_owned() })
        }
        _ => Err("write a setting and its value: vm.dirty_ratio=5, read_ahead_kb@sda=512".into()),
    }
}

pub(super) fn moment(text: &str) -> Result<Moment, String> {
    let wrong = "write a day, `2026-11-20`, with a time, `2026-11-20T14:05`, or how long ago, `7d`, `12h`";
    let civil = civil(text).map(Moment::At);
    civil.or_else(|| age(text).ok().map(Moment::Ago)).ok_or_else(|| wrong.to_owned())
}

/// `2026-11-20`, or with a time of day, as `list` shows it.
fn civil(text: &str) -> Option<Timestamp> {
    let (day, time) = text.trim_end_matches('Z').split_once(['T', ' ']).unwrap_or((text, "0:0"));
    let numbers = |text: &str, between: char| -> Option<Vec<i64>> {
        text.split(between).map(|part| part.parse::<u16>().ok().map(i64::from)).collect()
    };
    let (day, time) = (numbers(day, '-')?, numbers(time, ':')?);
    let (&[year, month, day], &[hour, minute, ref rest @ ..]) = (&day[..], &time[..]) else { return None };
    let second = match rest {
        [] => 0,
        [second] => *second,
        _ => return None,
    };
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Timestamp::from_civil(year, month, day, hour * 3600 + minute * 60 + second)
}

/// A span that may be days or weeks.
pub(super) fn age(text: &str) -> Result<Nanos, String> {
    const DAY: u64 = 24 * 3600;
    let days = |count: &str, days: u64| count.trim().parse::<u32>().ok().map(|n| u64::from(n) * days * DAY);
    let long = text
        .strip_suffix('d')
        .and_then(|count| days(count, 1))
        .or_else(|| text.strip_suffix('w').and_then(|count| days(count, 7)));
    let long = long.and_then(|secs| secs.checked_mul(1_000_000_000)).map(Nanos::new);
    long.or_else(|| Nanos::parse(text)).ok_or_else(|| "write a time with its unit: 90d, 2w, 12h".into())
}

pub(super) fn provenance(text: &str) -> Result<Provenance, String> {
    let name = if text == "sim" { "simulation" } else { text };
    Provenance::from_name(name).ok_or_else(|| "there are `host`, `lab`, `simulation` and `imported`".into())
}

pub(super) fn memory(text: &str) -> Result<Bytes, String> {
    let size = Bytes::parse(text).ok_or("write a size with its unit: 512MiB, 1GiB")?;
    if !MEMORY.contains(&size) {
        return Err(format!("a guest has from {} to {}", MEMORY.start(), MEMORY.end()));
    }
    Ok(size)
}

pub(super) fn span(text: &str) -> Result<Nanos, String> {
    Nanos::parse(text).ok_or_else(|| "write a time with its unit: 10ms, 2s, 1m".into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_day_a_time_or_how_long_ago() {
        let at = |text: &str| match moment(text) {
            Ok(Moment::At(time)) => time.iso(),
            other => format!("{other:?}"),
        };
        assert_eq!(at("2026-11-20"), "2026-11-20T00:00:00Z");
        assert_eq!(at("2026-11-20T14:05"), "2026-11-20T14:05:00Z");
        assert_eq!(at("2026-11-20 14:05:02"), "2026-11-20T14:05:02Z");
        assert_eq!(at("2026-11-20T14:05:02Z"), "2026-11-20T14:05:02Z");
        assert_eq!(moment("7d"), Ok(Moment::Ago(Nanos::from_secs(7 * 86_400))));
        assert_eq!(moment("12h"), Ok(Moment::Ago(Nanos::from_secs(12 * 3_600))));
        for text in ["yesterday", "2026-13-01", "2026-11-20T25:00", "7", "-7d", "99999999999999d", ""] {
            assert!(moment(text).is_err(), "{text}");
        }
    }
}
