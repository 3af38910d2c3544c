//! JSON of sysstat: `sadf -j`, and `-o JSON` of iostat, mpstat and pidstat.
//!
//! All have one shape: hosts, and in each a list of statistics, whose members are objects, and lists of
//! objects that a text tells apart (`"cpu": "all"`, `"disk-device": "sda"`). So a member that a version adds
//! is read without being known. Read as a stream: memory does not grow with the file.
//!
//! Source: `json_stats.c` of sysstat 12.6, and the JSON of `iostat.c` and `mpstat.c`.

use super::error::{Error, Place};
use super::json::{Plain, Taken, Token, Tokens};
use super::series::{Owner, Pace, Samples, Series, Shape};
use super::{Imported, Part, clock, meaning, part_of_series};
use domain::bench::Sink;
use domain::time::Nanos;
use std::collections::BTreeMap;
use std::io::BufRead;

const WHAT: &str = "sysstat-json";

/// Reads a file for its columns and means; of iostat, mpstat and pidstat, too.
pub(super) fn read(input: &mut dyn BufRead, pace: Pace) -> Result<Imported, Error> {
    let mut reader = Reader::new(input, Samples::means(WHAT, pace));
    let walked = reader.walk().map_err(|error| error.located(reader.tokens.place()));
    let so_far = format!("{} samples of {}", reader.samples.count(), reader.tool());
    walked.map_err(|error| error.after(&so_far))?;
    let (tool, facts, mut notes) = (reader.tool(), reader.facts, reader.notes);
    let parts: Vec<Part> = reader
        .samples
        .finish()?
        .map(|series| part_of_series(tool, tool, series, &mut notes))
        .into_iter()
        .collect();
    Ok(Imported { parts, facts, notes })
}

/// Reads it again, and hands the samples on.
pub(super) fn stream(
    input: &mut dyn BufRead,
    pace: Pace,
    known: &Series,
    sink: &mut dyn Sink,
) -> Result<(), Error> {
    let mut reader = Reader::new(input, Samples::onward(WHAT, pace, known, sink)?);
    reader.walk().map_err(|error| error.located(reader.tokens.place()))?;
    reader.samples.finish().map(|_| ())
}

struct Reader<'i, 's> {
    tokens: Tokens<&'i mut dyn BufRead>,
    samples: Samples<'s>,
    facts: BTreeMap<String, String>,
    notes: Vec<String>,
    cpus: Option<u32>,
    /// What the lists and objects say which tool it was.
    tool: &'static str,
    hosts: u32,
    midnight: i64,
    day: clock::Day,
    last: Option<i64>,
    /// The texts of the object that is read, which tell it from others.
    object: Vec<u8>,
    key: String,
    /// What stands before the keys of its values, made anew for each object.
    field: Vec<u8>,
}

impl<'i, 's> Reader<'i, 's> {
    fn new(input: &'i mut dyn BufRead, samples: Samples<'s>) -> Self {
        Self {
            tokens: Tokens::new(input, WHAT),
            samples,
            facts: BTreeMap::new(),
            notes: Vec::new(),
            cpus: None,
            tool: "sysstat",
            hosts: 0,
            midnight: 0,
            day: clock::Day::default(),
            last: None,
            object: Vec::new(),
            key: String::new(),
            field: Vec::new(),
        }
    }

    fn tool(&self) -> &'static str {
        self.tool
    }

    fn walk(&mut self) -> Result<(), Error> {
        loop {
            match self.tokens.token()? {
                None => return Ok(()),
                Some(Token::Key("sysstat" | "hosts")) => {}
                Some(Token::Key("statistics")) => self.statistics()?,
                Some(Token::Key(key)) => {
                    key.clone_into(&mut self.key);
                    self.fact()?;
                }
                Some(_) => {}
            }
        }
    }

    /// Something that a host says of itself.
    fn fact(&mut self) -> Result<(), Error> {
        let value = match self.tokens.token()? {
            Some(Token::Text(text)) => text.to_owned(),
            Some(Token::Number(number)) => number.to_string(),
            Some(Token::Object | Token::Array) => {
                // Restarts and comments come as lists of their own.
                let depth = self.tokens.depth();
                while self.tokens.depth() >= depth && self.tokens.token()?.is_some() {}
                return Ok(());
            }
            _ => return Ok(()),
        };
        match self.key.as_str() {
            "nodename" => self.hosts += 1,
            "number-of-cpus" => self.cpus = value.parse().ok(),
            "date" | "file-date" => {
                self.midnight = clock::date(&value).unwrap_or(0);
                self.day = clock::Day::of(self.midnight);
            }
            _ => {}
        }
        let name = match self.key.as_str() {
            "nodename" => "host",
            "release" => "kernel",
            "machine" => "architecture",
            "number-of-cpus" => "cpus",
            "date" | "file-date" => "date",
            "timezone" => "time zone",
            _ => return Ok(()),
        };
        if self.key == "file-date" {
            self.tool = "sadf";
        }
        self.facts.insert(name.to_owned(), value);
        Ok(())
    }

    /// The list of samples; those of further hosts are passed over, for a trace is of one machine.
    fn statistics(&mut self) -> Result<(), Error> {
        if self.hosts > 1 {
            self.notes.push("left out all hosts but the first".to_owned());
            return self.tokens.skip();
        }
        match self.tokens.token()? {
            Some(Token::Array) => {}
            _ => return Err(self.tokens.fault("expected the list of statistics")),
        }
        loop {
            match self.tokens.token()? {
                Some(Token::Object) => self.sample()?,
                Some(Token::End) | None => return Ok(()),
                Some(_) => return Err(self.tokens.fault("expected an object of statistics")),
            }
        }
    }

    fn sample(&mut self) -> Result<(), Error> {
        let mut begun = false;
        loop {
            match self.tokens.token()? {
                Some(Token::Key("timestamp")) => {
                    let (at, interval) = self.timestamp()?;
                    self.begin(at, interval)?;
                    begun = true;
                }
                Some(Token::Key(key)) => {
                    key.clone_into(&mut self.key);
                    if !begun {
                        self.begin(None, None)?;
                        begun = true;
                    }
                    let group = self.key.clone();
                    self.know(&group);
                    self.value(&group)?;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Which tool it is shows in what only it prints.
    fn know(&mut self, group: &str) {
        self.tool = match (self.tool, group) {
            ("sysstat", "avg-cpu" | "disk") => "iostat",
            ("sysstat", "cpu-load" | "sum-interrupts" | "node-load" | "individual-interrupts") => "mpstat",
            (
                "sysstat",
                "task-cpu-load" | "child-cpu-load" | "task-memory" | "child-memory" | "stack"
                | "context-switch" | "realtime",
            ) => "pidstat",
            (known, _) => known,
        };
        if self.tool == "iostat" {
            self.samples.first_is_since_boot();
        }
    }

    fn begin(&mut self, at: Option<i64>, interval: Option<Nanos>) -> Result<(), Error> {
        let before =
            at.zip(self.last).filter(|(at, last)| at > last).map(|(at, last)| Nanos::new(at.abs_diff(last)));
        self.last = at;
        // Places are dear to know, and only a bound needs one: it is added below.
        self.samples.begin(Place::default(), at, interval.or(before))
    }

    /// `{"date": "2026-11-21", "time": "22:14:07", "utc": 1, "interval": 1}`, or a text.
    fn timestamp(&mut self) -> Result<(Option<i64>, Option<Nanos>), Error> {
        match self.tokens.token()? {
            Some(Token::Text(text)) => {
                let (time, half) =
                    text.split_once(' ').map_or((text, None), |(time, half)| (time, Some(half)));
                let seconds = clock::time_of_day(time, half);
                let at = clock::moment(text).or_else(|| seconds.map(|s| self.day.moment(s)));
                return Ok((at, None));
            }
            Some(Token::Object) => {}
            _ => return Ok((None, None)),
        }
        let (mut date, mut time, mut interval) = (None, None, None);
        loop {
            let is_date = match self.tokens.token()? {
                Some(Token::Key("date")) => Some(true),
                Some(Token::Key("time")) => Some(false),
                Some(Token::Key("interval")) => {
                    interval = self
                        .tokens
                        .number()?
                        .filter(|s| (1.0..1e7).contains(s))
                        .map(|s| Nanos::from_secs(s as u64));
                    continue;
                }
                Some(Token::Key(_)) => None,
                _ => break,
            };
            match (is_date, self.tokens.token()?) {
                (Some(true), Some(Token::Text(text))) => date = clock::date(text),
                (Some(false), Some(Token::Text(text))) => time = clock::time_of_day(text, None),
                _ => {}
            }
        }
        Ok((date.zip(time).map(|(date, time)| clock::at(date, time)), interval))
    }

    /// A value below a group: a number, an object of them, or a list of objects.
    fn value(&mut self, group: &str) -> Result<(), Error> {
        match self.tokens.token()? {
            Some(Token::Number(number)) => self.put(group, "", number),
            Some(Token::Array) => loop {
                match self.tokens.token()? {
                    Some(Token::Object) => self.object(group)?,
                    Some(Token::Array) => return Err(self.tokens.fault("expected an object")),
                    Some(Token::End) | None => return Ok(()),
                    Some(_) => {}
                }
            },
            Some(Token::Object) => self.object(group),
            _ => Ok(()),
        }
    }

    fn object(&mut self, group: &str) -> Result<(), Error> {
        self.object.clear();
        loop {
            let mut to = Names::new(self.tool, self.cpus, group, &mut self.object, &mut self.field);
            let samples = &mut self.samples;
            self.tokens.members(|key, value| {
                match value {
                    Plain::Number(number) => to.put(samples, key, number)?,
                    Plain::Text(text) => to.tell(text),
                }
                Ok(Taken::Yes)
            })?;
            match self.tokens.token()? {
                Some(Token::Key(key)) => key.clone_into(&mut self.key),
                _ => return Ok(()),
            }
            match self.tokens.token()? {
                Some(Token::Number(number)) => {
                    let key = std::mem::take(&mut self.key);
                    let put = self.put(group, &key, number);
                    self.key = key;
                    put?;
                }
                Some(Token::Text(text)) => {
                    Names::new(self.tool, self.cpus, group, &mut self.object, &mut self.field)
                        .tell(text.as_bytes());
                }
                Some(Token::Object) => {
                    let group = self.key.clone();
                    self.object(&group)?;
                    self.object.clear();
                }
                Some(Token::Array) => {
                    let group = self.key.clone();
                    self.list(&group)?;
                    self.object.clear();
                }
                _ => {}
            }
        }
    }

    fn list(&mut self, group: &str) -> Result<(), Error> {
        loop {
            match self.tokens.token()? {
                Some(Token::Object) => self.object(group)?,
                Some(Token::End) | None => return Ok(()),
                Some(_) => {}
            }
        }
    }

    fn put(&mut self, group: &str, key: &str, number: f64) -> Result<(), Error> {
        let mut to = Names::new(self.tool, self.cpus, group, &mut self.object, &mut self.field);
        to.put(&mut self.samples, key.as_bytes(), number)
    }
}

/// What values belong to.
struct Names<'a> {
    tool: &'static str,
    cpus: Option<u32>,
    group: &'a str,
    object: &'a mut Vec<u8>,
    /// The group and a slash, where the object may stand in several groups.
    prefix: &'a mut Vec<u8>,
    owner: Owner,
}

impl<'a> Names<'a> {
    fn new(
        tool: &'static str,
        cpus: Option<u32>,
        group: &'a str,
        object: &'a mut Vec<u8>,
        prefix: &'a mut Vec<u8>,
    ) -> Self {
        let mut names = Self { tool, cpus, group, object, prefix, owner: Owner::default() };
        names.anew();
        names
    }

    /// A text tells the object from others.
    fn tell(&mut self, text: &[u8]) {
        if !self.object.is_empty() {
            self.object.push(b'.');
        }
        self.object.extend_from_slice(text);
        self.anew();
    }

    fn anew(&mut self) {
        self.owner = Owner::default();
        self.prefix.clear();
        // CPUs, disks and interfaces stand in one group alone; fans and interrupts of one name may stand in
        // several.
        if !self.object.is_empty() && !matches!(self.group, "cpu-load" | "cpu-load-all" | "disk" | "net-dev")
        {
            self.prefix.extend_from_slice(self.group.as_bytes());
            self.prefix.push(b'/');
        }
    }

    #[inline]
    fn put(&mut self, samples: &mut Samples<'_>, key: &[u8], number: f64) -> Result<(), Error> {
        let (tool, group, object, cpus) = (self.tool, self.group, self.object.as_slice(), self.cpus);
        let shape =
            || shape(tool, group, &String::from_utf8_lossy(object), &String::from_utf8_lossy(key), cpus);
        let column = if object.is_empty() { group.as_bytes() } else { object };
        samples.put_of(&mut self.owner, Place::default(), column, (self.prefix, key), number, &shape)
    }
}

fn shape(tool: &str, group: &str, object: &str, key: &str, cpus: Option<u32>) -> Shape {
    match group {
        "cpu-load" | "cpu-load-all" => meaning::cpu(tool, object, key, cpus),
        "avg-cpu" => meaning::cpu(tool, "all", key, cpus),
        "disk" => meaning::disk(tool, object, key),
        "net-dev" => meaning::other(tool, &format!("net.{object}"), key, true),
        "cpu-frequency" => meaning::frequency(object),
        _ if object.is_empty() => meaning::other(tool, group, key, true),
        _ => meaning::other(tool, &format!("{group}.{object}"), key, false),
    }
}
