//! Stacks of storage in lab machines: every kind of layer is built by the real tools on the real kernel,
//! becomes what was asked for, and leaves nothing.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support::lab::SharedGuest;
use crate::support::{Place, lab};
use serde_json::Value;
use std::collections::BTreeMap;

const EVERY_STACK: &str = include_str!("studies/every-stack.toml");

/// Memory as disks, through both modules that make such.
const MADE_DEVICES: &str = r#"
flyball = 1
name = "made"
question = "Do devices of memory come and go?"
[target]
file = "4MiB"
[stack.disks]
kind = "devices"
count = 2
null_blk = "32MiB"
attributes = "irqmode=2 completion_nsec=20000"
[stack.array]
kind = "md"
on = "disks"
level = 1
[workload.made]
tool = "command"
argv = ["dd", "if={target}", "of=/dev/null", "bs=1M", "count=4", "iflag=direct"]
[measure]
metric = "elapsed"
repeats = 1
settle = "100ms"
"#;

/// Runs studies as on any host, and shows what the machine held before and after, and what each trial stood
/// on.
const SCRIPT: &str = r#"
set -e
exec 3>&1 >&2
# The device nodes of modules that were loaded meanwhile stay, as on any machine.
held() {
    ls /sys/block
    cat /proc/mdstat | sed 1d
    dmsetup ls
    dmsetup info -c --noheadings -o name 2> /dev/null || true
    cut -d ' ' -f 4- /proc/self/mountinfo
    find /run/place /dev/mapper /sys/kernel/config/nullb /etc/lvm /run/lvm 2> /dev/null | grep -v /run/place/state || true
    cat /sys/module/scsi_debug/parameters/add_host 2> /dev/null || true
}
# LVM makes the folder of its settings where there is none.
mkdir -p /run/place/work /etc/lvm
modprobe -a raid0 raid1 raid456 raid10 dm_crypt dm_integrity
modprobe null_blk nr_devices=0
export FLYBALL_STATE=/run/place/state FLYBALL_NOTEBOOK=/run/notebook
held > /run/before
for study in /run/*.toml; do
    code=0
    flyball run $study --work /run/place/work/stacks || code=$?
    echo "@@ ended $study $code" >&3
done
echo "@@ lacks $(grep -rhoE 'needs (Linux|mdadm) [0-9.]+ or newer' /run/notebook/runs/*/*.json | sort -u)" >&3
# The kernel removes an array's device, and SCSI's, after the program that asked for it has ended.
for attempt in $(seq 20); do
    held > /run/after
    if cmp -s /run/before /run/after; then echo '@@ nothing left' >&3; break; fi
    sleep 0.5
done
diff /run/before /run/after >&3 || true
echo "@@ status $(flyball status)" >&3
for study in made scsi; do
    echo "@@ $study had $(grep -lE '"name": "md[0-9]+"' /run/notebook/runs/$study-*/trials/*/storage.json | wc -l) array" >&3
done
for trial in /run/notebook/runs/*/trials/*; do
    echo "@@ $(basename $trial)" >&3
    cat $trial/trial.json >&3
done
"#;

/// Every stack, and what is left on a claimed disk, are looked at in it.
static GUEST: SharedGuest = SharedGuest::new();

fn said(place: &Place, kernel: &str, script: &str) -> String {
    let scsi = MADE_DEVICES
        .replace("null_blk = \"32MiB\"", "scsi_debug = \"32MiB\"")
        .replace("irqmode=2 completion_nsec=20000", "delay=0")
        .replace("name = \"made\"", "name = \"scsi\"")
        .replace("workload.made", "workload.scsi");
    let studies = [("every", EVERY_STACK), ("made", MADE_DEVICES), ("scsi", &scsi)];
    let files: Vec<String> = studies
        .iter()
        .map(|(name, text)| format!("cat > /run/{name}.toml << 'END OF STUDY'\n{text}\nEND OF STUDY\n"))
        .collect();
    // The first one looks at all that the machine holds.
    let scripts =
        [("every", format!("{}{SCRIPT}", files.concat())), ("claimed", CLAIMED_INTEGRITY.to_owned())];
    GUEST.said(place, kernel, &["--memory", "1536MiB"], &scripts, script).ok()
}

#[test]
fn every_stack_becomes_what_was_asked_and_leaves_nothing() {
    if !testing::is_long_in_turn(2) {
        return;
    }
    let place = Place::new();
    let tools = [
        "mdadm",
        "cryptsetup",
        "integritysetup",
        "dmsetup",
        "lvm",
        "mke2fs",
        "mkfs.xfs",
        "mkfs.btrfs",
        "wipefs",
    ];
    for kernel in lab::kernels() {
        if let Some(why) = lab::without(&tools).or_else(|| lab::missing(&place, kernel)) {
            eprintln!("skipped: {why}");
            return;
        }
        let text = said(&place, kernel, "every");
        let (lines, trials) = read(&text);
        assert!(lines.contains(&"nothing left".to_owned()), "{text}");
        assert!(lines.contains(&"status nothing is changed".to_owned()), "{lines:?}");
        // The machine's inventory is from before the arrays.
        for study in ["made", "scsi"] {
            assert!(lines.contains(&format!("{study} had 1 array")), "{lines:?}");
        }
        assert!(lines.contains(&"lacks needs Linux 6.18 or newer".to_owned()), "{lines:?}");
        stood(&trials);
        eprintln!("kernel {kernel}: {} stacks stood as asked, 0 left", trials.len() - 1);
    }
}

/// Overwrites a claimed disk with integrity, to the end and killed in the middle of a trial.
const CLAIMED_INTEGRITY: &str = r#"
set -e
exec 3>&1 >&2
export FLYBALL_STATE=/run/state FLYBALL_NOTEBOOK=/run/notebook
modprobe brd rd_nr=1 rd_size=40960
mkdir -p /run/work
study() {
    cat > /run/study.toml << END
flyball = 1
name = "claimed"
question = "What is left on a claimed disk?"
[stack.disk]
kind = "devices"
claimed = ["/dev/ram0"]
[stack.tags]
kind = "integrity"
on = "disk"
mode = "bitmap"
[workload.read]
tool = "command"
argv = ["sh", "-c", "dd if={target} of=/dev/null bs=1M && wipefs -n /dev/ram0 > /run/seen && touch /run/stands && sleep $1"]
[measure]
metric = "elapsed"
repeats = 1
retries = 0
settle = "0s"
drop_caches = false
END
}
ps_of() { for process in "$@"; do [ ! -e /proc/$process ] || echo $process; done; }
is_left() {
    echo "@@ $1: $(wipefs -n /dev/ram0) $(dmsetup ls)" >&3
    code=0
    flyball claim /dev/ram0 --check || code=$?
    echo "@@ $1: checked $code" >&3
}
flyball claim /dev/ram0
study 0
flyball run /run/study.toml --work /run/work
grep -q DM_integrity /run/seen && echo '@@ stood' >&3
is_left ended
study 100
for killed in run both; do
    rm /run/stands
    setsid flyball run /run/study.toml --work /run/work & run=$!
    for _ in $(seq 600); do [ -e /run/stands ] && break; sleep 0.2; done
    # A workload has the same parent: it dies with it, or is killed by the one that restores.
    supervisor=$(grep -l "^PPid:[[:space:]]*$run$" /proc/[0-9]*/status 2> /dev/null | cut -d / -f 3)
    if [ $killed = both ]; then kill -9 $supervisor; fi
    kill -9 $run
    wait $run || true
    # Its supervisor, where it lives, restores what is left and ends.
    for _ in $(seq 300); do [ -z "$(ps_of $supervisor)" ] && break; sleep 0.2; done
    flyball restore
    is_left $killed
done
"#;

#[test]
fn a_claimed_disk_below_integrity_is_flyballs_own_also_when_it_is_killed() {
    if !testing::is_long_in_turn(2) {
        return;
    }
    let place = Place::new();
    let tools = ["integritysetup", "dmsetup", "wipefs", "blkdiscard"];
    for kernel in lab::kernels() {
        if let Some(why) = lab::without(&tools).or_else(|| lab::missing(&place, kernel)) {
            eprintln!("skipped: {why}");
            return;
        }
        let text = said(&place, kernel, "claimed");
        let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("@@ ")).collect();
        let none = "No devices found";
        let expected = [
            "stood".to_owned(),
            format!("ended:  {none}"),
            "ended: checked 0".into(),
            format!("run:  {none}"),
            "run: checked 0".into(),
            format!("both:  {none}"),
            // Nobody who saw what was written is left: the superblock is erased, and a person has to look at
            // the rest.
            "both: checked 1".into(),
        ];
        assert_eq!(lines, expected, "kernel {kernel}");
    }
}

/// A degraded array whose cache of 256 stripes is too small for what is read, and grows.
const GROWING: &str = r#"
flyball = 1
name = "growing"
question = "Does each trial begin with the cache that the array was built with?"
[stack.disks]
kind = "devices"
count = 3
null_blk = "32MiB"
attributes = "irqmode=2 completion_nsec=20000"
[stack.array]
kind = "md"
on = "disks"
level = 5
missing = 1
resync = "skip"
safe_mode_delay = "500ms"
[workload.read]
tool = "command"
argv = ["sh", "/run/read.sh", "{target}"]
[measure]
metric = "elapsed"
repeats = [2, 2]
settle = "100ms"
drop_caches = false
"#;

/// How many stripes there are before it reads and afterwards.
const READ: &str = r#"
stripes() { echo $1 $(awk '/^raid5/ { print $2 }' /proc/slabinfo) >> /run/stripes; }
stripes begin
fio --name=r --filename=$1 --rw=randread --bs=1m --iodepth=8 --ioengine=libaio --direct=1 --time_based --runtime=5 > /dev/null
stripes end
cat /sys/block/md*/md/safe_mode_delay >> /run/stripes
"#;

#[test]
fn a_trial_begins_with_the_stripe_cache_that_its_array_was_built_with() {
    if !testing::is_long_in_turn(0) {
        return;
    }
    let place = Place::new();
    if let Some(why) = lab::without(&["mdadm", "fio"]).or_else(|| lab::missing(&place, lab::KERNELS[1])) {
        eprintln!("skipped: {why}");
        return;
    }
    let script = format!(
        "set -e; modprobe null_blk nr_devices=0; export FLYBALL_STATE=/run/state FLYBALL_NOTEBOOK=/run/notebook
        cat > /run/growing.toml << 'END OF STUDY'\n{GROWING}\nEND OF STUDY
        cat > /run/read.sh << 'END OF SCRIPT'\n{READ}\nEND OF SCRIPT
        flyball run /run/growing.toml >&2; cat /run/stripes"
    );
    let text = place.ok(&["lab", "exec", "--kernel", lab::KERNELS[1], "--", "bash", "-c", &script]);
    eprintln!("{text}");
    let words: Vec<&str> = text.split_whitespace().collect();
    let [_, first, _, grown, delay, _, second, ..] = words[..] else { panic!("{text}") };
    let [first, grown, second] = [first, grown, second].map(|n| n.parse::<u32>().unwrap());
    assert!(grown >= first + 10, "it did not grow: {text}");
    assert!(second < first + 10, "what the first trial made of it is still there: {text}");
    assert_eq!(delay, "0.500");
}

/// On the lab's own disks, which are nobody's to make: one of them, then all, and one again.
const LAB_DISKS: &str = r#"
flyball = 1
name = "lab-disks"
question = "Are the lab's disks taken as each cell wants them?"
[target]
file = "2MiB"
[stack.disks]
kind = "devices"
count = 3
lab = "disk"
[stack.array]
kind = "md"
on = "disks"
level = 0
[workload.read]
tool = "fio"
options = { rw = "randread", bs = "4k", ioengine = "psync", number_ios = 20 }
[factor.layout]
[[factor.layout.level]]
name = "one-disk"
stack = { "array.use" = false, "disks.count" = 1 }
[[factor.layout.level]]
name = "raid0"
stack = { "array.level" = 0 }
[[factor.layout.level]]
name = "raid5"
stack = { "array.level" = 5 }
[measure]
repeats = 3
confidence = 0.7
settle = "100ms"
retries = 0
[[lab.disk]]
name = "disk"
count = 3
model = "plain-7200"
size = "32MiB"
"#;

#[test]
fn the_labs_disks_are_taken_as_each_cell_wants_them() {
    if !testing::is_long_in_turn(2) {
        return;
    }
    let place = Place::new();
    if let Some(why) = lab::without(&["mdadm", "fio"]).or_else(|| lab::missing(&place, lab::KERNELS[1])) {
        eprintln!("skipped: {why}");
        return;
    }
    let study = place.study("lab-disks", LAB_DISKS);
    place.measure(&["lab", "run", &study, "--kernel", lab::KERNELS[1]]);
    for name in place.trials() {
        let runs = std::fs::read_dir(place.path("notebook/runs")).unwrap().next().unwrap().unwrap().path();
        let text = std::fs::read_to_string(runs.join("trials").join(&name).join("trial.json")).unwrap();
        let trial: Value = serde_json::from_str(&text).unwrap();
        let disks = trial["environment"]["stack.disks"].as_str().unwrap().split(' ').count();
        let wanted = if name.contains("one-disk") { 1 } else { 3 };
        assert!(disks == wanted && !trial["measurement"].is_null(), "{name}: {trial:#}");
    }
    assert_eq!(place.trials().len(), 9);
}

#[test]
fn an_array_is_synchronised_beside_each_trial() {
    if !testing::is_long_in_turn(2) {
        return;
    }
    let place = Place::new();
    if let Some(why) = lab::without(&["mdadm", "fio"]).or_else(|| lab::missing(&place, lab::KERNELS[1])) {
        eprintln!("skipped: {why}");
        return;
    }
    let study = place.study("resync", include_str!("studies/resync.toml"));
    place.measure(&["lab", "run", &study, "--kernel", lab::KERNELS[1]]);
    let run = std::fs::read_dir(place.path("notebook/runs")).unwrap().next().unwrap().unwrap().path();
    let throughput = |state: &str| {
        let name = place.trials().into_iter().find(|name| name.contains(state)).unwrap();
        let text = std::fs::read_to_string(run.join("trials").join(&name).join("trial.json")).unwrap();
        let trial: Value = serde_json::from_str(&text).unwrap();
        // Whatever else disturbed it: it was one of a resync, or of none, from beginning to end.
        assert!(!trial["validity"].to_string().contains("resync"), "{trial:#}");
        trial["measurement"]["metrics"]["throughput"]["value"].as_f64().unwrap()
    };
    let [whole, first, rebuilding] = ["whole", "first-resync", "rebuilding"].map(throughput);
    eprintln!("{:.2} and {:.2} of the whole array's", first / whole, rebuilding / whole);
    assert!([first, rebuilding].iter().all(|value| (0.3..0.85).contains(&(value / whole))));
}

/// bonnie++ beside a file of an ext4 in the guest's memory.
const BONNIE: &str = r#"
flyball = 1
name = "bonnie"
question = "Do bonnie's phases run in a guest?"
[target]
file = "1MiB"
[stack.disk]
kind = "devices"
count = 1
null_blk = "256MiB"
[stack.fs]
kind = "filesystem"
on = "disk"
type = "ext4"
[workload.phases]
tool = "bonnie"
options = { size = "96MiB", ram = 0, per_char = false }
[measure]
metric = "block_write"
repeats = 1
settle = "0s"
retries = 0
"#;

#[test]
fn bonnie_runs_in_a_guest() {
    if !testing::is_long_in_turn(2) {
        return;
    }
    let place = Place::new();
    if let Some(why) = lab::without(&["bonnie++"]).or_else(|| lab::missing(&place, lab::KERNELS[1])) {
        eprintln!("skipped: {why}");
        return;
    }
    let study = place.study("bonnie", BONNIE);
    place.measure(&["lab", "run", &study, "--kernel", lab::KERNELS[1]]);
    let run = std::fs::read_dir(place.path("notebook/runs")).unwrap().next().unwrap().unwrap().path();
    let text = std::fs::read_to_string(run.join("trials/b00.phases.a0/trial.json")).unwrap();
    let trial: Value = serde_json::from_str(&text).unwrap();
    let metrics = &trial["measurement"]["metrics"];
    // What takes less than half a second bonnie++ does not report.
    assert!(metrics["block_write"]["value"].as_f64().unwrap() > 1e6, "{trial:#}");
    let busy = metrics["cpu_busy"]["value"].as_f64().unwrap();
    assert!(busy > 0.1 && busy <= 1.0, "{busy}");
    assert!(run.join("trials/b00.phases.a0/raw/stdout.txt").is_file());
}

/// The marked lines, and what each trial stood on, or why it failed.
fn read(text: &str) -> (Vec<String>, BTreeMap<String, Value>) {
    let (mut lines, mut trials) = (Vec::new(), BTreeMap::new());
    for part in text.split("@@ ").skip(1) {
        let (name, rest) = part.split_once('\n').unwrap();
        match serde_json::from_str(rest) {
            Ok(trial) => drop(trials.insert(name.to_owned(), trial)),
            Err(_) => lines.push(name.to_owned()),
        }
    }
    (lines, trials)
}

/// A layer of a trial's stack, as the kernel showed it.
fn layer<'a>(trials: &'a BTreeMap<String, Value>, cell: &str, layer: &str) -> &'a str {
    let trial = &trials[&format!("b00.read_{cell}.a0")];
    let shown = &trial["environment"][format!("stack.{layer}")];
    shown.as_str().unwrap_or_else(|| panic!("{cell}: {trial:#}"))
}

fn stood(trials: &BTreeMap<String, Value>) {
    assert_eq!(trials.len(), 28 + 2, "{:?}", trials.keys());
    let array = |cell| layer(trials, cell, "array");
    assert_eq!(array("raid0"), "raid0, chunk 64 KiB, 4 members");
    assert!(array("raid1").starts_with("raid1, 4 members, bitmap +"), "{}", array("raid1"));
    let marked = array("raid1-write-mostly");
    assert!(marked.starts_with("raid1, 4 members, bitmap +"), "{marked}");
    assert!(marked.ends_with(", bitmap_chunk 1 MiB, write_mostly slot 2 and slot 3"), "{marked}");
    assert_eq!(array("raid4"), "raid4, left-asymmetric, chunk 64 KiB, 4 members, stripe_cache_size 256");
    assert_eq!(
        array("raid5-threads"),
        "raid5, right-asymmetric, chunk 64 KiB, 4 members, stripe_cache_size 1024, group_thread_cnt 2"
    );
    let degraded = "raid5, left-symmetric, chunk 64 KiB, 4 members, 1 missing, stripe_cache_size 256";
    assert_eq!(array("raid5-degraded"), degraded);
    assert_eq!(array("raid5-spare"), "raid5, left-symmetric, chunk 64 KiB, 3 members, stripe_cache_size 256");
    assert_eq!(array("raid6"), "raid6, left-symmetric, chunk 64 KiB, 4 members, stripe_cache_size 256");
    for (cell, layout) in [("n2-ext2", "near"), ("f2-ext3-journal", "far"), ("o2-ext3-ordered", "offset")] {
        assert_eq!(array(cell), format!("raid10, {layout}=2, chunk 64 KiB, 4 members"));
    }
    let files = |cell| layer(trials, cell, "files");
    for (cell, kind, mode) in [
        ("n2-ext2", "ext2 ", ""),
        ("f2-ext3-journal", "ext3 ", "data=journal"),
        ("ext4-writeback", "ext4 ", "data=writeback"),
        ("ext4-like-ext3", "ext4 ", "data=journal"),
        ("ext4-without-journal", "ext4 ", ""),
        ("xfs", "xfs ", ""),
        ("btrfs", "btrfs ", ""),
    ] {
        assert!(files(cell).starts_with(kind) && files(cell).contains(mode), "{}", files(cell));
    }
    assert!(files("ext4-writeback").contains("noatime"), "{}", files("ext4-writeback"));
    assert_eq!(layer(trials, "journal-elsewhere", "mirror"), "raid1, 2 members");
    let above = "luks2 aes-xts-plain64, sectors of 4096 bytes, no_write_workqueue";
    assert_eq!(layer(trials, "crypt-above", "vault"), above);
    let below = "plain aes-cbc-essiv:sha256, sectors of 512 bytes, same_cpu_crypt, submit_from_crypt_cpus";
    assert_eq!(layer(trials, "crypt-below", "below"), below);
    let tags = |cell| layer(trials, cell, "tags");
    let alone = tags("integrity");
    assert!(alone.starts_with("journal crc32c, tags of 4 bytes, sectors of 4096 bytes, "), "{alone}");
    assert!(alone.contains(", journal_watermark ") && alone.ends_with(", commit_time 500"), "{alone}");
    let below = tags("integrity-below");
    assert!(below.starts_with("direct sha256, tags of 8 bytes, sectors of 512 bytes, "), "{below}");
    assert!(below.contains(", interleave_sectors 1024, "), "{below}");
    assert_eq!(array("integrity-below"), "raid1, 2 members");
    let bitmap = tags("integrity-bitmap");
    assert!(bitmap.starts_with("bitmap crc32c, tags of 4 bytes, sectors of 512 bytes, "), "{bitmap}");
    assert!(bitmap.ends_with(", sectors_per_bit 8192, bitmap_flush_interval 2000"), "{bitmap}");
    assert_eq!(layer(trials, "loop-on-array", "image"), "direct_io true, sectors of 4096 bytes");
    assert_eq!(layer(trials, "loop-on-disk", "image"), "direct_io false, sectors of 512 bytes");
    assert_eq!(layer(trials, "lvm-of-disks", "pool"), "striped 4 64");
    assert_eq!(layer(trials, "lvm-on-array", "pool"), "linear");
    let failed = trials["b00.read_too-small.a0"]["validity"].to_string();
    assert!(failed.contains("failed") && failed.contains("larger than 300MB"), "{failed}");
    let valid = trials.values().filter(|trial| !trial["measurement"].is_null()).count();
    assert_eq!(valid, trials.len() - 1, "one was meant to fail");
}
