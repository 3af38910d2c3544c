//! fio, reported as json+ (fio(1), version 3).
//!
//! Only options on the list of [`parse::tools::fio::options`] are passed on, whoever made the workload: the study's
//! reader has asked the same list, but it is here that a command begins to exist.

use super::{Driver, Invocation, Job};
use crate::Error;
use domain::oltp::Bursts;
use domain::outcome::Outcome;
use domain::steady::Conditioning;
use domain::time::Nanos;
use domain::units::Bytes;
use parse::tools::fio::options;
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

fn invocation(job: &Job<'_>) -> Result<Invocation, Error> {
    let (target, size) = super::needed_target(job)?;
    for (key, value) in fios(job) {
        check(key, value)?;
    }
    check_extent(job, size)?;
    let bursts = bursts(job)?;
    conditioning(job)?;
    let mut argv = command(job, "fio", target);
    argv.extend(fios(job).map(|(key, value)| format!("--{key}={value}")));
    if let Some(Bursts { period, on }) = bursts {
        // fio works for `thinktime_iotime`, waits until what is in flight is done, and sleeps.
        let us = |span: Nanos| format!("{}us", span.get() / 1000);
        argv.push(format!("--thinktime={}", us(period.saturating_sub(on))));
        argv.push(format!("--thinktime_iotime={}", us(on)));
    }
    Ok(Invocation { argv, folder: Some(job.raw.to_owned()) })
}

/// What every command of fio begins with; its report is named so.
pub(crate) fn command(job: &Job<'_>, report: &str, target: &Path) -> Vec<String> {
    vec![
        "fio".to_owned(),
        "--output-format=json+".into(),
        format!("--output={}", super::text(&job.raw.join(format!("{report}.json")))),
        format!("--name={}", job.workload.name),
        format!("--filename={}", escaped(target)),
        // A target that has vanished is an error, and not a reason to make another one.
        "--allow_file_create=0".into(),
    ]
}

fn outcome(job: &Job<'_>, _version: &str) -> Result<Outcome, Error> {
    report(job, Path::new(REPORT))
}

/// Reads a report of the trial's folder.
pub(crate) fn report(job: &Job<'_>, name: &Path) -> Result<Outcome, Error> {
    let path = job.raw.join(name);
    let report = File::open(&path).map_err(|e| Error::file("read", &path, e))?;
    let outcome = parse::tools::fio::read(BufReader::new(report)).map_err(|e| super::unusable(job, &e))?;
    Ok(match bursts(job)? {
        Some(bursts) => of_bursts(outcome, bursts),
        None => outcome,
    })
}

/// What fio is given: all but Flyball's own.
fn fios<'a>(job: &Job<'a>) -> impl Iterator<Item = (&'a String, &'a String)> {
    job.workload.options.iter().filter(|(key, _)| !options::OURS.contains(&key.as_str()))
}

fn bursts(job: &Job<'_>) -> Result<Option<Bursts>, Error> {
    let given = &job.workload.options;
    let bursts = Bursts::parse(given).map_err(|error| super::refused("fio", job, &error))?;
    if bursts.is_some()
        && let Some((key, value)) = given.iter().find(|(key, _)| key.starts_with("thinktime"))
    {
        return Err(refuse(key, value, "`duty_cycle` makes bursts by it; take one of them out"));
    }
    Ok(bursts)
}

/// What is done to the target first.
pub(crate) fn conditioning(job: &Job<'_>) -> Result<Option<Conditioning>, Error> {
    Conditioning::parse(&job.workload.options).map_err(|error| super::refused("fio", job, &error))
}

/// fio's rates are over all of its time; in bursts the bursts alone count.
fn of_bursts(mut outcome: Outcome, bursts: Bursts) -> Outcome {
    let Some(elapsed) = outcome.metrics.get("elapsed").map(|metric| metric.value) else { return outcome };
    let on = bursts.within(Nanos::new((elapsed * 1e9) as u64));
    if on > Nanos::ZERO {
        for (name, metric) in &mut outcome.metrics {
            if name.ends_with("throughput") || name.ends_with("iops") {
                metric.value *= elapsed / on.secs();
            }
        }
    }
    outcome
}

/// A colon separates file names in fio (fio(1), `filename`).
fn escaped(target: &Path) -> String {
    super::text(target).replace(':', "\\:")
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
            server: None,
            folder: None,
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
    fn bursts_and_preconditioning_are_not_fios_words() {
        let argv = made(&[("rw", "read"), ("duty_cycle", "20%"), ("period", "100ms"), ("precondition", "1")])
            .unwrap();
        let told = argv.join(" ");
        assert!(told.ends_with("--rw=read --thinktime=80000us --thinktime_iotime=20000us"), "{told}");
        assert!(!told.contains("precondition"));
        assert!(
            made(&[("thinktime", "1"), ("duty_cycle", "20%")]).unwrap_err().contains("take one of them out")
        );
        assert!(made(&[("round", "10s")]).is_err());
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
