//! `/proc/mdstat`: what arrays there are, and how far a resync is.
//!
//! Source: `md_seq_show` and `status_resync` of `drivers/md/md.c`. A mail may have broken its lines.

use domain::outcome::{Better, Metric};
use domain::units::Unit;
use std::collections::BTreeMap;

/// Facts, an array each, and metrics: members, those that work, and a resync's rate.
pub fn read(text: &str) -> (BTreeMap<String, String>, BTreeMap<String, Metric>) {
    let mut facts = BTreeMap::new();
    let mut metrics = BTreeMap::new();
    let mut array: Option<&str> = None;
    for line in text.lines() {
        if let Some((name, rest)) = line.split_once(" : ")
            && is_array(name)
        {
            array = Some(name);
            let state: Vec<&str> = rest.split_whitespace().filter(|w| !w.contains('[')).collect();
            facts.insert(name.to_owned(), state.join(" "));
            continue;
        }
        let Some(name) = array else { continue };
        if line.contains("blocks") {
            let about = line.split_once("blocks").map_or("", |(_, rest)| rest).trim();
            let about = about.split(" [").next().unwrap_or(about);
            if let Some(fact) = facts.get_mut(name).filter(|_| !about.is_empty()) {
                fact.push_str(", ");
                fact.push_str(about);
            }
            if let Some((all, working)) = counts(line) {
                let count = |value: f64, better| Metric { value, unit: Unit::Count, better };
                metrics.insert(format!("{name}.members"), count(all, Better::Higher));
                metrics.insert(format!("{name}.working"), count(working, Better::Higher));
            }
        } else if let Some(speed) = line.split("speed=").nth(1).and_then(|s| s.split("K/sec").next())
            && let Ok(kib) = speed.trim().parse::<f64>()
            && kib.is_finite()
        {
            let rate = Metric { value: kib * 1024.0, unit: Unit::BytesPerSecond, better: Better::Higher };
            metrics.insert(format!("{name}.resync_throughput"), rate);
        }
    }
    (facts, metrics)
}

fn is_array(name: &str) -> bool {
    name.strip_prefix("md").is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace))
}

/// `[10/9]`: how many members there are, and how many work.
fn counts(line: &str) -> Option<(f64, f64)> {
    let brackets = line.split('[').skip(1).filter_map(|rest| rest.split(']').next());
    brackets
        .filter_map(|text| text.split_once('/'))
        .find_map(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    #[test]
    fn arrays_their_members_and_a_resync_are_read() {
        let text = "Personalities : [raid1] [raid6] [raid5] [raid4]\nmd127 : active raid5 sdd1[3] sdc1[1](F) sdb1[0]\n      1047552 blocks super 1.2 level 5, 64k chunk, algorithm 2 [3/2] [U_U]\n      [==>..................]  recovery = 12.6% (66112/523776) finish=0.4min speed=16528K/sec\nmd1 : active raid1 sda2[0]\n      100 blocks [1/1] [U]\nunused devices: <none>\n";
        let (facts, metrics) = read(text);
        let metrics: Vec<String> =
            metrics.iter().map(|(n, m)| format!("{n} = {}", m.unit.show(m.value))).collect();
        expect![[r#"
            {"md1": "active raid1, [1/1]", "md127": "active raid5, super 1.2 level 5, 64k chunk, algorithm 2"}
            md1.members = 1.00
            md1.working = 1.00
            md127.members = 3.00
            md127.resync_throughput = 16.9 MB/s
            md127.working = 2.00"#]]
        .assert_eq(&format!("{facts:?}\n{}", metrics.join("\n")));
    }
}
