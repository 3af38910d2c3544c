//! `[beside.NAME]`: a load that runs beside the workload.

use super::check::{applies, below, factor_node, has_its_placeholders, has_its_target};
use super::node::{Node, Section, listed, nearest};
use super::workload;
use domain::Study;
use domain::study::Companion;
use domain::time::Nanos;
use std::ops::RangeInclusive;
use workloads::Needs;

/// A program of a server's size has begun its work by then.
const LEAD: Nanos = Nanos::from_secs(1);

/// What takes more than an hour to begin is a mistake.
const LEADS: RangeInclusive<Nanos> = Nanos::ZERO..=Nanos::from_secs(3600);

pub(super) fn read(node: &Node) -> Option<Companion> {
    let section = node.section()?;
    if let Some(metric) = section.get("metric") {
        metric.refuse_key("belongs to workloads: no metric is taken of a load beside one; take it out");
    }
    let lead = section.get("lead").map_or(Some(LEAD), |node| node.span(LEADS));
    let mut load = workload::read_with(node, &["lead"])?;
    match workloads::of(&load.tool).without_end(&mut load.options) {
        Some(Ok(())) => {}
        Some(Err(error)) => {
            below(node.clone(), &["options", &error.option]).refuse_key(error.problem);
            return None;
        }
        None => {
            let tool = load.tool.name();
            below(node.clone(), &["tool"]).refuse(format!(
                "{tool} ends by itself, and a load beside a workload runs until the workload has ended; write `fio` or `command`"
            ));
            return None;
        }
    }
    Some(Companion { load, lead: lead? })
}

fn node_of<'a>(root: &Section<'a>, name: &str) -> Node<'a> {
    let all = root.get("beside").and_then(|node| node.section());
    all.and_then(|section| section.get(name)).expect("a companion that was read stands in the file")
}

/// Notes what companions lack in the study. Which part of it was read: its target and stack, its factors.
pub(super) fn check(study: &Study, has_place: bool, has_factors: bool, root: &Section) {
    for Companion { load, .. } in &study.beside {
        let node = node_of(root, &load.name);
        let is_of_the_cpu = workloads::of(&load.tool).is_of_the_cpu(&load.options);
        if has_place && !is_of_the_cpu {
            has_its_target(study, load, &node);
        }
        if has_place && has_factors {
            let factors = study.factors.iter().filter(|f| study.workloads.iter().all(|w| applies(f, w)));
            has_its_placeholders(study, load, factors, &node);
        }
    }
    let watched = study.workloads.iter().find(|w| workloads::of(&w.tool).needs() == Needs::RunningLoad);
    if let (Some(workload), Some(companion)) = (watched, study.beside.first()) {
        node_of(root, &companion.load.name).refuse_key(format!(
            "would be started beside the workload `{}`, which runs already and is only watched; take one of them out",
            workload.name
        ));
    }
    levels_name_companions(study, root);
}

fn levels_name_companions(study: &Study, root: &Section) {
    let all = root.get("beside").and_then(|node| node.section_if_any());
    let known: Vec<&str> = all.iter().flat_map(Section::entries).map(|node| node.key).collect();
    for factor in &study.factors {
        let node = factor_node(root, &factor.name);
        let bundles = below(node.clone(), &["level"]).items_if_any();
        for (index, level) in factor.levels.iter().enumerate() {
            for name in level.beside.keys().filter(|name| !known.contains(&name.as_str())) {
                let place = match bundles.get(index) {
                    Some(bundle) => below(bundle.clone(), &["beside", name]),
                    // All levels share it.
                    None if index > 0 => continue,
                    None => below(node.clone(), &["beside"]),
                };
                let help = match nearest(name, known.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if known.is_empty() => format!("add `[beside.{name}]`"),
                    None => format!("there are {}", listed(&known)),
                };
                place.refuse(format!("there is no load `{name}` beside the workloads; {help}"));
            }
        }
    }
}
