//! What a study that varies a setting has shown of it: the common part of the rules about settings.

use super::case::{Case, UNTUNE, evidence, gain};
use super::pair::Pair;
use crate::summary::{Comparison, Verdict};
use crate::words::{difference, distance, gives, interval_words, p_words};
use domain::finding::{Confidence, Evidence, Finding, Remedy};
use domain::setting::SettingRequest;
use domain::study::{Factor, Level};

/// What a rule says of its setting.
pub(super) struct Words {
    pub rule: &'static str,
    /// Whether it is about this setting, by its short name.
    pub is_about: fn(&str) -> bool,
    /// What they are, for the title: `the frequency governor`.
    pub what: &'static str,
    /// The mechanism, of the slower of two levels' settings.
    pub reason: fn(&[SettingRequest]) -> String,
}

/// A finding for each factor that varies such a setting and makes a difference: the context where it is
/// largest.
pub(super) fn findings(case: &Case<'_>, words: &Words) -> Vec<Finding> {
    let about = |factor: &&Factor| factor.levels.iter().any(|level| !requests(level, words).is_empty());
    case.data.study.factors.iter().filter(about).filter_map(|factor| finding(case, factor, words)).collect()
}

fn requests(level: &Level, words: &Words) -> Vec<SettingRequest> {
    let named = |s: &&SettingRequest| (words.is_about)(&s.setting.name);
    level.settings.iter().filter(named).cloned().collect()
}

fn finding(case: &Case<'_>, factor: &Factor, words: &Words) -> Option<Finding> {
    let cells = case.cells();
    let effects = case.effects(&cells, &factor.name, |part| part.is_setting(words.is_about));
    let claimed =
        effects.into_iter().filter(|(_, c, _)| matches!(c.verdict, Verdict::Better | Verdict::Worse));
    let (context, largest, pair) =
        claimed.max_by(|(_, a, _), (_, b, _)| distance(a).total_cmp(&distance(b)))?;
    let gains = largest.verdict == Verdict::Better;
    let (best, worst) = if gains { (&largest.b, &largest.a) } else { (&largest.a, &largest.b) };
    let settings = |name: &str| {
        let level = factor.levels.iter().find(|level| level.name == name);
        level.map(|level| requests(level, words)).unwrap_or_default()
    };
    let mut figures = figures(largest, context);
    figures.extend(pair.costs(case));
    Some(Finding {
        rule: words.rule,
        title: format!("{} decides in {context}: {}", words.what, gives("gives", largest)),
        reason: (words.reason)(&settings(worst)),
        evidence: figures,
        confidence: Confidence::Shown,
        gain: gain(largest),
        remedy: Some(remedy(settings(best), best, &pair)),
        next: format!("flyball show {}", case.data.run.id),
        compared: vec![pair.cells()],
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

fn remedy(settings: Vec<SettingRequest>, best: &str, pair: &Pair<'_, '_>) -> Remedy {
    // The values that the machine had before the study, as its trials found them.
    let trials = pair.a().trials.iter().chain(&pair.b().trials);
    let records = trials.flat_map(|trial| &trial.settings);
    let of = |request: &SettingRequest| records.clone().find(|r| r.setting.name == request.setting.name);
    let before: Vec<_> = settings.iter().filter_map(|request| Some((request, of(request)?))).collect();
    let is_kept = !before.is_empty() && before.iter().all(|(request, record)| record.before == request.value);
    if is_kept {
        let what = format!("leave it as it is: `{best}` was set before the study");
        return Remedy { what, settings: vec![], undo: "nothing was changed".into() };
    }
    Remedy { what: format!("keep the level `{best}`"), settings, undo: UNTUNE.into() }
}
