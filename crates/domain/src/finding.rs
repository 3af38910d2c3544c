//! A finding: a diagnosis with its evidence, and what to do about it.

use crate::ids::CellId;
use crate::setting::SettingRequest;

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// The configuration suggests it; nothing was measured for it.
    Possible,
    /// Measured, but one other cause would look the same.
    Likely,
    /// Measured with and without the cause on this machine.
    Shown,
}

impl Confidence {
    /// As it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Confidence::Possible => "possible",
            Confidence::Likely => "likely",
            Confidence::Shown => "shown",
        }
    }
}

/// A figure that a finding rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Evidence {
    /// What it is a figure of: `throughput at depth 32 against depth 1`.
    pub what: String,
    /// The figure with its unit, and its interval where it has one.
    pub figure: String,
    /// Where it was measured or read: a trial's key, a file of the kernel.
    pub source: String,
}

/// By how much a metric would change: new / old. Below one is a loss for throughput and a gain for latency.
#[derive(Clone, Debug, PartialEq)]
pub struct Gain {
    /// Of which metric.
    pub metric: String,
    /// The lower end of the interval.
    pub low: f64,
    /// The estimate.
    pub ratio: f64,
    /// The upper end.
    pub high: f64,
}

/// A change that a finding proposes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// What to do, in a sentence.
    pub what: String,
    /// The settings to write, where it is one of settings.
    pub settings: Vec<SettingRequest>,
    /// How it is undone.
    pub undo: String,
}

/// A diagnosis.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The rule that found it: `queue-depth`.
    pub rule: &'static str,
    /// The diagnosis in one sentence.
    pub title: String,
    /// Why it is so: the mechanism, in a few sentences.
    pub reason: String,
    /// What it rests on; never empty.
    pub evidence: Vec<Evidence>,
    /// How sure it is.
    pub confidence: Confidence,
    /// What the remedy would give, where it was measured or can be bounded.
    pub gain: Option<Gain>,
    /// What to do, where something can be done.
    pub remedy: Option<Remedy>,
    /// The exact next command for the user to type.
    pub next: String,
    /// The cells that it compares, slower or baseline first. They differ in what the finding is about, and in
    /// nothing else. Empty where it compares none.
    pub compared: Vec<(CellId, CellId)>,
}

/// A question that could not be answered here, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotMeasured {
    /// What is not known.
    pub what: String,
    /// Why, and what would be needed.
    pub why: String,
}
