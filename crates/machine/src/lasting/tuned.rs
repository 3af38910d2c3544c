//! A profile of tuned that includes the one in use. Pure.
//!
//! Everything is in `[sysfs]`, whose values are written in the order of the file, and with a priority behind
//! that of the other parts, which have 0: what the included profile sets in `[cpu]` is written before (tuned
//! 2.20, `units/manager.py`, `plugins/plugin_sysfs.py`).

use super::lines::{HEADER, forbidden, lines};
use super::record::Entry;

/// The name of the profile.
pub(super) const PROFILE: &str = "flyball";

/// The folder and name below `/etc`.
pub(super) const FILE: &str = "tuned/flyball/tuned.conf";

/// Why an entry does not fit; `None` where it does.
pub(super) fn unfit(entry: &Entry) -> Option<String> {
    let in_path = forbidden(&entry.path, &['=', ':', '*', '?', '[', ']', '#', ';', '$']);
    in_path.or_else(|| forbidden(&entry.new, &['$', '#', ';', '"', '\'', '\\', '%']))
}

/// The whole file, over the profile that was in use.
pub(super) fn text(entries: &[&Entry], base: Option<&str>) -> String {
    let include = base.map(|base| format!("include={base}\n")).unwrap_or_default();
    let lines: String =
        lines(entries).iter().map(|l| format!("{}\n{}={}\n", l.comment, l.path, l.value)).collect();
    format!("{HEADER}\n[main]\nsummary=What `flyball tune` found\n{include}\n[sysfs]\npriority=10\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::super::lines::tests::entry;
    use super::super::record::PersistMethod::Tuned;
    use super::*;
    use expect_test::expect;

    #[test]
    fn the_profile_includes_the_one_in_use() {
        let governor = entry(
            Tuned,
            "governor",
            "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
            "powersave",
            "performance",
        );
        expect![[r#"
            # Written by `flyball tune --persist`, whole and anew each time: lines of your own belong into another file.
            # `flyball status` shows what differs from it by now, `flyball tune --undo` takes it back.

            [main]
            summary=What `flyball tune` found
            include=throughput-performance

            [sysfs]
            priority=10
            # governor, before: powersave
            /sys/devices/system/cpu/cpufreq/policy[0-9]*/scaling_governor=performance
        "#]]
        .assert_eq(&text(&[&governor], Some("throughput-performance")));
    }
}
