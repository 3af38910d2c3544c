//! The document model: what a page says as blocks of text, and the three forms in which people read it.
//!
//! Pages of published reports are whole [`Document`]s. What a run, a trial and a comparison say stands in
//! `sections`.

use crate::html::{linked, prose_page};
use crate::markdown;
use crate::text::Text;
use crate::wording::one_line;
use maud::{Markup, html};

/// A page.
pub(crate) struct Document {
    pub(crate) overline: Rich,
    pub(crate) title: String,
    pub(crate) blocks: Vec<Block>,
    pub(crate) footer: Rich,
}

/// A part of a page.
#[derive(Clone)]
pub(crate) enum Block {
    /// Of this level, 1 to 3.
    Heading(u8, Rich),
    /// The answer, below the question.
    Verdict(Rich),
    /// What must not be missed.
    Callout(Rich),
    Paragraph(Rich),
    /// A paragraph that belongs to the heading above it.
    Item(Rich),
    /// Smaller than a paragraph.
    Note(Rich),
    /// A sentence that stands apart from what is before it.
    Remark(Rich),
    List(Vec<Rich>),
    /// A list whose items have no mark in text.
    Lines(Vec<Rich>),
    /// Items, each with items below it.
    Outline(Vec<(Rich, Vec<Rich>)>),
    Table(Table),
    /// In this language.
    Code(&'static str, String),
    /// What a terminal leaves out.
    Appendix(Vec<Block>),
    /// Room in text for a terminal; nothing where paragraphs have room of their own.
    Gap,
}

/// A table: all rows are as long as its head.
#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) head: Vec<Rich>,
    pub(crate) rows: Vec<Vec<Rich>>,
    /// The columns that are set flush right.
    pub(crate) numbers: Vec<usize>,
}

/// Text of which some stretches are marked.
#[derive(Clone)]
pub(crate) struct Rich(Vec<Span>);

impl Rich {
    /// Text that is shown as it stands, on one line.
    pub(crate) fn plain(text: impl AsRef<str>) -> Self {
        Self(vec![Span::Plain(one_line(text.as_ref()))])
    }

    /// Text that is a name or is typed, in whole.
    pub(crate) fn code(text: impl AsRef<str>) -> Self {
        Self(vec![Span::Code(one_line(text.as_ref()))])
    }

    /// Text that may hold `code` in backticks, **strong** and *other* words. A mark that is not closed is
    /// text.
    pub(crate) fn marked(text: impl AsRef<str>) -> Self {
        Self(spans(text.as_ref()))
    }
}

/// A stretch of text.
#[derive(Clone)]
enum Span {
    Plain(String),
    Code(String),
    Strong(String),
    Other(String),
}

/// The marks, the longer first.
const MARKS: [&str; 3] = ["`", "**", "*"];

/// Text taken apart.
fn spans(text: &str) -> Vec<Span> {
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
            spans.push(Span::Plain(text[plain..at].to_owned()));
        }
        spans.push(match mark {
            "`" => Span::Code(inside.to_owned()),
            "**" => Span::Strong(inside.to_owned()),
            _ => Span::Other(inside.to_owned()),
        });
        at += 2 * mark.len() + inside.len();
        plain = at;
    }
    if plain < text.len() {
        spans.push(Span::Plain(text[plain..].to_owned()));
    }
    spans
}

impl Document {
    pub(crate) fn markdown(&self) -> String {
        let mut out = String::new();
        markdown::line(&mut out, &format!("# {}", Rich::marked(&self.title).in_markdown()));
        in_markdown(&self.blocks, &mut out);
        markdown::line(&mut out, "---");
        markdown::line(&mut out, &self.footer.in_markdown());
        markdown::finished(&out)
    }

    pub(crate) fn text(&self) -> String {
        let mut out = Text::default();
        out.line(Rich::marked(&self.title).in_text());
        in_text(&self.blocks, &mut out);
        out.blank();
        out.line(self.footer.in_text());
        out.finish()
    }

    pub(crate) fn html(&self) -> String {
        let content = html! {
            header {
                p class="overline" { (self.overline.in_html()) }
                h1 { (Rich::marked(&self.title).in_html()) }
            }
            main { @for block in &self.blocks { (block.in_html()) } }
        };
        prose_page(&self.title, &content, &self.footer.in_html())
    }
}

/// Adds blocks to a document in Markdown.
pub(crate) fn in_markdown(blocks: &[Block], out: &mut String) {
    blocks.iter().for_each(|block| block.in_markdown(out));
}

/// Adds blocks to a text for a terminal.
pub(crate) fn in_html(block: &Block) -> Markup {
    block.in_html()
}

pub(crate) fn in_text(blocks: &[Block], out: &mut Text) {
    blocks.iter().for_each(|block| block.in_text(out));
}

impl Block {
    fn in_markdown(&self, out: &mut String) {
        match self {
            Self::Heading(level, text) => {
                let marks = "#".repeat(usize::from(*level));
                markdown::line(out, &format!("{marks} {}", text.in_markdown()));
            }
            Self::Verdict(text) => markdown::line(out, &format!("**{}**", text.in_markdown())),
            Self::Callout(text) => markdown::line(out, &format!("> **{}**", text.in_markdown())),
            Self::Paragraph(text) | Self::Item(text) | Self::Note(text) | Self::Remark(text) => {
                markdown::line(out, &markdown::paragraph(&text.in_markdown()));
            }
            Self::List(items) | Self::Lines(items) => {
                markdown::list(out, items.iter().map(Rich::in_markdown));
            }
            Self::Outline(items) => {
                let item = |(item, below): &(Rich, Vec<Rich>)| {
                    let below = below.iter().map(|line| format!("\n  - {}", line.in_markdown()));
                    item.in_markdown() + &below.collect::<String>()
                };
                markdown::list(out, items.iter().map(item));
            }
            Self::Table(table) => {
                let fields = |row: &Vec<Rich>| row.iter().map(Rich::in_markdown).collect::<Vec<_>>();
                markdown::marked_table(out, &fields(&table.head), table.rows.iter().map(fields).collect());
            }
            Self::Code(language, text) => markdown::fenced(out, language, text),
            Self::Appendix(blocks) => in_markdown(blocks, out),
            Self::Gap => {}
        }
    }

    fn in_text(&self, out: &mut Text) {
        match self {
            Self::Heading(1, text) | Self::Verdict(text) | Self::Paragraph(text) | Self::Note(text) => {
                out.line(text.in_text());
            }
            Self::Heading(2, text) => out.heading(text.in_text()),
            Self::Heading(_, text) => out.subheading(text.in_text()),
            Self::Callout(text) | Self::Remark(text) => {
                out.blank();
                out.line(text.in_text());
            }
            Self::Item(text) => out.item(text.in_text()),
            Self::List(items) => items.iter().for_each(|item| out.item(format!("- {}", item.in_text()))),
            Self::Lines(items) => items.iter().for_each(|item| out.item(item.in_text())),
            Self::Outline(items) => {
                for (item, below) in items {
                    out.item(item.in_text());
                    below.iter().for_each(|line| out.item(format!("- {}", line.in_text())));
                }
            }
            Self::Table(table) => {
                let fields = |row: &Vec<Rich>| row.iter().map(Rich::in_text).collect::<Vec<_>>();
                let head = fields(&table.head);
                let head: Vec<&str> = head.iter().map(String::as_str).collect();
                out.table(&head, &table.numbers, table.rows.iter().map(fields).collect());
            }
            Self::Code(_, text) => text.lines().for_each(|line| out.command(line)),
            Self::Appendix(_) => {}
            Self::Gap => out.blank(),
        }
    }

    fn in_html(&self) -> Markup {
        match self {
            Self::Heading(1, text) => html! { h1 { (text.in_html()) } },
            Self::Verdict(text) => html! { p class="verdict" { (text.in_html()) } },
            Self::Callout(text) => html! { p class="model" { (text.in_html()) } },
            Self::Heading(2, text) => html! { h2 class="apart-above" { (text.in_html()) } },
            Self::Heading(_, text) => html! { h3 { (text.in_html()) } },
            Self::Paragraph(text) | Self::Item(text) => html! { p { (text.in_html()) } },
            Self::Note(text) | Self::Remark(text) => html! { p class="note" { (text.in_html()) } },
            Self::List(items) | Self::Lines(items) => {
                html! { ul class="lines" { @for item in items { li { (item.in_html()) } } } }
            }
            Self::Outline(items) => html! {
                ul class="lines" {
                    @for (item, below) in items {
                        li { (item.in_html()) ul { @for line in below { li { (line.in_html()) } } } }
                    }
                }
            },
            Self::Table(table) => table.in_html(),
            Self::Code(_, text) => html! { pre { code { (text) } } },
            Self::Appendix(blocks) => html! { @for block in blocks { (block.in_html()) } },
            Self::Gap => html! {},
        }
    }
}

impl Table {
    fn in_html(&self) -> Markup {
        let class = |column: usize| self.numbers.contains(&column).then_some("n");
        html! {
            div class="scroll" tabindex="0" role="group" aria-label="Table" {
                table class="beside" {
                    thead { tr { @for (i, name) in self.head.iter().enumerate() { th scope="col" class=[class(i)] { (name.in_html()) } } } }
                    tbody { @for row in &self.rows { tr { @for (i, field) in row.iter().enumerate() { td class=[class(i)] { (field.in_html()) } } } } }
                }
            }
        }
    }
}

impl Rich {
    pub(crate) fn in_markdown(&self) -> String {
        let span = |span: &Span| match span {
            Span::Plain(text) => markdown::plain_part(text),
            Span::Code(text) => markdown::code(text),
            Span::Strong(text) => format!("**{}**", markdown::plain_part(text)),
            Span::Other(text) => format!("*{}*", markdown::plain_part(text)),
        };
        self.0.iter().map(span).collect()
    }

    fn in_text(&self) -> String {
        let span = |span: &Span| match span {
            Span::Plain(text) | Span::Strong(text) | Span::Other(text) => text.clone(),
            Span::Code(text) => format!("`{text}`"),
        };
        self.0.iter().map(span).collect()
    }

    fn in_html(&self) -> Markup {
        html! {
            @for span in &self.0 {
                @match span {
                    Span::Plain(text) => (linked(text)),
                    Span::Code(text) => code { (text) },
                    Span::Strong(text) => strong { (text) },
                    Span::Other(text) => em { (text) },
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_taken_apart_and_lone_ones_are_text() {
        let shown = |text| Rich::marked(text).in_markdown();
        assert_eq!(shown("a `b|c` **d** *e* <f>"), "a `b\\|c` **d** *e* &lt;f>");
        assert_eq!(shown("2 * 3, `x"), "2 \\* 3, \\`x");
        assert_eq!(Rich::marked("a `b` **d** 2*3").in_text(), "a `b` d 2*3");
        assert_eq!(
            Rich::marked("`<` **&** *é*").in_html().into_string(),
            "<code>&lt;</code> <strong>&amp;</strong> <em>é</em>"
        );
    }

    #[test]
    fn plain_text_has_no_marks_and_is_one_line() {
        let text = Rich::plain("a `b` **c**\n# d");
        assert_eq!(text.in_markdown(), "a \\`b\\` \\*\\*c\\*\\* \\# d");
        assert_eq!(text.in_text(), "a `b` **c** # d");
        assert_eq!(text.in_html().into_string(), "a `b` **c** # d");
    }
}
