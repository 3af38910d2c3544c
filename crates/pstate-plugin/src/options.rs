//! The arguments behind `-plugin path,…`.

use crate::residency;
use std::path::PathBuf;

/// What the plugin was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The speed of each P-state relative to the fastest, in the order of their indices; at least one, all
    /// above 0.
    pub speeds: Vec<f64>,
    /// Instructions a second at speed 1, of the machine's clock.
    pub pace: f64,
    /// The P-state port of CPU 0; that of CPU n is 2n above.
    pub first_port: u16,
    /// The port that begins and ends pacing.
    pub control_port: u16,
    /// Whether all CPUs change together.
    pub shared: bool,
    /// How many times slower than the host's the machine's clock runs while its CPUs are paced (`clock.rs`);
    /// at least 1.
    pub slow: f64,
    /// The file that the record is appended to.
    pub record: PathBuf,
    /// The file that counts by block are appended to; `None`: nothing is counted by block (`blocks.rs`).
    pub blocks: Option<PathBuf>,
    /// The processor whose registers the guest has; `None`: it has QEMU's, and P-states by ports.
    pub processor: Option<ProcessorOptions>,
    /// The idle states of a machine with a processor, least first; none: a CPU halts, and nothing is told of
    /// it.
    pub idle: Vec<IdleOptions>,
    /// The port that enters idle state 1; that of state n is n - 1 above. State 0 is `hlt`.
    pub idle_port: u16,
}

/// Who makes a processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    Intel,
    Amd,
}

impl Vendor {
    /// What leaf 0 of `cpuid` has in EBX, EDX and ECX.
    pub const fn name(self) -> &'static [u8; 12] {
        match self {
            Self::Intel => b"GenuineIntel",
            Self::Amd => b"AuthenticAMD",
        }
    }
}

/// A processor. Ratios are in units of 100 MHz, and each from the highest limit down to `least` is a P-state.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessorOptions {
    pub vendor: Vendor,
    pub least: u8,
    pub base: u8,
    /// The highest ratio while one, two, … CPUs are busy; the last holds for more. At least one; they fall.
    pub limits: Vec<u8>,
    /// Whether all CPUs have one ratio.
    pub is_shared: bool,
    /// The model of its own choice of ratios (HWP, or CPPC in autonomous mode); `None`: it does as it is
    /// told.
    pub hwp: Option<HwpOptions>,
    /// Watts of each state, busy and idle; zeros where the table has none.
    pub watts: Vec<(f64, f64)>,
}

impl ProcessorOptions {
    /// The highest ratio of all.
    pub fn turbo(&self) -> u8 {
        self.limits[0]
    }

    /// The highest while so many CPUs are busy.
    pub fn limit(&self, busy: usize) -> u8 {
        self.limits[busy.clamp(1, self.limits.len()) - 1]
    }

    /// Cycles at the base ratio: those of the TSC.
    pub fn base_cycles(&self, ns: u64) -> u64 {
        (u128::from(ns) * u128::from(self.base) / 10) as u64
    }

    /// Whether other CPUs have a part in a CPU's ratio.
    pub fn is_package_wide(&self) -> bool {
        self.is_shared || self.limits.len() > 1
    }
}

/// An idle state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct IdleOptions {
    /// How long a CPU takes to leave it, on the machine's clock.
    pub exit_ns: u64,
    /// Watts in it; `None`: what the table of P-states says for an idle CPU.
    pub watts: Option<f64>,
    /// The C-state that residency counters count it as; 0: none.
    pub c_state: u8,
}

/// The model of HWP: see `hwp.rs`. Times are of the machine's clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HwpOptions {
    pub window_ns: u64,
    pub period_ns: u64,
    /// The utilisation that is aimed at, at an EPP of 0 and of 255.
    pub setpoint: (f64, f64),
}

impl Options {
    /// From `key=value` arguments; an error names the argument, and what it must be.
    pub fn parse<'a>(arguments: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let (mut speeds, mut pace, mut record, mut blocks) = (None, None, None, None);
        let (mut first_port, mut control_port, mut shared) = (0x5c0, 0x5be, false);
        let (mut given, mut idle, mut idle_port) = (Given::default(), Vec::new(), 0x8f00);
        let (mut c_states, mut slow) = (None, 1.0);
        for argument in arguments {
            let (key, value) = argument
                .split_once('=')
                .ok_or_else(|| format!("argument `{argument}` has no value; write `key=value`"))?;
            match key {
                "table" => speeds = Some(parse_speeds(value)?),
                "pace" => pace = Some(parse_positive(key, value)?),
                "slow" => slow = parse_slow(key, value)?,
                "port" => first_port = parse_port(key, value)?,
                "control" => control_port = parse_port(key, value)?,
                "domains" => shared = parse_domains(value)?,
                "vendor" => given.vendor = Some(parse_vendor(value)?),
                "ratios" => given.ratios = Some(parse_ratios(value)?),
                "turbo" => given.limits = Some(parse_limits(value)?),
                "hwp" => given.hwp = Some(parse_hwp(value)?),
                "watts" => given.watts = Some(parse_watts(value)?),
                "idle" => idle = parse_idle(value)?,
                "cstates" => c_states = Some(parse_c_states(value)?),
                "idle_port" => idle_port = parse_port(key, value)?,
                "record" => record = Some(PathBuf::from(value)),
                "blocks" => blocks = Some(PathBuf::from(value)),
                _ => return Err(format!("unknown argument `{key}`")),
            }
        }
        let speeds: Vec<f64> = speeds.ok_or("argument `table` is missing")?;
        let processor = given.processor(shared, speeds.len())?;
        if processor.is_none() && !idle.is_empty() {
            return Err("argument `idle` needs `ratios`".to_owned());
        }
        if let Some(c_states) = c_states {
            if c_states.len() != idle.len() {
                return Err(format!("argument `cstates`: {} for {} idle states", c_states.len(), idle.len()));
            }
            for (state, c_state) in idle.iter_mut().zip(c_states) {
                state.c_state = c_state;
            }
        }
        Ok(Self {
            processor,
            idle,
            idle_port,
            speeds,
            pace: pace.ok_or("argument `pace` is missing")?,
            first_port,
            control_port,
            shared,
            slow,
            record: record.ok_or("argument `record` is missing")?,
            blocks,
        })
    }

    /// Nanoseconds for one instruction in each state.
    pub fn ns_per_instruction(&self) -> Vec<f64> {
        self.speeds.iter().map(|speed| 1e9 / (self.pace * speed)).collect()
    }

    /// The idle state that reading this port enters.
    pub fn idle_state_of_port(&self, port: u16) -> Option<usize> {
        let state = usize::from(port.checked_sub(self.idle_port)?) + 1;
        (state < self.idle.len()).then_some(state)
    }

    /// The CPU whose P-state port this is, among `cpus` of them.
    pub fn cpu_of_port(&self, port: u16, cpus: usize) -> Option<usize> {
        let offset = usize::from(port.checked_sub(self.first_port)?);
        (offset.is_multiple_of(2) && offset / 2 < cpus).then_some(offset / 2)
    }
}

fn parse_speeds(value: &str) -> Result<Vec<f64>, String> {
    value.split(':').map(|speed| parse_positive("table", speed)).collect()
}

/// What of a processor was given.
#[derive(Default)]
struct Given {
    vendor: Option<Vendor>,
    ratios: Option<[u8; 3]>,
    limits: Option<Vec<u8>>,
    hwp: Option<HwpOptions>,
    watts: Option<Vec<(f64, f64)>>,
}

impl Given {
    fn processor(self, is_shared: bool, states: usize) -> Result<Option<ProcessorOptions>, String> {
        let Self { vendor, ratios, limits, hwp, watts } = self;
        let Some([least, base, turbo]) = ratios else {
            let others = [
                ("vendor", vendor.is_some()),
                ("turbo", limits.is_some()),
                ("hwp", hwp.is_some()),
                ("watts", watts.is_some()),
            ];
            let orphan = others.into_iter().find(|(_, is_given)| *is_given);
            return orphan.map_or(Ok(None), |(key, _)| Err(format!("argument `{key}` needs `ratios`")));
        };
        let watts = watts.unwrap_or_else(|| vec![(0.0, 0.0); states]);
        if usize::from(turbo - least) + 1 != states || watts.len() != states {
            return Err(format!(
                "argument `ratios`: {least} to {turbo} are not the {states} states of `table`"
            ));
        }
        let limits = limits.unwrap_or_else(|| vec![turbo]);
        let falls = limits.windows(2).all(|pair| pair[0] >= pair[1]);
        if limits.first() != Some(&turbo) || limits.last() < Some(&least) || !falls {
            return Err(format!("argument `turbo`: it does not fall from {turbo} and stay above {least}"));
        }
        let vendor = vendor.unwrap_or(Vendor::Intel);
        Ok(Some(ProcessorOptions { vendor, least, base, limits, is_shared, hwp, watts }))
    }
}

fn parse_vendor(value: &str) -> Result<Vendor, String> {
    match value {
        "intel" => Ok(Vendor::Intel),
        "amd" => Ok(Vendor::Amd),
        _ => Err(format!("argument `vendor`: `{value}` is neither `intel` nor `amd`")),
    }
}

/// `limit:limit:…`, for one, two, … busy CPUs.
fn parse_limits(value: &str) -> Result<Vec<u8>, String> {
    let limits = value.split(':').map(|limit| limit.parse().ok()).collect::<Option<Vec<u8>>>();
    limits.ok_or_else(|| format!("argument `turbo`: `{value}` is no list of ratios"))
}

/// `nanoseconds/watts:…`; without watts, `nanoseconds`.
fn parse_idle(value: &str) -> Result<Vec<IdleOptions>, String> {
    let one = |state: &str| {
        let (exit, watts) = state.split_once('/').map_or((state, None), |(exit, watts)| (exit, Some(watts)));
        let watts = match watts {
            Some(watts) => Some(watts.parse().ok().filter(|watts| (0.0..).contains(watts))?),
            None => None,
        };
        Some(IdleOptions { exit_ns: exit.parse().ok()?, watts, c_state: 0 })
    };
    let bad = || format!("argument `idle`: `{value}` is not a list of nanoseconds/watts");
    value.split(':').map(|state| one(state).ok_or_else(bad)).collect()
}

/// `number:number:…`, for each idle state.
fn parse_c_states(value: &str) -> Result<Vec<u8>, String> {
    let known = |number: &u8| *number <= residency::DEEPEST;
    let numbers = value.split(':').map(|number| number.parse().ok().filter(known));
    let bad = || format!("argument `cstates`: `{value}` is no list of numbers up to {}", residency::DEEPEST);
    numbers.collect::<Option<_>>().ok_or_else(bad)
}

/// `least:base:turbo`.
fn parse_ratios(value: &str) -> Result<[u8; 3], String> {
    let ratios: Option<Vec<u8>> = value.split(':').map(|ratio| ratio.parse().ok()).collect();
    match ratios.as_deref() {
        Some(&[least, base, turbo]) if 0 < least && least <= base && base <= turbo => {
            Ok([least, base, turbo])
        }
        _ => Err(format!("argument `ratios`: `{value}` are not three ratios that rise")),
    }
}

/// `window:period:first:last`: nanoseconds, and the setpoints at an EPP of 0 and of 255.
fn parse_hwp(value: &str) -> Result<HwpOptions, String> {
    let numbers = value.split(':').map(|number| parse_positive("hwp", number));
    match numbers.collect::<Result<Vec<_>, _>>()?.as_slice() {
        &[window, period, first, last] if period >= 1.0 && window >= period => {
            Ok(HwpOptions { window_ns: window as u64, period_ns: period as u64, setpoint: (first, last) })
        }
        _ => Err(format!("argument `hwp`: `{value}` is not window:period:setpoint:setpoint")),
    }
}

/// `busy/idle:busy/idle:…`.
fn parse_watts(value: &str) -> Result<Vec<(f64, f64)>, String> {
    let one = |pair: &str| {
        let (busy, idle) = pair.split_once('/')?;
        Some((busy.parse().ok()?, idle.parse().ok()?))
    };
    let bad = || format!("argument `watts`: `{value}` is not a list of busy/idle");
    value.split(':').map(|pair| one(pair).ok_or_else(bad)).collect()
}

fn parse_positive(key: &str, value: &str) -> Result<f64, String> {
    let number = value.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("argument `{key}`: `{value}` is no number above 0"))
}

fn parse_slow(key: &str, value: &str) -> Result<f64, String> {
    let factor = parse_positive(key, value)?;
    if factor < 1.0 { Err(format!("argument `{key}`: `{value}` is below 1")) } else { Ok(factor) }
}

fn parse_port(key: &str, value: &str) -> Result<u16, String> {
    let number = match value.strip_prefix("0x") {
        Some(digits) => u16::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    };
    number.ok_or_else(|| format!("argument `{key}`: `{value}` is no port number"))
}

fn parse_domains(value: &str) -> Result<bool, String> {
    match value {
        "percpu" => Ok(false),
        "shared" => Ok(true),
        _ => Err(format!("argument `domains`: `{value}` is neither `percpu` nor `shared`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Options, String> {
        Options::parse(text.split(','))
    }

    #[test]
    fn all_arguments_are_read() {
        let options =
            parse("table=1:0.5,pace=20e6,port=0x5c0,control=1470,domains=shared,slow=16,record=/tmp/a=b")
                .unwrap();
        assert_eq!(
            options,
            Options {
                speeds: vec![1.0, 0.5],
                pace: 20e6,
                first_port: 0x5c0,
                control_port: 0x5be,
                shared: true,
                slow: 16.0,
                record: "/tmp/a=b".into(),
                blocks: None,
                processor: None,
                idle: Vec::new(),
                idle_port: 0x8f00,
            }
        );
        assert_eq!(options.ns_per_instruction(), [50.0, 100.0]);
        let plain = parse("table=1,pace=1,record=r,blocks=/tmp/b").unwrap();
        assert_eq!((plain.blocks, plain.slow), (Some("/tmp/b".into()), 1.0));
    }

    #[test]
    fn a_processor_is_read() {
        let text = "table=1:0.75:0.5,pace=1,record=r,ratios=2:3:4,watts=9/1:5.5/1:3/0.5,hwp=4e6:1e6:0.3:0.95,\
            vendor=amd,turbo=4:4:3";
        let expected = ProcessorOptions {
            vendor: Vendor::Amd,
            least: 2,
            base: 3,
            limits: vec![4, 4, 3],
            is_shared: false,
            hwp: Some(HwpOptions { window_ns: 4_000_000, period_ns: 1_000_000, setpoint: (0.3, 0.95) }),
            watts: vec![(9.0, 1.0), (5.5, 1.0), (3.0, 0.5)],
        };
        assert_eq!(parse(text).unwrap().processor, Some(expected.clone()));
        assert_eq!([0, 1, 2, 3, 9].map(|busy| expected.limit(busy)), [4, 4, 4, 3, 3]);
        let one = parse("table=1:1,pace=1,record=r,ratios=2:2:3").unwrap().processor.unwrap();
        assert_eq!((one.vendor, one.turbo(), one.is_package_wide()), (Vendor::Intel, 3, false));
    }

    #[test]
    fn idle_states_are_read_and_the_first_has_no_port() {
        let options =
            parse("table=1,pace=1,record=r,ratios=1:1:1,idle=2000:50000/0.25:133000/0,idle_port=0x100")
                .unwrap();
        let state = |exit_ns, watts| IdleOptions { exit_ns, watts, c_state: 0 };
        assert_eq!(options.idle, [state(2_000, None), state(50_000, Some(0.25)), state(133_000, Some(0.0))]);
        let states = [0xff, 0x100, 0x101, 0x102].map(|port| options.idle_state_of_port(port));
        assert_eq!(states, [None, Some(1), Some(2), None]);
        assert_eq!(parse("table=1,pace=1,record=r").unwrap().idle_state_of_port(0x8f00), None);
        let numbered = parse("table=1,pace=1,record=r,ratios=1:1:1,cstates=1:6,idle=2000:50000").unwrap();
        assert_eq!(numbered.idle.iter().map(|state| state.c_state).collect::<Vec<_>>(), [1, 6]);
    }

    #[test]
    fn a_bad_argument_is_named() {
        for (text, named) in [
            ("pace=1,record=r", "`table` is missing"),
            ("table=1:0,pace=1,record=r", "`table`: `0`"),
            ("table=1,pace=nan,record=r", "`pace`: `nan`"),
            ("table=1,pace=1,record=r,slow=0.5", "`slow`: `0.5`"),
            ("table=1,pace=1,record=r,slow=x", "`slow`: `x`"),
            ("table=1,pace=1,record=r,port=70000", "`port`: `70000`"),
            ("table=1,pace=1,record=r,domains=some", "`domains`: `some`"),
            ("table=1,pace=1,record=r,colour=red", "`colour`"),
            ("table=1,pace=1,record=r,ratios=1:2", "`ratios`: `1:2`"),
            ("table=1,pace=1,record=r,ratios=3:2:4", "`ratios`: `3:2:4`"),
            ("table=1,pace=1,record=r,ratios=2:2:300", "`ratios`: `2:2:300`"),
            ("table=1,pace=1,record=r,ratios=1:1:2", "not the 1 states"),
            ("table=1,pace=1,record=r,ratios=1:1:1,watts=3", "`watts`: `3`"),
            ("table=1,pace=1,record=r,hwp=4:1:1:1", "`hwp` needs `ratios`"),
            ("table=1,pace=1,record=r,ratios=1:1:1,idle=1:2,cstates=1", "`cstates`: 1 for 2 idle states"),
            ("table=1,pace=1,record=r,ratios=1:1:1,idle=1,cstates=11", "`cstates`: `11`"),
            ("table=1,pace=1,record=r,vendor=amd", "`vendor` needs `ratios`"),
            ("table=1,pace=1,record=r,ratios=1:1:1,vendor=via", "`vendor`: `via`"),
            ("table=1:1,pace=1,record=r,ratios=1:1:2,turbo=1:2", "`turbo`: it does not fall from 2"),
            ("table=1:1,pace=1,record=r,ratios=1:1:2,turbo=2:x", "`turbo`: `2:x`"),
            ("table=1:1,pace=1,record=r,ratios=1:1:2,turbo=2:0", "`turbo`: it does not fall"),
            ("table=1,pace=1,record=r,idle=1", "`idle` needs `ratios`"),
            ("table=1,pace=1,record=r,idle=1/x", "`idle`: `1/x`"),
            ("table=1,pace=1,record=r,idle=1/-1", "`idle`: `1/-1`"),
            ("table=1,pace=1,record=r,ratios=1:1:1,hwp=1:4:1:1", "`hwp`: `1:4:1:1`"),
            ("table", "`table` has no value"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    #[test]
    fn a_port_belongs_to_one_cpu_and_status_ports_to_none() {
        let options = parse("table=1,pace=1,record=r").unwrap();
        for (port, cpu) in
            [(0x5c0, Some(0)), (0x5c1, None), (0x5c6, Some(3)), (0x5c8, None), (0x5be, None), (0, None)]
        {
            assert_eq!(options.cpu_of_port(port, 4), cpu, "{port:#x}");
        }
    }
}
