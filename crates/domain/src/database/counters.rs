//! What a database server counts of itself, raw, and the names of the metrics that follow from it.

use super::Kind;
use crate::outcome::Better;
use crate::time::Nanos;
use crate::units::Unit;
use std::collections::BTreeMap;

/// Something that a server counts from its start on. None of them shrinks while it runs, unless somebody
/// resets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// Seconds since the server was started, or its counters were reset.
    Uptime,
    /// Transactions that ended, also without a write and without a `COMMIT`. PostgreSQL: `xact_commit` and
    /// `xact_rollback` of `pg_stat_database`. MariaDB: `trx_rw_commits`, `trx_ro_commits` and
    /// `trx_nl_ro_commits` of `INNODB_METRICS`; the first counts those that were rolled back too.
    Ended,
    /// Of these, those that were rolled back: `xact_rollback`; `trx_rollbacks`.
    RolledBack,
    /// Numbers that were given to transactions that wrote: see [`numbers_of_one`].
    Numbers,
    /// Transactions written to the binary log: MariaDB's `Binlog_commits`.
    BinlogCommits,
    /// `COMMIT` statements: MariaDB's `Com_commit`. A statement that commits by itself is none.
    CommitStatements,
    /// Statements of clients: MariaDB's `Questions`; `calls` of `pg_stat_statements`.
    Statements,
    /// Rows read: MariaDB's `Rows_read`, without temporary tables; `tup_returned` of `pg_stat_database`.
    RowsRead,
    /// Rows inserted, updated and deleted: MariaDB's `Handler_write`, `_update` and `_delete`;
    /// `tup_inserted`, `tup_updated` and `tup_deleted`.
    RowsWritten,
    /// Times that the log of transactions was made durable: `Innodb_os_log_fsyncs`; `wal_sync` of
    /// `pg_stat_wal`, since PostgreSQL 18 the `fsyncs` of `pg_stat_io` for `wal`.
    LogSyncs,
    /// Times that files were: `Innodb_data_fsyncs`, the log's among them; `fsyncs` of `pg_stat_io`, of tables
    /// alone.
    DataSyncs,
    /// Pages that were asked for: `Innodb_buffer_pool_read_requests`; `blks_hit` and `blks_read`.
    PagesAsked,
    /// Of these, those that were not in the server's memory: `Innodb_buffer_pool_reads`; `blks_read`.
    PagesRead,
    /// Statements whose time is known: those of the performance schema; `calls` of `pg_stat_statements`.
    TimedStatements,
    /// Their time in nanoseconds. That of `pg_stat_statements` leaves out the commit, and planning unless
    /// `track_planning` is on.
    StatementTime,
    /// In nanoseconds, how long sessions were at work: `active_time` of `pg_stat_database`.
    ActiveTime,
}

impl Counter {
    /// Each of them.
    pub const ALL: [Self; 16] = [
        Self::Uptime,
        Self::Ended,
        Self::RolledBack,
        Self::Numbers,
        Self::BinlogCommits,
        Self::CommitStatements,
        Self::Statements,
        Self::RowsRead,
        Self::RowsWritten,
        Self::LogSyncs,
        Self::DataSyncs,
        Self::PagesAsked,
        Self::PagesRead,
        Self::TimedStatements,
        Self::StatementTime,
        Self::ActiveTime,
    ];

    /// As a stored sample has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uptime => "uptime_s",
            Self::Ended => "ended",
            Self::RolledBack => "rolled_back",
            Self::Numbers => "numbers",
            Self::BinlogCommits => "binlog_commits",
            Self::CommitStatements => "commit_statements",
            Self::Statements => "statements",
            Self::RowsRead => "rows_read",
            Self::RowsWritten => "rows_written",
            Self::LogSyncs => "log_syncs",
            Self::DataSyncs => "data_syncs",
            Self::PagesAsked => "pages_asked",
            Self::PagesRead => "pages_read",
            Self::TimedStatements => "timed_statements",
            Self::StatementTime => "statement_time_ns",
            Self::ActiveTime => "active_time_ns",
        }
    }
}

/// How many numbers a transaction takes that writes and commits. PostgreSQL gives it one; a subtransaction
/// gets one too. InnoDB gives one when it first locks or writes, and one more when it ends having written
/// (`trx_sys_t::get_new_trx_id` and `assign_new_trx_no` of MariaDB's `trx0sys.h`).
pub const fn numbers_of_one(kind: Kind) -> u64 {
    match kind {
        Kind::MariaDb => 2,
        Kind::PostgreSql => 1,
    }
}

/// What a server said at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Since the recording began.
    pub time: Nanos,
    /// When the server was started and its counters were reset, in its own words; empty where a counter says
    /// it ([`Counter::Uptime`]).
    pub epoch: String,
    /// What it has counted; what it does not count is absent.
    pub counted: BTreeMap<Counter, u64>,
    /// What of this Flyball's own questions were.
    pub own: BTreeMap<Counter, u64>,
}

impl Sample {
    /// Whether the server has begun to count anew before a later sample: it was started again, or its
    /// counters were reset.
    pub fn begins_anew(&self, later: &Self) -> bool {
        let shrank = |(counter, before): (&Counter, &u64)| {
            later.counted.get(counter).is_some_and(|after| after < before)
        };
        self.epoch != later.epoch || self.counted.iter().any(shrank)
    }
}

/// A metric that a server does not give.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missing {
    /// Its name.
    pub metric: &'static str,
    /// Why, and what would give it.
    pub why: String,
}

/// What follows from the counters: name, unit, which way is good.
pub const METRICS: [(&str, Unit, Better); 13] = [
    (TRANSACTIONS, Unit::PerSecond, Better::Higher),
    (WRITE_TRANSACTIONS, Unit::PerSecond, Better::Higher),
    (QUERIES, Unit::PerSecond, Better::Higher),
    ("rollbacks", Unit::PerSecond, Better::Lower),
    ("binlog_commits", Unit::PerSecond, Better::Higher),
    ("commit_statements", Unit::PerSecond, Better::Higher),
    ("rows_read", Unit::PerSecond, Better::Higher),
    ("rows_written", Unit::PerSecond, Better::Higher),
    ("log_syncs", Unit::PerSecond, Better::Higher),
    ("data_syncs", Unit::PerSecond, Better::Higher),
    (BUFFER_HITS, Unit::Share, Better::Higher),
    (STATEMENT_LATENCY, Unit::Seconds, Better::Lower),
    (ACTIVE_TIME, Unit::Seconds, Better::Lower),
];

/// Committed transactions a second.
pub const TRANSACTIONS: &str = "transactions";
/// Transactions a second that wrote.
pub const WRITE_TRANSACTIONS: &str = "write_transactions";
/// Statements of clients a second.
pub const QUERIES: &str = "queries";
/// The share of pages that were in the server's memory.
pub const BUFFER_HITS: &str = "buffer_hits";
/// What a statement takes on average.
pub const STATEMENT_LATENCY: &str = "statement_latency_mean";
/// How long a session is at work for a transaction on average.
pub const ACTIVE_TIME: &str = "transaction_active_mean";

/// By this name a trial's environment says which server was watched.
pub const WATCHED: &str = "watched server";

/// By this prefix a trial's environment says why a server's metric is not there: its name follows.
pub const NOT_MEASURED: &str = "server not measured: ";

/// By this name a trial's environment says that a server's counters began anew.
pub const BEGAN_ANEW: &str = "server counters began anew";

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_counter_is_listed_once_under_a_name_of_its_own() {
        let names: BTreeSet<&str> = Counter::ALL.into_iter().map(Counter::name).collect();
        let all: BTreeSet<Counter> = Counter::ALL.into_iter().collect();
        assert_eq!((names.len(), all.len()), (Counter::ALL.len(), Counter::ALL.len()));
    }
}
