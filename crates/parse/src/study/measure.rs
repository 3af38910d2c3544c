//! `[measure]`: how a study is measured.

use super::node::Node;
use domain::event_set::Sets;
use domain::study::{Measure, Until};
use domain::time::Nanos;
use std::ops::RangeInclusive;

/// More repeats than this tell nothing new, and last for ever.
const REPEATS: RangeInclusive<u32> = 1..=1000;

/// Below a millisecond the recorder measures itself; above ten seconds a trace shows nothing.
const INTERVALS: RangeInclusive<Nanos> = Nanos::from_millis(1)..=Nanos::from_secs(10);

/// A trial that takes more than a day is a mistake.
const TIMEOUTS: RangeInclusive<Nanos> = Nanos::from_millis(100)..=Nanos::from_secs(86_400);

/// A machine that is not quiet after an hour will not be.
const SETTLES: RangeInclusive<Nanos> = Nanos::ZERO..=Nanos::from_secs(3600);

/// A cell that is disturbed more often cannot be measured on this machine.
const RETRIES: RangeInclusive<u32> = 0..=100;

pub(super) fn read(node: &Node) -> Option<Measure> {
    let section = node.section()?;
    section.only(&[
        "metric",
        "repeats",
        "until",
        "precision",
        "confidence",
        "threshold",
        "drop_caches",
        "interval",
        "events",
        "events_apart",
        "timeout",
        "settle",
        "retries",
        "under_load",
    ]);
    let default = Measure::default();
    // Every value is read before any is given up, so that all their problems are seen.
    let get = |key| section.get(key);
    let metric = get("metric").map_or(Some(default.metric), |n| metric(&n));
    let repeats = get("repeats").map_or(Some((default.repeats_min, default.repeats_max)), |n| repeats(&n));
    let until = get("until").map_or(Some(default.until), |n| until(&n));
    let precision = get("precision").map_or(Some(default.precision), |n| above_zero(&n));
    let confidence = get("confidence").map_or(Some(default.confidence), |n| confidence(&n));
    let threshold = get("threshold").map_or(Some(default.threshold), |n| n.share());
    let drop_caches = get("drop_caches").map_or(Some(default.drop_caches), |n| n.flag());
    let interval = get("interval").map_or(Some(default.interval), |n| n.span(INTERVALS));
    let events = get("events").map_or(Some(default.events), |n| events(&n));
    let events_apart = get("events_apart").map_or(Some(default.events_apart), |n| n.flag());
    let timeout = get("timeout").map_or(Some(default.timeout), |n| n.span(TIMEOUTS));
    let settle = get("settle").map_or(Some(default.settle), |n| n.span(SETTLES));
    let retries = get("retries").map_or(Some(default.retries), |n| n.count(RETRIES));
    let under_load = get("under_load").map_or(Some(default.under_load), |n| n.flag());
    let (repeats_min, repeats_max) = repeats?;
    Some(Measure {
        metric: metric?,
        repeats_min,
        repeats_max,
        until: until?,
        precision: precision?,
        confidence: confidence?,
        threshold: threshold?,
        drop_caches: drop_caches?,
        interval: interval?,
        events: events?,
        events_apart: events_apart?,
        timeout: timeout?,
        settle: settle?,
        retries: retries?,
        under_load: under_load?,
    })
}

/// `[5, 15]`, or `8` for exactly eight. A metric's name. That a workload reports it is asked later; imported
/// samples have names with dots and other signs.
fn metric(node: &Node) -> Option<String> {
    const MAX_CHARS: usize = 200;
    let text = node.text()?;
    let sound = |c: char| !c.is_control() && !c.is_whitespace();
    if text.is_empty() || text.chars().count() > MAX_CHARS || !text.chars().all(sound) {
        node.refuse(format!("`{}` is no metric's name; write one such as `throughput`", text.escape_debug()));
        return None;
    }
    Some(text.to_owned())
}

fn repeats(node: &Node) -> Option<(u32, u32)> {
    if node.is_integer() {
        return node.count(REPEATS).map(|exactly| (exactly, exactly));
    }
    let items = node.items()?;
    let [least, most] = &items[..] else {
        node.refuse("has to be `[LEAST, MOST]`, such as `[5, 15]`, or one number");
        return None;
    };
    let (least, most) = (least.count(REPEATS), most.count(REPEATS));
    let (least, most) = (least?, most?);
    if least > most {
        node.refuse(format!("the least, {least}, is above the most, {most}; write `[{most}, {least}]`"));
        return None;
    }
    Some((least, most))
}

fn until(node: &Node) -> Option<Until> {
    let text = node.text()?;
    let found = Until::ALL.into_iter().find(|(name, _)| *name == text);
    if found.is_none() {
        node.refuse(format!(
            "is `{}`; repeats go on until a cell is `precise`, two are `decided`, the `best` of many is found, or the `front` of \
             speed and watts",
            text.escape_debug()
        ));
    }
    found.map(|(_, until)| until)
}

/// `"none"`, or sets of events as `flyball record --events=` takes them.
fn events(node: &Node) -> Option<Option<Sets>> {
    let text = node.text()?;
    if text == "none" {
        return Some(None);
    }
    match text.parse() {
        Ok(sets) => Some(Some(sets)),
        Err(error) => {
            node.refuse(format!("{error}; or `none`"));
            None
        }
    }
}

fn above_zero(node: &Node) -> Option<f64> {
    let share = node.share()?;
    if share == 0.0 {
        node.refuse("no interval is that narrow; write a share above zero, such as `\"5%\"`");
        return None;
    }
    Some(share)
}

fn confidence(node: &Node) -> Option<f64> {
    let share = node.share()?;
    if !(0.5..1.0).contains(&share) {
        node.refuse("has to be at least 0.5 and below 1, such as `0.95`");
        return None;
    }
    Some(share)
}
