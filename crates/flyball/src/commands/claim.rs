//! `flyball claim`: which disks may be overwritten. Never asks: what may be lost is said on the command line.

use crate::exit::{End, Usage};
use crate::machine_lock::lock_machine;
use crate::places;
use anyhow::{Result, bail};
use command_line::{Claim as Arguments, Global};
use machine::claims::shown::{self, Answer};
use machine::claims::{Claim, ClaimError, Claims};
use machine::{Ledger, LocalMachine};
use std::collections::BTreeSet;
use std::path::Path;

/// Lists the claims; or claims a disk, checks it, gives it back, or gives up its claim.
pub fn claim(global: &Global, arguments: &Arguments) -> Result<End> {
    let claims = Claims::at(&places::state()?);
    let overwrite: BTreeSet<String> = arguments
        .overwrite
        .iter()
        .map(|word| word.trim().to_owned())
        .filter(|word| !word.is_empty())
        .collect();
    match &arguments.device {
        None => list(global, &claims),
        Some(device) if arguments.forget => forget(global, arguments, &claims, device),
        Some(device) if arguments.give_back => give_back(global, arguments, &claims, device, &overwrite),
        Some(device) if arguments.check => show(global, Answer::to_check(&places::state()?, device)),
        Some(device) => show(global, Answer::to_claiming(&claims, device, &overwrite, arguments.dry_run)),
    }
}

fn list(global: &Global, claims: &Claims) -> Result<End> {
    let all = claims.list()?;
    if global.json {
        terminal::json(&shown::listed(&all))?;
    } else if all.is_empty() {
        terminal::line("no disk is claimed")?;
    } else {
        terminal::lines(&all.iter().map(Claim::in_words).collect())?;
    }
    Ok(End::Done)
}

fn give_back(
    global: &Global,
    arguments: &Arguments,
    claims: &Claims,
    device: &Path,
    overwrite: &BTreeSet<String>,
) -> Result<End> {
    if arguments.dry_run {
        return show(global, Answer::to_giving_back(claims, device, overwrite));
    }
    // What a killed run has left on it goes first; and while this is on, nobody else begins one.
    let _lock = lock_machine()?;
    let (_ledger, report) =
        Ledger::open(&places::state()?, &LocalMachine).map_err(session::Error::of_machine)?;
    terminal::restored(&report);
    if report.failed().next().is_some() {
        bail!(
            "cannot give back `{}`: what Flyball has changed could not be put back before; see `flyball status`",
            device.display()
        );
    }
    let back = claims.give_back(device, overwrite).map_err(usage)?;
    print(global, &back.as_json(), back.in_words(device))
}

fn forget(global: &Global, arguments: &Arguments, claims: &Claims, device: &Path) -> Result<End> {
    let claim =
        if arguments.dry_run { claims.named(device) } else { claims.forget(device) }.map_err(usage)?;
    let (json, words) = shown::forgotten(&claim, arguments.dry_run);
    print(global, &json, words)
}

fn print(global: &Global, json: &str, words: String) -> Result<End> {
    if global.json {
        terminal::json(json)?
    } else {
        terminal::line(words)?
    }
    Ok(End::Done)
}

/// A path that leads to no disk is a wrong command line.
fn usage(error: ClaimError) -> anyhow::Error {
    match error {
        ClaimError::NoDisk { .. } => Usage(error.to_string()).into(),
        other => other.into(),
    }
}

fn show(global: &Global, answer: Result<Answer, ClaimError>) -> Result<End> {
    let Answer { examined, outcome, refused } = answer.map_err(usage)?;
    if global.json {
        terminal::json(&outcome.as_json(&examined))?;
    } else {
        terminal::lines(&report::within(&outcome.as_text(&examined), terminal::width()))?;
    }
    refused.map_or(Ok(End::Done), |error| Err(usage(error)))
}
