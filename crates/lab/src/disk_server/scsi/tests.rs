use super::*;
use domain::units::Bytes;
use expect_test::{Expect, expect};
use proptest::prelude::*;

const BLOCKS: u64 = 8192;

fn identity(model: &str) -> ScsiIdentity {
    let spec = DiskSpec::shipped(model).unwrap().with_size(Bytes::new(BLOCKS * 512)).unwrap();
    ScsiIdentity::new("disk0", &spec)
}

fn command(bytes: &[u8]) -> [u8; CDB] {
    let mut cdb = [0; CDB];
    cdb[..bytes.len()].copy_from_slice(bytes);
    cdb
}

fn check(model: &str, bytes: &[u8], expected: Expect) {
    let told = match decide(&command(bytes), &[0; 512], &identity(model)) {
        Decision::Say(bytes) => {
            let row = |row: &[u8]| row.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
            bytes.chunks(16).map(row).collect::<Vec<_>>().join("\n")
        }
        other => format!("{other:?}"),
    };
    expected.assert_eq(&told);
}

/// As QEMU 10.0.2's `scsi-hd` told them, but for the bits of discard.
#[test]
fn vital_product_data_is_that_of_the_disk() {
    check("plain-7200", &[INQUIRY, 1, 0, 0, 255], expect!["00 00 00 05 00 80 83 b0 b1"]);
    check("samsung-850-evo", &[INQUIRY, 1, 0, 0, 255], expect!["00 00 00 06 00 80 83 b0 b1 b2"]);
    check("plain-7200", &[INQUIRY, 1, 0x80, 0, 255], expect!["00 80 00 05 64 69 73 6b 30"]);
    check("plain-7200", &[INQUIRY, 1, 0x83, 0, 255], expect!["00 83 00 09 02 00 00 05 64 69 73 6b 30"]);
    check("plain-7200", &[INQUIRY, 1, 0xb1, 0, 6], expect!["00 b1 00 3c 1c 20"]);
    check("samsung-850-evo", &[INQUIRY, 1, 0xb1, 0, 6], expect!["00 b1 00 3c 00 01"]);
    check("samsung-850-evo", &[INQUIRY, 1, 0xb2, 0, 255], expect!["00 b2 00 04 00 e0 02 00"]);
    check("plain-7200", &[INQUIRY, 1, 0xb2, 0, 255], expect!["Refuse(Sense(5, 36, 0))"]);
    check(
        "samsung-850-evo",
        &[INQUIRY, 1, 0xb0, 0, 48],
        expect![[r#"
            00 b0 00 3c 01 00 00 00 00 01 00 00 00 00 00 00
            00 00 00 00 00 20 00 00 00 00 00 01 00 00 00 08
            00 00 00 00 00 00 00 00 00 01 00 00 00 00 00 00"#]],
    );
}

#[test]
fn a_disk_tells_its_vendor_product_and_capacity() {
    check(
        "plain-7200",
        &[INQUIRY, 0, 0, 0, 255],
        expect![[r#"
            00 00 05 12 1f 00 00 12 46 4c 59 42 41 4c 4c 20
            50 6c 61 69 6e 20 37 32 30 30 20 31 54 42 20 20
            32 2e 35 2b"#]],
    );
    check("plain-7200", &[READ_CAPACITY_10], expect!["00 00 1f ff 00 00 02 00"]);
    check(
        "samsung-850-evo",
        &[SERVICE_ACTION_IN, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16],
        expect!["00 00 00 00 00 00 1f ff 00 00 02 00 00 03 80 00"],
    );
    check(
        "plain-7200",
        &[REPORT_LUNS, 0, 0, 0, 0, 0, 0, 0, 0, 16],
        expect!["00 00 00 08 00 00 00 00 00 00 00 00 00 00 00 00"],
    );
}

#[test]
fn the_caching_page_says_whether_there_is_a_write_cache() {
    check(
        "plain-7200",
        &[MODE_SENSE_6, 8, 8, 0, 255],
        expect![[r#"
            17 00 10 00 08 12 04 00 00 00 00 00 00 00 00 00
            00 00 00 00 00 00 00 00"#]],
    );
    check("plain-7200", &[MODE_SENSE_10, 0, 0x3f, 0, 0, 0, 0, 0, 8], expect!["00 2e 00 10 00 00 00 08"]);
    check("plain-7200", &[MODE_SENSE_6, 0, 0xc8, 0, 255], expect!["Refuse(Sense(5, 57, 0))"]);
}

#[test]
fn reads_and_writes_of_all_lengths_of_command_are_the_same() {
    let read = "Do(DiskRequest { act: Read, fua: false, offset: 4096, len: 1024 })";
    for bytes in [
        &[READ_6, 0, 0, 8, 2][..],
        &[READ_10, 0, 0, 0, 0, 8, 0, 0, 2],
        &[READ_12, 0, 0, 0, 0, 8, 0, 0, 0, 2],
        &[READ_16, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 2],
    ] {
        assert_eq!(format!("{:?}", decide(&command(bytes), &[], &identity("plain-7200"))), read);
    }
    check(
        "plain-7200",
        &[WRITE_10, 8, 0, 0, 0, 0, 0, 0, 1],
        expect!["Do(DiskRequest { act: Write, fua: true, offset: 0, len: 512 })"],
    );
    check("plain-7200", &[WRITE_10, 0, 0, 0, 0x1f, 0xff, 0, 0, 2], expect!["Refuse(Sense(5, 33, 0))"]);
    check(
        "plain-7200",
        &[WRITE_16, 0, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, 9],
        expect!["Refuse(Sense(5, 33, 0))"],
    );
    check("plain-7200", &[READ_12, 0, 0, 0, 0, 0, 0, 1, 0, 1], expect!["Refuse(Sense(5, 36, 0))"]);
    check("plain-7200", &[READ_10, 0x20, 0, 0, 0, 0, 0, 0, 1], expect!["Refuse(Sense(5, 36, 0))"]);
    check("plain-7200", &[READ_10, 0, 0, 0, 0, 0, 0, 0, 0], expect![""]);
    check("plain-7200", &[0xff], expect!["Refuse(Sense(5, 32, 0))"]);
}

#[test]
fn zeros_are_written_many_times_over_and_nothing_else_is() {
    let zeros = [WRITE_SAME_16, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 16];
    check(
        "plain-7200",
        &zeros,
        expect!["Do(DiskRequest { act: Zero, fua: false, offset: 4096, len: 8192 })"],
    );
    let identity = identity("plain-7200");
    assert_eq!(decide(&command(&zeros), &[1; 512], &identity), Decision::Refuse(Sense::INVALID_FIELD));
    assert_eq!(decide(&command(&zeros), &[0; 511], &identity), Decision::Refuse(Sense::INVALID_FIELD));
    let unmap = [WRITE_SAME_10, 8, 0, 0, 0, 8, 0, 0, 16];
    check(
        "samsung-850-evo",
        &unmap,
        expect!["Do(DiskRequest { act: Discard, fua: false, offset: 4096, len: 8192 })"],
    );
    check("plain-7200", &unmap, expect!["Refuse(Sense(5, 36, 0))"]);
}

#[test]
fn one_range_is_unmapped_where_the_medium_is_flash() {
    let cdb = command(&[UNMAP, 0, 0, 0, 0, 0, 0, 0, 24]);
    let mut parameters = vec![0; 24];
    (parameters[1], parameters[3], parameters[15], parameters[19]) = (22, 16, 8, 16);
    let flash = identity("samsung-850-evo");
    let ask = DiskRequest { act: Act::Discard, fua: false, offset: 4096, len: 8192 };
    assert_eq!(decide(&cdb, &parameters, &flash), Decision::Do(ask));
    assert_eq!(decide(&cdb, &parameters[..23], &flash), Decision::Refuse(Sense::SHORT_PARAMETERS));
    assert_eq!(decide(&cdb, &parameters, &identity("plain-7200")), Decision::Refuse(Sense::UNKNOWN_COMMAND));
    parameters[3] = 32;
    parameters.resize(40, 0);
    assert_eq!(decide(&cdb, &parameters, &flash), Decision::Refuse(Sense::INVALID_PARAMETER));
}

proptest! {
    #[test]
    fn no_command_leaves_the_disk(
        known in prop::option::of(prop::sample::select(vec![
            READ_6, WRITE_6, INQUIRY, MODE_SENSE_6, MODE_SENSE_10, READ_10, WRITE_10, READ_12, WRITE_12, READ_16,
            WRITE_16, WRITE_SAME_10, WRITE_SAME_16, UNMAP, SERVICE_ACTION_IN, REPORT_LUNS, SYNCHRONIZE_16,
        ])),
        mut cdb in any::<[u8; CDB]>(),
        small in any::<bool>(),
        parameters in prop::collection::vec(prop::sample::select(vec![0_u8, 0, 0, 0, 1, 16, 255]), 0..600),
        model in prop::sample::select(vec!["plain-7200", "samsung-850-evo", "nvme"]),
    ) {
        if let Some(known) = known {
            cdb[0] = known;
        }
        if small {
            cdb[2..8].fill(0);
        }
        let identity = identity(model);
        match decide(&cdb, &parameters, &identity) {
            Decision::Do(ask) if ask.act == Act::Flush => {}
            Decision::Do(ask) => {
                prop_assert!(ask.len > 0 && ask.offset + ask.len <= BLOCKS * 512);
                prop_assert!(ask.offset % 512 == 0 && ask.len % 512 == 0);
                prop_assert!(ask.act == Act::Discard || ask.len <= u64::from(MAX_BYTES));
            }
            Decision::Say(bytes) => prop_assert!(bytes.len() <= 255),
            Decision::Refuse(sense) => prop_assert!(sense.bytes()[2] != 0),
        }
        prop_assert!(parameter_bytes(&cdb, &identity) <= usize::from(u16::MAX));
    }
}
