//! The requests of a simulated fio are those of the real one: the same seed, the same directions, places and
//! lengths, in the same order.
//!
//! Each job is run by the fio of this machine over a file of holes, with its own log of what it asked for
//! (`write_iolog`), and by [`sim::load::Stream`].

use domain::rng::Seed;
use domain::units::Bytes;
use sim::load::fio::{FioJob, Step, Stream};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// A request: whether it writes, where, how long.
type Request = (bool, u64, u64);

/// What fio asks for.
fn of_fio(folder: &Path, options: &[(&str, &str)], target_kib: u64) -> Vec<Request> {
    let target = folder.join("target");
    let file = std::fs::File::create(&target).expect("a file of holes");
    file.set_len(target_kib * 1024).expect("a file of holes");
    let log = folder.join("log");
    // fio would write behind what is there.
    let _ = std::fs::remove_file(&log);
    let output = Command::new("fio")
        .current_dir(folder)
        .args(["--name=x", "--ioengine=psync", "--thread", "--allow_file_create=0", "--runtime=10"])
        .arg(format!("--filename={}", target.display()))
        .arg(format!("--write_iolog={}", log.display()))
        .args(options.iter().map(|(key, value)| format!("--{key}={value}")))
        .output()
        .expect("fio is installed");
    assert!(output.status.success(), "{options:?}: {}", String::from_utf8_lossy(&output.stderr));
    let log = std::fs::read_to_string(log).expect("fio wrote its log");
    let request = |line: &str| {
        let fields: Vec<&str> = line.split(' ').collect();
        let [.., action, offset, len] = fields[..] else { return None };
        let write = match action {
            "read" => false,
            "write" => true,
            _ => return None,
        };
        Some((write, offset.parse().ok()?, len.parse().ok()?))
    };
    log.lines().filter_map(request).collect()
}

fn of_the_model(options: &[(&str, &str)], target_kib: u64, most: usize) -> Vec<Request> {
    let options: BTreeMap<String, String> =
        options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let job = FioJob::parse(&options, Bytes::from_kib(target_kib)).expect("a job that is modelled");
    let mut stream = Stream::new(&job, 0, Seed(0));
    let steps = std::iter::from_fn(|| stream.step());
    let requests = steps.filter_map(|step| match step {
        Step::Io(ask) => Some((ask.write, ask.offset.get(), ask.len.get())),
        Step::Sync { .. } => None,
    });
    requests.take(most).collect()
}

#[test]
fn the_same_seed_asks_for_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let jobs: &[(&str, u64)] = &[
        ("rw=randread bs=4k randrepeat=0 randseed=1", 4096),
        ("rw=randread bs=4k", 4096),
        ("rw=randrw bs=4k randseed=30", 4096),
        ("rw=randread bs=4k loops=3 randseed=31", 512),
        ("rw=randread bs=4k allrandrepeat=1", 4096),
        ("rw=randwrite bs=64k randrepeat=0 randseed=99 norandommap=1 number_ios=500", 262_144),
        ("rw=randrw bs=1m randrepeat=0 randseed=4294967295 norandommap=1 number_ios=500", 262_144),
        ("rw=randrw bs=4k randrepeat=0 randseed=123456789012345 norandommap=1 number_ios=3000", 262_144),
        ("rw=randrw bs=4k rwmixread=70 randrepeat=0 randseed=7", 8192),
        ("rw=randrw bs=4k rwmixread=90 randrepeat=0 randseed=8 norandommap=1 number_ios=3000", 8192),
        ("rw=randrw bs=4k rwmixwrite=95 randrepeat=0 randseed=9 norandommap=1 number_ios=3000", 8192),
        ("rw=rw bs=8k rwmixread=60 randrepeat=0 randseed=10", 8192),
        ("rw=randread bsrange=4k-64k randrepeat=0 randseed=11 norandommap=1 number_ios=2000", 65_536),
        ("rw=randrw bsrange=4k-64k,8k-16k randrepeat=0 randseed=12 norandommap=1 number_ios=2000", 65_536),
        ("rw=randread bsrange=4k-32k randrepeat=0 randseed=13", 16_384),
        (
            "rw=randwrite bssplit=4k/10:64k/50:32k/40 randrepeat=0 randseed=14 norandommap=1 number_ios=2000",
            65_536,
        ),
        ("rw=randwrite bssplit=4k/10:64k/50:32k/40 randrepeat=0 randseed=15", 65_536),
        ("rw=randread bssplit=4k/:16k/:8k/ randrepeat=0 randseed=16 norandommap=1 number_ios=2000", 65_536),
        (
            "rw=randread bs=4k percentage_random=30 randrepeat=0 randseed=17 norandommap=1 number_ios=2000",
            16_384,
        ),
        (
            "rw=randrw bs=4k percentage_random=30,60 randrepeat=0 randseed=18 norandommap=1 number_ios=2000",
            16_384,
        ),
        ("rw=randread:8 bs=4k randrepeat=0 randseed=19 norandommap=1 number_ios=2000", 16_384),
        ("rw=randrw:4 bs=4k randrepeat=0 randseed=20 norandommap=1 number_ios=2000", 16_384),
        (
            "rw=randread:4 bs=4k rw_sequencer=identical randrepeat=0 randseed=21 norandommap=1 number_ios=2000",
            16_384,
        ),
        ("rw=randread bs=8k blockalign=4k randrepeat=0 randseed=22 norandommap=1 number_ios=2000", 16_384),
        ("rw=randread bs=4k blockalign=16k randrepeat=0 randseed=23 norandommap=1 number_ios=2000", 16_384),
        ("rw=randread bs=8k blockalign=4k randrepeat=0 randseed=38", 16_384),
        ("rw=randread bs=8k blockalign=512 randrepeat=0 randseed=39", 16_384),
        ("rw=randread bs=4k blockalign=16k randrepeat=0 randseed=40", 16_384),
        ("rw=randrw bs=4k,16k randrepeat=0 randseed=41", 16_384),
        ("rw=randrw bs=16k,4k randrepeat=0 randseed=42", 16_384),
        ("rw=read bs=4k number_ios=3 time_based=1 runtime=1", 2048),
        ("rw=randread bs=4k offset=1m size=2m randrepeat=0 randseed=24", 16_384),
        ("rw=randwrite bs=12k randrepeat=0 randseed=25", 1000),
        ("rw=randread bs=4k loops=3", 512),
        ("rw=randread bs=4k loops=3 randrepeat=0 randseed=26", 512),
        ("rw=randread bs=4k loops=3 randrepeat=0 randseed=32 norandommap=1", 512),
        ("rw=randrw bs=4k loops=3 randrepeat=0 randseed=33 norandommap=1", 512),
        ("rw=randrw bs=4k loops=3", 512),
        ("rw=randread bs=4k loops=3 number_ios=300 randseed=34 randrepeat=0", 512),
        ("rw=randread bs=4k loops=3 size=512k io_size=256k randrepeat=0 randseed=35", 1024),
        ("rw=randrw bs=4k loops=2 io_size=700k randrepeat=0 randseed=36", 512),
        ("rw=randrw bsrange=4k-16k loops=2", 2048),
        ("rw=write:8k bs=4k loops=2", 1024),
        ("rw=rw bs=4k loops=3 randseed=37", 512),
        ("rw=randread bs=4k io_size=6m randrepeat=0 randseed=27", 2048),
        ("rw=randread bs=4k time_based=1 runtime=1 randrepeat=0 randseed=28", 2048),
        ("rw=randwrite bs=4k fsync=16 randrepeat=0 randseed=29", 2048),
    ];
    let mut wrong = Vec::new();
    for (text, target_kib) in jobs {
        let options: Vec<(&str, &str)> =
            text.split(' ').filter_map(|option| option.split_once('=')).collect();
        let fio = of_fio(folder.path(), &options, *target_kib);
        let model = of_the_model(&options, *target_kib, fio.len() + 1);
        assert!(fio.len() > 50, "{text}: {fio:?}");
        let differ = fio.iter().zip(&model).position(|(fio, model)| fio != model);
        let around =
            |all: &[Request], at: usize| format!("{:?}", &all[at.saturating_sub(2)..(at + 4).min(all.len())]);
        // A clock ended fio's.
        let timed = text.contains("time_based");
        if differ.is_some() || (fio.len() != model.len() && !timed) {
            let at = differ.unwrap_or(0);
            let (fios, models) = (around(&fio, at), around(&model, at));
            let lengths = format!("{} requests of fio, {} of the model", fio.len(), model.len());
            wrong.push(format!("{text}: {lengths}; at {differ:?} fio {fios} and the model {models}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
