//! All trials in the order in which they were measured, each relative to its own cell's median: a drift, a
//! jump or a noisy stretch of the machine shows here whatever the cells are.

use super::mark;
use super::scale::{Scale, tick_label};
use maud::{Markup, html};

const HEIGHT: u32 = 120;

/// One trial.
pub(crate) struct Measured {
    /// Its value over its cell's median.
    pub ratio: f64,
    /// Whether it counts, as the class of its mark.
    pub counts: Counts,
    /// What it says when pointed at.
    pub title: String,
}

/// Whether a trial counts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counts {
    /// It does.
    Yes,
    /// It was disturbed or failed.
    No,
}

/// The plot, with its vertical labels in a gutter of their own; `None` where nothing has a value.
pub(crate) fn plot(trials: &[Measured]) -> Option<Markup> {
    let scale = Scale::of_ratios(trials.iter().map(|t| t.ratio));
    let x = |i: usize| (i as f64 + 0.5) / trials.len() as f64;
    let y = |ratio: f64| 6.0 + (1.0 - scale.place(ratio)) * f64::from(HEIGHT - 12);
    let label = |t: f64| tick_label((t * 1e4).round() / 1e4);
    (!trials.is_empty()).then(|| html! {
        div class="timed" {
            svg class="gutter" width="44" height=(HEIGHT) aria-hidden="true" {
                @for tick in scale.ticks() { text x="38" y=(y(tick) + 4.0) text-anchor="end" { (label(tick)) } }
            }
            svg width="100%" height=(HEIGHT) role="img" aria-label="each trial relative to the median of its cell, in the order of measurement" {
                @for tick in scale.ticks() {
                    line class="grid" x1="0" x2="100%" y1=(y(tick)) y2=(y(tick)) {}
                }
                line class="one" x1="0" x2="100%" y1=(y(1.0)) y2=(y(1.0)) {}
                @for (i, t) in trials.iter().enumerate() {
                    @let (shape, class) = match t.counts { Counts::Yes => ("m0", "dot s0"), Counts::No => ("mx", "dot out") };
                    (mark(shape, class, x(i), y(t.ratio), &t.title))
                }
            }
            span {}
            div class="ends" { span { "first trial" } span { "trial " (trials.len()) } }
        }
    })
}
