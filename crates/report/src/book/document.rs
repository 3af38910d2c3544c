//! A page as blocks, and the three forms that people read.
//!
//! Text may hold `code` in backticks, **strong** and *other* words; everything else in it is shown as it stands.

use crate::html::{linked, prose_page};
use crate::markdown;
use crate::text::Text;
use maud::{Markup, html};

/// A page.
pub(super) struct Document {
    pub(super) overline: String,
    pub(super) title: String,
    pub(super) blocks: Vec<Block>,
    pub(super) footer: String,
}

/// A part of a page.
pub(super) enum Block {
    /// Of this level, 2 or 3.
    Heading(u8, String),
    Paragraph(String),
    /// Smaller than a paragraph.
    Note(String),
    List(Vec<String>),
    /// Items, each with items below it.
    Outline(Vec<(String, Vec<String>)>),
    Table {
        head: Vec<String>,
        rows: Vec<Vec<String>>,
    },
    /// In this language.
    Code(String, String),
}

/// A stretch of text.
enum Span<'a> {
    Plain(&'a str),
    Code(&'a str),
    Strong(&'a str),
    Other(&'a str),
}

/// The marks, the longer first.
const MARKS: [&str; 3] = ["`", "**", "*"];

/// Text taken apart. A mark that is not closed is text.
fn spans(text: &str) -> Vec<Span<'_>> {
    let mut spans = Vec::new();
    let (mut plain, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text[at..];
        let marked = MARKS.iter().find(|mark| rest.starts_with(**mark)).and_then(|mark| {
            let inside = &rest[mark.len()..];
            let end = inside.find(mark).filter(|end| *end > 0)?;
            Some((*mark, &inside[..end]))
        });
        let Some((mark, inside)) = marked else {
            at += rest.chars().next().map_or(1, char::len_utf8);
            continue;
        };
        if plain < at {
            spans.push(Span::Plain(&text[plain..at]));
        }
        spans.push(match mark {
            "`" => Span::Code(inside),
            "**" => Span::Strong(inside),
            _ => Span::Other(inside),
        });
        at += 2 * mark.len() + inside.len();
        plain = at;
    }
    if plain < text.len() {
        spans.push(Span::Plain(&text[plain..]));
    }
    spans
}

impl Document {
    pub(super) fn markdown(&self) -> String {
        let mut out = String::new();
        markdown::line(&mut out, &format!("# {}", in_markdown(&self.title)));
        for block in &self.blocks {
            match block {
                Block::Heading(level, text) => {
                    let marks = "#".repeat(usize::from(*level));
                    markdown::line(&mut out, &format!("{marks} {}", in_markdown(text)));
                }
                Block::Paragraph(text) | Block::Note(text) => markdown::line(&mut out, &in_markdown(text)),
                Block::List(items) => markdown::list(&mut out, items.iter().map(|item| in_markdown(item))),
                Block::Outline(items) => {
                    let item = |(item, below): &(String, Vec<String>)| {
                        let below = below.iter().map(|line| format!("\n  - {}", in_markdown(line)));
                        in_markdown(item) + &below.collect::<String>()
                    };
                    markdown::list(&mut out, items.iter().map(item));
                }
                Block::Table { head, rows } => {
                    let head: Vec<String> = head.iter().map(|name| in_markdown(name)).collect();
                    let fields = |row: &Vec<String>| row.iter().map(|field| in_markdown(field)).collect();
                    markdown::marked_table(&mut out, &head, rows.iter().map(fields).collect());
                }
                Block::Code(language, text) => markdown::fenced(&mut out, language, text),
            }
        }
        markdown::line(&mut out, "---");
        markdown::line(&mut out, &in_markdown(&self.footer));
        markdown::finished(&out)
    }

    pub(super) fn text(&self) -> String {
        let mut out = Text::default();
        out.line(in_text(&self.title));
        for block in &self.blocks {
            match block {
                Block::Heading(_, text) => out.heading(in_text(text)),
                Block::Paragraph(text) | Block::Note(text) => out.line(in_text(text)),
                Block::List(items) => items.iter().for_each(|item| out.item(format!("- {}", in_text(item)))),
                Block::Outline(items) => {
                    for (item, below) in items {
                        out.item(in_text(item));
                        below.iter().for_each(|line| out.item(format!("- {}", in_text(line))));
                    }
                }
                Block::Table { head, rows } => {
                    let head: Vec<&str> = head.iter().map(String::as_str).collect();
                    let fields = |row: &Vec<String>| row.iter().map(|field| in_text(field)).collect();
                    out.table(&head, &[], rows.iter().map(fields).collect());
                }
                Block::Code(_, text) => text.lines().for_each(|line| out.command("", line)),
            }
        }
        out.blank();
        out.line(in_text(&self.footer));
        out.finish()
    }

    pub(super) fn html(&self) -> String {
        let content = html! {
            header {
                p class="overline" { (in_html(&self.overline)) }
                h1 { (in_html(&self.title)) }
            }
            main { @for block in &self.blocks { (block_html(block)) } }
        };
        prose_page(&self.title, &content, &in_html(&self.footer))
    }
}

fn block_html(block: &Block) -> Markup {
    match block {
        Block::Heading(2, text) => html! { h2 class="apart-above" { (in_html(text)) } },
        Block::Heading(_, text) => html! { h3 { (in_html(text)) } },
        Block::Paragraph(text) => html! { p { (in_html(text)) } },
        Block::Note(text) => html! { p class="note" { (in_html(text)) } },
        Block::List(items) => html! { ul class="lines" { @for item in items { li { (in_html(item)) } } } },
        Block::Outline(items) => html! {
            ul class="lines" {
                @for (item, below) in items {
                    li { (in_html(item)) ul { @for line in below { li { (in_html(line)) } } } }
                }
            }
        },
        Block::Table { head, rows } => html! {
            div class="scroll" tabindex="0" role="group" aria-label="Table" {
                table class="beside" {
                    thead { tr { @for name in head { th scope="col" { (in_html(name)) } } } }
                    tbody { @for row in rows { tr { @for field in row { td { (in_html(field)) } } } } }
                }
            }
        },
        Block::Code(_, text) => html! { pre { code { (text) } } },
    }
}

/// Text with its marks as Markdown.
pub(super) fn in_markdown(text: &str) -> String {
    let span = |span: Span<'_>| match span {
        Span::Plain(text) => markdown::plain_part(text),
        Span::Code(text) => markdown::code(text),
        Span::Strong(text) => format!("**{}**", markdown::plain_part(text)),
        Span::Other(text) => format!("*{}*", markdown::plain_part(text)),
    };
    spans(text).into_iter().map(span).collect()
}

fn in_text(text: &str) -> String {
    let span = |span: Span<'_>| match span {
        Span::Plain(text) | Span::Strong(text) | Span::Other(text) => text.to_owned(),
        Span::Code(text) => format!("`{text}`"),
    };
    spans(text).into_iter().map(span).collect()
}

fn in_html(text: &str) -> Markup {
    html! {
        @for span in spans(text) {
            @match span {
                Span::Plain(text) => (linked(text)),
                Span::Code(text) => code { (text) },
                Span::Strong(text) => strong { (text) },
                Span::Other(text) => em { (text) },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_taken_apart_and_lone_ones_are_text() {
        let shown = |text| in_markdown(text);
        assert_eq!(shown("a `b|c` **d** *e* <f>"), "a `b\\|c` **d** *e* &lt;f>");
        assert_eq!(shown("2 * 3, `x"), "2 \\* 3, \\`x");
        assert_eq!(in_text("a `b` **d** 2*3"), "a `b` d 2*3");
        assert_eq!(
            in_html("`<` **&** *é*").into_string(),
            "<code>&lt;</code> <strong>&amp;</strong> <em>é</em>"
        );
    }
}
