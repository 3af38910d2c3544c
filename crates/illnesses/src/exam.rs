//! What ails a machine, by curing it, and what the rules say of it: the same for each bench.

use crate::illness::{ILLNESSES, Illness};
use crate::recipe::Recipe;
use domain::finding::Confidence;
use domain::setting::SettingRequest;
use std::collections::BTreeMap;

/// From which gain on a cure shows an illness, and up to which it shows none.
pub const ILL: f64 = 1.10;
pub const WELL: f64 = 1.03;

/// What a machine's examination brought.
#[derive(Clone, Debug)]
pub struct Examined {
    pub name: String,
    pub planted: Vec<&'static str>,
    /// Each illness that it has, and how much faster it is without: by name.
    pub gains: BTreeMap<&'static str, Gain>,
    /// The findings that name a cause: which illness, which rule, how sure.
    pub found: Vec<Named>,
    /// Remedies of settings that made it slower: the rule, the setting, and what is left of the throughput.
    pub harmful: Vec<(String, f64)>,
}

/// How many times as fast a machine is without an illness.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// Where it is cured alone.
    pub first: f64,
    /// Where all others are cured before; looked at where the first shows none and a finding names it.
    pub last: Option<f64>,
}

impl Gain {
    /// Of an illness that a machine does not have.
    pub const NONE: Self = Self { first: 1.0, last: None };

    /// It makes the machine slower as it is.
    pub fn is_ill(self) -> bool {
        self.first >= ILL
    }

    /// It makes no difference, whether others are there or not.
    pub fn is_well(self) -> bool {
        self.first < WELL && self.last.is_none_or(|last| last < WELL)
    }
}

/// A finding that names an illness.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    pub illness: &'static str,
    pub rule: String,
    pub confidence: Confidence,
}

/// A finding, as the exam needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct Said {
    pub rule: String,
    pub confidence: Confidence,
    /// Of its remedy.
    pub settings: Vec<SettingRequest>,
}

/// What runs a machine's load.
pub trait Bench {
    /// Bytes a second of a machine with these settings besides.
    ///
    /// # Errors
    /// Where it cannot be run.
    fn throughput(&self, recipe: &Recipe, also: &[SettingRequest]) -> Result<f64, String>;

    /// Bytes a second of a machine as it is, and what the rules say of it, the first finding first.
    ///
    /// # Errors
    /// Where it cannot be run.
    fn watched(&self, recipe: &Recipe) -> Result<(f64, Vec<Said>), String>;
}

/// Examines a machine.
///
/// # Errors
/// Where it cannot be run.
pub fn examine(bench: &dyn Bench, recipe: &Recipe, planted: &[&'static str]) -> Result<Examined, String> {
    let (usual, findings) = bench.watched(recipe)?;
    let mut gains = BTreeMap::new();
    // One cause may hide another, so that each is also cured as the last of all.
    let cured = |but: &str| {
        let others = ILLNESSES.iter().filter(|illness| illness.name != but);
        others.fold(recipe.clone(), |recipe, illness| (illness.cure)(&recipe).unwrap_or(recipe))
    };
    let is_named = |illness: &Illness| findings.iter().any(|said| illness.is_named_by(&said.rule));
    for illness in ILLNESSES {
        let Some(alone) = (illness.cure)(recipe) else { continue };
        let first = bench.throughput(&alone, &[])? / usual;
        let others = cured(illness.name);
        let last = match (illness.cure)(&others) {
            Some(all) if first < WELL && is_named(illness) && others != *recipe => {
                Some(bench.throughput(&all, &[])? / bench.throughput(&others, &[])?)
            }
            _ => None,
        };
        gains.insert(illness.name, Gain { first, last });
    }
    let mut found = Vec::new();
    let mut harmful = Vec::new();
    for Said { rule, confidence, settings } in findings {
        let named = ILLNESSES.iter().find(|illness| illness.is_named_by(&rule));
        found.extend(named.map(|illness| Named { illness: illness.name, rule: rule.clone(), confidence }));
        if settings.is_empty() {
            continue;
        }
        // A setting that the bench does not know cannot be judged by it.
        if let Ok(throughput) = bench.throughput(recipe, &settings) {
            let left = throughput / usual;
            if left < 1.0 / WELL {
                let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
                harmful.push((format!("{rule}: {}", settings.join(", ")), left));
            }
        }
    }
    Ok(Examined { name: recipe.name.clone(), planted: planted.to_vec(), gains, found, harmful })
}
