//! A recorded trace, asked for again.

use super::fio::Replay;
use super::jobs::{IoRequest, Manner, RequestSource};
use super::{Trace, TraceAction, TraceRequest};
use disks::Op;
use domain::time::Nanos;
use domain::units::Bytes;
use event_queue::Time;

/// What requests to a device are whole multiples of, in bytes.
const SECTOR: u64 = 512;

/// What a trace is replayed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplayTarget {
    /// In bytes.
    pub size: u64,
    /// Whether its pages are cached.
    pub is_cached: bool,
}

/// What a recorded trace asks for, one after the other and each in its time.
#[derive(Clone, Debug)]
pub struct Replayed(std::vec::IntoIter<IoRequest>);

impl Replayed {
    /// A trace from the time `start` on.
    ///
    /// # Errors
    /// Why it cannot be replayed on this target.
    pub fn new(
        trace: &Trace,
        replay: &Replay,
        manner: Manner,
        start: Time,
        target: ReplayTarget,
    ) -> Result<Self, String> {
        check(trace, manner, target)?;
        let time =
            |at: Nanos| start + (u128::from(at.get()) * u128::from(replay.scale_percent) / 100) as Time;
        let asks = trace.requests.iter().map(|request| {
            let not_before = if replay.stalls { time(request.at) } else { 0 };
            IoRequest { not_before, ..asked(request, manner) }
        });
        Ok(Self(asks.collect::<Vec<IoRequest>>().into_iter()))
    }
}

impl RequestSource for Replayed {
    fn next(&mut self) -> Option<IoRequest> {
        self.0.next()
    }
}

fn check(trace: &Trace, manner: Manner, target: ReplayTarget) -> Result<(), String> {
    if let [one, another, ..] = &trace.files[..] {
        return Err(format!(
            "it is of {} files or devices, such as `{one}` and `{another}`, and a load has one target; keep the lines of one of them",
            trace.files.len()
        ));
    }
    let last = trace.requests.iter().max_by_key(|request| request.offset.get() + request.len.get());
    if let Some(last) = last.filter(|r| r.offset.get() + r.len.get() > target.size) {
        return Err(format!(
            "it asks for {} at {}, and the target is {}; make the target as large as what was traced",
            last.len,
            last.offset,
            Bytes::new(target.size)
        ));
    }
    let odd = trace.requests.iter().find(|r| !(r.offset.get() | r.len.get()).is_multiple_of(SECTOR));
    match odd.filter(|_| !target.is_cached || manner.direct) {
        None => Ok(()),
        Some(odd) => {
            let (len, offset) = (odd.len.get(), odd.offset.get());
            Err(format!("it asks for {len} bytes at {offset}, which are no whole sectors"))
        }
    }
}

fn asked(request: &TraceRequest, manner: Manner) -> IoRequest {
    let (offset, len) = (request.offset.get(), request.len.get());
    let io = |op, fua| IoRequest { fua, direct: manner.direct, ..IoRequest::direct(op, offset, len) };
    match request.action {
        TraceAction::Read => io(Op::Read, false),
        TraceAction::Write { fua } => io(Op::Write, fua || manner.fua),
        TraceAction::Sync | TraceAction::Flush => IoRequest::flush(false),
        TraceAction::DataSync => IoRequest::flush(true),
    }
}
