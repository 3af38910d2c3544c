//! What a search for the trade-off of speed and watts found: each setting that no other beats in both, and
//! the command that keeps it.
//!
//! Nothing is changed by the search, for which of them is wanted nobody but the user knows.

use crate::Report;
use crate::inventory::page::Page;
use crate::wording::{cell_label, quoted, value};
use analysis::trade_off::{self, Place};
use domain::setting::SettingRequest;
use domain::trial::Provenance;
use domain::units::Unit;

/// How many of them a screen has.
const MOST_SHOWN: usize = 4;

/// One of them.
pub(crate) struct Choice<'a> {
    pub place: Place<'a>,
    /// What is written for it; nothing of the machine as it is.
    pub settings: Vec<&'a SettingRequest>,
    /// Joules of an operation, where the metric counts some.
    pub joules: Option<f64>,
}

/// All of them, the fastest first; none of another run.
pub(crate) fn choices<'a>(report: &Report<'a>) -> Vec<Choice<'a>> {
    let choice = |place: Place<'a>| Choice {
        settings: trade_off::settings(report.data, place.cell),
        joules: place.joules(&report.summary.unit),
        place,
    };
    trade_off::front(report.data, report.summary).into_iter().map(choice).collect()
}

impl Choice<'_> {
    /// Speed, watts, and energy of an operation, in words.
    pub(crate) fn figures(&self, unit: &Unit) -> String {
        let joules = self.joules.map(|joules| format!(", {}", energy(joules, unit))).unwrap_or_default();
        format!("{}, {}{joules}", value(unit, Some(self.place.figure)), Unit::Watts.show(self.place.watts))
    }

    /// The command that keeps it on the machine that was measured; `None` of the machine as it is, and of a
    /// model.
    pub(crate) fn keep(&self, report: &Report, program: &str) -> Option<String> {
        let is_here = report.data.run.provenance == Provenance::Host;
        let words = self.settings.iter().map(|one| quoted(&format!("{}={}", one.setting, one.value)));
        let words: Vec<String> = words.map(|word| format!(" --set {word}")).collect();
        (is_here && !words.is_empty()).then(|| format!("{program} tune{} --persist", words.concat()))
    }
}

/// Joules of what the metric counts one of: a gigabyte, an operation, the whole.
fn energy(joules: f64, unit: &Unit) -> String {
    match unit {
        Unit::BytesPerSecond => format!("{} per GB", Unit::Joules.show(joules * 1e9)),
        Unit::PerSecond => format!("{} each", Unit::Joules.show(joules)),
        _ => Unit::Joules.show(joules),
    }
}

/// The part of a screen that has them.
pub(crate) fn section(report: &Report, program: &str, page: &mut Page) {
    let choices = choices(report);
    if choices.is_empty() {
        return;
    }
    page.section("Trade-off");
    let last = choices.len() - 1;
    let most = choices.len().min(MOST_SHOWN);
    for at in 0..most {
        // Both ends, and some in between.
        let choice = &choices[at * last / most.saturating_sub(1).max(1)];
        let name = cell_label(report, choice.place.cell);
        page.line(format!("{name}: {}", choice.figures(&report.summary.unit)));
        if let Some(keep) = choice.keep(report, program) {
            page.command(&keep);
        }
    }
    if choices.len() > most {
        page.line(format!("and {} more: `{program} report {}`", choices.len() - most, report.data.run.id));
    }
}
