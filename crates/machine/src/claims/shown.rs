//! Claims, and what stands against them, in words and as JSON.

use super::{Claim, ClaimError, Claims, Examined, GivenBack, Guard, examine, open_claimed};
use domain::inert::Lines;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;

/// The version of the JSON forms.
pub const SCHEMA: u32 = 2;

/// What became of a claim.
#[derive(Debug)]
pub enum ClaimOutcome {
    /// It was made.
    Claimed {
        /// The claim.
        claim: Box<Claim>,
        /// What keeps udev off the disk.
        guard: Guard,
    },
    /// What would be done, in a sentence.
    Would(&'static str),
    /// Why it was refused.
    Refused(String),
}

/// A disk, what became of a claim of it, and why it was refused where it was.
#[derive(Debug)]
pub struct Answer {
    /// The disk.
    pub examined: Examined,
    /// What became of the claim.
    pub outcome: ClaimOutcome,
    /// The error that refused it.
    pub refused: Option<ClaimError>,
}

impl Answer {
    fn would(examined: Examined, what: &'static str) -> Self {
        Self { examined, outcome: ClaimOutcome::Would(what), refused: None }
    }

    fn refused(device: &Path, error: ClaimError) -> Result<Self, ClaimError> {
        let outcome = ClaimOutcome::Refused(error.to_string());
        Ok(Self { examined: examine(device)?, outcome, refused: Some(error) })
    }

    /// Claims a disk, or only says whether that would be done.
    ///
    /// # Errors
    /// [`ClaimError`] where the disk cannot even be looked at.
    pub fn to_claiming(
        claims: &Claims,
        device: &Path,
        overwrites: &BTreeSet<String>,
        dry_run: bool,
    ) -> Result<Self, ClaimError> {
        let made = if dry_run {
            claims
                .would_claim(device, overwrites)
                .map(|examined| Self::would(examined, "it would be claimed"))
        } else {
            claims.claim(device, overwrites).map(|(claim, examined)| {
                let outcome = ClaimOutcome::Claimed { guard: claims.guard(&claim), claim: claim.into() };
                Self { examined, outcome, refused: None }
            })
        };
        made.or_else(|error| Self::refused(device, error))
    }

    /// Whether a disk may be overwritten now; `state` is the folder of the ledger.
    ///
    /// # Errors
    /// [`ClaimError`] where the disk cannot even be looked at.
    pub fn to_check(state: &Path, device: &Path) -> Result<Self, ClaimError> {
        match open_claimed(state, device) {
            Ok(opened) => {
                Ok(Self::would(opened.examined().clone(), "it is claimed, and may be overwritten now"))
            }
            Err(error) => Self::refused(device, error),
        }
    }

    /// What giving a disk back would do.
    ///
    /// # Errors
    /// [`ClaimError`] where that would be refused.
    pub fn to_giving_back(
        claims: &Claims,
        device: &Path,
        overwrites: &BTreeSet<String>,
    ) -> Result<Self, ClaimError> {
        let (examined, _) = claims.would_give_back(device, overwrites)?;
        Ok(Self::would(examined, "its first 8 MiB and its last MiB would be written back"))
    }
}

/// Claims as JSON.
pub fn listed(claims: &[Claim]) -> String {
    let claims: Vec<Value> = claims.iter().map(Claim::as_json).collect();
    format!("{:#}", json!({ "schema": SCHEMA, "claims": claims }))
}

impl ClaimOutcome {
    /// A disk, what stands against a claim of it, and what became of the claim.
    pub fn as_text(&self, examined: &Examined) -> Lines {
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
        let seen = match self {
            Self::Claimed { claim, .. } => claim.seen.as_ref().map(|seen| &seen.samples),
            _ => None,
        };
        lines.extend(examined.samples.as_ref().or(seen).map(|samples| format!("  {}", samples.in_words())));
        match self {
            Self::Claimed { claim, guard } => {
                lines.line(format_args!("claimed{}", allowed(claim)));
                lines.line(guarded(guard));
            }
            Self::Would(what) => lines.line(what),
            // The message goes to standard error.
            Self::Refused(_) => {}
        }
        lines
    }

    /// The same as JSON, with a schema version.
    pub fn as_json(&self, examined: &Examined) -> String {
        let against: Vec<String> = examined.all_reasons().iter().map(ToString::to_string).collect();
        let (claim, guard, would, refused) = match self {
            Self::Claimed { claim, guard } => {
                (claim.as_json(), guard_as_json(guard), Value::Null, Value::Null)
            }
            Self::Would(what) => (Value::Null, Value::Null, json!(what), Value::Null),
            Self::Refused(why) => (Value::Null, Value::Null, Value::Null, json!(why)),
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
}

impl Claim {
    /// In one line.
    pub fn in_words(&self) -> String {
        let void = match (&self.seen, &self.overwriting) {
            (None, _) => "; made by an older Flyball, and to be made anew (`--forget`, then claim it)",
            (_, Some(_)) => "; a run overwrites it, or was killed while it did",
            _ => "",
        };
        format!(
            "{} ({}, {}): {}{}{void}",
            self.path.display(),
            self.name,
            self.identity.size,
            self.identity.in_words(),
            allowed(self)
        )
    }

    /// As JSON, without the marks of the samples, of which there are thousands.
    pub fn as_json(&self) -> Value {
        let mut value = json!(self);
        without_marks(&mut value["seen"]);
        value
    }
}

impl GivenBack {
    /// In one line.
    pub fn in_words(&self, device: &Path) -> String {
        let what = if self.written { "were written back" } else { "are as they were" };
        format!(
            "`{}` is given back: its first 8 MiB and its last MiB {what}; what lies between may have been overwritten",
            device.display()
        )
    }

    /// As JSON, with a schema version.
    pub fn as_json(&self) -> String {
        let value = json!({ "schema": SCHEMA, "given_back": self.claim.as_json(), "written": self.written });
        format!("{value:#}")
    }
}

/// A claim that is given up, or would be, as JSON and in one line.
pub fn forgotten(claim: &Claim, is_dry_run: bool) -> (String, String) {
    let value = json!({ "schema": SCHEMA, "forgotten": claim.as_json(), "dry_run": is_dry_run });
    let how = if is_dry_run { "would be given up" } else { "is given up" };
    let path = claim.path.display();
    (format!("{value:#}"), format!("the claim of `{path}` {how} with its backup; the disk is left as it is"))
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
