use super::*;
use crate::units::Bytes;

/// `array: kind=md on=disks level=5`, one layer a line.
fn spec(text: &str) -> StackSpec {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let layers = lines.map(|line| {
        let (name, rest) = line.split_once(": ").unwrap();
        let values = rest.split("; ").map(|pair| pair.split_once('=').unwrap());
        LayerSpec { name: name.into(), values: values.map(|(k, v)| (k.into(), v.into())).collect() }
    });
    StackSpec { layers: layers.collect() }
}

fn changes(pairs: &[(&str, &str)]) -> Changes {
    pairs.iter().map(|(path, value)| ((*path).into(), (*value).into())).collect()
}

fn names(stack: &Stack) -> Vec<&str> {
    stack.layers.iter().map(|layer| layer.name.as_str()).collect()
}

fn refusal(text: &str) -> String {
    spec(text).build().unwrap_err().to_string()
}

const WHOLE: &str = "
    disks: kind=devices; count=5; loop=64MiB; lab=disk
    array: kind=md; on=disks; level=5; chunk=64KiB; spares=1; stripe_cache_size=1024
    vault: kind=crypt; on=array; type=plain; cipher=aes-cbc-essiv:sha256
    logs: kind=devices; count=2; null_blk=64MiB; attributes=irqmode=2 completion_nsec=10000
    mirror: kind=md; on=logs; level=1
    files: kind=filesystem; on=vault; type=ext3; data=journal; journal=mirror; mkfs=-m 0; mount=noatime,nobarrier
";

#[test]
fn each_layer_comes_after_what_it_stands_on_and_the_last_is_the_top() {
    let stack = spec(WHOLE).build().unwrap();
    assert_eq!(names(&stack), ["disks", "array", "vault", "logs", "mirror", "files"]);
    assert!(stack.ends_in_a_filesystem());
    assert_eq!(
        stack.to_string(),
        "5 devices > raid5 64 KiB > plain aes-cbc-essiv:sha256 > 2 devices > raid1 > ext3 data=journal journal on mirror"
    );
    let Part::Devices(disks) = &stack.layers[0].part else { panic!("{stack:?}") };
    assert_eq!(disks.lab, ["disk0", "disk1", "disk2", "disk3", "disk4"]);
    let Part::Md(array) = &stack.layers[1].part else { panic!("{stack:?}") };
    assert_eq!((array.spares, array.stripe_cache_size), (1, Some(1024)));
}

#[test]
fn a_layer_that_is_not_used_is_passed_through_and_what_nothing_needs_is_not_built() {
    let changed = spec(WHOLE).with(&changes(&[("vault.use", "false"), ("files.journal", "internal")]));
    let stack = changed.unwrap().build().unwrap();
    assert_eq!(names(&stack), ["disks", "array", "files"]);
    assert_eq!(stack.top().on, ["array"]);
    let alone = changes(&[("array.use", "false"), ("disks.count", "1"), ("files.journal", "internal")]);
    assert_eq!(names(&spec(WHOLE).with(&alone).unwrap().build().unwrap()), ["disks", "vault", "files"]);
}

#[test]
fn encryption_below_an_array_is_one_volume_a_device() {
    let stack = spec(
        "disks: kind=devices; count=3; loop=64MiB
         vaults: kind=crypt; on=disks
         array: kind=md; on=vaults; level=5",
    );
    let stack = stack.build().unwrap();
    assert_eq!([stack.width("disks"), stack.width("vaults"), stack.width("array")], [3, 3, 1]);
}

#[test]
fn the_older_word_of_a_resync_means_the_same() {
    let of = |word: &str| spec(WHOLE).with(&changes(&[("array.resync", word)])).unwrap().build().unwrap();
    assert_eq!(of("beside"), of("background"));
    assert!(of("background").resyncs_in_background() && !of("wait").resyncs_in_background());
}

#[test]
fn what_a_level_or_filesystem_has_not_is_left_out_so_that_it_can_be_a_factor() {
    let of = |level: &str, kind: &str| {
        spec(WHOLE).with(&changes(&[("array.level", level), ("files.type", kind)])).unwrap().build().unwrap()
    };
    let Part::Md(array) = &of("0", "ext2").layers[1].part.clone() else { panic!() };
    assert_eq!((array.spares, array.stripe_cache_size, array.resync), (0, None, Resync::Skip));
    assert_eq!(names(&of("1", "ext2")), ["disks", "array", "vault", "files"]);
    let Part::Filesystem(xfs) = &of("6", "xfs").top().part.clone() else { panic!() };
    assert_eq!((xfs.data, &xfs.journal), (None, &Journal::External("mirror".into())));
}

#[test]
fn an_arrays_delay_before_it_is_clean_is_a_time_of_levels_with_redundancy() {
    let of = |level: &str, delay: &str| {
        let changed = changes(&[("array.level", level), ("array.safe_mode_delay", delay)]);
        let stack = spec(WHOLE).with(&changed).unwrap().build().unwrap();
        let Part::Md(array) = &stack.layers[1].part else { panic!() };
        array.safe_mode_delay
    };
    assert_eq!(of("5", "300ms"), Some(Nanos::from_millis(300)));
    assert_eq!(of("1", "0s"), Some(Nanos::ZERO));
    assert_eq!(of("0", "300ms"), None);
}

#[test]
fn a_wrong_stack_is_refused_with_its_key() {
    let disks = "disks: kind=devices; count=3; loop=64MiB\n";
    let with = |line: &str| refusal(&format!("{disks}{line}"));
    let cases = [
        (with("a: kind=raid; on=disks"), "`stack.a.kind` is `raid`"),
        (with("a: kind=md; on=disks"), "`stack.a.level` is missing"),
        (with("a: kind=md; on=disks; level=5; colour=red"), "`stack.a.colour` is no key"),
        (with("a: kind=md; on=disk; level=5"), "`stack.a.on` names `disk`, and the layers are `disks`, `a`"),
        (with("a: kind=md; on=disks; level=6"), "needs 4 members; there are 3"),
        (with("a: kind=md; on=disks; level=5; missing=2"), "without 1 at the most"),
        (with("a: kind=md; on=disks; level=5; chunk=48KiB"), "a power of two"),
        (with("a: kind=md; on=disks; level=5; safe_mode_delay=200"), "a time from 0 ns to 60.0 s"),
        (with("a: kind=md; on=disks; level=5; safe_mode_delay=61s"), "is `61s`"),
        (with("a: kind=md; level=5"), "stands on nothing"),
        (with("a: kind=md; on=a; level=5"), "`stack.disks`"),
        (
            with("a: kind=md; on=b; level=5\nb: kind=md; on=a; level=5\nc: kind=crypt; on=a"),
            "leads back to itself",
        ),
        (with("f: kind=filesystem; on=disks"), "gives 3 devices, and a filesystem stands on one"),
        (with("c: kind=crypt; on=disks"), "gives 3 devices: workloads work on one"),
        (with("f: kind=filesystem; on=disks; mkfs=/dev/sda"), "names a file or a device"),
        (with("f: kind=filesystem; on=disks; mkfs=-J device=UUID=5"), "names a file or a device"),
        (with("f: kind=filesystem; on=disks; mkfs=-m 0 100"), "belongs to no option"),
        (with("f: kind=filesystem; on=disks; mount=journal_dev=0x803"), "cannot let through"),
        (with("f: kind=filesystem; on=disks; mount=data=journal"), "a key of its own"),
        (refusal("d: kind=devices; count=2"), "none where they come from"),
        (refusal("d: kind=devices; loop=1GiB; null_blk=1GiB"), "cannot stand beside"),
        (refusal("d: kind=devices; null_blk=1GiB; attributes=size=5"), "which Flyball sets itself"),
        (refusal("d: kind=devices; claimed=/etc/passwd"), "begins with `/dev/`"),
        (refusal("d: kind=devices; count=2; claimed=/dev/sda /dev/sda"), "a device twice"),
    ];
    for (said, wanted) in cases {
        assert!(said.contains(wanted), "`{said}` does not say `{wanted}`");
    }
}

#[test]
fn a_change_has_to_name_a_layer_and_a_key() {
    let error = spec(WHOLE).with(&changes(&[("raid.level", "6")])).unwrap_err().to_string();
    assert!(error.contains("the layers are `disks`, `array`"), "{error}");
    assert!(spec(WHOLE).with(&changes(&[("array", "6")])).is_err());
}

#[test]
fn the_keys_of_a_kind_are_those_that_are_read() {
    let layers = [
        ("devices", "loop=64MiB"),
        ("md", "on=x; level=5"),
        ("crypt", "on=x"),
        ("integrity", "on=x"),
        ("lvm", "on=x"),
        ("loop", "on=x"),
        ("filesystem", "on=x"),
    ];
    assert!(kinds().eq(layers.map(|(kind, _)| kind)));
    for (kind, rest) in layers {
        let said = refusal(&format!("x: kind={kind}; {rest}; colour=red"));
        let mut known = keys(kind).unwrap().to_vec();
        known.sort_unstable();
        let known: Vec<String> = known.iter().map(|key| format!("`{key}`")).collect();
        assert!(said.ends_with(&format!("which has {}", known.join(", "))), "{said}");
    }
    assert_eq!(keys("raid"), None);
}

/// `xtask tidy` looks for variants by the names of kinds.
#[test]
fn a_layer_is_called_in_code_as_in_a_study() {
    let stack = spec(WHOLE).build().unwrap();
    for (layer, kind) in stack.layers.iter().zip(["devices", "md", "crypt", "devices", "md", "filesystem"]) {
        let variant = format!("{:?}", layer.part);
        assert_eq!(variant.split_once('(').unwrap().0.to_lowercase(), kind);
    }
}

#[test]
fn each_layer_says_what_is_wrong_with_it() {
    let wrong = "disks: kind=devices; count=0; loop=64MiB\na: kind=md; on=disks\nf: kind=filesystem; on=a";
    let said: Vec<String> = spec(wrong).problems().iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].starts_with("`stack.disks.count`") && said[1].starts_with("`stack.a.level`"), "{said:?}");
    assert_eq!(spec(WHOLE).problems(), []);
}

#[test]
fn no_device_belongs_to_two_layers() {
    for key in ["claimed=/dev/sdb", "lab=disk0"] {
        let said = refusal(&format!(
            "d: kind=devices; {key}\nlog: kind=devices; {key}\nf: kind=filesystem; on=d; journal=log"
        ));
        assert!(said.contains("which is one of `d` already"), "{said}");
    }
}

const TAGS: &str = "
    disks: kind=devices; count=2; loop=64MiB
    tags: kind=integrity; on=disks
    array: kind=md; on=tags; level=1
";

fn tags(pairs: &[(&str, &str)]) -> std::result::Result<Integrity, StackError> {
    let mut stack = spec(TAGS).with(&changes(pairs)).unwrap().build()?;
    assert_eq!((stack.width("tags"), stack.width("array")), (2, 1));
    match stack.layers.remove(1).part {
        Part::Integrity(integrity) => Ok(integrity),
        other => panic!("{other:?}"),
    }
}

#[test]
fn integrity_keeps_the_whole_tag_and_has_a_journal_unless_it_is_told_otherwise() {
    let usual = tags(&[]).unwrap();
    assert_eq!((usual.algorithm.name(), usual.tag_size, usual.sector_size), ("crc32c", 4, 512));
    assert_eq!(usual.to_string(), "integrity crc32c journal");
    assert_eq!(tags(&[("tags.algorithm", "sha256")]).unwrap().tag_size, 32);
    for (key, value, why) in [
        ("tags.tag_size", "5", "from 1 to 4"),
        ("tags.algorithm", "hmac(sha256)", "one of `crc32c`, `crc32`, `sha1`, `sha256`"),
        ("tags.mode", "none", "one of `journal`, `bitmap`, `direct`"),
        ("tags.interleave_sectors", "1000", "power of two"),
        ("tags.journal_watermark", "100", "from 1 to 99"),
        ("tags.journal_commit_time", "1500us", "whole milliseconds"),
    ] {
        let error = tags(&[(key, value)]).unwrap_err().to_string();
        assert!(error.contains(why), "{key}: {error}");
    }
}

#[test]
fn a_mode_of_integrity_ignores_what_belongs_to_another() {
    let all = [
        ("tags.journal_watermark", "60"),
        ("tags.journal_commit_time", "2s"),
        ("tags.bitmap_sectors_per_bit", "4096"),
        ("tags.bitmap_flush_time", "3s"),
    ];
    let of = |mode| {
        let mut tags = tags(&[&all[..], &[("tags.mode", mode)]].concat()).unwrap();
        let timers: Vec<Option<Nanos>> = tags.timers().into_iter().map(|(timer, _)| *timer).collect();
        (tags.journal_watermark, tags.bitmap_sectors_per_bit, timers)
    };
    assert_eq!(of("journal"), (Some(60), None, vec![Some(Nanos::from_secs(2))]));
    assert_eq!(of("bitmap"), (None, Some(4096), vec![Some(Nanos::from_secs(3))]));
    assert_eq!(of("direct"), (None, None, vec![]));
}

#[test]
fn a_mirror_leaves_one_member_to_read_from_and_others_ignore_which_are_write_mostly() {
    let of = |more: &str| {
        let text = format!("disks: kind=devices; count=4; loop=64MiB\narray: kind=md; on=disks; {more}");
        spec(&text).build().map(|stack| match &stack.top().part {
            Part::Md(md) => (md.write_mostly, md.bitmap_chunk),
            other => panic!("{other:?}"),
        })
    };
    assert_eq!(of("level=1; write_mostly=3; bitmap_chunk=1MiB"), Ok((3, None)));
    assert_eq!(
        of("level=10; write_mostly=9; bitmap=internal; bitmap_chunk=1MiB"),
        Ok((0, Some(Bytes::from_mib(1))))
    );
    assert_eq!(of("level=0; bitmap=internal; bitmap_chunk=1MiB"), Ok((0, None)));
    for (more, why) in [
        ("level=1; write_mostly=4", "one member has to be left to read from: 3 at the most"),
        ("level=1; write_mostly=2; missing=2", "1 at the most"),
        ("level=1; write_mostly=1; spares=1", "cannot stand beside `spares`"),
        ("level=1; bitmap=internal; bitmap_chunk=3MiB", "power of two"),
        ("level=1; bitmap=lockless", "one of `none`, `internal`, `llbitmap`"),
    ] {
        let error = of(more).unwrap_err().to_string();
        assert!(error.contains(why), "{more}: {error}");
    }
}

#[test]
fn a_loop_device_goes_through_the_page_cache_unless_it_is_told_otherwise() {
    let of = |more: &str| -> std::result::Result<(bool, Option<u32>, String), StackError> {
        let text = format!("disks: kind=devices; count=2; loop=64MiB\nimage: kind=loop; on=disks{more}");
        let stack = spec(&format!("{text}\npool: kind=lvm; on=image")).build()?;
        assert_eq!((stack.width("image"), stack.width("pool")), (2, 1));
        match &stack.layers[1].part {
            Part::Loop(image) => Ok((image.direct_io, image.sector_size, image.to_string())),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(of(""), Ok((false, None, "loop buffered".to_owned())));
    let direct = of("; direct_io=true; sector_size=4096");
    assert_eq!(direct, Ok((true, Some(4096), "loop direct sectors of 4096 bytes".to_owned())));
    for (more, why) in [
        ("; direct_io=yes", "one of `true`, `false`"),
        ("; sector_size=8192", "one of `512`, `1024`, `2048`, `4096`"),
        ("; offset=4096", "is no key of a layer of the kind `loop`"),
    ] {
        let error = of(more).unwrap_err().to_string();
        assert!(error.contains(why), "{more}: {error}");
    }
}
