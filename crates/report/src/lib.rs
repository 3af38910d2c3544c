//! HTML, SVG, Markdown, CSV and text from analysed results. Pure.

pub mod inventory;
