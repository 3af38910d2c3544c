//! A finished recording.

use crate::Result;
use crate::decode::decode;
use crate::survey::Survey;
use domain::trace::{Role, TraceHead};
use domain::trial::{DiskTotals, RecorderReport, ThreadTime};
use domain::{Nanos, Sink};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A recording on disk, read once for its columns and totals. The spool file is the caller's to delete.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    survey: Survey,
}

impl Recording {
    /// Reads a spool, also one whose recorder was killed: what is whole of it is used.
    ///
    /// # Errors
    /// Where it cannot be read, is not a spool, or a text in it is not as its format says.
    pub fn open(path: PathBuf) -> Result<Self> {
        let survey = Survey::read(&path)?;
        Ok(Self { path, survey })
    }

    /// The spool file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Samples, what they cost, and what could not be sampled.
    pub fn report(&self) -> &RecorderReport {
        &self.survey.report
    }

    /// CPU time by role; roles without any are left out, and all are where processes were not recorded.
    pub fn roles(&self) -> &BTreeMap<Role, Nanos> {
        &self.survey.roles
    }

    /// The busiest threads, most first. A kworker that worked for several roles is there once for each.
    pub fn threads(&self) -> &[ThreadTime] {
        &self.survey.threads
    }

    /// The disks that did anything, layers above them included.
    pub fn disks(&self) -> &[DiskTotals] {
        &self.survey.disks
    }

    /// The columns of the trace.
    pub fn head(&self) -> TraceHead {
        self.survey.trace_head()
    }

    /// Tells what the kernel accounts to the first process of the workload, or of a load beside it, and those
    /// descendants that were waited for. It knows the processes that lived too shortly to be sampled, while
    /// sampling knows those that nobody waited for: the larger is the role's time, and only the total
    /// changes, not the rows.
    pub fn set_cpu(&mut self, role: Role, cpu: Nanos) {
        if cpu > Nanos::ZERO {
            let seen = self.survey.roles.entry(role).or_insert(cpu);
            *seen = cpu.max(*seen);
        }
    }

    /// Pushes the trace into a sink, row by row; memory does not grow with its length.
    ///
    /// # Errors
    /// Where the spool cannot be read, or the sink refuses.
    pub fn decode(&self, sink: &mut dyn Sink) -> Result<()> {
        decode(&self.path, &self.survey, sink)
    }

    /// Adds CPU time that the recorder used besides its sampling thread.
    pub(crate) fn add_own_cpu(&mut self, cpu: Nanos) {
        self.survey.report.cpu = self.survey.report.cpu + cpu;
    }

    /// Adds something that is missing, and why.
    pub(crate) fn note(&mut self, absent: String) {
        self.survey.report.absent.push(absent);
    }
}
