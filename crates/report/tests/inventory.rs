//! Machines as text, looked at as a whole.
#![allow(clippy::unwrap_used, reason = "a test that fails says where")]

use domain::inventory::{BlockDevice, BlockKind, Inventory, Md, MdMember, Queue, Rival, WriteCache};
use domain::units::Bytes;
use expect_test::{Expect, expect};
use machine::RecordedMachine;
use report::inventory::{Style, text, text_within};
use std::path::Path;

fn inventory(name: &str) -> Inventory {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/machines").join(name);
    machine::inventory::take(&RecordedMachine::open(folder).unwrap()).unwrap()
}

fn check(inventory: &Inventory, style: Style, expected: Expect) {
    expected.assert_eq(&text(inventory, style));
}

const ALL: [&str; 12] = [
    "adl0",
    "arl-h-1",
    "bdwep0",
    "clx2s0",
    "dell-9360-kbl",
    "dell-latitude-5420-tgl",
    "hswep0",
    "ivbep1",
    "milan0",
    "spr1",
    "turin0",
    "vm-2cpu",
];

#[test]
fn no_line_of_any_machine_is_wider_than_a_hundred_columns() {
    for name in ALL {
        for style in [Style::Brief, Style::Full] {
            let text = text(&inventory(name), style);
            let widest = text.lines().max_by_key(|l| l.chars().count()).unwrap();
            assert!(widest.chars().count() <= 100, "{name}: {widest}");
            assert!(text.lines().all(|l| l == l.trim_end()), "{name}");
        }
    }
}

#[test]
fn three_hundred_and_twenty_equal_cpus_take_one_screen() {
    let text = text(&inventory("spr1"), Style::Brief);
    assert!(text.lines().count() <= 30, "{text}");
    assert!(text.contains("policies 0-319: intel_pstate, governor powersave, 800 MHz – 3.80 GHz"), "{text}");
}

#[test]
fn a_hybrid_laptop() {
    check(
        &inventory("adl0"),
        Style::Brief,
        expect![[r#"
        Machine      no hypervisor to be seen

        CPU          12th Gen Intel(R) Core(TM) i7-1260P
                     GenuineIntel, family 6, model 154, stepping 3, microcode 0x437
                     16 CPUs: 1 package, 12 cores, up to 2 threads each
                     4 P-cores on CPUs 0-7, base 2.10 GHz, up to 4.70 GHz
                     8 E-cores on CPUs 8-15, base 1.50 GHz, up to 3.40 GHz

        Frequency    policies 0-7: intel_pstate, governor powersave, 400 MHz – 4.70 GHz, base 2.10 GHz,
                       EPP balance_performance, EPB 7
                       last seen at 400 MHz – 1.87 GHz
                     policies 8-15: intel_pstate, governor powersave, 400 MHz – 3.40 GHz, base 1.50 GHz,
                       EPP balance_performance, EPB 7
                       last seen at 400 MHz – 3.37 GHz
                     intel_pstate: active, the processor chooses (HWP), turbo on, performance 10–100%,
                       dynamic boost off
                     what runs can be read from scaling_cur_freq

        Idle         intel_idle, governor menu
                     state  to leave  worth it from
                     POLL       0 µs           0 µs
                     C1E        2 µs           4 µs
                     C6       170 µs         500 µs
                     C8       200 µs         600 µs
                     C10      230 µs         700 µs

        Kernel       7.0.0-rc1-g6de23f81a5e0, preemption dynamic (mode readable by root in debugfs)

        Storage      ext4 on / from /dev/nvme0n1p3
                     vfat on /boot/efi from /dev/nvme0n1p1
                     tmpfs on /tmp

        Not here     energy counters: power and energy cannot be measured here
                     block devices: nothing is known of disks, arrays and their settings here
                     kernel configuration: HZ and the tickless mode are unknown: neither /boot/config-* nor
                       /proc/config.gz can be read
    "#]],
    );
}

#[test]
fn a_server_with_steps_and_boost() {
    check(
        &inventory("milan0"),
        Style::Full,
        expect![[r#"
        Machine      no hypervisor to be seen

        CPU          AMD EPYC 7543 32-Core Processor
                     AuthenticAMD, family 25, model 1, stepping 1, microcode 0xa0011d5
                     128 CPUs: 2 packages, 64 cores, 2 threads each, 2 memory nodes
                     base 2.80 GHz, up to 3.74 GHz
                     node 0: CPUs 0-31,64-95
                     node 1: CPUs 32-63,96-127

        Frequency    policies 0-127: acpi-cpufreq, governor schedutil, 1.50 GHz – 2.80 GHz and boost up to
                       3.74 GHz, boost on
                       last seen at 1.49 GHz – 3.72 GHz
                       time spent at 1.50 GHz 99.8%, 2.10 GHz 0.0%, 2.80 GHz 0.1%
                       governors to choose from: conservative ondemand userspace powersave performance
                         schedutil
                       steps: 1.50 GHz, 2.10 GHz, 2.80 GHz
                     schedutil: rate_limit_us 1000
                     what runs can be read from time_in_state, or else from scaling_cur_freq

        Idle         acpi_idle, governor menu
                     state  to leave  worth it from
                     POLL       0 µs           0 µs
                     C1         1 µs           2 µs
                     C2        30 µs          60 µs

        Kernel       6.18.0-rc1+, preemption dynamic (mode readable by root in debugfs)
                     started with BOOT_IMAGE=http://craftlab/pxelinux/node/milan0/custom-kernel/kernel
                       initrd=http://craftlab/pxelinux/node/milan0/custom-kernel/initramfs.img
                       root=UUID=58a64559-db57-4e87-8cce-4985bc65a30a ro console=ttyS0,115200
                       msr.allow_writes=on

        Storage      ext4 on / (rw,relatime,stripe=32) from /dev/nvme0n1p3
                     vfat on /boot/efi (rw,relatime,fmask=0077,dmask=0077,codepage=437,iocharset=ascii,
                       shortname=winnt,errors=remount-ro) from /dev/nvme0n1p1
                     tmpfs on /tmp (rw,nosuid,nodev,nr_inodes=1048576,inode64)

        Not here     energy counters: power and energy cannot be measured here
                     block devices: nothing is known of disks, arrays and their settings here
                     kernel configuration: HZ and the tickless mode are unknown: neither /boot/config-* nor
                       /proc/config.gz can be read
    "#]],
    );
}

#[test]
fn a_virtual_machine_without_cpufreq() {
    check(
        &inventory("vm-2cpu"),
        Style::Full,
        expect![[r#"
        Machine      Debian GNU/Linux 12 (bookworm)
                     a virtual machine (kvm), inside a container (docker), other guests have taken CPU time
                       since boot (steal)

        CPU          Intel(R) Xeon(R) Processor
                     GenuineIntel, family 6, model 167, stepping 1, microcode 0x1
                     2 CPUs: 1 package, 2 cores, no SMT

        Kernel       6.18.44, 250 Hz, tickless when idle, preemption none (dynamic), clock tsc
                     mitigations: 5 active, vulnerable in full or in part: spectre_v2
                       retbleed: Mitigation: Enhanced IBRS
                       spec_store_bypass: Mitigation: Speculative Store Bypass disabled via prctl
                       spectre_v1: Mitigation: usercopy/swapgs barriers and __user pointer sanitization
                       spectre_v2: Mitigation: Enhanced / Automatic IBRS; IBPB: conditional; PBRSB-eIBRS:
                         Not affected; BHI: Vulnerable
                       tsx_async_abort: Mitigation: TSX disabled
                     writeback begins at 10% dirty, holds writers at 20%, takes pages older than 30 s,
                       looks every 5 s
                     started with console=ttyS0 quiet reboot=k panic=1 nomodule mitigations=auto

        Memory       23.5 GiB, 22.6 GiB available, no swap, transparent huge pages madvise

        Storage      vda: virtio disk, 256 GiB
                         rotational, scheduler mq-deadline (also none kyber bfq), read-ahead 8 MiB,
                           256 requests, 4 MiB at most, 1 hardware queue, write-back cache,
                           blocks 512 B on 4 KiB
                         ext4 on / (rw,relatime,discard), no journal

        Not here     cpufreq: frequency policy can be neither read nor changed here: the hypervisor's host
                       decides how fast these CPUs run
                     frequency counters: nothing shows how fast the CPUs really run, so a slow result cannot
                       be told from a slow clock
                     cpuidle: idle states can be neither seen nor switched off here: what waking up costs at
                       low queue depth stays unknown
                     energy counters: power and energy cannot be measured here
                     disk model: nothing says what is behind vda: whether it spins, what caches it and who
                       else uses it can only be told from measurements
    "#]],
    );
}

fn device(name: &str, kind: BlockKind, built_of: &[&str]) -> BlockDevice {
    BlockDevice {
        name: name.into(),
        kind,
        built_of: built_of.iter().map(|n| (*n).into()).collect(),
        number: None,
        size: Some(Bytes::new(4 << 40)),
        read_only: Some(false),
        removable: None,
        transport: None,
        model: None,
        serial: None,
        wwn: None,
        queue: None,
        start: None,
        link: None,
        node: None,
    }
}

#[test]
fn a_degraded_array_stands_below_each_of_its_disks_but_is_told_once() {
    let mut machine = inventory("vm-2cpu");
    let member =
        |device: &str, slot, state: &str| MdMember { device: device.into(), slot, state: vec![state.into()] };
    let md = Md {
        level: Some("raid10".into()),
        layout: Some("far=2".into()),
        chunk: Some(Bytes::from_kib(512)),
        state: Some("clean".into()),
        sync_action: Some("idle".into()),
        degraded: Some(1),
        bitmap: Some("+8".into()),
        bitmap_chunk: Some(Bytes::from_mib(64)),
        members: vec![member("sda", Some(0), "in_sync"), member("sdb", None, "faulty")],
        ..Md::default()
    };
    let queue = Queue {
        rotational: Some(true),
        scheduler: Some("bfq".into()),
        read_ahead: Some(Bytes::from_kib(128)),
        write_cache: Some(WriteCache::WriteBack),
        ..Queue::default()
    };
    machine.devices = vec![
        BlockDevice {
            queue: Some(queue),
            model: Some("WDC WD40".into()),
            ..device("sda", BlockKind::Disk, &[])
        },
        device("sdb", BlockKind::Disk, &[]),
        device("md127", BlockKind::Md(Box::new(md)), &["sda", "sdb"]),
    ];
    machine.rivals = vec![Rival {
        name: "tuned".into(),
        running: true,
        enabled: Some(true),
        profile: Some("throughput-performance".into()),
        changes: "governor".into(),
    }];
    machine.absent.clear();
    machine.kernel = Default::default();
    check(
        &machine,
        Style::Brief,
        expect![[r#"
        Machine      Debian GNU/Linux 12 (bookworm)
                     a virtual machine (kvm), inside a container (docker), other guests have taken CPU time
                       since boot (steal)

        CPU          Intel(R) Xeon(R) Processor
                     GenuineIntel, family 6, model 167, stepping 1, microcode 0x1
                     2 CPUs: 1 package, 2 cores, no SMT

        Memory       23.5 GiB, 22.6 GiB available, no swap, transparent huge pages madvise

        Storage      sda: disk, 4 TiB, WDC WD40
                         rotational, scheduler bfq, read-ahead 128 KiB, write-back cache
                       md127: raid10 far=2 chunk 512 KiB, 4 TiB
                           clean, DEGRADED: 1 missing, bitmap, 64 MiB a bit
                           members sda, sdb (faulty)
                     sdb: disk, 4 TiB
                       md127 (above)

        Rivals       tuned runs now with profile throughput-performance; it changes governor
    "#]],
    );
}

#[test]
fn a_machine_is_as_wide_as_the_terminal() {
    for width in [60, 80, 120] {
        let text = text_within(&inventory("vm-2cpu"), Style::Full, Some(width));
        let long: Vec<&str> = text.lines().filter(|line| line.chars().count() > width).collect();
        // A word alone, such as an argument of the command line, stays whole.
        assert!(long.iter().all(|line| line.split_whitespace().count() == 1), "{width}: {long:#?}");
    }
    let widest = |width| {
        let text = text_within(&inventory("vm-2cpu"), Style::Full, Some(width));
        text.lines().map(|line| line.chars().count()).max()
    };
    assert!(widest(60) < widest(80) && widest(80) < widest(120));
}
