//! What a study that varies a setting, or a key of its storage, has shown of it: the common part of the rules
//! about such.

use super::next_step::UNTUNE;
use super::pair::{Effect, Pair, Part, modest};
use crate::facts::case::{Case, CaseCell, evidence, gain};
use crate::summary::{Comparison, Verdict};
use crate::words::{bracketed_certainty, certainty, difference, distance, gives, p_words};
use domain::finding::{Confidence, Evidence, Finding, Remedy};
use domain::order;
use domain::setting::SettingRequest;
use domain::study::{Factor, Level};

/// What a rule says of its setting, or of its keys of storage.
pub(super) struct Words {
    pub rule: &'static str,
    /// Whether it is about this setting, by its short name.
    pub is_about: fn(&str) -> bool,
    /// The keys of a layer of storage that it is about: `bitmap` of `[stack.NAME]`.
    pub keys: &'static [&'static str],
    /// What they are, for the title: `the frequency governor`.
    pub what: &'static str,
    /// The mechanism, of the slower of two levels' settings.
    pub reason: fn(&Case<'_>, &[SettingRequest]) -> String,
    /// How a person changes the storage, and what undoes that; nothing for a rule without keys.
    pub by_hand: ByHand,
}

/// A change of storage that a person makes: what to do, and what undoes it.
pub(super) type ByHand = (&'static str, &'static str);

/// Of a rule about settings alone.
pub(super) const NO_KEYS: &[&str] = &[];

/// Likewise.
pub(super) const NOTHING_BY_HAND: ByHand = ("", "");

/// Of a rule about storage alone.
pub(super) const NO_SETTING: fn(&str) -> bool = |_| false;

/// A finding for each factor that varies such a setting and makes a difference: the context where it is
/// largest.
pub(super) fn findings(case: &Case<'_>, words: &Words) -> Vec<Finding> {
    let about = |factor: &&Factor| factor.levels.iter().any(|level| changes(level, words));
    case.data.study.factors.iter().filter(about).filter_map(|factor| finding(case, factor, words)).collect()
}

/// Whether the study varies such a setting, or such a key.
pub(super) fn is_varied(case: &Case<'_>, words: &Words) -> bool {
    case.data.study.factors.iter().flat_map(|factor| &factor.levels).any(|level| changes(level, words))
}

fn changes(level: &Level, words: &Words) -> bool {
    !requests(level, words).is_empty() || level.stack.keys().any(|path| is_key(path, words))
}

/// Whether a level changes this key of a layer, `array.bitmap`, and the rule is about it.
fn is_key(path: &str, words: &Words) -> bool {
    path.split_once('.').is_some_and(|(_, key)| words.keys.contains(&key))
}

fn requests(level: &Level, words: &Words) -> Vec<SettingRequest> {
    let named = |s: &&SettingRequest| (words.is_about)(&s.setting.name);
    level.settings.iter().filter(named).cloned().collect()
}

fn finding(case: &Case<'_>, factor: &Factor, words: &Words) -> Option<Finding> {
    let cells = case.cells();
    let of_keys = |name: &str| {
        let level = factor.levels.iter().find(|level| level.name == name);
        level.is_none_or(|level| level.stack.keys().all(|path| is_key(path, words)))
    };
    let is_meant =
        |part: &Part| part.is_setting(words.is_about) || (*part == Part::Storage && !words.keys.is_empty());
    let mut effects = case.effects(&cells, &factor.name, is_meant);
    effects.retain(|(_, comparison, _)| of_keys(&comparison.a) && of_keys(&comparison.b));
    let is_claimed = |(_, c, _): &&Effect<'_, '_>| matches!(c.verdict, Verdict::Better | Verdict::Worse);
    let claimed: Vec<&Effect<'_, '_>> = effects.iter().filter(is_claimed).collect();
    let (context, largest, pair) =
        claimed.iter().copied().max_by(|(_, a, _), (_, b, _)| distance(a).total_cmp(&distance(b)))?;
    let gains = largest.verdict == Verdict::Better;
    let worst = if gains { &largest.a } else { &largest.b };
    let settings = |name: &str| {
        let level = factor.levels.iter().find(|level| level.name == name);
        level.map(|level| requests(level, words)).unwrap_or_default()
    };
    let best = to_keep(case, context, pair.a(), &effects);
    let best_level = best.cell.levels[&factor.name].clone();
    let chosen = effects.iter().find(|(at, c, _)| at == context && c.b == best_level);
    // Where the first level is kept, what counts is what it costs against the worst.
    let kept = (largest, pair.reversed());
    let (gained, costs) = chosen.map_or(kept, |(_, comparison, pair)| (comparison, *pair));
    let mut figures = figures(largest, context);
    figures.extend(chosen.filter(|(_, c, _)| c.b != largest.b).map(|(_, c, _)| against(c, context)));
    figures.extend(elsewhere(&claimed, context));
    figures.extend(costs.costs(case, &best_level));
    Some(Finding {
        rule: words.rule,
        title: format!("{} decides in {context}: {}", words.what, gives("gives", largest)),
        reason: (words.reason)(case, &settings(worst)),
        evidence: figures,
        confidence: Confidence::Shown,
        gain: gain(gained),
        remedy: Some(remedy(settings(&best_level), &best_level, pair, words)),
        next: format!("flyball show {}", case.data.run.id),
        compared: claimed.into_iter().chain(chosen).map(|(.., pair)| pair.cells()).collect(),
    })
}

/// The cell of a context whose level is to be kept: the best, or what changes least among its equals, of
/// those that are compared with `first`.
fn to_keep<'c, 'a>(
    case: &Case<'_>,
    context: &str,
    first: &'c CaseCell<'a>,
    effects: &[Effect<'c, 'a>],
) -> &'c CaseCell<'a> {
    let is_here = |(at, _, pair): &&Effect<'_, '_>| *at == context && pair.a().cell.id == first.cell.id;
    let here = effects.iter().filter(is_here).map(|(.., pair)| pair.b());
    let cells: Vec<&'c CaseCell<'a>> = std::iter::once(first).chain(here).collect();
    modest(case, first, &cells).unwrap_or(first)
}

/// So many other contexts are told with their figures.
const MAX_ELSEWHERE: usize = 3;

/// The same cause in other contexts: the largest difference of each.
fn elsewhere(claimed: &[&Effect<'_, '_>], context: &str) -> Vec<Evidence> {
    let mut largest: Vec<&Effect<'_, '_>> = Vec::new();
    for effect in claimed.iter().copied().filter(|(at, ..)| *at != context) {
        match largest.iter_mut().find(|(at, ..)| *at == effect.0) {
            Some(known) if distance(&known.1) < distance(&effect.1) => *known = effect,
            Some(_) => {}
            None => largest.push(effect),
        }
    }
    order::by(&mut largest, |a, b| distance(&b.1).total_cmp(&distance(&a.1)));
    let left = largest.len().saturating_sub(MAX_ELSEWHERE);
    let told = largest.iter().take(MAX_ELSEWHERE).map(|(at, comparison, _)| against(comparison, at));
    let rest = (left > 0).then(|| evidence("decides too in", format!("{left} more contexts"), "the summary"));
    told.chain(rest).collect()
}

fn against(comparison: &Comparison, context: &str) -> Evidence {
    let Comparison { a, b, .. } = comparison;
    let figure = format!("{}{}", difference(comparison), bracketed_certainty(comparison));
    evidence(format!("{b} against {a}"), figure, context)
}

fn figures(comparison: &Comparison, context: &str) -> Vec<Evidence> {
    let Comparison { a, b, medians, unit, trials, .. } = comparison;
    let certainty: Vec<String> =
        [certainty(comparison)].into_iter().chain(comparison.p.map(p_words)).collect();
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

fn remedy(settings: Vec<SettingRequest>, best: &str, pair: &Pair<'_, '_>, words: &Words) -> Remedy {
    let (by_hand, undo) = words.by_hand;
    if settings.is_empty() && !by_hand.is_empty() {
        return Remedy { what: format!("choose `{best}`: {by_hand}"), settings, undo: undo.into() };
    }
    // The values that the machine had before the study, as its trials found them.
    let trials = pair.a().trials.iter().chain(&pair.b().trials);
    let records = trials.flat_map(|trial| &trial.settings);
    let of = |request: &SettingRequest| records.clone().find(|r| r.setting.name == request.setting.name);
    let before: Vec<_> = settings.iter().filter_map(|request| Some((request, of(request)?))).collect();
    // What no trial of the two touched, nobody knows the value of.
    let is_known = !before.is_empty() && before.len() == settings.len();
    let is_kept = is_known && before.iter().all(|(request, record)| record.before == request.value);
    if is_kept {
        let what = format!("leave it as it is: `{best}` was set before the study");
        return Remedy { what, settings: vec![], undo: "nothing was changed".into() };
    }
    Remedy { what: format!("keep the level `{best}`"), settings, undo: UNTUNE.into() }
}
