//! `[workload.NAME]`: what runs.

use super::node::{Node, Section};
use super::options::Options;
use super::{key_name, name};
use domain::outcome::Better;
use domain::study::{MetricPattern, Tool, Workload};
use domain::units::Unit;
use workloads::command::pattern;

/// A bound on the metrics of one command; each is a pattern to compile and a column to show.
const MAX_METRICS: usize = 64;

pub(super) fn read(node: &Node) -> Option<Workload> {
    read_with(node, &[])
}

/// The same of a table that has these keys besides, which somebody else reads.
pub(super) fn read_with(node: &Node, besides: &[&str]) -> Option<Workload> {
    let name = key_name(node);
    let section = node.section()?;
    let tool = section.require("tool", "tool = \"fio\"").and_then(|node| Some((node.text()?, node)));
    let (named, node) = tool?;
    let (tool, options) = match workloads::named(named).map(|known| (known.in_study(), known.options())) {
        // What cannot be run has no options, and nothing else that is looked at.
        Some((Some(tool), options)) if options.is_empty() => (Some(tool), Some(Options::new())),
        Some((Some(tool), _)) => with_options(&section, tool, besides),
        Some((None, _)) => (command(&section, besides), Some(Options::new())),
        None => {
            node.refuse(format!("there is no tool `{named}`; write {}", workloads::in_words()));
            (None, None)
        }
    };
    Some(Workload { name: name?, tool: tool?, options: options? })
}

fn with_options(section: &Section, tool: Tool, besides: &[&str]) -> (Option<Tool>, Option<Options>) {
    refuse_keys_of_others(section, &tool, &["argv", "metric"], besides);
    let of_tool = |node: Node| super::options::read_for(&tool, &node);
    let options = section.get("options").map_or_else(|| Some(Options::new()), of_tool);
    (Some(tool), options)
}

fn refuse_keys_of_others(section: &Section, tool: &Tool, others: &[&str], besides: &[&str]) {
    for node in others.iter().filter_map(|key| section.get(key)) {
        node.refuse_key(format!("belongs to other tools than {}; take it out", tool.name()));
    }
    section.only(&[&["tool", "options", "argv", "metric"], besides].concat());
}

fn command(section: &Section, besides: &[&str]) -> Option<Tool> {
    let argv = section.require("argv", "argv = [\"make\", \"-j4\"]").and_then(|node| argv(&node));
    let metrics = section.get("metric").map_or(Some(vec![]), |node| metrics(&node));
    let tool = Tool::Command { argv: argv?, metrics: metrics? };
    refuse_keys_of_others(section, &tool, &["options"], besides);
    Some(tool)
}

fn argv(node: &Node) -> Option<Vec<String>> {
    let items = node.items()?;
    if items.is_empty() {
        node.refuse("is empty; its first item is the program");
        return None;
    }
    let texts: Vec<Option<&str>> = items.iter().map(Node::text).collect();
    if texts[0].is_some_and(|program| program.trim().is_empty()) {
        items[0].refuse("names no program");
        return None;
    }
    texts.into_iter().map(|text| text.map(str::to_owned)).collect()
}

fn metrics(node: &Node) -> Option<Vec<MetricPattern>> {
    let mut metrics: Vec<MetricPattern> = Vec::new();
    let mut complete = true;
    let items = node.items()?;
    if items.len() > MAX_METRICS {
        node.refuse(format!("has {} metrics, and {MAX_METRICS} at most make sense", items.len()));
        return None;
    }
    for item in items {
        match metric(&item) {
            Some(metric) if metrics.iter().any(|other| other.name == metric.name) => {
                item.refuse(format!("the metric `{}` is there twice; rename one", metric.name));
                complete = false;
            }
            Some(metric) => metrics.push(metric),
            None => complete = false,
        }
    }
    complete.then_some(metrics)
}

fn metric(node: &Node) -> Option<MetricPattern> {
    let section = node.section()?;
    section.only(&["name", "pattern", "unit", "better"]);
    let name = section.require("name", "name = \"elapsed\"").and_then(|node| name(&node));
    let form = "pattern = 'took (?<value>[0-9.]+) s'";
    let pattern = section.require("pattern", form).and_then(|node| checked_pattern(&node));
    let unit = section.require("unit", "unit = \"s\"").and_then(|node| node.text());
    let better = section.require("better", "better = \"lower\"").and_then(|node| better(&node));
    Some(MetricPattern { name: name?, pattern: pattern?, unit: unit_of(unit?), better: better? })
}

fn checked_pattern(node: &Node) -> Option<String> {
    let text = node.text()?;
    match pattern::compile(text) {
        Ok(_) => Some(text.to_owned()),
        Err(reason) => {
            node.refuse(format!("cannot be used: {reason}"));
            None
        }
    }
}

fn better(node: &Node) -> Option<Better> {
    match node.text()? {
        "higher" => Some(Better::Higher),
        "lower" => Some(Better::Lower),
        other => {
            node.refuse(format!("`{other}` is neither `higher` nor `lower`; say which is good"));
            None
        }
    }
}

/// The units that are scaled when they are shown; any other is shown as it stands.
fn unit_of(text: &str) -> Unit {
    match text {
        "B/s" => Unit::BytesPerSecond,
        "/s" => Unit::PerSecond,
        "s" => Unit::Seconds,
        "J" => Unit::Joules,
        "W" => Unit::Watts,
        "Hz" => Unit::Hertz,
        "share" => Unit::Share,
        "" | "count" => Unit::Count,
        other => Unit::Other(other.to_owned()),
    }
}
