//! dd of the GNU coreutils (dd(1)).
//!
//! Only operands of [`super::options`] are passed on. Zeros are what is written by default, though a device
//! or filesystem that compresses makes a shortcut of them; random data comes no faster than the kernel's
//! generator gives it, some 400 MB/s a core.

use crate::dd::options;
use crate::job::text;
use crate::{Error, Invocation, Job};
use domain::outcome::Outcome;
use domain::units::Bytes;
use std::io::BufRead;

pub(super) fn invocation(job: &Job<'_>) -> Result<Invocation, Error> {
    let (target, size) = job.needed_target()?;
    let given = &job.workload.options;
    for (key, value) in given {
        check(key, value)?;
    }
    let bs = match given.get("bs") {
        Some(text) => block_size(text)?,
        None => options::DEFAULT_BLOCK,
    };
    let target = text(target);
    let writes = given.get("direction").is_some_and(|d| d == "write");
    let mut argv = vec!["dd".to_owned()];
    if writes {
        let source = if given.get("source").is_some_and(|s| s == "random") { "urandom" } else { "zero" };
        argv.extend([format!("if=/dev/{source}"), format!("of={target}")]);
    } else {
        argv.extend([format!("if={target}"), "of=/dev/null".to_owned()]);
    }
    argv.push(format!("bs={}", bs.get()));
    for key in ["skip", "seek", "iflag", "oflag"] {
        argv.extend(given.get(key).map(|value| format!("{key}={value}")));
    }
    let asked = given.get("conv").map(String::as_str);
    if writes {
        argv.push(format!("count={}", blocks_to_write(job, bs, size)?));
        argv.push(format!("conv={}", conversions(asked)));
    } else {
        argv.extend(given.get("count").map(|value| format!("count={value}")));
        argv.extend(asked.map(|value| format!("conv={value}")));
    }
    Ok(Invocation { argv, folder: Some(job.raw.to_owned()) })
}

pub(super) fn outcome(job: &Job<'_>, version: &str, report: &mut dyn BufRead) -> Result<Outcome, Error> {
    let text = job.text("dd", report)?;
    let outcome = super::report::parse(&text).map_err(|e| job.unusable(&e))?;
    Ok(Outcome { tool: version.to_owned(), ..outcome })
}

fn check(key: &str, value: &str) -> Result<(), Error> {
    options::check(key, value).map_err(|refusal| refuse(key, value, &format!("it {refusal}; see dd(1)")))
}

fn block_size(text: &str) -> Result<Bytes, Error> {
    options::block_size(text).map_err(|refusal| refuse("bs", text, &format!("it {refusal}")))
}

/// How many blocks a write does: as asked, or to the target's end; never beyond it.
fn blocks_to_write(job: &Job<'_>, bs: Bytes, target: Bytes) -> Result<u64, Error> {
    let number = |key: &str| job.workload.options.get(key).and_then(|v| v.parse::<u64>().ok());
    let fit = (target.get() / bs.get()).saturating_sub(number("seek").unwrap_or(0));
    let count = number("count").unwrap_or(fit);
    if count == 0 || count > fit {
        let why = format!(
            "{fit} blocks of {bs} fit into the target of {target} after `seek`; make the target larger"
        );
        return Err(refuse("count", &count.to_string(), &why));
    }
    Ok(count)
}

/// A write stays within the target that is there, and is over only when it is on the device.
fn conversions(asked: Option<&str>) -> String {
    let mut all = vec!["notrunc", "nocreat"];
    all.extend(asked.unwrap_or_default().split(',').filter(|c| !["", "notrunc", "nocreat"].contains(c)));
    if !all.iter().any(|c| ["fsync", "fdatasync"].contains(c)) {
        all.push("fdatasync");
    }
    all.join(",")
}

fn refuse(key: &str, value: &str, why: &str) -> Error {
    Error::Option { tool: "dd", key: key.into(), value: value.into(), why: why.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;
    use domain::study::{Tool, Workload};
    use expect_test::{Expect, expect};
    use std::path::Path;

    fn made(options: &[(&str, &str)]) -> String {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let workload = Workload { name: "copy".into(), tool: Tool::Dd, options };
        let job = Job {
            workload: &workload,
            target: Some((Path::new("/w/target"), Bytes::from_mib(64))),
            raw: Path::new("/n/raw"),
            server: None,
            folder: None,
            access: Default::default(),
            host: Host::default(),
        };
        invocation(&job).map_or_else(|e| e.to_string(), |i| i.argv.join(" "))
    }

    fn check_made(options: &[(&str, &str)], expected: Expect) {
        expected.assert_eq(&made(options));
    }

    #[test]
    fn a_read_goes_nowhere_and_a_write_stays_in_the_target() {
        check_made(&[], expect!["dd if=/w/target of=/dev/null bs=512"]);
        check_made(
            &[("bs", "64k"), ("iflag", "direct"), ("count", "10")],
            expect!["dd if=/w/target of=/dev/null bs=65536 iflag=direct count=10"],
        );
        check_made(
            &[("direction", "write"), ("bs", "1M"), ("oflag", "direct")],
            expect![
                "dd if=/dev/zero of=/w/target bs=1048576 oflag=direct count=64 conv=notrunc,nocreat,fdatasync"
            ],
        );
        check_made(
            &[("direction", "write"), ("bs", "1M"), ("source", "random"), ("conv", "fsync"), ("seek", "60")],
            expect!["dd if=/dev/urandom of=/w/target bs=1048576 seek=60 count=4 conv=notrunc,nocreat,fsync"],
        );
    }

    #[test]
    fn a_write_beyond_the_target_is_refused() {
        check_made(
            &[("direction", "write"), ("bs", "1M"), ("count", "65")],
            expect![
                "cannot give `count = 65` to dd: 64 blocks of 1 MiB fit into the target of 64 MiB after `seek`; make the target larger"
            ],
        );
        assert!(made(&[("direction", "write"), ("bs", "1M"), ("seek", "64")]).starts_with("cannot"));
    }

    #[test]
    fn other_files_and_odd_operands_are_refused() {
        for (key, value) in [
            ("of", "/dev/sda"),
            ("if", "/dev/sda"),
            ("conv", "excl"),
            ("conv", "sparse"),
            ("oflag", "append"),
            ("oflag", "seek_bytes"),
            ("count", "1M"),
            ("bs", "4b"),
            ("bs", "0"),
            ("status", "none"),
            ("direction", "sideways"),
        ] {
            let text = made(&[(key, value)]);
            assert!(text.starts_with(&format!("cannot give `{key} = {value}` to dd: ")), "{text}");
        }
    }
}
