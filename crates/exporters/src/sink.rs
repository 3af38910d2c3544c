//! Where an export goes.

use std::io::{self, Read, Write};
use std::path::Path;

/// Takes the bytes of one stream, and what their reader ought to know besides.
pub trait Sink: Write + Send {
    /// Something to know that the format cannot say.
    fn warn(&mut self, warning: &str);
}

/// Takes whole files of one folder.
pub trait FolderSink {
    /// Where the folder is, as a person named it.
    fn place(&self) -> &Path;

    /// Makes a file at a path below the folder, with the folders that it lies in, and copies `content` into
    /// it.
    ///
    /// # Errors
    /// Where it cannot be made, or `content` cannot be read.
    fn file(&mut self, path: &Path, content: &mut dyn Read) -> io::Result<()>;

    /// Something to know that the files cannot say.
    fn warn(&mut self, warning: &str);

    /// What was written, in a line.
    fn say(&mut self, line: &str);
}
