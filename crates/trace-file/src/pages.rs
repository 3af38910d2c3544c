//! The pages of a file that a stranger handed over, before the library decodes any.
//!
//! The library believes what a page's header says: it clears as much memory as the header names, and hands on
//! as many values. A page of a trace is small ([`PAGE_ROWS`]) and of one kind, so whatever is larger, of
//! another kind or not where the directory says is refused here. Columns that lie on each other are refused
//! too: a small file could otherwise hold any number of values.
//!
//! Source: the Parquet format's `parquet.thrift` (`PageHeader`, `DataPageHeader`) and Thrift's compact
//! protocol (`doc/specs/thrift-compact-protocol.md`).

use crate::error::{Error, Result};
use crate::write::{BATCH, PAGE_ROWS};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use std::ops::Range;

/// Values a page: the writer ends one at the batch in which it is full.
const MAX_VALUES: u64 = (PAGE_ROWS + BATCH) as u64;

/// Bytes of a page, unpacked: values of 64 bits that do not pack, the widths of their blocks, and the levels
/// that say which are there, have 46 KB.
const MAX_BYTES: u64 = 64 << 10;

/// The mark at the file's start, and that at its end with the directory's length before it.
const MARK: usize = 4;
const TAIL: usize = 8;

/// Looks at each page of each column.
pub(crate) fn check(file: &[u8], metadata: &ParquetMetaData) -> Result<()> {
    let mut from = MARK;
    let mut rows = 0_i64;
    for (number, group) in metadata.row_groups().iter().enumerate() {
        for (index, column) in group.columns().iter().enumerate() {
            let place = || format!("column {index} of row group {number}");
            let chunk = range(column, from, file.len().saturating_sub(TAIL))
                .ok_or_else(|| Error::Damaged(format!("{} is not where it is said to be", place())))?;
            from = chunk.end;
            let values =
                values_of(&file[chunk]).map_err(|why| Error::Damaged(format!("in {} {why}", place())))?;
            if i64::try_from(values) != Ok(group.num_rows()) {
                let said = group.num_rows();
                return Err(Error::Damaged(format!("{} has {values} values, not {said}", place())));
            }
        }
        rows = rows.saturating_add(group.num_rows());
    }
    let said = metadata.file_metadata().num_rows();
    if rows == said { Ok(()) } else { Err(Error::Damaged(format!("it has {rows} rows, not {said}"))) }
}

/// Where a column's pages are, between what was there before and the file's end.
fn range(column: &ColumnChunkMetaData, from: usize, end: usize) -> Option<Range<usize>> {
    // A dictionary would be a page before the first one of data; a trace has none.
    let start = usize::try_from(column.data_page_offset()).ok()?;
    let length = usize::try_from(column.compressed_size()).ok()?;
    let is_alone = column.dictionary_page_offset().is_none() && start >= from;
    let chunk = start..start.checked_add(length)?;
    (is_alone && chunk.end <= end).then_some(chunk)
}

/// How many values the pages of a column have.
fn values_of(mut chunk: &[u8]) -> Result<u64, String> {
    let mut values = 0;
    while !chunk.is_empty() {
        let mut header = Header::default();
        let mut rest = chunk;
        header.read(&mut rest, 0).ok_or("a page has no header of a trace's")?;
        if header.bytes > MAX_BYTES || header.values > MAX_VALUES {
            return Err(format!(
                "a page claims {} bytes and {} values; a trace's has {MAX_BYTES} and {MAX_VALUES} at most",
                header.bytes, header.values
            ));
        }
        let packed = usize::try_from(header.packed_bytes).ok();
        let after = packed.and_then(|length| rest.get(length..));
        chunk = after.ok_or("a page is longer than its column")?;
        values += header.values;
    }
    Ok(values)
}

/// What a page's header says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Header {
    bytes: u64,
    packed_bytes: u64,
    values: u64,
}

/// Types of Thrift's compact protocol.
const STOP: u8 = 0;
const I32: u8 = 5;
const STRUCT: u8 = 12;

/// The structures that a header consists of, by how deep they lie.
const PAGE: u8 = 0;
const DATA_PAGE: u8 = 1;

impl Header {
    /// Reads a structure, and takes it off `bytes`; `None` where it is no header of a page of a trace.
    fn read(&mut self, bytes: &mut &[u8], depth: u8) -> Option<()> {
        let mut last = 0_u8;
        loop {
            let (first, rest) = bytes.split_first()?;
            *bytes = rest;
            if *first == STOP {
                return Some(());
            }
            // Fields come in their order, and so near to each other that the step is in this byte.
            let field = last.checked_add(first >> 4).filter(|field| *field > last)?;
            last = field;
            match (depth, field, first & 0x0f) {
                (PAGE, 1, I32) if number(bytes)? == 0 => {}
                (PAGE, 2, I32) => self.bytes = number(bytes)?,
                (PAGE, 3, I32) => self.packed_bytes = number(bytes)?,
                (PAGE, 5, STRUCT) => self.read(bytes, DATA_PAGE)?,
                (DATA_PAGE, 1, I32) => self.values = number(bytes)?,
                // Encodings of the values and the levels, which the library looks at.
                (DATA_PAGE, 2..=4, I32) => drop(number(bytes)?),
                _ => return None,
            }
        }
    }
}

/// A number of the compact protocol, zigzagged and in groups of seven bits, that is not negative.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    const MAX_GROUPS: u32 = 5;
    let mut zigzag = 0_u64;
    for group in 0..MAX_GROUPS {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        zigzag |= u64::from(byte & 0x7f) << (7 * group);
        if byte & 0x80 == 0 {
            return (zigzag & 1 == 0).then_some(zigzag >> 1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Type, bytes, packed bytes and the data page's values and encodings, each as a field of 32 bits.
    const REAL: [u8; 16] = [0x15, 0, 0x15, 20, 0x15, 8, 0x2c, 0x15, 6, 0x15, 10, 0x15, 6, 0x15, 6, 0];

    fn read(bytes: &[u8]) -> Option<Header> {
        let mut header = Header::default();
        header.read(&mut &bytes[..], PAGE)?;
        Some(header)
    }

    #[test]
    fn a_header_is_read_and_a_cut_one_is_none() {
        let whole = [&REAL[..], &[0]].concat();
        assert_eq!(read(&whole), Some(Header { bytes: 10, packed_bytes: 4, values: 3 }));
        for length in 0..whole.len() {
            assert_eq!(read(&whole[..length]), None, "{length}");
        }
    }

    #[test]
    fn other_pages_and_negative_numbers_are_no_header_of_a_trace() {
        let dictionary = [0x15, 4, 0x15, 20, 0x15, 8, 0x4c, 0x15, 6, 0x15, 0, 0, 0];
        let negative = [0x15, 0, 0x15, 21, 0x15, 8, 0];
        let endless = [0x15, 0, 0x15, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0];
        for bytes in [&dictionary[..], &negative, &endless] {
            assert_eq!(read(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_page_that_claims_more_than_a_trace_has_is_refused() {
        // 2^30 bytes.
        let large = [0x15, 0, 0x15, 0x80, 0x80, 0x80, 0x80, 0x08, 0x15, 0, 0];
        let why = values_of(&large).unwrap_err();
        assert!(why.starts_with("a page claims 1073741824 bytes"), "{why}");
    }
}
