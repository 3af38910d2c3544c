//! What a server says of itself: its version, what a commit waits for, how much memory it has.

use super::error::hint;
use super::{Client, Error, Login};
use crate::Machine;
use domain::database::Kind;
use std::collections::BTreeMap;

/// What is read of PostgreSQL, where it has it: what a commit waits for, and how much memory there is.
const POSTGRESQL: [&str; 16] = [
    "archive_mode",
    "checkpoint_completion_target",
    "checkpoint_timeout",
    "commit_delay",
    "data_checksums",
    "data_directory",
    "fsync",
    "full_page_writes",
    "max_connections",
    "max_wal_size",
    "shared_buffers",
    "synchronous_commit",
    "synchronous_standby_names",
    "wal_compression",
    "wal_level",
    "wal_sync_method",
];

/// The same of MariaDB.
const MARIADB: [&str; 16] = [
    "datadir",
    "innodb_buffer_pool_size",
    "innodb_doublewrite",
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "innodb_io_capacity",
    "innodb_io_capacity_max",
    "innodb_log_file_size",
    "innodb_log_group_home_dir",
    "innodb_page_size",
    "innodb_use_native_aio",
    "log_bin",
    "max_connections",
    "max_prepared_stmt_count",
    "read_only",
    "sync_binlog",
];

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its version, in its own words.
    pub version: String,
    /// Settings that decide what a commit costs, by the server's own names.
    pub settings: BTreeMap<String, String>,
    /// Why no database can be made in it; `None` where nothing stands against it.
    pub against: Option<String>,
}

impl Found {
    /// Why a commit may be lost though its client was told that it is done: the setting that says so.
    pub fn not_durable(&self) -> Option<String> {
        /// Settings with values by which a commit waits until its log is on the disk.
        const DURABLE: [(&str, &[&str]); 3] = [
            ("fsync", &["on"]),
            ("synchronous_commit", &["on", "local", "remote_write", "remote_apply"]),
            ("innodb_flush_log_at_trx_commit", &["1", "3"]),
        ];
        DURABLE.into_iter().find_map(|(name, durable)| {
            let value = self.settings.get(name)?;
            (!durable.contains(&value.as_str())).then(|| format!("{name} = {value}"))
        })
    }
}

impl Client {
    /// Asks the server about itself.
    ///
    /// # Errors
    /// [`Error::Refused`] where it does not answer, or lets this user not in.
    pub fn look(&self, machine: &dyn Machine) -> Result<Found, Error> {
        let Login { kind, .. } = &self.login;
        let names = |names: &[&str]| format!("'{}'", names.join("', '"));
        let mut said = match *kind {
            Kind::PostgreSql => self.pairs(
                machine,
                &[
                    "SELECT 'version', split_part(version(), ' on ', 1)",
                    "SELECT 'in recovery', pg_is_in_recovery()",
                    "SELECT 'may create', rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = current_user",
                    &format!(
                        "SELECT name, current_setting(name) FROM pg_settings WHERE name IN ({})",
                        names(&POSTGRESQL)
                    ),
                ],
            )?,
            Kind::MariaDb => self.pairs(
                machine,
                &[
                    "SELECT 'version', VERSION()",
                    &format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({})", names(&MARIADB)),
                ],
            )?,
        };
        let is = |said: &BTreeMap<String, String>, name: &str, value: &str| {
            said.get(name).is_some_and(|is| is.eq_ignore_ascii_case(value))
        };
        let against = if is(&said, "in recovery", "t") || is(&said, "read_only", "on") {
            Some("it is a replica, or set to read only, and takes no tables".to_owned())
        } else if is(&said, "may create", "f") {
            let text = "permission denied to create database";
            Some(format!("{text}{}", hint(&self.login, text)))
        } else {
            None
        };
        let mut version = said.remove("version").unwrap_or_default();
        if *kind == Kind::MariaDb && version.contains("MariaDB") {
            version.insert_str(0, "MariaDB ");
        }
        said.retain(|name, _| !["in recovery", "may create"].contains(&name.as_str()));
        Ok(Found { version, settings: said, against })
    }

    /// Rows of a name and a value.
    fn pairs(&self, machine: &dyn Machine, statements: &[&str]) -> Result<BTreeMap<String, String>, Error> {
        let rows = self.ask(machine, statements)?;
        let pair = |row: Vec<String>| {
            let mut fields = row.into_iter();
            Some((fields.next()?, fields.next()?))
        };
        Ok(rows.into_iter().filter_map(pair).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_that_waits_for_no_disk_is_told_by_its_setting() {
        let found = |settings: &[(&str, &str)]| {
            let settings =
                settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            Found { version: String::new(), settings, against: None }.not_durable()
        };
        assert_eq!(found(&[("fsync", "on"), ("synchronous_commit", "on")]), None);
        assert_eq!(found(&[("innodb_flush_log_at_trx_commit", "1")]), None);
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[("fsync", "off")]).as_deref(), Some("fsync = off"));
        assert_eq!(
            found(&[("fsync", "on"), ("synchronous_commit", "off")]).as_deref(),
            Some("synchronous_commit = off")
        );
        let told = found(&[("innodb_flush_log_at_trx_commit", "2")]);
        assert_eq!(told.as_deref(), Some("innodb_flush_log_at_trx_commit = 2"));
    }
}
