//! `flyball settings`: what can be set on this machine, what it holds now, and whether it can be written.

use crate::exit::{End, Usage};
use anyhow::Result;
use command_line::{Global, Settings};
use domain::setting::SettingName;
use machine::settings::listing::{Line, as_json, chosen, is_sysctl, listed, none_of};
use machine::settings::{SYSCTL_ROOTS, survey};
use machine::{LocalMachine, RecordedMachine};

/// Lists settings.
pub fn settings(global: &Global, arguments: &Settings) -> Result<End> {
    let all = match &arguments.root {
        Some(folder) => survey(&RecordedMachine::open(folder)?),
        None => survey(&LocalMachine),
    };
    let is_recorded = arguments.root.is_some();
    let meant = arguments.pattern.as_deref().map(SettingName::parse);
    let chosen = match &meant {
        Some(meant) => match chosen(all.clone(), meant) {
            none if none.is_empty() => return Err(Usage(none_of(meant, &all)).into()),
            some => some,
        },
        None if global.json => all,
        None => all.into_iter().filter(|setting| !is_sysctl(setting)).collect(),
    };
    if global.json {
        terminal::json(&format!("{:#}", as_json(&chosen)))?;
        return Ok(End::Done);
    }
    let lines = listed(&chosen, meant.is_some(), is_recorded);
    let text = lines.iter().map(|Line { indent, text }| format!("{:indent$}{text}", "")).collect();
    terminal::lines(&report::within(&text, terminal::width()))?;
    if meant.is_none() {
        let roots: Vec<String> =
            SYSCTL_ROOTS.iter().map(|root| format!("`flyball settings {root}`")).collect();
        terminal::say(format_args!("sysctls have their names: {} list them", roots.join(", ")));
    }
    Ok(End::Done)
}
