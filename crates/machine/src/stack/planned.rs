//! The commands that would build a stack, with names that stand for those that are dealt out only then.

use super::commands::Argv;
use super::construction;
use super::layer::Plan;
use domain::stack::Stack;
use std::collections::BTreeMap;

/// Stands for a UUID that is drawn when it is needed.
pub(super) const UUID: &str = "f17ba110-…";

/// Stands for what is random in a name.
pub(super) const TOKEN: &str = "flyball-TOKEN";

impl Plan<'_> {
    /// Stands for a name that nobody else has.
    pub(super) fn name(&self) -> String {
        format!("{TOKEN}-{}", self.layer.name)
    }
}

/// What would be run for a stack, in order. `lab_disks` is whether this is for a lab machine.
pub fn planned(stack: &Stack, lab_disks: bool) -> Vec<Argv> {
    let mut given: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut all = Vec::new();
    for layer in &stack.layers {
        let below: Vec<String> =
            layer.on.iter().filter_map(|name| given.get(name.as_str())).flatten().cloned().collect();
        let beside = layer.beside().and_then(|name| given.get(name.as_str())?.first());
        let plan = Plan { layer, below: &below, beside, lab_disks };
        let gives = construction(&layer.part).plan(&plan, &mut all);
        given.insert(&layer.name, gives);
    }
    all
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
