//! Where an export goes.

use crate::exit::Usage;
use anyhow::Result;
use exporters::{Content, Exporter, FolderSink, Sink};
use files::output::{NewFolder, Output};
use std::io::{self, BufWriter, Read, Write};
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
    pub fn open(path: Option<&Path>, format: &dyn Exporter) -> Result<Self> {
        let to = match (path.filter(|p| *p != Path::new("-")), format.content()) {
            (Some(path), _) => To::File(BufWriter::new(Output::open(path)?)),
            (None, Content::Binary) if terminal::is_terminal() => {
                let name = format.name();
                return Err(Usage(format!("{name} is not for a terminal; name a file with --out")).into());
            }
            (None, Content::Binary) => To::Stdout(Box::new(BufWriter::new(terminal::verbatim()))),
            (None, Content::Text) => To::Stdout(Box::new(BufWriter::new(terminal::data()))),
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

impl Sink for Out {
    fn warn(&mut self, warning: &str) {
        terminal::warning(warning);
    }
}

/// A folder that was not there before.
pub struct Folder(pub NewFolder);

impl FolderSink for Folder {
    fn place(&self) -> &Path {
        self.0.path()
    }

    fn file(&mut self, path: &Path, content: &mut dyn Read) -> io::Result<()> {
        self.0.write(path, content).map_err(io::Error::other)
    }

    fn warn(&mut self, warning: &str) {
        terminal::warning(warning);
    }

    fn say(&mut self, line: &str) {
        terminal::say(line);
    }
}
