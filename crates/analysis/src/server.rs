//! What a database server did, by its own counters: rates from two samples of them.
//!
//! A server that is started again, or whose counters somebody resets, begins to count anew. No rate is
//! computed across that: the rates are those of the longest time without it.

use crate::words::listed;
use domain::database::Kind;
use domain::database::counters::{
    ACTIVE_TIME, BEGAN_ANEW, BUFFER_HITS, Counter, METRICS, Missing, NOT_MEASURED, QUERIES,
    STATEMENT_LATENCY, Sample, TRANSACTIONS, WATCHED, WRITE_TRANSACTIONS, numbers_of_one,
};
use domain::finding::NotMeasured;
use domain::outcome::Metric;
use domain::time::Nanos;
use std::collections::BTreeMap;

/// What a server did between two samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerRates {
    /// By name; what does not follow from the counters is absent.
    pub metrics: BTreeMap<String, Metric>,
    /// Between the two samples.
    pub span: Nanos,
    /// That the counters began anew, when, and what that means for the rates; `None` where they did not.
    pub began_anew: Option<String>,
    /// What the samples alone cannot give, and why.
    pub missing: Vec<Missing>,
}

/// The rates of a server of this kind, of samples in the order of their time. Of those between which counters
/// did not begin anew only the first and the last matter.
pub fn rates(kind: Kind, samples: &[Sample]) -> ServerRates {
    let parts: Vec<&[Sample]> = samples.chunk_by(|a, b| !a.begins_anew(b)).collect();
    let span = |part: &[Sample]| match part {
        [first, .., last] => last.time.saturating_sub(first.time),
        _ => Nanos::ZERO,
    };
    // Of equal ones the first.
    let longest = parts.iter().rev().max_by_key(|part| span(part)).copied().unwrap_or_default();
    let mut rates = ServerRates { span: span(longest), ..ServerRates::default() };
    rates.began_anew = (parts.len() > 1).then(|| {
        let when: Vec<String> = parts.iter().skip(1).map(|part| part[0].time.to_string()).collect();
        let what = match longest {
            [first, .., last] => format!("the rates are those from {} to {}", first.time, last.time),
            _ => "there is no rate".to_owned(),
        };
        format!("it was restarted, or its counters were reset, before {}; {what}", when.join(" and "))
    });
    let [first, .., last] = longest else {
        let why = match samples.len() {
            0 => "it answered no question for its counters".to_owned(),
            _ => "a rate needs two samples between which the counters did not begin anew".to_owned(),
        };
        rates.missing = METRICS.map(|(metric, ..)| Missing { metric, why: why.clone() }).to_vec();
        return rates;
    };
    let growth = Growth { kind, first, last, seconds: rates.span.secs() };
    for (name, unit, better) in METRICS {
        match growth.value(name) {
            Some(Ok(value)) => {
                rates.metrics.insert(name.to_owned(), Metric { value, unit, better });
            }
            Some(Err(why)) => rates.missing.push(Missing { metric: name, why: why.to_owned() }),
            None => {}
        }
    }
    rates
}

/// Below this rate, in transactions a second, those of PostgreSQL's own autovacuum are most of an idle
/// server's: 8 in 61 s of one with two databases (PostgreSQL 15), and none with `autovacuum = off`.
const IDLE: f64 = 1.0;

/// That PostgreSQL's own transactions may be most of these. Its counters do not tell whose one was.
pub fn of_autovacuum(
    kind: Kind,
    environment: &BTreeMap<String, String>,
    metrics: &BTreeMap<String, Metric>,
) -> Option<String> {
    let rate = metrics.get(TRANSACTIONS)?.value;
    let is_on = environment.get("server.autovacuum").is_none_or(|value| value != "off");
    (kind == Kind::PostgreSql && is_on && rate > 0.0 && rate < IDLE).then(|| {
        "so few transactions may be those of autovacuum alone: it looks at each database once in `autovacuum_naptime`, and its transactions count"
            .to_owned()
    })
}

/// What ends the name of each figure of a server that was not measured.
pub const OF_THE_SERVER: &str = " of the server";

/// What a recording's server was not asked for, or did not tell, by its trial's environment; what has one
/// reason once.
pub fn not_measured(environment: &BTreeMap<String, String>) -> Vec<NotMeasured> {
    let mut by_reason: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (name, why) in environment {
        if let Some(metric) = name.strip_prefix(NOT_MEASURED) {
            by_reason.entry(why).or_default().push(metric.to_owned());
        }
    }
    let row = |(why, metrics): (&str, Vec<String>)| NotMeasured {
        what: format!("{}{OF_THE_SERVER}", listed(&metrics)),
        why: why.to_owned(),
    };
    by_reason.into_iter().map(row).collect()
}

/// What a recording's environment and metrics say of the server that was watched.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchedServer<'a> {
    /// Which: `MariaDB at /run/mysqld/mysqld.sock`.
    pub name: &'a str,
    /// Its version, in its own words.
    pub version: &'a str,
    /// The folder of its data; `None` where it is not visible.
    pub data: Option<&'a str>,
    /// The disk below that, as settings know it.
    pub device: Option<&'a str>,
    /// In the order of [`METRICS`].
    pub metrics: Vec<(&'static str, &'a Metric)>,
    /// That its counters began anew, and what that means.
    pub began_anew: Option<&'a str>,
}

impl<'a> WatchedServer<'a> {
    /// `None` where no server was watched.
    pub fn of(
        environment: &'a BTreeMap<String, String>,
        metrics: &'a BTreeMap<String, Metric>,
    ) -> Option<Self> {
        let said = |name: &str| environment.get(name).map(String::as_str);
        Some(Self {
            name: said(WATCHED)?,
            version: said("server").unwrap_or_default(),
            data: said("server data").filter(|data| data.starts_with('/')),
            device: said("device"),
            metrics: METRICS.iter().filter_map(|(name, ..)| Some((*name, metrics.get(*name)?))).collect(),
            began_anew: said(BEGAN_ANEW),
        })
    }

    /// What it is, and where its data are.
    pub fn in_words(&self) -> String {
        let device = self.device.map_or_else(String::new, |device| format!(" on {device}"));
        let data = self.data.map_or_else(
            || "its data are not visible from here".to_owned(),
            |data| format!("data in {data}{device}"),
        );
        // PostgreSQL says in brackets who built it.
        let version = self.version.split_once(" (").map_or(self.version, |(version, _)| version);
        match self.name.split_once(" at ") {
            Some((_, address)) => format!("{version} at {address}, {data}"),
            None => format!("{version}, {data}"),
        }
    }
}

/// By how much counters grew.
struct Growth<'a> {
    kind: Kind,
    first: &'a Sample,
    last: &'a Sample,
    seconds: f64,
}

impl Growth<'_> {
    /// A metric by its name; `None` where the server does not count what it needs, an error where nothing of
    /// it happened.
    fn value(&self, name: &str) -> Option<Result<f64, &'static str>> {
        let rate = |count: Option<f64>| count.map(|count| Ok(count / self.seconds));
        match name {
            TRANSACTIONS => rate(
                self.of(Counter::Ended)
                    .zip(self.of(Counter::RolledBack))
                    .map(|(all, back)| (all - back).max(0.0)),
            ),
            WRITE_TRANSACTIONS => {
                rate(self.of(Counter::Numbers).map(|numbers| numbers / numbers_of_one(self.kind) as f64))
            }
            QUERIES => rate(self.of(Counter::Statements)),
            "rollbacks" => rate(self.of(Counter::RolledBack)),
            "binlog_commits" => rate(self.of(Counter::BinlogCommits)),
            "commit_statements" => rate(self.of(Counter::CommitStatements)),
            "rows_read" => rate(self.of(Counter::RowsRead)),
            "rows_written" => rate(self.of(Counter::RowsWritten)),
            "log_syncs" => rate(self.of(Counter::LogSyncs)),
            "data_syncs" => rate(self.of(Counter::DataSyncs)),
            BUFFER_HITS => {
                let (asked, read) = self.of(Counter::PagesAsked).zip(self.of(Counter::PagesRead))?;
                // A page that is read ahead is read and not asked for.
                Some(share(read, asked, "no page was asked for").map(|missed| (1.0 - missed).max(0.0)))
            }
            STATEMENT_LATENCY => {
                let (time, count) = self.of(Counter::StatementTime).zip(self.of(Counter::TimedStatements))?;
                Some(share(time / 1e9, count, "no statement ended"))
            }
            ACTIVE_TIME => {
                let (time, count) = self.of(Counter::ActiveTime).zip(self.of(Counter::Ended))?;
                Some(share(time / 1e9, count, "no transaction ended"))
            }
            _ => None,
        }
    }

    /// Without what Flyball's own questions did.
    fn of(&self, counter: Counter) -> Option<f64> {
        let grown = |of: fn(&Sample) -> &BTreeMap<Counter, u64>| {
            of(self.last).get(&counter)?.checked_sub(*of(self.first).get(&counter)?)
        };
        let all = grown(|sample| &sample.counted)?;
        Some(all.saturating_sub(grown(|sample| &sample.own).unwrap_or_default()) as f64)
    }
}

fn share(part: f64, whole: f64, none: &'static str) -> Result<f64, &'static str> {
    if whole > 0.0 { Ok(part / whole) } else { Err(none) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::outcome::Better;
    use domain::units::Unit;

    fn sample(second: u64, epoch: &str, counted: &[(Counter, u64)], own: &[(Counter, u64)]) -> Sample {
        let map = |all: &[(Counter, u64)]| all.iter().copied().collect();
        Sample { time: Nanos::from_secs(second), epoch: epoch.into(), counted: map(counted), own: map(own) }
    }

    fn value(rates: &ServerRates, name: &str) -> Option<f64> {
        rates.metrics.get(name).map(|metric| metric.value)
    }

    #[test]
    fn few_transactions_of_postgresql_may_be_its_own() {
        let metrics = |value| {
            let rate = Metric { value, unit: Unit::PerSecond, better: Better::Higher };
            BTreeMap::from([(TRANSACTIONS.to_owned(), rate)])
        };
        let settings = |value: &str| BTreeMap::from([("server.autovacuum".to_owned(), value.to_owned())]);
        let told = |kind, autovacuum, rate| of_autovacuum(kind, &settings(autovacuum), &metrics(rate));
        assert!(told(Kind::PostgreSql, "on", 0.13).unwrap().contains("`autovacuum_naptime`"));
        for (kind, autovacuum, rate) in [
            (Kind::PostgreSql, "off", 0.13),
            (Kind::PostgreSql, "on", 0.0),
            (Kind::PostgreSql, "on", 50.0),
            (Kind::MariaDb, "on", 0.13),
        ] {
            assert_eq!(told(kind, autovacuum, rate), None, "{kind:?} {autovacuum} {rate}");
        }
        assert_eq!(of_autovacuum(Kind::PostgreSql, &settings("on"), &BTreeMap::new()), None);
    }

    #[test]
    fn a_rate_is_what_a_counter_grew_by_without_what_flyball_asked() {
        let at = |second, ended, back, own| {
            sample(
                second,
                "",
                &[(Counter::Ended, ended), (Counter::RolledBack, back)],
                &[(Counter::Ended, own)],
            )
        };
        let rates = rates(Kind::PostgreSql, &[at(0, 100, 1, 0), at(1, 900, 2, 1), at(4, 1304, 5, 4)]);
        // 1204 ended, of which Flyball's 4 and the 4 that were rolled back do not count.
        assert_eq!(value(&rates, TRANSACTIONS), Some(299.0));
        assert_eq!(value(&rates, "rollbacks"), Some(1.0));
        assert_eq!((rates.span, rates.began_anew), (Nanos::from_secs(4), None));
        assert!(!rates.metrics.contains_key(QUERIES), "what is not counted is no zero");
    }

    #[test]
    fn no_rate_is_computed_across_a_restart() {
        let at = |second, uptime, statements| {
            sample(second, "", &[(Counter::Uptime, uptime), (Counter::Statements, statements)], &[])
        };
        let all = [at(0, 500, 1_000), at(1, 501, 1_100), at(4, 1, 7), at(5, 2, 27), at(7, 4, 57)];
        let told = rates(Kind::MariaDb, &all);
        assert_eq!(value(&told, QUERIES), Some(50.0 / 3.0));
        assert_eq!(told.span, Nanos::from_secs(3));
        let why = told.began_anew.unwrap();
        assert!(why.contains("before 4.0 s") && why.contains("from 4.0 s to 7.0 s"), "{why}");
        // It says when it was started, though nothing shrank: it has already done more than before.
        let at = |second, epoch, ended| {
            sample(second, epoch, &[(Counter::Ended, ended), (Counter::RolledBack, 0)], &[])
        };
        let all = [at(0, "10:00", 5), at(1, "10:00", 8), at(2, "10:07", 900)];
        assert_eq!(value(&rates(Kind::PostgreSql, &all), TRANSACTIONS), Some(3.0));
        // A counter of many shrank, as where a database was dropped.
        let all = [at(0, "", 500), at(1, "", 400)];
        let told = rates(Kind::PostgreSql, &all);
        assert!(told.metrics.is_empty() && told.began_anew.unwrap().ends_with("there is no rate"));
        assert_eq!(told.missing.len(), METRICS.len());
    }

    #[test]
    fn without_two_samples_nothing_is_measured_and_the_reason_is_told() {
        for (samples, wanted) in [
            (vec![], "it answered no question"),
            (vec![sample(0, "", &[(Counter::Ended, 1)], &[])], "needs two samples"),
        ] {
            let told = rates(Kind::MariaDb, &samples);
            assert!(told.metrics.is_empty() && told.began_anew.is_none());
            assert!(told.missing.iter().all(|missing| missing.why.contains(wanted)), "{:?}", told.missing);
        }
    }

    #[test]
    fn a_writing_transaction_takes_two_numbers_of_innodb_and_one_of_postgresql() {
        let all = [0, 1].map(|s| sample(s, "", &[(Counter::Numbers, 1000 + 200 * s)], &[]));
        assert_eq!(value(&rates(Kind::MariaDb, &all), WRITE_TRANSACTIONS), Some(100.0));
        assert_eq!(value(&rates(Kind::PostgreSql, &all), WRITE_TRANSACTIONS), Some(200.0));
    }

    #[test]
    fn what_is_not_measured_for_one_reason_is_told_once() {
        let environment = [
            ("server not measured: transactions", "not allowed"),
            ("server not measured: rollbacks", "not allowed"),
            ("server not measured: queries", "not there"),
            ("kernel", "6.1"),
        ];
        let environment = environment.map(|(name, why)| (name.to_owned(), why.to_owned())).into();
        let told: Vec<(String, String)> =
            not_measured(&environment).into_iter().map(|open| (open.what, open.why)).collect();
        let wanted = [
            ("rollbacks and transactions of the server", "not allowed"),
            ("queries of the server", "not there"),
        ];
        assert_eq!(told, wanted.map(|(what, why)| (what.to_owned(), why.to_owned())));
    }

    #[test]
    fn a_share_of_nothing_is_not_measured() {
        let at = |second, asked, read, statements, time| {
            sample(
                second,
                "",
                &[
                    (Counter::PagesAsked, asked),
                    (Counter::PagesRead, read),
                    (Counter::TimedStatements, statements),
                    (Counter::StatementTime, time),
                ],
                &[],
            )
        };
        let told = rates(Kind::MariaDb, &[at(0, 100, 10, 5, 1_000), at(2, 300, 60, 9, 9_000)]);
        assert_eq!(value(&told, BUFFER_HITS), Some(0.75));
        assert_eq!(value(&told, STATEMENT_LATENCY), Some(2e-6));
        let told = rates(Kind::MariaDb, &[at(0, 100, 10, 5, 1_000), at(2, 100, 10, 5, 1_000)]);
        assert!(told.metrics.is_empty());
        let why: Vec<&str> = told.missing.iter().map(|missing| missing.why.as_str()).collect();
        assert_eq!(why, ["no page was asked for", "no statement ended"]);
    }
}
