//! `flyball claim`: which disks may be overwritten. Never asks: what may be lost is said on the command line.

use crate::exit::{End, Usage};
use crate::machine_lock::lock_machine;
use crate::places;
use anyhow::{Result, bail};
use command_line::{Claim as Arguments, Global};
use machine::claims::shown::{self, ClaimOutcome};
use machine::claims::{Claim, ClaimError, Claims, Examined, examine, open_claimed};
use machine::{Ledger, LocalMachine};
use serde_json::{Value, json};
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
        Some(device) if arguments.check => check(global, device),
        Some(device) => make(global, arguments, &claims, device, &overwrite),
    }
}

fn list(global: &Global, claims: &Claims) -> Result<End> {
    let all = claims.list()?;
    if global.json {
        let value = json!({ "schema": shown::SCHEMA, "claims": all.iter().map(Claim::as_json).collect::<Vec<Value>>() });
        terminal::json(&format!("{value:#}"))?;
    } else if all.is_empty() {
        terminal::line("no disk is claimed")?;
    } else {
        terminal::lines(&all.iter().map(Claim::in_words).collect())?;
    }
    Ok(End::Done)
}

fn make(
    global: &Global,
    arguments: &Arguments,
    claims: &Claims,
    device: &Path,
    overwrite: &BTreeSet<String>,
) -> Result<End> {
    let made = if arguments.dry_run {
        claims.would_claim(device, overwrite).map(|examined| (None, examined))
    } else {
        claims.claim(device, overwrite).map(|(claim, examined)| (Some(claim), examined))
    };
    let (said, examined, refused) = match made {
        Ok((Some(claim), examined)) => {
            (ClaimOutcome::Claimed { guard: claims.guard(&claim), claim: claim.into() }, examined, None)
        }
        Ok((None, examined)) => (ClaimOutcome::Would("it would be claimed"), examined, None),
        Err(error) => {
            (ClaimOutcome::Refused(error.to_string()), examine(device).map_err(usage)?, Some(error))
        }
    };
    show(global, &examined, &said)?;
    refused.map_or(Ok(End::Done), |error| Err(usage(error)))
}

fn check(global: &Global, device: &Path) -> Result<End> {
    match open_claimed(&places::state()?, device) {
        Ok(opened) => {
            show(
                global,
                opened.examined(),
                &ClaimOutcome::Would("it is claimed, and may be overwritten now"),
            )?;
            Ok(End::Done)
        }
        Err(error) => {
            show(global, &examine(device).map_err(usage)?, &ClaimOutcome::Refused(error.to_string()))?;
            Err(usage(error))
        }
    }
}

fn give_back(
    global: &Global,
    arguments: &Arguments,
    claims: &Claims,
    device: &Path,
    overwrite: &BTreeSet<String>,
) -> Result<End> {
    if arguments.dry_run {
        let (examined, _) = claims.would_give_back(device, overwrite).map_err(usage)?;
        show(
            global,
            &examined,
            &ClaimOutcome::Would("its first 8 MiB and its last MiB would be written back"),
        )?;
        return Ok(End::Done);
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

fn show(global: &Global, examined: &Examined, said: &ClaimOutcome) -> Result<()> {
    if global.json {
        terminal::json(&said.as_json(examined))?;
    } else {
        terminal::lines(&report::within(&said.as_text(examined), terminal::width()))?;
    }
    Ok(())
}
