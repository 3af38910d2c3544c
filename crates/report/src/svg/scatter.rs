//! Two figures of each cell against each other: a mark a cell.

use super::scale::{Scale, tick_label};
use super::{mark, percent, shown_in, tenths};
use domain::units::Unit;
use maud::{Markup, html};

/// One cell.
pub(crate) struct Dot {
    /// To the right.
    pub across: f64,
    /// Upwards.
    pub up: f64,
    /// Which mark and colour it has.
    pub series: usize,
    /// What it says when pointed at.
    pub title: String,
}

/// An axis with the unit of its values.
pub(crate) struct Along<'a> {
    pub scale: Scale,
    pub unit: &'a Unit,
}

/// Marks at both ends stay within the plot.
const INSET: f64 = 0.03;

/// Room above and below for the marks, in pixels.
const ROOM: f64 = 7.0;

/// The marks with their two axes.
pub(crate) fn plot(dots: &[Dot], across: &Along<'_>, up: &Along<'_>, height: u32, label: &str) -> Markup {
    // The unit across stands in the caption, as the metric's does everywhere.
    let (of_across, _) = shown_in(&across.scale, across.unit);
    let (of_up, name_up) = shown_in(&up.scale, up.unit);
    let x = |value: f64| INSET + across.scale.place(value) * (1.0 - 2.0 * INSET);
    let y = |value: f64| ROOM + (1.0 - up.scale.place(value)) * (f64::from(height) - 2.0 * ROOM);
    html! {
        div class="timed curve" {
            svg class="gutter" width="44" height=(height) aria-hidden="true" {
                @for tick in up.scale.ticks() {
                    text x="38" y=(tenths((y(tick) + 4.0).clamp(10.0, f64::from(height) - 1.0))) text-anchor="end" { (tick_label(tick / of_up)) }
                }
            }
            svg width="100%" height=(height) role="img" aria-label=(label) {
                @for tick in up.scale.ticks() {
                    line class="grid" x1="0" x2="100%" y1=(tenths(y(tick))) y2=(tenths(y(tick))) {}
                }
                @for tick in across.scale.ticks() {
                    @let at = percent(x(tick));
                    line class="grid faint" x1=(at) x2=(at) y1="0" y2=(height) {}
                }
                @for dot in dots {
                    (mark(&format!("m{}", dot.series), &format!("dot s{}", dot.series), x(dot.across), y(dot.up), &dot.title))
                }
            }
            span class="unit" { (name_up) }
            svg class="axis" width="100%" height="20" aria-hidden="true" {
                @for tick in across.scale.ticks() {
                    text x=(percent(x(tick))) y="14" text-anchor="middle" { (tick_label(tick / of_across)) }
                }
            }
        }
    }
}
