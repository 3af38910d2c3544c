//! What layers made of requests, by events, held against the kernel's own counts: in a machine of the lab a
//! load runs on arrays, a volume and an encrypted device, and what was passed on to the disks is what
//! `/proc/diskstats` counted there.
//!
//! Where QEMU, a kernel or a tool is missing, a line `skipped:` says so.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use crate::support;
use crate::support::Place;
use crate::support::lab::{TOO_BUSY, kernels, missing, without};
use serde_json::Value;

/// By how much events and counters may differ.
const NEARLY: f64 = 0.01;

/// So many writes to each disk may be md's own, each of up to so many sectors: its superblock, as the array
/// becomes dirty and clean again. No layer passes them on.
const SUPERBLOCKS: f64 = 4.0;
const SUPERBLOCK_SECTORS: f64 = 8.0;

/// The share that has to be followed; what is on its way when the recording begins or ends is not.
const FOLLOWED: f64 = 0.97;

const SCRIPT: &str = r#"
set -e
exec 3>&1 >&2
cd /run
export FLYBALL_NOTEBOOK=/run/notebook
measure() {
    name=$1
    device=$2
    shift 2
    rm -rf $FLYBALL_NOTEBOOK
    flyball record --json --events=block -- fio --name=load --filename=$device --direct=1 --ioengine=libaio \
        --iodepth=8 --size=200m --time_based --runtime=5 --output=fio.out "$@" > out.json
    echo "@@ $name" >&3
    cat out.json >&3
}
mdadm --build /dev/md/ten --level=10 --layout=n2 --chunk=64K --raid-devices=4 --assume-clean /dev/sd[a-d]
modprobe dm_crypt
echo "0 $(($(blockdev --getsz /dev/md/ten) - 2048)) linear /dev/md/ten 2048" | dmsetup create volume
printf 32-bytes-of-a-key-of-no-secrecy. | cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 256 \
    --key-file - /dev/mapper/volume vault
measure mirrored /dev/mapper/vault --rw=randrw --bs=16k
cryptsetup close vault
dmsetup remove volume
mdadm --stop /dev/md/ten
mdadm --create /dev/md/five --run --level=5 --assume-clean --raid-devices=5 --chunk=64K --bitmap=none \
    --metadata=1.2 /dev/sd[a-e]
measure parity /dev/md/five --rw=randwrite --bs=4k
echo "@@ end" >&3
"#;

/// The count of an operation in a list of them.
fn of<'a>(all: &'a Value, op: &'a str) -> impl Iterator<Item = &'a Value> {
    all.as_array().unwrap().iter().filter(move |one| one["op"] == op)
}

fn sum<'a>(all: impl Iterator<Item = &'a Value>, field: &str) -> f64 {
    all.map(|one| one[field].as_f64().unwrap()).sum()
}

fn is_near(of_events: f64, expected: f64, slack: f64, what: &str) {
    println!("{what}: {of_events} by events, {expected} expected");
    let bound = NEARLY * expected + slack;
    assert!((of_events - expected).abs() <= bound, "{what}: {of_events}, not {expected}");
}

/// What was recorded of one load.
struct Recorded(Value);

impl Recorded {
    fn of(text: &str, name: &str) -> Self {
        let (_, rest) = text.split_once(&format!("@@ {name}\n")).unwrap_or_else(|| panic!("no {name}"));
        let (json, _) = rest.split_once("@@ ").unwrap();
        Self(serde_json::from_str(json).unwrap())
    }

    /// The layers, the one that has its disks below it last.
    fn layers(&self) -> &[Value] {
        self.0["events"]["layers"].as_array().unwrap()
    }

    /// What the disks got from a layer is what they counted, and all of the layer's own could be followed.
    fn judge(&self, layer: &Value, op: &str) {
        let disks = self.0["disks"].as_array().unwrap();
        for disk in disks.iter().filter(|disk| disk["device"].as_str().unwrap().starts_with("sd")) {
            let name = disk["device"].as_str().unwrap();
            let passed = || of(&layer["passed"], op).filter(|passed| passed["to"] == name);
            let own = if op == "write" { SUPERBLOCKS } else { 0.0 };
            let fields = [("requests", "ios", own), ("sectors", "sectors", own * SUPERBLOCK_SECTORS)];
            for (field, counted, own) in fields {
                let counted = disk[format!("{op}_{counted}")].as_f64().unwrap();
                is_near(sum(passed(), field), counted, own, &format!("{op} {field} of {name}"));
            }
        }
    }

    fn follows(layer: &Value, op: &str) {
        let given: Vec<&Value> = of(&layer["given"], op).collect();
        let (followed, all) = (sum(given.iter().copied(), "followed"), sum(given.iter().copied(), "count"));
        let times = ["before_ns", "below_ns", "between_ns", "after_ns"];
        let means = times.map(|time| sum(given.iter().copied(), time) / followed / 1e3);
        println!("{op} of {}: {followed} of {all} followed, µs {means:.1?}", layer["device"]);
        assert!(followed >= FOLLOWED * all, "{followed} of {all}");
    }
}

/// How many requests below a layer's own became.
fn amplification(layer: &Value, below: &str, of_op: &str) -> f64 {
    sum(of(&layer["passed"], below), "count") / sum(of(&layer["given"], of_op), "count")
}

#[test]
fn what_layers_pass_on_is_what_disks_count() {
    if !testing::is_in_turn(3, 9) {
        return;
    }
    let place = Place::new();
    let kernel = kernels()[0];
    let reason = without(&["fio", "mdadm", "cryptsetup", "dmsetup"]);
    if let Some(reason) = reason.or_else(|| missing(&place, kernel)) {
        return testing::skip(reason);
    }
    let machine = ["lab", "exec", "--kernel", kernel, "--vcpus", "2", "--memory", "1GiB"];
    let disks = ["--disk", "nvme:512MiB"].repeat(5);
    let output = place.output(&[&machine[..], &disks, &["--", "bash", "-c", SCRIPT]].concat());
    let told = support::stderr(&output);
    if TOO_BUSY.iter().any(|reason| told.contains(reason)) {
        return testing::skip(told.trim());
    }
    assert!(output.status.success(), "{told}");
    let text = String::from_utf8_lossy(&output.stdout);

    let mirrored = Recorded::of(&text, "mirrored");
    assert_eq!(mirrored.layers().len(), 3, "{:#?}", mirrored.layers());
    for layer in mirrored.layers() {
        let is_array = layer["device"].as_str().unwrap().starts_with("md");
        for (op, copies) in [("read", 1.0), ("write", 2.0)] {
            Recorded::follows(layer, op);
            is_near(amplification(layer, op, op), if is_array { copies } else { 1.0 }, 0.0, "amplification");
            if is_array {
                mirrored.judge(layer, op);
            }
        }
    }

    let parity = Recorded::of(&text, "parity");
    let [array] = parity.layers() else { panic!("{:#?}", parity.layers()) };
    Recorded::follows(array, "write");
    // Of five members: data and parity are read, and both are written. What is in the stripe cache (256 of
    // 12,800 stripes) is not read.
    for op in ["read", "write"] {
        parity.judge(array, op);
        // What is read of the array itself, to see what is on it, is no part of a write.
        let own = if op == "read" { sum(of(&array["given"], op), "count") } else { 0.0 };
        let writes = sum(of(&array["given"], "write"), "count");
        let made = (sum(of(&array["passed"], op), "count") - own) / writes;
        println!("1 write became {made:.3} {op}s");
        assert!((1.9..=2.01).contains(&made), "{op}: {made}");
    }
}
