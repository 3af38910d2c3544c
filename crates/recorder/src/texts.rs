//! The system's sources on this machine: which there are, how often each is read, and their kept descriptors.

use crate::patch;
use crate::recorder::Roots;
use crate::source::{AperfGroup, Format, GROUPS, Source};
use crate::spool::{Kind, Writer};
use domain::Nanos;
use domain::energy::EnergySource;
use domain::trace::FrequencySource;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Most reads a second of a group of files that grows with the CPUs. One costs about 1 µs, through an
/// interrupt on another CPU about 3 µs: so a group costs at most 1% of a core, however large the machine.
const MAX_READS_PER_SECOND: u64 = 3_000;

/// What a file is given to grow beyond its first reading: counters gain digits, devices are added.
const GROWTH: usize = 4096;

/// Everything that is sampled of the system.
#[derive(Debug)]
pub struct Sources {
    list: Vec<KeptSource>,
    fresh: Vec<u8>,
    patch: Vec<u8>,
    /// Where frequencies come from.
    pub frequency: FrequencySource,
    /// Where the energy of the whole machine or its packages comes from, once a source of it is open.
    pub energy: Option<EnergySource>,
    /// What is not sampled, and why.
    pub absent: Vec<String>,
}

#[derive(Debug)]
struct KeptSource {
    source: Source,
    input: Input,
    every: u64,
    phase: u64,
    /// Bytes that a reading may have.
    room: usize,
    previous: Vec<u8>,
    state: State,
}

/// What a source is read from.
#[derive(Debug)]
pub enum Input {
    /// A file that is read from its start each time.
    File(File),
    /// Counters of a CPU.
    Counters(AperfGroup),
    /// Files that are read together, each with what stands before its text.
    Together(Vec<(String, File)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing is in the spool yet.
    New,
    /// The spool holds the previous text.
    Known,
    /// The spool says that it is gone.
    Gone,
}

impl Sources {
    /// Opens what this machine has.
    ///
    /// # Errors
    /// Where there is no `/proc/stat`.
    pub fn open(roots: &Roots, interval: Nanos) -> crate::Result<Self> {
        let mut sources = Self {
            list: Vec::new(),
            fresh: Vec::new(),
            patch: Vec::new(),
            frequency: FrequencySource::None,
            energy: None,
            absent: Vec::new(),
        };
        for group in GROUPS {
            (group.open)(&mut sources, roots, interval)?;
        }
        let longest = sources.list.iter().map(|kept| kept.room).max().unwrap_or_default();
        sources.fresh.resize(longest, 0);
        sources.patch.reserve(2 * longest);
        Ok(sources)
    }

    /// The most that one sample of all of them takes in a spool.
    pub fn sample_bytes(&self) -> usize {
        self.list.iter().map(|kept| kept.previous.capacity() + 16).sum()
    }

    /// Declares them in the spool.
    pub fn declare(&self, spool: &mut Writer) {
        for (id, kept) in self.list.iter().enumerate() {
            let every = (kept.every as u16).to_le_bytes();
            let phase = (kept.phase as u16).to_le_bytes();
            spool.frame(Kind::Source, id as u16, &[&every, &phase, kept.source.label().as_bytes()]);
        }
    }

    /// Reads those whose turn it is.
    pub fn sample(&mut self, tick: u64, spool: &mut Writer) {
        for (id, kept) in self.list.iter_mut().enumerate() {
            if tick % kept.every == kept.phase {
                kept.sample(id as u16, &mut self.fresh, &mut self.patch, spool);
            }
        }
    }

    /// Reads all of them, whoever's turn it is.
    pub fn sample_all(&mut self, spool: &mut Writer) {
        for (id, kept) in self.list.iter_mut().enumerate() {
            kept.sample(id as u16, &mut self.fresh, &mut self.patch, spool);
        }
    }

    /// Opens a file that is read at every so many samples.
    ///
    /// # Errors
    /// Where it cannot be opened and read.
    pub fn add(
        &mut self,
        format: &'static dyn Format,
        argument: impl Into<String>,
        path: &Path,
        every: u64,
    ) -> io::Result<()> {
        let source = Source::new(format, argument);
        let file = File::open(path)?;
        let lengths = first_lengths(&source, &file)?;
        self.keep_some(source, Input::File(file), lengths, every);
        Ok(())
    }

    /// Opens files that are read together at every so many samples, each with what stands before its text.
    ///
    /// # Errors
    /// The first that cannot be opened and read.
    pub fn add_together(
        &mut self,
        format: &'static dyn Format,
        argument: impl Into<String>,
        files: &[(String, PathBuf)],
        every: u64,
    ) -> Result<(), (PathBuf, io::Error)> {
        let source = Source::new(format, argument);
        let (mut opened, mut length) = (Vec::new(), 0);
        for (prefix, path) in files {
            let open = || {
                let file = File::open(path)?;
                let lengths = first_lengths(&source, &file)?;
                Ok((file, lengths.read))
            };
            let (file, read) = open().map_err(|error| (path.clone(), error))?;
            length += prefix.len() + read;
            opened.push((prefix.clone(), file));
        }
        self.keep(source, Input::Together(opened), length, every);
        Ok(())
    }

    /// Opens a file that is read at each sample, or notes that there is none.
    pub fn add_or_note(&mut self, format: &'static dyn Format, argument: &str, path: &Path, what: &str) {
        if let Err(error) = self.add(format, argument, path, 1) {
            self.absent.push(format!("no {what}: `{}`: {error}", path.display()));
        }
    }

    /// Takes up what is open; `length` is what it takes today.
    pub fn keep(&mut self, source: Source, input: Input, length: usize, every: u64) {
        self.keep_some(source, input, Lengths { read: length, stored: length }, every);
    }

    fn keep_some(&mut self, source: Source, input: Input, lengths: Lengths, every: u64) {
        // Neighbours take turns, so that no sample carries a whole group.
        let phase = self.list.len() as u64 % every;
        let with_growth = |length: usize| length + if length < 64 { 64 } else { length + GROWTH };
        let room = with_growth(lengths.read);
        let previous = Vec::with_capacity(with_growth(lengths.stored));
        self.list.push(KeptSource { source, input, every, phase, room, previous, state: State::New });
    }
}

impl KeptSource {
    fn sample(&mut self, id: u16, fresh: &mut [u8], patch: &mut Vec<u8>, spool: &mut Writer) {
        let Ok(length) = self.input.read(&mut fresh[..self.room]) else {
            if self.state != State::Gone {
                spool.frame(Kind::Gone, id, &[]);
                self.state = State::Gone;
            }
            return;
        };
        let fresh = self.source.keep_of(&mut fresh[..length], self.room, self.previous.capacity());
        if self.state == State::Known && fresh == self.previous {
            return;
        }
        self.write(id, fresh, patch, spool);
        self.previous.clear();
        self.previous.extend_from_slice(fresh);
        self.state = State::Known;
    }

    fn write(&self, id: u16, fresh: &[u8], patch: &mut Vec<u8>, spool: &mut Writer) {
        if self.state == State::Known && fresh.len() <= patch::LONGEST {
            patch::diff(&self.previous, fresh, patch);
            if patch.len() < fresh.len() {
                return spool.frame(Kind::Patch, id, &[patch]);
            }
        }
        spool.frame(Kind::Whole, id, &[fresh]);
    }
}

impl Source {
    /// What is stored of a reading: what its format wants of it, and only whole lines of what outgrew its
    /// buffer or has more than `most` bytes.
    fn keep_of<'a>(&self, text: &'a mut [u8], room: usize, most: usize) -> &'a [u8] {
        let end = self.end(text);
        let wanted = end.unwrap_or(text.len());
        if wanted <= most && (end.is_some() || text.len() < room) {
            return &text[..wanted];
        }
        let whole = &text[..wanted.min(most)];
        let end = whole.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        &text[..end]
    }
}

impl Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Input::File(file) => file.read_at(into, 0),
            Input::Counters(group) => match group.leader.read(into)? {
                // A counter of a CPU that went offline reads as the end of the file.
                0 => Err(io::ErrorKind::NotConnected.into()),
                length => Ok(length),
            },
            Input::Together(files) => {
                let mut end = 0;
                for (prefix, file) in files {
                    let begin = end + prefix.len();
                    // There is room for twice what they took at first.
                    let Some(room) = into.get_mut(end..).filter(|room| room.len() > prefix.len()) else {
                        return Err(io::ErrorKind::FileTooLarge.into());
                    };
                    room[..prefix.len()].copy_from_slice(prefix.as_bytes());
                    end = begin + file.read_at(&mut into[begin..], 0)?;
                }
                Ok(end)
            }
        }
    }
}

/// How long a reading is, and what is stored of it.
struct Lengths {
    read: usize,
    stored: usize,
}

/// Those of the first reading; the file is read to its end, whatever its length.
fn first_lengths(source: &Source, file: &File) -> io::Result<Lengths> {
    let mut text = Vec::new();
    let mut file = file;
    file.read_to_end(&mut text)?;
    let read = text.len();
    Ok(Lengths { read, stored: source.end(&mut text).unwrap_or(read) })
}

/// Every how many samples a group of so many files is read: within [`MAX_READS_PER_SECOND`], and no more
/// often than `period`.
pub fn every(files: usize, interval: Nanos, period: Nanos) -> u64 {
    let bound_ns = files as u64 * 1_000_000_000 / MAX_READS_PER_SECOND;
    bound_ns.max(period.get()).div_ceil(interval.get()).clamp(1, u16::MAX.into())
}

/// The numbers behind a prefix in a folder: 0 and 1 of `cpu0`, `cpu1`, `cpuidle`; sorted.
pub fn numbered(folder: &Path, prefix: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> =
        names(folder).iter().filter_map(|name| name.strip_prefix(prefix)?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// The names in a folder, sorted; none where there is no such folder.
pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<String> = entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_machines_are_read_less_often_and_never_faster_than_the_sampler() {
        let (interval, period) = (Nanos::from_millis(10), Nanos::from_millis(100));
        assert_eq!(every(2, interval, Nanos::ZERO), 1);
        assert_eq!(every(256, interval, Nanos::ZERO), 9);
        assert_eq!(every(8, interval, period), 10);
        assert_eq!(every(8, Nanos::from_secs(1), period), 1);
        assert_eq!(every(0, interval, Nanos::ZERO), 1);
    }
}
