//! The formats of tracepoints, as trace-cmd writes them and perf too, in its section of tracing data
//! (trace-cmd.dat.v6(5); the kernel's `tools/perf/util/trace-event-info.c`).

use super::{Bytes, Error};
use domain::event_set::Set;
use std::collections::BTreeMap;

/// A bound on systems of tracepoints, and on the tracepoints of one.
const MAX_FORMATS: u32 = 4096;

/// What both begin with.
pub const MAGIC: &[u8; 10] = b"\x17\x08\x44tracing";

const WHAT: &str = "tracing data";

/// What stands in front of the formats.
#[derive(Debug)]
pub struct Headers {
    /// The fields of a page of the kernel's ring, as tracefs has them in `events/header_page`.
    pub page: String,
}

/// Those of the ring's pages and events.
pub fn headers(bytes: &mut Bytes<'_>) -> Result<Headers, Error> {
    let mut texts = [String::new(), String::new()];
    for (name, text) in ["header_page", "header_event"].into_iter().zip(&mut texts) {
        let at = bytes.at;
        if bytes.ended_by_zero(WHAT)? != name {
            return Err(Error::Damaged { at, what: WHAT });
        }
        let size = bytes.u64(WHAT)?;
        *text = bytes.text(size, WHAT)?;
    }
    let [page, _] = texts;
    Ok(Headers { page })
}

/// Passes over the formats of ftrace's own records.
pub fn ftrace_formats(bytes: &mut Bytes<'_>) -> Result<(), Error> {
    let count = bytes.u32(WHAT)?;
    for _ in 0..count.min(MAX_FORMATS) {
        let size = bytes.u64(WHAT)?;
        bytes.slice(size, WHAT)?;
    }
    Ok(())
}

/// Whether a tracepoint, `group/name`, is one of those that are read here.
pub fn is_known(name: &str) -> bool {
    Set::ALL.iter().any(|set| set.tracepoints().contains(&name))
}

/// The tracepoint of a process that executes a program, which tells who is whose and is not kept.
const EXECUTES: &str = "sched/sched_process_exec";

/// The formats of tracepoints.
#[derive(Debug, Default)]
pub struct Formats {
    /// Those of known ones by number: `group/name`, a line break, and the format.
    pub known: BTreeMap<u16, String>,
    /// The number of the one of a process that executes a program.
    pub executes: Option<u16>,
}

/// All of them.
pub fn event_formats(bytes: &mut Bytes<'_>) -> Result<Formats, Error> {
    let mut formats = Formats::default();
    let systems = bytes.u32(WHAT)?;
    for _ in 0..systems.min(MAX_FORMATS) {
        let system = bytes.ended_by_zero(WHAT)?;
        let count = bytes.u32(WHAT)?;
        for _ in 0..count.min(MAX_FORMATS) {
            let at = bytes.at;
            let size = bytes.u64(WHAT)?;
            let text = bytes.text(size, WHAT)?;
            let name = text.lines().find_map(|line| line.strip_prefix("name: ")).unwrap_or_default();
            let id = text.lines().find_map(|line| line.strip_prefix("ID: "));
            let id = id.and_then(|id| id.trim().parse().ok()).ok_or(Error::Damaged { at, what: WHAT })?;
            let name = format!("{system}/{}", name.trim());
            if is_known(&name) {
                formats.known.insert(id, format!("{name}\n{text}"));
            } else if name == EXECUTES {
                formats.executes = Some(id);
            }
        }
    }
    Ok(formats)
}
