//! System calls of a cell, and what filesystems made of them.

use crate::sections::times;
use domain::calls::{Call, Called, Calls};
use domain::request::Op;
use domain::spent::Wait;
use domain::time::Nanos;
use domain::trace::Role;
use domain::units::Bytes;
use serde::Serialize;
use std::collections::BTreeMap;

/// All of them, in the trials of a cell that recorded them.
#[derive(Serialize)]
pub(super) struct CallsView {
    calls: Vec<CallView>,
    /// The bios that were queued to devices and are not what a layer passed on; null where they were not
    /// recorded.
    queued: Option<Vec<QueuedView>>,
}

#[derive(Serialize)]
struct CallView {
    role: &'static str,
    call: &'static str,
    per_second: f64,
    failed_per_second: f64,
    bytes_per_second: f64,
    /// The share of which begin and end were seen; the times are theirs.
    followed: Option<f64>,
    /// The sum of CPU, ready and waits, where it was seen who ran; without, these are null or missing.
    mean_seconds: Option<f64>,
    p99_seconds: Option<f64>,
    cpu_seconds: Option<f64>,
    ready_seconds: Option<f64>,
    /// By what ended the wait.
    wait_seconds: BTreeMap<&'static str, f64>,
    /// Of waits for a thread: by the role of that.
    woken_by_seconds: BTreeMap<&'static str, f64>,
    /// The share whose thread queued no bio.
    without_bios: Option<f64>,
    /// Of the others the mean number of bios, the share that was followed, and of these the means of four
    /// times, which sum up to the whole.
    bios: Option<f64>,
    bios_followed: Option<f64>,
    before_seconds: Option<f64>,
    below_seconds: Option<f64>,
    between_seconds: Option<f64>,
    after_seconds: Option<f64>,
}

#[derive(Serialize)]
struct QueuedView {
    device: String,
    role: &'static str,
    operation: &'static str,
    per_second: f64,
    bytes_per_second: f64,
    /// Bytes for each byte that calls of the workload moved, and without a workload those of everybody; null
    /// of other programs.
    amplification: Option<f64>,
}

impl CallsView {
    /// Of calls that were recorded for so long.
    pub(super) fn of((calls, time): (Calls, Nanos)) -> Self {
        let has_bios = calls.queued.is_some();
        let view = |((role, call), of): (&(Role, Call), &Called)| call_view(*role, *call, of, has_bios, time);
        let queued = calls.queued.as_ref().map(|queued| {
            let one = queued.iter().map(|((device, role, op), bios)| QueuedView {
                device: device.clone(),
                role: role.name(),
                operation: Op::name(*op),
                per_second: bios.count as f64 / time.secs(),
                bytes_per_second: Bytes::from_sectors(bios.sectors).get() as f64 / time.secs(),
                amplification: times(&calls, *role, *op, *bios),
            });
            one.collect()
        });
        Self { calls: calls.of.iter().map(view).collect(), queued }
    }
}

fn call_view(role: Role, call: Call, of: &Called, has_bios: bool, time: Nanos) -> CallView {
    let rate = |count: u64| count as f64 / time.secs();
    let mean = |sum: Nanos| of.mean(sum).map(Nanos::secs);
    let parts = of.parts();
    let waited = |wait: Wait| parts.map(|spent| spent.waited(wait)).filter(|waited| *waited > Nanos::ZERO);
    let waits = Wait::ALL.into_iter().filter_map(|wait| Some((wait.name(), mean(waited(wait)?)?)));
    let woken_by = of.woken_by.iter().filter_map(|(role, sum)| Some((role.name(), mean(*sum)?)));
    let with = &of.with_bios;
    let [before, below, between, after] =
        with.means().map_or([None; 4], |means| means.map(|mean| Some(mean.secs())));
    CallView {
        role: role.name(),
        call: call.name(),
        per_second: rate(of.count),
        failed_per_second: rate(of.failed),
        bytes_per_second: rate(of.bytes.get()),
        followed: (of.count > 0).then(|| of.took.count as f64 / of.count as f64),
        mean_seconds: of.took.mean().map(Nanos::secs),
        p99_seconds: of.took.quantile(0.99).map(Nanos::secs),
        cpu_seconds: parts.and_then(|spent| mean(Nanos::new(spent.cpu_ns))),
        ready_seconds: parts.and_then(|spent| mean(Nanos::new(spent.ready_ns))),
        wait_seconds: waits.collect(),
        woken_by_seconds: woken_by.collect(),
        without_bios: of.share_without_bios().filter(|_| has_bios),
        bios: (with.count > 0).then(|| with.bios.count as f64 / with.count as f64),
        bios_followed: with.share_followed(),
        before_seconds: before,
        below_seconds: below,
        between_seconds: between,
        after_seconds: after,
    }
}
