//! A machine file as it is written.

use super::cost::{COSTS, STALLS};
use super::{
    Background, Costs, CpuSpec, DiskEntry, Driver, Figure, LinkEntry, MachineSpec, Origin, PState, Variation,
};
use crate::block::{Interrupts, Scheduler};
use crate::cpu::{Begins, IdleState, IdleTime};
use domain::lab::{ProcessorModel, Vendor};
use domain::order;
use domain::time::Nanos;
use domain::units::{Bytes, Hertz};
use governors::KernelVersion;
use governors::autonomous::AutonomousSpec;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use strict_toml::Error;
use strict_toml::quantity::{Size, Span};
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MachineFile {
    flyball_machine: Spanned<u32>,
    name: Spanned<String>,
    about: String,
    kernel: Spanned<String>,
    hz: Spanned<u64>,
    memory: Size,
    cpu: CpuTable,
    #[serde(default)]
    disk: Vec<DiskTable>,
    #[serde(default)]
    link: Vec<LinkTable>,
    #[serde(default)]
    cost: BTreeMap<Spanned<String>, Spanned<FigureTable>>,
    #[serde(default)]
    variation: VariationTable,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct VariationTable {
    costs: Option<Spanned<FigureTable>>,
    media: Option<Spanned<FigureTable>>,
    start_ms: Option<Spanned<FigureTable>>,
    #[serde(default)]
    background: Vec<BackgroundTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BackgroundTable {
    name: Spanned<String>,
    every: Span,
    work: Spanned<FigureTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CpuTable {
    model: String,
    processor: Option<ProcessorTable>,
    /// Where the figures of this table come from.
    #[expect(dead_code, reason = "must stand in the file, for people")]
    source: String,
    count: Spanned<usize>,
    driver: Spanned<String>,
    governor: String,
    #[serde(default)]
    shared: bool,
    base_mhz: Option<Spanned<u64>>,
    epp: Option<String>,
    state: Spanned<Vec<StateTable>>,
    turbo_mhz: Option<Spanned<Vec<u64>>>,
    transition: Span,
    transition_latency: Option<Span>,
    frequency_invariant: Option<bool>,
    #[serde(default)]
    work_per_cycle: Option<Spanned<f64>>,
    interrupts: Option<Spanned<String>>,
    begins: Option<Spanned<String>>,
    idle_time: Option<Spanned<String>>,
    #[serde(default)]
    idle: Vec<IdleTable>,
}

/// As `cpuid` has them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProcessorTable {
    vendor: VendorName,
    family: u8,
    model: u8,
    stepping: u8,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum VendorName {
    Intel,
    Amd,
}

impl ProcessorTable {
    fn model(self) -> ProcessorModel {
        let vendor = match self.vendor {
            VendorName::Intel => Vendor::Intel,
            VendorName::Amd => Vendor::Amd,
        };
        ProcessorModel { vendor, family: self.family, model: self.model, stepping: self.stepping }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StateTable {
    mhz: u64,
    busy_watts: Option<f64>,
    idle_watts: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct IdleTable {
    name: String,
    exit_latency: Span,
    target_residency: Span,
    watts: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DiskTable {
    name: Spanned<String>,
    model: String,
    #[expect(dead_code, reason = "must stand in the file, for people")]
    source: String,
    count: Option<u32>,
    size: Option<Size>,
    link: Option<Spanned<String>>,
    scheduler: Option<Spanned<String>>,
    tags: Option<Spanned<u32>>,
    max_sectors_kb: Option<Spanned<u64>>,
    max_segments: Option<Spanned<u32>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkTable {
    name: Spanned<String>,
    model: String,
    on: Option<Spanned<String>>,
    #[expect(dead_code, reason = "must stand in the file, for people")]
    source: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FigureTable {
    is: f64,
    source: Option<String>,
    assumed: Option<String>,
    fitted: Option<String>,
    range: Option<[f64; 2]>,
}

/// Enough for any machine; a thread's CPUs are a set of 64.
const MAX_CPUS: usize = 64;
/// Disks of one machine.
const MAX_DISKS: u32 = 64;
/// What libahci gives each command's table (`AHCI_MAX_SG`).
const AHCI_SEGMENTS: u32 = 168;

/// Says what is wrong, and where.
struct Wrong<'a>(&'a str);

impl Wrong<'_> {
    fn at(&self, span: Range<usize>, message: String) -> Error {
        Error::at(self.0, span.start, message)
    }
}

pub(super) fn parse(text: &str) -> Result<MachineSpec, Error> {
    let wrong = Wrong(text);
    let file: MachineFile = strict_toml::read(text)?;
    let version = *file.flyball_machine.get_ref();
    if version != 1 {
        let message = format!("version {version} is not known here; this is version 1");
        return Err(wrong.at(file.flyball_machine.span(), message));
    }
    let name = file.name.get_ref().clone();
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Err(wrong.at(file.name.span(), format!("`{name}` is no name of letters, digits and `-`")));
    }
    let kernel = KernelVersion::parse(file.kernel.get_ref()).ok_or_else(|| {
        wrong.at(
            file.kernel.span(),
            format!("`{}` is no kernel release; write `\"6.1.0\"`", file.kernel.get_ref()),
        )
    })?;
    let hz = *file.hz.get_ref();
    if !(100..=1000).contains(&hz) {
        return Err(wrong.at(file.hz.span(), format!("{hz} is not from 100 to 1000 ticks a second")));
    }
    let links = links(&wrong, file.link)?;
    let disks = file.disk.into_iter().map(|d| disk(&wrong, d, &links)).collect::<Result<_, _>>()?;
    let cpu = cpu(&wrong, file.cpu)?;
    let costs = costs(&wrong, file.cost, cpu.work_per_cycle)?;
    let variation = variation(&wrong, file.variation)?;
    Ok(MachineSpec {
        name,
        about: file.about,
        kernel,
        hz,
        dilation: 1.0,
        slice_dilation: 1.0,
        start_delay: Nanos::ZERO,
        memory: file.memory.0,
        cpu,
        disks,
        links,
        costs,
        variation,
    })
}

fn cpu(wrong: &Wrong<'_>, table: CpuTable) -> Result<CpuSpec, Error> {
    let count = *table.count.get_ref();
    if !(1..=MAX_CPUS).contains(&count) {
        return Err(wrong.at(table.count.span(), format!("{count} is not from 1 to {MAX_CPUS} CPUs")));
    }
    let name = table.driver.get_ref();
    let driver = Driver::ALL.into_iter().find(|d| d.name() == name).ok_or_else(|| {
        let all: Vec<&str> = Driver::ALL.iter().map(|d| d.name()).collect();
        wrong.at(table.driver.span(), format!("no driver is named `{name}`; there are {}", all.join(", ")))
    })?;
    let span = table.state.span();
    let mut states: Vec<PState> = Vec::new();
    for state in table.state.into_inner() {
        if !(1..=20_000).contains(&state.mhz) {
            return Err(wrong.at(span, format!("{} MHz is no frequency from 1 to 20000", state.mhz)));
        }
        for watts in [state.busy_watts, state.idle_watts].into_iter().flatten() {
            if !(0.0..=1000.0).contains(&watts) {
                return Err(wrong.at(span, format!("{watts} W is not from 0 to 1000 for one CPU")));
            }
        }
        states.push(PState {
            frequency: Hertz::from_mhz(state.mhz),
            busy_watts: state.busy_watts,
            idle_watts: state.idle_watts,
        });
    }
    order::by_key(&mut states, |state| state.frequency);
    if states.is_empty() || states.windows(2).any(|pair| pair[0].frequency == pair[1].frequency) {
        return Err(wrong.at(span, "a machine has at least one P-state, and none of them twice".to_owned()));
    }
    let turbo_span = table.turbo_mhz.as_ref().map_or(0..0, Spanned::span);
    let turbo = table.turbo_mhz.map_or_else(Vec::new, Spanned::into_inner);
    let turbo: Vec<Hertz> = turbo.into_iter().map(Hertz::from_mhz).collect();
    let (lowest, highest) = (states[0].frequency, states[states.len() - 1].frequency);
    // The highest state of a table may stand for all of turbo.
    let is_above = driver == Driver::AcpiCpufreq && turbo.iter().all(|f| *f > highest);
    if let Some(odd) = turbo.iter().find(|f| !is_above && !(lowest..=highest).contains(f)) {
        let message = format!(
            "{:.0} MHz lies outside the states, {:.0} to {:.0} MHz",
            odd.mhz(),
            lowest.mhz(),
            highest.mhz()
        );
        return Err(wrong.at(turbo_span, message));
    }
    let base = match &table.base_mhz {
        None => highest,
        Some(base) if (lowest..=highest).contains(&Hertz::from_mhz(*base.get_ref())) => {
            Hertz::from_mhz(*base.get_ref())
        }
        Some(base) => {
            return Err(wrong.at(base.span(), format!("{} MHz lies outside the states", base.get_ref())));
        }
    };
    let work = table.work_per_cycle.map_or(Ok(1.0), |work| match *work.get_ref() {
        ok if (1e-6..=100.0).contains(&ok) => Ok(ok),
        odd => Err(wrong.at(work.span(), format!("{odd} is not from 0.000001 to 100 a cycle"))),
    })?;
    let interrupts = one_of(
        wrong,
        table.interrupts.as_ref(),
        "interrupts are for",
        [("submitter", Interrupts::Submitter), ("any", Interrupts::Any), ("drawn", Interrupts::Drawn)],
    )?;
    let begins = one_of(
        wrong,
        table.begins.as_ref(),
        "governors begin",
        [("new", Begins::New), ("idle", Begins::Idle)],
    )?;
    let idle_time = one_of(
        wrong,
        table.idle_time.as_ref(),
        "idle time is",
        [("exact", IdleTime::Exact), ("ticks", IdleTime::Ticks)],
    )?;
    let idle = table.idle.into_iter().map(|state| IdleState {
        name: state.name,
        exit_latency_ns: state.exit_latency.0.get(),
        target_residency_ns: state.target_residency.0.get(),
        watts: state.watts,
    });
    Ok(CpuSpec {
        model: table.model,
        processor: table.processor.map(ProcessorTable::model),
        count,
        driver,
        governor: table.governor,
        shared: table.shared,
        base,
        epp: table.epp.unwrap_or_else(|| "balance_performance".to_owned()),
        hardware: AutonomousSpec::default(),
        states,
        turbo,
        transition: Nanos::new(table.transition.0.get()),
        transition_latency: Nanos::new(table.transition_latency.unwrap_or(table.transition).0.get()),
        frequency_invariant: table.frequency_invariant.unwrap_or(true),
        work_per_cycle: work,
        interrupts,
        begins,
        idle_time,
        idle: idle.collect(),
    })
}

/// One of some named values; the first where none is given.
fn one_of<T: Copy, const N: usize>(
    wrong: &Wrong<'_>,
    given: Option<&Spanned<String>>,
    what: &str,
    known: [(&str, T); N],
) -> Result<T, Error> {
    let Some(given) = given else { return Ok(known[0].1) };
    let text = given.get_ref().as_str();
    let found = known.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<String> = known.iter().map(|(name, _)| format!("`{name}`")).collect();
        let (last, others) = names.split_last().expect("there is one at least");
        wrong.at(given.span(), format!("{what} {} or {last}, not `{text}`", others.join(", ")))
    })
}

/// Links stand after those that they are on, so that none is on itself.
fn links(wrong: &Wrong<'_>, tables: Vec<LinkTable>) -> Result<BTreeMap<String, LinkEntry>, Error> {
    let mut links = BTreeMap::new();
    for LinkTable { name, model, on, .. } in tables {
        if let Some(on) = on.as_ref().filter(|on| !links.contains_key(on.get_ref())) {
            let message = format!("no [[link]] before this one is named `{}`", on.get_ref());
            return Err(wrong.at(on.span(), message));
        }
        let entry = LinkEntry { model, on: on.map(Spanned::into_inner) };
        if links.insert(name.get_ref().clone(), entry).is_some() {
            return Err(wrong.at(name.span(), format!("two links are named `{}`", name.get_ref())));
        }
    }
    Ok(links)
}

fn disk(
    wrong: &Wrong<'_>,
    table: DiskTable,
    links: &BTreeMap<String, LinkEntry>,
) -> Result<DiskEntry, Error> {
    if let Some(link) = table.link.as_ref().filter(|link| !links.contains_key(link.get_ref())) {
        return Err(wrong.at(link.span(), format!("no [[link]] is named `{}`", link.get_ref())));
    }
    let count = table.count.unwrap_or(1);
    if !(1..=MAX_DISKS).contains(&count) {
        return Err(wrong.at(table.name.span(), format!("{count} disks are not from 1 to {MAX_DISKS}")));
    }
    let scheduler = match table.scheduler.as_ref().map(|s| s.get_ref().as_str()) {
        None | Some("mq-deadline") => Scheduler::MqDeadline,
        Some("none") => Scheduler::None,
        Some(other) => {
            let span = table.scheduler.as_ref().map_or(0..0, Spanned::span);
            return Err(wrong
                .at(span, format!("no scheduler is named `{other}`; there are `none` and `mq-deadline`")));
        }
    };
    let tags = table.tags.as_ref().map_or(32, |tags| *tags.get_ref());
    let most = table.max_sectors_kb.as_ref().map_or(1280, |most| *most.get_ref());
    if !(1..=1024).contains(&tags) || !(4..=65_536).contains(&most) {
        return Err(wrong.at(
            table.name.span(),
            format!("{tags} tags are not from 1 to 1024, or {most} KiB not from 4 to 65536"),
        ));
    }
    let segments = table.max_segments.as_ref().map_or(AHCI_SEGMENTS, |most| *most.get_ref());
    if let Some(given) = table.max_segments.filter(|given| !(1..=65_535).contains(given.get_ref())) {
        return Err(wrong.at(given.span(), format!("{segments} segments are not from 1 to 65535")));
    }
    Ok(DiskEntry {
        name: table.name.into_inner(),
        model: table.model,
        count,
        size: table.size.map(|size| size.0),
        link: table.link.map(Spanned::into_inner),
        scheduler,
        tags,
        most_bytes: Bytes::from_kib(most),
        most_segments: segments,
        window: None,
        delay: Nanos::new(0),
        written: false,
    })
}

fn costs(
    wrong: &Wrong<'_>,
    table: BTreeMap<Spanned<String>, Spanned<FigureTable>>,
    work_per_cycle: f64,
) -> Result<Costs, Error> {
    let mut given = BTreeMap::new();
    for (key, figure) in table {
        let every = || COSTS.iter().chain(STALLS);
        let Some(known) = every().find(|cost| cost.name == key.get_ref()) else {
            let all: Vec<&str> = every().map(|cost| cost.name).collect();
            let message = format!("nothing costs `{}`; there are {}", key.get_ref(), all.join(", "));
            return Err(wrong.at(key.span(), message));
        };
        given.insert(known.name, self::figure(wrong, figure)?);
    }
    Ok(Costs { given, work_per_cycle, factor: 1.0 })
}

/// Half is more than any trial differs from another of the same cell.
const MOST_DEVIATION: f64 = 0.5;
/// Longer than any period of ticks and governors.
const MOST_START_MS: f64 = 10_000.0;
/// A thread that wakes up more often is a load of its own.
const LEAST_BACKGROUND_PERIOD: Nanos = Nanos::from_micros(100);

fn variation(wrong: &Wrong<'_>, table: VariationTable) -> Result<Variation, Error> {
    let up_to = |given: Option<Spanned<FigureTable>>, most: f64| {
        let Some(given) = given else { return Ok(None) };
        let (span, is) = (given.span(), given.get_ref().is);
        let figure = figure(wrong, given)?;
        match (0.0..=most).contains(&is) {
            true => Ok(Some(figure)),
            false => Err(wrong.at(span, format!("{is} is not from 0 to {most}"))),
        }
    };
    let background = |table: BackgroundTable| {
        let every = Nanos::new(table.every.0.get());
        if every < LEAST_BACKGROUND_PERIOD {
            let message = format!("{every} is less than {LEAST_BACKGROUND_PERIOD} between two wake-ups");
            return Err(wrong.at(table.name.span(), message));
        }
        Ok(Background { name: table.name.into_inner(), every, work: figure(wrong, table.work)? })
    };
    Ok(Variation {
        costs: up_to(table.costs, MOST_DEVIATION)?,
        media: up_to(table.media, MOST_DEVIATION)?,
        start_ms: up_to(table.start_ms, MOST_START_MS)?,
        background: table.background.into_iter().map(background).collect::<Result<_, _>>()?,
    })
}

fn figure(wrong: &Wrong<'_>, figure: Spanned<FigureTable>) -> Result<Figure, Error> {
    let span = figure.span();
    let table = figure.into_inner();
    if !(0.0..=1e12).contains(&table.is) {
        return Err(wrong.at(span, format!("{} is no cost from 0 to 1e12", table.is)));
    }
    let origin = match (table.source, table.assumed, table.fitted, table.range) {
        (Some(source), None, None, None) => Origin::Source(source),
        (None, Some(why), None, None) => Origin::Assumed(why),
        (None, None, Some(to), Some([least, most])) if least <= table.is && table.is <= most => {
            Origin::Fitted { to, range: (least, most) }
        }
        (None, None, Some(_), _) => {
            let message = "a fitted figure has a `range = [least, most]` that it lies in".to_owned();
            return Err(wrong.at(span, message));
        }
        _ => {
            let message = "a figure has one of `source`, `assumed` and `fitted` (with `range`)".to_owned();
            return Err(wrong.at(span, message));
        }
    };
    Ok(Figure { is: table.is, origin })
}

#[cfg(test)]
mod tests {
    use super::parse;

    const P4: &str = include_str!("../../../../studies/machines/p4-2002.toml");

    #[test]
    fn a_link_may_lie_before_another_that_stands_above_it() {
        let links = parse(P4).unwrap().links;
        assert_eq!(links["ide2"].on.as_deref(), Some("pci"));
        assert_eq!(links["pci"].on, None);
        let told = |from: &str, to: &str| parse(&P4.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(
            told("on = \"pci\"", "on = \"ide0\"").contains("no [[link]] before this one is named `ide0`")
        );
        assert!(told("name = \"ide1\"", "name = \"ide0\"").contains("two links are named `ide0`"));
    }

    #[test]
    fn sources_of_variation_are_read_and_bad_ones_refused() {
        let (without, _) = P4.split_once("[variation]").unwrap();
        let with = |text: &str| parse(&format!("{without}[variation]\n{text}"));
        let good = "costs = { is = 0.01, source = \"a test\" }\n[[variation.background]]\nname = \"d\"\n\
                    every = \"10 ms\"\nwork = { is = 1000, assumed = \"a test\" }\n";
        let variation = with(good).unwrap().variation;
        assert_eq!(variation.costs.unwrap().is, 0.01);
        assert_eq!((&*variation.background[0].name, variation.background[0].work.is), ("d", 1000.0));
        for (from, to, told) in [
            ("0.01", "0.6", "0.6 is not from 0 to 0.5"),
            ("costs", "cost", "unknown field `cost`"),
            (", source = \"a test\"", "", "a figure has one of `source`, `assumed` and `fitted`"),
            ("10 ms", "10 us", "less than 100 µs between two wake-ups"),
        ] {
            let error = with(&good.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(told), "{error}");
        }
    }
}
