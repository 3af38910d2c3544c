//! The occupied-device matrix: every way in which a disk may be in use or hold something, against every verb
//! that could overwrite it. Each verb has to say no and to name the reason, and after all of them every byte
//! of the disk has to be as it was before the first.
//!
//! Each disk is claimed while it is blank, or holds what its claim names, and passes the gate then; only
//! afterwards it is put into its state. So it is the state that is refused, and not a missing claim. All of
//! it runs in one lab machine, on disks of its memory.
//!
//! A run takes its time on an emulated CPU: every state meets some of them, every run meets states of every
//! kind.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, says why it skips, and prints its figure"
)]

use crate::support;
use crate::support::{Place, lab};
use domain::rng::Seed;
use std::collections::BTreeMap;

const KERNEL: &str = "6.12";

/// What stands against a disk, which decides which verbs have to refuse.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Somebody uses it: no word on the command line changes that.
    InUse,
    /// It holds something, by the name that `--overwrite` takes for it.
    Holds(&'static str),
    /// It is not the disk that was claimed.
    Another,
    /// There is no disk.
    NoDisk,
}

/// One state of a disk.
struct State {
    name: &'static str,
    kind: Kind,
    /// What the verbs are given.
    device: &'static str,
    /// What must not change.
    guarded: &'static str,
    /// What every refusal has to say.
    says: &'static str,
    /// Before the claim.
    prepare: &'static str,
    /// What the claim may overwrite, as an option.
    overwrite: &'static str,
    /// After it.
    enter: &'static str,
    leave: &'static str,
}

const BLANK: State = State {
    name: "",
    kind: Kind::InUse,
    device: "/dev/ram0",
    guarded: "/dev/ram0",
    says: "",
    prepare: "",
    overwrite: "",
    enter: "",
    leave: "",
};

const fn used(name: &'static str, says: &'static str, enter: &'static str, leave: &'static str) -> State {
    State { name, says, enter, leave, ..BLANK }
}

const fn holds(name: &'static str, what: &'static str, enter: &'static str) -> State {
    State { name, kind: Kind::Holds(what), says: what, enter, ..BLANK }
}

const fn another(name: &'static str, says: &'static str) -> State {
    State { name, kind: Kind::Another, says, ..BLANK }
}

const fn no_disk(name: &'static str, device: &'static str, says: &'static str) -> State {
    State { name, kind: Kind::NoDisk, device, guarded: device, says, ..BLANK }
}

const UMOUNT: &str = "umount /mnt/a";

/// What lies there is not written over where a disk is given back.
const IN_THE_MIDDLE: &str = "unknown-data-in-the-middle";

/// The states. Adding one is adding its lines here.
const STATES: &[State] = &[
    used("mounted", "mounted on `/mnt/a`", "ext4 /dev/ram0; mount /dev/ram0 /mnt/a", UMOUNT),
    State {
        device: "/dev/link",
        prepare: "ln -sfn /dev/ram0 /dev/link",
        ..used("mounted-by-symlink", "mounted", "ext4 /dev/ram0; mount /dev/ram0 /mnt/a", UMOUNT)
    },
    State {
        device: "/dev/disk/by-id/test-0",
        prepare: "mkdir -p /dev/disk/by-id; ln -sfn ../../ram0 /dev/disk/by-id/test-0",
        ..used("mounted-by-id", "mounted", "ext4 /dev/ram0; mount /dev/disk/by-id/test-0 /mnt/a", UMOUNT)
    },
    State {
        device: "/dev/other-node",
        prepare: "mknod /dev/other-node b 1 0",
        ..used(
            "mounted-other-node",
            "mounted",
            "ext4 /dev/ram0; mount /dev/ram0 /mnt/a",
            "umount /mnt/a; rm /dev/other-node",
        )
    },
    used("mounted-read-only", "mounted", "ext4 /dev/ram0; mount -o ro,noload /dev/ram0 /mnt/a", UMOUNT),
    used(
        "mounted-elsewhere",
        "in the mount namespace of process",
        "ext4 /dev/ram0
        unshare -m sh -c 'mount /dev/ram0 /mnt/a; touch /run/mounted; exec sleep 1000' > /dev/null 2>&1 &
        echo $! > /run/pid; await test -e /run/mounted",
        "end; rm /run/mounted",
    ),
    used(
        "unmounted-lazily",
        "open exclusively",
        "ext4 /dev/ram0; mount /dev/ram0 /mnt/a; touch /mnt/a/x; sync
        sleep 1000 < /mnt/a/x > /dev/null 2>&1 & echo $! > /run/pid
        sleep 0.2; umount -l /mnt/a",
        "end",
    ),
    State {
        device: "/dev/loop20",
        guarded: "/dev/loop20",
        prepare: "fresh 20 32M -P",
        ..used(
            "partition-mounted",
            "`loop20p1` is mounted",
            "table /dev/loop20; partitions 20; ext4 /dev/loop20p1; mount /dev/loop20p1 /mnt/a",
            "umount /mnt/a; losetup -d /dev/loop20",
        )
    },
    State {
        device: "/dev/loop21",
        guarded: "/dev/loop21",
        prepare: "fresh 21 32M -P",
        ..used(
            "partition-swap",
            "`loop21p1` is in use as swap",
            "table /dev/loop21; partitions 21; mkswap -q /dev/loop21p1; swapon /dev/loop21p1",
            "swapoff /dev/loop21p1; losetup -d /dev/loop21",
        )
    },
    State {
        device: "/dev/loop22",
        guarded: "/dev/loop22",
        prepare: "fresh 22 32M -P",
        ..used(
            "partition-in-array",
            "`loop22p1` is a member of the running array",
            "table /dev/loop22; partitions 22; array /dev/md/p --level=1 -n 2 /dev/loop22p1 missing",
            "mdadm --stop -q /dev/md/p; losetup -d /dev/loop22",
        )
    },
    State {
        device: "/dev/loop23",
        guarded: "/dev/loop23",
        prepare: "fresh 23 32M",
        ..used(
            "loop-mounted",
            "`loop23` is mounted",
            "ext4 /dev/loop23; mount /dev/loop23 /mnt/a",
            "umount /mnt/a; losetup -d /dev/loop23",
        )
    },
    used("swap-on", "in use as swap", "mkswap -q /dev/ram0; swapon /dev/ram0", "swapoff /dev/ram0"),
    used(
        "array-member",
        "member of the running array",
        "array /dev/md/a --level=1 -n 2 /dev/ram0 /dev/ram1",
        "mdadm --stop -q /dev/md/a",
    ),
    used(
        "array-spare",
        "member of the running array",
        "array /dev/md/a --level=1 -n 2 -x 1 /dev/ram1 /dev/ram2 /dev/ram0",
        "mdadm --stop -q /dev/md/a",
    ),
    used(
        "array-faulty",
        "member of the running array",
        "array /dev/md/a --level=1 -n 2 /dev/ram1 /dev/ram0; mdadm -q /dev/md/a --fail /dev/ram0",
        "mdadm --stop -q /dev/md/a",
    ),
    used(
        "array-inactive",
        "member of the running array",
        "mdadm --create /dev/md/a --run -q --level=0 -n 2 /dev/ram0 /dev/ram1 < /dev/null; mdadm --stop -q /dev/md/a
        echo md9 > /sys/module/md_mod/parameters/new_array
        echo 1.2 > /sys/block/md9/md/metadata_version; echo 1:0 > /sys/block/md9/md/new_dev",
        "echo clear > /sys/block/md9/md/array_state",
    ),
    used(
        "lv-active",
        "below the open mapping `vg-lv`",
        "pvcreate -qq -ff -y /dev/ram0; vgcreate -qq vg /dev/ram0; lvcreate -qq -y -Zn -Wn -l 2 -n lv vg",
        "vgchange -qq -an vg",
    ),
    used(
        "luks-open",
        "below the open mapping `vault`",
        "luks /dev/ram0; cryptsetup open --key-file /run/key /dev/ram0 vault",
        "cryptsetup close vault",
    ),
    used("crypt-plain-open", "below the open mapping `plain`", "plain /dev/ram0", "cryptsetup close plain"),
    used(
        "linear",
        "below the open mapping `line`",
        "echo '0 2048 linear /dev/ram0 0' | dmsetup create line",
        "dmsetup remove line",
    ),
    used("btrfs-first", "mounted", "two_btrfs /dev/ram0 /dev/ram1; mount -o ro /dev/ram0 /mnt/a", UMOUNT),
    used(
        "btrfs-second",
        "device of the mounted btrfs",
        "two_btrfs /dev/ram1 /dev/ram0; mount -o ro /dev/ram1 /mnt/a",
        UMOUNT,
    ),
    used(
        "journal-of-another",
        "open exclusively",
        "mke2fs -q -F -b 1024 -O journal_dev /dev/ram0; ext4 /dev/ram1 -b 1024 -J device=/dev/ram0
        mount /dev/ram1 /mnt/a",
        UMOUNT,
    ),
    used("read-only", "read-only", "blockdev --setro /dev/ram0", "blockdev --setrw /dev/ram0"),
    used(
        "locked",
        "another program has locked it",
        "flock --no-fork /dev/ram0 sleep 1000 > /dev/null 2>&1 & echo $! > /run/pid; sleep 0.3",
        "end",
    ),
    used(
        "open-in-another-program",
        "`ram0` is open in process",
        "sleep 1000 < /dev/ram0 > /dev/null 2>&1 & echo $! > /run/pid; sleep 0.3",
        "end",
    ),
    used(
        "open-for-writing",
        "(`sleep`)",
        "sleep 1000 >> /dev/ram0 2> /dev/null & echo $! > /run/pid; sleep 0.3",
        "end",
    ),
    used(
        "open-by-a-node-elsewhere",
        "`ram0` is open in process",
        "mkdir /run/elsewhere
        unshare -m sh -c 'mount -t tmpfs none /run/elsewhere; mknod /run/elsewhere/disk b 1 0
            exec sleep 1000 < /run/elsewhere/disk' > /dev/null 2>&1 &
        echo $! > /run/pid; sleep 0.5",
        "end; rmdir /run/elsewhere",
    ),
    State {
        device: "/dev/loop29",
        guarded: "/dev/loop29",
        prepare: "fresh 29 32M -P",
        ..used(
            "partition-open-in-another-program",
            "`loop29p1` is open in process",
            "table /dev/loop29; partitions 29
            sleep 1000 < /dev/loop29p1 > /dev/null 2>&1 & echo $! > /run/pid; sleep 0.3",
            "end; losetup -d /dev/loop29",
        )
    },
    used("loop-over-it", "held by `loop30`", "losetup /dev/loop30 /dev/ram0", "losetup -d /dev/loop30"),
    holds(
        "array-stopped",
        "linux_raid_member",
        "array /dev/md/a --level=1 -n 2 /dev/ram0 /dev/ram1; mdadm --stop -q /dev/md/a",
    ),
    holds(
        "array-stopped-at-the-end",
        "linux_raid_member",
        "mdadm --create /dev/md/a --run -q --metadata=1.0 --bitmap=none --assume-clean --level=1 -n 2 /dev/ram0 \
            /dev/ram1 < /dev/null; mdadm --stop -q /dev/md/a",
    ),
    holds(
        "array-stopped-old",
        "linux_raid_member",
        "mdadm --create /dev/md/a --run -q --metadata=0.90 --bitmap=none --assume-clean --level=1 -n 2 /dev/ram0 \
            /dev/ram1 < /dev/null; mdadm --stop -q /dev/md/a",
    ),
    holds("pv", "LVM2_member", "pvcreate -qq -ff -y /dev/ram0"),
    holds(
        "lv-inactive",
        "LVM2_member",
        "pvcreate -qq -ff -y /dev/ram0; vgcreate -qq vg /dev/ram0; lvcreate -qq -an -y -Zn -Wn -l 2 -n lv vg",
    ),
    holds("luks-closed", "crypto_LUKS", "luks /dev/ram0"),
    holds("crypt-plain-closed", "data", "plain /dev/ram0; filled /dev/mapper/plain; cryptsetup close plain"),
    holds("gpt", "gpt", "table /dev/ram0"),
    holds(
        "gpt-backup-only",
        "gpt",
        "table /dev/ram0; dd if=/dev/zero of=/dev/ram0 bs=512 count=34 conv=notrunc,fsync status=none",
    ),
    holds(
        "mbr",
        "dos",
        "put /dev/ram0 446 000000008300000000080000 ; put /dev/ram0 458 00f80000; put /dev/ram0 510 55aa",
    ),
    holds("xfs", "xfs", "TEST_DIR=1 TEST_DEV=1 QA_CHECK_FS=1 mkfs.xfs -q -f /dev/ram0"),
    holds("ext4", "ext4", "ext4 /dev/ram0"),
    holds("ext2", "ext2", "mke2fs -q -F -t ext2 /dev/ram0"),
    holds("ext-journal", "jbd", "mke2fs -q -F -b 1024 -O journal_dev /dev/ram0"),
    holds("swap", "swap", "mkswap -q /dev/ram0"),
    holds("btrfs", "btrfs", "mkfs.btrfs -q -f -M -m single /dev/ram0"),
    State {
        device: "/dev/loop24",
        guarded: "/dev/loop24",
        prepare: "fresh 24 65M",
        leave: "losetup -d /dev/loop24",
        // Oo-ba-bloc, in each of the first slots of the first label's ring of uberblocks (libblkid wants
        // four).
        ..holds(
            "zfs",
            "zfs_member",
            "for slot in 0 1 2 3 4 5 6 7; do put /dev/loop24 $(((128 + slot) * 1024)) 0cb1ba0000000000; done",
        )
    },
    // A superblock of version 1 with its CRC-64, made after `include/uapi/linux/bcache.h`.
    holds(
        "bcache",
        "bcache",
        "put /dev/ram0 4096 ac94ece458a352a008000000000000000100000000000000c68573f64e1a45ca8265f57f48ba6d81
        put /dev/ram0 4136 0102030405060708090a0b0c0d0e0f10",
    ),
    holds("iso", "iso9660", "put /dev/ram0 32768 01434430303101"),
    holds("unknown-data", "data", "filled /dev/ram0"),
    holds("unknown-data-at-the-end", "data", "put /dev/ram0 33554431 01"),
    holds(
        IN_THE_MIDDLE,
        "data",
        "dd if=/run/noise of=/dev/ram0 bs=1M seek=16 conv=notrunc,fsync status=none",
    ),
    State {
        prepare: "ext4 /dev/ram0 -U 11111111-2222-4333-8444-555555555555",
        overwrite: "--overwrite ext4",
        says: "99999999-2222-4333-8444-555555555555",
        ..holds(
            "another-of-the-type-that-is-named",
            "ext4",
            "ext4 /dev/ram0 -U 99999999-2222-4333-8444-555555555555; mount /dev/ram0 /mnt/a; echo precious > /mnt/a/x
            umount /mnt/a",
        )
    },
    State {
        prepare: "ext4 /dev/ram0",
        overwrite: "--overwrite ext4",
        ..holds(
            "written-to-since",
            "ext4",
            "mount /dev/ram0 /mnt/a; echo precious > /mnt/a/x; umount /mnt/a",
        )
    },
    holds(
        "array-of-another-flyball",
        "linux_raid_member",
        "array /dev/md/a --uuid=f17ba110:12344abc:9abcabab:abababab --level=1 -n 2 /dev/ram0 /dev/ram1
        mdadm --stop -q /dev/md/a",
    ),
    State {
        device: "/dev/sda",
        guarded: "/dev/sda",
        prepare: "modprobe scsi_debug dev_size_mb=32 add_host=2 per_host_store=1; await test -b /dev/sdb",
        enter:
            "ls -d /sys/block/sd?; host=$(readlink -f /sys/block/sdb/device | grep -o 'host[0-9]*' | tail -1)
        echo 1 > /sys/block/sda/device/delete; echo 1 > /sys/block/sdb/device/delete
        await test ! -e /sys/block/sda
        echo '- - -' > /sys/class/scsi_host/$host/scan; await test -b /dev/sda",
        leave: "modprobe -r scsi_debug",
        ..another("another-serial", "its serial number is")
    },
    State {
        device: "/dev/loop25",
        guarded: "/dev/loop25",
        prepare: "fresh 25 32M",
        enter: "truncate -s 33M /run/loop25; losetup -c /dev/loop25",
        leave: "losetup -d /dev/loop25",
        ..another("another-size", "its size is")
    },
    State {
        device: "/dev/loop26",
        guarded: "/dev/loop26",
        prepare: "fresh 26 32M",
        enter: "losetup -d /dev/loop26; truncate -s 32M /run/else; losetup /dev/loop26 /run/else",
        leave: "losetup -d /dev/loop26",
        ..another("another-file", "anew")
    },
    State {
        device: "/dev/link",
        guarded: "/dev/ram1",
        prepare: "ln -sfn /dev/ram0 /dev/link",
        enter: "ln -sfn /dev/ram1 /dev/link",
        ..another("link-swapped", "not the device that was claimed")
    },
    State {
        device: "/dev/other-node",
        guarded: "/dev/ram1",
        prepare: "mknod /dev/other-node b 1 0",
        enter: "rm /dev/other-node; mknod /dev/other-node b 1 1",
        leave: "rm /dev/other-node",
        ..another("node-swapped", "not the device that was claimed")
    },
    State {
        enter: "sed -i 's/\"boot\": \"[^\"]*\"/\"boot\": \"an earlier one\"/' $FLYBALL_STATE/claims/*.json",
        ..another("earlier-boot", "before a restart")
    },
    State {
        enter: "truncate -s 100 $FLYBALL_STATE/claims/*.json",
        ..another("torn-claim", "cannot read the claim")
    },
    State {
        device: "/dev/loop27p1",
        guarded: "/dev/loop27",
        prepare: "fresh 27 32M -P; table /dev/loop27; partitions 27",
        leave: "losetup -d /dev/loop27",
        ..no_disk("partition", "", "it is a partition of `loop27`")
    },
    no_disk("character-device", "/dev/null", "it is a character device"),
    State {
        prepare: "head -c 1000000 /dev/urandom > /dev/file",
        ..no_disk("regular-file", "/dev/file", "it is a regular file")
    },
    State { prepare: "mkdir /dev/folder", ..no_disk("folder", "/dev/folder", "it is a folder") },
    State { prepare: "mkfifo /dev/fifo", ..no_disk("pipe", "/dev/fifo", "neither file nor disk") },
    no_disk("missing", "/dev/no-such-disk", "there is no such file"),
    State {
        prepare: "ln -sfn /run/nowhere /dev/dangling",
        ..no_disk("dangling-link", "/dev/dangling", "there is no such file")
    },
    no_disk("loop-without-file", "/dev/loop28", "it has no size"),
];

/// Whose claims a verb sees.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Claims {
    /// The disk was claimed while it was blank.
    Own,
    /// Nothing is claimed.
    None,
}

/// A verb that must not overwrite the disk. `DEVICE` stands for the disk, `OTHERS` for every type of
/// signature but the one that is on it, or for every type where the disk is in use.
struct Verb {
    name: &'static str,
    claims: Claims,
    command: &'static str,
}

const fn verb(name: &'static str, claims: Claims, command: &'static str) -> Verb {
    Verb { name, claims, command }
}

const GIVE_BACK: &str = "claim --give-back";

/// The verbs that every state meets. Adding one is adding its line here.
const VERBS: &[Verb] = &[
    verb("gate", Claims::Own, "flyball claim DEVICE --check"),
    verb("claim again", Claims::Own, "flyball claim DEVICE"),
    verb("claim again --overwrite", Claims::Own, "flyball claim DEVICE --overwrite OTHERS"),
    verb(GIVE_BACK, Claims::Own, "flyball claim DEVICE --give-back"),
    verb("claim", Claims::None, "flyball claim DEVICE"),
    verb("claim --overwrite", Claims::None, "flyball claim DEVICE --overwrite OTHERS"),
];

/// A run of a study, and the same without any claim.
macro_rules! run {
    ($name:literal, $study:literal) => {
        [
            verb($name, Claims::Own, concat!("measure DEVICE ", $study)),
            verb(concat!($name, ", unclaimed"), Claims::None, concat!("measure DEVICE ", $study)),
        ]
    };
}

/// Runs of studies whose stack stands on the disk. A state meets [`RUNS_PER_STATE`] of them and one without
/// any claim, the next state the next ones.
const RUNS: &[[Verb; 2]] = &[
    run!("run on md raid0", "raid0"),
    run!("run on md raid1", "raid1"),
    run!("run on plain dm-crypt", "plain"),
    run!("run on luks2", "luks2"),
    run!("run on lvm", "lvm"),
    run!("run on ext4", "ext4"),
    run!("run on xfs", "xfs"),
    run!("run on btrfs", "btrfs"),
    run!("run on the raw disk", "raw"),
];
const RUNS_PER_STATE: usize = 3;
/// How many states each run has to meet.
const MIN_STATES: usize = 20;

/// How many states `make test` meets.
const PART: u64 = 6;

/// How many of [`LAYERS`] are shown not to be refused by `make test`: a run takes ten seconds there.
const PART_OF_LAYERS: u64 = 3;

/// The second disk of arrays: blank and claimed.
const SECOND: &str = "/dev/ram3";

const LAYERS: &[(&str, &str)] = &[
    ("raid0", "kind = \"md\"\nlevel = 0"),
    ("raid1", "kind = \"md\"\nlevel = 1\nresync = \"skip\""),
    ("plain", "kind = \"crypt\"\ntype = \"plain\""),
    ("luks2", "kind = \"crypt\"\ntype = \"luks2\""),
    ("lvm", "kind = \"lvm\""),
    ("ext4", "kind = \"filesystem\"\ntype = \"ext4\""),
    ("xfs", "kind = \"filesystem\"\ntype = \"xfs\""),
    ("btrfs", "kind = \"filesystem\"\ntype = \"btrfs\""),
    ("raw", ""),
];

/// A study that overwrites the disk `DEVICE`, and writes 4 MiB to what it has built there.
fn study(name: &str, layer: &str) -> String {
    let (count, second) =
        if layer.contains("\"md\"") { (2, format!(", \"{SECOND}\"")) } else { (1, String::new()) };
    let layer =
        if layer.is_empty() { String::new() } else { format!("[stack.layer]\non = \"disk\"\n{layer}\n") };
    let target = if layer.contains("filesystem") { "[target]\nfile = \"8MiB\"\n" } else { "" };
    format!(
        r#"flyball = 1
name = "{name}"
question = "Is the disk overwritten?"
{target}
[stack.disk]
kind = "devices"
count = {count}
claimed = ["DEVICE"{second}]
{layer}
[workload.write]
tool = "dd"
options = {{ direction = "write", bs = "1M", count = 4, oflag = "direct" }}
[measure]
repeats = 1
retries = 0
settle = "0s"
"#
    )
}

/// The first trial puts a swap signature on the disk of the second: what comes to a disk while a run lasts,
/// the gate at its building sees.
const TWO_DISKS: &str = r#"flyball = 1
name = "two-disks"
question = "Is what came to a disk during the run overwritten?"
[stack.disk]
kind = "devices"
claimed = ["/dev/ram0"]
[workload.other]
tool = "command"
argv = ["sh", "-c", "mkswap /dev/{other} && sha256sum < /dev/{other} > /run/other.sum && echo {other} > /run/other"]
[factor.other]
[[factor.other.level]]
name = "ram1"
[[factor.other.level]]
name = "ram0"
stack = { "disk.claimed" = "/dev/ram1" }
[measure]
metric = "elapsed"
repeats = 1
retries = 0
settle = "0s"
"#;

const TYPES: [&str; 15] = [
    "LVM2_member",
    "bcache",
    "btrfs",
    "crypto_LUKS",
    "data",
    "dos",
    "ext2",
    "ext4",
    "gpt",
    "iso9660",
    "jbd",
    "linux_raid_member",
    "swap",
    "xfs",
    "zfs_member",
];

/// What every script begins with. Lines for this test begin with `@@` and are alone on standard output.
const BEGIN: &str = r#"
exec 3>&1 >&2
export DM_DISABLE_UDEV=1
modprobe loop max_loop=32
modprobe btrfs
modprobe brd
mkdir -p /mnt/a /run/lock/lvm /run/state /dev/disk/by-id
head -c 64 /dev/urandom > /run/key
head -c 1048576 /dev/urandom > /run/noise
for number in 20 21 22 23 24 25 26 27 28 29 30; do [ -b /dev/loop$number ] || mknod /dev/loop$number b 7 $number; done

say() { echo "@@$1|$2|$3|$4" >&3; }
put() { printf "$(echo $3 | sed 's/../\\x&/g')" | dd of=$1 bs=1 seek=$2 conv=notrunc,fsync status=none; }
filled() { dd if=/run/noise of=$1 bs=1M conv=notrunc,fsync status=none; }
await() { for wait in $(seq 100); do "$@" && return; sleep 0.1; done; echo "waited in vain: $*"; return 1; }
end() { kill $(cat /run/pid); while kill -0 $(cat /run/pid); do sleep 0.1; done; sleep 0.2; }
fresh() { rm -f /run/loop$1; truncate -s $2 /run/loop$1; losetup $3 /dev/loop$1 /run/loop$1; }
partitions() { partx -u /dev/loop$1 || partx -a /dev/loop$1; await test -b /dev/loop$1p1; }
ext4() { device=$1; shift; mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "$@" $device; }
two_btrfs() { mkfs.btrfs -q -f -M -d single -m single $1 $2; }
luks() {
    cryptsetup luksFormat --batch-mode --type luks2 --pbkdf pbkdf2 --pbkdf-force-iterations 1000 $1 /run/key
}
plain() {
    cryptsetup open --type plain --cipher aes-cbc-essiv:sha256 --key-size 256 --key-file /run/key $1 plain
}
array() {
    name=$1; shift
    mdadm --create $name --run -q --metadata=1.2 --bitmap=none --assume-clean "$@" < /dev/null
}
# A GPT over 65536 sectors with one partition, both copies, with their CRC-32 (UEFI 2.10, chapter 5).
table() {
    put $1 446 00000200eeffffff01000000ffff0000
    put $1 510 55aa
    put $1 512 4546492050415254000001005c00000022de7713000000000100000000000000ffff0000000000002200000000000000deff000000000000efbeadde00000000000000000000000002000000000000008000000080000000bbeac639
    put $1 1024 af3dc60f838472478e793d69d8477de4010000000000000000000000000000010008000000000000fff70000000000000000000000000000
    put $1 $((65503 * 512)) af3dc60f838472478e793d69d8477de4010000000000000000000000000000010008000000000000fff70000000000000000000000000000
    put $1 $((65535 * 512)) 4546492050415254000001005c0000008a06077100000000ffff00000000000001000000000000002200000000000000deff000000000000efbeadde000000000000000000000000dfff0000000000008000000080000000bbeac639
}
# All bytes, from behind the page cache; of what is no disk, what there is to tell. What cannot be read is like nothing.
content() {
    if [ -b "$1" ]; then dd if="$1" iflag=direct bs=1M status=none || echo "unreadable at $EPOCHREALTIME"
    elif [ -f "$1" ]; then cat "$1"
    else ls -ld --full-time "$1" 2> /dev/null || echo nothing; fi
}
# On another CPU, while the next state is tried.
compare() {
    difference=$(cmp /run/$1.before /run/$1.after 2>&1); code=$?
    say "$1" bytes $code "$difference"
    rm /run/$1.before /run/$1.after
}
# state verb command...
try() {
    state=$1 verb=$2
    shift 2
    "$@" > /run/out 2> /run/err
    code=$?
    say "$state" "$verb" $code "$(tr '\n|' ' /' < /run/err)"
}
# Memory anew is blank.
blank() { modprobe -r brd && modprobe brd rd_nr=4 rd_size=32768 && await test -b /dev/ram3; }
large() { modprobe -r brd && modprobe brd rd_nr=4 rd_size=327680 && await test -b /dev/ram3; }
# Head and tail of a large one.
is_blank() { { head -c 8388608 $1; tail -c 1048576 $1; } | cmp -n 9437184 - /dev/zero; }
export FLYBALL_NOTEBOOK=/run/notebook
# device study
measure() {
    sed "s,DEVICE,$1,g" /run/studies/$2.toml > /run/$2.toml
    flyball run /run/$2.toml --work /run/work/stacks --seed 1
}
# What a run may leave, beside what the ledger knows.
held() {
    dmsetup ls; sed 1d /proc/mdstat; cut -d ' ' -f 4- /proc/self/mountinfo; swapon --show
    find /run/work /run/notebook 2> /dev/null
    if [ -d $FLYBALL_STATE/claims ]; then find $FLYBALL_STATE -name '*.json' | sort | xargs -r sha256sum; fi
}
mkdir -p /run/work /run/studies
"#;

#[test]
fn no_verb_overwrites_a_disk_that_is_in_use_or_holds_something() {
    if !testing::is_long_in_turn(0) {
        return;
    }
    let tools = [
        "mdadm",
        "cryptsetup",
        "dmsetup",
        "lvm",
        "mke2fs",
        "mkfs.xfs",
        "mkfs.btrfs",
        "mkswap",
        "wipefs",
        "partx",
        "unshare",
        "flock",
        "losetup",
        "blockdev",
        "sha256sum",
    ];
    let place = Place::new();
    if let Some(why) = lab::without(&tools).or_else(|| lab::missing(&place, KERNEL)) {
        eprintln!("skipped: {why}");
        return;
    }
    let (chosen, allowed) = (chosen(), allowed());
    let script = script(&chosen, &allowed);
    // One argument of a program has 128 KiB at most.
    let command = [
        "lab",
        "exec",
        "--kernel",
        KERNEL,
        "--vcpus",
        "2",
        "--memory",
        "1GiB",
        "--",
        "bash",
        "-c",
        r#"eval "$*""#,
        "bash",
    ];
    let output =
        place.output(&command.into_iter().chain(script.iter().map(String::as_str)).collect::<Vec<_>>());
    let log = support::stderr(&output);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let told: BTreeMap<Case<'_>, Answer<'_>> = text.lines().filter_map(line).collect();
    let mut wrong = Vec::new();
    let (mut pairs, mut refusals, mut changed) = (0, 0, 0);
    let mut met: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (index, state) in chosen.iter().copied() {
        for step in ["control", "enter"] {
            if let Some((code, message)) = told.get(&(state.name, step)) {
                wrong.push(format!("{}: {step} failed with {code}: {message}", state.name));
            }
        }
        for verb in verbs_of(index, state) {
            pairs += 1;
            *met.entry((verb.name, kind_of(state))).or_insert(0) += 1;
            let Some((code, message)) = told.get(&(state.name, verb.name)) else {
                wrong.push(format!("{} x {}: not tried", state.name, verb.name));
                continue;
            };
            refusals += usize::from(*code != "0");
            if *code != code_of(state) || !message.contains(says(verb, state)) {
                wrong.push(format!("{} x {}: code {code}: {message}", state.name, verb.name));
            }
        }
        match told.get(&(state.name, "left")) {
            Some(("0", _)) => {}
            Some((_, left)) => wrong.push(format!("{}: something is left, or was begun: {left}", state.name)),
            None => wrong.push(format!("{}: what is left was not looked at", state.name)),
        }
        match told.get(&(state.name, "bytes")) {
            Some(("0", _)) => {}
            Some((_, difference)) => {
                changed += 1;
                wrong.push(format!("{}: the bytes of `{}` changed: {difference}", state.name, state.guarded));
            }
            None => wrong.push(format!("{}: the bytes of `{}` were not compared", state.name, state.guarded)),
        }
    }
    let all = VERBS.len() + RUNS.as_flattened().len();
    eprintln!(
        "{} states x {all} verbs, {pairs} pairs tried: {refusals} refusals, the bytes of {changed} disks changed",
        chosen.len(),
    );
    let figure = format!("{all} verbs, {pairs} pairs, {refusals} refusals");
    testing::promise("occupied-states", chosen.len(), figure);
    for [run, _] in RUNS {
        let kinds = KINDS.map(|kind| met.get(&(run.name, kind)).copied().unwrap_or(0));
        let states: usize = kinds.iter().sum();
        eprintln!("{}: {states} states, {kinds:?} of the kinds {KINDS:?}", run.name);
        let is_met = states >= MIN_STATES && kinds.iter().all(|count| *count > 0);
        assert!(is_met || chosen.len() < STATES.len(), "{}: {kinds:?}", run.name);
    }
    assert!(wrong.is_empty(), "{}\n{log}", wrong.join("\n"));
    assert!(told.contains_key(&("all", "done")), "the script did not come to its end:\n{log}");
    let runs: Vec<String> = allowed.iter().map(|name| format!("runs-{name}")).collect();
    let others = ["kept-serial", "given-back", "changed-during-the-run", "looked-at-for-a-moment"];
    for name in runs.iter().map(String::as_str).chain(others) {
        let control = told.get(&(name, "control"));
        assert_eq!(control.map(|(code, _)| *code), Some("0"), "{name}: {control:?}\n{log}");
    }
}

/// What a state meets. A disk that is another one now may well be claimed anew, and one that is blank at both
/// ends be given back.
fn verbs_of(index: usize, state: &State) -> impl Iterator<Item = &'static Verb> {
    let (is_another, is_in_the_middle) = (state.kind == Kind::Another, state.name == IN_THE_MIDDLE);
    let always = VERBS.iter().filter(move |verb| verb.claims == Claims::Own || !is_another);
    let always = always.filter(move |verb| !(is_in_the_middle && verb.name == GIVE_BACK));
    let runs = (0..RUNS_PER_STATE).map(move |n| &RUNS[(index * RUNS_PER_STATE + n) % RUNS.len()][0]);
    always.chain(runs).chain([&RUNS[index % RUNS.len()][1]])
}

fn is_run(verb: &Verb) -> bool {
    verb.command.starts_with("measure")
}

const KINDS: [&str; 4] = ["in use", "at rest", "another disk", "no disk"];

fn kind_of(state: &State) -> &'static str {
    KINDS[match state.kind {
        Kind::InUse => 0,
        Kind::Holds(_) => 1,
        Kind::Another => 2,
        Kind::NoDisk => 3,
    }]
}

/// As `flyball --help` lists them: a path that leads to no disk is a wrong command line, or a wrong study.
fn code_of(state: &State) -> &'static str {
    if state.kind == Kind::NoDisk { "2" } else { "1" }
}

fn says(verb: &Verb, state: &State) -> &'static str {
    let unclaimed = verb.claims == Claims::None && is_run(verb) && state.kind != Kind::NoDisk;
    if unclaimed { "it is not claimed; look at it and claim it: `flyball claim /dev/" } else { state.says }
}

/// State and verb.
type Case<'a> = (&'a str, &'a str);
/// Exit code and message.
type Answer<'a> = (&'a str, &'a str);

fn line(line: &str) -> Option<(Case<'_>, Answer<'_>)> {
    let fields: Vec<&str> = line.strip_prefix("@@")?.splitn(4, '|').collect();
    let [state, verb, code, message] = fields[..] else { return None };
    Some(((state, verb), (code, message)))
}

/// In parts, each of which ends with its line. The states that are met, in their order: which these are says
/// the seed. Each is met by its own runs, whichever others are met.
fn chosen() -> Vec<(usize, &'static State)> {
    let extent = testing::Extent::of(PART, STATES.len() as u64);
    let mut all: Vec<(usize, &State)> = STATES.iter().enumerate().collect();
    Seed(extent.seed).stream("occupied states").shuffle(&mut all);
    all.truncate(usize::try_from(extent.count).unwrap());
    all.sort_by_key(|(index, _)| *index);
    all
}

/// The layers of which a run on a blank claimed disk is shown not to be refused.
fn allowed() -> Vec<&'static str> {
    let extent = testing::Extent::of(PART_OF_LAYERS, LAYERS.len() as u64);
    let mut all: Vec<&str> = LAYERS.iter().map(|(name, _)| *name).collect();
    Seed(extent.seed).stream("runs on blank disks").shuffle(&mut all);
    all.truncate(usize::try_from(extent.count).unwrap());
    all
}

fn script(chosen: &[(usize, &'static State)], allowed: &[&str]) -> Vec<String> {
    let states: Vec<String> = chosen.iter().map(|(index, state)| of_state(*index, state)).collect();
    let studies = LAYERS.iter().map(|(name, layer)| (*name, study(name, layer)));
    let studies: Vec<String> = studies
        .chain([("two-disks", TWO_DISKS.to_owned())])
        .map(|(name, text)| {
            format!("cat > /run/studies/{name}.toml << 'END OF STUDY'\n{text}\nEND OF STUDY\n")
        })
        .collect();
    let runs: Vec<String> = allowed.iter().map(|name| positive(name)).collect();
    // What must not be refused: a claim by serial number outlives a restart; and a claim that names what is
    // there gives it back to the byte.
    let controls = r#"
export FLYBALL_STATE=/run/state/kept
modprobe scsi_debug dev_size_mb=32; await test -b /dev/sda
flyball claim /dev/sda > /dev/null 2> /run/err
sed -i 's/"boot": "[^"]*"/"boot": "an earlier one"/; s/"diskseq": [0-9]*/"diskseq": 1/' $FLYBALL_STATE/claims/*.json
flyball claim /dev/sda --check > /dev/null 2>> /run/err; say kept-serial control $? "$(tr '\n|' ' /' < /run/err)"
modprobe -r scsi_debug
export FLYBALL_STATE=/run/state/back
blank; ext4 /dev/ram0; content /dev/ram0 > /run/copy
flyball claim /dev/ram0 --overwrite ext4; once=1; twice=1
measure /dev/ram0 raw > /dev/null 2> /run/err; once=$?; rm -rf /run/notebook
measure /dev/ram0 raw > /dev/null 2>> /run/err; twice=$?; rm -rf /run/notebook
[ $once = 0 -o $once = 3 ] && [ $twice = 0 -o $twice = 3 ] && flyball claim /dev/ram0 --check > /dev/null 2>> /run/err \
    && flyball claim /dev/ram0 --give-back && content /dev/ram0 | cmp - /run/copy
say given-back control $? "$once, $twice: $(tr '\n|' ' /' < /run/err)"
export FLYBALL_STATE=/run/state/moment
blank; flyball claim /dev/ram0
( while [ ! -e /run/enough ]; do sleep 0.01 < /dev/ram0; done ) & looking=$!
flyball claim /dev/ram0 --check > /dev/null 2> /run/err; say looked-at-for-a-moment control $? "$(tr '\n|' ' /' < /run/err)"
touch /run/enough; wait $looking
export FLYBALL_STATE=/run/state/two
blank; flyball claim /dev/ram0; flyball claim /dev/ram1
measure none two-disks > /dev/null 2> /run/err; code=$?; other=$(cat /run/other)
[ $code = 1 ] && grep -q '`swap`' /run/err && [ "$(sha256sum < /dev/$other)" = "$(cat /run/other.sum)" ] \
    && [ $(find /run/notebook -name trial.json | wc -l) = 1 ] && [ "$(flyball status)" = 'nothing is changed' ]
say changed-during-the-run control $? "$code: $(tr '\n|' ' /' < /run/err)"
rm -rf /run/notebook
"#;
    let begin = [BEGIN.to_owned(), studies.concat()];
    let end = [
        "wait $comparing\n".to_owned(),
        controls.to_owned(),
        runs.concat(),
        "say all done 0 ''\n".to_owned(),
    ];
    begin.into_iter().chain(states).chain(end).collect()
}

/// What must not be refused: on a blank claimed disk it runs, leaves the disk blank and the claim, renewed,
/// good.
fn positive(study: &str) -> String {
    format!(
        r#"
export FLYBALL_STATE=/run/state/runs; rm -rf $FLYBALL_STATE
large; flyball claim /dev/ram0; flyball claim {SECOND}; held | sed 's/^[0-9a-f]\{{64\}} //' > /run/before
measure /dev/ram0 {study} > /run/out 2> /run/err; code=$?
measured=$(cat /run/notebook/runs/*/trials/*/trial.json | grep -c '"measurement": {{')
rm -rf /run/notebook; {{ held; flyball status | sed '/^nothing is changed$/d'; }} | sed 's/^[0-9a-f]\{{64\}} //' > /run/after
[ $code = 0 -o $code = 3 ] && [ $measured = 1 ] && diff /run/before /run/after && is_blank /dev/ram0 \
    && is_blank {SECOND} && flyball claim /dev/ram0 --check && flyball claim /dev/ram0 --give-back
say runs-{study} control $? "$code, $measured measured: $(tr '\n|' ' /' < /run/err)"
"#
    )
}

fn of_state(index: usize, state: &State) -> String {
    let State { name, device, guarded, prepare, overwrite, enter, leave, .. } = state;
    let mut text = format!(
        "blank\nexport FLYBALL_STATE=/run/state/{name}\necho '== {name}'\nprepare() {{ :; {prepare}\n}}\nprepare\n"
    );
    if state.kind != Kind::NoDisk {
        text.push_str(&format!(
            "{{ flyball claim {device} {overwrite} && flyball claim {device} --check; }} 2> /run/err \
             || say {name} control 1 \"$(cat /run/err)\"\n"
        ));
    }
    let verbs: Vec<&Verb> = verbs_of(index, state).collect();
    let has_second =
        verbs.iter().any(|verb| verb.claims == Claims::Own && verb.command.contains("measure DEVICE raid"));
    if has_second {
        text.push_str(&format!(
            "flyball claim {SECOND} 2> /run/err || say {name} control 1 \"$(cat /run/err)\"\n"
        ));
    }
    text.push_str(&format!(
        "enter() ( set -e; :; {enter}\n)\nenter; code=$?; [ $code = 0 ] || say {name} enter $code ''\nsync\n\
         content {guarded} > /run/{name}.before; held > /run/before\n"
    ));
    let there = if let Kind::Holds(what) = state.kind { what } else { "" };
    let others: Vec<&str> = TYPES.into_iter().filter(|kind| *kind != there).collect();
    for verb in verbs {
        let folder = match verb.claims {
            Claims::Own => name,
            Claims::None => "none",
        };
        let command = verb.command.replace("DEVICE", device).replace("OTHERS", &others.join(","));
        text.push_str(&format!("FLYBALL_STATE=/run/state/{folder} try {name} '{}' {command}\n", verb.name));
    }
    text.push_str(&format!(
        "content {guarded} > /run/{name}.after; cmp -n 1048576 {SECOND} /dev/zero || echo {SECOND} >> /run/{name}.after
        [ -z \"$comparing\" ] || wait $comparing
        compare {name} & comparing=$!
        {{ held; flyball status | sed '/^nothing is changed$/d'; }} > /run/after
        difference=$(diff /run/before /run/after); say {name} left $? \"$(echo $difference | tr '|' '/')\"\n"
    ));
    text.push_str(&format!("leave() {{ :; {leave}\n}}\nleave\nrm -rf /run/state/{name} /run/state/none\n"));
    text
}
