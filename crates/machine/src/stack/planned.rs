//! The commands that would build a stack, with names that stand for those that are dealt out only then.

use super::commands::{self, Argv};
use super::{has_udev, mapping};
use domain::stack::{Devices, Journal, Layer, Part, Stack, VirtualDevice};
use std::collections::BTreeMap;

/// Stands for a UUID that is drawn when it is needed.
const UUID: &str = "f17ba110-…";
const TOKEN: &str = "flyball-TOKEN";

/// What would be run for a stack, in order. `lab_disks` is whether this is for a lab machine.
pub fn planned(stack: &Stack, lab_disks: bool) -> Vec<Argv> {
    let mut given: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut all = Vec::new();
    for layer in &stack.layers {
        let below: Vec<String> =
            layer.on.iter().filter_map(|name| given.get(name.as_str())).flatten().cloned().collect();
        let gives = layer_commands(layer, &below, &given, lab_disks, &mut all);
        given.insert(&layer.name, gives);
    }
    all
}

/// Adds a layer's commands; gives its devices.
fn layer_commands(
    layer: &Layer,
    below: &[String],
    given: &BTreeMap<&str, Vec<String>>,
    lab_disks: bool,
    all: &mut Vec<Argv>,
) -> Vec<String> {
    let name = format!("{TOKEN}-{}", layer.name);
    match &layer.part {
        Part::Devices(devices) => sources(layer, devices, lab_disks, all),
        Part::Md(md) => {
            let node = format!("/dev/md/{}", layer.name);
            all.push(commands::wipe(below));
            all.push(commands::array(md, &node, UUID, below));
            let files = commands::array_files(md).into_iter();
            all.extend(files.map(|(file, value)| commands::written("mdN", file, &value).1));
            vec![node]
        }
        Part::Mapping(part) => {
            let mut opened = Vec::new();
            for (index, device) in below.iter().enumerate() {
                let mapped = format!("{name}-{index}");
                all.extend(mapping::commands(part, device, &mapped, UUID));
                opened.push(format!("/dev/mapper/{mapped}"));
            }
            opened
        }
        Part::Lvm(lvm) => {
            let group = name.replace('-', "_");
            let uuids = vec!["FLYBAL-…".to_owned(); below.len()];
            all.push(commands::wipe(below));
            all.extend(commands::volume(lvm, &group, below, &uuids, has_udev()));
            vec![format!("/dev/mapper/{}", commands::volume_mapping(&group))]
        }
        Part::Filesystem(fs) => {
            let journal = match &fs.journal {
                Journal::External(layer) => given.get(layer.as_str()).and_then(|devices| devices.first()),
                Journal::Internal | Journal::None => None,
            };
            let device = below.first().cloned().unwrap_or_default();
            all.push(commands::wipe(&journal.into_iter().chain([&device]).cloned().collect::<Vec<_>>()));
            let with = journal.map(|node| (node.as_str(), UUID));
            all.extend(commands::filesystem(fs, &device, with, UUID));
            all.push(commands::mount(fs, &device, journal.map(String::as_str), &format!("WORK/{name}")));
            Vec::new()
        }
    }
}

fn sources(layer: &Layer, devices: &Devices, lab_disks: bool, all: &mut Vec<Argv>) -> Vec<String> {
    let count = devices.count as usize;
    let named = |kind: &str| (0..count).map(|index| format!("/dev/{kind}-{}-{index}", layer.name)).collect();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Argv>();
    if lab_disks && !devices.lab.is_empty() {
        return devices.lab.iter().take(count).map(|name| format!("/dev/lab-{name}")).collect();
    }
    if !devices.claimed.is_empty() {
        return devices.claimed[..count].to_vec();
    }
    match &devices.made {
        None => named("none"),
        Some((VirtualDevice::Loop, size)) => {
            let nodes: Vec<String> = named("loop");
            for (index, node) in nodes.iter().enumerate() {
                let file = format!("WORK/{TOKEN}-{}-{index}", layer.name);
                all.push(words(&["fallocate", "--length", &size.get().to_string(), &file]));
                all.push(words(&["losetup", "--direct-io=on", node, &file]));
            }
            nodes
        }
        Some((made @ VirtualDevice::NullBlk(attributes), size)) => {
            let nodes: Vec<String> = named(made.name());
            for index in 0..count {
                let folder = format!("/sys/kernel/config/nullb/{TOKEN}-{}-{index}", layer.name);
                let mib = (size.get() >> 20).to_string();
                let own = [("size", mib.as_str()), ("memory_backed", "1")];
                let more = attributes.iter().map(|(name, value)| (name.as_str(), value.as_str()));
                let written = own.into_iter().chain(more).chain([("power", "1")]);
                let lines: String =
                    written.map(|(name, value)| format!("; echo {value} > {folder}/{name}")).collect();
                all.push(words(&["sh", "-c", &format!("mkdir {folder}{lines}")]));
            }
            nodes
        }
        Some((made @ VirtualDevice::ScsiDebug(parameters), size)) => {
            let mut load = words(&["modprobe", "scsi_debug", &format!("dev_size_mb={}", size.get() >> 20)]);
            load.extend(words(&["per_host_store=1", &format!("add_host={count}"), "num_tgts=1"]));
            load.extend(parameters.iter().map(|(name, value)| format!("{name}={value}")));
            all.push(load);
            named(made.name())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::stack::{LayerSpec, StackSpec};
    use expect_test::{Expect, expect};

    fn check(layers: &[(&str, &[(&str, &str)])], expected: &Expect) {
        let layer = |(name, values): &(&str, &[(&str, &str)])| LayerSpec {
            name: (*name).into(),
            values: values.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
        };
        let stack = StackSpec { layers: layers.iter().map(layer).collect() }.build().unwrap();
        let lines: Vec<String> = planned(&stack, true).iter().map(|argv| argv.join(" ") + "\n").collect();
        expected.assert_eq(&lines.concat());
    }

    #[test]
    fn a_degraded_array_with_a_spare_names_what_is_missing_and_what_is_written() {
        check(
            &[
                ("disks", &[("kind", "devices"), ("count", "5"), ("lab", "disk"), ("loop", "64MiB")]),
                (
                    "array",
                    &[
                        ("kind", "md"),
                        ("on", "disks"),
                        ("level", "5"),
                        ("chunk", "128KiB"),
                        ("spares", "1"),
                        ("missing", "1"),
                        ("layout", "left-symmetric"),
                        ("stripe_cache_size", "512"),
                        ("safe_mode_delay", "600ms"),
                    ],
                ),
            ],
            &expect![[r#"
                wipefs --all --quiet /dev/lab-disk0 /dev/lab-disk1 /dev/lab-disk2 /dev/lab-disk3 /dev/lab-disk4
                mdadm --create /dev/md/array --run --quiet --metadata=1.2 --homehost=any --name=flyball --uuid=f17ba110 --level=5 --layout=left-symmetric --chunk=128K --bitmap=none --raid-devices=4 --spare-devices=1 /dev/lab-disk0 /dev/lab-disk1 /dev/lab-disk2 missing /dev/lab-disk4
                sh -c echo 512 > /sys/block/mdN/md/stripe_cache_size
                sh -c echo 0.600 > /sys/block/mdN/md/safe_mode_delay
            "#]],
        );
    }

    #[test]
    fn members_that_are_write_mostly_follow_the_option_and_the_bitmap_has_its_chunk() {
        check(
            &[
                ("disks", &[("kind", "devices"), ("count", "4"), ("lab", "disk")]),
                ("tags", &[("kind", "integrity"), ("on", "disks"), ("use", "false")]),
                (
                    "array",
                    &[
                        ("kind", "md"),
                        ("on", "tags"),
                        ("level", "1"),
                        ("missing", "1"),
                        ("write_mostly", "2"),
                        ("bitmap", "internal"),
                        ("bitmap_chunk", "1MiB"),
                        ("resync", "skip"),
                    ],
                ),
            ],
            &expect![[r#"
                wipefs --all --quiet /dev/lab-disk0 /dev/lab-disk1 /dev/lab-disk2 /dev/lab-disk3
                mdadm --create /dev/md/array --run --quiet --metadata=1.2 --homehost=any --name=flyball --uuid=f17ba110 --level=1 --bitmap=internal --bitmap-chunk=1024K --assume-clean --raid-devices=4 /dev/lab-disk0 --write-mostly /dev/lab-disk1 /dev/lab-disk2 missing
            "#]],
        );
    }

    #[test]
    fn a_filesystem_with_its_journal_elsewhere_gets_both_made() {
        check(
            &[
                ("disk", &[("kind", "devices"), ("lab", "disk")]),
                ("vault", &[("kind", "crypt"), ("on", "disk"), ("same_cpu", "true")]),
                ("log", &[("kind", "devices"), ("lab", "log")]),
                (
                    "files",
                    &[
                        ("kind", "filesystem"),
                        ("on", "vault"),
                        ("type", "ext3"),
                        ("data", "journal"),
                        ("journal", "log"),
                        ("mkfs", "-E stride=16 -m 0"),
                        ("mount", "noatime"),
                    ],
                ),
            ],
            &expect![[r#"
                wipefs --all --quiet /dev/lab-disk0
                cryptsetup luksFormat --batch-mode --type luks2 --uuid f17ba110-… --pbkdf pbkdf2 --pbkdf-force-iterations 1000 --cipher aes-xts-plain64 --key-size 512 --sector-size 512 --key-file /dev/zero --keyfile-size 64 /dev/lab-disk0
                cryptsetup open --batch-mode --type luks2 --key-file /dev/zero --keyfile-size 64 --perf-same_cpu_crypt /dev/lab-disk0 flyball-TOKEN-vault-0
                wipefs --all --quiet /dev/lab-log0 /dev/mapper/flyball-TOKEN-vault-0
                mke2fs -q -F -O journal_dev -b 4096 -U f17ba110-… /dev/lab-log0
                mke2fs -q -F -t ext3 -b 4096 -U f17ba110-… -E stride=16,lazy_itable_init=0,lazy_journal_init=0 -J device=/dev/lab-log0 -m 0 /dev/mapper/flyball-TOKEN-vault-0
                mount -t ext3 -o data=journal,noatime /dev/mapper/flyball-TOKEN-vault-0 WORK/flyball-TOKEN-files
            "#]],
        );
    }

    #[test]
    fn a_striped_volume_keeps_nothing_in_lvms_own_folders() {
        let lvm: &[(&str, &str)] = &[("kind", "lvm"), ("on", "disks"), ("stripe_size", "32KiB")];
        let stack =
            [("disks", &[("kind", "devices"), ("count", "2"), ("lab", "disk")] as &[_]), ("pool", lvm)];
        let layer = |(name, values): &(&str, &[(&str, &str)])| LayerSpec {
            name: (*name).into(),
            values: values.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
        };
        let stack = StackSpec { layers: stack.iter().map(layer).collect() }.build().unwrap();
        let all = planned(&stack, true);
        let words: Vec<&str> = all.iter().map(|argv| argv[1].as_str()).collect();
        assert_eq!(words, ["--all", "pvcreate", "pvcreate", "vgcreate", "lvcreate"]);
        assert!(all[1..].iter().all(|argv| argv[3].contains("backup{backup=0 archive=0}")), "{all:?}");
        assert!(
            all[4].join(" ").ends_with("--stripes 2 --stripesize 32k --name data flyball_TOKEN_pool"),
            "{all:?}"
        );
    }
}
