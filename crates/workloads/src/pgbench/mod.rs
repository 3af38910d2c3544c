//! pgbench of PostgreSQL.

pub mod options;
pub mod report;
