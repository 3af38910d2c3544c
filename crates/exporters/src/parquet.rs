//! Parquet, for DuckDB, pandas, Polars and Spark: a table of trials, or a trace as it is stored.

use crate::table::{Column, Table, Values};
use crate::{Content, Error, Exporter, Result, Sink, StoredTrace, Writer};
use domain::trial::Trial;
use notebook::record;
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use std::io::{self, Write};
use std::sync::Arc;

/// A table of trials, or a trace as it is stored.
pub(crate) struct Parquet;

impl Exporter for Parquet {
    fn name(&self) -> &'static str {
        "parquet"
    }

    fn about(&self) -> &'static str {
        "For DuckDB, pandas, Polars, Spark"
    }

    fn writers(&self) -> &'static [Writer] {
        &[Writer::Trials(trials), Writer::Trace(trace)]
    }

    fn content(&self) -> Content {
        Content::Binary
    }
}

/// One row a trial; see [`crate::table`] for the columns. Times are nanoseconds in UTC.
fn trials(trials: &[Trial], out: &mut dyn Sink) -> Result<()> {
    write(&Table::of(trials), out).map_err(Error::write)
}

/// The trace's own file.
fn trace(trace: &mut StoredTrace<'_>, out: &mut dyn Sink) -> Result<()> {
    io::copy(&mut trace.stored()?, out)?;
    Ok(())
}

fn write(table: &Table, out: impl Write + Send) -> ParquetResult<()> {
    let entry = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_key_value_metadata(Some(vec![
            entry("flyball.schema", record::SCHEMA.to_string()),
            entry("flyball.written_by", record::PROGRAM.to_owned()),
        ]))
        .build();
    let fields = table.columns.iter().map(type_of).collect::<ParquetResult<_>>()?;
    let schema = Arc::new(Type::group_type_builder("trials").with_fields(fields).build()?);
    let mut file = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for column in &table.columns {
        let mut writer = group.next_column()?.expect("the schema has this column");
        write_column(&mut writer, &column.values)?;
        writer.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

fn type_of(column: &Column) -> ParquetResult<TypePtr> {
    let (physical, logical) = match column.values {
        Values::Text(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        Values::Integer(_) => (PhysicalType::INT64, None),
        Values::Number(_) => (PhysicalType::DOUBLE, None),
        Values::Time(_) => (PhysicalType::INT64, Some(LogicalType::timestamp(true, TimeUnit::NANOS))),
    };
    let builder = Type::primitive_type_builder(&column.name, physical);
    Ok(Arc::new(builder.with_repetition(Repetition::OPTIONAL).with_logical_type(logical).build()?))
}

fn write_column(writer: &mut SerializedColumnWriter<'_>, values: &Values) -> ParquetResult<()> {
    match values {
        Values::Text(v) => put::<ByteArrayType, _>(writer, v, |text| ByteArray::from(text.as_str())),
        Values::Integer(v) => put::<Int64Type, _>(writer, v, |number| *number),
        Values::Number(v) => put::<DoubleType, _>(writer, v, |number| *number),
        Values::Time(v) => put::<Int64Type, _>(writer, v, |time| time.unix_nanos()),
    }
}

fn put<P: DataType, V>(
    writer: &mut SerializedColumnWriter<'_>,
    values: &[Option<V>],
    convert: impl Fn(&V) -> P::T,
) -> ParquetResult<()> {
    let present: Vec<i16> = values.iter().map(|v| i16::from(v.is_some())).collect();
    let values: Vec<P::T> = values.iter().flatten().map(convert).collect();
    writer.typed::<P>().write_batch(&values, Some(&present), None)?;
    Ok(())
}
