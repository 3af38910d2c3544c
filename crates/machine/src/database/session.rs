//! A session that stays open, in which a server is asked for its counters again and again.

use super::client::{APPLICATION, row};
use super::counters::{LAST, Questions, add_own, sample};
use super::{Client, Error};
use crate::workload::dies_with_us;
use domain::database::Kind;
use domain::database::counters::{Counter, Sample};
use domain::time::Nanos;
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How long an answer may take, the connection included: a server under load answers late.
const ANSWER: Duration = Duration::from_secs(10);

/// How many lines of an answer may wait to be read; an answer has fewer than 40.
const WAITING_LINES: usize = 64;

/// How much of a client's complaint is kept.
const COMPLAINT: u64 = 4096;

/// A client that waits for questions. Dropped, it is ended.
#[derive(Debug)]
pub struct Session<'a> {
    client: &'a Client,
    questions: &'a Questions,
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    complaint: Option<JoinHandle<String>>,
    /// What Flyball has done at this server before the next question.
    own: BTreeMap<Counter, u64>,
}

impl Client {
    /// Opens a session, and asks once: what a session reads of the catalogue it reads for its first question.
    /// `own` is what sessions before it have done ([`Session::own`]).
    ///
    /// # Errors
    /// [`Error::Refused`] where the server does not answer; [`Error::Client`].
    pub fn session<'a>(
        &'a self,
        questions: &'a Questions,
        own: BTreeMap<Counter, u64>,
    ) -> Result<Session<'a>, Error> {
        let mut argv = self.connecting(APPLICATION);
        if self.login.kind == Kind::MariaDb {
            argv.push("--unbuffered".into());
        }
        let program = self.program().0;
        let failed = |source| Error::Client { program, source };
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        dies_with_us(&mut command, Signal::KILL);
        let mut child = command.spawn().map_err(failed)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(complaints)) = pipes else {
            unreachable!("each was asked for as a pipe")
        };
        let lines = lines_of(output);
        let mut session = Session {
            client: self,
            questions,
            child,
            input,
            lines,
            complaint: Some(complaint_of(complaints)),
            own,
        };
        if self.login.kind == Kind::PostgreSql {
            // A session begins with a transaction (`InitPostgres`).
            *session.own.entry(Counter::Ended).or_default() += 1;
        }
        session.ask()?;
        Ok(session)
    }
}

impl Session<'_> {
    /// Asks for the counters. Their time is not set.
    ///
    /// # Errors
    /// [`Error::Refused`] where the server says no, is gone, or answers too late; the session is of no use
    /// after that.
    pub fn ask(&mut self) -> Result<Sample, Error> {
        let deadline = Instant::now() + ANSWER;
        if writeln!(self.input, "{};", self.questions.statement).and_then(|()| self.input.flush()).is_err() {
            return Err(self.ended());
        }
        let mut rows = Vec::new();
        loop {
            match self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => {
                    let fields = row(&line);
                    if fields.first().is_some_and(|name| name == LAST) {
                        break;
                    }
                    rows.push(fields);
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(self.refused(format!("it did not answer within {} s", ANSWER.as_secs())));
                }
            }
        }
        let answer = sample(&rows).map_err(|why| self.refused(why))?;
        let mut told = answer.clone();
        match self.client.login.kind {
            // It says what this session has done.
            Kind::MariaDb => told.own.iter_mut().for_each(|(counter, own)| {
                *own += self.own.get(counter).copied().unwrap_or_default();
            }),
            Kind::PostgreSql => told.own = self.own.clone(),
        }
        add_own(self.client.login.kind, &mut self.own, &answer);
        Ok(Sample { time: Nanos::ZERO, ..told })
    }

    fn ended(&mut self) -> Error {
        let said = self.complaint.take().and_then(|complaint| complaint.join().ok()).unwrap_or_default();
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        self.refused(last.map_or_else(|| "its client has ended".to_owned(), |line| line.trim().to_owned()))
    }

    fn refused(&self, said: String) -> Error {
        self.client.refused("read the counters of", said)
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // It only reads, and what it has asked for is answered or lost.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The lines of a client, until it ends or nobody wants them any more.
fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = sync_channel(WAITING_LINES);
    thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        lines.filter(|line| !line.is_empty()).try_for_each(|line| sender.send(line))
    });
    receiver
}

fn complaint_of(complaints: ChildStderr) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut said = Vec::new();
        // What cannot be read of it was not said.
        let _ = complaints.take(COMPLAINT).read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    })
}
