//! `[lab]`: the virtual machine that `flyball lab run` measures a study in.

use super::node::{Node, Section, listed, nearest};
use super::{absolute_path, name, words};
use domain::lab::{Dilation, GuestClock, Lab, LabDisk, LabLink, MEMORY, PACES};
use domain::units::Bytes;
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// More virtual CPUs than this no host paces at once.
const VCPUS: RangeInclusive<u32> = 1..=64;

/// A second of the machine would take three hours.
const DILATIONS: RangeInclusive<f64> = 1.0..=10_000.0;

/// A bound on disks: a guest names them `sda` to `sdz`.
const MAX_DISKS: usize = 26;

/// From the smallest that a filesystem or an array fits in, to the largest that any model is of.
const DISK_SIZES: RangeInclusive<Bytes> = Bytes::from_mib(1)..=Bytes::from_mib(1 << 20);

/// A disk's serial number, which carries its name, has this many characters (virtio-blk, ATA).
const MAX_DISK_NAME_CHARS: usize = 20;

/// A bound on modules and on lines of preparation: what is longer belongs into an image.
const MAX_LINES: usize = 256;

pub(super) fn read(node: &Node) -> Option<Lab> {
    let section = node.section()?;
    // The last three are read with the study's own, where nothing stood against that.
    section.only(&[
        "kernel", "vcpus", "memory", "dilation", "clock", "pstates", "pace", "modules", "prepare", "work",
        "disk", "link", "workload", "factor", "measure",
    ]);
    let default = Lab::default();
    // Every value is read before any is given up, so that all their problems are seen.
    let get = |key| section.get(key);
    let kernel = get("kernel").map_or(Some(None), |n| words(&n).map(Some));
    let vcpus = get("vcpus").map_or(Some(default.vcpus), |n| n.count(VCPUS));
    let memory = get("memory").map_or(Some(default.memory), |n| n.size(MEMORY));
    let dilation = get("dilation").map_or(Some(default.dilation), |n| dilation(&n));
    let clock = get("clock").map_or(Some(None), |n| clock(&n).map(Some));
    let pstates = get("pstates").map_or(Some(None), |n| words(&n).map(Some));
    let pace = get("pace").map_or(Some(None), |n| pace(&n).map(Some));
    let modules = get("modules").map_or(Some(vec![]), |n| lines(&n));
    let prepare = get("prepare").map_or(Some(vec![]), |n| lines(&n));
    let work = get("work").map_or(Some(None), |n| absolute_path(&n, "/mnt/test").map(Some));
    let disks = get("disk").map_or(Some(vec![]), |n| tables(&n, disks, |table| table[0].name.as_str()));
    let links = get("link").map_or(Some(vec![]), |n| tables(&n, link, |link| link.name.as_str()));
    let lab = Lab {
        kernel: kernel?,
        vcpus: vcpus?,
        memory: memory?,
        dilation: dilation?,
        clock: clock?,
        pstates: pstates?,
        pace: pace?,
        disks: disks?.concat(),
        links: links?,
        modules: modules?,
        prepare: prepare?,
        work: work?,
    };
    disks_differ(&lab, &section);
    links_fit(&lab, &section);
    dilation_fits(&lab, &section);
    pace_fits(&lab, &section);
    Some(lab)
}

fn dilation(node: &Node) -> Option<Dilation> {
    if node.is_text() && node.text()? == "auto" {
        return Some(Dilation::Auto);
    }
    let Some(factor) = node.number().filter(|factor| DILATIONS.contains(factor)) else {
        node.refuse(format!("has to be from {} to {}, or `\"auto\"`", DILATIONS.start(), DILATIONS.end()));
        return None;
    };
    Some(Dilation::Fixed(factor))
}

fn pace(node: &Node) -> Option<f64> {
    let pace = node.number().filter(|pace| PACES.contains(pace));
    if pace.is_none() {
        node.refuse(format!("has to be from {:e} to {:e} instructions a second", PACES.start(), PACES.end()));
    }
    pace
}

fn clock(node: &Node) -> Option<GuestClock> {
    match node.text()? {
        "host" => Some(GuestClock::Host),
        "slowed" => Some(GuestClock::Slowed),
        _ => {
            node.refuse("has to be `\"host\"` or `\"slowed\"`");
            None
        }
    }
}

fn lines(node: &Node) -> Option<Vec<String>> {
    let items = node.items()?;
    if items.len() > MAX_LINES {
        node.refuse(format!("has {} lines, and {MAX_LINES} at most make sense", items.len()));
        return None;
    }
    let lines: Vec<Option<String>> = items.iter().map(words).collect();
    lines.into_iter().collect()
}

/// Reads `[[lab.disk]]` or `[[lab.link]]` tables, whose names differ.
fn tables<'a, T>(
    node: &Node<'a>,
    read: impl Fn(&Section<'a>) -> Option<T>,
    name_of: impl Fn(&T) -> &str,
) -> Option<Vec<T>> {
    let items = node.items()?;
    if items.len() > MAX_DISKS {
        node.refuse(format!("there are {}, and {MAX_DISKS} at most make sense", items.len()));
        return None;
    }
    let mut found: Vec<T> = Vec::new();
    let mut complete = true;
    for item in items {
        match item.section().and_then(|section| read(&section)) {
            Some(one) if found.iter().any(|other| name_of(other) == name_of(&one)) => {
                item.refuse(format!("the name `{}` is there twice; rename one", name_of(&one)));
                complete = false;
            }
            Some(one) => found.push(one),
            None => complete = false,
        }
    }
    complete.then_some(found)
}

/// The disks of one table: one, or as many as it counts, whose names end in a number then.
fn disks(section: &Section) -> Option<Vec<LabDisk>> {
    section.only(&["name", "count", "model", "size", "link"]);
    let count = section.get("count").map_or(Some(None), |node| node.count(1..=MAX_DISKS as u32).map(Some));
    let name = section.require("name", "name = \"disk1\"").and_then(|node| disk_name(&node));
    let model = section.require("model", "model = \"wd-green\"").and_then(|node| words(&node));
    let size = section.get("size").map_or(Some(None), |node| disk_size(&node).map(Some));
    let link = section.get("link").map_or(Some(None), |node| super::name(&node).map(Some));
    let disk = LabDisk { name: name?, model: model?, size: size?, link: link? };
    let Some(count) = count? else { return Some(vec![disk]) };
    // Otherwise `disk1` and twelve of it would hold `disk10`, which `disk` and twelve of it hold too.
    if disk.name.ends_with(|c: char| c.is_ascii_digit()) || disk.name.len() + 2 > MAX_DISK_NAME_CHARS {
        section.get("name")?.refuse(format!(
            "is what the names of {count} disks begin with, which a number follows; let it end in a letter, and have {} characters at most",
            MAX_DISK_NAME_CHARS - 2
        ));
        return None;
    }
    Some((0..count).map(|n| LabDisk { name: format!("{}{n}", disk.name), ..disk.clone() }).collect())
}

/// A table that counts may hold the name of another, and all of them more than a guest can have.
fn disks_differ(lab: &Lab, section: &Section) {
    let mut names = BTreeSet::new();
    let twice = lab.disks.iter().find(|disk| !names.insert(&disk.name));
    let Some(node) = section.get("disk") else { return };
    if let Some(disk) = twice {
        node.refuse(format!("the name `{}` is there twice; rename one", disk.name));
    }
    if lab.disks.len() > MAX_DISKS {
        node.refuse(format!("there are {}, and {MAX_DISKS} at most make sense", lab.disks.len()));
    }
}

fn disk_name(node: &Node) -> Option<String> {
    let name = name(node)?;
    if name.len() > MAX_DISK_NAME_CHARS {
        node.refuse(format!(
            "is the disk's serial number too, which has {MAX_DISK_NAME_CHARS} characters at most"
        ));
        return None;
    }
    Some(name)
}

fn disk_size(node: &Node) -> Option<Bytes> {
    let size = node.size(DISK_SIZES)?;
    if !size.get().is_multiple_of(Bytes::from_kib(4).get()) {
        node.refuse("has to be a multiple of 4 KiB");
        return None;
    }
    Some(size)
}

fn link(section: &Section) -> Option<LabLink> {
    section.only(&["name", "model"]);
    let name = section.require("name", "name = \"pci\"").and_then(|node| name(&node));
    let model = section.require("model", "model = \"pci-32-33\"").and_then(|node| words(&node));
    Some(LabLink { name: name?, model: model? })
}

/// Each disk's link is there, and each link has a disk.
fn links_fit(lab: &Lab, section: &Section) {
    let items = |key| section.get(key).map(|node| node.items_if_any()).unwrap_or_default();
    let known: Vec<&str> = lab.links.iter().map(|link| link.name.as_str()).collect();
    for item in items("disk") {
        let place = item.section_if_any().and_then(|section| section.get("link"));
        let Some(link) = place.as_ref().and_then(Node::text).filter(|link| !known.contains(link)) else {
            continue;
        };
        let help = match (nearest(link, known.iter().copied()), known.is_empty()) {
            (Some(near), _) => format!("did you mean `{near}`?"),
            (None, true) => format!("add `[[lab.link]]` with `name = \"{link}\"`"),
            (None, false) => format!("there are {}", listed(&known)),
        };
        place.as_ref().unwrap_or(&item).refuse(format!("there is no link `{link}`; {help}"));
    }
    for (item, link) in items("link").iter().zip(&lab.links) {
        if !lab.disks.iter().any(|disk| disk.link.as_deref() == Some(link.name.as_str())) {
            item.refuse(format!(
                "no disk is on the link `{name}`; give one `link = \"{name}\"`, or take the table out",
                name = link.name
            ));
        }
    }
}

/// A dilation is found from a table of P-states, which alone says how fast the machine is that is stood for.
/// A clock is slowed by what paces the virtual CPUs.
fn dilation_fits(lab: &Lab, section: &Section) {
    if lab.clock == Some(GuestClock::Slowed)
        && lab.pstates.is_none()
        && let Some(node) = section.get("clock")
    {
        node.refuse("`\"slowed\"` needs `pstates`, for the clock is slow while virtual CPUs are paced; add it, or leave this out");
    }
    if lab.dilation == Dilation::Auto
        && lab.pstates.is_none()
        && let Some(node) = section.get("dilation")
    {
        node.refuse(
            "`\"auto\"` needs `pstates`, whose table says how fast the machine is; add it, or write a number",
        );
    }
}

/// A pace is that of a table, in place of its own; an automatic dilation finds it.
fn pace_fits(lab: &Lab, section: &Section) {
    let Some(node) = section.get("pace").filter(|_| lab.pace.is_some()) else { return };
    if lab.pstates.is_none() {
        node.refuse("needs `pstates`, for only their virtual CPUs are paced; add it, or leave this out");
    }
    if lab.dilation == Dilation::Auto {
        node.refuse("`dilation = \"auto\"` finds the pace; write a number there, or leave this out");
    }
}

#[cfg(test)]
mod tests {
    use crate::study::parse;
    use domain::Study;
    use domain::lab::{Dilation, GuestClock, Lab};
    use domain::study::Target;
    use domain::units::Bytes;
    use expect_test::{Expect, expect};

    /// The first line of a test's own text is line 8.
    const HEAD: &str = "flyball = 1\nname = \"s\"\nquestion = \"q\"\n[target]\ndevice = \"/dev/mapper/vault\"\n[workload.w]\ntool = \"fio\"\n";

    fn check(text: &str, expected: Expect) {
        let errors = parse(&format!("{HEAD}{text}")).expect_err("this study is wrong");
        expected.assert_eq(&format!("{errors}\n"));
    }

    fn study(text: &str) -> Study {
        parse(&format!("{HEAD}{text}")).unwrap_or_else(|errors| panic!("{errors}"))
    }

    #[test]
    fn a_study_without_a_lab_has_the_plain_one() {
        assert_eq!(study("").lab, Lab::default());
        assert_eq!(study("[lab]\n").lab, Lab::default());
        assert_eq!(study("").target, Target::LabDevice("/dev/mapper/vault".into()));
    }

    #[test]
    fn a_whole_lab_is_read() {
        let text = HEAD.replace("device = \"/dev/mapper/vault\"", "file = \"64MiB\"")
            + r#"[lab]
vcpus = 2
memory = "1GiB"
dilation = 20
pstates = "xeon"
modules = ["null_blk nr_devices=1"]
prepare = ["mkfs.ext4 -q /dev/sda", "mount /dev/sda /mnt/test"]
work = "/mnt/test"
[[lab.disk]]
name = "first"
model = "wd-green"
size = "1GiB"
link = "pci"
[[lab.disk]]
name = "second"
model = "disks/own.toml"
[[lab.link]]
name = "pci"
model = "pci-32-33"
"#;
        let lab = parse(&text).unwrap_or_else(|errors| panic!("{errors}")).lab;
        assert_eq!((lab.vcpus, lab.memory, lab.dilation), (2, Bytes::from_mib(1024), Dilation::Fixed(20.0)));
        assert_eq!((lab.pstates.as_deref(), lab.work.as_deref()), (Some("xeon"), Some("/mnt/test")));
        assert_eq!((lab.modules.len(), lab.prepare[1].as_str()), (1, "mount /dev/sda /mnt/test"));
        let disks: Vec<_> = lab.disks.iter().map(|d| (d.name.as_str(), d.size, d.link.as_deref())).collect();
        assert_eq!(disks, [("first", Some(Bytes::from_mib(1024)), Some("pci")), ("second", None, None)]);
        assert_eq!((lab.links[0].name.as_str(), lab.links[0].model.as_str()), ("pci", "pci-32-33"));
    }

    #[test]
    fn a_table_of_disks_may_stand_for_several() {
        let of = "[[lab.disk]]\nname = \"disk\"\ncount = 3\nmodel = \"m\"\n[[lab.disk]]\nname = \"log\"\nmodel = \"m\"\n";
        let disks = study(of).lab.disks;
        let names: Vec<&str> = disks.iter().map(|disk| disk.name.as_str()).collect();
        assert_eq!(names, ["disk0", "disk1", "disk2", "log"]);
        check(
            "[[lab.disk]]\nname = \"disk\"\ncount = 20\nmodel = \"m\"\n[[lab.disk]]\nname = \"disk3\"\nmodel = \"m\"\n[[lab.disk]]\nname = \"log\"\ncount = 10\nmodel = \"m\"\n",
            expect![[r#"
                line 8, column 1: `lab.disk`: the name `disk3` is there twice; rename one
                line 8, column 1: `lab.disk`: there are 31, and 26 at most make sense
            "#]],
        );
        check(
            "[[lab.disk]]\nname = \"a\"\ncount = 0\nmodel = \"m\"\n[[lab.disk]]\nname = \"disk1\"\ncount = 2\nmodel = \"m\"\n[[lab.disk]]\nname = \"a-name-of-19-letter\"\ncount = 2\nmodel = \"m\"\n",
            expect![[r#"
                line 10, column 9: `lab.disk[1].count`: has to be from 1 to 26
                line 13, column 8: `lab.disk[2].name`: is what the names of 2 disks begin with, which a number follows; let it end in a letter, and have 18 characters at most
                line 17, column 8: `lab.disk[3].name`: is what the names of 2 disks begin with, which a number follows; let it end in a letter, and have 18 characters at most
            "#]],
        );
    }

    #[test]
    fn a_pace_stands_for_the_tables_where_that_is_not_found() {
        let pace = |lab: &str| study(&format!("[lab]\npstates = \"xeon\"\n{lab}")).lab.pace;
        assert_eq!((pace("pace = 5e6\n"), pace("")), (Some(5e6), None));
        check(
            "[lab]\npace = 5e6\n",
            expect![[r#"
                line 9, column 8: `lab.pace`: needs `pstates`, for only their virtual CPUs are paced; add it, or leave this out
            "#]],
        );
        check(
            "[lab]\npstates = \"xeon\"\ndilation = \"auto\"\npace = 5e6\n",
            expect![[r#"
                line 11, column 8: `lab.pace`: `dilation = "auto"` finds the pace; write a number there, or leave this out
            "#]],
        );
        for wrong in ["5", "1e12", "\"fast\"", "nan"] {
            check(
                &format!("[lab]\npstates = \"xeon\"\npace = {wrong}\n"),
                expect![[r#"
                    line 10, column 8: `lab.pace`: has to be from 1e6 to 1e9 instructions a second
                "#]],
            );
        }
    }

    #[test]
    fn the_dilation_may_be_found_where_a_table_says_from_what() {
        let with = study("[lab]\npstates = \"xeon\"\ndilation = \"auto\"\n");
        assert_eq!(with.lab.dilation, Dilation::Auto);
        check(
            "[lab]\ndilation = \"auto\"\n",
            expect![[r#"
            line 9, column 12: `lab.dilation`: `"auto"` needs `pstates`, whose table says how fast the machine is; add it, or write a number
        "#]],
        );
        for wrong in ["0.5", "\"fast\"", "nan", "inf", "true", "99999999999999999999"] {
            check(
                &format!("[lab]\ndilation = {wrong}\n"),
                expect![[r#"
                line 9, column 12: `lab.dilation`: has to be from 1 to 10000, or `"auto"`
            "#]],
            );
        }
    }

    #[test]
    fn a_clock_is_slowed_where_cpus_are_paced() {
        let clock = |lab: &str| study(&format!("[lab]\ndilation = 16\n{lab}")).lab.clock();
        assert_eq!(clock(""), GuestClock::Host);
        assert_eq!(clock("pstates = \"xeon\"\n"), GuestClock::Slowed);
        assert_eq!(clock("pstates = \"xeon\"\nclock = \"host\"\n"), GuestClock::Host);
        check(
            "[lab]\nclock = \"slowed\"\n",
            expect![[r#"
            line 9, column 9: `lab.clock`: `"slowed"` needs `pstates`, for the clock is slow while virtual CPUs are paced; add it, or leave this out
        "#]],
        );
        check(
            "[lab]\nclock = \"slow\"\n",
            expect![[r#"
            line 9, column 9: `lab.clock`: has to be `"host"` or `"slowed"`
        "#]],
        );
    }

    #[test]
    fn every_mistake_of_a_lab_is_shown_with_its_place() {
        check(
            "[lab]\nvcpu = 2\nvcpus = 65\nmemory = \"1MiB\"\npstates = \" \"\nmodules = \"null_blk\"\nprepare = [\"\"]\nwork = \"mnt\"\n",
            expect![[r#"
                line 9, column 1: `lab.vcpu`: unknown key; did you mean `vcpus`?
                line 10, column 9: `lab.vcpus`: has to be from 1 to 64
                line 11, column 10: `lab.memory`: is 1 MiB; it has to be from 128 MiB to 64 GiB
                line 12, column 11: `lab.pstates`: is empty; take it out, or say what is meant
                line 13, column 11: `lab.modules`: has to be a list, `[…, …]`; this is a string
                line 14, column 12: `lab.prepare[1]`: is empty; take it out, or say what is meant
                line 15, column 8: `lab.work`: has to be an absolute path of the guest, without `.` and `..`, such as `/mnt/test`
            "#]],
        );
        check(
            "[[lab.disk]]\nname = \"a\"\nmodel = \"m\"\nlnik = \"x\"\n[[lab.disk]]\nname = \"a\"\nmodel = \"m\"\n[[lab.disk]]\nname = \"a-name-that-is-far-too-long\"\n[[lab.disk]]\nname = \"b\"\nmodel = \"m\"\nsize = \"1000001\"\n",
            expect![[r#"
                line 11, column 1: `lab.disk[1].lnik`: unknown key; did you mean `link`?
                line 12, column 1: `lab.disk[2]`: the name `a` is there twice; rename one
                line 15, column 1: `lab.disk[3].model`: missing; write `model = "wd-green"`
                line 16, column 8: `lab.disk[3].name`: is the disk's serial number too, which has 20 characters at most
                line 20, column 8: `lab.disk[4].size`: is 976.6 KiB; it has to be from 1 MiB to 1 TiB
            "#]],
        );
    }

    #[test]
    fn links_and_disks_fit() {
        check(
            "[[lab.disk]]\nname = \"a\"\nmodel = \"m\"\nlink = \"pic\"\n[[lab.link]]\nname = \"pci\"\nmodel = \"m\"\n",
            expect![[r#"
                line 11, column 8: `lab.disk[1].link`: there is no link `pic`; did you mean `pci`?
                line 12, column 1: `lab.link[1]`: no disk is on the link `pci`; give one `link = "pci"`, or take the table out
            "#]],
        );
        check(
            "[[lab.disk]]\nname = \"a\"\nmodel = \"m\"\nlink = \"pci\"\n",
            expect![[r#"
            line 11, column 8: `lab.disk[1].link`: there is no link `pci`; add `[[lab.link]]` with `name = "pci"`
        "#]],
        );
    }

    #[test]
    fn a_work_folder_needs_something_to_be_made_in_it() {
        check(
            "[lab]\nwork = \"/mnt/test\"\n",
            expect![[r#"
            line 9, column 1: `lab.work`: nothing is made there, for this study has no target of `file` or `loop`; add one, or take `work` out
        "#]],
        );
    }

    #[test]
    fn a_device_is_named_by_a_path_that_means_what_it_shows() {
        for path in ["sda", "/dev/../etc/passwd", "/etc/passwd", "/dev//sda", "/dev/", "/"] {
            let text = HEAD.replace("/dev/mapper/vault", path);
            let errors = parse(&text).unwrap_err().to_string();
            assert!(errors.starts_with("line 5, column 10: `target.device`:"), "{path}: {errors}");
        }
    }

    #[test]
    fn the_modelled_energy_needs_a_table() {
        let asks = "[measure]\nmetric = \"energy_modelled\"\n";
        check(
            asks,
            expect![[r#"
            line 9, column 10: `measure.metric`: `energy_modelled` is known where virtual P-states have watts; name their table with `pstates = "…"` under `[lab]`
        "#]],
        );
        assert_eq!(study(&format!("{asks}[lab]\npstates = \"xeon\"\n")).measure.metric, "energy_modelled");
    }
}
