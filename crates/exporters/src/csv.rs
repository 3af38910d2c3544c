//! CSV (RFC 4180), for spreadsheets and R.

use crate::table::{Table, Values};
use crate::{Error, Exporter, Result, Sink, StoredTrace, Writer};
use domain::inert::csv_cell;
use domain::trial::Trial;
use notebook::TIME_COLUMN;

/// A table of trials, or every sample of a trace.
pub(crate) struct Csv;

impl Exporter for Csv {
    fn name(&self) -> &'static str {
        "csv"
    }

    fn about(&self) -> &'static str {
        "Comma-separated values"
    }

    fn writers(&self) -> &'static [Writer] {
        &[Writer::Trials(trials), Writer::Trace(trace)]
    }
}

/// One row a trial; see [`crate::table`] for the columns. Times are ISO 8601 in UTC.
fn trials(trials: &[Trial], out: &mut dyn Sink) -> Result<()> {
    let table = Table::of(trials);
    let mut writer = csv::Writer::from_writer(out);
    writer.write_record(table.columns.iter().map(|c| cell(&c.name))).map_err(Error::write)?;
    for row in 0..trials.len() {
        let fields = table.columns.iter().map(|c| cell(&field(&c.values, row)));
        writer.write_record(fields).map_err(Error::write)?;
    }
    Ok(writer.flush()?)
}

/// One row a sample, as it is read: `t_ns` and the trace's columns, raw.
fn trace(trace: &mut StoredTrace<'_>, out: &mut dyn Sink) -> Result<()> {
    let mut writer = csv::Writer::from_writer(out);
    let names = trace.rows.head().series.iter().map(|s| s.name.as_str());
    writer.write_record(std::iter::once(TIME_COLUMN).chain(names).map(cell)).map_err(Error::write)?;
    trace.rows.each_row(|time, values| {
        writer.write_field(time.get().to_string()).map_err(Error::write)?;
        for value in values {
            writer.write_field(value.map_or_else(String::new, |v| v.to_string())).map_err(Error::write)?;
        }
        writer.write_record(None::<&[u8]>).map_err(Error::write)
    })?;
    Ok(writer.flush()?)
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
