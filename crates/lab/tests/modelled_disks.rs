//! The real fio on each shipped disk agrees with the model's own prediction: the server adds nothing of its own.
//!
//! Debian's fio speaks NBD itself (`ioengine=nbd`), so no virtual machine is needed. Where it is missing or does not,
//! the test is skipped and says why.

use domain::lab::DiskService;
use domain::rng::Seed;
use domain::time::Nanos;
use domain::units::{Bytes, Ratio};
use lab::disk_server::{self, Backing, DiskServer, ServedDisk, judge};
use sim::disk::DiskSpec;
use sim::workload::{Order, Pattern, Prediction, predict};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A load, as fio and the model are told it.
#[derive(Clone, Copy)]
struct Load {
    rw: &'static str,
    block: u64,
    depth: u32,
}

const LOADS: [Load; 8] = [
    Load { rw: "read", block: 128 << 10, depth: 1 },
    Load { rw: "read", block: 128 << 10, depth: 32 },
    Load { rw: "write", block: 128 << 10, depth: 1 },
    Load { rw: "write", block: 128 << 10, depth: 32 },
    Load { rw: "randread", block: 4 << 10, depth: 1 },
    Load { rw: "randread", block: 4 << 10, depth: 32 },
    Load { rw: "randwrite", block: 4 << 10, depth: 1 },
    Load { rw: "randwrite", block: 4 << 10, depth: 32 },
];

/// A disk, how many times slower it is served, and how long each load runs: long enough that chance (which sectors a
/// random load meets) stays well below the tolerance.
struct Case {
    disk: &'static str,
    dilation: f64,
    ramp: Duration,
    runtime: Duration,
}

const fn case(disk: &'static str, dilation: f64, ramp_ms: u64, runtime_ms: u64) -> Case {
    Case { disk, dilation, ramp: Duration::from_millis(ramp_ms), runtime: Duration::from_millis(runtime_ms) }
}

/// By how much fio's figure may differ from the prediction.
const TOLERANCE: f64 = 0.05;

struct Row {
    text: String,
    off: f64,
    service: DiskService,
}

#[test]
fn fio_sees_what_the_model_predicts() {
    if let Some(reason) = fio_is_missing() {
        println!("skipped: {reason}");
        return;
    }
    let hard = [
        case("wd-green-1tb", 1.0, 1_000, 5_000),
        case("maxtor-5400-120gb", 1.0, 1_000, 5_000),
        case("plain-7200", 1.0, 1_000, 5_000),
    ];
    // Hard disks cost the host next to nothing: they run side by side. Flash is measured alone.
    let mut rows: Vec<Row> = std::thread::scope(|scope| {
        let threads: Vec<_> = hard.iter().map(|case| scope.spawn(|| measure(case))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    rows.extend(measure(&case("samsung-850-evo", 40.0, 300, 1_000)));
    rows.extend(measure(&case("nvme", 100.0, 300, 1_000)));
    for row in &rows {
        println!("{}", row.text);
    }
    let wrong: Vec<&str> =
        rows.iter().filter(|row| row.off.abs() > TOLERANCE).map(|row| row.text.as_str()).collect();
    assert!(wrong.is_empty(), "beyond {TOLERANCE}:\n{}", wrong.join("\n"));
    let late: Vec<_> = rows.iter().filter_map(|row| judge(&row.service)).map(|late| late.detail).collect();
    assert!(late.is_empty(), "{}", late.join("\n"));
}

fn fio_is_missing() -> Option<String> {
    let help = Command::new("fio").arg("--enghelp").output();
    match help {
        Err(error) => Some(format!("cannot start fio: {error}; install Debian's fio")),
        Ok(output) if String::from_utf8_lossy(&output.stdout).lines().any(|line| line.trim() == "nbd") => {
            None
        }
        Ok(_) => Some("this fio has no engine `nbd`".to_owned()),
    }
}

fn measure(case: &Case) -> Vec<Row> {
    LOADS.iter().map(|load| measure_load(case, load)).collect()
}

fn measure_load(case: &Case, load: &Load) -> Row {
    let spec = disk_server::load(case.disk, Path::new("")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let served = ServedDisk {
        name: "disk".to_owned(),
        spec: spec.clone(),
        size: None,
        link: None,
        backing: Backing::Memory(Bytes::from_mib(4096)),
    };
    let server = DiskServer::start(vec![served], Vec::new(), folder.path(), case.dilation, Seed(1)).unwrap();
    let seen = fio(server.socket("disk").unwrap(), case, load, &spec) * case.dilation;
    let service = server.take_account().remove(0);
    assert_eq!(server.take_complaints(), Vec::<String>::new());
    let expected = prediction(case, load, &spec);
    let off = seen / expected.iops - 1.0;
    let text = format!(
        "{:<18} {:<9} {:>4} KiB depth {:>2}, D {:>3}: fio {:>9.1} IOPS, predicted {:>9.1}, {:>+5.1}%; late {:.2}%, at most {}",
        case.disk,
        load.rw,
        load.block >> 10,
        load.depth,
        case.dilation,
        seen,
        expected.iops,
        off * 100.0,
        service.late.get() as f64 / service.modelled.get() as f64 * 100.0,
        service.latest,
    );
    Row { text, off, service }
}

/// IOPS, as fio reports them.
fn fio(socket: &Path, case: &Case, load: &Load, spec: &DiskSpec) -> f64 {
    let output = Command::new("fio")
        .args(["--name=disk", "--ioengine=nbd", "--norandommap", "--time_based", "--output-format=json"])
        .arg(format!("--uri=nbd+unix:///?socket={}", socket.display()))
        .arg(format!("--size={}", spec.capacity.get() >> 20 << 20))
        .arg(format!("--rw={}", load.rw))
        .arg(format!("--bs={}", load.block))
        .arg(format!("--iodepth={}", load.depth))
        .arg(format!("--ramp_time={}ms", case.ramp.as_millis()))
        .arg(format!("--runtime={}ms", case.runtime.as_millis()))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let json = &text[text.find('{').unwrap_or_else(|| panic!("{text} {output:?}"))..];
    let report: serde_json::Value = serde_json::from_str(json).unwrap();
    let side = if load.rw.ends_with("read") { "read" } else { "write" };
    report["jobs"][0][side]["iops"].as_f64().unwrap()
}

fn prediction(case: &Case, load: &Load, spec: &DiskSpec) -> Prediction {
    let in_guest = |span: Duration| Nanos::new((span.as_nanos() as f64 / case.dilation) as u64);
    let pattern = Pattern {
        order: if load.rw.starts_with("rand") { Order::Random } else { Order::Sequential },
        reads: Ratio::new(if load.rw.ends_with("read") { 1.0 } else { 0.0 }).unwrap(),
        block: Bytes::new(load.block),
        depth: load.depth,
        offset: Bytes::new(0),
        range: spec.capacity,
        warm_up: in_guest(case.ramp),
        duration: in_guest(case.runtime),
    };
    predict(spec, None, &pattern, Seed(2)).unwrap()
}
