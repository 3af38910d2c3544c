//! Whose CPU time each cell took: the workload's own apart from that of the threads that serve it.

use crate::Report;
use crate::cpu_share::{cores_by_role, notable, shown};
use crate::wording::{counted, levels};
use domain::order;
use domain::trace::Role;
use maud::{Markup, html};

/// Cells that are shown at once; the others are folded.
const OPEN_CELLS: usize = 16;

pub(super) fn body(report: &Report) -> Option<Markup> {
    let rows: Vec<(String, Vec<(Role, f64)>)> = (report.summary.cells.iter())
        .filter_map(|c| {
            let name = if c.levels.is_empty() {
                c.workload.clone()
            } else {
                format!("{} · {}", c.workload, levels(report, c))
            };
            Some((name, cores_by_role(report, c)?))
        })
        .collect();
    let most = rows.iter().map(|(_, r)| total(r)).fold(0.0, f64::max);
    let seen =
        Role::ALL.into_iter().filter(|role| rows.iter().any(|(_, r)| r.iter().any(|(x, _)| x == role)));
    (most > 0.0).then(|| html! {
        p class="note" { "Mean cores in use over the valid trials of each cell. 1 core is one CPU busy all the time." }
        (legend(seen.map(|r| (colour(r), r.name().to_owned()))))
        @let (open, folded) = rows.split_at(rows.len().min(OPEN_CELLS));
        (bars(open, most))
        @if !folded.is_empty() {
            details { summary { (counted(folded.len(), "more cell")) } (bars(folded, most)) }
        }
    })
}

fn bars(rows: &[(String, Vec<(Role, f64)>)], most: f64) -> Markup {
    html! {
        div class="bars roles" {
            @for (name, roles) in rows {
                div class="bar" {
                    span class="what" { (name) }
                    span class="rail" aria-hidden="true" {
                        @for (role, cores) in roles {
                            @let width = format!("width:{:.2}%", cores / most * 100.0);
                            span class={ "r" (colour(*role)) } style=(width) title={ (role) ": " (shown(*cores)) " cores" } {}
                        }
                    }
                    span class="n" { (shown(total(roles))) }
                    span class="parts" { (parts(roles)) }
                }
            }
        }
    }
}

/// The same figures in words, largest first, so that no colour has to be matched.
fn parts(roles: &[(Role, f64)]) -> String {
    let mut sorted: Vec<(Role, f64)> = notable(roles).copied().collect();
    order::by(&mut sorted, |a, b| b.1.total_cmp(&a.1));
    sorted.iter().map(|(role, cores)| format!("{role} {}", shown(*cores))).collect::<Vec<_>>().join(", ")
}

fn total(roles: &[(Role, f64)]) -> f64 {
    roles.iter().map(|(_, cores)| cores).sum()
}

/// A role keeps its colour on the whole page.
pub(super) fn colour(role: Role) -> usize {
    Role::ALL.iter().position(|r| *r == role).expect("ALL holds every role")
}

/// What the colours mean.
pub(super) fn legend(entries: impl Iterator<Item = (usize, String)>) -> Markup {
    html! {
        ul class="legend" {
            @for (colour, name) in entries { li { span class={ "chip r" (colour) } aria-hidden="true" {} (name) } }
        }
    }
}
