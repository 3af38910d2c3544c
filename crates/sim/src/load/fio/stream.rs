//! What one job of fio asks for, until its amount of data or of requests is done.
//!
//! Follows fio's rules for the end of a job, checked against logs of fio 3.33: a pass over the span ends
//! where no further request fits or each block was met; then come as many more as `loops` says, and with
//! `io_size` others as long as a request of the longest size is missing to it; `loops` times the amount of
//! data or of requests ends the job at once; `randrepeat` gives every pass the same order; `time_based` never
//! ends by itself. When time is up is the simulator's matter, as are rates and pauses.

use super::draws::Draws;
use super::job::{Caching, Ending, FioJob, SyncedWrites};
use super::offsets::{Mix, Pattern};
use crate::load::Transfer;
use crate::load::jobs::{IoRequest, Manner, RequestSource};
use domain::rng::Seed;

/// The next thing that a job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A read or a write.
    Io(Transfer),
    /// An `fsync`, or, without metadata, an `fdatasync`, for which the job waits.
    Sync {
        /// It is an `fdatasync`.
        data_only: bool,
    },
}

/// One job's steps, one after the other, in memory that does not grow.
#[derive(Clone, Debug)]
pub struct Stream {
    job: FioJob,
    pattern: Pattern,
    draws: Draws,
    /// The generators as each pass begins with them, where all passes have the same order.
    fresh: Option<Draws>,
    loops_left: u64,
    /// Bytes so far, and requests of this pass.
    done: u64,
    in_pass: u64,
    requests: u64,
    writes: u64,
    syncs_due: [bool; 2],
    wrote: bool,
}

impl Stream {
    /// The steps of the job with this number, from 0 to `numjobs` − 1; `seed` is the trial's, which counts
    /// only where the job does not fix one.
    pub fn new(job: &FioJob, number: u32, seed: Seed) -> Self {
        let draws = Draws::new(job.seeding, number, seed);
        let spec = super::PatternSpec { span: job.span_of(number), ..job.pattern.clone() };
        Self {
            pattern: Pattern::new(spec),
            fresh: job.seeding.repeats_passes().then(|| draws.clone()),
            draws,
            loops_left: job.ending.loops,
            done: 0,
            in_pass: 0,
            requests: 0,
            writes: 0,
            syncs_due: [false; 2],
            wrote: false,
            job: job.clone(),
        }
    }

    /// The next step; `None` where the job is over by itself. Then [`Stream::finish`] tells what it does at
    /// its end.
    pub fn step(&mut self) -> Option<Step> {
        loop {
            let Ending { bytes, requests, loops, .. } = self.job.ending;
            let is_done = |amount: Option<u64>, done| amount.is_some_and(|a| done >= a.saturating_mul(loops));
            if is_done(requests, self.requests) || is_done(bytes, self.done) {
                return None;
            }
            if let Some(sync) = self.sync_due() {
                return Some(sync);
            }
            if let Some(transfer) = self.pattern.next(&mut self.draws) {
                self.count(transfer);
                return Some(Step::Io(transfer));
            }
            self.pass_over()?;
        }
    }

    /// From here on everything counts: fio's own counts of requests, by which it mixes directions, begin anew
    /// too.
    pub fn count_anew(&mut self) {
        self.pattern.count_anew();
    }

    /// What the job does at its end, also where its time is up: `end_fsync` or `fsync_on_close`, if it has
    /// written.
    pub fn finish(&mut self) -> Option<Step> {
        let asked = self.job.syncs.end_fsync || self.job.syncs.fsync_on_close;
        (asked && std::mem::take(&mut self.wrote)).then_some(Step::Sync { data_only: false })
    }

    fn count(&mut self, transfer: Transfer) {
        self.done += transfer.len.get();
        self.requests += 1;
        self.in_pass += 1;
        if !transfer.write {
            return;
        }
        self.wrote = true;
        self.writes += 1;
        let due = |every: Option<u64>| every.is_some_and(|every| self.writes.is_multiple_of(every));
        self.syncs_due = [due(self.job.syncs.fsync_every), due(self.job.syncs.fdatasync_every)];
    }

    /// fio looks for it before the next request, so none follows the last one.
    fn sync_due(&mut self) -> Option<Step> {
        let due = self.syncs_due.iter().position(|due| *due)?;
        self.syncs_due[due] = false;
        Some(Step::Sync { data_only: due == 1 })
    }

    fn pass_over(&mut self) -> Option<()> {
        let nothing_fits = std::mem::take(&mut self.in_pass) == 0;
        if nothing_fits {
            return None;
        }
        self.loops_left = self.loops_left.saturating_sub(1);
        let limit = self.job.ending.bytes.unwrap_or(u64::MAX);
        let is_enough_left = limit.saturating_sub(self.done) >= self.job.pattern.longest();
        if self.loops_left > 0 || (self.job.ending.passes && is_enough_left) {
            self.begin();
            return Some(());
        }
        None
    }

    fn begin(&mut self) {
        self.in_pass = 0;
        if let Some(fresh) = &self.fresh {
            self.draws = fresh.clone();
        }
        self.pattern.begin();
    }
}

impl FioJob {
    /// How its transfers are made.
    pub(crate) fn manner(&self) -> Manner {
        Manner { direct: self.caching == Caching::Direct, fua: self.synced_writes != SyncedWrites::No }
    }
}

impl Stream {
    fn asked(&self, step: Step) -> IoRequest {
        match step {
            Step::Io(transfer) => self.job.manner().of(transfer),
            Step::Sync { data_only } => IoRequest::flush(data_only),
        }
    }
}

impl RequestSource for Stream {
    fn next(&mut self) -> Option<IoRequest> {
        self.step().map(|step| self.asked(step))
    }

    fn counts(&mut self) {
        self.count_anew();
    }

    fn finish(&mut self) -> Option<IoRequest> {
        Self::finish(self).map(|step| self.asked(step))
    }
}

/// Whether a job of this mix writes at all.
pub(super) fn writes(mix: Mix) -> bool {
    !matches!(mix, Mix::Reads | Mix::Both(100))
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::units::Bytes;

    fn job(options: &[(&str, &str)], target_kib: u64) -> FioJob {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        FioJob::parse(&options, Bytes::from_kib(target_kib)).unwrap()
    }

    /// As `r0+4 w8+4 s`, in KiB, at most so many.
    fn steps(job: &FioJob, most: usize) -> String {
        let mut stream = Stream::new(job, 0, Seed(1));
        let mut text: Vec<String> = (0..most).map_while(|_| stream.step()).map(shown).collect();
        text.extend(stream.finish().map(shown));
        text.join(" ")
    }

    fn shown(step: Step) -> String {
        match step {
            Step::Io(ask) => {
                let letter = if ask.write { 'w' } else { 'r' };
                format!("{letter}{}+{}", ask.offset.get() / 1024, ask.len.get() / 1024)
            }
            Step::Sync { data_only } => if data_only { "d" } else { "s" }.to_owned(),
        }
    }

    #[test]
    fn an_amount_beyond_the_span_takes_another_pass() {
        // fio 3.33: size=64k io_size=100k bs=12k rw=read.
        let job = job(&[("size", "64k"), ("io_size", "100k"), ("bs", "12k")], 64);
        assert_eq!(steps(&job, 99), "r0+12 r12+12 r24+12 r36+12 r48+12 r0+12 r12+12 r24+12 r36+12");
    }

    #[test]
    fn without_an_amount_one_pass_is_all() {
        let job = job(&[("bs", "12k")], 64);
        assert_eq!(steps(&job, 99), "r0+12 r12+12 r24+12 r36+12 r48+12");
    }

    #[test]
    fn loops_repeat_the_same_random_order() {
        let job = job(&[("rw", "randread"), ("loops", "3")], 16);
        let text = steps(&job, 99);
        let all: Vec<&str> = text.split(' ').collect();
        assert_eq!(all.len(), 12);
        assert!(all[..4] == all[4..8] && all[4..8] == all[8..], "{all:?}");
    }

    #[test]
    fn without_repeatable_seeds_each_pass_has_another_order() {
        let options = [("rw", "randread"), ("loops", "2"), ("randrepeat", "0")];
        let text = steps(&job(&options, 256), 999);
        let all: Vec<&str> = text.split(' ').collect();
        assert_ne!(all[..64], all[64..]);
    }

    #[test]
    fn syncs_come_after_so_many_writes_but_not_after_the_last() {
        // fio 3.33: size=32k rw=write fsync=3 end_fsync=1; and without end_fsync over six writes.
        let eight = job(&[("rw", "write"), ("fsync", "3"), ("end_fsync", "1")], 32);
        assert_eq!(steps(&eight, 99), "w0+4 w4+4 w8+4 s w12+4 w16+4 w20+4 s w24+4 w28+4 s");
        let six = job(&[("rw", "write"), ("fsync", "3"), ("fdatasync", "2")], 24);
        assert_eq!(steps(&six, 99), "w0+4 w4+4 d w8+4 s w12+4 d w16+4 w20+4");
    }

    #[test]
    fn a_number_of_requests_ends_the_job() {
        assert_eq!(steps(&job(&[("number_ios", "2")], 64), 99), "r0+4 r4+4");
        // fio 3.33 goes on while there is time.
        let timed = job(&[("number_ios", "2"), ("time_based", "1"), ("runtime", "9")], 64);
        assert_eq!(steps(&timed, 4), "r0+4 r4+4 r8+4 r12+4");
    }

    #[test]
    fn a_time_based_job_does_not_end() {
        let job = job(&[("time_based", "1"), ("runtime", "9"), ("rw", "randrw")], 16);
        assert_eq!(steps(&job, 500).split(' ').count(), 500);
    }

    #[test]
    fn a_span_too_short_for_a_request_ends_at_once() {
        let job = FioJob {
            pattern: crate::load::fio::PatternSpec {
                span: crate::load::fio::Span {
                    start: Bytes::default(),
                    len: Bytes::new(100),
                    target: Bytes::new(100),
                },
                ..job(&[], 64).pattern
            },
            ..job(&[("io_size", "1m")], 64)
        };
        assert_eq!(steps(&job, 99), "");
    }

    #[test]
    fn jobs_have_spans_and_orders_of_their_own() {
        let job = job(
            &[("rw", "randread"), ("size", "512k"), ("offset_increment", "512k"), ("numjobs", "2")],
            1024,
        );
        let offsets = |number| {
            let mut stream = Stream::new(&job, number, Seed(1));
            std::iter::from_fn(move || stream.step())
                .map(|step| match step {
                    Step::Io(ask) => ask.offset.get() / 1024,
                    Step::Sync { .. } => unreachable!("a read does not sync"),
                })
                .collect::<Vec<_>>()
        };
        let (first, second) = (offsets(0), offsets(1));
        assert!(first.iter().all(|o| *o < 512) && second.iter().all(|o| *o >= 512));
        assert_ne!(first, second.iter().map(|o| o - 512).collect::<Vec<_>>());
    }
}
