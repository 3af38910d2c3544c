//! Where an export goes.

use crate::args::ExportFormat;
use crate::exit::Usage;
use crate::terminal;
use anyhow::Result;
use files::output::Output;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// What is written to.
enum To {
    File(BufWriter<Output>),
    Stdout(Box<dyn Write + Send>),
}

/// A file, or standard output, whose reader may leave before the end.
pub struct Out {
    to: To,
    pub reader_left: bool,
}

impl Out {
    pub fn open(path: Option<&Path>, format: ExportFormat) -> Result<Self> {
        let to = match path.filter(|p| *p != Path::new("-")) {
            Some(path) => To::File(BufWriter::new(Output::open(path)?)),
            None if format == ExportFormat::Parquet && terminal::is_terminal() => {
                return Err(Usage("Parquet is not for a terminal; name a file with --out".into()).into());
            }
            None if format == ExportFormat::Parquet => {
                To::Stdout(Box::new(BufWriter::new(terminal::verbatim())))
            }
            None => To::Stdout(Box::new(BufWriter::new(terminal::data()))),
        };
        Ok(Self { to, reader_left: false })
    }

    /// Puts a file into its place, now that it is whole.
    pub fn finish(self) -> Result<()> {
        match self.to {
            To::File(file) => Ok(file.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?),
            To::Stdout(_) => Ok(()),
        }
    }

    fn noting<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.reader_left |= matches!(&result, Err(e) if e.kind() == io::ErrorKind::BrokenPipe);
        result
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = match &mut self.to {
            To::File(file) => file.write(bytes),
            To::Stdout(out) => out.write(bytes),
        };
        self.noting(result)
    }
    fn flush(&mut self) -> io::Result<()> {
        let result = match &mut self.to {
            To::File(file) => file.flush(),
            To::Stdout(out) => out.flush(),
        };
        self.noting(result)
    }
}
