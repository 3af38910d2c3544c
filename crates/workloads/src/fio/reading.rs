//! Which fio jobs only read: each option is on a list of those that cannot make a job write, trim, flush or
//! change its file, whatever their value; `rw` and `ioengine` are looked at besides.
//!
//! A list of what writes would miss what a later fio has, or what nobody thought of. fio is told `--readonly`
//! as well, and confined.

use super::options;
use crate::options::Options;

/// The job options, by the alphabet.
const READING: &str = include_str!("reading.txt");

/// Flyball's own options that do the same job at other times.
const OURS: [&str; 4] = ["duty_cycle", "period", "steady_state", "round"];

/// What `rw` may be, before the colon (fio(1), `readwrite`).
const READS: [&str; 2] = ["read", "randread"];

/// The engines that read no file: they would measure something else.
const NO_FILE: [&str; 2] = ["cpuio", "null"];

/// Whether a job does nothing but read.
pub(super) fn check(options: &Options) -> Result<(), String> {
    options.iter().try_for_each(|(option, value)| check_one(option, value))
}

fn check_one(option: &str, value: &str) -> Result<(), String> {
    let is_known = READING.lines().any(|known| known == option) || OURS.contains(&option);
    if !is_known {
        return Err(format!(
            "`{option}` is not among the options of fio that cannot make it write; take it out"
        ));
    }
    let kind = value.split_once(':').map_or(value, |(kind, _)| kind);
    match option {
        "rw" | "readwrite" if !READS.contains(&kind) => {
            Err(format!("`{option} = {value}` does more than read; write `read` or `randread`"))
        }
        "ioengine" if !options::ENGINES.contains(&value) || NO_FILE.contains(&value) => {
            Err(format!("`{option} = {value}` is no engine that reads files and devices"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(all: &[(&str, &str)]) -> Result<(), String> {
        check(&all.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn what_reads_is_known() {
        for option in READING.lines() {
            assert!(options::names().any(|known| known == option), "fio has no `{option}`");
        }
        assert_eq!(told(&[]), Ok(()));
        assert_eq!(
            told(&[("rw", "randread:8"), ("bs", "4k"), ("direct", "1"), ("ioengine", "io_uring")]),
            Ok(())
        );
        assert_eq!(
            told(&[("readwrite", "read"), ("iodepth", "32"), ("runtime", "1s"), ("time_based", "1")]),
            Ok(())
        );
    }

    #[test]
    fn what_may_write_in_any_way_is_refused() {
        for value in [
            "write",
            "randwrite",
            "rw",
            "randrw",
            "readwrite",
            "trim",
            "randtrim",
            "trimwrite",
            "",
            "READ",
            "read,write",
        ] {
            assert!(told(&[("rw", value)]).is_err(), "{value}");
            assert!(told(&[("rw", "read"), ("readwrite", value)]).is_err(), "{value}");
        }
        for option in [
            "rwmixwrite",
            "rwmixread",
            "trim_percentage",
            "trim_backlog",
            "verify",
            "do_verify",
            "verify_only",
            "fsync",
            "fdatasync",
            "end_fsync",
            "sync_file_range",
            "unlink",
            "filename",
            "allow_mounted_write",
            "zonemode",
            "read_iolog",
            "write_iolog",
            "overwrite",
            "precondition",
            "pattern",
            "readonly",
            "ioscheduler",
            "exec_prerun",
        ] {
            assert!(told(&[("rw", "read"), (option, "1")]).is_err(), "{option}");
        }
        for engine in ["null", "cpuio", "net", "falloc", "sg", "mtd", "dev-dax", "external:/tmp/x.so"] {
            assert!(told(&[("ioengine", engine)]).is_err(), "{engine}");
        }
    }
}
