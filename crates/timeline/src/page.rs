//! The page: one file that loads nothing. What is drawn is in it as gzip in base64: the length of the head as
//! `u32`, least byte first, the head as JSON, and the bytes of all tracks.

use crate::classes::{self, Class};
use crate::tracks::{Finished, Lines, Place, Timeline, Track};
use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use domain::inert;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use std::io::{self, Write};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("view.js");

/// What stands above the timeline.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// Which recording it is.
    pub title: &'a str,
    /// A line beside that: the machine and when it was.
    pub line: &'a str,
}

#[derive(Serialize)]
struct Head<'a> {
    title: &'a str,
    about: &'a str,
    /// Nanoseconds.
    span: u64,
    classes: &'a [Class],
    labels: &'a [(String, u8)],
    groups: Vec<Group>,
    notes: &'a [String],
}

#[derive(Serialize)]
struct Group {
    name: String,
    /// Whether it is folded at first.
    minor: bool,
    tracks: Vec<Drawn>,
}

#[derive(Serialize)]
struct Drawn {
    name: String,
    /// `steps`, or what the spans are of.
    kind: &'static str,
    /// Of steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    unit: Option<String>,
    /// A value of steps that is marked.
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<f64>,
    count: usize,
    /// Where its bytes begin.
    at: usize,
    /// Where the nodes of each level begin, and how many there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    levels: Option<Vec<(usize, usize)>>,
}

/// Writes the page.
///
/// # Errors
/// What `out` answers.
pub fn write(timeline: Timeline, about: About<'_>, out: &mut dyn Write) -> io::Result<()> {
    let Finished { groups, labels, notes, span } = timeline.finish();
    let mut bytes = Vec::new();
    let groups = groups.into_iter().map(|(place, tracks)| grouped(&place, tracks, &mut bytes)).collect();
    let [title, line] = [about.title, about.line].map(inert::one_line);
    let head = Head {
        title: &title,
        about: &line,
        span: span.max(1),
        classes: &classes::ALL,
        labels: &labels,
        groups,
        notes: &notes,
    };
    let head = serde_json::to_vec(&head)?;
    let (before, behind) = PAGE.split_once("PACKED").unwrap_or((PAGE, ""));
    out.write_all(before.replacen("STYLE", STYLE, 1).as_bytes())?;
    let mut packed = GzEncoder::new(EncoderWriter::new(&mut *out, &STANDARD), Compression::new(6));
    let length =
        u32::try_from(head.len()).map_err(|_| io::Error::other("the names of all tracks are too long"))?;
    packed.write_all(&length.to_le_bytes())?;
    packed.write_all(&head)?;
    packed.write_all(&bytes)?;
    packed.finish()?.finish()?;
    out.write_all(behind.replacen("SCRIPT", SCRIPT, 1).as_bytes())
}

fn grouped(place: &Place, tracks: Vec<Track>, bytes: &mut Vec<u8>) -> Group {
    let minor = match place {
        Place::Other(name) => !["power", "CPU time by role"].contains(&name.as_str()),
        Place::Marks | Place::Policy(..) | Place::Cpu(_) | Place::Device(_) | Place::Threads(_) => false,
    };
    let tracks = tracks.into_iter().map(|track| drawn(track, bytes)).collect();
    Group { name: place.name(), minor, tracks }
}

fn drawn(track: Track, bytes: &mut Vec<u8>) -> Drawn {
    let at = bytes.len();
    let Track { name, lines } = track;
    match lines {
        Lines::Steps { unit, steps, mark } => {
            bytes.extend(steps.bytes);
            Drawn { name, kind: "steps", unit: Some(unit), mark, count: steps.count, at, levels: None }
        }
        Lines::Spans { kind, spans } => {
            let count = spans.count;
            let (packed, nodes) = spans.finish();
            bytes.extend(packed);
            let place = |nodes: Vec<u8>| {
                let at = bytes.len();
                bytes.extend(&nodes);
                (at, nodes.len() / 2)
            };
            let levels = Some(nodes.into_iter().map(place).collect());
            Drawn { name, kind, unit: None, mark: None, count, at, levels }
        }
    }
}
