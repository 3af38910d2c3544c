//! A load that runs already, on which a change of settings is measured: a process, a database server by its
//! own counters, or anything that a command tells in one number. It is watched for a while; nothing is done
//! to it.

pub mod options;

pub use options::RunningLoad;

use crate::options::{OptionError, Options, Refusal};
use crate::report::MetricRow;
use crate::tool::{Needs, Program};
use crate::{Error, Invocation, Job, Metrics, Tool};
use domain::database::counters;
use domain::outcome::{Better, Outcome};
use domain::study;
use domain::units::Unit;
use options::Number;
use std::io::BufRead;

/// What a process reads and writes from and to storage, in bytes a second: `read_bytes` and `write_bytes` of
/// `/proc/PID/io` (proc(5)). What the page cache serves is not in it.
pub const DEVICE_THROUGHPUT: &str = "device_throughput";

/// What it moves by system calls such as read(2) and write(2), in bytes a second: `rchar` and `wchar`.
/// Sockets and pipes are in it; what io_uring and libaio move is not.
pub const CALL_THROUGHPUT: &str = "call_throughput";

/// Such calls a second: `syscr` and `syscw`.
pub const IO_CALLS: &str = "io_calls";

/// What follows from a process's own counters.
pub const OF_A_PROCESS: [MetricRow; 3] = [
    (DEVICE_THROUGHPUT, Unit::BytesPerSecond, Better::Higher),
    (CALL_THROUGHPUT, Unit::BytesPerSecond, Better::Higher),
    (IO_CALLS, Unit::PerSecond, Better::Higher),
];

/// What follows from a command's number.
const OF_A_COMMAND: [MetricRow; 3] = [
    (Number::Counter.metric(), Unit::PerSecond, Better::Higher),
    (Number::Level.metric(), Unit::Count, Better::Higher),
    (Number::Latency.metric(), Unit::Seconds, Better::Lower),
];

/// A running load.
pub(crate) struct Running;

impl Tool for Running {
    fn name(&self) -> &'static str {
        "running"
    }

    fn in_study(&self) -> Option<study::Tool> {
        Some(study::Tool::Running)
    }

    fn program<'t>(&self, _: &'t study::Tool) -> Result<Program<'t>, Error> {
        Ok(Program::Flyball)
    }

    fn needs(&self) -> Needs {
        Needs::RunningLoad
    }

    fn options(&self) -> Vec<&'static str> {
        options::NAMES.to_vec()
    }

    fn check(&self, option: &str, value: &str) -> Result<(), Refusal> {
        options::check(option, value).map_err(|error| error.into_refusal("running"))
    }

    fn check_all(&self, options: &Options) -> Result<(), OptionError> {
        RunningLoad::parse(options).map(drop)
    }

    fn metrics(&self) -> Metrics {
        let rows = OF_A_PROCESS.into_iter().chain(OF_A_COMMAND).chain(counters::METRICS);
        Metrics::Known(rows.collect())
    }

    /// The command that prints the number; without one, a recording as long as the trial, which is what
    /// Flyball does itself.
    fn command(&self, job: &Job<'_>) -> Result<Invocation, Error> {
        let load =
            RunningLoad::parse(&job.workload.options).map_err(|error| job.refused("running", &error))?;
        if let Some(command) = load.metric_command {
            return Ok(Invocation { argv: command.argv().to_vec(), folder: None });
        }
        let mut argv: Vec<String> = ["flyball", "record", "--for"].map(str::to_owned).to_vec();
        argv.push(load.span.to_string().replace(' ', ""));
        let mut put = |option: &str, value: Option<String>| {
            argv.extend(value.into_iter().flat_map(|value| [option.to_owned(), value]));
        };
        put("--pid", load.pid.map(|pid| pid.to_string()));
        if let Some((kind, server)) = load.server {
            put("--server", Some(kind.name().to_owned()));
            put("--server-address", Some(server.address.to_string()));
            put("--server-user", server.user);
            put("--server-password-file", server.password_file);
            put("--server-database", server.database);
        }
        Ok(Invocation { argv, folder: None })
    }

    /// There is no report: Flyball reads the counters itself.
    fn outcome(&self, _: &Job<'_>, _: &str, _: &mut dyn BufRead) -> Result<Outcome, Error> {
        Err(Error::Unsupported("a running load is watched, and makes no report".into()))
    }

    fn report_files(&self) -> &'static [&'static str] {
        &[]
    }

    fn complaints(&self) -> &'static [&'static str] {
        &[]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::study::Workload;
    use std::path::Path;

    #[test]
    fn what_is_done_can_be_typed() {
        let made = |options: &[(&str, &str)]| {
            let options = options.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            let workload = Workload { name: "load".into(), tool: study::Tool::Running, options };
            crate::invocation(&Job::planned(&workload, None, Path::new("/n"))).unwrap().argv.join(" ")
        };
        assert_eq!(made(&[("pid", "77"), ("metric_command", "cat n")]), "sh -c cat n");
        assert_eq!(
            made(&[("pid", "77"), ("for", "1.5s"), ("server", "mariadb")]),
            "flyball record --for 1.5s --pid 77 --server mariadb --server-address /run/mysqld/mysqld.sock"
        );
    }
}
