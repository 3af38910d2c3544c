//! One client: its bytes in, its answers out, never blocking.

use super::model::MAX_BYTES;
use super::nbd::{self, Command, Export, Header, Shaken, Then};
use domain::time::Nanos;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

/// How much is read from a socket at once; a unix socket holds about as much.
const READ: usize = 256 << 10;

/// Answers' memory that is kept for further ones: how many, and how large at most.
const MAX_SPARE: usize = 64;
const MAX_SPARE_BYTES: usize = 1 << 20;

/// The most bytes that one client's requests and answers take at a time: two of the largest. Its socket is
/// not read while they do.
const MAX_HELD: usize = 2 * MAX_BYTES as usize;

/// The most requests of one client at a time.
const MAX_REQUESTS: usize = 1024;

/// A connection's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Flags,
    Options {
        no_zeroes: bool,
        seen: u32,
    },
    Transmission,
    /// What is to be said is said, then it is closed.
    Leaving,
}

#[derive(Debug)]
pub(super) struct Connection {
    stream: UnixStream,
    phase: Phase,
    input: Vec<u8>,
    /// The input's bytes that are there: those before are used up, those after are room.
    used: usize,
    filled: usize,
    /// When the header of the request whose data is not all there yet came in.
    began: Option<Nanos>,
    output: VecDeque<Vec<u8>>,
    sent: usize,
    /// Answers' memory, for further ones.
    spare: Vec<Vec<u8>>,
    /// Bytes of answers, being prepared or waiting to be sent; and requests in flight.
    held: usize,
    in_flight: usize,
}

/// A request that is all there.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) header: Header,
    /// When its header was read.
    pub(super) at: Nanos,
    /// Its data in the connection's input.
    data: std::ops::Range<usize>,
}

impl Connection {
    pub(super) fn new(stream: UnixStream) -> Self {
        let output = VecDeque::from([nbd::greeting()]);
        Self {
            stream,
            phase: Phase::Flags,
            input: Vec::new(),
            used: 0,
            filled: 0,
            began: None,
            output,
            sent: 0,
            spare: Vec::new(),
            held: 0,
            in_flight: 0,
        }
    }

    pub(super) fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Whether further requests are taken now.
    pub(super) fn wants_input(&self) -> bool {
        self.phase != Phase::Leaving && self.held < MAX_HELD && self.in_flight < MAX_REQUESTS
    }

    /// Whether bytes are there that were left until others were answered, and may be looked at again.
    pub(super) fn may_go_on(&self) -> bool {
        self.used < self.filled && self.phase == Phase::Transmission && self.wants_input()
    }

    pub(super) fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Whether all is said.
    pub(super) fn is_over(&self) -> bool {
        self.phase == Phase::Leaving && self.output.is_empty() && self.in_flight == 0
    }

    /// Reads what is there; `false` at the client's end.
    ///
    /// # Errors
    /// Where the socket says so.
    pub(super) fn receive(&mut self) -> io::Result<bool> {
        self.input.copy_within(self.used..self.filled, 0);
        (self.used, self.filled) = (0, self.filled - self.used);
        if self.input.len() < self.filled + READ {
            self.input.resize(self.filled + READ, 0);
        }
        let got = loop {
            match self.stream.read(&mut self.input[self.filled..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.filled += got.as_ref().map_or(0, |got| *got);
        match got {
            Ok(got) => Ok(got > 0),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// The next request that is all there. A handshake is answered on the way.
    ///
    /// # Errors
    /// What is not NBD: the text says what, and the connection must be closed.
    pub(super) fn next(&mut self, now: Nanos, export: &Export) -> Result<Option<Arrived>, String> {
        while !matches!(self.phase, Phase::Transmission | Phase::Leaving) {
            if !self.shake(export)? {
                return Ok(None);
            }
        }
        if self.phase == Phase::Leaving || !self.wants_input() {
            return Ok(None);
        }
        let Some(header) = nbd::header(&self.input[self.used..self.filled], export)? else { return Ok(None) };
        let at = *self.began.get_or_insert(now);
        let start = self.used + nbd::HEADER;
        let data = start..start + header.payload();
        if data.end > self.filled {
            return Ok(None);
        }
        self.used = data.end;
        self.began = None;
        if header.command == Command::Disconnect {
            self.phase = Phase::Leaving;
            return Ok(None);
        }
        Ok(Some(Arrived { header, at, data }))
    }

    /// A step of the handshake; `false` where more bytes are needed.
    fn shake(&mut self, export: &Export) -> Result<bool, String> {
        let bytes = &self.input[self.used..self.filled];
        let shaken = match self.phase {
            Phase::Options { no_zeroes, seen } if seen < nbd::MAX_OPTIONS => {
                nbd::option(bytes, export, no_zeroes)?
            }
            Phase::Options { .. } => return Err(format!("more than {} options", nbd::MAX_OPTIONS)),
            _ => nbd::client_flags(bytes)?,
        };
        let Shaken::Go { used, reply, then } = shaken else { return Ok(false) };
        self.used += used;
        if !reply.is_empty() {
            self.output.push_back(reply);
        }
        let seen = if let Phase::Options { seen, .. } = self.phase { seen + 1 } else { 0 };
        self.phase = match then {
            Then::Options { no_zeroes } => Phase::Options { no_zeroes, seen },
            Then::Transmission => Phase::Transmission,
            Then::Close => Phase::Leaving,
        };
        Ok(true)
    }

    /// A request's data.
    pub(super) fn data(&self, arrived: &Arrived) -> &[u8] {
        &self.input[arrived.data.clone()]
    }

    /// Counts an answer of so many bytes that is being prepared.
    pub(super) fn hold(&mut self, answer: usize) {
        self.held += answer;
        self.in_flight += 1;
    }

    /// An answer that was held goes out.
    pub(super) fn answer(&mut self, answer: Vec<u8>) {
        self.in_flight -= 1;
        self.output.push_back(answer);
    }

    /// An answer that was never held goes out: a refusal.
    pub(super) fn refuse(&mut self, answer: Vec<u8>) {
        self.held += answer.len();
        self.output.push_back(answer);
    }

    /// Sends what the socket takes.
    ///
    /// # Errors
    /// Where the socket says so; a full one is none.
    pub(super) fn send(&mut self) -> io::Result<()> {
        while let Some(first) = self.output.front() {
            match self.stream.write(&first[self.sent..]) {
                Ok(sent) => self.sent += sent,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
            if self.sent == first.len() {
                self.held = self.held.saturating_sub(first.len());
                self.sent = 0;
                self.keep_spare();
            }
        }
        Ok(())
    }

    fn keep_spare(&mut self) {
        let Some(mut sent) = self.output.pop_front() else { return };
        if self.spare.len() < MAX_SPARE && sent.capacity() <= MAX_SPARE_BYTES {
            sent.clear();
            self.spare.push(sent);
        }
    }

    /// Empty memory for an answer.
    pub(super) fn memory(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }
}
