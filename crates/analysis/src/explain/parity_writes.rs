//! Small writes on an array with parity: each of them costs reads and more writes on the members, which a
//! level without parity does not need.
//!
//! Sources: md(4), "RAID4" and "RAID5"; drivers/md/raid5.c (`handle_stripe_dirtying`: read-modify-write or
//! reconstruct-write); Patterson, Gibson, Katz, "A case for redundant arrays of inexpensive disks", SIGMOD
//! 1988.

use super::Rule;
use super::pair::{self, Pair};
use crate::facts::case::{Case, CaseCell, evidence, gain, goodness};
use crate::summary::{Comparison, Verdict};
use crate::words::{certainty, difference};
use domain::finding::{Confidence, Evidence, Finding, Remedy};
use domain::order;
use domain::stack::{Layer, Md, MdLevel};
use domain::units::{Bytes, significant};
use workloads::Direction;

pub(super) const RULE: Rule = Rule {
    name: "parity-writes",
    doc: "Small writes on an array with parity are slower than without parity on the same disks.",
    needs: "cells that differ in the array's level alone",
    source: "md(4); drivers/md/raid5.c (`handle_stripe_dirtying`)",
    yields_to: &[],
    run,
};

/// Below this gain the parity is not what decides.
const MIN_GAIN: f64 = 1.25;

/// mdadm(8), `--chunk`.
const DEFAULT_CHUNK: Bytes = Bytes::from_kib(512);

fn run(case: &Case<'_>) -> Vec<Finding> {
    let cells = case.cells();
    let on_parity = cells.iter().filter(|cell| writes_parts_of_stripes(cell));
    let mut losses: Vec<Loss<'_, '_>> = on_parity.filter_map(|cell| best(case, cell, &cells)).collect();
    order::by(&mut losses, |a, b| goodness(&b.comparison).total_cmp(&goodness(&a.comparison)));
    let mut found: Vec<((MdLevel, Option<String>), Finding)> = Vec::new();
    for loss in losses {
        let key = (loss.levels.0, loss.pair.a().access().map(str::to_owned));
        match found.iter_mut().find(|(known, _)| *known == key) {
            Some((_, finding)) => {
                let what = format!("{} against {}", loss.pair.b().cell.id, loss.pair.a().cell.id);
                finding.evidence.push(evidence(what, difference(&loss.comparison), loss.pair.b().source()));
                finding.compared.push(loss.pair.cells());
            }
            None => found.push((key, finding(case, &loss))),
        }
    }
    found.into_iter().map(|(_, finding)| finding).collect()
}

/// The array of a cell and how many devices are in it, where there is exactly one array.
fn array<'c>(cell: &'c CaseCell<'_>) -> Option<(&'c Md, u32)> {
    let stack = cell.cell.stack.as_ref()?;
    let mut arrays = stack.layers.iter().filter_map(|layer| Some((layer, layer.array()?)));
    let (layer, md) = arrays.next().filter(|_| arrays.next().is_none())?;
    Some((md, stack.below(layer)))
}

/// Whether it writes, and each of its requests is less than a whole stripe of an array with parity.
fn writes_parts_of_stripes(cell: &CaseCell<'_>) -> bool {
    let Some((md, members)) = array(cell).filter(|(md, _)| md.level.has_parity()) else { return false };
    let data = members.saturating_sub(md.spares + if md.level == MdLevel::Raid6 { 2 } else { 1 });
    let stripe = md.chunk.unwrap_or(DEFAULT_CHUNK).get() * u64::from(data);
    let small = cell.block_size().is_some_and(|size| size.get() < stripe);
    small && cell.profile().direction == Direction::Writes
}

/// A cell with parity, one without, and what the latter gives.
struct Loss<'c, 'a> {
    levels: (MdLevel, MdLevel),
    pair: Pair<'c, 'a>,
    comparison: Comparison,
}

/// The best of the cells that differ in the array's level alone and keep the data twice; else of those that
/// keep them once.
fn best<'c, 'a>(case: &Case<'_>, parity: &'c CaseCell<'a>, all: &'c [CaseCell<'a>]) -> Option<Loss<'c, 'a>> {
    let of = |other: &'c CaseCell<'a>| {
        let levels = levels(parity, other)?;
        let pair = Pair::of(parity, other, |part| *part == pair::Part::Storage)?;
        let comparison = pair.compare(case, (levels.0.name(), levels.1.name()))?;
        let gains = comparison.verdict == Verdict::Better && goodness(&comparison) >= MIN_GAIN;
        gains.then_some(Loss { levels, pair, comparison })
    };
    all.iter().filter_map(of).max_by(|a, b| {
        let redundant = |loss: &Loss<'_, '_>| loss.levels.1.is_redundant();
        let by_gain = || goodness(&a.comparison).total_cmp(&goodness(&b.comparison));
        redundant(a).cmp(&redundant(b)).then_with(by_gain)
    })
}

/// The levels of two cells whose storage is the same but for level and layout of the array.
fn levels(parity: &CaseCell<'_>, other: &CaseCell<'_>) -> Option<(MdLevel, MdLevel)> {
    let ((a, members), (b, others)) = (array(parity)?, array(other)?);
    // Bitmap, spares and missing members cost writes too: they have to be the same. What parity alone has
    // (the stripe cache, its threads) goes with the level.
    let with_level_of_b = Md {
        level: b.level,
        layout: b.layout.clone(),
        stripe_cache_size: b.stripe_cache_size,
        group_thread_cnt: b.group_thread_cnt,
        ..a.clone()
    };
    let alike = with_level_of_b == *b;
    let comparable = !b.level.has_parity() && b.level.has_chunks() && members == others && alike;
    let rest = |cell: &CaseCell<'_>| -> Vec<Layer> {
        let layers = cell.cell.stack.iter().flat_map(|stack| &stack.layers);
        layers.filter(|layer| layer.array().is_none()).cloned().collect()
    };
    (comparable && rest(parity) == rest(other)).then_some((a.level, b.level))
}

fn finding(case: &Case<'_>, loss: &Loss<'_, '_>) -> Finding {
    let Loss { levels, pair, comparison } = loss;
    let (parity, other) = (format!("RAID{}", levels.0.name()), format!("RAID{}", levels.1.name()));
    let work = pair.a().access().unwrap_or("the workload");
    let safety = if levels.1.is_redundant() {
        "half of the disks' room holds copies"
    } else {
        "the data are lost with the first disk"
    };
    Finding {
        rule: RULE.name,
        title: format!("{work} pays for the parity of {parity}: {other} gives {}", difference(comparison)),
        reason: format!(
            "A write that is less than a stripe changes the parity too. md reads the old data and the old parity, or the rest of \
the stripe, before it writes: four requests to the members instead of one on RAID5, six on RAID6. {other} reads \
nothing, but {safety}."
        ),
        evidence: figures(loss).into_iter().chain(pair.costs(case, "it")).collect(),
        confidence: Confidence::Shown,
        gain: gain(comparison),
        remedy: Some(Remedy {
            what: format!(
                "for small writes choose {other}; else write whole stripes, or put a write journal (mdadm --write-journal, \
write-back) on a fast device: neither was measured here"
            ),
            settings: vec![],
            undo: "an array's level is chosen when it is made: copy the data away, and back".into(),
        }),
        next: format!("flyball show {}", case.data.run.id),
        compared: vec![pair.cells()],
    }
}

fn figures(loss: &Loss<'_, '_>) -> Vec<Evidence> {
    let Loss { pair, comparison, .. } = loss;
    let mut figures =
        vec![evidence("against parity, in the same blocks", certainty(comparison), "Hodges-Lehmann ratio")];
    for cell in [pair.a(), pair.b()] {
        if let Some(reads) = reads_of_members(cell) {
            let what = format!("requests read from disks for each one written, {}", cell.cell.id);
            figures.push(evidence(what, significant(reads), "/proc/diskstats"));
        }
    }
    figures
}

/// Of a workload that only writes: how many reads its disks served for each write of theirs; `None` where a
/// load beside it works on them too. Devices that
/// stand on others pass requests on, and do not count.
fn reads_of_members(cell: &CaseCell<'_>) -> Option<f64> {
    if cell.shares_its_target() || !cell.access()?.ends_with("write") {
        return None;
    }
    let disks = cell.trials.iter().filter_map(|trial| trial.measurement.as_ref()).flat_map(|m| &m.disks);
    let stands_on_others = |name: &str| name.starts_with("md") || name.starts_with("dm-");
    let members = disks.filter(|disk| !stands_on_others(&disk.device));
    let (reads, writes) = members.fold((0, 0), |(r, w), disk| (r + disk.read_ios, w + disk.write_ios));
    (writes > 0).then(|| reads as f64 / writes as f64)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{about, findings, options};
    use super::*;
    use crate::summary::RunData;
    use crate::testing::{run, study};
    use domain::stack::{LayerSpec, StackSpec};

    /// A run of `rw` in blocks of `bs`, on arrays of these levels over four disks.
    fn arrays(rw: &str, bs: &str, levels: &[(&str, f64)]) -> RunData {
        let names: Vec<&str> = levels.iter().map(|(level, _)| *level).collect();
        let mut study = study(&[("layout", &names)]);
        study.workloads[0].options = options(&format!("rw={rw} bs={bs} direct=1 ioengine=libaio iodepth=32"));
        let layer = |name: &str, values: &[(&str, &str)]| LayerSpec {
            name: name.into(),
            values: values.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
        };
        let disks = layer("disks", &[("kind", "devices"), ("count", "4"), ("loop", "256MiB")]);
        let array = layer(
            "array",
            &[("kind", "md"), ("on", "disks"), ("level", "0"), ("bitmap", "none"), ("resync", "skip")],
        );
        study.stack = Some(StackSpec { layers: vec![disks, array] });
        for level in &mut study.factors[0].levels {
            level.options.clear();
            level.settings.clear();
            level.stack = [("array.level".to_owned(), level.name.clone())].into();
        }
        run(study, 8, |of, block| {
            let index = levels.iter().position(|(level, _)| of["layout"] == *level).unwrap();
            vec![("throughput", about(levels[index].1, index, block))]
        })
    }

    #[test]
    fn small_writes_on_parity_are_found_against_the_level_that_keeps_the_data_twice() {
        let data = arrays("randwrite", "4k", &[("0", 4e6), ("5", 1e6), ("10", 2e6)]);
        let found = findings(RULE, &data, None, None);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].title.starts_with("randwrite pays for the parity of RAID5: RAID10 gives"),
            "{}",
            found[0].title
        );
        assert_eq!(found[0].confidence, Confidence::Shown);
        assert!((found[0].gain.as_ref().unwrap().ratio - 2.0).abs() < 0.1);
    }

    #[test]
    fn reads_and_whole_stripes_are_no_finding() {
        let levels = [("5", 1e6), ("10", 2e6)];
        assert!(findings(RULE, &arrays("randread", "4k", &levels), None, None).is_empty());
        assert!(findings(RULE, &arrays("write", "2m", &levels), None, None).is_empty());
    }

    #[test]
    fn arrays_that_differ_in_more_than_their_level_are_not_compared() {
        for other in ["array.bitmap", "array.chunk"] {
            let value = if other == "array.chunk" { "64KiB" } else { "internal" };
            let levels = [("5", 1e6), ("10", 2e6)];
            let with = |level: usize| {
                let mut data = arrays("randwrite", "4k", &levels);
                data.study.factors[0].levels[level].stack.insert(other.into(), value.into());
                findings(RULE, &data, None, None).len()
            };
            assert_eq!((with(0), with(1)), (0, 0), "{other}");
        }
    }

    #[test]
    fn equal_levels_are_no_finding() {
        let data = arrays("randwrite", "4k", &[("5", 2e6), ("10", 2e6)]);
        assert!(findings(RULE, &data, None, None).is_empty());
    }
}
