//! Tables for `intel_pstate`: `[processor]`, `[ratios]`, `[hwp]`, and `[[point]]`s between which speed and
//! watts of the ratios lie in straight lines. See `studies/machines/pstates/i7-6700k-hwp.toml`.

use super::{PACES, Problem, bounded};
use domain::lab::{HwpModel, IntelModel, IntelPStates, PState, PStateDomains, PStateDriver, PStateTable};
use domain::time::Nanos;
use domain::units::Hertz;
use serde::Deserialize;
use toml::Spanned;

/// Ratios are in units of 100 MHz (the bus clock since Sandy Bridge).
const MHZ: u32 = 100;

/// The fastest of Intel's processors has 62.
const MAX_RATIO: i64 = 80;

/// Bounds on the times of HWP's model: below, the plugin would decide at each look at the clock; above, no
/// load would be followed.
const HWP_TIMES: (Nanos, Nanos) = (Nanos::from_micros(200), Nanos::from_millis(1_000));

#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProcessor {
    vendor: RawVendor,
    family: u8,
    model: u8,
    stepping: u8,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RawVendor {
    Intel,
}

impl RawProcessor {
    pub(super) const fn model(self) -> IntelModel {
        let Self { vendor: RawVendor::Intel, family, model, stepping } = self;
        IntelModel { family, model, stepping }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawIntel {
    driver: Spanned<String>,
    processor: RawProcessor,
    pace: Spanned<f64>,
    stands_for: Option<Spanned<f64>>,
    ratios: RawRatios,
    hwp: Option<Spanned<RawHwp>>,
    #[serde(default)]
    point: Vec<Spanned<RawPoint>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRatios {
    min: Spanned<i64>,
    base: Spanned<i64>,
    turbo: Spanned<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHwp {
    window: Spanned<String>,
    period: Spanned<String>,
    setpoint: Spanned<(f64, f64)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPoint {
    ratio: Spanned<i64>,
    speed: Option<Spanned<f64>>,
    busy_watts: Option<Spanned<f64>>,
    idle_watts: Option<Spanned<f64>>,
}

impl RawIntel {
    pub(super) fn check(&self, name: &str) -> Result<PStateTable, Problem> {
        let pace = bounded(&self.pace, "pace", PACES)?;
        let stands_for =
            self.stands_for.as_ref().map(|value| bounded(value, "stands_for", (pace, 1e12))).transpose()?;
        let [least, base, turbo] = self.ratios.check()?;
        let hwp = self.check_hwp()?;
        Ok(PStateTable {
            name: name.to_owned(),
            driver: PStateDriver::Intel(IntelPStates { least, base, turbo, hwp }),
            processor: Some(self.processor.model()),
            states: self.states(least, turbo)?,
            latency: Nanos::ZERO,
            domains: PStateDomains::PerCpu,
            pace,
            stands_for,
        })
    }

    fn check_hwp(&self) -> Result<Option<HwpModel>, Problem> {
        match (self.driver.as_ref().as_str(), &self.hwp) {
            ("intel", Some(hwp)) => {
                Err((hwp.span(), "[hwp] is for the driver `intel-hwp`, and not for `intel`".to_owned()))
            }
            ("intel", None) => Ok(None),
            (_, None) => Err((self.driver.span(), "the driver `intel-hwp` needs [hwp]".to_owned())),
            (_, Some(hwp)) => hwp.as_ref().check().map(Some),
        }
    }

    fn states(&self, least: u8, turbo: u8) -> Result<Vec<PState>, Problem> {
        let speeds = self.line(least, turbo, "speed", (0.001, 1.0), |point| point.speed.as_ref())?;
        let busy = self.line(least, turbo, "busy_watts", (0.0, 1e3), |point| point.busy_watts.as_ref())?;
        let idle = self.line(least, turbo, "idle_watts", (0.0, 1e3), |point| point.idle_watts.as_ref())?;
        if let (Some(speeds), Some(first)) = (&speeds, self.point.first())
            && speeds.last().is_some_and(|speed| *speed != 1.0)
        {
            return Err((first.span(), format!("the speed at the ratio {turbo} is 1")));
        }
        let state = |ratio: u8| {
            let index = usize::from(ratio - least);
            let at = |line: &Option<Vec<f64>>| line.as_ref().map(|line| line[index]);
            PState {
                frequency: Hertz::from_mhz(u64::from(u32::from(ratio) * MHZ)),
                speed: at(&speeds).unwrap_or(f64::from(ratio) / f64::from(turbo)),
                busy_watts: at(&busy),
                idle_watts: at(&idle),
            }
        };
        Ok((least..=turbo).rev().map(state).collect())
    }

    /// The values of one key at each ratio, lowest first; `None` where no point has it. Where one has, the
    /// lowest and the highest ratio have it too.
    fn line<'a>(
        &'a self,
        least: u8,
        turbo: u8,
        name: &str,
        bounds: (f64, f64),
        of: impl Fn(&'a RawPoint) -> Option<&'a Spanned<f64>>,
    ) -> Result<Option<Vec<f64>>, Problem> {
        let mut known: Vec<(f64, f64)> = Vec::new();
        for point in &self.point {
            let ratio = &point.as_ref().ratio;
            if !(i64::from(least)..=i64::from(turbo)).contains(ratio.as_ref()) {
                let text = format!("ratio {} lies outside {least} to {turbo}", ratio.as_ref());
                return Err((ratio.span(), text));
            }
            let Some(value) = of(point.as_ref()) else { continue };
            let next = (*ratio.as_ref() as f64, bounded(value, name, bounds)?);
            if known.last().is_some_and(|last| last.0 >= next.0) {
                return Err((ratio.span(), format!("ratio {} does not lie above the one before", next.0)));
            }
            if known.last().is_some_and(|last| last.1 > next.1) {
                return Err((value.span(), format!("{name} {} falls while the ratio rises", next.1)));
            }
            known.push(next);
        }
        let ends = (known.first().map(|p| p.0), known.last().map(|p| p.0));
        match (ends, self.point.first()) {
            ((None, _), _) => Ok(None),
            ((first, last), Some(point))
                if first != Some(f64::from(least)) || last != Some(f64::from(turbo)) =>
            {
                let text = format!("{name} is given, and not at both the ratios {least} and {turbo}");
                Err((point.span(), text))
            }
            _ => Ok(Some((least..=turbo).map(|ratio| between(&known, f64::from(ratio))).collect())),
        }
    }
}

/// The value on the straight line between the two points around `at`.
fn between(points: &[(f64, f64)], at: f64) -> f64 {
    let after = points.iter().position(|point| point.0 >= at).expect("the last point is the highest ratio");
    let (right, value) = points[after];
    let Some(&(left, before)) = after.checked_sub(1).and_then(|index| points.get(index)) else {
        return value;
    };
    before + (value - before) * (at - left) / (right - left)
}

impl RawRatios {
    fn check(&self) -> Result<[u8; 3], Problem> {
        let mut least = 1;
        let mut checked = [0; 3];
        for (slot, (ratio, name)) in
            checked.iter_mut().zip([(&self.min, "min"), (&self.base, "base"), (&self.turbo, "turbo")])
        {
            let value = *ratio.as_ref();
            if !(least..=MAX_RATIO).contains(&value) {
                let text = format!("the ratio `{name}` is {value}, and has to lie in {least} to {MAX_RATIO}");
                return Err((ratio.span(), text));
            }
            least = value;
            *slot = u8::try_from(value).expect("it is at most MAX_RATIO");
        }
        Ok(checked)
    }
}

impl RawHwp {
    fn check(&self) -> Result<HwpModel, Problem> {
        let (window, period) = (time(&self.window, "window")?, time(&self.period, "period")?);
        if window < period {
            return Err((
                self.window.span(),
                format!("the window {window} is shorter than the period {period}"),
            ));
        }
        let (first, last) = *self.setpoint.as_ref();
        if !(0.01..=1.0).contains(&first) || !(first..=1.0).contains(&last) {
            let text = format!("the setpoints {first} and {last} do not rise within 0.01 to 1");
            return Err((self.setpoint.span(), text));
        }
        Ok(HwpModel { window, period, setpoint: (first, last) })
    }
}

fn time(text: &Spanned<String>, name: &str) -> Result<Nanos, Problem> {
    let (least, most) = HWP_TIMES;
    Nanos::parse(text.as_ref()).filter(|time| (least..=most).contains(time)).ok_or_else(|| {
        (text.span(), format!("{name} `{}` is no time from {least} to {most}, such as `4ms`", text.as_ref()))
    })
}

#[cfg(test)]
mod tests {
    use super::super::parse;
    use super::*;

    const GOOD: &str = "driver = 'intel-hwp'\npace = 2e7\n\
        processor = { vendor = 'intel', family = 6, model = 94, stepping = 3 }\n\
        ratios = { min = 8, base = 10, turbo = 12 }\n\
        hwp = { window = '4ms', period = '1ms', setpoint = [0.3, 0.95] }\n\
        [[point]]\nratio = 8\nbusy_watts = 2.0\nidle_watts = 0.5\n\
        [[point]]\nratio = 12\nbusy_watts = 6.0\nidle_watts = 0.5\n";

    #[test]
    fn every_ratio_is_a_state_whose_speed_follows_it_and_whose_watts_lie_between() {
        let table = parse("mine", GOOD).unwrap();
        let states: Vec<_> =
            table.states.iter().map(|s| (s.frequency.hz() / 1_000_000, s.busy_watts)).collect();
        let expected = [(1200, 6.0), (1100, 5.0), (1000, 4.0), (900, 3.0), (800, 2.0)];
        assert_eq!(states, expected.map(|(mhz, watts)| (mhz, Some(watts))));
        assert_eq!((table.states[0].speed, table.states[4].speed), (1.0, 8.0 / 12.0));
        let hwp =
            HwpModel { window: Nanos::from_millis(4), period: Nanos::from_millis(1), setpoint: (0.3, 0.95) };
        let ratios = IntelPStates { least: 8, base: 10, turbo: 12, hwp: Some(hwp) };
        assert_eq!(table.driver, PStateDriver::Intel(ratios));
        assert_eq!(table.processor, Some(IntelModel { family: 6, model: 94, stepping: 3 }));
    }

    #[test]
    fn a_speed_that_does_not_follow_the_ratio_is_said() {
        let text = GOOD.replace("ratio = 8\n", "ratio = 8\nspeed = 0.9\n");
        let text = text.replace("ratio = 12\n", "ratio = 12\nspeed = 1.0\n");
        assert_eq!(parse("mine", &text).unwrap().states[2].speed, 0.95);
    }

    #[test]
    fn a_bad_table_is_refused_with_its_line() {
        for (from, to, expected) in [
            ("intel-hwp", "intel", "line 5: [hwp] is for the driver `intel-hwp`"),
            ("intel-hwp", "amd", "line 1: no driver is named `amd`"),
            ("'intel',", "'amd',", "unknown variant `amd`"),
            ("base = 10", "base = 13", "line 4: the ratio `turbo` is 12, and has to lie in 13 to 80"),
            ("min = 8", "min = 0", "line 4: the ratio `min` is 0"),
            ("turbo = 12", "turbo = 300", "the ratio `turbo` is 300, and has to lie in 10 to 80"),
            ("'4ms'", "'0ms'", "line 5: window `0ms` is no time from"),
            ("'4ms'", "'500us'", "line 5: the window 500 µs is shorter than the period 1 ms"),
            ("[0.3, 0.95]", "[0.9, 0.3]", "line 5: the setpoints 0.9 and 0.3 do not rise"),
            ("[0.3, 0.95]", "[nan, 0.3]", "line 5: the setpoints NaN and 0.3 do not rise"),
            ("ratio = 8", "ratio = 7", "line 7: ratio 7 lies outside 8 to 12"),
            ("ratio = 8", "ratio = 9", "busy_watts is given, and not at both the ratios 8 and 12"),
            ("ratio = 12", "ratio = 8", "line 11: ratio 8 does not lie above the one before"),
            ("= 6.0", "= 1.0", "line 12: busy_watts 1 falls while the ratio rises"),
            ("= 6.0", "= -6.0", "line 12: busy_watts -6 lies outside"),
            ("pace = 2e7", "pace = 2e7\nlatency = '10us'", "unknown field `latency`"),
            ("pace = 2e7", "pace = 1", "line 2: pace 1 lies outside"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = parse("mine", &GOOD.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains("`mine`") && error.contains(expected), "{from} -> {to}: {error}");
        }
        let without = GOOD.lines().filter(|line| !line.starts_with("hwp")).collect::<Vec<_>>().join("\n");
        let error = parse("mine", &without).unwrap_err().to_string();
        assert!(error.contains("line 1: the driver `intel-hwp` needs [hwp]"), "{error}");
    }
}
