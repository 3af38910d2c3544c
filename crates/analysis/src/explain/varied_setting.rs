//! What a study that varies a setting has shown of it: the common part of the rules about settings.

use super::case::{Case, evidence, gain};
use crate::summary::{Comparison, Verdict};
use crate::words::{difference, distance, gives, interval_words, p_words};
use domain::finding::{Confidence, Evidence, Finding, Remedy};
use domain::setting::SettingRequest;
use domain::study::{Factor, Level};

/// What a rule says of its setting.
pub(super) struct Words {
    pub rule: &'static str,
    /// The settings that it is about, by short name.
    pub settings: &'static [&'static str],
    /// What they are, for the title: `the frequency governor`.
    pub what: &'static str,
    /// The mechanism.
    pub reason: &'static str,
}

/// A finding for each factor that varies such a setting and makes a difference: the context where it is largest.
pub(super) fn findings(case: &Case<'_>, words: &Words) -> Vec<Finding> {
    let about = |factor: &&Factor| factor.levels.iter().any(|level| !requests(level, words).is_empty());
    case.data.study.factors.iter().filter(about).filter_map(|factor| finding(case, factor, words)).collect()
}

fn requests(level: &Level, words: &Words) -> Vec<SettingRequest> {
    let named = |s: &&SettingRequest| words.settings.contains(&s.setting.name.as_str());
    level.settings.iter().filter(named).cloned().collect()
}

fn finding(case: &Case<'_>, factor: &Factor, words: &Words) -> Option<Finding> {
    let effects = case.summary.effects.iter().filter(|effect| effect.factor == factor.name);
    let claimed =
        effects.flat_map(|effect| effect.comparisons.iter().map(move |c| (effect.context.as_str(), c)));
    let claimed = claimed.filter(|(_, c)| matches!(c.verdict, Verdict::Better | Verdict::Worse));
    let (context, largest) = claimed.max_by(|(_, a), (_, b)| distance(a).total_cmp(&distance(b)))?;
    let gains = largest.verdict == Verdict::Better;
    let best = if gains { &largest.b } else { &largest.a };
    let level = factor.levels.iter().find(|level| level.name == *best)?;
    Some(Finding {
        rule: words.rule,
        title: format!("{} decides in {context}: {}", words.what, gives("gives", largest)),
        reason: words.reason.to_owned(),
        evidence: figures(largest, context),
        confidence: Confidence::Shown,
        gain: gain(largest),
        remedy: Some(remedy(case, requests(level, words), best)),
        next: format!("flyball show {}", case.data.run.id),
    })
}

fn figures(comparison: &Comparison, context: &str) -> Vec<Evidence> {
    let Comparison { a, b, medians, unit, trials, .. } = comparison;
    let certainty: Vec<String> = comparison
        .interval
        .as_ref()
        .map(interval_words)
        .into_iter()
        .chain(comparison.p.map(p_words))
        .collect();
    vec![
        evidence(
            format!("{b} against {a}"),
            format!("{} ({})", difference(comparison), certainty.join(", ")),
            context,
        ),
        evidence(format!("median with {a}"), unit.show(medians.0), format!("{} trials", trials.0)),
        evidence(format!("median with {b}"), unit.show(medians.1), format!("{} trials", trials.1)),
    ]
}

fn remedy(case: &Case<'_>, settings: Vec<SettingRequest>, best: &str) -> Remedy {
    let old = case
        .data
        .trials
        .iter()
        .flat_map(|t| &t.settings)
        .find(|s| settings.iter().any(|r| r.setting.name == s.setting.name));
    let undo = match old {
        Some(record) => format!("write `{}` back to {}", record.before, record.path),
        None => "write the value back that it had before the study".to_owned(),
    };
    Remedy { what: format!("keep the level `{best}`"), settings, undo }
}
