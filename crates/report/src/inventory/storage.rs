//! Block devices as a tree, filesystems at their leaves.

use super::Style;
use super::page::{Page, count, list_of};
use domain::inventory::{
    BlockDevice, BlockKind, Crypt, DeviceMapper, Inventory, JournalMode, Loop, Md, Mount, Queue, WriteCache,
};
use std::collections::BTreeSet;

/// A bound on the depth of the tree, so that a machine that says it is built on itself is shown too.
const DEEPEST: usize = 16;

pub(super) fn show(inventory: &Inventory, style: Style, page: &mut Page) {
    page.section("Storage");
    let mut tree = Tree { inventory, style, page, shown: BTreeSet::new() };
    for root in inventory.roots() {
        tree.device(root, 0);
    }
    for mount in inventory.mounts.iter().filter(|m| m.device.is_none()) {
        let from =
            if mount.source.starts_with('/') { format!(" from {}", mount.source) } else { String::new() };
        tree.page.line(format!("{}{from}", filesystem(mount, style)));
    }
}

struct Tree<'a> {
    inventory: &'a Inventory,
    style: Style,
    page: &'a mut Page,
    shown: BTreeSet<&'a str>,
}

impl<'a> Tree<'a> {
    /// A device that stands on several others is shown in full below the first of them.
    fn device(&mut self, device: &'a BlockDevice, depth: usize) {
        let margin = "  ".repeat(depth);
        if !self.shown.insert(&device.name) || depth > DEEPEST {
            self.page.line(format!("{margin}{} (above)", device.name));
            return;
        }
        self.page.hanging(4, format!("{margin}{}", heading(device)));
        if let Some(queue) = &device.queue {
            self.lines(depth, &[queue_line(queue, self.style)]);
        }
        if let BlockKind::Md(md) = &device.kind {
            self.lines(depth, &md_lines(md));
        }
        for mount in self.inventory.mounts_of(&device.name) {
            self.lines(depth, &[filesystem(mount, self.style)]);
        }
        for above in self.inventory.built_on(&device.name) {
            self.device(above, depth + 1);
        }
    }

    /// Lines about a device, further in than its name.
    fn lines(&mut self, depth: usize, lines: &[String]) {
        for line in lines.iter().filter(|line| !line.is_empty()) {
            self.page.line(format!("{}    {line}", "  ".repeat(depth)));
        }
    }
}

fn heading(device: &BlockDevice) -> String {
    let parts = [
        kind(device),
        device.size.map(|size| size.to_string()),
        device.model.clone(),
        device.read_only.filter(|ro| *ro).map(|_| "read-only".to_owned()),
        device.removable.filter(|removable| *removable).map(|_| "removable".to_owned()),
    ];
    format!("{}: {}", device.name, list_of(parts.into_iter().flatten()))
}

pub(crate) fn kind(device: &BlockDevice) -> Option<String> {
    Some(match &device.kind {
        BlockKind::Disk => {
            format!("{}disk", device.transport.as_ref().map(|t| format!("{t} ")).unwrap_or_default())
        }
        BlockKind::Partition => "partition".to_owned(),
        BlockKind::Md(md) => array(md),
        BlockKind::DeviceMapper(dm) => mapping(dm),
        BlockKind::Loop(details) => loop_device(details),
        BlockKind::Memory => "in memory".to_owned(),
        BlockKind::Optical => "optical drive".to_owned(),
    })
}

fn array(md: &Md) -> String {
    let parts = [
        Some(md.level.clone().unwrap_or_else(|| "array".to_owned())),
        md.layout.clone(),
        md.chunk.map(|chunk| format!("chunk {chunk}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn md_lines(md: &Md) -> Vec<String> {
    let state = [
        md.state.clone(),
        sync(md),
        md.degraded.filter(|missing| *missing > 0).map(|missing| format!("DEGRADED: {missing} missing")),
        Some(bitmap(md)),
        md.stripe_cache_size.map(|size| format!("stripe cache {size}")),
        md.group_thread_count
            .map(|n| if n == 0 { "one thread".to_owned() } else { format!("{n} worker threads a node") }),
    ];
    let member = |m: &domain::inventory::MdMember| {
        let state: Vec<&str> = m.state.iter().map(String::as_str).filter(|s| *s != "in_sync").collect();
        if state.is_empty() { m.device.clone() } else { format!("{} ({})", m.device, state.join(" ")) }
    };
    let members: Vec<String> = md.members.iter().map(member).collect();
    let members = if members.is_empty() { String::new() } else { format!("members {}", members.join(", ")) };
    vec![list_of(state.into_iter().flatten()), members]
}

fn sync(md: &Md) -> Option<String> {
    let action = md.sync_action.as_ref()?;
    Some(match md.sync_done {
        Some(done) => format!("{action} {done} done"),
        None if action == "idle" => "in sync".to_owned(),
        None => action.clone(),
    })
    .filter(|_| action != "idle" || md.degraded == Some(0))
}

fn bitmap(md: &Md) -> String {
    match (md.bitmap.as_deref(), md.bitmap_chunk) {
        (None | Some("none"), _) => "no bitmap".to_owned(),
        (Some("file"), _) => "bitmap in a file".to_owned(),
        (Some(_), Some(chunk)) => format!("bitmap, {chunk} a bit"),
        (Some(_), None) => "bitmap".to_owned(),
    }
}

fn mapping(dm: &DeviceMapper) -> String {
    let what = match (&dm.crypt, &dm.owner) {
        (Some(crypt), owner) => format!("{} {}", owner.as_deref().unwrap_or("crypt"), cipher(crypt)),
        (None, Some(owner)) if dm.targets.is_empty() => owner.clone(),
        (None, Some(owner)) => format!("{owner} {}", dm.targets.join("+")),
        (None, None) if dm.targets.is_empty() => "mapping".to_owned(),
        (None, None) => dm.targets.join("+"),
    };
    let name = dm.name.as_ref().map(|name| format!(" `{name}`")).unwrap_or_default();
    let suspended = if dm.suspended == Some(true) { ", SUSPENDED" } else { "" };
    format!("{what}{name}{suspended}")
}

fn cipher(crypt: &Crypt) -> String {
    let key = crypt.key.map(|key| format!(" {}-bit key,", key.get() * 8)).unwrap_or_default();
    let flags = crypt.flags.iter().map(|flag| format!(", {flag}")).collect::<String>();
    format!("{}{key} {} sectors{flags}", crypt.cipher, crypt.sector)
}

fn loop_device(details: &Loop) -> String {
    let file = details.backing_file.as_ref().map(|file| format!(" on {file}")).unwrap_or_default();
    let offset = details.offset.filter(|o| o.get() > 0).map(|o| format!(" from {o}")).unwrap_or_default();
    let direct = match details.direct_io {
        Some(true) => ", direct I/O",
        Some(false) => ", through the page cache",
        None => "",
    };
    format!("loop{file}{offset}{direct}")
}

fn queue_line(queue: &Queue, style: Style) -> String {
    let others = queue.available_schedulers.iter().filter(|s| Some(*s) != queue.scheduler.as_ref());
    let others: Vec<&str> = others.map(String::as_str).collect();
    let parts = [
        queue.rotational.map(|r| if r { "rotational" } else { "non-rotational" }.to_owned()),
        queue.scheduler.as_ref().map(|scheduler| match style {
            Style::Full if !others.is_empty() => format!("scheduler {scheduler} (also {})", others.join(" ")),
            _ => format!("scheduler {scheduler}"),
        }),
        queue.read_ahead.map(|size| format!("read-ahead {size}")),
        queue.nr_requests.map(|n| format!("{n} requests")),
        queue.max_request.filter(|_| style == Style::Full).map(|size| format!("{size} at most")),
        queue
            .hardware_queues
            .filter(|_| style == Style::Full)
            .map(|n| count(n.into(), "hardware queue", "hardware queues")),
        queue.write_cache.map(|cache| match cache {
            WriteCache::WriteBack => "write-back cache".to_owned(),
            WriteCache::WriteThrough => "no volatile cache".to_owned(),
        }),
        blocks(queue),
        queue.optimal_io.filter(|_| style == Style::Full).map(|size| format!("best in {size}")),
        queue.zoned.clone(),
    ];
    list_of(parts.into_iter().flatten())
}

fn blocks(queue: &Queue) -> Option<String> {
    match (queue.logical_block?, queue.physical_block?) {
        (logical, physical) if logical == physical => Some(format!("blocks {logical}")),
        (logical, physical) => Some(format!("blocks {logical} on {physical}")),
    }
}

pub(crate) fn filesystem(mount: &Mount, style: Style) -> String {
    let journal = mount.journal.map(|mode| match mode {
        JournalMode::Off => ", no journal".to_owned(),
        mode => format!(", journal data={}", mode.name()),
    });
    let read_only = mount.options.iter().any(|o| o == "ro");
    let options = match style {
        Style::Full => format!(" ({})", mount.options.join(",")),
        Style::Brief if read_only => " (ro)".to_owned(),
        Style::Brief => String::new(),
    };
    format!("{} on {}{options}{}", mount.filesystem, mount.mountpoint, journal.unwrap_or_default())
}
