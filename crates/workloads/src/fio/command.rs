//! fio, reported as json+ (fio(1), version 3).
//!
//! Only options on the list of [`super::options`] are passed on, whoever made the workload: the study's
//! reader has asked the same list, but it is here that a command begins to exist.

use crate::fio::steady_state::Conditioning;
use crate::fio::{endless, options, version};
use crate::job::text;
use crate::sysbench::options::Bursts;
use crate::{Error, Invocation, Job, TargetAccess};
use domain::outcome::Outcome;
use domain::time::Nanos;
use domain::units::Bytes;
use std::io::BufRead;
use std::path::Path;

pub(super) fn invocation(job: &Job<'_>) -> Result<Invocation, Error> {
    job.check_access()?;
    let target = match endless::is_of_the_cpu(&job.workload.options) && job.target.is_none() {
        true => None,
        false => Some(job.needed_target()?),
    };
    for (key, value) in fios(job) {
        check(key, value)?;
    }
    if let Some((_, size)) = target {
        check_extent(job, size)?;
    }
    let bursts = bursts(job)?;
    conditioning(job)?;
    let mut argv = command(job, "fio", target.map(|(path, _)| path));
    let lead_in = bursts.and_then(|bursts| lead_in(job, bursts));
    // fio knows the options of this engine only once it knows the engine.
    let engine = endless::engine(&job.workload.options);
    argv.extend(engine.map(|name| format!("--{}={name}", endless::ENGINE)));
    let ours = |key: &str| key == RAMP && lead_in.is_some() || key == endless::ENGINE && engine.is_some();
    argv.extend(
        fios(job).filter(|(key, _)| !ours(key.as_str())).map(|(key, value)| format!("--{key}={value}")),
    );
    if let Some(Bursts { period, on }) = bursts {
        // fio works for `thinktime_iotime`, waits until what is in flight is done, and sleeps.
        let us = |span: Nanos| format!("{}us", span.get() / 1000);
        argv.extend(lead_in.map(|span| format!("--{RAMP}={}", us(span))));
        argv.push(format!("--thinktime={}", us(period.saturating_sub(on))));
        argv.push(format!("--thinktime_iotime={}", us(on)));
    }
    Ok(Invocation { argv, folder: Some(job.raw.to_owned()) })
}

/// The option that has fio work for a while before it counts.
const RAMP: &str = "ramp_time";

/// How long fio works before it counts, so that what it counts begins with a burst. Before fio 3.35 the first
/// burst lasts for a whole period and each later one ends with its period, so that a period begins with a
/// pause (backend.c, `handle_thinktime`); counting, which begins with the first request after the ramp, is
/// begun in the middle of such a pause. From 3.35 on a ramp's end begins a burst (libfio.c,
/// `reset_all_stats`). `None` where the job's time is not given: what does not last would end within its
/// ramp.
fn lead_in(job: &Job<'_>, bursts: Bursts) -> Option<Nanos> {
    let given = &job.workload.options;
    let is_set = |key: &str| given.get(key).is_some_and(|value| value != "0");
    if !is_set("runtime") || !is_set("time_based") {
        return None;
    }
    let asked = match given.get(RAMP) {
        Some(text) => Nanos::parse(text).or_else(|| text.parse().ok().map(Nanos::from_secs))?,
        None => Nanos::ZERO,
    };
    let periods = asked.get().div_ceil(bursts.period.get()).max(1);
    let pause = bursts.period.saturating_sub(bursts.on);
    Some(Nanos::new(bursts.period.get().checked_mul(periods)?.checked_add(pause.get() / 2)?))
}

/// What every command of fio begins with; its report is named so.
pub(super) fn command(job: &Job<'_>, report: &str, target: Option<&Path>) -> Vec<String> {
    let mut argv = vec![
        "fio".to_owned(),
        "--output-format=json+".into(),
        format!("--output={}", text(&job.raw.join(format!("{report}.json")))),
        format!("--name={}", job.workload.name),
    ];
    if let Some(target) = target {
        argv.push(format!("--filename={}", escaped(target)));
        // A target that has vanished is an error, and not a reason to make another one.
        argv.push("--allow_file_create=0".into());
    }
    // fio itself then refuses to write and to trim (fio(1), `--readonly`).
    argv.extend((job.access == TargetAccess::ReadOnly).then(|| "--readonly".to_owned()));
    argv
}

/// Reads a report, that of the job itself or of a round before it.
pub(super) fn outcome(job: &Job<'_>, report: &mut dyn BufRead) -> Result<Outcome, Error> {
    let outcome = super::report::read(report).map_err(|e| job.unusable(&e))?;
    Ok(match bursts(job)? {
        Some(bursts) => of_bursts(outcome, bursts, lead_in(job, bursts).is_some()),
        None => outcome,
    })
}

/// What fio is given: all but Flyball's own.
fn fios<'a>(job: &Job<'a>) -> impl Iterator<Item = (&'a String, &'a String)> {
    job.workload.options.iter().filter(|(key, _)| !options::OURS.contains(&key.as_str()))
}

fn bursts(job: &Job<'_>) -> Result<Option<Bursts>, Error> {
    let given = &job.workload.options;
    let bursts = Bursts::parse(given).map_err(|error| job.refused("fio", &error))?;
    if bursts.is_some()
        && let Some((key, value)) = given.iter().find(|(key, _)| key.starts_with("thinktime"))
    {
        return Err(refuse(key, value, "`duty_cycle` makes bursts by it; take one of them out"));
    }
    Ok(bursts)
}

/// What is done to the target first.
pub(super) fn conditioning(job: &Job<'_>) -> Result<Option<Conditioning>, Error> {
    Conditioning::parse(&job.workload.options).map_err(|error| job.refused("fio", &error))
}

/// fio's rates are over all of its time; in bursts the bursts alone count. Where nothing led in, the first
/// burst of a fio before 3.35 was a whole period, which is told.
fn of_bursts(mut outcome: Outcome, bursts: Bursts, led_in: bool) -> Outcome {
    let Some(elapsed) = outcome.metrics.get("elapsed").map(|metric| metric.value) else { return outcome };
    let elapsed_ns = Nanos::new((elapsed * 1e9) as u64);
    let on = if led_in || !version::first_burst_is_a_period(&outcome.tool) {
        bursts.within(elapsed_ns)
    } else {
        let known = "its first burst lasted for a whole period, as with every fio before 3.35; with `runtime` and `time_based` it is left out";
        outcome.warnings.push(format!("{}: {known}", outcome.tool));
        within_after_a_whole(bursts, elapsed_ns)
    };
    if on > Nanos::ZERO {
        for (name, metric) in &mut outcome.metrics {
            if name.ends_with("throughput") || name.ends_with("iops") {
                metric.value *= elapsed / on.secs();
            }
        }
    }
    outcome
}

/// How much of a span had a burst on, where the first was a whole period, and each later one the end of its
/// period.
fn within_after_a_whole(bursts: Bursts, span: Nanos) -> Nanos {
    let Bursts { period, on } = bursts;
    let after = span.get().saturating_sub(period.get());
    let (whole, rest) = (after / period.get(), after % period.get());
    let pause = period.saturating_sub(on).get();
    Nanos::new(span.get().min(period.get()) + whole * on.get() + rest.saturating_sub(pause))
}

/// A colon separates file names in fio (fio(1), `filename`).
fn escaped(target: &Path) -> String {
    text(target).replace(':', "\\:")
}

fn check(key: &str, value: &str) -> Result<(), Error> {
    if key == "read_iolog" {
        return Err(refuse(key, value, "only the simulation replays a trace so far; add `--on sim`"));
    }
    options::check(key, value).map_err(|refusal| refuse(key, value, &format!("it {refusal}; see fio(1)")))
}

/// Everything that a job may touch lies within the target: fio makes a file longer that is too short for it.
fn check_extent(job: &Job<'_>, target: Bytes) -> Result<(), Error> {
    let given = &job.workload.options;
    let length = |names: [&str; 2]| -> Result<Option<u64>, Error> {
        let Some((key, value)) = names.iter().find_map(|name| given.get_key_value(*name)) else {
            return Ok(None);
        };
        options::extent(value, target).map(Some).ok_or_else(|| {
            refuse(
                key,
                value,
                "a size here is a number with k, m, g or t (powers of 1024), or a percentage of the target",
            )
        })
    };
    let offset = length(["offset", "fileoffset"])?.unwrap_or(0);
    let step = length(["offset_increment", ""])?.unwrap_or(0);
    let jobs = given.get("numjobs").and_then(|n| n.parse::<u64>().ok()).unwrap_or(1);
    let start = offset.saturating_add(step.saturating_mul(jobs.saturating_sub(1)));
    let size = length(["size", ""])?;
    if start.saturating_add(size.unwrap_or(0)) <= target.get() && start < target.get() {
        return Ok(());
    }
    let key = if size.is_some() { "size" } else { "offset" };
    let value = given.get(key).cloned().unwrap_or_default();
    Err(refuse(
        key,
        &value,
        &format!(
            "with all jobs and offsets it reaches beyond the target of {target}; make the target larger"
        ),
    ))
}

fn refuse(key: &str, value: &str, why: &str) -> Error {
    Error::Option { tool: "fio", key: key.into(), value: value.into(), why: why.into() }
}

/// The command that writes all of the target twice (SNIA's PTS: workload independent preconditioning).
///
/// # Errors
/// [`Error::NoTarget`], [`Error::Writes`].
pub fn precondition(job: &Job<'_>) -> Result<Vec<String>, Error> {
    if job.access == TargetAccess::ReadOnly {
        let why = "`precondition` writes all of it; take it out".to_owned();
        return Err(Error::Writes { workload: job.workload.name.clone(), why });
    }
    let (target, size) = job.needed_target()?;
    let mut argv = command(job, "precondition", Some(target));
    let size = format!("--size={}", size.get());
    let more =
        ["--rw=write", "--bs=128k", "--loops=2", "--ioengine=libaio", "--iodepth=32", "--direct=1", &size];
    argv.extend(more.map(str::to_owned));
    Ok(argv)
}

/// What the files of a round are named, counted from 0.
pub fn round_name(round: usize) -> String {
    format!("round-{:02}", round + 1)
}

/// The workload itself, for as long as a round; of an option that is there twice the last one counts.
///
/// # Errors
/// As [`Tool::command`](crate::Tool::command).
pub fn round(job: &Job<'_>, round: usize, time: Nanos) -> Result<Vec<String>, Error> {
    let mut argv = invocation(job)?.argv;
    let report = format!("--output={}", text(&job.raw.join(format!("{}.json", round_name(round)))));
    for word in argv.iter_mut().filter(|word| word.starts_with("--output=")) {
        word.clone_from(&report);
    }
    argv.extend([format!("--runtime={}ms", time.get() / 1_000_000), "--time_based=1".into()]);
    argv.extend(other_numbers(job, round as u64));
    Ok(argv)
}

/// Where random numbers are not to repeat themselves, each round has others.
fn other_numbers(job: &Job<'_>, round: u64) -> Option<String> {
    let given = job.workload.options.get("randseed").filter(|_| job.workload.varies());
    let seed = given?.parse::<u64>().ok()?;
    Some(format!("--randseed={}", seed.wrapping_add(round)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;
    use domain::study::{Tool, Workload};
    use expect_test::expect;

    fn made(options: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let workload = Workload { name: "read".into(), tool: Tool::Fio, options };
        let job = Job {
            workload: &workload,
            target: Some((Path::new("/w/a:b/target"), Bytes::from_mib(64))),
            raw: Path::new("/n/raw"),
            server: None,
            folder: None,
            access: Default::default(),
            host: Host::default(),
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
    fn on_what_is_only_read_fio_is_told_so_in_each_of_its_commands() {
        let told = |options: &[(&str, &str)]| {
            let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let workload = Workload { name: "read".into(), tool: Tool::Fio, options };
            let target = Some((Path::new("/dev/sda"), Bytes::from_mib(64)));
            let job = Job {
                access: TargetAccess::ReadOnly,
                ..Job::planned(&workload, target, Path::new("/n/raw"))
            };
            let has = |argv: Vec<String>| argv.contains(&"--readonly".to_owned());
            let whole = crate::invocation(&job).map(|i| has(i.argv)).map_err(|e| e.to_string());
            let of_round = round(&job, 0, Nanos::from_secs(1)).map(has).map_err(|e| e.to_string());
            assert_eq!(whole, of_round);
            assert_eq!(invocation(&job).map(|i| has(i.argv)).map_err(|e| e.to_string()), whole);
            assert!(precondition(&job).is_err());
            whole
        };
        assert_eq!(told(&[("rw", "randread")]), Ok(true));
        let error = told(&[("rw", "randwrite")]).unwrap_err();
        assert_eq!(
            error,
            "cannot run the workload `read` on a target that is only read: `rw = randwrite` does more than read; write \
             `read` or `randread`"
        );
        assert!(!made(&[("rw", "read")]).unwrap().contains(&"--readonly".to_owned()));
    }

    #[test]
    fn a_load_of_the_cpu_has_no_target_and_its_engine_before_that_engines_options() {
        let options = [("cpuload", "50"), ("ioengine", "cpuio")].map(|(k, v)| (k.into(), v.into())).into();
        let workload = Workload { name: "burner".into(), tool: Tool::Fio, options };
        let job = Job::planned(&workload, None, Path::new("/n/raw"));
        expect![
            "fio --output-format=json+ --output=/n/raw/fio.json --name=burner --ioengine=cpuio --cpuload=50"
        ]
        .assert_eq(&invocation(&job).unwrap().argv.join(" "));
    }

    #[test]
    fn bursts_and_preconditioning_are_not_fios_words() {
        let argv = made(&[("rw", "read"), ("duty_cycle", "20%"), ("period", "100ms"), ("precondition", "1")])
            .unwrap();
        let told = argv.join(" ");
        assert!(told.ends_with("--rw=read --thinktime=80000us --thinktime_iotime=20000us"), "{told}");
        // Led in by a period and half a pause, or by as many periods as a ramp was asked for.
        let timed = [("rw", "read"), ("runtime", "3s"), ("time_based", "1"), ("duty_cycle", "20%")];
        let told = made(&timed).unwrap().join(" ");
        assert!(
            told.ends_with("--ramp_time=1400000us --thinktime=800000us --thinktime_iotime=200000us"),
            "{told}"
        );
        let told = made(&[&timed[..], &[("ramp_time", "2500ms")]].concat()).unwrap().join(" ");
        assert!(told.contains("--ramp_time=3400000us") && told.matches("ramp_time").count() == 1, "{told}");
        assert!(!told.contains("precondition"));
        assert!(
            made(&[("thinktime", "1"), ("duty_cycle", "20%")]).unwrap_err().contains("take one of them out")
        );
        assert!(made(&[("round", "10s")]).is_err());
    }

    #[test]
    fn a_first_burst_of_a_whole_period_counts_as_such() {
        // fio 3.33 with 900 ms of thinktime and 100 ms of bursts over 3 s: it worked from 0 to 1000, 1900 to
        // 2001 and 2901 to 3000 ms.
        let bursts = Bursts { period: Nanos::from_secs(1), on: Nanos::from_millis(100) };
        for (span_ms, on_ms) in [(0, 0), (500, 500), (1000, 1000), (1500, 1000), (1950, 1050), (3000, 1200)] {
            let on = within_after_a_whole(bursts, Nanos::from_millis(span_ms));
            assert_eq!(on, Nanos::from_millis(on_ms), "{span_ms}");
        }
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
}
