//! What fio's options take, as far as it is the same in every fio of version 3: directions, switches,
//! numbers and their bounds. A value that is mistyped is found before anything runs, and not by the first
//! trial. Options whose values are texts of their own, such as `bssplit`, are those of [`super::texts`].
//!
//! Source: `fio --cmdhelp=OPTION`; how numbers are read: fio's `parse.c` (`str_to_decimal`, `check_int`).
//! What of `4kk` follows the first unit is not read there, and means `4k`; nobody means that. Nor does
//! anybody mean the `70` that fio reads of `rwmixread = 70-80`. `tests/fio_values.rs` holds this against the
//! fio that is installed.

use super::texts;
use crate::options::Refusal;
use domain::units::Bytes;

/// What `rw` takes, before a number of requests (`randread:8`).
const DIRECTIONS: [&str; 11] = [
    "read",
    "write",
    "trim",
    "randread",
    "randwrite",
    "randtrim",
    "rw",
    "readwrite",
    "randrw",
    "trimwrite",
    "randtrimwrite",
];

/// Options that are on or off.
const SWITCHES: [&str; 50] = [
    "allrandrepeat",
    "atomic",
    "block_error_percentiles",
    "blocksize_unaligned",
    "bs_unaligned",
    "buffered",
    "clat_percentiles",
    "create_fsync",
    "create_serialize",
    "dedupe_global",
    "direct",
    "disable_bw",
    "disable_bw_measurement",
    "disable_clat",
    "disable_lat",
    "disable_slat",
    "disk_util",
    "do_verify",
    "end_fsync",
    "error_dump",
    "exitall",
    "exitall_on_error",
    "fsync_on_close",
    "group_reporting",
    "gtod_reduce",
    "invalidate",
    "lat_percentiles",
    "latency_run",
    "log_offset",
    "new_group",
    "norandommap",
    "overwrite",
    "per_job_logs",
    "pre_read",
    "randrepeat",
    "rate_ignore_thinktime",
    "refill_buffers",
    "replay_no_stall",
    "scramble_buffers",
    "serialize_overlap",
    "slat_percentiles",
    "stats",
    "stonewall",
    "thread",
    "time_based",
    "trim_verify_zero",
    "verify_fatal",
    "verify_only",
    "wait_for_previous",
    "zero_buffers",
];

/// Options that are one number, or one each for reads, writes and trims.
const NUMBERS: [&str; 68] = [
    "ba",
    "blockalign",
    "blocksize",
    "bs",
    "buffer_compress_chunk",
    "buffer_compress_percentage",
    "bwavgtime",
    "dedupe_percentage",
    "dedupe_working_set_percentage",
    "fdatasync",
    "flow",
    "flow_id",
    "flow_sleep",
    "fsync",
    "gtod_cpu",
    "hugepage-size",
    "iodepth",
    "iodepth_batch",
    "iodepth_batch_complete",
    "iodepth_batch_complete_max",
    "iodepth_batch_complete_min",
    "iodepth_batch_submit",
    "iodepth_low",
    "iopsavgtime",
    "latency_target",
    "latency_window",
    "lockmem",
    "log_avg_msec",
    "log_entries",
    "log_hist_coarseness",
    "log_hist_msec",
    "loops",
    "max_latency",
    "nice",
    "number_ios",
    "numjobs",
    "offset_align",
    "percentage_random",
    "prio",
    "prioclass",
    "ramp_time",
    "randseed",
    "rate",
    "rate_cycle",
    "rate_iops",
    "rate_iops_min",
    "rate_min",
    "replay_time_scale",
    "runtime",
    "rwmixread",
    "rwmixwrite",
    "significant_figures",
    "steadystate_duration",
    "steadystate_ramp_time",
    "thinktime",
    "thinktime_blocks",
    "thinktime_iotime",
    "thinktime_spin",
    "timeout",
    "trim_backlog",
    "trim_backlog_batch",
    "trim_percentage",
    "verify_async",
    "verify_backlog",
    "verify_backlog_batch",
    "verify_interval",
    "verify_offset",
    "write_barrier",
];

/// Options that are a span of the target.
const EXTENTS: [&str; 4] = ["fileoffset", "offset", "offset_increment", "size"];

/// Options that are a number, a percentage, or (`zoneskip = 4z`) a number of zones.
const SPANS: [&str; 5] = ["io_limit", "io_size", "zonerange", "zonesize", "zoneskip"];

/// The least and the most of numbers that fio bounds.
const BOUNDS: [(&str, u64, u64); 18] = [
    ("ba", 1, u64::MAX),
    ("blockalign", 1, u64::MAX),
    ("blocksize", 1, u64::MAX),
    ("bs", 1, u64::MAX),
    ("buffer_compress_percentage", 0, 100),
    ("dedupe_percentage", 0, 100),
    ("dedupe_working_set_percentage", 0, 100),
    ("iodepth", 1, u64::MAX),
    ("log_entries", 1024, 1_048_576),
    ("nice", 0, 19),
    ("percentage_random", 0, 100),
    ("prio", 0, 7),
    ("prioclass", 0, 3),
    ("replay_time_scale", 1, u64::MAX),
    ("rwmixread", 0, 100),
    ("rwmixwrite", 0, 100),
    ("significant_figures", 1, 10),
    ("trim_percentage", 0, 100),
];

/// Units of a number: sizes, then times.
const UNITS: [&str; 27] = [
    "", "b", "k", "kb", "ki", "kib", "m", "mb", "mi", "mib", "g", "gb", "gi", "gib", "t", "tb", "ti", "tib",
    "us", "usec", "ms", "msec", "s", "sec", "min", "h", "d",
];

/// Whether fio reads a value of this option, as far as that is known.
///
/// # Errors
/// What the option takes.
pub(super) fn check(option: &str, value: &str) -> Result<(), Refusal> {
    if let Some(takes) = texts::problem(option, value) {
        return Err(Refusal::Value(format!("is `{value}`; {takes}")));
    }
    let is_right = match option {
        "rw" | "readwrite" => return direction(value),
        "bsrange" | "blocksize_range" => value.split(',').all(is_range),
        "startdelay" => is_number(value) || is_range(value),
        _ if NUMBERS.contains(&option) => value.split(',').all(|part| part.is_empty() || is_number(part)),
        _ if SPANS.contains(&option) => is_number(value.strip_suffix(['%', 'z']).unwrap_or(value)),
        _ if SWITCHES.contains(&option) => return switch(value),
        // Of which target does not matter: a percentage of any is one.
        _ if EXTENTS.contains(&option) => super::options::extent(value, Bytes::from_mib(1)).is_some(),
        _ => true,
    };
    if is_right && !value.is_empty() {
        return bounds(option, value);
    }
    let takes = match option {
        "bs" | "blocksize" | "ba" | "blockalign" => "a size such as `4k` or `1m`",
        "bsrange" | "blocksize_range" => "two sizes such as `4k-64k`",
        "size" | "offset" | "fileoffset" | "offset_increment" => {
            "a number with k, m, g or t (powers of 1024), or a percentage of the target"
        }
        "runtime" | "ramp_time" | "startdelay" | "timeout" => "a span of time such as `30s` or `2min`",
        _ if SPANS.contains(&option) => "a number with k, m, g or t, or a percentage",
        _ if NUMBERS.contains(&option) => "a number, with a unit where it has one",
        _ => "something; fio takes no empty value",
    };
    Err(Refusal::Value(format!("is `{value}`; write {takes}")))
}

/// fio looks at the first of several numbers with care; the numbers of reads, writes and trims are alike.
fn bounds(option: &str, value: &str) -> Result<(), Refusal> {
    let Some((_, least, most)) = BOUNDS.iter().find(|(name, ..)| *name == option) else { return Ok(()) };
    let first = value.split(',').next().unwrap_or_default();
    // A number with a unit, or in another form, is fio's to read.
    let Ok(number) = first.trim().parse::<u64>() else { return Ok(()) };
    if number < *least {
        return Err(Refusal::Value(format!("is `{value}`; write at least {least}")));
    }
    if number > *most {
        return Err(Refusal::Value(format!("is `{value}`; write at most {most}")));
    }
    Ok(())
}

fn direction(value: &str) -> Result<(), Refusal> {
    let (kind, requests) = value.split_once(':').unwrap_or((value, "1"));
    if !DIRECTIONS.contains(&kind) {
        return Err(Refusal::Value(format!("is `{value}`; write one of `{}`", DIRECTIONS.join("`, `"))));
    }
    match is_number(requests) {
        true => Ok(()),
        false => Err(Refusal::Value(format!("is `{value}`; write a number behind the colon: `{kind}:8`"))),
    }
}

fn switch(value: &str) -> Result<(), Refusal> {
    match value {
        "0" | "1" => Ok(()),
        // fio takes an empty value for a switch that is on.
        "" => Ok(()),
        _ => Err(Refusal::Value(format!("is `{value}`; write true or false"))),
    }
}

/// `4k-64k`.
fn is_range(text: &str) -> bool {
    text.split_once('-').is_some_and(|(from, to)| is_number(from) && is_number(to))
}

/// `4k`, `1.5m`, `0x1000`, `10ms`; an expression in parentheses is fio's to read.
fn is_number(text: &str) -> bool {
    let text = text.trim().to_ascii_lowercase();
    if text.starts_with('(') {
        return true;
    }
    let text = text.strip_prefix('-').unwrap_or(&text);
    if let Some(hexadecimal) = text.strip_prefix("0x") {
        return u64::from_str_radix(hexadecimal, 16).is_ok();
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    number.parse::<f64>().is_ok() && UNITS.contains(&unit.trim())
}

#[cfg(test)]
mod tests {
    use super::super::options;
    use super::*;

    fn refused(option: &str, value: &str) -> Option<String> {
        check(option, value).err().map(|refusal| refusal.to_string())
    }

    #[test]
    fn a_mistyped_value_is_refused_with_what_the_option_takes() {
        for (option, value, said) in [
            ("rw", "randraed", "is `randraed`; write one of `read`"),
            ("rw", "randread:x", "`randread:8`"),
            ("bs", "4kk", "is `4kk`; write a size such as `4k`"),
            ("bs", "", "is ``; write a size"),
            ("bsrange", "4k", "two sizes"),
            ("bsrange", "4k-6x", "two sizes"),
            ("iodepth", "many", "a number"),
            ("direct", "yes", "true or false"),
            ("runtime", "1 fortnight", "a span of time"),
            ("size", "8MiB", "powers of 1024"),
            ("rwmixread", "101", "at most 100"),
            ("iodepth", "0", "at least 1"),
            ("zoneskip", "x", "k, m, g or t"),
            ("description", "", "no empty value"),
            ("zonemode", "foo", "write one of `none`"),
        ] {
            let error = refused(option, value).unwrap_or_else(|| panic!("{option} = {value} is taken"));
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn what_fio_reads_is_taken() {
        for (option, value) in [
            ("rw", "randread:8"),
            ("readwrite", "trimwrite"),
            ("bs", "4k,64k,"),
            ("bs", "4096"),
            ("bs", "0x1000"),
            ("bs", "(4*1024)"),
            ("bs", "4KiB"),
            ("bsrange", "1k-4k,4k-8k"),
            ("runtime", "500ms"),
            ("runtime", "1.5s"),
            ("rate", "1m,500k"),
            ("nice", "-5"),
            ("thinktime", "100us"),
            ("direct", "1"),
            ("size", "50%"),
            ("bssplit", "4k/60:8k/40"),
        ] {
            assert_eq!(refused(option, value), None, "{option} = {value}");
        }
    }

    #[test]
    fn each_option_of_the_lists_may_be_set_and_is_in_one_of_them() {
        let all: Vec<&str> = [&SWITCHES[..], &NUMBERS, &EXTENTS, &SPANS].concat();
        for name in &all {
            assert!(options::names().any(|known| known == *name), "{name}");
            assert_eq!(all.iter().filter(|other| *other == name).count(), 1, "{name}");
        }
        for (name, ..) in BOUNDS {
            assert!(NUMBERS.contains(&name), "{name}");
        }
    }
}
