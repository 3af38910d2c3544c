//! What the importing process and its reader say to each other: messages of postcard's, each after its
//! length.
//!
//! Both are this same program, so there is one version of it; a program that was replaced meanwhile says
//! another, and is refused.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};

/// The version of these messages.
pub const VERSION: u32 = 4;

/// A bound on one message: a row of as many columns as there may be has 220 KB, a result with all its texts
/// less than that. A hostile message can unfold in memory to some twenty times its length.
pub const MAX_MESSAGE: usize = 4 << 20;

/// What is asked. The file comes with it, as a descriptor, where it is to be read.
#[derive(Debug, Serialize, Deserialize)]
pub enum Request {
    /// Whether a file that begins so is anything that is known.
    Recognise,
    /// The functions of the kernel that recorded what is read next: a copy of its `/proc/kallsyms`.
    Kallsyms,
    /// All but the samples.
    Understand {
        /// What it is, where that was told.
        kind: Option<String>,
        /// How far samples without a clock are apart.
        interval_ns: Option<u64>,
        is_gzip: bool,
    },
    /// The samples of the result of this number.
    Stream { part: u32, is_gzip: bool },
    /// The events of what was understood last.
    Events,
}

/// What is answered.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    /// First of all.
    Ready {
        version: u32,
        /// The walls that do not stand here, and why.
        gaps: Vec<String>,
    },
    /// To [`Request::Recognise`], and to [`Request::Kallsyms`] whether there was anything in it.
    Known(bool),
    /// To [`Request::Understand`]: any number of these three, and then the last.
    Part(Box<Part>),
    Fact(String, String),
    Note(String),
    Understood {
        kind: String,
        at_end: bool,
    },
    /// To [`Request::Stream`]: any number of columns, the head, any number of rows, and then the last.
    Column(Column),
    Head {
        interval_ns: u64,
        start_ns: i64,
        frequency: String,
    },
    Rows {
        times_ns: Vec<u64>,
        /// Of one row after the other, as many as there are columns.
        values: Vec<Option<u64>>,
    },
    Streamed {
        at_end: bool,
    },
    /// To [`Request::Events`]: any number of these, and then [`Answer::Streamed`].
    Events(Vec<u8>),
    /// To anything: why it could not be read. `at_end` says whether all of the file was read before.
    Failed {
        why: String,
        at_end: bool,
    },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    pub name: String,
    pub tool: String,
    pub metrics: Vec<(String, Metric)>,
    pub warnings: Vec<String>,
    pub command: Option<Vec<String>>,
    pub started_ns: Option<i64>,
    pub facts: Vec<(String, String)>,
    pub series: Option<Series>,
    pub profile: Option<Profile>,
    pub threads: Vec<Thread>,
}

/// A thread and its CPU time, by the name of its role.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Thread {
    pub name: String,
    pub tid: u32,
    pub role: String,
    pub cpu_ns: u64,
}

/// What CPU time was spent in, by the names of roles and subsystems.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    pub period_ns: u64,
    pub lost: u64,
    pub samples: Vec<(String, String, u64)>,
    pub inclusive: Vec<(String, u64)>,
    pub functions: Vec<(String, u64)>,
    pub interrupts: Option<Interrupts>,
}

/// What is known of the interrupts of devices in it.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Interrupts {
    pub held_off: Vec<(String, u64)>,
    pub unsampled: u64,
    pub handlers_ns: Vec<(String, u64)>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    pub samples: u64,
    pub span_ns: u64,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    pub value: f64,
    pub unit: Unit,
    pub higher_is_better: bool,
}

/// `domain::Unit`, which as it is stored cannot be told from a text without a self-describing form.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub enum Unit {
    BytesPerSecond,
    PerSecond,
    Seconds,
    Joules,
    Watts,
    Hertz,
    Share,
    Count,
    Other(String),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Column {
    pub name: String,
    pub unit: String,
    pub counter: Option<Counter>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Counter {
    pub wraps_at: Option<u64>,
}

/// Sends messages, each after its length.
pub struct Sender<W> {
    to: W,
    scratch: Box<[u8]>,
}

impl<W: Write> Sender<W> {
    pub fn new(to: W) -> Self {
        Self { to, scratch: vec![0; MAX_MESSAGE].into_boxed_slice() }
    }

    /// Sends a message; `None` where it is too long to be sent.
    pub fn send(&mut self, answer: &Answer) -> io::Result<Option<()>> {
        let bytes = match postcard::to_slice(answer, &mut self.scratch) {
            Err(postcard::Error::SerializeBufferFull) => return Ok(None),
            other => other.map_err(io::Error::other)?,
        };
        self.to.write_all(&(bytes.len() as u32).to_le_bytes())?;
        self.to.write_all(bytes)?;
        Ok(Some(()))
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Takes messages from one who is not trusted.
pub struct Receiver<R> {
    from: R,
    scratch: Vec<u8>,
}

impl<R: Read> Receiver<R> {
    pub fn new(from: R) -> Self {
        Self { from, scratch: Vec::new() }
    }

    /// The next message and its length; `None` where none comes any more.
    pub fn receive(&mut self) -> Result<Option<(Answer, usize)>, String> {
        let mut length = [0; 4];
        match self.from.read_exact(&mut length) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other.map_err(|error| error.to_string())?,
        }
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_MESSAGE {
            return Err(format!("a message of {length} bytes, and {MAX_MESSAGE} are allowed"));
        }
        self.scratch.resize(length, 0);
        match self.from.read_exact(&mut self.scratch) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            other => other.map_err(|error| error.to_string())?,
        }
        Ok(Some((decoded(&self.scratch)?, length)))
    }
}

/// One value, and nothing after it.
pub fn decoded<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let (value, rest) = postcard::take_from_bytes(bytes).map_err(|error| error.to_string())?;
    if rest.is_empty() { Ok(value) } else { Err(format!("{} bytes after a message", rest.len())) }
}
