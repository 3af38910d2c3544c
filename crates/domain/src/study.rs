//! A study: a question, the workloads that ask it, and the factors that it varies.
//!
//! This is what a study *means*; what was typed, and where, is known to `parse::study` alone.

pub use crate::database::ExistingServer;
use crate::event_set::Sets;
use crate::lab::Lab;
use crate::outcome::Better;
use crate::page::Page;
use crate::published::Published;
use crate::setting::SettingRequest;
use crate::stack;
use crate::time::Nanos;
use crate::units::{Bytes, Unit};
use std::collections::BTreeMap;

/// The version of the study format that this program reads: `flyball = 1`.
pub const FORMAT_VERSION: i64 = 1;

/// A whole study, as one TOML file holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// A short name: letters, digits, `-` and `_`.
    pub name: String,
    /// The question in the words of the person who asks it.
    pub question: String,
    /// The factors that the question is about; empty where the file does not say it.
    pub primary: Vec<String>,
    /// What the workloads run on.
    pub target: Target,
    /// How the storage below the target is built, where Flyball builds it.
    pub stack: Option<stack::StackSpec>,
    /// The workloads, in the order of the file; at least one. Two or more are a factor of their own.
    pub workloads: Vec<Workload>,
    /// The loads that run beside the workloads, in the order of the file; a level may leave one out.
    pub beside: Vec<Companion>,
    /// What is varied, in the order of the file.
    pub factors: Vec<Factor>,
    /// Settings that are the same in every trial.
    pub settings: Vec<SettingRequest>,
    /// How it is measured.
    pub measure: Measure,
    /// The virtual machine that the lab runs it in; no other machine looks at it.
    pub lab: Lab,
    /// The machine that the simulation runs it on; no other machine looks at it.
    pub sim: Sim,
    /// What others published of its cells.
    pub published: Vec<Published>,
    /// The page of the book that is named after it.
    pub page: Option<Page>,
}

impl Study {
    /// Whether the question is about this factor: the file says so, or its question names the factor. Where
    /// it names none, it is about all of them.
    pub fn asks_about(&self, factor: &str) -> bool {
        if !self.primary.is_empty() {
            return self.primary.iter().any(|name| name == factor);
        }
        let names = |name: &str| {
            let is_part = |c: char| c.is_alphanumeric() || c == '_';
            let question = self.question.to_lowercase().replace('-', " ");
            let name = name.to_lowercase().replace('-', " ");
            question.match_indices(&name).any(|(at, _)| {
                let before = question[..at].chars().next_back();
                let after = question[at + name.len()..].chars().next();
                !before.is_some_and(is_part) && !after.is_some_and(is_part)
            })
        };
        names(factor) || !self.factors.iter().any(|factor| names(&factor.name))
    }

    /// Whether it describes a recording: nothing is varied, nothing is asked, and one trial is all of it.
    pub fn is_recording(&self) -> bool {
        self.workloads.iter().all(|workload| workload.tool == Tool::Recorded)
    }
}

/// What a study asks of its simulated machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sim {
    /// The machine file: the name of a shipped one, or a path from the study's folder.
    pub machine: Option<String>,
}

/// What the workloads read and write. Files and loop devices are Flyball's own: made before the first trial
/// and removed after the last. A device that is there already is only read; the lab alone writes to one, for
/// its disks hold nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nothing: the workload brings its own.
    None,
    /// A file of this size in the work folder, filled with incompressible bytes.
    File(Bytes),
    /// A loop device over such a file; needs root.
    Loop(Bytes),
    /// A block device that the lab's guest has or its preparation made, by its absolute path: `/dev/sda`,
    /// `/dev/mapper/vault`. No other machine may use it.
    LabDevice(String),
    /// A block device or file that is there already, by its absolute path. It is read, and never written.
    ReadOnly(String),
    /// A file of this size in a folder of Flyball's own, which is made in one that is there already.
    Folder {
        /// That one, by its absolute path.
        path: String,
        /// The file's size.
        size: Bytes,
    },
    /// A database of Flyball's own, which is made in a server that runs already.
    Server(ExistingServer),
}

impl Target {
    /// How large it is, where the study says so.
    pub fn size(&self) -> Option<Bytes> {
        match self {
            Self::File(size) | Self::Loop(size) | Self::Folder { size, .. } => Some(*size),
            Self::None | Self::LabDevice(_) | Self::ReadOnly(_) | Self::Server(_) => None,
        }
    }
}

/// A program that does work, and reports how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Its name in this study.
    pub name: String,
    /// Which program runs it.
    pub tool: Tool,
    /// The tool's own options, by the tool's own names: fio's job options, dd's operands, sysbench's,
    /// pgbench's, bonnie's. A value of `true` for fio is `1`. Not used by [`Tool::Command`].
    pub options: BTreeMap<String, String>,
}

impl Workload {
    /// Whether it is a fio job whose random numbers are not to repeat themselves (`randrepeat=0`).
    pub fn varies(&self) -> bool {
        let is_off = |value: &String| matches!(value.as_str(), "0" | "false");
        self.tool == Tool::Fio && self.options.get("randrepeat").is_some_and(is_off)
    }
}

/// A load that runs beside the workload for as long as a trial takes. It is no part of what is measured: what
/// it reports is kept as it was written, and its CPU time has a role of its own
/// ([`crate::trace::Role::Beside`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Companion {
    /// What runs, with options by which it goes on until it is ended.
    pub load: Workload,
    /// How long it runs alone before the workload is started.
    pub lead: Nanos,
}

/// The programs whose reports Flyball understands, by name. What else is known of them is in the crate
/// `workloads`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tool {
    /// fio, reported as json+.
    Fio,
    /// dd of the GNU coreutils.
    Dd,
    /// sysbench's OLTP tests.
    Sysbench,
    /// pgbench.
    Pgbench,
    /// Bonnie, in either of its kinds.
    Bonnie,
    /// hdparm's timings of a device and of the page cache.
    Hdparm,
    /// Whatever wrote the results that were imported: it is described, and cannot be run.
    Imported,
    /// What `flyball record` watched: it is described, and cannot be run.
    Recorded,
    /// A load that runs already, whoever started it: it is watched, and nothing is done to it.
    Running,
    /// Any command; its metrics are taken from its output by pattern.
    Command {
        /// Program and arguments. `{target}` stands for the target's path, `{NAME}` for the level of the
        /// factor NAME. No shell is involved.
        argv: Vec<String>,
        /// What to take from its standard output and error.
        metrics: Vec<MetricPattern>,
    },
}

impl Tool {
    /// The tool's name in a study file.
    pub const fn name(&self) -> &'static str {
        match self {
            Tool::Fio => "fio",
            Tool::Dd => "dd",
            Tool::Sysbench => "sysbench",
            Tool::Pgbench => "pgbench",
            Tool::Bonnie => "bonnie",
            Tool::Hdparm => "hdparm",
            Tool::Imported => "imported",
            Tool::Recorded => "recorded",
            Tool::Running => "running",
            Tool::Command { .. } => "command",
        }
    }

    /// What a command is, and what is taken from its output; `None` for a tool that is known.
    pub fn command(&self) -> Option<(&[String], &[MetricPattern])> {
        match self {
            Tool::Command { argv, metrics } => Some((argv, metrics)),
            _ => None,
        }
    }
}

/// How a metric is found in a command's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricPattern {
    /// The metric's name.
    pub name: String,
    /// A regular expression whose first group, or a group named `value`, is the number. The last match
    /// counts.
    pub pattern: String,
    /// The unit of the number.
    pub unit: Unit,
    /// Which way is good.
    pub better: Better,
}

/// Something that a study varies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Factor {
    /// Its name in this study.
    pub name: String,
    /// Its levels, in the order of the file; at least two.
    pub levels: Vec<Level>,
    /// The workloads that it applies to; empty means all. A cell of another workload has no level of it.
    pub workloads: Vec<String>,
}

/// One level of a factor: what it puts into the workload's options and into the machine's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// As it is shown: `4k`, `performance`.
    pub name: String,
    /// Options that it adds to the workload or replaces there.
    pub options: BTreeMap<String, String>,
    /// Settings that it asks for.
    pub settings: Vec<SettingRequest>,
    /// What it changes in the study's stack.
    pub stack: stack::Changes,
    /// Whether these companions run beside the workload; those that it does not name do.
    pub beside: BTreeMap<String, bool>,
    /// The kernel that it wants a lab machine to run; no other machine can do that.
    pub kernel: Option<String>,
    /// The machine that it wants to be simulated; every other machine is what it is.
    pub machine: Option<String>,
    /// The table of P-states that it wants a lab machine to have; every other machine is what it is.
    pub pstates: Option<String>,
}

/// How a study is measured; every value has a default ([`Measure::default`]) and a key in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Measure {
    /// The metric that decides: `throughput`, `iops`, `latency_mean`, or any that the workload reports.
    pub metric: String,
    /// Each cell is measured at least this often.
    pub repeats_min: u32,
    /// And at most this often.
    pub repeats_max: u32,
    /// What repeats go on for.
    pub until: Until,
    /// Repeats go on until the interval of the median is no wider than ± this share of the median.
    pub precision: f64,
    /// The confidence of every interval, such as 0.95.
    pub confidence: f64,
    /// The practical threshold: a difference smaller than this share is not worth a claim.
    pub threshold: f64,
    /// Drop the page cache before each trial (root: `vm.drop_caches`; else `POSIX_FADV_DONTNEED` on the
    /// target).
    pub drop_caches: bool,
    /// How often the recorder samples.
    pub interval: Nanos,
    /// Which of the kernel's events are recorded beside the samples; a simulation has none.
    pub events: Option<Sets>,
    /// Events are recorded in a trial of their own for each cell, after all others, which is not counted.
    pub events_apart: bool,
    /// A trial that takes longer is killed and counts as failed.
    pub timeout: Nanos,
    /// How long to wait for the machine to become quiet before a trial, at the most.
    pub settle: Nanos,
    /// How often a disturbed trial is repeated, at the most.
    pub retries: u32,
    /// A trial counts although other work ran beside it ([`crate::trial::Disturbance::is_load`]).
    pub under_load: bool,
}

impl Measure {
    /// The block, from zero, whose trials record events and are not counted; `None` where there is no such.
    pub fn traced_block(&self) -> Option<u32> {
        let is_apart = self.events.is_some() && self.events_apart;
        is_apart.then(|| self.repeats_max.max(self.repeats_min))
    }

    /// The events that trials of this block record.
    pub fn events_in(&self, block: u32) -> Option<&Sets> {
        let records = self.traced_block().is_none_or(|traced| traced == block);
        self.events.as_ref().filter(|_| records)
    }

    /// Whether the file of events is kept of this block's trials: of each cell's first that records any.
    pub fn keeps_events_of(&self, block: u32) -> bool {
        block == self.traced_block().unwrap_or(0)
    }
}

/// What repeats of a cell go on for, between the least and the most of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Until {
    /// Its median is known to ± [`Measure::precision`].
    #[default]
    Precise,
    /// It is clear whether the second of two cells is better than the first by more than
    /// [`Measure::threshold`]. One may look after each block: the comparison is by a confidence sequence.
    Decided,
    /// One of many cells is found that is as good as the best: successive halving, in which each round
    /// measures a quarter of the cells of the one before, twice as often.
    Best,
    /// Those of many cells are found that no other beats in speed and watts together: the same, by how many
    /// others beat a cell in both.
    Front,
}

impl Until {
    /// All of them, by the names that a study has for them.
    pub const ALL: [(&'static str, Self); 4] = [
        ("precise", Self::Precise),
        ("decided", Self::Decided),
        ("best", Self::Best),
        ("front", Self::Front),
    ];

    /// Whether trials choose which cells are measured again: what they choose they do not prove.
    pub const fn is_search(self) -> bool {
        matches!(self, Self::Best | Self::Front)
    }
}

impl Default for Measure {
    fn default() -> Self {
        Self {
            metric: "throughput".into(),
            repeats_min: 5,
            repeats_max: 15,
            until: Until::Precise,
            precision: 0.05,
            confidence: 0.95,
            threshold: 0.02,
            drop_caches: true,
            interval: Nanos::from_millis(10),
            events: None,
            events_apart: false,
            timeout: Nanos::from_secs(600),
            settle: Nanos::from_secs(10),
            retries: 1,
            under_load: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(question: &str, primary: &[&str]) -> Study {
        let factor = |name: &str| Factor { name: name.into(), levels: vec![], workloads: vec![] };
        Study {
            name: "s".into(),
            question: question.into(),
            primary: primary.iter().map(|name| (*name).into()).collect(),
            target: Target::None,
            stack: None,
            workloads: vec![],
            beside: vec![],
            factors: ["governor", "threads", "read-ahead"].map(factor).into(),
            settings: vec![],
            measure: Measure::default(),
            lab: Lab::default(),
            sim: Sim::default(),
            published: vec![],
            page: None,
        }
    }

    fn asked(question: &str, primary: &[&str]) -> Vec<String> {
        let study = study(question, primary);
        let names = study.factors.iter().map(|factor| factor.name.clone());
        names.filter(|name| study.asks_about(name)).collect()
    }

    #[test]
    fn a_question_is_about_the_factors_that_it_names() {
        assert_eq!(asked("Which governor serves a database best?", &[]), ["governor"]);
        assert_eq!(asked("Does read ahead matter?", &[]), ["read-ahead"]);
        assert_eq!(asked("Do the governors matter?", &[]).len(), 3, "a part of a word is no name");
        assert_eq!(asked("Which governor is best?", &["threads"]), ["threads"]);
    }
}
