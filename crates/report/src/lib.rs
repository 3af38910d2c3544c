//! Reports: one run, or one comparison, as a page, Markdown, text, CSV or JSON. Pure: data in, a `String`
//! out.
//!
//! Every form says the same things in the same order: the question, the verdict in one sentence, the machine,
//! the figures with their intervals, the findings, what could not be measured and why, what was not counted
//! and why, and how to do it again; text for a terminal names the findings on its first screen, too. No form
//! computes a statistic: medians, intervals and verdicts come from [`analysis`]; what is added here is only
//! scaling to units for people, sums of what trials recorded, and the downsampling of traces ([`TraceView`]).
//!
//! What a report does not know it says in words; it never shows a zero for it.
//!
//! Invariants: the same input gives the same bytes; no text of a study, a tool or a device reaches a page
//! unescaped or a terminal with its control characters; the page loads nothing from anywhere.

mod book;
mod checked;
mod columns;
mod command;
mod comparison;
mod cpu_share;
mod csv;
mod diagnosis;
mod document;
mod fidelity;
mod front;
pub mod history;
mod html;
pub mod inventory;
mod json;
mod lab;
mod markdown;
mod next;
mod numeric;
mod published;
pub mod replayed;
mod rules;
mod sections;
mod short;
mod simulation;
mod states;
mod svg;
mod text;
pub mod trace_view;
mod tuned;
mod wording;

pub use book::{
    IndexEntry, PageOrigin, PageReport, index_markdown, page_html, page_json, page_markdown, page_text,
};
pub use checked::{Checked, checked_text, usual_sources};
pub use columns::{Columns, broken, within, wrapped};
pub use command::{COMMAND_INDENT, command_lines, first_command};
pub use comparison::ComparisonReport;
pub use csv::csv;
pub use diagnosis::{Diagnosis, diagnosis_text};
pub use fidelity::{fidelity_json, fidelity_text};
pub use html::{comparison_html, html};
pub use json::{SCHEMA, comparison_json, json};
pub use markdown::{comparison_markdown, markdown};
pub use next::under_load_command;
pub use rules::rules;
pub use sections::use_in_words;
pub use short::short_text;
pub use simulation::simulation_note;
pub use text::{Wide, comparison_text, findings_text, text, trial_text};
pub use trace_view::TraceView;
pub use tuned::{MeasuredOn, not_kept};
pub use wording::machine as machine_line;
pub use wording::quoted as shell_quoted;

use analysis::summary::{RunData, RunSummary};
use domain::finding::{Finding, NotMeasured};
use domain::ids::TrialKey;

/// Everything that a report of one run shows.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The run, its study and its trials.
    pub data: &'a RunData,
    /// The run as numbers, by the metric that the report is about.
    pub summary: &'a RunSummary,
    /// What was diagnosed, most important first.
    pub findings: &'a [Finding],
    /// What could not be measured, and why.
    pub not_measured: &'a [NotMeasured],
    /// The machine in one line: `2 × Xeon 2.5 GHz, Linux 6.18, KVM guest, ext4 on vda`. Without it the run's
    /// own digest of the machine is shown.
    pub machine: Option<&'a str>,
    /// The inventory as text, shown folded.
    pub inventory_text: Option<&'a str>,
    /// The traces to draw, in the order in which they are offered. A page draws the first
    /// [`MAX_TRACES`] and says how many it left out.
    pub traces: &'a [(TrialKey, TraceView)],
}

/// How many traces a page draws: at about 50 kB each the page stays near 2 MB, which a phone still opens at
/// once. The notebook keeps all of them.
pub const MAX_TRACES: usize = 40;
