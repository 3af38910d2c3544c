//! `flyball claim`: which disks may be overwritten. Never asks: what may be lost is said on the command line.

use crate::args::{Claim as Arguments, Global};
use crate::exit::{End, Usage};
use crate::machine_lock::lock_machine;
use crate::{places, terminal};
use anyhow::{Result, bail};
use domain::inert::Lines;
use machine::claims::{Claim, ClaimError, Claims, Examined, Guard, examine, open_claimed};
use machine::{Ledger, LocalMachine};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// The version of the JSON form.
const SCHEMA: u32 = 2;

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
        let value =
            json!({ "schema": SCHEMA, "claims": all.iter().map(claim_as_json).collect::<Vec<Value>>() });
        terminal::json(&format!("{value:#}"))?;
    } else if all.is_empty() {
        terminal::line("no disk is claimed")?;
    } else {
        terminal::lines(&all.iter().map(in_words).collect())?;
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
            (Said::Claimed { guard: claims.guard(&claim), claim: claim.into() }, examined, None)
        }
        Ok((None, examined)) => (Said::Would("it would be claimed"), examined, None),
        Err(error) => (Said::Refused(error.to_string()), examine(device).map_err(usage)?, Some(error)),
    };
    show(global, &examined, &said)?;
    refused.map_or(Ok(End::Done), |error| Err(usage(error)))
}

fn check(global: &Global, device: &Path) -> Result<End> {
    match open_claimed(&places::state()?, device) {
        Ok(opened) => {
            show(global, opened.examined(), &Said::Would("it is claimed, and may be overwritten now"))?;
            Ok(End::Done)
        }
        Err(error) => {
            show(global, &examine(device).map_err(usage)?, &Said::Refused(error.to_string()))?;
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
        show(global, &examined, &Said::Would("its first 8 MiB and its last MiB would be written back"))?;
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
    if global.json {
        let value =
            json!({ "schema": SCHEMA, "given_back": claim_as_json(&back.claim), "written": back.written });
        terminal::json(&format!("{value:#}"))?;
    } else {
        let what = if back.written { "were written back" } else { "are as they were" };
        terminal::line(format_args!(
            "`{}` is given back: its first 8 MiB and its last MiB {what}; what lies between may have been overwritten",
            device.display()
        ))?;
    }
    Ok(End::Done)
}

fn forget(global: &Global, arguments: &Arguments, claims: &Claims, device: &Path) -> Result<End> {
    let claim =
        if arguments.dry_run { claims.named(device) } else { claims.forget(device) }.map_err(usage)?;
    if global.json {
        let value =
            json!({ "schema": SCHEMA, "forgotten": claim_as_json(&claim), "dry_run": arguments.dry_run });
        terminal::json(&format!("{value:#}"))?;
    } else {
        let how = if arguments.dry_run { "would be given up" } else { "is given up" };
        terminal::line(format_args!(
            "the claim of `{}` {how} with its backup; the disk is left as it is",
            claim.path.display()
        ))?;
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

/// What became of it.
enum Said {
    Claimed { claim: Box<Claim>, guard: Guard },
    Would(&'static str),
    Refused(String),
}

fn show(global: &Global, examined: &Examined, said: &Said) -> Result<()> {
    if global.json {
        terminal::json(&as_json(examined, said))?;
    } else {
        terminal::lines(&as_text(examined, said))?;
    }
    Ok(())
}

fn as_text(examined: &Examined, said: &Said) -> Lines {
    let identity = &examined.identity;
    let model = identity.model.as_ref().map(|model| format!(", {model}")).unwrap_or_default();
    let mut lines = Lines::default();
    lines.line(format_args!(
        "{} ({}, {}{model}): {}",
        examined.path.display(),
        examined.name,
        identity.size,
        identity.in_words()
    ));
    if !examined.partitions.is_empty() {
        lines.line(format_args!("  partitions: {}", examined.partitions.join(", ")));
    }
    let against = examined.all_reasons();
    lines.extend(against.iter().map(|reason| format!("  {reason}")));
    if against.is_empty() {
        lines.line("  nobody uses it, its first 8 MiB and its last MiB are zero");
    }
    let seen = match said {
        Said::Claimed { claim, .. } => claim.seen.as_ref().map(|seen| &seen.samples),
        _ => None,
    };
    lines.extend(examined.samples.as_ref().or(seen).map(|samples| format!("  {}", samples.in_words())));
    match said {
        Said::Claimed { claim, guard } => {
            lines.line(format_args!("claimed{}", allowed(claim)));
            lines.line(guarded(guard));
        }
        Said::Would(what) => lines.line(what),
        // The message goes to standard error.
        Said::Refused(_) => {}
    }
    lines
}

fn as_json(examined: &Examined, said: &Said) -> String {
    let against: Vec<String> = examined.all_reasons().iter().map(ToString::to_string).collect();
    let (claim, guard, would, refused) = match said {
        Said::Claimed { claim, guard } => {
            (claim_as_json(claim), guard_as_json(guard), Value::Null, Value::Null)
        }
        Said::Would(what) => (Value::Null, Value::Null, json!(what), Value::Null),
        Said::Refused(why) => (Value::Null, Value::Null, Value::Null, json!(why)),
    };
    let value = json!({
        "schema": SCHEMA,
        "device": examined_as_json(examined),
        "against": against,
        "overwrite": examined.kinds(),
        "claim": claim,
        "guard": guard,
        "outcome": would,
        "refused": refused,
    });
    format!("{value:#}")
}

/// Without the marks of the samples, of which there are thousands.
fn claim_as_json(claim: &Claim) -> Value {
    let mut value = json!(claim);
    without_marks(&mut value["seen"]);
    value
}

fn examined_as_json(examined: &Examined) -> Value {
    let mut value = json!(examined);
    without_marks(&mut value);
    value
}

fn without_marks(of: &mut Value) {
    if let Some(samples) = of.get_mut("samples").and_then(Value::as_object_mut) {
        samples.remove("marks");
    }
}

fn guard_as_json(guard: &Guard) -> Value {
    match guard {
        Guard::Rule(path) => json!({ "kind": "rule", "path": path }),
        Guard::OwnMarksOnly(path) => json!({ "kind": "own_marks_only", "path": path }),
        Guard::NoUdev => json!({ "kind": "no_udev" }),
    }
}

fn guarded(guard: &Guard) -> String {
    match guard {
        Guard::Rule(path) => {
            format!("`{}` keeps udev from assembling and mounting what is on it", path.display())
        }
        Guard::OwnMarksOnly(path) => format!(
            "`{}` keeps udev from assembling and mounting what Flyball leaves on it, and nothing else: the disk has \
             nothing that a rule could name",
            path.display()
        ),
        Guard::NoUdev => "this system has no udev, so no rule was written for it".to_owned(),
    }
}

fn allowed(claim: &Claim) -> String {
    let words: Vec<&str> = claim.overwrites.iter().map(String::as_str).collect();
    if words.is_empty() { String::new() } else { format!(", `{}` may be overwritten", words.join(",")) }
}

fn in_words(claim: &Claim) -> String {
    let void = match (&claim.seen, &claim.overwriting) {
        (None, _) => "; made by an older Flyball, and to be made anew (`--forget`, then claim it)",
        (_, Some(_)) => "; a run overwrites it, or was killed while it did",
        _ => "",
    };
    format!(
        "{} ({}, {}): {}{}{void}",
        claim.path.display(),
        claim.name,
        claim.identity.size,
        claim.identity.in_words(),
        allowed(claim)
    )
}
