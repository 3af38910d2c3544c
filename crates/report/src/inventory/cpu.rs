//! Processors.

use super::Style;
use super::page::{Page, count};
use domain::inventory::{CoreType, CpuModel, Cpus};
use domain::units::Hertz;

pub(super) fn show(cpus: &Cpus, style: Style, page: &mut Page) {
    page.section("CPU");
    page.line(cpus.model.name.as_deref().unwrap_or("a processor that does not say its model"));
    page.parts(signature(&cpus.model));
    page.line(topology(cpus));
    for kind in &cpus.core_types {
        page.line(core_type(kind));
    }
    if cpus.core_types.is_empty() {
        page.parts([frequencies(cpus.base, cpus.max)]);
    }
    if style == Style::Full && cpus.nodes.len() > 1 {
        for node in &cpus.nodes {
            page.line(format!("node {}: CPUs {}", node.id, node.cpus));
        }
    }
}

fn signature(model: &CpuModel) -> [Option<String>; 5] {
    [
        model.vendor.clone(),
        model.family.map(|n| format!("family {n}")),
        model.model.map(|n| format!("model {n}")),
        model.stepping.map(|n| format!("stepping {n}")),
        model.microcode.as_ref().map(|revision| format!("microcode {revision}")),
    ]
}

fn topology(cpus: &Cpus) -> String {
    let mut text = count(cpus.online.len() as u64, "CPU", "CPUs");
    let parts = [
        cpus.packages.map(|n| count(n.into(), "package", "packages")),
        cpus.cores.map(|n| count(n.into(), "core", "cores")),
        smt(cpus),
        (cpus.nodes.len() > 1).then(|| format!("{} memory nodes", cpus.nodes.len())),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if !parts.is_empty() {
        text = format!("{text}: {}", parts.join(", "));
    }
    match &cpus.present {
        Some(present) if present.len() > cpus.online.len() => {
            format!("{text}; {} more are offline", present.len() - cpus.online.len())
        }
        _ => text,
    }
}

fn smt(cpus: &Cpus) -> Option<String> {
    match (cpus.threads_per_core?, cpus.smt_control.as_deref()) {
        (1, Some("off" | "forceoff")) => Some("SMT switched off".to_owned()),
        (1, _) => Some("no SMT".to_owned()),
        (2, _) if cpus.core_types.is_empty() => Some("2 threads each".to_owned()),
        (threads, _) => Some(format!("up to {threads} threads each")),
    }
}

fn core_type(kind: &CoreType) -> String {
    let cores = kind.cores.map(|n| format!("{n} ")).unwrap_or_default();
    let frequencies = frequencies(kind.base, kind.max).map(|f| format!(", {f}")).unwrap_or_default();
    format!("{cores}{} on CPUs {}{frequencies}", kind.kind.name(), kind.cpus)
}

fn frequencies(base: Option<Hertz>, max: Option<Hertz>) -> Option<String> {
    match (base, max) {
        (Some(base), Some(max)) => Some(format!("base {base}, up to {max}")),
        (Some(base), None) => Some(format!("base {base}")),
        (None, Some(max)) => Some(format!("up to {max}")),
        (None, None) => None,
    }
}
