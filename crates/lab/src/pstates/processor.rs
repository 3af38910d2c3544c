//! Tables for `intel_pstate` and `amd_pstate`: `[processor]`, `[ratios]`, `[hwp]` or `[cppc]`, `[[idle]]`,
//! and `[[point]]`s between which speed and watts of the ratios lie in straight lines. See
//! `studies/machines/pstates/i7-6700k-hwp.toml` and `zen3-server.toml`.

use super::{PACES, Problem, RawDomains, bounded};
use domain::lab::{
    HwpModel, IdleState, PState, PStateDomains, PStateDriver, PStateTable, ProcessorModel, Ratios, Vendor,
};
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
    Amd,
}

impl RawProcessor {
    pub(super) const fn model(self) -> ProcessorModel {
        let Self { vendor, family, model, stepping } = self;
        let vendor = match vendor {
            RawVendor::Intel => Vendor::Intel,
            RawVendor::Amd => Vendor::Amd,
        };
        ProcessorModel { vendor, family, model, stepping }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRatioTable {
    driver: Spanned<String>,
    processor: Spanned<RawProcessor>,
    domains: Option<RawDomains>,
    pace: Spanned<f64>,
    stands_for: Option<Spanned<f64>>,
    ratios: RawRatios,
    hwp: Option<Spanned<RawHwp>>,
    cppc: Option<Spanned<RawHwp>>,
    #[serde(default)]
    idle: Vec<Spanned<RawIdle>>,
    #[serde(default)]
    point: Vec<Spanned<RawPoint>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRatios {
    min: Spanned<i64>,
    base: Spanned<i64>,
    turbo: Spanned<RawTurbo>,
}

/// One ratio however many CPUs are busy, or one for each number of them.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a ratio, or a list of ratios for one, two, … busy CPUs")]
enum RawTurbo {
    Always(i64),
    ByBusy(Vec<i64>),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawIdle {
    name: Spanned<String>,
    latency: Spanned<String>,
    watts: Option<Spanned<f64>>,
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

impl RawRatioTable {
    pub(super) fn check(&self, name: &str) -> Result<PStateTable, Problem> {
        let pace = bounded(&self.pace, "pace", PACES)?;
        let stands_for =
            self.stands_for.as_ref().map(|value| bounded(value, "stands_for", (pace, 1e12))).transpose()?;
        let (least, base, turbo) = self.ratios.check()?;
        let states = self.states(least, turbo[0])?;
        let hwp = self.check_choice()?;
        let processor = self.processor.as_ref().model();
        let ratios = Ratios { least, base, turbo, hwp };
        let (driver, vendor) = match self.driver.as_ref().as_str() {
            "amd" => (PStateDriver::Amd(ratios), Vendor::Amd),
            _ => (PStateDriver::Intel(ratios), Vendor::Intel),
        };
        if processor.vendor != vendor {
            let text = format!("the driver `{}` is for processors of another vendor", self.driver.as_ref());
            return Err((self.processor.span(), text));
        }
        Ok(PStateTable {
            name: name.to_owned(),
            driver,
            processor: Some(processor),
            states,
            latency: Nanos::ZERO,
            domains: self.domains.map_or(PStateDomains::PerCpu, PStateDomains::from),
            idle: check_idle(&self.idle)?,
            pace,
            stands_for,
        })
    }

    /// The model of the processor's own choice.
    fn check_choice(&self) -> Result<Option<HwpModel>, Problem> {
        let driver = self.driver.as_ref().as_str();
        let wanted = match driver {
            "intel-hwp" => Some("hwp"),
            "amd" => Some("cppc"),
            _ => None,
        };
        for (key, section) in [("hwp", &self.hwp), ("cppc", &self.cppc)] {
            match section {
                Some(section) if wanted != Some(key) => {
                    let owner = if key == "hwp" { "intel-hwp" } else { "amd" };
                    let text = format!("[{key}] is for the driver `{owner}`, and not for `{driver}`");
                    return Err((section.span(), text));
                }
                Some(section) => return section.as_ref().check().map(Some),
                None => {}
            }
        }
        match wanted {
            Some(key) => Err((self.driver.span(), format!("the driver `{driver}` needs [{key}]"))),
            None => Ok(None),
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

/// Idle states, least first: none is left sooner than the one before, and none takes more power.
fn check_idle(states: &[Spanned<RawIdle>]) -> Result<Vec<IdleState>, Problem> {
    /// What Linux takes (`ACPI_PROCESSOR_MAX_POWER`, less the one in which it polls).
    const MAX: usize = 7;
    if let Some(beyond) = states.get(MAX) {
        return Err((beyond.span(), format!("a table has at most {MAX} idle states")));
    }
    let mut checked: Vec<IdleState> = Vec::new();
    for state in states {
        let next = state.as_ref().check()?;
        if checked.iter().any(|other| other.name == next.name) {
            let text = format!("there are two idle states `{}`", next.name);
            return Err((state.as_ref().name.span(), text));
        }
        if let Some(before) = checked.last() {
            if before.latency > next.latency {
                let text = format!("the latency {} is below that of `{}`", next.latency, before.name);
                return Err((state.as_ref().latency.span(), text));
            }
            if before.watts.zip(next.watts).is_some_and(|(before, next)| next > before) {
                return Err((state.span(), format!("it takes more power than `{}`", before.name)));
            }
        }
        checked.push(next);
    }
    Ok(checked)
}

impl RawIdle {
    fn check(&self) -> Result<IdleState, Problem> {
        /// The longest that an idle state takes to be left: far above the 900 µs of the deepest packages.
        const LONGEST: Nanos = Nanos::from_millis(10);
        let name = self.name.as_ref();
        if name.is_empty() || name.len() > 16 || !name.chars().all(|c| c.is_ascii_alphanumeric()) {
            let text = format!("an idle state's name is of up to 16 letters and digits, not `{name}`");
            return Err((self.name.span(), text));
        }
        let latency = Nanos::parse(self.latency.as_ref()).filter(|time| *time <= LONGEST);
        let latency = latency.ok_or_else(|| {
            let shown = self.latency.as_ref();
            (self.latency.span(), format!("latency `{shown}` is no time up to {LONGEST}, such as `85us`"))
        })?;
        let watts = self.watts.as_ref().map(|watts| bounded(watts, "watts", (0.0, 1e3))).transpose()?;
        Ok(IdleState { name: name.clone(), latency, watts })
    }
}

impl RawRatios {
    /// The lowest, the base, and the highest for one, two, … busy CPUs.
    fn check(&self) -> Result<(u8, u8, Vec<u8>), Problem> {
        let least = ratio(*self.min.as_ref(), 1, MAX_RATIO).map_err(|text| (self.min.span(), text))?;
        let base =
            ratio(*self.base.as_ref(), least.into(), MAX_RATIO).map_err(|text| (self.base.span(), text))?;
        let given = match self.turbo.as_ref() {
            RawTurbo::Always(one) => std::slice::from_ref(one),
            RawTurbo::ByBusy(list) => list.as_slice(),
        };
        let mut limits: Vec<u8> = Vec::new();
        for value in given {
            let most = limits.last().map_or(MAX_RATIO, |before| i64::from(*before));
            // Some processors fall below their base when all cores are busy with wide vectors; none here.
            limits.push(ratio(*value, base.into(), most).map_err(|text| (self.turbo.span(), text))?);
        }
        if limits.is_empty() {
            return Err((self.turbo.span(), "`turbo` has no ratio".to_owned()));
        }
        Ok((least, base, limits))
    }
}

fn ratio(value: i64, least: i64, most: i64) -> Result<u8, String> {
    let checked = u8::try_from(value).ok().filter(|_| (least..=most).contains(&value));
    checked.ok_or_else(|| format!("the ratio {value} does not lie in {least} to {most}"))
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
        let ratios = Ratios { least: 8, base: 10, turbo: vec![12], hwp: Some(hwp) };
        assert_eq!(table.driver, PStateDriver::Intel(ratios));
        assert_eq!(
            table.processor,
            Some(ProcessorModel { vendor: Vendor::Intel, family: 6, model: 94, stepping: 3 })
        );
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
            ("intel-hwp", "via", "line 1: no driver is named `via`"),
            ("intel-hwp", "amd", "line 5: [hwp] is for the driver `intel-hwp`, and not for `amd`"),
            ("'intel',", "'via',", "unknown variant `via`"),
            ("'intel',", "'amd',", "line 3: the driver `intel-hwp` is for processors of another vendor"),
            ("hwp = {", "cppc = {", "line 5: [cppc] is for the driver `amd`, and not for `intel-hwp`"),
            ("base = 10", "base = 13", "line 4: the ratio 12 does not lie in 13 to 80"),
            ("min = 8", "min = 0", "line 4: the ratio 0 does not lie in 1 to 80"),
            ("turbo = 12", "turbo = 300", "line 4: the ratio 300 does not lie in 10 to 80"),
            ("turbo = 12", "turbo = [12, 11, 12]", "line 4: the ratio 12 does not lie in 10 to 11"),
            ("turbo = 12", "turbo = []", "line 4: `turbo` has no ratio"),
            ("turbo = 12", "turbo = 'fast'", "a ratio, or a list of ratios"),
            ("pace = 2e7", "pace = 2e7\ndomains = 'some'", "unknown variant `some`"),
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

    #[test]
    fn turbo_by_busy_cores_and_a_shared_domain_are_read() {
        let text = GOOD.replace("turbo = 12", "turbo = [12, 12, 11]");
        let table = parse("mine", &format!("domains = 'shared'\n{text}")).unwrap();
        assert_eq!(table.driver.ratios().unwrap().turbo, [12, 12, 11]);
        assert_eq!((table.domains, table.states.len()), (PStateDomains::Shared, 5));
    }

    #[test]
    fn an_amd_processor_has_cppc() {
        let text = GOOD.replace("intel-hwp", "amd").replace("'intel'", "'amd'").replace("hwp =", "cppc =");
        let table = parse("mine", &text).unwrap();
        assert!(matches!(table.driver, PStateDriver::Amd(Ratios { hwp: Some(_), .. })), "{:?}", table.driver);
    }

    const IDLE: &str = "[[idle]]\nname = 'C1'\nlatency = '2us'\n[[idle]]\nname = 'C6'\nlatency = '85us'\nwatts = 0.5\n\
        [[idle]]\nname = 'C8'\nlatency = '200us'\nwatts = 0.1\n";

    #[test]
    fn idle_states_are_read_and_bad_ones_refused_with_their_line() {
        let good = format!("{GOOD}{IDLE}");
        let idle = parse("mine", &good).unwrap().idle;
        let state = |name: &str, micros, watts| IdleState {
            name: name.to_owned(),
            latency: Nanos::from_micros(micros),
            watts,
        };
        assert_eq!(idle, [state("C1", 2, None), state("C6", 85, Some(0.5)), state("C8", 200, Some(0.1))]);
        for (from, to, expected) in [
            ("'C6'", "'C1'", "line 18: there are two idle states `C1`"),
            ("'C6'", "'C 6'", "line 18: an idle state's name is of up to 16 letters and digits, not `C 6`"),
            ("'85us'", "'1us'", "line 19: the latency 1 µs is below that of `C1`"),
            ("'85us'", "'1s'", "line 19: latency `1s` is no time up to 10 ms"),
            ("watts = 0.1", "watts = 0.6", "line 21: it takes more power than `C6`"),
            ("watts = 0.1", "watts = -1.0", "line 24: watts -1 lies outside"),
            ("watts = 0.1", "residency = '1us'", "unknown field `residency`"),
        ] {
            assert!(good.contains(from), "{from}");
            let error = parse("mine", &good.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(expected), "{from} -> {to}: {error}");
        }
        let many: String = (0..8).map(|n| format!("[[idle]]\nname = 'C{n}'\nlatency = '2us'\n")).collect();
        let error = parse("mine", &format!("{GOOD}{many}")).unwrap_err().to_string();
        assert!(error.contains("a table has at most 7 idle states"), "{error}");
        let acpi = "latency = '10us'\ndomains = 'shared'\npace = 2e7\n[[state]]\nmhz = 2000\nspeed = 1.0\n";
        let error = parse("mine", &format!("{acpi}{IDLE}")).unwrap_err().to_string();
        assert!(error.contains("unknown field `idle`"), "{error}");
    }
}
