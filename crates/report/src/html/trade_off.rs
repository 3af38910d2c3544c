//! Speed against watts, where cells differ in both: what is chosen between.

use super::pictures::metric;
use super::results::swatch;
use crate::sections::trade_off;
use crate::svg::Scale;
use crate::svg::scatter::{self, Along, Dot};
use crate::wording::{cell_label, value};
use crate::{Report, front, lab};
use analysis::summary::CellSummary;
use analysis::trade_off::{Place, places};
use domain::units::Unit;
use maud::{Markup, html};
use std::collections::BTreeSet;

/// The height of the plot, in pixels.
const HEIGHT: u32 = 220;

/// The marks of cells that no other beats in both, and of the others.
const UNBEATEN: usize = 0;
const BEATEN: usize = 3;

/// The figure of a workload's cells; `None` where there is nothing to choose between.
pub(super) fn figure(report: &Report, cells: &[&CellSummary], workload: &str) -> Option<Markup> {
    let places = places(report.data, report.summary, cells);
    let said = trade_off(report, &places)?;
    let unit = &report.summary.unit;
    let across = Along { scale: Scale::covering(places.iter().map(|one| one.figure))?, unit };
    let up = Along { scale: Scale::covering(places.iter().map(|one| one.watts))?, unit: &Unit::Watts };
    let dot = |place: &Place<'_>| Dot {
        across: place.figure,
        up: place.watts,
        series: if place.is_unbeaten { UNBEATEN } else { BEATEN },
        title: format!(
            "{}: {}, {}",
            cell_label(report, place.cell),
            value(unit, Some(place.figure)),
            Unit::Watts.show(place.watts)
        ),
    };
    let dots: Vec<Dot> = places.iter().map(dot).collect();
    let watts = if lab::energy_note(report).is_some() { "watts, modelled" } else { "watts" };
    let label = format!("{} of {workload} against watts", report.summary.metric);
    let notes: BTreeSet<&str> = [&up, &across].into_iter().filter_map(|axis| axis.scale.note()).collect();
    let kept = front::choices(report)
        .into_iter()
        .filter_map(|choice| Some((cell_label(report, choice.place.cell), choice.keep(report, "flyball")?)));
    let kept: Vec<(String, String)> = kept.collect();
    Some(html! {
        figure class="chart" {
            figcaption {
                (watts) ", over " (metric(report, Some(&across.scale))) @for note in &notes { "; " (note) }
            }
            ul class="legend" {
                li { (swatch(UNBEATEN)) " no other beats it in both" }
                li { (swatch(BEATEN)) " another does" }
            }
            (scatter::plot(&dots, &across, &up, HEIGHT, &label))
            p class="note" { (said) }
            @for (name, keep) in &kept { p class="note" { (name) ": " code { (keep) } } }
        }
    })
}
