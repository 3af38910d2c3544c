//! The arguments behind `-plugin path,…`.

use std::path::PathBuf;

/// What the plugin was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The speed of each P-state relative to the fastest, in the order of their indices; at least one, all
    /// above 0.
    pub speeds: Vec<f64>,
    /// Instructions a second at speed 1.
    pub pace: f64,
    /// The P-state port of CPU 0; that of CPU n is 2n above.
    pub first_port: u16,
    /// The port that begins and ends pacing.
    pub control_port: u16,
    /// Whether all CPUs change together.
    pub shared: bool,
    /// The file that the record is appended to.
    pub record: PathBuf,
}

impl Options {
    /// From `key=value` arguments; an error names the argument, and what it must be.
    pub fn parse<'a>(arguments: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let (mut speeds, mut pace, mut record) = (None, None, None);
        let (mut first_port, mut control_port, mut shared) = (0x5c0, 0x5be, false);
        for argument in arguments {
            let (key, value) = argument
                .split_once('=')
                .ok_or_else(|| format!("argument `{argument}` has no value; write `key=value`"))?;
            match key {
                "table" => speeds = Some(parse_speeds(value)?),
                "pace" => pace = Some(parse_positive(key, value)?),
                "port" => first_port = parse_port(key, value)?,
                "control" => control_port = parse_port(key, value)?,
                "domains" => shared = parse_domains(value)?,
                "record" => record = Some(PathBuf::from(value)),
                _ => return Err(format!("unknown argument `{key}`")),
            }
        }
        Ok(Self {
            speeds: speeds.ok_or("argument `table` is missing")?,
            pace: pace.ok_or("argument `pace` is missing")?,
            first_port,
            control_port,
            shared,
            record: record.ok_or("argument `record` is missing")?,
        })
    }

    /// Nanoseconds for one instruction in each state.
    pub fn ns_per_instruction(&self) -> Vec<f64> {
        self.speeds.iter().map(|speed| 1e9 / (self.pace * speed)).collect()
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

fn parse_positive(key: &str, value: &str) -> Result<f64, String> {
    let number = value.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("argument `{key}`: `{value}` is no number above 0"))
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
            parse("table=1:0.5,pace=20e6,port=0x5c0,control=1470,domains=shared,record=/tmp/a=b").unwrap();
        assert_eq!(
            options,
            Options {
                speeds: vec![1.0, 0.5],
                pace: 20e6,
                first_port: 0x5c0,
                control_port: 0x5be,
                shared: true,
                record: "/tmp/a=b".into(),
            }
        );
        assert_eq!(options.ns_per_instruction(), [50.0, 100.0]);
    }

    #[test]
    fn a_bad_argument_is_named() {
        for (text, named) in [
            ("pace=1,record=r", "`table` is missing"),
            ("table=1:0,pace=1,record=r", "`table`: `0`"),
            ("table=1,pace=nan,record=r", "`pace`: `nan`"),
            ("table=1,pace=1,record=r,port=70000", "`port`: `70000`"),
            ("table=1,pace=1,record=r,domains=some", "`domains`: `some`"),
            ("table=1,pace=1,record=r,colour=red", "`colour`"),
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
