//! What else decides the result, and where it was not the same in all trials.

use crate::Report;
use crate::wording::environment;
use maud::{Markup, html};

pub(super) fn body(report: &Report) -> Option<Markup> {
    let values = environment(report);
    if values.is_empty() && report.inventory_text.is_none() {
        return None;
    }
    Some(html! {
        @if !values.is_empty() {
            dl class="facts environment" {
                @for (name, all) in &values {
                    dt { (name) }
                    dd {
                        @for (i, v) in all.iter().enumerate() { @if i > 0 { " | " } (v) }
                        @if all.len() > 1 { " " strong { "(differs between trials)" } }
                    }
                }
            }
        }
        @if let Some(text) = report.inventory_text {
            details { summary { "The whole inventory" } pre { code { (text) } } }
        }
    })
}
