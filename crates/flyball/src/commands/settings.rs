//! `flyball settings`: what can be set on this machine, what it holds now, and whether it can be written.

use crate::exit::{End, Usage};
use anyhow::Result;
use command_line::{Global, Settings};
use domain::inert::{Lines, one_line};
use domain::setting::SettingName;
use machine::settings::listing::{as_json, by_value, chosen, is_sysctl, none_of};
use machine::settings::{SYSCTL_ROOTS, Surveyed, survey};
use machine::{LocalMachine, RecordedMachine};

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

fn flow(line: &str, indent: usize, width: Option<usize>, text: &mut Lines) {
    let line = one_line(line);
    let Some(width) = width else {
        text.line(format_args!("{:indent$}{line}", ""));
        return;
    };
    for (at, part) in report::wrapped(&line, width.saturating_sub(indent + HANGING)).iter().enumerate() {
        let indent = if at == 0 { indent } else { indent + HANGING };
        text.line(format_args!("{:indent$}{part}", ""));
    }
}
