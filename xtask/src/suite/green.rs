//! Which tree was tested last without a failure: `target/last-green`.

use cargo_metadata::MetadataCommand;
use std::error::Error;
use std::fs;
use std::process::Command;

/// The hash of the tree that is checked out; `None` where files differ from it, or where there is no
/// repository.
pub fn tree() -> Result<Option<String>, Box<dyn Error>> {
    let git = |arguments: &[&str]| -> Result<Option<String>, Box<dyn Error>> {
        let output = Command::new("git").args(["-C", env!("CARGO_MANIFEST_DIR")]).args(arguments).output()?;
        let text = String::from_utf8(output.stdout)?;
        Ok(output.status.success().then(|| text.trim().to_owned()))
    };
    match git(&["status", "--porcelain"])? {
        Some(differences) if differences.is_empty() => git(&["rev-parse", "HEAD^{tree}"]),
        _ => Ok(None),
    }
}

/// Writes down that a tree is green, where it is still what is checked out.
pub fn note(tested: Option<String>) -> Result<(), Box<dyn Error>> {
    let Some(tree) = tested.filter(|tested| matches!(tree(), Ok(Some(now)) if now == *tested)) else {
        eprintln!("target/last-green is not written: what was tested is not what is committed");
        return Ok(());
    };
    let metadata = MetadataCommand::new().no_deps().other_options(vec!["--offline".into()]).exec()?;
    fs::write(metadata.target_directory.join("last-green"), format!("{tree}\n"))?;
    Ok(())
}
