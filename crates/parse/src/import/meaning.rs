//! What the columns of tools mean, by their names.
//!
//! Tools of one family print the same quantities under names that differ by version and form (`%user`,
//! `%usr`, `user`, `us`). What the recorder counts too gets its name; everything else is
//! `tool.object.column`, with the unit that the name ends in. Sources: sar(1), iostat(1), mpstat(1),
//! pidstat(1), vmstat(8), turbostat(8); `rndr_stats.c` and `json_stats.c` of sysstat.

use super::series::{Counter, Quantity, Shape};
use domain::trace::SeriesUnit;

/// Ticks of `USER_HZ` in a second.
const TICKS: f64 = 100.0;
const KIB: f64 = 1024.0;

/// A share of CPU time: `cpu` is `all`, `-1` or a number, `cpus` how many there are where that is known.
pub fn cpu(tool: &str, cpu: &str, field: &str, cpus: Option<u32>) -> Shape {
    let state = match field.trim_start_matches('%') {
        "user" | "usr" | "us" => "user",
        "system" | "sys" | "sy" => "system",
        "soft" | "softirq" => "softirq",
        "wa" => "iowait",
        "id" => "idle",
        "st" => "steal",
        "ni" => "nice",
        other => other,
    };
    const RECORDED: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
    const UNRECORDED: [&str; 3] = ["guest", "gnice", "gu"];
    let all = is_all(cpu);
    let object = if all { "cpu".to_owned() } else { format!("cpu{cpu}") };
    if !RECORDED.contains(&state) && !UNRECORDED.contains(&state) {
        return other(tool, &object, field, all);
    }
    let name = format!("{object}.{state}");
    let count = if all { cpus } else { Some(1) };
    let counter = count.filter(|_| RECORDED.contains(&state)).map(|count| Counter {
        column: name.clone(),
        unit: SeriesUnit::Ticks,
        per_second: TICKS * f64::from(count),
    });
    Shape {
        column: format!("{tool}.{name}"),
        name,
        quantity: Quantity::Share,
        scale: 0.01,
        counter,
        is_metric: all,
    }
}

/// Whether a CPU's name means all of them; sadf -d says `-1`.
fn is_all(cpu: &str) -> bool {
    matches!(cpu, "all" | "-1" | "-" | "–")
}

/// A frequency, printed in MHz.
pub fn frequency(cpu: &str) -> Shape {
    let object = if is_all(cpu) { "all".to_owned() } else { format!("cpu{cpu}") };
    Shape {
        name: format!("freq.{object}"),
        column: format!("freq.{object}.khz"),
        quantity: Quantity::Hertz,
        scale: 1e6,
        counter: None,
        is_metric: is_all(cpu),
    }
}

/// Power, of one package where it is named; then it fills the recorder's counter of energy.
pub fn watts(tool: &str, field: &str, package: Option<&str>) -> Shape {
    match (field, package) {
        ("PkgWatt", Some(package)) => {
            let object = format!("package-{}", clean(package));
            let counter = Counter {
                column: format!("rapl.{object}.uj"),
                unit: SeriesUnit::Microjoules,
                per_second: 1e6,
            };
            Shape {
                name: format!("power.{object}"),
                column: format!("{tool}.{object}.{field}"),
                quantity: Quantity::Watts,
                scale: 1.0,
                counter: Some(counter),
                is_metric: true,
            }
        }
        ("PkgWatt", None) => Shape { name: "power".to_owned(), ..other(tool, "", field, true) },
        _ => other(tool, package.map_or(String::new(), |p| format!("package-{p}")).as_str(), field, true),
    }
}

/// Something of a block device.
pub fn disk(tool: &str, device: &str, field: &str) -> Shape {
    use Quantity::{BytesPerSecond, PerSecond, Seconds, Share};
    let device = clean(device);
    let sectors = 1.0 / 512.0;
    let (name, quantity, scale, counter) = match field {
        "r/s" => ("read_iops", PerSecond, 1.0, Some(("read_ios", SeriesUnit::Count, 1.0))),
        "w/s" => ("write_iops", PerSecond, 1.0, Some(("write_ios", SeriesUnit::Count, 1.0))),
        "tps" => ("iops", PerSecond, 1.0, None),
        "rkB/s" | "rkB" | "kB_read/s" | "Blk_read/s" | "rMB/s" | "MB_read/s" | "rd_sec/s" | "rsec/s" => (
            "read_throughput",
            BytesPerSecond,
            bytes(field),
            Some(("read_sectors", SeriesUnit::Sectors, sectors)),
        ),
        "wkB/s" | "wkB" | "kB_wrtn/s" | "Blk_wrtn/s" | "wMB/s" | "MB_wrtn/s" | "wr_sec/s" | "wsec/s" => (
            "write_throughput",
            BytesPerSecond,
            bytes(field),
            Some(("write_sectors", SeriesUnit::Sectors, sectors)),
        ),
        "dkB/s" | "dkB" | "kB_dscd/s" | "dMB/s" => ("discard_throughput", BytesPerSecond, bytes(field), None),
        "%util" | "util" | "util-percent" => {
            ("busy", Share, 0.01, Some(("io_ms", SeriesUnit::Millis, 1000.0)))
        }
        "await" => ("latency_mean", Seconds, 1e-3, None),
        "r_await" => ("read_latency_mean", Seconds, 1e-3, None),
        "w_await" => ("write_latency_mean", Seconds, 1e-3, None),
        _ => return other(tool, &format!("disk.{device}"), field, true),
    };
    let counter = counter.map(|(column, unit, per_second)| Counter {
        column: format!("disk.{device}.{column}"),
        unit,
        per_second,
    });
    let name = format!("disk.{device}.{name}");
    Shape { column: format!("{tool}.{name}"), name, quantity, scale, counter, is_metric: true }
}

/// The bytes that a rate of data counts in.
fn bytes(field: &str) -> f64 {
    match field {
        _ if field.contains("sec") || field.starts_with("Blk") => 512.0,
        _ if field.contains("MB") => KIB * KIB,
        _ => KIB,
    }
}

/// Anything else, by the unit that its name shows.
pub fn other(tool: &str, object: &str, field: &str, is_metric: bool) -> Shape {
    use Quantity::{BytesPerSecond, Hertz, Number, PerSecond, Share, Watts};
    let (quantity, scale) = match field {
        _ if field.contains('%') || field.ends_with("-percent") => (Share, 0.01),
        _ if field.ends_with("kB/s") || field.starts_with("kB_") && field.ends_with("/s") => {
            (BytesPerSecond, KIB)
        }
        "rxkB" | "txkB" => (BytesPerSecond, KIB),
        _ if field.ends_with("MB/s") || field.starts_with("MB_") && field.ends_with("/s") => {
            (BytesPerSecond, KIB * KIB)
        }
        _ if field.ends_with("/s") => (PerSecond, 1.0),
        _ if field.ends_with("MHz") => (Hertz, 1e6),
        _ if field.ends_with("Watt") => (Watts, 1.0),
        _ => (Number, 1.0),
    };
    let parts = [tool, object, field].map(clean);
    let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    let name = parts.join(".");
    Shape { column: name.clone(), name, quantity, scale, counter: None, is_metric }
}

/// A bound on the part of a name that a file gives.
const MAX_NAME: usize = 80;

/// A name without what a terminal would obey, and not longer than anybody reads.
fn clean(name: &str) -> String {
    name.chars().take(MAX_NAME).map(|c| if c.is_control() || c.is_whitespace() { '_' } else { c }).collect()
}
