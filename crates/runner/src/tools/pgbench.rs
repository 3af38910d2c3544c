//! pgbench (PostgreSQL 13 or newer), on a server that Flyball has started.
//!
//! Its progress, a line a second, goes to its standard error, which is kept.

use super::{Driver, Invocation, Job};
use crate::Error;
use crate::server::{Access, clients};
use domain::outcome::Outcome;
use workloads::pgbench::options::Pgbench;
use workloads::pgbench::report as pgbench;

pub(super) const DRIVER: Driver =
    Driver { program: Some(("pgbench", "postgresql")), invocation, outcome, complaints: &[super::STDERR] };

fn invocation(job: &Job<'_>) -> Result<Invocation, Error> {
    let load = Pgbench::parse(&job.workload.options);
    let load = load.map_err(|error| super::refused("pgbench", job, &error))?;
    let planned = Access::planned(load.network);
    let access = job.server.unwrap_or(&planned);
    let mut argv = access.prefix.clone();
    argv.push(access.program("pgbench"));
    argv.extend(clients::libpq(access));
    argv.extend([
        format!("--builtin={}", load.builtin),
        format!("--client={}", load.clients),
        format!("--jobs={}", load.jobs.unwrap_or_else(|| clients::hands(load.clients))),
        format!("--protocol={}", load.protocol),
    ]);
    argv.extend(load.time.map(|time| format!("--time={}", time.secs() as u64)));
    argv.extend(load.transactions.map(|each| format!("--transactions={each}")));
    argv.extend(load.rate.map(|rate| format!("--rate={rate}")));
    argv.extend(["--progress=1".to_owned(), clients::DATABASE.to_owned()]);
    Ok(Invocation { argv, folder: Some(job.raw.to_owned()) })
}

fn outcome(job: &Job<'_>, version: &str) -> Result<Outcome, Error> {
    let text = super::read_end(&job.raw.join(super::STDOUT), super::MOST_TEXT)?;
    let outcome = pgbench::report(&text).map_err(|e| super::unusable(job, &e))?;
    Ok(Outcome { tool: version.to_owned(), ..outcome })
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::study::{Tool, Workload};
    use expect_test::expect;
    use std::path::Path;

    #[test]
    fn the_command_is_literal() {
        let options =
            [("client", "4"), ("jobs", "2"), ("builtin", "select-only"), ("time", "3"), ("scale", "5")];
        let options = options.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
        let workload = Workload { name: "pg".into(), tool: Tool::Pgbench, options };
        let raw = Path::new("/n/raw");
        let job = Job { workload: &workload, target: None, raw, server: None, folder: None };
        expect!["pgbench --host=SERVER --port=5432 --username=flyball --builtin=select-only --client=4 --jobs=2 --protocol=simple --time=3 --progress=1 postgres"]
            .assert_eq(&invocation(&job).unwrap().argv.join(" "));
    }
}
