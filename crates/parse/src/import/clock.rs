//! Dates and times as tools print them.

use domain::time::Timestamp;

const NANOS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

/// Seconds since midnight of `21:58:46`, or of `09:58:46` with `PM` after it.
pub fn time_of_day(text: &str, half: Option<&str>) -> Option<i64> {
    let mut parts = text.split(':');
    let mut part = |most: i64| {
        let text = parts.next()?;
        let whole = text.split(['.', ',']).next().unwrap_or(text);
        let is_short = (1..=2).contains(&whole.len());
        whole.parse::<i64>().ok().filter(|n| is_short && (0..=most).contains(n))
    };
    let (hours, minutes, seconds) = (part(24)?, part(59)?, part(60)?);
    if parts.next().is_some() {
        return None;
    }
    let hours = match half {
        Some("AM") => hours % 12,
        Some("PM") => hours % 12 + 12,
        _ => hours,
    };
    Some(hours * 3600 + minutes * 60 + seconds)
}

/// Midnight, in nanoseconds of the epoch, of `2026-11-21`, `11/21/2026` and `11/21/26`. Of the last two the
/// month is taken to stand first, as sysstat prints them in the C and US locales, unless there is no such
/// month.
pub fn date(text: &str) -> Option<i64> {
    let parts: Vec<i64> =
        text.split(['-', '/']).map(|p| p.parse().ok().filter(|n| *n >= 0)).collect::<Option<_>>()?;
    let [a, b, c] = parts[..] else { return None };
    let (year, month, day) = if text.contains('-') && a > 31 { (a, b, c) } else { (c, a, b) };
    let (month, day) = if month > 12 { (day, month) } else { (month, day) };
    let year = if year < 100 { year + 2000 } else { year };
    Timestamp::from_civil(year, month, day, 0).map(Timestamp::unix_nanos)
}

/// `2026-11-21T21:58:50+0000`, `2026-11-21 21:58:50 UTC`, `2026-11-21 21:58:50`, or seconds of the epoch.
pub fn moment(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        return (seconds > 0.0 && seconds < 9e9).then_some((seconds * 1e9) as i64);
    }
    let (day, rest) = text.split_once(['T', ' '])?;
    let rest = rest.trim();
    let clock = rest.get(..8).filter(|c| c.is_ascii())?;
    let zone =
        rest.get(8..).unwrap_or("").trim().trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let half = ["AM", "PM"].into_iter().find(|half| zone.starts_with(half));
    Some(at(date(day)?, time_of_day(clock, half)?).saturating_sub(offset(zone)))
}

/// Nanoseconds that a zone such as `+0100` or `-05:30` is ahead of UTC; zero for names.
fn offset(zone: &str) -> i64 {
    let digits: String = zone.chars().filter(char::is_ascii_digit).take(4).collect();
    let sign = match zone.as_bytes().first() {
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ => return 0,
    };
    let number = |text: Option<&str>| text.and_then(|t| t.parse::<i64>().ok()).unwrap_or(0);
    sign * (number(digits.get(..2)) * 3600 + number(digits.get(2..)) * 60) * NANOS
}

/// A time of a day whose midnight is known.
pub fn at(midnight: i64, seconds: i64) -> i64 {
    midnight.saturating_add(seconds.saturating_mul(NANOS))
}

/// Times of day that go on over midnight.
#[derive(Clone, Copy, Debug, Default)]
pub struct Day {
    midnight: i64,
    last: Option<i64>,
    days: i64,
}

impl Day {
    /// From the midnight of the first day on; zero where no date is known.
    pub fn of(midnight: i64) -> Self {
        Self { midnight, ..Self::default() }
    }

    /// The moment of a time of day: half a day back or more means that midnight has passed. A table that
    /// begins anew with an earlier time is of the same day.
    pub fn moment(&mut self, seconds: i64) -> i64 {
        if let Some(last) = self.last
            && seconds + DAY / 2 < last
        {
            self.days += 1;
        }
        self.last = Some(seconds);
        at(self.midnight, seconds + self.days * DAY)
    }

    /// Begins a table: its first time is of the first day again.
    pub fn anew(&mut self) {
        (self.last, self.days) = (None, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_dates_of_all_forms_are_read() {
        assert_eq!(time_of_day("12:20:42", Some("PM")), Some(44_442));
        assert_eq!(time_of_day("12:00:01", Some("AM")), Some(1));
        for text in ["1:2", "25:00:00", "12:60:00", "a:b:c", "1:2:3:4", ""] {
            assert_eq!(time_of_day(text, None), None, "{text}");
        }
        let day = date("2026-11-21");
        assert_eq!(day, date("11/21/26"));
        assert_eq!(day, date("11/21/2026"));
        assert_eq!(day, date("21/11/26"));
        let moments = [
            "2026-11-21T21:58:50+0000",
            "2026-11-21 21:58:50 UTC",
            "2026-11-21T22:58:50+01:00",
            "11/21/26 09:58:50 PM",
        ];
        let expected = Some(day.unwrap() + (21 * 3600 + 58 * 60 + 50) * NANOS);
        assert_eq!(moments.map(moment), [expected; 4]);
        assert_eq!(moment("1795298330"), expected);
        assert_eq!(date("1-2"), None);
    }

    #[test]
    fn midnight_passes_and_a_new_table_begins_on_the_first_day() {
        let mut day = Day::default();
        assert_eq!([86_390, 5].map(|s| day.moment(s) / NANOS), [86_390, 86_405]);
        day.anew();
        assert_eq!(day.moment(86_390) / NANOS, 86_390);
    }
}
