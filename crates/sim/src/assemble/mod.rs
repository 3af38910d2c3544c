//! From a study's cell and a machine file to a machine that can run.

mod files;
mod found;
mod governing;
mod storage;

pub use storage::{LoadTarget, TargetKind};

use crate::block::Scheduler;
use crate::cpu::{Cpus, CpusSpec, PolicySpec, PowerModel, PowerState, Upkeep};
use crate::engine::Core;
use crate::engine::World;
use crate::load::Trace;
use crate::machine::MachineSpec;
use disks::{DiskSet, DiskSpec, LinkSpec};
use domain::Study;
use domain::bench::BenchError;
use domain::inventory::Inventory;
use domain::plan::Cell;
use domain::rng::Seed;
use domain::setting::{SettingRecord, SettingRequest};
use domain::time::Nanos;
use governing::{Governing, in_order};
use storage::Built;

/// Where models of disks and links are found by name.
pub trait Models {
    /// A disk's.
    ///
    /// # Errors
    /// Why there is none: a sentence that names it.
    fn disk(&self, name: &str) -> Result<DiskSpec, String>;
    /// A link's.
    ///
    /// # Errors
    /// Why there is none: a sentence that names it.
    fn link(&self, name: &str) -> Result<LinkSpec, String>;
    /// A recorded trace of requests.
    ///
    /// # Errors
    /// Why there is none: a sentence that names it.
    fn trace(&self, file: &str) -> Result<Trace, String>;
}

/// What is to be simulated.
#[derive(Clone, Copy)]
pub struct SimRequest<'a> {
    /// On which machine.
    pub machine: &'a MachineSpec,
    /// Where its disks are found.
    pub models: &'a dyn Models,
    /// Of which study.
    pub study: &'a Study,
    /// Which cell.
    pub cell: &'a Cell,
    /// For all that is random.
    pub seed: Seed,
}

/// A machine with its storage built and its settings made; no load yet.
pub struct Assembled {
    /// The machine.
    pub world: World,
    /// What the load works on.
    pub target: LoadTarget,
    /// What was set.
    pub settings: Vec<SettingRecord>,
    /// The machine as `flyball inspect` would see it now.
    pub inventory: Inventory,
    /// The block device below the load's target, by its name.
    pub device: Option<String>,
}

/// Whether a load on a device goes through the page cache. A file always has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caching {
    /// It does.
    Buffered,
    /// It asks past it.
    Direct,
}

/// Settings of block devices and arrays that the models know.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BlockSettings {
    pub(crate) scheduler: Option<Scheduler>,
    pub(crate) read_ahead: Option<u64>,
    pub(crate) most_bytes: Option<u64>,
    pub(crate) stripe_cache_size: Option<u32>,
    pub(crate) group_thread_cnt: Option<u32>,
    /// `vm.dirty_ratio` and `vm.dirty_background_ratio`, in percent.
    pub(crate) dirty: [Option<u32>; 2],
    /// `vm.dirty_expire_centisecs` and `vm.dirty_writeback_centisecs`.
    pub(crate) centisecs: [Option<u32>; 2],
}

/// Puts a machine together, with the page cache before a device where `caching` says so.
///
/// # Errors
/// [`BenchError::Unsupported`] where the machine lacks what the cell wants, or no model knows it.
pub fn assemble(order: &SimRequest<'_>, caching: Caching) -> Result<Assembled, BenchError> {
    let machine = order.machine;
    let mut governing = Governing::of(machine);
    let mut block = BlockSettings::default();
    let mut settings = Vec::new();
    for request in in_order(&order.cell.settings) {
        let (before, got) = match set_block(&mut block, request)? {
            true => (String::new(), request.value.clone()),
            false => governing.set(request)?,
        };
        settings.push(SettingRecord {
            setting: request.setting.clone(),
            path: format!("simulation/{}/{}", machine.name, request.setting),
            before,
            asked: request.value.clone(),
            after: Some(got.clone()),
            got,
        });
    }
    let policies = governing.policies()?;
    let mut inventory = machine.inventory();
    governing.show_in(&mut inventory, &policies);
    let cpus = Cpus::new(cpus_spec(machine, &governing, policies)?);
    let mut world = World::new(Core::new(cpus, DiskSet::new(order.seed), order.seed));
    world.core.disk_step = machine.costs.once("disk_step");
    let Built { world, target, devices, mounts, device } = storage::build(order, world, &block, caching)?;
    (inventory.devices, inventory.mounts) = (devices, mounts);
    Ok(Assembled { world, target, settings, inventory, device })
}

/// The CPUs of a machine alone, with settings of frequency policy and idle states made.
///
/// # Errors
/// [`BenchError::Unsupported`] where the machine lacks what a setting wants, or no model knows it.
pub fn cpus(machine: &MachineSpec, settings: &[SettingRequest]) -> Result<Cpus, BenchError> {
    let mut governing = Governing::of(machine);
    for request in in_order(settings) {
        governing.set(request)?;
    }
    let policies = governing.policies()?;
    Ok(Cpus::new(cpus_spec(machine, &governing, policies)?))
}

fn cpus_spec(
    machine: &MachineSpec,
    governing: &Governing<'_>,
    policies: Vec<PolicySpec>,
) -> Result<CpusSpec, BenchError> {
    Ok(CpusSpec {
        idle: governing.idle()?,
        policies,
        tick: Nanos::new((1e9 / (machine.hz as f64 * machine.dilation)) as u64),
        switch: machine.costs.once("switch"),
        upkeep: Upkeep {
            tick: machine.costs.once("tick"),
            sample: machine.costs.once("governor_sample"),
            rcu: machine.costs.once("rcu"),
            idle_exit: machine.costs.once("idle_exit"),
        },
        power: power(machine),
        kernel: machine.kernel,
        base_khz: machine.cpu.base.khz(),
        slice_dilation: machine.slice_dilation,
    })
}

fn power(machine: &MachineSpec) -> PowerModel {
    let state = |state: &crate::machine::PState| {
        let (busy_watts, idle_watts) = (state.busy_watts?, state.idle_watts?);
        Some(PowerState { khz: state.frequency.khz(), busy_watts, idle_watts })
    };
    let states: Option<Vec<PowerState>> = machine.cpu.states.iter().map(state).collect();
    PowerModel::new(states.unwrap_or_default())
}

/// Whether it was a setting of storage or memory.
fn set_block(block: &mut BlockSettings, request: &SettingRequest) -> Result<bool, BenchError> {
    let value = request.value.as_str();
    match request.setting.name.as_str() {
        "scheduler" => {
            block.scheduler = Some(match value {
                "none" => Scheduler::None,
                "mq-deadline" => Scheduler::MqDeadline,
                _ => return Err(refused(request, "the schedulers `none` and `mq-deadline` are modelled")),
            });
        }
        "read_ahead_kb" => block.read_ahead = Some(number::<u64>(request)? << 10),
        "max_sectors_kb" => block.most_bytes = Some(number::<u64>(request)?.max(4) << 10),
        "stripe_cache_size" => block.stripe_cache_size = Some(number(request)?),
        "group_thread_cnt" => block.group_thread_cnt = Some(number(request)?),
        "vm.dirty_ratio" => block.dirty[0] = Some(number(request)?),
        "vm.dirty_background_ratio" => block.dirty[1] = Some(number(request)?),
        "vm.dirty_expire_centisecs" => block.centisecs[0] = Some(number(request)?),
        "vm.dirty_writeback_centisecs" => block.centisecs[1] = Some(number(request)?),
        _ => return Ok(false),
    }
    Ok(true)
}

/// A setting's value as a number.
fn number<T: std::str::FromStr>(request: &SettingRequest) -> Result<T, BenchError> {
    request.value.trim().parse().map_err(|_| refused(request, "it must be a whole number"))
}

/// A setting that a simulated machine does not have, or not with this value.
fn refused(request: &SettingRequest, why: &str) -> BenchError {
    BenchError::Unsupported(format!("`{request}` cannot be set in the simulation: {why}"))
}
