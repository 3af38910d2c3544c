//! Where an export goes: a file, standard output, a new folder.

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
    /// Whether he has left.
    pub reader_left: bool,
}

impl Out {
    /// Opens a file, or standard output without one; the reason where a terminal would be given bytes.
    ///
    /// # Errors
    /// Where the file cannot be made.
    pub fn open(path: Option<&Path>, format: &dyn Exporter) -> Result<std::result::Result<Self, String>> {
        let to = match (path.filter(|p| *p != Path::new("-")), format.content()) {
            (Some(path), _) => To::File(BufWriter::new(Output::open(path)?)),
            (None, Content::Binary) if crate::is_terminal() => {
                let name = format.name();
                return Ok(Err(format!("{name} is not for a terminal; name a file with --out")));
            }
            (None, Content::Binary) => To::Stdout(Box::new(BufWriter::new(crate::verbatim()))),
            (None, Content::Text) => To::Stdout(Box::new(BufWriter::new(crate::data()))),
        };
        Ok(Ok(Self { to, reader_left: false }))
    }

    /// Puts a file into its place, now that it is whole.
    ///
    /// # Errors
    /// Where it cannot be written.
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
        crate::warning(warning);
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
        crate::warning(warning);
    }

    fn say(&mut self, line: &str) {
        crate::say(line);
    }
}
