//! The commands that build each part of a stack, by the programs' own manual pages: mdadm(8), lvm(8),
//! mke2fs(8), mkfs.xfs(8), mkfs.btrfs(8), mount(8). Nothing here runs them: the same lists are shown by
//! `--dry-run`.

use domain::stack::{Bitmap, Features, Filesystem, FilesystemKind, Journal, Lvm, Md, Resync};
use domain::time::Nanos;

/// A program and its arguments.
pub type Argv = Vec<String>;

/// What is written to has to be ours before any of these runs. No signature of an earlier layer is left to
/// confuse what probes for one.
pub(super) fn wipe(devices: &[String]) -> Argv {
    argv(["wipefs", "--all", "--quiet"], devices.iter().cloned())
}

/// What is written to an array's files in `/sys/block/DEVICE/md` once it is made: file and value.
pub(super) fn array_files(md: &Md) -> Vec<(&'static str, String)> {
    let count = |count: Option<u32>| count.map(|count| count.to_string());
    // In seconds, to the millisecond (`md.c`: `safe_delay_store`).
    let seconds = |time: Nanos| format!("{:.3}", time.secs());
    let all = [
        ("stripe_cache_size", count(md.stripe_cache_size)),
        ("group_thread_cnt", count(md.group_thread_cnt)),
        ("safe_mode_delay", md.safe_mode_delay.map(seconds)),
    ];
    all.into_iter().filter_map(|(file, value)| Some((file, value?))).collect()
}

/// As a command, the path of a file of an array that is called so in `/sys/block`, and what is written to it.
pub(super) fn written(device: &str, file: &str, value: &str) -> (String, Argv) {
    let path = format!("/sys/block/{device}/md/{file}");
    let command = argv(["sh", "-c"], [format!("echo {value} > {path}")]);
    (path, command)
}

/// `node` is the array's, `members` those of its devices that are there.
pub(super) fn array(md: &Md, node: &str, uuid: &str, members: &[String]) -> Argv {
    let spares = md.spares as usize;
    let (active, spare) = members.split_at(members.len() - spares);
    let (there, missing) = active.split_at(active.len() - md.missing as usize);
    // `--homehost=any` and a name of ours: no host takes the array for its own at its next start.
    let mut all = argv(
        ["mdadm", "--create", node, "--run", "--quiet", "--metadata=1.2", "--homehost=any", "--name=flyball"],
        [format!("--uuid={}", mdadm_uuid(uuid)), format!("--level={}", md.level.name())],
    );
    all.extend(md.layout.iter().map(|layout| format!("--layout={layout}")));
    all.extend(md.chunk.iter().map(|chunk| format!("--chunk={}K", chunk.get() >> 10)));
    if md.level.is_redundant() {
        let bitmap = match md.bitmap {
            Bitmap::None => "none",
            Bitmap::Internal => "internal",
            Bitmap::Lockless => "lockless",
        };
        all.push(format!("--bitmap={bitmap}"));
    }
    all.extend(md.bitmap_chunk.map(|chunk| format!("--bitmap-chunk={}K", chunk.get() >> 10)));
    if md.resync == Resync::Skip && md.level.is_redundant() {
        all.push("--assume-clean".into());
    }
    all.push(format!("--raid-devices={}", active.len()));
    if spares > 0 {
        all.push(format!("--spare-devices={spares}"));
    }
    let (read, write_mostly) = there.split_at(there.len() - md.write_mostly as usize);
    all.extend(read.iter().cloned());
    if !write_mostly.is_empty() {
        all.push("--write-mostly".into());
        all.extend(write_mostly.iter().cloned());
    }
    all.extend(missing.iter().map(|_| "missing".to_owned()));
    all.extend(spare.iter().cloned());
    all
}

/// `f17ba110:…` in four groups of eight, as mdadm takes it.
fn mdadm_uuid(uuid: &str) -> String {
    let digits: Vec<char> = uuid.chars().filter(char::is_ascii_hexdigit).collect();
    digits.chunks(8).map(String::from_iter).collect::<Vec<String>>().join(":")
}

/// LVM keeps nothing of ours in /etc/lvm, asks no daemon, and looks at no device but ours. Without udev it
/// makes its own links.
fn lvm_config(has_udev: bool) -> String {
    let udev = if has_udev { "" } else { " udev_sync=0 udev_rules=0" };
    format!(
        "global{{event_activation=0 use_lvmpolld=0}} devices{{hints=\"none\" use_devicesfile=0}} \
         backup{{backup=0 archive=0}} activation{{monitoring=0{udev}}}"
    )
}

/// One word of lvm's, with what every one of them is told.
fn lvm_word(word: &str, has_udev: bool, devices: &[String]) -> Argv {
    argv(["lvm", word, "--config"], [lvm_config(has_udev), "--devices".into(), devices.join(",")])
}

/// The volume's name in its group.
const VOLUME: &str = "data";

/// The device-mapper name of a group's volume.
pub(super) fn volume_mapping(group: &str) -> String {
    format!("{group}-{VOLUME}")
}

/// `pv_uuids` are those of the devices.
pub(super) fn volume(
    lvm: &Lvm,
    group: &str,
    devices: &[String],
    pv_uuids: &[String],
    has_udev: bool,
) -> Vec<Argv> {
    let word = |word: &str| lvm_word(word, has_udev, devices);
    let mut all = Vec::new();
    for (device, uuid) in devices.iter().zip(pv_uuids) {
        let mut label = word("pvcreate");
        label.extend(["--yes", "--norestorefile", "--uuid", uuid, device].map(str::to_owned));
        all.push(label);
    }
    let mut create = word("vgcreate");
    create.extend(["--yes".to_owned(), group.to_owned()]);
    create.extend(devices.iter().cloned());
    let mut volume = word("lvcreate");
    let stripes = lvm.stripes.unwrap_or(devices.len() as u32);
    let size = format!("{}k", lvm.stripe_size.get() >> 10);
    let striped = ["--yes", "--wipesignatures", "n", "--extents", "100%FREE", "--stripes"].map(str::to_owned);
    volume.extend(striped);
    volume.push(stripes.to_string());
    if stripes > 1 {
        volume.extend(["--stripesize".to_owned(), size]);
    }
    volume.extend(["--name", VOLUME, group].map(str::to_owned));
    all.extend([create, volume]);
    all
}

/// Switches a group's volume off.
pub(crate) fn deactivate(group: &str, devices: &[String]) -> Argv {
    let mut all = lvm_word("vgchange", super::has_udev(), devices);
    all.extend(["--activate", "n", group].map(str::to_owned));
    all
}

/// ext filesystems and their journal devices have to agree on it.
const EXT_BLOCK: &str = "4096";

/// Making a filesystem and, where it has one, its journal device.
pub(super) fn filesystem(
    fs: &Filesystem,
    device: &str,
    journal: Option<(&str, &str)>,
    uuid: &str,
) -> Vec<Argv> {
    match fs.kind {
        FilesystemKind::Ext2 | FilesystemKind::Ext3 | FilesystemKind::Ext4 => ext(fs, device, journal, uuid),
        FilesystemKind::Xfs => {
            let mut all = argv(["mkfs.xfs", "-f", "-q", "-m"], [format!("uuid={uuid}")]);
            all.extend(journal.iter().flat_map(|(node, _)| ["-l".to_owned(), format!("logdev={node}")]));
            all.extend(fs.mkfs.iter().cloned());
            all.push(device.to_owned());
            vec![all]
        }
        FilesystemKind::Btrfs => {
            let mut all = argv(["mkfs.btrfs", "-f", "-q", "-U", uuid], fs.mkfs.iter().cloned());
            all.push(device.to_owned());
            vec![all]
        }
    }
}

fn ext(fs: &Filesystem, device: &str, journal: Option<(&str, &str)>, uuid: &str) -> Vec<Argv> {
    let block = option_value(&fs.mkfs, "-b").unwrap_or(EXT_BLOCK);
    let mut commands = Vec::new();
    if let Some((node, its_uuid)) = journal {
        let words = ["mke2fs", "-q", "-F", "-O", "journal_dev", "-b", block, "-U", its_uuid, node];
        commands.push(argv(words, []));
    }
    let kind = match fs.features {
        Features::Own => fs.kind.name(),
        Features::Ext3 => "ext3",
    };
    let mut all = argv(["mke2fs", "-q", "-F", "-t", kind, "-b", block, "-U", uuid], []);
    // Else the kernel writes inode tables and the journal while it is measured.
    let at_once = "lazy_itable_init=0,lazy_journal_init=0";
    let extended = match option_value(&fs.mkfs, "-E") {
        Some(own) => format!("{own},{at_once}"),
        None => at_once.to_owned(),
    };
    all.extend(["-E".to_owned(), extended]);
    if fs.journal == Journal::None {
        all.extend(["-O", "^has_journal"].map(str::to_owned));
    }
    all.extend(journal.iter().flat_map(|(node, _)| ["-J".to_owned(), format!("device={node}")]));
    all.extend(without_options(&fs.mkfs, &["-b", "-E"]));
    all.push(device.to_owned());
    commands.push(all);
    commands
}

/// The word after an option.
fn option_value<'a>(words: &'a [String], option: &str) -> Option<&'a str> {
    let at = words.iter().rposition(|word| word == option)?;
    words.get(at + 1).map(String::as_str)
}

fn without_options(words: &[String], options: &[&str]) -> Argv {
    let mut rest = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if options.contains(&word.as_str()) {
            words.next();
        } else {
            rest.push(word.clone());
        }
    }
    rest
}

pub(super) fn mount(fs: &Filesystem, device: &str, journal: Option<&str>, folder: &str) -> Argv {
    let mut options: Vec<String> = fs.data.iter().map(|mode| format!("data={}", mode.name())).collect();
    if fs.kind == FilesystemKind::Xfs {
        options.extend(journal.map(|node| format!("logdev={node}")));
    }
    options.extend(fs.mount.iter().cloned());
    let mut all = argv(["mount", "-t", fs.kind.name()], []);
    if !options.is_empty() {
        all.extend(["-o".to_owned(), options.join(",")]);
    }
    all.extend([device.to_owned(), folder.to_owned()]);
    all
}

pub(super) fn argv<const N: usize>(words: [&str; N], more: impl IntoIterator<Item = String>) -> Argv {
    words.iter().map(|word| (*word).to_owned()).chain(more).collect()
}
