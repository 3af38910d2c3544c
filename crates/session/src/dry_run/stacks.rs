//! The stacks of a plan: what would be run to build each, for `--dry-run`.

use domain::ids::CellId;
use domain::inert::Lines;
use domain::plan::Plan;
use domain::stack::Stack;
use machine::stack::{Argv, planned};
use runner::Devices;
use serde_json::{Value, json};

/// A stack, and the cells that stand on it.
pub(super) struct PlannedStack<'a> {
    stack: &'a Stack,
    cells: Vec<&'a CellId>,
    commands: Vec<Argv>,
}

/// Each stack of a plan once, in the order of the cells.
pub(super) fn of(plan: &Plan, devices: Devices) -> Vec<PlannedStack<'_>> {
    let mut all: Vec<PlannedStack<'_>> = Vec::new();
    for cell in &plan.cells {
        let Some(stack) = &cell.stack else { continue };
        match all.iter_mut().find(|known| known.stack == stack) {
            Some(known) => known.cells.push(&cell.id),
            None => {
                let commands = planned(stack, devices == Devices::OfTheGuest);
                all.push(PlannedStack { stack, cells: vec![&cell.id], commands });
            }
        }
    }
    all
}

/// Adds them to a plan in words.
pub(super) fn describe(text: &mut Lines, stacks: &[PlannedStack<'_>]) {
    for (index, PlannedStack { stack, cells, commands }) in stacks.iter().enumerate() {
        text.blank();
        text.line(format_args!("stack {}: {stack}", index + 1));
        for argv in commands {
            text.line(format_args!("  build  {}", argv.join(" ")));
        }
        let cells: Vec<&str> = cells.iter().map(|cell| cell.as_str()).collect();
        text.line(format_args!("  for    {}", cells.join(", ")));
    }
    if !stacks.is_empty() {
        text.blank();
        text.line(
            "Between cells only what differs is built anew; at the end all of it is taken down, in reverse.",
        );
    }
    if stacks.iter().any(|planned| planned.stack.resyncs_in_background()) {
        text.line("An array that is synchronised beside the workload is made anew for each trial.");
    }
}

/// The same as JSON.
pub(super) fn as_json(stacks: &[PlannedStack<'_>]) -> Vec<Value> {
    let one = |planned: &PlannedStack<'_>| {
        json!({
            "stack": planned.stack.to_string(),
            "cells": planned.cells.iter().map(|cell| cell.as_str()).collect::<Vec<_>>(),
            "commands": planned.commands,
        })
    };
    stacks.iter().map(one).collect()
}
