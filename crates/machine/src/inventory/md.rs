//! An md array: `/sys/block/mdN/md`.

use super::Error;
use super::reader::Reader;
use domain::inventory::{Md, MdMember};
use domain::order;
use domain::units::Bytes;
use parse::kernel::md::{layout_name, sync_done};
use std::str::FromStr;

pub(super) fn take(reader: &Reader, folder: &str) -> Result<Md, Error> {
    let at = |file: &str| format!("{folder}/{file}");
    let level = reader.text(&at("level"));
    let layout: Option<i64> = first_number(reader, &at("layout"))?;
    Ok(Md {
        layout: level.as_ref().zip(layout).and_then(|(level, word)| layout_name(level, word)),
        // An array without chunks says zero.
        chunk: first_number(reader, &at("chunk_size"))?.filter(|size| *size > 0).map(Bytes::new),
        metadata: reader.text(&at("metadata_version")),
        state: reader.text(&at("array_state")),
        sync_action: reader.text(&at("sync_action")),
        sync_done: reader.parsed(&at("sync_completed"), sync_done)?.flatten(),
        degraded: reader.number(&at("degraded"))?,
        raid_disks: first_number(reader, &at("raid_disks"))?,
        bitmap: reader.text(&at("bitmap/location")),
        bitmap_chunk: reader.bytes(&at("bitmap/chunksize"))?.filter(|size| size.get() > 0),
        stripe_cache_size: reader.number(&at("stripe_cache_size"))?,
        group_thread_count: reader.number(&at("group_thread_cnt"))?,
        consistency_policy: reader.text(&at("consistency_policy")),
        members: members(reader, folder),
        level,
    })
}

/// While an array changes its shape, the old value follows in brackets: `4 (3)`.
fn first_number<N: FromStr>(reader: &Reader, path: &str) -> Result<Option<N>, Error> {
    reader.parsed(path, |text| parse::kernel::number(text.split(' ').next().unwrap_or_default()))
}

fn members(reader: &Reader, folder: &str) -> Vec<MdMember> {
    let names = reader.names(folder).into_iter();
    let member = |name: String| {
        let device = name.strip_prefix("dev-")?.to_owned();
        let state = reader.text(&format!("{folder}/{name}/state")).unwrap_or_default();
        let slot = reader.text(&format!("{folder}/{name}/slot"));
        Some(MdMember {
            device,
            // `none` for a spare, `journal` for a journal.
            slot: slot.and_then(|slot| slot.parse().ok()),
            state: state.split(',').filter(|s| !s.is_empty()).map(str::to_owned).collect(),
        })
    };
    let mut members: Vec<MdMember> = names.filter_map(member).collect();
    order::by_key(&mut members, |m| (m.slot.is_none(), m.slot));
    members
}
