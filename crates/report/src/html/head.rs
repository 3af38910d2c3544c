//! The head of a page: its policy, its style and, at its end, its script.

use maud::{Markup, PreEscaped, html};

/// Nothing is loaded from anywhere, whatever slipped into the page.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'";

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Text, lines and series on a light ground. The series are Okabe and Ito's hues ("Color Universal Design",
/// 2008), darkened until each has a contrast of at least 3 to 1 against the ground; text has 4.5 to 1.
const LIGHT: &str = "color-scheme:light;--ground:#fdfdfc;--raised:#f5f5f2;--ink:#1a1d21;--muted:#575d65;\
    --line:#e3e4e1;--strong-line:#9a9fa6;--link:#005a91;--mark:0 90 145;\
    --s0:#0067a5;--s1:#c44e06;--s2:#00805c;--s3:#a84f82;--s4:#a06e00;--s5:#2f8ac0;--s6:#5b6067;\
    --r0:#0067a5;--r1:#c44e06;--r2:#a84f82;--r3:#a06e00;--r4:#00805c;--r5:#4c9ed1;--r6:#7b5b3a;--r7:#d98c2b;\
    --r8:#7d2b5e;--r9:#6d737b;--r10:#2b3036;--r11:#9aa0a8;--r12:#b8860b;";

/// The same on a dark ground.
const DARK: &str = "color-scheme:dark;--ground:#14171a;--raised:#1d2125;--ink:#e8eaec;--muted:#a3aab2;\
    --line:#2d3237;--strong-line:#6b727a;--link:#7cc0f0;--mark:110 180 235;\
    --s0:#56aee8;--s1:#f58b4c;--s2:#34c79d;--s3:#e090bd;--s4:#e3b341;--s5:#9bd3f5;--s6:#b4bac1;\
    --r0:#4a9fd8;--r1:#f58b4c;--r2:#e090bd;--r3:#e3b341;--r4:#34c79d;--r5:#9bd3f5;--r6:#b5926c;--r7:#f7c27e;\
    --r8:#c06a9f;--r9:#8a919a;--r10:#e8eaec;--r11:#5f666e;--r12:#c2952a;";

/// The head of a page of this title.
pub(super) fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta http-equiv="Content-Security-Policy" content=(POLICY);
            meta name="generator" content="Flyball";
            meta name="color-scheme" content="light dark";
            title { (title) " · Flyball" }
            style { (PreEscaped(style())) }
        }
    }
}

/// The theme of the system unless the reader chose one; paper is always light.
fn style() -> String {
    format!(
        ":root{{{LIGHT}}}\n@media screen{{@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{DARK}}}}}\
         :root[data-theme=dark]{{{DARK}}}}}\n{STYLE}"
    )
}

/// What makes the page handier, and what it does without.
pub(super) fn script() -> Markup {
    html! { script { (PreEscaped(SCRIPT)) } }
}
