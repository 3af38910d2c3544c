//! A database server that Flyball starts for a workload, on a host or in the lab: which one, with which
//! settings of its own, and when its data set is made anew. The simulation has one server, and no settings.
//!
//! Only settings of these lists are passed on: a study file is somebody's text, and others name files or
//! programs.

mod connection;
mod data;
pub mod mariadb;
pub mod postgresql;

pub use connection::{ADDRESS, Connection, PASSWORD_OPTION, SOCKET};
pub use data::{DataSet, Load};
pub use domain::database::Kind;

use crate::options::{OptionError, truth};
use std::collections::BTreeMap;

/// The settings that a study may give a server, by the server's own names.
pub const fn settings_of(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::MariaDb => &MARIADB,
        Kind::PostgreSql => &POSTGRESQL,
    }
}

/// What an option begins with that is a setting of the server's own: `server.innodb_buffer_pool_size`.
pub const PREFIX: &str = "server.";

/// Of MariaDB 10.11 (its Knowledge Base, "Server System Variables"): those that are a number, a size or a
/// word.
const MARIADB: [&str; 40] = [
    "aria_pagecache_buffer_size",
    "binlog_commit_wait_count",
    "innodb_adaptive_flushing",
    "innodb_adaptive_hash_index",
    "innodb_buffer_pool_chunk_size",
    "innodb_buffer_pool_size",
    "innodb_change_buffering",
    "innodb_checksum_algorithm",
    "innodb_doublewrite",
    "innodb_file_per_table",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "innodb_flush_neighbors",
    "innodb_flush_sync",
    "innodb_io_capacity",
    "innodb_io_capacity_max",
    "innodb_log_buffer_size",
    "innodb_log_file_buffering",
    "innodb_log_file_size",
    "innodb_lru_scan_depth",
    "innodb_max_dirty_pages_pct",
    "innodb_max_dirty_pages_pct_lwm",
    "innodb_page_size",
    "innodb_purge_threads",
    "innodb_read_io_threads",
    "innodb_read_ahead_threshold",
    "innodb_sync_spin_loops",
    "innodb_use_native_aio",
    "innodb_write_io_threads",
    "join_buffer_size",
    "max_connections",
    "performance_schema",
    "query_cache_size",
    "query_cache_type",
    "sort_buffer_size",
    "table_open_cache",
    "thread_cache_size",
    "thread_handling",
    "thread_pool_size",
    "transaction_isolation",
];

/// Of PostgreSQL 15 (its documentation, chapter 20): likewise.
const POSTGRESQL: [&str; 40] = [
    "autovacuum",
    "backend_flush_after",
    "bgwriter_delay",
    "bgwriter_flush_after",
    "bgwriter_lru_maxpages",
    "checkpoint_completion_target",
    "checkpoint_flush_after",
    "checkpoint_timeout",
    "commit_delay",
    "commit_siblings",
    "default_transaction_isolation",
    "effective_cache_size",
    "effective_io_concurrency",
    "fsync",
    "full_page_writes",
    "huge_pages",
    "io_combine_limit",
    "io_method",
    "io_workers",
    "jit",
    "maintenance_io_concurrency",
    "maintenance_work_mem",
    "max_connections",
    "max_parallel_workers_per_gather",
    "max_wal_size",
    "max_worker_processes",
    "min_wal_size",
    "random_page_cost",
    "seq_page_cost",
    "shared_buffers",
    "synchronous_commit",
    "temp_buffers",
    "wal_buffers",
    "wal_compression",
    "wal_init_zero",
    "wal_level",
    "wal_recycle",
    "wal_sync_method",
    "wal_writer_delay",
    "work_mem",
];

/// Settings that the data files are made with: another value means other data.
const OF_THE_DATA: [&str; 3] = ["innodb_checksum_algorithm", "innodb_file_per_table", "innodb_page_size"];

/// The longest value: `64GB`, `read-committed`.
const LONGEST_VALUE: usize = 64;

/// What a workload asks of its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Which one.
    pub kind: Kind,
    /// Settings of its own, by its own names.
    pub settings: BTreeMap<String, String>,
    /// Whether each trial gets a data set that no other has worked on; else it is made once a run, and once
    /// for each stack of storage.
    pub rebuild: bool,
}

impl Server {
    /// Reads what options say of the server, each of which has been looked at.
    ///
    /// # Errors
    /// Where a setting is not one of this server's.
    pub(crate) fn parse(kind: Kind, options: &BTreeMap<String, String>) -> Result<Self, OptionError> {
        let mut settings = BTreeMap::new();
        for (option, value) in options {
            let Some(name) = option.strip_prefix(PREFIX) else { continue };
            if !settings_of(kind).contains(&name) {
                let problem =
                    format!("is no setting of {} that a study can set; see docs/SERVERS.md", kind.name());
                return Err(OptionError::wrong(option, problem));
            }
            settings.insert(name.to_owned(), value.clone());
        }
        let rebuild = options.get("rebuild").is_some_and(|text| truth(text) == Ok(true));
        Ok(Self { kind, settings, rebuild })
    }

    /// The settings that the data files are made with.
    pub fn data_settings(&self) -> BTreeMap<String, String> {
        let mut settings = self.settings.clone();
        settings.retain(|name, _| OF_THE_DATA.contains(&name.as_str()));
        settings
    }
}

/// Looks at one option of a server by itself; `None` where it is no such option.
pub(crate) fn check(option: &str, value: &str) -> Option<Result<(), String>> {
    if let Some(name) = option.strip_prefix(PREFIX) {
        if !Kind::ALL.iter().any(|kind| settings_of(*kind).contains(&name)) {
            return Some(Err("is a setting of no server that a study can set; see docs/SERVERS.md".into()));
        }
        return Some(setting_value(value));
    }
    match option {
        "server" => Some(kind(value).map(drop)),
        "rebuild" => Some(truth(value).map(drop)),
        _ => None,
    }
}

/// The server of such a name.
pub(crate) fn kind(text: &str) -> Result<Kind, String> {
    let names = || Kind::ALL.map(Kind::name).join("`, `");
    Kind::of_name(text).ok_or_else(|| format!("is `{text}`; write one of `{}`", names()))
}

/// No path, no list, no quotes.
fn setting_value(text: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c);
    if !text.is_empty() && text.len() <= LONGEST_VALUE && text.chars().all(is_plain) {
        return Ok(());
    }
    Err(format!("is `{text}`; write a number, a size such as `1G`, or a word"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_those_of_the_server_that_is_meant() {
        let options = |name: &str| [(format!("{PREFIX}{name}"), "1G".to_owned())].into();
        let server = Server::parse(Kind::MariaDb, &options("innodb_buffer_pool_size")).unwrap();
        assert_eq!(server.settings["innodb_buffer_pool_size"], "1G");
        assert!(server.data_settings().is_empty() && !server.rebuild);
        let error = Server::parse(Kind::PostgreSql, &options("innodb_buffer_pool_size")).unwrap_err();
        assert!(
            error.to_string().starts_with("`server.innodb_buffer_pool_size` is no setting of postgresql")
        );
    }

    #[test]
    fn what_names_a_file_or_a_program_is_no_setting() {
        for name in ["datadir", "init_file", "plugin_load", "log_error", "archive_command", "data_directory"]
        {
            assert!(check(&format!("{PREFIX}{name}"), "x").unwrap().is_err(), "{name}");
        }
        for value in ["/etc/passwd", "a b", "", "'x'", "../x"] {
            assert!(check("server.innodb_flush_method", value).unwrap().is_err(), "{value}");
        }
        assert_eq!(check("server.innodb_flush_method", "O_DIRECT"), Some(Ok(())));
        assert_eq!(check("threads", "1"), None);
    }
}
