//! CSV (RFC 4180), for spreadsheets and R.

use super::table::{Table, Values};
use crate::error::{Error, Result};
use crate::trace::{TIME_COLUMN, TraceReader};
use domain::inert::csv_cell;
use domain::trial::Trial;
use std::io::Write;

/// Writes one row a trial; see [`crate::export`] for the columns. Times are ISO 8601 in UTC.
///
/// # Errors
/// Where `out` cannot be written.
pub fn trials_as_csv(trials: &[Trial], out: impl Write) -> Result<()> {
    let table = Table::of(trials);
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(table.columns.iter().map(|c| cell(&c.name))).map_err(failed)?;
    for row in 0..trials.len() {
        writer.write_record(table.columns.iter().map(|c| cell(&field(&c.values, row)))).map_err(failed)?;
    }
    writer.flush().map_err(failed)
}

/// Writes one row a sample, as it is read: `t_ns` and the trace's columns, raw.
///
/// # Errors
/// Where the trace is damaged, or `out` cannot be written.
pub fn trace_as_csv(trace: &mut TraceReader, out: impl Write) -> Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    let names = trace.head().series.iter().map(|s| s.name.as_str());
    writer.write_record(std::iter::once(TIME_COLUMN).chain(names).map(cell)).map_err(failed)?;
    trace.each_row(|time, values| {
        writer.write_field(time.get().to_string()).map_err(failed)?;
        for value in values {
            writer.write_field(value.map_or_else(String::new, |v| v.to_string())).map_err(failed)?;
        }
        writer.write_record(None::<&[u8]>).map_err(failed)
    })?;
    writer.flush().map_err(failed)
}

/// A text of others on one line, and no formula; Parquet and JSON have it as it is.
fn cell(text: &str) -> String {
    csv_cell(text).into_owned()
}

fn field(values: &Values, row: usize) -> String {
    let text = match values {
        Values::Text(values) => values[row].clone(),
        Values::Integer(values) => values[row].map(|v| v.to_string()),
        // The shortest text that reads back as the same number.
        Values::Number(values) => values[row].filter(|v| v.is_finite()).map(|v| v.to_string()),
        Values::Time(values) => values[row].map(|v| v.iso()),
    };
    text.unwrap_or_default()
}

fn failed(error: impl ToString) -> Error {
    Error::Export(error.to_string())
}
