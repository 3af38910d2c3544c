//! Ratios with their intervals around "no difference", one row a comparison.

use super::scale::{Scale, tick_label};
use super::{axis_of, grid, percent};
use crate::wording::{ratio, ratio_interval, verdict_word};
use analysis::summary::{Comparison, Verdict};
use maud::{Markup, html};

const HEIGHT: u32 = 30;

/// The axis that shows all of these comparisons.
pub(crate) fn scale<'a>(comparisons: impl IntoIterator<Item = &'a Comparison>) -> Scale {
    let ends = |c: &'a Comparison| {
        let interval = c.interval.iter().flat_map(|i| [i.low, i.high]);
        interval.chain(c.ratio).chain([1.0 - c.threshold, 1.0 + c.threshold])
    };
    Scale::of_ratios(comparisons.into_iter().flat_map(ends))
}

/// One comparison: the threshold as a shaded band around 1, the interval as a line, the ratio as a mark.
pub(crate) fn row(comparison: &Comparison, scale: &Scale) -> Markup {
    let c = comparison;
    let one = percent(scale.place(1.0));
    let (from, to) = (scale.place(1.0 - c.threshold), scale.place(1.0 + c.threshold));
    let class = match c.verdict {
        Verdict::Better => "ratio better",
        Verdict::Worse => "ratio worse",
        Verdict::Same => "ratio same",
        Verdict::Undecided => "ratio undecided",
    };
    let described = format!(
        "{} against {}: {}, interval {}, {}",
        c.b,
        c.a,
        ratio(c),
        ratio_interval(c),
        verdict_word(c.verdict)
    );
    html! {
        svg class="forest" width="100%" height=(HEIGHT) role="img" aria-label=(described) {
            (grid(scale, HEIGHT))
            rect class="threshold" x=(percent(from)) width=(percent(to - from)) y="0" height=(HEIGHT) {}
            line class="one" x1=(one) x2=(one) y1="0" y2=(HEIGHT) {}
            g class=(class) {
                @if let Some(i) = &c.interval {
                    @let (low, high) = (percent(scale.place(i.low)), percent(scale.place(i.high)));
                    line class="whisker" x1=(low) x2=(high) y1=(HEIGHT / 2) y2=(HEIGHT / 2) {}
                    @for x in [&low, &high] { line class="whisker" x1=(x) x2=(x) y1=(HEIGHT / 2 - 4) y2=(HEIGHT / 2 + 4) {} }
                }
                @if let Some(ratio) = c.ratio {
                    use href=(shape(c.verdict)) class="dot" x=(percent(scale.place(ratio))) y=(HEIGHT / 2) {
                        title { (c.sentence) }
                    }
                }
            }
        }
    }
}

/// A verdict has a shape besides its colour.
const fn shape(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Better => "#m2",
        Verdict::Worse => "#m4",
        Verdict::Same => "#m1",
        Verdict::Undecided => "#m0",
    }
}

/// The axis below: percent near one, factors far from it.
pub(crate) fn axis(scale: &Scale) -> Markup {
    let label = |t: f64| match scale {
        Scale::Log { .. } => format!("×{}", tick_label(t)),
        Scale::Linear { .. } => match tick_label(((t - 1.0) * 1e4).round() / 100.0).as_str() {
            "0" => "equal".to_owned(),
            percent if percent.starts_with('−') => format!("{percent}%"),
            percent => format!("+{percent}%"),
        },
    };
    let labels: Vec<(f64, String)> = scale.ticks().into_iter().map(|t| (t, label(t))).collect();
    let equal = labels.iter().position(|(t, _)| (t - 1.0).abs() < 1e-9).unwrap_or(0);
    axis_of(scale, labels, equal)
}
