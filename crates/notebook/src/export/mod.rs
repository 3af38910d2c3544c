//! Results for other programs: the trials of a run as CSV, JSON or Parquet, and a trace as CSV.
//!
//! Tables have one row a trial, in the order given. Their columns are named by what they hold: `factor.NAME`,
//! `metric.NAME.UNIT`, `setting.NAME@OBJECT` (as it was read back), `cpu.ROLE.seconds`. A value that was not
//! measured is empty, never zero.

mod csv;
mod json;
mod parquet;
mod table;

pub use csv::{trace_as_csv, trials_as_csv};
pub use json::trials_as_json;
pub use parquet::trials_as_parquet;
