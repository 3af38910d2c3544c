//! Where an export goes.

use crate::args::ExportFormat;
use crate::exit::Usage;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::Path;

/// A file, or standard output, whose reader may leave before the end.
pub struct Out {
    to: Box<dyn Write + Send>,
    pub reader_left: bool,
}

impl Out {
    pub fn open(path: Option<&Path>, format: ExportFormat) -> Result<Self> {
        let to: Box<dyn Write + Send> = match path.filter(|p| *p != Path::new("-")) {
            Some(path) => {
                let file = File::create(path)
                    .with_context(|| format!("cannot write the export `{}`", path.display()))?;
                Box::new(BufWriter::new(file))
            }
            None if format == ExportFormat::Parquet && io::stdout().is_terminal() => {
                return Err(Usage("Parquet is not for a terminal; name a file with --out".into()).into());
            }
            None => Box::new(BufWriter::new(io::stdout())),
        };
        Ok(Self { to, reader_left: false })
    }

    fn noting<T>(&mut self, result: io::Result<T>) -> io::Result<T> {
        self.reader_left |= matches!(&result, Err(e) if e.kind() == io::ErrorKind::BrokenPipe);
        result
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let result = self.to.write(bytes);
        self.noting(result)
    }
    fn flush(&mut self) -> io::Result<()> {
        let result = self.to.flush();
        self.noting(result)
    }
}
