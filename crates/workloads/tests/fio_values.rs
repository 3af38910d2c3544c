//! What is refused of a value is what fio refuses, and what fio takes is taken: the same table is read by
//! both.

use std::process::Command;
use workloads::fio::options;

/// Values that fio takes.
const GOOD: &[(&str, &str)] = &[
    ("bssplit", "4k/60:8k/40"),
    ("bssplit", "4k:8k"),
    ("bssplit", "4k/50,8k/100"),
    ("bssplit", ",4k/50"),
    ("bssplit", "4k/50::x"),
    ("bssplit", "4k/60:8k/60"),
    ("bssplit", "4k/50:4k/60:4k"),
    ("bssplit", "4k/foo"),
    ("bssplit", "4k/50/60"),
    ("bssplit", "0x1000/50"),
    ("bssplit", "0x/50"),
    ("bssplit", "4k/-5"),
    ("bssplit", " 4k/50:8k/50 "),
    ("random_distribution", "random"),
    ("random_distribution", "zipf"),
    ("random_distribution", "zipf:1.2"),
    ("random_distribution", "zipf:0"),
    ("random_distribution", "zipf: 1.2x"),
    ("random_distribution", "zipf:1.2:0.5"),
    ("random_distribution", "pareto:0.2"),
    ("random_distribution", "normal"),
    ("random_distribution", "normal:20"),
    ("random_distribution", "normal:5:0.5"),
    ("random_distribution", "zoned:60/10:30/20:8/30:2/40"),
    ("random_distribution", "zoned:100"),
    ("random_distribution", "zoned:100/500"),
    ("random_distribution", "zoned:50/50:50"),
    ("random_distribution", "zoned:60k/10:100/20"),
    ("random_distribution", "zoned:255/10:100/10"),
    ("random_distribution", "zoned:"),
    ("random_distribution", "zoned_abs:60/20G:30/100G:10/500g"),
    ("random_distribution", "zoned_abs:60:40"),
    ("steadystate", "iops:1%"),
    ("steadystate", "iops_slope:0.3"),
    ("steadystate", "bw:1m"),
    ("percentile_list", "50:99:99.9"),
    ("latency_percentile", "99"),
    ("zonemode", "strided"),
    ("zonemode", "none:foo"),
    ("zonesize", "50%"),
    ("zoneskip", "4z"),
    ("io_size", "50%"),
    ("verify", "crc32c"),
    ("verify", "crc32c:4k"),
    ("sync", "dsync"),
    ("mem", "mmaphuge:x"),
    ("sync_file_range", "wait_before,write:8"),
    ("fadvise_hint", "sequential"),
    ("rwmixread", "100"),
    ("percentage_random", "50,101"),
    ("iodepth", "1"),
    ("nice", "-20"),
    ("randseed", "5"),
    ("verify_backlog", "8"),
    ("gtod_cpu", "0"),
    ("group_reporting", "1"),
    ("disable_lat", "1"),
    ("refill_buffers", "0"),
];

/// Values that fio refuses.
const BAD: &[(&str, &str)] = &[
    ("bssplit", ""),
    ("bssplit", "foo/40"),
    ("bssplit", "/50"),
    ("bssplit", "-/50"),
    ("bssplit", "x/50,4k"),
    ("bssplit", "4k,x,4k"),
    ("bssplit", "4k,4k,x,4k"),
    ("bssplit", "4k/60:8k/60:1k:2k"),
    ("bssplit", "4k/200:1k/200:2k:3k"),
    ("random_distribution", "zip"),
    ("random_distribution", "zipfx"),
    ("random_distribution", "zipf:"),
    ("random_distribution", "zipf:1"),
    ("random_distribution", "zipf:x"),
    ("random_distribution", "zipf:1.2:"),
    ("random_distribution", "zipf:1.2:x"),
    ("random_distribution", "zipf:1.2:5"),
    ("random_distribution", "pareto:1.2"),
    ("random_distribution", "normal:-1"),
    ("random_distribution", "normal:100"),
    ("random_distribution", "zoned"),
    ("random_distribution", "zoned:x"),
    ("random_distribution", "zoned:60/10:30/20"),
    ("random_distribution", "zoned:60/50:40/60"),
    ("random_distribution", "zoned:101/10"),
    ("random_distribution", "zoned_abs:60/x:40/2"),
    ("random_distribution", "zoned_abs:60/1:60/2"),
    ("steadystate", "iops"),
    ("steadystate", "iops:"),
    ("steadystate", "iops:x%"),
    ("steadystate", "bw:x"),
    ("steadystate", "foo:1"),
    ("percentile_list", "x"),
    ("percentile_list", "101"),
    ("percentile_list", "-1"),
    ("latency_percentile", "101"),
    ("zonemode", "stride"),
    ("zonesize", "x"),
    ("zoneskip", "xz"),
    ("zonerange", "x"),
    ("io_size", "x"),
    ("verify", "1"),
    ("verify", "crc33"),
    ("sync", "2"),
    ("mem", "heap"),
    ("sync_file_range", "all"),
    ("fadvise_hint", "rand"),
    ("clocksource", "tsc"),
    ("continue_on_error", "yes"),
    ("kb_base", "1001"),
    ("unit_base", "9"),
    ("random_generator", "mt"),
    ("rate_process", "uniform"),
    ("unified_rw_reporting", "yes"),
    ("write_hint", "tiny"),
    ("io_submit_mode", "async"),
    ("thinktime_blocks_type", "submit"),
    ("dedupe_mode", "none"),
    ("cpus_allowed_policy", "any"),
    ("rw_sequencer", "random"),
    ("rwmixread", "101"),
    ("rwmixread", "foo"),
    ("percentage_random", "101"),
    ("dedupe_percentage", "101"),
    ("iodepth", "0"),
    ("bs", "0"),
    ("nice", "20"),
    ("prio", "8"),
    ("prioclass", "4"),
    ("significant_figures", "11"),
    ("log_entries", "3"),
    ("trim_percentage", "101"),
    ("replay_time_scale", "0"),
    ("randseed", "x"),
    ("flow", "x"),
    ("gtod_cpu", "x"),
    ("verify_backlog", "x"),
    ("hugepage-size", "x"),
    ("group_reporting", "yes"),
    ("refill_buffers", "yes"),
    ("disable_lat", "yes"),
    ("stats", "on"),
    ("description", ""),
];

/// Whether the fio of this machine reads all of them.
fn fio_takes(given: &[(&str, &str)]) -> bool {
    Command::new("fio")
        .args(["--parse-only", "--name=x", "--filename=absent", "--allow_file_create=0", "--size=1m"])
        .args(given.iter().map(|(option, value)| format!("--{option}={value}")))
        .output()
        .expect("fio is installed")
        .status
        .success()
}

/// Whether fio runs with it. Some values are read only then.
fn fio_runs_with(option: &str, value: &str) -> bool {
    let given = format!("--{option}={value}");
    Command::new("fio")
        .args(["--name=x", "--ioengine=null", "--size=4k", "--number_ios=1"])
        .arg(given)
        .output()
        .expect("fio is installed")
        .status
        .success()
}

#[test]
fn what_fio_takes_is_taken() {
    // One fio reads them all, and is asked for each only where it refuses one.
    if !fio_takes(GOOD) {
        let refused: Vec<_> = GOOD.iter().filter(|one| !fio_takes(&[**one])).collect();
        panic!("fio refuses {refused:?}");
    }
    for (option, value) in GOOD {
        assert_eq!(options::check(option, value), Ok(()), "{option} = `{value}`");
    }
}

#[test]
fn what_fio_refuses_is_refused_before() {
    for (option, value) in BAD {
        assert!(!fio_takes(&[(option, value)]), "fio takes {option} = `{value}`");
        assert!(options::check(option, value).is_err(), "{option} = `{value}` is taken");
    }
}

#[test]
fn errors_that_are_ignored_are_those_that_fio_knows() {
    for (value, is_right) in
        [("EIO", true), ("EIO:28,ENOSPC", true), ("28", true), ("x", false), ("EIO,x", false), ("0", false)]
    {
        assert_eq!(fio_runs_with("ignore_error", value), is_right, "fio and `{value}`");
        assert_eq!(options::check("ignore_error", value).is_ok(), is_right, "`{value}`");
    }
}
