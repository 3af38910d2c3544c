//! Our own plotting: small SVG pieces that the page puts together.
//!
//! Horizontal places are percentages, vertical ones pixels, and no piece has a `viewBox`: a plot is as wide
//! as the page allows while its text, dots and strokes keep their size, on a phone as in print. Only the
//! lines over time, which need paths, sit in a box that is stretched, with strokes that are not.
//!
//! Colour never stands alone: a series has a mark of its own shape or a label at its side.

pub(crate) mod scale;

pub(crate) mod curve;
pub(crate) mod forest;
pub(crate) mod order;
pub(crate) mod scatter;
pub(crate) mod series;
pub(crate) mod strip;

pub(crate) use scale::Scale;

use domain::units::Unit;
use maud::{Markup, html};
use scale::tick_label;

/// How many colours and marks there are; levels beyond them begin anew, and their labels tell them apart.
pub(crate) const MARKS: usize = 7;

/// The marks of the levels, once for the whole page; [`mark`] refers to them.
pub(crate) fn definitions() -> Markup {
    html! {
        svg class="defs" width="0" height="0" aria-hidden="true" focusable="false" {
            defs {
                g id="m0" { circle r="4.2" {} }
                g id="m1" { rect x="-3.8" y="-3.8" width="7.6" height="7.6" {} }
                g id="m2" { path d="M0-5.2 4.9 3.6H-4.9Z" {} }
                g id="m3" { path d="M0-5.4 5.4 0 0 5.4-5.4 0Z" {} }
                g id="m4" { path d="M0 5.2 4.9-3.6H-4.9Z" {} }
                g id="m5" { path d="M-4.6-1.6H-1.6V-4.6H1.6V-1.6H4.6V1.6H1.6V4.6H-1.6V1.6H-4.6Z" {} }
                g id="m6" { path d="M0-5.2 5-1.6 3.1 4.2H-3.1L-5-1.6Z" {} }
                g id="mx" { path class="cross" d="M-3.6-3.6 3.6 3.6M3.6-3.6-3.6 3.6" {} }
            }
        }
    }
}

/// One trial's dot; what it says when pointed at is its title.
pub(crate) fn mark(shape: &str, class: &str, x: f64, y: f64, title: &str) -> Markup {
    html! {
        use href={ "#" (shape) } class=(class) x=(percent(x)) y=(tenths(y)) { title { (title) } }
    }
}

/// A place along an axis as SVG takes it.
pub(crate) fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
}

/// Pixels to a tenth.
pub(crate) fn tenths(pixels: f64) -> String {
    let text = format!("{pixels:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// Vertical lines at the ticks, for a row of this height.
pub(crate) fn grid(scale: &Scale, height: u32) -> Markup {
    html! {
        @for tick in scale.ticks() {
            @let x = percent(scale.place(tick));
            line class="grid" x1=(x) x2=(x) y1="0" y2=(height) {}
        }
    }
}

/// The labels below a group of rows, in the unit that [`shown_in`] names.
pub(crate) fn axis(scale: &Scale, unit: &Unit) -> Markup {
    let (factor, _) = shown_in(scale, unit);
    axis_of(scale, scale.ticks().into_iter().map(|t| (t, tick_label(t / factor))).collect(), 0)
}

/// How an axis shows a unit: `shown = value / scale`, and the name of the unit, to suit the largest tick.
pub(crate) fn shown_in(scale: &Scale, unit: &Unit) -> (f64, String) {
    unit.axis(scale.ticks().iter().fold(0.0, |most, t| t.abs().max(most)))
}

/// More labels than this touch each other on a phone.
const MAX_LABELS: usize = 6;

/// Labels below a group of rows, as many as fit; the one at the index `keep` is among them.
pub(crate) fn axis_of(scale: &Scale, labels: Vec<(f64, String)>, keep: usize) -> Markup {
    let stride = labels.len().div_ceil(MAX_LABELS).max(1);
    html! {
        svg class="axis" width="100%" height="20" aria-hidden="true" {
            @for (tick, label) in labels.iter().skip(keep % stride).step_by(stride) {
                text x=(percent(scale.place(*tick))) y="14" text-anchor="middle" { (label) }
            }
        }
    }
}
