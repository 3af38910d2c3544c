//! `sysctl.d(5)`: one line a sysctl, by its dotted name. Pure.

use super::lines::{HEADER, comment, in_order};
use super::record::Entry;

/// The folder and name below `/etc`.
pub(super) const FILE: &str = "sysctl.d/90-flyball.conf";

const ROOT: &str = "/proc/sys/";

/// Whether it is a sysctl.
pub(super) fn takes(path: &str) -> bool {
    path.starts_with(ROOT)
}

/// `vm.dirty_bytes`. With slashes where a part holds a dot itself, as the name of a VLAN does: sysctl.d takes
/// the first separator for the one that counts.
pub(super) fn key(path: &str) -> String {
    let name = path.strip_prefix(ROOT).unwrap_or(path);
    if name.contains('.') { name.to_owned() } else { name.replace('/', ".") }
}

/// The whole file.
pub(super) fn text(entries: &[&Entry]) -> String {
    let line = |e: &Entry| format!("{}\n{} = {}\n", comment(e), key(&e.path), e.new);
    let lines: String = in_order(entries).iter().map(line).collect();
    format!("{HEADER}\n{lines}")
}

/// What a file of this format sets a key to last; `None` where it does not set it. Patterns are not resolved.
pub(super) fn value_in(text: &str, wanted: &str) -> Option<String> {
    let set = |line: &str| {
        let line = line.trim();
        if line.starts_with(['#', ';']) {
            return None;
        }
        let (name, value) = line.split_once('=')?;
        let name = name.trim().trim_start_matches('-');
        (same_key(name, wanted)).then(|| value.trim().to_owned())
    };
    text.lines().filter_map(set).next_back()
}

fn same_key(a: &str, b: &str) -> bool {
    let plain = |key: &str| {
        let slashes = key.find(['.', '/']).is_some_and(|at| key.as_bytes()[at] == b'/');
        if slashes { key.to_owned() } else { key.replace('.', "/") }
    };
    plain(a) == plain(b)
}

#[cfg(test)]
mod tests {
    use super::super::lines::tests::entry;
    use super::super::record::PersistMethod::Sysctl;
    use super::*;
    use expect_test::expect;

    #[test]
    fn each_sysctl_is_a_line_with_what_it_was() {
        let mut first = entry(Sysctl, "vm.dirty_bytes", "/proc/sys/vm/dirty_bytes", "0", "268435456");
        first.reason = "shorter stalls\nat commit".into();
        let second = entry(Sysctl, "/proc/sys/net/a.b/c", "/proc/sys/net/a.b/c", "4 4\t1", "4 4 2");
        expect![[r#"
            # Written by `flyball tune --persist`, whole and anew each time: lines of your own belong into another file.
            # `flyball status` shows what differs from it by now, `flyball tune --undo` takes it back.

            # vm.dirty_bytes, before: 0; shorter stalls at commit
            vm.dirty_bytes = 268435456
            # /proc/sys/net/a.b/c, before: 4 4 1
            net/a.b/c = 4 4 2
        "#]]
        .assert_eq(&text(&[&first, &second]));
    }

    #[test]
    fn the_last_line_of_a_key_counts_however_it_is_written() {
        let text = "# vm.swappiness = 1\nvm.swappiness=2\n-vm/swappiness = 3 \nvm.other = 4\n";
        assert_eq!(value_in(text, "vm.swappiness").as_deref(), Some("3"));
        assert_eq!(value_in("vm.swappiness=2", "vm.swap"), None);
    }
}
