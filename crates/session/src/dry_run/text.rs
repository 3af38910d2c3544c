//! A plan in words and as JSON.

use super::{CellPlan, DryRun, Planned, SettingWrite, stacks};
use crate::availability::unavailable_in_words;
use domain::Nanos;
use domain::ids::CellId;
use domain::inert::{Lines, prose};
use domain::plan::{Cell, Plan};
use domain::study::Measure;
use runner::Devices;
use runner::beside::BesideCommand;
use serde_json::{Value, json};
use std::fmt::Display;
use workloads::Needs;

/// The version of the JSON form of a plan.
const SCHEMA: u32 = 1;

/// What a trial takes besides its workload's own time: settling, starting, writing. As seen on a small
/// server.
const OVERHEAD: Nanos = Nanos::from_millis(500);

/// The least and the most time, of the cells that can be run here and of the trials whose time is known, and
/// how many cells' is not.
fn expected(plan: &Plan, cells: &[CellPlan]) -> (Nanos, Nanos, usize) {
    let run = || cells.iter().filter(|cell| cell.against().is_empty());
    let known: u64 = run().map(|c| c.takes.unwrap_or_default().get() + OVERHEAD.get()).sum();
    let measure = &plan.study.measure;
    let traced = u32::from(measure.traced_block().is_some());
    let times = |repeats: u32| Nanos::new(known.saturating_mul(u64::from(repeats + traced)));
    let unknown = run().filter(|c| c.takes.is_none()).count();
    (times(measure.repeats_min), times(measure.repeats_max), unknown)
}

impl DryRun {
    /// The plan in words.
    pub fn as_text(&self) -> Lines {
        as_text(&self.plan, &self.cells, &self.target)
    }

    /// The same as JSON, with a schema version.
    pub fn as_json(&self) -> String {
        as_json(&self.plan, &self.cells, &self.target)
    }
}

fn as_text(plan: &Plan, cells: &[CellPlan], target: &Planned) -> Lines {
    let mut text = Lines::default();
    let measure = &plan.study.measure;
    let (least, most, unknown) = expected(plan, cells);
    text.line(prose(&plan.study.question));
    text.blank();
    text.line(format_args!("seed {}", plan.seed));
    text.line(format_args!("{} cells, each {}", cells.len(), times(measure)));
    if cells.iter().any(|cell| cell.against().is_empty()) {
        let unknown = match unknown {
            0 => String::new(),
            n => format!(", plus the workloads of {n} cells, which state none"),
        };
        text.line(format_args!("expected time {}{unknown}", range(least, most)));
    }
    let why: Vec<String> = cells.iter().map(|does| does.against().join("; and ")).collect();
    let cannot: Vec<(&CellId, &str)> =
        plan.cells.iter().map(|cell| &cell.id).zip(why.iter().map(String::as_str)).collect();
    let cannot: Vec<(&CellId, &str)> = cannot.into_iter().filter(|(_, why)| !why.is_empty()).collect();
    text.extend(unavailable_in_words(cells.len(), &cannot));
    if let Some(told) = &target.told {
        text.line(told);
    }
    for used in &target.uses {
        text.line(format_args!("  {used}"));
    }
    let asks = |cell: &Cell| workloads::of(&cell.workload.tool).needs() == Needs::Server;
    let makes_one = target.server.is_none();
    if makes_one && plan.cells.iter().zip(cells).any(|(cell, does)| asks(cell) && does.against().is_empty()) {
        text.line("makes a database server of its own, fills it, and removes it at the end");
    }
    if plan.needs_root() && !rustix::process::geteuid().is_root() {
        text.line("needs root, which you are not");
    }
    stacks::describe(&mut text, &stacks::of(plan, Devices::Refused));
    for (cell, does) in plan.cells.iter().zip(cells) {
        text.blank();
        text.line(&cell.id);
        for reason in does.against() {
            text.line(format_args!("  not possible: {reason}"));
        }
        for w in does.writes.iter().flatten() {
            text.line(format_args!("  {}  {} = {}{}  {}", act(w), w.setting, w.new, was(w), w.path));
        }
        if let Ok(beside) = &does.beside {
            describe_beside(&mut text, beside);
        }
        if let Ok(argv) = &does.command {
            text.line(format_args!("  run    {}", argv.join(" ")));
        }
    }
    text.blank();
    text.line("the first block runs in this order:");
    for index in plan.block_order(0) {
        text.line(format_args!("  {}", plan.cells[index].id));
    }
    text
}

/// `6 to 12 times`, and whether once more for events.
pub(super) fn times(measure: &Measure) -> String {
    let once_more = measure.traced_block().map_or("", |_| ", and once more to record events");
    format!("{} times{once_more}", range(measure.repeats_min, measure.repeats_max))
}

/// What is started before the workload, and ended after it.
pub(super) fn describe_beside(text: &mut Lines, beside: &[BesideCommand]) {
    for BesideCommand { name, argv, lead, .. } in beside {
        text.line(format_args!("  beside {}  ({name}, started {lead} before)", argv.join(" ")));
    }
}

/// `6 to 12`, or just `6`.
fn range<T: PartialEq + Display>(least: T, most: T) -> String {
    if least == most { least.to_string() } else { format!("{least} to {most}") }
}

/// What becomes of a setting, in as many letters.
fn act(write: &SettingWrite) -> &'static str {
    if machine::settings::is_held(&write.path) { "hold " } else { "write" }
}

fn was(write: &SettingWrite) -> String {
    write.now.as_ref().map_or(String::new(), |now| format!(" (now {now})"))
}

fn as_json(plan: &Plan, cells: &[CellPlan], target: &Planned) -> String {
    let (least, most, unknown) = expected(plan, cells);
    let write = |write: &Result<SettingWrite, String>| match write {
        Ok(w) => json!({ "setting": w.setting, "path": w.path, "now": w.now, "new": w.new }),
        Err(reason) => json!({ "error": reason }),
    };
    let beside = |load: &BesideCommand| json!({ "name": load.name, "command": load.argv, "lead_seconds": load.lead.secs() });
    let cell = |(cell, does): (&Cell, &CellPlan)| {
        let mut value = json!({
            "cell": cell.id.as_str(),
            "levels": cell.levels,
            "not_possible": does.against(),
            "writes": does.writes.iter().map(write).collect::<Vec<Value>>(),
            "command": does.command.as_ref().ok(),
            "error": does.command.as_ref().err(),
        });
        if let Some(loads) = does.beside.as_ref().ok().filter(|loads| !loads.is_empty()) {
            value["beside"] = loads.iter().map(beside).collect();
        }
        value
    };
    let order =
        |block: u32| plan.block_order(block).into_iter().map(|i| plan.cells[i].id.as_str().to_owned());
    let value = json!({
        "schema": SCHEMA,
        "study": plan.study.name,
        "question": plan.study.question,
        "seed": plan.seed.0,
        "repeats": [plan.study.measure.repeats_min, plan.study.measure.repeats_max],
        "expected_seconds": [least.secs(), most.secs()],
        "cells_of_unknown_time": unknown,
        "target": target.as_json(),
        "stacks": stacks::as_json(&stacks::of(plan, Devices::Refused)),
        "cells": plan.cells.iter().zip(cells).map(cell).collect::<Vec<Value>>(),
        "first_block": order(0).collect::<Vec<String>>(),
    });
    format!("{value:#}")
}
