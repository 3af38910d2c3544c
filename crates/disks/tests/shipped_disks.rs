//! What the shipped disk files come to: the predictions stand here as a table, so that a change of a model or
//! a file is seen in figures.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use disks::DiskSpec;
use disks::closed_loop::{AccessOrder, Pattern, predict};
use domain::rng::Seed;
use domain::time::Nanos;
use domain::units::{Bytes, Ratio};
use expect_test::expect;
use std::fmt::Write as _;

const DISKS: [&str; 6] =
    ["wd-green-1tb", "maxtor-5400-120gb", "plain-7200", "samsung-850-evo", "nvme", "pm9a3-3840gb"];

fn shipped(name: &str) -> DiskSpec {
    DiskSpec::shipped(name).unwrap()
}

fn pattern(order: AccessOrder, reads: f64, block_kib: u64, depth: u32, disk: &DiskSpec) -> Pattern {
    Pattern {
        order,
        reads: Ratio::new(reads).unwrap(),
        block: Bytes::from_kib(block_kib),
        depth,
        offset: Bytes::new(0),
        range: disk.capacity,
        warm_up: Nanos::from_secs(2),
        duration: Nanos::from_secs(8),
    }
}

fn row(table: &mut String, disk: &DiskSpec, name: &str, pattern: &Pattern) {
    let seen = predict(disk, None, pattern, Seed(1)).unwrap();
    let millis = |span: Nanos| span.get() as f64 / 1e6;
    writeln!(
        table,
        "{:<18} {name:<20} {:>9.1} IOPS {:>8.2} MB/s  mean {:>9.3} ms  p99 {:>9.3} ms",
        disk.name,
        seen.iops,
        seen.bytes_per_second / 1e6,
        millis(seen.mean),
        millis(seen.p99),
    )
    .unwrap();
}

#[test]
fn the_shipped_disks_do_what_is_known_of_such_disks() {
    let mut table = String::new();
    for name in DISKS {
        let disk = shipped(name);
        for (name, order, reads, block_kib, depth) in [
            ("seq read 128k d1", AccessOrder::Sequential, 1.0, 128, 1),
            ("seq read 128k d32", AccessOrder::Sequential, 1.0, 128, 32),
            ("seq write 128k d1", AccessOrder::Sequential, 0.0, 128, 1),
            ("seq write 128k d32", AccessOrder::Sequential, 0.0, 128, 32),
            ("rand read 4k d1", AccessOrder::Random, 1.0, 4, 1),
            ("rand read 4k d32", AccessOrder::Random, 1.0, 4, 32),
            ("rand write 4k d1", AccessOrder::Random, 0.0, 4, 1),
            ("rand write 4k d32", AccessOrder::Random, 0.0, 4, 32),
            ("rand 70/30 4k d32", AccessOrder::Random, 0.7, 4, 32),
        ] {
            row(&mut table, &disk, name, &pattern(order, reads, block_kib, depth, &disk));
        }
        let inner = Pattern {
            offset: Bytes::new((disk.capacity.get() / 1000 * 995).next_multiple_of(1 << 20)),
            range: Bytes::new((disk.capacity.get() / 1000 * 4).next_multiple_of(1 << 20)),
            ..pattern(AccessOrder::Sequential, 1.0, 128, 32, &disk)
        };
        row(&mut table, &disk, "inner seq read d32", &inner);
    }
    expect![[r#"
        wd-green-1tb       seq read 128k d1         751.0 IOPS    98.44 MB/s  mean     1.332 ms  p99     1.332 ms
        wd-green-1tb       seq read 128k d32        751.0 IOPS    98.44 MB/s  mean    42.609 ms  p99    42.609 ms
        wd-green-1tb       seq write 128k d1        751.1 IOPS    98.45 MB/s  mean     1.332 ms  p99     1.332 ms
        wd-green-1tb       seq write 128k d32       751.0 IOPS    98.44 MB/s  mean    42.609 ms  p99    42.609 ms
        wd-green-1tb       rand read 4k d1           50.1 IOPS     0.21 MB/s  mean    19.966 ms  p99    32.244 ms
        wd-green-1tb       rand read 4k d32         112.0 IOPS     0.46 MB/s  mean   282.584 ms  p99   880.804 ms
        wd-green-1tb       rand write 4k d1         134.8 IOPS     0.55 MB/s  mean     7.413 ms  p99    24.117 ms
        wd-green-1tb       rand write 4k d32        137.5 IOPS     0.56 MB/s  mean   233.168 ms  p99   339.739 ms
        wd-green-1tb       rand 70/30 4k d32        129.1 IOPS     0.53 MB/s  mean   247.498 ms  p99   914.358 ms
        wd-green-1tb       inner seq read d32       393.4 IOPS    51.56 MB/s  mean    81.344 ms  p99    81.344 ms
        maxtor-5400-120gb  seq read 128k d1         270.6 IOPS    35.47 MB/s  mean     3.695 ms  p99     3.695 ms
        maxtor-5400-120gb  seq read 128k d32        270.6 IOPS    35.47 MB/s  mean   118.254 ms  p99   118.254 ms
        maxtor-5400-120gb  seq write 128k d1        270.6 IOPS    35.47 MB/s  mean     3.695 ms  p99     3.695 ms
        maxtor-5400-120gb  seq write 128k d32       270.6 IOPS    35.47 MB/s  mean   118.254 ms  p99   118.254 ms
        maxtor-5400-120gb  rand read 4k d1           56.5 IOPS     0.23 MB/s  mean    17.696 ms  p99    29.360 ms
        maxtor-5400-120gb  rand read 4k d32          56.5 IOPS     0.23 MB/s  mean   569.060 ms  p99   620.757 ms
        maxtor-5400-120gb  rand write 4k d1          95.8 IOPS     0.39 MB/s  mean    10.450 ms  p99    29.360 ms
        maxtor-5400-120gb  rand write 4k d32         95.8 IOPS     0.39 MB/s  mean   334.123 ms  p99   369.099 ms
        maxtor-5400-120gb  rand 70/30 4k d32         62.4 IOPS     0.26 MB/s  mean   511.292 ms  p99   578.814 ms
        maxtor-5400-120gb  inner seq read d32       149.0 IOPS    19.53 MB/s  mean   214.748 ms  p99   214.748 ms
        plain-7200         seq read 128k d1        1500.9 IOPS   196.72 MB/s  mean     0.666 ms  p99     0.666 ms
        plain-7200         seq read 128k d32       1500.9 IOPS   196.72 MB/s  mean    21.321 ms  p99    21.321 ms
        plain-7200         seq write 128k d1       1500.9 IOPS   196.72 MB/s  mean     0.666 ms  p99     0.666 ms
        plain-7200         seq write 128k d32      1500.9 IOPS   196.72 MB/s  mean    21.321 ms  p99    21.321 ms
        plain-7200         rand read 4k d1           80.0 IOPS     0.33 MB/s  mean    12.510 ms  p99    21.496 ms
        plain-7200         rand read 4k d32         186.8 IOPS     0.76 MB/s  mean   172.487 ms  p99   595.591 ms
        plain-7200         rand write 4k d1         208.5 IOPS     0.85 MB/s  mean     4.794 ms  p99    16.515 ms
        plain-7200         rand write 4k d32        210.5 IOPS     0.86 MB/s  mean   152.370 ms  p99   201.327 ms
        plain-7200         rand 70/30 4k d32        213.4 IOPS     0.87 MB/s  mean   149.810 ms  p99   671.089 ms
        plain-7200         inner seq read d32       749.9 IOPS    98.29 MB/s  mean    42.677 ms  p99    42.677 ms
        samsung-850-evo    seq read 128k d1        2765.0 IOPS   362.41 MB/s  mean     0.362 ms  p99     0.362 ms
        samsung-850-evo    seq read 128k d32       4157.9 IOPS   544.98 MB/s  mean     7.696 ms  p99     7.696 ms
        samsung-850-evo    seq write 128k d1       3880.5 IOPS   508.62 MB/s  mean     0.258 ms  p99     0.258 ms
        samsung-850-evo    seq write 128k d32      3973.8 IOPS   520.85 MB/s  mean     8.053 ms  p99    11.888 ms
        samsung-850-evo    rand read 4k d1        10208.6 IOPS    41.81 MB/s  mean     0.098 ms  p99     0.098 ms
        samsung-850-evo    rand read 4k d32       98039.2 IOPS   401.57 MB/s  mean     0.326 ms  p99     0.426 ms
        samsung-850-evo    rand write 4k d1       40459.6 IOPS   165.72 MB/s  mean     0.025 ms  p99     0.025 ms
        samsung-850-evo    rand write 4k d32      98039.1 IOPS   401.57 MB/s  mean     0.326 ms  p99     0.326 ms
        samsung-850-evo    rand 70/30 4k d32      97591.1 IOPS   399.73 MB/s  mean     0.328 ms  p99     1.212 ms
        samsung-850-evo    inner seq read d32      4157.9 IOPS   544.98 MB/s  mean     7.696 ms  p99     7.696 ms
        nvme               seq read 128k d1        7219.5 IOPS   946.27 MB/s  mean     0.139 ms  p99     0.139 ms
        nvme               seq read 128k d32      25939.0 IOPS  3399.88 MB/s  mean     1.234 ms  p99     1.234 ms
        nvme               seq write 128k d1       9082.8 IOPS  1190.49 MB/s  mean     0.110 ms  p99     0.532 ms
        nvme               seq write 128k d32      9082.9 IOPS  1190.51 MB/s  mean     3.523 ms  p99     8.444 ms
        nvme               rand read 4k d1        15308.0 IOPS    62.70 MB/s  mean     0.065 ms  p99     0.065 ms
        nvme               rand read 4k d32      321913.8 IOPS  1318.56 MB/s  mean     0.099 ms  p99     0.270 ms
        nvme               rand write 4k d1       97991.1 IOPS   401.37 MB/s  mean     0.010 ms  p99     0.010 ms
        nvme               rand write 4k d32     290650.0 IOPS  1190.50 MB/s  mean     0.110 ms  p99     0.414 ms
        nvme               rand 70/30 4k d32     207624.5 IOPS   850.43 MB/s  mean     0.154 ms  p99     0.918 ms
        nvme               inner seq read d32     25939.0 IOPS  3399.88 MB/s  mean     1.234 ms  p99     1.234 ms
        pm9a3-3840gb       seq read 128k d1        8158.2 IOPS  1069.32 MB/s  mean     0.123 ms  p99     0.123 ms
        pm9a3-3840gb       seq read 128k d32      49583.5 IOPS  6499.01 MB/s  mean     0.645 ms  p99     0.645 ms
        pm9a3-3840gb       seq write 128k d1       6482.0 IOPS   849.61 MB/s  mean     0.154 ms  p99     1.999 ms
        pm9a3-3840gb       seq write 128k d32      6482.0 IOPS   849.61 MB/s  mean     4.937 ms  p99     9.961 ms
        pm9a3-3840gb       rand read 4k d1        12635.0 IOPS    51.75 MB/s  mean     0.079 ms  p99     0.079 ms
        pm9a3-3840gb       rand read 4k d32      333868.2 IOPS  1367.52 MB/s  mean     0.096 ms  p99     0.213 ms
        pm9a3-3840gb       rand write 4k d1       72828.0 IOPS   298.30 MB/s  mean     0.014 ms  p99     0.014 ms
        pm9a3-3840gb       rand write 4k d32     206976.0 IOPS   847.77 MB/s  mean     0.155 ms  p99     1.966 ms
        pm9a3-3840gb       rand 70/30 4k d32     129714.5 IOPS   531.31 MB/s  mean     0.247 ms  p99     2.458 ms
        pm9a3-3840gb       inner seq read d32     49583.5 IOPS  6499.01 MB/s  mean     0.645 ms  p99     0.645 ms
    "#]].assert_eq(&table);
}

#[test]
fn a_worn_in_flash_disk_writes_slower_at_random_and_reads_as_before() {
    let fresh = shipped("samsung-850-evo");
    let (_, text) = disks::shipped::DISKS.iter().find(|(name, _)| *name == fresh.name).unwrap();
    let text = text.replace("state = \"fresh\"", "state = \"steady\"");
    let steady = DiskSpec::parse(&text).unwrap();
    let mut table = String::new();
    for (name, disk) in [("fresh", &fresh), ("steady", &steady)] {
        row(
            &mut table,
            disk,
            &format!("{name} rand write d32"),
            &pattern(AccessOrder::Random, 0.0, 4, 32, disk),
        );
        row(
            &mut table,
            disk,
            &format!("{name} rand read d32"),
            &pattern(AccessOrder::Random, 1.0, 4, 32, disk),
        );
    }
    expect![[r#"
        samsung-850-evo    fresh rand write d32   98039.1 IOPS   401.57 MB/s  mean     0.326 ms  p99     0.326 ms
        samsung-850-evo    fresh rand read d32    98039.2 IOPS   401.57 MB/s  mean     0.326 ms  p99     0.426 ms
        samsung-850-evo    steady rand write d32   22032.0 IOPS    90.24 MB/s  mean     1.452 ms  p99     5.112 ms
        samsung-850-evo    steady rand read d32   98039.2 IOPS   401.57 MB/s  mean     0.326 ms  p99     0.426 ms
    "#]].assert_eq(&table);
}
