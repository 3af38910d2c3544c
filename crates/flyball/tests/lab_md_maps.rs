//! The address maps of arrays against real ones: every layout is made by the real mdadm on the real kernel,
//! each block of the array is written with its number, and every byte on every member is what the map says,
//! parities too.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test fails by panicking, and says why it skips"
)]

use crate::support::{Place as Folder, lab};
use domain::stack::{Bitmap, Md, MdLevel, Resync};
use domain::units::Bytes;
use sim::md::geometry::{Holds, ParityLayout, Place, Stripe};
use sim::md::{Geometry, geometry};
use std::collections::BTreeMap;
use std::fmt::Write as _;

const KIB: u64 = 1024;
const BLOCK: u64 = 4 * KIB;

/// How large each member is made; what of it mdadm uses is the array's matter.
const MEMBER: u64 = 512 * KIB;

/// As many blocks as the largest array has.
const BLOCKS: u64 = 5 * MEMBER / BLOCK;

/// One array to make.
struct Asked {
    md: Md,
    /// How large the device below each member is.
    devices: Vec<u64>,
    /// `--size`: what of each is to be used.
    used: Option<u64>,
}

impl Asked {
    /// What of each member is looked at, as far as it reaches.
    fn copied(&self) -> u64 {
        self.used.unwrap_or(MEMBER)
    }
}

/// What the kernel showed of it: in the order of the script's line.
struct Shown {
    size: u64,
    component: u64,
    word: u32,
    members: Vec<u64>,
}

/// Members are memory, or loop devices over a part of it where their sizes differ. The numbered blocks are
/// written through md, the array is stopped, and the members are copied one after the other to a disk whose
/// file this test reads. They hold zeros before, which agree with every parity.
const BEGIN: &str = r#"
set -e
exec 3>&1 >&2
modprobe -a loop raid0 raid1 raid456 raid10
modprobe linear 2> /dev/null || echo '@@ no linear' >&3
modprobe brd rd_nr=6 rd_size=512
printf '%04095d\n' {0..LAST} > /run/numbered
array() {
    members=$1 bytes=$2
    shift 2
    head -c $bytes /dev/zero | tee ${members//loop/ram} > /dev/null
    mdadm --create /dev/md0 --run --quiet --metadata=1.0 "$@" $members < /dev/null
    cd /sys/block/md0
    head -c $(($(cat size) * 512)) /run/numbered > /dev/md0
    echo "@@ $(cat size md/component_size md/layout md/rd*/size | tr '\n' ' ')" >&3
    cd /
    mdadm --stop --quiet /dev/md0
    head -qc $bytes $members >> /run/members
}
"#;

fn md(level: MdLevel, layout: Option<&str>, chunk_kib: Option<u64>) -> Md {
    Md {
        level,
        layout: layout.map(str::to_owned),
        chunk: chunk_kib.map(Bytes::from_kib),
        bitmap: Bitmap::None,
        bitmap_chunk: None,
        write_mostly: 0,
        spares: 0,
        missing: 0,
        resync: Resync::Skip,
        stripe_cache_size: None,
        group_thread_cnt: None,
        safe_mode_delay: None,
    }
}

/// Over equal members, of which so much is used.
fn equal(md: Md, members: usize, used_kib: u64) -> Asked {
    let used = (md.level != MdLevel::Raid0 && md.level != MdLevel::Linear).then_some(used_kib * KIB);
    Asked { md, devices: vec![MEMBER; members], used }
}

/// Every layout, with several numbers of members and chunks.
fn every_array() -> Vec<Asked> {
    let mut all = Vec::new();
    for (members, chunk) in [(2, 4), (3, 64), (5, 16), (4, 12)] {
        all.push(equal(md(MdLevel::Raid0, None, Some(chunk)), members, 0));
    }
    for sizes in [&[500, 300, 412, 300][..], &[128, 512, 512], &[512, 200, 300], &[256, 384, 512, 320, 448]] {
        let devices: Vec<u64> = sizes.iter().map(|kib| kib * KIB).collect();
        for layout in ["original", "alternate"] {
            let md = md(MdLevel::Raid0, Some(layout), Some(16));
            all.push(Asked { md, devices: devices.clone(), used: None });
        }
        for chunk in [None, Some(64)] {
            all.push(Asked { md: md(MdLevel::Linear, None, chunk), devices: devices.clone(), used: None });
        }
    }
    for members in [2, 3] {
        all.push(equal(md(MdLevel::Raid1, None, None), members, 132));
    }
    for (members, chunk) in [(3, 4), (5, 16)] {
        all.push(equal(md(MdLevel::Raid4, None, Some(chunk)), members, 160));
    }
    for layout in ParityLayout::RAID5 {
        for (members, chunk, used) in [(3, 4, 60), (4, 32, 192), (6, 8, 128)] {
            all.push(equal(md(MdLevel::Raid5, Some(layout.name()), Some(chunk)), members, used));
        }
    }
    for (nth, layout) in ParityLayout::RAID6.into_iter().enumerate() {
        for pick in [nth, nth + 1] {
            let (members, chunk, used) = [(4, 8, 96), (5, 4, 80), (6, 16, 240)][pick % 3];
            all.push(equal(md(MdLevel::Raid6, Some(layout.name()), Some(chunk)), members, used));
        }
    }
    let near = [("n2", 2), ("n2", 3), ("n2", 4), ("n2", 5), ("n3", 3), ("n3", 4), ("n3", 5), ("n4", 6)];
    let far = [("f2", 2), ("f2", 3), ("f2", 4), ("f2", 5), ("f3", 3), ("f3", 5), ("f4", 6)];
    let offset = [("o2", 2), ("o2", 3), ("o2", 4), ("o2", 5), ("o3", 3), ("o3", 4), ("o4", 6)];
    for (nth, (layout, members)) in near.into_iter().chain(far).chain(offset).enumerate() {
        let (chunk, used) = [(4, 76), (16, 176), (64, 320)][nth % 3];
        all.push(equal(md(MdLevel::Raid10, Some(layout), Some(chunk)), members, used));
    }
    all
}

/// The lines that make them.
fn script(arrays: &[&Asked]) -> String {
    let mut script = BEGIN.replace("LAST", &(BLOCKS - 1).to_string());
    for asked in arrays {
        let mut members = Vec::new();
        for (member, size) in asked.devices.iter().enumerate() {
            if *size != MEMBER {
                writeln!(script, "losetup --sizelimit {size} /dev/loop{member} /dev/ram{member}").unwrap();
            }
            members.push(format!("/dev/{}{member}", if *size == MEMBER { "ram" } else { "loop" }));
        }
        let Md { level, layout, chunk, .. } = &asked.md;
        let (members, count, level_name) = (members.join(" "), members.len(), level.name());
        write!(script, "array '{members}' {} --level={level_name} --raid-devices={count}", asked.copied())
            .unwrap();
        if level.is_redundant() {
            script.push_str(" --assume-clean --bitmap=none");
        }
        layout.iter().for_each(|layout| write!(script, " --layout={layout}").unwrap());
        chunk.iter().for_each(|chunk| write!(script, " --chunk={}K", chunk.get() / KIB).unwrap());
        asked.used.iter().for_each(|used| write!(script, " --size={}", used / KIB).unwrap());
        script.push('\n');
        for (member, _) in asked.devices.iter().enumerate().filter(|(_, size)| **size != MEMBER) {
            writeln!(script, "losetup -d /dev/loop{member}").unwrap();
        }
    }
    script.push_str("dd if=/run/members of=/dev/sda bs=1M conv=fsync status=none\n");
    script
}

#[test]
fn every_byte_of_every_member_is_where_the_map_says() {
    if !testing::is_long_in_turn(3) {
        return;
    }
    let folder = Folder::new();
    for kernel in lab::kernels() {
        if let Some(why) = lab::without(&["mdadm"]).or_else(|| lab::missing(&folder, kernel)) {
            eprintln!("skipped: {why}");
            return;
        }
        // Debian's 6.12 has no module for linear arrays.
        let has_linear = kernel == "6.1";
        let arrays = every_array();
        let arrays: Vec<&Asked> =
            arrays.iter().filter(|asked| has_linear || asked.md.level != MdLevel::Linear).collect();
        let kept = format!("kept-{kernel}");
        let machine = ["lab", "exec", "--kernel", kernel, "--memory", "1GiB", "--disk", "nvme:512MiB"];
        let command = ["--keep-disks", &kept, "--", "bash", "-c", &script(&arrays)];
        let text = folder.ok(&[&machine[..], &command[..]].concat());
        let shown: Vec<Shown> =
            text.lines().filter_map(|line| line.strip_prefix("@@ ")).filter_map(read).collect();
        assert_eq!(shown.len(), arrays.len(), "{text}");
        let bytes = std::fs::read(folder.path(&kept).join("disk0.img")).unwrap();
        let (mut at, mut seen) = (0, Seen::default());
        for (asked, shown) in arrays.iter().zip(&shown) {
            let mut members = Vec::new();
            for size in &asked.devices {
                let len = asked.copied().min(*size) as usize;
                members.push(&bytes[at..at + len]);
                at += len;
            }
            compare(asked, shown, &members, &mut seen);
        }
        eprintln!(
            "kernel {kernel}: {} layouts, {} arrays, {} blocks of data and {} of parity compared on the members, {} wrong",
            seen.layouts.len(),
            arrays.len(),
            seen.data,
            seen.parity,
            seen.wrong.len(),
        );
        assert!(seen.wrong.is_empty(), "{}", seen.wrong.join("\n"));
        assert!(seen.layouts.len() == 34 + usize::from(has_linear), "{:?}", seen.layouts);
    }
}

/// `size component_size layout member-sizes`: sectors, then KiB.
fn read(line: &str) -> Option<Shown> {
    // A RAID0 over equal members may have layout -1: none.
    let number = |word: &str| word.parse::<i64>().ok().map(|number| number.max(0) as u64);
    let numbers: Vec<u64> = line.split_whitespace().map(number).collect::<Option<_>>()?;
    let [size, component, word, members @ ..] = &numbers[..] else { return None };
    Some(Shown {
        size: size * 512,
        component: component * KIB,
        word: *word as u32,
        members: members.iter().map(|kib| kib * KIB).collect(),
    })
}

#[derive(Default)]
struct Seen {
    layouts: BTreeMap<String, usize>,
    data: u64,
    parity: u64,
    wrong: Vec<String>,
}

fn compare(asked: &Asked, shown: &Shown, members: &[&[u8]], seen: &mut Seen) {
    let name = format!("{} {}", asked.md.level.name(), asked.md.layout.as_deref().unwrap_or("-"));
    let what = format!("{name} chunk {:?} over {:?}", asked.md.chunk, asked.devices);
    *seen.layouts.entry(name).or_default() += 1;
    let by_members = asked.used.is_none();
    let sizes: Vec<Bytes> = (0..members.len())
        .map(|member| Bytes::new(if by_members { shown.members[member] } else { shown.component }))
        .collect();
    let geometry = Geometry::new(&asked.md, &sizes).unwrap_or_else(|error| panic!("{what}: {error}"));
    if geometry.size().get() != shown.size {
        seen.wrong.push(format!("{what}: {} bytes, and it has {}", geometry.size().get(), shown.size));
        return;
    }
    if let (MdLevel::Raid10, Some(layout)) = (asked.md.level, &asked.md.layout) {
        let word = geometry::Raid10Layout::from_word(shown.word).unwrap();
        let copies = layout[1..].parse::<u32>().unwrap();
        assert_eq!(word.near * word.far, copies, "{what}: {:#x}", shown.word);
    }
    let until = if by_members { shown.members.iter().max() } else { Some(&shown.component) };
    for offset in (0..*until.unwrap()).step_by(BLOCK as usize) {
        for (member, bytes) in members.iter().enumerate() {
            if offset + BLOCK > sizes[member].get().min(bytes.len() as u64) {
                continue;
            }
            let place = Place { member: member as u32, offset: Bytes::new(offset) };
            let there = &bytes[offset as usize..(offset + BLOCK) as usize];
            let holds = geometry.holds(place);
            match holds {
                Holds::Data(_) => seen.data += 1,
                Holds::Parity | Holds::SecondParity => seen.parity += 1,
                Holds::Nothing => {}
            }
            if there != expected(&geometry, holds, offset, members) {
                let text = String::from_utf8_lossy(&there[BLOCK as usize - 8..]).into_owned();
                seen.wrong.push(format!("{what}: {place:?} is to have {holds:?}, and ends in {text:?}"));
            }
        }
    }
}

fn expected(geometry: &Geometry, holds: Holds, offset: u64, members: &[&[u8]]) -> Vec<u8> {
    let stripe = || geometry.stripe(offset / geometry.chunk().unwrap().get());
    let of = |member: u32| &members[member as usize][offset as usize..(offset + BLOCK) as usize];
    let mut block = vec![0; BLOCK as usize];
    match holds {
        Holds::Nothing => {}
        Holds::Data(at) => block = format!("{:04095}\n", at.get() / BLOCK).into_bytes(),
        Holds::Parity => {
            let stripe = stripe();
            for index in 0..stripe.data_members() {
                block.iter_mut().zip(of(stripe.data(index))).for_each(|(sum, byte)| *sum ^= byte);
            }
        }
        Holds::SecondParity => {
            let stripe = stripe();
            for (power, member) in syndrome_order(&stripe, members.len() as u32) {
                block.iter_mut().zip(of(member)).for_each(|(sum, byte)| *sum ^= times_power(*byte, power));
            }
        }
    }
    block
}

/// Each data member with its power of two in the second parity: from the member after that parity on
/// (raid5.c: set_syndrome_sources); as DDF has it, from the first member on, and those with parity count.
fn syndrome_order(stripe: &Stripe, members: u32) -> Vec<(u32, u32)> {
    let second = stripe.second.unwrap();
    let first = if stripe.is_ddf() { 0 } else { (second + 1) % members };
    let around = (0..members).map(|nth| (first + nth) % members);
    let with_data = |member: &u32| *member != stripe.parity && *member != second;
    match stripe.is_ddf() {
        true => (0..members).zip(around).filter(|(_, member)| with_data(member)).collect(),
        false => (0..members).zip(around.filter(with_data)).collect(),
    }
}

/// In the field of RAID6: x⁸ + x⁴ + x³ + x² + 1.
fn times_power(byte: u8, power: u32) -> u8 {
    (0..power).fold(byte, |byte, _| (byte << 1) ^ if byte & 0x80 != 0 { 0x1d } else { 0 })
}
