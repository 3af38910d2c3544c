//! `flyball settings`: what can be set on this machine, what it holds now, and whether it can be written.

use crate::args::{Global, Settings};
use crate::exit::{End, Usage};
use crate::terminal;
use anyhow::Result;
use domain::inert::{Lines, one_line};
use domain::setting::SettingName;
use machine::settings::{HeldValue, SYSCTL_ROOTS, Surveyed, check_name, is_meant, survey};
use machine::{LocalMachine, RecordedMachine};
use serde_json::{Value, json};

/// The version of the JSON form.
const SCHEMA: u32 = 1;

/// How far what is said of a setting is indented.
const INDENT: usize = 2;

/// How far a line goes on that does not fit.
const HANGING: usize = 4;

/// Lists settings.
pub fn settings(global: &Global, arguments: &Settings) -> Result<End> {
    let all = match &arguments.root {
        Some(folder) => survey(&RecordedMachine::open(folder)?),
        None => survey(&LocalMachine),
    };
    let is_recorded = arguments.root.is_some();
    let meant = arguments.pattern.as_deref().map(SettingName::parse);
    let chosen = match &meant {
        Some(meant) => chosen(all.clone(), meant),
        None if global.json => all,
        None => all.into_iter().filter(|setting| !is_sysctl(setting)).collect(),
    };
    if let (true, Some(meant)) = (chosen.is_empty(), &meant) {
        return Err(Usage(none_of(meant)).into());
    }
    if global.json {
        terminal::json(&format!("{:#}", as_json(&chosen)))?;
        return Ok(End::Done);
    }
    let width = terminal::width();
    let (here, absent): (Vec<&Surveyed>, Vec<&Surveyed>) =
        chosen.iter().partition(|setting| setting.absent.is_none());
    let mut text = Lines::default();
    for setting in here {
        show(setting, width, &mut text);
        if !is_recorded {
            show_why_not(setting, width, &mut text);
        }
    }
    show_absent(&absent, meant.is_some(), width, &mut text);
    terminal::lines(&text)?;
    if meant.is_none() {
        let roots: Vec<String> =
            SYSCTL_ROOTS.iter().map(|root| format!("`flyball settings {root}`")).collect();
        terminal::say(format_args!("sysctls have their names: {} list them", roots.join(", ")));
    }
    Ok(End::Done)
}

/// The settings that a pattern means, with the objects that it names.
fn chosen(all: Vec<Surveyed>, meant: &SettingName) -> Vec<Surveyed> {
    let with_object = |mut setting: Surveyed| {
        if let Some(object) = &meant.object {
            setting.held.retain(|held| held.object.as_ref() == Some(object));
        }
        (meant.object.is_none() || !setting.held.is_empty()).then_some(setting)
    };
    all.into_iter().filter(|setting| is_meant(setting, &meant.name)).filter_map(with_object).collect()
}

fn none_of(meant: &SettingName) -> String {
    let bare = SettingName { name: meant.name.clone(), object: None };
    match (check_name(&bare), &meant.object) {
        (Err(error), _) if !meant.name.is_empty() => format!("no setting matches `{meant}`: {error}"),
        (_, Some(object)) => {
            format!("no setting matches `{meant}`: there is no object `{object}` of such a setting here")
        }
        (_, None) => format!("no setting matches `{meant}`: this machine has none that is named so"),
    }
}

fn is_sysctl(setting: &Surveyed) -> bool {
    SYSCTL_ROOTS.iter().any(|root| setting.name.starts_with(root))
}

/// One setting: its name and meaning, and below them what it holds and takes.
fn show(setting: &Surveyed, width: Option<usize>, text: &mut Lines) {
    flow(&format!("{}: {}", setting.name, setting.about), 0, width, text);
    for (value, objects) in by_value(&setting.held, |held| held.value.clone()) {
        let value = value.map_or_else(|| "cannot be read".to_owned(), |value| format!("= {value}"));
        let line = if objects.is_empty() { value } else { format!("{} {value}", objects.join(", ")) };
        flow(&line, INDENT, width, text);
    }
    if let Some(takes) = &setting.takes {
        flow(&format!("takes {takes}"), INDENT, width, text);
    }
}

/// Why a setting cannot be written here.
fn show_why_not(setting: &Surveyed, width: Option<usize>, text: &mut Lines) {
    for (why, objects) in by_value(&setting.held, |held| held.not_writable.clone()) {
        let Some(why) = why else { continue };
        let is_all = setting.held.iter().all(|held| held.not_writable.is_some());
        let of =
            if is_all || objects.is_empty() { String::new() } else { format!("{}: ", objects.join(", ")) };
        flow(&format!("{of}cannot be written here: {why}"), INDENT, width, text);
    }
}

/// Settings that are not there: each by itself where somebody asked for it, else by their reasons.
fn show_absent(absent: &[&Surveyed], each: bool, width: Option<usize>, text: &mut Lines) {
    if each {
        for setting in absent {
            flow(&format!("{}: {}", setting.name, setting.about), 0, width, text);
            let why = setting.absent.as_deref().unwrap_or_default();
            flow(&format!("not on this machine: {why}"), INDENT, width, text);
        }
    } else if !absent.is_empty() {
        let names: Vec<&str> = absent.iter().map(|setting| setting.name.as_str()).collect();
        flow(&format!("not on this machine: {}", names.join(", ")), 0, width, text);
        flow("`flyball settings NAME` says what each is and why", INDENT, width, text);
    }
}

/// The objects that have one value together, in the order of their first.
fn by_value(
    held: &[HeldValue],
    value: impl Fn(&HeldValue) -> Option<String>,
) -> Vec<(Option<String>, Vec<String>)> {
    let mut groups: Vec<(Option<String>, Vec<String>)> = Vec::new();
    for one in held {
        let value = value(one);
        let object = one.object.clone();
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, objects)) => objects.extend(object),
            None => groups.push((value, object.into_iter().collect())),
        }
    }
    groups.into_iter().map(|(value, objects)| (value, ranges(&objects))).collect()
}

/// Names that count on.
struct Counted<'o> {
    first: &'o str,
    last: &'o str,
    /// What the name after the last would be: a stem and a number.
    next: Option<(&'o str, u32)>,
}

/// Names that count on are written by their first and last: `cpu0-cpu7`.
fn ranges(objects: &[String]) -> Vec<String> {
    let mut all: Vec<Counted> = Vec::new();
    for object in objects {
        let stem = object.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = object[stem.len()..].parse::<u32>().ok();
        let next = number.and_then(|number| Some((stem, number.checked_add(1)?)));
        match all.last_mut().filter(|counted| number.is_some_and(|n| counted.next == Some((stem, n)))) {
            Some(counted) => (counted.last, counted.next) = (object, next),
            None => all.push(Counted { first: object, last: object, next }),
        }
    }
    let shown = |Counted { first, last, .. }: &Counted| {
        if first == last { (*first).to_owned() } else { format!("{first}-{last}") }
    };
    all.iter().map(shown).collect()
}

fn flow(line: &str, indent: usize, width: Option<usize>, text: &mut Lines) {
    let line = one_line(line);
    let Some(width) = width else {
        text.line(format_args!("{:indent$}{line}", ""));
        return;
    };
    for (at, part) in terminal::wrapped(&line, width.saturating_sub(indent + HANGING)).iter().enumerate() {
        let indent = if at == 0 { indent } else { indent + HANGING };
        text.line(format_args!("{:indent$}{part}", ""));
    }
}

fn as_json(settings: &[Surveyed]) -> Value {
    let held = |held: &HeldValue| {
        json!({
            "object": held.object, "path": held.path, "value": held.value,
            "writable": held.not_writable.is_none(), "why_not": held.not_writable,
        })
    };
    let setting = |setting: &Surveyed| {
        json!({
            "name": setting.name, "about": setting.about, "takes": setting.takes, "absent": setting.absent,
            "values": setting.held.iter().map(held).collect::<Vec<_>>(),
        })
    };
    json!({ "schema": SCHEMA, "settings": settings.iter().map(setting).collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_count_on_are_a_range() {
        let shown =
            |names: &[&str]| ranges(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()).join(" ");
        assert_eq!(shown(&["cpu0", "cpu1", "cpu2", "cpu4"]), "cpu0-cpu2 cpu4");
        assert_eq!(shown(&["sda", "sdb", "loop0", "vda1"]), "sda sdb loop0 vda1");
        assert_eq!(shown(&["policy0", "cpu1", "policy4294967295"]), "policy0 cpu1 policy4294967295");
    }
}
