//! Layouts drawn by hand, and what holds of each: every block lies somewhere, and no place has two.

use super::*;
use domain::stack::{Bitmap, Resync};
use proptest::prelude::*;
use std::collections::BTreeMap;

const KIB: u64 = 1024;

fn md(level: MdLevel, layout: Option<&str>, chunk_kib: u64) -> Md {
    Md {
        level,
        layout: layout.map(str::to_owned),
        chunk: Some(Bytes::from_kib(chunk_kib)),
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

/// The first rows of chunks of each member: numbers are chunks of the array, `P` and `Q` parity, `.` nothing.
fn draw(geometry: &Geometry, chunk: u64, rows: u64) -> String {
    let cell = |member, row| match geometry.holds(Place { member, offset: Bytes::new(row * chunk) }) {
        Holds::Data(offset) => (offset.get() / chunk).to_string(),
        Holds::Parity => "P".into(),
        Holds::SecondParity => "Q".into(),
        Holds::Nothing => ".".into(),
    };
    let line = |row| (0..geometry.members()).map(|m| cell(m, row)).collect::<Vec<_>>().join(" ");
    (0..rows).map(line).collect::<Vec<_>>().join("\n")
}

fn check(level: MdLevel, layout: Option<&str>, members: u32, rows: u64, drawn: &str) {
    let geometry = Geometry::over(&md(level, layout, 64), members, Bytes::from_kib(64 * rows)).unwrap();
    let drawn: Vec<&str> = drawn.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(draw(&geometry, 64 * KIB, rows).lines().collect::<Vec<_>>(), drawn, "{level:?} {layout:?}");
    whole(&geometry, 64 * KIB).unwrap();
}

/// Every unit of the array has all its copies, each where nothing else is, and [`Geometry::holds`] is the
/// inverse of [`Geometry::place`]. Gives how many places were looked at.
fn whole(geometry: &Geometry, unit: u64) -> Result<usize, TestCaseError> {
    let mut taken = BTreeMap::new();
    for at in (0..geometry.size().get()).step_by(unit as usize).map(Bytes::new) {
        for copy in 0..geometry.copies() {
            let place = geometry.place(at, copy);
            prop_assert_eq!(geometry.holds(place), Holds::Data(at));
            let before = taken.insert(place, at);
            prop_assert!(before.is_none(), "{:?} has {:?} and {}", place, before, at);
        }
    }
    if let Map::Parity(_) = geometry.map {
        for number in 0..geometry.used / geometry.chunk {
            let stripe = geometry.stripe(number);
            for member in [Some(stripe.parity), stripe.second].into_iter().flatten() {
                for inside in (0..geometry.chunk).step_by(unit as usize) {
                    let offset = Bytes::new(number * geometry.chunk + inside);
                    let before = taken.insert(Place { member, offset }, Bytes::default());
                    prop_assert!(before.is_none(), "parity at member {member} of {stripe:?}");
                }
            }
        }
        prop_assert_eq!(taken.len() as u64, u64::from(geometry.members) * geometry.used / unit);
    }
    Ok(taken.len())
}

#[test]
fn raid0_goes_over_all_members_and_on_with_those_that_are_longer() {
    let sizes = [3, 1, 5, 5].map(|chunks| Bytes::from_kib(64 * chunks + 60));
    let original = Geometry::new(&md(MdLevel::Raid0, Some("original"), 64), &sizes).unwrap();
    assert_eq!(draw(&original, 64 * KIB, 5), "0 1 2 3\n6 . 4 5\n9 . 7 8\n. . 10 11\n. . 12 13");
    let alternate = Geometry::new(&md(MdLevel::Raid0, Some("alternate"), 64), &sizes).unwrap();
    assert_eq!(draw(&alternate, 64 * KIB, 5), "0 1 2 3\n4 . 5 6\n7 . 8 9\n. . 10 11\n. . 12 13");
    assert_eq!(original.size(), Bytes::from_kib(64 * 14));
    whole(&original, 4 * KIB).unwrap();
    whole(&alternate, 4 * KIB).unwrap();
}

#[test]
fn linear_goes_from_one_member_to_the_next() {
    let sizes = [Bytes::from_kib(8), Bytes::from_kib(4), Bytes::from_kib(12)];
    let mut linear = md(MdLevel::Linear, None, 4);
    let geometry = Geometry::new(&linear, &sizes).unwrap();
    assert_eq!(draw(&geometry, 4 * KIB, 3), "0 2 3\n1 . 4\n. . 5");
    let pieces: Vec<u64> =
        geometry.pieces(Bytes::from_kib(4), Bytes::from_kib(16)).map(|p| p.len.get() / KIB).collect();
    assert_eq!(pieces, [4, 4, 8]);
    linear.chunk = Some(Bytes::from_kib(8));
    assert!(Geometry::new(&linear, &sizes).is_err(), "a member smaller than what sizes are rounded to");
}

#[test]
fn raid4_and_the_layouts_of_raid5_put_parity_where_md_does() {
    use MdLevel::{Raid4, Raid5};
    check(Raid4, None, 4, 2, "0 1 2 P\n3 4 5 P");
    let la = "0 1 2 P\n3 4 P 5\n6 P 7 8\nP 9 10 11\n12 13 14 P";
    check(Raid5, Some("left-asymmetric"), 4, 5, la);
    let ls = "0 1 2 P\n4 5 P 3\n8 P 6 7\nP 9 10 11\n12 13 14 P";
    check(Raid5, Some("left-symmetric"), 4, 5, ls);
    check(Raid5, None, 4, 5, ls);
    check(Raid5, Some("right-asymmetric"), 4, 5, "P 0 1 2\n3 P 4 5\n6 7 P 8\n9 10 11 P\nP 12 13 14");
    check(Raid5, Some("right-symmetric"), 4, 5, "P 0 1 2\n5 P 3 4\n7 8 P 6\n9 10 11 P\nP 12 13 14");
    check(Raid5, Some("parity-first"), 3, 2, "P 0 1\nP 2 3");
    check(Raid5, Some("parity-last"), 3, 2, "0 1 P\n2 3 P");
}

#[test]
fn the_layouts_of_raid6_put_both_parities_where_md_does() {
    let check = |layout: &str, drawn: &str| check(MdLevel::Raid6, Some(layout), 5, 5, drawn);
    check("left-asymmetric", "Q 0 1 2 P\n3 4 5 P Q\n6 7 P Q 8\n9 P Q 10 11\nP Q 12 13 14");
    check("ddf-N-restart", "0 1 2 P Q\n3 4 P Q 5\n6 P Q 7 8\nP Q 9 10 11\nQ 12 13 14 P");
    let right = "P Q 0 1 2\n3 P Q 4 5\n6 7 P Q 8\n9 10 11 P Q\nQ 12 13 14 P";
    check("right-asymmetric", right);
    check("ddf-zero-restart", right);
    check("left-symmetric", "Q 0 1 2 P\n3 4 5 P Q\n7 8 P Q 6\n11 P Q 9 10\nP Q 12 13 14");
    check("right-symmetric", "P Q 0 1 2\n5 P Q 3 4\n7 8 P Q 6\n9 10 11 P Q\nQ 12 13 14 P");
    check("ddf-N-continue", "0 1 2 Q P\n4 5 Q P 3\n8 Q P 6 7\nQ P 9 10 11\nP 12 13 14 Q");
    check("parity-first", "P Q 0 1 2\nP Q 3 4 5\nP Q 6 7 8\nP Q 9 10 11\nP Q 12 13 14");
    check("parity-last", "0 1 2 P Q\n3 4 5 P Q\n6 7 8 P Q\n9 10 11 P Q\n12 13 14 P Q");
    check("left-asymmetric-6", "0 1 2 P Q\n3 4 P 5 Q\n6 P 7 8 Q\nP 9 10 11 Q\n12 13 14 P Q");
    check("left-symmetric-6", "0 1 2 P Q\n4 5 P 3 Q\n8 P 6 7 Q\nP 9 10 11 Q\n12 13 14 P Q");
    check("right-asymmetric-6", "P 0 1 2 Q\n3 P 4 5 Q\n6 7 P 8 Q\n9 10 11 P Q\nP 12 13 14 Q");
    check("right-symmetric-6", "P 0 1 2 Q\n5 P 3 4 Q\n7 8 P 6 Q\n9 10 11 P Q\nP 12 13 14 Q");
    check("parity-first-6", "P 0 1 2 Q\nP 3 4 5 Q\nP 6 7 8 Q\nP 9 10 11 Q\nP 12 13 14 Q");
}

#[test]
fn raid10_lays_out_near_far_and_offset_copies() {
    let check =
        |layout: &str, members, rows, drawn: &str| check(MdLevel::Raid10, Some(layout), members, rows, drawn);
    check("n2", 4, 2, "0 0 1 1\n2 2 3 3");
    check("n2", 3, 3, "0 0 1\n1 2 2\n3 3 .");
    check("n3", 5, 3, "0 0 0 1 1\n1 2 2 2 3\n3 3 4 4 4");
    check("n2", 2, 2, "0 0\n1 1");
    check("f2", 4, 4, "0 1 2 3\n4 5 6 7\n3 0 1 2\n7 4 5 6");
    check("f2", 3, 5, "0 1 2\n3 4 5\n2 0 1\n5 3 4\n. . .");
    check("f3", 4, 3, "0 1 2 3\n3 0 1 2\n2 3 0 1");
    check("o2", 4, 4, "0 1 2 3\n3 0 1 2\n4 5 6 7\n7 4 5 6");
    check("o3", 3, 6, "0 1 2\n2 0 1\n1 2 0\n3 4 5\n5 3 4\n4 5 3");
    check("o2", 3, 5, "0 1 2\n2 0 1\n3 4 5\n5 3 4\n. . .");
}

#[test]
fn far_sets_keep_copies_among_few_members() {
    let draw_word = |word, members: usize, rows: u64| {
        let layout = Raid10Layout::from_word(word).unwrap();
        assert_eq!(layout.word(), word);
        let sizes = vec![Bytes::from_kib(64 * rows); members];
        let geometry = Geometry::raid10(layout, Bytes::from_kib(64), &sizes).unwrap();
        whole(&geometry, 64 * KIB).unwrap();
        draw(&geometry, 64 * KIB, rows)
    };
    assert_eq!(draw_word(0x4_0201, 4, 2), "0 1 2 3\n1 0 3 2");
    assert_eq!(draw_word(0x4_0201, 5, 2), "0 1 2 3 4\n1 0 4 2 3");
    assert_eq!(draw_word(0x5_0201, 4, 2), "0 1 2 3\n1 0 3 2");
    assert_eq!(draw_word(0x2_0201, 6, 2), "0 1 2 3 4 5\n2 0 1 5 3 4");
    assert_eq!(draw_word(0x0_0202, 4, 2), "0 0 1 1\n1 1 0 0");
    assert_eq!(draw_word(0x4_0202, 8, 2), "0 0 1 1 2 2 3 3\n1 1 0 0 3 3 2 2");
}

#[test]
fn the_size_of_a_raid0_with_an_odd_chunk_is_what_the_kernels_mask_leaves() {
    // 24 sectors a chunk, 10 chunks a member: 240 sectors & !23 = 0b1110_0000 | … = 224 + 8.
    let geometry = Geometry::over(&md(MdLevel::Raid0, None, 12), 2, Bytes::from_kib(120)).unwrap();
    assert_eq!(geometry.size(), Bytes::from_sectors(2 * (240 & !23)));
}

#[test]
fn what_the_kernel_would_not_run_is_refused_with_the_reason() {
    let refused = |level, layout, chunk, members, why: &str| {
        let error = Geometry::over(&md(level, layout, chunk), members, Bytes::from_kib(1024)).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    };
    refused(MdLevel::Raid10, Some("n3"), 64, 2, "3 copies of everything, more than members");
    refused(MdLevel::Raid10, Some("n1"), 64, 2, "one copy");
    refused(MdLevel::Raid10, Some("x2"), 64, 2, "`x2` is no layout of RAID10");
    refused(MdLevel::Raid10, Some(""), 64, 2, "`` is no layout of RAID10");
    refused(MdLevel::Raid5, Some("left-symmetric-6"), 64, 4, "is no layout of it");
    refused(MdLevel::Raid6, None, 64, 3, "4 members at least");
    refused(MdLevel::Raid5, None, 12, 4, "no power of two");
    refused(MdLevel::Raid5, None, 2048, 4, "less than 2097152 bytes");
    refused(MdLevel::Raid0, Some("n2"), 64, 4, "no layout of RAID0");
    let sizes = [Bytes::from_kib(640); 10];
    let error = |word| {
        Geometry::raid10(Raid10Layout::from_word(word).unwrap(), Bytes::from_kib(64), &sizes).unwrap_err()
    };
    assert!(error(0x4_0202).reason.contains("mixes up"), "{}", error(0x4_0202));
    assert!(error(0x1_0203).reason.contains("overwrites"), "{}", error(0x1_0203));
}

prop_compose! {
    fn arrays()(
        level in prop::sample::select(&MdLevel::ALL[..]),
        which in any::<prop::sample::Index>(),
        chunk_pages in 0_u32..4,
        members in 2_usize..9,
        pages in prop::collection::vec(1_u64..200, 9),
    ) -> Result<Geometry, NoGeometry> {
        let names: Vec<String> = match level {
            MdLevel::Linear | MdLevel::Raid1 | MdLevel::Raid4 => vec![String::new()],
            MdLevel::Raid0 => vec!["original".into(), "alternate".into()],
            MdLevel::Raid5 => ParityLayout::RAID5.iter().map(|l| l.name().into()).collect(),
            MdLevel::Raid6 => ParityLayout::RAID6.iter().map(|l| l.name().into()).collect(),
            MdLevel::Raid10 => ["n", "f", "o"].iter().flat_map(|k| (1..5).map(move |c| format!("{k}{c}"))).collect(),
        };
        let name = Some(which.get(&names).as_str()).filter(|name| !name.is_empty());
        let sizes: Vec<Bytes> = pages[..members].iter().map(|pages| Bytes::from_kib(pages * 4)).collect();
        Geometry::new(&md(level, name, 4 << chunk_pages), &sizes)
    }
}

proptest! {
    #[test]
    fn every_block_lies_somewhere_and_no_place_has_two(geometry in arrays()) {
        if let Ok(geometry) = geometry {
            whole(&geometry, 4 * KIB)?;
        }
    }

    #[test]
    fn no_layout_that_is_taken_loses_a_copy(
        near in 1_u32..4, far in 1_u32..4, offset: bool, sets in 0_u32..3, members in 2_usize..12, pages in 1_u64..60,
    ) {
        let layout = Raid10Layout::from_word(near | far << 8 | u32::from(offset) << 16 | sets << 17).unwrap();
        let sizes = vec![Bytes::from_kib(pages * 4); members];
        if let Ok(geometry) = Geometry::raid10(layout, Bytes::from_kib(4), &sizes) {
            whole(&geometry, 4 * KIB)?;
            let mut holders: Vec<u32> = (0..geometry.copies()).map(|c| geometry.place(Bytes::default(), c).member).collect();
            holders.sort_unstable();
            holders.dedup();
            prop_assert_eq!(holders.len() as u32, geometry.copies());
        }
    }

    #[test]
    fn nothing_lies_beyond_what_a_member_has(geometry in arrays(), member: prop::sample::Index, far in 0_u64..1 << 20) {
        if let Ok(geometry) = geometry {
            let member = member.index(geometry.members() as usize) as u32;
            let place = Place { member, offset: Bytes::new(geometry.size + far) };
            prop_assert!(geometry.holds(place) == Holds::Nothing || geometry.level == MdLevel::Raid1, "{place:?}");
        }
    }

    #[test]
    fn pieces_cover_a_range_and_are_contiguous_on_every_member(
        geometry in arrays(), from in 0_u64..1 << 16, len in 1_u64..1 << 18,
    ) {
        let Ok(geometry) = geometry else { return Ok(()) };
        let from = from % (geometry.size / 512) * 512;
        let len = (len * 512).min(geometry.size - from);
        let mut at = from;
        for piece in geometry.pieces(Bytes::new(from), Bytes::new(len)) {
            prop_assert_eq!(piece.offset.get(), at);
            prop_assert_eq!(piece.place, geometry.place(piece.offset, 0));
            let last = piece.len.get() - 512;
            for copy in 0..geometry.copies() {
                let (begin, end) = (geometry.place(piece.offset, copy), geometry.place(Bytes::new(at + last), copy));
                prop_assert_eq!((begin.member, begin.offset.get() + last), (end.member, end.offset.get()));
            }
            at += piece.len.get();
        }
        prop_assert_eq!(at, from + len);
    }
}
