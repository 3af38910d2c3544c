//! A filesystem, made and mounted on the one device below: a folder for workloads.

use super::layer::{Described, Kind, Misfit, misfit};
use super::values::Values;
use super::{Part, StackError};
use std::fmt;

type Result<T> = std::result::Result<T, StackError>;

pub(super) const KIND: Kind = Kind {
    name: "filesystem",
    keys: &["kind", "use", "on", "type", "features", "data", "journal", "mkfs", "mount"],
    read: |values| read(values).map(Part::Filesystem),
};

/// A filesystem, made and mounted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Filesystem {
    /// Which one.
    pub kind: FilesystemKind,
    /// Whether an ext4 is made with ext3's features alone.
    pub features: Features,
    /// ext3 and ext4: `data=`; `None` for the kernel's own choice.
    pub data: Option<JournalMode>,
    /// Where its journal is.
    pub journal: Journal,
    /// Further words for mkfs.
    pub mkfs: Vec<String>,
    /// Further mount options.
    pub mount: Vec<String>,
}

/// Filesystems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "these are their names")]
pub enum FilesystemKind {
    Ext2,
    Ext3,
    Ext4,
    Xfs,
    Btrfs,
}

impl FilesystemKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Ext2, Self::Ext3, Self::Ext4, Self::Xfs, Self::Btrfs];

    /// As mount(8) takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ext2 => "ext2",
            Self::Ext3 => "ext3",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// Whether it is one of the ext family.
    pub const fn is_ext(self) -> bool {
        matches!(self, Self::Ext2 | Self::Ext3 | Self::Ext4)
    }
}

/// Which features an ext4 is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Features {
    /// Its own.
    Own,
    /// Those of ext3: no extents, no checksums.
    Ext3,
}

/// ext3's and ext4's `data=` (ext4(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum JournalMode {
    /// Data goes through the journal.
    Journal,
    /// Data goes to its place before its metadata goes to the journal.
    Ordered,
    /// Data goes to its place at any time.
    Writeback,
}

impl JournalMode {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Journal, Self::Ordered, Self::Writeback];

    /// As mount(8) takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Journal => "journal",
            Self::Ordered => "ordered",
            Self::Writeback => "writeback",
        }
    }
}

/// Where a filesystem's journal is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Journal {
    /// In the filesystem; what has no journal (ext2, btrfs) has none.
    Internal,
    /// Left out (ext4).
    None,
    /// On the one device that this layer gives.
    External(String),
}

impl Described for Filesystem {
    /// A folder is no device.
    fn gives(&self, _below: u32) -> u32 {
        0
    }

    fn fits(&self, below: u32) -> std::result::Result<(), Misfit> {
        if below != 1 {
            return misfit("on", format!("gives {below} devices, and a filesystem stands on one"));
        }
        Ok(())
    }

    fn is_folder(&self) -> bool {
        true
    }

    fn beside(&self) -> Option<(&'static str, &String)> {
        match &self.journal {
            Journal::External(layer) => Some(("journal", layer)),
            Journal::Internal | Journal::None => None,
        }
    }

    fn beside_mut(&mut self) -> Option<&mut String> {
        match &mut self.journal {
            Journal::External(layer) => Some(layer),
            Journal::Internal | Journal::None => None,
        }
    }
}

impl fmt::Display for Filesystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        if self.features == Features::Ext3 {
            f.write_str(" with ext3's features")?;
        }
        self.data.iter().try_for_each(|mode| write!(f, " data={}", mode.name()))?;
        match &self.journal {
            Journal::Internal => Ok(()),
            Journal::None => f.write_str(" without journal"),
            Journal::External(layer) => write!(f, " journal on {layer}"),
        }
    }
}

fn read(values: &Values<'_>) -> Result<Filesystem> {
    let kinds = FilesystemKind::ALL.map(|kind| (kind.name(), kind));
    let modes = JournalMode::ALL.map(|mode| (mode.name(), Some(mode)));
    let kind = values.one_of("type", &kinds, FilesystemKind::Ext4)?;
    let features =
        values.one_of("features", &[("own", Features::Own), ("ext3", Features::Ext3)], Features::Own)?;
    let data = values.one_of("data", &modes, None)?;
    let journal = match values.text("journal") {
        None | Some("internal") => Journal::Internal,
        Some("none") => Journal::None,
        Some(layer) => Journal::External(layer.to_owned()),
    };
    let has_modes = matches!(kind, FilesystemKind::Ext3 | FilesystemKind::Ext4) && journal != Journal::None;
    let has_external = matches!(kind, FilesystemKind::Ext3 | FilesystemKind::Ext4 | FilesystemKind::Xfs);
    // A factor over filesystems sets these for all of them. Where one has no such thing, it is left out.
    Ok(Filesystem {
        kind,
        features: if kind == FilesystemKind::Ext4 { features } else { Features::Own },
        data: data.filter(|_| has_modes),
        journal: match journal {
            Journal::External(layer) if has_external => Journal::External(layer),
            Journal::None if kind == FilesystemKind::Ext4 => Journal::None,
            _ => Journal::Internal,
        },
        mkfs: mkfs_words(values)?,
        mount: mount_options(values)?,
    })
}

/// Words for mkfs, none of which can name another device or file: it is root who runs this.
fn mkfs_words(values: &Values<'_>) -> Result<Vec<String>> {
    let words = values.words("mkfs");
    let mut after_option = false;
    for word in &words {
        let names_a_place = word.contains('/')
            || ["device=", "logdev=", "rtdev=", "name=", "file="].iter().any(|name| word.contains(name));
        if names_a_place {
            return values.refuse(
                "mkfs",
                format!("holds `{word}`, which names a file or a device; that is for Flyball to do"),
            );
        }
        let is_option = word.starts_with('-');
        if !is_option && !after_option {
            return values.refuse("mkfs", format!("holds `{word}`, which belongs to no option"));
        }
        // An option takes one word at the most.
        after_option = is_option;
    }
    Ok(words)
}

fn mount_options(values: &Values<'_>) -> Result<Vec<String>> {
    const REFUSED: [&str; 12] = [
        "data",
        "journal_dev",
        "journal_path",
        "logdev",
        "rtdev",
        "device",
        "loop",
        "remount",
        "bind",
        "rbind",
        "move",
        "ro",
    ];
    let text = values.text("mount").unwrap_or_default();
    let options: Vec<String> = text.split([',', ' ']).filter(|o| !o.is_empty()).map(str::to_owned).collect();
    for option in &options {
        let name = option.split('=').next().unwrap_or_default();
        if REFUSED.contains(&name) || option.contains('/') {
            let hint = if name == "data" { "; it is a key of its own: `data = \"ordered\"`" } else { "" };
            return values
                .refuse("mount", format!("holds `{option}`, which Flyball cannot let through{hint}"));
        }
    }
    Ok(options)
}
