//! pgbench (PostgreSQL 13 or newer), on a server that Flyball has started.
//!
//! Its progress, a line a second, goes to its standard error, which is kept.

use crate::pgbench::options::Pgbench;
use crate::pgbench::report as pgbench;
use crate::server::Connection;
use crate::{Error, Invocation, Job};
use domain::outcome::Outcome;
use std::io::BufRead;

pub(super) fn invocation(job: &Job<'_>) -> Result<Invocation, Error> {
    let load = Pgbench::parse(&job.workload.options);
    let load = load.map_err(|error| job.refused("pgbench", &error))?;
    let planned = Connection::planned(load.server.kind, load.network);
    let server = job.server.unwrap_or(&planned);
    let mut argv = server.prefix.clone();
    argv.push(server.program("pgbench"));
    argv.extend(server.libpq());
    argv.extend([
        format!("--builtin={}", load.builtin),
        format!("--client={}", load.clients),
        format!("--jobs={}", load.jobs.unwrap_or_else(|| job.host.at_a_time(load.clients))),
        format!("--protocol={}", load.protocol),
    ]);
    argv.extend(load.time.map(|time| format!("--time={}", time.secs() as u64)));
    argv.extend(load.transactions.map(|each| format!("--transactions={each}")));
    argv.extend(load.rate.map(|rate| format!("--rate={rate}")));
    argv.extend(["--progress=1".to_owned(), server.database.clone()]);
    Ok(Invocation { argv, folder: Some(job.raw.to_owned()) })
}

pub(super) fn outcome(job: &Job<'_>, version: &str, report: &mut dyn BufRead) -> Result<Outcome, Error> {
    let text = job.text("pgbench", report)?;
    let outcome = pgbench::report(&text).map_err(|e| job.unusable(&e))?;
    Ok(Outcome { tool: version.to_owned(), ..outcome })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Host;
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
        let job = Job {
            workload: &workload,
            target: None,
            raw,
            server: None,
            folder: None,
            access: Default::default(),
            host: Host::default(),
        };
        expect!["pgbench --host=SERVER --port=5432 --username=flyball --builtin=select-only --client=4 --jobs=2 --protocol=simple --time=3 --progress=1 postgres"]
            .assert_eq(&invocation(&job).unwrap().argv.join(" "));
    }
}
