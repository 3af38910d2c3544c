//! Files of an md array in `/sys/block/mdN/md`: `Documentation/admin-guide/md.rst`, `drivers/md/raid5.h`,
//! `drivers/md/raid10.c: setup_geo`.

use super::{Error, number_at as number};
use domain::units::Ratio;

/// The layout word in mdadm's words; `None` for a level without layouts, and for a word that is not known. An
/// array that was made without one, such as a RAID 0 of equal disks, has the word -1.
pub fn layout_name(level: &str, layout: i64) -> Option<String> {
    let layout = u64::try_from(layout).ok()?;
    match level {
        "raid10" => raid10_layout(layout),
        "raid4" | "raid5" | "raid6" => raid5_layout(layout).map(str::to_owned),
        "raid0" => ["original", "alternate"].get(layout.checked_sub(1)? as usize).map(|n| (*n).to_owned()),
        _ => None,
    }
}

/// Near copies in the low byte, far ones in the next; bit 16 makes the far ones adjacent chunks ("offset").
fn raid10_layout(layout: u64) -> Option<String> {
    let (near, far, offset) = (layout & 0xff, layout >> 8 & 0xff, layout >> 16 & 1);
    match (near, far, offset) {
        (0, ..) | (_, 0, _) => None,
        (near, 1, _) => Some(format!("near={near}")),
        (1, far, 0) => Some(format!("far={far}")),
        (1, far, _) => Some(format!("offset={far}")),
        (near, far, _) => Some(format!("near={near} far={far}")),
    }
}

fn raid5_layout(layout: u64) -> Option<&'static str> {
    const NAMES: [&str; 6] = [
        "left-asymmetric",
        "right-asymmetric",
        "left-symmetric",
        "right-symmetric",
        "parity-first",
        "parity-last",
    ];
    NAMES.get(usize::try_from(layout).ok()?).copied()
}

/// `sync_completed`: `none`, `delayed`, or `DONE / ALL` in sectors.
///
/// # Errors
/// Where it is anything else.
pub fn sync_done(text: &str) -> Result<Option<Ratio>, Error> {
    match text.trim().split_once('/') {
        Some((done, all)) => Ok(Ratio::of(number(1, done)?, number(1, all)?)),
        None if ["none", "delayed", ""].contains(&text.trim()) => Ok(None),
        None => Err(Error::value(1, text.trim(), "`none`, `delayed` or `DONE / ALL`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_words_have_the_names_that_mdadm_gives_them() {
        for (level, word, name) in [
            ("raid10", 0x102, Some("near=2")),
            ("raid10", 0x201, Some("far=2")),
            ("raid10", 0x10201, Some("offset=2")),
            ("raid5", 2, Some("left-symmetric")),
            ("raid6", 99, None),
            ("raid1", 0, None),
            ("raid10", 0, None),
            ("raid0", 0, None),
            ("raid0", -1, None),
            ("raid0", 2, Some("alternate")),
        ] {
            assert_eq!(layout_name(level, word).as_deref(), name, "{level} {word:#x}");
        }
    }

    #[test]
    fn a_resync_shows_how_far_it_is() {
        assert_eq!(sync_done("250 / 1000\n").unwrap().map(Ratio::get), Some(0.25));
        assert_eq!(sync_done("none\n").unwrap(), None);
        assert!(sync_done("soon\n").is_err());
    }
}
