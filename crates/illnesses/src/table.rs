//! Counts what was found, missed and falsely said.

use crate::exam::{Examined, Gain, ILL};
use crate::illness::ILLNESSES;
use domain::finding::Confidence;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Of one illness or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Machines that have it, and of which a finding says so.
    found: u32,
    /// Machines that have it, and of which none does.
    missed: u32,
    /// Machines of which a finding says so, and which would not be faster without.
    false_alarms: u32,
}

impl Counts {
    fn precision(self) -> Option<f64> {
        share(self.found, self.found + self.false_alarms)
    }

    fn recall(self) -> Option<f64> {
        share(self.found, self.found + self.missed)
    }

    fn add(&mut self, other: Self) {
        self.found += other.found;
        self.missed += other.missed;
        self.false_alarms += other.false_alarms;
    }
}

fn share(part: u32, whole: u32) -> Option<f64> {
    (whole > 0).then(|| f64::from(part) / f64::from(whole))
}

fn shown(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{share:.2}"))
}

/// By illness; findings that are less sure than this do not count.
fn counts(examined: &[Examined], least: Confidence) -> BTreeMap<&'static str, Counts> {
    let mut all: BTreeMap<&str, Counts> = BTreeMap::new();
    for one in examined {
        let said: BTreeSet<&str> =
            one.found.iter().filter(|named| named.confidence >= least).map(|named| named.illness).collect();
        for illness in ILLNESSES {
            let gain = one.gains.get(illness.name).copied().unwrap_or(Gain::NONE);
            let counts = all.entry(illness.name).or_default();
            match said.contains(illness.name) {
                true if gain.is_ill() => counts.found += 1,
                false if gain.is_ill() => counts.missed += 1,
                true if gain.is_well() => counts.false_alarms += 1,
                // What is between the two is neither.
                _ => {}
            }
        }
    }
    all
}

/// Whether the first finding that names a cause names the largest one, within a twentieth; `None` where
/// nothing ails the machine.
fn first_is_largest(one: &Examined) -> Option<bool> {
    let largest = one.gains.values().map(|gain| gain.first).fold(1.0, f64::max);
    (largest >= ILL).then(|| {
        let first = one.found.first().and_then(|named| one.gains.get(named.illness));
        first.is_some_and(|gain| gain.first >= largest / 1.05)
    })
}

/// The table.
pub fn of(seeds: &[u64], examined: &[Examined]) -> String {
    let mut text = String::new();
    let by_illness = counts(examined, Confidence::Possible);
    let _ = writeln!(
        text,
        "{:<32} {:>5} {:>6} {:>6} {:>9} {:>6}",
        "illness", "found", "missed", "false", "precision", "recall"
    );
    let mut row = |name: &str, counts: Counts| {
        let _ = writeln!(
            text,
            "{name:<32} {:>5} {:>6} {:>6} {:>9} {:>6}",
            counts.found,
            counts.missed,
            counts.false_alarms,
            shown(counts.precision()),
            shown(counts.recall())
        );
    };
    let mut sum = Counts::default();
    for illness in ILLNESSES {
        let counts = by_illness.get(illness.name).copied().unwrap_or_default();
        row(illness.name, counts);
        sum.add(counts);
    }
    row("all", sum);
    let mut likely = Counts::default();
    counts(examined, Confidence::Likely).values().for_each(|counts| likely.add(*counts));
    row("of findings that are likely", likely);
    let firsts: Vec<bool> = examined.iter().filter_map(first_is_largest).collect();
    let right = firsts.iter().filter(|right| **right).count();
    let harmful: usize = examined.iter().map(|one| one.harmful.len()).sum();
    let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
    let _ = writeln!(
        text,
        "\n{} machines of seed {}, {} of them ill\n\
         the first finding names the largest cause, or one within 5% of it, in {right} of {}\n\
         {harmful} harmful remedies",
        examined.len(),
        seeds.join(", "),
        firsts.len(),
        firsts.len()
    );
    text
}

/// What is known of one machine, where something is wrong or ails it.
pub fn details(one: &Examined) -> String {
    let mut text = format!(
        "{}: planted {}\n",
        one.name,
        if one.planted.is_empty() { "nothing".to_owned() } else { one.planted.join(", ") }
    );
    for (name, gain) in &one.gains {
        let mark = match gain {
            gain if gain.is_ill() => "ill ",
            gain if gain.is_well() => "well",
            _ => "-   ",
        };
        let _ = writeln!(
            text,
            "    {mark} {name}: {:.2} times without{}",
            gain.first,
            gain.last.map_or_else(String::new, |last| format!(", {last:.2} where all else is cured"))
        );
    }
    for named in &one.found {
        let gain = one.gains.get(named.illness).copied().unwrap_or(Gain::NONE);
        let wrong = if gain.is_well() { "   FALSE" } else { "" };
        let _ =
            writeln!(text, "    said by {} ({:?}): {}{wrong}", named.rule, named.confidence, named.illness);
    }
    let said: Vec<&str> = one.found.iter().map(|named| named.illness).collect();
    for (name, _) in one.gains.iter().filter(|(name, gain)| gain.is_ill() && !said.contains(name)) {
        let _ = writeln!(text, "    MISSED {name}");
    }
    for (what, left) in &one.harmful {
        let _ = writeln!(text, "    HARMFUL {what}: {left:.2} times");
    }
    text
}
