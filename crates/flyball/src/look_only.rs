//! Walls around what only looks at a notebook.

use std::path::Path;

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
