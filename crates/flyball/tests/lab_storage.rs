//! Storage and frequency policy in lab machines: md arrays, dm-crypt and ext4 as the real tools make them,
//! driven by the real fio, which checks what it reads; every governor; and `flyball inspect` in there shows
//! what was made.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support::{Place, lab};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What every script begins with: memory as disks, and a fio whose every block is read back and checked. What
/// is to be looked at is marked, and alone on standard output.
const BEGIN: &str = r#"
set -e
exec 3>&1 >&2
echo "@@ kernel $(uname -r)" >&3
modprobe brd rd_nr=6 rd_size=49152
drive() {
    fio --name=drive "$@" --rw=randwrite --bs=16k --size=8m --ioengine=libaio --iodepth=8 --verify=crc32c \
        --verify_fatal=1 --output-format=json > /run/fio.json 2> /run/fio.err || { cat /run/fio.*; exit 1; }
    # Eight MiB were written, and as many read to be checked.
    [ "$(grep -c '"io_bytes" : 8388608,' /run/fio.json)" = 2 ] || { cat /run/fio.json; exit 1; }
}
show() {
    echo "@@ $1" >&3
    flyball inspect --json >&3
}
"#;

/// Each array by itself. Members of a mirror are made equal first, as everybody's are.
const ARRAYS: &str = r#"
array() {
    name=$1 count=$2
    shift 2
    members=""
    for member in $(seq 0 $((count - 1))); do
        dd if=/dev/zero of=/dev/ram$member bs=1M count=2 conv=fsync status=none
        members="$members /dev/ram$member"
    done
    mdadm --create /dev/md/$name --run --quiet --metadata=1.2 --raid-devices=$count "$@" $members < /dev/null
    mdadm --wait /dev/md/$name || true
    drive --filename=/dev/md/$name --direct=1
    show $name
    mdadm --stop --quiet /dev/md/$name
}
array raid0 2 --level=0 --chunk=64K
array raid1 2 --level=1 --bitmap=none
array raid5 4 --level=5 --chunk=64K --bitmap=none
array raid6 5 --level=6 --chunk=32K --bitmap=internal
array near 4 --level=10 --layout=n2 --chunk=64K --bitmap=none
array far 4 --level=10 --layout=f2 --chunk=128K --bitmap=none
array offset 4 --level=10 --layout=o2 --chunk=256K --bitmap=none
"#;

/// An array that lost a member, with a spare that takes over, and one without.
const DEGRADED: &str = r#"
mdadm --create /dev/md/lame --run --quiet --level=1 --raid-devices=2 --bitmap=none /dev/ram0 missing < /dev/null
drive --filename=/dev/md/lame --direct=1
mdadm --create /dev/md/spare --run --quiet --level=5 --raid-devices=3 --spare-devices=1 --bitmap=none \
    /dev/ram1 /dev/ram2 /dev/ram3 /dev/ram4 < /dev/null
mdadm --wait /dev/md/spare || true
show degraded
mdadm --stop --quiet --scan
"#;

/// dm-crypt without a header and with one, and one on an array.
const CRYPT: &str = r#"
cryptsetup open --type plain --cipher aes-cbc-essiv:sha256 --key-size 256 --key-file /dev/urandom /dev/ram0 plain
drive --filename=/dev/mapper/plain --direct=1
head -c 64 /dev/urandom > /run/key
cryptsetup luksFormat --batch-mode --type luks2 --cipher aes-xts-plain64 --key-size 512 --sector-size 4096 \
    --pbkdf pbkdf2 --pbkdf-force-iterations 1000 /dev/ram1 /run/key
cryptsetup open --perf-no_read_workqueue --perf-no_write_workqueue --allow-discards --key-file /run/key /dev/ram1 vault
drive --filename=/dev/mapper/vault --direct=1
mdadm --create /dev/md/below --run --quiet --level=1 --raid-devices=2 --assume-clean --bitmap=none \
    /dev/ram2 /dev/ram3 < /dev/null
cryptsetup open --type plain --cipher aes-xts-plain64 --key-size 512 --key-file /dev/urandom /dev/md/below above
drive --filename=/dev/mapper/above --direct=1
show crypt
for name in plain vault above; do cryptsetup close $name; done
mdadm --stop --quiet --scan
"#;

/// ext4 in each of its modes, without a journal, and where the mode is the filesystem's own default.
const EXT4: &str = r#"
filesystem() {
    name=$1 ram=$2 options=$3
    shift 3
    mkfs.ext4 -q -F "$@" /dev/$ram
    mkdir -p /mnt/$name
    mount -o "$options" /dev/$ram /mnt/$name
    drive --directory=/mnt/$name --end_fsync=1
    echo "@@ mounted $(grep " /mnt/$name " /proc/mounts)" >&3
}
filesystem journal ram0 data=journal
filesystem ordered ram1 data=ordered
filesystem writeback ram2 data=writeback
filesystem none ram3 rw -O ^has_journal
filesystem usual ram4 rw
mkfs.ext4 -q -F /dev/ram5
tune2fs -o journal_data_writeback /dev/ram5 > /dev/null
mkdir -p /mnt/tuned
mount /dev/ram5 /mnt/tuned
echo "@@ mounted $(grep " /mnt/tuned " /proc/mounts)" >&3
show ext4
"#;

#[test]
fn a_kernel_has_every_array_every_crypt_and_every_journal_and_inspect_shows_them() {
    if !testing::is_long_in_turn(0) {
        return;
    }
    let place = Place::new();
    for kernel in lab::kernels() {
        let tools = ["mdadm", "cryptsetup", "dmsetup", "fio", "mke2fs", "tune2fs"];
        if let Some(why) = lab::without(&tools).or_else(|| lab::missing(&place, kernel)) {
            eprintln!("skipped: {why}");
            return;
        }
        let script = [BEGIN, ARRAYS, DEGRADED, CRYPT, EXT4].concat();
        let shown = Shown::read(
            &place.ok(&["lab", "exec", "--kernel", kernel, "--memory", "1GiB", "--", "bash", "-c", &script]),
        );
        assert!(shown.lines.iter().any(|l| l.starts_with(&format!("kernel {kernel}."))), "{:?}", shown.lines);
        arrays(&shown);
        degraded(&shown);
        crypt(&shown);
        ext4(&shown);
    }
}

#[test]
fn every_governor_of_a_kernel_is_taken_and_shown() {
    let place = Place::new();
    // What is left running holds the command's output open, and is no reason to wait.
    let script = "cd /sys/devices/system/cpu/cpufreq/policy1
sleep 100000 &
for governor in $(cat scaling_available_governors); do
    echo $governor > scaling_governor
    echo \"@@ $governor\"
    flyball inspect --json
done";
    for kernel in lab::kernels() {
        if let Some(why) = lab::without_plugin().or_else(|| lab::missing(&place, kernel)) {
            eprintln!("skipped: {why}");
            return;
        }
        let table = lab::slow_pstates(&place);
        let options = ["--kernel", kernel, "--pstates", &table, "--vcpus", "2"];
        let arguments = [&["lab", "exec"][..], &options, &["--", "bash", "-ec", script]].concat();
        let shown = Shown::read(&place.ok(&arguments));
        let governors: Vec<&str> = shown.inventories.keys().map(String::as_str).collect();
        let all = ["conservative", "ondemand", "performance", "powersave", "schedutil", "userspace"];
        assert_eq!(governors, all);
        for (governor, inventory) in &shown.inventories {
            let policies = &inventory["cpufreq"]["policies"];
            assert_eq!((&policies[1]["id"], &policies[1]["governor"]), (&json!(1), &json!(governor)));
            assert_eq!(policies[0]["governor"], "schedutil");
        }
    }
}

/// What the script printed: inventories by name, and the other marked lines.
struct Shown {
    inventories: BTreeMap<String, Value>,
    lines: Vec<String>,
}

impl Shown {
    fn read(text: &str) -> Self {
        let mut shown = Self { inventories: BTreeMap::new(), lines: Vec::new() };
        for part in text.split("@@ ").skip(1) {
            let (name, rest) = part.split_once('\n').unwrap();
            if rest.trim().is_empty() {
                shown.lines.push(name.to_owned());
            } else {
                shown.inventories.insert(name.to_owned(), serde_json::from_str(rest).unwrap());
            }
        }
        shown
    }

    fn devices(&self, inventory: &str) -> &Vec<Value> {
        self.inventories[inventory]["devices"].as_array().unwrap()
    }

    /// The arrays of an inventory, each with the devices that it is built of.
    fn md(&self, inventory: &str) -> Vec<(&Value, &Value)> {
        let of = |d: &'_ Value| d["kind"].get("md").is_some();
        let arrays = self.devices(inventory).iter().filter(|d| of(d));
        arrays.map(|d| (&d["kind"]["md"], &d["built_of"])).collect()
    }

    fn mapping(&self, inventory: &str, name: &str) -> (&Value, &Value) {
        let named = |d: &&Value| d["kind"]["device_mapper"]["name"] == name;
        let device = self.devices(inventory).iter().find(named).unwrap();
        (&device["kind"]["device_mapper"], &device["built_of"])
    }
}

fn arrays(shown: &Shown) {
    const KIB: u64 = 1024;
    for (name, level, layout, chunk, members, bitmap) in [
        ("raid0", "raid0", json!(null), json!(64 * KIB), 2, "none"),
        ("raid1", "raid1", json!(null), json!(null), 2, "none"),
        ("raid5", "raid5", json!("left-symmetric"), json!(64 * KIB), 4, "none"),
        ("raid6", "raid6", json!("left-symmetric"), json!(32 * KIB), 5, "+8"),
        ("near", "raid10", json!("near=2"), json!(64 * KIB), 4, "none"),
        ("far", "raid10", json!("far=2"), json!(128 * KIB), 4, "none"),
        ("offset", "raid10", json!("offset=2"), json!(256 * KIB), 4, "none"),
    ] {
        let [(md, built_of)] = shown.md(name)[..] else { panic!("{name}: {:?}", shown.devices(name)) };
        assert_eq!(
            (&md["level"], &md["layout"], &md["chunk_bytes"]),
            (&json!(level), &layout, &chunk),
            "{md}"
        );
        assert_eq!((&md["metadata"], &md["bitmap"]), (&json!("1.2"), &json!(bitmap)), "{md}");
        assert_eq!(md["raid_disks"], members, "{md}");
        let found: Vec<Value> = (0..members).map(|n| json!(format!("ram{n}"))).collect();
        assert_eq!(built_of, &json!(found), "{md}");
        for (slot, member) in md["members"].as_array().unwrap().iter().enumerate() {
            let wanted = json!({ "device": format!("ram{slot}"), "slot": slot, "state": ["in_sync"] });
            assert_eq!(member, &wanted, "{md}");
        }
        // A level without redundancy loses nothing by degrees.
        let degraded = if level == "raid0" { json!(null) } else { json!(0) };
        assert_eq!(md["degraded"], degraded, "{md}");
        let stripes = if ["raid5", "raid6"].contains(&level) { json!(256) } else { json!(null) };
        assert_eq!(md["stripe_cache_size"], stripes, "{md}");
    }
}

fn degraded(shown: &Shown) {
    let arrays = shown.md("degraded");
    let of = |level: &str| arrays.iter().find(|(md, _)| md["level"] == level).unwrap().0;
    let (lame, spare) = (of("raid1"), of("raid5"));
    assert_eq!((&lame["degraded"], &lame["raid_disks"]), (&json!(1), &json!(2)), "{lame}");
    assert_eq!(lame["members"].as_array().unwrap().len(), 1, "{lame}");
    assert_eq!((&spare["degraded"], &spare["raid_disks"]), (&json!(0), &json!(3)), "{spare}");
    let members = spare["members"].as_array().unwrap();
    assert_eq!(members.iter().filter(|m| m["state"] == json!(["spare"])).count(), 1, "{spare}");
}

fn crypt(shown: &Shown) {
    let is_array = |d: &&Value| d["kind"].get("md").is_some();
    let array = shown.devices("crypt").iter().find(is_array).unwrap()["name"].as_str().unwrap();
    for (name, owner, cipher, key, sector, below, flags) in [
        ("plain", "CRYPT-PLAIN", "aes-cbc-essiv:sha256", 32, 512, "ram0", vec![]),
        (
            "vault",
            "CRYPT-LUKS2",
            "aes-xts-plain64",
            64,
            4096,
            "ram1",
            vec!["allow_discards", "no_read_workqueue", "no_write_workqueue"],
        ),
        ("above", "CRYPT-PLAIN", "aes-xts-plain64", 64, 512, array, vec![]),
    ] {
        let (device, built_of) = shown.mapping("crypt", name);
        let wanted = json!({ "cipher": cipher, "key_bytes": key, "sector_bytes": sector, "flags": flags });
        assert_eq!(device["crypt"], wanted, "{device}");
        assert_eq!((&device["owner"], &device["targets"]), (&json!(owner), &json!(["crypt"])), "{device}");
        assert_eq!(built_of, &json!([below]), "{device}");
    }
}

fn ext4(shown: &Shown) {
    let mounts = shown.inventories["ext4"]["mounts"].as_array().unwrap();
    for (name, device, journal) in [
        ("journal", "ram0", "journal"),
        ("ordered", "ram1", "ordered"),
        ("writeback", "ram2", "writeback"),
        ("none", "ram3", "off"),
        ("usual", "ram4", "ordered"),
        ("tuned", "ram5", "writeback"),
    ] {
        let point = format!("/mnt/{name}");
        let mount = mounts.iter().find(|m| m["mountpoint"] == json!(point)).unwrap();
        assert_eq!((&mount["filesystem"], &mount["device"]), (&json!("ext4"), &json!(device)), "{mount}");
        assert_eq!(mount["journal"], journal, "{mount}");
    }
    // What was asked for is what the kernel says.
    for mode in ["journal", "ordered", "writeback"] {
        let found = shown.lines.iter().find(|l| l.contains(&format!(" /mnt/{mode} "))).unwrap();
        assert!(found.contains(&format!("data={mode}")), "{found}");
    }
}
