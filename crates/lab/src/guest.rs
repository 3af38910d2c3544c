//! The messages between this program and itself in the guest.
//!
//! A message is a header in JSON and a body of bytes, each behind its length (32 bits, big end first). They
//! go over a virtio-serial port, which loses and reorders nothing; so there is no answer to a message that
//! was not asked for, except [`Reply::Hello`], which is the guest's first.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::time::Duration;

/// The name of the port in the guest.
pub const PORT: &str = "flyball.control";

/// The kernel device that a shell uses in the guest.
pub const SHELL: &str = "/dev/hvc0";

/// The version of these messages. An image holds the very program that starts it, so it only guards against
/// mixing.
pub const VERSION: u32 = 1;

/// A bound on a header: a study's text, an inventory, a command's arguments.
const MAX_HEADER: u32 = 16 << 20;

/// A bound on a body: one piece of a file.
const MAX_BODY: u32 = 1 << 20;

/// How large the pieces are in which files and output go.
pub const PIECE: usize = 64 << 10;

/// How often a guest that works on a [`Request::beats`] says that it is alive.
pub const BEAT: Duration = Duration::from_secs(5);

/// What the host asks for, one at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Load these modules, each with its parameters, and run these shell lines.
    Prepare {
        /// As in `modprobe`'s arguments.
        modules: Vec<String>,
        /// Lines for `sh -ec`.
        lines: Vec<String>,
        /// Whether virtual CPUs can be paced.
        paced: bool,
        /// How many times longer everything lasts in the guest's time ([`domain::lab::Dilated`]).
        stretched: f64,
    },
    /// Run a command to its end.
    Exec {
        /// Program and arguments.
        argv: Vec<String>,
        /// How wide the terminal is that shows what it prints (`COLUMNS`), where it is one.
        columns: Option<usize>,
    },
    /// Be ready to measure cells of this study.
    Open(Opening),
    /// Measure one cell.
    Trial {
        /// From zero.
        block: u32,
        /// The cell's name.
        cell: String,
        /// From zero.
        attempt: u32,
    },
    /// Run this loop for about this long, unpaced, between two marks: how fast the host can pace.
    Calibrate {
        /// In milliseconds.
        span_ms: u64,
    },
    /// Say what machine it is.
    Inspect,
    /// Start a shell on [`SHELL`], a terminal of this size.
    Shell {
        /// Its height in lines.
        rows: u16,
        /// Its width in characters.
        columns: u16,
    },
    /// Sync and power off.
    PowerOff,
}

impl Request {
    /// Whether the guest says [`Reply::Alive`] every [`BEAT`] until it is done. A trial says so only until
    /// its workload begins, for later it would cost the trial something; a shell's user sees whether it
    /// answers.
    pub fn beats(&self) -> bool {
        matches!(self, Self::Prepare { .. } | Self::Exec { .. } | Self::Open(_) | Self::Inspect)
    }
}

/// A study for the guest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Opening {
    /// The study file.
    pub study: String,
    /// The run's name.
    pub run: String,
    /// The run's seed.
    pub seed: u64,
    /// The machine's digest.
    pub machine: String,
    /// The time dilation, as the guest has it.
    pub stretched: f64,
    /// And how many times slower than the host's its clock runs while it is paced.
    pub slowed: f64,
    /// Whether virtual CPUs can be paced.
    pub paced: bool,
    /// The folder for file targets.
    pub work: String,
    /// Which events are recorded, where the study is not to be asked for that.
    pub events: Option<String>,
    /// They are recorded in a trial of their own for each cell.
    pub events_apart: bool,
}

/// What the guest answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The guest is up.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// Time since the kernel started, in milliseconds.
        uptime_ms: u64,
    },
    /// It goes on working.
    Alive,
    /// The workload of the trial begins: what the disks did until now made its target.
    Begun,
    /// Done as asked.
    Done,
    /// What it is.
    Inspected {
        /// The guest's inventory, as JSON.
        inventory: String,
        /// What identifies it.
        identity: String,
    },
    /// The body is a piece of what a command prints.
    Output {
        /// Which of its streams.
        stream: Stream,
    },
    /// The command ended.
    Exited {
        /// Its code, or 128 and the number of the signal that ended it.
        code: i32,
    },
    /// The body is the next piece of a file of a trial.
    File {
        /// Its path within the trial's folder.
        path: String,
    },
    /// The trial took place; its files are all there.
    Measured {
        /// When the paced part of it began, from the start of the trial's trace in nanoseconds.
        paced_from_ns: Option<u64>,
    },
    /// The cell cannot run on this machine.
    Unsupported {
        /// Why.
        why: String,
    },
    /// It failed.
    Failed {
        /// What was attempted, on what, why it failed.
        why: String,
    },
}

/// A stream of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Error,
}

/// Sends a message.
///
/// # Errors
/// Where the other side is gone.
///
/// # Panics
/// Where the body is larger than a message may be.
pub fn send(to: &mut impl Write, header: &impl Serialize, body: &[u8]) -> io::Result<()> {
    let header = serde_json::to_vec(header).map_err(io::Error::other)?;
    let length = |n: usize, most: u32| u32::try_from(n).ok().filter(|n| *n <= most);
    let header_length =
        length(header.len(), MAX_HEADER).ok_or_else(|| io::Error::other("a header too long to send"))?;
    let body_length = length(body.len(), MAX_BODY).expect("bodies are sent in pieces");
    let mut message = Vec::with_capacity(8 + header.len() + body.len());
    message.extend_from_slice(&header_length.to_be_bytes());
    message.extend_from_slice(&body_length.to_be_bytes());
    message.extend_from_slice(&header);
    message.extend_from_slice(body);
    to.write_all(&message)?;
    to.flush()
}

/// Takes a message.
///
/// # Errors
/// Where the other side is gone, or what it says is no message.
pub fn receive<H: DeserializeOwned>(from: &mut impl Read) -> io::Result<(H, Vec<u8>)> {
    let mut lengths = [0_u8; 8];
    from.read_exact(&mut lengths)?;
    let [a, b, c, d, e, f, g, h] = lengths;
    let (header, body) = (u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h]));
    if header > MAX_HEADER || body > MAX_BODY {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "what came is no message: its length cannot be",
        ));
    }
    let mut bytes = vec![0; header as usize];
    from.read_exact(&mut bytes)?;
    let header = serde_json::from_slice(&bytes).map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))?;
    let mut bytes = vec![0; body as usize];
    from.read_exact(&mut bytes)?;
    Ok((header, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_what_comes() {
        let mut wire = Vec::new();
        let file = Reply::File { path: "raw/fio.json".into() };
        send(&mut wire, &file, b"body").unwrap();
        send(&mut wire, &Reply::Done, &[]).unwrap();
        let mut from = wire.as_slice();
        assert_eq!(receive::<Reply>(&mut from).unwrap(), (file, b"body".to_vec()));
        assert_eq!(receive::<Reply>(&mut from).unwrap(), (Reply::Done, Vec::new()));
        assert_eq!(receive::<Reply>(&mut from).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn garbage_is_no_message() {
        let error = receive::<Reply>(&mut [0xff_u8; 64].as_slice()).unwrap_err();
        assert!(error.to_string().contains("length"), "{error}");
        let mut wire = vec![0, 0, 0, 2, 0, 0, 0, 0];
        wire.extend_from_slice(b"{}");
        assert_eq!(receive::<Reply>(&mut wire.as_slice()).unwrap_err().kind(), io::ErrorKind::InvalidData);
    }
}
