//! Udev rules: one for each setting of a block device, found by what the device is and not by where it hangs.
//! Pure, but for finding out what a device is.

use super::lines::{HEADER, comment, forbidden, in_order};
use super::record::Entry;
use crate::Machine;
use crate::settings::component_after;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The folder and name below `/etc`. Behind `60-persistent-storage.rules`, which finds the serial numbers.
pub(super) const FILE: &str = "udev/rules.d/90-flyball.rules";

/// How a rule finds a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Match {
    /// A property that udev's own rules find: `ID_SERIAL`, `DM_UUID`.
    Property { key: String, value: String },
    /// A file in the device's own folder of sysfs.
    Attribute { key: String, value: String },
    /// A file there, or in the folder of a device that it hangs on.
    Above { key: String, value: String },
    /// Nothing tells it from others: its name.
    Name(String),
}

/// The block device that a file of sysfs belongs to, and the file within its folder.
pub(super) fn split(path: &str) -> Option<(&str, &str)> {
    let name = component_after(path, "block")?;
    let (_, file) = path.split_once(&format!("/block/{name}/"))?;
    Some((name, file))
}

/// What tells this block device from others. `run` is `/run`, where udev keeps what it knows.
///
/// The properties come first, for udev has cleaned them; an NVMe namespace goes by its `wwid`, for its serial
/// number is that of the whole drive.
pub(super) fn identify(machine: &dyn Machine, run: &Path, name: &str) -> Match {
    let folder = format!("/sys/block/{name}");
    let text = |file: &str| machine.text(&format!("{folder}/{file}")).filter(|t| !t.is_empty());
    let number = text("dev").unwrap_or_default();
    let database = machine.text(&run.join(format!("udev/data/b{number}")).to_string_lossy());
    let known = |key: &str| property(database.as_deref().unwrap_or_default(), key);
    let found_by = |key: &str| known(key).map(|value| Match::Property { key: key.to_owned(), value });
    let attribute = |key: &str| text(key).map(|value| Match::Attribute { key: key.to_owned(), value });
    let above = |key: &str| {
        let value = text(&format!("device/{key}"))?;
        Some(Match::Above { key: key.to_owned(), value })
    };
    found_by("DM_UUID")
        .or_else(|| attribute("dm/uuid"))
        .or_else(|| found_by("MD_UUID"))
        .or_else(|| attribute("md/uuid"))
        .or_else(|| attribute("wwid"))
        .or_else(|| found_by("ID_SERIAL"))
        .or_else(|| found_by("ID_WWN_WITH_EXTENSION"))
        .or_else(|| found_by("ID_WWN"))
        .or_else(|| above("wwid"))
        .or_else(|| attribute("serial"))
        .or_else(|| above("serial"))
        .unwrap_or_else(|| Match::Name(name.to_owned()))
}

/// A property in udev's database: lines `E:KEY=VALUE`.
fn property(database: &str, key: &str) -> Option<String> {
    let value = database.lines().find_map(|l| l.strip_prefix("E:")?.strip_prefix(key)?.strip_prefix('='))?;
    (!value.is_empty()).then(|| value.to_owned())
}

/// Why an entry does not fit; `None` where it does.
pub(super) fn unfit(entry: &Entry) -> Option<String> {
    let in_path = forbidden(&entry.path, &[' ', '"', '{', '}', '\\']);
    in_path.or_else(|| forbidden(&entry.new, &['"', '\\']))
}

/// The whole file.
pub(super) fn text(entries: &[&Entry]) -> String {
    let lines: String = in_order(entries).iter().filter_map(rule).collect();
    format!("{HEADER}\n{lines}")
}

fn rule(entry: &Entry) -> Option<String> {
    let (name, file) = split(&entry.path)?;
    let by_name = Match::Name(name.to_owned());
    let device = entry.device.as_ref().unwrap_or(&by_name);
    let note = match device {
        Match::Name(_) => "; nothing tells this device from others, so that the rule goes by its name",
        _ => "",
    };
    let found = match device {
        Match::Property { key, value } => format!("ENV{{{key}}}==\"{}\"", pattern(value)),
        Match::Attribute { key, value } => format!("ATTR{{{key}}}==\"{}\"", pattern(value)),
        Match::Above { key, value } => format!("ATTRS{{{key}}}==\"{}\"", pattern(value)),
        Match::Name(name) => format!("KERNEL==\"{}\"", pattern(name)),
    };
    // `%` and `$` begin what udev replaces.
    let value = entry.new.replace('%', "%%").replace('$', "$$");
    let action = action(name);
    Some(format!(
        "{}{note}\nACTION==\"{action}\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", {found}, ATTR{{{file}}}=\"{value}\"\n",
        comment(entry)
    ))
}

/// A disk has its settings when it appears. Later events say that somebody has closed it after writing, which
/// would put the value back in the middle of a trial; but arrays, mappings and loop devices get what they are
/// only then.
fn action(name: &str) -> &'static str {
    if ["md", "dm-", "loop"].iter().any(|prefix| name.starts_with(prefix)) { "add|change" } else { "add" }
}

/// A value as a pattern that matches it: a character that means something in patterns becomes `?`, which is
/// any one.
fn pattern(value: &str) -> String {
    let special = |c: char| c.is_control() || "*?[]|\"\\$%".contains(c);
    value.chars().map(|c| if special(c) { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::lines::tests::entry;
    use super::super::record::PersistMethod::Udev;
    use super::*;
    use expect_test::expect;

    #[test]
    fn a_device_goes_by_what_it_is_and_its_scheduler_comes_first() {
        let sda = |asked: &str, file: &str, old, new| Entry {
            device: Some(Match::Property { key: "ID_SERIAL".into(), value: "ST1[x]_\"5".into() }),
            ..entry(Udev, asked, &format!("/sys/block/sda/queue/{file}"), old, new)
        };
        let dm = Entry {
            device: Some(Match::Attribute { key: "dm/uuid".into(), value: "CRYPT-LUKS2-a1".into() }),
            ..entry(Udev, "read_ahead_kb@dm-0", "/sys/block/dm-0/queue/read_ahead_kb", "128", "512")
        };
        let entries = [
            sda("nr_requests@sda", "nr_requests", "128", "64"),
            sda("scheduler@sda", "scheduler", "none", "mq-deadline"),
            dm,
            entry(
                Udev,
                "write_cache@loop3",
                "/sys/block/loop3/queue/write_cache",
                "write through",
                "write back",
            ),
        ];
        let entries: Vec<&Entry> = entries.iter().collect();
        expect![[r#"
            # Written by `flyball tune --persist`, whole and anew each time: lines of your own belong into another file.
            # `flyball status` shows what differs from it by now, `flyball tune --undo` takes it back.

            # scheduler@sda, before: none
            ACTION=="add", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ENV{ID_SERIAL}=="ST1?x?_?5", ATTR{queue/scheduler}="mq-deadline"
            # nr_requests@sda, before: 128
            ACTION=="add", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ENV{ID_SERIAL}=="ST1?x?_?5", ATTR{queue/nr_requests}="64"
            # read_ahead_kb@dm-0, before: 128
            ACTION=="add|change", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", ATTR{dm/uuid}=="CRYPT-LUKS2-a1", ATTR{queue/read_ahead_kb}="512"
            # write_cache@loop3, before: write through; nothing tells this device from others, so that the rule goes by its name
            ACTION=="add|change", SUBSYSTEM=="block", ENV{DEVTYPE}=="disk", KERNEL=="loop3", ATTR{queue/write_cache}="write back"
        "#]]
        .assert_eq(&text(&entries));
    }

    #[test]
    fn a_property_is_read_from_udevs_database() {
        let database = "S:disk/by-id/x\nE:ID_SERIAL_SHORT=5\nE:ID_SERIAL=ST1_5\nE:ID_WWN=\n";
        assert_eq!(property(database, "ID_SERIAL").as_deref(), Some("ST1_5"));
        assert_eq!(property(database, "ID_WWN"), None);
    }

    #[test]
    fn the_file_of_a_device_is_found_by_either_path() {
        let short = split("/sys/block/sda/queue/read_ahead_kb");
        assert_eq!(short, Some(("sda", "queue/read_ahead_kb")));
        assert_eq!(split("/sys/class/block/sda/queue/read_ahead_kb"), short);
        assert_eq!(split("/proc/sys/vm/swappiness"), None);
    }
}
