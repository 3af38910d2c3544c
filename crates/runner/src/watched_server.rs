//! A database server that is somebody's, watched by its own counters while it does what it does. It is asked
//! once a second and at both ends, in one session; nothing is made in it and nothing of it is changed.

use crate::{Error, ExistingServer, environment};
use domain::database::Kind;
use domain::database::counters::{Counter, Missing, Sample, WATCHED};
use domain::study;
use domain::time::Nanos;
use machine::LocalMachine;
use machine::database::{NamedBy, Questions, Session};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Between two questions. PostgreSQL's sessions do not report more often.
const EVERY: Duration = Duration::from_secs(1);

/// How long sessions that have ended may take to report what they did: their processes outlive their clients
/// by milliseconds.
const LAST_REPORTS: Duration = Duration::from_millis(200);

/// How late a session of PostgreSQL's reports that is at work (`PGSTAT_MIN_INTERVAL` of its `pgstat.c`).
const REPORTED_LATE: Duration = Duration::from_secs(1);

/// A server that is to be watched.
#[derive(Debug)]
pub struct WatchedServer {
    server: ExistingServer,
    questions: Questions,
}

/// One that is being watched. Dropped, it is watched no longer.
#[derive(Debug)]
pub struct Watching {
    stop: SyncSender<Option<Instant>>,
    thread: JoinHandle<Counted>,
}

/// What a server said while it was watched.
#[derive(Debug, Default)]
pub struct Counted {
    /// In the order of their time; of those between which counters did not begin anew, the first and the
    /// last.
    pub samples: Vec<Sample>,
    /// How many there were.
    pub count: u64,
    /// Questions without an answer.
    pub unanswered: u64,
    /// Why the last of these had none.
    pub last_refusal: Option<String>,
    /// Why the samples could not be kept in a file.
    pub not_kept: Option<String>,
}

impl WatchedServer {
    /// Asks a server of this kind about itself, and what of its counters it tells.
    ///
    /// # Errors
    /// [`Error::Database`] where it does not answer, lets this user not in, or tells none.
    pub fn open(kind: Kind, server: &study::ExistingServer) -> Result<Arc<Self>, Error> {
        let server = ExistingServer::look(kind, server, NamedBy::Options)?;
        let questions = server.client().questions(&LocalMachine)?;
        Ok(Arc::new(Self { server, questions }))
    }

    /// Which kind it is.
    pub fn kind(&self) -> Kind {
        self.server.client().login().kind
    }

    /// Its first process, where that is on this machine and visible.
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// What it is not asked for, and why.
    pub fn missing(&self) -> &[Missing] {
        &self.questions.missing
    }

    /// Which one it is: `MariaDB at /run/mysqld/mysqld.sock`.
    pub fn name(&self) -> String {
        let login = self.server.client().login();
        format!("{} at {}", login.kind.title(), login.address)
    }

    /// For a trial's environment: which server it is, its settings, and the storage below its data.
    pub fn shown(&self) -> BTreeMap<String, String> {
        let mut all = self.server.state();
        all.insert(WATCHED.to_owned(), self.name());
        let below = self.server.data().map(|data| environment::below(&LocalMachine, data, None));
        all.extend(below.into_iter().flatten());
        all
    }

    /// That its commits wait for no disk, where they do not.
    pub fn warning(&self) -> Option<String> {
        self.server.warning()
    }

    /// How far its counters can be trusted for a recording of this length; `None` where they are exact.
    pub fn bound(&self, span: Nanos, ended_by_itself: bool) -> Option<String> {
        if self.kind() == Kind::MariaDb {
            return None;
        }
        let share = (REPORTED_LATE.as_secs_f64() / span.secs().max(f64::MIN_POSITIVE)).min(1.0);
        let of_rates = match ended_by_itself {
            true => {
                "what was recorded has ended, and its sessions with it: all of theirs is counted; of others"
                    .to_owned()
            }
            false => "so".to_owned(),
        };
        Some(format!(
            "PostgreSQL's sessions report once a second at the most, and ten seconds after they fall idle; {of_rates} up to {:.0}% of a rate may belong to the time before or be missing, but for write_transactions",
            share * 100.0
        ))
    }

    /// Begins to watch it, with a first sample. Times are those since that; samples go into a file too.
    ///
    /// # Errors
    /// [`Error::Database`] where it does not answer; [`Error::File`] where the file cannot be made.
    pub fn watch(self: &Arc<Self>, file: &Path) -> Result<Watching, Error> {
        let made = File::create_new(file).map_err(|source| Error::file("create", file, source));
        let file = BufWriter::new(made?);
        let (stop, stopped) = sync_channel(1);
        let (say, said) = sync_channel(1);
        let server = Arc::clone(self);
        let thread = thread::spawn(move || {
            let mut watcher =
                Watcher { server: &server, first: None, session: None, kept: Counted::default(), file };
            let first = watcher.ask();
            let is_begun = first.is_ok();
            let heard = say.send(first).is_ok();
            if !(is_begun && heard) {
                return watcher.done();
            }
            let mut next = Instant::now() + EVERY;
            loop {
                match stopped.recv_timeout(next.saturating_duration_since(Instant::now())) {
                    Err(RecvTimeoutError::Timeout) => {
                        watcher.ask_again();
                        // What was missed is not made up for.
                        next = (next + EVERY).max(Instant::now());
                    }
                    Ok(ended) => {
                        watcher.finish(ended);
                        return watcher.done();
                    }
                    Err(RecvTimeoutError::Disconnected) => return watcher.done(),
                }
            }
        });
        match said.recv() {
            Ok(first) => first?,
            Err(_) => unreachable!("the thread says how its first question went"),
        }
        Ok(Watching { stop, thread })
    }
}

impl Watching {
    /// Ends it, with a last sample. `ended` says when what was recorded ended by itself: what its sessions
    /// did is counted to the end then.
    pub fn stop(self, ended: Option<Instant>) -> Counted {
        // A thread that is gone says so when it is joined.
        let _ = self.stop.send(ended);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

struct Watcher<'a> {
    server: &'a WatchedServer,
    /// When the server counted for the first sample.
    first: Option<Instant>,
    session: Option<Session<'a>>,
    kept: Counted,
    file: BufWriter<File>,
}

impl Watcher<'_> {
    fn ask(&mut self) -> Result<(), Error> {
        if self.session.is_none() {
            let own = self.kept.samples.last().map(|sample| sample.own.clone()).unwrap_or_default();
            self.session = Some(self.server.server.client().session(&self.server.questions, own)?);
        }
        let Some(session) = &mut self.session else { unreachable!("it was opened") };
        let asked = Instant::now();
        let answer = session.ask();
        // The server counted at some time between.
        let counted = asked + asked.elapsed() / 2;
        match answer {
            Ok(sample) => {
                let time = self.since_first(counted);
                self.keep(Sample { time, ..sample });
                Ok(())
            }
            Err(error) => {
                self.session = None;
                Err(error.into())
            }
        }
    }

    fn since_first(&mut self, time: Instant) -> Nanos {
        let first = *self.first.get_or_insert(time);
        Nanos::new(time.saturating_duration_since(first).as_nanos() as u64)
    }

    /// A server that does not answer is asked again a second later.
    fn ask_again(&mut self) {
        if let Err(error) = self.ask() {
            self.kept.unanswered += 1;
            self.kept.last_refusal = Some(error.to_string());
        }
    }

    fn finish(&mut self, ended: Option<Instant>) {
        if ended.is_some() && self.server.kind() == Kind::PostgreSql {
            thread::sleep(LAST_REPORTS);
        }
        let before = self.kept.count;
        self.ask_again();
        let ended = ended.map(|ended| self.since_first(ended));
        if let (Some(ended), Some(last)) = (ended, self.kept.samples.last_mut())
            && self.kept.count > before
        {
            last.time = last.time.min(ended);
        }
    }

    fn keep(&mut self, sample: Sample) {
        let written = line(&mut self.file, self.kept.count, &sample);
        if let Err(error) = written {
            self.kept.not_kept.get_or_insert_with(|| error.to_string());
        }
        self.kept.count += 1;
        let samples = &mut self.kept.samples;
        // The one before it is neither the first nor the last of its part any more.
        if let [.., earlier, between] = samples.as_slice()
            && !earlier.begins_anew(between)
            && !between.begins_anew(&sample)
        {
            samples.pop();
        }
        samples.push(sample);
    }

    fn done(mut self) -> Counted {
        if let Err(error) = self.file.flush() {
            self.kept.not_kept.get_or_insert_with(|| error.to_string());
        }
        self.kept
    }
}

/// A row of tab-separated values, after the names before the first: time, epoch, each counter, Flyball's own
/// share of each. What the server does not count is empty.
fn line(to: &mut impl Write, count: u64, sample: &Sample) -> io::Result<()> {
    if count == 0 {
        let names: Vec<&str> = Counter::ALL.into_iter().map(Counter::name).collect();
        writeln!(to, "time_ns\tepoch\t{}\town_{}", names.join("\t"), names.join("\town_"))?;
    }
    let values = |all: &BTreeMap<Counter, u64>| {
        let value = |counter| all.get(&counter).map_or_else(String::new, u64::to_string);
        Counter::ALL.map(value).join("\t")
    };
    let Sample { time, epoch, counted, own } = sample;
    writeln!(to, "{}\t{epoch}\t{}\t{}", time.get(), values(counted), values(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_field_for_each_name_and_none_for_what_is_not_counted() {
        let mut text = Vec::new();
        let sample = Sample {
            time: Nanos::new(5),
            epoch: "noon".into(),
            counted: [(Counter::Statements, 7)].into(),
            own: [(Counter::Statements, 2)].into(),
        };
        line(&mut text, 0, &sample).unwrap();
        line(&mut text, 1, &sample).unwrap();
        let text = String::from_utf8(text).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('\t').collect()).collect();
        assert_eq!(rows.len(), 3);
        let field = |name: &str| rows[1][rows[0].iter().position(|is| *is == name).unwrap()];
        assert_eq!(
            [field("time_ns"), field("epoch"), field("statements"), field("own_statements")],
            ["5", "noon", "7", "2"]
        );
        assert_eq!([field("rows_read"), field("own_ended")], ["", ""]);
        assert_eq!(rows[0].len(), rows[2].len());
    }
}
