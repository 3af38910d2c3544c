//! The page: one self-contained file that loads nothing, works without its script, and prints.
//!
//! Templates are `maud`, so that every text is escaped unless it was built here, and tags always close.
//! Characters that are no markup and yet act (controls, marks of direction) become visible in the page as a
//! whole; letters that are written from right to left turn nothing around beside the element that they are in
//! (`unicode-bidi` in the style).

mod comparison;
mod effects;
mod environment;
mod events;
mod findings;
mod first;
mod head;
mod lab;
mod pictures;
mod processors;
mod published;
mod reproduce;
mod results;
mod traces;
mod trade_off;
mod trials;

pub use comparison::comparison_html;

use crate::document::in_html;
use crate::wording::{direction, headline, machine, question, trial_count};
use crate::{Report, sections, simulation, svg};
use domain::inert;
use domain::trial::Provenance;
use maud::{DOCTYPE, Markup, html};

/// A run as one HTML file.
pub fn html(report: &Report) -> String {
    let sections = if report.data.study.is_recording() { of_recording(report) } else { of_study(report) };
    page(
        question(report),
        &html! {
            (masthead(report))
            nav aria-label="Sections" {
                @for s in &sections { a href={ "#" (s.id) } { (s.title) } " " }
            }
            main {
                @for s in &sections {
                    section id=(s.id) aria-labelledby={ (s.id) "-title" } {
                        h2 id={ (s.id) "-title" } { (s.title) }
                        (s.body)
                    }
                }
            }
        },
    )
}

fn of_study(report: &Report) -> Vec<Section> {
    let sections = [
        section("results", "Results", results::body(report)),
        section("published", crate::published::TITLE, published::body(report)),
        section("effects", "What each factor changes", effects::body(report)),
        section("attribution", "What decides", effects::attribution(report)),
        section("virtual", "What the virtual CPUs did", lab::body(report)),
        section("findings", "Findings", findings::body(report)),
        section("not-measured", "What could not be measured, and why", findings::not_measured(report)),
        section("cpu", "Whose CPU time it was", processors::body(report)),
        section("spent", sections::SPENT_TITLE, events::spent(report)),
        section("windows", sections::WINDOWS_TITLE, events::windows(report)),
        section("waits", sections::WAITS_TITLE, events::waits(report)),
        section("served", sections::SERVED_TITLE, events::served(report)),
        section("layers", sections::BECAME_TITLE, events::became(report)),
        section("passages", sections::TIMES_TITLE, events::times(report)),
        section("calls", sections::TOOK.title, events::calls(report, &sections::TOOK)),
        section("calls-bios", sections::WAY.title, events::calls(report, &sections::WAY)),
        section("calls-made", sections::MADE.title, events::calls(report, &sections::MADE)),
        section("steadiness", "How steady the machine was", trials::steadiness(report)),
        section("trials", "Trials", trials::body(report)),
        section("traces", "Over time", traces::body(report)),
        section("reproduce", "How to reproduce it", reproduce::body(report)),
        section("appendix", "Appendix: the study file and the commands", reproduce::appendix(report)),
        section("environment", "Environment", environment::body(report)),
    ];
    sections.into_iter().flatten().collect()
}

/// Of one trial there is nothing to compare and nothing to average.
fn of_recording(report: &Report) -> Vec<Section> {
    let sections = [
        section("recorded", "What was recorded", recorded(report)),
        section("traces", "Over time", traces::body(report)),
        section("findings", "Findings", findings::body(report)),
        section("not-measured", "What could not be measured, and why", findings::not_measured(report)),
        section("reproduce", "How to record it again", reproduce::body(report)),
        section("appendix", "Appendix: the study file and the commands", reproduce::appendix(report)),
        section("environment", "Environment", environment::body(report)),
    ];
    sections.into_iter().flatten().collect()
}

fn recorded(report: &Report) -> Option<Markup> {
    let parts = sections::recorded_parts(report);
    (!parts.is_empty()).then(|| {
        html! {
            @for (title, blocks) in &parts {
                h3 { (title) }
                @for block in blocks { (in_html(block)) }
            }
        }
    })
}

/// A part of the page; one without anything to say is left out, and so is its place in the contents.
struct Section {
    id: &'static str,
    title: &'static str,
    body: Markup,
}

/// How a run's figures came to be here at its time.
const fn came(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Simulation => "Computed",
        // When it was measured, the file seldom says.
        Provenance::Imported => "Imported",
        Provenance::Host | Provenance::Lab => "Measured",
    }
}

fn section(id: &'static str, title: &'static str, body: Option<Markup>) -> Option<Section> {
    body.map(|body| Section { id, title, body })
}

fn masthead(report: &Report) -> Markup {
    let run = &report.data.run;
    html! {
        header {
            p class="overline" { "Flyball report · study " (report.data.study.name) }
            h1 { (question(report)) }
            p class="verdict" { (prose(&headline(report))) }
            @if let Some(note) = simulation::note(report) { p class="model" { (note) } }
            (first::answer_picture(report))
            (first::next(report))
            p class="machine" { (machine(report)) }
            dl class="facts" {
                dt { (came(run.provenance)) } dd { (run.started.iso().replace('T', " ").replace('Z', " UTC")) @if run.finished.is_none() { strong { ", not finished" } } }
                dt { "On" } dd { (run.provenance.name()) }
                @if !report.data.study.is_recording() {
                    dt { "Trials" } dd { (trial_count(report)) }
                    dt { "Metric" } dd { (report.summary.metric) ", " (direction(report.summary.better)) }
                }
                dt { "Run" } dd { (run.id) }
            }
        }
    }
}

/// Everything around the content of a page.
fn page(title: &str, content: &Markup) -> String {
    let plots = html! { "Written by Flyball. In rows with a stroke the stroke is the median and dots are single trials; elsewhere marks are medians. Bars and bands are intervals of the median; what is crossed was measured and not counted." };
    framed(title, &html! { (svg::definitions()) (content) }, &plots)
}

/// A page without plots.
pub(crate) fn prose_page(title: &str, content: &Markup, footer: &Markup) -> String {
    framed(title, content, footer)
}

fn framed(title: &str, content: &Markup, footer: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head::head(title))
            body {
                button id="theme" type="button" hidden { "Dark" }
                (content)
                footer { p { (footer) } }
                div id="tip" role="tooltip" hidden {}
                (head::script())
            }
        }
    };
    // The templates hold nothing that is live: what is found here came in with a text of others.
    inert::lines(&page.into_string()).into_owned()
}

/// Text in which addresses of the web can be followed.
pub(crate) fn linked(text: &str) -> Markup {
    let is_address = |word: &str| word.starts_with("https://") || word.starts_with("http://");
    html! {
        @for (i, word) in text.split(' ').enumerate() {
            @if i > 0 { " " }
            @let address = word.trim_end_matches(['.', ',', ';', ')']);
            @if is_address(address) { a href=(address) { (address) } (word[address.len()..]) } @else { (word) }
        }
    }
}

/// A text in which backticks mark what is typed or read, as code.
fn prose(text: &str) -> Markup {
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return html! { (text) };
    }
    html! {
        @for (i, part) in parts.iter().enumerate() {
            @if i % 2 == 1 { code { (part) } } @else { (part) }
        }
    }
}
