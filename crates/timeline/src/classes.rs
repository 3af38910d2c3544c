//! What a span may be of: its colour, and what it is summed up as.

use domain::trace::Role;
use events::Op;
use events::facts::Wait;

/// A kind of spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Class {
    /// As it is shown.
    pub name: &'static str,
    /// Its colour on a light ground, `#rrggbb`.
    light: &'static str,
    /// The same on a dark one.
    dark: &'static str,
    /// Whether text on it is as that on the ground.
    bright: bool,
}

const fn class(name: &'static str, light: &'static str, dark: &'static str, bright: bool) -> Class {
    Class { name, light, dark, bright }
}

/// How many idle states have a colour of their own; those behind share the last.
const IDLE_STATES: u8 = 6;

/// The parts of a request's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// In the queue of its device.
    Queue,
    /// With the driver and the device.
    Service,
    /// All of it, of a layer of bios.
    Whole,
}

/// All classes. The number of one is its place here.
pub(crate) const ALL: [Class; 45] = [
    // Roles, in the order of `Role::ALL`.
    class("workload", "#2f6fde", "#3f7ae0", false),
    class("md", "#c8385a", "#d2496a", false),
    class("dm-crypt", "#8541b0", "#9a58c4", false),
    class("journal", "#a8790b", "#b0851f", false),
    class("writeback", "#1f8a7d", "#2a9588", false),
    class("loop device", "#5d6b7a", "#6d7c8b", false),
    class("block layer", "#3c7395", "#4a82a5", false),
    class("kworker", "#6c7d2f", "#7b8c3f", false),
    class("interrupt thread", "#d05f3c", "#d66c4b", false),
    class("kernel", "#7c8794", "#7f8a97", false),
    class("Flyball", "#9a9fa6", "#8a8f96", false),
    class("other", "#96796a", "#9d8173", false),
    class("beside", "#b8860b", "#c2952a", false),
    // A thread that does not run.
    class("ready", "#f2a83b", "#b97a1c", true),
    class("waits for I/O", "#a9c6f5", "#2c4468", true),
    class("waits for a lock", "#f0a8a8", "#6b3434", true),
    class("waits for a timer", "#dde3ea", "#343b44", true),
    class("waits for a thread", "#d5c8ec", "#463a5e", true),
    class("waits for an interrupt", "#f3cdbd", "#5f4236", true),
    class("waits, by whom it is woken is not known", "#e6e6e6", "#3a3a3a", true),
    // Requests, by operation: queue, service, whole.
    class("read: queue", "#b4cff7", "#31507f", true),
    class("read: service", "#2f6fde", "#3f7ae0", false),
    class("read", "#5b8ee6", "#5586d6", false),
    class("write: queue", "#f3c39b", "#7a5230", true),
    class("write: service", "#cf6a14", "#c9701f", false),
    class("write", "#de8c48", "#c28044", false),
    class("discard: queue", "#d6cbb8", "#544a39", true),
    class("discard: service", "#8a7448", "#93804f", false),
    class("discard", "#a5936e", "#9c8c68", false),
    class("flush: queue", "#e8b9d0", "#6b3f56", true),
    class("flush: service", "#b03575", "#bb4a85", false),
    class("flush", "#c4689a", "#b9648f", false),
    class("other request: queue", "#d9d9d9", "#444444", true),
    class("other request: service", "#777777", "#888888", false),
    class("other request", "#999999", "#777777", false),
    // Idle states, the deeper the paler.
    class("idle state 0", "#7fb07f", "#5c8a5c", false),
    class("idle state 1", "#95bf95", "#4e774e", true),
    class("idle state 2", "#abcdab", "#416441", true),
    class("idle state 3", "#c0dbc0", "#355235", true),
    class("idle state 4", "#d2e6d2", "#2c442c", true),
    class("idle state 5 or deeper", "#e2f0e2", "#243824", true),
    class("interrupt", "#d05f3c", "#d66c4b", false),
    class("softirq", "#e59a62", "#b8733f", true),
    class("events were lost", "#d1242f", "#e5484d", false),
    class("from mark to mark", "#c9d3df", "#3b4654", true),
];

const ROLES: u8 = Role::ALL.len() as u8;
const READY: u8 = ROLES;
const WAITS: u8 = READY + 1;
const REQUESTS: u8 = WAITS + Wait::ALL.len() as u8;
const IDLE: u8 = REQUESTS + 3 * Op::ALL.len() as u8;
/// In the handler of an interrupt.
pub(crate) const IRQ: u8 = IDLE + IDLE_STATES;
/// In a softirq.
pub(crate) const SOFTIRQ: u8 = IRQ + 1;
/// Where events are missing.
pub(crate) const LOST: u8 = SOFTIRQ + 1;
/// From one mark of somebody's to the next.
pub(crate) const PHASE: u8 = LOST + 1;

/// A thread that has a CPU.
pub(crate) fn of_role(role: Role) -> u8 {
    role as u8
}

/// A thread that could run.
pub(crate) const fn ready() -> u8 {
    READY
}

/// A thread that waits.
pub(crate) fn of_wait(wait: Wait) -> u8 {
    WAITS + wait as u8
}

/// A part of a request's way.
pub(crate) fn of_request(op: Op, part: Part) -> u8 {
    REQUESTS + 3 * op as u8 + part as u8
}

/// An idle state.
pub(crate) fn of_idle(state: u32) -> u8 {
    IDLE + u8::try_from(state).unwrap_or(u8::MAX).min(IDLE_STATES - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_number_is_of_the_class_that_is_meant() {
        let name = |number: u8| ALL[usize::from(number)].name;
        assert_eq!(name(of_role(Role::Workload)), "workload");
        assert_eq!(name(of_role(Role::Other)), "other");
        assert_eq!(name(ready()), "ready");
        assert_eq!(name(of_wait(Wait::Io)), "waits for I/O");
        assert_eq!(name(of_wait(Wait::Unknown)), "waits, by whom it is woken is not known");
        assert_eq!(name(of_request(Op::Read, Part::Queue)), "read: queue");
        assert_eq!(name(of_request(Op::Flush, Part::Service)), "flush: service");
        assert_eq!(name(of_request(Op::Other, Part::Whole)), "other request");
        assert_eq!([0, 5, 400].map(|state| name(of_idle(state))), {
            ["idle state 0", "idle state 5 or deeper", "idle state 5 or deeper"]
        });
        assert_eq!(
            [IRQ, SOFTIRQ, LOST, PHASE].map(name),
            ["interrupt", "softirq", "events were lost", "from mark to mark"]
        );
    }

    #[test]
    fn roles_are_in_their_own_order_and_no_name_is_twice() {
        for (place, role) in Role::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(of_role(role)), place);
        }
        assert_eq!(ALL.iter().map(|class| class.name).collect::<BTreeSet<_>>().len(), ALL.len());
        for class in ALL {
            for colour in [class.light, class.dark] {
                assert!(colour.len() == 7 && u32::from_str_radix(&colour[1..], 16).is_ok(), "{colour}");
            }
        }
    }
}
