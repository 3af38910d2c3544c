//! What a server is asked for its counters, and what its answers mean. One statement asks for all of them,
//! so that Flyball's own share is known: it is one statement and one transaction a question.
//!
//! MariaDB counts at once, and says what of it the session that asks has done. PostgreSQL's sessions report
//! what they did when a transaction ends, once a second at the most (`PGSTAT_MIN_INTERVAL` of its
//! `pgstat.c`), one that falls idle ten seconds later, and each when it ends. The session that asks reports
//! after each question (`pg_stat_force_next_flush`, since PostgreSQL 15).

use super::{Client, Error, Login, Rows};
use crate::Machine;
use domain::database::Kind;
use domain::database::counters::{
    ACTIVE_TIME, BUFFER_HITS, Counter, Missing, QUERIES, STATEMENT_LATENCY, Sample, TRANSACTIONS,
};
use domain::time::Nanos;
use std::collections::BTreeMap;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Questions {
    /// One statement. Its last row is [`LAST`].
    pub(super) statement: String,
    /// What is not asked for, since it is not there or refused.
    pub missing: Vec<Missing>,
}

/// The first field of the last row of each answer.
pub(super) const LAST: &str = "last";

/// By this name Flyball's statement is known among others in MariaDB's performance schema.
const MARK: &str = "flyball_counter";

/// MariaDB's counters of all sessions; those of [`OF_SESSION`] a session has for itself too.
const MARIADB: [(&str, Counter); 14] = [
    ("UPTIME", Counter::Uptime),
    ("INNODB_MAX_TRX_ID", Counter::Numbers),
    ("BINLOG_COMMITS", Counter::BinlogCommits),
    ("COM_COMMIT", Counter::CommitStatements),
    ("QUESTIONS", Counter::Statements),
    ("ROWS_READ", Counter::RowsRead),
    ("HANDLER_WRITE", Counter::RowsWritten),
    ("HANDLER_UPDATE", Counter::RowsWritten),
    ("HANDLER_DELETE", Counter::RowsWritten),
    ("INNODB_OS_LOG_FSYNCS", Counter::LogSyncs),
    ("INNODB_DATA_FSYNCS", Counter::DataSyncs),
    ("INNODB_BUFFER_POOL_READ_REQUESTS", Counter::PagesAsked),
    ("INNODB_BUFFER_POOL_READS", Counter::PagesRead),
    // `FLUSH STATUS` resets some.
    ("UPTIME_SINCE_FLUSH_STATUS", Counter::Uptime),
];

/// What each session of MariaDB's counts for itself, so that its own share is known.
const OF_SESSION: [&str; 6] =
    ["COM_COMMIT", "QUESTIONS", "ROWS_READ", "HANDLER_WRITE", "HANDLER_UPDATE", "HANDLER_DELETE"];

/// InnoDB's own counters of transactions, where somebody has them counted.
const INNODB: [(&str, Counter); 4] = [
    ("trx_rw_commits", Counter::Ended),
    ("trx_ro_commits", Counter::Ended),
    ("trx_nl_ro_commits", Counter::Ended),
    ("trx_rollbacks", Counter::RolledBack),
];

impl Client {
    /// Finds out what the server can be asked for: each part is tried once.
    ///
    /// # Errors
    /// [`Error::Refused`] where it does not even tell its plainest counters.
    pub fn questions(&self, machine: &dyn Machine) -> Result<Questions, Error> {
        match self.login().kind {
            Kind::MariaDb => self.questions_of_mariadb(machine),
            Kind::PostgreSql => self.questions_of_postgresql(machine),
        }
    }

    fn questions_of_mariadb(&self, machine: &dyn Machine) -> Result<Questions, Error> {
        let mut missing = Vec::new();
        let switches = self.ask(machine, &["SELECT @@global.log_bin, @@global.performance_schema"])?;
        let is_on = |at: usize| switches.first().and_then(|row| row.get(at)).is_some_and(|is| is == "1");
        let mut names: Vec<&str> = MARIADB.iter().map(|(name, _)| *name).collect();
        if !is_on(0) {
            names.retain(|name| *name != "BINLOG_COMMITS");
        }
        let mut parts = vec![status(&format!("VARIABLE_NAME AS {MARK}"), "GLOBAL_STATUS", &names)];
        parts.push(status("CONCAT('own ', VARIABLE_NAME)", "SESSION_STATUS", &OF_SESSION));
        let told = self.ask(machine, &[&parts.join(" UNION ALL ")])?;
        if !told.iter().flatten().any(|field| field == "INNODB_OS_LOG_FSYNCS") {
            let why =
                "this version does not count them apart; `data_syncs` has those of the log among others";
            missing.push(lacks("log_syncs", why));
        }
        let user = &self.login().user;
        let names = INNODB.map(|(name, _)| name);
        let columns = self.ask(machine, &[COLUMNS_OF_INNODB])?;
        let innodb = of_innodb(&columns.concat(), &names);
        let why = match self.tried(machine, &innodb) {
            Ok(rows) if rows.len() == INNODB.len() => None,
            Ok(_) => Some(
                "InnoDB does not count all transactions as it is set; `SET GLOBAL innodb_monitor_enable = 'module_trx'` lets it"
                    .to_owned(),
            ),
            Err(said) => Some(format!(
                "the server refuses its table INNODB_METRICS ({said}); allow it with `GRANT PROCESS ON *.* TO '{user}'@'…'`"
            )),
        };
        match why {
            None => parts.push(innodb),
            Some(why) => missing.extend([TRANSACTIONS, "rollbacks"].map(|metric| lacks(metric, &why))),
        }
        let timed = performance_schema();
        let why = match is_on(1).then(|| self.tried(machine, &timed)) {
            None => Some(
                "its performance schema is off; start the server with `performance_schema = ON`".to_owned(),
            ),
            Some(Err(said)) => Some(format!(
                "the server refuses its performance schema ({said}); allow it with `GRANT SELECT ON performance_schema.* TO '{user}'@'…'`"
            )),
            Some(Ok(_)) => None,
        };
        match why {
            None => parts.push(timed),
            Some(why) => missing.push(lacks(STATEMENT_LATENCY, &why)),
        }
        parts.push(format!("SELECT '{LAST}', 0"));
        Ok(Questions { statement: parts.join(" UNION ALL "), missing })
    }

    fn questions_of_postgresql(&self, machine: &dyn Machine) -> Result<Questions, Error> {
        let told = self.ask(
            machine,
            &[
                "SELECT current_setting('server_version_num'), current_setting('track_counts'), current_setting('track_activities')",
                "SELECT quote_ident(nspname) FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE extname = 'pg_stat_statements'",
            ],
        )?;
        let setting = |at: usize| told.first().and_then(|row| row.get(at)).map_or("", String::as_str);
        let version: u32 = setting(0).parse().unwrap_or_default();
        let mut asked = Postgresql {
            version,
            counts: setting(1) == "on",
            activities: setting(2) == "on",
            statements: None,
        };
        let Login { user, database, .. } = self.login();
        let mut missing = asked.missing();
        let why = match told.get(1).and_then(|row| row.first()) {
            None => Some(format!(
                "the extension pg_stat_statements is not in the database `{database}`; set `shared_preload_libraries = 'pg_stat_statements'`, restart the server, and type `CREATE EXTENSION pg_stat_statements` there"
            )),
            Some(schema) => match self
                .tried(machine, &format!("SELECT count(*) FROM {schema}.pg_stat_statements(false)"))
            {
                Ok(_) => {
                    asked.statements = Some(schema.clone());
                    None
                }
                Err(said) => Some(format!(
                    "the server refuses pg_stat_statements ({said}); name it in `shared_preload_libraries`, and allow it with `GRANT pg_read_all_stats TO \"{user}\"`"
                )),
            },
        };
        missing
            .extend(why.iter().flat_map(|why| [QUERIES, STATEMENT_LATENCY].map(|metric| lacks(metric, why))));
        let statement = asked.statement();
        self.ask(machine, &[&statement])?;
        Ok(Questions { statement, missing })
    }

    /// Asks something that may be refused; the server's words where it is.
    fn tried(&self, machine: &dyn Machine, statement: &str) -> Result<Rows, String> {
        self.ask(machine, &[statement]).map_err(|error| match error {
            Error::Refused { said, .. } => said,
            other => other.to_string(),
        })
    }
}

fn lacks(metric: &'static str, why: &str) -> Missing {
    Missing { metric, why: why.to_owned() }
}

fn listed(names: &[&str]) -> String {
    format!("('{}')", names.join("', '"))
}

/// The columns of the table in which InnoDB's own counters are; everybody may ask.
const COLUMNS_OF_INNODB: &str = "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'information_schema' AND TABLE_NAME = 'INNODB_METRICS'";

/// A question for InnoDB's own counters that are counted. MariaDB says so in a column `ENABLED`; up to
/// version 10.4 it says `enabled` in a column `STATUS`, as MySQL does.
fn of_innodb(columns: &[String], names: &[&str]) -> String {
    let has = |name: &str| columns.iter().any(|column| column.eq_ignore_ascii_case(name));
    let is_counted = match has("STATUS") && !has("ENABLED") {
        true => "STATUS = 'enabled'",
        false => "ENABLED = 1",
    };
    format!(
        "SELECT NAME, `COUNT` FROM information_schema.INNODB_METRICS WHERE {is_counted} AND NAME IN {}",
        listed(names)
    )
}

/// A question for variables of MariaDB's status.
fn status(name: &str, table: &str, names: &[&str]) -> String {
    format!(
        "SELECT {name}, VARIABLE_VALUE FROM information_schema.{table} WHERE VARIABLE_NAME IN {}",
        listed(names)
    )
}

/// Statements that ended and their time, those inside procedures left out. Of them Flyball's own.
fn performance_schema() -> String {
    // The kinds of statement are few; digests are up to 10,000.
    const OF_CLIENTS: &str = "FROM performance_schema.events_statements_summary_global_by_event_name WHERE EVENT_NAME LIKE 'statement/sql/%' OR EVENT_NAME = 'statement/com/Execute'";
    let own = format!(
        "FROM performance_schema.events_statements_summary_by_digest WHERE DIGEST_TEXT LIKE 'SELECT%{MARK}%'"
    );
    let (count, time) = (Counter::TimedStatements.name(), Counter::StatementTime.name());
    let sum = |name: &str, column: &str, from: &str| format!("SELECT '{name}', COALESCE({column}, 0) {from}");
    // In picoseconds.
    let wait = "SUM(SUM_TIMER_WAIT) DIV 1000";
    [
        sum(count, "SUM(COUNT_STAR)", OF_CLIENTS),
        sum(time, wait, OF_CLIENTS),
        sum(&format!("own {count}"), "SUM(COUNT_STAR)", &own),
        sum(&format!("own {time}"), wait, &own),
    ]
    .join(" UNION ALL ")
}

/// What PostgreSQL can be asked for.
struct Postgresql {
    version: u32,
    /// `track_counts`: rows and pages are counted.
    counts: bool,
    /// `track_activities`: the time of sessions is.
    activities: bool,
    /// The schema of `pg_stat_statements`.
    statements: Option<String>,
}

impl Postgresql {
    const HAS_ACTIVE_TIME: u32 = 140_000;
    const HAS_WAL_STATISTICS: u32 = 140_000;
    const CAN_REPORT_AT_ONCE: u32 = 150_000;
    const HAS_IO_STATISTICS: u32 = 160_000;
    const HAS_LOG_IN_IO_STATISTICS: u32 = 180_000;

    fn missing(&self) -> Vec<Missing> {
        let mut missing = Vec::new();
        if !self.counts {
            let why = "the server does not count them (`track_counts` is off)";
            missing.extend(["rows_read", "rows_written", BUFFER_HITS].map(|metric| lacks(metric, why)));
        }
        if self.version < Self::HAS_ACTIVE_TIME {
            missing.push(lacks(ACTIVE_TIME, "PostgreSQL counts it since version 14"));
        } else if !self.activities {
            missing.push(lacks(ACTIVE_TIME, "the server does not count it (`track_activities` is off)"));
        }
        if self.version < Self::HAS_WAL_STATISTICS {
            missing.push(lacks("log_syncs", "PostgreSQL counts them since version 14"));
        }
        if self.version < Self::HAS_IO_STATISTICS {
            missing.push(lacks("data_syncs", "PostgreSQL counts them since version 16"));
        }
        missing
    }

    /// Databases are those of `pg_stat_database` but for the row of the tables that all share: Flyball's
    /// question reads those, and nothing else (`pg_database`), once its session knows the catalogue.
    fn statement(&self) -> String {
        let mut sums = vec![
            "sum(xact_commit + xact_rollback) AS ended",
            "sum(xact_rollback) AS rolled_back",
            "max(stats_reset) AS reset",
        ];
        let mut epoch = vec!["pg_postmaster_start_time()".to_owned(), "d.reset".into()];
        let mut all: Vec<(&str, String)> = vec![
            (Counter::Ended.name(), "d.ended".into()),
            (Counter::RolledBack.name(), "d.rolled_back".into()),
            (Counter::Numbers.name(), "pg_snapshot_xmax(pg_current_snapshot())".into()),
        ];
        if self.counts {
            sums.extend([
                "sum(tup_returned) AS rows_read",
                "sum(tup_inserted + tup_updated + tup_deleted) AS rows_written",
                "sum(blks_hit + blks_read) AS pages_asked",
                "sum(blks_read) AS pages_read",
            ]);
            let counters = [Counter::RowsRead, Counter::RowsWritten, Counter::PagesAsked, Counter::PagesRead];
            all.extend(counters.map(|counter| (counter.name(), format!("d.{}", counter.name()))));
        }
        let active_time = self.version >= Self::HAS_ACTIVE_TIME && self.activities;
        if active_time {
            sums.push("round(sum(active_time) * 1000000)::bigint AS active_time");
            all.push((Counter::ActiveTime.name(), "d.active_time".into()));
        }
        if self.version >= Self::HAS_LOG_IN_IO_STATISTICS {
            let of_log = "(SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'wal')";
            all.push((Counter::LogSyncs.name(), of_log.into()));
        } else if self.version >= Self::HAS_WAL_STATISTICS {
            epoch.push("(SELECT stats_reset FROM pg_stat_wal)".into());
            all.push((Counter::LogSyncs.name(), "(SELECT wal_sync FROM pg_stat_wal)".into()));
        }
        if self.version >= Self::HAS_IO_STATISTICS {
            epoch.push("(SELECT max(stats_reset) FROM pg_stat_io)".into());
            let of_tables = "(SELECT sum(fsyncs) FROM pg_stat_io WHERE object = 'relation')";
            all.push((Counter::DataSyncs.name(), of_tables.into()));
        }
        let statements = self.statements.as_ref().map_or_else(String::new, |schema| {
            epoch.push(format!("(SELECT stats_reset FROM {schema}.pg_stat_statements_info)"));
            all.extend([
                (Counter::Statements.name(), "s.calls".to_owned()),
                (Counter::TimedStatements.name(), "s.calls".into()),
                (Counter::StatementTime.name(), "s.time".into()),
            ]);
            // All but this statement itself.
            format!(
                ", LATERAL (SELECT sum(calls) AS calls, round(sum(total_exec_time) * 1000000)::bigint AS time FROM {schema}.pg_stat_statements(false) \
                 WHERE queryid IS DISTINCT FROM (SELECT query_id FROM pg_stat_get_activity(pg_backend_pid()))) s"
            )
        });
        let mut rows: Vec<String> =
            all.iter().map(|(name, value)| format!("('{name}', COALESCE({value}::text, '0'))")).collect();
        rows.push(format!("('{EPOCH}', concat_ws(' ', {}))", epoch.join(", ")));
        let last = match self.version >= Self::CAN_REPORT_AT_ONCE {
            true => "pg_stat_force_next_flush()::text",
            false => "''",
        };
        // What the session is at work for this question, but for sending the answer.
        let own = "round(extract(epoch FROM clock_timestamp() - statement_timestamp()) * 1000000000)::text";
        if active_time {
            rows.push(format!("('own {}', {own})", Counter::ActiveTime.name()));
        }
        rows.push(format!("('{LAST}', {last})"));
        format!(
            "SELECT v.name, v.value FROM (SELECT {} FROM pg_stat_database WHERE datid <> 0) d{statements}, LATERAL (VALUES {}) AS v(name, value)",
            sums.join(", "),
            rows.join(", ")
        )
    }
}

/// The row of when counting began.
const EPOCH: &str = "epoch";

/// The counters of an answer, at no time yet.
///
/// # Errors
/// What in it makes no sense.
pub(super) fn sample(rows: &[Vec<String>]) -> Result<Sample, String> {
    let mut sample = Sample { time: Nanos::ZERO, ..Sample::default() };
    for row in rows {
        let [name, value] = row.as_slice() else {
            return Err(format!("it answered with `{}`, which is no name and value", row.join(" ")));
        };
        if name == EPOCH {
            sample.epoch = value.clone();
            continue;
        }
        let (to, name) = match name.strip_prefix("own ") {
            Some(name) => (&mut sample.own, name),
            None => (&mut sample.counted, name.as_str()),
        };
        let Some(counter) = counter_of(name) else {
            return Err(format!("it answered with `{name}`, which was not asked for"));
        };
        let value: u64 =
            value.parse().map_err(|_| format!("its counter `{name}` is `{value}`, which is no count"))?;
        *to.entry(counter).or_default() += value;
    }
    Ok(sample)
}

fn counter_of(name: &str) -> Option<Counter> {
    let tables = MARIADB.iter().chain(&INNODB);
    let by_server =
        tables.clone().find(|(theirs, _)| theirs.eq_ignore_ascii_case(name)).map(|(_, counter)| *counter);
    by_server.or_else(|| Counter::ALL.into_iter().find(|counter| counter.name() == name))
}

/// What a question adds to Flyball's own share at a server that does not say it, for the next one.
pub(super) fn add_own(kind: Kind, own: &mut BTreeMap<Counter, u64>, answer: &Sample) {
    if kind == Kind::PostgreSql {
        *own.entry(Counter::Ended).or_default() += 1;
        let time = answer.own.get(&Counter::ActiveTime).copied().unwrap_or_default();
        *own.entry(Counter::ActiveTime).or_default() += time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(text: &str) -> Rows {
        text.lines().map(|line| line.trim().split('\t').map(str::to_owned).collect()).collect()
    }

    #[test]
    fn names_of_mariadb_that_mean_one_counter_are_added() {
        // MariaDB 10.11.
        let told = sample(&rows(
            "UPTIME\t318\nUPTIME_SINCE_FLUSH_STATUS\t300\nQUESTIONS\t1567\nHANDLER_WRITE\t301\nHANDLER_UPDATE\t7\n\
             own QUESTIONS\t2\nown HANDLER_WRITE\t1\ntrx_rw_commits\t40\ntrx_ro_commits\t2\ntrx_nl_ro_commits\t1\n\
             trx_rollbacks\t3\ntimed_statements\t9\nown timed_statements\t1",
        ))
        .unwrap();
        let counted: Vec<(&str, u64)> =
            told.counted.iter().map(|(counter, n)| (counter.name(), *n)).collect();
        assert_eq!(
            counted,
            [
                ("uptime_s", 618),
                ("ended", 43),
                ("rolled_back", 3),
                ("statements", 1567),
                ("rows_written", 308),
                ("timed_statements", 9)
            ]
        );
        let own: Vec<(&str, u64)> = told.own.iter().map(|(counter, n)| (counter.name(), *n)).collect();
        assert_eq!(own, [("statements", 2), ("rows_written", 1), ("timed_statements", 1)]);
        assert_eq!(told.epoch, "");
    }

    #[test]
    fn innodbs_counters_are_asked_for_by_the_column_that_the_version_has() {
        // The columns of MariaDB 10.11, and of 10.4.
        for (columns, wanted) in [
            ("NAME SUBSYSTEM COUNT TIME_RESET ENABLED TYPE COMMENT", "ENABLED = 1"),
            ("NAME SUBSYSTEM COUNT TIME_RESET STATUS TYPE COMMENT", "STATUS = 'enabled'"),
        ] {
            let columns: Vec<String> = columns.split(' ').map(str::to_owned).collect();
            let asked = of_innodb(&columns, &["trx_rw_commits"]);
            assert_eq!(
                asked,
                format!(
                    "SELECT NAME, `COUNT` FROM information_schema.INNODB_METRICS WHERE {wanted} AND NAME IN ('trx_rw_commits')"
                )
            );
        }
    }

    #[test]
    fn an_answer_that_makes_no_sense_is_no_zero() {
        for (text, wanted) in [
            ("QUESTIONS\tmany", "is `many`, which is no count"),
            ("nonsense\t1", "`nonsense`, which was not asked for"),
            ("QUESTIONS", "no name and value"),
        ] {
            let why = sample(&rows(text)).unwrap_err();
            assert!(why.contains(wanted), "{why}");
        }
        let told = sample(&rows("epoch\t2026-11-25 10:58:56+00\nended\t977")).unwrap();
        assert_eq!((told.epoch.as_str(), told.counted[&Counter::Ended]), ("2026-11-25 10:58:56+00", 977));
    }

    #[test]
    fn what_a_version_of_postgresql_lacks_is_not_asked_for_and_told() {
        let of = |version| Postgresql { version, counts: true, activities: true, statements: None };
        let told = |version| {
            let missing = of(version).missing();
            missing.iter().map(|missing| missing.metric).collect::<Vec<_>>()
        };
        assert_eq!(told(130_000), [ACTIVE_TIME, "log_syncs", "data_syncs"]);
        assert_eq!(told(150_000), ["data_syncs"]);
        assert_eq!(told(180_000), [""; 0]);
        let asks = |version: u32, what: &str| of(version).statement().contains(what);
        assert!(
            !asks(130_000, "pg_stat_wal") && asks(150_000, "pg_stat_wal") && !asks(180_000, "pg_stat_wal")
        );
        assert!(!asks(150_000, "pg_stat_io") && asks(160_000, "object = 'relation'"));
        assert!(!asks(140_000, "force_next_flush") && asks(150_000, "force_next_flush"));
        let off = Postgresql { counts: false, activities: false, ..of(150_000) };
        let missing: Vec<&str> = off.missing().iter().map(|missing| missing.metric).collect();
        assert!(["rows_read", BUFFER_HITS, ACTIVE_TIME].iter().all(|metric| missing.contains(metric)));
        assert!(!off.statement().contains("tup_returned") && !off.statement().contains("active_time"));
    }

    #[test]
    fn a_question_to_postgresql_is_one_transaction_for_the_next() {
        let mut own = BTreeMap::new();
        let answer = sample(&rows("ended\t5\nown active_time_ns\t700000")).unwrap();
        for _ in 0..2 {
            add_own(Kind::PostgreSql, &mut own, &answer);
        }
        assert_eq!(own, [(Counter::Ended, 2), (Counter::ActiveTime, 1_400_000)].into());
        let mut own = BTreeMap::new();
        add_own(Kind::MariaDb, &mut own, &answer);
        assert!(own.is_empty(), "MariaDB says it itself");
    }
}
