//! The layers of storage that did something, from the top of a stack down to its disks, and how much of what
//! is written in one becomes below it.

use crate::figures::DiskNow;
use crate::state::State;
use domain::inventory::Inventory;
use std::collections::{BTreeMap, BTreeSet};

/// A bound on how deep a stack is, so that a machine that says it is built on itself is shown too.
const DEEPEST: usize = 8;

/// One layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer<'a> {
    /// What it does.
    pub disk: &'a DiskNow,
    /// How many layers stand on it.
    pub depth: usize,
    /// Bytes written to the devices directly below it for each byte written to it; `None` where there are
    /// none, or nothing was written. What others write to these devices counts too.
    pub write_amplification: Option<f64>,
}

/// Those that have done anything since the first row: each below what stands on it, and once.
pub fn layers(state: &State) -> Vec<Layer<'_>> {
    let disks: BTreeMap<&str, &DiskNow> =
        state.figures().disks.iter().map(|disk| (disk.device.as_str(), disk)).collect();
    let active = || state.figures().disks.iter().filter(|disk| state.was_active(&disk.device));
    let Some(inventory) = state.inventory() else {
        return active().map(|disk| Layer { disk, depth: 0, write_amplification: None }).collect();
    };
    let mut tree = Tree { state, inventory, disks, shown: BTreeSet::new(), layers: Vec::new() };
    let is_top =
        |disk: &&DiskNow| !inventory.built_on(&disk.device).any(|above| state.was_active(&above.name));
    active().filter(is_top).for_each(|disk| tree.add(&disk.device, 0));
    // Those that a circle hides.
    active().for_each(|disk| tree.add(&disk.device, 0));
    tree.layers
}

struct Tree<'a> {
    state: &'a State,
    inventory: &'a Inventory,
    disks: BTreeMap<&'a str, &'a DiskNow>,
    shown: BTreeSet<&'a str>,
    layers: Vec<Layer<'a>>,
}

impl<'a> Tree<'a> {
    fn add(&mut self, device: &str, depth: usize) {
        let Some((name, disk)) = self.disks.get_key_value(device).map(|(name, disk)| (*name, *disk)) else {
            return;
        };
        if depth > DEEPEST || !self.state.was_active(name) || !self.shown.insert(name) {
            return;
        }
        let inventory = self.inventory;
        let below = inventory.device(name).map_or(&[][..], |device| &device.built_of);
        let written = |name: &String| self.disks.get(name.as_str()).map(|disk| disk.write.bytes);
        let sum: Option<f64> = below.iter().map(written).sum();
        let write_amplification =
            sum.filter(|_| !below.is_empty() && disk.write.bytes > 0.0).map(|sum| sum / disk.write.bytes);
        self.layers.push(Layer { disk, depth, write_amplification });
        for device in below {
            self.add(device, depth + 1);
        }
    }
}
