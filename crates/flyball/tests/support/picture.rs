//! What a terminal shows, as a picture for the documents: text with the colours of its escape sequences, as
//! SVG, which every browser scales and every diff can read.

use std::fmt::Write;

/// Width of the pictures, in columns of text.
pub const COLUMNS: usize = 80;

const CHARACTER: (f64, f64) = (8.43, 19.0);
const MARGIN: f64 = 14.0;

/// One piece of a line in one style.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Span {
    text: String,
    style: Style,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Style {
    is_bold: bool,
    is_faint: bool,
    colour: Option<&'static str>,
}

impl Style {
    /// After a parameter of SGR, "select graphic rendition" (ECMA-48, 8.3.117).
    fn after(mut self, parameter: &str) -> Self {
        match parameter {
            "" | "0" => return Self::default(),
            "1" => self.is_bold = true,
            "2" => self.is_faint = true,
            "22" => (self.is_bold, self.is_faint) = (false, false),
            "31" => self.colour = Some("#b3261e"),
            "32" => self.colour = Some("#1b6e3c"),
            "33" => self.colour = Some("#8a5a00"),
            "34" => self.colour = Some("#0b57a4"),
            "36" => self.colour = Some("#006a75"),
            "39" => self.colour = None,
            other => panic!("a screen has the attribute {other}, which the pictures do not know"),
        }
        self
    }
}

/// The lines of a screen, and the text of them without styles.
pub struct Screen {
    lines: Vec<Vec<Span>>,
}

impl Screen {
    /// Reads what a program wrote to a terminal.
    ///
    /// # Panics
    /// Where it wrote any escape sequence but SGR.
    pub fn read(written: &str) -> Self {
        let mut style = Style::default();
        let line = |line: &str| {
            let (mut spans, mut rest) = (Vec::new(), line);
            while let Some((text, after)) = rest.split_once('\u{1b}') {
                push(&mut spans, text, &style);
                let after = after.strip_prefix('[').unwrap_or_else(|| panic!("an escape in {line:?}"));
                let end = after.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(after.len());
                assert!(after[end..].starts_with('m'), "a sequence that is not SGR in {line:?}");
                style = after[..end].split(';').fold(style.clone(), Style::after);
                rest = &after[end + 1..];
            }
            push(&mut spans, rest, &style);
            spans
        };
        Self { lines: written.replace('\r', "").trim_end().lines().map(line).collect() }
    }

    /// Without styles.
    pub fn text(&self) -> String {
        let plain =
            |spans: &Vec<Span>| spans.iter().map(|span| span.text.as_str()).collect::<String>() + "\n";
        self.lines.iter().map(plain).collect()
    }

    /// The picture, under the command that led to it.
    pub fn svg(&self, command: &str) -> String {
        let width = 2.0f64.mul_add(MARGIN, COLUMNS as f64 * CHARACTER.0);
        let height = 2.0f64.mul_add(MARGIN, (self.lines.len() + 2) as f64 * CHARACTER.1);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
             height=\"{height:.0}\" role=\"img\" aria-label=\"{}\">\n<style>text {{ font: 14px ui-monospace, \
             'DejaVu Sans Mono', 'Liberation Mono', Menlo, Consolas, monospace; fill: #1d2126; white-space: pre }} \
             .b {{ font-weight: 700 }} .f {{ fill: #5f6873 }}</style>\n<rect width=\"100%\" height=\"100%\" rx=\"8\" \
             fill=\"#fbfbf9\" stroke=\"#d5d8dc\"/>\n",
            escaped(command)
        );
        let prompt =
            Span { text: format!("$ {command}"), style: Style { is_faint: true, ..Style::default() } };
        let lines = [vec![prompt], Vec::new()].into_iter().chain(self.lines.iter().cloned());
        for (row, spans) in lines.enumerate().filter(|(_, spans)| !spans.is_empty()) {
            let y = (row as f64 + 0.8).mul_add(CHARACTER.1, MARGIN);
            let mut column = 0;
            for span in &spans {
                let x = (column as f64).mul_add(CHARACTER.0, MARGIN);
                let count = span.text.chars().count();
                let _ = writeln!(
                    svg,
                    "<text x=\"{x:.1}\" y=\"{y:.1}\" textLength=\"{:.1}\" xml:space=\"preserve\"{}>{}</text>",
                    count as f64 * CHARACTER.0,
                    attributes(&span.style),
                    escaped(&span.text)
                );
                column += count;
            }
        }
        svg + "</svg>\n"
    }
}

fn push(spans: &mut Vec<Span>, text: &str, style: &Style) {
    if !text.is_empty() {
        spans.push(Span { text: text.to_owned(), style: style.clone() });
    }
}

fn attributes(style: &Style) -> String {
    let classes: Vec<&str> = [(style.is_bold, "b"), (style.is_faint, "f")]
        .into_iter()
        .filter_map(|(is, c)| is.then_some(c))
        .collect();
    let class = if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) };
    let colour = style.colour.map(|colour| format!(" style=\"fill: {colour}\"")).unwrap_or_default();
    class + &colour
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
