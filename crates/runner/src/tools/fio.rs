//! fio, reported as json+ (fio(1), version 3).
//!
//! Only options on the list below are passed on. fio's command line takes abbreviations of its long options
//! (getopt_long_only(3)), so a list of what is refused would not hold; and an option of a later fio that nobody
//! here has read must not run as root.

use super::{Driver, Invocation, Job};
use crate::Error;
use domain::outcome::Outcome;
use domain::units::Bytes;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

pub(super) const DRIVER: Driver = Driver {
    program: Some(("fio", "fio")),
    invocation,
    outcome,
    // With --output, fio's messages go to that file, before the JSON.
    complaints: &[super::STDERR, REPORT],
};

/// The report's name in the trial's folder.
const REPORT: &str = "fio.json";

/// Job options that touch nothing but the target and the trial's folder, aliases included.
const PASSED_ON: &[&str] = &[
    // What is done.
    "description rw readwrite bs blocksize ba blockalign bsrange blocksize_range bssplit bs_unaligned",
    "blocksize_unaligned rw_sequencer rwmixread rwmixwrite percentage_random random_distribution random_generator",
    "norandommap randrepeat allrandrepeat randseed size io_size io_limit offset fileoffset offset_align",
    "offset_increment number_ios loops runtime timeout time_based ramp_time startdelay overwrite ignore_error",
    "continue_on_error max_latency zonemode zonesize zonerange zoneskip exitall exitall_on_error",
    // How it is done.
    "ioengine iodepth iodepth_batch iodepth_batch_submit iodepth_batch_complete iodepth_batch_complete_min",
    "iodepth_batch_complete_max iodepth_low io_submit_mode serialize_overlap direct buffered atomic sync fsync",
    "fdatasync write_barrier sync_file_range end_fsync fsync_on_close fadvise_hint invalidate pre_read lockmem mem",
    "iomem hugepage-size numjobs thread group_reporting new_group stonewall wait_for_previous create_serialize",
    "create_fsync clocksource gtod_reduce gtod_cpu hipri fixedbufs registerfiles sqthread_poll sqthread_poll_cpu",
    "nonvectored uncached force_async nowait userspace_reap cmdprio cmdprio_class cmdprio_percentage cmdprio_bssplit",
    "cpuload cpuchunks cpumode exit_on_io_done write_hint",
    // With what.
    "zero_buffers refill_buffers scramble_buffers buffer_pattern buffer_compress_percentage buffer_compress_chunk",
    "dedupe_percentage dedupe_mode dedupe_working_set_percentage dedupe_global verify do_verify verify_only",
    "verify_interval verify_offset verify_pattern verify_fatal verify_async verify_backlog verify_backlog_batch",
    "trim_percentage trim_verify_zero trim_backlog trim_backlog_batch",
    // How fast, and where.
    "rate rate_min rate_process rate_cycle rate_ignore_thinktime rate_iops rate_iops_min thinktime thinktime_spin",
    "thinktime_blocks thinktime_blocks_type thinktime_iotime latency_target latency_window latency_percentile",
    "latency_run nice prio prioclass cpumask cpus_allowed cpus_allowed_policy numa_cpu_nodes numa_mem_policy",
    "flow flow_id flow_sleep steadystate steadystate_duration steadystate_ramp_time",
    // What is reported.
    "write_bw_log write_lat_log write_iops_log write_hist_log write_iolog per_job_logs bwavgtime iopsavgtime",
    "log_avg_msec log_hist_msec log_hist_coarseness log_max_value log_offset log_prio log_compression",
    "log_compression_cpus log_store_compressed log_unix_epoch log_alternate_epoch log_alternate_epoch_clock_id",
    "log_entries clat_percentiles lat_percentiles slat_percentiles percentile_list significant_figures disk_util",
    "disable_lat disable_clat disable_slat disable_bw disable_bw_measurement unified_rw_reporting kb_base unit_base",
    "block_error_percentiles error_dump stats",
];

/// Options that are refused, and why; a reason is worth more than "not known".
const REFUSED: &[(&str, &str)] = &[
    (
        "filename directory filename_format opendir name output output-format",
        "flyball sets what is read and written",
    ),
    ("exec_prerun exec_postrun exec trigger trigger-file trigger-timeout", "it would run another program"),
    ("unlink unlink_each_loop", "it would remove the target, which flyball does itself"),
    (
        "nrfiles nr_files openfiles filesize fill_device file_append allow_file_create create_only create_on_open fallocate lockfile",
        "it would change which files there are, and the target is one file of a fixed size",
    ),
    ("ioscheduler", "it would change the scheduler without a way back; vary the setting `scheduler` instead"),
    ("cgroup cgroup_weight cgroup_nodelete uid gid", "it would change more of the machine than the target"),
    (
        "read_iolog merge_blktrace_file replay_redirect profile verify_state_load verify_state_save",
        "it names other files that would be read or written",
    ),
];

/// Engines that do I/O to a file or block device, or none.
const ENGINES: &str = "sync psync vsync pvsync pvsync2 libaio posixaio io_uring mmap splice null cpuio";

/// Options whose values may hold a slash that is not a path.
const SLASHED: &str = "bssplit cmdprio_bssplit random_distribution description";

fn invocation(job: &Job<'_>) -> Result<Invocation, Error> {
    let (target, size) = super::needed_target(job)?;
    for (key, value) in &job.workload.options {
        check(key, value)?;
    }
    check_extent(job, size)?;
    let mut argv = vec![
        "fio".to_owned(),
        "--output-format=json+".into(),
        format!("--output={}", super::text(&job.raw.join(REPORT))),
        format!("--name={}", job.workload.name),
        format!("--filename={}", escaped(target)),
        // A target that has vanished is an error, and not a reason to make another one.
        "--allow_file_create=0".into(),
    ];
    argv.extend(job.workload.options.iter().map(|(key, value)| format!("--{key}={value}")));
    Ok(Invocation { argv, folder: Some(job.raw.to_owned()) })
}

fn outcome(job: &Job<'_>, _version: &str) -> Result<Outcome, Error> {
    let path = job.raw.join(REPORT);
    let report = File::open(&path).map_err(|e| Error::file("read", &path, e))?;
    parse::tools::fio::read(BufReader::new(report)).map_err(|e| super::unusable(job, &e))
}

/// A colon separates file names in fio (fio(1), `filename`).
fn escaped(target: &Path) -> String {
    super::text(target).replace(':', "\\:")
}

fn check(key: &str, value: &str) -> Result<(), Error> {
    if let Some((_, why)) = REFUSED.iter().find(|(names, _)| has(names, key)) {
        return Err(refuse(key, value, why));
    }
    if !PASSED_ON.iter().any(|names| has(names, key)) {
        return Err(refuse(
            key,
            value,
            "it is not among the job options that flyball knows to be safe; see fio(1)",
        ));
    }
    if key == "ioengine" && !has(ENGINES, value) {
        return Err(refuse(key, value, &format!("only these engines stay on the target: {ENGINES}")));
    }
    if value.contains('/') && !has(SLASHED, key) {
        return Err(refuse(
            key,
            value,
            "it names a path; logs are given a plain name and go to the trial's folder",
        ));
    }
    if value.contains(|c: char| c.is_control()) {
        return Err(refuse(key, value, "it holds a control character"));
    }
    if value.starts_with('\'') || value.starts_with("\"/") {
        return Err(refuse(key, value, "it names a file to read"));
    }
    Ok(())
}

/// Everything that a job may touch lies within the target: fio makes a file longer that is too short for it.
fn check_extent(job: &Job<'_>, target: Bytes) -> Result<(), Error> {
    let options = &job.workload.options;
    let length = |names: [&str; 2]| -> Result<Option<u64>, Error> {
        let Some((key, value)) = names.iter().find_map(|name| options.get_key_value(*name)) else {
            return Ok(None);
        };
        extent(value, target).map(Some).ok_or_else(|| {
            refuse(
                key,
                value,
                "a size here is a number with k, m, g or t (powers of 1024), or a percentage of the target",
            )
        })
    };
    let offset = length(["offset", "fileoffset"])?.unwrap_or(0);
    let step = length(["offset_increment", ""])?.unwrap_or(0);
    let jobs = options.get("numjobs").and_then(|n| n.parse::<u64>().ok()).unwrap_or(1);
    let start = offset.saturating_add(step.saturating_mul(jobs.saturating_sub(1)));
    let size = length(["size", ""])?;
    if start.saturating_add(size.unwrap_or(0)) <= target.get() && start < target.get() {
        return Ok(());
    }
    let key = if size.is_some() { "size" } else { "offset" };
    let value = options.get(key).cloned().unwrap_or_default();
    Err(refuse(
        key,
        &value,
        &format!(
            "with all jobs and offsets it reaches beyond the target of {target}; make the target larger"
        ),
    ))
}

fn extent(value: &str, target: Bytes) -> Option<u64> {
    if let Some(percent) = value.strip_suffix('%') {
        let percent = percent.parse::<u8>().ok().filter(|p| *p <= 100)?;
        return Some(target.get() / 100 * u64::from(percent));
    }
    // fio reads "kB" and "KiB" the other way round than everybody else unless kb_base is set; a lone letter is clear.
    if value.to_ascii_lowercase().ends_with('b') {
        return None;
    }
    Bytes::parse(value).map(Bytes::get)
}

fn has(names: &str, name: &str) -> bool {
    names.split(' ').any(|n| n == name)
}

fn refuse(key: &str, value: &str, why: &str) -> Error {
    Error::Option { tool: "fio", key: key.into(), value: value.into(), why: why.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::study::{Tool, Workload};
    use expect_test::expect;

    fn made(options: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let workload = Workload { name: "read".into(), tool: Tool::Fio, options };
        let job = Job {
            workload: &workload,
            target: Some((Path::new("/w/a:b/target"), Bytes::from_mib(64))),
            raw: Path::new("/n/raw"),
        };
        invocation(&job).map(|i| i.argv).map_err(|e| e.to_string())
    }

    #[test]
    fn the_command_is_literal_and_ours_come_first() {
        let argv =
            made(&[("rw", "randread"), ("bs", "4k"), ("write_bw_log", "bw"), ("bssplit", "4k/60:8k/40")])
                .unwrap();
        expect!["fio --output-format=json+ --output=/n/raw/fio.json --name=read --filename=/w/a\\:b/target --allow_file_create=0 --bs=4k --bssplit=4k/60:8k/40 --rw=randread --write_bw_log=bw"]
            .assert_eq(&argv.join(" "));
    }

    #[test]
    fn what_would_leave_the_target_is_refused_with_the_reason() {
        for (key, value) in [
            ("filename", "/dev/sda"),
            ("directory", "/"),
            ("exec_prerun", "rm -rf /"),
            ("exec_pre", "abbreviated"),
            ("filenam", "abbreviated"),
            ("trigger", "x"),
            ("ioengine", "external:/tmp/evil.so"),
            ("ioengine", "exec"),
            ("ioengine", "filedelete"),
            ("write_bw_log", "/etc/cron.d/x"),
            ("write_iolog", "../x"),
            ("mem", "mmap:/dev/sda"),
            ("unlink", "1"),
            ("ioscheduler", "none"),
            ("read_iolog", "x"),
            ("client", "host"),
            ("rw", "read\nfilename=/dev/sda"),
            ("buffer_pattern", "'secret'"),
        ] {
            let error = made(&[(key, value)]).unwrap_err();
            assert!(error.starts_with(&format!("cannot give `{key} = {value}` to fio: ")), "{error}");
        }
    }

    #[test]
    fn a_job_never_reaches_beyond_the_target() {
        for options in [
            &[("size", "64m")][..],
            &[("size", "100%")],
            &[("offset", "32m"), ("size", "32m")],
            &[("offset_increment", "16m"), ("numjobs", "4"), ("size", "16m")],
            &[("io_size", "1g")],
        ] {
            assert!(made(options).is_ok(), "{options:?}");
        }
        for options in [
            &[("size", "65m")][..],
            &[("size", "64MiB")],
            &[("offset", "64m")],
            &[("offset", "33m"), ("size", "32m")],
            &[("offset_increment", "17m"), ("numjobs", "4"), ("size", "16m")],
            &[("size", "many")],
        ] {
            assert!(made(options).is_err(), "{options:?}");
        }
    }

    #[test]
    fn no_option_is_both_passed_on_and_refused() {
        for (names, _) in REFUSED {
            for name in names.split(' ') {
                assert!(!PASSED_ON.iter().any(|passed| has(passed, name)), "{name}");
            }
        }
    }
}
