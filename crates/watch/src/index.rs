//! Where the columns of each CPU, disk, role and counter of energy stand in a trace's rows, by their names
//! (`domain::trace`).

use domain::trace::{Role, Series};
use std::collections::{BTreeMap, HashMap};

/// States of a CPU in `/proc/stat`, in the order of [`CpuColumns::states`].
const STATES: [&str; 8] = ["user", "nice", "system", "irq", "softirq", "iowait", "steal", "idle"];

/// Quantities of a disk, in the order of [`DiskColumns::of`].
const QUANTITIES: [&str; 8] =
    ["read_ios", "read_sectors", "read_ms", "write_ios", "write_sectors", "write_ms", "io_ms", "weighted_ms"];

/// What tasks wait for, in the order of [`Index::pressure`].
const RESOURCES: [&str; 3] = ["cpu", "io", "memory"];

/// Columns of a CPU, or of all.
#[derive(Clone, Debug, Default)]
pub struct CpuColumns {
    /// Its time in each of the states.
    pub states: [Option<usize>; STATES.len()],
    /// `aperf`, `mperf`, `tsc`.
    pub counters: [Option<usize>; 3],
    /// What it ran at when it was asked.
    pub khz: Option<usize>,
    /// Its time in each idle state, by the state's number.
    pub idle: BTreeMap<u32, usize>,
}

/// Columns of a block device.
#[derive(Clone, Debug, Default)]
pub struct DiskColumns {
    /// `vda`, `md127`.
    pub device: String,
    /// Each of the quantities.
    pub of: [Option<usize>; QUANTITIES.len()],
}

/// Where everything is.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// All CPUs together.
    pub machine: CpuColumns,
    /// Each CPU by its number.
    pub cpus: BTreeMap<u32, CpuColumns>,
    /// The time of each frequency policy at each frequency in kHz.
    pub policies: BTreeMap<u32, BTreeMap<u64, usize>>,
    /// Block devices, in the trace's order.
    pub disks: Vec<DiskColumns>,
    /// Time in which a task waited.
    pub pressure: [Option<usize>; RESOURCES.len()],
    /// CPU time of roles.
    pub roles: Vec<(Role, usize)>,
    /// Counters of energy by their domain or sensor.
    pub energy: Vec<(String, usize)>,
    /// Power by its sensor or battery.
    pub power: Vec<(String, usize)>,
}

impl Index {
    /// Of these columns.
    pub fn of(series: &[Series]) -> Self {
        let mut index = Self::default();
        let mut disks = HashMap::new();
        for (column, series) in series.iter().enumerate() {
            let Some((object, quantity)) = series.name.rsplit_once('.') else { continue };
            if let Some(device) = object.strip_prefix("disk.") {
                let number = *disks.entry(device.to_owned()).or_insert_with(|| {
                    index.disks.push(DiskColumns { device: device.to_owned(), ..DiskColumns::default() });
                    index.disks.len() - 1
                });
                place(&QUANTITIES, quantity, column, &mut index.disks[number].of);
            } else {
                index.take(object, quantity, column);
            }
        }
        index
    }

    fn take(&mut self, object: &str, quantity: &str, column: usize) {
        let cpu = |text: &str| text.strip_prefix("cpu")?.parse::<u32>().ok();
        let (kind, rest) = object.split_once('.').unwrap_or((object, ""));
        match kind {
            "cpu" => place(&STATES, quantity, column, &mut self.machine.states),
            "freq" => match (cpu(rest), rest.strip_suffix(".time").and_then(|p| p.strip_prefix("policy"))) {
                (Some(cpu), _) => self.cpus.entry(cpu).or_default().take_frequency(quantity, column),
                (None, Some(policy)) => {
                    if let (Ok(policy), Ok(khz)) = (policy.parse(), quantity.parse()) {
                        self.policies.entry(policy).or_default().insert(khz, column);
                    }
                }
                (None, None) => {}
            },
            "idle" if quantity == "us" => {
                let named =
                    rest.split_once(".state").and_then(|(c, state)| Some((cpu(c)?, state.parse().ok()?)));
                if let Some((cpu, state)) = named {
                    self.cpus.entry(cpu).or_default().idle.insert(state, column);
                }
            }
            "psi" if quantity == "some_us" => place(&RESOURCES, rest, column, &mut self.pressure),
            "role" => self.roles.extend(Role::from_name(rest).map(|role| (role, column))),
            "rapl" | "hwmon" if quantity == "uj" => self.energy.push((rest.to_owned(), column)),
            "hwmon" | "battery" => self.power.push((rest.to_owned(), column)),
            other => {
                if let Some(cpu) = cpu(other) {
                    place(&STATES, quantity, column, &mut self.cpus.entry(cpu).or_default().states);
                }
            }
        }
    }
}

impl CpuColumns {
    fn take_frequency(&mut self, quantity: &str, column: usize) {
        match quantity {
            "khz" => self.khz = Some(column),
            counter => place(&["aperf", "mperf", "tsc"], counter, column, &mut self.counters),
        }
    }
}

fn place(names: &[&str], name: &str, column: usize, into: &mut [Option<usize>]) {
    if let Some(at) = names.iter().position(|known| *known == name) {
        into[at] = Some(column);
    }
}
