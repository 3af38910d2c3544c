//! The plugin's record, read; and the plugin itself, found and given its arguments.
//!
//! The record is a text file that the plugin appends to at each write to the control port (its form:
//! `crates/pstate-plugin/src/record.rs`). It can be read while QEMU runs: a last line without its end is not
//! there yet, and neither is a span of pacing without its `end`.

use crate::acpi::{CONTROL_PORT, FIRST_PORT, IDLE_PORT};
use domain::lab::{
    Dilated, IdleRecord, IdleState, MAX_TRANSITIONS, PStateDomains, PStateDriver, PStateTable, Pacing,
    Ratios, RegisterRequest, StateRecord, VcpuRecord, Vendor,
};
use domain::time::Nanos;
use domain::trial::Disturbance;
use domain::units::Microjoules;
use std::path::{Path, PathBuf};

/// The plugin's file.
const PLUGIN: &str = "libpstate_plugin.so";

/// QEMU's `-cpu` for a paced guest: its kernel trusts this model's TSC, so that its clock does not follow the
/// virtual frequency, and halts when it idles. The reasons, and what changes with Intel's name:
/// `crates/pstate-plugin/src/lib.rs`.
///
/// Without fast strings (ERMS, FSRM) the kernel copies and clears memory by 8 bytes instead of one for each
/// step that is emulated: four times as fast (measured: 0.15 instead of 0.55 s for reading 200 MiB from a
/// tmpfs), and the time that a paced CPU is late by falls with it, for such a copy counts as one instruction.
pub const CPU_MODEL: &str = "max,vendor=CentaurHauls,family=6,model=15,-monitor,-erms,-fsrm";

/// QEMU's `-cpu` for a guest with this table.
///
/// A processor of Intel's has a trusted TSC by its model, and leaves up to 0x16 of `cpuid`, which tell its
/// frequencies, where the plugin fills them. `intel_pstate`, `amd_pstate` and RAPL want no hypervisor
/// (`rapl_pmu_init`).
pub fn cpu_model(table: Option<&PStateTable>) -> String {
    let Some(PStateTable { processor: Some(processor), driver, .. }) = table else {
        return CPU_MODEL.to_owned();
    };
    let (vendor, family) = (processor.vendor.id(), processor.family);
    let (model, stepping) = (processor.model, processor.stepping);
    let bare = match driver {
        PStateDriver::Acpi => "",
        PStateDriver::Intel(_) => ",level=0x16,-hypervisor",
        PStateDriver::Amd(_) => ",-hypervisor",
    };
    format!(
        "max,vendor={vendor},family={family},model={model},stepping={stepping},-monitor,-erms,-fsrm{bare}"
    )
}

/// What the guest's kernel has to be told so that the table's driver binds as on such a machine.
///
/// `intel_pstate` would begin in passive mode where the processor has no HWP (`intel_pstate_init`).
/// `amd_pstate` does not bind by itself before Linux 6.5, and later not where firmware says that the machine
/// is a server, or says nothing (`amd_pstate_init`). Before 6.3 it knows the passive mode alone, and the last
/// word that it knows counts.
pub const fn kernel_option(table: &PStateTable) -> Option<&'static str> {
    match &table.driver {
        PStateDriver::Intel(Ratios { hwp: None, .. }) => Some("intel_pstate=active"),
        PStateDriver::Amd(_) => Some("amd_pstate=passive amd_pstate=active"),
        PStateDriver::Intel(_) | PStateDriver::Acpi => None,
    }
}

/// The share of the paced time by which a CPU may be late before its trial is disturbed.
///
/// A difference that is claimed is 2% at least, and what a CPU is late by is time that it lacked: beyond this
/// the lateness alone could be such a difference.
pub const MAX_LATE: f64 = 0.02;

/// A record, or a plugin, that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read the pacing record `{}`: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line that the plugin does not write.
    #[error("pacing record, line {line}: {problem}: `{text}`")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        problem: &'static str,
        /// The line.
        text: String,
    },
    /// The record is not of a machine with this table.
    #[error("the pacing record is not of the P-state table `{table}`: {problem}")]
    Table {
        /// The table's name.
        table: String,
        /// What differs.
        problem: String,
    },
    /// The plugin is nowhere.
    #[error(
        "no QEMU plugin `libpstate_plugin.so`: looked for {tried}; build it with `cargo build --release -p pstate-plugin` or \
         name its path"
    )]
    NoPlugin {
        /// The paths, in quotes.
        tried: String,
    },
}

/// What the plugin has written since the machine started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// Instructions a second at speed 1, as the plugin was told.
    pub pace: f64,
    /// The speeds of the states, as the plugin was told.
    pub speeds: Vec<f64>,
    /// The writes to the control port, in order.
    pub controls: Vec<Control>,
    /// The finished spans of pacing, in order.
    pub spans: Vec<Span>,
}

/// One write to the control port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Control {
    /// When, on the host's `CLOCK_MONOTONIC`.
    pub at: Nanos,
    /// What was written.
    pub value: u8,
    /// What each CPU had done by then since the machine's start, in the order of the CPUs.
    pub counts: Vec<Count>,
}

/// What a virtual CPU has done since its machine's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Instructions executed.
    pub instructions: u64,
    /// Time while it was not idle.
    pub busy: Nanos,
}

/// One finished span of pacing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// When it began, on the host's `CLOCK_MONOTONIC`.
    pub began: Nanos,
    /// When it ended, on the same clock.
    pub ended: Nanos,
    /// The virtual CPUs, in order.
    pub vcpus: Vec<VcpuSpan>,
}

/// One virtual CPU in a span. States are indices into the table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VcpuSpan {
    /// By how much it fell behind its pace.
    pub late: Nanos,
    /// The most of [`VcpuSpan::late`] that came at once, and when, from the beginning of the span.
    pub worst: (Nanos, Nanos),
    /// For how long its thread waited for a CPU of the host: tells a loaded host from an emulator that is too
    /// slow.
    pub queued: Nanos,
    /// All transitions, also those that [`VcpuSpan::changes`] has no more room for.
    pub changes_total: u64,
    /// Whether the guest has ever written its P-state; until then the fastest is assumed, and may be wrong.
    pub written: bool,
    /// Writes of P-states that the plugin's table does not have.
    pub rejected: u64,
    /// Time, time while not idle, and instructions in each state of the table, in its order.
    pub states: Vec<(Nanos, Count)>,
    /// Of the time in each state, that in idle states with watts of their own.
    pub own_watts: Vec<Nanos>,
    /// How often each idle state of the table was entered, and time in it.
    pub idle: Vec<(u64, Nanos)>,
    /// When it changed to which state, from the beginning of the span.
    pub changes: Vec<(Nanos, usize)>,
    /// What the guest asked a processor for, from the beginning of the span; at most [`MAX_TRANSITIONS`].
    pub requests: Vec<RegisterRequest>,
}

/// Reads a record's file; see [`parse`].
///
/// # Errors
/// [`Error::Unreadable`] and [`Error::Line`].
pub fn read(path: &Path) -> Result<Record, Error> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
    parse(&text)
}

/// Reads a record; of a file with those of several machines, the last one.
///
/// # Errors
/// [`Error::Line`] for a line that the plugin does not write. What follows the last line's end is ignored.
pub fn parse(text: &str) -> Result<Record, Error> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut reader = Reader::default();
    for (index, line) in whole.lines().enumerate() {
        reader.line(line).map_err(|problem| Error::Line {
            line: index + 1,
            problem,
            text: line.to_owned(),
        })?;
    }
    Ok(reader.record)
}

#[derive(Default)]
struct Reader {
    record: Record,
    /// The span whose `end` has not come yet.
    open: Option<Span>,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), &'static str> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let fields = Fields(rest);
        match word {
            "flyball-pacing" => self.header(rest, &fields)?,
            "control" => {
                let value = u8::try_from(fields.number("value")?).map_err(|_| "a value above 255")?;
                self.record.controls.push(Control { at: fields.time("ns")?, value, counts: Vec::new() });
            }
            "count" => {
                let control = self.record.controls.last_mut().ok_or("a count before any control write")?;
                push_as(&mut control.counts, fields.index("cpu")?, fields.count()?)?;
            }
            "span" => {
                let (began, ended) = (fields.time("began")?, fields.time("ended")?);
                self.open = Some(Span { began, ended, vcpus: Vec::new() });
            }
            "end" => self.record.spans.push(self.open.take().ok_or("an end without a span")?),
            "vcpu" => {
                let span = self.open.as_mut().ok_or("a CPU outside a span")?;
                push_as(&mut span.vcpus, fields.index("cpu")?, fields.vcpu()?)?;
            }
            "state" => {
                let state = (fields.time("time")?, fields.count()?);
                let (index, own_watts) = (fields.index("index")?, fields.time("own_watts")?);
                let vcpu = self.vcpu(&fields)?;
                push_as(&mut vcpu.states, index, state)?;
                vcpu.own_watts.push(own_watts);
            }
            "idle" => {
                let idle = (fields.number("entries")?, fields.time("time")?);
                push_as(&mut self.vcpu(&fields)?.idle, fields.index("index")?, idle)?;
            }
            "change" => {
                let change = (fields.time("ns")?, fields.index("index")?);
                self.vcpu(&fields)?.changes.push(change);
            }
            "request" => {
                let register = u32::try_from(fields.number("register")?).map_err(|_| "no such register")?;
                let value = fields.number("value")?;
                let request = RegisterRequest { at: fields.time("ns")?, register, value };
                self.vcpu(&fields)?.requests.push(request);
            }
            _ => return Err("an unknown word"),
        }
        Ok(())
    }

    fn header(&mut self, rest: &str, fields: &Fields<'_>) -> Result<(), &'static str> {
        if rest.split(' ').next() != Some("2") {
            return Err("another version of the record");
        }
        let pace = fields.text("pace")?.parse().map_err(|_| "a pace that is no number")?;
        let speeds = fields.text("speeds")?.split(':').map(str::parse).collect::<Result<_, _>>();
        *self = Self::default();
        self.record.pace = pace;
        self.record.speeds = speeds.map_err(|_| "a speed that is no number")?;
        Ok(())
    }

    fn vcpu(&mut self, fields: &Fields<'_>) -> Result<&mut VcpuSpan, &'static str> {
        let span = self.open.as_mut().ok_or("a state or change outside a span")?;
        span.vcpus.get_mut(fields.index("cpu")?).ok_or("a state or change of a CPU that was not named before")
    }
}

/// Appends to a list whose elements name their own place.
fn push_as<T>(list: &mut Vec<T>, index: usize, element: T) -> Result<(), &'static str> {
    if index != list.len() {
        return Err("out of order");
    }
    list.push(element);
    Ok(())
}

/// `key=value` words.
struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    fn text(&self, key: &str) -> Result<&'a str, &'static str> {
        let mut words = self.0.split(' ').filter_map(|word| word.split_once('='));
        words.find(|(name, _)| *name == key).map(|(_, value)| value).ok_or("a missing field")
    }

    fn number(&self, key: &str) -> Result<u64, &'static str> {
        self.text(key)?.parse().map_err(|_| "a field that is no number")
    }

    fn index(&self, key: &str) -> Result<usize, &'static str> {
        usize::try_from(self.number(key)?).map_err(|_| "a number that is too large")
    }

    fn time(&self, key: &str) -> Result<Nanos, &'static str> {
        self.number(key).map(Nanos::new)
    }

    fn count(&self) -> Result<Count, &'static str> {
        Ok(Count { instructions: self.number("instructions")?, busy: self.time("busy")? })
    }

    fn vcpu(&self) -> Result<VcpuSpan, &'static str> {
        Ok(VcpuSpan {
            late: self.time("late")?,
            worst: (self.time("worst")?, self.time("at")?),
            queued: self.time("queued")?,
            changes_total: self.number("changes")?,
            written: self.number("written")? != 0,
            rejected: self.number("rejected")?,
            ..VcpuSpan::default()
        })
    }
}

impl Record {
    /// The last finished span of pacing.
    pub fn last_span(&self) -> Option<&Span> {
        self.spans.last()
    }

    /// The last write of this value to the control port.
    pub fn last_control(&self, value: u8) -> Option<&Control> {
        self.controls.iter().rev().find(|control| control.value == value)
    }
}

impl Span {
    /// The span as a trial keeps it, in the words of the table that the machine had; `pace` is
    /// [`Record::pace`]. When it began in the trial's own time, the caller knows: `began` is `None`.
    ///
    /// # Errors
    /// [`Error::Table`] where the record cannot be of that table.
    pub fn pacing(&self, table: &PStateTable, pace: f64) -> Result<Pacing, Error> {
        let differs = |problem: String| Error::Table { table: table.name.clone(), problem };
        for (cpu, vcpu) in self.vcpus.iter().enumerate() {
            if vcpu.states.len() != table.states.len() {
                let (found, expected) = (vcpu.states.len(), table.states.len());
                return Err(differs(format!("CPU {cpu} has {found} states, the table {expected}")));
            }
            if vcpu.idle.len() != table.idle.len() {
                let (found, expected) = (vcpu.idle.len(), table.idle.len());
                return Err(differs(format!("CPU {cpu} has {found} idle states, the table {expected}")));
            }
            if let Some((_, state)) = vcpu.changes.iter().find(|(_, state)| *state >= table.states.len()) {
                return Err(differs(format!("CPU {cpu} was in state {state}")));
            }
            if vcpu.rejected > 0 {
                return Err(differs(format!(
                    "the guest wrote {} unknown states to CPU {cpu}",
                    vcpu.rejected
                )));
            }
        }
        Ok(Pacing {
            pace,
            began: None,
            span: self.ended.saturating_sub(self.began),
            vcpus: (0_u32..).zip(&self.vcpus).map(|(cpu, vcpu)| vcpu.record(cpu, table)).collect(),
            energy: self.energy(table),
        })
    }

    /// The CPUs of which the guest has never written a P-state, so that the plugin only assumes the fastest.
    ///
    /// `acpi-cpufreq` guesses the present state when it loads, and writes none that it believes to be there
    /// already; switch each policy to another governor and back before pacing, and this is empty.
    pub fn assumed(&self) -> impl Iterator<Item = usize> {
        self.vcpus.iter().enumerate().filter(|(_, vcpu)| !vcpu.written).map(|(cpu, _)| cpu)
    }

    /// The table's watts over the time in each P-state, busy and idle, and in each idle state with watts of
    /// its own. `None` where the table lacks those of a state that a CPU was in.
    fn energy(&self, table: &PStateTable) -> Option<Microjoules> {
        let mut joules = 0.0;
        for vcpu in &self.vcpus {
            for (((time, count), own), state) in vcpu.states.iter().zip(&vcpu.own_watts).zip(&table.states) {
                if *time > Nanos::ZERO {
                    let idle = time.saturating_sub(count.busy).saturating_sub(*own);
                    joules += count.busy.secs() * state.busy_watts? + idle.secs() * state.idle_watts?;
                }
            }
            let idle = vcpu.idle.iter().zip(&table.idle);
            joules += idle.map(|((_, time), state)| time.secs() * state.watts.unwrap_or(0.0)).sum::<f64>();
        }
        Some(Microjoules::new((joules * 1e6).round() as u64))
    }
}

impl VcpuSpan {
    fn record(&self, cpu: u32, table: &PStateTable) -> VcpuRecord {
        let states = self.states.iter().zip(&table.states).enumerate();
        let states = states.filter(|(_, ((time, _), _))| *time > Nanos::ZERO);
        let changes = self.changes.iter().take(MAX_TRANSITIONS);
        VcpuRecord {
            cpu,
            states: states
                .map(|(number, ((time, count), state))| StateRecord {
                    frequency: state.frequency,
                    clock: Some(table.clock(number)),
                    time: *time,
                    busy: count.busy,
                    instructions: count.instructions,
                })
                .collect(),
            transitions: changes.map(|(at, state)| (*at, table.states[*state].frequency)).collect(),
            transitions_total: self.changes_total,
            late: self.late,
            idle: self
                .idle
                .iter()
                .zip(&table.idle)
                .map(|((entries, time), state)| IdleRecord {
                    name: state.name.clone(),
                    entries: *entries,
                    time: *time,
                })
                .collect(),
            requests: self.requests.iter().take(MAX_TRANSITIONS).copied().collect(),
        }
    }
}

/// Whether a virtual CPU ran late beyond [`MAX_LATE`]; of several, the latest is named.
pub fn judge(pacing: &Pacing) -> Option<Disturbance> {
    let latest = pacing.vcpus.iter().max_by_key(|vcpu| vcpu.late)?;
    let bound = pacing.span.secs() * MAX_LATE;
    (latest.late.secs() > bound).then(|| Disturbance {
        kind: "late-vcpu".to_owned(),
        detail: format!(
            "virtual CPU {} fell {} behind its pace in {} ({:.1}%; the bound is {:.0}%): other load on the host, or a pace \
             that its emulator cannot keep",
            latest.cpu,
            latest.late,
            pacing.span,
            100.0 * latest.late.secs() / pacing.span.secs().max(f64::MIN_POSITIVE),
            100.0 * MAX_LATE,
        ),
    })
}

/// What stands behind QEMU's `-plugin` for a machine with this table, whose time is so much dilated. The
/// plugin's times and its pace are those of the guest's clock.
pub fn plugin_argument(plugin: &Path, table: &PStateTable, dilated: Dilated, record: &Path) -> String {
    let speeds: Vec<String> = table.states.iter().map(|state| state.speed.to_string()).collect();
    let domains = match table.domains {
        PStateDomains::PerCpu => "percpu",
        PStateDomains::Shared => "shared",
    };
    let slow = if dilated.slowed > 1.0 { format!(",slow={}", dilated.slowed) } else { String::new() };
    format!(
        "{},table={},pace={},port={FIRST_PORT:#x},control={CONTROL_PORT:#x},domains={domains},record={}{slow}{}",
        option_value(plugin),
        speeds.join(":"),
        table.pace * dilated.slowed,
        option_value(record),
        processor_argument(table, dilated.stretched),
    )
}

/// What the plugin is told about a processor with registers, and about idle states, whose times are stretched
/// so much.
fn processor_argument(table: &PStateTable, stretched: f64) -> String {
    let Some(Ratios { least, base, turbo, hwp }) = table.driver.ratios() else { return String::new() };
    let vendor = match table.processor.map(|processor| processor.vendor) {
        Some(Vendor::Amd) => "amd",
        Some(Vendor::Intel) | None => "intel",
    };
    let limits: Vec<String> = turbo.iter().map(u8::to_string).collect();
    let highest = turbo.first().unwrap_or(base);
    let mut text = format!(",vendor={vendor},ratios={least}:{base}:{highest},turbo={}", limits.join(":"));
    let dilated = |time: Nanos| (time.get() as f64 * stretched).round();
    if let Some(hwp) = hwp {
        let [window, period] = [hwp.window, hwp.period].map(dilated);
        text += &format!(",hwp={window}:{period}:{}:{}", hwp.setpoint.0, hwp.setpoint.1);
    }
    let watts = table.states.iter().map(|state| Some(format!("{}/{}", state.busy_watts?, state.idle_watts?)));
    if let Some(watts) = watts.collect::<Option<Vec<_>>>() {
        text += &format!(",watts={}", watts.join(":"));
    }
    if !table.idle.is_empty() {
        let state = |state: &IdleState| match state.watts {
            Some(watts) => format!("{}/{watts}", dilated(state.latency)),
            None => dilated(state.latency).to_string(),
        };
        let states: Vec<String> = table.idle.iter().map(state).collect();
        text += &format!(",idle={},idle_port={IDLE_PORT:#x}", states.join(":"));
        if vendor == "intel" {
            let c_states: Vec<String> =
                table.idle.iter().map(|state| c_state(&state.name).to_string()).collect();
            text += &format!(",cstates={}", c_states.join(":"));
        }
    }
    text
}

/// The C-state of Intel's processors that an idle state is by its name, as `intel_idle` names them: 6 for
/// `C6` and `C6P`. 0 where the name is no such one, or the number is ACPI's own (`C3_ACPI`).
fn c_state(name: &str) -> u8 {
    /// The deepest that has a residency counter.
    const DEEPEST: u8 = 10;
    let Some(rest) = name.strip_prefix('C').filter(|_| !name.contains("ACPI")) else { return 0 };
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok().filter(|number| *number <= DEEPEST).unwrap_or(0)
}

/// A path as a value of a QEMU option, in which a comma is written twice.
fn option_value(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// The plugin's file: `given` where there is one, else next to the program (whose path is `executable`), else
/// in the `lib/flyball` folder beside the program's own.
///
/// # Errors
/// [`Error::NoPlugin`] with all paths that were tried.
pub fn find_plugin(given: Option<&Path>, executable: &Path) -> Result<PathBuf, Error> {
    let folder = executable.parent().unwrap_or(Path::new("."));
    let candidates = match given {
        Some(path) => vec![path.to_owned()],
        None => vec![folder.join(PLUGIN), folder.join("../lib/flyball").join(PLUGIN)],
    };
    let tried = candidates.iter().map(|path| format!("`{}`", path.display())).collect::<Vec<_>>().join(", ");
    candidates.into_iter().find(|path| path.is_file()).ok_or(Error::NoPlugin { tried })
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::lab::GuestClock;
    use domain::units::Hertz;

    const TABLE: &str = "latency='10us'\ndomains='per-cpu'\npace=2e7\n[[state]]\nmhz=2000\nspeed=1.0\nbusy_watts=10\n\
        idle_watts=1\n[[state]]\nmhz=1000\nspeed=0.5\nbusy_watts=4\nidle_watts=0.5\n";

    const RECORD: &str = "flyball-pacing 2 pace=20000000 speeds=1:0.5
control ns=1000000000 value=1
count cpu=0 instructions=500 busy=40
control ns=4000000000 value=0
span began=1000000000 ended=4000000000
vcpu cpu=0 late=60000001 worst=7 at=8 changes=2 queued=5 written=1 rejected=0
state cpu=0 index=0 time=1000000000 busy=500000000 instructions=10 own_watts=0
state cpu=0 index=1 time=2000000000 busy=1000000000 instructions=20 own_watts=0
change cpu=0 ns=0 index=0
change cpu=0 ns=1000000000 index=1
end
count cpu=0 instructions=530 busy=1500000040
";

    fn table() -> PStateTable {
        crate::pstates::parse("test", TABLE).unwrap()
    }

    fn pacing(text: &str) -> Pacing {
        let record = parse(text).unwrap();
        record.last_span().unwrap().pacing(&table(), record.pace).unwrap()
    }

    #[test]
    fn a_finished_span_becomes_what_a_trial_keeps() {
        let pacing = pacing(RECORD);
        assert_eq!((pacing.pace, pacing.began, pacing.span), (2e7, None, Nanos::from_secs(3)));
        let cpu = &pacing.vcpus[0];
        assert_eq!(cpu.states[1].frequency, Hertz::from_mhz(1000));
        assert_eq!((cpu.states[1].busy, cpu.states[1].instructions), (Nanos::from_secs(1), 20));
        assert_eq!(
            cpu.transitions,
            [(Nanos::ZERO, Hertz::from_mhz(2000)), (Nanos::from_secs(1), Hertz::from_mhz(1000))]
        );
        // 0.5 s at 10 W and 0.5 s at 1 W, then 1 s at 4 W and 1 s at 0.5 W.
        assert_eq!(pacing.energy, Some(Microjoules::new(10_000_000)));
    }

    /// Kernel 6.1 with one CPU under schedutil, bursts of 60 ms, the table `laptop-5`: one span of a real
    /// record.
    #[test]
    fn a_real_record_adds_up_and_its_cpu_ran_at_the_speeds_of_the_table() {
        let record = parse(include_str!("../fixtures/schedutil-1cpu.pacing")).unwrap();
        let table = crate::pstates::load("laptop-5", Path::new("")).unwrap();
        let pacing = record.last_span().unwrap().pacing(&table, record.pace).unwrap();
        let cpu = &pacing.vcpus[0];
        assert_eq!(cpu.states.iter().fold(Nanos::ZERO, |sum, state| sum + state.time), pacing.span);
        assert_eq!(cpu.transitions.len() as u64, cpu.transitions_total);
        for state in cpu.states.iter().filter(|state| state.busy > Nanos::from_millis(100)) {
            let rate = state.instructions as f64 / state.busy.secs();
            let due = record.pace * state.frequency.mhz() / 2800.0;
            assert!((rate / due - 1.0).abs() < 0.01, "{}: {rate} of {due}", state.frequency);
        }
        assert_eq!(judge(&pacing), None);
    }

    #[test]
    fn the_counts_of_a_control_write_are_its_own() {
        let record = parse(RECORD).unwrap();
        let counts = |value| record.last_control(value).unwrap().counts.clone();
        assert_eq!(counts(1), [Count { instructions: 500, busy: Nanos::new(40) }]);
        assert_eq!(counts(0), [Count { instructions: 530, busy: Nanos::new(1_500_000_040) }]);
        assert_eq!(record.last_control(7), None);
    }

    #[test]
    fn whatever_has_been_written_so_far_can_be_read() {
        for end in 0..=RECORD.len() {
            let record = parse(&RECORD[..end]).unwrap();
            let finished = end >= RECORD.find("end\n").unwrap() + 4;
            assert_eq!(record.spans.len(), usize::from(finished), "{end} bytes");
        }
    }

    #[test]
    fn of_two_machines_the_last_counts() {
        let record = parse(&format!("{RECORD}flyball-pacing 2 pace=1000000 speeds=1\n")).unwrap();
        assert_eq!(record, Record { pace: 1e6, speeds: vec![1.0], ..Record::default() });
    }

    #[test]
    fn a_bad_line_is_named_by_its_number() {
        for (from, to, problem) in [
            (
                "cpu=0 index=1",
                "cpu=1 index=1",
                "line 8: a state or change of a CPU that was not named before",
            ),
            ("cpu=0 index=1", "cpu=0 index=2", "line 8: out of order"),
            ("late=60000001", "late=-1", "line 6: a field that is no number"),
            ("late=60000001 ", "", "line 6: a missing field"),
            ("span began", "spam began", "line 5: an unknown word"),
            ("value=1\n", "value=300\n", "line 2: a value above 255"),
            ("pacing 2", "pacing 1", "line 1: another version"),
            ("ended=", "ended", "line 5: a missing field"),
        ] {
            let error = parse(&RECORD.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(problem), "{from} -> {to}: {error}");
        }
    }

    #[test]
    fn a_record_of_another_table_is_refused() {
        for (from, to, problem) in [
            ("rejected=0", "rejected=3", "wrote 3 unknown states to CPU 0"),
            ("ns=0 index=0", "ns=0 index=9", "CPU 0 was in state 9"),
            (
                "state cpu=0 index=1 time=2000000000 busy=1000000000 instructions=20 own_watts=0\n",
                "",
                "has 1 states, the table 2",
            ),
        ] {
            let record = parse(&RECORD.replacen(from, to, 1)).unwrap();
            let error = record.spans[0].pacing(&table(), record.pace).unwrap_err().to_string();
            assert!(error.contains("`test`") && error.contains(problem), "{error}");
        }
    }

    #[test]
    fn a_cpu_that_never_wrote_its_state_is_told() {
        let record = parse(&RECORD.replace("written=1", "written=0")).unwrap();
        assert_eq!(record.spans[0].assumed().collect::<Vec<_>>(), [0]);
        assert_eq!(parse(RECORD).unwrap().spans[0].assumed().count(), 0);
    }

    #[test]
    fn a_cpu_that_ran_late_beyond_the_bound_disturbs_its_trial() {
        let disturbance = judge(&pacing(RECORD)).unwrap();
        assert_eq!(disturbance.kind, "late-vcpu");
        assert!(
            disturbance
                .detail
                .starts_with("virtual CPU 0 fell 60 ms behind its pace in 3.0 s (2.0%; the bound is 2%)")
        );
        assert_eq!(judge(&pacing(&RECORD.replace("60000001", "60000000"))), None, "at the bound");
        let nothing = Pacing { pace: 1.0, began: None, span: Nanos::ZERO, vcpus: Vec::new(), energy: None };
        assert_eq!(judge(&nothing), None);
    }

    #[test]
    fn the_argument_has_all_that_the_plugin_asks_for() {
        assert_eq!(
            plugin_argument(
                Path::new("/a,b/p.so"),
                &table(),
                GuestClock::Host.divide(1.0),
                Path::new("/tmp/r")
            ),
            "/a,,b/p.so,table=1:0.5,pace=20000000,port=0x9000,control=0x5be,domains=percpu,record=/tmp/r"
        );
        assert_eq!(
            plugin_argument(Path::new("/p.so"), &table(), GuestClock::Slowed.divide(16.0), Path::new("/r")),
            "/p.so,table=1:0.5,pace=320000000,port=0x9000,control=0x5be,domains=percpu,record=/r,slow=16"
        );
    }

    #[test]
    fn a_table_with_ratios_adds_these_watts_idle_states_and_stretched_times() {
        let load = |name| crate::pstates::load(name, Path::new("")).unwrap();
        let of_clock = |clock: GuestClock, table| {
            plugin_argument(Path::new("/p.so"), &load(table), clock.divide(20.0), Path::new("/r"))
        };
        let argument = |table| of_clock(GuestClock::Host, table);
        let slowed = of_clock(GuestClock::Slowed, "i7-6700k-hwp");
        assert!(slowed.contains(",hwp=4000000:1000000:") && slowed.contains(",idle=2000/1:"), "{slowed}");
        let hwp = argument("i7-6700k-hwp");
        assert!(
            hwp.contains(",vendor=intel,ratios=8:40:42,turbo=42:40,hwp=80000000:20000000:0.3:0.95,watts=17/1.5:16.3/1.48:"),
            "{hwp}"
        );
        assert!(
            hwp.contains("domains=shared")
                && hwp.ends_with(
                    "/0.84,idle=40000/1:1400000/0.5:1700000/0.2:4000000/0.1,idle_port=0x8f00,cstates=1:3:6:8"
                ),
            "{hwp}"
        );
        let without = argument("xeon-e5-2683v3-pstate");
        let expected = ",vendor=intel,ratios=12:20:30,turbo=30:30:28:27:26:25,watts=8/1:";
        assert!(without.contains(expected) && !without.contains("hwp="), "{without}");
        let amd = argument("zen3-server");
        assert!(
            amd.contains(",vendor=amd,ratios=15:28:37,turbo=37,hwp=80000000:20000000:0.3:0.95,"),
            "{amd}"
        );
        assert!(amd.contains(",idle=") && !amd.contains("cstates"), "{amd}");
        assert!(!argument("xeon-e5-2683v3-acpi").contains("ratios="));
    }

    #[test]
    fn an_idle_state_of_intels_is_counted_as_the_c_state_of_its_name() {
        let names = ["C1", "C1E", "C6P", "C8", "C10", "C11", "C2ACPI", "POLL", "C", "D3"];
        assert_eq!(names.map(c_state), [1, 1, 6, 8, 10, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn a_guest_is_of_the_tables_processor_and_is_told_of_no_hypervisor_where_registers_are_used() {
        let load = |name| crate::pstates::load(name, Path::new("")).unwrap();
        let of = |name| cpu_model(Some(&load(name)));
        assert_eq!([cpu_model(None), of("laptop-5")], [CPU_MODEL, CPU_MODEL]);
        let acpi = "max,vendor=GenuineIntel,family=6,model=63,stepping=2,-monitor,-erms,-fsrm";
        assert_eq!(of("xeon-e5-2683v3-acpi"), acpi);
        assert_eq!(of("xeon-e5-2683v3-pstate"), format!("{acpi},level=0x16,-hypervisor"));
        let amd = "max,vendor=AuthenticAMD,family=25,model=1,stepping=1,-monitor,-erms,-fsrm,-hypervisor";
        assert_eq!(of("zen3-server"), amd);
        let options = ["i7-6700k-hwp", "i7-6700k-pstate", "i7-6700k-acpi", "zen3-server"];
        let amd = "amd_pstate=passive amd_pstate=active";
        assert_eq!(
            options.map(|name| kernel_option(&load(name))),
            [None, Some("intel_pstate=active"), None, Some(amd)]
        );
    }

    const WITH_IDLE: &str = "driver='intel'\npace=2e7\n\
        processor = { vendor='intel', family=6, model=94, stepping=3 }\nratios = { min=10, base=10, turbo=11 }\n\
        [[idle]]\nname='C1'\nlatency='2us'\n[[idle]]\nname='C6'\nlatency='85us'\nwatts=0.25\n\
        [[point]]\nratio=10\nbusy_watts=4\nidle_watts=0.5\n[[point]]\nratio=11\nbusy_watts=10\nidle_watts=1\n";

    #[test]
    fn idle_states_have_their_time_and_those_with_watts_take_these() {
        let table = crate::pstates::parse("idle", WITH_IDLE).unwrap();
        let text = RECORD
            .replace("instructions=20 own_watts=0", "instructions=20 own_watts=800000000")
            .replacen("\nend\n", "\nidle cpu=0 index=0 entries=9 time=700000000\nidle cpu=0 index=1 entries=2 time=800000000\nend\n", 1);
        let record = parse(&text).unwrap();
        let pacing = record.spans[0].pacing(&table, record.pace).unwrap();
        let idle = |name: &str, entries, millis| IdleRecord {
            name: name.to_owned(),
            entries,
            time: Nanos::from_millis(millis),
        };
        assert_eq!(pacing.vcpus[0].idle, [idle("C1", 9, 700), idle("C6", 2, 800)]);
        // 0.5 s at 10 W and 0.5 s at 1 W, then 1 s at 4 W, 0.2 s at 0.5 W, and 0.8 s at 0.25 W.
        assert_eq!(pacing.energy, Some(Microjoules::new(9_800_000)));
        let error = parse(RECORD).unwrap().spans[0].pacing(&table, 2e7).unwrap_err().to_string();
        assert!(error.contains("CPU 0 has 0 idle states, the table 2"), "{error}");
    }

    #[test]
    fn requests_of_a_processor_are_read() {
        let text =
            RECORD.replacen("\nend\n", "\nrequest cpu=0 ns=5 register=1908 value=2147494408\nend\n", 1);
        let request = RegisterRequest { at: Nanos::new(5), register: 0x774, value: 0x8000_2a08 };
        assert_eq!(parse(&text).unwrap().spans[0].vcpus[0].requests, [request]);
        assert!(parse(RECORD).unwrap().spans[0].vcpus[0].requests.is_empty());
    }

    #[test]
    fn the_plugin_is_found_beside_the_program_or_where_it_is_said_to_be() {
        let folder = tempfile::tempdir().unwrap();
        let executable = folder.path().join("bin/flyball");
        std::fs::create_dir_all(folder.path().join("bin")).unwrap();
        std::fs::create_dir_all(folder.path().join("lib/flyball")).unwrap();
        let error = find_plugin(None, &executable).unwrap_err().to_string();
        assert!(error.contains("bin/libpstate_plugin.so`") && error.contains("lib/flyball/"), "{error}");
        let installed = folder.path().join("lib/flyball").join(PLUGIN);
        std::fs::write(&installed, "").unwrap();
        assert!(find_plugin(None, &executable).unwrap().ends_with("lib/flyball/libpstate_plugin.so"));
        std::fs::write(folder.path().join("bin").join(PLUGIN), "").unwrap();
        assert!(find_plugin(None, &executable).unwrap().ends_with("bin/libpstate_plugin.so"));
        assert!(find_plugin(Some(Path::new("/nonexistent/p.so")), &executable).is_err());
    }
}
