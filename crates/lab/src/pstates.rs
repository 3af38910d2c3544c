//! P-state tables: shipped ones and files.
//!
//! A table is TOML. Its `driver` decides what else it has. Of `acpi`, which it is unless said otherwise:
//! `latency`, `domains`, `pace`, `stands_for`, `[processor]`, and one `[[state]]` each, fastest first; see
//! `studies/machines/pstates/laptop-5.toml`. Of `intel`, `intel-hwp` and `amd`: see `pstates/processor.rs`.

mod machine;
mod processor;

pub use machine::table_of;

use domain::lab::{PState, PStateDomains, PStateDriver, PStateTable, ProcessorModel, Vendor};
use domain::time::Nanos;
use domain::units::Hertz;
use processor::{RawProcessor, RawRatioTable};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::ops::Range;
use std::path::{Path, PathBuf};
use strict_toml::Place;
use toml::Spanned;

/// The tables that ship with the program: name and text.
const SHIPPED: [(&str, &str); 15] = [
    ("granite-rapids", include_str!("../../../studies/machines/pstates/granite-rapids.toml")),
    ("i7-6700k-acpi", include_str!("../../../studies/machines/pstates/i7-6700k-acpi.toml")),
    ("i7-6700k-hwp", include_str!("../../../studies/machines/pstates/i7-6700k-hwp.toml")),
    ("i7-6700k-pstate", include_str!("../../../studies/machines/pstates/i7-6700k-pstate.toml")),
    ("i7-6700t-acpi", include_str!("../../../studies/machines/pstates/i7-6700t-acpi.toml")),
    ("i7-6700t-hwp", include_str!("../../../studies/machines/pstates/i7-6700t-hwp.toml")),
    ("i7-6700t-pstate", include_str!("../../../studies/machines/pstates/i7-6700t-pstate.toml")),
    ("i7-860", include_str!("../../../studies/machines/pstates/i7-860.toml")),
    ("laptop-5", include_str!("../../../studies/machines/pstates/laptop-5.toml")),
    ("pentium-4-clockmod", include_str!("../../../studies/machines/pstates/pentium-4-clockmod.toml")),
    ("server-8", include_str!("../../../studies/machines/pstates/server-8.toml")),
    ("server-9", include_str!("../../../studies/machines/pstates/server-9.toml")),
    ("xeon-e5-2683v3-acpi", include_str!("../../../studies/machines/pstates/xeon-e5-2683v3-acpi.toml")),
    ("xeon-e5-2683v3-pstate", include_str!("../../../studies/machines/pstates/xeon-e5-2683v3-pstate.toml")),
    ("zen3-server", include_str!("../../../studies/machines/pstates/zen3-server.toml")),
];

/// [`domain::lab::PACES`].
const PACES: (f64, f64) = (*domain::lab::PACES.start(), *domain::lab::PACES.end());

/// The most states: ACPI counts them in a byte, and no machine has more than some twenty.
const MAX_STATES: usize = 64;

/// A bound on a table's file: some hundred bytes a state.
const MAX_TABLE: u64 = 1 << 20;

/// The longest transition: `acpi-cpufreq` takes more for none, and the kernel then refuses ondemand (10 ms).
const LONGEST_LATENCY: Nanos = Nanos::from_millis(10);

/// A table that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Neither a shipped table nor a path.
    #[error(
        "no P-state table is named `{name}`; shipped are {shipped}; a path must contain `/` or end in `.toml`, and a machine's \
         inventory in `.json`"
    )]
    Unknown {
        /// What was asked for.
        name: String,
        /// The names that there are.
        shipped: String,
    },
    /// The file cannot be read.
    #[error("cannot read the P-state table `{}`: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Not TOML, or with other keys than a table has. The text names line and column, and shows the line.
    #[error("P-state table `{table}`: {}", source.to_string().trim_end())]
    Syntax {
        /// Its name or path.
        table: String,
        /// What the parser says.
        source: Box<toml::de::Error>,
    },
    /// A value that cannot be.
    #[error("P-state table `{table}`, line {line}: {problem}")]
    Value {
        /// Its name or path.
        table: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong, and what it must be.
        problem: String,
    },
}

/// The shipped tables: name and TOML text.
pub fn shipped() -> impl Iterator<Item = (&'static str, &'static str)> {
    SHIPPED.into_iter()
}

/// The table of that name, or the file at that path, seen from `folder`.
///
/// # Errors
/// An [`Error`] that names the table, and the line where there is one.
pub fn load(name_or_path: &str, folder: &Path) -> Result<PStateTable, Error> {
    if let Some((name, text)) = shipped().find(|(name, _)| *name == name_or_path) {
        return parse(name, text);
    }
    if !name_or_path.contains('/') && !name_or_path.ends_with(".toml") {
        let names: Vec<String> = shipped().map(|(name, _)| format!("`{name}`")).collect();
        return Err(Error::Unknown { name: name_or_path.to_owned(), shipped: names.join(", ") });
    }
    let path = folder.join(name_or_path);
    match files::regular::text(&path, MAX_TABLE) {
        Ok(text) => parse(name_or_path, &text),
        Err(source) => Err(Error::Unreadable { path, source }),
    }
}

/// A table from its TOML text; `name` stands in errors and in the result.
///
/// # Errors
/// As [`load`], but for reading.
pub fn parse(name: &str, text: &str) -> Result<PStateTable, Error> {
    let driver = read::<RawDriver>(name, text)?.driver;
    let checked = match driver.as_ref().map(|driver| driver.as_ref().as_str()) {
        None | Some("acpi") => read::<RawTable>(name, text)?.check(name),
        Some("intel" | "intel-hwp" | "amd") => read::<RawRatioTable>(name, text)?.check(name),
        Some(other) => {
            let span = driver.as_ref().map_or(0..0, Spanned::span);
            Err((
                span,
                format!("no driver is named `{other}`; there are `acpi`, `intel`, `intel-hwp` and `amd`"),
            ))
        }
    };
    checked.map_err(|(span, problem)| Error::Value {
        table: name.to_owned(),
        line: Place::of(text, span.start).line,
        problem,
    })
}

fn read<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, Error> {
    toml::from_str(text).map_err(|source| Error::Syntax { table: name.to_owned(), source: Box::new(source) })
}

/// The key that decides which others there are.
#[derive(Deserialize)]
struct RawDriver {
    driver: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTable {
    #[serde(rename = "driver")]
    _driver: Option<String>,
    processor: Option<Spanned<RawProcessor>>,
    latency: Spanned<String>,
    domains: RawDomains,
    pace: Spanned<f64>,
    stands_for: Option<Spanned<f64>>,
    state: Spanned<Vec<Spanned<RawState>>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum RawDomains {
    PerCpu,
    Shared,
}

impl From<RawDomains> for PStateDomains {
    fn from(domains: RawDomains) -> Self {
        match domains {
            RawDomains::PerCpu => Self::PerCpu,
            RawDomains::Shared => Self::Shared,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawState {
    mhz: Spanned<u32>,
    speed: Spanned<f64>,
    busy_watts: Option<Spanned<f64>>,
    idle_watts: Option<Spanned<f64>>,
}

/// Where in the text, and what is wrong.
type Problem = (Range<usize>, String);

impl RawTable {
    fn check(&self, name: &str) -> Result<PStateTable, Problem> {
        let pace = bounded(&self.pace, "pace", PACES)?;
        let stands_for = match &self.stands_for {
            Some(value) => Some(bounded(value, "stands_for", (pace, 1e12))?),
            None => None,
        };
        let processor = self.processor.as_ref().map(|given| given.as_ref().model());
        if let (Some(ProcessorModel { vendor: Vendor::Amd, .. }), Some(given)) = (processor, &self.processor)
        {
            let text = "a guest with `acpi-cpufreq` cannot have a processor of AMD's: its TSC would not be constant, and \
                        the kernel would keep time by the HPET; take it out";
            return Err((given.span(), text.to_owned()));
        }
        Ok(PStateTable {
            name: name.to_owned(),
            driver: PStateDriver::Acpi,
            processor,
            states: check_states(&self.state)?,
            latency: check_latency(&self.latency)?,
            domains: self.domains.into(),
            idle: Vec::new(),
            pace,
            stands_for,
        })
    }
}

fn check_latency(text: &Spanned<String>) -> Result<Nanos, Problem> {
    let latency = Nanos::parse(text.as_ref());
    latency.filter(|latency| (Nanos::new(1)..=LONGEST_LATENCY).contains(latency)).ok_or_else(|| {
        let text_shown = text.as_ref();
        (text.span(), format!("latency `{text_shown}` is no time above 0 and up to 10 ms, such as `10us`"))
    })
}

fn check_states(states: &Spanned<Vec<Spanned<RawState>>>) -> Result<Vec<PState>, Problem> {
    let list = states.as_ref();
    let (Some(first), 1..=MAX_STATES) = (list.first(), list.len()) else {
        return Err((states.span(), format!("a table has 1 to {MAX_STATES} states, not {}", list.len())));
    };
    let fastest = &first.as_ref().speed;
    if *fastest.as_ref() != 1.0 {
        return Err((fastest.span(), format!("the first state's speed is 1, not {}", fastest.as_ref())));
    }
    for pair in list.windows(2) {
        check_order(pair[0].as_ref(), pair[1].as_ref())?;
    }
    list.iter().map(|state| check_state(state.as_ref())).collect()
}

/// Fastest first: the kernel takes `_PSS` as sorted, and drops an entry that is not below the one before.
fn check_order(faster: &RawState, slower: &RawState) -> Result<(), Problem> {
    let (before, mhz) = (faster.mhz.as_ref(), slower.mhz.as_ref());
    if mhz >= before {
        return Err((slower.mhz.span(), format!("{mhz} MHz does not lie below the {before} MHz before it")));
    }
    let (before, speed) = (faster.speed.as_ref(), slower.speed.as_ref());
    if speed > before {
        return Err((slower.speed.span(), format!("speed {speed} lies above the {before} before it")));
    }
    Ok(())
}

fn check_state(state: &RawState) -> Result<PState, Problem> {
    /// Slower than a thousandth of the fastest, a second of the guest would be a quarter of an hour.
    const SPEEDS: (f64, f64) = (0.001, 1.0);
    /// No single CPU takes a kilowatt.
    const WATTS: (f64, f64) = (0.0, 1e3);
    let mhz = *state.mhz.as_ref();
    if mhz == 0 {
        return Err((state.mhz.span(), "a state has more than 0 MHz".to_owned()));
    }
    let watts = |value: &Option<Spanned<f64>>, name| {
        value.as_ref().map(|value| bounded(value, name, WATTS)).transpose()
    };
    Ok(PState {
        frequency: Hertz::from_mhz(u64::from(mhz)),
        speed: bounded(&state.speed, "speed", SPEEDS)?,
        busy_watts: watts(&state.busy_watts, "busy_watts")?,
        idle_watts: watts(&state.idle_watts, "idle_watts")?,
    })
}

fn bounded(value: &Spanned<f64>, name: &str, (least, most): (f64, f64)) -> Result<f64, Problem> {
    let number = *value.as_ref();
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    Err((value.span(), format!("{name} {number} lies outside {least:e} to {most:e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "latency = '10us'\ndomains = 'shared'\npace = 2e7\n\
        [[state]]\nmhz = 2000\nspeed = 1.0\nbusy_watts = 9.5\n[[state]]\nmhz = 1000\nspeed = 0.5\n";

    #[test]
    fn a_table_is_read() {
        let table = parse("mine", GOOD).unwrap();
        assert_eq!((table.name.as_str(), table.pace, table.stands_for), ("mine", 2e7, None));
        assert_eq!((table.latency, table.domains), (Nanos::from_micros(10), PStateDomains::Shared));
        let slow =
            PState { frequency: Hertz::from_mhz(1000), speed: 0.5, busy_watts: None, idle_watts: None };
        assert_eq!((table.states[0].busy_watts, table.states[1]), (Some(9.5), slow));
    }

    #[test]
    fn every_shipped_table_can_be_loaded_and_has_power_for_each_state() {
        for (name, _) in shipped() {
            let table = load(name, Path::new("/nonexistent")).unwrap();
            assert!(table.states.iter().all(|s| s.busy_watts > s.idle_watts && s.idle_watts.is_some()));
            assert!(table.states.windows(2).all(|pair| pair[0].busy_watts > pair[1].busy_watts));
        }
        assert_eq!(load("laptop-5", Path::new("")).unwrap().states.len(), 5);
    }

    /// The report on dm-crypt says of p4-clockmod that it saves none.
    #[test]
    fn throttling_takes_no_less_energy_for_an_instruction_and_as_much_while_idle() {
        let states = load("pentium-4-clockmod", Path::new("")).unwrap().states;
        let eighths: Vec<f64> = states.iter().map(|state| state.speed * 8.0).collect();
        assert_eq!(eighths, [8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0]);
        let joules = |state: &PState| state.busy_watts.unwrap() / state.speed;
        assert!(states.windows(2).all(|pair| joules(&pair[1]) > joules(&pair[0])));
        assert!(states.iter().all(|state| state.idle_watts == states[0].idle_watts));
    }

    #[test]
    fn a_bad_table_is_refused_with_its_line() {
        for (from, to, expected) in [
            ("mhz = 1000", "mhz = 2000", "line 9: 2000 MHz does not lie below the 2000 MHz before it"),
            ("speed = 1.0", "speed = 0.9", "line 6: the first state's speed is 1, not 0.9"),
            ("speed = 0.5", "speed = 0.0", "line 10: speed 0 lies outside 1e-3 to 1e0"),
            ("speed = 0.5", "speed = nan", "line 10: speed NaN lies outside"),
            ("speed = 0.5", "speed = 1.5", "line 10: speed 1.5 lies above the 1 before it"),
            ("9.5", "-1.0", "line 7: busy_watts -1 lies outside"),
            ("2e7", "5.0", "line 3: pace 5 lies outside 1e6 to 1e9"),
            ("10us", "0us", "line 1: latency `0us` is no time above 0"),
            ("10us", "10", "line 1: latency `10` is no time"),
            ("speed = 0.5", "sped = 0.5", "line 10, column 1"),
            ("'shared'", "'some'", "line 2, column 11"),
            ("mhz = 1000", "mhz = -1", "line 9, column 7"),
        ] {
            let error = parse("mine", &GOOD.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains("`mine`") && error.contains(expected), "{from} -> {to}: {error}");
        }
        let amd = GOOD.replace(
            "pace = 2e7",
            "pace = 2e7\nprocessor = { vendor = 'amd', family = 25, model = 1, stepping = 1 }",
        );
        let error = parse("mine", &amd).unwrap_err().to_string();
        assert!(
            error.contains("line 4: a guest with `acpi-cpufreq` cannot have a processor of AMD's"),
            "{error}"
        );
        let none = parse("mine", "latency='1us'\ndomains='shared'\npace=2e7\nstate=[]\n").unwrap_err();
        assert_eq!(none.to_string(), "P-state table `mine`, line 4: a table has 1 to 64 states, not 0");
    }

    #[test]
    fn an_unknown_name_lists_the_shipped_ones_and_a_missing_file_names_its_path() {
        let error = load("laptop", Path::new("/study")).unwrap_err().to_string();
        assert!(
            error.contains("`laptop`") && error.contains("`laptop-5`, `pentium-4-clockmod`, `server-8`"),
            "{error}"
        );
        let error = load("my.toml", Path::new("/nonexistent/study")).unwrap_err().to_string();
        assert!(error.contains("`/nonexistent/study/my.toml`"), "{error}");
    }
}
