//! Block devices: `/sys/block`.

use super::Error;
use super::md;
use super::reader::{Reader, parsed};
use domain::inventory::{
    BlockDevice, BlockKind, DeviceMapper, Link, LinkKind, Loop, Mount, Queue, WriteCache,
};
use domain::order;
use domain::units::Bytes;
use parse::kernel::dm::{self, Target};
use parse::kernel::pci::megatransfers;
use parse::kernel::{ata, selection, usb};
use std::collections::BTreeMap;
use std::path::Path;

const BLOCK: &str = "/sys/block";

/// The tables of all device-mapper devices, by name.
type Tables = BTreeMap<String, Vec<Target>>;

pub(super) fn take(reader: &Reader) -> Result<Vec<BlockDevice>, Error> {
    let names = reader.names(BLOCK);
    let tables =
        if names.iter().any(|name| name.starts_with("dm-")) { tables(reader)? } else { Tables::new() };
    let mut devices = Vec::new();
    for name in names {
        let folder = format!("{BLOCK}/{name}");
        // Paths of a multipath NVMe disk are devices that nobody can open.
        if reader.text(&format!("{folder}/hidden")).as_deref() == Some("1") {
            continue;
        }
        let device = disk(reader, &name, &folder, &tables)?;
        // Drives without a medium and slots without a device; an array that is not started is there all the
        // same.
        if device.size == Some(Bytes::new(0)) && !matches!(device.kind, BlockKind::Md(_)) {
            continue;
        }
        devices.push(device);
        devices.extend(partitions(reader, &name, &folder)?);
    }
    order::by(&mut devices, |a, b| natural(&a.name).cmp(&natural(&b.name)));
    Ok(devices)
}

/// A loop device is built on the device whose filesystem holds its file.
pub(super) fn put_loops_on_their_filesystems(devices: &mut [BlockDevice], mounts: &[Mount]) {
    for device in devices {
        let BlockKind::Loop(details) = &device.kind else { continue };
        let Some(file) = details.backing_file.as_ref().map(Path::new) else { continue };
        let holding = mounts.iter().filter(|m| file.starts_with(&m.mountpoint));
        let nearest = holding.max_by_key(|m| m.mountpoint.len());
        device.built_of.extend(nearest.and_then(|m| m.device.clone()));
    }
}

/// `sda2` before `sda10`: the name, its trailing number apart.
fn natural(name: &str) -> (&str, u64) {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (stem, name[stem.len()..].parse().unwrap_or(0))
}

fn disk(reader: &Reader, name: &str, folder: &str, tables: &Tables) -> Result<BlockDevice, Error> {
    let at = |file: &str| format!("{folder}/{file}");
    let target = reader.link(folder);
    Ok(BlockDevice {
        name: name.to_owned(),
        kind: kind(reader, name, folder, tables)?,
        built_of: reader.names(&at("slaves")),
        number: reader.text(&at("dev")),
        size: size(reader, folder)?,
        read_only: reader.flag(&at("ro"))?,
        removable: reader.flag(&at("removable"))?,
        transport: target.as_deref().and_then(transport).map(str::to_owned),
        model: model(reader, folder),
        serial: serial(reader, folder),
        wwn: reader.text(&at("wwid")).or_else(|| reader.text(&at("device/wwid"))),
        queue: Some(queue(reader, folder)?),
        start: None,
        link: match (pcie(reader, &at("device/device"))?, &target) {
            (None, Some(target)) => {
                sata(reader, target)?.map_or_else(|| usb(reader, target), |it| Ok(Some(it)))?
            }
            (known, _) => known,
        },
        // -1 where the firmware names none.
        node: reader.text(&at("device/device/numa_node")).and_then(|node| node.parse().ok()),
    })
}

/// The PCIe link of the device behind an NVMe controller; `None` for a disk that is behind none.
fn pcie(reader: &Reader, device: &str) -> Result<Option<Link>, Error> {
    let speed = |name: &str| reader.parsed(&format!("{device}/{name}_link_speed"), megatransfers);
    let width = |name: &str| reader.number(&format!("{device}/{name}_link_width"));
    let of = |speed: Option<Option<u32>>, width: Option<u32>| speed.flatten().zip(width);
    let current = of(speed("current")?, width("current")?);
    let most = of(speed("max")?, width("max")?);
    let known = current.zip(most).filter(|((_, width), (_, most))| *width > 0 && *most > 0);
    let link = |((speed, width), (most_speed, most_width))| Link {
        kind: LinkKind::Pcie,
        speed,
        most_speed,
        width,
        most_width,
    };
    Ok(known.map(link))
}

/// The SATA link of a disk, by its path below `/sys/devices`: `…/ata1/host0/target0:0:0/…`. `None` behind a
/// port multiplier, where several disks have one port, and on a parallel cable.
fn sata(reader: &Reader, target: &Path) -> Result<Option<Link>, Error> {
    let port = parts(target).find_map(|part| part.strip_prefix("ata")?.parse::<u32>().ok());
    let Some(port) = port else { return Ok(None) };
    if reader.exists(&format!("/sys/class/ata_link/link{port}.0")) {
        return Ok(None);
    }
    let speed = reader.parsed(&format!("/sys/class/ata_link/link{port}/sata_spd"), ata::megatransfers)?;
    let most = reader.parsed(&format!("/sys/class/ata_device/dev{port}.0/id"), ata::most_megatransfers)?;
    Ok(speed.zip(most.flatten()).map(|(speed, most)| Link {
        kind: LinkKind::Sata,
        speed,
        most_speed: most.max(speed),
        width: 1,
        most_width: 1,
    }))
}

/// The link of a disk on USB, by its path below `/sys/devices`: `…/usb2/2-1/2-1:1.0/host6/…`. A device for
/// USB 3 that is connected by USB 2 says that it is made for 2.1 (USB 3.1, 9.6.1).
fn usb(reader: &Reader, target: &Path) -> Result<Option<Link>, Error> {
    let is_device = |part: &&str| {
        let number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        part.split_once('-').is_some_and(|(bus, ports)| number(bus) && ports.split('.').all(number))
    };
    let Some(device) = parts(target).filter(is_device).last() else { return Ok(None) };
    let folder = format!("/sys/bus/usb/devices/{device}");
    let speed = reader.parsed(&format!("{folder}/speed"), usb::megabits)?.flatten();
    let version = reader.parsed(&format!("{folder}/version"), usb::version)?;
    Ok(speed.zip(version).map(|(speed, version)| Link {
        kind: LinkKind::Usb,
        speed,
        most_speed: if version >= USB_2_1 { speed.max(SUPER_SPEED) } else { speed },
        width: 1,
        most_width: 1,
    }))
}

const USB_2_1: (u8, u8) = (2, 10);

/// Of USB 3.0, in millions of bits a second.
const SUPER_SPEED: u32 = 5000;

fn parts(path: &Path) -> impl Iterator<Item = &str> {
    path.components().filter_map(|part| part.as_os_str().to_str())
}

fn partitions(reader: &Reader, disk: &str, folder: &str) -> Result<Vec<BlockDevice>, Error> {
    let names = reader.names(folder).into_iter().filter(|name| name.starts_with(disk));
    let mut partitions = Vec::new();
    for name in names.filter(|name| reader.exists(&format!("{folder}/{name}/partition"))) {
        let at = |file: &str| format!("{folder}/{name}/{file}");
        partitions.push(BlockDevice {
            kind: BlockKind::Partition,
            built_of: vec![disk.to_owned()],
            number: reader.text(&at("dev")),
            size: size(reader, &format!("{folder}/{name}"))?,
            read_only: reader.flag(&at("ro"))?,
            removable: None,
            transport: None,
            model: None,
            serial: None,
            wwn: None,
            queue: None,
            start: reader.number(&at("start"))?.map(Bytes::from_sectors),
            link: None,
            node: None,
            name,
        });
    }
    Ok(partitions)
}

fn kind(reader: &Reader, name: &str, folder: &str, tables: &Tables) -> Result<BlockKind, Error> {
    let at = |file: &str| format!("{folder}/{file}");
    Ok(match name.trim_end_matches(|c: char| c.is_ascii_digit()) {
        _ if !reader.names(&at("md")).is_empty() => BlockKind::Md(Box::new(md::take(reader, &at("md"))?)),
        "dm-" => BlockKind::DeviceMapper(Box::new(mapping(reader, folder, tables)?)),
        "loop" => BlockKind::Loop(Box::new(Loop {
            backing_file: reader.text(&at("loop/backing_file")),
            offset: reader.bytes(&at("loop/offset"))?,
            direct_io: reader.flag(&at("loop/dio"))?,
        })),
        "zram" | "ram" => BlockKind::Memory,
        "sr" => BlockKind::Optical,
        _ => BlockKind::Disk,
    })
}

fn mapping(reader: &Reader, folder: &str, tables: &Tables) -> Result<DeviceMapper, Error> {
    let name = reader.text(&format!("{folder}/dm/name"));
    let targets = name.as_ref().and_then(|name| tables.get(name)).map(Vec::as_slice).unwrap_or_default();
    let mut kinds: Vec<String> = targets.iter().map(|t| t.kind.clone()).collect();
    kinds.dedup();
    Ok(DeviceMapper {
        owner: reader.text(&format!("{folder}/dm/uuid")).and_then(|uuid| dm::owner(&uuid)),
        targets: kinds,
        crypt: targets.iter().find_map(|t| t.crypt.clone()),
        suspended: reader.flag(&format!("{folder}/dm/suspended"))?,
        name,
    })
}

/// What `dmsetup table` shows, which without `--showkeys` is no key; empty where it is missing or not
/// allowed.
fn tables(reader: &Reader) -> Result<Tables, Error> {
    let argv = ["dmsetup", "table"];
    match reader.output(&argv) {
        Some(text) => parsed(&argv.join(" "), &text, dm::parse),
        None => Ok(Tables::new()),
    }
}

fn size(reader: &Reader, folder: &str) -> Result<Option<Bytes>, Error> {
    Ok(reader.number(&format!("{folder}/size"))?.map(Bytes::from_sectors))
}

/// From the path of the device in `/sys/devices`; `None` for one that the kernel made itself.
fn transport(target: &Path) -> Option<&'static str> {
    const SIGNS: [(&str, &str); 9] = [
        ("/usb", "usb"),
        ("/nvme", "nvme"),
        ("/virtio", "virtio"),
        ("/ata", "sata"),
        ("/mmc", "mmc"),
        ("/vbd", "xen"),
        ("/nbd", "nbd"),
        ("/rbd", "rbd"),
        ("/host", "scsi"),
    ];
    let text = target.to_string_lossy();
    SIGNS.iter().find(|(sign, _)| text.contains(sign)).map(|(_, name)| *name)
}

fn model(reader: &Reader, folder: &str) -> Option<String> {
    let vendor = reader.text(&format!("{folder}/device/vendor"));
    // `ATA` stands for every SATA disk, and virtio gives a PCI number.
    let vendor = vendor.filter(|v| v != "ATA" && !v.starts_with("0x"));
    let model = reader
        .text(&format!("{folder}/device/model"))
        .or_else(|| reader.text(&format!("{folder}/device/name")));
    model.map(|model| vendor.map_or(model.clone(), |vendor| format!("{vendor} {model}")))
}

fn serial(reader: &Reader, folder: &str) -> Option<String> {
    let own = ["serial", "device/serial"].iter().find_map(|file| reader.text(&format!("{folder}/{file}")));
    own.or_else(|| {
        // SCSI: page 0x80 of the vital product data, four bytes of head and then text (SPC-4, 7.8.15).
        let page = reader.bytes_of(&format!("{folder}/device/vpd_pg80"))?;
        let text = String::from_utf8_lossy(page.get(4..)?).trim_matches(['\0', ' ']).to_owned();
        (!text.is_empty()).then_some(text)
    })
}

fn queue(reader: &Reader, folder: &str) -> Result<Queue, Error> {
    let at = |file: &str| format!("{folder}/queue/{file}");
    let kib = |file: &str| -> Result<Option<Bytes>, Error> {
        Ok(reader.number::<u32>(&at(file))?.map(|kib| Bytes::from_kib(kib.into())))
    };
    let schedulers = selection::parse(&reader.text(&at("scheduler")).unwrap_or_default());
    let hardware_queues = reader.names(&format!("{folder}/mq")).len() as u32;
    Ok(Queue {
        rotational: reader.flag(&at("rotational"))?,
        scheduler: schedulers.chosen,
        available_schedulers: schedulers.choices,
        read_ahead: kib("read_ahead_kb")?,
        nr_requests: reader.number(&at("nr_requests"))?,
        max_request: kib("max_sectors_kb")?,
        write_cache: reader.text(&at("write_cache")).and_then(|text| match text.as_str() {
            "write back" => Some(WriteCache::WriteBack),
            "write through" => Some(WriteCache::WriteThrough),
            _ => None,
        }),
        logical_block: reader.bytes(&at("logical_block_size"))?,
        physical_block: reader.bytes(&at("physical_block_size"))?,
        optimal_io: reader.bytes(&at("optimal_io_size"))?.filter(|size| size.get() > 0),
        zoned: reader.text(&at("zoned")).filter(|zoned| zoned != "none"),
        hardware_queues: (hardware_queues > 0).then_some(hardware_queues),
        device_depth: reader.number(&format!("{folder}/device/queue_depth"))?,
    })
}
