//! What strangers wrote is read by a process that can do nothing else.
//!
//! The one that was asked to import opens the file, hands its descriptor to this same program, started again
//! as `read-foreign`, and takes values back: never text that would still have to be understood. The reader
//! raises its walls (crate `confine`) before it has seen a byte of the file. What it answers is not believed
//! either: lengths are bounded, each value is decoded strictly, and a reader that dies is an error of the
//! import. Programs of others that unpack a file are confined likewise, as `unpack-foreign`.
//!
//! The design is OpenSSH's privilege separation (Provos, Friedl and Honeyman, "Preventing Privilege
//! Escalation", 2003).

mod process;
mod reader;
mod unpacking;
mod wire;

use std::path::Path;

pub use process::{Failure, Imported, Part, Reader};
pub use reader::serve;
pub use unpacking::{Unpacking, unpack};

/// Confines this process to a notebook, which may be somebody else's, and to where it writes. It stays who it
/// is, for a notebook may be root's alone; what does not stand here is not told, for without walls it does no
/// more than it was asked to.
pub fn look_only(notebook: &Path, out: Option<&Path>) {
    // The nearest folder that is there: a folder to be written may have to be made with the one above it.
    let named = |folder: &Path| folder == Path::new("") || folder.is_dir();
    let above = out.and_then(|out| out.ancestors().skip(1).find(|folder| named(folder)));
    let beside = above.map(|folder| if folder == Path::new("") { Path::new(".") } else { folder });
    // The file itself too: it may be a link into another folder.
    let paths: Vec<&Path> = [Some(notebook), beside, out].into_iter().flatten().collect();
    let _ = confine::looker(&paths);
}

/// A bound on what a file unpacks to: a day of `sadf -j` of a large machine at one sample a second is some 10
/// GB. Packed zeros would otherwise be read for ever.
pub const MAX_UNPACKED: u64 = 64 << 30;
