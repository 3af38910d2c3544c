//! sysbench 1.0's OLTP tests (its `README.md`), on a server that Flyball has started.
//!
//! Bursts, pauses and a wait before the first transaction are those of a script of ours ([`super::script`]),
//! for sysbench has none; rates then count the time alone that has a burst on, or a transaction of it under
//! way.

use crate::server::Connection;
use crate::sysbench::options::{Bursts, METRICS, Oltp};
use crate::sysbench::script;
use crate::sysbench::{bursts, histogram, report as sysbench};
use crate::{Error, Invocation, Job};
use domain::outcome::{Metric, Outcome};
use domain::time::Nanos;
use std::io::BufRead;

fn load(job: &Job<'_>) -> Result<Oltp, Error> {
    Oltp::parse(&job.workload.options).map_err(|error| job.refused("sysbench", &error))
}

pub(super) fn invocation(job: &Job<'_>) -> Result<Invocation, Error> {
    let load = load(job)?;
    if load.bursts.is_some() && load.rate.is_some() {
        return Err(Error::Unsupported(
            "sysbench makes its events at a `rate` all the time, also between bursts; take `rate` or `duty_cycle` out, or run it \
             with `--on sim`"
                .into(),
        ));
    }
    let planned = Connection::planned(load.server.kind, load.network);
    let server = job.server.unwrap_or(&planned);
    let mut argv = server.prefix.clone();
    argv.push("sysbench".into());
    let is_ours = load.bursts.is_some() || load.think.max(load.start_delay) > Nanos::ZERO;
    argv.push(if is_ours {
        server.scripts.join(script::name(load.test)).display().to_string()
    } else {
        load.test.name().to_owned()
    });
    argv.extend(server.sysbench(load.server.kind));
    argv.extend([
        format!("--tables={}", load.tables),
        format!("--table-size={}", load.table_size),
        format!("--threads={}", load.threads),
        format!("--time={}", load.time.map_or(0, |time| time.secs() as u64)),
        format!("--events={}", load.events.unwrap_or(0)),
        format!("--rand-type={}", load.rand_type),
    ]);
    argv.extend(load.rate.map(|rate| format!("--rate={rate}")));
    if is_ours {
        let Bursts { period, on } = load.bursts.unwrap_or(Bursts { period: Nanos::ZERO, on: Nanos::ZERO });
        let us = |span: Nanos| span.get().div_ceil(1000);
        argv.push(format!("--burst-period-us={}", us(period)));
        argv.push(format!("--burst-us={}", us(on)));
        argv.push(format!("--think-us={}", us(load.think)));
        argv.push(format!("--start-delay-us={}", us(load.start_delay)));
    }
    argv.extend(["--report-interval=1", "--percentile=95", "--histogram=on", "run"].map(str::to_owned));
    Ok(Invocation { argv, folder: Some(job.raw.to_owned()) })
}

pub(super) fn outcome(job: &Job<'_>, version: &str, report: &mut dyn BufRead) -> Result<Outcome, Error> {
    let load = load(job)?;
    let text = job.text("sysbench", report)?;
    let mut outcome = sysbench::report(&text).map_err(|e| job.unusable(&e))?;
    let put = |outcome: &mut Outcome, wanted: &str, value: f64| {
        let known = METRICS.into_iter().find(|(name, ..)| *name == wanted);
        let (name, unit, better) = known.expect("these are metrics of sysbench's");
        outcome.metrics.insert(name.to_owned(), Metric { value, unit, better });
    };
    if let Some([p95, p99]) = histogram::percentiles(&text, [0.95, 0.99]) {
        put(&mut outcome, "latency_p95", p95);
        put(&mut outcome, "latency_p99", p99);
    }
    if let Some(Bursts { period, on }) = load.bursts {
        let measured = bursts::measured(&text, period, on).map_err(|e| job.unusable(&e))?;
        let elapsed = outcome.metrics.get("elapsed").map_or(0.0, |metric| metric.value);
        // sysbench's rates are over all of its time.
        for name in ["transactions", "queries", "errors"] {
            if let Some(rate) = outcome.metrics.get(name).map(|metric| metric.value) {
                put(&mut outcome, name, rate * elapsed / measured.secs());
            }
        }
    }
    // What it has besides is no metric that the study's words know.
    outcome.metrics.retain(|name, _| METRICS.iter().any(|(known, ..)| known == name));
    Ok(Outcome { tool: version.to_owned(), ..outcome })
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
        let workload = Workload { name: "oltp".into(), tool: Tool::Sysbench, options };
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
        invocation(&job).map_or_else(|error| error.to_string(), |made| made.argv.join(" "))
    }

    fn check(options: &[(&str, &str)], expected: Expect) {
        expected.assert_eq(&made(options));
    }

    #[test]
    fn a_plain_load_is_sysbenchs_own_script() {
        check(
            &[("test", "oltp_read_only"), ("threads", "4"), ("tables", "2"), ("time", "3")],
            expect![
                "sysbench oltp_read_only --db-driver=mysql --mysql-user=root --mysql-db=sbtest --mysql-socket=SERVER/socket --tables=2 --table-size=10000 --threads=4 --time=3 --events=0 --rand-type=special --report-interval=1 --percentile=95 --histogram=on run"
            ],
        );
    }

    #[test]
    fn bursts_are_ours_and_a_client_may_be_elsewhere() {
        check(
            &[
                ("test", "oltp_point_select"),
                ("server", "postgresql"),
                ("duty_cycle", "20%"),
                ("period", "100ms"),
                ("network_delay", "100us"),
            ],
            expect![
                "nsenter --net=CLIENT -- sysbench SERVER/flyball_oltp_point_select.lua --db-driver=pgsql --pgsql-user=flyball --pgsql-db=postgres --pgsql-port=5432 --pgsql-host=198.18.0.1 --tables=1 --table-size=10000 --threads=1 --time=10 --events=0 --rand-type=special --burst-period-us=100000 --burst-us=20000 --think-us=0 --start-delay-us=0 --report-interval=1 --percentile=95 --histogram=on run"
            ],
        );
    }

    #[test]
    fn a_rate_in_bursts_is_refused() {
        let told = made(&[("test", "oltp_read_only"), ("rate", "10"), ("duty_cycle", "20%"), ("time", "3")]);
        assert!(told.starts_with("sysbench makes its events at a `rate` all the time"), "{told}");
    }
}
