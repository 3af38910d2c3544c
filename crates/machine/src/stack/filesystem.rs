//! Filesystems: mke2fs(8), mkfs.xfs(8), mkfs.btrfs(8), mount(8).

use super::commands::{self, Argv, argv};
use super::kernel::{self, Modules};
use super::layer::{Construction, Made, Plan, Program, Site};
use super::verify::{Check, Shown};
use super::{Builder, Device, Error, paths, planned};
use crate::ledger::Built;
use crate::{LocalMachine, Machine};
use domain::stack::{Features, Filesystem, FilesystemKind, Journal, JournalMode, Layer};
use parse::kernel::{ext4, mounts};
use std::fs;
use std::os::unix::fs::DirBuilderExt;

pub(super) const PROGRAMS: &[Program] = &[
    Program::of("mke2fs", "e2fsprogs"),
    Program::of("mkfs.xfs", "xfsprogs"),
    Program::of("mkfs.btrfs", "btrfs-progs"),
    Program::of("mount", "mount"),
    Program::of("umount", "mount"),
];

impl Construction for Filesystem {
    fn needs(&self, layer: &Layer, modules: Modules) -> Result<(), Error> {
        let name = self.kind.name();
        let is_known = || {
            let all = LocalMachine.text("/proc/filesystems");
            all.is_some_and(|all| all.split_whitespace().any(|known| known == name))
        };
        kernel::needs(layer, &format!("the filesystem {name}"), &format!("fs-{name}"), modules, &is_known)
    }

    fn plan(&self, plan: &Plan<'_>, all: &mut Vec<Argv>) -> Vec<String> {
        let device = plan.below.first().cloned().unwrap_or_default();
        let cleared: Vec<String> = plan.beside.into_iter().chain([&device]).cloned().collect();
        all.push(commands::wipe(&cleared));
        let with = plan.beside.map(|node| (node.as_str(), planned::UUID));
        all.extend(create(self, &device, with, planned::UUID));
        all.push(mount(self, &device, plan.beside.map(String::as_str), &format!("WORK/{}", plan.name())));
        Vec::new()
    }

    fn build(&self, builder: &mut Builder, site: &mut Site<'_, '_>) -> Result<Made, Error> {
        let (device, journal) = (&site.below[0], site.beside);
        let (uuid, journal_uuid) = (builder.uuid()?, builder.uuid()?);
        let cleared: Vec<Device> = journal.into_iter().chain([device]).cloned().collect();
        builder.run("clear the device for a filesystem", &commands::wipe(&paths(&cleared)))?;
        let with = journal.map(|journal| (journal.path.as_str(), journal_uuid.as_str()));
        // btrfs shows no number of its device's, but a path: that of its mkfs or that of its mount, by the
        // kernel. A claimed disk's own is a link, which some kernels follow.
        let node = if self.kind == FilesystemKind::Btrfs { device.node()? } else { device.path.clone() };
        for command in create(self, &node, with, &uuid) {
            builder.run("make the filesystem", &command)?;
        }
        let name = builder.name(site.layer);
        let folder = builder.context.work.join(name);
        let path = folder.to_string_lossy().into_owned();
        site.ledger.announce_built(Built::Folder { path: path.clone() })?;
        let made = fs::DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|source| Error::File { what: "make the folder", path: path.clone(), source })?;
        site.ledger.announce_built(Built::Mount {
            folder: path.clone(),
            source: node.clone(),
            number: device.number.clone(),
        })?;
        let mount = mount(self, &node, journal.map(|j| j.path.as_str()), &path);
        builder.run("mount the filesystem", &mount)?;
        let shown = verify(&LocalMachine, &site.layer.name, self, &path, device)?;
        Ok(Made { devices: Vec::new(), folder: Some(folder), shown })
    }
}

/// ext filesystems and their journal devices have to agree on it.
const EXT_BLOCK: &str = "4096";

/// Making a filesystem and, where it has one, its journal device.
fn create(fs: &Filesystem, device: &str, journal: Option<(&str, &str)>, uuid: &str) -> Vec<Argv> {
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

fn mount(fs: &Filesystem, device: &str, journal: Option<&str>, folder: &str) -> Argv {
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

/// Mount options that the kernel shows under another name, or not at all, are told and not refused: which
/// those are is each filesystem's own affair.
fn verify(
    machine: &dyn Machine,
    layer: &str,
    fs: &Filesystem,
    folder: &str,
    device: &Device,
) -> Result<Shown, Error> {
    let check = Check { layer };
    let text = machine.text("/proc/self/mountinfo").unwrap_or_default();
    let seen = mounts::mountinfo(&text).flatten().filter(|mount| mount.mountpoint == folder).last();
    check.same("type", fs.kind.name(), seen.as_ref().map(|seen| seen.filesystem.as_str()))?;
    let options = seen.map(|seen| seen.options).unwrap_or_default();
    if let Some(mode) = fs.data {
        check.same("data", mode.name(), data_mode(machine, device, &options).as_deref())?;
    }
    let unseen: Vec<&str> =
        fs.mount.iter().map(String::as_str).filter(|asked| !options.iter().any(|o| o == asked)).collect();
    let unseen = match unseen[..] {
        [] => String::new(),
        _ => format!(" (asked for, and not shown by the kernel: {})", unseen.join(",")),
    };
    Ok(format!("{} {}{unseen}", fs.kind.name(), options.join(",")))
}

/// Among the mount's options only where it is not the filesystem's own default.
fn data_mode(machine: &dyn Machine, device: &Device, options: &[String]) -> Option<String> {
    let own = options.iter().find_map(|option| option.strip_prefix("data="));
    own.map(str::to_owned).or_else(|| {
        let all = machine.text(&format!("/proc/fs/ext4/{}/options", device.name))?;
        let mode = ext4::journal(&all).name().to_owned();
        JournalMode::ALL.iter().any(|known| known.name() == mode).then_some(mode)
    })
}
