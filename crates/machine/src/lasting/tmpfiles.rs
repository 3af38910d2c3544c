//! `tmpfiles.d(5)`: `w` lines, written in their order at each boot. Pure.
//!
//! Lines of this type are all processed after those that make files, and among themselves in the order of the
//! file: a governor comes before its tunables. The `!` keeps them from being written again in the middle of a
//! trial, when some package has its own files made. A file that is not there at that moment is passed over in
//! silence: a driver that is loaded later than `systemd-tmpfiles-setup.service` keeps its defaults, and
//! `flyball status` shows it.

use super::lines::{HEADER, forbidden, lines};
use super::record::Entry;

/// The folder and name below `/etc`.
pub(super) const FILE: &str = "tmpfiles.d/flyball.conf";

/// Why an entry does not fit; `None` where it does.
pub(super) fn unfit(entry: &Entry) -> Option<String> {
    let in_path = forbidden(&entry.path, &[' ', '"', '\'', '\\', '*', '?', '[', ']']);
    in_path.or_else(|| forbidden(&entry.new, &['"', '\'', '\\']))
}

/// The whole file. `%` begins a specifier, so that it is written twice.
pub(super) fn text(entries: &[&Entry]) -> String {
    let line = |path: &str, value: &str| {
        format!("w! {} - - - - {}\n", path.replace('%', "%%"), value.replace('%', "%%"))
    };
    let lines: String =
        lines(entries).iter().map(|l| format!("{}\n{}", l.comment, line(&l.path, &l.value))).collect();
    format!("{HEADER}\n{lines}")
}

#[cfg(test)]
mod tests {
    use super::super::lines::tests::entry;
    use super::super::record::PersistMethod::Tmpfiles;
    use super::*;
    use expect_test::expect;

    const CPUFREQ: &str = "/sys/devices/system/cpu/cpufreq";

    #[test]
    fn tunables_come_after_governors_and_single_policies_after_all() {
        let e = |asked: &str, file: &str, old, new| {
            entry(Tmpfiles, asked, &format!("{CPUFREQ}/{file}"), old, new)
        };
        let entries = [
            e("ondemand.up_threshold", "ondemand/up_threshold", "95", "60"),
            e("governor@policy1", "policy1/scaling_governor", "powersave", "performance"),
            e("governor", "policy0/scaling_governor", "powersave", "ondemand"),
            e("governor", "policy2/scaling_governor", "powersave", "ondemand"),
            e("max_freq", "policy0/scaling_max_freq", "1", "3500000"),
            e("max_freq", "policy2/scaling_max_freq", "1", "2800000"),
            e("turbo", "boost", "1", "0"),
        ];
        let entries: Vec<&Entry> = entries.iter().collect();
        expect![[r#"
            # Written by `flyball tune --persist`, whole and anew each time: lines of your own belong into another file.
            # `flyball status` shows what differs from it by now, `flyball tune --undo` takes it back.

            # turbo, before: 1
            w! /sys/devices/system/cpu/cpufreq/boost - - - - 0
            # governor, before: powersave
            w! /sys/devices/system/cpu/cpufreq/policy[0-9]*/scaling_governor - - - - ondemand
            # governor@policy1, before: powersave
            w! /sys/devices/system/cpu/cpufreq/policy1/scaling_governor - - - - performance
            # ondemand.up_threshold, before: 95
            w! /sys/devices/system/cpu/cpufreq/ondemand/up_threshold - - - - 60
            # max_freq, before: 1
            w! /sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq - - - - 3500000
            # max_freq, before: 1
            w! /sys/devices/system/cpu/cpufreq/policy2/scaling_max_freq - - - - 2800000
        "#]]
        .assert_eq(&text(&entries));
    }

    #[test]
    fn what_the_format_would_take_for_something_else_does_not_fit() {
        assert!(unfit(&entry(Tmpfiles, "x", "/sys/a b", "1", "2")).is_some());
        assert!(unfit(&entry(Tmpfiles, "x", "/sys/a", "1", "back\\slash")).is_some());
        let percent = entry(Tmpfiles, "x", "/sys/a", "1", "5%");
        assert_eq!(unfit(&percent), None);
        assert!(text(&[&percent]).ends_with("w! /sys/a - - - - 5%%\n"));
    }
}
